"""A trace that is opened for analyses: its store, and what analyses of the whole trace share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.locations import Locations
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.focus import find_focus
from tracecols.enhance.scan.periods import NO_PERIODS, Periods
from tracecols.model.model import Model, Progress, enhance
from tracecols.once import once
from tracecols.replay.replay import Replay
from tracecols.store import Store
from tracecols.work.executors import Executor, Threads, not_asked
from tracecols.work.jobs import n_jobs
from tracecols.work.memory import Budget, within

if TYPE_CHECKING:
    from tracecols.given.subdomains import Given
    from tracecols.model.readable import Readable


class OpenedTrace:
    """A trace that is opened for analyses, with threads (by default one per core) and memory (by default half of what
    is free when a scan begins).

    `subdomains` are the parts of the application that locations belong to (`given.subdomains.find_subdomains`); `ask`
    is called before each step of an analysis, and may raise an error, to end it.
    """

    def __init__(
        self,
        store: Store,
        jobs: int | None = None,
        budget: Budget | None = None,
        subdomains: Given | None = None,
        ask: Callable[[], None] = not_asked,
    ) -> None:
        self.store, self.jobs, self.budget, self._subdomains = store, n_jobs(jobs), budget, subdomains
        self.ask = ask
        self._models: dict[bool, Model] = {}
        self._scans = Lock()

    @property
    def scratch(self) -> Path | None:
        """The folder for temporary files; None for that of `tempfile`."""
        return None if self.budget is None else self.budget.scratch

    def at_work(self) -> AbstractContextManager[None]:
        """Return a context for work of this process, with the heap set up by `work.memory.within`."""
        return within((self.budget or Budget.default()).memory)

    @once
    def focus(self) -> NDArray[np.int64] | None:
        """When the focus of each location begins and ends (`enhance.scan.focus.find_focus`)."""
        return find_focus(self.store, Regions(self.store), Locations.of(self.store))

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
        focus = self.focus if with_focus and periods.phases is None else None
        executor = Threads(self.jobs, self.budget or Budget.default(), ask=self.ask) if workers is None else workers
        if workers is not None or periods.facts():
            return enhance(self.store, self.jobs, progress, periods, executor, focus)
        with self._scans:
            is_divided = focus is not None
            if is_divided not in self._models:
                self._models[is_divided] = enhance(self.store, self.jobs, progress, None, executor, focus)
            return self._models[is_divided]

    @property
    def model(self) -> Model:
        """The enhanced model: made by one pass over all events when first needed."""
        return self.model_of()

    @once
    def readable(self) -> Readable:
        """The conversion of the integers in its tables to readable values."""
        # imports pandas, which analyses do without
        from tracecols.model.readable import Readable

        return Readable(self.store, lambda: self.model.facts, self._subdomains)

    @once
    def replay(self) -> Replay:
        """The replay of the trace, a graph of its dependencies: made when first needed, from the nodes and tables of
        the whole trace."""
        # without a progress report: the analyses that use it report
        return Replay(self.model_of())


def is_scanned(trace: OpenedTrace, periods: Periods, with_focus: bool) -> bool:
    """Return whether the model of a trace exists already, so that the trace is not scanned again."""
    return not periods.facts() and (with_focus and trace.focus is not None) in trace._models
