"""What the regions of a trace are: parallel constructs, initialisation, artificial ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels import stacks
from tracecols.schema.enums import TEAM_CONSTRUCTS
from tracecols.store import Store
from tracecols.store.arrow import to_numpy

TASKS = "TASKS"
"""Name of the artificial region above the call paths of explicit tasks."""

THREADS = "THREADS"
"""Name of the artificial region above the call paths of threads that the program creates."""

CONSTRUCTS = TEAM_CONSTRUCTS
"""Roles of OpenMP regions that a whole team executes (thesis 3.5)."""


class Regions:
    """The regions of a trace as columns; two artificial regions, TASKS and THREADS, are appended.

    Attributes
    ----------
    name, role, paradigm : (n_regions,) object
        Text.
    lower : (n_regions,) object
        Names in lower case without trailing underscores, for comparison (Fortran).
    construct : (n_regions,) int8
        Position in `CONSTRUCTS`, -1 for other regions.
    is_init, is_finalize : (n_regions,) bool
        MPI_Init or MPI_Init_thread; MPI_Finalize.
    flags : (n_regions,) uint8
        For `kernels.stacks.scan_events`.
    tasks, threads : int
        The regions TASKS and THREADS.
    of_entry : (n_entries,) int32
        Region by entry: every region by itself, then that of every call site.
    call_sites : (n_sites + 1,) object
        File and line of every call site; the last, for none, is empty.
    """

    def __init__(self, store: Store) -> None:
        table = store.definitions["regions"]

        def texts(column: str, tasks: str, threads: str) -> NDArray[np.object_]:
            return np.array([*table.column(column).to_pylist(), tasks, threads], object)

        self.name = texts("name", TASKS, THREADS)
        self.canonical_name = texts("canonical_name", TASKS, THREADS)
        self.role = texts("role", "artificial", "artificial")
        self.paradigm = texts("paradigm", "measurement_system", "measurement_system")
        self.file = texts("file", "", "")
        self.description = texts(
            "description",
            "tasks, whose times are also shown where they were scheduled",
            "threads that the program creates",
        )
        self.begin_line = np.array([*table.column("begin_line").to_pylist(), 0, 0], np.int64)
        self.end_line = np.array([*table.column("end_line").to_pylist(), 0, 0], np.int64)
        self.tasks, self.threads = len(self.name) - 2, len(self.name) - 1
        sites = store.definitions["call_sites"]
        self.of_entry = np.concatenate([np.arange(len(self.name)), to_numpy(sites.column("region"))]).astype(np.int32)
        where = zip(sites.column("file").to_pylist(), sites.column("line").to_pylist(), strict=True)
        self.call_sites = np.array([*(f"{file}:{line}" for file, line in where), ""], object)
        self.lower = np.array([n.lower().rstrip("_") for n in self.name], object)
        is_mpi = self.paradigm == "mpi"
        self.is_init = is_mpi & np.isin(self.lower, ["mpi_init", "mpi_init_thread"])
        self.is_finalize = is_mpi & (self.lower == "mpi_finalize")
        openmp = self.paradigm == "openmp"
        self.construct = np.full(self.name.size, -1, np.int8)
        for i, role in enumerate(CONSTRUCTS):
            self.construct[openmp & (self.role == role)] = i
        is_call = (self.construct >= 0) | self.is_init | self.is_finalize
        self.flags = (is_call * stacks.IS_CALL + (self.role == "artificial") * stacks.IS_ARTIFICIAL).astype(np.uint8)

    def __len__(self) -> int:
        return len(self.name)
