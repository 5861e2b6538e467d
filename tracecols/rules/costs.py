"""What communication, synchronisation and I/O cost, and which statements cost it (1999 class library, section 4)."""

from __future__ import annotations

from fnmatch import fnmatch

import numpy as np
from numpy.typing import NDArray

from tracecols.given.parameters import Parameter
from tracecols.rules.base import Evidence, Result, Statement, rule
from tracecols.schema.properties import COMPUTATION, EXECUTION, TIME
from tracecols.severity.cells import Cells

IO_ROLES = ("file_io", "file_io_metadata")


@rule("communication_costs", "Communication Costs", "Time in MPI, except what only synchronises and what does I/O.")
def communication_costs(e: Evidence) -> Result:
    """The time spent in MPI routines except for those that perform synchronization only; I/O is counted as such."""
    setup = e.seconds(e.cells("mpi_init_exit"))
    note = f"{setup:.6f} s of it to start and end MPI" if setup else ""
    return Result(e.seconds(e.cells("mpi") - e.cells("mpi_synchronization") - e.cells("mpi_io")), note=note)


@rule("synchronization_costs", "Synchronization Costs", "Time in MPI operations that only synchronise.")
def synchronization_costs(e: Evidence) -> Result:
    """The time used exclusively for synchronization."""
    return Result(e.seconds(e.cells("mpi_synchronization")))


@rule(
    "io_costs",
    "I/O Costs",
    "Time in I/O operations: of MPI, recorded as file I/O, or named.",
    parameters={
        "regions": Parameter("", "", "names of further regions that do I/O, with wildcards, separated by commas")
    },
)
def io_costs(e: Evidence, *, regions: str) -> Result:
    """The time spent in I/O operations, which are identified by their membership in a group."""
    c = e.cube.call_paths
    patterns = [p.strip().lower() for p in regions.split(",") if p.strip()]
    named = np.fromiter((any(fnmatch(str(n).lower(), p) for p in patterns) for n in c.name), bool, len(c))
    others = (named | np.isin(c.role, IO_ROLES)) & (c.paradigm != "mpi")
    missing = [p for p in patterns if not any(fnmatch(str(n).lower(), p) for n in c.name)]
    note = f"no region is called {', '.join(missing)}" if missing else ""
    return Result(e.seconds(e.cells("mpi_io") + e.cells("time").on(others)), note=note)


@rule(
    "costs", "Communication, Synchronisation and I/O (Costs)", "Communication, synchronization and I/O costs together."
)
def costs(e: Evidence) -> Result:
    """The sum of the previous three properties."""
    return Result(sum(e.result(part).severity for part in (communication_costs, synchronization_costs, io_costs)))


@rule(
    "other_losses",
    "Other Losses",
    "Time that is not computation and that the other rules do not look at: of threads, idle cores, devices; by "
    "property.",
    measures="of all time",
)
def other_losses(e: Evidence) -> Result:
    """Not in the class library, which knows MPI only: what the diagnosis finds besides."""
    axis = e.cube.properties
    beside = [
        name
        for top in (TIME, EXECUTION)
        for name in axis.children.get(top, ())
        if name not in (EXECUTION, COMPUTATION, "mpi") and axis.adds_up(name) and not axis.overlaps[axis.number[name]]
    ]
    whole = e.seconds(e.cells(TIME))
    lost = {name: e.seconds(e.cells(name)) for name in beside}
    found = [
        Statement(axis.title_of(name), seconds / whole, "share", seconds)
        for name, seconds in sorted(lost.items(), key=lambda part: -part[1])
        if seconds > 0 and whole
    ]
    return Result(sum(s.severity for s in found), found, note="tracecols diagnose says who causes it" if found else "")


def statements(e: Evidence) -> tuple[Cells, NDArray[np.float64]]:
    """Return the cells of communication statements in ticks, and their costs in seconds per call path."""
    cells = e.cells("mpi_communication")
    return cells, e.by_call_path(cells) / e.cube.resolution


def named(
    e: Evidence, chosen: NDArray[np.bool_], value: NDArray[np.float64], unit: str, cost: NDArray[np.float64]
) -> Result:
    """Return some statements with the quantity that the rule looks at, the costliest first; the severity is the sum of
    their costs."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(-cost[rows], kind="stable")]
    paths = e.cube.call_paths.paths_of(rows.tolist())
    found = [
        Statement(path, float(value[i]), unit, float(cost[i])) for path, i in zip(paths, rows.tolist(), strict=True)
    ]
    return Result(float(cost[rows].sum()), found)


@rule(
    "dominating_communication",
    "Dominating Communication",
    "Costs of the communication operation that takes most time of all; its name.",
    measures="of all communication",
)
def dominating_communication(e: Evidence) -> Result:
    """The operation with maximum execution time relative to other communication operations; all its calls together."""
    _, cost = statements(e)
    names, of = e.cube.call_paths.numbered_names
    by_name = np.bincount(of, cost, len(names)) if names else np.zeros(0)
    if not by_name.any():
        return Result(0.0)
    best, whole = int(by_name.argmax()), float(by_name.sum())
    severity = float(by_name[best])
    return Result(severity, [Statement(names[best], severity / whole, "share", severity)])


@rule(
    "frequent_communication",
    "Frequent Communication",
    "Costs of communication statements that take little time each, on average.",
    parameters={
        "threshold": Parameter(10e-6, "sec", "mean duration of a call, below which a statement is too frequent")
    },
    measures="per call",
)
def frequent_communication(e: Evidence, *, threshold: float) -> Result:
    """The average execution time of communication statements lies below a threshold."""
    _, cost = statements(e)
    visits = e.by_call_path(e.cells("visits"))
    mean = np.divide(cost, visits, out=np.full(cost.size, np.inf), where=visits > 0)
    return named(e, (cost > 0) & (mean < threshold), mean, "seconds", cost)


@rule(
    "big_messages",
    "Big Messages",
    "Costs of communication statements whose messages are long, on average.",
    parameters={
        "threshold": Parameter(100e3, "bytes", "mean length of the messages sent or received, above which they are big")
    },
    measures="per message",
)
def big_messages(e: Evidence, *, threshold: float) -> Result:
    """The average length of messages sent or received by some communication statements is greater than a threshold."""
    if "bytes_sent" not in e.cube.cells:
        return Result(np.nan, note="this cube has no numbers of bytes; analyze by the conventions of Scalasca")
    _, cost = statements(e)
    length = e.by_call_path(e.cells("bytes_sent") + e.cells("bytes_rcvd"))
    number = sum(
        (e.by_call_path(e.cells(f"{k}_{s}")) for k in ("comms", "syncs") for s in ("send", "recv")), 0 * length
    )
    mean = np.divide(length, number, out=np.zeros(cost.size), where=number > 0)
    return named(e, (number > 0) & (mean > threshold), mean, "bytes", cost)


@rule(
    "uneven_mp_distribution",
    "Uneven Communication (Uneven MP Distribution)",
    "Costs of communication statements that take some processes much longer than others.",
    parameters={
        "threshold": Parameter(
            0.5, "share", "standard deviation over processes, in parts of their mean, above which it is uneven"
        )
    },
    measures="deviation",
)
def uneven_mp_distribution(e: Evidence, *, threshold: float) -> Result:
    """The standard deviation of times with respect to single processes exceeds a threshold multiplied with their mean.

    All processes count, also those that never execute a statement. The deviation is that of the whole population.
    """
    cells, cost = statements(e)
    ranks, process = np.unique(e.cube.system.rank, return_inverse=True)
    n = ranks.size
    if n < 2:
        return Result(0.0, note="there is only one process")
    per_process = Cells.sum(cells.call_path, process[cells.location].astype(np.int32), cells.value)
    seconds = per_process.value / e.cube.resolution
    squares = np.bincount(per_process.call_path, seconds**2, cost.size)
    mean = cost / n
    deviation = np.sqrt(np.maximum(squares / n - mean**2, 0))
    ratio = np.divide(deviation, mean, out=np.zeros(cost.size), where=mean > 0)
    return named(e, (mean > 0) & (ratio > threshold), ratio, "share", cost)
