"""Clock conditions: events that must happen before others whatever the clocks show, and the table of the conditions
that the recorded times violate."""

from __future__ import annotations

from tracecols.schema.columns import Column, reference, table, ticks

CONDITIONS = ("message", "collective", "start and end", "fork", "join", "barrier", "lock", "created thread")
"""Kinds of clock conditions, by number."""

ACCURACY = 1e-6
"""Seconds to which clocks of different processors can be synchronised, at best: about the latency of a message.
Disagreements up to this are not contradictions."""

N_MPI = 3
"""Kinds below this are those between processes: MPI transfers something, which takes at least the minimal latency."""

CLOCK_VIOLATIONS = table(
    "clock_violations",
    "one pair of locations between which clock conditions of one kind are violated",
    Column("condition", "int8", "kind of the conditions, `CONDITIONS`"),
    reference("earlier_location", "locations", "location that has to come first: it sends, forks, ..."),
    reference("later_location", "locations", "location that depends on it: it receives, begins in a team, ..."),
    Column("n_conditions", "int64", "conditions of this kind between the two, in this direction", "occ"),
    Column("n_violations", "int64", "how many of them are violated: what depends is earlier", "occ"),
    ticks("largest", "by how much, at most"),
    ticks(
        "offset_at_least",
        "what has to be added to the clock of the later location so that all conditions in this direction hold",
    ),
    ticks(
        "offset_at_most",
        "what may be added to it so that all conditions in the other direction hold, of any kind; null if "
        "there are none",
        nullable=True,
    ),
    ticks(
        "offset",
        "estimate of the offset: the least that has to be added, or where no offset mends all (clocks that "
        "drift) what leaves the smallest violations",
    ),
    Column("is_mended", "bool", "whether that offset mends all conditions between the two"),
    source="TIME",
)
