"""tracecols check"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo, echo_json
from tracecols.cli.vocabulary import option


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@option("rows", "How many instances to show of each violated constraint.", default=3, old=("--first",))
@option("as_json", "Print what is found as JSON.")
@option("jobs")
@click.pass_context
def check(ctx: click.Context, source: Path, rows: int, as_json: bool, jobs: int | None) -> None:
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
    Clocks that disagree by no more than they can be read are noted, and are no violation.
    """
    from tracecols.cli.progress import progress
    from tracecols.cli.sources import opened
    from tracecols.model.model import enhance
    from tracecols.report.check import check_trace, recording_in_words, skew_in_words, tell
    from tracecols.work.jobs import n_jobs
    from tracecols.work.progress import SCAN, shares_of

    with opened(source, jobs) as store, progress("checking") as report:
        scanning, searching = shares_of(report, store.manifest["n_events"], SCAN, 1 - SCAN)
        notes = [store.note]
        found = check_trace(enhance(store, n_jobs(jobs), scanning), rows, searching)
    for note in filter(None, (*notes, skew_in_words(found), recording_in_words(found))):
        echo(f"note: {note}", err=True)
    if as_json:
        echo_json(found.plain())
    else:
        for line in tell(found):
            echo(line)
    if found.contradicts:
        ctx.exit(1)
    if not as_json:
        echo("nothing contradicts itself")
