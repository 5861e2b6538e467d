"""tracecols analyze"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.options import numbers, parameters
from tracecols.schema.severity import CONVENTIONS


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="NAME.severity",
    help="The cube to make.  [default: the trace's name, here]",
)
@click.option(
    "--conventions",
    type=click.Choice(list(CONVENTIONS)),
    default="scalasca",
    show_default=True,
    help=f"Whose rules to follow where analysers differ: {', '.join(CONVENTIONS.values())}.",
)
@click.option(
    "--topology",
    "topologies",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE.json",
    help="A grid the trace does not know of; may be given several times.",
)
@click.option(
    "-p",
    "--property",
    "properties",
    multiple=True,
    metavar="P",
    help="Search for this property only; its ancestors come along.",
)
@click.option(
    "--patterns",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.py",
    help="Search for the patterns this file declares as well.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    callback=parameters,
    metavar="P.NAME=VALUE",
    help="Give a parameter of a property a value.",
)
@click.option("--within", metavar="REGION", help="Only instances of this region, or pattern, and what they call.")
@click.option("--locations", callback=numbers, metavar="0,1,4-7", help="Only severities of these locations.")
@click.option("--from", "start", type=float, metavar="SECONDS", help="Only the piece of the trace from this time on.")
@click.option("--to", "stop", type=float, metavar="SECONDS", help="Only the piece before this time.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
def analyze(
    source: Path,
    output: Path | None,
    conventions: str,
    properties: tuple[str, ...],
    patterns: tuple[Path, ...],
    given: dict[str, dict[str, float]],
    within: str | None,
    locations: list[int] | None,
    start: float | None,
    stop: float | None,
    topologies: tuple[Path, ...],
    jobs: int | None,
) -> None:
    """Find wait states in SOURCE, a store or a trace archive, and write the severity cube.

    An archive is converted to a temporary store first; to analyze it more than once, convert it once. A piece between two
    times (seconds since the start of the recording) is analyzed as a trace by itself.

    \b
    A topology given by hand says where ranks stand, all of them in an order or each by itself:
      {"name": "grid", "sizes": [2, 2], "order": "F"}           C: the last coordinate runs fastest; F: the first
      {"name": "grid", "sizes": [2, 2], "coordinates": [[0, 0], [1, 0], [0, 1], [1, 1]]}
    """
    from tracecols.cli.progress import progress
    from tracecols.conversion import convert, store_name
    from tracecols.enhance.model import Model
    from tracecols.enhance.topologies import load_descriptions
    from tracecols.errors import StoreError
    from tracecols.jobs import n_jobs
    from tracecols.patterns.engine import analyze_model, choose
    from tracecols.patterns.plugins import load
    from tracecols.patterns.point_to_point import NOTES
    from tracecols.pieces.piece import piece_of
    from tracecols.scratch import temporary_folder
    from tracecols.store import Store
    from tracecols.store.layout import MANIFEST

    if (source / MANIFEST).exists() or (not source.exists() and source.suffix == ".trace"):
        name, archive = source.with_suffix(".severity").name, None
    else:
        name, archive = store_name(source).with_suffix(".severity").name, source
    output = output or Path(name)
    choice = choose(properties or None, given, within, locations)
    families = [family for file in patterns for family in load(file)]
    described = [d for file in topologies for d in load_descriptions(file)]
    with temporary_folder() as scratch:
        if archive is not None:
            try:
                with progress("converting") as report:
                    source = convert(archive, scratch / "converted.trace", jobs=jobs, progress=report)
            except StoreError as error:
                raise StoreError(
                    f"{str(error).splitlines()[0]}\n"
                    "  make room there, or set TMPDIR to a folder with more, or convert the trace to a store first"
                ) from error
        with progress("analyzing") as report, piece_of(Store(source), start, stop, n_jobs(jobs)) as store:
            cube = analyze_model(Model(store, n_jobs(jobs), report), conventions, families, choice, described)
    cube.save(output)
    click.echo(f"{output}: {cube.summary()}")
    for what, n in cube.facts["counts"].items():
        click.echo(f"note: {n:,} {what}" + (f" ({NOTES[what]})" if what in NOTES else ""), err=True)
