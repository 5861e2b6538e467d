"""Events as plain objects, in global chronological order (thesis 3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(eq=False)
class Event:
    """One event; fields that do not apply have their default.

    Attributes
    ----------
    kind : str
        enter, exit, send, recv, post, done, cancel, probe, collective, fork, join, begin, end, acquire, release,
        switch, complete, flush, other.
    row : int
        Row of the event table.
    peer : int
        Partner process of a message.
    request, message : int
        Number of the non-blocking operation; number of the message found by a probe.
    task : tuple
        Creating thread and generation; generation 0 is the implicit task.
    stop : int
        Time at which a buffer flush ends.
    """

    time: int
    location: int
    process: int
    kind: str
    row: int = -1
    region: str = ""
    peer: int = -1
    communicator: int = -1
    tag: int = -1
    request: int = -1
    message: int = -1
    team: int = -1
    lock: int = -1
    task: tuple[int, int] = (0, 0)
    stop: int = -1


def chronological(events: Iterable[Event]) -> list[Event]:
    """Sort by time; ties by location, and within a location as recorded."""
    return sorted(events, key=lambda e: (e.time, e.location, e.row))
