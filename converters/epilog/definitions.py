"""Definitions of an EPILOG trace: read as records, turned into the tables of the store."""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.epilog.container import HEADER, Container
from tracecols.converters.epilog.records import ATTRIBUTES, CONTINUED, DEFINITIONS, MAPPED, REGION_TYPES
from tracecols.converters.region_names import COLLECTIVE_NAMES, REGION_NAMES, WINDOW_OPS
from tracecols.errors import SourceError
from tracecols.schema import DEFINITIONS as TABLES
from tracecols.schema.enums import COLLECTIVE_OPS

UNDEFINED = 0xFFFFFFFF

MAX_UNKNOWN = 1 << 20
"""Definition records of unknown types in a file: a newer format has some, a damaged file can seem to hold nothing
else."""

_BYTES = {"I": 4, "B": 1, "d": 8, "Q": 8}
_TABLED = {
    "STRING", "MACHINE", "NODE", "PROCESS", "THREAD", "LOCATION", "FILE", "REGION", "METRIC", "MPI_COMM", "CALL_SITE",
    "CART_TOPOLOGY", "CART_COORDS", "MPI_WIN", "MPI_GROUP", "MPI_COMM_REF", "LAST_DEF", "NUM_EVENTS",
}  # fmt: skip
_METRIC_MODES = {
    0: ("accumulated_start", "accumulated_last", "accumulated_next"),
    1: ("absolute_point", "absolute_last", "absolute_next"),
    2: ("absolute_point", "absolute_last", "absolute_next"),
}


def largest(n: int) -> int:
    """Return the largest identifier that is believed of one among `n`: they count from 0, and tables go up to it."""
    return 64 * n + (1 << 16)


def parse(container: Container, at: int, name: str, fields: tuple[str, ...], body: bytes) -> dict[str, Any]:
    """Read the fields of one definition record (`records.DEFINITIONS`)."""
    order = ">" if container.big else "<"
    result: dict[str, Any] = {}
    p = 0
    for declared in fields:
        field_name, code = declared.split(":")
        if "@" in code:
            code, since = code.split("@")
            if container.version < int(since):
                result[field_name] = 0
                continue
        optional = code.endswith("?")
        code = code.rstrip("?")
        if optional and p >= len(body):
            result[field_name] = [] if code.endswith("*") else None
            continue
        if code == "*":
            result[field_name], p = body[p:], len(body)
            continue
        if code[-1] == "~":
            n = (len(body) - p) // _BYTES[code[0]]
        else:
            n = result["n"] if code[-1] == "*" else 1
        size = n * _BYTES[code[0]]
        if p + size > len(body):
            raise container.error(at, f"a {name} record of {len(body)} bytes is too short")
        values = struct.unpack_from(f"{order}{n}{code[0]}", body, p)
        result[field_name] = list(values) if code[-1] in "*~" else values[0]
        p += size
    return result


def read_definitions(container: Container) -> tuple[dict[str, list[dict[str, Any]]], dict[int, int], int]:
    """Read records up to LAST_DEF, or to the end of a file that holds definitions only.

    Returns records by type, in order, those that are continued put together; counts of record types that are not known;
    and where events begin.
    """
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    unknown: dict[int, int] = defaultdict(int)
    n_unknown = 0
    at = HEADER
    for at, code, body in container.records():
        if code >= 100:
            raise container.error(at, "an event is among the definitions, before LAST_DEF")
        if code not in DEFINITIONS:
            unknown[code] += 1
            n_unknown += 1
            if n_unknown > MAX_UNKNOWN:
                raise container.error(at, f"more than {MAX_UNKNOWN:,} definitions are of no known type")
            continue
        name, fields = DEFINITIONS[code]
        record = parse(container, at, name, fields, body)
        if name in CONTINUED:
            whole = found[CONTINUED[name]]
            if not whole:
                raise container.error(at, f"a {name} record continues nothing")
            for key, value in record.items():
                # in place: a copy per record takes time in proportion to their number squared
                if isinstance(value, bytes) and not whole[-1]["n_pieces"]:
                    whole[-1][key] = bytearray(whole[-1][key])
                whole[-1][key] += value
            whole[-1]["n_pieces"] += 1
            continue
        found[name].append({**record, "at": at, "n_pieces": 0})
        if name == "LAST_DEF":
            return found, unknown, at + 2
    return found, unknown, container.data.size


@dataclass
class Communicators:
    """Communicators for the decoder: of each the processes in ascending order, and their ranks."""

    member_start: NDArray[np.int64]
    members: NDArray[np.int64]
    ranks: NDArray[np.int64]

    @classmethod
    def of(cls, processes: list[list[int]]) -> Communicators:
        """Sort the processes of each communicator, given in the order of ranks."""
        start = np.cumsum([0, *map(len, processes)]).astype(np.int64)
        pairs = [(p, r) for ranks in processes for p, r in sorted((p, r) for r, p in enumerate(ranks))]
        members, ranks = (np.array([x[i] for x in pairs], np.int64) for i in (0, 1))
        return cls(start, members, ranks)


@dataclass
class Section:
    """What epik.map says about one process: its clock, and its numbers for what is defined globally."""

    offsets: list[tuple[float, float]] = field(default_factory=list)
    maps: dict[str, dict[int, int]] = field(default_factory=dict)


def read_map(container: Container) -> dict[int, Section]:
    """Read epik.map: sections by rank."""
    found: dict[int, Section] = {}
    section: Section | None = None
    idmap: dict[str, Any] = {}

    def close() -> None:
        if idmap and section is not None:
            numbers, n = idmap["numbers"], idmap["n_numbers"]
            if idmap["mode"] not in (0, 1) or len(numbers) != n or (idmap["mode"] == 1 and n % 2):
                raise container.error(idmap["at"], f"an IDMAP says {n} numbers, and holds {len(numbers)}")
            name = MAPPED.get(idmap["of"], "")
            pairs = zip(numbers[::2], numbers[1::2], strict=True) if idmap["mode"] else enumerate(numbers)
            section.maps.setdefault(name, {}).update(pairs)
        idmap.clear()

    n_unknown = 0
    for at, code, body in container.records():
        if code not in DEFINITIONS:
            n_unknown += 1
            if n_unknown > MAX_UNKNOWN:
                raise container.error(at, f"more than {MAX_UNKNOWN:,} definitions are of no known type")
            continue
        name, fields = DEFINITIONS[code]
        record = parse(container, at, name, fields, body)
        if name == "IDMAP_CNT":
            if not idmap:
                raise container.error(at, "an IDMAP_CNT record continues nothing")
            idmap["numbers"] += record["numbers"]
            continue
        close()
        if name == "MAP_SECTION":
            section = found.setdefault(record["rank"], Section())
        elif section is None and name in ("OFFSET", "IDMAP"):
            raise container.error(at, f"an {name} record is before the first MAP_SECTION")
        elif name == "OFFSET" and section is not None:
            section.offsets.append((record["local"], record["offset"]))
        elif name == "IDMAP":
            idmap.update(record, at=at)
    close()
    return found


class Definitions:
    """The definition tables of the store, and how identifiers of the trace become their rows.

    Parameters
    ----------
    container : Container
        The merged trace, or the global definitions of an archive.

    Attributes
    ----------
    tables : dict of str to dict of str to list
        Columns of every table in `tracecols.schema.DEFINITIONS`.
    rows : dict of str to dict of int to int
        Rows by identifier, by record type.
    metric_types : list of list of str
    communicators : Communicators
    process_of : (n_locations,) int64
    comm_of_window : (any,) int64
    callee : (n_sites,) int32
    off_region, tracing_region : int
    op_of_region, window_op_of_region : (n_regions + 1,) int64
    n_events : int
        As the trace states it; 0 unknown.
    events_at : int
        Where the events begin.
    unknown : dict of int to int
    n_missing : int
        Identifiers that no definition has among those that count from 0, as all known writers let them do.
    """

    def __init__(self, container: Container, with_events: bool) -> None:
        self.container = container
        self._found, self.unknown, self.events_at = read_definitions(container)
        if with_events and not self._found["LAST_DEF"]:
            raise container.error(container.data.size, "the file ends within the definitions, before LAST_DEF")
        self.n_events: int = self._found["NUM_EVENTS"][-1]["n"] if self._found["NUM_EVENTS"] else 0
        self.n_missing = 0
        self.rows = {name: self._index(name) for name in _TABLED if name not in ("LAST_DEF", "NUM_EVENTS")}
        self.tables: dict[str, dict[str, list[Any]]] = {name: {c: [] for c in t.names} for name, t in TABLES.items()}
        self._strings()
        self._system()
        self._regions()
        self._groups()
        self._metrics()
        self._topologies()
        self._put(
            "attribute_definitions",
            id=list(ATTRIBUTES),
            name=list(ATTRIBUTES.values()),
            type=["uint32"] * len(ATTRIBUTES),
            description=[""] * len(ATTRIBUTES),
        )
        self._others()

    def _put(self, table: str, **columns: list[Any]) -> None:
        self.tables[table] = columns

    def _index(self, name: str) -> dict[int, int]:
        """Index the identifiers of a record type: by themselves, of threads by process and thread."""
        if name == "THREAD":
            return {}
        rows: dict[int, int] = {}
        for i, record in enumerate(self._found[name]):
            if "id" not in record:
                return {}
            if record["id"] in rows:
                raise self.container.error(record["at"], f"{name} {record['id']} is defined twice")
            if record["id"] > largest(len(self._found[name])):
                raise self.container.error(record["at"], f"{name} has the impossible number {record['id']}")
            rows[record["id"]] = i
        self.n_missing += max(rows, default=-1) + 1 - len(rows)
        return rows

    def _row(self, record: dict[str, Any], key: str, name: str) -> int:
        """Return the row that a field refers to; -1 where it is absent."""
        value = record[key]
        if value is None or value == UNDEFINED:
            return -1
        if value not in self.rows[name]:
            raise self.container.error(record["at"], f"a definition names {name} {value}, which is not defined")
        return self.rows[name][value]

    def _name(self, record: dict[str, Any], key: str = "name") -> str:
        row = self._row(record, key, "STRING")
        return str(self.tables["strings"]["string"][row]) if row >= 0 else ""

    def _strings(self) -> None:
        found = self._found["STRING"]
        for r in found:
            if r["n_continued"] != r["n_pieces"]:
                raise self.container.error(
                    r["at"], f"a STRING says that {r['n_continued']} records continue it, there are {r['n_pieces']}"
                )
        texts = [r["text"].split(b"\0", 1)[0].decode("utf-8", "replace") for r in found]
        self._put("strings", id=[r["id"] for r in found], string=texts)

    def _system(self) -> None:
        machines, nodes = self._found["MACHINE"], self._found["NODE"]
        n = len(machines)
        self._put(
            "system_tree_nodes",
            id=[r["id"] for r in [*machines, *nodes]],
            name=[self._name(r) for r in [*machines, *nodes]],
            class_name=["machine"] * n + ["node"] * len(nodes),
            parent=[-1] * n + [self._row(r, "machine", "MACHINE") for r in nodes],
        )
        found = self._found["LOCATION"]
        if not found:
            raise SourceError(f"{self.container.path} defines no locations\n  the trace is empty or damaged")
        for r in found:
            if max(r["process"], r["thread"]) > largest(len(found)):
                raise self.container.error(
                    r["at"],
                    f"LOCATION {r['id']} is thread {r['thread']} of process {r['process']}, which is impossible",
                )
        order = sorted(range(len(found)), key=lambda i: (found[i]["process"], found[i]["thread"]))
        seen = {(r["process"], r["thread"]) for r in found}
        if len(seen) != len(found):
            raise SourceError(f"{self.container.path} defines a location twice\n  the trace is damaged; copy it again")
        ranks = sorted({r["process"] for r in found})
        process = {p: i for i, p in enumerate(ranks)}
        self.rows["PROCESS"] = process
        self.ranks = ranks
        names = {r["id"]: self._name(r) for r in self._found["PROCESS"]}
        node_of = {r["process"]: self._row(r, "node", "NODE") for r in reversed(found)}
        machine_of = {r["process"]: self._row(r, "machine", "MACHINE") for r in reversed(found)}
        self._put(
            "processes",
            id=ranks,
            name=[names.get(p) or f"Process {p}" for p in ranks],
            type=["process"] * len(ranks),
            node=[n + node_of[p] if node_of[p] >= 0 else machine_of[p] for p in ranks],
            creator=[-1] * len(ranks),
            rank=ranks,
        )
        threads = {(r["process"], r["id"]): self._name(r) for r in self._found["THREAD"]}
        chosen = [found[i] for i in order]
        self._put(
            "locations",
            id=[r["id"] for r in chosen],
            name=[threads.get((r["process"], r["thread"])) or f"Thread {r['thread']}" for r in chosen],
            type=["cpu_thread"] * len(chosen),
            process=[process[r["process"]] for r in chosen],
            thread=[r["thread"] for r in chosen],
            first_row=[0] * len(chosen),
            n_events=[0] * len(chosen),
        )
        self.rows["LOCATION"] = {r["id"]: i for i, r in enumerate(chosen)}
        self.process_of = np.array([process[r["process"]] for r in chosen], np.int64)
        self.first_location = [int(i) for i in np.unique(self.process_of, return_index=True)[1]]

    def _regions(self) -> None:
        names = [(re.compile(pattern), role, paradigm) for pattern, role, paradigm in REGION_NAMES]
        files = [self._name(r) for r in self._found["FILE"]]
        columns: dict[str, list[Any]] = {c: [] for c in TABLES["regions"].names}

        def add(number: int, name: str, role: str, paradigm: str, file: str, lines: tuple[int, int], text: str) -> int:
            values = (number, name, name, text, role, paradigm, 0, file, *lines)
            for column, value in zip(
                (
                    "id",
                    "name",
                    "canonical_name",
                    "description",
                    "role",
                    "paradigm",
                    "flags",
                    "file",
                    "begin_line",
                    "end_line",
                ),
                values,
                strict=True,
            ):
                columns[column].append(value)
            return len(columns["id"]) - 1

        for r in self._found["REGION"]:
            name, text = self._name(r), self._name(r, "description")
            row = self._row(r, "file", "FILE")
            file = files[row] if row >= 0 else ""
            lower = name.lower().rstrip("_")
            role, paradigm = REGION_TYPES.get(r["type"], ("", ""))
            if not role or role == "coll_other" or (paradigm == "mpi" and not lower.startswith("mpi")):
                by_name = next(((o, p) for fits, o, p in names if fits.fullmatch(lower)), None)
                if by_name is not None:
                    role, paradigm = (role or by_name[0]), by_name[1]
                elif "EPIK" in (file, text):
                    role, paradigm = "artificial", "measurement_system"
                elif not role:
                    role, paradigm = ("function", "compiler") if r["type"] == 1 else ("unknown", "unknown")
            lines = tuple(0 if r[k] == UNDEFINED else r[k] for k in ("begin", "end"))
            add(r["id"], name, role, paradigm, file, (lines[0], lines[1]), text)
        self.off_region = add(-1, "NO_LOGGING", "artificial", "user", "", (0, 0), "measurement is switched off")
        self.tracing_region = add(-1, "TRACING", "artificial", "measurement_system", "TRACER", (0, 0), "")
        self.tables["regions"] = columns
        collective, window = re.compile(COLLECTIVE_NAMES), WINDOW_OPS
        lowered = [n.lower().rstrip("_") for n in columns["name"]]
        found = [collective.fullmatch(n) for n in lowered]
        ops = [COLLECTIVE_OPS.index(f.group(1)) if f else -1 for f in found]
        self.op_of_region = np.array([*ops, -1], np.int64)
        self.window_op_of_region = np.array(
            [*(COLLECTIVE_OPS.index(window[n]) if n in window else -1 for n in lowered), -1], np.int64
        )
        sites = self._found["CALL_SITE"]
        of = [self._row(r, "region", "REGION") for r in sites]
        if -1 in of:
            raise self.container.error(sites[of.index(-1)]["at"], "a CALL_SITE names no region that it enters")
        self._put(
            "call_sites",
            id=[r["id"] for r in sites],
            file=[files[row] if (row := self._row(r, "file", "FILE")) >= 0 else "" for r in sites],
            line=[0 if r["line"] == UNDEFINED else r["line"] for r in sites],
            region=of,
            caller=[self._row(r, "caller", "REGION") for r in sites],
        )
        self.callee = np.array([*of, -1], np.int32)

    def _groups(self) -> None:
        """Put together groups and communicators: bit strings of merged traces, groups and references of archives."""
        masters = self.first_location
        groups: list[tuple[int, str, list[int]]] = []
        for r in self._found["MPI_GROUP"]:
            ranks: Sequence[int] = range(r["n_ranks"]) if r["mode"] & 1 else r["ranks"]
            if not r["mode"] & 3 and len(ranks) != r["n_ranks"]:
                raise self.container.error(r["at"], f"an MPI_GROUP of {r['n_ranks']} lists {len(ranks)} ranks")
            groups.append((r["id"], "comm_self" if r["mode"] & 2 else "comm_group", self._processes(r, ranks)))
        communicators = [(r["id"], self._row(r, "group", "MPI_GROUP")) for r in self._found["MPI_COMM_REF"]]
        for r in self._found["MPI_COMM"]:
            bits = np.unpackbits(np.frombuffer(r["bits"], np.uint8), bitorder="little")
            if len(r["bits"]) != r["n_bytes"]:
                raise self.container.error(
                    r["at"], f"an MPI_COMM says {r['n_bytes']} bytes, and holds {len(r['bits'])}"
                )
            communicators.append((r["id"], len(groups)))
            groups.append((r["id"], "comm_group", self._processes(r, np.flatnonzero(bits).tolist())))
        self.rows["MPI_COMM"] = {number: i for i, (number, _) in enumerate(communicators)}
        if len(self.rows["MPI_COMM"]) != len(communicators):
            raise SourceError(f"{self.container.path} defines a communicator twice\n  the trace is damaged")
        self._put(
            "groups",
            id=[g[0] for g in groups],
            name=[""] * len(groups),
            type=[g[1] for g in groups],
            paradigm=["mpi"] * len(groups),
            flags=[0] * len(groups),
            members=[[] if kind == "comm_self" else [masters[p] for p in members] for _, kind, members in groups],
        )
        kinds = [groups[g][1] if g >= 0 else "comm_group" for _, g in communicators]
        members = [groups[g][2] if g >= 0 else [] for _, g in communicators]
        self._put(
            "communicators",
            id=[number for number, _ in communicators],
            name=[""] * len(communicators),
            kind=["self" if k == "comm_self" else "group" for k in kinds],
            paradigm=["mpi"] * len(communicators),
            parent=[-1] * len(communicators),
            flags=[0] * len(communicators),
            members=[[] if k == "comm_self" else [masters[p] for p in m] for k, m in zip(kinds, members, strict=True)],
            remote_members=[[] for _ in communicators],
        )
        self.communicators = Communicators.of(members)
        if not self._found["MPI_GROUP"]:
            # in a merged trace a communicator represents its group
            self.rows["MPI_GROUP"] = dict(communicators)
        windows = self._found["MPI_WIN"]
        of = [self._row(r, "communicator", "MPI_COMM") for r in windows]
        self._put(
            "windows",
            id=[r["id"] for r in windows],
            name=[""] * len(windows),
            communicator=of,
            flags=[1] * len(windows),
        )
        self.comm_of_window = np.array([*of, -1], np.int64)

    def _processes(self, record: dict[str, Any], ranks: Sequence[int]) -> list[int]:
        """Return the rows of processes given by rank."""
        missing = next((r for r in ranks if r not in self.rows["PROCESS"]), None)
        if missing is not None:
            raise self.container.error(record["at"], f"a communicator names process {missing}, which is not defined")
        return [self.rows["PROCESS"][r] for r in ranks]

    def _metrics(self) -> None:
        found = self._found["METRIC"]
        types = ["float64" if r["dtype"] else "uint64" for r in found]
        self.metric_types = [types] if found else []
        names = [self._name(r) for r in found]
        self._put(
            "metric_members",
            id=[r["id"] for r in found],
            name=names,
            description=[self._name(r, "description") for r in found],
            type=["papi" if n.startswith("PAPI") else "other" for n in names],
            mode=[_METRIC_MODES.get(r["mode"], _METRIC_MODES[2])[min(r["interval"], 2)] for r in found],
            value_type=types,
            base=[1] * len(found),
            exponent=[0] * len(found),
            unit=[""] * len(found),
        )
        if found:
            self._put(
                "metric_classes",
                id=[0],
                members=[list(range(len(found)))],
                occurrence=["synchronous_strict"],
                recorder_kind=["cpu"],
            )
            self._put("metric_sources", id=[0], metric_class=[0], recorder=[-1], scope=["location"], scope_id=[-1])

    def _topologies(self) -> None:
        found, places = self._found["CART_TOPOLOGY"], self._found["CART_COORDS"]
        self._put(
            "topologies",
            id=[r["id"] for r in found],
            name=[self._name(r) for r in found],
            communicator=[self._row(r, "communicator", "MPI_COMM") for r in found],
            dimensions=[[self._name({"name": s, "at": r["at"]}) for s in r["names"]] or [""] * r["n"] for r in found],
            sizes=[r["sizes"] for r in found],
            periodic=[[int(p != 0) for p in r["periodic"]] for r in found],
        )
        of = [self._row(r, "topology", "CART_TOPOLOGY") for r in places]
        for r, t in zip(places, of, strict=True):
            sizes = found[t]["sizes"] if t >= 0 else []
            if len(r["coordinates"]) != len(sizes) or any(
                size and x >= size for x, size in zip(r["coordinates"], sizes, strict=True)
            ):
                raise self.container.error(r["at"], f"the coordinates {r['coordinates']} do not lie in their topology")
        locations = [self._row(r, "location", "LOCATION") for r in places]
        members = self.tables["communicators"]["members"]
        ranks = [{m: k for k, m in enumerate(v)} for v in members]
        on = self.tables["topologies"]["communicator"]
        self._put(
            "topology_coordinates",
            topology=of,
            rank=[ranks[on[t]].get(x, -1) if t >= 0 and on[t] >= 0 else -1 for t, x in zip(of, locations, strict=True)],
            location=locations,
            coordinates=[r["coordinates"] for r in places],
        )

    def _others(self) -> None:
        table = self.tables["other_definitions"]
        for name, records in self._found.items():
            if name not in _TABLED:
                for r in records:
                    table["record"].append(name)
                    table["values"].append(json.dumps({k: v for k, v in r.items() if k not in ("at", "n_pieces")}))
        properties = self.tables["properties"]
        for i, r in enumerate(self._found["NODE"]):
            for name, value in (("cpus", r["n_cpus"]), ("clock rate", r["clock_rate"])):
                if value is not None:
                    properties["table"].append("system_tree_nodes")
                    properties["of"].append(len(self._found["MACHINE"]) + i)
                    properties["name"].append(name)
                    properties["value"].append(f"{value:g}")
