"""tracecols report"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo
from tracecols.cli.vocabulary import option


@click.command()
@click.argument("severity", metavar="CUBE|STORE|ARCHIVE", type=click.Path(path_type=Path))
@option("output", "Where to write.  [default: NAME.html]", metavar="FILE.html")
@click.option("--title", help="What is above the trees.  [default: the name of the trace]")
@click.option(
    "--sources",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Show the source lines of regions: the files are looked for below this folder. Nothing of them is in the report otherwise.",
)
@option("with_startup", "Show start-up and shutdown, too; they are set apart by default.")
@option("force", "Replace any file, not only a report.")
@option("jobs", "Threads to analyse a trace.  [default: one per core]")
def report(
    severity: Path,
    output: Path | None,
    title: str | None,
    sources: Path | None,
    with_startup: bool,
    force: bool,
    jobs: int | None,
) -> None:
    """Write a severity CUBE as one HTML file: three coupled trees, topologies and distributions.

    A cube of another tool (.cubex, .cube) works, too; a trace (STORE, ARCHIVE) is analysed first, and the cube is not kept. The file needs no network and no server: open it with a browser,
    copy it, send it by mail.
    """
    from tracecols.cli.sources import cube_of
    from tracecols.report.viewer.page import report_output, write_page
    from tracecols.report.viewer.sources import Sources
    from tracecols.store.outputs import check_not_read

    output = output or Path(f"{report_name(severity)}.html")
    check_not_read(output, severity)
    report_output(output, force=force).check()
    cube = cube_of(severity, jobs)
    found = None if sources is None else Sources.of(cube.call_paths, sources)
    path = write_page(cube, output, title, found, force=force, with_startup=with_startup)
    echo(f"{path}: {path.stat().st_size:,} bytes")
    if found is not None and found.note:
        echo(f"note: {len(found.missing)} {found.note}", err=True)
    if left_out := [name for name in cube.properties.id if not cube.properties.adds_up(name)]:
        echo(f"note: left out, since they do not add up: {', '.join(left_out)}", err=True)


def report_name(source: Path) -> str:
    """Return what a report is called after its source: a cube or store, or the folder of an archive."""
    from tracecols.cli.sources import holds_cube, is_store
    from tracecols.conversion import store_name

    named = source.resolve() if is_store(source) or holds_cube(source) else store_name(source)
    return named.stem
