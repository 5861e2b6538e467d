"""Role, paradigm and collective operation of functions by name, for formats that record only names."""

from __future__ import annotations

REGION_NAMES: tuple[tuple[str, str, str], ...] = (
    ("mpi_i?barrier", "barrier", "mpi"),
    ("mpi_i?(bcast|scatterv?)", "coll_one2all", "mpi"),
    ("mpi_i?(gatherv?|reduce)", "coll_all2one", "mpi"),
    ("mpi_i?(allgatherv?|alltoall[vw]?|allreduce|reduce_scatter(_block)?)", "coll_all2all", "mpi"),
    ("mpi_i?(ex)?scan", "coll_other", "mpi"),
    ("mpi_(i?[bsr]?send(_init)?|i?m?recv(_init)?|sendrecv(_replace)?|i?m?probe|start(all)?|cancel|request_free"
     "|request_get_status|buffer_(attach|detach)|get_count)", "point2point", "mpi"),
    ("mpi_r?(put|get)", "rma", "mpi"),
    ("mpi_(r?(get_)?accumulate|fetch_and_op|compare_and_swap)", "atomic", "mpi"),
    ("mpi_file_.*", "file_io", "mpi"),
    ("mpi.+", "function", "mpi"),
    ("omp.+", "function", "openmp"),
    ("p?shmem_?.*|start_pes", "function", "shmem"),
)  # fmt: skip
"""Role and paradigm of functions by their name in lower case, without trailing underscores; the first that fits."""

COLLECTIVE_NAMES = (
    "mpi_i?(barrier|bcast|gatherv?|scatterv?|allgatherv?|alltoall[vw]?|allreduce|reduce_scatter_block|"
    "reduce_scatter|reduce"
    "|exscan|scan)"
)
WINDOW_OPS = {"mpi_win_create": "create_handle", "mpi_win_free": "destroy_handle", "mpi_win_fence": "barrier"}
