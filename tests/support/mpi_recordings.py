"""OTF2 archives of recordings of real MPI programs (`tests/recordings`, made by `benchmarks.mpi`).

A recording has one event per line (`benchmarks/mpi/recorder.c`). The archives are what Score-P would write: a spawned
world has its own communicator MPI_COMM_WORLD, and the creation of the inter-communicator is an event.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from support.otf2_writer import Archive, Location
from tracecols.schema import EventKind as K

DATA = Path(__file__).parents[1] / "recordings"


def read(name: str) -> list[list[str]]:
    """Return the lines of a recording, split into words."""
    return [line.split() for line in gzip.decompress((DATA / f"{name}.txt.gz").read_bytes()).decode().splitlines()]


def write(name: str, folder: Path) -> Path:
    """Write the archive of a recording."""
    lines = read(name)
    worlds = [int(line[1]) for line in lines if line[0] == "#"]
    first = [i for i, world in enumerate(worlds) if world == 0]
    second = [i for i, world in enumerate(worlds) if world == 1]
    folder.mkdir(parents=True, exist_ok=True)
    archive = Archive(folder / "traces.otf2", length=1 + max(int(line[1]) for line in lines if line[0] != "#"))
    locations = [archive.location("Master thread", archive.process(f"MPI Rank {i}")) for i in range(len(worlds))]
    archive.group("comm_locations", locations)
    of_world = [archive.comm("MPI_COMM_WORLD", members) for members in (first, second) if members]
    inter = archive.inter_comm(first, second, of_world[0]) if second else -1
    number = -1
    for line in lines:
        if line[0] == "#":
            number += 1
            communicators = (of_world[worlds[number]], inter)
        else:
            add(locations[number], communicators, line)
    return archive.write()


def add(location: Location, communicators: tuple[int, int], line: list[str]) -> None:
    """Record an event."""
    kind, time = line[0], int(line[1])
    if kind == "E":
        location.enter(time, line[2])
    elif kind == "L":
        location.leave(time)
    elif kind in "SRIJ":
        peer, tag, length, comm, *request = map(int, line[2:])
        message = (time, peer, communicators[comm])
        if kind == "S":
            location.send(*message, tag=tag, length=length)
        elif kind == "R":
            location.receive(*message, tag=tag, length=length)
        elif kind == "I":
            location.start_send(*message, request=request[0], tag=tag, length=length)
        else:
            location.complete_receive(*message, request=request[0], tag=tag, length=length)
    elif kind == "P":
        location.post_receive(time, int(line[2]))
    elif kind == "D":
        location.complete_send(time, int(line[2]))
    elif kind == "B":
        location.begin_collective(time)
    elif kind == "C":
        root = int(line[3])
        location.end_collective(time, line[2], None if root < 0 else root, int(line[4]), int(line[5]), communicators[0])
    elif kind in "NX":
        of = K.COMM_CREATE if kind == "N" else K.COMM_DESTROY
        location.add(time, of, collectives={"communicator": communicators[1]})
    else:
        raise ValueError(f"no event {kind}")
