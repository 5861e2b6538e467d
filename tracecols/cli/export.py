"""tracecols export"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("source", metavar="SEVERITY|STORE", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--table",
    metavar="NAME",
    default="events",
    show_default=True,
    help="Of a store: events, messages, collectives, ...",
)
def export(source: Path, output: Path, table: str) -> None:
    """Write a SEVERITY cube, or a table of a STORE, to OUTPUT; its ending says the format: .parquet, .csv, .json.

    \b
    A cube becomes a long table: property, call_path, rank, thread, value (seconds, occurrences or bytes); as .json it
    keeps its three trees.
    """
    from tracecols.export.tables import export as run

    run(source, output, table)
    click.echo(f"{output}")
