"""tracecols compare"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tracecols.cli.options import share
from tracecols.cli.output import echo, echo_parts
from tracecols.cli.vocabulary import PATH, grouped, in_percent, option
from tracecols.given.quantities import quantity

if TYPE_CHECKING:
    from tracecols.severity.comparison import Comparison
    from tracecols.store.outputs import Output

OPERATIONS = ("difference", "mean", "minimum", "maximum", "merge")


def growth(_ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return 0.05 for 5%; for compatibility, a plain number is taken as percent."""
    if value is None:
        return None
    if math.isfinite(quantity(value, {"": 1})):
        echo(f"note: --threshold {value} is read as {value}%: write {value}%", err=True)
        value = in_percent(value)
    return share(_ctx, param, value)


def check_ending(output: Path) -> None:
    """Refuse an output in an unknown format. Raises ExportError."""
    from tracecols.errors import ExportError
    from tracecols.export.tables import CUBES, TABLES

    endings = (".severity", *CUBES, ".html", *TABLES)
    if output.suffix not in endings:
        raise ExportError(
            f"cannot write a comparison to {output.name}: no format ends in '{output.suffix}'\n"
            f"  there are {', '.join(endings)}"
        )


class ComparisonOptions(NamedTuple):
    """Options for the comparison and its output."""

    by: str
    operation: str | None
    scaling: bool
    rows: int
    with_startup: bool


@click.command()
@click.argument("cubes", nargs=-1, required=True, metavar="[CUBE|STORE|ARCHIVE]...", type=PATH)
@option("properties", "By id or title, several separated by commas: only these and those below them.", called="names")
@click.option(
    "--threshold",
    callback=growth,
    metavar="SHARE",
    help="Exit code 3 if a property given with -p, by default time, grew by more, such as 5%.",
)
@click.option(
    "--by",
    type=click.Choice(["position", "aggregate"]),
    default="position",
    show_default=True,
    help="position: match locations by rank and thread; aggregate: combine all of a run into one.",
)
@option(
    "output",
    "Write the result: a cube as .severity, .cubex or .cube, or as a report (.html); all numbers as .csv, .parquet "
    "or .json.",
    called="outputs",
    multiple=True,
)
@click.option(
    "--operation",
    type=click.Choice(OPERATIONS),
    help="The operation for a cube written with -o.  [default: difference of two, mean of more]",
)
@click.option("--scaling", is_flag=True, help="Print the scaling table for two runs, too.")
@option("rows", "Call paths to print.", default=15)
@option("with_startup", "Include start-up and shutdown, which are excluded by default.")
@option("force")
@option("as_json", "Print all numbers as JSON.")
@option("jobs", "Threads to analyse traces.  [default: one per core]")
@click.pass_context
@grouped(how=ComparisonOptions)
def compare(
    ctx: click.Context,
    cubes: tuple[Path, ...],
    names: tuple[str, ...],
    threshold: float | None,
    outputs: tuple[Path, ...],
    how: ComparisonOptions,
    force: bool,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Compare severity cubes (.severity, .cubex, .cube) with the first one. Traces are analysed first.

    \b
    Two cubes: changes by property and call path. More cubes: how the runs scale.
    Properties, call paths and locations are matched by name and rank; runs may differ in all of them.
    For scripts: exit code 3 if something grew by more than --threshold.

    \b
      tracecols compare before.severity after.severity -o change.severity -o change.html
      tracecols compare before.severity after.severity -p mpi --threshold 5%
      tracecols compare 1.severity 2.severity 4.severity 8.severity -o scaling.csv
    """
    from tracecols.cli.sources import cube_of
    from tracecols.errors import SeverityError
    from tracecols.export.outputs import COMPARISON, cube_output, table_output
    from tracecols.export.tables import TABLES, write_cube, write_table
    from tracecols.report.comparison import as_plain, run_names
    from tracecols.report.viewer.page import report_output
    from tracecols.severity.comparison import Comparison
    from tracecols.severity.resolve import find_several
    from tracecols.store.outputs import check_not_read, text_output

    if len(cubes) < 2:
        raise click.UsageError("give at least two cubes to compare")
    operation = how.operation
    if operation == "difference" and len(cubes) > 2:
        raise click.UsageError("a difference is of two cubes; of more give --operation mean, minimum, maximum or merge")
    operation = operation or ("difference" if len(cubes) == 2 else "mean")
    for output in outputs:
        check_ending(output)
        check_not_read(output, *cubes)
    runs = Comparison([cube_of(path, jobs) for path in cubes], run_names(cubes), how.by, how.with_startup)
    head = runs.united[0]
    hint = "tracecols show --min-share 0 prints all that have values"
    chosen = [id for name in names for id in find_several(head.properties, name, "in these cubes", SeverityError, hint)]
    series = how.scaling or len(cubes) > 2
    regressed = runs.regressions(threshold, chosen or ["time"]).property.tolist() if threshold is not None else []
    endings = {output.suffix for output in outputs}
    plain = ""
    if as_json or endings & set(TABLES):
        table = runs.scaling() if series else runs.changes(*chosen or head.properties.roots)
    if as_json or ".json" in endings:
        plain = json.dumps(as_plain(runs, "scaling" if series else "changes", table, regressed), indent=1) + "\n"
    if endings - set(TABLES):
        made = getattr(runs, operation)()
        of_all = f"{operation} of {', '.join(runs.names)}"
        title = f"{runs.names[1]} - {runs.names[0]}" if operation == "difference" else of_all

    def target(path: Path) -> tuple[Output, Callable[[], object]]:
        """Return an output, and the function that writes it; all outputs are checked before any is written."""
        if path.suffix == ".json":
            file = text_output(path, "a comparison", COMPARISON.encode(), force=force)
            return file, lambda: file.write(plain)
        if path.suffix in TABLES:
            file = table_output(path, list(table.columns), force=force)
            return file, lambda: write_table(table, path, force=force)
        if path.suffix == ".html":
            return report_output(path, force=force), lambda: made.report(path, title, force=force)
        return cube_output(path, made.facts, force=force), lambda: write_cube(made, path, force=force)

    targets = [target(output) for output in outputs]
    for file, _ in targets:
        file.check()
    for _, write in targets:
        write()
    if as_json:
        echo(plain, nl=False)
    else:
        print_tables(runs, chosen, how.rows, set(regressed), series=series)
        for output in outputs:
            echo(f"{output}")
    if regressed:
        echo(f"grew by more than {100 * (threshold or 0):g} %: {', '.join(regressed)}", err=True)
        ctx.exit(3)


def print_tables(runs: Comparison, chosen: list[str], rows: int, regressed: set[str], *, series: bool) -> None:
    """Print how runs scale if they are a series, else what changed."""
    from tracecols.report.comparison import ComparisonDisplay
    from tracecols.report.text import text_width

    display = ComparisonDisplay(runs, chosen, rows, regressed, text_width())
    echo_parts(display.scaling() if series else display.changes())
