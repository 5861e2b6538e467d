"""Tables of a location that its scan keeps for later steps."""

from __future__ import annotations

from tracecols.schema.columns import Column, event, table, ticks

CALL_INSTANCES = table(
    "call_instances",
    "one region instance that joins need: it holds communication, or a whole team executes it",
    Column("node", "int32", "call path, numbered within the location"),
    event("enter", "ENTER"),
    event("exit", "EXIT; null if it was never left"),
    ticks("enter_time", "time of the ENTER"),
    ticks("exit_time", "time of the EXIT"),
    Column("team", "int32", "number of the location's team begin the thread was in; -1 none"),
    ticks("tasks", "time of explicit tasks completed inside, where regions are call instances by themselves"),
)

ATTRIBUTED_EVENTS = table(
    "attributed_events",
    "one event with a row in a side table, in the order of the events",
    Column("kind", "uint8", "kind, `EventKind`"),
    ticks("time", "time"),
    Column("call", "int64", "number of the enclosing call instance; -1 none"),
    Column("node", "int32", "call path, numbered within the location; -1 none"),
)
