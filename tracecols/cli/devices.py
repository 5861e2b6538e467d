"""tracecols devices"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo_json, echo_parts
from tracecols.cli.vocabulary import PATH, option


@click.command()
@click.argument("source", type=PATH)
@click.option(
    "--steps",
    metavar="REGION",
    help="The region of training steps: its name, a pattern, or its name without running numbers.  "
    "[default: regions recorded as phases]",
)
@option("rows", "Rows of each table to print.", default=10)
@option("as_json", "Print all rows as JSON.")
@option("jobs")
def devices(source: Path, steps: str | None, rows: int, as_json: bool, jobs: int | None) -> None:
    """Print the device activity of SOURCE, a store or a trace archive: each training step divided into computation,
    communication, copies and idle time; which ranks begin communication last, and what makes them late; kernels by
    time.

    Computation, overlapped communication, exposed communication, copies and idle time of a step add up to its time on
    the host. Idle time is host-bound while no launched operation is pending. If there are no steps, the whole run
    counts as one.
    """
    from tracecols.cli.progress import progress
    from tracecols.cli.sources import opened
    from tracecols.errors import AnalysisError
    from tracecols.report.devices import Answers, plain, render
    from tracecols.report.text import text_width
    from tracecols.trace import Trace

    with opened(source, jobs) as store, progress("analyzing") as report:
        trace = Trace(store.path, jobs=jobs, progress=report)
        if not trace.model.has_device_work:
            raise AnalysisError(
                f"{source} has no events of devices\n  wait states of hosts are found by: tracecols analyze {source}"
            )
        found = Answers(trace.training_steps(steps), trace.stragglers(), trace.kernel_profile())
    if as_json:
        echo_json(plain(found))
        return
    echo_parts(render(found, rows, text_width()), text_width())
