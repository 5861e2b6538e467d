"""tracecols what-if"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from tracecols.cli.options import bandwidth, put_once, share, size
from tracecols.cli.output import echo, echo_json, echo_parts
from tracecols.cli.vocabulary import PATH, Part, grouped, option
from tracecols.given.quantities import UNITS, quantity

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.replay.prediction import Prediction


def factors(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Read REGION=SHARE."""
    result: dict[str, float] = {}
    for text in values:
        region, equals, value = text.rpartition("=")
        factor = quantity(value, UNITS["share"])
        if not (equals and region) or not math.isfinite(factor) or factor < 0:
            raise click.BadParameter(
                f"{text!r} is not of the form REGION=SHARE, such as solve=0.5 or solve=50%, with a share of at least 0"
            )
        put_once(result, region, factor)
    return result


class TableOptions(NamedTuple):
    """Options for the table printed besides the runtimes."""

    faster: float
    rows: int
    slack: bool


@click.command("what-if")
@click.argument("source", metavar="STORE|ARCHIVE", type=PATH)
@click.option(
    "--scale",
    callback=factors,
    multiple=True,
    metavar="REGION=SHARE",
    help="Computation in a region, or pattern, and its callees takes this share of its time, such as 50% or 0.5; may "
    "be given several times.",
)
@option("latency", "Another network: its latency, such as 2us.")
@click.option("--bandwidth", callback=bandwidth, metavar="RATE", help="Another network: its bandwidth, such as 10GB/s.")
@click.option(
    "--transfer",
    callback=share,
    metavar="SHARE",
    help="Scale MPI time, except waiting, to this share; 0 is an ideal network.",
)
@click.option(
    "--openmp", callback=share, metavar="SHARE", help="Scale OpenMP and lock time, except waiting, to this share."
)
@click.option(
    "--collectives",
    type=click.Choice(["recorded", "dimemas"]),
    default="recorded",
    show_default=True,
    help="Who waits in collective operations; dimemas (with --transfer 0): all wait for all.",
)
@click.option(
    "--eager",
    callback=size,
    metavar="SIZE",
    help="With --transfer 0: messages of at least this size, such as 32KiB, wait for their receives; smaller ones do "
    "not.",
)
@option("with_startup", "Include the time before MPI_Init and after MPI_Finalize.", old=("--whole-run",))
@click.option("--balanced", is_flag=True, help="Every process, with its devices, computes as much as the mean of all.")
@option("within", "List only call paths of this region, or pattern, in the tables; the runtime is that of the run.")
@option("start")
@option("stop")
@click.option(
    "--faster",
    callback=share,
    default="50%",
    show_default=True,
    metavar="SHARE",
    help="For the table of gains: share of its time that a call path would still take.",
)
@option("rows", "Call paths in the table: those with most computation.", default=15)
@click.option(
    "--slack",
    is_flag=True,
    help="Instead of the table of gains: how much shorter call paths can become before another path becomes critical.",
)
@option("output", "Write the re-timed trace as a store.", metavar="NAME.trace")
@option("force", "With --output: also replace the store of another trace, or any file.")
@option("as_json", "Print the numbers as JSON; of the table, --rows call paths.")
@option("jobs")
@click.pass_context
@grouped(part=Part, table=TableOptions)
def what_if(
    ctx: click.Context,
    source: Path,
    part: Part,
    table: TableOptions,
    output: Path | None,
    force: bool,
    as_json: bool,
    jobs: int | None,
    **changes: Any,
) -> None:
    """Predict the runtime of a recorded run with faster code, another network or balanced processes, by replay.

    \b
    Without options: where to begin. One table lists the time saved by removing each cause of lost time (the findings of
    tracecols analyze), and by an ideal network, balanced processes and threads without overhead; the other the time
    saved by making one call path twice as fast.
    The re-timed trace can be analysed like any other, for the wait states it would have.

    \b
      tracecols what-if run.trace
      tracecols what-if run.trace --scale solve=0.5 --latency 2us --bandwidth 10GB/s
      tracecols what-if run.trace --balanced -o balanced.trace
      tracecols what-if run.trace --slack
    """
    from tracecols.cli.sources import piece, properties_of
    from tracecols.findings.mended import mended_of
    from tracecols.store.outputs import REPLAYED, check_not_read, store_output

    if table.slack and ctx.get_parameter_source("faster") is not ParameterSource.DEFAULT:
        raise click.UsageError("--faster: only for the table of gains, which --slack replaces")
    if output is not None:
        check_not_read(output, source)
        store_output(output, {**properties_of(source), REPLAYED: ""}, force=force).check()
    with piece(source, part, jobs) as trace:
        predicted = trace.what_if(whole_run=changes.pop("with_startup"), **changes)
        found = (
            predicted.slack(table.rows, part.within)
            if table.slack
            else predicted.savings(table.faster, table.rows, part.within)
        )
        if output is not None:
            predicted.save(output, force=force)
        factor, mended = (None, None) if table.slack else (table.faster, mended_of(predicted))
        print_prediction(predicted, found, factor, mended, as_json=as_json)
        if output is not None and not as_json:
            echo(f"{output}")
        for note in () if as_json else predicted.notes:
            echo(f"note: {note}", err=True)


def print_prediction(
    predicted: Prediction, table: pd.DataFrame, factor: float | None, mended: pd.DataFrame | None, *, as_json: bool
) -> None:
    """Print the runtimes of a prediction, the gains from changes if it has none itself, and a table of gains, or of
    slack if `factor` is None."""
    from tracecols.report.prediction import plain, render, render_slack

    if as_json:
        echo_json(plain(predicted, table, factor, mended))
        return
    from tracecols.report.text import text_width

    width = text_width()
    echo_parts(
        render_slack(predicted, table, width) if factor is None else render(predicted, table, factor, mended, width)
    )
