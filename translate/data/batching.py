"""Ids to masked batches: buckets of like length under a budget of tokens, new in every epoch."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from translate.data.ragged import Pairs
from translate.data.vocabulary import EOS, PAD, SOS

POOL = 1_000_000  # pairs of an epoch that are sorted together


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
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """In memory that a GPU can copy from while the program goes on."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        tensors: dict[str, Any] = {name: change(value) for name, value in vars(self).items()
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


def stack(
    x: Shaped[Tensor, "..."], y: Shaped[Tensor, "..."], dim: int = -1, behind: bool = True,
    fill: int = 0, rows: int = 0
) -> Shaped[Tensor, "..."]:
    """Of dimension `rows`, those of `x`, then those of `y`; the shorter of them is filled up along
    `dim`, behind or before."""
    shape = list(x.shape)
    shape[rows] += y.size(rows)
    shape[dim] = max(x.size(dim), y.size(dim))
    both = x.new_full(shape, fill)
    for part, place in zip((x, y), both.tensor_split([x.size(rows)], rows), strict=True):
        start = 0 if behind else shape[dim] - part.size(dim)
        place.narrow(dim, start, part.size(dim)).copy_(part)
    return both


def padding_mask(ids: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch 1 1 length"]:
    return (ids != PAD)[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "length length"]:
    """Position i may attend to the positions up to i (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def make_batch(pairs: Pairs, rows: NDArray[np.int64]) -> Batch:
    source = [pairs.source[i] for i in rows]
    target = [pairs.target[i] for i in rows]
    return masked(pad(source, [], [EOS]), pad(target, [SOS], []), pad(target, [], [EOS]))


def masked(
    src: Int[Tensor, "batch source"],
    tgt_in: Int[Tensor, "batch target"],
    tgt_out: Int[Tensor, "batch target"],
) -> Batch:
    """Padded ids, with the masks and counts that follow from them."""
    return Batch(
        src, tgt_in, tgt_out, padding_mask(src),
        padding_mask(tgt_in) & causal_mask(tgt_in.size(1)),
        places=(tgt_out != PAD).flatten().nonzero()[:, 0],
        source_tokens=int((src != PAD).sum()),
    )


class TokenBatchSampler:
    """Rows of pairs of like length, as many as fit `batch_tokens` with their padding.

    A batch of n pairs counts n times its longest side, `<eos>` included. The order and the make-up
    of the batches depend on the seed and the epoch alone.
    """

    def __init__(self, pairs: Pairs, batch_tokens: int, seed: int) -> None:
        self._pairs = pairs
        self._batch_tokens = batch_tokens
        self._seed = seed

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """Of an epoch; they take 8 bytes a pair."""
        random = np.random.default_rng((self._seed, epoch))
        rows = random.permutation(len(self._pairs))
        pools = np.array_split(rows, math.ceil(len(rows) / POOL))
        batches = [batch for pool in pools for batch in self.in_order(pool)]
        return [batches[i] for i in random.permutation(len(batches))]

    def in_order(self, rows: NDArray[np.int64] | None = None) -> list[NDArray[np.int64]]:
        """Batches from short to long; rows of one length stay in the order given."""
        if rows is None:
            rows = np.arange(len(self._pairs))
        source, target = (side.lengths_of(rows) + 1 for side in self._pairs)
        longest = np.maximum(source, target)
        # By the longer side, which decides how many fit. Then by the other: as the difference falls
        # and rises by turns, a batch that goes on in the next length finds it much the same there.
        difference = source - target
        order = np.lexsort((np.where(longest % 2, difference, -difference), longest))
        return list(_cut(rows[order], longest[order], self._batch_tokens))


def _cut(
    rows: NDArray[np.int64], longest: NDArray[np.int64], budget: int
) -> Iterator[NDArray[np.int64]]:
    """The rows, in ascending order of `longest`, in batches as large as the budget allows."""
    start = 0
    while start < len(rows):
        widths = longest[start:start + max(1, budget // longest[start])]
        fitting = np.searchsorted(widths * np.arange(1, len(widths) + 1), budget, side="right")
        end = start + max(1, int(fitting))
        yield rows[start:end]
        start = end
