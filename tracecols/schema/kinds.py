"""The event kinds: one number, one name and one family of attributes each.

The numbers up to 92 are those of the OTF2 record types, so that its decoder need not translate;
a number never changes its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True)
class Kind:
    """An event kind: its number, name, the family (side table) of its attributes, and what happens."""

    number: int
    name: str
    family: str
    doc: str


KINDS: tuple[Kind, ...] = (
    Kind(10, "BUFFER_FLUSH", "control", "the measurement system writes its buffer, from the event's time to stop_time"),
    Kind(11, "MEASUREMENT_ON_OFF", "control", "measurement is switched off (region set) or on again (region null)"),
    Kind(12, "ENTER", "", "a region is entered"),
    Kind(13, "EXIT", "", "a region is left"),
    Kind(14, "MPI_SEND", "p2p", "a blocking send"),
    Kind(15, "MPI_ISEND", "p2p", "a non-blocking send is started"),
    Kind(16, "MPI_ISEND_COMPLETE", "p2p", "a non-blocking send has completed"),
    Kind(17, "MPI_IRECV_REQUEST", "p2p", "a non-blocking receive is posted"),
    Kind(18, "MPI_RECV", "p2p", "a blocking receive has completed"),
    Kind(19, "MPI_IRECV", "p2p", "a non-blocking receive has completed"),
    Kind(20, "MPI_REQUEST_TEST", "p2p", "a request was tested without success"),
    Kind(21, "MPI_REQUEST_CANCELLED", "p2p", "a request was cancelled"),
    Kind(22, "MPI_COLLECTIVE_BEGIN", "collectives", "a collective operation begins"),
    Kind(23, "MPI_COLLECTIVE_END", "collectives", "a collective operation ends"),
    Kind(24, "OMP_FORK", "threads", "a team is forked (older recordings)"),
    Kind(25, "OMP_JOIN", "threads", "a team is joined (older recordings)"),
    Kind(26, "OMP_ACQUIRE_LOCK", "locks", "a lock is acquired (older recordings)"),
    Kind(27, "OMP_RELEASE_LOCK", "locks", "a lock is released (older recordings)"),
    Kind(28, "OMP_TASK_CREATE", "tasks", "a task is created (older recordings)"),
    Kind(29, "OMP_TASK_SWITCH", "tasks", "another task goes on (older recordings)"),
    Kind(30, "OMP_TASK_COMPLETE", "tasks", "a task has completed (older recordings)"),
    Kind(31, "METRIC", "metrics", "values of a metric class"),
    Kind(32, "PARAMETER_STRING", "parameters", "a parameter of the region instance: text"),
    Kind(33, "PARAMETER_INT", "parameters", "a parameter of the region instance: signed integer"),
    Kind(34, "PARAMETER_UNSIGNED_INT", "parameters", "a parameter of the region instance: unsigned integer"),
    Kind(35, "RMA_WIN_CREATE", "rma", "a window is created"),
    Kind(36, "RMA_WIN_DESTROY", "rma", "a window is freed"),
    Kind(37, "RMA_COLLECTIVE_BEGIN", "rma", "a collective operation on a window begins"),
    Kind(38, "RMA_COLLECTIVE_END", "rma", "a collective operation on a window ends"),
    Kind(39, "RMA_GROUP_SYNC", "rma", "a group synchronises on a window"),
    Kind(40, "RMA_REQUEST_LOCK", "rma", "a lock on a window is requested"),
    Kind(41, "RMA_ACQUIRE_LOCK", "rma", "a lock on a window is acquired"),
    Kind(42, "RMA_TRY_LOCK", "rma", "a lock on a window was tried without success"),
    Kind(43, "RMA_RELEASE_LOCK", "rma", "a lock on a window is released"),
    Kind(44, "RMA_SYNC", "rma", "memory of a window is synchronised"),
    Kind(45, "RMA_WAIT_CHANGE", "rma", "a change of a window was waited for"),
    Kind(46, "RMA_PUT", "rma", "a put is issued"),
    Kind(47, "RMA_GET", "rma", "a get is issued"),
    Kind(48, "RMA_ATOMIC", "rma", "an atomic remote operation is issued"),
    Kind(49, "RMA_OP_COMPLETE_BLOCKING", "rma", "a blocking remote operation has completed"),
    Kind(50, "RMA_OP_COMPLETE_NON_BLOCKING", "rma", "a non-blocking remote operation was started and has completed locally"),
    Kind(51, "RMA_OP_TEST", "rma", "completion of a remote operation was tested without success"),
    Kind(52, "RMA_OP_COMPLETE_REMOTE", "rma", "a remote operation has completed at its target"),
    Kind(53, "THREAD_FORK", "threads", "a team of threads is forked"),
    Kind(54, "THREAD_JOIN", "threads", "a team of threads is joined"),
    Kind(55, "THREAD_TEAM_BEGIN", "threads", "a thread begins in a team"),
    Kind(56, "THREAD_TEAM_END", "threads", "a thread ends in a team"),
    Kind(57, "THREAD_ACQUIRE_LOCK", "locks", "a lock is acquired"),
    Kind(58, "THREAD_RELEASE_LOCK", "locks", "a lock is released"),
    Kind(59, "THREAD_TASK_CREATE", "tasks", "a task is created"),
    Kind(60, "THREAD_TASK_SWITCH", "tasks", "another task goes on"),
    Kind(61, "THREAD_TASK_COMPLETE", "tasks", "a task has completed"),
    Kind(62, "THREAD_CREATE", "threads", "a thread is created"),
    Kind(63, "THREAD_BEGIN", "threads", "a created thread begins"),
    Kind(64, "THREAD_WAIT", "threads", "a created thread was waited for"),
    Kind(65, "THREAD_END", "threads", "a created thread ends"),
    Kind(66, "CALLING_CONTEXT_ENTER", "contexts", "an instrumented region is entered, its calling context known"),
    Kind(67, "CALLING_CONTEXT_EXIT", "contexts", "an instrumented region is left, its calling context known"),
    Kind(68, "CALLING_CONTEXT_SAMPLE", "contexts", "a sample of the calling context"),
    Kind(69, "IO_CREATE_HANDLE", "io", "an I/O handle is created"),
    Kind(70, "IO_DESTROY_HANDLE", "io", "an I/O handle is closed"),
    Kind(71, "IO_DUPLICATE_HANDLE", "io", "an I/O handle is duplicated"),
    Kind(72, "IO_SEEK", "io", "the position of a handle changes"),
    Kind(73, "IO_CHANGE_STATUS_FLAGS", "io", "the status of a handle changes"),
    Kind(74, "IO_DELETE_FILE", "io", "a file is deleted"),
    Kind(75, "IO_OPERATION_BEGIN", "io", "an I/O operation begins"),
    Kind(76, "IO_OPERATION_TEST", "io", "an I/O operation was tested without success"),
    Kind(77, "IO_OPERATION_ISSUED", "io", "a non-blocking I/O operation was issued"),
    Kind(78, "IO_OPERATION_COMPLETE", "io", "an I/O operation has completed"),
    Kind(79, "IO_OPERATION_CANCELLED", "io", "an I/O operation was cancelled"),
    Kind(80, "IO_ACQUIRE_LOCK", "io", "a lock on a file is acquired"),
    Kind(81, "IO_RELEASE_LOCK", "io", "a lock on a file is released"),
    Kind(82, "IO_TRY_LOCK", "io", "a lock on a file was tried without success"),
    Kind(83, "PROGRAM_BEGIN", "control", "the program starts; enters the program's region"),
    Kind(84, "PROGRAM_END", "control", "the program ends; leaves the program's region"),
    Kind(85, "NON_BLOCKING_COLLECTIVE_REQUEST", "collectives", "a non-blocking collective operation is started"),
    Kind(86, "NON_BLOCKING_COLLECTIVE_COMPLETE", "collectives", "a non-blocking collective operation has completed"),
    Kind(87, "COMM_CREATE", "collectives", "a communicator is created"),
    Kind(88, "COMM_DESTROY", "collectives", "a communicator is freed"),
    Kind(89, "MPI_PROBE", "p2p", "a message was found by a matching probe"),
    Kind(90, "MPI_MRECV", "p2p", "a probed message was received"),
    Kind(91, "MPI_IMRECV_REQUEST", "p2p", "a non-blocking receive of a probed message is posted"),
    Kind(92, "MPI_IMRECV", "p2p", "a non-blocking receive of a probed message has completed"),
    Kind(255, "UNKNOWN", "", "a record type the reader does not know; counted in the manifest"),
)

EventKind = IntEnum("EventKind", {k.name: k.number for k in KINDS})  # type: ignore[misc]
EventKind.__doc__ = "The number of each event kind, as stored in `events.kind`."

NAMES: dict[int, str] = {k.number: k.name for k in KINDS}
FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(k.family for k in KINDS if k.family))
