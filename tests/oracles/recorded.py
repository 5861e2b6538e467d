"""The events of a store as plain objects, made from its tables one by one."""

from __future__ import annotations

from oracles.events import Event
from tracecols.schema import EventKind as K

KINDS = {
    K.ENTER: "enter", K.PROGRAM_BEGIN: "enter", K.CALLING_CONTEXT_ENTER: "enter",
    K.EXIT: "exit", K.PROGRAM_END: "exit", K.CALLING_CONTEXT_EXIT: "exit",
    K.MPI_SEND: "send", K.MPI_ISEND: "send",
    K.MPI_RECV: "recv", K.MPI_IRECV: "recv", K.MPI_MRECV: "recv", K.MPI_IMRECV: "recv",
    K.MPI_IRECV_REQUEST: "post", K.MPI_IMRECV_REQUEST: "post",
    K.MPI_ISEND_COMPLETE: "done", K.MPI_REQUEST_CANCELLED: "cancel", K.MPI_PROBE: "probe",
    K.MPI_COLLECTIVE_END: "collective",
    K.THREAD_FORK: "fork", K.OMP_FORK: "fork", K.THREAD_JOIN: "join", K.OMP_JOIN: "join",
    K.THREAD_TEAM_BEGIN: "begin", K.THREAD_TEAM_END: "end",
    K.THREAD_ACQUIRE_LOCK: "acquire", K.OMP_ACQUIRE_LOCK: "acquire",
    K.THREAD_RELEASE_LOCK: "release", K.OMP_RELEASE_LOCK: "release",
    K.THREAD_TASK_SWITCH: "switch", K.THREAD_TASK_COMPLETE: "complete",
}  # fmt: skip


class Recorded:
    """All events of a trace in chronological order, and the definitions that state sequences need.

    Attributes
    ----------
    events : list of Event
        By time, ties in the order of table `ties`, else by location; within a location as recorded, even if time
        decreases.
    group : dict of int to list of int
        Processes of every communicator; empty if every process has its own.
    process : list of int
        Process of every location.
    constructs : set of str
        Regions that a whole team executes, as text of their numbers.
    order : dict of Event to int
        Index of each event in `events`.
    site : dict of int to int
        Call sites of ENTERs, by row.
    """

    def __init__(self, trace) -> None:
        locations = trace.locations
        self.process = locations["process"].tolist()
        self.group = {
            i: [self.process[m] for m in members] for i, members in enumerate(trace.communicators["members"].tolist())
        }
        regions = trace.regions
        is_construct = (regions["paradigm"] == "openmp") & regions["role"].isin(
            ["parallel", "loop", "sections", "workshare", "single", "barrier", "implicit_barrier"]
        )
        # regions are identified by number: names may be ambiguous
        self.constructs = {str(i) for i in regions.index[is_construct]}
        has_sites = "enter_sites" in trace.store.tables
        self.site = dict(trace.table("enter_sites").itertuples(index=False)) if has_sites else {}
        sides: dict[int, dict[str, int]] = {}
        tables = [t for t in ("p2p", "collectives", "threads", "locks", "tasks", "ties") if t in trace.store.tables]
        place = {}
        for name in tables:
            for row in trace.table(name).to_dict("records"):
                if name == "ties":
                    place[row["row"]] = row["place"]
                else:
                    sides[row["row"]] = row
        self.events = []
        for location, first, n in zip(locations.index, locations["first_row"], locations["n_events"], strict=True):
            columns = trace.store.read("events", location) if n else {}
            for i in range(n):
                kind, region = int(columns["kind"][i]), int(columns["region"][i])
                what = KINDS.get(kind, "other")
                if kind == K.MEASUREMENT_ON_OFF:
                    what = "enter" if region >= 0 else "exit"
                side = sides.get(first + i, {})
                e = Event(int(columns["time"][i]), location, self.process[location], what, first + i, str(region))
                e.communicator = side.get("communicator", -1)
                e.tag, e.request, e.message = (side.get(c, -1) for c in ("tag", "request", "message"))
                e.team, e.lock = side.get("team", -1), side.get("lock", -1)
                if what in ("send", "recv", "probe"):
                    # if a message was probed, only the probe has its envelope
                    members = self.group.get(e.communicator, [])
                    e.peer = members[side["peer"]] if members else e.process
                if what in ("switch", "complete"):
                    e.task = side["creator"], side["generation"]
                self.events.append(e)
        # an event earlier than a previous one of its location is ordered at the time of the latter
        latest: dict[int, int] = {}
        comes = {}
        for e in self.events:
            comes[e] = latest[e.location] = max(e.time, latest.get(e.location, e.time))
        self.events.sort(key=lambda e: (comes[e], place.get(e.row, e.location << 32), e.row))
        self.order = {e: i for i, e in enumerate(self.events)}
