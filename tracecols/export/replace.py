"""What an output may replace.

One rule for all commands: an output replaces what the same kind of command made before under its name: a store a store, a report a
report, a severity cube one that was made in the same way. Never is something replaced without being asked for (`--force`) that
tracecols did not write, as far as a file tells, or a cube by one with other conventions, narrowed otherwise, or computed from
others. Tables and timelines (.parquet, .csv, .json, .pftrace) do not tell who wrote them; their name is always given, and is
taken at its word. An OTF2 archive is never written over anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracecols.errors import ExportError
from tracecols.severity.narrowed import how_in_words, made_how
from tracecols.store.layout import is_made_here, read_manifest

HEAD = 1 << 20
"""Bytes at the begin of a file that are looked at."""


def _facts_in(text: str) -> dict[str, Any] | None:
    """Return the facts in the XML of a cube that was written here."""
    import html

    from tracecols.export.cube_xml import FACTS

    found = re.search(rf'<attr key="{re.escape(FACTS)}" value="([^"]*)"', text)
    try:
        facts = json.loads(html.unescape(found[1])) if found else None
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def facts_of(path: Path) -> dict[str, Any] | None:
    """Return the facts of a severity cube that was written here; None of anything else."""
    try:
        if path.is_dir():
            return dict(read_manifest(path)[0]["facts"]) if is_made_here(path, "a severity cube") else None
        return _facts_of_file(path) if path.is_file() else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _facts_of_file(path: Path) -> dict[str, Any] | None:
    """Return the facts of a .cubex or .cube that was written here; None of anything else."""
    # most outputs are folders: these take 30 ms to import
    import tarfile
    import zlib

    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
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


def check_output(path: Path, facts: Mapping[str, Any] | None = None, *, force: bool = False) -> None:
    """Refuse to write over something that is to be kept.

    Parameters
    ----------
    path : Path
        The output: a cube (.severity, .cubex, .cube), a report (.html) or something else.
    facts : mapping, optional
        Of a cube that is to be written: how it is made.
    force : bool
        Replace it all the same; what is no severity cube is not replaced by one.

    Raises
    ------
    ExportError
        If something stands there that must not be replaced.
    """
    if force or not path.exists():
        return
    asked = "give another name, or --force to replace it"
    if path.suffix == ".html" and path.is_file():
        with path.open("rb") as file:
            if b"tracecols-page" not in file.read(HEAD):
                raise ExportError(f"{path} exists and is no report of tracecols\n  {asked}")
    if facts is None:
        return
    there = facts_of(path)
    if there is None:
        if path.is_file():
            raise ExportError(f"{path} exists and was not written by tracecols\n  {asked}")
        return
    if made_how(there) != made_how(facts):
        raise ExportError(
            f"{path} exists and was made in another way: {how_in_words(there)}; this one: {how_in_words(facts)}\n  {asked}"
        )
