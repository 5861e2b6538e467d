"""Rarer kinds of programs with one bottleneck (`benchmarks.kinds`): one-sided epochs, persistent requests, rendezvous,
communication of several threads, input and output in turn, constructs of OpenMP."""

from __future__ import annotations

import random

from benchmarks.bottlenecks import Made, Make
from benchmarks.world import ANY, PTHREADS, Truth, World, processes
from tracecols.schema import EventKind as K

# -- processes that are late


def _epoch_call(w: World, rank: int, name: str, until: int, window: int, group: int) -> None:
    """Make a call that begins or ends an epoch, and returns after the time `until`."""
    t = w.now[rank][0]
    end = w.now[rank][0] = max(t, until) + 4
    one = w.at(rank).enter(t, name)
    one.record(t + 1, K.RMA_GROUP_SYNC, rma={"window": window, "group": group}).leave(end)


def _windows(w: World) -> tuple[int, dict[int, int]]:
    """Define a window, and the groups of single processes."""
    window = w.program.define("windows", name="field", communicator=0, flags=0)
    alone = {
        r: w.program.define("groups", name="", type="comm_group", paradigm="mpi", flags=0, members=[r])
        for r in range(w.ranks)
    }
    return window, alone


def _put(w: World, rank: int, target: int, window: int) -> None:
    t = w.now[rank][0]
    w.at(rank).enter(t, "MPI_Put").record(
        t, K.RMA_PUT, rma={"window": window, "remote": target, "sent": 4096, "matching": 1}
    )
    w.at(rank).record(t + 2, K.RMA_OP_COMPLETE_BLOCKING, rma={"window": window, "matching": 1}).leave(t + 3)
    w.now[rank][0] = t + 3


def late_post(rng: random.Random, late: bool) -> Made:
    """A target opens its window late, and the origin waits in MPI_Win_start."""
    w = World(rng, processes(rng, 3))
    window, alone = _windows(w)
    target = rng.randrange(w.ranks)
    for _ in range(rng.choice([15, 40])):
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
    return w, Truth(("prepare_window",), target)


def late_complete(rng: random.Random, late: bool) -> Made:
    """An origin computes in its access epoch, and the target waits in MPI_Win_wait."""
    w = World(rng, 2)
    window, alone = _windows(w)
    origin = rng.randrange(2)
    target = 1 - origin
    for _ in range(rng.choice([15, 40])):
        w.work(origin, "own_part", 900)
        w.work(target, "own_part", 900)
        _epoch_call(w, target, "MPI_Win_post", 0, window, alone[origin])
        _epoch_call(w, origin, "MPI_Win_start", w.now[target][0] - 4, window, alone[target])
        _put(w, origin, target, window)
        w.work(origin, "in_epoch", 50 + 1200 * late)
        completed = w.now[origin][0]
        _epoch_call(w, origin, "MPI_Win_complete", 0, window, alone[target])
        _epoch_call(w, target, "MPI_Win_wait", completed, window, alone[origin])
    return w, Truth(("in_epoch",), origin)


def late_for_persistent(rng: random.Random, late: bool) -> Made:
    """Requests are made once and started again and again; one process is late."""
    w = World(rng, processes(rng, 3))
    slow = rng.randrange(w.ranks)
    for r in range(w.ranks):
        for name in ("MPI_Send_init", "MPI_Recv_init"):
            w.call(r, name, 2)
    for _ in range(rng.choice([20, 50])):
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
    return w, Truth(("smooth_block",), slow)


def late_for_rendezvous(rng: random.Random, late: bool) -> Made:
    """The receiver of large messages posts its receive late, and the sender waits in MPI_Wait."""
    w = World(rng, 2)
    slow = rng.randrange(2)
    fast = 1 - slow
    for _ in range(rng.choice([15, 40])):
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
    return w, Truth(("use_block",), slow)


def late_for_gather(rng: random.Random, late: bool) -> Made:
    """The root of MPI_Gather waits for one process, and all others wait for the root's scatter that follows."""
    w = World(rng, processes(rng, 3))
    slow = rng.randrange(1, w.ranks)
    for _ in range(rng.choice([15, 40])):
        w.everyone("local_spectrum", 700, slow, 1000 * late)
        with w.inside("collect_spectra"):
            w.to_root("MPI_Gather", "gather")
        w.work(0, "normalise", 60)
        w.from_root("MPI_Scatter", "scatter")
    return w, Truth(("local_spectrum",), slow)


def late_for_ibcast(rng: random.Random, late: bool) -> Made:
    """The root starts a non-blocking broadcast late."""
    w = World(rng, processes(rng, 3))
    root = rng.randrange(w.ranks)
    for _ in range(rng.choice([15, 40])):
        w.work(root, "choose_pivot", 100 + 1200 * late)
        begun = {}
        for r in range(w.ranks):
            t = begun[r] = w.now[r][0]
            w.at(r).enter(t, "MPI_Ibcast").start_collective(t + 1, 1).leave(t + 2)
            w.now[r][0] = t + 2
            w.work(r, "update_block", 900)
        for r in range(w.ranks):
            t = w.now[r][0]
            end = w.now[r][0] = max(t, begun[root]) + 6
            sizes = {"sent": 64, "received": 0} if r == root else {"sent": 0, "received": 64}
            one = w.at(r).enter(t, "MPI_Wait").complete_collective(end, "bcast", 1, root=root, **sizes)
            one.leave(end)
        w.allreduce()
    return w, Truth(("choose_pivot",), root)


def late_for_sparse_exchange(rng: random.Random, late: bool) -> Made:
    """Processes look for messages and test a non-blocking barrier in turn until all have come to it; one is late."""
    w = World(rng, processes(rng, 3))
    slow = rng.randrange(w.ranks)
    for _ in range(rng.choice([15, 40])):
        w.everyone("find_migrants", 900, slow, 900 * late)
        last = max(now[0] for now in w.now)
        with w.inside("migrate"):
            for r in range(w.ranks):
                t = w.now[r][0]
                one = w.at(r).enter(t, "MPI_Ibarrier").start_collective(t + 1, 1).leave(t + 2)
                t += 4
                while t < last:
                    one.enter(t, "MPI_Iprobe").leave(t + 2).enter(t + 4, "MPI_Test").leave(t + 6)
                    t += 30
                one.enter(t, "MPI_Test").complete_collective(t + 2, "barrier", 1).leave(t + 3)
                w.now[r][0] = t + 5
    return w, Truth(("find_migrants",), slow)


def in_turns(rng: random.Random, late: bool) -> Made:
    """Two processes are late in turns."""
    w = World(rng, processes(rng, 4))
    pair = rng.sample(range(w.ranks), 2)
    for k in range(40):
        w.everyone("push_ions", 1000, pair[k % 2], 1500 * late)
        w.allreduce()
    return w, Truth(("push_ions",), ANY)


def node_of_two(rng: random.Random, late: bool) -> Made:
    """All processes of one node are slower in everything."""
    w = World(rng, rng.choice([6, 8]))
    node = range(2) if rng.random() < 0.5 else range(w.ranks - 2, w.ranks)
    parts = {"density": 600, "momentum": 700, "energy": 500}
    for _ in range(30):
        for region, ticks in parts.items():
            for r in range(w.ranks):
                w.work(r, region, ticks * (1 + 0.6 * late * (r in node)))
        with w.inside("exchange"):
            w.halo()
        w.allreduce()
    return w, Truth(tuple(parts), ANY)


def slow_core(rng: random.Random, late: bool) -> Made:
    """Two threads of one process share a core, so both are slower in everything."""
    w = World(rng, 2, 4)
    rank, shared = rng.randrange(2), rng.sample(range(4), 2)
    parts = {"flux": 900, "source": 700, "update": 500}
    for _ in range(20):
        with w.inside("advance"):
            for line, (region, ticks) in enumerate(parts.items()):
                for r in range(2):
                    w.divided(
                        r, 10 * line, region, [ticks * (1 + late * (r == rank and i in shared)) for i in range(4)]
                    )
        w.allreduce()
    return w, Truth((*parts, "advance"), rank)


# -- work done in turn


def read_input(rng: random.Random, late: bool) -> Made:
    """One process reads the mesh at the start while all others wait for it."""
    w = World(rng, processes(rng, 3))
    with w.inside("setup"):
        with w.inside("load_mesh", [0]):
            for _ in range(5):
                w.work(0, "parse_elements", 200 + 3000 * late)
        w.from_root("MPI_Bcast", "bcast")
    for _ in range(20):
        w.everyone("advance", 1500)
        w.allreduce()
    return w, Truth(("parse_elements", "load_mesh"), 0)


def write_in_turn(rng: random.Random, late: bool) -> Made:
    """Each process waits for a token before it writes its part of a file."""
    w = World(rng, processes(rng, 4))
    for _ in range(10):
        w.everyone("advance", 2500)
        with w.inside("write_in_order"):
            for r in range(w.ranks):
                if r and late:
                    w.message(r - 1, r, 4, tag=3)
                w.work(r, "append_part", 900)
        w.barrier()
    return w, Truth(("write_in_order", "append_part"), ANY)


def communicators_again(rng: random.Random, late: bool) -> Made:
    """A communicator is made in every iteration."""
    w = World(rng, processes(rng, 3), noise=0.02)
    for k in range(40):
        w.everyone("select_active", 500)
        if late or not k:
            with w.inside("regroup"):
                for r in range(w.ranks):
                    w.at(r).enter(w.now[r][0], "MPI_Comm_split")
                w.meet(400, lambda r, t: w.at(r).leave(t))
        w.allreduce()
    return w, Truth(("regroup",))


def requests_for_work(rng: random.Random, late: bool) -> Made:
    """Workers request each small piece of work from a master, and the master takes as long to answer."""
    w = World(rng, rng.choice([4, 6]))
    share = 40 if late else 5
    for _ in range(share):
        for r in range(1, w.ranks):
            with w.inside("get_item", [r]):
                w.message(r, 0, 4, tag=1)
                w.work(0, "find_item", 200)
                w.message(0, r, 64, tag=2)
        for r in range(1, w.ranks):
            w.work(r, "treat_items", 200 * 40 / share)
    return w, Truth(("find_item",), 0)


def alltoall_of_much(rng: random.Random, late: bool) -> Made:
    """All exchange far more with all others than they need."""
    w = World(rng, processes(rng, 3), noise=0.03)
    for _ in range(25):
        w.everyone("local_sort", 1000)
        with w.inside("exchange_keys"):
            w.collective("MPI_Alltoallv", "alltoallv", (1 << 22) if late else 4096, 1500 if late else 20)
    return w, Truth(("exchange_keys",))


# -- several threads that communicate


def late_thread_that_sends(rng: random.Random, late: bool) -> Made:
    """Each thread exchanges messages with its counterpart in the other process (MPI_THREAD_MULTIPLE); one is late."""
    w = World(rng, 2, 3)
    rank, thread = rng.randrange(2), rng.randrange(3)
    for _ in range(20):
        with w.inside("advance_zones"), w.in_team(0, 30), w.in_team(1, 30):
            for i in range(3):
                for r in range(2):
                    w.work(r, "zone", 900 + 1100 * late * ((r, i) == (rank, thread)), i)
                sent = {r: w.now[r][i] for r in range(2)}
                for r in range(2):
                    w.at(r, i).enter(sent[r], "MPI_Send").send(sent[r], 1 - r, tag=i, length=64).leave(sent[r] + 4)
                for r in range(2):
                    t = sent[r] + 4
                    end = w.now[r][i] = max(t, sent[1 - r]) + 6
                    w.at(r, i).enter(t, "MPI_Recv").receive(end, 1 - r, tag=i, length=64).leave(end)
    return w, Truth(("zone",), rank, thread)


def calls_in_turn(rng: random.Random, late: bool) -> Made:
    """All threads call MPI, but in a critical section."""
    w = World(rng, 2, 4, noise=0.02)
    for _ in range(15):
        with w.inside("send_results"):
            for r in range(2):
                with w.in_team(r, 40):
                    for i in range(4):
                        w.work(r, "make_result", 600, i)
                    free = 0
                    for i in sorted(range(4), key=lambda i: w.now[r][i]):
                        t = w.now[r][i]
                        begin = max(free, t + 1) if late else t + 1
                        one = w.at(r, i)
                        if late:
                            w.orders += 1
                            one.enter(t, "!$omp critical @net.c:44").acquire(begin, 1, w.orders)
                            one.enter(begin, "!$omp critical sblock @net.c:44")
                        end = begin + 400
                        one.enter(begin, "MPI_Send").send(begin, 1 - r, tag=i, length=1 << 16).leave(end)
                        if late:
                            one.leave(end).release(end + 1, 1, w.orders).leave(end + 1)
                        free = end + 2
                        w.now[r][i] = end + 1
        for r in range(2):
            for i in range(4):
                w.at(r).enter(w.now[r][0], "MPI_Recv").receive(w.now[r][0] + 5, 1 - r, tag=i, length=1 << 16)
                w.at(r).leave(w.now[r][0] + 5)
                w.now[r][0] += 6
    return w, Truth(("send_results",), ANY)


# -- constructs of OpenMP


def triangular_loop(rng: random.Random, late: bool) -> Made:
    """Rows of a triangle are divided evenly by number, not by length."""
    w = World(rng, rng.choice([1, 2]), 4)
    for _ in range(20):
        with w.inside("factor"):
            for r in range(w.ranks):
                w.divided(r, 12, "eliminate_rows", [400 + (600 * i if late else 900) for i in range(4)])
        if w.ranks > 1:
            w.allreduce()
    return w, Truth(("eliminate_rows",), ANY)


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


def tasks_of_one(rng: random.Random, late: bool) -> Made:
    """One thread creates all tasks, slowly; the others execute them as they come."""
    w = World(rng, 1, 4, noise=0.04)
    number = 0
    for _ in range(8):
        with w.inside("traverse"), w.in_team(0, 80):
            one = (
                w.at(0, 0)
                .enter(w.now[0][0], "!$omp single @tree.c:18")
                .enter(w.now[0][0], "!$omp single sblock @tree.c:18")
            )
            made = []
            for _ in range(24):
                w.work(0, "find_subtree", 20 + 330 * late)
                number += 1
                t = w.now[0][0]
                one.enter(t, "!$omp create task @tree.c:20").create_task(t, (0, number)).leave(t + 2)
                w.now[0][0] = t + 2
                made.append((t + 2, number))
            one.leave(w.now[0][0]).leave(w.now[0][0])
            _executed_by_others(w, made, "visit_subtree", 400, 2)
    return w, Truth(("find_subtree",), 0, 0)


def slow_creation(rng: random.Random, late: bool) -> Made:
    """One thread creates many small tasks, each of which the others can take only when its creation ends."""
    w = World(rng, 1, 4, noise=0.02)
    number, n, cost = 0, rng.choice([100, 200]), 14 if late else 1
    for _ in range(6):
        with w.inside("traverse"), w.in_team(0, 80):
            one = (
                w.at(0)
                .enter(w.now[0][0], "!$omp single @tree.c:18")
                .enter(w.now[0][0], "!$omp single sblock @tree.c:18")
            )
            made = []
            for _ in range(n):
                number += 1
                t = w.now[0][0]
                one.enter(t, "!$omp create task @tree.c:20").create_task(t, (0, number)).leave(t + cost)
                w.now[0][0] = t + cost
                made.append((t + cost, number))
            one.leave(w.now[0][0]).leave(w.now[0][0])
            _executed_by_others(w, made, "leaf", 12, 1)
    return w, Truth(("traverse",), ANY)


def master_section(rng: random.Random, late: bool) -> Made:
    """The master works in a master construct while the others wait at the barrier after it."""
    w = World(rng, rng.choice([1, 2]), 4)
    for _ in range(20):
        with w.inside("update_table"):
            for r in range(w.ranks):
                with w.in_team(r, 30):
                    for i in range(4):
                        w.work(r, "local_part", 800, i)
                    t = w.now[r][0]
                    w.at(r).enter(t, "!$omp master @tab.c:33")
                    w.work(r, "merge_table", 30 + 900 * late)
                    w.at(r).leave(w.now[r][0])
                    w.team_barrier(r, "!$omp barrier @tab.c:36")
                    for i in range(4):
                        w.work(r, "use_table", 500, i)
        if w.ranks > 1:
            w.allreduce()
    return w, Truth(("merge_table",), 0 if w.ranks == 1 else ANY, 0)


def many_omp_barriers(rng: random.Random, late: bool) -> Made:
    """Threads meet at a barrier after every short piece of work."""
    w = World(rng, 1, 4, noise=0.02)
    for _ in range(10):
        with w.inside("sweep_planes"), w.in_team(0, 20):
            for _ in range(40):
                for i in range(4):
                    w.work(0, "plane", 30, i)
                if late:
                    w.team_barrier(0, "!$omp barrier @plane.c:25", cost=40)
    return w, Truth(("sweep_planes",))


def alone_on_one_rank(rng: random.Random, late: bool) -> Made:
    """The master of one process computes alone what the other processes compute in parallel."""
    w = World(rng, 3, 4)
    slow = rng.randrange(3)
    for _ in range(20):
        with w.inside("forces"):
            for r in range(3):
                if r == slow and late:
                    w.work(r, "short_range", 2800)
                else:
                    w.divided(r, 40, "short_range", [700] * 4)
        w.allreduce()
    return w, Truth(("short_range",), slow)


def only_masters_communicate(rng: random.Random, late: bool) -> Made:
    """Threads idle while their masters exchange large messages."""
    w = World(rng, processes(rng, 3), 3, noise=0.03)
    for _ in range(15):
        with w.inside("stencil"):
            for r in range(w.ranks):
                w.divided(r, 12, "rows", [1000] * 3)
        with w.inside("exchange_all"):
            w.halo(1 << 22 if late else 4096, 1500 if late else 8)
    return w, Truth(("exchange_all",), -1)


def lock_of_openmp(rng: random.Random, late: bool) -> Made:
    """Threads hold a lock of the OpenMP API for most of their work."""
    w = World(rng, 1, 4)
    for _ in range(10):
        with w.inside("insert_all"), w.in_team(0, 60):
            for _ in range(5):
                for i in range(4):
                    w.work(0, "hash_key", 300, i)
                free = 0
                for i in sorted(range(4), key=lambda i: w.now[0][i]):
                    t = w.now[0][i]
                    begin = w.now[0][i] = (max(free, t) if late else t) + 2
                    w.orders += 1
                    w.at(0, i).enter(t, "omp_set_lock").acquire(begin, 1, w.orders).leave(begin)
                    w.work(0, "insert_key", 320, i)
                    end = w.now[0][i]
                    w.at(0, i).enter(end, "omp_unset_lock").release(end + 1, 1, w.orders).leave(end + 1)
                    w.now[0][i], free = end + 1, end + 1
    return w, Truth(("insert_key", "insert_all"), ANY)


def nested_teams(rng: random.Random, late: bool) -> Made:
    """Two threads open parallel regions of their own, and a thread of one of these has more to do."""
    w = World(rng, 1, 4)
    define = w.program.define
    teams = [
        define("communicators", kind="group", paradigm="openmp", flags=0, members=of) for of in ([0, 1], [0, 2], [1, 3])
    ]
    slow = rng.choice([2, 3])
    for _ in range(20):
        with w.inside("solve_blocks"):
            w.at(0, 0).fork(w.now[0][0])
            for i in range(2):
                w.now[0][i] = max(w.now[0][i], w.now[0][0]) + 3 + i
                w.at(0, i).begin_team(w.now[0][i], teams[0]).enter(w.now[0][i], "!$omp parallel @nest.c:10")
            for i in range(2):
                inner, t = [i, i + 2], w.now[0][i]
                w.at(0, i).fork(t)
                for k in inner:
                    w.now[0][k] = max(w.now[0][k], t) + 3
                    w.at(0, k).begin_team(w.now[0][k], teams[1 + i]).enter(w.now[0][k], "!$omp parallel @nest.c:14")
                    w.work(0, "inner_rows", 900 + 900 * late * (k == slow), k)
                last = max(w.now[0][k] for k in inner) + 1
                for k in inner:
                    one = w.at(0, k).enter(w.now[0][k], "!$omp implicit barrier @nest.c:14")
                    one.leave(last).leave(last).end_team(last, teams[1 + i])
                    w.now[0][k] = last
                w.at(0, i).join(last + 2)
                w.now[0][i] = last + 2
            last = max(w.now[0][:2]) + 1
            for i in range(2):
                one = w.at(0, i).enter(w.now[0][i], "!$omp implicit barrier @nest.c:10")
                one.leave(last).leave(last).end_team(last, teams[0])
                w.now[0][i] = last
            w.now[0][0] = last + 2
            w.at(0, 0).join(last + 2)
    return w, Truth(("inner_rows",), 0, slow)


def taskwait_for_one(rng: random.Random, late: bool) -> Made:
    """Each thread creates tasks and waits for them; one of them is far longer."""
    w = World(rng, 1, 4)
    slow, number = rng.randrange(4), 0
    for _ in range(20):
        with w.inside("walk_tree"), w.in_team(0, 80):
            for i in range(4):
                for k in range(4):
                    number += 1
                    t = w.now[0][i]
                    one = w.at(0, i).enter(t, "!$omp create task @tree.c:20").create_task(t, (i, number)).leave(t + 1)
                    one.switch_task(t + 1, (i, number)).enter(t + 1, "!$omp task @tree.c:20")
                    w.now[0][i] = t + 1
                    w.work(0, "leaf", 300 + 1500 * late * (i == slow and k == 3), i)
                    t = w.now[0][i]
                    one.leave(t).complete_task(t, (i, number)).switch_task(t, (i, 0))
                t = w.now[0][i]
                w.at(0, i).enter(t, "!$omp taskwait @tree.c:22").leave(t + 1)
                w.now[0][i] = t + 1
    return w, Truth(("leaf",), 0, slow)


# -- threads that are created one by one


def barrier_of_conditions(rng: random.Random, late: bool) -> Made:
    """Threads wait for a condition until the last one arrives and signals it to all."""
    w = World(rng, 1, 4)
    w.create_threads()
    w.program.region("pthread_cond_broadcast", "pthread", "wrapper")
    slow = rng.randrange(1, 4)
    for _ in range(20):
        for i in range(1, 4):
            w.work(0, "move_particles", 900 + 1100 * late * (i == slow), i)
        *first, last = sorted(range(1, 4), key=lambda i: w.now[0][i])
        waits = []
        for i in first:
            t = w.now[0][i]
            w.orders += 1
            one = w.at(0, i).enter(t, "pthread_mutex_lock").acquire(t + 1, 1, w.orders, PTHREADS).leave(t + 1)
            one.enter(t + 2, "pthread_cond_wait").release(t + 2, 1, w.orders, PTHREADS)
            waits.append(i)
            for k in range(1, 4):
                w.now[0][k] = max(w.now[0][k], t + 4) if k != i else w.now[0][k]
        t = w.now[0][last]
        w.orders += 1
        one = w.at(0, last).enter(t, "pthread_mutex_lock").acquire(t + 1, 1, w.orders, PTHREADS).leave(t + 1)
        one.enter(t + 2, "pthread_cond_broadcast").leave(t + 3)
        one.enter(t + 3, "pthread_mutex_unlock").release(t + 4, 1, w.orders, PTHREADS).leave(t + 4)
        w.now[0][last] = t + 5
        free = t + 6
        for i in waits:
            w.orders += 1
            one = w.at(0, i).acquire(free, 1, w.orders, PTHREADS).leave(free)
            one.enter(free + 1, "pthread_mutex_unlock").release(free + 2, 1, w.orders, PTHREADS).leave(free + 2)
            w.now[0][i] = free + 3
            free += 3
    w.join_threads()
    return w, Truth(("move_particles",), 0, slow)


def serial_before_threads(rng: random.Random, late: bool) -> Made:
    """The main thread prepares everything alone before it creates the threads of each step."""
    w = World(rng, 1, 4)
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
    return w, Truth(("load_images",), 0, 0)


# -- more of processes


def coupled_models(rng: random.Random, late: bool) -> Made:
    """Two groups of processes execute different models, and one of these takes longer until they meet."""
    w = World(rng, 6)
    for _ in range(30):
        for r in range(6):
            if r < 2:
                w.work(r, "ocean_step", 1000 + 900 * late)
            else:
                w.work(r, "atmosphere_step", 1000)
        with w.inside("couple"):
            w.allreduce()
    return w, Truth(("ocean_step",), ANY)


def hot_spot(rng: random.Random, late: bool) -> Made:
    """All processes send large messages to one, which receives them one after the other."""
    w = World(rng, processes(rng, 4), noise=0.03)
    hot = rng.randrange(w.ranks)
    for _ in range(15):
        w.everyone("integrate", 1500)
        with w.inside("gather_by_hand"):
            for r in range(w.ranks):
                if r != hot:
                    w.message(r, hot, 1 << 20, cost=500 if late else 20)
        w.barrier()
    return w, Truth(("gather_by_hand",), ANY)


def noise_everywhere(rng: random.Random, late: bool) -> Made:
    """In each iteration a random process is interrupted for a while."""
    w = World(rng, processes(rng, 4), noise=0.03)
    for _ in range(60):
        victim = rng.randrange(w.ranks)
        w.everyone("smooth", 1000, victim, 900 * late)
        w.allreduce()
    return w, Truth(("smooth",), ANY)


def stalls_between_neighbours(rng: random.Random, late: bool) -> Made:
    """Now and then any process is stalled, for longer than there is computation that could hide it; only neighbours
    wait for each other, right after they post their messages."""
    w = World(rng, rng.choice([4, 6]), noise=0.03)
    for _ in range(60):
        for r in range(w.ranks):
            stalled = rng.random() < 0.1
            w.work(r, "relax", 800 + (4000 * stalled if late else 400))
        with w.inside("exchange"):
            w.halo()
    w.allreduce()
    return w, Truth(("relax",), ANY)


def slow_collective_write(rng: random.Random, late: bool) -> Made:
    """Writing takes long on all processes alike."""
    w = World(rng, processes(rng, 3), noise=0.03)
    for k in range(20):
        w.everyone("advance", 1000)
        if k % 2:
            with w.inside("checkpoint"):
                for r in range(w.ranks):
                    w.call(r, "MPI_File_write_at_all", 40 + 2500 * late)
        w.allreduce()
    return w, Truth(("checkpoint",))


def domino_of_sendrecv(rng: random.Random, late: bool) -> Made:
    """Each process works on the data from the previous one, and sends it on."""
    w = World(rng, processes(rng, 4))
    for _ in range(15):
        w.everyone("own_cells", 1000)
        with w.inside("pass_border"):
            for r in range(w.ranks):
                if r and late:
                    w.message(r - 1, r, 8192, cost=10)
                w.work(r, "update_border", 400)
        w.allreduce()
    return w, Truth(("pass_border", "update_border"), ANY)


RARE: dict[str, Make] = {
    make.__name__: make
    for make in (
        late_post, late_complete, late_for_persistent, late_for_rendezvous, late_for_gather, late_for_ibcast,
        late_for_sparse_exchange, in_turns, node_of_two, slow_core, read_input, write_in_turn, communicators_again,
        requests_for_work, alltoall_of_much, late_thread_that_sends, calls_in_turn, triangular_loop, tasks_of_one,
        slow_creation, master_section, many_omp_barriers, alone_on_one_rank, only_masters_communicate, lock_of_openmp,
        nested_teams, taskwait_for_one, barrier_of_conditions, serial_before_threads, coupled_models, hot_spot,
        noise_everywhere, stalls_between_neighbours, slow_collective_write, domino_of_sendrecv,
    )
}  # fmt: skip
"""Makers of programs by name of the kind."""
