"""tracecols correct"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracecols.cli.options import finite
from tracecols.cli.output import echo
from tracecols.cli.what_if import seconds

if TYPE_CHECKING:
    from tracecols.clocks.correction import Bounds
    from tracecols.store import Store


def correction_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how clocks are corrected."""
    for option in (
        click.option(
            "--stretch", type=float, callback=finite, metavar="SHARE",
            help="By which share intervals may become longer before a correction.  [default: 0.01]",
        ),
        click.option(
            "--shrink", type=float, callback=finite, metavar="SHARE",
            help="By which share intervals may become shorter behind a correction.  [default: 1e-05]",
        ),
        click.option(
            "--latency", callback=seconds, metavar="TIME",
            help="What passes at least between a send and its receive, and in collective operations, such as 1us.  [default: 0]",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("source", metavar="STORE|ARCHIVE", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="NAME.trace",
    help="The store to make; one of a corrected trace that stands there is replaced.",
)
@correction_options
@click.option("--json", "as_json", is_flag=True, help="Print what was corrected as JSON.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads.  [default: one per core]")
def correct(
    source: Path,
    output: Path,
    latency: float | None,
    shrink: float | None,
    stretch: float | None,
    as_json: bool,
    jobs: int | None,
) -> None:
    """Correct clocks that disagree, by the controlled logical clock: nothing is received before it was sent.

    \b
    Times are found that satisfy all clock conditions: those of messages, collective operations, start and end of MPI,
    forks, joins and barriers of threads, and locks. Events only move to later times, and intervals change little.
    Without a violation nothing changes. 'tracecols check' lists the violations by pairs of locations.

    \b
      tracecols correct run.trace -o corrected.trace
      tracecols correct run.trace -o corrected.trace --latency 1us
    """
    from tracecols.cli.sources import is_store, opened
    from tracecols.clocks.correction import as_bounds

    bounds = as_bounds(latency=latency, shrink=shrink, stretch=stretch)
    with opened(source, jobs) as store:
        recorded = None if is_store(source) else Path(store.manifest["source"]["path"])
        write_corrected(store, output, bounds, jobs, recorded, as_json=as_json)


def write_corrected(
    store: Store,
    output: Path,
    bounds: Bounds,
    jobs: int | None,
    recorded: Path | None,
    *,
    as_json: bool = False,
    replaces: bool = False,
) -> None:
    """Correct the clocks of a store, write the result, and tell what was corrected.

    Parameters
    ----------
    store : Store
    output : Path
    bounds : Bounds
    jobs : int, optional
    recorded : Path, optional
        Where the recording stands, if the store is only a temporary one.
    as_json : bool, optional
        Tell it as JSON.
    replaces : bool, optional
        Whether the store of a recorded trace may be replaced, too.
    """
    from tracecols.cli.progress import phases, progress
    from tracecols.clocks.correction import Correction
    from tracecols.enhance.model import enhance
    from tracecols.jobs import n_jobs
    from tracecols.report.clocks import tell_correction

    with progress("correcting clocks") as report:
        scanning, gathering, writing = phases(report, store.manifest["n_events"], 0.4, 0.3, 0.3)
        model = enhance(store, n_jobs(jobs), scanning)
        correction = Correction(model, bounds, n_jobs(jobs), gathering, recorded)
        correction.save(output, progress=writing, replaces=replaces)
    if as_json:
        import json

        echo(json.dumps(correction.plain(), indent=1))
        return
    for line in tell_correction(correction):
        echo(line)
    echo(f"{output}")
    for note in correction.notes:
        echo(f"note: {note}", err=True)
