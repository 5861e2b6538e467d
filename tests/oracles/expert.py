"""The analysis of a recording by the reference analyser EXPERT 3.0, event by event and in the same order.

One pass over file positions keeps region stacks, messages in transit, queues of exits, the state of teams and the
epochs of one-sided communication as plain Python lists. SHMEM and counters computed from others are not supported.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping

from oracles.epilog import ENTER_CODES, EXIT_CODES, Event, Recording, Region

Cell = tuple[str, str, int, int]

PARALLEL, CRITICAL, BARRIER, IBARRIER, FLUSH = 11, 18, 20, 21, 22
FUNCTIONS = frozenset((1, 4, 5, 6, 7, 8))


# -- regions by name ---------------------------------------------------------------------------------------------------


def is_mpi(name: str) -> bool:
    """Return whether a region belongs to MPI."""
    return len(name) >= 4 and name[:3].lower() == "mpi"


def is_barrier(name: str) -> bool:
    """Return whether a region is an MPI barrier."""
    return name.lower().startswith("mpi_barrier")


def is_collective(name: str) -> bool:
    """Return whether a region counts as collective communication."""
    parts = ("_all", "_op", "bcast", "gather", "reduce", "scan", "scatter")
    return is_mpi(name) and any(p in name.lower()[3:] for p in parts)


def is_point_to_point(name: str) -> bool:
    """Return whether a region counts as point-to-point communication."""
    rest = name.lower()[4:]
    parts = ("buffer", "cancel", "get_count", "probe", "recv", "request", "send", "start", "wait")
    return (
        is_mpi(name)
        and not name.lower().startswith("mpi_win")
        and (any(p in rest for p in parts) or rest.startswith("test"))
    )


def is_io(name: str) -> bool:
    """Return whether a region is a file operation."""
    return name.lower().startswith("mpi_file")


def is_init_exit(name: str) -> bool:
    """Return whether a region begins or ends MPI."""
    return name.lower() in ("mpi_init", "mpi_init_thread", "mpi_finalize")


def is_one_to_n(name: str) -> bool:
    """Return whether the root sends to all."""
    return name.lower() in ("mpi_bcast", "mpi_scatter", "mpi_scatterv")


def is_n_to_one(name: str) -> bool:
    """Return whether all send to the root."""
    return name.lower() in ("mpi_gather", "mpi_gatherv", "mpi_reduce")


def is_n_to_n(name: str) -> bool:
    """Return whether all send to all."""
    rest = name.lower()[3:]
    return is_mpi(name) and ("_all" in rest or rest == "_reduce_scatter")


def is_rma_communication(name: str) -> bool:
    """Return whether a region is a one-sided data transfer."""
    return name.lower() in ("mpi_get", "mpi_put")


def is_fence(name: str) -> bool:
    """Return whether a region is a fence."""
    return name.lower() == "mpi_win_fence"


def is_window_lock(name: str) -> bool:
    """Return whether a region locks or unlocks a window."""
    return name.lower() in ("mpi_win_lock", "mpi_win_unlock")


def is_window_management(name: str) -> bool:
    """Return whether a region creates or frees a window."""
    return name.lower() in ("mpi_win_create", "mpi_win_free")


def is_gat(name: str) -> bool:
    """Return whether a region synchronises a group; the name after the prefix is in lower case."""
    return name.lower().startswith("mpi_win") and name[8:] in ("post", "start", "complete", "wait", "test")


def is_rma_synchronization(name: str) -> bool:
    """Return whether a region synchronises one-sided communication."""
    return is_fence(name) or is_window_lock(name) or is_window_management(name) or is_gat(name)


def is_omp_api(name: str) -> bool:
    """Return whether a region is a function of the OpenMP library."""
    return len(name) >= 4 and name[:3].lower() == "omp"


def is_omp_lock(name: str) -> bool:
    """Return whether a region is a lock function of the OpenMP library."""
    return is_omp_api(name) and name.endswith("lock")


def is_overhead(r: Region) -> bool:
    """Return whether a region is overhead of writing the trace."""
    return r.file == "TRACER" and r.name == "TRACING"


MPI_PROFILE: dict[str, Callable[[str], bool]] = {
    "mpi": is_mpi,
    "mpi_communication": lambda n: is_collective(n) or is_rma_communication(n) or is_point_to_point(n),
    "mpi_collective": is_collective,
    "mpi_point2point": is_point_to_point,
    "mpi_io": is_io,
    "mpi_init_exit": is_init_exit,
    "mpi_synchronization": lambda n: is_barrier(n) or is_rma_synchronization(n),
    "mpi_sync_collective": is_barrier,
}
RMA_PROFILE: dict[str, Callable[[str], bool]] = {
    "mpi_rma_communication": is_rma_communication,
    "mpi_rma_synchronization": is_rma_synchronization,
    "mpi_rma_window_management": is_window_management,
    "mpi_rma_fence": is_fence,
    "mpi_rma_gat_synchronization": is_gat,
    "mpi_rma_lock_synchronization": is_window_lock,
}
OMP_PROFILE: dict[str, Callable[[Region], bool]] = {
    "omp": lambda r: is_omp_api(r.name) or r.type in (BARRIER, IBARRIER, FLUSH, CRITICAL),
    "omp_flush": lambda r: r.type == FLUSH,
    "omp_synchronization": lambda r: is_omp_lock(r.name) or r.type in (BARRIER, IBARRIER, CRITICAL),
    "omp_barrier": lambda r: r.type in (BARRIER, IBARRIER),
    "omp_explicit_barrier": lambda r: r.type == BARRIER,
    "omp_implicit_barrier": lambda r: r.type == IBARRIER,
}


# -- state -------------------------------------------------------------------------------------------------------------


class Node:
    """A call path; children differ by region and call site, roots by region only."""

    def __init__(self, parent: Node | None, region: int, region_definition: Region) -> None:
        self.parent = parent
        self.region = region
        self.definition = region_definition
        self.children: dict[tuple[int, int], Node] = {}
        self.path: str = f"{parent.path}/{region_definition.name}" if parent else region_definition.name


class Epoch:
    """An access or exposure epoch of one location: its events, and the partner locations."""

    def __init__(self, first: Event, partners: list[int]) -> None:
        self.events = [first]
        self.partners = partners


class GlobalEpoch:
    """An exposure epoch with the access epochs of all origins."""

    def __init__(self) -> None:
        self.exposure: Epoch | None = None
        self.access: dict[int, Epoch] = {}

    def is_complete(self) -> bool:
        """Return whether all of its epochs are known."""
        return self.exposure is not None and len(self.access) == len(self.exposure.partners)


class Analysis:
    """The analysis of a recording in one pass over its events.

    Attributes
    ----------
    enterptr : dict of int to Event
        The ENTER around every event, by position.
    node : dict of int to Node
        The call path of every ENTER, by position.
    found : dict of (property, Node, location) to float
        Waiting times.
    value : dict of (property, Node, location) to float
        All severities.
    in_transit : dict of (source, destination) to list of Event
        Messages not received; after the pass, those never received.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = r = recording
        self.process = {x.id: x.process for x in r.locations.values()}
        self.thread = {x.id: x.thread for x in r.locations.values()}
        self.master = r.masters()
        self.threads: dict[int, list[int]] = defaultdict(list)
        for x in r.locations.values():
            self.threads[x.process].append(x.id)
        self.has_mpi = len(self.threads) > 1
        self.has_rma = bool(r.windows)
        self.has_omp = len(self.process) > len(self.threads)

        self.enterptr: dict[int, Event | None] = {}
        self.exit_pos: dict[int, int] = {}
        self.node: dict[int, Node] = {}
        self.roots: dict[int, Node] = {}
        self.nodes: list[Node] = []
        self.stack: dict[int, list[Event]] = defaultdict(list)
        self.fork: dict[int, Event | None] = defaultdict(lambda: None)
        self.in_transit: dict[tuple[int, int], list[Event]] = defaultdict(list)
        self.collexits: dict[tuple[int, int], deque[Event]] = defaultdict(deque)
        self.windowexits: dict[tuple[int, int], deque[Event]] = defaultdict(deque)
        self.ompexits: dict[int, deque[Event]] = defaultdict(deque)
        self.last_lock: dict[tuple[int, int], Event] = {}
        self.open_access: dict[tuple[int, int], Epoch] = {}
        self.open_exposure: dict[tuple[int, int], Epoch] = {}
        self.last_start: dict[int, tuple[Event, int]] = {}
        self.global_epochs: dict[tuple[int, int], list[GlobalEpoch]] = defaultdict(list)

        self.inclusive: dict[tuple[Node, int], float] = defaultdict(float)
        self.counters: dict[tuple[int, Node, int], int] = defaultdict(int)
        self.visits: dict[tuple[Node, int], int] = defaultdict(int)
        self.in_parallel: dict[tuple[Node, int], set[int]] = defaultdict(set)
        self.found: dict[tuple[str, Node, int], float] = defaultdict(float)

        for e in r.events:
            self.step(e)
        left = [location for location, stack in self.stack.items() if stack]
        if left:
            raise ValueError(f"missing EXIT events at locations {left}")
        self.value = self.finish()

    # -- one event -----------------------------------------------------------------------------------------------------

    def step(self, e: Event) -> None:
        """Process the next event."""
        stack = self.stack[e.location]
        process = self.process[e.location]
        if e.code in ENTER_CODES:
            self.enter(e, stack)
            return
        self.enterptr[e.pos] = stack[-1] if stack else None
        if e.code in EXIT_CODES:
            if not stack:
                raise ValueError(f"EXIT {e.pos} leaves nothing")
            self.exit(e, stack)
        match e.name:
            case "MPI_SEND":
                self.in_transit[e.location, e.fields["dest"]].append(e)
            case "MPI_RECV":
                self.receive(e)
            case "MPI_COLLEXIT":
                members = self.recording.comms[e.fields["comm"]]
                instance = self.complete(self.collexits, e, e.fields["comm"], process, members)
                if instance:
                    self.collective(instance, e.fields["root"])
            case "MPI_WINCOLLEXIT":
                window = e.fields["window"]
                members = self.recording.comms[self.recording.windows[window]]
                instance = self.complete(self.windowexits, e, window, process, members)
                if instance:
                    self.window_collective(instance)
            case "OMP_FORK":
                self.fork[process] = e
            case "OMP_JOIN":
                if any(self.ompexits[t] for t in self.threads[process]):
                    raise ValueError(f"JOIN {e.pos}: the number of threads changes")
                self.fork[process] = None
            case "OMP_COLLEXIT":
                self.ompexits[e.location].append(e)
                queues = [self.ompexits[t] for t in self.threads[process]]
                if all(queues):
                    self.construct(sorted((q.popleft() for q in queues), key=lambda x: x.pos))
            case "OMP_ALOCK" | "OMP_RLOCK":
                key = e.fields["lock"], process
                if e.name == "OMP_ALOCK" and key in self.last_lock:
                    self.lock(e, self.last_lock[key])
                self.last_lock[key] = e
            case "MPI_PUT_1TS":
                self.last_start[e.location] = e, e.fields["window"]
            case "MPI_GET_1TO":
                # the record has no window: it is that of the following transfer with the same number
                self.last_start[e.location] = e, -1
            case "MPI_PUT_1TE":
                key = e.fields["window"], e.location
                if key in self.open_exposure:
                    self.open_exposure[key].events.append(e)
            case "MPI_GET_1TE":
                key = e.fields["window"], e.location
                if key in self.open_access:
                    self.open_access[key].events.append(e)
            case "MPI_WINEXIT":
                self.epoch(e)
            case "EXIT":
                self.end_of_transfer(e)

    def enter(self, e: Event, stack: list[Event]) -> None:
        """Enter a region, and find its call path."""
        r = self.recording
        process = self.process[e.location]
        fork = self.fork[process]
        around = stack[-1] if stack else None
        if around is None and fork is not None and self.thread[e.location] != 0:
            before = [x for x in self.stack[self.master[process]] if x.pos < fork.pos]
            around = before[-1] if before else None
        self.enterptr[e.pos] = around
        region = r.region_of(e)
        parent = self.node[around.pos] if around else None
        if parent is None:
            known = self.roots.get(region)
        else:
            known = parent.children.get((region, e.fields.get("call_site", -1)))
        if known is None:
            known = Node(parent, region, r.region(region))
            self.nodes.append(known)
            if parent is None:
                self.roots[region] = known
            else:
                parent.children[region, e.fields.get("call_site", -1)] = known
        self.node[e.pos] = known
        stack.append(e)
        is_parallel = r.region(region).type == PARALLEL
        if self.has_omp and is_parallel and self.thread[e.location] == 0 and parent is not None and fork is not None:
            self.add("omp_fork", parent, e.location, e.time - fork.time)
            self.add("omp", parent, e.location, e.time - fork.time)

    def exit(self, e: Event, stack: list[Event]) -> None:
        """Leave a region; add time, visits and counters, and note whether a parallel region is executed."""
        enter = stack.pop()
        self.exit_pos[enter.pos] = e.pos
        node = self.node[enter.pos]
        process = self.process[e.location]
        self.inclusive[node, e.location] += e.time - enter.time
        self.visits[node, e.location] += 1
        for i, (first, last) in enumerate(zip(enter.metrics, e.metrics, strict=True)):
            self.counters[i, node, e.location] += last - first
        if self.fork[process] is None:
            self.in_parallel.pop((node, process), None)
        else:
            self.in_parallel[node, process].add(e.location)

    # -- properties ----------------------------------------------------------------------------------------------------

    def add(self, name: str, node: Node, location: int, value: float) -> None:
        """Add to a severity."""
        self.found[name, node, location] += value

    def add_at(self, name: str, e: Event, value: float) -> None:
        """Add to a severity, at the call that contains an event."""
        self.add(name, self.node[self.call(e).pos], e.location, value)

    def call(self, e: Event) -> Event:
        """Return the ENTER of the call that contains an event."""
        enter = self.enterptr[e.pos]
        if enter is None:
            raise ValueError(f"{e.name} {e.pos} is in no region")
        return enter

    def region_around(self, e: Event) -> Region:
        """Return the region that contains an event."""
        return self.recording.region(self.recording.region_of(self.call(e)))

    @staticmethod
    def complete(
        queues: dict[tuple[int, int], deque[Event]], e: Event, comm: int, process: int, members: Iterable[int]
    ) -> list[Event]:
        """Append an exit to its queue; return the instance that it completes, in the order of positions."""
        queues[comm, process].append(e)
        mine = [queues[comm, m] for m in members]
        if all(mine):
            return sorted((q.popleft() for q in mine), key=lambda x: x.pos)
        return []

    def wait_at(self, name: str, instance: list[Event]) -> None:
        """Add the waits for the ENTER with the largest position."""
        last = max((self.call(x) for x in instance), key=lambda x: x.pos)
        for x in instance:
            self.add_at(name, x, last.time - self.call(x).time)

    def collective(self, instance: list[Event], root: int) -> None:
        """Analyse a collective operation; its kind is the region of the member that ended first."""
        region = self.region_around(instance[0]).name
        at_root = next((x for x in instance if x.location == root), None)
        if is_n_to_n(region):
            self.wait_at("mpi_wait_nxn", instance)
        if is_barrier(region):
            self.wait_at("mpi_barrier_wait", instance)
            first = min(x.time for x in instance)
            for x in instance:
                self.add_at("mpi_barrier_completion", x, x.time - first)
        if is_n_to_one(region) and at_root and len(instance) > 1:
            others = min(self.call(x).time for x in instance if x is not at_root)
            idle = others - self.call(at_root).time
            if idle > 0:
                self.add_at("mpi_earlyreduce", at_root, idle)
        if is_one_to_n(region) and at_root:
            for x in instance:
                idle = self.call(at_root).time - self.call(x).time
                if idle > 0:
                    self.add_at("mpi_latebroadcast", x, idle)

    def window_collective(self, instance: list[Event]) -> None:
        """Analyse a fence, or the creation or the end of a window."""
        region = self.region_around(instance[0]).name.lower()
        names = {
            "mpi_win_fence": "mpi_rma_fence_wait",
            "mpi_win_create": "mpi_rma_wait_window_create",
            "mpi_win_free": "mpi_rma_wait_window_free",
        }
        if region in names:
            self.wait_at(names[region], instance)

    def construct(self, instance: list[Event]) -> None:
        """Analyse the end of an OpenMP construct."""
        match self.region_around(instance[0]).type:
            case 20:
                self.wait_at("omp_ebarrier_wait", instance)
            case 21:
                self.wait_at("omp_ibarrier_wait", instance)

    def lock(self, e: Event, last: Event) -> None:
        """Analyse an acquisition, given the last event of the same lock."""
        idle = last.time - self.call(e).time
        if idle > 0:
            self.add_at("omp_lock_competition", e, idle)
            of = self.region_around(e).type
            if of in FUNCTIONS:
                self.add_at("omp_lock_api", e, idle)
            elif of == CRITICAL:
                self.add_at("omp_lock_critical", e, idle)

    def receive(self, e: Event) -> None:
        """Match a message and analyse it."""
        queue = self.in_transit[e.fields["src"], e.location]
        send = next((s for s in queue if all(s.fields[k] == e.fields[k] for k in ("tag", "comm"))), None)
        if send is None:
            raise ValueError(f"RECV {e.pos} without SEND")
        queue.remove(send)
        to_me = [q[0].pos for (_, dst), q in self.in_transit.items() if dst == e.location and q]
        from_it = [q[0].pos for (src, _), q in self.in_transit.items() if src == send.location and q]
        enter_recv, enter_send = self.call(e), self.call(send)
        name, sender = self.region_around(e).name, self.region_around(send).name.lower()
        never = name.startswith("mpi_test") or name.lower() in ("mpi_waitall", "mpi_waitsome")
        if is_mpi(name) and not never:
            idle = enter_send.time - enter_recv.time
            if idle > 0:
                self.add_at("mpi_latesender", e, idle)
                if to_me and min(to_me) < send.pos:
                    self.add_at("mpi_latesender_wo", e, idle)
        if name.lower() == "mpi_recv" and sender in ("mpi_send", "mpi_ssend"):
            idle = enter_recv.time - enter_send.time
            is_inside = enter_send.pos < enter_recv.pos < self.exit_pos.get(enter_send.pos, e.pos)
            if idle > 0 and is_inside:
                self.add_at("mpi_latereceiver", send, idle)
                if from_it and min(from_it) < send.pos:
                    self.add_at("mpi_latereceiver_wo", send, idle)

    # -- epochs --------------------------------------------------------------------------------------------------------

    def end_of_transfer(self, e: Event) -> None:
        """Append the end of MPI_Put or MPI_Get to its access epoch."""
        if e.location not in self.last_start or not is_rma_communication(self.region_around(e).name):
            return
        start, window = self.last_start[e.location]
        if self.enterptr[start.pos] is not self.enterptr[e.pos]:
            return
        if window < 0:
            window = self.window_of_get(start)
        if (window, e.location) in self.open_access:
            self.open_access[window, e.location].events.append(e)

    def window_of_get(self, start: Event) -> int:
        """Return the window of a GET_1TO, from the GET_1TE at the same location with its number."""
        for e in self.recording.events[start.pos :]:
            if e.name == "MPI_GET_1TE" and e.location == start.location and e.fields["rma"] == start.fields["rma"]:
                return e.fields["window"]
        return -1

    def epoch(self, e: Event) -> None:
        """Begin or end a local epoch."""
        key = window, location = e.fields["window"], e.location
        what = self.region_around(e).name[8:]
        partners = [self.master[p] for p in self.recording.comms[e.fields["comm"]]]
        completed = []
        if what == "start":
            self.open_access[key] = Epoch(e, partners)
        elif what == "post":
            self.open_exposure[key] = Epoch(e, partners)
        elif what == "complete":
            epoch = self.open_access.pop(key)
            epoch.events.append(e)
            for target in epoch.partners:
                known = self.global_epochs[window, target]
                whole = next((g for g in known if location not in g.access), None)
                if whole is None:
                    whole = GlobalEpoch()
                    known.append(whole)
                whole.access[location] = epoch
                if whole.is_complete():
                    known.remove(whole)
                    completed.append(whole)
        elif what == "wait" or (what == "test" and e.fields["synex"]):
            epoch = self.open_exposure.pop(key)
            epoch.events.append(e)
            known = self.global_epochs[key]
            whole = next((g for g in known if g.exposure is None), None)
            if whole is None:
                whole = GlobalEpoch()
                known.append(whole)
            whole.exposure = epoch
            if whole.is_complete():
                known.remove(whole)
                completed.append(whole)
        if completed:
            self.early_wait(completed)
            self.late_post(completed)

    def early_wait(self, completed: list[GlobalEpoch]) -> None:
        """Find the last origin that the target waits for; of several targets, only the first that waits counts."""
        for whole in completed:
            assert whole.exposure is not None
            wait = whole.exposure.events[-1]
            last = max(whole.access.values(), key=lambda a: self.call(a.events[-1]).time)
            complete = self.call(last.events[-1])
            idle = complete.time - self.call(wait).time
            if idle > 0:
                self.add_at("mpi_rma_earlywait", wait, idle)
                transfers = [x for x in last.events if x.name == "EXIT"]
                if transfers:
                    late = min(complete.time - transfers[-1].time, idle)
                    if late > 0:
                        self.add_at("mpi_rma_latecomplete", wait, late)
                return

    def late_post(self, completed: list[GlobalEpoch]) -> None:
        """Find the calls of the origins that were in progress when the target posted."""
        for whole in completed:
            assert whole.exposure is not None
            post = self.call(whole.exposure.events[0]).time
            for access in whole.access.values():
                for x in access.events:
                    if x.code in EXIT_CODES and self.call(x).time <= post <= x.time:
                        name = "mpi_rma_latepost" if x.name == "MPI_WINEXIT" else "mpi_rma_earlytransfer"
                        if post > self.call(x).time:
                            self.add_at(name, x, post - self.call(x).time)
                        break

    # -- the end -------------------------------------------------------------------------------------------------------

    def exclusive(self, inclusive: Mapping[tuple[Node, int], float]) -> dict[tuple[Node, int], float]:
        """Subtract the values of children; workers have no values outside parallel regions."""
        result: dict[tuple[Node, int], float] = defaultdict(float)
        for (node, location), value in inclusive.items():
            result[node, location] += value
            if node.parent is not None:
                result[node.parent, location] -= value
        return {k: v for k, v in result.items() if self.is_own(*k)}

    def is_own(self, node: Node, location: int) -> bool:
        """Return whether the time of a location in a call path counts: always for masters, else in parallel regions."""
        return self.thread[location] == 0 or location in self.in_parallel.get((node, self.process[location]), ())

    def finish(self) -> dict[tuple[str, Node, int], float]:
        """Return all severities."""
        result: dict[tuple[str, Node, int], float] = defaultdict(float)
        time = self.exclusive(self.inclusive)
        for (node, location), value in time.items():
            region = node.definition
            names = ["time", "overhead" if is_overhead(region) else "execution"]
            if self.has_mpi:
                names += [k for k, test in MPI_PROFILE.items() if test(region.name)]
            if self.has_rma:
                names += [k for k, test in RMA_PROFILE.items() if test(region.name)]
            if self.has_omp:
                names += [k for k, belongs in OMP_PROFILE.items() if belongs(region)]
            for name in names:
                result[name, node, location] += value
        for node in self.nodes:
            for process, threads in self.threads.items():
                of_master = time.get((node, self.master[process]), 0.0)
                if not of_master:
                    continue
                for location in threads:
                    if not self.is_own(node, location):
                        result["time", node, location] += of_master
                        result["omp_idle_threads", node, location] += of_master
        for (node, location), visits in self.visits.items():
            result["visits", node, location] += visits
        for i, metric in enumerate(self.recording.metrics):
            mine: dict[tuple[Node, int], float] = {
                (node, location): count for (j, node, location), count in self.counters.items() if j == i
            }
            for (node, location), count in self.exclusive(mine).items():
                result[metric.name, node, location] += count
        for key, value in self.found.items():
            result[key] += value
        return dict(result)


def is_enabled(name: str, analysis: Analysis) -> bool:
    """Return whether the analyser searches for a property."""
    if name.startswith("mpi_rma"):
        return analysis.has_rma
    if name.startswith("mpi"):
        return analysis.has_mpi
    if name.startswith("omp"):
        return analysis.has_omp
    return True


def severities(recording: Recording) -> dict[Cell, float]:
    """Return all severities that are not 0, by (property, call path, rank, thread).

    Inclusive along the property tree, exclusive along the call tree; call paths with the same names are added up.

    Parameters
    ----------
    recording : Recording
        Complete and in order.

    Raises
    ------
    ValueError
        If the reference analyser would refuse the recording.
    """
    analysis = Analysis(recording)
    result: dict[Cell, float] = defaultdict(float)
    for (name, node, location), value in analysis.value.items():
        if is_enabled(name, analysis):
            result[name, node.path, analysis.process[location], analysis.thread[location]] += value
    return {k: v for k, v in result.items() if v}
