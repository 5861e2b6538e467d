"""More kinds of programs with one bottleneck (`benchmarks.kinds`): each can also be made without it, so that the gain
is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from benchmarks.world import ANY, PTHREADS, Built, Truth, World, processes
from tracecols.schema import EventKind as K

Made = tuple[World, Truth]

Make = Callable[[random.Random, bool], Made]
"""Maker of a program, with its bottleneck or without it."""


def built(make: Make, seed: str) -> Built:
    """Make a program, and determine how much shorter it would be without its bottleneck."""
    (w, truth), (without, _) = (make(random.Random(seed), late) for late in (True, False))
    program = w.finish()
    without.finish()
    return program, Truth(truth.regions, truth.rank, truth.thread, w.runtime - without.runtime)


def _late(region: str, usual: int, more: int, communicate: Callable[[World], None], least: int = 3) -> Make:
    """Return the maker of a program in which one process computes longer before processes communicate."""

    def make(rng: random.Random, late: bool) -> Made:
        w = World(rng, processes(rng, least))
        slow = rng.randrange(w.ranks)
        for _ in range(rng.choice([15, 40])):
            w.everyone(region, usual, slow, more * late)
            communicate(w)
        return w, Truth((region,), slow)

    return make


def _inside(region: str, communicate: Callable[[World], None]) -> Callable[[World], None]:
    """Return the communication, wrapped in a function of the program."""

    def call(w: World) -> None:
        with w.inside(region):
            communicate(w)

    return call


def _ring(w: World) -> None:
    """All send to the next rank, and then receive."""
    sent = {}
    for r in range(w.ranks):
        t = sent[r] = w.now[r][0]
        w.at(r).enter(t, "MPI_Send").send(t, (r + 1) % w.ranks, length=800).leave(t + 6)
        w.now[r][0] = t + 6
    for r in range(w.ranks):
        t, source = w.now[r][0], (r - 1) % w.ranks
        w.now[r][0] = max(t, sent[source]) + 6
        w.at(r).enter(t, "MPI_Recv").receive(w.now[r][0], source, length=800).leave(w.now[r][0])


def _sendrecv(w: World) -> None:
    """All send to the next rank and receive in one call."""
    sent = {r: w.now[r][0] for r in range(w.ranks)}
    for r in range(w.ranks):
        source, t = (r - 1) % w.ranks, sent[r]
        end = w.now[r][0] = max(t, sent[source]) + 12
        one = w.at(r).enter(t, "MPI_Sendrecv").send(t, (r + 1) % w.ranks, length=4000)
        one.receive(end, source, length=4000).leave(end)


def _ibarrier(w: World) -> None:
    """All test until the last one has arrived."""
    last = max(now[0] for now in w.now)
    for r in range(w.ranks):
        t = w.now[r][0]
        one = w.at(r).enter(t, "MPI_Ibarrier").start_collective(t + 1, 1).leave(t + 2)
        t += 4
        while t < last:
            one.enter(t, "MPI_Test").leave(t + 2)
            t += 40
        one.enter(t, "MPI_Test").complete_collective(t + 2, "barrier", 1).leave(t + 3)
        w.now[r][0] = t + 5


def _ialltoall(w: World) -> None:
    """All start an operation, compute, and wait for it."""
    last = max(now[0] for now in w.now)
    for r in range(w.ranks):
        t = w.now[r][0]
        w.at(r).enter(t, "MPI_Ialltoall").start_collective(t + 1, 1).leave(t + 2)
        w.now[r][0] = t + 2
        w.work(r, "meanwhile", 100)
        t = w.now[r][0]
        end = w.now[r][0] = max(t, last) + 10
        one = w.at(r).enter(t, "MPI_Wait").complete_collective(end, "alltoall", 1, sent=64, received=64)
        one.leave(end)


def _reduce_and_spread(w: World) -> None:
    w.to_root("MPI_Reduce", "reduce")
    w.from_root("MPI_Bcast", "bcast")


def _waitany(w: World) -> None:
    """Rank 0 receives from all in the order in which they send."""
    sent = {}
    for r in range(1, w.ranks):
        t = sent[r] = w.now[r][0]
        w.at(r).enter(t, "MPI_Send").send(t, 0, length=64).leave(t + 5)
        w.now[r][0] = t + 5
    t = w.now[0][0]
    one = w.at(0).enter(t, "collect")
    for r in sent:
        one.enter(t, "MPI_Irecv").post_receive(t, r).leave(t + 1)
        t += 2
    for r in sorted(sent, key=sent.__getitem__):
        end = max(t, sent[r]) + 4
        one.enter(t, "MPI_Waitany").complete_receive(end, r, request=r, length=64).leave(end)
        t = end + 1
    one.leave(t)
    w.now[0][0] = t
    w.from_root("MPI_Bcast", "bcast")


def _probe(w: World) -> None:
    """Rank 0 probes for a message of each other rank before it receives it."""
    for r in range(1, w.ranks):
        t, u = w.now[r][0], w.now[0][0]
        w.at(r).enter(t, "MPI_Send").send(t, 0, length=64).leave(t + 5)
        end = max(t, u) + 4
        one = w.at(0).enter(u, "gather_parts").enter(u, "MPI_Probe").leave(end)
        one.enter(end + 1, "MPI_Recv").receive(end + 5, r, length=64).leave(end + 5).leave(end + 5)
        w.now[r][0], w.now[0][0] = t + 5, end + 5
    w.from_root("MPI_Bcast", "bcast")


def _file(w: World) -> None:
    """All write to a file together."""
    if not w.program.definitions["io_handles"]["id"]:
        w.program.define("io_handles", name="field.out", communicator=0)
    side = {"handle": 0, "mode": 1, "operation_flags": 2, "requested": 4096, "matching": 1}
    for r in range(w.ranks):
        t = w.now[r][0]
        w.at(r).enter(t, "MPI_File_write_all").record(t + 1, K.IO_OPERATION_BEGIN, io=side)
    w.meet(300, lambda r, t: w.at(r).record(t - 1, K.IO_OPERATION_COMPLETE, io={**side, "result": 4096}).leave(t))


def _alltoall(w: World) -> None:
    w.collective("MPI_Alltoall", "alltoall", 4096, 60)


def _scan(w: World) -> None:
    """All wait for the ranks before them."""
    last = 0
    for r in range(w.ranks):
        t = w.now[r][0]
        last = max(last, t)
        end = w.now[r][0] = last + 8
        one = w.at(r).enter(t, "MPI_Scan").begin_collective(t)
        one.end_collective(end, "scan", sent=8, received=8).leave(end)


LATE: dict[str, Make] = {
    "late_in_ring": _late("compute_flux", 1000, 1500, _inside("exchange_flux", _ring)),
    "late_for_sendrecv": _late("relax_strip", 1200, 900, _inside("shift", _sendrecv)),
    "late_for_neighbours": _late("stencil", 1000, 800, _inside("exchange", World.halo), 5),
    "late_for_polling": _late("prepare_step", 1000, 1500, _inside("poll_until_done", _ibarrier)),
    "late_for_ialltoall": _late("make_coefficients", 800, 1000, _ialltoall),
    "late_for_reduce": _late("residual", 800, 1200, _inside("norm", _reduce_and_spread)),
    "late_for_alltoall": _late("fft_lines", 1500, 1000, _inside("transpose", _alltoall)),
    "late_for_file": _late("convert_output", 1000, 2000, _inside("write_field", _file)),
}
"""Programs in which one process is late for the communication that follows."""


def late_for_waitany(rng: random.Random, late: bool) -> Made:
    """A worker is late, and the master receives from any worker, the first message first."""
    return _late_worker(rng, late, "search", _waitany)


def late_for_probe(rng: random.Random, late: bool) -> Made:
    """A worker is late, and the master waits for its message with MPI_Probe."""
    return _late_worker(rng, late, "local_part", _probe)


def _late_worker(rng: random.Random, late: bool, region: str, communicate: Callable[[World], None]) -> Made:
    w = World(rng, processes(rng, 3))
    slow = rng.randrange(1, w.ranks)
    for _ in range(30):
        w.everyone(region, 700, slow, 1200 * late)
        communicate(w)
    return w, Truth((region,), slow)


def late_for_scan(rng: random.Random, late: bool) -> Made:
    """Rank 0 is late for a scan, for which all others wait."""
    w = World(rng, processes(rng, 3))
    for _ in range(30):
        w.everyone("count_particles", 800, 0, 900 * late)
        _inside("number_particles", _scan)(w)
        w.everyone("move_particles", 600)
    return w, Truth(("count_particles",), 0)


def late_for_iprobe(rng: random.Random, late: bool) -> Made:
    """A server polls with MPI_Iprobe for a request, which takes the client long to prepare."""
    w = World(rng, 2)
    slow = rng.randrange(2)
    server = 1 - slow
    for _ in range(40):
        w.work(server, "serve", 500)
        w.work(slow, "build_request", 500 + 1500 * late)
        t, u = w.now[slow][0], w.now[server][0]
        w.at(slow).enter(t, "MPI_Send").send(t, server, length=64).leave(t + 5)
        w.now[slow][0] = t + 5
        one = w.at(server).enter(u, "wait_for_request")
        while u < t:
            one.enter(u, "MPI_Iprobe").leave(u + 2)
            u += 25
        one.enter(u, "MPI_Iprobe").leave(u + 2).enter(u + 3, "MPI_Recv").receive(u + 8, slow, length=64)
        one.leave(u + 8).leave(u + 9)
        w.now[server][0] = u + 9
        w.message(server, slow, 64, tag=1)
    return w, Truth(("build_request",), slow)


def master_collects(rng: random.Random, late: bool) -> Made:
    """Workers send results synchronously; the master needs long for each."""
    w = World(rng, processes(rng, 4))
    for _ in range(30):
        for r in range(1, w.ranks):
            w.work(r, "evaluate", 1500)
        with w.inside("collect_results"):
            for r in range(1, w.ranks):
                w.message(r, 0, 1 << 18, cost=20, ready=True)
                w.work(0, "merge_result", 200 + 1000 * late)
    return w, Truth(("merge_result", "collect_results"), 0)


def master_prepares(rng: random.Random, late: bool) -> Made:
    """Workers wait for work that the master prepares piece by piece."""
    w = World(rng, processes(rng, 4))
    for _ in range(40):
        for r in range(1, w.ranks):
            w.work(0, "prepare_item", 50 + 600 * late)
            w.message(0, r, 256)
        for r in range(1, w.ranks):
            w.work(r, "process_item", 900)
    return w, Truth(("prepare_item",), 0)


def two_slow_ranks(rng: random.Random, late: bool) -> Made:
    """Two processes have more to do."""
    w = World(rng, processes(rng, 5))
    slow = rng.sample(range(w.ranks), 2)
    for _ in range(40):
        for r in range(w.ranks):
            w.work(r, "assemble_rows", 1000 + 1500 * late * (r in slow))
            w.work(r, "smooth_rows", 800)
        w.allreduce()
    return w, Truth(("assemble_rows",))


def slow_node(rng: random.Random, late: bool) -> Made:
    """One process is slower in everything."""
    w = World(rng, processes(rng, 4))
    slow = rng.randrange(w.ranks)
    parts = {"density": 600, "momentum": 700, "energy": 500, "forces": 650}
    for _ in range(40):
        for k, (region, ticks) in enumerate(parts.items()):
            for r in range(w.ranks):
                w.work(r, region, ticks * (1 + 0.5 * late * (r == slow)))
            if k == 1:
                _inside("exchange", World.halo)(w)
        w.allreduce()
    return w, Truth(tuple(parts), slow)


def communication_inside(rng: random.Random, late: bool) -> Made:
    """The function that takes longer on one process communicates before and after its work."""
    w = World(rng, processes(rng, 3))
    slow = rng.randrange(w.ranks)
    for _ in range(40):
        with w.inside("solve_and_exchange"):
            w.halo()
            for r in range(w.ranks):
                w.now[r][0] += w.noisy(1000 + 1200 * late * (r == slow))
            w.allreduce()
    return w, Truth(("solve_and_exchange",), slow)


def recursion(rng: random.Random, late: bool) -> Made:
    """A function calls itself more often on one process."""
    w = World(rng, processes(rng, 3))
    slow = rng.randrange(w.ranks)

    def down(r: int, depth: int) -> None:
        w.at(r).enter(w.now[r][0], "refine")
        w.now[r][0] += w.noisy(200)
        if depth:
            down(r, depth - 1)
        w.now[r][0] += w.noisy(100)
        w.at(r).leave(w.now[r][0])

    for _ in range(20):
        for r in range(w.ranks):
            down(r, 3 + 6 * late * (r == slow))
            w.work(r, "project", 500)
        w.allreduce()
    return w, Truth(("refine",), slow)


def rows_and_columns(rng: random.Random, late: bool) -> Made:
    """One of six processes is late for the reduction over its row."""
    w = World(rng, 6)
    groups = [range(3), range(3, 6)], [range(i, 6, 3) for i in range(3)]
    numbers = [[w.program.communicator(f"{of[0]}", of) for of in some] for some in groups]
    slow = rng.randrange(6)
    for _ in range(40):
        for region, some, of in zip(("panel", "update"), groups, numbers, strict=True):
            for r in range(6):
                w.work(r, region, 900 + 1300 * late * (r == slow and region == "panel"))
            with w.inside(f"sum_{region}"):
                for ranks, number in zip(some, of, strict=True):
                    w.among(ranks, number, "MPI_Allreduce", "allreduce")
    return w, Truth(("panel",), slow)


def since_the_middle(rng: random.Random, late: bool) -> Made:
    """From the middle of the run on, one process is slow."""
    w = World(rng, processes(rng, 3))
    slow = rng.randrange(w.ranks)
    for k in range(40):
        for r in range(w.ranks):
            w.work(r, "collide", 1000 + 1500 * late * (r == slow and k >= 20))
            w.work(r, "stream", 500)
        w.allreduce()
    return w, Truth(("collide",), slow)


def gather_and_write(rng: random.Random, late: bool) -> Made:
    """Rank 0 receives the fields of all and writes them alone."""
    w = World(rng, processes(rng, 3))
    for _ in range(10):
        w.everyone("advance", 3000)
        with w.inside("save_fields"):
            for r in range(1, w.ranks):
                w.message(r, 0, 1 << 16, cost=20, ready=True)
                w.work(0, "fwrite", 20 + 1000 * late)
        w.barrier()
    return w, Truth(("fwrite", "save_fields"), 0)


def slow_file(rng: random.Random, late: bool) -> Made:
    """Writing takes much longer on one process."""
    w = World(rng, processes(rng, 3), noise=0.03)
    slow = rng.randrange(w.ranks)
    for _ in range(15):
        w.everyone("advance", 1500)
        with w.inside("write_restart"):
            for r in range(w.ranks):
                w.call(r, "MPI_File_write_at", 100 + 2500 * late * (r == slow))
        w.barrier()
    return w, Truth(("write_restart",), slow)


def large_messages(rng: random.Random, late: bool) -> Made:
    """Neighbours exchange far more than they need."""
    w = World(rng, processes(rng, 3), noise=0.03)
    for _ in range(25):
        w.everyone("stencil", 1000)
        with w.inside("exchange_everything"):
            w.halo(1 << 23 if late else 8000, 2500 if late else 8)
    return w, Truth(("exchange_everything",))


def barriers(rng: random.Random, late: bool) -> Made:
    """A barrier after every small step; the work is even."""
    w = World(rng, processes(rng, 4), noise=0.02)
    for k in range(400):
        w.everyone("small_step", 60)
        if late:
            with w.inside("sync_all"):
                w.collective("MPI_Barrier", "barrier", 0, 40)
        if k % 20 == 19:
            w.allreduce()
    return w, Truth(("sync_all",))


def window_lock_holder(rng: random.Random, late: bool) -> Made:
    """One process keeps a window locked while it computes."""
    w = World(rng, processes(rng, 3))
    lock = {"window": w.program.define("windows", name="table", communicator=0, flags=0), "remote": 0, "lock": 0}
    slow, free = rng.randrange(w.ranks), 0
    for _ in range(25):
        for r in sorted(range(w.ranks), key=lambda r: w.now[r][0]):
            w.work(r, "local_count", 1200)
            t = w.now[r][0]
            begin = w.now[r][0] = max(free, t) + 3
            one = w.at(r).enter(t, "update_counter").enter(t, "MPI_Win_lock")
            one.record(t, K.RMA_REQUEST_LOCK, rma={**lock, "lock_type": 0}).leave(begin)
            w.work(r, "modify", 60 + (2500 * late if r == slow else 0))
            t = w.now[r][0]
            free = w.now[r][0] = t + 4
            one.enter(t, "MPI_Win_unlock").record(t + 3, K.RMA_RELEASE_LOCK, rma=lock).leave(free).leave(free)
        w.barrier()
    return w, Truth(("modify", "update_counter"), slow)


# -- OpenMP


def late_for_omp_barrier(rng: random.Random, late: bool) -> Made:
    """One thread is late for an explicit barrier."""
    w = World(rng, 1, 4)
    slow = rng.randrange(4)
    for _ in range(25):
        with w.inside("two_stages"), w.in_team(0, 20):
            for i in range(4):
                w.work(0, "stage_one", 900 + 900 * late * (i == slow), i)
            w.team_barrier(0, "!$omp barrier @solver.c:22")
            for i in range(4):
                w.work(0, "stage_two", 700, i)
    return w, Truth(("stage_one",), 0, slow)


def single(rng: random.Random, late: bool) -> Made:
    """The first thread to arrive does long work in a single construct."""
    w = World(rng, 1, 4)
    for _ in range(25):
        with w.inside("assemble_all"), w.in_team(0, 30):
            who = rng.randrange(4)
            for i in range(4):
                w.work(0, "local_part", 900, i)
                one = w.at(0, i).enter(w.now[0][i], "!$omp single @solver.c:33")
                if i == who:
                    one.enter(w.now[0][i], "!$omp single sblock @solver.c:33")
                    w.work(0, "sum_up", 30 + 1000 * late, i)
                    one.leave(w.now[0][i])
                one.leave(w.now[0][i])
            w.team_barrier(0, "!$omp implicit barrier @solver.c:35")
            for i in range(4):
                w.work(0, "use_sum", 500, i)
    return w, Truth(("sum_up",), ANY)


def ordered(rng: random.Random, late: bool) -> Made:
    """Iterations of a loop wait for each other at an ordered section."""
    w = World(rng, 1, 4)
    for _ in range(15):
        with w.inside("print_lines"), w.in_team(0, 50):
            for i in range(4):
                w.at(0, i).enter(w.now[0][i], "!$omp for @solver.c:51")
            turn = 0
            for k in range(20):
                i = k % 4
                w.work(0, "format_line", 300, i)
                t = w.now[0][i]
                begin = w.now[0][i] = max(t, turn * late) + 1
                one = (
                    w.at(0, i).enter(t, "!$omp ordered @solver.c:53").enter(begin, "!$omp ordered sblock @solver.c:53")
                )
                w.work(0, "append_line", 400, i)
                turn = w.now[0][i]
                one.leave(turn).leave(turn + 1)
                w.now[0][i] = turn + 1
            for i in range(4):
                w.at(0, i).leave(w.now[0][i])
    return w, Truth(("append_line", "print_lines"), ANY)


def lock_holder(rng: random.Random, late: bool) -> Made:
    """One thread stays in a critical section far longer than the others."""
    w = World(rng, 1, 4)
    slow = rng.randrange(4)
    for _ in range(15):
        with w.inside("count_all"), w.in_team(0, 60):
            for _ in range(3):
                for i in range(4):
                    w.work(0, "scan_cells", 500 if i != slow else 480, i)
                for i in sorted(range(4), key=lambda i: w.now[0][i]):
                    w.locked(0, {i: w.now[0][i]}, "log_entry", 30 + 900 * late * (i == slow), 66)
    return w, Truth(("log_entry",), 0, slow)


def sections(rng: random.Random, late: bool) -> Made:
    """One of two sections takes longer."""
    w = World(rng, 1, 4)
    for _ in range(25):
        with w.inside("assemble"), w.in_team(0, 70):
            for i in range(4):
                one = w.at(0, i).enter(w.now[0][i], "!$omp sections @solver.c:71")
                if i < 2:
                    one.enter(w.now[0][i], "!$omp section @solver.c:72")
                    w.work(0, ("left_half", "right_half")[i], 700 + 1500 * late * i, i)
                    one.leave(w.now[0][i])
                one.leave(w.now[0][i])
    return w, Truth(("right_half",), 0, 1)


def small_tasks(rng: random.Random, late: bool) -> Made:
    """Tasks take less time than their creation."""
    w = World(rng, 1, 4, noise=0.02)
    number = 0
    for _ in range(8):
        with w.inside("spawn_all"), w.in_team(0, 80):
            for i in range(4):
                for _ in range(150 if late else 3):
                    number += 1
                    w.task(i, number, "small_task", 2 if late else 100, creation=6)
    return w, Truth(("spawn_all",))


def fewer_threads(rng: random.Random, late: bool) -> Made:
    """One process has half of the threads."""
    w = World(rng, 3, 4)
    slow = rng.randrange(3)
    for _ in range(25):
        with w.inside("relax"):
            for r in range(3):
                n = 2 if late and r == slow else 4
                with w.in_team(r, 12, n):
                    for i in range(n):
                        w.work(r, "rows", 4000 / n, i)
        w.allreduce()
    return w, Truth(("rows",), slow)


def masters_of_all(rng: random.Random, late: bool) -> Made:
    """The first thread of each process has more to do."""
    w = World(rng, 3, 4)
    for _ in range(20):
        with w.inside("relax"):
            for r in range(3):
                w.divided(r, 12, "rows", [1000 + 900 * late * (i == 0) for i in range(w.threads)])
        w.allreduce()
    return w, Truth(("rows",), -1, 0)


# -- threads that are created one by one


def slow_created_thread(rng: random.Random, late: bool) -> Made:
    """One of the threads that are created has more to do, and the main thread joins all."""
    w = World(rng, 1, 4)
    slow = rng.randrange(1, 4)
    w.create_threads()
    for _ in range(20):
        for i in range(1, 4):
            w.work(0, "chunk", 1000 + 1200 * late * (i == slow), i)
    w.join_threads()
    return w, Truth(("chunk",), 0, slow)


def threads_again_and_again(rng: random.Random, late: bool) -> Made:
    """A thread is created for every small piece of work."""
    w = World(rng, 1, 2, noise=0.02)
    w.create_threads()
    w.join_threads()
    for k in range(2, 80):
        with w.inside("run_step"):
            w.create(1, k, 150 if late else 5)
            w.at(0, 1).enter(w.now[0][1], "piece_of_thread")
            w.work(0, "piece", 60, 1)
            w.at(0, 1).leave(w.now[0][1])
            w.work(0, "piece", 60)
            w.join(1, k)
    return w, Truth(("run_step",))


def slow_consumer(rng: random.Random, late: bool) -> Made:
    """A queue has room for one item, and its consumer is slow."""
    w = World(rng, 1, 3)
    w.create_threads()
    for _ in range(30):
        w.work(0, "produce_item", 500, 1)
        _hand_over(w, *((1, 2) if w.now[0][1] >= w.now[0][2] else (2, 1)))
        w.work(0, "consume_item", 500 + 1500 * late, 2)
    w.join_threads()
    return w, Truth(("consume_item",), 0, 2)


def _hand_over(w: World, gives: int, waits: int) -> None:
    """Make a thread wait for a condition until another one signals it."""

    def call(thread: int, begin: int, name: str, events: Sequence[tuple[str, int, int]], end: int) -> None:
        one = w.at(0, thread).enter(begin, f"pthread_{name}")
        for what, time, order in events:
            (one.acquire if what == "acquire" else one.release)(time, 1, order, PTHREADS)
        one.leave(end)

    since, n = w.now[0][waits], w.orders + 1
    till = max(w.now[0][gives], since + 3)
    call(waits, since, "mutex_lock", [("acquire", since + 1, n)], since + 1)
    call(gives, till, "mutex_lock", [("acquire", till + 1, n + 1)], till + 1)
    call(gives, till + 2, "cond_signal", [], till + 3)
    call(gives, till + 4, "mutex_unlock", [("release", till + 5, n + 1)], till + 5)
    call(waits, since + 2, "cond_wait", [("release", since + 2, n), ("acquire", till + 8, n + 2)], till + 8)
    call(waits, till + 9, "mutex_unlock", [("release", till + 10, n + 2)], till + 10)
    w.orders = n + 2
    w.now[0][waits], w.now[0][gives] = till + 11, till + 6


BOTTLENECKS: dict[str, Make] = LATE | {
    make.__name__: make
    for make in (
        late_for_waitany, late_for_probe, late_for_scan, late_for_iprobe, master_collects, master_prepares, two_slow_ranks,
        slow_node, communication_inside, recursion, rows_and_columns, since_the_middle, gather_and_write, slow_file,
        large_messages, barriers, window_lock_holder, late_for_omp_barrier, single, ordered, lock_holder, sections,
        small_tasks, fewer_threads, masters_of_all, slow_created_thread, threads_again_and_again, slow_consumer,
    )
}  # fmt: skip
"""Makers of programs by name of the kind."""
