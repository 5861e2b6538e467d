"""tracecols compare"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracecols.cli.output import echo

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.severity.comparison import Comparison

OPERATIONS = ("difference", "mean", "minimum", "maximum", "merge")


def percentage(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return 0.05 for 5% or 5."""
    if value is None:
        return None
    try:
        share = float(value.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise click.BadParameter(f"{value!r} is no percentage like 5%")
    return share


@click.command()
@click.argument("cubes", nargs=-1, required=True, metavar="SEVERITY...", type=click.Path(path_type=Path))
@click.option(
    "-p",
    "--property",
    "names",
    multiple=True,
    metavar="P",
    help="By id or title, several with commas in between: these and what is below them only.",
)
@click.option(
    "--threshold",
    callback=percentage,
    metavar="PERCENT",
    help="Exit code 3 if a property given with -p, or else time, grew by more.",
)
@click.option(
    "--by",
    type=click.Choice(["position", "aggregate"]),
    default="position",
    show_default=True,
    help="Locations correspond by rank and thread; or take all of a run as one.",
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep the result: a cube as .severity, .cubex or .cube, or as a report (.html); all numbers as .csv, .parquet or .json.",
)
@click.option(
    "--operation",
    type=click.Choice(OPERATIONS),
    help="What a cube given with -o is.  [default: difference of two, mean of more]",
)
@click.option("--scaling", is_flag=True, help="The scaling table also for two runs.")
@click.option("--rows", type=click.IntRange(0), default=15, show_default=True, help="Call paths to print.")
@click.option("--with-startup", is_flag=True, help="Compare start-up and shutdown, too; they are set apart by default.")
@click.option("--force", is_flag=True, help="Replace an output that was made in another way, or any file.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
@click.pass_context
def compare(
    ctx: click.Context,
    cubes: tuple[Path, ...],
    names: tuple[str, ...],
    threshold: float | None,
    by: str,
    outputs: tuple[Path, ...],
    operation: str | None,
    scaling: bool,
    rows: int,
    with_startup: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Compare severity cubes (.severity, .cubex, .cube); the first is what the others are compared with.

    \b
    Of two: what changed, by property and by call path. Of more: how they scale.
    Properties, call paths and locations correspond by their names and ranks; runs may differ in all of them.
    For a script: exit code 3 if something grew beyond the --threshold.

    \b
      tracecols compare before.severity after.severity -o change.severity -o change.html
      tracecols compare before.severity after.severity -p mpi --threshold 5%
      tracecols compare 1.severity 2.severity 4.severity 8.severity -o scaling.csv
    """
    from tracecols.errors import SeverityError
    from tracecols.export.cube_read import read_cube
    from tracecols.export.outputs import COMPARISON, cube_output, table_output, text_output
    from tracecols.export.tables import TABLES, write_cube, write_table
    from tracecols.report.viewer.page import report_output
    from tracecols.severity.comparison import Comparison
    from tracecols.severity.resolve import find_several
    from tracecols.store.outputs import check_not_read

    if len(cubes) < 2:
        raise click.UsageError("give at least two cubes to compare.")
    if operation == "difference" and len(cubes) > 2:
        raise click.UsageError("a difference is of two cubes; of more there are mean, minimum, maximum and merge.")
    operation = operation or ("difference" if len(cubes) == 2 else "mean")
    runs = Comparison([read_cube(path) for path in cubes], run_names(cubes), by, with_startup)
    head = runs.united[0]
    hint = "tracecols show --threshold 0 prints all that have values"
    chosen = [id for name in names for id in find_several(head.properties, name, "in these cubes", SeverityError, hint)]
    series = scaling or len(cubes) > 2
    regressed = runs.regressions(threshold, chosen or ["time"]).property.tolist() if threshold is not None else []
    table = runs.scaling() if series else runs.changes(*chosen or head.properties.roots)
    plain = as_plain(runs, "scaling" if series else "changes", table, regressed)
    made = getattr(runs, operation)() if any(o.suffix not in (".json", *TABLES) for o in outputs) else None
    numbers = {
        o: text_output(o, "a comparison", COMPARISON.encode(), force=force) for o in outputs if o.suffix == ".json"
    }
    for output in outputs:
        check_not_read(output, *cubes)
        if output in numbers:
            numbers[output].check()
        elif output.suffix in TABLES:
            table_output(output, list(table.columns), force=force).check()
        elif output.suffix == ".html":
            report_output(output, force=force).check()
        elif made is not None:
            cube_output(output, made.facts, force=force).check()
    for output in outputs:
        if output in numbers:
            with numbers[output].new() as file:
                file.write_text(plain, encoding="utf-8")
        elif output.suffix in TABLES:
            write_table(table, output, force=force)
        elif made is not None and output.suffix == ".html":
            title = (
                f"{runs.names[1]} - {runs.names[0]}"
                if operation == "difference"
                else f"{operation} of {', '.join(runs.names)}"
            )
            made.report(output, title, force=force)
        elif made is not None:
            write_cube(made, output, force=force)
    if as_json:
        echo(plain, nl=False)
    else:
        from tracecols.report.comparison import ComparisonDisplay
        from tracecols.report.screen import Screen

        # tables are as wide as they need; a terminal that is narrower gets less in them, a pipe does not
        width = Screen().width if Screen().is_terminal else 160
        display = ComparisonDisplay(runs, chosen, rows, set(regressed), width)
        console = Screen(soft_wrap=True, width=1000)
        for part in display.scaling() if series else display.changes():
            console.print(part)
        for output in outputs:
            echo(f"{output}")
    if regressed:
        echo(f"grew by more than {100 * (threshold or 0):g} %: {', '.join(regressed)}", err=True)
        ctx.exit(3)


def run_names(paths: tuple[Path, ...]) -> list[str]:
    """Name runs after their files, by as much of the path as distinguishes them."""
    from tracecols.severity.comparison import COLUMNS

    def as_text(name: str) -> str:
        """Write bytes that are not UTF-8 with backslashes, for tables that take valid text only."""
        return name.encode("utf-8", "backslashreplace").decode("utf-8")

    for names in ([as_text(p.stem) for p in paths], [as_text(str(p)) for p in paths]):
        if len(set(names) - set(COLUMNS)) == len(paths):
            return names
    return [f"{as_text(p.stem)} ({i})" for i, p in enumerate(paths, 1)]


def as_plain(runs: Comparison, name: str, table: pd.DataFrame, regressed: list[str]) -> str:
    """Return all numbers of a comparison as JSON; what is no number is null."""

    def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
        return [
            {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in row.items()}
            for row in frame.to_dict("records")
        ]

    sizes = [runs.size(cube) for cube in runs.cubes]
    plain = {
        "format": "tracecols comparison",
        "runs": [
            {"name": n, "processes": p, "threads": t, "runtime": runtime if isfinite(runtime) else None}
            for n, (p, t), runtime in zip(runs.names, sizes, runs.runtimes(), strict=True)
        ],
        "notes": runs.notes,
        "regressed": regressed,
        "properties": rows(runs.totals()),
        name: rows(table),
    }
    return json.dumps(plain, indent=1) + "\n"
