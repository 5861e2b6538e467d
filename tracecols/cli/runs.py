"""tracecols runs"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tracecols.cli.options import named_values, part_of_whole
from tracecols.cli.output import echo, echo_parts
from tracecols.cli.vocabulary import PATH, grouped, option, together
from tracecols.given.quantities import UNITS, quantity

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.runs.folder import Value
    from tracecols.runs.series import Series


def growth_limit(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return 0.05 for growth<=5%."""
    if value is None:
        return None
    parts = re.fullmatch(r"\s*growth\s*<=(.*)", value)
    found = quantity(parts[1], UNITS["share"]) if parts else math.nan
    if not 0 <= found < math.inf:
        raise click.BadParameter(f"{value!r} is not a requirement such as 'growth<=5%'")
    return found


class SeriesOptions(NamedTuple):
    """The selection of runs and properties of an experiment for a command."""

    properties: tuple[str, ...]
    along: str
    where: dict[str, Value]
    last: int | None
    with_startup: bool

    def series(self, folder: Path) -> Series:
        """Read the selected runs as a series, and print remarks on it."""
        from tracecols.runs import Experiment

        names = [name.strip() for text in self.properties for name in text.split(",") if name.strip()]
        found = Experiment(folder).series(
            names or ["time"], self.along, self.where, self.last, with_startup=self.with_startup
        )
        for note in found.notes:
            echo(f"note: {note}", err=True)
        return found


series_options = together(
    option(
        "properties",
        "By id or title: these and those below them, all of one unit; or a computed metric.  [default: time]",
    ),
    option("along"),
    option("where"),
    option("last"),
    option("with_startup"),
)
"""Decorator that adds the options of `SeriesOptions` to a command."""


@click.group()
def runs() -> None:
    """Keep the cubes of many runs with their parameters, and find what changed among them.

    \b
      tracecols runs add nightly run.severity -P commit=1f3a9c0
      tracecols runs trend nightly --require 'growth<=2%'
    """


@runs.command("add", short_help="Add runs to an experiment.")
@click.argument("folder", type=PATH)
@click.argument("sources", metavar="CUBE|STORE|ARCHIVE...", nargs=-1, required=True, type=PATH)
@click.option(
    "-P",
    "--parameter",
    "parameters",
    multiple=True,
    callback=named_values,
    metavar="NAME=VALUE",
    help="A parameter of the run: a number or a text.",
)
@click.option("--name", help="Name of the run, if only one is added.  [default: run-1, run-2 and so on]")
@option("force", "Replace a run of this name.")
@option("jobs", "Threads to analyse a trace.  [default: one per core]")
def add(
    folder: Path,
    sources: tuple[Path, ...],
    parameters: dict[str, Value],
    name: str | None,
    force: bool,
    jobs: int | None,
) -> None:
    """Add runs to the experiment in FOLDER, which is created if it does not exist. Runs with equal parameters are
    repetitions, from which noise is estimated."""
    from tracecols.cli.sources import cube_of
    from tracecols.runs import Experiment
    from tracecols.runs.folder import in_words

    if name is not None and len(sources) > 1:
        raise click.UsageError("--name is the name of one run: give one cube, or leave it out")
    experiment = Experiment(folder)
    for source in sources:
        run = experiment.add(cube_of(source, jobs), name, parameters, force=force)
        words = ", ".join(f"{key}={in_words(value)}" for key, value in run.parameters.items())
        echo(f"{folder}: {run.name} ({words})")


@runs.command("list")
@click.argument("folder", type=PATH)
@option("where")
@option("with_startup", "Include start-up and shutdown in runtimes.")
@option("as_json")
def list_runs(folder: Path, where: dict[str, Value], with_startup: bool, as_json: bool) -> None:
    """List the runs of an experiment with their parameters and runtimes."""
    from tracecols.report.runs import runs_table
    from tracecols.report.text import text_width
    from tracecols.runs import Experiment

    table = Experiment(folder).frame(where, with_startup=with_startup)
    if as_json:
        echo(as_plain(table, "runs"))
    else:
        echo_parts([runs_table(table, text_width())])


@runs.command("show", short_help="Show the severities of runs side by side.")
@click.argument("folder", type=PATH)
@series_options
@option("rows", "Rows to print: those that vary most.", default=15)
@option("as_json", "Print all numbers as JSON.")
@grouped(asked=SeriesOptions)
def show(folder: Path, asked: SeriesOptions, rows: int, as_json: bool) -> None:
    """Show the severities of runs side by side, by property and call path, averaged over repetitions."""
    from tracecols.report.runs import severities_shown
    from tracecols.report.text import text_width
    from tracecols.runs import Experiment

    series = asked.series(folder)
    table = Experiment(folder).severities(series)
    if as_json:
        echo(as_plain(table, "severities"))
        return
    echo_parts(severities_shown(table, series, rows, text_width()))


class TrendOptions(NamedTuple):
    """Options of the search for trends."""

    rate: float
    growth: bool
    at: float | None
    required: float | None
    rows: int


@runs.command("trend", short_help="Find what became slower or faster, where, and since when.")
@click.argument("folder", type=PATH)
@series_options
@click.option(
    "--false-alarms",
    "rate",
    default="5%",
    show_default=True,
    callback=part_of_whole,
    metavar="SHARE",
    help="Accepted rate of alarms although nothing changed.",
)
@click.option("--growth", is_flag=True, help="Model how times grow with a parameter instead (Extra-P's normal form).")
@click.option(
    "--at", type=float, metavar="VALUE", help="The value to predict for.  [default: eight times the largest one]"
)
@option(
    "required", "Exit code 3 if the total grew by more at any change.", callback=growth_limit, metavar="growth<=SHARE"
)
@option("output", "Also write the result: .md (summary), .html with plots (extra plot), .json.", metavar="FILE")
@option("rows", "Call paths to print per change.", default=10)
@option("force", "Replace any file.")
@option("as_json", "Print all numbers as JSON.")
@click.pass_context
@grouped(asked=SeriesOptions, looked=TrendOptions)
def trend(
    ctx: click.Context,
    folder: Path,
    asked: SeriesOptions,
    looked: TrendOptions,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Find what became slower or faster among the runs of an experiment, where, and since when.

    Differences are compared with those that noise alone would cause, over all call paths and positions together, so
    that false alarms are no more frequent than --false-alarms. Two sets of runs need four repetitions each.

    \b
      tracecols runs trend nightly -o summary.md
      tracecols runs trend nightly --along commit --last 2 --require 'growth<=2%'
      tracecols runs trend sizes --along processes --growth --at 4096
    """
    from tracecols.report.runs import amount, changes_shown, growth_shown
    from tracecols.report.text import text_width
    from tracecols.runs import Experiment
    from tracecols.runs.changes import too_few

    experiment, series = Experiment(folder), asked.series(folder)
    if looked.growth:
        if looked.required is not None or (output is not None and output.suffix != ".json"):
            raise click.UsageError("--growth predicts: leave out --require, and give an output that ends with .json")
        table = experiment.growth(series, looked.at, looked.rate)
        at = 8 * float(series.labels[-1]) if looked.at is None else looked.at
        shown = growth_shown(series, table, at, looked.rows, text_width())
    else:
        if looked.at is not None:
            raise click.UsageError("--at is a value to predict for: give --growth, too")
        table = experiment.changes(series, looked.rate)
        shown = changes_shown(series, table, looked.rate, looked.rows, text_width())
        if note := too_few(series, looked.rate):
            echo(f"note: {note}", err=True)
    if output is not None:
        write(output, series, table, looked, folder.name, force=force)
    if as_json:
        echo(as_plain(table))
    else:
        echo_parts(shown)
    if looked.required is not None:
        totals = table[table.property == ""]
        failed = totals[totals.ratio - 1 > looked.required]
        for row in failed.itertuples():
            more = f"{row.ratio - 1:.1%} more" if row.before else f"{amount(row.after, series.unit)}, before it was 0"
            echo(
                f"since {row.since} it {'takes' if series.unit == 'sec' and series.adds_up else 'is'} "
                f"{more}, required is {looked.required:.1%} at most",
                err=True,
            )
        if len(failed):
            ctx.exit(3)


def write(output: Path, series: Series, table: pd.DataFrame, looked: TrendOptions, title: str, *, force: bool) -> None:
    """Write a trend as a file."""
    from tracecols.report.runs import SIGNATURE, markdown, page
    from tracecols.store.outputs import text_output

    if output.suffix == ".md":
        text, signature = markdown(series, table, looked.rate, looked.rows), SIGNATURE
    elif output.suffix == ".html":
        text, signature = page(series, table, looked.rate, looked.rows, title), SIGNATURE
    elif output.suffix == ".json":
        text, signature = as_plain(table) + "\n", '"format": "tracecols trend"'
    else:
        raise click.UsageError(f"{output}: give a name that ends with .md, .html or .json")
    text_output(output, "a trend", signature.encode(), force=force).write(text, "replace")


def as_plain(table: pd.DataFrame, what: str = "trend") -> str:
    """Return a table as JSON, with what it is; NaN and infinity become null."""
    from tracecols.report.tables import plain_rows

    return json.dumps({"format": f"tracecols {what}", "rows": plain_rows(table)}, indent=1)
