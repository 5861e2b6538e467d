"""The event kinds: one number, one name and one family of attributes each.

The numbers up to 92 are those of the OTF2 record types, so that its decoder need not translate;
a number never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class EventKind(IntEnum):
    """The kinds of events: the number of each, as stored in `events.kind`; the family (side table) of its attributes,
    empty if it has none; and what happens."""

    family: str
    doc: str

    def __new__(cls, number: int, family: str = "", doc: str = "") -> EventKind:
        """Make the kind of a number."""
        kind = int.__new__(cls, number)
        kind._value_ = number
        kind.family, kind.doc = family, doc
        return kind

    BUFFER_FLUSH = 10, "control", "the measurement system writes its buffer, from the event's time to stop_time"
    MEASUREMENT_ON_OFF = 11, "control", "measurement is switched off (region set) or on again (region null)"
    ENTER = 12, "", "a region is entered"
    EXIT = 13, "", "a region is left"
    MPI_SEND = 14, "p2p", "a blocking send"
    MPI_ISEND = 15, "p2p", "a non-blocking send is started"
    MPI_ISEND_COMPLETE = 16, "p2p", "a non-blocking send has completed"
    MPI_IRECV_REQUEST = 17, "p2p", "a non-blocking receive is posted"
    MPI_RECV = 18, "p2p", "a blocking receive has completed"
    MPI_IRECV = 19, "p2p", "a non-blocking receive has completed"
    MPI_REQUEST_TEST = 20, "p2p", "a request was tested without success"
    MPI_REQUEST_CANCELLED = 21, "p2p", "a request was cancelled"
    MPI_COLLECTIVE_BEGIN = 22, "collectives", "a collective operation begins"
    MPI_COLLECTIVE_END = 23, "collectives", "a collective operation ends"
    OMP_FORK = 24, "threads", "a team is forked (older recordings)"
    OMP_JOIN = 25, "threads", "a team is joined (older recordings)"
    OMP_ACQUIRE_LOCK = 26, "locks", "a lock is acquired (older recordings)"
    OMP_RELEASE_LOCK = 27, "locks", "a lock is released (older recordings)"
    OMP_TASK_CREATE = 28, "tasks", "a task is created (older recordings)"
    OMP_TASK_SWITCH = 29, "tasks", "another task goes on (older recordings)"
    OMP_TASK_COMPLETE = 30, "tasks", "a task has completed (older recordings)"
    METRIC = 31, "metrics", "values of a metric class"
    PARAMETER_STRING = 32, "parameters", "a parameter of the region instance: text"
    PARAMETER_INT = 33, "parameters", "a parameter of the region instance: signed integer"
    PARAMETER_UNSIGNED_INT = 34, "parameters", "a parameter of the region instance: unsigned integer"
    RMA_WIN_CREATE = 35, "rma", "a window is created"
    RMA_WIN_DESTROY = 36, "rma", "a window is freed"
    RMA_COLLECTIVE_BEGIN = 37, "rma", "a collective operation on a window begins"
    RMA_COLLECTIVE_END = 38, "rma", "a collective operation on a window ends"
    RMA_GROUP_SYNC = 39, "rma", "a group synchronises on a window"
    RMA_REQUEST_LOCK = 40, "rma", "a lock on a window is requested"
    RMA_ACQUIRE_LOCK = 41, "rma", "a lock on a window is acquired"
    RMA_TRY_LOCK = 42, "rma", "a lock on a window was tried without success"
    RMA_RELEASE_LOCK = 43, "rma", "a lock on a window is released"
    RMA_SYNC = 44, "rma", "memory of a window is synchronised"
    RMA_WAIT_CHANGE = 45, "rma", "a change of a window was waited for"
    RMA_PUT = 46, "rma", "a put is issued"
    RMA_GET = 47, "rma", "a get is issued"
    RMA_ATOMIC = 48, "rma", "an atomic remote operation is issued"
    RMA_OP_COMPLETE_BLOCKING = 49, "rma", "a blocking remote operation has completed"
    RMA_OP_COMPLETE_NON_BLOCKING = 50, "rma", "a non-blocking remote operation was started and has completed locally"
    RMA_OP_TEST = 51, "rma", "completion of a remote operation was tested without success"
    RMA_OP_COMPLETE_REMOTE = 52, "rma", "a remote operation has completed at its target"
    THREAD_FORK = 53, "threads", "a team of threads is forked"
    THREAD_JOIN = 54, "threads", "a team of threads is joined"
    THREAD_TEAM_BEGIN = 55, "threads", "a thread begins in a team"
    THREAD_TEAM_END = 56, "threads", "a thread ends in a team"
    THREAD_ACQUIRE_LOCK = 57, "locks", "a lock is acquired"
    THREAD_RELEASE_LOCK = 58, "locks", "a lock is released"
    THREAD_TASK_CREATE = 59, "tasks", "a task is created"
    THREAD_TASK_SWITCH = 60, "tasks", "another task goes on"
    THREAD_TASK_COMPLETE = 61, "tasks", "a task has completed"
    THREAD_CREATE = 62, "threads", "a thread is created"
    THREAD_BEGIN = 63, "threads", "a created thread begins"
    THREAD_WAIT = 64, "threads", "a created thread was waited for"
    THREAD_END = 65, "threads", "a created thread ends"
    CALLING_CONTEXT_ENTER = 66, "contexts", "an instrumented region is entered, its calling context known"
    CALLING_CONTEXT_EXIT = 67, "contexts", "an instrumented region is left, its calling context known"
    CALLING_CONTEXT_SAMPLE = 68, "contexts", "a sample of the calling context"
    IO_CREATE_HANDLE = 69, "io", "an I/O handle is created"
    IO_DESTROY_HANDLE = 70, "io", "an I/O handle is closed"
    IO_DUPLICATE_HANDLE = 71, "io", "an I/O handle is duplicated"
    IO_SEEK = 72, "io", "the position of a handle changes"
    IO_CHANGE_STATUS_FLAGS = 73, "io", "the status of a handle changes"
    IO_DELETE_FILE = 74, "io", "a file is deleted"
    IO_OPERATION_BEGIN = 75, "io", "an I/O operation begins"
    IO_OPERATION_TEST = 76, "io", "an I/O operation was tested without success"
    IO_OPERATION_ISSUED = 77, "io", "a non-blocking I/O operation was issued"
    IO_OPERATION_COMPLETE = 78, "io", "an I/O operation has completed"
    IO_OPERATION_CANCELLED = 79, "io", "an I/O operation was cancelled"
    IO_ACQUIRE_LOCK = 80, "io", "a lock on a file is acquired"
    IO_RELEASE_LOCK = 81, "io", "a lock on a file is released"
    IO_TRY_LOCK = 82, "io", "a lock on a file was tried without success"
    PROGRAM_BEGIN = 83, "control", "the program starts; enters the program's region"
    PROGRAM_END = 84, "control", "the program ends; leaves the program's region"
    NON_BLOCKING_COLLECTIVE_REQUEST = 85, "collectives", "a non-blocking collective operation is started"
    NON_BLOCKING_COLLECTIVE_COMPLETE = 86, "collectives", "a non-blocking collective operation has completed"
    COMM_CREATE = 87, "collectives", "a communicator is created"
    COMM_DESTROY = 88, "collectives", "a communicator is freed"
    MPI_PROBE = 89, "p2p", "a message was found by a matching probe"
    MPI_MRECV = 90, "p2p", "a probed message was received"
    MPI_IMRECV_REQUEST = 91, "p2p", "a non-blocking receive of a probed message is posted"
    MPI_IMRECV = 92, "p2p", "a non-blocking receive of a probed message has completed"
    RMA_PUT_AT_TARGET = 93, "rma", "a put has arrived, recorded at its target"
    RMA_GET_AT_TARGET = 94, "rma", "a get takes its data, recorded at its target"
    UNKNOWN = 255, "", "a record type the reader does not know; counted in the manifest"


GET_COMPLETION = "get completion"
"""Capability of a source, kept in the manifest of a store: RMA_OP_COMPLETE_NON_BLOCKING is recorded for one-sided gets
only; without it, for any one-sided operation."""

KINDS = tuple(EventKind)
"""All kinds, by number."""

NOT_ANALYSED: dict[str, tuple[EventKind, ...]] = {}
"""Kinds of events that are kept with all attributes but used by no analysis: waiting in them is not found."""

NAMES: dict[int, str] = {int(k): k.name for k in KINDS}


def not_analysed(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Count the events of a store that no analysis uses, by what they are; zeros are left out."""
    by_kind = manifest["events_by_kind"]
    found = {what: sum(by_kind.get(str(int(k)), 0) for k in kinds) for what, kinds in NOT_ANALYSED.items()}
    return {what: n for what, n in found.items() if n}


FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(k.family for k in KINDS if k.family))
