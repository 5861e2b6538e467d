"""Numbers by which operations of several processes are joined: the k-th of one process belongs to the k-th of others.

A trace slice holds only some of the operations. So that they are joined as in the whole trace, the manifest of a slice
has the numbers of its operations in the whole trace (`slices.numbering` finds them).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import combine, latest_before
from tracecols.enhance.definitions.locations import PIECE_NUMBERS
from tracecols.store import Store
from tracecols.vectors import Ints

N_COLUMNS = 7
"""Columns of a row: `Numbered`, key (four columns), position in the slice, number in the whole trace."""

_LARGEST = 1 << 31
"""Positions and numbers are less than this."""


class Numbered(IntEnum):
    """Counted operations, and their keys: the process and up to three other numbers."""

    SEND = 0
    """(source, destination, communicator, tag), sends that were not cancelled."""
    RECEIVE = 1
    """(destination, source, communicator, tag), receives in the order in which they were posted."""
    COLLECTIVE = 2
    """(process, communicator), blocking collective operations."""
    NONBLOCKING = 3
    """(process, communicator), non-blocking collective operations in the order in which they were started."""
    WINDOW = 4
    """(process, window), collective operations on a window: fences, MPI_Win_create, operations of SHMEM."""
    FILE = 5
    """(process, handle), collective calls for a file."""
    ACCESS = 6
    """(origin, target, window), access epochs."""
    EXPOSURE = 7
    """(target, origin, window), exposure epochs."""
    FENCED = 9
    """(process, window): 1 if the last synchronisation before the slice was collective; nothing is counted. Older
    slices have 8 for this, with locations, and are read without it."""


class Numbering:
    """The numbers that the operations of a trace slice have in the whole trace.

    Parameters
    ----------
    rows : (n, 7) int64
        `Numbered`, key (four columns, unused ones 0), position, number: the operation at this position among those of
        the same key in the slice has this number in the whole trace, and later operations count on from it. The number
        of operations before the first position of their key, and of operations with other keys, is their position.
    """

    def __init__(self, rows: Ints) -> None:
        self.rows = rows
        self._of: Mapping[int, Ints] = {what: rows[rows[:, 0] == what] for what in distinct(rows[:, 0]).tolist()}

    @classmethod
    def of(cls, store: Store) -> Numbering:
        """Read the numbers from the manifest of a trace slice; the manifest of a whole trace has none. Raises
        StoreError if the entry of the manifest is malformed."""
        text = str(store.manifest["source"].get(PIECE_NUMBERS, ""))
        try:
            values = np.array(text.replace(":", " ").split(), np.int64)
            rows = values.reshape(-1, N_COLUMNS)
        except (ValueError, OverflowError) as error:
            raise store.damaged(f"manifest.json, {PIECE_NUMBERS}: no rows of {N_COLUMNS} whole numbers") from error
        if rows.size and (np.abs(rows[:, 5:]).max() >= _LARGEST or rows[:, 5].min() < 0):
            raise store.damaged(f"manifest.json, {PIECE_NUMBERS}: there are no such positions or numbers")
        return cls(rows)

    def __str__(self) -> str:
        return " ".join(":".join(map(str, row)) for row in self.rows.tolist())

    def __bool__(self) -> bool:
        return bool(self.rows.size)

    def number(self, what: Numbered, position: Ints, *key: NDArray[np.integer]) -> Ints:
        """Return the numbers of operations in the whole trace, given their positions among the operations with the same
        key in this trace.

        Whole traces: `position` itself; slices: O(n log n).
        """
        rows = self._of.get(what)
        if rows is None or not position.size:
            return position
        m = len(rows)
        group = combine(*(np.concatenate([rows[:, 1 + i], column.astype(np.int64)]) for i, column in enumerate(key)))
        at = latest_before(group[:m], rows[:, 5], group[m:], position)
        return position + pick(rows[:, 6] - rows[:, 5], at, 0)
