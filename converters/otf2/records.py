"""The record types of OTF2 as data: fields, their types, and the columns they fill.

A field is written ``type:name@map``. Types: ``u8`` raw byte, ``c32`` ``c64`` compressed integer, ``s64`` compressed
signed, ``f64`` raw floating point, ``ts`` fixed-width time stamp, ``str`` text, ``u8*`` ``c32*`` ``c64*`` lists whose
length is the previous field, ``idmap`` an id map, ``value`` an attribute value preceded by its type byte. Fields after
``?`` are present only while the record has bytes left. ``map`` names the kind of identifier (`MAPS`); of definitions in
`STORED` also SYSTEM_TREE_NODE and METRIC_MEMBER, or the enumeration of `tracecols.schema.enums`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tracecols.schema import enums

MAPS = (
    "STRING", "ATTRIBUTE", "LOCATION", "REGION", "GROUP", "METRIC", "COMM", "PARAMETER", "RMA_WIN", "SCL",
    "CALLING_CONTEXT", "INTERRUPT_GENERATOR", "IO_FILE", "IO_HANDLE", "LOCATION_GROUP",
)  # fmt: skip
"""Kinds of identifiers, numbered as in mapping tables."""

VALUE_MAPS = {
    11: "STRING", 12: "ATTRIBUTE", 13: "LOCATION", 14: "REGION", 15: "GROUP", 16: "METRIC", 17: "COMM", 18: "PARAMETER",
    19: "RMA_WIN", 20: "SCL", 21: "CALLING_CONTEXT", 22: "INTERRUPT_GENERATOR", 23: "IO_FILE", 24: "IO_HANDLE",
    25: "LOCATION_GROUP",
}  # fmt: skip
"""The kind of identifier an attribute value of each type holds."""


class Field(NamedTuple):
    """One field of a record."""

    type: str
    name: str
    map: str = ""
    optional: bool = False

    @property
    def enumeration(self) -> tuple[str, ...] | dict[int, str] | None:
        """The names of numbers of an enumeration; None for other fields."""
        return getattr(enums, self.map, None)


class Record(NamedTuple):
    """One record type: its code, name and fields."""

    code: int
    name: str
    fields: tuple[Field, ...]
    has_length: bool


def _fields(text: str) -> tuple[Field, ...]:
    fields, optional = [], False
    for word in text.split():
        if word == "?":
            optional = True
            continue
        kind, name = word.split(":")
        name, _, id_map = name.partition("@")
        fields.append(Field(kind, name, id_map, optional))
    return tuple(fields)


def _records(*rows: tuple[int, str, str], without_length: Collection[int] = ()) -> tuple[Record, ...]:
    """Declare records by code, name and fields; all of definitions state their length, some of events do not."""
    return tuple(Record(code, name, _fields(text), code not in without_length) for code, name, text in rows)


# The columns of the side tables (tracecols.schema) are named like the fields.
EVENT_RECORDS = _records(
    (10, "BufferFlush", "ts:stop_time"),
    (11, "MeasurementOnOff", "u8:mode"),
    (12, "Enter", "c32:region@REGION"),
    (13, "Leave", "c32:region@REGION"),
    (14, "MpiSend", "c32:peer c32:communicator@COMM c32:tag c64:length"),
    (15, "MpiIsend", "c32:peer c32:communicator@COMM c32:tag c64:length c64:request"),
    (16, "MpiIsendComplete", "c64:request"),
    (17, "MpiIrecvRequest", "c64:request"),
    (18, "MpiRecv", "c32:peer c32:communicator@COMM c32:tag c64:length"),
    (19, "MpiIrecv", "c32:peer c32:communicator@COMM c32:tag c64:length c64:request"),
    (20, "MpiRequestTest", "c64:request"),
    (21, "MpiRequestCancelled", "c64:request"),
    (22, "MpiCollectiveBegin", ""),
    (23, "MpiCollectiveEnd", "u8:op c32:communicator@COMM c32:root c64:sent c64:received"),
    (24, "OmpFork", "c32:requested"),
    (25, "OmpJoin", ""),
    (26, "OmpAcquireLock", "c32:lock c32:acquisition"),
    (27, "OmpReleaseLock", "c32:lock c32:acquisition"),
    (28, "OmpTaskCreate", "c64:task"),
    (29, "OmpTaskSwitch", "c64:task"),
    (30, "OmpTaskComplete", "c64:task"),
    (31, "Metric", "c32:source@METRIC u8:n_values"),
    (32, "ParameterString", "c32:parameter@PARAMETER c32:string@STRING"),
    (33, "ParameterInt", "c32:parameter@PARAMETER s64:value"),
    (34, "ParameterUnsignedInt", "c32:parameter@PARAMETER c64:value"),
    (35, "RmaWinCreate", "c32:window@RMA_WIN"),
    (36, "RmaWinDestroy", "c32:window@RMA_WIN"),
    (37, "RmaCollectiveBegin", ""),
    (38, "RmaCollectiveEnd", "u8:op c32:level c32:window@RMA_WIN c32:root c64:sent c64:received"),
    (39, "RmaGroupSync", "c32:level c32:window@RMA_WIN c32:group@GROUP"),
    (40, "RmaRequestLock", "c32:window@RMA_WIN c32:remote c64:lock u8:lock_type"),
    (41, "RmaAcquireLock", "c32:window@RMA_WIN c32:remote c64:lock u8:lock_type"),
    (42, "RmaTryLock", "c32:window@RMA_WIN c32:remote c64:lock u8:lock_type"),
    (43, "RmaReleaseLock", "c32:window@RMA_WIN c32:remote c64:lock"),
    (44, "RmaSync", "c32:window@RMA_WIN c32:remote u8:sync"),
    (45, "RmaWaitChange", "c32:window@RMA_WIN"),
    (46, "RmaPut", "c32:window@RMA_WIN c32:remote c64:sent c64:matching"),
    (47, "RmaGet", "c32:window@RMA_WIN c32:remote c64:received c64:matching"),
    (48, "RmaAtomic", "c32:window@RMA_WIN c32:remote u8:atomic c64:sent c64:received c64:matching"),
    (49, "RmaOpCompleteBlocking", "c32:window@RMA_WIN c64:matching"),
    (50, "RmaOpCompleteNonBlocking", "c32:window@RMA_WIN c64:matching"),
    (51, "RmaOpTest", "c32:window@RMA_WIN c64:matching"),
    (52, "RmaOpCompleteRemote", "c32:window@RMA_WIN c64:matching"),
    (53, "ThreadFork", "u8:model c32:requested"),
    (54, "ThreadJoin", "u8:model"),
    (55, "ThreadTeamBegin", "c32:team@COMM"),
    (56, "ThreadTeamEnd", "c32:team@COMM"),
    (57, "ThreadAcquireLock", "u8:model c32:lock c32:acquisition"),
    (58, "ThreadReleaseLock", "u8:model c32:lock c32:acquisition"),
    (59, "ThreadTaskCreate", "c32:team@COMM c32:creator c32:generation"),
    (60, "ThreadTaskSwitch", "c32:team@COMM c32:creator c32:generation"),
    (61, "ThreadTaskComplete", "c32:team@COMM c32:creator c32:generation"),
    (62, "ThreadCreate", "c32:team@COMM c64:sequence"),
    (63, "ThreadBegin", "c32:team@COMM c64:sequence"),
    (64, "ThreadWait", "c32:team@COMM c64:sequence"),
    (65, "ThreadEnd", "c32:team@COMM c64:sequence"),
    (66, "CallingContextEnter", "c32:calling_context@CALLING_CONTEXT c32:unwind"),
    (67, "CallingContextLeave", "c32:calling_context@CALLING_CONTEXT"),
    (
        68,
        "CallingContextSample",
        "c32:calling_context@CALLING_CONTEXT c32:unwind c32:interrupt_generator@INTERRUPT_GENERATOR",
    ),
    (69, "IoCreateHandle", "c32:handle@IO_HANDLE u8:mode c32:creation_flags c32:status_flags"),
    (70, "IoDestroyHandle", "c32:handle@IO_HANDLE"),
    (71, "IoDuplicateHandle", "c32:handle@IO_HANDLE c32:new_handle@IO_HANDLE c32:status_flags"),
    (72, "IoSeek", "c32:handle@IO_HANDLE s64:offset u8:whence c64:position"),
    (73, "IoChangeStatusFlags", "c32:handle@IO_HANDLE c32:status_flags"),
    (74, "IoDeleteFile", "u8:paradigm c32:file@IO_FILE"),
    (75, "IoOperationBegin", "c32:handle@IO_HANDLE u8:mode c32:operation_flags c64:requested c64:matching"),
    (76, "IoOperationTest", "c32:handle@IO_HANDLE c64:matching"),
    (77, "IoOperationIssued", "c32:handle@IO_HANDLE c64:matching"),
    (78, "IoOperationComplete", "c32:handle@IO_HANDLE c64:result c64:matching"),
    (79, "IoOperationCancelled", "c32:handle@IO_HANDLE c64:matching"),
    (80, "IoAcquireLock", "c32:handle@IO_HANDLE u8:lock_type"),
    (81, "IoReleaseLock", "c32:handle@IO_HANDLE u8:lock_type"),
    (82, "IoTryLock", "c32:handle@IO_HANDLE u8:lock_type"),
    (83, "ProgramBegin", "c32:program@STRING c32:n_arguments"),
    (84, "ProgramEnd", "s64:exit_status"),
    (85, "NonBlockingCollectiveRequest", "c64:request"),
    (86, "NonBlockingCollectiveComplete", "u8:op c32:communicator@COMM c32:root c64:sent c64:received c64:request"),
    (87, "CommCreate", "c32:communicator@COMM"),
    (88, "CommDestroy", "c32:communicator@COMM"),
    (89, "MpiProbe", "c32:peer c32:communicator@COMM c32:tag c64:message"),
    (90, "MpiMrecv", "c64:message c64:length"),
    (91, "MpiImrecvRequest", "c64:message c64:request"),
    (92, "MpiImrecv", "c64:request c64:length"),
    without_length=(12, 13, 16, 17, 20, 21, 24, 28, 29, 30),
)

DEFINITION_RECORDS = _records(
    (5, "ClockProperties", "c64:timer_resolution c64:global_offset c64:trace_length ? c64:realtime_timestamp"),
    (6, "Paradigm", "u8:paradigm c32:name u8:paradigm_class"),
    (7, "ParadigmProperty", "u8:paradigm u8:property value:value"),
    (8, "IoParadigm", "u8:self c32:identification c32:name u8:io_paradigm_class c32:io_paradigm_flags"),
    (10, "String", "c32:self str:string"),
    (11, "Attribute", "c32:self@ATTRIBUTE c32:name@STRING u8:type@VALUE_TYPES ? c32:description@STRING"),
    (
        12,
        "SystemTreeNode",
        "c32:self@SYSTEM_TREE_NODE c32:name@STRING c32:class_name@STRING c32:parent@SYSTEM_TREE_NODE",
    ),
    (
        13,
        "LocationGroup",
        "c32:self c32:name u8:location_group_type c32:system_tree_parent ? c32:creating_location_group",
    ),
    (14, "Location", "c64:self c32:name u8:location_type c64:number_of_events c32:location_group"),
    (
        15,
        "Region",
        "c32:self c32:name c32:description u8:region_type c32:source_file c32:begin_line_number c32:end_line_number "
        "? c32:canonical_name u8:region_role u8:paradigm c32:region_flags",
    ),
    (16, "Callsite", "c32:self c32:source_file c32:line_number c32:entered_region c32:left_region"),
    (17, "Callpath", "c32:self c32:parent c32:region"),
    (
        18,
        "Group",
        "c32:self c32:name u8:group_type_pre12 c32:number_of_members c64*:members ? u8:group_type u8:paradigm "
        "c32:group_flags",
    ),
    (
        19,
        "MetricMember",
        "c32:self@METRIC_MEMBER c32:name@STRING c32:description@STRING u8:metric_type@METRIC_TYPES "
        "u8:metric_mode@METRIC_MODES u8:value_type@METRIC_DTYPES u8:base s64:exponent c32:unit@STRING",
    ),
    (20, "MetricClass", "c32:self u8:number_of_metrics c32*:metric_members u8:metric_occurrence ? u8:recorder_kind"),
    (21, "MetricInstance", "c32:self c32:metric_class c64:recorder u8:metric_scope c64:scope"),
    (22, "Comm", "c32:self c32:name c32:group c32:parent ? c32:flags"),
    (23, "Parameter", "c32:self@PARAMETER c32:name@STRING u8:parameter_type@PARAMETER_TYPES"),
    (24, "RmaWin", "c32:self@RMA_WIN c32:name@STRING c32:comm@COMM ? c32:flags"),
    (25, "MetricClassRecorder", "c32:metric c64:recorder"),
    (26, "SystemTreeNodeProperty", "c32:of c32:name c32:string_value ? value:value"),
    (27, "SystemTreeNodeDomain", "c32:of u8:domain"),
    (28, "LocationGroupProperty", "c32:of c32:name c32:string_value ? value:value"),
    (29, "LocationProperty", "c64:of c32:name c32:string_value ? value:value"),
    (30, "CartDimension", "c32:self c32:name c32:size u8:cart_periodicity"),
    (31, "CartTopology", "c32:self c32:name c32:communicator u8:number_of_dimensions c32*:cart_dimensions"),
    (32, "CartCoordinate", "c32:cart_topology c32:rank u8:number_of_dimensions c32*:coordinates"),
    (33, "SourceCodeLocation", "c32:self@SCL c32:file@STRING c32:line_number"),
    (
        34,
        "CallingContext",
        "c32:self@CALLING_CONTEXT c32:region@REGION c32:source_code_location@SCL c32:parent@CALLING_CONTEXT",
    ),
    (35, "CallingContextProperty", "c32:of c32:name value:value"),
    (
        36,
        "InterruptGenerator",
        "c32:self@INTERRUPT_GENERATOR c32:name@STRING u8:mode@INTERRUPT_MODES u8:base s64:exponent c64:period",
    ),
    (37, "IoFileProperty", "c32:of c32:name value:value"),
    (38, "IoRegularFile", "c32:self c32:name c32:scope"),
    (39, "IoDirectory", "c32:self c32:name c32:scope"),
    (
        40,
        "IoHandle",
        "c32:self@IO_HANDLE c32:name@STRING c32:file@IO_FILE u8:io_paradigm c32:io_handle_flags c32:comm@COMM "
        "c32:parent@IO_HANDLE",
    ),
    (41, "IoPreCreatedHandleState", "c32:io_handle u8:mode c32:status_flags"),
    (42, "CallpathParameter", "c32:callpath c32:parameter value:value"),
    (43, "InterComm", "c32:self c32:name c32:group_a c32:group_b c32:common_communicator c32:flags"),
)

DEFINED = {record.name: record for record in DEFINITION_RECORDS}
"""Records of definitions by name."""

STORED = {
    "system_tree_nodes": ("SystemTreeNode", ("name", "class_name", "parent")),
    "metric_members": (
        "MetricMember", ("name", "description", "type", "mode", "value_type", "base", "exponent", "unit"),
    ),
    "attribute_definitions": ("Attribute", ("name", "type", "description")),
    "parameter_definitions": ("Parameter", ("name", "type")),
    "windows": ("RmaWin", ("name", "communicator", "flags")),
    "source_code_locations": ("SourceCodeLocation", ("file", "line")),
    "calling_contexts": ("CallingContext", ("region", "source_code_location", "parent")),
    "interrupt_generators": ("InterruptGenerator", ("name", "mode", "base", "exponent", "period")),
    "io_handles": ("IoHandle", ("name", "file", "paradigm", "flags", "communicator", "parent")),
}  # fmt: skip
"""Definition tables of the store whose rows are the records of one type: its name, and the columns that its fields
after the identifier fill, in order."""

SMALL_TABLES = [name for name in STORED if name not in ("system_tree_nodes", "metric_members", "io_handles")]
"""Those of them that are read and written one after the other; tables that others refer to come first."""

MARKER_RECORDS = _records(
    (5, "DefMarker", "c32:self str:marker_group str:marker_category u8:severity"),
    (6, "Marker", "c64:timestamp c64:duration c32:marker u8:scope c64:scope_ref str:text"),
)
"""Records of marker files."""

LOCAL_RECORDS = _records(
    (5, "MappingTable", "u8:mapping_type idmap:id_map"), (6, "ClockOffset", "ts:time s64:offset f64:standard_deviation")
)
"""Records of the definition files of locations."""
