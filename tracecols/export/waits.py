"""Wait states as intervals of time: where, from when to when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.model import Model
from tracecols.errors import ExportError
from tracecols.patterns.engine import declared_for, find_matches
from tracecols.patterns.registry import properties


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


def find_waits(model: Model, ids: Iterable[str]) -> list[Waits]:
    """Find the single wait states of some properties, by the rules of Scalasca.

    Parameters
    ----------
    model : Model
    ids : iterable of str
        Ids of properties in seconds that patterns find on compound tables.

    Raises
    ------
    ExportError
        If there is no such property, or it has no wait states that stand somewhere in time.
    """
    declared = {p.id: p for p in declared_for(model, "scalasca", ())}
    every = {p.id: p for p in properties("scalasca")} | declared
    possible = sorted(p.id for p in every.values() if p.unit == "sec" and p.match is not None)
    result = []
    for id in dict.fromkeys(ids):
        if id not in possible:
            raise ExportError(f"no wait states of a property {id!r} to show\n  there are {', '.join(possible)}")
        if id not in declared:
            # there can be none in this trace
            continue
        found = find_matches(model, id)
        order = np.argsort(found["location"], kind="stable")
        columns = (found[c][order] for c in ("location", "begin_time", "end_time"))
        result.append(Waits(id, declared[id].title, *columns))
    return result
