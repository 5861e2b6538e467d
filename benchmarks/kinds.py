"""Programs with one bottleneck each, of many kinds: does the first finding name it?

The programs of `benchmarks.faults` are drawn from many steps, and their fault is always work that takes longer at one
location. Here the kinds of bottlenecks differ: each is a small program with random sizes, ranks and noise. Times are
simulated in microseconds.

    python -m benchmarks.kinds                         ten programs of each kind, a table of what was found
    python -m benchmarks.kinds --programs 50 serial_output slow_thread
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.bottlenecks import BOTTLENECKS, Make, built
from benchmarks.mixed import MIXED
from benchmarks.rare import RARE
from benchmarks.uncommon import UNCOMMON
from benchmarks.world import ANY, PTHREADS, Built, Truth, World, processes
from tracecols.schema import EventKind as K


def slow_rank(rng: random.Random) -> Built:
    """One process has more work in one of several regions."""
    w = World(rng, processes(rng, 3), noise=rng.choice([0.05, 0.2]))
    slow, n, more = rng.randrange(w.ranks), rng.choice([8, 25, 60]), rng.choice([1.6, 2.5])
    for _ in range(n):
        with w.inside("step"):
            for r in range(w.ranks):
                w.work(r, "predict", 900)
                w.work(r, "assemble", 2000 * (more if r == slow else 1))
                w.work(r, "correct", 500)
            w.allreduce()
    return w.done(), Truth(("assemble",), slow, lost=int(n * 2000 * (more - 1)))


def spread_imbalance(rng: random.Random) -> Built:
    """Work grows from rank to rank."""
    w = World(rng, processes(rng, 4))
    n = rng.choice([10, 40])
    for _ in range(n):
        for r in range(w.ranks):
            w.work(r, "interpolate", 700)
            w.work(r, "advect", 1000 + 400 * r)
        w.allreduce()
    return w.done(), Truth(("advect",), ANY, lost=int(n * 400 * (w.ranks - 1) / 2))


def slow_thread(rng: random.Random) -> Built:
    """One thread of one process has more of a loop."""
    w = World(rng, rng.choice([1, 2, 3]), rng.choice([3, 4]))
    rank, thread, n = rng.randrange(w.ranks), rng.randrange(w.threads), rng.choice([10, 30])
    for _ in range(n):
        with w.inside("relax"):
            for r in range(w.ranks):
                ticks = [3000 * (2 if (r, i) == (rank, thread) else 1) for i in range(w.threads)]
                w.divided(r, 12, "relax_rows", ticks)
        if w.ranks > 1:
            w.allreduce()
    return w.done(), Truth(("relax_rows",), rank, thread, lost=n * 3000)


def tiny_messages(rng: random.Random) -> Built:
    """Many messages of a few bytes."""
    w = World(rng, 2)
    length, n = rng.choice([4, 8, 64]), rng.choice([40, 120])
    for _ in range(rng.choice([5, 15])):
        for r in range(2):
            w.work(r, "move_particles", n * 8)
        with w.inside("send_particles"):
            for k in range(n):
                w.message(k % 2, 1 - k % 2, length, cost=12)
    return w.done(), Truth(("send_particles",))


def too_many_collectives(rng: random.Random) -> Built:
    """A reduction for each of many numbers."""
    w = World(rng, processes(rng, 3), noise=0.02)
    n = rng.choice([30, 80])
    for _ in range(rng.choice([6, 20])):
        w.everyone("apply_matrix", 10 * n)
        with w.inside("dot_products"):
            for _ in range(n):
                w.collective("MPI_Allreduce", "allreduce", 8, 15)
    return w.done(), Truth(("dot_products",))


def serial_section(rng: random.Random) -> Built:
    """The master computes alone what all threads could share."""
    w = World(rng, rng.choice([1, 2, 3]), rng.choice([3, 4]))
    n = rng.choice([10, 30])
    for _ in range(n):
        w.everyone("sort_cells", 2500)
        with w.inside("forces"):
            for r in range(w.ranks):
                w.divided(r, 40, "pair_forces", [2000] * w.threads)
        if w.ranks > 1:
            w.allreduce()
    rank = 0 if w.ranks == 1 else -1
    return w.done(), Truth(("sort_cells",), rank, 0, int(n * 2500 * (1 - 1 / w.threads)))


def critical_section(rng: random.Random) -> Built:
    """Threads wait for each other at a critical section."""
    w = World(rng, 1, rng.choice([3, 4]))
    for _ in range(rng.choice([8, 20])):
        with w.inside("accumulate"):
            master, t = w.at(0), w.now[0][0]
            master.fork(t)
            for i in range(w.threads):
                w.now[0][i] = t + 3 + i
                w.at(0, i).begin_team(w.now[0][i]).enter(w.now[0][i], "!$omp parallel @solver.c:60")
            for _ in range(5):
                for i in range(w.threads):
                    w.work(0, "compute_term", 200, i)
                w.locked(0, {i: w.now[0][i] for i in range(w.threads)}, "add_term", 300, 66)
            last = max(w.now[0]) + 1
            for i in range(w.threads):
                w.at(0, i).enter(w.now[0][i], "!$omp implicit barrier @solver.c:60").leave(last).leave(last).end_team(
                    last
                )
                w.now[0][i] = last
            master.join(last + 2)
            w.now[0][0] = last + 2
    return w.done(), Truth(("add_term", "accumulate"))


def false_pipeline(rng: random.Random) -> Built:
    """Each process waits for the one before it, though nothing forces the order."""
    w = World(rng, processes(rng, 4))
    for _ in range(rng.choice([8, 20])):
        with w.inside("exchange_boundary"):
            for r in range(w.ranks):
                if r:
                    w.message(r - 1, r, 4096, cost=10)
                w.work(r, "pack_boundary", 600)
        w.everyone("update_cells", 1500)
    return w.done(), Truth(("exchange_boundary", "pack_boundary"), ANY)


def late_receiver(rng: random.Random) -> Built:
    """A sender of large messages waits for a receiver with more to do."""
    w = World(rng, 2)
    n, slow = rng.choice([15, 60]), rng.randrange(2)
    for _ in range(n):
        w.work(1 - slow, "produce_block", 800)
        w.work(slow, "consume_block", 2600)
        with w.inside("send_block", [1 - slow]), w.inside("receive_block", [slow]):
            w.message(1 - slow, slow, 1 << 20, cost=100, ready=True)
    return w.done(), Truth(("consume_block",), slow, lost=n * 1800)


def needless_barrier(rng: random.Random) -> Built:
    """In each step a different process is late for a barrier; without the barrier, delays even out."""
    w = World(rng, processes(rng, 3))
    n = rng.choice([24, 60])
    for i in range(n):
        for r in range(w.ranks):
            w.work(r, "local_search", 3000 if (i + r) % w.ranks == 0 else 1000)
        with w.inside("wait_for_all"):
            w.barrier()
    w.allreduce()
    return w.done(), Truth(("wait_for_all", "local_search"))


def wrong_order(rng: random.Random) -> Built:
    """A root receives first from the process that sends last, and has something to do for each message."""
    w = World(rng, processes(rng, 5))
    n, each = rng.choice([10, 30]), rng.choice([500, 1500])
    for _ in range(n):
        sent = {}
        for r in range(1, w.ranks):
            w.work(r, "search_part", each * r)
            t = w.now[r][0]
            w.at(r).enter(t, "report").enter(t, "MPI_Send").send(t, 0, length=64).leave(t + 5).leave(t + 5)
            sent[r] = t
            w.now[r][0] = t + 5
        for r in range(w.ranks - 1, 0, -1):
            t = w.now[0][0]
            leaves = max(t, sent[r]) + 5
            w.at(0).enter(t, "collect").enter(t, "MPI_Recv").receive(leaves, r, length=64).leave(leaves).leave(leaves)
            w.now[0][0] = leaves
            w.work(0, "merge_part", each)
        w.barrier()
    return w.done(), Truth(("collect",), 0, lost=n * each * (w.ranks - 2))


def descheduled(rng: random.Random) -> Built:
    """Now and then a process of an otherwise balanced program is not running."""
    w = World(rng, processes(rng, 3), noise=0.04)
    n, victim = rng.choice([40, 100]), rng.randrange(w.ranks)
    for _ in range(n):
        for r in range(w.ranks):
            stalled = r == victim and rng.random() < 0.15
            w.work(r, "smooth", 1000 + (8000 if stalled else 0))
        w.allreduce()
    return w.done(), Truth(("smooth",), victim)


def growing(rng: random.Random) -> Built:
    """The work of one process grows."""
    w = World(rng, processes(rng, 3))
    n, slow = rng.choice([20, 50]), rng.randrange(w.ranks)
    for i in range(n):
        for r in range(w.ranks):
            w.work(r, "collide", 1000 * (1 + 3 * i / n * (r == slow)))
            w.work(r, "stream", 800)
        w.allreduce()
    return w.done(), Truth(("collide",), slow, lost=int(n * 1500))


def slow_iteration(rng: random.Random) -> Built:
    """One iteration of many takes much longer on one process."""
    w = World(rng, processes(rng, 3))
    n, slow = rng.choice([20, 60]), rng.randrange(w.ranks)
    which = rng.randrange(n)
    for i in range(n):
        w.everyone("integrate", 1000, slow, n * 400 * (i == which))
        w.allreduce()
    return w.done(), Truth(("integrate",), slow, lost=n * 400)


def serial_output(rng: random.Random) -> Built:
    """One process writes files while the others wait."""
    w = World(rng, processes(rng, 3))
    n, writer = rng.choice([6, 20]), rng.choice([0, 0, w.ranks - 1])
    call = rng.choice(["fwrite", "write", "MPI_File_write", ""])
    for i in range(n):
        w.everyone("advance", 2000)
        if i % 2:
            with w.inside("write_checkpoint", [writer]):
                w.work(writer, call or "format_output", 5000)
        w.barrier()
    regions = ("write_checkpoint", call or "format_output")
    return w.done(), Truth(regions, writer, lost=n // 2 * 5000)


def small_regions(rng: random.Random) -> Built:
    """Parallel regions with less work than overhead."""
    w = World(rng, 1, rng.choice([2, 4]))
    for _ in range(rng.choice([5, 12])):
        w.work(0, "boundary", 40)
        with w.inside("sweep_lines"):
            for _ in range(60):
                w.divided(0, 80, "line", [3] * w.threads, overhead=15)
    return w.done(), Truth(("sweep_lines", "line"))


def task_imbalance(rng: random.Random) -> Built:
    """One task of a parallel region takes as long as all others together."""
    w = World(rng, 1, rng.choice([3, 4]))
    n = rng.choice([8, 20])
    for _ in range(n):
        with w.inside("build_tree"):
            owner = rng.randrange(w.threads)

            def execute(i: int, owner: int = owner) -> None:
                for k in range(4):
                    task = (i, k + 1)
                    t = w.now[0][i]
                    one = w.at(0, i).enter(t, "!$omp task @tree.c:20").create_task(t, task).leave(t + 1)
                    one.switch_task(t + 1, task)
                    w.now[0][i] = t + 1
                    w.work(0, "subtree", 4000 if i == owner and k == 0 else 300, i)
                    one.complete_task(w.now[0][i], task)

            w.parallel(0, 18, execute)
    return w.done(), Truth(("subtree", "build_tree"), ANY)


def late_root(rng: random.Random) -> Built:
    """All wait for a broadcast whose root prepares it."""
    w = World(rng, processes(rng, 3))
    n, root = rng.choice([10, 40]), rng.randrange(w.ranks)
    for _ in range(n):
        w.work(root, "read_parameters", 1800)
        sent = w.now[root][0]
        for r in range(w.ranks):
            t = w.now[r][0]
            leaves = max(t, sent) + 10
            size = {"sent": 8 * w.ranks, "received": 8} if r == root else {"sent": 0, "received": 8}
            one = w.at(r).enter(t, "distribute").enter(t, "MPI_Bcast").begin_collective(t)
            one.end_collective(leaves, "bcast", root, **size).leave(leaves).leave(leaves)
            w.now[r][0] = leaves
        w.everyone("evaluate", 2000)
        w.barrier()
    return w.done(), Truth(("read_parameters",), root, lost=n * 1800)


def nested_work(rng: random.Random) -> Built:
    """One process has more work in two of the regions that one function calls."""
    w = World(rng, processes(rng, 3))
    n, slow = rng.choice([10, 40]), rng.randrange(w.ranks)
    for _ in range(n):
        with w.inside("physics"):
            for r in range(w.ranks):
                more = 2 if r == slow else 1
                w.work(r, "radiation", 900 * more)
                w.work(r, "convection", 1000 * more)
        w.everyone("dynamics", 1500)
        w.allreduce()
    return w.done(), Truth(("physics",), slow, lost=n * 1900)


def fence_imbalance(rng: random.Random) -> Built:
    """One process is late for fences."""
    w = World(rng, processes(rng, 3))
    window = _window(w)
    n, slow = rng.choice([10, 40]), rng.randrange(w.ranks)
    _fence(w, window)
    for _ in range(n):
        for r in range(w.ranks):
            w.work(r, "fill_halo", 1000 * (2.5 if r == slow else 1))
            t = w.now[r][0]
            side = {"window": window, "remote": (r + 1) % w.ranks, "sent": 4096, "matching": 1}
            w.at(r).enter(t, "MPI_Put").record(t, K.RMA_PUT, rma=side).leave(t + 3)
            w.now[r][0] = t + 3
        with w.inside("finish_halo"):
            _fence(w, window)
    return w.done(), Truth(("fill_halo",), slow, lost=n * 1500)


def window_lock(rng: random.Random) -> Built:
    """All processes lock the window of one for long."""
    w = World(rng, processes(rng, 3))
    window = _window(w)
    free = 0
    for _ in range(rng.choice([8, 20])):
        for r in sorted(range(w.ranks), key=lambda r: w.now[r][0]):
            w.work(r, "count_local", 300)
            t = w.now[r][0]
            begin = max(free, t) + 3
            lock = {"window": window, "remote": 0, "lock": 0}
            one = w.at(r).enter(t, "update_table").enter(t, "MPI_Win_lock")
            one.record(t, K.RMA_REQUEST_LOCK, rma={**lock, "lock_type": 0}).leave(begin)
            w.now[r][0] = begin
            w.work(r, "modify_entries", 500)
            free = w.now[r][0] + 3
            one.enter(free - 3, "MPI_Win_unlock").record(free, K.RMA_RELEASE_LOCK, rma=lock).leave(free + 1).leave(
                free + 1
            )
            w.now[r][0] = free + 1
    return w.done(), Truth(("update_table", "modify_entries"))


def _window(w: World) -> int:
    return w.program.define("windows", name="table", communicator=0, flags=0)


def _fence(w: World, window: int) -> None:
    for r in range(w.ranks):
        w.at(r).enter(w.now[r][0], "MPI_Win_fence").record(w.now[r][0], K.RMA_COLLECTIVE_BEGIN)
    end = {"window": window, "op": 0, "root": -1, "sent": 0, "received": 0}
    w.meet(8, lambda r, t: w.at(r).record(t, K.RMA_COLLECTIVE_END, rma=end).leave(t))


def measurement(rng: random.Random) -> Built:
    """A tiny function is called so often that recording it takes the time."""
    w = World(rng, processes(rng, 2), noise=0.02)
    w.program.resolution = 10**7
    calls = rng.choice([300, 800])
    for _ in range(rng.choice([6, 15])):
        for r in range(w.ranks):
            t = w.now[r][0]
            one = w.at(r).enter(t, "interpolate_all")
            for k in range(calls):
                one.enter(t + k * 2, "weight").leave(t + k * 2 + 1)
            w.now[r][0] = t + 2 * calls
            one.leave(w.now[r][0])
            w.work(r, "solve", 200)
        w.allreduce()
    return w.done(), Truth(("weight",))


def mutex(rng: random.Random) -> Built:
    """Created threads hold a mutex for most of their work."""
    w = World(rng, 1, rng.choice([3, 4, 5]))
    every = list(range(w.threads))
    team = w.program.define("communicators", kind="group", paradigm="pthread", flags=0, members=every)
    w.program.region("pthread_create", "pthread", "thread_create")
    w.program.region("pthread_join", "pthread", "thread_wait")
    for name in ("pthread_mutex_lock", "pthread_mutex_unlock"):
        w.program.region(name, "pthread", "wrapper")
    t = w.now[0][0]
    for i in range(1, w.threads):
        w.at(0).enter(t, "pthread_create").create_thread(t + 1, i, team).leave(t + 5)
        w.at(0, i).begin_thread(t + 8, i, team).enter(t + 10, "worker")
        w.now[0][i] = t + 10
        t += 6
    free = 0
    for _ in range(rng.choice([20, 60])):
        for i in sorted(range(1, w.threads), key=lambda i: w.now[0][i]):
            w.work(0, "prepare_item", 400, i)
            t = w.now[0][i]
            begin = max(free, t) + 2
            w.orders += 1
            w.at(0, i).enter(t, "pthread_mutex_lock").acquire(begin, 1, w.orders, PTHREADS).leave(begin)
            w.now[0][i] = begin
            w.work(0, "insert_item", 600, i)
            free = w.now[0][i] + 1
            one = w.at(0, i).enter(free - 1, "pthread_mutex_unlock").release(free, 1, w.orders, PTHREADS)
            one.leave(free + 1)
            w.now[0][i] = free + 1
    for i in range(1, w.threads):
        w.at(0, i).leave(w.now[0][i]).end_thread(w.now[0][i] + 1, i, team)
    t = max(w.now[0][0], 10 * w.threads + 20)
    for i in range(1, w.threads):
        ends = max(t, w.now[0][i] + 2)
        w.at(0).enter(t, "pthread_join").wait_for_thread(ends, i, team).leave(ends + 1)
        t = ends + 1
    w.now[0][0] = t
    return w.done(), Truth(("insert_item", "worker"))


KINDS: dict[str, Callable[[random.Random], Built]] = {
    make.__name__: make
    for make in (
        slow_rank, spread_imbalance, slow_thread, tiny_messages, too_many_collectives, serial_section, critical_section,
        false_pipeline, late_receiver, needless_barrier, wrong_order, descheduled, growing, slow_iteration,
        serial_output, small_regions, task_imbalance, late_root, nested_work, fence_imbalance, window_lock, mutex, measurement,
    )
}  # fmt: skip
"""Makers of programs by name of the kind."""

MADE_TWICE: dict[str, Make] = BOTTLENECKS | RARE | MIXED | UNCOMMON
"""Makers of programs with and without their bottleneck, by name of the kind."""


@dataclass
class Outcome:
    """The first finding of a program: whether it is right, its kind, and its predicted gain as a share of the loss, 0
    if that is not known."""

    is_right: bool
    kind: str
    gain: float
    said: str
    truth: Truth


def try_program(kind: str, seed: int) -> Outcome:
    """Make a program of a kind and compare its first finding with its bottleneck."""
    of = f"{kind} {seed}"
    program, truth = KINDS[kind](random.Random(of)) if kind in KINDS else built(MADE_TWICE[kind], of)
    with program.trace() as trace:
        findings = trace.analyze().diagnosis().findings
    if not findings:
        return Outcome(False, "", 0.0, "nothing", truth)
    first = findings[0]
    rank = -1 if first.rank is None else first.rank
    thread = -1 if first.thread is None else first.thread
    is_right = first.cause_region in truth.regions
    is_right = is_right and truth.rank in (ANY, rank) and truth.thread in (ANY, thread)
    gain = (first.gain or 0) * 10**6 / truth.lost if truth.lost else 0.0
    return Outcome(is_right, first.kind, gain, f"[{first.kind} {rank} {thread}] {first.what or first.title}", truth)


def main() -> None:
    """Try programs, print those whose bottleneck is not named, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", choices=[*KINDS, *MADE_TWICE, []], help="all by default")
    parser.add_argument("--programs", type=int, default=10)
    given = parser.parse_args()
    print("| bottleneck | programs | first finding right | gain within a third |")
    print("|---|---:|---:|---:|")
    for kind in given.kind or (*KINDS, *MADE_TWICE):
        found = [try_program(kind, seed) for seed in range(given.programs)]
        for seed, one in enumerate(found):
            if not one.is_right:
                print(f"{kind} {seed}: {one.said}\n    {one.truth}", file=sys.stderr)
        n_right = sum(one.is_right for one in found)
        known = [one for one in found if one.truth.lost]
        near = f"{sum(abs(one.gain - 1) <= 1 / 3 for one in known) / len(known):.0%}" if known else ""
        print(f"| {kind} | {len(found)} | {n_right / len(found):.0%} | {near} |", flush=True)


if __name__ == "__main__":
    main()
