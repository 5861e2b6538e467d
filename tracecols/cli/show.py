"""tracecols show"""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, NamedTuple

import click

from tracecols.cli.output import echo, echo_json, echo_parts
from tracecols.cli.vocabulary import PATH, grouped, option

if TYPE_CHECKING:
    from tracecols.severity.cube import SeverityCube


class Selected(NamedTuple):
    """The part of a cube that is shown, and its layout."""

    name: str | None
    call_path: str | None
    topology: str | None
    subdomains: Path | None
    over_time: bool


class Numbers(NamedTuple):
    """Options for the form and number of values."""

    relative: bool
    seconds: bool
    min_share: float
    rows: int
    depth: int


@click.command()
@click.argument("severity", metavar="CUBE|STORE|ARCHIVE", type=PATH)
@option("properties", "A property, by id or title: print its call tree.", called="name", multiple=False)
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
    help="Print the values on a grid instead: a topology of the cube, by name or number (0 is the first).",
)
@option(
    "subdomains",
    "Print the values per subdomain of the application: a file with the columns rank, thread (optional) and subdomain.",
)
@click.option(
    "--over-time",
    is_flag=True,
    help="Draw the values of each row by phase or time bin, for a cube made with --phases or --bins.",
)
@click.option(
    "--relative", is_flag=True, help="Percentages of the selected property or call path instead of the whole."
)
@click.option("--seconds", is_flag=True, help="Seconds, occurrences or bytes instead of percentages.")
@option(
    "min_share",
    "Leave out values below this share, such as 0.5% or 0.005.",
    default="0.5%",
    show_default=True,
    old=("--threshold",),
)
@option("rows", "Maximum number of tree rows to print: the largest.", default=5_000)
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    metavar="N",
    help="Levels of the call tree to print.",
)
@option("metrics")
@option("with_startup", "Include start-up and shutdown, which are excluded by default.")
@option("as_json", "Print the values of the selection as JSON.")
@option("jobs", "Threads to analyse a trace.  [default: one per core]")
@grouped(selected=Selected, numbers=Numbers)
def show(
    severity: Path,
    selected: Selected,
    numbers: Numbers,
    metrics: tuple[str, ...],
    with_startup: bool,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Print a severity CUBE: the property tree; with -p, the call tree of a property; with -c, the locations of a call
    path; with --topology, a property on a grid. A trace (STORE, ARCHIVE) is analysed first, and the cube is not kept.

    Only the time between MPI_Init and MPI_Finalize counts, unless the cube was narrowed or made from several. A cube of
    another tool (.cubex, .cube) works, too.
    """
    from tracecols.cli.metrics import is_definition, with_specifications
    from tracecols.cli.sources import cube_of
    from tracecols.report.terminal import Display
    from tracecols.report.values import in_focus, plain

    name, call_path, topology = selected.name, selected.call_path, selected.topology
    if (call_path is not None or topology is not None) and name is None:
        name = "time"
    if as_json and (topology is not None or selected.over_time):
        raise click.UsageError("--json is for the trees: leave out --topology and --over-time")
    if selected.subdomains is not None and (topology is not None or selected.over_time):
        raise click.UsageError("--subdomains is a table: leave out --topology and --over-time")
    cube = with_specifications(cube_of(severity, jobs).with_metrics(*filter(is_definition, metrics)), metrics)
    if not with_startup:
        cube, note = in_focus(cube, name, call_path)
        if note:
            echo(f"note: {note}", err=True)
    if selected.subdomains is not None:
        print_subdomains(cube, name or "time", call_path, selected.subdomains, as_json=as_json)
        return
    if as_json:
        echo_json(plain(cube, name, call_path, numbers.min_share))
        return
    display = Display(
        cube,
        relative=numbers.relative,
        plain=numbers.seconds,
        threshold=numbers.min_share,
        depth=numbers.depth,
        rows=numbers.rows,
        over_time=selected.over_time,
    )
    if topology is not None:
        assert name is not None
        parts = display.grid(name, call_path, topology, get_terminal_size().columns)
    else:
        parts = display.render(name, call_path)
    # wide enough for all levels: rich silently cuts lines at the width
    echo_parts(parts, 1_000 + 4 * numbers.depth)


def print_subdomains(cube: SeverityCube, name: str, call_path: str | None, subdomains: Path, *, as_json: bool) -> None:
    """Print the severity of a property per subdomain, and the location with most of it in each."""
    name = cube.find_property(name)
    mask = None if call_path is None else cube.find_call_paths(call_path)
    table = cube.by_subdomain(name, subdomains, mask)
    if as_json:
        from tracecols.report.tables import plain_rows

        echo_json({"format": "tracecols subdomains", "property": name, "subdomains": plain_rows(table.reset_index())})
        return
    unit = cube.properties.unit_of(name)
    echo(f"{cube.properties.title_of(name)} ({name}), {unit or 'no unit'}")
    # computed properties are evaluated on the sums of their operands
    of_all = "of its sums" if cube.properties.is_computed(name) else "sum"
    echo(f"{of_all:>16} {'mean':>14} {'largest':>14} of locations  subdomain")
    for row in table.reset_index().itertuples():
        largest = f"rank {row.rank} thread {row.thread}"
        echo(
            f"{row.value:16.9g} {row.mean:14.6g} {row.max:14.6g} {row.n_locations:12,}  "
            f"{row.subdomain or '(none)'}, largest at {largest}"
        )
