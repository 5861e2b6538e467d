"""The table of wait states, and the other tables that depend on the conventions."""

import numpy as np
import pandas as pd
import pytest
from conftest import DATA
from support.command_line import executed

import tracecols
from tracecols.errors import AnalysisError
from tracecols.model.model import made_from
from tracecols.model.tables import TABLES
from tracecols.patterns.registry import CONVENTIONS
from tracecols.schema.causes import BY_CONVENTIONS, IN_SECONDS
from tracecols.testing import Program


@pytest.fixture(scope="module")
def traces(store_of):
    """Return the kept traces by name, each scanned once."""
    return {name: tracecols.open(store_of(DATA / name), jobs=1) for name in ("hybrid_2x3", "coll")}


def late_start():
    """Return a program of two ranks: rank 1 enters MPI_Init 3 ticks later, and sends 5 ticks too late."""
    program = Program(processes=2)
    for rank, delay in zip(program.masters, (0, 3), strict=True):
        rank.enter(0, "main").enter(1 + delay, "MPI_Init").leave(6)
    first, second = program.masters
    first.enter(7, "MPI_Recv").receive(13, source=1).leave(13)
    second.enter(12, "MPI_Send").send(12, to=0).leave(13)
    for rank in program.masters:
        rank.enter(14, "MPI_Finalize").leave(15).leave(16)
    return program


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_waits__add_up_to_the_cells_of_the_cube(conventions, traces):
    seen = set()
    for trace in traces.values():
        cube, waits = trace.analyze(conventions), trace.frame("waits", raw=True, conventions=conventions)
        ticks = (waits.end_time - waits.begin_time).groupby(waits.property.astype(str)).sum()
        for name in ticks.index:
            rows = waits[waits.property == name]
            by = (rows.end_time - rows.begin_time).groupby([rows.call_path, rows.location]).sum()
            cells = cube.cells[name]
            expected = {
                (int(k >> 32), int(k & 0xFFFFFFFF)): int(v) for k, v in zip(cells.key, cells.value, strict=True)
            }
            assert by.to_dict() == {k: v for k, v in expected.items() if v}, name
        seen |= set(ticks.index)
    assert {"mpi_latesender", "mpi_wait_nxn", "omp_ibarrier_wait"} <= seen
    assert ("mpi_init_wait" in seen) == (conventions == "exact")


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_waits__end_when_the_cause_comes_or_the_call_ends(conventions, traces):
    for trace in traces.values():
        waits = trace.frame("waits", raw=True, conventions=conventions)
        assert (waits.end_time <= waits.cause_time).all()
        if conventions == "expert":
            # EXPERT does not end waits with the call
            assert waits.end_time.equals(waits.cause_time)
        assert (waits.cause_location >= 0).all()
        assert not ((waits.cause_location == waits.location) & ~waits.property.str.contains("lock")).any()


def test_waits__are_those_of_analyses_by_default(traces):
    trace = traces["hybrid_2x3"]
    assert trace.waits.equals(trace._form("waits", "both", None, "exact"))
    assert "mpi_init_wait" in set(trace.waits.property)
    assert "mpi_init_wait" not in set(trace.frame("waits", conventions="scalasca").property)
    with pytest.raises(AnalysisError, match="no conventions 'scalaska'"):
        trace.frame("waits", conventions="scalaska")


def test_tables_by_conventions__are_those_made_of_the_peculiarities():
    assert set(BY_CONVENTIONS) == {"waits", *(made_from("quirks") & set(TABLES))}


@pytest.mark.parametrize("conventions", ["exact", "scalasca"])
def test_tables_of_root_causes__hold_seconds_under_all_conventions(conventions, traces):
    trace = traces["hybrid_2x3"]
    points = trace.frame("sync_points", raw=True, conventions=conventions)
    waits = trace.frame("waits", raw=True, conventions=conventions)
    late = points[points.kind == 0]
    expected = trace.duration((waits.end_time - waits.begin_time)[waits.property == "mpi_latesender"])
    assert sorted(late.wait) == pytest.approx(sorted(expected), abs=1e-12)
    causes, cube = trace.frame("root_causes", conventions=conventions), trace.analyze(conventions)
    short_term = causes.charged[causes.property_name == "delay_latesender"].sum()
    assert short_term == pytest.approx(cube.total("delay_latesender"), abs=1e-12) and short_term > 0
    for name, columns in IN_SECONDS.items():
        frame = trace.frame(name, raw=True, conventions=conventions)
        assert all(frame[c].dtype == np.float64 and not (frame[c].abs() >= 10).any() for c in columns), name


def test_sql__shows_the_root_causes_of_analyses():
    pytest.importorskip("duckdb")
    with late_start().trace() as trace:
        found, expected = trace.sql("select * from sync_points"), trace.frame("sync_points", raw=True)
        for column in ("location", "kind", "begin_time", "wait", "total", "completion"):
            assert found[column].tolist() == expected[column].tolist()
        # rank 0 waits for the late start of rank 1 from 1 to 4, which is not a wait for the reference
        kinds = trace.frame("sync_points")
        assert kinds.loc[kinds.kind_name == "MPI_Init", "wait"].tolist() == [3, 0]
        others = trace.frame("sync_points", conventions="scalasca")
        assert others.loc[others.kind_name == "MPI_Init", "wait"].tolist() == [0, 0]


@pytest.mark.slow
def test_export__of_waits_follows_conventions(tmp_path):
    with late_start().trace() as trace:
        for conventions, states in {
            "exact": ["mpi_init_wait", "mpi_latesender"],
            "scalasca": ["mpi_latesender"],
            "expert": ["mpi_latesender"],
        }.items():
            out = tmp_path / f"{conventions}.csv"
            given = [] if conventions == "exact" else ["--conventions", conventions]
            executed("export", trace.path, out, "--table", "waits", *given)
            assert pd.read_csv(out).property.tolist() == states
        for more in (["--table", "messages"], []):
            out = str(tmp_path / "x.csv")
            output = executed("export", trace.path, out, *more, "--conventions", "expert", code=2)
            assert "--conventions: only for a timeline" in output


def test_timeline__shows_the_wait_states_of_analyses(tmp_path):
    with late_start().trace() as trace:
        for conventions, is_shown in {"exact": True, "scalasca": False}.items():
            out = tmp_path / f"{conventions}.trace.json"
            executed("export", trace.path, out, "--conventions", conventions, "--waits", "all")
            assert ("Wait at Init" in out.read_text()) == is_shown
            assert "Late Sender" in out.read_text()


def test_worst_instances__are_those_of_analyses():
    with late_start().trace() as trace:
        assert trace.top_instances("mpi_init_wait").severity.tolist() == [3]
        assert trace.late_senders().seconds.tolist() == trace.late_senders(conventions="expert").seconds.tolist() == [5]
        with pytest.raises(AnalysisError, match="mpi_init_wait"):
            trace.top_instances("mpi_init_wait", conventions="scalasca")
        exact, scalasca = trace.idle_time(), trace.idle_time("scalasca")
        assert (exact.waiting_seconds - scalasca.waiting_seconds).tolist() == [3, 0]
