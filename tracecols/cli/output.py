"""Output of commands, apart from displays (`tracecols.report.screen`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tracecols.given.printable import finite, printable

if TYPE_CHECKING:
    from rich.console import RenderableType


def echo(message: object = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print a message, in a style (`click.style`) unless `NO_COLOR` is in the environment; control characters in names
    are shown in `printable` form."""
    text = printable(str(message))
    click.echo(click.style(text, **style) if style and not os.environ.get("NO_COLOR") else text, err=err, nl=nl)


def echo_json(value: Any) -> None:
    """Print plain values as JSON; NaN and infinity are null."""
    import json

    echo(json.dumps(finite(value), indent=1))


def echo_parts(parts: Iterable[RenderableType], width: int = 1_000) -> None:
    """Print parts of a display; lines are not cut at the right margin of the terminal."""
    from tracecols.report.screen import Screen

    screen = Screen(soft_wrap=True, width=width)
    for part in parts:
        screen.print(part)


def open_in_browser(url: str) -> bool:
    """Open a page in the user's browser; return False if there is no terminal or no browser."""
    import webbrowser

    if not sys.stdout.isatty():
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
