"""Calls that end when another process enters MPI, with times worked out by hand."""

import numpy as np
import pytest

from tracecols.findings.progress import with_progress
from tracecols.findings.scenarios import Scenarios
from tracecols.testing import Program


def begin(program):
    for rank in program.locations:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(5)


def finish(program, time):
    for rank in program.locations:
        rank.enter(time, "MPI_Finalize").leave(time + 1).leave(time + 1)


def waits_of(program):
    """The ticks of waits for processes outside of MPI by location and end, and by how many edges there are more."""
    with program.trace() as trace:
        replay = trace.replay
        graph, wait = with_progress(trace.model, replay.graph, replay.runtime(replay.nodes.time))
        nodes = graph.nodes
        assert (graph.sweep() == nodes.time).all()
        assert (Scenarios(replay).progress == wait).all()
        at = np.flatnonzero(wait)
        found = zip(nodes.location[at].tolist(), nodes.time[at].tolist(), wait[at].tolist(), strict=True)
        return list(found), len(graph.edges) - len(replay.graph.edges)


def sent_while_computing(receive, *, meanwhile=False, end=300):
    """Rank 0 sends without blocking at 10 and computes until 110; rank 1 receives from 20 on."""
    program = Program(2)
    begin(program)
    sender, receiver = program.locations
    sender.enter(10, "MPI_Isend").start_send(10, 1, request=1, length=9).leave(11)
    if meanwhile:
        sender.call(19, 109, "MPI_Probe")
    sender.enter(110, "MPI_Wait").complete_send(112, 1).leave(112)
    receiver.enter(20, "MPI_Recv").receive(receive, 0, length=9).leave(receive)
    finish(program, end)
    return program


@pytest.mark.parametrize(
    ("receive", "meanwhile", "expected"),
    [
        (111, False, ([(1, 111, 90)], 1)),
        # a fifth of 112 is less than 22
        (132, False, ([(1, 132, 90)], 1)),
        (133, False, ([], 0)),
        (109, False, ([], 0)),
        # inside of MPI messages move
        (111, True, ([], 0)),
    ],
)
def test_receive__waits_for_a_sender_that_computes(receive, meanwhile, expected):
    assert waits_of(sent_while_computing(receive, meanwhile=meanwhile)) == expected


def test_sendrecv__waits_for_the_receiver():
    """Rank 1 is late; rank 0 sends to it, and rank 2 receives its message, which is recorded as late."""
    program = Program(3)
    begin(program)
    for r, (rank, enter, leave) in enumerate(zip(program.locations, (10, 100, 10), (105, 105, 104), strict=True)):
        rank.enter(enter, "MPI_Sendrecv").send(enter, (r + 1) % 3, length=9)
        rank.receive(leave, (r - 1) % 3, length=9).leave(leave)
    finish(program, 200)
    assert waits_of(program) == ([(0, 105, 90)], 1)


@pytest.mark.parametrize("blocking", [True, False])
def test_broadcast__waits_for_the_process_that_passes_it_on(blocking):
    program = Program(3)
    begin(program)
    for r, (rank, enter, leave) in enumerate(zip(program.locations, (10, 100, 15), (12, 104, 103), strict=True)):
        sizes = {"root": 0, "sent": 27 * (r == 0), "received": 9}
        if blocking:
            rank.enter(enter, "MPI_Bcast").begin_collective(enter).end_collective(leave, "bcast", **sizes).leave(leave)
        else:
            rank.enter(6, "MPI_Ibcast").start_collective(7, 1).leave(8)
            rank.enter(enter, "MPI_Wait").complete_collective(leave, "bcast", 1, **sizes).leave(leave)
    finish(program, 200)
    assert waits_of(program) == ([(2, 103, 85)], 1)


def test_short_waits__do_not_count():
    assert waits_of(sent_while_computing(111, end=100_000)) == ([], 0)
