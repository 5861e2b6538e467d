"""One vocabulary of options: an option that several commands have is declared once, earlier spellings work with a note,
and the table of the documentation is generated from the declarations."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import click
import pytest
from support.command_line import executed, run

import tracecols
from tracecols.cli import COMMANDS, group
from tracecols.cli.vocabulary import TERMS, TermOption, all_commands, table

DOCS = Path(tracecols.__file__).parent / "docs"


@pytest.fixture(scope="module")
def made(tmp_path_factory, data) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("vocabulary")
    store = tracecols.convert(data / "hybrid_2x3", folder / "h.trace")
    cube = tracecols.open(store).analyze()
    experiment = tracecols.Experiment(folder / "runs")
    for name in ("a", "b"):
        experiment.add(cube, name, {"commit": name})
    return {"store": store, "cube": cube.save(folder / "h.severity"), "runs": folder / "runs"}


def commands() -> dict[str, click.Command]:
    return dict(all_commands(group))


def options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option)]


def test_options__of_several_commands_are_terms():
    users: dict[str, list[tuple[str, click.Option]]] = {}
    for name, command in commands().items():
        for option in options(command):
            for spelled in option.opts:
                users.setdefault(spelled, []).append((name, option))
    of_clusters = {"--workers", "--scheduler", "--scheduler-file", "--scratch", "--shrink", "--stretch"}
    for spelled, found in users.items():
        if len(found) == 1 or spelled in of_clusters:
            continue
        terms = {option.term.name if isinstance(option, TermOption) else None for _, option in found}
        # a grid to be laid on, and grids to be given
        if spelled == "--topology":
            continue
        assert len(terms) == 1, (spelled, [name for name, _ in found])
        assert None not in terms, (spelled, [name for name, _ in found])


def test_terms__are_used_and_are_spelled_once():
    spelled = [text for term in TERMS.values() for text in term.spelled]
    assert len(spelled) == len(set(spelled))
    used = {
        option.term.name
        for command in commands().values()
        for option in options(command)
        if isinstance(option, TermOption)
    }
    assert used == set(TERMS)


def test_page__has_the_table_of_the_declarations():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert table() in page, "put the output of tracecols.cli.vocabulary.table() into the page"


def test_page__shows_every_command():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if not re.search(rf"tracecols {name}\b", page)] == []


def test_commands__have_few_arguments():
    for name, command in commands().items():
        given = inspect.signature(inspect.unwrap(command.callback)).parameters
        assert len(given) <= 12, (name, list(given))
    for method in (tracecols.Trace.analyze, tracecols.Trace.what_if):
        assert len(inspect.signature(method).parameters) <= 12


RENAMED = (
    ("diagnose {cube} --findings 1", "diagnose {cube} --rows 1"),
    ("diagnose {cube} --findings=1", "diagnose {cube} --rows 1"),
    ("check {store} --first 1", "check {store} --rows 1"),
    ("rules {cube} --statements 1 -c h_coll", "rules {cube} --rows 1 --within h_coll"),
    ("rules {cube} --call-path h_coll", "rules {cube} --within h_coll"),
    ("show {cube} -p time --threshold 5", "show {cube} -p time --min-share 5%"),
    ("show {cube} -p time --threshold 5%", "show {cube} -p time --min-share 0.05"),
    ("what-if {store} --whole-run --rows 2", "what-if {store} --with-startup --rows 2"),
)


@pytest.mark.parametrize(("old", "new"), RENAMED)
def test_spelling__of_old_works_with_a_note(old, new, made):
    before, after = (run(*words.format(**made).split()) for words in (old, new))
    assert (before.exit_code, before.stdout) == (after.exit_code, after.stdout)
    assert after.exit_code == 0
    assert " is called --" in before.stderr
    assert " is called --" not in after.stderr


def test_spelling__of_old_is_checked_likewise(made):
    assert run("diagnose", made["cube"], "--findings", "-1").exit_code == 2
    assert run("show", made["cube"], "--threshold", "101").exit_code == 2


@pytest.mark.parametrize(
    ("percent", "number"),
    [
        ("what-if {store} --scale do_work=50%", "what-if {store} --scale do_work=0.5"),
        ("what-if {store} --transfer 50% --openmp 25%", "what-if {store} --transfer 0.5 --openmp 0.25"),
        ("what-if {store} --faster 25%", "what-if {store} --faster 0.25"),
        ("show {cube} --min-share 2%", "show {cube} --min-share 0.02"),
        ("efficiency {cube} --require loadbalance>=1%", "efficiency {cube} --require loadbalance>=0.01"),
    ],
)
def test_share__in_percent_is_the_same_as_its_number(percent, number, made):
    results = [run(*words.format(**made).replace("loadbalance", "load_balance").split()) for words in (percent, number)]
    assert [result.exit_code for result in results] == [0, 0], results[0].output
    assert results[0].stdout == results[1].stdout


def test_threshold__as_a_plain_number_is_in_percent_as_before(made):
    result = run("compare", made["cube"], made["cube"], "--threshold", "5")
    assert result.exit_code == 0
    assert "--threshold 5 is read as 5%" in result.stderr
    assert "read as" not in run("compare", made["cube"], made["cube"], "--threshold", "5%").stderr


OF_JSON = re.findall(
    r"^\| `([^`]+) --json` \| (.*?) \| (.*?) \| .* \|$", (DOCS / "formats.md").read_text(), re.MULTILINE
)
"""Rows of the table of outputs of `--json`: command, format, keys."""


def test_json__of_every_command_is_on_the_page():
    has_json = {name for name, command in commands().items() if any("--json" in o.opts for o in options(command))}
    listed = {name for words, _, _ in OF_JSON for name in has_json if words.startswith(name)}
    assert has_json - {"runs"} == listed


@pytest.mark.parametrize(("words", "what", "keys"), OF_JSON, ids=[words for words, _, _ in OF_JSON])
def test_json__has_the_keys_that_the_page_lists(words, what, keys, made, data, tmp_path):
    """They are stable: scripts read them."""
    names = {"STORE": made["store"], "CUBE": made["cube"], "ARCHIVE": data / "kineto_gloo_3", "FOLDER": made["runs"]}
    shell = [names.get(word, word) for word in words.split()]
    if words.startswith("correct"):
        shell += ["-o", tmp_path / "corrected.trace"]
    result = run(*shell, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    if isinstance(found, list):
        assert what == "a list"
        found = found[0]
    else:
        assert found.pop("format") == what
    assert ", ".join(found) == keys


def test_json__of_show_has_the_values_of_the_cube(made):
    cube = tracecols.read_cube(made["cube"]).focused()
    found = json.loads(run("show", made["cube"], "-p", "time", "--json", "--min-share", "0").stdout)
    assert found["value"] == cube.total("time")
    assert sum(row["exclusive"] for row in found["call_paths"]) == pytest.approx(cube.total("time"), rel=1e-12)
    found = json.loads(run("show", made["cube"], "-p", "time", "-c", "MPI_Bcast", "--json").stdout)
    assert [row["value"] for row in found["locations"]] == [
        v for v in cube.by_location("time", cube.find_call_paths("MPI_Bcast")) if v
    ]
    named = {row["property"] for row in json.loads(run("show", made["cube"], "--json").stdout)["properties"]}
    assert {"time", "omp_idle_threads"} <= named


@pytest.mark.slow
def test_what_if__takes_a_piece_and_a_region(made):
    whole = json.loads(run("what-if", made["store"], "--json").stdout)
    piece = json.loads(run("what-if", made["store"], "--json", "--from", "300ms", "--to", "0.4").stdout)
    assert piece["recorded_runtime"] == pytest.approx(0.1, rel=1e-3)
    assert piece["recorded_runtime"] < whole["recorded_runtime"]
    within = json.loads(run("what-if", made["store"], "--json", "--within", "h_coll").stdout)
    assert within["recorded_runtime"] == whole["recorded_runtime"]
    assert within["savings"]
    assert all("h_coll" in row["path"].split("/") for row in within["savings"])
    assert any("h_coll" not in row["path"].split("/") for row in whole["savings"])
    assert run("what-if", made["store"], "--within", "nowhere").exit_code == 1


def test_show__of_what_is_below_the_threshold_is_no_error(made):
    result = run("show", made["cube"], "-p", "mpi_latesender", "--min-share", "50%")
    assert result.exit_code == 0
    assert "all of it is less than 0.5 of the whole: --min-share 0 shows it" in result.stdout
    result = run("show", made["cube"], "-p", "mpi_io", "--min-share", "0")
    assert (result.exit_code, "all values are zero" in result.stdout) == (0, True)


def test_show__prints_as_many_rows_as_asked_for(made):
    result = run("show", made["cube"], "-p", "time", "--rows", "3", "--min-share", "0")
    tree = [line for line in result.stdout.splitlines() if "%" in line and line.lstrip("│├└─ ")[:1].isdigit()]
    assert len(tree) == 3
    assert "smaller ones; --rows shows more" in result.stdout


@pytest.mark.parametrize(
    ("name", "first"),
    [("idle", "omp_idle_threads"), ("broadcast", "mpi_latebroadcast"), ("barrier implicit", "omp_ibarrier")],
)
def test_show__searches_ids_and_titles(name, first, made):
    assert first in executed("show", made["cube"], "-p", name, code=1).partition("did you mean ")[2]
