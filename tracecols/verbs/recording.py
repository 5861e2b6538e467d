"""What the recording of regions costs: events, bytes and time; and which regions tell less than that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.findings.measurement import EVENT, are_tiny
from tracecols.findings.scenarios import RUN_TIME
from tracecols.model.model import Model
from tracecols.schema import answers
from tracecols.severity.reduction import reduce_at
from tracecols.verbs.answers import Answer, answer, sorted_by

KINDS = ("user", "communication", "run time")
"""Regions of the program, those of them that call MPI, OpenMP or the like somewhere, and these themselves: USR, COM and
the others of scorep-score."""

RECORDS = 2 * (9 + 2)
"""Bytes of ENTER and LEAVE in OTF2, with their time stamps, beside the significant ones of the region's number."""


@dataclass(frozen=True, eq=False)
class Recording:
    """What recording takes, by region (all of one name)."""

    name: NDArray[np.object_]
    paradigm: NDArray[np.object_]
    """`name` and `paradigm`: (n_regions,)"""
    kind: NDArray[np.int8]
    """(n_regions,): number in `KINDS`."""
    visits: NDArray[np.int64]
    ticks: NDArray[np.int64]
    """`visits` and `ticks`: (n_regions,), how often they are entered, and the time in them without what they call."""
    n_bytes: NDArray[np.int64]
    """(n_regions,): of the records of entering and leaving in an OTF2 archive, without counters."""
    is_left_out: NDArray[np.bool_]
    """(n_regions,): whether they cost more than they tell: they are called often, for about as long as recording takes,
    and nothing in them communicates or waits."""
    n_events: int
    """All events of the trace."""
    all_ticks: int
    """The time of all locations."""
    resolution: int

    def cost(self, chosen: NDArray[np.bool_] | None = None) -> float:
        """Return the seconds that entering and leaving regions, or some of them, takes to record, about."""
        return float(2 * self.visits[slice(None) if chosen is None else chosen].sum() * EVENT)

    def share(self, chosen: NDArray[np.bool_] | None = None) -> float:
        """Return the same as a share of the time of all locations, at most 1."""
        return min(self.cost(chosen) * self.resolution / self.all_ticks, 1.0) if self.all_ticks else 0.0


def recording_of(model: Model) -> Recording:
    """Return what the recording of the regions of a trace takes."""
    tree, regions, table = model.call_paths.whole, model.regions, model.get("profile")
    number, names = pd.factorize(regions.name)
    path = model.call_paths.path_of(table.call_path)
    of = number[tree.region[path]]
    n = len(names)
    visits, ticks = (reduce_at(of, table[c], n).astype(np.int64) for c in ("visits", "exclusive"))
    paradigm = np.zeros(n, object)
    paradigm[number[::-1]] = regions.paradigm[::-1]
    kind = _kinds(tree, np.isin(regions.paradigm, RUN_TIME)[tree.region], number[tree.region], n)
    # regions are numbered in the order of their definitions
    width = np.array([(int(i).bit_length() + 7) // 8 for i in pd.Series(number).drop_duplicates().index], np.int64)
    return Recording(
        np.asarray(names, object),
        paradigm,
        kind,
        visits,
        ticks,
        visits * (RECORDS + 2 * width),
        (kind == 0) & are_tiny(visits, ticks, model.facts.resolution),
        int(model.store.manifest["n_events"]),
        int(ticks.sum()),
        model.facts.resolution,
    )


def _kinds(tree: CallPaths, is_run_time: NDArray[np.bool_], group: NDArray[np.int64], n: int) -> NDArray[np.int8]:
    """Say what regions are; (n,) int8."""
    before = np.concatenate([[0], np.cumsum(is_run_time)])
    calls_any = before[tree.end] > before[:-1]
    kind = np.zeros(n, np.int8)
    kind[group[calls_any]] = 1
    kind[group[is_run_time]] = 2
    return kind


def recording_costs(trace: OpenedTrace) -> Answer:
    """Return what the recording of each region takes, those with most events first.

    Returns
    -------
    Answer
        `region_name` and `paradigm`; `kind`: `user`, `communication` (MPI, OpenMP or the like is called somewhere in
        it) or `run time` (that is it); `visits`, `mean_seconds` (exclusive, of a visit), `n_events` and `bytes` (of
        entering and leaving, in OTF2, without counters), `cost_seconds` (100 ns an event), `is_left_out` (it costs more
        than it tells: `tracecols filter`).
    """
    r = recording_of(trace.model)
    there = r.visits > 0
    columns = {
        "region_name": pd.Categorical(r.name),
        "paradigm": pd.Categorical(r.paradigm),
        "kind": pd.Categorical.from_codes(r.kind, categories=list(KINDS)),
        "visits": r.visits,
        "mean_seconds": r.ticks / np.maximum(r.visits, 1) / r.resolution,
        "n_events": 2 * r.visits,
        "bytes": r.n_bytes,
        "cost_seconds": 2 * r.visits * EVENT,
        "is_left_out": r.is_left_out,
    }
    made = answer(answers.RECORDING_COSTS, {name: values[there] for name, values in columns.items()})
    return sorted_by(made, "n_events")
