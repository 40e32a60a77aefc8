"""What every process of a pool does when it begins."""

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """A parent that is killed does not end its pool, whose processes would wait for ever."""
    threading.Thread(target=_wait_and_end, daemon=True).start()


def _wait_and_end() -> None:
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    os._exit(1)
