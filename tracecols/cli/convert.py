"""tracecols convert"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.correct import correction_options, write_corrected


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="NAME.trace",
    help="The store to make.  [default: the archive's name, here]",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
@click.option(
    "--correct-clocks", is_flag=True,
    help="Write times that satisfy all clock conditions, as 'tracecols correct' does; takes a temporary store beside (TMPDIR).",
)  # fmt: skip
@correction_options
@click.option("--salvage", is_flag=True, help="Of a damaged archive keep what can be read, and say what was lost.")
def convert(
    source: Path,
    output: Path | None,
    jobs: int | None,
    correct_clocks: bool,
    latency: float | None,
    shrink: float | None,
    stretch: float | None,
    salvage: bool,
) -> None:
    """Convert the trace archive SOURCE (its anchor file or folder) to a store."""
    from tracecols.cli.progress import progress
    from tracecols.clocks.correction import as_bounds
    from tracecols.conversion import convert as run
    from tracecols.conversion import store_name
    from tracecols.report.info import fate
    from tracecols.scratch import temporary_folder
    from tracecols.store import Store

    given = {"latency": latency, "shrink": shrink, "stretch": stretch}
    if correct_clocks:
        bounds = as_bounds(**given)
        path = output if output is not None else store_name(source)
        with temporary_folder() as scratch:
            with progress("converting") as report:
                recorded = run(source, scratch / "recorded.trace", jobs=jobs, salvage=salvage, progress=report)
            store = Store(recorded)
            write_corrected(store, path, bounds, jobs, Path(store.manifest["source"]["path"]), replaces=True)
    else:
        unused = [f"--{name}" for name, value in given.items() if value is not None]
        if unused:
            raise click.UsageError(f"{', '.join(unused)} without --correct-clocks: clocks are not corrected")
        with progress("converting") as report:
            path = run(source, output, jobs=jobs, salvage=salvage, progress=report)
    manifest = Store(path).manifest
    click.echo(f"{path}: {manifest['n_events']:,} events, {manifest['n_locations']:,} locations")
    for what, n in manifest["not_understood"].items():
        click.echo(f"warning: {n:,} records of {what} were not understood; they are {fate(what)}", err=True)
    for loss in manifest["lost"]:
        n = f"{loss['n_events']:,} events" if loss["n_events"] >= 0 else "an unknown number of events"
        click.echo(f"warning: location {loss['location']}: {n} lost: {loss['reason']}", err=True)
