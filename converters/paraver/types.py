"""The event types of Extrae, declared as data that drives scanning, decoding and definitions."""

from __future__ import annotations

from dataclasses import dataclass

# actions for the events of a type
(
    IGNORED, SKIPPED, METRIC, CALL, SENT, RECEIVED, ROOT, COMMUNICATOR, CALLER, PARALLEL, FUNCTION, CRITICAL, LOCK,
    FLUSH, REGION, KERNEL, ON_STREAM, PHASE, MODE, SWITCH, KERNEL_NAME,
) = range(21)  # fmt: skip
"""IGNORED events hold no information that the store lacks; SKIPPED events are not kept, but counted. KERNEL is a region
on streams of devices; Extrae 3 and 4 record it in the calls that launch it as well, where it is ignored. ON_STREAM is a
region, but on streams only if no kernel begins or ends with it. PHASE forks and joins a team, or says that a thread is
inside the parallel region. MODE says which records follow. SWITCH is a region that value 0 begins and others end.
KERNEL_NAME is the name of the kernel that begins on a stream at the same time."""

WITH_REGIONS = (CALL, CALLER, FUNCTION, REGION, KERNEL, ON_STREAM, MODE, KERNEL_NAME)
"""Actions of events that name a region by their value."""


@dataclass(frozen=True)
class Types:
    """Event types with one meaning."""

    first: int
    last: int
    """`first` and `last`: the types."""
    action: int
    """Action for their events."""
    name: str = ""
    """Name of the region; empty if it depends on the value, or there is none."""
    role: str = "function"
    paradigm: str = ""
    """`role` and `paradigm`: of the region, unless its name determines them."""


_IGNORED = (
    60001, (60007, 60009), 60011, (60013, 60014), (60016, 60017), 60019, 40000001, (40000010, 40000011), 40000013,
    40000033, (40000036, 40000038), (40000041, 40000043), 40000050, 40000059, 40000133, 41999999, (43000000, 43999999),
    50000061, 50000110, (50001000, 50001003), 52100000, 52200000, (60000027, 60000028), (60000118, 60000124), 60010029,
    (63000002, 63000005), (63000007, 63000018), 63000119, 63300000, (63500002, 63500005), (63500007, 63500019),
    64099999, 64300000, (65000000, 65000001), (69000001, 69000099), (69100000, 69100099), (80000001, 80000099),
)  # fmt: skip
"""Types, and first and last types, of IGNORED events; 43000000 and following are the sums of the other counters, with
mpi2prv -absolute-counters."""

_FUNCTIONS = {
    "openmp": (60000, (60003, 60004), 60010, 60000002, 60000016, 60000025),
    "pthread": (60000020, 61000000, (61000014, 61999999)),
    "unknown": (40000000, 40000027, 40000040),
    "user": (60000019,), "shmem": (52000000,), "gaspi": (69000000,), "openacc": ((66000000, 66000099),),
    "cuda": (63000000,), "hip": (63500000,), "opencl": (64000000,),
}  # fmt: skip
"""Types, and first and last types, of functions that values name, by paradigm. Extrae 5 has types below 100000 for
OpenMP."""


def _types(
    numbers: int | tuple[int, int], action: int, name: str = "", role: str = "function", paradigm: str = ""
) -> Types:
    first, last = numbers if isinstance(numbers, tuple) else (numbers, numbers)
    return Types(first, last, action, name, role, paradigm)


TYPES: tuple[Types, ...] = (
    *(_types(numbers, IGNORED) for numbers in _IGNORED),
    *(_types(numbers, REGION, paradigm=paradigm) for paradigm, types in _FUNCTIONS.items() for numbers in types),
    # the OpenMP events of Extrae 5
    _types(60002, PHASE),
    _types(60005, CRITICAL),
    _types(60006, LOCK),
    _types(60012, FUNCTION, "", "parallel", "openmp"),
    _types(60015, REGION, "!$omp create task", "task_create", "openmp"),
    _types(60018, REGION, "", "task", "openmp"),
    _types((30000000, 30000099), SKIPPED),
    _types(40000002, REGION, "TRACING", "artificial", "measurement_system"),
    _types(40000003, FLUSH),
    _types(40000004, REGION, "", "file_io", "unknown"),
    _types(40000012, SWITCH, "MEASUREMENT OFF", "artificial", "user"),
    _types(40000018, MODE, paradigm="mpi"),
    _types((42000000, 42999999), METRIC),
    _types((44000000, 44999999), METRIC),
    _types(50000001, CALL, "", "point2point", "mpi"),
    _types((50000002, 50000003), CALL, paradigm="mpi"),
    _types(50000004, CALL, "", "rma", "mpi"),
    _types(50000005, CALL, "", "file_io", "mpi"),
    _types(50100001, SENT),
    _types(50100002, RECEIVED),
    _types(50100003, ROOT),
    _types(50100004, COMMUNICATOR),
    _types(60000001, PARALLEL),
    _types(60000005, REGION, "!$omp barrier", "barrier", "openmp"),
    _types((60000006, 60000007), CRITICAL),
    _types(60000011, REGION, "!$omp next iterations", paradigm="openmp"),
    _types(60000018, FUNCTION, "", "parallel", "openmp"),
    _types(60000022, REGION, "!$omp taskwait", "task_wait", "openmp"),
    _types(60000023, REGION, "", "task", "openmp"),
    _types(60000024, REGION, "!$omp create task", "task_create", "openmp"),
    _types(60000029, REGION, "!$omp taskloop", paradigm="openmp"),
    _types(60000030, REGION, "omp_set_num_threads", paradigm="openmp"),
    _types(60000031, REGION, "omp_get_num_threads", paradigm="openmp"),
    _types(60000032, LOCK),
    # of OMPT; a critical section begins when it is acquired, the wait is one of 60000007
    _types(60000050, REGION, "!$omp critical sblock", "critical_sblock", "openmp"),
    *(
        _types(number, REGION, f"!$omp {construct}", "loop" if construct == "for" else construct, "openmp")
        for number, construct in enumerate(("atomic", "for", "workshare", "sections", "single", "master"), 60000051)
    ),
    *(
        _types(number, REGION, f"pthread_{name}", paradigm="pthread")
        for number, name in enumerate(
            (
                "exit", "create", "join", "detach", "rwlock_wrlock", "rwlock_rdlock", "rwlock_unlock", "mutex_lock",
                "mutex_unlock", "cond_signal", "cond_broadcast", "cond_wait", "barrier_wait",
            ),
            61000001,
        )
    ),
    # Extrae 5 records calls as 63000000, copies on streams as 63000001 and kernels as 63000006; Extrae 3 and 4 record
    # calls, and the stream activities they cause, as 63000001 and kernels as 63000019
    _types(63000001, ON_STREAM, paradigm="cuda"),
    _types(63000006, KERNEL, "", "kernel", "cuda"),
    _types(63000019, KERNEL, "", "kernel", "cuda"),
    _types(63500001, ON_STREAM, paradigm="hip"),
    _types(63500006, KERNEL, "", "kernel", "hip"),
    _types(64100000, REGION, "", "kernel", "opencl"),
    _types(64200000, KERNEL_NAME, "", "kernel", "opencl"),
    _types((70000001, 70000099), CALLER, paradigm="user"),
)  # fmt: skip
"""All types with a meaning, each once. Others are counted."""

OF_NSYS2PRV = (
    ("NVTX pushpop ranges", REGION, "function", "user"), ("NCCL regions", REGION, "function", "user"),
    ("NCCL kernel", KERNEL, "kernel", "cuda"),
)  # fmt: skip
"""Types that nsys2prv, which converts exports of Nsight Systems, numbers differently from trace to trace, or as Extrae
numbers others: begin of the label, action, role and paradigm."""

MAGIC = b"#Paraver"
"""First bytes of a trace."""

FIRST_CALL, LAST_CALL = 50000001, 50000005
"""First and last type of calls of MPI."""

LATEST = (1 << 62) - 1
"""Upper bound for times, in ticks."""

LINES = {60000018: 60000118, 60012: 60013}
"""Types of the source lines of parallel functions."""

_IMPLICIT = "!$omp implicit barrier", "implicit_barrier"
SYNCHRONISATION = {
    "BARRIER": ("!$omp barrier", "barrier"), "TASKWAIT": ("!$omp taskwait", "task_wait"), "JOIN (wait)": _IMPLICIT,
    "Join (w wait)": _IMPLICIT,
}  # fmt: skip
"""Names and roles of regions of OpenMP, by the labels of their values."""

MISLABELLED = {
    (50000002, 161, "(null)"): "MPI_Iallgatherv",
    (50000004, 69, "MPI_Win_complete"): "MPI_Win_start",
    (50000004, 70, "MPI_Win_start"): "MPI_Win_complete",
}
"""Names of values with wrong labels: Extrae writes these two calls for windows the other way round."""

TASKGROUP = 60000025
TASKGROUP_CALLS = {1: ("!$omp taskgroup", "function"), 2: ("!$omp end taskgroup", "task_wait")}
"""Names and roles of regions of OpenMP, by the values of TASKGROUP: at the end of a group its tasks are waited for."""

CALLER_BASE, OPENCL_ON_STREAM = 70000000, 64100000

BURSTS, OUTSIDE = 2, "outside of bursts"
"""Value of MODE: only computation that takes long is recorded, as states; and the region of the time between."""

NOT_CREATED = 2
"""State before a thread begins; the others say what it does."""

NO_FUNCTION = ("End", "Unresolved", "_NOT_Found")
"""Values of callers that name no function."""

CRITICAL_WANTS, CRITICAL_HAS, CRITICAL_LEAVES = 3, 6, 5
"""Values of CRITICAL."""

LOCK_STATUS, OBTAINING, OBTAINING_VALUE = 60005, "LOCK: Obtaining", 38
"""The type that Extrae 5 has in place of CRITICAL, and label and value of the first of its three values: wants, has,
leaves. The value depends on the version."""

DEVICE_STREAMS = ("CUDA", "HIP", "OpenCL", "OpenACC", "GPU-", "GPU_")
"""Prefixes of the names of threads that are streams of devices; newer versions of Extrae name them `GPU-D1.S1`, or
`GPU_a2f80454.1` by the identifier of the device."""


def types_of(number: int, label: str = "") -> Types | None:
    """Return the declaration of a type with its label in `.pcf`; None if it has none."""
    for begin, action, role, paradigm in OF_NSYS2PRV:
        if label.startswith(begin):
            return Types(number, number, action, "", role, paradigm)
    return next((t for t in TYPES if t.first <= number <= t.last), None)


def names_region(number: int, value: int) -> bool:
    """Return whether an event of a type and value says what a thread does."""
    found = types_of(number)
    return found is not None and found.action in WITH_REGIONS and (found.action != MODE or value == BURSTS)


def names_lock(number: int) -> bool:
    """Return whether the values of events of a type are locks."""
    found = types_of(number)
    return found is not None and found.action == LOCK


def is_call(number: int, value: int) -> bool:
    """Return whether events of a type and value are MPI calls, or say that these are not recorded."""
    found = types_of(number)
    return found is not None and (found.action == CALL or (found.action == MODE and value == BURSTS))
