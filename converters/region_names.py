"""Role, paradigm and collective operation of functions by name, for formats that record only names."""

from __future__ import annotations

import re

from tracecols.schema.enums import COLLECTIVE_OPS, plain_name

_NAMES = (
    ("mpi_i?barrier", "barrier", "mpi"),
    ("mpi_i?(bcast|scatterv?)", "coll_one2all", "mpi"),
    ("mpi_i?(gatherv?|reduce)", "coll_all2one", "mpi"),
    ("mpi_i?(allgatherv?|alltoall[vw]?|allreduce|reduce_scatter(_block)?)", "coll_all2all", "mpi"),
    ("mpi_i?(ex)?scan", "coll_other", "mpi"),
    ("mpi_(i?[bsr]?send(_init)?|i?m?recv(_init)?|i?sendrecv(_replace)?|i?m?probe|start(all)?|cancel|request_free"
     "|request_get_status|buffer_(attach|detach)|get_count|p(send|recv)_init|pready(_list|_range)?|parrived)",
     "point2point", "mpi"),
    ("mpi_r?(put|get)", "rma", "mpi"),
    ("mpi_(r?(get_)?accumulate|fetch_and_op|compare_and_swap)", "atomic", "mpi"),
    ("mpi_file_.*", "file_io", "mpi"),
    ("mpi.+", "function", "mpi"),
    ("omp.+", "function", "openmp"),
    ("p?shmem_?.*|start_pes", "function", "shmem"),
)  # fmt: skip
"""Role and paradigm of functions by `plain_name`; the first that fits."""

_PATTERNS = [(re.compile(pattern), role, paradigm) for pattern, role, paradigm in _NAMES]

_COLLECTIVE = re.compile(
    "mpi_i?(barrier|bcast|gatherv?|scatterv?|allgatherv?|alltoall[vw]?|allreduce|reduce_scatter_block|"
    "reduce_scatter|reduce|exscan|scan)"
)
WINDOW_OPS = {"mpi_win_create": "create_handle", "mpi_win_free": "destroy_handle", "mpi_win_fence": "barrier"}
"""Collective operations of MPI on windows, by `plain_name`."""


def find_role(name: str) -> tuple[str, str] | None:
    """Return role and paradigm of a function; None if its name says neither."""
    lower = plain_name(name)
    return next(((role, paradigm) for fits, role, paradigm in _PATTERNS if fits.fullmatch(lower)), None)


def collective_of(name: str) -> int:
    """Return the index in `COLLECTIVE_OPS` of the operation of an MPI function, blocking or not; -1 if it is none."""
    found = _COLLECTIVE.fullmatch(plain_name(name))
    return COLLECTIVE_OPS.index(found[1]) if found else -1
