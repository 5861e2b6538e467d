"""Timelines that are served while a test asks for their data or looks at their page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tracecols.analysis.opened import OpenedTrace
from tracecols.store import Store
from tracecols.timeline.answers import Timeline
from tracecols.timeline.compared import Run
from tracecols.timeline.prepare import prepare
from tracecols.timeline.server import ViewServer


def timeline_of(path: Path) -> Timeline:
    """Prepare the timeline of a store."""
    store = Store(path)
    return Timeline(store, prepare(OpenedTrace(store)))


def run_of(path: Path) -> Run:
    """Prepare a store to be shown beside another one."""
    timeline = timeline_of(path)
    return Run.of(timeline)


@contextmanager
def served(timeline: Timeline, second: Run | None = None) -> Iterator[ViewServer]:
    """Serve a timeline, and a second run if there is one."""
    with ViewServer(Run.of(timeline), second=second) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
