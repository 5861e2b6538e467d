"""tracecols check"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
@click.pass_context
def check(ctx: click.Context, store: Path, jobs: int | None) -> None:
    """Look for what contradicts itself in a STORE; exit code 1 if anything is found."""
    from tracecols.cli.progress import progress
    from tracecols.enhance.model import Model
    from tracecols.jobs import n_jobs
    from tracecols.patterns.engine import counts
    from tracecols.store import Store

    opened = Store(store)
    with progress("checking") as report:
        found = counts(Model(opened, n_jobs(jobs), report))
    found |= {f"records that were not understood ({name})": n for name, n in opened.manifest["not_understood"].items()}
    found |= {f"events lost at location {loss['location']}": loss["n_events"] for loss in opened.manifest["lost"]}
    for what, n in found.items():
        click.echo(f"{n:>12,}  {what}" if n >= 0 else f"{'some':>12}  {what}")
    if found:
        ctx.exit(1)
    click.echo("nothing contradicts itself")
