"""A pipelined sweep over a grid of processes as a discrete-event simulation, plain and slow: calls and waiting times of
each process. In three dimensions, messages along the third one follow those of the second.

The program is the routine sweep() of SWEEP3D as printed in the 2004 paper on virtual topologies (section 4.1): for
every sweep and block, receive from the horizontal neighbour upstream, then from the vertical one, compute, send to the
horizontal neighbour downstream, then to the vertical one; messages without such a neighbour are omitted. Sends return
at once.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, product

CORNERS = {"nw": (1, 1), "ne": (-1, 1), "sw": (1, -1), "se": (-1, -1)}
"""Direction of the wave along the first and the second dimension, by corner."""

SPACE = {f"{corner}{side}": (*way, depth) for side, depth in (("f", 1), ("b", -1)) for corner, way in CORNERS.items()}
"""The same in three dimensions."""

LATENCY, OVERHEAD, TAG = 3, 2, 100


@dataclass
class Process:
    """Calls and waits of a process.

    Attributes
    ----------
    calls : list of tuple
        (name, begin, event, end, peer, tag) of every call.
    waits : list of tuple
        (corner, number of the sweep, number of the block, ticks) of every receive.
    ends : list of tuple
        (number of the sweep, begin of the send or end of the receive) of every send and receive.
    """

    calls: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)
    waits: list[tuple[str, int, int, int]] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)


def simulate(
    sizes: tuple[int, ...], sweeps: list[tuple[str, int]], work: Callable[[], int]
) -> tuple[list[Process], dict[tuple[int, ...], int]]:
    """Run sweeps, given by corner and number of blocks, over a grid of two or three dimensions; the first coordinate of
    ranks runs fastest.

    Returns
    -------
    list of Process
        By rank.
    dict of tuple of int to int
        Rank by position.
    """
    rank_at = {tuple(reversed(at)): rank for rank, at in enumerate(product(*map(range, reversed(sizes))))}
    processes = [Process() for _ in rank_at]
    mail: dict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)  # begin of sends, arrival of messages
    sleeping: dict[tuple[int, int], int] = {}

    def neighbours(at: tuple[int, ...], way: tuple[int, ...]) -> list[int | None]:
        """Return the rank one step further along each dimension, None if there is none."""
        return [rank_at.get((*at[:d], at[d] + step, *at[d + 1 :])) for d, step in enumerate(way)]

    def program(rank: int, at: tuple[int, ...]) -> Iterator[tuple[str, int]]:
        """Yield ("until", time), or ("from", sender) to wait for a message."""
        me, now = processes[rank], 10
        for number, (corner, blocks) in enumerate(sweeps):
            way = (CORNERS | SPACE)[corner]
            upstream, downstream = neighbours(at, tuple(-step for step in way)), neighbours(at, way)
            for block in range(blocks):
                for source in upstream:
                    if source is None:
                        continue
                    yield "from", source
                    began, arrives = mail[source, rank].popleft()
                    end = max(now, arrives) + OVERHEAD
                    me.calls.append(("MPI_Recv", now, end - 1, end, source, TAG))
                    me.waits.append((corner, number, block, max(began - now, 0)))
                    me.ends.append((number, end))
                    now = end + 1
                    yield "until", now
                now += work()
                yield "until", now
                for target in downstream:
                    if target is None:
                        continue
                    me.calls.append(("MPI_Send", now, now + 1, now + OVERHEAD, target, TAG))
                    me.ends.append((number, now))
                    mail[rank, target].append((now, now + LATENCY))
                    if sleeping.pop((rank, target), None) is not None:
                        heapq.heappush(agenda, (now, target))
                    now += OVERHEAD + 1
                    yield "until", now

    programs = {rank: program(rank, at) for at, rank in rank_at.items()}
    agenda = [(0, rank) for rank in programs]
    while agenda:
        time, rank = heapq.heappop(agenda)
        for what, value in programs[rank]:
            if what == "until":
                heapq.heappush(agenda, (max(value, time), rank))
                break
            if not mail[value, rank]:
                sleeping[value, rank] = time
                break
    assert not sleeping and not any(mail.values())
    return processes, rank_at


def refill_truth(processes: list[Process]) -> dict[str, list[int]]:
    """Return the ticks, by corner and rank, that receives wait in the first block of a sweep whose corner differs from
    that of the previous sweep.

    The previous sweep is the last one in which the process received any message: the paper considers only received
    messages.
    """
    truth = {corner: [0] * len(processes) for corner in CORNERS | SPACE}
    for rank, process in enumerate(processes):
        last, current, counts = "", -1, False
        for corner, number, block, wait in process.waits:
            if number != current:
                current, counts, last = number, corner != last, corner
            if counts and block == 0:
                truth[corner][rank] += wait
    return truth


def overlap_truth(processes: list[Process], sweeps: list[tuple[str, int]]) -> tuple[int, int]:
    """Return the total duration of sweeps, from the first send to the last receive, in ticks, and the total overlap
    with the next sweep; consecutive sweeps from the same corner count as one."""
    numbers = [0, *accumulate(int(a != b) for (a, _), (b, _) in pairwise(sweeps))]
    return overlap_of((numbers[number], time) for process in processes for number, time in process.ends)


def overlap_of(ends: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the same from (number of the sweep, time) of every begin of a send and end of a receive."""
    times: dict[int, list[int]] = defaultdict(list)
    for number, time in ends:
        times[number].append(time)
    spans = sorted((min(of), max(of)) for of in times.values())
    both = sum(max(min(end, before) - begin, 0) for (_, before), (begin, end) in pairwise(spans))
    return sum(end - begin for begin, end in spans), both


def record(archive, processes):
    """Record the calls of processes."""
    mpi = archive.mpi(len(processes))
    for location, process in zip(mpi.ranks, processes, strict=True):
        location.enter(1, "sweep")
        end = 2
        for name, begin, event, end, peer, tag in process.calls:
            location.enter(begin, name)
            (location.send if name == "MPI_Send" else location.receive)(event, peer, mpi.world, tag, 8)
            location.leave(end, name)
        location.leave(end + 1, "sweep")
    return mpi


def grid_of(sizes, rank_at):
    """Return the description of the grid as the user would give it."""
    place = {rank: at for at, rank in rank_at.items()}
    return {"name": "grid", "sizes": list(sizes), "coordinates": [list(place[r]) for r in range(len(place))]}
