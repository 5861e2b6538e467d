"""The effect of a clock correction, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracecols.given.quantities import counted

if TYPE_CHECKING:
    from tracecols.clocks.correction import Correction


def tell_correction(correction: Correction) -> Iterator[str]:
    """Yield the violations before and after by kind, and the size of the changes, line by line."""
    before, after, change = correction.before, correction.after, correction.change
    kinds = [kind for kind in before if before[kind] or after[kind]]
    if not kinds:
        yield "no clock condition is violated: the times stay as they were recorded"
        return
    yield f"{'before':>12}  {'after':>12}  violated clock conditions"
    for kind in kinds:
        yield f"{before[kind]:>12,}  {after[kind]:>12,}  {kind}"
    yield f"{sum(before.values()):>12,}  {sum(after.values()):>12,}  all"
    yield f"{counted(change.n_moved, 'event')} moved, by {change.largest_shift:.9f} s at most"
    yield f"intervals changed by {change.largest:.9f} s at most, by {change.mean:.3g} s in the mean"
