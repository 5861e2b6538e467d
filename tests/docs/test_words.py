"""One word, one meaning: words that had several do not come back in identifiers, and the glossary explains every word
once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support.command_line import run

import tracecols
from tracecols.patterns.constraints import CONSTRAINTS
from tracecols.patterns.periods import LEFT_OUT
from tracecols.schema import notes
from tracecols.testing import Program

ROOT = Path(tracecols.__file__).parent

RETIRED = {
    "piece": "trace slice, or chunk of a file", "pieces": "trace slices, or chunks",
    "cut": "trace slice, or what is planned of it", "pen": "SliceBuilder", "strip": "TrackEvents",
    "mark": "instant, or magic number of a file", "marks": "instants", "place": "position, tie order, row",
    "places": "positions", "room": "capacity", "spool": "buffer pool", "shipment": "outgoing rows",
    "receipt": "match result",
}  # fmt: skip
"""Words of the first version, and what is said instead."""

ALLOWED = {
    # entries of a manifest on a trace slice are named after `Trace.piece`, which is public
    "PIECE", "PIECE_CALLS", "PIECE_CPUS", "PIECE_LEFT_OUT", "PIECE_NUMBERS", "PIECE_PENDING", "OF_PIECES",
    # of kernels
    "N_MARKS", "ROOM",
}  # fmt: skip

TEXT_METHODS = {"strip", "lstrip", "rstrip"}


def identifiers(path: Path):
    """Yield line and name of every identifier in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.Attribute(attr=name) if name not in TEXT_METHODS:
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name


@pytest.mark.parametrize("package", ["slices", "export", "patterns"])
def test_words__that_are_retired_do_not_come_back(package):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}: say {RETIRED[word]}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, name in identifiers(path)
        for word in re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
        if word in RETIRED and name not in ALLOWED
    ]
    assert not found, "\n".join(found)


UNUSUAL = {
    r"(?<!left\s)(?<!leaves\s)(?<!leave\s)behind": "after", r"nobody's": "of none, counts nowhere",
    r"lets? go of": "frees", r"(?:is|are|be) told": "is reported, is known, is distinguished",
    r"(?:stand|stands|standing)(?!\s+out\b|-)": "is, represents",
}  # fmt: skip
"""Phrases that a reader of this field would not expect, and what is said instead."""


def test_phrases__are_those_of_the_field():
    """In code and pages, but for the changelog, whose entries stay as they were written."""
    paths = [path for of in ("*.py", "*.md") for path in ROOT.rglob(of) if path.name != "changelog.md"]
    folders = "kernels", "converters", "tests", "benchmarks"
    paths += [path for folder in folders for path in (ROOT.parent / folder).rglob("*.py")]
    phrase, better = re.compile(rf"\b(?:{'|'.join(f'({p})' for p in UNUSUAL)})\b"), list(UNUSUAL.values())
    found = [
        f"{path.relative_to(ROOT.parent)}:{text.count(chr(10), 0, at.start()) + 1}: {at[0]!r}, say {better[at.lastindex - 1]}"
        for path in sorted({*paths} - {Path(__file__)})
        for text in [path.read_text(encoding="utf-8")]
        for at in phrase.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_glossary__explains_every_word_once():
    rows = re.findall(
        r"^\| (.+?) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    words = [word for names, _ in rows for word in names.split(", ")]
    assert len(words) > 40
    assert sorted({word for word in words if words.count(word) > 1}) == []
    retired = set(RETIRED) & set(words)
    assert not retired, retired


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("differences from conventions scalasca in root causes: waits have causes (2 waits)",
         "1 difference from conventions scalasca in root causes: waits have causes (2 waits)"),
        ("cells of a program's root that are negative because the reference takes explicit tasks off it",
         "1 cell of a program's root that is negative because the reference takes explicit tasks off it"),
        ("messages received before they were sent", "1 message received before it was sent"),
        ("collective operations that lack participants", "1 collective operation that lacks participants"),
        ("device streams, which are no CPUs: their times and visits are left out",
         "1 device stream, which is no CPU: its times and visits are left out"),
        ("kernels whose launches are not recorded: late hosts and launch latency are not known",
         "1 kernel whose launch is not recorded: late hosts and launch latency are not known"),
        ("processes that have fewer phases than others, and lack the last ones",
         "1 process that has fewer phases than others, and lacks the last ones"),
        ("calls that launch kernels or copy, and no streams of devices: what the devices do is not recorded",
         "1 call that launches kernels or copies, and no streams of devices: what the devices do is not recorded"),
        ("copies that never end", "1 copy that never ends"),
        ("launches without a kernel", "1 launch without a kernel"),
    ],
)  # fmt: skip
def test_notes__have_a_singular(what, expected):
    assert notes.note(1, what) == expected
    assert notes.note(2, what) == f"2 {what}"


NO_COUNTS = {
    LEFT_OUT,
    "make one with: tracecols analyze TRACE",
    "the archive is damaged; copy it again, or use --salvage to keep what precedes",
}
"""Texts of the same form that count nothing."""


def counted_texts(path: Path):
    """Yield the texts in a file that notes may count: keys of dicts, arguments of `_count`, and constants, in words."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys=keys):
                yield from (key.value for key in keys if isinstance(key, ast.Constant))
            case ast.Call(func=ast.Attribute(attr="_count"), args=[ast.Constant(value=text), *_]):
                yield text
            case ast.Subscript(value=ast.Attribute(attr="left_out"), slice=ast.Constant(value=text)):
                yield text
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)) if name.isupper():
                yield text.replace("{}", "...")


def test_notes__are_declared_in_both_numbers():
    found = {c.name for c in CONSTRAINTS}
    for package in ("enhance", "search", "causes", "replay", "export", "converters/otf2"):
        for path in sorted((ROOT / package).rglob("*.py")):
            found |= {t for t in counted_texts(path) if isinstance(t, str) and re.match(r"[a-z-]+s? [a-z].* .*", t)}
    for module in ("bounds", "periods"):
        found |= {
            t for t in counted_texts(ROOT / "patterns" / f"{module}.py") if isinstance(t, str) and t.count(" ") > 4
        }
    assert len(found) > 60
    assert sorted(text for text in found - NO_COUNTS if not notes.is_declared(text)) == []
    # the singular of each text differs from its plural
    assert sorted(text for text in found - NO_COUNTS if notes.singular(text) == text) == []


def test_counts__of_one_are_singular_wherever_a_cube_says_them():
    program = Program(processes=1)
    program.locations[0].enter(0, "main").leave(10)
    with program.trace() as trace:
        cube = trace.analyze("exact", properties=["time"])
        cube.facts["counts"]["messages received before they were sent"] = 1
        path = trace.path.parent / "one.severity"
        cube.save(path)
        info = run("info", path, env={"COLUMNS": "200"}).output
        assert "1 event" not in repr(trace) and "1 location," in repr(trace)
    assert "1 call path x 1 location" in cube.summary() and "1 call path x 1 location," in info
    assert "message received before it was sent" in info
