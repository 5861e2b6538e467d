"""A wavefront sweep over a two-dimensional grid: from each corner twice, in pipelined blocks."""

from __future__ import annotations

from benchmarks.programs import kernels as k
from benchmarks.programs.script import Script, Topology, coordinates_of, grid, rank_at

OCTANTS = ((1, 1), (1, 1), (1, -1), (1, -1), (-1, 1), (-1, 1), (-1, -1), (-1, -1))
SIZES = (10, 8, 6, 5, 4, 3, 2, 1)
"""Blocks of an octant."""
ROW_BYTES, COLUMN_BYTES = 2_400, 48_000
"""Bytes of messages: sent at once along the first dimension, waiting for their receives along the second."""


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """Receive from upstream, compute, send downstream; a reduction after the eighth octant."""
    s = Script("sweep", n_processes, n_threads)
    sizes = grid(n_processes, 2)
    comm = s.comm("sweep grid", list(range(n_processes)))
    places = [coordinates_of(p, sizes) for p in range(n_processes)]
    s.topologies.append(Topology("sweep grid", comm.number, sizes, [0, 0], places))
    s.begin("MPI_Cart_create")
    sweep, source = s.function("sweep", 40), s.function("source", 30)
    for p in s.processes:
        x, y = places[p.number]
        # a band of the grid takes longer, which causes waits that are not due to the pipeline
        mean = 18_000 if (x + 2 * y) % 5 else 23_000
        p.compute(source, 40_000)
        for octant, (dx, dy) in enumerate(OCTANTS):
            p.step(k.ENTER, sweep)
            for _ in range(size):
                for ax, ay, n_bytes in ((dx, 0, ROW_BYTES), (0, dy, COLUMN_BYTES)):
                    upstream = rank_at([x - ax, y - ay], sizes, False)
                    if upstream >= 0:
                        p.recv(upstream, comm, 100 + octant, n_bytes)
                p.work("block", 60, mean)
                for ax, ay, n_bytes, mode in ((dx, 0, ROW_BYTES, k.EAGER), (0, dy, COLUMN_BYTES, k.RENDEZVOUS)):
                    downstream = rank_at([x + ax, y + ay], sizes, False)
                    if downstream >= 0:
                        p.send(downstream, comm, 100 + octant, n_bytes, mode)
            p.step(k.EXIT, sweep)
        p.collective("allreduce", s.world, 8)
    s.end()
    return s
