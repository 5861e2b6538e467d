"""The expected content of a store of an EPILOG recording, in plain Python: one list of events per location."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from oracles.epilog import NO_LOGGING, TRACING, Event, Recording

from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS

LEAVES = ("MPI_COLLEXIT", "MPI_WINEXIT", "MPI_WINCOLLEXIT", "COLLEXIT")
SIDES = {
    "MPI_SEND": K.MPI_SEND, "MPI_RECV": K.MPI_RECV, "MPI_COLLEXIT": K.MPI_COLLECTIVE_END, "COLLEXIT": K.MPI_COLLECTIVE_END,
    "OMP_FORK": K.OMP_FORK, "OMP_JOIN": K.OMP_JOIN, "OMP_ALOCK": K.OMP_ACQUIRE_LOCK, "OMP_RLOCK": K.OMP_RELEASE_LOCK,
    "MPI_PUT_1TS": K.RMA_PUT, "MPI_PUT_1TE": K.RMA_PUT_AT_TARGET, "MPI_GET_1TS": K.RMA_GET_AT_TARGET,
    "MPI_GET_1TE": K.RMA_OP_COMPLETE_NON_BLOCKING, "MPI_GET_1TO": K.RMA_GET, "MPI_WINEXIT": K.RMA_GROUP_SYNC,
    "MPI_WINCOLLEXIT": K.RMA_COLLECTIVE_END, "MPI_WIN_LOCK": K.RMA_ACQUIRE_LOCK, "MPI_WIN_UNLOCK": K.RMA_RELEASE_LOCK,
    "MPI_PUT_1TE_REMOTE": K.RMA_OP_COMPLETE_REMOTE, "MPI_GET_1TS_REMOTE": K.RMA_GET, "PUT_1TS": K.RMA_PUT,
    "PUT_1TE": K.RMA_PUT_AT_TARGET, "GET_1TS": K.RMA_GET_AT_TARGET, "GET_1TE": K.RMA_OP_COMPLETE_NON_BLOCKING,
    "PUT_1TE_REMOTE": K.RMA_OP_COMPLETE_REMOTE, "GET_1TS_REMOTE": K.RMA_GET, "ALOCK": K.RMA_ACQUIRE_LOCK,
    "RLOCK": K.RMA_RELEASE_LOCK, "MPI_SEND_COMPLETE": K.MPI_ISEND_COMPLETE, "MPI_RECV_REQUEST": K.MPI_IRECV_REQUEST,
    "MPI_REQUEST_TESTED": K.MPI_REQUEST_TEST, "MPI_CANCELLED": K.MPI_REQUEST_CANCELLED,
}  # fmt: skip
WINDOW_OPS = {"mpi_win_create": "create_handle", "mpi_win_free": "destroy_handle", "mpi_win_fence": "barrier"}


@dataclass
class Expected:
    """One event: kind, time, name of the region entered or left (or empty), columns of its side table, counters, call
    site, and position in the file."""

    kind: K
    time: float
    region: str = ""
    side: dict[str, int] = field(default_factory=dict)
    metrics: tuple[int, ...] = ()
    call_site: int = -1
    position: int = 0


def _process(recording: Recording, location: int) -> int:
    return location if location < 0 else recording.locations[location].process


def _side(recording: Recording, event: Event, region: str) -> dict[str, int]:
    """Return the columns of the side table, with processes instead of ranks."""
    f = event.fields
    comm = f.get("comm", -1)
    peer = next((f[k] for k in ("dest", "src", "target") if k in f), None)
    kind = SIDES[event.name]
    name = region.lower().rstrip("_")
    if kind in (K.MPI_SEND, K.MPI_RECV):
        return {
            "peer": _process(recording, peer),
            "communicator": comm,
            "tag": f["tag"],
            "length": f.get("length", -1),
            "request": -1,
        }
    if kind == K.MPI_COLLECTIVE_END:
        op = re.sub("^mpi_i?", "", name)
        return {
            "root": _process(recording, f["root"]),
            "communicator": comm,
            "sent": f["sent"],
            "received": f["received"],
            "op": COLLECTIVE_OPS.index(op) if op in COLLECTIVE_OPS[:17] else -1,
        }
    if kind == K.RMA_COLLECTIVE_END:
        return {"window": f["window"], "op": COLLECTIVE_OPS.index(WINDOW_OPS[name]) if name in WINDOW_OPS else -1}
    if kind == K.RMA_GROUP_SYNC:
        return {"window": f["window"], "group": comm, "level": f["synex"]}
    result = {}
    if peer is not None:
        result["remote"] = _process(recording, peer)
    names = {"window": "window", "rma": "matching", "length": "sent", "lock": "lock", "request": "request"}
    result |= {names[k]: v for k, v in f.items() if k in names}
    if "exclusive" in f:
        result["lock_type"] = 1 - f["exclusive"]
    return result


def expected(recording: Recording) -> dict[int, list[Expected]]:
    """Return the events of every location, by its identifier."""
    result: dict[int, list[Expected]] = {lid: [] for lid in recording.locations}
    stacks: dict[int, list[str]] = {lid: [] for lid in recording.locations}
    for e in recording.events:
        out, stack = result[e.location], stacks[e.location]

        def put(kind: K, region: str = "", e: Event = e, out: list[Expected] = out, **more: object) -> None:
            out.append(Expected(kind, e.time, region, position=e.pos, **more))  # type: ignore[arg-type]

        if e.metrics:
            put(K.METRIC, metrics=e.metrics)
        top = stack[-1] if stack else ""
        if e.name in ("ENTER", "ENTER_CS"):
            stack.append(recording.regions[recording.region_of(e)].name)
            put(K.ENTER, stack[-1], call_site=e.fields.get("call_site", -1))
        elif e.name == "ENTER_TRACING":
            assert recording.region_of(e) == TRACING
            stack.append("TRACING")
            put(K.ENTER, "TRACING")
        elif e.name == "LOG_OFF":
            assert recording.region_of(e) == NO_LOGGING
            stack.append("NO_LOGGING")
            put(K.MEASUREMENT_ON_OFF, "NO_LOGGING", side={"mode": 2})
        elif e.name == "LOG_ON":
            stack.pop()
            put(K.MEASUREMENT_ON_OFF, side={"mode": 1})
        elif e.name in ("EXIT", "OMP_COLLEXIT", "EXIT_TRACING"):
            put(K.EXIT, stack.pop() if stack else "")
        else:
            put(SIDES[e.name], side=_side(recording, e, top))
            if e.name in LEAVES:
                put(K.EXIT, stack.pop() if stack else "")
    return result
