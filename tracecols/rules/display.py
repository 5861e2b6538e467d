"""Verdicts in the terminal: the costliest rule first, each with its statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from tracecols.enhance.scan.paths import fitted
from tracecols.given.quantities import in_words
from tracecols.rules.base import Verdict
from tracecols.rules.evaluate import RULES

WIDE, LEAST = 200, 20
"""Default number of columns of a line, and minimum number of columns of a call path in it."""


def render(verdicts: Iterable[Verdict], n_statements: int = 3, width: int = WIDE) -> Iterator[RenderableType]:
    """Yield lines of text: the rules that found something, ranked; then those that did not, and those that could not be
    evaluated.

    Each rule has at most `n_statements`; lines take `width` columns, those that name a rule with its parameters
    possibly more.
    """
    ranked = sorted(verdicts, key=lambda f: -np.nan_to_num(f.severity))
    found = [f for f in ranked if f.severity > 0]
    for f in found:
        yield from _lines(f, n_statements, width)
    nothing = [f for f in ranked if f.severity == 0]
    if nothing:
        yield Text(("\n" if found else "") + "nothing found: " + ", ".join(f.rule for f in nothing), "dim")
    for f in ranked:
        if f.note and not f.severity > 0:
            yield Text(f"{f.rule}: {f.note}", "yellow" if np.isnan(f.severity) else "dim")


def _lines(f: Verdict, n_statements: int, width: int) -> Iterator[Text]:
    """Yield a rule, its statements and its note."""
    rule = RULES[f.rule]
    line = Text(f"{f.share:8.2%}{f.severity:14.6f} s  ").append(f.title, "bold").append(f"  {f.rule}", "dim")
    given = {name: p.show(f.parameters[name]) for name, p in rule.parameters.items()}
    settings = [f"{name} {value}" for name, value in given.items() if value]
    if settings:
        line.append("  " + ", ".join(settings), "dim")
    if f.confidence < 1:
        line.append(f"  confidence {f.confidence:g}", "dim")
    yield line
    for s in f.statements[:n_statements]:
        front, measured = f"{s.severity:22.6f} s    ", f"  {in_words(s.value, s.unit)} {rule.measures}"
        name = fitted(s.name, max(width - len(front) - len(measured), LEAST))
        yield Text(front + name).append(measured, "dim")
    if len(f.statements) > n_statements:
        yield Text(f"{'':26}  and {len(f.statements) - n_statements} more; --rows shows them", "dim")
    if f.note:
        yield Text(f"{'':26}  {f.note}", "dim")
