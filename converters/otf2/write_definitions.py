"""Global definitions of an archive to write, from the tables of the store: the inverse of `definitions`."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from typing import Any

from tracecols.converters.base import Clock
from tracecols.converters.otf2.definitions import GLOBAL_MEMBERS
from tracecols.converters.otf2.records import DEFINED, SMALL_TABLES, STORED, Record
from tracecols.schema import enums

UNDEFINED = -1
# records that others refer to come first: record types are numbered in that order, with these exceptions
_ORDER: dict[str, float] = {r.name: r.code for r in DEFINED.values()} | {"String": 5.5, "InterComm": 22.5}

_LISTS = ("comm_locations", "comm_location_groups")
_SCOPE_TABLES = {
    "location": "locations", "location_group": "processes", "system_tree_node": "system_tree_nodes", "group": "groups",
}  # fmt: skip
_PROPERTY_RECORDS = {
    "system_tree_nodes": "SystemTreeNodeProperty", "processes": "LocationGroupProperty",
    "locations": "LocationProperty",
}  # fmt: skip
_FOLLOWED = {
    "Paradigm": {"name": "strings"},
    "IoParadigm": {"identification": "strings", "name": "strings"},
    "SystemTreeNodeDomain": {"of": "system_tree_nodes"},
}
"""Definitions without a table of their own that are written nevertheless, and the tables that their fields refer to."""

_MADE = ("MEASUREMENT OFF", "TRACE BUFFER FLUSH", "PROGRAM")
"""Regions that the reader adds to archives without them; those it added are written only if events enter them."""


def compressed(value: int, size: int) -> bytes:
    """Encode an integer of `size` bytes: the number of significant bytes, then these; -1 is UNDEFINED."""
    value &= (1 << 8 * size) - 1
    if value == (1 << 8 * size) - 1:
        return b"\xff"
    n = (value.bit_length() + 7) // 8
    return bytes([n]) + value.to_bytes(n, "little")


def framed(code: int, payload: bytes) -> bytes:
    """Put type and length in front of a record."""
    n = len(payload)
    return bytes([code]) + (bytes([n]) if n < 255 else b"\xff" + struct.pack("<Q", n)) + payload


def encode_field(of: str, value: Any) -> bytes:
    """Encode one field of a definition record."""
    match of:
        case "u8":
            return bytes([value & 0xFF])
        case "c32":
            return compressed(value, 4)
        case "c64" | "s64":
            return compressed(value, 8)
        case "str":
            return str(value).encode("utf-8", "surrogateescape") + b"\0"
        case "u8*" | "c32*" | "c64*":
            return b"".join([encode_field(of[:-1], v) for v in value])
        case "value":
            # texts only: the store has no other values
            return b"\x0b" + compressed(value, 4)
    raise ValueError(f"no field type {of}")


def encode_record(record: Record, values: tuple[Any, ...], tail: bytes = b"") -> bytes:
    """Encode a definition record from all its fields, followed by `tail`; the count of a list is filled in."""
    fields = record.fields
    body = [
        encode_field(
            f.type, len(values[i + 1]) if i + 1 < len(fields) and fields[i + 1].type.endswith("*") else values[i]
        )
        for i, f in enumerate(fields)
    ]
    return framed(record.code, b"".join(body) + tail)


def number_of(names: tuple[str, ...] | dict[int, str], name: str) -> int:
    """Return the number of an enumerator; the name of an unknown one is its number."""
    known = names if isinstance(names, dict) else dict(enumerate(names))
    return next(
        (number for number, known_name in known.items() if known_name == name), int(name) if name.isdigit() else 0
    )


class GlobalDefinitions:
    """The records of the global definitions; rows of tables become identifiers.

    Parameters
    ----------
    definitions : dict of str to dict of str to list
        Columns of every table in `tracecols.schema.DEFINITIONS`.
    n_events : list of int
        Number of events of every location, as they were written.
    largest_region : int
        Largest row of a region that events enter or leave.

    Attributes
    ----------
    records : list of bytes
        Encoded records; those that others refer to come first.
    left_out : dict of str to int
        Number of items that OTF2 has no record for, by name.
    """

    def __init__(
        self, definitions: dict[str, dict[str, list[Any]]], clock: Clock, n_events: list[int], largest_region: int
    ) -> None:
        self._tables = definitions
        self._records: dict[str, list[bytes]] = {name: [] for name in DEFINED}
        self.left_out: dict[str, int] = defaultdict(int)
        self._strings: list[str] = list(definitions["strings"]["string"])
        self._string_row: dict[str, int] = {}
        for row, text in enumerate(self._strings):
            self._string_row.setdefault(text, row)
        self._add("ClockProperties", clock.resolution, clock.origin, clock.length, clock.realtime)
        self._system(n_events)
        self._regions(largest_region)
        self._groups()
        self._metrics()
        self._topologies()
        self._small_tables()
        self._properties()
        for row, text in enumerate(self._strings):
            self._add("String", row, text)
        self._others()
        if definitions["call_sites"]["file"]:
            self.left_out["call sites"] = len(definitions["call_sites"]["file"])
        if n_nccl := sum(definitions[name]["paradigm"].count(enums.NCCL) for name in ("regions", "communicators")):
            self.left_out["regions and communicators of NCCL, RCCL or oneCCL, whose waits are not found there"] = n_nccl
        self.records = [r for name in sorted(DEFINED, key=_ORDER.__getitem__) for r in self._records[name]]

    def _add(self, name: str, *values: Any) -> None:
        self._records[name].append(encode_record(DEFINED[name], values))

    def _text(self, text: str) -> int:
        """Return the identifier of a text, adding it if need be; UNDEFINED for an empty one that is not defined."""
        if text not in self._string_row:
            if not text:
                return UNDEFINED
            self._string_row[text] = len(self._strings)
            self._strings.append(text)
        return self._string_row[text]

    def _rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = self._tables[table]
        return [(i, *row) for i, row in enumerate(zip(*(found[c] for c in columns), strict=True))]

    def _system(self, n_events: list[int]) -> None:
        self._stored("system_tree_nodes")
        for i, name, of, node, creator in self._rows("processes", "name", "type", "node", "creator"):
            number = number_of(enums.LOCATION_GROUP_TYPES, of)
            self._add("LocationGroup", i, self._text(name), number, node, creator)
        for i, name, of, process in self._rows("locations", "name", "type", "process"):
            self._add("Location", i, self._text(name), number_of(enums.LOCATION_TYPES, of), n_events[i], process)

    def _regions(self, largest_region: int) -> None:
        columns = "id name description file begin_line end_line canonical_name role paradigm flags"
        rows = self._rows("regions", *columns.split())
        while rows and rows[-1][1] == -1 and rows[-1][2] in _MADE and len(rows) - 1 > largest_region:
            rows.pop()
        for i, _, name, description, file, begin, end, canonical, role, paradigm, flags in rows:
            texts = self._text(name), self._text(description), 0, self._text(file)
            kinds = number_of(enums.REGION_ROLES, role), number_of(enums.PARADIGMS, paradigm)
            self._add("Region", i, *texts, begin, end, self._text(canonical), *kinds, flags)

    def _groups(self) -> None:
        rows = self._rows("groups", "name", "type", "paradigm", "flags", "members")
        communicators = self._rows(
            "communicators", "name", "kind", "paradigm", "parent", "flags", "members", "remote_members"
        )
        # groups by what communicators record of them (kind, paradigm, members): they are looked up, or added
        found: dict[tuple[Any, ...], int] = {}

        def enlist(row: int, of: str, paradigm: str, members: list[int]) -> None:
            shown = () if of == "comm_self" else tuple(members)
            own = {"comm_self": "self", "comm_group": "group"}.get(of, "locations")
            for kind in (own, "any") if of not in ("regions", "metric", "unknown") else (f"other {own}",):
                found.setdefault((kind, paradigm, shown), row)
                found.setdefault((kind, None, shown), row)

        for i, _, of, paradigm, _, members in rows:
            enlist(i, of, paradigm, members)

        def group_of(kind: str, paradigm: str | None, members: list[int]) -> int:
            for key in ((kind, paradigm, tuple(members)), (f"other {kind}", paradigm, tuple(members))):
                if key in found:
                    return found[key]
            if kind == "locations" and paradigm == "unknown" and not members:
                return UNDEFINED
            of = {"self": "comm_self", "locations": "locations"}.get(kind, "comm_group")
            rows.append((len(rows), "", of, paradigm or "unknown", 0, members))
            enlist(len(rows) - 1, of, paradigm or "unknown", members)
            return len(rows) - 1

        for i, name, kind, paradigm, parent, flags, members, remote in communicators:
            if kind == "inter":
                groups = group_of("any", paradigm, members), group_of("any", None, remote)
                self._add("InterComm", i, self._text(name), *groups, parent, flags)
            else:
                self._add("Comm", i, self._text(name), group_of(kind, paradigm, members), parent, flags)

        self._put_groups(rows)

    def _put_groups(self, rows: list[tuple[Any, ...]]) -> None:
        """Write the groups of the store and those that were added: row, name, type, paradigm, flags, members. Members
        of communicators become ranks in the list of locations of their paradigm."""
        listed = {paradigm: members for _, _, of, paradigm, _, members in rows if of in _LISTS}
        for paradigm in dict.fromkeys(r[3] for r in rows if r[2] == "comm_group"):
            if paradigm not in listed:
                listed[paradigm] = self._listed(paradigm, rows)
                rows.append((len(rows), "", "comm_locations", paradigm, 0, listed[paradigm]))
        # members missing in a list are appended to it, so that ranks in it do not change
        lacking: dict[str, list[int]] = {}
        for paradigm, members in listed.items():
            known = set(members)
            used = dict.fromkeys(m for r in rows if r[2:4] == ("comm_group", paradigm) for m in r[5])
            lacking[paradigm] = [m for m in used if m not in known]
            listed[paradigm] = [*members, *lacking[paradigm]]
        rank = {p: {m: k for k, m in reversed(list(enumerate(members)))} for p, members in listed.items()}
        # ranks refer to the lists, so lists that were added come first
        n = len(self._tables["groups"]["id"])
        rows.sort(key=lambda r: not (r[0] >= n and r[2] == "comm_locations"))
        for i, name, of, paradigm, flags, members in rows:
            if of in _LISTS:
                members = [*members, *lacking[paradigm]]
            # ranks in events are ranks in their communicators
            flags &= ~GLOBAL_MEMBERS
            if of == "comm_group":
                members = [rank[paradigm][m] for m in members]
            elif of == "comm_location_groups":
                members = self._processes(members)
            kind, model = number_of(enums.GROUP_TYPES, of), number_of(enums.PARADIGMS, paradigm)
            self._add("Group", i, self._text(name), 0, len(members), members, kind, model, flags)

    def _listed(self, paradigm: str, rows: list[tuple[Any, ...]]) -> list[int]:
        """Return the list of locations that ranks of a paradigm refer to, if the source has none."""
        used = {m for r in rows if r[2:4] == ("comm_group", paradigm) for m in r[5]}
        if paradigm != "mpi":
            return sorted(used)
        # for MPI, the first thread of every process, in the order of processes
        masters: dict[int, int] = {}
        for location, p in enumerate(self._tables["locations"]["process"]):
            masters.setdefault(p, location)
        return [masters[p] for p in sorted(masters)]

    def _processes(self, members: list[int]) -> list[int]:
        """Return the processes whose first locations are given; -1 for a process that has none."""
        process = self._tables["locations"]["process"]
        empty = iter(sorted(set(range(len(self._tables["processes"]["id"]))) - set(process)))
        return [process[m] if m >= 0 else next(empty, UNDEFINED) for m in members]

    def _metrics(self) -> None:
        self._stored("metric_members")
        for i, members, occurrence, recorder in self._rows("metric_classes", "members", "occurrence", "recorder_kind"):
            number = number_of(enums.METRIC_OCCURRENCES, occurrence)
            self._add("MetricClass", i, len(members), members, number, number_of(enums.RECORDER_KINDS, recorder))
        n_classes = len(self._tables["metric_classes"]["id"])
        row_of = {
            scope: {v % (1 << 64): i for i, v in enumerate(self._tables[table]["id"])}
            for scope, table in _SCOPE_TABLES.items()
        }
        columns = ("metric_class", "recorder", "scope", "scope_id")
        for i, of, recorder, scope, scope_id in self._rows("metric_sources", *columns)[n_classes:]:
            about = row_of.get(scope, {}).get(scope_id % (1 << 64), scope_id)
            self._add("MetricInstance", i, of, recorder, number_of(enums.METRIC_SCOPES, scope), about)

    def _topologies(self) -> None:
        axes: dict[tuple[str, int, int], int] = {}
        columns = ("name", "communicator", "dimensions", "sizes", "periodic")
        unplaced = set()
        for i, name, communicator, *dimensions in self._rows("topologies", *columns):
            if communicator < 0:
                self.left_out["topologies without a communicator"] += 1
                unplaced.add(i)
                continue
            mine = []
            for axis in zip(*dimensions, strict=True):
                if axis not in axes:
                    axes[axis] = len(axes)
                    self._add("CartDimension", axes[axis], self._text(axis[0]), *axis[1:])
                mine.append(axes[axis])
            self._add("CartTopology", i, self._text(name), communicator, len(mine), mine)
        for _, of, rank, coordinates in self._rows("topology_coordinates", "topology", "rank", "coordinates"):
            if of in unplaced:
                continue
            if rank < 0:
                self.left_out["coordinates of locations without a rank"] += 1
            else:
                self._add("CartCoordinate", of, rank, len(coordinates), coordinates)

    def _stored(self, table: str) -> None:
        """Write a table whose rows are the records of one type (`records.STORED`)."""
        record, columns = STORED[table]
        fields = DEFINED[record].fields[1:]
        for i, *row in self._rows(table, *columns):
            for k, field in enumerate(fields):
                if field.map == "STRING":
                    row[k] = self._text(row[k])
                elif field.enumeration is not None:
                    row[k] = number_of(field.enumeration, row[k])
            self._add(record, i, *row)

    def _small_tables(self) -> None:
        for table in SMALL_TABLES:
            self._stored(table)
        for i, name, of, scope in self._rows("io_files", "name", "type", "scope"):
            self._add("IoDirectory" if of == "directory" else "IoRegularFile", i, self._text(name), scope)
        self._stored("io_handles")

    def _others(self) -> None:
        """Write definitions without a table of their own whose identifiers are known; count the others."""
        rows = {t: {v: i for i, v in enumerate(self._tables[t]["id"])} for t in ("strings", "system_tree_nodes")}
        for _, name, text in self._rows("other_definitions", "record", "values"):
            references, values = _FOLLOWED.get(name), json.loads(text)
            followed = {f: rows[table].get(values.get(f), UNDEFINED) for f, table in (references or {}).items()}
            if references is None or UNDEFINED in followed.values():
                self.left_out[f"definitions {name}"] += 1
                continue
            # the reader keeps no properties of I/O paradigms
            tail = b"\0" if name == "IoParadigm" else b""
            self._records[name].append(encode_record(DEFINED[name], tuple((values | followed).values()), tail))

    def _properties(self) -> None:
        for _, table, of, name, value in self._rows("properties", "table", "of", "name", "value"):
            if table in _PROPERTY_RECORDS:
                # an empty text, too, has to be one
                text = self._text(value)
                self._add(_PROPERTY_RECORDS[table], of, self._text(name), text, text)
            else:
                self.left_out[f"properties of {table}"] += 1
