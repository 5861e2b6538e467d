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
    """A row: a location, or what holds several."""

    parent: int
    """The row above; -1 none."""
    label: str
    kind: str
    """`label` and `kind`: what holds one thing only shares a row with it: `MPI Rank 3, Master thread`."""
    location: int
    """-1 where it holds several."""
    locations: NDArray[np.int64]
    """(n,): all that it holds, itself included."""


def rows_of(axis: SystemAxis) -> list[Row]:
    """Return all rows, each before those it holds; the first holds everything."""
    # from the last node to the first, so that what a node holds is known before its parent is met
    children: dict[int, list[int]] = defaultdict(list)
    held: dict[int, list[int]] = defaultdict(list)
    for i in range(len(axis.kind) - 1, -1, -1):
        if axis.location[i] >= 0:
            held[i].append(int(axis.location[i]))
        if held[i]:
            children[axis.parent[i]].append(i)
            held[axis.parent[i]] += held[i]
    rows = [Row(-1, "all locations", "machine", -1, _in_order(held[-1]))]
    waiting = [(i, 0) for i in children[-1]]
    while waiting:
        i, parent = waiting.pop()
        names = [_name(axis, i)]
        while len(children[i]) == 1:
            (i,) = children[i]
            names.append(_name(axis, i))
        rows.append(Row(parent, ", ".join(names), axis.kind[i], int(axis.location[i]), _in_order(held[i])))
        waiting += [(child, len(rows) - 1) for child in children[i]]
    return rows


def _in_order(held: list[int]) -> NDArray[np.int64]:
    """Return the locations of a node, which were found from the last to the first."""
    return np.array(held[::-1], np.int64)


def _name(axis: SystemAxis, i: int) -> str:
    is_group = axis.location[i] < 0 and axis.kind[i] not in ("process", "location group", "subdomain")
    return f"{axis.kind[i]} {axis.name[i]}" if is_group else axis.name[i]


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return rows as the page gets them."""
    return [
        {"parent": r.parent, "label": r.label, "kind": r.kind, "location": r.location, "n": int(r.locations.size)}
        for r in rows
    ]
