"""tracecols info"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tracecols.cli.output import echo_json
from tracecols.cli.vocabulary import PATH, option


@click.command()
@click.argument("source", type=PATH)
@option("as_json")
@option("jobs", "Threads to convert an archive.  [default: one per core]")
def info(source: Path, as_json: bool, jobs: int | None) -> None:
    """Print the contents of SOURCE: a store, a trace archive or a severity cube (also .cubex and .cube).

    For a trace: source, span, locations, events by kind, regions, communicators, topologies, counters; if the trace
    defines no topology, the one inferred from the communication partners. An archive is converted to a temporary store
    first. For a cube: the trace, the conventions, what it is narrowed to, and what could not be matched.
    """
    from tracecols.cli.sources import opened
    from tracecols.enhance.mpi.neighbours import topology_of
    from tracecols.export.cube_read import read_cube
    from tracecols.report.info import describe, describe_cube, plain, plain_cube
    from tracecols.report.screen import Screen
    from tracecols.store.layout import CUBES, is_made_here

    if is_made_here(source, "a severity cube") or source.name.endswith(CUBES):
        cube = read_cube(source)
        shown: Any = plain_cube(cube) if as_json else describe_cube(cube)
    else:
        with opened(source, jobs) as store:
            found = topology_of(store)
            shown = plain(store, found) if as_json else describe(store, found)
    if as_json:
        echo_json(shown)
    else:
        Screen().print(shown)
