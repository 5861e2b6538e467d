"""Wrong arguments are refused with a clear error, whichever function is called."""

import math
import pickle
import re

import numpy as np
import pytest
from support.command_line import executed, run
from support.small_cubes import small_cube

import tracecols
from tracecols.errors import AnalysisError, SeverityError, StoreError, TracecolsError
from tracecols.export.archive import export_archive
from tracecols.export.tables import write_cube
from tracecols.export.viewers import export_timeline

NO_TIMES = ["0.1", math.nan, math.inf, -math.inf, True, [0.1], b"1", 1j]


@pytest.mark.slow
@pytest.mark.parametrize("given", NO_TIMES, ids=repr)
def test_times__that_are_none_are_refused(given, trace):
    """`start="0.1"` repeated the text 2,596,145,201 times; nan and inf were tracebacks."""
    for call in (
        lambda: trace.analyze(start=given),
        lambda: trace.analyze(stop=given),
        lambda: trace.read_events(start=given),
        lambda: trace.read_events(stop=given),
        lambda: trace.ticks(given),
        lambda: trace.piece(given).__enter__(),
    ):
        with pytest.raises(TracecolsError, match=r"is not a time: .*\n  give seconds"):
            call()


@pytest.mark.slow
def test_times__beyond_all_clocks_are_before_or_after_the_recording(trace):
    n = len(trace.read_events(columns="time"))
    assert len(trace.read_events(start=-1e300, stop=1e300, columns="time")) == n
    assert len(trace.read_events(start=1e300, columns="time")) == 0
    whole = trace.analyze(properties="time").total("time")
    assert trace.analyze(properties="time", start=-1e300, stop=1e300).total("time") == pytest.approx(whole)
    with pytest.raises(AnalysisError, match=r"no event lies at .* s or later"):
        trace.analyze(start=1e300)


@pytest.mark.parametrize("name", ["x.otf2", "x.pftrace", "x.trace.json"])
@pytest.mark.parametrize("given", [("--from", "10"), ("--from", "10", "--to", "11"), ("--to", "0")], ids=" ".join)
def test_times__without_events_are_not_exported(given, name, trace, tmp_path):
    output = executed("export", trace.path, tmp_path / name, *given, code=1)
    assert "no event lies " in output and "the recording lasts 0." in output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "hint"), [("phase", "did you mean phases?"), ("jobs", "tracecols.open takes the number of threads, jobs")]
)
def test_keywords__of_an_analysis_that_are_unknown(given, hint, trace):
    expected = rf"Trace.analyze\(\) got an unexpected keyword argument '{given}': .*{re.escape(hint)}"
    with pytest.raises(TypeError, match=expected):
        trace.analyze(**{given: 2})


@pytest.mark.parametrize("given", [1.5, [1.5], [True], "a", True, {0: 1}, ["0"], NotImplemented], ids=repr)
def test_locations__that_are_no_numbers_are_refused(given, trace, tmp_path):
    for call in (
        lambda: trace.analyze(locations=given),
        lambda: trace.matches("mpi_latebroadcast", locations=given),
        lambda: trace.read_events(given),
        lambda: trace.table("p2p", given),
        lambda: trace.region_instances(given),
        lambda: export_archive(trace.path, tmp_path / "x.otf2", locations=given),
        lambda: export_timeline(trace.path, tmp_path / "x.pftrace", locations=given),
    ):
        with pytest.raises(TracecolsError, match="locations are given as whole numbers"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("given", [6, -1, [0, 7], np.array([99])])
def test_locations__that_do_not_exist_are_refused(given, trace):
    for call in (
        lambda: trace.analyze(locations=given),
        lambda: trace.read_events(given),
        lambda: trace.table("p2p", given),
        lambda: trace.region_instances(given),
    ):
        with pytest.raises(TracecolsError, match=r"no location -?\d+\n  there are 6"):
            call()


def test_locations__are_a_number_or_any_sequence_of_numbers(trace):
    wanted = trace.analyze(properties="time", locations=[2]).total("time")
    for given in (2, np.int64(2), (2,), np.array([2]), {2}, trace.locations.index[[2]]):
        assert trace.analyze(properties="time", locations=given).total("time") == wanted


def test_single_values__stand_for_lists_of_one(trace, cube, tmp_path):
    """`properties="mpi_latesender"` gave "no property 'm'"."""
    assert trace.analyze(properties="mpi_latesender").properties.id[-1] == "mpi_latesender"
    assert trace.read_events(columns="time").columns.tolist() == ["time"]
    assert cube.wide("time").columns.tolist() == ["call_path", "rank", "thread", "time"]
    grid = {"sizes": [2], "order": "C", "name": "line"}
    assert trace.analyze(properties="time", topologies=grid).topologies[0].name == "line"
    (tmp_path / "p.py").write_text(
        "import tracecols\n@tracecols.pattern('mine', 'mpi_latesender', 'Mine', table='messages', summary='Mine.')\n"
        "def mine(model, m, parent):\n    return parent\n"
    )
    assert "mine" in trace.analyze(patterns=str(tmp_path / "p.py")).properties.id
    assert len(tracecols.compare([cube, cube]).regressions(0.05, "time")) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda t, c: t.analyze(properties=3),
        lambda t, c: t.analyze(properties=[1]),
        lambda t, c: t.analyze(within=3),
        lambda t, c: t.analyze(parameters={"mpi": 3}),
        lambda t, c: t.analyze(parameters="mpi"),
        lambda t, c: t.analyze(parameters={"mpi": {"x": "3"}}),
        lambda t, c: t.analyze(parameters={"mpi": {"x": math.nan}}),
        lambda t, c: t.analyze([]),
        lambda t, c: t.analyze(topologies="x"),
        lambda t, c: t.analyze(patterns=3),
        lambda t, c: t.matches(3),
        lambda t, c: t.matches("mpi_latesender", topologies=3),
        lambda t, c: t.analyze(topologies=3),
        lambda t, c: t.read_events(columns=[1]),
        lambda t, c: tracecols.open(t.path, jobs=0),
        lambda t, c: tracecols.open(t.path, jobs="2"),
        lambda t, c: c.total(3),
        lambda t, c: c.frame(3),
        lambda t, c: c.frame("time", call_path=3),
        lambda t, c: c.frame("time", rank=9),
        lambda t, c: c.frame("time", rank="0"),
        lambda t, c: c.frame("time", thread=True),
        lambda t, c: c.to_hatchet(rank=9),
        lambda t, c: c.cells_of("time", None),
        lambda t, c: c.by_call_path("time", "i"),
        lambda t, c: c.by_system("time", aggregation="i"),
        lambda t, c: c.on_topology(0, "time", aggregation=3),
        lambda t, c: c.by_location("time", [True]),
        lambda t, c: c.total("time", np.ones(len(c.call_paths), int)),
        lambda t, c: c.by_subdomain("time", {0: "a"}, np.ones(len(c.call_paths), int)),
        lambda t, c: c.find_topology(1.0),
        lambda t, c: c.find_topology(None),
        lambda t, c: c.with_topology("x", "ab"),
        lambda t, c: c.with_metrics(3),
        lambda t, c: tracecols.compare(c),
        lambda t, c: tracecols.compare(None),
        lambda t, c: tracecols.rules.evaluate(None),
        lambda t, c: tracecols.rules.evaluate("x.trace"),
        lambda t, c: tracecols.rules.evaluate(c, settings="x"),
        lambda t, c: tracecols.earl.EventTrace(t).events(["SEND"]),
        lambda t, c: tracecols.open(None),
        lambda t, c: tracecols.open(b"x.trace"),
        lambda t, c: tracecols.convert(None),
        lambda t, c: tracecols.convert(b"x"),
        lambda t, c: tracecols.convert([None]),
        lambda t, c: tracecols.convert(t.path, 3),
        lambda t, c: tracecols.read_cube(None),
        lambda t, c: tracecols.Experiment(None),
        lambda t, c: c.save(None),
        lambda t, c: c.report(3),
        lambda t, c: c.report("no.html", title=3),
        lambda t, c: c.scale("no"),
        lambda t, c: c.in_units("no", [1]),
        lambda t, c: c.cells_on("no", None),
        lambda t, c: c.computed("no", len),
        lambda t, c: c.operands("time"),
        lambda t, c: t.analyze(scratch=3),
        lambda t, c: t.correct(latency=None),
        lambda t, c: t.correct(shrink=None),
        lambda t, c: t.correct(stretch=None),
        lambda t, c: t.what_if(scale={"compute": None}),
        lambda t, c: t.what_if(bandwidth=10**400),
        lambda t, c: t.what_if().savings(n=-1),
        lambda t, c: t.what_if().slack(n=2.5),
        lambda t, c: t.sql(None),
        lambda t, c: t.with_names(None),
        lambda t, c: t.seconds(math.inf),
        lambda t, c: t.scan("messages").frame("no"),
        lambda t, c: t.scan("messages").batches(["no"]),
        lambda t, c: t.scan("messages").batches(rows=0),
        lambda t, c: tracecols.compare([c, 3]),
        lambda t, c: tracecols.compare([c, c], names=[1, 2]),
        lambda t, c: tracecols.compare([c, c]).regressions("5%"),
        lambda t, c: tracecols.compare([c, c]).regressions(math.nan),
    ],
)
def test_nonsense__is_refused_with_what_to_do(call, trace, cube):
    with pytest.raises(TracecolsError, match=r"\n  \S"):
        call(trace, cube)


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_commands__refuse_times_that_are_none(option, value, trace, tmp_path):
    for command in ("analyze", "export"):
        output = ["-o", tmp_path / "x.severity"] if command == "analyze" else [tmp_path / "x.pftrace"]
        assert f"{value!r} is not a time such as" in executed(command, trace.path, *output, option, value, code=2)
    assert run("analyze", trace.path, "--from", "1e300", "-o", tmp_path / "x.severity").exit_code == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["0-99999999999", "0-999999999", "\u00b2", "1-", "4-2", ""])
def test_commands__refuse_numbers_of_locations_that_are_none(value, trace):
    assert run("analyze", trace.path, "--locations", value).exit_code == 2


def test_patterns_file__that_ends_the_interpreter_is_an_error(trace, tmp_path):
    (tmp_path / "exit.py").write_text("import sys\nsys.exit(0)\n")
    output = executed("analyze", trace.path, "--patterns", tmp_path / "exit.py", "-o", tmp_path / "x.severity", code=1)
    assert "exit.py cannot be run: SystemExit: 0" in output
    assert not (tmp_path / "x.severity").exists()


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"sizes": ' + "[" * 900 + "]" * 900 + "}",
        '{"sizes": [2], "coordinates": [' + "[" * 900 + "]" * 900 + ", [1]]}",
        '{"sizes": [4294967296, 4294967296], "order": "C"}',
        '{"sizes": [1073741824, 1073741824, 16], "order": "C"}',
    ],
)
def test_topology__that_is_nested_or_large_beyond_reason_is_refused(content, trace, tmp_path):
    (tmp_path / "grid.json").write_text(content)
    output = executed(
        "analyze", trace.path, "--topology", tmp_path / "grid.json", "-o", tmp_path / "x.severity", code=1
    )
    assert output.startswith("error: ")
    assert len(output) < 1000


@pytest.mark.parametrize("ending", ["cube", "cubex"])
@pytest.mark.parametrize("value", [1e308, -1e308, 1e34])
def test_cube__with_a_value_beyond_all_bounds_is_refused(ending, value, tmp_path):
    cube = small_cube({"time": {("main", 0, 0): 200.0, ("main/f", 0, 0): value}, "n": {("main", 0, 0): 1}})
    path = tmp_path / f"x.{ending}"
    write_cube(cube, path)
    with pytest.raises(
        SeverityError, match=r"metric 'time' has the value .*e\+\d+, which is beyond all bounds, at main/f"
    ):
        tracecols.read_cube(path)
    assert "Traceback" not in executed("show", path, code=1)


@pytest.mark.slow
def test_trace__can_be_pickled(trace, monkeypatch, tmp_path):
    """A pickle has the path, valid in any working folder of the other process, and the options."""
    two = tracecols.open(trace.path, jobs=2)
    _ = two.messages  # computed tables are not pickled
    found = pickle.dumps(two)
    assert len(found) < 1000
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(found)
    assert again.messages.equals(two.messages)
    assert again.model.jobs == 2
    assert pickle.loads(pickle.dumps(again.analyze())).frame().equals(two.analyze().frame())
    monkeypatch.chdir(trace.path.parent)
    relative = pickle.dumps(tracecols.open(trace.path.name))
    monkeypatch.chdir(tmp_path)
    assert len(pickle.loads(relative).locations) == 6


def test_errors__of_the_store_are_of_its_own_type(trace):
    for call in (lambda: trace.read_events("a"), lambda: trace.table("nothing"), lambda: trace.ticks(math.nan)):
        with pytest.raises(StoreError):
            call()
