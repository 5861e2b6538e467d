"""Answers: data frames with declared columns and a matching plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tracecols.schema import Table


class Drawing:
    """The `plot` accessor of an answer: a call draws the picture that fits the question; the attributes are those of
    the pandas accessor (`plot.bar`)."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __repr__(self) -> str:
        return f"<Drawing of {self._answer.question or 'a frame'}: call it, or a method of pandas such as plot.bar>"

    def __call__(self, *arguments: Any, ax: Any = None, **options: Any) -> Any:
        """Draw the picture of the question with matplotlib, in a new figure if no axes are given; other arguments are
        passed to the `plot` of pandas. Raises MissingExtraError if matplotlib (extra `plot`) is not installed."""
        from tracecols.verbs.pictures import PICTURES, axes

        picture = PICTURES.get(self._answer.question)
        # subdomains take the place of ranks
        columns = {name.replace("subdomain", "rank") for name in self._answer.columns} | set(self._answer.columns)
        if picture is None or arguments or options or not picture.needs <= columns:
            return pd.DataFrame(self._answer).plot(*arguments, ax=axes(ax), **options)
        return picture.draw(self._answer, axes(ax))

    def __getattr__(self, name: str) -> Any:
        return getattr(pd.DataFrame(self._answer).plot, name)


class Answer(pd.DataFrame):  # type: ignore[misc]
    """The answer to a question about a trace: a data frame; `plot()` draws it.

    A selection of its rows and columns is an answer as well. If columns that the picture needs are missing, `plot` is
    that of pandas.
    """

    # pandas copies these attributes to frames derived from this one
    _metadata = ["question"]
    question: str = ""
    """Name of the method of `Trace` that returned the answer; empty for frames computed from an answer."""

    @property
    def _constructor(self) -> type[Answer]:
        return Answer

    @property
    def plot(self) -> Drawing:
        """The accessor that draws the answer (`Drawing`)."""
        return Drawing(self)


def answer(table: Table, columns: Mapping[str, Any]) -> Answer:
    """Make an answer from its columns; some declared columns may be missing."""
    unknown = set(columns) - set(table.names)
    if unknown:
        raise TypeError(f"the answer {table.name} has no columns {sorted(unknown)}")
    found: dict[str, Any] = {}
    for c in table.columns:
        if c.name in columns:
            values = columns[c.name]
            if c.dtype not in ("category", "Int32", "Int64"):
                values = values.astype(c.dtype, copy=False)
            found[c.name] = values
    result = Answer(found)
    result.question = table.name
    return result


def sorted_by(made: Answer, *columns: str) -> Answer:
    """Sort an answer by columns, the largest first; the sort is stable."""
    result: Answer = made.sort_values(list(columns), ascending=False, kind="stable", ignore_index=True)
    return result
