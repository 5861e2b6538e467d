"""More kinds of programs with one bottleneck (`benchmarks.kinds`): each can also be made without it, so that the gain
is known."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.world import ANY, Make, Truth, World, at_least, program
from tracecols.schema import EventKind as K

BOTTLENECKS: dict[str, Make] = {}
"""Makers of programs by name of the kind."""


def _late(name: str, region: str, usual: int, more: int, communicate: Callable[[World], None], least: int = 3) -> None:
    """Declare a kind of programs in which one process computes longer before processes communicate."""

    def execute(w: World, late: float) -> Truth:
        slow = w.rng.randrange(w.ranks)
        for _ in range(w.rng.choice([15, 40])):
            w.everyone(region, usual, slow, more * late)
            communicate(w)
        return Truth((region,), slow)

    execute.__name__ = name
    program(BOTTLENECKS, at_least(least))(execute)


def _inside(region: str, communicate: Callable[[World], None]) -> Callable[[World], None]:
    """Return the communication, wrapped in a function of the program."""

    def call(w: World) -> None:
        with w.inside(region):
            communicate(w)

    return call


def _ring(w: World) -> None:
    """All send to the next rank, and then receive."""
    sent = [w.send(r, (r + 1) % w.ranks, 6, length=800) for r in range(w.ranks)]
    for r in range(w.ranks):
        w.receive(r, (r - 1) % w.ranks, sent[r - 1], 6, length=800)


def _sendrecv(w: World) -> None:
    """All send to the next rank and receive in one call."""
    sent = {r: w.now[r][0] for r in range(w.ranks)}
    for r in range(w.ranks):
        source, t = (r - 1) % w.ranks, sent[r]
        end = w.now[r][0] = max(t, sent[source]) + 12
        one = w.at(r).enter(t, "MPI_Sendrecv").send(t, (r + 1) % w.ranks, length=4000)
        one.receive(end, source, length=4000).leave(end)


def _reduce_and_spread(w: World) -> None:
    w.to_root("MPI_Reduce", "reduce")
    w.from_root("MPI_Bcast", "bcast")


def _waitany(w: World) -> None:
    """Rank 0 receives from all in the order in which they send."""
    sent = {r: w.send(r, 0, length=64) for r in range(1, w.ranks)}
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
        with w.inside("gather_parts", [0]):
            sent = w.send(r, 0, length=64)
            w.call(0, "MPI_Probe", max(sent - w.now[0][0], 0) + 4)
            w.receive(0, r, sent, length=64)
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


_late("late_in_ring", "compute_flux", 1000, 1500, _inside("exchange_flux", _ring))
_late("late_for_sendrecv", "relax_strip", 1200, 900, _inside("shift", _sendrecv))
_late("late_for_neighbours", "stencil", 1000, 800, _inside("exchange", World.halo), 5)
_late(
    "late_for_polling", "prepare_step", 1000, 1500, _inside("poll_until_done", lambda w: w.poll("MPI_Test", every=40))
)
_late(
    "late_for_ialltoall",
    "make_coefficients",
    800,
    1000,
    lambda w: w.overlapped("MPI_Ialltoall", "alltoall", "meanwhile", 100),
)
_late("late_for_reduce", "residual", 800, 1200, _inside("norm", _reduce_and_spread))
_late("late_for_alltoall", "fft_lines", 1500, 1000, _inside("transpose", _alltoall))
_late("late_for_file", "convert_output", 1000, 2000, _inside("write_field", _file))


@program(BOTTLENECKS, at_least(3))
def late_for_waitany(w: World, late: float) -> Truth:
    """A worker is late, and the master receives from any worker, the first message first."""
    return _late_worker(w, late, "search", _waitany)


@program(BOTTLENECKS, at_least(3))
def late_for_probe(w: World, late: float) -> Truth:
    """A worker is late, and the master waits for its message with MPI_Probe."""
    return _late_worker(w, late, "local_part", _probe)


def _late_worker(w: World, late: float, region: str, communicate: Callable[[World], None]) -> Truth:
    slow = w.rng.randrange(1, w.ranks)
    for _ in range(30):
        w.everyone(region, 700, slow, 1200 * late)
        communicate(w)
    return Truth((region,), slow)


@program(BOTTLENECKS, at_least(3))
def late_for_scan(w: World, late: float) -> Truth:
    """Rank 0 is late for a scan, for which all others wait."""
    for _ in range(30):
        w.everyone("count_particles", 800, 0, 900 * late)
        _inside("number_particles", _scan)(w)
        w.everyone("move_particles", 600)
    return Truth(("count_particles",), 0)


@program(BOTTLENECKS, 2)
def late_for_iprobe(w: World, late: float) -> Truth:
    """A server polls with MPI_Iprobe for a request, which takes the client long to prepare."""
    slow = w.rng.randrange(2)
    server = 1 - slow
    for _ in range(40):
        w.work(server, "serve", 500)
        w.work(slow, "build_request", 500 + 1500 * late)
        sent = w.send(slow, server, length=64)
        with w.inside("wait_for_request", [server]):
            while w.now[server][0] < sent:
                w.call(server, "MPI_Iprobe", 2)
                w.now[server][0] += 23
            w.call(server, "MPI_Iprobe", 2)
            w.receive(server, slow, sent, length=64)
        w.message(server, slow, 64, tag=1)
    return Truth(("build_request",), slow)


@program(BOTTLENECKS, at_least(4))
def master_collects(w: World, late: float) -> Truth:
    """Workers send results synchronously; the master needs long for each."""
    for _ in range(30):
        for r in range(1, w.ranks):
            w.work(r, "evaluate", 1500)
        with w.inside("collect_results"):
            for r in range(1, w.ranks):
                w.message(r, 0, 1 << 18, cost=20, ready=True)
                w.work(0, "merge_result", 200 + 1000 * late)
    return Truth(("merge_result", "collect_results"), 0)


@program(BOTTLENECKS, at_least(4))
def master_prepares(w: World, late: float) -> Truth:
    """Workers wait for work that the master prepares piece by piece."""
    for _ in range(40):
        for r in range(1, w.ranks):
            w.work(0, "prepare_item", 50 + 600 * late)
            w.message(0, r, 256)
        for r in range(1, w.ranks):
            w.work(r, "process_item", 900)
    return Truth(("prepare_item",), 0)


@program(BOTTLENECKS, at_least(5))
def two_slow_ranks(w: World, late: float) -> Truth:
    """Two processes have more to do."""
    slow = w.rng.sample(range(w.ranks), 2)
    for _ in range(40):
        for r in range(w.ranks):
            w.work(r, "assemble_rows", 1000 + 1500 * late * (r in slow))
            w.work(r, "smooth_rows", 800)
        w.allreduce()
    return Truth(("assemble_rows",))


@program(BOTTLENECKS, at_least(4))
def slow_node(w: World, late: float) -> Truth:
    """One process is slower in everything."""
    slow = w.rng.randrange(w.ranks)
    parts = {"density": 600, "momentum": 700, "energy": 500, "forces": 650}
    for _ in range(40):
        for k, (region, ticks) in enumerate(parts.items()):
            w.everyone(region, ticks, slow, 0.5 * ticks * late)
            if k == 1:
                _inside("exchange", World.halo)(w)
        w.allreduce()
    return Truth(tuple(parts), slow)


@program(BOTTLENECKS, at_least(3))
def communication_inside(w: World, late: float) -> Truth:
    """The function that takes longer on one process communicates before and after its work."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(40):
        with w.inside("solve_and_exchange"):
            w.halo()
            for r in range(w.ranks):
                w.now[r][0] += w.noisy(1000 + 1200 * late * (r == slow))
            w.allreduce()
    return Truth(("solve_and_exchange",), slow)


@program(BOTTLENECKS, at_least(3))
def recursion(w: World, late: float) -> Truth:
    """A function calls itself more often on one process."""
    slow = w.rng.randrange(w.ranks)

    def down(r: int, depth: int) -> None:
        with w.inside("refine", [r]):
            w.now[r][0] += w.noisy(200)
            if depth:
                down(r, depth - 1)
            w.now[r][0] += w.noisy(100)

    for _ in range(20):
        for r in range(w.ranks):
            down(r, 3 + 6 * late * (r == slow))
            w.work(r, "project", 500)
        w.allreduce()
    return Truth(("refine",), slow)


@program(BOTTLENECKS, 6)
def rows_and_columns(w: World, late: float) -> Truth:
    """One of six processes is late for the reduction over its row."""
    groups = [range(3), range(3, 6)], [range(i, 6, 3) for i in range(3)]
    numbers = [[w.program.communicator(f"{of[0]}", of) for of in some] for some in groups]
    slow = w.rng.randrange(6)
    for _ in range(40):
        for region, some, of in zip(("panel", "update"), groups, numbers, strict=True):
            for r in range(6):
                w.work(r, region, 900 + 1300 * late * (r == slow and region == "panel"))
            with w.inside(f"sum_{region}"):
                for ranks, number in zip(some, of, strict=True):
                    w.among(ranks, number, "MPI_Allreduce", "allreduce")
    return Truth(("panel",), slow)


@program(BOTTLENECKS, at_least(3))
def since_the_middle(w: World, late: float) -> Truth:
    """From the middle of the run on, one process is slow."""
    slow = w.rng.randrange(w.ranks)
    for k in range(40):
        w.everyone("collide", 1000, slow, 1500 * late * (k >= 20), stream=500)
        w.allreduce()
    return Truth(("collide",), slow)


@program(BOTTLENECKS, at_least(3))
def gather_and_write(w: World, late: float) -> Truth:
    """Rank 0 receives the fields of all and writes them alone."""
    for _ in range(10):
        w.everyone("advance", 3000)
        with w.inside("save_fields"):
            for r in range(1, w.ranks):
                w.message(r, 0, 1 << 16, cost=20, ready=True)
                w.work(0, "fwrite", 20 + 1000 * late)
        w.barrier()
    return Truth(("fwrite", "save_fields"), 0)


@program(BOTTLENECKS, at_least(3), noise=0.03)
def slow_file(w: World, late: float) -> Truth:
    """Writing takes much longer on one process."""
    slow = w.rng.randrange(w.ranks)
    for _ in range(15):
        w.everyone("advance", 1500)
        with w.inside("write_restart"):
            for r in range(w.ranks):
                w.call(r, "MPI_File_write_at", 100 + 2500 * late * (r == slow))
        w.barrier()
    return Truth(("write_restart",), slow)


@program(BOTTLENECKS, at_least(3), noise=0.03)
def large_messages(w: World, late: float) -> Truth:
    """Neighbours exchange far more than they need."""
    for _ in range(25):
        w.everyone("stencil", 1000)
        with w.inside("exchange_everything"):
            w.halo(1 << 23 if late else 8000, 2500 if late else 8)
    return Truth(("exchange_everything",))


@program(BOTTLENECKS, at_least(4), noise=0.02)
def barriers(w: World, late: float) -> Truth:
    """A barrier after every small step; the work is even."""
    for k in range(400):
        w.everyone("small_step", 60)
        if late:
            with w.inside("sync_all"):
                w.collective("MPI_Barrier", "barrier", 0, 40)
        if k % 20 == 19:
            w.allreduce()
    return Truth(("sync_all",))


@program(BOTTLENECKS, at_least(3))
def window_lock_holder(w: World, late: float) -> Truth:
    """One process keeps a window locked while it computes."""
    window, slow, free = w.window(), w.rng.randrange(w.ranks), 0
    for _ in range(25):
        for r in sorted(range(w.ranks), key=lambda r: w.now[r][0]):
            w.work(r, "local_count", 1200)
            with w.inside("update_counter", [r]):
                w.lock_window(r, window, free)
                w.work(r, "modify", 60 + (2500 * late if r == slow else 0))
                free = w.unlock_window(r, window)
        w.barrier()
    return Truth(("modify", "update_counter"), slow)


# -- OpenMP


@program(BOTTLENECKS, 1, 4)
def late_for_omp_barrier(w: World, late: float) -> Truth:
    """One thread is late for an explicit barrier."""
    slow = w.rng.randrange(4)
    for _ in range(25):
        with w.inside("two_stages"), w.in_team(0, 20):
            w.spread(0, "stage_one", [900 + 900 * late * (i == slow) for i in range(4)])
            w.team_barrier(0, "!$omp barrier @solver.c:22")
            w.spread(0, "stage_two", 700)
    return Truth(("stage_one",), 0, slow)


@program(BOTTLENECKS, 1, 4)
def single(w: World, late: float) -> Truth:
    """The first thread to arrive does long work in a single construct."""
    for _ in range(25):
        with w.inside("assemble_all"), w.in_team(0, 30):
            who = w.rng.randrange(4)
            for i in range(4):
                w.work(0, "local_part", 900, i)
                one = w.at(0, i).enter(w.now[0][i], "!$omp single @solver.c:33")
                if i == who:
                    one.enter(w.now[0][i], "!$omp single sblock @solver.c:33")
                    w.work(0, "sum_up", 30 + 1000 * late, i)
                    one.leave(w.now[0][i])
                one.leave(w.now[0][i])
            w.team_barrier(0, "!$omp implicit barrier @solver.c:35")
            w.spread(0, "use_sum", 500)
    return Truth(("sum_up",), ANY)


@program(BOTTLENECKS, 1, 4)
def ordered(w: World, late: float) -> Truth:
    """Iterations of a loop wait for each other at an ordered section."""
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
                one = w.at(0, i).enter(t, "!$omp ordered @solver.c:53")
                one.enter(begin, "!$omp ordered sblock @solver.c:53")
                w.work(0, "append_line", 400, i)
                turn = w.now[0][i]
                one.leave(turn).leave(turn + 1)
                w.now[0][i] = turn + 1
            for i in range(4):
                w.at(0, i).leave(w.now[0][i])
    return Truth(("append_line", "print_lines"), ANY)


@program(BOTTLENECKS, 1, 4)
def lock_holder(w: World, late: float) -> Truth:
    """One thread stays in a critical section far longer than the others."""
    slow = w.rng.randrange(4)
    for _ in range(15):
        with w.inside("count_all"), w.in_team(0, 60):
            for _ in range(3):
                w.spread(0, "scan_cells", [500 if i != slow else 480 for i in range(4)])
                w.locked(0, "log_entry", [30 + 900 * late * (i == slow) for i in range(4)], 66)
    return Truth(("log_entry",), 0, slow)


@program(BOTTLENECKS, 1, 4)
def sections(w: World, late: float) -> Truth:
    """One of two sections takes longer."""
    for _ in range(25):
        with w.inside("assemble"), w.in_team(0, 70):
            for i in range(4):
                one = w.at(0, i).enter(w.now[0][i], "!$omp sections @solver.c:71")
                if i < 2:
                    one.enter(w.now[0][i], "!$omp section @solver.c:72")
                    w.work(0, ("left_half", "right_half")[i], 700 + 1500 * late * i, i)
                    one.leave(w.now[0][i])
                one.leave(w.now[0][i])
    return Truth(("right_half",), 0, 1)


@program(BOTTLENECKS, 1, 4, noise=0.02)
def small_tasks(w: World, late: float) -> Truth:
    """Tasks take less time than their creation."""
    number = 0
    for _ in range(8):
        with w.inside("spawn_all"), w.in_team(0, 80):
            for i in range(4):
                for _ in range(150 if late else 3):
                    number += 1
                    w.task(i, number, "small_task", 2 if late else 100, creation=6)
    return Truth(("spawn_all",))


@program(BOTTLENECKS, 3, 4)
def fewer_threads(w: World, late: float) -> Truth:
    """One process has half of the threads."""
    slow = w.rng.randrange(3)
    for _ in range(25):
        with w.inside("relax"):
            for r in range(3):
                n = 2 if late and r == slow else 4
                with w.in_team(r, 12, members=range(n)):
                    for i in range(n):
                        w.work(r, "rows", 4000 / n, i)
        w.allreduce()
    return Truth(("rows",), slow)


@program(BOTTLENECKS, 3, 4)
def masters_of_all(w: World, late: float) -> Truth:
    """The first thread of each process has more to do."""
    for _ in range(20):
        with w.inside("relax"):
            for r in range(3):
                w.divided(r, 12, "rows", [1000 + 900 * late * (i == 0) for i in range(w.threads)])
        w.allreduce()
    return Truth(("rows",), -1, 0)


# -- threads that are created one by one


@program(BOTTLENECKS, 1, 4)
def slow_created_thread(w: World, late: float) -> Truth:
    """One of the threads that are created has more to do, and the main thread joins all."""
    slow = w.rng.randrange(1, 4)
    w.create_threads()
    for _ in range(20):
        for i in range(1, 4):
            w.work(0, "chunk", 1000 + 1200 * late * (i == slow), i)
    w.join_threads()
    return Truth(("chunk",), 0, slow)


@program(BOTTLENECKS, 1, 2, noise=0.02)
def threads_again_and_again(w: World, late: float) -> Truth:
    """A thread is created for every small piece of work."""
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
    return Truth(("run_step",))


@program(BOTTLENECKS, 1, 3)
def slow_consumer(w: World, late: float) -> Truth:
    """A queue has room for one item, and its consumer is slow."""
    w.create_threads()
    for _ in range(30):
        w.work(0, "produce_item", 500, 1)
        _hand_over(w, *((1, 2) if w.now[0][1] >= w.now[0][2] else (2, 1)))
        w.work(0, "consume_item", 500 + 1500 * late, 2)
    w.join_threads()
    return Truth(("consume_item",), 0, 2)


def _hand_over(w: World, gives: int, waits: int) -> None:
    """Make a thread wait for a condition until another one signals it."""
    w.begin_wait(waits)
    w.now[0][gives] = max(w.now[0][gives], w.now[0][waits])
    w.end_wait(waits, w.signal(gives, "pthread_cond_signal"))
