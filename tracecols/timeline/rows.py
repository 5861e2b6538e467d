"""The rows of the timeline: the system tree in the order of ranks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.severity.axes import SystemAxis


@dataclass(frozen=True)
class Row:
    """A row: a location, or a group of several."""

    parent: int
    """The parent row; -1 none."""
    label: str
    kind: str
    """`label` and `kind`: a node with a single child shares its row: `MPI Rank 3, Master thread`."""
    location: int
    """The location; -1 for a group."""
    locations: NDArray[np.int64]
    """(n,): all locations of the row."""


def rows_of(axis: SystemAxis) -> list[Row]:
    """Return all rows, parents before children; the first row holds all locations."""
    held = axis.held
    # from the last one to the first
    children: dict[int, list[int]] = defaultdict(list)
    for i in range(len(axis.kind) - 1, -1, -1):
        if held[i]:
            children[axis.parent[i]].append(i)
    every = [at for at in axis.location if at >= 0]
    rows = [Row(-1, "all locations", "machine", -1, np.array(every, np.int64))]
    waiting = [(i, 0) for i in children[-1]]
    while waiting:
        i, parent = waiting.pop()
        names = [_name(axis, i)]
        while len(children[i]) == 1:
            (i,) = children[i]
            names.append(_name(axis, i))
        rows.append(Row(parent, ", ".join(names), axis.kind[i], int(axis.location[i]), np.array(held[i], np.int64)))
        waiting += [(child, len(rows) - 1) for child in children[i]]
    return rows


def _name(axis: SystemAxis, i: int) -> str:
    is_group = axis.location[i] < 0 and axis.kind[i] not in ("process", "location group", "subdomain")
    return f"{axis.kind[i]} {axis.name[i]}" if is_group else axis.name[i]


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return rows in the form sent to the page."""
    return [
        {"parent": r.parent, "label": r.label, "kind": r.kind, "location": r.location, "n": int(r.locations.size)}
        for r in rows
    ]
