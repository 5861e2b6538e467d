"""OpenMP teams: the threads that execute a parallel function between a fork and its join."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.paraver import decode, types
from tracecols.vectors import offsets_of

Rows = NDArray[np.int64]


class ThreadEvents:
    """The forks and parallel functions of one location, in order of time: times of `fork`, `join` (the end of the trace
    if a team is not joined) and `begin` of functions."""

    def __init__(self, time: Rows, action: Rows, value: Rows, end: int) -> None:
        self.begin = time[(action == types.FUNCTION) & (value != 0)]
        mine = action == types.PARALLEL
        time, opens = time[mine], value[mine] != 0
        self.fork = time[opens]
        # a join follows its fork; if two forks follow each other, the first has none
        follows = np.append(opens[1:], True)[opens] if opens.size else opens
        at = np.flatnonzero(opens)
        self.join = np.where(follows, end, np.append(time, end)[np.minimum(at + 1, time.size)])


def _fork_of(begin: Rows, fork: Rows, join: Rows) -> Rows:
    """Find, for each function, the last fork before it that is not joined before it; -1 if there is none."""
    at = np.searchsorted(fork, begin, "right") - 1
    while True:
        outside = (at >= 0) & (join[at] < begin) if join.size else np.zeros(at.size, bool)
        if not outside.any():
            return at
        at[outside] -= 1


def find_teams(events: list[ThreadEvents], first: list[int], define: Callable[[list[int]], int]) -> list[decode.Teams]:
    """Find the teams of all locations, from events by location and the location of the first thread of every task;
    `define` defines a team of some locations and returns its row."""
    stops = [*first[1:], len(events)]
    return [teams for a, b in zip(first, stops, strict=True) for teams in _teams_of_task(events[a:b], a, define)]


def _teams_of_task(events: list[ThreadEvents], base: int, define: Callable[[list[int]], int]) -> list[decode.Teams]:
    fork, join = (np.concatenate([getattr(e, name) for e in events]) for name in ("fork", "join"))
    forker = np.repeat(np.arange(len(events)), [e.fork.size for e in events])
    order = np.argsort(fork, kind="stable")
    fork, join = fork[order], join[order]
    # threads of each team, as bits
    words = (len(events) + 63) // 64
    members = np.zeros((fork.size, words), np.uint64)
    bits = [(i // 64, np.uint64(1 << (i % 64))) for i in range(len(events))]
    found = []
    for (word, bit), e in zip(bits, events, strict=True):
        at = _fork_of(e.begin, fork, join)
        # a thread begins in a team once
        at[1:][at[1:] == at[:-1]] = -1
        found.append(at)
        members[at[at >= 0], word] |= bit
    alone = ~members.any(axis=1)
    for thread, (word, bit) in enumerate(bits):
        members[alone & (forker[order] == thread), word] |= bit
    distinct, team_of = np.unique(members, axis=0, return_inverse=True)
    chosen = [[i for i, (word, bit) in enumerate(bits) if int(row[word]) & int(bit)] for row in distinct]
    rows = np.array([define([base + i for i in team]) for team in chosen] + [-1], np.int64)
    sizes = np.array([len(team) for team in chosen] + [0], np.int64)
    team_of = np.append(team_of.reshape(-1), -1)
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    starts = offsets_of([e.fork.size for e in events])
    join = np.append(join, 0)
    return [
        decode.Teams(
            rows[team_of[place[starts[k] : starts[k + 1]]]],
            sizes[team_of[place[starts[k] : starts[k + 1]]]],
            rows[team_of[found[k]]],
            join[found[k]],
        )
        for k in range(len(events))
    ]
