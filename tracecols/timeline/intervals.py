"""Time intervals in a file: those that overlap a range are found without reading the others.

The file is an Arrow IPC file that is mapped into memory. It consists of batches; the rows of each are ordered by
`begin`, and `reach` is the largest `end` so far in the batch.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.store.arrow import as_batch, open_file
from tracecols.work.ahead import let_go

ROWS = 1 << 20
"""Maximum number of rows of a batch."""

Columns = dict[str, NDArray[Any]]


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of intervals with further columns, by name and dtype."""
    every = {"begin": "int64", "end": "int64", "reach": "int64", **columns}
    return pa.schema([pa.field(name, pa.from_numpy_dtype(np.dtype(t)), nullable=False) for name, t in every.items()])


class IntervalsWriter:
    """Writes intervals to a file, `n` so far; at most `ROWS` are in memory. `columns` are the names and dtypes of the
    columns other than `begin` and `end`."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self._schema, self._waiting, self._n_waiting, self.n = schema_of(columns), list[Columns](), 0, 0
        self._file = open_file(path, "wb")
        self._writer = pa.ipc.new_file(self._file, self._schema)

    def __enter__(self) -> IntervalsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
        self._writer.close()
        self._file.close()

    def add(self, found: Columns) -> None:
        """Add intervals in any order: `begin`, `end` and the other columns."""
        n = found["begin"].size
        self.n += n
        for at in range(0, n, ROWS):
            part = {name: found[name][at : at + ROWS] for name in self._schema.names if name != "reach"}
            if self._n_waiting + part["begin"].size > ROWS:
                self._write()
            self._waiting.append(part)
            self._n_waiting += part["begin"].size

    def _write(self) -> None:
        """Write the pending rows as one batch."""
        if not self._n_waiting:
            return
        batch = {name: np.concatenate([part[name] for part in self._waiting]) for name in self._waiting[0]}
        order = np.lexsort((batch["end"], batch["begin"]))
        rows = {name: values[order] for name, values in batch.items()}
        rows["reach"] = np.maximum.accumulate(rows["end"])
        self._writer.write_batch(as_batch(self._schema, rows.__getitem__))
        self._waiting, self._n_waiting = [], 0


class Intervals:
    """Intervals in a file that an `IntervalsWriter` wrote, mapped into memory."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._file = pa.ipc.open_file(pa.py_buffer(self._mapped))
        self.names = tuple(name for name in self._file.schema.names if name != "reach")
        self._batches = [
            {name: batch.column(name).to_numpy() for name in self._file.schema.names}
            for batch in map(self._file.get_batch, range(self._file.num_record_batches))
        ]

    def __len__(self) -> int:
        return sum(batch["begin"].size for batch in self._batches)

    def batches(self) -> Iterator[Columns]:
        """Yield the intervals batch by batch, mapped from the file. The pages of a batch are released before the next
        one, as the system would keep them in memory as long as it can."""
        for batch in self._batches:
            yield batch
            let_go(self._mapped)

    def overlapping(
        self, start: int, stop: int, where: Mapping[str, NDArray[np.bool_]] | None = None, most: int | None = None
    ) -> tuple[int, Columns]:
        """Return the number of intervals that overlap a time range, and the intervals, ordered by begin.

        They have begin < stop and end > start, or are empty and lie within. `where` has masks of locations, by column;
        an interval is chosen if one of the columns matches. If there are more than `most`, only their number is
        returned.
        """
        chosen = [(batch, self._rows(batch, start, stop, where)) for batch in self._batches]
        n = sum(rows.size for _, rows in chosen)
        if most is not None and n > most:
            chosen = []
        found = {
            name: np.concatenate([np.zeros(0, self._dtype(name)), *(batch[name][rows] for batch, rows in chosen)])
            for name in self.names
        }
        if len(chosen) > 1:
            order = np.argsort(found["begin"], kind="stable")
            found = {name: values[order] for name, values in found.items()}
        return n, found

    def _dtype(self, name: str) -> Any:
        return self._file.schema.field(name).type.to_pandas_dtype()

    @staticmethod
    def _rows(
        batch: Columns, start: int, stop: int, where: Mapping[str, NDArray[np.bool_]] | None
    ) -> NDArray[np.int64]:
        high = int(np.searchsorted(batch["begin"], stop))
        low = int(np.searchsorted(batch["reach"][:high], start))
        begin, end = batch["begin"][low:high], batch["end"][low:high]
        fits = (end > start) | ((end == begin) & (end == start))
        if where is not None:
            fits &= np.any([mask[batch[name][low:high]] for name, mask in where.items()], axis=0)
        return low + np.flatnonzero(fits)
