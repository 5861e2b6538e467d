"""EARL under pytest-benchmark: opening, and queries at random positions, of a trace of 10^7 (or `--events`) events."""

from __future__ import annotations

import random

import pytest

import tracecols
from benchmarks.generate import make, write
from tracecols.earl import EventTrace
from tracecols.earl.index import open_index
from tracecols.patterns.constraints import find_violations

QUERIES = 200
"""Queries in one round; the table shows the time of all of them."""


@pytest.fixture(scope="module")
def trace(request, tmp_path_factory):
    """A generated hybrid trace, 16 processes of 2 threads, as columns."""
    folder = tmp_path_factory.mktemp("earl")
    n = int(request.config.getoption("events"))
    source = make("multizone", 16, 2, n, 0, depth=4)
    return tracecols.open(tracecols.convert(write(source, folder), folder / "x.trace"), jobs=2)


@pytest.fixture(scope="module")
def earl(trace):
    """The same trace as events."""
    return EventTrace(trace)


@pytest.fixture(scope="module")
def positions(earl):
    """Random positions of all events, and of those of some types."""
    rng = random.Random(0)
    found = {"EVENT": [rng.randint(1, len(earl)) for _ in range(QUERIES)]}
    for name in ("RECV", "MPICEXIT", "OMPCEXIT"):
        every = earl.positions(name).tolist()
        found[name] = [rng.choice(every) for _ in range(QUERIES)]
    return found


def test_index(benchmark, trace, tmp_path):
    trace.model  # noqa: B018  (scanned before)
    benchmark.extra_info["events"] = trace.manifest["n_events"]
    folders = (tmp_path / str(i) for i in range(9))
    benchmark.pedantic(lambda: open_index(trace, next(folders)), rounds=2, warmup_rounds=1)
    size = sum(f.stat().st_size for f in (tmp_path / "0").iterdir())
    benchmark.extra_info["bytes per event"] = round(size / trace.manifest["n_events"], 1)


def test_reopen(benchmark, earl):
    benchmark.pedantic(lambda: EventTrace(earl.path).stack(1), rounds=5, warmup_rounds=1)


QUERY = {
    "event": ("EVENT", lambda t, p: t.event(p)),
    "event as a mapping": ("EVENT", lambda t, p: dict(t.event(p))),
    "stack": ("EVENT", lambda t, p: t.stack(p, p % len(t.locs))),
    "istack": ("EVENT", lambda t, p: t.istack(p, p % len(t.locs))),
    "queue": ("EVENT", lambda t, p: t.queue(p)),
    "queue of two processes": ("EVENT", lambda t, p: t.queue(p, 0, 2)),
    "mpicoll": ("MPICEXIT", lambda t, p: t.mpicoll(p)),
    "ompcoll": ("OMPCEXIT", lambda t, p: t.ompcoll(p)),
    "links of a receive": ("RECV", lambda t, p: t.event(p).sendptr.enterptr.cnodeptr),
    "message of a receive": ("RECV", lambda t, p: (t.event(p).src_id, t.event(p).tag, t.event(p).length)),
    "call path": ("EVENT", lambda t, p: [t.callpath(e.cnodeptr) for e in t.stack(p)[-1:]]),
}


@pytest.mark.parametrize("query", QUERY)
def test_query(benchmark, earl, positions, query):
    name, run = QUERY[query]
    chosen = positions[name]
    benchmark.group = f"{QUERIES} queries"
    benchmark.pedantic(lambda: [run(earl, p) for p in chosen], rounds=5, warmup_rounds=1)


COLUMNS = {
    "positions of receives": lambda t: t.positions("RECV"),
    "stack depths of a location": lambda t: t.stack_depths(0),
    "queue lengths": lambda t: t.queue_lengths(),
    "10,000 events one by one": lambda t: [e.type for e, _ in zip(t, range(10_000), strict=False)],
}


@pytest.mark.parametrize("column", COLUMNS)
def test_columns(benchmark, earl, column):
    benchmark.group = "columns"
    benchmark.extra_info["events"] = len(earl)
    benchmark.pedantic(lambda: COLUMNS[column](earl), rounds=3, warmup_rounds=1)


def test_check(benchmark, trace):
    benchmark.extra_info["events"] = trace.manifest["n_events"]
    found = benchmark.pedantic(lambda: find_violations(trace.model), rounds=2, warmup_rounds=1)
    assert found == []
