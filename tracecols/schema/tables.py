"""Every table of a store, declared once; the writer, the reader, validation and the documentation follow it."""

from __future__ import annotations

from dataclasses import replace

from tracecols.schema.columns import Column, Table, by_name, event, reference, table, ticks
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.schema.kinds import KINDS, NAMES
from tracecols.schema.versions import Version

KIND_NAMES = tuple(NAMES.get(i, "") for i in range(max(NAMES) + 1))
"""Names of kinds of events, by number."""

FORMAT_VERSION = Version(3, 1)

MANIFEST_ENTRIES = (
    "format", "version", "minor_version", "checksum", "written_by", "source", "clock", "n_locations", "n_events",
    "n_attributes", "first_time", "last_time", "events_by_kind", "decreases", "not_understood", "lost", "tables",
)  # fmt: skip
"""The entries of a manifest of this version."""

EVENTS = table(
    "events",
    "one event; rows ordered by location and as recorded; locations with few events share row groups",
    ticks("time", "clock reading, corrected by the location's clock offsets"),
    Column("kind", "uint8", "event kind, `EventKind`", enum=KIND_NAMES),
    reference("region", "regions", "region entered or left; null for other kinds"),
)


SIGNED = ("value", "offset", "exit_status")
"""Columns of side tables in which -1 is a number like any other; in all others it is null, since a record has only the
attributes of its kind."""


def _side(name: str, row: str, *columns: Column) -> Table:
    columns = tuple(c if c.name in SIGNED else replace(c, nullable=True) for c in columns)
    kinds = ", ".join(k.name for k in KINDS if k.family == name)
    head = (
        event("row", "the event these attributes belong to"),
        Column("kind", "uint8", "its kind, `EventKind`", enum=KIND_NAMES),
    )
    return table(name, row, *head, *columns, source=kinds)


SIDE_TABLES = by_name(
    _side(
        "p2p",
        "the attributes of one point-to-point or request event",
        Column("peer", "int32", "destination or source, a rank in the communicator", "rank"),
        reference("communicator", "communicators", "communicator of the message"),
        Column("tag", "int64", "message tag"),
        Column("length", "int64", "message length", "bytes"),
        Column("request", "int64", "request that starts or completes the operation; reused by the program"),
        Column("message", "int64", "message found by a matching probe"),
    ),
    _side(
        "collectives",
        "the attributes of one event of a collective operation or a communicator: of MPI, or on a stream of "
        "NCCL and the like",
        Column("op", "int16", "operation, `CollectiveOp`", enum=COLLECTIVE_OPS),
        reference("communicator", "communicators", "communicator"),
        Column("root", "int32", "root of the operation, a rank in the communicator; null if it has none", "rank"),
        Column("sent", "int64", "bytes this participant sends", "bytes"),
        Column("received", "int64", "bytes this participant receives", "bytes"),
        Column("request", "int64", "request of a non-blocking operation"),
    ),
    _side(
        "threads",
        "the attributes of one event of thread management",
        reference("team", "communicators", "team, or contingent of created threads"),
        Column("model", "int16", "threading paradigm, `Paradigm`"),
        Column("requested", "int64", "number of threads asked for", "occ"),
        Column("sequence", "int64", "number of the created thread in its contingent"),
    ),
    _side(
        "locks",
        "the attributes of one lock event",
        Column("model", "int16", "threading paradigm, `Paradigm`"),
        Column("lock", "int64", "lock, unique in its process"),
        Column("acquisition", "int64", "how many times the lock was acquired before and with this one"),
    ),
    _side(
        "tasks",
        "the attributes of one task event",
        reference("team", "communicators", "team that runs the task"),
        Column("creator", "int32", "thread of the team that created the task", "rank"),
        Column("generation", "int64", "number of the task among those of its creator; 0 is the implicit task"),
        Column("task", "int64", "task, in older recordings"),
    ),
    _side(
        "rma",
        "the attributes of one event of one-sided communication",
        reference("window", "windows", "window"),
        Column(
            "remote", "int32", "the other side: target, or origin if recorded there; a rank in the communicator", "rank"
        ),
        reference("group", "groups", "group that synchronises"),
        Column("op", "int16", "collective operation, `CollectiveOp`"),
        Column("level", "int64", "synchronisation level, a set of bits: 1 process, 2 memory"),
        Column("root", "int32", "root of a collective operation", "rank"),
        Column("sent", "int64", "bytes sent", "bytes"),
        Column("received", "int64", "bytes received", "bytes"),
        Column("matching", "int64", "joins an operation with its completion"),
        Column("lock", "int64", "lock"),
        Column("lock_type", "int16", "0 exclusive, 1 shared"),
        Column("sync", "int16", "0 memory, 1 notify in, 2 notify out"),
        Column("atomic", "int16", "atomic operation, `RmaAtomic`"),
    ),
    _side(
        "io",
        "the attributes of one I/O event",
        reference("handle", "io_handles", "I/O handle"),
        reference("new_handle", "io_handles", "I/O handle made by duplication"),
        reference("file", "io_files", "file"),
        Column("paradigm", "int16", "I/O paradigm"),
        Column("mode", "int16", "access mode or kind of operation"),
        Column("creation_flags", "int64", "flags of creation, a set of bits"),
        Column("status_flags", "int64", "flags of status, a set of bits"),
        Column("operation_flags", "int64", "flags of the operation, a set of bits"),
        Column("lock_type", "int16", "0 exclusive, 1 shared"),
        Column("requested", "int64", "bytes asked for", "bytes"),
        Column("result", "int64", "bytes transferred", "bytes"),
        Column("matching", "int64", "joins an operation with its completion"),
        Column("offset", "int64", "offset asked for by a seek", "bytes"),
        Column("whence", "int16", "where the offset counts from"),
        Column("position", "int64", "position after a seek", "bytes"),
    ),
    _side(
        "contexts",
        "the attributes of one calling-context event",
        reference("calling_context", "calling_contexts", "calling context"),
        Column("unwind", "int64", "frames that are new since the event before", "occ"),
        reference("interrupt_generator", "interrupt_generators", "what interrupted"),
    ),
    _side(
        "parameters",
        "the value of one parameter",
        reference("parameter", "parameter_definitions", "parameter"),
        Column("value", "int64", "an integer value; unsigned ones as their bits"),
        reference("string", "strings", "a text value"),
    ),
    _side(
        "control",
        "the attributes of one event of the measurement system or of the program's start and end",
        ticks("stop_time", "end of a buffer flush"),
        Column("mode", "int16", "1 measurement on, 2 off"),
        reference("program", "strings", "name of the program"),
        Column("n_arguments", "int64", "number of its arguments", "occ"),
        Column("exit_status", "int64", "exit status"),
    ),
    table(
        "enter_sites",
        "the call site of one ENTER",
        event("row", "the ENTER"),
        reference("call_site", "call_sites", "where its region is called", required=True),
        source="EPILOG ENTER_CS",
    ),
    table(
        "ties",
        "the place of one event among those of the same time, where the source tells and it is not that of its "
        "location",
        event("row", "the event"),
        Column("place", "int64", "events of one time are ordered by it; of others it is location << 32"),
        source="EPILOG, order of records in a merged trace",
    ),
    table(
        "program_arguments",
        "one argument of a program",
        event("row", "its PROGRAM_BEGIN"),
        Column("position", "int32", "0 is the first"),
        reference("argument", "strings", "the text"),
        repeats=True,
    ),
    table(
        "attributes",
        "one additional attribute of an event",
        event("row", "the event it is attached to"),
        reference("attribute", "attribute_definitions", "attribute"),
        Column("type", "uint8", "type of the value, `ValueType`"),
        Column("value", "int64", "the value's bits; references are rows of their table"),
        repeats=True,
    ),
)


def metric_table(number: int, types: list[str]) -> Table:
    """Declare the table of a metric class, given the row of the class: one row per METRIC event, one column per member,
    of its NumPy type."""
    head = (
        event("row", "the METRIC event"),
        reference("source", "metric_sources", "class or instance it was recorded for", required=True),
    )
    values = (Column(f"value_{i}", t, "value of the class's member number i") for i, t in enumerate(types))
    return table(f"metrics_{number}", "the values of one METRIC event", *head, *values, source="METRIC")


def _definition(name: str, row: str, *columns: Column) -> Table:
    return table(name, row, Column("id", "int64", "identifier in the source"), *columns)


_NAME = Column("name", "string", "name")
_DOC = Column("description", "string", "description")

DEFINITIONS = by_name(
    _definition("strings", "one text", Column("string", "string", "the text")),
    _definition(
        "regions",
        "one program region",
        _NAME,
        Column("canonical_name", "string", "mangled or full name"),
        _DOC,
        Column("role", "string", "what kind of region, `RegionRole`"),
        Column("paradigm", "string", "what it belongs to, `Paradigm`"),
        Column("flags", "int64", "1 dynamic, 2 phase"),
        Column("file", "string", "source file"),
        Column("begin_line", "int64", "first source line; 0 unknown"),
        Column("end_line", "int64", "last source line; 0 unknown"),
    ),
    _definition(
        "call_sites",
        "one place in the source where a region is called",
        Column("file", "string", "source file"),
        Column("line", "int64", "source line; 0 unknown"),
        reference("region", "regions", "region entered"),
        reference("caller", "regions", "region left"),
    ),
    _definition(
        "system_tree_nodes",
        "one node of the machine",
        _NAME,
        Column("class_name", "string", "machine, node, rack, ..."),
        reference("parent", "system_tree_nodes", "node above"),
    ),
    _definition(
        "processes",
        "one location group: what owns locations, a process or an accelerator",
        _NAME,
        Column("type", "string", "`LocationGroupType`"),
        reference("node", "system_tree_nodes", "where it runs"),
        reference("creator", "processes", "process that created it"),
        Column(
            "rank", "int32", "rank in MPI_COMM_WORLD, else its number; null for an accelerator", "rank", nullable=True
        ),
    ),
    _definition(
        "locations",
        "one stream of events, in process order",
        _NAME,
        Column("type", "string", "`LocationType`"),
        reference("process", "processes", "what owns it", required=True),
        Column("thread", "int32", "number within its process, whose master is 0"),
        event("first_row", "its first event"),
        Column("n_events", "int64", "number of its events", "occ"),
    ),
    _definition(
        "groups",
        "one group",
        _NAME,
        Column("type", "string", "`GroupType`"),
        Column("paradigm", "string", "`Paradigm`"),
        Column("flags", "int64", "1 members are global ranks"),
        Column("members", "list[int64]", "rows of locations, processes, regions or metrics, in rank order, by type"),
    ),
    _definition(
        "communicators",
        "one communicator, or team of threads",
        _NAME,
        Column("kind", "string", "group, self, inter (two groups) or locations"),
        Column("paradigm", "string", "`Paradigm`"),
        reference("parent", "communicators", "communicator it was made from"),
        Column("flags", "int64", "1 has creation and destruction events"),
        Column("members", "list[int32]", "locations in rank order; empty for self", "", "locations"),
        Column(
            "remote_members", "list[int32]", "locations of the other group of an inter-communicator", "", "locations"
        ),
    ),
    _definition(
        "metric_members",
        "one counter",
        _NAME,
        _DOC,
        Column("type", "string", "where it comes from, `MetricType`"),
        Column("mode", "string", "how values are to be read, `MetricMode`"),
        Column("value_type", "string", "NumPy dtype of the values"),
        Column("base", "int64", "0 binary, 1 decimal scale"),
        Column("exponent", "int64", "values count in base ** exponent units"),
        Column("unit", "string", "unit"),
    ),
    _definition(
        "metric_classes",
        "one set of counters that are recorded together",
        Column("members", "list[int32]", "counters in order", "", "metric_members", required=True),
        Column("occurrence", "string", "`MetricOccurrence`"),
        Column("recorder_kind", "string", "`RecorderKind`"),
    ),
    _definition(
        "metric_sources",
        "one metric class or instance as METRIC events name it",
        reference("metric_class", "metric_classes", "class"),
        reference("recorder", "locations", "location that records it; null for a class", nullable=True),
        Column("scope", "string", "what the values are about, `MetricScope`"),
        Column("scope_id", "int64", "identifier of what they are about"),
    ),
    _definition(
        "topologies",
        "one Cartesian topology",
        _NAME,
        reference("communicator", "communicators", "communicator it lies on"),
        Column("dimensions", "list[string]", "names"),
        Column("sizes", "list[int64]", "sizes; 0 unknown", "occ"),
        Column("periodic", "list[int64]", "1 where it wraps around"),
    ),
    table(
        "topology_coordinates",
        "one position in a topology",
        reference("topology", "topologies", "topology"),
        Column("rank", "int32", "rank in the topology's communicator", "rank"),
        reference("location", "locations", "location at that rank"),
        Column("coordinates", "list[int64]", "coordinates"),
    ),
    table(
        "markers",
        "one marker: a note of a tool or a user on a stretch of the trace",
        ticks("time", "when the stretch begins"),
        ticks("duration", "how long it is; 0 for a moment", is_duration=True),
        Column("group", "string", "who made it, or a group of markers"),
        Column("category", "string", "what kind of marker it is"),
        Column("severity", "string", "`MarkerSeverity`"),
        Column("scope", "string", "what it is about, `MarkerScope`"),
        Column("scope_id", "int64", "identifier of what it is about; null for the whole trace", nullable=True),
        reference("location", "locations", "location it is about; null if none is", nullable=True),
        Column("text", "string", "the note"),
        since=(3, 1),
    ),
    _definition(
        "parameter_definitions", "one parameter of a region", _NAME, Column("type", "string", "string, int64 or uint64")
    ),
    _definition(
        "attribute_definitions", "one additional event attribute", _NAME, Column("type", "string", "`ValueType`"), _DOC
    ),
    _definition(
        "windows",
        "one window of one-sided communication",
        _NAME,
        reference("communicator", "communicators", "communicator"),
        Column("flags", "int64", "1 has creation and destruction events"),
    ),
    _definition(
        "calling_contexts",
        "one calling context",
        reference("region", "regions", "region"),
        reference("source_code_location", "source_code_locations", "where"),
        reference("parent", "calling_contexts", "calling context above"),
    ),
    _definition(
        "source_code_locations", "one source line", Column("file", "string", "file"), Column("line", "int64", "line")
    ),
    _definition(
        "interrupt_generators",
        "one source of samples",
        _NAME,
        Column("mode", "string", "time or count"),
        Column("base", "int64", "0 binary, 1 decimal"),
        Column("exponent", "int64", "period counts in base ** exponent units"),
        Column("period", "int64", "period"),
    ),
    _definition(
        "io_files",
        "one file or directory",
        _NAME,
        Column("type", "string", "file or directory"),
        reference("scope", "system_tree_nodes", "where it is seen"),
    ),
    _definition(
        "io_handles",
        "one I/O handle",
        _NAME,
        reference("file", "io_files", "file"),
        Column("paradigm", "int64", "I/O paradigm"),
        Column("flags", "int64", "1 pre-created, 2 all processes"),
        reference("communicator", "communicators", "communicator"),
        reference("parent", "io_handles", "handle above"),
    ),
    table(
        "properties",
        "one property of a definition",
        Column("table", "string", "table of what it belongs to"),
        Column("of", "int32", "row of that table"),
        Column("name", "string", "name"),
        Column("value", "string", "value as text"),
    ),
    table(
        "other_definitions",
        "one definition that has no table of its own, kept as it was read",
        Column("record", "string", "name of the record type"),
        Column("values", "string", "its fields as JSON"),
    ),
    table(
        "segments",
        "where the rows of one location are in one table",
        Column("table", "string", "table"),
        reference("location", "locations", "location", required=True),
        Column("part", "int32", "number of the part file"),
        Column("offset", "int64", "first row within that file"),
        Column("n_rows", "int64", "number of rows", "occ"),
    ),
)
