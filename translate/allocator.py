"""Memory for models on a CPU."""

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # glibc's malloc.h


def keep_freed_memory() -> None:
    """Have glibc keep the large buffers that a step frees, for the next step.

    By default each goes back to the system, and the next one is paid for with a page fault every
    4 KiB. Where the C library is another one, nothing is changed.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_TOP_PAD, 64 * 2**20)
