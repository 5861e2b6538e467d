"""One tiny program for every wait state: which location waits, how long, and for what.

The pages of properties show each as a timeline; tests/docs/test_site.py analyses each and checks that the severity is
where the picture marks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tracecols.drawings.programs import PTHREAD, FileProgram, OffloadProgram, PosixProgram, ShmemProgram, WindowProgram
from tracecols.testing import Location, Program

PARALLEL = "!$omp parallel @a.c:1"
BARRIER = "!$omp barrier @a.c:5"
IMPLICIT = "!$omp implicit barrier @a.c:9"
CRITICAL, INSIDE = "!$omp critical @a.c:3", "!$omp critical sblock @a.c:3"


@dataclass(frozen=True)
class Interval:
    """A time range of one location that a property counts."""

    location: Location
    """The location that waits, or that is charged."""
    start: int
    end: int
    """`start` and `end`: ticks."""


@dataclass(frozen=True)
class Cause:
    """The event that others wait for."""

    location: Location
    """Location of the event."""
    time: int
    """Time of the event, in ticks."""
    what: str
    """Description of the event."""


@dataclass(frozen=True)
class Example:
    """A program that has a wait state."""

    program: Program
    intervals: tuple[Interval, ...]
    """All intervals that the property counts, and no others."""
    cause: Cause | None = None
    """The event that is waited for; None if there is no particular one."""


@dataclass(frozen=True)
class Shown:
    """The picture of a property."""

    make: Callable[[], Example]
    """Makes the program."""
    caption: str
    """Caption of the picture."""
    conventions: str
    """Conventions under which the property is found."""


EXAMPLES: dict[str, Shown] = {}
"""Pictures by id of the property."""


def shown_under(conventions: str) -> dict[str, Shown]:
    """Return the pictures of properties under some conventions; `exact` has those of Scalasca and more."""
    rules = {"exact": ("scalasca", "exact")}.get(conventions, (conventions,))
    return {name: shown for name, shown in EXAMPLES.items() if shown.conventions in rules}


def shows(
    *properties: str, caption: str, conventions: str = "scalasca", expert: tuple[str, ...] = ()
) -> Callable[[Callable[[], Example]], Callable[[], Example]]:
    """Declare the properties that a program shows, `expert` under the conventions of EXPERT: their severity is the
    length of the marked intervals.

    `caption` describes the picture: which location waits, from when to when, and for what.
    """

    def declare(make: Callable[[], Example]) -> Callable[[], Example]:
        EXAMPLES.update({name: Shown(make, caption, conventions) for name in properties})
        EXAMPLES.update({name: Shown(make, caption, "expert") for name in expert})
        return make

    return declare


# -- point-to-point ----------------------------------------------------------------------------------------------------


@shows("mpi_latesender", caption="Rank 1 enters MPI_Recv at 10 s and waits until rank 0 enters MPI_Send at 40 s.")
def late_sender() -> Example:
    """A message is sent 30 s after its receive was entered."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(40, "MPI_Send").send(42, to=1).leave(52).leave(60)
    receiver.enter(0, "main").enter(10, "MPI_Recv").receive(54, source=0).leave(55).leave(60)
    return Example(program, (Interval(receiver, 10, 40),), Cause(sender, 40, "rank 0 enters MPI_Send"))


@shows(
    "mpi_polling_wait",
    conventions="exact",
    caption="Rank 1 asks by MPI_Test for a message that rank 0 begins to send at 40 s: its calls until then are "
    "waiting.",
)
def polling() -> Example:
    """A receiver polls for a message."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(40, "MPI_Send").send(42, to=1).leave(46).leave(60)
    receiver.enter(0, "main").enter(4, "MPI_Irecv").post_receive(6).leave(8)
    for enter, leave in ((10, 20), (24, 34), (38, 42)):
        receiver.enter(enter, "MPI_Test").leave(leave)
    receiver.enter(46, "MPI_Test").complete_receive(48, source=0).leave(52).leave(60)
    waits = tuple(Interval(receiver, *of) for of in ((10, 20), (24, 34), (38, 40)))
    return Example(program, waits, Cause(sender, 40, "rank 0 enters MPI_Send"))


@shows(
    "mpi_latesender_wo",
    "mpi_lswo_same",
    caption="Rank 1 waits from 10 to 30 s for the message with tag 2, although the message with tag 1, which it "
    "receives later, was sent at 6 s. Both come from rank 0.",
)
def wrong_order() -> Example:
    """Two messages of one sender are received in the opposite order of sending."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(5, "MPI_Send").send(6, to=1, tag=1).leave(15)
    sender.enter(30, "MPI_Send").send(32, to=1, tag=2).leave(42).leave(60)
    receiver.enter(0, "main").enter(10, "MPI_Recv").receive(43, source=0, tag=2).leave(44)
    receiver.enter(46, "MPI_Recv").receive(55, source=0, tag=1).leave(56).leave(60)
    return Example(program, (Interval(receiver, 10, 30),), Cause(sender, 30, "rank 0 enters MPI_Send with tag 2"))


@shows(
    "mpi_lswo_different",
    caption="Rank 2 waits from 10 to 30 s for the message of rank 0, although the message of rank 1, which it "
    "receives later, was sent at 6 s.",
)
def wrong_order_of_sources() -> Example:
    """Messages of two senders are received in the opposite order of sending."""
    program = Program(processes=3)
    late, early, receiver = program.masters
    late.enter(0, "main").enter(30, "MPI_Send").send(32, to=2).leave(42).leave(60)
    early.enter(0, "main").enter(5, "MPI_Send").send(6, to=2).leave(15).leave(60)
    receiver.enter(0, "main").enter(10, "MPI_Recv").receive(43, source=0).leave(44)
    receiver.enter(46, "MPI_Recv").receive(55, source=1).leave(56).leave(60)
    return Example(program, (Interval(receiver, 10, 30),), Cause(late, 30, "rank 0 enters MPI_Send"))


@shows("mpi_latereceiver", caption="Rank 0 enters MPI_Send at 10 s and waits until rank 1 posts the receive at 40 s.")
def late_receiver() -> Example:
    """A receive is posted 30 s after its message is sent, by a send that waits for it."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(10, "MPI_Send").send(12, to=1).leave(52).leave(60)
    receiver.enter(0, "main").enter(40, "MPI_Recv").receive(53, source=0).leave(54).leave(60)
    return Example(program, (Interval(sender, 10, 40),), Cause(receiver, 40, "rank 1 enters MPI_Recv"))


@shows(
    "mpi_latereceiver_wo",
    caption="Rank 0 waits in MPI_Send from 18 to 40 s until rank 1 posts the receive for tag 2. Rank 1 receives the "
    "message with tag 1, which was sent before, still later.",
)
def late_receiver_wrong_order() -> Example:
    """A message is received after a later one, whose send waits."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(4, "MPI_Isend").start_send(5, to=1, request=1, tag=1).leave(14)
    sender.enter(18, "MPI_Send").send(19, to=1, tag=2).leave(50)
    sender.enter(62, "MPI_Wait").complete_send(63, request=1).leave(69).leave(70)
    receiver.enter(0, "main").enter(40, "MPI_Recv").receive(49, source=0, tag=2).leave(50)
    receiver.enter(52, "MPI_Recv").receive(60, source=0, tag=1).leave(61).leave(70)
    return Example(program, (Interval(sender, 18, 40),), Cause(receiver, 40, "rank 1 enters MPI_Recv for tag 2"))


# -- wavefronts --------------------------------------------------------------------------------------------------------

FROM = {"nw": 0, "sw": 1, "ne": 2, "se": 3}
"""The rank at each corner of a grid of two by two processes."""


def sweep(corner: int) -> Example:
    """A sweep in two blocks of 10 s through a grid of two by two processes, from the rank at a corner of it.

    Ranks are given as seen from the corner: 2 is the neighbour along the first dimension, 1 along the second, and 3 is
    opposite.
    """
    program = Program(processes=4)

    def at(rank: int) -> Location:
        return program.masters[rank ^ corner]

    def receive(rank: int, source: int, block: int, begin: int, end: int) -> None:
        at(rank).enter(begin, "MPI_Recv").receive(end, source=source ^ corner, tag=block).leave(end)

    def work_and_send(rank: int, begin: int, *to: int, block: int) -> None:
        at(rank).enter(begin, "sweep").leave(begin + 10)
        for time, other in enumerate(to, begin + 10):
            at(rank).enter(time, "MPI_Send").send(time, to=other ^ corner, tag=block).leave(time + 1)

    for master in program.masters:
        master.enter(0, "main")
    work_and_send(0, 0, 2, 1, block=1)
    work_and_send(0, 12, 2, 1, block=2)
    for rank, first in ((2, 12), (1, 13)):
        receive(rank, 0, 1, 2, first)
        work_and_send(rank, first, 3, block=1)
        receive(rank, 0, 2, first + 11, first + 12)
        work_and_send(rank, first + 12, 3, block=2)
    receive(3, 1, 1, 2, 24)
    receive(3, 2, 1, 24, 25)
    work_and_send(3, 25, block=1)
    receive(3, 1, 2, 35, 36)
    receive(3, 2, 2, 36, 37)
    work_and_send(3, 37, block=2)
    for master in program.masters:
        master.leave(50)
    waits = (Interval(at(2), 2, 10), Interval(at(1), 2, 11), Interval(at(3), 2, 23))
    return Example(program, waits, Cause(at(0), 10, f"rank {corner} sends its first block"))


for _corner, _rank in FROM.items():
    shows(
        f"mpi_latesender_wavefront_{_corner}",
        caption=f"A sweep begins at rank {_rank}, at a corner of a grid of two by two processes. The others wait for "
        "their first block, longest at the opposite corner.",
        conventions="exact",
    )(partial(sweep, _rank))


# -- collective operations ---------------------------------------------------------------------------------------------


def of_rank(given: Mapping[str, int | list[int]], rank: int) -> dict[str, int]:
    """Return the arguments of a rank: its element of each list, and the values common to all ranks."""
    return {key: value[rank] if isinstance(value, list) else value for key, value in given.items()}


def collective(name: str, op: str, times: list[tuple[int, int]], end: int = 60, **given: int | list[int]) -> Program:
    """Make processes that take part in one collective operation, each from its own begin to its own end."""
    program = Program(processes=len(times))
    for i, (one, (begin, leave)) in enumerate(zip(program.masters, times, strict=True)):
        one.enter(0, "main").enter(begin, name).begin_collective(begin).end_collective(leave, op, **of_rank(given, i))
        one.leave(leave).leave(end)
    return program


def waiting(name: str, op: str, leave: int, **given: int) -> Example:
    """Three processes reach an n-to-n operation at different times."""
    program = collective(name, op, [(10, leave), (25, leave), (40, leave)], **given)
    first, second, last = program.masters
    return Example(
        program, (Interval(first, 10, 40), Interval(second, 25, 40)), Cause(last, 40, f"rank 2 enters {name}")
    )


shows("mpi_barrier_wait", caption="Ranks 0 and 1 wait in MPI_Barrier until rank 2, the last, enters it at 40 s.")(
    partial(waiting, "MPI_Barrier", "barrier", 45)
)
shows("mpi_mgmt_comm_wait", caption="Ranks 0 and 1 wait in MPI_Comm_dup until rank 2, the last, enters it at 40 s.")(
    partial(waiting, "MPI_Comm_dup", "create_handle", 45)
)
shows("mpi_wait_nxn", caption="Ranks 0 and 1 wait in MPI_Allreduce until rank 2, the last, enters it at 40 s.")(
    partial(waiting, "MPI_Allreduce", "allreduce", 48, sent=8, received=8)
)


def completion(name: str, op: str, first_leave: int, **given: int) -> Example:
    """Three processes leave an n-to-n operation at different times."""
    program = collective(name, op, [(20, first_leave), (20, 42), (20, 50)], **given)
    first, second, last = program.masters
    return Example(
        program,
        (Interval(second, first_leave, 42), Interval(last, first_leave, 50)),
        Cause(first, first_leave, f"rank 0 leaves {name} first"),
    )


shows(
    "mpi_barrier_completion",
    caption="Rank 0 leaves MPI_Barrier at 30 s. What the others spend in it after that is completion.",
)(partial(completion, "MPI_Barrier", "barrier", 30))
shows(
    "mpi_nxn_completion",
    caption="Rank 0 leaves MPI_Allreduce at 32 s. What the others spend in it after that is completion.",
)(partial(completion, "MPI_Allreduce", "allreduce", 32, sent=8, received=8))


@shows("mpi_latebroadcast", caption="Ranks 1 and 2 wait in MPI_Bcast until its root, rank 0, enters it at 40 s.")
def late_broadcast() -> Example:
    """The root of a broadcast comes last."""
    program = collective(
        "MPI_Bcast", "bcast", [(40, 48), (10, 48), (25, 48)], root=0, sent=[8, 0, 0], received=[0, 8, 8]
    )
    root, first, second = program.masters
    return Example(
        program, (Interval(first, 10, 40), Interval(second, 25, 40)), Cause(root, 40, "the root enters MPI_Bcast")
    )


@shows(
    "mpi_earlyreduce",
    caption="The root of MPI_Reduce, rank 0, enters it at 10 s and waits until rank 2, the last sender, enters it at "
    "40 s.",
)
def early_reduce() -> Example:
    """The root of a reduction comes first."""
    program = collective(
        "MPI_Reduce", "reduce", [(10, 48), (25, 35), (40, 48)], root=0, sent=[0, 8, 8], received=[16, 0, 0]
    )
    root, _, last = program.masters
    return Example(program, (Interval(root, 10, 40),), Cause(last, 40, "rank 2 enters MPI_Reduce"))


@shows(
    "mpi_earlyscan",
    caption="Rank 1 enters MPI_Scan at 10 s and waits until rank 0, whose value it needs, enters it at 40 s. Rank 2 "
    "waits for the same, from 25 s on.",
)
def early_scan() -> Example:
    """Higher ranks begin a scan before lower ones."""
    program = collective("MPI_Scan", "scan", [(40, 46), (10, 48), (25, 50)], sent=8, received=8)
    lowest, first, second = program.masters
    return Example(
        program, (Interval(first, 10, 40), Interval(second, 25, 40)), Cause(lowest, 40, "rank 0 enters MPI_Scan")
    )


@shows(
    "mpi_init_completion", caption="Rank 0 leaves MPI_Init at 20 s. What rank 1 spends in it after that is completion."
)
def init_completion() -> Example:
    """Processes leave MPI_Init at different times."""
    program = Program(processes=2)
    first, second = program.masters
    for one, end in ((first, 20), (second, 40)):
        one.enter(0, "main").enter(5, "MPI_Init").leave(end).leave(60)
    return Example(program, (Interval(second, 20, 40),), Cause(first, 20, "rank 0 leaves MPI_Init first"))


def reached(name: str) -> Example:
    """Processes reach the start or end of MPI at different times."""
    program = Program(processes=2)
    first, last = program.masters
    for one, begin in ((first, 10), (last, 40)):
        one.enter(0, "main").enter(begin, name).leave(55).leave(60)
    return Example(program, (Interval(first, 10, 40),), Cause(last, 40, f"rank 1 enters {name}"))


shows(
    "mpi_init_wait",
    caption="Rank 0 enters MPI_Init at 10 s and waits until rank 1 enters it at 40 s.",
    conventions="exact",
)(partial(reached, "MPI_Init"))
shows("mpi_finalize_wait", caption="Rank 0 enters MPI_Finalize at 10 s and waits until rank 1 enters it at 40 s.")(
    partial(reached, "MPI_Finalize")
)


@shows(
    "mpi_nonblocking_collective_wait",
    caption="Rank 0 has started the operation, enters MPI_Wait at 18 s and waits until rank 1 starts it at 40 s.",
)
def nonblocking_wait() -> Example:
    """Processes start a non-blocking operation at different times."""
    program = Program(processes=2)
    first, last = program.masters
    for one, start, complete, end in ((first, 4, 18, 60), (last, 40, 52, 62)):
        one.enter(0, "main").enter(start, "MPI_Iallreduce").start_collective(start, 1).leave(start + 10)
        one.enter(complete, "MPI_Wait").complete_collective(end - 1, "allreduce", 1, sent=8, received=8)
        one.leave(end).leave(70)
    return Example(program, (Interval(first, 18, 40),), Cause(last, 40, "rank 1 enters MPI_Iallreduce"))


# -- OpenMP ------------------------------------------------------------------------------------------------------------


def team(n: int, begin: list[int]) -> Program:
    """Record the begin of a parallel region, forked at 5 s; `leave_team` ends it."""
    program = Program(threads=n)
    program.masters[0].enter(0, "main").fork(5)
    for one, time in zip(program.locations, begin, strict=True):
        one.begin_team(time).enter(time, PARALLEL)
    return program


def leave_team(program: Program, end: list[int], join: int) -> None:
    """End a parallel region; the program ends at 60 s."""
    for one, time in zip(program.locations, end, strict=True):
        one.leave(time).end_team(time)
    program.masters[0].join(join).leave(60)


def omp_barrier(name: str) -> Example:
    """Threads reach a barrier at different times."""
    program = team(3, [5, 5, 5])
    for one, begin in zip(program.locations, (15, 30, 45), strict=True):
        one.enter(begin, name).leave(55)
    leave_team(program, [55, 55, 55], 55)
    first, second, last = program.locations
    kind = "implicit" if name == IMPLICIT else "explicit"
    return Example(
        program,
        (Interval(first, 15, 45), Interval(second, 30, 45)),
        Cause(last, 45, f"thread 2 enters the {kind} barrier"),
    )


shows(
    "omp_ibarrier_wait",
    caption="Threads 0 and 1 wait in the implicit barrier at the end of the parallel region until thread 2 enters it "
    "at 45 s.",
)(partial(omp_barrier, IMPLICIT))
shows("omp_ebarrier_wait", caption="Threads 0 and 1 wait in the barrier until thread 2 enters it at 45 s.")(
    partial(omp_barrier, BARRIER)
)


@shows(
    "omp_lock_contention_api",
    caption="Thread 1 enters omp_set_lock at 18 s and waits until thread 0 releases the lock at 41 s.",
    expert=("omp_lock_competition", "omp_lock_api"),
)
def lock_contention() -> Example:
    """A lock of the OpenMP API is held by another thread: the second has to wait until the first releases it."""
    program = team(2, [5, 5])
    owner, waiting = program.locations
    owner.enter(10, "omp_set_lock").acquire(12, lock=1, order=1).leave(14)
    owner.enter(40, "omp_unset_lock").release(41, lock=1, order=1).leave(46)
    waiting.enter(18, "omp_set_lock").acquire(43, lock=1, order=2).leave(44)
    waiting.enter(48, "omp_unset_lock").release(49, lock=1, order=2).leave(53)
    leave_team(program, [55, 55], 55)
    return Example(program, (Interval(waiting, 18, 41),), Cause(owner, 41, "thread 0 releases the lock"))


@shows(
    "omp_lock_contention_critical",
    caption="Thread 1 reaches the critical section at 18 s and waits until thread 0 leaves it at 42 s.",
    expert=("omp_lock_critical",),
)
def critical_contention() -> Example:
    """A critical section is occupied by another thread."""
    program = team(2, [5, 5])
    owner, waiting = program.locations
    owner.enter(10, CRITICAL).acquire(11, lock=1, order=1).enter(11, INSIDE).leave(42).release(
        42, lock=1, order=1
    ).leave(43)
    waiting.enter(18, CRITICAL).acquire(43, lock=1, order=2).enter(43, INSIDE).leave(51).release(
        51, lock=1, order=2
    ).leave(52)
    leave_team(program, [55, 55], 55)
    return Example(program, (Interval(waiting, 18, 42),), Cause(owner, 42, "thread 0 leaves the critical section"))


@shows(
    "omp_fork",
    caption="The master forks at 5 s. Until its threads have entered the parallel region the time counts as Fork.",
)
def fork() -> Example:
    """Threads start some time after the fork."""
    program = team(3, [15, 20, 30])
    leave_team(program, [50, 50, 50], 50)
    return Example(
        program,
        tuple(Interval(one, 5, t) for one, t in zip(program.locations, (15, 20, 30), strict=True)),
        Cause(program.locations[0], 5, "the master forks"),
    )


@shows(
    "omp_management", caption="From the fork at 5 s to the begin of each thread, and from its end to the join at 55 s."
)
def management() -> Example:
    """Threads start some time after the fork, and end some time before the join."""
    program = team(2, [12, 20])
    leave_team(program, [50, 40], 55)
    master, worker = program.locations
    return Example(
        program,
        (Interval(master, 5, 12), Interval(master, 50, 55), Interval(worker, 5, 20), Interval(worker, 40, 55)),
        Cause(master, 55, "the master joins"),
    )


@shows(
    "omp_idle_threads",
    caption="Threads 1 and 2 have nothing to do while the master is outside of parallel regions: until 20 s, and "
    "from 45 s on.",
)
def idle_threads() -> Example:
    """A program that is serial before and after its parallel region."""
    program = Program(threads=3)
    master = program.masters[0]
    master.enter(0, "main").fork(20)
    for one in program.locations:
        one.begin_team(20).enter(20, PARALLEL).leave(45).end_team(45)
    master.join(45).leave(60)
    return Example(
        program,
        tuple(Interval(one, *t) for one in program.locations[1:] for t in ((0, 20), (45, 60))),
        Cause(master, 20, "the master forks"),
    )


# -- threads of POSIX --------------------------------------------------------------------------------------------------


@shows(
    "pthread_join_wait",
    caption="The main thread enters pthread_join at 20 s and waits until the thread that it created ends at 45 s.",
)
def join_wait() -> Example:
    """A thread is joined while it still runs."""
    program = PosixProgram()
    main, created = program.main, program.created
    main.enter(0, "main").enter(2, "pthread_create").create_thread(3, 1, program.pool).leave(10)
    created.begin_thread(5, 1, program.pool).call(5, 45, "work").end_thread(45, 1, program.pool)
    main.enter(20, "pthread_join").wait_for_thread(47, 1, program.pool).leave(48).leave(60)
    return Example(program, (Interval(main, 20, 45),), Cause(created, 45, "the created thread ends"))


def mutex(acquire: str) -> Example:
    """A mutex is held by another thread."""
    program = PosixProgram()
    owner, waiting = program.main, program.created
    owner.enter(0, "main").enter(5, "pthread_mutex_lock").acquire(6, 1, 1, PTHREAD).leave(15)
    owner.enter(38, "pthread_mutex_unlock").release(40, 1, 1, PTHREAD).leave(48).leave(60)
    waiting.enter(0, "work").enter(10, acquire).acquire(42, 1, 2, PTHREAD).leave(43)
    waiting.enter(46, "pthread_mutex_unlock").release(47, 1, 2, PTHREAD).leave(56).leave(60)
    return Example(program, (Interval(waiting, 10, 40),), Cause(owner, 40, "thread 0 releases the mutex"))


shows(
    "pthread_lock_contention_mutex_lock",
    caption="Thread 1 enters pthread_mutex_lock at 10 s and waits until thread 0 releases the mutex at 40 s.",
)(partial(mutex, "pthread_mutex_lock"))
shows(
    "pthread_lock_contention_conditional",
    caption="Thread 1 waits for a condition, and needs the mutex to go on. Until thread 0 releases it at 40 s the "
    "time counts as contention.",
)(partial(mutex, "pthread_cond_wait"))


@shows(
    "pthread_condition_wait",
    conventions="exact",
    caption="Thread 1 enters pthread_cond_wait at 10 s and waits for work until thread 0 signals the condition at "
    "40 s.",
)
def condition_wait() -> Example:
    """A thread waits until another one signals a condition."""
    program = PosixProgram()
    producer, consumer = program.main, program.created
    consumer.enter(0, "work").enter(2, "pthread_mutex_lock").acquire(3, 1, 1, PTHREAD).leave(6)
    consumer.enter(10, "pthread_cond_wait").release(11, 1, 1, PTHREAD).acquire(44, 1, 2, PTHREAD).leave(46)
    consumer.enter(50, "pthread_mutex_unlock").release(51, 1, 2, PTHREAD).leave(54).leave(60)
    producer.enter(0, "main").enter(40, "pthread_cond_signal").leave(50).leave(60)
    return Example(program, (Interval(consumer, 10, 40),), Cause(producer, 40, "thread 0 signals the condition"))


# -- one-sided communication -------------------------------------------------------------------------------------------


def window_call(name: str) -> Example:
    """Two processes reach a call on a window at different times."""
    program = WindowProgram(2)
    for rank, enter in enumerate((10, 40)):
        program.masters[rank].enter(0, "main")
        program.together(rank, name, enter, 56).leave(60)
    first, last = program.masters
    return Example(program, (Interval(first, 10, 40),), Cause(last, 40, f"rank 1 enters {name}"))


for _call, _of_expert in (("create", "wait_window_create"), ("free", "wait_window_free"), ("fence", "fence_wait")):
    shows(
        f"mpi_rma_wait_at_{_call}",
        caption=f"Rank 0 enters MPI_Win_{_call} at 10 s and waits until rank 1 enters it at 40 s.",
        expert=(f"mpi_rma_{_of_expert}",),
    )(partial(window_call, f"MPI_Win_{_call}"))


@shows(
    "mpi_rma_early_fence",
    caption="Rank 0 enters the second fence at 22 s. Until rank 1 has left MPI_Put at 40 s, the last access to rank "
    "0, the wait counts as Early Fence; from then on it does not.",
)
def early_fence() -> Example:
    """A process waits in a fence while others still access its window."""
    program = WindowProgram(2)
    first, last = program.masters
    for rank in range(2):
        program.masters[rank].enter(0, "main")
        program.together(rank, "MPI_Win_fence", 2, 14)
    program.put(1, 28, 40, target=0)
    program.together(0, "MPI_Win_fence", 22, 62).leave(65)
    program.together(1, "MPI_Win_fence", 50, 62).leave(65)
    return Example(program, (Interval(first, 22, 40),), Cause(last, 40, "rank 1 leaves MPI_Put"))


def exposure(late_complete: bool) -> Example:
    """A target waits in MPI_Win_wait for the origin."""
    program = WindowProgram(2)
    origin, target = program.masters
    origin.enter(0, "main"), target.enter(0, "main")
    program.synchronise(1, "MPI_Win_post", 2, 13, other=0)
    program.synchronise(0, "MPI_Win_start", 4, 15, other=1)
    program.put(0, 20, 28, target=1)
    program.synchronise(0, "MPI_Win_complete", 45, 60, other=1).leave(65)
    program.synchronise(1, "MPI_Win_wait", 18, 60, other=0).leave(65)
    return Example(
        program,
        (Interval(target, 28 if late_complete else 18, 45),),
        Cause(origin, 45, "rank 0 enters MPI_Win_complete"),
    )


shows(
    "mpi_rma_early_wait",
    caption="Rank 1 enters MPI_Win_wait at 18 s and waits until rank 0, the origin, enters MPI_Win_complete at 45 s.",
    expert=("mpi_rma_earlywait",),
)(partial(exposure, late_complete=False))
shows(
    "mpi_rma_late_complete",
    caption="Rank 0 has left its last access at 28 s, but enters MPI_Win_complete at 45 s only. Of the time that rank "
    "1 waits in MPI_Win_wait, the part between the two is Late Complete.",
    expert=("mpi_rma_latecomplete",),
)(partial(exposure, late_complete=True))


def late_post(in_start: bool) -> Example:
    """An origin waits for the target to expose its window, in MPI_Win_start or in its first access."""
    program = WindowProgram(2)
    origin, target = program.masters
    origin.enter(0, "main"), target.enter(0, "main")
    if in_start:
        program.synchronise(0, "MPI_Win_start", 10, 42, other=1)
        program.put(0, 43, 49, target=1)
    else:
        program.synchronise(0, "MPI_Win_start", 2, 13, other=1)
        program.put(0, 16, 45, target=1)
    program.synchronise(1, "MPI_Win_post", 40, 50, other=0)
    program.synchronise(0, "MPI_Win_complete", 51, 65, other=1).leave(70)
    program.synchronise(1, "MPI_Win_wait", 54, 66, other=0).leave(70)
    return Example(
        program, (Interval(origin, 10 if in_start else 16, 40),), Cause(target, 40, "rank 1 enters MPI_Win_post")
    )


shows(
    "mpi_rma_sync_late_post",
    caption="Rank 0 enters MPI_Win_start at 10 s and waits until rank 1, the target, enters MPI_Win_post at 40 s.",
    expert=("mpi_rma_latepost",),
)(partial(late_post, in_start=True))
shows(
    "mpi_rma_comm_late_post",
    caption="Rank 0 enters MPI_Put at 16 s and waits until rank 1, the target, exposes its window in MPI_Win_post at "
    "40 s.",
    expert=("mpi_rma_earlytransfer",),
)(partial(late_post, in_start=False))


@shows(
    "mpi_rma_sync_lock_competition",
    caption="Rank 1 enters MPI_Win_lock at 15 s and waits until rank 0 releases the lock at 40 s.",
)
def window_lock() -> Example:
    """Two processes lock a window one after the other."""
    program = WindowProgram(2)
    owner, waiting = program.masters
    owner.enter(0, "main"), waiting.enter(0, "main")
    program.lock(0, 3, 13, unlock=30, release=40).leave(65)
    program.lock(1, 15, 44, unlock=48, release=60).leave(65)
    return Example(program, (Interval(waiting, 15, 40),), Cause(owner, 40, "rank 0 releases the lock"))


# -- files -------------------------------------------------------------------------------------------------------------


def file_calls(call: Callable[[FileProgram, int, int, int], Location], name: str) -> Example:
    """Two processes reach a call for a file at different times."""
    program = FileProgram(2)
    for rank, begin in enumerate((10, 40)):
        program.masters[rank].enter(0, "main")
        call(program, rank, begin, 50).leave(60)
    first, last = program.masters
    return Example(program, (Interval(first, 10, 40),), Cause(last, 40, f"rank 1 enters {name}"))


shows("mpi_mgmt_file_wait", caption="Rank 0 enters MPI_File_open at 10 s and waits until rank 1 enters it at 40 s.")(
    partial(file_calls, FileProgram.open, "MPI_File_open")
)
shows(
    "mpi_io_collective_wait",
    caption="Rank 0 enters MPI_File_write_all at 10 s and waits until rank 1 enters it at 40 s.",
    conventions="exact",
)(partial(file_calls, FileProgram.write_all, "MPI_File_write_all"))


# -- SHMEM -------------------------------------------------------------------------------------------------------------


def shmem(name: str, op: str, root: int = -1) -> Example:
    """Two processes reach an operation at different times; a root comes last."""
    program = ShmemProgram(2)
    first, last = program.masters if root < 0 else program.masters[::-1]
    for one, begin in ((first, 10), (last, 40)):
        one.enter(0, "main")
        program.together(program.masters.index(one), name, op, begin, 50, root).leave(60)
    who = "process 1" if root < 0 else "the root"
    return Example(program, (Interval(first, 10, 40),), Cause(last, 40, f"{who} enters {name}"))


shows(
    "shmem_barrier_wait",
    caption="Process 0 enters shmem_barrier_all at 10 s and waits until process 1 enters it at 40 s.",
)(partial(shmem, "shmem_barrier_all", "barrier"))
shows(
    "shmem_wait_nxn",
    caption="Process 0 enters shmem_int_sum_to_all at 10 s and waits until process 1 enters it at 40 s.",
)(partial(shmem, "shmem_int_sum_to_all", "allreduce"))
shows(
    "shmem_latebroadcast", caption="Process 1 waits in shmem_broadcast64 until its root, process 0, enters it at 40 s."
)(partial(shmem, "shmem_broadcast64", "bcast", root=0))


@shows(
    "shmem_lock_competition",
    caption="Process 1 enters shmem_set_lock at 15 s and waits until process 0 has cleared the lock at 40 s.",
)
def shmem_lock() -> Example:
    """A lock of SHMEM is held by another process."""
    program = ShmemProgram(2)
    owner, waiting = program.masters
    owner.enter(0, "main"), waiting.enter(0, "main")
    program.lock(0, 3, 8, clear=30, release=40).leave(65)
    program.lock(1, 15, 42, clear=50, release=60).leave(65)
    return Example(program, (Interval(waiting, 15, 40),), Cause(owner, 40, "process 0 clears the lock"))


# -- devices -----------------------------------------------------------------------------------------------------------


Marked = tuple[str, int, str]
"""An event: `host` or `device`, time, and description."""


def offload(
    where: str, *times: tuple[int, int], cause: Marked | None = None, beside: tuple[int, int] | None = None
) -> Example:
    """A kernel, a blocking copy after it, and a synchronisation that has nothing to wait for; `beside` is the begin and
    end of a kernel of another stream."""
    program = OffloadProgram()
    program.host.enter(0, "main")
    program.call(8, 20, "cuLaunchKernel").kernel(18, 40)
    program.call(26, 56, "cuMemcpyDtoH_v2").copy_to_host(44, 54)
    program.call(64, 78, "cuCtxSynchronize")
    program.host.leave(80)
    if beside:
        program.stream(0, "CUDA[0:8]").kernel(*beside)
    locations = {"host": program.host, "device": program.device}
    intervals = tuple(Interval(locations[where], *t) for t in times)
    return Example(program, intervals, cause and Cause(locations[cause[0]], *cause[1:]))


shows(
    "device_late_launch",
    caption="The stream has nothing to do while the host is in the call that launches its kernel, from 8 to 18 s.",
)(partial(offload, "host", (8, 18), cause=("device", 18, "the kernel begins")))
shows(
    "device_copy_wait",
    caption="The host enters the copying call at 26 s. Until the kernel that was launched before ends at 40 s it "
    "waits.",
)(partial(offload, "host", (26, 40), cause=("device", 40, "the kernel ends")))
shows(
    "device_copy_sync_wait",
    caption="The host enters the copying call at 26 s. It waits for the kernel, and then for the copy, until 54 s.",
    conventions="exact",
)(partial(offload, "host", (26, 54), cause=("device", 54, "the copy ends")))
shows("device_blocking_copy", caption="From 44 to 54 s the host waits in the call for the transfer itself.")(
    partial(offload, "host", (44, 54), cause=("device", 54, "the copy ends"))
)
shows(
    "device_useless_sync",
    caption="Nothing is pending when the host enters cuCtxSynchronize at 64 s: the call costs its own time.",
)(partial(offload, "host", (64, 78)))


def early_wait() -> Example:
    """A synchronisation long before the kernel ends."""
    program = OffloadProgram()
    program.host.enter(0, "main")
    program.call(5, 18, "cuLaunchKernel").kernel(15, 50).call(24, 52, "cuCtxSynchronize")
    program.host.leave(60)
    return Example(program, (Interval(program.host, 24, 50),), Cause(program.device, 50, "the kernel ends"))


EARLY_WAIT = "The host enters cuCtxSynchronize at 24 s and waits until the kernel ends at 50 s."
shows("device_early_wait", caption=EARLY_WAIT)(early_wait)
shows("device_sync_wait", caption=EARLY_WAIT, conventions="exact")(early_wait)
shows(
    "device_time",
    caption="The time of a stream is that of its process, divided into what it does: idle, kernel, idle, copy, idle.",
)(partial(offload, "device", (0, 18), (18, 40), (40, 44), (44, 54), (54, 80)))
shows("device_kernels", caption="A kernel runs on the stream from 18 to 40 s.")(partial(offload, "device", (18, 40)))
shows(
    "device_copies",
    "device_copies_to_host",
    "device_copies_exposed",
    caption="A copy to the host runs on the stream from 44 to 54 s. No kernel runs meanwhile: it is exposed.",
)(partial(offload, "device", (44, 54)))
shows(
    "device_copies_hidden",
    caption="Of the copy from 44 to 54 s, the part until 50 s is covered by a kernel on another stream.",
)(partial(offload, "device", (44, 50), beside=(42, 50)))
shows("device_idle", caption="The stream does nothing before the kernel, between kernel and copy, and after the copy.")(
    partial(offload, "device", (0, 18), (40, 44), (54, 80))
)
LAUNCH = ("host", 8, "the host enters cuLaunchKernel")
shows(
    "device_idle_before_launch",
    caption="Until the host enters the launching call at 8 s the stream is idle because the host is late; so it is "
    "after the copy, when nothing is launched any more.",
)(partial(offload, "device", (0, 8), (54, 80), cause=LAUNCH))
shows(
    "device_idle_after_launch",
    caption="The kernel was launched at 8 s and begins at 18 s; the copy was asked for at 26 s and begins 4 s after "
    "the kernel ended.",
)(partial(offload, "device", (8, 18), (40, 44), cause=LAUNCH))


def copying(copy: Callable[[OffloadProgram, int, int], OffloadProgram]) -> Example:
    """A copy in some direction, from 20 to 40 s."""
    program = OffloadProgram()
    program.host.enter(0, "main")
    program.call(10, 46, "cuMemcpy")
    copy(program, 20, 40)
    program.host.leave(60)
    return Example(program, (Interval(program.device, 20, 40),), None)


shows("device_copies_to_device", caption="A copy to the device runs on the stream from 20 to 40 s.")(
    partial(copying, OffloadProgram.copy_to_device)
)
shows("device_copies_within", caption="A copy within the device runs on the stream from 20 to 40 s.")(
    partial(copying, OffloadProgram.copy_within)
)


# -- kernels that communicate ------------------------------------------------------------------------------------------


def streams(
    name: str, op: str, times: list[tuple[int, int]], root: int | None = None, n: int = 8
) -> tuple[Program, list[Location]]:
    """Make streams of several processes that take part in an operation, each from its own begin to its end."""
    program = Program(processes=len(times))
    for master in program.masters:
        master.enter(0, "main").leave(60)
    found = [program.stream(rank) for rank in range(len(times))]
    world = program.nccl_communicator("world", found)
    for rank, (stream, (begin, end)) in enumerate(zip(found, times, strict=True)):
        # in a broadcast the root sends, in a reduction it receives
        sent, received = (n, n) if root is None else (n * (rank == root), n * (rank != root))
        if op == "reduce":
            sent, received = n, n * (rank == root)
        stream.collective(begin, end, world, op, root=root, sent=sent, received=received, region=name)
    return program, found


def waiting_stream(name: str, op: str, root: int | None = None, n: int = 8) -> Example:
    """The kernel of rank 0 begins at 10 s, that of rank 1 at 40 s."""
    program, (first, last) = streams(name, op, [(10, 50), (40, 50)], root, n)
    return Example(program, (Interval(first, 10, 40),), Cause(last, 40, "the kernel of rank 1 begins"))


WAITING_KERNEL = "The kernel of rank 0 begins at 10 s and waits until that of rank 1 begins at 40 s."


shows("nccl_wait_nxn", caption=WAITING_KERNEL, conventions="exact")(
    partial(waiting_stream, "ncclAllReduce", "allreduce")
)
shows("nccl_barrier_wait", caption=WAITING_KERNEL, conventions="exact")(
    partial(waiting_stream, "ncclBarrier", "barrier", n=0)
)
shows("nccl_latebroadcast", caption=f"{WAITING_KERNEL} Rank 1 is the root.", conventions="exact")(
    partial(waiting_stream, "ncclBroadcast", "bcast", root=1)
)
shows("nccl_earlyreduce", caption=f"{WAITING_KERNEL} Rank 0 is the root.", conventions="exact")(
    partial(waiting_stream, "ncclReduce", "reduce", root=0)
)


def completing(name: str, op: str, n: int) -> Example:
    """The kernel of rank 0 ends at 30 s, that of rank 1 at 50 s."""
    program, (first, last) = streams(name, op, [(20, 30), (20, 50)], n=n)
    return Example(program, (Interval(last, 30, 50),), Cause(first, 30, "the kernel of rank 0 ends first"))


COMPLETION = "The kernel of rank 0 ends at 30 s. What that of rank 1 takes after that is completion."
shows("nccl_nxn_completion", caption=COMPLETION, conventions="exact")(
    partial(completing, "ncclAllReduce", "allreduce", 8)
)
shows("nccl_barrier_completion", caption=COMPLETION, conventions="exact")(
    partial(completing, "ncclBarrier", "barrier", 0)
)


def communicating(begin: int) -> Example:
    """Kernels communicate from 10 and 40 to 50 s; that of the first counts from `begin` on."""
    program, (first, last) = streams("ncclAllReduce", "allreduce", [(10, 50), (40, 50)])
    return Example(program, (Interval(first, begin, 50), Interval(last, 40, 50)), None)


shows(
    "nccl_communication",
    "nccl_exposed",
    caption="The kernels communicate from 10 and 40 to 50 s. No kernel computes meanwhile: they are exposed.",
    conventions="exact",
)(partial(communicating, 10))
shows(
    "nccl_transfer",
    caption="Both kernels of the operation run from 40 to 50 s. What is no waiting is transfer.",
    conventions="exact",
)(partial(communicating, 40))


@shows(
    "nccl_overlapped",
    caption="Of the kernel of rank 0 that communicates from 10 to 50 s, the part until 25 s is covered by a "
    "kernel on another stream.",
    conventions="exact",
)
def nccl_overlaps() -> Example:
    """A kernel that communicates while another one computes."""
    program, (first, _) = streams("ncclAllReduce", "allreduce", [(10, 50), (10, 50)])
    program.stream(0, "CUDA[0:8]").kernel(5, 25)
    return Example(program, (Interval(first, 10, 25),), None)


def nccl_message(sends: int, receives: int) -> Example:
    """Kernels that send a message from rank 0 to rank 1 and receive it begin at different times."""
    program = Program(processes=2)
    for master in program.masters:
        master.enter(0, "main").leave(60)
    found = sender, receiver = [program.stream(rank) for rank in range(2)]
    world = program.nccl_communicator("world", found)
    sender.enter(sends, "ncclSend").send(sends, to=1, communicator=world).leave(50)
    receiver.enter(receives, "ncclRecv").receive(50, source=0, communicator=world).leave(50)
    late = int(receives > sends)
    return Example(
        program,
        (Interval(found[1 - late], min(sends, receives), max(sends, receives)),),
        Cause(found[late], max(sends, receives), f"the kernel of rank {late} begins"),
    )


shows(
    "nccl_latesender",
    caption="The kernel of rank 1 receives from 10 s on and waits until that of rank 0 begins to send at 40 s.",
    conventions="exact",
)(partial(nccl_message, sends=40, receives=10))
shows(
    "nccl_latereceiver",
    caption="The kernel of rank 0 sends from 10 s on and waits until that of rank 1 begins to receive at 40 s.",
    conventions="exact",
)(partial(nccl_message, sends=10, receives=40))


# -- root causes -------------------------------------------------------------------------------------------------------


def computing_sender(who: int) -> Example:
    """The sender computes 30 s longer than the receiver; `who` selects the sender's excess or the receiver's wait."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(0, "compute").leave(40).enter(40, "MPI_Send").send(42, to=1).leave(52).leave(60)
    receiver.enter(0, "main").enter(0, "compute").leave(10)
    receiver.enter(10, "MPI_Recv").receive(54, source=0).leave(55).leave(60)
    return Example(program, (Interval(program.masters[who], 10, 40),), Cause(sender, 40, "rank 0 enters MPI_Send"))


shows(
    "delay_latesender",
    caption="Rank 1 waits 30 s in MPI_Recv because rank 0 computes 30 s longer before it sends. These 30 s are "
    "charged to the computation of rank 0.",
)(partial(computing_sender, 0))
shows(
    "mpi_wait_direct_latesender",
    "mpi_wait_terminal_ls",
    caption="Rank 1 waits 30 s in MPI_Recv. Rank 0 did not wait itself before it sent, it computed: the wait is "
    "direct. Rank 1 makes nobody wait later: the wait is terminal.",
)(partial(computing_sender, 1))


def computing(late: int, name: str, op: str, leave: int = 50, **given: int | list[int]) -> Example:
    """One of two processes computes 30 s longer before an operation."""
    program = Program(processes=2)
    for rank, one in enumerate(program.masters):
        begin = 40 if rank == late else 10
        one.enter(0, "main").enter(0, "compute").leave(begin).enter(begin, name).begin_collective(begin)
        one.end_collective(leave, op, **of_rank(given, rank)).leave(leave).leave(60)
    last = program.masters[late]
    return Example(program, (Interval(last, 10, 40),), Cause(last, 40, f"rank {late} enters {name}"))


shows(
    "delay_barrier",
    caption="Rank 0 waits 30 s in MPI_Barrier because rank 1 computes 30 s longer. These 30 s are charged to the "
    "computation of rank 1.",
)(partial(computing, 1, "MPI_Barrier", "barrier"))
shows(
    "delay_n2n",
    caption="Rank 0 waits 30 s in MPI_Allreduce because rank 1 computes 30 s longer. These 30 s are charged to the "
    "computation of rank 1.",
)(partial(computing, 1, "MPI_Allreduce", "allreduce", 52, sent=8, received=8))
shows(
    "delay_12n",
    caption="Rank 1 waits 30 s in MPI_Bcast because rank 0, the root, computes 30 s longer. These 30 s are charged "
    "to the computation of rank 0.",
)(partial(computing, 0, "MPI_Bcast", "bcast", root=0, sent=[8, 0], received=[0, 8]))
shows(
    "delay_n21",
    caption="Rank 0, the root, waits 30 s in MPI_Reduce because rank 1 computes 30 s longer. These 30 s are charged "
    "to the computation of rank 1.",
)(partial(computing, 1, "MPI_Reduce", "reduce", root=0, sent=[0, 8], received=[8, 0]))


@shows(
    "delay_ompbarrier",
    caption="Thread 0 waits 30 s in the implicit barrier because thread 1 computes 30 s longer. These 30 s are "
    "charged to the computation of thread 1.",
)
def delay_of_omp_barrier() -> Example:
    """The last thread computes longer than the one that waits."""
    program = team(2, [5, 5])
    for one, begin in zip(program.locations, (15, 45), strict=True):
        one.enter(5, "compute").leave(begin).enter(begin, IMPLICIT).leave(55)
    leave_team(program, [55, 55], 55)
    last = program.locations[1]
    return Example(program, (Interval(last, 15, 45),), Cause(last, 45, "thread 1 enters the implicit barrier"))


@shows(
    "delay_ompidle",
    caption="Thread 1 has nothing to do while the master computes outside of parallel regions, until 20 s and from 45 "
    "s on. These 35 s are charged to the computation of the master.",
)
def delay_of_idle_threads() -> Example:
    """The master computes alone."""
    program = Program(threads=2)
    master = program.masters[0]
    master.enter(0, "main").enter(0, "compute").leave(20).fork(20)
    for one in program.locations:
        one.begin_team(20).enter(20, PARALLEL).leave(45).end_team(45)
    master.join(45).enter(45, "compute").leave(60).leave(60)
    return Example(program, (Interval(master, 0, 20), Interval(master, 45, 60)), Cause(master, 20, "the master forks"))


@shows(
    "critical_path",
    caption="Rank 0 computes until it sends at 40 s, and rank 1 could not go on before: the critical path runs on "
    "rank 0 until it enters MPI_Send, then on rank 1 until it enters MPI_Finalize.",
)
def critical_path() -> Example:
    """The path that determines the length of the program."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(0, "compute").leave(40).enter(40, "MPI_Send").send(42, to=1).leave(52)
    sender.enter(62, "MPI_Finalize").leave(95).leave(95)
    receiver.enter(0, "main").enter(0, "compute").leave(10).enter(10, "MPI_Recv").receive(54, source=0).leave(55)
    receiver.enter(55, "compute").leave(80).enter(80, "MPI_Finalize").leave(95).leave(95)
    return Example(program, (Interval(sender, 0, 40), Interval(receiver, 40, 80)), None)
