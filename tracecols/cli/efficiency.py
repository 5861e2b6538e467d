"""tracecols efficiency"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.output import echo, echo_json, echo_parts
from tracecols.cli.vocabulary import PATH, Part, grouped, option, part_options

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
@click.argument("sources", nargs=-1, required=True, metavar="[CUBE|STORE|ARCHIVE]...", type=PATH)
@part_options
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(["run", "mpi", "threads", "multiplicative", "additive", "computation"]),
    help="Print only this model; may be given several times.  [default: all]",
)
@option(
    "required",
    "Exit code 3 if a run does not meet it: 'parallel efficiency>=0.8', 'load balance>=90%'.",
    multiple=True,
    callback=requirements,
    metavar="METRIC>=VALUE",
)
@click.option(
    "--ideal",
    type=click.Choice(["replay", "approximation", "dimemas"]),
    help="How to find the runtime on an ideal network; approximations are not marked; dimemas: as in BSC's tools, "
    "for the whole run.  [default: replay if it costs no more than the analysis, else communication is not "
    "divided]",
)
@click.option("--weak", is_flag=True, help="Weak scaling: compare computation per thread.")
@option("with_startup", "Efficiencies of the whole run, with start-up and shutdown.")
@option("as_json", "Print all numbers as JSON.")
@option("jobs")
@click.pass_context
@grouped(part=Part)
def efficiency(
    ctx: click.Context,
    sources: tuple[Path, ...],
    part: Part,
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
    Models of the same times: MPI (POP), hybrid multiplicative (BSC), hybrid additive (POP); there are no rows for what
    a program does not use. Several runs are compared with the first. The times are those between MPI_Init and
    MPI_Finalize. Serialisation and transfer are found by a replay of the trace on an ideal network; if that would cost
    more than the analysis, communication is not divided, unless tracecols analyze is given --ideal-network.
    For scripts: exit code 3 if a run does not meet a requirement.

    \b
      tracecols efficiency run.trace
      tracecols efficiency 1.severity 2.severity 4.severity --json
      tracecols efficiency run.trace --within solve --require "parallel efficiency>=0.8"
    """
    from tracecols.report.comparison import run_names
    from tracecols.report.efficiency import plain, render
    from tracecols.severity.efficiencies import MODELS, failures, scaling

    tables = [efficiencies_of(source, part, ideal, jobs, with_startup) for source in sources]
    names = run_names(sources)
    series = scaling(tables, names, weak) if len(tables) > 1 else None
    failed = [{"run": n, **f} for n, table in zip(names, tables, strict=True) for f in failures(table, required)]
    if as_json:
        echo_json(plain(tables, names, series, failed))
    else:
        echo_parts(render(tables, names, series, [m for m in MODELS if not models or m.split()[-1] in models]))
    for source, table in zip(sources, tables, strict=True):
        for note in table.attrs["notes"]:
            echo(f"note: {source}: {note}", err=True)
    for f in failed:
        found = "not defined" if f["value"] != f["value"] else f"{f['value']:.4g}"
        echo(f"{f['run']}: required {f['requirement']}, found {found}", err=True)
    if failed:
        ctx.exit(3)


def efficiencies_of(
    source: Path, part: Part, ideal: str | None, jobs: int | None, with_startup: bool = False
) -> pd.DataFrame:
    """Return the efficiencies of a cube, or of a trace in a store or archive."""
    from tracecols.cli.sources import holds_cube, opened
    from tracecols.errors import SeverityError
    from tracecols.export.cube_read import read_cube

    if holds_cube(source):
        if part.is_piece:
            raise SeverityError(f"{source} is a cube, and has no events\n  --from and --to are for traces")
        return read_cube(source).efficiencies(part.within, ideal=ideal, with_startup=with_startup)
    from tracecols.trace import Trace

    with opened(source, jobs) as store:
        return Trace(store.path, jobs=jobs).efficiencies(
            part.within, ideal=ideal, start=part.start, stop=part.stop, with_startup=with_startup
        )
