"""Representations of objects in notebooks: short and informative, no addresses, no arrays."""

import copy
import pickle
import re
from html import unescape

import pytest
from support.late_senders import late_once

import tracecols
from tracecols.converters.otf2.write import write_archive
from tracecols.errors import SeverityError, StoreError
from tracecols.patterns.registry import properties

OBJECTS = {
    "Trace": lambda t, c: t,
    "Comparison": lambda t, c: tracecols.compare([c, c], names=["before", "after"]),
    "CallAxis": lambda t, c: c.call_paths,
    "PropertyAxis": lambda t, c: c.properties,
    "SystemAxis": lambda t, c: c.system,
    "Cells": lambda t, c: c.cells["mpi"],
    "Catalog": lambda t, c: t.catalog,
    "TableFiles": lambda t, c: t.scan("regions"),
    "Family": lambda t, c: tracecols.Family("mine"),
    "Property": lambda t, c: properties("scalasca")[3],
    "Model": lambda t, c: t.model,
    "Store": lambda t, c: t.store,
    "table messages": lambda t, c: t.model.messages,
    "Drawing": lambda t, c: t.flat_profile().plot,
    "Replay": lambda t, c: t.replay,
    "Prediction": lambda t, c: t.what_if(),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_reprs__say_what_an_object_is(name, trace, cube):
    text = repr(OBJECTS[name](trace, cube))
    assert text.startswith(f"<{name}")
    assert len(text) < 3000
    assert " object at 0x" not in text
    assert "array(" not in text


def test_reprs__of_trees_are_outlines(cube):
    lines = repr(cube.call_paths).splitlines()
    assert lines[:4] == ["<CallAxis: 56 call paths>", "  hybrid", "    main", "      MPI_Init_thread"]
    assert lines[-1] == "  and 36 more"
    assert "  Time (time, sec)" in repr(cube.properties).splitlines()
    assert "        rank 0 thread 1: OMP thread 1" in repr(cube.system).splitlines()


def test_reprs__of_comparisons_name_runs_times_and_what_differs(trace, cube):
    text = repr(tracecols.compare([cube, trace.analyze("expert")], names=["before", "after"]))
    assert text.splitlines()[0] == "<Comparison of 2 runs, locations by position>"
    assert f"  before      {cube.focused().total('time'):.6f} s, 2 processes, 6 threads" in text
    whole = repr(tracecols.compare([cube, cube], with_startup=True))
    assert "  A      3.253498 s, 2 processes, 6 threads" in whole
    assert "note: the rules of the analyses differ: exact, expert" in text


def test_reprs__of_findings_are_one_line(cube):
    found = repr(cube.diagnosis().findings[0])
    assert (
        found.startswith("<Finding 1")
        and "computes do_work (called in h_coll) alone while other threads idle, hybrid/main/h_coll/compute/" in found
    )
    assert "\n" not in found and len(found) < 200


def test_cube__is_asked_for_properties_by_id_or_title_and_suggests(cube):
    assert cube["Late Sender"].equals(cube.frame("mpi_latesender"))
    assert set(cube[["mpi", "comp"]].property) == {"mpi", "comp"}
    with pytest.raises(SeverityError, match=r"no property 'lat_sender' in this cube\n  did you mean mpi_latesender"):
        _ = cube["lat_sender"]
    with pytest.raises(SeverityError, match="properties are given as texts, not as 3"):
        _ = cube[3]
    with pytest.raises(AttributeError, match="a cube has no attribute 'diagnsis'; did you mean 'diagnosis'"):
        _ = cube.diagnsis
    with pytest.raises(TypeError, match="not iterable"):
        iter(cube)
    # computed on first access, as findings do
    assert cube.names_of_steps
    assert pickle.loads(pickle.dumps(cube)).summary() == copy.deepcopy(cube).summary() == cube.summary()


def test_names__that_are_mistyped_are_suggested(trace, cube, tmp_path):
    with pytest.raises(AttributeError, match="did you mean 'convert'"):
        _ = tracecols.convrt
    for given in (-1, "x", 1.5):
        with pytest.raises(SeverityError, match=r"is not a number of findings\n  give a whole number from 0"):
            cube.diagnosis(given)
    cube.save(tmp_path / "c.severity")
    with pytest.raises(StoreError, match=r"\n  tracecols\.read_cube reads it"):
        tracecols.open(tmp_path / "c.severity")


def test_sql__suggests_tables_of_the_trace(trace):
    """DuckDB itself suggests one of its internal tables: pg_sequences."""
    pytest.importorskip("duckdb")
    with pytest.raises(StoreError, match=r"no table 'mesages' in .*\n  did you mean messages"):
        trace.sql("select count(*) from mesages")


# -- in a notebook -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A trace with names that are HTML, and counters."""
    folder = tmp_path_factory.mktemp("hostile")
    write_archive(late_once("<script>alert(1)</script>", "vector<int>\u202e"), folder / "traces.otf2")
    return tracecols.open(tracecols.convert(folder, folder / "<b>x.trace", jobs=1), jobs=1)


def test_trace__in_a_notebook_says_what_it_holds_and_what_to_call_next(hostile):
    html = hostile._repr_html_()
    assert "&lt;b&gt;x.trace" in html
    assert "<th>span</th><td>73.000000 s</td>" in html
    assert "2 of 2 processes" in html
    assert "<b>x" not in html and "script" not in html
    calls = re.findall(r"<code>(.*?)</code>", html)
    assert len(calls) > 5
    for call in calls:
        # the calls run as shown, except that `solve` is no region of this trace
        eval(unescape(call).replace("solve", "vector*"), {"trace": hostile})


def test_trace__in_a_notebook_says_how_many_events_are_lost(hostile, monkeypatch):
    lost = [{"location": 1, "n_events": n, "reason": "damaged"} for n in (1200, -1)]
    monkeypatch.setitem(hostile.store.manifest, "lost", lost)
    html = hostile._repr_html_()
    assert "1,200 events of location 1 lost: damaged; some events of location 1 lost: damaged" in html


def test_finding__in_a_notebook_is_escaped(hostile):
    diagnosis = hostile.analyze().diagnosis()
    html = diagnosis.findings[0]._repr_html_()
    assert html in diagnosis._repr_html_()
    assert "vector&lt;int&gt;\\u202e" in html
    assert "<script" not in html
