"""Convert decoded values to the columns of side tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.converters.buffers import Sides
from tracecols.kernels.kernel import kernel
from tracecols.schema import KINDS, SIDE_TABLES, EventKind

_MESSAGE, _OPERATION = ("peer", "communicator", "tag", "length"), ("op", "communicator", "root", "sent", "received")
VALUES: dict[EventKind, tuple[str, ...]] = {
    EventKind.MPI_SEND: _MESSAGE,
    EventKind.MPI_ISEND: (*_MESSAGE, "request"),
    EventKind.MPI_ISEND_COMPLETE: ("request",),
    EventKind.MPI_RECV: _MESSAGE,
    EventKind.MPI_IRECV: (*_MESSAGE, "request"),
    EventKind.MPI_IRECV_REQUEST: ("request",),
    EventKind.MPI_COLLECTIVE_BEGIN: (),
    EventKind.MPI_COLLECTIVE_END: _OPERATION,
    EventKind.NON_BLOCKING_COLLECTIVE_REQUEST: ("request",),
    EventKind.NON_BLOCKING_COLLECTIVE_COMPLETE: (*_OPERATION, "request"),
}
"""The columns that the values of decoded events fill, in order: messages and collective operations of all formats but
OTF2, whose records have an order of their own."""


@kernel
def gather_fields(event, kind, values, is_member, position, row, row_kind, columns):
    """Collect the events of one family: value `position[kind, c]` of each becomes column c, -1 if it has none."""
    n = 0
    for i in range(kind.size):
        k = kind[i]
        if is_member[k]:
            row[n] = event[i]
            row_kind[n] = k
            for c in range(columns.shape[0]):
                p = position[k, c]
                columns[c, n] = values[i, p] if p >= 0 else -1
            n += 1
    return n


SideColumns = dict[str, tuple[NDArray[np.uint8], NDArray[np.int8], list[tuple[str, Any]]]]
"""By family: mask of its kinds, (256,); index of the value of a kind that fills a column, (256, n_columns), -1 none;
names and dtypes of the columns."""


def side_tables(columns_of: SideColumns, decoded: Sides) -> dict[str, Columns]:
    """Make the side tables of the families that decoded events belong to, given the result of `side_columns`."""
    event, kind, values = decoded
    counts = np.bincount(kind, minlength=256)
    found = {}
    for family, (is_member, position, columns) in columns_of.items():
        n = int(counts @ is_member)
        if n:
            row, row_kind, filled = np.empty(n, np.int64), np.empty(n, np.uint8), np.empty((len(columns), n), np.int64)
            gather_fields(event, kind, values, is_member, position, row, row_kind, filled)
            by_name = {name: filled[c].astype(dtype) for c, (name, dtype) in enumerate(columns)}
            found[family] = {"row": row, "kind": row_kind, **by_name}
    return found


def metric_table(
    row: NDArray[np.int64],
    source: NDArray[np.int32],
    start: NDArray[np.int64],
    extra: NDArray[np.int64],
    types: Sequence[str],
) -> Columns:
    """Make the side table of a metric class: `row`, `source` and `start`, (n_events,), are the number and source of
    each METRIC event, and where its values begin in `extra`; `types` are the dtypes of the members of the class."""
    return {"row": row, "source": source, **{f"value_{i}": extra[start + i].view(t) for i, t in enumerate(types)}}


def only_metrics(decoded: Sides, extra: NDArray[np.int64], types: Sequence[Sequence[str]]) -> dict[str, Columns]:
    """Make the side table of the only metric class of a format, if there is an event of it: the third value of a METRIC
    event is where its values, one event after the other, begin in `extra`; `types` are the dtypes of the members, by
    class."""
    rows = np.flatnonzero(decoded.kind == EventKind.METRIC)
    if not rows.size:
        return {}
    source = np.zeros(rows.size, np.int32)
    return {"metrics_0": metric_table(decoded.event[rows], source, decoded.values[rows, 2], extra, types[0])}


def side_columns(values_of: Mapping[EventKind, Sequence[str]]) -> SideColumns:
    """Map the values of each kind, given the columns that they fill in order, to the columns of its family's table."""
    families = {k: k.family for k in KINDS}
    result: SideColumns = {}
    for family, table in SIDE_TABLES.items():
        columns = [(c.name, np.dtype(c.dtype)) for c in table.columns if c.name not in ("row", "kind")]
        is_member = np.zeros(256, np.uint8)
        position = np.full((256, len(columns)), -1, np.int8)
        names = [name for name, _ in columns]
        for kind, values in values_of.items():
            if families[kind] == family:
                is_member[kind] = 1
                for i, name in enumerate(values):
                    position[kind, names.index(name)] = i
        if is_member.any():
            result[family] = (is_member, position, columns)
    return result


def ranges(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, ..., counts[0] - 1, 0, 1, ..., counts[1] - 1, and so on."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - counts, counts)
