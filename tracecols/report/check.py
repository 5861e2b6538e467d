"""What contradicts itself in a trace, for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracecols.enhance.model import Model
from tracecols.patterns.constraints import Names, find_violations


def recording_losses(manifest: dict[str, Any]) -> dict[str, int]:
    """Count what was not understood or lost when the store was made; -1 is an unknown number."""
    found = {f"records that were not understood ({name})": n for name, n in manifest["not_understood"].items()}
    for loss in manifest["lost"]:
        found[f"events lost at location {loss['location']}: {loss['reason']}"] = loss["n_events"]
    return found


def tell_violations(model: Model, first: int = 3, progress: Callable[[int, int], None] | None = None) -> Iterator[str]:
    """Check all constraints of a trace and tell what violates them, line by line; nothing if nothing does.

    Parameters
    ----------
    model : Model
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
    for what, n in recording_losses(model.store.manifest).items():
        yield f"{n:>12,}  {what}" if n >= 0 else f"{'some':>12}  {what}"
