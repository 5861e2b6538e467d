"""tracecols demo"""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path

import click

from tracecols.cli.output import echo, open_in_browser
from tracecols.cli.vocabulary import option
from tracecols.errors import SourceError


def sample_trace() -> Path:
    """Return the folder of the trace included in the package: a hybrid program of 2 processes with 3 threads."""
    try:
        (folder,) = import_module("tracecols.sample").__path__
    except ImportError:
        folder = ""
    if not (Path(folder) / "traces.otf2").is_file():
        raise SourceError(
            "the sample trace is not installed\n  in a clone of the project: tracecols convert tests/data/hybrid_2x3"
        )
    return Path(folder)


@click.command()
@option(
    "output",
    "The folder for store, cube and report.  [default: tracecols-demo]",
    metavar="FOLDER",
    default=Path("tracecols-demo"),
    show_default=False,
)
@option("no_browser", "Do not open the report in a browser.")
@click.pass_context
def demo(context: click.Context, output: Path, no_browser: bool) -> None:
    """Run the main commands on a small sample trace, one by one, and open the report.

    The trace is of a hybrid program of 2 processes with 3 threads each, recorded with Score-P. Each command is shown
    before it runs; all output is in one folder, which can be removed afterwards.
    """
    from tracecols.cli import group

    source = sample_trace()
    store, cube, page = (output / f"hybrid.{ending}" for ending in ("trace", "severity", "html"))
    commands = [
        ["convert", source, "-o", store],
        ["analyze", store, "-o", cube],
        ["show", cube, "--rows", "12"],
        ["report", cube, "-o", page],
    ]
    for command in commands:
        words = [str(word) for word in command]
        echo(f"\n$ tracecols {shlex.join(words)}")
        code = group.main(words, prog_name="tracecols", standalone_mode=False)
        if code:
            context.exit(code)
    if no_browser or not open_in_browser(page.resolve().as_uri()):
        echo(f"\nThe report is {page}: open it with a browser.")
    echo(
        f"\nThe timeline of the same run: {shlex.join(['tracecols', 'view', str(store)])}"
        "\nWith a trace of your own: tracecols analyze FOLDER; then tracecols report NAME.severity."
    )
