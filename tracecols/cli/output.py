"""What commands say, apart from displays (`tracecols.report.screen`)."""

from __future__ import annotations

import click

from tracecols.given.printable import printable


def echo(message: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a message; characters in names that would control the terminal are shown instead."""
    click.echo(printable(str(message)), err=err, nl=nl)
