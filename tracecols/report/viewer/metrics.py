"""Properties computed from others, as evaluated by the viewer: formulas in postfix order over the sums of properties
that add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracecols.severity.cube import SeverityCube
from tracecols.severity.formulas import LONGEST, Formula, parse


@dataclass(frozen=True)
class Metric:
    """A property that is computed from others."""

    row: dict[str, str]
    """`id`, `title`, `unit` and `summary` (`PropertyAxis.with_rows`)."""
    formula: Formula
    """Its operands are properties that add up."""
    operands: tuple[int, ...]
    """Numbers of the operands among the properties of the cube that add up."""
    names: tuple[str, ...]
    """Ids of the operands."""

    def postfix(self) -> list[Any]:
        """Return the formula as the viewer reads it: numbers, `[k]` for the k-th operand, and operations."""

        def item(part: Formula) -> Any:
            if part.operation == "metric":
                return [self.names.index(part.of)]
            if part.operation == "number":
                return part.of
            return "negative" if len(part.of) == 1 else part.operation

        return [item(part) for part in self.formula.postfix()]

    def stored(self, *, is_divided: bool) -> dict[str, Any]:
        """Return the header's entry for its values: the formula; there are no stored values."""
        nothing: dict[str, Any] = {"kind": "float", "scale": 1, "total": "0", "whole": 0.0, "rows": 0, "cells": 0}
        periods = {"periods": {"runs": 0, "cells": 0, "widths": []}} if is_divided else {}
        formula = {"postfix": self.postfix(), "operands": list(self.operands)}
        return nothing | {"widths": [[], []], "formula": formula} | periods


def metrics_of(cube: SeverityCube) -> list[Metric]:
    """Return the properties of a cube that are computed, directly or via others, from properties that add up; those
    whose expanded formula has more than `LONGEST` parts are left out."""
    p = cube.properties
    number = {name: i for i, name in enumerate(name for name in p.id if p.adds_up(name))}

    def formula_of(name: str) -> Formula | None:
        return parse(p.formula[p.number[name]]) if p.is_computed(name) else None

    sizes: dict[str, int] = {}

    def size_of(name: str) -> int:
        """Return the number of parts of a property's formula with all computed operands expanded."""
        if name not in sizes:
            formula = formula_of(name)
            parts = [] if formula is None else list(formula.postfix())
            sizes[name] = max(1, sum(size_of(part.of) if part.operation == "metric" else 1 for part in parts))
        return sizes[name]

    found = []
    for i, name in enumerate(p.id):
        if not p.is_computed(name) or size_of(name) > LONGEST:
            continue
        formula = Formula("metric", name).expanded(formula_of)
        names = tuple(dict.fromkeys(formula.names()))
        if names and number.keys() >= set(names):
            operands = tuple(number[operand] for operand in names)
            row = {"id": name, "title": p.title[i], "unit": p.unit[i], "summary": p.summary[i]}
            found.append(Metric(row, formula, operands, names))
    return found


def left_out_of(cube: SeverityCube) -> list[str]:
    """Return the properties of a cube that a report leaves out: they neither add up nor are computed from properties
    that do."""
    computed = {metric.row["id"] for metric in metrics_of(cube)}
    return [name for name in cube.properties.id if not cube.properties.adds_up(name) and name not in computed]
