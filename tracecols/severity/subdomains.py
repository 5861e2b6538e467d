"""Subdomains and other user-defined parts of the application that locations belong to: a dimension besides the
machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError
from tracecols.given.subdomains import Given, Subdomains, find_subdomains
from tracecols.severity.axes import SystemAxis
from tracecols.severity.queries import Cube, Severities, values_of
from tracecols.severity.reduction import reduce_at

if TYPE_CHECKING:
    import pandas as pd

INNERMOST = ("process", "accelerator")
"""Kinds of nodes of system trees below which there are locations of one process."""


def subdomains_of(system: SystemAxis, given: Given) -> Subdomains:
    """Return the subdomains of the locations of a cube (`given.subdomains.find_subdomains`). Raises SeverityError if
    there are none, or they are of ranks or threads that the cube does not have."""
    return find_subdomains(system.rank, system.thread, given, SeverityError, "this cube")


def by_subdomain(
    cube: Severities, name: str, subdomains: Given, call_paths: NDArray[np.bool_] | None = None
) -> pd.DataFrame:
    """Return the values of a property for the locations of each subdomain, on all or some call paths.

    Parameters
    ----------
    subdomains : mapping, callable, str or Path
        Names by rank, or by (rank, thread), which comes first; a function of rank and thread that returns a name or
        None; or a .csv file with the columns `rank`, `subdomain` and, where threads differ, `thread`.

    Returns
    -------
    DataFrame
        By subdomain, in the order of their first locations; locations of none are last, under an empty name: `value`
        (the sum; for computed properties the formula of the sums), `n_locations`, `mean` and `max` (of a location), and
        `rank` and `thread` of the location that has most.

    Raises
    ------
    SeverityError
        If there is no such property, there are no subdomains, or they are of ranks or threads that the cube lacks.

    Examples
    --------
    >>> cube.by_subdomain("mpi", {0: "ocean", 1: "ocean", 2: "ice", 3: "ice"})  # doctest: +SKIP
    >>> cube.by_subdomain("comp", lambda rank, thread: f"plane {rank // 16}")  # doctest: +SKIP
    """
    import pandas as pd

    name = cube.find_property(name)
    names, of = subdomains_of(cube.system, subdomains)
    if (of < 0).any():
        names, of = [*names, ""], np.where(of < 0, len(names), of)
    n, s = len(names), cube.system

    def sums(name: str) -> NDArray[np.float64]:
        own = cube.cells_on(name, call_paths)
        return cube.in_units(name, reduce_at(of[own.location], own.value, n, cube.properties.reduction(name)))

    each = cube.by_location(name, call_paths)
    count = np.bincount(of, minlength=n)
    order = np.lexsort((-np.arange(of.size), np.nan_to_num(each, nan=-np.inf), of))
    most = order[np.cumsum(count) - 1]
    columns = {
        "value": values_of(cube, name, sums, (n,)),
        "n_locations": count,
        "mean": np.bincount(of, each, n) / count,
        "max": each[most],
        "rank": s.rank[most],
        "thread": s.thread[most],
    }
    return pd.DataFrame(columns, index=pd.Index(names, name="subdomain"))


def with_subdomains(cube: Cube, subdomains: Given) -> Cube:
    """Return a cube whose system tree has the subdomains of the application in place of machines and nodes.

    Processes, threads and streams, and all values, are unchanged. A process whose threads belong to several subdomains
    is below each of them, with the threads that do.

    Returns
    -------
    SeverityCube
        Its roots are the subdomains, in the order of their first locations, and "(none)" for locations of none.

    Raises
    ------
    SeverityError
        If there are no subdomains, or they are of ranks or threads that the cube lacks.

    Examples
    --------
    >>> cube.with_subdomains("parts.csv").save("by_part.severity")  # doctest: +SKIP
    """
    names, of = subdomains_of(cube.system, subdomains)
    return cube.replaced(system=grouped(cube.system, Subdomains(names, of)))


def grouped(s: SystemAxis, subdomains: Subdomains) -> SystemAxis:
    """Return a system tree with a root for each subdomain, and one for locations of none, above the processes of these
    locations."""
    names = [*subdomains.names, "(none)"]
    of = np.where(subdomains.of < 0, len(subdomains.names), subdomains.of)
    # nodes inside processes stay below them; nodes come after their parents
    inside: list[bool] = []
    for node, parent in enumerate(s.parent):
        inside.append(s.kind[node] in INNERMOST or s.location[node] >= 0 or (parent >= 0 and inside[parent]))
    groups: list[set[int]] = [set() for _ in s.kind]
    members: list[list[int]] = [[] for _ in names]
    for node in range(len(s.kind) - 1, -1, -1):
        if s.location[node] >= 0:
            groups[node].add(int(of[s.location[node]]))
        if s.parent[node] >= 0:
            groups[s.parent[node]] |= groups[node]
        for group in groups[node] if inside[node] else ():
            members[group].append(node)
    kind, name, parents, location = list[str](), list[str](), list[int](), list[int]()
    for label, found in zip(names, members, strict=True):
        mine, root = found[::-1], len(kind)
        number = {node: root + 1 + k for k, node in enumerate(mine)}
        if mine:
            kind += ["subdomain", *(s.kind[node] for node in mine)]
            name += [label, *(s.name[node] for node in mine)]
            parents += [-1, *(number.get(s.parent[node], root) for node in mine)]
            location += [-1, *(s.location[node] for node in mine)]
    return SystemAxis(kind, name, parents, location, s.rank, s.thread, s.location_name, s.location_type)
