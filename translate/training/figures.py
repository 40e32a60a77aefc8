"""What updates have measured, read from the device now and then, so that no step waits for it."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from translate.data.batching import Batch
from translate.errors import UserError
from translate.training.checkpoint import Progress
from translate.training.loading import Counts
from translate.training.update import Measured


class _Pending(NamedTuple):
    """An update whose figures are still on the device."""

    number: int
    tokens: int
    shapes: str
    measured: Measured


class Figures:
    def __init__(self, max_skipped: int) -> None:
        self._max_skipped = max_skipped
        self._pending: list[_Pending] = []
        self.start()

    def start(self) -> None:
        """The time until now was no training."""
        self._counted = time.monotonic()

    def add(
        self, progress: Progress, batches: Sequence[Batch], counts: Counts, measured: Measured
    ) -> None:
        shapes = ", ".join(f"{len(b.src)} pairs of {b.src.size(1)} source and {b.tgt_in.size(1)} "
                           "target tokens" for b in batches)
        self._pending.append(_Pending(progress.update, counts.tokens, shapes, measured))
        progress.interval.source_tokens += counts.source_tokens
        progress.interval.places += counts.places

    def read(self, progress: Progress) -> None:
        """Wait for the device, and add what it has measured to the interval.

        Raises:
            UserError: too many updates in a row had to be left out.
        """
        interval = progress.interval
        pending, self._pending = self._pending, []
        for number, tokens, shapes, measured in pending:
            if measured.finite:
                smoothed, nll = measured.loss.tolist()
                interval.smoothed += smoothed
                interval.nll += nll
                interval.tokens += tokens
                interval.norm = float(measured.norm)
                progress.skipped_in_a_row = 0
                continue
            progress.skipped += 1
            progress.skipped_in_a_row += 1
            if progress.skipped_in_a_row == self._max_skipped:
                raise diverged(f"{self._max_skipped} updates in a row had a loss or gradient that "
                               f"is not finite, the last of them update {number:,} ({shapes})")
        now = time.monotonic()
        interval.seconds += now - self._counted
        self._counted = now


def diverged(what: str) -> UserError:
    return UserError(
        f"{what}; the last state and the best weights before it are whole.\nUsual causes: a "
        "learning rate too high (training.factor, training.warmup), no clipping "
        "(training.clip_norm), overflow in fp16 (training.precision), post-norm in a deep model "
        "(model.norm)")
