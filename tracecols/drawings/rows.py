"""Content of the rows of a drawing: labels, region instances, messages, and the length of the program."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracecols.schema import EventKind as K
from tracecols.testing import Location, Program

COPIES, COPY = (K.RMA_PUT, K.RMA_GET), "copy"
SENDS, RECEIVES = (K.MPI_SEND, K.MPI_ISEND), (K.MPI_RECV, K.MPI_IRECV)


@dataclass(frozen=True)
class RegionInterval:
    """A region instance of a location."""

    start: int
    end: int
    """`start` and `end`: ticks."""
    depth: int
    """Number of enclosing region instances."""
    name: str
    """Name of the region, or `COPY`."""


def end_of(program: Program) -> int:
    """Return the time of the last event."""
    return max(one.events[-1][0] for one in program.locations if one.events)


def labels(program: Program) -> list[str]:
    """Return the labels of the locations."""
    defined = program.definitions["locations"]
    several = len(program.masters) > 1
    if set(defined["type"]) != {"cpu_thread"}:
        streams = zip(program.locations, defined["name"], defined["type"], strict=True)
        ranks = [f"rank {one.process}{', stream' * (kind == 'gpu')}" for one, _, kind in streams]
        return ranks if several else list(defined["name"])
    found = []
    for one in program.locations:
        rank, thread = f"rank {one.process}", f"thread {one.thread}"
        found.append(rank if program.n_threads == 1 else f"{rank}, {thread}" if several else thread)
    return found


def short(region: str) -> str:
    """Return the name of a region without the prefix and the source position of recordings."""
    return re.sub(r" @.*", "", region.removeprefix("!$omp ")).replace(" sblock", " section")


def region_intervals(location: Location, names: list[str]) -> list[RegionInterval]:
    """Return all region instances of a location, the outer ones first."""
    found, stack = [], []
    for time, kind, region, _ in location.events:
        if kind == K.ENTER:
            stack.append((time, names[region]))
        elif kind == K.EXIT:
            start, name = stack.pop()
            found.append(RegionInterval(start, time, len(stack), name))
        elif kind == K.RMA_OP_COMPLETE_BLOCKING:
            # a copy of a device, which is not a region
            start = max(at for at, what, *_ in location.events if what in COPIES and at <= time)
            found.append(RegionInterval(start, time, len(stack), COPY))
    return sorted(found, key=lambda one: one.depth)


def free_range(interval: RegionInterval, every: list[RegionInterval]) -> tuple[int, int]:
    """Return the longest time range of a region instance in which it is the innermost one."""
    inside = (
        one
        for one in every
        if one.depth == interval.depth + 1 and interval.start <= one.start and one.end <= interval.end
    )
    edges = [
        interval.start,
        *(edge for pair in sorted((i.start, i.end) for i in inside) for edge in pair),
        interval.end,
    ]
    return max(zip(edges[::2], edges[1::2], strict=True), key=lambda pair: pair[1] - pair[0])


def messages(program: Program) -> list[tuple[Location, int, Location, int]]:
    """Return sender, time of sending, receiver and time of receiving of all messages."""
    underway: dict[tuple[int, int, int], list[tuple[Location, int]]] = {}
    arrived: list[tuple[tuple[int, int, int], Location, int]] = []
    for one in program.masters:
        for time, kind, _, sides in one.events:
            side = sides.get("p2p", {})
            if kind in SENDS:
                underway.setdefault((one.process, side["peer"], side["tag"]), []).append((one, time))
            elif kind in RECEIVES:
                arrived.append(((side["peer"], one.process, side["tag"]), one, time))
    return [(*underway[key].pop(0), one, time) for key, one, time in arrived]
