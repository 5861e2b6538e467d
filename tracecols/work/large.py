"""Arrays of the size of a trace: in memory up to a limit, beyond it in temporary files that are mapped into memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.kernels import arrays
from tracecols.vectors import Ints, Mask
from tracecols.work.ahead import in_order, read_at_random, take
from tracecols.work.executors import side_by_side
from tracecols.work.memory import Held, resident
from tracecols.work.scratch import not_written, reserve

BLOCK = 1 << 18
"""Rows that are computed at once, so that temporary arrays take little memory."""

SMALL = 1 << 20
"""Bytes up to which an array is never worth a file."""

SHARE, SHARE_OF_BLOCKS = 64, 4
"""An array that takes at most 1/`SHARE` of the memory of all arrays is held in memory: most such arrays are needed for
little longer than it takes to make a file. Arrays for blocks may take 1/`SHARE_OF_BLOCKS`, for which memory is left."""

MOST_FILES = 256
"""Maximum number of files at a time, each of which keeps a descriptor; further arrays are in memory."""

INTERVAL = 0.02
"""Seconds after which the resident pages of files are counted again: no more than 30 MB come in the meantime."""


FEWEST = 1 << 14
"""Minimum number of rows computed at once, however little memory there is: with fewer, data near them is read again for
others."""


def blocks(n: int, size: int | None = None) -> Iterator[slice]:
    """Yield the rows 0 .. n - 1 in slices of at most `size`, by default `BLOCK`."""
    size = BLOCK if size is None else size
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


class _Pages:
    """The mapped files of this process, whose pages are released from its memory when they exceed a limit.

    Released pages stay in the page cache of the system as long as nothing else needs the memory, and are read again
    from there, or from the file.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._most = self._before = 0
        self._is_watched = False

    def add(self, mapped: mmap.mmap, most: int) -> None:
        """Watch the pages of one more file; `most` is the number of bytes that may be in memory."""
        with self._lock:
            self._mapped.add(mapped)
            self._most = most
            if not self._is_watched and hasattr(mmap, "MADV_DONTNEED"):
                self._is_watched, self._before = True, resident(of_files=True)
                Thread(target=self._watch, name="tracecols-pages", daemon=True).start()

    def __len__(self) -> int:
        """Return the number of mapped files."""
        return len(self._mapped)

    def release(self) -> None:
        """Release all pages from the memory of this process."""
        with self._lock:
            for mapped in list(self._mapped):
                mapped.madvise(mmap.MADV_DONTNEED)

    def _watch(self) -> None:
        while True:
            time.sleep(INTERVAL)
            with self._lock:
                if not len(self._mapped):
                    self._is_watched = False
                    return
            if resident(of_files=True) - self._before > self._most:
                self.release()


_pages = _Pages()
"""The mapped files of this process."""


def zeros_in_file(path: Path, n: int, dtype: DTypeLike) -> NDArray[Any]:
    """Make a file of n zeros, mapped into memory. Raises OSError if there is no disk space for them (`reserve`)."""
    with path.open("wb") as file:
        reserve(file.fileno(), n * np.dtype(dtype).itemsize)
    return np.memmap(path, dtype, "r+", shape=(n,))


class _MappedFile(mmap.mmap):
    """A file without a name that is mapped into memory."""

    descriptor: int

    @classmethod
    def of(cls, descriptor: int, size: int) -> _MappedFile:
        """Map `size` bytes of a file, whose descriptor is closed with the mapping; new bytes of the file are zero.

        Raises
        ------
        OSError
            If there is no disk space for them (`reserve`).
        """
        try:
            reserve(descriptor, size)
            found = cls(descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        found.descriptor = descriptor
        weakref.finalize(found, os.close, descriptor).atexit = False
        return found


def _file_of(array: NDArray[Any]) -> _MappedFile | None:
    """Return the mapped file that an array fills completely; None if there is none."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, _MappedFile) and len(base) == array.nbytes else None


class LargeArrays:
    """Makes the arrays of the size of the whole trace that an analysis holds; `jobs` threads compute their blocks.

    Together they may take `memory` bytes in memory, and half as many in pages of files. Files are made in `folder`, by
    default where `tempfile` puts them (`TMPDIR`). They have no names, so that none remains however the process ends.
    """

    def __init__(self, memory: int | None = None, folder: Path | None = None) -> None:
        self._memory, self._folder, self._held, self.jobs = memory, folder, Held(), 1
        self._share = SHARE

    def block_of(self, row_bytes: int, most: int | None = None) -> int:
        """Return the number of rows to compute at once if each temporarily needs `row_bytes`: as many as take
        1/`SHARE_OF_BLOCKS` of the memory of all arrays, but at least `FEWEST` and at most `most`, by default
        `BLOCK`."""
        most = BLOCK if most is None else most
        return most if self._memory is None else min(most, max(FEWEST, self._memory // SHARE_OF_BLOCKS // row_bytes))

    def briefly(self) -> LargeArrays:
        """Return a maker of arrays that are needed only while a block of rows (`block_of`) is computed: they are in
        memory, even if longer-lived arrays have taken all of it, unless a block is far larger than expected."""
        found = copy(self)
        found._share = SHARE_OF_BLOCKS
        return found

    def by_threads(self, jobs: int) -> LargeArrays:
        """Return a maker of the same arrays, in the same memory, whose blocks are computed by `jobs` threads."""
        found = copy(self)
        found.jobs = jobs
        return found

    def empty(self, n: int, dtype: DTypeLike) -> NDArray[Any]:
        """Make an array of n arbitrary values. Raises AnalysisError if there is no disk space for its file."""
        return self._made(n, dtype, np.empty)

    def zeros(self, n: int, dtype: DTypeLike) -> NDArray[Any]:
        """Make an array of n zeros."""
        return self._made(n, dtype, np.zeros)

    def _made(self, n: int, dtype: DTypeLike, make: Callable[..., NDArray[Any]]) -> NDArray[Any]:
        """Make an array; in a file its elements are zero."""
        size = n * np.dtype(dtype).itemsize
        if self._memory is None or size <= max(SMALL, self._memory // self._share) or len(_pages) >= MOST_FILES:
            return make(n, dtype)
        if not self._held.take(size, self._memory):
            return self._mapped(size).view(dtype)
        found = make(n, dtype)
        weakref.finalize(found, self._held.give, size).atexit = False
        return found

    def full(self, n: int, value: Any, dtype: DTypeLike) -> NDArray[Any]:
        """Make an array of n times the same value."""
        found = self.empty(n, dtype)
        found[:] = value
        return found

    def with_room(self, array: NDArray[Any], filled: int, room: int | None = None) -> NDArray[Any]:
        """Return an array of the first `filled` elements with room for `room`, by default twice as many as before; the
        old array must not be used any more, since its file is made longer."""
        room = 2 * array.size if room is None else room
        file = _file_of(array)
        if file is not None:
            return self._mapped(room * array.itemsize, file).view(array.dtype)
        found = self.empty(room, array.dtype)
        found[:filled] = array[:filled]
        return found

    @staticmethod
    def trimmed(array: NDArray[Any], filled: int) -> NDArray[Any]:
        """Return the first elements of an array that nothing else refers to; the memory after them is freed."""
        if not array.flags.owndata:
            return array[:filled]
        # numpy does not resize an array that has weak references
        return array[:filled].copy() if weakref.getweakrefcount(array) else arrays.trimmed(array, filled)

    def computed(self, n: int, dtype: DTypeLike, compute: Callable[[slice], Any]) -> NDArray[Any]:
        """Make an array of n elements block by block: `compute(rows)` returns those of a slice of rows."""
        found = self.empty(n, dtype)

        def put(rows: slice) -> None:
            found[rows] = compute(rows)

        for _ in side_by_side(self.jobs, put, blocks(n)):
            pass
        return found

    def taken(self, column: NDArray[Any], rows: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
        """Return the elements of a column at some rows; both may be in files, and the rows are read in order."""
        with in_order(rows):
            return self.computed(rows.size, column.dtype, lambda here: take(column, rows[here]))

    def joined(self, most: int, dtype: DTypeLike, parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
        """Concatenate arrays that are made one by one and have at most `most` elements in all."""
        found, n = self.empty(most, dtype), 0
        for part in parts:
            found[n : n + part.size] = part
            n += part.size
        return found[:n]

    def chosen(self, n: int, is_chosen: Callable[[slice], Mask], dtype: DTypeLike = np.int64) -> NDArray[Any]:
        """Return the chosen ones of n rows, ascending; `is_chosen(rows)` returns the mask of a slice of rows."""

        # one bit per row is held until the number of chosen rows is known
        def bits_of(rows: slice) -> tuple[int, NDArray[np.uint8]]:
            found = is_chosen(rows)
            return int(np.count_nonzero(found)), np.packbits(found)

        counts, bits = zip((0, np.zeros(0, np.uint8)), *side_by_side(self.jobs, bits_of, blocks(n)), strict=True)

        def chosen_of(k: int) -> Ints:
            return np.flatnonzero(np.unpackbits(bits[k]).view(bool)) + (k - 1) * BLOCK

        return self.joined(sum(counts), dtype, side_by_side(self.jobs, chosen_of, range(1, len(bits)), self.jobs))

    def _mapped(self, size: int, shorter: _MappedFile | None = None) -> NDArray[np.uint8]:
        """Make a file of `size` bytes, or make one longer, and map it."""
        try:
            if shorter is None:
                with tempfile.TemporaryFile(dir=self._folder, prefix="tracecols-") as file:
                    mapped = _MappedFile.of(os.dup(file.fileno()), size)
            else:
                mapped = _MappedFile.of(os.dup(shorter.descriptor), size)
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            raise not_written(f"cannot make a temporary file of {size:,} bytes in {where}", error) from error
        read_at_random(mapped)
        _pages.add(mapped, (self._memory or 0) // 2)
        return np.frombuffer(mapped, np.uint8)


def ascends(values: NDArray[Any]) -> bool:
    """Return whether no element is smaller than the one before."""
    return all(
        bool(
            (
                values[rows.start + 1 : rows.stop + 1] >= values[rows.start : rows.stop][: values.size - 1 - rows.start]
            ).all()
        )
        for rows in blocks(values.size)
    )
