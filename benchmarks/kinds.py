"""Programs with one bottleneck each, of many kinds: does the first finding name it?

Each kind is a small program with random sizes, ranks and noise, of this module or of `bottlenecks`, `rare` and `mixed`;
those of `faults` are drawn from many steps. Each program is also simulated without its bottleneck, so that the gain is
known. Times are simulated in microseconds.

    python -m benchmarks.kinds                         ten programs of each kind, a table of what was found
    python -m benchmarks.kinds --programs 50 serial_output slow_thread
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass

from benchmarks.bottlenecks import BOTTLENECKS
from benchmarks.faults import FAULTS
from benchmarks.mixed import MIXED
from benchmarks.rare import RARE
from benchmarks.uncommon import UNCOMMON
from benchmarks.world import ANY, PTHREADS, Make, Truth, World, at_least, program
from tracecols.schema import EventKind as K

KINDS: dict[str, Make] = {}
"""Makers of the programs of this module by name of the kind."""


@program(KINDS, at_least(3), noise=(0.05, 0.2))
def slow_rank(w: World, late: float) -> Truth:
    """One process has more work in one of several regions."""
    slow, n, more = w.rng.randrange(w.ranks), w.rng.choice([8, 25, 60]), w.rng.choice([1.6, 2.5])
    for _ in range(n):
        with w.inside("step"):
            for r in range(w.ranks):
                w.work(r, "predict", 900)
                w.work(r, "assemble", 2000 * (1 + (more - 1) * late * (r == slow)))
                w.work(r, "correct", 500)
            w.allreduce()
    return Truth(("assemble",), slow)


@program(KINDS, at_least(4))
def spread_imbalance(w: World, late: float) -> Truth:
    """Work grows from rank to rank."""
    for _ in range(w.rng.choice([10, 40])):
        for r in range(w.ranks):
            w.work(r, "interpolate", 700)
            w.work(r, "advect", 1000 + 400 * (r if late else (w.ranks - 1) / 2))
        w.allreduce()
    return Truth(("advect",), ANY)


@program(KINDS, (1, 2, 3), (3, 4))
def slow_thread(w: World, late: float) -> Truth:
    """One thread of one process has more of a loop."""
    rank, thread = w.rng.randrange(w.ranks), w.rng.randrange(w.threads)
    for _ in range(w.rng.choice([10, 30])):
        with w.inside("relax"):
            for r in range(w.ranks):
                slow = [late * ((r, i) == (rank, thread)) for i in range(w.threads)]
                w.divided(r, 12, "relax_rows", [3000 * (1 + more) for more in slow])
        w.allreduce()
    return Truth(("relax_rows",), rank, thread)


@program(KINDS, 2)
def tiny_messages(w: World, late: float) -> Truth:
    """Many messages of a few bytes."""
    length, n = w.rng.choice([4, 8, 64]), w.rng.choice([40, 120])
    for _ in range(w.rng.choice([5, 15])):
        w.everyone("move_particles", n * 8)
        with w.inside("send_particles"):
            for k in range(n if late else 2):
                w.message(k % 2, 1 - k % 2, length, cost=12)
    return Truth(("send_particles",))


@program(KINDS, at_least(3), noise=0.02)
def too_many_collectives(w: World, late: float) -> Truth:
    """A reduction for each of many numbers."""
    n = w.rng.choice([30, 80])
    for _ in range(w.rng.choice([6, 20])):
        w.everyone("apply_matrix", 10 * n)
        with w.inside("dot_products"):
            for _ in range(n if late else 1):
                w.collective("MPI_Allreduce", "allreduce", 8, 15)
    return Truth(("dot_products",))


@program(KINDS, (1, 2, 3), (3, 4))
def serial_section(w: World, late: float) -> Truth:
    """The master computes alone what all threads could share."""
    for _ in range(w.rng.choice([10, 30])):
        w.everyone("sort_cells", 2500 if late else 2500 / w.threads)
        with w.inside("forces"):
            for r in range(w.ranks):
                w.divided(r, 40, "pair_forces", 2000)
        w.allreduce()
    return Truth(("sort_cells",), 0 if w.ranks == 1 else -1, 0)


@program(KINDS, 1, (3, 4))
def critical_section(w: World, late: float) -> Truth:
    """Threads wait for each other at a critical section."""
    for _ in range(w.rng.choice([8, 20])):
        with w.inside("accumulate"), w.in_team(0, 60):
            for _ in range(5):
                w.spread(0, "compute_term", 200)
                if late:
                    w.locked(0, "add_term", [300] * w.threads, 66)
                else:
                    w.spread(0, "add_term", 300)
    return Truth(("add_term", "accumulate"))


@program(KINDS, at_least(4))
def false_pipeline(w: World, late: float) -> Truth:
    """Each process waits for the one before it, though nothing forces the order."""
    for _ in range(w.rng.choice([8, 20])):
        with w.inside("exchange_boundary"):
            for r in range(w.ranks):
                if r and late:
                    w.message(r - 1, r, 4096, cost=10)
                w.work(r, "pack_boundary", 600)
        w.everyone("update_cells", 1500)
    return Truth(("exchange_boundary", "pack_boundary"), ANY)


@program(KINDS, 2)
def late_receiver(w: World, late: float) -> Truth:
    """A sender of large messages waits for a receiver with more to do."""
    n, slow = w.rng.choice([15, 60]), w.rng.randrange(2)
    for _ in range(n):
        w.work(1 - slow, "produce_block", 800)
        w.work(slow, "consume_block", 800 + 1800 * late)
        with w.inside("send_block", [1 - slow]), w.inside("receive_block", [slow]):
            w.message(1 - slow, slow, 1 << 20, cost=100, ready=True)
    return Truth(("consume_block",), slow)


@program(KINDS, at_least(3))
def needless_barrier(w: World, late: float) -> Truth:
    """In each step a different process is late for a barrier; without the barrier, delays even out."""
    for i in range(w.rng.choice([24, 60])):
        for r in range(w.ranks):
            w.work(r, "local_search", 3000 if (i + r) % w.ranks == 0 else 1000)
        if late:
            with w.inside("wait_for_all"):
                w.barrier()
    w.allreduce()
    return Truth(("wait_for_all", "local_search"))


@program(KINDS, at_least(5))
def wrong_order(w: World, late: float) -> Truth:
    """A root receives first from the process that sends last, and has something to do for each message."""
    n, each = w.rng.choice([10, 30]), w.rng.choice([500, 1500])
    for _ in range(n):
        sent = {}
        for r in range(1, w.ranks):
            w.work(r, "search_part", each * r)
            with w.inside("report", [r]):
                sent[r] = w.send(r, 0, length=64)
        for r in sorted(sent, reverse=late > 0):
            with w.inside("collect", [0]):
                w.receive(0, r, sent[r], length=64)
            w.work(0, "merge_part", each)
        w.barrier()
    return Truth(("collect",), 0)


@program(KINDS, at_least(3), noise=0.04)
def descheduled(w: World, late: float) -> Truth:
    """Now and then a process of an otherwise balanced program is not running."""
    n, victim = w.rng.choice([40, 100]), w.rng.randrange(w.ranks)
    for _ in range(n):
        for r in range(w.ranks):
            stalled = r == victim and w.rng.random() < 0.15
            w.work(r, "smooth", 1000 + 8000 * late * stalled)
        w.allreduce()
    return Truth(("smooth",), victim)


@program(KINDS, at_least(3))
def growing(w: World, late: float) -> Truth:
    """The work of one process grows."""
    n, slow = w.rng.choice([20, 50]), w.rng.randrange(w.ranks)
    for i in range(n):
        w.everyone("collide", 1000, slow, 3000 * late * i / n, stream=800)
        w.allreduce()
    return Truth(("collide",), slow)


@program(KINDS, at_least(3))
def slow_iteration(w: World, late: float) -> Truth:
    """One iteration of many takes much longer on one process."""
    n, slow = w.rng.choice([20, 60]), w.rng.randrange(w.ranks)
    which = w.rng.randrange(n)
    for i in range(n):
        w.everyone("integrate", 1000, slow, n * 400 * late * (i == which))
        w.allreduce()
    return Truth(("integrate",), slow)


@program(KINDS, at_least(3))
def serial_output(w: World, late: float) -> Truth:
    """One process writes files while the others wait."""
    n, writer = w.rng.choice([6, 20]), w.rng.choice([0, 0, w.ranks - 1])
    call = w.rng.choice(["fwrite", "write", "MPI_File_write", "format_output"])
    for i in range(n):
        w.everyone("advance", 2000)
        if i % 2:
            with w.inside("write_checkpoint", [writer]):
                w.work(writer, call, 5000 * late)
        w.barrier()
    return Truth(("write_checkpoint", call), writer)


@program(KINDS, 1, (2, 4))
def small_regions(w: World, late: float) -> Truth:
    """Parallel regions with less work than overhead."""
    for _ in range(w.rng.choice([5, 12])):
        w.work(0, "boundary", 40)
        with w.inside("sweep_lines"):
            for _ in range(60 if late else 1):
                w.divided(0, 80, "line", 3 if late else 180, overhead=15)
    return Truth(("sweep_lines", "line"))


@program(KINDS, 1, (3, 4))
def task_imbalance(w: World, late: float) -> Truth:
    """One task of a parallel region takes as long as all others together."""
    for _ in range(w.rng.choice([8, 20])):
        owner = w.rng.randrange(w.threads)
        with w.inside("build_tree"), w.in_team(0, 18):
            for i in range(w.threads):
                for k in range(4):
                    w.task(i, k + 1, "subtree", 300 + 3700 * late * (i == owner and k == 0))
    return Truth(("subtree", "build_tree"), ANY)


@program(KINDS, at_least(3))
def late_root(w: World, late: float) -> Truth:
    """All wait for a broadcast whose root prepares it."""
    n, root = w.rng.choice([10, 40]), w.rng.randrange(w.ranks)
    for _ in range(n):
        w.work(root, "read_parameters", 1800 * late)
        with w.inside("distribute"):
            w.from_root("MPI_Bcast", "bcast", root)
        w.everyone("evaluate", 2000)
        w.barrier()
    return Truth(("read_parameters",), root)


@program(KINDS, at_least(3))
def nested_work(w: World, late: float) -> Truth:
    """One process has more work in two of the regions that one function calls."""
    n, slow = w.rng.choice([10, 40]), w.rng.randrange(w.ranks)
    for _ in range(n):
        with w.inside("physics"):
            for r in range(w.ranks):
                more = 1 + late * (r == slow)
                w.work(r, "radiation", 900 * more)
                w.work(r, "convection", 1000 * more)
        w.everyone("dynamics", 1500)
        w.allreduce()
    return Truth(("physics",), slow)


@program(KINDS, at_least(3))
def fence_imbalance(w: World, late: float) -> Truth:
    """One process is late for fences."""
    window = w.window()
    n, slow = w.rng.choice([10, 40]), w.rng.randrange(w.ranks)
    _fence(w, window)
    for _ in range(n):
        for r in range(w.ranks):
            w.work(r, "fill_halo", 1000 + 1500 * late * (r == slow))
            side = {"window": window, "remote": (r + 1) % w.ranks, "sent": 4096, "matching": 1}
            t = w.now[r][0]
            w.at(r).enter(t, "MPI_Put").record(t, K.RMA_PUT, rma=side).leave(t + 3)
            w.now[r][0] = t + 3
        with w.inside("finish_halo"):
            _fence(w, window)
    return Truth(("fill_halo",), slow)


@program(KINDS, at_least(3))
def window_lock(w: World, late: float) -> Truth:
    """All processes lock the window of one for long."""
    window, free = w.window(), 0
    for _ in range(w.rng.choice([8, 20])):
        for r in sorted(range(w.ranks), key=lambda r: w.now[r][0]):
            w.work(r, "count_local", 300)
            with w.inside("update_table", [r]):
                w.lock_window(r, window, free if late else 0)
                w.work(r, "modify_entries", 500)
                free = w.unlock_window(r, window)
    return Truth(("update_table", "modify_entries"))


def _fence(w: World, window: int) -> None:
    for r in range(w.ranks):
        w.at(r).enter(w.now[r][0], "MPI_Win_fence").record(w.now[r][0], K.RMA_COLLECTIVE_BEGIN)
    end = {"window": window, "op": 0, "root": -1, "sent": 0, "received": 0}
    w.meet(8, lambda r, t: w.at(r).record(t, K.RMA_COLLECTIVE_END, rma=end).leave(t))


@program(KINDS, at_least(2), noise=0.02)
def measurement(w: World, late: float) -> Truth:
    """A tiny function is called so often that recording it takes the time."""
    w.program.resolution = 10**7
    calls = w.rng.choice([300, 800])
    for _ in range(w.rng.choice([6, 15])):
        for r in range(w.ranks):
            with w.inside("interpolate_all", [r]):
                for _ in range(calls if late else 0):
                    w.call(r, "weight", 1)
                    w.now[r][0] += 1
            w.work(r, "solve", 200)
        w.allreduce()
    return Truth(("weight",))


@program(KINDS, 1, (3, 4, 5))
def mutex(w: World, late: float) -> Truth:
    """Created threads hold a mutex for most of their work."""
    w.create_threads()
    free = 0
    for _ in range(w.rng.choice([20, 60])):
        for i in w.in_order(0, 1):
            w.work(0, "prepare_item", 400, i)
            w.lock(i, "pthread_mutex_lock", free if late else 0, paradigm=PTHREADS)
            w.work(0, "insert_item", 600, i)
            free = w.unlock(i, "pthread_mutex_unlock", paradigm=PTHREADS)
    w.join_threads()
    return Truth(("insert_item", "worker"))


ALL: dict[str, Make] = KINDS | BOTTLENECKS | RARE | MIXED | UNCOMMON | FAULTS
"""All makers of programs by name of the kind."""


@dataclass
class Outcome:
    """The first finding of a program.

    Attributes
    ----------
    is_right : bool
        Whether it names the bottleneck.
    kind, said : str
        Its kind, and its text.
    gain : float
        The predicted gain as a share of the time by which the program is shorter without the bottleneck.
    truth : Truth
    """

    is_right: bool
    kind: str
    gain: float
    said: str
    truth: Truth


def try_program(kind: str, seed: int) -> Outcome:
    """Make a program of a kind and compare its first finding with its bottleneck."""
    (w, truth), (without, _) = (ALL[kind](random.Random(f"{kind} {seed}"), late) for late in (1, 0))
    without.finish()
    with w.finish().trace() as trace:
        findings = trace.analyze().diagnosis().findings
    if not findings:
        return Outcome(False, "", 0.0, "nothing", truth)
    first = findings[0]
    rank = -1 if first.rank is None else first.rank
    thread = -1 if first.thread is None else first.thread
    is_right = first.cause_region in truth.regions
    is_right = is_right and truth.rank in (ANY, rank) and truth.thread in (ANY, thread)
    gain = (first.gain or 0) * w.program.resolution / (w.runtime - without.runtime)
    return Outcome(is_right, first.kind, gain, f"[{first.kind} {rank} {thread}] {first.what or first.title}", truth)


def main() -> None:
    """Try programs, print those whose bottleneck is not named or whose gain is not predicted, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", choices=[*ALL, []], metavar="KIND", help="all by default: " + ", ".join(ALL))
    parser.add_argument("--programs", type=int, default=10)
    given = parser.parse_args()
    print("| bottleneck | programs | first finding right | gain within a third |")
    print("|---|---:|---:|---:|")
    for kind in given.kind or ALL:
        found = [try_program(kind, seed) for seed in range(given.programs)]
        near = [abs(one.gain - 1) <= 1 / 3 for one in found]
        for seed, (one, is_near) in enumerate(zip(found, near, strict=True)):
            if not (one.is_right and is_near):
                print(f"{kind} {seed}: {one.said}, {one.gain:.0%} of the gain\n    {one.truth}", file=sys.stderr)
        n, n_right = len(found), sum(one.is_right for one in found)
        print(f"| {kind} | {n} | {n_right / n:.1%} | {sum(near) / n:.1%} |", flush=True)


if __name__ == "__main__":
    main()
