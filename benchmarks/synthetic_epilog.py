"""A large irregular merged EPILOG trace, made in seconds.

Four processes with two threads each go through rounds: a random call tree on the master with parallel regions here and
there, then messages around a ring: blocking, non-blocking, two that are received in reverse order, synchronous; every
fourth round a collective operation. Threads share the work of a parallel region unevenly and sometimes queue for a lock.
Durations are log-normal, one step in 16 takes no time at all, so there are events of the same time: often at one location,
now and then at several. Times are those of a clock whose ticks no decimal number represents, as in recorded traces.

Events are made in an order in which causes precede effects, block by block, and then sorted by time; the sort is stable.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.synthetic import ENTER, LATENCY, N_USER, call_trees

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from epilog_writer import EpilogWriter

VERSION = 1
"""Part of the cached trace's name: change it when the trace changes."""

N_PROCESSES, N_THREADS = 4, 2
N_TREES = 32
N_TEAMS = 20
N_STEPS = 1 << 16
TREE_EVENTS_PER_TEAM = 6
COLLECTIVE_EVERY = 4
CLOCK_RATE = 2.4e9
BLOCK = 1 << 20
"""Events that are made before they are sorted."""

SLACK = 1 << 15
"""More events than a round has."""

LARGEST = 40
"""More bytes than a record has."""

MPI = (
    "MPI_Init", "MPI_Finalize", "MPI_Send", "MPI_Ssend", "MPI_Recv", "MPI_Isend", "MPI_Irecv", "MPI_Waitall",
    "MPI_Allreduce", "MPI_Barrier", "MPI_Bcast", "MPI_Reduce",
)  # fmt: skip
INIT, FINALIZE, SEND, SSEND, RECV, ISEND, IRECV, WAITALL, ALLREDUCE, BARRIER, BCAST, REDUCE = range(N_USER, N_USER + 12)
MAIN, SET_LOCK, UNSET_LOCK = range(REDUCE + 1, REDUCE + 4)
TEAMS = UNSET_LOCK + 1
"""Three regions for every team: parallel, for, ibarrier."""

# types of records, and what stands for a parallel region in a call tree
REC_ENTER, REC_EXIT, REC_SEND, REC_RECV, REC_COLLEXIT, FORK, JOIN, ACQUIRE, RELEASE, OMP_COLLEXIT = range(101, 111)
ENTERS, LEAVES, FORKS = range(3)

# state of the program
RANDOM, N, ROUND, STATE = range(4)


class Events(NamedTuple):
    """Events in the order they were made: ticks, type of record, location, and region, tag or lock."""

    time: NDArray[np.int64]
    code: NDArray[np.uint8]
    location: NDArray[np.uint8]
    value: NDArray[np.int32]


class Program(NamedTuple):
    """What the rounds are made of: call trees one behind the other, and durations to draw from."""

    what: NDArray[np.uint8]
    region: NDArray[np.int32]
    start: NDArray[np.int64]
    steps: NDArray[np.int64]


def _program(seed: int) -> Program:
    """Make call trees with parallel regions at random places, and durations."""
    random = np.random.default_rng(seed)
    whats, regions = [], []
    for kind, region in zip(*call_trees(random, N_TREES), strict=True):
        at = random.integers(1, kind.size, kind.size // TREE_EVENTS_PER_TEAM)
        whats.append(np.insert(np.where(kind == ENTER, ENTERS, LEAVES), at, FORKS))
        regions.append(np.insert(region, at, TEAMS + 3 * random.integers(0, N_TEAMS, at.size)))
    steps = random.lognormal(6.0, 1.5, N_STEPS).astype(np.int64) + 1
    steps[::16] = 0
    start = np.concatenate([[0], np.cumsum([w.size for w in whats])])
    return Program(np.concatenate(whats).astype(np.uint8), np.concatenate(regions).astype(np.int32), start, steps)


@njit(cache=True)
def _draw(state: Any) -> int:
    """Draw a number of 31 bits (Knuth's generator)."""
    state[RANDOM] = state[RANDOM] * 6364136223846793005 + 1442695040888963407
    return (state[RANDOM] >> 32) & 0x7FFFFFFF


@njit(cache=True)
def _step(state: Any, program: Any) -> Any:
    """Draw a duration."""
    return program.steps[_draw(state) & (N_STEPS - 1)]


@njit(cache=True)
def _record(events: Any, state: Any, location: int, time: int, code: int, value: int) -> None:
    """Append an event."""
    n = state[N]
    events.time[n], events.code[n], events.location[n], events.value[n] = time, code, location, value
    state[N] = n + 1


@njit(cache=True)
def _call(events: Any, state: Any, program: Any, location: int, time: Any, region: int) -> Any:
    """Call a function in which nothing happens; returns when it is left."""
    _record(events, state, location, time, REC_ENTER, region)
    time += _step(state, program)
    _record(events, state, location, time, REC_EXIT, 0)
    return time


@njit(cache=True)
def _fork_join(events: Any, state: Any, program: Any, process: int, time: Any, region: int, at: Any) -> Any:
    """Go through a parallel region; returns when its team is joined. `at` has a place for the time of each thread."""
    first = process * N_THREADS
    _record(events, state, first, time, FORK, 0)
    for thread in range(N_THREADS):
        at[thread] = time + _step(state, program)
        _record(events, state, first + thread, at[thread], REC_ENTER, region)
        at[thread] += _step(state, program)
        _record(events, state, first + thread, at[thread], REC_ENTER, region + 1)
        at[thread] += _step(state, program)
        for _ in range(_draw(state) % 4):
            function = (_draw(state) % 8) * (N_USER // 8)
            at[thread] = _call(events, state, program, first + thread, at[thread], function) + _step(state, program)
    if _draw(state) % 4 == 0:
        # whoever comes first gets the lock first; the others get it when it is released
        free, served = np.int64(0), 0
        while served != (1 << N_THREADS) - 1:
            thread = -1
            for other in range(N_THREADS):
                if not served >> other & 1 and (thread < 0 or at[other] < at[thread]):
                    thread = other
            served |= 1 << thread
            location, now = first + thread, at[thread]
            _record(events, state, location, now, REC_ENTER, SET_LOCK)
            now = max(now, free) + _step(state, program)
            _record(events, state, location, now, ACQUIRE, 0)
            _record(events, state, location, now, REC_EXIT, 0)
            now += _step(state, program)
            _record(events, state, location, now, REC_ENTER, UNSET_LOCK)
            free = now + _step(state, program)
            _record(events, state, location, free, RELEASE, 0)
            at[thread] = free + _step(state, program)
            _record(events, state, location, at[thread], REC_EXIT, 0)
    last = np.int64(0)
    for thread in range(N_THREADS):
        at[thread] += _step(state, program)
        _record(events, state, first + thread, at[thread], OMP_COLLEXIT, 0)
        at[thread] += _step(state, program)
        _record(events, state, first + thread, at[thread], REC_ENTER, region + 2)
        last = max(last, at[thread])
    end = last
    for thread in range(N_THREADS):
        now = last + _step(state, program)
        _record(events, state, first + thread, now, OMP_COLLEXIT, 0)
        now += _step(state, program)
        _record(events, state, first + thread, now, OMP_COLLEXIT, 0)
        end = max(end, now)
    end += _step(state, program)
    _record(events, state, first, end, JOIN, 0)
    return end


@njit(cache=True)
def _send(events: Any, state: Any, program: Any, process: int, now: Any, region: int, tag: int) -> int:
    """Begin to send to the right; returns when the message leaves."""
    location = process * N_THREADS
    _record(events, state, location, now[process], REC_ENTER, region)
    sent = now[process] + _step(state, program)
    _record(events, state, location, sent, REC_SEND, tag)
    now[process] = sent + _step(state, program)
    return sent


@njit(cache=True)
def _receive(events: Any, state: Any, program: Any, process: int, now: Any, region: int, sent: int, tag: int) -> None:
    """Receive from the left."""
    location = process * N_THREADS
    _record(events, state, location, now[process], REC_ENTER, region)
    now[process] = max(now[process] + _step(state, program), sent + LATENCY)
    _record(events, state, location, now[process], REC_RECV, tag)
    _leave(events, state, program, process, now)


@njit(cache=True)
def _leave(events: Any, state: Any, program: Any, process: int, now: Any) -> None:
    """Leave a call, and go on a little later."""
    now[process] += _step(state, program)
    _record(events, state, process * N_THREADS, now[process], REC_EXIT, 0)
    now[process] += _step(state, program)


@njit(cache=True)
def _exchange(events: Any, state: Any, program: Any, now: Any, how: int) -> None:
    """Send to the right, receive from the left: blocking, non-blocking, in reverse order, or synchronously."""
    sent = np.zeros((N_PROCESSES, 2), np.int64)
    if how == 3:
        # senders stay in their call until the message is received: those of even rank first
        for phase in range(2):
            for p in range(phase, N_PROCESSES, 2):
                sent[p, 0] = _send(events, state, program, p, now, SSEND, 3)
            for p in range(phase, N_PROCESSES, 2):
                q = (p + 1) % N_PROCESSES
                asked = now[q]
                _receive(events, state, program, q, now, RECV, sent[p, 0], 3)
                now[p] = max(now[p], asked + LATENCY)
                _leave(events, state, program, p, now)
        return
    n_messages = 2 if how == 2 else 1
    for p in range(N_PROCESSES):
        if how == 1:
            now[p] = _call(events, state, program, p * N_THREADS, now[p], IRECV) + _step(state, program)
        for k in range(n_messages):
            sent[p, k] = _send(events, state, program, p, now, ISEND if how == 1 else SEND, k)
            _leave(events, state, program, p, now)
    for p in range(N_PROCESSES):
        for k in range(n_messages - 1, -1, -1):
            left = (p - 1) % N_PROCESSES
            _receive(events, state, program, p, now, WAITALL if how == 1 else RECV, sent[left, k], k)


@njit(cache=True)
def _collective(events: Any, state: Any, program: Any, now: Any, region: int) -> None:
    """Let all processes wait for the last one."""
    for p in range(N_PROCESSES):
        _record(events, state, p * N_THREADS, now[p], REC_ENTER, region)
    end = now.max() + LATENCY
    for p in range(N_PROCESSES):
        now[p] = end + _step(state, program)
        _record(events, state, p * N_THREADS, now[p], REC_COLLEXIT, region)


@njit(cache=True)
def _run(events: Any, state: Any, program: Any, now: Any, limit: int) -> None:
    """Go through rounds until there are so many events; before the first one, begin the program."""
    at = np.zeros(N_THREADS, np.int64)
    if state[ROUND] == 0:
        for p in range(N_PROCESSES):
            _record(events, state, p * N_THREADS, now[p], REC_ENTER, MAIN)
            now[p] = _call(events, state, program, p * N_THREADS, now[p] + _step(state, program), INIT)
    while state[N] < limit:
        for p in range(N_PROCESSES):
            tree = _draw(state) % N_TREES
            for i in range(program.start[tree], program.start[tree + 1]):
                now[p] += _step(state, program)
                what, region = program.what[i], program.region[i]
                if what == FORKS:
                    now[p] = _fork_join(events, state, program, p, now[p], region, at)
                else:
                    code = REC_ENTER if what == ENTERS else REC_EXIT
                    _record(events, state, p * N_THREADS, now[p], code, region)
            now[p] += _step(state, program)
        for how in range(4):
            _exchange(events, state, program, now, how)
        state[ROUND] += 1
        if state[ROUND] % COLLECTIVE_EVERY == 0:
            _collective(events, state, program, now, ALLREDUCE + (state[ROUND] // COLLECTIVE_EVERY - 1) % 4)


@njit(cache=True)
def _end(events: Any, state: Any, program: Any, now: Any) -> None:
    """End the program."""
    for p in range(N_PROCESSES):
        now[p] = _call(events, state, program, p * N_THREADS, now[p] + _step(state, program), FINALIZE)
        now[p] += _step(state, program)
        _record(events, state, p * N_THREADS, now[p], REC_EXIT, 0)


@njit(cache=True)
def _put4(out: Any, q: int, value: int) -> int:
    """Write four bytes."""
    for b in range(4):
        out[q + b] = (value >> 8 * b) & 255
    return q + 4


@njit(cache=True)
def _encode(events: Any, order: Any, seconds: Any, out: Any) -> int:
    """Write records in the order given; `seconds` holds the bits of their times. Returns the bytes used."""
    q = 0
    for k in range(order.size):
        i = order[k]
        code, location, value = events.code[i], np.int64(events.location[i]), np.int64(events.value[i])
        start = q
        out[q + 1] = code
        q = _put4(out, q + 2, location)
        q = _put4(out, q, seconds[k])
        q = _put4(out, q, seconds[k] >> 32)
        process = location // N_THREADS
        if code == REC_ENTER or code == ACQUIRE or code == RELEASE:
            q = _put4(out, q, value)
        elif code == REC_SEND:
            q = _put4(out, q, (process + 1) % N_PROCESSES * N_THREADS)
            q = _put4(out, q, 0)
            q = _put4(out, q, value)
            q = _put4(out, q, 8192)
        elif code == REC_RECV:
            q = _put4(out, q, (process - 1) % N_PROCESSES * N_THREADS)
            q = _put4(out, q, 0)
            q = _put4(out, q, value)
        elif code == REC_COLLEXIT:
            # the root is the first process
            q = _put4(out, q, 0 if value == BCAST or value == REDUCE else 0xFFFFFFFF)
            q = _put4(out, q, 0)
            n_bytes = 0 if value == BARRIER else 8
            q = _put4(out, q, n_bytes)
            q = _put4(out, q, n_bytes)
        out[start] = q - start - 2
    return q


def _definitions(n_events: int) -> bytes:
    """Make everything up to the events."""
    writer = EpilogWriter(n_events=n_events)
    for _ in range(N_PROCESSES):
        writer.process(N_THREADS)
    for i in range(N_USER):
        writer.region(f"function_{i}", "program.f", 10 * i + 1, 10 * i + 9)
    for name in (*MPI, "main", "omp_set_lock", "omp_unset_lock"):
        writer.region(name)
    for i in range(N_TEAMS):
        for what in ("parallel", "for", "ibarrier"):
            writer.region(f"!$omp {what} @program.f:{10 * i + 5}", "program.f", 10 * i + 5, 10 * i + 8)
    writer.comm(range(N_PROCESSES))
    return writer.build()


def make_merged(n_events: int = 10_000_000, *, seed: int = 1, folder: Path | None = None) -> Path:
    """Make a merged trace of about `n_events` event records, or find the one made before.

    Parameters
    ----------
    n_events : int
        Records of all eight locations together, exceeded by a round at most.
    seed : int
        Of the random numbers; a trace is the same wherever it is made.
    folder : Path, optional
        Where to keep it; a folder of the system's temporary files by default.

    Returns
    -------
    Path
        The file.
    """
    folder = folder or Path(tempfile.gettempdir()) / "tracecols-benchmarks"
    place = folder / f"irregular-epilog-{VERSION}-{n_events}-{seed}"
    path = place / "epik.elg"
    if path.exists():
        return path
    building = place.with_suffix(".partial")
    building.mkdir(parents=True, exist_ok=True)
    program = _program(seed)
    size = BLOCK + SLACK
    events = Events(
        np.empty(size, np.int64), np.empty(size, np.uint8), np.empty(size, np.uint8), np.empty(size, np.int32)
    )
    state, now = np.zeros(STATE, np.int64), np.zeros(N_PROCESSES, np.int64)
    state[RANDOM] = seed
    out = np.empty(LARGEST * size, np.uint8)
    written = 0
    with (building / path.name).open("wb") as file:
        file.write(_definitions(0))
        while written < n_events:
            _run(events, state, program, now, min(BLOCK, n_events - written))
            made = int(state[N])
            is_last = written + made >= n_events
            if is_last:
                _end(events, state, program, now)
                made = int(state[N])
            order = np.argsort(events.time[:made], kind="stable")
            # others may still come before what is later than the process that is furthest behind
            n = made if is_last else int(np.searchsorted(events.time[order], now.min()))
            seconds = (events.time[order[:n]] / CLOCK_RATE).view(np.int64)
            file.write(out[: _encode(events, order[:n], seconds, out)].data)
            written += n
            rest = order[n:]
            for column in events:
                column[: rest.size] = column[rest]
            state[N] = rest.size
        # their number has a place of its own among the definitions, whatever it is
        file.seek(0)
        file.write(_definitions(written))
    building.rename(place)
    return path
