"""The replay of a trace with other weights: ideal and other networks, faster computation, balanced processes.

The predicted runtime is that from the first return of MPI_Init to the last call of MPI_Finalize or, without these, that
of the whole recording. The order of messages, of locks and of polling stays as it was recorded, and so does what the
program computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.definitions.locations import PIECE
from tracecols.enhance.definitions.regions import CONTEXTS
from tracecols.enhance.scan.focus import find_focus
from tracecols.enhance.scan.paths import with_descendants
from tracecols.errors import AnalysisError
from tracecols.given.arguments import is_whole_number, show
from tracecols.once import once
from tracecols.replay.conventions import COLLECTIVES, DIMEMAS, RECORDED, Conventions
from tracecols.replay.events import LocationEvents, events_of
from tracecols.replay.nodes import NodeClass, mpi_regions
from tracecols.replay.replayable import Replayable
from tracecols.replay.scenarios import (
    Rule,
    Scenario,
    balanced,
    cells_of,
    predict,
    recorded_runtime,
    runtimes_of,
    scaled,
    times_of,
    without_transfer,
)
from tracecols.schema.notes import note
from tracecols.vectors import Ints, Mask

if TYPE_CHECKING:
    import pandas as pd


OPTIONS: dict[str, dict[str, Any]] = {
    "--transfer 0": {"transfer": 0.0},
    "--balanced": {"balanced": True},
    "--openmp 0": {"openmp": 0.0},
}
"""Changes of a whole run that are tried first, by the option of `tracecols what-if` that requests them."""

STRAIGHT = 2.0**-20
"""Relative difference of a saving from a straight line that rounding may cause."""


@dataclass(frozen=True)
class Changes:
    """Changes compared with the recorded run."""

    scale: Mapping[str, float] = field(default_factory=dict)
    """Factor, by region or shell pattern, for computation in the region and in what it calls; factors of nested regions
    multiply."""
    transfer: float | None = None
    """Factor for the time that MPI takes beyond waiting: 0 is an ideal network. By default 1, and 0 with a latency or
    bandwidth."""
    latency: float | None = None
    """Seconds that every message takes, and every step of a collective operation."""
    bandwidth: float | None = None
    """Bytes per second of a message."""
    balanced: bool = False
    """Every process computes as much as the mean of all, and so do its devices."""
    openmp: float | None = None
    """Factor for the time that OpenMP and locks take beyond waiting."""
    collectives: str = RECORDED
    """`recorded`; or `dimemas`, with an ideal network: all participants wait for all in blocking collective operations
    but Reduce, and none in MPI_Finalize and in calls that manage communicators."""
    eager: int | None = None
    """With an ideal network: bytes from which on a message waits for its receive to be posted. By default senders wait
    where the recorded times show that they did."""
    whole_run: bool = False
    """The runtime is that of the whole recording, not that between MPI_Init and MPI_Finalize."""

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Mapping):
            raise AnalysisError(
                f"factors are given by region, not as {show(self.scale)}\n  give a mapping such as {{'solve': 0.5}}"
            )
        factor = "a number such as 0.5, not negative"
        for region, given in self.scale.items():
            check_number(given, f"factor of {show(region)}", factor, least=0.0)
        for value, what, expected, least in (
            (self.transfer, "factor of transfer", f"{factor}; 0 is an ideal network", 0.0),
            (self.openmp, "factor of OpenMP", factor, 0.0),
            (self.latency, "latency", "seconds, not negative", 0.0),
            (self.bandwidth, "bandwidth", "bytes per second, more than 0", math.ulp(0.0)),
            (self.eager, "limit of eager messages", "bytes, not negative", 0.0),
        ):
            if value is not None:
                check_number(value, what, expected, least)
        if self.collectives not in COLLECTIVES:
            raise AnalysisError(f"collectives are {show(self.collectives)}\n  there are {', '.join(COLLECTIVES)}")
        has_network = self.transfer_factor or self.latency is not None or self.bandwidth is not None
        if self.conventions.is_simulated and has_network:
            what = (
                "collectives as Dimemas has them are" if self.collectives == DIMEMAS else "limits of eager messages are"
            )
            raise AnalysisError(
                f"{what} for an ideal network\n  give transfer=0 besides, and neither latency nor bandwidth",
                in_shell="give --transfer 0 besides, and neither --latency nor --bandwidth",
            )

    @property
    def conventions(self) -> Conventions:
        """The rules that are followed."""
        return Conventions(self.collectives, self.eager, self.whole_run)

    @property
    def transfer_factor(self) -> float:
        """Factor for the time that MPI takes beyond waiting."""
        if self.transfer is not None:
            return float(self.transfer)
        return 1.0 if self.latency is None and self.bandwidth is None else 0.0

    def __str__(self) -> str:
        words = [f"{region} x {factor:g}" for region, factor in self.scale.items()]
        words += ["processes balanced"] if self.balanced else []
        factor = self.transfer_factor
        other = self.latency is not None or self.bandwidth is not None
        if factor or not other:
            words += [f"transfer x {factor:g}" if factor else "ideal network"] if factor != 1 else []
        words += [f"latency {self.latency:g} s"] if self.latency is not None else []
        words += [f"bandwidth {self.bandwidth:g} B/s"] if self.bandwidth is not None else []
        words += [f"OpenMP x {self.openmp:g}"] if self.openmp is not None else []
        words += ["collectives as of Dimemas"] if self.collectives == DIMEMAS else []
        words += [f"messages of {self.eager:,} bytes wait for receives"] if self.eager is not None else []
        words += ["whole run"] if self.whole_run else []
        return ", ".join(words) or "as recorded"


def check_number(value: object, what: str, expected: str, least: float) -> None:
    """Check a finite number that is at least `least`. Raises AnalysisError, which says what is `expected`."""
    number = math.nan
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        # an integer may be larger than any float
        with suppress(OverflowError):
            number = float(value)
    if not least <= number < math.inf:
        raise AnalysisError(f"the {what} is {show(value)}\n  give {expected}")


AS_DIMEMAS = Changes(transfer=0, collectives=DIMEMAS, eager=32 << 10, whole_run=True)
"""The ideal network as BSC's tools have it: Dimemas with its default limit of eager messages, and the whole run."""


class Replay(Replayable):
    """A trace that is replayed with changes: its times and its runtime, and the changes that would save most."""

    @once
    def ideal(self) -> Ints:
        """Times of the nodes on an ideal network; (n_nodes,) int64."""
        return times_of(self, Scenario((without_transfer(),)))

    @once
    def contexts(self) -> Mask:
        """The call paths that create contexts of devices, and what they call; (n_call_paths,) bool."""
        if not self.model.locations.is_device.any():
            return np.zeros(len(self.call_paths), bool)
        names = [CONTEXTS.fullmatch(name) is not None for name in self.model.regions.lower]
        return with_descendants(np.array(names, bool)[self.call_paths.region], self.call_paths.end)

    @once
    def starting(self) -> int:
        """Ticks that every process takes to create contexts of devices after MPI_Init; one more pass over the masters'
        events if there are any. They are no part of the runtime unless that is of the whole run."""
        model = self.model
        if not self.contexts.any() or PIECE in model.store.manifest["source"]:
            return 0
        focus = find_focus(model.store, model.regions, model.locations)
        creates, found = np.append(self.contexts, False), []
        for location, events in self.events_of_masters():
            time = events.time if focus is None else np.clip(events.time, *focus[location])
            found.append(int(np.diff(time)[creates[events.call_path[:-1]]].sum()))
        return min(found, default=0)

    def events_of_masters(self) -> Iterator[tuple[int, LocationEvents]]:
        """Read the events of the masters of processes that have any, one after the other."""
        locations = self.model.locations
        for master in distinct(locations.master[locations.is_cpu]).tolist():
            if self.model.store.n_rows("events", master):
                yield master, events_of(self.model, self.nodes, master)

    def without_start(self, ticks: Any, whole_run: bool = False) -> Any:
        """Return runtimes in ticks without the creation of contexts of devices, unless they are of the whole run."""
        return ticks if whole_run else ticks - self.starting

    def rules(self, changes: Changes) -> tuple[Rule, ...]:
        """Return changes as rules. Raises AnalysisError if a region does not exist, or there is nothing to scale
        in it."""
        rules = [scaled(factor, self._scalable(region, changes.whole_run)) for region, factor in changes.scale.items()]
        if changes.balanced:
            rules.append(balanced(self, rules, changes.whole_run))
        if changes.transfer_factor != 1:
            rules.append(Rule(transfer=changes.transfer_factor))
        if changes.openmp is not None:
            rules.append(Rule(overhead=changes.openmp))
        return tuple(rules)

    def scales_of(self, changes: Changes) -> NDArray[np.float64]:
        """Return the factors of computation by call path; (n_call_paths,) float64."""
        result = np.ones(len(self.call_paths))
        for region, factor in changes.scale.items():
            result[self._scalable(region, changes.whole_run)] *= factor
        return result

    def _scalable(self, region: str, whole_run: bool) -> Mask:
        """Select the call paths in a region, in which there must be computation; the start of devices is set apart
        unless the runtime is of the whole run."""
        model, mask = self.model, self.call_paths_of(region)
        if not whole_run and mask[self.contexts].any():
            if not (mask & ~self.contexts).any():
                raise AnalysisError(
                    f"{show(region)} creates contexts of devices, which is set apart from the runtime\n"
                    "  ask for the runtime of the whole run (whole_run=True)",
                    in_shell="ask for the runtime of the whole run: --with-startup",
                )
            mask = mask & ~self.contexts
        if not mask[self.cell_sums.call_path].any():
            is_mpi = mpi_regions(model.regions)[self.call_paths.region][mask].all()
            hint = (
                "give transfer, latency or bandwidth for what MPI takes"
                if is_mpi
                else "only time outside of MPI, of barriers, and of calls that create and join threads can be scaled"
            )
            raise AnalysisError(f"there is no computation in {show(region)} to be scaled\n  {hint}")
        return mask

    def scenario(self, changes: Changes, *more: Rule) -> Scenario:
        """Return changes, and perhaps further rules, as a scenario. Raises AnalysisError if a region does not exist, or
        there is nothing to scale in it."""
        bandwidth = math.inf if changes.bandwidth is None else changes.bandwidth
        rules = (*self.rules(changes), *more)
        return Scenario(rules, changes.latency or 0.0, bandwidth, changes.conventions)

    def times(self, changes: Changes) -> Ints:
        """Return the times of the nodes after changes; (n_nodes,) int64."""
        return times_of(self, self.scenario(changes))

    def runtime_after(self, changes: Changes, time: Ints) -> int:
        """Return the runtime after changes in ticks, given the times of the nodes with all tasks at the threads that
        executed them."""
        if self.graph_of(changes.conventions).tasks is None:
            return self.runtime(time, changes.whole_run)
        return int(predict(self, [self.scenario(changes)])[0])

    def gains(self) -> pd.DataFrame:
        """Return the savings of runtime by each of `OPTIONS` alone (`Prediction.gains`), in one sweep."""
        import pandas as pd

        tried = [Changes(**given) for given in OPTIONS.values()]
        resolution = self.model.facts.resolution
        runtime = self.without_start(predict(self, [self.scenario(changes) for changes in tried])) / resolution
        recorded = self.without_start(recorded_runtime(self)) / resolution
        frame = pd.DataFrame({"option": list(OPTIONS), "change": [str(c) for c in tried], "runtime": runtime})
        frame["saving"] = recorded - frame["runtime"]
        frame["share"] = frame["saving"] / recorded if recorded > 0 else math.nan
        return frame.sort_values("saving", ascending=False, kind="stable").reset_index(drop=True)

    def savings(self, changes: Changes, factor: float = 0.5, n: int = 20, within: str | None = None) -> pd.DataFrame:
        """Return the savings of runtime if a call path took less time (`Prediction.savings`), with one sweep for each
        call path. The calls of a call path keep their time."""
        import pandas as pd

        check_number(factor, "factor", "a number such as 0.5, not negative", least=0.0)
        resolution = self.model.facts.resolution
        c, ticks = self.cell_sums, self._computed_after(changes)
        chosen = self._largest(ticks, changes, n, within)
        runtimes = predict(
            self, [self.scenario(changes), *(self.scenario(changes, scaled(factor, self._only(i))) for i in chosen)]
        )
        rows = []
        for call_path, runtime in zip(chosen, runtimes[1:].tolist(), strict=True):
            of_location = ticks[c.call_path == call_path]
            computation, largest = of_location.sum() / resolution, of_location.max() / resolution
            rows.append((call_path, computation, largest, (int(runtimes[0]) - runtime) / resolution))
        before = int(self.without_start(runtimes[0], changes.whole_run))
        frame = pd.DataFrame(rows, columns=["call_path", "computation", "largest", "saving"])
        self._with_paths(frame)
        frame["share"] = frame["saving"] / (before / resolution) if before > 0 else math.nan
        frame = frame[frame["saving"] != 0]
        return frame.sort_values("saving", ascending=False, kind="stable").reset_index(drop=True)

    def _only(self, call_path: int) -> Mask:
        return np.arange(len(self.call_paths)) == call_path

    def _computed_after(self, changes: Changes) -> NDArray[np.float64]:
        """Return the ticks of `cell_sums` after changes; (n_cells,) float64."""
        c = self.cell_sums
        cells = cells_of(self.rules(changes), len(self.call_paths), self.model.n_locations)
        factor, path_cell, location_cell = cells
        return factor[path_cell[c.call_path] + location_cell[c.location], NodeClass.COMPUTATION] * c.ticks

    def _largest(self, ticks: NDArray[np.float64], changes: Changes, n: int, within: str | None) -> list[int]:
        """Return the call paths with most computation after changes, given its ticks by cell."""
        if not is_whole_number(n) or n < 0:
            raise AnalysisError(f"{show(n)} is not a number of call paths (n)\n  give a whole number, 0 or more")
        tried = np.ones(len(self.call_paths), bool) if within is None else self.call_paths_of(within)
        if not changes.whole_run:
            tried = tried & ~self.contexts
        total = np.bincount(self.cell_sums.call_path, ticks, len(self.call_paths)) * tried
        chosen = np.argsort(-total, kind="stable")[:n]
        return [int(i) for i in chosen[total[chosen] > 0]]

    def _with_paths(self, frame: pd.DataFrame) -> None:
        """Add call paths as text."""
        from tracecols.enhance.scan.paths import path_names

        paths, names = self.call_paths, self.model.regions.name
        found = path_names(paths.parent, list(names[paths.region]), frame["call_path"].tolist())
        frame.insert(1, "path", np.array([*found, None], object)[:-1])

    def slack(self, changes: Changes, n: int = 20, within: str | None = None) -> pd.DataFrame:
        """Return how much call paths can shrink before another path takes over (`Prediction.slack`).

        The saving is a concave, piecewise linear function of the reduction of a call path; its slope is how much of the
        call path lies on the longest path. The first line ends where another path becomes the longest. That point is
        found by up to 18 sweeps for each call path, to 2^-16 of it; ticks are subdivided for that, so that a clock may
        be arbitrarily coarse.
        """
        import pandas as pd

        graph = self.graph_of(changes.conventions)
        given = self.scenario(changes)
        # times after the changes may be longer than the recorded ones
        times = times_of(self, given)
        fine = max(1, (1 << 58) // max(graph.span, int(np.ptp(times)) if times.size else 0))
        chosen = self._largest(self._computed_after(changes), changes, n, within)
        masks = [self._only(i) for i in chosen]

        def saved(parts: NDArray[np.float64]) -> NDArray[np.float64]:
            tried = [
                given._replace(rules=(*given.rules, scaled(1 - part, mask)))
                for part, mask in zip(parts, masks, strict=True)
            ]
            runtime = runtimes_of(self, graph, [given, *tried], fine)
            return (runtime[0] - runtime[1:]).astype(np.float64)

        low = np.full(len(chosen), 2.0**-16)
        critical, high = saved(low) / low, np.ones(len(chosen))
        low = np.where(saved(high) >= critical * (1 - STRAIGHT), high, low)
        while (high - low > 2.0**-16).any():
            middle = (low + high) / 2
            is_straight = saved(middle) >= middle * critical * (1 - STRAIGHT)
            low, high = np.where(is_straight, middle, low), np.where(is_straight, high, middle)
        seconds = critical / fine / self.model.facts.resolution
        rows = [
            (call_path, of, part * of, 1 - part)
            for call_path, of, part in zip(chosen, seconds.tolist(), low.tolist(), strict=True)
            if of > 0
        ]
        frame = pd.DataFrame(rows, columns=["call_path", "critical", "slack", "limit"])
        self._with_paths(frame)
        return frame.sort_values("slack", ascending=False, kind="stable").reset_index(drop=True)


def notes(counts: Mapping[str, int]) -> list[str]:
    """Return notes on what a replay does not know."""
    return [note(n, what) for what, n in counts.items() if n]


def as_changes(**given: Any) -> Changes:
    """Return the changes that a caller gave; arguments that are None were not given."""
    return Changes(**{name: value for name, value in given.items() if value is not None})
