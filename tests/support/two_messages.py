"""A program with two late messages."""

from __future__ import annotations

from tracecols.testing import Program


def two_messages(lengths=(8, 5000)) -> Program:
    """Return a program with two receives, which wait for 15 and 20 ticks."""
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").enter(20, "MPI_Send").send(21, to=1, length=lengths[0]).leave(25)
    sender.enter(50, "MPI_Send").send(51, to=1, length=lengths[1]).leave(55).leave(60)
    receiver.enter(0, "main").enter(5, "MPI_Recv").receive(24, source=0).leave(26)
    receiver.enter(30, "MPI_Recv").receive(54, source=0).leave(56).leave(60)
    return program
