"""Compound events (thesis 3.7): tables whose rows join several events."""

from __future__ import annotations

from tracecols.schema.columns import Column, event, reference, table, ticks
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.schema.tables import EVENTS

DIRECTIONS = ("not known", "host to device", "device to host", "within devices")
"""Directions of copies, by number."""


def _call(role: str, what: str, *, exit_row: bool = True) -> tuple[Column, ...]:
    """Declare the columns of a call; the role, such as `send_`, is the begin of their names."""
    columns = (
        event(f"{role}enter", f"ENTER of {what}"),
        event(f"{role}exit", f"EXIT of {what}"),
        ticks(f"{role}enter_time", "time of that ENTER"),
        ticks(f"{role}exit_time", "time of that EXIT"),
        reference(f"{role}call_path", "call_paths", f"call path of {what}"),
    )
    return columns if exit_row else (columns[0], *columns[2:])


_MESSAGE = (
    event("send", "the SEND (sendptr of the receive, thesis 3.11)"),
    event("recv", "the RECV"),
    event("send_done", "the event that completes the send; null if none did"),
    event("recv_post", "the event that posts the receive"),
    reference("send_location", "locations", "location of the SEND"),
    reference("recv_location", "locations", "location of the RECV"),
    reference("communicator", "communicators", "communicator"),
    Column("source", "int32", "rank of the sender in the communicator", "rank"),
    Column("destination", "int32", "rank of the receiver in the communicator", "rank"),
    Column("tag", "int64", "message tag"),
    Column("length", "int64", "length, as the sender states it", "bytes"),
    ticks("send_time", "time of the SEND"),
    ticks("recv_time", "time of the RECV"),
    *_call("send_", "the call that starts the send"),
    *_call("send_done_", "the call that completes the send; null if none did"),
    *_call("recv_post_", "the call that posts the receive"),
    *_call("recv_", "the call that completes the receive"),
)

_MESSAGE_SOURCE = "SEMANTICS 3; OTF2 MpiSend, MpiIsend, MpiRecv, MpiIrecv, MpiMrecv, MpiImrecv and their requests"

MESSAGES = table(
    "messages",
    "one point-to-point message, in the order of the RECVs; sends and receives that found no partner are in "
    "`sends` and `receives` only",
    *_MESSAGE,
    Column("unreceived_before", "bool", "whether a message to the same process that was sent before is never received"),
    source=_MESSAGE_SOURCE,
)

SENT_MESSAGES = table(
    "sent_messages",
    "one point-to-point message, in the order of the SENDs",
    *_MESSAGE,
    Column("unreceived_before", "bool", "whether the sender sent a message before that is never received"),
    ticks(
        "send_done_late",
        "longest wait for a late sender in the call that completes the send, if that completes receives as "
        "well; else 0",
        is_duration=True,
    ),
    source=_MESSAGE_SOURCE,
)

SENDS = table(
    "sends",
    "one send, whether or not it found its receive",
    event("send", "the SEND"),
    reference("location", "locations", "its location"),
    reference("communicator", "communicators", "communicator"),
    Column("destination", "int32", "rank of the receiver in the communicator", "rank"),
    Column("tag", "int64", "message tag"),
    Column("length", "int64", "length", "bytes"),
    ticks("send_time", "time of the SEND"),
    Column("is_cancelled", "bool", "whether the send was cancelled"),
    reference("call_path", "call_paths", "call path of the call that starts it"),
    source="OTF2 MpiSend, MpiIsend",
)

RECEIVES = table(
    "receives",
    "one receive, whether or not it found its send",
    event("recv", "the RECV"),
    reference("location", "locations", "its location"),
    reference("communicator", "communicators", "communicator"),
    Column("source", "int32", "rank of the sender in the communicator", "rank"),
    Column("tag", "int64", "message tag"),
    Column(
        "length",
        "int64",
        "length as the sender states it; without a send as recorded here, null if it is not",
        "bytes",
        nullable=True,
    ),
    ticks("recv_time", "time of the RECV"),
    Column("is_matched", "bool", "whether it found its send"),
    reference("call_path", "call_paths", "call path of the call that completes it"),
    source="OTF2 MpiRecv, MpiIrecv, MpiMrecv, MpiImrecv",
)

COLLECTIVES = table(
    "collectives",
    "one instance of an MPI collective operation",
    reference("communicator", "communicators", "communicator"),
    Column("op", "int16", "operation, `CollectiveOp`", enum=COLLECTIVE_OPS),
    Column("n_members", "int32", "participants found", "occ"),
    Column("size", "int32", "size of the communicator", "occ"),
    Column("root", "int32", "root, a rank in the communicator", "rank"),
    ticks("latest_begin_time", "when the last participant began"),
    reference("latest_location", "locations", "who began last, of equals the lowest rank"),
    event("latest_end", "the event that ends its part: its row in `collective_members.end`"),
    ticks("earliest_end_time", "when the first participant ended"),
    Column("sent", "int64", "bytes sent by all participants", "bytes"),
    Column("received", "int64", "bytes received by all participants", "bytes"),
    source="k-th collective of each member on a communicator (thesis 3.8, 3.9)",
)

COLLECTIVE_MEMBERS = table(
    "collective_members",
    "one participant of a collective operation",
    Column("collective", "int64", "the instance", "", "collectives"),
    Column("rank", "int32", "rank in the communicator", "rank"),
    reference("location", "locations", "location"),
    event("end", "the event that ends the operation"),
    ticks("begin_time", "when it began"),
    ticks("end_time", "when it ended"),
    Column("sent", "int64", "bytes sent", "bytes"),
    Column("received", "int64", "bytes received", "bytes"),
    Column("is_root", "bool", "whether it is the root"),
    *_call("", "the call"),
    source="OTF2 MpiCollectiveBegin, MpiCollectiveEnd",
)

CONSTRUCTS = table(
    "constructs",
    "one instance of an OpenMP construct that a whole team executes",
    Column("team", "int64", "team instance", "", "teams"),
    reference("region", "regions", "region the first thread executes"),
    Column("role", "string", "parallel, loop, sections, workshare, single, barrier or implicit_barrier"),
    Column("n_members", "int32", "threads found", "occ"),
    ticks("latest_enter_time", "when the last thread entered"),
    reference("latest_location", "locations", "the thread that entered last, of equals the first"),
    event("latest_enter", "its ENTER"),
    source="k-th construct of its role of each thread within one team instance (thesis 3.13, 3.19)",
)

CONSTRUCT_MEMBERS = table(
    "construct_members",
    "one thread in a construct",
    Column("construct", "int64", "the instance", "", "constructs"),
    Column("role", "string", "role of the construct"),
    ticks("latest_enter_time", "when the last thread entered"),
    reference("location", "locations", "location"),
    event("enter", "ENTER"),
    event("exit", "EXIT"),
    ticks("enter_time", "time of ENTER"),
    ticks("exit_time", "time of EXIT"),
    reference("call_path", "call_paths", "call path"),
    ticks("task_time", "explicit tasks completed inside", is_duration=True),
)

TEAMS = table(
    "teams",
    "one team instance: a fork, the threads that ran, a join",
    reference("communicator", "communicators", "the team's definition"),
    reference("master", "locations", "location that forked; null if none did", nullable=True),
    event("fork", "its FORK"),
    event("join", "its JOIN (forkptr of it points to the FORK)"),
    ticks("fork_time", "time of FORK"),
    ticks("join_time", "time of JOIN"),
    reference("call_path", "call_paths", "call path of the FORK"),
    Column("n_threads", "int32", "threads that began in the team", "occ"),
    source="OTF2 ThreadFork, ThreadTeamBegin, ThreadJoin",
)

LOCK_ACQUISITIONS = table(
    "lock_acquisitions",
    "one acquisition of a lock",
    reference("process", "processes", "process that owns the lock"),
    Column("lock", "int64", "lock, unique in its process"),
    Column("acquisition", "int64", "order of acquisition"),
    reference("location", "locations", "location that acquired it"),
    event("acquire", "the event"),
    ticks("acquire_time", "its time"),
    event(
        "release", "outermost release by its owner: a nested lock is acquired and released several times; null if none"
    ),
    ticks("release_time", "its time"),
    ticks(
        "previous_release_time",
        "outermost release by the owner before; null if none, and where the owner acquires its lock once more",
        nullable=True,
    ),
    event("previous_release", "that event; null if none"),
    reference("previous_owner", "locations", "location that released it; null if none", nullable=True),
    reference("previous_call_path", "call_paths", "call path of the call that released it; null if none"),
    event("lockptr", "last event of the same lock before (thesis 3.16)"),
    ticks("lockptr_time", "its time"),
    event("enter", "ENTER of the call that acquires"),
    ticks("enter_time", "its time"),
    reference("call_path", "call_paths", "call path of that call"),
    event(
        "signal",
        "of a wait for a condition: ENTER of the last call in the process that signals one meanwhile; null if none",
    ),
    ticks("signal_time", "its time; null if none", nullable=True),
    reference("signal_location", "locations", "location that signals; null if none", nullable=True),
    reference("signal_call_path", "call_paths", "call path of that call; null if none"),
    ticks(
        "lock_wait_time",
        "from when on the lock is waited for: when the call is entered, or after a wait for a condition the signal",
    ),
    source="OTF2 ThreadAcquireLock, ThreadReleaseLock",
)

STARTUPS = table(
    "startups",
    "one process in MPI_Init or MPI_Finalize, which synchronise MPI_COMM_WORLD without a collective event",
    Column("is_init", "bool", "MPI_Init or MPI_Init_thread, else MPI_Finalize"),
    reference("location", "locations", "location"),
    reference(
        "communicator",
        "communicators",
        "communicator whose processes synchronise, where processes have several worlds (spawn, connect); null: "
        "all of them",
    ),
    event("enter", "ENTER"),
    event("exit", "EXIT; null if it was never left"),
    ticks("enter_time", "time of ENTER"),
    ticks("exit_time", "time of EXIT"),
    ticks("latest_enter_time", "when the last process entered"),
    ticks("earliest_exit_time", "when the first process left"),
    reference("call_path", "call_paths", "call path"),
)

CREATED_PROCESSES = table(
    "created_processes",
    "one process that others create (MPI_Comm_spawn), where both sides record the creation of the inter-communicator",
    reference("location", "locations", "its location that starts MPI"),
    event("begin", "first event of that location"),
    ticks("begin_time", "its time: before, the process does not exist"),
    reference("communicator", "communicators", "the inter-communicator between it and its creators"),
    reference("create_location", "locations", "location that creates it, the last to call before it begins"),
    *_call("create_", "the call that creates it"),
    source="OTF2 CommCreate, InterComm",
)

WINDOW_MEMBERS = table(
    "window_members",
    "one process in a collective operation on a window: creation, fence, freeing; of SHMEM any collective operation",
    Column("operation", "int64", "number of the operation"),
    reference("window", "windows", "window"),
    Column("op", "int16", "operation, `CollectiveOp`; null where it is not recorded", nullable=True),
    Column("is_root", "bool", "whether it is the root"),
    reference("location", "locations", "location"),
    event("end", "the event that ends the operation"),
    ticks("enter_time", "time of the call's ENTER"),
    ticks("exit_time", "time of the call's EXIT"),
    ticks("latest_enter_time", "when the last process entered; null if some are missing", nullable=True),
    ticks("root_enter_time", "when the root entered; null if there is none, or some are missing", nullable=True),
    ticks(
        "last_access_time",
        "when the last call ended in which another process accessed this one between the operation before, a "
        "fence, and this one; null if none did",
        nullable=True,
    ),
    reference("call_path", "call_paths", "call path of the call"),
    reference("first_call_path", "call_paths", "call path of the process that ended first"),
    source="k-th operation of each process on a window; OTF2 RmaCollectiveEnd, EPILOG MPI_WINCOLLEXIT",
)

EPOCHS = table(
    "epochs",
    "one access epoch of an origin (MPI_Win_start to MPI_Win_complete) and the exposure epoch at a target that it "
    "accesses",
    reference("window", "windows", "window"),
    reference("origin", "locations", "location that accesses"),
    reference("target", "locations", "location that exposes"),
    Column("exposure", "int64", "number of the exposure epoch (MPI_Win_post to MPI_Win_wait)"),
    ticks("post_enter_time", "enter of MPI_Win_post"),
    ticks("wait_enter_time", "enter of MPI_Win_wait, or of the MPI_Win_test that ended the epoch"),
    ticks("wait_exit_time", "exit of that call"),
    reference("wait_call_path", "call_paths", "its call path"),
    ticks("start_enter_time", "enter of MPI_Win_start"),
    ticks("complete_enter_time", "enter of MPI_Win_complete"),
    reference("complete_call_path", "call_paths", "its call path"),
    ticks("last_access_time", "end of the last call that accessed; null if none did", nullable=True),
    Column(
        "held_by",
        "int8",
        "what the origin was in when the target posted",
        enum=("nothing", "start", "access", "complete"),
    ),
    ticks("held_time", "how long it was in there before the post", is_duration=True),
    reference("held_call_path", "call_paths", "call path of that call"),
    Column("is_complete", "bool", "whether all origins of the exposure epoch are there"),
    Column("completed_by", "int64", "number of the event that completed the exposure epoch"),
    event("post", "the event of MPI_Win_post"),
    reference("post_call_path", "call_paths", "its call path"),
    event("wait", "the event of MPI_Win_wait, or of the MPI_Win_test that ended the epoch"),
    event("complete", "the event of MPI_Win_complete"),
    event("held", "the event of the call that the origin was in; null if it was in none"),
    ticks("held_exit_time", "exit of that call"),
    source="OTF2 RmaGroupSync, EPILOG MPI_WINEXIT",
)

PROFILE = table(
    "profile",
    "one call path on one location",
    reference("call_path", "call_paths", "call path"),
    reference("location", "locations", "location"),
    ticks("exclusive", "time in the call path itself, without those below", is_duration=True),
    Column("visits", "int64", "how often it was entered", "occ"),
    Column("inherited", "bool", "whether it continues the call path of the thread that forked"),
)

REGION_INSTANCES = table(
    "region_instances",
    "one execution of a region",
    reference("location", "locations", "location"),
    event("enter", "ENTER"),
    event("exit", "EXIT; null if it never ended"),
    reference("region", "regions", "region"),
    reference("call_path", "call_paths", "call path"),
    ticks("enter_time", "time of ENTER"),
    ticks("exit_time", "time of EXIT"),
)

_IN_REGION = (
    reference("location", "locations", "location"),
    reference("region", "regions", "region it is in; null outside of all regions"),
    reference("call_path", "call_paths", "call path of that region instance"),
    event("enter", "ENTER of that region instance"),
    event("exit", "EXIT of that region instance; null if it never ended"),
    ticks("enter_time", "time of that ENTER"),
    ticks("exit_time", "time of that EXIT"),
)

PARAMETER_VALUES = table(
    "parameter_values",
    "one value of a parameter, with the region instance that it belongs to",
    *_IN_REGION,
    event("event", "the event that records the value"),
    ticks("time", "its time"),
    reference("parameter", "parameter_definitions", "parameter"),
    Column("value", "int64", "an integer value; unsigned ones as their bits"),
    reference("string", "strings", "a text value"),
    source="OTF2 ParameterInt, ParameterUnsignedInt, ParameterString",
)

COUNTER_VALUES = table(
    "counter_values",
    "one reading of a counter, also one that the program counts itself, with the region instance in which it was made",
    *_IN_REGION,
    event("event", "the METRIC event"),
    ticks("time", "its time"),
    reference("counter", "metric_members", "counter"),
    Column("value", "float64", "the value as recorded: accumulated or not, as the counter is declared"),
    source="OTF2 Metric",
)

LOCATION_MARKERS = table(
    "location_markers",
    "one marker on one of the locations that it is about, with the region instance in which it begins; markers about "
    "the whole trace are on all locations",
    *_IN_REGION,
    reference("marker", "markers", "marker"),
    ticks("time", "when the stretch begins"),
    ticks("duration", "how long it is; 0 for a moment", is_duration=True),
    source="OTF2 Marker",
)

KERNELS = table(
    "kernels",
    "one kernel, or whatever else runs in a region on a stream of a device; regions inside belong to the outermost",
    reference("location", "locations", "the stream"),
    reference("call_path", "call_paths", "call path of the kernel on the stream"),
    event("enter", "ENTER"),
    event("exit", "EXIT; null if it never ended"),
    ticks("enter_time", "when it began"),
    ticks("exit_time", "when it ended"),
    ticks("idle_since_time", "when the last kernel or copy before it on the stream ended"),
    ticks("wait_begin_time", "when waiting in the launching call began: with the call, or when the stream was idle"),
    Column(
        "callsite", "int64", "call site that kernel and launch have in common; null if none is recorded", nullable=True
    ),
    reference("launch_location", "locations", "location of the launch; null if it is not known", nullable=True),
    *_call("launch_", "the call that launches it; null if it is not known"),
    source="k-th launch and k-th kernel of a stream, or of a call site and stream; OTF2 attributes and parameters of "
    "the launching call",
)

COPIES = table(
    "copies",
    "one transfer between host and device, or within devices",
    reference("location", "locations", "the stream"),
    event("event", "the event that begins it"),
    ticks("begin_time", "when it began"),
    ticks("end_time", "when it ended"),
    Column("direction", "int8", "which way it goes", enum=DIRECTIONS),
    Column("bytes", "int64", "bytes transferred; null if they are not recorded", "bytes", nullable=True),
    ticks("hidden_time", "how long kernels run on the same device meanwhile", is_duration=True),
    reference(
        "call_path",
        "call_paths",
        "call path of the call that asks for it; where that is not known the program's outermost call path",
    ),
    reference(
        "copy_location", "locations", "location of the call that asks for it; null if it is not known", nullable=True
    ),
    *_call("copy_", "the call that asks for it; null if it is not known"),
    source="RMA_PUT, RMA_GET and their completion on a stream; regions of role data_transfer",
)

DEVICE_SYNCS = table(
    "device_syncs",
    "one call in which the host waits for a device: a synchronisation, or a copy that returns only when it is done",
    reference("location", "locations", "location of the call"),
    *_call("", "the call"),
    Column("is_copy", "bool", "whether it is a copy"),
    reference("stream", "locations", "stream it refers to; null for all streams of the process", nullable=True),
    ticks("own_time", "time in the call itself, without calls inside", is_duration=True),
    event("cause", "begin of the kernel or copy pending at the ENTER that ends last; null if none was"),
    reference("cause_location", "locations", "its stream"),
    ticks("cause_begin_time", "when it began"),
    ticks("cause_end_time", "when it ended"),
    ticks("wait_begin_time", "when waiting for it began: with the call, or when it began itself"),
)

DEVICE_INTERVALS = table(
    "device_intervals",
    "one interval of the time of a stream, from the first event of its process to the last",
    reference("location", "locations", "the stream"),
    ticks("begin_time", "when it began"),
    ticks("end_time", "when it ended"),
    Column("state", "int8", "what the stream does; a copy: and no kernel runs", enum=("idle", "kernel", "copy")),
    Column("direction", "int8", "of a copy; see `copies`", enum=DIRECTIONS),
    ticks(
        "hidden_time",
        "of a copy, and of a kernel that communicates: how long other kernels run on the device meanwhile",
        is_duration=True,
    ),
    reference(
        "call_path",
        "call_paths",
        "call path of the kernel; of a copy that of the call that asks for it; of idle time that of the call that "
        "ends it: the launch, or the copy; where that is not known the program's outermost call path",
    ),
    ticks("request_time", "of idle time: ENTER of that call; null if it is not known", nullable=True),
)

CREATED_THREADS = table(
    "created_threads",
    "one thread that the program created by itself, from its begin on",
    reference("location", "locations", "its location"),
    event("begin", "THREAD_BEGIN"),
    ticks("begin_time", "its time"),
    ticks("enter_time", "when it enters its first region; that of THREAD_BEGIN if it enters none"),
    event("end", "THREAD_END; null if it never ended"),
    ticks("end_time", "its time"),
    event("create", "THREAD_CREATE; null if there is none"),
    reference("create_location", "locations", "location that created it; null if none did", nullable=True),
    *_call("create_", "the call that creates it; null if there is none"),
    event("join", "THREAD_WAIT; null if there is none"),
    reference("join_location", "locations", "location that waited for its end; null if none did", nullable=True),
    *_call("join_", "the call that waits for its end; null if there is none"),
    source="OTF2 ThreadCreate, ThreadBegin, ThreadWait, ThreadEnd",
)

EVENTS_WITH_POINTERS = table(
    "events",
    "one event with its pointers",
    reference("location", "locations", "location"),
    *EVENTS.columns,
    event("enterptr", "ENTER of the region instance the event is in (thesis 3.10)"),
    event("exitptr", "of an ENTER its EXIT"),
    event("sendptr", "of a RECV its SEND (thesis 3.11)"),
    event("lockptr", "of a lock event the one before of the same lock (thesis 3.16)"),
    event("forkptr", "of a JOIN its FORK"),
    event("cnodeptr", "of an ENTER the least recent ENTER with its call path (thesis 3.26)"),
    event("cedgeptr", "of an ENTER the same of the call path that is left"),
    Column("call_path", "int64", "call path of the region instance the event is in", "", "call_paths"),
    Column("pos", "int64", "place in the chronological order of all events (thesis 3.1)"),
    source="thesis 3.10 to 3.26",
)

CALL_PATHS = table(
    "call_paths",
    "one call path, in depth-first order",
    reference("parent", "call_paths", "call path above; null for roots"),
    reference("region", "regions", "region that is entered"),
    reference("call_site", "call_sites", "where it is called; null if not known"),
    Column("depth", "int32", "0 for roots"),
    event("representative", "least recent ENTER (cnodeptr, thesis 3.26)"),
    Column("path", "string", "names of the regions from the root, joined by slashes"),
    source="thesis 3.21 to 3.26",
)

RMA_OPERATIONS = table(
    "rma_operations",
    "one access to a window between hosts: a put, a get or an atomic operation",
    event("event", "the event"),
    reference("window", "windows", "window; null if it is not defined or not recorded"),
    reference("location", "locations", "location that accesses"),
    reference("target", "processes", "process that is accessed; null if it is not known"),
    Column("sent", "int64", "bytes that go to the target", "bytes"),
    Column("received", "int64", "bytes that come from the target", "bytes"),
    ticks("enter_time", "enter of the call"),
    ticks("exit_time", "exit of the call"),
    reference("call_path", "call_paths", "its call path"),
    source="OTF2 RmaPut, RmaGet, RmaAtomic",
)

LOCK_EPOCHS = table(
    "lock_epochs",
    "one passive access epoch: from the call that locks a window at a target, or a lock of SHMEM, to the one that "
    "unlocks it",
    reference("window", "windows", "window"),
    reference("location", "locations", "location that locks"),
    reference("unlock_location", "locations", "location that unlocks"),
    reference(
        "target", "processes", "process whose window is locked; null for locks of SHMEM, which belong to no process"
    ),
    Column("lock", "int64", "lock of SHMEM; 0 for the locks of windows"),
    Column("is_exclusive", "bool", "whether the lock is exclusive"),
    *_call("lock_", "the call that locks", exit_row=False),
    *_call("unlock_", "the call that unlocks"),
    event("request", "the event that asks for the lock; of SHMEM the one that takes it"),
    event("release", "the event that releases the lock"),
    ticks("release_time", "when the lock is released"),
    ticks(
        "previous_release_time",
        "when the last lock before was released that excludes this one; null if none was",
        nullable=True,
    ),
    event("previous_release", "the event of that; null if there is none", nullable=True),
    ticks(
        "wait_enter_time",
        "time of ENTER of the call that waits for that: the one that unlocks a window, if it waits, else the one "
        "that locks",
    ),
    source="OTF2 RmaRequestLock, RmaAcquireLock, RmaReleaseLock",
)

POLLS = table(
    "polls",
    "one call that asks whether something has come (MPI_Test and its like, MPI_Iprobe) and waits for it: one of a "
    "series that ends with the call that gets it; or a call of MPI_Probe right before the message is received, or its "
    "receive is posted",
    reference("location", "locations", "location"),
    reference("call_path", "call_paths", "call path"),
    event("enter", "ENTER"),
    event("exit", "EXIT; null if it was never left"),
    ticks("enter_time", "time of ENTER"),
    ticks("exit_time", "time of EXIT"),
    Column("is_last", "bool", "whether it gets what the series waits for, or is a call of MPI_Probe"),
    reference("cause_location", "locations", "location that sends the message, or starts the operation last"),
    event("cause_event", "the SEND, or the event that starts the operation"),
    reference("cause_call_path", "call_paths", "call path of that; null outside of calls"),
    ticks("cause_enter_time", "when that call is entered: from then on nothing is waited for"),
    ticks("cause_exit_time", "when it is left; of operations when it is entered"),
    source="calls in the order of their ENTERs",
)

NONBLOCKING_MEMBERS = table(
    "nonblocking_members",
    "one participant of a non-blocking collective operation that it completes",
    Column("operation", "int64", "number of the operation"),
    reference("communicator", "communicators", "communicator"),
    Column("op", "int16", "operation, `CollectiveOp`", enum=COLLECTIVE_OPS),
    Column("group", "int8", "group in an inter-communicator, 0 or 1; null in others", nullable=True),
    reference("location", "locations", "location"),
    Column("is_root", "bool", "whether it is the root"),
    Column("sent", "int64", "bytes sent", "bytes"),
    Column("received", "int64", "bytes received", "bytes"),
    Column("sends", "bool", "whether it sends data; true if no sizes are recorded of the operation"),
    Column("receives", "bool", "whether it receives data; true if no sizes are recorded of the operation"),
    event("begin", "the event that starts it"),
    ticks("begin_time", "enter of the call that starts it"),
    reference("begin_call_path", "call_paths", "call path of that call; null outside of calls"),
    event("done", "the event that completes it"),
    ticks(
        "latest_begin_time",
        "when the last participant started, on an inter-communicator that of the other group; null if some are missing",
        nullable=True,
    ),
    ticks("root_begin_time", "when the root started; null if there is none that sends", nullable=True),
    ticks(
        "latest_sender_begin_time",
        "when the last that sends, but the root, started (for MPI_Iscan and MPI_Iexscan, of the ranks up to this "
        "one; for MPI_Ialltoallv and MPI_Ialltoallw, of those that started before its end); null if none does",
        nullable=True,
    ),
    *_call("done_", "the call that completes it", exit_row=False),
    source="k-th operation of each process on a communicator; OTF2 NonBlockingCollectiveRequest, "
    "NonBlockingCollectiveComplete",
)

FILE_OPERATIONS = table(
    "file_operations",
    "one operation on a file of MPI: a read, a write or a flush",
    event("event", "the event that begins it"),
    reference("handle", "io_handles", "handle of the file"),
    reference("location", "locations", "location"),
    Column("mode", "int16", "0 read, 1 write, 2 flush"),
    Column("is_collective", "bool", "whether the processes of the file operate together"),
    event("end", "the event that completes it; null if none does"),
    Column("bytes", "int64", "bytes that were transferred; null if it is not completed", "bytes", nullable=True),
    ticks("enter_time", "enter of the call that begins it"),
    ticks("exit_time", "exit of that call"),
    reference("call_path", "call_paths", "its call path"),
    source="OTF2 IoOperationBegin, IoOperationComplete on handles with a communicator",
)

FILE_MEMBERS = table(
    "file_members",
    "one process in a collective call for a file: opening, closing, a blocking collective read or write",
    Column("operation", "int64", "number of the operation"),
    reference("handle", "io_handles", "handle of the file"),
    reference("communicator", "communicators", "communicator of the file"),
    reference("location", "locations", "location"),
    event("event", "the event that names the handle"),
    ticks("enter_time", "time of the call's ENTER"),
    ticks("exit_time", "time of the call's EXIT"),
    ticks("latest_enter_time", "when the last process entered; null if some are missing", nullable=True),
    ticks("earliest_exit_time", "when the first process left; null if some are missing", nullable=True),
    reference("call_path", "call_paths", "call path of the call"),
    source="k-th call of each process for a handle; OTF2 IoCreateHandle, IoDestroyHandle, IoOperationBegin with flag "
    "collective",
)
