"""tracecols report"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo


@click.command()
@click.argument("severity", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to write.  [default: NAME.html]")
@click.option("--title", help="What is above the trees.  [default: the name of the trace]")
@click.option(
    "--sources",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Show the source lines of regions: the files are looked for below this folder. Nothing of them is in the report otherwise.",
)
@click.option("--with-startup", is_flag=True, help="Show start-up and shutdown, too; they are set apart by default.")
@click.option("--force", is_flag=True, help="Replace any file, not only a report.")
def report(
    severity: Path, output: Path | None, title: str | None, sources: Path | None, with_startup: bool, force: bool
) -> None:
    """Write a SEVERITY cube as one HTML file: three coupled trees, topologies and distributions.

    A cube of another tool (.cubex, .cube) works, too. The file needs no network and no server: open it with a browser,
    copy it, send it by mail.
    """
    from tracecols.export.cube_read import read_cube
    from tracecols.report.viewer.page import report_output, write_page
    from tracecols.report.viewer.sources import Sources
    from tracecols.store.outputs import check_not_read

    output = output or Path(f"{severity.resolve().stem}.html")
    check_not_read(output, severity)
    report_output(output, force=force).check()
    cube = read_cube(severity)
    found = None if sources is None else Sources.of(cube.call_paths, sources)
    path = write_page(cube, output, title, found, force=force, with_startup=with_startup)
    echo(f"{path}: {path.stat().st_size:,} bytes")
    if found is not None and found.note:
        echo(f"note: {len(found.missing)} {found.note}", err=True)
    if left_out := [name for name in cube.properties.id if not cube.properties.adds_up(name)]:
        echo(f"note: left out, since they do not add up: {', '.join(left_out)}", err=True)
