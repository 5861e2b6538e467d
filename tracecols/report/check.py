"""What contradicts itself in a trace, for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracecols.enhance.dataflow.steps import CLOCKS
from tracecols.model.model import Model
from tracecols.patterns.constraints import Names, find_violations
from tracecols.schema.clocks import CONDITIONS
from tracecols.schema.notes import singular


def recording_losses(manifest: dict[str, Any]) -> dict[str, int]:
    """Count what was not understood or lost when the store was made; -1 is an unknown number."""
    found = {f"records that were not understood ({name})": n for name, n in manifest["not_understood"].items()}
    for loss in manifest["lost"]:
        found[f"events lost at location {loss['location']}: {loss['reason']}"] = loss["n_events"]
    return found


def tell_clocks(model: Model, first: int) -> Iterator[str]:
    """Tell between which locations clock conditions are violated, and what would mend them; the largest violations
    first."""
    with model.divided() as run, model.executor.pool() as pool:
        (pairs,) = run.stages(lambda at, _stage: at.clock_violations, [CLOCKS], pool)
    if not len(pairs):
        return
    n = len(pairs)
    yield f"{n:>12,}  {'pair' if n == 1 else 'pairs'} of locations between which clock conditions are violated"
    names, resolution = Names(model), model.resolution
    for i in np.argsort(-pairs.largest, kind="stable")[:first].tolist():
        kind = CONDITIONS[pairs.condition[i]]
        told = f"{pairs.largest[i] / resolution:>26.9f} s  at most: {names.location(int(pairs.later_location[i]))} is too early for "
        told += f"{names.location(int(pairs.earlier_location[i]))}, {pairs.n_violations[i]:,} of {pairs.n_conditions[i]:,} ({kind}); "
        offset = f"{pairs.offset[i] / resolution:.9f} s"
        yield told + (
            f"mended by {offset} more" if pairs.is_mended[i] else f"no offset mends all, {offset} more leave least"
        )
    if n > first:
        yield f"{'':>26}    and {n - first:,} more; trace.clock_violations is the table, tracecols correct corrects them"
    else:
        yield f"{'':>26}    tracecols correct corrects them"


def tell_violations(model: Model, first: int = 3, progress: Callable[[int, int], None] | None = None) -> Iterator[str]:
    """Check all constraints of a trace and tell what violates them, line by line; nothing if nothing does.

    Parameters
    ----------
    first : int
        Instances to tell of each violated constraint; the earliest ones.
    progress : callable, optional
        Called with what is done and what is to be done.
    """
    names, clock = Names(model), model.store.manifest["clock"]
    for violation in find_violations(model, first, progress):
        yield f"{violation.count:>12,}  {violation.constraint.name}"
        for ticks, location, words in violation.first:
            seconds = (ticks - clock["origin"]) / clock["resolution"]
            yield f"{seconds:>26.9f} s  {names.location(location)} {words}"
        more = violation.count - len(violation.first)
        if violation.first and more:
            yield f"{'':>26}    and {more:,} more"
    yield from tell_clocks(model, first)
    for what, n in recording_losses(model.store.manifest).items():
        yield f"{n:>12,}  {singular(what) if n == 1 else what}" if n >= 0 else f"{'some':>12}  {what}"
