"""The master of each process, and the numbers of its threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNKNOWN = -1
"""Number of a thread before the events are read, if it depends on them."""

_NO_THREADS = ("metric", "gpu")
"""Types of locations that are the master only if there is no other."""


def number_threads(definitions: Mapping[str, Mapping[str, list[Any]]], forks: Mapping[int, int] | None) -> list[int]:
    """Number the locations of each process: its master is 0, the others follow in their order.

    The master is the location that MPI's COMM_LOCATIONS names for the process; if it names none, the location that
    forked first; if none forks, the first CPU thread. `definitions` has the tables `locations` (in process order) and
    `groups`, `forks` the time of the first FORK of every location that forks; it is None as long as no events are read:
    the threads of processes whose master depends on them are UNKNOWN then.
    """
    process, kinds = definitions["locations"]["process"], definitions["locations"]["type"]
    members: dict[int, list[int]] = {}
    for location, of in enumerate(process):
        members.setdefault(of, []).append(location)
    named: dict[int, int] = {}
    groups = definitions["groups"]
    for kind, paradigm, listed in zip(groups["type"], groups["paradigm"], groups["members"], strict=True):
        if (kind, paradigm) == ("comm_locations", "mpi"):
            for location in listed:
                if 0 <= location < len(process):
                    named.setdefault(process[location], location)
    result = [UNKNOWN] * len(process)
    for of, mine in members.items():
        threads = [i for i in mine if kinds[i] not in _NO_THREADS] or mine
        if of in named:
            master = named[of]
        elif len(threads) == 1:
            master = threads[0]
        elif forks is None:
            continue
        else:
            master = min((i for i in mine if i in forks), key=lambda i: forks[i], default=threads[0])
        for number, location in enumerate([master, *(i for i in mine if i != master)]):
            result[location] = number
    return result
