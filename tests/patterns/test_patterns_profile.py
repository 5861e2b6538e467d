"""Time by kind of region, overhead, visits and counters."""

from __future__ import annotations

import pytest
from support.otf2_writer import Archive
from support.severities import cells

import tracecols
from tracecols.enhance.definitions.regions import Regions
from tracecols.errors import AnalysisError
from tracecols.patterns import counters
from tracecols.patterns.base import Family
from tracecols.patterns.found_by import InRegions, SumOf
from tracecols.patterns.registry import properties
from tracecols.schema import enums
from tracecols.store import Store

# region, role, paradigm: the property its time belongs to
GROUPS = [
    ("MPI_Init", "function", "mpi", "mpi_init_exit"),
    ("mpi_init_", "function", "mpi", "mpi_init_exit"),
    ("MPI_INIT_THREAD", "function", "mpi", "mpi_init_exit"),
    ("MPI_Finalized", "function", "mpi", "mpi_init_exit"),
    ("MPI_Comm_split", "function", "mpi", "mpi_mgmt_comm"),
    ("mpi_comm_rank__", "function", "mpi", "mpi_mgmt_comm"),
    ("MPI_Cart_create", "function", "mpi", "mpi_mgmt_comm"),
    ("MPI_File_open", "file_io", "mpi", "mpi_mgmt_file"),
    ("mpi_file_set_view_", "file_io", "mpi", "mpi_mgmt_file"),
    ("MPI_Win_create", "function", "mpi", "mpi_mgmt_win"),
    ("MPI_Barrier", "barrier", "mpi", "mpi_sync_collective"),
    ("MPI_Send", "point2point", "mpi", "mpi_point2point"),
    ("MPI_Waitall", "function", "mpi", "mpi_point2point"),
    ("mpi_testany_", "function", "mpi", "mpi_point2point"),
    ("MPI_Bcast", "coll_one2all", "mpi", "mpi_collective"),
    ("MPI_Reduce", "coll_all2one", "mpi", "mpi_collective"),
    ("MPI_Allreduce", "coll_all2all", "mpi", "mpi_collective"),
    ("MPI_Scan", "coll_other", "mpi", "mpi_collective"),
    ("MPI_Win_fence", "function", "mpi", "mpi_rma_sync_active"),
    ("mpi_win_post_", "function", "mpi", "mpi_rma_sync_active"),
    ("MPI_Win_lock_all", "function", "mpi", "mpi_rma_sync_passive"),
    ("MPI_Win_flush_local_all", "function", "mpi", "mpi_rma_sync_passive"),
    ("MPI_Put", "rma", "mpi", "mpi_rma_communication"),
    ("MPI_Fetch_and_op", "atomic", "mpi", "mpi_rma_communication"),
    ("MPI_File_write_at", "file_io", "mpi", "mpi_io_individual"),
    ("mpi_file_iread_shared_", "file_io", "mpi", "mpi_io_individual"),
    ("MPI_File_read_all_begin", "file_io", "mpi", "mpi_io_collective"),
    ("MPI_File_iwrite_at_all", "file_io", "mpi", "mpi_io_collective"),
    ("MPI_Wtime", "function", "mpi", "mpi"),
    ("MPI_Pack", "function", "mpi", "mpi"),
    ("!$omp barrier @a.c:1", "barrier", "openmp", "omp_ebarrier"),
    ("!$omp implicit barrier @a.c:1", "implicit_barrier", "openmp", "omp_ibarrier"),
    ("!$omp critical @a.c:1", "critical", "openmp", "omp_critical"),
    ("!$omp atomic @a.c:1", "atomic", "openmp", "omp_critical"),
    ("omp_init_lock", "wrapper", "openmp", "omp_lock_api"),
    ("OMP_UNSET_NEST_LOCK", "wrapper", "openmp", "omp_lock_api"),
    ("!$omp ordered @a.c:1", "ordered", "openmp", "omp_ordered"),
    ("!$omp taskwait @a.c:1", "task_wait", "openmp", "omp_taskwait"),
    ("!$omp flush @a.c:1", "flush", "openmp", "omp_flush"),
    ("pthread_create", "thread_create", "pthread", "pthread_management"),
    ("pthread_mutex_lock", "function", "pthread", "pthread_lock_api"),
    ("pthread_cond_wait", "function", "pthread", "pthread_conditional"),
    # the paradigm makes a region MPI or OpenMP, not its name
    ("MPI_Send", "point2point", "user", "comp"),
    ("MPI_Barrier", "barrier", "user", "comp"),
    ("omp_set_lock", "function", "compiler", "comp"),
    # the code between the directives is computation
    ("!$omp critical sblock @a.c:1", "critical_sblock", "openmp", "comp"),
    ("!$omp for @a.c:1", "loop", "openmp", "comp"),
    ("main", "function", "compiler", "comp"),
    ("a.out", "artificial", "measurement_system", "comp"),
    # overhead of the measurement system
    ("TRACE BUFFER FLUSH", "artificial", "measurement_system", "overhead"),
    ("MPI_Sendrecv_replace_mine", "function", "mpi", "mpi"),
]


# a program initialises MPI once
@pytest.mark.parametrize("groups", [GROUPS[:1], GROUPS[1:2], GROUPS[2:]], ids=["MPI_Init", "mpi_init_", "others"])
def test_groups__a_region_belongs_to_one_leaf(archive, analyze, groups):
    thread = archive.location()
    for i, (name, role, paradigm, _) in enumerate(groups):
        thread.call(10 * i, 10 * i + 5, archive.region(name, role, paradigm))
    cube = analyze(archive)
    held = {n: cube.cells[n] for n in cube.properties.id if cube.properties.root_of(n) == "time"}
    for path, (name, *_, expected) in enumerate(groups):
        line, at = {}, expected
        while at:
            line[at] = [5]
            at = cube.properties.parent[cube.properties.number[at]]
        of_path = {n: of.value[of.call_path == path].tolist() for n, of in held.items()}
        assert cube.call_paths.name[path] == name
        assert {n: values for n, values in of_path.items() if values} == line, name


VISITS = [
    ("MPI_Win_fence", "function", "syncs_rma_active"),
    ("MPI_Win_unlock", "function", "syncs_rma_passive"),
    ("MPI_Rput", "rma", "comms_rma_puts"),
    ("mpi_get_", "rma", "comms_rma_gets"),
    ("MPI_Accumulate", "atomic", "comms_rma_atomics"),
    ("MPI_File_read", "file_io", "mpi_file_irops"),
    ("MPI_File_iwrite_at", "file_io", "mpi_file_iwops"),
    ("MPI_File_seek", "file_io", "mpi_file_iops"),
    ("mpi_file_read_all_", "file_io", "mpi_file_crops"),
    ("MPI_File_write_ordered_end", "file_io", "mpi_file_cwops"),
    ("MPI_File_open", "file_io", "mpi_file_cops"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "role", "expected"), VISITS)
def test_counts__of_calls_are_their_visits(archive, analyze, name, role, expected):
    region = archive.region(name, role, "mpi")
    x = archive.location()
    for t in (0, 20, 40):
        x.call(t, t + 5, region)
    x.call(60, 70, "f")
    cube = analyze(archive)
    counters = {"syncs", "comms", "bytes", "mpi_file_ops"}
    holding = {n for n in cube.properties.id if cube.properties.root_of(n) in counters and len(cube.cells[n])}
    at = expected
    while at:
        assert cells(cube, at) == {(name, 0): 3}
        holding.discard(at)
        at = cube.properties.parent[cube.properties.number[at]]
    assert not holding
    assert cells(cube, "visits") == {(name, 0): 3, ("f", 0): 1}


def test_overhead__is_what_buffer_flushes_take(archive, analyze):
    x = archive.location()
    x.enter(0, "MPI_Barrier").record(4, "BufferFlush", stop_time=10).leave(12, "MPI_Barrier")
    cube = analyze(archive)
    assert cells(cube, "overhead") == {("TRACE BUFFER FLUSH", 0): 6}
    assert cells(cube, "mpi_sync_collective") == {("MPI_Barrier", 0): 6}
    assert cube.cells["time"].value.sum() == 12


def test_overhead__is_not_the_time_recording_was_off(archive, analyze):
    x = archive.location()
    x.enter(0, "f").record(4, "MeasurementOnOff", mode=2).record(10, "MeasurementOnOff", mode=1).leave(12, "f")
    cube = analyze(archive)
    assert cells(cube, "overhead") == {}
    assert cells(cube, "comp") == {("f", 0): 6, ("MEASUREMENT OFF", 0): 6}


def counter(archive: Archive, mode: str, of: str = "int64") -> int:
    """Define a counter in a separate metric class."""
    modes = {name: number for number, name in enums.METRIC_MODES.items()}
    member = archive.define(
        "MetricMember",
        name=archive.string("misses"),
        description=archive.string(""),
        metric_type=1,
        metric_mode=modes[mode],
        value_type=enums.VALUE_TYPES.index(of),
        base=1,
        exponent=0,
        unit=archive.string("#"),
    )
    which = archive.new_id("metric")
    return archive.define("MetricClass", self=which, metric_members=[member], metric_occurrence=0, recorder_kind=2)


def counted(archive, metric, of, values):
    """Enter f and f/g and leave them, with a value in front of each event, as Score-P writes them."""
    x = archive.location()
    events = (x.enter, "f"), (x.enter, "g"), (x.leave, "g"), (x.leave, "f")
    for t, (value, (event, region)) in enumerate(zip(values, events, strict=True)):
        x.record(10 * t, "Metric", source=metric, values=[(enums.VALUE_TYPES.index(of), value)])
        event(10 * t, region)


@pytest.mark.parametrize(
    ("mode", "of", "values"),
    [
        # 100 before f, then 5 in f, 20 in g, 3 in f again
        ("accumulated_start", "int64", [100, 105, 125, 128]),
        ("accumulated_start", "uint64", [100, 105, 125, 128]),
        ("accumulated_start", "double", [100.0, 105.0, 125.0, 128.0]),
        # counters that wrap around keep their differences
        ("accumulated_start", "uint64", [2**64 - 2, 3, 23, 26]),
        # relative values are such differences; the first one precedes f, outside of all regions
        ("relative_last", "int64", [100, 5, 20, 3]),
    ],
)
def test_counters__that_accumulate_belong_to_the_call_path_in_between(archive, analyze, mode, of, values):
    counted(archive, counter(archive, mode, of), of, values)
    cube = analyze(archive)
    assert cells(cube, "misses") == {("f", 0): 8, ("g", 0): 20}
    assert cube.properties.unit[cube.properties.number["misses"]] == "#"


def test_counters__that_accumulate_begin_with_their_first_value(archive, analyze):
    # the first value is read inside of f: earlier counts are not attributed
    metric = counter(archive, "accumulated_start")
    x = archive.location().enter(0, "f")
    for t, value in ((5, 100), (10, 107)):
        x.record(t, "Metric", source=metric, values=[(enums.VALUE_TYPES.index("int64"), value)])
    x.leave(10, "f")
    assert cells(analyze(archive), "misses") == {("f", 0): 7}


@pytest.mark.parametrize("chunk", [1, 2, 3, 20])
def test_counters__of_long_locations_are_added_up_chunk_by_chunk(chunk, archive, analyze, monkeypatch):
    """Two locations have two alternating counters, values of a source without a class in between, and other events
    after them."""
    first, second = counter(archive, "accumulated_start"), counter(archive, "accumulated_start")
    unclassed = archive.define("MetricInstance", self=99, metric_class=None, recorder=0, metric_scope=0, scope=0)
    of = enums.VALUE_TYPES.index("int64")
    for scale in (1, 10):
        x = archive.location().enter(0, "f")
        for t, (source, value) in enumerate(
            [(first, 3), (second, 50), (first, 5), (unclassed, 0), (second, 60), (first, 9), (second, 61)], 1
        ):
            x.record(t, "Metric", source=source, values=[] if source == unclassed else [(of, scale * value)])
        for t in range(10, 18, 2):
            x.fork(t, 1).join(t + 1)
        x.leave(18, "f")
    monkeypatch.setattr(counters, "CHUNK", chunk)
    cube = analyze(archive)
    assert cells(cube, "misses") == {("f", 0): 6, ("f", 0, 1): 60}
    assert cells(cube, "misses (2)") == {("f", 0): 11, ("f", 0, 1): 110}


def test_counters__that_are_absolute_cannot_be_added(archive, analyze):
    counted(archive, counter(archive, "absolute_point"), "int64", [100, 105, 125, 128])
    assert "misses" not in analyze(archive).properties.id


def test_registry__refuses_what_is_no_tree():
    family = Family("test")
    family.declare("x", "nowhere", "X", "no parent", SumOf())
    with pytest.raises(AnalysisError, match="'x' is declared below 'nowhere'"):
        properties("scalasca", family.properties)
    family = Family("test")
    family.declare("time", "", "Time", "again", SumOf())
    with pytest.raises(AnalysisError, match="declared twice"):
        properties("scalasca", family.properties)
    family = Family("test")
    family.declare("a", "b", "A", "circle", SumOf())
    family.declare("b", "a", "B", "circle", SumOf())
    with pytest.raises(AnalysisError, match="a, b are their own ancestors"):
        properties("scalasca", family.properties)


def test_registry__parents_stand_before_their_children():
    seen = {""}
    for p in properties("scalasca"):
        assert p.parent in seen
        seen.add(p.id)


def test_registry__no_region_of_mpi_or_openmp_falls_into_two_groups(data, tmp_path):
    # a recording by Score-P defines all MPI functions that Score-P knows, more than 200

    regions = Regions(Store(tracecols.convert(data / "coll", tmp_path / "coll.trace")))
    declared = properties("scalasca")
    masks = {
        p.id: p.found.rule(regions)
        for p in declared
        if isinstance(p.found, InRegions) and p.found.measure == "execution"
    }
    above = {p.parent for p in declared if p.id in masks} | {"mpi", "execution"}
    leaves = [name for name in masks if name not in above]
    groups = {
        n: [leaf for leaf in leaves if masks[leaf][i]]
        for i, n in enumerate(regions.name)
        if regions.paradigm[i] in ("mpi", "openmp")
    }
    assert len(groups) > 200
    assert {n: g for n, g in groups.items() if len(g) > 1} == {}
    # most regions are in one group; the rest counts only for MPI
    assert sum(len(g) == 1 for g in groups.values()) > 180
