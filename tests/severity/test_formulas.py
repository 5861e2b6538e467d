"""Computed metrics: formulas follow the rules of Python, and ratios are computed from sums."""

import json
import math
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command_line import executed, run
from support.cube_files import ANCHOR, foreign, index
from support.periods import loop
from support.severities import cube_of

import tracecols
from tracecols.errors import AnalysisError, ForeignCubeWarning, SeverityError
from tracecols.export.cube_read import read_cube
from tracecols.severity.algebra import mean
from tracecols.severity.formulas import definition, parse, specification
from tracecols.testing import Program

VALUES = {"a": 3.5, "b": -2.0, "zero": 0.0, "PAPI_L1:x": 7.0, "any name 1": 0.25}


# -- formulas ----------------------------------------------------------------------------------------------------------

leaves = st.one_of(
    st.integers(0, 99).map(str),
    st.sampled_from(["0.5", "1e3", ".25", "2.", "a", "b", "zero", "PAPI_L1:x", '"any name 1"']),
    st.sampled_from(["a", "b", "zero"]).map(lambda name: f"metric::{name}()"),
)
formulas = st.recursive(
    leaves,
    lambda of: st.one_of(
        st.tuples(of, st.sampled_from("+-*/"), of).map(" ".join),
        of.map(lambda one: f"({one})"),
        of.map(lambda one: f"-{one}"),
        st.tuples(st.sampled_from(["min", "max"]), of, of).map(lambda f: f"{f[0]}({f[1]}, {f[2]})"),
    ),
    max_leaves=12,
)


class Number(float):
    """A number whose operators are those of Python, but for divisions."""

    def __truediv__(self, other):
        return Number(0.0 if self == 0 else math.nan if other == 0 else float(self) / float(other))

    def __add__(self, other):
        return Number(float(self) + float(other))

    def __sub__(self, other):
        return Number(float(self) - float(other))

    def __mul__(self, other):
        return Number(float(self) * float(other))

    def __neg__(self):
        return Number(-float(self))


def in_python(text):
    """Evaluate a formula as Python does, written with a call for every number and name."""

    token = r'metric::(\w+)\(\)|"([^"]+)"|((?:\d+\.?\d*|\.\d+)(?:e\d+)?)|([A-Za-z_][\w:]*)'

    def replaced(m):
        if m[4] in ("min", "max"):
            return f"{m[4]}_"
        return f"n({float(m[3])!r})" if m[3] else f"n({VALUES[m[1] or m[2] or m[4]]!r})"

    smaller = {"min_": lambda a, b: Number(np.minimum(a, b)), "max_": lambda a, b: Number(np.maximum(a, b))}
    return eval(re.sub(token, replaced, text), {"n": Number, **smaller})


@settings(max_examples=300)
@given(formulas)
def test_evaluate__is_what_python_computes(text):
    formula = parse(text)
    expected = in_python(text)
    for same in (formula, parse(formula.text()), parse(formula.text(lambda name: f"metric::{name}()"))):
        found = float(same.evaluate(VALUES.__getitem__))
        assert found == expected or (math.isnan(found) and math.isnan(expected))
        assert list(same.names()) == list(formula.names())


def test_evaluate__arrays():
    found = parse("a / (a + b)").evaluate({"a": np.array([1.0, 0, 2]), "b": np.array([1.0, 0, -2])}.__getitem__)
    np.testing.assert_equal(found, [0.5, 0, np.nan])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a metric or a number is missing, at character 1"),
        ("a +", "a metric or a number is missing, at character 4"),
        ("a / 1e999", "a number is too large, at character 5"),
        ("a b", "an operator is missing, at character 3"),
        ("(a", r"'\)' is missing"),
        ("min(a)", "',' is missing"),
        ("max a", r"'\(' is missing"),
        ("a ^ 2", "a character that means nothing there, at character 3"),
        ("__import__('os')", "an operator is missing|means nothing"),
        ("metric::time(i)", "means nothing|an operator is missing"),
        ("(" * 5_000 + "a", "nests more than 100 deep"),
        ("-" * 5_000 + "a", "nests more than 100 deep"),
        ("a" + "+a" * 4_000, "more than 100 operators in a row"),
        ("a" * 20_000, "more than 10,000 characters"),
    ],
)
def test_parse__says_what_is_wrong(text, words):
    with pytest.raises(SeverityError, match=words):
        parse(text)


@pytest.mark.parametrize("text", ["ipc", "= a", "ipc = a +"])
def test_definition__says_what_is_wrong(text):
    with pytest.raises(SeverityError):
        definition(text)


def test_specification__of_expert():
    lines = [
        "# cache",
        "",
        "measure L1_MISS = PAPI_L1_DCM   # an alias",
        "aggroup CACHE = PAPI_L1_DCM PAPI_L1_DCA",
        "COMPOSE L1 = L1_HIT + L1_MISS",
        "compute RATE = L1_MISS / L1",
        "plain = L1 - L1_HIT",
    ]
    found = [(name, formula.text()) for name, formula in specification(lines)]
    assert found == [
        ("L1_MISS", "PAPI_L1_DCM"), ("L1", "L1_HIT + L1_MISS"), ("RATE", "L1_MISS / L1"), ("plain", "L1 - L1_HIT"),
    ]  # fmt: skip
    with pytest.raises(SeverityError, match="line 2: "):
        specification(["a = b", "a ="])


@pytest.mark.parametrize(
    ("text", "unit"),
    [("t / v", "sec/occ"), ("t / u", ""), ("t + u", "sec"), ("t + v", ""), ("t * 2", "sec"), ("2 * v / 3", "occ"), ("1 / t", "1/sec"), ("max(v, v)", "occ"), ("-t", "sec"), ("t * v", "")],
)  # fmt: skip
def test_unit(text, unit):
    assert parse(text).unit({"t": "sec", "u": "sec", "v": "occ"}.__getitem__) == unit


# -- cubes -------------------------------------------------------------------------------------------------------------

DERIVED = """<metric id="10" type="PREDERIVED_EXCLUSIVE"><uniq_name>square</uniq_name><dtype>DOUBLE</dtype><uom></uom><cubepl>metric::time() * metric::time()</cubepl></metric>
<metric id="11" type="PREDERIVED_INCLUSIVE"><uniq_name>most</uniq_name><dtype>DOUBLE</dtype><uom></uom><cubepl>max(metric::time(), 6)</cubepl></metric>
<metric id="12" type="POSTDERIVED"><uniq_name>other</uniq_name><dtype>DOUBLE</dtype><uom></uom><cubepl>metric::time(i)</cubepl></metric>
<metric id="13" type="POSTDERIVED"><uniq_name>half</uniq_name><dtype>DOUBLE</dtype><uom></uom><cubepl>metric::part() / 2;</cubepl></metric>
<metric id="14" type="POSTDERIVED"><uniq_name>part</uniq_name><dtype>DOUBLE</dtype><uom></uom><cubepl>metric::own() / metric::time()</cubepl></metric>
</metrics>"""


@pytest.fixture
def theirs(tmp_path):
    """Return a cube of another tool: time and own of main, main/f, main/f/g and main/g at two threads."""
    time = np.array([[1.5, 2.5], [4, 0], [5.25, 6], [0, 7]])
    own = np.array([[0.5, 2.5], [1, 0], [0, 3], [0, 3.5]])
    deep = index("<", 0, 1, 2, 3)
    head = b"CUBEX.DATA"
    with pytest.warns(ForeignCubeWarning, match=r"2 without values.*: other \(POSTDERIVED\), half \(POSTDERIVED\)"):
        return read_cube(
            foreign(
                tmp_path / "x.cubex",
                anchor=ANCHOR.replace("</metrics>", DERIVED),
                m0_index=deep,
                m0_data=head + time.astype("<f8").tobytes(),
                m3_index=deep,
                m3_data=head + own.astype("<f8").tobytes(),
            )
        )


def test_read__expressions_are_computed_when_cubelib_computes_them(theirs):
    time = np.array([[1.5, 2.5], [4, 0], [5.25, 6], [0, 7]])
    own = np.array([[0.5, 2.5], [1, 0], [0, 3], [0, 3.5]])
    # computed from sums
    assert theirs.total("rate") == time.sum()
    assert theirs.total("part") == own.sum() / time.sum()
    np.testing.assert_array_equal(theirs.by_location("part"), own.sum(0) / time.sum(0))
    # main/f with its callees, and without
    below = [0, 1, 2, 3], [1, 2], [2], [3]
    expected = [own[rows].sum() / time[rows].sum() for rows in map(list, below)]
    np.testing.assert_array_equal(theirs.by_call_path("part", "iie"), expected)
    np.testing.assert_array_equal(theirs.by_call_path("part"), own.sum(1) / time.sum(1))
    # computed before aggregation
    assert theirs.total("square") == (time**2).sum()
    inclusive = np.array([time[list(rows)].sum(0) for rows in below])
    assert theirs.by_call_path("most", "iie").tolist() == np.maximum(inclusive, 6).sum(1).tolist()
    assert theirs.frame("part", call_path="main/f/g").value.tolist() == [0.5]


def test_computed__by_period_and_in_call_trees(tmp_path):
    cube = cube_of(loop(iterations=2), phases="step").with_metrics("each = time / visits", "twice = 2 * each")
    # MPI_Send takes 2 ticks in each step, MPI_Recv 8
    expected = [("MPI_Recv", 1, 0, 16), ("MPI_Recv", 1, 1, 16), ("MPI_Send", 0, 0, 4), ("MPI_Send", 0, 1, 4)]
    found = cube.frame("twice", call_path="MPI_*", by_period=True)
    assert found.dtypes.tolist()[2:] == ["int32", "int32", "int32", "float64"]
    ticks = (found.value * cube.resolution).round()
    assert list(zip(found.call_path.str[10:], found["rank"], found.phase, ticks, strict=True)) == expected
    (root,), (one,) = cube.to_hatchet(), cube.to_hatchet(rank=1)
    assert root["metrics"]["each (inc)"] == cube.total("time") / cube.total("visits")
    assert one["metrics"]["twice (inc)"] == 2 * cube.by_location("time")[1] / cube.by_location("visits")[1]
    shown = run("show", cube.save(tmp_path / "x.severity"), "-p", "twice", "--over-time")
    assert "\u2588\u2588  MPI_Recv" in shown.output, shown.output


def test_frame__has_a_property_that_is_named_twice_once(theirs):
    assert theirs.frame(["time", "time"]).equals(theirs.frame("time"))


def test_computed__is_kept_in_files(theirs, tmp_path):
    cube = theirs.with_metrics("twice = 2 * part", "mix = own / (time + 1)")
    cube.save(tmp_path / "x.severity")
    tracecols.export.cubex.write_cubex(cube, tmp_path / "y.cubex")
    for file in ("x.severity", "y.cubex"):
        again = read_cube(tmp_path / file)
        for name in ("part", "twice", "mix", "most"):
            assert again.properties.is_computed(name) == (name != "most")
            assert again.total(name) == cube.total(name)
            np.testing.assert_array_equal(again.by_call_path(name), cube.by_call_path(name))
    again = read_cube(tmp_path / "x.severity")
    assert again.frame("mix").equals(cube.frame("mix"))


def test_computed__and_arithmetic_of_cubes(theirs):
    assert "part" not in (theirs - theirs).properties.id
    assert mean([theirs, theirs]).total("part") == theirs.total("part")
    other = theirs.without_computed().with_metrics("part = time / own")
    with pytest.raises(SeverityError, match="computed as"):
        mean([theirs, other])


def test_with_metrics__says_what_is_wrong(theirs):
    for text, words in {
        "time = own / 2": "is a property of this cube already",
        "x = owm / 2": "did you mean own",
        "x": "defines no metric",
    }.items():
        with pytest.raises(SeverityError, match=words):
            theirs.with_metrics(text)


# -- traces and commands -----------------------------------------------------------------------------------------------


def test_metrics__of_other_metrics_have_the_values_of_the_whole_formula():
    cube = cube_of(loop(iterations=2), phases="step")
    cube = cube.with_metrics("k = 2", "share = mpi / time", "rest = k - share", "whole = 2 - mpi / time")
    # call paths outside MPI have no share, and the whole rest
    assert len(cube.frame("rest")) > len(cube.frame("share")) > 0
    for by_period in (False, True):
        rest, whole = (cube.frame(name, by_period=by_period).drop(columns="property") for name in ("rest", "whole"))
        assert rest.equals(whole)
    assert cube.wide("rest").rest.tolist() == cube.wide("whole").whole.tolist()
    assert cube.frame("k").empty


@pytest.mark.slow
def test_analyze__computes_metrics_of_phases_and_grids(store):
    trace = tracecols.open(store)
    cube = trace.analyze(metrics=["each = time / visits", "less = each / 2"], bins=5)
    assert cube.total("each") == cube.total("time") / cube.total("visits")
    assert cube.total("less") == cube.total("each") / 2
    over = cube.over_time("each", by="rank").to_numpy()
    with np.errstate(all="ignore"):
        expected = cube.over_time("time", by="rank").to_numpy() / cube.over_time("visits", by="rank").to_numpy()
    known = np.isfinite(expected)
    np.testing.assert_array_equal(over[known], expected[known])
    laid = cube.on_topology(cube.topologies[0], "each")
    whole = cube.on_topology(cube.topologies[0], "time") / cube.on_topology(cube.topologies[0], "visits")
    np.testing.assert_array_equal(laid, whole)
    assert cube.violations() == []
    # only the requested metric, and those it is computed from
    few = trace.analyze(properties="mpi", metrics="share = mpi / time")
    assert few.total("share") == few.total("mpi") / few.total("time")
    with pytest.raises(AnalysisError, match="did you mean visits"):
        trace.analyze(metrics="x = visit / 2")


@pytest.mark.slow
def test_commands__take_metrics_and_files_of_them(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "METRICS.SPEC").write_text("compute EACH = time / visits\ncompose L1 = L1_HIT + L1_MISS\n")
    made = executed(
        "analyze", store, "-q", "--metric", "share = mpi / time", "--metric", "METRICS.SPEC", "-o", "x.severity"
    )
    assert "left out, since the cube lacks what they are computed from: L1" in made
    cube = read_cube(tmp_path / "x.severity")
    shown = executed("show", "x.severity", "--with-startup", "--metric", "two = share + 1")
    assert f"{cube.total('share') + 1:.4g}" in shown
    values = run("show", "x.severity", "--with-startup", "-p", "EACH", "-c", "MPI_Recv", "--json")
    selected = cube.find_call_paths("MPI_Recv")
    expected = cube.total("time", selected) / cube.total("visits", selected)
    assert json.loads(values.stdout)["value"] == pytest.approx(expected, rel=1e-12)
    assert "Computed: time / visits." in executed("show", "x.severity", "-p", "EACH")
    # values that are not a number are null: JSON has no NaN
    none = executed("show", "x.severity", "-p", "rate", "--metric", "rate = visits / mpi", "--json")
    assert "NaN" not in none and {row["exclusive"] for row in json.loads(none)["call_paths"]} >= {None}
    wrong = executed("show", "x.severity", "--metric", "nothing", code=1)
    assert "cannot read the metrics of nothing" in wrong
    # longer than the name of a file can be
    executed("show", "x.severity", "-p", "m", "--metric", f"m = {' ' * 2000}time")
    if hasattr(os, "mkfifo"):
        os.mkfifo("pipe")
        wrong = executed("show", "x.severity", "--metric", "pipe", code=1)
        assert "cannot read the metrics of pipe: it is a named pipe" in wrong


def test_show__of_a_metric_that_is_not_a_number(tmp_path):
    program = Program(1)
    program.masters[0].enter(0, "main").call(3, 10, "part").leave(15)
    cube = cube_of(program).save(tmp_path / "c.severity")

    def shown(formula):
        output = executed("show", cube, "-p", "m", "--metric", f"m = {formula}")
        assert "m (m)  -, computed" in output
        assert "--min-share" not in output
        return output

    assert shown("time / 0").endswith("nothing to show: no value is a number other than zero\n")
    # the whole is 15 / 0, the part 7 / -0.5
    assert " -14 sec/1  part\n" in shown("time / (time - 15 * visits / 2)")
