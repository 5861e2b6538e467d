"""The cost of recording regions (events, bytes and time), and the regions that are not worth it."""

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
"""Kinds of regions: of the program; of the program and calling MPI, OpenMP or the like, also indirectly; of MPI, OpenMP
or the like. They are USR, COM and the others of scorep-score."""

RECORDS = 2 * (9 + 2)
"""Bytes of an ENTER and a LEAVE record of OTF2 with their time stamps, without the significant bytes of the region's
number."""


@dataclass(frozen=True, eq=False)
class Recording:
    """The cost of recording by region (all regions of one name)."""

    name: NDArray[np.object_]
    paradigm: NDArray[np.object_]
    """`name` and `paradigm`: (n_regions,)"""
    kind: NDArray[np.int8]
    """(n_regions,): number in `KINDS`."""
    visits: NDArray[np.int64]
    ticks: NDArray[np.float64]
    """`visits` and `ticks`: (n_regions,), number of visits and exclusive time. The sum of times may exceed 64 bits."""
    n_bytes: NDArray[np.int64]
    """(n_regions,): bytes of the ENTER and LEAVE records in an OTF2 archive, without counters."""
    is_left_out: NDArray[np.bool_]
    """(n_regions,): whether recording them is not worth its cost: they are called often, take about as long as their
    recording, and nothing in them communicates or waits."""
    n_events: int
    """Number of events of the trace."""
    all_ticks: int
    """Time of all locations, in ticks."""
    resolution: int

    def cost(self, chosen: NDArray[np.bool_] | None = None) -> float:
        """Return the approximate time in seconds for recording the visits of all or the chosen regions."""
        return float(2 * self.visits[slice(None) if chosen is None else chosen].sum() * EVENT)

    def share(self, chosen: NDArray[np.bool_] | None = None) -> float:
        """Return the cost as a share of the time of all locations, at most 1."""
        return min(self.cost(chosen) * self.resolution / self.all_ticks, 1.0) if self.all_ticks else 0.0


def recording_of(model: Model) -> Recording:
    """Return the cost of recording the regions of a trace."""
    tree, regions, table = model.call_paths.whole, model.regions, model.get("profile")
    number, names = pd.factorize(regions.name)
    path = model.call_paths.path_of(table.call_path)
    of = number[tree.region[path]]
    n = len(names)
    visits, ticks = reduce_at(of, table.visits, n).astype(np.int64), reduce_at(of, table.exclusive, n)
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
        ticks.astype(np.float64),
        visits * (RECORDS + 2 * width),
        (kind == 0) & are_tiny(visits, ticks, model.facts.resolution),
        int(model.store.manifest["n_events"]),
        int(ticks.sum()),
        model.facts.resolution,
    )


def _kinds(tree: CallPaths, is_run_time: NDArray[np.bool_], group: NDArray[np.int64], n: int) -> NDArray[np.int8]:
    """Return the kind of each region, a number in `KINDS`; (n,) int8."""
    before = np.concatenate([[0], np.cumsum(is_run_time)])
    calls_any = before[tree.end] > before[:-1]
    kind = np.zeros(n, np.int8)
    kind[group[calls_any]] = 1
    kind[group[is_run_time]] = 2
    return kind


def recording_costs(trace: OpenedTrace) -> Answer:
    """Return the cost of recording each region, those with most events first.

    Returns
    -------
    Answer
        `region_name` and `paradigm`; `kind`: `user`, `communication` (calls MPI, OpenMP or the like, also indirectly)
        or `run time` (MPI, OpenMP or the like itself); `visits`, `mean_seconds` (exclusive, of a visit), `n_events` and
        `bytes` (of ENTER and LEAVE in OTF2, without counters), `cost_seconds` (100 ns an event), `is_left_out` (not
        worth its cost: `tracecols filter` leaves it out).
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
