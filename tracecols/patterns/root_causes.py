"""Root causes: costs of delays, classes of waits, the critical path and its imbalance, computational imbalance.

docs/root-causes.md explains them, and which rules of the reference are followed although they lose something. Their
values are charged to call paths, not spent on them: a call path may be charged with more than its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.pairs import has_openmp
from tracecols.distinct import distinct
from tracecols.enhance.scan.paths import with_descendants
from tracecols.kernels import imbalance as kernels
from tracecols.model.model import Model
from tracecols.patterns.base import Family, Findings, Property
from tracecols.patterns.found_by import Charged, Computed, Derived, SumOf
from tracecols.patterns.periods import divide_like
from tracecols.patterns.profile import of_all_periods
from tracecols.schema.causes import (
    CHARGED,
    DELAY_IDS,
    DEVICE_CAUSES,
    DEVICE_CHARGED,
    DEVICE_DELAY_IDS,
    ROOT_CAUSES,
    RUN_CAUSES,
    UNKNOWN_DELAYS,
)
from tracecols.severity.axes import CallAxis, PropertyAxis
from tracecols.severity.cells import Cells
from tracecols.severity.reduction import reduce_at, reduce_upwards

FAMILY = Family("root causes")
declare = FAMILY.declare

CHARGED_IN = {
    name: ROOT_CAUSES.name if name in CHARGED[: 2 * len(DELAY_IDS) + 1] else RUN_CAUSES.name for name in CHARGED
} | dict.fromkeys(DEVICE_CHARGED, DEVICE_CAUSES.name)
"""By property: the table that holds the charges of call paths."""

ROUNDING = 2.0**-48
"""Rounding error of differences of times in float64, as a share of the length of a trace: a few units in the last
place."""

ONLY_EXACT: dict[str, Any] = {"scalasca": None, "exact": {}}
"""Conventions of properties that the reference does not have."""

UNKNOWN = (*(DELAY_IDS[name] for name in UNKNOWN_DELAYS), *DEVICE_DELAY_IDS.values())
"""Delay properties that the reference does not have."""

BALANCE = "Balance the work of processes or threads on these call paths."


def charged(id: str) -> Charged:
    """Return how a charged property is found: in its table."""
    return Charged(CHARGED_IN[id])


declare(
    "delay",
    "",
    "Delay costs",
    "Waiting time of others that call paths cause, charged to those who cause it.",
    SumOf(),
    scalasca={"needs": "root causes"},
    exact={},
    advice=BALANCE,
    part="root causes",
)
for id, parent, title, whose, more in (
    ("delay_mpi", "delay", "MPI", "others in MPI", {"needs": "mpi"}),
    ("delay_p2p", "delay_mpi", "Point-to-point", "others in point-to-point communication", {}),
    ("delay_collective", "delay_mpi", "Collective", "others in collective communication", {}),
    ("delay_omp", "delay", "OpenMP", "other threads", {"needs": "openmp"}),
    ("delay_threads", "delay", "Threads", "other threads for locks and for threads to end", ONLY_EXACT),
    (
        "delay_device",
        "delay",
        "Devices",
        "kernels for those of other ranks, and of hosts for devices",
        {"needs": "devices", **ONLY_EXACT},
    ),
):
    declare(id, parent, title, f"Waiting time of {whose}.", SumOf(), **more)
for what, parent, title, waits in (
    ("delay_latesender", "delay_p2p", "Late Sender", "of receivers for late senders"),
    ("delay_latereceiver", "delay_p2p", "Late Receiver", "of senders for late receivers"),
    ("delay_barrier", "delay_collective", "Wait at Barrier", "in MPI barriers"),
    ("delay_n21", "delay_collective", "Early Reduce", "of the root of n-to-1 operations"),
    ("delay_12n", "delay_collective", "Late Broadcast", "for the root of 1-to-n operations"),
    ("delay_n2n", "delay_collective", "Wait at N x N", "in n-to-n operations"),
    ("delay_ompbarrier", "delay_omp", "Wait at Barrier", "in OpenMP barriers"),
    ("delay_ompidle", "delay_omp", "Idleness delay costs", "of idle threads outside parallel regions"),
    ("delay_startup", "delay_mpi", "Initialisation and Finalisation", "in MPI_Init and MPI_Finalize"),
    ("delay_scan", "delay_collective", "Early Scan", "in scans for lower ranks"),
    ("delay_lock", "delay_threads", "Lock Contention", "for locks and critical sections that another thread holds"),
    ("delay_condition", "delay_threads", "Wait for Condition", "of threads for others to signal a condition"),
    ("delay_join", "delay_threads", "Wait at Join", "for threads to end that are joined"),
    ("delay_onesided", "delay_mpi", "One-sided", "in fences, epochs and locks of windows"),
    (
        "delay_nonblocking",
        "delay_collective",
        "Non-blocking Collective",
        "for others to start non-blocking collective operations",
    ),
    ("delay_polling", "delay_mpi", "Polling", "in calls that ask again and again whether something has come"),
    ("delay_management", "delay_mpi", "Communicator Management", "in the creation and freeing of communicators"),
    ("delay_file", "delay_mpi", "Files", "in collective calls for files"),
    ("delay_shmem", "delay", "SHMEM", "in collective operations and for locks of SHMEM"),
    ("delay_device_nxn", "delay_device", "Wait at N x N", "of kernels in n-to-n operations and barriers"),
    ("delay_device_12n", "delay_device", "Late Broadcast", "of kernels for the root of 1-to-n operations"),
    ("delay_device_n21", "delay_device", "Early Reduce", "of the root's kernels in n-to-1 operations"),
    ("delay_device_latesender", "delay_device", "Late Sender", "of kernels for those that send to them"),
    ("delay_device_latereceiver", "delay_device", "Late Receiver", "of kernels for those that receive from them"),
    ("delay_device_sync", "delay_device", "Synchronization", "of hosts for kernels and copies"),
):
    only = ONLY_EXACT if what in UNKNOWN else {}
    summary = f"Waiting time {waits}, charged to the call paths that cause it."
    declare(f"{what}_aggregate", parent, title, summary, SumOf(), **only)
    declare(
        what,
        f"{what}_aggregate",
        "Short-term",
        f"Waiting time {waits}, charged to the call paths on which the location that is waited for spent more time "
        "than the waiting one.",
        charged(what),
        **only,
    )
    declare(
        f"{what}_longterm",
        f"{what}_aggregate",
        "Long-term",
        f"Waiting time {waits}, as far as earlier waits cause it, charged to the call paths that caused those.",
        charged(f"{what}_longterm"),
        **only or {"scalasca": {"needs": "mpi"}, "exact": {}},
    )

for what, title, where in (
    (
        "delay_device_latency",
        "Launch Latency",
        "lies between the event that an operation on a stream, or a host, has to wait for and its begin",
    ),
    (
        "delay_device_unrecorded",
        "Before the Recording",
        "lies before the first event of the process, and is charged to its outermost call path",
    ),
):
    summary = f"The part of these costs that {where}."
    declare(what, "delay_device", title, summary, charged(what), overlaps=True, **ONLY_EXACT)

for id, title, what, advice in (
    (
        "waitstates_propagating_vs_terminal",
        "propagating vs. terminal",
        "what makes others wait and what does not",
        "Begin with the causes of propagating waits, which make others wait; terminal waits delay no other process.",
    ),
    (
        "waitstates_direct_vs_indirect",
        "direct vs. indirect",
        "what delays cause and what earlier waits cause",
        "Mend the causes of direct waits: indirect waits follow from earlier waits and disappear with them.",
    ),
):
    declare(
        id,
        "",
        f"MPI point-to-point wait states ({title})",
        f"Waiting time in point-to-point communication, divided into {what}.",
        SumOf(),
        needs="mpi",
        part="root causes",
        advice=advice,
    )
for id, parent, title, what in (
    ("mpi_wait_propagating", "waitstates_propagating_vs_terminal", "Propagating", "makes others wait later"),
    ("mpi_wait_terminal", "waitstates_propagating_vs_terminal", "Terminal", "does not propagate any further"),
    ("mpi_wait_direct", "waitstates_direct_vs_indirect", "Direct", "delays cause"),
    ("mpi_wait_indirect", "waitstates_direct_vs_indirect", "Indirect", "earlier waits of others cause"),
):
    declare(id, parent, f"{title} wait states", f"Waiting time that {what}.", SumOf())


def difference(id: str, parent: str, title: str, summary: str, of: str, less: str) -> None:
    """Declare a property as the difference of two others."""

    def cells(model: Model, findings: Findings) -> Cells:
        left = findings.cells[of] - findings.cells[less]
        if left.value.dtype == np.int64:
            return left
        manifest = model.store.manifest
        return left.where(np.abs(left.value) > ROUNDING * float(manifest["last_time"] - manifest["first_time"]))

    cells.__doc__ = f"{of} - {less}"
    declare(id, parent, title, summary, Computed(uses=(of, less)))(cells)


for id, title, what in (
    ("mpi_wait_propagating_ls", "Late Sender", "makes others wait in point-to-point communication later"),
    ("mpi_wait_propagating_lr", "Late Receiver", "makes others wait in point-to-point communication later"),
    ("mpi_wait_indirect_latesender", "Late Sender", "earlier waits of the sender cause"),
    ("mpi_wait_indirect_latereceiver", "Late Receiver", "earlier waits of the receiver cause"),
):
    declare(id, id.rpartition("_")[0], title, f"{title} time that {what}.", charged(id))
for id, title, what, of, less in (
    ("mpi_wait_terminal_ls", "Late Sender", "does not propagate", "mpi_latesender", "mpi_wait_propagating_ls"),
    ("mpi_wait_terminal_lr", "Late Receiver", "does not propagate", "mpi_latereceiver", "mpi_wait_propagating_lr"),
    (
        "mpi_wait_direct_latesender",
        "Late Sender",
        "delays of the sender cause",
        "mpi_latesender",
        "mpi_wait_indirect_latesender",
    ),
    (
        "mpi_wait_direct_latereceiver",
        "Late Receiver",
        "delays of the receiver cause",
        "mpi_latereceiver",
        "mpi_wait_indirect_latereceiver",
    ),
):
    difference(id, id.rpartition("_")[0], title, f"{title} time that {what}.", of, less)

declare(
    "critical_path",
    "",
    "Critical path",
    "Time on the path that determines how long the program runs.",
    charged("critical_path"),
    scalasca={"needs": "root causes"},
    exact={},
    advice="Make these call paths faster: changes elsewhere do not shorten the run.",
    part="root causes",
)


def is_lost_in_reference(p: Property) -> bool:
    """Return whether the reference does not count the time of a property as work."""
    return p.is_lost_in_reference


def is_lost(p: Property) -> bool:
    """Return whether the time of a property is not work: waits, start-up and end of teams, and idle time."""
    return p.is_wait or p.part in ("management", "idle")


def no_work_of_reference(model: Model, findings: Findings) -> Cells:
    """Return the time that the reference does not count as work, summed over all periods."""
    return _outermost(model, findings, is_lost_in_reference)


def no_work(model: Model, findings: Findings) -> Cells:
    """Return the time that is not work, summed over all periods, at most the time of each call path at each location,
    since some waits overlap."""
    lost = _outermost(model, findings, is_lost)
    spent = of_all_periods(model, findings.cells["time"]).at(lost.key)
    return Cells(lost.key, np.minimum(lost.value, np.maximum(spent, 0)))


def _outermost(model: Model, findings: Findings, is_chosen: Callable[[Property], bool]) -> Cells:
    """Add up the cells of the chosen properties that are below no other chosen one, over all periods."""
    chosen = {p.id for p in findings.declared if is_chosen(p)}
    result = Cells.empty()
    for name in PropertyAxis.of(findings.declared).outermost("time", chosen):
        result = result + of_all_periods(model, findings.cells[name])
    return result


@declare(
    "critical_path_imbalance",
    "critical_path",
    "Imbalance",
    "Time on the critical path that would be saved if its work were spread over all locations.",
    Derived(uses=("time",)),
    scalasca={"also": is_lost_in_reference, "not_worked": no_work_of_reference},
    exact={"also": is_lost, "not_worked": no_work},
    advice=BALANCE,
)
def critical_path_imbalance(
    model: Model, findings: Findings, *, not_worked: Callable[[Model, Findings], Cells]
) -> Cells:
    """Time on the critical path in excess of the mean work in the subtree of each call path."""
    by_period = findings.cells["critical_path"]
    path = of_all_periods(model, by_period)
    work = of_all_periods(model, findings.cells["time"]) - not_worked(model, findings)
    axis = CallAxis.of(model.call_paths.whole, model.regions)
    n, n_locations = len(axis), int(model.locations.is_cpu.sum())

    def subtrees(cells: Cells) -> NDArray[np.float64]:
        own = reduce_at(cells.call_path, cells.value.astype(np.float64), n)
        return reduce_upwards(own, axis.parent, axis.depth)

    on_path, mean = subtrees(path), subtrees(work) / n_locations
    factor = np.zeros(n)
    longer = on_path > 0
    factor[longer] = np.maximum(on_path[longer] - mean[longer], 0.0) / on_path[longer]
    more = Cells(path.key, path.value * factor[path.call_path])
    return divide_like(model, more.where(more.value != 0), by_period)


declare(
    "performance_impact",
    "",
    "Performance impact",
    "Time that the program's activities occupy, on and beside the critical path.",
    SumOf(),
    scalasca={"needs": "root causes"},
    exact={},
    part="root causes",
    advice="Begin with the call paths whose activities on the critical path have the largest impact, those with "
    "imbalance first.",
)
declare(
    "performance_impact_criticalpath",
    "performance_impact",
    "Critical-path activities",
    "Time of activities on the critical path, and what their imbalance costs.",
    SumOf(),
)
declare(
    "critical_path_activities",
    "performance_impact_criticalpath",
    "Activity impact",
    "Time of activities on the critical path, on all locations.",
    charged("critical_path_activities"),
)
declare(
    "critical_imbalance_impact",
    "performance_impact_criticalpath",
    "Imbalance impact",
    "Time that locations lose because activities on the critical path are not balanced.",
    charged("critical_imbalance_impact"),
    advice=BALANCE,
    is_estimate=True,
)
difference(
    "intra_partition_imbalance",
    "critical_imbalance_impact",
    "Intra-partition imbalance",
    "Loss by imbalance among locations that take part in an activity.",
    "critical_imbalance_impact",
    "inter_partition_imbalance",
)
declare(
    "inter_partition_imbalance",
    "critical_imbalance_impact",
    "Inter-partition imbalance",
    "Loss by imbalance against locations that take no part in an activity.",
    charged("inter_partition_imbalance"),
)
declare(
    "non_critical_path_activities",
    "performance_impact",
    "Non-critical-path activities",
    "Time of activities beyond what lies on the critical path.",
    charged("non_critical_path_activities"),
)


class Imbalance:
    """The distribution of the computation of call paths over locations."""

    def __init__(self, model: Model, findings: Findings) -> None:
        tree, locations = model.call_paths, model.locations
        self.cpus = np.flatnonzero(locations.is_cpu)
        self.masters = distinct(locations.master[self.cpus])
        opens = np.array([str(name).startswith("!$omp parallel") for name in model.regions.name.tolist()], bool)
        self.parallel = with_descendants(opens[tree.region], tree.end)
        self.with_openmp = has_openmp(model.facts)
        self.comp = findings.cells["comp"]
        visits = findings.cells["visits"]
        self.visits = visits
        self.n_visitors = np.bincount(visits.call_path, visits.value != 0, len(tree)).astype(np.int64)
        self.total = np.bincount(self.comp.call_path, self.comp.value, len(tree))
        self.mean = self.total / np.where(self.parallel, self.cpus.size, self.masters.size)
        self.n = len(tree)

    def differences(self, how: int) -> Cells:
        """Return the difference of the computation of call paths from the mean; `how` is SIZE, ABOVE or BELOW
        (`kernels.imbalance`)."""
        paths = np.flatnonzero(self.total != 0)
        return self._compared(self.comp, paths, self.parallel[paths], how)

    def lacking(self) -> NDArray[np.int64]:
        """Return the call paths with computation that some locations never visit; with OpenMP, only those in parallel
        regions."""
        counts = (self.parallel if self.with_openmp else np.ones(self.n, bool)) & (self.mean != 0)
        return np.flatnonzero(counts & (self.n_visitors < self.cpus.size))

    def absent(self, call_paths: NDArray[np.int64]) -> Cells:
        """Return the mean of each call path, at all locations that never visit it."""
        return self._compared(self.visits, call_paths, np.ones(call_paths.size, bool), kernels.ABSENT)

    def _compared(self, cells: Cells, paths: NDArray[np.int64], at_all: NDArray[np.bool_], how: int) -> Cells:
        """Compare the values of some call paths, ascending, with the mean: at all threads if `at_all`, else at the
        masters of processes only."""
        first = np.where(at_all, 0, self.cpus.size)
        stop = np.where(at_all, self.cpus.size, self.cpus.size + self.masters.size)
        n = int((stop - first).sum())
        key, value = np.empty(n, np.int64), np.empty(n, np.float64)
        n = kernels.compare_with_mean(
            paths,
            first,
            stop,
            np.append(self.cpus, self.masters),
            self.mean,
            np.searchsorted(cells.call_path, np.arange(self.n + 1)),
            cells.location,
            cells.value.astype(np.float64),
            how,
            key,
            value,
        )
        # pages that nothing was written to take no memory
        return Cells(key[:n], value[:n])


@declare(
    "imbalance",
    "",
    "Computational imbalance",
    "Differences of computation from the mean of all locations: an estimate that does not consider waits.",
    Derived(uses=("comp", "visits")),
    needs="several locations",
    advice=BALANCE,
    part="imbalance",
    is_estimate=True,
)
def imbalance(model: Model, findings: Findings, *, how: int = kernels.SIZE) -> Cells:
    """Difference between computation and its mean: its size, or only where it is positive or negative."""
    return Imbalance(model, findings).differences(how)


declare(
    "imbalance_above",
    "imbalance",
    "Overload",
    "Computation beyond the mean of all locations.",
    Derived(uses=("comp", "visits")),
    scalasca={"how": kernels.ABOVE},
)(imbalance)


@declare(
    "imbalance_above_single",
    "imbalance_above",
    "Single participant",
    "Computation beyond the mean where only one location takes part.",
    Derived(uses=("comp", "visits")),
)
def imbalance_above_single(model: Model, findings: Findings) -> Cells:
    """The mean for each of the others."""
    spread = Imbalance(model, findings)
    alone = spread.lacking()
    alone = alone[spread.n_visitors[alone] == 1]
    visitor = np.full(spread.n, -1, np.int64)
    there = spread.visits.where(spread.visits.value != 0)
    visitor[there.call_path] = there.location
    return Cells.sum(alone, visitor[alone], spread.mean[alone] * (spread.cpus.size - 1))


declare(
    "imbalance_below",
    "imbalance",
    "Underload",
    "Computation by which locations fall short of the mean of all locations.",
    Derived(uses=("comp", "visits")),
    scalasca={"how": kernels.BELOW},
)(imbalance)


@declare(
    "imbalance_below_bypass",
    "imbalance_below",
    "Non-participation",
    "Underload of locations that take no part in the computation at all.",
    Derived(uses=("comp", "visits")),
)
def imbalance_below_bypass(model: Model, findings: Findings) -> Cells:
    """The mean."""
    spread = Imbalance(model, findings)
    return spread.absent(spread.lacking())


@declare(
    "imbalance_below_singularity",
    "imbalance_below_bypass",
    "Singularity",
    "Underload where only one other location takes part in the computation.",
    Derived(uses=("comp", "visits")),
)
def imbalance_below_singularity(model: Model, findings: Findings) -> Cells:
    """The mean."""
    spread = Imbalance(model, findings)
    alone = spread.lacking()
    return spread.absent(alone[spread.n_visitors[alone] == 1])
