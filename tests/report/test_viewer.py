"""The viewer: its packed data, and the view in a browser."""

import base64
import csv
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import slow
from support.browser import Report, chromium, copied, encoded, header_of, link, new_page, small
from support.command_line import executed
from support.small_cubes import small_cube

import tracecols
from tracecols.errors import MissingExtraError, SeverityError
from tracecols.given.printable import printable
from tracecols.report.viewer import container, html_table, mimebundle, notebook, sources, topologies_of
from tracecols.report.viewer.metrics import left_out_of
from tracecols.report.viewer.profile import part_of
from tracecols.report.viewer.sources import Sources
from tracecols.report.viewer.topologies import default_topology, first_axes
from tracecols.severity import Cells, SeverityCube
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.periods import PeriodAxis, PeriodCells
from tracecols.severity.reduction import reduce_upwards

VIEWER = Path(container.__file__).parent


def random_cube(seed, n_properties=12, n_calls=40, n_locations=24, large=False, name="f{}"):
    """A cube of random trees and values, some of them negative, with a property of float64 and two roots."""
    rng = np.random.default_rng(seed)

    def depth_first(parent):
        children = {i: [] for i in range(-1, len(parent))}
        for i, p in enumerate(parent):
            children[p].append(i)
        order, stack = [], children[-1][::-1]
        while stack:
            order.append(stack.pop())
            stack += children[order[-1]][::-1]
        new = {old: k for k, old in enumerate(order)} | {-1: -1}
        return [new[parent[old]] for old in order]

    parents = [*depth_first([-1, *(int(rng.integers(0, i)) for i in range(1, n_properties))]), -1]
    ids = ["time", *(f"p{i}" for i in range(1, n_properties)), "counter"]
    n = len(ids)
    units = ["sec"] * n_properties + ["#"]
    properties = PropertyAxis(
        ids,
        [ids[p] if p >= 0 else "" for p in parents],
        [i.title() for i in ids],
        units,
        ["S."] * n,
        ["A."] * n,
        [1.0] * n,
        [False, *(bool(rng.random() < 0.1) for _ in range(n - 1))],
    )
    parent = np.array(depth_first([-1] + [int(rng.integers(-1, i)) for i in range(1, n_calls)]), np.int32)
    depth = np.zeros(n_calls, np.int32)
    for i in range(n_calls):
        depth[i] = depth[parent[i]] + 1 if parent[i] >= 0 else 0
    end = np.arange(n_calls) + reduce_upwards(np.ones(n_calls, np.int64), parent, depth)
    region = rng.integers(0, max(3, n_calls // 4), n_calls)
    names = np.array([name.format(r) for r in region], object)
    same = [np.full(n_calls, text, object) for text in ("function", "compiler", "a.c", "")]
    calls = CallAxis(parent, depth, end, names, same[0], same[1], same[2], region.astype(np.int64), same[3])
    kind, node_name, above, location, rank, thread = ["machine"], ["m"], [-1], [-1], [], []
    for process in range(n_locations // 4):
        kind.append("process"), node_name.append(f"rank {process}"), above.append(0), location.append(-1)
        own = len(kind) - 1
        for t in range(4):
            kind.append("thread"), node_name.append(f"t{t}"), above.append(own), location.append(len(rank))
            rank.append(process), thread.append(t)
    system = SystemAxis(
        kind,
        node_name,
        above,
        location,
        np.array(rank, np.int32),
        np.array(thread, np.int32),
        ["t"] * len(rank),
        ["CPU_THREAD"] * len(rank),
    )
    cells = {}
    for p in ids:
        key = np.sort(
            rng.choice(n_calls * n_locations, int(rng.integers(1, n_calls * n_locations // 3)), replace=False)
        )
        value = rng.integers(-50, 2**48 if large else 2**40, key.size)
        if p == "counter":
            value = rng.normal(size=key.size)
        cells[p] = Cells.sum(key // n_locations, key % n_locations, value)
    return SeverityCube(properties, calls, system, cells, {"conventions": "scalasca", "resolution": 10**9})


# -- packed data -------------------------------------------------------------------------------------------------------


def unpack(widths, lengths, block, kinds):
    """The slow twin of the viewer's decoder."""
    data, at, columns = zlib.decompress(block, -15), 0, []
    for width, n, kind in zip(widths, lengths, kinds, strict=True):
        octets = np.frombuffer(data, np.uint8, width * n, at).reshape(width, n).T.tolist()
        at += width * n
        if kind == "f":
            columns.append(np.array([np.frombuffer(bytes(o), "<f8")[0] for o in octets]))
        else:
            columns.append(np.array([int.from_bytes(bytes(o), "little", signed=True) for o in octets], np.int64))
    assert at == len(data)
    return columns


@pytest.mark.parametrize("large", [False, True])
def test_pack__holds_every_cell(large):
    cube = random_cube(1, large=large)
    packed = container.pack(cube)
    header = json.loads(zlib.decompress(packed.header, -15))
    for i, name in enumerate(cube.properties.id):
        stored, cells = header["properties"]["stored"][i], cube.cells[name]
        kind = cells.value.dtype.kind
        beyond = sum(map(abs, cells.value.tolist())) >= 2**53
        assert stored["kind"] == ("float" if kind == "f" else "large" if beyond else "small")
        sums = unpack(stored["widths"][0], [stored["rows"]] * 3, packed.blocks[2 * i], "ii" + kind)
        step, value = unpack(stored["widths"][1], [stored["cells"]] * 2, packed.blocks[2 * i + 1], "i" + kind)
        call_path = np.repeat(np.cumsum(sums[0]), sums[1])
        location = np.concatenate([np.cumsum(part) for part in np.split(step, np.cumsum(sums[1])[:-1])])
        assert np.array_equal(call_path, cells.call_path)
        assert np.array_equal(location, cells.location)
        assert np.array_equal(value, cells.value)
        assert sums[2].sum() == pytest.approx(cells.value.sum())
        assert kind == "f" or int(stored["total"]) == int(cells.value.sum())


def divide(cube, n_periods, seed=3, outside=True):
    """Spread the cells of a cube over phases at random; the sums over phases are the cells."""
    rng = np.random.default_rng(seed)
    by_period = {}
    for name, cells in cube.cells.items():
        pieces = []
        left = cells.value.copy()
        for _ in range(3):
            part = (left * rng.uniform(-0.5, 1, left.size)).astype(left.dtype)
            pieces.append((part, rng.integers(-int(outside), n_periods, left.size)))
            left = left - part
        pieces.append((left, rng.integers(-int(outside), n_periods, left.size)))
        by_period[name] = PeriodCells.ordered(
            np.tile(cells.call_path, 4),
            np.tile(cells.location, 4),
            np.concatenate([at for _, at in pieces]),
            np.concatenate([part for part, _ in pieces]),
        )
    times = np.arange(n_periods + 1, dtype=np.int64) * 1000
    axis = PeriodAxis("phase", "step", times[:-1], times[1:], np.full(n_periods, cube.system.n_locations, np.int32))
    return cube.replaced(periods=axis, period_cells=by_period)


@pytest.mark.parametrize("large", [False, True])
def test_pack__holds_every_cell_by_period(large):
    cube = divide(random_cube(1, large=large), 7)
    packed = container.pack(cube)
    header = json.loads(zlib.decompress(packed.header, -15))
    assert header["periods"]["begin"] == [0, 1000, 2000, 3000, 4000, 5000, 6000]
    n = len(cube.properties.id)
    for i, name in enumerate(cube.properties.id):
        about, cells = header["properties"]["stored"][i]["periods"], cube.period_cells[name]
        lengths = [about["runs"]] * 3 + [about["cells"]] * 2
        kinds = "iiii" + cells.value.dtype.kind
        columns = unpack(about["widths"], lengths, packed.blocks[2 * n + i], kinds)
        runs = [np.repeat(column, columns[2]) for column in (np.cumsum(columns[0]), columns[1])]
        period = np.concatenate([np.cumsum(part) - 1 for part in np.split(columns[3], np.cumsum(columns[2])[:-1])])
        assert np.array_equal(runs[0], cells.call_path)
        assert np.array_equal(runs[1], cells.location)
        assert np.array_equal(period, cells.period)
        assert np.array_equal(columns[4], cells.value)
    assert sorted(packed.order) == list(range(3 * n))


def test_pack__of_a_cube_without_periods_has_nothing_of_them():
    """Data of periods comes after all other data: the report of a cube that is not divided is the same as before
    there were periods."""
    cube = random_cube(1)
    plain, divided = container.pack(cube), container.pack(divide(cube, 7))
    n = len(cube.properties.id)
    assert len(plain.blocks) == 2 * n
    assert plain.blocks == divided.blocks[: 2 * n]
    header = json.loads(zlib.decompress(divided.header, -15))
    for key in ("periods", "profile", "similar"):
        del header[key]
    for about in header["properties"]["stored"]:
        del about["periods"]
    assert zlib.decompress(plain.header, -15) == json.dumps(header, separators=(",", ":")).encode()
    first = [2 * plain.start, 2 * plain.start + 1]
    assert plain.order == list(dict.fromkeys([*first, *range(0, 2 * n, 2), *range(1, 2 * n, 2)]))


@pytest.mark.parametrize(
    ("value", "width"), [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (2**31, 5), (2**62, 8), (-(2**63), 8)]
)
def test_planes__are_as_narrow_as_the_values_allow(value, width):
    values = np.array([value, 0], np.int64)
    assert container.width_of(values) == width
    octets = np.frombuffer(container.planes(values, width), np.uint8).reshape(width, 2).T
    assert int.from_bytes(octets[0].tobytes(), "little", signed=True) == value


def test_start__is_the_largest_share_of_the_first_tree(cube):
    # idle threads, without those of limited parallelism, are 52.64 % of the time
    assert cube.properties.id[container.start_of(cube, cube.properties)] == "omp_idle_threads"


@pytest.mark.slow
def test_start__is_the_costliest_finding_or_what_was_asked_for(cube, tmp_path_factory, data):
    """Nothing of start-up is selected; a cube that was narrowed to properties opens at the first of them."""
    packed = container.pack(cube)
    header = json.loads(zlib.decompress(packed.header, -15))
    first = cube.diagnosis().findings[0]
    assert cube.properties.id[header["start"]] == first.property
    assert cube.call_paths.path[header["start_call"]] == first.where.call_path
    assert "MPI_Init" not in first.where.call_path
    path = tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("n") / "h.trace")
    for asked in ("mpi_latebroadcast", "mpi_init_exit"):
        narrowed = tracecols.open(path).analyze(properties=asked)
        header = json.loads(zlib.decompress(container.pack(narrowed).header, -15))
        assert header["properties"]["id"][header["start"]] == asked
    # a cube computed from several has no overview
    assert json.loads(zlib.decompress(container.pack(cube - cube).header, -15))["overview"] is None


def test_topologies__every_cube_has_process_and_thread(cube):
    (only,) = topologies_of(cube)
    assert [d["size"] for d in only["dimensions"]] == [2, 3]
    assert only["coordinates"] == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


def test_bundle__is_built_from_the_sources():
    digest = hashlib.sha256()
    sources = sorted(p.name for p in (VIEWER / "src").iterdir())
    for file in [*(f"src/{n}" for n in sources), "build.js", "licences.js", "package-lock.json"]:
        digest.update(f"{file}\n".encode() + (VIEWER / file).read_bytes() + b"\n")
    head = (VIEWER / "viewer.js").read_text(encoding="utf-8")[:200]
    assert digest.hexdigest() in head, f"run npm ci && npm run build in {VIEWER}"


def test_bundle__is_what_the_build_writes():
    if shutil.which("node") is None or not (VIEWER / "node_modules" / "esbuild").is_dir():
        pytest.skip("node or its packages are not there; 'npm ci' in report/viewer brings them")
    done = subprocess.run(["node", "build.js", "--check"], cwd=VIEWER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_page__is_safe_whatever_the_names(tmp_path):
    evil = "</script><script>window.harm=1</script><img src=x onerror=window.harm=2>{}"
    cube = random_cube(2, name=evil)
    text = cube.report(tmp_path / "x.html", title='<b>"&').read_text(encoding="utf-8")
    assert "window.harm" not in text
    assert "<b>" not in text
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    for kind, pattern in (
        ("script", r'<script type="module" async>(.*?)</script>'),
        ("style", r"<style>(.*?)</style>"),
    ):
        (content,) = re.findall(pattern, text, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert not re.findall(r'(?:src|href)="', text)


def test_report__leaves_nothing_when_it_fails(cube, tmp_path):
    with pytest.raises(SeverityError, match=r"cannot write .*no.x\.html"):
        cube.report(tmp_path / "no" / "x.html")
    assert not list(tmp_path.iterdir())


def test_command__writes_the_page_beside_or_where_told(cube, tmp_path, monkeypatch):
    cube.save(tmp_path / "h.severity")
    monkeypatch.chdir(tmp_path)
    for arguments, name in ((["h.severity"], "h.html"), (["h.severity", "-o", "y.html", "--title", "A run"], "y.html")):
        assert executed("report", *arguments).startswith(f"{name}: ")
    assert "<title>A run</title>" in (tmp_path / "y.html").read_text(encoding="utf-8")
    assert "<title>hybrid_2x3</title>" in (tmp_path / "h.html").read_text(encoding="utf-8")
    assert "a report is a page for browsers" in executed("report", "h.severity", "-o", "x.pdf", code=2)
    assert not (tmp_path / "x.pdf").exists()


def test_page__of_a_computed_cube_is_named_after_what_it_is_computed_from(cube, tmp_path):
    page = tracecols.compare([cube, cube]).difference().report(tmp_path / "d.html")
    assert "<title>difference of hybrid_2x3, hybrid_2x3</title>" in page.read_text(encoding="utf-8")


# -- in a notebook -----------------------------------------------------------------------------------------------------


def test_html_table__has_the_largest_shares(cube):
    text = html_table(cube, most=3)
    # start-up and shutdown are set apart: without them idle threads take 33.4 % instead of 52.64 %
    assert re.findall(r"<small>(\w+)</small></td>", text) == ["comp", "omp_idle_threads", "omp_ibarrier_wait"]
    inside = cube.focused()
    assert f"{inside.total('omp_idle_threads') / inside.total('time'):.2%}" in text
    assert "focus: MPI_Init to MPI_Finalize, 42.2% of the time" in text
    assert cube._repr_html_() == html_table(cube)


def test_html_table__escapes_names():
    cube = random_cube(3)
    cube.properties.title[0] = "<script>"
    assert "<script>" not in html_table(cube)


@pytest.mark.slow
def test_mimebundle__is_a_widget_with_anywidget_and_a_table_without(cube, monkeypatch):
    pytest.importorskip("anywidget")
    for shown in (cube, cube.view()):
        bundle = shown._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in bundle
        assert bundle["text/html"] == html_table(cube)
    monkeypatch.setattr(notebook, "SHOWN_UNASKED", 10)
    assert set(mimebundle(cube)) == {"text/plain", "text/html"}
    monkeypatch.undo()
    notebook._widget_class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert set(mimebundle(cube)) == {"text/plain", "text/html"}
    with pytest.raises(MissingExtraError, match=r"pip install 'tracecols\[notebook\]'"):
        cube.view()


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(cube, tmp_path_factory):
    """The report of the whole run, whose values are those of the cube."""
    return cube.report(tmp_path_factory.mktemp("page") / "h.html", with_startup=True)


@pytest.fixture(scope="module")
def tab(browser, page):
    return Report(browser, page)


@pytest.fixture
def report(tab):
    """The report of the recorded cube, opened anew."""
    tab.open()
    yield tab
    assert tab.trouble == []


@pytest.fixture
def open_report(browser):
    """Return a function that opens a report as `Report` does; none may have trouble by the end of the test."""
    opened = []

    def run(*arguments, **settings):
        opened.append(Report(browser, *arguments, **settings))
        return opened[-1]

    yield run
    for report in opened:
        assert report.trouble == []
        report.close()


@pytest.mark.parametrize("name", ["time", *slow(["visits"])])
def test_report__of_subdomains_has_the_sums_of_their_locations(open_report, cube, tmp_path, name):
    parts = {0: "ocean", (1, 0): "ice", (1, 2): "output"}
    path = cube.report(tmp_path / "h.html", with_startup=True, subdomains=parts)
    report = open_report(path, f"#p={name}&mode=plain&places=subdomains")
    view = report.view

    def shown():
        rows = view("(() => { const m = view.model; return m.place.kind.map((kind, i) => [kind, m.place.name[i],"
                    " m.place.forest.parent[i], m.place.location[i], m.system.inclusive[i]]); })()")  # fmt: skip
        return [tuple(row) for row in rows]

    table = cube.by_subdomain(name, parts)
    rows, each = shown(), cube.by_location(name)
    roots = {label: value for kind, label, parent, _, value in rows if parent < 0 and kind == "subdomain"}
    assert list(roots) == ["ocean", "ice", "output", "(none)"]
    assert list(roots.values()) == pytest.approx(table.value.tolist())
    # locations below subdomains have their own values
    assert {row: value for *_, row, value in rows if row >= 0} == pytest.approx(dict(enumerate(each.tolist())))
    assert set(report.rows("system")) == set(range(len(rows)))
    report.select("system", 0)
    fragment = view("view.links.write()")
    assert "places=subdomains" in fragment and "s=~ocean" in fragment
    report.click(report.page.get_by_role("radio", name="Machine"))
    machine = shown()
    assert [(kind, parent, row) for kind, _, parent, row, _ in machine] == list(
        zip(cube.system.kind, cube.system.parent, cube.system.location, strict=True)
    )
    assert sum(v for _, _, parent, _, v in machine if parent < 0) == pytest.approx(sum(roots.values()))
    assert "places" not in view("view.links.write()")
    report.open(fragment)
    assert view("view.model.selectedTotal()") == pytest.approx(cube.total(name))
    assert [node for node, row in report.rows("system").items() if row[4]] == [0] and report.trouble == []


def test_report__without_subdomains_has_no_switch(report):
    report.open("#places=subdomains")
    assert report.page.get_by_role("radio", name="Machine").count() == 0
    assert report.view("view.model.settings.places") == "machine"


def cells_of(cube, properties):
    """Return the sum of the cells of selected properties, each given as (id, open)."""
    total = Cells.empty()
    for name, opened in properties:
        total = total + cube.cells_of(name, "eee" if opened else "iee")
    return total


def expected(cube, properties, call_paths=None):
    """Return values by call path, exclusive and inclusive, and by location, the obvious way."""
    cells, scale = cells_of(cube, properties), cube.scale(properties[0][0])
    own, at = [0] * len(cube.call_paths), [0] * cube.system.n_locations
    counts = set(range(len(own)))
    if call_paths is not None:
        counts = {i for n, opened in call_paths for i in ([n] if opened else range(n, int(cube.call_paths.end[n])))}
    for call_path, location, value in zip(
        cells.call_path.tolist(), cells.location.tolist(), cells.value.tolist(), strict=True
    ):
        own[call_path] += value
        if call_path in counts:
            at[location] += value
    inclusive = [sum(own[i : int(cube.call_paths.end[i])]) for i in range(len(own))]
    return [v * scale for v in own], [v * scale for v in inclusive], [v * scale for v in at]


def percent(value, whole):
    """Return a share as the viewer writes it."""
    text = f"{100 * value / whole:.2f}"
    return {"0.00": "0.00", "-0.00": "\u22120.00"}.get(text, text.replace("-", "\u2212")) if value else "0"


def same_percent(text, value, whole):
    """Return whether a number is that share; the last digit may be rounded either way."""
    return abs(float(text.replace("\u2212", "-")) - 100 * value / whole) <= 0.005 + 1e-9


def random_selection(rng, cube):
    """Draw properties of one tree, and call paths, each open or closed; none is below another."""

    def pick(candidates, below, most):
        chosen = []
        for i in rng.permutation(candidates)[:most].tolist():
            if not any(i in below(j) or j in below(i) for j, _ in chosen):
                chosen.append((i, bool(rng.integers(2)) and len(below(i)) > 1))
        return chosen

    p, c = cube.properties, cube.call_paths

    def below_property(i):
        found = {i}
        for k in range(i + 1, len(p.id)):
            if p.parent[k] and p.number[p.parent[k]] in found:
                found.add(k)
        return found

    with_cells = [i for i, name in enumerate(p.id) if len(cube.cells[name])]
    first = int(rng.choice(with_cells))
    tree = [i for i in with_cells if p.root_of(p.id[i]) == p.root_of(p.id[first])]
    properties = pick(tree, below_property, 3)
    call_paths = pick(range(len(c)), lambda i: set(range(i, int(c.end[i]))), 4)
    # a property whose children are all hidden, for lack of values, cannot be open
    return [
        (p.id[i], opened and any(len(cube.cells[p.id[k]]) for k in below_property(i) - {i})) for i, opened in properties
    ], call_paths


def check_shown(report, cube, properties, call_paths):
    """Check that every row on the screen has the cube's value, and shows it."""
    own, inclusive, at = expected(cube, properties, call_paths or None)
    time = cube.whole("time")
    base = (
        time
        if cube.properties.unit[cube.properties.number[properties[0][0]]] == "sec"
        else cube.whole(properties[0][0])
    )
    tolerance = {"rel": 1e-12, "abs": 1e-12 * abs(base)}
    rows = report.rows("calls")
    assert rows
    for node, (number, value, name, opened, _) in rows.items():
        wanted = own[node] if opened else inclusive[node]
        assert value == pytest.approx(wanted, **tolerance), (name, node)
        assert same_percent(number, wanted, base)
        assert name == cube.call_paths.name[node]
    if call_paths:
        assert {n: (rows[n][3], rows[n][4]) for n, _ in call_paths if n in rows} == {
            n: (o, True) for n, o in call_paths if n in rows
        }
    of_system = np.array([at[row] if row >= 0 else 0.0 for row in cube.system.location])
    for node, (number, value, _, opened, _) in report.rows("system").items():
        wanted = of_system[node] if opened else sum(of_system[i] for i in system_below(cube, node))
        assert value == pytest.approx(wanted, **tolerance), node
        assert same_percent(number, wanted, base)
    for node, (number, value, _, opened, _) in report.rows("properties").items():
        id_ = cube.properties.id[node]
        wanted = float(cube.cells_of(id_, "eee" if opened else "iee").value.sum() * cube.scale(id_))
        whole = time if cube.properties.unit[node] == "sec" else cube.whole(id_)
        assert value == pytest.approx(wanted, rel=1e-12, abs=1e-12 * abs(whole)), id_
        assert same_percent(number, wanted, whole)


def system_below(cube, node):
    """Return the nodes in the subtree of a node."""
    found = [node]
    for i in range(node + 1, len(cube.system.kind)):
        if cube.system.parent[i] in found:
            found.append(i)
    return found


@pytest.mark.slow
def test_values__of_random_selections_are_the_cubes(report, cube):
    rng = np.random.default_rng(5)
    for _ in range(6):
        properties, call_paths = random_selection(rng, cube)
        report.open(link(cube, properties, call_paths))
        check_shown(report, cube, properties, call_paths)


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
def test_values__of_random_cubes_are_exact(open_report, tmp_path, large):
    cube = random_cube(10, large=large)
    report = open_report(cube.report(tmp_path / "x.html"))
    rng = np.random.default_rng(1)
    for _ in range(4):
        properties, call_paths = random_selection(rng, cube)
        report.open(link(cube, properties, call_paths))
        check_shown(report, cube, properties, call_paths)


@pytest.mark.slow
def test_values__beyond_2_to_the_53_are_exact(open_report, tmp_path):
    cube = random_cube(4, large=True)
    # ticks whose sum float64 cannot hold: 2**58 // n + 1 on each of n locations, and a child with all but 1 of them
    n = cube.system.n_locations
    cells = Cells.sum(np.zeros(n, np.int64), np.arange(n), np.full(n, 2**58 // n + 1))
    child = next(i for i, parent in enumerate(cube.properties.parent) if parent == "time")
    cube.cells = dict.fromkeys(cube.properties.id, Cells.empty()) | {
        "time": cells,
        cube.properties.id[child]: Cells(cells.key, cells.value - 1),
    }
    report = open_report(cube.report(tmp_path / "x.html"), link(cube, [("time", True)]))
    # the child leaves one tick on each of n locations
    assert report.view("view.model.calls.own[0] * 1e9") == pytest.approx(n, rel=1e-15)
    assert report.view("[...view.model.byLocation].map((v) => Math.round(v * 1e9))") == [1] * n


def test_open_and_closed__show_what_is_not_below_and_all(report, cube):
    number = cube.properties.number
    mpi, idle = number["mpi"], number["omp_idle_threads"]
    first = report.rows("properties")
    # the report opens on the largest share
    assert first[idle][4]
    assert first[mpi][3]
    report.toggle("properties", mpi)
    closed = report.rows("properties")
    assert closed[mpi][1] == pytest.approx(cube.total("mpi"))
    assert number["mpi_management"] not in closed
    # everything that is on the screen adds up to the whole
    time = [i for i in closed if cube.properties.root_of(cube.properties.id[i]) == "time"]
    assert sum(closed[i][1] for i in time) == pytest.approx(cube.total("time"))
    # a selected row that disappears is represented by the one that closes over it
    report.select("properties", number["comp"])
    report.toggle("properties", 0)
    only = report.rows("properties")
    assert only[0][4]
    assert only[0][1] == pytest.approx(cube.total("time"))
    assert report.view("view.model.calls.inclusive[0]") == pytest.approx(float(cube.by_call_path("time", "iie")[0]))


@pytest.mark.slow
def test_selection__several_add_up_but_not_of_different_trees(report, cube):
    number = cube.properties.number
    report.select("properties", number["comp"])
    report.select("properties", number["omp_idle_threads"], modifiers=["Control"])
    want = cube.total("comp") + cube.total("omp_idle_threads")
    assert report.view("view.model.selectedTotal()") == pytest.approx(want)
    assert "2 properties" in report.pane("properties").inner_text()
    report.select("properties", number["visits"], modifiers=["Control"])
    assert report.view("view.model.selection()") == [[number["visits"], False]]
    assert "Only properties of one tree add up" in report.page.locator(".tc-footer").inner_text()


@pytest.mark.slow
def test_property__shows_a_small_drawing_of_its_wait(open_report, cube, tmp_path):
    """The drawing is that of the package, with its caption; properties that are no waits have none."""
    page = open_report(cube.report(tmp_path / "d.html"), link(cube, [("mpi_latebroadcast", False)]))
    shown = page.page.locator(".tc-drawing")
    assert shown.locator("svg").count() == 1 and not shown.locator("svg").is_visible()
    shown.locator("summary").click()
    assert "wait in MPI_Bcast until its root" in shown.locator("figcaption").text_content()
    box = shown.locator("svg").bounding_box()
    assert box["width"] > 200 and box["height"] > 60
    page.open(link(cube, [("comp", False)]))
    assert page.page.locator(".tc-drawing").count() == 0


def test_overview__tells_the_diagnosis_and_selects_what_a_finding_is_about(open_report, cube, tmp_path):
    report = open_report(cube.report(tmp_path / "f.html"))
    found, looked_at = cube.diagnosis(), cube.focused()
    shown = report.pane("overview")
    text = shown.inner_text()
    for words in (
        "0.23029 s of 0.54405 s recorded, 2 processes, 6 threads",
        "MPI_Init to MPI_Finalize",
        "68.4% lowest",
    ):
        assert words in text
    rows = shown.locator(".tc-finding")
    assert rows.count() == len(found.findings)
    assert report.view("[...view.model.trees.calls.selected]") == []
    for row, f in zip(rows.all(), found.findings, strict=True):
        assert (f.what or f.title) in row.inner_text() and f"{f.share:.1%}" in row.inner_text()
        report.click(row)
        number = cube.properties.number[f.property]
        assert report.view("view.model.selection()[0][0]") == number
        assert report.view("[...view.model.trees.calls.selected]") == [f.call_path]
        # the number is that of the whole finding on this call path: idle threads are divided by what their master does
        own = looked_at.cells_of(f.property, "eee")
        at = own.value[own.call_path == f.call_path].sum() / cube.resolution
        assert report.view("view.model.selectedValue()") == pytest.approx(at)
        # and a cause may explain several properties, or a part of one
        assert at == pytest.approx(f.where.seconds) or f.property == "omp_idle_threads" or f.what
    tool = report.page.get_by_role("button", name="Overview: what costs most")
    tool.click()
    assert shown.count() == 0
    tool.click()
    assert shown.count() == 1


@pytest.mark.slow
def test_overview__shows_advice_and_all_of_five_findings(open_report, cube, tmp_path):
    report = open_report(cube.report(tmp_path / "f.html"), width=1400, height=900)
    shown, found = report.pane("overview"), cube.diagnosis()
    rows = shown.locator(".tc-finding").all()
    for row, f in zip(rows, found.findings, strict=True):
        assert f.advice in row.inner_text()
    leaf = found.findings[0].where.call_path.rpartition("/")[2]
    assert leaf in rows[0].inner_text()
    details = shown.locator(".tc-detail").all()
    assert all(d.evaluate("(e) => e.scrollWidth <= e.clientWidth") for d in details)
    box = shown.bounding_box()
    visible = [row for row in rows if row.bounding_box()["y"] + 18 <= box["y"] + box["height"]]
    assert len(visible) >= 4


@pytest.mark.slow
def test_page__begins_at_its_top_on_a_low_screen(open_report, cube, tmp_path):
    report = open_report(cube.report(tmp_path / "f.html"), width=1200, height=600)
    report.page.wait_for_timeout(300)
    assert report.page.evaluate("() => [window.scrollX, window.scrollY]") == [0, 0]


def test_escape__closes_colours_wherever_the_focus_is(open_report, cube, tmp_path):
    report = open_report(cube.report(tmp_path / "f.html"))
    report.page.get_by_role("button", name="Colours").click()
    assert report.page.get_by_role("dialog", name="Colours").count() == 1
    report.page.keyboard.press("Escape")
    report.settle()
    assert report.page.get_by_role("dialog", name="Colours").count() == 0


@pytest.mark.slow
def test_command__of_a_report_names_a_store_that_is_there(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace = tracecols.convert(data / "hybrid_2x3", tmp_path / "run1.trace")
    tracecols.open(trace).analyze().save(tmp_path / "run1.severity")
    for given, expected in (("run1.severity", "run1.trace"), ("run1.trace", "run1.trace")):
        executed("report", given, "-o", "x.html", "--force")
        assert header_of(tmp_path / "x.html")["store"] == expected
    tracecols.convert(data / "coll", tmp_path / "run2.trace")
    shutil.copytree(tmp_path / "run1.severity", tmp_path / "run2.severity")
    executed("report", "run2.severity")
    assert header_of(tmp_path / "run2.html")["store"] == ""  # the store of another run is not used


@pytest.mark.slow
def test_modes__have_their_own_wholes(report, cube):
    report.open(link(cube, [("mpi", False)]))
    path = cube.call_paths.path.index("hybrid/main/h_coll")
    report.row("calls", path).wait_for()
    report.select("calls", path)
    _, inclusive, at = expected(cube, [("mpi", False)], [(path, False)])
    wholes = {
        "Absolute": (cube.total("time"), cube.total("time")),
        "Relative": (cube.total("mpi"), inclusive[path]),
        "Own root": (inclusive[0], sum(at)),
    }
    for mode, (of_calls, of_system) in wholes.items():
        report.page.get_by_role("radio", name=mode).click()
        assert same_percent(report.rows("calls")[path][0], inclusive[path], of_calls), mode
        system = report.rows("system")
        assert same_percent(system[cube.system.location.index(0)][0], at[0], of_system), mode
    report.page.get_by_role("radio", name="Values").click()
    assert float(report.rows("calls")[path][0]) == pytest.approx(inclusive[path], rel=1e-3)
    assert float(report.rows("properties")[cube.properties.number["mpi"]][0]) == pytest.approx(
        cube.total("mpi"), rel=1e-3
    )
    report.select("properties", cube.properties.number["visits"])
    assert report.rows("properties")[cube.properties.number["visits"]][0] == f"{cube.total('visits'):,.0f}"


@pytest.mark.slow
def test_hot_path__ends_where_the_largest_share_lies(report, cube):
    report.open(link(cube, [("mpi", False)]))
    report.click(report.pane("calls").get_by_label("Hot path"))
    own, inclusive = cube.by_call_path("mpi"), cube.by_call_path("mpi", "iie")
    node, axis = 0, cube.call_paths
    while True:
        children = [i for i in range(len(axis)) if axis.parent[i] == node]
        best = max(children, key=lambda i: inclusive[i], default=None)
        if best is None or inclusive[best] <= own[node]:
            break
        node = best
    assert report.view("view.model.callTree.selection()") == [[node, False]]
    assert report.row("calls", node).is_visible()


@pytest.mark.slow
def test_flat__adds_up_by_region(report, cube):
    report.open(link(cube, [("time", False)], more="&calls=flat"))
    rows = report.rows("calls")
    own = cube.by_call_path("time")
    by_region = {}
    for name, value in zip(cube.call_paths.name, own, strict=True):
        by_region[name] = by_region.get(name, 0) + value
    shown = {name: value for _, value, name, _, _ in rows.values()}
    assert len(shown) > 10
    for name, value in shown.items():
        assert value == pytest.approx(by_region[name]), name
    values = [rows[n][1] for n in report.view("view.model.callTree.rows") if n in rows]
    assert values == sorted(values, reverse=True)
    # a region selects all call paths that end in it
    node = next(n for n, row in rows.items() if row[2] == "MPI_Bcast")
    report.select("calls", node)
    mask = cube.call_paths.name == "MPI_Bcast"
    assert report.view("[...view.model.byLocation]") == pytest.approx(cube.by_location("time", mask).tolist())


@pytest.mark.slow
def test_search__finds_call_paths_and_adds_them_up(report, cube):
    report.open(link(cube, [("visits", False)]))
    report.pane("calls").get_by_label("Search").click()
    report.page.keyboard.type("mpi_b")
    found = [i for i, name in enumerate(cube.call_paths.name) if "mpi_b" in name.lower()]
    assert len(found) == 2
    assert report.page.locator(".tc-found").inner_text() == f"{len(found)}"
    report.press("Enter", "Enter")
    assert report.page.locator(".tc-found").inner_text() == f"2 of {len(found)}"
    assert report.view("view.model.callTree.selection()") == [[found[1], False]]
    report.click(report.pane("calls").get_by_label("Select all of them"))
    assert report.view("view.model.selectedValue()") == pytest.approx(float(cube.by_call_path("visits")[found].sum()))


@pytest.mark.slow
def test_search__shows_what_matches_while_one_types_and_leaves_the_tree_as_it_was(report, cube):
    """Rows that do not match are hidden, closed ones are opened, the selection and what was open stay."""
    report.open(link(cube, [("mpi", False)]))
    before, selection = report.rows("calls"), report.view("view.model.selection()")
    report.pane("calls").get_by_label("Search").click()
    report.page.keyboard.type("mpi_b")
    report.settle()
    names, axis = cube.call_paths.name, cube.call_paths
    found = [i for i, name in enumerate(names) if "mpi_b" in name.lower()]
    wanted = {k for i in found for k in range(len(axis)) if k == i or k <= i < axis.end[k]}
    assert set(report.rows("calls")) == wanted and len(wanted) < len(before) + len(found)
    assert report.pane("calls").locator("mark").all_inner_texts() == [names[i][:5] for i in found]
    report.click(report.page.get_by_label("Only rows that match"))
    assert set(report.rows("calls")) > wanted
    report.page.get_by_label("Search", exact=True).last.focus()
    report.press("Escape")
    assert report.rows("calls") == before and report.view("view.model.selection()") == selection
    # a selected property that is closed includes its children: it is not opened, but shows how many were found below
    report.open(link(cube, [("time", False)]))
    report.pane("properties").get_by_label("Search").click()
    report.page.keyboard.type("broadcast")
    report.settle()
    assert report.view("view.model.selection()") == [[0, False]]
    assert "1 found below" in report.row("properties", 0).inner_text()
    late = cube.properties.number["mpi_latebroadcast"]
    report.press("Enter")
    assert report.view("view.model.selection()") == [[late, False]]
    report.press("Shift+Enter", "Enter", "Escape")
    assert report.rows("properties")[late][4]


def test_links__hold_the_selection(report, cube, page, open_report):
    properties, call_paths = [("mpi", True), ("comp", False)], [(3, False)]
    report.open(link(cube, properties, call_paths, "&mode=relative"))
    report.click(report.page.get_by_role("radio", name="Distribution"))
    address = report.page.url
    other = open_report(page, address[address.index("#") :])
    for state in ("view.model.selection()", "view.model.callTree.selection()", "view.model.settings"):
        assert other.view(state) == report.view(state)
    assert other.view("view.model.settings.system") == "distribution"
    other.open("#p=nothing&c=%zz")
    assert "Not in this cube: nothing" in other.page.locator(".tc-footer").inner_text()


def test_keys__move_open_and_select(report, cube):
    report.select("properties", cube.properties.number["comp"])
    report.press("ArrowDown")
    assert report.view("view.model.selection()") == [[cube.properties.number["mpi"], True]]
    report.press("ArrowLeft")
    assert report.view("view.model.selection()") == [[cube.properties.number["mpi"], False]]
    report.press("ArrowRight", "ArrowRight")
    assert report.view("view.model.selection()") == [[cube.properties.number["mpi_management"], False]]
    report.press("Shift+ArrowDown")
    assert len(report.view("view.model.selection()")) == 2
    report.press("Home", "End")
    assert report.view("view.model.selection()") == [[report.view("view.model.trees.properties.rows.at(-1)"), False]]
    report.press("2")
    assert report.view("view.model.settings.mode") == "relative"
    report.press("?")
    assert report.page.get_by_role("dialog", name="Help").is_visible()
    # the dialog has the focus, and returns it
    report.press("1")
    assert report.view("view.model.settings.mode") == "relative"
    report.press("Escape")
    assert not report.page.get_by_role("dialog", name="Help").is_visible()
    report.press("1")
    assert report.view("view.model.settings.mode") == "absolute"


@pytest.mark.slow
def test_copy__is_a_table_of_the_rows(open_report, page, cube):
    report = open_report(page, permissions=["clipboard-read", "clipboard-write"])
    text = copied(report.page, report.pane("properties").get_by_label("Copy as table"))
    lines = [line.split("\t") for line in text.splitlines()]
    assert lines[0] == ["level", "name", "value", "unit", "percent", "open"]
    idle = next(line for line in lines if line[1] == "Idle Threads")
    assert float(idle[2]) == pytest.approx(cube.total("omp_idle_threads"), rel=1e-12)
    assert float(idle[4]) == pytest.approx(100 * cube.total("omp_idle_threads") / cube.total("time"), rel=1e-12)


def saved(report, pane, way, folder):
    """Save a pane in one way; return the file."""
    report.pane(pane).get_by_role("button", name="Save ").click()
    with report.page.expect_download() as download:
        report.page.get_by_role("menuitem", name=way).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.slow
def test_save__writes_tables_of_the_trees_and_of_the_selection(report, cube, tmp_path):
    path = cube.call_paths.path.index("hybrid/main/h_coll")
    report.open(link(cube, [("mpi", False)], [(path, False)]))
    for pane in ("properties", "calls", "system"):
        file = saved(report, pane, "table (CSV)", tmp_path)
        assert file.name == f"hybrid_2x3.{pane}.mpi.main-h_coll.csv"
        rows = list(csv.DictReader(file.open(encoding="utf-8", newline="")))
        assert len(rows) == report.view(f"view.model.tree('{pane}').rows.length")
        for row, (number, value, name, opened, _) in zip(rows, report.rows(pane).values(), strict=False):
            assert (row["name"], float(row["value"]), row["open"]) == (name, value, str(int(opened)))
            assert abs(float(row["percent"]) - float(number.replace("\u2212", "-"))) <= 0.005 + 1e-9
    file = saved(report, "calls", "Selection by location", tmp_path)
    assert file.name == "hybrid_2x3.calls.mpi.main-h_coll.selection.csv"
    rows = list(csv.DictReader(file.open(encoding="utf-8", newline="")))
    _, _, at = expected(cube, [("mpi", False)], [(path, False)])
    assert [float(row["value"]) for row in rows] == pytest.approx(at)
    assert [(int(r["rank"]), int(r["thread"])) for r in rows] == list(
        zip(cube.system.rank.tolist(), cube.system.thread.tolist(), strict=True)
    )
    assert {(r["properties"], r["call_paths"], r["unit"]) for r in rows} == {("mpi", "hybrid/main/h_coll", "sec")}


@pytest.mark.slow
@pytest.mark.parametrize("system", ["tree", "topology", "distribution"])
def test_save__makes_pictures_of_what_a_pane_shows(report, cube, tmp_path, system):
    report.open(link(cube, [("comp", False)], more=f"&system={system}"))
    file = saved(report, "system", "SVG", tmp_path)
    assert file.name == f"hybrid_2x3.{system.replace('tree', 'system')}.comp.svg"
    picture = ElementTree.parse(file).getroot()
    box = report.pane("system").bounding_box()
    assert float(picture.get("width")) == pytest.approx(box["width"], abs=1)
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0].startswith("hybrid_2x3 \u00b7 ") and texts[0].endswith("comp")
    mean = cube.by_location("comp").mean()
    at = 100 * cube.by_location("comp") / cube.total("time")
    wanted = {"tree": "All 6 locations", "topology": f"{at[0]:.2f}", "distribution": f"{mean:#.4g} s"}
    assert wanted[system] in "".join(texts)
    assert "table" not in "".join(texts)  # the toolbar is no part of the picture
    # programs that read SVG know no other colours
    paints = {part.get(of) for part in picture.iter() for of in ("fill", "stroke", "stop-color")}
    assert {paint for paint in paints if paint and not re.match(r"#|none|rgb\(\d+, \d+, \d+\)$|url", paint)} == set()
    file = saved(report, "system", "PNG", tmp_path)
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(head[16:20], "big") == 2 * int(float(picture.get("width")))


@pytest.mark.slow
def test_save__makes_pictures_of_all_rows_of_a_tree(open_report, tmp_path):
    report = open_report(random_cube(4, n_calls=150).report(tmp_path / "m.html"), "#p=time")
    report.page.get_by_role("button", name="Open all").nth(1).click()
    scroller = report.pane("calls").locator(".tc-scroll")
    scroller.evaluate("(e) => e.scrollTo(0, 480)")
    report.settle()
    on_screen = report.pane("calls").locator(".tc-row").count()
    picture = ElementTree.parse(saved(report, "calls", "SVG", tmp_path)).getroot()
    n = report.view("view.model.trees.calls.rows.length")
    names = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text") if re.fullmatch(r"f\d+", t.text)]
    assert len(names) == n == 150 > on_screen
    assert float(picture.get("height")) > 150 * 24
    # the screen is as before
    assert scroller.evaluate("(e) => e.scrollTop") == 480
    assert report.pane("calls").locator(".tc-row").count() == on_screen


@pytest.mark.slow
def test_save__survives_any_name(open_report, tmp_path):
    cube = random_cube(9, name="</title><img src=x>&\"',\n=\u0007{}")
    report = open_report(cube.report(tmp_path / "e.html", title='../"<b>'), "#p=time")
    file = saved(report, "calls", "SVG", tmp_path)
    assert file.name == "b.calls.time.svg"
    assert any("</title><img" in (e.text or "") for e in ElementTree.parse(file).iter())
    file = saved(report, "calls", "table (CSV)", tmp_path)
    rows = list(csv.DictReader(file.open(encoding="utf-8", newline="")))
    assert rows[0]["name"] == printable(cube.call_paths.name[0])


@pytest.mark.slow
def test_save__and_copy_make_no_formulas(open_report, tmp_path):
    cube = random_cube(9, name="=1+{}")
    report = open_report(cube.report(tmp_path / "f.html"), "#p=time", permissions=["clipboard-read", "clipboard-write"])
    rows = list(csv.DictReader(saved(report, "calls", "table (CSV)", tmp_path).open(encoding="utf-8", newline="")))
    assert rows[0]["name"] == f"'{cube.call_paths.name[0]}"
    text = copied(report.page, report.pane("calls").get_by_label("Copy as table"))
    cells = [c for line in text.splitlines() for c in line.split("\t")]
    assert f"'{cube.call_paths.name[0]}" in [c.strip() for c in cells]
    assert not any(c.strip().startswith("=") for c in cells)


def address(cube, call_path):
    """Return the name of a call path in links."""
    return link(cube, [("time", False)], [(call_path, False)]).partition("&c=")[2]


def cut_at(cube, root, pruned):
    """Return the call path at which each one counts in a cut tree, the obvious way; -1 for none."""
    axis, at = cube.call_paths, []
    for i in range(len(axis)):
        up = int(axis.parent[i])
        if i == root or (root < 0 and up < 0):
            at.append(i)
        else:
            above = at[up] if up >= 0 else -1
            at.append(-1 if above < 0 else above if i in pruned or above != up else i)
    return np.array(at)


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
def test_marks__of_a_cut_tree_count_what_is_hidden_where_cube_does(open_report, tmp_path, large):
    """With a subtree as the root, and with parts pruned, all values are sums of the cube's cells: in the tree, flat, by
    location and by property."""
    cube = random_cube(13, large=large)
    axis = cube.call_paths
    root = max(range(1, len(axis)), key=lambda i: (axis.end[i] - i) * (axis.parent[i] >= 0))
    below = range(root + 1, int(axis.end[root]))
    pruned = {next(i for i in below if axis.end[i] > i + 1), below[-1]}
    for r, cut in ((root, set()), (-1, pruned), (root, pruned)):
        marks = f"&root={address(cube, r)}" * (r >= 0) + f"&prune={','.join(address(cube, i) for i in cut)}" * bool(cut)
        report = open_report(cube.report(tmp_path / "x.html"), link(cube, [("time", False)], more=marks))
        at = cut_at(cube, r, cut)
        report.page.evaluate("document.getElementById('tracecols').view.model.trees.calls.expandAll()")
        report.settle()
        own = np.bincount(at[at >= 0], cube.by_call_path("time")[at >= 0], len(axis))
        shown = report.view(
            "view.model.trees.calls.rows.map((i) => [view.model.view.callOf(i), view.model.value('calls', i)])"
        )
        assert {call for call, _ in shown} == set(at[at >= 0].tolist())
        for call, value in shown:
            assert value == pytest.approx(own[call], rel=1e-12, abs=1e-9), call
        # rows add up to the subtree, and so do locations and the properties
        mask = at >= 0
        assert report.view("[...view.model.byLocation]") == pytest.approx(
            cube.by_location("time", mask).tolist(), rel=1e-12
        )
        for p, name in enumerate(cube.properties.id):
            total = cube.by_location(name, mask).sum()
            assert report.view(f"view.model.totals.inclusive[{p}]") == pytest.approx(total, rel=1e-12, abs=1e-9)
        # flat: hidden call paths count for the region above
        report.click(report.page.get_by_role("radio", name="Flat"))
        flat = dict(
            report.view(
                "view.model.trees.flat.rows.map((i) => [view.cube.flat.region[i], view.model.value('calls', i)])"
            )
        )
        names = report.view("view.cube.header.regions.name")
        wanted = {}
        for call in set(at[mask].tolist()):
            wanted[axis.name[call]] = wanted.get(axis.name[call], 0) + own[call]
        assert {names[region]: value for region, value in flat.items()} == pytest.approx(wanted, rel=1e-12, abs=1e-9)


@pytest.mark.slow
def test_marks__loops_join_instances_and_what_they_call(open_report, tmp_path):
    values = {
        ("main/loop/step 1/f", 0, 0): 1, ("main/loop/step 2/f", 0, 0): 10, ("main/loop/step 2/g", 1, 0): 100,
        ("main/loop/step 2/f/h", 0, 0): 1000, ("main/loop/step 3", 0, 0): 10000, ("main/loop/other 1", 0, 0): 100000,
    }  # fmt: skip
    cube = small_cube({"time": values})
    report = open_report(cube.report(tmp_path / "l.html"), "#p=time&c=main/loop")
    report.pane("calls").get_by_role("button", name="Cut the call tree").click()
    report.click(report.page.get_by_role("menuitem", name="Loop"))
    assert report.view("view.model.trees.calls.selection().length") == 1
    report.page.evaluate("document.getElementById('tracecols').view.model.trees.calls.expandAll()")
    report.settle()
    unit = 1 / cube.resolution
    shown = {name: value for _, value, name, *_ in report.rows("calls").values()}
    assert shown == pytest.approx(
        {
            "main": 0,
            "loop": 0,
            "step": 10000 * unit,
            "f": 11 * unit,
            "h": 1000 * unit,
            "g": 100 * unit,
            "other 1": 100000 * unit,
        }
    )
    assert "3 joined" in report.pane("calls").inner_text()
    report.select("calls", next(n for n, row in report.rows("calls").items() if row[2] == "f"))
    assert report.view("view.model.selectedValue()") == pytest.approx(11 * unit)
    assert report.view("[...view.model.byLocation]") == pytest.approx([11 * unit, 0])
    assert "loop=main/loop" in report.page.url
    # a button leads back to the whole tree
    report.click(report.page.get_by_role("button", name="Show the whole tree"))
    assert {name for _, _, name, *_ in report.rows("calls").values()} >= {"step 1", "step 2"}


@pytest.mark.slow
def test_marks__are_set_and_undone_by_hand(report, cube):
    path = cube.call_paths.path.index("hybrid/main/h_coll")
    report.open(link(cube, [("time", False)], [(path, False)]))
    cut = report.pane("calls").get_by_role("button", name="Cut the call tree")
    cut.click()
    report.click(report.page.get_by_role("menuitem", name="Prune"))
    main = int(cube.call_paths.parent[path])
    own = cube.by_call_path("time")
    wanted = own[main] + cube.by_call_path("time", "iie")[path]
    # the selected call path is pruned: the one above it is selected instead
    assert report.view("view.model.trees.calls.selection()") == [[main, True]]
    assert report.view("view.model.selectedValue()") == pytest.approx(wanted)
    report.select("calls", main)
    cut.click()
    report.click(report.page.get_by_role("menuitem", name="Only this subtree"))
    assert report.view("view.model.totals.inclusive[0]") == pytest.approx(cube.by_call_path("time", "iie")[main])
    assert "below main" in report.page.locator(".tc-footer").inner_text()
    for chip in ("without h_coll", "only main"):
        report.click(report.pane("calls").get_by_role("button", name=chip))
    assert report.pane("calls").locator(".tc-marks").count() == 0
    assert report.view("view.model.totals.inclusive[0]") == pytest.approx(cube.total("time"))
    assert not {"prune", "root"} & set(re.findall(r"[#&](\w+)=", report.page.url))
    # selecting a finding shows the whole tree, to which it refers
    report.open(link(cube, [("time", False)], more=f"&root={address(cube, path)}"))
    report.click(report.pane("overview").locator(".tc-finding").first)
    assert report.view("view.model.view.isWhole")


@pytest.mark.slow
def test_details__describe_and_advise(report, cube):
    report.open(
        link(cube, [("omp_ibarrier_wait", False)], [(cube.call_paths.path.index("hybrid/main/h_region"), False)])
    )
    text = report.pane("properties").locator(".tc-details").inner_text()
    at = cube.properties.number["omp_ibarrier_wait"]
    assert cube.properties.summary[at] in text
    assert cube.properties.advice[at] in text
    call = report.pane("calls").locator(".tc-details").inner_text()
    i = cube.call_paths.path.index("hybrid/main/h_region")
    assert f"{cube.call_paths.file[i]}:{cube.call_paths.line[i]}" in call


SOURCE_FILES = {
    "app/solve.c": "".join(f"line {i} of <b>solve</b>\n" for i in range(1, 41)),
    "app/deep/other/main.c": "int main\n",
    "lib/twice.c": "a\n" * 9,
    "more/twice.c": "b\n" * 9,
    ".git/hidden.c": "secret\n",
}


@pytest.fixture
def sourced(tmp_path):
    """A cube whose regions have source files and lines, and a folder with some of the files."""
    cube = small_cube(
        {"time": {(f"main/{name}", 0, 0): 10 for name in ("solve", "twice", "hidden", "nowhere", "MPI_Send")}}
    )
    places = {
        "main": ("/home/who/src/other/main.c", 1, 0),
        "solve": ("C:\\code\\app\\solve.c", 10, 14),
        "twice": ("twice.c", 3, 4),
        "hidden": ("/x/hidden.c", 1, 1),
        "nowhere": ("/x/nowhere.c", 7, 8),
        "MPI_Send": ("MPI", 0, 0),
    }
    axis = cube.call_paths
    for i, name in enumerate(axis.name):
        axis.file[i], axis.line[i], axis.end_line[i] = places[name]
    for name, text in SOURCE_FILES.items():
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / name).write_text(text, encoding="utf-8")
    return cube, tmp_path / "code"


def test_sources__are_the_lines_around_definitions_of_files_that_fit(sourced, tmp_path):
    cube, folder = sourced
    found = Sources.of(cube.call_paths, folder)
    lines = SOURCE_FILES["app/solve.c"].splitlines()
    assert found.files == {
        "C:\\code\\app\\solve.c": [(7, lines[6:17])],  # three lines around 10 to 14
        "/home/who/src/other/main.c": [(1, ["int main"])],  # a path of another machine
    }
    # two files fit equally well, hidden files are not searched, and a region without a line is not of the program
    assert found.missing == ["/x/hidden.c", "/x/nowhere.c", "twice.c"]
    (folder / "twice.c").mkdir()  # a folder, no file
    assert Sources.of(cube.call_paths, folder / "lib").missing[-1] != "twice.c"
    with pytest.raises(SeverityError, match=r"is not a folder\n  give"):
        Sources.of(cube.call_paths, folder / "no")
    # a region as long as its file is truncated, adjacent regions share a stretch
    assert sources._stretches(["x"] * 2000, [(1, 2000)])[0][1] == ["x"] * (1 + sources.LONGEST + sources.AROUND)
    assert [(n, len(some)) for n, some in sources._stretches(["x"] * 90, [(10, 20), (22, 0), (80, 99)])] == [
        (7, 44),
        (77, 14),
    ]
    # sources are packed on request only
    assert b"sources" not in zlib.decompress(container.pack(cube).header, -15)


@pytest.mark.slow
def test_sources__are_shown_from_the_details_of_a_call_path(open_report, sourced, tmp_path):
    cube, folder = sourced
    cube.save(tmp_path / "s.severity")
    output = executed("report", tmp_path / "s.severity", "-o", tmp_path / "s.html", "--sources", folder)
    assert output.count("note: 3 source files") == 1
    report = open_report(tmp_path / "s.html", "#p=time&c=main/solve")
    report.pane("calls").get_by_role("button", name="source", exact=True).click()
    dialog = report.page.get_by_role("dialog", name="Source of solve")
    dialog.locator(".tc-own").first.wait_for()
    assert dialog.locator("li").all_inner_texts() == [f"{i}\nline {i} of <b>solve</b>" for i in range(7, 18)]
    assert dialog.locator(".tc-own span").all_inner_texts() == ["10", "11", "12", "13", "14"]
    report.press("Escape")
    for name in ("twice", "MPI_Send"):
        report.open(f"#p=time&c=main/{name}")
        assert report.pane("calls").get_by_role("button", name="source", exact=True).count() == 0
    report.page.get_by_role("button", name="1 note of the analysis").click()
    assert "/x/hidden.c, /x/nowhere.c, twice.c" in report.page.get_by_role("dialog").inner_text()


@pytest.mark.slow
def test_zero_rows__can_be_left_out(report, cube):
    report.open(link(cube, [("mpi_latebroadcast", False)]))
    report.click(report.pane("calls").get_by_label("Open all"))
    before = len(report.rows("calls"))
    report.click(report.pane("calls").get_by_label("Only rows with a value"))
    rows = report.rows("calls")
    assert 0 < len(rows) < before
    inclusive = cube.by_call_path("mpi_latebroadcast", "iie")
    assert set(rows) == {i for i in range(len(inclusive)) if inclusive[i]}


class Grid:
    """A topology as a cube holds it."""

    def __init__(self, name, names, sizes, coordinates, is_artificial=False):
        self.given = {
            "name": name,
            "dimensions": list(names),
            "sizes": list(sizes),
            "periodic": [True] * len(sizes),
            "locations": list(coordinates),
            "coordinates": [list(at) for at in coordinates.values()],
            "is_artificial": is_artificial,
        }

    def to_dict(self):
        return self.given


def with_topologies(cube):
    """Add a grid of 3 dimensions, with one location without a position, and a line to the cube; return it."""
    n = cube.system.n_locations
    grid = {i: (i % 4, i // 4 % 3, i // 12) for i in range(n) if i != 5}
    cube.topologies = [Grid("grid", "XYZ", (4, 3, 2), grid), Grid("line", [""], [0], {i: [i] for i in range(n)})]
    return cube


def test_topologies__of_the_cube_come_first(cube):
    other = random_cube(6)
    names = [t["name"] for t in topologies_of(with_topologies(other))]
    assert names == ["grid", "line", "Process x thread"]
    grid = topologies_of(other)[0]
    # the second thread of rank 1 has no position: it counts at that of the first, as in on_topology
    assert (grid["coordinates"][5], grid["coordinates"][6]) == ([0, 1, 0], [2, 1, 0])
    assert grid["dimensions"][2] == {"name": "Z", "size": 2, "periodic": True}
    other.topologies = [Grid("Process x Thread", "PT", (6, 4), {0: (0, 0)}, is_artificial=True)]
    assert [t["name"] for t in topologies_of(other)] == ["Process x Thread"]


def test_topologies__the_first_is_the_programs_own_and_never_a_line_or_a_cut(cube):
    def placed(sizes, is_artificial=False):
        coordinates = [list(at) for at in np.ndindex(*sizes)]
        dimensions = [{"name": "", "size": size, "periodic": False} for size in sizes]
        return {"dimensions": dimensions, "coordinates": coordinates, "is_artificial": is_artificial}

    torus, threads, line = placed((2, 2, 2, 2, 2, 4, 3)), placed((4, 2), True), placed((4, 1), True)
    own, grid = placed((8,)), placed((3, 1, 2))
    for there, first in (
        ([torus, threads, own], 1),
        ([line, torus, grid, threads], 2),
        ([line, own], 1),
        ([torus, line], 1),
        ([torus], 0),
        ([placed((2, 2)), grid], 1),  # the grid has more locations
    ):
        assert default_topology(there) == first
    # a dimension of one position needs no axis; of many dimensions the largest are drawn, the others summed up
    assert [first_axes(s) for s in ((3, 1, 2), (1, 6), (2, 2, 2, 2, 2, 16, 4), (1, 1))] == [
        [0, 2, -1],
        [1, -1, -1],
        [5, 6, 0],
        [0, -1, -1],
    ]
    assert topologies_of(cube)[0]["axes"] == [0, 1, -1]


WRITTEN = """(selector) => { const texts = []; const pen = new Proxy({}, { set: () => true, get: (_, name) =>
    name === "fillText" ? (text) => texts.push(text) : name === "measureText" ? () => ({ width: 9 }) : () => {} });
    document.querySelector(selector).picture.draw(pen); return texts; }"""
"""A function in JavaScript that returns the texts drawn on a canvas."""


@pytest.mark.slow
def test_topology__has_names_and_numbers_of_axes_and_values_in_cells(report, cube):
    report.open(link(cube, [("time", False)], more="&system=topology"))
    texts = report.page.evaluate(WRITTEN, "[data-pane=system] canvas")
    dimensions = topologies_of(cube)[0]["dimensions"]
    wanted = [f"{at:.2f}" for at in 100 * cube.by_location("time") / cube.total("time")]
    assert texts[-6:] == [wanted[row] for row in (0, 3, 1, 4, 2, 5)]
    x, y = dimensions
    assert texts[:-6] == ["0", "1", f"{x['name']} \u2192", "0", "1", "2", f"{y['name']} \u2193"]


@pytest.mark.slow
def test_topology__shows_the_value_of_every_place(open_report, tmp_path):
    cube = with_topologies(random_cube(7))
    report = open_report(cube.report(tmp_path / "t.html"), link(cube, [("time", False)], [(0, False)]))
    assert report.view("view.cube.header.topologies.map((t) => t.name)") == ["grid", "line", "Process x thread"]
    report.click(report.page.get_by_role("radio", name="Topology"))
    mask = np.zeros(len(cube.call_paths), bool)
    mask[: cube.call_paths.end[0]] = True
    at = cube.by_location("time", mask)
    canvas = report.page.locator("[data-pane=system] canvas")
    canvas.focus()
    reading = report.page.locator(".tc-reading")
    report.press("ArrowRight")  # the first position
    for step, row in ((None, 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowDown", 6), ("PageDown", 18)):
        if step:
            report.press(step)
        assert f"rank {row // 4} thread {row % 4}" in reading.inner_text()
        assert float(re.match(r"[\d.]+", reading.inner_text())[0]) == pytest.approx(at[row], rel=1e-3)
    # the position of location 5 is empty, so one step down from 1 passes it
    report.press("PageUp", "ArrowUp", "ArrowLeft", "ArrowDown")
    assert "rank 2 thread 1" in reading.inner_text()
    # positions have colours of their own
    colours = report.page.evaluate(
        """() => { const c = document.querySelector("[data-pane=system] canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        const found = {}; for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) { const k = [d[i], d[i+1], d[i+2]].join(); found[k] = (found[k] ?? 0) + 1; }
        return Object.entries(found).filter(([, n]) => n > 60).length; }"""
    )
    assert colours > 10
    report.page.get_by_label("Topology", exact=True).select_option("1")
    report.settle()
    box = canvas.bounding_box()
    hits = set()
    for k in range(40):
        report.page.mouse.move(box["x"] + 24 + k * (box["width"] - 48) / 40, box["y"] + box["height"] / 2)
        text = reading.inner_text()
        if "rank" in text:
            rank, thread = map(int, re.search(r"rank (\d+) thread (\d+)", text).groups())
            hits.add(4 * rank + thread)
            assert float(re.match(r"[\d.]+", text)[0]) == pytest.approx(at[4 * rank + thread], rel=1e-3)
    assert len(hits) >= 3
    # a click selects the location in the tree
    report.page.mouse.down()
    report.page.mouse.up()


@pytest.mark.slow
def test_topology__sums_over_dimensions_that_are_not_drawn(open_report, tmp_path):
    cube = with_topologies(random_cube(8))
    report = open_report(cube.report(tmp_path / "t.html"), link(cube, [("time", False)], more="&system=topology"))
    at = cube.by_location("time")
    report.page.get_by_label("Axis z").select_option("-1")
    canvas = report.page.locator("[data-pane=system] canvas")
    canvas.focus()
    report.press("ArrowRight")
    reading = report.page.locator(".tc-reading")
    assert float(re.match(r"[\d.]+", reading.inner_text())[0]) == pytest.approx(at[0] + at[12], rel=1e-3)
    report.page.get_by_label("Slice of Z").select_option("1")
    report.settle()
    canvas.focus()
    report.press("ArrowRight", "ArrowLeft")
    assert float(re.match(r"[\d.]+", reading.inner_text())[0]) == pytest.approx(at[12], rel=1e-3)


@pytest.mark.slow
def test_distribution__has_the_statistics_of_the_locations(report, cube):
    report.open(link(cube, [("comp", False)], more="&system=distribution"))
    at = cube.by_location("comp")
    facts = dict(re.findall(r"([a-z ]+)\n([^\n]+)", report.page.locator(".tc-facts").inner_text()))
    for name, value in (
        ("mean", at.mean()),
        ("median", np.median(at)),
        ("largest", at.max()),
        ("deviation", at.std(ddof=1)),
    ):
        assert float(facts[name].split()[0]) == pytest.approx(value, rel=1e-3), name
    assert facts["largest over mean"] == f"+{100 * (at.max() / at.mean() - 1):.2f} %"
    canvas = report.page.locator("[data-pane=system] canvas")
    canvas.focus()
    report.press("ArrowRight")
    first = int(at.argmax())
    assert (
        report.page.locator(".tc-reading")
        .inner_text()
        .endswith(f"rank {cube.system.rank[first]} thread {cube.system.thread[first]}")
    )
    report.page.get_by_role("radio", name="Processes").click()
    assert "2 processes" in report.page.locator(".tc-reading").inner_text()


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def divided(tmp_path_factory, data):
    """The recorded cube by its six phases, and by twenty bins."""
    path = tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("d") / "h.trace")
    trace = tracecols.open(path)
    return {"phase": trace.analyze(phases="from:h_region"), "bin": trace.analyze(bins=20), "trace": path}


def computed(cube, name, sums_of):
    """Evaluate the formula of a property, and the formulas in it, on the sums of additive properties."""
    if not cube.properties.is_computed(name):
        return sums_of(name)
    return cube.computed(name, lambda of: computed(cube, of, sums_of))


def check_metric(report, cube, name, call_path):
    """Check that each row of a computed property has the value that the cube computes from its sums, and no share."""
    view = report.view
    report.open(f"#p={encoded(name)}&mode=absolute")

    def same(shown, wanted):
        np.testing.assert_allclose(np.array(shown, float), wanted, rtol=1e-12, atol=0)

    def at_nodes(mask=None):
        """Return for each node of the system tree the formula evaluated on the sums over its subtree."""
        below = [[cube.system.location[i] for i in system_below(cube, node)] for node in range(len(cube.system.kind))]
        rows = [[row for row in some if row >= 0] for some in below]
        return computed(cube, name, lambda of: np.array([cube.by_location(of, mask)[some].sum() for some in rows]))

    same(view("Array.from(view.model.calls.own)"), cube.by_call_path(name, "iee"))
    same(view("Array.from(view.model.calls.inclusive)"), cube.by_call_path(name, "iie"))
    same(view("Array.from(view.model.byLocation)"), cube.by_location(name))
    same(view("Array.from(view.model.system.inclusive)"), at_nodes())
    same([view("view.model.selectedTotal()"), view("view.model.selectedValue()")], [cube.total(name)] * 2)
    rows = report.rows("calls")
    assert rows and not any("%" in text for text, *_ in rows.values())
    for node, (_, value, _, opened, _) in rows.items():
        same(value, cube.by_call_path(name, "iee" if opened else "iie")[node])
    assert report.page.locator(".tc-footer").text_content().count("computed from the sums of each row") == 1
    for pane in ("properties", "calls", "system"):
        assert "%" not in report.pane(pane).locator(".tc-amount").text_content()
    # flat: a region has the value over all call paths that end in it
    names = np.array(cube.call_paths.name)
    for node, region in view("view.cube.header.regions.name.map((n, r) => [r, n])"):
        call_paths = names == region
        at = view(f"[...view.cube.flat.region].findIndex((r, i) => r === {node} && view.cube.flat.call[i] < 0)")
        same(view(f"view.model.flat.inclusive[{at}]"), cube.total(name, call_paths))
    # two call paths together, and their locations
    mask = np.zeros(len(names), bool)
    mask[[call_path, 0]] = True
    view(f"view.model.trees.calls.set({{ expanded: [...Array({len(names)}).keys()], selected: [0, {call_path}] }})")
    report.settle()
    chosen = [i for i in (0, call_path) if cube.call_paths.end[i] - i > 1]
    for i in {0, call_path} - set(chosen):
        mask[i] = True
    same(view("view.model.selectedValue()"), cube.total(name, mask))
    same(view("Array.from(view.model.byLocation)"), cube.by_location(name, mask))
    same(view("Array.from(view.model.system.inclusive)"), at_nodes(mask))
    view("view.model.trees.system.set({ expanded: [], selected: [1, 2] })")
    both = [cube.system.location[i] for node in (1, 2) for i in system_below(cube, node)]
    both = [row for row in dict.fromkeys(both) if row >= 0]
    if 2 not in system_below(cube, 1):
        wanted = computed(cube, name, lambda of: cube.by_location(of, mask)[both].sum())
        same(view("view.model.together('system', view.model.trees.system.selection())"), wanted)
    report.press("h")
    for tab in ("Topology", "Distribution"):
        report.click(report.page.get_by_role("radio", name=tab))
    assert report.trouble == []


METRICS = ("ratio = p1 / p2", "least = min(p3, counter * 2e9) - -(time / 4)", "nested = ratio / max(least, 1)")


@pytest.mark.slow
def test_report__computes_metrics_for_every_row(open_report, tmp_path):
    cube = divide(random_cube(11), 9).with_metrics(*METRICS)
    report = open_report(cube.report(tmp_path / "r.html", with_startup=True))
    for name, call_path in (("ratio", 3), ("least", 7), ("nested", 12)):
        check_metric(report, cube, name, call_path)
        report.open(f"#p={name}&zeros=hide&order=value")
        report.view("view.model.showTime(true)")
        report.settle()
        profile = report.view("Array.from(view.model.byPeriod.profile)")
        np.testing.assert_allclose(profile, cube.over_time(name, by="total")[name], rtol=1e-9)
        # for several periods, the formula is evaluated on their common sums
        wanted = computed(cube, name, lambda of: cube.over_time(of, by="total")[of].to_numpy()[2:5].sum())
        assert report.view("view.model.byPeriod.sums.over([2, 3, 4])") == pytest.approx(float(wanted), rel=1e-9)
        report.view("view.model.setScope([2, 4])")
        report.settle()
        assert report.view("view.model.selectedTotal()") == pytest.approx(float(wanted), rel=1e-9)
    assert "computed" in report.row("properties", len(cube.properties.id) - 1).text_content()


@pytest.mark.slow
def test_report__computes_metrics_of_recorded_counters(open_report, converted, tmp_path):
    trace = tracecols.open(converted("metrics_rusage"))
    metrics = ["per = ru_nvcsw / time", "each = mpi / visits", "busy = (ru_stime + 1) / max(time - mpi, 1e-9)"]
    cube = trace.analyze(metrics=metrics)
    report = open_report(cube.report(tmp_path / "m.html", with_startup=True))
    for name in ("per", "each", "busy"):
        check_metric(report, cube, name, 4)


@pytest.mark.slow
def test_pack__leaves_out_metrics_that_do_not_follow_from_sums():
    cube = random_cube(2)
    doubled = [f"m{i} = m{i - 1} + m{i - 1}" for i in range(1, 40)]
    cube = cube.with_metrics("constant = 3", "m0 = p1", *doubled)
    packed = json.loads(zlib.decompress(container.pack(cube).header, -15))
    kept = [name for name in packed["properties"]["id"] if name not in random_cube(2).properties.id]
    # an expanded formula has 10,000 parts at most
    assert kept == [f"m{i}" for i in range(13)]
    assert left_out_of(cube) == ["constant", *(f"m{i}" for i in range(13, 40))]


def over_time(cube, properties, call_paths):
    """Return the values of a selection by location and period, and the sum outside of all periods, the obvious way."""
    n = len(cube.periods)
    counts = set(range(len(cube.call_paths)))
    if call_paths:
        counts = {i for c, opened in call_paths for i in ([c] if opened else range(c, int(cube.call_paths.end[c])))}
    sums = {}
    for name, opened in properties:
        terms = [(name, 1), *((child, -1) for child in (cube.properties.parts(name) if opened else ()))]
        for term, sign in terms:
            cells = cube.period_cells[term]
            columns = (cells.call_path, cells.location, cells.period, cells.value)
            for call_path, location, period, value in zip(*(c.tolist() for c in columns), strict=True):
                if call_path in counts:
                    sums[location, period] = sums.get((location, period), 0) + sign * value
    values = np.zeros((cube.system.n_locations, n + 1))
    for (location, period), value in sums.items():
        values[location, period + 1] = value * cube.scale(properties[0][0])
    return values[:, 1:], values[:, 0].sum()


def check_time(report, cube, properties, call_paths):
    """Check that the pane Time has the cube's values."""
    values, outside = over_time(cube, properties, call_paths)
    shown = report.view(
        "({map: [...view.model.byPeriod.map], profile: [...view.model.byPeriod.profile],"
        " outside: view.model.byPeriod.outside, group: view.model.byPeriod.group})"
    )
    assert shown["group"] == 1
    # sums of floating-point numbers are rounded
    tolerance = {"rtol": 1e-11, "atol": 1e-12 * max(1e-300, abs(cube.whole(properties[0][0])))}
    np.testing.assert_allclose(np.reshape(shown["map"], values.shape), values, **tolerance)
    np.testing.assert_allclose(shown["profile"], values.sum(axis=0), **tolerance)
    np.testing.assert_allclose(shown["outside"], outside, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["phase", "bin"])
def test_time__shows_what_over_time_tells(open_report, divided, tmp_path, kind):
    cube = divided[kind]
    report = open_report(cube.report(tmp_path / "t.html", with_startup=True))
    for name in ("mpi", "omp_idle_threads", "visits", "bytes"):
        report.open(link(cube, [(name, False)]))
        told = cube.over_time(name).to_numpy()
        shown = np.reshape(report.view("[...view.model.byPeriod.map]"), told.T.shape)
        np.testing.assert_allclose(shown, told.T, rtol=1e-12)
        total = cube.over_time(name, by="total")[name]
        if total.any():
            assert f"worst: {kind} {total.abs().idxmax()}," in report.pane("time").inner_text()
    rng = np.random.default_rng(4)
    for _ in range(3):
        properties, call_paths = random_selection(rng, cube)
        report.open(link(cube, properties, call_paths))
        check_time(report, cube, properties, call_paths)


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
def test_time__of_random_cubes_is_exact(open_report, tmp_path, large):
    cube = divide(random_cube(10, large=large), 9)
    report = open_report(cube.report(tmp_path / "x.html", with_startup=True))
    rng = np.random.default_rng(2)
    for selection in [random_selection(rng, cube) for _ in range(4)] + [([("counter", False)], [])]:
        report.open(link(cube, *selection))
        check_time(report, cube, *selection)


def with_property(cube, name, cells):
    """Give a divided cube a property in seconds with cells by period."""
    if name not in cube.cells:
        p = cube.properties
        columns = {
            "id": name, "parent": "", "title": name, "unit": "sec", "summary": "S.", "advice": "A.", "confidence": 1.0, "overlaps": False,
        }  # fmt: skip
        cube = cube.replaced(properties=PropertyAxis(*([*getattr(p, c), value] for c, value in columns.items())))
    whole = Cells.sum(cells.call_path, cells.location, cells.value)
    return cube.replaced(cells={**cube.cells, name: whole}, period_cells={**cube.period_cells, name: cells})


def time_place(cube, column, row):
    """Return a function that computes the position of a cell of the heat map from the bounding box of the canvas."""
    # from top to bottom: the composition of the time, the sum, groups of similar phases, the map
    left, right, top, under = 104, 14, 90 + 5 * (cube.periods.kind == "phase"), 18

    def at(box):
        width, height = box["width"] - left - right, box["height"] - top - under
        x = left + (column + 0.5) * width / len(cube.periods)
        y = {-1: 70, -2: 30}[row] if row < 0 else top + (row + 0.5) * height / cube.system.n_locations
        return box["x"] + x, box["y"] + y

    return at


@pytest.mark.slow
def test_time__tells_what_is_under_the_mouse_and_can_be_put_away(open_report, divided, tmp_path):
    cube = divided["phase"]
    report = open_report(cube.report(tmp_path / "t.html", with_startup=True), "#p=time")
    pane = report.pane("time")
    told = cube.over_time("time").to_numpy()
    for column, row in ((0, 0), (5, 4), (2, -1)):
        report.page.mouse.move(*time_place(cube, column, row)(pane.locator("canvas").bounding_box()))
        tip = pane.locator(".tc-tip")
        location = [at for at in cube.system.location if at >= 0][row]
        wanted = told[column].sum() if row < 0 else told[column, location]
        assert float(tip.get_attribute("data-value").split()[0]) == pytest.approx(wanted)
        where = "all locations" if row < 0 else f"rank {location // 3} thread {location % 3}"
        assert f"phase {column}, {where}" in tip.inner_text()
    # above the sum: the composition of the time
    report.page.mouse.move(*time_place(cube, 3, -2)(pane.locator("canvas").bounding_box()))
    parts = container.time_profile(cube)["parts"]
    whole = sum(part["values"][3] for part in parts)
    for part in parts:
        share = f"{part['title']} {percent(part['values'][3], whole)} %"
        assert (share in pane.locator(".tc-tip").inner_text()) == (part["values"][3] != 0)
    pane.locator("canvas").focus()
    report.page.mouse.move(10, 10)
    report.press("ArrowRight")
    assert f"phase {told.sum(axis=1).argmax()}, all locations" in pane.locator(".tc-tip").inner_text()
    report.press("ArrowLeft", "ArrowDown")
    assert f"phase {told.sum(axis=1).argmax() - 1}, rank 0 thread 0" in pane.locator(".tc-tip").inner_text()
    report.page.get_by_role("button", name="Time: when it happened").click()
    assert pane.count() == 0
    # it stays closed; what a page has stored reaches the next one at some later time
    assert report.page.evaluate("localStorage.getItem('tracecols-time')") == "hidden"
    report.page.add_init_script("if (location.protocol === 'file:') localStorage.setItem('tracecols-time', 'hidden')")
    report.open("#p=mpi")
    assert pane.count() == 0


@pytest.mark.slow
def test_names__that_are_long_leave_room_for_values(open_report, archive, opened, tmp_path):
    """As those of templates in C++."""
    name = f"void run<{'std::vector<double, std::allocator<double> >, ' * 60}>"
    archive.mpi(1).ranks[0].enter(0, "main").call(1000, 9000, name).leave(10000, "main")
    cube = opened(archive).analyze()
    report = open_report(cube.report(tmp_path / "x.html"), link(cube, [("time", False)], [(1, False)]))
    details = report.pane("calls").locator(".tc-details")
    assert name in details.inner_text()
    assert details.locator("h3").bounding_box()["height"] < details.bounding_box()["height"] / 2


@pytest.mark.slow
def test_time__stacks_the_time_of_the_selected_call_paths(open_report, divided, tmp_path):
    cube = divided["bin"]
    report = open_report(cube.report(tmp_path / "t.html", with_startup=True))
    parts = container.time_profile(cube)["parts"]
    for call_paths in ([(2, False)], [(1, True), (5, False)], []):
        report.open(link(cube, [("mpi", False)], call_paths))
        run = report.view("({isWhole: view.model.run.isWhole, parts: view.model.run.parts})")
        assert run["isWhole"] == (not call_paths)
        for part, shown in zip(parts, run["parts"], strict=True):
            own = [(cube.properties.id[p], True) for p in part["of"]]
            wanted = sum(over_time(cube, [of], call_paths)[0].sum(axis=0) for of in own) * cube.resolution
            np.testing.assert_allclose(shown["values"], wanted, atol=1e-3)
    report.open(link(cube, [("mpi", False)], [(2, False)]))
    report.page.mouse.move(*time_place(cube, 9, -2)(report.pane("time").locator("canvas").bounding_box()))
    assert "bin 9, time of the selected call paths" in report.pane("time").locator(".tc-tip").inner_text()


@pytest.mark.slow
def test_time__marks_who_holds_the_critical_path(open_report, divided, tmp_path):
    """In phase 0 rank 0 thread 0 holds three quarters of it, rank 1 thread 0 the rest; in phase 2 rank 1 thread 0 holds
    nearly all."""
    cube = divided["phase"]
    at = {location: i for i, location in enumerate(i for i in cube.system.location if i >= 0)}
    held = [(0, 0, 75), (3, 0, 25), (3, 2, 960), (1, 2, 40)]
    location, period, value = (np.array(column, np.int64) for column in zip(*held, strict=True))
    found = with_property(cube, "critical_path", PeriodCells.ordered(np.full(4, 1), location, period, value))
    report = open_report(found.report(tmp_path / "t.html", with_startup=True), "#p=time")
    shares = {(h["location"], h["column"]): h["share"] for h in report.view("view.model.path.held")}
    # locations that hold less than a twentieth are left out
    assert shares == {(0, 0): 0.75, (3, 0): 0.25, (3, 2): 0.96}
    pane = report.pane("time")
    assert "critical path" in pane.locator(".tc-tools").inner_text()
    for column, row, text in ((0, at[0], "75.00 % of the critical path"), (2, at[3], "96.00 % of the critical path")):
        report.page.mouse.move(*time_place(found, column, row)(pane.locator("canvas").bounding_box()))
        assert text in pane.locator(".tc-tip").inner_text()
    report.page.mouse.move(*time_place(found, 0, -1)(pane.locator("canvas").bounding_box()))
    tip = pane.locator(".tc-tip").inner_text()
    assert "rank 0 thread 0: 75.00 % of the critical path" in tip and "rank 1 thread 0: 25.00 %" in tip
    # a cube without the critical path has no such marks
    without = open_report(divide(random_cube(3), 5).report(tmp_path / "w.html"), "#p=time")
    assert without.view("view.model.path") is None
    assert "critical path" not in without.pane("time").locator(".tc-tools").inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["phase", "bin"])
def test_profile__parts_divide_the_time_of_each_period(divided, kind):
    """Composition of the time: each property that does not overlap others is in one part, and the parts add up to all
    of it."""
    cube = divided[kind].additive()
    axis, n = cube.properties, len(cube.periods)
    parts = {part["id"]: part for part in container.time_profile(cube)["parts"]}
    assert [part["title"] for part in parts.values()] == ["Computation", "MPI", "OpenMP", "Waiting", "Idle Threads"]

    def told(name):
        cells = cube.period_cells[name]
        return [int(cells.value[cells.period == k].sum()) for k in range(n)]

    sums = np.sum([part["values"] for part in parts.values()], axis=0)
    assert sums.tolist() == told("time")
    # by hand: OpenMP is all of its time without the waits of its threads for each other
    waits = ["omp_ebarrier_wait", "omp_ibarrier_wait", "omp_lock_contention_critical", "omp_lock_contention_api"]
    openmp = np.array(told("omp_time")) - np.sum([told(name) for name in waits if name in axis.number], axis=0)
    assert parts["omp_time"]["values"] == openmp.tolist()
    assert parts["omp_idle_threads"]["values"] == told("omp_idle_threads")
    assert parts["comp"]["values"] == told("comp")
    assert part_of(axis, "mpi_latesender") == "waits"
    assert part_of(axis, "mpi_point2point") == "mpi"
    assert part_of(axis, "visits") is None
    # properties that overlap others are in no part
    axis.overlaps[axis.number["mpi_communication"]], before = True, axis.overlaps[axis.number["mpi_communication"]]
    assert part_of(axis, "mpi_point2point") is None
    axis.overlaps[axis.number["mpi_communication"]] = before


@pytest.mark.slow
def test_time__marks_the_worst_tells_similar_phases_and_the_command_of_a_window(
    open_report, divided, tmp_path, monkeypatch
):
    cube = divided["phase"]
    report = open_report(cube.report(tmp_path / "t.html", with_startup=True), "#p=time")
    pane = report.pane("time")
    # the cell with most of the selection
    told = cube.over_time("time").to_numpy()
    _, location = np.unravel_index(told.argmax(), told.shape)
    where = f"rank {cube.system.rank[location]} thread {cube.system.thread[location]}"
    assert re.search(rf"most of one location: \S+ s, {where}", pane.inner_text())
    # the groups are those of similar_periods
    table = cube.similar_periods()
    n_groups, n_outliers = int(table.group.max()) + 1, int(table.is_outlier.sum())
    named = [f"{n_groups} group{'s' * (n_groups > 1)}"] * (n_groups > 0)
    named += [f"{n_outliers} outlier{'s' * (n_outliers > 1)}"] * (n_outliers > 0)
    pane.get_by_role("button", name=", ".join(named), exact=True).click()
    dialog = report.page.get_by_role("dialog", name="Similar phases")
    for number, members in table[table.group >= 0].groupby("group"):
        assert re.search(
            rf"group {number}\s+{len(members)} phases? like phase {members.representative.iloc[0]}", dialog.inner_text()
        )
    chosen = int(table[table.is_outlier].index[0]) if n_outliers else int(table.representative.iloc[0])
    report.click(dialog.get_by_role("button", name=f"phase {chosen}", exact=True))
    assert report.view("view.model.scope") == [chosen, chosen]
    assert dialog.count() == 0
    # the command covers the phase, in seconds since the start of the recording
    view, command = (shlex.split(text) for text in pane.locator(".tc-command code").all_inner_texts())
    assert view == ["tracecols", "view", "hybrid_2x3.trace", *command[4:]]
    assert command[:4] == ["tracecols", "export", "hybrid_2x3.trace", f"hybrid_2x3.phase{chosen}.pftrace"]
    start, stop = (float(command[command.index(option) + 1]) for option in ("--from", "--to"))
    origin = cube.facts["trace"]["origin"]
    begin, end = ((t[chosen] - origin) / cube.resolution for t in (cube.periods.begin_time, cube.periods.end_time))
    assert begin - 2e-9 <= start <= begin and end <= stop <= end + 2e-9
    # if the property is a part of the time, the rows of the timeline show it
    report.open(link(cube, [("mpi_latereceiver", False)], more=f"&t={chosen}-{chosen}"))
    assert pane.locator(".tc-command code").first.inner_text().endswith(" -p mpi_latereceiver")
    # the command line accepts the command
    shutil.copytree(divided["trace"], tmp_path / "hybrid_2x3.trace")
    monkeypatch.chdir(tmp_path)
    executed(*command[1:])
    assert (tmp_path / command[3]).stat().st_size


@pytest.mark.slow
def test_overview__has_a_profile_of_a_cube_that_is_divided(open_report, divided, tmp_path, report):
    assert report.pane("overview").locator("canvas").count() == 0
    other = open_report(divided["bin"].report(tmp_path / "b.html", with_startup=True))
    label = other.pane("overview").locator("canvas").get_attribute("aria-label")
    parts = container.time_profile(divided["bin"])["parts"]
    whole = sum(sum(part["values"]) for part in parts)
    assert label.startswith("What the time of 20 bins was spent on: Computation ")
    for part in parts:
        assert f"{part['title']} {percent(sum(part['values']), whole)} %" in label


def only(cube, first, last):
    """Return the cube of the periods from `first` to `last`."""
    cells = {}
    for name, found in cube.period_cells.items():
        part = found.where((found.period >= first) & (found.period <= last))
        cells[name] = Cells.sum(part.call_path, part.location, part.value)
    return cube.replaced(cells=cells, periods=None, period_cells={})


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
def test_time__scopes_the_trees_to_periods(open_report, tmp_path, large):
    cube = divide(random_cube(10, large=large), 9)
    report = open_report(cube.report(tmp_path / "x.html", with_startup=True))
    rng = np.random.default_rng(3)
    for first, last in ((2, 2), (3, 7), (0, 8)):
        properties, call_paths = random_selection(rng, cube)
        report.open(link(cube, properties, call_paths, f"&t={first}-{last}"))
        check_shown(report, only(cube, first, last), properties, call_paths)
        check_time(report, cube, properties, call_paths)  # the pane still shows all periods
    report.open(link(cube, properties, call_paths, "&t=3-9"))
    assert "Not in this cube: periods 3-9" in report.page.locator(".tc-message").inner_text()
    check_shown(report, cube, properties, call_paths)


@pytest.mark.slow
def test_time__is_scoped_by_a_click_a_drag_and_keys(open_report, divided, tmp_path):
    cube = divided["phase"]
    report = open_report(cube.report(tmp_path / "t.html", with_startup=True), "#p=time")
    canvas = report.pane("time").locator("canvas")
    mouse, time = report.page.mouse, cube.properties.number["time"]

    def place(column):
        return time_place(cube, column, 1)(canvas.bounding_box())

    def check(first, last):
        report.settle()
        assert report.view("view.model.scope") == [first, last]
        wanted = only(cube, first, last).total("time")
        assert report.rows("properties")[time][1] == pytest.approx(wanted)
        assert sum(value for _, value, *_ in report.rows("system").values()) == pytest.approx(wanted)
        assert f"t={first}-{last}" in report.page.url

    mouse.click(*place(1))
    check(1, 1)
    assert "only of phase 1" in report.page.locator(".tc-footer").inner_text()
    mouse.move(*place(4))
    mouse.down()
    mouse.move(*place(3))
    mouse.move(*place(2))
    mouse.up()
    check(2, 4)
    mouse.click(*place(0))
    check(0, 0)
    mouse.click(*place(0))  # again: all of the time
    report.settle()
    assert report.view("view.model.scope") is None
    canvas.focus()
    mouse.move(10, 10)
    report.press("ArrowRight", "ArrowLeft", "Enter")
    check(4, 4)  # beside the worst
    report.click(report.page.get_by_role("button", name="above: only phase 4"))
    assert report.rows("properties")[time][1] == pytest.approx(cube.total("time"))
    report.press("Escape")
    mouse.click(*place(5))
    check(5, 5)
    report.page.get_by_role("button", name="Time: when it happened").click()  # a closed pane scopes nothing
    report.settle()
    assert report.rows("properties")[time][1] == pytest.approx(cube.total("time"))


@pytest.mark.slow
def test_properties__that_overlap_others_are_not_taken_off_what_is_above(open_report, tmp_path):
    """The number beside an open property is the value that the call tree shows for it."""
    values = {"time": {("main", 0, 0): 100}, "a": {("main", 0, 0): 40}, "b": {("main", 0, 0): 30}}
    cube = small_cube(values, parents={"a": "time", "b": "time"})
    cube.properties.overlaps[2] = True
    report = open_report(cube.report(tmp_path / "o.html"), "#p=~time")
    assert report.rows("properties")[0][1] == pytest.approx(cube.own_total("time"))
    assert report.rows("properties")[0][1] == report.rows("calls")[0][1] == 0.06


@pytest.mark.slow
def test_time__of_many_periods_has_columns_of_several(open_report, tmp_path):
    cube = divide(random_cube(11, n_calls=6, n_locations=4), 5000, outside=False)
    report = open_report(cube.report(tmp_path / "m.html"), "#p=time")
    group, columns = report.view("[view.model.byPeriod.group, view.model.byPeriod.columns]")
    assert group > 1 and columns == -(-5000 // group)
    told = cube.over_time("time").to_numpy()
    np.testing.assert_allclose(report.view("[...view.model.byPeriod.profile]"), told.sum(axis=1), rtol=1e-12)
    summed = np.add.reduceat(told, np.arange(0, 5000, group), axis=0)
    shown = np.reshape(report.view("[...view.model.byPeriod.map]"), (4, columns))
    np.testing.assert_allclose(shown, summed.T, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_time__is_not_there_where_nothing_is_divided(report):
    assert report.pane("time").count() == 0
    assert report.page.get_by_role("button", name="Time: when it happened").count() == 0


@pytest.mark.slow
def test_names__are_text_and_nothing_else(open_report, tmp_path):
    evil = "</script><script>window.harm=1</script><img src=x onerror=window.harm=2>{}"
    report = open_report(random_cube(9, name=evil).report(tmp_path / "e.html", title=evil))
    for tab in ("Flat", "Topology", "Distribution"):
        report.click(report.page.get_by_role("radio", name=tab))
    assert report.page.evaluate("() => window.harm") is None
    assert report.page.locator("img").count() == 0
    assert "<img src=x" in report.pane("calls").inner_text()


@pytest.mark.slow
def test_difference__growth_is_positive_though_the_whole_shrinks(open_report, tmp_path):
    """Shares of a difference are not relative to its own total, whose minus sign they would take over."""
    before = small_cube({"time": {("main", 0, 0): 300, ("main/f", 0, 0): 100}})
    after = small_cube({"time": {("main", 0, 0): 100, ("main/f", 0, 0): 150}})
    report = open_report((after - before).report(tmp_path / "d.html"))
    report.page.evaluate("document.getElementById('tracecols').view.model.trees.calls.expandAll()")
    rows = report.rows("calls")
    # of 0.4 s: -0.2 s are -50 %, +0.05 s are +12.5 %
    assert {name: number for number, _, name, *_ in rows.values()} == {"main": "\u221250.00", "f": "+12.50"}
    assert report.rows("properties")[0][0] == "\u221237.50"


@pytest.mark.slow
def test_difference__is_told_by_colours_that_differ_and_opens_at_the_largest_change(open_report, tmp_path):
    parents = {"a": "time", "b": "time"}
    before = small_cube(
        {"time": {("main", 0, 0): 1000}, "a": {("main", 0, 0): 400}, "b": {("main", 0, 0): 100}}, parents=parents
    )
    after = small_cube(
        {"time": {("main", 0, 0): 900}, "a": {("main", 0, 0): 100}, "b": {("main", 0, 0): 300}}, parents=parents
    )
    change = after - before
    # a shrank by more than anything grew
    assert change.properties.id[container.start_of(change, change.properties)] == "a"
    report = open_report(change.report(tmp_path / "d.html"))
    assert report.view("view.model.selection()[0][0]") == change.properties.number["a"]
    colours = [
        [
            int(v)
            for v in re.findall(r"\d+", row.locator(".tc-bar i").evaluate("e => getComputedStyle(e).backgroundColor"))
        ]
        for row in (report.row("properties", change.properties.number[name]) for name in ("a", "b"))
    ]
    (red, _, blue), (red_of_growth, _, blue_of_growth) = colours
    assert blue > red and red_of_growth > blue_of_growth
    assert "\u2212100 %" in report.page.locator(".tc-footer .tc-legend").inner_text()
    assert report.pane("overview").count() == 0


@pytest.mark.slow
def test_locations__of_a_difference_are_named_by_the_largest_change_and_a_single_one_is_the_only(open_report, tmp_path):
    before = small_cube({"time": {("main", 0, 0): 900, ("main", 1, 0): 500}})
    after = small_cube({"time": {("main", 0, 0): 100, ("main", 1, 0): 400}})
    report = open_report((after - before).report(tmp_path / "d.html"))
    told = report.page.get_by_label("Selected locations").inner_text()
    # rank 0 saved 0.8 s, rank 1 only 0.1 s, although -0.1 is the larger number
    assert "largest change \u22120.8000 s at rank 0" in told
    single = open_report(small_cube({"time": {("main", 0, 0): 900}}).report(tmp_path / "s.html"))
    told = single.page.get_by_label("Selected locations").inner_text()
    assert "The only location" in told and "1 locations" not in told


@pytest.mark.slow
def test_keys__work_before_anything_was_clicked(report, cube):
    before = report.view("view.model.selection()[0][0]")
    report.press("ArrowUp")
    assert report.view("view.model.selection()[0][0]") != before
    report.press("4")
    assert report.view("view.model.settings.mode") == "plain"


@pytest.mark.slow
def test_notes__can_be_read(open_report, cube, tmp_path):
    noted = cube.replaced(facts={**cube.facts, "counts": {"messages received before they were sent": 2262}})
    report = open_report(noted.report(tmp_path / "n.html"))
    report.page.get_by_role("button", name="1 note of the analysis").click()
    assert "2,262\nmessages received before they were sent" in report.page.get_by_role("dialog").inner_text()
    report.page.keyboard.press("Escape")
    assert report.page.get_by_role("dialog").count() == 0


@pytest.mark.slow
def test_rows__without_a_value_that_can_be_seen_are_hidden_and_open_ones_say_what_they_hold(open_report, tmp_path):
    values = {("main", 0, 0): 10, ("main/large", 0, 0): 999_970, ("main/small", 0, 0): 20}
    report = open_report(small_cube({"time": values}).report(tmp_path / "z.html"))
    report.page.evaluate("document.getElementById('tracecols').view.model.trees.calls.expandAll()")
    report.settle()
    assert {name for _, _, name, *_ in report.rows("calls").values()} == {"main", "large", "small"}
    # 20 and 10 of 1,000,000 are 0.00 %
    report.click(report.pane("calls").get_by_role("button", name="Only rows with a value"))
    assert {name for _, _, name, *_ in report.rows("calls").values()} == {"main", "large"}
    assert report.row("calls", 0).locator(".tc-inclusive").inner_text() == "\u03a3 100.00"


@pytest.mark.slow
def test_counters__that_are_no_numbers_are_shown_as_such(open_report, tmp_path):
    cube = random_cube(12)
    cube.cells["counter"].value[:2] = np.nan, -np.inf
    report = open_report(cube.report(tmp_path / "n.html", title="\udcff"), "#p=counter")
    number, value, *_ = report.rows("properties")[cube.properties.number["counter"]]
    assert (number, np.isnan(value)) == ("\u2013", True)
    assert report.page.title() == r"\udcff"
    assert report.page.get_by_role("alert").count() == 0


@pytest.mark.slow
def test_truncated__file_says_so(browser, open_report, page, tmp_path):
    text = page.read_text(encoding="utf-8")
    blocks = [m.start() for m in re.finditer('<script type="application/octet-stream"', text)]
    (tmp_path / "cut.html").write_text(text[: blocks[3] + 90], encoding="utf-8")
    report = open_report(tmp_path / "cut.html", "#p=visits")
    assert "The values cannot be read" in report.page.get_by_role("alert").inner_text()
    (tmp_path / "cut.html").write_text(text[: blocks[1] - 2000], encoding="utf-8")
    other = new_page(browser)
    other.goto((tmp_path / "cut.html").as_uri())
    assert other.locator(".tc-row").count() == 0
    other.close()


@pytest.mark.slow
@pytest.mark.parametrize("there", ["properties", "trees", "nothing"])
def test_empty__cubes_are_shown_as_empty(open_report, tmp_path, there):
    full, none = random_cube(1), np.zeros(0, np.int32)
    names = [none.astype(object)] * 4
    properties = full.properties if there != "nothing" else PropertyAxis(*([] for _ in range(8)))
    calls, system = full.call_paths, full.system
    if there != "trees":
        calls = CallAxis(none, none, none.astype(np.int64), *names, none.astype(np.int64), names[0])
        system = SystemAxis([], [], [], [], none, none, [], [])
    cube = SeverityCube(properties, calls, system, {p: Cells.empty() for p in properties.id}, full.facts)
    report = open_report(cube.report(tmp_path / "e.html"))
    for choice in ("Relative", "Own root", "Values", "Flat", "Topology", "Distribution"):
        report.click(report.page.get_by_role("radio", name=choice))
    for button in report.page.get_by_label("Hot path").all():
        button.click()
    assert report.page.get_by_role("alert").count() == 0
    assert {value for _, value, *_ in report.rows("calls").values()} <= {0.0}


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), [(1400, "light"), (760, "dark"), (390, "light")])
def test_layout__fits_the_window(open_report, page, width, theme):
    report = open_report(page, width=width, color_scheme=theme)
    assert report.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert report.page.locator(f".tc-{theme}").count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_print__has_all_findings_and_the_colours_of_paper(open_report, divided, tmp_path, theme):
    path = divided["phase"].report(tmp_path / "h.html")
    report = open_report(path, width=1200, height=700, color_scheme=theme)
    report.page.emulate_media(media="print")
    report.page.set_viewport_size({"width": 800, "height": 700})

    def box(what):
        return report.page.locator(what).last.bounding_box()

    parts = [box(what) for what in (".tc-overview", "[data-pane=properties]", "[data-pane=system]", ".tc-time")]
    # one below the other, and all findings in the first
    assert all(above["y"] + above["height"] <= below["y"] for above, below in pairwise(parts))
    last = box(".tc-finding")
    assert last["y"] + last["height"] <= parts[0]["y"] + parts[0]["height"]
    assert box(".tc-time-frame canvas")["width"] <= 800
    colours = "() => { const s = getComputedStyle(document.querySelector('.tc-overview')); return [s.color, s.backgroundColor]; }"
    assert report.page.evaluate(colours) == ["rgb(29, 33, 38)", "rgb(255, 255, 255)"]


def in_notebook(browser, shown, height):
    """Show a widget in a test page; return the page and the list of its errors."""
    # anywidget passes the bytes as a DataView; here the test page does
    shell = new_page(browser, viewport={"width": 1000, "height": 700}, bypass_csp=True)
    trouble = []
    shell.on("pageerror", lambda error: trouble.append(str(error)))
    shell.set_content(f"<style>{shown._css}</style><div id='cell'></div>")
    shell.evaluate(
        """async ([script, data, height]) => {
            const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
            const widget = (await import(url)).default;
            const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
            window.state = { data: new DataView(bytes.buffer), title: "a cube", height };
            const model = { get: (k) => window.state[k], set: (k, v) => { window.state[k] = v; }, save_changes: () => {}, on: () => {} };
            window.stop = await widget.render({ model, el: document.getElementById("cell") });
        }""",
        [shown._esm, base64.b64encode(shown.data).decode(), height],
    )
    return shell, trouble


@pytest.mark.slow
def test_widget__shows_the_same_and_tells_its_selection(browser, cube):
    pytest.importorskip("anywidget")
    shell, trouble = in_notebook(browser, cube.view(height=400), 400)
    shell.wait_for_function("() => window.state.selection")
    assert shell.locator("[data-pane=properties] .tc-row").count() > 5
    assert shell.evaluate("() => window.state.selection.properties") == [["omp_idle_threads", False]]
    shell.locator('[data-pane=calls] .tc-row[data-node="2"] .tc-name').click()
    shell.wait_for_function("() => window.state.selection.call_paths.length === 1")
    assert shell.evaluate("() => window.state.selection.call_paths") == [2]
    assert shell.evaluate("() => window.state.selection.periods") is None
    assert shell.locator(".tc-inline").bounding_box()["height"] == 400
    shell.evaluate("() => window.stop()")
    assert shell.locator(".tracecols").count() == 0
    assert trouble == []
    shell.close()


@pytest.mark.slow
def test_widget__of_a_divided_cube_has_the_pane_time(browser, divided):
    """The heat map is there with its worst period, and a click on a period scopes the trees to it."""
    pytest.importorskip("anywidget")
    cube = divided["phase"]
    shown = cube.view(height=680)
    # the bytes are those of the report, with the blocks of periods after all others
    packed = container.pack(cube)
    assert len(packed.blocks) == 3 * len(cube.properties.id)
    assert bytes(shown.data).endswith(b"".join(packed.blocks))
    shell, trouble = in_notebook(browser, shown, 680)
    shell.wait_for_function("() => window.state.selection")
    row = f'[data-pane=properties] .tc-row[data-node="{cube.properties.number["visits"]}"]'
    shell.locator(f"{row} .tc-name").click()
    pane = shell.locator("[data-pane=time]")
    assert pane.count() == 0  # with little space, the pane is shown on request only
    shell.get_by_role("button", name="Time: when it happened").click()
    worst = int(cube.over_time("visits", by="total")["visits"].idxmax())
    shell.wait_for_function(
        "(text) => document.querySelector('[data-pane=time]').innerText.includes(text)", arg=f"worst: phase {worst},"
    )
    shell.mouse.click(*time_place(cube, 2, 1)(pane.locator("canvas").bounding_box()))
    shell.wait_for_function(
        """([row, wanted]) => {
            const shown = parseFloat(document.querySelector(row).title.split("\\n")[1]);
            return Math.abs(shown - wanted) <= 1e-9 * wanted;
        }""",
        arg=[row, only(cube, 2, 2).total("visits")],
    )
    assert shell.evaluate("() => window.state.selection.periods") == [2, 2]
    shell.evaluate("() => window.stop()")
    assert trouble == []
    shell.close()


# -- pictures of the documentation -------------------------------------------------------------------------------------

PICTURES = Path(tracecols.__file__).parent / "docs" / "pictures"
SHOTS = {
    "report.png": ("cube", [("omp_idle_threads", False)], ["hybrid/main/h_coll/compute/do_work"], 860),
    "report-wait.png": ("cube", [("mpi_latereceiver", False)], ["hybrid/main/h_latereceiver/MPI_Ssend"], 860),
    "report-time.png": ("bin", [("omp_idle_threads", False)], [], 1000),
}
"""Cube, selected properties, selected call paths and height, by file name."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOTS)
def test_pictures__of_the_documentation_are_of_this_report(open_report, cube, divided, tmp_path, name):
    """With TRACECOLS_WRITE_PICTURES in the environment they are made anew."""
    which, properties, paths, height = SHOTS[name]
    shown = cube if which == "cube" else divided[which]
    calls = [(shown.call_paths.path.index(path), False) for path in paths]
    report = open_report(shown.report(tmp_path / "h.html"), link(shown, properties, calls), width=1280, height=height)
    if name == "report-wait.png":
        report.page.locator(".tc-drawing summary").click()
        report.page.locator(".tc-drawing figure").scroll_into_view_if_needed()
    if name == "report-time.png":
        report.page.locator("[data-pane=time]").scroll_into_view_if_needed()
    report.settle()
    made = small(report.page.screenshot())
    if os.environ.get("TRACECOLS_WRITE_PICTURES"):
        (PICTURES / name).write_bytes(made)
    kept = (PICTURES / name).read_bytes()
    assert kept[16:24] == made[16:24], "width and height"
    assert len(kept) < 120_000
