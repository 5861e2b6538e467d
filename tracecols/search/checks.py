"""Checks of a choice against the definitions of a trace, before events are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tracecols.enhance.scan.paths import named
from tracecols.enhance.scan.periods import phases_of
from tracecols.errors import AnalysisError
from tracecols.patterns.base import Family
from tracecols.patterns.plugins import installed
from tracecols.patterns.registry import properties
from tracecols.schema.enums import TASKS, THREADS
from tracecols.search.choice import Choice, no_region
from tracecols.search.search import arguments


def check_choice(choice: Choice, regions: Sequence[str], conventions: str, patterns: Iterable[Family]) -> None:
    """Refuse a choice that no trace with these definitions can meet, before events are read. Raises AnalysisError."""
    start, stop = choice.start, choice.stop
    if start is not None and stop is not None and stop <= start:
        raise AnalysisError(
            f"nothing lies between {start:g} s and {stop:g} s\n  the end has to be later than the start"
        )
    if choice.parameters:
        for p in properties(conventions, [p for family in (*installed(), *patterns) for p in family.properties]):
            arguments(p, choice.parameters, 1)
    if choice.periods.phases is not None:
        phases_of(choice.periods.phases, np.array([*regions, TASKS, THREADS], object))
    if choice.within is not None:
        check_region(choice.within, regions)


def check_region(wanted: str, regions: Sequence[str]) -> None:
    """Refuse a region that is not defined, before events are read. Raises AnalysisError."""
    if not named(np.array([*regions, TASKS, THREADS], object), wanted).any():
        raise no_region(wanted, regions)
