"""The trees of a cube as XML, as Cube 4 (anchor.xml of a .cubex) and CUBE 3 (.cube) have them.

Both formats keep values inclusive along the metric tree: the exclusive value of a metric is its value minus those of
its children (CubeLib, `Cube::get_sev_adv` with `CUBE_CALCULATE_EXCLUSIVE`). Along the call tree, `type` says in Cube 4
which values are kept; CUBE 3 always keeps exclusive values (CubeLib, `Metric::writeXML_data`). So both formats hold
the cells of a severity cube unchanged.

The order of elements is that of the reference writer (CubeW, `cubew_cube.c`), which the grammar of its readers expects.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from xml.sax.saxutils import escape as escape_text

import numpy as np
from numpy.typing import NDArray

from tracecols.severity.cube import SeverityCube
from tracecols.severity.formulas import parse
from tracecols.version import __version__

FACTS = "tracecols facts"
"""Attribute, in files written by tracecols, that holds a cube's facts as JSON; their clock resolution converts seconds
back to ticks."""

ADVICE = "\n\nWhat to do: "
"""Separates summary and advice in the description of a metric."""

INCLUSIVE = "inclusive"
"""Key in the facts of a CUBE 3 file: properties that are inclusive along the call tree, which the format cannot
express."""

EXTREMES = {"min": "MINDOUBLE", "max": "MAXDOUBLE"}
NO_EXTREME = {"min": sys.float_info.max, "max": -sys.float_info.max}
"""Data types of extremes, and the value written if there is none, which is neutral in the aggregation."""

LOCATION_TYPES = {"cpu_thread": "thread", "gpu": "accelerator stream", "metric": "metric"}
"""Types of locations: Cube 4's name by that in the tables (`enums.LOCATION_TYPES`)."""

_FORBIDDEN = {c: "\N{REPLACEMENT CHARACTER}" for c in range(32) if c not in (9, 10, 13)} | {
    0xFFFE: "\N{REPLACEMENT CHARACTER}",
    0xFFFF: "\N{REPLACEMENT CHARACTER}",
}

Write = Callable[[str], Any]


def escaped(text: str) -> str:
    """Return text for an element or an attribute; characters that XML forbids become U+FFFD."""
    clean = text.encode("utf-8", "replace").decode("utf-8").translate(_FORBIDDEN)
    return escape_text(clean, {'"': "&quot;", "\r": "&#13;"})


def attribute(key: str, value: str) -> str:
    """Return a key and its value; line breaks and tabs survive in a value only as references."""
    text = escaped(value).replace("\n", "&#10;").replace("\t", "&#9;")
    return f'<attr key="{escaped(key)}" value="{text}"/>\n'


@dataclass(frozen=True)
class Format:
    """Differences between the two formats."""

    version: str
    """Version in the root element."""
    integer: str
    signed: str
    real: str
    """`integer`, `signed` and `real`: names of data types: counts, counts that may be negative, floating point."""

    @property
    def is_cube4(self) -> bool:
        """Whether it is Cube 4."""
        return self.version.startswith("4")


CUBE4 = Format("4.4", "UINT64", "INT64", "DOUBLE")
CUBE3 = Format("3.0", "INTEGER", "INTEGER", "FLOAT")


def values_of(cube: SeverityCube, name: str) -> NDArray[Any]:
    """Return the values of a property's cells as written to a file; (n,) float64 seconds, else int64 or float64."""
    values, scale = cube.cells[name].value, cube.scale(name)
    is_time = cube.properties.unit_of(name) == "sec"
    result: NDArray[Any] = values * scale if is_time else values
    return result


def data_type(cube: SeverityCube, name: str, form: Format) -> str:
    """Return the name of the data type of a property."""
    if cube.properties.is_computed(name):
        return form.real
    if not cube.properties.adds_up(name):
        return EXTREMES[cube.properties.reduction(name)]
    values = values_of(cube, name)
    if values.dtype.kind == "f" or cube.properties.unit_of(name) == "sec":
        return form.real
    return form.signed if values.size and int(values.min()) < 0 else form.integer


def write_trees(cube: SeverityCube, write: Write, form: Format) -> None:
    """Write everything that precedes the values: the root element, attributes, metrics, program and system.

    The root element is left open.
    """
    # accelerator streams came with version 4.7 of the anchor (CubeW, CUBE_ANCHOR_GPU_VERSION)
    version = "4.7" if form.is_cube4 and "gpu" in cube.system.location_type else form.version
    write(f'<?xml version="1.0" encoding="UTF-8"?>\n<cube version="{version}">\n')
    write(attribute("Creator", f"tracecols {__version__}"))
    if form is CUBE3:
        write(attribute("CUBE_CT_AGGR", "SUM"))
    inclusive = [name for name in cube.properties.id if cube.properties.includes_calls(name)]
    more = {INCLUSIVE: inclusive} if inclusive and form is CUBE3 else {}
    write(attribute(FACTS, json.dumps(cube.facts | more)))
    write("<doc>\n<mirrors>\n</mirrors>\n</doc>\n")
    _write_metrics(cube, write, form)
    _write_program(cube, write, form)
    if form.is_cube4:
        _write_system(cube, write)
    else:
        _write_machines(cube, write)


def _write_metrics(cube: SeverityCube, write: Write, form: Format) -> None:
    p = cube.properties
    # the values that a reader derives if attributes are missing
    unstated = replace(p, is_wait=[], is_heading=[])
    write("<metrics>\n")
    open_ids: list[str] = []
    for number, name in enumerate(p.id):
        while open_ids and open_ids[-1] != p.parent[number]:
            open_ids.pop()
            write("</metric>\n")
        open_ids.append(name)
        along = "INCLUSIVE" if p.includes_calls(name) else "POSTDERIVED" if p.formula[number] else "EXCLUSIVE"
        kind = f' type="{along}"' if form.is_cube4 else ""
        about = p.summary[number] + (ADVICE + p.advice[number] if p.advice[number] else "")
        write(
            f'<metric id="{number}"{kind}>\n<disp_name>{escaped(p.title[number])}</disp_name>\n'
            f"<uniq_name>{escaped(name)}</uniq_name>\n<dtype>{data_type(cube, name, form)}</dtype>\n"
            f"<uom>{escaped(p.unit[number])}</uom>\n<url></url>\n<descr>{escaped(about)}</descr>\n"
        )
        if p.formula[number]:
            expression = parse(p.formula[number]).text(lambda operand: f"metric::{operand}()")
            write(f"<cubepl>{escaped(expression)}</cubepl>\n")
        if form.is_cube4 and p.confidence[number] != 1:
            write(attribute("confidence", repr(float(p.confidence[number]))))
        if form.is_cube4 and p.overlaps[number]:
            write(attribute("overlaps", "true"))
        if form.is_cube4 and p.is_wait[number] != unstated.is_wait[number]:
            write(attribute("is_wait", _truth(p.is_wait[number])))
        columns = ("delay", "part", "is_heading", "is_estimate")
        if form.is_cube4 and any(getattr(p, c)[number] != getattr(unstated, c)[number] for c in columns):
            for column, value in ((c, getattr(p, c)[number]) for c in columns):
                write(attribute(column, value if isinstance(value, str) else _truth(value)))
    write("</metric>\n" * len(open_ids) + "</metrics>\n")


def _truth(value: int) -> str:
    return "true" if value else "false"


def _write_program(cube: SeverityCube, write: Write, form: Format) -> None:
    c = cube.call_paths
    regions: dict[tuple[str, str, str, str, int, int], int] = {}
    of = [
        regions.setdefault(region, len(regions))
        for region in zip(c.name, c.role, c.paradigm, c.file, c.line.tolist(), c.end_line.tolist(), strict=True)
    ]
    write("<program>\n")
    for (name, role, paradigm, file, *lines), number in regions.items():
        begin, end = (line if line > 0 else -1 for line in lines)
        write(f'<region id="{number}" mod="{escaped(file)}" begin="{begin}" end="{end}">\n')
        write(f"<name>{escaped(name)}</name>\n")
        if form.is_cube4:
            write(f"<mangled_name>{escaped(name)}</mangled_name>\n")
            write(f"<paradigm>{escaped(paradigm)}</paradigm>\n<role>{escaped(role)}</role>\n")
        write("<url></url>\n<descr></descr>\n</region>\n")
    depth = 0
    for number, (level, site) in enumerate(zip(c.depth.tolist(), c.call_site, strict=True)):
        write("</cnode>\n" * (depth - level))
        file, colon, line = site.rpartition(":")
        if not (colon and line.isascii() and line.isdigit()):
            file, line = site, ""
        where = (f'line="{line}" ' if line else "") + (f'mod="{escaped(file)}" ' if file else "")
        write(f'<cnode id="{number}" {where}calleeId="{of[number]}">\n')
        depth = level + 1
    write("</cnode>\n" * depth + "</program>\n")


@dataclass
class _SystemTree:
    """Rows of a system axis, classified as Cube does."""

    children: list[list[int]]
    """Child rows of each row; the last entry, -1, holds the rows without parent."""
    groups: dict[int, int]
    """Number by row of the rows that own locations. Processes without locations are left out: Cube forbids them."""
    nodes: dict[int, int]
    """Number by row of the rows above groups."""

    @classmethod
    def of(cls, cube: SeverityCube) -> _SystemTree:
        s = cube.system
        above = _parents_in_cube(cube)
        children: list[list[int]] = [[] for _ in range(len(s.kind) + 1)]
        for row, parent in enumerate(above):
            children[parent].append(row)
        leaves = {row for row, location in enumerate(s.location) if location >= 0}
        owners = {above[row] for row in leaves}
        groups = sorted(owners)
        nodes = [
            r
            for r, kind in enumerate(s.kind)
            if r not in owners and r not in leaves and kind not in ("process", "accelerator")
        ]
        return cls(children, {r: i for i, r in enumerate(groups)}, {r: i for i, r in enumerate(nodes)})


def _parents_in_cube(cube: SeverityCube) -> list[int]:
    """Return the parents of rows in Cube, where processes contain only locations.

    Streams that a process owns become siblings of its threads; an accelerator that a process created becomes a sibling
    of the process.
    """
    s = cube.system
    result = list(s.parent)
    is_below = [p >= 0 and s.kind[p] == "process" for p in s.parent]
    owned = set()
    for row, location in enumerate(s.location):
        device = s.parent[row]
        is_in_device = location >= 0 and device >= 0 and s.kind[device] == "accelerator" and is_below[device]
        if is_in_device and s.rank[location] >= 0:
            result[row] = s.parent[device]
            owned.add(device)
    for row, kind in enumerate(s.kind):
        if kind == "accelerator" and is_below[row] and row not in owned:
            result[row] = s.parent[s.parent[row]]
    return result


def _write_group(cube: SeverityCube, write: Write, tree: _SystemTree, row: int, rank: int) -> None:
    s = cube.system
    kind = s.kind[row] if s.kind[row] in ("metrics", "accelerator") else "process"
    write(f'<locationgroup Id="{tree.groups[row]}">\n<name>{escaped(s.name[row])}</name>\n')
    write(f"<rank>{rank}</rank>\n<type>{kind}</type>\n")
    for child in tree.children[row]:
        at = s.location[child]
        if at >= 0:
            kind = LOCATION_TYPES.get(s.location_type[at], "thread")
            write(f'<location Id="{at}">\n<name>{escaped(s.name[child])}</name>\n')
            write(f"<rank>{s.thread[at]}</rank>\n<type>{kind}</type>\n</location>\n")
    write("</locationgroup>\n")


def _rank_of(cube: SeverityCube, tree: _SystemTree, row: int) -> int:
    """Return the rank of a process, at least 0: Cube has no negative ranks."""
    location = next(cube.system.location[c] for c in tree.children[row] if cube.system.location[c] >= 0)
    return max(int(cube.system.rank[location]), 0)


def _write_system(cube: SeverityCube, write: Write) -> None:
    s, tree = cube.system, _SystemTree.of(cube)
    write("<system>\n")

    def visit(row: int) -> None:
        # as Score-P and Scalasca name nodes; CubeLib merges nodes of the same name
        write(f'<systemtreenode Id="{tree.nodes[row]}">\n<name>{escaped(f"{s.kind[row]} {s.name[row]}")}</name>\n')
        write(f"<class>{escaped(s.kind[row])}</class>\n")
        inside(row)
        write("</systemtreenode>\n")

    def inside(row: int) -> None:
        for child in tree.children[row]:
            if child in tree.groups:
                _write_group(cube, write, tree, child, _rank_of(cube, tree, child))
        for child in tree.children[row]:
            if child in tree.nodes:
                visit(child)

    if any(row in tree.groups for row in tree.children[-1]):
        # groups need a node above, which the trace does not have
        write(f'<systemtreenode Id="{len(tree.nodes)}">\n<name>machine</name>\n<class>machine</class>\n')
        inside(-1)
        write("</systemtreenode>\n")
    else:
        inside(-1)
    _write_topologies(cube, write, "locId")
    write("</system>\n")


def _write_machines(cube: SeverityCube, write: Write) -> None:
    """Write the four levels of CUBE 3: machine, node, process, thread; levels between are joined in the node's name."""
    s, tree = cube.system, _SystemTree.of(cube)
    machines: dict[int, dict[int, list[int]]] = {}
    parent = _parents_in_cube(cube)
    for row in tree.groups:
        above = [parent[row]]
        while above[-1] >= 0:
            above.append(parent[above[-1]])
        machines.setdefault(above[-2] if len(above) > 1 else -1, {}).setdefault(parent[row], []).append(row)
    number = {"node": 0, "process": 0}
    write("<system>\n")
    for i, (machine, nodes) in enumerate(machines.items()):
        write(f'<machine Id="{i}">\n<name>{escaped(s.name[machine]) if machine >= 0 else "machine"}</name>\n')
        for node, groups in nodes.items():
            between: list[str] = []
            while node >= 0 and (node != machine or not between):
                between.append(s.name[node])
                node = s.parent[node]
            name = " ".join(reversed(between)) or "node"
            write(f'<node Id="{number["node"]}">\n<name>{escaped(name)}</name>\n')
            number["node"] += 1
            for row in groups:
                write(f'<process Id="{number["process"]}">\n<name>{escaped(s.name[row])}</name>\n')
                write(f"<rank>{_rank_of(cube, tree, row)}</rank>\n")
                number["process"] += 1
                for child in tree.children[row]:
                    at = s.location[child]
                    if at >= 0:
                        write(f'<thread Id="{at}">\n<name>{escaped(s.name[child])}</name>\n')
                        write(f"<rank>{s.thread[at]}</rank>\n</thread>\n")
                write("</process>\n")
            write("</node>\n")
        write("</machine>\n")
    _write_topologies(cube, write, "thrdId")
    write("</system>\n")


def _write_topologies(cube: SeverityCube, write: Write, key: str) -> None:
    write("<topologies>\n")
    for topology in cube.topologies:
        if not topology.location.size:
            continue  # the grammar of CUBE 3 wants at least one
        named = f'name="{escaped(topology.name)}" ' if topology.name else ""
        write(f'<cart {named}ndims="{len(topology.dimensions)}">\n')
        for name, size, is_periodic in zip(topology.dimensions, topology.shape, topology.periodic, strict=True):
            named = f'name="{escaped(name)}" ' if name else ""
            write(f'<dim {named}size="{size}" periodic="{"true" if is_periodic else "false"}"/>\n')
        for location, coordinates in zip(topology.location.tolist(), topology.coordinates.tolist(), strict=True):
            write(f'<coord {key}="{location}">{" ".join(map(str, coordinates))}</coord>\n')
        write("</cart>\n")
    write("</topologies>\n")


def inclusive_order(parent: list[int]) -> NDArray[np.int64]:
    """Return call paths in the order in which a metric of type INCLUSIVE numbers them: all children of a node before
    their own children.

    CubeW, `cube_metric_create_enumeration`.
    """
    children: list[list[int]] = [[] for _ in range(len(parent) + 1)]
    for i, above in enumerate(parent):
        children[above].append(i)
    order: list[int] = []
    for root in children[-1]:
        order.append(root)
        stack = [root]
        while stack:
            below = children[stack.pop()]
            order += below
            stack += reversed(below)
    return np.array(order, np.int64)


def rows_of(cube: SeverityCube, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the call paths of a property that have values, ascending, and the first cell of each, with the end."""
    call_paths = cube.cells[name].call_path
    found, start = np.unique(call_paths, return_index=True)
    return found.astype(np.int64), np.append(start, call_paths.size).astype(np.int64)
