"""Join of kernels and the calls that launch them: the k-th launch and the k-th kernel of a stream, of a call site and
stream, or those with equal correlation IDs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, pick
from tracecols.enhance.dataflow.grouping import combine, join_occurrences, occurrence
from tracecols.enhance.dataflow.grouping import number as number_of
from tracecols.enhance.definitions.regions import LAUNCH
from tracecols.enhance.devices.calls import BEFORE, DeviceCalls
from tracecols.vectors import Ints, Mask

Keys = tuple[Ints, ...]
"""Columns of the keys by which launches and kernels are joined."""


def join_kernels(d: DeviceCalls, runs: Ints) -> Columns:
    """Join kernels with the innermost calls that launch them, rule by rule; kernels are in order of time.

    Launches and kernels with a call site match only those with the same one. Launches without any reference match the
    kernels of their process if these are on one stream, which is its only queue.
    """
    c, pending = d.calls, d.pending
    number = runs[np.lexsort((c.enter[runs], c.enter_time[runs]))]
    location, callsite = c.location[number].astype(np.int64), d.callsite[number]
    process = d.facts.process[location].astype(np.int64)
    is_correlated, request = d.correlated(number, process)
    launches = d.of_kind(d.innermost(LAUNCH))
    has_correlation = d.correlation[launches.number] >= 0
    has_stream, has_site, names_site = launches.stream >= 0, launches.callsite >= 0, callsite >= 0
    is_named = has_stream | has_site | has_correlation
    # processes whose launches have no references
    silent = ~np.isin(process, np.concatenate([launches.process[is_named], pending.processes()])) & ~is_correlated
    n_streams = np.bincount(d.facts.process[distinct(location)], minlength=int(d.facts.process.max()) + 1)
    of_stream = partial(pending.of_stream, "kernel")
    of_launch, of_kernel = (launches.stream, launches.callsite), (location, callsite)
    rules: tuple[tuple[Mask, Mask, Keys, Keys, Callable[..., int]], ...] = (
        (has_stream & has_site, names_site, of_launch, of_kernel, of_stream),
        (
            ~has_stream & has_site,
            names_site,
            (launches.process, launches.callsite),
            (process, callsite),
            pending.of_site,
        ),
        (has_stream & ~has_site, ~names_site, (launches.stream,), (location,), of_stream),
        (~is_named, silent & (n_streams[process] == 1), (launches.process,), (process,), pending.of_process),
    )
    # launches that are joined with no kernel so far, and the launch of each kernel: BEFORE, or -1 for none
    is_free, of = ~has_correlation, np.full(number.size, -1, np.int64)
    for some, kernels, left, right, before in rules:
        a, b = np.flatnonzero(some & is_free), np.flatnonzero(kernels & (of == -1) & ~is_correlated)
        if b.size:
            found, is_free[a] = _in_order([x[a] for x in left], [y[b] for y in right], before if pending else None)
            of[b] = np.where(found >= 0, pick(a, np.maximum(found, -1)), found)
    launch = np.where(is_correlated, request, np.where(of >= 0, pick(launches.number, np.maximum(of, -1)), of))
    is_free |= has_correlation & ~np.isin(launches.number, launch)
    lacking = is_free & is_named & np.isin(launches.process, process)
    _count_unmatched(d, number, launch, silent, lacking)
    return Columns(
        number.size,
        {
            "location": location,
            "process": process,
            "row": c.enter[number],
            "begin": c.enter_time[number],
            "end": np.maximum(c.exit_time[number], c.enter_time[number]),
            "number": number,
            "request": launch,
            "direction": np.full(number.size, -1, np.int64),
        },
    )


def _in_order(left: Sequence[Ints], right: Sequence[Ints], before: Callable[..., int] | None) -> tuple[Ints, Mask]:
    """Join the k-th launch of each key with the k-th kernel of that key; `left` and `right` are the columns of the keys
    of launches and of kernels.

    In a trace slice, the first kernels of a key belong to the pending launches before its start, of which `before`
    returns the number. Returns the launch of each kernel, BEFORE or -1 for none, and which launches are still free.
    """
    n = left[0].size
    columns = [np.concatenate(both) for both in zip(left, right, strict=True)]
    keys = combine(*columns)
    a, b = np.arange(n), np.arange(keys.size - n)
    of, is_free = np.full(b.size, -1, np.int64), np.ones(n, bool)
    if before is not None:
        group, head = number_of(keys)
        values = zip(*(column[head].tolist() for column in columns), strict=True)
        n_before = np.array([before(*of_key) for of_key in values], np.int64)[group]
        is_free = occurrence(keys[:n]) >= -n_before[:n]
        of = np.where(occurrence(keys[n:]) >= n_before[n:], -1, BEFORE)
        a, b = np.flatnonzero(is_free), np.flatnonzero(of == -1)
    found = join_occurrences(keys[:n][a], keys[n:][b])
    of[b] = pick(a, found)
    is_free[a[found[found >= 0]]] = False
    return of, is_free


def _count_unmatched(d: DeviceCalls, number: Ints, launch: Ints, silent: Mask, lacking: Mask) -> None:
    """Count the kernels without a launch, and those earlier than theirs; `silent` is the mask of the kernels of
    processes whose launches have no references, `lacking` that of the launches without a kernel."""
    d.count("kernels launched before the piece", (launch == BEFORE).sum())
    d.count("kernels without a launch", ((launch == -1) & ~silent).sum())
    d.count(
        "kernels whose launches are not recorded: late hosts and launch latency are not known",
        ((launch == -1) & silent).sum(),
    )
    d.count("launches without a kernel in the piece" if d.is_piece else "launches without a kernel", lacking.sum())
    begin = d.calls.enter_time
    early = (launch >= 0) & (begin[number] < begin[np.maximum(launch, 0)])
    d.count("kernels that begin before their launch", early.sum())
