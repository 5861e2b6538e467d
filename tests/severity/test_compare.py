"""Comparing runs: the algebra of cubes, its tables, and the command."""

import json
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from support.command_line import executed, run
from support.severities import cube_of
from support.small_cubes import random_cube, small_cube

import tracecols
from tracecols.enhance.scan import paths
from tracecols.errors import SeverityError
from tracecols.export.tables import write_cube
from tracecols.report.comparison import run_names
from tracecols.report.terminal import Display
from tracecols.rules import evaluate
from tracecols.severity import Cells, SeverityCube, algebra
from tracecols.severity.periods import PeriodAxis, PeriodCells
from tracecols.severity.reduction import reduce_at, without_residue
from tracecols.testing import Program

# Two runs of a program, in ticks of a millisecond: f became faster, g is new, and a second process takes part.
BEFORE = {
    "time": {("main", 0, 0): 100, ("main/f", 0, 0): 300},
    "mpi": {("main/f", 0, 0): 200},
    "visits": {("main", 0, 0): 1, ("main/f", 0, 0): 10},
}
AFTER = {
    "time": {("main", 0, 0): 110, ("main/f", 0, 0): 250, ("main/g", 0, 0): 40, ("main", 1, 0): 400},
    "mpi": {("main/f", 0, 0): 150, ("main/g", 0, 0): 40},
    "visits": {("main", 0, 0): 1, ("main/f", 0, 0): 10, ("main/g", 0, 0): 5, ("main", 1, 0): 1},
}
MORE = {"units": {"visits": "occ"}, "parents": {"mpi": "time"}}


@pytest.fixture
def before():
    return small_cube(BEFORE, **MORE)


@pytest.fixture
def after():
    return small_cube(AFTER, **MORE, machine="another box")


def by_place(cube, name):
    frame = cube.frame(name)
    keys = zip(frame.call_path.astype(str), frame["rank"], frame.thread, strict=True)
    return dict(zip(keys, frame.value.round(12).tolist(), strict=True))


# -- algebra -----------------------------------------------------------------------------------------------------------


def test_difference__by_names_and_ranks(before, after):
    change = after - before
    assert by_place(change, "time") == {
        ("main", 0, 0): 0.01,
        ("main/f", 0, 0): -0.05,
        ("main/g", 0, 0): 0.04,
        ("main", 1, 0): 0.4,
    }
    assert by_place(change, "mpi") == {("main/f", 0, 0): -0.05, ("main/g", 0, 0): 0.04}
    assert by_place(change, "visits") == {("main/g", 0, 0): 5, ("main", 1, 0): 1}
    assert change.cells["time"].value.dtype == np.int64
    # machines with different names are the same; the second process is below it
    assert change.system.name == ["another box", "rank 0", "thread 0", "rank 1", "thread 0"]
    assert change.facts["whole"] == {"time": pytest.approx(0.4), "visits": 11}
    assert change.summary().endswith("scalasca conventions, difference of 2 cubes")


def test_difference__aggregated_does_not_need_the_same_processes(before, after):
    change = algebra.difference(after, before, by="aggregate")
    assert by_place(change, "time") == {("main", 0, 0): 0.41, ("main/f", 0, 0): -0.05, ("main/g", 0, 0): 0.04}
    assert change.system.n_locations == 1


@pytest.mark.parametrize("seed", range(12))
def test_difference__of_a_cube_and_itself_is_zero(seed):
    cube = random_cube(seed)
    assert sum(len(c) for c in (cube - cube).cells.values()) == 0
    nothing = small_cube({"time": {("main", 0, 0): 0}})
    nothing.properties = cube.properties
    nothing.cells = dict.fromkeys(cube.properties.id, nothing.cells["time"])
    united, _ = algebra.unify([cube, nothing])
    for name in cube.properties.id:
        assert united.total(name) == pytest.approx(cube.total(name))


def test_difference__is_the_other_way_round_with_the_other_sign():
    left, right = random_cube(3), random_cube(3)
    right.cells = {name: cells.where(cells.value % 2 == 0) for name, cells in right.cells.items()}
    there, back = left - right, right - left
    for name in left.properties.id:
        assert np.array_equal(there.cells[name].key, back.cells[name].key)
        assert np.array_equal(there.cells[name].value, -back.cells[name].value)


def test_mean_minimum_maximum__cell_by_cell(before, after):
    runs = [before, after, small_cube({**BEFORE, "time": {("main/f", 0, 0): 500}}, **MORE)]
    assert by_place(algebra.mean(runs), "time") == {
        ("main", 0, 0): 0.07,
        ("main/f", 0, 0): 0.35,
        ("main/g", 0, 0): round(0.04 / 3, 12),
        ("main", 1, 0): round(0.4 / 3, 12),
    }
    assert by_place(algebra.minimum(runs), "time") == {("main/f", 0, 0): 0.25}
    assert by_place(algebra.maximum(runs), "time") == {
        ("main", 0, 0): 0.11,
        ("main/f", 0, 0): 0.5,
        ("main/g", 0, 0): 0.04,
        ("main", 1, 0): 0.4,
    }
    assert algebra.maximum(runs).facts["operation"] == "maximum"


def test_merge__takes_each_property_from_the_first_that_has_it(before):
    counters = small_cube(
        {"time": {("main", 0, 0): 7}, "flops": {("main/f", 0, 0): 9}, "misses": {("main/f", 0, 0): 2}},
        units={"flops": "#", "misses": "#"},
        parents={"misses": "flops"},
    )
    merged = algebra.merge([before, counters])
    assert merged.properties.id == ["time", "mpi", "visits", "flops", "misses"]
    assert merged.properties.parent == ["", "time", "", "", "flops"]
    assert by_place(merged, "time") == by_place(before, "time")
    assert by_place(merged, "flops") == {("main/f", 0, 0): 9}


def test_unify__puts_properties_below_their_parents():
    first = small_cube({"time": {}, "mpi": {}, "visits": {("main", 0, 0): 1}}, parents={"mpi": "time"})
    second = small_cube(
        {"time": {}, "omp": {("main", 0, 0): 2}, "barrier": {}, "mpi": {}},
        parents={"omp": "time", "barrier": "omp", "mpi": "omp"},
    )
    united = algebra.unify([first, second])[0].properties
    assert united.id == ["time", "mpi", "omp", "barrier", "visits"]
    # mpi stays where the first cube has it
    assert united.parent == ["", "time", "time", "omp", ""]


def test_unify__tells_call_sites_and_equal_names_apart(before):
    values = {"time": {("main", 0, 0): 1, ("main/f", 0, 0): 2}}
    here, there = (small_cube(values, sites={"main/f": site}) for site in ("x.c:1", "x.c:9"))
    assert (here - there).call_paths.path == ["main", "main/f", "main/f"]
    # two sibling functions of the same name are matched by their order
    twice = small_cube({"time": {("main", 0, 0): 1, ("main/f", 0, 0): 2, ("main/g", 0, 0): 4}})
    twice.call_paths.name[2] = "f"
    change = twice - small_cube(values)
    assert change.call_paths.path == ["main", "main/f", "main/f"]
    assert change.by_call_path("time").tolist() == [0, 0, 0.004]


def test_unify__takes_the_programs_as_the_same():
    # NPB names its programs after the number of processes
    four, eight = (small_cube({"time": {(f"bt.S.{n}/main", 0, 0): n}}) for n in (4, 8))
    assert by_place(eight - four, "time") == {("bt.S.8/main", 0, 0): 0.004}
    assert tracecols.compare([four, eight]).notes == [
        "programs of different names are taken as the same: bt.S.4, bt.S.8"
    ]


def test_unify__of_clocks_with_other_resolutions_is_in_ticks_of_a_common_one(before):
    finer = small_cube(
        {"time": {("main", 0, 0): 100_000, ("main/f", 0, 0): 300_001}, "visits": {("main", 0, 0): 1}},
        units={"visits": "occ"},
        resolution=1_000_000,
    )
    change = finer - before
    assert change.resolution == 1_000_000
    assert by_place(change, "time") == {("main/f", 0, 0): 1e-6}
    assert change.cells["visits"].value.tolist() == [-10]


def test_unify__refuses_what_does_not_fit(before):
    other = small_cube(BEFORE, parents={"mpi": "time"}, units={"visits": "bytes"})
    with pytest.raises(
        SeverityError, match="cannot compare property 'visits': it is in 'bytes' in one cube and in 'occ'"
    ):
        other - before
    with pytest.raises(SeverityError, match="one of position, aggregate"):
        algebra.unify([before], by="name")
    with pytest.raises(SeverityError, match="at least two cubes"):
        tracecols.compare([before])
    with pytest.raises(SeverityError, match="as many different names"):
        tracecols.compare([before, before], ["a", "a"])
    with pytest.raises(SeverityError, match="other ones than property"):
        tracecols.compare([before, before], ["a", "change"])


def test_results__are_cubes_to_save_and_export(before, after, tmp_path):
    change = after - before
    loaded = SeverityCube.load(change.save(tmp_path / "x.severity"))
    assert loaded.frame().equals(change.frame())
    for ending in ("cubex", "cube"):
        write_cube(change, tmp_path / f"x.{ending}")
        assert tracecols.read_cube(tmp_path / f"x.{ending}").frame().equals(change.frame())
    assert algebra.mean([change, change, change]).total("time") == pytest.approx(change.total("time"))


# -- tables ------------------------------------------------------------------------------------------------------------


def test_totals__with_change_and_ratio(before, after):
    totals = tracecols.compare([before, after], ["old", "new"]).totals().set_index("property")
    assert totals.old.round(12).tolist() == [0.4, 0.2, 11]
    assert totals.new.round(12).tolist() == [0.8, 0.19, 17]
    assert totals.change.round(12).tolist() == [0.4, -0.01, 6]
    assert totals.ratio.round(12).tolist() == [2.0, 0.95, round(17 / 11, 12)]


def test_command__of_many_runs_fits_and_keeps_the_first_and_the_last(before, after, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    paths = [tmp_path / f"run-{i}.severity" for i in range(12)]
    for i, path in enumerate(paths):
        (after if i else before).save(path)
    lines = executed("compare", *paths).splitlines()
    (head,) = [line.split() for line in lines if line.startswith("property")]
    assert "run-0" in head and head[-2:] == ["run-10", "run-11"] and "run-1" not in head
    assert max(map(len, lines[lines.index("") :])) <= 70
    assert re.fullmatch(r"\d+ runs left out: --json has all", lines[-1])


@pytest.mark.filterwarnings("error")
def test_tables__of_many_runs_are_made_without_warnings(before):
    found = tracecols.compare([before] * 120)
    assert found.totals().shape[1] == found.changes().shape[1] == 126


def test_changes__add_up(before, after):
    runs = tracecols.compare([before, after])
    changes = runs.changes()
    # exclusive values: time without mpi, at the call path itself
    assert [*zip(changes.property, changes.call_path, changes.change.round(12), strict=True)] == [
        ("time", "main", 0.41),
        ("mpi", "main/f", -0.05),
        ("mpi", "main/g", 0.04),
        ("time", "main/f", 0.0),
    ]
    assert changes.change.sum() == pytest.approx(0.4)
    assert changes.ratio[2] == float("inf")
    assert set(runs.changes("mpi").property) == {"mpi"}
    assert len(runs.changes("mpi", "time")) == 4
    assert runs.changes(n=2).equals(changes.head(2))
    with pytest.raises(SeverityError, match="-1 is not a number of changes"):
        runs.changes(n=-1)


def test_compare__writes_out_only_the_names_that_it_prints(compare, monkeypatch):
    monkeypatch.setattr(paths, "MAX_TEXT", 8)
    assert " Time       main " in compare("--rows", 1)
    assert "bytes of text, more than 8" in compare("--rows", 1, "--json", code=1)


def test_scaling__has_speedup_and_efficiency():
    # 8 s on one thread; 2 threads need 5 s each; 2 x 2 threads 3 s each
    one = small_cube({"time": {("main", 0, 0): 8000}, "mpi": {("main", 0, 0): 1000}}, parents={"mpi": "time"})
    two = small_cube(
        {"time": {("main", 0, i): 5000 for i in (0, 1)}, "mpi": {("main", 0, 0): 2500}}, parents={"mpi": "time"}
    )
    four = small_cube(
        {"time": {("main", r, t): 3000 for r in (0, 1) for t in (0, 1)}, "mpi": {}}, parents={"mpi": "time"}
    )
    table = tracecols.compare([one, two, four], ["1", "2", "4"]).scaling()
    time = table[table.property == "time"]
    assert [*zip(time.processes, time.threads, strict=True)] == [(1, 1), (1, 2), (2, 4)]
    assert time["mean"].tolist() == [8, 5, 3]
    assert time.speedup.tolist() == pytest.approx([1, 1.6, 8 / 3])
    assert time.efficiency.tolist() == pytest.approx([1, 0.8, 2 / 3])
    mpi = table[table.property == "mpi"]
    assert mpi.share.tolist() == pytest.approx([0.125, 0.25, 0])
    assert mpi.total.tolist() == pytest.approx([1, 2.5, 0])


def test_regressions__are_what_grew_by_more(before, after):
    runs = tracecols.compare([before, after])
    assert runs.regressions(0.99).property.tolist() == ["time"]
    assert runs.regressions(1.01).empty
    assert runs.regressions(0.0, ["mpi", "visits"]).property.tolist() == ["visits"]
    # growth from nothing exceeds any share
    nothing = small_cube({"time": {("main", 0, 0): 1}, "mpi": {}}, parents={"mpi": "time"})
    some = small_cube({"time": {("main", 0, 0): 1}, "mpi": {("main", 0, 0): 1}}, parents={"mpi": "time"})
    assert tracecols.compare([nothing, some]).regressions(5.0, ["mpi"]).property.tolist() == ["mpi"]


# -- other forms -------------------------------------------------------------------------------------------------------


def test_wide__has_a_column_per_property(after):
    wide = after.wide()
    assert wide.columns.tolist() == ["call_path", "rank", "thread", "time", "mpi", "visits"]
    long = after.frame()
    melted = wide.melt(["call_path", "rank", "thread"], var_name="property", value_name="value")
    melted = melted[melted.value != 0]
    key = ["property", "call_path", "rank", "thread"]
    both = melted.astype({"call_path": str}).merge(
        long.astype({"call_path": str, "property": str}), on=key, how="outer"
    )
    assert (both.value_x == both.value_y).all()
    assert after.wide(["Mpi"], aggregation="iie").set_index("call_path").mpi["main"] == pytest.approx(0.19)
    assert small_cube({"time": {}, "x": {("main", 0, 0): 1}}).wide(["time"]).empty


def test_hatchet__literal_has_both_meanings(after):
    (root,) = after.to_hatchet()
    assert root["frame"] == {"name": "main", "type": "function", "file": "x.c", "line": 1}
    assert [child["frame"]["name"] for child in root["children"]] == ["f", "g"]
    assert root["metrics"]["time"] == pytest.approx(0.51)
    assert root["metrics"]["time (inc)"] == pytest.approx(0.8)
    assert root["children"][1]["metrics"]["mpi (inc)"] == pytest.approx(0.04)
    assert after.to_hatchet(rank=1)[0]["metrics"]["time (inc)"] == pytest.approx(0.4)
    json.dumps(root)


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(before, after, tmp_path):
    before.save(tmp_path / "before.severity")
    after.save(tmp_path / "after.severity")
    return tmp_path


@pytest.fixture
def compare(saved):
    """Return a function that runs the command for both runs, and returns its output."""
    return partial(executed, "compare", saved / "before.severity", saved / "after.severity")


def test_command__refuses_an_output_of_an_unknown_format_before_it_reads_runs(tmp_path):
    output = executed("compare", tmp_path / "before.trace", tmp_path / "after.trace", "-o", tmp_path / "x.xml", code=1)
    assert output == (
        "error: cannot write a comparison to x.xml: no format ends in '.xml'\n"
        "  there are .severity, .cubex, .cube, .html, .parquet, .csv, .json\n"
    )


def test_command__prints_what_changed(compare):
    lines = [line.rstrip() for line in compare().splitlines()]
    assert lines[0].split() == ["run", "processes", "threads", "runtime", "speedup", "efficiency"]
    assert lines[2].split() == ["before", "1", "1", "0.400000", "s", "1.00", "100.0%"]
    assert lines[3].split() == ["after", "2", "2", "0.400000", "s", "1.00", "50.0%"]
    words = [line.split() for line in lines]
    assert ["Time", "0.400000", "s", "0.800000", "s", "+0.400000", "s", "+100.0%", "time"] in words
    assert ["Mpi", "0.200000", "s", "0.190000", "s", "-0.010000", "s", "-5.0%", "mpi"] in words
    assert ["Visits", "11", "17", "+6", "+54.5%", "visits"] in words
    assert lines[-3].split() == ["+0.410000", "s", "0.100000", "s", "0.510000", "s", "Time", "main"]


def test_command__locates_the_change_of_time_and_no_other_property_unless_it_is_given(tmp_path):
    """Delay costs and critical path count the same time again: their changes at call paths hid those of time."""
    for name, slow in (("before", 10), ("after", 30)):
        program = Program(2)
        for one, work in zip(program.masters, (5, slow), strict=True):
            one.enter(0, "main").enter(0, "work").leave(work)
            one.collective(work, slow + 1, 0, "barrier", region="MPI_Barrier").leave(slow + 1)
        with program.trace() as trace:
            trace.analyze().save(tmp_path / f"{name}.severity")
    runs = tmp_path / "before.severity", tmp_path / "after.severity"
    _, located = executed("compare", *runs).split("Largest changes")
    found = [re.split("  +", line.strip())[3:] for line in located.splitlines()[3:] if line.strip()]
    assert found == [["Computation", "main/work"], ["Wait at Barrier", "main/MPI_Barrier"]]
    assert "Short-term   main/work" in executed("compare", *runs, "-p", "delay_mpi")


def test_command__takes_names_as_they_are(tmp_path):
    # markup of rich in names of files, properties, units and regions
    odd = "[/red]a[bold]"
    for name, value in (("[a]", 3), ("[b]", 5)):
        cube = small_cube(
            {"time": {("main/[red]a[bold]", 0, 0): value}, odd: {("main", 0, 0): value}}, units={odd: odd}
        )
        cube.save(tmp_path / f"{name}.severity")
    output = executed("compare", tmp_path / "[a].severity", tmp_path / "[b].severity")
    assert "of [a]" in output
    assert f"5 {odd}" in output
    assert "main/[red]a[bold]" in output


def test_command__of_a_cube_with_itself(saved):
    output = executed("compare", saved / "before.severity", saved / "before.severity", "--threshold", "0%")
    assert "no property changed by 0.5% of its root or more" in output
    assert "before (1)" in output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--threshold", "50%"], 3),
        (["--threshold", "100"], 0),
        (["-p", "mpi", "--threshold", "0"], 0),
        (["-p", "mpi", "-p", "Visits", "--threshold", "10.5%"], 3),
        (["--threshold", "5 percent"], 2),
        (["--threshold", "-5"], 2),
        (["-p", "mpx"], 1),
        (["--operation", "divide"], 2),
    ],
)
def test_command__exit_codes(arguments, code, compare):
    output = compare(*arguments, code=code)
    assert code != 3 or ("regressed" in output and "grew by more than" in output)


def test_command__writes_cubes_and_tables(compare, saved, before, after):
    outputs = [saved / f"x.{ending}" for ending in ("severity", "cubex", "csv", "parquet", "json")]
    options = [o for output in outputs for o in ("-o", output)]
    assert compare(*options).splitlines()[-5:] == [str(o) for o in outputs]
    for output in outputs[:2]:
        assert by_place(tracecols.read_cube(output), "time") == by_place(after - before, "time")
    table = pd.read_csv(outputs[2])
    assert table.columns.tolist() == ["property", "title", "unit", "call_path", "before", "after", "change", "ratio"]
    assert table.change.sum() == pytest.approx(0.4 + 6)
    assert len(pd.read_parquet(outputs[3])) == len(table)
    plain = json.loads(outputs[4].read_text())
    # without computation: the largest time of a location
    runtime = float(after.by_location("time").max())
    assert plain["runs"][1] == {"name": "after", "processes": 2, "threads": 2, "runtime": runtime}
    assert len(plain["changes"]) == len(table)


def test_command__json_has_no_numbers_that_are_none(saved):
    result = run("compare", saved / "before.severity", saved / "after.severity", "--json", "--threshold", "5%")
    assert result.exit_code == 3
    plain = json.loads(result.stdout, parse_constant=lambda c: pytest.fail(c))
    assert plain["regressed"] == ["time"]
    assert {row["ratio"] for row in plain["changes"] if row["call_path"] == "main/g"} == {None}


def test_command__of_a_series_scales(saved):
    paths = [saved / "before.severity", saved / "after.severity", saved / "before.severity"]
    output = executed("compare", *paths, "-o", saved / "mean.severity", "-o", saved / "s.csv")
    assert "property, share of its root" in output
    assert SeverityCube.load(saved / "mean.severity").total("time") == pytest.approx((0.4 + 0.8 + 0.4) / 3)
    assert set(pd.read_csv(saved / "s.csv").run) == {"before (1)", "after (2)", "before (3)"}
    assert run("compare", *paths, "--operation", "difference").exit_code == 2
    assert run("compare", paths[0]).exit_code == 2


def test_command__names_runs_by_what_tells_them_apart(tmp_path):
    a, b, c = tmp_path / "1" / "x.cubex", tmp_path / "2" / "x.cubex", tmp_path / "change.severity"
    assert run_names((a, b)) == [str(a), str(b)]
    assert run_names((a, c)) == ["x", "change"] or run_names((a, c)) == [str(a), str(c)]
    assert run_names((a, a)) == ["x (1)", "x (2)"]


def test_show__of_a_difference_has_signs_and_shares_of_what_was_subtracted(saved, before, after):
    (after - before).save(saved / "change.severity")

    def show(*arguments):
        return executed("show", saved / "change.severity", *arguments)

    assert "+100.00%  Time  time  +0.400000 s" in show()
    assert "-2.50%  Mpi" in show()
    tree = show("-p", "mpi")
    assert "-2.50%" in tree
    assert "-12.50%" in tree
    assert "percent of time of what was subtracted" in tree
    assert "rank 1 thread 0" in show("-p", "time", "-c", "main")
    assert "-0.050000 s" in show("-p", "mpi", "--seconds")
    # a total change of zero may hide changes of call paths
    moved = small_cube({**BEFORE, "time": {("main", 0, 0): 300, ("main/f", 0, 0): 100}}, **MORE)
    (moved - before).save(saved / "change.severity")
    assert "+50.00%" in show("-p", "time")
    assert "-50.00%" in show("-p", "time")
    assert "nothing here" in show("-p", "mpi", "-c", "main")


def test_show_and_export__take_cubes_of_other_tools(saved, after):
    for ending in ("cubex", "cube"):
        path = saved / f"x.{ending}"
        assert executed("export", saved / "after.severity", path) == f"{path}\n"
        assert executed("show", path) == executed("show", saved / "after.severity")
        executed("export", path, saved / "back.severity")
        assert SeverityCube.load(saved / "back.severity").frame().equals(after.frame())
        executed("export", path, saved / "wide.csv", "--wide")
        assert pd.read_csv(saved / "wide.csv").columns.tolist() == [
            "call_path", "rank", "thread", "time", "mpi", "visits",
        ]  # fmt: skip


@pytest.mark.parametrize("options", [("--table", "messages"), ("--table", "events"), ("--raw",)])
def test_export__of_a_cube_has_no_tables_of_the_trace(options, saved):
    output = executed("export", saved / "after.severity", saved / "x.csv", *options, code=1)
    assert "after.severity holds severities, and no tables of a trace\n  give the store that was" in output
    assert not (saved / "x.csv").exists()


def test_export__of_a_store_has_no_severities(tmp_path, data):
    store = tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    assert "has no severities yet\n  analyze it first" in executed("export", store, tmp_path / "x.cubex", code=1)


@pytest.mark.slow
def test_two_runs__of_one_program(data, tmp_path):
    """The recording of a hybrid program, and one whose second process starts its sends later."""
    path = tracecols.convert(data / "hybrid_2x3", tmp_path / "x.trace")
    cube = tracecols.open(path).analyze()
    slow = tracecols.open(path).analyze()
    late = slow.cells["mpi_latereceiver"]
    for name in ("time", "execution", "mpi", "mpi_communication", "mpi_point2point", "mpi_latereceiver"):
        slow.cells[name] = slow.cells[name] + late
    runs = tracecols.compare([cube, slow])
    changed = runs.totals()[lambda t: t.change != 0]
    assert changed.property.tolist() == [
        "time", "execution", "mpi", "mpi_communication", "mpi_point2point", "mpi_latereceiver",
    ]  # fmt: skip
    assert runs.changes().change.sum() == pytest.approx(cube.total("mpi_latereceiver"))
    assert set(runs.changes()[lambda t: t.change != 0].property) == {"mpi_latereceiver"}
    assert runs.totals().set_index("property").ratio["mpi_latereceiver"] == pytest.approx(2)


# -- signs and residue -------------------------------------------------------------------------------------------------

SHRUNK = {
    "time": {("main", 0, 0): 1000, ("main/f", 0, 0): 400},
    "mpi": {("main/f", 0, 0): 100},
}, {
    "time": {("main", 0, 0): 500, ("main/f", 0, 0): 450},
    "mpi": {("main/f", 0, 0): 240},
}  # fmt: skip


def test_difference__growth_is_positive_though_the_whole_shrinks(tmp_path):
    """Of 1.4 s: time -0.45 s, -32.14 %; MPI +0.14 s, +10 %; shares used to refer to the change of the root,
    which is negative."""
    first, last = (small_cube(values, parents={"mpi": "time"}) for values in SHRUNK)
    change = tracecols.compare([first, last]).difference()
    assert change.total("mpi") == pytest.approx(0.14)
    assert change.whole("mpi") == pytest.approx(1.4)
    assert "  -42.14%    -0.590000 s  Time (time)\n  +10.00%    +0.140000 s  Mpi (mpi)" in repr(change)
    table = change._repr_html_()
    assert "+10.00%" in table
    assert "-42.14%" in table
    change.save(tmp_path / "change.severity")
    for arguments, words in (
        ((), "+10.00%  Mpi"),
        (("-p", "time"), "+3.57%"),
        (("-p", "mpi", "--relative"), "+100.00%"),
        (("-p", "mpi", "-c", "f"), "+10.00%"),
        (("-p", "mpi", "--seconds"), "+0.140000 s"),
    ):
        assert words in executed("show", tmp_path / "change.severity", *arguments)


def test_difference__on_a_grid_has_signs():
    first, last = (small_cube({"time": {("main", r, 0): v for r, v in enumerate(vs)}}) for vs in ((8, 2), (4, 3)))
    change = (last - first).with_topology("line", [2], order="C")
    rows = [str(line) for line in Display(change).grid("time", None, "line", 80)]
    assert "percent of time of what was subtracted" in "\n".join(rows)
    assert rows[-1].split() == ["0", "-40.00%", "+10.00%"]
    assert [str(line) for line in Display(change).grid("time", None, "line", 10)][-1] == "     0  \u2588\u2591"


def test_difference__without_what_was_subtracted_has_shares_of_its_size():
    """A root property that only one of the cubes has."""
    first = small_cube({"visits": {("main", 0, 0): 1}}, units={"visits": "occ"})
    change = first - small_cube({"time": {("main", 0, 0): 500}})
    assert change.whole("visits") == 1
    assert change.whole("time") == 0.5


@pytest.mark.parametrize(
    ("a", "b"), [(1000, 1_000_000), (2_596_145_201, 10**9), (2_596_140_085, 2_596_145_201), (3, 7)]
)
def test_difference__of_equal_runs_with_other_clocks_is_nothing(a, b):
    """No residue like 1.1e-16 s remains in cells, in own values of properties, and in sums over locations."""
    rng = np.random.default_rng(3)
    places = [("main", 0, 0), ("main/f", 0, 0), ("main/f", 1, 0), ("main/f/g", 1, 0)]

    def run(resolution):
        # whole seconds are exact on every clock
        part = {p: int(v) * resolution for p, v in zip(places, seconds, strict=True)}
        return small_cube(
            {"time": {p: 3 * v for p, v in part.items()}, "mpi": part, "omp": part},
            parents={"mpi": "time", "omp": "time"},
            resolution=resolution,
        )

    seconds = rng.integers(1, 1000, len(places))
    for by in algebra.BY:
        change = algebra.difference(run(a), run(b), by)
        for name in change.properties.id:
            for aggregation in ("iee", "eee", "iie", "eie"):
                assert len(change.cells_of(name, aggregation)) == 0
            assert change.total(name) == 0
    runs = tracecols.compare([run(a), run(b)])
    assert not runs.totals().change.any()
    assert len(runs.changes("time")[lambda t: t.change != 0]) == 0


def test_unify__of_clocks_without_a_common_multiple_rounds_what_is_own():
    """At 2,596,145,201 and 2,596,140,085 Hz, values are rounded to fs, and parents remain the sum of their children."""
    rng = np.random.default_rng(5)
    resolutions = (2_596_145_201, 2_596_140_085)
    cubes = []
    for resolution in resolutions:
        mpi, omp = rng.integers(1, 10**9, 2).tolist()
        values = {"time": {("main", 0, 0): mpi + omp}, "mpi": {("main", 0, 0): mpi}, "omp": {("main", 0, 0): omp}}
        cubes.append(small_cube(values, parents={"mpi": "time", "omp": "time"}, resolution=resolution))
    united = algebra.unify(cubes)
    assert {cube.resolution for cube in united} == {10**15}
    for given, cube in zip(cubes, united, strict=True):
        assert len(cube.cells_of("time", "eee")) == 0
        for name in ("time", "mpi", "omp"):
            assert cube.cells[name].value.dtype == np.int64
            assert cube.total(name) == pytest.approx(given.total(name), abs=1e-15)
    change = united[1] - united[0]
    assert len(change.cells_of("time", "eee")) == 0


def test_unify__periods_of_other_clocks_are_in_ticks_of_a_common_one():
    """Equal times by phase stay equal: of 0.1 s in ticks of two clocks no residue like 1.4e-17 s remains."""
    none = np.zeros(3, np.int32)
    cubes = []
    for resolution in (10**9, 3 * 10**8):
        tenth = resolution // 10
        cube = small_cube({"time": {("main", 0, 0): 6 * tenth}}, resolution=resolution)
        axis = PeriodAxis("phase", "step", np.arange(3) * tenth, np.arange(1, 4) * tenth, np.ones(3, np.int32))
        values = PeriodCells(none, none, np.arange(3, dtype=np.int32), np.arange(1, 4) * tenth)
        cubes.append(cube.replaced(periods=axis, period_cells={"time": values}))
    first, second = (cube.period_cells["time"].value for cube in algebra.unify(cubes))
    assert first.dtype == second.dtype == np.int64
    assert first.tolist() == second.tolist()


def test_unify__facts_and_periods_do_not_keep_the_old_clock():
    """The ticks of a run, and its numbers of call paths, mean something else in a united cube."""
    cubes = []
    for resolution in (10**9, 3 * 10**8):
        cube = small_cube({"time": {("main", 0, 0): 6}, "comp": {("main", 0, 0): 6}}, resolution=resolution)
        axis = PeriodAxis("bin", "1", np.array([5, 7]), np.array([7, 8]) * resolution, np.ones(2, np.int32))
        trace = {"first_time": 5, "last_time": 9, "n_events": 1, "source": {"path": "a.otf2"}}
        window = {"begin": 5, "end": 9}
        facts = {**cube.facts, "trace": trace, "focus_window": window, "ideal_runtime": 3}
        cubes.append(cube.replaced(facts=facts, periods=axis))
    for given, united in zip(cubes, algebra.unify(cubes), strict=True):
        pd.testing.assert_frame_equal(united.periods_frame(), given.periods_frame(), rtol=1e-8)
        assert not {"trace", "focus_window", "ideal_runtime"} & set(united.facts)
        for question in (united.efficiencies, united.diagnosis):
            with pytest.raises(SeverityError, match="of one run, and this cube is the unification of several"):
                question()
    assert (cubes[1] - cubes[0]).facts["of"] == ["a.otf2", "a.otf2"]


def test_difference__of_foreign_times_leaves_no_residue(tmp_path):
    """Times of other tools are float64 seconds: 0.3 less 0.1 and 0.2 is 5.6e-17 s, and counts as 0."""

    theirs = small_cube(
        {"time": {("main", 0, 0): 3}, "a": {("main", 0, 0): 1}, "b": {("main", 0, 0): 2}},
        parents={"a": "time", "b": "time"},
        resolution=1,
    )
    for name, seconds in (("time", 0.1 + 0.2), ("a", 0.1), ("b", 0.2)):
        theirs.cells[name] = Cells(theirs.cells[name].key, np.array([seconds]))
    ours = small_cube(
        {"time": {("main", 0, 0): 300}, "a": {("main", 0, 0): 100}, "b": {("main", 0, 0): 200}},
        parents={"a": "time", "b": "time"},
    )
    assert 0.3 != 0.1 + 0.2
    assert len(theirs.cells_of("time", "eee")) == 0
    change = theirs - ours
    assert change.total("time") == 0
    assert not tracecols.compare([ours, theirs]).totals().change.any()
    assert len(tracecols.compare([ours, theirs]).changes("time")) == 2


def test_sums__that_do_not_cancel_stay():
    at = np.array([0, 0, 0, 1, 1])
    assert reduce_at(at, np.array([0.1, 0.2, -0.3, 1e20, 1.0]), 2).tolist() == [0, 1e20]
    assert reduce_at(at, np.array([1, 2, -4, 5, 6]), 2).tolist() == [-1, 11]
    large = np.array([1.0, -1.0 + 2**-40])
    assert without_residue(np.array([large.sum()]), np.array([2.0])).tolist() == [2**-40]
    integers = np.array([1], np.int64)
    assert without_residue(integers, np.array([1 << 62])) is integers


def test_rules__of_changes_have_the_sign_of_their_severity():
    first, last = (small_cube(values, parents={"mpi": "time"}) for values in SHRUNK)
    found = evaluate(last - first, "communication_costs")[0]
    assert (found.severity > 0) == (found.share > 0)


def test_compare__writes_the_difference_as_a_report(compare, tmp_path):
    for _ in range(2):  # a report replaces a report
        compare("-o", tmp_path / "d.html")
    assert "<title>after - before</title>" in (tmp_path / "d.html").read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text("somebody else's")
    assert "is not a report of tracecols" in compare("-o", tmp_path / "page.html", code=1)


def test_compare__of_a_cube_of_another_tool_says_that_its_focus_has_more(tmp_path):
    """A cube of another tool has the time of `main` before MPI_Init and after MPI_Finalize in its focus."""
    program = Program(2)
    for location in program.masters:
        location.enter(0, "main").call(10, 20, "MPI_Init").call(50, 60, "MPI_Finalize").leave(65)
    cube = cube_of(program)
    write_cube(cube, tmp_path / "x.cubex")
    other = tracecols.read_cube(tmp_path / "x.cubex")
    runs = tracecols.compare([cube, other], ["own", "other"])
    assert [c.total("time") for c in runs.cubes] == [60, 90]
    assert runs.notes == [
        "the focus of other is known by call path only: it includes the time of the caller before MPI_Init and after "
        "MPI_Finalize"
    ]
    assert tracecols.compare([cube, other], with_startup=True).notes == []


@pytest.mark.slow
def test_compare__of_a_whole_and_a_part_has_no_speedup(opened, tmp_path, data):
    """An analysis of a tenth of a run does not make the run ten times as fast."""
    trace = opened(data / "hybrid_2x3")
    whole = trace.analyze().save(tmp_path / "whole.severity")
    part = trace.analyze(start=0.3, stop=0.35).save(tmp_path / "part.severity")
    result = run("compare", whole, part)
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if line.startswith("part "))
    assert row.split()[3:] == ["0.050000", "s"]
    assert "look at different things, so that there is no speedup: whole: not narrowed; part: " in result.stdout
    runs = tracecols.compare([tracecols.read_cube(whole), tracecols.read_cube(part)])
    assert runs.scaling().speedup.isna().all()
    same = tracecols.compare([tracecols.read_cube(whole)] * 2)
    assert (same.scaling().speedup.dropna() == 1).all()
