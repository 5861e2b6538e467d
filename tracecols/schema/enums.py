"""Enumerations of the store: names by number."""

from __future__ import annotations

import re

REGION_ROLES = (
    "unknown", "function", "wrapper", "loop", "code", "parallel", "sections", "section", "workshare", "single",
    "single_sblock", "master", "critical", "critical_sblock", "atomic", "barrier", "implicit_barrier", "flush",
    "ordered", "ordered_sblock", "task", "task_create", "task_wait", "coll_one2all", "coll_all2one", "coll_all2all",
    "coll_other", "file_io", "point2point", "rma", "data_transfer", "artificial", "thread_create", "thread_wait",
    "task_untied", "allocate", "deallocate", "reallocate", "file_io_metadata", "cancel", "kernel",
)  # fmt: skip

PARADIGMS = (
    "unknown", "user", "compiler", "openmp", "mpi", "cuda", "measurement_system", "pthread", "hmpp", "ompss",
    "hardware", "gaspi", "upc", "shmem", "winthread", "qtthread", "acethread", "tbbthread", "openacc", "opencl",
    "mtapi", "sampling", "none", "hip", "kokkos", "openmp_target",
)  # fmt: skip

NCCL = "nccl"
"""Paradigm of kernels of NCCL, RCCL and oneCCL; not in `PARADIGMS`, as no format has a number for it."""

COLLECTIVE_OPS = (
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
    "alltoallw", "allreduce", "reduce", "reduce_scatter", "scan", "exscan", "reduce_scatter_block", "create_handle",
    "destroy_handle", "allocate", "deallocate", "create_handle_and_allocate", "destroy_handle_and_deallocate",
)  # fmt: skip

MARKER_SEVERITIES = ("none", "low", "medium", "high")
MARKER_SCOPES = ("global", "location", "location_group", "system_tree_node", "group", "comm")

GROUP_TYPES = (
    "unknown", "locations", "regions", "metric", "comm_locations", "comm_group", "comm_self", "comm_location_groups",
)  # fmt: skip
GROUPS_OF_LOCATIONS = ("locations", "comm_locations", "comm_group", "comm_location_groups")
"""Types of groups whose members are rows of locations."""
LOCATION_TYPES = ("unknown", "cpu_thread", "gpu", "metric")
LOCATION_GROUP_TYPES = ("unknown", "process", "accelerator")
METRIC_TYPES = ("other", "papi", "rusage", "user")
METRIC_MODES = {
    0: "accumulated_start", 16: "accumulated_point", 17: "absolute_point", 18: "relative_point", 32: "accumulated_last",
    33: "absolute_last", 34: "relative_last", 48: "accumulated_next", 49: "absolute_next", 50: "relative_next",
}  # fmt: skip
METRIC_DTYPES = {8: "int64", 4: "uint64", 10: "float64"}
METRIC_OCCURRENCES = ("synchronous_strict", "synchronous", "asynchronous")
METRIC_SCOPES = ("location", "location_group", "system_tree_node", "group")
RECORDER_KINDS = ("unknown", "abstract", "cpu", "gpu")
PARAMETER_TYPES = ("string", "int64", "uint64")
INTERRUPT_MODES = ("time", "count")
VALUE_TYPES = (
    "none", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float", "double", "string",
    "attribute", "location", "region", "group", "metric", "comm", "parameter", "rma_win", "source_code_location",
    "calling_context", "interrupt_generator", "io_file", "io_handle", "location_group",
)  # fmt: skip

VALUE_TARGETS = {
    "string": "strings", "attribute": "attribute_definitions", "location": "locations", "region": "regions",
    "group": "groups", "metric": "metric_sources", "comm": "communicators", "parameter": "parameter_definitions",
    "rma_win": "windows", "source_code_location": "source_code_locations", "calling_context": "calling_contexts",
    "interrupt_generator": "interrupt_generators", "io_file": "io_files", "io_handle": "io_handles",
    "location_group": "processes",
}  # fmt: skip
"""By type of value: the table whose rows such values are."""


TEAM_CONSTRUCTS = ("parallel", "loop", "sections", "workshare", "single", "barrier", "implicit_barrier")
"""Roles of OpenMP regions that a whole team executes (thesis 3.5)."""

TASKS = "TASKS"
"""Name of the artificial region above the call paths of explicit tasks."""

THREADS = "THREADS"
"""Name of the artificial region above the call paths of threads that the program creates."""


def plain_name(name: str) -> str:
    """Return the name of a function for comparison: in lower case, without the trailing underscores of Fortran, and
    without the suffix of the functions of MPI 4 with large counts, which do the same (MPI_Send_c).

    Parameters
    ----------
    name : str
    """
    lower = name.lower().rstrip("_")
    return lower.removesuffix("_c") if lower.startswith("mpi_") else lower


def name_of(names: tuple[str, ...] | dict[int, str], number: int) -> str:
    """Return the name of an enumerator, or its number as text if it is not known."""
    if isinstance(names, dict):
        return names.get(number, str(number))
    return names[number] if 0 <= number < len(names) else str(number)


CORRELATION = "CORRELATION_ID"
"""Attribute of ENTER: a number that calls of a process share with the work of the device that they cause."""

COPIED_BYTES = "COPIED_BYTES"
"""Attribute of ENTER of copies that are recorded as regions: the number of bytes."""

STREAM_NAME = re.compile(r"\s*([^\[\]]*?)\s*\[(\d+):")
"""Pattern of the names that Score-P gives to streams: `CUDA[device:stream]`."""

_STREAM_OF_EXTRAE = re.compile(r"(\w+-D\d+)\.S\d+|(GPU_[^.\s]+)")
"""Pattern of the names that Extrae gives to streams: `CUDA-D1.S2-host`, `GPU_a2f80454.1`."""


def device_label(stream: str) -> str:
    """Return the device name that the name of a stream contains: `CUDA[0]` of `CUDA[0:7]`, `CUDA-D1` of
    `CUDA-D1.S2-host`; empty if there is none."""
    if found := STREAM_NAME.match(stream):
        return f"{found[1]}[{found[2]}]"
    found = _STREAM_OF_EXTRAE.match(stream)
    return found[1] or found[2] if found else ""
