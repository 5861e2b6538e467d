"""Write EPILOG files and EPIK archives in plain Python.

For tests: every definition, every event record, any byte order, records that do not exist, and whole recordings.
Example::

    w = EpilogWriter()
    w.process(n_threads=1)
    w.process(n_threads=1)
    world = w.comm([0, 1])
    w.enter(0, 0.0, "MPI_Send").send(0, 0.1, dest=1, comm=world, tag=7, length=64).exit(0, 0.2)
    w.enter(1, 0.0, "MPI_Recv").recv(1, 0.3, src=0, comm=world, tag=7).exit(1, 0.4)
    w.write(tmp_path / "epik.elg")

Definitions are numbered in the order in which they are made and precede all events; regions, files and strings may be
given by name and are defined when first used. `None` is written as EPILOG's value for nothing. A location `None` omits
the location from the record.
"""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from oracles.epilog import CODE, EVENTS, MAGIC, NONE, Event, Recording

FUNCTION = 1
CALL_SITE, LOCATION, REGION, COMM, WINDOW, GROUP, CALL_PATH = 15, 7, 9, 11, 18, 27, 20
WORLD, SELF = 1, 2
VERBS = {
    "enter_cs": "ENTER_CS call_site",
    "send": "MPI_SEND dest comm tag length",
    "recv": "MPI_RECV src comm tag",
    "collexit": "MPI_COLLEXIT comm root sent received",
    "fork": "OMP_FORK",
    "join": "OMP_JOIN",
    "acquire": "OMP_ALOCK lock",
    "release": "OMP_RLOCK lock",
    "omp_collexit": "OMP_COLLEXIT",
    "put_start": "MPI_PUT_1TS dest window rma length",
    "put_end": "MPI_PUT_1TE src window rma",
    "put_end_remote": "MPI_PUT_1TE_REMOTE dest window rma",
    "get_start": "MPI_GET_1TS dest window rma length",
    "get_start_remote": "MPI_GET_1TS_REMOTE dest window rma length",
    "get_end": "MPI_GET_1TE src window rma",
    "get_origin": "MPI_GET_1TO rma",
    "winexit": "MPI_WINEXIT window comm synex",
    "wincollexit": "MPI_WINCOLLEXIT window",
    "win_lock": "MPI_WIN_LOCK target window exclusive",
    "win_unlock": "MPI_WIN_UNLOCK target window",
}
"""Methods that record events: kind of event, and its fields in order."""
DEFAULTS = {"comm": 0, "tag": 0, "length": 8, "root": None, "sent": 0, "received": 0, "exclusive": 1}


def region_type(name: str) -> int:
    """Guess the type of a region, as EPIK would record it, from its name."""
    if not name.startswith("!$"):
        return FUNCTION
    words = name.removeprefix("!$omp ").removeprefix("!$").split(" @")[0]
    types = {
        "parallel": 11, "do": 12, "for": 12, "sections": 13, "section": 14, "workshare": 15, "single": 16, "master": 17,
        "critical": 18, "atomic": 19, "barrier": 20, "ibarrier": 21, "flush": 22, "sblock": 23, "critical sblock": 23,
        "single sblock": 24, "ordered": 25, "ordered sblock": 26,
    }  # fmt: skip
    return types.get(words, 0)


class EpilogWriter:
    """One file. Methods that define return an id, methods that record return the writer.

    Parameters
    ----------
    big_endian : bool
        Byte order.
    version : (int, int)
        Older versions write fewer fields.
    last_def : bool
        Whether LAST_DEF ends the definitions.
    n_events : int, optional
        Value of NUM_EVENTS; by default the number of events. If negative, the record is omitted.
    """

    def __init__(
        self,
        big_endian: bool = False,
        version: tuple[int, int] = (1, 9),
        last_def: bool = True,
        n_events: int | None = None,
    ) -> None:
        self.big_endian, self.version, self.last_def, self.n_events = big_endian, version, last_def, n_events
        self.order = ">" if big_endian else "<"
        self.definitions: list[bytes] = []
        self.events: list[bytes] = []
        self.recorded = 0
        self.n_metrics = 0
        self.strings: dict[str, int] = {}
        self.files: dict[str, int] = {}
        self.regions: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    # -- bytes -----------------------------------------------------------------------------------------------------

    def u4(self, *values: int | None) -> bytes:
        """Encode numbers; None is 0xFFFFFFFF."""
        return struct.pack(f"{self.order}{len(values)}I", *(NONE if v is None or v == -1 else v for v in values))

    def d8(self, *values: float) -> bytes:
        """Encode floating-point numbers."""
        return struct.pack(f"{self.order}{len(values)}d", *values)

    @staticmethod
    def record(code: int, body: bytes) -> bytes:
        """Put length and type in front."""
        return bytes([len(body), code]) + body

    def define(self, code: int, body: bytes) -> None:
        """Append a definition unchanged."""
        self.definitions.append(self.record(code, body))

    def raw(self, code: int, body: bytes) -> Self:
        """Append a record of any type to the events; it does not count as an event."""
        self.events.append(self.record(code, body))
        return self

    def next(self, kind: str) -> int:
        """Return the next id of a kind of definition."""
        self.counts[kind] = self.counts.get(kind, -1) + 1
        return self.counts[kind]

    def in_pieces(self, code: int, head: bytes, content: bytes, next_code: int) -> None:
        """Write content that may be too long for a record: as much as fits, the rest in records of type `next_code`."""
        size = 255 - len(head)
        size -= size % 4 if next_code != 19 else 0
        self.define(code, head + content[:size])
        step = 255 if next_code == 19 else 252
        for at in range(size, len(content), step):
            self.define(next_code, content[at : at + step])

    def build(self) -> bytes:
        """Return the whole file."""
        head = MAGIC + bytes([*self.version, 2 if self.big_endian else 1])
        n = self.recorded if self.n_events is None else self.n_events
        ends = [self.record(14, self.u4(n))] if n >= 0 else []
        if self.last_def:
            ends.append(self.record(13, b""))
        return b"".join([head, *self.definitions, *ends, *self.events])

    def write(self, path: Path, compress: bool = False) -> Path:
        """Write the file, as gzip if `compress`, and return its path."""
        data = self.build()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data, mtime=0) if compress else data)
        return path

    # -- definitions -----------------------------------------------------------------------------------------------

    def string(self, text: str | None) -> int | None:
        """Define a string once, in several records if it is long."""
        if text is None:
            return None
        if text in self.strings:
            return self.strings[text]
        number = self.strings[text] = self.next("string")
        data = text.encode("latin-1") + b"\0"
        if len(data) <= 250:
            self.define(1, self.u4(number) + b"\0" + data)
        else:
            rest = [data[at : at + 255] for at in range(250, len(data), 255)]
            self.define(1, self.u4(number) + bytes([len(rest)]) + data[:250])
            for piece in rest:
                self.define(2, piece)
        return number

    def file(self, name: str | None) -> int | None:
        """Define a source file once."""
        if name is None:
            return None
        if name not in self.files:
            text = self.string(name)
            self.files[name] = self.next("file")
            self.define(8, self.u4(self.files[name], text))
        return self.files[name]

    def machine(self, name: str = "machine", n_nodes: int = 1) -> int:
        """Define a machine."""
        text, number = self.string(name), self.next("machine")
        self.define(3, self.u4(number, n_nodes, text))
        return number

    def node(self, machine: int = 0, n_cpus: int = 1, name: str = "node", clock_rate: float = 1e9) -> int:
        """Define a node."""
        text, number = self.string(name), self.next("node")
        body = self.u4(number, machine, n_cpus, text)
        self.define(4, body + self.d8(clock_rate) if self.version >= (1, 1) else body)
        return number

    def process_name(self, process: int, name: str) -> None:
        """Define a process; EPIK leaves this record out."""
        self.define(5, self.u4(process, self.string(name)))

    def thread_name(self, process: int, thread: int, name: str) -> None:
        """Define a thread; EPIK leaves this record out."""
        self.define(6, self.u4(thread, process, self.string(name)))

    def location(self, machine: int, node: int, process: int, thread: int, number: int | None = None) -> int:
        """Define a location."""
        number = self.next("location") if number is None else number
        self.define(LOCATION, self.u4(number, machine, node, process, thread))
        return number

    def process(self, n_threads: int = 1) -> list[int]:
        """Define a process with its locations, and the machine and node it runs on if there are none yet."""
        if "machine" not in self.counts:
            self.machine()
            self.node()
        process = self.next("process")
        return [self.location(0, 0, process, thread) for thread in range(n_threads)]

    def region(
        self,
        name: str,
        file: str | None = None,
        begin: int | None = None,
        end: int | None = None,
        description: str | None = None,
        type: int | None = None,
    ) -> int:
        """Define a region, even if its name exists; events that give a name refer to the first one."""
        fid, text, about = self.file(file), self.string(name), self.string(description)
        number = self.next("region")
        kind = region_type(name) if type is None else type
        self.define(REGION, self.u4(number, text, fid, begin, end, about) + bytes([kind]))
        self.regions.setdefault(name, number)
        return number

    def metric(self, name: str, description: str = "", dtype: int = 0, mode: int = 0, interval: int = 0) -> int:
        """Define a counter: from now on every record that can hold counters has a value for it."""
        text, about = self.string(name), self.string(description)
        number = self.next("metric")
        self.n_metrics += 1
        self.define(10, self.u4(number, text, about) + bytes([dtype, mode, interval]))
        return number

    def comm(
        self, processes: Iterable[int], is_group: bool = False, n_bytes: int | None = None, number: int | None = None
    ) -> int:
        """Define a communicator as a bitstring of processes."""
        number = self.next("comm") if number is None else number
        members = sorted(processes)
        n_bytes = (members[-1] // 8 + 1 if members else 1) if n_bytes is None else n_bytes
        field = bytearray(n_bytes)
        for p in members:
            field[p // 8] |= 1 << p % 8
        mode = bytes([is_group]) if self.version >= (1, 3) else b""
        self.in_pieces(COMM, self.u4(number) + mode + self.u4(n_bytes), bytes(field), 19)
        return number

    def group(self, processes: Sequence[int] = (), mode: int = 0, n_ranks: int | None = None) -> int:
        """Define a group by its processes in the order of their ranks, or as WORLD or SELF."""
        number = self.next("group")
        ranks = b"" if mode else self.u4(*processes)
        n_ranks = len(processes) if n_ranks is None else n_ranks
        # 61 ranks fit after this head, 63 into every further record
        self.in_pieces(GROUP, self.u4(number) + bytes([mode]) + self.u4(n_ranks), ranks, 28)
        return number

    def comm_ref(self, group: int) -> int:
        """Define a communicator by its group."""
        number = self.next("comm")
        self.define(29, self.u4(number, group))
        return number

    def comm_dist(self, comm: int, root: int, local: int, rank: int, size: int) -> None:
        """Define a communicator as one process knows it."""
        self.define(30, self.u4(comm, root, local, rank, size))

    def window(self, comm: int) -> int:
        """Define an RMA window."""
        number = self.next("window")
        self.define(WINDOW, self.u4(number, comm))
        return number

    def call_site(self, file: str | None, line: int | None, entered: int, left: int | None) -> int:
        """Define a call site by the regions it enters and leaves."""
        fid, number = self.file(file), self.next("call site")
        self.define(CALL_SITE, self.u4(number, fid, line, entered, left))
        return number

    def call_path(self, region: int, parent: int | None, order: int = 0) -> int:
        """Define a call path."""
        number = self.next("call path")
        self.define(CALL_PATH, self.u4(number, region, parent) + struct.pack(self.order + "Q", order))
        return number

    def topology(
        self,
        comm: int | None,
        dims: Sequence[int],
        periodic: Sequence[bool],
        name: str | None = None,
        dim_names: Sequence[str | None] = (),
        old: bool = False,
    ) -> int:
        """Define a Cartesian topology; without names before version 1.9, and in the old form."""
        old = old or self.version < (1, 9)
        text = None if old else self.string(name)
        names = [] if old else [self.string(n) for n in dim_names or [None] * len(dims)]
        number = self.next("topology")
        body = self.u4(number, comm) + bytes([len(dims)]) + self.u4(*dims) + bytes(map(bool, periodic))
        self.define(16, body if old else body + self.u4(text, *names))
        return number

    def coords(self, topology: int, location: int, coords: Sequence[int]) -> None:
        """Define the coordinates of a location in a topology."""
        self.define(17, self.u4(topology, location) + bytes([len(coords)]) + self.u4(*coords))

    def event_types(self, types: Sequence[int]) -> None:
        """Define the types of events that occur."""
        self.define(21, self.u4(len(types)) + bytes(types))

    def offset(self, local: float, offset: float) -> None:
        """Define the offset of a clock at a local time."""
        self.define(12, self.d8(local, offset))

    def map_section(self, rank: int) -> None:
        """Begin the section of a process."""
        self.define(23, self.u4(rank))

    def idmap(self, record: int, ids: Mapping[int, int], sparse: bool = False) -> None:
        """Map local to global ids."""
        if sparse:
            values = [x for pair in ids.items() for x in pair]
        else:
            values = [ids[i] for i in range(len(ids))]
        # 62 numbers fit after this head, 63 into every further record
        self.in_pieces(25, bytes([record, sparse]) + self.u4(len(values)), self.u4(*values), 26)

    # -- events ----------------------------------------------------------------------------------------------------

    def event(
        self, kind: str | int, location: int | None, time: float, metrics: Sequence[int] = (), /, **fields: int | None
    ) -> Self:
        """Record an event of any type, by the field names of `oracles.epilog.EVENTS`; counters are 0 if left out."""
        code = CODE[kind] if isinstance(kind, str) else kind
        _, before, has_metrics, after = EVENTS[code]
        strange = set(fields) ^ {f.removesuffix(":B") for f in before.split() + after.split()}
        if strange:
            raise TypeError(f"{kind} has or lacks {sorted(strange)}")

        def pack(names: str) -> bytes:
            body = b""
            for f in names.split():
                value = fields[f.removesuffix(":B")]
                body += bytes([value or 0]) if f.endswith(":B") else self.u4(value)
            return body

        values = list(metrics) or [0] * self.n_metrics
        if has_metrics and len(values) != self.n_metrics:
            raise ValueError(f"{kind} needs {self.n_metrics} counters, not {len(values)}")
        where = b"" if location is None else self.u4(location)
        counters = struct.pack(f"{self.order}{len(values)}Q", *values) if has_metrics else b""
        self.events.append(self.record(code, where + self.d8(time) + pack(before) + counters + pack(after)))
        self.recorded += 1
        return self

    def attribute(self, attribute: int, value: int, wide: bool = True) -> Self:
        """Annotate the event that follows."""
        return self.raw(61, bytes([attribute]) + self.u4(value)) if wide else self.raw(60, bytes([attribute, value]))

    def region_id(self, region: int | str) -> int:
        """Return the id of a region; define it if it is not yet defined."""
        if isinstance(region, str):
            return self.regions[region] if region in self.regions else self.region(region)
        return region

    def enter(self, location: int | None, time: float, region: int | str, metrics: Sequence[int] = ()) -> Self:
        """Record ENTER."""
        return self.event("ENTER", location, time, metrics, region=self.region_id(region))

    def exit(self, location: int | None, time: float, metrics: Sequence[int] = ()) -> Self:
        """Record EXIT."""
        return self.event("EXIT", location, time, metrics)

    def __getattr__(self, verb: str) -> Callable[..., Self]:
        """Return the method that records an event of `VERBS`: location, time, then fields in order or by name."""
        if verb not in VERBS:
            raise AttributeError(verb)
        kind, *names = VERBS[verb].split()

        def record(
            location: int | None, time: float, *values: int | None, metrics: Sequence[int] = (), **fields: int | None
        ) -> Self:
            given = {**DEFAULTS, **dict(zip(names, values, strict=False)), **fields}
            return self.event(kind, location, time, metrics, **{name: given[name] for name in names})

        return record


# -- recordings --------------------------------------------------------------------------------------------------------


def _define_system(w: EpilogWriter, r: Recording) -> None:
    """Write all definitions of a recording except communicators and definitions that refer to them."""
    for name, n_nodes in r.machines.values():
        w.machine(name, n_nodes)
    for node in r.nodes.values():
        w.node(node.machine, node.n_cpus, node.name, node.clock_rate)
    for process, name in r.processes.items():
        w.process_name(process, name)
    for (process, thread), name in r.threads.items():
        w.thread_name(process, thread, name)
    for x in r.locations.values():
        w.location(x.machine, x.node, x.process, x.thread, x.id)
    for file in r.files.values():
        w.file(file)
    for region in r.regions.values():
        w.region(region.name, region.file or None, region.begin, region.end, region.description or None, region.type)
    for cs in r.call_sites.values():
        w.call_site(cs.file or None, cs.line, cs.entered, cs.left)
    for entered, parent, order in r.call_paths.values():
        w.call_path(entered, parent, order)
    for m in r.metrics:
        w.metric(m.name, m.description, m.dtype, m.mode, m.interval)


def _define_topologies(w: EpilogWriter, r: Recording, comms: Mapping[int, int]) -> None:
    """Write the topologies of a recording; those without any name in the old form."""
    for number, t in r.topologies.items():
        old = not t.name and not t.dim_names
        comm = None if t.comm < 0 else comms[t.comm]
        w.topology(comm, t.dims, t.periodic, t.name or None, [n or None for n in t.dim_names], old)
        for location, coords in t.coords.items():
            w.coords(number, location, coords)


def _record(w: EpilogWriter, e: Event, location: int | None, time: float, **changed: int) -> None:
    """Write an event of the recording, with some fields changed."""
    for attribute, value in e.attributes:
        w.attribute(attribute, value)
    fields = {**e.fields, **changed}
    w.event(e.code, location, time, e.metrics, **fields)


def merged(r: Recording, last_def: bool = True, n_events: int | None = None) -> EpilogWriter:
    """Return a recording as one file; ids do not change."""
    w = EpilogWriter(r.big_endian, r.version, last_def, n_events)
    _define_system(w, r)
    n_bytes = (len({x.process for x in r.locations.values()}) + 7) // 8
    for number, members in r.comms.items():
        w.comm(members, number in r.group_comms, n_bytes, number)
    _define_topologies(w, r, {c: c for c in r.comms})
    for comm in r.windows.values():
        w.window(comm)
    for e in r.events:
        _record(w, e, e.location, e.time)
    return w


class _Comms:
    """Communicators of a merged recording as an archive defines them: with groups, and one SELF for all processes.

    Attributes
    ----------
    number : dict of int to int
        Global id in the archive, by id in the recording.
    ranks : dict of int to list of int
        Processes by rank, by id in the recording.
    group : dict of int to int
        Global group, by id in the recording.
    """

    def __init__(
        self, w: EpilogWriter, r: Recording, n_processes: int, rng: random.Random, only_groups: set[int]
    ) -> None:
        self.number: dict[int, int] = {}
        self.ranks: dict[int, list[int]] = {}
        self.group: dict[int, int] = {}
        known: dict[tuple[int, ...], int] = {}
        self.own: set[int] = set()
        ids = sorted(r.comms)
        while ids:
            c = ids.pop(0)
            members = r.comms[c]
            run = [r.comms[x] for x in range(c, c + n_processes) if x in r.comms and x not in only_groups]
            if run == [[p] for p in range(n_processes)] and n_processes > 1:
                # merging expands this one to a communicator for each process
                group = w.group((), SELF, 1)
                number = w.comm_ref(group)
                for p in range(n_processes):
                    self.number[c + p], self.ranks[c + p], self.group[c + p] = number, [p], group
                    self.own.add(c + p)
                del ids[: n_processes - 1]
                continue
            # merging marks communicators of WORLD as used as a group
            if members == list(range(n_processes)) and c in r.group_comms and c not in only_groups:
                group = known.setdefault((-1,), -1)
                if group < 0:
                    group = known[-1,] = w.group((), WORLD, n_processes)
                ranks = members
            else:
                ranks = rng.sample(members, len(members))
                group = w.group(ranks)
            self.ranks[c], self.group[c] = ranks, group
            if c not in only_groups:
                self.number[c] = w.comm_ref(group)


def write_archive(
    r: Recording,
    folder: Path,
    seed: int = 0,
    *,
    sparse: bool = False,
    identity: bool = False,
    compress: bool = True,
    offsets: Mapping[int, Sequence[tuple[float, float]]] | None = None,
    base: float = 0.0,
    with_locations: bool = False,
    definitions_in_files: bool = False,
    last_def: bool = False,
    requests: bool = False,
) -> Path:
    """Write a merged recording as the archive it could have been merged from.

    Merging gives the recording back if every tie between processes is in the order of processes, the first event is at
    0.0, and communicators that are only groups come last, in the order of their first use by process. n consecutive
    communicators of the single processes 0 to n - 1 become one SELF communicator.

    Parameters
    ----------
    r : Recording
        Merged.
    folder : path
        Gets `epik.esd`, `epik.map` and `ELG/00000` etc.
    seed : int
        Seed of the local ids and of the ranks in communicators.
    sparse : bool
        Whether local ids have gaps, so that maps are lists of pairs.
    identity : bool
        Local ids are the global ones, and there are no maps.
    compress : bool
        Whether the files of processes are compressed by gzip; definitions and maps never are.
    offsets : mapping of int to list of (local time, offset), optional
        Up to two per process; local times are such that correction restores the times of the recording.
    base : float
        Time of all clocks at the begin of the recording.
    with_locations : bool
        Write locations even if the process has only one thread.
    definitions_in_files : bool
        Begin the files of processes with their LOCATIONs, NUM_EVENTS and LAST_DEF; EPIK writes events only.
    last_def : bool
        End the global definitions with NUM_EVENTS and LAST_DEF; EPIK does not.
    requests : bool
        Add request attributes and events that merging drops.
    """
    rng = random.Random(seed)
    offsets = offsets or {}
    masters = r.masters()
    process_of = {x.id: x.process for x in r.locations.values()}
    processes = sorted(masters)
    only_groups = {e.fields["comm"] for e in r.events if e.name == "MPI_WINEXIT"}
    version = max(r.version, (1, 8))

    esd = EpilogWriter(r.big_endian, version, last_def, None if last_def else -1)
    _define_system(esd, r)
    comms = _Comms(esd, r, len(processes), rng, only_groups)
    if comms.own & set(r.windows.values()):
        raise ValueError("windows of SELF communicators are not written")
    _define_topologies(esd, r, comms.number)
    for comm in r.windows.values():
        esd.window(comms.number[comm])
    esd.n_events = len(r.events) if last_def else -1
    esd.write(folder / "epik.esd")

    maps = EpilogWriter(r.big_endian, version, False, -1)
    for process in processes:
        mine = [x.id for x in r.locations.values() if x.process == process]
        with_lid = with_locations or len(mine) > 1
        maps.map_section(process)
        for when, difference in offsets.get(process, ()):
            maps.offset(when, difference)
        known: dict[int, Iterable[int]] = {
            LOCATION: mine if with_lid else (),
            REGION: r.regions,
            CALL_SITE: r.call_sites,
            # processes only know their own communicators
            COMM: (comms.number[c] for c in comms.number if process in r.comms[c]),
            GROUP: comms.group.values() if only_groups else (),
            WINDOW: r.windows,
            CALL_PATH: r.call_paths,
        }
        ids: dict[int, dict[int, int]] = {}
        for record, global_ids in known.items():
            left = sorted(set(global_ids))
            local: Sequence[int] = left
            if left and not identity:
                rng.shuffle(left)
                local = sorted(rng.sample(range(3 * len(left)), len(left))) if sparse else range(len(left))
                maps.idmap(record, dict(zip(local, left, strict=True)), sparse)
            ids[record] = dict(zip(left, local, strict=True))

        w = EpilogWriter(r.big_endian, version, False, -1)
        w.n_metrics = len(r.metrics)
        clock = _Clock(list(offsets.get(process, ())), base)
        ends: dict[int, tuple[str, dict[str, int]]] = {}
        for e in r.events:
            # transfers are recorded by their origin
            own = e.fields["dest"] if e.name == "MPI_GET_1TS" else e.location
            if e.name in ("MPI_PUT_1TE", "MPI_GET_1TE", "MPI_GET_1TO") or process_of[own] != process:
                continue
            at = clock.local(e.time)
            lid = ids[LOCATION][own] if with_lid else None
            if own in ends:
                # the transfer ends at the exit of the call
                kind, fields = ends.pop(own)
                w.event(kind, lid, at, **fields)
            changed = _local_fields(e, r, comms, ids, process_of)
            is_message = e.name in ("MPI_SEND", "MPI_RECV")
            if requests and is_message and rng.random() < 0.3:
                w.attribute(2, rng.randrange(9))
            if e.name in ("MPI_PUT_1TS", "MPI_GET_1TS"):
                window, rma = changed["window"], e.fields["rma"]
                if e.name == "MPI_PUT_1TS":
                    _record(w, e, lid, at, **changed)
                    ends[own] = "MPI_PUT_1TE_REMOTE", {"dest": changed["dest"], "window": window, "rma": rma}
                else:
                    target = comms.ranks[r.windows[e.fields["window"]]].index(process_of[e.location])
                    w.get_start_remote(lid, at, target, window, rma, e.fields["length"])
                    ends[own] = "MPI_GET_1TE", {"src": target, "window": window, "rma": rma}
            else:
                _record(w, e, lid, at, **changed)
            if requests and is_message and rng.random() < 0.3:
                kind = rng.choice(("MPI_SEND_COMPLETE", "MPI_RECV_REQUEST", "MPI_REQUEST_TESTED"))
                w.event(kind, lid, at, request=5)
        if definitions_in_files:
            for x in mine:
                w.location(0, 0, process, r.locations[x].thread, ids[LOCATION].get(x, x))
            w.n_events, w.last_def = None, True
        w.write(folder / "ELG" / f"{process:05d}", compress)
    maps.write(folder / "epik.map")
    return folder


def _local_fields(
    e: Event, r: Recording, comms: _Comms, ids: Mapping[int, Mapping[int, int]], process_of: Mapping[int, int]
) -> dict[str, int]:
    """Return the fields of an event that differ in the file of a process: local ids, and ranks as partners."""
    f = e.fields
    changed: dict[str, int] = {}
    if "region" in f:
        changed["region"] = ids[REGION][f["region"]]
    if "call_site" in f:
        changed["call_site"] = ids[CALL_SITE][f["call_site"]]
    ranks = None
    if "window" in f:
        changed["window"] = ids[WINDOW][f["window"]]
        ranks = comms.ranks[r.windows[f["window"]]]
    if e.name == "MPI_WINEXIT":
        changed["comm"] = ids[GROUP][comms.group[f["comm"]]]
    elif "comm" in f:
        changed["comm"] = ids[COMM][comms.number[f["comm"]]]
        ranks = comms.ranks[f["comm"]]
    for key in ("src", "dest", "root", "target"):
        if f.get(key, -1) >= 0:
            process = process_of[f[key]]
            # partners of SHMEM are processes
            changed[key] = process if ranks is None else ranks.index(process)
    return changed


class _Clock:
    """A local clock that two offsets correct to the global time."""

    def __init__(self, offsets: list[tuple[float, float]], base: float) -> None:
        self.offsets, self.base = offsets, base

    def local(self, time: float) -> float:
        """Return the local time that is corrected to a global one."""
        time += self.base
        if not self.offsets:
            return time
        (l0, o0), (l1, o1) = self.offsets[0], self.offsets[-1]
        slope = (o1 - o0) / (l1 - l0) if l1 != l0 else 0.0
        # time = t + slope (t - l0) + o0
        return (time - o0 + slope * l0) / (1 + slope)
