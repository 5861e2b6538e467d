"""Where columns stay that only some steps need: in memory, and beyond a budget in files."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import AnalysisError
from tracecols.scratch import ScratchFolder, temporary_folder

BUDGET = 1 << 29
"""Bytes that are held in memory."""

C = TypeVar("C")


class Spilled:
    """Columns in a file; an attribute reads one of them, each time anew.

    Parameters
    ----------
    columns : object
        Its attributes are the arrays.
    path : Path
        The file.
    """

    def __init__(self, columns: object, path: Path) -> None:
        self._path = path
        self._places: dict[str, tuple[int, Any, int]] = {}
        with path.open("wb") as file:
            for name, array in vars(columns).items():
                self._places[name] = file.tell(), array.dtype, array.size
                array.tofile(file)

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name not in self._places:
            raise AttributeError(name)
        return self.rows(name, 0, self._places[name][2])

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Read some rows of a column."""
        at, dtype, _ = self._places[name]
        if start == stop:
            return np.zeros(0, dtype)
        return np.fromfile(self._path, dtype, stop - start, offset=at + start * dtype.itemsize)

    def mapped(self, name: str) -> NDArray[Any]:
        """Map a column into memory."""
        at, dtype, n = self._places[name]
        return np.memmap(self._path, dtype, "r", at, (n,)) if n else np.zeros(0, dtype)


def rows(kept: Any, name: str, start: int, stop: int) -> NDArray[Any]:
    """Return some rows of a column that was kept, wherever it is."""
    if isinstance(kept, Spilled):
        return kept.rows(name, start, stop)
    column: NDArray[Any] = getattr(kept, name)
    return column[start:stop]


class Spool:
    """Keep columns: the first ones in memory, what exceeds the budget in a temporary folder that lives as long as this."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held = 0
        self._n_files = 0
        self._folder: ScratchFolder | None = None

    def keep(self, columns: C) -> C:
        """Return the same columns, or something with the same attributes that reads them from a file.

        Raises
        ------
        AnalysisError
            If the file cannot be written.
        """
        size = sum(array.nbytes for array in vars(columns).values())
        with self._lock:
            if self._held + size <= BUDGET:
                self._held += size
                return columns
            if self._folder is None:
                self._folder = temporary_folder()
            path = self._folder.path / str(self._n_files)
            self._n_files += 1
        try:
            return Spilled(columns, path)  # type: ignore[return-value]
        except OSError as error:
            raise AnalysisError(
                f"cannot write the temporary file {path}: {error.strerror or error}\n"
                "  make room there, or set TMPDIR to a folder with more"
            ) from error


def mapped(kept: Any, name: str) -> NDArray[Any]:
    """Return a column that was kept without reading it: an array, or a map of its file."""
    if isinstance(kept, Spilled):
        return kept.mapped(name)
    column: NDArray[Any] = getattr(kept, name)
    return column
