"""Messages: requests, posting order, threads, probes, communicators, and unmatched sends and receives."""

import numpy as np
import pytest

from tracecols.enhance.mpi.waits import largest_per_call
from tracecols.testing import Program


def times(m, *columns):
    """Return columns of the message table as a tuple per message, in order of the RECV."""
    return list(zip(*(m[c].tolist() for c in columns), strict=True))


def test_blocking__send_and_receive_are_their_own_completion(archive, enhance):
    mpi = archive.mpi(2)
    mpi.ranks[0].enter(10, "MPI_Send").send(11, 1, mpi.world, 7, 64).leave(12, "MPI_Send")
    mpi.ranks[1].enter(5, "MPI_Recv").receive(14, 0, mpi.world, 7, 64).leave(15, "MPI_Recv")
    m = enhance(archive).messages
    assert times(m, "send", "recv", "send_location", "recv_location", "source", "destination", "tag", "length") == [
        (1, 4, 0, 1, 0, 1, 7, 64)
    ]
    for role in ("send", "send_done"):
        assert times(m, *(f"{role}_{c}" for c in ("enter", "exit", "enter_time", "exit_time"))) == [(0, 2, 10, 12)]
    for role in ("recv_post", "recv"):
        assert times(m, *(f"{role}_{c}" for c in ("enter", "exit", "enter_time", "exit_time"))) == [(3, 5, 5, 15)]
    assert not any(m.counts.values())


def test_requests__an_identifier_is_used_again(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for t in (10, 30):
        a.enter(t, "MPI_Isend").start_send(t + 1, 1, mpi.world, 0).leave(t + 2, "MPI_Isend")
        a.enter(t + 3, "MPI_Wait").complete_send(t + 4, 0).leave(t + 5, "MPI_Wait")
        b.enter(t, "MPI_Irecv").post_receive(t + 1, 0).leave(t + 2, "MPI_Irecv")
        b.enter(t + 3, "MPI_Wait").complete_receive(t + 7, 0, mpi.world, 0).leave(t + 8, "MPI_Wait")
    m = enhance(archive).messages
    assert times(m, "send_time", "send_done_enter_time", "recv_post_enter_time", "recv_enter_time") == [
        (11, 13, 10, 13),
        (31, 33, 30, 33),
    ]


def test_requests__receives_take_messages_in_the_order_they_were_posted(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for t in (10, 20):
        a.enter(t, "MPI_Send").send(t + 1, 1, mpi.world).leave(t + 2, "MPI_Send")
    b.enter(1, "MPI_Irecv").post_receive(2, 5).leave(3, "MPI_Irecv")
    b.enter(4, "MPI_Irecv").post_receive(5, 6).leave(6, "MPI_Irecv")
    # request 6 was posted second: it gets the second message, although it completes first
    b.enter(30, "MPI_Wait").complete_receive(31, 0, mpi.world, 6).leave(32, "MPI_Wait")
    b.enter(40, "MPI_Wait").complete_receive(41, 0, mpi.world, 5).leave(42, "MPI_Wait")
    m = enhance(archive).messages
    assert times(m, "recv_time", "send_time", "recv_post_enter_time") == [(31, 21, 4), (41, 11, 1)]


def test_requests__a_receive_that_never_completes_is_no_receive(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(10, "MPI_Send").send(11, 1, mpi.world, 1).leave(12, "MPI_Send")
    b.enter(1, "MPI_Irecv").post_receive(2, 5).leave(3, "MPI_Irecv")
    b.enter(20, "MPI_Recv").receive(21, 0, mpi.world, 1).leave(22, "MPI_Recv")
    m = enhance(archive).messages
    assert times(m, "send_time", "recv_time", "recv_post_enter_time") == [(11, 21, 20)]
    assert m.counts["receives without send"] == 0


def test_requests__a_send_that_never_completes_has_no_completing_call(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(10, "MPI_Isend").start_send(11, 1, mpi.world, 3).leave(12, "MPI_Isend")
    # the same request is used for another send, whose completion must not be taken for that of the first
    a.enter(13, "MPI_Isend").start_send(14, 1, mpi.world, 3).leave(15, "MPI_Isend")
    a.enter(16, "MPI_Wait").complete_send(17, 3).leave(18, "MPI_Wait")
    for t in (20, 30):
        b.enter(t, "MPI_Recv").receive(t + 1, 0, mpi.world).leave(t + 2, "MPI_Recv")
    m = enhance(archive).messages
    assert times(m, "send_time", "send_done_enter", "send_done_enter_time", "send_done_call_path") == [
        (11, -1, -1, -1),
        (14, 6, 16, m.send_done_call_path[1]),
    ]


def test_requests__cancelled_operations_take_no_part(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(10, "MPI_Isend").start_send(11, 1, mpi.world, 3).leave(12, "MPI_Isend")
    a.enter(13, "MPI_Wait").record(14, "MpiRequestCancelled", request=3).leave(15, "MPI_Wait")
    a.enter(16, "MPI_Isend").start_send(17, 1, mpi.world, 3).leave(18, "MPI_Isend")
    a.enter(19, "MPI_Wait").complete_send(20, 3).leave(21, "MPI_Wait")
    b.enter(1, "MPI_Irecv").post_receive(2, 5).leave(3, "MPI_Irecv")
    b.enter(4, "MPI_Wait").record(5, "MpiRequestCancelled", request=5).leave(6, "MPI_Wait")
    b.enter(30, "MPI_Recv").receive(31, 0, mpi.world).leave(32, "MPI_Recv")
    model = enhance(archive)
    assert times(model.messages, "send_time", "recv_time") == [(17, 31)]
    assert model.messages.counts["cancelled requests"] == 2
    assert model.messages.counts["sends without receive"] == 0
    assert model.sends.is_cancelled.tolist() == [True, False]


def test_requests__of_threads_that_number_their_own():
    program = Program(2, 2)
    first, second, *senders = program.locations
    for thread in program.locations:
        thread.enter(0, "main")
    first.enter(2, "MPI_Irecv").post_receive(3, 1).leave(4)
    second.enter(5, "MPI_Irecv").post_receive(6, 1).leave(7)
    for tag, (thread, sender) in enumerate(zip((first, second), senders, strict=True)):
        sent = 30 + 10 * tag
        thread.enter(8 + tag, "MPI_Wait").complete_receive(sent + 1, 1, tag=tag, request=1).leave(sent + 2)
        sender.enter(sent, "MPI_Send").send(sent, 0, tag=tag).leave(sent + 1)
    with program.trace() as trace:
        m = trace.frame("messages", raw=True)
        assert times(m, "tag", "recv_location", "recv_post_enter_time", "recv_enter_time") == [
            (0, 0, 2, 8),
            (1, 1, 5, 9),
        ]


def test_requests__tests_without_success_change_nothing(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(10, "MPI_Send").send(11, 1, mpi.world).leave(12, "MPI_Send")
    b.enter(1, "MPI_Irecv").post_receive(2, 5).leave(3, "MPI_Irecv")
    b.enter(4, "MPI_Test").record(5, "MpiRequestTest", request=5).leave(6, "MPI_Test")
    b.enter(20, "MPI_Test").complete_receive(21, 0, mpi.world, 5).leave(22, "MPI_Test")
    assert times(enhance(archive).messages, "recv_post_enter_time", "recv_enter_time") == [(1, 20)]


def test_threads__share_the_requests_and_channels_of_their_process(archive, enhance):
    mpi = archive.mpi(2, 2)
    (a, a1), (b, b1) = mpi.threads
    # started by one thread, completed by another
    a.enter(10, "MPI_Isend").start_send(11, 1, mpi.world, 3).leave(12, "MPI_Isend")
    a1.enter(13, "MPI_Wait").complete_send(14, 3).leave(15, "MPI_Wait")
    a1.enter(16, "MPI_Send").send(17, 1, mpi.world).leave(18, "MPI_Send")
    # posted by one thread, completed by another; in between the second thread receives the second message
    b1.enter(1, "MPI_Irecv").post_receive(2, 3).leave(3, "MPI_Irecv")
    b1.enter(20, "MPI_Recv").receive(21, 0, mpi.world).leave(22, "MPI_Recv")
    b.enter(30, "MPI_Wait").complete_receive(31, 0, mpi.world, 3).leave(32, "MPI_Wait")
    m = enhance(archive).messages
    assert times(m, "recv_location", "send_location", "send_time", "send_done_enter_time", "recv_post_enter_time") == [
        (2, 0, 11, 13, 1),
        (3, 1, 17, 16, 20),
    ]


@pytest.mark.parametrize("blocking", [True, False])
def test_probes__know_the_envelope_of_what_is_received_later(archive, enhance, blocking):
    mpi = archive.mpi(3)
    a, b, c = mpi.ranks
    a.enter(10, "MPI_Send").send(11, 2, mpi.world, 1, 64).leave(12, "MPI_Send")
    b.enter(10, "MPI_Send").send(11, 2, mpi.world, 1, 8).leave(12, "MPI_Send")
    # message 9 is that of rank 1, message 4 that of rank 0; they are received the other way round
    for t, peer, message in ((20, 1, 9), (30, 0, 4)):
        c.enter(t, "MPI_Mprobe").record(t + 1, "MpiProbe", peer=peer, communicator=mpi.world, tag=1, message=message)
        c.leave(t + 2, "MPI_Mprobe")
    if blocking:
        for t, message in ((40, 4), (50, 9)):
            c.enter(t, "MPI_Mrecv").record(t + 1, "MpiMrecv", message=message, length=0).leave(t + 2, "MPI_Mrecv")
    else:
        for t, message in ((40, 4), (50, 9)):
            c.enter(t, "MPI_Imrecv").record(t + 1, "MpiImrecvRequest", message=message, request=message + 1)
            c.leave(t + 2, "MPI_Imrecv")
        c.enter(60, "MPI_Waitall")
        for t, request in ((61, 10), (62, 5)):
            c.record(t, "MpiImrecv", request=request, length=0)
        c.leave(63, "MPI_Waitall")
    m = enhance(archive).messages
    columns = "source", "length", "tag", "send_location", "recv_post_enter_time", "recv_enter_time"
    if blocking:
        assert times(m, *columns) == [(0, 64, 1, 0, 40, 40), (1, 8, 1, 1, 50, 50)]
    else:
        assert times(m, *columns) == [(1, 8, 1, 1, 50, 60), (0, 64, 1, 0, 40, 60)]


def test_sendrecv__is_one_call_for_both_sides(archive, enhance):
    mpi = archive.mpi(2)
    for i, rank in enumerate(mpi.ranks):
        rank.enter(10 + i, "MPI_Sendrecv").send(12, 1 - i, mpi.world).receive(14, 1 - i, mpi.world).leave(15)
    m = enhance(archive).messages
    assert times(m, "send_location", "recv_location", "send_enter_time", "recv_enter_time") == [
        (1, 0, 11, 10),
        (0, 1, 10, 11),
    ]


def test_communicators__ranks_are_those_of_the_communicator(archive, enhance):
    mpi = archive.mpi(4)
    reverse = archive.comm("reversed", [3, 2, 1, 0], mpi.world)
    odd = archive.comm("odd", [1, 3], mpi.world)
    own = archive.comm_self()
    t = 10

    def message(sender, receiver, comm, source, destination):
        nonlocal t
        mpi.ranks[sender].enter(t, "MPI_Send").send(t + 1, destination, comm).leave(t + 2, "MPI_Send")
        mpi.ranks[receiver].enter(t + 3, "MPI_Recv").receive(t + 4, source, comm).leave(t + 5, "MPI_Recv")
        t += 10

    message(0, 1, mpi.world, 0, 1)
    message(0, 1, reverse, 3, 2)
    message(1, 3, odd, 0, 1)
    message(3, 1, odd, 1, 0)
    message(2, 2, own, 0, 0)
    message(3, 3, own, 0, 0)
    m = enhance(archive).messages
    assert sorted(times(m, "send_time", "send_location", "recv_location")) == [
        (11, 0, 1),
        (21, 0, 1),
        (31, 1, 3),
        (41, 3, 1),
        (51, 2, 2),
        (61, 3, 3),
    ]
    assert not any(m.counts.values())


def test_communicators__ranks_of_an_inter_communicator_are_of_the_other_group(archive, enhance):
    mpi = archive.mpi(4)
    inter = archive.inter_comm([0, 1], [3, 2], mpi.world)
    # process 0 (rank 0 of the first group) to rank 1 of the second, process 2; and process 3 to rank 1 of the first
    mpi.ranks[0].enter(10, "MPI_Send").send(11, 1, inter).leave(12, "MPI_Send")
    mpi.ranks[2].enter(13, "MPI_Recv").receive(14, 0, inter).leave(15, "MPI_Recv")
    mpi.ranks[3].enter(20, "MPI_Send").send(21, 1, inter).leave(22, "MPI_Send")
    mpi.ranks[1].enter(23, "MPI_Recv").receive(24, 0, inter).leave(25, "MPI_Recv")
    m = enhance(archive).messages
    assert sorted(times(m, "send_location", "recv_location")) == [(0, 2), (3, 1)]


def test_unmatched__sends_and_receives_are_counted(archive, enhance):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for t, tag in ((10, 1), (20, 4), (30, 4)):
        a.enter(t, "MPI_Send").send(t + 1, 1, mpi.world, tag, 4).leave(t + 2, "MPI_Send")
    for t, tag, length in ((15, 1, 7), (18, 2, 9), (25, 3, 5)):
        b.enter(t, "MPI_Recv").receive(t + 1, 0, mpi.world, tag, length).leave(t + 2, "MPI_Recv")
    model = enhance(archive)
    assert times(model.messages, "tag") == [(1,)]
    assert model.messages.counts["sends without receive"] == 2
    assert model.messages.counts["receives without send"] == 2
    assert model.sends.tag.tolist() == [1, 4, 4]
    r = model.receives
    assert times(r, "tag", "is_matched", "source", "location", "recv_time") == [
        (1, True, 0, 1, 16),
        (2, False, 0, 1, 19),
        (3, False, 0, 1, 26),
    ]
    # the length is the sender's, or the recorded one if unmatched
    assert r.length.tolist() == [4, 9, 5]
    assert model.regions.name[model.call_paths.region[r.call_path]].tolist() == ["MPI_Recv"] * 3


def test_unmatched__a_message_received_before_it_was_sent_is_counted(archive, enhance):
    mpi = archive.mpi(2)
    mpi.ranks[0].enter(10, "MPI_Send").send(20, 1, mpi.world).leave(21, "MPI_Send")
    mpi.ranks[1].enter(5, "MPI_Recv").receive(19, 0, mpi.world).leave(25, "MPI_Recv")
    m = enhance(archive).messages
    assert len(m) == 1
    assert m.counts["messages received before they were sent"] == 1


def test_unmatched__a_peer_outside_the_communicator_matches_nothing(archive, enhance):
    mpi = archive.mpi(2)
    mpi.ranks[0].enter(10, "MPI_Send").send(11, 2, mpi.world).leave(12, "MPI_Send")
    mpi.ranks[1].enter(10, "MPI_Recv").receive(11, 2, mpi.world).leave(12, "MPI_Recv")
    m = enhance(archive).messages
    assert len(m) == 0
    assert (m.counts["sends without receive"], m.counts["receives without send"]) == (1, 1)


def test_messages__outside_any_region_have_no_call(archive, enhance):
    mpi = archive.mpi(2)
    mpi.ranks[0].send(11, 1, mpi.world)
    mpi.ranks[1].receive(14, 0, mpi.world)
    m = enhance(archive).messages
    assert times(m, "send_enter", "recv_enter", "recv_call_path") == [(-1, -1, -1)]


def test_largest_per_call__of_equals_the_first_or_the_last():
    generator = np.random.default_rng(3)
    call, severity = generator.integers(0, 40, 200), generator.integers(1, 4, 200)
    for last in (False, True):
        expected = []
        for one in set(call.tolist()):
            of_call = np.flatnonzero(call == one)
            largest = of_call[severity[of_call] == severity[of_call].max()]
            expected.append(int(largest[-1 if last else 0]))
        assert largest_per_call(call, severity, last).tolist() == sorted(expected)
    nothing = np.zeros(0, np.int64)
    assert largest_per_call(nothing, nothing).size == 0
