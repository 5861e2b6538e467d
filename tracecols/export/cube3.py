"""Severity cubes as .cube, the XML format of CUBE 3 (EXPERT, Scalasca 1)."""

from __future__ import annotations

from pathlib import Path

from tracecols.export.cube_xml import CUBE3, NO_EXTREME, rows_of, values_of, write_trees
from tracecols.severity.cube import SeverityCube


def write_cube3(cube: SeverityCube, path: Path) -> None:
    """Write a cube as CUBE 3 XML, row by row.

    Properties that are computed from others are left out: CUBE 3 has no formulas. Numbers are written with enough
    digits to restore the same float64. CUBE 3 cannot represent paradigms and roles of regions.
    """
    cube = cube.without_computed()
    with path.open("w", encoding="utf-8", newline="\n") as out:
        write_trees(cube, out.write, CUBE3)
        out.write("<severity>\n")
        for number, name in enumerate(cube.properties.id):
            call_paths, start = rows_of(cube, name)
            if not call_paths.size:
                continue
            nothing = NO_EXTREME.get(cube.properties.reduction(name))
            zeros = ["0" if nothing is None else repr(nothing)] * cube.system.n_locations
            location, texts = cube.cells[name].location.tolist(), [repr(v) for v in values_of(cube, name).tolist()]
            out.write(f'<matrix metricId="{number}">\n')
            for i, call_path in enumerate(call_paths.tolist()):
                row = zeros.copy()
                for cell in range(start[i], start[i + 1]):
                    row[location[cell]] = texts[cell]
                out.write(f'<row cnodeId="{call_path}">\n' + "\n".join(row) + "\n</row>\n")
            out.write("</matrix>\n")
        out.write("</severity>\n</cube>\n")
