"""Declaration of rules: the rules, their input, and their results.

Source: the 1999 EXPERT class library, section 4. A rule has a severity in seconds and a confidence; many name the
statements that show the behaviour. A *statement* is a call path that communicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.given.parameters import Parameter
from tracecols.severity.cells import Cells
from tracecols.severity.reduction import reduce_at

if TYPE_CHECKING:
    from tracecols.patterns.base import Property
    from tracecols.severity import SeverityCube
    from tracecols.trace import Trace


@dataclass(frozen=True)
class Statement:
    """A call path or operation that a rule names, with the quantity the rule looks at, and its cost in seconds.

    Parameters
    ----------
    name : str
        A call path or operation.
    value : float
        The quantity that the rule looks at.
    unit : str
        What the value counts: seconds, bytes, share, ...
    severity : float
        Cost in seconds.
    """

    name: str
    value: float
    unit: str
    severity: float


@dataclass(frozen=True)
class Result:
    """The result of the function of a rule: severity in seconds, statements, and a note.

    Parameters
    ----------
    severity : float
        Seconds over all locations.
    statements : sequence of Statement
        The costliest first.
    note : str
        What was left out.
    """

    severity: float
    statements: Sequence[Statement] = ()
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """The result of a rule for a program.

    Attributes
    ----------
    rule, title : str
    severity : float
        Seconds over all locations; NaN if the rule could not be evaluated.
    share : float
        Severity as a share of the time of the region that was looked at.
    confidence : float
        How reliably the severity proves the behaviour, 0 to 1.
    statements : tuple of Statement
        The costliest first.
    parameters : mapping
        The values of the parameters.
    note : str
        What was left out, or why the rule could not be evaluated.
    """

    rule: str
    title: str
    severity: float
    share: float
    confidence: float
    statements: tuple[Statement, ...]
    parameters: Mapping[str, float | str]
    note: str


@dataclass(frozen=True)
class Rule:
    """A named performance property.

    Attributes
    ----------
    id, title, summary : str
    evaluate : callable
        `evaluate(evidence, **parameters)` returns a `Result`.
    parameters : mapping of str to Parameter
        Parameters of the function, by name.
    needs : str
        `cube`, or `trace` for tables that only the store has.
    confidence : float
    measures : str
        The meaning of the value of a statement.
    properties : callable, optional
        `properties(**parameters)`: properties the analysis has to compute besides those of its conventions.
    """

    id: str
    title: str
    summary: str
    evaluate: Callable[..., Result]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    needs: str = "cube"
    confidence: float = 1.0
    measures: str = ""
    properties: Callable[..., list[Property]] | None = None


@dataclass
class Evidence:
    """The input of rules: a cube, its trace if there is one, and the call paths of the region in question.

    Attributes
    ----------
    cube : SeverityCube
    trace : Trace or None
    within : (n_call_paths,) bool
        The region in question, and all that it calls.
    settings : mapping
        Parameters by rule.
    results : dict of str to Result
        Results of the rules that were evaluated, by id.

    Other Parameters
    ----------------
    name : str
        Id of a property.
    cells : Cells
        Cells of the cube.
    rule : Rule
    """

    cube: SeverityCube
    trace: Trace | None
    within: NDArray[np.bool_]
    settings: Mapping[str, Mapping[str, float | str]]
    results: dict[str, Result] = field(default_factory=dict)

    def cells(self, name: str) -> Cells:
        """Return the cells of a property in the region; empty if the conventions do not have it."""
        cells = self.cube.cells.get(name)
        return Cells.empty() if cells is None else cells.on(self.within)

    def seconds(self, cells: Cells) -> float:
        """Add up cells of times."""
        return float(cells.total()) / self.cube.resolution

    def by_call_path(self, cells: Cells) -> NDArray[np.float64]:
        """Add up cells per call path, in their own unit; (n_call_paths,) float64."""
        return reduce_at(cells.call_path, cells.value, len(self.cube.call_paths)).astype(np.float64)

    def result(self, rule: Rule) -> Result:
        """Evaluate a rule, once."""
        if rule.id not in self.results:
            self.results[rule.id] = rule.evaluate(self, **self.settings[rule.id])
        return self.results[rule.id]


def rule(id: str, title: str, summary: str, **more: Any) -> Callable[[Callable[..., Result]], Rule]:
    """Declare a rule that a function evaluates; use as a decorator, which returns the rule.

    Parameters
    ----------
    id, title, summary : str
        See `Rule`.
    **more
        Further attributes of `Rule`: `parameters`, `needs`, `confidence`, `measures`, `properties`.
    """

    def declare(function: Callable[..., Result]) -> Rule:
        return Rule(id, title, summary, function, **more)

    return declare


def rules_in(module: ModuleType) -> list[Rule]:
    """Return the rules that a module declares, in the order of their declaration.

    Parameters
    ----------
    module : module
        A module that declares rules with `rule`.
    """
    return [found for found in vars(module).values() if isinstance(found, Rule)]
