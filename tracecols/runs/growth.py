"""How times grow with a parameter: a model of each call path in the performance model normal form.

    f(p) = c0 + c1 * p^i * log2(p)^j

with the exponents that Extra-P tries (Calotoiu et al., SC 2013; Ritter et al., IPDPS 2020). The exponents that best
predict each value from the others are taken (leave-one-out). The growth of a cell has to exceed noise, as in
`runs.changes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError
from tracecols.runs.changes import SHUFFLES
from tracecols.runs.folder import in_words
from tracecols.runs.series import Floats, Series

FEWEST = 5
"""Number of different values of the parameter that a model needs."""

LARGEST = 1e90
"""Largest value to predict for: the largest terms, p^3 * log2(p)^2, and times are finite."""

ROUNDING = 1e-12
"""Values of a cell that are smaller, relative to its largest one, are due to rounding."""

POWERS = tuple(Fraction(n, 12) for n in (0, 3, 4, 6, 8, 9, 12, 15, 16, 18, 20, 21, 24, 27, 28, 30, 32, 33, 36))
LOGARITHMS = (0, 1, 2)
TERMS = tuple((i, j) for i in POWERS for j in LOGARITHMS if i or j)
"""Exponents of the parameter and of its logarithm."""


@dataclass(frozen=True)
class Growth:
    """The growth of the time of a cell."""

    property: str
    title: str
    call_path: str
    constant: float
    coefficient: float
    """`constant` and `coefficient`: c0 and c1: per thread, in the unit of the property. c1 is 0 if the cell does not
    grow."""
    term: tuple[Fraction, int]
    """i and j."""
    chance: float
    """How often noise alone fits as well in some cell."""
    measured: float
    predicted: float
    """`measured` and `predicted`: per thread, at the largest value of the parameter, and at the value that was asked
    for."""

    def formula(self, parameter: str) -> str:
        """Write the model as text."""
        if not self.coefficient:
            return f"{self.constant:.3g}"
        power, logarithm = self.term
        factors = [f"{self.coefficient:.3g}"]
        if self.constant:
            sign = "-" if self.coefficient < 0 else "+"
            factors = [f"{self.constant:.3g} {sign} {abs(self.coefficient):.3g}"]
        if power:
            exponent = f"{power}" if power.denominator == 1 else f"({power})"
            factors.append(parameter if power == 1 else f"{parameter}^{exponent}")
        if logarithm:
            factors.append(f"log2({parameter})" + ("" if logarithm == 1 else f"^{logarithm}"))
        return " * ".join(factors)


def find_growth(series: Series, at: float | None = None, rate: float = 0.05, min_share: float = 0.001) -> list[Growth]:
    """Model how the time per thread of each cell grows with the parameter of a series; the largest growth comes first.

    `at` is the value to predict for, by default eight times the largest one; `rate` is how often any of the models may
    be mere noise. Cells with less than `min_share` of the total in all runs are left out. Raises SeverityError if the
    parameter or `at` is not a positive number, or there are too few values.
    """
    p = _parameter(series)
    at = 8 * float(p[-1]) if at is None else at
    if not 0 < at <= LARGEST:
        raise SeverityError(
            f"models cannot predict for {series.along}={in_words(float(at))}\n"
            f"  give a positive number, {LARGEST:g} at most"
        )
    per_thread = series.per_thread()
    looked_at = series.looked_at(min_share)
    means = np.stack([per_thread[series.at(i)].mean(axis=0) for i in range(p.size)])[:, looked_at]
    errors = errors_of_terms(p)
    quality, term = best_terms(errors, means)
    chance = _chances(errors, means, quality)
    found = []
    for k, cell in enumerate(looked_at.tolist()):
        i, j = TERMS[term[k]]
        x = basis(p, i, j)
        grows = chance[k] <= rate
        slope, constant = np.polyfit(x, means[:, k], 1) if grows else (0.0, float(means[:, k].mean()))
        if abs(constant) <= ROUNDING * np.abs(means[:, k]).max():
            constant = 0.0
        predicted = float(constant + slope * basis(np.array([at]), i, j)[0])
        found.append(
            Growth(
                series.properties[cell],
                series.titles[cell],
                series.call_paths[cell],
                float(constant),
                float(slope),
                (i, j),
                float(chance[k]),
                float(means[-1, k]),
                predicted,
            )
        )
    return sorted(found, key=lambda growth: (growth.measured - growth.predicted, growth.call_path))


def _parameter(series: Series) -> Floats:
    """Return the values of the parameter of a series, ascending."""
    if not series.along:
        raise SeverityError(
            "no parameter varies among the runs\n  add runs with other values of one",
            in_shell="add runs with other values of one: tracecols runs add -P size=1000",
        )
    try:
        p = np.array([float(label) for label in series.labels])
    except ValueError:
        p = np.zeros(0)
    if p.size == 0 or p.min() <= 0:
        raise SeverityError(f"the values of {series.along} are not positive numbers\n  models need such a parameter")
    if p.size < FEWEST:
        raise SeverityError(
            f"{series.along} has {p.size} values, {', '.join(map(in_words, p.tolist()))}; a model needs {FEWEST}\n"
            "  add runs with other values"
        )
    return p


def basis(p: Floats, power: Fraction, logarithm: int) -> Floats:
    """Return p^i * log2(p)^j; (n,) float64."""
    result: Floats = p ** float(power) * np.log2(p) ** logarithm
    return result


def errors_of_terms(p: Floats) -> Floats:
    """Return a matrix for each of `TERMS`, which maps values without their mean to the errors of predicting each by the
    line through the others; (n_terms, n, n)."""
    x = np.stack([basis(p, *term) for term in TERMS])
    centred = x - x.mean(axis=1, keepdims=True)
    slope = centred / (centred**2).sum(axis=1, keepdims=True)
    leverage = 1 / p.size + centred * slope
    errors: Floats = (np.eye(p.size) - centred[:, :, None] * slope[:, None]) / (1 - leverage)[:, :, None]
    return errors


def best_terms(errors: Floats, values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Find the term of `TERMS` that predicts the values of each cell, (n, n_cells), best, from `errors_of_terms`.

    Its quality is the squared error of predicting each value from the others, divided by that of predicting it by their
    mean; 0 is best.
    """
    n = len(values)
    centred = values - values.mean(axis=0)
    constant = ((centred * n / (n - 1)) ** 2).sum(axis=0)
    error = ((errors @ centred) ** 2).sum(axis=1)
    best = error.argmin(axis=0)
    scale = (values**2).sum(axis=0)
    # values that differ by rounding only are constant
    is_constant = constant <= scale * ROUNDING**2
    return np.where(is_constant, 1.0, error.min(axis=0) / np.where(is_constant, 1.0, constant)), best


def _chances(errors: Floats, values: Floats, quality: Floats) -> Floats:
    """Return how often the best model of any cell is as good with shuffled values, by cell; (n_cells,) float64."""
    if not quality.size:
        return quality
    rng = np.random.default_rng(0)
    best = np.sort([best_terms(errors, values[rng.permutation(len(values))])[0].min() for _ in range(SHUFFLES)])
    return (1 + np.searchsorted(best, quality, "right")) / (1 + SHUFFLES)
