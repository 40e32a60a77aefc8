"""SIGINT (Ctrl-C) and SIGTERM (schedulers): training ends after the step under way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """Training was asked to end, and its state is saved."""

    def __init__(self, signal_number: int, update: int) -> None:
        super().__init__(signal_number, update)
        self.signal = signal.Signals(signal_number)
        self.update = update

    @property
    def exit_code(self) -> int:
        """What a shell shows for a process that this signal ended: 130 or 143."""
        return 128 + self.signal


class StopRequest:
    """The first signal is remembered in `received`; a second SIGINT stops at once."""

    def __init__(self) -> None:
        self.received = 0
        self._at_once = False

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Signals are remembered within; then what was done with them before is done again."""
        before = {number: signal.signal(number, self._remember)
                  for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within, a signal is a KeyboardInterrupt: for what takes long and changes nothing."""
        if self.received:
            raise KeyboardInterrupt
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _remember(self, number: int, frame: FrameType | None) -> None:
        again = self.received == number == signal.SIGINT
        self.received = number
        if again or self._at_once:
            raise KeyboardInterrupt
