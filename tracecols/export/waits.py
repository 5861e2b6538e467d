"""Wait states as time intervals of locations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import ExportError
from tracecols.given.arguments import as_texts
from tracecols.model.model import Model
from tracecols.patterns.registry import properties
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import declared_for
from tracecols.search.matches import find_timed
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.resolve import find_property


@dataclass
class Waits:
    """The wait states of a property, ordered by location."""

    id: str
    title: str
    """`id` and `title`: of the property."""
    location: NDArray[np.int32]
    """(n,): location that waits."""
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (n,), ticks; the difference is the severity."""
    cause_location: NDArray[np.int64]
    cause_call_path: NDArray[np.int64]
    cause_time: NDArray[np.int64]
    """`cause_location`, `cause_call_path` and `cause_time`: (n,), location, call path and time (ticks) of the cause; -1
    if the property does not report it."""


ALL, NONE = "all", "none"
"""Values accepted in place of names of properties."""


def properties_of_waits(model: Model, names: str | Iterable[str] | None, conventions: str = DEFAULT) -> list[str]:
    """Return the ids of properties whose wait states have a begin and an end.

    `names` are ids or titles of properties in seconds that patterns find on compound tables; `all` of them, or `none`.
    By default, those that report causes. Raises AnalysisError if the conventions are unknown. Raises ExportError
    if there is no such property, or it is of another kind.
    """
    if names is None or names in ((ALL,), [ALL], ALL):
        # built-in properties only: wait states of user-defined patterns must be requested by name
        built_in = [p for p in declared_for(model, conventions, ()) if p.unit == "sec" and p.pattern is not None]
        return [p.id for p in built_in if names is not None or p.says_cause]
    if names in ((NONE,), [NONE], NONE):
        return []
    every = {p.id: p for p in (*properties(conventions), *declared_for(model, conventions, ()))}
    possible = sorted(p.id for p in every.values() if p.unit == "sec" and p.pattern is not None)
    axis = PropertyAxis.of(every.values())
    there_are = f"there are {ALL}, {NONE}, {', '.join(possible)}"
    found = []
    for name in as_texts(names, "properties", ExportError):
        id = find_property(axis, name, "under these conventions", ExportError, there_are)
        if id not in possible:
            raise ExportError(f"no wait states of a property {id!r} to show\n  {there_are}")
        found.append(id)
    return list(dict.fromkeys(found))


def find_waits(model: Model, ids: Iterable[str], conventions: str = DEFAULT) -> list[Waits]:
    """Find the individual wait states of some properties (`properties_of_waits`)."""
    result = []
    for p, found, times, who in find_timed(model, ids, conventions):
        order = np.argsort(found.location, kind="stable")
        columns: tuple[Any, ...] = (found.location, *times, *who)
        result.append(Waits(p.id, p.title, *(column[order] for column in columns)))
    return result
