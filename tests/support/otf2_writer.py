"""Write OTF2 archives in plain Python, from the record tables that also drive the reader.

For tests: short programs in a few lines, any record type, any byte order, tiny chunks, and every kind of damage. It
does not need the `otf2` package. Example::

    archive = Archive(tmp_path / "traces.otf2")
    mpi = archive.mpi(2)                                  # 2 ranks, MPI_COMM_WORLD
    with mpi.ranks[0] as rank:
        rank.enter(10, "MPI_Send").send(11, 1, mpi.world, tag=7, length=64).leave(12, "MPI_Send")
    with mpi.ranks[1] as rank:
        rank.enter(5, "MPI_Recv").receive(14, 0, mpi.world, tag=7, length=64).leave(15, "MPI_Recv")
    tracecols.convert(archive.write(), tmp_path / "x.trace")

Times are ticks; the clock has 1e9 of them per second. Regions may be given by name: they are defined when first used,
and role and paradigm follow from the name (`MPI_Send`, `!$omp implicit barrier @a.c:3`), see `guess_region`.
`None` is OTF2's UNDEFINED wherever a number is expected.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tracecols.converters.otf2.records import DEFINITION_RECORDS, EVENT_RECORDS, MAPS, Record
from tracecols.schema import EventKind, enums
from tracecols.testing import Recorder, guess_region

UNDEFINED = 0xFFFFFFFF
UNDEFINED_64 = 0xFFFFFFFFFFFFFFFF

EVENT = {r.name: r for r in EVENT_RECORDS}
EVENT_OF = {EventKind(r.code): r for r in EVENT_RECORDS}
DEFINITION = {r.name: r for r in DEFINITION_RECORDS}


def compressed(value: int | None, size: int, big: bool = False) -> bytes:
    """Encode an integer of `size` bytes: the number of significant bytes, then these."""
    full = (1 << 8 * size) - 1
    value = full if value is None else value & full
    if value == full:
        return b"\xff"
    n = (value.bit_length() + 7) // 8
    return bytes([n]) + value.to_bytes(n, "big" if big else "little")


class Encoder:
    """Encode records in one byte order."""

    def __init__(self, big: bool) -> None:
        self.big = big
        self.order = ">" if big else "<"

    def full(self, value: int) -> bytes:
        """Encode a number as eight bytes."""
        return struct.pack(self.order + "Q", value & UNDEFINED_64)

    def c32(self, value: int | None) -> bytes:
        """Encode a compressed number of four bytes."""
        return compressed(value, 4, self.big)

    def c64(self, value: int | None) -> bytes:
        """Encode a compressed number of eight bytes; negative ones as two's complement."""
        return compressed(value, 8, self.big)

    def framed(self, code: int, payload: bytes) -> bytes:
        """Put record type and length in front."""
        n = len(payload)
        length = bytes([n]) if n < 255 else b"\xff" + self.full(n)
        return bytes([code]) + length + payload

    def value(self, of: int | str, value: Any) -> bytes:
        """Encode an attribute value with its type in front; floats are given as floats, everything else as integers."""
        of = enums.VALUE_TYPES.index(of) if isinstance(of, str) else of
        if of in (1, 5):
            body = bytes([value & 0xFF])
        elif of in (2, 6):
            body = struct.pack(self.order + "H", value & 0xFFFF)
        elif of == 9:
            body = struct.pack(self.order + "f", value)
        elif of == 10:
            body = struct.pack(self.order + "d", value)
        elif of in (4, 8, 13):
            body = self.c64(value)
        else:
            body = self.c32(value)
        return bytes([of]) + body

    def field(self, of: str, value: Any) -> bytes:
        """Encode one field of the types of `tracecols.converters.otf2.records`."""
        if isinstance(value, Location):
            value = value.id
        match of:
            case "u8":
                return bytes([0xFF if value is None else value & 0xFF])
            case "c32":
                return self.c32(value)
            case "c64" | "s64":
                return self.c64(value)
            case "ts":
                return self.full(UNDEFINED_64 if value is None else value)
            case "f64":
                return struct.pack(self.order + "d", value)
            case "str":
                return str(value).encode() + b"\0"
            case "u8*" | "c32*" | "c64*":
                return b"".join(self.field(of[:-1], v) for v in value)
            case "value":
                return self.value(*value)
        raise ValueError(f"no field type {of}")

    def record(self, record: Record, fields: dict[str, Any], tail: bytes = b"") -> bytes:
        """Encode a record from its fields by name; optional ones at the end may be left out."""
        strange = set(fields) - {f.name for f in record.fields}
        if strange:
            raise TypeError(f"{record.name} has no {sorted(strange)}, but {[f.name for f in record.fields]}")
        body = b""
        for f in record.fields:
            if f.name not in fields and f.optional:
                break
            body += self.field(f.type, fields[f.name])
        body += tail
        return self.framed(record.code, body) if record.has_length else bytes([record.code]) + body

    @property
    def magic(self) -> bytes:
        """Return the begin of the anchor and of every chunk: a mark and the byte order."""
        return bytes([3, 0x23 if self.big else 0x42])

    def chunk_header(self, first: int, last: int) -> bytes:
        """Encode the header of a chunk with the numbers of its first and last event."""
        return self.magic + self.full(first) + self.full(last)


class Location(Recorder):
    """One stream of events, encoded as they are recorded, with the methods of `tracecols.testing.Recorder`."""

    def __init__(self, archive: Archive, number: int, name: str, process: int, kind: str) -> None:
        self.archive, self.id, self.name = archive, number, name
        self.process, self.kind = process, kind
        self.encode = archive.encode
        self.items: list[tuple[int | None, bytes, int]] = []
        self.local: list[bytes] = []
        self.entered: list[int | str | None] = []
        self.n_events: int | None = None
        """Number of events in the definitions; by default the number of records."""
        self.has_file = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    # -- any record --------------------------------------------------------------------------------

    def raw(self, time: int | None, record: bytes, n_events: int = 1) -> Self:
        """Append bytes unchanged; `time` None writes no time stamp."""
        self.items.append((time, record, n_events))
        return self

    def attribute_list(self, attributes: Iterable[tuple[int, int | str, Any]]) -> bytes:
        """Encode an attribute list from (attribute, type, value)."""
        entries = [self.encode.c32(a) + self.encode.value(of, v) for a, of, v in attributes]
        return self.encode.framed(6, self.encode.c32(len(entries)) + b"".join(entries))

    def record(
        self,
        time: int,
        name: str,
        /,
        *,
        attributes: Sequence[tuple[int, int | str, Any]] = (),
        tail: bytes = b"",
        **fields: Any,
    ) -> Self:
        """Append an event by the name and the fields of its record type; `attributes` are (attribute, type, value).

        `Metric` takes `values`, a list of (type, value); `ProgramBegin` takes `arguments`, a list of strings;
        `tail` are bytes after the fields, as a later format might append them.
        """
        head = self.attribute_list(attributes) if attributes else b""
        if name == "Metric":
            values = fields.pop("values")
            fields.setdefault("n_values", len(values))
            for of, value in values:
                bits = struct.unpack("<q", struct.pack("<d", value))[0] if isinstance(value, float) else value
                tail += bytes([of]) + self.encode.c64(bits)
        elif name == "ProgramBegin":
            arguments = fields.pop("arguments", [])
            fields.setdefault("n_arguments", len(arguments))
            fields["program"] = self.archive.text_of(fields["program"])
            tail += b"".join(self.encode.c32(self.archive.text_of(a)) for a in arguments)
        elif "region" in fields:
            fields["region"] = self.archive.region_of(fields["region"])
        return self.raw(time, head + self.encode.record(EVENT[name], fields, tail))

    def _team(self, team: int | None) -> int:
        # None is UNDEFINED
        return team  # type: ignore[return-value]

    def add(self, time: int, kind: EventKind, region: int | str | None = None, **sides: Mapping[str, int]) -> Self:
        """Append an event by its kind, as in a store; fields that are not given are UNDEFINED."""
        record = EVENT_OF[kind]
        if kind == EventKind.ENTER:
            self.entered.append(region)
        elif kind == EventKind.EXIT:
            innermost = self.entered.pop() if self.entered else region
            region = innermost if region is None else region
        given = {"region": region, **{name: value for side in sides.values() for name, value in side.items()}}
        return self.record(time, record.name, **{f.name: given.get(f.name) for f in record.fields})

    def unknown(self, time: int, code: int, payload: bytes = b"") -> Self:
        """Append an event of an unknown type."""
        return self.raw(time, self.encode.framed(code, payload))

    # -- local definitions -------------------------------------------------------------------------

    def mapping(self, kind: str | int, table: Sequence[int] | dict[int, int]) -> Self:
        """Add a mapping table: a list is dense (local identifier = position), a dict is sparse."""
        which = MAPS.index(kind) if isinstance(kind, str) else kind
        numbers = [n for pair in table.items() for n in pair] if isinstance(table, dict) else list(table)
        body = bytes([which]) + self.encode.c64(len(table)) + bytes([isinstance(table, dict)])
        self.local.append(self.encode.framed(5, body + b"".join(self.encode.c64(n) for n in numbers)))
        return self

    def clock_offset(self, time: int, offset: int, deviation: float = 0.0) -> Self:
        """Add a clock offset."""
        body = self.encode.full(time) + self.encode.c64(offset) + struct.pack(self.encode.order + "d", deviation)
        self.local.append(self.encode.framed(6, body))
        return self

    # -- files -------------------------------------------------------------------------------------

    @property
    def n_records(self) -> int:
        """Number of events appended."""
        return sum(n for _, _, n in self.items)

    def event_file(self) -> bytes:
        """Return the event file: chunks of `Archive.event_chunk` bytes, the last one short."""
        size, encode = self.archive.event_chunk, self.encode
        chunks: list[bytes] = []
        body, first, n, now = bytearray(), 1, 0, None
        for time, record, events in self.items:
            stamp = b"" if time is None or time == now else b"\x05" + encode.full(time)
            now = now if time is None else time
            if 18 + len(body) + len(stamp) + len(record) + 2 > size:
                chunks.append((encode.chunk_header(first, first + n - 1) + body + b"\0").ljust(size, b"\xee"))
                body, first, n = bytearray(), first + n, 0
                # a chunk begins with the time, even if it has not changed
                stamp = b"" if now is None else b"\x05" + encode.full(now)
                if 18 + len(stamp) + len(record) + 2 > size:
                    raise ValueError(f"a record of {len(record)} bytes does not fit into a chunk of {size}")
            body += stamp + record
            n += events
        return b"".join(chunks) + encode.chunk_header(first, first + n - 1) + body + b"\x02\x01"


@dataclass
class MpiProgram:
    """The definitions made by `Archive.mpi`.

    Attributes
    ----------
    world : int
        MPI_COMM_WORLD.
    ranks : list of Location
        The master threads, in rank order.
    threads : list of list of Location
        The threads of every rank; the master is number 0.
    teams : list of int
        An OpenMP team of all threads per rank; empty with one thread.
    """

    world: int
    ranks: list[Location]
    threads: list[list[Location]]
    teams: list[int]


class Archive:
    """An archive to write.

    Parameters
    ----------
    path : Path
        The anchor file; the other files are next to it.
    big : bool
        Byte order.
    event_chunk, definition_chunk : int
        Chunk sizes in bytes; libotf2 wants 256 KiB to 16 MiB, tracecols takes any above 18.
    resolution, origin, length : int
        The clock.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        big: bool = False,
        event_chunk: int = 1 << 20,
        definition_chunk: int = 1 << 22,
        resolution: int = 1_000_000_000,
        origin: int = 0,
        length: int = 1_000_000,
    ) -> None:
        self.path = Path(path)
        self.big = big
        self.encode = Encoder(big)
        self.event_chunk, self.definition_chunk = event_chunk, definition_chunk
        self.definitions: list[bytes] = []
        self.locations: list[Location] = []
        self._next: dict[str, int] = {}
        self._strings: dict[str, int] = {}
        self._regions: dict[str, int] = {}
        self._groups: list[int] = []
        self._nodes: list[int] = []
        # numbers in the anchor file; counted unless set
        self.anchor_format, self.trace_format, self.library = 3, 2, (3, 1, 0)
        self.substrate, self.compression = 1, 1
        self.n_locations: int | None = None
        self.n_definitions: int | None = None
        self.machine, self.creator, self.description = "machine", "tests", ""
        self.properties: dict[str, str] = {}
        self.string("")
        self.define(
            "ClockProperties",
            timer_resolution=resolution,
            global_offset=origin,
            trace_length=length,
            realtime_timestamp=None,
        )

    # -- definitions -------------------------------------------------------------------------------

    def new_id(self, kind: str) -> int:
        """Return the next identifier of a kind of definition."""
        self._next[kind] = self._next.get(kind, -1) + 1
        return self._next[kind]

    def define(self, name: str, /, tail: bytes = b"", **fields: Any) -> int:
        """Add a definition by the name and the fields of its record type; return its `self`, generated if it has one.

        Optional fields at the end may be omitted, as by older writers. The count before a list is filled in.
        """
        record = DEFINITION[name]
        names = [f.name for f in record.fields]
        if "self" in names:
            fields.setdefault("self", self.new_id(name))
        for before, f in zip(record.fields, record.fields[1:], strict=False):
            if f.type.endswith("*"):
                fields[f.name] = [m.id if isinstance(m, Location) else m for m in fields[f.name]]
                fields.setdefault(before.name, len(fields[f.name]))
        self.definitions.append(self.encode.record(record, fields, tail))
        return int(fields.get("self") or 0)

    def raw_definition(self, code: int, payload: bytes) -> None:
        """Add a definition of any type as bytes."""
        self.definitions.append(self.encode.framed(code, payload))

    def string(self, text: str) -> int:
        """Define a text once; return its identifier."""
        if text not in self._strings:
            self._strings[text] = self.define("String", string=text)
        return self._strings[text]

    def text_of(self, text: int | str | None) -> int | None:
        """Return the identifier of a text; identifiers are returned unchanged."""
        return self.string(text) if isinstance(text, str) else text

    def region(
        self,
        name: str,
        role: str | None = None,
        paradigm: str | None = None,
        file: str = "",
        begin: int | None = 0,
        end: int | None = 0,
        canonical: str | None = None,
        flags: int = 0,
    ) -> int:
        """Define a region; role and paradigm follow from the name (`guess_region`) if not given."""
        guessed = guess_region(name)
        number = self.define(
            "Region",
            name=self.string(name),
            description=self.string(""),
            region_type=0,
            source_file=self.string(file),
            begin_line_number=begin,
            end_line_number=end,
            canonical_name=self.string(name if canonical is None else canonical),
            region_role=enums.REGION_ROLES.index(role or guessed[0]),
            paradigm=enums.PARADIGMS.index(paradigm or guessed[1]),
            region_flags=flags,
        )
        self._regions.setdefault(name, number)
        return number

    def region_of(self, region: int | str | None) -> int | None:
        """Return the identifier of a region given by name; define it if needed."""
        if isinstance(region, str):
            return self._regions[region] if region in self._regions else self.region(region)
        return region

    def node(self, name: str = "node", class_name: str = "node", parent: int | None = None) -> int:
        """Define a node of the system tree."""
        number = self.define(
            "SystemTreeNode", name=self.string(name), class_name=self.string(class_name), parent=parent
        )
        self._nodes.append(number)
        return number

    def process(
        self, name: str = "process", node: int | None = None, kind: str = "process", creator: int | None = None
    ) -> int:
        """Define a location group."""
        if node is None and not self._nodes:
            self.node("machine", "machine")
        number = self.define(
            "LocationGroup",
            name=self.string(name),
            location_group_type=enums.LOCATION_GROUP_TYPES.index(kind),
            system_tree_parent=self._nodes[0] if node is None else node,
            creating_location_group=creator,
        )
        self._groups.append(number)
        return number

    def location(
        self, name: str = "thread", process: int | None = None, kind: str = "cpu_thread", number: int | None = None
    ) -> Location:
        """Define a location; in the process defined last if not given."""
        if process is None:
            process = self._groups[-1] if self._groups else self.process()
        if number is None:
            number = max((x.id for x in self.locations), default=-1) + 1
        location = Location(self, number, name, process, kind)
        self.string(name)
        self.locations.append(location)
        return location

    def group(self, kind: str, members: Sequence[Any], paradigm: str = "mpi", name: str = "", flags: int = 0) -> int:
        """Define a group; members are identifiers or locations, or ranks for `comm_group`."""
        return self.define(
            "Group",
            name=self.string(name),
            group_type_pre12=0,
            members=members,
            group_type=enums.GROUP_TYPES.index(kind),
            paradigm=enums.PARADIGMS.index(paradigm),
            group_flags=flags,
        )

    def comm(
        self, name: str, ranks: Sequence[int], parent: int | None = None, paradigm: str = "mpi", flags: int = 0
    ) -> int:
        """Define a communicator or team of ranks: numbers into the paradigm's `comm_locations` group."""
        group = self.group("comm_group", ranks, paradigm)
        return self.define("Comm", name=self.string(name), group=group, parent=parent, flags=flags)

    def comm_self(self, name: str = "MPI_COMM_SELF", parent: int | None = None) -> int:
        """Define MPI_COMM_SELF."""
        return self.define("Comm", name=self.string(name), group=self.group("comm_self", []), parent=parent, flags=0)

    def inter_comm(self, a: Sequence[int], b: Sequence[int], common: int) -> int:
        """Define an inter-communicator between two groups of ranks."""
        groups = {f"group_{x}": self.group("comm_group", ranks) for x, ranks in (("a", a), ("b", b))}
        given = {"self": self.new_id("Comm"), "name": self.string("inter"), **groups}
        return self.define("InterComm", **given, common_communicator=common, flags=0)

    def attribute(self, name: str, of: str) -> int:
        """Define an event attribute with a type of `enums.VALUE_TYPES`."""
        return self.define(
            "Attribute", name=self.string(name), type=enums.VALUE_TYPES.index(of), description=self.string("")
        )

    def metric_class(self, *members: tuple[str, str]) -> int:
        """Define a metric class from (name, type) of its members; types are int64, uint64 and double."""
        ids = [
            self.define(
                "MetricMember",
                name=self.string(name),
                description=self.string(""),
                metric_type=1,
                metric_mode=0,
                value_type=enums.VALUE_TYPES.index(of),
                base=1,
                exponent=0,
                unit=self.string("#"),
            )
            for name, of in members
        ]
        number = self.new_id("metric")
        return self.define("MetricClass", self=number, metric_members=ids, metric_occurrence=0, recorder_kind=2)

    def openmp(self, n_threads: int, process: int | None = None) -> tuple[list[Location], int]:
        """Define a process with threads and an OpenMP team of all of them; returns locations and team."""
        if process is None:
            process = self.process("process")
        threads = [
            self.location("Master thread" if i == 0 else f"OMP thread {i}", process, number=i) for i in range(n_threads)
        ]
        self.group("comm_locations", threads, "openmp")
        return threads, self.comm("", range(n_threads), paradigm="openmp")

    def mpi(self, n_ranks: int, n_threads: int = 1, masters_last: bool = False) -> MpiProgram:
        """Define an MPI program: nodes, processes, locations, MPI_COMM_WORLD; with threads also OpenMP teams.

        Location identifiers are those of Score-P: the rank, plus the thread's number times 2**32; or the other way
        round, so that masters have the highest.
        """
        machine = self.node("machine", "machine")
        node = self.node("node", "node", machine)
        threads: list[list[Location]] = []
        for rank in range(n_ranks):
            process = self.process(f"MPI Rank {rank}", node)
            threads.append(
                [
                    self.location(
                        "Master thread" if i == 0 else f"OMP thread {i}",
                        process,
                        number=rank + ((n_threads - 1 - i if masters_last else i) << 32),
                    )
                    for i in range(n_threads)
                ]
            )
        ranks = [t[0] for t in threads]
        self.group("comm_locations", ranks, "mpi")
        world = self.comm("MPI_COMM_WORLD", range(n_ranks))
        teams = []
        if n_threads > 1:
            self.group("comm_locations", [t for of in threads for t in of], "openmp")
            teams = [
                self.comm("", range(rank * n_threads, (rank + 1) * n_threads), paradigm="openmp")
                for rank in range(n_ranks)
            ]
        return MpiProgram(world, ranks, threads, teams)

    # -- files -------------------------------------------------------------------------------------

    def _definition_file(self, records: Sequence[bytes]) -> bytes:
        head = self.encode.chunk_header(0, 0)
        chunks: list[bytes] = []
        body = head
        for record in records:
            if len(body) + len(record) + 2 > self.definition_chunk:
                if len(head) + len(record) + 2 > self.definition_chunk:
                    raise ValueError(f"a definition of {len(record)} bytes does not fit into a chunk")
                chunks.append((body + b"\0").ljust(self.definition_chunk, b"\xee"))
                body = head
            body += record
        return b"".join(chunks) + body + b"\x02\x01"

    def anchor(self, n_definitions: int) -> bytes:
        """Return the anchor file."""
        order = self.encode.order
        data = self.encode.magic + b"OTF2\0" + bytes([self.anchor_format, self.trace_format, *self.library])
        data += struct.pack(order + "QQBB", self.event_chunk, self.definition_chunk, self.substrate, self.compression)
        n = len(self.locations) if self.n_locations is None else self.n_locations
        data += struct.pack(order + "QQ", n, n_definitions if self.n_definitions is None else self.n_definitions)
        data += b"".join(t.encode() + b"\0" for t in (self.machine, self.creator, self.description))
        if self.anchor_format >= 2:
            data += struct.pack(order + "I", len(self.properties))
            data += b"".join(t.encode() + b"\0" for pair in self.properties.items() for t in pair)
            data += self.encode.full(42)
        if self.anchor_format >= 3:
            data += struct.pack(order + "II", 0, 0)
        return data + b"\x02"

    def write(self) -> Path:
        """Write all files and return the path of the anchor."""
        locations = [
            self.encode.record(
                DEFINITION["Location"],
                {
                    "self": x.id,
                    "name": self.string(x.name),
                    "location_type": enums.LOCATION_TYPES.index(x.kind),
                    "number_of_events": x.n_records if x.n_events is None else x.n_events,
                    "location_group": x.process,
                },
            )
            for x in self.locations
        ]
        # definitions precede those that refer to them; the numbers of the record types are in that order
        definitions = sorted(self.definitions + locations, key=lambda record: record[0])
        folder = self.path.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        for x in self.locations:
            if x.has_file:
                (folder / f"{x.id}.evt").write_bytes(x.event_file())
                (folder / f"{x.id}.def").write_bytes(self._definition_file(x.local))
        self.path.with_suffix(".def").write_bytes(self._definition_file(definitions))
        self.path.write_bytes(self.anchor(len(definitions)))
        return self.path
