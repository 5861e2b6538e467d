"""Read EPILOG files record by record with `struct`: the slow reference of the converter.

There is one object per definition and per event. Events are in file order; EARL's position is 1 to n in that order.
"""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

NONE = 0xFFFFFFFF
MAGIC = b"EPILOG\0"

EVENTS: dict[int, tuple[str, str, bool, str]] = {
    # code: name, fields before the metric values, whether there are metric values, fields after them
    101: ("ENTER", "region", True, ""),
    102: ("EXIT", "", True, ""),
    103: ("MPI_SEND", "dest comm tag length", False, ""),
    104: ("MPI_RECV", "src comm tag", False, ""),
    105: ("MPI_COLLEXIT", "", True, "root comm sent received"),
    106: ("OMP_FORK", "", False, ""),
    107: ("OMP_JOIN", "", False, ""),
    108: ("OMP_ALOCK", "lock", False, ""),
    109: ("OMP_RLOCK", "lock", False, ""),
    110: ("OMP_COLLEXIT", "", True, ""),
    111: ("ENTER_CS", "call_site", True, ""),
    112: ("MPI_PUT_1TS", "dest window rma length", False, ""),
    113: ("MPI_PUT_1TE", "src window rma", False, ""),
    114: ("MPI_GET_1TS", "dest window rma length", False, ""),
    115: ("MPI_GET_1TE", "src window rma", False, ""),
    116: ("MPI_GET_1TO", "rma", False, ""),
    117: ("MPI_WINEXIT", "", True, "window comm synex:B"),
    118: ("MPI_WINCOLLEXIT", "", True, "window"),
    119: ("MPI_WIN_LOCK", "target window exclusive:B", False, ""),
    120: ("MPI_WIN_UNLOCK", "target window", False, ""),
    121: ("MPI_PUT_1TE_REMOTE", "dest window rma", False, ""),
    122: ("MPI_GET_1TS_REMOTE", "dest window rma length", False, ""),
    123: ("PUT_1TS", "dest rma length", False, ""),
    124: ("PUT_1TE", "src rma", False, ""),
    125: ("GET_1TS", "dest rma length", False, ""),
    126: ("GET_1TE", "src rma", False, ""),
    127: ("PUT_1TE_REMOTE", "dest rma", False, ""),
    128: ("GET_1TS_REMOTE", "dest rma length", False, ""),
    129: ("COLLEXIT", "", True, "root comm sent received"),
    130: ("ALOCK", "lock", False, ""),
    131: ("RLOCK", "lock", False, ""),
    132: ("MPI_SEND_COMPLETE", "request", False, ""),
    133: ("MPI_RECV_REQUEST", "request", False, ""),
    134: ("MPI_REQUEST_TESTED", "request", False, ""),
    135: ("MPI_CANCELLED", "request", False, ""),
    201: ("LOG_OFF", "", True, ""),
    202: ("LOG_ON", "", True, ""),
    203: ("ENTER_TRACING", "", True, ""),
    204: ("EXIT_TRACING", "", True, ""),
}
CODE = {row[0]: code for code, row in EVENTS.items()}

ENTER_CODES = frozenset((101, 111, 201, 203))
EXIT_CODES = frozenset((102, 105, 110, 117, 118, 129, 202, 204))

NO_LOGGING = -1
"""Region of LOG_OFF."""
TRACING = -2
"""Region of ENTER_TRACING."""


@dataclass(frozen=True)
class Region:
    """A region; names are resolved, unknown fields are empty or -1."""

    name: str
    file: str = ""
    begin: int = -1
    end: int = -1
    description: str = ""
    type: int = 1


@dataclass(frozen=True)
class Location:
    """A thread of a process."""

    id: int
    machine: int
    node: int
    process: int
    thread: int


@dataclass(frozen=True)
class Node:
    """A node of a machine."""

    id: int
    machine: int
    n_cpus: int
    name: str
    clock_rate: float


@dataclass(frozen=True)
class Metric:
    """A hardware counter."""

    name: str
    description: str
    dtype: int
    mode: int
    interval: int


@dataclass(frozen=True)
class CallSite:
    """A line that calls the region `entered` from the region `left`."""

    file: str
    line: int
    entered: int
    left: int


@dataclass
class Topology:
    """A Cartesian topology, with the coordinates of locations."""

    comm: int
    dims: list[int]
    periodic: list[bool]
    name: str = ""
    dim_names: list[str] = field(default_factory=list)
    coords: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class IdMap:
    """Global ids by local id, for definitions of one record type."""

    record: int
    sparse: bool
    ids: dict[int, int]


@dataclass(frozen=True)
class Group:
    """Processes in the order of their ranks; WORLD and SELF groups have no list."""

    world: bool
    self: bool
    n_ranks: int
    ranks: list[int]


@dataclass(eq=False, slots=True)
class Event:
    """One event: the content of its record.

    Attributes
    ----------
    pos : int
        1 for the first event of the file.
    code : int
        Record type.
    fields : dict of str to int
        Fields by their names in `EVENTS`.
    metrics : tuple of int
        Counter values, one for every counter.
    attributes : tuple of (int, int)
        Attribute records that precede it.
    """

    pos: int
    code: int
    location: int
    time: float
    fields: dict[str, int]
    metrics: tuple[int, ...] = ()
    attributes: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the record type."""
        return EVENTS[self.code][0]


@dataclass
class Recording:
    """Definitions and events of one file.

    `sections` holds the IDMAP records, and `offsets` the OFFSET records, by the rank of the last MAP_SECTION before
    them, -1 without one. `unknown` counts skipped record types.
    """

    big_endian: bool = False
    version: tuple[int, int] = (1, 9)
    strings: dict[int, str] = field(default_factory=dict)
    machines: dict[int, tuple[str, int]] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    locations: dict[int, Location] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    regions: dict[int, Region] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    comms: dict[int, list[int]] = field(default_factory=dict)
    group_comms: set[int] = field(default_factory=set)
    groups: dict[int, Group] = field(default_factory=dict)
    comm_refs: dict[int, int] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)
    call_sites: dict[int, CallSite] = field(default_factory=dict)
    call_paths: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    topologies: dict[int, Topology] = field(default_factory=dict)
    offsets: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    sections: dict[int, list[IdMap]] = field(default_factory=dict)
    n_events: int = -1
    has_last_def: bool = False
    unknown: Counter[int] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)

    def region_of(self, event: Event) -> int:
        """Return the region that an ENTER enters."""
        match event.code:
            case 101:
                return event.fields["region"]
            case 111:
                return self.call_sites[event.fields["call_site"]].entered
            case 201:
                return NO_LOGGING
        return TRACING

    def region(self, number: int) -> Region:
        """Return a region, which may be one of the measurement system."""
        if number == NO_LOGGING:
            return Region("NO_LOGGING")
        if number == TRACING:
            return Region("TRACING", "TRACER")
        return self.regions[number]

    def masters(self) -> dict[int, int]:
        """Return the location of thread 0 of every process."""
        return {x.process: x.id for x in self.locations.values() if x.thread == 0}


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Split the data after the header into (record type, body)."""
    at = 10
    while at < len(data):
        length, code = data[at], data[at + 1]
        body = data[at + 2 : at + 2 + length]
        if len(body) < length:
            raise ValueError(f"record {code} at byte {at} is cut")
        yield code, body
        at += 2 + length


def bits(data: bytes) -> list[int]:
    """Return the numbers of the set bits, least significant first."""
    return [8 * i + j for i, byte in enumerate(data) for j in range(8) if byte >> j & 1]


def load(source: Path | str | bytes) -> bytes:
    """Return the bytes of a file, decompressed."""
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def read_epilog(
    source: Path | str | bytes, default_location: int | None = None, n_metrics: int | None = None
) -> Recording:
    """Read a file.

    Parameters
    ----------
    source : path or bytes
        Plain or compressed.
    default_location : int, optional
        Location of records without one; by default the last one defined.
    n_metrics : int, optional
        Number of counter values, if other files define the counters.
    """
    data = load(source)
    if data[:7] != MAGIC or len(data) < 10 or data[9] not in (1, 2):
        raise ValueError("not an EPILOG file")
    r = Recording(data[9] == 2, (data[7], data[8]))
    order = ">" if r.big_endian else "<"

    def numbers(raw: bytes) -> list[int]:
        return list(struct.unpack(f"{order}{len(raw) // 4}I", raw))

    def signed(number: int) -> int:
        return -1 if number == NONE else number

    def name(number: int) -> str:
        return "" if number == NONE else r.strings[number]

    def file_name(number: int) -> str:
        return "" if number == NONE else r.files[number]

    section = -1
    missing = 0  # continuation records still to come
    raw = b""  # a bitstring or list so far
    current: list[int] = []
    attributes: list[tuple[int, int]] = []
    layouts: dict[tuple[int, int], tuple[str, list[str], int, int] | None] = {}

    for code, body in records(data):
        if code >= 100:
            if code not in EVENTS:
                r.unknown[code] += 1
                continue
            key = code, len(body)
            if key not in layouts:
                layouts[key] = event_layout(code, len(body), order, len(r.metrics) if n_metrics is None else n_metrics)
            layout = layouts[key]
            if layout is None:
                raise ValueError(f"{EVENTS[code][0]} of {len(body)} bytes with {len(r.metrics)} metrics")
            form, names, before, n_values = layout
            values = struct.unpack(form, body)
            with_location = form[1] == "I"
            if with_location:
                location = values[0]
            elif default_location is not None:
                location = default_location
            else:
                location = next(reversed(r.locations), 0)
            time = values[with_location]
            rest = values[with_location + 1 :]
            plain = [signed(v) for v in (*rest[:before], *rest[before + n_values :])]
            r.events.append(
                Event(
                    len(r.events) + 1,
                    code,
                    location,
                    time,
                    dict(zip(names, plain, strict=True)),
                    tuple(rest[before : before + n_values]),
                    tuple(attributes),
                )
            )
            attributes.clear()
        elif code == 1:
            (current_id,) = numbers(body[:4])
            missing = body[4]
            raw = body[5:]
            current = [current_id]
            if not missing:
                r.strings[current_id] = raw.split(b"\0")[0].decode("latin-1")
        elif code == 2:
            raw += body
            missing -= 1
            if not missing:
                r.strings[current[0]] = raw.split(b"\0")[0].decode("latin-1")
        elif code == 3:
            mid, n_nodes, text = numbers(body)
            r.machines[mid] = name(text), n_nodes
        elif code == 4:
            nid, mid, n_cpus, text = numbers(body[:16])
            rate = struct.unpack(order + "d", body[16:24])[0] if len(body) >= 24 else 1.0
            r.nodes[nid] = Node(nid, mid, n_cpus, name(text), rate)
        elif code == 5:
            pid, text = numbers(body)
            r.processes[pid] = name(text)
        elif code == 6:
            tid, pid, text = numbers(body)
            r.threads[pid, tid] = name(text)
        elif code == 7:
            where = Location(*numbers(body))
            r.locations[where.id] = where
        elif code == 8:
            fid, text = numbers(body)
            r.files[fid] = name(text)
        elif code == 9:
            rid, text, fid, begin, end, description = numbers(body[:24])
            r.regions[rid] = Region(name(text), file_name(fid), signed(begin), signed(end), name(description), body[24])
        elif code == 10:
            _, text, description = numbers(body[:12])
            r.metrics.append(Metric(name(text), name(description), *body[12:15]))
        elif code == 11:
            with_mode = r.version >= (1, 3)
            (cid,) = numbers(body[:4])
            if with_mode and body[4] & 1:
                r.group_comms.add(cid)
            at = 4 + with_mode
            (n_bytes,) = numbers(body[at : at + 4])
            raw = body[at + 4 :]
            current = [cid, n_bytes]
            r.comms[cid] = bits(raw[:n_bytes])
        elif code == 19:
            raw += body
            r.comms[current[0]] = bits(raw[: current[1]])
        elif code == 12:
            r.offsets.setdefault(section, []).append(struct.unpack(order + "dd", body))
        elif code == 13:
            r.has_last_def = True
        elif code == 14:
            (r.n_events,) = numbers(body)
        elif code == 15:
            csid, fid, line, entered, left = numbers(body)
            r.call_sites[csid] = CallSite(file_name(fid), signed(line), signed(entered), signed(left))
        elif code == 16:
            topid, cid = numbers(body[:8])
            n = body[8]
            t = Topology(signed(cid), numbers(body[9 : 9 + 4 * n]), [x != 0 for x in body[9 + 4 * n : 9 + 5 * n]])
            if len(body) > 9 + 5 * n:
                text, *dims = numbers(body[9 + 5 * n :])
                t.name, t.dim_names = name(text), [name(d) for d in dims]
            r.topologies[topid] = t
        elif code == 17:
            topid, lid = numbers(body[:8])
            r.topologies[topid].coords[lid] = numbers(body[9:])
        elif code == 18:
            wid, cid = numbers(body)
            r.windows[wid] = cid
        elif code == 20:
            cpid, rid, parent = numbers(body[:12])
            r.call_paths[cpid] = rid, signed(parent), struct.unpack(order + "Q", body[12:20])[0]
        elif code == 23:
            (section,) = numbers(body)
        elif code in (25, 26):
            if code == 25:
                current = [body[0], body[1], *numbers(body[2:6])]
                raw = body[6:]
            else:
                raw += body
            record, mode, n = current
            ids = numbers(raw)
            if len(ids) == n:
                pairs = dict(zip(ids[::2], ids[1::2], strict=True)) if mode else dict(enumerate(ids))
                r.sections.setdefault(section, []).append(IdMap(record, bool(mode), pairs))
        elif code in (27, 28):
            if code == 27:
                gid, n = numbers(body[:4] + body[5:9])
                current = [gid, body[4], n]
                raw = body[9:]
            else:
                raw += body
            gid, mode, n = current
            r.groups[gid] = Group(bool(mode & 1), bool(mode & 2), n, numbers(raw))
        elif code == 29:
            cid, gid = numbers(body)
            r.comm_refs[cid] = gid
        elif code == 60:
            attributes.append((body[0], body[1]))
        elif code == 61:
            attributes.append((body[0], numbers(body[1:])[0]))
        elif code not in (21, 22, 24, 30):
            r.unknown[code] += 1
    return r


def event_layout(code: int, length: int, order: str, n_metrics: int) -> tuple[str, list[str], int, int] | None:
    """Return format, field names, number of fields before the metric values, and number of these; the location is
    included if the length matches. Return None if no layout has this length."""
    _, before, has_metrics, after = EVENTS[code]
    first, second = before.split(), after.split()
    types = ["B" if f.endswith(":B") else "I" for f in first + second]
    n = n_metrics if has_metrics else 0
    form = "d" + "".join(types[: len(first)]) + "Q" * n + "".join(types[len(first) :])
    for with_location in ("I", ""):
        if struct.calcsize(order + with_location + form) == length:
            names = [f.removesuffix(":B") for f in first + second]
            return order + with_location + form, names, len(first), n
    return None


def merge_archive(folder: Path) -> Recording:
    """Merge the files of all processes by corrected time; events of the same time are in the order of processes.

    This is the intended behaviour of `elg_merge`: SELF communicators become one for every process, groups of access and
    exposure epochs become communicators after all others, partners become locations, time begins at 0 with the first
    event. Transfers end at the synchronisation that completes them, even those that `elg_merge` itself forgets (GET in
    an access epoch, PUT under a lock).
    """
    esd, maps = read_epilog(folder / "epik.esd"), read_epilog(folder / "epik.map")
    out = Recording(**{**vars(esd), "comms": {}, "comm_refs": {}, "groups": {}, "windows": {}, "topologies": {}})
    out.events, out.unknown = [], Counter()
    master = esd.masters()
    n = len(master)

    def ranks_of(group: Group) -> list[int]:
        return list(range(group.n_ranks)) if group.world else group.ranks

    expanded: dict[int, list[int]] = {}
    ranks: dict[int, list[int]] = {}
    for cid, gid in esd.comm_refs.items():
        group = esd.groups[gid]
        members = [[p] for p in range(n)] if group.self else [ranks_of(group)]
        expanded[cid] = []
        for m in members:
            number = len(out.comms)
            expanded[cid].append(number)
            out.comms[number], ranks[number] = sorted(m), m
            if group.world:
                out.group_comms.add(number)

    def of_process(numbers: list[int], process: int) -> int:
        return numbers[0] if len(numbers) == 1 else numbers[process]

    window_ids: dict[int, list[int]] = {}
    for wid, cid in esd.windows.items():
        window_ids[wid] = list(range(len(out.windows), len(out.windows) + len(expanded[cid])))
        for c in expanded[cid]:
            out.windows[len(out.windows)] = c
    for number, t in esd.topologies.items():
        comm = t.comm if t.comm < 0 else expanded[t.comm][0]
        out.topologies[number] = Topology(comm, t.dims, t.periodic, t.name, t.dim_names, t.coords)

    # -- the files of the processes, with global ids

    group_ids: dict[int, int] = {}
    streams: dict[int, list[Event]] = {}
    for process in sorted(master):
        offsets = maps.offsets.get(process, [])
        known = {m.record: m.ids for m in maps.sections.get(process, [])}

        def to_global(record: int, local: int, known: dict[int, dict[int, int]] = known) -> int:
            return known[record][local] if record in known else local

        local = read_epilog(folder / "ELG" / f"{process:05d}", -1, len(esd.metrics))
        out.unknown += local.unknown
        streams[process] = []
        for e in local.events:
            if 132 <= e.code <= 135:
                continue
            e.attributes = ()
            e.location = master[process] if e.location < 0 else to_global(7, e.location)
            if offsets:
                (l0, o0), (l1, o1) = offsets[0], offsets[-1]
                slope = (o1 - o0) / (l1 - l0) if l1 != l0 else 0.0
                e.time = e.time + slope * (e.time - l0) + o0
            f = e.fields
            if "region" in f:
                f["region"] = to_global(9, f["region"])
            if "call_site" in f:
                f["call_site"] = to_global(15, f["call_site"])
            of = None
            if "window" in f:
                f["window"] = of_process(window_ids[to_global(18, f["window"])], process)
                of = out.windows[f["window"]]
            if e.name == "MPI_WINEXIT":
                gid = to_global(27, f["comm"])
                if gid not in group_ids:
                    group_ids[gid] = number = len(out.comms)
                    ranks[number] = ranks_of(esd.groups[gid])
                    out.comms[number] = sorted(ranks[number])
                    out.group_comms.add(number)
                f["comm"] = group_ids[gid]
            elif "comm" in f:
                of = f["comm"] = of_process(expanded[to_global(11, f["comm"])], process)
            for key in ("src", "dest", "root", "target"):
                if f.get(key, -1) >= 0:
                    f[key] = master[f[key] if of is None else ranks[of][f[key]]]
            streams[process].append(e)

    # -- merging

    puts: dict[tuple[int, int, int, int], list[Event]] = {}
    gets: dict[tuple[int, int], list[Event]] = {}
    started: Counter[tuple[int, int, int]] = Counter()
    posted: Counter[tuple[int, int, int]] = Counter()
    entered: dict[int, list[int]] = {x: [] for x in esd.locations}
    start: float | None = None

    def emit(e: Event, time: float, location: int | None = None, name: str | None = None, **fields: int) -> None:
        code = e.code if name is None else CODE[name]
        where = e.location if location is None else location
        out.events.append(Event(len(out.events) + 1, code, where, time, {**e.fields, **fields}, e.metrics))

    def rename(e: Event, time: float, location: int, name: str, **fields: int) -> None:
        out.events.append(Event(len(out.events) + 1, CODE[name], location, time, fields))

    def end_puts(
        window: int, target: int, origins: list[int], time: float, epoch: Counter[tuple[int, int, int]]
    ) -> None:
        for origin in sorted(origins):
            for e in puts.pop((window, target, origin, epoch[window, target, origin]), []):
                rename(e, time, target, "MPI_PUT_1TE", src=origin, window=window, rma=e.fields["rma"])

    def end_gets(window: int, origin: int, time: float) -> None:
        for e in gets.pop((window, origin), []):
            emit(e, time)

    places = dict.fromkeys(streams, 0)
    while any(places[p] < len(streams[p]) for p in streams):
        ready = [p for p in streams if places[p] < len(streams[p])]
        process = min(ready, key=lambda p: (streams[p][places[p]].time, p))
        e = streams[process][places[process]]
        places[process] += 1
        start = e.time if start is None else start
        time = e.time - start
        at, f = e.location, e.fields
        if e.code in ENTER_CODES:
            entered[at].append(out.region_of(e))
        call = out.region(entered[at][-1]).name if entered[at] else ""
        if e.code in EXIT_CODES:
            entered[at].pop()
        window = f.get("window", -1)
        match e.name:
            case "MPI_PUT_1TE_REMOTE":
                puts.setdefault((window, f["dest"], at, started[window, f["dest"], at]), []).append(e)
                continue
            case "MPI_GET_1TE":
                gets.setdefault((window, at), []).append(e)
                continue
            case "MPI_GET_1TS_REMOTE":
                rename(e, time, at, "MPI_GET_1TO", rma=f["rma"])
                emit(e, time, f["dest"], "MPI_GET_1TS", dest=at)
                continue
            case "GET_1TS_REMOTE":
                emit(e, time, f["dest"], "GET_1TS", dest=at)
                continue
            case "PUT_1TE_REMOTE":
                rename(e, time, f["dest"], "PUT_1TE", src=at, rma=f["rma"])
                continue
            case "MPI_WINCOLLEXIT" if call == "MPI_Win_fence":
                end_gets(window, at, time)
                end_puts(window, at, [master[p] for p in out.comms[out.windows[window]]], time, started)
            case "MPI_WINEXIT":
                others = [master[p] for p in out.comms[f["comm"]]]
                if call == "MPI_Win_start":
                    started.update((window, target, at) for target in others)
                elif call == "MPI_Win_post":
                    posted.update((window, at, origin) for origin in others)
                elif call == "MPI_Win_complete":
                    end_gets(window, at, time)
                elif f["synex"]:
                    end_puts(window, at, others, time, posted)
            case "MPI_WIN_UNLOCK":
                end_gets(window, at, time)
                end_puts(window, f["target"], [at], time, started)
        emit(e, time)
    out.n_events = len(out.events)
    return out
