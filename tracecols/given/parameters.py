"""Parameters of patterns and of rules: numbers and texts passed to functions that are found by a declaration."""

from __future__ import annotations

import math
from typing import NamedTuple

from tracecols.errors import TracecolsError
from tracecols.given.quantities import UNITS, in_words, quantity

COUNTS = {"sec": "seconds", "bytes": "bytes", "occ": "occurrences", "share": "share", "rank": "rank"}
"""What a parameter counts (`quantities.UNITS`), by its unit."""


class Parameter(NamedTuple):
    """A number or text that a pattern or a rule can be given.

    Attributes
    ----------
    default : float, int or str
        The value if none is given. Parameters of patterns are numbers.
    unit : str
        `sec`, `bytes`, `occ`, `share` (of 1), `rank`, or empty for a ratio or a text. The function of a pattern gets
        seconds as whole ticks, as the times of tables are.
    doc : str
        What the parameter decides.
    """

    default: float | str
    unit: str
    doc: str

    def read(self, name: str, value: float | str, error: type[TracecolsError]) -> float | str:
        """Convert a value as a user gives it to the parameter's unit: 1MB, 10us, 5%.

        Parameters
        ----------
        name : str
            Name of the parameter, for the error.
        value : float or str
            A number in the parameter's unit, or a text with its own unit.
        error : type
            The error to raise if the value is no such quantity.

        Returns
        -------
        float, int or str
            A rank is an int.
        """
        if isinstance(self.default, str):
            return str(value)
        counts = COUNTS.get(self.unit, "")
        units = UNITS.get(counts, UNITS[""])
        number = quantity(value, units)
        if not (math.isfinite(number) and number >= 0 and (self.unit != "rank" or number == int(number))):
            known = " ".join(u for u in units if u)
            raise error(
                f"{value!r} is not a value for {name}"
                + (f", which counts {counts}" if counts else "")
                + "\n  give a number"
                + (f", with a unit after it or without: {known}" if known else "")
            )
        return int(number) if self.unit == "rank" else number

    def show(self, value: float | str) -> str:
        """Return a value as text for people.

        Parameters
        ----------
        value : float, int or str
            In the parameter's unit.
        """
        return str(value) if isinstance(value, str) or not self.unit else in_words(value, COUNTS.get(self.unit, ""))
