"""A parallel Fourier transform of pencils: transposes within rows and columns of a grid of processes."""

from __future__ import annotations

from benchmarks.programs.script import Script, grid

SIZES = (4, 2, 1)
"""Transforms of a turn."""
PENCIL = 65_536


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """Transform along one axis, transpose, and so on; there and back; a barrier after each transform."""
    s = Script("fft", n_processes, n_threads)
    n_columns, n_rows = grid(n_processes, 2)
    rows = [s.comm(f"row {i}", [i * n_columns + j for j in range(n_columns)]) for i in range(n_rows)]
    columns = [s.comm(f"column {j}", [i * n_columns + j for i in range(n_rows)]) for j in range(n_columns)]
    s.begin("MPI_Comm_split", "MPI_Comm_split")
    for p in s.processes:
        row, column = rows[p.number // n_columns], columns[p.number % n_columns]
        for _ in range(size):
            for axis, line, comm in (("x", 20, row), ("y", 40, column), ("z", 60, None)):
                p.work(f"transform_{axis}", line, 30_000 + 3_000 * (p.number % 3))
                if comm is not None:
                    p.collective("alltoall", comm, PENCIL // len(comm.members))
            for axis, line, comm in (("z", 60, column), ("y", 40, row)):
                p.work(f"transform_{axis}", line, 30_000)
                p.collective("alltoall", comm, PENCIL // len(comm.members))
            p.collective("barrier", s.world)
        p.collective("allreduce", s.world, 16)
    s.end()
    return s
