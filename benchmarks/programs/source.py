"""A program as a source: definitions, events in batches, and the truth about its wait states."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.programs import channels, fft, halo, irregular, kernels, lopsided, master, multizone, sweep
from benchmarks.programs.clock import LocalClock
from benchmarks.programs.script import Script
from tracecols.converters.base import Batch, Clock, Report
from tracecols.converters.definition_tables import DefinitionTables
from tracecols.schema import SIDE_TABLES
from tracecols.vectors import offsets_of

PROGRAMS: dict[str, ModuleType] = {
    "sweep": sweep, "halo": halo, "multizone": multizone, "master": master, "fft": fft, "channels": channels,
    "lopsided": lopsided, "irregular": irregular,
}  # fmt: skip

RESOLUTION = 1_000_000_000
ROWS = 1 << 16
"""Events per batch, at most."""
N_TREES = 64
N_FUNCTIONS = 48
TOLERANCE = 0.1
FEW = 100_000
"""Limit up to which kernels run as plain functions: these execute half as many steps, or as many events, per second,
while the compilation of the kernels takes half a minute."""
COUNTERS = (("PAPI_TOT_INS", "instructions completed"), ("PAPI_L2_TCM", "level 2 cache misses"))

_FILLED = {
    "p2p": ("peer", "communicator", "tag", "length", "request"),
    "collectives": ("op", "communicator", "root", "sent", "received"),
    "threads": ("team", "model", "requested"),
    "locks": ("lock", "acquisition"),
    "control": (),
}
"""The columns that the kernel fills, besides row and kind; the others are empty."""
_NULLS = {"model": kernels.OPENMP}

_MISTAKES = {
    kernels.DEADLOCK: "deadlock", kernels.RING_FULL: "too many messages or operations under way",
    kernels.TOO_LONG: "waits too long", kernels.STACK_FULL: "too many late senders in a turn",
}  # fmt: skip


Offsets = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Ticks of the common clock, and the offsets to be added to a local clock there."""


@dataclass
class Truth:
    """The truth about a program, from its own schedule, summed over call paths."""

    waits: dict[str, NDArray[np.int64]]  # ticks, or bytes, by property under the conventions of Scalasca and location
    counters: dict[str, NDArray[np.int64]]  # by counter and location
    visits: dict[str, int]  # by region name
    n_messages: int  # point-to-point
    n_events: int


def quantiles() -> NDArray[np.int64]:
    """Return the quantiles of the distribution of durations, a mixture of exponential and constant; their mean is
    1024."""
    u = (np.arange(4096) + 0.5) / 4096
    values = np.rint(512 - 512 * np.log1p(-u)).astype(np.int64)
    values[2048] += 1024 * 4096 - values.sum()
    return values


@lru_cache(1)
def call_trees(depth: int, nodes: int, functions: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Make random call trees with `nodes` calls in total, of some functions (0: small trees, of 8 to 24 calls).

    Returns
    -------
    start : (n_trees + 1,) int64
    tree : (3, any) int64
        Time in 1/65536 of the whole, ENTER or EXIT, and the number of the function.
    """
    if not depth:
        return np.zeros(2, np.int64), np.zeros((3, 0), np.int64)
    random = np.random.default_rng([seed, depth, nodes, functions])
    make = _large_walk if nodes else _small_walk
    walks = [make(random, depth, max(nodes // N_TREES, 1)) for _ in range(N_TREES)]
    parts = []
    for goes_down in walks:
        time = np.sort(random.integers(0, 65_536, goes_down.size))
        # on each level ENTER and EXIT alternate
        level = np.cumsum(np.where(goes_down, 1, -1)) + ~goes_down
        function = np.zeros(goes_down.size, np.int64)
        function[goes_down] = functions * random.random(goes_down.sum()) ** 2
        order = np.argsort(level, kind="stable")
        function[order[1::2]] = function[order[0::2]]
        parts.append(np.stack([time, np.where(goes_down, kernels.K_ENTER, kernels.K_EXIT), function]))
    return np.cumsum([0, *(w.size for w in walks)]), np.concatenate(parts, axis=1)


def _small_walk(random: np.random.Generator, depth: int, n: int) -> NDArray[np.bool_]:
    """Walk at random between 0 and depth, from 0 to 0; return a mask of the steps that go down a level."""
    n = 2 * int(random.integers(8, 25))
    result, at = [], 0
    for i in range(n):
        result.append(at < depth and at < n - i and (not at or random.random() < 0.5))
        at += 1 if result[-1] else -1
    return np.array(result)


def _large_walk(random: np.random.Generator, depth: int, n: int) -> NDArray[np.bool_]:
    """Walk straight to the whole depth, and on from one random level to another, until `n` steps went down."""
    levels = np.concatenate([[0, depth], random.integers(0, depth + 1, 16 + 8 * n // depth)])
    steps = np.diff(levels)
    goes_down = np.repeat(steps > 0, np.abs(steps))
    goes_down = goes_down[: np.searchsorted(np.cumsum(goes_down), n, "right")]
    return np.concatenate([goes_down, np.zeros(2 * int(goes_down.sum()) - goes_down.size, bool)])


def clock_offsets(n_locations: int, skew: float, span: tuple[int, int], seed: int) -> list[Offsets]:
    """Make random clocks: measurements of their offsets, at the begin, at the end and some in between.

    Clocks are ahead of the common one and run fast: a slow clock cannot distinguish all ticks of the common one.

    The largest offset at the begin is `skew` in seconds; a clock drifts by up to a tenth of that, or of the recording,
    whose first and last tick are `span`.
    """
    random = np.random.default_rng([seed, 7])
    largest = max(int(skew * RESOLUTION), 1)
    first, last = span
    result = []
    for _ in range(n_locations):
        n = int(random.integers(2, 6))
        between = np.unique(random.integers(first + 1, max(last, first + 2), n - 2))
        at = np.concatenate([[first], between, [max(last, first + 2)]])
        drift = -np.sort(random.integers(0, min(largest // 10, last - first) + 1, at.size - 1))
        result.append((at, np.concatenate([[0], drift]) - random.integers(0, largest + 1)))
    return result


FUNCTION_KINDS = (
    ("function", "compiler"), ("function", "compiler"), ("loop", "user"), ("code", "user"), ("wrapper", "compiler"),
)  # fmt: skip


def _functions(script: Script, n: int) -> list[int]:
    """Define the functions of call trees: of the program, of libraries, loops and phases marked by hand."""
    kinds = [FUNCTION_KINDS[i % len(FUNCTION_KINDS)] for i in range(n)]
    return [script.region(f"function_{i:02}", *of, f"library_{i % 7}.c", 10 + 3 * i) for i, of in enumerate(kinds)]


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 1).bit_length()


def _plan(script: Script, n_turns: int, seed: int, weight: int, tree_start: Any, tree: Any) -> kernels.Plan:
    """Turn a script into tables for the kernels."""
    s, sizes = script, [len(p.steps) for p in script.processes]
    start = offsets_of(sizes)
    table = np.array([row for p in s.processes for row in p.steps], np.int64)
    jumps = np.isin(table[:, kernels.CODE], (kernels.JUMP, kernels.RECV_TASK))
    table[jumps, kernels.TARGET] += np.repeat(start[:-1], sizes)[jumps]
    table[table[:, kernels.CODE] == kernels.PARALLEL, kernels.COMM] += len(s.comms)
    spans = [
        (f, f + p.body, f + p.tail, f + len(p.steps), p.n_requests)
        for f, p in zip(start[:-1].tolist(), s.processes, strict=True)
    ]
    sends = np.isin(table[:, kernels.CODE], (kernels.SEND, kernels.ISEND))
    ring = max(int(np.bincount(table[sends, kernels.CHANNEL], minlength=1).max()), 4)
    operations = np.isin(table[:, kernels.CODE], (kernels.COLLECTIVE, kernels.MANAGEMENT))
    process = np.repeat(np.arange(s.n_processes), sizes)[operations]
    of_member = np.bincount(table[operations, kernels.CHANNEL] * s.n_processes + process)
    sizes_of = _power_of_two(ring), _power_of_two(int(of_member.max()))
    steps = table, np.array(spans), np.array([*s.requests, [0] * 8], np.int64)
    first = offsets_of([len(c.members) for c in s.comms])
    members = np.concatenate([np.array(c.members, np.int64) for c in s.comms])
    trees = quantiles(), tree_start, tree
    return kernels.Plan(seed, n_turns, s.n_threads, weight, *sizes_of, *steps, first, members, *trees)


class Generated:
    """A generated trace (see `tracecols.converters.base.Source`), and the `truth` about it.

    Parameters
    ----------
    script : Script
    n_turns : int
        Number of times the body of the script is run.
    seed : int
    depth, nodes, functions : int
        Parameters of random call trees within computations (`call_trees`).
    counters : bool
        Record counters with every ENTER and EXIT.
    skew : float
        Largest offset of a location's clock in seconds (`clock_offsets`); 0 for one clock of all.
    """

    def __init__(
        self,
        script: Script,
        n_turns: int,
        seed: int,
        *,
        depth: int = 0,
        nodes: int = 0,
        functions: int = N_FUNCTIONS,
        counters: bool = False,
        skew: float = 0,
    ) -> None:
        self.path, self.format, self._script = Path(script.name), "generated", script
        regions = np.array(_functions(script, functions) if depth else [0])
        tree_start, tree = call_trees(depth, nodes, functions, seed)
        tree = np.stack([*tree[:2], regions[tree[2]]])
        self._plan = _plan(script, n_turns, seed, 1 + counters, tree_start, tree)
        sizes = np.diff(self._plan.spans[:, :4], axis=1)
        self._n_steps = int(sizes.sum() + (n_turns - 1) * sizes[:, 1].sum())
        self._simulate()
        self._room = self._largest_step()
        self.truth = self._find_truth()
        length = int(self._result.top[kernels.END]) - kernels.START
        self.clock = Clock(RESOLUTION, kernels.START, length, 1_700_000_000_000_000_000)
        self.clock_offsets: list[Offsets] | None = None
        if skew:
            span = kernels.START, kernels.START + length
            self.clock_offsets = clock_offsets(script.n_processes * script.n_threads, skew, span, seed)
        self.capabilities: frozenset[str] = frozenset()
        about = f"{script.name}, seed {seed}"
        self.properties: dict[str, Any] = {"creator": "benchmarks.generate", "machine": "", "description": about}
        self.metric_types = [["uint64", "uint64"]] if counters else []
        self.definitions = self._define()
        self._local = threading.local()

    # -- the first pass --------------------------------------------------------------------------------------------

    def _log_sizes(self, slack: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return upper bounds of the numbers that each location and each process logs; loops are estimated."""
        logs, teams = [], []
        single = np.zeros(32)
        single[[kernels.RECV, kernels.RECV_TASK, kernels.WAIT, kernels.COLLECTIVE, kernels.MANAGEMENT]] = 1
        single[kernels.RECV_ANY] = 2
        for p, process in enumerate(self._script.processes):
            rows = self._plan.script[self._plan.spans[p, 0] : self._plan.spans[p, 3]]
            often = np.ones(len(rows))
            weights = np.array(process.weights)
            often[process.body : process.tail] = self._plan.n_turns
            often *= np.where(weights > 1, weights * slack, 1)
            code = rows[:, kernels.CODE]
            waits = single[code] + ((code == kernels.SEND) & (rows[:, kernels.MODE] == kernels.RENDEZVOUS))
            is_team = code == kernels.PARALLEL
            locks = 2 * (is_team & (rows[:, kernels.MODE] != kernels.NO_LOCK))
            logs.append(int((often * (waits + locks)).sum()) + 64)
            logs += [int((often * locks).sum()) + 64 * bool(is_team.any())] * (self._script.n_threads - 1)
            teams.append(int((often * is_team * (rows[:, kernels.COUNT] + 4)).sum()) + 64)
        return np.cumsum([0, *logs]), np.cumsum([0, *teams])

    def _simulate(self) -> None:
        """Run the first pass, which finds the times of all events."""
        slack, status = 0.5, kernels.LOG_FULL
        while status == kernels.LOG_FULL:
            slack *= 2
            status, p = self._try(slack)
        if status != kernels.DONE:
            raise RuntimeError(f"process {p} of {self._script.name}: {_MISTAKES[status]}")

    def _try(self, slack: float) -> tuple[int, int]:
        """Run the first pass with logs of some size."""
        s, plan = self._script, self._plan
        n, n_members = s.n_processes, plan.comm_members.size
        log_start, team_start = self._log_sizes(slack)
        receives = np.isin(plan.script[:, kernels.CODE], (kernels.RECV, kernels.RECV_ANY, kernels.WAIT))
        stack = max(int(receives[a:b].sum()) for a, b in plan.spans[:, [0, 3]].tolist())
        stack += 4 * max(int(w) for p in s.processes for w in p.weights) + 8

        def zeros(*shape: int) -> NDArray[np.int64]:
            return np.zeros(shape, np.int64)

        state = zeros(n, kernels.RECORDS + kernels.N_RECORDS)
        state[:, kernels.TEAM_START] = state[:, kernels.TEAM_AT] = team_start[:-1]
        state[:, kernels.TEAM_END] = team_start[1:]
        channels = zeros(max(len(s.channels), 1), 6)
        for key, i in s.channels.items():
            channels[i, :2] = key[:2]
        places = zeros(n * s.n_threads, kernels.SEVERITIES + len(kernels.PROPERTIES))
        places[:, kernels.LOG_START] = places[:, kernels.LOG_AT] = log_start[:-1]
        places[:, kernels.LOG_END], places[:, kernels.FIRST_STEP] = log_start[1:], -1
        messages = channels, zeros(len(channels) * plan.ring, 10), zeros(n, stack, 2)
        operations = np.full((len(s.comms) * plan.generations, 4), -1, np.int64)
        members = zeros(n_members * plan.generations, 2), zeros(n_members)
        locks = zeros(n, s.n_locks, 2), zeros(s.n_threads, 2)
        logs = np.empty(int(log_start[-1]), np.int32), np.empty(int(team_start[-1]), np.int64)
        counts = zeros(len(s.regions)), zeros(plan.tree_start.size - 1)
        own = zeros(5), state, zeros(n)
        self._result = kernels.Run(*own, *messages, operations, *members, *locks, places, *logs, *counts)
        self._run(kernels.simulate, 2 * self._n_steps, plan, self._result)
        return int(self._result.top[kernels.STATUS]), int(self._result.top[kernels.WHO])

    def _run(self, kernel: Any, work: int, *arguments: Any) -> None:
        """Run a kernel, as a plain function if that is faster than compiling it; the result is the same."""
        if kernel.kinds or work > FEW:
            kernel(*arguments)
            return
        with np.errstate(over="ignore"):
            kernel.py_func(*arguments)

    def _largest_step(self) -> int:
        """Return the maximum number of events of one step."""
        tree = int(np.diff(self._plan.tree_start).max())
        code, count = self._plan.script[:, kernels.CODE], self._plan.script[:, kernels.COUNT]
        n_loops = int(count[code == kernels.PARALLEL].max(initial=1))
        n_requests = int(count[code == kernels.WAIT].max(initial=1))
        return 64 + n_requests + self._plan.weight * n_loops * (tree + 8)

    def _find_truth(self) -> Truth:
        places, plan, visits = self._result.places, self._plan, self._result.visits.copy()
        n_events, enters = places[:, kernels.N_EVENTS], plan.tree[1] == kernels.K_ENTER
        uses = np.repeat(self._result.tree_uses, np.diff(plan.tree_start))
        np.add.at(visits, plan.tree[2, enters], uses[enters])
        counters = {}
        if self._plan.weight == 2:
            # from the second event of a span to the third last; counts of a worker between its teams have no call path
            rows = n_events - 4 * places[:, kernels.N_SPANS]
            counters[COUNTERS[0][0]] = 3 * places[:, kernels.SPAN] + rows
            counters[COUNTERS[1][0]] = places[:, kernels.SPAN_16].copy()
        return Truth(
            {name: places[:, kernels.SEVERITIES + i].copy() for i, name in enumerate(kernels.PROPERTIES)},
            counters,
            {r.name: n for r, n in zip(self._script.regions, visits.tolist(), strict=True) if n},
            int(self._result.top[kernels.N_MESSAGES]),
            int(n_events.sum()),
        )

    # -- definitions -----------------------------------------------------------------------------------------------

    def _define(self) -> dict[str, dict[str, list[Any]]]:
        s = self._script
        n, n_threads, of = s.n_processes, s.n_threads, DefinitionTables()
        everything, masters = list(range(n * n_threads)), list(range(0, n * n_threads, n_threads))
        of.add("strings", string=s.name)
        for r in s.regions:
            of.add_region(r.name, r.role, r.paradigm, begin_line=r.line, end_line=r.line, file=r.file)
        of.add("system_tree_nodes", name="generated", class_name="machine")
        for i in range(-(-n // 16)):
            of.add("system_tree_nodes", name=f"node {i}", class_name="node", parent=0)
        for p in range(n):
            of.add_process(f"MPI Rank {p}", 1 + p // 16, p)
            for t in range(n_threads):
                of.add_location(f"OMP thread {t}" if t else "Master thread", p, t)
        of.tables["locations"]["n_events"] = self._result.places[:, kernels.N_EVENTS].tolist()
        of.add("groups", type="comm_locations", paradigm="mpi", flags=0, members=masters)
        teams = bool((self._plan.script[:, kernels.CODE] == kernels.PARALLEL).any())
        if teams:
            of.add("groups", name="OpenMP", type="comm_locations", paradigm="openmp", flags=0, members=everything)
        for c in s.comms:
            number = of.add_communicator(c.name, "mpi", [masters[p] for p in c.members])
            of.tables["communicators"]["parent"][number] = c.parent
        for at in masters if teams else ():
            of.add_communicator("", "openmp", everything[at : at + n_threads])
        for i, grid in enumerate(s.topologies):
            names = [f"dimension {d}" for d in range(len(grid.sizes))]
            about = {"communicator": grid.communicator, "sizes": grid.sizes, "periodic": grid.periodic}
            of.add("topologies", name=grid.name, dimensions=names, **about)
            for rank, place in enumerate(grid.coordinates):
                of.add("topology_coordinates", topology=i, rank=rank, location=masters[rank], coordinates=place)
        if self._plan.weight == 2:
            for name, description in COUNTERS:
                about = {"type": "papi", "mode": "accumulated_start", "value_type": "uint64", "base": 1, "unit": "#"}
                of.add("metric_members", name=name, description=description, exponent=0, **about)
            of.add("metric_classes", members=[0, 1], occurrence="synchronous_strict", recorder_kind="cpu")
            of.add("metric_sources", metric_class=0, recorder=-1, scope="location", scope_id=-1)
        return of.tables

    # -- the second pass -------------------------------------------------------------------------------------------

    def _columns(self) -> tuple[tuple[NDArray[Any], ...], tuple[NDArray[np.int64], ...]]:
        """Return the buffers of this thread: columns of events, and of attributes as numbers."""
        if not hasattr(self._local, "events"):
            n = min(ROWS, int(self._result.places[:, kernels.N_EVENTS].max())) + self._room
            self._local.events = np.empty(n, np.int64), np.empty(n, np.uint8), np.empty(n, np.int32)
            # pages that are never touched cost nothing
            self._local.sides = tuple(np.empty((rows, n), np.int64) for rows in (7, 7, 5, 4, 2, 3))
        return self._local.events, self._local.sides

    def _batch(self, n: NDArray[np.int64]) -> Batch:
        """Convert filled buffers to columns of the tables."""
        events, sides = self._columns()
        rows = n[kernels.P2P : kernels.METRICS + 1].tolist()
        batch = Batch(dict(zip(("time", "kind", "region"), (e[: n[kernels.EVENTS]] for e in events), strict=True)))
        for number, (family, names) in enumerate(_FILLED.items()):
            m = rows[number]
            if not m:
                continue
            found = {name: values[:m] for name, values in zip(("row", "kind", *names), sides[number], strict=True)}
            columns = SIDE_TABLES[family].columns
            nothing = {c.name: np.full(m, _NULLS.get(c.name, -1)) for c in columns}
            batch.sides[family] = {c.name: found.get(c.name, nothing[c.name]).astype(c.dtype) for c in columns}
        if "control" in batch.sides:
            control = batch.sides["control"]
            begins = control["kind"] == kernels.K_PROGRAM_BEGIN
            control["program"][begins] = control["n_arguments"][begins] = 0
            control["exit_status"][~begins] = 0
        if rows[-1]:
            row, *values = (v[: rows[-1]] for v in sides[-1])
            batch.sides["metrics_0"] = {"row": row, "source": np.zeros(rows[-1], np.int32)}
            batch.sides["metrics_0"] |= {f"value_{i}": v.view(np.uint64) for i, v in enumerate(values)}
        return batch

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location in order; the arrays are reused by the next batch."""
        places, state, n_threads = self._result.places, self._result.state, self._script.n_threads
        if not places[location, kernels.N_EVENTS]:
            return
        events, sides = self._columns()
        p = location // n_threads
        n = np.zeros(kernels.N_OUT, np.int64)
        n[kernels.E_PC], n[kernels.E_CLOCK] = self._plan.spans[p, 0], state[p, kernels.BEGINNING]
        n[kernels.E_LOG], n[kernels.E_TEAM] = places[location, kernels.LOG_START], state[p, kernels.TEAM_START]
        while not n[kernels.E_DONE]:
            team_end = state[p, kernels.TEAM_AT]
            given = self._plan, self._result, kernels.Out(n, *events, *sides), team_end, location, self._room
            self._run(kernels.record, self.truth.n_events, *given)
            if n[kernels.EVENTS]:
                yield self._batch(n)
            n[kernels.E_BASE] += n[kernels.EVENTS]
            n[: kernels.METRICS + 1] = 0


class SkewedSource:
    """A trace generated with a skew, with local times instead of true ones. If the clocks are not measured, threads have
    the clock of the first location of their process."""

    def __init__(self, source: Generated, *, unmeasured: bool = True) -> None:
        if source.clock_offsets is None:
            raise ValueError("without a skew all clocks are the same")
        self._source = source
        self.clocks = [LocalClock(offsets) for offsets in source.clock_offsets]
        self.clock = source.clock
        if not unmeasured:
            return
        process = source.definitions["locations"]["process"]
        first = {p: i for i, p in reversed(list(enumerate(process)))}
        self.clocks = [self.clocks[first[p]] for p in process]
        ahead = -min(int(offset.min()) for _, offset in source.clock_offsets)
        self.clock = replace(source.clock, length=source.clock.length + ahead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location in order."""
        for batch in self._source.read(location, report, salvage=salvage):
            batch.events["time"] = self.clocks[location].local(batch.events["time"])
            yield batch


def make(
    program: str, processes: int, threads: int, events: int, seed: int = 0, *, periodic: bool = False, **options: Any
) -> Generated:
    """Make a trace of a program.

    It has `events` events in total, within a tenth, and is the same on every machine. Options are those of `Generated`:
    call trees, counters, and skew; `periodic` makes the grid of `halo` periodic.
    """
    if program not in PROGRAMS:
        raise ValueError(f"no program {program!r}; there are {', '.join(PROGRAMS)}")
    if processes < 1 or threads < 1:
        raise ValueError("a program has at least one process with one thread")
    module = PROGRAMS[program]
    write: Callable[[int, int, int, bool], Script] = module.write
    best: tuple[float, int, int, int] | None = None
    for size in module.SIZES:
        script = write(processes, threads, size, periodic)
        # steps with events of their own
        smallest = sum(process.tail - process.body for process in script.processes)
        if smallest > 2 * events and size != module.SIZES[-1]:
            continue
        # average number of events of one turn, from a few turns
        one, nine = (Generated(script, n, seed, **options).truth.n_events for n in (1, 9))
        turn = (nine - one) / 8
        n_turns = max(round((events - one) / turn) + 1, 1)
        expected = one + (n_turns - 1) * turn
        off = abs(expected - events) / events
        if best is None or off < best[0]:
            best = off, size, n_turns, round(expected)
        if off < TOLERANCE / 4:
            break
    assert best is not None
    if best[0] > TOLERANCE:
        raise ValueError(
            f"{program} with {processes} x {threads} threads cannot have about {events:,} events: the nearest number is {best[3]:,}"
        )
    return Generated(write(processes, threads, best[1], periodic), best[2], seed, **options)
