"""Conversion of declared columns to Arrow types and Parquet settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracecols.errors import StoreError
from tracecols.given.files import check_regular
from tracecols.schema import Column, Table, Version
from tracecols.schema.versions import Difference, difference
from tracecols.vectors import offsets_of

_COMPRESSION = "lz4"

PACKINGS = ("LZ4", "SNAPPY", "UNCOMPRESSED")
"""How tables may be packed: with these, unpacking a page takes at most 255 times its packed size."""

_GROWING = ("time", "row", "request", "matching", "acquisition", "generation", "stop_time", "place")


def arrow_type(dtype: str) -> pa.DataType:
    """Return the Arrow type of a declared dtype."""
    if dtype.startswith("list["):
        return pa.list_(arrow_type(dtype[5:-1]))
    return pa.string() if dtype == "string" else pa.from_numpy_dtype(dtype)


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return pa.schema([pa.field(c.name, arrow_type(c.dtype), nullable=False) for c in table.columns])


def to_arrow(values: Any, dtype: pa.DataType) -> pa.Array:
    """Make an Arrow array of a column: numbers as an array or list, or a list of texts or of lists.

    Equivalent to `pyarrow.array`, which would import pandas: 0.25 s of every command. Arrays are not copied.
    """
    if pa.types.is_list(dtype):
        offsets = offsets_of([len(row) for row in values])
        flat = [v for row in values for v in row]
        return pa.ListArray.from_arrays(to_arrow(offsets, pa.int32()), to_arrow(flat, dtype.value_type), type=dtype)
    if pa.types.is_string(dtype):
        texts = [v.encode("utf-8", "surrogateescape") for v in values]
        offsets = offsets_of([len(text) for text in texts]).astype(np.int32)
        return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)))
    if pa.types.is_boolean(dtype):
        bits = np.packbits(np.asarray(values, bool), bitorder="little")
        return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(bits)])
    numbers = np.ascontiguousarray(values, dtype=dtype.to_pandas_dtype())
    return pa.Array.from_buffers(dtype, numbers.size, [None, pa.py_buffer(numbers)])


def as_batch(schema: pa.Schema, column: Callable[[str], Any]) -> pa.RecordBatch:
    """Make a record batch from columns; texts are arrays of objects, or Arrow arrays."""
    arrays = []
    for field in schema:
        values = column(field.name)
        if not isinstance(values, pa.Array):
            is_text = pa.types.is_string(field.type)
            values = pa.array(values, field.type) if is_text else to_arrow(values, field.type)
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column without nulls: numbers (not booleans, which are bits) without a copy if it is one chunk, texts as
    objects.

    Equivalent to its method `to_numpy`, which would import pandas.
    """
    if pa.types.is_string(column.type):
        return np.array(column.to_pylist(), object)
    if pa.types.is_dictionary(column.type):
        parts = [_texts_of(c) for c in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, object), *parts])
    if pa.types.is_boolean(column.type):
        return np.concatenate([np.zeros(0, bool), *(c.to_numpy(zero_copy_only=False) for c in column.chunks)])
    dtype = column.type.to_pandas_dtype()
    parts = [np.frombuffer(c.buffers()[1], dtype)[c.offset : c.offset + len(c)] for c in column.chunks if len(c)]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.zeros(0, dtype), *parts])


def _texts_of(chunk: pa.DictionaryArray) -> NDArray[np.object_]:
    """Return texts as objects, one object for all rows with the same text."""
    texts = np.array([*chunk.dictionary.to_pylist(), None], object)
    number = np.frombuffer(chunk.indices.buffers()[1], np.int32)[chunk.indices.offset :][: len(chunk)]
    found: NDArray[np.object_] = texts[number]
    return found


def open_file(path: Path, mode: str = "rb") -> pa.OSFile:
    """Open a file for Arrow, also if its path is not valid UTF-8, which Arrow does not take as text."""
    return pa.OSFile(os.fsencode(path), mode)


class ParquetWriter(pq.ParquetWriter):  # type: ignore[misc]
    """Write a Parquet file of any name."""

    def __init__(self, path: Path, schema: pa.Schema, **options: Any) -> None:
        self.is_open = False
        self._file = open_file(path, "wb")
        super().__init__(self._file, schema, **options)

    def close(self) -> None:
        """Complete the file."""
        super().close()
        self._file.close()


def event_writer(path: Path, table: Table) -> ParquetWriter:
    """Open a file for events or a side table.

    Columns that grow from row to row are packed as differences: time and row numbers take 0.1 to 2 bytes. All others
    repeat themselves, which LZ4 exploits: compared with a dictionary, columns of real traces are as small or smaller,
    written in a third and read in half the time.
    """
    return ParquetWriter(
        path,
        arrow_schema(table),
        compression=_COMPRESSION,
        use_dictionary=False,
        column_encoding={c.name: "DELTA_BINARY_PACKED" for c in table.columns if c.name in _GROWING},
        write_statistics=False,
        write_page_checksum=True,
    )


def open_parquet(
    path: Path, metadata: pq.FileMetaData | None = None, texts: Sequence[str] | None = None
) -> pq.ParquetFile:
    """Open a file of tracecols; damaged pages are recognised by their checksums, not read as other numbers. Columns in
    `texts` are read as the distinct texts, and for each row the number of its text."""
    check_regular(path)
    try:
        return pq.ParquetFile(
            open_file(path), metadata=metadata, read_dictionary=texts, pre_buffer=False, page_checksum_verification=True
        )
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the names of its columns are damaged: {error}") from error


def packing_of(metadata: pq.FileMetaData) -> str:
    """Return a packing that a column of a file has and that is not in `PACKINGS`; empty if there is none."""
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    found = {group.column(i).compression for group in groups for i in range(group.num_columns)}
    return min(found - set(PACKINGS), default="")


def write_table(path: Path, table: Table, parts: Iterable[pa.Table | dict[str, Any]]) -> None:
    """Write a whole table, such as one of definitions, from columns of its rows, which may come in several parts."""
    with ParquetWriter(path, arrow_schema(table), compression=_COMPRESSION, write_page_checksum=True) as writer:
        for rows in parts:
            writer.write_table(rows if isinstance(rows, pa.Table) else as_table(table, rows))


def as_table(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    """Make an Arrow table from its columns."""
    schema = arrow_schema(table)
    return pa.Table.from_arrays([to_arrow(columns[f.name], f.type) for f in schema], schema=schema)


def absent(column: Column, n: int) -> pa.Array:
    """Return a column that a file lacks, with `n` rows: null, or its declared default, everywhere."""
    return to_arrow([column.absent] * n, arrow_type(column.dtype))


def compare_columns(found: pa.Schema, table: Table, version: Version, known: Version) -> Difference | None:
    """Compare the columns of a file with those that are declared (`schema.versions.difference`)."""
    types = {field.name: (field.type, field.nullable) for field in arrow_schema(table)}
    return difference(table, [(f.name, (f.type, f.nullable)) for f in found], types, version, known)


def _in_words(schema: pa.Schema) -> str:
    """Name columns with their types."""
    return ", ".join(f"{f.name} ({'null or ' * f.nullable}{f.type})" for f in schema)


class StoredTable:
    """A whole table of numbers and texts that is open: its metadata are known, its values are not read yet.

    Attributes
    ----------
    n_rows : int
        Number of rows; 0 if the file is older than the table.
    n_bytes : int
        Size of the file.
    unknown : tuple of str
        Columns of a newer file that are not declared.

    Raises
    ------
    StoreError
        If the file cannot be opened, has other columns than its version, or is packed in a way that tracecols never
        uses.
    """

    def __init__(self, path: Path, table: Table, version: Version, known: Version) -> None:
        self.path, self.table = path, table
        self.n_rows = self.n_bytes = 0
        self.unknown: tuple[str, ...] = ()
        self._metadata: pq.FileMetaData | None = None
        self._lacking = table.columns
        if table.since > version and not path.exists():
            return
        try:
            file = open_parquet(path)
            self.n_bytes = path.stat().st_size
            metadata, found = file.metadata, file.schema_arrow
            packed = packing_of(metadata)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        differs = compare_columns(found, table, version, known)
        if differs is None:
            raise StoreError(f"{path} has the columns {_in_words(found)}, expected {_in_words(arrow_schema(table))}")
        if packed:
            raise StoreError(f"{path} is packed as {packed}, expected {' or '.join(PACKINGS)}")
        self._metadata = metadata
        self._lacking, self.unknown, self.n_rows = differs.lacking, differs.unknown, metadata.num_rows

    def read(self) -> dict[str, NDArray[Any]]:
        """Read the declared columns; those that an older file lacks are null or their declared default. Raises
        StoreError if the file cannot be read."""
        lacking = {c.name: to_numpy(pa.chunked_array([absent(c, self.n_rows)])) for c in self._lacking}
        if self._metadata is None:
            return lacking
        present = [c for c in self.table.names if c not in lacking]
        # a text is kept once, however many rows repeat it
        texts = [c for c in present if self.table[c].dtype == "string"]
        try:
            # not pq.read_table: it imports pyarrow.dataset and pandas, 0.3 s
            file = open_parquet(self.path, self._metadata, texts)
            # one after the other, so that only one of them at a time is in memory twice
            columns = {c: to_numpy(file.read(columns=[c], use_threads=False).column(c)) for c in present}
        except (OSError, UnicodeDecodeError, IndexError, pa.ArrowException) as error:
            raise StoreError(f"{self.path} cannot be read: {error}") from error
        return {c: columns[c] if c in columns else lacking[c] for c in self.table.names}
