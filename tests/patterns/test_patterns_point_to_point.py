"""Late Sender, Late Receiver and wrong order, counts and volumes: times in ticks, worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.orders import overtaken
from support.severities import cells

from tracecols.patterns.matches import Matches
from tracecols.patterns.point_to_point import overtaking
from tracecols.search.cube import analyze_model
from tracecols.testing import Program


def recv(rank, begin, at, end, peer, comm, tag=0, length=8, call="MPI_Recv"):
    rank.enter(begin, call).receive(at, peer, comm, tag, length).leave(end, call)


def send(rank, begin, end, peer, comm, tag=0, length=8, call="MPI_Send"):
    rank.enter(begin, call).send(begin + 1, peer, comm, tag, length).leave(end, call)


def irecv(rank, begin, request):
    rank.enter(begin, "MPI_Irecv").post_receive(begin + 1, request).leave(begin + 2, "MPI_Irecv")


def isend(rank, begin, peer, comm, request, tag=0, length=8):
    rank.enter(begin, "MPI_Isend").start_send(begin + 1, peer, comm, request, tag, length).leave(begin + 2, "MPI_Isend")


@pytest.mark.parametrize(
    ("enter", "expected"),
    [
        (20, {("MPI_Recv", 1): 10}),  # the receive waits from 10 until the send begins at 20
        (10, {}),  # both begin at the same time
        (11, {("MPI_Recv", 1): 1}),
        (5, {}),
        (35, {("MPI_Recv", 1): 25}),
        (39, {("MPI_Recv", 1): 29}),
        # the clocks differ so much that the send begins after the receive has ended: the wait ends with the call
        (40, {("MPI_Recv", 1): 30}),
        (50, {("MPI_Recv", 1): 30}),
    ],
)
def test_late_sender__waits_until_the_send_begins(archive, analyze, enter, expected):
    mpi = archive.mpi(2)
    send(mpi.ranks[0], enter, 60, 1, mpi.world)
    recv(mpi.ranks[1], 10, 38, 40, 0, mpi.world)
    cube = analyze(archive)
    assert cells(cube, "mpi_latesender") == expected
    assert cells(cube, "mpi_cls_count") == dict.fromkeys(expected, 1)
    assert cells(cube, "mpi_sls_count") == {}


def test_late_sender__of_a_posted_receive_is_charged_to_the_wait(archive, analyze):
    mpi = archive.mpi(2)
    isend(mpi.ranks[0], 30, 1, mpi.world, 0)
    irecv(mpi.ranks[1], 5, 0)
    # the wait begins at 20, the send at 30
    mpi.ranks[1].enter(20, "MPI_Wait").complete_receive(38, 0, mpi.world, 0, 0, 8).leave(40, "MPI_Wait")
    assert cells(analyze(archive), "mpi_latesender") == {("MPI_Wait", 1): 10}


def test_late_sender__of_several_messages_in_one_call(archive, analyze):
    expected = {
        # each message counts: a valid program has one per call
        ("MPI_Waitany", 2): 25 + 15,
        # only the largest wait counts
        **{(call, 2): 25 for call in ("MPI_Waitall", "MPI_Waitsome", "mpi_waitall_")},
    }
    mpi = archive.mpi(3)
    # a test does not wait
    for k, call in enumerate(
        [name for name, _ in expected] + ["MPI_Test", "MPI_Testall", "MPI_Testany", "mpi_testsome_"]
    ):
        archive.region(call, "point2point", "mpi")
        t = 100 * k
        # the wait begins at 20, the sends at 45 and 35
        send(mpi.ranks[0], t + 45, t + 50, 2, mpi.world)
        send(mpi.ranks[1], t + 35, t + 50, 2, mpi.world)
        irecv(mpi.ranks[2], t + 5, 0)
        irecv(mpi.ranks[2], t + 10, 1)
        mpi.ranks[2].enter(t + 20, call).complete_receive(t + 56, 0, mpi.world, 0)
        mpi.ranks[2].complete_receive(t + 57, 1, mpi.world, 1).leave(t + 60)
    assert cells(analyze(archive), "mpi_latesender") == expected


def test_late_sender__two_calls_that_wait_for_several_wait_once_each(archive, analyze):
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 30, 32, 1, mpi.world)
    send(mpi.ranks[0], 70, 72, 1, mpi.world)
    for request in (0, 1):
        irecv(mpi.ranks[1], 5 + 3 * request, request)
    for t, request in ((20, 0), (60, 1)):
        mpi.ranks[1].enter(t, "MPI_Waitall").complete_receive(t + 15, 0, mpi.world, request).leave(t + 16)
    assert cells(analyze(archive), "mpi_latesender") == {("MPI_Waitall", 1): 10 + 10}


def test_late_sender__of_sendrecv_and_probed_messages(archive, analyze):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(10, "MPI_Sendrecv").send(11, 1, mpi.world).receive(28, 1, mpi.world).leave(30, "MPI_Sendrecv")
    b.enter(16, "MPI_Sendrecv").send(17, 0, mpi.world).receive(18, 0, mpi.world).leave(19, "MPI_Sendrecv")
    # the time in the probe, 40 to 50, is not a wait state; the message is available when it is received
    b.enter(40, "MPI_Mprobe").record(55, "MpiProbe", peer=0, communicator=mpi.world, tag=5, message=1).leave(56)
    b.enter(57, "MPI_Mrecv").record(58, "MpiMrecv", message=1, length=0).leave(59, "MPI_Mrecv")
    send(a, 50, 52, 1, mpi.world, 5)
    assert cells(analyze(archive), "mpi_latesender") == {("MPI_Sendrecv", 0): 6}


def test_late_sender__does_not_count_outside_mpi(archive, analyze):
    # a receive recorded inside a user function, as some recorders do it
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 20, 22, 1, mpi.world)
    recv(mpi.ranks[1], 10, 30, 31, 0, mpi.world, call="my_receive")
    assert cells(analyze(archive), "mpi_latesender") == {}


def test_wrong_order__same_source(archive, analyze):
    # sent: tag 1 at 21, tag 2 at 31; received: tag 2 first, so that it waits for its late sender while tag 1 is there
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 20, 22, 1, mpi.world, 1)
    send(mpi.ranks[0], 30, 32, 1, mpi.world, 2)
    recv(mpi.ranks[1], 10, 34, 35, 0, mpi.world, 2)
    recv(mpi.ranks[1], 40, 41, 42, 0, mpi.world, 1)
    cube = analyze(archive)
    for name in ("mpi_latesender", "mpi_latesender_wo", "mpi_lswo_same"):
        assert cells(cube, name) == {("MPI_Recv", 1): 20}
    assert cells(cube, "mpi_lswo_different") == {}
    assert cells(cube, "mpi_clswo_count") == {("MPI_Recv", 1): 1}


@pytest.mark.parametrize(
    ("sender", "rank", "is_swapped", "is_same", "is_same_rank"),
    [
        (1, 1, False, False, False),
        # process 1 is rank 0 of `swapped`: another process, though the rank is the same
        (1, 0, True, False, True),
        # both messages are sent by process 0, which is rank 1 of `swapped`
        (0, 1, True, True, False),
    ],
)
def test_wrong_order__sources_are_processes_whatever_the_communicator(
    archive, analyze, sender, rank, is_swapped, is_same, is_same_rank
):
    mpi = archive.mpi(3)
    comm = archive.comm("swapped", [1, 0, 2]) if is_swapped else mpi.world
    send(mpi.ranks[0], 20, 22, 2, mpi.world)
    send(mpi.ranks[sender], 30, 32, 2, comm)
    recv(mpi.ranks[2], 10, 34, 35, rank, comm)
    recv(mpi.ranks[2], 40, 41, 42, 0, mpi.world)
    # the reference compares only the ranks
    for conventions, same in (("exact", is_same), ("scalasca", is_same_rank)):
        cube = analyze(archive, conventions)
        found = {
            "mpi_lswo_same": same,
            "mpi_lswo_different": not same,
            "mpi_latesender": True,
            "mpi_latesender_wo": True,
        }
        assert {name: cells(cube, name) for name in found} == {
            name: {("MPI_Recv", 2): 20} if is_there else {} for name, is_there in found.items()
        }


def test_wrong_order__needs_a_late_sender_and_an_earlier_send(archive, analyze):
    mpi = archive.mpi(2)
    # received in the order of sending: late, but no other message could have come first
    send(mpi.ranks[0], 20, 22, 1, mpi.world, 1)
    send(mpi.ranks[0], 30, 32, 1, mpi.world, 2)
    recv(mpi.ranks[1], 10, 24, 25, 0, mpi.world, 1)
    recv(mpi.ranks[1], 26, 34, 35, 0, mpi.world, 2)
    # overtaken, but not waited for
    send(mpi.ranks[0], 40, 42, 1, mpi.world, 1)
    send(mpi.ranks[0], 44, 46, 1, mpi.world, 2)
    recv(mpi.ranks[1], 50, 51, 52, 0, mpi.world, 2)
    recv(mpi.ranks[1], 53, 54, 55, 0, mpi.world, 1)
    cube = analyze(archive)
    assert cells(cube, "mpi_latesender") == {("MPI_Recv", 1): 10 + 4}
    assert cells(cube, "mpi_latesender_wo") == {}


def test_wrong_order__at_the_same_send_time_is_none(archive, analyze):
    mpi = archive.mpi(3)
    for rank in (0, 1):
        send(mpi.ranks[rank], 20, 22, 2, mpi.world)
    recv(mpi.ranks[2], 10, 34, 35, 0, mpi.world)
    recv(mpi.ranks[2], 40, 41, 42, 1, mpi.world)
    cube = analyze(archive)
    assert cells(cube, "mpi_latesender") == {("MPI_Recv", 2): 10}
    assert cells(cube, "mpi_latesender_wo") == {}


@pytest.mark.parametrize(("later", "expected"), [(False, {}), (True, {("MPI_Waitall", 2): 25})])
def test_wrong_order__in_one_call_there_is_no_order(archive, analyze, later, expected):
    # rank 1 sends before the awaited message; if received within the same call, that is not in wrong order
    mpi = archive.mpi(3)
    send(mpi.ranks[0], 45, 50, 2, mpi.world)
    send(mpi.ranks[1], 35, 50, 2, mpi.world)
    irecv(mpi.ranks[2], 5, 0)
    irecv(mpi.ranks[2], 10, 1)
    mpi.ranks[2].enter(20, "MPI_Waitall").complete_receive(56, 0, mpi.world, 0)
    if later:
        mpi.ranks[2].leave(60, "MPI_Waitall").enter(61, "MPI_Waitall")
    mpi.ranks[2].complete_receive(62, 1, mpi.world, 1).leave(63, "MPI_Waitall")
    cube = analyze(archive)
    assert cells(cube, "mpi_latesender") == {("MPI_Waitall", 2): 25}
    assert cells(cube, "mpi_latesender_wo") == expected


def test_wrong_order__looks_further_than_the_last_hundred(archive, analyze):
    # The reference remembers 100 late senders per location; here 150 are all overtaken by the message received last,
    # tag 0, which was sent first. Every receive waits one tick: from 10 t to 10 t + 1.
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 1, 3, 1, mpi.world, 0)
    for t in range(1, 151):
        send(mpi.ranks[0], 10 * t + 1, 10 * t + 3, 1, mpi.world, t)
        recv(mpi.ranks[1], 10 * t, 10 * t + 4, 10 * t + 5, 0, mpi.world, t)
    recv(mpi.ranks[1], 1600, 1601, 1602, 0, mpi.world, 0)
    assert cells(analyze(archive), "mpi_latesender_wo") == {("MPI_Recv", 1): 150}


class TwoRegions:
    """The parts of a model that the patterns need: call path 0 is MPI_Recv, 1 is MPI_Waitall."""

    def __init__(self):
        self.lower = np.array(["mpi_recv", "mpi_waitall"], object)
        self.paradigm = np.array(["mpi", "mpi"], object)
        self.facts = self.regions = self
        self.memo = {}
        self.call_paths = SimpleNamespace(region=np.array([0, 1], np.int32))

    def __len__(self):
        return 2


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.lists(  # locations, calls, messages that the call receives: when they were sent
        st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 6), min_size=1, max_size=4)), max_size=5), max_size=3
    ),
    st.booleans(),
)
def test_wrong_order__is_that_of_the_definition(locations, last_call_never_ends):
    names = ("recv", "send_time", "recv_location", "recv_call_path", "recv_exit")
    columns = {name: [] for name in names}
    row = 0
    for location, calls in enumerate(locations):
        for several, sent in calls:
            received = sent if several else sent[:1]
            for i, time in enumerate(received):
                for name, value in zip(
                    names, (row + 1 + i, time, location, int(several), row + 1 + len(received)), strict=True
                ):
                    columns[name].append(value)
            row += len(received) + 2
    ends = list(columns["recv_exit"])
    if last_call_never_ends and ends:
        columns["recv_exit"] = [-1 if end == ends[-1] else end for end in ends]
        ends = [10**6 if end == ends[-1] else end for end in ends]

    class Messages(SimpleNamespace):
        def __len__(self):
            return len(ends)

    m = Messages(**{name: np.array(values, np.int64) for name, values in columns.items()})
    rows = np.arange(len(ends))
    found = overtaking(TwoRegions(), m, Matches(rows, rows, rows.astype(np.int32), rows.astype(np.int32)))
    several = columns["recv_call_path"]
    expected = [
        overtaken(columns["send_time"], columns["recv_location"], columns["recv"], i, ends[i] if several[i] else None)
        for i in rows
    ]
    assert (found >= 0).tolist() == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("MPI_Send", {("MPI_Send", 0): 20}),
        ("MPI_Ssend", {("MPI_Ssend", 0): 20}),
        ("mpi_ssend_", {("mpi_ssend_", 0): 20}),
        ("MPI_Send_c", {("MPI_Send_c", 0): 20}),
        ("MPI_Bsend", {}),
        ("MPI_Rsend", {}),
        ("MPI_Sendrecv", {}),
    ],
)
def test_late_receiver__of_blocking_sends(archive, analyze, call, expected):
    # the send begins at 10, the receive at 30
    archive.region(call, "point2point", "mpi")
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 10, 40, 1, mpi.world, call=call)
    recv(mpi.ranks[1], 30, 38, 39, 0, mpi.world)
    cube = analyze(archive)
    assert cells(cube, "mpi_latereceiver") == expected
    assert cells(cube, "mpi_clr_count") == dict.fromkeys(expected, 1)


@pytest.mark.parametrize(
    ("leave", "enter", "expected"),
    [
        (29, 30, {}),
        (30, 30, {}),
        (31, 30, {("MPI_Send", 0): 20}),
        (40, 9, {}),
        (40, 10, {}),
        (40, 11, {("MPI_Send", 0): 1}),
    ],
)
def test_late_receiver__not_if_the_send_has_returned_or_the_receive_was_there(archive, analyze, leave, enter, expected):
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 10, leave, 1, mpi.world)
    recv(mpi.ranks[1], enter, 38, 39, 0, mpi.world)
    assert cells(analyze(archive), "mpi_latereceiver") == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("MPI_Wait", {("MPI_Wait", 0): 10}),
        ("MPI_Waitany", {("MPI_Waitany", 0): 10}),
        ("MPI_Waitall", {("MPI_Waitall", 0): 10}),
        ("MPI_Waitsome", {("MPI_Waitsome", 0): 10}),
        ("MPI_Test", {}),
        ("MPI_Testall", {}),
    ],
)
def test_late_receiver__of_a_non_blocking_send_is_charged_to_its_completion(archive, enhance, call, expected):
    # the wait begins at 20; the receive is posted at 30 by an Irecv, and completed later
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    isend(a, 10, 1, mpi.world, 0)
    a.enter(20, call).complete_send(39, 0).leave(40, call)
    irecv(b, 30, 0)
    b.enter(35, "MPI_Wait").complete_receive(38, 0, mpi.world, 0).leave(39, "MPI_Wait")
    cube = analyze_model(enhance(archive))
    assert cells(cube, "mpi_latereceiver") == expected
    # counted at the waiting call, though its parent is counted where the send starts, as in the reference
    assert cells(cube, "mpi_clr_count") == dict.fromkeys(expected, 1)
    assert cells(cube, "comms_send") == {("MPI_Isend", 0): 1}


def waitall_of_two_sends(mpi, *, late_sender):
    """Let rank 0 wait from 20 for two sends, received from 30 and 45 on, and for a message sent at 25, or before at
    15."""
    a, b, c = mpi.ranks
    isend(a, 3, 1, mpi.world, 0)
    isend(a, 6, 2, mpi.world, 1)
    irecv(a, 9, 2)
    a.enter(20, "MPI_Waitall").complete_send(47, 0).complete_send(48, 1).complete_receive(49, 1, mpi.world, 2).leave(50)
    send(b, 25 if late_sender else 15, 27, 0, mpi.world)
    recv(b, 30, 38, 39, 0, mpi.world)
    recv(c, 45, 46, 47, 0, mpi.world)


@pytest.mark.parametrize(("late_sender", "expected"), [(False, {("MPI_Waitall", 0): 25}), (True, {})])
def test_late_receiver__of_several_the_largest_unless_a_sender_is_late(archive, enhance, late_sender, expected):
    waitall_of_two_sends(archive.mpi(3), late_sender=late_sender)
    cube = analyze_model(enhance(archive))
    assert cells(cube, "mpi_latereceiver") == expected
    assert cells(cube, "mpi_latesender") == ({("MPI_Waitall", 0): 5} if late_sender else {})


@pytest.mark.parametrize("lengths", [(8, 0), (0, 8)])
def test_late_receiver__of_equals_the_last_send_counts(archive, enhance, lengths):
    # both receives are posted at 30; the reference keeps the last send, with or without payload

    mpi = archive.mpi(3)
    a = mpi.ranks[0]
    for i, length in enumerate(lengths):
        isend(a, 3 + 3 * i, 1 + i, mpi.world, i, length=length)
        recv(mpi.ranks[1 + i], 30, 38, 39, 0, mpi.world, length=length)
    a.enter(20, "MPI_Waitall").complete_send(47, 0).complete_send(48, 1).leave(50, "MPI_Waitall")
    cube = analyze_model(enhance(archive))
    assert cells(cube, "mpi_latereceiver") == {("MPI_Waitall", 0): 10}
    counted, other = ("mpi_clr_count", "mpi_slr_count") if lengths[1] else ("mpi_slr_count", "mpi_clr_count")
    assert cells(cube, counted) == {("MPI_Waitall", 0): 1}
    assert cells(cube, other) == {}


def test_late_receiver__of_a_send_that_never_completes_is_none(archive, analyze):
    mpi = archive.mpi(2)
    isend(mpi.ranks[0], 10, 1, mpi.world, 0)
    recv(mpi.ranks[1], 30, 38, 39, 0, mpi.world)
    assert cells(analyze(archive), "mpi_latereceiver") == {}


def test_late_receiver_wrong_order__another_message_of_the_sender_is_still_underway(archive, analyze):
    # rank 0 sends to 1 at 11 (Isend) and to 2 at 15, where it waits until 30; the first message is received at 41, the
    # second at 38
    mpi = archive.mpi(3)
    isend(mpi.ranks[0], 10, 1, mpi.world, 0)
    send(mpi.ranks[0], 14, 40, 2, mpi.world)
    recv(mpi.ranks[1], 39, 41, 42, 0, mpi.world)
    recv(mpi.ranks[2], 30, 38, 39, 0, mpi.world)
    cube = analyze(archive)
    assert cells(cube, "mpi_latereceiver") == {("MPI_Send", 0): 16}
    assert cells(cube, "mpi_latereceiver_wo") == {("MPI_Send", 0): 16}


@pytest.mark.parametrize("first", ["other sender", "received before"])
def test_latereceiver_wrong_order__not_if_the_other_message_is(archive, analyze, first):
    mpi = archive.mpi(4)
    isend(mpi.ranks[3 if first == "other sender" else 0], 10, 1, mpi.world, 0)
    send(mpi.ranks[0], 14, 40, 2, mpi.world)
    received = 41 if first == "other sender" else 37
    recv(mpi.ranks[1], received - 2, received, received + 1, 3 if first == "other sender" else 0, mpi.world)
    recv(mpi.ranks[2], 30, 38, 39, 0, mpi.world)
    cube = analyze(archive)
    assert cells(cube, "mpi_latereceiver") == {("MPI_Send", 0): 16}
    assert cells(cube, "mpi_latereceiver_wo") == {}


def test_counts__messages_without_payload_are_synchronisations(archive, analyze):
    mpi = archive.mpi(2)
    for i, length in enumerate((0, 8, 0)):
        send(mpi.ranks[0], 20 + 20 * i, 22 + 20 * i, 1, mpi.world, 0, length)
        recv(mpi.ranks[1], 10 + 20 * i, 24 + 20 * i, 25 + 20 * i, 0, mpi.world, 0, length)
    cube = analyze(archive)
    for count, n in (("comms", 1), ("syncs", 2)):
        assert cells(cube, f"{count}_send") == {("MPI_Send", 0): n}
        assert cells(cube, f"{count}_recv") == {("MPI_Recv", 1): n}
        assert cells(cube, f"mpi_{count[0]}ls_count") == {("MPI_Recv", 1): n}
    assert cells(cube, "bytes_sent") == {("MPI_Send", 0): 8}
    assert cells(cube, "bytes_rcvd") == {("MPI_Recv", 1): 8}
    assert cube.total("bytes") == 16


def test_counts__wrong_order_and_late_receivers_without_payload(archive, analyze):
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 20, 22, 1, mpi.world, 1, 0)
    send(mpi.ranks[0], 30, 32, 1, mpi.world, 2, 0)
    send(mpi.ranks[0], 40, 60, 1, mpi.world, 3, 0)
    recv(mpi.ranks[1], 10, 34, 35, 0, mpi.world, 2, 0)
    recv(mpi.ranks[1], 40, 41, 42, 0, mpi.world, 1, 0)
    recv(mpi.ranks[1], 50, 51, 52, 0, mpi.world, 3, 0)
    cube = analyze(archive)
    assert cells(cube, "mpi_slswo_count") == {("MPI_Recv", 1): 1}
    assert cells(cube, "mpi_slr_count") == {("MPI_Send", 0): 1}
    for name in ("mpi_clswo_count", "mpi_clr_count", "comms", "bytes"):
        assert cells(cube, name) == {}


@pytest.mark.parametrize("part", [1, 1 << 18])
def test_counts__sends_and_receives_count_without_their_other_side(part, archive, analyze, monkeypatch):
    """Otherwise a trace would receive less than it sends, and a piece less than its share."""
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", part)
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 20, 22, 1, mpi.world, 1, 8)
    recv(mpi.ranks[1], 10, 34, 35, 0, mpi.world, 2, 16)
    recv(mpi.ranks[1], 40, 44, 45, 0, mpi.world, 3, 0)
    cube = analyze(archive, "scalasca")
    assert cells(cube, "comms_send") == {("MPI_Send", 0): 1}
    assert cells(cube, "bytes_sent") == {("MPI_Send", 0): 8}
    assert cells(cube, "comms_recv") == cells(cube, "syncs_recv") == {("MPI_Recv", 1): 1}
    assert cells(cube, "bytes_rcvd") == {("MPI_Recv", 1): 16}
    assert cube.facts["counts"] == {"sends without receive": 1, "receives without send": 2}
    assert cube.total("mpi_latesender") == cube.total("mpi_cls_count") == 0


def test_bytes__received_are_those_that_were_sent(archive, analyze):
    # in some recordings, a receive has the size of its buffer
    mpi = archive.mpi(2)
    send(mpi.ranks[0], 20, 22, 1, mpi.world, 1, 8)
    recv(mpi.ranks[1], 10, 34, 35, 0, mpi.world, 1, 1024)
    assert cells(analyze(archive), "bytes_rcvd") == {("MPI_Recv", 1): 8}


def test_late_receiver__is_a_wait_of_the_thread_that_completes_the_send():
    """The analysis used to be refused: the wait exceeded the time of the thread that starts the send."""
    program = Program(processes=2, threads=2)
    starts, completes, receives, posts = program.locations
    starts.enter(0, "MPI_Isend").start_send(1, to=1, request=7).leave(2)
    completes.enter(10, "MPI_Wait").complete_send(45, request=7).leave(46)
    posts.enter(40, "MPI_Irecv").post_receive(41, request=3).leave(42)
    receives.enter(50, "MPI_Wait").complete_receive(51, source=0, request=3).leave(52)
    with program.trace() as trace:
        cube = trace.analyze()
        waits = trace.frame("waits", raw=True)
    cells = cube.cells["mpi_latereceiver"]
    assert (cells.location.tolist(), cells.value.tolist()) == ([1], [30])
    assert list(zip(waits.location, waits.cause_location, strict=True)) == [(1, 3)]
    # the thread that posts is charged
    costs = cube.cells["delay_latereceiver_aggregate"]
    assert (costs.location.tolist(), costs.value.tolist()) == ([3], [30])
