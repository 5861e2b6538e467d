"""An archive with all event types, all definitions and values at the edges of their types."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.otf2_writer import EVENT, MAPS, UNDEFINED, UNDEFINED_64, Archive, Location
from tracecols.converters.otf2.records import VALUE_MAPS

C32 = (0, 1, 2, 255, 256, 65535, 65536, (1 << 24) - 1, 1 << 24, (1 << 31) - 1, 1 << 31, UNDEFINED - 1, UNDEFINED)
C64 = (*C32, 1 << 32, (1 << 40) + 1, (1 << 56) - 1, (1 << 63) - 1, 1 << 63, UNDEFINED_64 - 1, UNDEFINED_64)
S64 = (0, 1, -1, 127, -128, -(1 << 31), (1 << 31) - 1, 1 << 32, -(1 << 32), (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"))


@dataclass
class Event:
    """One event to write; fields in the order of the record, attributes as (attribute, type, bits)."""

    time: int
    name: str
    fields: dict[str, Any]
    attributes: list[tuple[int, int, int]] = field(default_factory=list)
    values: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Workload:
    """The archive, its events by location, and the content of the local definition files."""

    archive: Archive
    events: dict[int, list[Event]]
    mappings: dict[int, list[tuple[int, Sequence[int] | dict[int, int]]]]
    clock_offsets: dict[int, list[tuple[int, int]]]

    def write(self) -> Path:
        """Write everything with the plain writer."""
        encode = self.archive.encode
        for location in self.archive.locations:
            for which, table in self.mappings.get(location.id, []):
                location.mapping(which, table)
            for time, offset in self.clock_offsets.get(location.id, []):
                location.clock_offset(time, offset)
            for event in self.events[location.id]:
                tail = b""
                if event.name == "Metric":
                    tail = b"".join(bytes([of]) + encode.c64(bits) for of, bits in event.values)
                elif event.name == "ProgramBegin":
                    tail = b"".join(encode.c32(number) for _, number in event.values)
                head = b""
                if event.attributes:
                    head = location.attribute_list((a, of, as_given(of, bits)) for a, of, bits in event.attributes)
                location.raw(event.time, head + encode.record(EVENT[event.name], event.fields, tail))
        return self.archive.write()

    def for_library(self) -> dict[int, list[tuple[int, str, list[Any], list[tuple[int, int, int]]]]]:
        """Return the events in the form that `otf2_library.write_events` takes."""
        result = {}
        for number, events in self.events.items():
            listed = []
            for e in events:
                fields = list(e.fields.values())
                if e.name == "Metric":
                    fields = [fields[0], [of for of, _ in e.values], [bits for _, bits in e.values]]
                elif e.name == "ProgramBegin":
                    fields = [fields[0], [text for _, text in e.values]]
                listed.append((e.time, e.name, fields, e.attributes))
            result[number] = listed
        return result


def leave_out_large_numbers() -> None:
    """Write no lengths of 2^56 bytes or more from now on: their sums would overflow, which an analysis reports."""
    global C64
    C64 = tuple(value for value in C64 if value < 1 << 56)


def as_given(of: int, bits: int) -> Any:
    """Convert the bits of an attribute value to the form that the writer takes."""
    if of == 9:
        return struct.unpack("<f", struct.pack("<I", bits & UNDEFINED))[0]
    return struct.unpack("<d", struct.pack("<Q", bits))[0] if of == 10 else bits


def definitions(path: Path, chance: random.Random, **options: Any) -> tuple[Archive, dict[str, list[int]], list[Any]]:
    """Define some of everything; return archive, identifiers by kind, and (metric, types of its values)."""
    archive = Archive(path, resolution=2_500_000_000, origin=12345, length=1 << 40, **options)
    mpi = archive.mpi(2, 2)
    archive.location("never used", number=77)
    archive.location("counter", kind="metric", number=(1 << 40) + 5)
    archive.location("last", number=(1 << 63) + 9)
    empty, text, other = archive.string(""), archive.string("text with ä and \u2713"), archive.string("another")
    far = [archive.define("String", self=n, string=f"text {n}") for n in (70_000, 1 << 31, UNDEFINED - 1)]
    program = archive.region("program", role="artificial", paradigm="measurement_system")
    regions = [archive.region(f"region {i}", "loop", "compiler", "a.c", i, None, flags=i & 3) for i in range(40)]
    regions.append(
        archive.define(
            "Region",
            self=UNDEFINED - 1,
            name=text,
            description=other,
            region_type=0,
            source_file=None,
            begin_line_number=1 << 31,
            end_line_number=UNDEFINED - 1,
            canonical_name=None,
            region_role=35,
            paradigm=20,
            region_flags=0,
        )
    )
    regions.append(
        archive.define(
            "Region",
            self=65_535,
            name=text,
            description=empty,
            region_type=0,
            source_file=far[0],
            begin_line_number=0,
            end_line_number=0,
            canonical_name=other,
            region_role=1,
            paradigm=3,
            region_flags=1,
        )
    )
    regions.append(
        archive.define(
            "Region",
            self=65_536,
            name=far[1],
            description=empty,
            region_type=0,
            source_file=far[2],
            begin_line_number=0,
            end_line_number=0,
            canonical_name=far[1],
            region_role=0,
            paradigm=0,
            region_flags=0,
        )
    )
    groups = [archive.group("locations", archive.locations), archive.group("regions", regions[3:9], flags=0)]
    groups.append(archive.group("comm_group", [1, 0], flags=1))
    comms = [mpi.world, *mpi.teams, archive.comm_self(), archive.comm("sub", [1, 0], parent=mpi.world, flags=1)]
    inter = archive.new_id("Comm")
    archive.define(
        "InterComm", self=inter, name=text, group_a=groups[2], group_b=groups[2], common_communicator=mpi.world, flags=1
    )
    comms.append(inter)
    windows = [archive.define("RmaWin", name=text, comm=c, flags=1) for c in comms[:2]]
    kinds = ("uint8", "int64", "double", "string", "region", "location")
    attributes = [archive.attribute(f"attribute {i}", kinds[i % len(kinds)]) for i in range(30)]
    metrics = [
        (archive.metric_class(("a", "uint64")), [4]),
        (archive.metric_class(("b", "int64"), ("c", "double"), ("d", "uint64")), [8, 10, 4]),
        (archive.metric_class(*((f"e{i}", "double") for i in range(7))), [10] * 7),
    ]
    instance = archive.new_id("metric")
    archive.define(
        "MetricInstance", self=instance, metric_class=metrics[1][0], recorder=mpi.ranks[0], metric_scope=1, scope=1
    )
    metrics.append((instance, metrics[1][1]))
    parameters = [archive.define("Parameter", name=text, parameter_type=i) for i in range(3)]
    lines = [archive.define("SourceCodeLocation", file=text, line_number=n) for n in (0, 7, UNDEFINED - 1)]
    contexts: list[int | None] = [None]
    for i in range(6):
        contexts.append(
            archive.define(
                "CallingContext",
                region=regions[i] if i else None,
                source_code_location=lines[i % 3],
                parent=contexts[i // 2],
            )
        )
    generators = [
        archive.define("InterruptGenerator", name=text, mode=i, base=i, exponent=-9, period=1 << 40) for i in range(2)
    ]
    io_paradigm = archive.define(
        "IoParadigm", identification=text, name=text, io_paradigm_class=0, io_paradigm_flags=0, tail=b"\0"
    )
    files = [
        archive.define("IoRegularFile", name=text, scope=0),
        archive.define("IoDirectory", self=1, name=other, scope=1),
    ]
    handles = [
        archive.define(
            "IoHandle",
            name=text,
            file=files[i],
            io_paradigm=io_paradigm,
            io_handle_flags=i,
            comm=comms[0] if i else None,
            parent=None if i == 0 else 0,
        )
        for i in range(2)
    ]
    axis = [archive.define("CartDimension", name=text, size=n, cart_periodicity=n & 1) for n in (2, 1)]
    cart = archive.define("CartTopology", name=other, communicator=mpi.world, cart_dimensions=axis)
    for rank in range(2):
        archive.define("CartCoordinate", cart_topology=cart, rank=rank, coordinates=[1 - rank, 0])
    for of, value in ((1, 200), (5, -3), (7, -70_000), (4, 1 << 63), (8, -5), (9, 0.5), (10, 1e100), (11, text)):
        archive.define(
            "LocationProperty",
            of=mpi.ranks[0].id,
            name=other,
            string_value=text if of == 11 else None,
            value=(of, value),
        )
    archive.define("LocationGroupProperty", of=0, name=other, string_value=text)
    archive.define("SystemTreeNodeProperty", of=1, name=other, string_value=text, value=(11, text))
    archive.define("SystemTreeNodeDomain", of=0, domain=1)
    ids = {
        "STRING": [archive.string("program"), text, other, *far], "ATTRIBUTE": attributes,
        "LOCATION": [x.id for x in archive.locations], "REGION": [*regions, program], "GROUP": groups,
        "METRIC": [m for m, _ in metrics], "COMM": comms, "PARAMETER": parameters, "RMA_WIN": windows, "SCL": lines,
        "CALLING_CONTEXT": contexts[1:], "INTERRUPT_GENERATOR": generators, "IO_FILE": files, "IO_HANDLE": handles,
        "LOCATION_GROUP": [0, 1],
    }  # fmt: skip
    chance.shuffle(attributes)
    return archive, ids, metrics


def everything(path: Path, *, rounds: int = 30, seed: int = 0, **options: Any) -> Workload:
    """Make a workload: each event type occurs `rounds` times at the first location, less often elsewhere, never at one.

    The second location has sparse mapping tables, the third dense ones, and the fourth dense ones and clock offsets.
    """
    chance = random.Random(seed)
    archive, ids, metrics = definitions(path, chance, **options)
    types = dict(metrics)
    work = Workload(archive, {}, {}, {})
    for k, location in enumerate(archive.locations):
        number = location.id
        local = {kind: list(values) for kind, values in ids.items()}
        work.mappings[number] = []
        back = {kind: dict(zip(values, values, strict=True)) for kind, values in ids.items()}
        if k == 1:
            for kind in MAPS:
                table = {n * 3 + (1 << 33 if kind == "LOCATION" else 100_000): g for n, g in enumerate(ids[kind][::2])}
                work.mappings[number].append((MAPS.index(kind), table))
                local[kind] = [*table, *(i for i in ids[kind] if i not in table)]
                back[kind] |= table
        elif k in (2, 3):
            for kind in MAPS:
                table = list(ids[kind])
                chance.shuffle(table)
                # an undefined entry, which nothing refers to
                work.mappings[number].append((MAPS.index(kind), [*table, UNDEFINED]))
                beyond = [i for i in ids[kind] if i > len(table)]
                local[kind] = [*range(len(table)), *beyond]
                back[kind] |= dict(enumerate(table))
        if k == 3:
            work.clock_offsets[number] = [(1000, -500), (40_000, 80), (41_000, 80), (90_000, 10_000), (1 << 39, -7)]
        work.events[number] = make_events(location, rounds if k == 0 else rounds // 3, local, back, types, chance)
        if k == 4:
            work.events[number] = []
    return work


def make_events(
    location: Location,
    rounds: int,
    local: dict[str, list[int]],
    back: dict[str, dict[int, int]],
    metrics: dict[int, list[int]],
    chance: random.Random,
) -> list[Event]:
    """Make events of every type in random order, with non-decreasing times."""
    names = [name for name in EVENT for _ in range(rounds)]
    chance.shuffle(names)
    events, time = [], 0

    def reference(kind: str) -> int:
        if chance.random() < 0.1:
            return UNDEFINED_64 if kind == "LOCATION" else UNDEFINED
        return chance.choice(local[kind])

    for name in names:
        time += chance.choice((0, 0, 1, 7, 300, 70_000))
        fields: dict[str, Any] = {}
        for f in EVENT[name].fields:
            if f.map in ("REGION", "METRIC"):
                fields[f.name] = chance.choice(local[f.map])
            elif f.map:
                fields[f.name] = reference(f.map)
            elif f.type == "u8":
                fields[f.name] = chance.choice((1, 2)) if name == "MeasurementOnOff" else chance.randrange(256)
            elif f.type == "ts":
                # no later: the library would select the clock interval of the events that follow by this time
                fields[f.name] = time
            else:
                fields[f.name] = chance.choice({"c32": C32, "c64": C64, "s64": S64}[f.type])
        event = Event(time, name, fields)
        if name == "Metric":
            of = metrics[back["METRIC"][fields["source"]]]
            event.values = [(t, chance.choice([bits_of(v) for v in FLOATS] if t == 10 else C64)) for t in of]
            fields["n_values"] = len(of)
        elif name == "ProgramBegin":
            n = chance.choice((0, 1, 3, 300))
            event.values = [(0, chance.choice(local["STRING"])) for _ in range(n)]
            fields["n_arguments"] = n
        if chance.random() < 0.2:
            listed = {back["ATTRIBUTE"][a]: a for a in chance.sample(local["ATTRIBUTE"], chance.choice((1, 2, 9)))}
            for attribute in listed.values():
                of = chance.randrange(1, 26)
                if of in VALUE_MAPS:
                    bits = reference(VALUE_MAPS[of])
                else:
                    width = {1: 8, 5: 8, 2: 16, 6: 16, 3: 32, 7: 32, 9: 32}.get(of, 64)
                    bits = bits_of(1.25, "f") if of == 9 else bits_of(-2.5) if of == 10 else chance.choice(C64)
                    bits %= 1 << width
                event.attributes.append((attribute, of, bits))
        events.append(event)
    return events


def bits_of(value: float, code: str = "d") -> int:
    """Return the bits of a floating-point number."""
    return int.from_bytes(struct.pack("<" + code, value), "little")
