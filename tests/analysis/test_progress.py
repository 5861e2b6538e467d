"""The progress of long work that a user sees."""

import io
import sys
import time

import pytest
from conftest import LONG

import tracecols
from tracecols.cli.progress import COMPILING, progress, reported_compiling
from tracecols.enhance.dataflow import partitions
from tracecols.model.model import enhance
from tracecols.patterns.constraints import find_violations
from tracecols.search.cube import analyze_model
from tracecols.store import Store
from tracecols.work.progress import SCAN, shares_of


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def watch(monkeypatch):
    """Make stderr a terminal from now on; pytest restores the stream between the phases of a test."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return stream


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    return Store(tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("progress") / "h.trace"))


@pytest.mark.parametrize("part", [1 << 18, 64])
def test_bar__goes_over_scan_and_search(part, store, monkeypatch):
    monkeypatch.setattr(partitions, "PARTITION_ROWS", part)
    for work in (
        lambda model, report: analyze_model(model, progress=report),
        lambda model, report: find_violations(model, progress=report),
    ):
        reported = []
        n = store.manifest["n_events"]
        scanning, searching = shares_of(lambda *now, reported=reported: reported.append(now), n, SCAN, 1 - SCAN)
        model = enhance(store, 2, scanning)
        assert {total for _, total in reported} == {n}
        assert reported[-1][0] == pytest.approx(SCAN * n, abs=1)
        n_scan = len(reported)
        work(model, searching)
        done = [d for d, _ in reported]
        assert done == sorted(done)
        assert done[-1] == n
        assert len(reported) > n_scan + 2


def test_phases__of_nothing_and_of_nobody():
    assert shares_of(None, 10, 0.5, 0.5) == [None, None]
    reported = []
    first, last = shares_of(lambda *now: reported.append(now), 0, 0.5, 0.5)
    first(0, 0)
    last(5, 5)
    assert reported == [(0, 0), (0, 0)]


def test_bar__says_that_kernels_are_compiled(monkeypatch):
    import numba
    from numba.extending import overload

    watched = watch(monkeypatch)

    def comes(is_shown):
        """Wait until the bar, which another thread draws, shows the expected text."""
        until = time.monotonic() + LONG
        while not is_shown(watched.getvalue()) and time.monotonic() < until:
            time.sleep(0.01)
        return is_shown(watched.getvalue())

    def slowly():
        pass

    @overload(slowly)
    def compile_slowly():
        assert comes(lambda text: COMPILING in text)
        return lambda: None

    @numba.njit
    def fresh(x):
        slowly()
        return x + 1

    with progress("analyzing") as report:
        assert report is not None
        report(1, 4)
        assert comes(lambda text: "analyzing" in text)
        assert COMPILING not in watched.getvalue()
        fresh(1)
        assert comes(lambda text: not text.rpartition("analyzing")[2].startswith(f": {COMPILING}"))


@pytest.mark.slow
def test_compiling__is_told_once_for_kernels_that_call_kernels():
    import numba

    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) + 1

    reported = []
    with reported_compiling(reported.append):
        outer(1)
        assert reported[0] is True
        assert reported[-1] is False
        assert reported.index(False) == len(reported) - 1
        n = len(reported)
        outer(2)
        assert len(reported) == n
    outer(1.5)
    assert len(reported) == n


def test_progress__is_nothing_when_nobody_watches(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("analyzing") as report:
        assert report is None
    assert stream.getvalue() == ""
