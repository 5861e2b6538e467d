"""The controlled logical clock (Rabenseifner 1997; Becker, Rabenseifner, Wolf, Linford 2009): times that satisfy all
clock conditions.

In the forward pass, in the order of the conditions, an event that violates one moves to the earliest time that does
not, and the events after it move along, by a shift that shrinks slowly: no interval becomes much shorter. In the
backward pass, in the opposite order, the events before it move towards it, as far as the conditions of others permit,
so that the jump becomes a slow drift. No event moves to an earlier time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracecols.clocks.corrected import CorrectedSource, Shifts
from tracecols.clocks.graph import ClockGraph
from tracecols.enhance.dataflow.steps import CLOCKS
from tracecols.errors import AnalysisError
from tracecols.kernels import clocks as kernels
from tracecols.model.model import Model
from tracecols.once import once
from tracecols.replay.replay import check_number
from tracecols.schema.notes import note
from tracecols.slices.rewritten import RewrittenTrace
from tracecols.slices.source import StoreSource
from tracecols.work.executors import side_by_side
from tracecols.work.progress import Progress

CONDITION_TABLES = ("message_conditions", "collective_conditions", "startup_conditions", "thread_conditions")
"""The values of an analysis that state clock conditions."""

SHRINK, STRETCH = 1e-5, 0.01
"""Shares by which intervals may become shorter after a correction, and longer before it (docs/clocks.md)."""


@dataclass(frozen=True)
class Bounds:
    """The bounds that a correction observes."""

    latency: float = 0.0
    """Minimum seconds between a SEND and its RECV, or between begin and end of a collective operation in different
    processes."""
    shrink: float = SHRINK
    """Share by which intervals may become shorter after an event that is moved; 0 keeps all intervals, so that shifts
    never shrink."""
    stretch: float = STRETCH
    """Share by which intervals may become longer before it, where the conditions of other events permit; 0 moves all
    events before."""

    def __post_init__(self) -> None:
        check_number(self.latency, "minimal latency", "seconds, not negative", least=0.0)
        check_number(self.shrink, "share by which intervals shrink", "a number from 0 to 1", least=0.0)
        check_number(self.stretch, "share by which intervals stretch", "a number, not negative", least=0.0)
        if self.shrink > 1:
            raise AnalysisError(f"the share by which intervals shrink is {self.shrink:g}\n  give a number from 0 to 1")

    def __str__(self) -> str:
        return f"controlled logical clock, latency {self.latency:g} s, shrink {self.shrink:g}, stretch {self.stretch:g}"


@dataclass(frozen=True)
class Change:
    """The changes that a correction makes."""

    n_moved: int
    """Events with another time."""
    largest_shift: float
    """Largest shift of an event, in seconds."""
    largest: float
    mean: float
    """`largest` and `mean`: change of the intervals between consecutive events of a location: the largest and the mean,
    in seconds."""


class Correction(RewrittenTrace):
    """A trace with corrected clocks (`Trace.correct`).

    Parameters
    ----------
    model : Model
        The whole trace.
    bounds : Bounds
    jobs : int
    progress : callable, optional
        Called with the amount done and the total.
    recorded : Path, optional
        Path of the recording, if the store is only a temporary one.

    Attributes
    ----------
    bounds : Bounds
    before, after : dict of str to int
        Conditions that are violated by the recorded and by the corrected times, by kind.
    """

    def __init__(
        self, model: Model, bounds: Bounds, jobs: int, progress: Progress | None = None, recorded: Path | None = None
    ) -> None:
        self.bounds, self._jobs, self._facts, self._recorded = bounds, jobs, model.facts, recorded

        def gather(at: Model, _stage: str) -> ClockGraph:
            found = [part for name in CONDITION_TABLES for part in at.every(name)]
            return ClockGraph.of(model.facts, found, jobs)

        with model.divided() as run:
            (graph,) = run.stages(gather, [CLOCKS], progress)
        latency = bounds.latency * model.facts.resolution
        if not latency < 1 << 60:
            raise AnalysisError(
                f"the minimal latency is {bounds.latency:g} s, more than a clock can show\n  give a shorter one"
            )
        ticks = math.ceil(latency)
        forward = graph.forward(ticks, float(bounds.shrink))
        shift = graph.backward(forward, ticks, float(bounds.stretch))
        del forward
        self.before, self.after = graph.violations(None, ticks), graph.violations(shift, ticks)
        self._counts = graph.counts
        self._shifts = Shifts(model.facts, graph.row, graph.time, shift, float(bounds.shrink), float(bounds.stretch))

    @property
    def notes(self) -> list[str]:
        """What had to be left out."""
        return [note(n, what) for what, n in self._counts.items()]

    @once
    def change(self) -> Change:
        """The changes made, found by one pass over the times of all events."""
        facts = self._facts

        def measure(location: int) -> NDArray[np.int64]:
            found, before = np.zeros(4, np.int64), 0
            for number, (_, shift) in enumerate(self._shifts.of_location(location).batches()):
                kernels.measure_intervals(shift, before if number else int(shift[0]), found)
                before = int(shift[-1])
            return found

        parts = np.array([np.zeros(4, np.int64), *side_by_side(self._jobs, measure, range(facts.n_locations))])
        n_events = [facts.store.n_rows("events", i) for i in range(facts.n_locations)]
        n_intervals = sum(n - 1 for n in n_events if n)
        resolution = facts.resolution
        return Change(
            int(parts[:, 3].sum()),
            float(parts[:, 2].max() / resolution),
            float(parts[:, 1].max() / resolution),
            float(parts[:, 0].sum() / max(n_intervals, 1) / resolution),
        )

    def source(self) -> StoreSource:
        """Return the events with their new times."""
        how = f"{self.bounds}; {sum(self.before.values())} violations before, {sum(self.after.values())} after"
        return CorrectedSource(self._shifts, how, self._length(), self._recorded)

    def _length(self) -> int:
        """Return the ticks from the origin of the clock to the last event."""
        facts = self._facts
        last = []
        for location in range(facts.n_locations):
            n = facts.store.n_rows("events", location)
            if n:
                row = int(facts.first_rows[location]) + n - 1
                time = facts.store.read("events", location, ["time"], n - 1, n)["time"]
                time = facts.order.times_of(row, time)
                of = self._shifts.of_location(location)
                last.append(int(time[0] + of.at(np.array([row]), time, 0)[0][0]))
        return max(last, default=0) - int(facts.store.manifest["clock"]["origin"])

    def plain(self) -> dict[str, object]:
        """Return what was corrected as plain values, for JSON."""
        c = self.change
        return {
            "bounds": {name: getattr(self.bounds, name) for name in ("latency", "shrink", "stretch")},
            "violations_before": self.before,
            "violations_after": self.after,
            "n_moved": c.n_moved,
            "largest_shift": c.largest_shift,
            "largest_change": c.largest,
            "mean_change": c.mean,
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        n = sum(self.before.values())
        return f"<Correction {self.bounds}: {n:,} violations before, {sum(self.after.values()):,} after>"


def as_bounds(**given: float | None) -> Bounds:
    """Return bounds with the given values; None for a default."""
    return Bounds(**{name: value for name, value in given.items() if value is not None})
