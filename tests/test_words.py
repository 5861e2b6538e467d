"""One word, one meaning: words that had several do not come back in identifiers, and the glossary explains every word once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tracecols

ROOT = Path(tracecols.__file__).parent

RETIRED = {
    "piece": "trace slice, or chunk of a file",
    "pieces": "trace slices, or chunks",
    "cut": "trace slice, or what is planned of it",
    "pen": "SliceBuilder",
    "strip": "TrackEvents",
    "mark": "instant, or magic number of a file",
    "marks": "instants",
    "place": "position, tie order, row",
    "places": "positions",
    "room": "capacity",
    "spool": "buffer pool",
    "shipment": "outgoing rows",
    "receipt": "match result",
}
"""Words of the first version, and what is said instead."""

ALLOWED = {
    # what a manifest says of a trace slice has the name of `Trace.piece`, which is public
    "PIECE", "PIECE_CALLS", "PIECE_CPUS", "PIECE_LEFT_OUT", "PIECE_PENDING", "OF_PIECES",
    # of kernels
    "N_MARKS", "ROOM",
}  # fmt: skip

TEXT_METHODS = {"strip", "lstrip", "rstrip"}


def identifiers(path: Path):
    """Yield line and name of everything in a file that is named."""
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


def test_glossary__explains_every_word_once():
    rows = re.findall(
        r"^\| (.+?) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    words = [word for names, _ in rows for word in names.split(", ")]
    assert len(words) > 40
    assert sorted({word for word in words if words.count(word) > 1}) == []
    retired = set(RETIRED) & set(words)
    assert not retired, retired
