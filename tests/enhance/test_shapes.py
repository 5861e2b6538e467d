"""Traces of extreme shape: deep and wide call trees, many channels, communicators and locations, one location with
almost all events."""

import random
import re
import tracemalloc
from fnmatch import translate

import numpy as np
import pandas as pd
import pytest
from support.command_line import executed, run
from support.limits import within
from support.otf2_writer import EVENT, Archive
from support.small_cubes import small_cube

import tracecols
from benchmarks import generate
from tracecols.enhance.scan import paths
from tracecols.enhance.scan.paths import match_paths, path_names, shortened
from tracecols.errors import AnalysisError, SeverityError
from tracecols.export import tables
from tracecols.export.tables import write_parquet
from tracecols.severity.axes import CallAxis
from tracecols.severity.cells import Cells, inclusive
from tracecols.severity.periods import PeriodAxis, PeriodCells

SHAPES = {
    "recursion": ("sweep", 2, 100_000, {"depth": 600, "nodes": 38_400, "functions": 1}),
    "deep": ("sweep", 2, 150_000, {"depth": 300, "nodes": 20_000}),
    "wide": ("sweep", 2, 150_000, {"depth": 2, "nodes": 20_000, "functions": 5_000}),
    "channels": ("channels", 8, 72_500, {}),
    "locations": ("sweep", 256, 35_500, {}),
    "one location": ("lopsided", 6, 100_000, {"depth": 4}),
}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Make a folder with the archives of all shapes, and cubes of them."""
    folder = tmp_path_factory.mktemp("shapes")
    truths = {}
    for name, (program, processes, events, options) in SHAPES.items():
        source = generate.make(program, processes, 1, events, 3, **options)
        truths[name] = source.truth
        archive = generate.write(source, folder / name, jobs=2)
        trace = tracecols.convert(archive, folder / f"{name}.trace")
        tracecols.open(trace).analyze().save(folder / f"{name}.severity")
    return folder, truths


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_shape__the_truth_is_found(work, shape):
    folder, truths = work
    cube = tracecols.SeverityCube.load(folder / f"{shape}.severity")
    for name, expected in truths[shape].waits.items():
        found = cube.by_location(name) / cube.scale(name)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)
    assert cube.total("visits") == sum(truths[shape].visits.values())


@pytest.mark.slow
def test_shape__they_have_the_shape(work):
    folder, _ = work
    cubes = {s: tracecols.SeverityCube.load(folder / f"{s}.severity").call_paths for s in SHAPES}
    assert cubes["recursion"].depth.max() > 600
    assert cubes["deep"].depth.max() > 300 and len(cubes["deep"]) > 10_000
    assert len(cubes["wide"]) > 10_000 and np.bincount(cubes["wide"].parent + 1).max() > 1_000
    trace = tracecols.open(folder / "channels.trace")
    channels = trace.messages[["send_location", "recv_location", "communicator", "tag"]].drop_duplicates()
    assert len(channels) == 10_000 and len(trace.communicators) == 1_001
    of_one = tracecols.open(folder / "one location.trace").store.definition("locations")["n_events"].to_pylist()
    assert max(of_one) > 0.9 * sum(of_one)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_shape__show_prints_what_can_be_read(work, shape):
    folder, _ = work
    cube = folder / f"{shape}.severity"
    for more in ([], ["--min-share", 0], ["--relative", "--seconds"]):
        output = executed("show", cube, "-p", "time", *more)
        assert len(output.splitlines()) < 6_000
        assert max(map(len, output.splitlines())) < 40 * 4 + 120
    executed("show", cube, "-p", "time", "-c", "*/main/*")


@pytest.mark.slow
def test_show__says_what_it_left_out(work):
    folder, _ = work
    result = run("show", folder / "recursion.severity", "-p", "time")
    note = re.search(r"and ([\d,]+) call paths on the levels 41 to ([\d,]+); --depth shows more", result.output)
    assert note and int(note[2].replace(",", "")) > 100
    deeper = run("show", folder / "recursion.severity", "-p", "time", "--depth", 60)
    assert len(deeper.output.splitlines()) > len(result.output.splitlines())
    assert "levels 61 to" in deeper.output
    wide = run("show", folder / "wide.severity", "-p", "time", "--min-share", 0)
    assert re.search(r"and [\d,]+ smaller ones; --rows shows more", wide.output)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["recursion", "wide", "channels"])
def test_shape__export_holds_every_cell(work, shape, tmp_path, monkeypatch):
    folder, _ = work
    monkeypatch.setattr(tables, "ROWS", 1_000)
    out = tmp_path / "x.parquet"
    assert run("export", folder / f"{shape}.severity", out).exit_code == 0
    frame = pd.read_parquet(out)
    expected = tracecols.SeverityCube.load(folder / f"{shape}.severity").frame()
    assert frame.astype({"property": str, "call_path": str}).equals(
        expected.astype({"property": str, "call_path": str})
    )


@pytest.mark.slow
def test_cells_of__call_path_inclusive_of_a_deep_tree(work):
    folder, _ = work
    cube = tracecols.SeverityCube.load(folder / "deep.severity")
    axis = cube.call_paths
    dense = np.zeros((len(axis), cube.system.n_locations), np.int64)
    time = cube.cells["time"]
    dense[time.call_path, time.location] = time.value
    for i in range(len(axis) - 1, 0, -1):
        dense[axis.parent[i]] += dense[i] if axis.parent[i] >= 0 else 0
    cells = cube.cells_of("time", "iie")
    assert (np.diff(cells.key) > 0).all()
    call_path, location = np.nonzero(dense)
    np.testing.assert_array_equal(cells.call_path, call_path)
    np.testing.assert_array_equal(cells.location, location)
    np.testing.assert_array_equal(cells.value, dense[call_path, location])
    np.testing.assert_array_equal(cube.by_call_path("time", "iie"), dense.sum(1) * cube.scale("time"))
    assert len(inclusive(Cells.empty(), axis)) == 0


def call_axis(parent):
    """Make a call tree with dummy names; parents come before their children, depth first."""
    parent = np.asarray(parent, np.int32)
    n = parent.size
    depth, end = np.zeros(n, np.int32), np.arange(1, n + 1)
    for i in range(n):
        depth[i] = depth[parent[i]] + 1 if parent[i] >= 0 else 0
    for i in range(n - 1, -1, -1):
        if parent[i] >= 0:
            end[parent[i]] = max(end[parent[i]], end[i])
    names = np.full(n, "f", object)
    return CallAxis(parent, depth, end, names, names, names, names, np.zeros(n, np.int64), names)


@pytest.mark.parametrize("how", ["sum", "min", "max"])
@pytest.mark.parametrize("kind", [int, float])
def test_inclusive__is_what_subtrees_are_reduced_to(how, kind):
    chance = random.Random(f"{how}{kind}")
    reduce = {"sum": sum, "min": min, "max": max}[how]
    for _ in range(200):
        n, n_locations, stack, parent = chance.randint(1, 12), chance.randint(1, 3), [], []
        for i in range(n):
            del stack[chance.randint(0, len(stack)) :]
            parent.append(stack[-1] if stack else -1)
            stack.append(i)
        axis = call_axis(parent)
        # multiples of a power of two are exact
        found = {(chance.randrange(n), chance.randrange(n_locations)): kind(chance.randint(-3, 3)) for _ in range(n)}
        call_path, location = (np.array(c) for c in zip(*found, strict=True))
        cells = Cells.reduce(call_path, location, np.array(list(found.values())), how)
        expected = {}
        for i in range(n):
            for at in range(n_locations):
                below = [found[j, at] for j in range(i, axis.end[i]) if (j, at) in found]
                if below and (how != "sum" or sum(below)):
                    expected[i, at] = reduce(below)
        result = inclusive(cells, axis, how)
        assert (np.diff(result.key) > 0).all()
        at = zip(result.call_path.tolist(), result.location.tolist(), strict=True)
        assert dict(zip(at, result.value.tolist(), strict=True)) == expected


def test_inclusive__of_sums_beyond_64_bits():
    large = (1 << 62) + 1
    axis = call_axis([-1, 0, 1, 1])
    cells = Cells(np.array([1, 2, 3], np.int64) << 32, np.array([-large, large, large]))
    assert inclusive(cells, axis).value.tolist() == [large, large, large, large]
    with pytest.raises(SeverityError, match="exceeds"):
        inclusive(Cells(cells.key, np.array([large, large, large])), axis)


def recursion(n):
    """Return the call paths of a function that calls itself."""
    parent, depth, end, name = np.arange(-1, n - 1, dtype=np.int32), np.arange(n, dtype=np.int32), np.full(n, n), "f"
    texts = [np.full(n, name, object)] * 4
    return CallAxis(parent, depth, end, *texts, np.zeros(n, np.int64), np.full(n, "", object))


@pytest.mark.slow
def test_inclusive__takes_time_in_the_number_of_cells_not_of_levels():
    n = 300_000
    # processed level by level, it took 15 s
    with within(5):
        cells = inclusive(Cells(np.arange(n) << 32, np.ones(n, np.int64)), recursion(n))
    assert cells.value.tolist() == list(range(n, 0, -1))


@pytest.mark.slow
def test_steps__are_found_in_time_of_the_number_of_regions():
    n = 50_000
    name = np.array([*(f"f{i} {i % 7}" for i in range(n - 2)), "step 1", "step 2"], object)
    # comparing each family with each name, it took 20 s
    with within(4):
        found, counts_as = paths.without_numbers(name, np.ones(n, np.int64), np.zeros(n, bool))
    assert found[-3:].tolist() == [name[-3], "step", "step"]
    assert counts_as[-2] == counts_as[-1]


@pytest.mark.slow
def test_recursion__takes_time_in_its_events_however_deep_it_is(tmp_path):
    archive = Archive(tmp_path / "archive" / "traces.otf2")
    n, ranks = 250_000, archive.mpi(2).ranks
    region = {"region": archive.region_of("fib")}
    enter, leave = (archive.encode.record(EVENT[name], region) for name in ("Enter", "Leave"))
    for rank in ranks:
        for i in range(2 * n):
            rank.raw(10 * i, enter if i < n else leave)
    trace, cube, page = (tmp_path / name for name in ("x.trace", "x.severity", "x.html"))
    archive.write()
    commands = (
        ("convert", archive.path, "-o", trace),
        ("analyze", trace, "-o", cube),
        ("show", cube),
        ("show", cube, "-p", "time"),
        ("show", cube, "-p", "time", "-c", "*/fib"),
        ("diagnose", cube),
        ("report", cube, "-o", page),
    )
    # processed level by level, analyze alone took 25 s
    with within(25):
        results = [run(*command) for command in commands]
    for command, result in zip(commands, results, strict=True):
        assert result.exit_code == 0, result.output
        assert len(result.output) < 20_000, command


@pytest.mark.slow
def test_unfolded__of_a_deep_recursion_takes_time_in_its_call_paths():
    n = 100_000
    axis = recursion(n)
    # only the deepest call path has a value
    cells = PeriodCells(*(np.array([at], np.int32) for at in (n - 1, 0, 0)), np.ones(1, np.int64))
    periods = PeriodAxis("bin", "1 bin", np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, np.int32))
    cube = small_cube({"time": {("main", 0, 0): 1}}).replaced(
        call_paths=axis, periods=periods, topologies=[], period_cells={"time": cells}
    )
    # processed level by level, it took 30 s
    with within(8):
        path = cube.with_phases_as_call_paths().call_paths
    assert (path.name[0], path.depth.max(), path.end[0]) == ("bin=0", n, n + 1)


def test_write_parquet__keeps_nulls_of_categories(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 4)
    frame = pd.DataFrame({"a": pd.Categorical(["x", None, "y", "x", "z", None, "z"]), "b": range(7)})
    write_parquet(frame, tmp_path / "x.parquet")
    assert pd.read_parquet(tmp_path / "x.parquet").astype({"a": object}).equals(frame.astype({"a": object}))
    write_parquet(frame[:0], tmp_path / "0.parquet")
    assert list(pd.read_parquet(tmp_path / "0.parquet").columns) == ["a", "b"]


def test_match_paths__is_what_fnmatch_says():
    chance = random.Random(1)
    n_matches = 0
    for _ in range(3_000):
        n = chance.randint(1, 12)
        parent = np.array([chance.randint(-1, i - 1) for i in range(n)], np.int32)
        names = ["".join(chance.choice("ab*[]?!/") for _ in range(chance.randint(0, 3))) for _ in range(n)]
        written = path_names(parent, names)
        pattern = "".join(chance.choice("ab**[]?!/-") for _ in range(chance.randint(0, 7)))
        if chance.random() < 0.3:
            pattern = chance.choice(written)
        fits = re.compile(translate(pattern))
        expected = [fits.match(p) is not None for p in written]
        assert match_paths(parent, names, pattern).tolist() == expected, (pattern, written)
        n_matches += sum(expected)
    assert n_matches > 1_000


def test_path_names__of_a_recursion_are_whole():
    # names of more than 64 levels are not replaced by a number specific to the run
    n = 1_000
    parent = np.arange(-1, n - 1, dtype=np.int32)
    names = [f"f{i}" for i in range(n)]
    written = path_names(parent, names)
    assert written == ["/".join(names[: i + 1]) for i in range(n)]
    assert path_names(parent, names, [n - 1, 0, n - 1]) == [written[-1], "f0", written[-1]]


@pytest.mark.slow
def test_path_names__that_no_memory_holds_are_refused_before_they_are_written(tmp_path, monkeypatch):
    # 1.1 M call paths of up to 10,000 levels would take 44 GB
    n = 10_000
    parent = np.concatenate([np.arange(-1, n - 1), np.full(100_000, n - 1)]).astype(np.int32)
    tracemalloc.start()
    with pytest.raises(
        AnalysisError, match=r"110,000 call paths of up to 10,001 levels take 2,\d{3},\d{3},\d{3} bytes"
    ):
        path_names(parent, ["f"] * parent.size)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
    # the names of a few of them are available
    assert [p.count("/") for p in path_names(parent, ["f"] * parent.size, [109_999, 5])] == [n, 5]
    cube = small_cube({"time": {("a/b", 0, 0): 1, ("a/c", 0, 0): 2}})
    monkeypatch.setattr(paths, "MAX_TEXT", 5)
    with pytest.raises(AnalysisError, match="take 6 bytes of text, more than 5"):
        cube.frame()
    assert len(cube.frame(call_path="a/b")) == 1
    cube.save(tmp_path / "x.severity")
    output = executed("export", tmp_path / "x.severity", tmp_path / "x.csv", code=1)
    assert "call paths (tracecols analyze -p, --within), or write .json, .cubex or .severity" in output
    for ending in ("json", "cubex"):
        assert run("export", tmp_path / "x.severity", tmp_path / f"x.{ending}").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("view", ["frame", "wide", "export", "rows"])
def test_deep_call_paths__are_called_the_same_in_two_runs(view, shared_traces, tmp_path):
    # the same 71 call paths, in one run after an additional one
    names = []
    for name in ("deep_call_paths", "deep_call_paths_one_more"):
        trace = tracecols.open(tracecols.convert(shared_traces / "otf2_small" / name, tmp_path / f"{name}.trace"))
        cube = trace.analyze()
        if view == "export":
            cube.save(tmp_path / f"{name}.severity")
            assert run("export", tmp_path / f"{name}.severity", tmp_path / f"{name}.parquet").exit_code == 0
            names.append(set(pd.read_parquet(tmp_path / f"{name}.parquet")["call_path"]))
        elif view == "rows":
            names.append(set(trace.with_names(trace.read_events(columns=["call_path"]))["path"]))
        else:
            names.append(set(cube.frame()["call_path"] if view == "frame" else cube.wide()["call_path"]))
    assert len(names[0]) == 71 and names[0] < names[1] and len(names[1]) == 72
    assert max(path.count("/") for path in names[0]) > 64
    assert not [path for path in names[1] if "..." in path]


def test_shortened__keeps_both_ends_of_a_path():
    path = "main/" + "f/" * 100 + "g"
    assert shortened(path, 20) == "main/.../f/f/f/f/f/g"
    assert shortened(path) == path
    assert shortened("a" * 50, 20) == "a" * 50
    assert shortened(f"main/x/{'g' * 30}", 20) == f".../{'g' * 30}"
    assert shortened("a/b", 20) == "a/b"


@pytest.mark.slow
def test_paths_of__are_those_of_the_list(work):
    folder, _ = work
    axis = tracecols.SeverityCube.load(folder / "deep.severity").call_paths
    chosen = [0, len(axis) - 1, 5, 777, 5]
    assert axis.paths_of(chosen) == [axis.path[i] for i in chosen]
    assert axis.paths_of([]) == []


@pytest.mark.slow
def test_find_call_paths__finds_a_deep_path(work):
    folder, _ = work
    cube = tracecols.SeverityCube.load(folder / "recursion.severity")
    i = int(cube.call_paths.depth.argmax())
    assert np.flatnonzero(cube.find_call_paths(cube.call_paths.path[i])).tolist() == [i]
