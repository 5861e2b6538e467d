"""The timeline in a real browser: it draws the contents of the tables, keys lead from a finding to its cause, and names
are text."""

import csv
import hashlib
import json
import os
import struct
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Event
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import LONG
from support.browser import chromium, copied, new_page, small
from support.command_line import run
from support.served import run_of, served, timeline_of

import tracecols
from tracecols.analysis.opened import OpenedTrace
from tracecols.errors import AnalysisError
from tracecols.report.viewer import container
from tracecols.store import Store
from tracecols.timeline import page as pages
from tracecols.timeline.answers import Timeline
from tracecols.timeline.compared import Run, focus_begin
from tracecols.timeline.prepare import prepare

FOLDER = Path(pages.__file__).parent
PICTURES = Path(tracecols.__file__).parent / "docs" / "pictures"


def test_bundle__is_built_from_the_sources():
    digest = hashlib.sha256()
    build = Path(container.__file__).parent
    files = [(f"src/{p.name}", p) for p in sorted((FOLDER / "src").iterdir())]
    for name, path in [*files, *((n, build / n) for n in ("build.js", "licences.js", "package-lock.json"))]:
        digest.update(f"{name}\n".encode() + path.read_bytes() + b"\n")
    script = (FOLDER / "timeline.js").read_text()
    assert f"sources {digest.hexdigest()}" in script, "npm ci && npm run build in tracecols/report/viewer"
    assert len(script) < 600_000


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


class Page:
    """The page of a timeline; its errors and requests to other machines are collected."""

    def __init__(self, browser, server, fragment="", width=1400, height=800, **context):
        self.server, self.trouble = server, []
        self.page = new_page(browser, viewport={"width": width, "height": height}, **context)
        self.context = self.page.context
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", lambda m: self.trouble.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on(
            "request", lambda r: self.trouble.append(r.url) if not r.url.startswith((server.url, "data:")) else None
        )
        self.open(fragment)

    def open(self, fragment=""):
        """Open the page anew."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.url}{fragment}")
        self.settle()

    def close(self):
        """Close the page, which had no trouble."""
        self.context.close()
        assert self.trouble == []

    def follow(self, fragment):
        """Change the fragment of the address, as a link does."""
        self.page.evaluate(
            """(fragment) => new Promise((go) => {
                addEventListener("hashchange", () => go(), { once: true });
                location.hash = fragment;
            })""",
            fragment,
        )
        self.settle()

    def settle(self):
        """Wait until all requested data has arrived and is drawn."""
        self.page.wait_for_function(
            "() => { const v = document.getElementById('timeline').view; return v?.answer && v.isSettled && v.drawn; }"
        )
        self.page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go, 30)))")

    def view(self, expression):
        """Evaluate an expression of `view`."""
        return self.page.evaluate(
            f"() => {{ const view = document.getElementById('timeline').view; return {expression}; }}"
        )

    def press(self, *keys):
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()

    def array(self, name):
        """Return an array of the latest answer."""
        return np.array(self.view(f"Array.from(view.answer.arrays['{name}'])"))


@pytest.fixture(scope="module")
def path(tmp_path_factory, data):
    return tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("t") / "hybrid.trace")


@pytest.fixture(scope="module")
def server(path):
    with served(timeline_of(path)) as server:
        yield server


@pytest.fixture
def page(browser, server):
    found = Page(browser, server)
    yield found
    found.close()


def test_page__shows_rows_and_the_whole_run(page):
    labels = page.page.locator(".label").all_text_contents()
    assert [label[1:] for label in labels if "thread" in label] == ["Master thread", "OMP thread 1", "OMP thread 2"] * 2
    assert page.view("[view.state.from, view.state.to]") == [0, page.view("view.about.length + 1")]
    assert page.page.locator(".findings li").count() == len(page.view("view.about.findings")) > 0


@pytest.mark.slow
def test_lines__on_the_screen_are_those_between_its_ends(browser, server):
    page = Page(browser, server, height=320)
    page.press("e")
    page.view("view.toggle(view.rowOf.get(1))")
    page.settle()
    for scroll in (0, 1, 24, 25, 70, 10_000):
        page.view(f"[view.scroll = {scroll}, view.changed()]")
        page.settle()
        lines = page.view("view.layout.map(({ y, height }) => [y, height])")
        # rows are one below the other
        assert [y for y, _ in lines] == [sum(h for _, h in lines[:i]) for i in range(len(lines))]
        top, room = page.view("[view.scroll, view.height]")
        shown = [i for i, (y, h) in enumerate(lines) if y + h > top and y < top + room - 70]
        assert page.view("view.inView.map((line) => view.layout.indexOf(line))") == shown
    # what is below a closed row is drawn on it; what is not known, nowhere
    process = page.view("view.about.rows[view.rowOf.get(1)].parent")
    page.view(f"view.toggle({process})")
    page.settle()
    assert page.view("[view.lineOn(1).row, view.lineOn(-1) ?? null]") == [process, None]
    page.close()


@pytest.mark.slow
def test_page__of_a_telephone_and_on_paper(browser, server):
    page = Page(browser, server, width=400)
    canvas = page.page.locator(".canvas")
    assert canvas.bounding_box()["width"] > 200
    page.close()
    page = Page(browser, server, width=1400)
    page.page.emulate_media(media="print")
    # a browser does not draw anew for paper
    page.page.evaluate("() => { document.body.style.width = '800px'; }")
    box = page.page.locator(".canvas").bounding_box()
    assert box["x"] + box["width"] <= page.page.locator(".left").bounding_box()["width"] + 9 <= 800
    page.close()


@pytest.mark.slow
def test_first__picture_says_what_is_computed_and_is_replaced(browser, path):
    store = Store(path)
    found = prepare(OpenedTrace(store))
    timeline = Timeline(store, found)
    first = Timeline(
        store, replace(found, content={**found.content, "is_first": True, "findings": [], "properties": []})
    )
    with served(first) as server:
        server.rest.stage, server.rest.share = "analyzing", 0.47
        page = Page(browser, server, "#from=20000000&to=90000000")
        words = page.page.locator(".rest p")
        words.filter(has_text="findings are still being computed (analyzing, 40 %).").wait_for()
        assert page.page.locator(".findings").count() == 0
        assert page.page.get_by_text("Waits are not known yet.").count() == 1
        server.show(Run.of(timeline))
        page.page.locator(".findings li").first.wait_for()
        page.settle()
        assert page.page.locator(".rest").count() == 0
        assert page.view("[view.state.from, view.state.to]") == [20_000_000, 90_000_000]
        page.close()


@pytest.mark.slow
def test_drawn__slices_are_those_of_the_table(page, path):
    """In a time range in which events can be distinguished, exactly the slices of the table are on the screen."""
    trace = tracecols.open(path)
    first = int(trace.manifest["first_time"])
    length = page.view("view.about.length")
    start, stop = int(length * 0.6), int(length * 0.6) + 400_000
    page.follow(f"#from={start}&to={stop}")
    assert page.view("view.answer.says.shortest") <= (stop - start) // 800
    table = trace.frame("region_instances", raw=True)
    inside = table[(table.enter_time - first < stop) & (table.exit_time - first > start)]
    expected = Counter(
        (int(r.location), max(int(r.enter_time) - first, start), min(int(r.exit_time) - first, stop), int(r.region))
        for r in inside.itertuples()
    )
    counts = page.array("slice.count")
    columns = [page.array(f"slice.{name}")[counts == 1].tolist() for name in ("location", "begin", "end", "name")]
    exact = Counter(tuple(map(int, row)) for row in zip(*columns, strict=True) if row[1] < row[2])
    assert exact and exact <= expected
    # the other slices are merged, and none is lost
    assert sum(expected.values()) == int(counts.sum())
    assert page.view("view.drawn.slices.length") == counts.size


def test_drawn__waits_are_those_of_the_table(page, path):
    trace = tracecols.open(path)
    waits = trace.frame("waits", raw=True)
    first = int(trace.manifest["first_time"])
    expected = {(int(w.location), int(w.begin_time) - first, int(w.end_time) - first) for w in waits.itertuples()}
    columns = [page.array(f"waits.{name}").astype(int).tolist() for name in ("location", "begin", "end")]
    assert set(zip(*columns, strict=True)) == expected
    assert page.view("view.drawn.waits.length") == len(columns[0])


@pytest.mark.slow
def test_drawn__messages_are_those_of_the_table(page, path):
    messages = tracecols.open(path).frame("messages", raw=True)
    assert page.array("messages.begin").size == len(messages)


@pytest.mark.slow
def test_tour__without_a_mouse(page):
    whole = page.view("view.state.to - view.state.from")
    page.press("w", "w", "d", "+")
    zoomed = page.view("view.state.to - view.state.from")
    assert zoomed < whole / 3
    page.press("s", "-")
    assert page.view("view.state.to - view.state.from") > zoomed * 2
    page.press("0")
    assert page.view("view.state.to - view.state.from") == whole
    page.press("ArrowDown", "ArrowDown", "Space")
    row = page.view("view.state.row")
    assert page.view(f"view.state.flames.has({row}) || view.state.closed.has({row})")
    page.press("Space", "e")
    assert page.view("view.state.flames.size") == 6
    page.press("e", "c", "c", "c", "f")
    assert page.view("view.chosen.kind") == "wait"
    wait = page.view("view.state.wait")
    status = page.page.locator("[role=status]").text_content()
    assert "waits for" in status
    page.press("Enter")
    assert page.view("view.chosen.begin") != wait["begin"] or page.view("view.chosen.kind") == "slice"
    page.press("Backspace")
    assert page.view("view.state.wait") == wait
    page.press("n")
    first = page.view("view.at")
    page.press("n")
    assert page.view("view.at") == first + 1
    page.press("p")
    assert page.view("view.at") == first
    page.press("Escape")
    assert page.view("view.chosen") is None
    page.press("?")
    assert page.page.locator("dialog").is_visible()
    page.press("Escape")


@pytest.mark.slow
def test_address__is_what_is_shown(page, browser, server):
    page.press("f", "e", "c")
    before = page.view("view.state")
    fragment = page.page.evaluate("() => location.hash")
    other = Page(browser, server, fragment)
    assert other.view("view.state") == before
    assert other.view("view.explained.cause") == page.view("view.explained.cause")
    other.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "fragment",
    ["#from=-5&to=x", "#from=9&to=3", "#wait=1,2", "#severity=__proto__", "#row=1e9&flames=77,x&closed=-1", "#path=7", "#%", "#wait=0,0,1"],
)  # fmt: skip
def test_address__that_makes_no_sense_shows_the_run(browser, server, fragment):
    found = Page(browser, server, fragment)
    assert found.view("view.state.from") == 0
    found.context.close()
    assert [t for t in found.trouble if "400" not in t] == []


@pytest.mark.slow
def test_address__of_the_command_shows_what_is_asked_for(browser, server, path):
    """`tracecols view --from --to -p`, which the report of a cube by periods names for a selected period."""
    trace = tracecols.open(path)
    first = int(trace.manifest["first_time"])
    found = Page(browser, server, f"#{server.run.timeline.address(0.3, 0.35, 'late sender')}")
    assert found.view("[view.state.from, view.state.to]") == [trace.ticks(t) - first for t in (0.3, 0.35)]
    assert found.view("view.state.severity") == "mpi_latesender"
    found.close()


@pytest.mark.slow
def test_address__of_the_command_is_within_the_run(server):
    timeline = server.run.timeline
    assert timeline.address(None, None, None) == ""
    assert timeline.address(0.3, None, None).endswith(f"to={timeline.last - timeline.first + 1}")
    for start, stop in ((-5.0, 1e6), (None, 1e-9)):
        low, high = (int(part.split("=")[1]) for part in timeline.address(start, stop, None).split("&"))
        assert 0 <= low < high <= timeline.last - timeline.first + 1
    with pytest.raises(AnalysisError, match=r"no property 'late_sendr'.*\n.*mpi_latesender"):
        timeline.address(None, None, "late_sendr")
    with pytest.raises(AnalysisError, match="property visits has no time that rows could show"):
        timeline.address(None, None, "visits")
    with pytest.raises(AnalysisError, match="the end has to be later"):
        timeline.address(0.4, 0.3, None)
    with pytest.raises(AnalysisError, match=r"no event lies at 100000 s or later\n  the recording lasts"):
        timeline.address(1e5, None, None)


@pytest.mark.slow
def test_mouse__zooms_pans_and_selects(page):
    box = page.page.locator(".canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 150
    page.page.mouse.move(x, y)
    page.page.mouse.wheel(0, -600)
    page.settle()
    assert page.view("view.state.to - view.state.from") < page.view("view.about.length") / 2
    start = page.view("view.state.from")
    page.page.mouse.down()
    page.page.mouse.move(x + 100, y, steps=4)
    page.page.mouse.up()
    page.settle()
    assert page.view("view.state.from") < start
    page.page.keyboard.down("Shift")
    page.page.mouse.down()
    page.page.mouse.move(x + 200, y, steps=4)
    page.page.mouse.up()
    page.page.keyboard.up("Shift")
    low, high = page.view("view.range")
    assert low < high
    page.press("z")
    assert abs(page.view("view.state.to") - high) <= 1


@pytest.mark.slow
def test_mouse__on_a_finding_leaves_the_keys_to_the_timeline(page):
    page.page.locator(".findings button").nth(1).click()
    page.settle()
    wait = page.view("view.chosen")
    page.press("Enter")
    assert page.view("view.trail.length") == 1
    assert page.view("view.chosen") != wait
    page.press("Backspace")
    assert page.view("view.chosen.begin") == wait["begin"]


@pytest.mark.slow
def test_range__is_copied_as_options(browser, server, path):
    found = Page(browser, server, permissions=["clipboard-read", "clipboard-write"])
    found.press("w", "w")
    words = copied(found.page, found.page.get_by_text("copy --from --to")).split()
    assert words[0] == "--from" and words[2] == "--to"
    trace = tracecols.open(path)
    first = int(trace.manifest["first_time"])
    ticks = [trace.ticks(float(words[i])) - first for i in (1, 3)]
    assert ticks == found.view("[view.state.from, view.state.to]")
    found.context.close()


@pytest.mark.slow
def test_range__that_begins_before_the_recording_is_copied_with_its_begin(browser, archive, tmp_path):
    """Clock offsets may make times negative; options cannot."""
    (rank,) = archive.mpi(1).ranks
    rank.clock_offset(0, -1000).clock_offset(9000, -1000).call(0, 9000, "main")
    with served(timeline_of(tracecols.convert(archive.write(), tmp_path / "x.trace"))) as server:
        found = Page(browser, server, permissions=["clipboard-read", "clipboard-write"])
        words = copied(found.page, found.page.get_by_text("copy --from --to")).split()
        assert words[0] == "--to" and float(words[1]) > 7e-6
        found.close()


def saved(page, key, folder):
    """Press a key that saves the view; return the file, under the name suggested to the browser."""
    with page.page.expect_download() as found:
        page.page.keyboard.press(key)
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


def rows_of(file):
    """Return the rows of a CSV file, by column."""
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


@pytest.mark.slow
def test_table__that_is_saved_has_what_is_drawn(page, path, tmp_path):
    """Each region instance and each wait once, at its time."""
    length, resolution, zero = (page.view(f"view.about.{name}") for name in ("length", "resolution", "zero"))
    start, stop = int(length * 0.6), int(length * 0.6) + 400_000
    page.follow(f"#from={start}&to={stop}")
    file = saved(page, "b", tmp_path)
    assert file.name.startswith("hybrid.") and file.suffix == ".csv"
    rows = rows_of(file)
    trace = tracecols.open(path)
    first = int(trace.manifest["first_time"])
    table = trace.frame("region_instances", raw=True)
    inside = table[(table.enter_time - first < stop) & (table.exit_time - first > start)]
    regions = [row for row in rows if row["what"] == "region"]
    assert sum(int(row["count"]) for row in regions) == len(inside) > 0
    names = trace.regions.name.to_numpy()[inside.region]
    begins = (inside.enter_time.to_numpy() - first).clip(start)
    expected = set(zip(names.tolist(), begins.tolist(), strict=True))
    single = {
        (row["name"], round((float(row["begin_seconds"]) - zero) * resolution))
        for row in regions
        if row["count"] == "1"
    }
    assert single and {(name, max(begin, start)) for name, begin in single} <= expected
    waits = trace.frame("waits", raw=True)
    n_waits = ((waits.begin_time - first < stop) & (waits.end_time - first > start)).sum()
    assert sum(row["what"] == "wait" for row in rows) == n_waits


@pytest.mark.slow
def test_table__of_a_property_has_its_severity_by_bin(page, server, tmp_path):
    page.page.get_by_label("What rows show").select_option("mpi_latesender")
    page.settle()
    page.page.locator(".labels").focus()
    rows = rows_of(saved(page, "b", tmp_path))
    whole = sum(float(row["mpi_latesender_seconds"]) for row in rows if row["row"] == rows[0]["row"])
    total = server.run.timeline.overview.properties["mpi_latesender"]["total"]
    assert whole == pytest.approx(total / page.view("view.about.resolution"), rel=1e-9)


@pytest.mark.slow
def test_picture__that_is_saved_is_what_is_drawn(page, tmp_path):
    page.press("f", "c")
    root = ElementTree.parse(saved(page, "v", tmp_path)).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{svg}svg" and "hybrid" in root.find(f"{svg}title").text
    rects = list(root.iter(f"{svg}rect"))
    assert sum(r.get("fill") == "url(#waits)" for r in rects) == page.view("view.drawn.waits.length") > 0
    assert len(rects) > page.view("view.drawn.slices.length") > 0
    assert {"Master thread", "OMP thread 1"} <= {text.text for text in root.iter(f"{svg}text")}
    # colours as in CSS 4 are not known to programs that read SVG
    assert all("/" not in (part.get(of) or "") for part in root.iter() for of in ("fill", "stroke"))
    # nothing is loaded from elsewhere
    assert all(image.get("href").startswith("data:image/png") for image in root.iter(f"{svg}image"))


@pytest.mark.slow
def test_severity__is_a_heat_map(page, server):
    page.page.get_by_label("What rows show").select_option("mpi_latesender")
    page.settle()
    assert page.view("view.state.severity") == "mpi_latesender"
    total = server.run.timeline.overview.properties["mpi_latesender"]["total"]
    rows = page.view("view.rows.length")
    assert int(page.array("severity").reshape(rows, -1)[0].sum()) == total > 0


@pytest.mark.slow
def test_reader__hears_rows_and_what_is_selected(page):
    label = page.page.locator(".label[aria-selected=true]").get_attribute("aria-label")
    assert "Computation" in label and "%" in label
    assert page.page.locator(".labels").get_attribute("role") == "tree"
    assert "nothing is selected" in page.page.locator(".canvas").get_attribute("aria-label")
    page.press("f")
    assert "waits for" in page.page.locator(".canvas").get_attribute("aria-label")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow__window_has_all_of_it(browser, server, scheme):
    found = Page(browser, server, width=900, color_scheme=scheme)
    assert found.page.evaluate("() => document.documentElement.dataset.theme") == scheme
    assert found.page.evaluate("() => document.documentElement.scrollWidth") == 900
    assert found.view("view.width") > 400
    found.press("t")
    assert found.page.evaluate("() => document.documentElement.dataset.theme") != scheme
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "if (location.protocol === 'http:') localStorage.setItem('tracecols-theme', 'auto')",
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('nothing is stored'); } })",
    ],
)
def test_theme__that_is_not_chosen_is_that_of_the_system(browser, server, script):
    """The trees may store `auto`, and a browser may store nothing."""
    found = Page(browser, server, color_scheme="dark")
    found.page.add_init_script(script)
    found.open()
    assert found.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    found.press("t")
    assert found.page.evaluate("() => document.documentElement.dataset.theme") == "light"
    found.close()


def distance(a, b):
    """Return the CIE76 distance of two colours, each with components in 0..255."""

    def lab(colour):
        linear = np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(colour) / 255])
        xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
        x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz / [0.9505, 1, 1.089])
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    return float(np.linalg.norm(lab(a) - lab(b)))


# Machado, Oliveira, Fernandes 2009, severity 1
BLIND = {
    "sees all": np.eye(3),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "tritanopia": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("who", BLIND)
@pytest.mark.parametrize("of", [".legend", ".difference"])
def test_colours__of_classes_and_of_a_difference_are_told_apart(browser, both, who, of):
    for scheme in ("light", "dark"):
        if of == ".legend":
            found = Page(browser, both, color_scheme=scheme)
        else:
            found = TwoRuns(browser, both, "#difference=comp", color_scheme=scheme)
        colours = found.page.evaluate(
            f"() => [...document.querySelectorAll('{of} i')].map((i) => getComputedStyle(i).backgroundColor)"
        )
        found.close()
        values = [np.array([int(v) for v in c[c.index("(") + 1 : -1].split(",")]) for c in colours]
        seen = [np.clip(BLIND[who] @ v, 0, 255) for v in values]
        assert len(seen) >= 4 if of == ".legend" else len(seen) == 4
        assert all(distance(a, b) > 14 for i, a in enumerate(seen) for b in seen[:i]), (scheme, colours)


# -- to the trees and back ---------------------------------------------------------------------------------------------


def trees_of(page):
    """Open the report with the key `r`; return its tab when it has its values."""
    with page.context.expect_page() as found:
        page.page.keyboard.press("r")
    tab = found.value
    tab.on("pageerror", lambda error: page.trouble.append(str(error)))
    tab.on("console", lambda m: page.trouble.append(m.text) if m.type in ("error", "warning") else None)
    tab.wait_for_function("() => document.getElementById('tracecols')?.view?.model.calls")
    tab.evaluate("() => document.getElementById('tracecols').view.model.ready")
    return tab


def selected(tab):
    """Return the selection of a report: property, names of the call path, kinds and locations of the system tree; its
    total time in ticks."""
    return tab.evaluate(
        """() => {
          const { cube, model } = document.getElementById('tracecols').view;
          const { properties, system } = cube.header;
          const of = (tree) => tree.selection().map(([node]) => node);
          return {
            properties: of(model.trees.properties).map((i) => properties.id[i]),
            calls: of(model.trees.calls).map((i) => cube.path(i)),
            locations: of(model.trees.system).map((i) => system.location[i]),
            time: Number(cube.stored[properties.id.indexOf('time')].total),
          };
        }"""
    )


@pytest.mark.slow
def test_trees__are_of_exactly_the_selected_range(page, path):
    trace = tracecols.open(path)
    length = page.view("view.about.length")
    begin, end = length // 3 + 1, length // 3 + 500_007
    page.view(f"(view.range = [{begin}, {end}])")
    tab = trees_of(page)
    found = selected(tab)
    seconds = [page.view(f"view.about.zero + {t} / view.about.resolution") for t in (begin, end)]
    cube = trace.analyze(start=seconds[0], stop=seconds[1])
    assert found["time"] == int(cube.cells["time"].value.sum()) == 6 * (end - begin)
    assert f"from {seconds[0]:.9g} s, to {seconds[1]:.9g} s" in tab.title()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_trees__of_a_long_range_say_how_far_they_are_and_can_be_cancelled(browser, server, monkeypatch, scheme):
    analyse, goes_on, ended = server.run.trees.analyse, Event(), []

    def slowly(selection, report, ask):
        try:
            while not goes_on.wait(0.05):
                report("analyzing", 37, 100)
            analyse(selection, report, ask)
        except Exception as error:
            ended.append(type(error).__name__)
            raise

    monkeypatch.setattr(server.run.trees, "analyse", slowly)
    found = Page(browser, server, width=900, color_scheme=scheme)
    found.view(f"(view.range = [{12_345 + len(scheme)}, 90000000])")
    with found.context.expect_page() as opened:
        found.page.keyboard.press("r")
    tab = opened.value
    tab.wait_for_selector("progress[value='0.37']")
    assert tab.locator("[role=status]").text_content() == "The range is analysed. 30 %"
    assert tab.evaluate("() => document.activeElement.textContent") == "Cancel (Escape)"
    assert tab.evaluate("() => document.documentElement.dataset.theme") == scheme
    tab.keyboard.press("Escape")
    tab.wait_for_function("() => document.querySelector('[role=status]').textContent.includes('cancelled')")
    until = time.monotonic() + LONG
    while not ended and time.monotonic() < until:
        found.page.wait_for_timeout(50)
    assert ended == ["Cancelled"]
    goes_on.set()
    # the button has the focus
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.getElementById('tracecols')?.view?.model.calls")
    found.close()


@pytest.mark.slow
def test_trees__select_the_wait_its_call_path_and_location(page):
    page.press("f", "x")
    wait = page.view("view.chosen")
    begin, end = page.view("view.range")
    # the interval of the cause, and the whole call that waits, which ends after the wait
    assert begin <= page.view("view.explained.cause.since") and end > wait["end"]
    names = page.view(
        "(() => { const names = []; for (let i = view.chosen.call_path; i >= 0; i = view.about.parent[i])"
        " names.unshift(view.about.regions[view.about.region[i]]); return names; })()"
    )
    found = selected(trees_of(page))
    assert found["properties"] == [page.view(f"view.about.waits[{wait['property']}].id")]
    assert found["calls"] == [names]
    assert found["locations"] == [wait["location"]]


@pytest.mark.slow
def test_trees__select_the_call_path_of_an_instance_of_a_thread(page):
    """In the trees, regions of a thread are below the region that forked it, which is no instance of the thread."""
    page.press("w", "w", "w", "w")
    columns = {name: page.array(f"slice.{name}") for name in ("location", "begin", "end", "depth", "name", "count")}
    at = (columns["location"] == 1) & (columns["count"] == 1)
    at &= columns["depth"] == columns["depth"][at].max()
    inner = {name: int(values[at][0]) for name, values in columns.items()}
    page.view(f"view.chooseSlice({json.dumps(inner)})")
    page.settle()
    page.press("x")
    found = selected(trees_of(page))
    assert found["locations"] == [1]
    names = found["calls"][0]
    assert names[-1] == page.view(f"view.about.regions[{inner['name']}]")
    assert len(names) > inner["depth"] + 1


@pytest.mark.slow
def test_trees__come_back_to_the_timeline(page):
    page.press("f", "e", "x")
    before = page.view("view.state")
    tab = trees_of(page)
    names = selected(tab)["calls"][0]
    tab.get_by_title("Show the selection in the timeline").click()
    page.page.wait_for_function("() => document.getElementById('timeline').view.state.region >= 0")
    page.settle()
    state = page.view("view.state")
    assert (state["from"], state["to"]) == (before["from"], before["to"])
    assert page.view("view.about.regions[view.state.region]") == names[-1]
    assert page.view("view.about.rows[view.state.row].location") == selected(tab)["locations"][0]
    assert page.view("view.state.flames.size") == 6
    assert len(page.context.pages) == 2
    # the same tab is used again
    page.page.keyboard.press("0")
    page.page.keyboard.press("r")
    tab.wait_for_function("() => document.getElementById('tracecols')?.view?.model.calls")
    assert len(page.context.pages) == 2


@pytest.mark.slow
def test_regions__that_stand_out_are_kept_by_the_address(page, browser, server):
    page.press("f", "h")
    region = page.view("view.about.region[view.chosen.call_path]")
    assert page.view("view.state.region") == region
    other = Page(browser, server, page.page.evaluate("() => location.hash"))
    assert other.view("view.state.region") == region
    other.close()
    page.press("h")
    assert page.view("view.state.region") == -1


@pytest.mark.slow
def test_cells__lead_to_the_trees_of_their_call_path(page):
    page.page.get_by_label("What rows show").select_option("mpi_latesender")
    page.settle()
    page.page.locator(".labels").focus()
    row = page.view("view.rowOf.get(0)")
    at = page.page.locator(f"#row-{row}").bounding_box()
    box = page.page.locator(".canvas").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 0.6, at["y"] + 8)
    cell = page.view("view.chosen")
    assert (cell["kind"], cell["row"]) == ("cell", row)
    assert cell["call_path"] >= 0 and 0 < cell["share"] <= 1
    assert "most time in" in page.page.locator("[role=status]").text_content()
    assert "most in" in page.page.locator("aside").text_content()
    found = selected(trees_of(page))
    assert found["properties"] == ["mpi_latesender"]
    assert found["calls"][0][-1] == page.view(f"view.about.regions[view.about.region[{cell['call_path']}]]")


# -- phases folded -----------------------------------------------------------------------------------------------------


@pytest.fixture
def fold(browser, server):
    found = Page(browser, server, "fold?phase=h_region")
    yield found
    found.close()


@pytest.mark.slow
def test_fold__has_a_row_for_each_instance_the_longest_first(fold, path):
    table = tracecols.open(path).iterations("h_region").sort_values("seconds", ascending=False, kind="stable")
    resolution = fold.view("view.about.resolution")
    assert fold.view("view.about.length") == round(table.seconds.iloc[0] * resolution)
    lengths = fold.view(
        "view.about.rows.slice(1).map((_, k) => view.about['fold.end'][k] - view.about['fold.begin'][k])"
    )
    assert lengths == [round(s * resolution) for s in table.seconds]
    labels = fold.page.locator(".label .name").all_text_contents()
    assert len(labels) == len(table) == 12
    first = table.iloc[0]
    assert f"#{int(first.iteration)} on MPI Rank {int(first['rank'])}" in labels[0]
    fold.page.get_by_label("Order of instances").select_option("time")
    fold.settle()
    begins = fold.view("Array.from(view.about['fold.begin'])")
    assert begins == sorted(begins)


@pytest.mark.slow
def test_fold__slices_and_waits_are_those_of_the_instances(fold, path):
    """Each slice of a row has its times in the run, less the begin of the instance."""
    trace = tracecols.open(path)
    first = int(trace.manifest["first_time"])
    table = trace.frame("region_instances", raw=True)
    waits = trace.frame("waits", raw=True)
    k = 2
    begin, end, location = (fold.view(f"view.about['fold.{name}'][{k}]") for name in ("begin", "end", "location"))
    mine = fold.array("slice.location") == k
    inside = table[(table.location == location) & (table.enter_time - first < end) & (table.exit_time - first > begin)]
    assert fold.array("slice.count")[mine].sum() == len(inside)
    single = mine & (fold.array("slice.count") == 1)
    found = set(zip(fold.array("slice.begin")[single] + begin, fold.array("slice.name")[single], strict=True))
    assert found and found <= set(zip((inside.enter_time - first).clip(begin), inside.region, strict=True))
    at = fold.array("waits.location") == k
    inside = waits[(waits.location == location) & (waits.begin_time - first < end) & (waits.end_time - first > begin)]
    assert sorted(fold.array("waits.begin")[at] + begin) == sorted((inside.begin_time - first).clip(begin))


@pytest.mark.slow
def test_fold__leads_to_the_instance_in_the_run_and_to_its_trees(page):
    page.view("view.highlight(view.about.regions.indexOf('h_region'))")
    page.settle()
    with page.context.expect_page() as found:
        page.page.keyboard.press("i")
    tab = found.value
    tab.wait_for_function("() => document.getElementById('timeline').view?.drawn")
    assert tab.evaluate("() => document.getElementById('timeline').view.about.folded.phase") == "h_region"
    tab.keyboard.press("ArrowDown")
    begin, end, location = tab.evaluate(
        "() => { const { about, state } = document.getElementById('timeline').view; const k = about.rows[state.row].location;"
        " return ['begin', 'end', 'location'].map((name) => about[`fold.${name}`][k]); }"
    )
    with page.context.expect_page() as found:
        tab.keyboard.press("r")
    trees = found.value
    trees.wait_for_function("() => document.getElementById('tracecols')?.view?.model.calls")
    assert selected(trees)["time"] == 6 * (end - begin)
    tab.bring_to_front()
    tab.keyboard.press("Enter")
    page.page.wait_for_function(f"() => document.getElementById('timeline').view.state.from === {begin}")
    assert page.view("view.state.to") == end
    assert page.view("view.about.rows[view.state.row].location") == location


@pytest.mark.slow
def test_fold__that_is_not_there_is_said(browser, server):
    found = new_page(browser)
    found.goto(f"{server.url}fold?phase=no_such_region")
    found.wait_for_selector("[role=alert]")
    said, advice = found.locator("[role=alert]").inner_text().split("\n")
    assert "no region of this trace is called" in said and "h_region" in advice
    found.context.close()


# -- the cursor of the keyboard ----------------------------------------------------------------------------------------


def heard(page):
    """Return the text of the live region."""
    return page.page.locator("[role=status]").text_content()


@pytest.mark.slow
def test_cursor__selects_the_cell_that_a_click_selects(page):
    page.page.get_by_label("What rows show").select_option("mpi_latesender")
    page.settle()
    page.page.locator(".labels").focus()
    row = page.view("view.rowOf.get(3)")
    page.view(f"view.focusRow({row})")
    page.press("g", "ArrowRight", "ArrowRight", "ArrowLeft")
    at = page.view("view.cursorCell")
    assert at["edges"] == page.array("edges").tolist()
    assert at["begin"] == at["edges"][at["k"]]
    cell = page.view(f"view.cellOf({row}, {at['begin']})")
    assert cell["words"] in heard(page) and page.view(f"view.about.rows[{row}].label") in heard(page)
    page.press("Enter")
    assert page.view("view.chosen") == {"kind": "cell", **cell}
    box, line = page.page.locator(".canvas").bounding_box(), page.page.locator(f"#row-{row}").bounding_box()
    x = page.view(
        f"view.width * ({(at['begin'] + at['end']) / 2} - view.state.from) / (view.state.to - view.state.from)"
    )
    page.page.mouse.click(box["x"] + x, line["y"] + 8)
    assert page.view("view.chosen") == {"kind": "cell", **cell}
    page.press("l")
    assert page.view("view.cursorCell.k") == at["k"] + 10
    page.press("ArrowDown", "Escape")
    assert page.view("view.state.row") == row + 1
    # the first Escape ends the cursor, the second one the selection
    assert page.view("view.cursor") is None and page.view("view.chosen") is not None
    page.press("Escape")
    assert page.view("view.chosen") is None


@pytest.mark.slow
def test_cursor__extends_a_range_with_shift(page):
    page.press("g")
    first = page.view("view.cursorCell")
    page.press("Shift+ArrowRight", "Shift+ArrowRight")
    assert page.view("view.range") == [first["begin"], page.view("view.cursorCell")["end"]]
    assert "selected range" in heard(page)
    page.press("Shift+ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowLeft")
    assert page.view("view.range") == [page.view("view.cursorCell.begin"), first["end"]]
    page.press("z")
    assert page.view("view.state.to") == first["end"]
    # a click on nothing ends the range, not the cursor
    box = page.page.locator(".canvas").bounding_box()
    page.page.mouse.click(box["x"] + 200, box["y"] + 10)
    page.press("w")
    assert page.view("view.range") is None
    assert "selected range" not in page.page.locator(".status").text_content()


@pytest.mark.slow
def test_cursor__goes_through_the_instances_of_a_row(page, path):
    """If single events are drawn, the cursor stops at each begin and end, and goes on beyond the screen."""
    table = tracecols.open(path).frame("region_instances", raw=True)
    first = int(tracecols.open(path).manifest["first_time"])
    page.view(f"view.focusRow(view.rowOf.get({int(table.location.iloc[0])}))")
    page.press("w", "w", "w", "g")
    seen, times = set(), [page.view("view.cursor.time")]
    for _ in range(40):
        page.press("ArrowRight", "Enter")
        times.append(page.view("view.cursor.time"))
        chosen = page.view("view.chosen")
        seen.add((chosen["kind"], chosen["begin"]))
    assert times == sorted(times) and len(set(times)) > 30
    begins = set((table.enter_time - first).tolist())
    assert {begin for kind, begin in seen if kind == "slice"} <= begins | {page.view("view.state.from")}
    assert len(seen) > 10
    start = page.view("view.state.from")
    page.press("j", "j", "j", "j", "j", "j", "j", "j", "j", "j", "j", "j")
    assert page.view("view.state.from") < start or page.view("view.cursor.time") == 0


@pytest.mark.slow
def test_keys__that_are_listed_are_each_of_one_use(page):
    """Keys of the cursor replace others only while there is a cursor."""
    page.press("?")
    terms = page.page.locator("dialog dt").all_text_contents()
    at = next(i for i, term in enumerate(terms) if term == "g")
    end = next(i for i, term in enumerate(terms) if i > at and term == "Escape") + 1
    for part in (terms[: at + 1] + terms[end:], terms[at + 1 : end]):
        keys = [key for term in part for key in term.replace(", ", " ").split() if len(key) == 1 or key[0].isupper()]
        assert [key for key, n in Counter(keys).items() if n > 1 and key != "Shift"] == []
    page.press("Escape")


# -- counters ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_counters__are_lines_below_their_rows(browser, server, archive, tmp_path):
    """The value drawn at a time is the last sample before it in the table."""
    mpi = archive.mpi(2)
    number = archive.metric_class(("power", "double"), ("cycles", "uint64"))
    many = archive.metric_class(*((f"counter {i}", "int64") for i in range(6)))
    for here, of in zip(mpi.ranks, (number, many), strict=True):
        here.enter(0, "main")
        for t in range(10, 3_000, 10):
            values = [(10, t / 7), (4, t * t)] if of == number else [(8, t % (i + 2)) for i in range(6)]
            here.record(t, "Metric", source=of, values=values)
        here.leave(4_000, "main")
    with served(timeline_of(tracecols.convert(archive.write(), tmp_path / "c.trace"))) as counting:
        found = Page(browser, counting, width=900, height=500)
        heights = found.view("view.layout.map((line) => line.height)")
        found.press("k")
        assert "counters are shown" in heard(found)
        at = found.view("Object.fromEntries(view.countersOf)")
        assert [len(at["0"]), len(at["1"])] == [2, 6]
        power, cycles = at["0"]
        assert found.view(f"view.counterAt({power}, 1234)") == 1230 / 7
        assert found.view(f"view.counterAt({cycles}, 1234)") == 1230 * 1230
        assert found.view(f"view.counterAt({cycles}, 9)") is None
        assert found.view("view.layout.map((line) => line.height)") > heights
        label = found.page.locator(f"#row-{found.view('view.rowOf.get(0)')}").get_attribute("aria-label")
        assert f"cycles: 100 to {2990 * 2990:,}" in label and "power: 1.428571 to 427.1429" in label
        picture = ElementTree.parse(saved(found, "v", tmp_path))
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert any(text.startswith("counter 5: 0 to 6") for text in texts)
        for key in ("0", "w"):
            found.press(key)
            table = [row for row in rows_of(saved(found, "b", tmp_path)) if row["counter"]]
            *_, last = [row for row in table if row["counter"] == "power"]
            assert float(last["last"]) == float(last["max"]) >= float(last["mean"]) >= float(last["min"])
            start, stop = found.view("[view.state.from, view.state.to]")
            inside = sum(start <= t < stop for t in range(10, 3_000, 10))
            # each sample of the range once, and the one valid at its begin
            assert sum(int(row["samples"]) for row in table) == 8 * (inside + (start > 10)), key
            assert {row["counter"] for row in table} == {"power", "cycles", *(f"counter {i}" for i in range(6))}
        found.press("0")
        found.page.reload()
        found.settle()
        assert found.view("view.state.counters") and found.view("view.counters.says.counters.length") == 8
        found.press("k")
        assert found.view("view.layout.map((line) => line.height)") == heights
        found.close()
    without = Page(browser, server)
    without.press("k")
    assert heard(without) == "this trace has no counters"
    assert without.page.get_by_role("button", name="counters").count() == 0
    without.context.close()


# -- two runs ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(path, tmp_path_factory, data):
    """Serve the run of the other tests, and one of four processes below it."""
    other = tracecols.convert(data / "coll", tmp_path_factory.mktemp("b") / "coll.trace")
    with served(timeline_of(path), run_of(other)) as server:
        yield server


class TwoRuns(Page):
    """The page of two runs."""

    def open(self, fragment=""):
        super().open(f"compare{fragment}")

    def settle(self):
        self.page.wait_for_function(
            "() => { const v = document.getElementById('timeline').views;"
            " return v?.every((one) => one.isSettled && one.drawn) && v.some((one) => one.answer); }"
        )
        self.page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go, 30)))")

    def of(self, expression):
        """Evaluate an expression of the views `a` and `b`, and of the `pair`."""
        return self.page.evaluate(
            "() => { const [a, b] = document.getElementById('timeline').views; const { pair } = a;"
            f" return {expression}; }}"
        )


@pytest.fixture
def two(browser, both):
    found = TwoRuns(browser, both, width=900, height=700)
    yield found
    found.close()


AT = "[(a.state.from - pair.found.first) / a.about.resolution, (b.state.from - pair.found.second) / b.about.resolution]"


@pytest.mark.slow
def test_two_runs__have_one_zoom_and_are_aligned_at_the_focus(two, both):
    assert two.of("[a.about.name, b.about.name]") == ["hybrid", "coll"]
    assert two.page.evaluate("() => document.documentElement.scrollWidth") == 900
    expected = [focus_begin(run.timeline) for run in (both.run, both.second)]
    assert two.of("[pair.found.first, pair.found.second]") == expected
    # all of both runs is shown
    assert two.of(
        "a.state.from <= 0 && a.state.to > a.about.length && b.state.from <= 0 && b.state.to > b.about.length"
    )
    for keys in (("w", "w", "d"), ("o", "w", "a"), ("s",)):
        two.press(*keys)
        first, second = two.of(AT)
        assert first == pytest.approx(second, abs=2e-8)
        lengths = two.of("[a, b].map((v) => (v.state.to - v.state.from) / v.about.resolution)")
        assert lengths[0] == pytest.approx(lengths[1], abs=2e-8)
    assert two.page.evaluate("() => document.getElementById('timeline').view.isSecond")
    two.press("ArrowDown")
    assert two.of("[a.state.row, b.state.row]") == [1, 2]
    # a finding selected while the second run is active is one of the second run
    two.press("f")
    assert two.of("a.chosen") is None
    chosen = two.of("b.chosen")
    if chosen:
        assert two.of("b.about.waits[b.chosen.property].title") in two.page.locator("aside").text_content()
    before = two.of("[a.state, b.state]")
    two.page.reload()
    two.settle()
    assert two.of("[a.state, b.state]") == before


@pytest.mark.slow
def test_two_runs__are_aligned_at_instances(two):
    two.page.get_by_label("Align the runs at").select_option("start")
    two.page.wait_for_function("() => document.getElementById('timeline').view.pair.found.way === 'start'")
    two.settle()
    assert two.of("[pair.found.first, pair.found.second]") == [0, 0]
    two.press("w", "w", "w")
    two.page.get_by_label("Align the runs at").select_option("phase")
    # the phase proposed for the first run does not exist in the second one
    two.page.wait_for_selector(".note.trouble")
    assert "500" in two.trouble.pop()
    assert two.of("pair.found.way") == "start"
    field = two.page.get_by_label("Phase or region")
    field.fill("MPI_Barrier")
    field.press("Enter")
    two.page.wait_for_function("() => document.getElementById('timeline').view.pair.found.phase === 'MPI_Barrier'")
    two.settle()
    begins = [two.of(f"pair.found.{name}") for name in ("first", "second")]
    two.press("y")
    two.page.wait_for_function("() => document.getElementById('timeline').view.pair.found.k === 1")
    two.settle()
    later = [two.of(f"pair.found.{name}") for name in ("first", "second")]
    assert later[0] > begins[0] and later[1] > begins[1]
    assert heard(two) == "aligned at instance 1 of MPI_Barrier"
    two.press("u")
    two.page.wait_for_function("() => document.getElementById('timeline').view.pair.found.k === 0")
    two.settle()
    assert [two.of(f"pair.found.{name}") for name in ("first", "second")] == begins


@pytest.mark.slow
def test_two_runs__show_their_difference(two, both):
    two.press("o", "q", "q")
    part = two.of("pair.part")
    assert part in two.of("[...a.about.classes, ...b.about.classes]")
    n = two.of("b.difference.arrays.edges.length") - 1
    first, second = (np.array(two.of(f"Array.from(b.difference.arrays.{x}).map((v) => Number.isNaN(v) ? null : v)"), float) for x in ("first", "second"))  # fmt: skip
    rows = two.of("b.difference.rows")
    given = two.of("[a.withinRun, Math.max(50, Math.round(b.width * (b.withinRun[1] - b.withinRun[0]) / (b.state.to - b.state.from)))]")  # fmt: skip
    aligned = (two.of("pair.found.first"), two.of("pair.found.second"))
    answer = both.comparison.difference(*given[0], rows, given[1], part, aligned)
    for name, found in (("first", first), ("second", second)):
        assert np.array_equal(answer.arrays[name], found.reshape(-1, n), equal_nan=True)
    assert np.isfinite(first).any() and np.isnan(first).any()
    legend = two.page.locator(".difference").text_content()
    assert "B more, up to +" in legend and "nothing to compare" in legend
    # the cursor states the difference
    row, column = (int(i) for i in np.argwhere(np.isfinite(first.reshape(-1, n)))[5])
    two.press("g")
    two.page.evaluate(
        f"() => {{ const b = document.getElementById('timeline').views[1]; b.focusRow({rows[row]});"
        f" b.cursor.time = b.difference.arrays.edges[{column}]; }}"
    )
    two.press("ArrowRight", "ArrowLeft")
    by = 100 * float((second - first).reshape(-1, n)[row, column])
    assert f"{by:+.1f} points" in heard(two)
    fragment = two.page.evaluate("() => location.hash")
    two.page.reload()
    two.settle()
    assert two.page.evaluate("() => location.hash") == fragment and two.of("pair.part") == part


@pytest.mark.slow
def test_two_runs__lead_to_the_trees_of_their_own(two):
    two.press("w", "o")
    with two.context.expect_page() as found:
        two.page.keyboard.press("r")
    tab = found.value
    tab.wait_for_function("() => document.getElementById('tracecols')?.view?.model.calls")
    assert "/b/trees?" in tab.url
    assert selected(tab)["time"] == 4 * two.of("b.withinRun[1] - b.withinRun[0]")


@pytest.mark.slow
def test_one_run__has_no_page_of_two(browser, server):
    found = new_page(browser)
    assert found.goto(f"{server.url}compare").status == 404
    assert found.goto(f"{server.url}b/").status == 404
    found.context.close()


HOSTILE = "</script><img src=x onerror='window.hit=1'><b>"


@pytest.mark.slow
def test_names__that_are_hostile_stay_text(browser, archive, tmp_path):
    mpi = archive.mpi(2)
    with mpi.ranks[0] as rank:
        rank.enter(10, HOSTILE).enter(20, "MPI_Send").send(5000, 1, mpi.world, tag=7, length=64).leave(
            6000, "MPI_Send"
        ).leave(9000, HOSTILE)
    with mpi.ranks[1] as rank:
        rank.enter(10, HOSTILE).enter(20, "MPI_Recv").receive(7000, 0, mpi.world, tag=7, length=64).leave(
            8000, "MPI_Recv"
        ).leave(9000, HOSTILE)
        rank.enter(9000, "\ufffe in XML").leave(9900, "\ufffe in XML")
    name = "<img src=x onerror='window.hit=2'>.trace"
    with served(timeline_of(tracecols.convert(archive.write(), tmp_path / name))) as server:
        found = Page(browser, server)
        box = found.page.locator(".canvas").bounding_box()
        for x in range(20, int(box["width"]), 160):
            found.page.mouse.move(box["x"] + x, box["y"] + 130)
        found.press("e", "f", "Enter")
        # the finding has no instance, so that rows show its property
        found.page.get_by_label("What rows show").select_option("")
        found.page.locator(".labels").focus()
        found.press("0")
        picture = ElementTree.parse(saved(found, "v", tmp_path))
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert any(text.startswith(HOSTILE[:12]) for text in texts)
        assert HOSTILE in {row["name"] for row in rows_of(saved(found, "b", tmp_path))}
        assert found.page.evaluate("() => window.hit") is None
        assert found.page.locator("img").count() == 0
        assert found.page.locator("h1").text_content() == name.removesuffix(".trace")
        found.close()


@pytest.mark.slow
def test_names__that_are_long_leave_room_and_lead_to_the_trees(browser, archive, tmp_path):
    """As those of templates in C++."""
    name = f"void run<{'std::vector<double, std::allocator<double> >, ' * 90}>"
    archive.mpi(1).ranks[0].enter(0, "main").call(1000, 9000, name).leave(10000, "main")
    with served(timeline_of(tracecols.convert(archive.write(), tmp_path / "x.trace"))) as server:
        found = Page(browser, server)
        box = found.page.locator(".canvas").bounding_box()
        found.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 80)
        found.press("h")
        assert "8 us" in found.page.locator(".tip").text_content()
        for part in (".tip", ".status", "aside dl"):
            assert found.page.locator(part).bounding_box()["height"] < 250, part
        assert name in found.page.locator("aside").text_content()
        with found.page.expect_popup() as trees:
            found.page.keyboard.press("r")
        trees.value.wait_for_function("() => document.getElementById('tracecols')?.view")
        found.close()


@pytest.mark.slow
def test_reload__and_closed_tabs_are_survived(browser, server):
    for _ in range(3):
        tabs = [Page(browser, server) for _ in range(4)]
        for tab in tabs:
            tab.page.keyboard.press("w")
            tab.context.close()
    last = Page(browser, server)
    last.page.reload()
    last.settle()
    assert last.view("view.answer.says.level") >= 0
    last.close()


@pytest.mark.slow
def test_server__that_has_ended_is_said(browser, server):
    found = Page(browser, server)
    found.page.route("**/data/view?*", lambda route: route.abort())
    found.page.keyboard.press("w")
    found.page.wait_for_function("() => document.querySelector('.note.trouble')")
    assert "was tracecols view ended?" in found.page.locator(".note").text_content()
    found.page.unroute("**/data/view?*")
    found.press("s")
    found.page.route("**/data/*", lambda route: route.abort())
    found.page.keyboard.press("n")
    found.page.wait_for_function("() => document.querySelector('.note.trouble')")
    assert not any("does not answer" in text for text in found.trouble)
    found.context.close()


INJECTED = [
    "chain3",
    "fine_omp",
    "hybrid_thread",
    "iallreduce_late",
    "imbalance_assembly",
    "late_receiver",
    "no_overlap",
    "pthread_cond",
    "rma_fence",
    "tiny_messages",
    "wavefront_coarse",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", INJECTED)
def test_three_keys__lead_from_the_first_finding_to_where_the_fault_begins(browser, shared_traces, tmp_path, name):
    """After one of the keys, the selection lies in the region of the fault, on its rank and thread."""
    folder = shared_traces / "injected" / name
    truth = json.loads((folder / "truth.json").read_text())
    right = {truth["region"], *truth["also_right"]}
    path = tracecols.convert(folder, tmp_path / "x.trace")
    trace = tracecols.open(path)
    table, names = trace.frame("region_instances", raw=True), trace.regions.name.to_numpy()
    where = trace.locations
    first = int(trace.manifest["first_time"])
    with served(timeline_of(path)) as server:
        found = Page(browser, server)
        reached = []
        for key in ("f", "Enter", "Enter"):
            found.press(key)
            chosen = found.view("view.chosen")
            location = where.iloc[int(chosen["location"])]
            around = table[
                (table.location == chosen["location"])
                & (table.enter_time - first <= chosen["begin"])
                & (table.exit_time - first >= chosen["end"])
            ]
            is_place = truth["rank"] in (None, location["rank"]) and truth["thread"] in (None, location["thread"])
            reached.append(is_place and bool(right & set(names[around.region])))
        found.context.close()
    assert any(reached)


# -- pictures of the documentation -------------------------------------------------------------------------------------

SHOTS = {
    "view-run.png": ("", ()),
    "view-cause.png": ("", ("f",)),
    "view-flames.png": ("", ("f", "Enter", "e", "c")),
    "view-fold.png": ("fold?phase=h_region", ("ArrowDown",)),
}


def compare_picture(made, name):
    """Check that a picture of the documentation has the size of `made`; TRACECOLS_WRITE_PICTURES replaces it first."""
    if os.environ.get("TRACECOLS_WRITE_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / name).write_bytes(made)
    kept = (PICTURES / name).read_bytes()
    assert size_of(kept) == size_of(made)
    assert len(kept) < 120_000


def size_of(png):
    """Return width and height."""
    return struct.unpack(">II", png[16:24])


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOTS)
def test_pictures__of_the_documentation_are_of_this_page(browser, server, name):
    """With TRACECOLS_WRITE_PICTURES in the environment they are made anew."""
    fragment, keys = SHOTS[name]
    found = Page(browser, server, fragment, width=1200, height=560)
    found.press(*keys)
    found.page.mouse.move(2, 2)
    made = small(found.page.screenshot())
    found.context.close()
    compare_picture(made, name)


@pytest.mark.slow
def test_pictures__of_two_runs_are_of_this_page(browser, path, tmp_path):
    """A recorded run, and what replay predicts if one region takes half of its time."""
    faster = tmp_path / "faster.trace"
    command = ["what-if", str(path), "--scale", "do_work=0.5", "-o", str(faster)]
    assert run(*command).exit_code == 0
    with served(timeline_of(path), run_of(faster)) as server:
        found = TwoRuns(browser, server, "#by=phase&of=h_region&k=0&difference=comp", width=1200, height=640)
        found.press("w", "w", "d", "d", "ArrowDown")
        found.page.mouse.move(2, 2)
        made = small(found.page.screenshot())
        assert found.of("b.difference.cells.largest") > 0.5
        found.context.close()
    assert found.trouble == []
    compare_picture(made, "view-two.png")


@pytest.mark.slow
def test_wheel__carries_the_page():
    assert {"", "fold", "compare", "timeline.js", "timeline.css"} == set(pages.documents())
