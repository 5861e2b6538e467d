"""Advice to the system about files that are mapped into memory: which parts will be read, and which are not needed.

Around each page that is accessed, a system reads as much as the device's read-ahead: with 8 MB an analysis of 10^9
events, whose temporary files of 5 GB did not fit into the page cache, had read 437 GB before it compared any waits.
Files are therefore mapped for reading page by page (`read_at_random`), and callers announce what they will read: a page
that is read by itself takes about 100 us, one that is read with its neighbours less than 10.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.vectors import Ints

EVERY = 64
"""One of this many rows is sampled to find what will be read: if they are far apart, little else is near."""

FEW = 1 << 13
"""Fewer rows than this are read page by page: announcing them costs more."""

PART = 1 << 16
"""Bytes that are read together."""


def read_at_random(pages: mmap.mmap) -> None:
    """Make the system read only those pages of a mapped file that are accessed, or announced by this module."""
    if hasattr(mmap, "MADV_RANDOM"):
        pages.madvise(mmap.MADV_RANDOM)


def let_go(pages: mmap.mmap) -> None:
    """Return the pages of a mapped file to the system; until then they count as memory of the process."""
    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


class _Place(NamedTuple):
    """Where an array is in a mapped file."""

    pages: mmap.mmap
    offset: int
    itemsize: int
    """`offset` and `itemsize`: bytes before the first element, and of each one."""

    @classmethod
    def of(cls, array: NDArray[Any]) -> _Place | None:
        """Return the place of an array; None if it is in memory, or if the system takes no advice."""
        first, base = array, array.base
        while isinstance(base, np.ndarray | memoryview):
            first, base = (base, base.base) if isinstance(base, np.ndarray) else (first, base.obj)
        if not isinstance(base, mmap.mmap) or not hasattr(mmap, "MADV_WILLNEED"):
            return None
        # the first array has the bytes up to the end of the file
        address, address_of_first = (of.__array_interface__["data"][0] for of in (array, first))
        return cls(base, address - address_of_first + len(base) - first.nbytes, array.itemsize)

    def expect(self, parts: Iterable[tuple[int, int]]) -> None:
        """Prefetch elements first <= i < stop of parts, which may be empty or extend beyond the array."""
        for first, stop in parts:
            if first < stop:
                begin = (self.offset + self.itemsize * first) // PART * PART
                end = min(self.offset + self.itemsize * stop, len(self.pages))
                self.pages.madvise(mmap.MADV_WILLNEED, begin, end - begin)


def expect(array: NDArray[Any], parts: Iterable[tuple[int, int]] | None = None) -> None:
    """Prefetch a contiguous array if it is in a file: all of it, or the elements first <= i < stop of some parts."""
    if array.size and (place := _Place.of(array)) is not None:
        place.expect([(0, array.size)] if parts is None else parts)


def some_of(rows: NDArray[np.signedinteger[Any]]) -> NDArray[np.signedinteger[Any]]:
    """Return a sample of rows near which the others are: every `EVERY`-th of many, none of few."""
    return rows[::EVERY] if rows.size >= FEW else rows[:0]


def expect_near(array: NDArray[Any], rows: NDArray[np.signedinteger[Any]]) -> None:
    """Prefetch the neighbourhood of some elements of an array, if it is in a file; negative rows are ignored."""
    if rows.size and (place := _Place.of(array)) is not None:
        place.expect(parts_near(rows, PART // place.itemsize))


def expect_ranges(
    array: NDArray[Any], begin: NDArray[np.signedinteger[Any]], end: NDArray[np.signedinteger[Any]]
) -> None:
    """Prefetch ranges of an array in a file: all of them, or, of many, what is near a sample of their begins."""
    if begin.size >= FEW:
        expect_near(array, some_of(begin))
    elif (place := _Place.of(array)) is not None:
        some = np.flatnonzero(end > begin)
        some = some[np.argsort(begin[some])]
        first, stop = (of[some].astype(np.int64) for of in (begin, end))
        place.expect(parts_between(first, stop, PART // place.itemsize))


def parts_near(rows: NDArray[np.signedinteger[Any]], size: int) -> list[tuple[int, int]]:
    """Return first and stop of the parts of `size` rows that contain some rows, with adjacent parts merged; negative
    rows are ignored."""
    part = np.unique(rows[rows >= 0].astype(np.int64) // size)
    return parts_between(size * part, size * (part + 1), size)


def parts_between(begin: Ints, end: Ints, size: int) -> list[tuple[int, int]]:
    """Return first and stop of the parts of `size` rows that overlap some ranges of rows, with adjacent parts merged.
    The ranges begin in ascending order and are not empty."""
    first, stop = begin // size, np.maximum.accumulate((end - 1) // size + 1)
    head = np.flatnonzero(np.append(True, first[1:] > stop[:-1])[: first.size])
    last = np.append(head[1:], first.size)[: head.size] - 1
    return [*zip((size * first[head]).tolist(), (size * stop[last]).tolist(), strict=True)]


def take(array: NDArray[Any], rows: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
    """Return some elements of an array, which may be in a file."""
    expect_near(array, some_of(rows))
    return array.take(rows)


@contextmanager
def in_order(*arrays: NDArray[Any]) -> Iterator[None]:
    """Let the system read ahead in arrays that are traversed from the first element to the last, if they are in files;
    for several places in turn it would read more than there is memory for."""
    with ExitStack() as stack:
        for place in map(_Place.of, arrays):
            if place is not None:
                place.pages.madvise(mmap.MADV_NORMAL)
                stack.callback(read_at_random, place.pages)
        yield
