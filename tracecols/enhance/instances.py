"""What the scans of some locations found, put together: call instances, and attributed events with the columns of their side tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance import scan as passes
from tracecols.enhance.columns import Columns, CompoundTable, joined, pick
from tracecols.enhance.facts import Facts
from tracecols.enhance.grouping import Segments, combine, mask_of, number
from tracecols.enhance.scan import ACTION, LocationScan
from tracecols.enhance.teams import Teams
from tracecols.kernels import stacks
from tracecols.schema import KINDS
from tracecols.schema.compound import PROFILE, REGION_INSTANCES

WALKED = 1 << 14
"""Events that `walk_stacks` looks at together: what is written for them stays in the cache."""


class CallInstances:
    """The call instances of some locations, one location after the other.

    Attributes
    ----------
    location : (n,) int32
    call_path : (n,) int32
        In the merged call tree.
    enter, exit : (n,) int64
        Rows of ENTER and EXIT; -1 where it was never left.
    enter_time, exit_time : (n,) int64
        Ticks.
    tasks : (n,) int64
        Ticks of explicit tasks completed inside.
    begin : (n,) int64
        Team begin (`Teams`) the thread was in; -1 none.
    start : (n_locations + 1,) int64
        First call instance of each location.
    """

    def __init__(
        self, facts: Facts, scans: Sequence[LocationScan], members: NDArray[np.int64], only_global: bool, teams: Teams
    ) -> None:
        numbers = facts.call_paths.numbers
        chosen = members.tolist()
        self._global = {i: scans[i].global_numbers for i in chosen} if only_global else {}
        counts = np.zeros(len(scans), np.int64)
        for i in chosen:
            counts[i] = self._global[i].size if only_global else scans[i].n_calls
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.location = np.repeat(np.arange(len(scans), dtype=np.int32), counts)
        sources = [scans[i].global_calls if only_global else scans[i].calls for i in chosen]

        def column(
            name: str, dtype: type, of: Callable[[int, NDArray[Any]], NDArray[Any]] | None = None
        ) -> NDArray[Any]:
            """Put a column of all locations together."""
            arrays = [s.column(name) for s in sources]
            if of is not None:
                arrays = [of(i, array) for i, array in zip(chosen, arrays, strict=True)]
            return joined(arrays) if arrays else np.zeros(0, dtype)

        self.call_path = column("node", np.int32, lambda i, node: numbers[i][node])
        self.begin = column("team", np.int64, lambda i, team: np.where(team >= 0, team + teams.begin_start[i], -1))
        self.enter, self.exit = column("enter", np.int64), column("exit", np.int64)
        self.enter_time, self.exit_time = column("enter_time", np.int64), column("exit_time", np.int64)
        self.tasks: NDArray[np.int64] = np.broadcast_to(np.int64(0), self.enter.shape)
        if any(scans[i].has_tasks for i in chosen):
            self.tasks = joined(
                [
                    s.column("tasks") if scans[i].has_tasks else np.zeros(int(counts[i]), np.int64)
                    for i, s in zip(chosen, sources, strict=True)
                ]
            )

    def number(self, location: int, call: NDArray[np.int64]) -> NDArray[np.int64]:
        """Turn a location's own numbers of call instances into numbers here; -1 stays."""
        if self._global:
            call = np.where(call >= 0, np.searchsorted(self._global[location], call), -1)
        return np.where(call >= 0, call + self.start[location], -1)


def call_instances(
    facts: Facts, scans: Sequence[LocationScan], members: NDArray[np.int64], only_global: bool, teams: Teams
) -> CallInstances:
    """Put the call instances of some locations together."""
    return CallInstances(facts, scans, members, only_global, teams)


def attributed_events(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: NDArray[np.int64],
    calls: CallInstances,
    family: str,
    columns: Sequence[str],
) -> Columns:
    """Join the events of a family with the columns of its side table.

    The scan of a location attributes every event that has a row in a side table, in the order of the events, and the side table
    has one row for each of them in the same order. So the events of one family, in the order of the scan, are the rows of its
    side table: the k-th of the one belongs to the k-th of the other.

    Parameters
    ----------
    facts, scans, members, calls
        Of the slice.
    family : str
        Side table.
    columns : sequence of str
        Which of its columns.

    Returns
    -------
    Columns
        `location` int32, `row` int64, `kind` uint8, `time` int64 (ticks), `call` int64 (number in `calls`, -1 none) and `columns`, in
        the order of the event table.

    Raises
    ------
    StoreError
        If a side table has other rows than its location has events of the family.
    """
    of_family = mask_of(k.number for k in KINDS if k.family == family)
    found: list[dict[str, NDArray[Any]]] = []
    for i in members.tolist():
        side = facts.store.read(family, i, ["row", "kind", *columns])
        if not side["row"].size:
            continue
        events = scans[i].events
        kind = events.column("kind")
        mine = of_family[kind]
        call = events.column("call")[mine]
        if not np.array_equal(kind[mine], side["kind"]):
            raise facts.store.damaged(f"location {i}: the kinds of its events are not those in the table {family}")
        found.append(
            {
                **side,
                "location": np.full(call.size, i, np.int32),
                "time": events.column("time")[mine],
                "call": calls.number(i, call),
            }
        )
    names = ("location", "row", "kind", "time", "call", *columns)
    result = {name: joined([f[name] for f in found]) if found else np.zeros(0, np.int64) for name in names}
    return Columns(result["row"].size, result)


def profile(facts: Facts, scans: Sequence[LocationScan]) -> CompoundTable:
    """Add up exclusive time and visits per call path and location."""
    numbers = facts.call_paths.numbers
    location = np.repeat(np.arange(facts.n_locations), [n.size for n in numbers])
    call_path = np.concatenate([*numbers, np.zeros(0, np.int64)])
    exclusive = np.concatenate([*(s.exclusive for s in scans), np.zeros(0, np.int64)])
    visits = np.concatenate([*(s.visits for s in scans), np.zeros(0, np.int64)])
    inherited = np.concatenate([*(s.inherited() for s in scans), np.zeros(0, bool)])
    # a thread that inherits one call path from several masters has it several times
    group, first = number(combine(location, call_path))
    segments = Segments(group, first.size)
    return CompoundTable(
        PROFILE,
        first.size,
        {
            "call_path": call_path[first].astype(np.int32),
            "location": location[first].astype(np.int32),
            "exclusive": segments.sum(exclusive),
            "visits": segments.sum(visits),
            "inherited": segments.any(inherited),
        },
    )


def walk_stacks(
    facts: Facts, scans: Sequence[LocationScan], teams: Teams, location: int
) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Go through the events of a location once more, with the call path at each of them.

    Parameters
    ----------
    facts, scans
        Of the trace.
    teams : Teams
        With those of the location.
    location : int
        Row of the location.

    Yields
    ------
    row : int
        That of the first event.
    columns : dict of str to (n,) array
        `time`, `kind`, `region` as stored, and `node` int32: number of the call path within the location, -1 is null. The arrays
        are written to again.
    """
    scan = LocationScan(facts.store, facts.regions, teams, facts.order, location, scans[location].first_row)
    scan.enter_threads()
    enterptr, exitptr, node = np.empty(WALKED, np.int64), np.empty(WALKED, np.int64), np.empty(WALKED, np.int32)
    for first in range(0, scan.n, passes.BATCH):
        columns = facts.store.read("events", location, None, first, first + passes.BATCH, checked=False)
        if not first:
            scan.prepare(scans, int(columns["time"][0]))
        scan.at = first
        entry = scan.entries(columns["region"])
        for at in range(0, entry.size, WALKED):
            here = slice(at, at + WALKED)
            part = {name: columns[name][here] for name in ("time", "kind", "region")}
            n = part["time"].size
            row = scan.first_row + first + at
            scan.state[stacks.ROW] = row
            scan.run(part["time"], part["kind"], entry[here], (enterptr[:n], exitptr[:n], node[:n]))
            yield row, {**part, "node": node[:n]}


def scan_stacks(facts: Facts, scans: Sequence[LocationScan], teams: Teams, location: int) -> dict[str, NDArray[Any]]:
    """Compute where the region stack of a location stands at each of its events.

    Parameters
    ----------
    facts, scans
        Of the trace.
    teams : Teams
        With those of the location.
    location : int
        Row of the location.

    Returns
    -------
    dict of str to (n_events,) array
        `time`, `kind`, `region` as stored, int64 rows `enterptr` and `exitptr`, and `call_path`, int64; -1 is null.
        24 B per event of the location, plus its columns.
    """
    scan = LocationScan(facts.store, facts.regions, teams, facts.order, location, scans[location].first_row)
    scan.enter_threads()
    columns = facts.store.read("events", location)
    n = columns["time"].size
    enterptr, exitptr, node = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
    if n:
        scan.prepare(scans, int(columns["time"][0]))
        scan.run(columns["time"], columns["kind"], scan.entries(columns["region"]), (enterptr, exitptr, node))
    call_path = pick(facts.call_paths.numbers[location], node.astype(np.int64))
    return {**columns, "enterptr": enterptr, "exitptr": exitptr, "call_path": call_path}


def region_instances(
    facts: Facts, scans: Sequence[LocationScan], members: Iterable[int], teams: Teams
) -> CompoundTable:
    """Build the table of the executions of regions on some locations; 48 B per instance."""
    found: dict[str, list[NDArray[Any]]] = {c.name: [np.zeros(0, c.dtype)] for c in REGION_INSTANCES.columns}
    for location in np.asarray(members).tolist():
        columns = scan_stacks(facts, scans, teams, location)
        exitptr, call_path = columns["exitptr"], columns["call_path"]
        first = scans[location].first_row
        at = np.flatnonzero((ACTION[columns["kind"]] == stacks.PUSH) | (exitptr >= 0))
        leave = exitptr[at]
        here: dict[str, NDArray[Any]] = {
            "location": np.full(at.size, location, np.int32),
            "enter": first + at,
            "exit": leave,
            "region": columns["region"][at],
            "call_path": call_path[at].astype(np.int32),
            "enter_time": columns["time"][at],
            "exit_time": pick(columns["time"], np.where(leave >= 0, leave - first, -1)),
        }
        for name, values in here.items():
            found[name].append(values)
    table = {name: np.concatenate(arrays) for name, arrays in found.items()}
    return CompoundTable(REGION_INSTANCES, table["enter"].size, table)
