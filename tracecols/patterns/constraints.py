"""Constraints that a valid trace satisfies (thesis 3.6.4), and the search for violations.

A constraint is declared once, with the function that finds its violations. Constraints on one location, on the threads
of a process, and among processes are checked per partition of the trace; names and call paths are looked up for
violations only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct, ends_run, starts_run
from tracecols.enhance.conditions import COLLECTIVE, LOCK, MESSAGE, START, Dependence
from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, pair_with_previous
from tracecols.enhance.dataflow.steps import BUCKET, GLOBAL, RECEIVE, SEND, STAGES, WITHIN
from tracecols.enhance.mpi.collectives import participants_disagree
from tracecols.enhance.scan.gaps import IS_ACQUIRE
from tracecols.enhance.scan.instances import LocationStacks, attributed_events, scan_location
from tracecols.enhance.scan.tasks import COMPLETES, CREATES, name_tasks
from tracecols.enhance.scan.tasks import NAMES as TASK_NAMES
from tracecols.model.model import Model, Progress
from tracecols.schema import NAMES
from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS

ALONE = ""
"""All locations, each by itself."""

SCOPES = {
    "location": ALONE, "process": WITHIN, "receiver": RECEIVE, "sender": SEND, "range": BUCKET, "whole": GLOBAL,
}  # fmt: skip
"""By scope: the stage of an analysis in which all data of that scope is available at the same time."""

SOME = 16
"""Violations within a location are reported for at most this many locations, and this many of each; all are counted."""


@dataclass
class Violations:
    """Violations of a constraint."""

    count: int
    time: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,): ticks of the violations whose time and location are known."""
    location: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,)"""
    tell: Callable[[int], str] = lambda _: ""
    """Describes a violation, given its number, in words."""

    @staticmethod
    def at(rows: NDArray[Any], time: NDArray[Any], location: NDArray[Any], tell: Callable[[Any], str]) -> Violations:
        """Return the violations at some rows, with their times and locations; `tell` describes that at a row."""
        return Violations(rows.size, time, location.astype(np.int64), lambda i: tell(rows[i]))


@dataclass(frozen=True)
class Constraint:
    """A constraint."""

    name: str
    holds: str
    scope: str
    """The part of the trace that is passed to `find` (`SCOPES`)."""
    find: Callable[[Model, Names], Violations]
    """(model, names) to Violations."""
    source: str

    @property
    def is_of_clocks(self) -> bool:
        """Whether clocks that disagree can violate it."""
        return self.holds.endswith("(clocks)")


@dataclass(frozen=True)
class Violation:
    """A violated constraint: the number of violations, and the first ones as (ticks, location, description)."""

    constraint: Constraint
    count: int
    first: list[tuple[int, int, str]]


CONSTRAINTS: list[Constraint] = []


def constraint(name: str, holds: str, scope: str, source: str = "thesis 3.6.4") -> Callable[[Any], Any]:
    """Declare a constraint; use as a decorator of the function that finds its violations."""

    def declare(find: Callable[[Model, Names], Violations]) -> Callable[[Model, Names], Violations]:
        CONSTRAINTS.append(Constraint(name, holds, scope, find, source))
        return find

    return declare


def counted(name: str, holds: str, scope: str, source: str, table: str, doc: str) -> None:
    """Declare a constraint whose violations a table counts, by the name of the constraint; they have no times."""

    def find(partition: Model, _names: Names) -> Violations:
        return Violations(partition.get(table).counts.get(name, 0))

    find.__doc__ = doc
    constraint(name, holds, scope, source)(find)


class Names:
    """Names of definitions, for messages."""

    def __init__(self, model: Model) -> None:
        self.model = model
        store = model.store
        self._locations, self._communicators = store.names("locations"), store.names("communicators")
        self._ranks = store.definitions["processes"].column("rank").to_pylist()
        self._process = model.process.tolist()

    def location(self, number: int) -> str:
        """Return the name of a location, with its number and rank."""
        return f"location {number} '{self._locations[number]}' of rank {self.rank(self._process[number])}"

    def rank(self, process: int) -> int:
        """Return the rank of a process in the whole trace."""
        return self._ranks[process]

    def member(self, m: CompoundTable, row: int) -> str:
        """Return the rank of a participant in `collective_members`, on an inter-communicator that in the whole
        trace."""
        on = int(m.communicator[row])
        if on >= 0 and self.model.communicators.is_inter[on]:
            return f"rank {self.rank(self._process[m.location[row]])} of the trace"
        return f"rank {m.rank[row]}"

    def communicator(self, number: int) -> str:
        if not 0 <= number < len(self._communicators):
            return "an unknown communicator"
        name = self._communicators[number]
        return f"communicator {number} '{name}'" if name else f"communicator {number}"

    def region(self, number: int) -> str:
        return f"'{self.model.regions.name[number]}'" if number >= 0 else "an unnamed region"

    def call_path(self, number: int) -> str:
        """Return the name of the last region of a call path."""
        return self.region(int(self.model.call_paths.region[number])) if number >= 0 else "no region"

    def op(self, number: int) -> str:
        return COLLECTIVE_OPS[number] if 0 <= number < len(COLLECTIVE_OPS) else f"operation {number}"


def find_violations(model: Model, first: int = 3, progress: Progress | None = None) -> list[Violation]:
    """Check all constraints; return the violated ones in the order of their declaration, each with its `first` earliest
    instances."""
    names = Names(model)

    def check(partition: Model, stage: str) -> list[tuple[str, int, list[tuple[int, int, str]]]]:
        result = []
        for c in CONSTRAINTS:
            if SCOPES[c.scope] == stage:
                found = c.find(partition, names)
                chosen = np.lexsort((found.location, found.time))[:first].tolist()
                here = [(int(found.time[i]), int(found.location[i]), found.tell(i)) for i in chosen]
                result.append((c.name, found.count, here))
        return result

    counts: dict[str, int] = {}
    listed: dict[str, list[tuple[int, int, str]]] = {}
    with model.divided() as run:
        stages = [stage for stage in STAGES if stage in SCOPES.values()]
        everywhere = run.stages(check, stages, progress)
        for violations in [check(model, ALONE), *everywhere]:
            for name, count, here in violations:
                counts[name] = counts.get(name, 0) + count
                listed[name] = sorted([*listed.get(name, []), *here])[:first]
    return [Violation(c, counts[c.name], listed[c.name]) for c in CONSTRAINTS if counts.get(c.name)]


# -- one location --------------------------------------------------------------------------------------------------


def _nesting(
    model: Model, counts: list[int], find: Callable[[LocationStacks], NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[tuple[int, int]]]:
    """Search some of the locations that have violations; return time, location, and (region, call path) of the first
    ones of each."""
    times, locations, calls = [], [], []
    for location in np.flatnonzero(counts)[:SOME].tolist():
        stacks = scan_location(model.facts, model.scans, model.team_instances, location)
        at = find(stacks)[:SOME]
        times.append(stacks.time[at])
        locations.append(np.full(at.size, location))
        calls += list(zip(stacks.region[at].tolist(), stacks.call_path(at).tolist(), strict=True))
    nothing = np.zeros(0, np.int64)
    return np.concatenate([*times, nothing]), np.concatenate([*locations, nothing]), calls


LEAVES = (K.EXIT, K.CALLING_CONTEXT_EXIT)


@constraint("exits that do not match their enter", "region instances nest", "location")
def nesting(model: Model, names: Names) -> Violations:
    """Find EXITs of another region than the one entered last, or of none."""
    counts = [s.bad_exits for s in model.scans]

    def find(stacks: LocationStacks) -> NDArray[np.int64]:
        enter, region, kind = stacks.enterptr, stacks.region, stacks.kind
        leaves = np.isin(kind, [*LEAVES, K.PROGRAM_END]) | ((kind == K.MEASUREMENT_ON_OFF) & (region < 0))
        entered = np.where(enter >= 0, region[np.maximum(enter - stacks.first, 0)], -1)
        named = (region >= 0) & (kind != K.PROGRAM_END)
        return np.flatnonzero(leaves & ((enter < 0) | (named & (entered != region))))

    time, location, calls = _nesting(model, counts, find)

    def tell(i: int) -> str:
        region, call_path = calls[i]
        inside = f"inside {names.call_path(call_path)}" if call_path >= 0 else "outside of all regions"
        return f"leaves {names.region(region)} {inside}"

    return Violations(sum(counts), time, location, tell)


@constraint("region instances that never end", "region instances end", "location")
def unfinished(model: Model, names: Names) -> Violations:
    """Find ENTERs without an EXIT."""
    counts = [s.open for s in model.scans]

    def find(stacks: LocationStacks) -> NDArray[np.int64]:
        enters = np.isin(stacks.kind, [K.ENTER, K.PROGRAM_BEGIN, K.CALLING_CONTEXT_ENTER])
        enters |= (stacks.kind == K.MEASUREMENT_ON_OFF) & (stacks.region >= 0)
        return np.flatnonzero(enters & (stacks.exitptr < 0))

    time, location, calls = _nesting(model, counts, find)
    return Violations(sum(counts), time, location, lambda i: f"enters {names.region(calls[i][0])} and never leaves it")


@constraint("events earlier than the one before them", "time does not decrease at a location", "location", "TIME")
def decreasing_times(model: Model, _names: Names) -> Violations:
    """Find events that are earlier than the event recorded before them, as flushed trace buffers leave them."""
    counts = model.store.decreases
    times, locations, back, kinds = ([np.zeros(0, np.int64)] for _ in range(4))
    for of in sorted(counts)[:SOME]:
        columns = model.store.read("events", of, ["time", "kind"])
        at = 1 + np.flatnonzero(columns["time"][1:] < columns["time"][:-1])[:SOME]
        times.append(columns["time"][at])
        locations.append(np.full(at.size, of))
        back.append(columns["time"][at - 1] - columns["time"][at])
        kinds.append(columns["kind"][at])
    earlier, kind = np.concatenate(back), np.concatenate(kinds)

    def tell(i: int) -> str:
        return (
            f"records {NAMES.get(int(kind[i]), 'an event')} {earlier[i] / model.resolution:.9f} s before the "
            "event in front of it"
        )

    return Violations(sum(counts.values()), np.concatenate(times), np.concatenate(locations), tell)


# -- threads of a process ------------------------------------------------------------------------------------------


@constraint("teams without a recorded FORK", "a FORK precedes every team", "process")
def forks(partition: Model, names: Names) -> Violations:
    """Find team instances without FORK."""
    teams = partition.team_instances
    of = np.flatnonzero(partition.teams.master < 0)
    begin = np.searchsorted(np.sort(teams.instance), of)
    begin = np.argsort(teams.instance, kind="stable")[begin]
    location = teams.location[begin]
    row = np.empty(of.size, np.int64)
    for at in distinct(location).tolist():
        events, mine = teams.events.at(at), location == at
        row[mine] = events.row[events.is_begin][begin[mine] - teams.begin_start[at]]
    time = _times_of(partition, location, row)
    communicator = partition.teams.communicator
    return Violations.at(
        of, time, location, lambda k: f"begins in {names.communicator(int(communicator[k]))}, which has no FORK"
    )


counted(
    "threads that begin in undefined teams",
    "teams are defined",
    "process",
    "OTF2 definitions",
    "teams",
    "Count begins in undefined teams: each such thread is treated as alone.",
)


@constraint("ends of teams that do not match their begin", "threads begin in teams before they end in them", "process")
def team_ends(partition: Model, names: Names) -> Violations:
    """Find ends of threads in another team than the one in which they have begun last, or in none."""
    locations = partition.members
    e, counts = partition.team_instances.events.of(locations)
    chosen = np.flatnonzero(np.isin(e.kind, (K.THREAD_TEAM_BEGIN, K.THREAD_TEAM_END)))
    location, is_begin, team = np.repeat(locations, counts)[chosen], e.is_begin[chosen], e.team[chosen].astype(np.int64)
    # a begin and its end change between the same two numbers of teams in which the thread is
    within = np.cumsum(np.where(is_begin, 1, -1)) - is_begin
    begin = pair_with_previous(combine(location, within), is_begin, ~is_begin)
    of = np.flatnonzero(~is_begin & ((begin < 0) | (pick(team, begin) != team)))
    time = _times_of(partition, location[of], e.row[chosen[of]])

    def tell(k: int) -> str:
        inside = f"inside {names.communicator(int(team[begin[k]]))}" if begin[k] >= 0 else "outside of all teams"
        return f"ends in {names.communicator(int(team[k]))} {inside}"

    return Violations.at(of, time, location[of], tell)


@constraint("tasks that are completed again", "a task is completed once", "process", "OTF2 events")
def task_ends(partition: Model, _names: Names) -> Violations:
    """Find completions of tasks that have been completed before, and not been created again."""
    side, counts = partition.store.read_together("tasks", partition.members, ["row", *TASK_NAMES])
    location = np.repeat(partition.members, counts)
    name, is_implicit = name_tasks(partition.process[location], *(side[c] for c in TASK_NAMES))
    chosen = np.flatnonzero(~is_implicit & np.isin(side["kind"], (*CREATES, *COMPLETES)))
    time = _times_of(partition, location[chosen], side["row"][chosen])
    order = partition.order.argsort(side["row"][chosen], time, name[chosen])
    at, time = chosen[order], time[order]
    is_end = np.isin(side["kind"][at], COMPLETES)
    of = 1 + np.flatnonzero(is_end[1:] & is_end[:-1] & (name[at[1:]] == name[at[:-1]]))

    def tell(i: int) -> str:
        k, before = at[i], location[at[i - 1]]
        number, creator = max(side["generation"][k], side["task"][k]), side["creator"][k]
        by = f" of thread {creator}" if creator >= 0 else ""
        return f"completes task {number}{by}, which location {before} has completed"

    return Violations.at(of, time[of], location[at[of]], tell)


@constraint("constructs that lack threads", "all threads of a team execute a construct", "process", "thesis 3.13, 3.19")
def construct_members(partition: Model, names: Names) -> Violations:
    """Find constructs that not all threads of the team execute."""
    c, m, teams = partition.constructs, partition.construct_members, partition.teams
    size = teams.n_threads[c.team]
    of = np.flatnonzero(c.n_members < size)
    time, location = _first_member(m, "construct", "enter_time", of, len(c))
    return Violations.at(
        of, time, location, lambda k: f"{names.region(int(c.region[k]))}: {c.n_members[k]} of {size[k]} threads"
    )


@constraint("constructs in different order", "threads of a team execute constructs in the same order", "process")
def construct_order(partition: Model, names: Names) -> Violations:
    """Find constructs in which some threads execute another region."""
    c, m = partition.constructs, partition.construct_members
    if not len(c):
        return Violations(0)
    region = partition.call_paths.region[m.call_path]
    # regions that look the same count as one
    text = [
        f"{a}\0{b}\0{n}"
        for a, b, n in zip(partition.regions.name, partition.regions.file, partition.regions.begin_line, strict=True)
    ]
    number = np.unique(np.array(text, object).astype(str), return_inverse=True)[1]
    segments = Segments(m.construct, len(c))
    of = np.flatnonzero(segments.min(number[region]) != segments.max(number[region]))
    time, location = _first_member(m, "construct", "enter_time", of, len(c))

    def tell(k: int) -> str:
        mine = np.flatnonzero(m.construct == k)
        one, other = mine[0], mine[np.flatnonzero(number[region[mine]] != number[region[mine[0]]])[0]]
        return (
            f"{names.region(int(region[one]))} at location {m.location[one]} is {names.region(int(region[other]))} "
            f"at location {m.location[other]}"
        )

    return Violations.at(of, time, location, tell)


@constraint(
    "threads that do not wait for others",
    "threads begin after the FORK, end before the JOIN, and leave barriers when all have entered (clocks)",
    "process",
    "TIME",
)
def thread_clocks(partition: Model, _names: Names) -> Violations:
    """Count threads that begin in a team before its FORK or end in it after its JOIN, leave a barrier before another
    one enters it, or run before they were created or after the join.

    The table of pairs of locations lists these threads.
    """
    pairs = partition.thread_conditions.pairs
    mine = ~np.isin(pairs.condition, (MESSAGE, COLLECTIVE, START, LOCK))
    return Violations(int(pairs.n_violations[mine].sum()))


class _Locks:
    """The lock events of a partition, by lock in chronological order, and how often the lock is held before and after
    each event."""

    def __init__(self, partition: Model) -> None:
        e = attributed_events(
            partition.facts, partition.scans, partition.members, partition.call_instances, "locks", ["lock"]
        )
        process = partition.process[e.location]
        key = combine(process, e.lock)
        order = partition.order.argsort(e.row, e.time, key)
        self.key, self.lock, self.location, self.time, kind = (
            v[order] for v in (key, e.lock, e.location, e.time, e.kind)
        )
        self.is_acquire = IS_ACQUIRE[kind]
        self.follows = ~starts_run(self.key)
        change = np.where(self.is_acquire, 1, -1)
        total = np.cumsum(change)
        begin = np.flatnonzero(~self.follows)
        group = np.cumsum(~self.follows) - 1
        total -= (total - change)[begin][group]
        # a lock is held at least 0 times; offsets keep the running minima of different locks apart
        apart = group * (2 * key.size + 2)
        lowest = np.minimum.accumulate(np.minimum(total, 0) - apart) + apart
        self.held_after = total - lowest
        self.held = np.where(self.follows, np.concatenate([[0], self.held_after[:-1]]), 0) if key.size else total


@constraint("lock events that do not alternate", "locks are acquired and released in turn", "process")
def alternation(partition: Model, _names: Names) -> Violations:
    """Find locks that are acquired while another thread holds them, or released by a thread that does not hold them.

    A thread may acquire a lock that it already holds: nested locks are counted.
    """
    e = _Locks(partition)
    same = ~starts_run(e.location)
    wrong = np.where(e.is_acquire, (e.held > 0) & ~(e.follows & same), ~e.follows | (e.held <= 0) | ~same)
    of = np.flatnonzero(wrong)

    def tell(at: int) -> str:
        if not e.is_acquire[at]:
            return f"releases lock {e.lock[at]}" + (
                f", which location {e.location[at - 1]} holds"
                if e.follows[at] and e.held[at] > 0
                else ", which nobody holds"
            )
        return f"acquires lock {e.lock[at]}, which location {e.location[at - 1]} has not released"

    return Violations.at(of, e.time[of], e.location[of], tell)


@constraint("locks that were never released", "locks are released", "process")
def unreleased(partition: Model, _names: Names) -> Violations:
    """Find locks that are held when the recording ends."""
    e = _Locks(partition)
    last = np.flatnonzero(ends_run(e.key))
    of = last[e.held_after[last] > 0]
    return Violations.at(of, e.time[of], e.location[of], lambda k: f"holds lock {e.lock[k]} at the end")


# -- processes -----------------------------------------------------------------------------------------------------


@constraint("sends without receive", "every message that is sent is received", "sender")
def unreceived(model: Model, names: Names) -> Violations:
    """Find sends without a matching receive; cancelled ones do not count."""
    s = model.sends
    of = np.flatnonzero(~np.isin(s.send, model.sent_messages.send) & ~s.is_cancelled)

    def tell(k: int) -> str:
        return (
            f"sends {s.length[k]:,} bytes to rank {s.destination[k]} of {names.communicator(int(s.communicator[k]))}, "
            f"tag {s.tag[k]}, in {names.call_path(int(s.call_path[k]))}"
        )

    return Violations.at(of, s.send_time[of], s.location[of], tell)


@constraint("receives without send", "every message that is received was sent", "receiver")
def unsent(model: Model, names: Names) -> Violations:
    """Find receives without a matching send."""
    r = model.receives
    of = np.flatnonzero(~r.is_matched)

    def tell(k: int) -> str:
        return f"receives from rank {r.source[k]} of {names.communicator(int(r.communicator[k]))}, tag {r.tag[k]}"

    return Violations.at(of, r.recv_time[of], r.location[of], tell)


@constraint("messages received before they were sent", "a SEND precedes its RECV (clocks)", "receiver")
def message_order(model: Model, names: Names) -> Violations:
    """Find messages whose receive is earlier than their send."""
    m = model.messages
    of = np.flatnonzero(m.send_time > m.recv_time)

    def tell(k: int) -> str:
        early = (m.send_time[k] - m.recv_time[k]) / model.resolution
        return (
            f"receives from {names.location(int(m.send_location[k]))}, tag {m.tag[k]}, {early:.9f} s before it was sent"
        )

    return Violations.at(of, m.recv_time[of], m.recv_location[of], tell)


@constraint("collective operations that lack participants", "all members take part in a collective operation", "range")
def participants(model: Model, names: Names) -> Violations:
    """Find collective operations that not all members of the communicator execute."""
    c, m = model.collectives, model.collective_members
    of = np.flatnonzero(c.n_members < c.size)
    time, location = _first_member(m, "collective", "begin_time", of, len(c))

    def tell(k: int) -> str:
        here, on = m.collective == k, int(c.communicator[k])
        there, size, where = set(m.rank[here].tolist()), int(c.size[k]), ""
        missing = [r for r in range(size) if r not in there][:4]
        if on >= 0 and model.communicators.is_inter[on]:
            # ranks of two groups
            absent = np.setdiff1d(model.communicators.members_of(on), model.process[m.location[here]])[:4]
            missing, where = [names.rank(process) for process in absent.tolist()], " of the trace"
        return (
            f"{names.op(int(c.op[k]))} on {names.communicator(on)}: {c.n_members[k]} of {size} "
            f"participants, first missing rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}{where}"
        )

    return Violations.at(of, time, location, tell)


@constraint(
    "collective operations whose participants disagree",
    "members execute the same collective operations, with the same root, in the same order",
    "range",
)
def collective_order(model: Model, names: Names) -> Violations:
    """Find collective operations in which some members execute another operation or have another root."""
    c, m = model.collectives, model.collective_members
    if not model.collectives.counts["collective operations whose participants disagree"]:
        return Violations(0)
    segments = Segments(m.collective, len(c))
    of = np.flatnonzero(participants_disagree(model.facts.communicators, segments, c.communicator, m.op, m.root))
    time, location = _first_member(m, "collective", "begin_time", of, len(c))

    def tell(k: int) -> str:
        mine = np.flatnonzero(m.collective == k)
        on = names.communicator(int(c.communicator[k]))
        others = mine[m.op[mine] != m.op[mine[0]]]
        if not others.size:
            roots = ", ".join(map(str, np.unique(m.root[mine[m.root[mine] >= 0]])[:4].tolist()))
            return f"participants of {names.op(int(c.op[k]))} on {on} have different roots: ranks {roots}"
        one, other = mine[0], others[0]
        return (
            f"{names.op(int(m.op[one]))} of {names.member(m, one)} on {on} is {names.op(int(m.op[other]))} of "
            f"{names.member(m, other)}"
        )

    return Violations.at(of, time, location, tell)


@constraint(
    "participants of collective operations on undefined communicators",
    "communicators are defined",
    "range",
    "OTF2 definitions",
)
def undefined_communicators(model: Model, names: Names) -> Violations:
    """Find participants of collective operations whose communicator is not defined: each is treated as alone."""
    m = model.collective_members
    of = np.flatnonzero(m.communicator < 0)
    return _of_participants(m, of, names)


@constraint(
    "participants of collective operations that are not members of the communicator",
    "only members of a communicator take part in its collective operations",
    "range",
    "SEMANTICS 3",
)
def non_members(model: Model, names: Names) -> Violations:
    """Find participants of collective operations whose process is not in the communicator: others wait for them, too.

    Inter-communicators are not checked: the members of their second group have no rank in them.
    """
    m = model.collective_members
    is_inter = model.facts.communicators.are_inter(m.communicator)
    of = np.flatnonzero((m.communicator >= 0) & ~is_inter & (m.rank < 0))
    return _of_participants(m, of, names)


@constraint(
    "collective operations whose root is not a member of the communicator",
    "the root of a collective operation is a member of its communicator",
    "range",
    "SEMANTICS 3",
)
def roots(model: Model, names: Names) -> Violations:
    """Find collective operations whose root is beyond the ranks of their communicator: nobody is found to be the root.

    Inter-communicators are not checked: the root is a rank of one of their groups.
    """
    c, m = model.collectives, model.collective_members
    is_inter = model.facts.communicators.are_inter(c.communicator)
    of = np.flatnonzero((c.communicator >= 0) & ~is_inter & (c.root >= c.size))
    time, location = _first_member(m, "collective", "begin_time", of, len(c))

    def tell(k: int) -> str:
        on = names.communicator(int(c.communicator[k]))
        return f"{names.op(int(c.op[k]))} on {on} has rank {c.root[k]} as its root: there are {c.size[k]} ranks"

    return Violations.at(of, time, location, tell)


@constraint("collective operations left before others entered them", "operations that synchronise do (clocks)", "range")
def collective_clocks(model: Model, names: Names) -> Violations:
    """Find complete operations in which a participant ends before one begins whose data it depends on."""
    c, m = model.collectives, model.collective_members
    if not len(c):
        return Violations(0)
    latest = Dependence.of(model.facts, c, m).latest
    takes = latest >= 0
    early = pick(m.begin_time, latest) - m.end_time
    segments = Segments(m.collective, len(c))
    late = segments.max(np.where(takes, early, 0))
    of = np.flatnonzero(late > 0)
    # the first of the members whose end is furthest before the begin they depend on
    ended = np.flatnonzero(takes & (early == late[m.collective]))
    instance, first = np.unique(m.collective[ended], return_index=True)
    at = ended[first[np.searchsorted(instance, of)]]

    def tell(k: int) -> str:
        apart = late[k] / model.resolution
        on = names.communicator(int(c.communicator[k]))
        return f"ends {names.op(int(c.op[k]))} on {on} {apart:.9f} s before another participant begins it"

    return Violations.at(of, m.end_time[at], m.location[at], tell)


counted(
    "non-blocking collective operations that are never completed",
    "every non-blocking collective operation that is started is completed",
    "whole",
    "SEMANTICS 3",
    "nonblocking_members",
    "Count non-blocking collective operations that are started and not completed.",
)
counted(
    "non-blocking collective operations that lack participants",
    "all members take part in a non-blocking collective operation",
    "whole",
    "SEMANTICS 3",
    "nonblocking_members",
    "Count non-blocking collective operations that not all members start and complete.",
)


@constraint(
    "processes that leave MPI_Init or MPI_Finalize before others entered it",
    "the start and the end of MPI synchronise (clocks)",
    "whole",
    "TIME",
)
def startup_clocks(model: Model, _names: Names) -> Violations:
    """Count the violations in calls of MPI_Init and MPI_Finalize that all processes make."""
    return Violations(int(model.startup_conditions.pairs.n_violations.sum()))


counted(
    "operations on windows that lack participants",
    "all members take part in operations on a window",
    "whole",
    "SEMANTICS 3",
    "window_members",
    "Count collective operations on windows that not all members execute.",
)
counted(
    "operations on undefined windows",
    "windows are defined",
    "whole",
    "OTF2 definitions",
    "window_members",
    "Count collective operations and synchronisations of groups whose window is not defined.",
)
counted(
    "collective operations on files that lack participants",
    "all members take part in collective operations on files",
    "whole",
    "SEMANTICS 3",
    "file_members",
    "Count collective operations on files that not all members execute.",
)
counted(
    "exposure epochs that lack access epochs",
    "every exposure epoch is accessed as announced",
    "whole",
    "SEMANTICS 3",
    "epochs",
    "Count exposure epochs that some of their origins never access.",
)


def _times_of(model: Model, location: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the times of events of some locations, one location after the other."""
    time = np.empty(row.size, np.int64)
    for at in distinct(location).tolist():
        mine = location == at
        time[mine] = model.store.read("events", at, ["time"])["time"][row[mine] - model.scans[at].first_row]
    return time


def _of_participants(m: CompoundTable, of: NDArray[np.int64], names: Names) -> Violations:
    """Return the violations by some rows of `collective_members`."""

    def tell(k: int) -> str:
        return f"{names.op(int(m.op[k]))} on {names.communicator(int(m.communicator[k]))}"

    return Violations.at(of, m.begin_time[of], m.location[of], tell)


def _first_member(
    m: CompoundTable, instance: str, time: str, of: NDArray[np.int64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return time and location of the first member of some instances."""
    if not of.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.full(n, -1, np.int64)
    order = np.lexsort((m.location, m[time]))[::-1]
    first[m[instance][order]] = order
    return pick(m[time], first[of]), pick(m.location, first[of])
