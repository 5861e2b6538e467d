"""The words an analysis is declared in: steps, what they read and make, and the stages they run in.

A step is a function with declared inputs and outputs. It belongs to a stage; within a stage every step works on one slice of
the trace, independent of all others:

* `within`: one partition, which holds whole processes. It makes the tables within processes, and the rows that leave the partition.
* `receive`: one partition and what was sent to it: the messages it receives.
* `send`: one partition and what became of its sends: the messages it sends.
* `bucket`: one range of collective operations, with their participants of all partitions.
* `global`: the calls of all processes that one-sided communication, non-blocking collective operations, files and the start and end of MPI join.
* `clocks`: once: the clock conditions of all others together.

Root causes are found in further stages:

* `causes`: once: all synchronisation points in order, and who waits for whom.
* `spent`: one partition: its time by call path between these points.
* `delays`: one partition, and what those did who waited for it.
* `sweep`: once: from the end of the trace to its beginning.
* `charges`: one partition: what its call paths are charged with.
* `run`: once: what that means for the whole run.

The steps of tracecols stand in `enhance.tables.STEPS`; `enhance.model` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WITHIN, RECEIVE, SEND, BUCKET, GLOBAL, CLOCKS, CAUSES, SPENT, DELAYS, SWEEP, CHARGES, RUN = STAGES = (
    "within", "receive", "send", "bucket", "global", "clocks", "causes", "spent", "delays", "sweep", "charges", "run",
)  # fmt: skip
"""In the order in which they run."""

ONCE = (GLOBAL, CLOCKS, CAUSES, SWEEP, RUN)
"""Those that run once, for the whole trace."""

GIVEN = ("facts", "scans", "members", "only_global", "partition", "division", "bucket", "spill", "quirks")
"""Values that are there before any step: what is known of the whole trace (`Facts`), the scans of all locations, the locations
of the slice, whether it sees only the calls that join all processes, the number of its partition, all partitions, its range of
collective operations, where columns are kept (`ColumnSpill`, or None where the whole trace is one partition), and which
peculiarities of the reference root causes have (`causes.quirks`)."""


@dataclass(frozen=True)
class Every:
    """An input of a step: the values of one name of all partitions, or buckets, as a list in the order of their numbers."""

    name: str


@dataclass(frozen=True)
class Step:
    """A step of an analysis.

    Attributes
    ----------
    function : callable
        Gets the values of `reads` in that order and returns what it makes: the value, or a tuple if there are several.
    stage : str
        One of `STAGES`; empty where it works in any of them, on the slice it is asked for.
    reads : tuple of str or Every
        What another step makes, or one of `GIVEN`.
    makes : tuple of str
        Names of the values it returns.
    keeps : tuple of str
        Those of them that steps of other stages or partitions read.
    """

    function: Callable[..., Any]
    stage: str
    reads: tuple[str | Every, ...]
    makes: tuple[str, ...]
    keeps: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "func", self.function).__name__)

    @property
    def doc(self) -> str:
        """First line of the function's documentation."""
        return (getattr(self.function, "func", self.function).__doc__ or "").strip().split("\n")[0]
