"""Rarer kinds of programs with one bottleneck (`benchmarks.kinds`): one-sided epochs, persistent requests, rendezvous,
communication of several threads, input and output in turn, constructs of OpenMP."""

from __future__ import annotations

from contextlib import nullcontext

from benchmarks.world import ANY, Make, Truth, World, at_least, program
from tracecols.schema import EventKind as K

RARE: dict[str, Make] = {}
"""Makers of programs by name of the kind."""

# -- processes that are late


def _epoch_call(w: World, rank: int, name: str, until: int, window: int, group: int) -> None:
    """Make a call that begins or ends an epoch, and returns after the time `until`."""
    t = w.now[rank][0]
    end = w.now[rank][0] = max(t, until) + 4
    one = w.at(rank).enter(t, name)
    one.record(t + 1, K.RMA_GROUP_SYNC, rma={"window": window, "group": group}).leave(end)


def _windows(w: World) -> tuple[int, dict[int, int]]:
    """Define a window, and the groups of single processes."""
    about = {"name": "", "type": "comm_group", "paradigm": "mpi", "flags": 0}
    return w.window(), {r: w.program.define("groups", **about, members=[r]) for r in range(w.ranks)}


def _put(w: World, rank: int, target: int, window: int) -> None:
    t, side = w.now[rank][0], {"window": window, "matching": 1}
    one = w.at(rank).enter(t, "MPI_Put").record(t, K.RMA_PUT, rma={**side, "remote": target, "sent": 4096})
    one.record(t + 2, K.RMA_OP_COMPLETE_BLOCKING, rma=side).leave(t + 3)
    w.now[rank][0] = t + 3


@program(RARE, at_least(3))
def late_post(w: World, late: float) -> Truth:
    """A target opens its window late, and the origin waits in MPI_Win_start."""
    window, alone = _windows(w)
    target = w.rng.randrange(w.ranks)
    for _ in range(w.rng.choice([15, 40])):
        w.everyone("prepare_window", 800, target, 1500 * late)
        with w.inside("put_to_neighbour"):
            for r in range(w.ranks):
                _epoch_call(w, r, "MPI_Win_post", 0, window, alone[(r - 1) % w.ranks])
            posted = {r: w.now[r][0] - 4 for r in range(w.ranks)}
            for r in range(w.ranks):
                to = (r + 1) % w.ranks
                _epoch_call(w, r, "MPI_Win_start", posted[to], window, alone[to])
                _put(w, r, to, window)
            completed = {}
            for r in range(w.ranks):
                completed[r] = w.now[r][0]
                _epoch_call(w, r, "MPI_Win_complete", 0, window, alone[(r + 1) % w.ranks])
            for r in range(w.ranks):
                _epoch_call(w, r, "MPI_Win_wait", completed[(r - 1) % w.ranks], window, alone[(r - 1) % w.ranks])
    return Truth(("prepare_window",), target)


@program(RARE, 2)
def late_complete(w: World, late: float) -> Truth:
    """An origin computes in its access epoch, and the target waits in MPI_Win_wait."""
    window, alone = _windows(w)
    origin = w.rng.randrange(2)
    target = 1 - origin
    for _ in range(w.rng.choice([15, 40])):
        w.work(origin, "own_part", 900)
        w.work(target, "own_part", 900)
        _epoch_call(w, target, "MPI_Win_post", 0, window, alone[origin])
        _epoch_call(w, origin, "MPI_Win_start", w.now[target][0] - 4, window, alone[target])
        _put(w, origin, target, window)
        w.work(origin, "in_epoch", 50 + 1200 * late)
        completed = w.now[origin][0]
        _epoch_call(w, origin, "MPI_Win_complete", 0, window, alone[target])
        _epoch_call(w, target, "MPI_Win_wait", completed, window, alone[origin])
    return Truth(("in_epoch",), origin)


@program(RARE, at_least(3))
def late_for_persistent(w: World, late: float) -> Truth:
    """Requests are made once and started again and again; one process is late."""
    slow = w.rng.randrange(w.ranks)
    for r in range(w.ranks):
        for name in ("MPI_Send_init", "MPI_Recv_init"):
            w.call(r, name, 2)
    for _ in range(w.rng.choice([20, 50])):
        w.everyone("smooth_block", 900, slow, 900 * late)
        with w.inside("exchange_block"):
            sent = {}
            for r in range(w.ranks):
                t = sent[r] = w.now[r][0]
                one = w.at(r).enter(t, "MPI_Startall").post_receive(t, 1)
                one.start_send(t, (r + 1) % w.ranks, request=2, length=1024).leave(t + 3)
                w.now[r][0] = t + 3
            for r in range(w.ranks):
                t, source = w.now[r][0], (r - 1) % w.ranks
                end = w.now[r][0] = max(t, sent[source]) + 8
                one = w.at(r).enter(t, "MPI_Waitall").complete_receive(end, source, request=1, length=1024)
                one.complete_send(end, 2).leave(end)
    return Truth(("smooth_block",), slow)


@program(RARE, 2)
def late_for_rendezvous(w: World, late: float) -> Truth:
    """The receiver of large messages posts its receive late, and the sender waits in MPI_Wait."""
    slow = w.rng.randrange(2)
    fast = 1 - slow
    for _ in range(w.rng.choice([15, 40])):
        w.work(fast, "make_block", 900)
        w.work(slow, "use_block", 900 + 1500 * late)
        with w.inside("hand_over", [fast]):
            t, u = w.now[fast][0], w.now[slow][0]
            w.at(fast).enter(t, "MPI_Isend").start_send(t, slow, request=1, length=1 << 22).leave(t + 2)
            arrives = max(t, u) + 300
            w.at(fast).enter(t + 2, "MPI_Wait").complete_send(arrives, 1).leave(arrives)
            w.now[fast][0] = arrives
        one = w.at(slow).enter(u, "MPI_Recv").receive(arrives, fast, length=1 << 22)
        one.leave(arrives)
        w.now[slow][0] = arrives
    return Truth(("use_block",), slow)


@program(RARE, at_least(3))
def late_for_gather(w: World, late: float) -> Truth:
    """The root of MPI_Gather waits for one process, and all others wait for the root's scatter that follows."""
    slow = w.rng.randrange(1, w.ranks)
    for _ in range(w.rng.choice([15, 40])):
        w.everyone("local_spectrum", 700, slow, 1000 * late)
        with w.inside("collect_spectra"):
            w.to_root("MPI_Gather", "gather")
        w.work(0, "normalise", 60)
        w.from_root("MPI_Scatter", "scatter")
    return Truth(("local_spectrum",), slow)


@program(RARE, at_least(3))
def late_for_ibcast(w: World, late: float) -> Truth:
    """The root starts a non-blocking broadcast late."""
    root = w.rng.randrange(w.ranks)
    for _ in range(w.rng.choice([15, 40])):
        w.work(root, "choose_pivot", 100 + 1200 * late)
        w.overlapped("MPI_Ibcast", "bcast", "update_block", 900, root)
        w.allreduce()
    return Truth(("choose_pivot",), root)


@program(RARE, at_least(3))
def late_for_sparse_exchange(w: World, late: float) -> Truth:
    """Processes look for messages and test a non-blocking barrier in turn until all have come to it; one is late."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(w.rng.choice([15, 40])):
        w.everyone("find_migrants", 900, slow, 900 * late)
        with w.inside("migrate"):
            w.poll("MPI_Iprobe", "MPI_Test", every=30)
    return Truth(("find_migrants",), slow)


@program(RARE, at_least(4))
def in_turns(w: World, late: float) -> Truth:
    """Two processes are late in turns."""
    pair = w.rng.sample(range(w.ranks), 2)
    for k in range(40):
        w.everyone("push_ions", 1000, pair[k % 2], 1500 * late)
        w.allreduce()
    return Truth(("push_ions",), ANY)


@program(RARE, (6, 8))
def node_of_two(w: World, late: float) -> Truth:
    """All processes of one node are slower in everything."""
    node = range(2) if w.rng.random() < 0.5 else range(w.ranks - 2, w.ranks)
    parts = {"density": 600, "momentum": 700, "energy": 500}
    for _ in range(30):
        for region, ticks in parts.items():
            for r in range(w.ranks):
                w.work(r, region, ticks * (1 + 0.6 * late * (r in node)))
        with w.inside("exchange"):
            w.halo()
        w.allreduce()
    return Truth(tuple(parts), ANY)


@program(RARE, 2, 4)
def slow_core(w: World, late: float) -> Truth:
    """Two threads of one process share a core, so both are slower in everything."""
    rank, shared = w.rng.randrange(2), w.rng.sample(range(4), 2)
    parts = {"flux": 900, "source": 700, "update": 500}
    for _ in range(20):
        with w.inside("advance"):
            for line, (region, ticks) in enumerate(parts.items()):
                for r in range(2):
                    slow = shared if r == rank else ()
                    w.divided(r, 10 * line, region, [ticks * (1 + late * (i in slow)) for i in range(4)])
        w.allreduce()
    return Truth((*parts, "advance"), rank)


# -- work done in turn


@program(RARE, at_least(3))
def read_input(w: World, late: float) -> Truth:
    """One process reads the mesh at the start while all others wait for it."""
    with w.inside("setup"):
        with w.inside("load_mesh", [0]):
            for _ in range(5):
                w.work(0, "parse_elements", 200 + 3000 * late)
        w.from_root("MPI_Bcast", "bcast")
    for _ in range(20):
        w.everyone("advance", 1500)
        w.allreduce()
    return Truth(("parse_elements", "load_mesh"), 0)


@program(RARE, at_least(4))
def write_in_turn(w: World, late: float) -> Truth:
    """Each process waits for a token before it writes its part of a file."""
    for _ in range(10):
        w.everyone("advance", 2500)
        with w.inside("write_in_order"):
            for r in range(w.ranks):
                if r and late:
                    w.message(r - 1, r, 4, tag=3)
                w.work(r, "append_part", 900)
        w.barrier()
    return Truth(("write_in_order", "append_part"), ANY)


@program(RARE, at_least(3), noise=0.02)
def communicators_again(w: World, late: float) -> Truth:
    """A communicator is made in every iteration."""
    for k in range(40):
        w.everyone("select_active", 500)
        if late or not k:
            with w.inside("regroup"):
                for r in range(w.ranks):
                    w.at(r).enter(w.now[r][0], "MPI_Comm_split")
                w.meet(400, lambda r, t: w.at(r).leave(t))
        w.allreduce()
    return Truth(("regroup",))


@program(RARE, (4, 6))
def requests_for_work(w: World, late: float) -> Truth:
    """Workers request each small piece of work from a master, and the master takes as long to answer."""
    share = 40 if late else 5
    for _ in range(share):
        for r in range(1, w.ranks):
            with w.inside("get_item", [r]):
                w.message(r, 0, 4, tag=1)
                w.work(0, "find_item", 200)
                w.message(0, r, 64, tag=2)
        for r in range(1, w.ranks):
            w.work(r, "treat_items", 200 * 40 / share)
    return Truth(("find_item",), 0)


@program(RARE, at_least(3), noise=0.03)
def alltoall_of_much(w: World, late: float) -> Truth:
    """All exchange far more with all others than they need."""
    for _ in range(25):
        w.everyone("local_sort", 1000)
        with w.inside("exchange_keys"):
            w.collective("MPI_Alltoallv", "alltoallv", (1 << 22) if late else 4096, 1500 if late else 20)
    return Truth(("exchange_keys",))


# -- several threads that communicate


@program(RARE, 2, 3)
def late_thread_that_sends(w: World, late: float) -> Truth:
    """Each thread exchanges messages with its counterpart in the other process (MPI_THREAD_MULTIPLE); one is late."""
    rank, thread = w.rng.randrange(2), w.rng.randrange(3)
    for _ in range(20):
        with w.inside("advance_zones"), w.in_team(0, 30), w.in_team(1, 30):
            for i in range(3):
                for r in range(2):
                    w.work(r, "zone", 900 + 1100 * late * ((r, i) == (rank, thread)), i)
                sent = [w.send(r, 1 - r, 4, i, tag=i, length=64) for r in range(2)]
                for r in range(2):
                    w.receive(r, 1 - r, sent[1 - r], 6, i, tag=i, length=64)
    return Truth(("zone",), rank, thread)


@program(RARE, 2, 4, noise=0.02)
def calls_in_turn(w: World, late: float) -> Truth:
    """All threads call MPI, but in a critical section."""
    for _ in range(15):
        with w.inside("send_results"):
            for r in range(2):
                with w.in_team(r, 40):
                    w.spread(r, "make_result", 600)
                    free = 0
                    for i in w.in_order(r):
                        with w.critical(r, i, 44, free) if late else nullcontext():
                            w.send(r, 1 - r, 400, i, tag=i, length=1 << 16)
                        free = w.now[r][i] + 1
        for r in range(2):
            for i in range(4):
                w.receive(r, 1 - r, 0, tag=i, length=1 << 16)
    return Truth(("send_results",), ANY)


# -- constructs of OpenMP


@program(RARE, (1, 2), 4)
def triangular_loop(w: World, late: float) -> Truth:
    """Rows of a triangle are divided evenly by number, not by length."""
    for _ in range(20):
        with w.inside("factor"):
            for r in range(w.ranks):
                w.divided(r, 12, "eliminate_rows", [400 + (600 * i if late else 900) for i in range(4)])
        w.allreduce()
    return Truth(("eliminate_rows",), ANY)


def _executed_by_others(w: World, made: list[tuple[int, int]], name: str, ticks: int, delay: int) -> None:
    """Let threads 1 to 3 execute tasks in the implicit barrier of a single construct, each the first free thread.

    `made` has when each task exists, and its number; a thread takes a task `delay` ticks after both are there.
    """
    for i in range(4):
        w.at(0, i).enter(w.now[0][i], "!$omp implicit barrier @tree.c:22")
    for t, task in made:
        i = min(range(1, 4), key=lambda i: w.now[0][i])
        begin = w.now[0][i] = max(w.now[0][i], t) + delay
        w.at(0, i).switch_task(begin, (0, task)).enter(begin, "!$omp task @tree.c:20")
        w.work(0, name, ticks, i)
        end = w.now[0][i]
        w.at(0, i).leave(end).complete_task(end, (0, task)).switch_task(end, (i, 0))
    last = max(w.now[0]) + 2
    for i in range(4):
        w.at(0, i).leave(last)
        w.now[0][i] = last


def _created_by_one(w: World, n: int, find: float, cost: int, name: str, ticks: int, delay: int) -> None:
    """Let the first thread create tasks in a single construct, which it has to find before if `find` is not 0, and the
    others execute them as they come."""
    one, made = w.at(0), []
    for construct in ("single", "single sblock"):
        one.enter(w.now[0][0], f"!$omp {construct} @tree.c:18")
    for _ in range(n):
        if find:
            w.work(0, "find_subtree", find)
        w.orders += 1
        t = w.now[0][0]
        w.now[0][0] = t + cost
        one.enter(t, "!$omp create task @tree.c:20").create_task(t, (0, w.orders)).leave(t + cost)
        made.append((t + cost, w.orders))
    one.leave(w.now[0][0]).leave(w.now[0][0])
    _executed_by_others(w, made, name, ticks, delay)


@program(RARE, 1, 4, noise=0.04)
def tasks_of_one(w: World, late: float) -> Truth:
    """One thread creates all tasks, slowly; the others execute them as they come."""
    for _ in range(8):
        with w.inside("traverse"), w.in_team(0, 80):
            _created_by_one(w, 24, 20 + 330 * late, 2, "visit_subtree", 400, 2)
    return Truth(("find_subtree",), 0, 0)


@program(RARE, 1, 4, noise=0.02)
def slow_creation(w: World, late: float) -> Truth:
    """One thread creates many small tasks, each of which the others can take only when its creation ends."""
    n = w.rng.choice([100, 200])
    for _ in range(6):
        with w.inside("traverse"), w.in_team(0, 80):
            _created_by_one(w, n, 0, 14 if late else 1, "leaf", 12, 1)
    return Truth(("traverse",), ANY)


@program(RARE, (1, 2), 4)
def master_section(w: World, late: float) -> Truth:
    """The master works in a master construct while the others wait at the barrier after it."""
    for _ in range(20):
        with w.inside("update_table"):
            for r in range(w.ranks):
                with w.in_team(r, 30):
                    w.spread(r, "local_part", 800)
                    t = w.now[r][0]
                    w.at(r).enter(t, "!$omp master @tab.c:33")
                    w.work(r, "merge_table", 30 + 900 * late)
                    w.at(r).leave(w.now[r][0])
                    w.team_barrier(r, "!$omp barrier @tab.c:36")
                    w.spread(r, "use_table", 500)
        w.allreduce()
    return Truth(("merge_table",), 0 if w.ranks == 1 else ANY, 0)


@program(RARE, 1, 4, noise=0.02)
def many_omp_barriers(w: World, late: float) -> Truth:
    """Threads meet at a barrier after every short piece of work."""
    for _ in range(10):
        with w.inside("sweep_planes"), w.in_team(0, 20):
            for _ in range(40):
                w.spread(0, "plane", 30)
                if late:
                    w.team_barrier(0, "!$omp barrier @plane.c:25", cost=40)
    return Truth(("sweep_planes",))


@program(RARE, 3, 4)
def alone_on_one_rank(w: World, late: float) -> Truth:
    """The master of one process computes alone what the other processes compute in parallel."""
    slow = w.rng.randrange(3)
    for _ in range(20):
        with w.inside("forces"):
            for r in range(3):
                if r == slow and late:
                    w.work(r, "short_range", 2800)
                else:
                    w.divided(r, 40, "short_range", 700)
        w.allreduce()
    return Truth(("short_range",), slow)


@program(RARE, at_least(3), 3, noise=0.03)
def only_masters_communicate(w: World, late: float) -> Truth:
    """Threads idle while their masters exchange large messages."""
    for _ in range(15):
        with w.inside("stencil"):
            for r in range(w.ranks):
                w.divided(r, 12, "rows", 1000)
        with w.inside("exchange_all"):
            w.halo(1 << 22 if late else 4096, 1500 if late else 8)
    return Truth(("exchange_all",), -1)


@program(RARE, 1, 4)
def lock_of_openmp(w: World, late: float) -> Truth:
    """Threads hold a lock of the OpenMP API for most of their work."""
    for _ in range(10):
        with w.inside("insert_all"), w.in_team(0, 60):
            for _ in range(5):
                w.spread(0, "hash_key", 300)
                free = 0
                for i in w.in_order(0):
                    w.lock(i, "omp_set_lock", free if late else 0)
                    w.work(0, "insert_key", 320, i)
                    free = w.unlock(i, "omp_unset_lock")
    return Truth(("insert_key", "insert_all"), ANY)


@program(RARE, 1, 4)
def nested_teams(w: World, late: float) -> Truth:
    """Two threads open parallel regions of their own, and a thread of one of these has more to do."""
    define = w.program.define
    about = {"kind": "group", "paradigm": "openmp", "flags": 0}
    teams = [define("communicators", **about, members=of) for of in ([0, 1], [0, 2], [1, 3])]
    slow = w.rng.choice([2, 3])
    for _ in range(20):
        with w.inside("solve_blocks"), w.in_team(0, 10, members=[0, 1], team=teams[0]):
            for i in range(2):
                with w.in_team(0, 14, members=[i, i + 2], team=teams[1 + i]):
                    for k in (i, i + 2):
                        w.work(0, "inner_rows", 900 + 900 * late * (k == slow), k)
    return Truth(("inner_rows",), 0, slow)


@program(RARE, 1, 4)
def taskwait_for_one(w: World, late: float) -> Truth:
    """Each thread creates tasks and waits for them; one of them is far longer."""
    slow, number = w.rng.randrange(4), 0
    for _ in range(20):
        with w.inside("walk_tree"), w.in_team(0, 80):
            for i in range(4):
                for k in range(4):
                    number += 1
                    w.task(i, number, "leaf", 300 + 1500 * late * (i == slow and k == 3))
                t = w.now[0][i]
                w.at(0, i).enter(t, "!$omp taskwait @tree.c:22").leave(t + 1)
                w.now[0][i] = t + 1
    return Truth(("leaf",), 0, slow)


# -- threads that are created one by one


@program(RARE, 1, 4)
def barrier_of_conditions(w: World, late: float) -> Truth:
    """Threads wait for a condition until the last one arrives and signals it to all."""
    w.create_threads()
    w.program.region("pthread_cond_broadcast", "pthread", "wrapper")
    slow = w.rng.randrange(1, 4)
    for _ in range(20):
        for i in range(1, 4):
            w.work(0, "move_particles", 900 + 1100 * late * (i == slow), i)
        *first, last = w.in_order(0, 1)
        for i in first:
            w.begin_wait(i)
            # the next one to come finds the mutex free
            w.now[0][1:] = [max(t, w.now[0][i] + 2) if k != i else t for k, t in enumerate(w.now[0][1:], 1)]
        free = w.signal(last, "pthread_cond_broadcast")
        for i in first:
            free = w.end_wait(i, free)
    w.join_threads()
    return Truth(("move_particles",), 0, slow)


@program(RARE, 1, 4)
def serial_before_threads(w: World, late: float) -> Truth:
    """The main thread prepares everything alone before it creates the threads of each step."""
    w.create_threads()
    w.join_threads()
    sequence = 4
    for _ in range(8):
        w.work(0, "load_images", 100 + 2500 * late)
        for i in range(1, 4):
            w.create(i, sequence + i)
            w.at(0, i).enter(w.now[0][i], "filter_worker")
            w.work(0, "filter_image", 1500, i)
            w.at(0, i).leave(w.now[0][i])
        for i in range(1, 4):
            w.join(i, sequence + i)
        sequence += 4
    return Truth(("load_images",), 0, 0)


# -- more of processes


@program(RARE, 6)
def coupled_models(w: World, late: float) -> Truth:
    """Two groups of processes execute different models, and one of these takes longer until they meet."""
    for _ in range(30):
        for r in range(6):
            w.work(r, *("ocean_step", 1000 + 900 * late) if r < 2 else ("atmosphere_step", 1000))
        with w.inside("couple"):
            w.allreduce()
    return Truth(("ocean_step",), ANY)


@program(RARE, at_least(4), noise=0.03)
def hot_spot(w: World, late: float) -> Truth:
    """All processes send large messages to one, which receives them one after the other."""
    hot = w.rng.randrange(w.ranks)
    for _ in range(15):
        w.everyone("integrate", 1500)
        with w.inside("gather_by_hand"):
            for r in range(w.ranks):
                if r != hot:
                    w.message(r, hot, 1 << 20, cost=500 if late else 20)
        w.barrier()
    return Truth(("gather_by_hand",), ANY)


@program(RARE, at_least(4), noise=0.03)
def noise_everywhere(w: World, late: float) -> Truth:
    """In each iteration a random process is interrupted for a while."""
    for _ in range(60):
        victim = w.rng.randrange(w.ranks)
        w.everyone("smooth", 1000, victim, 900 * late)
        w.allreduce()
    return Truth(("smooth",), ANY)


@program(RARE, (4, 6), noise=0.03)
def stalls_between_neighbours(w: World, late: float) -> Truth:
    """Now and then any process is stalled, for longer than there is computation that could hide it; only neighbours
    wait for each other, right after they post their messages."""
    for _ in range(60):
        for r in range(w.ranks):
            stalled = w.rng.random() < 0.1
            w.work(r, "relax", 800 + (4000 * stalled if late else 400))
        with w.inside("exchange"):
            w.halo()
    w.allreduce()
    return Truth(("relax",), ANY)


@program(RARE, at_least(3), noise=0.03)
def slow_collective_write(w: World, late: float) -> Truth:
    """Writing takes long on all processes alike."""
    for k in range(20):
        w.everyone("advance", 1000)
        if k % 2:
            with w.inside("checkpoint"):
                for r in range(w.ranks):
                    w.call(r, "MPI_File_write_at_all", 40 + 2500 * late)
        w.allreduce()
    return Truth(("checkpoint",))


@program(RARE, at_least(4))
def domino_of_sendrecv(w: World, late: float) -> Truth:
    """Each process works on the data from the previous one, and sends it on."""
    for _ in range(15):
        w.everyone("own_cells", 1000)
        with w.inside("pass_border"):
            for r in range(w.ranks):
                if r and late:
                    w.message(r - 1, r, 8192, cost=10)
                w.work(r, "update_border", 400)
        w.allreduce()
    return Truth(("pass_border", "update_border"), ANY)
