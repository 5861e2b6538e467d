"""Subdomains and other parts of the application that locations belong to, as the user says: a dimension beside the
machine."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError
from tracecols.given.arguments import show
from tracecols.severity.axes import SystemAxis
from tracecols.severity.queries import Severities
from tracecols.severity.reduction import reduce_at

if TYPE_CHECKING:
    import pandas as pd

Cube = TypeVar("Cube", bound=Severities)

INNERMOST = ("process", "accelerator")
"""Kinds of nodes of system trees below which there are locations of one process."""

Given = Mapping[Any, str] | Callable[[int, int], str | None] | str | Path
"""By rank, or by rank and thread, the name of a subdomain; a function of rank and thread; or a .csv file of them."""

HINT = (
    "give a .csv file with the columns rank, perhaps thread, and subdomain; a mapping; or a function of rank and thread"
)


def subdomains_of(system: SystemAxis, given: Given) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of subdomains, in the order of their first locations, and that of each location; -1 none.

    Parameters
    ----------
    given : mapping, callable, str or Path
        Names by rank, or by (rank, thread), which comes first; a function of rank and thread that returns a name or
        None; or a .csv file with the columns `rank`, `subdomain` and, where threads differ, `thread`.

    Raises
    ------
    SeverityError
        If it is none of them, a file is damaged, or it names ranks or threads that the cube does not have.
    """
    places = list(zip(system.rank.tolist(), system.thread.tolist(), strict=True))
    if callable(given):
        chosen = [given(rank, thread) for rank, thread in places]
    else:
        by_place = _read(Path(given)) if isinstance(given, str | Path) else given
        if not isinstance(by_place, Mapping):
            raise SeverityError(f"{show(given)} says no subdomains\n  {HINT}")
        known = {*places, *(rank for rank, _ in places)}
        if unknown := [place for place in by_place if place not in known]:
            raise SeverityError(
                f"{len(unknown):,} of the subdomains are of ranks or threads that this cube does not have, such as "
                f"{show(unknown[0])}\n"
                f"  it has {len(places):,} locations on {np.unique(system.rank).size:,} ranks"
            )
        chosen = [by_place.get(place, by_place.get(place[0])) for place in places]
    if wrong := [name for name in chosen if name is not None and not isinstance(name, str)]:
        raise SeverityError(f"{show(wrong[0])} is no name of a subdomain\n  names are texts, or None")
    number: dict[str, int] = {}
    of = [-1 if not name else number.setdefault(name, len(number)) for name in chosen]
    return list(number), np.array(of, np.int64)


def _read(path: Path) -> dict[int | tuple[int, int], str]:
    """Read a .csv file of subdomains."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SeverityError(f"cannot read the subdomains of {path}: {error}\n  {HINT}") from error
    if not rows or not {"rank", "subdomain"} <= rows[0].keys():
        raise SeverityError(f"{path} has no columns rank and subdomain\n  {HINT}")
    found: dict[int | tuple[int, int], str] = {}
    for line, row in enumerate(rows, 2):
        numbers = [(row.get(column) or "").strip() for column in ("rank", "thread")]
        if not numbers[0].isdecimal() or (numbers[1] and not numbers[1].isdecimal()):
            raise SeverityError(f"{path}, line {line}: {', '.join(numbers)} are no rank and thread\n  {HINT}")
        rank = int(numbers[0])
        key = (rank, int(numbers[1])) if numbers[1] else rank
        if key in found:
            raise SeverityError(f"{path}, line {line}: {show(key)} has a subdomain already\n  name each location once")
        found[key] = (row["subdomain"] or "").strip()
    return found


def by_subdomain(
    cube: Severities, name: str, subdomains: Given, call_paths: NDArray[np.bool_] | None = None
) -> pd.DataFrame:
    """Return what the locations of each subdomain have of a property, or of that on some call paths.

    Parameters
    ----------
    name : str
        Id or title of a property.
    subdomains : mapping, callable, str or Path
        Names by rank, or by (rank, thread), which comes first; a function of rank and thread that returns a name or
        None; or a .csv file with the columns `rank`, `subdomain` and, where threads differ, `thread`.
    call_paths : (n_call_paths,) bool, optional
        Call paths to add up; all by default.

    Returns
    -------
    DataFrame
        By subdomain, in the order of their first locations; those of none are last, under an empty name: `value` (the
        sum; of what is computed the value of its formula for the sums), `n_locations`, `mean` and `max` (of a
        location), and `rank` and `thread` of the location that has most.

    Raises
    ------
    SeverityError
        If there is no such property, or the subdomains are none, or of other ranks and threads.

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
    if cube.properties.is_computed(name):
        value = cube.computed(
            name, lambda operand: by_subdomain(cube, operand, subdomains, call_paths).value.to_numpy()
        )
    else:
        own = cube.cells[name] if call_paths is None else cube.cells[name].on(call_paths)
        value = cube.in_units(name, reduce_at(of[own.location], own.value, n, cube.properties.reduction(name)))
    each = cube.by_location(name, call_paths)
    count = np.bincount(of, minlength=n)
    order = np.lexsort((-np.arange(of.size), np.nan_to_num(each, nan=-np.inf), of))
    most = order[np.cumsum(count) - 1]
    columns = {
        "value": np.broadcast_to(value, n),
        "n_locations": count,
        "mean": np.bincount(of, each, n) / count,
        "max": each[most],
        "rank": s.rank[most],
        "thread": s.thread[most],
    }
    return pd.DataFrame(columns, index=pd.Index(names, name="subdomain"))


def with_subdomains(cube: Cube, subdomains: Given) -> Cube:
    """Return a cube whose system tree has the subdomains of the application in the place of machines and nodes.

    Processes, threads and streams, and all values, are as they are. A process whose threads belong to several
    subdomains is below each of them, with the threads that do.

    Parameters
    ----------
    subdomains : mapping, callable, str or Path
        As for `by_subdomain`.

    Returns
    -------
    SeverityCube
        Its roots are the subdomains, in the order of their first locations, and "(none)" for locations of none.

    Raises
    ------
    SeverityError
        If the subdomains are none, or of other ranks and threads.

    Examples
    --------
    >>> cube.with_subdomains("parts.csv").save("by_part.severity")  # doctest: +SKIP
    """
    names, of = subdomains_of(cube.system, subdomains)
    return cube.replaced(system=_grouped(cube.system, [*names, "(none)"], np.where(of < 0, len(names), of)))


def _grouped(s: SystemAxis, names: list[str], of: NDArray[np.int64]) -> SystemAxis:
    """Return a system tree with a root for each group of locations, over the processes that they are in."""
    # what is inside of processes keeps its place below them; nodes come after those they are in
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
