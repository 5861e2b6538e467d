"""tracecols patterns"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo_json
from tracecols.cli.vocabulary import option
from tracecols.schema.severity import CONVENTIONS


@click.command()
@click.argument("names", nargs=-1, metavar="[P]...")
@option("conventions", "Only properties of these conventions.")
@option("patterns", "Also list those declared in this file.")
@option("as_json", "Print the declarations as JSON.")
def patterns(names: tuple[str, ...], conventions: str | None, patterns: tuple[Path, ...], as_json: bool) -> None:
    """List the properties that analyses search for, as a tree; with P, an id or a title, describe one in full.

    After each id: the compound table that is matched, and how reliably a match proves the behaviour.
    """
    from tracecols.patterns.plugins import load
    from tracecols.report.properties import about, plain, property_tree
    from tracecols.report.screen import Screen

    families = [family for file in patterns for family in load(file)]
    console = Screen(soft_wrap=True)
    # trees are cut at the console's width, and files and pipes have none
    if not console.is_terminal:
        console.width = 200
    chosen = [conventions] if conventions else list(CONVENTIONS)
    if as_json:
        echo_json(plain(names, chosen, families))
        return
    if names:
        for part in about(names, chosen, families):
            console.print(part)
        return
    for name in chosen:
        console.print(property_tree(name, families))
