"""Similar phases: groups, a representative of each group, and phases that are like no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.paths import families, merged_paths, named_or_numbered
from tracecols.errors import SeverityError
from tracecols.given.arguments import show
from tracecols.severity.narrowed import ranges
from tracecols.severity.queries import Severities

if TYPE_CHECKING:
    import pandas as pd

MOST_GROUPS = 64
"""Maximum number of groups; phases that belong to none of them count as like no other."""

DESCRIBED = 6
"""Number of groups that are described in words."""

FAR = 5.0
"""Median deviations from the median of a group's times from which on a phase is an outlier."""

NEAR = 0.1
"""Part of the tolerance within which the times of phases must lie for them to be alike if their counts differ."""

FACTORS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
"""Odd multipliers for hashing features."""


def similar_periods(cube: Severities, name: str = "time", tolerance: float = 0.25) -> pd.DataFrame:
    """Group phases, or bins, that are alike.

    Two are alike if on every location their call paths (without running numbers of phases in names) are visited the
    same number of times, and they send, receive and so on equally often; and if the values of a property, exclusive
    along call paths, differ by no more than a share. If these differ by less than a tenth of that share, counts may
    differ by the share, too, as those of polling do. Groups are formed one after the other, around the phase whose
    total is the median of those that are left; O(n groups) in the number of cells.

    Parameters
    ----------
    tolerance : float
        Share by which two may differ: the sum of absolute differences over call paths and locations, relative to the
        larger total.

    Returns
    -------
    DataFrame
        By phase or bin: `total` (seconds, occurrences or bytes), `group` (0 is the largest; -1 where a phase is like no
        other), `representative` (the phase the group is formed around), `distance` (share by which it differs from
        that), and `is_outlier`: alone, or far from the times of its group.

    Raises
    ------
    SeverityError
        If the cube is not divided, there is no such property, or the tolerance is not a share.

    Examples
    --------
    >>> cube = trace.analyze(phases="timestep")  # doctest: +SKIP
    >>> groups = cube.similar_periods()  # doctest: +SKIP
    >>> groups[groups.is_outlier].index.tolist()  # doctest: +SKIP
    [0, 17]
    """
    import pandas as pd

    axis, name = cube.divided(), cube.find_property(name)
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance <= 1:
        raise SeverityError(f"{show(tolerance)} is not a tolerance\n  give a share from 0 to 1")
    n = len(axis)
    values, counts = Profiles.of_values(cube, name, n), Profiles.of_counts(cube, n)
    size, pattern = values.size, counts.patterns()
    group, leader, distance = np.full(n, -1, np.int64), np.full(n, -1, np.int64), np.zeros(n)
    left = np.ones(n, bool)
    formed: list[tuple[int, NDArray[np.int64]]] = []
    while left.any() and len(formed) < MOST_GROUPS:
        # the most frequent pattern among the phases left, of equals the one that occurs first
        kinds, first, often = np.unique(pattern[left], return_index=True, return_counts=True)
        kind = kinds[np.lexsort((first, -often))[0]]
        mine = np.flatnonzero(left & (pattern == kind))
        middle = int(mine[np.argsort(size[mine], kind="stable")[(mine.size - 1) // 2]])
        away = values.away_from(middle)
        # polling and the like: counts that differ a little in phases that take the same time
        alike = (pattern == kind) | ((away <= tolerance * NEAR) & (counts.away_from(middle) <= tolerance))
        members = np.flatnonzero(left & alike & (away <= tolerance))
        members = np.union1d(members, [middle])
        leader[members], distance[members] = middle, away[members]
        left[members] = False
        formed.append((middle, members))
    leader[left] = np.flatnonzero(left)
    formed = sorted((f for f in formed if f[1].size > 1), key=lambda f: (-f[1].size, f[0]))
    is_outlier = np.ones(n, bool)
    for number, (_, members) in enumerate(formed):
        group[members] = number
        deviation = np.abs(size[members] - np.median(size[members]))
        is_outlier[members] = deviation > np.maximum(FAR * np.median(deviation), tolerance / 2 * size[members])
    return pd.DataFrame(
        {
            "total": values.total * cube.scale(name),
            "group": group,
            "representative": leader,
            "distance": distance,
            "is_outlier": is_outlier,
        },
        index=pd.RangeIndex(n, name=axis.kind),
    )


class Profiles:
    """Features of each phase: a value for each call path and location, or counts for these."""

    def __init__(
        self, period: NDArray[np.int64], feature: NDArray[np.int64], value: NDArray[np.float64], n: int
    ) -> None:
        order = np.argsort(period, kind="stable")
        self.period, self.value, self.n = period[order], value[order], n
        _, self.feature = np.unique(feature[order], return_inverse=True)
        self.starts = np.searchsorted(self.period, np.arange(n + 1))
        self.size = np.bincount(self.period, np.abs(self.value), n)
        self.total = np.bincount(self.period, self.value, n)

    @classmethod
    def of_values(cls, cube: Severities, name: str, n: int) -> Profiles:
        """Return the values of a property in each phase, by call path and location."""
        c = cube.period_cells[name]
        c = c.where(c.period >= 0)
        feature = (_same_paths(cube)[c.call_path] << 32) | c.location
        return cls(c.period.astype(np.int64), feature, c.value.astype(np.float64), n)

    @classmethod
    def of_counts(cls, cube: Severities, n: int) -> Profiles:
        """Return all counts of each phase: of visits, messages, collective operations."""
        axis, same = cube.properties, _same_paths(cube)
        period, feature, value = ([np.zeros(0, np.int64)] for _ in range(3))
        for number, (name, unit) in enumerate(zip(axis.id, axis.unit, strict=True)):
            c = cube.period_cells[name]
            if unit != "occ" or c.value.dtype.kind != "i" or axis.children[name]:
                continue
            c = c.where(c.period >= 0)
            period.append(c.period.astype(np.int64))
            at = same[c.call_path] * cube.system.n_locations + c.location
            feature.append(at * len(axis.id) + number)
            value.append(c.value.astype(np.int64))
        counts = np.concatenate(value).astype(np.float64)
        return cls(np.concatenate(period), np.concatenate(feature), counts, n)

    def away_from(self, middle: int) -> NDArray[np.float64]:
        """Return the share by which each phase differs from phase `middle`: the sum of absolute differences, relative
        to the larger total; (n,) float64."""
        dense = np.zeros(int(self.feature.max(initial=-1)) + 1)
        own = slice(*self.starts[middle : middle + 2].tolist())
        dense[self.feature[own]] = self.value[own]
        # sum |a - b| = sum |b| + sum over the cells of a of |a - b| - |b|
        there = dense[self.feature]
        more = np.bincount(self.period, np.abs(self.value - there) - np.abs(there), self.n)
        largest = np.maximum(np.maximum(self.size, self.size[middle]), 1)
        return np.asarray(np.maximum(more + np.abs(dense).sum(), 0.0) / largest, np.float64)

    def patterns(self) -> NDArray[np.uint64]:
        """Return a hash of the features of each phase, equal for phases with equal features; (n,) uint64."""
        result = np.zeros(self.n, np.uint64)
        mixed = np.ones(self.feature.size, np.uint64)
        value = self.value.astype(np.int64)
        for factor, column in zip(FACTORS, (self.feature, value, value), strict=True):
            mixed = (mixed ^ column.astype(np.uint64)) * factor
            mixed ^= mixed >> np.uint64(29)
        np.add.at(result, self.period, mixed)
        return result


def _same_paths(cube: Severities) -> NDArray[np.int64]:
    """Return for each call path the first one that differs only in running numbers of phases (`ProfilerStep#10`)."""
    tree, (names, numbers) = cube.call_paths, cube.call_paths.numbered_names
    words, name = cube.divided().words.removeprefix("from:").strip(), np.array([*names, ""], object)[:-1]
    begins = named_or_numbered(name, words)
    if not begins.any():
        begins = named_or_numbered(name, words.rpartition("/")[2])
    family, number = families(name)
    _, of_family = np.unique(family, return_inverse=True)
    counts_as = np.where(begins & (number >= 0), name.size + of_family, np.arange(name.size))
    return merged_paths(tree.parent, tree.depth, counts_as[numbers])


def largest_outliers(table: pd.DataFrame, most: int) -> pd.Series:
    """Return by which share of the median total phases differ from it (`similar_periods`): at most `most` outliers, the
    largest differences first; nan if the median is 0."""
    usual = float(table.total.median()) if len(table) else 0.0
    outliers = table.total[table.is_outlier]
    far = outliers.iloc[(outliers - usual).abs().argsort(kind="stable").to_numpy()[::-1]].head(most)
    return far / usual - 1 if usual else far * np.nan


def groups_in_words(table: pd.DataFrame) -> list[str]:
    """Describe which phases are alike (`similar_periods`) and which are outliers; a line for each group and one for
    outliers."""
    kind = str(table.index.name)
    lines = []
    n_groups = int(table.group.max()) + 1 if len(table) else 0
    for number, members in table[(table.group >= 0) & (table.group < DESCRIBED)].groupby("group"):
        numbers = ranges(members.index.tolist())
        numbers = numbers if len(numbers) <= 60 else f"{numbers[:56].rpartition(',')[0]},..."
        lines.append(
            f"group {number}: {len(members):,} {kind}s like {kind} {members.representative.iloc[0]}, within "
            f"{members.distance.max():.1%}: {numbers}"
        )
    if n_groups > DESCRIBED:
        rest = int((table.group >= DESCRIBED).sum())
        lines.append(f"and {n_groups - DESCRIBED:,} more groups of {rest:,} {kind}s")
    worst, n_outliers = largest_outliers(table, 8), int(table.is_outlier.sum())
    if n_outliers:
        listed = ", ".join(f"{at} ({share:+.0%})" if share == share else f"{at}" for at, share in worst.items())
        more = f" and {n_outliers - len(worst):,} more" if n_outliers > len(worst) else ""
        lines.append(f"outliers, and how they differ from the median: {listed}{more}")
    return lines
