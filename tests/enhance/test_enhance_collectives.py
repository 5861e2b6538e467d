"""Collective operations: instances per communicator, begin and end, missing members."""

import pytest


def members(model):
    """Return the processes that took part in each operation, in order of instances."""
    m = model.collective_members
    result = {}
    for instance, location in zip(m.collective.tolist(), m.location.tolist(), strict=True):
        result.setdefault(instance, []).append(location)
    return [sorted(result[i]) for i in sorted(result)]


def test_instances__are_counted_per_communicator(archive, enhance):
    mpi = archive.mpi(4)
    reverse, odd, own = archive.comm("reversed", [3, 2, 1, 0]), archive.comm("odd", [3, 1]), archive.comm_self()
    for i, rank in enumerate(mpi.ranks):
        rank.collective(10, 20, mpi.world, "barrier")
        if i % 2:
            rank.collective(21, 30 - i, odd, "bcast", 0)
        rank.collective(40, 50, own, "barrier").collective(60, 70, reverse, "bcast", 1)
        rank.collective(80, 90, mpi.world, "barrier")
    model = enhance(archive)
    assert members(model) == [[0, 1, 2, 3], [1, 3], [0], [1], [2], [3], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert model.collectives.size.tolist() == [4, 2, 1, 1, 1, 1, 4, 4]
    m = model.collective_members
    # rank 0 of `odd` is process 3, rank 1 of `reversed` is process 2
    assert m.location[m.is_root].tolist() == [2, 3]
    assert m.rank[m.op == 1].tolist() == [3, 1, 2, 1, 0, 0]
    assert not any(model.collectives.counts.values())


def test_begin__is_the_begin_event_or_the_enter_of_the_call(archive, enhance):
    mpi = archive.mpi(2)
    end = {"op": 0, "communicator": mpi.world, "root": None, "sent": 0, "received": 0}
    a, b = mpi.ranks
    a.enter(10, "MPI_Barrier").begin_collective(12).record(20, "MpiCollectiveEnd", **end).leave(21)
    # a begin without end in another call does not belong to this operation
    b.enter(1, "MPI_Bcast").begin_collective(2).leave(3, "MPI_Bcast")
    b.enter(11, "MPI_Barrier").record(20, "MpiCollectiveEnd", **end).leave(22, "MPI_Barrier")
    model = enhance(archive)
    m = model.collective_members
    assert m.begin_time.tolist() == [12, 11]
    assert m.end_time.tolist() == [20, 20]
    assert (m.enter_time.tolist(), m.exit_time.tolist()) == ([10, 11], [21, 22])
    assert model.collectives.latest_begin_time.tolist() == [12]
    assert model.collectives.earliest_end_time.tolist() == [20]


def test_members__that_lack_are_counted(archive, enhance):
    mpi = archive.mpi(3)
    for rank in mpi.ranks:
        rank.collective(10, 20, mpi.world, "barrier")
    for rank in mpi.ranks[:2]:
        rank.collective(30, 40, mpi.world, "barrier")
    model = enhance(archive)
    assert members(model) == [[0, 1, 2], [0, 1]]
    assert model.collectives.counts["collective operations that lack participants"] == 1


def test_members__that_disagree_are_counted(archive, enhance):
    mpi = archive.mpi(2)
    mpi.ranks[0].collective(10, 20, mpi.world, "barrier")
    mpi.ranks[1].collective(10, 20, mpi.world, "allreduce", None, 8, 8)
    counts = enhance(archive).collectives.counts
    assert counts["collective operations whose participants disagree"] == 1


def test_members__of_an_inter_communicator_are_both_groups(archive, enhance):
    mpi = archive.mpi(3)
    inter = archive.inter_comm([0], [1, 2], mpi.world)
    for rank in mpi.ranks:
        rank.collective(10, 20, inter, "barrier")
    for rank in mpi.ranks[1:]:
        rank.collective(30, 40, inter, "barrier")
    model = enhance(archive)
    assert members(model) == [[0, 1, 2], [1, 2]]
    assert model.collectives.size.tolist() == [3, 3]
    assert model.collectives.counts["collective operations that lack participants"] == 1


def test_threads__of_a_process_take_part_in_order_of_time(archive, enhance):
    mpi = archive.mpi(2, 2)
    (a, a1), (b, _) = mpi.threads
    a1.collective(10, 20, mpi.world, "barrier")
    a.collective(30, 40, mpi.world, "allreduce", None, 8, 8)
    b.collective(11, 20, mpi.world, "barrier").collective(31, 40, mpi.world, "allreduce", None, 8, 8)
    model = enhance(archive)
    assert members(model) == [[1, 2], [0, 2]]
    assert model.collectives.counts["collective operations whose participants disagree"] == 0


@pytest.mark.parametrize(("init", "finalize"), [("MPI_Init", "MPI_Finalize"), ("mpi_init_thread_", "mpi_finalize_")])
def test_startups__are_the_calls_of_init_and_finalize(archive, enhance, init, finalize):
    for name in (init, finalize):
        archive.region(name, "function", "mpi")
    mpi = archive.mpi(2)
    for i, rank in enumerate(mpi.ranks):
        rank.call(10 + i, 20 + 2 * i, init).call(30 + i, 40 + i, finalize)
    s = enhance(archive).startups
    assert s.is_init.tolist() == [True, False, True, False]
    assert s.latest_enter_time.tolist() == [11, 31, 11, 31]
    assert s.earliest_exit_time.tolist() == [20, 40, 20, 40]


def test_collectives__of_an_empty_trace_are_none(archive, enhance):
    archive.mpi(2)
    model = enhance(archive)
    assert len(model.collectives) == len(model.collective_members) == len(model.startups) == 0
