"""Join of kernels and the calls that launch them: the k-th launch and the k-th kernel of a stream, of a call site and
stream, or those with equal correlation IDs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, pick
from tracecols.enhance.dataflow.grouping import combine, join_occurrences, occurrence
from tracecols.enhance.dataflow.grouping import number as number_of
from tracecols.enhance.definitions.regions import LAUNCH
from tracecols.enhance.devices.calls import BEFORE, DeviceCalls
from tracecols.vectors import Ints, Mask


def join_kernels(d: DeviceCalls, runs: Ints) -> Columns:
    """Join kernels with the calls that launch them."""
    c = d.calls
    number = runs[np.lexsort((c.enter[runs], c.enter_time[runs]))]
    joining = _Joining(d, number)
    joining.by_references()
    silent = joining.without_references()
    launch = joining.launch
    joining.count_unmatched(launch, silent)
    return Columns(
        number.size,
        {
            "location": joining.location,
            "process": joining.process,
            "row": c.enter[number],
            "begin": c.enter_time[number],
            "end": np.maximum(c.exit_time[number], c.enter_time[number]),
            "number": number,
            "request": launch,
            "direction": np.full(number.size, -1, np.int64),
        },
    )


class _Joining:
    """Kernels, in order of time, and the innermost calls that launch kernels, which are joined rule by rule."""

    def __init__(self, d: DeviceCalls, number: Ints) -> None:
        self._d, self._number = d, number
        self.location = d.calls.location[number].astype(np.int64)
        self.process = d.facts.process[self.location].astype(np.int64)
        self._callsite = d.callsite[number]
        self._is_correlated, self._request = d.correlated(number, self.process)
        self._launches = launches = d.of_kind(d.innermost(LAUNCH))
        self._has_correlation = d.correlation[launches.number] >= 0
        self._has_stream, self._has_site = launches.stream >= 0, launches.callsite >= 0
        # launches that are joined with no kernel so far, and the launch of each kernel: BEFORE, or -1 for none
        self._free = ~self._has_correlation
        self._of = np.full(number.size, -1, np.int64)

    @property
    def _is_named(self) -> Mask:
        """Mask of the launches that refer to a stream, a call site or a correlation ID."""
        return self._has_stream | self._has_site | self._has_correlation

    def by_references(self) -> None:
        """Join launches that refer to streams or call sites, and kernels: those with a call site match only those with
        the same one."""
        launches, pending = self._launches, self._d.pending
        has_stream, has_site, names_site = self._has_stream, self._has_site, self._callsite >= 0
        self._join(
            has_stream & has_site,
            names_site,
            (launches.stream, launches.callsite),
            (self.location, self._callsite),
            lambda stream, site: pending.of_stream("kernel", stream, site),
        )
        self._join(
            ~has_stream & has_site,
            names_site,
            (launches.process, launches.callsite),
            (self.process, self._callsite),
            pending.of_site,
        )
        self._join(
            has_stream & ~has_site,
            ~names_site,
            (launches.stream,),
            (self.location,),
            lambda stream: pending.of_stream("kernel", stream),
        )

    def without_references(self) -> Mask:
        """Join launches without any reference and kernels of processes with one stream, which is their only queue.

        Returns a mask of the kernels of processes whose launches have no references.
        """
        named = np.concatenate([self._launches.process[self._is_named], self._d.pending.processes()])
        silent: Mask = ~np.isin(self.process, named) & ~self._is_correlated
        process = self._d.facts.process
        n_streams = np.bincount(process[distinct(self.location)], minlength=int(process.max()) + 1)
        self._join(
            ~self._has_stream & ~self._has_site,
            silent & (n_streams[self.process] == 1),
            (self._launches.process,),
            (self.process,),
            self._d.pending.of_process,
        )
        return silent

    def _join(
        self, some: Mask, kernels: Mask, left: tuple[Ints, ...], right: tuple[Ints, ...], before: Callable[..., int]
    ) -> None:
        """Join the k-th launch of each key with the k-th kernel of that key, among some launches and kernels.

        `left` and `right` are the columns of the keys of launches and of kernels. In a trace slice, the first kernels
        of a key belong to the pending launches before its start, of which `before` returns the number.
        """
        a = np.flatnonzero(some & self._free)
        b = np.flatnonzero(kernels & (self._of == -1) & ~self._is_correlated)
        if not b.size:
            return
        keys = combine(*(np.concatenate([x[a], y[b]]) for x, y in zip(left, right, strict=True)))
        if self._d.pending:
            group, head = number_of(keys)
            values = (np.concatenate([x[a], y[b]])[head].tolist() for x, y in zip(left, right, strict=True))
            n = np.array([before(*of_key) for of_key in zip(*values, strict=True)], np.int64)[group]
            kept_a, kept_b = occurrence(keys[: a.size]) >= -n[: a.size], occurrence(keys[a.size :]) >= n[a.size :]
            self._free[a[~kept_a]] = False
            self._of[b[~kept_b]] = BEFORE
            keys = np.concatenate([keys[: a.size][kept_a], keys[a.size :][kept_b]])
            a, b = a[kept_a], b[kept_b]
        found = join_occurrences(keys[: a.size], keys[a.size :])
        self._of[b] = pick(a, found)
        self._free[a[found[found >= 0]]] = False

    @property
    def launch(self) -> Ints:
        """Number of the call that launches each kernel; BEFORE or -1 for none; (n_kernels,) int64."""
        of = self._of
        joined = np.where(of == BEFORE, BEFORE, pick(self._launches.number, np.maximum(of, -1)))
        return np.where(self._is_correlated, self._request, joined)

    def count_unmatched(self, launch: Ints, silent: Mask) -> None:
        """Count kernels and launches that could not be joined; `silent` is a result of `without_references`."""
        d, launches = self._d, self._launches
        d.count("kernels launched before the piece", (launch == BEFORE).sum())
        d.count("kernels without a launch", ((launch == -1) & ~silent).sum())
        d.count(
            "kernels whose launches are not recorded: late hosts and launch latency are not known",
            ((launch == -1) & silent).sum(),
        )
        is_free = self._free | (self._has_correlation & ~np.isin(launches.number, launch))
        lacking = "launches without a kernel in the piece" if d.is_piece else "launches without a kernel"
        d.count(lacking, (is_free & self._is_named & np.isin(launches.process, self.process)).sum())
        begin = d.calls.enter_time
        early = (launch >= 0) & (begin[self._number] < begin[np.maximum(launch, 0)])
        d.count("kernels that begin before their launch", early.sum())
