"""Time, execution, overhead, idle threads, visits: properties that do not depend on matches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.quirks import NONE, OF_SCALASCA
from tracecols.enhance.dataflow.grouping import ranges
from tracecols.enhance.definitions.locations import PIECE
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.call_paths import outermost_openmp
from tracecols.enhance.scan.region_rules import named
from tracecols.kernels.orders import order_by
from tracecols.model.model import Model
from tracecols.patterns.base import Conventions, Family, Findings
from tracecols.patterns.found_by import Computed, InRegions, Rest
from tracecols.patterns.periods import divide_like
from tracecols.severity.cells import Cells

FAMILY = Family("profile")
declare = FAMILY.declare
OVERHEAD_NAMES = "trace buffer flush|tracing"


def traced(regions: Regions) -> NDArray[np.bool_]:
    """Return a mask of the regions in which tracing itself writes its records; regions of a program with that name do
    not count."""
    return (regions.file == "TRACER") & (regions.name == "TRACING")


def task_cells(model: Model, cells: Cells) -> Cells:
    """Return the time of explicit tasks, at the call path above the artificial region TASKS.

    Tasks appear twice: where they were scheduled, and below TASKS, which keeps their own call trees. The reference
    subtracts the second appearance from the program's root, whose value may become negative; sums over the tree stay
    right. If no program is recorded, TASKS is a root, and it is subtracted there.
    """
    labels = model.call_paths
    tree, path = labels.whole, labels.path_of(cells.call_path)
    heads = np.flatnonzero(tree.region == model.regions.tasks)
    result = Cells.empty()
    for head in heads.tolist():
        below = cells.where((path >= head) & (path < tree.end[head]))
        root = tree.parent[head] if tree.parent[head] >= 0 else head
        root = labels.find(np.full(len(below), root), below.call_path)
        result = result + Cells.sum(root, below.location, below.value)
    return result


def of_all_periods(model: Model, cells: Cells) -> Cells:
    """Add up the cells of all periods, to cells on the call paths of the whole time."""
    labels = model.call_paths
    if labels.divider is None:
        return cells
    return Cells.sum(labels.path_of(cells.call_path), cells.location, cells.value)


def keys_in_all_periods(model: Model, cells: Cells) -> NDArray[np.int64]:
    """Return for each cell the key of the one it belongs to in `of_all_periods`; (n,) int64."""
    labels = model.call_paths
    if labels.divider is None:
        return cells.key
    return (labels.path_of(cells.call_path) << 32) | cells.location


def profile_cells(model: Model) -> Cells:
    """Return the exclusive time of every call path and location as it was recorded, without streams of devices, whose
    time is not CPU time."""
    return profile_of_threads(model, model.profile.exclusive)


def profile_of_threads(model: Model, values: NDArray[np.int64]) -> Cells:
    """Add up a column of the profile, without the streams of devices."""
    call_path, location = model.profile.call_path, model.profile.location
    kept = np.flatnonzero(~model.locations.is_device[location])
    # the profile is location by location
    order = kept[order_by(call_path[kept])]
    return Cells.sum(call_path[order], location[order], values[order])


def execution_cells(model: Model, findings: Findings) -> Cells:
    """Return each location's own time per call path.

    Team management counts for the parallel region, and not for the call path that forked, where the master spent it.
    """
    cells = profile_cells(model)
    teams = findings.teams
    return cells - task_cells(model, cells) + teams.fork + teams.join - teams.spent


def cells_in_teams(model: Model, cells: Cells) -> Cells:
    """Leave out the cells of workers outside of teams; keep all cells if the program creates its threads by itself."""
    if model.locations.are_created:
        return cells
    profile = model.profile
    inside = profile.inherited | (model.locations.master[profile.location] == profile.location)
    path = model.call_paths.path_of(profile.call_path[inside])
    keys = Cells.sum(path, profile.location[inside], np.ones(path.size, np.int64))
    return cells.where(keys.at(keys_in_all_periods(model, cells)) > 0)


def openmp_subtrees(model: Model, findings: Findings) -> NDArray[np.int64]:
    """Find for every call path of the whole time the outermost OpenMP call path it is counted with; -1 for serial ones;
    (n,) int64.

    That is the parallel region or OpenMP API call around it. The reference analyser makes one pass over its list of
    call paths instead, and takes the deeper call paths that follow such a region for its subtree. The list is in order
    of creation, location by location, so a call path that only another thread visits is at the end and is counted with
    whatever precedes it there (docs/decisions/limited-parallelism.md; tests/patterns/test_references.py shows it). The
    list is followed if there is a reference to agree with; there is none for a trace slice.
    """
    tree = model.call_paths.whole
    has_reference = findings.teams.in_reach and PIECE not in model.store.manifest["source"]
    return outermost_openmp(tree, model.regions, tree.creation if has_reference else None)


def displaced_call_paths(model: Model, findings: Findings) -> int:
    """Count the call paths that are counted outside their OpenMP subtree, as the reference does."""
    true = outermost_openmp(model.call_paths.whole, model.regions)
    return int((openmp_subtrees(model, findings) != true).sum()) if findings.teams.n_instances else 0


def overbooked_threads(model: Model, findings: Findings) -> int:
    """Count the workers with more time than their process reserves for each.

    This happens if a worker runs regions while its master runs serially: outside of teams, or in a team that is joined.
    The master's time counts as idle time of the worker all the same, as in the reference.
    """
    serial, limited = findings.idle
    cells = findings.execution + serial + limited
    total = np.zeros(model.n_locations, np.int64)
    np.add.at(total, cells.location, cells.value)
    workers = model.locations.workers
    is_more = total[workers] > total[model.locations.master[workers]]
    return 0 if model.locations.are_created else int(is_more.sum())


def idle_cells(model: Model, findings: Findings) -> tuple[Cells, Cells]:
    """Find the time in which worker threads are reserved but not used, whether or not their process ever forks.

    Outside parallel regions: the master's time on the same call path, for every other thread of the process. Inside an
    outermost OpenMP region: how much less time a thread spent in it than the master, over the whole time. This is
    divided among the periods in which the thread lacks time, in proportion to what it lacks in each.
    """
    return _idle_beside(model, findings, openmp_subtrees(model, findings))


def idle_cells_by_tree(model: Model, findings: Findings) -> tuple[Cells, Cells]:
    """Find idle time like `idle_cells`, but by the call tree: call paths below an outermost OpenMP region count for it,
    whichever location visited them first."""
    return _idle_beside(model, findings, outermost_openmp(model.call_paths.whole, model.regions))


def _idle_beside(model: Model, findings: Findings, root: NDArray[np.int64]) -> tuple[Cells, Cells]:
    """Find the idle time of workers, given the outermost OpenMP call path of every call path of the whole time."""
    labels = model.call_paths
    if not model.locations.workers.size:
        return Cells.empty(), Cells.empty()
    inside = (root >= 0)[labels.path_of(findings.execution.call_path)]
    serial = for_every_worker(model, findings.execution.where(~inside))
    spent = findings.execution.where(inside)
    root_of = labels.find(root[labels.path_of(spent.call_path)], spent.call_path)
    spent = Cells.sum(root_of, spent.location, spent.value)
    reserved = for_every_worker(model, spent)
    all_reserved = of_all_periods(model, reserved)
    missing = all_reserved.value - of_all_periods(model, spent).at(all_reserved.key)
    limited = Cells(all_reserved.key, missing).where(missing > 0)
    if labels.divider is None:
        return serial, limited
    return serial, divide_like(model, limited, reserved - spent)


def for_every_worker(model: Model, cells: Cells) -> Cells:
    """Copy the cells of each master to every worker of its process; return no cells if the program creates its threads
    by itself."""
    if model.locations.are_created:
        return Cells.empty()
    master, workers = model.locations.master, model.locations.workers
    workers = workers[np.argsort(master[workers], kind="stable")]
    first = np.searchsorted(master[workers], np.arange(model.n_locations))
    count = np.searchsorted(master[workers], np.arange(model.n_locations), "right") - first
    n = count[cells.location]
    at = ranges(first[cells.location], n)
    return Cells.sum(np.repeat(cells.call_path, n), workers[at], np.repeat(cells.value, n))


def idle_where_not_visited(model: Model, findings: Findings) -> tuple[Cells, Cells]:
    """Find the master's time on call paths that a worker never visits within a team, for every worker."""
    profile = model.profile
    idle = for_every_worker(model, findings.execution)
    visited = of_all_periods(model, cells_in_teams(model, profile_of_threads(model, profile.visits)))
    return idle.where(visited.at(keys_in_all_periods(model, idle)) == 0), Cells.empty()


SCALASCA = Conventions(
    "scalasca",
    execution_cells,
    idle_cells,
    counted=lambda model, cells: cells,
    nested=True,
    ends_with_call=True,
    quirks=OF_SCALASCA,
)
EXACT = SCALASCA._replace(name="exact", idle=idle_cells_by_tree, quirks=NONE)
EXPERT = Conventions(
    "expert",
    lambda model, findings: cells_in_teams(model, profile_cells(model)),
    idle_where_not_visited,
    counted=cells_in_teams,
    nested=False,
    ends_with_call=False,
    quirks=OF_SCALASCA,
)


@declare(
    "time",
    "",
    "Time",
    "Total CPU allocation time, including time in which worker threads idle.",
    Computed(),
    expert={},
    advice="Expand the property tree to see how much of it is computation, communication, synchronisation and waiting.",
    is_heading=True,
)
def time(model: Model, findings: Findings) -> Cells:
    """Own time of every location, and idle time of workers."""
    serial, limited = findings.idle
    return findings.execution + serial + limited


declare(
    "execution",
    "time",
    "Execution",
    "Time spent on program execution, without idle threads and without measurement overhead.",
    InRegions(lambda r: ~named(OVERHEAD_NAMES, "measurement_system")(r)),
    expert={"found": InRegions(lambda r: ~traced(r))},
    is_heading=True,
)
declare(
    "comp",
    "execution",
    "Computation",
    "Time spent on computation, outside the run-time systems of MPI, OpenMP and POSIX threads.",
    Rest(),
    advice="Look at differences between locations on the call paths with the largest shares.",
    part="computation",
)
declare(
    "overhead",
    "time",
    "Overhead",
    "Time spent on measurement itself, such as writing trace buffers.",
    InRegions(named(OVERHEAD_NAMES, "measurement_system")),
    expert={"found": InRegions(traced)},
    advice="Enlarge the trace buffers or filter small functions; flushes in the middle of a run perturb all other "
    "results.",
)


@declare(
    "omp_idle_threads",
    "time",
    "Idle Threads",
    "CPUs reserved for worker threads while the process runs serially or with fewer threads.",
    Computed(),
    expert={
        "needs": "threads",
        "summary": (
            "CPUs reserved for worker threads while only the first thread is on a call path, outside parallel "
            "regions or inside."
        ),
    },
    advice="Parallelise the serial parts with the largest shares, or run with fewer threads.",
    part="idle",
    delay="delay_ompidle_longterm",
    is_lost_in_reference=True,
)
def omp_idle_threads(model: Model, findings: Findings) -> Cells:
    """Idle time of workers outside and inside parallel regions."""
    serial, limited = findings.idle
    return serial + limited


@declare(
    "omp_limited_parallelism",
    "omp_idle_threads",
    "Limited Parallelism",
    "CPUs reserved for worker threads that do not take part in a parallel region, or not all the time.",
    Computed(),
    advice="Give all threads work, or ask for fewer threads where there is not enough.",
)
def omp_limited_parallelism(model: Model, findings: Findings) -> Cells:
    """Difference to the master's time in outermost OpenMP regions."""
    return findings.idle[1]


@declare(
    "visits",
    "",
    "Visits",
    "How often a call path was entered.",
    Computed(),
    unit="occ",
    expert={},
    advice="Functions that are entered often and take a microsecond or less distort the measurement: tracecols "
    "filter finds them.",
)
def visits(model: Model, findings: Findings) -> Cells:
    """Number of ENTER events of threads."""
    return profile_of_threads(model, model.profile.visits)
