"""Experiments: runs with parameters, changes among them, growth of times."""

from __future__ import annotations

import doctest
import errno
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.command_line import executed, run
from support.small_cubes import small_cube

import tracecols
from benchmarks.changes import Kind, campaign
from tracecols.errors import SeverityError
from tracecols.runs.changes import find_changes, too_few
from tracecols.runs.growth import TERMS, basis, best_terms, errors_of_terms

WORK = {"main": 10, "main/solve": 400, "main/solve/exchange": 90, "main/write": 50}


def cube(rng=None, ranks=2, noise=0.005, **slower):
    """Return a cube of a program whose call paths take some time on each rank, with noise, and with factors by name."""
    time, mpi = {}, {}
    for rank in range(ranks):
        for path, ms in WORK.items():
            factor = slower.get(path.rpartition("/")[2], 1) * (1 if rng is None else 1 + noise * rng.standard_normal())
            time[path, rank, 0] = round(1000 * ms * factor)
        mpi["main/solve/exchange", rank, 0] = time["main/solve/exchange", rank, 0]
    return small_cube({"time": time, "mpi": mpi}, parents={"mpi": "time"}, resolution=10**6)


@pytest.fixture
def nightly(tmp_path):
    """Make twelve runs, one each night; solve takes 10 % more from the eighth on."""
    rng = np.random.default_rng(1)
    experiment = tracecols.Experiment(tmp_path / "nightly")
    for night in range(12):
        experiment.add(cube(rng, solve=1.1 if night >= 7 else 1), f"night-{night:02}", {"commit": f"c{night:02}"})
    return experiment


def test_change__is_found_where_and_since_when(nightly):
    (change,) = find_changes(nightly.series())
    assert change.label == "c07"
    assert change.chance <= 0.05
    assert [cell.call_path for cell in change.cells] == ["main/solve"]
    assert change.cells[0].after / change.cells[0].before == pytest.approx(1.1, abs=0.01)
    assert change.after - change.before == pytest.approx(0.08, abs=0.01), "two ranks"


@pytest.mark.slow
def test_examples__of_the_docstring_run(nightly, monkeypatch):
    monkeypatch.chdir(nightly.folder.parent)
    (examples,) = doctest.DocTestFinder(recurse=False).find(tracecols.Experiment)
    for example in examples.examples:
        exec(example.source, examples.globs | {"tracecols": tracecols, "nightly": nightly, "cube": cube(np.random.default_rng(2))})  # fmt: skip
    assert "2026-11-24" in nightly.frame().run.tolist()


def test_changes__several_are_found_one_by_one(tmp_path):
    rng = np.random.default_rng(2)
    experiment = tracecols.Experiment(tmp_path / "e")
    for night in range(24):
        experiment.add(cube(rng, solve=1.1 if night >= 8 else 1, write=0.5 if night >= 16 else 1), f"n{night:02}")
    found = find_changes(experiment.series())
    assert [(c.label, c.cells[0].call_path) for c in found] == [("n08", "main/solve"), ("n16", "main/write")]
    assert found[1].after < found[1].before


@pytest.mark.slow
def test_changes__without_noise_nothing_changes(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for i in range(10):
        experiment.add(cube(), parameters={"commit": "a" if i < 5 else "b"})
    assert find_changes(experiment.series()) == []


def test_changes__of_properties_that_were_asked_for(nightly):
    assert find_changes(nightly.series("mpi")) == []


def test_series__needs_runs_that_differ_in_one_parameter(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for size in (1, 2):
        for commit in ("a", "b"):
            experiment.add(cube(), parameters={"size": size, "commit": commit})
    with pytest.raises(SeverityError, match="commit, size vary together"):
        experiment.series()
    series = experiment.series(where={"size": 2})
    assert (series.along, series.labels) == ("commit", ["a", "b"])
    assert experiment.series(along="size", where={"commit": "a"}).labels == ["1", "2"]
    with pytest.raises(SeverityError, match=r"size, commit vary together\n  select runs with one value of commit"):
        experiment.series(along="size")
    with pytest.raises(SeverityError, match="no run has size=3"):
        experiment.series(where={"size": 3})
    with pytest.raises(SeverityError, match="no run has the parameter weather"):
        experiment.series(along="weather")


def test_series__positions_of_long_numbers_are_told_apart(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for i in range(5):
        experiment.add(cube(solve=1 + i), parameters={"date": 20261124120000 + i})
    series = experiment.series()
    assert series.labels == [f"2026112412000{i}" for i in range(5)]
    table = experiment.severities(series).set_index("call_path")
    # two ranks, 0.4 s each
    assert table.loc["main/solve", series.labels].tolist() == pytest.approx([0.8, 1.6, 2.4, 3.2, 4.0])
    assert "20261124120004" in run("runs", "show", tmp_path / "e").output


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, "a\udcff"])
def test_add__refuses_values_that_are_no_finite_numbers_or_texts(value, tmp_path):
    with pytest.raises(SeverityError, match="the parameter size is "):
        tracecols.Experiment(tmp_path / "e").add(cube(), parameters={"size": value})
    assert not (tmp_path / "e").exists()


def test_list__aligns_numbers(tmp_path):
    e = tracecols.Experiment(tmp_path / "e")
    for size in (10, 100_000):
        e.add(cube(), parameters={"size": size, "branch": "main"})
    lines = executed("runs", "list", e.folder).splitlines()
    assert [re.search(r" (10|100000)   main ", line).end() for line in lines[2:4]] == [lines[0].index("branch") + 5] * 2


def test_show_and_trend__say_what_is_left_out(tmp_path, nightly, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = executed("runs", "show", nightly.folder, "--rows", 1)
    assert "3 more rows: --rows" in shown and re.search(r"^\d+ earlier positions left out: --json", shown, re.MULTILINE)
    e = tracecols.Experiment(tmp_path / "e")
    for i in range(10):
        e.add(cube(np.random.default_rng(i), solve=1 + i // 5, write=1 + i // 5), parameters={"commit": "ab"[i // 5]})
    assert "1 more row: --rows" in executed("runs", "trend", e.folder, "--rows", 1, "-o", tmp_path / "t.md")
    assert "\n\n1 more row: `--rows`\n" in (tmp_path / "t.md").read_text()


def test_severities__positions_may_be_called_like_other_columns_and_each_other(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for i, branch in enumerate(["title", "call_path", "4", 4]):
        experiment.add(cube(solve=1 + i), parameters={"branch": branch})
    table = experiment.severities(experiment.series())
    assert list(table.columns[3:]) == ["title (1)", "call_path (2)", "4", "4 (4)"]
    solve = table[table.call_path == "main/solve"].iloc[0]
    assert solve["title"] == "Time" and solve.tolist()[3:] == pytest.approx([0.8, 1.6, 2.4, 3.2])
    shown = executed("runs", "show", tmp_path / "e")
    assert re.search(r"main/solve +800 ms +1.6 s +2.4 s +3.2 s", shown)


def test_series__last_positions_only(nightly):
    series = nightly.series(last=2)
    assert series.labels == ["c10", "c11"]
    assert "too few" in too_few(series, 0.05)


def test_too_few__four_repetitions_suffice(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for n in (6, 8):
        for i in range(n // 2 - (n == 8)):
            experiment.add(cube(), f"{n}{i}", {"commit": str(n)})
    assert "3 and 3 runs are too few" in too_few(experiment.series(), 0.05)
    for n in (6, 8):
        experiment.add(cube(), f"{n}x", {"commit": str(n)})
    assert too_few(experiment.series(), 0.05) == ""


def test_add__keeps_what_is_there(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    experiment.add(cube(), "a", {"size": 3})
    with pytest.raises(SeverityError, match="has a run called a already"):
        experiment.add(cube(), "a")
    experiment.add(cube(), "a", {"size": 4}, force=True)
    assert [r.parameters["size"] for r in experiment.runs()] == [4.0]
    for name in ("", "../a", ".a", "a/b", "a\udcff"):
        with pytest.raises(SeverityError, match="is not a name for a run"):
            tracecols.runs.folder.add(experiment.folder, cube(), name, {})
    with pytest.raises(SeverityError, match="is not a name for a parameter"):
        experiment.add(cube(), "b", {"a=b": 1})
    with pytest.raises(SeverityError, match="cannot add"):
        experiment.add("a.severity")
    assert [path.name for path in sorted(experiment.folder.iterdir())] == ["a.json", "a.severity"]


def test_add__to_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(SeverityError, match=r"No space left on device\n  nothing was left behind"):
        tracecols.Experiment(tmp_path / "x").add(cube())
    assert not list(tmp_path.iterdir())


def test_add__at_the_same_time_keeps_all_runs(tmp_path):
    one = cube()
    with ThreadPoolExecutor(8) as pool:
        names = [*pool.map(lambda i: tracecols.Experiment(tmp_path / "e").add(one, None, {"size": i}).name, range(8))]
    runs = tracecols.Experiment(tmp_path / "e").runs()
    assert sorted(names) == [f"run-{i + 1}" for i in range(8)]
    assert {run.name: run.parameters["size"] for run in runs} == {name: i for i, name in enumerate(names)}


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", '{"format": "tracecols run", "version": 1}', '{"format": "tracecols run"}',
        *(
            f'{{"format": "tracecols run", "version": 1, "added": "", "parameters": {{"size": {value}}}}}'
            for value in ("NaN", "1" + "0" * 400, '"\\ud800"')
        ),
    ],
)  # fmt: skip
def test_runs__that_are_damaged_are_refused_or_are_none(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(SeverityError, match=r"holds no runs|is damaged|of a version"):
        tracecols.Experiment(tmp_path).runs()


def test_runs__of_a_cube_are_none_and_it_can_be_added(nightly):
    cube = next(nightly.folder.glob("*.severity"))
    with pytest.raises(
        SeverityError, match="a severity cube, not a folder of runs\n  add it to one: tracecols runs add"
    ):
        tracecols.Experiment(cube).runs()


def test_runs__whose_parameters_cannot_be_read_are_not_left_out(nightly):
    (nightly.folder / "night-03.json").write_text('{"format": "tracecols run",}')
    # of another program
    (nightly.folder / "other.json").write_text("{")
    with pytest.raises(SeverityError, match=r"night-03\.json cannot be read: .*line 1"):
        nightly.runs()


def test_series__of_different_analyses_says_so(tmp_path):
    e = tracecols.Experiment(tmp_path / "e")
    for i, more in enumerate(({}, {"conventions": "expert"}, {"narrowed": {"within": "main"}})):
        made = cube()
        e.add(made.replaced(facts=made.facts | more), parameters={"commit": f"c{i}"})
    noted = [
        "the rules of the analyses differ: expert, scalasca",
        "the analyses look at different things, so that there is no speedup: run-1.severity, run-2.severity: "
        "not narrowed; run-3.severity: narrowed: within main",
    ]
    assert e.series().notes == noted
    assert all(f"note: {note}" in run("runs", "show", e.folder).stderr for note in noted)


@pytest.mark.parametrize("term", [(1, 0), (0.5, 0), (0, 1), (1, 1), (2, 0)])
def test_growth__the_model_of_exact_values_is_found(term):
    p = np.array([4.0, 8, 16, 32, 64, 128])
    quality, best = best_terms(errors_of_terms(p), (3 + 0.5 * basis(p, *term))[:, None])
    assert TERMS[int(best[0])] == term
    assert quality[0] < 1e-12


def test_growth__errors_are_those_of_lines_through_the_others():
    p, values = np.array([1.0, 2, 3, 8, 20]), np.array([5.0, 1, 4, 9, 2])
    found = errors_of_terms(p) @ (values - values.mean())
    for term, errors in zip(TERMS, found, strict=True):
        x = basis(p, *term)
        lines = [np.polyfit(np.delete(x, i), np.delete(values, i), 1) for i in range(p.size)]
        wanted = [values[i] - np.polyval(line, x[i]) for i, line in enumerate(lines)]
        assert errors == pytest.approx(wanted, rel=1e-6)


@pytest.mark.slow
def test_growth__what_hurts_first_comes_first_and_noise_does_not_grow(tmp_path):
    rng = np.random.default_rng(3)
    experiment = tracecols.Experiment(tmp_path / "e")
    for p in (2, 4, 8, 16, 32):
        for _ in range(3):
            experiment.add(cube(rng, p, exchange=p / 4, write=1 + np.log2(p) / 20), parameters={"code": "x"})
    series = experiment.series(along="processes")
    table = experiment.growth(series, at=1024)
    growing = table[table.coefficient != 0]
    assert growing.call_path.tolist() == ["main/solve/exchange", "main/write"]
    first = growing.iloc[0]
    assert (first.power, first.logarithm) == (1.0, 0)
    assert first.predicted == pytest.approx(0.09 * 1024 / 4, rel=0.05)
    assert "processes" in first.model


def test_trend__of_what_was_nothing_says_how_much_it_is(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for i in range(10):
        mpi = {("main", 0, 0): 500 if i >= 5 else 0}
        experiment.add(small_cube({"time": {("main", 0, 0): 1000}, "mpi": mpi}, resolution=10**6), f"n{i}")
    shown = executed("runs", "trend", tmp_path / "e", "-p", "mpi", "--require", "growth<=5%", code=3)
    assert "since n5 it takes 500 us, before it was 0, required is 5.0% at most" in shown


@pytest.mark.parametrize("at", [0, -1, float("nan"), float("inf"), 1e300])
def test_growth__is_predicted_for_positive_numbers_only(at, tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for size in (1, 2, 4, 8, 16):
        experiment.add(cube(solve=size), parameters={"size": size})
    with pytest.raises(SeverityError, match="models cannot predict for size="):
        experiment.growth(experiment.series(), at)
    shown = executed("runs", "trend", tmp_path / "e", "--growth", "--at", at, code=1)
    assert "give a positive number" in shown
    assert experiment.growth(experiment.series(), 1e90).predicted.max() < float("inf")


def test_growth__needs_five_values(nightly, tmp_path):
    with pytest.raises(SeverityError, match="are not positive numbers"):
        nightly.growth(nightly.series())
    experiment = tracecols.Experiment(tmp_path / "e")
    for size in (1, 2):
        experiment.add(cube(), parameters={"size": size})
    with pytest.raises(SeverityError, match="size has 2 values, 1, 2; a model needs 5"):
        experiment.growth(experiment.series())


@pytest.mark.slow
def test_campaign__the_stated_rates_hold():
    assert campaign(Kind(0.0), 100)[0] < 5
    assert campaign(Kind(0.05), 100)[1] >= 95


def test_commands__from_the_cube_to_the_exit_code(tmp_path, nightly):
    for i, one in enumerate((cube(), cube(solve=2))):
        one.save(tmp_path / f"{i}.severity")
    folder = tmp_path / "e"
    added = run("runs", "add", folder, tmp_path / "0.severity", "-P", "size=8", "-P", "machine=big one")
    assert (added.exit_code, added.output) == (
        0,
        f"{folder}: run-1 (processes=2, threads=2, size=8, machine=big one)\n",
    )
    assert (
        run(
            "runs", "add", folder, tmp_path / "1.severity", "--name", "other", "-P", "size=16", "-P", "machine=big one"
        ).exit_code
        == 0
    )
    listed = run("runs", "list", folder)
    assert re.search(r"run-1 .* 8 +big one", listed.output), listed.output
    assert listed.output.startswith("run     added (UTC)")
    shown = run("runs", "show", folder, "--rows", "1")
    assert re.search(r"Time +main/solve +800 ms +1.6 s", shown.output), shown.output
    of_two = [
        run("runs", "show", folder, *names).output for names in (("-p", "time, mpi"), ("-p", "time", "-p", "mpi"))
    ]
    assert of_two[0] == of_two[1]
    assert "Mpi " in of_two[0]
    assert run("runs", "list", folder, "--where", "size=16", "--json").output.count('"run"') == 1
    failed = executed("runs", "trend", nightly.folder, "--require", "growth<=2%", "-o", tmp_path / "s.md", code=3)
    assert "since c07 it takes 7.3% more, required is 2.0% at most" in failed
    assert "| Time | main/solve |" in (tmp_path / "s.md").read_text()
    assert run("runs", "trend", nightly.folder, "--require", "growth<=20%").exit_code == 0
    as_json = json.loads(run("runs", "trend", nightly.folder, "--json").output)
    assert [row["call_path"] for row in as_json["rows"]] == ["", "main/solve"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("trend", "{e}", "--require", "growth"), "is not a requirement such as"),
        (("trend", "{e}", "--at", "8"), "--at is a value to predict for"),
        (("trend", "{e}", "--growth", "--require", "growth<=1%"), "--growth predicts: leave out --require"),
        (("trend", "{e}", "-o", "x.pdf"), "ends with .md, .html or .json"),
        (("add", "{e}", "a", "b", "--name", "c"), "--name is the name of one run"),
        (("list", "{e}", "--where", "size"), "is not of the form NAME=VALUE"),
        (("list", "{e}", "--where", "size=1", "--where", "size=2"), "size is given twice"),
    ],
)
def test_commands__that_are_mistaken_are_refused(nightly, arguments, text):
    assert text in executed("runs", *(a.format(e=nightly.folder) for a in arguments), code=2)


@pytest.mark.slow
def test_page__draws_what_changed_and_loads_nothing(nightly, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "trend.html"
    assert run("runs", "trend", nightly.folder, "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2, "the total, and the call path that changed"
    assert "slower since c07" in text
    assert not re.search(r"<(script|link|img)", text)


@pytest.mark.slow
def test_names__stay_text(tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(5)
    experiment = tracecols.Experiment(tmp_path / "e")
    for i in range(12):
        experiment.add(cube(rng, solve=1 + (i > 5)), parameters={"commit": f"<b>|`${i:02}"})
    for name in ("t.md", "t.html"):
        assert run("runs", "trend", experiment.folder, "-o", tmp_path / name).exit_code == 0
    assert r"\<b\>\|\`$06" in (tmp_path / "t.md").read_text()
    assert "<b>|" not in (tmp_path / "t.html").read_text()


def with_metric(folder, **slower):
    """Return an experiment of two sets of five runs, the second with changes, and with the share of MPI in the time."""
    rng = np.random.default_rng(6)
    experiment = tracecols.Experiment(folder)
    for i in range(10):
        one = cube(rng, **(slower if i > 4 else {})).with_metrics("share = mpi / time")
        experiment.add(one, parameters={"commit": "old" if i < 5 else "new"})
    return experiment


@pytest.mark.slow
def test_series__of_a_computed_metric_is_its_formula_for_the_sums_of_each_run(tmp_path):
    series = with_metric(tmp_path / "e").series("share")
    assert (series.unit, series.adds_up) == ("", False)
    assert series.call_paths == ["main/solve/exchange"]
    assert series.cells == pytest.approx(1), "all of the call path itself is MPI"
    totals = [cube.total("mpi") / cube.total("time") for cube in (tracecols.read_cube(r.path) for r in series.runs)]
    assert series.totals == pytest.approx(totals, abs=1e-15)


@pytest.mark.slow
def test_changes__of_a_computed_metric(tmp_path):
    experiment = with_metric(tmp_path / "e", solve=1.5)
    table = experiment.changes(experiment.series("share"))
    # 90 of 550 ms, and then 90 of 750 ms; at its only call path nothing changes
    assert table[["since", "property"]].values.tolist() == [["new", ""]]
    assert table.before[0] == pytest.approx(90 / 550, rel=0.01)
    assert table.after[0] == pytest.approx(90 / 750, rel=0.01)
    shown = run("runs", "trend", experiment.folder, "-p", "share", "--require", "growth<=1%")
    assert (shown.exit_code, "less since new: 0.16" in shown.output) == (0, True), shown.output
    assert re.search(
        r"share +main/solve/exchange +1 +1\b", run("runs", "show", experiment.folder, "-p", "share").output
    )


def test_growth__of_a_computed_metric_is_not_divided_by_threads(tmp_path):
    experiment = tracecols.Experiment(tmp_path / "e")
    for ranks in (2, 4, 8, 16, 32):
        one = cube(ranks=ranks, exchange=ranks).with_metrics("each = mpi / 2")
        experiment.add(one, parameters={"size": ranks})
    table = experiment.growth(experiment.series("each", along="size"))
    # half of 90 ms per rank, times the number of ranks twice: for the sum, and for the longer exchange
    assert table[["power", "coefficient"]].values.tolist() == [[2.0, pytest.approx(0.045)]]
    # the constant differs from 0 by rounding only
    assert table[["constant", "model"]].values.tolist() == [[0.0, "0.045 * size^2"]]


@pytest.mark.slow
def test_series__refuses_what_does_not_add_up(tmp_path):
    experiment = with_metric(tmp_path / "e")
    with pytest.raises(SeverityError, match=r"share, time do not add up: share is computed"):
        experiment.series(("share", "time"))
    other = tracecols.Experiment(tmp_path / "other")
    for size in (1, 2):
        one = small_cube({"time": {("main", 0, 0): 5}, "visits": {("main", 0, 0): 1}}, units={"visits": "occ"})
        other.add(one, parameters={"size": size})
    with pytest.raises(SeverityError, match="different units do not add up: time in sec, visits in occ"):
        other.series(("time", "visits"))
    assert re.search(r"main +1 +1\b", run("runs", "show", other.folder, "-p", "visits").output), "no seconds"
