"""Explanations of waits: the causing location, the regions on which it spent its time, and its own waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.timeline.instances import Instance, instance_of
from tracecols.timeline.intervals import Intervals
from tracecols.timeline.slices import MOST_EVENTS, SliceReader, Slices

SHOWN = 8
"""Maximum number of regions in an explanation."""


@dataclass(frozen=True)
class Causes:
    """Explains waits by their causes."""

    waits: Intervals
    pairs: Intervals
    """`waits` and `pairs`: see `collected.COLUMNS`."""
    slices: SliceReader
    region: NDArray[np.int32]
    """(n_call_paths,): region that each call path enters."""

    def find(self, location: int, begin: int, end: int, off: int = 0) -> Instance | None:
        """Return the wait of a location whose begin and end are nearest to these, at most `off` ticks from each; None
        if there is none."""
        _, rows = self.waits.overlapping(begin - off, end + off, {"location": self._only(location)})
        off_begin, off_end = np.abs(rows["begin"] - begin), np.abs(rows["end"] - end)
        at = np.flatnonzero((off_begin <= off) & (off_end <= off))
        if not at.size:
            return None
        nearest = at[np.lexsort((-at, (off_begin + off_end)[at]))[0]]
        return instance_of(rows, int(nearest))

    def _only(self, location: int) -> NDArray[np.bool_]:
        mask = np.zeros(self.slices.n_locations, bool)
        mask[location] = True
        return mask

    def explain(self, wait: Instance) -> dict[str, Any]:
        """Explain a wait; the answer is empty if the cause is not known.

        The answer has `location`, `since` and `until` (ticks) of the causing interval; `waiting_since`, begin of the
        interval on the waiting location that it is compared with; `spent`: [region, ticks that the causing location
        spent on it in excess of the waiting one], the largest first; `waited`: ticks that the causing location waited
        itself; `next`: the longest of these waits, if it is longer than the sum of the excess; else `slice`: the
        longest instance of the region with the largest excess, as [begin, end, depth, region].
        """
        where = wait["cause_location"]
        if where < 0:
            return {}
        pair = self._pair(wait)
        since = wait["begin"] if pair is None else pair["cause_since"]
        until = max(min(wait["cause_time"], wait["end"]), since)
        waiting_since = wait["begin"] if pair is None else pair["waiting_since"]
        found: dict[str, Any] = {"location": where, "since": since, "until": until, "waiting_since": waiting_since}
        n_events = self.slices.n_events([where], since, until)
        n_events += self.slices.n_events([wait["location"]], waiting_since, wait["begin"])
        if n_events > MOST_EVENTS:
            return found
        return found | self._spent(wait, found)

    def _pair(self, wait: Instance) -> Instance | None:
        """Return the pair of points that a wait belongs to, or None."""
        _, rows = self.pairs.overlapping(wait["begin"], wait["end"], {"location": self._only(wait["location"])})
        fits = (rows["cause_location"] == wait["cause_location"]) & (rows["begin"] <= wait["begin"])
        at = np.flatnonzero(fits)
        if not at.size:
            return None
        # the pair whose call begins last; among several, since waits for requests may overlap, the nearest cause
        best = at[np.lexsort((-np.abs(rows["cause_time"][at] - wait["cause_time"]), rows["begin"][at]))[-1]]
        return instance_of(rows, int(best))

    def _spent(self, wait: Instance, interval: dict[str, Any]) -> dict[str, Any]:
        """Compare the region times of the causing interval with those of the waiting location before its wait."""
        where, since, until = interval["location"], interval["since"], interval["until"]
        slices, own = self.slices.of(where, since, until)
        inside = self._waits_within(where, since, until, own)
        other = self.slices.of(wait["location"], interval["waiting_since"], wait["begin"])[1]
        self._waits_within(wait["location"], interval["waiting_since"], wait["begin"], other)
        extra = np.maximum(own - other, 0)
        order = [i for i in np.argsort(-extra, kind="stable")[:SHOWN].tolist() if extra[i] > 0]
        waited = [min(w["end"], until) - max(w["begin"], since) for w in inside]
        found: dict[str, Any] = {"spent": [[i, int(extra[i])] for i in order], "waited": sum(waited)}
        longest = max(range(len(inside)), key=waited.__getitem__, default=-1)
        if longest >= 0 and waited[longest] > int(extra.sum()):
            found["next"] = inside[longest]
        elif order:
            found["slice"] = _longest(slices, order[0])
        return found

    def _waits_within(self, location: int, since: int, until: int, own: NDArray[np.int64]) -> list[Instance]:
        """Return the waits of a location in a time range, and subtract them from the times of their regions, `own`."""
        _, rows = self.waits.overlapping(since, until, {"location": self._only(location)})
        length = np.minimum(rows["end"], until) - np.maximum(rows["begin"], since)
        region = self.region[rows["call_path"]]
        np.subtract.at(own, region, length)
        np.maximum(own, 0, out=own)
        return [instance_of(rows, i) for i in range(length.size)]


def _longest(slices: Slices, name: int) -> list[int]:
    """Return the longest slice with a name: begin, end, depth, name."""
    at = np.flatnonzero(slices.name == name)
    best = at[np.argmax(slices.end[at] - slices.begin[at])]
    return [int(slices.begin[best]), int(slices.end[best]), int(slices.depth[best]), name]
