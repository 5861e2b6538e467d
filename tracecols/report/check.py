"""Inconsistencies of a trace, and the effect of a clock correction, for the terminal and as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracecols.enhance.dataflow.steps import CLOCKS
from tracecols.given.quantities import counted, in_words
from tracecols.model.model import Model
from tracecols.patterns.constraints import Names, Violation, find_violations
from tracecols.schema.clocks import ACCURACY, CONDITIONS
from tracecols.schema.notes import singular
from tracecols.verbs.recording import Recording, recording_of

if TYPE_CHECKING:
    from tracecols.clocks.correction import Correction
    from tracecols.enhance.dataflow.columns import CompoundTable

CORRECTS = "tracecols correct corrects them, or tracecols convert --correct-clocks"
"""Advice for clocks that disagree."""

MUCH = 0.01
"""`check` reports the cost of recording if it is at least this share of the time."""

FEW = 1000
"""For fewer ENTER and EXIT events, the share says nothing about a program."""


def recording_losses(manifest: dict[str, Any]) -> dict[str, int]:
    """Count records not understood and events lost when the store was made; -1 is an unknown number."""
    found = {f"records that were not understood ({name})": n for name, n in manifest["not_understood"].items()}
    for loss in manifest["lost"]:
        found[f"events lost at location {loss['location']}: {loss['reason']}"] = loss["n_events"]
    return found


@dataclass
class Checked:
    """The inconsistencies of a trace."""

    violations: list[Violation]
    """Each with its first instances."""
    pairs: CompoundTable
    """Pairs of locations between which clock conditions are violated (`schema.clocks.CLOCK_VIOLATIONS`)."""
    losses: dict[str, int]
    """Numbers of records not understood and events lost when the store was made, by description."""
    names: Names
    recording: Recording
    """The cost of recording regions."""
    clock: dict[str, Any]
    """Resolution and origin."""
    rows: int
    """Maximum number of instances to show."""

    @property
    def skew(self) -> float:
        """Largest disagreement of clocks in seconds; 0 if they agree."""
        return float(self.pairs.largest.max(initial=0)) / self.clock["resolution"]

    @property
    def is_skew_small(self) -> bool:
        """Whether clocks disagree by no more than the accuracy with which they can be read and synchronised."""
        return 0 < self.skew <= max(ACCURACY, 1 / self.clock["resolution"])

    @property
    def contradicting(self) -> list[Violation]:
        """The violations, without those of clock conditions if the skew is small."""
        return [v for v in self.violations if not (v.constraint.is_of_clocks and self.is_skew_small)]

    @property
    def contradicts(self) -> bool:
        """Whether the trace has any inconsistency."""
        return bool(self.contradicting or self.losses or (len(self.pairs) and not self.is_skew_small))

    def instances(self, violation: Violation) -> Iterator[tuple[float, str]]:
        """Yield time (seconds) and description (location and details) of the first violations of a constraint."""
        for ticks, location, words in violation.first:
            seconds = float((ticks - self.clock["origin"]) / self.clock["resolution"])
            yield seconds, f"{self.names.location(location)} {words}"

    def plain(self) -> dict[str, Any]:
        """Return all results as plain values, for JSON."""
        columns = ("earlier_location", "later_location", "n_conditions", "n_violations")
        pairs = [
            {
                "condition": CONDITIONS[self.pairs.condition[i]],
                **{name: int(getattr(self.pairs, name)[i]) for name in columns},
                "largest": float(self.pairs.largest[i] / self.clock["resolution"]),
                "offset": float(self.pairs.offset[i] / self.clock["resolution"]),
                "is_mended": bool(self.pairs.is_mended[i]),
            }
            for i in range(len(self.pairs))
        ]
        return {
            "format": "tracecols check",
            "contradicts": self.contradicts,
            "violations": [
                {
                    "constraint": v.constraint.name,
                    "count": v.count,
                    "is_of_clocks": v.constraint.is_of_clocks,
                    "first": [{"seconds": at, "what": words} for at, words in self.instances(v)],
                }
                for v in self.violations
            ],
            "clock_skew": self.skew,
            "clock_violations": pairs,
            "losses": self.losses,
            "recording": {
                "events": self.recording.n_events,
                "cost": self.recording.cost(),
                "share": self.recording.share(),
            },
        }


def check_trace(model: Model, rows: int = 3, progress: Callable[[int, int], None] | None = None) -> Checked:
    """Check all constraints of a trace, and look up the `rows` earliest instances of each violated one."""
    violations = find_violations(model, rows, progress)
    with model.divided() as run:
        (pairs,) = run.stages(lambda at, _stage: at.clock_violations, [CLOCKS])
    manifest = model.store.manifest
    return Checked(
        violations, pairs, recording_losses(manifest), Names(model), recording_of(model), manifest["clock"], rows
    )


def recording_in_words(found: Checked) -> str:
    """Return a sentence about the share of time that recording takes; empty if it is small."""
    r = found.recording
    n_events = int(2 * r.visits.sum())
    if r.share() < MUCH or n_events < FEW:
        return ""
    many = r.visits[r.is_left_out].sum()
    of = f", {int(2 * many):,} of them of short functions, which 'tracecols filter' leaves out" if many else ""
    return (
        f"recording takes about {r.share():.0%} of the time of all threads: {in_words(r.cost(), 'seconds')} for "
        f"{n_events:,} events of entering and leaving regions{of}"
    )


def _lines_of_clocks(found: Checked) -> Iterator[str]:
    """Report the pairs of locations with violated clock conditions and the offsets that would mend them; the largest
    violations first."""
    pairs, resolution = found.pairs, found.clock["resolution"]
    n = len(pairs)
    yield f"{n:>12,}  {'pair' if n == 1 else 'pairs'} of locations between which clock conditions are violated"
    for i in np.argsort(-pairs.largest, kind="stable")[: found.rows].tolist():
        kind = CONDITIONS[pairs.condition[i]]
        text = (
            f"{pairs.largest[i] / resolution:>26.9f} s  at most: "
            f"{found.names.location(int(pairs.later_location[i]))} is too early for "
        )
        text += (
            f"{found.names.location(int(pairs.earlier_location[i]))}, {pairs.n_violations[i]:,} of "
            f"{pairs.n_conditions[i]:,} ({kind}); "
        )
        offset = f"{pairs.offset[i] / resolution:.9f} s"
        yield text + (
            f"adding {offset} to its clock mends all"
            if pairs.is_mended[i]
            else f"no offset mends all; adding {offset} to its clock leaves the smallest violations"
        )
    more = f"and {n - found.rows:,} more; trace.clock_violations is the table; " if n > found.rows else ""
    yield f"{'':>26}    {more}{CORRECTS}"


def lines(found: Checked) -> Iterator[str]:
    """Yield a report of the inconsistencies of a trace, line by line; nothing if there are none."""
    for violation in found.contradicting:
        yield (
            f"{violation.count:>12,}  "
            f"{singular(violation.constraint.name) if violation.count == 1 else violation.constraint.name}"
        )
        for seconds, words in found.instances(violation):
            yield f"{seconds:>26.9f} s  {words}"
        more = violation.count - len(violation.first)
        if violation.first and more:
            yield f"{'':>26}    and {more:,} more"
    if len(found.pairs) and not found.is_skew_small:
        yield from _lines_of_clocks(found)
    for what, n in found.losses.items():
        yield f"{n:>12,}  {singular(what) if n == 1 else what}" if n >= 0 else f"{'some':>12}  {what}"


def skew_in_words(found: Checked) -> str:
    """Return a sentence if clocks disagree by no more than their accuracy, else an empty text."""
    if not found.is_skew_small:
        return ""
    n = int(found.pairs.n_violations.sum())
    return (
        f"clocks disagree by up to {in_words(found.skew, 'seconds')} ({counted(n, 'clock condition')}): "
        f"no more than clocks of different processors can be synchronised; {CORRECTS}"
    )


def lines_of_correction(correction: Correction) -> Iterator[str]:
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
