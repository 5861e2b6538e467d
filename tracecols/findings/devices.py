"""Causes in programs whose kernels communicate: a process that begins operations last, because of its host or its
kernels, so that the kernels of all others wait, and their hosts wait for these.

The time that makes it late is found by chains (`causes.device_costs`), and is mended by removing it: for each operation
as much as the longest wait in it; or, if that gains clearly more, by the same work taking as long as that of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracecols.causes.device_chains import BEFORE, ON_HOST, ON_STREAM, WAITING
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, lookup, number
from tracecols.enhance.dataflow.steps import SWEEP
from tracecols.enhance.definitions.regions import COPY
from tracecols.findings.cause import NOBODY, Cause, tried
from tracecols.findings.computation import Computing
from tracecols.findings.overheads import largest
from tracecols.findings.scenarios import Change, Scenarios, together
from tracecols.schema.enums import NCCL
from tracecols.severity.causes import PREFERRED, STRAGGLER
from tracecols.vectors import Ints

N_TRIED = 7
"""Maximum number of processes that are tried: those for which others wait longest."""

LEAST = 0.01
"""Share of the runtime of all processes that others must wait for a process for it to be a cause."""

PASSED_ON = 0.5
"""Share of this from which on a process counts as late because it has waited for another one, which then is the
cause."""


def of_devices(s: Scenarios, computing: Computing, kernels: Computing) -> list[Cause]:
    """Return the causes that processes begin operations of kernels last, with the gains of mending that: 0 if waits of
    hosts for kernels are not recorded. `computing` and `kernels` are the computation of threads and of streams."""
    with s.model.divided() as run:
        (delays,) = run.stages(lambda model, _stage: model.get("device_delays"), [SWEEP])
    process = s.process
    of = process[delays.waits.cause_location]
    waits = np.bincount(of, delays.waits.wait)
    least = LEAST * s.runtime * distinct(process[s.model.locations.is_device]).size
    chosen = np.argsort(-waits, kind="stable")[:N_TRIED]
    chosen = chosen[waits[chosen] >= max(least, 1)]
    group = np.full(waits.size, -1)
    group[chosen] = np.arange(chosen.size)
    blames = dict(zip(chosen.tolist(), delays.blame(group[of], chosen.size), strict=True))
    n_last = np.bincount(process[delays.waits.cause_location[delays.waits.is_longest > 0]], minlength=waits.size)
    every = (_late(s, part, int(waits.sum()), int(n_last[p]), s.merged.below_steps) for p, part in blames.items())
    found = [c for c in every if c is not None]
    is_copy = (s.model.regions.device_call == COPY)[s.call_paths.region]
    for cause, gain in zip(found, s.gains([c.change for c in found]), strict=True):
        cause.gain = max(gain, 0)
        # what makes others wait may take longer where nobody waits for it, too
        late = blames[int(process[cause.locations[0]])]
        paths = distinct(late.call_path[np.isin(late.spent_in, (ON_HOST, ON_STREAM))])
        # copies on streams are blamed on the call paths of the calls that request them
        if is_copy[paths].any():
            paths = np.append(paths, kernels.cells.call_path[is_copy[kernels.cells.call_path]])
        everywhere = together([c.as_others(paths, process[cause.locations[0]]) for c in (computing, kernels)])
        if (gain := s.gain(everywhere)) > PREFERRED * cause.gain > 0:
            cause.change, cause.gain = everywhere, gain
    return found


def of_transfers(s: Scenarios) -> list[Cause]:
    """Return the causes that kernels transfer data between processes while others wait for that, with the gains of
    overlapping all of it with computation, by the region that launches them."""
    kernels, nodes, c = s.model.kernels, s.graph.nodes, s.computation
    end = nodes.at(kernels.exit)
    if not end.size:
        return []
    communicates = (s.model.regions.paradigm == NCCL)[s.call_paths.region]
    # hosts may be in operations of these libraries, too
    is_counted = s.in_window & s.model.locations.is_device[nodes.location]
    row = np.flatnonzero(communicates[c.call_path] & is_counted[c.node])
    # the kernel that ends next
    order = np.argsort(end, kind="stable")
    kernel = order[np.minimum(np.searchsorted(end[order], c.node[row]), end.size - 1)]
    user = pick(s.user_call_path, s.model.call_paths.path_of(kernels.launch_call_path)[kernel])
    found = []
    for where, of, family in largest(s, np.arange(row.size), c.ticks[row], user):
        mine = row[of]
        evidence = {"n_kernels": int(of.size), "transfer": int(c.ticks[mine].sum()) / of.size / s.resolution}
        change = s.less_computation(c.node[mine], c.ticks[mine])
        found.append(Cause("transfers", where, NOBODY, change, evidence=evidence | family))
    return tried(s, found)


def _late(s: Scenarios, blame: Columns, whole: int, n_last: int, same: Ints) -> Cause | None:
    """Return the cause that a process is late; None if neither its host nor its kernels make it late.

    `blame` holds what makes it late, `whole` the ticks that kernels of all processes wait, `n_last` the number of
    operations that are waited for, and `same` the first of the call paths that differ in nothing but the numbers of
    steps above them.
    """
    own = blame.take(np.flatnonzero(np.isin(blame.spent_in, (ON_HOST, ON_STREAM))))
    cell, first = number(combine(own.location, own.call_path))
    if not first.size or blame.ticks[blame.spent_in == WAITING].sum() > PASSED_ON * blame.ticks.sum():
        return None
    change = _earlier(s, own.location[first], own.call_path[first], Segments(cell, first.size).sum(own.late))
    resolution = s.resolution
    by = {k: int(blame.ticks[blame.spent_in == k].sum()) / resolution for k in (ON_HOST, ON_STREAM, WAITING, BEFORE)}
    # the longest is among what makes it late for the larger part: its host, often in many functions, or its kernels
    on_host = by[ON_HOST] > by[ON_STREAM]
    own = own.take(np.flatnonzero(own.spent_in == (ON_HOST if on_host else ON_STREAM)))
    # copies of a stream are requested on many call paths
    cell, first = number(combine(own.location, same[own.call_path] if on_host else s.call_paths.region[own.call_path]))
    there = Segments(cell, first.size).sum(own.ticks)
    worst = int(there.argmax())
    location, call_path = own.location[first], same[own.call_path[first]]
    evidence: dict[str, Any] = {
        "waits": int(blame.ticks.sum()) / resolution,
        "share": int(blame.ticks.sum()) / whole,
        "n_last": n_last,
        "on_host": by[ON_HOST],
        "on_stream": by[ON_STREAM],
        "earlier": by[WAITING],
        "unrecorded": by[BEFORE],
        "is_kernel": bool(s.model.locations.is_device[location[worst]]),
        "there": int(there[worst]) / resolution,
    }
    frees = _without(s, int(s.process[location[worst]]))
    return Cause(STRAGGLER, int(call_path[worst]), location[[worst]], change, evidence=evidence, frees=frees)


def _earlier(s: Scenarios, location: Ints, call_path: Ints, late: Ints) -> Change:
    """Return the change that subtracts from call paths of a process the ticks by which they make it late."""
    c, n_paths = s.computation, len(s.call_paths)
    order = np.argsort(location * n_paths + call_path)
    at = lookup((location * n_paths + call_path)[order], c.location.astype(np.int64) * n_paths + c.call_path)
    row = np.flatnonzero(at >= 0)
    of = order[at[row]]
    whole = np.bincount(of, c.ticks[row], late.size)
    part = np.divide(late, whole, out=np.zeros(late.size), where=whole > 0)
    return s.less_computation(c.node[row], np.minimum(part, 1.0)[of] * c.ticks[row])


def _without(s: Scenarios, process: int) -> Change:
    """Return the change after which no kernels of other processes wait for those of a process."""
    nodes, n = s.graph.nodes, len(s.graph.nodes)
    of, edges = s.process[nodes.location], s.graph.edges
    tail, head = np.asarray(edges.tail, np.int64), np.asarray(edges.head, np.int64)
    mine = (tail < n) & (of[np.minimum(tail, n - 1)] == process)
    mine &= s.model.locations.is_device[nodes.location[np.minimum(tail, n - 1)]]
    leaves = (head >= n) | (of[np.minimum(head, n - 1)] != process)
    return Change(cut=np.flatnonzero(mine & leaves))
