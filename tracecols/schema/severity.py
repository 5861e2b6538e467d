"""The tables of a severity cube on disk."""

from __future__ import annotations

from tracecols.schema.columns import Column, by_name, reference, table, ticks
from tracecols.schema.properties import PARTS
from tracecols.schema.versions import Version

DEFAULT = "exact"
"""The default conventions of an analysis."""

CONVENTIONS = {
    "scalasca": "Scalasca 2",
    "expert": "EXPERT 3.0",
    "exact": "Scalasca 2 without its peculiarities in root causes, docs/root-causes.md",
}
"""Conventions that can be followed: name, and the analyser that has these rules."""

AGGREGATIONS = {
    "sum": "the sum over properties below it, call paths and locations",
    "min": "the least value over call paths and locations",
    "max": "the greatest value over call paths and locations",
    "min_inclusive": "the least value over locations; that of a call path includes what it calls",
    "max_inclusive": "the greatest value over locations; that of a call path includes what it calls",
    "computed": "computed from what the values of other properties come together to",
}
"""Meaning of a value of several call paths or locations. Extremes come from profiles of other tools, and do not add
up."""

FORMAT_VERSION = Version(5, 4)

OLDEST_MAJOR = 4
"""The oldest major version that can be read: later columns and tables declare their version (`Column.since`)."""

MANIFEST_ENTRIES = (
    "format",
    "version",
    "minor_version",
    "checksum",
    "float_properties",
    "facts",
    "periods",
    "has_outside",
)
"""The entries of a manifest of this version."""

PERIOD_TABLES = ("periods", "period_cells")
"""Tables of cubes that are divided by phases or bins; other cubes lack them."""

CELL = (
    reference("property", "properties", "property", required=True),
    reference("call_path", "call_paths", "call path", required=True),
    reference("location", "locations", "location", required=True),
)
"""Columns that all tables of values begin with."""

SEVERITY_TABLES = by_name(
    table(
        "properties",
        "one property, in depth-first order",
        Column("id", "string", "name the field's tools use"),
        Column("parent", "string", "id of the property above; empty for roots"),
        Column("title", "string", "name for people"),
        Column("unit", "string", "sec, occ, bytes, or a counter's own"),
        Column("summary", "string", "what it means"),
        Column("advice", "string", "what to do about it"),
        Column("confidence", "float64", "how reliably a match proves the behaviour, 0 to 1", low=0, high=1),
        Column("overlaps", "int8", "1 if it may hold for the same time as its siblings", low=0, high=1),
        Column(
            "aggregation", "string", f"how values come together: {', '.join(AGGREGATIONS)}", since=(5, 0), default="sum"
        ),
        Column(
            "is_wait",
            "int8",
            "1 if it is time in which a location waits for another; null not known",
            since=(5, 2),
            nullable=True,
        ),
        Column("delay", "string", "property whose costs say who causes it; empty: as of a wait above", since=(5, 3)),
        Column("part", "string", f"as what its values count: {', '.join(PARTS)}", since=(5, 3)),
        Column(
            "is_heading",
            "int8",
            "1 if titles of findings do without its title; null not known, as are then `delay` and `part`",
            since=(5, 3),
            nullable=True,
        ),
        Column("is_estimate", "int8", "1 if its parts may exceed it in a cell", since=(5, 3), default=0, low=0, high=1),
        Column("formula", "string", "what it is computed from; empty if it has cells", since=(5, 4)),
    ),
    table(
        "call_paths",
        "one call path, in depth-first order",
        reference("parent", "call_paths", "call path above"),
        Column("depth", "int32", "0 for roots", low=0),
        Column("end", "int64", "one past the last call path below", low=1),
        Column("name", "string", "name of the region entered"),
        Column("role", "string", "its role"),
        Column("paradigm", "string", "its paradigm"),
        Column("file", "string", "its source file"),
        Column("line", "int64", "its first source line; 0 unknown"),
        Column("call_site", "string", "file and line of the call; empty unknown"),
        Column("end_line", "int64", "last source line of the region; 0 unknown", since=(5, 0), default=0),
    ),
    table(
        "system",
        "one node of the system tree, in depth-first order",
        Column("kind", "string", "machine, node, ..., process, thread"),
        Column("name", "string", "name"),
        reference("parent", "system", "node above"),
        reference("location", "locations", "location of a thread"),
    ),
    table(
        "locations",
        "one location",
        Column("rank", "int32", "rank of its process", "rank"),
        Column("thread", "int32", "number in its process"),
        Column("name", "string", "name"),
        Column("type", "string", "`LocationType`"),
    ),
    table(
        "topologies",
        "one Cartesian topology",
        Column("name", "string", "name"),
        Column("is_artificial", "int8", "1 if it only counts processes and threads", low=0, high=1),
    ),
    table(
        "topology_dimensions",
        "one dimension of a topology",
        reference("topology", "topologies", "topology", required=True),
        Column("name", "string", "name"),
        Column("size", "int64", "size; 0 unknown", low=0, high=(1 << 32) - 1),
        Column("is_periodic", "int8", "1 if it wraps around", low=0, high=1),
    ),
    table(
        "topology_positions",
        "one coordinate of a location in a topology; the dimension runs fastest",
        reference("topology", "topologies", "topology", required=True),
        reference("location", "locations", "location", required=True),
        Column("coordinate", "int64", "coordinate, from 0", low=0, high=(1 << 32) - 1),
    ),
    table(
        "cells",
        "one value that is not zero, ordered by property, call path and location",
        *CELL,
        Column(
            "value", "int64", "ticks, occurrences, bytes; the bits of a float64 for counters that are floating point"
        ),
    ),
    table(
        "periods",
        "one phase or bin of time, in order; only of cubes that are divided by them",
        ticks("begin_time", "when the first location begins the phase; when the bin begins"),
        ticks("end_time", "when the last location ends the phase; when the bin ends"),
        Column("n_locations", "int32", "number of locations that have the phase; of a bin all", low=0),
        since=(5, 1),
    ),
    table(
        "period_cells",
        "one value that is not zero, ordered by property, call path, location and period; sums over periods "
        "are `cells`",
        *CELL,
        reference("period", "periods", "phase or bin; null outside of all phases"),
        Column("value", "int64", "as in `cells`"),
        since=(5, 1),
    ),
    table(
        "outside_cells",
        "one value that is not zero of what lies outside of the focus of the run, ordered as `period_cells`; "
        "`cells` include it",
        *CELL,
        reference("period", "periods", "phase or bin; null outside of all phases, or if there are none"),
        Column("value", "int64", "as in `cells`"),
        since=(5, 3),
    ),
)
