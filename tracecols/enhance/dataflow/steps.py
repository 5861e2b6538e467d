"""Declaration of an analysis: steps, the values they read and make, and the stages they run in.

A step is a function that the decorator `step` declares: its parameters are the names of the values it reads, the
decorator gives its stage and the names of the values it returns. Within a stage, every step works on one slice of the
trace, independently of all others:

* `within`: one partition, which holds whole processes, or a window of one process (`enhance.scan.windows`; steps of
  later stages read the values of all windows of their partition as `own_x`). It makes the tables within processes, and
  the rows that leave the partition.
* `receive`: one partition and the messages sent to it.
* `send`: one partition and the matches of its sends: the messages it sends.
* `bucket`: one range of collective operations, with their participants of all partitions.
* `global`: the calls of all processes that are joined at once: one-sided communication, non-blocking collective
  operations, files, start and end of MPI.
* `clocks`: once: the clock conditions of all other stages.

Root causes are found in further stages:

* `causes`: once: all synchronisation points in order, and which location waits for which.
* `path`: once: the critical path.
* `spent`: one partition: its time by call path between these points.
* `delays`: one partition, and the activities of the locations that waited for it.
* `sweep`: once: the costs of waits, from the end of the trace to its beginning.
* `on_path`: one partition: the time of its call paths on the critical path, and the phases or bins of time in which the
  causes of waits lie.
* `charges`: one partition: the costs charged to its call paths.
* `run`: once: the results for the whole run.

`model.tables.STEPS` lists the steps of tracecols; `model.model` runs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from graphlib import CycleError, TopologicalSorter
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

WITHIN, RECEIVE, SEND, BUCKET, GLOBAL, CLOCKS, CAUSES, PATH, SPENT, DELAYS, SWEEP, ON_PATH, CHARGES, RUN = STAGES = (
    "within", "receive", "send", "bucket", "global", "clocks",
    "causes", "path", "spent", "delays", "sweep", "on_path", "charges", "run",
)  # fmt: skip
"""The stages in the order in which they run."""

BESIDE = {SPENT: PATH, ON_PATH: SWEEP}
"""Stages that run concurrently with a preceding stage, which uses only one thread."""

ANY = ""
"""The stage of a step that can run in any stage, on the slice of that stage."""

ONCE = (GLOBAL, CLOCKS, CAUSES, PATH, SWEEP, RUN)
"""Stages that run once, for the whole trace."""

IN_WINDOWS = frozenset(STAGES) - {CLOCKS}
"""Stages whose values do not change if the steps within processes work on windows of long processes."""

GIVEN = {
    "facts": "`Facts`: what is known of the whole trace: definitions, call paths, communicators.",
    "scans": "Results of the scan, by location.",
    "members": "(n_members,) int64: rows of the locations of the slice, ascending.",
    "only_global": "Whether the slice sees only the calls that join all processes.",
    "partition": "Number of the partition.",
    "division": "All partitions of the trace.",
    "bucket": "A range of keys of collective operations.",
    "spill": "Where columns are kept for other steps.",
    "quirks": "Which peculiarities of the reference root causes have.",
    "jobs": "Threads that a step may use: more than one where no other slice is worked on meanwhile.",
}
"""Values that exist before any step runs, with their descriptions."""

EVERY = "every_"
"""A parameter of a step with this prefix is the list of the values of all partitions, windows or buckets, in the order
of their numbers."""

OWN = "own_"
"""A parameter of a step with this prefix is the list of the values of the windows of its partition, in order of
time."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Input(NamedTuple):
    """A value that a step reads: that of its slice, or (`EVERY`, `OWN`) the list of the values of several slices."""

    name: str
    scope: str = ""

    @classmethod
    def of(cls, parameter: str) -> Input:
        """Return the input that a parameter refers to by its name."""
        scope = next((prefix for prefix in (EVERY, OWN) if parameter.startswith(prefix)), "")
        return cls(parameter.removeprefix(scope), scope)

    def __str__(self) -> str:
        return f"{self.scope.removesuffix('_')} {self.name}".strip()


class Step(NamedTuple):
    """A step of an analysis."""

    function: Callable[..., Any]
    """Takes the values of `reads` in that order and returns the values of `makes`: one value, or a tuple of several."""
    stage: str
    """One of `STAGES`, or `ANY`."""
    reads: tuple[Input, ...]
    """Values that other steps make, or that are in `GIVEN`."""
    makes: tuple[str, ...]
    """Names of the values it returns."""
    keeps: tuple[str, ...] = ()
    """Those of these values that steps of later stages or of other slices read."""

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    @property
    def doc(self) -> str:
        """First paragraph of the function's documentation."""
        return summary_of(self.function)


def summary_of(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a function's documentation as one line."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())


def step(stage: str, *makes: str) -> Callable[[Function], Function]:
    """Declare a function as a step of an analysis, in one of `STAGES` or `ANY`; use as a decorator."""

    def declare(function: Function) -> Function:
        reads = tuple(Input.of(name) for name in inspect.signature(function).parameters)
        function.step = Step(function, stage, reads, makes)  # type: ignore[attr-defined]
        return function

    return declare


def collect(modules: Iterable[ModuleType]) -> tuple[Step, ...]:
    """Return the steps that some modules declare, in an order in which they can run. Raises ValueError if two steps
    make the same value, no step makes a value that another reads, or the steps have cyclic dependences."""
    found = [
        declared
        for module in modules
        for thing in vars(module).values()
        if isinstance(declared := getattr(thing, "step", None), Step) and thing.__module__ == module.__name__
    ]
    number_of = ("", *STAGES).index
    found.sort(key=lambda s: number_of(s.stage))
    maker: dict[str, Step] = {}
    for declared in found:
        for name in declared.makes:
            if name in maker or name in GIVEN:
                raise ValueError(f"{name} is made twice: by {declared.name} and {maker.get(name, 'before any step')}")
            maker[name] = declared
    number = {id(declared): i for i, declared in enumerate(found)}
    order: TopologicalSorter[int] = TopologicalSorter()
    for declared in found:
        order.add(number[id(declared)])
        for name, _ in declared.reads:
            if name not in GIVEN:
                if name not in maker:
                    raise ValueError(f"{declared.name} reads {name}, which no step makes")
                order.add(number[id(declared)], number[id(maker[name])])
    # every slice makes the values of `ANY` for itself
    kept = {
        name
        for reader in found
        for name, scope in reader.reads
        if name in maker and maker[name].stage and (scope or number_of(reader.stage) > number_of(maker[name].stage))
    }
    try:
        ordered = [found[i] for i in order.static_order()]
        return tuple(s._replace(keeps=tuple(name for name in s.makes if name in kept)) for s in ordered)
    except CycleError as error:
        names = " -> ".join(found[i].name for i in error.args[1])
        raise ValueError(f"steps depend on each other in a cycle: {names}") from error
