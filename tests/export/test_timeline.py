"""Timelines for viewers, read with the format's own classes: slices add up to the profile, flows join related
events."""

import json
from collections import defaultdict

import numpy as np
import pytest
from conftest import DATA, SHARED
from support.command_line import executed, run
from support.kernel_layouts import layouts
from support.offload_program import small
from support.timeline_reader import Perfetto, read

import tracecols
from tracecols.errors import ExportError, StoreError
from tracecols.export import perfetto
from tracecols.export.viewers import export_timeline
from tracecols.kernels import protobuf
from tracecols.patterns.registry import properties
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.slices.source import open_store
from tracecols.store.layout import write_manifest
from tracecols.trace import Trace

pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

RECORDED = [
    pytest.param(anchor, id=f"{folder.name}-{anchor.parent.name}", marks=pytest.mark.slow if folder != DATA else ())
    for folder, names in (
        (DATA, ("*",)),
        (SHARED / "otf2", ("hybrid_multi", "metrics_rusage", "omp_nested", "omp_tasks", "rma")),
        (SHARED / "epilog", ("fuzz_1", "io_4", "omp_1x3")),
    )
    for name in names
    for pattern in (f"{name}/traces.otf2", f"{name}/epik.elg")
    for anchor in sorted(folder.glob(pattern))
]


def ns(trace, ticks):
    """Return nanoseconds since the start of the recording, or since the first event if that is earlier, computed with
    Python's integers."""
    clock = trace.manifest["clock"]
    zero = min(clock["origin"], trace.manifest["first_time"])
    return [(t - zero) * 10**9 // clock["resolution"] for t in np.asarray(ticks).tolist()]


def export(trace, path, **options):
    export_timeline(trace.path, path, jobs=1, **options)
    return read(path)


def lines(trace, timeline):
    """Return the uuid of the track of each location, by row of the location."""
    d = trace.locations
    names = [tuple(p) for p in zip(trace.processes["name"].to_numpy()[d["process"]], d["name"], strict=True)]
    found = {}
    for uuid, track in timeline.tracks.items():
        if not track.HasField("counter"):
            path = ", ".join(timeline.path(uuid)).split(", ")
            for location, (process, name) in enumerate(names):
                if path[-2:] == [process, name]:
                    found.setdefault(location, uuid)
    return found


@pytest.fixture(scope="module", params=RECORDED)
def recorded(request, tmp_path_factory):
    """A recorded trace and its timeline."""
    folder = tmp_path_factory.mktemp("recorded")
    trace = tracecols.open(tracecols.convert(request.param, folder / "x.trace"))
    return trace, export(trace, folder / "x.pftrace"), folder


# -- recorded traces ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_recorded__slices_add_up_to_the_times_of_regions(recorded):
    trace, timeline, _ = recorded
    model = trace.model
    profile = model.profile
    region = model.call_paths.region[profile.call_path]
    has_tasks = any("tasks" in s.calls.names for s in model.scans) or any(
        trace.store.n_rows("tasks", i) for i in range(model.n_locations)
    )
    of = lines(trace, timeline)
    assert sorted(of) == list(range(model.n_locations))
    assert len(set(of.values())) == len(of)
    resolution = trace.manifest["clock"]["resolution"]
    for location, uuid in of.items():
        found, visits = defaultdict(int), defaultdict(int)
        for s in timeline.slices[uuid]:
            found[s.name] += s.exclusive
            visits[s.name] += 1
        mine = profile.location == location
        expected, times = defaultdict(int), defaultdict(int)
        for r, exclusive, n in zip(region[mine], profile.exclusive[mine], profile.visits[mine], strict=True):
            expected[model.regions.name[r]] += int(exclusive)
            times[model.regions.name[r]] += int(n)
        if has_tasks:
            # the profile counts the time of tasks twice: also where they were scheduled
            continue
        assert {k: n for k, n in visits.items() if n} == {k: n for k, n in times.items() if n}
        below = sum(visits.values())
        for name, ticks in expected.items():
            # both ends of a slice, and of those in it, are rounded down
            assert abs(found[name] - ticks * 10**9 / resolution) <= visits[name] + below, name


def test_recorded__slices_are_region_instances_nanosecond_by_nanosecond(recorded):
    trace, timeline, _ = recorded
    for location, uuid in lines(trace, timeline).items():
        if trace.store.n_rows("tasks", location):
            continue
        table = trace.region_instances(location)
        regions = trace.model.regions.name[table["region"]]
        exits = np.where(table["exit_time"] >= 0, table["exit_time"], trace.model.scans[location].last_time)
        expected = sorted(zip(ns(trace, table["enter_time"]), ns(trace, exits), regions, strict=True))
        found = [s for s in timeline.slices[uuid] if s.name != "TRACE BUFFER FLUSH"]
        assert sorted((s.begin, s.end, s.name) for s in found) == expected


def test_recorded__columns_of_causes_follow_each_other(recorded):
    """Otherwise the kernel would be compiled again for their layout."""
    assert layouts(protobuf.encode_events.kinds) == {"C"}


def test_recorded__flows_join_sends_with_receives(recorded):
    trace, timeline, _ = recorded
    m = trace.messages
    of = lines(trace, timeline)
    ends = defaultdict(list)
    for uuid, instants in timeline.instants.items():
        for i in instants:
            if i.name in ("send", "receive"):
                assert len(i.flows) <= 1
                for flow in i.flows:
                    ends[flow].append(
                        (i.ends_flow, uuid, i.name, i.begin, i.details.get("tag"), i.details.get("bytes"))
                    )
    found = []
    for pair in ends.values():
        first, last = sorted(pair)
        assert (first[0], last[0]) == (False, True)
        assert first[3] <= last[3]
        send, receive = (first, last) if first[2] == "send" else (last, first)
        assert receive[2] == "receive"
        assert send[4] == receive[4]
        found.append((send[1], receive[1], send[3], receive[3], send[4], send[5]))
    columns = (
        [of[i] for i in m["send_location"]],
        [of[i] for i in m["recv_location"]],
        ns(trace, m["send_time"]),
        ns(trace, m["recv_time"]),
        m["tag"],
        m["length"],
    )
    assert sorted(found) == sorted(zip(*columns, strict=True))


def test_recorded__flows_join_who_comes_to_a_collective_operation(recorded):
    trace, timeline, _ = recorded
    members = trace.collective_members
    of = lines(trace, timeline)
    found = defaultdict(list)
    n = 0
    for uuid, instants in timeline.instants.items():
        for i in instants:
            if i.name in COLLECTIVE_OPS or i.name == "collective operation":
                n += 1
                for flow in i.flows:
                    found[flow].append((i.begin, i.ends_flow, uuid))
    assert n == len(members)
    expected = []
    for _, rows in members.groupby("collective"):
        times = ns(trace, np.where(rows["enter"] >= 0, rows["enter_time"], rows["end_time"]))
        if len(rows) > 1:
            expected.append(sorted(zip(times, [of[i] for i in rows["location"]], strict=True)))
    assert sorted(sorted((t, u) for t, _, u in chain) for chain in found.values()) == sorted(expected)
    for chain in found.values():
        # the last participant ends the flow
        (last,) = [t for t, is_end, _ in chain if is_end]
        assert last == max(t for t, _, _ in chain)


def test_recorded__counters_have_their_values(recorded):
    trace, timeline, _ = recorded
    expected = []
    for name in trace.store.tables:
        if name.startswith("metrics_"):
            table = trace.table(name)
            expected += [float(v) for c in table if c.startswith("value_") for v in table[c]]
    expected = [v for v in expected if np.isfinite(v)]
    assert sorted(float(v) for samples in timeline.samples.values() for _, v in samples) == sorted(expected)


@pytest.mark.slow
def test_recorded__chrome_says_the_same(recorded):
    trace, timeline, folder = recorded
    other = export(trace, folder / "x.trace.json")
    assert set(other.slices) == set(timeline.slices)
    for track, slices in timeline.slices.items():
        assert other.slices[track] == slices
    for track, instants in timeline.instants.items():
        assert other.instants[track] == instants
    samples = sorted((t, float(v)) for s in timeline.samples.values() for t, v in s)
    assert sorted((t, float(v)) for s in other.samples.values() for t, v in s) == samples


@pytest.mark.slow
def test_recorded__windows_add_up(recorded):
    trace, timeline, folder = recorded
    m = trace.manifest
    middle = trace.seconds((m["first_time"] + m["last_time"]) // 2).item()
    halves = [
        export(trace, folder / "before.pftrace", stop=middle),
        export(trace, folder / "after.pftrace", start=middle),
    ]
    cut = ns(trace, [trace.ticks(middle)])[0]
    for location, uuid in lines(trace, timeline).items():
        whole, parts = defaultdict(int), defaultdict(int)
        for s in timeline.slices[uuid]:
            whole[s.name, s.depth] += s.end - s.begin
        for half, low, high in zip(halves, (0, cut), (cut, 2**63), strict=True):
            for s in half.slices[lines(trace, half)[location]]:
                assert low <= s.begin <= s.end <= high
                parts[s.name, s.depth] += s.end - s.begin
        assert {k: v for k, v in parts.items() if v} == {k: v for k, v in whole.items() if v}
    n = sum(len(i) for i in timeline.instants.values())
    assert sum(len(i) for half in halves for i in half.instants.values()) == n


# -- wait states -------------------------------------------------------------------------------------------------------


WAITS = [p for p in properties("exact") if p.unit == "sec" and p.pattern is not None]


@pytest.mark.slow
@pytest.mark.parametrize("source", [p for p in RECORDED if p.id.startswith("data")])
def test_waits__add_up_to_the_cube_and_lie_in_the_calls_that_wait(source, opened, tmp_path):
    trace = opened(source)
    cube = trace.analyze()
    timeline = export(trace, tmp_path / "x.pftrace", waits=[p.id for p in WAITS])
    found = defaultdict(list)
    for uuid, track in timeline.tracks.items():
        for s in timeline.slices[uuid]:
            if s.category == "wait state":
                found[track.name].append(s)
                around = [
                    o
                    for o in timeline.slices[track.parent_uuid]
                    if o.begin <= s.begin and s.end <= o.end and o.category in ("mpi", "openmp")
                ]
                assert around, s
    total = defaultdict(float)
    for p in WAITS:
        if p.id in cube.properties.id:
            total[p.title] += cube.total(p.id)
    assert any(total.values())
    for title, seconds in total.items():
        # rounded down at both ends
        n = len(found[title])
        assert sum(s.end - s.begin for s in found[title]) == pytest.approx(seconds * 1e9, abs=n + 1)


def test_waits__stand_below_their_location_at_the_time_they_waste(archive, opened, tmp_path):
    mpi = archive.mpi(2)
    mpi.ranks[0].enter(0, "main").call(10, 40, "work").enter(50, "MPI_Send").send(51, 1, mpi.world).leave(60)
    mpi.ranks[0].leave(99, "main")
    mpi.ranks[1].enter(0, "main").enter(20, "MPI_Recv").receive(55, 0, mpi.world).leave(56, "MPI_Recv").leave(99)
    trace = opened(archive)
    timeline = export(trace, tmp_path / "x.pftrace", waits=["mpi_latesender"])
    (track,) = [u for u, t in timeline.tracks.items() if t.name == "Late Sender"]
    assert timeline.tracks[track].parent_uuid == lines(trace, timeline)[1]
    assert [(s.begin, s.end) for s in timeline.slices[track]] == [(20, 50)]
    cut = export(trace, tmp_path / "y.pftrace", waits=["mpi_latesender"], start=30e-9, stop=45e-9)
    (track,) = [u for u, t in cut.tracks.items() if t.name == "Late Sender"]
    assert [(s.begin, s.end) for s in cut.slices[track]] == [(30, 45)]


def test_waits__of_no_such_property_are_refused(archive, opened, tmp_path):
    archive.mpi(1).ranks[0].call(0, 9, "main")
    trace = opened(archive)
    for wrong in ("mpi_latesendr", "time", "mpi_cls_count"):
        with pytest.raises(ExportError, match=r"mpi_latesender, "):
            export(trace, tmp_path / "x.pftrace", waits=[wrong])
    assert [p.name for p in tmp_path.iterdir() if "pftrace" in p.name] == []


# -- causes and the critical path --------------------------------------------------------------------------------------


def late(archive):
    """Rank 1, which runs longer, waits from 20 to 50 for rank 0, which works from 10 to 40."""
    mpi = archive.mpi(2)
    mpi.ranks[0].enter(0, "main").call(10, 40, "work").enter(50, "MPI_Send").send(51, 1, mpi.world).leave(60)
    mpi.ranks[0].leave(99, "main")
    mpi.ranks[1].enter(0, "main").enter(20, "MPI_Recv").receive(55, 0, mpi.world).leave(56, "MPI_Recv").leave(199)


@pytest.mark.parametrize("name", ["x.pftrace", "x.trace.json"])
def test_waits__by_default_say_who_causes_them(name, archive, opened, tmp_path):
    late(archive)
    trace = opened(archive)
    timeline = export(trace, tmp_path / name, critical_path=False)
    (wait,) = [s for of in timeline.slices.values() for s in of if s.category == "wait state"]
    assert (wait.name, wait.begin, wait.end) == ("Late Sender", 20, 50)
    assert wait.details == {"cause": "rank 0 thread 0", "call path": "main/MPI_Send"}
    (cause,) = [i for of in timeline.instants.values() for i in of if i.category == "wait state"]
    assert (cause.name, cause.begin, cause.flows) == ("cause of Late Sender", 50, wait.flows)
    assert (wait.ends_flow, cause.ends_flow) == (False, True)
    others = {f for of in timeline.instants.values() for i in of for f in i.flows if i is not cause}
    assert not others & set(wait.flows)
    if name.endswith("pftrace"):
        assert timeline.path(cause.track)[-1] == "Causes"
        assert timeline.tracks[cause.track].parent_uuid == lines(trace, timeline)[0]
    none = export(trace, tmp_path / name, waits="none", critical_path=False)
    assert not [s for of in none.slices.values() for s in of if s.category == "wait state"]
    # a cause outside of the time range gets no arrow
    cut = export(trace, tmp_path / name, stop=45e-9, critical_path=False)
    (wait,) = [s for of in cut.slices.values() for s in of if s.category == "wait state"]
    assert (wait.end, wait.flows) == (45, [])


@pytest.mark.parametrize("name", ["x.pftrace", "x.trace.json"])
def test_critical_path__is_a_track_of_its_own_and_one_below_each_location(name, archive, opened, tmp_path):
    late(archive)
    trace = opened(archive)
    timeline = export(trace, tmp_path / name, waits="none")
    stretches = trace.critical_path(raw=True)
    assert stretches.location.tolist() == [0, 1]
    of = [s for slices in timeline.slices.values() for s in slices if s.category == "critical path"]
    whole = sorted((s for s in of if s.name != "critical path"), key=lambda s: s.begin)
    assert [s.name for s in whole] == ["rank 0 thread 0", "rank 1 thread 0"]
    below = sorted((s for s in of if s.name == "critical path"), key=lambda s: s.begin)
    expected = list(zip(stretches.begin_time, stretches.end_time, strict=True))
    assert [(s.begin, s.end) for s in below] == [(s.begin, s.end) for s in whole] == expected
    assert [s.details.get("reason") for s in below] == [None, "late sender"]
    assert [s.details.get("call path", "") for s in below] == stretches.end_call_path.tolist()
    # an arrow joins the two stretches
    assert below[0].flows == below[1].flows != []
    assert [s.ends_flow for s in below] == [False, True]
    assert not any(s.flows for s in whole)
    without = export(trace, tmp_path / name, critical_path=False)
    assert not [s for slices in without.slices.values() for s in slices if s.category == "critical path"]


@pytest.mark.slow
@pytest.mark.parametrize("source", [p for p in RECORDED if p.id.startswith("data")])
def test_critical_path__of_recorded_traces_is_the_table(source, opened, tmp_path):
    trace = opened(source)
    timeline = export(trace, tmp_path / "x.pftrace", waits="all")
    of = lines(trace, timeline)
    expected = trace.critical_path(raw=True)
    expected = expected[expected.end_time > expected.begin_time]
    found = []
    for location, line in of.items():
        for uuid, track in timeline.tracks.items():
            if track.parent_uuid == line and track.name == "Critical path":
                found += [(location, s.begin, s.end) for s in timeline.slices[uuid]]
    begin, end = (ns(trace, expected[c]) for c in ("begin_time", "end_time"))
    assert sorted(found) == sorted(zip(expected.location.tolist(), begin, end, strict=True))
    assert len(found) > 1
    flows = [f for slices in timeline.slices.values() for s in slices if s.category == "critical path" for f in s.flows]
    assert len(set(flows)) == 1


# -- around the worst instance -----------------------------------------------------------------------------------------


def test_around__shows_the_time_of_the_worst_instance(store, tmp_path):
    result = run("export", store, tmp_path / "x.pftrace", "--around", "late broadcast", "--jobs", 1)
    assert result.exit_code == 0, result.output
    worst = Trace(store).top_instances("mpi_latebroadcast", 1).iloc[0]
    assert (
        "the worst 7.15 ms on rank 1 thread 0, caused by rank 0 thread 0, in hybrid/main/h_coll/MPI_Bcast"
        in result.stderr
    )
    assert "wait states of mpi_latebroadcast: 1\n" in result.stderr
    assert "mpi_earlyscan" not in result.stderr
    timeline = read(tmp_path / "x.pftrace")
    times = [t for slices in timeline.slices.values() for s in slices for t in (s.begin, s.end)]
    length = worst.end_seconds - worst.begin_seconds
    assert min(times) == pytest.approx((worst.begin_seconds - 2 * length) * 1e9, abs=2)
    assert max(times) == pytest.approx((worst.end_seconds + 2 * length) * 1e9, abs=2)


# -- processes and threads ---------------------------------------------------------------------------------------------


def test_descriptors__tell_processes_and_threads(opened, tmp_path, data):
    """The trace processor uses them for queries by process and thread."""
    trace = opened(data / "hybrid_2x3")
    timeline = export(trace, tmp_path / "x.pftrace")
    processes = {t.process.pid: t.process.process_name for t in timeline.tracks.values() if t.HasField("process")}
    assert processes == {1: "MPI Rank 0", 2: "MPI Rank 1"}
    threads = {i: timeline.tracks[u].thread for i, u in lines(trace, timeline).items()}
    assert [threads[i].pid for i in range(6)] == [1, 1, 1, 2, 2, 2]
    assert [threads[i].tid for i in range(6)] == [1, 4, 5, 2, 7, 8]
    assert [threads[i].thread_name for i in range(3)] == ["Master thread", "OMP thread 1", "OMP thread 2"]
    # tracks below a thread have no thread descriptor: only the parent has one
    for uuid, track in timeline.tracks.items():
        if track.HasField("thread"):
            assert timeline.tracks[track.parent_uuid].HasField("process")
        elif track.HasField("process"):
            assert uuid not in timeline.slices


def test_descriptors__of_processes_that_share_their_line_with_their_thread(opened, tmp_path, data):
    timeline = export(opened(data / "late_sender"), tmp_path / "x.pftrace")
    threads = [t.thread for t in timeline.tracks.values() if t.HasField("thread")]
    processes = [t.process for t in timeline.tracks.values() if t.HasField("process")]
    assert [(t.pid, t.tid, t.thread_name) for t in threads] == [(i + 1, i + 1, "Master thread") for i in range(4)]
    assert [(p.pid, p.process_name) for p in processes] == [(i + 1, f"MPI Rank {i}") for i in range(4)]


def test_descriptors__of_streams_belong_to_their_process(archive, opened, tmp_path):
    """Devices group the streams of a process; a name may hold a comma."""
    groups = [archive.process(f"MPI Rank {i}") for i in range(2)]
    for group in groups:
        for name in ("Master, thread", "CUDA[0:7]", "CUDA[0:8]", ""):
            location = archive.location(name, group, "gpu" if name.startswith("CUDA") else "cpu_thread")
            location.call(0, 10, "f")
    trace = opened(archive)
    tracks = export(trace, tmp_path / "x.pftrace").tracks.values()
    assert [(t.process.pid, t.process.process_name) for t in tracks if t.HasField("process")] == [
        (1, "MPI Rank 0"),
        (2, "MPI Rank 1"),
    ]
    threads = [t.thread for t in tracks if t.HasField("thread")]
    names = ["Master, thread", "", "CUDA[0:7]", "CUDA[0:8]"]
    assert [(t.pid, t.thread_name) for t in threads] == [(pid, name) for pid in (1, 2) for name in names]
    assert [t.name for t in tracks if "CUDA[0]" in t.name] == ["CUDA[0]"] * 2
    export_timeline(trace.path, tmp_path / "x.trace.json", jobs=1)
    events = json.loads((tmp_path / "x.trace.json").read_text())["traceEvents"]
    said = [(e["name"], e["pid"], e["args"].get("name")) for e in events if e["ph"] == "M"]
    assert [s[1:] for s in said if s[0] == "process_name"] == [(1, "MPI Rank 0"), (2, "MPI Rank 1")]
    # an empty one is an error for viewers
    assert [s[2] for s in said if s[0] == "thread_name"] == ["Master, thread", "CUDA[0:7]", "CUDA[0:8]"] * 2


# -- tracks ------------------------------------------------------------------------------------------------------------


def test_tracks__form_the_system_tree_in_order(opened, tmp_path, data):
    timeline = export(opened(data / "hybrid_2x3"), tmp_path / "x.pftrace")
    paths = [timeline.path(u) for u in timeline.tracks]
    assert [p[-1] for p in paths[:5]] == [paths[0][-1], "MPI Rank 0", "Master thread", "OMP thread 1", "OMP thread 2"]
    assert paths[0][0].startswith("machine Linux, node ")
    # the critical path comes first
    order = {u: t.sibling_order_rank for u, t in timeline.tracks.items()}
    assert [u for u in order if order[u] != u] == [
        u for u, t in timeline.tracks.items() if timeline.path(u) == ("Critical path",)
    ]
    assert {t.child_ordering for t in timeline.tracks.values()} == {3}


def test_clock__says_which_time_of_day_time_zero_is(archive, opened, tmp_path):
    archive.mpi(1).ranks[0].call(5, 10, "main")
    trace = opened(archive)
    assert not export(trace, tmp_path / "x.pftrace").clocks
    manifest = json.loads((trace.path / "manifest.json").read_text())
    manifest["clock"] |= {"realtime": 1_700_000_000_000_000_000, "origin": 8}
    write_manifest(trace.path, "a store of a trace", manifest["version"], manifest)
    timeline = export(Trace(trace.path), tmp_path / "x.pftrace")
    # the first event is 3 ns earlier than the start of the recording
    ((slice_,),) = timeline.slices.values()
    assert (slice_.begin, slice_.end) == (0, 5)
    (snapshot,) = timeline.clocks
    assert {c.clock_id: c.timestamp for c in snapshot.clocks} == {6: 3, 1: 1_700_000_000_000_000_000}


@pytest.mark.slow
def test_tracks__what_is_not_chosen_is_not_there(opened, tmp_path, data):
    trace = opened(data / "hybrid_2x3")
    timeline = export(trace, tmp_path / "x.pftrace", locations=[3, 1])
    whole = export(trace, tmp_path / "whole.pftrace")
    of = lines(trace, timeline)
    assert len(of) == 2
    assert sorted(of) == [1, 3]
    for location, uuid in of.items():
        expected = whole.slices[lines(trace, whole)[location]]
        assert [(s.begin, s.end, s.name) for s in timeline.slices[uuid]] == [(s.begin, s.end, s.name) for s in expected]
    # the partners of the chosen locations are not in the timeline
    assert not any(i.flows for instants in timeline.instants.values() for i in instants)


def test_tracks__of_several_nodes_and_processes_of_one_thread(archive, opened, tmp_path):
    machine = archive.node("cluster", "machine")
    for n in range(2):
        node = archive.node(f"n{n}", "node", machine)
        for r in range(2):
            process = archive.process(f"rank {2 * n + r}", node=node)
            archive.location("main thread", process).call(0, 10 + r, "main")
    trace = opened(archive)
    timeline = export(trace, tmp_path / "x.pftrace")
    # tracks except those that only name a process
    assert [timeline.path(u) for u, t in timeline.tracks.items() if not t.HasField("process")] == [
        ("machine cluster",),
        ("machine cluster", "node n0"),
        ("machine cluster", "node n0", "rank 0, main thread"),
        ("machine cluster", "node n0", "rank 1, main thread"),
        ("machine cluster", "node n1"),
        ("machine cluster", "node n1", "rank 2, main thread"),
        ("machine cluster", "node n1", "rank 3, main thread"),
    ]
    export(trace, tmp_path / "x.trace.json")
    names = read(tmp_path / "x.trace.json").names
    assert names["process_name"] == {i + 1: f"rank {i}" for i in range(4)}
    assert names["process_labels"][4] == "node n1"


# -- odd traces --------------------------------------------------------------------------------------------------------


def test_odd__open_instances_exits_without_enter_and_wrong_exits(archive, opened, tmp_path):
    here = archive.mpi(1).ranks[0]
    here.leave(5, "main").enter(10, "main").enter(20, "f").leave(30, "g").enter(40, "h")
    timeline = export(opened(archive), tmp_path / "x.pftrace")
    ((slices),) = timeline.slices.values()
    assert sorted((s.begin, s.end, s.name) for s in slices) == [(10, 40, "main"), (20, 30, "f"), (40, 40, "h")]


def test_odd__messages_without_partner_and_without_region(archive, opened, tmp_path):
    mpi = archive.mpi(2)
    mpi.ranks[0].send(5, 1, mpi.world, 7, 64).send(6, 1, mpi.world, 8, 1)
    mpi.ranks[1].receive(4, 0, mpi.world, 7, 64).receive(9, 0, mpi.world, 9, 2)
    trace = opened(archive)
    timeline = export(trace, tmp_path / "x.pftrace")
    of = lines(trace, timeline)
    found = [
        [(i.begin, i.name, i.details, bool(i.flows), i.ends_flow) for i in timeline.instants[of[r]]] for r in range(2)
    ]
    world = {"communicator": "MPI_COMM_WORLD"}
    # by the clocks, the message was received before it was sent: the flow ends at the later event
    assert found == [
        [
            (5, "send", {"to": 1, "tag": 7, "bytes": 64, **world}, True, True),
            (6, "send", {"to": 1, "tag": 8, "bytes": 1, **world}, False, False),
        ],
        [
            (4, "receive", {"from": 0, "tag": 7, "bytes": 64, **world}, True, False),
            (9, "receive", {"from": 0, "tag": 9, "bytes": 2, **world}, False, False),
        ],
    ]


def test_odd__no_events(archive, opened, tmp_path):
    archive.mpi(2)
    trace = opened(archive)
    for name in ("x.pftrace", "x.trace.json"):
        timeline = export(trace, tmp_path / name)
        assert not timeline.slices
        assert not timeline.instants


NASTY = 'a"b\\c</script>\n\t\u0000\u2028 ünï 𝄞 &<>%s{}'


def test_names__are_only_text(archive, opened, tmp_path):
    archive.mpi(1).ranks[0].call(0, 10, NASTY.replace("\0", ""))
    trace = opened(archive)
    wanted = NASTY.replace("\0", "")
    assert wanted in list(trace.regions["name"])
    for name in ("x.pftrace", "x.trace.json"):
        ((only,),) = export(trace, tmp_path / name).slices.values()
        assert only.name == wanted


def test_counters__that_are_no_numbers_are_counted_and_large_ones_are_doubles(archive, opened, tmp_path):
    mpi = archive.mpi(1)
    number = archive.metric_class(("power", "double"), ("cycles", "uint64"))
    here = mpi.ranks[0]
    here.enter(0, "main")
    for t, power, cycles in ((1, 1.5, 7), (2, float("nan"), 2**64 - 1), (3, float("inf"), 9)):
        here.record(t, "Metric", source=number, values=[(10, power), (4, cycles)])
    here.leave(9, "main")
    trace = opened(archive)
    shown = export_timeline(trace.path, tmp_path / "x.pftrace")
    assert shown.left_out == {"values of counters that are no numbers": 2}
    timeline = read(tmp_path / "x.pftrace")
    names = {timeline.tracks[u].name: s for u, s in timeline.samples.items()}
    assert names == {"power": [(1, 1.5)], "cycles": [(1, 7.0), (2, float(2**64 - 1)), (3, 9.0)]}
    export_timeline(trace.path, tmp_path / "x.trace.json")
    json.loads((tmp_path / "x.trace.json").read_text())


# -- the command and its errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.pftrace", "x.perfetto-trace", "x.trace.json"])
def test_export__writes_a_piece(name, store, tmp_path):
    result = run(
        "export",
        store,
        tmp_path / name,
        "--from",
        0.3,
        "--to",
        0.35,
        "--locations",
        "0,2-3",
        "--waits",
        "mpi_latebroadcast",
        "--no-critical-path",
        "--jobs",
        1,
    )
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / name}\n")
    assert result.stderr == "wait states of mpi_latebroadcast: 1\n"
    timeline = read(tmp_path / name)
    # three locations, and the wait states of one
    assert len(timeline.slices) == 4
    assert all(299_999_999 <= s.begin <= s.end <= 350_000_000 for slices in timeline.slices.values() for s in slices)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("x.pftrace", "--table", "messages"), 2, "--table, --raw and --wide have no meaning for a timeline"),
        (("x.csv", "--waits", "mpi_latesender"), 2, "--waits: only for a timeline"),
        (("x.otf2", "--waits", "mpi_latesender"), 2, "--waits: only for a timeline"),
        (("x.pftrace", "--waits", "nothing"), 1, "no property 'nothing' under these conventions"),
        (("x.pftrace", "--waits", "time"), 1, "no wait states of a property 'time'"),
        (("x.pftrace", "--locations", "6"), 1, "no location 6"),
        (("x.pftrace", "--from", "2", "--to", "1"), 1, "the end has to be later"),
        (("no/x.pftrace",), 1, "cannot write"),
        (("x.pftrace", "--around", "late broadcats"), 1, "did you mean mpi_latebroadcast"),
        (("x.pftrace", "--around", "mpi_earlyscan"), 1, "property 'mpi_earlyscan' has no instance in this trace"),
        (("x.pftrace", "--around", "time"), 1, "computed from call paths"),
        (("x.pftrace", "--around", "mpi_latebroadcast", "--from", "0.1"), 2, "--around finds the time range"),
        (("x.csv", "--around", "mpi_latebroadcast"), 2, "--around: only for a timeline"),
        (("x.csv", "--no-critical-path"), 2, "--critical-path: only for a timeline"),
    ],
)
def test_export__refuses(arguments, code, words, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in executed("export", store, *arguments, code=code)
    assert not list(tmp_path.iterdir())


def test_export__leaves_nothing_half(store, tmp_path, monkeypatch):
    def fail(*_):
        raise StoreError("damaged")

    monkeypatch.setattr(perfetto.PerfettoWriter, "events", fail)
    with pytest.raises(StoreError):
        export_timeline(store, tmp_path / "x.pftrace")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_export__of_a_cube_is_refused(store, tmp_path):
    Trace(store).analyze().save(tmp_path / "x.severity")
    with pytest.raises(ExportError, match="is a severity cube"):
        open_store(tmp_path / "x.severity")


def test_export__is_the_same_for_any_batches(store, tmp_path, monkeypatch):
    from tracecols.export import timeline

    export_timeline(store, tmp_path / "one.pftrace")
    one = Perfetto((tmp_path / "one.pftrace").read_bytes())
    monkeypatch.setattr(timeline, "ROWS", 100)
    export_timeline(store, tmp_path / "many.pftrace", jobs=2)
    many = Perfetto((tmp_path / "many.pftrace").read_bytes())
    assert (many.slices, many.instants, many.samples) == (one.slices, one.instants, one.samples)


# -- devices -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_devices__have_copies_with_bytes_and_flows_from_launches(archive, opened, tmp_path):
    small(archive)
    trace = opened(archive)
    timeline = export(trace, tmp_path / "x.pftrace")
    paths = {timeline.path(u): u for u in timeline.tracks}
    # a process of one thread and one device with one stream
    (copies,) = [u for path, u in paths.items() if path[-1] == "Copies"]
    stream = timeline.tracks[copies].parent_uuid
    assert "CUDA[0], CUDA[0:7]" in timeline.tracks[stream].name
    (copy,) = timeline.slices[copies]
    assert (copy.name, copy.category, copy.begin, copy.end, copy.details) == (
        "copy to host",
        "device",
        42,
        50,
        {"bytes": 64},
    )
    assert [(s.name, s.begin, s.end) for s in timeline.slices[stream]] == [("kernel", 14, 40)]
    instants = [i for of in timeline.instants.values() for i in of]
    (launch,) = [i for i in instants if i.name == "launch"]
    (kernel,) = [i for i in instants if i.name == "kernel begins"]
    (asked,) = [i for i in instants if i.name == "copy asked for"]
    assert (launch.begin, kernel.begin, kernel.track) == (10, 14, stream)
    assert (launch.flows, launch.ends_flow, kernel.ends_flow) == (kernel.flows, False, True)
    assert (asked.begin, asked.flows, copy.ends_flow) == (20, copy.flows, True)
    assert launch.flows != asked.flows
    # a copy that began before the time range is clipped
    cut = export(trace, tmp_path / "y.pftrace", start=45e-9, stop=60e-9)
    (copies,) = [u for u, t in cut.tracks.items() if t.name == "Copies"]
    assert [(s.begin, s.end, s.flows) for s in cut.slices[copies]] == [(45, 50, [])]


def test_devices__chrome_has_copies_and_flows_as_well(archive, opened, tmp_path):
    small(archive)
    export_timeline(opened(archive).path, tmp_path / "x.trace.json", jobs=1)
    events = json.loads((tmp_path / "x.trace.json").read_text())
    events = events if isinstance(events, list) else events["traceEvents"]
    (copy,) = [e for e in events if e.get("name") == "copy to host"]
    assert copy["args"] == {"bytes": 64}
    # launch and kernel, call and copy; and the critical path from the host through both to the host
    assert sorted(e["ph"] for e in events if e.get("name") == "flow") == ["f", "f", "f", "s", "s", "s", "t"]


def test_devices__have_flows_where_times_are_negative(archive, opened, tmp_path):
    """Clock offsets may make times negative."""
    program = small(archive)
    for location in (program.host, *program.streams):
        location.clock_offset(0, -1000).clock_offset(100, -1000)
    timeline = export(opened(archive), tmp_path / "x.pftrace")
    instants = [i for of in timeline.instants.values() for i in of]
    assert [len(i.flows) for i in instants if i.name in ("launch", "kernel begins", "copy asked for")] == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cuda_simple", "sptc", "mi300"])
def test_recorded_devices__every_launch_is_joined_with_its_kernel(name, shared_traces, opened, tmp_path):
    trace = opened(shared_traces / "otf2_gpu" / name / "traces.otf2")
    timeline = export(trace, tmp_path / "x.pftrace")
    instants = [i for of in timeline.instants.values() for i in of]
    begins = {i.flows[0]: i.begin for i in instants if i.name == "launch"}
    ends = {i.flows[0]: i.begin for i in instants if i.name == "kernel begins"}
    kernels = trace.kernels
    pairs = zip(ns(trace, kernels["launch_enter_time"]), ns(trace, kernels["enter_time"]), strict=True)
    assert sorted((begins[f], ends[f]) for f in ends) == sorted(pairs)
    copies = [s for of in timeline.slices.values() for s in of if s.name.startswith("copy")]
    assert sum(s.details.get("bytes", 0) for s in copies) == trace.copies["bytes"].sum()
    assert len(copies) == len(trace.copies)
