"""Tables in the terminal are no wider than it is."""

from __future__ import annotations

import pytest
from conftest import DATA
from rich.console import Console
from rich.text import Text
from support.command_line import run

import tracecols
from tracecols.report.tables import TextTable, middle_out

PATH = "main/solve/iterate/exchange_of_all_borders/MPI_Waitall"


def lines(table: TextTable) -> list[str]:
    console = Console(width=1000)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def table(width=None, spare=()):
    made = TextTable("gain", "computation", "largest", "<call path", width=width, spare=spare)
    made.add("0.123456 s", Text("1.000000 s", "red"), "0.500000 s", PATH)
    made.add("0.000001 s", "2.000000 s", "0.250000 s", "main")
    return made


def test_table__as_wide_as_it_needs():
    assert lines(table())[2] == f"0.123456 s    1.000000 s   0.500000 s   {PATH}"
    assert lines(table(width=200)) == lines(table())


@pytest.mark.parametrize("width", [60, 70, 79, 80, 90])
def test_table__fits_and_keeps_its_numbers(width):
    shown = lines(table(width=width))
    assert max(map(len, shown)) <= width
    assert shown[2].split()[:2] == ["0.123456", "s"]
    assert shown[2].endswith("MPI_Waitall")
    assert "1.000000 s" in shown[2] and "0.500000 s" in shown[2]


def test_table__leaves_out_columns_for_readable_texts():
    shown = lines(table(width=58, spare=(2, 1)))
    assert "largest" not in shown[0] and "computation" not in shown[0]
    assert shown[2].endswith("exchange_of_all_borders/MPI_Waitall")
    assert "largest" in lines(table(width=80, spare=(2, 1)))[0]


def test_table__call_paths_that_would_look_alike_lose_their_middle_only():
    made = TextTable("gain", "<call path", width=50)
    for line in (16, 31):
        made.add("0.1 s", f"main/solve/!$omp parallel for schedule @a.c:{line}/compute/work")
    made.add("0.1 s", "main/solve/!$omp parallel for schedule @a.c:16/compute/rest")
    assert [row.split("   ")[1] for row in lines(made)[2:]] == [
        "main/solve/!$omp par...a.c:16/compute/work",
        "main/solve/!$omp par...a.c:31/compute/work",
        "main/.../compute/rest",
    ]


@pytest.mark.parametrize(("width", "expected"), [(11, "after - bef"), (9, "aft...ore"), (3, "..."), (5, "a...e")])
def test_title__loses_its_middle(width, expected):
    text = "after - bef" if width == 11 else "after - before"
    assert middle_out(text, width) == expected


@pytest.mark.slow
def test_efficiency__of_many_runs_fits_and_keeps_its_names(cube, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    paths = [tmp_path / f"run-{i}.severity" for i in range(8)]
    for path in paths:
        cube.save(path)
    shown = [line.rstrip() for line in run("efficiency", *paths).output.splitlines()]
    assert max(map(len, shown)) <= 80
    (head,) = [line.split() for line in shown if line.startswith("Times")]
    assert (head[1], head[-1]) == ("run-0", "run-7") and "run-1" not in head
    assert any(line.startswith("  MPI parallel efficiency") for line in shown)
    assert f"{8 - len(head[1:])} runs left out: --json has all" in shown


@pytest.mark.slow
def test_commands__print_no_line_that_is_wider(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = tracecols.convert(DATA / "hybrid_2x3", tmp_path / "a_program_with_a_long_name_2x3.trace")
    cube = tracecols.open(store).analyze().save(tmp_path / "a_program_with_a_long_name_2x3.severity")
    other = opened(DATA / "coll")
    other.analyze().save(tmp_path / "another_program_with_a_long_name.severity")
    for words in (
        f"what-if {store.name}",
        f"what-if {store.name} --slack",
        f"compare {cube.name} another_program_with_a_long_name.severity",
        f"compare {cube.name} another_program_with_a_long_name.severity --scaling",
        f"efficiency {cube.name} another_program_with_a_long_name.severity",
    ):
        for width in (80, 120):
            monkeypatch.setenv("COLUMNS", str(width))
            result = run(*words.split())
            assert result.exit_code == 0, result.output
            wide = [line for line in result.stdout.splitlines() if len(line) > width and not line.startswith("note")]
            # sentences are folded by the terminal, tables are not
            assert not [line for line in wide if "  " in line.strip()], (words, wide)
