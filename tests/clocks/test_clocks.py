"""Clock conditions and the controlled logical clock: by hand, against a plain twin, true times and corrected
references."""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from conftest import DATA, SHARED
from support.command_line import executed, run
from support.epilog_writer import EpilogWriter, merged
from support.random_epilog import random_recording, with_late_events
from support.random_programs import RandomProgram
from support.severities import cells

import tracecols
from benchmarks import generate
from tracecols.clocks.correction import CONDITION_TABLES, Bounds
from tracecols.clocks.graph import ClockGraph
from tracecols.errors import AnalysisError, StoreError
from tracecols.kernels import clocks as kernels
from tracecols.schema import EventKind as K
from tracecols.schema.clocks import CONDITIONS
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.slices.rewritten import RewrittenTrace
from tracecols.slices.source import StoreSource
from tracecols.store import Store
from tracecols.store.outputs import CORRECTED

PARALLEL, BARRIER = "!$omp parallel @a.c:1", "!$omp barrier @a.c:4"


class ShiftedSource(StoreSource):
    """A store whose processes have separate clocks: an offset in ticks is added to all times of a process."""

    def __init__(self, store, offsets):
        super().__init__(store)
        self.offsets = [offsets[p] for p in self.definitions["locations"]["process"]]
        self.clock.length += max(offsets.values())

    def read(self, location, report, *, salvage=False):
        for batch in super().read(location, report, salvage=salvage):
            batch.events["time"] = batch.events["time"] + self.offsets[location]
            yield batch


class Shifted(RewrittenTrace):
    fact = "TEST::SHIFTED"
    _jobs = 1

    def __init__(self, store, offsets):
        self._source = ShiftedSource(store, offsets)

    def source(self):
        return self._source


def shifted(path, offsets, output):
    """Write a store in which the clocks of processes have offsets."""
    return Shifted(Store(path), offsets).save(output)


def times(store):
    """Return the times of all events, location by location."""
    store = store if isinstance(store, Store) else Store(store)
    return [store.read("events", i, ["time"])["time"].tolist() for i in range(store.manifest["n_locations"])]


@pytest.fixture
def corrected(tmp_path):
    """Return a function that corrects a trace and opens the result."""

    def run(trace, **bounds):
        return tracecols.open(trace.correct(**bounds).save(tmp_path / "corrected.trace"), jobs=1)

    return run


def early_message(archive, recv=1_500, send=2_000):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "main").enter(send, "MPI_Send").send(send, 1, mpi.world, 7, 64).leave(send + 1, "MPI_Send")
    a.leave(900_000, "main")
    b.enter(0, "main").enter(1_000, "MPI_Recv").receive(recv, 0, mpi.world, 7, 64).leave(recv + 1, "MPI_Recv")
    b.leave(300_000, "main")
    return archive


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_forward__a_receive_moves_after_its_send_and_what_follows_comes_back_slowly(archive, opened, corrected):
    found = corrected(opened(early_message(archive)), stretch=1.0, shrink=0.001)
    # the receive moves by 500 ticks; the shift rises with the time from 0, 500 ticks before; after it, it falls by a
    # thousandth of the time
    assert times(found.store) == [[0, 2_000, 2_000, 2_001, 900_000], [0, 1_000, 2_000, 2_001, 300_000 + 500 - 298]]
    assert len(found.clock_violations) == 0


def test_backward__the_shift_rises_by_the_share_that_is_given(archive, opened, corrected):
    found = corrected(opened(early_message(archive)))
    # the shift rises by a hundredth: 15 ticks in 1,500, 5 in 500
    assert times(found.store)[1] == [500 - 15, 1_000 + 500 - 5, 2_000, 2_001, 300_000 + 500 - 2]


def test_backward__a_send_limits_how_far_the_events_before_move(archive, opened, corrected):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    # rank 1 sends at 1,000 a message received at 1,100, and receives another one 10,000 ticks before it is sent
    a.enter(0, "MPI_Recv").receive(1_100, 1, mpi.world, 7, 64).leave(1_200, "MPI_Recv")
    a.enter(15_000, "MPI_Send").send(15_000, 1, mpi.world, 7, 64).leave(15_000, "MPI_Send")
    b.enter(0, "MPI_Send").send(1_000, 0, mpi.world, 7, 64).leave(1_000, "MPI_Send")
    b.enter(3_000, "MPI_Recv").receive(5_000, 0, mpi.world, 7, 64).leave(5_000, "MPI_Recv")
    found = corrected(opened(archive))
    # the send moves by 100, and from there on the shift rises evenly: 9,900 in 4,000 ticks
    assert times(found.store) == [
        [0, 1_100, 1_200, 15_000, 15_000, 15_000],
        [100 - 10, 1_100, 1_100, 3_000 + 100 + 4_950, 15_000, 15_000],
    ]


def test_latency__is_what_passes_at_least(archive, opened, corrected):
    trace = opened(early_message(archive))
    # ticks are nanoseconds
    assert times(corrected(trace, latency=1e-6).store)[1][2] == 3_000
    assert trace.correct(latency=1e-6).before["message"] == 1


def test_no_violation__nothing_moves(archive, opened, corrected):
    trace = opened(early_message(archive, recv=2_000))
    assert times(corrected(trace).store) == times(trace.store)
    assert trace.correct().change.n_moved == 0


def test_collectives__by_kind(archive, opened, corrected):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.collective(500, 600, mpi.world, "barrier").collective(1_100, 1_110, mpi.world, "bcast", 0, 8, 8)
    b.collective(100, 200, mpi.world, "barrier").collective(900, 1_000, mpi.world, "bcast", 0, 0, 8)
    # no rank depends on one that only receives, or on the higher rank in a scan
    a.collective(2_000, 2_010, mpi.world, "reduce", 1, 8, 0).collective(3_000, 3_010, mpi.world, "scan", None, 8, 8)
    b.collective(3_500, 3_510, mpi.world, "reduce", 1, 0, 8).collective(4_000, 4_010, mpi.world, "scan", None, 8, 8)
    found = opened(archive)
    assert found.correct().before == {**dict.fromkeys(CONDITIONS, 0), "collective": 2}
    after = corrected(found)
    assert len(after.clock_violations) == 0
    # rank 0 never depends on late events
    assert times(after.store)[0] == times(found.store)[0]


def test_scan__depends_on_lower_ranks_only(archive, opened):
    mpi = archive.mpi(3)
    for rank, (begin, end) in zip(mpi.ranks, [(100, 110), (500, 510), (200, 210)], strict=True):
        rank.collective(begin, end, mpi.world, "scan", None, 8, 8)
    (row,) = opened(archive).clock_violations.itertuples()
    # rank 2 ends at 210, before rank 1 begins at 500; rank 0 may end before both
    assert (row.earlier_location, row.later_location, row.n_violations, row.largest) == (1, 2, 1, 290)


@pytest.mark.parametrize("op", ["scan", "exscan"])
@pytest.mark.parametrize("sent", [[0, 8, 8], [0, 0, 8], [8, 0, 8], [0, 0, 0]])
def test_scan__begins_with_ranks_that_send_nothing(op, sent, archive, opened, corrected):
    mpi = archive.mpi(3)
    times_of_ranks = [(100, 110), (500, 510), (200, 530)]
    for rank, (begin, end), n in zip(mpi.ranks, times_of_ranks, sent, strict=True):
        rank.collective(begin, end, mpi.world, op, None, n, 8)
    # nobody ends before a lower rank begins: nothing is violated, and nothing moves
    trace = opened(archive)
    assert not any(trace.correct().before.values())
    assert times(corrected(trace).store) == times(trace.store)


def test_scan__of_which_the_first_ranks_send_nothing_is_corrected(archive, opened, corrected):
    mpi = archive.mpi(4)
    times_of_ranks = [(900, 910), (100, 110), (500, 510), (200, 210)]
    for rank, (begin, end), n in zip(mpi.ranks, times_of_ranks, [0, 8, 8, 8], strict=True):
        rank.collective(begin, end, mpi.world, "scan", None, n, 8)
    # rank 3 ends at 210, before rank 2 begins at 500; rank 1 does not depend on rank 0, which sends nothing
    after = times(corrected(opened(archive)).store)
    assert [after[rank][-1] for rank in range(4)] == [910, 110, 510, 500]


def test_threads__fork_join_and_barriers_follow_a_master_that_moves(archive, opened, corrected):
    mpi = archive.mpi(2, 2)
    (a, b), (c, _) = mpi.threads
    team = mpi.teams[0]
    c.enter(0, "MPI_Send").send(50_000, 0, mpi.world, 1, 8).leave(50_000, "MPI_Send")
    a.enter(0, "MPI_Recv").receive(10_000, 1, mpi.world, 1, 8).leave(10_000, "MPI_Recv")
    a.fork(10_100, 2).begin_team(10_100, team).enter(10_110, PARALLEL).call(10_200, 10_400, BARRIER)
    a.leave(10_500, PARALLEL).end_team(10_500, team).join(10_600)
    b.begin_team(10_105, team).enter(10_110, PARALLEL).call(10_300, 10_390, BARRIER).leave(10_450, PARALLEL).end_team(
        10_450, team
    )
    trace = opened(archive)
    assert {k for k, n in trace.correct().before.items() if n} == {"message"}
    after = corrected(trace)
    assert len(after.clock_violations) == 0
    of_master, of_worker = times(after.store)[:2]
    assert of_master[1] == 50_000
    # the worker begins after the FORK, and leaves the barrier after the master's ENTER
    assert of_worker[0] >= of_master[3]
    assert of_worker[3] >= of_master[6]


def test_locks__stay_in_turn_when_one_thread_moves(archive, opened, corrected):
    mpi = archive.mpi(2, 2)
    (a, b), (c, _) = mpi.threads
    c.enter(0, "MPI_Send").send(50_000, 0, mpi.world, 1, 8).leave(50_000, "MPI_Send")
    a.enter(0, "MPI_Recv").receive(10_000, 1, mpi.world, 1, 8).leave(10_000, "MPI_Recv").acquire(10_100, 1, 1)
    a.release(10_200, 1, 1)
    b.acquire(10_300, 1, 2).release(10_400, 1, 2)
    after = corrected(opened(archive))
    locks = after.lock_acquisitions.sort_values("acquisition")
    assert locks.acquire_time.tolist()[1] == locks.release_time.tolist()[0] == 50_000 + 200
    assert "alternate" not in run("check", after.path).output


@pytest.mark.slow
def test_streams_of_devices__move_with_their_hosts_so_that_launches_precede_kernels(archive, opened, corrected):
    mpi = archive.mpi(2, 2)
    (a, _), (b, _) = mpi.threads
    a.enter(0, "MPI_Send").send(2_000, 1, mpi.world, 7, 64).leave(2_001, "MPI_Send")
    # the message is received 500 ticks before it is sent; the kernel begins 5 ticks after its launch, and ends before
    # the call that waits for it
    b.enter(0, "MPI_Recv").receive(1_500, 0, mpi.world, 7, 64).leave(1_501, "MPI_Recv")
    b.enter(1_600, "cuLaunchKernel").leave(1_610, "cuLaunchKernel")
    b.enter(1_620, "cuStreamSynchronize").leave(1_710, "cuStreamSynchronize")
    with archive.location("stream", b.process, "gpu") as stream:
        stream.enter(100, "earlier").leave(110, "earlier").enter(1_605, "kernel").leave(1_700, "kernel")
    with archive.location("of the other process", a.process, "gpu") as other:
        other.enter(1_607, "kernel").leave(1_702, "kernel")
    trace = opened(archive)
    before, after = trace.read_events(), corrected(trace, stretch=0.5, shrink=0.0).read_events()
    shift = (after.time - before.time).to_numpy()

    def of(time):
        return shift[(before.time == time).to_numpy()].tolist()

    assert of(1_600) == of(1_605) == of(1_710) == of(1_700) == [500]
    # before the receive, the shift rises on host and stream alike; the other process does not move
    assert of(100) == [0] and of(1_500) == [500]
    assert of(1_607) == of(1_702) == [0]


def test_contradictions__are_refused(archive, opened):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    # each rank first receives a message that the other one sends afterwards
    for rank, other in ((a, 1), (b, 0)):
        rank.enter(0, "MPI_Recv").receive(10, other, mpi.world, 1, 8).leave(20, "MPI_Recv")
        rank.enter(30, "MPI_Send").send(40, other, mpi.world, 1, 8).leave(50, "MPI_Send")
    with pytest.raises(AnalysisError, match=r"4 events would have to happen before themselves, the first is row 1"):
        opened(archive).correct()


def test_buffer_flushes__end_as_far_after_their_begin(archive, opened, corrected):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "MPI_Send").send(2_000, 1, mpi.world, 7, 64).leave(2_000, "MPI_Send")
    b.enter(0, "MPI_Recv").receive(1_500, 0, mpi.world, 7, 64).leave(1_500, "MPI_Recv")
    b.record(1_600, "BufferFlush", stop_time=1_700).enter(1_800, "f").leave(1_900, "f")
    after = corrected(opened(archive), shrink=0.0)
    assert times(after.store)[1] == [485, 2_000, 2_000, 2_100, 2_300, 2_400]
    assert after.table("control").stop_time.tolist() == [2_200]


# -- the table of violations -------------------------------------------------------------------------------------------


def test_violations__by_pair_with_the_offset_that_mends_them(archive, opened):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for t in (10_000, 20_000, 30_000):
        a.enter(t, "MPI_Send").send(t, 1, mpi.world, 1, 8).leave(t, "MPI_Send")
    a.enter(40_000, "MPI_Recv").receive(90_000, 1, mpi.world, 1, 8).leave(90_000, "MPI_Recv")
    # received 3,000 and 2,000 ticks too early, and 1,000 after the send; the reply takes 40,000 by these clocks
    for t in (7_000, 18_000, 31_000):
        b.enter(t, "MPI_Recv").receive(t, 0, mpi.world, 1, 8).leave(t, "MPI_Recv")
    b.enter(50_000, "MPI_Send").send(50_000, 0, mpi.world, 1, 8).leave(50_000, "MPI_Send")
    trace = opened(archive)
    (row,) = trace.frame("clock_violations", raw=True).to_dict("records")
    assert row == {
        "condition": CONDITIONS.index("message"),
        "earlier_location": 0,
        "later_location": 1,
        "n_conditions": 3,
        "n_violations": 2,
        "largest": 3_000,
        "offset_at_least": 3_000,
        "offset_at_most": 40_000,
        "offset": 3_000,
        "is_mended": True,
    }
    output = executed("check", trace.path, code=1)
    assert "           1  pair of locations between which clock conditions are violated\n" in output
    assert (
        "               0.000003000 s  at most: location 1 'Master thread' of rank 1 is too early for location 0 'Master thread' "
        "of rank 0, 2 of 3 (message); adding 0.000003000 s to its clock mends all\n"
    ) in output
    # the offset mends it
    mended = tracecols.open(shifted(trace.path, {0: 0, 1: 3_000}, trace.path.with_name("mended.trace")))
    assert len(mended.clock_violations) == 0


def test_violations__of_clocks_that_drift_are_not_mended_by_an_offset(archive, opened):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(1_000, "MPI_Send").send(1_000, 1, mpi.world, 1, 8).leave(1_000, "MPI_Send")
    a.enter(4_000, "MPI_Recv").receive(4_900, 1, mpi.world, 1, 8).leave(4_900, "MPI_Recv")
    b.enter(700, "MPI_Recv").receive(700, 0, mpi.world, 1, 8).leave(700, "MPI_Recv")
    b.enter(5_000, "MPI_Send").send(5_000, 0, mpi.world, 1, 8).leave(5_000, "MPI_Send")
    rows = opened(archive).clock_violations
    # at least 300 more for the first message, at most 100 less for the second: 100 more leaves 200 of each
    assert rows.offset.tolist() == [100, -100]
    assert not rows.is_mended.any()


def test_violations__of_recorded_traces(opened):
    if not SHARED.is_dir():
        pytest.skip("no reference traces beside the repository")
    trace = opened(SHARED / "otf2_clocks/clock_coll_4")
    rows = trace.clock_violations
    # the reference counts 29 in its trace analysis: 28 in operations, and one of MPI_Finalize
    by_kind = rows.groupby("condition").n_violations.sum()
    assert by_kind.to_dict() == {CONDITIONS.index("collective"): 28, CONDITIONS.index("start and end"): 1}
    assert trace.correct().before == {**dict.fromkeys(CONDITIONS, 0), "collective": 28, "start and end": 1}


# -- the plain twin ----------------------------------------------------------------------------------------------------


def conditions_of(trace):
    """All clock conditions as pairs of rows, by their definition."""
    found = [(m.send, m.recv) for m in trace.messages.itertuples()]
    kind = trace.read_events(columns=["kind"]).kind
    c, members = trace.collectives, trace.collective_members
    for k, group_of in members.groupby("collective"):
        if c.n_members[k] < c["size"][k] or c["size"][k] < 2:
            continue
        op = COLLECTIVE_OPS[c.op[k]]
        ms = list(group_of.itertuples())
        begin = {
            m.rank: max((r for r in range(m.enter, m.end) if kind[r] == K.MPI_COLLECTIVE_BEGIN), default=m.enter)
            for m in ms
        }
        for one in ms:
            for other in ms:
                depends = {
                    "barrier": True,
                    "bcast": one.is_root and not other.is_root and other.received > 0,
                    "scatter": one.is_root and not other.is_root and other.received > 0,
                    "reduce": one.sent > 0 and not one.is_root and other.is_root,
                    "gather": one.sent > 0 and not one.is_root and other.is_root,
                    "scan": one.sent > 0 and one.rank < other.rank,
                    "exscan": one.sent > 0 and one.rank < other.rank,
                }.get(
                    op,
                    one.sent > 0 and other.received > 0
                    if op in ("allreduce", "allgather", "alltoall", "reduce_scatter")
                    else False,
                )
                if depends:
                    found.append((begin[one.rank], other.end))
    s = trace.startups
    for is_init in (True, False):
        calls = s[s.is_init == is_init].drop_duplicates("location")
        if len(calls) >= max(2, s[s.is_init].location.nunique()):
            found += [(a, b) for a in calls.enter for b in calls.exit if b >= 0]
    teams, constructs, threads = trace.teams, trace.constructs, trace.construct_members
    for k, group_of in threads[threads.role.isin(["barrier", "implicit_barrier"])].groupby("construct"):
        if 1 < len(group_of) == teams.n_threads[constructs.team[k]]:
            found += [(a, b) for a in group_of.enter for b in group_of.exit if b >= 0]
    locks = trace.lock_acquisitions.sort_values(["process", "lock", "acquisition", "acquire_time"])
    for (_, _), group_of in locks.groupby(["process", "lock"]):
        rows = list(group_of.itertuples())
        found += [
            (a.release, b.acquire)
            for a, b in itertools.pairwise(rows)
            if a.release >= 0 and b.previous_release >= 0 and a.location != b.location
        ]
    return found, teams


def team_conditions(trace, teams):
    """Return the conditions of forks and joins, from the side table of threads alone."""
    found = []
    side = [
        trace.store.read("threads", i, ["row", "kind", "team"]) if trace.store.n_rows("threads", i) else None
        for i in range(len(trace.locations))
    ]
    runs: dict[tuple[int, int], int] = {}
    forks = {(t.communicator, n): (t.fork, t.join, t.master) for n, t in enumerate(teams.itertuples())}
    of_team: dict[int, list[int]] = {}
    for communicator, n in forks:
        of_team.setdefault(communicator, []).append(n)
    for location, columns in enumerate(side):
        runs.clear()
        open_teams = []
        for row, kind, team in (
            zip(*(columns[c].tolist() for c in ("row", "kind", "team")), strict=True) if columns else ()
        ):
            if kind == K.THREAD_TEAM_BEGIN:
                k = runs.get((location, team), 0)
                runs[location, team] = k + 1
                open_teams.append(forks[team, of_team[team][k]])
                if open_teams[-1][0] >= 0 and open_teams[-1][2] != location:
                    found.append((open_teams[-1][0], row))
            elif kind == K.THREAD_TEAM_END and open_teams:
                _, join, master = open_teams.pop()
                if join >= 0 and master != location:
                    found.append((row, join))
    return found


def twin(events, conditions, shrink, stretch):
    """Compute the controlled logical clock event by event from (location, time) and pairs of rows; O(n^2) and more.

    Only events in conditions are computed from each other, since shifts are rounded to ticks there.
    """
    location, time = [e[0] for e in events], [e[1] for e in events]
    conditions = [(a, b) for a, b in conditions if a != b]
    nodes = sorted({row for pair in conditions for row in pair})
    before = {b: a for a, b in itertools.pairwise(nodes) if location[a] == location[b]}
    after = {a: b for b, a in before.items()}
    new = {v: time[v] for v in nodes}
    for _ in range(len(nodes) + 2):
        changed = False
        for v in nodes:
            t = new[v]
            if v in before:
                gap = time[v] - time[before[v]]
                t = max(t, new[before[v]] + gap - math.floor(shrink * gap))
            if t != new[v]:
                new[v], changed = t, True
        for a, b in conditions:
            if new[a] > new[b]:
                new[b], changed = new[a], True
        if not changed:
            break
    else:
        raise AssertionError("conditions contradict each other")
    forward = {v: new[v] - time[v] for v in nodes}
    limit = {v: min([new[b] for a, b in conditions if a == v], default=math.inf) - time[v] for v in nodes}
    shift = {}
    for v in reversed(nodes):
        if v not in after:
            anchor = v
            shift[v] = forward[v]
        if v != anchor:
            continue
        while anchor in before:
            # the slope of the lower convex hull of the limits, while the line is above the forward shifts
            rate, best, at = stretch, None, anchor
            while at in before:
                at = before[at]
                gap = time[anchor] - time[at]
                if shift[anchor] - rate * gap <= forward[at]:
                    break
                if limit[at] < shift[anchor] - rate * gap:
                    best = at
                    if gap == 0:
                        break
                    rate = (shift[anchor] - limit[at]) / gap
            top, last = anchor, at if best is None else best
            while anchor != last:
                anchor = before[anchor]
                line = shift[top] - math.floor(rate * (time[top] - time[anchor]))
                shift[anchor] = max(forward[anchor], min(limit[anchor], line))
                if line <= forward[anchor]:
                    break
    result = []
    of_location: dict[int, list[int]] = {}
    for v in nodes:
        of_location.setdefault(location[v], []).append(v)
    for row, (at, t) in enumerate(events):
        mine = of_location.get(at, [])
        u = max((v for v in mine if v <= row), default=None)
        w = min((v for v in mine if v > row), default=None)
        s, rate = 0, stretch
        if u is not None:
            s = max(0, shift[u] - math.floor(shrink * (t - time[u])))
            if w is not None and time[w] > time[u]:
                rate = max(rate, (shift[w] - shift[u]) / (time[w] - time[u]))
        if w is not None and not (u is not None and t <= time[u]):
            s = max(s, shift[w] - math.floor(rate * (time[w] - t)))
        result.append(t + s)
    return result


# seeds with collective operations and messages that do not contradict them: processes do not wait in operations
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 5, 9, 11])
def test_twin__gives_the_same_times(tmp_path, seed):
    rng = np.random.default_rng(seed)
    plain = RandomProgram(seed, tmp_path / "traces.otf2", 60).model(tmp_path).store
    offsets = {p: int(rng.integers(0, 4_000)) for p in range(len(plain.definitions["processes"]))}
    trace = tracecols.open(shifted(plain.path, offsets, tmp_path / "shifted.trace"), jobs=1)
    found, teams = conditions_of(trace)
    found += team_conditions(trace, teams)
    recorded = trace.read_events(columns=["location", "time"])
    shrink, stretch = (0.25, 0.5) if seed % 2 else (1e-5, 0.01)
    correction = trace.correct(shrink=shrink, stretch=stretch)
    assert sum(correction.before.values()) > 0
    assert not any(correction.after.values())
    wanted = twin(list(recorded.itertuples(index=False, name=None)), found, shrink, stretch)
    got = tracecols.open(correction.save(tmp_path / "corrected.trace"))
    assert got.read_events(columns=["time"]).time.tolist() == wanted
    assert len(got.clock_violations) == 0
    # events are joined as before
    for table in ("messages", "collective_members", "construct_members"):
        columns = [c for c in getattr(trace, table).columns if c in ("send", "recv", "end", "enter", "exit", "rank")]
        one, two = (getattr(t, table)[columns].sort_values(columns).to_numpy().tolist() for t in (trace, got))
        assert one == two
    # the bounds hold: an interval keeps 1 - shrink of its length, and no time decreases
    old, new = recorded.time.to_numpy(), np.array(wanted)
    same = recorded.location.to_numpy()[1:] == recorded.location.to_numpy()[:-1]
    assert (np.diff(new)[same] >= np.floor((1 - shrink) * np.diff(old)[same])).all()
    assert (new >= old).all()


@pytest.mark.parametrize("n", [0, 1, 2, 60])
def test_kernels__compiled_and_plain_agree(n):
    rng = np.random.default_rng(n)
    time, forward = np.cumsum(rng.integers(0, 50, n)), rng.integers(0, 90, n)
    limit = forward + rng.integers(0, 60, n)

    def keep(kernel):
        # input is read-only for the plain kernel; the compiled one would be compiled again for such arrays
        for array in (time, forward, limit):
            array.flags.writeable = hasattr(kernel, "py_func")

    found = []
    for kernel in (kernels.amortise, kernels.amortise.py_func):
        keep(kernel)
        shift = np.zeros(n, np.int64)
        kernel(time, forward, limit, 0.2, 1 << 10, shift)
        assert (shift >= forward).all()
        assert (shift <= limit).all()
        found.append(shift.tolist())
    assert found[0] == found[1]
    # the limits also hold if the search is bounded
    keep(kernels.amortise)
    kernels.amortise(time, forward, limit, 0.2, 3, shift)
    assert ((shift >= forward) & (shift <= limit)).all()
    row = np.sort(rng.integers(0, 100, 2 * n))
    nodes = np.arange(n, dtype=np.int64) * 3
    at = np.sort(rng.integers(0, max(int(time[-1]) if n else 0, 1) + 9, 2 * n))
    results = []
    for kernel in (kernels.shift_events, kernels.shift_events.py_func):
        keep(kernel)
        shift = np.zeros(2 * n, np.int64)
        results.append((kernel(row, at, nodes, time, forward, 0, 0.01, 0.2, shift), shift.tolist()))
    assert results[0] == results[1]


def test_partitions_and_workers__do_not_change_the_times(tmp_path, monkeypatch):
    model = RandomProgram(3, tmp_path / "traces.otf2", 60, ranks=4).model(tmp_path)
    path = shifted(model.store.path, {0: 0, 1: 300, 2: 150, 3: 700}, tmp_path / "shifted.trace")
    one = tracecols.open(path, jobs=1)
    violations, wanted = one.frame("clock_violations", raw=True), times(one.correct().save(tmp_path / "one.trace"))
    for module, name, value in (
        ("enhance.dataflow.partitions", "PARTITION_ROWS", 50),
        ("enhance.mpi.collectives", "BUCKET_ROWS", 5),
        ("slices.source", "ROWS", 7),
        ("clocks.corrected", "ROWS", 7),
        ("enhance.dataflow.spill", "BUDGET", 0),
        ("clocks.graph", "HELD", 0),
        ("work.large", "SMALL", 0),
        ("clocks.graph", "CHUNK", 5),
    ):
        monkeypatch.setattr(f"tracecols.{module}.{name}", value)
    two = tracecols.open(path, jobs=3)
    with two.model.divided() as run:
        assert len(run.division) > 1
    correction = two.correct()
    assert correction.change == one.correct().change
    assert times(correction.save(tmp_path / "two.trace")) == wanted
    pd.testing.assert_frame_equal(pd.read_parquet(two.scan("clock_violations").files[0]), violations, check_like=True)


@pytest.mark.slow
def test_memory__of_the_graph_is_less_than_half_of_what_it_was(archive, opened):
    """It used to be 114 B per event in a condition; arrays beyond `HELD` are in files."""

    n = 20_000
    mpi = archive.mpi(2)
    for rank, other in zip(mpi.ranks, (1, 0), strict=True):
        rank.enter(0, "main")
        for k in range(n):
            # each rank receives a message that the other one has sent before
            rank.send(10 * k + 1, other, mpi.world, 7, 8).receive(10 * k + 5, other, mpi.world, 7, 8)
        rank.leave(10 * n, "main")
    model = opened(archive).model
    found = [part for name in CONDITION_TABLES for part in model.every(name)]
    ClockGraph.of(model.facts, found, 1)
    tracemalloc.start()
    graph = ClockGraph.of(model.facts, found, 1)
    shift = graph.backward(graph.forward(0, 1e-5), 0, 0.01)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(graph) == 4 * n == shift.size
    assert peak < 57 * len(graph) + (1 << 20)


# -- EPILOG ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_epilog__is_corrected_too_and_late_events_stay_late(tmp_path):
    recording = with_late_events(random_recording(5, n_processes=3, n_threads=2, n_rounds=20), 5)
    merged(recording).write(tmp_path / "x.elg")
    plain = Store(tracecols.convert(tmp_path / "x.elg", tmp_path / "plain.trace"))
    tick = plain.manifest["clock"]["resolution"] // 1000
    trace = tracecols.open(shifted(plain.path, {0: 0, 1: 40 * tick, 2: 9 * tick}, tmp_path / "x.trace"))
    correction = trace.correct()
    assert sum(correction.before.values()) > 0
    assert not any(correction.after.values())
    after = tracecols.open(correction.save(tmp_path / "corrected.trace"))
    assert after.store.decreases == trace.store.decreases
    assert sum(after.store.decreases.values()) > 0
    assert len(after.clock_violations) == 0


def test_epilog__a_message_that_is_received_early(opened, tmp_path):
    w = EpilogWriter()
    (a,), (b,) = w.process(), w.process()
    w.comm([0, 1])
    w.enter(a, 0.0, "MPI_Send").enter(b, 0.0, "MPI_Recv").recv(b, 1.0, a).send(a, 2.0, b).exit(b, 2.5).exit(a, 3.0)
    w.write(tmp_path / "x.elg")
    trace = opened(tmp_path / "x.elg")
    after = tracecols.open(trace.correct().save(tmp_path / "c.trace"))
    assert after.seconds(after.messages.recv_time).tolist() == [2.0]


@pytest.mark.skipif(not SHARED.is_dir(), reason="no reference traces beside the repository")
def test_epilog__scans_are_no_conditions_since_the_order_of_ranks_is_not_recorded(opened):
    """A communicator of this trace has its ranks in the opposite order, and its record is a set of processes."""
    trace = opened(SHARED / "epilog/coll_4")
    assert (trace.collectives.op == COLLECTIVE_OPS.index("scan")).any()
    assert len(trace.clock_violations) == 0


# -- true times --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("program", "threads"), [("halo", 1), ("multizone", 2)])
def test_generated__clocks_that_nobody_compared_come_together(opened, tmp_path, program, threads):
    skew = 1e-3
    source = generate.make(program, 4, threads, 12_000, 4, skew=skew)
    path = generate.write(source, tmp_path / "skewed", jobs=2, unmeasured=True)
    plain = generate.write(generate.make(program, 4, threads, 12_000, 4), tmp_path / "plain", jobs=2)
    trace = opened(path)
    true = times(tracecols.convert(plain, tmp_path / "plain.trace"))
    assert not tracecols.open(tmp_path / "plain.trace").correct().change.n_moved
    correction = trace.correct()
    assert sum(correction.before.values()) > 100
    assert not any(correction.after.values())

    def apart(found):
        """Return the largest difference of clocks in seconds, in the mean over all their events."""
        error = [np.mean(np.subtract(a, b)) for a, b in zip(found, true, strict=True)]
        return np.ptp(error) / source.clock.resolution

    after = times(correction.save(tmp_path / "corrected.trace"))
    assert apart(times(trace.store)) > skew / 10
    # the remaining difference is the slack of messages and operations
    assert apart(after) < apart(times(trace.store)) / 20
    # no event moves further than the clocks differ: errors do not grow
    assert correction.change.largest_shift <= skew


# -- references --------------------------------------------------------------------------------------------------------


def seconds_of(store):
    clock = store.manifest["clock"]
    return [(np.array(t) - clock["origin"]) / clock["resolution"] for t in times(store)]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="no reference traces beside the repository")
@pytest.mark.parametrize("name", ["clock_coll_4", "clock_hyb_2x3"])
@pytest.mark.parametrize("has_locks", [True, False])
def test_reference__corrects_to_the_same_times(name, has_locks, tmp_path, monkeypatch):
    """Scalasca's correction of the same archives, with its latency of a microsecond.

    Scalasca puts a nanosecond between events of the same time, which adds up to 45 ns here, and ignores locks: if a
    thread has to wait for a lock, it lets two threads hold it.
    """
    if not has_locks:

        def none(locks):
            return np.full(len(locks), -1), np.zeros(len(locks), np.int64)

        monkeypatch.setattr("tracecols.enhance.conditions.lock_order", none)
    recorded, reference = (
        Store(tracecols.convert(SHARED / "otf2_clocks" / f"{name}{s}", tmp_path / f"{s}.trace"))
        for s in ("", "_corrected")
    )
    after = tracecols.open(tracecols.open(recorded.path).correct(latency=1e-6).save(tmp_path / "ours.trace"))
    apart = [np.abs(a - b) for a, b in zip(seconds_of(after.store), seconds_of(reference), strict=True)]
    if name == "clock_hyb_2x3" and has_locks:
        # threads 1 and 2 of rank 0
        assert [int((d > 5e-8).sum()) for d in apart] == [0, 279, 39, 0, 0, 0]
        assert max(d.max() for d in apart) < 20e-6
        assert len(tracecols.open(reference.path).clock_violations) == 3
        return
    assert max(d.max() for d in apart) < 5e-8
    if name == "clock_coll_4" and has_locks:
        return
    # severities cell by cell; a millionth of a second is what a wait is added up of, 45 ns at each end
    wanted = pd.read_parquet(SHARED / "otf2_clocks" / f"{name}_corrected" / "reference.parquet")
    cube = after.analyze("scalasca")
    key = ["property", "call_path", "rank", "thread"]
    ours = cube.frame([p for p in wanted.property.unique() if p in cube.properties.number])
    frames = [
        f.astype({"property": str, "call_path": str}).groupby(key, observed=True).value.sum() for f in (ours, wanted)
    ]
    frame = pd.concat(frames, axis=1, keys=["ours", "reference"]).fillna(0.0).reset_index()
    unit = frame.property.map(lambda p: cube.properties.unit[cube.properties.number[p]])
    apart = (frame.ours - frame.reference).abs()
    wrong = frame[np.where(unit == "sec", apart > 5e-7, apart != 0)]
    assert wrong.empty, wrong.to_string(max_rows=20)


# -- the command and refused input -------------------------------------------------------------------------------------


def test_command__tells_what_was_corrected(archive, opened, tmp_path):
    trace = opened(early_message(archive))
    output = tmp_path / "y.trace"
    result = executed("correct", trace.path, "-o", output)
    assert result == (
        "      before         after  violated clock conditions\n"
        "           1             0  message\n"
        "           1             0  all\n"
        "5 events moved, by 0.000000500 s at most\n"
        "intervals changed by 0.000000010 s at most, by 2.13e-09 s in the mean\n"
        f"{output}\n"
    )
    source = Store(output).manifest["source"]
    assert (
        source[CORRECTED]
        == "controlled logical clock, latency 0 s, shrink 1e-05, stretch 0.01; 1 violations before, 0 after"
    )
    assert run("check", output).exit_code == 0
    # again, replacing the output, and as JSON
    found = json.loads(run("correct", trace.path, "-o", output, "--json", "--latency", "1us").output)
    assert found["violations_before"]["message"] == 1
    assert found["bounds"]["latency"] == 1e-6
    assert run("correct", output, "-o", tmp_path / "z.trace").output.startswith("no clock condition is violated")


def test_command__convert_corrects_at_once(archive, tmp_path):
    path = early_message(archive).write()
    output = executed("convert", path, "-o", tmp_path / "x.trace", "--correct-clocks")
    assert "x.trace: 10 events, 2 locations" in output
    store = Store(tmp_path / "x.trace")
    assert store.manifest["source"]["path"] == str(path)
    assert CORRECTED in store.manifest["source"]
    assert times(store)[1][2] == 2_000
    assert run("correct", path, "-o", tmp_path / "y.trace").exit_code == 0
    assert times(tmp_path / "y.trace") == times(store)


def test_command__refuses_what_it_cannot_do(archive, opened, tmp_path):
    trace = opened(early_message(archive))
    (tmp_path / "text.txt").write_text("no store")
    for arguments, code, words in (
        ([tmp_path / "no.trace", "-o", "y.trace"], 1, "no such store"),
        ([trace.path, "-o", trace.path], 1, "is, or holds, what is read"),
        ([trace.path, "-o", tmp_path / "text.txt"], 1, "is not a store of a trace"),
        ([trace.path], 2, "Missing option"),
        ([trace.path, "-o", "y.trace", "--latency", "soon"], 2, "not of the form"),
        ([trace.path, "-o", "y.trace", "--shrink", "2"], 1, "from 0 to 1"),
        ([trace.path, "-o", "y.trace", "--stretch", "-1"], 2, "is not a share"),
        ([trace.path, "-o", "y.trace", "--stretch", "nan"], 2, "is not a share"),
    ):
        result = run("correct", *arguments)
        assert (result.exit_code, words in result.output) == (code, True), result.output
    result = run("convert", trace.path, "--latency", "1us")
    assert (result.exit_code, "without --correct-clocks" in result.output) == (2, True)
    with pytest.raises(AnalysisError, match="more than a clock can show"):
        trace.correct(latency=1e300)
    with pytest.raises(AnalysisError, match="minimal latency is -1"):
        Bounds(latency=-1.0)
    path = trace.correct().save(tmp_path / "c.trace")
    with pytest.raises(StoreError, match="is the store that is read"):
        tracecols.open(path).correct().save(path)


def test_corrected__is_analysed_without_a_store(archive, opened):
    found = opened(early_message(archive)).correct().analyze()
    assert found.facts["counts"].get("messages received before they were sent", 0) == 0
    # the receive, entered at 1,495, waits for a send at 2,000
    assert cells(found, "mpi_latesender") == {("MPI_Recv", 1): 505}


def test_corrected__keeps_what_was_lost(archive, opened, tmp_path):
    trace = opened(early_message(archive))
    from tracecols.store.layout import write_manifest

    manifest = dict(trace.manifest)
    lost = [{"location": 7, "n_events": 3, "reason": "a chunk is cut off"}]
    content = {k: v for k, v in manifest.items() if k not in ("format", "version", "minor_version", "checksum")}
    write_manifest(
        trace.path, "a store of a trace", trace.store.version, {**content, "lost": lost, "not_understood": {"X": 2}}
    )
    after = Store(tracecols.open(trace.path).correct().save(tmp_path / "y.trace"))
    assert after.manifest["lost"] == lost
    assert after.manifest["not_understood"] == {"X": 2}


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.iterdir() if p.is_dir()))
def test_recorded__without_violations_stay_as_they_are(name, opened):
    correction = opened(DATA / name).correct()
    assert not any(correction.after.values())
    if not any(correction.before.values()):
        assert correction.change.n_moved == 0
