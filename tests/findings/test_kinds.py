"""Findings for small programs with one problem each."""

from itertools import product
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import slow
from support.severities import cube_of

from benchmarks import kinds
from benchmarks.bottlenecks import BOTTLENECKS
from benchmarks.faults import FAULTS
from benchmarks.mixed import MIXED
from benchmarks.rare import RARE
from benchmarks.uncommon import UNCOMMON
from benchmarks.world import Timed, World
from tracecols.findings.evidence import Evidence, trend_of
from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.severity import wording
from tracecols.testing import Location, Program

MS = 10**6
"""A millisecond in ticks, where 10^9 ticks are taken as a second."""


class Run:
    """Processes that execute the same steps, with the current time of each."""

    def __init__(self, ranks):
        self.program = Program(processes=ranks)
        self.ranks = range(ranks)
        self.now = [0] * ranks
        for r in self.ranks:
            self.program.masters[r].enter(0, "program").enter(1, "main").enter(2, "MPI_Init").leave(9)
            self.now[r] = 9

    def at(self, r):
        return self.program.masters[r]

    def compute(self, r, region, ticks):
        self.at(r).enter(self.now[r], region).leave(self.now[r] + ticks)
        self.now[r] += ticks

    def collective(self, name, op, region="solve", sent=8):
        last = max(self.now)
        for r in self.ranks:
            one = self.at(r).enter(self.now[r], region).enter(self.now[r], name).begin_collective(self.now[r])
            one.end_collective(last + 5, op, sent=sent, received=sent).leave(last + 5).leave(last + 5)
            self.now[r] = last + 5

    def send(self, source, to, region, length=8, cost=5):
        t, u = self.now[source], self.now[to]
        one = self.at(source).enter(t, region).enter(t, "MPI_Send").send(t, to=to, length=length)
        one.leave(t + cost).leave(t + cost)
        self.now[source] = t + cost
        leaves = max(t, u) + cost
        one = self.at(to).enter(u, region).enter(u, "MPI_Recv").receive(leaves, source=source, length=length)
        one.leave(leaves).leave(leaves)
        self.now[to] = leaves

    def diagnosis(self):
        return self.cube().diagnosis()

    def cube(self):
        for r in self.ranks:
            self.at(r).enter(self.now[r], "MPI_Finalize")
        end = max(self.now)
        for r in self.ranks:
            self.at(r).leave(end + 5).leave(end + 6).leave(end + 7)
        return cube_of(self.program)


def late(ranks, work, iterations=10):
    """Return the diagnosis of processes that compute and reduce; `work` is the time by rank and iteration."""
    run = Run(ranks)
    for i in range(iterations):
        for r in run.ranks:
            run.compute(r, "assemble", work(r, i))
        run.collective("MPI_Allreduce", "allreduce")
    return run.diagnosis()


def test_imbalance__names_rank_region_and_by_how_much():
    first = late(4, lambda r, i: 3000 if r == 2 else 1000).findings[0]
    assert first.what == "rank 2 computes 3.0 times as long as the others in assemble"
    assert (first.kind, first.rank, first.thread, first.cause_region) == ("computation", 2, None, "assemble")
    assert first.cause.location == "rank 2" and first.cause.call_path == "program/main/assemble"
    assert first.property == "mpi_wait_nxn"
    # 2,000 ticks in each of ten iterations, for which three ranks wait
    assert first.gain == 20_000 and first.seconds == pytest.approx(60_000, rel=0.01)
    assert first.evidence["mine"] == 30_000 and first.evidence["others"] == 10_000


@pytest.mark.parametrize(
    ("ranks", "work", "n", "rank", "what", "advice"),
    [
        (4, lambda r, i: 9000 if (r, i) == (1, 6) else 1000, 10, 1, "once in 10 times", "Find out what happened then"),
        (3, lambda r, i: 4000 if r == 1 and i % 3 == 2 else 1000, 18, 1, "every 3rd time", "every 3rd time"),
        (3, lambda r, i: 1000 + 300 * i * (r == 2), 20, 2, "ever longer", ""),
    ],
)
def test_imbalance__that_changes_says_when(ranks, work, n, rank, what, advice):
    first = late(ranks, work, n).findings[0]
    assert what in first.what and first.rank == rank and advice in first.advice
    if what.startswith("once"):
        assert first.evidence["trend"] == "once" and first.evidence["number"] == 7


def test_imbalance__of_now_one_now_another_is_no_ranks_fault():
    first = late(3, lambda r, i: 3000 if i % 3 == r else 1000, 12).findings[0]
    assert first.kind == "changing" and first.rank is None and first.cause.location == ""


def test_imbalance__among_some_locations_is_ranked_as_their_work_alone_is():
    """Making all of the work of ranks 0 and 1 shorter gains 1.4 times as much, but counts 0.8."""
    run = Run(4)
    for _ in range(10):
        for r, (region, ticks) in enumerate((("ocean", 1000), ("ocean", 1150), ("air", 940), ("air", 940))):
            run.compute(r, region, ticks)
        run.collective("MPI_Allreduce", "allreduce")
    first = run.diagnosis().findings[0]
    assert (first.kind, first.rank, first.cause_region, first.gain) == ("computation", 1, "ocean", 1500)
    assert first.evidence["others"] == 10_000


def test_imbalance__of_several_functions_on_the_same_ranks_is_one():
    """On one rank, and growing over all; a function that takes longer on another rank is not one of them."""
    for factors, where in (
        ((1, 1, 1, 2), "rank 3 computes 2.0 times as long as the others in"),
        ((1, 1.4, 1.8, 2.2), "are"),
    ):
        run = Run(4)
        for _ in range(10):
            for region, ticks in (("density", 600), ("momentum", 900)):
                for r, factor in enumerate(factors):
                    run.compute(r, region, int(ticks * factor))
                run.collective("MPI_Allreduce", "allreduce")
            for r in range(4):
                run.compute(r, "radiation", 2400 if r == 1 else 2000)
            run.collective("MPI_Allreduce", "allreduce")
        first, second = run.diagnosis().findings[:2]
        assert where in first.what and "momentum and density" in first.what and "call paths" not in first.what
        assert first.cause_region == "momentum" and first.evidence["functions"] == ["momentum", "density"]
        usual = sum(factors) / 4 if where == "are" else 1
        assert first.gain == pytest.approx(10 * 1500 * (max(factors) - usual), rel=1e-3)
        assert second.cause_region == "radiation" and second.rank == 1


@pytest.mark.parametrize("ranks", [2, 4])
def test_imbalance__that_hardly_is_one_over_the_run_names_no_rank(ranks):
    """Rank 0 takes 100 ticks longer than the others, of which waits for it are a tenth."""
    first = late(ranks, lambda r, i: 3000 if i % ranks == r else 1010 - 10 * min(r, 1), 20).findings[0]
    assert first.kind == "changing" and first.rank is None


def test_imbalance__of_regions_with_what_they_call_counts_both():
    run = Run(4)
    own, called = (0, 1 * MS, 3 * MS, 3 * MS), (20 * MS, 18 * MS, 0, 0)
    for _ in range(4):
        for r in run.ranks:
            one = run.at(r).enter(run.now[r], "step")
            run.now[r] += own[r]
            if called[r]:
                run.compute(r, f"part of {r}", called[r])
            one.leave(run.now[r])
        run.collective("MPI_Allreduce", "allreduce")
    first = run.diagnosis().findings[0]
    # 20, 19, 3 and 3 ms
    assert first.what == "step is distributed unevenly over 4 ranks: the longest takes 1.78 times the mean"


def test_barriers__that_are_not_needed_are_named():
    run = Run(3)
    for i in range(12):
        for r in run.ranks:
            run.compute(r, "sweep", 3000 if i % 3 == r else 1000)
        run.collective("MPI_Barrier", "barrier", "sync", sent=0)
    first = run.diagnosis().findings[0]
    assert first.kind == "barrier" and first.cause_region == "sync" and first.rank is None
    assert "Leave out barriers" in first.advice


@pytest.mark.parametrize(
    ("kind", "found", "said"),
    [("write_in_turn", "pipeline", "ranks execute write_in_order one after the other"),
     # other callers of the function have the same on all ranks
     ("library_function", "computation", "as long as the others in multiply (called in assemble)"),
     ("node_of_two", "slow", "rank 0 and rank 1 compute 1.6 times as long as the others in nearly all functions"),
     ("slow_consumer", "producer", "threads wait at a condition variable for rank 0 thread 2, which takes too long"),
     # messages of later steps are there before those that are waited for
     ("pieces_in_turn", "computation", "only rank 0 executes cut_piece, and others wait for it"),
     *slow([
         ("barrier_of_conditions", "computation", "computes 2.2 times as long as the others in move_particles"),
         ("tasks_of_one", "single", "rank 0 thread 0 executes find_subtree in a single construct"),
         ("coupled_models", "computation", "only rank 0 and rank 1 execute ocean_step, and others wait for them"),
     ])],
)  # fmt: skip
def test_first_finding__says_what_an_engineer_would(kind, found, said):
    first = kinds.try_program(kind, 0)
    assert first.kind == found and said in first.said


def test_barrier__for_which_one_process_is_always_late_is_needed():
    """The ranks write in turn, so that the last one comes last to each barrier: the barrier does not cause the loss."""
    run = Run(3)
    for _ in range(6):
        for r in run.ranks:
            if r:
                run.send(r - 1, r, "in_turn", length=4)
            run.compute(r, "write", 5 * MS)
        run.collective("MPI_Barrier", "barrier", sent=0)
    found = run.diagnosis().findings
    assert found[0].kind == "pipeline" and "barrier" not in {f.kind for f in found}


def test_properties__of_mpi_count_calls_and_messages():
    run = Run(2)
    for _ in range(50):
        for r in run.ranks:
            run.compute(r, "work", 2 * MS)
        run.send(0, 1, "pass", length=96, cost=MS // 50)
    found = {f.property: f for f in run.diagnosis().findings if not f.kind}
    shows = found["mpi_point2point"].shows
    # a message that is sent before the last process has left MPI_Init may not count
    assert shows.startswith("100 calls") and "sends and receives, 96 bytes in the mean" in shows


def test_waits_that_complete_collective_operations__get_no_advice_on_messages():
    facts = {"kind": "messages", "evidence": {"call": "MPI_Waitall", "n_calls": 40, "visits": 40}}
    one = wording.Subject("reduce_later", "", "MPI_Waitall", "rank")
    assert wording.advice(facts, one) == wording.NO_MESSAGES


def test_probes__complete_nothing_and_get_advice_of_their_own():
    run = Run(2)
    for _ in range(50):
        for r in run.ranks:
            run.compute(r, "work", MS)
        t, end = run.now[1], run.now[1] + MS
        run.at(1).enter(t, "look").enter(t, "MPI_Probe").leave(end).leave(end)
        run.now[1] = end
    cube = run.cube()
    without_causes = cube.replaced(facts={**cube.facts, "causes": None})
    first, unexplained = (some.diagnosis().findings[0] for some in (cube, without_causes))
    assert first.what == "50 calls of MPI_Probe in look take long beyond waiting"
    assert (unexplained.title, unexplained.kind) == ("MPI, Point-to-point", "")
    assert first.advice == unexplained.advice == wording.PROBES


@pytest.mark.parametrize(("pairs", "named"), [([(r, 0) for r in range(1, 6)], "rank 0"), ([(2, 3)], "")])
def test_messages__a_rank_through_which_all_go_is_named_but_neither_of_a_pair(pairs, named):
    run = Run(6)
    for _ in range(20):
        for r in run.ranks:
            run.compute(r, "work", MS)
        for source, to in pairs:
            run.send(source, to, "exchange", cost=MS // 10)
        run.collective("MPI_Barrier", "barrier", sent=0)
    first = run.diagnosis().findings[0]
    assert (first.kind, first.cause.location) == ("messages", named)


def test_messages__that_take_a_hundred_latencies_are_not_too_small_but_stalled():
    small = {"n_messages": 300, "mean_bytes": 540, "bytes": 162_000, "visits": 3}
    one = wording.Subject("tea_leaf", "", "MPI_Waitall")
    tiny, stalled = ({"kind": "messages", "evidence": small | {"transfer": t}} for t in (6e-5, 3e-2))
    assert wording.advice(tiny, one) == "Send few large messages in place of many small ones."
    assert "stalled" in wording.what(stalled, one) and "more processes" in wording.advice(stalled, one)


def test_nothing__is_said_in_one_line():
    found = late(4, lambda r, i: 100_000)
    assert found.findings == ()
    assert found.text().splitlines()[-1].startswith("Nothing costs as much as 0.5 %")


def test_one_rank__that_alone_does_something():
    run = Run(4)
    for _ in range(5):
        for r in run.ranks:
            run.compute(r, "solve", 1000)
        run.compute(0, "write_checkpoint", 4000)
        run.collective("MPI_Barrier", "barrier", "sync", sent=0)
    first = run.diagnosis().findings[0]
    assert first.what == "only rank 0 executes write_checkpoint, and others wait for it"
    assert first.gain == pytest.approx(20_000, rel=0.05)


def test_gains__are_shares_of_the_runtime_that_is_shown():
    run = Run(4)
    for r in run.ranks:
        run.compute(r, "assemble", 3000 if r == 2 else 1000)
    run.collective("MPI_Allreduce", "allreduce")
    cube = run.cube()
    for with_startup in (False, True):
        shown = cube.diagnosis(with_startup=with_startup)
        assert shown.findings[0].gain_share == pytest.approx(shown.findings[0].gain / shown.runtime)
    assert shown.runtime > cube.diagnosis().runtime


def test_tiny_messages__are_counted():
    run = Run(2)
    for _ in range(4):
        for r in run.ranks:
            run.compute(r, "move", 500)
        for r in run.ranks:
            run.at(r).enter(run.now[r], "exchange")
        for _ in range(50):
            run.send(0, 1, "exchange_one", cost=20)
        for r in run.ranks:
            run.at(r).leave(run.now[r])
    first = run.diagnosis().findings[0]
    assert first.kind == "messages" and "200 messages of 8 bytes" in first.what


def test_serial__of_the_only_process_names_rank_and_thread():
    program = Program(threads=3)
    master = program.locations[0].enter(0, "main")
    t = 0
    for _ in range(5):
        master.call(t, t + 3000, "sort_cells").fork(t + 3001)
        for thread in program.locations:
            thread.begin_team(t + 3002).enter(t + 3002, "!$omp parallel @a.c:1").enter(t + 3003, "forces")
            thread.leave(t + 5000).enter(t + 5001, "!$omp implicit barrier @a.c:9").leave(t + 5002).leave(t + 5003)
            thread.end_team(t + 5003)
        t += 5010
        master.join(t)
    master.leave(t + 1)
    first = cube_of(program).diagnosis().findings[0]
    assert (first.kind, first.cause_region, first.rank, first.thread) == ("serial", "sort_cells", 0, 0)
    assert first.what.startswith("rank 0 thread 0 computes sort_cells alone")
    assert first.gain == pytest.approx(5 * 3000 * 2 / 3, rel=0.01)


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize(("ranks", "rank"), [(1, 0), (3, None)])
def test_serial__is_not_that_masters_take_longer_in_the_function_around_it(ranks, rank, threads):
    """Masters as fast as the other threads in all that `step` calls would do none of the serial work, which somebody
    has to do: this gains more than sharing it, and was the first finding."""
    w = World(Random(0), ranks, threads, noise=0)
    for _ in range(10):
        with w.inside("step"):
            w.everyone("sort_cells", 2500)
            for r in range(ranks):
                w.divided(r, 40, "pair_forces", [2000] * threads)
        if ranks > 1:
            w.allreduce()
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert (first.kind, first.cause_region, first.rank, first.thread) == ("serial", "sort_cells", rank, 0)
    assert first.gain * 10**6 == pytest.approx(10 * 2500 * (1 - 1 / threads), rel=0.01)


def test_computation__of_a_function_includes_what_it_calls(monkeypatch):
    """The function alone gains three quarters of it, and less than evening out noise in the function around it."""

    def with_leaves(w, rank, region, ticks, thread=0):
        begin = w.now[rank][thread]
        end, one = begin + w.noisy(ticks), w.at(rank, thread).enter(begin, region)
        for i in range(8):
            at = begin + (end - begin) * (2 * i + 1) // 16
            one.enter(at, f"kernel_{i % 2}").leave(at + (end - begin) // 24)
        one.leave(end)
        w.now[rank][thread] = end

    monkeypatch.setattr(World, "work", with_leaves)
    found = [kinds.try_program("slow_half_of_threads", seed) for seed in range(2)]
    assert [one.kind for one in found] == ["imbalance"] * 2
    assert all(one.is_right and abs(one.gain - 1) < 0.1 for one in found)


def test_turns__in_a_function_with_two_callers_are_one_cause(monkeypatch):
    work = World.work

    def by_two_callers(w, rank, region, ticks, thread=0):
        n = calls[rank, region] = calls.get((rank, region), -1) + 1
        with w.inside(f"half_{n % 2}", [rank]):
            work(w, rank, region, ticks, thread)

    monkeypatch.setattr(World, "work", by_two_callers)
    calls = {}
    w, _ = MIXED["panel_in_turn"](Random(0), 1)
    first, *others = cube_of(w.finish()).diagnosis().findings
    assert (first.kind, first.cause_region) == ("turns", "factor_panel") and "(on 2 call paths)" in first.what
    assert not any(f.kind == "turns" for f in others)


@pytest.mark.parametrize("callers", [["sweep"], ["sweep_forth", "sweep_back"]])
def test_computation__is_named_by_the_deepest_function_that_has_it_all(callers):
    """Its parts gain a third each, and the functions around it as much as it does; of two callers each gains half."""
    w = World(Random(0), 2, 3, noise=0)

    def relax(caller, r, i):
        one = w.at(r, i).enter(w.now[r][i], caller).enter(w.now[r][i], "relax_rows")
        for part in ("load", "multiply", "store"):
            w.work(r, part, 2000 if (r, i) == (1, 2) else 1000, i)
        one.leave(w.now[r][i]).leave(w.now[r][i])

    for k in range(10):
        with w.inside("solve"):
            for r in range(2):
                with w.in_team(r, 12):
                    for i in range(3):
                        relax(callers[k % len(callers)], r, i)
        w.allreduce()
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert (first.kind, first.cause_region, first.rank, first.thread) == ("computation", "relax_rows", 1, 2)
    assert first.gain * 10**6 == pytest.approx(10 * 3000, rel=0.01)


@pytest.mark.parametrize(
    ("parts", "long", "second", "each"),
    [
        (["subtree"], 4000, 300, "4 ms"),
        (["subtree"], 700, 300, "700 us"),
        # a quarter of the tasks takes more than twice the median
        (["subtree"], 4000, 700, "4 ms"),
        (["load", "multiply", "store"], 4000, 300, "4 ms"),
    ],
)
def test_long_tasks__are_counted_and_named_with_all_that_they_call(parts, long, second, each):
    """The functions of a task are one task."""
    w = World(Random(0), 1, 3, noise=0)
    for k in range(10):
        with w.inside("build_tree"), w.in_team(0, 18):
            for i in range(3):
                for number in range(4):
                    t, task, one = w.now[0][i], (i, 4 * k + number + 1), w.at(0, i)
                    one.enter(t, "!$omp create task @tree.c:20").create_task(t, task).leave(t + 1)
                    one.switch_task(t + 1, task).enter(t + 1, "visit")
                    w.now[0][i] = t + 1
                    usual = second if number == 1 else 300
                    for part in parts:
                        w.work(0, part, (long if (i, number) == (k % 3, 0) else usual) / len(parts), i)
                    one.leave(w.now[0][i]).complete_task(w.now[0][i], task)
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert first.kind == "grain" and first.what.startswith(f"10 of 120 tasks take {each} each in ")
    assert first.cause_region == ("visit" if len(parts) > 1 else "subtree")
    assert first.gain * 10**6 == pytest.approx(10 * (long - (30 * second + 80 * 300) / 110), rel=0.01)


def test_tiny_messages__are_one_cause_where_one_function_sends_and_another_receives():
    """Each side waits for the other: improving one of the functions alone gains little."""
    run = Run(2)
    for _ in range(4):
        for r in run.ranks:
            run.compute(r, "move", 500)
        t = max(run.now)
        sender, receiver = run.at(0).enter(t, "send_cells"), run.at(1).enter(t, "receive_cells")
        for k in range(50):
            now = t + 20 * k
            sender.enter(now, "MPI_Send").send(now, to=1).leave(now + 20)
            receiver.enter(now, "MPI_Recv").receive(now + 20, source=0).leave(now + 20)
        sender.leave(t + 1000)
        receiver.leave(t + 1000)
        run.now = [t + 1000] * 2
    first, *others = run.diagnosis().findings
    assert first.kind == "messages" and first.cause_region in ("send_cells", "receive_cells")
    assert "200 messages of 8 bytes" in first.what and "send_cells" in first.what and "receive_cells" in first.what
    # the time that both functions take
    assert first.gain == pytest.approx(4 * 1000, rel=0.02)
    assert all(f.kind != "messages" for f in others)


@pytest.mark.parametrize("polls", [("MPI_Test",), ("MPI_Iprobe", "MPI_Test")])
def test_polling__is_waiting_for_the_last_to_start(polls):
    op = COLLECTIVE_OPS.index("barrier")
    run = Run(3)
    for _ in range(6):
        for r in run.ranks:
            run.compute(r, "prepare", 5000 if r == 1 else 1000)
        started = max(run.now)
        for r in run.ranks:
            t = run.now[r]
            one = run.at(r).enter(t, "wait_for_all").enter(t, "MPI_Ibarrier")
            one.record(t + 1, K.NON_BLOCKING_COLLECTIVE_REQUEST, collectives={"request": 1}).leave(t + 2)
            t += 10
            while t < started:
                for name in polls:
                    one.enter(t, name).leave(t + 2)
                    t += 5
                t += 90
            one.enter(t, "MPI_Test")
            side = {"op": op, "communicator": 0, "root": -1, "sent": 0, "received": 0, "request": 1}
            one.record(t + 3, K.NON_BLOCKING_COLLECTIVE_COMPLETE, collectives=side).leave(t + 4).leave(t + 5)
            run.now[r] = t + 5
    first = run.diagnosis().findings[0]
    assert (first.kind, first.rank, first.cause_region) == ("computation", 1, "prepare")
    assert first.gain == pytest.approx(6 * 4000, rel=0.1)


def test_lock__names_where_it_is_held():
    program = Program(threads=3)
    main = program.masters[0].enter(0, "main").fork(1)
    free, order = 0, 0
    ends = []
    now = {}
    for i, one in enumerate(program.locations):
        one.begin_team(2 + i).enter(2 + i, "!$omp parallel @a.c:1").enter(3 + i, "update")
        now[i] = 3 + i
    for _ in range(10):
        for i, one in enumerate(program.locations):
            one.enter(now[i], "!$omp critical @a.c:2")
            free = max(free, now[i] + 1)
            order += 1
            one.acquire(free, 1, order).enter(free, "!$omp critical sblock @a.c:2").enter(free, "add")
            one.leave(free + 100).leave(free + 100).release(free + 101, 1, order).leave(free + 101)
            free += 102
            now[i] = free
    for i, one in enumerate(program.locations):
        one.leave(now[i]).enter(now[i], "!$omp implicit barrier @a.c:3")
        ends.append(now[i])
    for one in program.locations:
        one.leave(max(ends) + 2).leave(max(ends) + 3).end_team(max(ends) + 3)
    main.join(max(ends) + 4).leave(max(ends) + 5)
    first = cube_of(program).diagnosis().findings[0]
    assert first.kind == "lock" and first.cause_region == "add"
    assert first.what.startswith("threads wait for each other at the lock in add")
    assert first.rank is None and "lock" in first.advice.lower()


@pytest.mark.parametrize(
    ("excess", "trend"),
    [
        ([0, 0, 0, 50, 0, 0, 0, 0], "once"),
        ([0, 0, 5, 0, 0, 5, 0, 0, 5], "every"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], "growing"),
        ([0, 0, 0, 0, 5, 6, 5, 6, 5], "since"),
        ([5, 6, 5, 6, 0, 0, 0, 0, 0], "until"),
        ([0, 0, 5, 6, 5, 1, 0, 0, 0], "while"),
        ([0, 0, 5, 1, 5, 5, 0, 0, 0], "steady"),
        ([8, 7, 6, 5, 4, 3, 2, 1, 0], "shrinking"),
        ([5, 5, 5, 5, 5, 5], "steady"),
        ([-1, -2, -1, -1], "steady"),
        ([9, 0], "steady"),
    ],
)
def test_trend__over_the_run(excess, trend):
    assert trend_of(np.array(excess, float), np.arange(len(excess), dtype=float))["trend"] == trend


@pytest.mark.parametrize(
    ("region", "name"),
    [
        ("do_work", "do_work"),
        ("int main(int, char**)", "main"),
        ("void ExchangeHalo(const SparseMatrix&, Vector&)", "ExchangeHalo"),
        ("!$omp for @a.c:12", "!$omp for @a.c:12"),
        ("x" * 60, "x" * 20 + "..." + "x" * 17),
        # as they are called in object files
        ("_Z5sleepd", "sleep"),
        ("_ZN4pool3runEv", "pool::run"),
        ("_ZN4poolC2Ei", "pool::pool"),
        ("_ZN4poolD1Ev", "pool::~pool"),
        ("_ZNSt6threadC1Ev", "std::thread::thread"),
        ("_ZNK3foo3barEv", "foo::bar"),
        ("_ZL4helpi", "help"),
        ("_Zabc", "_Zabc"),
        ("_ZN99foo", "foo"),
    ],
)
def test_short__leaves_types_out(region, name):
    assert wording.short(region) == name


def test_regions__that_take_far_too_long_are_stalled():
    small = {"n_regions": 100, "n_threads": 4, "work_each": 1e-5, "lost_each": 1e-4}
    subject = wording.Subject("solve", "", "!$omp parallel @a.c:1")
    facts = {"kind": "regions", "evidence": small}
    assert wording.what(facts, subject) == "100 parallel regions in solve with 10 us of work per thread each"
    stalled = {"kind": "regions", "evidence": small | {"lost_each": 1e-2}}
    assert wording.what(stalled, subject) == "threads are stalled in 100 parallel regions in solve: each loses 10 ms"
    assert "cores" in wording.advice(stalled, subject)
    large = {"kind": "regions", "evidence": small | {"work_each": 1e-2, "lost_each": 1e-2}}
    assert "beyond their work" in wording.what(large, subject)


def test_measurement__of_short_functions_is_named():
    run = Run(2)
    run.program.__class__, run.program.resolution = Timed, 10**9
    for _ in range(5):
        for r in run.ranks:
            t = run.now[r]
            one = run.at(r).enter(t, "interpolate")
            for k in range(400):
                # 200 ns in the function, 100 ns around
                one.enter(t + 300 * k + 50, "weight").leave(t + 300 * k + 250)
            run.now[r] = t + 120_000
            one.leave(run.now[r])
            run.compute(r, "solve", 40_000)
        run.collective("MPI_Allreduce", "allreduce")
    (first, *_) = run.diagnosis().findings
    assert (first.kind, first.cause_region, first.rank) == ("measurement", "weight", None)
    assert first.what == "4,000 calls of weight of 200 ns each: recording them takes a part of the time"
    # one event counts inside each call and one in its caller: half of the function, and all of the time around
    assert first.gain == pytest.approx(5 * 400 * 200e-9, rel=0.05)


def test_measurement__is_nothing_for_functions_that_take_longer():
    run = Run(2)
    for _ in range(1500):
        for r in run.ranks:
            run.compute(r, "weight", 10)
    run.collective("MPI_Allreduce", "allreduce")
    run.program.__class__ = Timed
    assert [f for f in run.diagnosis().findings if f.kind == "measurement"] == []


@pytest.mark.parametrize("kind", ["fence_imbalance", "window_lock", "wrong_order", *slow(sorted(kinds.KINDS))])
def test_first_finding__is_the_bottleneck_of_a_generated_program(kind):
    outcome = kinds.try_program(kind, 0)
    assert outcome.is_right, outcome.said


@pytest.mark.parametrize(
    "kind",
    ["late_for_file", "ordered", "slow_node", "computing_in_numbered_steps", "long_last_chunk", "tree_by_hand", "stalls_of_one_process", "too_few_tasks", "compensating", "order_of_tags", "late_for_neighbourhood", "slow_half_of_teams", "long_tasks_now_and_then", "late_for_progress", "late_for_progress_of_all", "late_to_pass_on", "slow_worker_for_a_while", "slow_thread_of_chunks", "slow_thread_of_queue", "slabs_in_turn", "fewer_chunks_than_threads", "fewer_chunks_for_a_while", "larger_parts", "larger_part", "locked_parts", "ramp_for_a_while", "large_chunks_of_two_kinds",
     *slow(["threads_again_and_again", "one_of_numbered_functions", "collectives_in_numbered_steps", "numbered_steps", "late_for_probe", "single", "two_slow_ranks", "coupled_models", "late_post", *sorted(BOTTLENECKS | RARE | MIXED | UNCOMMON)])],
)  # fmt: skip
def test_first_finding__is_the_bottleneck_and_gains_what_the_program_gains_without_it(kind):
    outcome = kinds.try_program(kind, 0)
    assert outcome.is_right, outcome.said
    assert outcome.gain == pytest.approx(1, abs=1 / 3), outcome.said


@pytest.mark.parametrize(("mode", "seed"), [("always", 0), *slow(product(FAULTS, range(4)))])
def test_first_finding__is_the_delay_of_a_random_program(mode, seed):
    outcome = kinds.try_program(mode, seed)
    assert outcome.is_right, outcome.said
    assert outcome.gain == pytest.approx(1, abs=1 / 3), outcome.said


@pytest.mark.slow
def test_order__is_moved_only_where_that_changes_something():
    """If messages are received in the order of sending, the same program has another finding."""
    assert kinds.try_program("late_receiver", 1).kind == "computation"
    first = kinds.try_program("wrong_order", 0)
    assert first.kind == "order" and first.gain == pytest.approx(1, rel=1 / 3)
    assert "rank 0 receives messages in collect in another order" in first.said


def test_barriers__come_before_the_work_that_evens_out_without_them():
    """They gain as much, and what would have to be distributed anew each time stays as it is."""
    outcome = kinds.try_program("needless_barrier", 0)
    assert outcome.kind == "barrier" and "at barriers in wait_for_all (72 calls)" in outcome.said
    assert outcome.gain == pytest.approx(1, abs=0.05)


def test_calls_of_mpi__in_a_critical_section__are_due_to_its_lock():
    """Without the section all threads send at the same time. It takes 401 us, of which 400 in MPI_Send."""
    outcome = kinds.try_program("calls_in_turn", 0)
    assert outcome.kind == "lock" and "send_results (!$omp critical @solver.c:44), 401 us each time" in outcome.said
    assert outcome.gain == pytest.approx(1, abs=0.05)


def test_messages__that_take_far_longer_than_any_network_are_stalled():
    slow_ones = {"n_messages": 100, "mean_bytes": 3e3, "bytes": 3e5, "transfer": 1e-3, "visits": 100}
    one = wording.Subject("exchange", "", "MPI_Waitall")
    facts = {"kind": "messages", "evidence": slow_ones}
    assert (
        wording.what(facts, one)
        == "100 messages of 3 kB in exchange take 1 ms each beyond waiting: messages are stalled"
    )
    assert "cores" in wording.advice(facts, one)
    facts = {"kind": "messages", "evidence": slow_ones | {"transfer": 2e-5}}
    assert wording.what(facts, one).startswith("the transfer of 100 messages")


def test_calls_that_wait_for_late_senders__are_not_stalled():
    run = Run(6)
    for _ in range(20):
        for r in run.ranks:
            run.compute(r, "multiply", 2000 if r else 10)
        for r in range(1, 6):
            run.send(r, 0, "collect", cost=20)
        run.collective("MPI_Allreduce", "allreduce")
    run.program.__class__ = Timed
    (found,) = (f for f in run.diagnosis().findings if f.kind == "messages")
    assert found.what.startswith("the transfer of 100 messages")


@pytest.mark.parametrize("kind", ["slow_created_thread", *slow(["tasks_of_one", "barrier_of_conditions"])])
def test_first_finding__is_a_small_bottleneck_rather_than_what_no_cause_explains(kind):
    """The main thread waits for the others all the time, and the bottleneck is a tenth to a twentieth of the run."""
    w, truth = (BOTTLENECKS | RARE)[kind](Random(f"{kind} 0"), 0.15)
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert first.cause_region in truth.regions and 0.02 < first.gain_share < 0.2


@pytest.mark.parametrize(
    ("locations", "said"),
    [
        ([0, 2], "thread 0 of every rank"),
        ([0, 1, 3, 4], "threads 0-1 of every rank"),
        ([0, 1, 3], "0, 1 and 3"),
        ([0, 1, 2, 3], "0, 1, 2 and 1 more"),
        ([], ""),
    ],
)
def test_culprits__are_threads_of_every_rank_where_they_are_the_same(locations, said):
    n_threads = 2 if said == "thread 0 of every rank" else 3
    rank, thread = np.repeat(np.arange(2), n_threads), np.tile(np.arange(n_threads), 2)
    assert wording.culprits(locations, False, rank, thread, str) == said


@pytest.mark.parametrize(
    ("facts", "subject", "said"),
    [
        (
            {"kind": "calls", "evidence": {"n_calls": 4000, "call": "MPI_Put"}},
            ("put_cells", ""),
            "4,000 calls of MPI_Put in put_cells take long",
        ),
        # who does nearly all of it has no ratio
        (
            {"kind": "computation", "locations": [0], "evidence": {"mine": 0.0802, "others": 7.01e-7}},
            ("late_sender", "rank 0", "MPI_Recv", "rank"),
            "rank 0 computes late_sender nearly alone: 80.2 ms, the others 701 ns",
        ),
    ],
)
def test_wording__says_what_is_counted(facts, subject, said):
    assert wording.what(facts, wording.Subject(*subject)) == said


def test_calls__of_several_operations_are_not_counted_as_calls_of_one():
    program = Program(2)
    for location in program.masters:
        location.enter(0, "main").enter(0, "exchange")
        location.collective(0, 60, 0, "allreduce", sent=8, received=8)
        location.collective(60, 100, 0, "bcast", 0, sent=8, received=8).leave(100).leave(200)
    [found] = [f for f in cube_of(program).diagnosis(50).findings if f.kind == "collectives"]
    assert found.what == "4 collective calls in exchange, most of all MPI_Allreduce, take long beyond waiting"
    assert (found.evidence["n_calls"], found.evidence["n_called"]) == (4, 2)


def test_calls__that_take_no_time_have_the_name_of_those_that_are_most():
    model = SimpleNamespace(regions=SimpleNamespace(name=["main", "MPI_Cancel", "MPI_Test"]))
    calls = {"calls": np.arange(2, 7), "call_region": np.array([1, 2, 2, 1, 1]), "recorded_losses": np.zeros(8)}
    found = Evidence(SimpleNamespace(**calls, model=model, resolution=1))._called(np.arange(2, 5))
    assert found == {"call": "MPI_Test", "n_called": 2}


@pytest.mark.parametrize("type", ["metric", "gpu"])
def test_places__of_processes_with_one_thread_have_no_thread(type):
    """A location of metrics, or a stream, is no thread."""
    program = Program(3)
    program.define("locations", name="stream", type=type, process=2, thread=1, first_row=0)
    program.locations.append(Location(program, 2, 1))
    for rank, location in enumerate(program.masters[:3]):
        location.enter(0, "main").call(0, 80 if rank == 1 else 20, "work")
        location.collective(80 if rank == 1 else 20, 90, 0, "barrier").leave(100)
    [found] = [f for f in cube_of(program).diagnosis(50).findings if f.kind == "computation"]
    assert found.what.startswith("rank 1 computes") and found.thread is None
    assert [place.location for place in found.paid_by] == ["rank 0", "rank 2"]


@pytest.mark.parametrize(
    ("call", "n_long", "advice"),
    [
        ("MPI_Win_create", 0, "Creating windows"),
        ("MPI_Win_fence", 0, "Use fewer fences"),
        ("MPI_Allreduce", 0, "Join several operations"),
        ("MPI_Allreduce", 21, "Check whether more processes"),
        ("MPI_Barrier", 21, "Check whether more processes"),
        ("MPI_Barrier", 0, "Leave out barriers"),
    ],
)
def test_collectives__have_the_advice_of_their_call(call, n_long, advice):
    evidence = {"call": call, "n_calls": 80, "n_long": n_long, "in_long": 0.99 if n_long else 0.0}
    one = wording.Subject("solve", "", call, "rank")
    assert wording.advice({"kind": "collectives", "evidence": evidence}, one).startswith(advice)


def test_time_in_calls_that_take_locks__is_explained_by_the_cause_that_it_is():
    kind = "locks_without_contention"
    w, truth = (BOTTLENECKS | MIXED)[kind](Random(f"{kind} 0"), True)
    first, *others = cube_of(w.finish()).diagnosis().findings
    assert first.cause_region in truth.regions and first.property == "pthread_lock_api"
    assert first.share > 0.5 and all(f.share < 0.05 for f in others)


@pytest.mark.parametrize("kind", ["slow_created_thread", *slow(["slow_consumer", "barrier_of_conditions"])])
def test_piece__in_which_threads_are_not_joined_has_their_causes(kind):
    """The main thread is in pthread_join when the piece ends."""
    (w, truth), (without, _) = ((BOTTLENECKS | RARE)[kind](Random(f"{kind} 0"), late) for late in (True, False))
    program = w.finish()
    without.finish()
    start, stop = (part * w.runtime / program.resolution for part in (0.25, 0.8))
    first = cube_of(program, start=start, stop=stop).diagnosis().findings[0]
    assert first.cause_region in truth.regions and (first.rank, first.thread) == (truth.rank, truth.thread)
    lost = 1 - without.runtime / w.runtime
    assert first.gain == pytest.approx(lost * (stop - start), rel=1 / 3)


def test_one_long_piece__is_a_cause_where_another_rank_takes_longest_all_other_times():
    run = Run(4)
    for k in range(6):
        for r, ticks in enumerate((2000, 3000, 5000, 6000)):
            run.compute(r, "relax", ticks + 25000 * (r == 1 and k == 2))
        run.collective("MPI_Allreduce", "allreduce")
    run.program.__class__ = Timed
    first = run.diagnosis().findings[0]
    assert (first.kind, first.rank, first.cause_region) == ("computation", 1, "relax")
    assert first.gain == pytest.approx(0.022, rel=0.2)


@pytest.mark.parametrize("is_uneven", [False, True])
def test_gain__of_pieces_of_unequal_number_is_that_before_each_call(is_uneven):
    """All computation of a program in which only MPI is recorded is in one function."""
    run = Run(4)
    run.compute(0, "advance", 1)
    run.send(0, 3, "report")
    for _ in range(30):
        for more, name, op in ((4000, "MPI_Allreduce", "allreduce"), (10, "MPI_Barrier", "barrier")):
            for r in run.ranks:
                run.compute(r, "advance", more + (200 * r if is_uneven else 500 * (r == 1)))
            run.collective(name, op)
    run.program.__class__ = Timed
    first = run.diagnosis().findings[0]
    assert (first.kind, first.cause_region) == ("imbalance" if is_uneven else "computation", "advance")
    assert first.gain == pytest.approx(60 * (300 if is_uneven else 500) * 1e-6, rel=0.1)


def test_nests__of_which_only_one_step_has_calls_are_executed_by_all_that_execute_other_steps():
    run = Run(4)
    for k in range(4):
        # in one step a single rank works, and calls a function
        for r in (2,) if k == 1 else run.ranks:
            one = run.at(r).enter(run.now[r], f"step {k}").enter(run.now[r], "assemble")
            run.now[r] += 900
            if k == 1:
                run.compute(r, "integrate", 600)
            one.leave(run.now[r]).leave(run.now[r])
        run.collective("MPI_Allreduce", "allreduce")
    first = run.diagnosis().findings[0]
    assert (first.kind, first.rank) == ("computation", 2)


def test_messages__that_take_their_time_where_they_are_started_are_shown_with_these_calls():
    w = World(Random(0), 2, noise=0)
    for _ in range(10):
        w.everyone("push", 1500)
        with w.inside("exchange"):
            for r in range(2):
                for k in range(20):
                    t, one = w.now[r][0], w.at(r)
                    one.enter(t, "MPI_Irecv").post_receive(t, k).leave(t + 3)
                    one.enter(t + 3, "MPI_Isend").start_send(t + 3, 1 - r, request=20 + k).leave(t + 6)
                    w.now[r][0] = t + 6
            for r in range(2):
                t = w.now[r][0]
                one = w.at(r).enter(t, "MPI_Waitall")
                for k in range(20):
                    one.complete_receive(t + 1, 1 - r, request=k).complete_send(t + 1, 20 + k)
                one.leave(t + 1)
                w.now[r][0] = t + 1
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert first.kind == "messages" and "820 calls, 3 us in the median" in first.shows


def test_tasks__that_one_thread_creates_slowly_are_not_computation():
    """Without their creation, or with half of it, the run takes as long as the tasks."""
    w = World(Random(0), 1, 2, noise=0)
    for k in range(10):
        with w.inside("build_tree"), w.in_team(0, 20):
            for i in range(20):
                t, task = w.now[0][0], (0, 20 * k + i + 1)
                w.at(0).enter(t, "!$omp create task @tree.c:21").create_task(t, task).leave(t + 100)
                w.now[0] = [t + 100, max(w.now[0][1], t)]
                w.at(0, 1).switch_task(w.now[0][1], task)
                w.work(0, "leaf", 90, 1)
                w.at(0, 1).complete_task(w.now[0][1], task)
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert (first.kind, first.cause_region) == ("tasks", "build_tree")


@pytest.mark.parametrize(
    ("ranks", "n", "who", "rank"),
    [([1], 3, "rank 1 thread 0 executes", 1), ([0, 2], 4, "rank 0 thread 0 and rank 2 thread 0 execute", None)],
)
def test_work_of_few_of_several_masters__keeps_the_other_processes_waiting(ranks, n, who, rank):
    """Sharing it among the threads of its processes would gain half of what removing it does."""
    w = World(Random(0), n, 2, noise=0)
    for _ in range(10):
        for r in range(n):
            w.divided(r, 10, "advance", [1000, 1000])
        for r in ranks:
            w.work(r, "write_output", 500)
        w.barrier()
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert (first.kind, first.rank, first.cause_region) == ("computation", rank, "write_output")
    assert first.what.startswith(f"only {who} write_output, and others wait for ")
    assert first.gain * 10**6 == pytest.approx(10 * 500, rel=0.01)


@pytest.mark.parametrize(("extra", "first"), [(500, "react"), (150, "limit")])
def test_change__that_is_larger_than_noise_comes_before_smaller_bottlenecks(extra, first):
    """Another rank takes longer in react each time, and rank 0 in limit, which gains two thirds of that."""
    w = World(Random(0), 6, noise=0)
    for k in range(36):
        for r in range(6):
            w.work(r, "react", 500 + extra * (k % 6 == r))
        w.allreduce()
        w.everyone("limit", 1000, 0, extra * 5 / 6 * 2 / 3)
        w.allreduce()
    assert cube_of(w.finish()).diagnosis().findings[0].cause_region == first


def test_change__is_found_where_some_locations_have_begun_one_more_piece():
    """As at the ends of a trace slice. Neighbours wait for each other, never all ranks for each other."""

    def findings(more):
        w = World(Random(0), 4, noise=0)
        for k in range(80):
            for r in range(4):
                w.work(r, "relax", 500 + 400 * (k % 4 == r))
            for r in range(4):
                w.message(r, (r + 1) % 4)
                w.message((r + 1) % 4, r)
        for r in range(more):
            w.work(r, "relax", 100)
        return cube_of(w.finish()).diagnosis().findings

    expected, found = findings(0)[0], findings(1)[0]
    assert (found.kind, found.cause_region) == (expected.kind, expected.cause_region) == ("changing", "relax")
    assert found.gain == pytest.approx(expected.gain, rel=0.02)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_work_after_the_last_meeting__of_a_thread_that_never_meets__is_not_compared():
    """The rounds until they meet contain none of it, and were divided by zero."""
    program = Program(threads=3)
    main = program.masters[0].enter(0, "main").fork(1)
    for i, one in enumerate(program.locations):
        one.begin_team(2).enter(2, "!$omp parallel @a.c:1")
        for t in (20, 40) if i < 2 else ():
            one.collective(t + i, t + 5, program.team(0), "barrier", region="!$omp barrier @a.c:2")
        for k in range(3 + i):
            one.call(50 + 10 * k, 58 + 10 * k, "update")
        one.leave(110).end_team(111)
    main.join(112).leave(120)
    assert all(f.kind != "changing" for f in cube_of(program).diagnosis().findings)
