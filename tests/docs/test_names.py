"""Look-up of properties, call paths and regions by name: the same everywhere."""

import pytest
from support.command_line import executed, run
from support.small_cubes import small_cube

import tracecols
from tracecols.errors import AnalysisError, ExportError, SeverityError, TracecolsError
from tracecols.patterns.registry import CONVENTIONS, properties
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.resolve import find_property, fitting, title_path


@pytest.fixture(scope="module")
def saved(cube, tmp_path_factory):
    return cube.save(tmp_path_factory.mktemp("names") / "h.severity")


LOOK_UPS = {
    "analyze": (AnalysisError, lambda trace, cube, name: trace.analyze(properties=[name])),
    "matches": (AnalysisError, lambda trace, cube, name: trace.matches(name)),
    "total": (SeverityError, lambda trace, cube, name: cube.total(name)),
    "own_total": (SeverityError, lambda trace, cube, name: cube.own_total(name)),
    "frame": (SeverityError, lambda trace, cube, name: cube.frame(name)),
    "wide": (SeverityError, lambda trace, cube, name: cube.wide([name])),
    "changes": (SeverityError, lambda trace, cube, name: tracecols.compare([cube, cube]).changes(name)),
    "parameters": (AnalysisError, lambda trace, cube, name: trace.analyze(parameters={name: {"x": 1}})),
}


@pytest.mark.parametrize("look_up", LOOK_UPS)
def test_title__of_several_properties_is_refused_with_all_of_them(look_up, trace, cube):
    error, call = LOOK_UPS[look_up]
    with pytest.raises(error, match=r"4 properties .* have the title 'Contention'; give the id of one") as e:
        call(trace, cube, "Contention")
    assert (
        "  omp_lock_contention_critical         Time / Execution / OpenMP / Synchronization / Critical / Contention\n"
        in str(e.value)
    )
    assert "  pthread_lock_contention_conditional  Time / Execution / POSIX Threads" in str(e.value)


def test_title__of_one_property_is_its_name(cube):
    for name in ("total", "own_total", "whole"):
        assert getattr(cube, name)("Late Sender") == getattr(cube, name)("mpi_latesender")


@pytest.mark.parametrize("look_up", LOOK_UPS)
def test_name__of_no_property_is_refused_with_the_nearest(look_up, trace, cube):
    error, call = LOOK_UPS[look_up]
    with pytest.raises(error, match=r"no property 'late_brodcast' .*\n  did you mean .*mpi_latebroadcast"):
        call(trace, cube, "late_brodcast")
    with pytest.raises(error, match=r"did you mean (mpi|nccl)_late"):
        call(trace, cube, "late")  # times before their root causes and counts, whose titles have the word as well
    with pytest.raises(TracecolsError, match="no property 'qqqq'"):
        call(trace, cube, "qqqq")


def test_analyze__of_an_ambiguous_title_computes_nothing_else(trace):
    with pytest.raises(AnalysisError, match=r"7 properties .* have the title 'Collective'"):
        trace.analyze(properties=["Collective"])
    assert trace.analyze(properties="late BROADCAST").properties.id[-1] == "mpi_latebroadcast"
    assert len(trace.matches("Late Broadcast")) == 3


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_look_up__finds_every_property_by_id_and_by_a_title_of_its_own(conventions):
    axis = PropertyAxis.of(properties(conventions))
    for id, title in zip(axis.id, axis.title, strict=True):
        assert find_property(axis, id, "", SeverityError, "") == id
        same = [i for i, t in zip(axis.id, axis.title, strict=True) if t.lower() == title.lower()]
        assert fitting(axis, title.upper()) == ([title.upper()] if title.upper() in axis.id else same)
        assert title_path(axis, id).endswith(title)


def test_title__that_is_an_id_means_the_property_of_that_id():
    axis = PropertyAxis(["a", "b"], ["", ""], ["b", "A"], *[["", ""]] * 3, [1.0, 1.0], [False, False])
    assert [find_property(axis, n, "", SeverityError, "") for n in ("a", "b", "A", "B")] == ["a", "b", "b", "a"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "{cube}", "-p", "Collective"),
        ("compare", "{cube}", "{cube}", "-p", "Collective"),
        ("analyze", "{trace}", "-p", "Collective", "-o", "{folder}/x.severity"),
        ("export", "{trace}", "{folder}/x.pftrace", "--waits", "Contention"),
    ],
)
def test_commands__refuse_an_ambiguous_title(arguments, trace, saved, tmp_path):
    output = executed(*(a.format(cube=saved, trace=trace.path, folder=tmp_path) for a in arguments), code=1)
    assert "; give the id of one\n" in output
    assert not list(tmp_path.iterdir())


def test_export__takes_titles_of_wait_states(trace, tmp_path):
    result = run("export", trace.path, tmp_path / "x.pftrace", "--waits", "Late Broadcast")
    assert "wait states of mpi_latebroadcast: 3" in result.output
    with pytest.raises(ExportError, match="no wait states of a property 'time'"):
        from tracecols.export.viewers import export_timeline

        export_timeline(trace.path, tmp_path / "y.pftrace", waits="Time")


# -- call paths --------------------------------------------------------------------------------------------------------


def test_call_path__is_found_by_the_region_it_enters(cube):
    by_path = cube.find_call_paths("*/MPI_Recv")
    assert by_path.sum() == 1
    assert (cube.find_call_paths("MPI_Recv") == by_path).all()
    assert (cube.find_call_paths("MPI_Rec?") == by_path).all()
    # a whole path takes precedence: the root alone, without the call paths below it
    assert cube.find_call_paths("hybrid").sum() == 1
    with pytest.raises(SeverityError, match=r"no call path matches 'MPI_Recvv'\n  did you mean MPI_Recv"):
        cube.find_call_paths("MPI_Recvv")


def test_call_path__of_a_name_in_square_brackets_is_no_pattern(cube):
    odd = small_cube({"time": {("main/f[1]", 0, 0): 1, ("main/f1", 0, 0): 2}})
    assert odd.frame("time", call_path="f[1]").value.tolist() == [0.001]


def test_commands__take_a_region_as_a_call_path(saved):
    for command in ("show", "rules"):
        assert run(command, saved, "-c", "MPI_Recv").output == run(command, saved, "-c", "*/MPI_Recv").output


@pytest.mark.parametrize(
    ("arguments", "in_shell", "call", "in_python"),
    [
        (("show", "{cube}", "-p", "qqqq"), "tracecols show --min-share 0", lambda t, c: c.total("qqqq"), "cube.properties.id"),
        (
            ("analyze", "{trace}", "--locations", "9", "-o", "{folder}/x.severity"), "see tracecols info",
            lambda t, c: t.analyze(locations=9), "see trace.locations",
        ),
        (
            ("analyze", "{trace}", "--within", "qqqq", "-o", "{folder}/x.severity"), "tracecols show",
            lambda t, c: t.analyze(within="qqqq"), "see trace.call_paths",
        ),
    ],
)  # fmt: skip
def test_hints__fit_where_they_are_shown(arguments, in_shell, call, in_python, trace, cube, saved, tmp_path):
    output = run(*(a.format(cube=saved, trace=trace.path, folder=tmp_path) for a in arguments)).output
    assert in_shell in output
    assert "cube." not in output
    assert "trace." not in output.replace("h.trace", "")
    with pytest.raises(TracecolsError) as e:
        call(trace, cube)
    assert in_python in str(e.value)
