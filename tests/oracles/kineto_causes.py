"""Root causes of waiting kernels, from the JSON of the PyTorch profiler: the definitions of docs/root-causes.md, in
plain Python, for recordings whose times are whole microseconds.

It only supports a recording of 2023 with NCCL operations of all with all. It shares no code with tracecols.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

HOST, DEVICE = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"), ("kernel", "gpu_memcpy", "gpu_memset")
SYNCHRONISE = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
SPENT_IN = ON_HOST, ON_STREAM, LATENCY, BEFORE = "host", "stream", "latency", "before the recording"


@dataclass(eq=False)
class Operation:
    """A kernel or a copy. `after` is its predecessor, by whether NCCL kernels on its stream are skipped: time and
    operation, None for the host, the operation itself if no predecessor is recorded."""

    rank: int
    begin: int
    end: int
    name: str
    launch: int = -1
    path: tuple[str, ...] = ()
    depends: list[Operation] = field(default_factory=list)
    after: dict[bool, tuple[int, Operation | None]] = field(default_factory=dict)
    late: int = 0
    cause: Operation | None = None
    instance: int = -1

    @property
    def communicates(self) -> bool:
        return self.name.startswith("nccl")


@dataclass
class Rank:
    """The operations of a rank, its calls that waited (EXIT, end of the wait, awaited operation, call path) in order
    of EXIT, and the call paths of its host (begin, call path)."""

    operations: list[Operation] = field(default_factory=list)
    waits: list[tuple[int, int, Operation, tuple[str, ...]]] = field(default_factory=list)
    line: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    n_held = n_refuted = n_calls = 0


def read(folder: Path) -> dict[int, Rank]:
    """Read a folder with a file for each rank; return the ranks by number."""
    ranks = {}
    for file in sorted(folder.glob("*.json")):
        recorded = json.loads(file.read_text())
        slices = [e for e in recorded["traceEvents"] if e.get("ph") == "X"]
        number = recorded["distributedInfo"]["rank"]
        ranks[number] = _rank(
            number, [s for s in slices if s["cat"] in HOST], [s for s in slices if s["cat"] in DEVICE]
        )
    for parts in zip(*([o for o in r.operations if o.communicates] for _, r in sorted(ranks.items())), strict=True):
        last = max(parts, key=lambda o: (o.begin, -o.rank))
        for o in parts:
            o.instance = last.begin
            if o is not last and min(last.begin, o.end) > o.begin:
                o.late, o.cause = min(last.begin, o.end), last
    return ranks


def _rank(number: int, calls: list[dict], executed: list[dict]) -> Rank:
    rank, paths = Rank(), _paths(calls)
    launches = {c["args"]["correlation"]: i for i, c in enumerate(calls) if "correlation" in c.get("args", {})}
    streams = defaultdict(list)
    for e in sorted(executed, key=lambda e: (e["tid"], e["ts"], e["dur"])):
        o = Operation(number, e["ts"], e["ts"] + e["dur"], e["name"], late=e["ts"])
        at = launches.get(e["args"].get("correlation"))
        if at is not None:
            o.launch, o.path = calls[at]["ts"], paths[at]
        streams[e["tid"]].append(o)
        rank.operations.append(o)
    _conclude(rank, list(streams.values()), sorted(c["ts"] for c in calls if c["name"] == "cudaStreamWaitEvent"))
    for stream in streams.values():
        for k, o in enumerate(stream):
            for free in (False, True):
                before = [p for p in stream[:k] if not (free and p.communicates)][-1:]
                known = [(p.end, 1, p) for p in before] + [(p.end, 2, p) for p in o.depends]
                known += [(o.launch, 1.5, None)] if o.launch >= 0 else []
                time, _, last = max(known, key=lambda k: k[:2], default=(o.begin, 0, o))
                o.after[free] = min(time, o.begin), last
    for c, path in zip(calls, paths, strict=True):
        if c["name"] in SYNCHRONISE:
            rank.n_calls += 1
            leave = c["ts"] + c["dur"]
            pending = [o for o in rank.operations if o.launch >= 0 and o.launch <= c["ts"] < o.end <= leave]
            if pending:
                last = max(pending, key=lambda o: o.end)
                rank.waits.append((leave, last.end, last, path))
    rank.waits.sort(key=lambda w: w[0])
    rank.operations.sort(key=lambda o: o.begin)
    rank.line = _line(calls, paths)
    return rank


def _conclude(rank: Rank, streams: list[list[Operation]], waits: list[int]) -> None:
    """Deduce which operations wait for operations of other streams."""
    launched = [sorted((o for o in stream if o.launch >= 0), key=lambda o: o.launch) for stream in streams]
    for mine in launched:
        for k, o in enumerate(mine):
            at = bisect_right(waits, o.launch) - 1
            if at < 0 or (k and waits[at] <= mine[k - 1].launch):
                continue
            for other in launched:
                last = [p for p in other if p.launch <= waits[at]][-1:] if other is not mine else []
                held = [p for p in last if p.end <= o.begin]
                o.depends += held
                rank.n_held, rank.n_refuted = rank.n_held + len(held), rank.n_refuted + len(last) - len(held)


def _paths(calls: list[dict]) -> list[tuple[str, ...]]:
    """Return the call path of each slice of the host."""
    paths: list[tuple[str, ...]] = [()] * len(calls)
    stacks: dict[int, list[int]] = defaultdict(list)
    for i in sorted(range(len(calls)), key=lambda i: (calls[i]["ts"], -calls[i]["dur"])):
        c, stack = calls[i], stacks[calls[i]["tid"]]
        while stack and _end(calls[stack[-1]]) <= c["ts"] and _end(c) > _end(calls[stack[-1]]):
            stack.pop()
        paths[i] = (*(paths[stack[-1]] if stack else ()), c["name"])
        stack.append(i)
    return paths


def _end(call: dict) -> int:
    return call["ts"] + call["dur"]


def _line(calls: list[dict], paths: list[tuple[str, ...]]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the call paths of the host (begin, call path): of the open slice of any thread that was entered last."""
    order = sorted(range(len(calls)), key=lambda i: (calls[i]["ts"], len(paths[i])))
    line, open_here, k = [], [], 0
    for time in sorted({t for c in calls for t in (c["ts"], _end(c))}):
        while k < len(order) and calls[order[k]]["ts"] <= time:
            open_here.append(order[k])
            k += 1
        open_here = [i for i in open_here if _end(calls[i]) > time]
        last = max(open_here, key=lambda i: (calls[i]["ts"], len(paths[i])), default=None)
        line.append((time, () if last is None else paths[last]))
    return line


class Chains:
    """The chains of all ranks.

    Parameters
    ----------
    ranks : dict of int to Rank
        Result of `read`.
    """

    def __init__(self, ranks: dict[int, Rank]) -> None:
        self.ranks = ranks
        self.first = min(min(r.operations[0].begin, r.line[0][0]) for r in ranks.values())

    def _host(self, rank: int, begin: int, end: int, spent: dict) -> None:
        line = self.ranks[rank].line
        at = bisect_right(line, end - 1, key=lambda entry: entry[0]) - 1
        while at >= 0 and end > begin:
            since = max(line[at][0], begin)
            spent[ON_HOST, line[at][1], ""] += end - since
            end, at = since, at - 1
        spent[BEFORE, (), ""] += max(end - begin, 0)

    def waiting(self, e: Operation) -> tuple[dict, int]:
        """Return the times that a kernel's rank has spent since its last wait, and the instance of that wait, or -1."""
        spent: dict = defaultdict(int)
        waits = self.ranks[e.rank].waits
        (time, o), free, k = e.after[True], True, len(waits)
        while True:
            if o is None:
                k = max(bisect_right(waits[:k], time, key=lambda w: w[0]) - 1, -1)
                if k < 0:
                    self._host(e.rank, self.first, time, spent)
                    return spent, -1
                leave, until, o, path = waits[k]
                self._host(e.rank, leave, time, spent)
                spent[LATENCY, path, ""] += leave - min(until, leave)
                time, free = min(time, until), False
            if o.late > o.begin:
                return spent, o.instance
            spent[ON_STREAM, o.path, o.name] += time - o.begin
            since, last = o.after[free]
            spent[LATENCY, o.path, o.name] += o.begin - since
            if last is o:
                spent[BEFORE, (), ""] += since - self.first
                return spent, -1
            time, o = since, last

    def causing(self, x: Operation, stop: int) -> tuple[dict, list[tuple[Operation, int]]]:
        """Return the times that a kernel's rank has spent since `stop`, and its kernels that waited, with the waits."""
        spent: dict = defaultdict(int)
        waited, waits = [], self.ranks[x.rank].waits
        since, o = x.after[False]
        time, k = max(since, stop), len(waits)
        spent[LATENCY, x.path, x.name] += x.begin - time
        while time > stop:
            if o is None:
                k = bisect_right(waits[:k], time, key=lambda w: w[0]) - 1
                if k < 0:
                    self._host(x.rank, stop, time, spent)
                    break
                leave, until, o, path = waits[k]
                self._host(x.rank, max(leave, stop), time, spent)
                spent[LATENCY, path, ""] += max(leave, stop) - max(min(until, leave), stop)
                time = min(time, until)
                continue
            since = max(min(o.after[False][0], time), stop)
            late, begin = max(o.late, since), max(o.begin, since)
            spent[ON_STREAM, o.path, o.name] += max(time - late, 0)
            if late > begin:
                waited.append((o, late - begin))
            spent[LATENCY, o.path, o.name] += begin - since
            if o.after[False][1] is o:
                spent[BEFORE, (), ""] += max(since - stop, 0)
                break
            time, o = since, o.after[False][1]
        return spent, waited

    def costs(self) -> dict[tuple[int, str, tuple[str, ...]], float]:
        """Return the costs by rank, kind of time (`SPENT_IN`), and call path; us."""
        parts = {(o.instance, o.rank): o for r in self.ranks.values() for o in r.operations if o.instance >= 0}
        waiting = [o for r in self.ranks.values() for o in r.operations if o.cause is not None]
        carried: dict[Operation, float] = defaultdict(float)
        charged: dict = defaultdict(float)
        for e in sorted(waiting, key=lambda o: -o.cause.begin):
            x = e.cause
            more, waited = self._compared(e, parts)
            whole = sum(more.values()) + sum(ticks for _, ticks in waited)
            amount = e.late - e.begin + carried[e]
            for (what, path, _), ticks in more.items():
                charged[x.rank, what, path] += amount * ticks / whole
            for o, ticks in waited:
                carried[o] += amount * ticks / whole
        return charged

    def _compared(
        self, e: Operation, parts: dict[tuple[int, int], Operation]
    ) -> tuple[dict, list[tuple[Operation, int]]]:
        """Return the excess times of the rank that a kernel waits for, and its kernels that waited, with the waits."""
        x = e.cause
        mine, held = self.waiting(e)
        own = parts.get((held, x.rank))
        stop = self.first if own is None else own.launch if own.launch >= 0 else own.begin
        theirs, waited = self.causing(x, stop)
        return {c: ticks - mine[c] for c, ticks in theirs.items() if ticks > mine[c]}, waited

    def faults(self) -> dict[tuple[int, str], float]:
        """Return the waits for each rank, by cause of its lateness: kind of time (`SPENT_IN`), or `waits`; us."""
        operations = [o for r in self.ranks.values() for o in r.operations if o.instance >= 0]
        parts = {(o.instance, o.rank): o for o in operations}
        found: dict = defaultdict(float)
        for e in (o for o in operations if o.cause is not None):
            more, waited = self._compared(e, parts)
            of = [(what, ticks) for (what, _, _), ticks in more.items()] + [("waits", ticks) for _, ticks in waited]
            whole = sum(ticks for _, ticks in of)
            for what, ticks in of:
                found[e.cause.rank, what] += (e.late - e.begin) * ticks / whole
        return found
