"""tracecols view"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.output import echo, open_in_browser
from tracecols.cli.vocabulary import PATH, option

if TYPE_CHECKING:
    from tracecols.severity.cube import SeverityCube
    from tracecols.store import Store
    from tracecols.timeline.compared import Run
    from tracecols.timeline.prepare import Prepared
    from tracecols.timeline.server import ViewServer


@click.command()
@click.argument("source", metavar="STORE|CUBE|ARCHIVE", type=PATH)
@click.argument("other", metavar="[STORE|CUBE|ARCHIVE]", required=False, type=PATH)
@click.option("--port", type=click.IntRange(1, 65535), help="The port to listen on.  [default: any free port]")
@option("start", "Start of the time range to show.")
@option("stop", "End of the time range to show.")
@option(
    "properties", "Show the severity of this property (id or title) in the rows.", called="severity", multiple=False
)
@option(
    "phases",
    "Show all instances of a phase, one above the other: a region, the end of a call path, or from:CALL. Two runs are "
    "aligned at the first instance.",
)
@option(
    "subdomains",
    "Group rows by subdomain of the application, not by machine and node: a file with the columns rank, thread "
    "(optional) and subdomain.",
)
@option("no_browser")
@option("memory")
@option("jobs", "Threads to analyse a trace and to serve the page.  [default: one per core]")
def view(
    source: Path,
    other: Path | None,
    port: int | None,
    start: float | None,
    stop: float | None,
    severity: str | None,
    phases: str | None,
    subdomains: Path | None,
    no_browser: bool,
    memory: int | None,
    jobs: int | None,
) -> None:
    """Show the timeline of a trace in a browser: from the whole run to single events, with waits and their causes.

    An archive is converted to a temporary store; a cube needs its store beside it or in the current folder. The files
    for the page are made once and kept in the store. A second run is shown below the first, with the same zoom. The
    server listens on this machine only and ends with Ctrl-C; over SSH, it prints the command that forwards its port.
    """
    from tracecols.cli.preparing import Preparing
    from tracecols.cli.progress import compiling_ahead, progress
    from tracecols.cli.sources import opened
    from tracecols.timeline.answers import Timeline
    from tracecols.timeline.compared import Run
    from tracecols.timeline.prepare import find_prepared
    from tracecols.timeline.server import ViewServer
    from tracecols.work.jobs import n_jobs
    from tracecols.work.memory import Budget

    if phases is not None and (start, stop, severity) != (None, None, None):
        raise click.UsageError("--phases shows instances from their begin to their end, without --from, --to and -p")
    sources = [store_and_cube(path) for path in (source, other) if path is not None]
    with compiling_ahead(n_jobs(jobs)), ExitStack() as kept:
        budget, runs, preparing = Budget.default(memory), list[Run](), None

        def run_of(store: Store, prepared: Prepared, cube: SeverityCube | None) -> Run:
            return Run.of(Timeline(store, prepared, subdomains), jobs, budget, cube)

        for path, cube in sources:
            store = kept.enter_context(opened(path, jobs))
            prepared = find_prepared(store)
            if prepared is None:
                preparing = kept.enter_context(Preparing(store, n_jobs(jobs), budget))
                needs_all = (other, severity, phases) != (None, None, None)
                prepared = preparing.all(progress) if needs_all else preparing.first(progress)
            runs.append(run_of(store, prepared, cube))
        first = runs[0]
        shown = first.timeline.address(start, stop, severity)
        second = runs[1] if other is not None else None
        if phases is not None and second is None:
            first.folds.of(phases)
        with ViewServer(first, port or 0, n_jobs(jobs), second) as server, suppress(KeyboardInterrupt):
            url = address_of(server, phases, shown)
            _say_where(url, server.server_port)
            if first.timeline.prepared.is_first and preparing is not None:
                echo("Waits, their causes and the critical path are still being analysed: the page shows the progress.")
                preparing.later(
                    server.rest.watch, lambda found: server.show(run_of(store, found, cube)), server.rest.failed
                )
            if not no_browser and sys.stdout.isatty() and not open_in_browser(url):
                echo("note: no browser could be opened", err=True)
            server.serve_forever()


def address_of(server: ViewServer, phases: str | None, shown: str) -> str:
    """Return the address of the timeline, of the instances of a phase, or of two runs; `shown` is the fragment."""
    from urllib.parse import urlencode

    from tracecols.timeline.page import COMPARE

    page = ""
    if server.comparison is not None:
        page = COMPARE
        if phases is not None:
            server.comparison.alignment("phase", phases)
            shown = urlencode({"by": "phase", "of": phases, "k": 0})
    elif phases is not None:
        page = f"fold?{urlencode({'phase': phases})}"
    return f"{server.url}{page}#{shown}" if shown else f"{server.url}{page}"


def store_and_cube(source: Path) -> tuple[Path, SeverityCube | None]:
    """Return the store to show, and the cube if it covers the whole trace under the default conventions, so that an
    analysis of the store would give the same; None otherwise."""
    from tracecols.cli.report import store_of
    from tracecols.cli.sources import cube_of, holds_cube
    from tracecols.errors import StoreError
    from tracecols.schema.severity import DEFAULT

    if not holds_cube(source):
        return source, None
    cube = cube_of(source)
    store = store_of(source, cube)
    if not store:
        raise StoreError(
            f"the store that {source} was made of is neither beside it nor here\n  give the store: tracecols view STORE"
        )
    is_whole = cube.facts.get("conventions") == DEFAULT and "narrowed" not in cube.facts
    return Path(store), cube if is_whole else None


def _say_where(url: str, port: int) -> None:
    """Print the address, and in SSH sessions the command that forwards the port."""
    echo(f"The timeline is at {url}")
    if os.environ.get("SSH_CONNECTION"):
        host = os.environ["SSH_CONNECTION"].split()[2:3]
        echo(
            f"On your own machine: ssh -L {port}:127.0.0.1:{port} {host[0] if host else 'HOST'}, then open this "
            "address there."
        )
    echo("Ctrl-C ends it.")
