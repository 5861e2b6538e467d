"""Idle times that only the comparison of single calls shows (1999 class library, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.given.parameters import Parameter
from tracecols.patterns.base import Property
from tracecols.patterns.found_by import Pattern
from tracecols.patterns.matches import Matches
from tracecols.rules.base import Evidence, Result, rule
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.severity.axes import SystemAxis

if TYPE_CHECKING:
    from tracecols.enhance.dataflow.columns import CompoundTable
    from tracecols.model.model import Model

MASTER = {"master": Parameter(0, "rank", "rank of the master")}
LATE_RECEIVER_CONFIDENCE = 0.8
"""That a send waited for its receiver is likely, not certain (`mpi_latereceiver`)."""


@rule(
    "load_imbalance_at_barrier",
    "Load Imbalance at Barrier",
    "Time processes spend in MPI_Barrier longer than the one that comes last.",
    needs="trace",
)
def load_imbalance_at_barrier(e: Evidence) -> Result:
    """Idle times by comparing the execution times per process for each call of MPI_BARRIER; all processes have to take
    part."""
    assert e.trace is not None
    m, c = e.trace.collective_members, e.trace.collectives
    is_barrier = (c.op == COLLECTIVE_OPS.index("barrier")).to_numpy()[m.collective]
    m = m[is_barrier & (m.exit >= 0).to_numpy() & (m.enter >= 0).to_numpy() & e.within[m.call_path]]
    duration = (m.exit_time - m.enter_time).groupby(m.collective)
    everyone = distinct(e.cube.system.rank).size
    whole = duration.transform("size") == everyone
    idle = (m.exit_time - m.enter_time - duration.transform("min"))[whole].sum()
    n, n_whole = m.collective.nunique(), m.collective[whole].nunique()
    note = f"{n - n_whole} of {n} barriers leave processes out and are not counted" if n_whole < n else ""
    return Result(float(idle) / e.cube.resolution, note=note)


@rule("late_sender", "Late Sender", "Time receives wait because their messages are sent late.")
def late_sender(e: Evidence) -> Result:
    """The time wasted when a receive is posted before the corresponding send is executed."""
    return Result(e.seconds(e.cells("mpi_latesender")))


@rule(
    "late_receiver",
    "Late Receiver",
    "Time sends wait because the receives are posted late.",
    confidence=LATE_RECEIVER_CONFIDENCE,
)
def late_receiver(e: Evidence) -> Result:
    """A send blocks until the corresponding receive operation is called."""
    return Result(e.seconds(e.cells("mpi_latereceiver")))


def _rank_exists(e: Evidence, master: int) -> str:
    """Return the note that there is no such rank; empty if there is."""
    return "" if (e.cube.system.rank == master).any() else f"there is no rank {master}"


@rule(
    "slow_slaves",
    "Late Workers (Slow Slaves)",
    "Time the master waits for messages that are sent late.",
    parameters=MASTER,
)
def slow_slaves(e: Evidence, *, master: int) -> Result:
    """Late senders of messages to a distinct master."""
    cells = e.cells("mpi_latesender")
    mine = (e.cube.system.rank == master)[cells.location] if len(cells) else np.zeros(0, bool)
    return Result(e.seconds(cells.where(mine)), note=_rank_exists(e, master))


def _with_the_master(model: Model, m: CompoundTable, master: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return masks of the messages that slaves receive from the master, and of those that they send to it."""
    is_master = SystemAxis.of(model.store).rank == master
    sent, received = is_master[m.send_location], is_master[m.recv_location]
    return sent & ~received, received & ~sent


def _late_master(model: Model, m: CompoundTable, parent: Matches, *, master: int) -> Matches:
    """Late senders at slaves whose message the master sent."""
    return parent.where(_with_the_master(model, m, master)[0][parent.row])


def _busy_master(model: Model, m: CompoundTable, parent: Matches, *, master: int) -> Matches:
    """Late receivers at slaves whose message the master received."""
    return parent.where(_with_the_master(model, m, master)[1][parent.row])


def _properties_of_master(master: int) -> list[Property]:
    return [
        Property(
            f"overloaded_master_{kind}",
            f"mpi_{kind}",
            f"{title} of the Master",
            "A slave waits for the master.",
            Pattern(table, match),
            given={"master": master},
            overlaps=True,
        )
        for kind, title, match, table in (
            ("latesender", "Late Sender", _late_master, "messages"),
            ("latereceiver", "Late Receiver", _busy_master, "sent_messages"),
        )
    ]


@rule(
    "overloaded_master",
    "Overloaded Main Process (Overloaded Master)",
    "Time slaves wait for new tasks of the master, or for it to receive results.",
    parameters=MASTER,
    needs="trace",
    confidence=LATE_RECEIVER_CONFIDENCE,
    properties=_properties_of_master,
)
def overloaded_master(e: Evidence, *, master: int) -> Result:
    """A mix of late sender and late receiver at slaves that involves the master."""
    cells = e.cells("overloaded_master_latesender") + e.cells("overloaded_master_latereceiver")
    return Result(e.seconds(cells), note=_rank_exists(e, master))


@rule(
    "wrong_order_costs",
    "Receiving Messages in Wrong Order",
    "Time in all calls that send and receive messages which overtake each other on their way to a process.",
    needs="trace",
)
def wrong_order_costs(e: Evidence) -> Result:
    """The costs of all communication operations involved where an older message with the same target is still in the
    queue.

    Involved are the message received, and the older ones that are received later. Each call counts once. Messages that
    are never received are not seen.
    """
    assert e.trace is not None
    m = e.trace.messages
    process = e.trace.locations["process"].to_numpy()
    # of a target, in the order of receives: some message received before was sent later, or one received later was sent
    # before
    order = np.lexsort((m.recv.to_numpy(), m.recv_time.to_numpy(), process[m.recv_location]))
    m = m.iloc[order]
    target, sent = process[m.recv_location], m.send_time.groupby(process[m.recv_location])
    older = (sent.cummax() > m.send_time).to_numpy()
    backwards = m.send_time.iloc[::-1]
    newer = (backwards.groupby(target[::-1]).cummin() < backwards).to_numpy()[::-1]
    involved = m[older | newer]
    calls: list[NDArray[np.int64]] = []
    for role in ("send", "recv"):
        enter, leave = involved[f"{role}_enter"].to_numpy(), involved[f"{role}_exit"].to_numpy()
        mine = (enter >= 0) & (leave >= 0) & e.within[involved[f"{role}_call_path"].to_numpy()]
        cost = (involved[f"{role}_exit_time"] - involved[f"{role}_enter_time"]).to_numpy()
        calls.append(np.stack([enter[mine], cost[mine]]))
    enter, cost = np.concatenate(calls, axis=1)
    _, first = np.unique(enter, return_index=True)
    return Result(float(cost[first].sum()) / e.cube.resolution)
