"""The diagnosis: the focus, findings and their costs compared with plain twins; and the diagnoses of known traces."""

import functools
import json
import re
import tracemalloc
from collections import Counter, defaultdict

import numpy as np
import pytest
from conftest import DATA, SHARED, slow
from support.command_line import executed, run
from support.device_program import Rank, Simulation
from support.recordings import ALIKE
from support.severities import cube_of
from support.small_cubes import ODD_NAMES, small_cube

import tracecols
from tracecols.enhance.scan.paths import function_name
from tracecols.errors import SeverityError
from tracecols.report.diagnosis import HEIGHT, WIDTH, details, fitted, lines, payers, percent, place
from tracecols.schema.kinds import EventKind
from tracecols.severity import Cells, device_findings, finding, focus, wording
from tracecols.severity.axes import CallAxis
from tracecols.severity.finding import Place, finding_of, location_in_words
from tracecols.severity.findings import findings_with_cells


@pytest.fixture(scope="session")
def traces(store_of):
    """Return a trace of the collection by name, converted once, and its cube."""

    @functools.cache
    def open_one(name):
        places = (DATA / name, *(SHARED / folder / name for folder in ("otf2", "otf2_gpu", "injected")))
        source = next((p for p in places if p.is_dir()), None)
        if source is None:
            pytest.skip(f"{name} is not beside the repository")
        trace = tracecols.open(store_of(source))
        return trace, trace.analyze()

    return open_one


# -- the focus ---------------------------------------------------------------------------------------------------------


def own_times(trace, location):
    """Walk through the events of a location; return exclusive ticks and visits by call path, and the times at which it
    leaves MPI_Init and enters MPI_Finalize."""
    store = trace.model.store
    events = store.read("events", location, ["time", "kind", "region"], 0, int(trace.locations.n_events[location]))
    names = store.definitions["regions"].to_pydict()["name"]
    stack, own, last = [], Counter(), None
    visits, left, entered = Counter(), [], []
    for time, kind, region in zip(*(events[c].tolist() for c in ("time", "kind", "region")), strict=True):
        if last is not None and stack:
            own[tuple(stack)] += time - last
        last = time
        if kind in (EventKind.ENTER, EventKind.PROGRAM_BEGIN):
            stack.append(names[region])
            visits[tuple(stack)] += 1
            if stack[-1] == "MPI_Finalize":
                entered.append(time)
        elif kind in (EventKind.EXIT, EventKind.PROGRAM_END) and stack.pop() in ("MPI_Init", "MPI_Init_thread"):
            left.append(time)
    return own, visits, max(left), min(entered)


@pytest.mark.parametrize("name", ["hybrid_2x3", *slow(["coll", "late_sender", "sweep3d_4"])])
def test_focus__is_what_an_event_by_event_walk_finds(name, traces):
    trace, cube = traces(name)
    threads = Counter(trace.locations.process)
    focused, left, entered = 0, [], []
    for master in [int(i) for i, t in enumerate(trace.locations.thread) if t == 0]:
        _, _, begin, end = own_times(trace, master)
        left.append(begin)
        entered.append(end)
        # all threads of a process count for that time
        focused += (end - begin) * threads[trace.locations.process[master]]
    d = cube.diagnosis()
    assert round(d.seconds * cube.resolution) == focused
    assert round((d.apart + d.seconds) * cube.resolution) == round(cube.total("time") * cube.resolution)
    # the interval itself, from the last EXIT of MPI_Init to the first ENTER of MPI_Finalize
    assert d.between == (min(entered) - max(left)) / cube.resolution
    assert d.beside == pytest.approx(d.seconds - sum(threads.values()) * d.between)
    assert 0 <= d.beside < 0.15 * d.seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hybrid_2x3", "bt-mz_S_4x2"])
def test_focus__of_efficiencies_is_that_of_the_trace(name, traces):
    """Without call paths above main, a cube's runtime is that of the trace's window; if only MPI_Init and MPI_Finalize
    were left out, it would be 15 % more."""
    trace, cube = traces(name)
    by_cube, by_trace = (t[t.metric == "runtime"].value.item() for t in (cube.efficiencies(), trace.efficiencies()))
    assert by_cube == pytest.approx(by_trace, rel=2e-4)


def test_focus__leaves_out_what_runs_before_and_after_main(analyze, archive):
    mpi = archive.mpi(2)
    for rank in mpi.ranks:
        rank.enter(0, "program").enter(10, "main").call(12, 20, "MPI_Init")
        rank.call(30, 70, "work").call(80, 85, "MPI_Finalize").leave(90, "main").leave(100, "program")
    cube = analyze(archive)
    names = cube.call_paths.name[focus.set_apart(cube)].tolist()
    assert names == ["program", "MPI_Init", "MPI_Finalize"]
    d = cube.diagnosis()
    # main has 2 + 10 + 10 + 5, work has 40; of these, 2 before MPI_Init and 5 after MPI_Finalize cannot be
    # distinguished from the rest
    assert d.seconds == pytest.approx(2 * 67e-9)
    assert d.between == pytest.approx(60e-9)
    assert d.beside == pytest.approx(2 * 7e-9)
    assert "10% of it lies before the last process left MPI_Init, or after" in d.text()
    # all of the time
    assert cube.diagnosis(with_startup=True).seconds == pytest.approx(200e-9)
    (first, *_) = cube.diagnosis(with_startup=True).findings
    assert first.title.startswith("MPI, Init/Finalize")
    assert first.advice.startswith("Usually the launch")


def test_focus__keeps_what_encloses_mpi_if_it_is_entered_twice(analyze, archive):
    mpi = archive.mpi(2)
    for rank in mpi.ranks:
        rank.enter(0, "main").enter(1, "step").call(2, 4, "MPI_Init").leave(5, "step")
        rank.enter(10, "step").call(12, 14, "MPI_Finalize").leave(15, "step").leave(20, "main")
    cube = analyze(archive)
    # step is entered twice, so main encloses MPI, and no call path is above it
    assert set(cube.call_paths.name[focus.set_apart(cube)]) == {"MPI_Init", "MPI_Finalize"}


@pytest.mark.slow
def test_focus__is_everything_without_mpi_and_of_narrowed_and_computed_cubes(traces):
    _, cube = traces("omp_basic")
    assert not focus.set_apart(cube).any()
    assert cube.focused() is cube
    assert "focus" not in cube.diagnosis().text()
    trace, cube = traces("hybrid_2x3")
    assert focus.set_apart(cube).any()
    for narrowed in (trace.analyze(within="main"), trace.analyze(start=0.0), cube - cube):
        assert narrowed.focused() is narrowed
    for narrowed in (trace.analyze(locations=[0, 1]), trace.analyze(properties="mpi")):
        assert narrowed.focused().facts["focus"]["share"] < 1
    # the cube has no other call path
    only = small_cube({"time": {("main/MPI_Init", 0, 0): 5}})
    assert only.focused() is only


# -- findings ----------------------------------------------------------------------------------------------------------


def without_causes(cube):
    """Return a cube that keeps no causes: its findings are properties."""
    return cube.replaced(facts={key: value for key, value in cube.facts.items() if key != "causes"})


def plain_findings(cube):
    """Return seconds by property, and idle time by the activity of the master, from single cells of the focus."""
    axis, s = cube.properties, cube.system
    focused = cube.focused()
    own = {}
    for name in axis.id:
        if axis.root_of(name) != "time":
            continue
        overlaps = axis.overlaps[axis.number[name]]
        cells = focused.cells[name] if overlaps else focused.cells_of(name, "eee")
        places = zip(cells.call_path.tolist(), cells.location.tolist(), strict=True)
        own[name] = dict(zip(places, cells.value.tolist(), strict=True))
        if overlaps:
            # a part of its parent's own time, from which it is subtracted
            of = own[axis.parent[axis.number[name]]]
            own[name] = {at: min(value, of.get(at, 0)) for at, value in own[name].items()}
            for at, value in own[name].items():
                of[at] = of.get(at, 0) - value
    totals = {name: sum(cells.values()) / cube.resolution for name, cells in own.items()}
    of_rank = defaultdict(list)
    for location, kind in enumerate(s.location_type):
        if kind != "gpu":
            of_rank[int(s.rank[location])].append((int(s.thread[location]), location))
    idle = Counter()
    for (path, location), ticks in own["omp_idle_threads"].items():
        master = min(of_rank[int(s.rank[location])])[1]
        times = {n: c[path, master] for n, c in own.items() if n != "omp_idle_threads" and c.get((path, master), 0) > 0}
        for name, time in times.items():
            top = (
                "alone"
                if name == "comp"
                else "in MPI"
                if name.startswith("mpi")
                else "device"
                if "device" in name
                else "system"
            )
            idle[top] += ticks * time / sum(times.values()) / cube.resolution
        if not times:
            idle["system"] += ticks / cube.resolution
    return totals, idle


@pytest.mark.parametrize("name", ["hybrid_2x3", "omp_basic", *slow(["jacobi_gpu"])])
def test_findings__are_what_a_plain_twin_adds_up(name, traces, monkeypatch):
    monkeypatch.setattr(finding, "LEAST", 0.0)
    cube = without_causes(traces(name)[1])
    monkeypatch.setattr(device_findings, "starts_devices", lambda cube: np.zeros(len(cube.call_paths), bool))
    d = cube.diagnosis(1000)
    findings = [f for f in d.findings if f.kind != "device"]
    totals, idle = plain_findings(cube)
    of_idle = [f for f in findings if f.property == "omp_idle_threads"]
    found = {f.property: f.seconds for f in findings if f not in of_idle}
    expected = {n: t for n, t in totals.items() if t > 0 and n not in ("time", "comp", "omp_idle_threads")}
    assert found == pytest.approx(expected, abs=1e-12)
    for words, seconds in idle.items():
        of_kind = [f.seconds for f in of_idle if words in f.title]
        assert sum(of_kind) == pytest.approx(seconds, abs=1e-9)
    # findings and computation add up to the time
    assert sum(f.seconds for f in findings) + totals["comp"] == pytest.approx(d.seconds, rel=1e-9)
    assert [f.seconds for f in findings] == sorted((f.seconds for f in findings), reverse=True)
    for f in findings:
        assert f.share == pytest.approx(f.seconds / d.seconds)
        assert 0 < f.where.share <= f.region.share + 1e-12 <= 1 + 1e-9
        assert f.where.call_path == cube.call_paths.path[f.call_path]


def check_findings(cube):
    """Check that the findings of a property do not exceed it, and all findings not the time without computation."""
    for with_startup in (False, True):
        looked_at = cube if with_startup else cube.focused()
        found = Counter()
        for f in cube.diagnosis(10_000, with_startup=with_startup).findings:
            assert 0 < f.seconds <= cube.total("time") or (
                not f.seconds and (f.gain or f.kind in ("device", "straggler"))
            )
            assert f.where.share <= 1 + 1e-9 and f.region.share <= 1 + 1e-9
            assert f.seconds == pytest.approx(sum(seconds for _, seconds in f.parts))
            for name, seconds in f.parts:
                found[name] += seconds
        for name, seconds in found.items():
            assert seconds <= looked_at.total(name) * (1 + 1e-9) + 1e-12, name
        assert sum(found.values()) + looked_at.total("comp") <= looked_at.total("time") * (1 + 1e-9)


FOLDERS = [*sorted(DATA.iterdir()), *sorted(p for f in ("otf2", "otf2_gpu", "epilog", "injected") for p in SHARED.glob(f"{f}/*") if p.is_dir() and p.name not in ALIKE)]  # fmt: skip
QUICK = [p for p in FOLDERS if p == DATA / "hybrid_2x3" or p.name == "omp_tasks"]


@pytest.mark.parametrize(
    "path", [*QUICK, *slow(p for p in FOLDERS if p not in QUICK)], ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_findings__never_exceed_their_property(path, opened, monkeypatch):
    monkeypatch.setattr(finding, "LEAST", 0.0)
    check_findings(opened(path).analyze())


def test_causes__let_threads_idle_where_their_process_waits_for_them(traces):
    """Rank 1 computes alone while rank 0 waits in MPI_Ssend, which is where the threads of rank 0 idle."""
    cube = traces("hybrid_2x3")[1].focused()
    found = findings_with_cells(cube, cube.total("time"), cube.total("time"))
    ((_, cells),) = [(f, c) for f, c in found if f.what.startswith("rank 1 thread 0 computes do_work nearly alone")]
    idle = cells["omp_idle_threads"]
    places = {
        (int(cube.system.rank[x]), cube.call_paths.path[c]) for c, x in zip(idle.call_path, idle.location, strict=True)
    }
    within = "hybrid/main/h_latereceiver"
    assert places == {(0, f"{within}/MPI_Ssend"), (1, f"{within}/compute/do_work")}


def with_tasks(archive, with_mpi=False):
    """Record a program of two threads: 10 s serial, then each executes a task of 30 s in a barrier of 40 s, then 10 s
    serial."""
    mpi = archive.mpi(1, 2)
    (main, worker), team = mpi.threads[0], mpi.teams[0]
    parallel, barrier, task = "!$omp parallel @a.c:1", "!$omp implicit barrier @a.c:9", "!$omp task @a.c:5"
    main.record(0, "ProgramBegin", program="prog").enter(0, "main")
    main.call(0, 4, "MPI_Init" if with_mpi else "begin").call(4, 10, "serial").fork(10, 2)
    for i, one in enumerate((main, worker)):
        one.begin_team(10, team).enter(10, parallel).enter(10, barrier)
        one.switch_task(12, (0, 1 + i), team).enter(12, task).call(12, 42, "work").leave(42, task)
        one.complete_task(42, (0, 1 + i), team).switch_task(42, (i, 0), team)
        one.leave(50, barrier).leave(50, parallel).end_team(50, team)
    main.join(50).call(50, 55, "serial").call(55, 60, "MPI_Finalize" if with_mpi else "end")
    main.leave(60, "main").record(60, "ProgramEnd", exit_status=0)
    return archive


def test_findings__of_idle_threads_leave_tasks_out(archive, opened):
    """A worker does not idle while its master executes tasks, whose time is subtracted at the program's root."""
    cube = opened(with_tasks(archive)).analyze()
    assert cube.total("omp_idle_threads") == pytest.approx(20e-9)
    idle = [f for f in without_causes(cube).diagnosis(100).findings if f.property == "omp_idle_threads"]
    assert [(f.seconds, f.title.partition(" while ")[2]) for f in idle] == [
        (pytest.approx(20e-9), "their master computes alone")
    ]
    assert (idle[0].where.call_path, idle[0].where.share) == ("PROGRAM/main/serial", pytest.approx(11 / 20))
    check_findings(cube)


def test_focus__of_a_program_with_tasks_keeps_what_its_root_takes_off(archive, opened):
    """The program's root is outside of the focus, the tasks are inside: in sum they count once."""
    cube = opened(with_tasks(archive, with_mpi=True)).analyze()
    # master: 6 + 40 + 5; the worker 40 in the team, idle as long as the master is alone
    inside = cube.focused()
    found = {name: inside.total(name) for name in ("time", "execution", "omp_idle_threads", "omp_ibarrier", "comp")}
    expected = {"time": 102, "execution": 91, "omp_idle_threads": 11, "omp_ibarrier": 20, "comp": 71}
    assert found == pytest.approx({name: seconds * 1e-9 for name, seconds in expected.items()})
    check_findings(cube)


def test_efficiencies__of_a_program_with_tasks_count_them_once(archive, opened):
    """From the return of MPI_Init to the call of MPI_Finalize the run takes 51, of which each thread executes 30 in a
    task."""
    found = opened(with_tasks(archive, with_mpi=True)).analyze().efficiencies()
    values = found[found.model == "run"].set_index("metric").value
    assert values["runtime"] == pytest.approx(51e-9)
    # the master also computes for 6 + 5
    assert values["useful_max"] == pytest.approx(41e-9) and values["useful_mean"] == pytest.approx((41 + 30) / 2 * 1e-9)


def test_focus__of_periods_with_tasks_adds_up(archive, opened):
    inside = opened(with_tasks(archive, with_mpi=True)).analyze(bins=3).focused()
    for name in ("time", "execution", "comp", "omp_idle_threads"):
        assert inside.period_cells[name].value.sum() == inside.cells[name].value.sum(), name


def overlapping(values):
    """Return a cube of point-to-point time with late senders and an overlapping property as parts: seconds by call
    path."""
    parents = {
        "execution": "time",
        "mpi_point2point": "execution",
        "late": "mpi_point2point",
        "other": "mpi_point2point",
    }
    cells = {name: {(f"main/{c}", 0, 0): v for c, v in of.items()} for name, of in values.items()}
    whole = cells["mpi_point2point"]
    cube = small_cube({"time": whole, "execution": whole, **cells}, parents=parents)
    cube.properties.overlaps[cube.properties.number["other"]] = True
    return cube


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"mpi_point2point": {"a": 100}, "late": {"a": 0}, "other": {"a": 60}}, {"other": 60, "mpi_point2point": 40}),
        # the siblings leave 30 of it
        ({"mpi_point2point": {"a": 100}, "late": {"a": 70}, "other": {"a": 60}}, {"late": 70, "other": 30}),
        # cell by cell
        (
            {"mpi_point2point": {"a": 100, "b": 50}, "late": {"a": 100}, "other": {"a": 60, "b": 20}},
            {"late": 100, "other": 20, "mpi_point2point": 30},
        ),
        ({"mpi_point2point": {"a": 100}, "late": {"a": 100}, "other": {"a": 60}}, {"late": 100}),
    ],
)
def test_findings__of_what_overlaps_its_siblings_have_what_these_leave(values, found):
    cube = overlapping(values)
    findings = cube.diagnosis(10).findings
    assert {f.property: round(f.seconds * cube.resolution) for f in findings} == found
    titles = {f.property: f.title for f in findings}
    if "mpi_point2point" in found:
        assert " without " in titles["mpi_point2point"] and "Other" in titles["mpi_point2point"]


def test_findings__of_what_overlaps_alone_have_all_of_it():
    cube = overlapping({"mpi_point2point": {"a": 100}, "late": {"a": 70}, "other": {"a": 60}})
    cube.facts["narrowed"] = {"properties": ["other"]}
    (only,) = cube.diagnosis(10).findings
    assert (only.property, only.seconds * cube.resolution) == ("other", 60)


def test_diagnosis__names_waits_in_nonblocking_collectives(traces):
    _, cube = traces("iallreduce_late")
    first = cube.diagnosis().findings[0]
    assert first.property == "mpi_nonblocking_collective_wait"
    assert first.where.call_path == "iallreduce_late/main/cg_step/MPI_Wait"
    assert dict(first.parts)["mpi_nonblocking_collective_wait"] == pytest.approx(
        cube.focused().total("mpi_nonblocking_collective_wait")
    )
    assert first.share > 0.3 and "number and size of messages" not in first.advice
    second = without_causes(cube).diagnosis().findings[1]
    assert second.title.endswith("Point-to-point without Wait in Non-blocking Collective") and second.share < 0.02


FIRST = {
    # The program computes alone in its first parts (h_latesender, h_latereceiver, h_coll: do_work outside parallel
    # regions) while two workers of each process idle: h_coll computes longest. That is more than any wait, as the
    # source of the program shows.
    "hybrid_2x3": ("omp_idle_threads", "alone while other threads idle", "do_work", "OpenMP"),
    # Class S is far too small: of 0.18 s between MPI_Init and MPI_Finalize, processes are in MPI for 60 % (0.15 s of
    # computation in 1.46 s of all threads), nearly all of it MPI_Waitall of exch_qbc, and other threads idle there;
    # point-to-point comes next.
    "bt-mz_S_4x2": ("omp_idle_threads", "in exch_qbc", "MPI_Waitall", "OpenMP"),
    # A grid of 16^3 per process: 70 % of the runtime is MPI (MPI parallel efficiency 30 %), while the second thread
    # idles.
    "hpcg_2x2": ("omp_idle_threads", "in ExchangeHalo", "MPI_", "OpenMP"),
    # 11 ms of many small messages: transfer is the lowest factor, by replay of the trace, too (0.42), and most of it in
    # MPI_Send.
    "sweep3d_4": ("mpi_point2point", "messages of 1.2 kB in snd_real", "MPI_Send", "Transfer"),
    # Both devices idle 99 %, before launch: the host is late. Of its 44 s, threads are stalled in half, in parallel
    # regions; the rest are messages and collective operations of the masters, which are stalled, too.
    "jacobi_gpu": ("omp_idle_threads", "stalled in 4,000 parallel regions in jacobi", "MPI_", "device_orchestration"),
}


@pytest.mark.parametrize("name", ["hybrid_2x3", *slow(name for name in FIRST if name != "hybrid_2x3")])
def test_diagnosis__finds_first_what_costs_most(name, traces):
    property_, words, region, lowest = FIRST[name]
    _, cube = traces(name)
    d = cube.diagnosis()
    first = d.findings[0]
    assert first.property == property_
    assert words in (first.what or first.title)
    assert region in first.where.call_path.rpartition("/")[2]
    titles = {m.metric: m.title for m in d.efficiencies}
    assert titles.get(d.lowest, d.lowest).startswith(lowest)
    assert d.text().count("<") == 2  # the words "< lowest", and the mark
    assert d.findings
    assert all(f.advice and (f.paid_by or not f.seconds) for f in d.findings)
    # start and end of MPI are not findings
    assert not any("MPI_Init" in f.where.call_path or f.property.startswith("mpi_init") for f in d.findings)


@pytest.mark.slow
def test_findings__say_what_they_leave_out(traces):
    """The cost of a finding excludes child properties; `show` displays the inclusive value, which is larger."""
    cube = without_causes(traces("sweep3d_4")[1])
    first = cube.diagnosis().findings[0]
    assert first.title == "MPI, Point-to-point without Late Sender and Late Receiver"
    below = cube.focused().total("mpi_latesender") + cube.focused().total("mpi_latereceiver")
    assert first.seconds + below == pytest.approx(cube.focused().total("mpi_point2point"))
    cube = without_causes(traces("hpcg_2x2")[1])
    titles = {f.property: f.title for f in cube.diagnosis(10).findings}
    assert titles["omp_ibarrier"] == "OpenMP, Implicit without Wait at Implicit Barrier"
    assert titles["mpi_latereceiver"] == "MPI, Late Receiver"


def test_findings__name_the_call_path_of_the_region_they_name(traces):
    """If the call path with the largest share of a finding does not end in the region with the largest share, only the
    region is named."""
    found = without_causes(traces("hpcg_2x2")[1]).diagnosis(10).findings
    spread = [
        f for f in found if f.region.n_call_paths > 1 and f.where.share < 0.5 and f.region.share > 1.5 * f.where.share
    ]
    told = [(f, line) for f in spread for word, line in details(f, "", 86) if word == "where"]
    assert {"most in" in line for _, line in told} == {True, False}
    for f, line in told:
        assert ("most in" in line) == (f.where.call_path.rpartition("/")[2] == f.region.call_path)
        if "most in" not in line:
            assert line.startswith(f"{f.region.call_path} on ")


@pytest.mark.slow
def test_diagnosis__has_factors_of_openmp_where_there_are_teams(traces):
    """Threads that a program creates (POSIX) have no share in the hybrid models."""
    _, cube = traces("omp_basic")
    assert "OpenMP" in cube.diagnosis().text() and cube.diagnosis().lowest.startswith("openmp_")
    _, cube = traces("pthreads_mutex")
    text = cube.diagnosis().text()
    assert "OpenMP" not in text and cube.diagnosis().lowest == "synchronisation_efficiency"


def test_findings__of_contention_and_joins_tell_who_causes_them(traces):
    """The exact root causes record it. The idle time of threads that take no part in a region has no cause."""
    _, cube = traces("pthreads_mutex")
    # other findings have causes by replay
    by_property = {f.property: f for f in cube.diagnosis(100).findings if not f.kind}
    for name, costs in (("pthread_lock_contention_mutex_lock", "delay_lock"), ("pthread_join_wait", "delay_join")):
        found = by_property[name].cause
        assert found.share == pytest.approx(found.seconds / cube.total(f"{costs}_aggregate"))
        assert found.location.startswith("rank 0 thread ")
    _, cube = traces("omp_basic")
    assert {f.cause for f in cube.diagnosis(100).findings if f.property == "omp_limited_parallelism"} <= {None}


def test_diagnosis__tells_who_causes_what(traces):
    trace, cube = traces("hybrid_2x3")
    cube = without_causes(cube)
    by_property = {f.property: f for f in cube.diagnosis(100).findings}
    # the root of late broadcasts does not wait, and causes all waits by computing before
    waits = trace.waits[trace.waits.property == "mpi_latebroadcast"]
    (root,) = waits.cause_location.unique()
    found = by_property["mpi_latebroadcast"]
    assert found.cause.location == f"rank {cube.system.rank[root]} thread {cube.system.thread[root]}"
    assert found.cause.call_path == "hybrid/main/h_coll/compute/do_work"
    costs = cube.cells["delay_12n_aggregate"].on(~focus.set_apart(cube))
    assert found.cause.share == pytest.approx(costs.value.max() / costs.value.sum())
    # the master itself causes the idle time of its threads
    serial = next(f for f in cube.diagnosis(100).findings if "computes alone" in f.title)
    assert serial.cause.location.endswith("thread 0")
    assert all(not p.location.endswith("thread 0") for p in serial.paid_by)


@pytest.mark.parametrize(
    "parts,paying,told",
    [
        ([30, 1, 0, 69], 3, "rank 3 (69%), rank 0 (30%), rank 1 (1%)"),
        # 1,000 locations with less than half a percent each, then with some that have much less
        ([10] * 1000, 1000, "1,000 locations, all alike"),
        ([30] + [10] * 999 + [1] * 50, 1000, "rank 0 (<1%), rank 1 (<1%), rank 2 (<1%), and 997 more"),
        # few locations have most of the cost
        ([3000] * 2 + [1] * 1000, 2, "rank 0 (43%), rank 1 (43%)"),
    ],
)
def test_findings__name_who_pays_of_however_many(parts, paying, told):
    cube = small_cube(
        {
            "time": {("main", i, 0): 1 for i in range(len(parts))},
            "mpi": {("main", i, 0): n for i, n in enumerate(parts)},
        }
    )
    own = cube.cells["mpi"]
    (found,) = finding_of(cube, "mpi", own, float(sum(parts)) * cube.scale("mpi"), title="MPI", advice="")
    assert (found.n_paying, payers(found)) == (paying, told)
    if told.endswith("more"):
        assert payers(found, 40) == "rank 0 (<1%), rank 1 (<1%), and 998 more"
        assert payers(found, 30) == "rank 0 (<1%), and 999 more"
    assert percent(0.0049) == percent(0.005) == "<1%" and percent(0.0051) == "1%"


@pytest.mark.slow
def test_diagnosis__of_a_narrowed_cube_is_about_what_was_asked_for(traces):
    trace, _ = traces("hybrid_2x3")
    d = trace.analyze(properties="mpi_collective").diagnosis()
    assert d.narrowed == "narrowed: mpi_collective"
    assert {f.property for f in d.findings} == {"mpi_collective"}
    assert d.efficiencies == () and d.lowest == ""
    # the runtime is that of the whole analysis
    assert d.runtime == pytest.approx(trace.analyze().diagnosis().runtime) and d.runtime < d.recorded
    d = trace.analyze(within="h_region").diagnosis()
    assert all("h_region" in f.where.call_path for f in d.findings)
    assert "narrowed: within h_region" in d.text()
    d = trace.analyze("expert").diagnosis()
    assert d.findings[0].property == "omp_idle_threads"


def test_diagnosis__needs_times_of_one_run(traces):
    trace, cube = traces("hybrid_2x3")
    with pytest.raises(SeverityError, match="no property time"):
        trace.analyze(properties="visits").diagnosis()
    with pytest.raises(SeverityError, match="difference of several"):
        (cube - cube).diagnosis()


# -- output ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["hybrid_2x3", "omp_basic", "coll", "late_sender", *slow(name for name in FIRST if name != "hybrid_2x3")]
)
def test_text__is_one_screen(name, traces):
    _, cube = traces(name)
    for with_startup in (False, True):
        lines = cube.diagnosis(with_startup=with_startup).text("a_directory/and_a_name.severity").splitlines()
        assert len(lines) <= HEIGHT
        assert max(map(len, lines)) <= WIDTH


def test_text__survives_names_of_any_kind():
    """Names that are long, odd or look like markup neither break lines nor are executed."""
    times = {(f"main/{name.replace('/', ' ')}", rank, 0): 10 + rank for name in ODD_NAMES for rank in range(4)}
    mpi = {key: value for i, (key, value) in enumerate(times.items()) if i % 2}
    cube = small_cube(
        {"time": times, "execution": times, "mpi": mpi}, parents={"execution": "time", "mpi": "execution"}
    )
    lines = cube.diagnosis().text().splitlines()
    assert max(map(len, lines)) <= WIDTH and len(lines) <= HEIGHT
    evil = small_cube(
        {
            "time": {("<script>alert(1)</script>", 0, 0): 10},
            "execution": {("<script>alert(1)</script>", 0, 0): 9},
            "mpi": {("<script>alert(1)</script>", 0, 0): 8},
        },
        parents={"execution": "time", "mpi": "execution"},
    )
    shown = evil.diagnosis()._repr_html_()
    assert "<script" not in shown and "&lt;script" in shown


def test_diagnosis__of_many_call_paths_and_a_long_name_is_small():
    """An array of all names would take 20,000 x 100,000 x 4 B = 8 GB."""
    n = 20_000
    base = small_cube(
        {"time": {("main/f", 0, 0): 9}, "execution": {("main/f", 0, 0): 5}, "mpi": {("main/f", 0, 0): 3}},
        parents={"execution": "time", "mpi": "execution"},
    )
    parent, depth, end = np.zeros(n, np.int32), np.ones(n, np.int32), np.arange(1, n + 1)
    parent[0], depth[0], end[0] = -1, 0, n
    names = np.array(["main", "MPI_Init", "MPI_Finalize", "x" * 100_000, *(f"f{i % 100}" for i in range(4, n))], object)
    text = np.full(n, "", object)
    axis = CallAxis(parent, depth, end, names, text, text, text, np.zeros(n, np.int64), text)
    key = np.arange(n, dtype=np.int64) << 32
    cells = {name: Cells(key, np.full(n, v)) for name, v in (("time", 9), ("execution", 8), ("mpi", 4))}
    tracemalloc.start()
    d = base.replaced(call_paths=axis, cells=cells).diagnosis()
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
    (found,) = [f for f in d.findings if f.property == "mpi"]
    assert found.region.n_call_paths in (199, 200) and max(map(len, d.text().splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("path", "width", "expected"),
    [
        ("main/f/g", 20, "main/f/g"),
        ("main/first/second/third", 20, "main/.../third"),
        ("main/int f(A const&, B*)/MPI_Send", 20, "main/f/MPI_Send"),
        ("main/!$omp parallel @x.c:5", 40, "main/!$omp parallel @x.c:5"),
        ("a" * 50, 21, "a" * 9 + "..." + "a" * 9),
        ("int main(int, char**)/f", 80, "main/f"),
        ("a" * 30 + "/" + "b" * 30 + "/step_12", 9, "step_12"),
        ("main/_ZN4pool3runEv", 80, "main/pool::run"),
    ],
)
def test_fitted__shortens_in_the_middle(path, width, expected):
    assert fitted(path, width) == expected


def test_findings__of_one_thing_are_in_the_singular():
    subject = wording.Subject("f", "")
    transfer = {"n_messages": 1, "mean_bytes": 1024.0, "transfer": 2.0, "n_calls": 2, "typical": 1e-6}
    for kind, evidence, expected in (
        ("messages", transfer, "1 message of 1.02 kB in f takes 2 s beyond waiting: it is stalled"),
        (
            "copies",
            {"n_copies": 1, "bytes": 8, "copying": 2.0},
            "1 copy of 8 bytes between hosts and devices in f takes 2 s",
        ),
        (
            "threads",
            {"n_created": 1, "lost_each": 2.0},
            "creating and joining 1 thread in f takes 2 s, with the time until it begins",
        ),
        (
            "threads",
            {"n_created": 2, "lost_each": 2.0},
            "creating and joining 2 threads in f takes 2 s each, with the time until they begin",
        ),
        ("tasks", {"n_tasks": 1, "lost_each": 2.0, "work_each": 0}, "creating 1 task in f takes 2 s"),
    ):
        assert wording.what({"kind": kind, "evidence": evidence}, subject) == expected


@pytest.mark.slow
def test_diagnose__prints_text_and_json(traces, tmp_path):
    _, cube = traces("hybrid_2x3")
    cube.save(tmp_path / "h.severity")
    output = executed("diagnose", tmp_path / "h.severity")
    assert [line.rstrip() for line in output.splitlines()] == cube.diagnosis().text(
        str(tmp_path / "h.severity")
    ).splitlines()
    found = json.loads(run("diagnose", tmp_path / "h.severity", "--json").stdout)
    assert found == json.loads(json.dumps(cube.diagnosis().to_dict(str(tmp_path / "h.severity"))))
    assert found["findings"][0]["property"] == "omp_idle_threads"
    assert {"runtime", "n_processes", "n_threads", "n_devices", "efficiencies", "lowest", "apart", "focus"} <= set(
        found
    )
    assert len(json.loads(run("diagnose", tmp_path / "h.severity", "--json", "--rows", 2).stdout)["findings"]) == 2
    # the command that is printed shows the same number
    command = found["findings"][0]["command"].split()[1:]
    assert "focus: MPI_Init to MPI_Finalize, 42.2% of the time" in run(*command).output
    # a cube of another format
    assert run("export", tmp_path / "h.severity", tmp_path / "h.cubex").exit_code == 0
    again = json.loads(run("diagnose", tmp_path / "h.cubex", "--json").stdout)
    # other formats exclude time outside of the focus only by call path
    by_path = cube.replaced(outside=None).diagnosis()
    assert [f["seconds"] for f in again["findings"]] == [f.seconds for f in by_path.findings]
    assert run("diagnose", tmp_path / "nowhere.severity").exit_code == 1


def test_analyze__ends_with_the_diagnosis_and_prints_one_line_to_scripts(traces, tmp_path):
    trace, cube = traces("hybrid_2x3")
    result = run("analyze", trace.path, "-o", tmp_path / "h.severity")
    assert result.exit_code == 0
    assert re.fullmatch(
        r"\S+h\.severity: 106 properties x 56 call paths x 6 locations, exact conventions\n", result.stdout
    )
    assert cube.diagnosis().text(str(tmp_path / "h.severity")) in "\n".join(
        line.rstrip() for line in result.stderr.splitlines()
    )
    quiet = run("analyze", trace.path, "-o", tmp_path / "h.severity", "--quiet")
    assert quiet.stdout == result.stdout
    assert all(line.startswith("note: ") for line in quiet.stderr.splitlines())
    assert "Init/Finalize" in run("analyze", trace.path, "-o", tmp_path / "h.severity", "--with-startup").stderr
    # an analysis that cannot be diagnosed succeeds all the same
    only = run("analyze", trace.path, "-p", "visits", "-o", tmp_path / "v.severity")
    assert only.exit_code == 0 and only.stderr == ""


def test_show_and_rules__look_at_the_focus_and_say_so(traces, tmp_path):
    _, cube = traces("hybrid_2x3")
    cube.save(tmp_path / "h.severity")
    inside = cube.focused()
    shown = run("show", tmp_path / "h.severity").output
    assert "focus: MPI_Init to MPI_Finalize, 42.2% of the time; --with-startup shows all" in shown
    assert f"100.00%  Time  time  {inside.total('time'):.6f} s" in shown
    assert f"{inside.total('omp_idle_threads') / inside.total('time'):.2%}  Idle Threads" in shown
    about = " ".join(run("info", tmp_path / "h.severity").output.split())
    assert "MPI_Init to MPI_Finalize, 42.2% of the time" in about
    # as the command that made the cube counts them
    assert f"{cube.summary().split()[0]} of {len(cube.properties.id)} properties x 56 call paths" in about
    whole = run("show", tmp_path / "h.severity", "--with-startup").output
    assert "focus" not in whole and "52.64%  Idle Threads" in whole
    # properties that are only outside of the focus are shown all the same
    start = run("show", tmp_path / "h.severity", "-p", "mpi_init_exit")
    assert "start-up and shutdown" in start.stderr and "17.24%" in start.stdout
    assert "MPI_Init_thread" in start.stdout
    found = run("rules", tmp_path / "h.severity", "--rule", "costs").output
    assert found.startswith("focus: MPI_Init to MPI_Finalize")
    seconds = {True: 0.664361, False: 0.103}
    for with_startup in seconds:
        (costs,) = tracecols.rules.evaluate(cube, "costs", with_startup=with_startup)
        of = cube if with_startup else inside
        assert costs.severity == pytest.approx(of.total("mpi"), rel=0.01)
        assert costs.share == pytest.approx(costs.severity / of.total("time"))
    # a requested region is evaluated as a whole
    (costs,) = tracecols.rules.evaluate(cube, "costs", call_path="main")
    assert costs.severity == pytest.approx(cube.total("mpi"), rel=0.01)


def test_masters__are_the_first_threads_of_processes(traces):
    for name in ("hybrid_2x3", "jacobi_gpu"):
        _, cube = traces(name)
        s = cube.system
        found = cube.system.master
        np.testing.assert_array_equal(s.thread[found], np.zeros(s.n_locations))
        np.testing.assert_array_equal(s.rank[found], s.rank)


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("int main(int, char**)", "main"),
        ("main", "main"),
        ("void f<int, std::vector<double> >(A const&)", "f"),
        ("std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"),
        ("(anonymous namespace)::Solver::step(double) const", "(anonymous)::Solver::step"),
        ("double* allocate(unsigned long)", "allocate"),
        ("Matrix::operator()(int, int)", "Matrix::operator()"),
        ("Matrix<double, 3>::operator*(Matrix<double, 3> const&) const", "Matrix::operator*"),
        ("std::function<void (int)>::operator()(int) const", "std::function::operator()"),
        ("bool operator< <int>(A<int> const&, A<int> const&)", "operator<"),
        ("ns::A::operator bool() const", "ns::A::operator bool"),
        ("foo(int)::{lambda(auto:1)#2}::operator()<int>(int) const", "foo::{lambda(auto:1)#2}::operator()"),
        ("Grid::step() const::'lambda'(int)::operator()(int) const", "Grid::step::'lambda'::operator()"),
        ("decltype(auto) ns::get<0>(ns::A&&)", "ns::get"),
        ("void run<(Kind)2, &A::f>(void (*)(int))", "run"),
        ("std::ostream& operator<<(std::ostream&, A const&)", "operator<<"),
        ("!$omp parallel @solve.f90:46", "!$omp parallel @solve.f90:46"),
        ("MPI_Send", "MPI_Send"),
    ],
)
def test_function_name__is_one_spelling_of_a_signature(signature, name):
    assert function_name(signature) == name
    assert wording.short(signature) == name[:40]
    assert fitted(f"{signature}/MPI_Send", 400) == f"{name}/MPI_Send"


def test_function_name__of_python_has_file_and_function():
    name = "torch/nn/modules/module.py(1779): _call_impl"
    assert wording.short(name) == function_name(name) == "module.py: _call_impl"
    assert fitted(f"{name}/aten::mm", 400) == "torch/nn/modules/module.py: _call_impl/aten::mm"


@pytest.mark.slow
def test_text__fits_a_terminal_of_80_columns(opened):
    trace = opened(DATA / "hybrid_2x3")
    d = trace.analyze().diagnosis(n_findings=20)
    for width in (80, 90, WIDTH):
        shown = [line for line, style in lines(d, "x.severity", width) if not line.startswith("    more")]
        assert max(map(len, shown)) <= width
    narrow = [line for line, _ in lines(d, "x.severity", 80)]
    # nothing is left out: the words are the same
    wide = [line for line, _ in lines(d, "x.severity")]
    table = slice(narrow.index(next(line for line in narrow if line.startswith("< lowest"))), None)
    assert " ".join(narrow[table][0].split()) == " ".join(next(line for line in wide if "< lowest" in line).split())


def test_place__of_many_locations_keeps_a_path_that_can_be_read():
    many = ", ".join(f"rank {i} thread 10" for i in range(3)) + " and 381 more"
    said = place(Place(many, "main/parallel/sequential/!$omp parallel @ctest-epik.c:62", 1.0, 1.0), 86)
    assert "!$omp parallel @ctest-epik.c:62" in said


def test_streams__are_called_by_their_names():
    cube = cube_of(Simulation([Rank().kernel("gemm", 5).sync()]).program)
    at = cube.system.location_type.index("gpu")
    assert location_in_words(cube.system, at) == f"rank 0 stream {cube.system.location_name[at]}"


@pytest.mark.parametrize("name", ["omp_basic", "coll", *slow(FIRST)])
def test_findings__lie_where_the_property_they_name_does(name, traces):
    _, cube = traces(name)
    cube = cube.focused()
    for f in cube.diagnosis(n_findings=50).findings:
        if f.seconds:
            assert cube.cells[f.property].on(cube.find_call_paths(f.where.call_path)).value.sum() > 0, f
