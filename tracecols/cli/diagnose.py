"""tracecols diagnose"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.output import echo, echo_json
from tracecols.cli.vocabulary import PATH, option

if TYPE_CHECKING:
    from tracecols.severity.diagnosis import Diagnosis


def print_diagnosis(diagnosis: Diagnosis, source: str, *, err: bool = False) -> None:
    """Print a diagnosis, in colours on a terminal."""
    from tracecols.report.diagnosis import STYLES, WIDTH, lines
    from tracecols.report.text import text_width

    for line, style in lines(diagnosis, source, min(WIDTH, text_width())):
        echo(line, err=err, **STYLES[style])


@click.command()
@click.argument("severity", metavar="CUBE|STORE|ARCHIVE", type=PATH)
@option("rows", "Maximum number of findings to show.", default=5, old=("--findings",))
@option("with_startup", "Include start-up and shutdown, which are excluded by default.")
@option("as_json")
@option("jobs", "Threads to analyse a trace.  [default: one per core]")
def diagnose(severity: Path, rows: int, with_startup: bool, as_json: bool, jobs: int | None) -> None:
    """Diagnose the run of a severity CUBE on one screen: its times, its efficiencies, and the findings that cost most.

    Each finding is reported with its share, where in the program it occurs, who pays for it, who causes it, and what to
    try. Findings cover the time between MPI_Init and MPI_Finalize, unless the cube was narrowed. A cube of another tool
    (.cubex, .cube) works, too. A trace (STORE, ARCHIVE) is analysed first, and the cube is not kept.

    \b
      tracecols diagnose run.severity
      tracecols diagnose run.severity --json | jq '.findings[0].property'
    """
    from tracecols.cli.sources import cube_of

    diagnosis = cube_of(severity, jobs).diagnosis(rows, with_startup=with_startup)
    if as_json:
        echo_json(diagnosis.to_dict(str(severity)))
        return
    print_diagnosis(diagnosis, str(severity))
