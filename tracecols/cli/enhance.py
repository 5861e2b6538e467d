"""tracecols enhance"""

from __future__ import annotations

from pathlib import Path

import click

from tracecols.cli.output import echo
from tracecols.cli.vocabulary import PATH, option


@click.command()
@click.argument("store", metavar="STORE", type=PATH)
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--again", is_flag=True, help="Rewrite tables that already exist.")
@option("jobs")
def enhance(store: Path, tables: tuple[str, ...], again: bool, jobs: int | None) -> None:
    """Write tables derived from the events of STORE, all or some, as Parquet files:
    STORE/enhanced/TABLE/part-*.parquet.

    \b
      events      all events with enterptr, exitptr, sendptr, ..., call_path and pos
      call_paths  the call tree
      messages, collectives, constructs, teams, ...: compound events, see docs/schema.md

    trace.scan, trace.sql, polars, DuckDB and Dask DataFrame read these files. They are written in bounded memory,
    whatever the length of the trace, and can be removed at any time. Existing tables are kept unless the store or
    tracecols has changed.
    """
    from tracecols.cli.progress import progress
    from tracecols.errors import StoreError
    from tracecols.frames.catalog import Catalog
    from tracecols.given.quantities import counted
    from tracecols.model.model import enhance as scan
    from tracecols.model.table_files import ENHANCED
    from tracecols.store import Store
    from tracecols.work.jobs import n_jobs
    from tracecols.work.progress import SCAN, shares_of

    opened = Store(store)
    unknown = [name for name in tables if name not in ENHANCED]
    if unknown:
        raise StoreError(f"no enhanced table {', '.join(map(repr, unknown))}\n  there are {', '.join(ENHANCED)}")
    with progress("enhancing") as report:
        scanning, writing = shares_of(report, opened.manifest["n_events"], 1 - SCAN, SCAN)
        catalog = Catalog(opened, lambda: scan(opened, n_jobs(jobs), scanning))
        made = catalog.enhanced(tables or ENHANCED, again=again, in_store=True, progress=writing)
    for table in made.values():
        echo(f"{table.files[0].parent}: {counted(len(table), 'row')}, {table.n_bytes:,} bytes")
