"""Region rules, which select regions by name, role and paradigm: regions of MPI, barriers, calls that wait for several
requests, ..."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.facts import Facts
from tracecols.vectors import Mask

RegionRule = Callable[[Regions], Mask]


@cache
def named(pattern: str, paradigm: str) -> RegionRule:
    """Make a region rule: regions of a paradigm whose whole name, in lower case, matches a regular expression."""

    def rule(regions: Regions) -> Mask:
        fits: Mask = regions.paradigm == paradigm
        which = np.flatnonzero(fits).tolist()
        if which:
            # compiled only if there are regions of the paradigm: all rules together take 60 ms
            compiled = re.compile(pattern)
            fits[which] = [compiled.fullmatch(regions.lower[i]) is not None for i in which]
        return fits

    return rule


@cache
def called(pattern: str) -> RegionRule:
    """Make a region rule: regions of any paradigm whose whole name, case-sensitive, matches a regular expression."""

    def rule(regions: Regions) -> Mask:
        compiled = re.compile(pattern)
        return np.fromiter((compiled.fullmatch(n) is not None for n in regions.name), bool, len(regions))

    return rule


def in_role(roles: Iterable[str], paradigm: str = "") -> RegionRule:
    """Make a region rule: regions with one of some roles, of one paradigm or of any."""
    wanted = list(roles)

    def rule(regions: Regions) -> Mask:
        fits = np.isin(regions.role, wanted)
        return fits & (regions.paradigm == paradigm) if paradigm else fits

    return rule


def either(*rules: RegionRule) -> RegionRule:
    """Make a region rule that fits if any of the given rules does."""

    def rule(regions: Regions) -> Mask:
        return np.logical_or.reduce([r(regions) for r in rules])

    return rule


CONDITION = named("pthread_cond_(timedwait|wait)", "pthread")
"""Calls that wait for a condition variable."""

SIGNAL = named("pthread_cond_(broadcast|signal)", "pthread")
"""Calls that signal a condition variable."""


def is_polling(regions: Regions) -> Mask:
    """Region rule: polling calls, such as MPI_Test and MPI_Iprobe."""
    return regions.is_poll


def is_blocking_probe(regions: Regions) -> Mask:
    """Region rule: MPI_Probe and MPI_Mprobe."""
    return regions.is_blocking_probe


def is_in(facts: Facts, call_path: NDArray[np.int32], rule: RegionRule) -> Mask:
    """Return a mask of the call paths whose regions fit a rule; false for null, -1."""
    mask = facts.memo.get(rule)
    if mask is None:
        mask = facts.memo[rule] = np.append(rule(facts.regions)[facts.call_paths.region], False)
    return mask[call_path]


def nothing(regions: Regions) -> Mask:
    """The region rule that no region fits."""
    return np.zeros(len(regions), bool)
