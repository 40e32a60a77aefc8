"""Tokens drawn by their probability, the third strategy beside greedy and beam search."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from translate.data.vocabulary import EOS


class Sampling(NamedTuple):
    """Tokens drawn from p^(1/temperature), among the `top_k` likeliest, and of these the fewest
    that have a share of `top_p` (Holtzman et al. 2020).

    The seed and the sentence decide the draw, whatever else is translated with it.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 1


def draw(
    step: Float[Tensor, "batch vocabulary"], uniform: Float[Tensor, " batch"], sampling: Sampling
) -> tuple[Tensor, Tensor]:
    """(batch, 1) log-probabilities and tokens, by inverting the distribution function."""
    k = min(sampling.top_k or step.size(1), step.size(1))
    values, tokens = step.topk(k)
    p = (values / sampling.temperature).softmax(dim=1)
    p = p.masked_fill(p.cumsum(dim=1) - p >= sampling.top_p, 0.0)
    reached = p.cumsum(dim=1)
    place = (reached <= uniform[:, None] * reached[:, -1:]).sum(dim=1)
    place = place.clamp(max=(p > 0).sum(dim=1) - 1)[:, None]  # 0.99999 may be rounded to 1
    return values.gather(1, place), tokens.gather(1, place)


def uniform_numbers(
    seed: int, sources: Sequence[Sequence[int]], width: int
) -> Float[Tensor, "batch width"]:
    """Numbers from [0, 1), for each sentence its own."""
    rows = [np.random.default_rng([seed, *ids, EOS]).random(width, np.float32) for ids in sources]
    return torch.from_numpy(np.stack(rows))
