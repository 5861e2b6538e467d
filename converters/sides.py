"""From decoded values to the columns of side tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.kernels.kernel import kernel
from tracecols.schema import KINDS, SIDE_TABLES, EventKind


@kernel
def gather_fields(event, kind, values, is_member, position, row, row_kind, columns):
    """Collect the events of one family: value `position[kind, c]` of each becomes column c, -1 where it has none."""
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


def family_columns(
    event: NDArray[np.int64],
    kind: NDArray[np.uint8],
    values: NDArray[np.int64],
    is_member: NDArray[np.uint8],
    position: NDArray[np.int8],
    columns: list[tuple[str, Any]],
) -> Columns:
    """Make the columns of one family's side table.

    Parameters
    ----------
    event, kind, values : (n,) int64, uint8, (n, 6) int64
        Decoded events with attributes.
    is_member : (256,) uint8
        Whether a kind belongs to the family.
    position : (256, n_columns) int8
        Which value of a kind fills which column; -1 none.
    columns : list of (name, dtype)
        The columns.
    """
    n = int(is_member[kind].sum())
    row, row_kind, filled = np.empty(n, np.int64), np.empty(n, np.uint8), np.empty((len(columns), n), np.int64)
    gather_fields(event, kind, values, is_member, position, row, row_kind, filled)
    return {"row": row, "kind": row_kind, **{name: filled[c].astype(dtype) for c, (name, dtype) in enumerate(columns)}}


SideColumns = dict[str, tuple[NDArray[np.uint8], NDArray[np.int8], list[tuple[str, Any]]]]
"""By family: which kinds belong to it, which value of a kind fills which column, and the columns."""


def side_columns(values_of: Mapping[EventKind, Sequence[str]]) -> SideColumns:
    """Say which value of each kind fills which column of its family's table.

    Parameters
    ----------
    values_of : mapping
        By kind the columns that its values fill, in order.
    """
    families = {k.number: k.family for k in KINDS}
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
    """Return 0, 1, ..., counts[0] - 1, 0, 1, ..., counts[1] - 1, and so on.

    Parameters
    ----------
    counts : (n,) int64
        Length of each range.
    """
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - counts, counts)
