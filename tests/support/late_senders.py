"""Programs with late senders, whose root causes several tests search for."""

from __future__ import annotations

from tracecols.testing import Program


def late_once(main: str = "main", solve: str = "solve") -> Program:
    """Return two ranks: rank 1 computes for 60 s in `solve`, and then sends; by then rank 0 has waited for 50 s."""
    program = Program(processes=2)
    first, second = program.masters
    for rank in program.masters:
        rank.enter(0, main).enter(1, "MPI_Init").leave(5)
    first.enter(15, "MPI_Recv").receive(66, source=1).leave(66)
    second.enter(5, solve).leave(65).enter(65, "MPI_Send").send(65, to=0, length=1024).leave(66)
    for rank in program.masters:
        rank.enter(70, "MPI_Finalize").leave(72).leave(73)
    return program


def late_twice():
    """Return a program of three ranks: 0 computes for long and makes 1 wait, which makes 2 wait.

    rank 0: A 1..11, MPI_Send 11..12 to 1. rank 1: A 1..5, MPI_Recv 5..12 from 0, B 12..14, MPI_Send 14..15 to 2. rank
    2: A 1..4, MPI_Recv 4..15 from 1. MPI_Init is 0..1, MPI_Finalize ends at 20.
    """
    program = Program(processes=3)
    first, second, third = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(1).enter(1, "A")
    first.leave(11).enter(11, "MPI_Send").send(11, to=1).leave(12).enter(12, "MPI_Finalize").leave(20).leave(20)
    second.leave(5).enter(5, "MPI_Recv").receive(12, source=0).leave(12).enter(12, "B").leave(14)
    second.enter(14, "MPI_Send").send(14, to=2).leave(15).enter(15, "MPI_Finalize").leave(20).leave(20)
    third.leave(4).enter(4, "MPI_Recv").receive(15, source=1).leave(15).enter(15, "MPI_Finalize").leave(20).leave(20)
    return program


A, B, RECV, SEND, INIT, FINALIZE = (f"main/{n}" for n in ("A", "B", "MPI_Recv", "MPI_Send", "MPI_Init", "MPI_Finalize"))
