"""Where columns stay that only some steps need: in memory, and beyond a budget in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import AnalysisError
from tracecols.kernels import packing
from tracecols.scratch import ScratchFolder, temporary_folder

BUDGET = 1 << 29
"""Bytes that are held in memory."""

C = TypeVar("C")

NOTHING = np.zeros(0, np.int64)
"""Base of codes that are relative to no column."""


@dataclass
class Place:
    """Where a column stands in a file and how.

    Attributes
    ----------
    at, n : int
        First byte; number of rows.
    dtype, stored : dtype
        What the column is; what stands in the file: codes (see `kernels.packing`), or the same.
    low : int
        What the codes are counted from.
    base : str, optional
        Column that they are relative to.
    """

    at: int
    n: int
    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    low: int = 0
    base: str | None = None

    @property
    def is_packed(self) -> bool:
        """Whether codes stand in the file."""
        return self.stored != self.dtype


class Spilled:
    """Columns in a file, integers as narrow codes; an attribute reads one of them, each time anew.

    Parameters
    ----------
    columns : object
        Its attributes are the arrays.
    relative : mapping
        Columns whose values are close to those of another one.
    path : Path
        The file.
    """

    def __init__(self, columns: object, relative: Mapping[str, str], path: Path) -> None:
        self._path = path
        self._places: dict[str, Place] = {}
        with path.open("wb") as file:
            for name, array in vars(columns).items():
                self._places[name] = place = Place(file.tell(), array.size, array.dtype, array.dtype)
                if array.size and array.dtype in (np.int32, np.int64):
                    base = relative.get(name)
                    against = NOTHING if base is None else getattr(columns, base)
                    low, high = packing.measure(array, against)
                    room = high - low + 2
                    fits = (t for t in (np.uint8, np.uint16, np.uint32) if room <= np.iinfo(t).max + 1)
                    narrow = np.dtype(next(fits, array.dtype))
                    if narrow.itemsize < array.itemsize:
                        place.stored, place.low, place.base = narrow, low, base
                        codes = np.empty(array.size, narrow)
                        packing.pack(array, against, low, codes)
                        array = codes
                array.tofile(file)

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name not in self._places:
            raise AttributeError(name)
        return self.rows(name, 0, self._places[name].n)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read some rows of a column."""
        place = self._places[name]
        if start == stop:
            return np.zeros(0, place.dtype)
        stored = np.fromfile(self._path, place.stored, stop - start, offset=place.at + start * place.stored.itemsize)
        if not place.is_packed:
            return stored
        values = np.empty(stored.size, place.dtype)
        packing.unpack(stored, self.rows(place.base, start, stop) if place.base else NOTHING, place.low, values)
        return values

    def search(self, name: str, values: Sequence[int]) -> NDArray[np.int64]:
        """Find where values belong in an ascending column without nulls that is not relative to another one; (n_values,) int64."""
        place = self._places[name]
        if not place.n:
            return np.zeros(len(values), np.int64)
        mapped = np.memmap(self._path, place.stored, "r", place.at, (place.n,))
        codes = [min(v - place.low + 1, np.iinfo(np.int64).max) for v in values] if place.is_packed else values
        return np.searchsorted(mapped, np.array(codes, np.int64))


def rows(kept: Any, name: str, start: int, stop: int) -> NDArray[Any]:
    """Return some rows of a column that was kept, wherever it is."""
    if isinstance(kept, Spilled):
        return kept.rows(name, start, stop)
    column: NDArray[Any] = getattr(kept, name)
    return column[start:stop]


def _copy(columns: C) -> C:
    """Copy an object and the arrays that are its attributes."""
    result = copy(columns)
    for name, array in vars(columns).items():
        setattr(result, name, array.copy())
    return result


class Held:
    """Count the bytes that several spools hold in memory together."""

    def __init__(self) -> None:
        self._lock, self.size = Lock(), 0

    def take(self, size: int) -> bool:
        """Hold so many bytes more, unless that exceeds the budget."""
        with self._lock:
            fits = self.size + size <= BUDGET
            self.size += size if fits else 0
            return fits

    def give(self, size: int) -> None:
        """Hold so many bytes less."""
        with self._lock:
            self.size -= size


class Spool:
    """Keep columns: the first ones in memory, what exceeds the budget in a temporary folder.

    What it keeps lives as long as this, or until the end of the `with` it is used in.

    Parameters
    ----------
    beside : Spool, optional
        One that this shares the budget with.
    """

    def __init__(self, beside: Spool | None = None) -> None:
        self._lock = Lock()
        self._budget: Held = Held() if beside is None else beside._budget
        self._held = 0
        self._n_files = 0
        self._folder: ScratchFolder | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is kept: its columns can no longer be read."""
        with self._lock:
            self._budget.give(self._held)
            self._held, folder, self._folder = 0, self._folder, None
        if folder is not None:
            folder.remove()

    def keep(self, columns: C, relative: Mapping[str, str] | None = None, borrowed: bool = False) -> C:
        """Return the same columns, or something with the same attributes that reads them from a file.

        Parameters
        ----------
        columns : object
            Its attributes are the arrays; -1 is null.
        relative : mapping, optional
            Columns whose values are close to those of another one: they take less room.
        borrowed : bool, optional
            The arrays will be written to again: what stays in memory is copied.

        Raises
        ------
        AnalysisError
            If the file cannot be written.
        """
        size = sum(array.nbytes for array in vars(columns).values())
        with self._lock:
            if self._budget.take(size):
                self._held += size
                return _copy(columns) if borrowed else columns
            if self._folder is None:
                self._folder = temporary_folder()
            path = self._folder.path / str(self._n_files)
            self._n_files += 1
        try:
            return Spilled(columns, relative or {}, path)  # type: ignore[return-value]
        except OSError as error:
            raise AnalysisError(
                f"cannot write the temporary file {path}: {error.strerror or error}\n"
                "  make room there, or set TMPDIR to a folder with more"
            ) from error


def search(kept: Any, name: str, values: Sequence[int]) -> NDArray[np.int64]:
    """Find where values belong in an ascending column that was kept, wherever it is."""
    if isinstance(kept, Spilled):
        return kept.search(name, values)
    return np.searchsorted(getattr(kept, name), values)
