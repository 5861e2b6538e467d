"""Cartesian topologies: positions of locations on a grid (2004 paper on virtual topologies, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.locations import Locations
from tracecols.enhance.definitions.shapes import Found
from tracecols.errors import AnalysisError
from tracecols.given.arguments import is_whole_number, show
from tracecols.given.files import read_json
from tracecols.given.printable import printable
from tracecols.given.quantities import counted
from tracecols.store import Store
from tracecols.vectors import Ints

ARTIFICIAL = "Process x Thread"
"""The topology of processes and their threads, with the name that Score-P gives it."""

ARTIFICIAL_NAMES = ("process x thread", "process/thread")

KEYS = ("name", "sizes", "coordinates", "order", "dimensions", "periodic", "locations")
"""Keys of the description of a topology given by the user."""


@dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """A grid and the locations that are on it; positions may be empty, or hold several locations."""

    name: str
    dimensions: tuple[str, ...]
    """Names of the dimensions."""
    sizes: tuple[int, ...]
    """Sizes of the dimensions; 0 if unknown."""
    periodic: tuple[bool, ...]
    """Whether a dimension wraps around."""
    location: NDArray[np.int32]
    """(n,): locations with a position, in ascending order."""
    coordinates: Ints
    """(n, n_dimensions): positions of these locations."""
    is_artificial: bool = False
    """Whether its coordinates are just process and thread: it was created by a recorder, not by the program."""
    communicator: int = -1
    """Communicator of the trace that it was created for; -1 none, or no longer known."""
    found: Found | None = None
    """Shape found in messages, if neither trace nor user defines the topology; None if that is no longer known."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes; for a dimension of unknown size, the largest coordinate plus 1."""
        reach = self.coordinates.max(0).tolist() if self.location.size else [0] * len(self.sizes)
        return tuple(size or at + 1 for size, at in zip(self.sizes, reach, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the topology as plain lists: the input of `given_topology`, and whether it is artificial."""
        return {
            "name": self.name,
            "dimensions": list(self.dimensions),
            "sizes": list(self.sizes),
            "periodic": list(self.periodic),
            "locations": self.location.tolist(),
            "coordinates": self.coordinates.tolist(),
            "is_artificial": self.is_artificial,
        }

    def of_locations(self, numbers: Ints) -> Topology:
        """Return the same topology with renumbered locations; `numbers` has the new numbers, (n_locations,) int64."""
        location = numbers[self.location]
        order = np.argsort(location, kind="stable")
        return replace(self, location=location[order].astype(np.int32), coordinates=self.coordinates[order])

    def __repr__(self) -> str:
        grid = " x ".join(f"{n or '?'}" for n in self.sizes)
        return (
            f"<Topology {self.name!r}: {grid} ({', '.join(self.dimensions)}), "
            f"{counted(self.location.size, 'location')}>"
        )


def read_topologies(store: Store, locations: Locations) -> tuple[list[Topology], int]:
    """Read the topologies of a trace, in the order of their definitions; that of processes and threads is created if
    the trace has none.

    Also returns the number of positions that are skipped because they do not fit: their topology is not defined, the
    number of coordinates differs, they lie outside of the grid, or the location has an earlier position. Positions
    without a known location (MPI_COMM_SELF) are skipped without being counted.
    """
    table = store.definitions["topologies"].to_pydict()
    positions = store.definitions["topology_coordinates"].to_pydict()
    n_locations = store.definitions["locations"].num_rows
    of: list[dict[int, list[int]]] = [{} for _ in table["name"]]
    misplaced = 0
    for number, location, at in zip(
        positions["topology"], positions["location"], positions["coordinates"], strict=True
    ):
        sizes = table["sizes"][number] if 0 <= number < len(of) else []
        if location < 0:
            continue
        fits = 0 < len(at) == len(sizes) and all(0 <= x < (n or x + 1) for x, n in zip(at, sizes, strict=True))
        if fits and location < n_locations and location not in of[number]:
            of[number][location] = at
        else:
            misplaced += 1
    found = [
        make_topology(
            name,
            dimensions,
            sizes,
            [bool(p) for p in periodic],
            sorted(of[i].items()),
            name.lower() in ARTIFICIAL_NAMES,
            communicator,
        )
        for i, (name, dimensions, sizes, periodic, communicator) in enumerate(
            zip(*(table[c] for c in ("name", "dimensions", "sizes", "periodic", "communicator")), strict=True)
        )
    ]
    if not any(t.is_artificial for t in found):
        found.append(_process_thread(locations))
    return found, misplaced


def make_topology(
    name: str,
    dimensions: Sequence[str],
    sizes: Sequence[int],
    periodic: Sequence[bool],
    positions: Sequence[tuple[int, Sequence[int]]],
    is_artificial: bool = False,
    communicator: int = -1,
) -> Topology:
    """Create a topology from locations in ascending order with a coordinate per dimension, and the row of its
    communicator, -1 none."""
    names = tuple(given or f"dimension {i}" for i, given in enumerate(dimensions))
    location = np.array([location for location, _ in positions], np.int32)
    coordinates = np.array([list(at) for _, at in positions], np.int64).reshape(len(positions), len(names))
    return Topology(name, names, tuple(sizes), tuple(periodic), location, coordinates, is_artificial, communicator)


def _process_thread(locations: Locations) -> Topology:
    cpus = np.flatnonzero(locations.is_cpu)
    coordinates = zip(locations.process[cpus].tolist(), locations.thread[cpus].tolist(), strict=True)
    positions = list(zip(cpus.tolist(), coordinates, strict=True))
    sizes = [max((at[d] for _, at in positions), default=-1) + 1 for d in range(2)]
    return make_topology(ARTIFICIAL, ("Process", "Thread"), sizes, (False, False), positions, True)


def each_of(descriptions: Any) -> tuple[Any, ...]:
    """Return the descriptions that a user gives, one or several. Anything else is one, which `given_topology`
    refuses."""
    is_one = isinstance(descriptions, Mapping) or not isinstance(descriptions, Iterable)
    return (descriptions,) if is_one else tuple(descriptions)


def given_topology(description: Mapping[str, Any], rank: NDArray[np.int32], thread: NDArray[np.int32]) -> Topology:
    """Create a topology from a description by the user, for a trace that has none.

    Parameters
    ----------
    description : mapping
        `sizes`, one per dimension; `coordinates`, one list per rank, None for a rank without a position; and optionally

        * `name`,
        * `dimensions`, their names,
        * `periodic`, one truth value per dimension,
        * `order` instead of coordinates: `"C"` if ranks fill the grid with the last coordinate running fastest, as
          MPI_Cart_create does, `"F"` if with the first,
        * `locations`, whose coordinates are given instead of the ranks': numbers as in `Trace.locations`.

        A rank is the first thread of its process.
    rank, thread : (n_locations,) int32
        Rank and thread number of every location.

    Raises
    ------
    AnalysisError
        If the description is inconsistent or does not fit the trace.
    """
    given = _Description(description)
    given.check_keys()
    sizes = given.sizes()
    dimensions, periodic = (
        given.each(key, value, len(sizes)) for key, value in (("dimensions", ""), ("periodic", False))
    )
    if not all(isinstance(p, int | np.bool_) and p in (False, True) for p in periodic):
        raise given.refused(f"periodic {show(periodic)} are not truth values", "give true or false for each dimension")
    what, locations, numbers = given.placed(rank, thread)
    positions = []
    for location, number, at in zip(locations, numbers, given.coordinates(sizes, what, len(locations)), strict=True):
        if at is None:
            continue
        inside = _are_numbers(at) and len(at) == len(sizes) and all(0 <= x < n for x, n in zip(at, sizes, strict=True))
        if not inside:
            raise given.refused(
                f"{what[:-1]} {number} is at {show(at)}", f"coordinates count from 0, below the sizes {sizes}"
            )
        positions.append((int(location), [int(x) for x in at]))
    return make_topology(
        given.name, [printable(str(d)) for d in dimensions], sizes, [bool(p) for p in periodic], sorted(positions)
    )


class _Description:
    """A description of a topology by the user (`given_topology`), each part of which is checked when it is read; all
    methods raise AnalysisError."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given, self.name = given, _name_of(given)

    def refused(self, what: str, do: str) -> AnalysisError:
        """Return the error that says what is wrong, and what to do."""
        return AnalysisError(f"topology {self.name!r}: {what}\n  {do}")

    def check_keys(self) -> None:
        unknown = sorted(map(str, set(self._given) - {*KEYS, "is_artificial"}))
        if unknown:
            names = ", ".join(key[:40] for key in unknown[:5])
            raise self.refused(f"no key is called {names}", f"there are {', '.join(KEYS)}")

    def sizes(self) -> list[int]:
        """Return the sizes, one per dimension."""
        sizes = self._given.get("sizes")
        if sizes is None or not _are_numbers(sizes) or len(sizes) == 0 or min(sizes) < 1 or max(sizes) >= 1 << 31:
            raise self.refused(
                f"the sizes {show(sizes)} are not positive numbers, one per dimension", 'give them as "sizes": [4, 2]'
            )
        return list(sizes)

    def each(self, key: str, default: Any, n: int) -> Sequence[Any]:
        """Return the values of a key, one for each of n dimensions."""
        values = self._given.get(key) or [default] * n
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != n:
            raise self.refused(f"{key} {show(values)} does not fit {n} sizes", "give one value per dimension")
        return values

    def placed(self, rank: NDArray[np.int32], thread: NDArray[np.int32]) -> tuple[str, Sequence[int], Sequence[int]]:
        """Return what has coordinates, `ranks` or `locations`, the locations, and the numbers of either."""
        locations = self._given.get("locations")
        if locations is None:
            first = {int(rank[i]): int(i) for i in np.lexsort((-thread, rank)).tolist()}
            ranks = sorted(r for r in first if r >= 0)
            return "ranks", [first[r] for r in ranks], ranks
        if not _are_numbers(locations) or not all(0 <= i < rank.size for i in locations):
            raise self.refused(
                f"locations are numbers from 0 to {rank.size - 1}", "they are those of the trace, in its order"
            )
        if len(set(locations)) != len(locations):
            raise self.refused("a location is listed twice", "a location is at one position")
        return "locations", locations, locations

    def coordinates(self, sizes: Sequence[int], what: str, n: int) -> Sequence[Any]:
        """Return the coordinates of n ranks or locations (`what`), which are given, or follow from their order."""
        coordinates, order = self._given.get("coordinates"), self._given.get("order")
        if (coordinates is None) == (order is None):
            raise self.refused(
                "neither or both of coordinates and order are given",
                'give "coordinates", one list per rank, or "order": "C" or "F"',
            )
        if coordinates is None:
            return self._in_order(order, sizes, what, n)
        if not isinstance(coordinates, Sequence) or len(coordinates) != n:
            n_given = len(coordinates) if isinstance(coordinates, Sequence) else "no list of"
            raise self.refused(
                f"{n_given} coordinates for {n} {what}", f"give one list, or null, for each of the {what}"
            )
        return coordinates

    def _in_order(self, order: Any, sizes: Sequence[int], what: str, n: int) -> Sequence[Any]:
        """Return the coordinates of n ranks or locations that fill a grid."""
        if order not in ("C", "F"):
            raise self.refused(
                f"the order {show(order)} is neither 'C' nor 'F'", "C: the last coordinate runs fastest; F: the first"
            )
        room = math.prod(sizes)
        if room != n:
            raise self.refused(
                f"{' x '.join(map(str, sizes))} positions for {n} {what}",
                "an order fills the whole grid; give coordinates if positions stay empty",
            )
        return np.stack(np.unravel_index(np.arange(room), sizes, order=order), axis=1).tolist()


def load_descriptions(file: Path) -> list[Any]:
    """Read one or several descriptions of topologies from a JSON file. Raises AnalysisError if it cannot be read or is
    not JSON."""
    try:
        found = read_json(file)
    except OSError as error:
        raise AnalysisError(f"cannot read {file}: {error.strerror or error}\n  give a JSON file") from error
    except (ValueError, RecursionError) as error:
        # the parser fails on lists that are nested too deeply
        raise AnalysisError(
            f"{file} is not JSON: {error}\n"
            '  describe a topology as {"name": ..., "sizes": [...], "coordinates": [[...], ...]}'
        ) from error
    return found if isinstance(found, list) else [found]


def _name_of(description: Any) -> str:
    if not isinstance(description, Mapping):
        raise AnalysisError(
            f"a topology cannot be {show(description)}\n"
            '  describe it as {"name": ..., "sizes": [...], "coordinates": [[...], ...]}'
        )
    name = description.get("name", "by hand")
    return printable(name if isinstance(name, str) else show(name))


def _are_numbers(values: Any) -> bool:
    """Return whether something is a list of whole numbers."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind in "iu"
    return isinstance(values, Sequence) and not isinstance(values, str) and all(map(is_whole_number, values))
