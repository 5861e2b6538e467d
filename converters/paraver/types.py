"""The event types of Extrae, declared as data that drives scanning, decoding and definitions."""

from __future__ import annotations

from dataclasses import dataclass

# actions for the events of a type
(
    IGNORED,
    SKIPPED,
    METRIC,
    CALL,
    SENT,
    RECEIVED,
    ROOT,
    COMMUNICATOR,
    CALLER,
    PARALLEL,
    FUNCTION,
    CRITICAL,
    LOCK,
    FLUSH,
    REGION,
    KERNEL,
    ON_STREAM,
    PHASE,
    MODE,
    SWITCH,
    KERNEL_NAME,
) = range(21)
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


def _one(number: int, action: int, name: str = "", role: str = "function", paradigm: str = "") -> Types:
    return Types(number, number, action, name, role, paradigm)


TYPES: tuple[Types, ...] = (
    # the OpenMP events of Extrae 5
    _one(60000, REGION, "", "function", "openmp"),
    _one(60001, IGNORED),
    _one(60002, PHASE),
    Types(60003, 60004, REGION, "", "function", "openmp"),
    _one(60005, CRITICAL),
    _one(60006, LOCK),
    Types(60007, 60009, IGNORED),
    _one(60010, REGION, "", "function", "openmp"),
    _one(60011, IGNORED),
    _one(60012, FUNCTION, "", "parallel", "openmp"),
    Types(60013, 60014, IGNORED),
    _one(60015, REGION, "!$omp create task", "task_create", "openmp"),
    Types(60016, 60017, IGNORED),
    _one(60018, REGION, "", "task", "openmp"),
    _one(60019, IGNORED),
    Types(30000000, 30000099, SKIPPED),
    _one(40000000, REGION, "", "function", "unknown"),
    _one(40000001, IGNORED),
    _one(40000002, REGION, "TRACING", "artificial", "measurement_system"),
    _one(40000003, FLUSH),
    _one(40000004, REGION, "", "file_io", "unknown"),
    Types(40000010, 40000011, IGNORED),
    _one(40000012, SWITCH, "MEASUREMENT OFF", "artificial", "user"),
    _one(40000013, IGNORED),
    _one(40000018, MODE, "", "function", "mpi"),
    _one(40000027, REGION, "", "function", "unknown"),
    _one(40000033, IGNORED),
    Types(40000036, 40000038, IGNORED),
    _one(40000040, REGION, "", "function", "unknown"),
    Types(40000041, 40000043, IGNORED),
    _one(40000050, IGNORED),
    _one(40000059, IGNORED),
    _one(40000133, IGNORED),
    _one(41999999, IGNORED),
    Types(42000000, 42999999, METRIC),
    # with mpi2prv -absolute-counters, the sums of the others
    Types(43000000, 43999999, IGNORED),
    Types(44000000, 44999999, METRIC),
    _one(50000001, CALL, "", "point2point", "mpi"),
    Types(50000002, 50000003, CALL, "", "function", "mpi"),
    _one(50000004, CALL, "", "rma", "mpi"),
    _one(50000005, CALL, "", "file_io", "mpi"),
    _one(50000061, IGNORED),
    _one(50000110, IGNORED),
    Types(50001000, 50001003, IGNORED),
    _one(50100001, SENT),
    _one(50100002, RECEIVED),
    _one(50100003, ROOT),
    _one(50100004, COMMUNICATOR),
    _one(52000000, REGION, "", "function", "shmem"),
    _one(52100000, IGNORED),
    _one(52200000, IGNORED),
    _one(60000001, PARALLEL),
    _one(60000002, REGION, "", "function", "openmp"),
    _one(60000005, REGION, "!$omp barrier", "barrier", "openmp"),
    Types(60000006, 60000007, CRITICAL),
    _one(60000011, REGION, "!$omp next iterations", "function", "openmp"),
    _one(60000016, REGION, "", "function", "openmp"),
    _one(60000018, FUNCTION, "", "parallel", "openmp"),
    _one(60000019, REGION, "", "function", "user"),
    _one(60000020, REGION, "", "function", "pthread"),
    _one(60000022, REGION, "!$omp taskwait", "task_wait", "openmp"),
    _one(60000023, REGION, "", "task", "openmp"),
    _one(60000024, REGION, "!$omp create task", "task_create", "openmp"),
    _one(60000025, REGION, "", "function", "openmp"),
    Types(60000027, 60000028, IGNORED),
    _one(60000029, REGION, "!$omp taskloop", "function", "openmp"),
    _one(60000030, REGION, "omp_set_num_threads", "function", "openmp"),
    _one(60000031, REGION, "omp_get_num_threads", "function", "openmp"),
    _one(60000032, LOCK),
    # of OMPT; a critical section begins when it is acquired, the wait is one of 60000007
    _one(60000050, REGION, "!$omp critical sblock", "critical_sblock", "openmp"),
    _one(60000051, REGION, "!$omp atomic", "atomic", "openmp"),
    _one(60000052, REGION, "!$omp for", "loop", "openmp"),
    _one(60000053, REGION, "!$omp workshare", "workshare", "openmp"),
    _one(60000054, REGION, "!$omp sections", "sections", "openmp"),
    _one(60000055, REGION, "!$omp single", "single", "openmp"),
    _one(60000056, REGION, "!$omp master", "master", "openmp"),
    Types(60000118, 60000124, IGNORED),
    _one(60010029, IGNORED),
    _one(61000000, REGION, "", "function", "pthread"),
    *(
        _one(number, REGION, f"pthread_{name}", "function", "pthread")
        for number, name in enumerate(
            (
                "exit", "create", "join", "detach", "rwlock_wrlock", "rwlock_rdlock", "rwlock_unlock", "mutex_lock",
                "mutex_unlock", "cond_signal", "cond_broadcast", "cond_wait", "barrier_wait",
            ),
            61000001,
        )
    ),
    Types(61000014, 61999999, REGION, "", "function", "pthread"),
    # Extrae 5 records calls as 63000000, copies on streams as 63000001 and kernels as 63000006; Extrae 3 and 4 record
    # calls, and the stream activities they cause, as 63000001 and kernels as 63000019
    _one(63000000, REGION, "", "function", "cuda"),
    _one(63000001, ON_STREAM, "", "function", "cuda"),
    Types(63000002, 63000005, IGNORED),
    _one(63000006, KERNEL, "", "kernel", "cuda"),
    Types(63000007, 63000018, IGNORED),
    _one(63000019, KERNEL, "", "kernel", "cuda"),
    _one(63000119, IGNORED),
    _one(63300000, IGNORED),
    _one(63500000, REGION, "", "function", "hip"),
    _one(63500001, ON_STREAM, "", "function", "hip"),
    Types(63500002, 63500005, IGNORED),
    _one(63500006, KERNEL, "", "kernel", "hip"),
    Types(63500007, 63500019, IGNORED),
    _one(64000000, REGION, "", "function", "opencl"),
    _one(64099999, IGNORED),
    _one(64100000, REGION, "", "kernel", "opencl"),
    _one(64200000, KERNEL_NAME, "", "kernel", "opencl"),
    _one(64300000, IGNORED),
    Types(65000000, 65000001, IGNORED),
    Types(66000000, 66000099, REGION, "", "function", "openacc"),
    _one(69000000, REGION, "", "function", "gaspi"),
    Types(69000001, 69000099, IGNORED),
    Types(69100000, 69100099, IGNORED),
    Types(70000001, 70000099, CALLER, "", "function", "user"),
    Types(80000001, 80000099, IGNORED),
)  # fmt: skip
"""All types with a meaning. Others are counted."""

OF_NSYS2PRV = (
    ("NVTX pushpop ranges", REGION, "function", "user"), ("NCCL regions", REGION, "function", "user"),
    ("NCCL kernel", KERNEL, "kernel", "cuda"),
)  # fmt: skip
"""Types that nsys2prv, which converts exports of Nsight Systems, numbers differently from trace to trace, or as Extrae
numbers others: begin of the label, action, role and paradigm."""

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

RUNNING, NOT_CREATED = 1, 2
"""States whose meaning does not depend on events."""

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
