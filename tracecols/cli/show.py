"""tracecols show"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("severity", type=click.Path(path_type=Path))
@click.option("-p", "--property", "name", metavar="P", help="A property, by id or title: print its call tree.")
@click.option(
    "-c",
    "--call-path",
    "call_path",
    metavar="C",
    help="A call path, or a pattern such as '*/MPI_Recv': print its locations.",
)
@click.option(
    "--relative", is_flag=True, help="Percentages of the selected property or call path instead of the whole."
)
@click.option("--seconds", is_flag=True, help="Seconds, occurrences or bytes instead of percentages.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 100),
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
def show(
    severity: Path, name: str | None, call_path: str | None, relative: bool, seconds: bool, threshold: float, depth: int
) -> None:
    """Print a SEVERITY cube: the property tree; with -p the call tree of a property; with -c the locations of a call path.

    A cube of another tool (.cubex, .cube) works, too.
    """
    from rich.console import Console

    from tracecols.export.cube_read import read_cube
    from tracecols.report.terminal import Display

    if call_path is not None and name is None:
        name = "time"
    cube = read_cube(severity)
    display = Display(cube, relative=relative, plain=seconds, threshold=threshold / 100, depth=depth)
    # what lies to the right of the width is left out without a word: lines are as long as they are
    console = Console(highlight=False, soft_wrap=True, width=1_000 + 4 * depth)
    for part in display.render(name, call_path):
        console.print(part)
