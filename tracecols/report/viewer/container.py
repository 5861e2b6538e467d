"""The format in which the viewer reads a cube: a header, and two compressed blocks per property.

The header is JSON: the three trees, totals, the values that shares refer to, and the layout of each block. Properties
that are computed from others come last in their tree, as roots; they have a formula (`metrics`) and empty blocks. Any
other property has two blocks, which the viewer reads when the property is selected:

``sums``
    For every call path that has cells, in order: call path (difference to the one before), number of cells, sum over
    locations.
``cells``
    For every cell, in order of call path and location: location (difference to the one before, the first of a call path
    to 0), value.

A property of a cube that is divided by phases or bins has a third block, read when values over time are shown:

``periods``
    For every call path and location that have cells, in order: call path (difference to the one before), location,
    number of cells; then for every cell, in order of call path, location and period: period (difference to the one
    before, the first of a location to -1; -1 is outside all phases), value.

A report with source text has one more block, the last: JSON with the included excerpts by file (number of the first
line, lines).

Every column is an integer array of a fixed width of 1 to 8 bytes, two's complement, stored byte plane by byte plane:
first the lowest byte of every number, then the next. Most upper bytes are alike, so `deflate` makes little of them.
Values of a property that is not integer are the bits of float64. Blocks and header are raw deflate streams.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.drawings.examples import shown_under
from tracecols.drawings.svg import draw
from tracecols.given.printable import printable
from tracecols.given.subdomains import Given
from tracecols.report.viewer.metrics import metrics_of
from tracecols.report.viewer.overview import diagnosis_of, overview
from tracecols.report.viewer.profile import similar_phases, time_profile
from tracecols.report.viewer.sources import Sources
from tracecols.report.viewer.topologies import default_topology, topologies_of
from tracecols.schema.notes import singular, worth_telling
from tracecols.severity.axes import PropertyAxis, SystemAxis
from tracecols.severity.cube import SeverityCube
from tracecols.severity.diagnosis import Diagnosis, name_of
from tracecols.severity.narrowed import asked_for
from tracecols.severity.periods import OUTSIDE, PeriodAxis, PeriodCells
from tracecols.severity.reduction import widened
from tracecols.version import __version__

CONTAINER_VERSION = 1

EXACT = 2**53
"""Sums of integers up to here are exact in the viewer's float64; it adds larger ones as 64-bit integers, which is
slower."""


@dataclass
class Container:
    """A packed cube."""

    header: bytes
    blocks: list[bytes]
    """`sums` and `cells` of each property in turn; then, if the cube is divided, `periods` of each. Empty for
    properties without cells."""
    start: int
    """Number of the property selected initially; -1 none."""
    n_properties: int

    @property
    def order(self) -> list[int]:
        """The blocks in the order in which the viewer needs them: those of the property shown first, then sums (which
        are small), cells, and periods."""
        n = 2 * self.n_properties
        first = [2 * self.start, 2 * self.start + 1, n + self.start] if self.start >= 0 else []
        found = dict.fromkeys([*first, *range(0, n, 2), *range(1, n, 2), *range(n, len(self.blocks))])
        return [i for i in found if i < len(self.blocks)]


@dataclass(frozen=True)
class Opened:
    """The initial selection of a report opened from a timeline, and the link back to it."""

    property: str = ""
    """Id; empty for the costliest finding."""
    call_path: int = -1
    """-1 for none."""
    nodes: tuple[int, ...] = ()
    """Nodes of the system tree."""
    timeline: str = ""
    """The fragment of the timeline's address, the part after `#`."""

    def to_dict(self, axis: PropertyAxis) -> dict[str, Any]:
        """Return the selection as the viewer reads it."""
        return {
            "property": axis.number.get(self.property, -1),
            "call": self.call_path,
            "system": list(self.nodes),
            "timeline": self.timeline,
        }


def deflate(data: bytes) -> bytes:
    """Compress to a raw deflate stream."""
    compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


def width_of(values: NDArray[np.int64]) -> int:
    """Return the number of bytes that can hold every value in two's complement; 1 to 8."""
    if not values.size:
        return 1
    low, high = int(values.min()), int(values.max())
    return next(w for w in range(1, 9) if -(1 << (8 * w - 1)) <= low and high < 1 << (8 * w - 1))


def planes(values: NDArray[Any], width: int) -> bytes:
    """Return the lowest `width` bytes of 64-bit numbers, byte plane by byte plane; width * n bytes."""
    octets = (
        np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).view(np.uint8).reshape(-1, 8)
    )
    return np.ascontiguousarray(octets[:, :width].T).tobytes()


def _columns(*columns: NDArray[Any]) -> tuple[list[int], bytes]:
    """Return widths and planes of the columns of a block."""
    widths = [8 if c.dtype.kind == "f" else width_of(c) for c in columns]
    return widths, b"".join(planes(c, w) for c, w in zip(columns, widths, strict=True))


def pack(
    cube: SeverityCube,
    sources: Sources | None = None,
    with_startup: bool = False,
    store: str = "",
    opened: Opened | None = None,
    subdomains: Given | None = None,
) -> Container:
    """Pack the focus of a cube, or the whole run.

    `store` is the path of the store of the trace, empty if unknown; `opened` is the initial selection of a report
    opened from a timeline; `subdomains` are as for `SeverityCube.by_subdomain`.
    """
    found = diagnosis_of(cube, with_startup)
    # the viewer adds up all values, so only additive properties are packed
    cube = cube if with_startup else cube.focused()
    metrics = metrics_of(cube)
    cube = cube.additive()
    blocks: list[bytes] = []
    by_period: list[bytes] = []
    stored: list[dict[str, Any]] = []
    for name in cube.properties.id:
        about, of_cells, of_periods = _packed_property(cube, name)
        stored.append(about)
        blocks += of_cells
        by_period += of_periods
    for metric in metrics:
        stored.append(metric.stored(is_divided=cube.periods is not None))
        blocks += [b"", b""]
        by_period += [b""] * (cube.periods is not None)
    axis = cube.properties.with_rows([metric.row for metric in metrics])
    start = start_of(cube, axis, found)
    leading = found.findings[0] if found and found.findings else None
    header = _header(cube, axis, stored) | {
        "start": start,
        "start_call": leading.call_path if leading and cube.properties.number[leading.property] == start else -1,
        "overview": overview(cube, found) if found else None,
        "store": printable(store),
    }
    if subdomains is not None:
        header["subdomains"] = _places(cube.with_subdomains(subdomains).system)
    if opened is not None:
        header["opened"] = opened.to_dict(cube.properties)
    if cube.periods is not None:
        header["periods"] = _axis(cube, cube.periods)
        header["profile"] = time_profile(cube)
        header["similar"] = similar_phases(cube)
    blocks += by_period
    if sources is not None:
        _add_sources(header, blocks, sources)
    packed = deflate(json.dumps(header, separators=(",", ":"), allow_nan=False).encode())
    return Container(packed, blocks, start, len(stored))


def _packed_property(cube: SeverityCube, name: str) -> tuple[dict[str, Any], list[bytes], list[bytes]]:
    """Pack the cells of a property: the description for the header, the blocks of sums by call path and of cells, and
    the block of cells by period if the cube is divided."""
    cells = cube.cells[name]
    call_path, location, value = cells.call_path.astype(np.int64), cells.location.astype(np.int64), cells.value
    divided = None if cube.periods is None else cube.period_cells[name]
    values = [value] if divided is None else [value, divided.value]
    if any(v.dtype.kind == "f" or widened(v).dtype == object for v in values):
        # floating point, or sums would exceed the 64-bit integers that the page computes with
        values = [v.astype(np.float64, copy=False) for v in values]
    value = values[0]
    kind = "f" if value.dtype.kind == "f" else "i"
    first = np.flatnonzero(np.diff(call_path, prepend=-1))
    sums = np.add.reduceat(value, first) if first.size else value[:0]
    step = np.diff(location, prepend=0)
    step[first] = location[first]
    count = np.diff(first, append=call_path.size)
    sum_widths, sum_block = _columns(np.diff(call_path[first], prepend=0), count, sums)
    cell_widths, cell_block = _columns(step, value)
    large = kind == "i" and any(float(np.abs(v.astype(np.float64)).sum()) >= EXACT for v in values)
    about: dict[str, Any] = {
        "kind": "large" if large else "small" if kind == "i" else "float",
        "scale": cube.resolution if cube.properties.unit_of(name) == "sec" else 1,
        # as text: JSON has neither 64-bit integers nor NaN
        "total": str(value.sum()).replace("inf", "Infinity"),
        "whole": whole if np.isfinite(whole := cube.whole(name)) else 0.0,
        "rows": int(first.size),
        "cells": int(call_path.size),
        "widths": [sum_widths, cell_widths],
    }
    by_period = []
    if divided is not None:
        about["periods"], block = _periods(divided, values[1])
        by_period = [block]
    return about, [deflate(sum_block), deflate(cell_block)] if first.size else [b"", b""], by_period


def _add_sources(header: dict[str, Any], blocks: list[bytes], sources: Sources) -> None:
    """Add source lines as the last block; add its number, the files and the note to the header."""
    regions = header["regions"]
    header["sources"] = {
        "block": len(blocks),
        "files": list(sources.files),
        "end_line": [sources.end_line.get(key, 0) for key in zip(regions["file"], regions["line"], strict=True)],
    }
    if sources.note:
        header["notes"][sources.note] = len(sources.missing)
    blocks.append(deflate(json.dumps({"files": sources.files}, separators=(",", ":")).encode()))


def _periods(cells: PeriodCells, value: NDArray[Any]) -> tuple[dict[str, Any], bytes]:
    """Return the header's entry for the cells of a property by period, and their block."""
    if not len(cells):
        return {"runs": 0, "cells": 0, "widths": []}, b""
    call_path, location, period = (c.astype(np.int64) for c in (cells.call_path, cells.location, cells.period))
    first = np.flatnonzero((np.diff(call_path, prepend=-1) != 0) | (np.diff(location, prepend=-1) != 0))
    step = np.diff(period, prepend=OUTSIDE)
    step[first] = period[first] - OUTSIDE
    count = np.diff(first, append=period.size)
    widths, block = _columns(np.diff(call_path[first], prepend=0), location[first], count, step, value)
    return {"runs": int(first.size), "cells": int(period.size), "widths": widths}, deflate(block)


def _axis(cube: SeverityCube, axis: PeriodAxis) -> dict[str, Any]:
    """Return the phases or bins; times are ticks since the first event, which is `offset` ticks after the start of the
    recording."""
    trace = cube.facts.get("trace") or {}
    first = int(trace.get("first_time") or 0)
    return {
        "offset": first - int(trace.get("origin", first)),
        "kind": axis.kind,
        "words": axis.words,
        "resolution": cube.resolution,
        "begin": (axis.begin_time - first).tolist(),
        "end": (axis.end_time - first).tolist(),
        "n_locations": axis.n_locations.tolist(),
    }


def start_of(cube: SeverityCube, shown: PropertyAxis, found: Diagnosis | None = None) -> int:
    """Return the number, among the properties shown, of the one selected initially: the one that was asked for, else
    the costliest finding.

    Without either, return the property of the first tree with the largest value of its own, not counting its children;
    -1 if there is none.
    """
    axis = cube.properties
    asked = [name for name in asked_for(cube.facts) if name in shown.number]
    if asked:
        return shown.number[asked[0]]
    if found is not None and found.findings:
        return axis.number[found.findings[0].property]
    first = [i for i, name in enumerate(axis.id) if axis.root_of(name) == axis.roots[0]]
    own = {i: cube.total(axis.id[i]) - sum(map(cube.total, axis.children[axis.id[i]])) for i in first}
    if cube.is_difference:
        return max(own, key=lambda i: abs(own[i]), default=-1)
    return max(own, key=own.__getitem__, default=-1)


def _shown(texts: Iterable[Any]) -> list[Any]:
    """Return texts as the report shows them (`printable`); numbers stay."""
    return [printable(t) if isinstance(t, str) else t for t in texts]


def _places(s: SystemAxis) -> dict[str, Any]:
    """Return the system tree as the viewer reads it."""
    return {"kind": s.kind, "name": _shown(s.name), "parent": list(s.parent), "location": list(s.location)}


def _drawings(cube: SeverityCube) -> dict[str, dict[str, str]]:
    """Return the small drawings of the wait states of a cube, under its conventions, with their captions."""
    known = shown_under(cube.facts.get("conventions", ""))
    return {
        name: {"caption": known[name].caption, "svg": draw(known[name].make(), name, known[name].caption)}
        for name in cube.properties.id
        if name in known
    }


def _header(cube: SeverityCube, p: PropertyAxis, stored: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the header of a cube that is not divided; `p` are its properties, and those computed from them."""
    c, s = cube.call_paths, cube.system
    seen: dict[tuple[Any, ...], int] = {}
    identity = zip(c.name, c.file, c.line.tolist(), c.paradigm, c.role, strict=True)
    region = [seen.setdefault(key, len(seen)) for key in identity]
    sites: dict[str, int] = {"": 0}
    call_site = [sites.setdefault(site, len(sites)) for site in c.call_site]
    trace = cube.facts.get("trace") or {}
    topologies = topologies_of(cube)
    return {
        "version": CONTAINER_VERSION,
        "writer": f"tracecols {__version__}",
        "summary": printable(cube.summary()),
        "difference": cube.is_difference,
        "name": printable(name_of(cube)),
        "source": (trace.get("source") or {}).get("path", ""),
        "n_events": trace.get("n_events", 0),
        "notes": {
            singular(what) if n == 1 else what: int(n)
            for what, n in worth_telling(cube.facts.get("counts") or {}).items()
        },
        "properties": {
            "id": p.id,
            "parent": [p.number.get(name, -1) for name in p.parent],
            "title": _shown(p.title),
            "unit": _shown(p.unit),
            "summary": _shown(p.summary),
            "advice": _shown(p.advice),
            "confidence": p.confidence,
            "overlaps": p.overlaps,
            "stored": stored,
        },
        "drawings": _drawings(cube),
        "regions": {
            column: _shown([key[i] for key in seen])
            for i, column in enumerate(("name", "file", "line", "paradigm", "role"))
        },
        "call_paths": {
            "parent": c.parent.tolist(),
            "region": region,
            "call_site": call_site,
            "call_sites": _shown(sites),
        },
        "system": _places(s),
        "locations": {
            "rank": s.rank.tolist(),
            "thread": s.thread.tolist(),
            "name": _shown(s.location_name),
            "type": list(s.location_type),
        },
        "topologies": topologies,
        "topology": default_topology(topologies),
    }
