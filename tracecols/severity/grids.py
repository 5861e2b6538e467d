"""Severities on grids: the topologies that locations are on (2004 paper on virtual topologies, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.topologies import Topology, given_topology
from tracecols.errors import SeverityError
from tracecols.given.arguments import is_whole_number, show
from tracecols.severity.axes import SystemAxis
from tracecols.severity.queries import Cube, Severities, check_aggregation, values_of
from tracecols.severity.reduction import reduce_at


def find_topology(cube: Severities, topology: str | int) -> Topology:
    """Return a topology given by name or by its number in `topologies`.

    Parameters
    ----------
    topology : str or int
        Name, or number in `topologies`.

    Raises
    ------
    SeverityError
        If there is none, or several have the name.
    """
    listed = "\n".join(f"  {i} {t!r}" for i, t in enumerate(cube.topologies)) or "  none"
    if isinstance(topology, str):
        found = [i for i, t in enumerate(cube.topologies) if t.name.lower() == topology.lower()]
        if len(found) != 1:
            how = "no topology is" if not found else f"{len(found)} topologies are"
            raise SeverityError(f"{how} called {topology!r}; give a number\n{listed}")
        topology = found[0]
    if not is_whole_number(topology) or not 0 <= topology < len(cube.topologies):
        raise SeverityError(f"no topology {show(topology)} in this cube; there are\n{listed}")
    return cube.topologies[topology]


def on_topology(
    cube: Severities,
    topology: str | int | Topology,
    name: str = "time",
    call_path: str | None = None,
    aggregation: str = "iei",
) -> NDArray[np.float64]:
    """Lay the severities of a property on a grid (2004 paper on virtual topologies, section 3).

    Parameters
    ----------
    topology : str, int or Topology
        Name, or number in `topologies`.
    aggregation : str, optional
        Along property and call path (see `cells_of`). For the system, `i`: threads without a position count at that of
        the first thread of their process that has one; `e`: they are left out.

    Returns
    -------
    (size, ...) float64
        Seconds, occurrences or bytes; one axis per dimension of the topology. NaN at positions without a location,
        the sum at positions of several.

    Raises
    ------
    SeverityError
        If the topology, property or call path does not exist, or the grid has more than 10^8 positions.

    Examples
    --------
    >>> cube.on_topology("MPI_Cartesian_2x2", "mpi_latesender")  # doctest: +SKIP
    array([[0.0027, 0.0012], [0.0031, 0.0008]])
    """
    t = topology if isinstance(topology, Topology) else find_topology(cube, topology)
    shape = t.shape
    if np.prod(shape, dtype=np.float64) > 1e8:
        raise SeverityError(f"{t!r} has too many positions for an array\n  lay it out from its coordinates")
    name = cube.find_property(name)
    check_aggregation(aggregation)
    on = None if call_path is None else cube.find_call_paths(call_path)
    result = np.full(shape, np.nan)
    if not t.location.size:
        return result
    n = cube.system.n_locations
    counts_at = stand_ins(cube.system, t.location) if aggregation[2] == "i" else np.arange(n)
    # only the occupied positions: a grid may have 10^8
    positions, index = np.unique(np.ravel_multi_index(tuple(t.coordinates.T), shape), return_inverse=True)

    def at_positions(of: str) -> NDArray[np.float64]:
        how, cells = cube.properties.reduction(of), cube.cells_of(of, aggregation)
        cells = cells if on is None else cells.on(on)
        at = counts_at[cells.location]
        of_location = reduce_at(at[at >= 0], cells.value[at >= 0], n, how)
        return cube.in_units(of, reduce_at(index, of_location[t.location], positions.size, how))

    result.reshape(-1)[positions] = values_of(cube, name, at_positions, (positions.size,))
    return result


def with_topology(
    cube: Cube,
    name: str,
    sizes: Sequence[int],
    coordinates: Sequence[Sequence[int] | None] | NDArray[np.int64] | None = None,
    **more: Any,
) -> Cube:
    """Return this cube with a user-defined topology.

    The wavefront properties need it when the trace is analyzed: `Trace.analyze(topologies=...)`.

    Parameters
    ----------
    name : str
    sizes : sequence of int
        One per dimension.
    coordinates : sequence, optional
        Coordinates of every rank; None for a rank without a position.
    **more
        `order`, `dimensions`, `periodic`, `locations` (see `tracecols.enhance.definitions.topologies.given_topology`).

    Raises
    ------
    AnalysisError
        If the topology contradicts itself or the cube.
    """
    if isinstance(coordinates, np.ndarray):
        coordinates = coordinates.tolist()
    given: Mapping[str, Any] = {"name": name, "sizes": sizes, "coordinates": coordinates, **more}
    topology = given_topology(given, cube.system.rank, cube.system.thread)
    return cube.replaced(topologies=[*cube.topologies, topology])


def stand_ins(system: SystemAxis, placed: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for every location the one at whose position it counts: itself, or the first of its process that has a
    position; -1 if there is none."""
    process = np.full(system.n_locations, -1, np.int64)
    for node, row in enumerate(system.location):
        if row >= 0:
            process[row] = system.parent[node]
    result = np.full(process.size, -1, np.int64)
    first = {int(process[i]): int(i) for i in placed[::-1].tolist()}
    for i, p in enumerate(process.tolist()):
        result[i] = first.get(p, -1)
    result[placed] = placed
    return result
