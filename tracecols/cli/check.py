"""tracecols check"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--first",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    metavar="N",
    help="How many instances to show of each violated constraint.",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
@click.pass_context
def check(ctx: click.Context, source: Path, first: int, jobs: int | None) -> None:
    """Look for what contradicts itself in SOURCE, a store or a trace archive; exit code 1 if anything is found.

    \b
    What a valid trace satisfies:
      region instances nest and end
      every message that is sent is received, and the other way round
      members of a communicator execute its collective operations in the same order, all of them
      threads of a team execute constructs in the same order, all of them
      locks are acquired and released in turn
      clocks agree: nothing is received before it was sent, no participant leaves a barrier before all have entered it
      threads run between FORK and JOIN of their team, and leave barriers when all have entered
      time does not decrease at a location

    Each violation is counted, and the first ones are reported with time, location and names. Where clocks disagree, the
    pairs of locations are reported, with the offset of the clock that would mend it; 'tracecols correct' corrects them.
    """
    from tracecols.cli.progress import progress
    from tracecols.cli.sources import opened
    from tracecols.model.model import enhance
    from tracecols.report.check import tell_violations
    from tracecols.work.jobs import n_jobs
    from tracecols.work.progress import SCAN, shares_of

    with opened(source, jobs) as store, progress("checking") as report:
        scanning, searching = shares_of(report, store.manifest["n_events"], SCAN, 1 - SCAN)
        note = store.note
        lines = list(tell_violations(enhance(store, n_jobs(jobs), scanning), first, searching))
    if note:
        echo(f"note: {note}", err=True)
    for line in lines:
        echo(line)
    if lines:
        ctx.exit(1)
    echo("nothing contradicts itself")
