"""tracecols export"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.options import numbers


@click.command()
@click.argument("source", metavar="SEVERITY|STORE", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--table", metavar="NAME", help="Of a store: events, messages, collectives, ...  [default: events]")
@click.option("--from", "start", type=float, metavar="SECONDS", help=".otf2: events from this time on.")
@click.option("--to", "stop", type=float, metavar="SECONDS", help=".otf2: events before this time.")
@click.option("--locations", callback=numbers, metavar="0,1,4-7", help=".otf2: events of these locations.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help=".otf2: threads.  [default: one per core]")
def export(
    source: Path,
    output: Path,
    table: str | None,
    start: float | None,
    stop: float | None,
    locations: list[int] | None,
    jobs: int | None,
) -> None:
    """Write a SEVERITY cube, or a table of a STORE, to OUTPUT; its ending says the format: .parquet, .csv, .json.

    \b
    A cube becomes a long table: property, call_path, rank, thread, value (seconds, occurrences or bytes); as .json it
    keeps its three trees.

    A STORE can also be written as an OTF2 archive for other tools: OUTPUT NAME.otf2, beside it NAME.def and the folder
    NAME. A piece of it, cut by time (seconds since the start of the recording) or locations, is a trace by itself.
    """
    if output.suffix == ".otf2":
        if table is not None:
            raise click.UsageError("--table has no meaning for an archive (.otf2), which holds the whole trace.")
        _archive(source, output, start, stop, locations, jobs)
        return
    given = {"--from": start, "--to": stop, "--locations": locations, "--jobs": jobs}
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)}: only for an archive as output (.otf2), not for {output.name}.")
    from tracecols.export.tables import export as run

    run(source, output, table or "events")
    click.echo(f"{output}")


def _archive(
    source: Path, output: Path, start: float | None, stop: float | None, locations: list[int] | None, jobs: int | None
) -> None:
    from tracecols.cli.progress import progress
    from tracecols.export.archive import export_archive

    with progress("exporting") as show:
        report = export_archive(source, output, locations=locations, start=start, stop=stop, jobs=jobs, progress=show)
    click.echo(f"{output}")
    for what, n in report.unknown.items():
        click.echo(f"left out, as OTF2 has no record for them: {n:,} {what}", err=True)
