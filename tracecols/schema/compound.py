"""Compound events (thesis 3.7): tables whose rows join several events."""

from __future__ import annotations

from tracecols.schema.columns import Column, Table
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.schema.tables import EVENTS

DIRECTIONS = ("not known", "host to device", "device to host", "within devices")
"""Which way a copy goes, by number."""


def _call(role: str, what: str, *, exit_row: bool = True) -> tuple[Column, ...]:
    columns = (
        Column(f"{role}_enter", "int64", f"ENTER of {what}", "", "events"),
        Column(f"{role}_exit", "int64", f"EXIT of {what}", "", "events"),
        Column(f"{role}_enter_time", "int64", "time of that ENTER", "ticks"),
        Column(f"{role}_exit_time", "int64", "time of that EXIT", "ticks"),
        Column(f"{role}_call_path", "int32", f"call path of {what}", "", "call_paths"),
    )
    return columns if exit_row else (columns[0], *columns[2:])


_MESSAGE = (
    Column("send", "int64", "the SEND (sendptr of the receive, thesis 3.11)", "", "events"),
    Column("recv", "int64", "the RECV", "", "events"),
    Column("send_done", "int64", "the event that completes the send; null if none did", "", "events"),
    Column("recv_post", "int64", "the event that posts the receive", "", "events"),
    Column("send_location", "int32", "location of the SEND", "", "locations"),
    Column("recv_location", "int32", "location of the RECV", "", "locations"),
    Column("communicator", "int32", "communicator", "", "communicators"),
    Column("source", "int32", "rank of the sender in the communicator", "rank"),
    Column("destination", "int32", "rank of the receiver in the communicator", "rank"),
    Column("tag", "int64", "message tag"),
    Column("length", "int64", "length, as the sender states it", "bytes"),
    Column("send_time", "int64", "time of the SEND", "ticks"),
    Column("recv_time", "int64", "time of the RECV", "ticks"),
    *_call("send", "the call that starts the send"),
    *_call("send_done", "the call that completes the send; null if none did"),
    *_call("recv_post", "the call that posts the receive"),
    *_call("recv", "the call that completes the receive"),
)

_MESSAGE_SOURCE = "SEMANTICS 3; OTF2 MpiSend, MpiIsend, MpiRecv, MpiIrecv, MpiMrecv, MpiImrecv and their requests"

MESSAGES = Table(
    "messages",
    "one point-to-point message, in the order of the RECVs; sends and receives that found no partner are in "
    "`sends` and `receives` only",
    (
        *_MESSAGE,
        Column(
            "unreceived_before", "bool", "whether a message to the same process that was sent before is never received"
        ),
    ),
    _MESSAGE_SOURCE,
)

SENT_MESSAGES = Table(
    "sent_messages",
    "one point-to-point message, in the order of the SENDs",
    (
        *_MESSAGE,
        Column("unreceived_before", "bool", "whether the sender sent a message before that is never received"),
        Column(
            "send_done_late",
            "int64",
            "longest wait for a late sender in the call that completes the send, if that completes receives as "
            "well; else 0",
            "ticks",
            is_duration=True,
        ),
    ),
    _MESSAGE_SOURCE,
)

SENDS = Table(
    "sends",
    "one send, whether or not it found its receive",
    (
        Column("send", "int64", "the SEND", "", "events"),
        Column("location", "int32", "its location", "", "locations"),
        Column("communicator", "int32", "communicator", "", "communicators"),
        Column("destination", "int32", "rank of the receiver in the communicator", "rank"),
        Column("tag", "int64", "message tag"),
        Column("length", "int64", "length", "bytes"),
        Column("send_time", "int64", "time of the SEND", "ticks"),
        Column("is_cancelled", "bool", "whether the send was cancelled"),
        Column("call_path", "int32", "call path of the call that starts it", "", "call_paths"),
    ),
    "OTF2 MpiSend, MpiIsend",
)

RECEIVES = Table(
    "receives",
    "one receive, whether or not it found its send",
    (
        Column("recv", "int64", "the RECV", "", "events"),
        Column("location", "int32", "its location", "", "locations"),
        Column("communicator", "int32", "communicator", "", "communicators"),
        Column("source", "int32", "rank of the sender in the communicator", "rank"),
        Column("tag", "int64", "message tag"),
        Column(
            "length",
            "int64",
            "length as the sender states it; without a send as recorded here, null if it is not",
            "bytes",
            nullable=True,
        ),
        Column("recv_time", "int64", "time of the RECV", "ticks"),
        Column("is_matched", "bool", "whether it found its send"),
        Column("call_path", "int32", "call path of the call that completes it", "", "call_paths"),
    ),
    "OTF2 MpiRecv, MpiIrecv, MpiMrecv, MpiImrecv",
)

COLLECTIVES = Table(
    "collectives",
    "one instance of an MPI collective operation",
    (
        Column("communicator", "int32", "communicator", "", "communicators"),
        Column("op", "int16", "operation, `CollectiveOp`", enum=COLLECTIVE_OPS),
        Column("n_members", "int32", "participants found", "occ"),
        Column("size", "int32", "size of the communicator", "occ"),
        Column("root", "int32", "root, a rank in the communicator", "rank"),
        Column("latest_begin_time", "int64", "when the last participant began", "ticks"),
        Column("latest_location", "int32", "who began last, of equals the lowest rank", "", "locations"),
        Column(
            "latest_end", "int64", "the event that ends its part: its row in `collective_members.end`", "", "events"
        ),
        Column("earliest_end_time", "int64", "when the first participant ended", "ticks"),
        Column("sent", "int64", "bytes sent by all participants", "bytes"),
        Column("received", "int64", "bytes received by all participants", "bytes"),
    ),
    "k-th collective of each member on a communicator (thesis 3.8, 3.9)",
)

COLLECTIVE_MEMBERS = Table(
    "collective_members",
    "one participant of a collective operation",
    (
        Column("collective", "int64", "the instance", "", "collectives"),
        Column("rank", "int32", "rank in the communicator", "rank"),
        Column("location", "int32", "location", "", "locations"),
        Column("end", "int64", "the event that ends the operation", "", "events"),
        Column("begin_time", "int64", "when it began", "ticks"),
        Column("end_time", "int64", "when it ended", "ticks"),
        Column("sent", "int64", "bytes sent", "bytes"),
        Column("received", "int64", "bytes received", "bytes"),
        Column("is_root", "bool", "whether it is the root"),
        Column("enter", "int64", "ENTER of the call", "", "events"),
        Column("exit", "int64", "EXIT of the call", "", "events"),
        Column("enter_time", "int64", "time of that ENTER", "ticks"),
        Column("exit_time", "int64", "time of that EXIT", "ticks"),
        Column("call_path", "int32", "call path of the call", "", "call_paths"),
    ),
    "OTF2 MpiCollectiveBegin, MpiCollectiveEnd",
)

CONSTRUCTS = Table(
    "constructs",
    "one instance of an OpenMP construct that a whole team executes",
    (
        Column("team", "int64", "team instance", "", "teams"),
        Column("region", "int32", "region the first thread executes", "", "regions"),
        Column("role", "string", "parallel, loop, sections, workshare, single, barrier or implicit_barrier"),
        Column("n_members", "int32", "threads found", "occ"),
        Column("latest_enter_time", "int64", "when the last thread entered", "ticks"),
        Column("latest_location", "int32", "the thread that entered last, of equals the first", "", "locations"),
        Column("latest_enter", "int64", "its ENTER", "", "events"),
    ),
    "k-th construct of its role of each thread within one team instance (thesis 3.13, 3.19)",
)

CONSTRUCT_MEMBERS = Table(
    "construct_members",
    "one thread in a construct",
    (
        Column("construct", "int64", "the instance", "", "constructs"),
        Column("role", "string", "role of the construct"),
        Column("latest_enter_time", "int64", "when the last thread entered", "ticks"),
        Column("location", "int32", "location", "", "locations"),
        Column("enter", "int64", "ENTER", "", "events"),
        Column("exit", "int64", "EXIT", "", "events"),
        Column("enter_time", "int64", "time of ENTER", "ticks"),
        Column("exit_time", "int64", "time of EXIT", "ticks"),
        Column("call_path", "int32", "call path", "", "call_paths"),
        Column("task_time", "int64", "explicit tasks completed inside", "ticks", is_duration=True),
    ),
)

TEAMS = Table(
    "teams",
    "one team instance: a fork, the threads that ran, a join",
    (
        Column("communicator", "int32", "the team's definition", "", "communicators"),
        Column("master", "int32", "location that forked; null if none did", "", "locations", nullable=True),
        Column("fork", "int64", "its FORK", "", "events"),
        Column("join", "int64", "its JOIN (forkptr of it points to the FORK)", "", "events"),
        Column("fork_time", "int64", "time of FORK", "ticks"),
        Column("join_time", "int64", "time of JOIN", "ticks"),
        Column("call_path", "int32", "call path of the FORK", "", "call_paths"),
        Column("n_threads", "int32", "threads that began in the team", "occ"),
    ),
    "OTF2 ThreadFork, ThreadTeamBegin, ThreadJoin",
)

LOCK_ACQUISITIONS = Table(
    "lock_acquisitions",
    "one acquisition of a lock",
    (
        Column("process", "int32", "process that owns the lock", "", "processes"),
        Column("lock", "int64", "lock, unique in its process"),
        Column("acquisition", "int64", "order of acquisition"),
        Column("location", "int32", "location that acquired it", "", "locations"),
        Column("acquire", "int64", "the event", "", "events"),
        Column("acquire_time", "int64", "its time", "ticks"),
        Column(
            "release",
            "int64",
            "outermost release by its owner: a nested lock is acquired and released several times; null if none",
            "",
            "events",
        ),
        Column("release_time", "int64", "its time", "ticks"),
        Column(
            "previous_release_time",
            "int64",
            "outermost release by the owner before; null if none, and where the owner acquires its lock once more",
            "ticks",
            nullable=True,
        ),
        Column("previous_release", "int64", "that event; null if none", "", "events"),
        Column("previous_owner", "int32", "location that released it; null if none", "", "locations", nullable=True),
        Column("previous_call_path", "int32", "call path of the call that released it; null if none", "", "call_paths"),
        Column("lockptr", "int64", "last event of the same lock before (thesis 3.16)", "", "events"),
        Column("lockptr_time", "int64", "its time", "ticks"),
        Column("enter", "int64", "ENTER of the call that acquires", "", "events"),
        Column("enter_time", "int64", "its time", "ticks"),
        Column("call_path", "int32", "call path of that call", "", "call_paths"),
        Column(
            "signal",
            "int64",
            "of a wait for a condition: ENTER of the last call in the process that signals one meanwhile; null if none",
            "",
            "events",
        ),
        Column("signal_time", "int64", "its time; null if none", "ticks", nullable=True),
        Column("signal_location", "int32", "location that signals; null if none", "", "locations", nullable=True),
        Column("signal_call_path", "int32", "call path of that call; null if none", "", "call_paths"),
        Column(
            "lock_wait_time",
            "int64",
            "from when on the lock is waited for: when the call is entered, or after a wait for a condition the signal",
            "ticks",
        ),
    ),
    "OTF2 ThreadAcquireLock, ThreadReleaseLock",
)

STARTUPS = Table(
    "startups",
    "one process in MPI_Init or MPI_Finalize, which synchronise MPI_COMM_WORLD without a collective event",
    (
        Column("is_init", "bool", "MPI_Init or MPI_Init_thread, else MPI_Finalize"),
        Column("location", "int32", "location", "", "locations"),
        Column(
            "communicator",
            "int32",
            "communicator whose processes synchronise, where processes have several worlds (spawn, connect); null: "
            "all of them",
            "",
            "communicators",
        ),
        Column("enter", "int64", "ENTER", "", "events"),
        Column("exit", "int64", "EXIT; null if it was never left", "", "events"),
        Column("enter_time", "int64", "time of ENTER", "ticks"),
        Column("exit_time", "int64", "time of EXIT", "ticks"),
        Column("latest_enter_time", "int64", "when the last process entered", "ticks"),
        Column("earliest_exit_time", "int64", "when the first process left", "ticks"),
        Column("call_path", "int32", "call path", "", "call_paths"),
    ),
)

CREATED_PROCESSES = Table(
    "created_processes",
    "one process that others create (MPI_Comm_spawn), where both sides record the creation of the inter-communicator",
    (
        Column("location", "int32", "its location that starts MPI", "", "locations"),
        Column("begin", "int64", "first event of that location", "", "events"),
        Column("begin_time", "int64", "its time: before, the process does not exist", "ticks"),
        Column("communicator", "int32", "the inter-communicator between it and its creators", "", "communicators"),
        Column(
            "create_location", "int32", "location that creates it, the last to call before it begins", "", "locations"
        ),
        *_call("create", "the call that creates it"),
    ),
    "OTF2 CommCreate, InterComm",
)

WINDOW_MEMBERS = Table(
    "window_members",
    "one process in a collective operation on a window: creation, fence, freeing; of SHMEM any collective operation",
    (
        Column("operation", "int64", "number of the operation"),
        Column("window", "int32", "window", "", "windows"),
        Column("op", "int16", "operation, `CollectiveOp`; null where it is not recorded", nullable=True),
        Column("is_root", "bool", "whether it is the root"),
        Column("location", "int32", "location", "", "locations"),
        Column("end", "int64", "the event that ends the operation", "", "events"),
        Column("enter_time", "int64", "time of the call's ENTER", "ticks"),
        Column("exit_time", "int64", "time of the call's EXIT", "ticks"),
        Column(
            "latest_enter_time",
            "int64",
            "when the last process entered; null if some are missing",
            "ticks",
            nullable=True,
        ),
        Column(
            "root_enter_time",
            "int64",
            "when the root entered; null if there is none, or some are missing",
            "ticks",
            nullable=True,
        ),
        Column(
            "last_access_time",
            "int64",
            "when the last call ended in which another process accessed this one between the operation before, a "
            "fence, and this one; null if none did",
            "ticks",
            nullable=True,
        ),
        Column("call_path", "int32", "call path of the call", "", "call_paths"),
        Column("first_call_path", "int32", "call path of the process that ended first", "", "call_paths"),
    ),
    "k-th operation of each process on a window; OTF2 RmaCollectiveEnd, EPILOG MPI_WINCOLLEXIT",
)

EPOCHS = Table(
    "epochs",
    "one access epoch of an origin (MPI_Win_start to MPI_Win_complete) and the exposure epoch at a target that it "
    "accesses",
    (
        Column("window", "int32", "window", "", "windows"),
        Column("origin", "int32", "location that accesses", "", "locations"),
        Column("target", "int32", "location that exposes", "", "locations"),
        Column("exposure", "int64", "number of the exposure epoch (MPI_Win_post to MPI_Win_wait)"),
        Column("post_enter_time", "int64", "enter of MPI_Win_post", "ticks"),
        Column(
            "wait_enter_time", "int64", "enter of MPI_Win_wait, or of the MPI_Win_test that ended the epoch", "ticks"
        ),
        Column("wait_exit_time", "int64", "exit of that call", "ticks"),
        Column("wait_call_path", "int32", "its call path", "", "call_paths"),
        Column("start_enter_time", "int64", "enter of MPI_Win_start", "ticks"),
        Column("complete_enter_time", "int64", "enter of MPI_Win_complete", "ticks"),
        Column("complete_call_path", "int32", "its call path", "", "call_paths"),
        Column(
            "last_access_time", "int64", "end of the last call that accessed; null if none did", "ticks", nullable=True
        ),
        Column(
            "held_by",
            "int8",
            "what the origin was in when the target posted",
            enum=("nothing", "start", "access", "complete"),
        ),
        Column("held_time", "int64", "how long it was in there before the post", "ticks", is_duration=True),
        Column("held_call_path", "int32", "call path of that call", "", "call_paths"),
        Column("is_complete", "bool", "whether all origins of the exposure epoch are there"),
        Column("completed_by", "int64", "number of the event that completed the exposure epoch"),
        Column("post", "int64", "the event of MPI_Win_post", "", "events"),
        Column("post_call_path", "int32", "its call path", "", "call_paths"),
        Column("wait", "int64", "the event of MPI_Win_wait, or of the MPI_Win_test that ended the epoch", "", "events"),
        Column("complete", "int64", "the event of MPI_Win_complete", "", "events"),
        Column("held", "int64", "the event of the call that the origin was in; null if it was in none", "", "events"),
        Column("held_exit_time", "int64", "exit of that call", "ticks"),
    ),
    "OTF2 RmaGroupSync, EPILOG MPI_WINEXIT",
)

PROFILE = Table(
    "profile",
    "one call path on one location",
    (
        Column("call_path", "int32", "call path", "", "call_paths"),
        Column("location", "int32", "location", "", "locations"),
        Column("exclusive", "int64", "time in the call path itself, without those below", "ticks", is_duration=True),
        Column("visits", "int64", "how often it was entered", "occ"),
        Column("inherited", "bool", "whether it continues the call path of the thread that forked"),
    ),
)

REGION_INSTANCES = Table(
    "region_instances",
    "one execution of a region",
    (
        Column("location", "int32", "location", "", "locations"),
        Column("enter", "int64", "ENTER", "", "events"),
        Column("exit", "int64", "EXIT; null if it never ended", "", "events"),
        Column("region", "int32", "region", "", "regions"),
        Column("call_path", "int32", "call path", "", "call_paths"),
        Column("enter_time", "int64", "time of ENTER", "ticks"),
        Column("exit_time", "int64", "time of EXIT", "ticks"),
    ),
)

_IN_REGION = (
    Column("location", "int32", "location", "", "locations"),
    Column("region", "int32", "region it is in; null outside of all regions", "", "regions"),
    Column("call_path", "int32", "call path of that region instance", "", "call_paths"),
    Column("enter", "int64", "ENTER of that region instance", "", "events"),
    Column("exit", "int64", "EXIT of that region instance; null if it never ended", "", "events"),
    Column("enter_time", "int64", "time of that ENTER", "ticks"),
    Column("exit_time", "int64", "time of that EXIT", "ticks"),
)

PARAMETER_VALUES = Table(
    "parameter_values",
    "one value of a parameter, with the region instance that it belongs to",
    (
        *_IN_REGION,
        Column("event", "int64", "the event that records the value", "", "events"),
        Column("time", "int64", "its time", "ticks"),
        Column("parameter", "int32", "parameter", "", "parameter_definitions"),
        Column("value", "int64", "an integer value; unsigned ones as their bits"),
        Column("string", "int32", "a text value", "", "strings"),
    ),
    "OTF2 ParameterInt, ParameterUnsignedInt, ParameterString",
)

COUNTER_VALUES = Table(
    "counter_values",
    "one reading of a counter, also one that the program counts itself, with the region instance in which it was made",
    (
        *_IN_REGION,
        Column("event", "int64", "the METRIC event", "", "events"),
        Column("time", "int64", "its time", "ticks"),
        Column("counter", "int32", "counter", "", "metric_members"),
        Column("value", "float64", "the value as recorded: accumulated or not, as the counter is declared"),
    ),
    "OTF2 Metric",
)

LOCATION_MARKERS = Table(
    "location_markers",
    "one marker on one of the locations that it is about, with the region instance in which it begins; markers about "
    "the whole trace are on all locations",
    (
        *_IN_REGION,
        Column("marker", "int32", "marker", "", "markers"),
        Column("time", "int64", "when the stretch begins", "ticks"),
        Column("duration", "int64", "how long it is; 0 for a moment", "ticks", is_duration=True),
    ),
    "OTF2 Marker",
)

KERNELS = Table(
    "kernels",
    "one kernel, or whatever else runs in a region on a stream of a device; regions inside belong to the outermost",
    (
        Column("location", "int32", "the stream", "", "locations"),
        Column("call_path", "int32", "call path of the kernel on the stream", "", "call_paths"),
        Column("enter", "int64", "ENTER", "", "events"),
        Column("exit", "int64", "EXIT; null if it never ended", "", "events"),
        Column("enter_time", "int64", "when it began", "ticks"),
        Column("exit_time", "int64", "when it ended", "ticks"),
        Column("idle_since_time", "int64", "when the last kernel or copy before it on the stream ended", "ticks"),
        Column(
            "callsite",
            "int64",
            "call site that kernel and launch have in common; null if none is recorded",
            nullable=True,
        ),
        Column(
            "launch_location",
            "int32",
            "location of the launch; null if it is not known",
            "",
            "locations",
            nullable=True,
        ),
        *_call("launch", "the call that launches it; null if it is not known"),
    ),
    "k-th launch and k-th kernel of a stream, or of a call site and stream; OTF2 attributes and parameters of the "
    "launching call",
)

COPIES = Table(
    "copies",
    "one transfer between host and device, or within devices",
    (
        Column("location", "int32", "the stream", "", "locations"),
        Column("event", "int64", "the event that begins it", "", "events"),
        Column("begin_time", "int64", "when it began", "ticks"),
        Column("end_time", "int64", "when it ended", "ticks"),
        Column("direction", "int8", "which way it goes", enum=DIRECTIONS),
        Column("bytes", "int64", "bytes transferred; null if they are not recorded", "bytes", nullable=True),
        Column("hidden_time", "int64", "how long kernels run on the same device meanwhile", "ticks", is_duration=True),
        Column(
            "call_path",
            "int32",
            "call path of the call that asks for it; where that is not known the program's outermost call path",
            "",
            "call_paths",
        ),
        Column(
            "copy_location",
            "int32",
            "location of the call that asks for it; null if it is not known",
            "",
            "locations",
            nullable=True,
        ),
        *_call("copy", "the call that asks for it; null if it is not known"),
    ),
    "RMA_PUT, RMA_GET and their completion on a stream; regions of role data_transfer",
)

DEVICE_SYNCS = Table(
    "device_syncs",
    "one call in which the host waits for a device: a synchronisation, or a copy that returns only when it is done",
    (
        Column("location", "int32", "location of the call", "", "locations"),
        *(Column(c.name.removeprefix("call_"), c.dtype, c.doc, c.unit, c.target) for c in _call("call", "the call")),
        Column("is_copy", "bool", "whether it is a copy"),
        Column(
            "stream",
            "int32",
            "stream it refers to; null for all streams of the process",
            "",
            "locations",
            nullable=True,
        ),
        Column("own_time", "int64", "time in the call itself, without calls inside", "ticks", is_duration=True),
        Column(
            "cause",
            "int64",
            "begin of the kernel or copy pending at the ENTER that ends last; null if none was",
            "",
            "events",
        ),
        Column("cause_location", "int32", "its stream", "", "locations"),
        Column("cause_begin_time", "int64", "when it began", "ticks"),
        Column("cause_end_time", "int64", "when it ended", "ticks"),
        Column(
            "wait_begin_time", "int64", "when waiting for it began: with the call, or when it began itself", "ticks"
        ),
    ),
)

DEVICE_INTERVALS = Table(
    "device_intervals",
    "one interval of the time of a stream, from the first event of its process to the last",
    (
        Column("location", "int32", "the stream", "", "locations"),
        Column("begin_time", "int64", "when it began", "ticks"),
        Column("end_time", "int64", "when it ended", "ticks"),
        Column("state", "int8", "what the stream does; a copy: and no kernel runs", enum=("idle", "kernel", "copy")),
        Column("direction", "int8", "of a copy; see `copies`", enum=DIRECTIONS),
        Column(
            "hidden_time",
            "int64",
            "of a copy, and of a kernel that communicates: how long other kernels run on the device meanwhile",
            "ticks",
            is_duration=True,
        ),
        Column(
            "call_path",
            "int32",
            "call path of the kernel; of a copy that of the call that asks for it; of idle time that of the call that "
            "ends it: the launch, or the copy; where that is not known the program's outermost call path",
            "",
            "call_paths",
        ),
        Column(
            "request_time", "int64", "of idle time: ENTER of that call; null if it is not known", "ticks", nullable=True
        ),
    ),
)

CREATED_THREADS = Table(
    "created_threads",
    "one thread that the program created by itself, from its begin on",
    (
        Column("location", "int32", "its location", "", "locations"),
        Column("begin", "int64", "THREAD_BEGIN", "", "events"),
        Column("begin_time", "int64", "its time", "ticks"),
        Column(
            "enter_time", "int64", "when it enters its first region; that of THREAD_BEGIN if it enters none", "ticks"
        ),
        Column("end", "int64", "THREAD_END; null if it never ended", "", "events"),
        Column("end_time", "int64", "its time", "ticks"),
        Column("create", "int64", "THREAD_CREATE; null if there is none", "", "events"),
        Column(
            "create_location", "int32", "location that created it; null if none did", "", "locations", nullable=True
        ),
        *_call("create", "the call that creates it; null if there is none"),
        Column("join", "int64", "THREAD_WAIT; null if there is none", "", "events"),
        Column(
            "join_location",
            "int32",
            "location that waited for its end; null if none did",
            "",
            "locations",
            nullable=True,
        ),
        *_call("join", "the call that waits for its end; null if there is none"),
    ),
    "OTF2 ThreadCreate, ThreadBegin, ThreadWait, ThreadEnd",
)

EVENTS_WITH_POINTERS = Table(
    "events",
    "one event with its pointers",
    (
        Column("location", "int32", "location", "", "locations"),
        *EVENTS.columns,
        Column("enterptr", "int64", "ENTER of the region instance the event is in (thesis 3.10)", "", "events"),
        Column("exitptr", "int64", "of an ENTER its EXIT", "", "events"),
        Column("sendptr", "int64", "of a RECV its SEND (thesis 3.11)", "", "events"),
        Column("lockptr", "int64", "of a lock event the one before of the same lock (thesis 3.16)", "", "events"),
        Column("forkptr", "int64", "of a JOIN its FORK", "", "events"),
        Column(
            "cnodeptr", "int64", "of an ENTER the least recent ENTER with its call path (thesis 3.26)", "", "events"
        ),
        Column("cedgeptr", "int64", "of an ENTER the same of the call path that is left", "", "events"),
        Column("call_path", "int64", "call path of the region instance the event is in", "", "call_paths"),
        Column("pos", "int64", "place in the chronological order of all events (thesis 3.1)"),
    ),
    "thesis 3.10 to 3.26",
)

CALL_PATHS = Table(
    "call_paths",
    "one call path, in depth-first order",
    (
        Column("parent", "int32", "call path above; null for roots", "", "call_paths"),
        Column("region", "int32", "region that is entered", "", "regions"),
        Column("call_site", "int32", "where it is called; null if not known", "", "call_sites"),
        Column("depth", "int32", "0 for roots"),
        Column("representative", "int64", "least recent ENTER (cnodeptr, thesis 3.26)", "", "events"),
        Column("path", "string", "names of the regions from the root, joined by slashes"),
    ),
    "thesis 3.21 to 3.26",
)

RMA_OPERATIONS = Table(
    "rma_operations",
    "one access to a window between hosts: a put, a get or an atomic operation",
    (
        Column("event", "int64", "the event", "", "events"),
        Column("window", "int32", "window; null if it is not defined or not recorded", "", "windows"),
        Column("location", "int32", "location that accesses", "", "locations"),
        Column("target", "int32", "process that is accessed; null if it is not known", "", "processes"),
        Column("sent", "int64", "bytes that go to the target", "bytes"),
        Column("received", "int64", "bytes that come from the target", "bytes"),
        Column("enter_time", "int64", "enter of the call", "ticks"),
        Column("exit_time", "int64", "exit of the call", "ticks"),
        Column("call_path", "int32", "its call path", "", "call_paths"),
    ),
    "OTF2 RmaPut, RmaGet, RmaAtomic",
)

LOCK_EPOCHS = Table(
    "lock_epochs",
    "one passive access epoch: from the call that locks a window at a target, or a lock of SHMEM, to the one that "
    "unlocks it",
    (
        Column("window", "int32", "window", "", "windows"),
        Column("location", "int32", "location that locks", "", "locations"),
        Column(
            "target",
            "int32",
            "process whose window is locked; null for locks of SHMEM, which belong to no process",
            "",
            "processes",
        ),
        Column("lock", "int64", "lock of SHMEM; 0 for the locks of windows"),
        Column("is_exclusive", "bool", "whether the lock is exclusive"),
        *_call("lock", "the call that locks", exit_row=False),
        *_call("unlock", "the call that unlocks", exit_row=False),
        Column("request", "int64", "the event that asks for the lock; of SHMEM the one that takes it", "", "events"),
        Column("release", "int64", "the event that releases the lock", "", "events"),
        Column("release_time", "int64", "when the lock is released", "ticks"),
        Column(
            "previous_release_time",
            "int64",
            "when the last lock before was released that excludes this one; null if none was",
            "ticks",
            nullable=True,
        ),
        Column("previous_release", "int64", "the event of that; null if there is none", "", "events", nullable=True),
    ),
    "OTF2 RmaRequestLock, RmaAcquireLock, RmaReleaseLock",
)

POLLS = Table(
    "polls",
    "one call that asks whether something has come (MPI_Test and its like, MPI_Iprobe) and waits for it: one of a "
    "series that ends with the call that gets it",
    (
        Column("location", "int32", "location", "", "locations"),
        Column("call_path", "int32", "call path", "", "call_paths"),
        Column("enter", "int64", "ENTER", "", "events"),
        Column("exit", "int64", "EXIT; null if it was never left", "", "events"),
        Column("enter_time", "int64", "time of ENTER", "ticks"),
        Column("exit_time", "int64", "time of EXIT", "ticks"),
        Column("is_last", "bool", "whether it gets what the series waits for"),
        Column(
            "cause_location", "int32", "location that sends the message, or starts the operation last", "", "locations"
        ),
        Column("cause_event", "int64", "the SEND, or the event that starts the operation", "", "events"),
        Column("cause_call_path", "int32", "call path of that; null outside of calls", "", "call_paths"),
        Column("cause_enter_time", "int64", "when that call is entered: from then on nothing is waited for", "ticks"),
        Column("cause_exit_time", "int64", "when it is left; of operations when it is entered", "ticks"),
    ),
    "calls in the order of their ENTERs",
)

NONBLOCKING_MEMBERS = Table(
    "nonblocking_members",
    "one participant of a non-blocking collective operation that it completes",
    (
        Column("operation", "int64", "number of the operation"),
        Column("communicator", "int32", "communicator", "", "communicators"),
        Column("op", "int16", "operation, `CollectiveOp`", enum=COLLECTIVE_OPS),
        Column("location", "int32", "location", "", "locations"),
        Column("is_root", "bool", "whether it is the root"),
        Column("sent", "int64", "bytes sent", "bytes"),
        Column("received", "int64", "bytes received", "bytes"),
        Column("begin", "int64", "the event that starts it", "", "events"),
        Column("begin_time", "int64", "enter of the call that starts it", "ticks"),
        Column("begin_call_path", "int32", "call path of that call; null outside of calls", "", "call_paths"),
        Column("done", "int64", "the event that completes it", "", "events"),
        Column(
            "latest_begin_time",
            "int64",
            "when the last participant started; null if some are missing",
            "ticks",
            nullable=True,
        ),
        Column("root_begin_time", "int64", "when the root started; null if there is none", "ticks", nullable=True),
        Column(
            "latest_sender_begin_time",
            "int64",
            "when the last that sends, but the root, started; null if none does",
            "ticks",
            nullable=True,
        ),
        *_call("done", "the call that completes it", exit_row=False),
    ),
    "k-th operation of each process on a communicator; OTF2 NonBlockingCollectiveRequest, "
    "NonBlockingCollectiveComplete",
)

FILE_OPERATIONS = Table(
    "file_operations",
    "one operation on a file of MPI: a read, a write or a flush",
    (
        Column("event", "int64", "the event that begins it", "", "events"),
        Column("handle", "int32", "handle of the file", "", "io_handles"),
        Column("location", "int32", "location", "", "locations"),
        Column("mode", "int16", "0 read, 1 write, 2 flush"),
        Column("is_collective", "bool", "whether the processes of the file operate together"),
        Column("end", "int64", "the event that completes it; null if none does", "", "events"),
        Column("bytes", "int64", "bytes that were transferred; null if it is not completed", "bytes", nullable=True),
        Column("enter_time", "int64", "enter of the call that begins it", "ticks"),
        Column("exit_time", "int64", "exit of that call", "ticks"),
        Column("call_path", "int32", "its call path", "", "call_paths"),
    ),
    "OTF2 IoOperationBegin, IoOperationComplete on handles with a communicator",
)

FILE_MEMBERS = Table(
    "file_members",
    "one process in a collective call for a file: opening, closing, a blocking collective read or write",
    (
        Column("operation", "int64", "number of the operation"),
        Column("handle", "int32", "handle of the file", "", "io_handles"),
        Column("communicator", "int32", "communicator of the file", "", "communicators"),
        Column("location", "int32", "location", "", "locations"),
        Column("event", "int64", "the event that names the handle", "", "events"),
        Column("enter_time", "int64", "time of the call's ENTER", "ticks"),
        Column("exit_time", "int64", "time of the call's EXIT", "ticks"),
        Column(
            "latest_enter_time",
            "int64",
            "when the last process entered; null if some are missing",
            "ticks",
            nullable=True,
        ),
        Column(
            "earliest_exit_time",
            "int64",
            "when the first process left; null if some are missing",
            "ticks",
            nullable=True,
        ),
        Column("call_path", "int32", "call path of the call", "", "call_paths"),
    ),
    "k-th call of each process for a handle; OTF2 IoCreateHandle, IoDestroyHandle, IoOperationBegin with flag "
    "collective",
)
