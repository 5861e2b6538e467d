"""The record types of EPILOG 1.9, declared as data that drives the decoder."""

from __future__ import annotations

from dataclasses import dataclass

from tracecols.schema import EventKind as K

# meaning of the number in a field, which determines how it is converted
PLAIN, REGION, SITE, COMM, WINDOW, PEER, GROUP, FLAG, LOCK_TYPE = range(9)
"""PEER: a location, or a rank in the communicator; GROUP: a communicator that represents its group, or a group; FLAG
and LOCK_TYPE take one byte, all others four."""

AFTER, AHEAD = 1, 2
"""Position of the counter values of a record: after its fields, or ahead of them."""


@dataclass(frozen=True)
class Event:
    """One type of event record and the events it becomes."""

    code: int
    name: str
    """`code` and `name`: as in the format."""
    fields: tuple[tuple[str, int], ...]
    """Fields after location and time: the column each fills in the side table of its kind, and its meaning."""
    kind: K
    """Kind of the event that holds the fields."""
    leaves: bool = False
    """Whether the record also leaves its region: an EXIT of the same time follows."""
    counters: int = 0
    """0 if the record has no counter values, else AFTER or AHEAD; with counters a METRIC event precedes."""


_PEER, _COMM, _WINDOW = ("peer", PEER), ("communicator", COMM), ("window", WINDOW)
_REMOTE, _BYTES, _RMA = ("remote", PEER), ("sent", PLAIN), ("matching", PLAIN)
_LOCK = (("lock", PLAIN),)
_ROOTED = (("root", PEER), _COMM, ("sent", PLAIN), ("received", PLAIN))

EVENTS: tuple[Event, ...] = (
    Event(101, "ENTER", (("region", REGION),), K.ENTER, counters=AFTER),
    Event(102, "EXIT", (), K.EXIT, counters=AHEAD),
    Event(103, "MPI_SEND", (_PEER, _COMM, ("tag", PLAIN), ("length", PLAIN)), K.MPI_SEND),
    Event(104, "MPI_RECV", (_PEER, _COMM, ("tag", PLAIN)), K.MPI_RECV),
    Event(105, "MPI_COLLEXIT", _ROOTED, K.MPI_COLLECTIVE_END, leaves=True, counters=AHEAD),
    Event(106, "OMP_FORK", (), K.OMP_FORK),
    Event(107, "OMP_JOIN", (), K.OMP_JOIN),
    Event(108, "OMP_ALOCK", _LOCK, K.OMP_ACQUIRE_LOCK),
    Event(109, "OMP_RLOCK", _LOCK, K.OMP_RELEASE_LOCK),
    Event(110, "OMP_COLLEXIT", (), K.EXIT, counters=AHEAD),
    Event(111, "ENTER_CS", (("call_site", SITE),), K.ENTER, counters=AFTER),
    Event(112, "MPI_PUT_1TS", (_REMOTE, _WINDOW, _RMA, _BYTES), K.RMA_PUT),
    Event(113, "MPI_PUT_1TE", (_REMOTE, _WINDOW, _RMA), K.RMA_PUT_AT_TARGET),
    Event(114, "MPI_GET_1TS", (_REMOTE, _WINDOW, _RMA, _BYTES), K.RMA_GET_AT_TARGET),
    Event(115, "MPI_GET_1TE", (_REMOTE, _WINDOW, _RMA), K.RMA_OP_COMPLETE_NON_BLOCKING),
    Event(116, "MPI_GET_1TO", (_RMA,), K.RMA_GET),
    Event(
        117, "MPI_WINEXIT", (_WINDOW, ("group", GROUP), ("level", FLAG)), K.RMA_GROUP_SYNC, leaves=True, counters=AHEAD
    ),
    Event(118, "MPI_WINCOLLEXIT", (_WINDOW,), K.RMA_COLLECTIVE_END, leaves=True, counters=AHEAD),
    Event(119, "MPI_WIN_LOCK", (_REMOTE, _WINDOW, ("lock_type", LOCK_TYPE)), K.RMA_ACQUIRE_LOCK),
    Event(120, "MPI_WIN_UNLOCK", (_REMOTE, _WINDOW), K.RMA_RELEASE_LOCK),
    Event(121, "MPI_PUT_1TE_REMOTE", (_REMOTE, _WINDOW, _RMA), K.RMA_OP_COMPLETE_REMOTE),
    Event(122, "MPI_GET_1TS_REMOTE", (_REMOTE, _WINDOW, _RMA, _BYTES), K.RMA_GET),
    Event(123, "SHMEM_PUT_1TS", (_REMOTE, _RMA, _BYTES), K.RMA_PUT),
    Event(124, "SHMEM_PUT_1TE", (_REMOTE, _RMA), K.RMA_PUT_AT_TARGET),
    Event(125, "SHMEM_GET_1TS", (_REMOTE, _RMA, _BYTES), K.RMA_GET_AT_TARGET),
    Event(126, "SHMEM_GET_1TE", (_REMOTE, _RMA), K.RMA_OP_COMPLETE_NON_BLOCKING),
    Event(127, "SHMEM_PUT_1TE_REMOTE", (_REMOTE, _RMA), K.RMA_OP_COMPLETE_REMOTE),
    Event(128, "SHMEM_GET_1TS_REMOTE", (_REMOTE, _RMA, _BYTES), K.RMA_GET),
    Event(129, "SHMEM_COLLEXIT", _ROOTED, K.MPI_COLLECTIVE_END, leaves=True, counters=AHEAD),
    Event(130, "SHMEM_ALOCK", _LOCK, K.RMA_ACQUIRE_LOCK),
    Event(131, "SHMEM_RLOCK", _LOCK, K.RMA_RELEASE_LOCK),
    Event(132, "MPI_SEND_COMPLETE", (("request", PLAIN),), K.MPI_ISEND_COMPLETE),
    Event(133, "MPI_RECV_REQUEST", (("request", PLAIN),), K.MPI_IRECV_REQUEST),
    Event(134, "MPI_REQUEST_TESTED", (("request", PLAIN),), K.MPI_REQUEST_TEST),
    Event(135, "MPI_CANCELLED", (("request", PLAIN),), K.MPI_REQUEST_CANCELLED),
    Event(201, "LOG_OFF", (), K.MEASUREMENT_ON_OFF, counters=AHEAD),
    Event(202, "LOG_ON", (), K.MEASUREMENT_ON_OFF, counters=AHEAD),
    Event(203, "ENTER_TRACING", (), K.ENTER, counters=AHEAD),
    Event(204, "EXIT_TRACING", (), K.EXIT, counters=AHEAD),
)

ATTRIBUTES = {1: "ANYNESS", 2: "REQUEST", 3: "BYTES", 4: "REGION"}
ATTRIBUTE_TYPES = {60: ("uint8", 1), 61: ("uint32", 4)}
"""Attribute records: type and size of their value."""

REQUEST = 2

DEFINITIONS: dict[int, tuple[str, tuple[str, ...]]] = {
    1: ("STRING", ("id:I", "n_continued:B", "text:*")),
    2: ("STRING_CNT", ("text:*",)),
    3: ("MACHINE", ("id:I", "n_nodes:I", "name:I")),
    4: ("NODE", ("id:I", "machine:I", "n_cpus:I", "name:I", "clock_rate:d?")),
    5: ("PROCESS", ("id:I", "name:I")),
    6: ("THREAD", ("id:I", "process:I", "name:I")),
    7: ("LOCATION", ("id:I", "machine:I", "node:I", "process:I", "thread:I")),
    8: ("FILE", ("id:I", "name:I")),
    9: ("REGION", ("id:I", "name:I", "file:I", "begin:I", "end:I", "description:I", "type:B")),
    10: ("METRIC", ("id:I", "name:I", "description:I", "dtype:B", "mode:B", "interval:B")),
    11: ("MPI_COMM", ("id:I", "mode:B@1003", "n_bytes:I", "bits:*")),
    12: ("OFFSET", ("local:d", "offset:d")),
    13: ("LAST_DEF", ()),
    14: ("NUM_EVENTS", ("n:I",)),
    15: ("CALL_SITE", ("id:I", "file:I", "line:I", "region:I", "caller:I")),
    16: ("CART_TOPOLOGY", ("id:I", "communicator:I", "n:B", "sizes:I*", "periodic:B*", "name:I?", "names:I*?")),
    17: ("CART_COORDS", ("topology:I", "location:I", "n:B", "coordinates:I*")),
    18: ("MPI_WIN", ("id:I", "communicator:I")),
    19: ("MPI_COMM_CNT", ("bits:*",)),
    20: ("CALL_PATH", ("id:I", "region:I", "parent:I", "order:Q")),
    21: ("EVENT_TYPES", ("n:I", "types:B*")),
    22: ("EVENT_COUNTS", ("n:I", "counts:I*")),
    23: ("MAP_SECTION", ("rank:I",)),
    24: ("MAP_OFFSET", ("rank:I", "offset:I")),
    25: ("IDMAP", ("of:B", "mode:B", "n_numbers:I", "numbers:I~")),
    26: ("IDMAP_CNT", ("numbers:I~",)),
    27: ("MPI_GROUP", ("id:I", "mode:B", "n_ranks:I", "ranks:I~")),
    28: ("MPI_GROUP_CNT", ("ranks:I~",)),
    29: ("MPI_COMM_REF", ("id:I", "group:I")),
    30: ("MPI_COMM_DIST", ("id:I", "root:I", "local:I", "local_rank:I", "size:I")),
}
"""Definition records: fields with the code of their type. `*`: `n` elements (of bytes: all that follow), `~`: all that
follow, `?`: absent in older versions, `@`: first version that has the field (major * 1000 + minor)."""

CONTINUED = {"STRING_CNT": "STRING", "MPI_COMM_CNT": "MPI_COMM", "IDMAP_CNT": "IDMAP", "MPI_GROUP_CNT": "MPI_GROUP"}
"""Records that continue the last record of another type."""

MAPPED = {7: "LOCATION", 9: "REGION", 11: "MPI_COMM", 15: "CALL_SITE", 18: "MPI_WIN", 20: "CALL_PATH", 27: "MPI_GROUP"}
"""Kinds of identifiers that an IDMAP translates, by the record type it names."""

REGION_TYPES: dict[int, tuple[str, str]] = {
    2: ("loop", "user"), 3: ("code", "user"), 4: ("barrier", "mpi"), 5: ("coll_one2all", "mpi"),
    6: ("coll_all2one", "mpi"), 7: ("coll_all2all", "mpi"), 8: ("coll_other", "mpi"), 11: ("parallel", "openmp"),
    12: ("loop", "openmp"), 13: ("sections", "openmp"), 14: ("section", "openmp"), 15: ("workshare", "openmp"),
    16: ("single", "openmp"), 17: ("master", "openmp"), 18: ("critical", "openmp"), 19: ("atomic", "openmp"),
    20: ("barrier", "openmp"), 21: ("implicit_barrier", "openmp"), 22: ("flush", "openmp"),
    23: ("critical_sblock", "openmp"), 24: ("single_sblock", "openmp"), 25: ("ordered", "openmp"),
    26: ("ordered_sblock", "openmp"),
}  # fmt: skip
"""Role and paradigm of region types; for the others (unknown, function) they are derived from the name."""
