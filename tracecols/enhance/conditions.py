"""Clock conditions: pairs of events whose order is known whatever the clocks of locations show, and where the recorded
times violate it.

Every stage derives the conditions of its tables, as edges between events for the correction of clocks
(`tracecols.clocks`), and as sums by pairs of locations. If several locations depend on several others in an operation,
the sums include only the condition from the latest one: if that holds, all others hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Column, Columns, ColumnSource, CompoundTable, pick
from tracecols.enhance.dataflow.edges import EdgeCollector, Rows
from tracecols.enhance.dataflow.grouping import Segments, combine, lookup, pair_nested, positions
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import BUCKET, CLOCKS, GLOBAL, RECEIVE, WITHIN, step
from tracecols.enhance.definitions.regions import IS_BARRIER
from tracecols.enhance.mpi.waits import (
    BARRIER,
    EARLY,
    N_TO_N,
    N_TO_ONE,
    ONE_TO_N,
    SCAN,
    directions,
    groups_that_wait,
    latest_of_lower_ranks,
)
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.teams import LATE, Teams, events_in_teams
from tracecols.enhance.threads.created import times_of
from tracecols.enhance.threads.locks import lock_order
from tracecols.schema import EventKind
from tracecols.schema.clocks import CLOCK_VIOLATIONS, CONDITIONS
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.vectors import Ints, Mask

MESSAGE, COLLECTIVE, START, FORK, JOIN, THREAD_BARRIER, LOCK, CREATED = range(len(CONDITIONS))

NO_BOUND = np.iinfo(np.int64).max
"""Offset of a clock without a bound."""

PAIR = ("condition", "earlier_location", "later_location", "n_conditions", "n_violations", "slack")


class ClockConditions(NamedTuple):
    """The clock conditions of a slice of the trace."""

    pairs: Columns
    """`PAIR`: by kind and pair of locations, the number of conditions, the number of violated ones, and the smallest
    `slack`: ticks by which the dependent event is later, negative if it is earlier."""
    edges: ColumnSource
    """`tail` and `head`: rows of events, or hubs, which are numbered from the number of all events on; `condition`: its
    kind; `is_inferred`: whether the condition was inferred, not recorded."""
    n_hubs: int


class ConditionCollector:
    """Collects the clock conditions of a slice: `edges`, whose length is the kind of their condition, and sums by pair
    of locations."""

    def __init__(self, facts: Facts) -> None:
        self.edges = EdgeCollector(int(facts.store.manifest["n_events"]), np.int64)
        self._pairs: list[dict[str, Rows]] = []

    def count(self, kind: int, earlier: Rows, later: Rows, slack: Rows) -> None:
        """Add conditions between locations to the sums, with the ticks by which the dependent event is later; pairs
        within a location are ignored."""
        apart = (earlier != later) & (earlier >= 0) & (later >= 0)
        earlier, later, slack = (v[apart].astype(np.int64) for v in (earlier, later, slack))
        values: tuple[Any, ...] = (
            np.full(earlier.size, kind),
            earlier,
            later,
            np.ones(earlier.size, np.int64),
            slack < 0,
            slack,
        )
        self._pairs.append(dict(zip(PAIR, values, strict=True)))

    def between(self, kind: int, tail: Rows, head: Rows, earlier: Rows, later: Rows, slack: Rows) -> None:
        """Add conditions between two events on different locations; those from or to null (-1) are skipped."""
        apart = (earlier != later) & (tail >= 0) & (head >= 0)
        # a lock whose release was recorded late may close a cycle
        inferred = apart & (slack < 0) & (kind == LOCK)
        for some, is_inferred in ((apart & ~inferred, False), (inferred, True)):
            self.edges.add(tail[some], head[some], is_inferred=is_inferred, length=kind)
        self.count(kind, earlier[apart], later[apart], slack[apart])

    def kept(self, spill: Spill) -> ClockConditions:
        """Add up the conditions, and store the edges; the collector is then empty."""
        n_hubs, e = self.edges.n - self.edges.n_nodes, self.edges.listed()
        columns: dict[str, Column] = {"tail": e.tail, "head": e.head, "condition": e.length.astype(np.int8)}
        edges = spill.keep(Columns(e.tail.size, {**columns, "is_inferred": e.is_inferred}))
        return ClockConditions(add_pairs(self._pairs), edges, n_hubs)


def add_pairs(parts: Sequence[dict[str, Rows]]) -> Columns:
    """Add up conditions by kind and pair of locations, in their order."""
    c = {name: np.concatenate([np.zeros(0, np.int64), *(p[name] for p in parts)]) for name in PAIR}
    segments, first = Segments.of(combine(*(c[name] for name in PAIR[:3])))
    order = np.lexsort([c[name][first] for name in PAIR[2::-1]])
    columns = {name: c[name][first][order] for name in PAIR[:3]}
    columns |= {name: segments.sum(c[name])[order] for name in ("n_conditions", "n_violations")}
    return Columns(first.size, {**columns, "slack": segments.min(c["slack"])[order]})


@step(RECEIVE, "message_conditions")
def message_conditions(facts: Facts, messages: CompoundTable, spill: Spill) -> ClockConditions:
    """Find the clock conditions of messages: a SEND precedes its RECV."""
    m = messages
    found = ConditionCollector(facts)
    found.edges.add(m.send, m.recv, length=MESSAGE)
    found.count(MESSAGE, m.send_location, m.recv_location, m.recv_time - m.send_time)
    return found.kept(spill)


class Dependence(NamedTuple):
    """Dependences between the members of collective operations in which all members take part."""

    gives: Mask
    takes: Mask
    """`gives` and `takes`: (n_members,), whether others depend on its data or arrival; whether it depends on others."""
    is_prefix: Mask
    """(n_members,): whether only members of higher ranks depend on it (Scan, Exscan)."""
    latest: Rows
    """(n_members,) int64: the last to begin of all members that a member depends on, possibly itself; -1 if it depends
    on none."""

    @classmethod
    def of(cls, facts: Facts, collectives: CompoundTable, members: CompoundTable) -> Dependence:
        """Derive the dependences from the kind of the operation and from which members send and receive data.

        Operations on prefixes of ranks are included only if the order of ranks was recorded.
        """
        c, m = collectives, members
        whole = (c.n_members >= c.size) & (c.size > 1)
        op = np.where(whole, c.op, -1)[m.collective]

        def among(names_of: tuple[str, ...]) -> Mask:
            return np.isin(op, [COLLECTIVE_OPS.index(n) for n in names_of])

        prefixes = SCAN if facts.store.orders_ranks else ()
        barrier, all_to_all, one_to_n, n_to_one, prefix = (
            among(n) for n in (BARRIER, N_TO_N, ONE_TO_N, N_TO_ONE, prefixes)
        )
        gives = barrier | (all_to_all | (n_to_one & ~m.is_root)) & (m.sent > 0) | (one_to_n & m.is_root)
        takes = barrier | (all_to_all | (one_to_n & ~m.is_root)) & (m.received > 0) | (n_to_one & m.is_root)
        n = op.size
        latest = np.full(n, -1, np.int64)
        if n:
            own, awaited = groups_that_wait(m.collective, m.group)
            segments = Segments(own, 2 * len(c))
            last = segments.max(np.where(gives, m.begin_time, EARLY))[own]
            at = segments.min(np.where(gives & (m.begin_time == last), np.arange(n), n))[awaited]
            latest = np.where(takes & (at < n), at, -1)
            at = np.flatnonzero(prefix)
            # senders of lower ranks: each member once as a sender, and once before it as one that depends on others
            _, of = latest_of_lower_ranks(
                np.tile(m.collective[at], 2),
                np.append(2 * m.rank[at] + 1, 2 * m.rank[at]),
                np.tile(m.begin_time[at], 2),
                np.append(m.sent[at] > 0, np.zeros(at.size, bool)),
            )
            latest[at] = np.append(at, np.full(at.size, -1))[of[at.size :]]
        return cls(gives | (prefix & (m.sent > 0)), takes | prefix, prefix, latest)


@step(BUCKET, "collective_conditions")
def collective_conditions(
    facts: Facts, collectives: CompoundTable, collective_members: CompoundTable, spill: Spill
) -> ClockConditions:
    """Find the clock conditions of collective operations: members do not end before those they depend on begin."""
    m = collective_members
    found = ConditionCollector(facts)
    on = Dependence.of(facts, collectives, collective_members)
    row, operation, lets_wait, waits = directions(m.collective, m.group)
    gives, takes = on.gives[row] & lets_wait, on.takes[row] & waits
    at = np.flatnonzero((gives | takes) & ~on.is_prefix[row])
    found.edges.all_to_all(operation[at], m.begin[row[at]], m.end[row[at]], gives[at], takes[at], length=COLLECTIVE)
    at = np.flatnonzero(on.is_prefix)
    order = np.lexsort((m.rank[at], m.collective[at]))
    sees = positions(order)
    found.edges.chain(m.collective[at], order, m.begin[at], m.end[at], sees, on.gives[at], on.takes[at], COLLECTIVE, 0)
    at = np.flatnonzero(on.latest >= 0)
    latest = on.latest[at]
    found.count(COLLECTIVE, m.location[latest], m.location[at], m.end_time[at] - m.begin_time[latest])
    return found.kept(spill)


@step(GLOBAL, "startup_conditions")
def startup_conditions(facts: Facts, startups: CompoundTable, spill: Spill) -> ClockConditions:
    """Find the clock conditions of the start and end of MPI: if all participants are recorded, none leaves before all
    have entered."""
    m = startups
    found = ConditionCollector(facts)
    for is_init, world in product((True, False), distinct(m.communicator).tolist()):
        at = np.flatnonzero((m.is_init == is_init) & (m.communicator == world))
        # MPI rejects repeated calls
        at = at[np.unique(m.location[at], return_index=True)[1]]
        n_started = distinct(m.location[m.is_init & ((m.communicator == world) | (world < 0))]).size
        if at.size < 2 or at.size < n_started:
            continue
        ends = m.exit[at] >= 0
        leave = np.where(ends, m.exit[at], m.enter[at])
        found.edges.all_to_all(np.zeros(at.size, np.int64), m.enter[at], leave, to_some=ends, length=START)
        latest = at[np.argmax(m.enter_time[at])]
        at = at[ends]
        of = np.full(at.size, m.location[latest])
        found.count(START, of, m.location[at], m.exit_time[at] - m.enter_time[latest])
    return found.kept(spill)


@step(WITHIN, "thread_conditions")
def thread_conditions(
    facts: Facts,
    members: Ints,
    team_instances: Teams,
    teams: CompoundTable,
    constructs: CompoundTable,
    construct_members: CompoundTable,
    lock_acquisitions: CompoundTable,
    created_threads: CompoundTable,
    spill: Spill,
) -> ClockConditions:
    """Find the clock conditions within processes: forks and joins of teams, barriers of threads, locks, threads that
    are created."""
    found = ConditionCollector(facts)
    for location in members.tolist():
        mine = team_instances.begins_of(location)
        if mine.start < mine.stop:
            _team_conditions(facts, team_instances, teams, location, mine, found)
    _barrier_conditions(constructs, construct_members, teams, found)
    release, release_time = lock_order(lock_acquisitions)
    owner = np.where(release >= 0, np.searchsorted(facts.first_rows, release, "right") - 1, -1)
    found.between(
        LOCK,
        release,
        lock_acquisitions.acquire,
        owner,
        lock_acquisitions.location,
        lock_acquisitions.acquire_time - release_time,
    )
    c = created_threads
    found.between(CREATED, c.create_enter, c.begin, c.create_location, c.location, c.begin_time - c.create_enter_time)
    found.between(CREATED, c.end, c.join_exit, c.location, c.join_location, c.join_exit_time - c.end_time)
    return found.kept(spill)


def _team_conditions(
    facts: Facts, team_instances: Teams, teams: CompoundTable, location: int, mine: slice, found: ConditionCollector
) -> None:
    """Add the conditions of the teams of a thread: it begins after the FORK, and ends before the JOIN."""
    team = team_instances.instance[mine]
    master = teams.master[team].astype(np.int64)
    first_row = int(facts.first_rows[location])
    if team_instances.forker[location] < 0:
        own = team_instances.events.at(location)
        is_end = own.kind == EventKind.THREAD_TEAM_END
        some = np.flatnonzero(own.is_begin | is_end)
        begin_at = own.is_begin[some]
        end = pair_nested(begin_at, is_end[some])[begin_at]
        row = own.row[some]
        time = times_of(facts.store, location, row - first_row)
        begin_row, begin_time = row[begin_at], time[begin_at]
        end_row, end_time = pick(row, end), pick(time, end)
    elif team_instances.forker[location] == location:
        return
    else:
        store = facts.store
        time = facts.order.times_of(first_row, store.read("events", location, ["time"])["time"])
        join_time = np.where(teams.join[team] >= 0, teams.join_time[team], LATE)
        first, last = events_in_teams(teams.fork_time[team], join_time, time)
        begin_row, end_row = (np.where(at >= 0, at + first_row, -1) for at in (first, last))
        begin_time, end_time = pick(time, first), pick(time, last)
    here = np.full(team.size, location)
    fork, join = teams.fork[team], teams.join[team]
    found.between(FORK, fork, begin_row, master, here, begin_time - teams.fork_time[team])
    found.between(JOIN, end_row, join, here, master, teams.join_time[team] - end_time)


def _barrier_conditions(
    constructs: CompoundTable, members: CompoundTable, teams: CompoundTable, found: ConditionCollector
) -> None:
    """Add the conditions of barriers in which all threads of the team take part: no participant leaves one before all
    have entered it."""
    c, m = constructs, members
    if not len(c):
        return
    whole = (c.n_members > 1) & (c.n_members >= teams.n_threads[c.team]) & IS_BARRIER[c.role_number]
    at = np.flatnonzero(whole[m.construct])
    ends = m.exit[at] >= 0
    # others wait also for threads that never leave
    leave = np.where(ends, m.exit[at], m.enter[at])
    found.edges.all_to_all(m.construct[at], m.enter[at], leave, to_some=ends, length=THREAD_BARRIER)
    at = at[ends]
    latest = c.latest_location[m.construct[at]]
    found.count(THREAD_BARRIER, latest, m.location[at], m.exit_time[at] - m.latest_enter_time[at])


@step(CLOCKS, "clock_violations")
def find_clock_violations(
    every_message_conditions: Sequence[ClockConditions],
    every_collective_conditions: Sequence[ClockConditions],
    startup_conditions: ClockConditions,
    every_thread_conditions: Sequence[ClockConditions],
) -> CompoundTable:
    """Build the table of violated clock conditions by pair of locations, with the offsets that would repair them."""
    every = *every_message_conditions, *every_collective_conditions, startup_conditions, *every_thread_conditions
    p = add_pairs([{name: found.pairs[name] for name in PAIR} for found in every])
    # over all kinds of conditions, in both directions
    n = int(max(p.earlier_location.max(initial=0), p.later_location.max(initial=0))) + 1
    forth, back = p.earlier_location * n + p.later_location, p.later_location * n + p.earlier_location
    keys, of = np.unique(forth, return_inverse=True)
    slack = np.full(keys.size, NO_BOUND)
    np.minimum.at(slack, of, p.slack)
    at_least, at_most = -slack[of], pick(slack, lookup(keys, back), NO_BOUND)
    mends = at_least <= at_most
    offset = np.where(mends, at_least, at_most + (at_least - np.minimum(at_most, at_least) + 1) // 2)
    rows = np.flatnonzero(p.n_violations)
    columns = {
        **{name: p[name] for name in PAIR[:5]},
        "largest": -p.slack,
        "offset_at_least": at_least,
        "offset_at_most": at_most,
        "offset": offset,
        "is_mended": mends,
    }
    return CompoundTable(
        CLOCK_VIOLATIONS, rows.size, {c.name: columns[c.name][rows].astype(c.dtype) for c in CLOCK_VIOLATIONS.columns}
    )
