"""Who waits for whom, and the worst instances of a wait state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.definitions.locations import find_locations
from tracecols.enhance.scan.paths import find_paths
from tracecols.errors import AnalysisError
from tracecols.given.arguments import did_you_mean, show
from tracecols.model.model import Model
from tracecols.model.readable import named_rows, nullable
from tracecols.patterns.base import Property
from tracecols.patterns.matches import Matches
from tracecols.schema import answers
from tracecols.schema.properties import LATE_SENDER
from tracecols.schema.severity import DEFAULT
from tracecols.search.matches import causes_of, find_waits, over_matches, states_below
from tracecols.search.search import times_of
from tracecols.verbs.answers import Answer, answer, sorted_by
from tracecols.verbs.passes import SUBDOMAIN, check_count, check_grouping, merged, starts_of_groups


def late_senders(trace: OpenedTrace, by: str = "rank", conventions: str = DEFAULT) -> Answer:
    """Return who waits for whom in late senders, the longest first.

    Parameters
    ----------
    by : str
        Grouping of victims and culprits: `rank`, `thread`, `path` (rank and call path) or `subdomain` (if the trace was
        opened with subdomains).
    conventions : str
        As for `analyze`.

    Returns
    -------
    Answer
        `victim_rank`, `culprit_rank` (and `..._thread` or `..._path`, or `..._subdomain` in their place), `n_waits`,
        `seconds`, `longest_seconds`. `plot()` draws a matrix.
    """
    model, readable = trace.model, trace.readable
    check_grouping(readable, by, ("rank", "thread", "path"))
    # what identifies each side, and the columns that are made of it
    sides: dict[str, tuple[Callable[..., tuple[Any, ...]], Callable[..., dict[str, Any]]]] = {
        "rank": (lambda location, _path: (readable.rank[location],), lambda side, rank: {f"{side}_rank": rank}),
        "thread": (lambda location, _path: (location,), lambda side, location: readable.who(location, f"{side}_")),
        "path": (
            lambda location, path: (readable.rank[location], path),
            lambda side, rank, path: {f"{side}_rank": rank, f"{side}_path": readable.paths(path)},
        ),
        SUBDOMAIN: (
            lambda location, _path: (readable.subdomain_numbers[location],),
            lambda side, number: {f"{side}_subdomain": readable.subdomains_named(number)},
        ),
    }
    of_side, columns_of = sides[by]
    n_keys = 4 if by == "path" else 2

    def visit(_model: Model, _p: Property, m: CompoundTable, found: Matches) -> NDArray[np.int64]:
        at = found.row
        who = *of_side(found.location, found.call_path), *of_side(m.send_location[at], m.send_call_path[at])
        return merged(np.array([*who, np.ones(len(found)), found.severity, found.severity], np.int64), n_keys, 2)

    _, parts = over_matches(model, LATE_SENDER, visit, conventions)
    found = merged(np.concatenate([np.zeros((n_keys + 3, 0), np.int64), *parts], axis=1), n_keys, 2)
    *who, n_waits, ticks, longest = found
    named = columns_of("victim", *who[: n_keys // 2]) | columns_of("culprit", *who[n_keys // 2 :])
    times = {"seconds": readable.duration(ticks), "longest_seconds": readable.duration(longest)}
    return sorted_by(answer(answers.LATE_SENDERS, {**named, "n_waits": n_waits, **times}), "seconds")


def waits_by_cause(
    trace: OpenedTrace,
    cause: str | None = None,
    *,
    rank: int | None = None,
    thread: int | None = None,
    property: str | None = None,
    conventions: str = DEFAULT,
) -> Answer:
    """Return who waits for whom in all wait states with known causes, or the waits for one cause.

    Parameters
    ----------
    cause : str, optional
        A call path, a region, or a shell pattern: only waits whose cause is in it.
    rank, thread : int, optional
        Only waits for this rank, this thread.
    property : str, optional
        Id or title: only this wait state, and those below it.
    conventions : str
        As for `analyze`.

    Returns
    -------
    Answer
        `property`, `rank`, `thread`, `path`, `cause_rank`, `cause_thread`, `cause_path`, `n_waits`, `seconds`,
        `longest_seconds`, `longest_begin_seconds`. `plot()` draws a matrix.

    Raises
    ------
    AnalysisError
        If there is no such call path, location or property.
    """
    model, readable = trace.model, trace.readable
    states = states_below(model, property, conventions)
    waits = find_waits(model, conventions)
    of_property, names = pd.factorize(waits["property"])
    chosen = np.append(np.isin(names.astype(str), states), False)[of_property]
    if cause is not None:
        chosen &= np.append(_paths_called(model, cause), False)[waits["cause_call_path"]]
    locations = find_locations(model.store, None, rank, thread, AnalysisError)
    if locations is not None:
        chosen &= np.isin(waits["cause_location"], locations)
    location, call_path, begin, end, who, whose = (
        waits[name][chosen]
        for name in ("location", "call_path", "begin_time", "end_time", "cause_location", "cause_call_path")
    )
    keys, n_waits, ticks, longest, first = _longest_of(
        np.array([of_property[chosen], location, call_path, who, whose], np.int64), end - begin, begin
    )
    number, location, call_path, who, whose = keys
    columns = {
        "property": named_rows(names, number),
        **readable.who(location),
        "path": readable.paths(call_path),
        **readable.who(who, "cause_"),
        "cause_path": readable.paths(whose),
        "n_waits": n_waits,
        "seconds": readable.duration(ticks),
        "longest_seconds": readable.duration(longest),
        "longest_begin_seconds": readable.seconds(first),
    }
    return sorted_by(answer(answers.WAITS_BY_CAUSE, columns), "seconds")


def _paths_called(model: Model, text: str) -> NDArray[np.bool_]:
    """Select call paths of a trace by path, region or pattern; (n_call_paths,) bool."""
    if not isinstance(text, str):
        raise AnalysisError(
            f"a call path is given as a text, not as {show(text)}\n  give a path, a region, or a pattern"
        )
    tree = model.call_paths
    name = np.asarray(model.regions.name, object)[tree.region]
    found = find_paths(tree.parent, name, text)
    if not found.any():
        hint = did_you_mean(text.rpartition("/")[2], name.tolist(), "give a whole path, a region, or a pattern")
        raise AnalysisError(f"no call path matches {show(text)}\n  {hint}")
    return found


def _longest_of(
    keys: NDArray[np.int64], ticks: NDArray[np.int64], begin: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Group waits by equal keys: return the keys, (n_keys, n_groups), and the number of waits, their total ticks, and
    ticks and begin of the longest one, (n_groups,) each; all int64."""
    order = np.lexsort((begin, -ticks, *keys[::-1]))
    keys, ticks, begin = keys[:, order], ticks[order], begin[order]
    start = starts_of_groups(keys)
    sums = np.add.reduceat(ticks, start)
    return keys[:, start], np.diff(np.append(start, order.size)), sums, ticks[start], begin[start]


COLUMNS = (
    "severity", "begin", "end", "location", "call_path", "cause_location", "cause_call_path", "cause_time",
)  # fmt: skip
"""Integer columns of an instance."""


def top_instances(trace: OpenedTrace, property: str, n: int = 10, conventions: str = DEFAULT) -> Answer:
    """Return the worst instances of a property: when, where, and who causes them.

    Parameters
    ----------
    property : str
        Id or title of a property that is matched on a compound table (`tracecols patterns` says which).
    n : int
        How many.
    conventions : str
        As for `analyze`.

    Returns
    -------
    Answer
        `severity` (in the unit of the property), `begin_seconds`, `end_seconds`, `rank`, `thread`, `path`,
        `cause_rank`, `cause_thread`, `cause_path`, `cause_seconds` (null if the pattern does not know the cause).
        `plot()` draws a timeline.

    Raises
    ------
    AnalysisError
        If there is no such property, or it is computed from call paths.
    """
    model, readable = trace.model, trace.readable
    p, found = worst_instances(model, property, check_count(n, "instances"), conventions)
    severity = found["severity"]
    cause = found["cause_location"]
    is_known = cause >= 0
    return answer(
        answers.TOP_INSTANCES,
        {
            "severity": readable.duration(severity) if p.unit == "sec" else severity,
            "begin_seconds": readable.seconds(found["begin"]),
            "end_seconds": readable.seconds(found["end"]),
            **readable.who(found["location"]),
            "path": readable.paths(found["call_path"]),
            **readable.who(cause, "cause_"),
            "cause_rank": nullable(readable.rank[cause], ~is_known),
            "cause_thread": nullable(readable.thread[cause], ~is_known),
            "cause_path": readable.paths(found["cause_call_path"]),
            "cause_seconds": readable.seconds(np.where(is_known, found["cause_time"], -1)),
        },
    )


def worst_instances(
    model: Model, name: str, n: int, conventions: str = DEFAULT
) -> tuple[Property, dict[str, NDArray[np.int64]]]:
    """Find the `n` worst instances of a property, by id or title, as integer columns `COLUMNS`, the worst first;
    equally bad ones in order of begin."""

    def visit(of_slice: Model, p: Property, table: CompoundTable, found: Matches) -> NDArray[np.int64]:
        begin, end = times_of(p, table, found)
        cause = causes_of(of_slice, p, table, found)
        return _worst(np.array([found.severity, begin, end, found.location, found.call_path, *cause], np.int64), n)

    p, parts = over_matches(model, name, visit, conventions)
    found = _worst(np.concatenate([np.zeros((len(COLUMNS), 0), np.int64), *parts], axis=1), n)
    return p, dict(zip(COLUMNS, found, strict=True))


def _worst(columns: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    severity, begin, end, location, call_path = columns[:5]
    order = np.lexsort((end, call_path, location, begin, -severity))
    return columns[:, order[severity[order] > 0][:n]]
