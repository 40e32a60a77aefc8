"""Ids to masked batches: buckets of like length under a budget of tokens, new in every epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from translate.data.encoding import Pairs
from translate.data.vocabulary import EOS, PAD, SOS


@dataclass(frozen=True)
class Batch:
    """Token ids and the masks that go with them; in masks True means «may attend»."""

    src: Int[Tensor, "batch source"]  # … <eos>
    tgt_in: Int[Tensor, "batch target"]  # <sos> …
    tgt_out: Int[Tensor, "batch target"]  # … <eos>
    src_mask: Bool[Tensor, "batch 1 1 source"]
    tgt_mask: Bool[Tensor, "batch 1 target target"]
    places: Int[Tensor, " tokens"]  # of tgt_out, flattened, that hold no padding
    source_tokens: int  # in src, without padding

    @property
    def tokens(self) -> int:
        """In tgt_out, without padding: what the loss is a mean over."""
        return len(self.places)

    def to(self, device: torch.device) -> "Batch":
        tensors: dict[str, Any] = {name: value.to(device, non_blocking=True)
                                   for name, value in vars(self).items()
                                   if isinstance(value, Tensor)}
        return replace(self, **tensors)


def pad(
    sequences: Sequence[Sequence[int] | NDArray[np.int32]], first: list[int], last: list[int]
) -> Tensor:
    """(batch, longest) ids with `first` before and `last` behind each sequence, then `<pad>`."""
    width = len(first) + max(map(len, sequences)) + len(last)
    ids = np.full((len(sequences), width), PAD, dtype=np.int64)
    ids[:, :len(first)] = first
    for row, sequence in zip(ids, sequences, strict=True):
        end = len(first) + len(sequence)
        row[len(first):end] = sequence
        row[end:end + len(last)] = last
    return torch.from_numpy(ids)


def padding_mask(ids: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch 1 1 length"]:
    return (ids != PAD)[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "length length"]:
    """Position i may attend to the positions up to i (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def make_batch(pairs: Pairs, rows: NDArray[np.int64]) -> Batch:
    source = [pairs.source[i] for i in rows]
    target = [pairs.target[i] for i in rows]
    src, tgt_in, tgt_out = pad(source, [], [EOS]), pad(target, [SOS], []), pad(target, [], [EOS])
    return Batch(
        src, tgt_in, tgt_out, padding_mask(src),
        padding_mask(tgt_in) & causal_mask(tgt_in.size(1)),
        places=(tgt_out != PAD).flatten().nonzero()[:, 0],
        source_tokens=sum(map(len, source)) + len(rows),
    )


class TokenBatchSampler:
    """Rows of pairs of like length, as many as fit `batch_tokens` with their padding.

    A batch of n pairs counts n times its longest side, `<eos>` included. The order and the make-up
    of the batches depend on the seed and the epoch alone.
    """

    def __init__(self, pairs: Pairs, batch_tokens: int, seed: int) -> None:
        self._lengths = pairs.source.lengths + 1, pairs.target.lengths + 1
        self._batch_tokens = batch_tokens
        self._seed = seed

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        random = np.random.default_rng((self._seed, epoch))
        ordered = self.in_order(random.permutation(len(self._lengths[0])))
        return [ordered[i] for i in random.permutation(len(ordered))]

    def in_order(self, rows: NDArray[np.int64] | None = None) -> list[NDArray[np.int64]]:
        """Batches from short to long; rows of one length stay in the order given."""
        source, target = self._lengths
        if rows is None:
            rows = np.arange(len(source))
        # Sorted by target, then source length: little padding on either side.
        rows = rows[np.lexsort((source[rows], target[rows]))]
        longest = np.maximum(source, target)[rows]
        return list(_cut(rows, longest, self._batch_tokens))


def _cut(
    rows: NDArray[np.int64], longest: NDArray[np.int64], budget: int
) -> Iterator[NDArray[np.int64]]:
    start, widest = 0, 0
    for end, length in enumerate(longest.tolist()):
        if (end - start + 1) * max(widest, length) > budget and end > start:
            yield rows[start:end]
            start, widest = end, 0
        widest = max(widest, length)
    if start < len(rows):
        yield rows[start:]
