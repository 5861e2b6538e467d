"""Write a program as a merged EPILOG trace, as EPIK would have recorded it.

Threads begin and end with their parallel region, requests are not recorded, and the end of a collective operation is
the end of its call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.epilog_writer import EpilogWriter
from tracecols.converters.base import Report, Source
from tracecols.schema import EventKind as K

CLOCK_RATE = 2.4e9
"""Ticks per second; as in recorded traces, a tick has no exact decimal representation in seconds."""
ROWS = 1 << 20
"""Number of records encoded at a time."""
ENTER, EXIT, SEND, RECEIVE, COLLECTIVE_EXIT, FORK, JOIN, ACQUIRE, RELEASE, OMP_COLLECTIVE_EXIT = range(101, 111)
TYPES = {"parallel": 11, "loop": 12, "critical": 18, "barrier": 20, "implicit_barrier": 21, "critical_sblock": 23}
"""EPILOG types of OpenMP regions, by role."""
TOGETHER = ("parallel", "loop", "barrier", "implicit_barrier")
"""Roles of regions that all threads of a team leave together."""

RECORDS: dict[int, tuple[int, str, tuple[str, ...]]] = {
    K.MPI_SEND: (SEND, "p2p", ("peer", "communicator", "tag", "length")),
    K.MPI_ISEND: (SEND, "p2p", ("peer", "communicator", "tag", "length")),
    K.MPI_RECV: (RECEIVE, "p2p", ("peer", "communicator", "tag")),
    K.MPI_IRECV: (RECEIVE, "p2p", ("peer", "communicator", "tag")),
    K.MPI_COLLECTIVE_END: (COLLECTIVE_EXIT, "collectives", ("root", "communicator", "sent", "received")),
    K.THREAD_FORK: (FORK, "threads", ()),
    K.THREAD_JOIN: (JOIN, "threads", ()),
    K.THREAD_ACQUIRE_LOCK: (ACQUIRE, "locks", ("lock",)),
    K.THREAD_RELEASE_LOCK: (RELEASE, "locks", ("lock",)),
}
"""Type of the record, side table and columns of its fields, by kind of event."""
SIZE_OF_HEAD, NOTHING = 14, 0xFFFFFFFF
RECORD = np.dtype([("size", "u1"), ("code", "u1"), ("location", "<u4"), ("time", "<f8"), ("fields", "<u4", 4)])
N_FIELDS = np.zeros(256, np.int64)
N_FIELDS[ENTER] = 1
for _code, _, _names in RECORDS.values():
    N_FIELDS[_code] = len(_names)


def _define(source: Source, n_events: int) -> bytes:
    """Return the file up to the first event."""
    d, writer = source.definitions, EpilogWriter(n_events=n_events)
    for p in range(len(d["processes"]["id"])):
        writer.process(d["locations"]["process"].count(p))
    regions = d["regions"]
    for name, role, paradigm, file, line in zip(
        regions["name"], regions["role"], regions["paradigm"], regions["file"], regions["begin_line"], strict=True
    ):
        writer.region(name, file or None, line, line, type=TYPES.get(role, 1) if paradigm == "openmp" else 1)
    process = d["locations"]["process"]
    for members, paradigm in zip(d["communicators"]["members"], d["communicators"]["paradigm"], strict=True):
        if paradigm == "mpi":
            writer.comm(process[m] for m in members)
    return writer.build()


def _records(source: Source, location: int, together: NDArray[np.bool_], masters: NDArray[np.int64]) -> NDArray[Any]:
    """Return the records of a location, in order.

    `together` is a mask of the regions that all threads of a team leave; `masters` are locations by communicator and
    rank.
    """
    parts, base = [np.zeros(0, RECORD)], 0
    for batch in source.read(location, Report()):
        kind, region = batch.events["kind"], batch.events["region"]
        out = np.zeros(kind.size, RECORD)
        out["time"], out["location"] = batch.events["time"] / CLOCK_RATE, location
        enters, exits = kind == K.ENTER, kind == K.EXIT
        out["code"][enters], out["fields"][enters, 0] = ENTER, region[enters]
        out["code"][exits] = np.where(together[region[exits]], OMP_COLLECTIVE_EXIT, EXIT)
        for number, (code, family, names) in RECORDS.items():
            side = batch.sides.get(family, {"kind": np.zeros(0, np.uint8), "row": np.zeros(0, np.int64)})
            mine = side["kind"] == number
            rows = side["row"][mine] - base
            out["code"][rows] = code
            for i, name in enumerate(names if rows.size else ()):
                values = side[name][mine].astype(np.int64)
                if name in ("peer", "root"):
                    values = np.where(values < 0, NOTHING, masters[side["communicator"][mine], values])
                out["fields"][rows, i] = values
        # the record of the collective operation also ends its call
        out["code"][np.flatnonzero(kind == K.MPI_COLLECTIVE_END) + 1] = 0
        parts.append(out[out["code"] > 0])
        base += kind.size
    return np.concatenate(parts)


def write_epilog(source: Source, path: Path) -> Path:
    """Write a program without counters as a merged trace; return the path of the file."""
    if source.metric_types:
        raise ValueError("counters are not written as EPILOG")
    d = source.definitions
    regions = zip(d["regions"]["paradigm"], d["regions"]["role"], strict=True)
    together = np.array([paradigm == "openmp" and role in TOGETHER for paradigm, role in regions])
    members = d["communicators"]["members"]
    masters = np.zeros((len(members), max(map(len, members))), np.int64)
    for i, of in enumerate(members):
        masters[i, : len(of)] = of
    found = np.concatenate([_records(source, i, together, masters) for i in range(len(d["locations"]["id"]))])
    found = found[np.argsort(found["time"], kind="stable")]
    size = SIZE_OF_HEAD + 4 * N_FIELDS[found["code"]]
    found["size"] = size - 2
    with path.open("wb") as file:
        file.write(_define(source, found.size))
        for at in range(0, found.size, ROWS):
            block = np.ascontiguousarray(found[at : at + ROWS]).view(np.uint8).reshape(-1, RECORD.itemsize)
            file.write(block[np.arange(RECORD.itemsize) < size[at : at + ROWS, None]].data)
    return path
