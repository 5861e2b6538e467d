"""tracecols check"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo, echo_json
from tracecols.cli.vocabulary import PATH, option


@click.command()
@click.argument("source", type=PATH)
@option("rows", "Instances to show of each violated constraint.", default=3, old=("--first",))
@option("as_json", "Print the results as JSON.")
@option("jobs")
@click.pass_context
def check(ctx: click.Context, source: Path, rows: int, as_json: bool, jobs: int | None) -> None:
    """Check SOURCE, a store or a trace archive, for inconsistencies; exit code 1 if there are any.

    \b
    In a valid trace:
      region instances are nested, and all of them end
      every message sent is received, and vice versa
      all members of a communicator execute all its collective operations in the same order, with the same roots
      non-blocking collective operations are started by all members, and completed
      all members take part in operations on windows and in collective operations on files
      all threads of a team execute all its constructs in the same order, and every task is completed once
      locks are acquired and released alternately
      clocks agree: nothing is received before it was sent, no participant leaves a barrier before all have entered it
      threads run between FORK and JOIN of their team, and leave barriers after all have entered
      time does not decrease at a location

    All violations are counted, and the first ones are reported with time, location and names. If clocks disagree, the
    pairs of locations are reported, with the clock offset that would remove the violations; 'tracecols correct'
    corrects the clocks. Disagreements within the accuracy of the clocks are noted, but are not violations.
    """
    from tracecols.cli.progress import progress
    from tracecols.cli.sources import opened
    from tracecols.model.model import enhance
    from tracecols.report.check import check_trace, lines, recording_in_words, skew_in_words
    from tracecols.work.jobs import n_jobs
    from tracecols.work.progress import SCAN, shares_of

    with opened(source, jobs) as store, progress("checking") as report:
        scanning, searching = shares_of(report, store.manifest["n_events"], SCAN, 1 - SCAN)
        note_of_store = store.note
        found = check_trace(enhance(store, n_jobs(jobs), scanning), rows, searching)
    for note in filter(None, (note_of_store, skew_in_words(found), recording_in_words(found))):
        echo(f"note: {note}", err=True)
    if as_json:
        echo_json(found.plain())
    else:
        for line in lines(found):
            echo(line)
    if found.contradicts:
        ctx.exit(1)
    if not as_json:
        echo("nothing contradicts itself")
