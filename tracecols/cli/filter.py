"""tracecols filter"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo, echo_json
from tracecols.cli.vocabulary import PATH, option


@click.command()
@click.argument("source", type=PATH)
@option("output", "The filter to write.  [default: none, the prediction is printed]", metavar="FILE.filter")
@option("rows", "Maximum number of regions to print: those with most events.", default=10)
@option("force", "Replace any file, not only a filter.")
@option("as_json", "Print the prediction as JSON.")
@option("jobs")
def filter(source: Path, output: Path | None, rows: int, force: bool, as_json: bool, jobs: int | None) -> None:
    """Find the regions of SOURCE, a store or a trace archive, that are not worth recording, and write a filter that
    excludes them from the next measurement with Score-P (SCOREP_FILTERING_FILE).

    Excluded are functions of the program that are called 1,000 times or more, take less than 1 us per call (mean,
    exclusive), and call nothing that communicates or waits (MPI, OpenMP, ...). The events and bytes of the next
    measurement, and the time that recording takes, are predicted from the numbers of calls.
    """
    from tracecols.cli.progress import progress
    from tracecols.cli.sources import opened
    from tracecols.export.filters import filter_output, filter_text, plain, prediction
    from tracecols.model.model import enhance
    from tracecols.store.outputs import check_not_read
    from tracecols.verbs.recording import recording_of
    from tracecols.work.jobs import n_jobs

    if output is not None:
        check_not_read(output, source)
        filter_output(output, force=force).check()
    with opened(source, jobs) as store, progress("scanning") as report:
        found = recording_of(enhance(store, n_jobs(jobs), report))
    if output is not None:
        filter_output(output, force=force).write(filter_text(found, str(source)))
    if as_json:
        echo_json(plain(found))
        return
    if found.is_left_out.any():
        echo("      calls         mean  left out")
    for region in plain(found)["left_out"][:rows]:
        echo(f"{region['visits']:11,} {region['mean'] * 1e9:9.0f} ns  {region['region']}")
    for line in prediction(found):
        echo(line)
    if output is not None:
        echo(f"{output}: measure with SCOREP_FILTERING_FILE={output}")
