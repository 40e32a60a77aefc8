"""The batches of every update, made while the device works on those before them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from translate.data.batching import Batch, make_batch
from translate.data.ragged import Pairs
from translate.training.processes import Processes

Rows = NDArray[np.int64]  # of the pairs of a batch


class Counts(NamedTuple):
    """Of an update, in all processes."""

    tokens: int  # of the target: those that the loss counts
    source_tokens: int
    places: int  # of both sides, padding included

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> "Counts":
        return cls(sum(batch.tokens for batch in batches),
                   sum(batch.source_tokens for batch in batches),
                   sum(batch.src.numel() + batch.tgt_out.numel() for batch in batches))


Loaded = tuple[list[Batch], Counts]  # the batches of this process


def load(
    pairs: Pairs, plan: Sequence[Sequence[Rows]], processes: Processes, ahead: bool
) -> Iterable[Loaded]:
    """What this process takes of each update: every n-th of its batches.

    For a GPU they are made `ahead`, in another process, and lie in memory that it can copy from
    while it computes.
    """
    # With a generator of its own, or it would draw from the one that dropout draws from.
    return DataLoader(_Updates(pairs, plan, processes), batch_size=None, num_workers=int(ahead),
                      pin_memory=ahead and torch.cuda.is_available(), generator=torch.Generator())


class _Updates(Dataset[Loaded]):
    def __init__(
        self, pairs: Pairs, plan: Sequence[Sequence[Rows]], processes: Processes
    ) -> None:
        self._pairs = pairs
        self._plan = plan
        self._processes = processes

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, n: int) -> Loaded:
        update = self._plan[n]
        counts = Counts(*map(sum, zip(*map(self._count, update), strict=True)))
        own = update[self._processes.index::self._processes.number]
        if own:
            return [make_batch(self._pairs, rows) for rows in own], counts
        # The last update of an epoch may have fewer batches than there are processes: this one
        # takes part with a batch of which no place counts.
        batch = make_batch(self._pairs, update[0])
        return [replace(batch, places=batch.places[:0], source_tokens=0)], counts

    def _count(self, rows: Rows) -> tuple[int, int, int]:
        source, target = (side.lengths_of(rows) + 1 for side in self._pairs)  # with <eos>
        return (int(target.sum()), int(source.sum()),
                len(rows) * int(source.max() + target.max()))
