"""The trace in Python: events with pointers, selections, names, tables, SQL."""

import gc
import weakref

import numpy as np
import pytest

import tracecols
from tracecols.errors import AnalysisError, StoreError
from tracecols.schema import EventKind as K


@pytest.fixture(scope="module")
def events(trace):
    return trace.events


def test_events__come_in_order_of_location_and_time(trace, events):
    assert (events.index == np.arange(6708)).all()
    assert (np.diff(events.location) >= 0).all()
    assert (events.groupby("location").time.diff().dropna() >= 0).all()


def test_events__exitptr_is_the_inverse_of_enterptr(events):
    enters = events[events.exitptr >= 0]
    assert len(enters) == 3222  # 3220 ENTER and 2 PROGRAM_BEGIN
    exits = events.loc[enters.exitptr]
    assert (exits.enterptr.to_numpy() == enters.index).all()
    assert exits.kind.isin([K.EXIT, K.PROGRAM_END]).all()
    plain = enters.kind.to_numpy() == K.ENTER
    assert (exits.region.to_numpy()[plain] == enters.region.to_numpy()[plain]).all()


def test_events__sendptr_points_to_sends_with_the_same_envelope(trace, events):
    receives = events[events.sendptr >= 0]
    assert len(receives) == 15
    assert events.kind.loc[receives.sendptr].isin([K.MPI_SEND, K.MPI_ISEND]).all()
    p2p = trace.table("p2p").set_index("row")
    for column in ("tag", "length", "communicator"):
        assert (p2p[column].loc[receives.index].to_numpy() == p2p[column].loc[receives.sendptr].to_numpy()).all()


def test_events__lockptr_alternates_between_acquire_and_release(events):
    locks = events[events.kind.isin([K.THREAD_ACQUIRE_LOCK, K.THREAD_RELEASE_LOCK])]
    assert (locks.lockptr < 0).sum() == 2  # one lock in each of two processes
    linked = locks[locks.lockptr >= 0]
    assert (events.kind.loc[linked.lockptr].to_numpy() != linked.kind.to_numpy()).all()
    assert (events.time.loc[linked.lockptr].to_numpy() <= linked.time.to_numpy()).all()


def test_events__forkptr_of_joins(events):
    joins = events[events.kind == K.THREAD_JOIN]
    assert len(joins) == 18
    forks = events.loc[joins.forkptr]
    assert (forks.kind == K.THREAD_FORK).all()
    assert (forks.location.to_numpy() == joins.location.to_numpy()).all()


def test_events__cnodeptr_is_the_first_enter_with_the_call_path(events):
    enters = events[events.cnodeptr >= 0]
    first = enters.sort_values(["time", "location"]).groupby("call_path").head(1)
    assert (first.cnodeptr == first.index).all()
    assert (enters.groupby("call_path").cnodeptr.nunique() == 1).all()
    # cedgeptr: the call path that is left; null only where the program begins
    assert (events.cedgeptr[enters.index] < 0).sum() == 2
    by_row = events.call_path
    left = enters[enters.cedgeptr >= 0]
    parent = trace_parent(enters)
    assert (by_row.loc[left.cedgeptr].to_numpy() == parent.loc[left.index].to_numpy()).all()


def trace_parent(enters):
    """Return the call path of each ENTER's cedgeptr, by way of cnodeptr."""
    own = enters.call_path
    return own.loc[enters.cedgeptr.clip(0)].set_axis(enters.index)


def test_events__threads_inherit_the_call_path_of_the_fork(trace, events):
    worker = events[(events.location == 1) & (events.cnodeptr >= 0)].iloc[0]
    assert worker.enterptr == -1  # its own stack is empty
    path = trace.call_paths.path[worker.call_path]
    assert path == "hybrid/main/h_region/!$omp parallel @hybrid.c:12"


def test_events__pos_is_the_place_in_global_time(events):
    ordered = events.sort_values("pos")
    assert (ordered.pos == np.arange(len(events))).all()
    assert (np.diff(ordered.time) >= 0).all()
    ties = np.diff(ordered.time) == 0
    assert (np.diff(ordered.location)[ties] >= 0).all()


def test_read_events__selections_are_parts_of_the_whole(trace, events):
    some = trace.read_events(locations=[1, 4], start=0.30, stop=0.40)
    seconds = trace.seconds(events.time)
    expected = events[events.location.isin([1, 4]) & (seconds >= 0.30) & (seconds < 0.40)]
    assert 0 < len(some) < len(events)
    assert some.equals(expected[list(some)])
    assert list(trace.read_events(2, columns=["kind", "time"])) == ["kind", "time"]


def test_read_events__names_are_joined_on_request(trace):
    named = trace.read_events(0, columns=["location", "kind", "region", "call_path"], names=True)
    row = named.iloc[2]
    assert (row.location_name, row.kind_name, row.region_name) == ("Master thread", "ENTER", "MPI_Init_thread")
    assert row.path == "hybrid/main/MPI_Init_thread"
    assert named.region_name.dtype == "category"


@pytest.mark.parametrize("arguments", [{"columns": ["when"]}, {"locations": 99}, {"locations": -1}])
def test_read_events__says_what_there_is(trace, arguments):
    with pytest.raises(StoreError, match="there are"):
        trace.read_events(**arguments)


def test_region_instances__add_up_to_the_profile(trace):
    instances = trace.region_instances()
    assert len(instances) == 3222
    inclusive = (instances.exit_time - instances.enter_time).groupby([instances.location, instances.call_path]).sum()
    profile = trace.profile.set_index(["location", "call_path"])
    assert (instances.groupby(["location", "call_path"]).size() == profile.visits[profile.visits > 0]).all()
    # leaves of the call tree: inclusive is exclusive
    parents = set(trace.call_paths.parent)
    for (location, call_path), ticks in inclusive.items():
        if call_path not in parents:
            assert profile.exclusive[location, call_path] == ticks


def test_tables__all_compound_tables_are_frames(trace):
    sizes = {
        n: len(getattr(trace, n))
        for n in (
            "messages", "sends", "receives", "collectives", "collective_members", "teams", "constructs",
            "construct_members", "lock_acquisitions",
        )
    }  # fmt: skip
    assert sizes == {
        "messages": 15, "sends": 15, "receives": 15, "collectives": 12, "collective_members": 24, "teams": 18,
        "constructs": 78, "construct_members": 234, "lock_acquisitions": 18,
    }  # fmt: skip
    assert (trace.teams.n_threads == 3).all()
    assert (trace.collectives.n_members == 2).all()


def test_with_names__names_what_columns_refer_to(trace):
    named = trace.with_names(trace.messages)
    assert set(named.send_location_name) <= {"Master thread", "OMP thread 1", "OMP thread 2"}
    assert named.communicator_name.unique().tolist() == ["MPI_COMM_WORLD"]
    assert named.recv_path.str.endswith(("MPI_Recv", "MPI_Wait", "MPI_Waitall", "MPI_Sendrecv")).all()


def test_sql__sees_events_side_tables_and_definitions(trace, events):
    pytest.importorskip("duckdb")
    query = 'select location, count(*) n, min(row) as "first", max(time) as "last" from events group by 1 order by 1'
    counted = trace.sql(query)
    expected = events.groupby("location").agg(n=("time", "size"), last=("time", "max"))
    assert (counted.n.to_numpy() == expected.n).all()
    assert (counted["last"].to_numpy() == expected["last"]).all()
    assert counted["first"].tolist() == trace.locations.first_row.tolist()
    joined = trace.sql("select r.name from p2p p join events e on e.row = p.row join regions r on r.row = 0 limit 1")
    assert len(joined) == 1


def test_analyze__knows_its_conventions(trace):
    with pytest.raises(AnalysisError, match="there are scalasca"):
        trace.analyze("kojak")


def test_seconds__count_from_the_start_of_the_recording(trace):
    assert trace.seconds(trace.manifest["first_time"]) == 0
    assert trace.seconds(trace.ticks(0.25)) == pytest.approx(0.25, abs=1e-9)


# -- seconds -----------------------------------------------------------------------------------------------------------


def test_duration__of_differences_does_not_depend_on_the_origin_of_the_clock(trace):
    """`seconds` of a difference of times is wrong by the origin of the clock."""
    clock, m = trace.manifest["clock"], trace.messages
    assert clock["origin"] > 0
    waiting = m.recv_exit_time - m.recv_enter_time
    assert (trace.duration(waiting) == waiting / clock["resolution"]).all()
    difference = trace.seconds(m.recv_exit_time) - trace.seconds(m.recv_enter_time)
    assert np.allclose(trace.duration(waiting), difference, rtol=0, atol=1e-12)
    worst = trace.matches("mpi_latebroadcast")
    assert worst.severity.sum() == pytest.approx(trace.analyze().total("mpi_latebroadcast"))
    assert trace.duration(clock["resolution"]) == 1
    assert trace.duration([0, 2 * clock["resolution"]]).tolist() == [0, 2]


@pytest.mark.parametrize("convert", ["seconds", "duration"])
def test_seconds__of_a_series_are_a_series(convert, trace):
    times = trace.messages.send_time.iloc[[4, 2]].rename("sent")
    found = getattr(trace, convert)(times)
    assert found.index.tolist() == [4, 2]
    assert found.name == "sent"
    assert found.dtype == np.float64
    array = getattr(trace, convert)(times.to_numpy())
    assert isinstance(array, np.ndarray)
    assert (array == found.to_numpy()).all()
    one = getattr(trace, convert)(int(times.iloc[0]))
    assert one == array[0]
    assert np.ndim(one) == 0
    assert getattr(trace, convert)(times.iloc[:0]).size == 0


@pytest.mark.parametrize("ask", ["messages", "waits", "events", "profile", "critical_path", "what_if", "analyze"])
def test_trace__is_freed_as_soon_as_it_is_not_referred_to(trace, ask):
    """Its tables may take most of the memory of a notebook, and Python looks for cycles only now and then."""
    other = tracecols.open(trace.path)
    found = getattr(other, ask)
    found = found() if callable(found) else found
    model = weakref.ref(other.model)
    gc.collect()
    gc.disable()
    try:
        del other, found
        assert model() is None
    finally:
        gc.enable()
