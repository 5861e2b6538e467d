"""Wait states as intervals of time: where, from when to when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.arguments import as_texts
from tracecols.enhance.model import Model
from tracecols.errors import ExportError
from tracecols.patterns.engine import declared_for, find_matches
from tracecols.patterns.registry import properties
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.resolve import find_property


@dataclass
class Waits:
    """The wait states of a property, ordered by location.

    Attributes
    ----------
    id, title : str
        Of the property.
    location : (n,) int32
        Where time is lost.
    begin, end : (n,) int64
        From when to when, ticks; the difference is the severity.
    """

    id: str
    title: str
    location: NDArray[np.int32]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def properties_of_waits(model: Model, names: str | Iterable[str]) -> list[str]:
    """Return the ids of properties, by the rules of Scalasca, whose wait states stand somewhere in time.

    Parameters
    ----------
    model : Model
    names : str or iterable of str
        Ids or titles of properties in seconds that patterns find on compound tables.

    Raises
    ------
    ExportError
        If there is no such property, or it is of another kind.
    """
    every = {p.id: p for p in (*properties("scalasca"), *declared_for(model, "scalasca", ()))}
    possible = sorted(p.id for p in every.values() if p.unit == "sec" and p.match is not None)
    axis = PropertyAxis.of(every.values())
    there_are = f"there are {', '.join(possible)}"
    found = []
    for name in as_texts(names, "properties", ExportError):
        id = find_property(axis, name, "under these conventions", ExportError, there_are)
        if id not in possible:
            raise ExportError(f"no wait states of a property {id!r} to show\n  {there_are}")
        found.append(id)
    return list(dict.fromkeys(found))


def find_waits(model: Model, ids: Iterable[str]) -> list[Waits]:
    """Find the single wait states of some properties, by the rules of Scalasca.

    Parameters
    ----------
    model : Model
    ids : iterable of str
        What `properties_of_waits` returns.
    """
    declared = {p.id: p for p in declared_for(model, "scalasca", ())}
    result = []
    for id in ids:
        if id not in declared:
            # there can be none in this trace
            continue
        found = find_matches(model, id)
        order = np.argsort(found["location"], kind="stable")
        columns = (found[c][order] for c in ("location", "begin_time", "end_time"))
        result.append(Waits(id, declared[id].title, *columns))
    return result
