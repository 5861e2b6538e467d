"""tracecols show"""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from tracecols.cli.options import finite
from tracecols.cli.output import echo

if TYPE_CHECKING:
    from tracecols.severity.cube import SeverityCube


@click.command()
@click.argument("severity", type=click.Path(path_type=Path))
@click.option("-p", "--property", "name", metavar="P", help="A property, by id or title: print its call tree.")
@click.option(
    "-c",
    "--call-path",
    "call_path",
    metavar="C",
    help="A call path, a region, or a pattern such as '*/MPI_Recv': print its locations.",
)
@click.option(
    "--topology",
    metavar="T",
    help="Lay it on a grid instead: a topology of the cube, by name or number (0 is the first).",
)
@click.option(
    "--over-time",
    is_flag=True,
    help="Draw the values of each row by phase or bin of time, of a cube made with --phases or --bins.",
)
@click.option(
    "--relative", is_flag=True, help="Percentages of the selected property or call path instead of the whole."
)
@click.option("--seconds", is_flag=True, help="Seconds, occurrences or bytes instead of percentages.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 100),
    callback=finite,
    default=0.5,
    show_default=True,
    metavar="PERCENT",
    help="Leave out what is smaller.",
)
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    metavar="N",
    help="Levels of the call tree to print.",
)
@click.option("--with-startup", is_flag=True, help="Count start-up and shutdown, too; they are set apart by default.")
def show(
    severity: Path,
    name: str | None,
    call_path: str | None,
    topology: str | None,
    over_time: bool,
    relative: bool,
    seconds: bool,
    threshold: float,
    depth: int,
    with_startup: bool,
) -> None:
    """Print a SEVERITY cube: the property tree; with -p the call tree of a property; with -c the locations of a call
    path; with --topology a property on a grid.

    What lies outside MPI_Init and MPI_Finalize is set apart, as the first line says, unless the cube was narrowed or
    made of several. A cube of another tool (.cubex, .cube) works, too.
    """
    from tracecols.export.cube_read import read_cube
    from tracecols.report.screen import Screen
    from tracecols.report.terminal import Display

    if (call_path is not None or topology is not None) and name is None:
        name = "time"
    cube = read_cube(severity)
    if not with_startup:
        cube = focus_on(cube, name, call_path)
    display = Display(
        cube, relative=relative, plain=seconds, threshold=threshold / 100, depth=depth, over_time=over_time
    )
    # what lies to the right of the width is left out without a word: lines are as long as they are
    console = Screen(soft_wrap=True, width=1_000 + 4 * depth)
    if topology is not None:
        assert name is not None
        parts = display.grid(name, call_path, topology, get_terminal_size().columns)
    else:
        parts = display.render(name, call_path)
    for part in parts:
        console.print(part)


def focus_on(cube: SeverityCube, name: str | None, call_path: str | None) -> SeverityCube:
    """Return the cube without start-up and shutdown; the whole, if what is asked for lies in them only."""
    focused = cube.focused()
    if name is None or focused is cube:
        return focused
    name = cube.find_property(name)
    mask = None if call_path is None else cube.find_call_paths(call_path)

    def has_any(of: SeverityCube) -> bool:
        return len(of.cells[name] if mask is None else of.cells[name].on(mask)) > 0

    if has_any(focused) or not has_any(cube):
        return focused
    echo("note: all of it lies in start-up and shutdown, which are set apart by default", err=True)
    return cube
