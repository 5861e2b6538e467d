"""The documentation site: every page is reached, links lead somewhere, names in guides exist, and pictures show the
waits that are found."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.command_line import run

from tracecols.cli import group as command_line
from tracecols.cli.vocabulary import all_commands
from tracecols.docs.site import contents
from tracecols.docs.site.declared import LISTS
from tracecols.drawings.examples import EXAMPLES
from tracecols.model.tables import STEPS, TABLES
from tracecols.patterns import wavefront
from tracecols.patterns.constraints import CONSTRAINTS
from tracecols.patterns.found_by import Charged
from tracecols.patterns.registry import CONVENTIONS, properties
from tracecols.rules import RULES
from tracecols.schema import SIDE_TABLES
from tracecols.severity import SeverityCube
from tracecols.trace import Trace

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "tracecols" / "docs"
WRITTEN = sorted(path for path in DOCS.rglob("*.md") if path.parent != DOCS / "properties")
GUIDES = (
    "index", "guide", "report", "coming-from", "formats", "api", "devices", "other-traces", "measurement",
    "troubleshooting",
)  # fmt: skip

# -- pages -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages of the site: the written pages, completed, and the generated pages of properties."""
    folder = tmp_path_factory.mktemp("repository") / "tracecols" / "docs"
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("site", "properties", "__pycache__"))
    for path in folder.rglob("*.md"):
        name = path.relative_to(folder).with_suffix("").as_posix()
        path.write_text(contents.complete(name, path.read_text(encoding="utf-8")), encoding="utf-8")
    contents.write_property_pages(folder)
    return folder


def test_contents__every_page_is_in_a_section(site):
    lost = contents.without_section(site)
    assert not lost, f"add to a table of contents of tracecols/docs/index.md: {lost}"


def test_contents__pages_in_no_section_are_named(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.md").write_text("# Start\n\n```{toctree}\n:hidden:\n\nA title <one>\nsub/*\n```\n")
    for name in ("one", "two", "sub/three"):
        (tmp_path / f"{name}.md").write_text("# Page\n")
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": []}))
    assert contents.without_section(tmp_path) == ["book", "two"]


@pytest.mark.parametrize("name", ["README.md", *(path.relative_to(ROOT).as_posix() for path in WRITTEN)])
def test_links__lead_somewhere(name):
    path = ROOT / name
    assert contents.broken_links(path, path.read_text(encoding="utf-8")) == []


LONGEST = 120
"""Maximum number of words of a paragraph."""


def paragraphs(text):
    """Return the paragraphs and list items of a page, without code and tables."""
    text = re.sub(r"^(```+|:::+).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )|\n(?=#)", text)
    return [part for part in parts if not part.lstrip().startswith("|")]


@pytest.mark.parametrize(
    "name",
    ["README.md", "CONTRIBUTING.md"]
    + [path.relative_to(ROOT).as_posix() for path in WRITTEN if path.stem != "changelog"],
)
def test_paragraphs__can_be_read_in_one_go(name):
    long = [
        f"{len(words)} words, at most {LONGEST}: {' '.join(words[:12])} ..."
        for part in paragraphs((ROOT / name).read_text(encoding="utf-8"))
        if len(words := part.split()) > LONGEST
    ]
    assert not long, "\n".join(long)


def test_paragraphs__are_counted_without_tables_and_code():
    long = "word " * (LONGEST + 1)
    page = f"# Title\n\n{long}\n\n| {long} |\n\n```sh\n{long}\n```\n\n* {long}\n* short\n"
    assert [len(part.split()) for part in paragraphs(page) if len(part.split()) > LONGEST] == [121, 122]


def test_links__of_the_site_lead_somewhere(site):
    broken = {
        path.relative_to(site).as_posix(): found
        for path in site.rglob("*.md")
        if (found := contents.broken_links(path, path.read_text(encoding="utf-8")))
    }
    assert broken == {}


def test_site__describes_everything_that_is_declared(site):
    ids = {p.id for conventions in CONVENTIONS for p in properties(conventions)}
    assert {path.stem for path in (site / "properties").iterdir()} == ids
    page = (site / "properties" / "mpi_latesender.md").read_text(encoding="utf-8")
    assert page.startswith("# Late Sender\n\n`mpi_latesender`\n\n## Scalasca and EXPERT conventions\n")
    for words in ("Send earlier", "[mpi_point2point](mpi_point2point.md)", "[mpi_latesender_wo](mpi_latesender_wo.md)"):
        assert words in page
    listed = {name: (site / f"{name}.md").read_text(encoding="utf-8") for name in LISTS}
    assert set(re.findall(r"\(properties/(\w+)\.md\)", listed["properties"])) == ids
    assert set(re.findall(r"^### (\w+)$", listed["schema"], re.M)) >= {"events", *SIDE_TABLES, *TABLES}
    assert all(f"\n## {rule.title} `{rule.id}`\n" in listed["rules"] for rule in RULES.values())
    assert all(f"| {c.holds} | {c.name} |" in listed["constraints"] for c in CONSTRAINTS)
    assert all(f"| `{step.name}` | {step.doc} |" in listed["steps"] for step in STEPS)


def test_property_pages__of_properties_that_are_no_more_are_removed(site):
    kept, old = site / "properties" / "time.md", site / "properties" / "of_yesterday.md"
    old.write_text("# Of yesterday\n")
    before = kept.stat().st_mtime_ns
    contents.write_property_pages(site)
    assert kept.stat().st_mtime_ns == before
    assert not old.exists()


def test_links__of_notebooks_lead_somewhere():
    pages = contents.pages(DOCS)
    for path in DOCS.glob("*.ipynb"):
        assert [x for x in contents.broken_links(path, pages[path.stem]) if "attachment" not in x] == []


def test_links__that_are_broken_are_found(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# A title, with words\n\n```python\n# no title\n```\n")
    text = "[a](other.md) [b](other.md#a-title-with-words) [c](lost.md) [d](other.md#no-title) [e](https://x.org/) `[f](g.md)`\n"
    assert contents.broken_links(page, text) == ["lost.md", "other.md#no-title"]


def code_of(name: str) -> list[str]:
    """Return the lines of shell and Python blocks and the code spans of a page."""
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh|python)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    return [*(line for block in blocks for line in block.splitlines()), *spans]


@pytest.mark.parametrize("name", GUIDES)
def test_guides__name_commands_and_options_that_exist(name):
    commands = dict(all_commands(command_line))
    groups = {name.partition(" ")[0] for name in commands if " " in name}
    for code in code_of(name):
        found = re.match(rf"tracecols ((?:(?:{'|'.join(groups)}) )?[a-z][a-z-]*)(?= |$)(.*?)(?:#|$)", code)
        if not found:
            continue
        assert found[1] in commands, code
        command = commands[found[1]]
        options = {o for p in command.params for o in p.opts}
        used = re.findall(r"(?<= )(--?[a-z][a-z-]*)(?=[ =]|$)", re.sub(r'"[^"]*"', "", found[2]))
        assert set(used) <= options, code


@pytest.mark.parametrize("name", GUIDES)
def test_guides__name_methods_and_properties_that_exist(name):
    ids = {p.id for conventions in CONVENTIONS for p in properties(conventions)}
    families = re.compile(r"(mpi|omp|pthread|device|delay|bytes|comms|syncs|critical_path)_[a-z0-9_]+")
    for code in code_of(name):
        for of, thing in (("trace", Trace), ("cube", SeverityCube)):
            for attribute in re.findall(rf"(?<![\w.]){of}\.([a-z_]\w+)", code):
                assert hasattr(thing, attribute) or attribute in (*TABLES, "cubex"), code
        if families.fullmatch(code):
            assert code in ids, code


# -- timelines of properties -------------------------------------------------------------------------------------------

BY_PROGRAM: dict[object, list[str]] = {}
for _name, _shown in EXAMPLES.items():
    BY_PROGRAM.setdefault((_shown.make, _shown.conventions), []).append(_name)

WITHOUT = {
    **{
        f"mpi_latesender_wavefront_{corner}": "needs eight processes; as the corners of a plane, which have a picture"
        for corner in wavefront.SPACE
    }
}
"""Wait states without a picture, and why."""

NO_WAIT_STATES = (
    "time in regions", "visits of regions", "sum of those below", "the remainder of its parent", "profile",
    "computed from others",
)  # fmt: skip
"""Ways in which properties are found that are no wait states: times, counts and sums over call paths have no single
interval to show."""


def by_location(program, values):
    """Add up ticks by (process, thread)."""
    sums: dict[tuple[int, int], float] = {}
    for location, value in values:
        one = program.locations[location]
        key = (one.process, one.thread)
        sums[key] = sums.get(key, 0) + value
    return sums


@pytest.mark.slow
@pytest.mark.parametrize("names", BY_PROGRAM.values(), ids="-".join)
def test_examples__severity_is_where_the_picture_marks_it(names):
    shown = EXAMPLES[names[0]]
    example = shown.make()
    program = example.program
    number = {id(one): i for i, one in enumerate(program.locations)}
    marked = sorted((number[id(i.location)], i.start, i.end) for i in example.intervals)
    with program.trace() as trace:
        cube = trace.analyze(shown.conventions, properties=names)
        for name in names:
            cells = cube.cells[name]
            found = by_location(program, zip(cells.location.tolist(), cells.value.tolist(), strict=True))
            assert found == by_location(program, [(at, end - start) for at, start, end in marked]), name
            declared = {p.id: p for p in properties(shown.conventions)}[name]
            if declared.pattern is not None:
                # not only the amount is as marked, but also the times
                m = trace.matches(name, conventions=shown.conventions, raw=True)
                instances = zip(m.location.tolist(), m.begin_time.tolist(), m.end_time.tolist(), strict=True)
                assert sorted(instances) == marked, name
        if shown.conventions == "scalasca":
            waits = trace.waits
            mine = waits[np.isin(waits.property.astype(str), names)] if "property" in waits else waits[:0]
            for row in mine.itertuples():
                assert example.cause is not None
                assert (row.cause_location, row.cause_time) == (number[id(example.cause.location)], example.cause.time)


def test_examples__exist_for_all_wait_states():
    """Every property that is found as intervals has a picture, or a reason why not."""
    lacking = [
        p.id
        for conventions in CONVENTIONS
        for p in properties(conventions)
        if p.unit == "sec"
        and not isinstance(p.found, Charged)
        and str(p.found) not in NO_WAIT_STATES
        and p.id not in EXAMPLES | WITHOUT
    ]
    assert lacking == []
    assert not set(WITHOUT) & set(EXAMPLES)
    ids = {p.id for conventions in CONVENTIONS for p in properties(conventions)}
    assert {*WITHOUT, *EXAMPLES} <= ids


def test_pictures__are_the_same_every_time_and_small():
    from tracecols.drawings.svg import draw

    shown = EXAMPLES["mpi_latesender"]
    picture, again = (draw(shown.make(), "mpi_latesender", shown.caption) for _ in range(2))
    assert picture == again
    assert picture.startswith("<svg ") and len(picture) < 5_000
    assert "\n\n" not in picture, "an empty line ends a block of HTML in Markdown"
    for words in ("30 s", "rank 0 enters MPI_Send", "MPI_Recv", f'aria-label="{shown.caption}"'):
        assert words in picture
    assert 'width="' not in picture.split(">")[0].replace('stroke-width="', ""), "it is as wide as the page"


@pytest.mark.parametrize("name", EXAMPLES)
def test_pictures__are_sound_and_mark_all_intervals(name):
    """Nothing lies outside of a picture, and each wait is hatched over its whole length."""
    from xml.etree import ElementTree

    from tracecols.drawings.svg import Scale, draw

    shown = EXAMPLES[name]
    example = shown.make()
    picture = ElementTree.fromstring(draw(example, name, shown.caption))
    width, height = (float(number) for number in picture.get("viewBox").split()[2:])
    rects = [r for r in picture.iter("{http://www.w3.org/2000/svg}rect") if r.get("x")]
    for r in rects:
        x, y, w, h = (float(r.get(of)) for of in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width and 0 <= y <= y + h <= height, name
    scale = Scale(example.program)
    hatched = sorted(float(r.get("width")) for r in rects if r.get("fill", "").startswith("url("))
    expected = sorted(scale.x(i.end) - scale.x(i.start) for i in example.intervals)
    assert hatched == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("name", EXAMPLES)
def test_drawings__in_text_have_all_locations_and_waits(name):
    from tracecols.drawings.rows import labels
    from tracecols.drawings.text import WIDTH, draw

    example = EXAMPLES[name].make()
    lines = draw(example)
    assert "".join(lines).isascii()
    margin = max(map(len, labels(example.program))) + 2
    assert max(map(len, lines[: len(lines) - (example.cause is not None)])) <= margin + WIDTH
    assert sum("|" in line for line in lines) == len(example.program.locations)
    assert sum("/" in line for line in lines) >= len({id(i.location) for i in example.intervals})
    if example.cause is not None:
        assert f"{example.cause.what} at {example.cause.time} s" in lines[-1] and "^" in lines[-1]


def test_patterns__shows_the_drawing_of_a_wait():
    printed = run("patterns", "mpi_latesender").output
    assert printed.count("mpi_latesender  ") == 1, "the same under all conventions"
    assert "/ 30 s /" in printed and "rank 0 enters MPI_Send at 40 s ^" in printed
    assert "^" not in run("patterns", "time").output
