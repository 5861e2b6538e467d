"""tracecols what-if"""

from __future__ import annotations

import math
from pathlib import Path

import click
from click.core import ParameterSource

from tracecols.cli.options import bandwidth, finite, latency, size
from tracecols.cli.output import echo
from tracecols.given.quantities import UNITS, quantity


def factors(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Read REGION=FACTOR."""
    result = {}
    for text in values:
        region, equals, value = text.rpartition("=")
        factor = quantity(value, UNITS["share"])
        if not (equals and region) or not math.isfinite(factor) or factor < 0:
            raise click.BadParameter(
                f"{text!r} is not of the form REGION=FACTOR, such as solve=0.5, with a factor of at least 0"
            )
        result[region] = factor
    return result


@click.command("what-if")
@click.argument("source", metavar="STORE|ARCHIVE", type=click.Path(path_type=Path))
@click.option(
    "--scale", callback=factors, multiple=True, metavar="REGION=FACTOR",
    help="Computation in a region, or pattern, and in what it calls takes FACTOR of its time; may be given several times.",
)  # fmt: skip
@click.option("--latency", callback=latency, metavar="TIME", help="Another network: what a message takes, such as 2us.")
@click.option("--bandwidth", callback=bandwidth, metavar="RATE", help="Another network: such as 10GB/s.")
@click.option(
    "--transfer",
    type=float,
    callback=finite,
    metavar="FACTOR",
    help="What MPI takes beyond waiting; 0 is an ideal network.",
)
@click.option(
    "--openmp", type=float, callback=finite, metavar="FACTOR", help="What OpenMP and locks take beyond waiting."
)
@click.option(
    "--collectives", type=click.Choice(["recorded", "dimemas"]), default="recorded", show_default=True,
    help="Who waits in collective operations; with --transfer 0, dimemas: everybody for all.",
)  # fmt: skip
@click.option(
    "--eager", callback=size, metavar="SIZE",
    help="With --transfer 0: messages of this size and more wait for their receives, smaller ones do not; such as 32KiB.",
)  # fmt: skip
@click.option("--whole-run", is_flag=True, help="Also what precedes MPI_Init and follows MPI_Finalize.")
@click.option("--balanced", is_flag=True, help="Every process computes as much as the mean of all.")
@click.option(
    "--faster",
    type=float,
    callback=finite,
    default=0.5,
    show_default=True,
    metavar="FACTOR",
    help="For the table of gains.",
)
@click.option(
    "--rows",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="Call paths in the table: those with most computation.",
)
@click.option(
    "--slack", is_flag=True,
    help="In place of the table of gains: how much shorter call paths can become before another path through the program takes over.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="NAME.trace", help="Write the re-timed trace as a store."
)
@click.option("--force", is_flag=True, help="Replace the store of another trace, or any file, with --output.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
@click.pass_context
def what_if(
    ctx: click.Context,
    source: Path,
    scale: dict[str, float],
    latency: float | None,
    bandwidth: float | None,
    transfer: float | None,
    openmp: float | None,
    collectives: str,
    eager: int | None,
    whole_run: bool,
    balanced: bool,
    faster: float,
    rows: int,
    slack: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Predict the runtime of a recorded run with faster code, another network or balanced processes, by replay.

    \b
    Without options: where to begin. One table says what an ideal network, balanced processes and threads without
    overhead would save, the other what would be gained by making one call path twice as fast.
    The re-timed trace can be analyzed like any other, for the wait states it would have.

    \b
      tracecols what-if run.trace
      tracecols what-if run.trace --scale solve=0.5 --latency 2us --bandwidth 10GB/s
      tracecols what-if run.trace --balanced -o balanced.trace
      tracecols what-if run.trace --slack
    """
    from tracecols.cli.sources import opened, properties_of
    from tracecols.report.prediction import plain, render, render_slack
    from tracecols.store.outputs import REPLAYED, check_not_read, store_output
    from tracecols.trace import Trace

    if slack and ctx.get_parameter_source("faster") is not ParameterSource.DEFAULT:
        raise click.UsageError("--faster: only for the table of gains, which --slack replaces")
    if output is not None:
        check_not_read(output, source)
        store_output(output, {**properties_of(source), REPLAYED: ""}, force=force).check()
    with opened(source, jobs) as store:
        predicted = Trace(store.path, jobs=jobs).what_if(
            scale,
            latency=latency,
            bandwidth=bandwidth,
            transfer=transfer,
            balanced=balanced,
            openmp=openmp,
            collectives=collectives,
            eager=eager,
            whole_run=whole_run,
        )
        table = predicted.slack(rows) if slack else predicted.savings(faster, rows)
        if output is not None:
            predicted.save(output, force=force)
        if as_json:
            import json

            echo(json.dumps(plain(predicted, table, None if slack else faster), indent=1))
            return
        from tracecols.report.screen import Screen

        console = Screen(soft_wrap=True, width=1000)
        for part in render_slack(predicted, table) if slack else render(predicted, table, faster):
            console.print(part)
        if output is not None:
            echo(f"{output}")
        for note in predicted.notes:
            echo(f"note: {note}", err=True)
