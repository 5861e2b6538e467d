"""Global definitions of an archive: read as OTF2 records, turned into the tables of the store."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Clock
from tracecols.converters.otf2 import decode, tables
from tracecols.converters.otf2.files import HEADER, Chunks, explain
from tracecols.converters.otf2.records import DEFINITION_RECORDS, MAPS, Record
from tracecols.errors import SourceError
from tracecols.schema import DEFINITIONS, enums

UNDEFINED = 0xFFFFFFFF
_BY_CODE = {r.code: r for r in DEFINITION_RECORDS}

# Record types that get tables of their own; the others are kept as JSON.
_TABLED = {
    "ClockProperties", "String", "Attribute", "SystemTreeNode", "LocationGroup", "Location", "Region", "Group",
    "MetricMember", "MetricClass", "MetricInstance", "Comm", "Parameter", "RmaWin", "SystemTreeNodeProperty",
    "LocationGroupProperty", "LocationProperty", "CartDimension", "CartTopology", "CartCoordinate", "SourceCodeLocation",
    "CallingContext", "InterruptGenerator", "IoRegularFile", "IoDirectory", "IoHandle", "InterComm",
}  # fmt: skip

_METRIC_DTYPES = {4: "uint64", 8: "int64", 10: "float64"}


def split_records(
    ends_of: Chunks, table: tables.DefinitionTables
) -> tuple[list[tuple[NDArray[np.int64], NDArray[np.int64], bytes]], bool]:
    """Decode a whole definition file, chunk by chunk.

    Returns
    -------
    chunks : list of (records (n, 3), values, bytes)
        Of every chunk: record type, first value and position; the values; the chunk itself, for texts.
    big : bool
        Byte order of the file.
    """
    result = []
    ends = decode.END_OF_FILE
    big = False
    while ends_of.next():
        big = ends_of.big
        at = HEADER
        room = max(4096, 2 * ends_of.n)
        while True:
            values = np.empty(room, np.int64)
            records = np.empty((room // 4, 3), np.int64)
            ends, n_records, n_values, stop = decode.decode_definitions(
                ends_of.buffer,
                at,
                ends_of.n,
                ends_of.big,
                table.n_fields,
                table.field_type,
                table.optional_from,
                values,
                records,
            )
            if ends not in (decode.END_OF_CHUNK, decode.END_OF_FILE, decode.BUFFERS_FULL):
                raise ends_of.error(int(stop), explain(ends, 0, MAPS))
            if ends == decode.BUFFERS_FULL and n_records == 0:
                room *= 2
                continue
            result.append((records[:n_records], values[:n_values], ends_of.buffer[: ends_of.n].tobytes()))
            at = int(stop)
            if ends != decode.BUFFERS_FULL:
                break
        if ends == decode.END_OF_FILE:
            break
    if ends != decode.END_OF_FILE:
        raise ends_of.error(
            ends_of.n, "the file ends before its end-of-file record", "it is cut off; copy the archive again"
        )
    return result, big


def _value_width(record: Record) -> int:
    """Number of values of a record; 0 if it varies."""
    widths = {"str": 2, "value": 2, "idmap": 0, "u8*": 0, "c32*": 0, "c64*": 0}
    each = [widths.get(f.type, 1) for f in record.fields]
    return 0 if 0 in each else sum(each)


def read_records(path: Path, chunk_size: int) -> tuple[dict[str, dict[str, list[Any]]], int]:
    """Read the global definitions as they stand: per record type a list per field, and how many there are."""
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    n = 0
    with Chunks(path, chunk_size) as file:
        chunks, _ = split_records(file, tables.GLOBAL)
    for records, values, text in chunks:
        n += len(records)
        for code in np.unique(records[:, 0]).tolist():
            starts = records[records[:, 0] == code, 1]
            record = _BY_CODE.get(code)
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
                        columns[field.name] += [
                            text[p : p + m].decode("utf-8", "replace")
                            for p, m in zip(matrix[at], matrix[at + 1], strict=True)
                        ]
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


class Ids:
    """Rows of a table by identifier."""

    def __init__(self, ids: list[int]) -> None:
        self.row = {v: i for i, v in enumerate(ids)}
        self.keys = np.array(sorted(self.row), np.int64)
        self.rows = np.array([self.row[k] for k in self.keys.tolist()], np.int64)

    def __call__(self, value: int) -> int:
        return self.row.get(value, -1)

    def of(self, values: list[int]) -> list[int]:
        row = self.row
        return [row.get(v, -1) for v in values]


class Definitions:
    """The definition tables of the store, and how identifiers of the archive become their rows.

    Attributes
    ----------
    clock : Clock
    tables : dict of str to dict of str to list
        Columns of every table in `tracecols.schema.DEFINITIONS`.
    ids : dict of str to Ids
        Rows by identifier, by kind of identifier (`records.MAPS`).
    metric_types : list of list of str
        Dtypes of the members of every metric class.
    regions : dict
        `off`, `flush`: rows of the artificial regions; `program`: region row by row of the program's name.
    """

    def __init__(self, path: Path, chunk_size: int, n_expected: int) -> None:
        found, n = read_records(path, chunk_size)
        if n != n_expected:
            raise SourceError(
                f"{path} holds {n} definitions, the anchor file says {n_expected}\n  the archive is damaged or was changed; copy it again"
            )
        if "ClockProperties" not in found:
            raise SourceError(
                f"{path} has no ClockProperties\n  without the clock's resolution times have no meaning; the archive is damaged"
            )
        self.path = path
        self._found = found
        c = {k: v[0] for k, v in found["ClockProperties"].items()}
        if c["timer_resolution"] <= 0:
            raise SourceError(
                f"{path} states a clock resolution of {c['timer_resolution']} ticks per second\n  the archive is damaged"
            )
        self.clock = Clock(c["timer_resolution"], c["global_offset"], c["trace_length"], c["realtime_timestamp"])
        strings = found["String"]
        self._text = dict(zip(strings["self"], strings["string"], strict=True))
        self.ids = {name: Ids([]) for name in MAPS}
        self.tables: dict[str, dict[str, list[Any]]] = {
            name: {c: [] for c in t.names} for name, t in DEFINITIONS.items()
        }
        self.tables["strings"] = {"id": strings["self"], "string": strings["string"]}
        self.ids["STRING"] = Ids(strings["self"])
        self._system()
        self._regions()
        self._groups()
        self._metrics()
        self._topologies()
        self._small_tables()
        self._properties()
        for name, columns in found.items():
            if name not in _TABLED:
                for values in zip(*columns.values(), strict=True):
                    self.tables["other_definitions"]["record"].append(name)
                    self.tables["other_definitions"]["values"].append(
                        json.dumps(dict(zip(columns, values, strict=True)))
                    )

    def _texts(self, ids: list[int]) -> list[str]:
        text = self._text
        return [text.get(i, "") for i in ids]

    def _put(self, table: str, map_name: str, record: str, **columns: list[Any]) -> None:
        ids = self._found[record]["self"]
        self.tables[table] = {"id": ids, **columns}
        self.ids[map_name] = Ids(ids)

    def _system(self) -> None:
        nodes, groups, locations = (self._found[n] for n in ("SystemTreeNode", "LocationGroup", "Location"))
        self._nodes = Ids(nodes["self"])
        self.tables["system_tree_nodes"] = {
            "id": nodes["self"],
            "name": self._texts(nodes["name"]),
            "class_name": self._texts(nodes["class_name"]),
            "parent": self._nodes.of(nodes["parent"]),
        }
        if not locations["self"]:
            raise SourceError(f"{self.path} defines no locations\n  the trace is empty or damaged")

        # processes in rank order: the MPI ranks list locations, everything else follows by identifier
        group_of = dict(zip(locations["self"], locations["location_group"], strict=True))
        known = set(groups["self"])
        for location, group in group_of.items():
            if group not in known:
                raise SourceError(
                    f"{self.path}: location {location} belongs to location group {group}, which is not defined\n  the archive is damaged"
                )
        rank_of: dict[int, int] = {}
        g = self._found["Group"]
        for members, kind, paradigm in zip(g["members"], self._group_types(), g["paradigm"], strict=True):
            if kind == "comm_locations" and enums.name_of(enums.PARADIGMS, paradigm) == "mpi":
                for rank, member in enumerate(members):
                    if member in group_of:
                        rank_of.setdefault(group_of[member], rank)
            elif kind == "comm_location_groups" and enums.name_of(enums.PARADIGMS, paradigm) == "mpi":
                for rank, member in enumerate(members):
                    rank_of.setdefault(member, rank)
        following = max(rank_of.values(), default=-1) + 1
        for group in sorted(known - set(rank_of)):
            rank_of[group] = following
            following += 1
        order = sorted(range(len(groups["self"])), key=lambda i: rank_of[groups["self"][i]])
        ids = [groups["self"][i] for i in order]
        processes = Ids(ids)
        self.ids["LOCATION_GROUP"] = processes
        creators = groups["creating_location_group"]
        self.tables["processes"] = {
            "id": ids,
            "name": self._texts([groups["name"][i] for i in order]),
            "type": [enums.name_of(enums.LOCATION_GROUP_TYPES, groups["location_group_type"][i]) for i in order],
            "node": self._nodes.of([groups["system_tree_parent"][i] for i in order]),
            "creator": processes.of([creators[i] for i in order]),
            "rank": [rank_of[i] for i in ids],
        }
        order = sorted(
            range(len(locations["self"])),
            key=lambda i: (processes(locations["location_group"][i]), locations["self"][i]),
        )
        process = processes.of([locations["location_group"][i] for i in order])
        counts = [locations["number_of_events"][i] for i in order]
        seen: dict[int, int] = defaultdict(int)
        threads = []
        for p in process:
            threads.append(seen[p])
            seen[p] += 1
        ids = [locations["self"][i] for i in order]
        self.ids["LOCATION"] = Ids(ids)
        if len(self.ids["LOCATION"].row) != len(ids):
            raise SourceError(f"{self.path} defines a location twice\n  the archive is damaged")
        self.tables["locations"] = {
            "id": ids,
            "name": self._texts([locations["name"][i] for i in order]),
            "type": [enums.name_of(enums.LOCATION_TYPES, locations["location_type"][i]) for i in order],
            "process": process,
            "thread": threads,
            "first_row": [0] * len(ids),
            "n_events": counts,
        }

    def _regions(self) -> None:
        r = self._found["Region"]
        name = self._texts(r["name"])
        canonical = [self._text.get(c, n) for c, n in zip(r["canonical_name"], name, strict=True)]
        columns: dict[str, list[Any]] = {
            "name": name,
            "canonical_name": canonical,
            "description": self._texts(r["description"]),
            "role": [enums.name_of(enums.REGION_ROLES, v) if v >= 0 else "unknown" for v in r["region_role"]],
            "paradigm": [enums.name_of(enums.PARADIGMS, v) if v >= 0 else "unknown" for v in r["paradigm"]],
            "flags": [max(v, 0) for v in r["region_flags"]],
            "file": self._texts(r["source_file"]),
            "begin_line": [0 if v == UNDEFINED else v for v in r["begin_line_number"]],
            "end_line": [0 if v == UNDEFINED else v for v in r["end_line_number"]],
        }
        ids = list(r["self"])
        self.ids["REGION"] = Ids(ids)

        # Artificial regions that records without a region of their own enter; made where the source has none.
        artificial = {n: i for i, n in enumerate(name) if columns["role"][i] == "artificial"}

        def made(region: str, paradigm: str) -> int:
            if region in artificial:
                return artificial[region]
            new = {"name": region, "canonical_name": region, "role": "artificial", "paradigm": paradigm}
            for column, values in columns.items():
                values.append(new.get(column, 0 if column in ("flags", "begin_line", "end_line") else ""))
            ids.append(-1)
            return len(ids) - 1

        self.off_region = made("MEASUREMENT OFF", "user")
        self.flush_region = made("TRACE BUFFER FLUSH", "measurement_system")
        programs = [
            i
            for i in range(len(name))
            if columns["role"][i] == "artificial"
            and columns["paradigm"][i] == "measurement_system"
            and i not in (self.off_region, self.flush_region)
        ]
        self.program_region: dict[int, int] = {}
        by_text = {t: i for i, t in enumerate(self.tables["strings"]["string"])}
        for i in reversed(programs):
            for text in (name[i], canonical[i]):
                if text in by_text:
                    self.program_region[by_text[text]] = i
        self.any_program = programs[0] if programs else made("PROGRAM", "measurement_system")
        self.tables["regions"] = {"id": ids, **columns}

    def _group_types(self) -> list[str]:
        g = self._found["Group"]
        # before version 1.2 the type stood in front, and there was no paradigm
        return [
            enums.name_of(enums.GROUP_TYPES, now if now >= 0 else old)
            for now, old in zip(g["group_type"], g["group_type_pre12"], strict=True)
        ]

    def _groups(self) -> None:
        g = self._found["Group"]
        kinds = self._group_types()
        paradigms = [enums.name_of(enums.PARADIGMS, v) if v >= 0 else "unknown" for v in g["paradigm"]]
        location, process = self.ids["LOCATION"], self.ids["LOCATION_GROUP"]
        first_location: dict[int, int] = {}
        for i, p in enumerate(self.tables["locations"]["process"]):
            first_location.setdefault(p, i)
        listed: dict[str, list[int]] = {}
        for members, kind, paradigm in zip(g["members"], kinds, paradigms, strict=True):
            if kind == "comm_locations":
                listed[paradigm] = location.of(members)
            elif kind == "comm_location_groups":
                listed[paradigm] = [first_location.get(p, -1) for p in process.of(members)]
        rows: list[list[int]] = []
        for members, kind, paradigm, flags in zip(g["members"], kinds, paradigms, g["group_flags"], strict=True):
            if kind in ("locations", "comm_locations") or (kind == "comm_group" and flags > 0 and flags & 1):
                rows.append(location.of(members))
            elif kind == "comm_location_groups":
                rows.append([first_location.get(p, -1) for p in process.of(members)])
            elif kind == "comm_group":
                ranks = listed.get(paradigm, [])
                rows.append([ranks[m] if 0 <= m < len(ranks) else -1 for m in members])
            elif kind == "regions":
                rows.append(self.ids["REGION"].of(members))
            else:
                rows.append(list(members))
        self._put(
            "groups", "GROUP", "Group", name=self._texts(g["name"]), type=kinds, paradigm=paradigms,
            flags=[max(f, 0) for f in g["group_flags"]], members=rows,
        )  # fmt: skip
        group = self.ids["GROUP"]

        c, inter = self._found["Comm"], self._found["InterComm"]
        ids = c["self"] + inter["self"]
        comm = Ids(ids)
        self.ids["COMM"] = comm
        n_plain = len(c["self"])
        of = group.of(c["group"]) + group.of(inter["group_a"])
        remote = [-1] * n_plain + group.of(inter["group_b"])
        flags = c["flags"] + inter["flags"]
        self.tables["communicators"] = {
            "id": ids,
            "name": self._texts(c["name"] + inter["name"]),
            "kind": [
                "inter"
                if k >= n_plain
                else {"comm_self": "self", "comm_group": "group"}.get(kinds[r] if r >= 0 else "", "locations")
                for k, r in enumerate(of)
            ],
            "paradigm": [paradigms[r] if r >= 0 else "unknown" for r in of],
            "parent": comm.of(c["parent"] + inter["common_communicator"]),
            "flags": [max(f, 0) for f in flags],
            "members": [rows[r] if r >= 0 and kinds[r] != "comm_self" else [] for r in of],
            "remote_members": [rows[r] if r >= 0 else [] for r in remote],
        }

    def _metrics(self) -> None:
        m, k, s = (self._found[n] for n in ("MetricMember", "MetricClass", "MetricInstance"))
        member = Ids(m["self"])
        dtypes = [_METRIC_DTYPES.get(v, "int64") for v in m["value_type"]]
        self.tables["metric_members"] = {
            "id": m["self"],
            "name": self._texts(m["name"]),
            "description": self._texts(m["description"]),
            "type": [enums.name_of(enums.METRIC_TYPES, v) for v in m["metric_type"]],
            "mode": [enums.name_of(enums.METRIC_MODES, v) for v in m["metric_mode"]],
            "value_type": dtypes,
            "base": m["base"],
            "exponent": m["exponent"],
            "unit": self._texts(m["unit"]),
        }
        members = [member.of(v) for v in k["metric_members"]]
        self.metric_types = [[dtypes[i] if i >= 0 else "int64" for i in v] for v in members]
        self.tables["metric_classes"] = {
            "id": k["self"],
            "members": members,
            "occurrence": [enums.name_of(enums.METRIC_OCCURRENCES, v) for v in k["metric_occurrence"]],
            "recorder_kind": [enums.name_of(enums.RECORDER_KINDS, max(v, 0)) for v in k["recorder_kind"]],
        }
        classes = Ids(k["self"])
        ids = k["self"] + s["self"]
        self.ids["METRIC"] = Ids(ids)
        self.tables["metric_sources"] = {
            "id": ids,
            "metric_class": list(range(len(k["self"]))) + classes.of(s["metric_class"]),
            "recorder": [-1] * len(k["self"]) + self.ids["LOCATION"].of(s["recorder"]),
            "scope": ["location"] * len(k["self"]) + [enums.name_of(enums.METRIC_SCOPES, v) for v in s["metric_scope"]],
            "scope_id": [-1] * len(k["self"]) + s["scope"],
        }

    def _topologies(self) -> None:
        d, t, p = (self._found[n] for n in ("CartDimension", "CartTopology", "CartCoordinate"))
        dimension = Ids(d["self"])
        names, comm = self._texts(d["name"]), self.ids["COMM"]
        axes = [[a for a in dimension.of(v) if a >= 0] for v in t["cart_dimensions"]]
        self.tables["topologies"] = {
            "id": t["self"],
            "name": self._texts(t["name"]),
            "communicator": comm.of(t["communicator"]),
            "dimensions": [[names[a] for a in v] for v in axes],
            "sizes": [[d["size"][a] for a in v] for v in axes],
            "periodic": [[d["cart_periodicity"][a] for a in v] for v in axes],
        }
        topology = Ids(t["self"]).of(p["cart_topology"])
        members = self.tables["communicators"]["members"]
        location = []
        for of, rank in zip(topology, p["rank"], strict=True):
            on = self.tables["topologies"]["communicator"][of] if of >= 0 else -1
            location.append(members[on][rank] if on >= 0 and rank < len(members[on]) else -1)
        self.tables["topology_coordinates"] = {
            "topology": topology,
            "rank": p["rank"],
            "location": location,
            "coordinates": p["coordinates"],
        }

    def _small_tables(self) -> None:
        f = self._found
        a, p, w, s, i = (f[n] for n in ("Attribute", "Parameter", "RmaWin", "SourceCodeLocation", "InterruptGenerator"))
        texts, comm = self._texts, self.ids["COMM"]
        self._put(
            "attribute_definitions", "ATTRIBUTE", "Attribute", name=texts(a["name"]),
            type=[enums.name_of(enums.VALUE_TYPES, v) for v in a["type"]], description=texts(a["description"]),
        )  # fmt: skip
        self._put(
            "parameter_definitions", "PARAMETER", "Parameter", name=texts(p["name"]),
            type=[enums.name_of(enums.PARAMETER_TYPES, v) for v in p["parameter_type"]],
        )  # fmt: skip
        self._put(
            "windows", "RMA_WIN", "RmaWin", name=texts(w["name"]), communicator=comm.of(w["comm"]),
            flags=[max(v, 0) for v in w["flags"]],
        )  # fmt: skip
        self._put("source_code_locations", "SCL", "SourceCodeLocation", file=texts(s["file"]), line=s["line_number"])
        self._put(
            "interrupt_generators", "INTERRUPT_GENERATOR", "InterruptGenerator", name=texts(i["name"]),
            mode=[enums.name_of(enums.INTERRUPT_MODES, v) for v in i["mode"]], base=i["base"], exponent=i["exponent"],
            period=i["period"],
        )  # fmt: skip
        x = f["CallingContext"]
        self._put(
            "calling_contexts", "CALLING_CONTEXT", "CallingContext", region=self.ids["REGION"].of(x["region"]),
            source_code_location=self.ids["SCL"].of(x["source_code_location"]), parent=Ids(x["self"]).of(x["parent"]),
        )  # fmt: skip
        files, folders = f["IoRegularFile"], f["IoDirectory"]
        ids = files["self"] + folders["self"]
        self.ids["IO_FILE"] = Ids(ids)
        self.tables["io_files"] = {
            "id": ids,
            "name": texts(files["name"] + folders["name"]),
            "type": ["file"] * len(files["self"]) + ["directory"] * len(folders["self"]),
            "scope": self._nodes.of(files["scope"] + folders["scope"]),
        }
        h = f["IoHandle"]
        self._put(
            "io_handles", "IO_HANDLE", "IoHandle", name=texts(h["name"]), file=self.ids["IO_FILE"].of(h["file"]),
            paradigm=h["io_paradigm"], flags=h["io_handle_flags"], communicator=comm.of(h["comm"]),
            parent=Ids(h["self"]).of(h["parent"]),
        )  # fmt: skip

    def _properties(self) -> None:
        rows = self.tables["properties"]
        for record, table, ids in (
            ("SystemTreeNodeProperty", "system_tree_nodes", self._nodes),
            ("LocationGroupProperty", "processes", self.ids["LOCATION_GROUP"]),
            ("LocationProperty", "locations", self.ids["LOCATION"]),
        ):
            p = self._found[record]
            rows["table"] += [table] * len(p["of"])
            rows["of"] += ids.of(p["of"])
            rows["name"] += self._texts(p["name"])
            rows["value"] += [
                self._text.get(s, self._text.get(v[1], "") if v[0] == 11 else str(v[1]))
                for s, v in zip(p["string_value"], p["value"], strict=True)
            ]
