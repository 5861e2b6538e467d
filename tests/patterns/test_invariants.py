"""Invariants of all traces: severities are consistent, no time gets lost, results do not depend on the
partitioning."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA, SHARED, slow
from hypothesis import given, settings
from hypothesis import strategies as st
from support.laws import same
from support.random_programs import RandomProgram
from support.recordings import ALIKE
from support.severities import cube_of

import tracecols
from tracecols import conversion
from tracecols.converters.base import Clock
from tracecols.drawings.examples import EXAMPLES
from tracecols.enhance.scan import batches, scan
from tracecols.model.model import Model, enhance
from tracecols.schema import EventKind as K
from tracecols.search.cube import analyze_model
from tracecols.store import Store
from tracecols.testing import Program

TRACES = sorted(p.parent for p in SHARED.glob("otf2/*/traces.otf2")) or sorted(
    p.parent for p in DATA.glob("*/traces.otf2")
)
KEPT = {p.parent.name for p in DATA.glob("*/traces.otf2")}
every_trace = pytest.mark.parametrize(
    "folder",
    [*(p for p in TRACES if p.name in KEPT), *slow(p for p in TRACES if p.name not in KEPT)],
    ids=lambda p: p.name,
)
each_kind = pytest.mark.parametrize(
    "folder", [p for p in TRACES if p.name not in ALIKE or p.name == "coll"], ids=lambda p: p.name
)

VIOLATIONS = {
    # late receivers are counted where the send completes, sends where they start (test_references.py)
    "late_receiver": ["the children of comms_send exceed it in 2 cells"],
    # tasks make the root of the program negative, as in the reference (test_references.py)
    "omp_tasks": [
        "execution is negative in 4 cells", "omp_idle_threads is negative in 3 cells", "comp is negative in 4 cells",
        "the children of omp_idle_threads exceed it in 3 cells",
    ],
    "omp_mix_8": ["execution is negative in 7 cells", "comp is negative in 7 cells"],
}  # fmt: skip
NEGATIVE_ROOT = {"omp_tasks", "omp_mix_8"}
LIMITED = {"omp_basic", "omp_tasks", "omp_mix_8"}
"""Traces in which limited parallelism under the conventions of Scalasca follows the reference's list of call paths
instead of the tree: a thread that executed what the first one did not is charged for it twice
(docs/decisions/limited-parallelism.md)."""


@pytest.fixture(scope="module")
def analyzed(store_of):
    """Convert, enhance and analyze a trace, once."""

    @functools.cache
    def run(folder: Path):
        model = enhance(Store(store_of(folder)), 1)
        return model, analyze_model(model)

    return run


@pytest.mark.slow
@every_trace
def test_properties__children_and_siblings_stay_within_their_parent(folder, analyzed):
    _, cube = analyzed(folder)
    found = cube.violations()
    allowed = VIOLATIONS.get(folder.name, [])
    assert len(found) == len(allowed)
    for line, beginning in zip(sorted(found), sorted(allowed), strict=True):
        assert line.startswith(beginning)


@every_trace
def test_severity__lies_between_zero_and_time(folder, analyzed):
    model, cube = analyzed(folder)
    time = cube.cells["time"]
    roots = model.call_paths.parent < 0
    for name in cube.properties.id:
        of = cube.cells[name]
        if folder.name in NEGATIVE_ROOT:
            of = of.on(~roots)
        assert (of.value > 0).all(), name  # zeros are left out
        if cube.properties.root_of(name) == "time":
            assert (of.value <= time.at(of.key)).all(), name


def reservation(model: Model) -> np.ndarray:
    """Return the reserved ticks of every location: from the first to the last event of the master of its process."""
    result = np.zeros(model.n_locations, np.int64)
    for master_of in np.unique(model.locations.master):
        mine = np.flatnonzero(model.locations.master == master_of)
        master = model.scans[master_of]
        result[mine] = master.last_time - master.first_time
    return result


def per_location(cells, n: int) -> np.ndarray:
    result = np.zeros(n, np.int64)
    np.add.at(result, cells.location, cells.value)
    return result


@every_trace
def test_time__of_every_location_is_the_reservation_of_its_process(folder, analyzed):
    # exact to the tick: exclusive times of all call paths and the idle time of workers leave no gap
    model, cube = analyzed(folder)
    time, reserved = per_location(cube.cells["time"], model.n_locations), reservation(model)
    masters = model.locations.thread == 0
    assert (time[masters] == reserved[masters]).all()
    if model.locations.are_created:
        # threads that the program creates are reserved only while they execute
        assert (time == per_location(cube.cells["execution"] + cube.cells["overhead"], model.n_locations)).all()
        return
    assert (time == reserved).all()
    if folder.name in LIMITED:
        by_list = per_location(analyze_model(model, "scalasca").cells["time"], model.n_locations)
        assert (by_list >= reserved).all()
        assert (by_list > reserved).any(), "the exception is none any more"


@every_trace
def test_visits__are_the_region_instances(folder, analyzed):
    model, cube = analyzed(folder)
    if folder.name in NEGATIVE_ROOT:
        pytest.skip("tasks are visited where they run and where they were scheduled")
    visits = per_location(cube.cells["visits"], model.n_locations)
    for location in range(model.n_locations):
        events = model.store.read("events", location, ["kind", "region"])
        entered = np.isin(events["kind"], (K.ENTER, K.PROGRAM_BEGIN, K.BUFFER_FLUSH))
        entered |= (events["kind"] == K.MEASUREMENT_ON_OFF) & (events["region"] >= 0)
        assert visits[location] == entered.sum()


@pytest.mark.slow
@each_kind
def test_results__do_not_depend_on_jobs_and_batches(folder, analyzed, monkeypatch):
    model, cube = analyzed(folder)
    # a prime number of events; for the two large traces, every batch reads its row groups
    batch = 997 if model.store.manifest["n_events"] < 50_000 else 99_991
    monkeypatch.setattr(batches, "BATCH", batch)
    # as if the trace were too large for memory
    monkeypatch.setattr(scan, "WAVE", batch)
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", batch)
    monkeypatch.setattr("tracecols.enhance.mpi.collectives.BUCKET_ROWS", 10)
    monkeypatch.setattr("tracecols.enhance.dataflow.spill.BUDGET", 4 * batch)
    same(cube, analyze_model(enhance(model.store, 2)))


@pytest.mark.slow
@each_kind
def test_results__do_not_depend_on_the_parts_of_the_store(folder, analyzed, monkeypatch, tmp_path):
    model, cube = analyzed(folder)
    locations = model.store.definitions["locations"].num_rows
    if model.store.manifest["n_events"] > 1_000_000 and locations > 1:
        plan = [range(1), range(1, locations)]
    else:
        plan = [range(i, i + 1) for i in range(locations)]
    monkeypatch.setattr(conversion, "plan_parts", lambda counts: plan)
    store = Store(tracecols.convert(folder, tmp_path / "parts.trace", jobs=2))
    assert len(list((store.path / "events").iterdir())) == len(plan)
    same(cube, analyze_model(enhance(store, 1)))


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 1 << 32), size=st.integers(0, 40))
def test_random_programs__neither_lose_time_nor_contradict_themselves(tmp_path_factory, seed, size):
    folder = tmp_path_factory.mktemp("p")
    program = RandomProgram(seed, folder / "traces.otf2", size)
    model = program.model(folder)
    cube = analyze_model(model)
    time = per_location(cube.cells["time"], model.n_locations)
    # at most: time outside of all regions is not counted
    masters = model.locations.thread == 0
    assert (time[masters] <= reservation(model)[masters]).all()
    # workers are reserved for as long as their master, even if it does not fork
    follows_the_list = "call paths counted outside their parallel region, as the reference does" in cube.facts["counts"]
    masters_time = time[model.locations.master]
    assert ((time >= masters_time) if follows_the_list else (time == masters_time)).all()
    # tasks make a root negative
    if not any(e.kind == "switch" for e in program.events):
        # late receivers are counted where the send completes
        allowed = ("the children of comms_send", "the children of syncs_send")
        assert [line for line in cube.violations() if not line.startswith(allowed)] == []


@pytest.mark.parametrize(
    "name",
    [
        "mpi_nonblocking_collective_wait", "mpi_rma_late_complete", "device_idle_before_launch",
        *slow(["mpi_rma_early_fence", "mpi_rma_sync_lock_competition", "shmem_latebroadcast"]),
    ],
)  # fmt: skip
def test_severities__do_not_depend_on_the_sign_of_clock_readings(name, monkeypatch):
    """Clock offsets may make times negative; -1 is null."""
    read = Program.read

    def earlier(program, location, report, *, salvage=False):
        for batch in read(program, location, report, salvage=salvage):
            batch.events["time"] = batch.events["time"] - 10_000
            yield batch

    shown = EXAMPLES[name]
    expected = cube_of(shown.make().program).frame()
    assert expected.property.eq(name).any()
    monkeypatch.setattr(Program, "read", earlier)
    monkeypatch.setattr(Program, "clock", Clock(1, -10_000, 10_000))
    with shown.make().program.trace() as trace:
        assert int(trace.manifest["first_time"]) < 0
        assert trace.analyze().frame().equals(expected)
