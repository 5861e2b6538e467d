"""tracecols convert"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tracecols.cli.cluster import GivenCluster, cluster_options


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
@click.option("--salvage", is_flag=True, help="Of a damaged archive keep what can be read, and say what was lost.")
@cluster_options
def convert(source: Path, output: Path | None, jobs: int | None, salvage: bool, **cluster: Any) -> None:
    """Convert the trace archive SOURCE (its anchor file or folder) to a store.

    With --workers, --scheduler or --scheduler-file (extra dask) processes of their own do the work, also on other machines.
    """
    from tracecols.cli.progress import progress
    from tracecols.conversion import convert as run
    from tracecols.conversion import convert_with, store_name
    from tracecols.converters.registry import find_anchor
    from tracecols.report.info import fate
    from tracecols.store import Store

    asked = GivenCluster(**cluster)
    asked.check()
    anchor = find_anchor(source)
    path = store_name(source) if output is None else output
    with asked.opened(jobs, path, {"the archive": anchor}) as workers, progress("converting") as report:
        if workers is None:
            run(source, path, jobs=jobs, salvage=salvage, progress=report)
        else:
            convert_with(workers, source, path, salvage=salvage, progress=report)
    manifest = Store(path).manifest
    click.echo(f"{path}: {manifest['n_events']:,} events, {manifest['n_locations']:,} locations")
    for what, n in manifest["not_understood"].items():
        click.echo(f"warning: {n:,} records of {what} were not understood; they are {fate(what)}", err=True)
    for loss in manifest["lost"]:
        n = f"{loss['n_events']:,} events" if loss["n_events"] >= 0 else "an unknown number of events"
        click.echo(f"warning: location {loss['location']}: {n} lost: {loss['reason']}", err=True)
