"""What call paths are charged with: costs of delays, the critical path, and what both mean for the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.causes.delays import Delays, Intervals, OwnTimes
from tracecols.enhance.causes.segments import Segments, Waits
from tracecols.enhance.causes.sweep import Factors, Path
from tracecols.enhance.columns import CompoundTable
from tracecols.enhance.facts import Facts
from tracecols.enhance.grouping import combine, number
from tracecols.schema import Table
from tracecols.schema.causes import CHARGED, DELAY_IDS, DELAYS, POINTS, ROOT_CAUSES, RUN_CAUSES

ROUNDING = 2.0**-44
"""What rounding may change of a sum over all locations and call paths, in proportion."""

Rows = tuple[int | NDArray[np.int16], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]
"""Numbers of properties, or one for all, call paths, locations and seconds."""


def charge_delays(
    facts: Facts, members: NDArray[np.int64], points: CompoundTable, pairs: CompoundTable, spent: Segments, delays: Delays,
    factors: Factors, path: Path,
) -> CompoundTable:  # fmt: skip
    """Charge some locations with what their delays cost and with their part of the critical path.

    Parameters
    ----------
    facts : Facts
        What every step knows of the whole trace.
    members : (n_members,) int64
        Rows of the locations of the partition, ascending.
    points : CompoundTable
        `sync_points`: all of the trace.
    pairs : CompoundTable
        `delay_pairs`: all of the trace.
    spent : Segments
        Time of the partition by call path, from point to point.
    delays : Delays
        What the causing sides in the partition spent more time on.
    factors : Factors
        What the delays cost.
    path : Path
        The critical path.
    """
    rows: list[Rows] = []
    creation = facts.call_paths.creation
    size = np.diff(delays.end, prepend=0)
    of = np.repeat(np.arange(delays.pair.size), size)
    pair = delays.pair
    call_path, time = creation[delays.entries.column("call_path")].astype(np.int32), delays.entries.column("time")
    location = points.location[pairs.cause[pair]]
    charged = np.array([CHARGED.index(DELAY_IDS[name]) for name in DELAYS], np.int16)
    scale = factors.scale[pair]
    kept = np.flatnonzero(scale[of] != 0)
    at = of[kept]
    rows.append((charged[pairs.kind[pair]][at], call_path[kept], location[at], scale[at] * time[kept]))
    for k, name in enumerate(DELAYS):
        share = factors.shares[pair, k]
        if share.any():
            kept = np.flatnonzero(share[of] != 0)
            at = of[kept]
            rows.append(
                (CHARGED.index(f"{DELAY_IDS[name]}_longterm"), call_path[kept], location[at], share[at] * time[kept])
            )
    rows += _critical_path(facts, members, points, spent, path)
    return _table(ROOT_CAUSES, rows)


def _critical_path(
    facts: Facts, members: NDArray[np.int64], points: CompoundTable, spent: Segments, path: Path
) -> list[Rows]:
    """Add up the time of some locations on the critical path."""
    mine = np.zeros(facts.n_locations, bool)
    mine[members] = True
    here = np.flatnonzero(mine[points.location[path.until]]) if path.until.size else np.zeros(0, np.int64)
    since, until = path.since[here], path.until[here]
    if not here.size:
        return []
    maps = Intervals(facts, points, spent).spent(since, until)
    of = np.repeat(np.arange(here.size), maps.end - maps.start)
    call_path = facts.call_paths.creation[maps.call_path].astype(np.int32)
    # without what the location waited in the call at which it begins to be on the path
    stop = np.where(since >= 0, since, 0)
    wait = np.where(since >= 0, points.wait[stop], 0.0)
    at_stop = np.flatnonzero((call_path == points.call_path[stop][of]) & (wait[of] > 0))
    less = -np.minimum(wait[of[at_stop]], maps.time[at_stop])
    location = points.location[until]
    return [
        (
            CHARGED.index("critical_path"), np.concatenate([call_path, call_path[at_stop]]), np.concatenate([location[of], location[of[at_stop]]]),
            np.concatenate([maps.time, less]),
        )
    ]  # fmt: skip


def _table(table: Table, rows: Sequence[Rows]) -> CompoundTable:
    """Add up rows by property, call path and location, in their order."""
    numbers = [np.broadcast_to(np.asarray(r[0], np.int16), r[1].size) for r in rows]
    what = np.concatenate([np.zeros(0, np.int16), *numbers])
    call_path = np.concatenate([np.zeros(0, np.int32), *(r[1] for r in rows)])
    location = np.concatenate([np.zeros(0, np.int32), *(r[2] for r in rows)])
    seconds = np.concatenate([np.zeros(0), *(r[3] for r in rows)])
    group, first = number(combine(what, call_path, location))
    sums = np.bincount(group, seconds, first.size)
    order = np.lexsort((location[first], call_path[first], what[first]))
    first = first[order]
    columns = {
        "property": what[first], "call_path": call_path[first], "location": location[first], "charged": sums[order],
    }  # fmt: skip
    return CompoundTable(table, first.size, columns)


def charge_run(
    facts: Facts, points: CompoundTable, pairs: CompoundTable, factors: Factors, charged: Sequence[CompoundTable],
    own: Sequence[OwnTimes],
) -> CompoundTable:  # fmt: skip
    """Charge all locations with what their waits propagate and with what the critical path means for them.

    Parameters
    ----------
    facts : Facts
        What every step knows of the whole trace.
    points : CompoundTable
        `sync_points`: all of the trace.
    pairs : CompoundTable
        `delay_pairs`: all of the trace.
    factors : Factors
        What the delays cost.
    charged : sequence of CompoundTable
        `root_causes`, by partition.
    own : sequence of OwnTimes
        Times without waits, by partition.
    """
    rows: list[Rows] = []
    for k, (name, suffix, kind) in enumerate(
        (("latesender", "ls", "late sender"), ("latereceiver", "lr", "late receiver"))
    ):
        mine = np.flatnonzero((pairs.kind == k) & (factors.indirect > 0))
        e = pairs.waiting[mine]
        rows.append(
            (
                CHARGED.index(f"mpi_wait_indirect_{name}"),
                points.call_path[e],
                points.location[e],
                factors.indirect[mine],
            )
        )
        waits = Waits(points).point
        kept = np.flatnonzero((points.kind[waits] == POINTS.index(kind)) & (factors.propagated > 0))
        v = waits[kept]
        rows.append(
            (
                CHARGED.index(f"mpi_wait_propagating_{suffix}"),
                points.call_path[v],
                points.location[v],
                factors.propagated[kept],
            )
        )
    rows += _impacts(facts, charged, own)
    return _table(RUN_CAUSES, rows)


def _impacts(facts: Facts, charged: Sequence[CompoundTable], own: Sequence[OwnTimes]) -> list[Rows]:
    """Compare the time of every location with that of the critical path."""
    code = CHARGED.index("critical_path")
    parts = [np.flatnonzero(c.property == code) for c in charged]
    path, on, value = (
        np.concatenate([c[name][p] for c, p in zip(charged, parts, strict=True)])
        for name in ("call_path", "location", "charged")
    )
    if not path.size:
        return []
    order = np.lexsort((path, on))
    path, on, value = path[order], on[order], value[order]
    n = len(facts.call_paths)
    on_path = np.bincount(path, value, n)
    length = float(on_path.sum())
    location, call_path, time = (
        np.concatenate([getattr(o, c) for o in own]) for c in ("location", "call_path", "time")
    )
    order = np.lexsort((call_path, location))
    location, call_path, time = location[order], call_path[order], time[order]
    bounds = np.searchsorted(location, np.arange(facts.n_locations + 1))
    lacking, absent = np.zeros(n), np.zeros(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in np.flatnonzero(facts.locations.is_cpu).tolist():
            mine = slice(int(bounds[i]), int(bounds[i + 1]))
            spent = np.zeros(n)
            spent[call_path[mine]] = time[mine]
            less = np.maximum(on_path - spent, 0.0)
            lacking += (length - spent.sum()) / less.sum() * less
            nowhere = np.where(spent <= 0, on_path, 0.0)
            visited = spent > 0
            absent += (length - (spent[visited] + less[visited]).sum()) / nowhere.sum() * nowhere
        share = np.where(value > 0, value / on_path[path], 0.0)
        # the reference divides by zero here: what is no number is not charged
        lost, to_absent = share * lacking[path], share * absent[path]
    # a part of the loss, of which rounding may make more than all
    to_absent = np.where(np.abs(to_absent - lost) <= ROUNDING * lost, lost, to_absent)
    rows: list[Rows] = []
    for name, charge in (("critical_imbalance_impact", lost), ("inter_partition_imbalance", to_absent)):
        kept = np.flatnonzero((value > 0) & (charge > 0))
        rows.append((CHARGED.index(name), path[kept], on[kept], charge[kept]))
    both = on_path[call_path]
    shared = np.flatnonzero((both > 0) & (time > 0))
    rows.append(
        (
            CHARGED.index("critical_path_activities"),
            call_path[shared],
            location[shared],
            np.minimum(both[shared], time[shared]),
        )
    )
    beyond = np.flatnonzero(time > both)
    rows.append(
        (CHARGED.index("non_critical_path_activities"), call_path[beyond], location[beyond], (time - both)[beyond])
    )
    return rows
