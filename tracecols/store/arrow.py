"""From declared columns to Arrow types and Parquet settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracecols.schema import Table

ROW_GROUP = 1 << 20

_COMPRESSION = "lz4"


def arrow_type(dtype: str) -> pa.DataType:
    """Return the Arrow type of a declared dtype."""
    if dtype.startswith("list["):
        return pa.list_(arrow_type(dtype[5:-1]))
    return pa.string() if dtype == "string" else pa.from_numpy_dtype(dtype)


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return pa.schema([pa.field(c.name, arrow_type(c.dtype), nullable=False) for c in table.columns])


def event_writer(path: Path, table: Table) -> pq.ParquetWriter:
    """Open a file for events or a side table.

    Time and row numbers are packed as differences, which costs 0.7 to 2 bytes per event; everything else is a small
    integer and goes through a dictionary, except the kind, which compresses as well without one and twice as fast.
    """
    schema = arrow_schema(table)
    packed = [c.name for c in table.columns if c.name in ("time", "row")]
    plain = {"kind", "value", *packed}
    return pq.ParquetWriter(
        path,
        schema,
        compression=_COMPRESSION,
        use_dictionary=[c.name for c in table.columns if c.name not in plain and not c.dtype.startswith("float")],
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        write_statistics=False,
    )


def write_table(path: Path, table: Table, columns: dict[str, Any]) -> None:
    """Write a whole table, such as one of definitions, from its columns."""
    schema = arrow_schema(table)
    arrays = [pa.array(columns[f.name], type=f.type) for f in schema]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression=_COMPRESSION)
