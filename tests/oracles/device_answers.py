"""Kernels, and activities of devices in training steps, in plain Python from the files of PyTorch's profiler and of
Nsight Systems; times in ns. It shares no code with tracecols."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path


@dataclass
class Operation:
    """A kernel or a copy."""

    stream: tuple
    name: str
    begin: int
    end: int
    launch: int | None
    is_copy: bool

    @property
    def communicates(self) -> bool:
        return not self.is_copy and self.name.startswith("nccl")


@dataclass
class Process:
    """The operations that a process launched on devices, and its steps: name, begin, end."""

    operations: list[Operation] = field(default_factory=list)
    steps: list[tuple[str, int, int]] = field(default_factory=list)


def _ns(text: str) -> int:
    return int(Fraction(text) * 1000)


def read_kineto(folder: Path) -> dict[int, Process]:
    """Read a folder with a file for each rank; return the processes by rank."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        recorded = json.loads(file.read_text(), parse_float=str, parse_int=str)
        slices = [e for e in recorded["traceEvents"] if e.get("ph") == "X"]
        process = found[int(recorded["distributedInfo"]["rank"])] = Process()
        calls = {e["args"]["correlation"]: _ns(e["ts"]) for e in slices if e["cat"] in ("cuda_runtime", "cuda_driver")}
        for e in slices:
            begin, end = _ns(e["ts"]), _ns(e["ts"]) + _ns(e["dur"])
            if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
                launch = calls.get(e["args"].get("correlation"))
                is_copy = e["cat"] == "gpu_memcpy"
                # names of NCCL kernels without their arguments
                name = e["name"].split("(")[0] if e["name"].startswith("nccl") else e["name"]
                process.operations.append(Operation((e["pid"], e["tid"]), name, begin, end, launch, is_copy))
            elif e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation":
                process.steps.append((e["name"], begin, end))
    return found


def read_nsight(path: Path, first: int, last: int) -> dict[int, Process]:
    """Read an export whose processes have no steps: the whole run is one step, from the first to the last time of the
    recording."""
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as export:
        names = dict(export.execute("select id, value from StringIds"))
        calls = {
            (tid >> 24 & 0xFFFFFF, correlation): start
            for start, tid, correlation in export.execute(
                "select start, globalTid, correlationId from CUPTI_ACTIVITY_KIND_RUNTIME where eventClass in (0, 1)"
            )
        }
        rows = [
            (pid >> 24 & 0xFFFFFF, (device, context, stream), names.get(name, table), start, end, correlation, table)
            for table, name in (("KERNEL", "shortName"), ("MEMCPY", "-1"), ("MEMSET", "-1"))
            for start, end, device, context, stream, correlation, pid, name in export.execute(
                f"select start, end, deviceId, contextId, streamId, correlationId, globalPid, {name} from CUPTI_ACTIVITY_KIND_{table}"
            )
        ]
    found: dict[int, Process] = {}
    for rank, pid in enumerate(sorted({row[0] for row in rows})):
        process = found[rank] = Process(steps=[("whole run", first, last)])
        for of, stream, name, start, end, correlation, table in rows:
            if of == pid:
                launch = calls.get((pid, correlation))
                process.operations.append(Operation(stream, name, start, end, launch, table != "KERNEL"))
        # if two operations overlap on a stream, the earlier one ends at the begin of the next
        process.operations.sort(key=lambda o: (o.stream, o.begin))
        for one, other in pairwise(process.operations):
            if one.stream == other.stream:
                one.end = min(one.end, other.begin)
    return found


def _length(intervals, begin: int, end: int) -> int:
    """Return how much of a time range is covered by the union of some intervals."""
    covered, until = 0, begin
    for first, last in sorted(intervals):
        first, last = max(first, until), min(last, end)
        covered += max(last - first, 0)
        until = max(until, last)
    return covered


def steps_of(process: Process) -> list[dict[str, int]]:
    """Divide the time of each step of a process by the activities of its devices."""
    found = []
    compute = [(o.begin, o.end) for o in process.operations if not o.is_copy and not o.communicates]
    communicate = [(o.begin, o.end) for o in process.operations if o.communicates]
    copy = [(o.begin, o.end) for o in process.operations if o.is_copy]
    pending = [(o.launch, o.begin) for o in process.operations if o.launch is not None and o.launch < o.begin]
    for _, begin, end in sorted(process.steps, key=lambda s: s[1]):
        a, b = _length(compute, begin, end), _length(communicate, begin, end)
        both = _length(compute + communicate, begin, end)
        busy = _length(compute + communicate + copy, begin, end)
        found.append(
            {
                "seconds": end - begin, "compute_seconds": both - b, "overlapped_seconds": a + b - both,
                "exposed_seconds": both - a, "copy_seconds": busy - both, "idle_seconds": end - begin - busy,
                "host_bound_seconds": end - begin - _length(compute + communicate + copy + pending, begin, end),
            }
        )  # fmt: skip
    return found


def kernels_of(processes: dict[int, Process]) -> dict[str, dict[str, float]]:
    """Return lists of times, latencies and queue lengths, by name of the kernel."""
    found: dict = defaultdict(lambda: defaultdict(list))
    for process in processes.values():
        streams = defaultdict(list)
        for o in process.operations:
            streams[o.stream].append(o)
        for o in process.operations:
            if o.is_copy:
                continue
            found[o.name]["ticks"].append(o.end - o.begin)
            if o.launch is not None:
                others = [p for p in streams[o.stream] if p.launch is not None and p is not o]
                found[o.name]["latency"].append(max(o.begin - o.launch, 0))
                found[o.name]["queue"].append(sum(p.launch < o.launch < p.begin for p in others))
    return {name: dict(of) for name, of in found.items()}
