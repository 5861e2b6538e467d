"""The search for causes of lost time: candidates, tried by replay, the best first, each with the time that it
explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns
from tracecols.enhance.dataflow.grouping import Segments, combine, number
from tracecols.enhance.scan.region_rules import CONDITION
from tracecols.errors import AnalysisError
from tracecols.findings.cause import Cause, Explained
from tracecols.findings.devices import of_devices, of_transfers
from tracecols.findings.evidence import Evidence
from tracecols.findings.files import IN_LINE, of_files
from tracecols.findings.idle import of_idle_devices
from tracecols.findings.measurement import of_measurement
from tracecols.findings.order import of_order
from tracecols.findings.overheads import (
    lock_edges,
    message_edges,
    of_barriers,
    of_copies,
    of_locking,
    of_locks,
    of_messages,
    of_overheads,
    of_overlap,
    of_tasks,
    of_threads,
    passed_on_edges,
)
from tracecols.findings.scenarios import Change, Scenarios
from tracecols.findings.starts import starts_of_devices
from tracecols.kernels import maxplus
from tracecols.model.model import Model
from tracecols.replay.replay import Replay
from tracecols.schema.enums import NCCL
from tracecols.severity.causes import ALONE, PREFERRED, could_gain, is_uneven, rank_factor
from tracecols.work.executors import side_by_side

N_CAUSES = 8
"""Maximum number of causes that are kept."""

LEAST = 0.01
"""Part of the runtime that a cause must gain to be one."""

VAGUE = {
    "measurement": 0.05,
    "locking": 0.02,
    "changing": 0.02,
    "imbalance": 0.02,
    "pipeline": 0.03,
    "barrier": 0.02,
    "overlap": 0.02,
}
"""The same for kinds that random differences bring about as well."""

OWN = 0.3
"""Share of its gain that a cause must have besides those before it; with less, it is the same cause in other words."""

QUEUED = 0.5
"""Share of the gain of calls that take long that must be due to a queue of these calls, or to a lock that is held
meanwhile, to be named in their place."""

IN_MPI = frozenset(("messages", "collectives", "calls"))
"""Kinds of causes that calls of MPI take long."""

MOST_CALLS = 1 << 21
"""Number of call instances of a trace up to which its causes are tried by replay of the whole trace: up to there that
takes about as long as the analysis, and up to 0.7 GB per million. Of longer traces pieces are
replayed (`analysis.pieces`)."""


def find_causes(replay: Replay) -> list[Cause]:
    """Return the causes of lost time, that with the largest gain first (`causes_and_starts`). Raises AnalysisError if
    the trace cannot be replayed."""
    return causes_and_starts(replay)[0]


def causes_and_starts(replay: Replay) -> tuple[list[Cause], Columns]:
    """Return the causes of lost time, that with the largest gain first, and the calls in which devices start
    (`findings.starts.CALL`), which are not a fault of the program. Raises AnalysisError if the trace cannot be
    replayed.
    """
    s = Scenarios(replay)
    starts = starts_of_devices(s)
    if s.runtime <= 0:
        return [], starts
    evidence, paradigm = Evidence(s), s.model.regions.paradigm
    has_work = s.model.has_device_work
    late = of_devices(s, evidence.computing, evidence.kernels) if has_work and (paradigm == NCCL).any() else []
    idle = of_idle_devices(s, starts) if has_work else []
    # causes in communication say more of what hosts communicate while devices have nothing to do
    in_mpi = [c for c in idle if paradigm[s.call_paths.region[c.call_path]] == "mpi"]
    chosen = _of_hosts(s, evidence, late, [c for c in idle if c not in in_mpi])
    chosen = _chosen(s, in_mpi, chosen)
    chosen.sort(key=_rank)
    _explain(s, chosen)
    for c in chosen:
        _name_producer(s, c)
    for _ in side_by_side(s.model.jobs, evidence.add_to, chosen):
        pass
    return chosen, starts


def _of_hosts(s: Scenarios, evidence: Evidence, late: list[Cause], idle: list[Cause]) -> list[Cause]:
    """Add to the causes in programs with work on devices those in computation and communication of processes and
    threads, and in kernels that take longer on some devices."""
    searches: list[Callable[[Scenarios], list[Cause]]] = [
        lambda _: evidence.computing.causes(),
        lambda s: evidence.computing.in_turns(Change(cut=np.append(message_edges(s), lock_edges(s)))),
        lambda _: evidence.kernels.causes_between_devices() if s.model.has_device_work else [],
        lambda s: evidence.join_small_regions(of_overheads(s)),
        of_threads,
        of_tasks,
        of_copies,
        of_transfers,
        of_locks,
        of_locking,
        of_barriers,
        of_overlap,
        of_order,
        of_files,
        of_measurement,
    ]
    candidates = side_by_side(s.model.jobs, lambda search: search(s), searches)
    found = _without_held(s, _without_long_queues(s, [*chain.from_iterable(candidates)]))
    chosen = _chosen(s, found, [*_late_or_uneven(s, late, found), *idle])
    chosen = _pipelines_first(s, chosen)
    return _chosen(s, of_messages(s, message_edges(s), [c.change for c in chosen]), chosen)


def _late_or_uneven(s: Scenarios, late: list[Cause], causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes that processes are late for operations of kernels; after those in computation that gain clearly
    more than mending any of these could, as another process is late each time, or several are."""
    n_others = max(distinct(s.process[s.model.locations.is_device]).size - 1, 1)
    most = max((could_gain(c.gain / s.resolution, c.evidence, n_others) for c in late), default=np.inf)
    uneven = [c for c in causes if is_uneven(c.kind, c.evidence) and c.gain / s.resolution > PREFERRED * most]
    return _chosen(s, late, _chosen(s, uneven, [])) if uneven else late


def _without_long_queues(s: Scenarios, causes: list[Cause]) -> list[Cause]:
    """Leave out that calls take long in functions in which they mostly wait for each other."""
    region = s.call_paths.region
    queues = {int(region[c.call_path]): c.gain for c in causes if IN_LINE in c.evidence}
    return [c for c in causes if c.kind != "calls" or queues.get(int(region[c.call_path]), 0) < QUEUED * c.gain]


def _without_held(s: Scenarios, causes: list[Cause]) -> list[Cause]:
    """Leave out that calls of MPI take long that threads mostly make one after the other, while each holds a lock."""
    most = max((c.gain for c in causes if c.kind == "lock"), default=0)
    if not most:
        return causes
    is_held = s.in_locks()

    def is_due(c: Cause) -> bool:
        held = c.change.less[is_held[c.change.node]].sum()
        return bool(c.kind in IN_MPI and most >= QUEUED * c.gain and held > QUEUED * c.change.less.sum())

    return [c for c in causes if not is_due(c)]


def _pipelines_first(s: Scenarios, chosen: list[Cause]) -> list[Cause]:
    """Add pipelines that gain more than overlapping the exchanges after them, which wait for the ends of the pipelines;
    and leave these exchanges out if they gain little besides."""
    overlaps = [c for c in chosen if c.kind == "overlap"]
    if not overlaps:
        return chosen
    others = [c for c in chosen if c.kind != "overlap"]
    found = of_messages(s, passed_on_edges(s), [c.change for c in others])
    best = [c for c in found if c.gain > max(o.gain for o in overlaps)]
    return _chosen(s, overlaps, _chosen(s, best, others)) if best else chosen


def _chosen(s: Scenarios, candidates: Sequence[Cause], before: list[Cause]) -> list[Cause]:
    """Add candidates to the causes before, the best first, except those that chosen causes have explained."""
    chosen = list(before)
    left = sorted(candidates, key=_rank)
    left = [c for c in left if c.gain >= _least(s, c)]
    while left and len(chosen) < N_CAUSES:
        together = left[: maxplus.LANES - 1]
        besides = [c.gain for c in together]
        if chosen:
            besides = s.gains([c.change for c in together], [c.change for c in chosen])
        # the gains of candidates after the first one that is chosen have to be found anew, besides that one, too
        enough = [g >= max(OWN * c.gain, _least(s, c)) for c, g in zip(together, besides, strict=True)]
        n = enough.index(True) + 1 if any(enough) else len(together)
        chosen += together[n - 1 : n] if any(enough) else []
        left = left[n:]
    return chosen


def _rank(c: Cause) -> tuple[float, str, int]:
    """Return the key by which causes are tried and kept, the best first."""
    return -c.gain * rank_factor(c.kind, c.evidence), c.kind, c.call_path


def _least(s: Scenarios, c: Cause) -> float:
    """Return the ticks that a cause must gain to be one."""
    return VAGUE.get(c.kind, LEAST) * float(s.replay.without_start(s.runtime))


def _explain(s: Scenarios, causes: Sequence[Cause]) -> None:
    """Find the time other than the program's computation that ends with each cause, one after the other, so that no
    time is explained twice."""
    changes = [c.change if c.frees is None else c.frees for c in causes]
    done = [changes[:i] for i in range(len(causes) + 1)]
    nodes = s.graph.nodes
    for c, moments in zip(causes, pairwise(side_by_side(s.model.jobs, s.moments, done, ahead=1)), strict=True):
        node, (lost, idle, beyond) = s.less_lost(*moments)
        # for properties, waits for processes outside of MPI are no waits
        beyond += np.minimum(lost - beyond, s.progress[node])
        at, still = np.flatnonzero(lost), np.flatnonzero(idle)
        spent = s.computation.ticks[c.spent]
        call_path = np.concatenate(
            [s.call_path[node[at]], np.full(still.size, -1, np.int64), s.computation.call_path[c.spent]]
        )
        location = np.concatenate([nodes.location[node[np.concatenate([at, still])]], s.computation.location[c.spent]])
        location = location.astype(np.int64)
        group, first = number(combine(call_path + 1, location)) if location.size else (at, at)
        cells = Segments(group, first.size)
        ticks = cells.sum(np.concatenate([lost[at], idle[still], spent]))
        in_calls = np.clip(cells.sum(np.concatenate([beyond[at], np.zeros_like(still), spent])), 0, ticks)
        kept = ticks > 0
        c.explained = Explained(call_path[first][kept], location[first][kept], ticks[kept], in_calls[kept])


def _name_producer(scenarios: Scenarios, cause: Cause) -> None:
    """Turn a cause in computation that no other location does into a producer if over 40 % of the time it explains is
    waits for conditions."""
    explained = cause.explained
    if cause.kind != "computation" or explained is None or ALONE not in cause.evidence:
        return
    on_conditions = np.append(CONDITION(scenarios.model.regions)[scenarios.call_paths.region], False)
    if explained.ticks[on_conditions[explained.call_path]].sum() > 0.4 * explained.ticks.sum():
        cause.kind = "producer"


def has_causes(model: Model) -> bool:
    """Return whether the causes of a trace are tried by replay of the whole trace: if it has at most `MOST_CALLS` call
    instances."""
    return model.n_calls <= MOST_CALLS


def facts_of_causes(replay: Replay) -> dict[str, Any] | None:
    """Return the causes of a trace as a cube keeps them; None if the trace cannot be replayed."""
    try:
        found, starts = causes_and_starts(replay)
    except AnalysisError:
        # events wait for themselves
        return None
    return {
        "runtime": int(replay.without_start(replay.runtime(replay.nodes.time))),
        "n_call_paths": len(replay.call_paths),
        "n_locations": replay.model.n_locations,
        "found": [c.facts() for c in found],
        "starts": [
            starts.call_path.tolist(),
            starts.location.tolist(),
            (starts.exit_time - starts.enter_time).tolist(),
        ],
    }
