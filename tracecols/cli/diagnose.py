"""tracecols diagnose"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracecols.cli.output import echo

if TYPE_CHECKING:
    from tracecols.severity.diagnosis import Diagnosis


def print_diagnosis(diagnosis: Diagnosis, source: str, *, err: bool = False) -> None:
    """Print a diagnosis, in colours on a terminal."""
    from rich.text import Text

    from tracecols.report.diagnosis import lines
    from tracecols.report.screen import Screen

    console = Screen(soft_wrap=True, stderr=err)
    for line, style in lines(diagnosis, source):
        console.print(Text(line, style))


@click.command()
@click.argument("severity", metavar="CUBE", type=click.Path(path_type=Path))
@click.option("--findings", "n_findings", type=click.IntRange(0), default=5, show_default=True, metavar="N", help="How many findings to show, at most.")  # fmt: skip
@click.option("--with-startup", is_flag=True, help="Look at start-up and shutdown, too; they are set apart by default.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def diagnose(severity: Path, n_findings: int, with_startup: bool, as_json: bool) -> None:
    """Say what is wrong with the run of a severity CUBE, on one screen: its times, its efficiencies, and the findings that cost most.

    Each finding is reported with its share, where in the program it lies, who pays, who causes it, and what to try. They are about
    what lies between MPI_Init and MPI_Finalize, unless the cube was narrowed. A cube of another tool (.cubex, .cube) works, too.

    \b
      tracecols diagnose run.severity
      tracecols diagnose run.severity --json | jq '.findings[0].property'
    """
    from tracecols.export.cube_read import read_cube

    diagnosis = read_cube(severity).diagnosis(n_findings, with_startup=with_startup)
    if as_json:
        import json

        echo(json.dumps(diagnosis.to_dict(str(severity)), indent=1))
        return
    print_diagnosis(diagnosis, str(severity))
