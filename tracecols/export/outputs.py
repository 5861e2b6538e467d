"""The outputs of exports, and how their files are recognised as made by tracecols (`store.outputs` has the rule).

Cube files hold the facts of the cube, timelines name their writer, and a table is recognised by the columns of the
table to be written. An OTF2 archive never replaces anything (`converters.otf2.write`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracecols.errors import ExportError, SeverityError
from tracecols.severity.storage import cube_folder, how_it_differs
from tracecols.store.outputs import HEAD, Output, head_of

COMPARISON = '{\n "format": "tracecols comparison"'
TREES = '{"format": "tracecols severity"'
"""Beginnings of the JSON of comparisons and of cubes."""


def _facts_in(text: str) -> dict[str, Any] | None:
    """Return the facts in the XML of a cube that tracecols wrote, or None."""
    import html

    from tracecols.export.cube_xml import FACTS

    found = re.search(rf'<attr key="{re.escape(FACTS)}" value="([^"]*)"', text)
    try:
        facts = json.loads(html.unescape(found[1])) if found else None
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def facts_of(path: Path) -> dict[str, Any] | None:
    """Return the facts of a .cubex or .cube that tracecols wrote, or None for any other file."""
    # most outputs are folders: these take 30 ms to import
    import tarfile
    import zlib

    try:
        head = head_of(path)
        if head[257:262] == b"ustar":
            with tarfile.open(path) as archive:
                anchor = archive.extractfile("anchor.xml")
                if anchor is None:
                    return None
                head = anchor.read(HEAD)
        if head[:2] == b"\x1f\x8b":
            head = zlib.decompressobj(31).decompress(head, HEAD)
        return _facts_in(head.decode("utf-8", "replace"))
    except (OSError, ValueError, LookupError, TypeError, zlib.error, tarfile.TarError):
        return None


def cube_output(path: Path, facts: Mapping[str, Any], *, force: bool = False) -> Output:
    """Return the output folder (.severity) or file of a cube with these facts; it replaces cubes that were made in the
    same way."""
    if path.suffix == ".severity":
        return cube_folder(path, facts, force=force)

    def recognise(found: Path) -> str | None:
        there = facts_of(found)
        return None if there is None else how_it_differs(there, facts)

    return Output(path, "a severity cube", recognise, force=force, error=SeverityError)


def columns_of(path: Path) -> list[str]:
    """Return the column names of a table in a file (.parquet, .csv, .json); empty if it is not a table, or they cannot
    be read."""
    try:
        if path.suffix == ".parquet":
            from tracecols.store.arrow import open_parquet

            names: list[str] = open_parquet(path).schema_arrow.names
            return names
        text = head_of(path).decode("utf-8", "replace")
        if path.suffix == ".csv":
            return next(csv.reader(io.StringIO(text)), [])
        start = re.match(r"\s*\[\s*(?=\{)", text)
        return list(json.JSONDecoder().raw_decode(text, start.end())[0]) if start else []
    except (OSError, ValueError, RecursionError, csv.Error):
        return []


def table_output(path: Path, columns: Sequence[str], *, force: bool = False) -> Output:
    """Return the output file of a table; it replaces tables that have at least these columns."""

    def recognise(found: Path) -> str | None:
        return "" if columns and set(columns) <= set(columns_of(found)) else None

    return Output(path, "a table", recognise, force=force, error=ExportError)
