"""Costs of waits of kernels for those of other ranks, and of hosts for devices, charged to the call paths on which
those waited for spent more time than those that wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.device_chains import BEFORE, LATENCY, ON_HOST, CausingChains, Spent, WaitingChains
from tracecols.causes.periods import divide_causes
from tracecols.causes.points import durations
from tracecols.causes.quirks import Quirks
from tracecols.causes.shares import divide_ticks
from tracecols.distinct import distinct, starts_run
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, bounded, combine, lookup, number, ranges
from tracecols.enhance.dataflow.steps import SWEEP, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import chains
from tracecols.schema.causes import DEVICE_CAUSES, DEVICE_CHARGED, DEVICE_DELAYS, DEVICE_PARTS

Ints = NDArray[np.int64]
Rows = dict[str, Ints]
"""Weights of waits: `wait` (its number), `location`, `call_path`, `weight`, `spent_in` (`ON_HOST`, ...), and `target`,
the wait that the weight goes back to, -1 if the weight is charged itself."""

OF_HOSTS = DEVICE_DELAYS.index("sync")

AT_ONCE = 1 << 19
"""Entries of chains that are compared at once, about 200 B each."""


@step(SWEEP, "device_causes")
def device_causes(
    facts: Facts,
    quirks: Quirks,
    every_waiting_chains: Sequence[WaitingChains],
    every_causing_chains: Sequence[CausingChains],
) -> CompoundTable:
    """Charge the causes of waits of kernels for other ranks, and what hosts wait for on devices."""
    pairs, weights = _pairs(every_waiting_chains, every_causing_chains)
    syncs = _joined([w.syncs for w in every_waiting_chains], ("wait", "location", "call_path"))
    of_syncs = _of_syncs(pairs, syncs, _spent([w.during for w in every_waiting_chains]))
    found = _table(facts, quirks, _sweep(pairs, weights, syncs["wait"], of_syncs))
    # it is not known when these charges arise, so they count outside of all phases, or in the first bin of the focus
    return found if facts.call_paths.divider is None else divide_causes(facts, quirks, found, [])


def _pairs(
    every_waiting_chains: Sequence[WaitingChains], every_causing_chains: Sequence[CausingChains]
) -> tuple[Rows, Iterator[tuple[slice, Rows]]]:
    """Return the kernels that wait, ordered by the time of their causes, and the weights of what makes these late
    (`_weights`)."""
    pairs = _joined([w.pairs for w in every_waiting_chains], ("row", "cause", "kind", "wait", "held"))
    causes = _joined([c.causes for c in every_causing_chains], ("cause", "held", "begin", "location", "call_path"))
    chain = _chains_of(pairs, causes)
    # by the time of the cause, so that a wait comes after those that it goes back to
    order = np.lexsort((pairs["row"], pick(causes["begin"], chain)))
    order = order[chain[order] >= 0]
    pairs, chain = {name: values[order] for name, values in pairs.items()}, chain[order]
    pairs |= {"cause_location": causes["location"][chain], "cause_time": causes["begin"][chain]}
    before = _spent([w.before for w in every_waiting_chains]).of(order)
    return pairs, _weights(pairs, causes, chain, before, _spent([c.before for c in every_causing_chains]))


BLAME = ("cause", "cause_location", "cause_time", "location", "call_path", "spent_in", "ticks", "late")
"""Columns of the reasons why a kernel is late: row of the kernel, its stream and its begin; the location and the call
path whose time is too long, the kind of this time (`ON_HOST`, ..., `WAITING`), the ticks that all others wait because
of it, and those of the longest wait, by which the kernel is late."""

WAITING = BEFORE + 1
"""Kind of the time if a kernel is late because its process waited for another rank before."""


@step(SWEEP, "device_blame")
def device_blame(
    every_waiting_chains: Sequence[WaitingChains], every_causing_chains: Sequence[CausingChains]
) -> Columns:
    """Divide the waits for each kernel that begins last among the reasons why it is late; earlier waits are not
    followed."""
    pairs, weights = _pairs(every_waiting_chains, every_causing_chains)
    order = np.lexsort((-pairs["wait"], pairs["cause"]))
    longest = np.zeros(order.size, bool)
    longest[order[starts_run(pairs["cause"][order])]] = True
    parts = []
    for some, rows in weights:
        n = np.bincount(rows["wait"] - some.start, minlength=some.stop - some.start)
        ticks = divide_ticks(pairs["wait"][some], np.cumsum(n), rows["weight"])
        of = {name: pairs[name][rows["wait"]] for name in BLAME[:3]}
        of |= {"location": rows["location"], "call_path": rows["call_path"]}
        of |= {"spent_in": np.where(rows["target"] >= 0, WAITING, rows["spent_in"])}
        parts.append(_blamed(of | {"ticks": ticks, "late": np.where(longest[rows["wait"]], ticks, 0)}))
    return _blamed(_joined(parts[::-1], BLAME))


def _blamed(of: Rows) -> Columns:
    """Add up the ticks of equal reasons (`BLAME`)."""
    reason = BLAME[:-2]
    group, first = number(combine(*(of[name] for name in reason)))
    groups = Segments(group, first.size)
    columns = {name: of[name][first] for name in reason} | {name: groups.sum(of[name]) for name in BLAME[-2:]}
    return Columns(first.size, columns).take(np.flatnonzero(columns["ticks"]))


CELL = ("kind", "location", "call_path", "origin")
"""Columns of `Spent.cells`."""


class _Spent:
    """Time and waits of chains of several partitions.

    Attributes
    ----------
    part, number : (n,) int64
        The partition of each chain, and its number there.
    size : (n,) int64
        Number of entries of time.
    """

    def __init__(self, parts: Sequence[Spent], part: Ints, number: Ints, size: Ints) -> None:
        self._parts, self.part, self.number, self.size = parts, part, number, size

    def of(self, chain: Ints) -> _Spent:
        """Return those of some chains."""
        return _Spent(self._parts, self.part[chain], self.number[chain], self.size[chain])

    def cells(self) -> tuple[Ints, ...]:
        """Return the chain of each entry of time, `CELL`, and ticks; the entries of a chain in their order."""
        found = [(np.zeros(0, np.int64),) * (2 + len(CELL))]
        for chain, of, at in self._entries("n_cells"):
            found.append((chain, *(of.cells[name][of.cell[at]] for name in CELL), of.ticks[at]))
        return tuple(np.concatenate(c) for c in zip(*found, strict=True))

    def waits(self) -> tuple[Ints, ...]:
        """Return the chain of each wait, the row of the operation that waits, and ticks."""
        found = [(np.zeros(0, np.int64),) * 3]
        found += [(chain, of.waiting[at], of.waited[at]) for chain, of, at in self._entries("n_waits")]
        return tuple(np.concatenate(c) for c in zip(*found, strict=True))

    def _entries(self, end: str) -> Iterator[tuple[Ints, Spent, Ints]]:
        """Go over partitions; yield the chain of each entry, the partition's entries, and the numbers of these."""
        for i in distinct(self.part).tolist():
            chain, ends = np.flatnonzero(self.part == i), np.append(0, getattr(self._parts[i], end))
            first = ends[self.number[chain]]
            n = ends[self.number[chain] + 1] - first
            yield np.repeat(chain, n), self._parts[i], ranges(first, n)


def _spent(parts: Sequence[Spent]) -> _Spent:
    """Join the chains of partitions."""
    sizes = [np.diff(p.n_cells, prepend=0) for p in parts]
    n = np.array([size.size for size in sizes], np.int64)
    size = np.concatenate([np.zeros(0, np.int64), *sizes])
    return _Spent(parts, np.repeat(np.arange(n.size), n), ranges(np.zeros(n.size, np.int64), n), size)


def _joined(parts: Sequence[Columns], names: tuple[str, ...]) -> Rows:
    """Concatenate columns of partitions."""
    return {name: np.concatenate([np.zeros(0, np.int64), *(p[name] for p in parts)]) for name in names}


def _chains_of(pairs: Rows, causes: Rows) -> Ints:
    """Find the chain of the cause of each pair; -1 none."""
    key, _ = number(np.concatenate([causes["cause"], pairs["cause"]]))
    held, _ = number(np.concatenate([causes["held"], pairs["held"]]))
    key = key * (int(held.max(initial=0)) + 1) + held
    n = causes["cause"].size
    order = np.argsort(key[:n], kind="stable")
    return pick(order, lookup(key[:n][order], key[n:]))


def _weights(pairs: Rows, causes: Rows, chain: Ints, before: _Spent, since: _Spent) -> Iterator[tuple[slice, Rows]]:
    """Find the time that the causes of pairs spent in excess of those that wait, and the time that they waited
    themselves; yield the weights of some pairs at a time, the last pairs first: chains may go back to the begin of the
    trace."""
    by_row = np.argsort(pairs["row"], kind="stable")
    row_of = pairs["row"][by_row]
    for some in reversed(bounded(since.size[chain] + before.size, AT_ONCE)):
        of = chain[some]
        mine = since.of(of)
        waiting, row, waited = mine.waits()
        target = pick(by_row, lookup(row_of, row))
        target = np.where(target < waiting + some.start, target, -1)
        rows = _in_order(
            _excess(mine, before.of(np.arange(some.start, some.stop))),
            (waiting, waited, target),
            (causes["location"][of], causes["call_path"][of]),
        )
        rows["wait"] += some.start
        yield some, rows


def _excess(mine: _Spent, theirs: _Spent) -> tuple[Ints, ...]:
    """Return where some chains spent more time than others did: the chain, location, call path, kind, and ticks in
    excess.

    Call paths of hosts are compared with those of hosts, and those of streams with those of streams; an excess on
    several threads or streams counts for the one with the most time.
    """
    chain, kind, location, path, origin, ticks = mine.cells()
    other, other_kind, _, other_path, other_origin, other_ticks = theirs.cells()
    columns = ((chain, other), (kind, other_kind), (path, other_path), (origin, other_origin))
    group, first = number(combine(*(np.concatenate(of) for of in columns)))
    more = Segments(group, first.size).sum(np.concatenate([ticks, -other_ticks]))
    # of several locations, the one with the most time; of equals, the first
    order = np.lexsort((location, -ticks, group[: chain.size]))
    chosen = order[starts_run(group[order])]
    chosen = chosen[more[group[chosen]] > 0]
    return chain[chosen], location[chosen], path[chosen], kind[chosen], more[group[chosen]]


def _of_syncs(pairs: Rows, syncs: Rows, during: _Spent) -> Rows:
    """Find what hosts wait for: operations, latency, transfer, and waits for other ranks."""
    wait, kind, location, path, _, ticks = during.cells()
    waiting, row, waited = during.waits()
    by_row = np.argsort(pairs["row"], kind="stable")
    passed = waiting, waited, pick(by_row, lookup(pairs["row"][by_row], row))
    return _in_order((wait, location, path, kind, ticks), passed, (syncs["location"], syncs["call_path"]))


def _in_order(spent: tuple[Ints, ...], passed: tuple[Ints, Ints, Ints], begin: tuple[Ints, Ints]) -> Rows:
    """Return weights in the order of their waits, given what was spent (`_excess`), what was waited for other waits
    (the wait, ticks, and the other wait, -1 if it cannot be passed on), and where the cause of each wait begins.

    A wait that cannot be passed on is charged where the cause begins, and so is one without any cause.
    """
    wait, location, path, kind, ticks = spent
    waiting, waited, target = passed
    lacks = np.ones(begin[0].size, bool)
    lacks[wait] = lacks[waiting] = False
    lacking = np.flatnonzero(lacks)
    at = np.concatenate([waiting, lacking])
    columns = {
        "wait": np.concatenate([wait, at]),
        "location": np.concatenate([location, begin[0][at]]),
        "call_path": np.concatenate([path, begin[1][at]]),
        "weight": np.concatenate([ticks, waited, np.ones(lacking.size, np.int64)]),
        "spent_in": np.concatenate([kind, np.full(at.size, ON_HOST)]),
        "target": np.concatenate([np.full(wait.size, -1), target, np.full(lacking.size, -1)]),
    }
    order = np.lexsort(tuple(columns[name] for name in ("spent_in", "target", "location", "call_path", "wait")))
    return {name: values[order] for name, values in columns.items()}


def _sweep(
    pairs: Rows, weights: Iterator[tuple[slice, Rows]], sync_wait: Ints, of_syncs: Rows
) -> Iterator[list[tuple[Ints, Rows, Ints]]]:
    """Divide waits among their weights, the last first; yield numbers of properties, rows and ticks of some waits at a
    time."""
    n_kinds = len(DEVICE_DELAYS)
    carried = np.zeros((n_kinds, pairs["wait"].size), np.int64)
    n = np.bincount(of_syncs["wait"], minlength=sync_wait.size)
    sync_short = divide_ticks(sync_wait, np.cumsum(n), of_syncs["weight"])
    # hosts that wait for kernels that wait pass the wait on
    on = np.flatnonzero(of_syncs["target"] >= 0)
    np.add.at(carried[OF_HOSTS], of_syncs["target"][on], sync_short[on])
    sync_short[on] = 0
    yield [(np.full(sync_short.size, OF_HOSTS), of_syncs, sync_short)]
    for some, rows in weights:
        short, passed = _divide(pairs, some, rows, carried)
        every = np.zeros(short.size, np.int64)
        of_kinds = ((every + n_kinds + kind, rows, of_kind) for kind, of_kind in enumerate(passed))
        yield [(pairs["kind"][rows["wait"]], rows, short), *of_kinds]


def _divide(pairs: Rows, some: slice, rows: Rows, carried: Ints) -> tuple[Ints, Ints]:
    """Divide some waits among their weights, the last wait first; return the ticks charged to each weight, and those
    passed on to it."""
    n = np.bincount(rows["wait"] - some.start, minlength=some.stop - some.start).astype(np.int64)
    first = np.cumsum(n) - n
    short, passed = np.zeros(rows["wait"].size, np.int64), np.zeros((carried.shape[0], rows["wait"].size), np.int64)
    scratch = np.zeros((3, int(n.max(initial=1))), np.int64)
    weights = first, n, rows["weight"], rows["target"]
    chains.sweep_waits(some.start, pairs["wait"], pairs["kind"], *weights, short, passed, carried, *scratch)
    return short, passed


def _table(facts: Facts, quirks: Quirks, charged: Iterator[list[tuple[Ints, Rows, Ints]]]) -> CompoundTable:
    """Add up charges by property, call path and location."""
    code, path, location, sums = _added([_added(_with_parts(some)) for some in charged])
    columns: dict[str, NDArray[Any]] = {
        "property": code.astype(np.int16),
        "call_path": path.astype(np.int32),
        "location": location.astype(np.int32),
        "charged": durations(facts, quirks, sums),
    }
    return CompoundTable(DEVICE_CAUSES, code.size, columns)


Charges = tuple[Ints, Ints, Ints, Ints]
"""Numbers of properties, call paths, locations, and ticks."""


def _with_parts(charged: list[tuple[Ints, Rows, Ints]]) -> list[Charges]:
    """Return charges, also those that are parts of all costs."""
    parts = [(code, rows["call_path"], rows["location"], ticks) for code, rows, ticks in charged]
    for spent_in, name in zip((LATENCY, BEFORE), DEVICE_PARTS, strict=True):
        for _, rows, ticks in charged:
            at = np.flatnonzero(rows["spent_in"] == spent_in)
            number_of = np.full(at.size, DEVICE_CHARGED.index(name))
            parts.append((number_of, rows["call_path"][at], rows["location"][at], ticks[at]))
    return parts


def _added(parts: list[Charges]) -> Charges:
    """Add up charges, in the order of properties, call paths and locations."""
    kept = [np.flatnonzero(ticks) for *_, ticks in parts]
    code, path, location, ticks = (
        np.concatenate([c[at] for c, at in zip(of, kept, strict=True)]) for of in zip(*parts, strict=True)
    )
    order = np.lexsort((location, path, code))
    code, path, location, ticks = (c[order] for c in (code, path, location, ticks))
    is_new = starts_run(code, path, location)
    first = np.flatnonzero(is_new)
    return code[first], path[first], location[first], Segments(np.cumsum(is_new) - 1, first.size).sum(ticks)
