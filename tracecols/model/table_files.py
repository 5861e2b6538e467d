"""Enhanced tables as Parquet files: the contents of `NAME.trace/enhanced/`, which anything that supports Arrow can
read.

A table is a folder `enhanced/NAME/` of files `part-NNNNN.parquet`, whose rows follow each other in the order of the
files, and a manifest that names the store it was made from and the version that made it. It can be removed at any time,
and is made again on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracecols.errors import StoreError
from tracecols.given.arguments import as_texts, did_you_mean, is_whole_number, show
from tracecols.given.quantities import counted
from tracecols.model.tables import TABLES
from tracecols.schema import Table, compound
from tracecols.store import Store
from tracecols.store.arrow import ParquetWriter, arrow_schema, open_parquet
from tracecols.store.layout import read_manifest
from tracecols.version import __version__

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "enhanced"
"""Where enhanced tables are in a store."""

VERSION = 3
"""Incremented when the meaning of columns changes."""

ROWS = 1 << 18
"""Rows of a row group, at most."""

ENHANCED: tuple[str, ...] = ("events", "call_paths", *TABLES)
"""Names of all enhanced tables."""


def schema_of(name: str) -> Table:
    """Return the declaration of an enhanced table."""
    if name == "events":
        return compound.EVENTS_WITH_POINTERS
    return compound.CALL_PATHS if name == "call_paths" else TABLES[name].schema


def row_bytes(table: Table) -> int:
    """Return the bytes of a row in a data frame; a text counts as its pointer."""
    return sum(8 if c.dtype == "string" else np.dtype(c.dtype).itemsize for c in table.columns)


def origin(store: Store, name: str) -> dict[str, Any]:
    """Return what an enhanced table was made from and by which version: a table with another origin is not the same."""
    columns = [[c.name, c.dtype] for c in schema_of(name).columns]
    return {"name": name, "of": store.digest, "made_by": f"tracecols {__version__}, {VERSION}", "columns": columns}


@dataclass(frozen=True)
class TableFiles:
    """A table in Parquet files, which are read on demand.

    `polars.scan_parquet(table.files)`, `dask.dataframe.read_parquet(table.files)` and DuckDB's `read_parquet` read it
    lazily; `polars.DataFrame(table)`, `pyarrow.table(table)` and `duckdb.sql("from table")` take it as it is
    (`__arrow_c_stream__`).
    """

    name: str
    files: tuple[Path, ...]
    """In the order of their rows."""
    kept: object = None
    """An object kept alive as long as this one: a temporary folder."""

    def __repr__(self) -> str:
        where = f" in {self.files[0].parent}" if self.files else ""
        return f"<TableFiles {self.name}: {counted(len(self.files), 'file')}{where}>"

    def _open(self, path: Path) -> pq.ParquetFile:
        try:
            return open_parquet(path)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(
                f"{path} cannot be read: {error}\n  remove its folder, if it is one of {FOLDER}/: it is made again"
            ) from error

    @property
    def counts(self) -> list[int]:
        """Rows of every file."""
        return [int(self._open(path).metadata.num_rows) for path in self.files]

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow declares them."""
        return self._open(self.files[0]).schema_arrow

    @property
    def n_bytes(self) -> int:
        """Bytes of the files."""
        return sum(path.stat().st_size for path in self.files)

    def batches(self, columns: Sequence[str] | None = None, rows: int = ROWS) -> Iterator[pa.RecordBatch]:
        """Read the table in batches of at most `rows` rows. Raises StoreError if it has no such columns."""
        if columns is not None:
            columns = self._known(columns)
        if not is_whole_number(rows) or rows < 1:
            raise StoreError(f"{show(rows)} is not a number of rows\n  give a whole number, 1 or more")
        return self._batches(columns, rows)

    def _batches(self, columns: list[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        for path in self.files:
            yield from self._open(path).iter_batches(rows, columns=columns, use_threads=False)

    def _known(self, columns: Sequence[str]) -> list[str]:
        """Return the names of columns as a list. Raises StoreError if the table has no such columns."""
        names, known = as_texts(columns, "columns", StoreError), self.schema.names
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known, f"there are {', '.join(known)}")
                raise StoreError(f"{self.name} has no column {name!r}\n  {hint}")
        return names

    def frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the table, or some of its columns, as a data frame."""
        schema = self.schema
        if columns is not None:
            schema = pa.schema([schema.field(c) for c in self._known(columns)])
        return pa.Table.from_batches(self.batches(columns), schema).to_pandas(self_destruct=True, split_blocks=True)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table in batches to any consumer of Arrow (Arrow PyCapsule interface)."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(requested_schema)


def find_table(store: Store, name: str, parent: Path | None = None, kept: object = None) -> TableFiles | None:
    """Find an enhanced table of a store; None if there is none, or if it was made from another store or by another
    version.

    `parent` is the folder that holds the table's folder, by default that of the store; for `kept` see `TableFiles`.
    """
    folder = (parent or store.path / FOLDER) / name
    try:
        manifest, _ = read_manifest(folder)
        if any(manifest.get(k) != v for k, v in origin(store, name).items()):
            return None
        files = tuple(folder / str(file) for file in manifest["files"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return TableFiles(name, files, kept) if files and all(path.is_file() for path in files) else None


def find_tables(store: Store) -> dict[str, TableFiles]:
    """Find the enhanced tables that are in a store."""
    found = {name: find_table(store, name) for name in ENHANCED}
    return {name: table for name, table in found.items() if table is not None}


def part_writer(path: Path, table: Table) -> ParquetWriter:
    """Open a file of an enhanced table: columns that grow from row to row are packed as differences, the rest plain,
    all compressed by LZ4."""
    grows = [c.name for c in table.columns if c.dtype == "int64" and (c.target == "events" or c.unit == "ticks")]
    return ParquetWriter(
        path,
        arrow_schema(table),
        compression="lz4",
        use_dictionary=[c.name for c in table.columns if c.dtype == "string"],
        column_encoding=dict.fromkeys(grows, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    )
