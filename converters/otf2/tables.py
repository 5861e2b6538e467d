"""The field tables of the decoding kernels, made from the declared records."""

from __future__ import annotations

import numpy as np

from tracecols.converters.otf2 import decode
from tracecols.converters.otf2.records import (
    DEFINITION_RECORDS,
    EVENT_RECORDS,
    LOCAL_RECORDS,
    MAPS,
    MARKER_RECORDS,
    VALUE_MAPS,
    Record,
)
from tracecols.converters.sides import side_columns
from tracecols.schema import KINDS, EventKind

_TYPES = {
    "u8": decode.U8, "c32": decode.C32, "c64": decode.C64, "s64": decode.S64, "ts": decode.TS, "f64": decode.F64,
    "str": decode.STR, "u8*": decode.U8S, "c32*": decode.C32S, "c64*": decode.C64S, "idmap": decode.IDMAP,
    "value": decode.VALUE,
}  # fmt: skip


def _event_tables() -> decode.EventTables:
    has_length = np.ones(256, np.uint8)
    n_fields = np.full(256, decode.UNKNOWN_RECORD, np.uint8)
    field_type = np.zeros((256, 8), np.uint8)
    field_map = np.full((256, 8), decode.NO_MAP, np.uint8)
    value_map = np.full(256, decode.NO_MAP, np.uint8)
    for record in EVENT_RECORDS:
        has_length[record.code] = record.has_length
        n_fields[record.code] = len(record.fields)
        for i, field in enumerate(record.fields):
            field_type[record.code, i] = _TYPES[field.type]
            if field.map:
                field_map[record.code, i] = MAPS.index(field.map)
    for code, name in VALUE_MAPS.items():
        value_map[code] = MAPS.index(name)
    return decode.EventTables(has_length, n_fields, field_type, field_map, value_map)


def _definition_tables(records: tuple[Record, ...]) -> decode.DefinitionFields:
    n_fields = np.full(256, decode.UNKNOWN_RECORD, np.uint8)
    field_type = np.zeros((256, 12), np.uint8)
    optional_from = np.full(256, 255, np.uint8)
    for record in records:
        n_fields[record.code] = len(record.fields)
        for i, field in enumerate(record.fields):
            field_type[record.code, i] = _TYPES[field.type]
        optional = [i for i, field in enumerate(record.fields) if field.optional]
        if optional:
            optional_from[record.code] = optional[0]
    return decode.DefinitionFields(n_fields, field_type, optional_from)


EVENTS = _event_tables()
GLOBAL = _definition_tables(DEFINITION_RECORDS)
LOCAL = _definition_tables(LOCAL_RECORDS)
MARKERS = _definition_tables(MARKER_RECORDS)


_KNOWN = {int(k) for k in KINDS}
SIDE_COLUMNS = side_columns({EventKind(r.code): [f.name for f in r.fields] for r in EVENT_RECORDS if r.code in _KNOWN})
