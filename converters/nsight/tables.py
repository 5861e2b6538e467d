"""The tables of an export of Nsight Systems, whose columns depend on its version: a SQLite file or a folder of Parquet
files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracecols.converters.base import text_of
from tracecols.errors import SourceError
from tracecols.given.files import open_regular

MAGIC = b"SQLite format 3\0"

ROWS = 1 << 13
"""Rows of a table that are in memory at once."""

KNOWN = ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA")
"""Every export has at least one of these tables; other files of the same kind have none."""

ENDINGS = (".sqlite",)
"""File name endings of SQLite files in a folder that may be exports."""

DAMAGED = "the export is damaged or incomplete; make it again: nsys export --type sqlite REPORT.nsys-rep"

ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a damaged database; the second one if SQLite's message quotes bytes that are no text."""

Types = Mapping[str, pa.DataType]
"""Requested columns and their types."""


def open_tables(path: Path) -> Tables:
    """Open an export."""
    return Folder(path) if path.is_dir() else Database(path)


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the exports that a path names: itself, or those of several reports of a run in a folder; empty if it is
    not an export.

    SQLite files in a folder must have the usual ending, so that not every file of a folder is opened.
    """
    if is_export(path):
        return (path,)
    try:
        entries = sorted(path.iterdir()) if path.is_dir() else []
    except OSError:
        return ()
    found = tuple(p for p in entries if (p.is_dir() or p.suffix in ENDINGS) and is_export(p))
    return found if len(found) > 1 else ()


def is_export(path: Path) -> bool:
    """Return whether a file or folder is one export of Nsight Systems, by its content."""
    try:
        if path.is_dir():
            return any((path / f"{name}.parquet").is_file() for name in KNOWN)
        with open_regular(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
        with closing(Database(path)) as tables:
            return any(tables.columns_of(name) for name in KNOWN)
    except (OSError, SourceError):
        return False


class Database:
    """A SQLite file, opened read-only; its folder may be read-only, too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # without transaction files beside it, the file does not change, and can be read even if no lock can be taken
        is_busy = any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))
        uri = f"{path.absolute().as_uri()}?mode=ro{'' if is_busy else '&immutable=1'}"
        try:
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._connection.text_factory = text_of
            names = self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
            self._columns = {str(name): self._named(str(name)) for (name,) in names}
        except ERRORS as error:
            raise self._error("", error) from error

    def _named(self, table: str) -> list[str]:
        return [str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")]

    def names(self) -> list[str]:
        """Return the names of all tables."""
        return list(self._columns)

    def columns_of(self, table: str) -> list[str]:
        """Return the names of a table's columns; empty if there is no such table."""
        return self._columns.get(table, [])

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        try:
            (n,) = self._connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()
        except ERRORS as error:
            raise self._error(table, error) from error
        return int(n)

    def batches(self, table: str, columns: Types) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, a bounded number at a time; columns that it lacks are null. Raises SourceError if
        it cannot be read, or a column holds anything other than numbers or texts."""
        there = self.columns_of(table)
        if not there:
            return
        wanted = ", ".join(_quoted(name) if name in there else "NULL" for name in columns)
        try:
            cursor = self._connection.execute(f"SELECT {wanted} FROM {_quoted(table)}")
            while rows := cursor.fetchmany(ROWS):
                yield _batch(self.path, table, dict(zip(columns, zip(*rows, strict=True), strict=True)), columns)
        except (*ERRORS, OverflowError) as error:
            raise self._error(table, error) from error

    def _error(self, table: str, error: Exception) -> SourceError:
        where = f"{self.path}: table {table}" if table else str(self.path)
        return SourceError(f"cannot read {where}: {error}\n  {DAMAGED}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _batch(path: Path, table: str, given: Mapping[str, Any], columns: Types) -> pa.RecordBatch:
    """Make columns of values. Raises SourceError if a value does not have the type of its column."""
    arrays = []
    for name, kind in columns.items():
        try:
            arrays.append(pa.array(given[name], kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise SourceError(f"{path}: table {table}: column {name}: {error}\n  {DAMAGED}") from error
    return pa.RecordBatch.from_arrays(arrays, list(columns))


class Folder:
    """A folder with a Parquet file for every table; it has the methods of `Database`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = {file.stem: file for file in sorted(path.glob("*.parquet"))}

    def names(self) -> list[str]:
        """Return the names of all tables."""
        return list(self._files)

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        with self._opened(table) as file:
            return int(file.metadata.num_rows)

    def columns_of(self, table: str) -> list[str]:
        """Return the names of a table's columns; empty if there is no such table."""
        if table not in self._files:
            return []
        with self._opened(table) as file:
            return list(file.schema_arrow.names)

    def batches(self, table: str, columns: Types) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table (see `Database.batches`)."""
        if table not in self._files:
            return
        with self._opened(table) as file:
            there = set(file.schema_arrow.names)
            try:
                for batch in file.iter_batches(ROWS, columns=[name for name in columns if name in there]):
                    found = {name: batch.column(name) for name in columns if name in there}
                    arrays = [
                        found[name].cast(kind)
                        if name in found and found[name].null_count < batch.num_rows
                        else pa.nulls(batch.num_rows, kind)
                        for name, kind in columns.items()
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, list(columns))
            except (pa.ArrowException, OSError, ValueError) as error:
                raise self._error(table, error) from error

    def _opened(self, table: str) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self._files[table])
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._error(table, error) from error

    def _error(self, table: str, error: Exception) -> SourceError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return SourceError(
            f"cannot read {self._files[table]}: {reason}\n"
            "  the export is damaged or incomplete; make it again: nsys export --type parquetdir REPORT.nsys-rep"
        )

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""


Tables = Database | Folder
"""The tables of one export."""


def latest(tables: Tables, table: str) -> str:
    """Return the name of a table in this export: newer ones end in _V2, _V3."""
    for version in range(9, 1, -1):
        if tables.columns_of(f"{table}_V{version}"):
            return f"{table}_V{version}"
    return table
