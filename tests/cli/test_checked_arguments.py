"""Arguments of `analyze` are checked before events are read, and lists with commas are understood."""

import pytest
from support.command_line import executed, run

import tracecols
from tracecols.errors import AnalysisError
from tracecols.severity import SeverityCube
from tracecols.store import reader

WRONG = {
    "a pattern": (["-p", "*"], "no property '*' under the exact conventions: patterns are not understood\n  give each by its name: -p time -p"),
    "a pattern of some": (["-p", "mpi_late*er"], "give each by its name: -p mpi_latesender -p mpi_latereceiver\n"),
    "a pattern in a list": (["-p", "mpi,omp_idle*"], "give each by its name: -p omp_idle_threads"),
    "no property": (["-p", "mpi_latesendr"], "did you mean mpi_latesender"),
    "no property in a list": (["-p", "mpi,visitz"], "did you mean visits"),
    "no property of a parameter": (["--set", "late.threshold=1"], "no property 'late'"),
    "no parameter": (["--set", "mpi_latesender.threshold=1"], "property 'mpi_latesender' has no parameter 'threshold'"),
    "no region": (["--within", "mane"], "no call path enters a region 'mane'\n  did you mean main?"),
    "no phases": (["--phases", "mane"], "no region of this trace is called 'mane'"),
    "no location": (["--locations", "99"], "no location 99"),
    "no time": (["--from", "2", "--to", "1"], "nothing lies between 2 s and 1 s"),
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory, data):
    return tracecols.convert(data / "late_sender", tmp_path_factory.mktemp("checked") / "s.trace")


def analyze(*arguments):
    return run("analyze", *arguments)


@pytest.mark.parametrize("wrong", WRONG)
def test_analyze__checks_its_arguments_before_it_reads_events(wrong, store, data, tmp_path, monkeypatch):
    arguments, words = WRONG[wrong]
    monkeypatch.setattr(reader.Store, "read", None)
    monkeypatch.setattr(reader.Store, "read_together", None)
    monkeypatch.setattr("tracecols.conversion.write_store", None)
    # the number of locations of an archive is known as well, but not which of them a text selects
    for source in [store, *([data / "late_sender"] if wrong != "no location" else [])]:
        result = analyze(source, "-o", tmp_path / "x.severity", *arguments)
        assert (result.exit_code, words in result.output) == (1, True), result.output
    assert not list(tmp_path.iterdir())


def test_python__checks_its_arguments_before_it_reads_events(store, monkeypatch):
    monkeypatch.setattr(reader.Store, "read", None)
    monkeypatch.setattr(reader.Store, "read_together", None)
    trace = tracecols.open(store)
    for given in (
        {"properties": "*"},
        {"properties": ["mpi", "no"]},
        {"within": "mane"},
        {"phases": "mane"},
        {"start": 2, "stop": 1},
    ):
        with pytest.raises(AnalysisError):
            trace.analyze(**given)


@pytest.mark.slow
def test_analyze__takes_lists_with_commas(store, tmp_path):
    listed, given = tmp_path / "a.severity", tmp_path / "b.severity"
    assert analyze(store, "-q", "-o", listed, "-p", "late sender, visits", "-p", "mpi_wait_direct").exit_code == 0
    assert (
        analyze(store, "-q", "-o", given, *("-p", "mpi_latesender", "-p", "visits", "-p", "mpi_wait_direct")).exit_code
        == 0
    )
    a, b = SeverityCube.load(listed), SeverityCube.load(given)
    assert a.facts["narrowed"] == b.facts["narrowed"] == {"properties": ["mpi_latesender", "visits", "mpi_wait_direct"]}
    assert a.frame().equals(b.frame())
    # running the same command again replaces the cube
    assert analyze(store, "-q", "-o", listed, "-p", "late sender, visits", "-p", "mpi_wait_direct").exit_code == 0
    executed("compare", listed, given, "-p", "visits,late sender")
    output = executed("compare", listed, given, "-p", "mpi*", code=1)
    assert "patterns are not understood\n  give each by its name: -p mpi -p mpi_communication" in output
    result = run("show", listed, "-p", "mpi_late*")
    assert "patterns are not understood\n  give whole names; it would fit mpi_latesender" in result.output


@pytest.mark.parametrize("properties", [["delay", "time"], ["comp"], ["time"]])
def test_diagnosis__of_a_cube_without_losses_says_why_there_are_no_findings(properties, store):
    text = tracecols.open(store).analyze(properties=properties).diagnosis().text()
    assert (
        "No findings: they are about wait states and overheads, and this cube was narrowed to other properties" in text
    )
    assert "costs as much" not in text
    assert "costs as much" in tracecols.open(store).analyze(properties="mpi_earlyreduce").diagnosis().text()


@pytest.mark.parametrize(
    ("name", "words"), [("no.severity", "no such cube: no.severity"), ("no.trace", "no such store: no.trace")]
)
def test_export__of_what_does_not_exist_says_so(name, words):
    result = run("export", name, "x.cubex")
    assert result.exit_code == 1 and words in result.output


def test_diagnosis__of_no_rows_does_not_say_that_nothing_costs_time(store):
    cube = tracecols.open(store).analyze()
    none = cube.diagnosis(0)
    assert none.n_findings == len(cube.diagnosis(1000).findings) > 0
    assert f"{none.n_findings} findings, none of them shown, of" in none.text()


@pytest.mark.parametrize(
    "words", ["what-if {} --scale mane=0.5", "efficiency {} --within mane", "efficiency {} --within mane --from 0.1"]
)
def test_region__that_is_not_defined_is_refused_before_events_are_read(words, store, monkeypatch):
    monkeypatch.setattr(reader.Store, "read", None)
    monkeypatch.setattr(reader.Store, "read_together", None)
    output = executed(*words.format(store).split(), code=1)
    assert "no call path enters a region 'mane'\n  did you mean main?" in output


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("what-if {} --scale main=0.5 --scale main=2", "main"),
        ("analyze {} --set late_big.threshold=1MB --set late_big.threshold=2MB", "threshold"),
    ],
)
def test_option__with_two_values_for_one_name_is_refused(words, name, store):
    assert f"{name} is given twice" in executed(*words.format(store).split(), code=2)
