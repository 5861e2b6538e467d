"""What the scan of a location keeps for later steps, as tables of that location."""

from __future__ import annotations

from tracecols.schema.columns import Column, Table

CALL_INSTANCES = Table(
    "call_instances",
    "one region instance that joins need: it holds communication, or a whole team executes it",
    (
        Column("node", "int32", "call path, numbered within the location"),
        Column("enter", "int64", "ENTER", "", "events"),
        Column("exit", "int64", "EXIT; null if it was never left", "", "events"),
        Column("enter_time", "int64", "time of the ENTER", "ticks"),
        Column("exit_time", "int64", "time of the EXIT", "ticks"),
        Column("team", "int32", "number of the location's team begin the thread was in; -1 none"),
        Column(
            "tasks",
            "int64",
            "time of explicit tasks completed inside, where regions are call instances by themselves",
            "ticks",
        ),
    ),
)

ATTRIBUTED_EVENTS = Table(
    "attributed_events",
    "one event with a row in a side table, in the order of the events",
    (
        Column("kind", "uint8", "kind, `EventKind`"),
        Column("time", "int64", "time", "ticks"),
        Column("call", "int64", "number of the enclosing call instance; -1 none"),
        Column("node", "int32", "call path, numbered within the location; -1 none"),
    ),
)
