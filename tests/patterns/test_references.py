"""Whole traces against the reference analysers, cell by cell: OTF2 against Scalasca 2.6 after its remapping step,
EPILOG against EXPERT 3.0.

A cell is (property, call path, rank, thread); two call paths with the same names are summed on both sides.

Tolerance: counts agree exactly; times to 1e-9 s. The reference adds up doubles in seconds since the start of the trace,
one rounding of about 1e-16 s times the length of the trace per event, where tracecols adds up integer ticks: 1e-9 s is
larger than what that can amount to here, and smaller than three ticks of these clocks (2.6 GHz). Its remapper also
drops cells below 1e-10 s, which stay within the tolerance.

Known peculiarities of the reference that are reproduced:

* Limited parallelism follows the order in which call paths were created (`patterns.profile.openmp_subtrees`,
  docs/decisions/limited-parallelism.md), see `test_limited_parallelism__...` below.
* Explicit tasks appear twice, where they were scheduled and below TASKS; to keep the sums right, the program's root
  gets a negative execution time.
* Late receivers are counted (mpi_clr_count) at the call that completes the send, sends (comms_send) at the call that
  starts it: the child exceeds the parent there.
* Where time decreases, exclusive times may be negative (epilog/flush_4_300it, test_decreasing_times).

Errors of the reference that are not reproduced:

* If one receive shows that Late Senders on different call paths were in wrong order, the reference books source and
  number (mpi_lswo_*, mpi_*lswo_count) on the call path of the first, where the child then exceeds its parent
  (docs/decisions/wrong-order.md), see `test_wrong_order__...` below. None of the traces here has such receives.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import DATA, SHARED, slow
from support.otf2_writer import Archive
from support.severities import cells

from tracecols.model.model import enhance
from tracecols.patterns import wavefront, windows
from tracecols.search.cube import analyze_model
from tracecols.store import Store

KEY = ["property", "call_path", "rank", "thread"]

KEPT = sorted(DATA.glob("*/reference.parquet"))
OTHERS = [p for p in sorted(SHARED.glob("otf2/*/reference.parquet")) if not (DATA / p.parent.name).is_dir()]
EPILOG = sorted(SHARED.glob("epilog/*/reference.parquet"))


def label(reference: Path) -> str:
    """Name a trace; some names exist in both formats."""
    folder = reference.parent
    return f"{folder.parent.name}-{folder.name}" if folder.parent.name == "epilog" else folder.name


@pytest.fixture(scope="session")
def analyzed(store_of):
    """Enhance and analyze a trace, once."""

    @functools.cache
    def run(folder: Path):
        store = Store(store_of(folder))
        model = enhance(store, 2)
        conventions = "expert" if store.manifest["source"]["format"].startswith("EPILOG") else "scalasca"
        return model, analyze_model(model, conventions)

    return run


def both(reference: Path, cube) -> pd.DataFrame:
    """Return the values of the reference and ours side by side, 0 where one has none."""
    wanted = pd.read_parquet(reference)
    properties = wanted.property.unique().tolist()
    ours = cube.frame([p for p in properties if p in cube.properties.number])
    wanted = wanted[wanted.property.isin(properties)]
    frames = []
    for frame in (ours, wanted):
        frame = frame.astype({"property": str, "call_path": str})
        frames.append(frame.groupby(KEY, observed=True).value.sum())
    return pd.concat(frames, axis=1, keys=["ours", "reference"]).fillna(0.0).reset_index()


@pytest.mark.slow
@pytest.mark.parametrize("reference", KEPT + OTHERS + EPILOG, ids=label)
def test_reference__agrees_in_every_cell(reference, analyzed):
    _, cube = analyzed(reference.parent)
    frame = both(reference, cube)
    # every property of the reference exists here, even if all its cells are empty
    missing = set(frame.property) - set(cube.properties.id)
    assert not missing
    unit = frame.property.map(lambda p: cube.properties.unit[cube.properties.number[p]])
    apart = (frame.ours - frame.reference).abs()
    wrong = frame[np.where(unit == "sec", apart > 1e-9, apart != 0)]
    assert wrong.empty, wrong.to_string(max_rows=20)
    for name, values in frame.groupby("property"):
        assert cube.total(str(name)) == pytest.approx(values.reference.sum(), rel=1e-9, abs=1e-7), name
    # the comparison is not trivial: it covers many cells and properties
    assert len(frame) > 50
    assert frame.property.nunique() > 10


@pytest.mark.parametrize("reference", KEPT + slow(OTHERS + EPILOG), ids=label)
def test_reference__has_what_we_found(reference, analyzed):
    # properties that the reference leaves out because all cells are zero are zero here too
    _, cube = analyzed(reference.parent)
    there = set(pd.read_parquet(reference, columns=["property"]).property)
    ours = {p for p in cube.properties.id if len(cube.cells[p]) and cube.total(p) > 1e-10}
    assert ours - there <= OURS_ONLY, sorted(ours - there - OURS_ONLY)


OURS_ONLY = {
    # messages in wrong order at the sender (thesis); Scalasca has the property for receivers only
    "mpi_latereceiver_wo",
    # refills of sweeps over a grid, which no reference analyser looks for (docs/decisions/wavefront.md)
    *(p.id for p in wavefront.FAMILY.properties),
    # waits and bytes of one-sided communication, which the reference analyser ignores in OTF2 traces: it reports only
    # the calls
    *(p.id for p in windows.FAMILY.properties),
    # waits for the end of created threads: the reference counts the time in pthread_join as management
    "pthread_join_wait",
    # counters recorded with the trace, which the reference analyser ignores
    "ru_nvcsw", "ru_stime",
}  # fmt: skip


# -- peculiarities of the reference ------------------------------------------------------------------------------------


def on_call_path(cube, name, number):
    """Return the values of a property on one call path by location, in seconds or occurrences."""
    of = cube.cells[name]
    mine = of.call_path == number
    values = np.zeros(cube.system.n_locations)
    values[of.location[mine]] = of.value[mine] * cube.scale(name)
    return values


def on_subtree(cube, name, number):
    return sum(on_call_path(cube, name, i) for i in range(number, int(cube.call_paths.end[number])))


def test_limited_parallelism__of_threads_that_ran_a_call_path_of_their_own(data, analyzed):
    """The reference charges two threads with idling in a region where they were busy, and so do we."""
    model, cube = analyzed(data / "omp_basic")
    parallel = "omp_basic/main/o_single/!$omp parallel @omp_basic.c:68"
    block = f"{parallel}/!$omp single @omp_basic.c:70/!$omp single sblock @omp_basic.c:70"
    region, single = cube.call_paths.path.index(parallel), cube.call_paths.path.index(block)
    # all four threads are in the region for the same time: from FORK to JOIN
    inside = on_subtree(cube, "execution", region)
    assert inside == pytest.approx([inside[0]] * 4, abs=1e-9)
    # threads 2 and 3 executed the block of the first single, 8.2 ms each, and nobody else did
    work = on_subtree(cube, "execution", single)
    assert work.round(4).tolist() == [0, 0, 0.0082, 0.0082]
    # the reference counts just that as idle time: the block is at the end of its list of call paths, after all that
    # thread 0 visits, and so outside of the region
    reference = pd.read_parquet(data / "omp_basic" / "reference.parquet")
    limited = reference[(reference.property == "omp_limited_parallelism") & (reference.call_path == parallel)]
    assert dict(zip(limited.thread, limited.value, strict=True)) == pytest.approx({2: work[2], 3: work[3]}, abs=1e-9)
    place = {number: i for i, number in enumerate(model.call_paths.creation.tolist())}
    assert on_subtree(cube, "visits", single)[0] == 0
    first_threads = [i for i in place if on_call_path(cube, "visits", i)[0]]
    assert place[single] > max(place[i] for i in first_threads)
    assert cube.facts["counts"]["call paths counted outside their parallel region, as the reference does"] == 4


def test_tasks__make_the_program_root_negative(shared_traces, analyzed):
    """Tasks appear where they were scheduled and below TASKS: the second appearance is subtracted from the root."""
    folder = shared_traces / "otf2" / "omp_tasks"
    _, cube = analyzed(folder)
    reference = pd.read_parquet(folder / "reference.parquet")
    root = reference[(reference.property == "execution") & (reference.call_path == "omp_tasks")]
    assert (root.value < 0).sum() == 4
    tasks = cube.call_paths.path.index("omp_tasks/TASKS")
    ours = on_call_path(cube, "execution", 0)
    below = on_subtree(cube, "execution", tasks)
    assert (below > 0).all()
    assert ours[1:] == pytest.approx(-below[1:], abs=1e-9)
    # thread 0 also spends time in the program itself, before main begins
    assert -below[0] < ours[0] < 0


def test_late_receivers__are_counted_where_the_send_completes(shared_traces, analyzed):
    """The parent counts sends where they start, so the child exceeds it at MPI_Wait."""
    folder = shared_traces / "otf2" / "late_receiver"
    _, cube = analyzed(folder)
    path = "late_receiver/main/lr_isend_wait/MPI_Wait"
    reference = pd.read_parquet(folder / "reference.parquet")
    at = reference[(reference.call_path == path) & reference.property.isin(["mpi_clr_count", "comms_send"])]
    assert set(at.property) == {"mpi_clr_count"}
    number = cube.call_paths.path.index(path)
    assert on_call_path(cube, "mpi_clr_count", number).sum() == at.value.sum() > 0
    assert on_call_path(cube, "comms_send", number).sum() == 0


# -- errors of the reference -------------------------------------------------------------------------------------------


def test_wrong_order__of_several_late_senders_is_booked_on_the_call_path_of_each(opened, tmp_path):
    """One receive shows that two Late Senders were in wrong order; the reference counts both at the first."""
    archive = Archive(tmp_path / "traces.otf2")
    mpi = archive.mpi(4)
    for rank, enter in ((0, 30), (2, 55), (3, 5)):
        mpi.ranks[rank].enter(enter, "MPI_Send").send(enter + 1, 1, mpi.world, length=8).leave(enter + 2, "MPI_Send")
    receiver = mpi.ranks[1]
    # f waits from 10 to 30, g from 40 to 55; h receives a message that was sent at 6, before both
    for name, source, enter, leave in (("f", 0, 10, 35), ("g", 2, 40, 60), ("h", 3, 70, 75)):
        receiver.enter(enter - 1, name).enter(enter, "MPI_Recv").receive(leave - 1, source, mpi.world, length=8)
        receiver.leave(leave, "MPI_Recv").leave(leave + 1, name)
    cube = opened(archive).analyze()

    def at(name):
        return {
            cube.call_paths.path[c]: int(v)
            for c, v in zip(cube.cells[name].call_path, cube.cells[name].value, strict=True)
        }

    assert at("mpi_latesender_wo") == {"f/MPI_Recv": 20, "g/MPI_Recv": 15}
    # the reference has {"f/MPI_Recv": 35} and {"f/MPI_Recv": 2}: more than the Late Senders of f
    assert at("mpi_lswo_different") == {"f/MPI_Recv": 20, "g/MPI_Recv": 15}
    assert at("mpi_clswo_count") == {"f/MPI_Recv": 1, "g/MPI_Recv": 1}
    assert cube.violations() == []


# -- traces the reference analyser refuses -----------------------------------------------------------------------------


def test_nested_teams__hang_below_the_thread_that_forked_them(shared_traces, analyzed):
    """Two threads fork a team each, again and again; the reference analyser refuses nested parallelism."""
    model, cube = analyzed(shared_traces / "otf2" / "omp_nested")
    teams = model.teams
    # the outer region runs twice with threads 0 and 1; each of them runs the inner one twice in it
    assert teams.n_threads.tolist() == [2] * 10
    sizes = pd.Series(teams.master).groupby(teams.communicator).agg(["size", "first"])
    assert sorted(sizes.itertuples(index=False, name=None)) == [(2, 0), (4, 0), (4, 1)]
    inner = "omp_nested/main/outer/!$omp parallel @omp_nested.c:14/inner/!$omp parallel @omp_nested.c:6"
    visits = cube.frame("visits")
    # threads 2 and 3 are only ever in the inner region
    others = visits[visits.thread >= 2]
    assert others.call_path.astype(str).str.startswith(inner).all()
    assert visits[visits.call_path == inner].set_index("thread").value.to_dict() == {0: 4, 1: 4, 2: 4, 3: 4}
    # at each of 8 inner barriers, one of the two threads waits, unless they come at the same tick
    assert cube.frame("omp_ebarrier_wait").value.sum() == pytest.approx(0.0242, abs=1e-4)
    assert cube.violations() == []
    # while a thread's inner team runs, nobody is idle; while threads 2 and 3 wait for it, they are
    assert cube.frame("omp_limited_parallelism").thread.unique().tolist() == [2, 3]
    assert cube.facts["counts"] == {}


def test_small_teams__leave_threads_idle(shared_traces, analyzed):
    """One region has two threads of four; the reference analyser refuses teams that are smaller than their process."""
    model, cube = analyzed(shared_traces / "otf2" / "omp_two")
    assert np.bincount(model.teams.n_threads).tolist() == [0, 0, 2, 0, 28]
    parallel = "omp_two/main/o_two/!$omp parallel @omp_basic.c:116"
    region = cube.call_paths.path.index(parallel)
    inside = on_subtree(cube, "execution", region)
    assert inside[:2] == pytest.approx([inside[0]] * 2, abs=1e-9)
    assert inside[2:].tolist() == [0, 0]
    # threads 2 and 3 lose all of it; elsewhere threads are left out only in calls that create and destroy locks
    limited = cube.frame("omp_limited_parallelism")
    api = limited.call_path.astype(str).str.contains("main/omp_(?:init|destroy)")
    assert limited[api].value.max() < 1e-5
    limited = limited[~api]
    assert limited.call_path.unique().tolist() == [parallel]
    assert dict(zip(limited.thread, limited.value, strict=True)) == pytest.approx(
        {2: inside[0], 3: inside[0]}, abs=1e-9
    )
    # 4 threads acquire locks 16 times each, in critical sections and by the API: all 64 but the first of each lock have
    # a predecessor
    a = model.lock_acquisitions
    n_locks = len({*zip(a.process.tolist(), a.lock.tolist(), strict=True)})
    assert len(a) == 64
    assert int((a.previous_release_time >= 0).sum()) == 64 - n_locks
    assert cube.facts["counts"] == {}


def test_messages_of_several_threads__match_by_process(shared_traces, analyzed):
    """All threads of rank 0 send, all of rank 1 receive; the reference analyser refuses MPI calls from workers."""
    model, cube = analyzed(shared_traces / "otf2" / "hybrid_multi")
    # The recording holds 27 MPI_SEND, 9 per thread, and only 8, 1 and 2 MPI_RECV: Score-P does not record a
    # thread's operations while another is inside MPI. So 11 messages are complete, and 16 sends have no receive.
    assert {k[1:]: v for k, v in cells(cube, "comms_send").items()} == {(0,): 9, (0, 1): 9, (0, 2): 9}
    assert {k[1:]: v for k, v in cells(cube, "comms_recv").items()} == {(1,): 8, (1, 1): 1, (1, 2): 2}
    assert cube.facts["counts"] == {"sends without receive": 16}
    m = model.messages
    # the tag is the number of the thread, so a message goes from thread i of rank 0 to thread i of rank 1
    assert (m.send_location == m.tag).all()
    assert (m.recv_location == m.tag + 3).all()
    assert (m.send_time < m.recv_time).all()
    # every message has 4 bytes: 27 sent, 11 received
    assert (cube.total("bytes_sent"), cube.total("bytes_rcvd")) == (108, 44)
    # the five receives that began before their send
    late = m.recv_enter_time < m.send_enter_time
    assert late.sum() == cube.total("mpi_cls_count") == 5
    assert cube.cells["mpi_latesender"].value.sum() == (m.send_enter_time - m.recv_enter_time)[late].sum()
