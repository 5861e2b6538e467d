"""Number the operations of a trace slice as in the whole trace, so that they are joined as they are there.

Operations of several processes are joined by counting (`enhance.definitions.numbering`). A slice lacks operations that
were over before its start, more of one process than of another, and operations that are not over at its end. Operations
that straddle its start are in the slice: the events that began them are repeated at the start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns as Arrays
from tracecols.distinct import distinct, ends_run, starts_run
from tracecols.enhance.dataflow.columns import Column, Columns, pick
from tracecols.enhance.dataflow.grouping import (
    Segments,
    combine,
    mask_of,
    number,
    occurrence,
    pair_nested,
    pair_within_processes,
    pairs_of,
    ranges,
)
from tracecols.enhance.dataflow.partitions import whole_processes
from tracecols.enhance.definitions.communicators import Communicators
from tracecols.enhance.definitions.locations import Locations
from tracecols.enhance.definitions.numbering import N_COLUMNS, Numbered, Numbering
from tracecols.enhance.definitions.order import EventOrder
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.mpi import collectives, nonblocking
from tracecols.enhance.mpi.file_operations import ENDS, are_collective
from tracecols.enhance.mpi.messages import SENDS, PointToPoint, pair_events, posted_receives
from tracecols.enhance.mpi.windows import LOCKS, SYNCHRONIZES, GroupMembers, pair_epochs, pair_locks
from tracecols.enhance.threads.created import times_of
from tracecols.schema import EventKind as K
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask, offsets_of

BATCH = 1 << 20
"""Number of events, or rows of side tables, that are processed at once; more only for a single process."""


REQUESTS = mask_of((K.MPI_IRECV_REQUEST, K.MPI_IMRECV_REQUEST))
TABLES = ("p2p", "collectives", "rma", "io")

LEFT_OUT = (Numbered.SEND, Numbered.RECEIVE, Numbered.COLLECTIVE)
"""Operations that other tools join by counting: an archive omits those whose partners it lacks."""


class Repeated(NamedTuple):
    """An event before a slice that is repeated at its start."""

    location: int
    row: int
    kind: int
    """`location`, `row` and `kind`: where it was recorded, its number there, and its kind."""
    enter: int = -1
    region: int = -1
    """`enter` and `region`: ENTER and region of the call repeated around it; -1: the event is repeated alone."""


@dataclass(frozen=True)
class SliceBounds:
    """The events of every location that a trace slice holds."""

    low: Ints
    high: Ints
    """`low` and `high`: (n_locations,) int64, rows: low <= row < high."""
    time: int
    """Ticks at which events are repeated."""

    def holds(self, location: Ints, row: Ints) -> Mask:
        """Return a mask of the events that the slice holds; (n,) bool."""
        return (row >= self.low[location]) & (row < self.high[location])

    def precedes(self, location: Ints, row: Ints) -> Mask:
        """Return a mask of the events before the slice; (n,) bool."""
        return row < self.low[location]


class Events(NamedTuple):
    """Some events; (n,) int64 each."""

    location: Ints
    row: Ints


class Keys(NamedTuple):
    """The keys by which operations are counted."""

    of: Ints
    """(n,) int64: number of every operation's key, in order of first appearance."""
    key: tuple[Ints, ...]
    """tuple of (n_keys,) int64: the keys (`Numbered`); the first column is the process, or the location."""
    channel: tuple[Ints, ...] = ()
    """tuple of (n_keys,) int64: values that are the same for operations that are joined."""

    @classmethod
    def each(cls, *key: NDArray[np.signedinteger[Any]]) -> Keys:
        """Number the keys of operations."""
        of, first = number(combine(*key))
        return cls(of, tuple(c[first].astype(np.int64) for c in key))


class HeldOperations(NamedTuple):
    """Operations that a slice holds: their channel (as in `Keys`), their numbers in the whole trace, and rows of their
    events (-1 none); (n,) int64 each."""

    channel: tuple[Ints, ...]
    number: Ints
    rows: tuple[Ints, ...]


@dataclass
class Operations:
    """Operations of one kind of some processes in the whole trace; (n,) each."""

    what: Numbered
    keys: Keys
    number: Ints
    """(n,) int64: their numbers in the whole trace; negative for those that are not counted there."""
    position: Ints
    """(n,) int64: their numbers in the slice; -1 for operations that it lacks."""
    is_before: Mask
    """(n,): whether they are over before the slice."""
    held: Ints
    """(n_held,) int64: those that are in the slice, in the order in which it counts them."""
    rows: tuple[Ints, ...]
    """tuple of (n,) int64: rows of their events; -1 none."""

    def inside(self) -> HeldOperations:
        """Return those that are in the slice."""
        of, at = self.keys.of[self.held], self.held
        return HeldOperations(tuple(c[of] for c in self.keys.channel), self.number[at], tuple(c[at] for c in self.rows))

    def numbers(self) -> MemberNumbers:
        """Return the numbers of the operations in the slice."""
        group, n_keys = self.keys.of, self.keys.key[0].size
        inside = self.held[np.argsort(group[self.held].astype(np.min_scalar_type(n_keys)), kind="stable")]
        of, position = group[inside], self.position[inside]
        # an operation that is not counted in the whole trace gets a unique number
        numbers = np.where(self.number[inside] >= 0, self.number[inside], -1 - position)
        begins = np.append(True, (np.diff(of) != 0) | (np.diff(numbers) != 1))[: of.size]
        known = self.is_before | (self.position >= 0)
        last, least = Segments(group[known], n_keys), Segments(group[~known], n_keys)
        end = np.maximum(last.max(self.number[known] + 1), 0)
        unknown = last.count() == 0
        end[unknown] = np.maximum(least.min(self.number[~known])[unknown], 0)
        return MemberNumbers(
            self.what,
            self.keys.key,
            self.keys.channel,
            np.bincount(of, minlength=n_keys),
            end,
            of[begins],
            position[begins],
            numbers[begins],
        )


@dataclass
class MemberNumbers:
    """The numbers of operations in a slice, for each key as runs of consecutive numbers."""

    what: Numbered
    key: tuple[Ints, ...]
    channel: tuple[Ints, ...]
    """`key` and `channel`: tuple of (n_keys,) int64, as those of `Operations`."""
    n: Ints
    """(n_keys,) int64: operations in the slice."""
    end: Ints
    """(n_keys,) int64: one more than the largest number in the slice or before it, else the least number."""
    of: Ints
    """(n_runs,) int64: the key of every run, ascending."""
    position: Ints
    number: Ints
    """`position` and `number`: (n_runs,) int64, of its first operation."""

    def rows(self) -> Ints:
        """Return the rows for `Numbering` where numbers differ from counting in the slice; (n, 7) int64."""
        skipped = self.number - self.position
        before = np.where(starts_run(self.of), 0, np.append(0, skipped)[:-1])
        run = np.flatnonzero(skipped != before)
        of, position, numbers = self.of[run], self.position[run], self.number[run]
        if self.what == Numbered.WINDOW:
            # accesses belong to the operation after them, also if the slice holds none
            none = np.flatnonzero((self.n == 0) & (self.end > 0))
            of, position = np.append(of, none), np.append(position, np.zeros(none.size, np.int64))
            numbers = np.append(numbers, self.end[none])
        rows = np.zeros((of.size, N_COLUMNS), np.int64)
        rows[:, 0] = self.what
        for i, column in enumerate(self.key):
            rows[:, 1 + i] = column[of]
        rows[:, 5], rows[:, 6] = position, numbers
        return rows

    def runs(self) -> tuple[Ints, Ints, Ints]:
        """Return key, first number, and one past the last, of runs of counted operations, by key and number."""
        last = ends_run(self.of)
        stop = np.where(last, self.n[self.of], np.append(self.position[1:], 0)[: self.of.size])
        counted = np.flatnonzero(self.number >= 0)
        counted = counted[np.lexsort((self.number[counted], self.of[counted]))]
        first = self.number[counted]
        return self.of[counted], first, first + (stop - self.position)[counted]


class Lacking:
    """Operations of which a slice lacks participants: over before it, or preceding operations in it."""

    def __init__(self, members: list[MemberNumbers]) -> None:
        n_keys = offsets_of([m.n.size for m in members])
        nothing = np.zeros(0, np.int64)
        channels = [np.concatenate([nothing, *(m.channel[i] for m in members)]) for i in range(5)]
        end = np.concatenate([nothing, *(m.end for m in members)])
        runs = [m.runs() for m in members]
        of, first, stop = (
            np.concatenate([nothing, *(r[i] + (n if i == 0 else 0) for r, n in zip(runs, n_keys, strict=False))])
            for i in range(3)
        )
        group, head = number(combine(*channels))
        # operations that all participants lack have no partner that could be joined wrongly
        least = np.full(head.size, np.iinfo(np.int64).max)
        np.minimum.at(least, group[of], first)
        begins = starts_run(of)
        low = np.where(begins, 0, np.append(0, stop)[:-1])
        after = np.zeros(end.size, np.int64)
        np.maximum.at(after, of, stop)
        low, high = np.append(low, after), np.append(first, end)
        of = group[np.append(of, np.arange(end.size))]
        low = np.maximum(low, least[of])
        size = np.maximum(high - low, 0)
        at = np.repeat(head[of], size)
        self._columns = [*(c[at] for c in channels), ranges(low, size)]

    def among(self, channel: tuple[Ints, ...], numbers: Ints) -> Mask:
        """Return a mask of operations, by channel and number, that lack participants; (n,) bool."""
        n = numbers.size
        if not n or not self._columns[0].size:
            return np.zeros(n, bool)
        key = combine(*(np.concatenate([a, b]) for a, b in zip([*channel, numbers], self._columns, strict=True)))
        return np.isin(key[:n], key[n:])


class HoldingCalls(NamedTuple):
    """The calls that enclose some events; (n,) each, -1 none."""

    enter: Ints
    exit: Ints
    """`enter` and `exit`: (n,) int64, rows; `exit` is the largest number for calls that are never left."""
    region: NDArray[np.int32]
    """(n,)"""

    def take(self, at: Ints) -> HoldingCalls:
        """Return the calls of some of the events."""
        return HoldingCalls(self.enter[at], self.exit[at], self.region[at])


def calls_at(store: Store, location: int, row: Ints, wanted: Mask) -> HoldingCalls:
    """Find the calls that enclose events of a location, if they are the last `wanted` calls entered before them.
    `wanted` is a mask of regions, its last element for none."""
    rows, kinds, regions = [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)], [np.zeros(0, np.int32)]
    for base in range(0, store.n_rows("events", location), BATCH):
        e = store.read("events", location, ["kind", "region"], base, base + BATCH)
        at = np.flatnonzero(np.isin(e["kind"], (K.ENTER, K.EXIT)) & wanted[e["region"]])
        rows.append(store.first_rows[location] + base + at)
        kinds.append(e["kind"][at])
        regions.append(e["region"][at])
    of, kind, region = np.concatenate(rows), np.concatenate(kinds), np.concatenate(regions)
    is_enter = kind == K.ENTER
    leave = pick(of, pair_nested(is_enter, kind == K.EXIT)[is_enter], np.iinfo(np.int64).max)
    call = np.searchsorted(of[is_enter], row) - 1
    call = np.where((call >= 0) & (pick(leave, call) > row), call, -1)
    return HoldingCalls(pick(of[is_enter], call), pick(leave, call), pick(region[is_enter], call))


def _by_location(location: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield every location that occurs, and its positions."""
    order = np.argsort(location, kind="stable")
    found, first = np.unique(location[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, first[1:]), strict=False)


class OperationCounter:
    """Count the operations of a trace, of which a slice holds some.

    Parameters
    ----------
    leaves_out : bool
        Whether to omit messages and collective operations whose partners the slice lacks.

    Attributes
    ----------
    rows : (n, 7) int64
        The numbers in the whole trace, for `Numbering`.
    repeated : dict of int to list of Repeated
        Events repeated at the start, in this order, by the location at which they are repeated.
    left_out : dict of int to (n,) int64
        By location, the events that are left out, ascending, counting from its first.
    """

    def __init__(
        self, store: Store, locations: Locations, bounds: SliceBounds, chosen: list[int], leaves_out: bool
    ) -> None:
        self._store, self._process, self._bounds = store, locations.process.astype(np.int64), bounds
        self._chosen = set(chosen)
        self._first_rows = store.first_rows
        # requests belong to a process: all of them are repeated at one location, where they keep their order;
        # preferably one that has begun, since none shall begin earlier than recorded
        filled = np.array([i for i in reversed(chosen) if bounds.low[i] < bounds.high[i]], np.int64)
        filled = filled[np.argsort(bounds.low[filled] > self._first_rows[filled], kind="stable")]
        self._first_location = np.full(int(self._process.max(initial=-1)) + 1, -1, np.int64)
        self._first_location[self._process[filled]] = filled
        self._regions = Regions(store)
        self._communicators = Communicators(store, locations.process)
        self._groups = GroupMembers(store, locations.process)
        self._order = EventOrder(store)
        self._numbering = Numbering.of(store)
        # for locations that are not chosen, the events after the slice are not known
        self._end = np.full(self._process.size, np.iinfo(np.int64).max)
        if not self._numbering:
            self._end[chosen] = bounds.high[chosen]
        names = self._regions.paradigm
        self._synchronises = np.append((names == "mpi") | (names == "shmem"), False)
        self._is_file = np.append(self._regions.is_file, False)
        self._handle_communicator = np.append(to_numpy(store.definitions["io_handles"].column("communicator")), -1)
        self.repeated: dict[int, list[Repeated]] = defaultdict(list)
        self.left_out: dict[int, Ints] = {}
        # all threads of a process take part in counting
        mine = np.flatnonzero(np.isin(self._process, self._process[chosen]))
        sizes = np.zeros(self._process.size, np.int64)
        for table in set(TABLES) & set(store.tables):
            sizes += store.counts(table)
        batches = [np.sort(mine[b]) for b in whole_processes(sizes[mine], self._process[mine].astype(np.int32), BATCH)]
        rows, numbers, held = [np.zeros((0, N_COLUMNS), np.int64)], [], []
        for batch in batches:
            for operations in self._operations(batch):
                if leaves_out and operations.what in LEFT_OUT:
                    numbers.append(operations.numbers())
                    held.append(operations.inside())
                else:
                    rows.append(operations.numbers().rows())
            rows += self._states_of_windows(batch)
        self.rows = np.concatenate(rows)
        if held:
            self._leave_out(held, Lacking(numbers))

    def _leave_out(self, held: list[HeldOperations], lacking: Lacking) -> None:
        """Leave out the events of messages and collective operations that lack a partner, and do not repeat them."""
        parts = [np.zeros(0, np.int64)]
        for operations in held:
            at = lacking.among(operations.channel, operations.number)
            parts += [column[at] for column in operations.rows]
        rows = distinct(np.concatenate(parts))
        rows = rows[rows >= 0]
        location = self._location_of(rows)
        own = rows - self._first_rows[location]
        inside = self._bounds.holds(location, rows)
        for i, mine in _by_location(location[inside]):
            self.left_out[i] = own[inside][mine]
        gone = set(zip(location[~inside].tolist(), own[~inside].tolist(), strict=True))
        for i, repeated in self.repeated.items():
            self.repeated[i] = [x for x in repeated if (x.location, x.row) not in gone]

    def _location_of(self, rows: Ints) -> Ints:
        """Return the location of some events."""
        return np.searchsorted(self._first_rows, rows, "right") - 1

    # -- counting ----------------------------------------------------------------------------------------------------

    def _operations(self, members: Ints) -> Iterator[Operations]:
        """Count all operations of some processes."""
        for make in (self._messages, self._collectives, self._windows, self._epochs, self._files):
            yield from make(members)
        self._locks(members)

    def _count(
        self,
        what: Numbered,
        keys: Keys,
        begun: Events,
        done: Events,
        *,
        counts: Mask | None = None,
        holds: Mask | None = None,
        rows: tuple[Ints, ...] = (),
    ) -> Operations:
        """Number operations in the whole trace and in the slice: in the order of the events `begun`, by process in
        order of time. The events `done` at the same process complete them, and
        `rows`, (n,) each, are all their events.

        Masks, (n,), select the operations that are counted in the whole trace (`counts`, all by default), and in the
        slice (`holds`, by default those that are completed in it).
        """
        bounds, (location, row) = self._bounds, begun
        by_time = self._have_threads(location)
        order = self._order.argsort(row, self._times(*begun)) if by_time else np.argsort(row, kind="stable")
        counted = order if counts is None else order[counts[order]]
        held = order[(bounds.holds(*done) if holds is None else holds)[order]]
        held = held[self._in_slice(Events(location[held], row[held]), by_time)]
        numbers, position = np.full((2, row.size), -1, np.int64)
        for chosen, into in ((counted, numbers), (held, position)):
            into[chosen] = occurrence(keys.of[chosen])
        if self._numbering:
            of = keys.of[counted]
            numbers[counted] = self._numbering.number(what, numbers[counted], *(c[of] for c in keys.key))
        return Operations(what, keys, numbers, position, bounds.precedes(*done), held, rows)

    def _in_slice(self, begun: Events, by_time: bool) -> Ints:
        """Return the permutation from the order of the whole trace to that of the slice."""
        bounds, (location, row) = self._bounds, begun
        early = bounds.precedes(location, row)
        # repeated events come before all other events of their location
        at = np.where(early, self._first_location[self._process[location]], location)
        in_slice = np.where(early, 2 * bounds.low[at] - 1, 2 * row)
        if not by_time:
            return np.argsort(in_slice, kind="stable")
        time = np.where(early, bounds.time, self._order.time(row, self._times(location, row)))
        tie = np.where(self._order.is_listed(row), self._order.tie_order(row), location << 32)
        return np.lexsort((in_slice, np.where(early, at << 32, tie), time))

    def _have_threads(self, location: Ints) -> bool:
        """Return whether several of the locations belong to the same process; equal locations are adjacent."""
        first = np.flatnonzero(np.diff(location, prepend=-1))
        found = distinct(location[first])
        return distinct(self._process[found]).size < found.size

    def _times(self, location: Ints, row: Ints) -> Ints:
        """Return the times of some events."""
        time = np.empty(row.size, np.int64)
        for i, mine in _by_location(location):
            mine = mine[np.argsort(row[mine], kind="stable")]
            time[mine] = times_of(self._store, i, row[mine] - self._first_rows[i])
        return time

    def _side(self, table: str, members: Ints, columns: list[str]) -> tuple[Arrays, Ints]:
        """Read columns of a side table, and the location of every row."""
        if table not in self._store.tables:
            return {c: np.zeros(0, np.int64) for c in ("row", "kind", *columns)}, np.zeros(0, np.int64)
        side, counts = self._store.read_together(table, members, ["row", "kind", *columns])
        return side, np.repeat(members, counts)

    def _by_time(self, events: Events) -> Ints | slice:
        """Return the order of events by process and time; the events are given location by location."""
        location, row = events
        process = self._process[location]
        if self._have_threads(location):
            return self._order.argsort(row, self._times(location, row), process)
        return np.argsort(process, kind="stable") if (np.diff(process) < 0).any() else slice(None)

    def _repeat(
        self, at: Ints, location: Ints, row: Ints, kind: NDArray[np.uint8], calls: HoldingCalls | None = None
    ) -> None:
        """Repeat events at the start of some locations: alone, or in the calls that enclose them if these are over."""
        first = self._first_rows[location]
        enter = region = np.full(row.size, -1, np.int64)
        if calls is not None:
            over = (calls.enter >= 0) & self._bounds.precedes(location, calls.exit)
            enter, region = np.where(over, calls.enter - first, -1), np.where(over, calls.region, -1)
        columns = (at, location, row - first, kind, enter, region)
        for to, *event in zip(*(c.tolist() for c in columns), strict=True):
            if to in self._chosen:
                self.repeated[to].append(Repeated(*event))

    def _calls_at(self, location: Ints, row: Ints, wanted: Mask) -> HoldingCalls:
        """Find the calls of some regions that enclose some events (`calls_at`)."""
        enter, leave = np.full((2, row.size), -1, np.int64)
        region = np.full(row.size, -1, np.int32)
        for i, mine in _by_location(location):
            found = calls_at(self._store, i, row[mine], wanted)
            enter[mine], leave[mine], region[mine] = found
        return HoldingCalls(enter, leave, region)

    # -- the kinds of operations -------------------------------------------------------------------------------------

    def _messages(self, members: Ints) -> Iterator[Operations]:
        side, location = self._side("p2p", members, ["peer", "communicator", "tag", "request"])
        if not location.size:
            return
        order = self._by_time(Events(location, side["row"]))
        columns: dict[str, Column] = {c: v[order] for c, v in side.items()}
        # read only if there are probes
        columns["message"] = lambda: self._side("p2p", members, ["message"])[0]["message"][order]
        e = Columns(location.size, {"location": location[order], **columns})
        p2p = pair_events(e, self._process[e.location].astype(np.int32))
        self._repeat_requests(p2p)
        yield self._sends(p2p)
        yield self._receives(p2p)

    def _sends(self, p2p: PointToPoint) -> Operations:
        """Count the sends of some processes."""
        e, bounds = p2p.events, self._bounds
        s = np.flatnonzero(SENDS.take(e.kind))
        s = s[self._matters(e.location[s], e.row[s])]
        at, cancelled = Events(e.location[s], e.row[s]), p2p.cancelled[s]
        holds = bounds.holds(*at)
        done = p2p.partner[s[cancelled]]
        holds[cancelled] &= e.row[done] >= bounds.high[e.location[done]]
        own, other, *rest = (keys := self._channels(p2p, s, s)).key
        return self._count(
            Numbered.SEND,
            keys._replace(channel=(np.zeros_like(own), own, other, *rest)),
            at,
            at,
            counts=~cancelled,
            holds=holds,
            rows=(at.row, pick(e.row, p2p.partner[s])),
        )

    def _receives(self, p2p: PointToPoint) -> Operations:
        """Count the receives of some processes."""
        e, received = p2p.events, posted_receives(p2p)
        matters = self._matters(e.location[received.matching], e.row[received.matching])
        r, post, envelope, matching = (c[matters] for c in received)
        own, other, *rest = (keys := self._channels(p2p, envelope, r)).key
        return self._count(
            Numbered.RECEIVE,
            keys._replace(channel=(np.zeros_like(own), other, own, *rest)),
            Events(e.location[matching], e.row[matching]),
            Events(e.location[r], e.row[r]),
            rows=(e.row[r], e.row[post], e.row[matching]),
        )

    def _matters(self, location: Ints, row: Ints) -> Mask:
        """Return a mask of the messages that those of the slice depend on, given the events that determine the order of
        counting.

        Messages after the slice do not matter, except in a slice of a slice, where they show what that lacks.
        """
        return row < self._end[location]

    def _channels(self, p2p: PointToPoint, envelope: Ints, event: Ints) -> Keys:
        """Return the process of some events, the other process, communicator and tag."""
        e = p2p.events
        columns = p2p.process[event], e.communicator[envelope], e.peer[envelope], e.tag[envelope]
        # the process of a rank is looked up once per distinct key, not per message
        of, first = number(combine(*columns))
        own, communicator, peer, tag = (c[first] for c in columns)
        other = self._communicators.process_of(communicator, peer.astype(np.int64), own)
        same = Keys.each(own, other, communicator, tag)
        return Keys(same.of[of], same.key)

    def _repeat_requests(self, p2p: PointToPoint) -> None:
        """Repeat the requests of receives, and the probes that found their messages, that are open at the start."""
        e, partner = p2p.events, p2p.partner
        early = self._bounds.precedes(e.location, e.row)
        is_open = REQUESTS[e.kind] & early & (partner >= 0)
        is_open[is_open] = ~early[partner[is_open]]
        if p2p.probe is not None:
            # the event that posts the receive takes the message of a probe
            post = np.flatnonzero((p2p.probe >= 0) & (e.kind != K.MPI_PROBE))
            post = post[early[p2p.probe[post]] & (~early[post] | is_open[post])]
            is_open[p2p.probe[post]] = True
        at = np.flatnonzero(is_open)
        self._repeat(self._first_location[p2p.process[at]], e.location[at], e.row[at], e.kind[at])

    def _collectives(self, members: Ints) -> Iterator[Operations]:
        side, location = self._side("collectives", members, ["communicator", "request"])
        yield self._blocking(side, location)
        yield self._nonblocking(side, location)

    def _blocking(self, side: Arrays, location: Ints) -> Operations:
        """Count blocking collective operations, given the rows of some locations in the side table."""
        row = side["row"].astype(np.int64)
        given = self._communicators, side["kind"], side["communicator"], location
        end, before, communicator = collectives.blocking_operations(*given)
        at, begin = location[end], pick(row, before)
        process = self._process[at]
        keys = Keys.each(process, communicator)
        own, of = (c.astype(np.int32) for c in keys.key)
        none = np.zeros(own.size, np.int64)
        keys = keys._replace(channel=(none + 1, self._communicators.channel(of, own), none, none, none))
        ends = Events(at, row[end])
        return self._count(Numbered.COLLECTIVE, keys, ends, ends, rows=(row[end], begin))

    def _nonblocking(self, side: Arrays, location: Ints) -> Operations:
        """Count non-blocking collective operations, given the rows of some locations in the side table."""
        mine = np.flatnonzero(mask_of(nonblocking.KINDS)[side["kind"]])
        location, row = location[mine], side["row"][mine].astype(np.int64)
        order = self._by_time(Events(location, row))
        mine, location, row = mine[order], location[order], row[order]
        process = self._process[location]
        kind = side["kind"][mine]
        starts = kind == K.NON_BLOCKING_COLLECTIVE_REQUEST
        request = side["request"][mine].astype(np.int64)
        start, done = pairs_of(pair_within_processes(process, location, request, starts, ~starts), starts)
        bounds = self._bounds
        opened = bounds.precedes(location[start], row[start]) & ~bounds.precedes(location[done], row[done])
        first = start[opened]
        self._repeat(self._first_location[process[first]], location[first], row[first], kind[first])
        keys = Keys.each(process[start], side["communicator"][mine][done])
        begun, ends = (Events(location[x], row[x]) for x in (start, done))
        return self._count(Numbered.NONBLOCKING, keys, begun, ends)

    def _windows(self, members: Ints) -> Iterator[Operations]:
        side, location = self._side("rma", members, ["window"])
        end = np.flatnonzero((side["kind"] == K.RMA_COLLECTIVE_END) & (side["window"] >= 0))
        ends = Events(location[end], side["row"][end])
        keys = Keys.each(self._process[ends.location], side["window"][end])
        yield self._count(Numbered.WINDOW, keys, ends, ends)

    def _states_of_windows(self, members: Ints) -> Iterator[Ints]:
        """Find the windows whose last synchronisation before the slice was collective, and keep the next numbers on
        windows that this trace, itself a slice, does not synchronise; rows for `Numbering`."""
        side, location = self._side("rma", members, ["window"])
        processes = distinct(self._process[members])
        mine = np.flatnonzero(
            SYNCHRONIZES[side["kind"]] & (side["window"] >= 0) & self._bounds.precedes(location, side["row"])
        )
        mine = mine[self._by_time(Events(location[mine], side["row"][mine]))][::-1]
        at, window = self._process[location[mine]], side["window"][mine].astype(np.int64)
        first = number(combine(at, window))[1]
        first = first[side["kind"][mine][first] == K.RMA_COLLECTIVE_END]
        rows = np.zeros((first.size, N_COLUMNS), np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 6] = Numbered.FENCED, at[first], window[first], 1
        yield rows
        yield self._rows_besides(Numbered.FENCED, processes, at, window)
        end = np.flatnonzero((side["kind"] == K.RMA_COLLECTIVE_END) & (side["window"] >= 0))
        window = side["window"][end].astype(np.int64)
        yield self._rows_besides(Numbered.WINDOW, processes, self._process[location[end]], window)

    def _rows_besides(self, what: Numbered, of: Ints, *key: Ints) -> Ints:
        """Return the numbering rows of this trace, itself a slice, for some processes, without some two-column keys."""
        known = self._numbering.rows[(self._numbering.rows[:, 0] == what) & np.isin(self._numbering.rows[:, 1], of)]
        both = combine(*(np.append(column, known[:, 1 + i]) for i, column in enumerate(key)))
        n = key[0].size
        return known[~np.isin(both[n:], both[:n])]

    def _epochs(self, members: Ints) -> Iterator[Operations]:
        side, location = self._side("rma", members, ["window", "group", "level"])
        sync = np.flatnonzero((side["kind"] == K.RMA_GROUP_SYNC) & (side["window"] >= 0))
        at, row, window = location[sync], side["row"][sync].astype(np.int64), side["window"][sync].astype(np.int64)
        calls = self._calls_at(at, row, self._synchronises)
        held = np.flatnonzero(calls.enter >= 0)
        held = held[self._by_time(Events(at[held], row[held]))]
        at, row, window, sync, calls = at[held], row[held], window[held], sync[held], calls.take(held)
        pairs = pair_epochs(self._regions, calls.region, side["level"][sync], combine(self._process[at], window))
        for what, (first, last) in zip((Numbered.ACCESS, Numbered.EXPOSURE), pairs, strict=True):
            opened = first[self._bounds.precedes(at[first], row[first]) & self._bounds.holds(at[last], row[last])]
            self._repeat(at[opened], at[opened], row[opened], side["kind"][sync][opened], calls.take(opened))
            epoch, other = self._groups.each(side["group"][sync][first].astype(np.int64))
            begin, end = first[epoch], last[epoch]
            keys = Keys.each(self._process[at[begin]], other, window[begin])
            begun, ends = (Events(at[x], row[x]) for x in (begin, end))
            yield self._count(what, keys, begun, ends)

    def _locks(self, members: Ints) -> None:
        """Repeat the calls that took locks of windows if these are held, or requested, at the start."""
        side, location = self._side("rma", members, ["window", "remote", "lock"])
        held = np.flatnonzero(LOCKS[side["kind"]] & (side["window"] >= 0))
        calls = self._calls_at(location[held], side["row"][held].astype(np.int64), self._synchronises)
        inside = np.flatnonzero(calls.enter >= 0)
        inside = inside[self._by_time(Events(location[held[inside]], side["row"][held[inside]].astype(np.int64)))]
        held, calls = held[inside], calls.take(inside)
        e = Columns(held.size, {"location": location[held], **{c: v[held] for c, v in side.items()}})
        lock, unlock, _ = pair_locks(self._regions, e, calls.region, self._process[location[held]])
        bounds = self._bounds
        opened = bounds.precedes(e.location[lock], e.row[lock]) & bounds.holds(e.location[unlock], e.row[unlock])
        first = lock[opened]
        self._repeat(e.location[first], e.location[first], e.row[first], e.kind[first], calls.take(first))

    def _files(self, members: Ints) -> Iterator[Operations]:
        side, location = self._side("io", members, ["handle", "operation_flags", "matching"])
        mine = np.flatnonzero(self._handle_communicator[side["handle"]] >= 0)
        calls = self._calls_at(location[mine], side["row"][mine].astype(np.int64), self._is_file)
        order = np.arange(mine.size)[self._by_time(Events(location[mine], side["row"][mine].astype(np.int64)))]
        mine, calls = mine[order], calls.take(order)
        at, row, handle, matching = (
            x[mine].astype(np.int64) for x in (location, side["row"], side["handle"], side["matching"])
        )
        kind, flags = side["kind"][mine], side["operation_flags"][mine].astype(np.int64)
        # operations that are underway: their bytes are recorded where they end
        bounds = self._bounds
        begins, of = kind == K.IO_OPERATION_BEGIN, combine(handle, matching)
        begin, end = pairs_of(pair_within_processes(self._process[at], at, of, begins, ENDS[kind]), begins)
        underway = begin[bounds.precedes(at[begin], row[begin]) & ~bounds.precedes(at[end], row[end])]
        self._repeat(at[underway], at[underway], row[underway], kind[underway], calls.take(underway))
        holds = bounds.holds(at, row)
        holds[underway] = bounds.holds(at[underway], bounds.low[at[underway]])
        mine = np.flatnonzero(are_collective(kind, flags) & (calls.enter >= 0))
        at, row, enter, handle, holds = at[mine], row[mine], calls.enter[mine], handle[mine], holds[mine]
        # one operation per call: that of its first event, in the slice that of the first event in it
        of, first = number(enter)
        in_slice = np.zeros(first.size, bool)
        in_slice[of[holds]] = True
        keys, at = Keys.each(self._process[at[first]], handle[first]), at[first]
        yield self._count(Numbered.FILE, keys, Events(at, enter[first]), Events(at, row[first]), holds=in_slice)
