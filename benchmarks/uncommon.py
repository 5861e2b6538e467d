"""Uncommon kinds of programs with one bottleneck (`benchmarks.kinds`): halves of teams and nodes that are slow, schedules
of loops, tasks of one creator, files, neighbourhood collectives, the order of tags, sweeps before exchanges, messages
that do not move outside of MPI, work that a master hands out, functions with parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.world import ANY, PTHREADS, Make, Truth, World, at_least, program

UNCOMMON: dict[str, Make] = {}
"""Makers of programs by name of the kind."""

# -- threads


@program(UNCOMMON, (1, 2), 4)
def large_chunks(w: World, late: float) -> Truth:
    """The chunks of a loop, which threads take as they are free, are too large: one thread has one more."""
    for _ in range(20):
        with w.inside("relax"):
            for r in range(w.ranks):
                with w.in_team(r, 20):
                    for ticks in [1000] * 5 if late else [125] * 40:
                        i = min(range(4), key=lambda i: w.now[r][i])
                        w.work(r, "relax_chunk", ticks, i)
        if w.ranks > 1:
            w.allreduce()
    return Truth(("relax_chunk", "relax"), ANY)


@program(UNCOMMON, (1, 2), 4)
def large_chunks_of_two_kinds(w: World, late: float) -> Truth:
    """The same, and a thread executes each of its chunks in the other one of two functions that call the same one."""
    n = [[0] * 4 for _ in range(w.ranks)]
    for _ in range(20):
        for r in range(w.ranks):
            with w.in_team(r, 20):
                for ticks in [1000] * 5 if late else [125] * 40:
                    i = min(range(4), key=lambda i: w.now[r][i])
                    n[r][i] += 1
                    one = w.at(r, i).enter(w.now[r][i], ("red_cells", "black_cells")[n[r][i] % 2])
                    w.work(r, "relax_chunk", ticks, i)
                    one.leave(w.now[r][i])
        if w.ranks > 1:
            w.allreduce()
    return Truth(("relax_chunk",), ANY)


@program(UNCOMMON, (1, 2), 4)
def false_sharing(w: World, late: float) -> Truth:
    """Two threads of one process, which write to the same cache lines, are slow in one function."""
    rank, first = w.rng.randrange(w.ranks), w.rng.randrange(3)
    for _ in range(25):
        with w.inside("histogram"):
            for r in range(w.ranks):
                w.divided(r, 12, "classify", [800] * 4)
                more = [900 * late * (r == rank and i in (first, first + 1)) for i in range(4)]
                w.divided(r, 18, "count_bins", [600 + ticks for ticks in more])
        if w.ranks > 1:
            w.allreduce()
    return Truth(("count_bins",), rank)


@program(UNCOMMON, (1, 2), 4)
def slow_half_of_teams(w: World, late: float) -> Truth:
    """Half of the threads of each process are far from the memory that one of two functions uses."""
    for _ in range(25):
        with w.inside("time_step"):
            for r in range(w.ranks):
                w.divided(r, 12, "stream_field", [900 * (1 + 0.9 * late * (i >= 2)) for i in range(4)])
                w.divided(r, 18, "chemistry", [700] * 4)
        if w.ranks > 1:
            w.allreduce()
    return Truth(("stream_field",), ANY)


@program(UNCOMMON, 4, 3)
def slow_half_of_nodes(w: World, late: float) -> Truth:
    """All threads of one of two nodes are slow in everything."""
    parts = {"density": 600, "momentum": 700, "energy": 500}
    node = w.rng.choice([(0, 1), (2, 3)])
    for _ in range(15):
        for line, (region, ticks) in enumerate(parts.items()):
            for r in range(4):
                w.divided(r, 10 + line, region, [ticks * (1 + 0.6 * late * (r in node))] * 3)
        w.allreduce()
    return Truth(tuple(parts), ANY)


@program(UNCOMMON, (1, 2), 4)
def slow_thread_of_chunks(w: World, late: float) -> Truth:
    """One thread takes longer for each chunk of a loop, which threads take as they are free."""
    slow = w.rng.randrange(w.ranks), w.rng.randrange(4)
    for _ in range(20):
        with w.inside("relax"):
            for r in range(w.ranks):
                with w.in_team(r, 20):
                    for _ in range(40):
                        i = min(range(4), key=lambda i: w.now[r][i])
                        w.work(r, "relax_chunk", 100 * (1 + 1.5 * late * ((r, i) == slow)), i)
        if w.ranks > 1:
            w.allreduce()
    return Truth(("relax_chunk",), *slow)


@program(UNCOMMON, 1, (4, 5))
def slow_thread_of_queue(w: World, late: float) -> Truth:
    """One of the threads that take jobs from a queue takes longer for each."""
    slow, free = w.rng.randrange(1, w.threads), 0
    w.create_threads()
    for _ in range(160):
        i = min(range(1, w.threads), key=lambda i: w.now[0][i])
        w.lock(i, "pthread_mutex_lock", free, paradigm=PTHREADS)
        w.work(0, "take_job", 3, i)
        free = w.unlock(i, "pthread_mutex_unlock", paradigm=PTHREADS)
        w.work(0, "run_job", 250 * (1 + 1.5 * late * (i == slow)), i)
    w.join_threads()
    return Truth(("run_job",), 0, slow)


# -- tasks of one creator


def _traverse(w: World, number: int, lengths: Sequence[float], speed: Sequence[float] = (1, 1, 1, 1)) -> int:
    """Make one thread create tasks that all execute in the barrier, each the first that is free; return the number of
    the last task. `speed` is the factor of the time of each thread."""
    with w.inside("traverse"), w.in_team(0, 80):
        made = []
        for _ in lengths:
            number += 1
            t = w.now[0][0]
            w.at(0).enter(t, "!$omp create task @tree.c:20").create_task(t, (0, number)).leave(t + 2)
            w.now[0][0] = t + 4
            made.append((t + 2, number))
        for i in range(4):
            w.at(0, i).enter(w.now[0][i], "!$omp barrier @tree.c:22")
        for (t, task), ticks in zip(made, lengths, strict=True):
            i = min(range(4), key=lambda i: w.now[0][i])
            begin = w.now[0][i] = max(w.now[0][i], t) + 2
            w.at(0, i).switch_task(begin, (0, task)).enter(begin, "!$omp task @tree.c:20")
            w.work(0, "visit", ticks * speed[i], i)
            end = w.now[0][i]
            w.at(0, i).leave(end).complete_task(end, (0, task)).switch_task(end, (i, 0))
        last = max(w.now[0]) + 2
        for i in range(4):
            w.at(0, i).leave(last)
            w.now[0][i] = last
    return number


@program(UNCOMMON, 1, 4, noise=0.05)
def long_task_at_last(w: World, late: float) -> Truth:
    """The task that is created last is far longer than the others."""
    number = 0
    for _ in range(10):
        number = _traverse(w, number, [300] * 23 + [300 + 2400 * late])
    return Truth(("visit",), 0)


@program(UNCOMMON, 1, 4, noise=0.05)
def long_task_at_first(w: World, late: float) -> Truth:
    """The task that is created first takes longer than all that the other threads have."""
    number = 0
    for _ in range(10):
        number = _traverse(w, number, [300 + 4200 * late] + [300] * 23)
    return Truth(("visit",), 0)


@program(UNCOMMON, 1, 4, noise=0.3)
def long_tasks_now_and_then(w: World, late: float) -> Truth:
    """In every fifth traversal, the task that is created last is far longer than the others."""
    number = 0
    for k in range(20):
        number = _traverse(w, number, [300] * 20 + [300 + 2500 * late * (k % 5 == 4)])
    return Truth(("visit",), 0)


@program(UNCOMMON, 1, 4, noise=0.05)
def slow_thread_of_tasks(w: World, late: float) -> Truth:
    """One thread takes longer for each task, and so executes fewer."""
    number, slow = 0, w.rng.randrange(4)
    for _ in range(10):
        number = _traverse(w, number, [500] * 24, [1 + 1.5 * late * (i == slow) for i in range(4)])
    return Truth(("visit",), 0, slow)


@program(UNCOMMON, 1, 4, noise=0.05)
def few_large_tasks(w: World, late: float) -> Truth:
    """Five tasks for four threads."""
    number = 0
    for _ in range(15):
        number = _traverse(w, number, [1200] * 5 if late else [200] * 30)
    return Truth(("visit", "traverse"), ANY)


# -- files


def _write_to_one_file(w: World, late: float, call: str) -> Truth:
    """All processes write to one file, which takes one write at a time."""
    for k in range(20):
        w.everyone("advance", 1500)
        if k % 2:
            with w.inside("write_field"):
                free = 0
                for r in sorted(range(w.ranks), key=lambda r: w.now[r][0]):
                    t = w.now[r][0]
                    free = w.now[r][0] = max(t, free if late else 0) + w.noisy(700)
                    w.at(r).enter(t, call).leave(free)
        w.barrier()
    return Truth(("write_field",))


@program(UNCOMMON, at_least(4))
def shared_file(w: World, late: float) -> Truth:
    """One write of the system at a time."""
    return _write_to_one_file(w, late, "write")


@program(UNCOMMON, at_least(4))
def shared_file_of_mpi(w: World, late: float) -> Truth:
    """One write of MPI at a time."""
    return _write_to_one_file(w, late, "MPI_File_write_shared")


@program(UNCOMMON, at_least(4))
def checkpoint_of_one(w: World, late: float) -> Truth:
    """Every few steps all processes write files of their own, and one of them writes far more."""
    rank, n = w.rng.randrange(w.ranks), w.rng.choice([4, 5])
    for k in range(25):
        w.everyone("advance", 1500)
        if k % n == n - 1:
            with w.inside("checkpoint"):
                w.everyone("fwrite", 800, rank, 4000 * late)
        w.allreduce()
    return Truth(("fwrite",), rank)


@program(UNCOMMON, at_least(3), noise=0.05)
def slow_output_of_all(w: World, late: float) -> Truth:
    """Every few steps all processes write files of their own, which takes long."""
    for k in range(30):
        w.everyone("advance", 1000)
        if k % 5 == 4:
            with w.inside("dump_fields"):
                w.everyone("fwrite", 100 + 3000 * late)
        w.allreduce()
    return Truth(("dump_fields",))


@program(UNCOMMON, at_least(3), noise=0.05)
def output_from_two_places(w: World, late: float) -> Truth:
    """All processes write files of their own in two functions."""
    for k in range(30):
        w.everyone("advance", 1000)
        if k % 5 == 4:
            for saved in ("save_fields", "save_particles"):
                with w.inside(saved), w.inside("fwrite"):
                    w.everyone("write", 100 + 1500 * late)
        w.allreduce()
    return Truth(("save_fields", "save_particles"))


# -- messages


@program(UNCOMMON, at_least(3))
def late_for_neighbourhood(w: World, late: float) -> Truth:
    """One process is late for MPI_Neighbor_alltoall, of which recorders record the calls only."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(30):
        w.everyone("smooth", 900, slow, 900 * late)
        with w.inside("exchange_halo"):
            begin = [now[0] for now in w.now]
            for r in range(w.ranks):
                w.now[r][0] = max(begin[max(r - 1, 0) : r + 2]) + 12
                w.at(r).enter(begin[r], "MPI_Neighbor_alltoall").leave(w.now[r][0])
    w.allreduce()
    return Truth(("smooth",), slow)


@program(UNCOMMON, 2, noise=0.05)
def order_of_tags(w: World, late: float) -> Truth:
    """One process receives the messages of another one in the order of tags that is the reverse of that of sending."""
    for _ in range(20):
        sent = []
        for k in range(5):
            w.work(1, "make_part", 500)
            t = w.now[1][0]
            w.at(1).enter(t, "MPI_Send").send(t, 0, tag=k, length=4096).leave(t + 5)
            sent.append(t)
            w.now[1][0] = t + 5
        for k in reversed(range(5)) if late else range(5):
            t = w.now[0][0]
            end = w.now[0][0] = max(t, sent[k]) + 5
            one = w.at(0).enter(t, "receive_part").enter(t, "MPI_Recv").receive(end, 1, tag=k, length=4096)
            one.leave(end).leave(end)
            w.work(0, "treat_part", 450)
        w.barrier()
    return Truth(("receive_part",), 0)


@program(UNCOMMON, at_least(3))
def late_start(w: World, late: float) -> Truth:
    """One process loads its tables more slowly before the first exchange."""
    slow = w.rng.randrange(w.ranks)
    w.everyone("load_tables", 1000, slow, 12000 * late)
    for _ in range(20):
        w.everyone("advance", 1500)
        with w.inside("exchange"):
            w.halo()
    w.allreduce()
    return Truth(("load_tables",), slow)


@program(UNCOMMON, (6, 8), noise=(0.03, 0.1))
def sweep_before_exchange(w: World, late: float) -> Truth:
    """A sweep over a line of processes has too large blocks; the exchange after it waits for the end of the sweep."""
    n_blocks, relax = w.rng.choice([2, 3]), w.rng.choice([600, 1500, 3000])
    n_blocks = n_blocks if late else 16
    for _ in range(w.rng.choice([8, 20])):
        with w.inside("sweep"):
            sent: dict[tuple[int, int], int] = {}
            for r in range(w.ranks):
                for b in range(n_blocks):
                    if r:
                        t = w.now[r][0]
                        end = w.now[r][0] = max(t, sent[r - 1, b]) + 5
                        w.at(r).enter(t, "MPI_Recv").receive(end, r - 1, length=2048).leave(end)
                    w.work(r, "sweep_block", 2400 / n_blocks)
                    if r < w.ranks - 1:
                        t = sent[r, b] = w.now[r][0]
                        w.at(r).enter(t, "MPI_Send").send(t, r + 1, length=2048).leave(t + 4)
                        w.now[r][0] = t + 4
        with w.inside("exchange"):
            w.halo()
        w.everyone("relax", relax)
    w.allreduce()
    return Truth(("sweep",), ANY)


# -- processes that keep others waiting while they are outside of MPI


@program(UNCOMMON, at_least(3))
def late_for_progress(w: World, late: float) -> Truth:
    """One process computes longer between MPI_Isend and MPI_Waitall, and no message moves meanwhile."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(30):
        with w.inside("time_step"):
            sent = {r: w.post(r, 40000) for r in range(w.ranks)}
            w.everyone("update_interior", 1000, slow, 800 * late)
            w.complete(sent, 40000, progresses=False)
            w.everyone("update_boundary", 200)
    return Truth(("update_interior",), slow)


@program(UNCOMMON, at_least(3))
def late_for_progress_of_all(w: World, late: float) -> Truth:
    """One process computes longer between MPI_Iallreduce and MPI_Wait, and others wait until it waits, too."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(30):
        w.everyone("direction", 300)
        w.overlapped("MPI_Iallreduce", "allreduce", "preconditioner", 1000, slow=slow, more=800 * late)
    return Truth(("preconditioner",), slow)


@program(UNCOMMON, at_least(3))
def late_to_pass_on(w: World, late: float) -> Truth:
    """One process is late for broadcasts, and others wait until it passes on the data."""
    slow = w.rng.randrange(1, w.ranks)
    for _ in range(30):
        w.from_root("MPI_Bcast", "bcast", passed_on=True)
        w.everyone("eliminate", 1000, slow, 800 * late)
    return Truth(("eliminate",), slow)


# -- work that a master hands out


def _hand_out(w: World, jobs: Sequence[float], slow: int, factor: Callable[[int], float]) -> None:
    """Rank 0 gives the next job to the process that asks first; one of them takes longer for each, or for some, by a
    factor that depends on the number of the job."""
    asked = {r: w.send(r, 0, tag=1) for r in range(1, w.ranks)}
    for k, job in enumerate([*jobs, *[0.0] * (w.ranks - 1)]):
        r = min(asked, key=lambda r: (asked[r], r))
        w.receive(0, r, asked.pop(r), tag=1)
        w.receive(r, 0, w.send(0, r, tag=2), tag=2)
        if job:
            w.work(r, "compute_job", job * (factor(k) if r == slow else 1))
            asked[r] = w.send(r, 0, tag=1)
    w.barrier()


@program(UNCOMMON, (4, 6), noise=0.1)
def slow_worker(w: World, late: float) -> Truth:
    """One of the processes that ask for jobs takes longer for each, and so gets fewer."""
    slow = w.rng.randrange(1, w.ranks)
    _hand_out(w, [800.0] * 100, slow, lambda k: 1 + 0.8 * late)
    return Truth(("compute_job",), slow)


@program(UNCOMMON, (4, 6), noise=0.1)
def slow_worker_for_a_while(w: World, late: float) -> Truth:
    """The same for the jobs in the middle of the run."""
    slow = w.rng.randrange(1, w.ranks)
    _hand_out(w, [800.0] * 160, slow, lambda k: 1 + 2 * late * (50 <= k < 110))
    return Truth(("compute_job",), slow)


@program(UNCOMMON, (4, 6), noise=0.1)
def long_last_job(w: World, late: float) -> Truth:
    """The last job that is handed out takes far longer than the others."""
    _hand_out(w, [800.0] * 100 + [800.0 + 6000 * late], -1, lambda k: 1)
    return Truth(("compute_job",), ANY)


# -- functions with parts, and which of several causes is the one


def _in_parts(w: World, rank: int, name: str, ticks: float, thread: int = 0) -> None:
    """Compute in two functions that a function calls."""
    one = w.at(rank, thread).enter(w.now[rank][thread], name)
    for part, share in (("load", 0.4), ("multiply", 0.6)):
        w.work(rank, part, ticks * share, thread)
    one.leave(w.now[rank][thread])


@program(UNCOMMON, (4, 6), noise=0.04)
def slabs_in_turn(w: World, late: float) -> Truth:
    """Processes write one after the other, with a barrier after each, in a function that calls others."""
    for _ in range(8):
        w.everyone("advance", 5000)
        for turn in range(w.ranks):
            for r in range(w.ranks):
                if r == turn or not late:
                    _in_parts(w, r, "write_slab", 600 if late else 600 / w.ranks)
            w.barrier()
    return Truth(("write_slab",))


@program(UNCOMMON, (3, 4), 3, noise=0.04)
def stalled_node(w: World, late: float) -> Truth:
    """Now and then some of the threads of one process are not running."""
    victim = w.rng.randrange(w.ranks)
    for _ in range(40):
        for r in range(w.ranks):
            stalled = [2500 * late * (r == victim and w.rng.random() < 0.12) for _ in range(3)]
            w.divided(r, 12, "smooth", [1000 + ticks for ticks in stalled])
        w.allreduce()
    return Truth(("smooth",), victim)


@program(UNCOMMON, 3, 3, noise=0.02)
def slow_master(w: World, late: float) -> Truth:
    """The first thread of one process is slow in all that it computes, also alone."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(30):
        for r in range(w.ranks):
            factor = 1 + 0.4 * late * (r == slow)
            w.divided(r, 12, "flux", [1000 * factor, 1000, 1000])
            w.work(r, "pack", 300 * factor)
            w.divided(r, 18, "update", [600 * factor, 600, 600])
        w.allreduce()
    return Truth(("flux", "pack", "update"), slow, 0)


@program(UNCOMMON, 1, (5, 6), noise=0.04)
def fewer_chunks_than_threads(w: World, late: float) -> Truth:
    """A loop has fewer chunks than the team has threads: one or two of them get none."""
    for _ in range(30):
        w.divided(0, 12, "assemble", 800)
        with w.inside("relax"), w.in_team(0, 20):
            for i in range(4 if late else w.threads):
                w.work(0, "relax_chunk", 4000 / (4 if late else w.threads), i)
    return Truth(("relax_chunk", "relax"), ANY)


@program(UNCOMMON, 1, (5, 6), noise=0.04)
def fewer_chunks_for_a_while(w: World, late: float) -> Truth:
    """In half of the run, a loop has fewer chunks than the team has threads."""
    for k in range(40):
        w.divided(0, 12, "assemble", 800)
        with w.inside("relax"), w.in_team(0, 20):
            n = 4 if late and k >= 20 else w.threads
            for i in range(n):
                w.work(0, "relax_chunk", 4000 / n, i)
    return Truth(("relax_chunk", "relax"), ANY)


@program(UNCOMMON, 1, (5, 6), noise=0.04)
def sections_for_two(w: World, late: float) -> Truth:
    """Two threads have sections of their own in a parallel region in which all compute besides."""
    for _ in range(30):
        with w.inside("residual"), w.in_team(0, 30):
            w.spread(0, "gradient", 1200)
            for i in range(2 if late else w.threads):
                w.work(0, "tabulate", 1800 / (2 if late else w.threads), i)
    return Truth(("tabulate",), ANY)


@program(UNCOMMON, (6, 8), noise=0.04)
def slow_rank_of_coupled(w: World, late: float) -> Truth:
    """A process of one of two coupled models is slow in one of their functions."""
    half = w.ranks // 2
    parts = [range(half), range(half, w.ranks)]
    communicators = [w.program.communicator(f"model {k}", part) for k, part in enumerate(parts)]
    slow = w.rng.randrange(half)
    for _ in range(8):
        for _ in range(4):
            for k, names in enumerate((("dynamics", "radiation"), ("tracers", "baroclinic"))):
                for r in parts[k]:
                    w.work(r, names[0], 1000 - 60 * k + 350 * late * (r == slow))
                w.among(parts[k], communicators[k], "MPI_Allreduce", "allreduce")
                for r in parts[k]:
                    w.work(r, names[1], 600)
        with w.inside("couple"):
            w.allreduce()
    return Truth(("dynamics",), slow)


def _in_stages(w: World, factor: Sequence[float]) -> None:
    """Compute in three functions, between which neighbours exchange messages; `factor` is that of the time of each
    process in the first two."""
    for _ in range(20):
        with w.inside("time_step"):
            for region, ticks in (("density", 600), ("momentum", 900)):
                for r in range(w.ranks):
                    w.work(r, region, ticks * factor[r])
                with w.inside("exchange"):
                    w.halo()
            w.everyone("radiation", 1400)
            w.allreduce()


@program(UNCOMMON, at_least(4), noise=0.04)
def larger_parts(w: World, late: float) -> Truth:
    """Parts of the grid grow from process to process, in several functions."""
    _in_stages(w, [1 + late * (0.8 * r / (w.ranks - 1) - 0.4) for r in range(w.ranks)])
    return Truth(("density", "momentum"), ANY)


@program(UNCOMMON, at_least(3), noise=0.04)
def larger_part(w: World, late: float) -> Truth:
    """The part of one process is larger than those of the others, in several functions."""
    slow = w.rng.randrange(w.ranks)
    _in_stages(w, [1 + 0.6 * late * (r == slow) for r in range(w.ranks)])
    return Truth(("density", "momentum"), slow)


@program(UNCOMMON, 1, 4, noise=0.04)
def locked_parts(w: World, late: float) -> Truth:
    """What threads compute in a critical section is in functions that one of them calls."""
    for _ in range(30):
        with w.inside("compute_fluxes"), w.in_team(0, 30):
            w.spread(0, "flux", 1000)
            free = 0
            for i in w.in_order(0):
                if late:
                    with w.critical(0, i, 33, free):
                        _in_parts(w, 0, "add_to_sum", 300, i)
                    free = w.now[0][i] + 1
                else:
                    _in_parts(w, 0, "add_to_sum", 300, i)
    return Truth(("add_to_sum",))
