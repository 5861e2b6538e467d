"""Programs whose bottleneck is small, or beside something larger that is harmless (`benchmarks.kinds`): heavy starts,
hybrid programs, several communicators, numbered steps, faults on several call paths."""

from __future__ import annotations

from benchmarks.world import ANY, PTHREADS, Make, Truth, World, at_least, program

MIXED: dict[str, Make] = {}
"""Makers of programs by name of the kind."""


@program(MIXED, at_least(3), noise=0.03)
def after_heavy_start(w: World, late: float) -> Truth:
    """A long start, the same for all processes, and then a process that is a little late each time."""
    slow, n = w.rng.randrange(w.ranks), 30
    w.everyone("build_mesh", 60_000)
    w.barrier()
    for _ in range(n):
        w.everyone("assemble", 1500, slow, 350 * late, precondition=700)
        w.allreduce()
    return Truth(("assemble",), slow)


@program(MIXED, at_least(3), noise=0.03)
def library_function(w: World, late: float) -> Truth:
    """A function that all call from everywhere takes longer on one process where one of its callers calls it."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(30):
        for caller, usual, more in (("predict", 900, 0), ("assemble", 1500, 900), ("correct", 600, 0)):
            with w.inside(caller):
                w.everyone("multiply", usual, slow, more * late)
        w.allreduce()
    return Truth(("multiply",), slow)


@program(MIXED, at_least(3), noise=0.03)
def serial_start(w: World, late: float) -> Truth:
    """One process reads the input while the others wait for it, once; after that all is even."""
    if late:
        w.work(0, "read_mesh", 12_000)
    w.from_root("MPI_Bcast", "bcast")
    for _ in range(40):
        w.everyone("iterate", 2000)
        w.allreduce()
    return Truth(("read_mesh",), 0)


@program(MIXED, (2, 3, 4), (2, 3, 4), noise=0.03)
def slow_thread_of_hybrid(w: World, late: float) -> Truth:
    """One thread of one process takes a little longer; all processes wait for it."""
    rank, thread = w.rng.randrange(w.ranks), w.rng.randrange(w.threads)
    for _ in range(25):
        for r in range(w.ranks):
            with w.inside("solve", [r]):
                slow = [500 * late * ((r, i) == (rank, thread)) for i in range(w.threads)]
                w.divided(r, 10, "line_sweep", [2000 + more for more in slow])
                w.divided(r, 20, "update", 1500)
        w.allreduce()
    return Truth(("line_sweep",), rank, thread)


@program(MIXED, (3, 4), (2, 3), noise=0.03)
def moving_hot_spot(w: World, late: float) -> Truth:
    """In each time step the threads of a different process have more to do."""
    for k in range(24):
        for r in range(w.ranks):
            more = 900 * late * (k % w.ranks == r)
            with w.inside("chemistry", [r]):
                w.divided(r, 30, "react_cells", 1200 + more)
        w.allreduce()
    return Truth(("react_cells", "chemistry"))


@program(MIXED, 6, noise=0.04)
def late_in_columns(w: World, late: float) -> Truth:
    """A process is late for the broadcast in its column, in which another process is the root each time."""
    columns = [list(range(i, 6, 3)) for i in range(3)]
    numbers = [w.program.communicator(f"column {i}", of) for i, of in enumerate(columns)]
    slow = w.rng.randrange(6)
    for k in range(36):
        w.everyone("factor_panel", 1000, slow, 500 * late, update_trailing=1500)
        with w.inside("exchange_column"):
            for number, ranks in zip(numbers, columns, strict=True):
                w.among(ranks, number, "MPI_Allgather", "allgather")
        if k % 6 == 5:
            w.allreduce()
    return Truth(("factor_panel",), slow)


@program(MIXED, at_least(3), noise=0.04)
def numbered_steps(w: World, late: float) -> Truth:
    """Each time step is a region of its own; a process is late in all of them."""
    slow = w.rng.randrange(w.ranks)
    name = w.rng.choice(["step_%d", "iteration %d", "Step#%d"])
    for k in range(20):
        with w.inside(name % k):
            w.everyone("forces", 1500, slow, 900 * late, integrate=700)
            w.allreduce()
    return Truth(("forces",), slow)


@program(MIXED, at_least(3), noise=0.04)
def computing_in_numbered_steps(w: World, late: float) -> Truth:
    """Each time step is a region of its own, which computes by itself; a process is late in all of them."""
    slow = w.rng.randrange(w.ranks)
    for k in range(24):
        with w.inside(f"iteration_{k}"):
            for r in range(w.ranks):
                w.now[r][0] += w.noisy(1500 + 700 * late * (r == slow))
            w.allreduce()
    return Truth(("iteration",), slow)


@program(MIXED, at_least(3), noise=0.04)
def one_of_numbered_functions(w: World, late: float) -> Truth:
    """Stages of a program whose names differ only in a number are not time steps: one of them is uneven."""
    slow, bad = w.rng.randrange(w.ranks), w.rng.choice([1, 2, 3])
    for k in (1, 2, 3, 4):
        w.everyone(f"stage_{k}", 20_000, slow, 15_000 * late * (k == bad))
        w.allreduce()
    return Truth((f"stage_{bad}",), slow)


@program(MIXED, at_least(3), noise=0.02)
def collectives_in_numbered_steps(w: World, late: float) -> Truth:
    """Each time step is a region of its own, which calls many collective operations."""
    for k in range(15):
        with w.inside(f"step {k}"):
            w.everyone("kernel", 3000)
            for _ in range(40 if late else 1):
                w.collective("MPI_Allreduce", "allreduce", 8, 25)
    return Truth(("step",))


@program(MIXED, (2, 4), noise=0.03)
def messages_in_numbered_steps(w: World, late: float) -> Truth:
    """Each time step is a region of its own, and sends many small messages."""
    for k in range(12):
        with w.inside(f"cycle_{k}"):
            w.everyone("push_particles", 3000)
            with w.inside("send_particles"):
                for _ in range(60 if late else 1):
                    for r in range(0, w.ranks, 2):
                        w.message(r, r + 1, 32, cost=12)
            w.allreduce()
    return Truth(("send_particles",))


@program(MIXED, at_least(3), noise=0.04)
def on_two_call_paths(w: World, late: float) -> Truth:
    """A function is slow on one process, and is called by two others."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(25):
        for caller in ("predictor", "corrector"):
            with w.inside(caller):
                w.everyone("right_hand_side", 900, slow, 400 * late)
                w.halo()
        w.everyone("filter", 1000)
        w.allreduce()
    return Truth(("right_hand_side",), slow)


@program(MIXED, at_least(3), noise=0.04)
def two_faults(w: World, late: float) -> Truth:
    """A large bottleneck on one process, and a smaller one on another in another function."""
    large, small = w.rng.sample(range(w.ranks), 2)
    for _ in range(30):
        w.everyone("radiation", 1500, large, 1500 * late)
        w.allreduce()
        w.everyone("convection", 1500, small, 400)
        w.allreduce()
    return Truth(("radiation",), large)


@program(MIXED, at_least(4), noise=0.03)
def ramp(w: World, late: float) -> Truth:
    """Each process has a little more to do than the one before it."""
    for _ in range(30):
        for r in range(w.ranks):
            w.work(r, "columns", 1500 + 600 * late * r / (w.ranks - 1) - 300 * late)
            w.work(r, "rows", 900)
        w.allreduce()
    return Truth(("columns",), ANY)


@program(MIXED, at_least(4), noise=0.03)
def ramp_for_a_while(w: World, late: float) -> Truth:
    """The same in a third of the run; before and after it, all have the same to do."""
    for k in range(45):
        for r in range(w.ranks):
            uneven = late * (15 <= k < 30)
            w.work(r, "columns", 1500 + 600 * uneven * r / (w.ranks - 1) - 300 * uneven)
            w.work(r, "rows", 900)
        w.allreduce()
    return Truth(("columns",), ANY)


@program(MIXED, at_least(4), noise=0.03)
def slow_link(w: World, late: float) -> Truth:
    """Messages between two neighbours take long; all others wait for them at the next reduction."""
    a = w.rng.randrange(w.ranks - 1)
    for _ in range(30):
        w.everyone("stencil", 1500)
        with w.inside("exchange_faces"):
            for r in range(w.ranks - 1):
                w.message(r, r + 1, 4096, cost=400 if late and r == a else 8)
        w.allreduce()
    return Truth(("exchange_faces",), ANY)


@program(MIXED, (2, 3), (3, 4), noise=0.04)
def lock_on_all_ranks(w: World, late: float) -> Truth:
    """Threads of all processes wait for each other at a critical section."""
    for _ in range(20):
        for r in range(w.ranks):
            with w.inside("deposit", [r]), w.in_team(r, 40):
                w.spread(r, "weights", 1500)
                if late:
                    w.locked(r, "add_to_grid", [400] * w.threads, 44)
                else:
                    w.spread(r, "add_to_grid", 400)
        w.allreduce()
    return Truth(("add_to_grid", "deposit"), ANY)


@program(MIXED, at_least(3), noise=0.1)
def slow_at_the_end(w: World, late: float) -> Truth:
    """Work is handed out evenly, but the last piece of one process is large."""
    slow = w.rng.randrange(w.ranks)
    for k in range(30):
        w.everyone("trace_ray_packet", 1000, slow, 6000 * late * (k == 29))
    w.allreduce()
    return Truth(("trace_ray_packet",), slow)


@program(MIXED, (1, 2, 3), 4, noise=0.03)
def serial_part_of_all(w: World, late: float) -> Truth:
    """Masters of all processes do something small alone, beside long and even parallel regions."""
    for _ in range(25):
        for r in range(w.ranks):
            with w.inside("time_step", [r]):
                w.divided(r, 50, "advect", 3000)
                if late:
                    w.work(r, "sort_list", 450)
        w.allreduce()
    return Truth(("sort_list",), ANY)


@program(MIXED, at_least(3), noise=0.03)
def compensating(w: World, late: float) -> Truth:
    """One process is late in one function, another in the next one; a barrier in between makes the delays add up."""
    one, other = w.rng.sample(range(w.ranks), 2)
    for _ in range(30):
        w.everyone("particles", 1500, one, 800)
        if late:
            with w.inside("checkpoint_time"):
                w.barrier()
        w.everyone("fields", 1500, other, 800)
        w.allreduce()
    return Truth(("checkpoint_time", "particles", "fields"), ANY)


@program(MIXED, at_least(3), noise=0.05)
def large_reduction(w: World, late: float) -> Truth:
    """A reduction of much data takes long on all; processes wait little for each other."""
    for _ in range(25):
        w.everyone("gradients", 2500)
        with w.inside("sum_gradients"):
            w.collective("MPI_Allreduce", "allreduce", 1 << 22 if late else 8, 900 if late else 10)
    return Truth(("sum_gradients",))


@program(MIXED, at_least(3), noise=0.03)
def partly_hidden(w: World, late: float) -> Truth:
    """Messages are sent early and computation hides them, but one process is later than that."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(30):
        sent = {}
        for r in range(w.ranks):
            w.work(r, "pack_edges", 200 + 1100 * late * (r == slow))
            sent[r] = w.post(r, 2048)
            w.work(r, "interior", 900)
        with w.inside("finish_exchange"):
            w.complete(sent, 2048)
        w.everyone("edges", 600)
    w.allreduce()
    return Truth(("pack_edges",), slow)


@program(MIXED, 1, 4, noise=0.05)
def locks_without_contention(w: World, late: float) -> Truth:
    """Each thread takes its own lock for each of many small pieces of work; the locking takes longer than the work."""
    w.create_threads()
    for i in range(1, 4):
        for _ in range(120):
            w.work(0, "add_entry", 20, i)
            own = {"cost": 16 if late else 2, "lock": i, "paradigm": PTHREADS}
            w.lock(i, "pthread_mutex_lock", **own)
            w.unlock(i, "pthread_mutex_unlock", **own)
    w.join_threads()
    return Truth(("worker", "add_entry"), ANY)


@program(MIXED, at_least(2), noise=0.03)
def small_writes(w: World, late: float) -> Truth:
    """All processes write many small pieces to files."""
    for _ in range(20):
        w.everyone("advance", 2500)
        with w.inside("write_particles"):
            for r in range(w.ranks):
                for _ in range(60 if late else 1):
                    w.call(r, "MPI_File_write", 25)
        w.allreduce()
    return Truth(("write_particles",))


@program(MIXED, at_least(4), noise=0.04)
def receives_one_by_one(w: World, late: float) -> Truth:
    """Receives are completed one by one in the order of ranks, and one sender is late."""
    slow = w.rng.randrange(1, w.ranks)
    for _ in range(30):
        w.everyone("integrate", 1200, slow, 700 * late)
        with w.inside("gather_parts"):
            for r in range(1, w.ranks):
                w.message(r, 0, 4096)
        for r in range(1, w.ranks):
            w.message(0, r, 64, tag=1)
    return Truth(("integrate",), slow)


@program(MIXED, (2, 3, 4), 3, noise=0.03)
def uneven_threads_of_uneven_ranks(w: World, late: float) -> Truth:
    """A process has more to do on all its threads, in another function threads of all processes are a little uneven."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(20):
        for r in range(w.ranks):
            with w.inside("time_step", [r]):
                w.divided(r, 60, "collide", 1200 + 700 * late * (r == slow))
                w.divided(r, 70, "stream", [800, 850, 900])
        w.halo()
        w.allreduce()
    return Truth(("collide",), slow, ANY)


@program(MIXED, at_least(3), noise=0.03)
def barrier_in_front_of_reduction(w: World, late: float) -> Truth:
    """A barrier is called right before a reduction, for which a process is late anyway."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(30):
        w.everyone("local_sum", 1500, slow, 500 * late)
        with w.inside("global_sum"):
            w.barrier()
            w.allreduce()
    return Truth(("local_sum",), slow)


@program(MIXED, at_least(4), noise=0.03)
def alternating_slow_rank(w: World, late: float) -> Truth:
    """Every fifth time step one process has more to do, and another one every seventh."""
    often, seldom = w.rng.sample(range(w.ranks), 2)
    for k in range(70):
        for r in range(w.ranks):
            more = 2500 * late * (r == often and k % 5 == 4) + 700 * (r == seldom and k % 7 == 6)
            w.work(r, "sort_particles", 800 + more)
        w.allreduce()
    return Truth(("sort_particles",), often)


@program(MIXED, (1, 2, 3), 4, noise=0.05)
def slow_half_of_threads(w: World, late: float) -> Truth:
    """Half of the threads of each process, on another socket, are slower in one of two functions."""
    for _ in range(20):
        for r in range(w.ranks):
            with w.inside("time_step", [r]):
                w.divided(r, 10, "triad", [1000 + (90 if i >= 2 else -90) * late for i in range(4)])
                w.divided(r, 20, "chemistry", 900)
        w.allreduce()
    return Truth(("triad",), ANY)


@program(MIXED, 1, 4)
def atomic_updates(w: World, late: float) -> Truth:
    """Threads update a histogram by atomic operations, for which they compete."""
    for _ in range(15):
        with w.inside("histogram"), w.in_team(0, 33):
            for i in range(4):
                for _ in range(20):
                    w.work(0, "bin_value", 30, i)
                    t = w.now[0][i]
                    w.now[0][i] = t + (30 if late else 2)
                    w.at(0, i).enter(t, "!$omp atomic @h.c:35").leave(w.now[0][i])
    return Truth(("histogram",))


@program(MIXED, at_least(3))
def panel_in_turn(w: World, late: float) -> Truth:
    """Each process in turn computes a panel and broadcasts it while the others wait."""
    for k in range(w.rng.choice([24, 48])):
        root = k % w.ranks
        w.work(root, "factor_panel", 200 + 900 * late)
        w.from_root("MPI_Bcast", "bcast", root)
        w.everyone("update_trailing", 800)
    return Truth(("factor_panel",))


@program(MIXED, 1, 4, noise=0.05)
def long_last_chunk(w: World, late: float) -> Truth:
    """Another thread each time executes the last chunk of a loop, alone."""
    for _ in range(25):
        who = w.rng.randrange(4)
        with w.inside("assemble"), w.in_team(0, 20):
            w.spread(0, "cells", 2000)
            for i in [who] if late else range(4):
                w.work(0, "boundary", 1200 if late else 300, i)
    return Truth(("boundary", "assemble"), ANY)


@program(MIXED, 1, 4, noise=0.05)
def long_last_task(w: World, late: float) -> Truth:
    """Another thread each time executes a long task last."""
    for _ in range(25):
        who = w.rng.randrange(4)
        with w.inside("assemble"), w.in_team(0, 20):
            for i in range(4):
                for k in range(6 + (i == who)):
                    w.task(i, k + 1, "cell_task", 300 + 1200 * late * (k == 6))
    return Truth(("cell_task", "assemble"), ANY)


@program(MIXED, 8, noise=0.05)
def tree_by_hand(w: World, late: float) -> Truth:
    """Inner processes of a tree of messages combine what they receive, some of them more often than others."""
    for _ in range(20):
        w.everyone("local_sum", 1000)
        with w.inside("tree_sum"):
            for d in (1, 2, 4):
                for r in range(0, 8, 2 * d):
                    w.message(r + d, r, 1 << 16, cost=20)
                    w.work(r, "combine", 30 + 500 * late)
        w.from_root("MPI_Bcast", "bcast")
    return Truth(("combine", "tree_sum"), ANY)


@program(MIXED, 5, noise=0.05)
def stalls_of_one_process(w: World, late: float) -> Truth:
    """One process is not running now and then, in whichever function."""
    victim = w.rng.randrange(5)
    for _ in range(50):
        for region in ("flux", "source", "update"):
            for r in range(5):
                w.work(r, region, 400 + 2500 * (w.rng.random() < 0.12) * late * (r == victim))
        w.allreduce()
    return Truth(("flux", "source", "update"), victim)


@program(MIXED, 1, 4, noise=0.05)
def too_few_tasks(w: World, late: float) -> Truth:
    """Two tasks for four threads."""
    for _ in range(15):
        with w.inside("traverse"), w.in_team(0, 20):
            n = 2 if late else 4
            for i in range(n):
                w.task(i, 1, "subtree", 4000 / n)
    return Truth(("subtree",), 0)


@program(MIXED, at_least(4), noise=0.05)
def pieces_in_turn(w: World, late: float) -> Truth:
    """Rank 0 cuts a piece of a mesh for each process and sends it; those that have theirs compute meanwhile."""
    with w.inside("distribute_mesh"):
        for r in range(1, w.ranks):
            w.work(0, "cut_piece", 40 + 1800 * late)
            w.message(0, r, 1 << 16, cost=20)
    for _ in range(15):
        w.everyone("solve", 700)
        w.halo()
        w.allreduce()
    return Truth(("cut_piece", "distribute_mesh"), 0)
