"""The heap of this process: how much freed memory it keeps while there is work, and what it returns to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock


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

WORKING = {M_MMAP_THRESHOLD: 32 << 20, M_TRIM_THRESHOLD: 1 << 30, M_TOP_PAD: 64 << 20, M_ARENA_MAX: 1}
"""Parameters of the heap while there is work: it keeps what is freed for the next column, since the system's fresh
pages cost more than most kernels. The first is the largest possible. All threads share one heap: what one thread has
freed serves the others, and a heap of a thread is limited to 64 MB, so that columns would not stay in it (a tenth of
the time of an analysis with two threads; 70 of 740 MB for the critical path of `halo`, 2 x 10^7 events). The C library
does not take the last one back."""

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


class _Workers:
    """The threads of this process that are at work (`working`)."""

    def __init__(self) -> None:
        self._lock, self._n, self._end_work = Lock(), 0, ExitStack()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let the heap keep freed memory (`WORKING`), and Arrow allocate from it, until no thread is in this context.

        Arrow's own allocator keeps what it has freed for itself: 100 of 840 MB for the critical path of `halo`, 2 x
        10^7 events.
        """
        with self._lock:
            if not self._n:
                self._begin_work()
            self._n += 1
        try:
            yield
        finally:
            with self._lock:
                self._n -= 1
                if not self._n:
                    self._end_work.close()

    def _begin_work(self) -> None:
        import pyarrow as pa

        set_heap(WORKING)
        self._end_work.callback(set_heap, RESTING)
        self._end_work.callback(pa.set_memory_pool, pa.default_memory_pool())
        pa.set_memory_pool(pa.system_memory_pool())


working = _Workers().working
"""Context of the work of a thread."""


def give_back() -> None:
    """Return the empty pages of the heap to the system.

    The GNU C library keeps them for later allocations: arrays below 32 MiB come from its heap once some of them were
    freed, and later allocations pin the pages in front of them. After all root causes of 2 x 10^7 events these were 760
    MB of 1.1 GB. The system clears pages that are needed again: doing this after each stage of that analysis cost a
    tenth of the processor time, and saved 7 % of the memory. What Arrow reads outside of `working` is in a separate
    heap.
    """
    # commands collect garbage rarely (`cli.main`): reference cycles would hold their memory until then
    gc.collect(1)
    trim, arrow = _of_libc("malloc_trim"), sys.modules.get("pyarrow")
    if trim is not None:
        trim(0)
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
