"""tracecols analyze"""

from __future__ import annotations

from pathlib import Path

import click

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
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
def analyze(source: Path, output: Path | None, conventions: str, jobs: int | None) -> None:
    """Find wait states in SOURCE, a store or a trace archive, and write the severity cube.

    An archive is converted to a temporary store first; to analyze it more than once, convert it once.
    """
    from tracecols.cli.progress import progress
    from tracecols.conversion import convert, store_name
    from tracecols.enhance.model import Model
    from tracecols.errors import StoreError
    from tracecols.jobs import n_jobs
    from tracecols.patterns.engine import analyze_model
    from tracecols.scratch import temporary_folder
    from tracecols.store import Store
    from tracecols.store.layout import MANIFEST

    if (source / MANIFEST).is_file() or (not source.exists() and source.suffix == ".trace"):
        name, archive = source.with_suffix(".severity").name, None
    else:
        name, archive = store_name(source).with_suffix(".severity").name, source
    output = output or Path(name)
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
        with progress("analyzing") as report:
            cube = analyze_model(Model(Store(source), n_jobs(jobs), report), conventions)
    cube.save(output)
    click.echo(f"{output}: {cube.summary()}")
    for what, n in cube.facts["counts"].items():
        click.echo(f"note: {n:,} {what}", err=True)
