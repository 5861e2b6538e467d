"""tracecols phases"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo, echo_json
from tracecols.cli.vocabulary import PATH, option


@click.command()
@click.argument("source", type=PATH)
@option("rows", "Proposals to print.", default=10)
@option("as_json", "Print all proposals as JSON.")
@option("jobs")
def phases(source: Path, rows: int, as_json: bool, jobs: int | None) -> None:
    """Propose phases of SOURCE, a store or a trace archive, such as the iterations of its main loop: values for
    tracecols analyze --phases.

    Proposals are regions and calls that every process executes the same number of times, ranked by the share of the
    time they cover and by the regularity of their lengths. With the prefix from:, a phase lasts from one call to the
    next.
    """
    from shlex import quote

    from tracecols.cli.progress import progress
    from tracecols.cli.sources import opened
    from tracecols.model.model import enhance
    from tracecols.patterns.candidates import propose_phases
    from tracecols.work.jobs import n_jobs

    with opened(source, jobs) as store:
        with progress("scanning") as report:
            model = enhance(store, n_jobs(jobs), report)
        found = propose_phases(model)
    if as_json:
        echo_json([{**c._asdict(), "score": c.score} for c in found])
        return
    if not found:
        echo(
            "no phases found: no call path outside of parallel regions is entered equally often by all processes, at "
            "least three times, with similar lengths, and for half a percent of the time\n"
            f"  name a region, or divide by time: tracecols analyze {quote(str(source))} --bins 100"
        )
        return
    echo("  score  covers   even  phases         mean  --phases")
    for c in found[:rows]:
        echo(f"{c.score:7.1%} {c.coverage:7.1%} {c.regularity:6.1%} {c.n_phases:7,} {c.mean:10.6f} s  {c.phases}")
    echo(f"\ntracecols analyze {quote(str(source))} --phases {quote(found[0].phases)}")
