"""Readable tables: ranks, threads, names, seconds, nulls; one name for each thing; locations as text; conversions that
refuse wrong input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from support.command_line import executed, python, run
from support.offload_program import small

import tracecols
from tracecols.enhance.scan import paths
from tracecols.errors import AnalysisError, StoreError, TracecolsError
from tracecols.model.readable import n_readable, named_rows, readable_names
from tracecols.model.tables import TABLES
from tracecols.schema import DEFINITIONS, SIDE_TABLES, compound
from tracecols.schema.causes import WAITS

# -- columns -----------------------------------------------------------------------------------------------------------


def test_frames__have_ranks_names_and_seconds_and_after_them_the_integers(trace):
    m, raw = trace.messages, trace.frame("messages", raw=True)
    assert list(m)[n_readable(compound.MESSAGES) :] == list(raw) == list(compound.MESSAGES.names)
    assert m[list(raw)].equals(raw)
    locations = trace.locations
    for side in ("send", "recv"):
        of = locations.loc[raw[f"{side}_location"]]
        assert m[f"{side}_rank"].tolist() == of["rank"].tolist()
        assert m[f"{side}_thread"].tolist() == of.thread.tolist()
        assert m[f"{side}_seconds"].equals(trace.seconds(raw[f"{side}_time"]).rename(f"{side}_seconds"))
        assert m[f"{side}_path"].astype(str).tolist() == trace.call_paths.path[raw[f"{side}_call_path"]].tolist()
        assert m[f"{side}_path"].dtype == "category"
    assert m.communicator_name.cat.categories.tolist() == ["MPI_COMM_WORLD"]
    assert (m.recv_seconds - m.send_seconds).tolist() == pytest.approx(
        trace.duration(m.recv_time - m.send_time).tolist(), abs=1e-9
    )


def test_frames__for_people_have_null_as_null(trace):
    locks, raw = trace.frame("lock_acquisitions"), trace.frame("lock_acquisitions", raw=True)
    none = raw.previous_owner == -1
    assert 0 < none.sum() < len(raw)
    for column in (
        "previous_owner_rank",
        "previous_owner_thread",
        "previous_path",
        "previous_release_seconds",
        "lockptr",
    ):
        assert locks[column].isna().tolist() == none.tolist(), column
    assert str(locks.previous_owner_rank.dtype) == "Int32"
    assert "location" not in locks
    assert not any(name.endswith("_time") for name in locks)


def test_frames__of_side_tables_have_null_where_a_record_lacks_an_attribute(trace):
    threads, raw = trace.frame("threads"), trace.frame("threads", raw=True)
    none = raw.requested == -1
    assert 0 < none.sum() < len(raw)
    assert threads.requested.isna().tolist() == none.tolist()
    assert threads.requested.sum() == raw.requested[~none].sum()


def test_frames__tell_durations_from_readings(trace):
    profile = trace.profile
    assert profile.exclusive_seconds.equals(trace.duration(profile.exclusive).rename("exclusive_seconds"))
    members = trace.construct_members
    assert members.task_seconds.equals(trace.duration(members.task_time).rename("task_seconds"))
    assert (members.latest_enter_seconds >= members.enter_seconds - 1e-12).all()


def test_frames__of_participants_tell_both_ranks_apart(trace):
    members = trace.frame("collective_members")
    assert {"rank", "world_rank", "thread"} <= set(members)
    assert (members["rank"] == members.world_rank).all()  # all are operations on MPI_COMM_WORLD
    assert set(trace.collectives.op_name) <= {"barrier", "bcast", "allreduce", "reduce"}


def test_frames__name_what_devices_do(archive, tmp_path):
    small(archive)
    trace = tracecols.open(tracecols.convert(archive.write(), tmp_path / "x.trace"), jobs=1)
    assert trace.copies.direction_name.tolist() == ["device to host"]
    assert set(trace.device_intervals.state_name) <= {"idle", "kernel", "copy"}
    assert trace.kernels.launch_rank.tolist() == [0]


@pytest.mark.parametrize("form", ["attribute", "people", "raw"])
def test_frames__all_tables_are_attributes_with_the_names_of_sql(form, trace):
    for name in trace.catalog.names:
        frame = getattr(trace, name) if form == "attribute" else trace.frame(name, raw=form == "raw")
        assert isinstance(frame, pd.DataFrame), name
        assert name in dir(trace)
        if form == "raw" and name not in DEFINITIONS:
            assert "path" not in frame or name == "call_paths", name
    with pytest.raises(AttributeError, match="did you mean 'messages'"):
        _ = trace.mesages


def test_waits__are_the_same_in_sql_and_python(trace):
    pytest.importorskip("duckdb")
    found = trace.sql("select * exclude (row) from waits order by row")
    expected = trace.frame("waits", raw=True)
    assert list(found) == list(expected)
    for column in expected:
        assert found[column].tolist() == expected[column].tolist(), column
    assert [str(expected[c.name].dtype) for c in WAITS.columns[1:]] == [c.dtype for c in WAITS.columns[1:]]
    assert sum(trace.scan("waits").counts) == len(expected)


@pytest.mark.parametrize("query", ["", "-- only a comment", " ;"])
def test_sql__of_no_statement_is_refused(trace, query):
    pytest.importorskip("duckdb")
    with pytest.raises(StoreError, match=r"the query returns nothing\n  give a statement such as select"):
        trace.sql(query)


def test_sql__of_a_trace_without_events_has_none(archive, opened):
    pytest.importorskip("duckdb")
    archive.mpi(2)
    empty = opened(archive)
    assert empty.sql("select row, time, enterptr from events").empty


def test_read_events__of_a_time_range_that_ends_before_it_starts_is_refused(trace):
    assert trace.read_events(0, start=0.2, stop=0.2).empty
    with pytest.raises(StoreError, match=r"nothing lies between 0.3 s and 0.2 s\n  the end has to be later"):
        trace.read_events(start=0.3, stop=0.2)


def test_sql__row_is_the_number_of_a_row_and_no_column_of_a_table(trace):
    """If a table had a column named row, SQL would rename one of the two to row_1, and `row` would not be the index of
    the frame."""
    pytest.importorskip("duckdb")
    from tracecols.model.tables import TABLES

    assert [name for name, spec in TABLES.items() if "row" in spec.schema.names] == []
    found = trace.sql("select row, event, location from sync_points order by row")
    expected = trace.frame("sync_points", raw=True)
    assert found.row.tolist() == list(range(len(expected)))
    assert found.event.tolist() == expected.event.tolist() != found.row.tolist()
    joined = "select count(*) n from sync_points p join events e on e.row = p.event where e.location = p.location"
    assert trace.sql(joined).n[0] == (expected.event < trace.manifest["n_events"]).sum() > 0


def test_readable_names__do_not_collide_and_enumerations_are_columns():
    every = [spec.schema for spec in TABLES.values()] + [*SIDE_TABLES.values(), compound.EVENTS_WITH_POINTERS, WAITS]
    for table in every:
        names = [name for c in table.columns for name in readable_names(table, c)]
        assert len(set(names)) == len(names), table.name
        assert not set(names) & set(table.names), table.name
        assert not any(c.enum and c.target for c in table.columns)


def test_region_instances__are_pickled_as_a_data_frame(trace):
    found = pickle.loads(pickle.dumps(trace.region_instances))
    assert type(found) is pd.DataFrame and found.equals(trace.region_instances)


def test_region_instances__are_a_table_and_can_still_be_called(trace):
    whole = trace.region_instances
    assert whole().equals(whole)
    some = trace.region_instances([1, 4])
    assert some.location.tolist() == whole[whole.location.isin([1, 4])].location.tolist()
    expected = whole[whole.location.isin([1, 4])].reset_index(drop=True)
    assert some.astype({"path": str, "region_name": str}).equals(expected.astype({"path": str, "region_name": str}))
    assert type(whole.head()) is pd.DataFrame


# -- locations as text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"locations": "rank 0"}, [0, 1, 2]),
        ({"locations": "Rank 1 thread 0"}, [3]),
        ({"locations": "ranks 0-1, threads 1,2"}, [1, 2, 4, 5]),
        ({"locations": ["rank 1 thread 2", 0]}, [0, 5]),
        ({"rank": 1}, [3, 4, 5]),
        ({"thread": 0}, [0, 3]),
        ({"rank": 0, "thread": 2}, [2]),
        ({"locations": [0, 1, 5], "rank": 0}, [0, 1]),
    ],
)
def test_locations__in_words_mean_the_same_everywhere(given, expected, trace, tmp_path):
    assert trace.read_events(**given, columns="location").location.unique().tolist() == (
        expected if given.get("locations") != ["rank 1 thread 2", 0] else [5, 0]
    )
    assert set(trace.frame("region_instances", raw=True, **given).location) == set(expected)
    assert set(trace.frame("construct_members", raw=True, **given).location) <= set(expected)
    assert len(trace.table("threads", **given)) == sum(len(trace.table("threads", i)) for i in expected)
    wanted = trace.analyze(properties="time", locations=expected).total("time")
    assert trace.analyze(properties="time", **given).total("time") == wanted
    assert len(trace.matches("omp_ibarrier_wait", **given)) == len(
        trace.matches("omp_ibarrier_wait", locations=expected)
    )


@pytest.mark.slow
def test_locations__in_words_at_the_command_line(trace, opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    executed("analyze", trace.path, "--locations", "rank 0 thread 0-1", "-p", "time")
    (made,) = tmp_path.glob("*.severity")
    assert made.name == "h.time.locations-rank-0-thread-0-1.severity"
    cube = tracecols.read_cube(made)
    assert cube.total("time") == trace.analyze(locations=[0, 1]).total("time")
    assert "locations rank 0 thread 0-1" in repr(cube)
    assert run("analyze", trace.path, "--locations", "rank 0 thread 0-1", "-p", "time").exit_code == 0
    assert run("export", trace.path, "x.otf2", "--locations", "rank 1").exit_code == 0
    again = opened(tmp_path / "x.otf2")
    assert len(again.events) == len(trace.read_events(rank=1))
    output = executed("export", trace.path, "y.otf2", "--locations", "rank 7", code=1)
    assert "no location has rank 7\n  there are ranks 0 to 1, threads 0 to 2 (see tracecols info)" in output


@pytest.mark.parametrize("given", [{"rank": 2}, {"thread": 9}, {"locations": "rank 0 thread 3"}])
def test_locations__that_are_not_there_are_refused(given, trace):
    for call in (trace.read_events, trace.analyze, lambda **g: trace.frame("messages", **g)):
        with pytest.raises(TracecolsError, match=r"no location has .*\n  there are ranks 0 to 1, threads 0 to 2"):
            call(**given)


@pytest.mark.parametrize("given", [{"rank": "0"}, {"rank": -1}, {"thread": 1.5}, {"locations": "process 0"}])
def test_locations__of_a_wrong_kind_are_refused(given, trace):
    with pytest.raises(AnalysisError):
        trace.analyze(**given)
    with pytest.raises(StoreError):
        trace.frame("messages", **given)


def test_frame__of_tables_without_locations_refuses_them(trace):
    for name in ("regions", "call_paths", "delay_pairs"):
        with pytest.raises(StoreError, match="has no locations to choose"):
            trace.frame(name, rank=0)
    with pytest.raises(StoreError, match=r"no table 'message'.*\n  did you mean messages"):
        trace.frame("message")


# -- conversions -------------------------------------------------------------------------------------------------------


def test_seconds__of_a_difference_are_refused(trace):
    """They used to be wrong by the time between the boot of the machine and the start of the recording: -2603 s."""
    m = trace.messages
    for wrong in (m.recv_time - m.send_time, (m.recv_time - m.send_time).to_numpy(), 5, m.length):
        with pytest.raises(StoreError, match=r"not clock readings of this trace: one is .*\n.*trace\.duration"):
            trace.seconds(wrong)


def test_seconds__of_seconds_are_refused(trace):
    m = trace.messages
    with pytest.raises(StoreError, match=r"in seconds already"):
        trace.seconds(m.recv_seconds)
    with pytest.raises(StoreError, match=r"in seconds already"):
        trace.duration(m.recv_seconds - m.send_seconds)


@pytest.mark.parametrize(
    "wrong", ["0.5", ["a"], None, True, pd.Series(["x"]), pd.Series([pd.Timedelta("1s")])], ids=repr
)
def test_conversions__of_other_things_are_refused(wrong, trace):
    for convert in (trace.seconds, trace.duration):
        with pytest.raises(StoreError, match="give ticks"):
            convert(wrong)


def test_conversions__keep_index_name_and_null(trace):
    m = trace.frame("lock_acquisitions", raw=True)
    found = trace.seconds(m.previous_release_time)
    assert found.isna().tolist() == (m.previous_release_time == -1).tolist()
    assert (found.index.tolist(), found.name) == (m.index.tolist(), "previous_release_time")
    nullable = m.previous_release_time.astype("Int64").mask(m.previous_release_time == -1)
    assert trace.seconds(nullable).equals(found)
    waited = m.acquire_time.astype("Int64") - nullable
    assert trace.duration(waited).isna().equals(found.isna().rename(None))
    joined = pd.Series([np.nan, float(m.acquire_time.iloc[0])], index=["a", "b"])
    assert trace.seconds(joined).isna().tolist() == [True, False]
    assert trace.duration(m.acquire_time - m.enter_time).mean() == trace.duration(
        (m.acquire_time - m.enter_time).mean()
    )
    assert trace.seconds(-1) != trace.seconds(-1)  # nan
    assert np.ndim(trace.duration(3)) == 0


def test_seconds__where_the_clock_starts_at_zero_are_durations(archive, opened):
    archive.mpi(1).ranks[0].call(5, 10, "main")
    trace = opened(archive)
    assert trace.seconds(5) == trace.duration(5) == 5e-9


def test_frames__of_call_paths_too_long_to_write_out_say_which_they_are(trace, monkeypatch):
    """Names beyond 1 GiB are refused on request; a table has the last region and the number of each call path."""

    fresh = tracecols.open(trace.path, jobs=1)
    monkeypatch.setattr(paths, "MAX_TEXT", 10)
    m = fresh.messages
    assert m.send_path.iloc[0] == f".../MPI_Send (call path {m.send_call_path.iloc[0]})"
    with pytest.raises(AnalysisError, match="take"):
        fresh.with_names(fresh.frame("messages", raw=True))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.definition("region"), "did you mean regions"),
        (lambda t: t.definition(3), "there are"),
        (lambda t: t.table("p2"), "did you mean p2p"),
        (lambda t: t.table(None), "this trace has"),
        (lambda t: t.frame_bytes("mesages"), "did you mean messages"),
        (lambda t: t.read_events(columns="tim"), "did you mean time"),
        (lambda t: t.scan("wait"), "did you mean waits"),
        (lambda t: t.analyze("scalaska"), "did you mean scalasca"),
        (lambda t: t.analyze(3), "there are scalasca"),
    ],
)
def test_names__that_are_wrong_are_answered_with_the_nearest(call, words, trace):
    with pytest.raises(TracecolsError, match=words):
        call(trace)


def test_import__loads_neither_pandas_nor_matplotlib():
    code = "import sys, tracecols; print([m for m in ('pandas', 'pyarrow', 'numba', 'matplotlib') if m in sys.modules])"
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_named_rows__have_the_names_that_occur_in_codes_of_few_bytes(dtype):
    found = named_rows(np.array(["a", "b", "a", "c"], object), np.array([3, -1, 2, 0], dtype))
    assert found.codes.tolist() == [1, -1, 0, 0] and found.categories.tolist() == ["a", "c"]
    assert found.codes.dtype == np.int8
    many = named_rows(np.array([str(i) for i in range(300)], object), np.arange(300).astype(dtype))
    assert many.codes.dtype == np.int16 and many.tolist() == [str(i) for i in range(300)]
    assert named_rows(np.array([], object), np.array([-1, -1], dtype)).isna().all()


def test_frames__parameters_have_names_and_texts(archive, tmp_path):
    names = ("step", "solver")
    step, solver = (
        archive.define("Parameter", name=archive.string(name), parameter_type=kind)
        for name, kind in zip(names, (1, 0), strict=True)
    )
    thread = archive.location("thread", archive.process("p"))
    for k, text in enumerate(["cg", "gmres", "cg"]):
        thread.enter(10 * k, "solve").record(10 * k, "ParameterInt", parameter=step, value=-k)
        thread.record(10 * k, "ParameterString", parameter=solver, string=archive.string(text))
        thread.leave(10 * k + 5, "solve")
    trace = tracecols.open(tracecols.convert(archive.write(), tmp_path / "x.trace"), jobs=1)
    table = trace.parameters
    assert table.parameter_name.tolist() == list(names) * 3
    assert table.value[table.parameter_name == "step"].tolist() == [0, -1, -2]
    assert table.string_text[table.parameter_name == "solver"].tolist() == ["cg", "gmres", "cg"]
    assert table.string_text[table.parameter_name == "step"].isna().all()
    people = trace.frame("parameters")
    assert {"parameter", "string"}.isdisjoint(people) and people.parameter_name.equals(table.parameter_name)
