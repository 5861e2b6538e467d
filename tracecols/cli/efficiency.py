"""tracecols efficiency"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.options import seconds
from tracecols.cli.output import echo

if TYPE_CHECKING:
    import pandas as pd

    from tracecols.severity.efficiencies import Requirement


def requirements(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[Requirement]:
    """Read METRIC>=VALUE."""
    if not values:
        return []
    from tracecols.errors import SeverityError
    from tracecols.severity.efficiencies import Requirement

    try:
        return [Requirement.of(value) for value in values]
    except SeverityError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument(
    "sources", nargs=-1, required=True, metavar="[SEVERITY|STORE|ARCHIVE]...", type=click.Path(path_type=Path)
)
@click.option("--within", metavar="REGION", help="Only this region, or pattern, and what it calls.")
@click.option("--from", "start", callback=seconds, metavar="TIME", help="Of traces: only the piece from this time on.")
@click.option("--to", "stop", callback=seconds, metavar="TIME", help="Of traces: only the piece before this time.")
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(["run", "mpi", "threads", "multiplicative", "additive", "computation"]),
    help="Print this one only; may be given several times.  [default: all]",
)
@click.option(
    "--require",
    "required",
    multiple=True,
    callback=requirements,
    metavar="METRIC>=VALUE",
    help="Exit code 3 if a run does not fulfil it: 'parallel efficiency>=0.8', 'load balance>=90%'.",
)
@click.option(
    "--ideal",
    type=click.Choice(["replay", "approximation", "dimemas"]),
    help="How the runtime on an ideal network is found; approximations are not marked; dimemas: as BSC's tools, of the whole run.  [default: replay where it costs no more than the analysis, else communication is not divided]",
)
@click.option(
    "--weak", is_flag=True, help="The problem grows with the number of threads: compare computation per thread."
)
@click.option("--with-startup", is_flag=True, help="Of the whole run, with its start and its end.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
@click.pass_context
def efficiency(
    ctx: click.Context,
    sources: tuple[Path, ...],
    within: str | None,
    start: float | None,
    stop: float | None,
    models: tuple[str, ...],
    required: list[Requirement],
    ideal: str | None,
    weak: bool,
    with_startup: bool,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Print how efficient runs are: load balance, communication, serialisation, transfer, threads; and how they scale.

    \b
    Models of the same times: MPI (POP), hybrid multiplicative (BSC), hybrid additive (POP); what a program does not use has no rows.
    Of several runs, the first is what the others are compared with. The times are those between MPI_Init and MPI_Finalize. The ideal
    network, on which serialisation and transfer depend, is a replay of the trace; where that would cost more than the analysis,
    communication is not divided, unless tracecols analyze is given --ideal-network.
    For a script: exit code 3 if a run does not fulfil what is required.

    \b
      tracecols efficiency run.trace
      tracecols efficiency 1.severity 2.severity 4.severity --json
      tracecols efficiency run.trace --within solve --require "parallel efficiency>=0.8"
    """
    from tracecols.cli.compare import run_names
    from tracecols.report.efficiency import plain, render
    from tracecols.severity.efficiencies import MODELS, failures, scaling

    tables = [efficiencies_of(source, within, ideal, jobs, start, stop, with_startup) for source in sources]
    names = run_names(sources)
    series = scaling(tables, names, weak) if len(tables) > 1 else None
    failed = [{"run": n, **f} for n, table in zip(names, tables, strict=True) for f in failures(table, required)]
    if as_json:
        echo(plain(tables, names, series, failed), nl=False)
    else:
        from tracecols.report.screen import Screen

        console = Screen(soft_wrap=True, width=1000)
        for part in render(tables, names, series, [m for m in MODELS if not models or m.split()[-1] in models]):
            console.print(part)
    for f in failed:
        found = "not defined" if f["value"] != f["value"] else f"{f['value']:.4g}"
        echo(f"{f['run']}: required {f['requirement']}, found {found}", err=True)
    if failed:
        ctx.exit(3)


def efficiencies_of(
    source: Path,
    within: str | None,
    ideal: str | None,
    jobs: int | None,
    start: float | None,
    stop: float | None,
    with_startup: bool = False,
) -> pd.DataFrame:
    """Return the efficiencies of a cube, or of a trace in a store or archive."""
    from tracecols.converters.registry import find_anchor
    from tracecols.errors import SeverityError, SourceError
    from tracecols.export.cube_read import is_cube, read_cube

    if is_cube(source):
        try:
            find_anchor(source)
        except SourceError:
            if start is not None or stop is not None:
                raise SeverityError(
                    f"{source} is a cube, and has no events\n  --from and --to are for traces"
                ) from None
            return read_cube(source).efficiencies(within, ideal=ideal, with_startup=with_startup)
    from tracecols.cli.sources import opened
    from tracecols.trace import Trace

    with opened(source, jobs) as store:
        trace = Trace(store.path, jobs=jobs)
        table = trace.efficiencies(within, ideal=ideal, start=start, stop=stop, with_startup=with_startup)
        if start is None and stop is None and ideal == "replay":
            for what, n in trace.replay.counts.items():
                echo(f"note: {source}: {n:,} {what}", err=True)
        return table
