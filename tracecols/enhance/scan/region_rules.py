"""Which regions a rule fits, by name, role and paradigm: regions of MPI, barriers, calls that wait for several
requests, ..."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.facts import Facts

RegionRule = Callable[[Regions], NDArray[np.bool_]]


@cache
def named(pattern: str, paradigm: str) -> RegionRule:
    """Make a region rule: regions of a paradigm whose whole name, in lower case, matches a regular expression."""

    def rule(regions: Regions) -> NDArray[np.bool_]:
        fits: NDArray[np.bool_] = regions.paradigm == paradigm
        which = np.flatnonzero(fits).tolist()
        if which:
            # compiled only where there is something to fit: all rules together take 60 ms
            compiled = re.compile(pattern)
            fits[which] = [compiled.fullmatch(regions.lower[i]) is not None for i in which]
        return fits

    return rule


@cache
def called(pattern: str) -> RegionRule:
    """Make a region rule: regions whose whole name as it is matches a regular expression, whatever they belong
    to."""

    def rule(regions: Regions) -> NDArray[np.bool_]:
        compiled = re.compile(pattern)
        return np.fromiter((compiled.fullmatch(n) is not None for n in regions.name), bool, len(regions))

    return rule


def in_role(roles: Iterable[str], paradigm: str = "") -> RegionRule:
    """Make a region rule: regions of a paradigm, or of any, with one of some roles."""
    wanted = list(roles)

    def rule(regions: Regions) -> NDArray[np.bool_]:
        fits = np.isin(regions.role, wanted)
        return fits & (regions.paradigm == paradigm) if paradigm else fits

    return rule


def either(*rules: RegionRule) -> RegionRule:
    """Make a region rule that fits where any of some does."""

    def rule(regions: Regions) -> NDArray[np.bool_]:
        return np.logical_or.reduce([r(regions) for r in rules])

    return rule


CONDITION = named("pthread_cond_(timedwait|wait)", "pthread")
"""Calls that wait for a condition."""

SIGNAL = named("pthread_cond_(broadcast|signal)", "pthread")
"""Calls that end such waits."""


def is_polling(regions: Regions) -> NDArray[np.bool_]:
    """Region rule: calls that ask whether something has come."""
    return regions.is_poll


def is_in(facts: Facts, call_path: NDArray[np.int32], rule: RegionRule) -> NDArray[np.bool_]:
    """Whether the regions of call paths fit a rule; false for null, -1."""
    mask = facts.memo.get(rule)
    if mask is None:
        mask = facts.memo[rule] = np.append(rule(facts.regions)[facts.call_paths.region], False)
    result: NDArray[np.bool_] = mask[call_path]
    return result


def nothing(regions: Regions) -> NDArray[np.bool_]:
    """The region rule that no region fits."""
    return np.zeros(len(regions), bool)
