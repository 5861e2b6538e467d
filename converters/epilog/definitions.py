"""Definitions of an EPILOG trace: read as records, turned into the tables of the store."""

from __future__ import annotations

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracecols.converters.base import text_of
from tracecols.converters.definition_tables import DefinitionTables
from tracecols.converters.epilog.container import Container
from tracecols.converters.epilog.records import ATTRIBUTES, CONTINUED, DEFINITIONS, MAPPED, REGION_TYPES
from tracecols.converters.region_names import WINDOW_OPS, collective_of, find_role
from tracecols.errors import SourceError
from tracecols.schema.enums import COLLECTIVE_OPS, plain_name
from tracecols.vectors import Ints, offsets_of

UNDEFINED = 0xFFFFFFFF

MAX_UNKNOWN = 1 << 20
"""Maximum number of definition records of unknown types in a file: a newer format has some, a damaged file may seem to
hold nothing else."""

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
    """Return the largest plausible identifier among `n`: they count from 0, and lookup tables extend up to it."""
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


def _known_records(
    container: Container, unknown: Counter[int], events_from: int = 256
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield position, type and fields of definitions; `unknown` counts those of unknown types, by type. Types from
    `events_from` on are events, which are refused."""
    n_unknown = 0
    for at, code, body in container.records():
        if code >= events_from:
            raise container.error(at, "an event is among the definitions, before LAST_DEF")
        if code in DEFINITIONS:
            name, fields = DEFINITIONS[code]
            yield at, name, parse(container, at, name, fields, body)
            continue
        unknown[code] += 1
        n_unknown += 1
        if n_unknown > MAX_UNKNOWN:
            raise container.error(at, f"more than {MAX_UNKNOWN:,} definitions are of no known type")


def read_definitions(container: Container) -> tuple[dict[str, list[dict[str, Any]]], Counter[int], int]:
    """Read records up to LAST_DEF, or to the end of a file that holds definitions only.

    Returns the records by type, in order, with continued records joined; the number of records of each unknown type;
    and the offset at which the events begin.
    """
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    unknown = Counter[int]()
    for at, name, record in _known_records(container, unknown, events_from=100):
        if name in CONTINUED:
            whole = found[CONTINUED[name]]
            if not whole:
                raise container.error(at, f"a {name} record continues nothing")
            for key, value in record.items():
                # in place: a copy per record would take quadratic time
                if isinstance(value, bytes) and not whole[-1]["n_pieces"]:
                    whole[-1][key] = bytearray(whole[-1][key])
                whole[-1][key] += value
            whole[-1]["n_pieces"] += 1
            continue
        found[name].append({**record, "at": at, "n_pieces": 0})
        if name == "LAST_DEF":
            return found, unknown, at + 2
    return found, unknown, container.data.size


def sorted_members(processes: list[list[int]]) -> tuple[Ints, Ints, Ints]:
    """Return the members of communicators, whose processes are given in the order of ranks, for the decoder: start of
    each communicator's members, the processes of each in ascending order, and their ranks."""
    start = offsets_of([len(ranks) for ranks in processes])
    pairs = [(p, r) for ranks in processes for p, r in sorted((p, r) for r, p in enumerate(ranks))]
    members, ranks = (np.array([x[i] for x in pairs], np.int64) for i in (0, 1))
    return start, members, ranks


@dataclass
class Section:
    """The section of one process in epik.map: its clock offsets, and the maps from its identifiers to global ones."""

    offsets: list[tuple[float, float]] = field(default_factory=list)
    maps: dict[str, dict[int, int]] = field(default_factory=dict)


def read_map(container: Container) -> dict[int, Section]:
    """Read the sections of epik.map, by rank."""
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

    for at, name, record in _known_records(container, Counter()):
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


class Definitions(DefinitionTables):
    """The definition tables of the store, and the maps from identifiers of the trace to their rows.

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
    members : tuple of (any,) int64
        The members of communicators, see `sorted_members`.
    process_of : (n_locations,) int64
    comm_of_window : (any,) int64
    callee : (n_sites,) int32
    off_region, tracing_region : int
    op_of_region, window_op_of_region : (n_regions + 1,) int64
    n_events : int
        Number of events that the trace states; 0 unknown.
    events_at : int
        Offset at which the events begin.
    unknown : Counter of int
    n_missing : int
        Number of undefined identifiers from 0 up to the largest one: all known writers number definitions from 0.
    """

    def __init__(self, container: Container, with_events: bool) -> None:
        super().__init__()
        self.container = container
        self._found, self.unknown, self.events_at = read_definitions(container)
        if with_events and not self._found["LAST_DEF"]:
            raise container.error(container.data.size, "the file ends within the definitions, before LAST_DEF")
        self.n_events: int = self._found["NUM_EVENTS"][-1]["n"] if self._found["NUM_EVENTS"] else 0
        self.n_missing = 0
        self.rows = {name: self._index(name) for name in _TABLED if name not in ("LAST_DEF", "NUM_EVENTS")}
        self._strings()
        self._system()
        self._regions()
        self._groups()
        self._metrics()
        self._topologies()
        for number, name in ATTRIBUTES.items():
            self.add("attribute_definitions", id=number, name=name, type="uint32")
        self._others()

    def _index(self, name: str) -> dict[int, int]:
        """Return the rows of a record type by identifier; empty for threads, and for records without identifier."""
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
        """Return the row that a field refers to; -1 if it is absent."""
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
        for r in found:
            self.add("strings", id=r["id"], string=text_of(r["text"].split(b"\0", 1)[0]))

    def _system(self) -> None:
        machines, nodes = self._found["MACHINE"], self._found["NODE"]
        n = len(machines)
        for r in machines:
            self.add("system_tree_nodes", id=r["id"], name=self._name(r), class_name="machine")
        for r in nodes:
            parent = self._row(r, "machine", "MACHINE")
            self.add("system_tree_nodes", id=r["id"], name=self._name(r), class_name="node", parent=parent)
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
        for p in ranks:
            node = n + node_of[p] if node_of[p] >= 0 else machine_of[p]
            self.add_process(names.get(p) or f"Process {p}", node, p, id=p)
        threads = {(r["process"], r["id"]): self._name(r) for r in self._found["THREAD"]}
        chosen = [found[i] for i in order]
        for r in chosen:
            name = threads.get((r["process"], r["thread"])) or f"Thread {r['thread']}"
            self.add_location(name, process[r["process"]], r["thread"], id=r["id"])
        self.rows["LOCATION"] = {r["id"]: i for i, r in enumerate(chosen)}
        self.process_of = np.array([process[r["process"]] for r in chosen], np.int64)
        self.first_location = [int(i) for i in np.unique(self.process_of, return_index=True)[1]]

    def _regions(self) -> None:
        files = [self._name(r) for r in self._found["FILE"]]
        for r in self._found["REGION"]:
            name, text = self._name(r), self._name(r, "description")
            row = self._row(r, "file", "FILE")
            file = files[row] if row >= 0 else ""
            role, paradigm = REGION_TYPES.get(r["type"], ("", ""))
            if not role or role == "coll_other" or (paradigm == "mpi" and not plain_name(name).startswith("mpi")):
                if (by_name := find_role(name)) is not None:
                    role, paradigm = (role or by_name[0]), by_name[1]
                elif "EPIK" in (file, text):
                    role, paradigm = "artificial", "measurement_system"
                elif not role:
                    role, paradigm = ("function", "compiler") if r["type"] == 1 else ("unknown", "unknown")
            begin, end = (0 if r[k] == UNDEFINED else r[k] for k in ("begin", "end"))
            self.add_region(
                name, role, paradigm, begin_line=begin, end_line=end, id=r["id"], file=file, description=text
            )
        self.off_region = self.add_region(
            "NO_LOGGING", "artificial", "user", id=-1, description="measurement is switched off"
        )
        self.tracing_region = self.add_region("TRACING", "artificial", "measurement_system", id=-1, file="TRACER")
        names = [plain_name(name) for name in self.tables["regions"]["name"]]
        self.op_of_region = np.array([*map(collective_of, names), -1], np.int64)
        window_ops = [COLLECTIVE_OPS.index(WINDOW_OPS[name]) if name in WINDOW_OPS else -1 for name in names]
        self.window_op_of_region = np.array([*window_ops, -1], np.int64)
        sites = self._found["CALL_SITE"]
        of = [self._row(r, "region", "REGION") for r in sites]
        if -1 in of:
            raise self.container.error(sites[of.index(-1)]["at"], "a CALL_SITE names no region that it enters")
        for r, region in zip(sites, of, strict=True):
            file = files[row] if (row := self._row(r, "file", "FILE")) >= 0 else ""
            line, caller = 0 if r["line"] == UNDEFINED else r["line"], self._row(r, "caller", "REGION")
            self.add("call_sites", id=r["id"], file=file, line=line, region=region, caller=caller)
        self.callee = np.array([*of, -1], np.int32)

    def _groups(self) -> None:
        """Define groups and communicators: from bit strings in merged traces, groups and references in archives."""
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
        for number, kind, members in groups:
            listed = [] if kind == "comm_self" else [masters[p] for p in members]
            self.add("groups", id=number, type=kind, paradigm="mpi", flags=0, members=listed)
        of_communicators = []
        for number, group in communicators:
            _, kind, members = groups[group] if group >= 0 else (-1, "comm_group", [])
            listed = [] if kind == "comm_self" else [masters[p] for p in members]
            kind = "self" if kind == "comm_self" else "group"
            self.add("communicators", id=number, kind=kind, paradigm="mpi", flags=0, members=listed)
            of_communicators.append(members)
        self.members = sorted_members(of_communicators)
        if not self._found["MPI_GROUP"]:
            # in a merged trace a communicator represents its group
            self.rows["MPI_GROUP"] = dict(communicators)
        windows = self._found["MPI_WIN"]
        of = [self._row(r, "communicator", "MPI_COMM") for r in windows]
        for r, communicator in zip(windows, of, strict=True):
            self.add("windows", id=r["id"], communicator=communicator, flags=1)
        self.comm_of_window = np.array([*of, -1], np.int64)

    def _processes(self, record: dict[str, Any], ranks: Sequence[int]) -> list[int]:
        missing = next((r for r in ranks if r not in self.rows["PROCESS"]), None)
        if missing is not None:
            raise self.container.error(record["at"], f"a communicator names process {missing}, which is not defined")
        return [self.rows["PROCESS"][r] for r in ranks]

    def _metrics(self) -> None:
        found = self._found["METRIC"]
        types = ["float64" if r["dtype"] else "uint64" for r in found]
        self.metric_types = [types] if found else []
        for r, value_type in zip(found, types, strict=True):
            mode = _METRIC_MODES.get(r["mode"], _METRIC_MODES[2])[min(r["interval"], 2)]
            self.add_counter(self._name(r), self._name(r, "description"), mode, value_type, r["id"])
        if found:
            self.add_class_of_counters()

    def _topologies(self) -> None:
        found, places = self._found["CART_TOPOLOGY"], self._found["CART_COORDS"]
        for r in found:
            self.add(
                "topologies",
                id=r["id"],
                name=self._name(r),
                communicator=self._row(r, "communicator", "MPI_COMM"),
                dimensions=[self._name({"name": s, "at": r["at"]}) for s in r["names"]] or [""] * r["n"],
                sizes=r["sizes"],
                periodic=[int(p != 0) for p in r["periodic"]],
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
        for r, t, x in zip(places, of, locations, strict=True):
            rank = ranks[on[t]].get(x, -1) if t >= 0 and on[t] >= 0 else -1
            self.add("topology_coordinates", topology=t, rank=rank, location=x, coordinates=r["coordinates"])

    def _others(self) -> None:
        for name, records in self._found.items():
            for r in records if name not in _TABLED else ():
                values = json.dumps({k: v for k, v in r.items() if k not in ("at", "n_pieces")})
                self.add("other_definitions", record=name, values=values)
        for i, r in enumerate(self._found["NODE"], len(self._found["MACHINE"])):
            for name, value in (("cpus", r["n_cpus"]), ("clock rate", r["clock_rate"])):
                if value is not None:
                    self.add("properties", table="system_tree_nodes", of=i, name=name, value=f"{value:g}")
