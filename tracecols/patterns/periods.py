"""Results of a search in a model that is divided into periods: the period axis of a cube, and cells by period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracecols.causes.periods import divide_cells
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.scan.call_paths import PeriodCallPaths
from tracecols.enhance.scan.periods import BIN, FOCUS
from tracecols.errors import AnalysisError
from tracecols.kernels import periods as kernels
from tracecols.model.model import Model
from tracecols.severity.cells import Cells
from tracecols.severity.periods import OUTSIDE as NO_PERIOD
from tracecols.severity.periods import PeriodAxis, PeriodCells

BEFORE, AFTER = 0, 2
"""The pieces of time before and after the focus, if nothing else divides."""

LEFT_OUT = (
    "tree left out of a cube that is divided: computational imbalance, the absolute differences from the mean of the "
    "locations, which do not add up over periods"
)
"""Note of cubes with periods."""

SPARSE = 4
"""Ratio of cells to values from which on values are sorted instead of being counted by cell."""

FEWER = "processes that have fewer phases than others, and lack the last ones"
NO_PHASES = "processes without any phase: all of their time is outside"
NESTED = "instances of a phase within a phase, which belong to the outer one"
NO_TIME = "properties whose matches do not say when they begin ({}): they count for the bin in which their call begins"


def period_axis(model: Model) -> tuple[PeriodAxis, dict[str, int]]:
    """Return the phases or bins of a model, and the notes about them. Raises AnalysisError if there is no phase at
    all."""
    divider = model.call_paths.divider
    assert divider is not None  # asked of divided models only
    n_locations = model.n_locations
    if divider.kind == BIN:
        n = divider.bounds.size - 1
        axis = PeriodAxis(
            BIN, divider.words, divider.bounds[:-1], divider.bounds[1:], np.full(n, n_locations, np.int32)
        )
        return axis, {}
    n_phases = np.array([scan.phase_begin.size for scan in model.scans], np.int64)
    n = int(n_phases.max(initial=0))
    nested = sum(scan.nested for scan in model.scans)
    if not n:
        levels = "/".join("|".join(model.regions.name[fits].tolist()[:3]) for fits in divider.fits[::-1])
        is_path = " like that" if divider.fits.shape[0] > 1 else ""
        raise AnalysisError(
            f"there is no phase {divider.words!r}: {levels} is never entered{is_path} outside of explicit tasks\n"
            "  see trace.call_paths; tracecols phases proposes some",
            in_shell="tracecols phases TRACE proposes some",
        )
    begin, end = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    count = np.zeros(n, np.int32)
    for scan in model.scans:
        here = slice(scan.phase_begin.size)
        np.minimum(begin[here], scan.phase_begin, out=begin[here])
        np.maximum(end[here], scan.phase_end, out=end[here])
        count[here] += 1
    cpus = np.flatnonzero(model.locations.is_cpu)
    of_process = np.zeros(int(model.process.max(initial=-1)) + 1, np.int64)
    np.maximum.at(of_process, model.process[cpus], n_phases[cpus])
    of_process = of_process[distinct(model.process[cpus])]
    notes = {
        FEWER: int(((of_process > 0) & (of_process < n)).sum()),
        NO_PHASES: int((of_process == 0).sum()),
        NESTED: nested,
    }
    return PeriodAxis(divider.kind, divider.words, begin, end, count), {k: v for k, v in notes.items() if v}


def period_cells(model: Model, cells: Cells) -> PeriodCells:
    """Separate call paths and periods of cells; O(n), as call paths by period are in the order of periods."""
    if not len(cells):
        none = np.zeros(0, np.int32)
        return PeriodCells(none, none, none, cells.value)
    labels = model.call_paths
    assert isinstance(labels, PeriodCallPaths)  # asked of divided models only
    n_locations = model.n_locations
    n = len(labels.whole) * n_locations
    if n >= SPARSE * len(cells):
        # too many cells to count for few values
        label, location = cells.key >> 32, (cells.key & 0xFFFFFFFF).astype(np.int32)
        path = labels.label_path[label]
        order = np.argsort(path.astype(np.int64) * n_locations + location, kind="stable")
        return PeriodCells(path[order], location[order], labels.period[label[order]], cells.value[order])
    call_path, location, period = (np.empty(len(cells), np.int32) for _ in range(3))
    value = np.empty_like(cells.value)
    kernels.split_cells(
        cells.key,
        cells.value,
        labels.label_path,
        labels.period,
        n_locations,
        np.zeros(n + 1, np.int64),
        call_path,
        location,
        period,
        value,
    )
    return PeriodCells(call_path, location, period, value)


def by_bin(model: Model, spans: PeriodCells) -> tuple[PeriodCells, PeriodCells]:
    """Return cells by piece as cells by bin, and those of them that lie outside of the focus; O(n log n).

    Without bins, both remain cells by piece (outside of the focus: `BEFORE`, `AFTER`).
    """
    if not len(spans):
        # most properties of a program have no cells: this saves a twentieth of the time of a small analysis
        return spans, spans
    divider = model.call_paths.divider
    assert divider is not None  # asked of divided models only
    bins, inside = divider.bin_of(spans.period, spans.location)
    outside = spans.where(~inside)
    if divider.kind == FOCUS:
        return spans, outside
    return (
        PeriodCells.ordered(spans.call_path, spans.location, bins, spans.value),
        PeriodCells.ordered(outside.call_path, outside.location, bins[~inside], outside.value),
    )


def of_no_period(cells: PeriodCells) -> PeriodCells:
    """Return the sums of cells over their periods, as cells of no period."""
    found = cells.summed()
    return PeriodCells(found.call_path, found.location, np.full(len(found), NO_PERIOD, np.int32), found.value)


def within_phases(outside: PeriodCells, cells: PeriodCells) -> PeriodCells:
    """Distribute cells that lie outside of the focus (`BEFORE`, `AFTER`) over the phases.

    The phases of a cell follow each other in time. The part before the focus is therefore taken from the time of the
    cell before all phases, then from its first phases, until it is used up; the part after the focus is taken from its
    last phases.
    """
    before = _first(outside.where(outside.period == BEFORE).summed(), cells, 1)
    after = _first(outside.where(outside.period != BEFORE).summed(), cells - before, -1)
    return PeriodCells.ordered(
        *(np.append(getattr(before, c), getattr(after, c)) for c in ("call_path", "location", "period", "value"))
    )


def _first(amount: Cells, cells: PeriodCells, direction: int) -> PeriodCells:
    """Return the parts of cells by phase that make up an amount, taken from the first phases on, or from the last with
    direction -1. The excess is of no phase."""
    key = (cells.call_path.astype(np.int64) << 32) | cells.location
    of = lookup(amount.key, key)
    order = np.lexsort((direction * cells.period.astype(np.int64), of))
    order = order[int((of < 0).sum()) :]
    of, value = of[order], np.maximum(cells.value[order], 0)
    before = np.cumsum(value) - value
    taken = np.clip(amount.value[of] - (before - before[np.searchsorted(of, of)]), 0, value)
    left = amount - Cells.sum(cells.call_path[order], cells.location[order], taken)
    return PeriodCells.ordered(
        np.append(cells.call_path[order], left.call_path),
        np.append(cells.location[order], left.location),
        np.append(cells.period[order], np.full(len(left), NO_PERIOD, np.int32)),
        np.append(taken, left.value),
    )


def divide_like(model: Model, cells: Cells, like: Cells) -> Cells:
    """Divide cells of the whole time among periods in proportion to `like`, cells by period, so that the parts add up
    to them; without periods, return them unchanged.

    Negative values of `like` count as zero.
    """
    labels = model.call_paths
    if not isinstance(labels, PeriodCallPaths):
        return cells
    cell = lookup(cells.key, (labels.path_of(like.call_path) << 32) | like.location)
    of, label, part = divide_cells(
        labels, cells.value, cells.call_path, cell, like.call_path.astype(np.int64), like.value, cells.location
    )
    return Cells.sum(label, cells.location[of], part)


def period_notes(
    kind: str, cells: Mapping[str, PeriodCells], left_out: int, without_time: Sequence[str]
) -> dict[str, int]:
    """Return the notes about severities by period."""
    notes = {LEFT_OUT: left_out}
    if kind == BIN and without_time:
        notes[NO_TIME.format(", ".join(without_time))] = len(without_time)
    return {k: v for k, v in notes.items() if v}
