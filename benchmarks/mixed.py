"""Programs whose bottleneck is small, or beside something larger that is harmless (`benchmarks.kinds`): heavy starts,
hybrid programs, several communicators, numbered steps, faults on several call paths."""

from __future__ import annotations

import random

from benchmarks.bottlenecks import Made, Make
from benchmarks.world import ANY, PTHREADS, Truth, World, processes


def after_heavy_start(rng: random.Random, late: bool) -> Made:
    """A long start, the same for all processes, and then a process that is a little late each time."""
    w = World(rng, processes(rng, 3), noise=0.03)
    slow, n = rng.randrange(w.ranks), 30
    w.everyone("build_mesh", 60_000)
    w.barrier()
    for _ in range(n):
        for r in range(w.ranks):
            w.work(r, "assemble", 1500 + 350 * late * (r == slow))
            w.work(r, "precondition", 700)
        w.allreduce()
    return w, Truth(("assemble",), slow)


def serial_start(rng: random.Random, late: bool) -> Made:
    """One process reads the input while the others wait for it, once; after that all is even."""
    w = World(rng, processes(rng, 3), noise=0.03)
    if late:
        w.work(0, "read_mesh", 12_000)
    w.from_root("MPI_Bcast", "bcast")
    for _ in range(40):
        w.everyone("iterate", 2000)
        w.allreduce()
    return w, Truth(("read_mesh",), 0)


def slow_thread_of_hybrid(rng: random.Random, late: bool) -> Made:
    """One thread of one process takes a little longer; all processes wait for it."""
    w = World(rng, rng.choice([2, 3, 4]), rng.choice([2, 3, 4]), noise=0.03)
    rank, thread = rng.randrange(w.ranks), rng.randrange(w.threads)
    for _ in range(25):
        for r in range(w.ranks):
            with w.inside("solve", [r]):
                w.divided(
                    r, 10, "line_sweep", [2000 + 500 * late * ((r, i) == (rank, thread)) for i in range(w.threads)]
                )
                w.divided(r, 20, "update", [1500] * w.threads)
        w.allreduce()
    return w, Truth(("line_sweep",), rank, thread)


def moving_hot_spot(rng: random.Random, late: bool) -> Made:
    """In each time step the threads of a different process have more to do."""
    w = World(rng, rng.choice([3, 4]), rng.choice([2, 3]), noise=0.03)
    for k in range(24):
        for r in range(w.ranks):
            more = 900 * late * (k % w.ranks == r)
            with w.inside("chemistry", [r]):
                w.divided(r, 30, "react_cells", [1200 + more] * w.threads)
        w.allreduce()
    return w, Truth(("react_cells", "chemistry"))


def late_in_columns(rng: random.Random, late: bool) -> Made:
    """A process is late for the broadcast in its column, in which another process is the root each time."""
    w = World(rng, 6, noise=0.04)
    columns = [list(range(i, 6, 3)) for i in range(3)]
    numbers = [w.program.communicator(f"column {i}", of) for i, of in enumerate(columns)]
    slow = rng.randrange(6)
    for k in range(36):
        for r in range(6):
            w.work(r, "factor_panel", 1000 + 500 * late * (r == slow))
            w.work(r, "update_trailing", 1500)
        with w.inside("exchange_column"):
            for number, ranks in zip(numbers, columns, strict=True):
                w.among(ranks, number, "MPI_Allgather", "allgather")
        if k % 6 == 5:
            w.allreduce()
    return w, Truth(("factor_panel",), slow)


def numbered_steps(rng: random.Random, late: bool) -> Made:
    """Each time step is a region of its own; a process is late in all of them."""
    w = World(rng, processes(rng, 3), noise=0.04)
    slow = rng.randrange(w.ranks)
    name = rng.choice(["step_%d", "iteration %d", "Step#%d"])
    for k in range(20):
        with w.inside(name % k):
            for r in range(w.ranks):
                w.work(r, "forces", 1500 + 900 * late * (r == slow))
                w.work(r, "integrate", 700)
            w.allreduce()
    return w, Truth(("forces",), slow)


def computing_in_numbered_steps(rng: random.Random, late: bool) -> Made:
    """Each time step is a region of its own, which computes by itself; a process is late in all of them."""
    w = World(rng, processes(rng, 3), noise=0.04)
    slow = rng.randrange(w.ranks)
    for k in range(24):
        with w.inside(f"iteration_{k}"):
            for r in range(w.ranks):
                w.now[r][0] += w.noisy(1500 + 700 * late * (r == slow))
            w.allreduce()
    return w, Truth(("iteration",), slow)


def one_of_numbered_functions(rng: random.Random, late: bool) -> Made:
    """Stages of a program whose names differ only in a number are not time steps: one of them is uneven."""
    w = World(rng, processes(rng, 3), noise=0.04)
    slow, bad = rng.randrange(w.ranks), rng.choice([1, 2, 3])
    for k in (1, 2, 3, 4):
        w.everyone(f"stage_{k}", 20_000, slow, 15_000 * late * (k == bad))
        w.allreduce()
    return w, Truth((f"stage_{bad}",), slow)


def collectives_in_numbered_steps(rng: random.Random, late: bool) -> Made:
    """Each time step is a region of its own, which calls many collective operations."""
    w = World(rng, processes(rng, 3), noise=0.02)
    for k in range(15):
        with w.inside(f"step {k}"):
            w.everyone("kernel", 3000)
            for _ in range(40 if late else 1):
                w.collective("MPI_Allreduce", "allreduce", 8, 25)
    return w, Truth(("step",))


def messages_in_numbered_steps(rng: random.Random, late: bool) -> Made:
    """Each time step is a region of its own, and sends many small messages."""
    w = World(rng, rng.choice([2, 4]), noise=0.03)
    for k in range(12):
        with w.inside(f"cycle_{k}"):
            w.everyone("push_particles", 3000)
            with w.inside("send_particles"):
                for _ in range(60 if late else 1):
                    for r in range(0, w.ranks, 2):
                        w.message(r, r + 1, 32, cost=12)
            w.allreduce()
    return w, Truth(("send_particles",))


def on_two_call_paths(rng: random.Random, late: bool) -> Made:
    """A function is slow on one process, and is called by two others."""
    w = World(rng, processes(rng, 3), noise=0.04)
    slow = rng.randrange(w.ranks)
    for _ in range(25):
        for caller in ("predictor", "corrector"):
            with w.inside(caller):
                w.everyone("right_hand_side", 900, slow, 400 * late)
                w.halo()
        w.everyone("filter", 1000)
        w.allreduce()
    return w, Truth(("right_hand_side",), slow)


def two_faults(rng: random.Random, late: bool) -> Made:
    """A large bottleneck on one process, and a smaller one on another in another function."""
    w = World(rng, processes(rng, 3), noise=0.04)
    large, small = rng.sample(range(w.ranks), 2)
    for _ in range(30):
        w.everyone("radiation", 1500, large, 1500 * late)
        w.allreduce()
        w.everyone("convection", 1500, small, 400)
        w.allreduce()
    return w, Truth(("radiation",), large)


def ramp(rng: random.Random, late: bool) -> Made:
    """Each process has a little more to do than the one before it."""
    w = World(rng, processes(rng, 4), noise=0.03)
    for _ in range(30):
        for r in range(w.ranks):
            w.work(r, "columns", 1500 + 600 * late * r / (w.ranks - 1) - 300 * late)
            w.work(r, "rows", 900)
        w.allreduce()
    return w, Truth(("columns",), ANY)


def slow_link(rng: random.Random, late: bool) -> Made:
    """Messages between two neighbours take long; all others wait for them at the next reduction."""
    w = World(rng, processes(rng, 4), noise=0.03)
    a = rng.randrange(w.ranks - 1)
    for _ in range(30):
        w.everyone("stencil", 1500)
        with w.inside("exchange_faces"):
            for r in range(w.ranks - 1):
                w.message(r, r + 1, 4096, cost=400 if late and r == a else 8)
        w.allreduce()
    return w, Truth(("exchange_faces",), ANY)


def lock_on_all_ranks(rng: random.Random, late: bool) -> Made:
    """Threads of all processes wait for each other at a critical section."""
    w = World(rng, rng.choice([2, 3]), rng.choice([3, 4]), noise=0.04)
    for _ in range(20):
        for r in range(w.ranks):
            with w.inside("deposit", [r]), w.in_team(r, 40):
                for i in range(w.threads):
                    w.work(r, "weights", 1500, i)
                if late:
                    w.locked(r, {i: w.now[r][i] for i in range(w.threads)}, "add_to_grid", 400, 44)
                else:
                    for i in range(w.threads):
                        w.work(r, "add_to_grid", 400, i)
        w.allreduce()
    return w, Truth(("add_to_grid", "deposit"), ANY)


def slow_at_the_end(rng: random.Random, late: bool) -> Made:
    """Work is handed out evenly, but the last piece of one process is large."""
    w = World(rng, processes(rng, 3), noise=0.1)
    slow = rng.randrange(w.ranks)
    for k in range(30):
        w.everyone("trace_ray_packet", 1000, slow, 6000 * late * (k == 29))
    w.allreduce()
    return w, Truth(("trace_ray_packet",), slow)


def serial_part_of_all(rng: random.Random, late: bool) -> Made:
    """Masters of all processes do something small alone, beside long and even parallel regions."""
    w = World(rng, rng.choice([1, 2, 3]), 4, noise=0.03)
    for _ in range(25):
        for r in range(w.ranks):
            with w.inside("time_step", [r]):
                w.divided(r, 50, "advect", [3000] * 4)
                if late:
                    w.work(r, "sort_list", 450)
        if w.ranks > 1:
            w.allreduce()
    return w, Truth(("sort_list",), ANY)


def compensating(rng: random.Random, late: bool) -> Made:
    """One process is late in one function, another in the next one; a barrier in between makes the delays add up."""
    w = World(rng, processes(rng, 3), noise=0.03)
    one, other = rng.sample(range(w.ranks), 2)
    for _ in range(30):
        w.everyone("particles", 1500, one, 800)
        if late:
            with w.inside("checkpoint_time"):
                w.barrier()
        w.everyone("fields", 1500, other, 800)
        w.allreduce()
    return w, Truth(("checkpoint_time", "particles", "fields"), ANY)


def large_reduction(rng: random.Random, late: bool) -> Made:
    """A reduction of much data takes long on all; processes wait little for each other."""
    w = World(rng, processes(rng, 3), noise=0.05)
    for _ in range(25):
        w.everyone("gradients", 2500)
        with w.inside("sum_gradients"):
            w.collective("MPI_Allreduce", "allreduce", 1 << 22 if late else 8, 900 if late else 10)
    return w, Truth(("sum_gradients",))


def partly_hidden(rng: random.Random, late: bool) -> Made:
    """Messages are sent early and computation hides them, but one process is later than that."""
    w = World(rng, processes(rng, 3), noise=0.03)
    slow = rng.randrange(w.ranks)
    for _ in range(30):
        sent = {}
        for r in range(w.ranks):
            w.work(r, "pack_edges", 200 + 1100 * late * (r == slow))
            peers = [p for p in (r - 1, r + 1) if 0 <= p < w.ranks]
            sent[r] = w._post(r, peers, 2048)
            w.work(r, "interior", 900)
        with w.inside("finish_exchange"):
            for r in range(w.ranks):
                t = w.now[r][0]
                peers = list(sent[r])
                end = max([t, *(sent[p][r] for p in peers)]) + 8
                one = w.at(r).enter(t, "MPI_Waitall")
                for k, p in enumerate(peers):
                    one.complete_receive(end, p, request=10 + k, length=2048)
                for k in range(len(peers)):
                    one.complete_send(end, 20 + k)
                one.leave(end)
                w.now[r][0] = end
        w.everyone("edges", 600)
    w.allreduce()
    return w, Truth(("pack_edges",), slow)


def locks_without_contention(rng: random.Random, late: bool) -> Made:
    """Each thread takes its own lock for each of many small pieces of work; the locking takes longer than the work."""
    w = World(rng, 1, 4, noise=0.05)
    w.create_threads()
    for i in range(1, 4):
        for _ in range(120):
            w.work(0, "add_entry", 20, i)
            for name, order in (("lock", "acquire"), ("unlock", "release")):
                t, cost = w.now[0][i], 15 if late else 1
                w.orders += order == "acquire"
                one = w.at(0, i).enter(t, f"pthread_mutex_{name}")
                getattr(one, order)(t + cost, i, w.orders, PTHREADS).leave(t + cost)
                w.now[0][i] = t + cost + 1
    w.join_threads()
    return w, Truth(("worker", "add_entry"), ANY)


def small_writes(rng: random.Random, late: bool) -> Made:
    """All processes write many small pieces to files."""
    w = World(rng, processes(rng, 2), noise=0.03)
    for _ in range(20):
        w.everyone("advance", 2500)
        with w.inside("write_particles"):
            for r in range(w.ranks):
                for _ in range(60 if late else 1):
                    w.call(r, "MPI_File_write", 25)
        w.allreduce()
    return w, Truth(("write_particles",))


def receives_one_by_one(rng: random.Random, late: bool) -> Made:
    """Receives are completed one by one in the order of ranks, and one sender is late."""
    w = World(rng, processes(rng, 4), noise=0.04)
    slow = rng.randrange(1, w.ranks)
    for _ in range(30):
        w.everyone("integrate", 1200, slow, 700 * late)
        with w.inside("gather_parts"):
            for r in range(1, w.ranks):
                w.message(r, 0, 4096)
        for r in range(1, w.ranks):
            w.message(0, r, 64, tag=1)
    return w, Truth(("integrate",), slow)


def uneven_threads_of_uneven_ranks(rng: random.Random, late: bool) -> Made:
    """A process has more to do on all its threads, in another function threads of all processes are a little uneven."""
    w = World(rng, rng.choice([2, 3, 4]), 3, noise=0.03)
    slow = rng.randrange(w.ranks)
    for _ in range(20):
        for r in range(w.ranks):
            with w.inside("time_step", [r]):
                w.divided(r, 60, "collide", [1200 + 700 * late * (r == slow)] * 3)
                w.divided(r, 70, "stream", [800, 850, 900])
        w.halo()
        w.allreduce()
    return w, Truth(("collide",), slow, ANY)


def barrier_in_front_of_reduction(rng: random.Random, late: bool) -> Made:
    """A barrier is called right before a reduction, for which a process is late anyway."""
    w = World(rng, processes(rng, 3), noise=0.03)
    slow = rng.randrange(w.ranks)
    for _ in range(30):
        w.everyone("local_sum", 1500, slow, 500 * late)
        with w.inside("global_sum"):
            w.barrier()
            w.allreduce()
    return w, Truth(("local_sum",), slow)


def alternating_slow_rank(rng: random.Random, late: bool) -> Made:
    """Every fifth time step one process has more to do, and another one every seventh."""
    w = World(rng, processes(rng, 4), noise=0.03)
    often, seldom = rng.sample(range(w.ranks), 2)
    for k in range(70):
        for r in range(w.ranks):
            more = 2500 * late * (r == often and k % 5 == 4) + 700 * (r == seldom and k % 7 == 6)
            w.work(r, "sort_particles", 800 + more)
        w.allreduce()
    return w, Truth(("sort_particles",), often)


def slow_half_of_threads(rng: random.Random, late: bool) -> Made:
    """Half of the threads of each process, on another socket, are slower in one of two functions."""
    w = World(rng, rng.choice([1, 2, 3]), 4, noise=0.05)
    for _ in range(20):
        for r in range(w.ranks):
            with w.inside("time_step", [r]):
                w.divided(r, 10, "triad", [1000 + (90 if i >= 2 else -90) * late for i in range(4)])
                w.divided(r, 20, "chemistry", [900] * 4)
        if w.ranks > 1:
            w.allreduce()
    return w, Truth(("triad",), ANY)


def atomic_updates(rng: random.Random, late: bool) -> Made:
    """Threads update a histogram by atomic operations, for which they compete."""
    w = World(rng, 1, 4)
    for _ in range(15):
        with w.inside("histogram"), w.in_team(0, 33):
            for i in range(4):
                for _ in range(20):
                    w.work(0, "bin_value", 30, i)
                    t = w.now[0][i]
                    w.now[0][i] = t + (30 if late else 2)
                    w.at(0, i).enter(t, "!$omp atomic @h.c:35").leave(w.now[0][i])
    return w, Truth(("histogram",))


def panel_in_turn(rng: random.Random, late: bool) -> Made:
    """Each process in turn computes a panel and broadcasts it while the others wait."""
    w = World(rng, processes(rng, 3))
    for k in range(rng.choice([24, 48])):
        root = k % w.ranks
        w.work(root, "factor_panel", 200 + 900 * late)
        sent = w.now[root][0]
        for r in range(w.ranks):
            t = w.now[r][0]
            w.now[r][0] = max(t, sent) + 10
            one = w.at(r).enter(t, "MPI_Bcast").begin_collective(t)
            one.end_collective(w.now[r][0], "bcast", root, sent=8 * (r == root), received=8).leave(w.now[r][0])
        w.everyone("update_trailing", 800)
    return w, Truth(("factor_panel",))


def long_last_chunk(rng: random.Random, late: bool) -> Made:
    """Another thread each time executes the last chunk of a loop, alone."""
    w = World(rng, 1, 4, noise=0.05)
    for _ in range(25):
        who = rng.randrange(4)
        with w.inside("assemble"), w.in_team(0, 20):
            for i in range(4):
                w.work(0, "cells", 2000, i)
            for i in [who] if late else range(4):
                w.work(0, "boundary", 1200 if late else 300, i)
    return w, Truth(("boundary", "assemble"), ANY)


def long_last_task(rng: random.Random, late: bool) -> Made:
    """Another thread each time executes a long task last."""
    w = World(rng, 1, 4, noise=0.05)
    for _ in range(25):
        who = rng.randrange(4)
        with w.inside("assemble"), w.in_team(0, 20):
            for i in range(4):
                for k in range(6 + (i == who)):
                    w.task(i, k + 1, "cell_task", 300 + 1200 * late * (k == 6))
    return w, Truth(("cell_task", "assemble"), ANY)


def tree_by_hand(rng: random.Random, late: bool) -> Made:
    """Inner processes of a tree of messages combine what they receive, some of them more often than others."""
    w = World(rng, 8, noise=0.05)
    for _ in range(20):
        w.everyone("local_sum", 1000)
        with w.inside("tree_sum"):
            for d in (1, 2, 4):
                for r in range(0, 8, 2 * d):
                    w.message(r + d, r, 1 << 16, cost=20)
                    w.work(r, "combine", 30 + 500 * late)
        w.from_root("MPI_Bcast", "bcast")
    return w, Truth(("combine", "tree_sum"), ANY)


def stalls_of_one_process(rng: random.Random, late: bool) -> Made:
    """One process is not running now and then, in whichever function."""
    w = World(rng, 5, noise=0.05)
    victim = rng.randrange(5)
    for _ in range(50):
        for region in ("flux", "source", "update"):
            for r in range(5):
                w.work(r, region, 400 + 2500 * (rng.random() < 0.12) * late * (r == victim))
        w.allreduce()
    return w, Truth(("flux", "source", "update"), victim)


def too_few_tasks(rng: random.Random, late: bool) -> Made:
    """Two tasks for four threads."""
    w = World(rng, 1, 4, noise=0.05)
    for _ in range(15):
        with w.inside("traverse"), w.in_team(0, 20):
            n = 2 if late else 4
            for i in range(n):
                w.task(i, 1, "subtree", 4000 / n)
    return w, Truth(("subtree",), 0)


def pieces_in_turn(rng: random.Random, late: bool) -> Made:
    """Rank 0 cuts a piece of a mesh for each process and sends it; those that have theirs compute meanwhile."""
    w = World(rng, processes(rng, 4), noise=0.05)
    with w.inside("distribute_mesh"):
        for r in range(1, w.ranks):
            w.work(0, "cut_piece", 40 + 1800 * late)
            w.message(0, r, 1 << 16, cost=20)
    for _ in range(15):
        w.everyone("solve", 700)
        w.halo()
        w.allreduce()
    return w, Truth(("cut_piece", "distribute_mesh"), 0)


MIXED: dict[str, Make] = {
    make.__name__: make
    for make in (
        after_heavy_start, serial_start, slow_thread_of_hybrid, moving_hot_spot, late_in_columns, numbered_steps,
        computing_in_numbered_steps, one_of_numbered_functions, collectives_in_numbered_steps, messages_in_numbered_steps, on_two_call_paths, two_faults, ramp, slow_link, lock_on_all_ranks, slow_at_the_end,
        serial_part_of_all, compensating, large_reduction, partly_hidden, locks_without_contention, small_writes,
        receives_one_by_one, uneven_threads_of_uneven_ranks, barrier_in_front_of_reduction, alternating_slow_rank,
        slow_half_of_threads, atomic_updates, panel_in_turn, long_last_chunk, long_last_task, tree_by_hand,
        stalls_of_one_process, too_few_tasks, pieces_in_turn,
    )
}  # fmt: skip
"""Makers of programs by name of the kind."""
