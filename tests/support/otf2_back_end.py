"""Write a program as an OTF2 archive, record by record, without the writer of the package."""

from __future__ import annotations

from pathlib import Path

from support.otf2_writer import Archive, Location
from tracecols.schema import EventKind
from tracecols.testing import Program

NUMBERS = {"communicator": "communicators", "team": "communicators", "window": "windows", "group": "groups"}
"""Table of definitions that a field of a record refers to, by name of the field."""


def _locations(archive: Archive, program: Program) -> list[Location]:
    """Define the processes and locations of the program."""
    d = program.definitions
    node = archive.node("node", "node", archive.node("machine", "machine"))
    processes = [archive.process(name, node) for name in d["processes"]["name"]]
    columns = (d["locations"][name] for name in ("name", "process", "type"))
    found = [archive.location(name, processes[p], kind) for name, p, kind in zip(*columns, strict=True)]
    for paradigm in dict.fromkeys(d["communicators"]["paradigm"]):
        archive.group(
            "comm_locations", [x for x in found if paradigm != "mpi" or x in found[:: program.n_threads]], paradigm
        )
    return found


def write_otf2(program: Program, path: Path) -> Path:
    """Write a program; return the anchor file."""
    d, archive = program.definitions, Archive(path, resolution=1, length=program.clock.length)
    locations = _locations(archive, program)
    regions = [archive.region(*of) for of in zip(*(d["regions"][c] for c in ("name", "role", "paradigm")), strict=True)]
    numbers: dict[str, list[int]] = {name: [] for name in ("communicators", "windows", "groups")}
    for name, paradigm, members in zip(*(d["communicators"][c] for c in ("name", "paradigm", "members")), strict=True):
        ranks = [m // program.n_threads if paradigm == "mpi" else m for m in members]
        numbers["communicators"].append(archive.comm(name, ranks, paradigm=paradigm))
    for name, communicator in zip(d["windows"]["name"], d["windows"]["communicator"], strict=True):
        comm = numbers["communicators"][communicator]
        numbers["windows"].append(archive.define("RmaWin", name=archive.string(name), comm=comm, flags=0))
    for kind, members, paradigm in zip(*(d["groups"][c] for c in ("type", "members", "paradigm")), strict=True):
        numbers["groups"].append(archive.group(kind, members, paradigm))
    for one, location in zip(program.locations, locations, strict=True):
        for time, kind, region, sides in one.events:
            given = {
                family: {c: numbers[NUMBERS[c]][v] if c in NUMBERS and v >= 0 else v for c, v in side.items()}
                for family, side in sides.items()
            }
            location.add(time, EventKind(kind), regions[region] if region >= 0 else None, **given)
    return archive.write()
