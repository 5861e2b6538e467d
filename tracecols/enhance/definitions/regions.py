"""Classification of the regions of a trace: parallel constructs, initialisation, device calls, artificial regions."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels import stacks
from tracecols.schema.enums import NCCL, TASKS, TEAM_CONSTRUCTS, THREADS, plain_name
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Mask

CONSTRUCTS = TEAM_CONSTRUCTS
"""Roles of OpenMP regions that a whole team executes (thesis 3.5)."""

THREAD_CALLS = ("pthread_create", "pthread_join", "pthread_cond_signal", "pthread_cond_broadcast")
"""Calls of POSIX threads whose instances are joined with events of other threads."""

POLLING_CALLS = ("mpi_test", "mpi_testall", "mpi_testany", "mpi_testsome", "mpi_iprobe", "mpi_improbe")
"""Calls of MPI that test for completions or messages without waiting."""

IS_BARRIER: Mask = np.isin(CONSTRUCTS, ("barrier", "implicit_barrier"))
"""Mask of the `CONSTRUCTS` that are barriers."""

COLLECTIVE_FILE = re.compile(
    r"mpi_file_((read|write)_(all|at_all|ordered)|close|open|preallocate|set_(atomicity|info|size|view)|sync)"
)
"""Lower-case names of blocking calls that are collective for the processes that opened a file together."""

DEVICE_PARADIGMS = ("cuda", "hip", "opencl", "openacc", "openmp_target")
"""Paradigms whose regions on a CPU are calls that manage or use devices."""

MANAGEMENT, LAUNCH, MEMORY, SYNCHRONIZATION, WAIT, COPY = range(6)
"""Purpose of such calls: a WAIT is a synchronisation that blocks the host, any other SYNCHRONIZATION only queries or
orders operations."""

_DEVICE_CALLS = (
    (
        LAUNCH,
        r"(cu|cuda|hip|musa)(ext)?(module)?(launch(?!hostfunc)|graphlaunch)\w*|clenqueue(ndrangekernel|task)|"
        r"acc_(enqueue_|launch_)"
        r"(kernel|launch)\b.*|acc_(enqueue_)?launch\b.*|zecommandlistappendlaunch\w*|(pi|ur)enqueuekernellaunch\w*|"
        r"sycl::.*\b(parallel_for|single_task)\b.*|.*\bsubmit\b.*",
    ),
    (
        WAIT,
        r"(cu|cuda|hip|musa)(ctx|stream|event|device|thread)synchronize\w*|clfinish|clwaitforevents|wait for command "
        r"queue|"
        r"acc_(implicit_)?wait\b.*|ze(commandqueue|commandlist|event|fence)(host)?synchronize|"
        r"(pi|ur)(queuefinish|events?wait)\w*|"
        r"sycl::.*\bwait(_and_throw)?\b.*",
    ),
    (
        SYNCHRONIZATION,
        r"(cu|cuda|hip|musa)(stream(waitevent|query|waitvalue)|eventquery)\w*|"
        r"clenqueue(barrier|marker|waitforevents)\w*|"
        r"zecommandlistappend(barrier|wait|signal)\w*|zecommandqueueexecute\w*|ze(event|fence)query\w*|"
        r"(pi|ur)enqueueevents\w*",
    ),
    (
        COPY,
        r"(cu|cuda|hip|musa)memcpy\w*|clenqueue(svm)?(read|write|copy|map|unmap|memcpy|migrate)\w*|"
        r"acc_(enqueue_)?(upload|download|copy|update)\b.*|zecommandlistappend(memory|image)copy\w*|"
        r"(pi|ur)enqueue(mem|usm)\w*(read|write|copy|memcpy|map|unmap)\w*|.*\b(transfer|update|memcpy)\b.*",
    ),
    (
        MEMORY,
        r"(cu|cuda|hip|musa)(mem|malloc|free|host)\w*|"
        r"cl(create(buffer|subbuffer|image|pipe)|releasememobject|svm|enqueue(svm)?fill)\w*|"
        r"acc_(implicit_)?(alloc|free|create|delete|copyin|copyout)\b.*|ze(virtual|physical)?mem\w*|"
        r"zecommandlistappendmemoryfill\w*|"
        r"(pi|ur)(mem|usm|enqueue(mem|usm))\w*|sycl::(aligned_)?(malloc|free|alloc)\w*.*|"
        r".*\b(alloc|free|delete|associate)\b.*",
    ),
)
"""Patterns of whole lower-case names; the first that matches counts. All other calls are MANAGEMENT."""

_OF_LIBRARIES = re.compile(
    r"(cu|cuda|hip|musa|cl|ze|zes)[A-Z]\w*|acc_\w+@.*|"
    r"(pi|ur)(Enqueue|Queue|Event|Mem|USM|Kernel|Program|Context|Device|Platform)\w*|sycl::.*"
)
"""Names of functions of device libraries (CUDA, HIP, MUSA, OpenCL, Level Zero, OpenACC, SYCL and its backends),
whatever the recorded paradigm: there is none for Level Zero and SYCL, and some recordings made before a paradigm was
defined have another one."""

_OF_OTHERS = ("mpi", "openmp", "pthread", "shmem", "measurement_system")
"""Paradigms that are never recorded for functions of device libraries."""

_OF_PROGRAMS = ("user", "compiler", "sampling", "none")
"""Paradigms of functions of the program: these are calls for devices only if their name indicates a launch, copy, wait,
..."""


PHASE = 2
"""Flag of regions whose instances are phases."""

CONTEXTS = re.compile(
    r"cuinit|cu(device)?(primary)?ctx(create|retain|release|reset|destroy)\w*|hipinit|"
    r"hip(device)?(primary)?ctx(create|retain|release|reset|destroy)\w*|"
    r"clcreatecontext\w*|clreleasecontext|clgetplatformids|clgetdeviceids|acc_init\b.*|acc_shutdown\b.*|"
    r"acc_device_init\b.*|"
    r"(init|initiali[sz]e)_?(cuda|hip|opencl|ocl|gpus?|acc|openacc|devices?)|"
    r"(cuda|hip|opencl|ocl|gpus?|openacc|devices?)_?init(iali[sz]e)?"
)
"""Lower-case names of calls that create and destroy contexts of devices, and typical names of functions of programs in
which a library creates contexts without a recorded call."""


class Regions:
    """The regions of a trace as columns; two artificial regions, TASKS and THREADS, are appended.

    Attributes
    ----------
    name, role, paradigm : (n_regions,) object
        Strings.
    lower : (n_regions,) object
        Names for comparison (`schema.enums.plain_name`).
    construct : (n_regions,) int8
        Position in `CONSTRUCTS`, -1 for other regions.
    is_phase : (n_regions,) bool
        Whether the recording marks its instances as phases of the program.
    is_init, is_finalize : (n_regions,) bool
        MPI_Init or MPI_Init_thread; MPI_Finalize.
    is_file, is_collective_file : (n_regions,) bool
        Calls of MPI for files; of these, the blocking collective ones.
    device_call : (n_regions,) int8
        Purpose of the region for devices if a CPU executes it (`LAUNCH`, `COPY`, ...); -1 none.
    flags : (n_regions,) uint8
        For `kernels.stacks.scan_events`.
    tasks, threads : int
        The regions TASKS and THREADS.
    of_entry : (n_entries,) int32
        Region by entry: first the regions themselves, then the region of every call site.
    call_sites : (n_sites + 1,) object
        File and line of every call site; the last element, for none, is empty.
    """

    def __init__(self, store: Store) -> None:
        table = store.definitions["regions"]

        def texts(column: str, tasks: str, threads: str) -> NDArray[np.object_]:
            return np.array([*table.column(column).to_pylist(), tasks, threads], object)

        self.name = texts("name", TASKS, THREADS)
        self.role = texts("role", "artificial", "artificial")
        self.paradigm = texts("paradigm", "measurement_system", "measurement_system")
        self.file = texts("file", "", "")
        self.is_phase = np.append(to_numpy(table.column("flags")) & PHASE != 0, [False, False])
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
        self.lower = np.array([plain_name(n) for n in self.name], object)
        is_mpi = self.paradigm == "mpi"
        self.is_init = is_mpi & np.isin(self.lower, ["mpi_init", "mpi_init_thread"])
        self.is_finalize = is_mpi & (self.lower == "mpi_finalize")
        self.is_file = is_mpi & self.whose_name(lambda n: n.startswith("mpi_file_"))
        self.is_poll = is_mpi & np.isin(self.lower, POLLING_CALLS)
        self.is_blocking_probe = is_mpi & np.isin(self.lower, ["mpi_probe", "mpi_mprobe"])
        self.is_collective_file = self.is_file & self.whose_name(COLLECTIVE_FILE.fullmatch)
        openmp = self.paradigm == "openmp"
        self.construct = np.full(self.name.size, -1, np.int8)
        for i, role in enumerate(CONSTRUCTS):
            self.construct[openmp & (self.role == role)] = i
        self.device_call = device_calls(self.name, self.role, self.paradigm)
        is_call = (self.construct >= 0) | self.is_init | self.is_finalize | self.is_file | (self.device_call >= 0)
        is_call |= self.is_poll | self.is_blocking_probe | np.isin(self.role, ["thread_create", "thread_wait"])
        is_call |= openmp & np.isin(self.role, ["ordered", "ordered_sblock"])
        is_call |= (self.paradigm == "pthread") & np.isin(self.lower, THREAD_CALLS)
        self.flags = (is_call * stacks.IS_CALL + (self.role == "artificial") * stacks.IS_ARTIFICIAL).astype(np.uint8)

    def __len__(self) -> int:
        return len(self.name)

    def whose_name(self, fits: Callable[[str], object]) -> Mask:
        """Return a mask of the regions whose lower-case name meets a condition; (n_regions,) bool."""
        return np.fromiter((bool(fits(name)) for name in self.lower), bool, self.lower.size)


def device_calls(
    name: NDArray[np.object_], role: NDArray[np.object_], paradigm: NDArray[np.object_]
) -> NDArray[np.int8]:
    """Return the purpose of regions for devices by paradigm, role and name: `LAUNCH`, `COPY`, ...; -1 none."""
    result = np.full(name.size, -1, np.int8)
    of_role = {
        "allocate": MEMORY,
        "deallocate": MEMORY,
        "reallocate": MEMORY,
        "barrier": WAIT,
        "implicit_barrier": WAIT,
        "task_wait": WAIT,
        "data_transfer": COPY,
    }
    is_declared = np.isin(paradigm, DEVICE_PARADIGMS)
    of_library = np.zeros(name.size, bool)
    for i in np.flatnonzero(~is_declared & ~np.isin(paradigm, _OF_OTHERS)).tolist():
        of_library[i] = _OF_LIBRARIES.fullmatch(name[i]) is not None
    for i in np.flatnonzero(is_declared | of_library).tolist():
        lower = plain_name(name[i])
        named = next((what for what, pattern in _DEVICE_CALLS if re.fullmatch(pattern, lower)), MANAGEMENT)
        if role[i] == "artificial" and re.search("sync|wait", lower):
            # shown by a measurement system while it waits for a device before a call
            named = WAIT
        result[i] = of_role[role[i]] if is_declared[i] and role[i] in of_role else named
        if paradigm[i] in _OF_PROGRAMS and named == MANAGEMENT:
            result[i] = -1
    # calls that start an operation on other threads of the process (c10d::allreduce_ with gloo)
    result[(paradigm == NCCL) & (role == "task_create")] = LAUNCH
    return result
