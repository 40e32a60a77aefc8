"""One process at a time trains a run."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from translate.errors import UserError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run of this folder, which need not exist yet.

    The system lets go of it when the process ends, however it ends: a file that a crash left
    behind locks nothing.

    Raises:
        UserError: another process holds it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_name(f".{folder.name}.lock")
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            file.seek(0)
            raise UserError(f"{folder} is being trained by {file.read() or 'another process'}: "
                            "wait for it, or name another run with --set name=…") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
