"""tracecols info"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("store", type=click.Path(path_type=Path))
def info(store: Path) -> None:
    """Print what a STORE holds: source, span, locations, events by kind, regions, communicators, topologies, counters."""
    from rich.console import Console

    from tracecols.report.info import describe
    from tracecols.store import Store

    Console(highlight=False).print(describe(Store(store)))
