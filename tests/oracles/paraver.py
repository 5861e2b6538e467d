"""A plain, slow reader of Paraver traces: the events of each thread, derived from its records line by line."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CALLS = range(50000001, 50000006)
CRITICAL = (60000006, 60000007)
NAMED = {40000002: "TRACING", 60000005: "!$omp barrier", 60000022: "!$omp taskwait"}
COLLECTIVES = {
    "MPI_Barrier": "barrier", "MPI_Bcast": "bcast", "MPI_Allreduce": "allreduce", "MPI_Reduce": "reduce",
    "MPI_Gather": "gather", "MPI_Alltoall": "alltoall",
}  # fmt: skip

Event = tuple[int, str, str, tuple[tuple[str, Any], ...]]


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, plain or gzip."""
    with gzip.open(path, "rt") if path.name.endswith(".gz") else open(path) as file:
        yield from file


def labels_of(path: Path) -> dict[int, dict[int, str]]:
    """Return the names of values, by type and value."""
    result: dict[int, dict[int, str]] = {}
    types: list[int] = []
    in_values = False
    pcf = path.with_name(path.name.removesuffix(".gz").removesuffix(".prv") + ".pcf")
    for line in pcf.read_text().splitlines() if pcf.exists() else ():
        words = line.split()
        if words == ["EVENT_TYPE"]:
            types, in_values = [], False
        elif words == ["VALUES"]:
            in_values = True
        elif not words or not words[0].isdigit():
            in_values = in_values and not words
        elif in_values:
            for t in types:
                result.setdefault(t, {})[int(words[0])] = " ".join(words[1:])
        elif len(words) > 1 and words[1].isdigit():
            types.append(int(words[1]))
    return result


def plain_name(label: str) -> str:
    """Return a label without the name used by the linker."""
    return label.partition(" [")[0]


class Thread:
    """The records of one thread."""

    def __init__(self) -> None:
        self.states: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.sends: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.receives: dict[int, list[tuple[int, int, int]]] = defaultdict(list)


class Trace:
    """A trace, read as a whole.

    Attributes
    ----------
    threads : dict of (int, int) to Thread
        By task and thread, counted from 0.
    """

    def __init__(self, path: Path) -> None:
        self.labels = labels_of(path)
        self.threads: dict[tuple[int, int], Thread] = {}
        self.communicators: dict[int, list[int]] = {}
        rows: list[list[int]] = []
        for line in lines_of(path):
            if line.startswith("#"):
                if line.startswith("#Paraver"):
                    self._header(line)
                continue
            if line[0] in "cC":
                _, _, identifier, _, *members = line.strip().split(":")
                self.communicators[int(identifier)] = [int(m) - 1 for m in members]
                continue
            if line.strip():
                rows.append([int(f) for f in line.strip().split(":")])
        for code, _, _, task, thread, *rest in rows:
            own = self.threads[task - 1, thread - 1]
            if code == 1:
                own.states[rest[0]].append((rest[1], rest[2]))
            elif code == 2:
                own.pairs[rest[0]] += zip(rest[1::2], rest[2::2], strict=True)
            else:
                begin, _, _, _, to, thread_to, _, end, size, tag = rest
                if to != task:
                    own.sends[begin].append((to - 1, tag, size))
                    self.threads[to - 1, thread_to - 1].receives[end].append((task - 1, tag, size))
        self._forks()

    def _header(self, line: str) -> None:
        tasks = line.strip().rpartition("(")[2].partition(")")[0]
        for task, text in enumerate(tasks.split(",")):
            for thread in range(int(text.split(":")[0])):
                self.threads[task, thread] = Thread()

    def _forks(self) -> None:
        """Collect the times of forks and joins of each task."""
        self.forks: dict[int, list[list[int]]] = defaultdict(list)
        for (task, _), own in sorted(self.threads.items()):
            for time in sorted(own.pairs):
                for t, v in own.pairs[time]:
                    if t == 60000001 and v:
                        self.forks[task].append([time, 1 << 62])
                    elif t == 60000001:
                        self.forks[task][-1][1] = time

    def _name(self, number: int, value: int) -> str:
        label = self.labels.get(number, {}).get(value)
        return plain_name(label) if label else f"{number}:{value}"

    def roots(self) -> dict[int, list[int]]:
        """Return the roots of the operations of each communicator, in order; -1 for none."""
        result: dict[int, list[int]] = {}
        for (task, _), own in sorted(self.threads.items()):
            k: dict[int, int] = defaultdict(int)
            for time in sorted(own.pairs):
                for i, (t, v) in enumerate(own.pairs[time]):
                    if t in CALLS and self._name(t, v) in COLLECTIVES:
                        said = dict(own.pairs[time][i + 1 :])
                        communicator = said[50100004]
                        known = result.setdefault(communicator, [])
                        known += [-1] * (k[communicator] + 1 - len(known))
                        if said.get(50100003):
                            known[k[communicator]] = self.communicators[communicator].index(task)
                        k[communicator] += 1
        return result

    def events(self, task: int, thread: int) -> list[Event]:
        """Return the events of a thread: time, kind, region, attributes."""
        return Decoded(self, task, thread).events


class Decoded:
    """The events of one thread."""

    def __init__(self, trace: Trace, task: int, thread: int) -> None:
        self.trace, self.task, self.own = trace, task, trace.threads[task, thread]
        self.is_worker = thread > 0 and bool(trace.forks[task])
        self.events: list[Event] = []
        self.stack: list[tuple[str, Any]] = []
        self.held: list[int] = []
        self.call: dict[str, Any] | None = None
        self.barrier_until: int | None = None
        self.roots, self.k = trace.roots(), defaultdict(int)
        self.end, self.runs, self.read_at = 0, False, 0
        own = self.own
        for self.time in sorted({*own.states, *own.pairs, *own.sends, *own.receives}):
            self._at_time()
        if self.runs:
            self.time = max(self.time, self.end)
        if self.barrier_until is not None:
            self.time = max(self.time, self.barrier_until)
            self._end_function()
        while self.stack:
            self._leave()

    def _put(self, kind: str, region: str = "", **attributes: Any) -> None:
        self.events.append((self.time, kind, region, tuple(sorted(attributes.items()))))

    def _enter(self, region: str, tag: Any) -> None:
        self._put("ENTER", region)
        self.stack.append((region, tag))

    def _leave(self) -> None:
        self._put("EXIT", self.stack.pop()[0])

    def _at_time(self) -> None:
        own, time = self.own, self.time
        if self.barrier_until is not None and self.barrier_until < time:
            self.time = self.barrier_until
            self._end_function()
            self.time = time
        pairs = [(t, v) for t, v in own.pairs.get(time, ()) if t in CALLS or _is_kept(t)]
        states = own.states.get(time, [])
        for end, state in states:
            self.end, self.runs = end, state != 2
        something = pairs or time in own.sends or time in own.receives
        starts = self.runs if states else something
        if starts and not self.is_worker and not self.stack:
            self._enter("program", "program")
        # a call without duration lies between two readings of counters at the same time
        cuts = [
            i for i, (t, v) in enumerate(pairs) if t in CALLS and not v and any(u in CALLS and x for u, x in pairs[:i])
        ]
        self._counters(pairs[: cuts[0] if cuts else len(pairs)])
        if self.barrier_until == time:
            self._end_function()
        for i, (t, v) in enumerate(pairs):
            if i in cuts:
                self._counters(pairs[i : next((c for c in cuts if c > i), len(pairs))])
            self._pair(i, t, v, pairs)
        self._send()
        self._receive()
        if states and not self.runs and self.stack and self.stack[-1][1] == "program":
            self._leave()

    def _counters(self, pairs: list[tuple[int, int]]) -> None:
        read = [(t, v) for t, v in pairs if 42000000 <= t < 45000000]
        if not read:
            return
        elapsed, self.read_at = self.time - self.read_at, self.time
        values: dict[int, int] = defaultdict(int)
        for t, v in read:
            values[t] += v if v <= 10**12 or v <= 1000 * elapsed else 0
        if (40000003, 0) not in pairs:
            self._put("METRIC", values=tuple(sorted((t, v) for t, v in values.items() if v)))

    def _pair(self, i: int, t: int, v: int, pairs: list[tuple[int, int]]) -> None:
        if t in CALLS:
            self._close_call(t) if not v else self._open_call(t, v, pairs[i + 1 :])
        elif t in CRITICAL:
            self._critical(t, v, dict(pairs).get(60000032, 0))
        elif t == 40000003 and v:
            self._put("BUFFER_FLUSH", "TRACE BUFFER FLUSH", stop_time=self.end)
        elif t == 60000001:
            self._put("THREAD_FORK" if v else "THREAD_JOIN")
        elif t == 60000018 and v:
            self._put("THREAD_TEAM_BEGIN")
            self._enter(self.trace._name(t, v), t)
        elif t == 60000018:
            join = max(j for f, j in self.trace.forks[self.task] if f <= self.time)
            self._enter("!$omp implicit barrier", "barrier")
            self.barrier_until = max(join, self.time)
        elif t in NAMED or t == 60000019:
            self._enter(NAMED.get(t) or self.trace._name(t, v), t) if v else self._leave()

    def _end_function(self) -> None:
        self._leave()
        self._leave()
        self._put("THREAD_TEAM_END")
        self.barrier_until = None

    def _critical(self, t: int, v: int, lock: int) -> None:
        if v == 3:
            self._enter("!$omp critical", t)
        elif v == 5:
            self._enter("!$omp end critical", t)
            if self.held:
                self._put("THREAD_RELEASE_LOCK", lock=self.held.pop())
        else:
            if v == 6:
                self._put("THREAD_ACQUIRE_LOCK", lock=lock)
                self.held.append(lock)
            self._leave()

    def _open_call(self, t: int, v: int, later: list[tuple[int, int]]) -> None:
        of_call = later[: next((k for k, (u, _) in enumerate(later) if u in CALLS), len(later))]
        said = dict(of_call)
        if not any(tag == 60000019 for _, tag in self.stack):
            for level in range(99, 0, -1):
                name = self.trace._name(70000000 + level, said.get(70000000 + level, 0))
                if 70000000 + level in said and name not in ("End", "Unresolved", "_NOT_Found"):
                    self._enter(name, "caller")
        name = self.trace._name(t, v)
        self._enter(name, t)
        self.call = {"op": COLLECTIVES.get(name), **{f"x{k}": x for k, x in said.items()}}
        if self.call["op"]:
            self._put("MPI_COLLECTIVE_BEGIN")
        self._send()

    def _close_call(self, t: int) -> None:
        assert self.stack[-1][1] == t and self.call is not None
        self._receive()
        if self.call["op"]:
            communicator = self.call["x50100004"]
            k = self.k[communicator]
            self.k[communicator] += 1
            self._put(
                "MPI_COLLECTIVE_END",
                op=self.call["op"],
                root=self.roots[communicator][k],
                sent=self.call["x50100001"],
                received=self.call["x50100002"],
            )
        self._leave()
        while self.stack and self.stack[-1][1] == "caller":
            self._leave()
        self.call = None

    def _send(self) -> None:
        for peer, tag, size in self.own.sends.pop(self.time, ()):
            self._put("MPI_SEND", peer=peer, tag=tag, length=size)

    def _receive(self) -> None:
        for peer, tag, size in self.own.receives.pop(self.time, ()):
            self._put("MPI_RECV", peer=peer, tag=tag, length=size)


def _is_kept(t: int) -> bool:
    """Return whether events of a type are used, apart from those of MPI calls."""
    known = {40000003, 60000001, 60000018, 60000019, 60000032, *CRITICAL, *NAMED, *range(50100001, 50100005)}
    return t in known or 42000000 <= t < 45000000 or 70000001 <= t <= 70000099


def read_all(path: Path) -> Iterable[list[Event]]:
    """Yield the events of every thread."""
    trace = Trace(path)
    for task, thread in sorted(trace.threads):
        yield trace.events(task, thread)
