"""Limits of a search: properties that are left out if a trace is too large for them."""

from __future__ import annotations

from tracecols.enhance.scan.periods import FOCUS
from tracecols.errors import AnalysisError
from tracecols.given.quantities import in_words
from tracecols.model.model import Model
from tracecols.patterns.base import Conventions, Property
from tracecols.schema import EventKind
from tracecols.schema.properties import IMBALANCE, ROOT_CAUSES
from tracecols.search.choice import Choice, trees_of, without
from tracecols.store import Store

CALL_BYTES = 120
"""Bytes that the root causes of a trace take for each of its call instances, in memory and in temporary files,
including what the scan keeps: 113 B were measured with `--memory 1GB` for a generated hybrid program (multizone, 8 x 4,
10^8 events), most of whose call instances wait."""

LEFT_OUT = (
    "call instances: root causes take about 120 bytes for each in memory and temporary files, more than there is "
    "room for, and are left out; give them more with --scratch or --memory, or name them with --property"
)
"""Note of traces whose root causes do not fit into memory and temporary files."""

MOST_SPREAD = 1 << 23
"""Call paths times CPUs up to which computational imbalance is computed by default: nearly all of them have a cell of
16 B in three properties, since a location that never visits a call path differs from the mean, too. For 10,000
locations with 200 events each (1,148 call paths) these were 80 % of the cells, and half of the time and memory of an
analysis."""

TOO_MANY_CELLS = (
    "cells of call paths and CPUs: computational imbalance has nearly all of them and is left out; name it with "
    "--property to have it"
)
"""Note of programs beyond `MOST_SPREAD`."""

MOST_TICKS = 1 << 62
"""Ticks of all locations together up to which sums of root causes fit in 64 bits: five hours of 100,000 locations at
2.6 GHz."""

TOO_LONG = (
    "ticks of all locations: root causes in whole ticks would need more than 64 bits and are left out; "
    "conventions scalasca compute them in seconds"
)
"""Note of traces beyond `MOST_TICKS`."""


Properties = list[Property]


def ticks_of_all(model: Model) -> int:
    """Return the length of the run in ticks times the number of CPU locations."""
    manifest = model.store.manifest
    return int((manifest["last_time"] or 0) - (manifest["first_time"] or 0)) * int(model.locations.is_cpu.sum())


def capacity_suffices_for_causes(model: Model) -> bool:
    """Return whether memory and temporary files suffice for the root causes of a trace."""
    capacity, spill = model.executor.capacity, model.get("spill")
    # bytes written by the scan are part of what root causes take
    return capacity is None or CALL_BYTES * model.n_calls <= capacity + spill.n_written


def lacking_for_causes(store: Store, capacity: int | None) -> str | None:
    """Return a warning, before a trace is analysed, if memory and temporary files may not suffice for its root causes;
    None if they suffice even if all region instances are call instances."""
    most = CALL_BYTES * int(store.manifest["events_by_kind"].get(str(int(EventKind.ENTER)), 0))
    if capacity is None or most <= capacity:
        return None
    return (
        f"root causes may take {in_words(most, 'bytes')} in memory and temporary files, and there is room for"
        f" {in_words(capacity, 'bytes')}: they are left out if they take more\n"
        "  give them more with --scratch FOLDER (or TMPDIR) or --memory"
    )


def without_undivided(
    model: Model, declared: Properties, shown: Properties, choice: Choice
) -> tuple[Properties, Properties, int]:
    """Leave out properties that cannot be divided into the periods of a trace; also return the number of shown trees
    that are left out. Raises AnalysisError if some of them were asked for by name."""
    divider = model.call_paths.divider
    if divider is None or divider.kind == FOCUS:
        return declared, shown, 0
    # the values of their periods do not add up to those of the whole time
    undivided_trees = trees_of(declared, IMBALANCE)
    kept_declared = without(declared, undivided_trees)
    kept, shown_ids = {p.id for p in kept_declared}, {p.id for p in shown}
    undivided = [p.id for p in declared if p.id not in kept and p.id in shown_ids]
    if undivided and choice.properties is not None:
        raise AnalysisError(
            f"{', '.join(undivided[:3])}: absolute differences from a mean over locations cannot be divided into "
            f"{divider.kind}s, as they do not add up over time\n"
            f"  analyze these properties without {divider.kind}s"
        )
    return kept_declared, without(shown, undivided_trees), len(set(undivided_trees) & shown_ids)


def within_limits(
    model: Model, declared: Properties, shown: Properties, choice: Choice, conventions: Conventions
) -> tuple[Properties, Properties, dict[str, int]]:
    """Leave out properties that a trace is too large for, unless they were asked for by name; also return notes of
    them. Raises AnalysisError if root causes that need more than 64 bits were asked for by name."""
    is_named = choice.properties is not None
    notes: dict[str, int] = {}
    # properties that are computed from points and pairs of the whole trace
    held, spread = trees_of(declared, ROOT_CAUSES), trees_of(declared, IMBALANCE)
    if held:
        ticks = 0 if conventions.quirks.rounds_seconds else ticks_of_all(model)
        if ticks >= MOST_TICKS and is_named:
            raise AnalysisError(
                f"{', '.join(held[:3])}: all locations together take {ticks:,} ticks, and root causes in "
                f"whole ticks are for less than {MOST_TICKS:,}\n"
                "  conventions scalasca compute them in seconds; or leave them out"
            )
        if not is_named and not capacity_suffices_for_causes(model):
            notes[LEFT_OUT] = model.n_calls
        if ticks >= MOST_TICKS:
            notes[TOO_LONG] = ticks
        if notes:
            declared = shown = without(declared, held)
    n_spread = len(model.call_paths.whole) * int(model.locations.is_cpu.sum())
    if n_spread > MOST_SPREAD and not is_named and spread:
        notes[TOO_MANY_CELLS] = n_spread
        declared, shown = without(declared, spread), without(shown, spread)
    return declared, shown, notes
