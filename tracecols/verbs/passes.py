"""Passes over the tables of a trace, slice by slice, and sums of their results."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.periods import MOST_BINS
from tracecols.errors import AnalysisError
from tracecols.given.arguments import did_you_mean, is_whole_number, show
from tracecols.model.model import Model
from tracecols.model.readable import Readable
from tracecols.model.tables import TABLES
from tracecols.severity.reduction import reduce_at

Result = TypeVar("Result")


def over_messages(model: Model, visit: Callable[[Any], Result]) -> list[Result]:
    """Visit the messages slice by slice; the tables of a slice are freed after its visit. `visit(messages)` gets the
    table of a slice and returns a small result."""
    with model.divided() as run:
        return list(run.stages(lambda of_slice, _stage: visit(of_slice.get("messages")), [TABLES["messages"].stage]))


def over_locations(model: Model, locations: NDArray[np.int64], visit: Callable[[int], Result]) -> list[Result]:
    """Visit locations in `model.jobs` threads; `visit(location)` returns a small result."""
    with ThreadPoolExecutor(model.jobs) as pool:
        return list(pool.map(visit, locations.tolist()))


def add_up(key: NDArray[np.int64], *values: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Sum values of equal keys; return the distinct keys in ascending order and the sums, as Python integers if some
    might exceed 64 bits."""
    keys, at = np.unique(key, return_inverse=True)
    return keys, *(reduce_at(at, column, keys.size) for column in values)


def add_up_all(parts: list[tuple[NDArray[np.int64], ...]], n_values: int) -> tuple[NDArray[np.int64], ...]:
    """Sum the results of `add_up` for several slices."""
    nothing = np.zeros(0, np.int64)
    columns = [np.concatenate([nothing, *(part[i] for part in parts)]) for i in range(n_values + 1)]
    return add_up(*columns)


def merged(table: NDArray[np.int64], n_keys: int, n_sums: int) -> NDArray[np.int64]:
    """Merge the columns of a table that have equal keys, in ascending order of keys: the first `n_keys` rows are keys,
    `n_sums` rows are summed, and of all others the maximum is taken; (n_rows, n_groups) int64."""
    table = table[:, np.lexsort(table[:n_keys][::-1])]
    keys = table[:n_keys]
    start = starts_of_groups(keys)
    sums = np.add.reduceat(table[n_keys : n_keys + n_sums], start, axis=1)
    return np.concatenate([keys[:, start], sums, np.maximum.reduceat(table[n_keys + n_sums :], start, axis=1)])


def starts_of_groups(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first column of each run of equal columns; `keys` are (n_keys, n)."""
    return np.flatnonzero(np.append(True, (np.diff(keys, axis=1) != 0).any(axis=0))[: keys.shape[1]])


def check_choice(given: object, known: tuple[str, ...], what: str) -> None:
    """Check that a value is one of some words. Raises AnalysisError if it is not."""
    if not isinstance(given, str) or given not in known:
        hint = did_you_mean(given, known, f"there are {', '.join(known)}")
        raise AnalysisError(f"no {what} {show(given)}\n  {hint}")


SUBDOMAIN = "subdomain"
"""The grouping by subdomains of the application."""


def check_grouping(readable: Readable, given: object, known: tuple[str, ...]) -> None:
    """Check that a value is one of some groupings, or `subdomain`. Raises AnalysisError if it is not, or if the trace
    was opened without subdomains."""
    if given == SUBDOMAIN and readable.subdomains is None:
        raise AnalysisError(
            "nothing is known of subdomains of the application\n"
            '  say which locations belong to them: tracecols.open(path, subdomains="parts.csv")'
        )
    check_choice(given, (*known, SUBDOMAIN), "grouping (by)")


def check_count(given: object, what: str, most: int | None = None) -> int:
    """Return a number of `what` as int. Raises AnalysisError if it is not a whole number from 1, to `most` if that is
    given."""
    if not is_whole_number(given) or given < 1 or (most is not None and given > most):
        to = "" if most is None else f" to {most:,}"
        raise AnalysisError(f"{show(given)} is not a number of {what}\n  give a whole number from 1{to}")
    return int(given)


def interval_edges(model: Model, bins: object) -> NDArray[np.int64]:
    """Divide the time of the recording into intervals whose lengths differ by at most one tick; (n_bins + 1,) int64."""
    n = check_count(bins, "intervals (bins)", MOST_BINS)
    manifest = model.store.manifest
    first, last = int(manifest["first_time"]), int(manifest["last_time"])
    return np.array([first + (last - first) * k // n for k in range(n + 1)], np.int64)
