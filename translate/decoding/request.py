"""What is asked of a search, and what it answers."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from translate.data.vocabulary import EOS, SOS
from translate.decoding.sampling import Sampling


class Request(NamedTuple):
    """Sentences to be searched together; ids without `<eos>`."""

    sources: list[list[int]]
    limits: list[int]  # of each translation's length, <eos> included
    beam: int
    n_best: int = 1
    sampling: Sampling | None = None


class Hypothesis(NamedTuple):
    """Target ids without `<sos>` and `<eos>`; the log-probability counts `<eos>`."""

    tokens: list[int]
    log_probability: float  # nats, summed in float32
    score: float  # log_probability / length penalty


Answer = list[list[Hypothesis]]  # of each sentence of a request, the best first


def length_penalty(length: Tensor | int, alpha: float) -> Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); |Y| counts `<eos>`."""
    return ((5.0 + torch.as_tensor(length)) / 6.0) ** alpha


def hypotheses(
    tokens: Int[Tensor, "sentences n length"],
    log_probability: Float[Tensor, "sentences n"],
    scores: Float[Tensor, "sentences n"],
) -> Answer:
    """Of `tokens`, those between `<sos>` and `<eos>`; a score of −∞ is none."""
    return [[Hypothesis(ids[ids.index(SOS) + 1:ids.index(EOS)], total, score)
             for ids, total, score in zip(*of_sentence, strict=True) if score != -torch.inf]
            for of_sentence in zip(tokens.tolist(), log_probability.tolist(), scores.tolist(),
                                   strict=True)]
