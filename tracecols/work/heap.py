"""The heap of this process: what it keeps of freed memory while there is work, and what goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Mapping
from functools import cache


@cache
def _of_libc(name: str) -> Callable[..., int] | None:
    """Return a function of the GNU C library for its heap; None where there is another library."""
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
pages cost more than most kernels. The first is the largest there is."""

RESTING = {M_MMAP_THRESHOLD: 32 << 20, M_TRIM_THRESHOLD: 64 << 20, M_TOP_PAD: 128 << 10}
"""Those that the heap of any process comes to have by itself, once an array of 32 MiB was freed."""


def has_trim() -> bool:
    """Say whether free pages can be given back (`give_back`)."""
    return _of_libc("malloc_trim") is not None


def set_heap(parameters: Mapping[int, int]) -> None:
    """Set parameters of the heap of the GNU C library; where it is another one nothing happens."""
    mallopt = _of_libc("mallopt")
    if mallopt is not None:
        for parameter, value in parameters.items():
            mallopt(parameter, value)


def give_back() -> None:
    """Give back the pages of the heap on which nothing is.

    The GNU C library keeps them for what comes next: arrays below 32 MiB come from its heap once some of them were
    freed, and what is allocated after them holds the pages in front. After all root causes of 2 x 10^7 events these
    were 760 MB of 1.1 GB. Pages that are needed again the system makes empty first: after each stage of that analysis
    it cost a tenth of the processor time, and saved 7 % of the memory. In other programs than ours what Arrow read
    columns into is a heap of its own.
    """
    # commands look for garbage seldom (`cli.main`): what refers to itself would hold what it is made of until then
    gc.collect(1)
    trim, arrow = _of_libc("malloc_trim"), sys.modules.get("pyarrow")
    if trim is not None:
        trim(0)
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
