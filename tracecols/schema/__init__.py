"""The contents of a store, declared as data: event kinds, tables, columns."""

from tracecols.schema.columns import Column, Table
from tracecols.schema.kinds import FAMILIES, KINDS, NAMES, EventKind, not_analysed
from tracecols.schema.tables import DEFINITIONS, EVENTS, FORMAT_VERSION, MANIFEST_ENTRIES, SIDE_TABLES, metric_table
from tracecols.schema.versions import Version, version_of

__all__ = [
    "DEFINITIONS",
    "EVENTS",
    "FAMILIES",
    "FORMAT_VERSION",
    "KINDS",
    "MANIFEST_ENTRIES",
    "NAMES",
    "SIDE_TABLES",
    "Column",
    "EventKind",
    "Table",
    "Version",
    "metric_table",
    "not_analysed",
    "version_of",
]
