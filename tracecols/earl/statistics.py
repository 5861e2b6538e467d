"""Statistics of many values, as EARL's statistic objects: exact, or estimated for streams too long to be kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUARTILES = (0.25, 0.5, 0.75)


class Statistics:
    """Count, minimum, maximum, mean, sum, variance, median and quartiles of all values, which are kept: 8 B each.

    Without values, all but `count` and `sum` are nan.

    Parameters
    ----------
    values : array_like, optional
        The first values.

    Examples
    --------
    >>> s = Statistics([4, 1, 3, 2])
    >>> s.add(10)
    >>> s.count, s.min, s.mean, s.med, s.var
    (5, 1.0, 4.0, 3.0, 12.5)
    """

    def __init__(self, values: Any = ()) -> None:
        self.reset()
        self.add(values)

    def reset(self) -> None:
        """Forget all values."""
        self._parts: list[NDArray[np.float64]] = []
        self._single: list[float] = []

    def add(self, values: Any) -> None:
        """Add a value, or many."""
        if isinstance(values, (float, int)):
            self._single.append(values)
        else:
            self._parts.append(np.array(values, np.float64).ravel())

    @property
    def values(self) -> NDArray[np.float64]:
        """All values; (count,) float64, in no particular order."""
        if len(self._parts) != 1 or self._single:
            self._parts = [np.concatenate([*self._parts, np.array(self._single, np.float64)])]
            self._single = []
        return self._parts[0]

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.values.size)

    @property
    def min(self) -> float:
        """Smallest value."""
        return float(self.values.min()) if self.count else math.nan

    @property
    def max(self) -> float:
        """Largest value."""
        return float(self.values.max()) if self.count else math.nan

    @property
    def sum(self) -> float:
        """Sum."""
        return float(self.values.sum())

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return float(self.values.mean()) if self.count else math.nan

    @property
    def var(self) -> float:
        """Variance of the sample, divided by count - 1; nan for less than two values."""
        return float(self.values.var(ddof=1)) if self.count > 1 else math.nan

    def quantile(self, q: float) -> float:
        """Return a quantile, interpolated between neighbours."""
        return float(np.quantile(self.values, q)) if self.count else math.nan

    @property
    def q25(self) -> float:
        """First quartile."""
        return self.quantile(0.25)

    @property
    def med(self) -> float:
        """Median."""
        return self.quantile(0.5)

    @property
    def q75(self) -> float:
        """Third quartile."""
        return self.quantile(0.75)

    def __repr__(self) -> str:
        return _text(self)


class P2Statistics:
    """Statistics of a stream: only 15 numbers per quartile are kept.

    Count, minimum and maximum are exact, sum, mean and variance up to rounding; median and quartiles are estimates by
    the P2 algorithm (Jain and Chlamtac, CACM 28 (10), 1985), exact for up to five values. They depend on the order of
    the values, but not on their division among calls.

    Parameters
    ----------
    values : array_like, optional
        The first values.
    """

    def __init__(self, values: Any = ()) -> None:
        self.reset()
        self.add(values)

    def reset(self) -> None:
        """Forget all values."""
        self.count, self.sum = 0, 0.0
        self.min, self.max = math.nan, math.nan
        self._mean = self._squares = 0.0
        self._first: list[float] = []
        self._heights, self._places = np.zeros((3, 5)), np.zeros((3, 5), np.int64)

    def add(self, values: Any) -> None:
        """Add a value, or many in their order; takes at least 20 ns for each."""
        x = np.array(values, np.float64).ravel()
        if not x.size:
            return
        from tracecols.kernels.quantiles import add_to_quantiles

        n = self.count + x.size
        self.min, self.max = float(np.fmin(self.min, x.min())), float(np.fmax(self.max, x.max()))
        # combination of two samples (Chan, Golub and LeVeque, 1979)
        mean = float(x.mean())
        apart = mean - self._mean
        self._squares += float(((x - mean) ** 2).sum()) + apart * apart * self.count * x.size / n
        self._mean += apart * x.size / n
        self.sum += float(x.sum())
        missing = max(5 - self.count, 0)
        self._first += x[:missing].tolist()
        if len(self._first) == 5 and missing:
            self._heights[:] = np.sort(self._first)
            self._places[:] = np.arange(5)
        self.count = n
        if x.size > missing:
            add_to_quantiles(x[missing:], np.array(QUARTILES), self._heights, self._places)

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return self._mean if self.count else math.nan

    @property
    def var(self) -> float:
        """Variance of the sample, divided by count - 1; nan for less than two values."""
        return self._squares / (self.count - 1) if self.count > 1 else math.nan

    def _quartile(self, i: int) -> float:
        if self.count <= 5:
            return float(np.quantile(self._first, QUARTILES[i])) if self.count else math.nan
        return float(self._heights[i, 2])

    @property
    def q25(self) -> float:
        """First quartile, estimated."""
        return self._quartile(0)

    @property
    def med(self) -> float:
        """Median, estimated."""
        return self._quartile(1)

    @property
    def q75(self) -> float:
        """Third quartile, estimated."""
        return self._quartile(2)

    def __repr__(self) -> str:
        return _text(self)


def _text(s: Statistics | P2Statistics) -> str:
    return (
        f"<{type(s).__name__} of {s.count:,}: min {s.min:g}, q25 {s.q25:g}, med {s.med:g}, q75 {s.q75:g}, max "
        f"{s.max:g}, mean {s.mean:g}, var {s.var:g}, sum {s.sum:g}>"
    )
