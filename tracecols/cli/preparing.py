"""Preparation of the first view of a trace in another process: its memory is released when it ends, and the server can
answer meanwhile."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any

from tracecols.analysis.opened import OpenedTrace
from tracecols.cli.progress import COMPILING, compiling_ahead, reported_compiling
from tracecols.errors import AnalysisError, TracecolsError
from tracecols.store import Store
from tracecols.store.layout import read_manifest
from tracecols.timeline.prepare import NAME, Prepared, make, place_of
from tracecols.work.memory import Budget
from tracecols.work.progress import Progress

Watch = Callable[[str], AbstractContextManager[Progress | None]]

BETWEEN = 0.1
"""Minimum interval between two reports, in seconds."""

PATIENCE = 10
"""Seconds after which the process is terminated if it does not end by itself."""


class Preparing:
    """A process that prepares the timeline of a store within a memory budget; a context manager that ends it on
    exit."""

    def __init__(self, store: Store, jobs: int, budget: Budget) -> None:
        self._parent, self._kept = place_of(store)
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        given = theirs, store.path, jobs, budget, self._parent
        self._process = context.Process(target=_work, args=given, name="tracecols view", daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Preparing:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(PATIENCE)
        self._process.terminate()

    def all(self, watch: Watch) -> Prepared:
        """Wait for all data; raises the errors of `first`."""
        while (found := self.first(watch)).is_first:
            pass
        return found

    def later(self, watch: Watch, then: Callable[[Prepared], None], failed: Callable[[str], None]) -> None:
        """Return at once; later call `then` with all data, or `failed` with the reason if they cannot be made."""

        def wait() -> None:
            try:
                then(self.all(watch))
            except Exception as error:
                failed(str(error))
                if not isinstance(error, TracecolsError | OSError):
                    raise

        Thread(target=wait, name="tracecols-preparing", daemon=True).start()

    def first(self, watch: Watch) -> Prepared:
        """Wait for the data of the first picture: all data if the trace is small, or the first picture was shown.
        Raises TracecolsError if they cannot be made."""
        report: Progress | None = None
        with ExitStack() as shown:
            while True:
                try:
                    what, *said = self._pipe.recv()
                except (EOFError, OSError) as error:
                    raise AnalysisError(self._ended()) from error
                if what == "begin":
                    shown.close()
                    report = shown.enter_context(watch(said[0]))
                elif what == "done" and report is not None:
                    report(*said)
                elif what == "error":
                    raise said[0]
                elif what == "first":
                    return Prepared(*said)
                elif what == "all":
                    return Prepared(self._parent / NAME, read_manifest(self._parent / NAME)[0], self._kept)

    def _ended(self) -> str:
        """Return the message for a process that ended without reporting a reason."""
        self._process.join(PATIENCE)
        return (
            f"the process that analyses the trace for its timeline ended (exit code {self._process.exitcode})\n"
            "  if the memory did not suffice, give it less with --memory"
        )


class _Ended(Exception):
    """The other process no longer waits for the timeline."""


def _work(pipe: Connection[Any, Any], path: Path, jobs: int, budget: Budget, parent: Path) -> None:
    """Prepare the timeline of a store and report the progress; the main function of the process."""
    # Ctrl-C reaches all processes of a terminal: this one ignores it, and ends when the other closes the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lock = Lock()

    def say(*said: Any) -> None:
        with lock:
            try:
                pipe.send(said)
            except OSError as error:
                raise _Ended from error

    def go_on() -> None:
        # nothing is ever sent to this process: a readable pipe means that it was closed
        if pipe.poll():
            raise _Ended

    @contextmanager
    def watch(what: str) -> Iterator[Progress]:
        last = 0.0

        def report(done: int, total: int) -> None:
            nonlocal last
            if monotonic() - last > BETWEEN:
                last = monotonic()
                say("done", done, total)

        say("begin", what)
        with reported_compiling(lambda is_compiling: say("begin", f"{what}: {COMPILING}" if is_compiling else what)):
            yield report

    try:
        with compiling_ahead(jobs):
            make(
                OpenedTrace(Store(path), jobs, budget, ask=go_on),
                parent,
                watch,
                lambda first: say("first", first.folder, first.content),
            )
        say("all")
    except _Ended:
        pass
    except (TracecolsError, OSError) as error:
        # any other exception ends the process with a traceback
        say("error", error)
