"""Global definitions of an archive: read as OTF2 records, turned into the tables of the store."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Clock, text_of
from tracecols.converters.definition_tables import DefinitionTables
from tracecols.converters.nccl import communicates
from tracecols.converters.otf2 import attic, decode, tables
from tracecols.converters.otf2.files import HEADER, Chunks, explain
from tracecols.converters.otf2.records import (
    DEFINED,
    DEFINITION_RECORDS,
    MAPS,
    MARKER_RECORDS,
    SMALL_TABLES,
    STORED,
    Record,
)
from tracecols.converters.threads import UNKNOWN, number_threads
from tracecols.distinct import distinct
from tracecols.errors import SourceError
from tracecols.schema import enums

DEVICES = ("cuda", "hip", "unknown")
"""Paradigms that recorders assign to kernels."""

UNDEFINED = 0xFFFFFFFF
_NULLS = (UNDEFINED, -1)
GLOBAL_FILE = tables.GLOBAL, {r.code: r for r in DEFINITION_RECORDS}
MARKER_FILE = tables.MARKERS, {r.code: r for r in MARKER_RECORDS}
"""Field tables and records, by code, of definition files and of marker files."""

# Record types that get tables of their own; the others are kept as JSON.
_TABLED = {
    "ClockProperties", "String", "Attribute", "SystemTreeNode", "LocationGroup", "Location", "Region", "Group",
    "MetricMember", "MetricClass", "MetricInstance", "Comm", "Parameter", "RmaWin", "SystemTreeNodeProperty",
    "LocationGroupProperty", "LocationProperty", "CartDimension", "CartTopology", "CartCoordinate",
    "SourceCodeLocation", "CallingContext", "InterruptGenerator", "IoRegularFile", "IoDirectory", "IoHandle",
    "InterComm",
}  # fmt: skip

GLOBAL_MEMBERS = 1
"""Flag of a group: ranks in events that use it are positions in the paradigm's list of locations, not in the group."""


def split_records(
    file: Chunks, table: decode.DefinitionFields
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], bytes]]:
    """Decode a whole definition file, chunk by chunk.

    For every chunk: type, first value and position of each record, (n, 3); the values; the bytes of the chunk, for
    texts.
    """
    result = []
    ends, at = decode.END_OF_CHUNK, HEADER
    while file.next():
        at = HEADER
        room = max(4096, 2 * file.n)
        while True:
            values = np.empty(room, np.int64)
            records = np.empty((room // 4, 3), np.int64)
            chunk = decode.Chunk(file.buffer, file.n, file.big)
            ends, n_records, n_values, stop = decode.decode_definitions(chunk, at, table, values, records)
            if ends not in (decode.END_OF_CHUNK, decode.END_OF_FILE, decode.BUFFERS_FULL):
                raise file.error(int(stop), explain(ends, 0, MAPS))
            if ends == decode.BUFFERS_FULL and n_records == 0:
                room *= 2
                continue
            result.append((records[:n_records], values[:n_values], file.buffer[: file.n].tobytes()))
            at = int(stop)
            if ends != decode.BUFFERS_FULL:
                break
        if ends == decode.END_OF_FILE:
            break
    if ends != decode.END_OF_FILE:
        raise file.error(file.n, "the file ends before its end-of-file record", "it is cut off; copy the archive again")
    file.check_end(at)
    return result


def _value_width(record: Record) -> int:
    """Number of values of a record; 0 if it varies."""
    widths = {"str": 2, "value": 2, "idmap": 0, "u8*": 0, "c32*": 0, "c64*": 0}
    each = [widths.get(f.type, 1) for f in record.fields]
    return 0 if 0 in each else sum(each)


def read_records(
    path: Path, chunk_size: int, of: tuple[decode.DefinitionFields, dict[int, Record]] = GLOBAL_FILE
) -> tuple[dict[str, dict[str, list[Any]]], int]:
    """Read the raw records of a definition file (`GLOBAL_FILE` or `MARKER_FILE`): for each record type a list per
    field; also return the number of records."""
    table, by_code = of
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    n = 0
    with Chunks(path, chunk_size) as file:
        chunks = split_records(file, table)
    for records, values, text in chunks:
        n += len(records)
        for code in distinct(records[:, 0]).tolist():
            starts = records[records[:, 0] == code, 1]
            record = by_code.get(code)
            if record is None:
                found[f"type {code}"]["bytes"] += values[starts + 1].tolist()
                continue
            columns = found[record.name]
            width = _value_width(record)
            if width:
                matrix = values[starts[:, None] + np.arange(width)].T.tolist()
                at = 0
                for field in record.fields:
                    if field.type == "str":
                        places = zip(matrix[at], matrix[at + 1], strict=True)
                        columns[field.name] += [text_of(text[p : p + m]) for p, m in places]
                        at += 2
                    elif field.type == "value":
                        columns[field.name] += list(zip(matrix[at], matrix[at + 1], strict=True))
                        at += 2
                    else:
                        columns[field.name] += matrix[at]
                        at += 1
            else:
                flat = values.tolist()
                for at in starts.tolist():
                    for field in record.fields:
                        if field.type.endswith("*"):
                            columns[field.name].append(flat[at + 1 : at + 1 + flat[at]])
                            at += 1 + flat[at]
                        elif field.type == "value":
                            columns[field.name].append((flat[at], flat[at + 1]))
                            at += 2
                        else:
                            columns[field.name].append(flat[at])
                            at += 1
    return found, n


def read_markers(path: Path, chunk_size: int, locations: Ids) -> dict[str, list[Any]]:
    """Read the table `markers` from a marker file. Raises SourceError if the file is damaged, or the kind of a marker
    is not defined in it."""
    found, _ = read_records(path, chunk_size, MARKER_FILE)
    kinds, markers = found["DefMarker"], found["Marker"]
    kind = Ids(kinds["self"])
    of = [kind(number) for number in markers["marker"]]
    if -1 in of:
        raise SourceError(
            f"{path}: marker {of.index(-1)} is of kind {markers['marker'][of.index(-1)]}, which is not defined\n"
            "  the archive is damaged; copy it again, or remove this file"
        )
    scope = [enums.name_of(enums.MARKER_SCOPES, number) for number in markers["scope"]]
    about = list(zip(scope, markers["scope_ref"], strict=True))
    return {
        "time": markers["timestamp"],
        "duration": markers["duration"],
        "group": [kinds["marker_group"][k] for k in of],
        "category": [kinds["marker_category"][k] for k in of],
        "severity": [enums.name_of(enums.MARKER_SEVERITIES, kinds["severity"][k]) for k in of],
        "scope": scope,
        "scope_id": [-1 if what == "global" else number for what, number in about],
        "location": [locations(number) if what == "location" else -1 for what, number in about],
        "text": markers["text"],
    }


class Ids:
    """Rows of a table by identifier."""

    def __init__(self, ids: list[int]) -> None:
        self.row = {v: i for i, v in enumerate(ids)}
        self.keys = np.array(sorted(self.row), np.int64)
        self.rows = np.array([self.row[k] for k in self.keys.tolist()], np.int64)

    def __call__(self, value: int) -> int:
        return self.row.get(value, -1)


class Definitions(DefinitionTables):
    """The definition tables of the store, and the maps from identifiers of the archive to their rows.

    Attributes
    ----------
    clock : Clock
    tables : dict of str to dict of str to list
        Columns of every table in `tracecols.schema.DEFINITIONS`.
    ids : dict of str to Ids
        Rows by identifier, by kind of identifier (`records.MAPS`, nodes of the system tree, members of metric classes).
    metric_types : list of list of str
        Dtypes of the members of every metric class.
    global_ranks : dict of int to (n_listed,) int64
        For communicators (rows) whose events use positions in the paradigm's list of locations: the rank of each listed
        location in the communicator; -1 no member.
    off_region, flush_region, any_program, unknown_region : int
        Artificial regions: measurement off, buffer flush, programs that no region names, calling contexts without a
        region (-1 if there are no calling contexts).
    program_region : dict of int to int
        Region by row of the program's name.
    """

    def __init__(self, path: Path, chunk_size: int, n_expected: int) -> None:
        super().__init__()
        found, n = read_records(path, chunk_size)
        if n != n_expected:
            raise SourceError(
                f"{path} holds {n} definitions, the anchor file says {n_expected}\n"
                "  the archive is damaged or was changed; copy it again"
            )
        if "ClockProperties" not in found:
            raise SourceError(
                f"{path} has no ClockProperties\n"
                "  without the clock's resolution times have no meaning; the archive is damaged"
            )
        self.path = path
        self._found = found
        c = {k: v[0] for k, v in found["ClockProperties"].items()}
        if c["timer_resolution"] <= 0:
            raise SourceError(
                f"{path} states a clock resolution of {c['timer_resolution']} ticks per second\n"
                "  the archive is damaged"
            )
        self.clock = Clock(c["timer_resolution"], c["global_offset"], c["trace_length"], c["realtime_timestamp"])
        strings = found["String"]
        self._text = dict(zip(strings["self"], strings["string"], strict=True))
        self.ids = {name: Ids([]) for name in MAPS}
        self.global_ranks: dict[int, NDArray[np.int64]] = {}
        self.tables["strings"] = {"id": strings["self"], "string": strings["string"]}
        self.ids["STRING"] = self._ids("String")
        self._system()
        self._regions()
        self._groups()
        self.tables["locations"]["thread"] = number_threads(self.tables, None)
        self._metrics()
        self._topologies()
        self._small_tables()
        self._properties()
        for name, columns in found.items():
            if name not in _TABLED:
                for values in zip(*columns.values(), strict=True):
                    fields = json.dumps(dict(zip(columns, values, strict=True)))
                    self.add("other_definitions", record=name, values=fields)

    def _ids(self, *records: str) -> Ids:
        """Index the identifiers of one or more record types that share them."""
        ids = Ids([v for record in records for v in self._found[record]["self"]])
        if len(ids.row) != sum(len(self._found[record]["self"]) for record in records):
            raise SourceError(f"{self.path} defines an identifier of a {records[0]} twice\n  the archive is damaged")
        return ids

    def _dangling(self, record: str, number: int, field: str, value: int) -> SourceError:
        """Make the error for a reference to an undefined identifier."""
        owner = self._found[record].get("self", self._found[record].get("of"))
        which = f" {owner[number]}" if owner else ""
        return SourceError(
            f"{self.path}: {record}{which} names {field.replace('_', ' ')} {value}, which is not defined\n"
            "  the archive is damaged; copy it again"
        )

    def _refs(self, record: str, field: str, ids: Ids) -> list[int]:
        """Return the rows that a field of all records of a type refers to; -1 if it is undefined or absent."""
        values = self._found[record][field]
        rows = [ids(v) for v in values]
        for i, (row, value) in enumerate(zip(rows, values, strict=True)):
            if row < 0 and value not in _NULLS:
                raise self._dangling(record, i, field, value)
        return rows

    def _all_refs(self, record: str, field: str, number: int, values: list[int], ids: Ids) -> list[int]:
        rows = [ids(v) for v in values]
        if -1 in rows:
            raise self._dangling(record, number, field, values[rows.index(-1)])
        return rows

    def _acyclic(self, record: str, ids: list[int], parents: list[int]) -> list[int]:
        """Return the rows of parents if no row is its own ancestor."""
        seen: dict[int, int] = {}
        for row in range(len(parents)):
            at = row
            while at >= 0 and at not in seen:
                seen[at] = row
                at = parents[at]
            if at >= 0 and seen[at] == row:
                raise SourceError(
                    f"{self.path}: {record} {ids[at]} is its own ancestor\n  the archive is damaged; copy it again"
                )
        return parents

    def _texts(self, record: str, field: str = "name") -> list[str]:
        """Return the texts that a field of all records of a type names; empty if it is undefined or absent."""
        text = self._text
        values = self._found[record][field]
        for i, value in enumerate(values):
            if value not in text and value not in _NULLS:
                raise self._dangling(record, i, field, value)
        return [text.get(v, "") for v in values]

    def _stored(self, table: str) -> None:
        """Fill a table whose rows are the records of one type (`records.STORED`)."""
        record, columns = STORED[table]
        own, *fields = DEFINED[record].fields
        self.ids[own.map] = self._ids(record)
        self.tables[table] = {"id": self._found[record]["self"]}
        for column, field in zip(columns, fields, strict=True):
            values = self._found[record][field.name]
            if field.map == "STRING":
                values = self._texts(record, field.name)
            elif field.enumeration is not None:
                values = [enums.name_of(field.enumeration, v) for v in values]
            elif field.map:
                values = self._refs(record, field.name, self.ids[field.map])
            if field.map == own.map:
                values = self._acyclic(record, self.tables[table]["id"], values)
            self.tables[table][column] = values

    def _system(self) -> None:
        locations = self._found["Location"]
        self._stored("system_tree_nodes")
        if not locations["self"]:
            raise SourceError(f"{self.path} defines no locations\n  the trace is empty or damaged")
        known = set(self._ids("LocationGroup").row)
        for i, group in enumerate(locations["location_group"]):
            if group not in known:
                raise self._dangling("Location", i, "location_group", group)
        self._processes(known)
        self._locations()

    def _ranks(self) -> dict[int, int]:
        """Return the ranks of the location groups in the lists of MPI ranks."""
        locations, g = self._found["Location"], self._found["Group"]
        group_of = dict(zip(locations["self"], locations["location_group"], strict=True))
        rank_of: dict[int, int] = {}
        for members, kind, paradigm in zip(g["members"], *self._group_types(), strict=True):
            if kind == "comm_locations" and paradigm == "mpi":
                for rank, member in enumerate(members):
                    if member in group_of:
                        rank_of.setdefault(group_of[member], rank)
            elif kind == "comm_location_groups" and paradigm == "mpi":
                for rank, member in enumerate(members):
                    rank_of.setdefault(member, rank)
        return rank_of

    def _processes(self, known: set[int]) -> None:
        """Fill the table of processes in order of rank; others follow by identifier, accelerators last."""
        groups, rank_of = self._found["LocationGroup"], self._ranks()
        # a group that represents an accelerator is not a process, so it has no rank
        kinds = [enums.name_of(enums.LOCATION_GROUP_TYPES, t) for t in groups["location_group_type"]]
        is_accelerator = {g for g, kind in zip(groups["self"], kinds, strict=True) if kind == "accelerator"}
        accelerators = is_accelerator - set(rank_of)
        others = sorted(known - set(rank_of) - accelerators)
        rank_of |= {group: rank for rank, group in enumerate(others, max(rank_of.values(), default=-1) + 1)}
        rank_of |= dict.fromkeys(accelerators, -1)
        order = sorted(
            range(len(groups["self"])),
            key=lambda i: (groups["self"][i] in accelerators, rank_of[groups["self"][i]], groups["self"][i]),
        )
        ids = [groups["self"][i] for i in order]
        self.ids["LOCATION_GROUP"] = processes = Ids(ids)
        names, nodes_of = (
            self._texts("LocationGroup"),
            self._refs("LocationGroup", "system_tree_parent", self.ids["SYSTEM_TREE_NODE"]),
        )
        creators = self._refs("LocationGroup", "creating_location_group", processes)
        self.tables["processes"] = {
            "id": ids,
            "name": [names[i] for i in order],
            "type": [kinds[i] for i in order],
            "node": [nodes_of[i] for i in order],
            "creator": self._acyclic("LocationGroup", ids, [creators[i] for i in order]),
            "rank": [rank_of[i] for i in ids],
        }

    def _locations(self) -> None:
        """Fill the table of locations in order of their processes."""
        locations, processes = self._found["Location"], self.ids["LOCATION_GROUP"]
        order = sorted(
            range(len(locations["self"])),
            key=lambda i: (processes(locations["location_group"][i]), locations["self"][i] % (1 << 64)),
        )
        ids = [locations["self"][i] for i in order]
        self._ids("Location")
        self.ids["LOCATION"] = Ids(ids)
        names = self._texts("Location")
        self.tables["locations"] = {
            "id": ids,
            "name": [names[i] for i in order],
            "type": [enums.name_of(enums.LOCATION_TYPES, locations["location_type"][i]) for i in order],
            "process": [processes(locations["location_group"][i]) for i in order],
            "thread": [UNKNOWN] * len(ids),
            "first_row": [0] * len(ids),
            "n_events": [locations["number_of_events"][i] for i in order],
        }

    def _regions(self) -> None:
        r = self._found["Region"]
        name = self._texts("Region")
        canonical = [self._text.get(c, n) for c, n in zip(r["canonical_name"], name, strict=True)]
        types = [
            (enums.name_of(enums.REGION_ROLES, role), enums.name_of(enums.PARADIGMS, paradigm), flags)
            if role >= 0
            else attic.REGION_TYPES.get(old, ("unknown", "unknown", 0))
            for old, role, paradigm, flags in zip(
                r["region_type"], r["region_role"], r["paradigm"], r["region_flags"], strict=True
            )
        ]
        columns: dict[str, list[Any]] = {
            "name": name,
            "canonical_name": canonical,
            "description": self._texts("Region", "description"),
            "role": [t[0] for t in types],
            # no format has a number for NCCL
            "paradigm": [
                enums.NCCL if t[1] in DEVICES and communicates(n) else t[1] for t, n in zip(types, name, strict=True)
            ],
            "flags": [t[2] for t in types],
            "file": self._texts("Region", "source_file"),
            "begin_line": [0 if v == UNDEFINED else v for v in r["begin_line_number"]],
            "end_line": [0 if v == UNDEFINED else v for v in r["end_line_number"]],
        }
        self.ids["REGION"] = self._ids("Region")
        self.tables["regions"] = {"id": list(r["self"]), **columns}

        # Artificial regions for records that name no region; added if the source does not define them.
        artificial = {n: i for i, n in enumerate(name) if columns["role"][i] == "artificial"}

        def made(region: str, paradigm: str) -> int:
            if region in artificial:
                return artificial[region]
            return self.add_region(region, "artificial", paradigm, id=-1)

        self.off_region = made("MEASUREMENT OFF", "user")
        self.flush_region = made("TRACE BUFFER FLUSH", "measurement_system")
        programs = [
            i
            for i in range(len(name))
            if columns["role"][i] == "artificial"
            and columns["paradigm"][i] == "measurement_system"
            and i not in (self.off_region, self.flush_region)
        ]
        by_text = {text: i for i in reversed(programs) for text in (name[i], canonical[i])}
        strings = self.tables["strings"]["string"]
        self.program_region = {row: by_text[text] for row, text in enumerate(strings) if text in by_text}
        self.any_program = programs[0] if programs else made("PROGRAM", "measurement_system")
        self.unknown_region = made("UNKNOWN", "unknown") if self._found["CallingContext"]["self"] else -1

    def _group_types(self) -> tuple[list[str], list[str]]:
        g = self._found["Group"]
        types = [
            (enums.name_of(enums.GROUP_TYPES, now), enums.name_of(enums.PARADIGMS, paradigm))
            if now >= 0
            else attic.GROUP_TYPES.get(old, ("unknown", "unknown"))
            for old, now, paradigm in zip(g["group_type_pre12"], g["group_type"], g["paradigm"], strict=True)
        ]
        return [t[0] for t in types], [t[1] for t in types]

    def _groups(self) -> None:
        g = self._found["Group"]
        kinds, paradigms = self._group_types()
        first_location: dict[int, int] = {}
        for i, p in enumerate(self.tables["locations"]["process"]):
            first_location.setdefault(p, i)

        def rows_of(number: int, kind: str, members: list[int]) -> list[int]:
            if kind == "comm_location_groups":
                owners = self._all_refs("Group", "member", number, members, self.ids["LOCATION_GROUP"])
                return [first_location.get(p, -1) for p in owners]
            map_name = "REGION" if kind == "regions" else "LOCATION"
            return self._all_refs("Group", "member", number, members, self.ids[map_name])

        listed = {
            paradigm: rows_of(i, kind, g["members"][i])
            for i, (kind, paradigm) in enumerate(zip(kinds, paradigms, strict=True))
            if kind in ("comm_locations", "comm_location_groups")
        }
        rows: list[list[int]] = []
        for i, (members, kind) in enumerate(zip(g["members"], kinds, strict=True)):
            if kind == "comm_group":
                ranks = listed.get(paradigms[i], [])
                if members and not 0 <= min(members) <= max(members) < len(ranks):
                    raise self._dangling("Group", i, "rank", min(members) if min(members) < 0 else max(members))
                rows.append([ranks[m] for m in members])
            elif kind in ("locations", "comm_locations", "comm_location_groups", "comm_group", "regions"):
                rows.append(rows_of(i, kind, members))
            else:
                rows.append(list(members))
        self.ids["GROUP"] = self._ids("Group")
        self.tables["groups"] = {
            "id": g["self"],
            "name": self._texts("Group"),
            "type": kinds,
            "paradigm": paradigms,
            "flags": [max(f, 0) & ~GLOBAL_MEMBERS for f in g["group_flags"]],
            "members": rows,
        }
        self._communicators(listed)

    def _communicators(self, listed: dict[str, list[int]]) -> None:
        """Define the communicators from the groups and the list of locations of each paradigm."""
        kinds, paradigms, rows = (self.tables["groups"][column] for column in ("type", "paradigm", "members"))
        c, inter, group = self._found["Comm"], self._found["InterComm"], self.ids["GROUP"]
        ids = c["self"] + inter["self"]
        self.ids["COMM"] = comm = self._ids("Comm", "InterComm")
        n_plain = len(c["self"])
        of = self._refs("Comm", "group", group) + self._refs("InterComm", "group_a", group)
        remote = [-1] * n_plain + self._refs("InterComm", "group_b", group)
        parents = self._refs("Comm", "parent", comm) + self._refs("InterComm", "common_communicator", comm)
        flags = c["flags"] + inter["flags"]
        self.tables["communicators"] = {
            "id": ids,
            "name": self._texts("Comm") + self._texts("InterComm"),
            "kind": [
                "inter"
                if k >= n_plain
                else {"comm_self": "self", "comm_group": "group"}.get(kinds[r] if r >= 0 else "", "locations")
                for k, r in enumerate(of)
            ],
            "paradigm": [paradigms[r] if r >= 0 else "unknown" for r in of],
            "parent": self._acyclic("Comm", ids, parents),
            "flags": [max(f, 0) for f in flags],
            "members": [rows[r] if r >= 0 and kinds[r] != "comm_self" else [] for r in of],
            "remote_members": [rows[r] if r >= 0 else [] for r in remote],
        }
        is_global = [max(f, 0) & GLOBAL_MEMBERS for f in self._found["Group"]["group_flags"]]
        made = self.tables["communicators"]
        for k, r in enumerate(of):
            if r >= 0 and is_global[r] and paradigms[r] in listed:
                # an inter-communicator has two disjoint groups
                rank = {
                    m: i for column in ("remote_members", "members") for i, m in enumerate(made[column][k])
                } | dict.fromkeys(listed[paradigms[r]] if made["kind"][k] == "self" else (), 0)
                self.global_ranks[k] = np.array([rank.get(m, -1) for m in listed[paradigms[r]]], np.int64)

    def _metrics(self) -> None:
        k, s = self._found["MetricClass"], self._found["MetricInstance"]
        self._stored("metric_members")
        known = enums.METRIC_DTYPES.values()
        dtypes = [of if of in known else "int64" for of in self.tables["metric_members"]["value_type"]]
        self.tables["metric_members"]["value_type"] = dtypes
        member = self.ids["METRIC_MEMBER"]
        members = [self._all_refs("MetricClass", "member", i, v, member) for i, v in enumerate(k["metric_members"])]
        self.metric_types = [[dtypes[i] for i in v] for v in members]
        self.tables["metric_classes"] = {
            "id": k["self"],
            "members": members,
            "occurrence": [enums.name_of(enums.METRIC_OCCURRENCES, v) for v in k["metric_occurrence"]],
            "recorder_kind": [enums.name_of(enums.RECORDER_KINDS, max(v, 0)) for v in k["recorder_kind"]],
        }
        classes = self._ids("MetricClass")
        ids = k["self"] + s["self"]
        self.ids["METRIC"] = self._ids("MetricClass", "MetricInstance")
        self.tables["metric_sources"] = {
            "id": ids,
            "metric_class": list(range(len(k["self"]))) + self._refs("MetricInstance", "metric_class", classes),
            "recorder": [-1] * len(k["self"]) + self._refs("MetricInstance", "recorder", self.ids["LOCATION"]),
            "scope": ["location"] * len(k["self"]) + [enums.name_of(enums.METRIC_SCOPES, v) for v in s["metric_scope"]],
            "scope_id": [-1] * len(k["self"]) + s["scope"],
        }

    def _topologies(self) -> None:
        d, t, p = (self._found[n] for n in ("CartDimension", "CartTopology", "CartCoordinate"))
        dimension = self._ids("CartDimension")
        names = self._texts("CartDimension")
        axes = [
            self._all_refs("CartTopology", "dimension", i, v, dimension) for i, v in enumerate(t["cart_dimensions"])
        ]
        self.tables["topologies"] = {
            "id": t["self"],
            "name": self._texts("CartTopology"),
            "communicator": self._refs("CartTopology", "communicator", self.ids["COMM"]),
            "dimensions": [[names[a] for a in v] for v in axes],
            "sizes": [[d["size"][a] for a in v] for v in axes],
            "periodic": [[d["cart_periodicity"][a] for a in v] for v in axes],
        }
        topology = self._refs("CartCoordinate", "cart_topology", self._ids("CartTopology"))
        members = self.tables["communicators"]["members"]
        location, ranks = [], []
        for i, (of, number) in enumerate(zip(topology, p["rank"], strict=True)):
            on = self.tables["topologies"]["communicator"][of] if of >= 0 else -1
            known = self.global_ranks.get(on)
            rank = number if known is None else int(known[number]) if number < known.size else -1
            ranks.append(rank)
            of_rank = members[on] if on >= 0 else []
            # the members of MPI_COMM_SELF are not listed
            if not 0 <= rank < max(len(of_rank), 1):
                raise self._dangling("CartCoordinate", i, "rank", number)
            location.append(of_rank[rank] if of_rank else -1)
        self.tables["topology_coordinates"] = {
            "topology": topology,
            "rank": ranks,
            "location": location,
            "coordinates": p["coordinates"],
        }

    def _small_tables(self) -> None:
        for table in SMALL_TABLES:
            self._stored(table)
        # before version 3 windows had no flags, and always had events of creation and destruction
        self.tables["windows"]["flags"] = [v if v >= 0 else 1 for v in self.tables["windows"]["flags"]]
        files, folders = self._found["IoRegularFile"], self._found["IoDirectory"]
        self.ids["IO_FILE"] = self._ids("IoRegularFile", "IoDirectory")
        nodes = self.ids["SYSTEM_TREE_NODE"]
        self.tables["io_files"] = {
            "id": files["self"] + folders["self"],
            "name": self._texts("IoRegularFile") + self._texts("IoDirectory"),
            "type": ["file"] * len(files["self"]) + ["directory"] * len(folders["self"]),
            "scope": self._refs("IoRegularFile", "scope", nodes) + self._refs("IoDirectory", "scope", nodes),
        }
        self._stored("io_handles")

    def _value_text(self, of: int, bits: int) -> str:
        if of == 11:
            return self._text.get(bits, "")
        if of in (9, 10):
            kind, code = ("<I", "<f") if of == 9 else ("<Q", "<d")
            (number,) = struct.unpack(code, struct.pack(kind, bits % (1 << 8 * struct.calcsize(kind))))
            return f"{number:g}"
        width = {1: 8, 2: 16, 4: 64, 5: 8, 6: 16, 8: 64, 13: 64}.get(of, 32)
        value = bits % (1 << width)
        return str(value - (1 << width) if 5 <= of <= 8 and value >> (width - 1) else value)

    def _properties(self) -> None:
        rows = self.tables["properties"]
        for record, table, ids in (
            ("SystemTreeNodeProperty", "system_tree_nodes", self.ids["SYSTEM_TREE_NODE"]),
            ("LocationGroupProperty", "processes", self.ids["LOCATION_GROUP"]),
            ("LocationProperty", "locations", self.ids["LOCATION"]),
        ):
            p = self._found[record]
            rows["table"] += [table] * len(p["of"])
            rows["of"] += self._refs(record, "of", ids)
            rows["name"] += self._texts(record)
            # before version 2 values were texts only
            texts = self._texts(record, "string_value")
            rows["value"] += [
                text if v[0] in (-1, 11) and text else self._value_text(*v)
                for text, v in zip(texts, p["value"], strict=True)
            ]
