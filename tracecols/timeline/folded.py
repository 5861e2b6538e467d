"""Phases folded: all instances of a phase drawn one below the other, aligned at their begins, so that slow ones are
easy to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.distinct import ends_run, starts_run
from tracecols.enhance.scan.periods import FROM, phases_of
from tracecols.errors import AnalysisError
from tracecols.given.printable import printable
from tracecols.model.model import Model
from tracecols.once import Kept, Recent
from tracecols.patterns.candidates import propose_phases
from tracecols.schema.properties import COMPUTATION
from tracecols.timeline.answers import MOST_COLUMNS, MOST_ROWS, Answer, QuestionError, Timeline, until
from tracecols.timeline.collected import KINDS, WAITS
from tracecols.timeline.intervals import Columns
from tracecols.timeline.rows import Row, as_json
from tracecols.timeline.slices import MOST_EVENTS, Slices, joined
from tracecols.verbs.times import instances_of
from tracecols.work.memory import Budget

MOST_INSTANCES = 5_000
"""Maximum number of rows of folded phases; the longest instances are kept."""

MOST_EVENTS_FOLDED = 4 * MOST_EVENTS
"""Maximum number of events between the marks around the shown instances for which slices are read: each instance of a
row has its own marks."""

KEPT = 8
"""Number of foldings that are kept."""

MOST_WAITS = 1 << 20
"""Maximum number of waits, from the begin of the first instance to the end of the last, for which they are drawn."""

ORDERS = ("longest", "time")
"""Orders of instances."""


@dataclass(frozen=True)
class Instances:
    """Instances of a phase; times in ticks."""

    location: NDArray[np.int64]
    number: NDArray[np.int64]
    """`location` and `number`: (n,), location, and number of the instance on it, from 0."""
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (n,), ticks."""

    @property
    def length(self) -> NDArray[np.int64]:
        """Durations of the instances; (n,) int64."""
        return self.end - self.begin

    def take(self, rows: NDArray[Any]) -> Instances:
        """Return some of the instances."""
        return Instances(self.location[rows], self.number[rows], self.begin[rows], self.end[rows])


def find_instances(model: Model, words: str) -> Instances:
    """Find the instances of a phase, given as for `tracecols analyze --phases`, on all locations. Instances that never
    end last until the end of the recording. Raises AnalysisError if there is no such region, or it is never entered
    that way."""
    tree = model.call_paths
    fits = phases_of(words, model.regions.name).fits
    chosen, above = np.ones(len(tree), bool), np.arange(len(tree))
    for level in fits:
        chosen &= (above >= 0) & level[tree.region[above]]
        above = np.where(above >= 0, tree.parent[above], -1)
    location, path, number, begin, end, _ = instances_of(model, chosen)
    if not location.size:
        raise AnalysisError(f"no call path ends with {words}\n  tracecols phases TRACE proposes some")
    if words.startswith(FROM):
        end = _until_next(model, location, path, begin)
    return Instances(location, number, begin, np.maximum(end, begin))


def _until_next(
    model: Model, location: NDArray[np.int64], path: NDArray[np.int64], begin: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return, for each call, the begin of the next one on its location; for the last one, the end of the region
    instance that encloses the first one."""
    around = np.zeros(len(model.call_paths), bool)
    parents = model.call_paths.parent[path]
    around[parents[parents >= 0]] = True
    where, _, _, since, until, _ = instances_of(model, around)
    end = np.append(begin[1:], 0)
    for first, last in zip(np.flatnonzero(starts_run(location)), np.flatnonzero(ends_run(location)), strict=True):
        encloses = (where == location[first]) & (since <= begin[first]) & (until >= begin[first])
        end[last] = until[encloses].max(initial=begin[last])
    return end


class Folded:
    """Answers questions about the instances of a phase, called `words`, as `Timeline` does about a run: each instance
    is a row, and times are ticks since its begin. The shorter ones of `n_all` instances may be left out."""

    def __init__(self, timeline: Timeline, instances: Instances, words: str, n_all: int, order: str) -> None:
        self._timeline = timeline
        self._instances = instances
        self._words = words
        self._n_all = n_all
        self._order = order
        everything = np.arange(instances.begin.size)
        self._rows = [Row(-1, "all instances", "phase", -1, everything)]
        names = {row.location: self._name(row) for row in timeline.rows if row.location >= 0}
        self._rows += [
            Row(0, f"#{number} on {names[location]}", "phase", k, everything[k : k + 1])
            for k, (number, location) in enumerate(
                zip(instances.number.tolist(), instances.location.tolist(), strict=True)
            )
        ]
        self._waits, self._n_left_out = self._find_waits()

    def _name(self, row: Row) -> str:
        """Return the label of a location, preceded by that of its parent."""
        above = self._timeline.rows[row.parent]
        return f"{above.label}, {row.label}" if row.parent > 0 and above.parent > 0 else row.label

    def _find_waits(self) -> tuple[Columns, int]:
        """Return the waits in the instances, in the order of rows: `location` is the number of the instance, times are
        ticks since its begin. Also return the number of waits that are left out because there are too many."""
        found = self._instances
        table = self._timeline.tables[WAITS]
        mask = np.zeros(self._timeline.slices.n_locations, bool)
        mask[found.location] = True
        span = (int(found.begin.min()), int(found.end.max()) + 1)
        n, waits = table.overlapping(*span, {"location": mask}, MOST_WAITS)
        # the waits of a location are ordered by begin: those of an instance lie between two rows
        at_location = np.argsort(waits["location"], kind="stable")
        starts = np.searchsorted(waits["location"][at_location], np.arange(mask.size + 1))
        ends = {
            i: np.maximum.accumulate(waits["end"][at_location[starts[i] : starts[i + 1]]]) for i in np.flatnonzero(mask)
        }
        parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for k, location in enumerate(found.location.tolist()):
            mine = at_location[starts[location] : starts[location + 1]]
            low = np.searchsorted(ends[location], found.begin[k], "right")
            high = np.searchsorted(waits["begin"][mine], found.end[k])
            inside = mine[low:high][waits["end"][mine[low:high]] > found.begin[k]]
            parts.append((np.full(inside.size, k), inside))
        instance = np.concatenate([np.zeros(0, np.int64), *(p[0] for p in parts)])
        at = np.concatenate([np.zeros(0, np.int64), *(p[1] for p in parts)])
        result = {name: values[at] for name, values in waits.items()}
        begin, length = found.begin[instance], found.length[instance]
        result["begin"] = np.maximum(result["begin"] - begin, 0)
        result["end"] = np.minimum(result["end"] - begin, length)
        result["location"] = instance
        # the causing location is not an instance
        result["cause_location"] = np.full(instance.size, -1, np.int32)
        return result, n - waits["begin"].size

    def about(self) -> Answer:
        """Describe the content, as `Timeline.about`. `folded` describes the phase; arrays `fold.NAME` hold begin, end
        and location of each instance in the run."""
        of_run = self._timeline.about()
        found = self._instances
        length = found.length
        n_left_out = self._n_all - found.begin.size
        notes = [f"{n_left_out:,} shorter instances are left out"] if n_left_out else []
        if self._n_left_out:
            notes.append(f"{self._n_left_out:,} waits are too many to be drawn")
        says = {
            **of_run.says,
            "length": int(length.max()),
            "zero": 0.0,
            "rows": as_json(self._rows),
            "classes": [COMPUTATION, WAITS],
            "titles": ["running", "waiting"],
            "severities": {},
            "n_worst": [0 for _ in of_run.says["n_worst"]],
            "findings": [],
            "notes": notes,
            "has_counters": False,
            "has_path": False,
            "folded": {
                "phase": printable(self._words),
                "order": self._order,
                "n": int(found.begin.size),
                "median": float(np.median(length)),
            },
        }
        arrays = {"begin": found.begin - self._timeline.first, "end": found.end - self._timeline.first}
        arrays["location"] = found.location
        return Answer(says, {**of_run.arrays, **{f"fold.{name}": values for name, values in arrays.items()}})

    def view(
        self,
        start: int,
        stop: int,
        rows: Sequence[int],
        columns: int,
        severity: str = "",
        go_on: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Return the content of some instances between two times, as `Timeline.view`: `ticks` of running and of
        waiting and, if events can be distinguished, slices and waits. Raises QuestionError if the arguments are
        invalid."""
        length = int(self._instances.length.max())
        stop = until(stop, length + 1)
        if not 0 <= start < stop <= length + 1:
            raise QuestionError(f"there is no time from {start} to {stop}: the longest instance lasts {length} ticks")
        if not 1 <= columns <= MOST_COLUMNS or len(rows) > MOST_ROWS or severity:
            raise QuestionError(f"{columns} columns of {len(rows)} rows are none or too many")
        if any(not 0 <= i < len(self._rows) for i in rows):
            raise QuestionError(f"there is no such row: there are {len(self._rows)}")
        n = min(max(columns // 2, 1), stop - start)
        # Python integers: products exceed 64 bits if a second has 10**17 ticks, as in EPILOG traces
        edges = np.array([start + (stop - start) * i // n for i in range(n + 1)], np.int64)
        chosen = [self._rows[i].locations for i in rows]
        nothing = np.full((len(rows), n), -1, np.int32)
        arrays: dict[str, NDArray[Any]] = {"edges": edges, "path": nothing, "best": np.zeros((len(rows), n), np.int64)}
        arrays["ticks"] = np.array([self._shares(edges, instances) for instances in chosen]).swapaxes(0, 1)
        go_on()
        of_rows = [int(self._rows[i].location) for i in rows if self._rows[i].location >= 0]
        spans = [(k, *self._span(k, start, stop)) for k in of_rows]
        spans = [span for span in spans if span[2] < span[3]]
        n_events = sum(self._timeline.slices.n_events([location], low, high) for _, location, low, high in spans)
        says: dict[str, Any] = {"level": 0, "n": {}, "left_out": [], "n_events": n_events}
        says["detail"] = bool(of_rows) and n_events <= MOST_EVENTS_FOLDED
        if says["detail"]:
            shortest = max((stop - start) // columns, 0)
            parts, says["shortest"] = self._timeline.slices.read_each([span[1:] for span in spans], shortest, go_on)
            slices = joined([self._since_begin(k, part) for (k, *_), part in zip(spans, parts, strict=True)])
            waits, tables = self._waits, self._timeline.tables
            is_shown = np.isin(waits["location"], of_rows) & (waits["begin"] < stop) & (waits["end"] > start)
            says["n"] = {"slice": int(slices.begin.size), WAITS: int(is_shown.sum())}
            nothing_of = {kind: tables[kind].overlapping(0, 0, most=0)[1] for kind in KINDS}
            found = {"slice": slices.columns(), **nothing_of}
            found[WAITS] = {name: of[is_shown] for name, of in waits.items()}
            arrays |= {f"{kind}.{name}": of for kind, columns_of in found.items() for name, of in columns_of.items()}
        return Answer(says, arrays)

    def _since_begin(self, k: int, slices: Slices) -> Slices:
        """Return the slices of an instance with its number as location, and times since its begin."""
        begin = self._instances.begin[k]
        location = np.full(slices.begin.size, k, np.int32)
        return replace(slices, location=location, begin=slices.begin - begin, end=slices.end - begin)

    def _span(self, k: int, start: int, stop: int) -> tuple[int, int, int]:
        """Return the location of an instance, and the clock ticks of its part between two times since its begin."""
        begin, end = int(self._instances.begin[k]), int(self._instances.end[k])
        return int(self._instances.location[k]), begin + start, min(begin + stop, end)

    def _shares(self, edges: NDArray[np.int64], instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ticks that instances run and wait in each bin; (2, n_bins) int64."""
        waits = self._waits
        if instances.size == 1:
            low, high = np.searchsorted(waits["location"], [instances[0], instances[0] + 1])
            waits = {name: values[low:high] for name, values in waits.items()}
        lasting = np.diff(_sum_below(self._instances.length[instances], edges))
        waiting = np.diff(_sum_below(waits["end"], edges) - _sum_below(waits["begin"], edges))
        # waits for several requests at once overlap
        waiting = np.minimum(waiting, lasting)
        return np.array([lasting - waiting, waiting])


def _sum_below(values: NDArray[Any], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each edge, the sum of min(value, edge) over all values; O(n log n)."""
    ordered = np.sort(values.astype(np.int64))
    sums = np.concatenate([[0], np.cumsum(ordered)])
    n = np.searchsorted(ordered, edges)
    return np.asarray(sums[n] + (ordered.size - n) * edges, np.int64)


class Folds:
    """Folds phases of a trace with some threads and memory; keeps recent results."""

    def __init__(self, timeline: Timeline, jobs: int | None = None, budget: Budget | None = None) -> None:
        self._timeline, self._jobs, self._budget = timeline, jobs, budget
        self._found = Kept[str, tuple[str, Instances]]()
        self._folded = Recent[tuple[str, str, int], Folded](KEPT)

    def of(self, words: str = "", order: str = "longest", row: int = 0) -> Folded:
        """Return the instances of a phase on the locations of a row.

        `words` is an argument of `tracecols analyze --phases`, by default the first proposal of `tracecols phases`;
        `order` is one of `ORDERS`; row 0 has all locations. Raises AnalysisError if there is no such phase, or none on
        these locations. Raises QuestionError if there is no such order or row.
        """
        if order not in ORDERS:
            raise QuestionError(f"instances are ordered by {' or '.join(ORDERS)}, not by {order}")
        if not 0 <= row < len(self._timeline.rows):
            raise QuestionError(f"there is no such row: there are {len(self._timeline.rows)}")
        return self._folded.get((words, order, row), lambda: self._make(words, order, row))

    def instances(self, words: str = "") -> tuple[str, Instances]:
        """Return the name of a phase, and its instances on all locations. Raises AnalysisError if there is no such
        phase."""
        return self._found.get(words, lambda: self._search(words))

    def _make(self, words: str, order: str, row: int) -> Folded:
        name, found = self.instances(words)
        held = self._timeline.rows[row]
        if row:
            found = found.take(np.flatnonzero(np.isin(found.location, held.locations)))
        if not found.begin.size:
            raise AnalysisError(f"{held.label} has no instance of {name}\n  fold those of all locations")
        longest = np.argsort(-found.length, kind="stable")[:MOST_INSTANCES]
        by_time = np.lexsort((found.location[longest], found.begin[longest]))
        chosen = longest if order == "longest" else longest[by_time]
        return Folded(self._timeline, found.take(chosen), name, found.begin.size, order)

    def _search(self, words: str) -> tuple[str, Instances]:
        """Find the instances on all locations, with a scan of the trace."""
        model = OpenedTrace(self._timeline.store, self._jobs, self._budget).model
        if not words:
            proposed = propose_phases(model)
            if not proposed:
                raise AnalysisError(
                    "no phases are found in this trace\n  name a region: tracecols view TRACE --phases REGION"
                )
            words = proposed[0].phases
        return words, find_instances(model, words)
