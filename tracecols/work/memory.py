"""How much memory there is, and what is free goes back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache


def physical() -> int | None:
    """Return the bytes of memory of the machine; None where they are not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


@cache
def _trim() -> Callable[[int], int] | None:
    """Return `malloc_trim` of the GNU C library; others have none, or give memory back by themselves."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return found


def give_back() -> None:
    """Give back the pages of the heap on which nothing is.

    The GNU C library keeps them for what comes next: arrays below 32 MiB come from its heap once some of them were
    freed, and what is allocated after them holds the pages in front. After all root causes of 2 x 10^7 events these
    were 760 MB of 1.1 GB. It is done once for each long stage of an analysis (`model.model.LONG`): after each slice it
    saved no memory more, and pages that are needed again at once cost time.
    """
    trim = _trim()
    if trim is not None:
        trim(0)
