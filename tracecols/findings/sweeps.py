"""Pipelines of sweeps: the number of ranks they pass through, the number of blocks, and how small blocks should be."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct, ends_run, starts_run
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.grouping import latest_before
from tracecols.enhance.definitions.shapes import components
from tracecols.kernels.sweeps import N_DIMENSIONS
from tracecols.model.model import Model
from tracecols.patterns.wavefront import Positions, Sweeps, find_sweeps, positions
from tracecols.vectors import Ints, Mask

MOST = 0.8
"""Share of the messages of sweeps that has to be passed on from the same corner; exchanges are not sweeps."""

NEAR = 1.1
"""Factor by which a sweep with the proposed blocks may take longer than with the best ones."""

SMALLEST = 1 << 12
"""Maximum number of parts into which a block is divided."""


class Shape(NamedTuple):
    """The typical sweep of a function."""

    n_ranks: int
    """Ranks that a sweep passes through one after the other, from one corner to the opposite one."""
    n_blocks: int
    """Blocks of a sweep."""
    n_sweeps: int
    """Number of sweeps, at the location that receives most of them."""
    work: int
    """Ticks between the last message of a block and the first that is sent after it."""
    cost: int
    """Ticks that the messages of a block take beyond waiting for their senders."""
    refill: int
    """Ticks that all locations wait for the first block of a sweep."""
    under_way: int = 0
    """Ticks between the first send and the last receive of each sweep, added up; sweeps from one corner that follow
    each other are one."""
    overlap: int = 0
    """The ticks of `under_way` in which the next sweep is under way, too."""

    def duration(self, parts: Ints) -> NDArray[np.float64]:
        """Return the ticks of a sweep whose blocks are divided into `parts` each; (n,) float64."""
        n_steps = self.n_blocks * parts + self.n_ranks - 1
        return n_steps * (self.work / parts + self.cost)

    def filling(self, parts: int) -> float:
        """Return the part of a sweep in which its pipeline is filled and drained, if blocks are divided."""
        return (self.n_ranks - 1) / (self.n_blocks * parts + self.n_ranks - 1)

    def parts(self) -> int:
        """Return the number of parts into which a block should be divided: the fewest with which a sweep takes little
        longer than with the best number (`NEAR`)."""
        parts = np.arange(1, SMALLEST + 1)
        duration = self.duration(parts)
        return int(parts[np.flatnonzero(duration <= NEAR * duration.min())[0]])

    def evidence(self, resolution: int) -> dict[str, Any]:
        """Return the shape as the evidence of a cause, with times in seconds."""
        parts = self.parts()
        return {
            "n_ranks": self.n_ranks,
            "n_blocks": self.n_blocks,
            "n_sweeps": self.n_sweeps,
            "block": self.work / resolution,
            "block_cost": self.cost / resolution,
            "refill": self.refill / resolution,
            "overlap": self.overlap / resolution,
            "overlapping": self.overlap / max(self.under_way, 1),
            "filling": self.filling(1),
            "parts": parts,
            "filling_with_parts": self.filling(parts),
        }


def shape_of_sweeps(model: Model, is_here: Mask) -> Shape | None:
    """Return the shape of the sweeps whose messages are received on some call paths; None if most messages received
    there belong to none. The last element of `is_here` is for no call path (-1)."""
    m, where = model.messages, positions(model, with_lines=True)
    here = is_here[model.call_paths.path_of(m.recv_call_path)]
    found = find_sweeps(model, m, where, with_lines=True)
    of = np.repeat(np.arange(found.blocks.size.size), found.blocks.size)
    kept = (found.blocks.corner[of] >= 0) & here[found.rows]
    rows, of = found.rows[kept], of[kept]
    if rows.size <= here.sum() / 2 or _passed_on(m, where, found, rows, of) < MOST:
        return None
    blocks, first = np.unique(of, return_index=True)
    run = _runs(model, m, found, blocks, rows[first])
    begins = starts_run(run)
    n_blocks = np.bincount(run)
    n_sweeps = np.bincount(found.location[blocks[begins]])
    work, cost = _times(m, rows, of)
    under_way, overlap = _under_way(model, m, rows, found.blocks.corner[of])
    late = np.maximum(np.minimum(m.send_enter_time, m.recv_exit_time) - m.recv_enter_time, 0)
    return Shape(
        _n_ranks(m, where, rows),
        int(np.median(n_blocks[n_blocks > 0])),
        int(n_sweeps.max()),
        work,
        cost,
        int(late[rows[np.isin(of, blocks[begins])]].sum()),
        under_way,
        overlap,
    )


def _passed_on(m: CompoundTable, where: Positions, found: Sweeps, rows: Ints, of: Ints) -> float:
    """Return the share of messages whose sender had received one of a sweep from the same corner last, among those
    whose senders are not where the sweep begins."""
    order = np.repeat(np.arange(found.blocks.size.size), found.blocks.size)
    before = latest_before(
        m.recv_location[found.rows], m.recv_exit_time[found.rows], m.send_location[rows], m.send_enter_time[rows]
    )
    corner = found.blocks.corner[of]
    upstream = [2 * d + (corner >> d & 1) for d in range(N_DIMENSIONS)]
    receives = np.any([where.has[m.send_location[rows], side] for side in upstream], axis=0)
    same = (before >= 0) & (found.blocks.corner[order[before]] == corner)
    return float(same[receives].mean()) if receives.any() else 0.0


def _runs(model: Model, m: CompoundTable, found: Sweeps, blocks: Ints, first: Ints) -> Ints:
    """Number the sweeps of each location that blocks belong to: a sweep ends where another corner follows, and at
    collective operations; (n_blocks,) int64, ascending."""
    c = model.collective_members
    last = latest_before(
        c.location.astype(np.int64), c.enter_time, found.location[blocks].astype(np.int64), m.recv_enter_time[first]
    )
    return np.cumsum(starts_run(found.location[blocks], np.cumsum(found.starts)[blocks], last)) - 1


def _under_way(model: Model, m: CompoundTable, rows: Ints, corner: NDArray[np.int8]) -> tuple[int, int]:
    """Return the ticks for which sweeps are under way, from the first send to the last receive of each, and those of
    them in which the next one is under way, too.

    Messages from one corner that a location sends and receives one after the other, without a collective operation in
    between, belong to one sweep, and so do both ends of a message.
    """
    n, c = rows.size, model.collective_members
    location = np.concatenate([m.send_location[rows], m.recv_location[rows]]).astype(np.int64)
    time = np.concatenate([m.send_enter_time[rows], m.recv_enter_time[rows]])
    last = latest_before(c.location.astype(np.int64), c.enter_time, location, time)
    # rows of events are in the order of locations, and of time at each
    order = np.argsort(np.concatenate([m.send[rows], m.recv[rows]]), kind="stable")
    run = np.empty(2 * n, np.int64)
    run[order] = np.cumsum(starts_run(location[order], np.tile(corner, 2)[order], last[order])) - 1
    sweep = np.unique(components(int(run.max()) + 1, run[:n], run[n:]), return_inverse=True)[1][run[:n]]
    begin, end = np.full(sweep.max() + 1, np.iinfo(np.int64).max), np.zeros(sweep.max() + 1, np.int64)
    np.minimum.at(begin, sweep, m.send_enter_time[rows])
    np.maximum.at(end, sweep, m.recv_exit_time[rows])
    first = np.argsort(begin, kind="stable")
    begin, end = begin[first], end[first]
    both = np.minimum(end[1:], end[:-1]) - begin[1:]
    return int((end - begin).sum()), int(np.maximum(both, 0).sum())


def _n_ranks(m: CompoundTable, where: Positions, rows: Ints) -> int:
    """Return the number of ranks between opposite corners, both included, of the grid with most messages of sweeps."""
    grid = np.bincount(where.grid[m.recv_location[rows]]).argmax()
    mine = rows[where.grid[m.recv_location[rows]] == grid]
    at = where.at[distinct(np.concatenate([m.send_location[mine], m.recv_location[mine]]))]
    moves = np.abs(where.at[m.send_location[mine]] - where.at[m.recv_location[mine]]).any(0)
    return 1 + sum(distinct(at[:, d]).size - 1 for d in range(N_DIMENSIONS) if moves[d])


def _times(m: CompoundTable, rows: Ints, of: Ints) -> tuple[int, int]:
    """Return the median ticks of work on a block, and those that its messages take beyond waiting."""
    last = np.flatnonzero(ends_run(of))
    received = rows[last]
    # the first send after it, and whether another block is received before that
    send = _next(m.send_location[rows], m.send_enter_time[rows], m.recv_location[received], m.recv_exit_time[received])
    following = np.append(received[1:], received[-1])
    until = np.where(
        m.recv_location[following] == m.recv_location[received], m.recv_enter_time[following], np.iinfo(np.int64).max
    )
    until[-1] = np.iinfo(np.int64).max
    is_sent = np.flatnonzero(send >= 0)
    is_sent = is_sent[m.send_enter_time[rows[send[is_sent]]] <= until[is_sent]]
    work = (m.send_enter_time[rows[send[is_sent]]] - m.recv_exit_time[received[is_sent]]) if is_sent.size else [0]
    # locations that get a message along every dimension set the pace
    n_each = int(np.bincount(of).max())
    beyond = m.recv_exit_time[rows] - np.maximum(m.recv_enter_time[rows], m.send_enter_time[rows])
    sending = m.send_exit_time[rows] - m.send_enter_time[rows]
    # a send that ends before its receive begins waits for nobody
    waits = m.send_exit_time[rows] > m.recv_enter_time[rows]
    waiting = np.where(waits, np.maximum(m.recv_enter_time[rows] - m.send_enter_time[rows], 0), 0)
    cost = n_each * (np.median(np.maximum(beyond, 0)) + np.median(sending - waiting))
    return int(np.median(work)), int(cost)


def _next(key: NDArray[np.int32], time: Ints, wanted_key: NDArray[np.int32], wanted_time: Ints) -> Ints:
    """Return the position of the first element with each wanted key and time >= the wanted one; -1 if there is none."""
    return latest_before(key.astype(np.int64), -time, wanted_key.astype(np.int64), -wanted_time)
