"""tracecols correct"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.options import share
from tracecols.cli.output import echo, echo_json
from tracecols.cli.vocabulary import PATH, option, together

if TYPE_CHECKING:
    from tracecols.clocks.correction import Bounds
    from tracecols.store import Store


correction_options = together(
    option(
        "latency",
        "Minimum time between a send and its receive, and in collective operations, such as 1us.  [default: 0]",
    ),
    click.option(
        "--shrink",
        callback=share,
        metavar="SHARE",
        help="Share by which intervals may become shorter after a correction.  [default: 1e-05]",
    ),
    click.option(
        "--stretch",
        callback=share,
        metavar="SHARE",
        help="Share by which intervals may become longer before a correction.  [default: 0.01]",
    ),
)
"""Decorator that adds the parameters of the clock correction as options."""


@click.command()
@click.argument("source", metavar="STORE|ARCHIVE", type=PATH)
@option(
    "output",
    "The store to write; an existing store of a corrected trace is replaced.",
    required=True,
    metavar="NAME.trace",
)
@correction_options
@option("force", "Also replace the store of another trace, or any file.")
@option("as_json", "Print what was corrected as JSON.")
@option("jobs")
def correct(
    source: Path,
    output: Path,
    latency: float | None,
    shrink: float | None,
    stretch: float | None,
    force: bool,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Correct unsynchronised clocks with the controlled logical clock: nothing is received before it was sent.

    \b
    The corrected times satisfy all clock conditions: those of messages, collective operations, start and end of MPI,
    forks, joins and barriers of threads, and locks. Events only move to later times, and intervals change little.
    If no condition is violated, nothing changes. 'tracecols check' lists the violations by pairs of locations.

    \b
      tracecols correct run.trace -o corrected.trace
      tracecols correct run.trace -o corrected.trace --latency 1us
    """
    from tracecols.cli.sources import is_store, opened, properties_of
    from tracecols.clocks.correction import as_bounds
    from tracecols.store.outputs import CORRECTED, check_not_read, store_output

    bounds = as_bounds(latency=latency, shrink=shrink, stretch=stretch)
    check_not_read(output, source)
    store_output(output, {**properties_of(source), CORRECTED: ""}, force=force).check()
    with opened(source, jobs) as store:
        recorded = None if is_store(source) else Path(store.manifest["source"]["path"])
        write_corrected(store, output, bounds, jobs, recorded, force=force, as_json=as_json)


def write_corrected(
    store: Store,
    output: Path,
    bounds: Bounds,
    jobs: int | None,
    recorded: Path | None,
    *,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Correct the clocks of a store, write the result, and report what was corrected.

    `recorded` is the path of the recording if the store is temporary; with `force`, the store of a recorded trace, or
    any file, is replaced as well.
    """
    from tracecols.cli.progress import progress
    from tracecols.clocks.correction import Correction
    from tracecols.model.model import enhance
    from tracecols.report.check import lines_of_correction
    from tracecols.work.jobs import n_jobs
    from tracecols.work.progress import shares_of

    with progress("correcting clocks") as report:
        scanning, gathering, writing = shares_of(report, store.manifest["n_events"], 0.4, 0.3, 0.3)
        model = enhance(store, n_jobs(jobs), scanning)
        correction = Correction(model, bounds, n_jobs(jobs), gathering, recorded)
        correction.save(output, progress=writing, force=force)
    if as_json:
        echo_json({"format": "tracecols correction", **correction.plain()})
        return
    for line in lines_of_correction(correction):
        echo(line)
    echo(f"{output}")
    for note in correction.notes:
        echo(f"note: {note}", err=True)
