"""The heap of this process: how much freed memory it keeps while there is work, and what it returns to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Mapping
from functools import cache


@cache
def _of_libc(name: str) -> Callable[..., int] | None:
    """Return a function of the GNU C library for its heap; None with another library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8

WORKING = {M_MMAP_THRESHOLD: 32 << 20, M_TRIM_THRESHOLD: 1 << 30, M_TOP_PAD: 64 << 20}
"""Parameters of the heap while there is work: it keeps what is freed for the next column, since the system's fresh
pages cost more than most kernels. The first is the largest possible."""

RESTING = {M_MMAP_THRESHOLD: 32 << 20, M_TRIM_THRESHOLD: 64 << 20, M_TOP_PAD: 128 << 10}
"""Parameters that the heap of any process adopts by itself once an array of 32 MiB was freed."""


def has_trim() -> bool:
    """Return whether free pages can be given back (`give_back`)."""
    return _of_libc("malloc_trim") is not None


def set_heap(parameters: Mapping[int, int]) -> None:
    """Set parameters of the heap of the GNU C library; with another library nothing happens."""
    mallopt = _of_libc("mallopt")
    if mallopt is not None:
        for parameter, value in parameters.items():
            mallopt(parameter, value)


def give_back() -> None:
    """Return the empty pages of the heap to the system.

    The GNU C library keeps them for later allocations: arrays below 32 MiB come from its heap once some of them were
    freed, and later allocations pin the pages in front of them. After all root causes of 2 x 10^7 events these were 760
    MB of 1.1 GB. The system clears pages that are needed again: doing this after each stage of that analysis cost a
    tenth of the processor time, and saved 7 % of the memory. In programs other than the command line, Arrow reads
    columns into a separate heap.
    """
    # commands collect garbage rarely (`cli.main`): reference cycles would hold their memory until then
    gc.collect(1)
    trim, arrow = _of_libc("malloc_trim"), sys.modules.get("pyarrow")
    if trim is not None:
        trim(0)
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
