"""Quantities that prove a cause: counts, sizes, means, shares, and its change over the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.scan.paths import with_descendants
from tracecols.findings.cause import PHASES, Cause
from tracecols.findings.computation import DEEPER, Computing, Work
from tracecols.findings.scenarios import Scenarios
from tracecols.findings.sweeps import shape_of_sweeps
from tracecols.once import once
from tracecols.search.choice import with_topologies
from tracecols.vectors import Ints, Mask

TOO_SMALL = 0.5
"""Overhead of a parallel region, as a share of its work, up to which it is not too small."""

SMALL = 1e-3
"""Seconds of work of a thread up to which a parallel region may be too small."""

STARTS = "mpi_(i(?!probe|nit|mprobe)[a-z_]+|start|startall|[a-z]+_init)"
"""Calls that only start an operation, by their names in lower case."""

MANY_TIMES = 4
"""Number of executions of a region from which on each of them is a piece of work, whatever it calls meanwhile."""

NEARLY = 0.02
"""Share of the pieces of work by which these may differ from equally many in each execution of a region."""

SOME = 0.1
"""Share of the work that has to be in excess for its change over the run to be significant."""


def _ancestors(parent: NDArray[np.integer[Any]], call_path: int) -> list[int]:
    """Return the call paths above one, the nearest first."""
    found = []
    while (call_path := int(parent[call_path])) >= 0:
        found.append(call_path)
    return found


def _above(parent: NDArray[np.integer[Any]], call_paths: Ints) -> Mask:
    """Select the call paths above any of some; each is visited once; (n_call_paths,) bool."""
    found = np.zeros(parent.size, bool)
    for at in call_paths.tolist():
        while (at := int(parent[at])) >= 0 and not found[at]:
            found[at] = True
    return found


class Evidence:
    """Evidence of the causes of a run."""

    def __init__(self, scenarios: Scenarios) -> None:
        self.s = scenarios
        self.resolution = scenarios.resolution

    @once
    def computing(self) -> Computing:
        """The computation of threads."""
        return Computing(self.s, self.s.model.locations.is_cpu)

    @once
    def kernels(self) -> Computing:
        """The computation of streams."""
        return Computing(self.s, self.s.model.locations.is_device)

    def add_to(self, c: Cause) -> None:
        """Add its evidence to a cause."""
        make = {
            "messages": self._messages,
            "pipeline": self._pipeline,
            "overlap": self._messages,
            "collectives": self._calls,
            "calls": self._calls,
            "barrier": self._calls,
            "regions": self._regions,
            "lock": self._lock,
            "threads": self._threads,
            "tasks": self._tasks,
            "order": self._calls,
            **dict.fromkeys(
                ("measurement", "locking", "copies", "slow", "straggler", "idle", "grain", "transfers"), lambda _: {}
            ),
        }.get(c.kind, self._work)
        c.evidence = make(c) | c.evidence
        if c.partners:
            names = self.s.model.regions.name[self.s.call_paths.region[list(c.partners)]]
            c.evidence["partners"] = [str(name) for name in names]

    def _work(self, c: Cause) -> dict[str, Any]:
        w = self.computing.work([c.spans])[0]
        on_streams = not w.who.size
        if on_streams:
            w = self.kernels.work([c.spans])[0]
        if not w.who.size:
            return {}
        share = w.total / w.total.sum()
        order = np.argsort(-w.total, kind="stable")[:4]
        found: dict[str, Any] = {
            "n_locations": int(w.who.size),
            "mean": float(w.total.mean() / self.resolution),
            "largest": float(w.total.max() / self.resolution),
            "by_location": [[int(w.who[i]), float(w.total[i] / self.resolution), float(share[i])] for i in order],
        } | ({"on_streams": True} if on_streams else {})
        if caller := self._caller(c):
            found["caller"] = caller
        # the locations of the cause may do nothing there
        mine = np.isin(w.who, c.locations)
        if mine.any():
            found["mine"] = float(w.total[mine].mean() / self.resolution)
            found["others"] = float(w.total[~mine].mean() / self.resolution) if not mine.all() else None
            found |= self._trend(w, int(c.locations[np.isin(c.locations, w.who)][0]))
            if found.get("step") == c.evidence.get("n_call_paths", 0):
                # longer on one of several call paths in turn, which is each time
                found["trend"] = "steady"
        return found

    def _caller(self, c: Cause) -> str:
        """Return the caller that tells the call paths of a cause from the others of its region, if there are any: the
        nearest region above all of its call paths and none of the others; empty otherwise."""
        paths, names = self.s.call_paths, self.s.model.regions.name
        same, heads = self.computing.same, [head for head, _ in c.spans]
        others = distinct(self.computing.profiled[self._of_cause(c)[self.computing.profiled]])
        others = others[~np.isin(same[others], same[heads])]
        if not others.size:
            return ""
        elsewhere = set(paths.region[_above(paths.parent, others)].tolist())
        callers = [paths.region[_ancestors(paths.parent, head)].tolist() for head in heads]
        common = set(callers[0]).intersection(*callers) - elsewhere
        return next((str(names[region]) for region in callers[0] if region in common), "")

    def _trend(self, w: Work, location: int) -> dict[str, Any]:
        """Return the number of pieces of a location's work, and how they change over the run. Each execution of the
        region is one piece if there are many, and nearly all have equally many parts."""
        mine = w.by_row(w.who == location)
        nodes = self.s.graph.nodes
        at = nodes.time[w.node[mine]] - self.s.replay.window(nodes.time)[0]
        excess = w.ticks[mine].astype(np.float64)
        if w.table is not None:
            excess -= np.delete(w.table, int(np.searchsorted(w.who, location)), 0).mean(0)
        else:
            excess -= np.median(excess)
        visits = int(self.computing.n_calls(w)[w.who == location].sum())
        parts = round(at.size / visits) if visits >= MANY_TIMES else 0
        n = visits if parts and abs(at.size - parts * visits) <= NEARLY * at.size else at.size
        begin = -(-np.arange(n) * at.size // n)
        ticks, excess = (np.add.reduceat(of, begin) for of in (w.ticks[mine], excess))
        found: dict[str, Any] = {"n_pieces": n, "piece": float(ticks.mean() / self.resolution)}
        matters = np.maximum(excess, 0).sum() > SOME * ticks.sum()
        end = at[np.append(begin[1:], at.size) - 1] / self.resolution
        return found | trend_of(np.where(matters, excess, 0), end)

    def _messages(self, c: Cause) -> dict[str, Any]:
        """Count the messages that are sent or received in the regions of a cause."""
        m = self.s.model.sent_messages
        here = np.append(self._in_regions(c), False)
        path_of = self.s.model.call_paths.path_of
        mine = here[path_of(m.send_call_path)] | here[path_of(m.recv_call_path)]
        if not mine.any():
            return self._calls(c)
        length = m.length[mine]
        beyond = {"transfer": float(c.change.less.sum() / mine.sum() / self.resolution)} if c.kind == "messages" else {}
        return {
            **beyond,
            "n_messages": int(mine.sum()),
            "mean_bytes": float(length.mean()),
            "bytes": int(length.sum()),
            "n_senders": int(distinct(m.send_location[mine]).size),
            "passed_on": float(np.isin(m.send_location[mine], m.recv_location[mine]).mean()),
        } | self._calls(c)

    def _pipeline(self, c: Cause) -> dict[str, Any]:
        """Add to the messages the sweeps they belong to."""
        model = with_topologies(self.s.model, ())
        shape = shape_of_sweeps(model, np.append(self._in_regions(c), False))
        return self._messages(c) | (shape.evidence(self.resolution) if shape else {})

    def _calls(self, c: Cause) -> dict[str, Any]:
        """Count the calls, and how much of their time is in a few long ones."""
        nodes = self.s.graph.nodes
        of = self.s.distinct(np.concatenate([c.change.node, self.s.graph.edges.head[c.change.cut]]))
        of = of[of < len(nodes)]
        # calls that only start an operation count if they take longer than the others
        completing = of[~self._starts[of]]
        losses = self.s.recorded_losses
        of = completing if 2 * losses[completing].sum() >= losses[of].sum() and completing.size else of
        if not of.size:
            return {}
        # sorted, since the rounding of a mean of large numbers depends on their order
        ticks = np.sort(losses[of])
        ticks = ticks[ticks > 0]
        visits = int(self.s.model.profile.visits[self._of_cause(c)[self.computing.profiled]].sum())
        found: dict[str, Any] = {"n_calls": int(of.size), "visits": visits} | self._called(of)
        if ticks.size:
            found |= {
                "median": float(np.median(ticks)) / self.resolution,
                "mean_call": float(ticks.mean()) / self.resolution,
                "n_locations": int(np.count_nonzero(np.bincount(nodes.location[of]))),
            }
            if c.kind in ("messages", "collectives", "calls"):
                # calls that wait long for others are not long themselves
                beyond = np.sort(np.maximum(self.s.weight[of], 0))
                found["beyond"] = float(beyond.sum() / ticks.size / self.resolution)
                ticks = beyond[beyond > 0]
            is_long = ticks > 10 * np.median(ticks) if ticks.size else np.zeros(0, bool)
            found |= {"in_long": float(ticks[is_long].sum() / max(ticks.sum(), 1)), "n_long": int(is_long.sum())}
        return found

    def _called(self, nodes: Ints) -> dict[str, Any]:
        """Return the name of the MPI region in which most of the time of some calls is spent, and how many it has."""
        s = self.s
        at = np.minimum(np.searchsorted(s.calls, nodes), max(s.calls.size - 1, 0))
        known = (s.calls[at] == nodes) & (s.call_region[at] >= 0) if s.calls.size else np.zeros(nodes.size, bool)
        if not known.any():
            return {}
        losses = np.maximum(s.recorded_losses[nodes[known]], 0)
        # of calls that take no time, the most frequent ones
        regions, of, n = np.unique(s.call_region[at[known]], return_inverse=True, return_counts=True)
        most = np.lexsort((-regions, n, np.bincount(of, losses)))[-1]
        return {"call": str(s.model.regions.name[regions[most]]), "n_called": int(n[most])}

    @once
    def _starts(self) -> Mask:
        """Select the end nodes of calls that only start an operation; (n_nodes,) bool."""
        nodes = self.s.graph.nodes
        names = [re.fullmatch(STARTS, name) is not None for name in self.s.model.regions.lower]
        result = np.zeros(len(nodes), bool)
        result[self.s.calls[np.append(names, False).astype(bool)[self.s.call_region]]] = True
        return result

    def _in_regions(self, c: Cause) -> Mask:
        """Select the call paths of the regions of a cause, wherever they are called, and of the MPI and OpenMP calls
        they make; (n_call_paths,) bool."""
        return self._of_cause(c, *c.partners)[self.s.user_call_path]

    def _of_cause(self, c: Cause, *more: int) -> Mask:
        """Select the call paths of the region of a cause, of all steps of a family, and of the regions of more call
        paths; (n_call_paths,) bool."""
        region = self.s.call_paths.region
        same = self.s.merged.counts_as[region] if PHASES in c.evidence else region
        return np.isin(same, same[[c.call_path, *more]])

    def _regions(self, c: Cause) -> dict[str, Any]:
        """Count the parallel regions, and compare their computation with their overhead."""
        s, model = self.s, self.s.model
        parallel = (model.regions.role == "parallel") & (model.regions.paradigm == "openmp")
        heads = parallel[s.call_paths.region] & self._in_regions(c)
        p, comp = model.profile, s.computation
        inside = with_descendants(heads, s.call_paths.end)
        is_head, on_master = heads[self.computing.profiled], self.computing.is_master[p.location]
        n = int(p.visits[is_head & on_master].sum())
        n_threads = int(distinct(p.location[is_head]).size)
        n_masters = int(distinct(p.location[is_head & on_master]).size)
        found: dict[str, Any] = {"n_regions": n, "n_threads": n_threads}
        if n and n_masters:
            each = n * n_threads / n_masters * self.resolution
            lost = int(np.maximum(s.weight[c.change.node], 0).sum())
            found |= {"work_each": int(comp.ticks[inside[comp.call_path]].sum()) / each, "lost_each": lost / each}
        return found

    def _threads(self, c: Cause) -> dict[str, Any]:
        """Count the threads that are created, and compare their computation with the cost of creating them."""
        s, created = self.s, self.s.model.created_threads
        mine = np.append(self._in_regions(c), False)[s.model.call_paths.path_of(created.create_call_path)]
        n = int(mine.sum())
        lost = int(np.maximum(s.weight[c.change.node], 0).sum())
        comp = s.computation
        on_them = np.isin(comp.location, created.location[mine])
        return {
            "n_created": n,
            "lost_each": lost / max(n, 1) / self.resolution,
            "work_each": int(comp.ticks[on_them].sum()) / max(n, 1) / self.resolution,
        }

    def _tasks(self, c: Cause) -> dict[str, Any]:
        """Count the tasks, and compare the computation of each with the cost of creating it."""
        s, comp = self.s, self.s.computation
        role = s.model.regions.role[s.call_paths.region]
        creates = role == "task_create"
        visits, path = s.model.profile.visits, self.computing.profiled
        n, n_all = (int(visits[some[path]].sum()) for some in (creates & self._in_regions(c), creates))
        work = with_descendants(role == "task", s.call_paths.end) & ~creates
        return {
            "n_tasks": n,
            "lost_each": int(comp.ticks[c.spent].sum()) / max(n, 1) / self.resolution,
            "work_each": int(comp.ticks[work[comp.call_path]].sum()) / max(n_all, 1) / self.resolution,
        }

    def join_small_regions(self, causes: Sequence[Cause]) -> list[Cause]:
        """Merge the causes in all parallel regions that are too small for their overhead."""
        small: list[Cause] = []
        others: list[Cause] = []
        for c in causes:
            e = self._regions(c) if c.kind == "regions" else {}
            is_small = 0 < e.get("work_each", 0) < SMALL and e["lost_each"] > TOO_SMALL * e["work_each"]
            (small if is_small else others).append(c)
        if len(small) < 2:
            return list(causes)
        small.sort(key=lambda c: -c.gain)
        node = distinct(np.concatenate([c.change.node for c in small]))
        change = self.s.without_weight(node)
        names = self.s.model.regions.name[self.s.call_paths.region[[c.call_path for c in small[1:4]]]]
        more = {"n_more": len(small) - 1, "more": [str(name) for name in names]}
        # the evidence about regions is that of the first
        evidence = more | self._regions(small[0])
        return [replace(small[0], change=change, gain=self.s.gain(change), evidence=evidence), *others]

    def _lock(self, c: Cause) -> dict[str, Any]:
        """Find how long each location holds the lock, and what it executes meanwhile."""
        s = self.s
        tails = s.distinct(s.tail[c.change.cut])
        found = self._calls(c) | self._waits_in(s.distinct(s.graph.edges.head[c.change.cut]))
        held, by_path = self._held(tails)
        if not held.any():
            return found
        order = np.argsort(-held, kind="stable")[:4]
        found |= {
            "held": float(held.sum() / self.resolution),
            "held_each": float(held.sum() / tails.size / self.resolution),
            "by_location": [
                [int(i), float(held[i] / self.resolution), float(held[i] / held.sum())] for i in order if held[i] > 0
            ],
        }
        who = np.flatnonzero(held > 0)
        most = int(held.argmax())
        if (
            who.size > 1
            and held[most] > 2 * (held.sum() - held[most]) / (who.size - 1)
            and held[most] > 0.4 * held.sum()
        ):
            c.locations = np.array([most], np.int64)
        c.call_path = int(s.user_call_path[self._deepest(by_path)])
        return found

    def _held(self, releases: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return how long each location holds a lock until some releases, and how long on each call path;
        (n_locations,) and (n_call_paths,). Of locks of windows, what follows the last call before counts."""
        s, locks, comp = self.s, self.s.model.lock_acquisitions, self.s.computation
        mine = np.isin(s.graph.nodes.at(locks.release), releases)
        is_held = s.in_locks(mine) if mine.any() else np.isin(np.arange(s.weight.size), releases)
        row = is_held[comp.node]
        by_path = np.bincount(comp.call_path[row], comp.ticks[row], len(s.call_paths))
        if not mine.any():
            return np.bincount(comp.location[row], comp.ticks[row], s.model.n_locations), by_path
        called = s.calls[is_held[s.calls] & (s.call_path[s.calls] >= 0)]
        by_path += np.bincount(s.call_path[called], np.maximum(s.weight[called], 0), by_path.size)
        ticks = (locks.release_time - locks.acquire_time)[mine]
        return np.bincount(locks.location[mine], ticks, s.model.n_locations), by_path

    def _deepest(self, ticks: NDArray[Any]) -> int:
        """Return the call path with most of some ticks, (n_call_paths,), or the nearest one above it that has, with all
        that it calls, most of those around it."""
        paths, total = self.s.call_paths, np.append(0, np.cumsum(ticks))
        inside = total[paths.end] - total[:-1]
        at = int(ticks.argmax())
        while (above := int(paths.parent[at])) >= 0 and inside[at] < DEEPER * inside[above]:
            at = above
        return at

    def _waits_in(self, heads: NDArray[np.integer[Any]]) -> dict[str, Any]:
        """Return the name of the construct or call that waits longest for a lock."""
        s = self.s
        call_path = s.call_path[heads]
        known = call_path >= 0
        losses = np.maximum(s.recorded_losses[heads[known]], 0)
        by_region = np.bincount(s.call_paths.region[call_path[known]], losses, len(s.model.regions))
        return {"construct": str(s.model.regions.name[int(by_region.argmax())])} if known.any() else {}


def trend_of(excess: NDArray[np.float64], at: NDArray[np.float64]) -> dict[str, Any]:
    """Return how the excess of pieces changes over the run, given the ticks of each, in the order of time, and the
    seconds `at` which it ends.

    `trend` is once, every, since, until, while, growing, shrinking or steady. Once and since have the `when` (s) and
    `number` of the one or first piece, until those of the last one, while both and the number of the `last` one; every
    has the `step`.
    """
    positive = np.maximum(excess, 0)
    n, total = positive.size, positive.sum()
    if n < 4 or total <= 0:
        return {"trend": "steady"}
    most = int(positive.argmax())
    if positive[most] > 0.6 * total:
        return {"trend": "once", "number": most + 1, "when": float(at[most])}
    large = np.flatnonzero(positive > 0.5 * positive[most])
    steps = np.diff(large)
    if (
        large.size >= 3
        and steps.size
        and steps[0] > 1
        and (steps == steps[0]).all()
        and positive[large].sum() > 0.6 * total
    ):
        return {"trend": "every", "step": int(steps[0])}
    first, stop = _longer_part(positive)
    if first > 0:
        found = {"number": first + 1, "when": float(at[first])}
        return {"trend": "since", **found} if stop == n else {"trend": "while", **found, "last": stop}
    if stop < n:
        return {"trend": "until", "number": stop, "when": float(at[stop - 1])}
    third = max(n // 3, 1)
    at_begin, at_end = positive[:third].mean(), positive[-third:].mean()
    x = np.arange(n) - (n - 1) / 2
    r = float(
        (x * (excess - excess.mean())).sum() / max(np.sqrt((x**2).sum() * ((excess - excess.mean()) ** 2).sum()), 1e-30)
    )
    if abs(r) > 0.7 and max(at_begin, at_end) > 1.5 * min(at_begin, at_end):
        return {"trend": "growing" if r > 0 else "shrinking"}
    return {"trend": "steady"}


def _longer_part(excess: NDArray[np.float64]) -> tuple[int, int]:
    """Return the first piece of those that are too long, and the one after the last of them, if they are consecutive
    and all others are not; otherwise all pieces."""
    large = np.flatnonzero(excess > 0.5 * excess.max())
    first, stop = int(large[0]), int(large[-1]) + 1
    inside, others = excess[first:stop], np.delete(excess, slice(first, stop))
    is_part = large.size == stop - first >= 3 and others.size >= 2 and others.mean() < 0.2 * inside.mean()
    return (first, stop) if is_part else (0, excess.size)
