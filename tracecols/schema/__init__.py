"""What exists in a store: event kinds, tables, columns, as data."""

from tracecols.schema.columns import Column, Table
from tracecols.schema.kinds import FAMILIES, KINDS, NAMES, EventKind, Kind, not_analysed
from tracecols.schema.tables import DEFINITIONS, EVENTS, FORMAT_VERSION, SIDE_TABLES, metric_table

__all__ = [
    "DEFINITIONS",
    "EVENTS",
    "FAMILIES",
    "FORMAT_VERSION",
    "KINDS",
    "NAMES",
    "SIDE_TABLES",
    "Column",
    "EventKind",
    "Kind",
    "Table",
    "metric_table",
    "not_analysed",
]
