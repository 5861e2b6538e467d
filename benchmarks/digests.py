"""Digests of severity cubes: show that a change of the code changes no bit of any result.

`python -m benchmarks.digests write FOLDER ... -o before.json` converts and analyses every archive below the folders.
`python -m benchmarks.digests compare before.json after.json` lists the properties whose cells differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact", {}),
    "scalasca": ("scalasca", {}),
    "expert": ("expert", {}),
    "bins": ("exact", {"bins": 7}),
}
"""Analyses of each archive: conventions, and further arguments of `Trace.analyze`."""

Digests = dict[str, dict[str, dict[str, str]]]
"""Digests by archive, way of analysis and part of the cube."""


def digest(*arrays: Any) -> str:
    """Return the digest of the types and bytes of some arrays."""
    found = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        found.update(values.dtype.str.encode())
        found.update(values.tobytes() if values.dtype != object else repr(values.tolist()).encode())
    return found.hexdigest()[:16]


def digest_cube(cube: Any) -> dict[str, str]:
    """Return the digests of a cube: of its axes, facts and notes, and of the cells of each property, also by period."""
    found = {
        "call paths": digest(np.asarray(cube.call_paths.path, object)),
        "locations": digest(cube.system.rank, cube.system.thread),
        "facts": hashlib.sha256(json.dumps(cube.facts, sort_keys=True, default=str).encode()).hexdigest()[:16],
    }
    for name in cube.properties.id:
        cells = cube.cells[name]
        found[name] = digest(cells.call_path, cells.location, cells.value)
        if cube.periods is not None:
            by = cube.period_cells[name]
            found[f"{name} by period"] = digest(by.call_path, by.location, by.period, by.value)
    return found


def archives_below(folders: list[Path]) -> list[Path]:
    """Return the archives below some folders: OTF2 anchors, and merged EPILOG traces."""
    return sorted(p for folder in folders for pattern in ("*.otf2", "*.elg") for p in folder.rglob(pattern))


def write(folders: list[Path]) -> Digests:
    """Analyse all archives below some folders; if an archive is refused, its digest is the message."""
    import tracecols
    from tracecols.errors import TracecolsError

    found: Digests = {}
    for archive in archives_below(folders):
        ways = found[str(archive)] = {}
        with tempfile.TemporaryDirectory(prefix="tracecols-digests-") as name:
            try:
                trace = tracecols.open(tracecols.convert(archive, Path(name) / "x.trace"))
            except TracecolsError as error:
                ways["convert"] = {"error": str(error)}
                continue
            for way, (conventions, more) in WAYS.items():
                try:
                    ways[way] = digest_cube(trace.analyze(conventions, **more))
                except TracecolsError as error:
                    ways[way] = {"error": str(error)}
        print(f"{archive}: {', '.join(ways)}", flush=True)
    return found


def compare(one: Digests, other: Digests) -> list[str]:
    """Return the differences between two sets of digests, a line for each analysis."""
    different = [f"{archive}: only in one of them" for archive in sorted(one.keys() ^ other.keys())]
    for archive in sorted(one.keys() & other.keys()):
        for way in sorted(one[archive].keys() | other[archive].keys()):
            a, b = (ways[archive].get(way, {}) for ways in (one, other))
            parts = sorted(part for part in a.keys() | b.keys() if a.get(part) != b.get(part))
            if parts:
                different.append(f"{archive}, {way}: {', '.join(parts)}")
    return different


def main() -> None:
    """Run the command; exit 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.digests", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    add = commands.add_parser("write")
    add.add_argument("folders", nargs="+", type=Path)
    add.add_argument("-o", "--output", type=Path, required=True)
    add = commands.add_parser("compare")
    add.add_argument("files", nargs=2, type=Path)
    given = parser.parse_args()
    if given.command == "write":
        given.output.write_text(json.dumps(write(given.folders), indent=1))
        return
    different = compare(*(json.loads(path.read_text()) for path in given.files))
    print("\n".join(different) or "no difference")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
