"""tracecols serve"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.vocabulary import option


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--mcp", is_flag=True, help="Speak the Model Context Protocol on standard input and output.")
@option("memory")
@option("jobs", "Threads to convert and analyse traces.  [default: one per core]")
def serve(paths: tuple[Path, ...], mcp: bool, memory: int | None, jobs: int | None) -> None:
    """Answer queries from programs, such as assistants, about traces and cubes.

    Only files in the PATHs are opened: folders, traces or cubes; by default the current folder. They are not changed,
    except that tables needed for SQL are kept in the store. The server runs until its standard input ends. Programs
    start it themselves: see docs/serve.md.

    \b
      tracecols serve --mcp traces/
    """
    if not mcp:
        raise click.UsageError("say in which way: --mcp, the Model Context Protocol")
    from tracecols.cli.progress import compiling_ahead
    from tracecols.serve.server import check_installed, run
    from tracecols.work.jobs import n_jobs

    check_installed()
    from tracecols.serve.files import Files
    from tracecols.serve.tools import Tools

    with compiling_ahead(n_jobs(jobs)), Files(paths or (Path(),), jobs, memory) as files:
        run(Tools(files))
