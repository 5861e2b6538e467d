"""Activities of devices, found in plain Python from the events of a store, with dicts and lists and without the engine.

It knows the functions that the test programs and the recorded traces call, and treats streams as queues.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass, field

from tracecols.schema import NAMES

TO_DEVICE, TO_HOST = 1, 2
WAITS = ("synchronize", "clfinish", "clwaitforevents")


@dataclass
class Call:
    """A region instance."""

    name: str
    path: tuple[str, ...]
    location: int
    enter: int
    exit: int = -1
    stream: int = -1
    event: int = -1
    callsite: int = -1
    paradigm: str = ""
    inside: int = 0
    """Time of calls inside this one."""
    is_outer: bool = False
    waits_inside: bool = False


@dataclass
class Activity:
    """A kernel or a copy."""

    what: str
    location: int
    begin: int
    end: int
    row: int
    call: Call | None = None
    callsite: int = -1
    direction: int = 0
    bytes: int = 0
    hidden: int = 0
    path: tuple[str, ...] = ()


@dataclass
class Devices:
    """The result of the oracle; times in ticks."""

    kernels: list[Activity] = field(default_factory=list)
    copies: list[Activity] = field(default_factory=list)
    launches: list[Call] = field(default_factory=list)
    span: dict[int, tuple[int, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    by_stream: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    by_path: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))


def events_of(store, location):
    """Yield the events of a location: row, time, kind, region, and columns of side tables."""
    columns = store.read("events", location)
    first = store.definitions["locations"].column("first_row").to_pylist()[location]
    attributes = store.definitions["attribute_definitions"].column("name").to_pylist()
    more = defaultdict(dict)
    for family in ("rma", "parameters"):
        if store.n_rows(family, location):
            side = store.read(family, location)
            for i, row in enumerate(side["row"].tolist()):
                more[row].update({k: int(v[i]) for k, v in side.items() if k not in ("row", "kind")})
    if store.n_rows("attributes", location):
        side = store.read("attributes", location)
        for row, which, value in zip(*(side[c].tolist() for c in ("row", "attribute", "value")), strict=True):
            more[row][attributes[which]] = value
    for i, (time, kind, region) in enumerate(
        zip(*(columns[c].tolist() for c in ("time", "kind", "region")), strict=True)
    ):
        yield first + i, time, NAMES[kind], region, more.get(first + i, {})


def find_devices(store) -> Devices:
    """Find kernels, copies, and their times."""
    table = store.definitions["locations"].to_pydict()
    groups = store.definitions["processes"].to_pydict()
    regions = store.definitions["regions"].to_pydict()
    members = store.definitions["communicators"].column("members").to_pylist()
    windows = store.definitions["windows"].column("communicator").to_pylist()
    parameters = store.definitions["parameter_definitions"].column("name").to_pylist()
    is_stream = [kind == "gpu" for kind in table["type"]]

    def process_of(location):
        group = table["process"][location]
        return groups["creator"][group] if groups["type"][group] == "accelerator" else group

    found = Devices()
    calls: list[Call] = []
    span: dict[int, list[int]] = defaultdict(list)
    for location, kind in enumerate(table["type"]):
        if kind == "metric":
            continue
        stack: list[Call] = []
        open_copies: dict[tuple[int, int], Activity] = {}
        for row, time, what, region, more in events_of(store, location):
            span[process_of(location)].append(time)
            if what in ("ENTER", "PROGRAM_BEGIN"):
                name = regions["name"][region]
                call = Call(name.lower(), (*(stack[-1].path if stack else ()), name), location, time)
                call.paradigm, call.is_outer = regions["paradigm"][region], not stack
                call.exit = row  # until its time is known
                stack.append(call)
                if is_stream[location] and call.is_outer:
                    update = "targetupdate" in call.name
                    if not update:
                        found.kernels.append(Activity("kernel", location, time, time, row, path=call.path))
            elif what in ("EXIT", "PROGRAM_END"):
                call = stack.pop()
                call.exit = time
                if is_stream[location]:
                    if call.is_outer and "targetupdate" not in call.name:
                        found.kernels[-1].end = time
                else:
                    calls.append(call)
                    if stack and stack[-1].paradigm in ("cuda", "hip"):
                        stack[-1].inside += time - call.enter
                        stack[-1].waits_inside |= call.name.endswith(WAITS)
            elif what in ("RMA_PUT", "RMA_GET"):
                communicator = members[windows[more["window"]]]
                remote = communicator[more["remote"]] if 0 <= more["remote"] < len(communicator) else -1
                if is_stream[location] or (remote >= 0 and is_stream[remote]):
                    toward_host = (what == "RMA_PUT") == is_stream[location]
                    copy = Activity("copy", location if is_stream[location] else remote, time, time, row)
                    copy.direction = TO_HOST if toward_host else TO_DEVICE
                    copy.bytes = more["sent"] if what == "RMA_PUT" else more["received"]
                    copy.call = None if is_stream[location] else stack[-1]
                    found.copies.append(copy)
                    open_copies[more["window"], more["matching"]] = copy
            elif what == "RMA_OP_COMPLETE_BLOCKING":
                copy = open_copies.pop((more["window"], more["matching"]), None)
                if copy is not None:
                    copy.end = time
            elif what.startswith("PARAMETER") and parameters[more["parameter"]] == "callsite id":
                if is_stream[location]:
                    found.kernels[-1].callsite = more["value"]
                else:
                    stack[-1].callsite = more["value"]
            if stack and what == "ENTER":
                stack[-1].stream = next((v for k, v in more.items() if k.endswith(("STREAM_REF", "QUEUE_REF"))), -1)
    found.span = {p: (min(times), max(times)) for p, times in span.items()}
    calls.sort(key=lambda c: c.enter)
    api = [c for c in calls if c.paradigm in ("cuda", "hip", "opencl")]
    _launches(found, [c for c in api if "launch" in c.name or "ndrange" in c.name])
    _requests(found, [c for c in api if "memcpy" in c.name], process_of)
    _hidden(found, process_of)
    _streams(found, [i for i, stream in enumerate(is_stream) if stream], process_of)
    _waits(found, api, process_of)
    return found


def _launches(found, launches):
    """Assign launches to kernels: the k-th launch on a stream, or with a call site, to the k-th kernel there."""
    found.launches = launches
    queues = defaultdict(deque)
    for call in launches:
        queues[("stream", call.stream) if call.stream >= 0 else ("site", call.callsite)].append(call)
    for kernel in sorted(found.kernels, key=lambda k: k.begin):
        for key in (("stream", kernel.location), ("site", kernel.callsite)):
            if key[1] >= 0 and queues[key]:
                kernel.call = queues[key].popleft()
                break


def _requests(found, calls, process_of):
    """Assign calls to copies: the call that encloses the copy; to asynchronous copies, the k-th call of a direction."""

    def kind(call):
        return process_of(call.location), TO_DEVICE if "htod" in call.name else TO_HOST

    copies = sorted(found.copies, key=lambda c: c.begin)
    used = set()
    for copy in copies:
        wanted = process_of(copy.location), copy.direction
        enclosing = [c for c in _around(calls, copy) if kind(c) == wanted]
        if copy.call is None and enclosing:
            copy.call = enclosing[0]
            used.add(id(copy.call))
    queues = defaultdict(deque)
    for call in calls:
        if id(call) not in used:
            queues[kind(call)].append(call)
    for copy in copies:
        queue = queues[process_of(copy.location), copy.direction]
        if copy.call is None and queue:
            copy.call = queue.popleft()


def _around(calls, copy):
    """Return the calls that enclose a copy; `calls` are sorted by ENTER, and few overlap."""
    at = bisect_right(calls, copy.begin, key=lambda c: c.enter)
    return [c for c in calls[max(0, at - 20) : at] if c.exit >= copy.end]


def _hidden(found, process_of):
    """Find for how long kernels of the process run during each copy; a process has one device."""
    by_process = defaultdict(list)
    for kernel in sorted(found.kernels, key=lambda k: k.begin):
        by_process[process_of(kernel.location)].append(kernel)
    for copy in found.copies:
        kernels = by_process[process_of(copy.location)]
        at = copy.begin
        for kernel in kernels[max(0, bisect_left(kernels, copy.begin, key=lambda k: k.begin) - 50) :]:
            if kernel.begin >= copy.end:
                break
            begin, end = max(at, kernel.begin), min(copy.end, kernel.end)
            if end > begin:
                copy.hidden += end - begin
                at = end


def _streams(found, streams, process_of):
    """Add up the times of every stream; it is idle outside kernels and copies."""
    for stream in streams:
        cursor, last = found.span[process_of(stream)]
        acts = sorted((a for a in found.kernels + found.copies if a.location == stream), key=lambda a: (a.begin, a.row))
        for a in acts:
            if a.begin > cursor:
                _idle(found, stream, cursor, a.begin, a.call)
            if a.call is not None and a.what == "kernel":
                late = min(a.call.exit, a.begin) - max(a.call.enter, cursor)
                found.totals["device_late_launch"] += max(0, late)
            spent = max(0, a.end - max(a.begin, cursor))
            name = "device_kernels" if a.what == "kernel" else "device_copies"
            found.totals[name] += spent
            found.by_stream[name, stream] += spent
            if a.what == "copy":
                found.totals["device_copies_to_device" if a.direction == TO_DEVICE else "device_copies_to_host"] += (
                    spent
                )
                found.totals["device_copies_hidden"] += a.hidden
                found.totals["device_copies_exposed"] += a.end - a.begin - a.hidden
            cursor = max(cursor, a.end)
        if last > cursor:
            found.totals["device_idle_before_launch"] += last - cursor
            found.totals["device_idle"] += last - cursor
            found.by_stream["device_idle", stream] += last - cursor


def _idle(found, stream, begin, end, call):
    found.totals["device_idle"] += end - begin
    found.by_stream["device_idle", stream] += end - begin
    if call is not None:
        before = min(max(call.enter, begin), end) - begin
        found.totals["device_idle_before_launch"] += before
        found.totals["device_idle_after_launch"] += end - begin - before
        found.by_path["device_idle", "/".join(call.path)] += end - begin


def _waits(found, api, process_of):
    """Find waits of the host: the work that was pending when the wait began."""
    acts = [a for a in found.kernels + found.copies if a.call is not None]
    by_process = defaultdict(list)
    for a in acts:
        by_process[process_of(a.location)].append(a)
    copies = {id(a.call): a for a in found.copies if a.call is not None}
    for process, mine in by_process.items():
        mine.sort(key=lambda a: a.call.enter)
        # by stream: times of requests, and the work requested so far that ends last
        streams = defaultdict(lambda: ([], []))
        for a in mine:
            entered, longest = streams[a.location]
            entered.append(a.call.enter)
            longest.append(a if not longest or a.end > longest[-1].end else longest[-1])
        for call in api:
            if process_of(call.location) != process:
                continue
            copy = copies.get(id(call))
            blocks = copy is not None and call.exit >= copy.end
            if blocks:
                found.totals["device_blocking_copy"] += max(0, copy.end - max(copy.begin, call.enter))
            if not blocks and (not call.name.endswith(WAITS) or call.waits_inside):
                continue
            candidates = []
            for stream, (entered, longest) in streams.items():
                at = bisect_left(entered, call.enter)
                if at and call.stream in (-1, stream) and longest[at - 1].end > call.enter:
                    candidates.append(longest[at - 1])
            # the call waited for work that ended within it; for work that ended later only if there is no other
            pending = max(candidates, key=lambda a: (a.end <= call.exit, a.end), default=None)
            own = call.exit - call.enter - call.inside
            if pending is None or pending.end <= call.enter:
                if not blocks:
                    found.totals["device_useless_sync"] += own
            else:
                wait = min(call.exit, pending.end) - max(call.enter, pending.begin)
                name = "device_copy_wait" if blocks else "device_early_wait"
                found.totals[name] += max(0, min(wait, own))
