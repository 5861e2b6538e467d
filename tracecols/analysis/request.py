"""The request for an analysis, the same for Python and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tracecols.enhance.definitions.topologies import each_of
from tracecols.enhance.scan.periods import ask
from tracecols.errors import AnalysisError
from tracecols.given.arguments import as_texts
from tracecols.patterns.base import Family
from tracecols.patterns.plugins import installed, load_all
from tracecols.patterns.registry import ids_of
from tracecols.replay.efficiencies import check_replayed
from tracecols.schema.severity import DEFAULT
from tracecols.search.checks import check_choice
from tracecols.search.choice import EVERYTHING, Choice, check_conventions, choose
from tracecols.severity.formulas import definition
from tracecols.store import Store

NAMED = ("regions", "metric_members")
"""Definition tables with the names that a request refers to."""


def names_in(store: Store) -> dict[str, list[str]]:
    """Return the names that a request may refer to, by definition table."""
    return {table: store.names(table) for table in NAMED}


class Request(NamedTuple):
    """The request for an analysis, checked as far as that is possible without a trace."""

    conventions: str = DEFAULT
    """Whose rules to follow where analysers differ."""
    choice: Choice = EVERYTHING
    """What the search is narrowed to: properties, parameters, call paths, locations, a time range; and the periods that
    divide it."""
    families: tuple[Family, ...] = ()
    """Patterns besides those that are built in or installed."""
    topologies: tuple[Mapping[str, Any], ...] = ()
    """Grids that the trace does not define (`enhance.definitions.topologies.given_topology`)."""
    ideal_network: bool = False
    """Whether to replay the trace on an ideal network as well, and to keep the efficiencies that follow."""
    metrics: tuple[str, ...] = ()
    """Definitions of properties that are computed from others (`severity.formulas`)."""

    @classmethod
    def of(
        cls,
        defined: Mapping[str, Sequence[str]],
        conventions: str = DEFAULT,
        *,
        patterns: Family | str | Path | Iterable[Family | str | Path] = (),
        properties: str | Iterable[str] | None = None,
        parameters: Mapping[str, Mapping[str, float]] | None = None,
        topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        phases: str | None = None,
        bins: int | None = None,
        bin_width: float | None = None,
        ideal_network: bool = False,
        metrics: str | Iterable[str] = (),
        **narrowed: Any,
    ) -> Request:
        """Make a request from the arguments of a caller, which are those of `Trace.analyze`; `narrowed` are `within`,
        `locations`, `start` and `stop`.

        `defined` are the names that the trace defines, by definition table: `regions` and `metric_members`. Raises
        AnalysisError if an argument is of the wrong kind, names something that does not exist, or contradicts another
        one.
        """
        check_conventions(conventions)
        families = tuple(load_all(patterns))
        choice = choose(properties, parameters, periods=ask(phases, bins, bin_width), **narrowed)
        ids = ids_of(conventions, (*installed(), *families), defined["metric_members"])
        computed = tuple(as_texts(metrics, "metrics", AnalysisError))
        choice = choice.with_properties(operands_of(computed, ids)).named_by(ids)
        check_choice(choice, defined["regions"], conventions, families)
        if ideal_network:
            check_replayed(choice.properties, [choice.locations])
        return cls(conventions, choice, families, each_of(topologies), ideal_network, computed)

    def facts(self) -> dict[str, Any]:
        """Return the facts of the cube about how it was made."""
        return {"conventions": self.conventions, "narrowed": self.choice.facts()}


def operands_of(metrics: Iterable[str], ids: Callable[[str], list[str]]) -> list[str]:
    """Return the properties that metrics are computed from, by the names used; a metric may also use those defined
    before it. `ids` finds the ids of a property (`patterns.registry.ids_of`). Raises SeverityError if a definition is
    malformed. Raises AnalysisError if there is no such property, or several have a title."""
    defined: set[str] = set()
    found: list[str] = []
    for text in metrics:
        name, formula = definition(text)
        operands = [operand for operand in formula.names() if operand not in defined]
        for operand in operands:
            ids(operand)
        found += operands
        defined.add(name)
    return found
