"""A large irregular OTF2 archive, made in seconds.

Eight MPI processes go through rounds: a random call tree out of 256, a message to each neighbour (blocking in even
rounds, non-blocking in odd ones), every 16th round an MPI_Allreduce. Durations are log-normal, one step in 16 takes no
time at all. Messages arrive after they were sent and collectives end after all have come, so there are wait states.
Every location has a region mapping table and clock offsets, as recorded traces do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from otf2_writer import Archive

VERSION = 2
"""Part of the cached archive's name: change it when the archive changes."""

CHUNK = 1 << 20
N_LOCATIONS = 8
N_TREES = 256
N_USER = 300
N_COMMUNICATION = 10
COLLECTIVE_EVERY = 16
LATENCY = 1_500

MPI = ("MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv", "MPI_Waitall", "MPI_Allreduce")
SEND, RECV, ISEND, IRECV, WAITALL, ALLREDUCE = (N_USER + i for i in range(6))

# kinds of events, which are the codes of OTF2's records
ENTER, LEAVE, MPI_SEND, MPI_ISEND, ISEND_COMPLETE, IRECV_REQUEST, MPI_RECV, MPI_IRECV, BEGIN, END = (
    12, 13, 14, 15, 16, 17, 18, 19, 22, 23,
)  # fmt: skip

_BLOCKING = (
    [ENTER, MPI_SEND, LEAVE, ENTER, MPI_RECV, LEAVE],
    [SEND, 0, SEND, RECV, 0, RECV],
)
_NON_BLOCKING = (
    [ENTER, IRECV_REQUEST, LEAVE, ENTER, MPI_ISEND, LEAVE, ENTER, MPI_IRECV, ISEND_COMPLETE, LEAVE],
    [IRECV, 0, IRECV, ISEND, 0, ISEND, WAITALL, 0, 0, WAITALL],
)
_COLLECTIVE = ([ENTER, BEGIN, END, LEAVE], [ALLREDUCE, 0, 0, ALLREDUCE])


def call_trees(
    random: np.random.Generator, n_trees: int = N_TREES, size: float = 1.0
) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.int32]]]:
    """Make call trees as (kind, region): random walks folded into depths 0 to 12, in every node a random region.

    Smaller ones are short walks; larger ones are some of the usual size in a row, so that there are as many call paths.
    """
    kinds, regions = [], []
    for _ in range(n_trees):
        n = 2 * max(round(min(size, 1) * int(random.integers(10, 120))), 1)
        walk = np.concatenate([[0], np.cumsum(random.choice([-1, 1], n))])
        depth = 12 - np.abs(np.mod(walk, 24) - 12)
        depth = np.concatenate([depth, np.arange(depth[-1] - 1, -1, -1)])
        step = np.diff(depth)
        level = np.maximum(depth[1:], depth[:-1])
        order = np.argsort(level, kind="stable")  # of one level, ENTER and LEAVE take turns
        region = np.empty(step.size, np.int32)
        chosen = (N_USER * random.random(step.size // 2) ** 2).astype(np.int32)
        region[order[0::2]] = region[order[1::2]] = chosen
        kinds.append(np.where(step > 0, ENTER, LEAVE).astype(np.uint8))
        regions.append(region)
    if size > 1:
        rows = random.integers(0, n_trees, (n_trees, round(size))).tolist()
        kinds = [np.concatenate([kinds[i] for i in row]) for row in rows]
        regions = [np.concatenate([regions[i] for i in row]) for row in rows]
    return kinds, regions


@njit(cache=True)
def _put(out: Any, q: int, value: int) -> int:
    """Append a compressed number."""
    at = q
    while value:
        at += 1
        out[at] = value & 255
        value >>= 8
    out[q] = at - q
    return at + 1


@njit(cache=True)
def _encode(
    time: Any, kind: Any, region: Any, mapping: Any, left: int, right: int, out: Any, i: int
) -> tuple[int, int]:
    """Fill one chunk from event `i` on; returns the bytes used and the next event."""
    q, now = 18, -1
    while i < time.size and q < out.size - 64:
        if time[i] != now:
            now = time[i]
            out[q] = 5
            for b in range(8):
                out[q + 1 + b] = (now >> 8 * b) & 255
            q += 9
        k = kind[i]
        out[q] = k
        if k == ENTER or k == LEAVE:
            q = _put(out, q + 1, mapping[region[i]])
        elif k == ISEND_COMPLETE or k == IRECV_REQUEST:
            q = _put(out, q + 1, k)
        else:
            p = q + 2
            if k == MPI_SEND or k == MPI_ISEND or k == MPI_RECV or k == MPI_IRECV:
                p = _put(out, p, right if k == MPI_SEND or k == MPI_ISEND else left)
                p = _put(out, p, 0)
                p = _put(out, p, 7)
                p = _put(out, p, 8192)
                if k == MPI_ISEND:
                    p = _put(out, p, ISEND_COMPLETE)
                elif k == MPI_IRECV:
                    p = _put(out, p, IRECV_REQUEST)
            elif k == END:
                out[p] = 11  # allreduce, tracecols.schema.enums.COLLECTIVE_OPS
                p = _put(out, p + 1, 0)
                out[p] = 255  # no root
                p = _put(out, p + 1, 8)
                p = _put(out, p, 8)
            out[q + 1] = p - q - 2
            q = p
        i += 1
    return q, i


def _events(
    n_rounds: int, seed: int, tree: float
) -> list[tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32]]]:
    """Make time, kind and region of every location."""
    random = np.random.default_rng(seed)
    kinds, regions = call_trees(random, size=tree)
    for of in (_BLOCKING, _NON_BLOCKING, _COLLECTIVE):
        kinds.append(np.array(of[0], np.uint8))
        regions.append(np.array(of[1], np.int32))
    sizes = np.array([k.size for k in kinds])
    starts = np.cumsum(sizes) - sizes
    all_kinds, all_regions = np.concatenate(kinds), np.concatenate(regions)
    rounds = np.arange(n_rounds)
    collective = rounds % COLLECTIVE_EVERY == COLLECTIVE_EVERY - 1
    parts = []
    for _ in range(N_LOCATIONS):
        # three pieces a round: a call tree, messages, and a collective or nothing
        piece = np.stack(
            [random.integers(0, N_TREES, n_rounds), N_TREES + rounds % 2, np.full(n_rounds, N_TREES + 2)], axis=1
        )
        n = sizes[piece]
        n[~collective, 2] = 0
        first = np.cumsum(n.ravel()) - n.ravel()
        total = int(n.sum())
        at = np.repeat(starts[piece].ravel() - first, n.ravel()) + np.arange(total)
        step = random.lognormal(6.0, 1.5, total).astype(np.int64) + 1
        step[random.integers(0, 16, total, np.uint8) == 0] = 0
        first = first.reshape(n.shape)
        # the events at which a location has waited: MPI_RECV or MPI_IRECV, and MPI_COLLECTIVE_END
        arrival = first[:, 1] + np.where(rounds % 2, 7, 4)
        parts.append((all_kinds[at], all_regions[at], step, first, arrival))

    elapsed = [np.concatenate([[0], np.cumsum(p[2])]) for p in parts]

    def until(position: Any, since: Any) -> NDArray[np.int64]:
        """Ticks from one event of every round to another without waiting, (n_rounds, n_locations)."""
        return np.stack([elapsed[i][position(p)] - elapsed[i][since(p)] for i, p in enumerate(parts)], axis=1)

    ends = [np.append(p[3][1:, 0], p[2].size) for p in parts]
    send = until(lambda p: p[3][:, 1] + 2 + np.where(rounds % 2, 3, 0), lambda p: p[3][:, 0])
    recv = until(lambda p: p[4] + 1, lambda p: p[3][:, 0])
    last = [np.where(collective, p[3][:, 2] + 2, e) for p, e in zip(parts, ends, strict=True)]
    gather = np.stack([e[b] - e[p[4] + 1] for e, b, p in zip(elapsed, last, parts, strict=True)], axis=1)
    rest = np.stack([e[x] - e[b] for e, x, b in zip(elapsed, ends, last, strict=True)], axis=1)
    now = np.zeros(N_LOCATIONS, np.int64)
    waits = np.zeros((n_rounds, 2, N_LOCATIONS), np.int64)
    for r in range(n_rounds):
        arrived = np.maximum(now + recv[r], np.roll(now + send[r], 1) + LATENCY)
        waits[r, 0] = arrived - now - recv[r]
        now = arrived + gather[r]
        if collective[r]:
            waits[r, 1] = now.max() + LATENCY - now
            now = now + waits[r, 1]
        now = now + rest[r]
    result = []
    for i, (kind, region, step, first, arrival) in enumerate(parts):
        step[arrival] += waits[:, 0, i]
        step[first[collective, 2] + 2] += waits[collective, 1, i]
        result.append((1_000_000 + np.cumsum(step), kind, region))
    return result


def make_archive(n_events: int = 10_000_000, *, seed: int = 1, tree: float = 1.0, folder: Path | None = None) -> Path:
    """Make an archive of about `n_events` events, or find the one made before.

    Parameters
    ----------
    n_events : int
        Events of all eight locations together, within a few percent.
    seed : int
        Of the random numbers; an archive is the same wherever it is made.
    tree : float
        Size of the call trees: with 1 there are 142 events for every message of a location.
    folder : Path, optional
        Where to keep it; a folder of the system's temporary files by default.

    Returns
    -------
    Path
        The anchor file.
    """
    folder = folder or Path(tempfile.gettempdir()) / "tracecols-benchmarks"
    place = folder / f"irregular-{VERSION}-{n_events}-{seed}-{tree:g}"
    path = place / "traces.otf2"
    if path.exists():
        return path
    building = place.with_suffix(".partial")
    archive = Archive(building / "traces.otf2", event_chunk=CHUNK)
    for i in range(N_USER):
        archive.region(f"function_{i}")
    for name in MPI:
        archive.region(name)
    program = archive.mpi(N_LOCATIONS)
    trees = [k.size for k in call_trees(np.random.default_rng(seed), size=tree)[0]]
    of_round = np.mean(trees) + (len(_BLOCKING[0]) + len(_NON_BLOCKING[0])) / 2 + len(_COLLECTIVE[0]) / COLLECTIVE_EVERY
    n_rounds = max(round(n_events / N_LOCATIONS / of_round), 1)
    columns = _events(n_rounds, seed, tree)
    n_regions = N_USER + len(MPI)
    local_of = np.empty(n_regions, np.int64)
    for rank, (time, _, _) in zip(program.ranks, columns, strict=True):
        rank.n_events = time.size
        # local identifier l means region (7 l + rank) modulo the number of regions
        rank.mapping("REGION", [(7 * x + rank.id) % n_regions for x in range(n_regions)])
        rank.clock_offset(0, 40 * rank.id).clock_offset(int(time[-1]) + 1, 40 * rank.id)
    archive.write()
    out = np.zeros(CHUNK, np.uint8)
    for rank, (time, kind, region) in zip(program.ranks, columns, strict=True):
        local_of[(7 * np.arange(n_regions) + rank.id) % n_regions] = np.arange(n_regions)
        left, right = (rank.id - 1) % N_LOCATIONS, (rank.id + 1) % N_LOCATIONS
        with (building / "traces" / f"{rank.id}.evt").open("wb") as file:
            i = 0
            while i < time.size:
                used, following = _encode(time, kind, region, local_of, left, right, out, i)
                out[:18] = np.frombuffer(archive.encode.chunk_header(i + 1, following), np.uint8)
                if following == time.size:
                    out[used : used + 2] = 2, 1
                    file.write(out[: used + 2].data)
                else:
                    out[used] = 0
                    file.write(out.data)
                i = following
    building.rename(place)
    return path
