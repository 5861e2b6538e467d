"""A trace that is opened for analyses: its store, and what analyses of the whole trace share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.locations import Locations
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.focus import find_focus
from tracecols.enhance.scan.periods import NO_PERIODS, Periods
from tracecols.model.model import Model, Progress, enhance
from tracecols.once import Kept, once
from tracecols.replay.replay import Replay
from tracecols.store import Store
from tracecols.work.executors import Executor, Threads, not_asked
from tracecols.work.jobs import n_jobs
from tracecols.work.memory import Budget, within

if TYPE_CHECKING:
    from tracecols.given.subdomains import Given
    from tracecols.model.readable import Readable


class Models:
    """The enhanced models of a whole trace, made when first needed, and kept: with its focus, and without.

    They do not refer to the trace that is opened, so that what needs them later does not keep that in memory.
    """

    def __init__(self, store: Store, jobs: int, budget: Budget | None, ask: Callable[[], None]) -> None:
        self._store, self._jobs, self._budget, self._ask = store, jobs, budget, ask
        self._made = Kept[bool, Model]()

    @once
    def focus(self) -> NDArray[np.int64] | None:
        """When the focus of each location begins and ends (`enhance.scan.focus.find_focus`)."""
        return find_focus(self._store, Regions(self._store), Locations.of(self._store))

    def threads(self) -> Executor:
        """Return an executor of threads of this process."""
        return Threads(self._jobs, self._budget or Budget.default(), ask=self._ask)

    def are_made(self, with_focus: bool) -> bool:
        """Return whether the model, with or without the focus, exists already."""
        return (with_focus and self.focus is not None) in self._made

    def whole(self, progress: Progress | None = None, with_focus: bool = False) -> Model:
        """Return the model of the whole trace, not divided by periods (`OpenedTrace.model_of`)."""
        focus = self.focus if with_focus else None
        return self._made.get(
            focus is not None, lambda: enhance(self._store, self._jobs, progress, None, self.threads(), focus)
        )


class OpenedTrace:
    """A trace that is opened for analyses, with threads (by default one per core) and memory (by default half of what
    is free when a scan begins).

    `subdomains` are the parts of the application that locations belong to (`given.subdomains.find_subdomains`); `ask`
    is called before each step of an analysis, and may raise an error, to end it; `progress` is called with the numbers
    of events scanned and in total when a table or the model is asked for.
    """

    def __init__(
        self,
        store: Store,
        jobs: int | None = None,
        budget: Budget | None = None,
        subdomains: Given | None = None,
        ask: Callable[[], None] = not_asked,
        progress: Progress | None = None,
    ) -> None:
        self.store, self.jobs, self.budget, self._subdomains = store, n_jobs(jobs), budget, subdomains
        self.ask, self._progress = ask, progress
        self._models = Models(store, self.jobs, budget, ask)

    @property
    def scratch(self) -> Path | None:
        """The folder for temporary files; None for that of `tempfile`."""
        return None if self.budget is None else self.budget.scratch

    def at_work(self) -> AbstractContextManager[None]:
        """Return a context for work of this process, with the heap set up by `work.memory.within`."""
        return within((self.budget or Budget.default()).memory)

    @property
    def focus(self) -> NDArray[np.int64] | None:
        """When the focus of each location begins and ends (`Models.focus`)."""
        return self._models.focus

    def model_of(
        self,
        periods: Periods = NO_PERIODS,
        workers: Executor | None = None,
        progress: Progress | None = None,
        with_focus: bool = False,
    ) -> Model:
        """Return the enhanced model; those of the whole trace in this process are made once and kept.

        Parameters
        ----------
        periods : Periods, optional
            Periods that its time is divided into.
        workers : Executor, optional
            Executor that scans the trace; by default threads of this process.
        progress : callable, optional
            Called with the numbers of events scanned and in total.
        with_focus : bool, optional
            Distinguish the focus of the run from start-up and shutdown.
        """
        if workers is None and not periods.facts():
            return self._models.whole(progress, with_focus)
        focus = self.focus if with_focus and periods.phases is None else None
        executor = self._models.threads() if workers is None else workers
        return enhance(self.store, self.jobs, progress, periods, executor, focus)

    @property
    def model(self) -> Model:
        """The enhanced model, made by one pass over all events when first needed."""
        return self.model_of(progress=self._progress)

    @once
    def readable(self) -> Readable:
        """The conversion of the integers in its tables to readable values."""
        # imports pandas, which analyses do without
        from tracecols.model.readable import Readable

        models, progress = self._models, self._progress
        return Readable(self.store, lambda: models.whole(progress).facts, self._subdomains)

    @once
    def replay(self) -> Replay:
        """The replay of the trace, a graph of its dependencies: made when first needed, from the nodes and tables of
        the whole trace."""
        # without a progress report: the analyses that use it report
        return Replay(self.model_of())


def is_scanned(trace: OpenedTrace, periods: Periods, with_focus: bool) -> bool:
    """Return whether the model of a trace exists already, so that the trace is not scanned again."""
    return not periods.facts() and trace._models.are_made(with_focus)
