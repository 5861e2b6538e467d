"""Where columns stay that only later steps need: in memory, beyond a budget in scratch files, or where all processes of
a cluster see them."""

from __future__ import annotations

import uuid
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, ColumnSource
from tracecols.errors import AnalysisError
from tracecols.kernels import packing
from tracecols.work.cluster import cannot_write
from tracecols.work.scratch import ScratchFolder, temporary_folder

BUDGET = 1 << 28
"""Bytes that are held in memory."""

NOTHING = np.zeros(0, np.int64)
"""Base of codes that are relative to no column."""


@dataclass
class StoredColumn:
    """Where a column stands in a scratch file and how it is coded.

    Attributes
    ----------
    offset, n : int
        First byte; number of rows.
    dtype, stored : dtype
        What the column is; what stands in the file: codes (see `kernels.packing`), or the same.
    low : int
        What the codes are counted from.
    base : str, optional
        Column that they are relative to.
    """

    offset: int
    n: int
    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    low: int = 0
    base: str | None = None

    @property
    def is_packed(self) -> bool:
        """Whether codes stand in the file."""
        return self.stored != self.dtype


def read_into(array: NDArray[Any], path: Path, offset: int) -> None:
    """Fill an array with what stands in a file; for few bytes that takes half the time of `numpy.fromfile` (11 instead
    of 25 us for 1 kB).

    Parameters
    ----------
    array : (n,) array
    offset : int
        First byte.

    Raises
    ------
    EOFError
        If the file ends before the array is full.
    OSError
        If it cannot be read.
    """
    rest = array.data.cast("B")
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        # one call reads 2 GiB at most
        while rest.nbytes:
            n = file.readinto(rest)
            if not n:
                raise EOFError(f"{path} ends before byte {offset + array.nbytes}")
            rest = rest[n:]


class SpilledColumns:
    """Columns in a scratch file, integers as narrow codes; every access reads the file.

    Parameters
    ----------
    relative : mapping
        Columns whose values are close to those of another one.

    Raises
    ------
    OSError
        If it cannot be written.
    """

    def __init__(self, columns: Columns, relative: Mapping[str, str], path: Path) -> None:
        self._path, self._n, self.names = path, len(columns), columns.names
        self._stored: dict[str, StoredColumn] = {}
        with path.open("ab") as file:
            for name in columns.names:
                array = columns[name]
                self._stored[name] = column = StoredColumn(file.tell(), array.size, array.dtype, array.dtype)
                if array.size and array.dtype in (np.int32, np.int64):
                    base = relative.get(name)
                    against = NOTHING if base is None else columns[base]
                    low, high = packing.measure(array, against)
                    n_codes = high - low + 2
                    fits = (t for t in (np.uint8, np.uint16, np.uint32) if n_codes <= np.iinfo(t).max + 1)
                    narrow = np.dtype(next(fits, array.dtype))
                    if narrow.itemsize < array.itemsize:
                        column.stored, column.low, column.base = narrow, low, base
                        codes = np.empty(array.size, narrow)
                        packing.pack(array, against, low, codes)
                        array = codes
                array.tofile(file)

    def __len__(self) -> int:
        return self._n

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name not in self._stored:
            raise AttributeError(name)
        return self.column(name)

    def column(self, name: str) -> NDArray[Any]:
        """Read a whole column; (n,)."""
        return self.rows(name, 0, self._stored[name].n)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read the rows of a column with start <= row < stop."""
        column = self._stored[name]
        if start == stop:
            return np.zeros(0, column.dtype)
        stored = np.empty(stop - start, column.stored)
        read_into(stored, self._path, column.offset + start * column.stored.itemsize)
        if not column.is_packed:
            return stored
        values = np.empty(stored.size, column.dtype)
        packing.unpack(stored, self.rows(column.base, start, stop) if column.base else NOTHING, column.low, values)
        return values

    def search(self, name: str, values: Sequence[int]) -> NDArray[np.int64]:
        """Find where values belong in an ascending column without nulls that is not relative to another one;
        (n_values,) int64."""
        column = self._stored[name]
        if not column.n:
            return np.zeros(len(values), np.int64)
        mapped = np.memmap(self._path, column.stored, "r", column.offset, (column.n,))
        codes = [min(v - column.low + 1, np.iinfo(np.int64).max) for v in values] if column.is_packed else values
        return np.searchsorted(mapped, np.array(codes, np.int64))


class Spill(Protocol):
    """What `ColumnSpill` and `SharedSpill` have in common."""

    def keep(self, columns: Columns, relative: Mapping[str, str] | None = None, borrowed: bool = False) -> ColumnSource:
        """Return the same columns, in memory or in a file."""


def keep(columns: Columns, spill: Spill | None) -> ColumnSource:
    """Keep columns where a step is told to: in memory if nowhere.

    Parameters
    ----------
    spill : Spill, optional
        Where they are kept; None where the whole trace is one partition.
    """
    return columns.computed() if spill is None else spill.keep(columns)


class _Held:
    """Count the bytes that several spills hold in memory together."""

    def __init__(self) -> None:
        self._lock, self._size = Lock(), 0
        self._given: deque[int] = deque()

    def take(self, size: int) -> bool:
        """Hold so many bytes more, unless that exceeds the budget."""
        with self._lock:
            self._settle()
            fits = self._size + size <= BUDGET
            self._size += size if fits else 0
            return fits

    def give(self, size: int) -> None:
        """Hold so many bytes less; without the lock, since the garbage collector may run this while the same thread has
        it."""
        self._given.append(size)

    @property
    def size(self) -> int:
        """Bytes that are held."""
        with self._lock:
            self._settle()
            return self._size

    def _settle(self) -> None:
        while self._given:
            self._size -= self._given.popleft()


def _remove(path: Path) -> None:
    """Remove a file of columns; where the system does not remove open ones, it goes with its folder."""
    with suppress(OSError):
        path.unlink()


def _when_forgotten(columns: ColumnSource, function: Callable[..., None], *given: Any) -> weakref.finalize[..., Any]:
    """Call a function once nobody refers to columns any more, but not at the end of the program."""
    found = weakref.finalize(columns, function, *given)
    found.atexit = False
    return found


class ColumnSpill:
    """Keep columns: the first ones in memory, what exceeds the budget in a scratch folder.

    What it keeps lives as long as this, or until the end of the `with` it is used in. Columns that nobody refers to any
    more make room before that: others have their place in memory, or their file is removed.

    Parameters
    ----------
    beside : ColumnSpill, optional
        Another one with which this shares the budget.
    """

    def __init__(self, beside: ColumnSpill | None = None) -> None:
        self._lock = Lock()
        self._budget: _Held = _Held() if beside is None else beside._budget
        self._held: list[weakref.finalize[..., Any]] = []
        self._n_files = 0
        self._folder: ScratchFolder | None = None

    def __enter__(self) -> ColumnSpill:
        return self

    def __exit__(self, *_: object) -> None:
        """Release what is kept: its columns can no longer be read."""
        with self._lock:
            held, folder = self._held, self._folder
            self._held, self._folder = [], None
        for forget in held:
            forget()
        if folder is not None:
            folder.remove()

    def keep(self, columns: Columns, relative: Mapping[str, str] | None = None, borrowed: bool = False) -> ColumnSource:
        """Return the same columns, in memory or in a scratch file.

        Parameters
        ----------
        columns : Columns
            All are computed; -1 is null.
        relative : mapping, optional
            Columns whose values are close to those of another one: they take fewer bytes.
        borrowed : bool, optional
            The arrays will be written to again: what stays in memory is copied.

        Raises
        ------
        AnalysisError
            If the file cannot be written.
        """
        size = sum(columns[name].nbytes for name in columns.names)
        with self._lock:
            if self._budget.take(size):
                held = columns.copy() if borrowed else columns.computed()
                self._held.append(_when_forgotten(held, self._budget.give, size))
                return held
            if self._folder is None:
                self._folder = temporary_folder()
            path = self._folder.path / str(self._n_files)
            self._n_files += 1
        try:
            written = SpilledColumns(columns, relative or {}, path)
        except OSError as error:
            raise AnalysisError(
                f"cannot write the temporary file {path}: {error.strerror or error}\n"
                "  make room there, or set TMPDIR to a folder with more"
            ) from error
        _when_forgotten(written, _remove, path)
        return written


SMALLEST = 1 << 12
"""Bytes of columns below which they go with the values that hold them: to open a file costs more."""


class SharedSpill:
    """Keep the columns of one task of a cluster: all in one file of a folder that every process sees.

    What it keeps can be pickled: it names its file, which stays as long as the folder.

    Parameters
    ----------
    task : str
        Name of the task. One that runs twice, since a worker is lost, writes another file each time.
    """

    def __init__(self, folder: Path, task: str) -> None:
        self._path = folder / f"{task}-{uuid.uuid4().hex[:8]}.columns"
        self._lock = Lock()

    def keep(self, columns: Columns, relative: Mapping[str, str] | None = None, borrowed: bool = False) -> ColumnSource:
        """Return the same columns, in the file or, if they are few, in memory.

        Parameters
        ----------
        columns : Columns
            All are computed; -1 is null.
        relative : mapping, optional
            Columns whose values are close to those of another one: they take fewer bytes.
        borrowed : bool, optional
            The arrays will be written to again: what stays in memory is copied.

        Raises
        ------
        ClusterError
            If the file cannot be written.
        """
        if sum(columns[name].nbytes for name in columns.names) < SMALLEST:
            return columns.copy() if borrowed else columns.computed()
        try:
            with self._lock:
                return SpilledColumns(columns, relative or {}, self._path)
        except OSError as error:
            raise cannot_write(self._path, error) from error
