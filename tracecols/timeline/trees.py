"""From the timeline to the trees: the report of exactly the selected time range, opened at the selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.analysis.request import Request, names_in
from tracecols.analysis.run import run, unwatched
from tracecols.distinct import distinct
from tracecols.given.printable import printable
from tracecols.once import Recent
from tracecols.report.viewer.container import Opened, pack
from tracecols.report.viewer.page import page_of, title_of
from tracecols.severity.axes import CallAxis, SystemAxis
from tracecols.severity.cube import SeverityCube
from tracecols.timeline.answers import QuestionError, Timeline, rounding
from tracecols.work.executors import not_asked
from tracecols.work.memory import Budget
from tracecols.work.progress import Progress

KEPT = 4
"""Number of cubes of time ranges that are kept, so that reloading a page, or another selection in the same range, needs
no new analysis."""

WAIT = 0.25
"""Seconds between checks whether a page that waits for another analysis still waits."""

Report = Callable[[str, int, int], None]


@contextmanager
def _reported(report: Report, stage: str) -> Iterator[Progress]:
    report(stage, 0, 1)
    yield partial(report, stage)


@dataclass(frozen=True)
class Selection:
    """A selection in the timeline; times are ticks since the first event."""

    start: int
    stop: int
    """`start` and `stop`: the time range."""
    row: int = 0
    """The row whose locations are selected; 0 selects all locations."""
    property: str = ""
    """Id of a property; empty for the one that costs most in the range."""
    call_path: int = -1
    """Call path of the whole trace; -1 if none is selected."""
    slice: tuple[int, int, int] | None = None
    """Location, begin and depth of a region instance, if one is selected."""
    address: str = ""
    """The part of the timeline's address from its `#`, for the way back."""


class Trees:
    """Analyses time ranges of a trace, one at a time, and writes them as reports.

    `whole` is the cube of the whole trace, by the default conventions; without it, the whole trace is analysed when its
    trees are requested.
    """

    def __init__(
        self,
        timeline: Timeline,
        jobs: int | None = None,
        budget: Budget | None = None,
        whole: SeverityCube | None = None,
    ) -> None:
        self._timeline, self._jobs, self._budget, self._whole = timeline, jobs, budget, whole
        self._cubes = Recent[tuple[int, int], SeverityCube](KEPT)
        self._lock = Lock()

    def is_ready(self, selection: Selection) -> bool:
        """Return whether the trees of a range are available without an analysis."""
        return self._is_whole(selection.start, selection.stop) or (selection.start, selection.stop) in self._cubes

    def analyse(self, selection: Selection, report: Report, ask: Callable[[], None] = not_asked) -> None:
        """Analyse a range, so that its trees become available.

        `report` receives a stage (`waiting` for another analysis, `cutting`, `analyzing`, `finding causes`), and how
        much of it is done and how much there is to do. `ask` is called before each step of the analysis, also between
        reports. If one of them raises an error, the analysis ends. Raises QuestionError, AnalysisError: as `page`.
        """
        self.check(selection)
        while not self._lock.acquire(timeout=WAIT):
            report("waiting", 0, 1)
        try:
            self._cube(selection.start, selection.stop, report, ask)
        finally:
            self._lock.release()

    def page(self, selection: Selection) -> bytes:
        """Return a report of the selected range as an HTML page. Raises QuestionError if there is no such range, row,
        call path or location. Raises AnalysisError if the range cannot be analysed."""
        self.check(selection)
        with self._lock:
            cube = self._cube(selection.start, selection.stop)
        row = self._timeline.rows[selection.row]
        names, where = self._names(selection)
        opened = Opened(
            shown_property(cube, selection.property),
            call_path_named(cube, names, where) if names else -1,
            nodes_of(cube.system, row.locations.tolist()) if selection.row else (),
            selection.address,
        )
        # start and end of the run are part of the selected range
        packed = pack(cube, with_startup=True, opened=opened, subdomains=self._timeline.subdomains)
        return "".join(page_of(packed, title_of(cube) or self._timeline.store.path.stem)).encode(errors="replace")

    def check(self, selection: Selection) -> None:
        """Check a selection. Raises QuestionError if its range, row, call path or location does not exist."""
        timeline = self._timeline
        timeline.check(selection.start, selection.stop, [selection.row])
        if not -1 <= selection.call_path < len(timeline.causes.region):
            raise QuestionError(f"there is no such call path: there are {len(timeline.causes.region)}")
        if selection.slice is not None and not 0 <= selection.slice[0] < timeline.slices.n_locations:
            raise QuestionError(f"there is no such location: there are {timeline.slices.n_locations}")

    def _is_whole(self, start: int, stop: int) -> bool:
        """Return whether a range is the whole run and its cube was given."""
        return self._whole is not None and start == 0 and stop == self._timeline.last - self._timeline.first + 1

    def _cube(
        self, start: int, stop: int, report: Report | None = None, ask: Callable[[], None] = not_asked
    ) -> SeverityCube:
        """Return the cube of a time range, start <= time < stop; analyse it if it is not kept."""
        timeline = self._timeline
        if self._whole is not None and self._is_whole(start, stop):
            return self._whole

        def analysed() -> SeverityCube:
            return run(
                Request.of(names_in(timeline.store), start=timeline.seconds(start), stop=timeline.seconds(stop)),
                OpenedTrace(timeline.store, self._jobs, self._budget, ask=ask),
                watch=unwatched if report is None else partial(_reported, report),
            )

        return self._cubes.get((start, stop), analysed)

    def _names(self, selection: Selection) -> tuple[list[str], int]:
        """Return the region names, outermost first, of the selected call path or of the selected instance and those
        around it, and the location of the instance; -1 for a call path."""
        timeline = self._timeline
        if selection.slice is not None:
            location, begin, depth = selection.slice
            # a begin that the page has rounded may be too early
            moment = begin + rounding(begin) + timeline.first
            opened = timeline.slices.of(location, moment, moment + 1)[0]
            at = np.flatnonzero(opened.depth <= depth)
            return [timeline.region_names[i] for i in opened.name[at[np.argsort(opened.depth[at])]]], location
        return [timeline.region_names[i] for i in timeline.path_of(selection.call_path)], -1


def shown_property(cube: SeverityCube, property: str) -> str:
    """Return the id of a property, or of its nearest ancestor with severities, as waits may be cut at the ends of a
    range; empty if there is none."""
    if property not in cube.properties.number:
        return ""
    return next((name for name in (property, *cube.properties.above(property)) if len(cube.cells[name])), "")


def call_path_named(cube: SeverityCube, names: Sequence[str], location: int = -1) -> int:
    """Find the call path whose innermost regions have the given names.

    Instances of a thread are known from its begin, but its call paths continue above, to the creation of the thread. So
    several call paths may match: the first one in which the location spent time is returned.

    Names are as displayed, outermost first; location -1 is any. Returns -1 if there is none.
    """
    calls: CallAxis = cube.call_paths
    fits = np.flatnonzero(_named(calls, names[-1]))
    above = calls.parent[fits]
    for name in reversed(names[:-1]):
        is_right = (above >= 0) & _named(calls, name)[above]
        fits, above = fits[is_right], calls.parent[above[is_right]]
    cells = cube.cells["time"]
    spent = distinct(cells.call_path if location < 0 else cells.call_path[cells.location == location])
    has_time = np.searchsorted(spent, calls.end[fits]) > np.searchsorted(spent, fits)
    fits = fits[has_time] if has_time.any() else fits
    return int(fits[0]) if fits.size else -1


def _named(calls: CallAxis, name: str) -> NDArray[np.bool_]:
    """Return a mask of the call paths that enter a region with this displayed name."""
    return calls.named(lambda own: printable(own) == name)


def nodes_of(system: SystemAxis, locations: Sequence[int]) -> tuple[int, ...]:
    """Return the node of the system tree that holds exactly the given locations; if there is none, their leaves."""
    wanted = set(locations)
    exact = [node for node, held in enumerate(system.held) if len(held) == len(wanted) and set(held) == wanted]
    # of several, the innermost one
    return tuple(exact[-1:]) or tuple(node for node, at in enumerate(system.location) if at in wanted)
