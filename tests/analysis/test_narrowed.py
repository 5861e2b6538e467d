"""Cubes record what they are narrowed to, have distinct names, and no file is overwritten silently."""

import json
import re
from pathlib import Path

import pytest
from support.command_line import executed, run

import tracecols
from tracecols.severity import SeverityCube
from tracecols.severity.narrowed import LONGEST, in_a_name, in_words, made_how, ranges


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(result):
    """Return the path of the cube that a command made."""
    assert result.exit_code == 0, result.output
    return Path(result.output.partition(": ")[0])


CASES = [
    ((), "h.severity", ""),
    (("--conventions", "expert"), "h.expert.severity", ""),
    (("-p", "mpi_latebroadcast"), "h.mpi_latebroadcast.severity", "narrowed: mpi_latebroadcast"),
    (("-p", "Late Broadcast"), "h.mpi_latebroadcast.severity", "narrowed: mpi_latebroadcast"),
    (("--within", "h_region"), "h.within-h_region.severity", "narrowed: within h_region"),
    (("--within", "h_*"), "h.within-h_.severity", "narrowed: within h_*"),
    (("--from", "0.3", "--to", "0.35"), "h.from-0.3-to-0.35.severity", "narrowed: from 0.3 s, to 0.35 s"),
    (("--to", "0.35"), "h.to-0.35.severity", "narrowed: to 0.35 s"),
    (("--locations", "4,0-2"), "h.locations-0-2,4.severity", "narrowed: locations 0-2,4"),
    (
        ("--conventions", "expert", "-p", "mpi", "--within", "main", "--locations", "1"),
        "h.expert.mpi.within-main.locations-1.severity", "narrowed: mpi, within main, locations 1",
    ),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("options", "name", "words"), CASES)
def test_analyze__names_a_cube_by_how_it_was_made(options, name, words, store, here):
    assert made(run("analyze", store, *options)) == Path(name)
    assert [p.name for p in here.iterdir()] == [name]
    cube = SeverityCube.load(name)
    assert cube.summary().endswith(words)
    assert words in repr(cube).splitlines()[0]
    for command in ("show", "info"):
        assert words in " ".join(run(command, name).output.split())
    assert run("report", name).exit_code == 0
    page = Path(name).with_suffix(".html").read_text(encoding="utf-8")
    assert ", ".join(filter(None, ("hybrid_2x3", words))) in re.search("<title>(.*)</title>", page)[1]
    # run again, the same command replaces its output, under the default name or a given one
    again = () if CASES.index((options, name, words)) % 2 else ("-o", name)
    assert run("analyze", store, *again, *options).exit_code == 0
    assert again or run("report", name).exit_code == 0


@pytest.mark.slow
def test_analyze__does_not_overwrite_a_cube_that_was_made_in_another_way(store, here):
    made(run("analyze", store))
    before = (here / "h.severity" / "manifest.json").read_bytes()
    for options, _, words in CASES[1:]:
        output = executed("analyze", store, *options, "-o", "h.severity", code=1)
        assert "h.severity exists and was made in another way: exact conventions, not narrowed; this one: " in output
        assert (words or "expert conventions") in output
        assert "--force" in output
        assert (here / "h.severity" / "manifest.json").read_bytes() == before
    assert made(run("analyze", store, "-p", "mpi", "-o", "h.severity", "--force")) == Path("h.severity")
    assert run("analyze", store).exit_code == 1
    assert run("analyze", store, "-p", "mpi", "-o", "h.severity").exit_code == 0
    assert run("analyze", store, "--force").exit_code == 0
    assert SeverityCube.load("h.severity").facts.get("narrowed") is None


@pytest.mark.slow
def test_exports__replace_what_the_same_command_made(store, here):
    made(run("analyze", store))
    made(run("analyze", store, "--conventions", "expert"))
    for ending in ("cubex", "cube", "csv", "json", "parquet"):
        for _ in range(2):
            assert run("export", "h.severity", f"h.{ending}").exit_code == 0
        executed("export", "h.expert.severity", f"h.{ending}", code=1 if ending.startswith("cube") else 0)
    assert run("export", "h.expert.severity", "h.cubex", "--force").exit_code == 0
    assert tracecols.read_cube("h.cubex").facts["conventions"] == "expert"
    for name in ("scout.cubex", "summary.cube", "page.html"):
        Path(name).write_text("somebody else's")
        command = "report" if name.endswith("html") else "export"
        arguments = ("h.severity", *(["-o"] if command == "report" else []), name)
        output = executed(command, *arguments, code=1)
        assert re.search(f"{name} exists and is not a (severity cube|report) of tracecols\n  .*--force", output)
        assert Path(name).read_text() == "somebody else's"
        assert run(command, *arguments, "--force").exit_code == 0


@pytest.mark.slow
def test_compare__does_not_overwrite_its_operands(store, here):
    made(run("analyze", store))
    made(run("analyze", store, "--within", "main"))
    pair = ("h.severity", "h.within-main.severity")
    assert "is, or holds, what is read" in executed("compare", *pair, "-o", "h.severity", code=1)
    for _ in range(2):
        assert run("compare", *pair, "-o", "d.severity", "-o", "d.csv", "-o", "d.cubex").exit_code == 0
    assert run("compare", *pair, "-o", "d.severity", "--operation", "mean").exit_code == 1
    assert run("compare", *pair, "-o", "d.severity", "--operation", "mean", "--force").exit_code == 0
    notes = run("compare", *pair).output
    told = "note: the analyses look at different things, so that there is no speedup: h: not narrowed; h.within-main: "
    assert f"{told}narrowed: within main" in notes


@pytest.mark.slow
def test_difference__of_cubes_narrowed_alike_is_narrowed(store):
    trace = tracecols.open(store)
    a, b = trace.analyze(within="main"), trace.analyze(within="main")
    assert (a - b).summary().endswith("difference of 2 cubes, narrowed: within main")
    assert "narrowed" not in (a - trace.analyze()).summary()


def test_name__is_bounded_and_fits_every_file_system():
    odd = {"narrowed": {"within": 'std::map<"a/b", \\c>|?*\n' * 20, "properties": ["x" * 50, "\u00fc"]}}
    name = in_a_name("exact", odd)
    assert len(name) <= LONGEST
    assert re.fullmatch(r"[A-Za-z0-9_.+,=-]+", name)
    other = {"narrowed": {**odd["narrowed"], "within": odd["narrowed"]["within"] + "x"}}
    assert in_a_name("exact", other) != name
    assert in_a_name("exact", {}) == ""


def test_words__of_facts_that_make_no_sense_are_left_out():
    """Facts may come from files."""
    for nonsense in (
        3,
        [],
        {"within": 3, "properties": [1], "locations": "x", "start": "0", "parameters": {"a": 1}, "x": {}},
    ):
        assert in_words({"narrowed": nonsense}) == ""
        assert in_a_name("exact", {"narrowed": nonsense}) == ""
        json.dumps(made_how({"narrowed": nonsense}))


def test_ranges__are_as_short_as_they_can_be():
    assert ranges([3, 1, 2, 7, 9, 8, 7]) == "1-3,7-9"
    assert ranges([]) == ""
    assert ranges([5]) == "5"


@pytest.mark.slow
def test_parameters__of_properties_are_told(store, here):
    (here / "p.py").write_text(
        "import tracecols\n"
        "@tracecols.pattern('mine', 'mpi_latesender', 'Mine', table='messages', summary='Mine.',\n"
        "    parameters={'n': tracecols.Parameter(1, 'bytes', 'a number')})\n"
        "def mine(model, m, parent, *, n):\n    return parent\n"
    )
    assert made(run("analyze", store, "--patterns", "p.py")) == Path("h.severity")
    assert made(run("analyze", store, "--patterns", "p.py", "--set", "mine.n=5")) == Path("h.mine.n=5.0.severity")
    assert SeverityCube.load("h.mine.n=5.0.severity").summary().endswith("with mine.n=5.0")


@pytest.mark.slow
def test_commands__that_write_replace_nothing_of_somebody_else(store, here, data):
    """One rule for all commands: files that tracecols did not write, as far as they show it, are kept."""
    made(run("analyze", store, "-q"))
    for number, (arguments, name) in enumerate(
        [
            (("convert", data / "hybrid_2x3", "-o"), "{}.trace"),
            (("analyze", store, "-o"), "{}.severity"),
            (("report", "h.severity", "-o"), "{}.html"),
            (("compare", "h.severity", "h.severity", "-o"), "{}.html"),
            (("compare", "h.severity", "h.severity", "-o"), "{}.severity"),
            (("compare", "h.severity", "h.severity", "-o"), "{}.cubex"),
            (("export", "h.severity"), "{}.cube"),
            (("export", store), "{}.otf2"),
            (("what-if", store, "--scale", "do_work=0.5", "-o"), "{}.trace"),
        ]
    ):
        path = Path(name.format(number))
        path.write_text("somebody else's")
        assert path.name in executed(*arguments, path, code=1) and path.read_text() == "somebody else's"
    # a prediction does not replace the recording
    output = executed("what-if", store, "--scale", "do_work=0.5", "-o", store, code=1)
    assert "is, or holds, what is read" in output
