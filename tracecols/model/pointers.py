"""Pointer columns of events, location by location (thesis 3.10, 3.11, 3.16, 3.24, 3.26; EARL 2)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.scan.instances import LocationStacks, scan_location
from tracecols.model.model import Model
from tracecols.vectors import Ints

POINTERS = ("enterptr", "exitptr", "sendptr", "lockptr", "forkptr", "cnodeptr", "cedgeptr", "call_path")

JOINED = ("sendptr", "lockptr", "forkptr")
"""Pointers that follow from compound tables; the others follow from a pass over the location."""


class SlicePointers:
    """The pointer columns of the events of a slice of a trace, in stage `receive` unless the trace is not divided; only
    the values that the `wanted` columns need are computed."""

    def __init__(self, model: Model, wanted: Collection[str] = POINTERS) -> None:
        self.model, self.wanted = model, [name for name in POINTERS if name in wanted]
        self._joined: dict[str, tuple[Ints, Ints]] = {}
        for name in self.wanted:
            if name in JOINED:
                rows, targets = {
                    "sendptr": lambda: (model.messages.recv, model.messages.send),
                    "lockptr": lambda: model.lockptr,
                    "forkptr": lambda: (model.teams.join, model.teams.fork),
                }[name]()
                if (rows[1:] < rows[:-1]).any():
                    order = np.argsort(rows, kind="stable")
                    rows, targets = rows[order], targets[order]
                self._joined[name] = rows, targets

    def stacks(self, location: int) -> LocationStacks:
        """Walk through the events of a location; 33 B per event."""
        model = self.model
        return scan_location(model.facts, model.scans, model.team_instances, location)

    def columns(self, stacks: LocationStacks, start: int, stop: int) -> dict[str, Ints]:
        """Return the wanted columns of the events of a location with start <= number in the location < stop, each (n,)
        int64; -1 is null."""
        rows, wanted = slice(start, stop), self.wanted
        result: dict[str, Ints] = {}
        for name in wanted:
            if name in JOINED:
                result[name] = self._in_range(name, stacks.first + start, stop - start)
            elif name in ("enterptr", "exitptr"):
                result[name] = getattr(stacks, name)[rows]
            elif name == "call_path":
                result[name] = stacks.call_path(rows)
        if "cnodeptr" in wanted or "cedgeptr" in wanted:
            tree = self.model.call_paths
            # an ENTER is where its own call path begins and that of the region around it is left
            entered = np.where(stacks.is_enter(rows), stacks.call_path(rows), -1)
            if "cnodeptr" in wanted:
                result["cnodeptr"] = pick(tree.representative, entered)
            if "cedgeptr" in wanted:
                result["cedgeptr"] = pick(tree.representative, pick(tree.parent, entered))
        return result

    def _in_range(self, name: str, first: int, n: int) -> Ints:
        """Return a column that follows from a table, for `n` events from row `first` on; (n,) int64."""
        rows, targets = self._joined[name]
        low, high = np.searchsorted(rows, [first, first + n])
        column = np.full(n, -1, np.int64)
        column[rows[low:high] - first] = targets[low:high]
        return column
