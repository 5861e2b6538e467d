"""Programs with known wait states: the analysis finds exactly the ticks that they lose."""

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import slow
from oracles.epilog import read_epilog
from oracles.expert import Analysis, severities

import tracecols
from benchmarks import generate
from benchmarks.programs import source as programs
from benchmarks.programs.script import grid
from tracecols.conversion import write_store
from tracecols.schema.notes import CONVENTIONS as DIFFERENCES
from tracecols.store import Store
from tracecols.store.outputs import folder_output

DISPLACED = "call paths counted outside their parallel region, as the reference does"

AT_COMPLETION = "the children of comms_send exceed it"
"""Late Receivers are counted where a send completes, and sends where they start, as in the reference: the
difference shows if an MPI_Isend is late."""

CASES = [
    ("sweep", 1, 1, 1_000, 0, {}),
    ("sweep", 7, 1, 20_000, 1, {"depth": 3}),
    ("sweep", 12, 1, 100_000, 2, {}),
    ("sweep", 6, 4, 60_000, 3, {"counters": True}),
    ("halo", 1, 1, 1_000, 0, {}),
    ("halo", 8, 1, 60_000, 1, {"periodic": True}),
    ("halo", 18, 1, 100_000, 2, {"depth": 8}),
    ("halo", 12, 2, 60_000, 3, {"periodic": True, "counters": True}),
    ("multizone", 1, 3, 3_000, 0, {}),
    ("multizone", 2, 1, 10_000, 1, {}),
    ("multizone", 9, 4, 120_000, 2, {"depth": 5}),
    ("multizone", 6, 8, 80_000, 3, {"counters": True}),
    ("master", 2, 1, 3_000, 0, {}),
    ("master", 9, 1, 60_000, 1, {}),
    ("master", 16, 1, 100_000, 2, {"depth": 4, "counters": True}),
    ("master", 5, 3, 40_000, 3, {}),
    ("fft", 1, 1, 1_000, 0, {}),
    ("fft", 12, 1, 60_000, 1, {"depth": 2}),
    ("fft", 5, 2, 40_000, 2, {"counters": True}),
    ("irregular", 1, 2, 3_000, 0, {}),
    ("irregular", 5, 1, 60_000, 1, {"depth": 12, "nodes": 500, "functions": 100}),
    ("irregular", 8, 3, 100_000, 2, {"depth": 3, "counters": True}),
]

HAS = {
    "sweep": ("mpi_latesender", "mpi_latesender_wo", "mpi_latereceiver", "mpi_wait_nxn"),
    "halo": ("mpi_latesender", "mpi_latesender_wo", "mpi_wait_nxn", "mpi_nxn_completion"),
    "multizone": ("mpi_latebroadcast", "mpi_barrier_wait", "omp_ibarrier_wait", "omp_lock_contention_critical"),
    "master": ("mpi_latesender", "mpi_latesender_wo", "mpi_latereceiver", "mpi_barrier_wait", "mpi_latebroadcast"),
    "fft": ("mpi_wait_nxn", "mpi_barrier_wait", "mpi_nxn_completion"),
    "irregular": ("mpi_latesender", "mpi_latesender_wo", "mpi_latereceiver", "mpi_wait_nxn", "mpi_latebroadcast"),
}


def store(source, path, jobs=1):
    """Write a source into a store."""
    with folder_output(path, "a store of a trace").new() as folder:
        write_store(source, folder, jobs=jobs, salvage=False, progress=None)
    return path


def by_location(cube, name):
    """Add up a property over call paths, in its own unit."""
    sums = np.zeros(cube.system.n_locations, np.int64)
    if name in cube.cells:
        cells = cube.cells[name]
        np.add.at(sums, cells.location, cells.value.astype(np.int64))
    return sums.tolist()


def assert_equal_stores(a, b):
    """Compare events and side tables of two stores."""
    a, b = Store(a), Store(b)
    assert a.manifest["n_events"] == b.manifest["n_events"]
    assert list(a.tables) == list(b.tables)
    for name in ("events", *a.tables):
        columns = [c["name"] for c in a.manifest["tables"][name]] if name != "events" else ["time", "kind", "region"]
        for location in range(a.manifest["n_locations"]):
            left, right = a.read(name, location, columns), b.read(name, location, columns)
            for column in columns:
                np.testing.assert_array_equal(left[column], right[column], f"{name}.{column} of location {location}")
    for name in ("locations", "processes", "communicators", "topologies", "topology_coordinates", "metric_members"):
        left, right = a.definitions[name].to_pydict(), b.definitions[name].to_pydict()
        assert left == right, name


@pytest.mark.slow
@pytest.mark.parametrize(("program", "processes", "threads", "events", "seed", "options"), CASES)
def test_generated__waits_are_found(tmp_path, program, processes, threads, events, seed, options):
    source = generate.make(program, processes, threads, events, seed, **options)
    truth = source.truth
    trace = tracecols.open(store(source, tmp_path / "x.trace"))
    cube = trace.analyze()
    assert trace.manifest["n_events"] == truth.n_events
    assert abs(truth.n_events - events) <= events / 10
    for name, expected in {**truth.waits, **truth.counters}.items():
        assert by_location(cube, name) == expected.tolist(), name
    assert {note for note in cube.facts["counts"] if not note.startswith(DIFFERENCES)} <= {DISPLACED}
    assert {v for v in cube.violations() if program != "irregular" or not v.startswith(AT_COMPLETION)} == set()
    assert len(trace.messages) == truth.n_messages
    visits = {}
    cells = cube.cells["visits"]
    for call_path, n in zip(cells.call_path.tolist(), cells.value.tolist(), strict=True):
        name = str(cube.call_paths.name[call_path])
        visits[name] = visits.get(name, 0) + n
    assert visits == truth.visits


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"depth": 3, "counters": True}])
@pytest.mark.parametrize("program", [*HAS, "lopsided"])
def test_small_programs__are_the_same_compiled_and_plain(tmp_path, monkeypatch, program, options):
    made = []
    for few in (0, 1 << 62):
        monkeypatch.setattr(programs, "FEW", few)
        for name in ("simulate", "record") if few else ():
            never = SimpleNamespace(kinds=[], py_func=getattr(programs.kernels, name).py_func)
            monkeypatch.setattr(programs.kernels, name, never)
        source = generate.make(program, 4, 2 if program == "multizone" else 1, 8_000, 3, **options)
        made.append((store(source, tmp_path / f"{few}.trace"), source.truth))
    (compiled, truth), (plain, other) = made
    assert_equal_stores(compiled, plain)
    for one, two in ((truth.waits, other.waits), (truth.counters, other.counters)):
        assert {k: v.tolist() for k, v in one.items()} == {k: v.tolist() for k, v in two.items()}
    assert (truth.visits, truth.n_messages, truth.n_events) == (other.visits, other.n_messages, other.n_events)


@pytest.mark.parametrize("program", ["multizone", *slow(name for name in HAS if name != "multizone")])
def test_generated__has_the_waits_it_is_for(program):
    truth = generate.make(program, 4, 4 if program == "multizone" else 1, 10_000).truth
    assert [name for name in HAS[program] if not truth.waits[name].any()] == []


@pytest.mark.slow
@pytest.mark.parametrize("program", HAS)
def test_generated__the_archive_holds_the_same(tmp_path, program):
    def make():
        return generate.make(program, 6, 2, 30_000, 5, depth=2, counters=True)

    source = make()
    archive = generate.write(source, tmp_path / "out", jobs=2)
    known = json.loads((tmp_path / "out" / "truth.json").read_text())
    assert known["n_events"] == source.truth.n_events
    direct = store(make(), tmp_path / "direct.trace", jobs=2)
    converted = tracecols.convert(archive, tmp_path / "converted.trace", jobs=1)
    assert_equal_stores(direct, converted)
    cube = tracecols.open(converted).analyze()
    for name, expected in known["severities"].items():
        assert by_location(cube, name) == expected, name


@pytest.mark.slow
def test_generated__does_not_depend_on_jobs_or_batches(tmp_path, monkeypatch):
    def make(seed=7):
        return generate.make("multizone", 4, 3, 20_000, seed, depth=3, counters=True)

    one, two = store(make(), tmp_path / "1.trace"), store(make(), tmp_path / "2.trace", jobs=2)
    assert_equal_stores(one, two)
    monkeypatch.setattr(programs, "ROWS", 777)
    assert_equal_stores(one, store(make(), tmp_path / "3.trace"))
    with pytest.raises(AssertionError):
        assert_equal_stores(one, store(make(8), tmp_path / "4.trace"))


def test_generated__the_command(tmp_path, capsys):
    arguments = ["halo", str(tmp_path / "out"), "--processes", "4", "--events", "1e4", "--seed", "3", "--jobs", "1"]
    assert generate.main(arguments) == 0
    assert "4 locations" in capsys.readouterr().out
    assert (tmp_path / "out" / "traces.otf2").exists()
    with pytest.raises(SystemExit):
        generate.main(["halo", str(tmp_path / "few"), "--processes", "64", "--events", "100"])
    assert "cannot have about 100 events: the nearest number is" in capsys.readouterr().err


def test_generated__what_cannot_be():
    for arguments in (("master", 1, 1, 1000), ("nothing", 4, 1, 1000), ("halo", 0, 1, 1000)):
        with pytest.raises(ValueError):
            generate.make(*arguments)


@pytest.mark.parametrize(
    ("n", "dimensions", "sizes"),
    [(12, 2, [4, 3]), (7, 2, [7, 1]), (16, 3, [4, 2, 2]), (1, 3, [1, 1, 1]), (18, 3, [3, 3, 2])],
)
def test_grid__is_as_equal_as_possible(n, dimensions, sizes):
    assert grid(n, dimensions) == sizes


# -- as EPILOG ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "processes", "threads", "depth"),
    [("irregular", 4, 2, 6), ("irregular", 3, 3, 0), ("multizone", 4, 3, 3), ("sweep", 6, 1, 4), ("halo", 8, 1, 0)],
)
def test_write_epilog__agrees_with_the_oracles(opened, tmp_path, program, processes, threads, depth):
    source = generate.make(program, processes, threads, 20_000, 1, depth=depth)
    path = generate.write(source, tmp_path, is_epilog=True)
    recording = read_epilog(path)
    kinds = Counter(e.name for e in recording.events)
    times = [e.time for e in recording.events]
    assert recording.n_events == len(recording.events) > 10_000
    assert times == sorted(times)
    omp = {"OMP_FORK", "OMP_JOIN", "OMP_COLLEXIT", "OMP_ALOCK"} if threads > 1 else set()
    assert {"ENTER", "EXIT", "MPI_SEND", "MPI_RECV", "MPI_COLLEXIT", *omp} <= set(kinds)
    assert kinds["MPI_SEND"] == kinds["MPI_RECV"] == source.truth.n_messages
    # raises if a message has no sender or a region is never left
    assert not any(Analysis(recording).in_transit.values())
    expected = severities(recording)
    table = opened(path).analyze("expert").frame()
    found = table.groupby(["property", "call_path", "rank", "thread"])["value"].sum().to_dict()
    assert expected.keys() == {k for k, v in found.items() if v}
    # sums of up to 20,000 doubles of seconds; ours are of integers
    assert all(abs(found[k] - v) < 1e-9 for k, v in expected.items())


# -- programs that record themselves -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "streams", "events", "seed"), [(1, 1, 300, 0), (2, 3, 4_000, 1), (3, 2, 20_000, 2)]
)
@pytest.mark.parametrize("conventions", ["scalasca", "expert"])
def test_offload__is_found_as_it_was(opened, tmp_path, processes, streams, events, seed, conventions):
    recording = generate.record("offload", tmp_path, processes, streams, events, seed)
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert abs(truth["n_events"] - events) <= events / 5
    trace = opened(tmp_path / "traces.otf2")
    cube = trace.analyze(conventions=conventions)
    for name, expected in truth["severities"].items():
        assert by_location(cube, name) == expected, name
    found = {p for p in cube.properties.id if p.startswith("device") and any(by_location(cube, p))}
    summed = {"device_api", "device_launch", "device_synchronization", "device_copy_calls", "device_management"}
    assert found - summed - {"device_copies_hidden", "device_copies_exposed"} == set(truth["severities"])
    assert len(recording.locations) == processes * (streams + 1)
    assert (trace.kernels["launch_enter"] >= 0).all()
    if seed:
        assert {"device_early_wait", "device_useless_sync", "device_late_launch", "device_blocking_copy"} < found


@pytest.mark.parametrize(("processes", "events", "seed"), [(1, 60, 0), (2, 1_000, 1), (5, 20_000, 2)])
def test_rma__is_found_as_it_was(opened, tmp_path, processes, events, seed):
    generate.record("rma", tmp_path, processes, 1, events, seed)
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert abs(truth["n_events"] - events) <= events / 5
    trace = opened(tmp_path / "traces.otf2")
    cube = trace.analyze()
    for name, expected in truth["severities"].items():
        assert by_location(cube, name) == expected, name
    found = {p for p in cube.properties.id if p.startswith(("mpi_rma_", "bytes_")) and any(by_location(cube, p))}
    own_time = {"mpi_rma_synchronization", "mpi_rma_sync_active", "mpi_rma_sync_passive", "mpi_rma_communication"}
    assert found - own_time - {"bytes_rma"} == {p for p in truth["severities"] if not p.startswith("comms")}
    assert cube.violations() == []
    assert [note for note in cube.facts["counts"] if not note.startswith(DIFFERENCES)] == []
    if seed == 2:
        assert len(truth["severities"]) == 12
