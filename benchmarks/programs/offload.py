"""Hosts that use devices: kernels on several streams, blocking and asynchronous copies, synchronisations of every kind.

Every process has a device with streams that process their work in order. Some kernels are launched in time, others
late; some synchronisations have something to wait for, others do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.programs.recorded import Archive, Recording

LATENCY, COPY_LATENCY, RETURN = 5_000, 3_000, 2_000
"""Ticks from a call to the kernel or copy that it requests, and from the end of awaited work to the end of the call."""
BYTES_PER_TICK = 10
EVENTS_PER_STEP = 9
"""Approximate number of events of a host and its streams."""
Attributes = tuple[tuple[int, str, int], ...]
CALLS = (
    "cuLaunchKernel cuMemcpyDtoH_v2 cuMemcpyHtoD_v2 cuMemcpyDtoHAsync_v2 cuMemcpyHtoDAsync_v2 cuEventRecord "
    "cuCtxSynchronize cuStreamSynchronize cuEventSynchronize"
)


@dataclass
class Work:
    """A kernel or a copy."""

    stream: int
    asked: int
    begin: int
    end: int


class Host:
    """A process and its device."""

    def __init__(self, out: Recording, rank: int, n_streams: int, random: Any, names: dict[str, int]) -> None:
        self.out, self.random, self.names = out, random, names
        archive = out.archive
        process = archive.process(f"MPI Rank {rank}")
        self.number = len(out.locations)
        self.host = archive.location("Master thread", process, number=rank)
        self.streams = [
            archive.location(f"CUDA[0:{7 + i}]", process, "gpu", number=((i + 1) << 32) + rank)
            for i in range(n_streams)
        ]
        out.locations += [self.host, *self.streams]
        self.now = self.start = int(random.integers(0, 1_000))
        self.free = [self.start] * n_streams
        self.works: list[Work] = []
        self.window = -1
        self.last_event: dict[int, tuple[int, int]] = {}
        self._recorded: list[list[tuple[int, str, dict[str, object]]]] = [[] for _ in self.streams]
        self.host.enter(self.now, "main")

    def call(self, name: str, until: int, attributes: Attributes = ()) -> tuple[int, int]:
        """Record a call of the host."""
        begin = self.now
        region = self.names[name]
        self.host.record(begin, "Enter", region=region, attributes=attributes).leave(until, region)
        self.now = until
        return begin, until

    def _on(self, stream: int) -> Attributes:
        return ((self.names["stream"], "location", self.streams[stream].id),)

    def _of(self, event: int) -> Attributes:
        return ((self.names["event"], "uint32", event),)

    def compute(self) -> None:
        """Compute on the host."""
        duration = int(self.random.lognormal(9.5, 1.2))
        self.host.call(self.now, self.now + duration, "compute")
        self.now += duration

    def _begins(self, stream: int, asked: int, ready: int, duration: int) -> Work:
        """Put work into a stream; count the time for which the stream was idle."""
        free = self.free[stream]
        work = Work(stream, asked, max(ready, free), max(ready, free) + duration)
        if work.begin > free:
            late = min(max(asked, free), work.begin) - free
            at = self.number + 1 + stream
            self.out.add("device_idle_before_launch", at, late)
            self.out.add("device_idle_after_launch", at, work.begin - free - late)
            self.out.add("device_idle", at, work.begin - free)
        self.free[stream] = work.end
        self.works.append(work)
        return work

    def launch(self) -> None:
        """Launch a kernel."""
        stream = int(self.random.integers(len(self.streams)))
        free = self.free[stream]
        begin, end = self.call("cuLaunchKernel", self.now + int(self.random.integers(2_000, 8_000)), self._on(stream))
        work = self._begins(stream, begin, begin + LATENCY, int(self.random.lognormal(10, 1)))
        location = self.number + 1 + stream
        self.out.add("device_late_launch", self.number, min(end, work.begin) - max(begin, free))
        self.out.add("device_kernels", location, work.end - work.begin)
        self.out.add("device_kernel_executions", location, 1)
        self.out.add("device_launches", self.number, 1)
        name = self.names["kernel" if stream % 2 else "stencil"]
        self._recorded[stream] += [(work.begin, "Enter", {"region": name}), (work.end, "Leave", {"region": name})]

    def copy(self, blocking: bool) -> None:
        """Copy to or from the device; a blocking copy uses the first stream and returns when it is done."""
        to_host = bool(self.random.integers(2))
        stream = 0 if blocking else int(self.random.integers(len(self.streams)))
        n = int(self.random.integers(1, 500_000))
        pending = [w for w in map(self._pending, range(len(self.streams))) if w is not None]
        name = f"cuMemcpy{'DtoH' if to_host else 'HtoD'}{'' if blocking else 'Async'}_v2"
        begin = self.now
        work = self._begins(stream, begin, begin + COPY_LATENCY, n // BYTES_PER_TICK + 1)
        self.call(name, work.end + RETURN if blocking else begin + 1_500, () if blocking else self._on(stream))
        location, own = self.number + 1 + stream, work.end - work.begin
        if blocking:
            self.out.add("device_blocking_copy", self.number, own)
            # the call does not record the stream it waits for: work that ends within the call is preferred
            last = max((w.end <= self.now, w.end, w.begin) for w in pending) if pending else None
            if last is not None:
                self.out.add("device_copy_wait", self.number, min(self.now, last[1]) - max(begin, last[2]))
        for name, value in (("device_copies", own), ("device_copy_ops", 1), ("device_bytes", n)):
            self.out.add(name, location, value)
            self.out.add(f"{name}_{'to_host' if to_host else 'to_device'}", location, value)
        given = {"window": self.window, "remote": 0, "matching": 42}
        what = ("RmaPut", {**given, "sent": n}) if to_host else ("RmaGet", {**given, "received": n})
        self._recorded[stream].append((work.begin, *what))
        self._recorded[stream].append((work.end, "RmaOpCompleteBlocking", {"window": self.window, "matching": 42}))

    def _pending(self, stream: int | None, before: int | None = None) -> Work | None:
        """Return the earlier requested work that ends last, if it has not ended yet."""
        limit = self.now if before is None else before
        known = [w for w in self.works if (stream is None or w.stream == stream) and w.asked < limit]
        last = max(known, key=lambda w: w.end, default=None)
        self.works = [w for w in self.works if w.end > self.now - 1_000_000]
        return last if last is not None and last.end > self.now else None

    def record_event(self) -> None:
        """Record an event in a stream."""
        event, stream = int(self.random.integers(4)), int(self.random.integers(len(self.streams)))
        begin, _ = self.call("cuEventRecord", self.now + 900, (*self._on(stream), *self._of(event)))
        self.last_event[event] = (stream, begin)

    def synchronize(self) -> None:
        """Wait for a stream, an event or the device."""
        kinds = ["cuCtxSynchronize", "cuStreamSynchronize", *(["cuEventSynchronize"] if self.last_event else [])]
        name = kinds[int(self.random.integers(len(kinds)))]
        stream: int | None = None
        before = None
        attributes: Attributes = ()
        if name == "cuStreamSynchronize":
            stream = int(self.random.integers(len(self.streams)))
            attributes = self._on(stream)
        elif name == "cuEventSynchronize":
            event = int(self.random.choice(sorted(self.last_event)))
            stream, before = self.last_event[event]
            attributes = self._of(event)
        last = self._pending(stream, before)
        begin, end = self.call(name, (self.now if last is None else last.end) + RETURN, attributes)
        if last is None:
            self.out.add("device_useless_sync", self.number, end - begin)
        else:
            self.out.add("device_early_wait", self.number, last.end - max(begin, last.begin))

    def finish(self) -> None:
        """End the program, and record the work of the streams."""
        self.now = max(self.now, *self.free) + RETURN
        self.host.leave(self.now, "main")
        for i, (stream, recorded) in enumerate(zip(self.streams, self._recorded, strict=True)):
            at = self.number + 1 + i
            for name in ("device_idle", "device_idle_before_launch"):
                self.out.add(name, at, self.now - self.free[i])
            self.out.add("device_time", at, self.now - self.start)
            for time, what, fields in recorded:
                stream.record(time, what, **fields)


def make_offload(path: Path, n_processes: int, n_streams: int, n_events: int, seed: int) -> Recording:
    """Run the program and write the anchor file; each process has `n_streams` streams; there are about `n_events`
    events in total."""
    archive = Archive(path)
    random = np.random.default_rng(seed)
    names = {name: archive.region(name, "wrapper", "cuda") for name in CALLS.split()}
    names |= {name: archive.region(name, "function", "cuda") for name in ("kernel", "stencil")}
    names["stream"] = archive.attribute("CUDA_STREAM_REF", "location")
    names["event"] = archive.attribute("CUDA_EVENT_REF", "uint32")
    out = Recording(archive)
    hosts = [Host(out, rank, n_streams, random, names) for rank in range(n_processes)]
    archive.group("comm_locations", [h.host for h in hosts], "mpi")
    archive.comm("MPI_COMM_WORLD", range(n_processes))
    archive.group("comm_locations", out.locations, "cuda")
    first = 0
    for host in hosts:
        communicator = archive.comm("", range(first, first + n_streams + 1), paradigm="cuda")
        host.window = archive.define("RmaWin", name=archive.string("CUDA_WINDOW"), comm=communicator, flags=0)
        first += n_streams + 1
    steps = max(n_events // (n_processes * EVENTS_PER_STEP), 1)
    for host in hosts:
        for _ in range(steps):
            for act, share in (
                (host.compute, 0.8),
                (host.launch, 0.9),
                (lambda h=host: h.copy(True), 0.3),
                (lambda h=host: h.copy(False), 0.2),
                (host.record_event, 0.2),
                (host.synchronize, 0.4),
            ):
                if random.random() < share:
                    act()
        host.finish()
    return out
