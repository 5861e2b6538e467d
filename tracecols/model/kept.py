"""What slices of a trace keep for each other during one analysis: in the memory of this process, or in files that all
workers see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.spill import ColumnSpill, SharedSpill, Spill
from tracecols.enhance.scan.scan import LocationScan
from tracecols.work.cluster import loaded, save


class Kept(Protocol):
    """What `InMemory` and `InFiles` have in common.

    Attributes
    ----------
    spill : Spill
        Where columns of these values stay.
    """

    spill: Spill

    def get(self, name: str, number: int, make: Callable[[], Any], *, always: bool = False) -> Any:
        """Return a value by its name and the number of its slice; it is made if it is not there. `always`: every task
        needs it."""

    def of_task(self, task: str) -> Kept:
        """Return the same values as a task sees them."""

    def forget(self, names: Collection[str]) -> None:
        """Let go of the values of some names, of all slices: no later step reads them."""

    def close(self) -> None:
        """End what is kept."""


class _Once:
    """A value that is made once, whichever thread asks for it first."""

    def __init__(self) -> None:
        self._lock, self._done, self._value = Lock(), False, None

    def get(self, make: Callable[[], Any]) -> Any:
        with self._lock:
            if not self._done:
                self._value, self._done = make(), True
            return self._value


class InMemory:
    """Values that the threads of this process keep for each other; their columns stay in memory or in temporary files.

    Parameters
    ----------
    beside : ColumnSpill, optional
        Another one with which their columns share the budget.
    """

    def __init__(self, beside: ColumnSpill | None) -> None:
        self._columns = ColumnSpill(beside=beside)
        self.spill: Spill = self._columns
        self._values: dict[tuple[str, int], _Once] = {}
        self._lock = Lock()

    def get(self, name: str, number: int, make: Callable[[], Any], *, always: bool = False) -> Any:
        """Return a value; the first thread that asks for it makes it, and others wait."""
        with self._lock:
            once = self._values.setdefault((name, number), _Once())
        return once.get(make)

    def of_task(self, task: str) -> InMemory:
        """Return itself."""
        return self

    def forget(self, names: Collection[str]) -> None:
        """Let go of the values of some names; their columns make room for others."""
        with self._lock:
            self._values = {key: once for key, once in self._values.items() if key[0] not in names}

    def close(self) -> None:
        """Forget the values and remove their temporary files."""
        self._values.clear()
        self._columns.__exit__()


class InFiles:
    """Values that the workers of a cluster keep for each other: a file for each, beside it one with the columns of a
    task."""

    def __init__(self, folder: Path, task: str = "client") -> None:
        self.folder = folder
        self.spill: Spill = SharedSpill(folder, task)

    def __reduce__(self) -> tuple[type[InFiles], tuple[Path]]:
        return type(self), (self.folder,)

    def get(self, name: str, number: int, make: Callable[[], Any], *, always: bool = False) -> Any:
        """Return a value; who asks for one that is not there makes it and writes it."""
        path = self.folder / f"{name}-{number}.values"
        try:
            return loaded.get(path, always=always)
        except FileNotFoundError:
            value = make()
            save(path, value)
            return value

    def of_task(self, task: str) -> InFiles:
        """Return the same values, with a file for the columns that a task keeps."""
        return InFiles(self.folder, task)

    def forget(self, names: Collection[str]) -> None:
        """Do nothing: a task that is done again on another worker may read them."""

    def close(self) -> None:
        """Do nothing: they go with their folder."""


class KeptScans(Sequence[LocationScan]):
    """The scans of all locations, in files: each is read when it is asked for.

    Parameters
    ----------
    paths : sequence of Path
        Files with the scans of some locations each, as a dict.
    group : (n_locations,) int64
        Which file has each location.
    """

    def __init__(self, paths: Sequence[Path], group: NDArray[np.int64]) -> None:
        self._paths, self._group = tuple(paths), group

    def __len__(self) -> int:
        return self._group.size

    @overload
    def __getitem__(self, location: int) -> LocationScan: ...

    @overload
    def __getitem__(self, location: slice) -> Sequence[LocationScan]: ...

    def __getitem__(self, location: int | slice) -> LocationScan | Sequence[LocationScan]:
        if isinstance(location, slice):
            return [self[i] for i in range(*location.indices(len(self)))]
        found: dict[int, LocationScan] = loaded.get(self._paths[int(self._group[location])])
        return found[int(location)]

    def __iter__(self) -> Iterator[LocationScan]:
        for location in range(len(self)):
            yield self[location]
