"""tracecols report"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.output import echo
from tracecols.cli.vocabulary import PATH, option

if TYPE_CHECKING:
    from tracecols.severity.cube import SeverityCube


@click.command()
@click.argument("severity", metavar="CUBE|STORE|ARCHIVE", type=PATH)
@option("output", "The file to write.  [default: NAME.html]", metavar="FILE.html")
@click.option("--title", help="Title of the report.  [default: the name of the trace]")
@click.option(
    "--sources",
    type=PATH,
    metavar="FOLDER",
    help="Show the source lines of regions, from files below this folder. By default, the report contains no source "
    "code.",
)
@option(
    "subdomains",
    "Also show subdomains of the application; a switch in the system tree shows the machine. A file with the "
    "columns rank, thread (optional) and subdomain.",
)
@option("with_startup", "Include start-up and shutdown, which are excluded by default.")
@option("force", "Replace any file, not only a report.")
@option("jobs", "Threads to analyse a trace.  [default: one per core]")
def report(
    severity: Path,
    output: Path | None,
    title: str | None,
    sources: Path | None,
    subdomains: Path | None,
    with_startup: bool,
    force: bool,
    jobs: int | None,
) -> None:
    """Write a severity CUBE as one HTML file: three coupled trees, topologies and distributions.

    A cube of another tool (.cubex, .cube) works, too; a trace (STORE, ARCHIVE) is analysed first, and the cube is not
    kept. The file needs no network and no server: open it with a browser, copy it, send it by mail.
    """
    from tracecols.cli.sources import cube_of
    from tracecols.report.viewer.metrics import left_out_of
    from tracecols.report.viewer.page import report_output, write_page
    from tracecols.report.viewer.sources import Sources
    from tracecols.store.outputs import check_not_read

    output = output or Path(f"{report_name(severity)}.html")
    check_not_read(output, severity)
    report_output(output, force=force).check()
    if output.suffix not in ("", ".html", ".htm"):
        raise click.UsageError(f"{output}: a report is a page for browsers; give a name that ends with .html")
    cube = cube_of(severity, jobs)
    found = None if sources is None else Sources.of(cube.call_paths, sources)
    store = store_of(severity, cube)
    path = write_page(
        cube, output, title, found, force=force, with_startup=with_startup, store=store, subdomains=subdomains
    )
    echo(f"{path}: {path.stat().st_size:,} bytes")
    if found is not None and found.note:
        echo(f"note: {len(found.missing)} {found.note}", err=True)
    if left_out := left_out_of(cube):
        echo(f"note: left out, since they do not add up: {', '.join(left_out)}", err=True)


def report_name(source: Path) -> str:
    """Return the name of a report, after its source: a cube or store, or the folder of an archive."""
    from tracecols.cli.sources import holds_cube, is_store
    from tracecols.conversion import store_name

    named = source.resolve() if is_store(source) or holds_cube(source) else store_name(source)
    return named.stem


def store_of(source: Path, cube: SeverityCube) -> str:
    """Return the path of the store that a cube was made from: `source` itself, beside it, or in the current folder;
    empty if it is none of these."""
    from tracecols.cli.sources import holds_cube, is_store, properties_of
    from tracecols.errors import TracecolsError
    from tracecols.severity.diagnosis import name_of

    if is_store(source) and not holds_cube(source):
        return str(source)
    names = dict.fromkeys(f"{name}.trace" for name in (source.name.partition(".")[0], name_of(cube)) if name)
    recorded = ((cube.facts.get("trace") or {}).get("source") or {}).get("path")
    for path in (folder / name for folder in (source.parent, Path()) for name in names):
        try:
            if path.exists() and is_store(path) and properties_of(path).get("path") == recorded:
                return str(path)
        except TracecolsError:
            continue
    return ""
