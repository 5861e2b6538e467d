"""tracecols patterns"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.schema.severity import CONVENTIONS


@click.command()
@click.argument("names", nargs=-1, metavar="[P]...")
@click.option("--conventions", type=click.Choice(list(CONVENTIONS)), help="Only properties of these conventions.")
@click.option(
    "--patterns",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.py",
    help="List those this file declares as well.",
)
def patterns(names: tuple[str, ...], conventions: str | None, patterns: tuple[Path, ...]) -> None:
    """List the properties that are searched for, as a tree; with P, an id or a title, everything about one of them.

    What is printed after an id: the compound table that is matched, and how reliably a match proves the behaviour.
    """
    from tracecols.patterns.plugins import load
    from tracecols.report.properties import about, property_tree
    from tracecols.report.screen import Screen

    families = [family for file in patterns for family in load(file)]
    console = Screen(soft_wrap=True)
    # a tree is cut at the right margin, which a file or a pipe does not have
    if not console.is_terminal:
        console.width = 200
    chosen = [conventions] if conventions else list(CONVENTIONS)
    if names:
        for part in about(names, chosen, families):
            console.print(part)
        return
    for name in chosen:
        console.print(property_tree(name, families))
