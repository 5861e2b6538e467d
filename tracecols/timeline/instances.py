"""The worst instances of wait states, and those that findings of the diagnosis link to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.timeline.intervals import Columns, Intervals

WORST = 200
"""Number of instances of each wait state that can be stepped through."""

Instance = dict[str, int]
"""A row of the waits, with its columns."""


def instance_of(waits: Columns, row: int) -> Instance:
    """Return a row of the waits, or of the pairs, by column."""
    return {name: int(values[row]) for name, values in waits.items()}


def worst_instances(waits: Intervals, n_properties: int) -> list[list[Instance]]:
    """Return the longest instances of each wait state, the worst first."""
    kept: list[list[Columns]] = [[] for _ in range(n_properties)]
    for batch in waits.batches():
        for number in distinct(batch["property"]).tolist():
            kept[number].append(_longest(waits, batch, batch["property"] == number))
    return [_worst(waits, of_property) for of_property in kept]


def worst_of(
    waits: Intervals, properties: Sequence[int], cause: Sequence[int] = (), call_paths: Sequence[int] = ()
) -> list[Instance]:
    """Return the longest instances of some wait states, given by number. If `cause` or `call_paths` are given, only
    instances caused by one of these locations, and waiting in one of these call paths."""
    kept: list[Columns] = []
    for batch in waits.batches() if properties else ():
        mask = np.isin(batch["property"], properties)
        if cause:
            mask &= np.isin(batch["cause_location"], cause)
        if call_paths:
            mask &= np.isin(batch["call_path"], call_paths)
        kept.append(_longest(waits, batch, mask))
    return _worst(waits, kept)


def _longest(waits: Intervals, batch: Columns, mask: NDArray[np.bool_]) -> Columns:
    at = np.flatnonzero(mask)
    length = batch["end"][at] - batch["begin"][at]
    at = at[np.argsort(-length, kind="stable")[:WORST]]
    return {name: batch[name][at] for name in waits.names}


def _worst(waits: Intervals, kept: Sequence[Columns]) -> list[Instance]:
    """Return the longest intervals of all batches, the worst first, given those of each batch."""
    if not kept:
        return []
    found = {name: np.concatenate([part[name] for part in kept]) for name in waits.names}
    order = np.lexsort((found["location"], found["begin"], found["begin"] - found["end"]))[:WORST]
    return [instance_of(found, i) for i in order.tolist()]


def of_finding(
    waits: Intervals,
    parts: Sequence[str],
    numbers: Mapping[str, Sequence[int]],
    cause: Sequence[int],
    call_paths: Sequence[int],
) -> Instance | None:
    """Return the instance that represents a finding: the longest instance, of the first of its properties that has one,
    that is caused by the locations of the finding; else one in its call paths; else any.

    `parts` are the ids of the properties that the finding explains, the largest first. `numbers` are, by property, the
    numbers of the wait states that equal it or lie below it. `cause` and `call_paths` are those of the finding, empty
    if it has none.
    """
    choices: list[tuple[Sequence[int], Sequence[int]]] = [(cause, ())] if cause else []
    choices += [((), call_paths)] if call_paths else []
    for who, where in (*choices, ((), ())):
        for part in parts:
            found = worst_of(waits, numbers.get(part, ()), who, where)
            if found:
                return found[0]
    return None
