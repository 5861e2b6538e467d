"""Laws of root causes and of the critical path."""

import numpy as np

from tracecols.causes.quirks import NONE
from tracecols.patterns.profile import profile_cells, task_cells
from tracecols.patterns.registry import properties, waits_by_delay
from tracecols.schema.causes import CHARGED, DELAY_IDS, DELAYS, POINTS

WHOLE = sorted(
    {*CHARGED, "delay", "performance_impact", "intra_partition_imbalance", "mpi_wait_direct", "mpi_wait_terminal"}
)
"""Properties of which no cell has a fraction of a tick."""


def ticks(cube, name):
    """Return the total of a property, in whole ticks; 0 if it does not exist."""
    values = cube.cells[name].value if name in cube.cells else np.zeros(0, np.int64)
    assert values.dtype == np.int64, name
    return int(values.sum())


def check_laws(model, cube):
    """Check all laws of root causes, exact to the tick."""
    of = model.with_quirks(NONE)
    points = of.sync_points
    # costs are waits
    states = waits_by_delay(properties("exact"))
    for kind, id in DELAY_IDS.items():
        if kind == "idle":
            # costs of idle threads are times of masters outside parallel regions, not the idle times
            continue
        costs = ticks(cube, f"{id}_aggregate")
        assert costs == sum(ticks(cube, state) for state in states[f"{id}_aggregate"]), kind
        assert costs == of.delay_pairs.wait[of.delay_pairs.kind == DELAYS.index(kind)].sum(), kind
    # every wait is either direct or indirect, and either propagates or is terminal
    for name, short in (("latesender", "ls"), ("latereceiver", "lr")):
        if f"mpi_wait_direct_{name}" in cube.cells:
            wait = cube.cells[f"mpi_{name}"]
            for one, other in ((f"direct_{name}", f"indirect_{name}"), (f"terminal_{short}", f"propagating_{short}")):
                parts = cube.cells[f"mpi_wait_{one}"], cube.cells[f"mpi_wait_{other}"]
                assert all((part.value > 0).all() for part in parts)
                together = parts[0] + parts[1]
                assert np.array_equal(together.key, wait.key) and np.array_equal(together.value, wait.value)
    # the path is as long as the run, and the performance impact adds up to the length of the run for each location
    ends = points.begin_time[points.kind == POINTS.index("end")]
    length = int(ends.max()) - int(model.store.manifest["first_time"]) if ends.size else 0
    assert ticks(cube, "critical_path") == length
    n = int(model.locations.is_cpu.sum())
    if not any(s.bad_exits or s.open for s in model.scans) and not model.store.decreases:
        assert ticks(cube, "performance_impact") == n * length
    assert not any(cube.cells[name].value.dtype == float for name in WHOLE if name in cube.cells)
    check_activities(model, cube)
    trees = ("delay", "critical", "wait_", "impact", "partition")
    assert [line for line in cube.violations() if any(word in line.split()[0] for word in trees)] == []


def lawful(trace):
    """Return the cube of a trace, for which all laws of root causes hold."""
    cube = trace.analyze("exact")
    check_laws(trace.model, cube)
    return cube


def what_is_executed(model, cube):
    """Return the cells of execution: explicit tasks counted once, and as often as they are in the call tree."""
    once = cube.cells["execution"]
    once = once + cube.cells["overhead"] if "overhead" in cube.cells else once
    # tasks are executed below TASKS and are also counted where they were scheduled; the latter is subtracted from the
    # root of the program
    return once, once + task_cells(model, profile_cells(model))


def check_path(model, cube):
    """Check that no cell of the critical path exceeds execution, except for launches: of processes, and of threads
    where they are created, and for threads in teams whose FORK is not recorded."""
    if model.store.decreases:
        return
    _, executed = what_is_executed(model, cube)
    excess = cube.cells["critical_path"] - executed.where(executed.value > 0)
    excess = excess.where(excess.value > 0)
    creates = np.isin(excess.call_path, model.created_threads.create_call_path)
    is_process = model.locations.master[excess.location] == excess.location
    teams = model.team_instances
    is_lost = np.isin(excess.location, teams.location[teams.master[teams.instance] < 0])
    assert (creates | is_lost | ((model.call_paths.whole.parent[excess.call_path] < 0) & is_process)).all()


def check_activities(model, cube):
    """Check that no cell of activities exceeds execution, except for the outermost regions of processes.

    These also have the time outside all regions: launch skew, from the start of the run, and the time between regions.
    """
    tree, regions, locations = model.call_paths.whole, model.regions, model.locations
    is_artificial = (tree.region == regions.tasks) | (tree.region == regions.threads)
    charged = [name for name in ("critical_path", "delay", "performance_impact") if name in cube.cells]
    for name in charged:
        assert not is_artificial[cube.cells[name].call_path].any(), name
    once, executed = what_is_executed(model, cube)
    activities = cube.cells["critical_path_activities"] + cube.cells["non_critical_path_activities"]
    excess = activities - executed.where(executed.value > 0)
    excess = excess.where(excess.value > 0)
    assert (tree.parent[excess.call_path] < 0).all()
    of_location, spent = np.zeros((2, len(locations)), np.int64)
    np.add.at(of_location, excess.location, excess.value)
    np.add.at(spent, once.location, once.value)
    first = int(model.store.manifest["first_time"] or 0)
    reserved = np.array([scan.last_time - first if scan.n else 0 for scan in model.scans])
    is_process = locations.master == np.arange(len(locations))
    assert (of_location <= np.where(is_process, reserved - spent, 0)).all()


def same(cube, other):
    """Check that two cubes have the same call paths and the same cells, bit for bit."""
    assert cube.properties == other.properties
    assert cube.call_paths.path == other.call_paths.path
    assert cube.facts["counts"] == other.facts["counts"]
    for name, of in cube.cells.items():
        assert np.array_equal(of.key, other.cells[name].key), name
        assert np.array_equal(of.value, other.cells[name].value), name
        assert of.value.dtype == other.cells[name].value.dtype, name
    assert (cube.outside is None) == (other.outside is None)
    for name, of in (cube.outside or {}).items():
        assert (of.summed() - other.outside[name].summed()).value.tolist() == [], name


def divide(monkeypatch):
    """Make all steps that are divided depending on the sizes of memory and traces process a few rows at a time."""
    for module, constant, value in (
        ("enhance.dataflow.partitions", "PARTITION_ROWS", 1),
        ("enhance.mpi.collectives", "BUCKET_ROWS", 5),
        ("enhance.dataflow.spill", "BUDGET", 0),
        ("work.memory", "Budget.large", 0),
        ("work.large", "SMALL", 0),
        ("work.large", "BLOCK", 5),
        ("causes.segments", "PIECE", 1),
        ("causes.segments", "ROOM", 1),
        ("causes.cuts", "NEIGHBOURS", 2),
        ("causes.pairs", "SEVERAL", 0),
        ("causes.periods", "NEAR", 0),
        ("causes.near", "BITS", 1),
        ("causes.charges", "STRETCHES", 3),
        ("enhance.scan.instances", "WALKED", 7),
        ("enhance.scan.teams", "BLOCK", 7),
        ("enhance.scan.batches", "BATCH", 97),
        ("enhance.scan.scan", "WAVE", 97),
    ):
        monkeypatch.setattr(f"tracecols.{module}.{constant}", value)
