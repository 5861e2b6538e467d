"""Costs of waits of kernels for those of other ranks, and of hosts for devices, charged to the call paths on which
those waited for spent more time than those that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.device_chains import BEFORE, LATENCY, Chains, sums_of
from tracecols.causes.device_operations import DeviceOperations
from tracecols.causes.device_waits import DeviceWaits
from tracecols.causes.periods import divide_causes
from tracecols.causes.points import durations
from tracecols.causes.quirks import Quirks
from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, joined_columns, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, lookup, number
from tracecols.enhance.dataflow.steps import SWEEP, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import chains
from tracecols.kernels.chains import Cells, Compared, Hosts, Met, Operations, Waits, Weights
from tracecols.schema.causes import DEVICE_CAUSES, DEVICE_CHARGED, DEVICE_DELAYS, DEVICE_PARTS
from tracecols.vectors import Ints

OF_HOSTS = DEVICE_DELAYS.index("sync")


class DeviceDelays(NamedTuple):
    """The waits of kernels and hosts, and the chains of all processes, along which their causes are found."""

    waits: Columns
    """Of kernels, by the time of their causes: `cause`, `cause_location` and `cause_time`, row, stream and begin of the
    operation that is waited for; `wait`, ticks, and `is_longest`, 1 for the longest wait for an operation."""
    every_wait: Waits
    """The same, and those of hosts after them."""
    cells: Columns
    """What time counts for (`Chains.cells`), partition by partition."""
    layout: Cells
    operations: Operations
    hosts: Hosts
    met: Met
    """`layout`, `operations`, `hosts` and `met`: arguments of `kernels.chains.charge_waits`."""

    def _charger(self) -> Callable[[Ints, Waits, Ints, Ints], None]:
        """Return a function that charges some waits; it takes the arguments of `kernels.chains.charge_waits` that are
        not scratch memory."""
        # chains also pass waits whose cause is not known
        n_cells, n_waits = len(self.cells), int(np.count_nonzero(self.operations.late > self.operations.begin))
        room = int((self.layout.end - self.layout.first).max(initial=0)) + n_waits + 1
        scratch = (
            sums_of(n_cells, n_waits),
            sums_of(n_cells, n_waits),
            Compared(*np.zeros((3, n_cells), np.int64)),
            Weights(*np.empty((6, room), np.int64)),
        )

        def charge(which: Ints, waits: Waits, charged: Ints, carried: Ints) -> None:
            of = self.operations, self.hosts, self.met, self.layout
            chains.charge_waits(which, waits, *of, *scratch, charged, carried)

        return charge

    def costs(self) -> Ints:
        """Return the ticks that cells are charged, by property: (n_properties, n_cells) int64."""
        n_kinds, n_waits = len(DEVICE_DELAYS), self.every_wait.amount.size
        charged = np.zeros((len(DEVICE_CHARGED), len(self.cells)), np.int64)
        self._charger()(np.arange(n_waits), self.every_wait, charged, np.zeros((n_kinds, n_waits), np.int64))
        for spent_in, name in zip((LATENCY, BEFORE), DEVICE_PARTS, strict=True):
            at = np.flatnonzero(self.cells.kind == spent_in)
            charged[DEVICE_CHARGED.index(name), at] = charged[: 2 * n_kinds, at].sum(0)
        return charged

    def blame(self, group: Ints, n: int) -> Iterator[Columns]:
        """Divide waits among the reasons why the operations that they are for are late; earlier waits are not followed.

        Parameters
        ----------
        group : (n_waits,) int64
            Groups of `waits`, none empty and each for one process; -1 none.

        Yields
        ------
        Columns
            For group 0, ..., n - 1: `location` and `call_path` whose time is too long, the kind of this time
            (`spent_in`), the `ticks` that all others wait because of it, and `late`, those of the longest waits.
        """
        charge, waits = self._charger(), self.every_wait._replace(kind=self.waits.is_longest)
        charged, nothing = np.zeros((2, len(self.cells)), np.int64), np.zeros((0, 0), np.int64)
        order = np.argsort(group, kind="stable")
        for which in np.split(order, np.searchsorted(group[order], np.arange(n + 1)))[1:-1]:
            charge(which, waits, charged, nothing)
            line = self.operations.host[waits.cause[which[0]]]
            here = slice(self.layout.first[line], self.layout.end[line])
            short, late = charged[:, here]
            at = np.flatnonzero(short + late)
            cells = self.cells.take(at + here.start)
            columns = {"location": cells.location, "call_path": cells.call_path, "spent_in": cells.kind}
            yield Columns(at.size, columns | {"ticks": (short + late)[at], "late": late[at]})
            charged[:, here] = 0


@step(SWEEP, "device_delays")
def device_delays(
    facts: Facts,
    every_device_chains: Sequence[Chains],
    every_device_operations: Sequence[DeviceOperations],
    device_waits: DeviceWaits,
) -> DeviceDelays:
    """Join the chains of all processes, and find the operations that are waited for."""
    cells, operations, hosts, layout, launched = _joined(every_device_chains)
    row = np.concatenate([c.row for c in every_device_chains])
    waits = device_waits.of(row)
    cause = lookup(row, waits.cause)
    at = np.flatnonzero((waits.wait > 0) & (cause >= 0))
    # by the time of the cause, so that a wait comes after those that it goes back to
    at = at[np.lexsort((row[at], operations.begin[cause[at]]))]
    cause, waits = cause[at], waits.take(at)
    syncs = joined_columns([d.syncs for d in every_device_operations])
    numbers = np.full(row.size, -1, np.int64)
    numbers[at] = np.arange(at.size)
    every_cause = np.append(cause, hosts.operation)
    every_wait = Waits(
        np.append(at, np.full(len(syncs), -1)),
        every_cause,
        facts.process[operations.stream[every_cause]].astype(np.int64),
        np.append(operations.begin[cause], hosts.until),
        np.append(waits.wait, syncs.wait),
        np.append(waits.kind, np.full(len(syncs), OF_HOSTS)),
        numbers,
    )
    part = lookup(row, device_waits.row)
    met = Met(device_waits.start, device_waits.process, np.where(part >= 0, pick(launched, part), hosts.first))
    # the first of the longest
    order = np.lexsort((-waits.wait, cause))
    is_longest = np.zeros(at.size, np.int64)
    is_longest[order[starts_run(cause[order])]] = 1
    of_kernels = {
        "cause": waits.cause,
        "cause_location": operations.stream[cause],
        "cause_time": operations.begin[cause],
        "wait": waits.wait,
        "is_longest": is_longest,
    }
    return DeviceDelays(Columns(at.size, of_kernels), every_wait, cells, layout, operations, hosts, met)


def _joined(every: Sequence[Chains]) -> tuple[Columns, Operations, Hosts, Cells, Ints]:
    """Join the chains of partitions; return cells, operations, hosts, the cells of lines, and times of launches."""
    n = np.array([(c.row.size, c.lines.size, len(c.cells), c.hosts.time.size, c.hosts.exit.size) for c in every])
    first = np.cumsum(n, 0) - n
    cells = joined_columns([c.cells for c in every])

    def operation(numbers: Ints, before: int) -> Ints:
        return np.where(numbers >= 0, numbers + before, numbers)

    operations, hosts, places, lines = [], [], [], []
    for c, (o, line, cell, entry, leave) in zip(every, first.tolist(), strict=True):
        of, host = c.operations, c.hosts
        moved = {name: getattr(of, name) + cell for name in ("cell", "latency")}
        moved |= {name: operation(getattr(of, name), o) for name in ("before", "free_before")}
        operations.append(of._replace(host=of.host + line, **moved))
        moved = {name: getattr(host, name) + cell for name in ("cell", "root", "latency")}
        moved |= {"start": host.start[:-1] + entry, "exit_start": host.exit_start[:-1] + leave}
        hosts.append(host._replace(operation=operation(host.operation, o), **moved)[:-1])
        places.append((c.here + cell, c.earlier + cell, c.launched))
        lines.append((c.first + cell, c.end + cell))

    def join(parts: list[Any]) -> Iterator[Any]:
        return (np.concatenate(columns) for columns in zip(*parts, strict=True))

    host = Hosts._make([*join(hosts), every[0].hosts.first])
    n_entries, n_exits = n[:, 3:].sum(0)
    host = host._replace(start=np.append(host.start, n_entries), exit_start=np.append(host.exit_start, n_exits))
    here, earlier, launched = join(places)
    group, _ = number(combine(cells.kind, cells.call_path, cells.origin))
    return cells, Operations(*join(operations)), host, Cells._make([*join(lines), group, here, earlier]), launched


@step(SWEEP, "device_causes")
def device_causes(facts: Facts, quirks: Quirks, device_delays: DeviceDelays) -> CompoundTable:
    """Charge the causes of waits of kernels for other ranks, and what hosts wait for on devices."""
    charged, cells = device_delays.costs(), device_delays.cells
    code, at = np.nonzero(charged)
    path, location = cells.call_path[at], cells.location[at]
    order = np.lexsort((location, path, code))
    code, path, location, ticks = (c[order] for c in (code, path, location, charged[code, at]))
    group, first = number(combine(code, path, location))
    columns: dict[str, NDArray[Any]] = {
        "property": code[first].astype(np.int16),
        "call_path": path[first].astype(np.int32),
        "location": location[first].astype(np.int32),
        "charged": durations(facts, quirks, Segments(group, first.size).sum(ticks)),
    }
    found = CompoundTable(DEVICE_CAUSES, first.size, columns)
    # it is not known when these charges arise, so they count outside of all phases, or in the first bin of the focus
    return found if facts.call_paths.divider is None else divide_causes(facts, quirks, found, [])
