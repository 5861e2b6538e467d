"""How the results of steps reach other steps: in memory, beyond a budget in scratch files, or in files that all workers
of a cluster see. Only this module decides that."""

from __future__ import annotations

import mmap
import shutil
import uuid
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from tempfile import mkdtemp
from threading import Lock, Thread
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, ColumnSource, pick, read_only
from tracecols.enhance.dataflow.grouping import ranges
from tracecols.kernels import packing
from tracecols.vectors import Ints
from tracecols.work.ahead import expect, parts_between, parts_near, read_at_random, some_of
from tracecols.work.cluster import cannot_write, load_or_make
from tracecols.work.executors import Executor
from tracecols.work.large import LargeArrays, blocks
from tracecols.work.memory import Budget, Held
from tracecols.work.scratch import ScratchFolder, bytes_in, not_written, temporary_folder

SMALLEST = 1 << 12
"""On a cluster, columns with fewer bytes are stored with the values that hold them: opening a file costs more."""

BUDGET, OFTEN = 1 << 26, 64
"""Maximum bytes of columns held in memory, and the factor for columns that are read repeatedly: columns in files are
packed, and reading them costs more than writing them. Reading a column once costs no more than fresh pages of
memory."""

PIECE = 64 * packing.GROUP
"""Rows that are encoded together."""

WORD = 8
"""Bytes of the words that hold codes."""

NOTHING = np.zeros(0, np.int64)
"""Base of codes that are relative to no column."""


class StoredColumn(NamedTuple):
    """Position of a column in a scratch file, and its encoding."""

    offset: int
    n: int
    """`offset` and `n`: first byte; number of rows."""
    dtype: np.dtype[Any]
    base: str | None
    """Column that the codes are relative to."""
    codes: packing.Codes | None
    """None if the values are stored unencoded."""

    @property
    def nbytes(self) -> int:
        return self.n * self.dtype.itemsize if self.codes is None else WORD * int(self.codes.starts[-1])


class _Layout(NamedTuple):
    """What stored tables with the same columns have in common."""

    number: Mapping[str, int]
    """Position of each column."""
    dtypes: tuple[np.dtype[Any], ...]
    bases: tuple[str | None, ...]
    """Column that the codes of each column are relative to."""
    coded: tuple[int, ...]
    """Position of each column among those that are encoded; -1 for others."""

    @property
    def n_coded(self) -> int:
        return sum(k >= 0 for k in self.coded)


@cache
def _layout(names: tuple[str, ...], dtypes: tuple[np.dtype[Any], ...], bases: tuple[str | None, ...]) -> _Layout:
    """Return the layout of tables, one object for all: a long trace has thousands of tables for each step."""
    is_coded = [dtype in (np.int32, np.int64) for dtype in dtypes]
    coded = tuple(sum(is_coded[:k]) if is_coded[k] else -1 for k in range(len(names)))
    return _Layout({name: k for k, name in enumerate(names)}, dtypes, bases, coded)


def read_into(array: NDArray[Any], path: Path, offset: int) -> None:
    """Fill an array from a file; for few bytes that takes half the time of `numpy.fromfile` (11 instead of 25 us for 1
    kB). Raises EOFError if the file ends before the array is full, and OSError if it cannot be read."""
    rest = array.data.cast("B")
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        # one call reads 2 GiB at most
        while rest.nbytes:
            n = file.readinto(rest)
            if not n:
                raise EOFError(f"{path} ends before byte {offset + array.nbytes}")
            rest = rest[n:]


def write_array(file: BinaryIO, array: NDArray[Any]) -> None:
    """Write an array to a file. `numpy.ndarray.tofile` does not report a full disk for data that fits into the buffers
    of the C library. Raises OSError if the array cannot be written, at the latest when the file is closed."""
    file.write(np.ascontiguousarray(array).data if array.size else b"")


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as a file that `numpy.load` reads, as `numpy.save` does, but by `write_array`. Raises OSError if
    it cannot be written."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        write_array(file, array)


def words_of(codes: packing.Codes, parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of words that hold the codes of some ranges of rows, extended to whole groups."""
    last = codes.starts.size - 1
    return [
        (int(codes.starts[first // packing.GROUP]), int(codes.starts[min(stop // packing.GROUP, last)]))
        for first, stop in parts
    ]


class SpilledColumns(ColumnSource):
    """Columns in a scratch file; every access reads the file. Integers are stored as codes of few bits, those of a
    column in `relative` as codes of the difference from another column.

    Raises OSError if it cannot be written.
    """

    def __init__(self, columns: Columns, relative: Mapping[str, str], path: Path) -> None:
        self._path, self._n, self.names = path, len(columns), columns.names
        self._layout = _layout(
            columns.names, tuple(columns[name].dtype for name in columns.names), tuple(map(relative.get, columns.names))
        )
        # few arrays for all columns, since small ones that live long divide the free memory
        n_groups, n_coded = -(-self._n // packing.GROUP), self._layout.n_coded
        self._widths = np.zeros((n_coded, n_groups), np.uint8)
        self._lows = np.zeros((n_coded, n_groups), np.int64)
        self._starts = np.zeros((n_coded, n_groups + 1), np.int64)
        with path.open("ab") as file:
            self._offsets = tuple(self._write(file, columns, name) for name in columns.names)
            self._end = file.tell()

    def _write(self, file: BinaryIO, columns: Columns, name: str) -> int:
        """Append a column to a file; return its first byte."""
        array = columns[name]
        # words are mapped into memory
        file.write(bytes(-file.tell() % WORD))
        offset = file.tell()
        codes, base = self._codes(name), self._layout.bases[self._layout.number[name]]
        if codes is None:
            write_array(file, array)
            return offset
        below = NOTHING if base is None else columns[base]
        words = np.empty(min(array.size, PIECE) + PIECE // packing.GROUP, np.uint64)
        for rows in blocks(array.size, PIECE):
            expect(array[rows])
            first, stop = rows.start // packing.GROUP, -(-rows.stop // packing.GROUP)
            some = slice(first, stop)
            starts = codes.starts[first : stop + 1]
            packing.pack(array[rows], below[rows], codes.widths[some], codes.lows[some], starts, words)
            write_array(file, words[: int(starts[-1] - starts[0])])
        return offset

    def _codes(self, name: str) -> packing.Codes | None:
        """Return the encoding of a column; None if its values are stored as they are."""
        k = self._layout.coded[self._layout.number[name]]
        return None if k < 0 else packing.Codes(self._widths[k], self._lows[k], self._starts[k])

    def stored(self, name: str) -> StoredColumn:
        """Return the position and the encoding of a column."""
        layout = self._layout
        k = layout.number[name]
        return StoredColumn(self._offsets[k], self._n, layout.dtypes[k], layout.bases[k], self._codes(name))

    def __len__(self) -> int:
        return self._n

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name not in self._layout.number:
            raise AttributeError(name)
        return self.column(name)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        column = self.stored(name)
        values = np.empty(stop - start, column.dtype)
        if start == stop:
            return values
        if (codes := column.codes) is None:
            read_into(values, self._path, column.offset + start * column.dtype.itemsize)
            return values
        first_word, end = codes.starts[[start // packing.GROUP, -(-stop // packing.GROUP)]].tolist()
        words = np.empty(end - first_word, np.uint64)
        read_into(words, self._path, column.offset + WORD * first_word)
        base = NOTHING if column.base is None else self.rows(column.base, start, stop)
        packing.unpack(read_only(words), first_word, codes, np.array([start]), np.array([stop]), base, values)
        return values

    def several_at(
        self, names: Sequence[str], index: NDArray[np.signedinteger[Any]], null: int = -1
    ) -> list[NDArray[Any]]:
        mapped = self._mapped()
        row = index.astype(np.int64, copy=False)
        parts = parts_near(some_of(row), packing.GROUP)
        return [self._at(self.stored(name), row, null, mapped, parts) for name in names]

    def _at(
        self, column: StoredColumn, row: Ints, null: int, mapped: NDArray[np.uint8], parts: list[tuple[int, int]]
    ) -> NDArray[Any]:
        stored, values = self._in(column, mapped), np.empty(row.size, column.dtype)
        if column.codes is None:
            return pick(stored, row, null)
        expect(stored, words_of(column.codes, parts))
        base = NOTHING if column.base is None else self._at(self.stored(column.base), row, null, mapped, parts)
        packing.unpack_rows(stored, 0, column.codes, row, null, base, values)
        return values

    def fill(self, arrays: Mapping[str, NDArray[Any]], begin: Ints, end: Ints) -> None:
        mapped, parts = self._mapped(), parts_between(begin, end, packing.GROUP)
        for name, values in arrays.items():
            column = self.stored(name)
            stored = self._in(column, mapped)
            if column.codes is None:
                values[:] = stored.take(ranges(begin, end - begin))
                continue
            expect(stored, words_of(column.codes, parts))
            base = NOTHING
            if column.base is not None:
                base = np.empty(values.size, self.stored(column.base).dtype)
                self.fill({column.base: base}, begin, end)
            packing.unpack(stored, 0, column.codes, begin, end, base, values)

    def _mapped(self) -> NDArray[np.uint8]:
        """Map the part of the file that holds these columns into memory, since few bytes at many positions are read."""
        first, end = self._offsets[0] if self._offsets else self._end, self._end
        before = first % mmap.ALLOCATIONGRANULARITY
        if first == end:
            return np.zeros(0, np.uint8)
        with open(self._path, "rb", buffering=0) as file:
            pages = mmap.mmap(file.fileno(), end - first + before, access=mmap.ACCESS_READ, offset=first - before)
        read_at_random(pages)
        return np.frombuffer(pages, np.uint8, offset=before)

    def _in(self, column: StoredColumn, mapped: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the values of a column, or the words of its codes, as a view of the bytes of all columns."""
        first = column.offset - self._offsets[0]
        return mapped[first : first + column.nbytes].view(column.dtype if column.codes is None else np.uint64)

    def search(self, name: str, values: Sequence[int]) -> Ints:
        """Find insertion positions of values in an ascending column of integers without nulls that is not relative to
        another column; (n_values,) int64."""
        column, found = self.stored(name), np.zeros(len(values), np.int64)
        assert column.codes is not None  # integers are coded
        for i, value in enumerate(values):
            # the position is in the group before the first group that begins at or after the value
            group = int(np.searchsorted(column.codes.lows, value)) - 1
            if group >= 0:
                first = group * packing.GROUP
                rows = self.rows(name, first, min(first + packing.GROUP, column.n))
                found[i] = first + np.searchsorted(rows, value)
        return found


def _when_forgotten(columns: ColumnSource, function: Callable[..., None], *given: Any) -> weakref.finalize[..., Any]:
    """Call a function when columns are no longer referenced, but not at exit of the program."""
    found = weakref.finalize(columns, function, *given)
    found.atexit = False
    return found


class _Once:
    """A value that is computed once, by the first thread that requests it."""

    def __init__(self) -> None:
        self._lock, self._done, self._value = Lock(), False, None

    def get(self, make: Callable[[], Any]) -> Any:
        with self._lock:
            if not self._done:
                self._value, self._done = make(), True
            return self._value


_unneeded: SimpleQueue[Path] = SimpleQueue()
"""Files of columns that are no longer referenced, which a thread removes: releasing the pages of a gigabyte takes half
a second. If the system cannot remove open files, and at exit of the program, they are removed with their folder. The
garbage collector may put a path while the same thread is in put()."""

_remover = _Once()
"""The thread that removes them."""


def _start_remover() -> None:
    def go_on() -> None:
        while True:
            with suppress(OSError):
                _unneeded.get().unlink()

    Thread(target=go_on, name="tracecols-files", daemon=True).start()


class Spill:
    """Storage for results that steps of an analysis keep for each other: values by name and slice number, and columns.

    Values stay in memory, and so do columns within a budget; further columns go to files in a scratch folder. On a
    cluster, all go to files in a folder that client and workers see: one file for each value, and one for the columns
    of each task.

    Stored results live until the end of the `with` statement, in one process at most as long as this object, on a
    cluster at most as long as the folder. In one process, columns that are no longer referenced are freed earlier:
    their bytes return to the budget, or their file is removed. On a cluster, this and its results can be pickled.

    Parameters
    ----------
    beside : Spill, optional
        Another spill, which shares its budget with this one.
    budget : Budget, optional
        Bytes that may be held in memory, and where scratch folders are created.
    folder : Path, optional
        A folder that all workers of a cluster see.
    task : str, optional
        The task of a cluster that stores columns. If it is repeated because a worker is lost, it writes to a new file.
    """

    def __init__(
        self,
        beside: Spill | None = None,
        folder: Path | None = None,
        task: str = "client",
        budget: Budget | None = None,
    ) -> None:
        budget = Budget() if budget is None else budget
        self.folder, self._parent = folder, budget.scratch
        self._columns = None if folder is None else folder / f"{task}-{uuid.uuid4().hex[:8]}.columns"
        self._most_held, self._most_often = (
            most if budget.held is None else min(most, budget.held) for most in (BUDGET, OFTEN * BUDGET)
        )
        self._budget: Held = Held() if beside is None else beside._budget
        self.large: LargeArrays = LargeArrays(budget.large, budget.scratch) if beside is None else beside.large
        self._lock = Lock()
        self._values: dict[tuple[str, int], _Once] = {}
        self._held: list[weakref.finalize[..., Any]] = []
        self._n_files = 0
        self._scratch: ScratchFolder | None = None

    @classmethod
    def between(cls, executor: Executor, what: str, beside: Spill | None = None) -> Spill:
        """Return the spill that the workers of an executor share. If they do not share memory, it uses a new folder,
        whose name begins with `what`."""
        if executor.folder is None:
            return cls(beside, budget=executor.budget)
        return cls(folder=Path(mkdtemp(prefix=f"{what}-", dir=executor.folder)))

    def __reduce__(self) -> tuple[type[Spill], tuple[None, Path]]:
        assert self.folder is not None  # threads share it
        return Spill, (None, self.folder)

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the stored results, which can no longer be read."""
        with self._lock:
            held, scratch = self._held, self._scratch
            self._held, self._scratch, self._values = [], None, {}
        for forget in held:
            forget()
        if scratch is not None:
            scratch.remove()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def of_task(self, task: str) -> Spill:
        """Return the spill for the columns of a task, which on a cluster have a separate file."""
        return self if self.folder is None else Spill(folder=self.folder, task=task)

    def get(self, name: str, number: int, make: Callable[[], Any], *, always: bool = False) -> Any:
        """Return a value by its name and slice number; it is computed if it does not exist.

        The first thread of this process that requests a value computes it, and the others wait.

        `always` is whether every task needs it.
        """
        if self.folder is not None:
            return load_or_make(self.folder / f"{name}-{number}.values", make, always=always)
        with self._lock:
            once = self._values.setdefault((name, number), _Once())
        return once.get(make)

    def forget(self, names: Collection[str]) -> None:
        """Free the values with some names, of all slices, because no later step reads them.

        Values in a shared folder stay: a task that is repeated on another worker may read them.
        """
        with self._lock:
            self._values = {key: once for key, once in self._values.items() if key[0] not in names}

    def keep(
        self, columns: Columns, relative: Mapping[str, str] | None = None, borrowed: bool = False, often: bool = False
    ) -> ColumnSource:
        """Compute all columns, and return them in memory or in a file; -1 is null.

        `relative` maps columns to columns with similar values, relative to which they take fewer bytes. If arrays are
        `borrowed`, they will be overwritten by their owner: columns that stay in memory are copied. Columns that are
        read `often` have a larger budget of memory. Raises AnalysisError or ClusterError if the file cannot be written.
        """
        size = sum(columns[name].nbytes for name in columns.names)
        most = self._most_often if often else self._most_held
        if size < SMALLEST if self._columns is not None else self._budget.take(size, most):
            held = columns.copy() if borrowed else columns.computed()
            if self._columns is None:
                self._held.append(_when_forgotten(held, self._budget.give, size))
            return held
        path = self._columns or self._new_file()
        try:
            written = SpilledColumns(columns, relative or {}, path)
        except OSError as error:
            if self._columns is not None:
                raise cannot_write(path, error) from error
            raise not_written(f"cannot write the temporary file {path}", error) from error
        if self._columns is None:
            _remover.get(_start_remover)
            _when_forgotten(written, _unneeded.put, path)
        return written

    @property
    def n_written(self) -> int:
        """Bytes in the files of this process."""
        with self._lock:
            scratch = self._scratch
        return 0 if scratch is None else bytes_in(scratch.path)

    def _new_file(self) -> Path:
        """Return the path of a new file in the scratch folder of this process."""
        with self._lock:
            if self._scratch is None:
                self._scratch = temporary_folder(self._parent)
            self._n_files += 1
            return self._scratch.path / str(self._n_files)
