"""tracecols info"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Threads to convert an archive.  [default: one per core]"
)
def info(source: Path, jobs: int | None) -> None:
    """Print what SOURCE holds, a store, a trace archive or a severity cube (also .cubex and .cube).

    Of a trace: source, span, locations, events by kind, regions, communicators, topologies, counters. An archive is
    converted to a temporary store first. Of a cube: the trace, the conventions, what it is narrowed to, and what could
    not be matched.
    """
    from tracecols.cli.sources import opened
    from tracecols.export.cube_read import read_cube
    from tracecols.report.info import describe, describe_cube
    from tracecols.report.screen import Screen
    from tracecols.store.layout import CUBES, is_made_here

    console = Screen()
    if is_made_here(source, "a severity cube") or source.name.endswith(CUBES):
        console.print(describe_cube(read_cube(source)))
        return
    with opened(source, jobs) as store:
        console.print(describe(store))
