"""The part of the activity of streams that kernels of computation on other streams of the device cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.model.model import Model
from tracecols.patterns.found_by import Pattern
from tracecols.patterns.matches import Matches


def hidden(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The part that kernels cover."""
    time = m.hidden_time[parent.row]
    return parent.where(time > 0, severity=time)


def exposed(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The remainder."""
    rest = parent.severity - m.hidden_time[parent.row]
    return parent.where(rest > 0, severity=rest)


def declare_covered(
    declare: Callable[..., Callable[..., Any]],
    parent: str,
    covered: tuple[str, str, str],
    remainder: tuple[str, str, str],
    advice: str,
) -> None:
    """Declare, in a family, the part of a property of intervals on streams that kernels cover, and the remainder: given
    are id, title and summary of both, and the advice for the remainder."""
    found = Pattern("device_intervals", since="begin_time")
    given = {"overlaps": True, "expert": {}, "is_wait": False}
    id, title, summary = covered
    declare(id, parent, title, summary, found, **given)(hidden)
    id, title, summary = remainder
    declare(id, parent, title, summary, found, advice=advice, **given)(exposed)
