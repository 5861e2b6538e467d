"""Ordered sections of OpenMP loops, which threads execute one after the other.

Scope: within a process. Sections of a construct follow each other in order of time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import combine, preceding
from tracecols.enhance.dataflow.steps import WITHIN, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances
from tracecols.enhance.scan.region_rules import in_role, is_in
from tracecols.vectors import Ints

CONSTRUCT, SECTION = in_role(["ordered"], "openmp"), in_role(["ordered_sblock"], "openmp")
"""Regions in which threads wait for their turn, and regions that they then execute."""


class OrderedSections(NamedTuple):
    """Sections that are executed in order."""

    construct: Ints
    """(n,): ENTER of the construct, at which the thread begins to wait for its turn; -1 unknown."""
    enter: Ints
    exit: Ints
    """`enter` and `exit`: (n,), ENTER and EXIT of the section itself; EXIT is -1 if it was never left."""
    previous: Ints
    """(n,): EXIT of the preceding section if another thread executed it, else -1."""


@step(WITHIN, "ordered_sections")
def find_ordered_sections(facts: Facts, call_instances: CallInstances) -> OrderedSections:
    """Find the sections that threads execute in order, and the section that each has to wait for."""
    calls, nothing = call_instances, np.zeros(0, np.int64)
    section = np.flatnonzero(is_in(facts, calls.call_path, SECTION))
    if not section.size:
        return OrderedSections(nothing, nothing, nothing, nothing)
    waiting = np.flatnonzero(is_in(facts, calls.call_path, CONSTRUCT))
    waiting = waiting[np.argsort(calls.enter[waiting], kind="stable")]
    # the last construct entered before the section
    at = np.searchsorted(calls.enter[waiting], calls.enter[section]) - 1
    around = pick(waiting, at)
    around[pick(calls.location, around) != calls.location[section]] = -1
    process = facts.process[calls.location[section]]
    group = combine(process, facts.call_paths.region[calls.call_path[section]])
    order = facts.order.argsort(calls.enter[section], calls.enter_time[section], group)
    previous = pick(section, preceding(group, order))
    previous[pick(calls.location, previous) == calls.location[section]] = -1
    return OrderedSections(
        pick(calls.enter, around), calls.enter[section], calls.exit[section], pick(calls.exit, previous)
    )
