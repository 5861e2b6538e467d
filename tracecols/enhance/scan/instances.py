"""Combined results of the scans of some locations: call instances, and attributed events with the columns of their side
tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, joined, joined_column, merged, pick
from tracecols.enhance.dataflow.grouping import Segments, bounded, combine, mask_of
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import ANY, WITHIN, step
from tracecols.enhance.scan.batches import next_events, runs_of, scan_batch
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import (
    ACTION,
    FIRST_STATE,
    LocationScan,
    RunningScan,
    ScanBuffers,
    charges_of,
    flush_stops_of,
)
from tracecols.enhance.scan.scan import GROUP, inherited
from tracecols.enhance.scan.teams import Teams
from tracecols.kernels import arrays, stacks
from tracecols.kernels import teams as kernels
from tracecols.kernels.actions import FLUSH, PUSH
from tracecols.schema import KINDS
from tracecols.schema.compound import PROFILE, REGION_INSTANCES
from tracecols.vectors import Ints, Mask, offsets_of

CALL = ("enter", "exit", "enter_time", "exit_time", "call_path")
"""Columns of call instances that compound tables have, with the role of the call as prefix: `send_enter`, ..."""

WALKED = 1 << 17
"""Events per step of `walk_stacks`: its output stays in the cache, and 0.2 ms of Python per step are 3 ns per event."""


ROOTED = 1 << 12
"""Locations whose outermost call paths are searched together."""


class CallInstances:
    """The call instances of some locations, one location after the other.

    Attributes
    ----------
    location : (n,) int32
    call_path : (n,) int32
        In the merged call tree.
    enter, exit : (n,) int64
        Rows of ENTER and EXIT; EXIT is -1 if the region was never left.
    enter_time, exit_time : (n,) int64
        Ticks.
    tasks : (n,) int64
        Ticks of explicit tasks completed inside.
    begin : (n,) int64
        Team begin (`Teams`) that the thread was in; -1 none.
    start : (n_locations + 1,) int64
        First call instance of each location.
    """

    def __init__(
        self, facts: Facts, scans: Sequence[LocationScan], members: Ints, only_global: bool, teams: Teams
    ) -> None:
        numbers = facts.call_paths.numbers
        chosen = members.tolist()
        slices = [scans[i].global_calls if only_global else scans[i].calls for i in chosen]
        sources = merged(slices)
        column = partial(joined_column, sources)
        counts = np.zeros(len(scans), np.int64)
        counts[members] = [len(rows) for rows in slices]
        self.start = offsets_of(counts)
        # rows before the window of each location are not included
        self._first, first_begin = np.zeros((2, len(scans)), np.int64)
        self._first[members] = [scans[i].first_call for i in chosen]
        first_begin[members] = [scans[i].first_begin for i in chosen]
        self.location = np.repeat(np.arange(len(scans), dtype=np.int32), counts)
        # if only global calls are included: location << 32 | number within the location, ascending
        self._global: Ints | None = None
        if only_global:
            of_location = joined([scans[i].global_numbers for i in chosen]) if chosen else np.zeros(0, np.int64)
            self._global = (self.location.astype(np.int64) << 32) | of_location

        # numbers in the merged tree of the call paths of locations, and numbers of their team begins among all
        own = joined([numbers[i] for i in chosen]) if chosen else np.zeros(0, np.int64)
        first_node = offsets_of([numbers[i].size for i in chosen])[:-1]
        self.call_path: NDArray[Any] = np.empty(self.location.size, np.int64)
        self.begin = np.empty(self.location.size, np.int64)
        kernels.number_calls(
            counts[members],
            column("node", np.int32),
            column("team", np.int64),
            first_node,
            own,
            (teams.begin_start[:-1] - first_begin)[members],
            self.call_path,
            self.begin,
        )
        self.enter, self.exit = column("enter", np.int64), column("exit", np.int64)
        self.enter_time, self.exit_time = column("enter_time", np.int64), column("exit_time", np.int64)
        self.tasks: Ints = np.broadcast_to(np.int64(0), self.enter.shape)
        if any("tasks" in source.names for source in sources):
            self.tasks = joined(
                [s.column("tasks") if "tasks" in s.names else np.zeros(len(s), np.int64) for s in sources]
            )

    def number(self, location: NDArray[np.int32], call: Ints) -> Ints:
        """Convert numbers of call instances within their locations into numbers in this table; -1 stays; (n,) int64."""
        if self._global is None:
            own = (self.start[:-1] - self._first)[location] + call
        else:
            own = np.searchsorted(self._global, (location.astype(np.int64) << 32) | call)
        return np.where(call >= 0, own, -1)

    def columns_of(self, role: str, number: Ints) -> dict[str, NDArray[Any]]:
        """Return the columns of a compound table that describe the call instance of one role.

        These are `ROLE_enter`, `ROLE_exit` (rows), `ROLE_enter_time`, `ROLE_exit_time` (ticks), and `ROLE_call_path`;
        -1 is null, also as the number of a call instance.
        """
        return {f"{role}_{name}": pick(getattr(self, name), number) for name in CALL}


@step(ANY, "team_instances")
def find_teams(facts: Facts, scans: Sequence[LocationScan], members: Ints, only_global: bool, spill: Spill) -> Teams:
    """Find the team instances of some locations; none in the global view."""
    if only_global:
        return Teams(facts, np.zeros(0, np.int64))
    forker = np.full(len(scans), -1, np.int64)
    forker[members] = [scans[i].forker for i in members.tolist()]
    return Teams(facts, members, forker, spill.large)


@step(ANY, "call_instances")
def call_instances(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, only_global: bool, team_instances: Teams
) -> CallInstances:
    """Combine the call instances of some locations."""
    return CallInstances(facts, scans, members, only_global, team_instances)


def attributed_events(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: Ints,
    calls: CallInstances,
    family: str,
    columns: Sequence[str],
) -> Columns:
    """Join the events of a family with the columns of its side table.

    The scan of a location lists every event that has a row in a side table, in the order of the events, and the side
    table has one row for each of them in the same order. So the k-th event of a family in the order of the scan belongs
    to the k-th row of its side table.

    Returns `location` int32, `row` int64, `kind` uint8, `time` int64 (ticks), `call` int64 (number in `calls`, -1 none)
    and `columns`, in the order of the event table. Raises StoreError if the rows of a side table do not correspond to
    the events of the family on its location.
    """
    of_family = mask_of(k for k in KINDS if k.family == family)
    side, counts = facts.store.read_together(family, members, ["row", "kind", *columns])
    location = np.repeat(members.astype(np.int32), counts)
    time, call = np.empty(location.size, np.int64), np.empty(location.size, np.int64)
    filled = np.flatnonzero(counts)
    stops = np.cumsum(counts[filled])
    sizes = np.array([scans[i].n_attributed for i in members[filled].tolist()], np.int64)
    for some in bounded(sizes, GROUP):
        own = [scans[i] for i in members[filled[some]].tolist()]
        events = merged(scan.events for scan in own)
        kind = joined_column(events, "kind", np.uint8)
        mine = np.flatnonzero(of_family.take(kind))
        here = slice(int(stops[some][0] - counts[filled[some.start]]), int(stops[some][-1]))
        expected = side["kind"][here]
        found = np.diff(np.searchsorted(mine, np.cumsum(sizes[some])), prepend=0)
        if not (np.array_equal(found, counts[filled[some]]) and np.array_equal(kind[mine], expected)):
            raise facts.store.damaged(
                f"location {_first_that_differs(own, of_family, expected, counts[filled[some]])}: "
                f"the kinds of its events are not those in the table {family}"
            )
        time[here] = joined_column(events, "time", np.int64).take(mine)
        call[here] = calls.number(location[here], joined_column(events, "call", np.int64).take(mine))
    return Columns(time.size, {**side, "location": location, "time": time, "call": call})


def _first_that_differs(
    scans: Sequence[LocationScan], of_family: Mask, expected: NDArray[np.uint8], counts: Ints
) -> int:
    """Return the first location whose events of a family differ in kind from the rows of its side table."""
    for scan, kind_in_table in zip(scans, np.split(expected, np.cumsum(counts)[:-1]), strict=True):
        kind = scan.events.column("kind")
        if not np.array_equal(kind[of_family[kind]], kind_in_table):
            return scan.location
    raise AssertionError("no location differs")


@step(ANY, "profile")
def profile(facts: Facts, scans: Sequence[LocationScan]) -> CompoundTable:
    """Add up exclusive time and visits per call path and location."""
    numbers = facts.call_paths.numbers
    location = np.repeat(np.arange(facts.n_locations), [n.size for n in numbers])
    call_path = np.concatenate([*numbers, np.zeros(0, np.int64)])
    paths = merged(s.paths for s in scans)
    exclusive, visits = (joined_column(paths, name, np.int64) for name in ("exclusive", "visits"))
    is_inherited = inherited(scans)
    # if a thread inherits a call path from several masters, its scan lists the call path several times
    if call_path.size and call_path.min() < 0:
        # call paths that represent periods, not region instances
        real = call_path >= 0
        call_path, location, is_inherited = call_path[real], location[real], is_inherited[real]
        exclusive, visits = exclusive[real], visits[real]
    segments, first = Segments.of(combine(location, call_path))
    return CompoundTable(
        PROFILE,
        first.size,
        {
            "call_path": call_path[first].astype(np.int32),
            "location": location[first].astype(np.int32),
            "exclusive": segments.sum(exclusive),
            "visits": segments.sum(visits),
            "inherited": segments.any(is_inherited),
        },
    )


def outermost_call_paths(facts: Facts, scans: Sequence[LocationScan], chosen: Ints) -> Ints:
    """Find the call path to which time without a call path is charged: the root in whose subtree the master of the
    process spends the most time.

    `chosen` are, for instance, the locations of devices and counters. Returns -1 for other locations, and if neither
    the master nor the location has a call path; (n_locations,).
    """
    master, result = facts.locations.master, np.full(facts.n_locations, -1, np.int64)
    sources = distinct(np.append(master[chosen], chosen))
    found = np.full(facts.n_locations + 1, -1, np.int64)
    for some in bounded(np.ones(sources.size, np.int64), ROOTED):
        _find_longest_roots(facts, scans, sources[some][sources[some] >= 0], found)
    of_master = found[np.where(master[chosen] >= 0, master[chosen], -1)]
    result[chosen] = np.where(of_master >= 0, of_master, found[chosen])
    return result


def _find_longest_roots(facts: Facts, scans: Sequence[LocationScan], locations: Ints, found: Ints) -> None:
    """Write to `found` the root in whose subtree each location spends the most time; locations without call paths are
    left unchanged."""
    labels = facts.call_paths
    roots = np.flatnonzero(labels.whole.parent < 0)
    start, path = labels.whole.numbers_of(locations)
    if not path.size:
        return
    exclusive = joined_column(merged(scans[i].paths for i in locations.tolist()), "exclusive", np.int64)
    of = np.repeat(np.arange(locations.size), np.diff(start))
    real = path >= 0
    total = np.zeros((locations.size, roots.size), np.int64)
    np.add.at(total, (of[real], np.searchsorted(roots, path[real], "right") - 1), exclusive[real])
    has_paths = np.diff(start) > 0
    found[locations[has_paths]] = labels.outside(roots[total.argmax(axis=1)])[has_paths]


class WalkedEvents(NamedTuple):
    """Events of some locations, one location after the other, with the call path at each event."""

    locations: Ints
    """(n_locations,): rows of the locations: one, or several with all their events."""
    bounds: Ints
    """(n_locations + 1,): first event of each location."""
    row: Ints
    """(n_locations,): row of the first of these events of each location."""
    is_end: bool
    """Whether these include the last events of the locations."""
    time: Ints
    kind: NDArray[np.uint8]
    region: NDArray[np.int32]
    """`time`, `kind` and `region`: (n,), as stored."""
    node: NDArray[np.int32]
    """(n,): number of the call path within the location, -1 is null. The array is reused."""


def walk_stacks(
    facts: Facts,
    scans: Sequence[LocationScan],
    teams: Teams,
    locations: Ints,
    flush_stops: Sequence[Ints] | None = None,
) -> Iterator[WalkedEvents]:
    """Walk again through the events of some locations, with the call path at each event.

    `locations` ascend; `flush_stops` is the result of `location_scan.flush_stops_of`. Yields at most `WALKED` events at
    a time, in order for each location; locations without events are included.
    """
    stops = flush_stops_of(facts.store, locations) if flush_stops is None else flush_stops
    nothing = np.zeros(0, np.int64)
    buffers, pointers = ScanBuffers(), stacks.Pointers(nothing, nothing, np.empty(WALKED, np.int32))
    for some in bounded(facts.store.n_events[locations], WALKED):
        again = [
            _scan_again(facts, scans, teams, i, of) for i, of in zip(locations[some].tolist(), stops[some], strict=True)
        ]
        for run in runs_of(again):
            is_end = False
            while not is_end:
                columns, sizes = next_events(run)
                n_read = int(sizes.sum())
                for at in range(0, max(n_read, 1), WALKED):
                    time, kind, region = (columns[name][at : at + WALKED] for name in ("time", "kind", "region"))
                    here = arrays.first(pointers, time.size)
                    if len(run) == 1:
                        sizes = np.array([time.size])
                    row = np.array([scan.first_row + scan.at for scan in run])
                    is_end = run[0].at + sizes[0] == run[0].n
                    scan_batch(run, {"time": time, "kind": kind, "region": region}, sizes, buffers, is_end, here)
                    if not is_end:
                        # the next call instances and attributed events overwrite these, which a walk does not need; the
                        # ends of those still open are written over others
                        run[0].state[[stacks.N_CALLS, stacks.N_ATTRIBUTED]] = 0
                    yield WalkedEvents(
                        np.array([scan.location for scan in run]),
                        offsets_of(sizes),
                        row,
                        is_end,
                        time,
                        kind,
                        region,
                        here.call_path,
                    )
            buffers.forget_ended(FIRST_STATE)


def _scan_again(
    facts: Facts, scans: Sequence[LocationScan], teams: Teams, location: int, flush_stops: Ints | None = None
) -> RunningScan:
    """Return a new scan of a location that was scanned before, ready to start."""
    scan = RunningScan(facts, teams, location, flush_stops, divider=scans[location].divider)
    scan.enter_threads()
    scan.inherit(scans)
    return scan


class LocationStacks(NamedTuple):
    """State of the region stack of a location at each of its events."""

    first: int
    """Row of the first event."""
    time: Ints
    kind: NDArray[np.uint8]
    region: NDArray[np.int32]
    """`time`, `kind` and `region`: (n_events,), as stored."""
    enterptr: Ints
    exitptr: Ints
    """`enterptr` and `exitptr`: (n_events,), rows; -1 is null."""
    node: NDArray[np.int32]
    """(n_events,): call path, numbered within the location; -1 is null."""
    numbers: Ints
    """(n_nodes,): number of each of these call paths in the merged tree."""

    def call_path(self, rows: slice | Ints = slice(None)) -> Ints:
        """Return the call paths of some events; (n,) int64, -1 is null."""
        return pick(self.numbers, self.node[rows])

    def is_enter(self, rows: slice = slice(None)) -> Mask:
        """Return a mask of the events that enter a region, whether or not it is left; (n,) bool."""
        return (ACTION[self.kind[rows]] == PUSH) | (self.exitptr[rows] >= 0)


def scan_location(facts: Facts, scans: Sequence[LocationScan], teams: Teams, location: int) -> LocationStacks:
    """Walk again through the events of a location; return its region stack at each event; 33 B per event."""
    scan = _scan_again(facts, scans, teams, location)
    columns = facts.store.read("events", location)
    n = columns["time"].size
    enterptr, exitptr, node = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
    if n:
        scan_batch([scan], columns, np.array([n]), ScanBuffers(), True, stacks.Pointers(enterptr, exitptr, node))
    time, kind, region = (columns[name] for name in ("time", "kind", "region"))
    return LocationStacks(
        scan.first_row, time, kind, region, enterptr, exitptr, node, facts.call_paths.numbers[location]
    )


def scan_charges(facts: Facts, scans: Sequence[LocationScan], teams: Teams, location: int) -> tuple[Ints, Ints, Ints]:
    """Walk again through the events of a location, and return the call paths to which its time is charged, and when it
    was spent.

    The charges of a call path add up to its exclusive time (`profile`). The time of explicit tasks, which the profile
    counts twice, is charged once: to the call paths below TASKS, or outside of all regions of the task to the call path
    on which it was scheduled.

    Returns begin and end in ticks (if times decrease, the end may be earlier than the begin) and the call path.
    """
    scan = _scan_again(facts, scans, teams, location)
    columns = facts.store.read("events", location)
    n = columns["time"].size
    charges = charges_of(n + int((ACTION[columns["kind"]] == FLUSH).sum()) + 1)
    if n:
        scan_batch([scan], columns, np.array([n]), ScanBuffers(), True, charges=charges)
    begin, end, node = (column[: charges.n[0]] for column in charges[:3])
    # a task that enters no region has no call path
    charged = node >= 0
    return begin[charged], end[charged], facts.call_paths.numbers[location][node[charged]]


def scan_stacks(facts: Facts, scans: Sequence[LocationScan], teams: Teams, location: int) -> dict[str, NDArray[Any]]:
    """Return `scan_location` as columns: `time`, `kind` and `region` as stored, int64 rows `enterptr` and `exitptr`,
    and `call_path`, int64; -1 is null."""
    found = scan_location(facts, scans, teams, location)
    names = ("time", "kind", "region", "enterptr", "exitptr")
    return {**{name: getattr(found, name) for name in names}, "call_path": found.call_path()}


@step(WITHIN, "region_instances")
def region_instances(
    facts: Facts, scans: Sequence[LocationScan], members: Iterable[int], team_instances: Teams
) -> CompoundTable:
    """Build the table of region instances on some locations; 48 B per instance."""

    def of_location(location: int) -> dict[str, NDArray[Any]]:
        at_events = scan_location(facts, scans, team_instances, location)
        at = np.flatnonzero(at_events.is_enter())
        leave = at_events.exitptr[at]
        return {
            "location": np.full(at.size, location, np.int32),
            "enter": at_events.first + at,
            "exit": leave,
            "region": at_events.region[at],
            "call_path": pick(at_events.numbers, at_events.node[at]).astype(np.int32),
            "enter_time": at_events.time[at],
            "exit_time": pick(at_events.time, np.where(leave >= 0, leave - at_events.first, -1)),
        }

    return CompoundTable.together(REGION_INSTANCES, map(of_location, np.asarray(members).tolist()))
