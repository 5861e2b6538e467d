"""Untrusted queries: one read-only statement, limited in rows, time, memory and files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from tracecols.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Bounds:
    """Limits of a query."""

    skipped: int
    rows: int
    """`skipped` and `rows`: leading rows to skip, and maximum number of rows after them."""
    seconds: float
    """Time after which the query is interrupted."""
    memory: int
    """Memory limit in bytes; there are no temporary files."""


def quoted(text: str | Path) -> str:
    """Return a text, or a path, as an SQL literal."""
    return "'" + str(text).replace("'", "''") + "'"


def run_bounded(duckdb: Any, db: Any, query: str, bounds: Bounds, folders: Iterable[Path]) -> pd.DataFrame:
    """Run a query on a connection that is not used afterwards; only files in `folders` can be opened. Raises StoreError
    if it is not a single read-only statement. Raises duckdb.Error if it is invalid or exceeds a limit (`refusal`)."""
    text = _only_reading(duckdb, db, query)
    _lock(db, bounds.memory, folders)
    timer = Timer(bounds.seconds, db.interrupt)
    timer.start()
    try:
        # the newline ends a comment at the end of the query
        found: pd.DataFrame = db.execute(f"select * from (\n{text}\n) limit {bounds.rows} offset {bounds.skipped}").df()
    finally:
        timer.cancel()
    return found


def refusal(duckdb: Any, error: Exception, bounds: Bounds) -> StoreError:
    """Return an error that explains why a query failed, and what to do."""
    if isinstance(error, duckdb.InterruptException):
        return StoreError(
            f"the query takes more than {bounds.seconds:g} s\n"
            "  ask for less: fewer tables, a narrower where, no join without a condition"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreError(
            f"the query takes more than {bounds.memory:,} bytes of memory\n"
            "  ask for less: a narrower where, fewer groups, no order by over all rows"
        )
    return StoreError(
        f"the query cannot be run: {error}\n"
        "  'describe TABLE' lists the columns of a table, 'show tables' the tables that there are"
    )


def _only_reading(duckdb: Any, db: Any, query: str) -> str:
    """Return a query without trailing semicolons; refuse anything but a single read-only statement."""
    statements = db.extract_statements(query)
    if len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT:
        return str(statements[0].query).strip().rstrip(";")
    what = f"of {len(statements)} statements" if len(statements) != 1 else f"a statement {statements[0].type.name}"
    raise StoreError(f"the query is {what}, not one that only reads\n  give one select, describe, summarize or show")


def _lock(db: Any, memory: int, folders: Iterable[Path]) -> None:
    """Restrict a connection to the files in some folders, and lock its configuration."""
    allowed = ", ".join(quoted(folder.absolute()) for folder in folders)
    for setting in (
        "temp_directory = ''",
        f"memory_limit = '{memory}B'",
        f"allowed_directories = [{allowed}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        db.execute(f"set {setting}")
