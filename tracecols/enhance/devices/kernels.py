"""Join of kernels and the calls that launch them: the k-th launch and the k-th kernel of a stream, of a call site and
stream, or those with equal correlation IDs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, pick
from tracecols.enhance.dataflow.grouping import combine, join_occurrences, occurrence
from tracecols.enhance.dataflow.grouping import number as number_of
from tracecols.enhance.definitions.regions import LAUNCH
from tracecols.enhance.devices.calls import BEFORE, DeviceCalls

Ints = NDArray[np.int64]


def join_kernels(d: DeviceCalls, runs: Ints) -> Columns:
    """Join kernels with the calls that launch them."""
    c = d.calls
    order = np.lexsort((c.enter[runs], c.enter_time[runs]))
    number = runs[order]
    location = c.location[number].astype(np.int64)
    process = d.facts.process[location].astype(np.int64)
    callsite = d.callsite[number]
    launches = d.of_kind(d.innermost(LAUNCH))
    of = np.full(number.size, -1, np.int64)
    has_correlation = d.correlation[launches.number] >= 0
    free = ~has_correlation
    is_correlated, request = d.correlated(number, process)

    def join(
        some: NDArray[np.bool_],
        kernels: NDArray[np.bool_],
        left: tuple[Ints, ...],
        right: tuple[Ints, ...],
        before: Callable[..., int],
    ) -> None:
        """Join the k-th launch of each key with the k-th kernel of that key, among some launches and kernels.

        In a trace slice, the first kernels of a key belong to the pending launches before the start of the slice.
        """
        a, b = np.flatnonzero(some & free), np.flatnonzero(kernels & (of == -1) & ~is_correlated)
        if not b.size:
            return
        keys = combine(*(np.concatenate([x[a], y[b]]) for x, y in zip(left, right, strict=True)))
        if d.pending:
            group, head = number_of(keys)
            values = (np.concatenate([x[a], y[b]])[head].tolist() for x, y in zip(left, right, strict=True))
            n = np.array([before(*of_key) for of_key in zip(*values, strict=True)], np.int64)[group]
            kept_a, kept_b = occurrence(keys[: a.size]) >= -n[: a.size], occurrence(keys[a.size :]) >= n[a.size :]
            free[a[~kept_a]] = False
            of[b[~kept_b]] = BEFORE
            keys = np.concatenate([keys[: a.size][kept_a], keys[a.size :][kept_b]])
            a, b = a[kept_a], b[kept_b]
        found = join_occurrences(keys[: a.size], keys[a.size :])
        of[b] = np.where(found >= 0, a[found] if a.size else -1, -1)
        free[a[found[found >= 0]]] = False

    has_stream, has_site = launches.stream >= 0, launches.callsite >= 0
    names_site = callsite >= 0
    join(
        has_stream & has_site,
        names_site,
        (launches.stream, launches.callsite),
        (location, callsite),
        lambda stream, site: d.pending.of_stream("kernel", stream, site),
    )
    join(
        ~has_stream & has_site,
        names_site,
        (launches.process, launches.callsite),
        (process, callsite),
        d.pending.of_site,
    )
    # launches and kernels with a call site match only those with the same one
    join(
        has_stream & ~has_site,
        ~names_site,
        (launches.stream,),
        (location,),
        lambda stream: d.pending.of_stream("kernel", stream),
    )
    # launches without any reference: a process with one stream has one queue
    named = np.concatenate([launches.process[has_stream | has_site | has_correlation], d.pending.processes()])
    silent = ~np.isin(process, named) & ~is_correlated
    streams = distinct(location)
    n_streams = np.bincount(d.facts.process[streams], minlength=int(d.facts.process.max()) + 1)
    join(
        ~has_stream & ~has_site,
        silent & (n_streams[process] == 1),
        (launches.process,),
        (process,),
        d.pending.of_process,
    )

    launch = np.where(of == BEFORE, BEFORE, pick(launches.number, np.maximum(of, -1)))
    launch = np.where(is_correlated, request, launch)
    free |= has_correlation & ~np.isin(launches.number, launch)
    d.count("kernels launched before the piece", (launch == BEFORE).sum())
    d.count("kernels without a launch", ((launch == -1) & ~silent).sum())
    d.count(
        "kernels whose launches are not recorded: late hosts and launch latency are not known",
        ((launch == -1) & silent).sum(),
    )
    is_here = np.isin(launches.process, process)
    lacking = "launches without a kernel in the piece" if d.is_piece else "launches without a kernel"
    d.count(lacking, (free & (has_stream | has_site | has_correlation) & is_here).sum())
    early = (launch >= 0) & (c.enter_time[number] < c.enter_time[np.maximum(launch, 0)])
    d.count("kernels that begin before their launch", early.sum())
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
