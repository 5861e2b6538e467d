"""Severity cubes as .cubex, the format of Cube 4 (Score-P, Scalasca 2, Extra-P).

A .cubex is a plain tar archive: `anchor.xml` with the trees, and per metric `N.index` with the call paths that have
values, and `N.data` with one row of values over all locations for each of these call paths, here deflated row by row
(CubeW, `cubew_metric.c`).
"""

from __future__ import annotations

import io
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np

from tracecols.enhance.dataflow.grouping import positions
from tracecols.export.cube_xml import (
    CUBE4,
    EXTREMES,
    NO_EXTREME,
    data_type,
    inclusive_order,
    rows_of,
    values_of,
    write_trees,
)
from tracecols.severity.cube import SeverityCube

INDEX_MAGIC, DATA_MAGIC, DEFLATED_MAGIC = b"CUBEX.INDEX", b"CUBEX.DATA", b"ZCUBEX.DATA"
DENSE, SPARSE = 0, 1

NUMPY_TYPES = {"UINT64": "<u8", "INT64": "<i8", "DOUBLE": "<f8"} | dict.fromkeys(EXTREMES.values(), "<f8")


def metric_members(cube: SeverityCube, name: str) -> tuple[bytes, bytes]:
    """Return the index and the data of a property.

    The index holds the numbers of call paths in depth-first order, which is the enumeration of an exclusive metric
    (CubeW, `cube_metric_traverse_cnodes_deep_search__`); for an inclusive one, in `inclusive_order`. A property without
    values has one empty row, if there is a call path: readers divide by the number of rows.
    """
    dtype = NUMPY_TYPES[data_type(cube, name, CUBE4)]
    call_paths, start = rows_of(cube, name)
    location, values = cube.cells[name].location, values_of(cube, name)
    empty = np.full(cube.system.n_locations, NO_EXTREME.get(cube.properties.reduction(name), 0), dtype)
    blocks = []
    for i in range(call_paths.size):
        row = empty.copy()
        mine = slice(start[i], start[i + 1])
        row[location[mine]] = values[mine]
        blocks.append(zlib.compress(row.tobytes()))
    if not blocks and len(cube.call_paths):
        call_paths = np.zeros(1, np.int64)
        blocks.append(zlib.compress(empty.tobytes()))
    if cube.properties.includes_calls(name):
        call_paths = positions(inclusive_order(cube.call_paths.parent.tolist()))[call_paths]
        order = np.argsort(call_paths)
        call_paths, blocks = call_paths[order], [blocks[i] for i in order]
    sizes = np.array([len(b) for b in blocks], np.int64)
    offsets = np.stack(
        [np.arange(sizes.size) * 8 * cube.system.n_locations, np.cumsum(sizes) - sizes, sizes], axis=1
    ).astype("<u8")
    index = INDEX_MAGIC + struct.pack("<IHBI", 1, 0, SPARSE, sizes.size) + call_paths.astype("<u4").tobytes()
    return index, DEFLATED_MAGIC + struct.pack("<Q", sizes.size) + offsets.tobytes() + b"".join(blocks)


def write_cubex(cube: SeverityCube, path: Path) -> None:
    """Write a cube as .cubex; properties that are computed from others become metrics of type POSTDERIVED.

    Times are seconds in DOUBLE, counts and volumes UINT64 (INT64 where some are negative), floating point counters
    DOUBLE. Metrics are of type EXCLUSIVE (along the call tree) and hold inclusive values along the metric tree (see
    `cube_xml`).
    """
    anchor = io.StringIO()
    write_trees(cube, anchor.write, CUBE4)
    anchor.write("</cube>\n")
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:

        def add(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

        add("anchor.xml", anchor.getvalue().encode("utf-8"))
        for number, name in enumerate(cube.properties.id):
            if cube.properties.is_computed(name):
                continue
            index, data = metric_members(cube, name)
            add(f"{number}.index", index)
            add(f"{number}.data", data)
