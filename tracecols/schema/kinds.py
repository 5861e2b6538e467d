"""The event kinds: one number, one name and one family of attributes each.

The numbers up to 92 are those of the OTF2 record types, so that its decoder need not translate;
a number never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple


class EventKind(IntEnum):
    """The number of each event kind, as stored in `events.kind`."""

    BUFFER_FLUSH = 10
    MEASUREMENT_ON_OFF = 11
    ENTER = 12
    EXIT = 13
    MPI_SEND = 14
    MPI_ISEND = 15
    MPI_ISEND_COMPLETE = 16
    MPI_IRECV_REQUEST = 17
    MPI_RECV = 18
    MPI_IRECV = 19
    MPI_REQUEST_TEST = 20
    MPI_REQUEST_CANCELLED = 21
    MPI_COLLECTIVE_BEGIN = 22
    MPI_COLLECTIVE_END = 23
    OMP_FORK = 24
    OMP_JOIN = 25
    OMP_ACQUIRE_LOCK = 26
    OMP_RELEASE_LOCK = 27
    OMP_TASK_CREATE = 28
    OMP_TASK_SWITCH = 29
    OMP_TASK_COMPLETE = 30
    METRIC = 31
    PARAMETER_STRING = 32
    PARAMETER_INT = 33
    PARAMETER_UNSIGNED_INT = 34
    RMA_WIN_CREATE = 35
    RMA_WIN_DESTROY = 36
    RMA_COLLECTIVE_BEGIN = 37
    RMA_COLLECTIVE_END = 38
    RMA_GROUP_SYNC = 39
    RMA_REQUEST_LOCK = 40
    RMA_ACQUIRE_LOCK = 41
    RMA_TRY_LOCK = 42
    RMA_RELEASE_LOCK = 43
    RMA_SYNC = 44
    RMA_WAIT_CHANGE = 45
    RMA_PUT = 46
    RMA_GET = 47
    RMA_ATOMIC = 48
    RMA_OP_COMPLETE_BLOCKING = 49
    RMA_OP_COMPLETE_NON_BLOCKING = 50
    RMA_OP_TEST = 51
    RMA_OP_COMPLETE_REMOTE = 52
    THREAD_FORK = 53
    THREAD_JOIN = 54
    THREAD_TEAM_BEGIN = 55
    THREAD_TEAM_END = 56
    THREAD_ACQUIRE_LOCK = 57
    THREAD_RELEASE_LOCK = 58
    THREAD_TASK_CREATE = 59
    THREAD_TASK_SWITCH = 60
    THREAD_TASK_COMPLETE = 61
    THREAD_CREATE = 62
    THREAD_BEGIN = 63
    THREAD_WAIT = 64
    THREAD_END = 65
    CALLING_CONTEXT_ENTER = 66
    CALLING_CONTEXT_EXIT = 67
    CALLING_CONTEXT_SAMPLE = 68
    IO_CREATE_HANDLE = 69
    IO_DESTROY_HANDLE = 70
    IO_DUPLICATE_HANDLE = 71
    IO_SEEK = 72
    IO_CHANGE_STATUS_FLAGS = 73
    IO_DELETE_FILE = 74
    IO_OPERATION_BEGIN = 75
    IO_OPERATION_TEST = 76
    IO_OPERATION_ISSUED = 77
    IO_OPERATION_COMPLETE = 78
    IO_OPERATION_CANCELLED = 79
    IO_ACQUIRE_LOCK = 80
    IO_RELEASE_LOCK = 81
    IO_TRY_LOCK = 82
    PROGRAM_BEGIN = 83
    PROGRAM_END = 84
    NON_BLOCKING_COLLECTIVE_REQUEST = 85
    NON_BLOCKING_COLLECTIVE_COMPLETE = 86
    COMM_CREATE = 87
    COMM_DESTROY = 88
    MPI_PROBE = 89
    MPI_MRECV = 90
    MPI_IMRECV_REQUEST = 91
    MPI_IMRECV = 92
    RMA_PUT_AT_TARGET = 93
    RMA_GET_AT_TARGET = 94
    UNKNOWN = 255


class Kind(NamedTuple):
    """An event kind: its number, the family (side table) of its attributes, and what happens."""

    number: EventKind
    family: str
    doc: str

    @property
    def name(self) -> str:
        """Name of the kind."""
        return self.number.name


GET_COMPLETION = "get completion"
"""Capability of a source, kept in the manifest of a store: RMA_OP_COMPLETE_NON_BLOCKING is recorded for one-sided gets
only; without it, for any one-sided operation."""

KINDS: tuple[Kind, ...] = (
    Kind(
        EventKind.BUFFER_FLUSH,
        "control",
        "the measurement system writes its buffer, from the event's time to stop_time",
    ),
    Kind(EventKind.MEASUREMENT_ON_OFF, "control", "measurement is switched off (region set) or on again (region null)"),
    Kind(EventKind.ENTER, "", "a region is entered"),
    Kind(EventKind.EXIT, "", "a region is left"),
    Kind(EventKind.MPI_SEND, "p2p", "a blocking send"),
    Kind(EventKind.MPI_ISEND, "p2p", "a non-blocking send is started"),
    Kind(EventKind.MPI_ISEND_COMPLETE, "p2p", "a non-blocking send has completed"),
    Kind(EventKind.MPI_IRECV_REQUEST, "p2p", "a non-blocking receive is posted"),
    Kind(EventKind.MPI_RECV, "p2p", "a blocking receive has completed"),
    Kind(EventKind.MPI_IRECV, "p2p", "a non-blocking receive has completed"),
    Kind(EventKind.MPI_REQUEST_TEST, "p2p", "a request was tested without success"),
    Kind(EventKind.MPI_REQUEST_CANCELLED, "p2p", "a request was cancelled"),
    Kind(EventKind.MPI_COLLECTIVE_BEGIN, "collectives", "a collective operation begins"),
    Kind(EventKind.MPI_COLLECTIVE_END, "collectives", "a collective operation ends"),
    Kind(EventKind.OMP_FORK, "threads", "a team is forked (older recordings)"),
    Kind(EventKind.OMP_JOIN, "threads", "a team is joined (older recordings)"),
    Kind(EventKind.OMP_ACQUIRE_LOCK, "locks", "a lock is acquired (older recordings)"),
    Kind(EventKind.OMP_RELEASE_LOCK, "locks", "a lock is released (older recordings)"),
    Kind(EventKind.OMP_TASK_CREATE, "tasks", "a task is created (older recordings)"),
    Kind(EventKind.OMP_TASK_SWITCH, "tasks", "another task goes on (older recordings)"),
    Kind(EventKind.OMP_TASK_COMPLETE, "tasks", "a task has completed (older recordings)"),
    Kind(EventKind.METRIC, "metrics", "values of a metric class"),
    Kind(EventKind.PARAMETER_STRING, "parameters", "a parameter of the region instance: text"),
    Kind(EventKind.PARAMETER_INT, "parameters", "a parameter of the region instance: signed integer"),
    Kind(EventKind.PARAMETER_UNSIGNED_INT, "parameters", "a parameter of the region instance: unsigned integer"),
    Kind(EventKind.RMA_WIN_CREATE, "rma", "a window is created"),
    Kind(EventKind.RMA_WIN_DESTROY, "rma", "a window is freed"),
    Kind(EventKind.RMA_COLLECTIVE_BEGIN, "rma", "a collective operation on a window begins"),
    Kind(EventKind.RMA_COLLECTIVE_END, "rma", "a collective operation on a window ends"),
    Kind(EventKind.RMA_GROUP_SYNC, "rma", "a group synchronises on a window"),
    Kind(EventKind.RMA_REQUEST_LOCK, "rma", "a lock on a window is requested"),
    Kind(EventKind.RMA_ACQUIRE_LOCK, "rma", "a lock on a window is acquired"),
    Kind(EventKind.RMA_TRY_LOCK, "rma", "a lock on a window was tried without success"),
    Kind(EventKind.RMA_RELEASE_LOCK, "rma", "a lock on a window is released"),
    Kind(EventKind.RMA_SYNC, "rma", "memory of a window is synchronised"),
    Kind(EventKind.RMA_WAIT_CHANGE, "rma", "a change of a window was waited for"),
    Kind(EventKind.RMA_PUT, "rma", "a put is issued"),
    Kind(EventKind.RMA_GET, "rma", "a get is issued"),
    Kind(EventKind.RMA_ATOMIC, "rma", "an atomic remote operation is issued"),
    Kind(EventKind.RMA_OP_COMPLETE_BLOCKING, "rma", "a blocking remote operation has completed"),
    Kind(
        EventKind.RMA_OP_COMPLETE_NON_BLOCKING,
        "rma",
        "a non-blocking remote operation was started and has completed locally",
    ),
    Kind(EventKind.RMA_OP_TEST, "rma", "completion of a remote operation was tested without success"),
    Kind(EventKind.RMA_OP_COMPLETE_REMOTE, "rma", "a remote operation has completed at its target"),
    Kind(EventKind.THREAD_FORK, "threads", "a team of threads is forked"),
    Kind(EventKind.THREAD_JOIN, "threads", "a team of threads is joined"),
    Kind(EventKind.THREAD_TEAM_BEGIN, "threads", "a thread begins in a team"),
    Kind(EventKind.THREAD_TEAM_END, "threads", "a thread ends in a team"),
    Kind(EventKind.THREAD_ACQUIRE_LOCK, "locks", "a lock is acquired"),
    Kind(EventKind.THREAD_RELEASE_LOCK, "locks", "a lock is released"),
    Kind(EventKind.THREAD_TASK_CREATE, "tasks", "a task is created"),
    Kind(EventKind.THREAD_TASK_SWITCH, "tasks", "another task goes on"),
    Kind(EventKind.THREAD_TASK_COMPLETE, "tasks", "a task has completed"),
    Kind(EventKind.THREAD_CREATE, "threads", "a thread is created"),
    Kind(EventKind.THREAD_BEGIN, "threads", "a created thread begins"),
    Kind(EventKind.THREAD_WAIT, "threads", "a created thread was waited for"),
    Kind(EventKind.THREAD_END, "threads", "a created thread ends"),
    Kind(EventKind.CALLING_CONTEXT_ENTER, "contexts", "an instrumented region is entered, its calling context known"),
    Kind(EventKind.CALLING_CONTEXT_EXIT, "contexts", "an instrumented region is left, its calling context known"),
    Kind(EventKind.CALLING_CONTEXT_SAMPLE, "contexts", "a sample of the calling context"),
    Kind(EventKind.IO_CREATE_HANDLE, "io", "an I/O handle is created"),
    Kind(EventKind.IO_DESTROY_HANDLE, "io", "an I/O handle is closed"),
    Kind(EventKind.IO_DUPLICATE_HANDLE, "io", "an I/O handle is duplicated"),
    Kind(EventKind.IO_SEEK, "io", "the position of a handle changes"),
    Kind(EventKind.IO_CHANGE_STATUS_FLAGS, "io", "the status of a handle changes"),
    Kind(EventKind.IO_DELETE_FILE, "io", "a file is deleted"),
    Kind(EventKind.IO_OPERATION_BEGIN, "io", "an I/O operation begins"),
    Kind(EventKind.IO_OPERATION_TEST, "io", "an I/O operation was tested without success"),
    Kind(EventKind.IO_OPERATION_ISSUED, "io", "a non-blocking I/O operation was issued"),
    Kind(EventKind.IO_OPERATION_COMPLETE, "io", "an I/O operation has completed"),
    Kind(EventKind.IO_OPERATION_CANCELLED, "io", "an I/O operation was cancelled"),
    Kind(EventKind.IO_ACQUIRE_LOCK, "io", "a lock on a file is acquired"),
    Kind(EventKind.IO_RELEASE_LOCK, "io", "a lock on a file is released"),
    Kind(EventKind.IO_TRY_LOCK, "io", "a lock on a file was tried without success"),
    Kind(EventKind.PROGRAM_BEGIN, "control", "the program starts; enters the program's region"),
    Kind(EventKind.PROGRAM_END, "control", "the program ends; leaves the program's region"),
    Kind(EventKind.NON_BLOCKING_COLLECTIVE_REQUEST, "collectives", "a non-blocking collective operation is started"),
    Kind(
        EventKind.NON_BLOCKING_COLLECTIVE_COMPLETE, "collectives", "a non-blocking collective operation has completed"
    ),
    Kind(EventKind.COMM_CREATE, "collectives", "a communicator is created"),
    Kind(EventKind.COMM_DESTROY, "collectives", "a communicator is freed"),
    Kind(EventKind.MPI_PROBE, "p2p", "a message was found by a matching probe"),
    Kind(EventKind.MPI_MRECV, "p2p", "a probed message was received"),
    Kind(EventKind.MPI_IMRECV_REQUEST, "p2p", "a non-blocking receive of a probed message is posted"),
    Kind(EventKind.MPI_IMRECV, "p2p", "a non-blocking receive of a probed message has completed"),
    Kind(EventKind.RMA_PUT_AT_TARGET, "rma", "a put has arrived, recorded at its target"),
    Kind(EventKind.RMA_GET_AT_TARGET, "rma", "a get takes its data, recorded at its target"),
    Kind(EventKind.UNKNOWN, "", "a record type the reader does not know; counted in the manifest"),
)

NOT_ANALYSED: dict[str, tuple[EventKind, ...]] = {}
"""Kinds of events that are kept with all attributes but used by no analysis: waiting in them is not found."""

NAMES: dict[int, str] = {int(k.number): k.name for k in KINDS}


def not_analysed(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Count the events of a store that no analysis uses, by what they are; zeros are left out."""
    by_kind = manifest["events_by_kind"]
    found = {what: sum(by_kind.get(str(int(k)), 0) for k in kinds) for what, kinds in NOT_ANALYSED.items()}
    return {what: n for what, n in found.items() if n}


FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(k.family for k in KINDS if k.family))
