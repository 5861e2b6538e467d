"""Metrics that are computed from others: formulas of `+ - * /`, `min` and `max`, as in METRICS.SPEC of EXPERT and
expressions of Cube (CubePL)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError
from tracecols.given.arguments import show

LONGEST = 10_000
"""Maximum number of characters of a formula."""

DEEPEST = 100
"""Maximum nesting depth of a formula, and number of operators in a row."""

TOKEN = (
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|metric::(?P<metric>[^()]+)\(\s*\)"
    r"|(?P<name>[A-Za-z_][\w.:~@]*)"
    r"|\"(?P<quoted>[^\"]+)\""
    r"|(?P<sign>[-+*/(),])|(?P<end>$))"
)
"""Regular expression of the tokens of a formula: numbers, metrics (`time`, `metric::time()`, `"any name"`) and signs.
It is compiled only when a formula is read."""

PLAIN = re.compile(r"[A-Za-z_][\w.:~@]*")
FUNCTIONS = ("min", "max")
SIGNS = {"+": 1, "-": 1, "*": 2, "/": 2}
"""Precedence of operators."""

Values = NDArray[np.float64]


class Formula(NamedTuple):
    """A number, a metric, or an operation on other formulas."""

    operation: str
    """`number`, `metric`, one of `+ - * /`, `min` or `max`."""
    of: Any
    """The number, the name of the metric, or the operands: two, or one of `-`."""

    def names(self) -> Iterator[str]:
        """Yield the metrics that it is computed from, from left to right."""
        return (part.of for part in self.postfix() if part.operation == "metric")

    def postfix(self) -> Iterator[Formula]:
        """Yield its parts, each after its operands."""
        if self.operation not in ("metric", "number"):
            for operand in self.of:
                yield from operand.postfix()
        yield self

    def replaced(self, of: Callable[[str], Formula]) -> Formula:
        """Return the formula with each metric replaced by a formula."""
        if self.operation == "metric":
            return of(self.of)
        if self.operation == "number":
            return self
        return Formula(self.operation, tuple(operand.replaced(of) for operand in self.of))

    def expanded(self, formula_of: Callable[[str], Formula | None]) -> Formula:
        """Return the formula with metrics replaced by their own formulas, if they have one."""

        def of(name: str) -> Formula:
            inner = formula_of(name)
            return Formula("metric", name) if inner is None else inner.replaced(of)

        return self.replaced(of)

    def text(self, metric: Callable[[str], str] | None = None) -> str:
        """Return the formula as text; `metric` writes the metrics, by default by their names."""
        write = metric or (lambda name: name if is_plain(name) else f'"{name}"')
        if self.operation == "metric":
            return write(self.of)
        if self.operation == "number":
            return f"{self.of:.17g}"
        written = [operand.text(metric) for operand in self.of]
        if self.operation in FUNCTIONS:
            return f"{self.operation}({', '.join(written)})"
        if len(written) == 1:
            return f"(-({written[0]}))" if self.of[0].operation in SIGNS else f"(-{written[0]})"
        right = self.of[1]
        binds_less = SIGNS.get(right.operation, 3) <= SIGNS[self.operation]
        left = f"({written[0]})" if SIGNS.get(self.of[0].operation, 3) < SIGNS[self.operation] else written[0]
        return f"{left} {self.operation} {f'({written[1]})' if binds_less else written[1]}"

    def evaluate(self, value_of: Callable[[str], Any]) -> Values:
        """Return its value, given those of metrics: numbers or arrays of one shape. As in Cube, 0 divided by anything
        is 0, and anything else divided by 0 is nan."""
        if self.operation == "number":
            return np.asarray(self.of, np.float64)
        if self.operation == "metric":
            return np.asarray(value_of(self.of), np.float64)
        operands = [operand.evaluate(value_of) for operand in self.of]
        return np.asarray(-operands[0]) if len(operands) == 1 else OPERATIONS[self.operation](*operands)

    def unit(self, unit_of: Callable[[str], str]) -> str:
        """Return the unit of its value, given those of metrics; empty if it has none, or none that can be named."""
        if self.operation == "number":
            return ""
        if self.operation == "metric":
            return unit_of(self.of)
        units = [operand.unit(unit_of) for operand in self.of]
        is_number = [operand.operation == "number" for operand in self.of]
        if self.operation == "/":
            if is_number[1]:
                return units[0]
            return "" if units[0] == units[1] else f"{units[0] or '1'}/{units[1] or '1'}"
        if self.operation == "*" and any(is_number):
            return units[is_number[0]]
        return units[0] if len(set(units)) == 1 and self.operation != "*" else ""


def _quotient(one: Values, other: Values) -> Values:
    with np.errstate(all="ignore"):
        return np.where(one == 0, 0.0, np.where(other == 0, np.nan, one / np.where(other == 0, 1, other)))


OPERATIONS: dict[str, Callable[[Values, Values], Values]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _quotient,
    "min": np.minimum,
    "max": np.maximum,
}


def is_plain(name: str) -> bool:
    """Return whether the name of a metric can be written without quotes."""
    return bool(PLAIN.fullmatch(name)) and name not in FUNCTIONS


def parse(text: str) -> Formula:
    """Parse a formula: numbers and names of metrics with `+ - * /`, parentheses, `min(A, B)` and `max(A, B)`; names
    that are not words in quotation marks; `metric::NAME()` as in CubePL. Raises SeverityError, with the position, if it
    is malformed."""
    reader = _Reader(text)
    result = reader.sum(0)
    if reader.kind != "end":
        raise reader.error("an operator is missing")
    return result


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, text: str) -> None:
        self.whole, self.at, self._token = text, 0, re.compile(TOKEN)
        if len(text) > LONGEST:
            raise SeverityError(f"a formula has more than {LONGEST:,} characters\n  compute it in several metrics")
        self.step()

    def step(self) -> None:
        self.begin = len(self.whole) - len(self.whole[self.at :].lstrip())
        found = self._token.match(self.whole, self.at)
        if found is None:
            raise self.error("it has a character that means nothing there")
        self.at = found.end()
        self.kind = str(found.lastgroup)
        self.token = found[self.kind]

    def error(self, what: str) -> SeverityError:
        """Return the error that says what is wrong, and where."""
        return SeverityError(
            f"{show(self.whole)} is no formula: {what}, at character {self.begin + 1}\n"
            "  a formula has names of metrics, numbers, + - * /, parentheses, min(A, B) and max(A, B)"
        )

    def is_sign(self, signs: str) -> bool:
        return self.kind == "sign" and self.token in signs

    def sum(self, depth: int) -> Formula:
        """Read terms with `+` and `-` in between."""
        if depth > DEEPEST:
            raise self.error(f"it nests more than {DEEPEST} deep")
        return self.chain("+-", lambda: self.chain("*/", lambda: self.factor(depth)))

    def chain(self, signs: str, operand: Callable[[], Formula]) -> Formula:
        """Read operands with operators in between, which are applied from left to right."""
        result, n = operand(), 0
        while self.is_sign(signs):
            operation = self.token
            self.step()
            result, n = Formula(operation, (result, operand())), n + 1
            if n > DEEPEST:
                raise self.error(f"it has more than {DEEPEST} operators in a row")
        return result

    def factor(self, depth: int) -> Formula:
        """Read a number, a metric, a function, or something in parentheses."""
        kind, token = self.kind, self.token
        if self.is_sign("-+"):
            self.step()
            of = self.factor(depth + 1) if depth < DEEPEST else self.sum(depth + 1)
            return of if token == "+" else Formula("-", (of,))
        if self.is_sign("("):
            return self.arguments(depth, 1)[0]
        if kind == "end" or kind == "sign":
            raise self.error("a metric or a number is missing")
        if kind == "number" and math.isinf(float(token)):
            raise self.error("a number is too large")
        self.step()
        if kind == "number":
            return Formula("number", float(token))
        if kind == "name" and token in FUNCTIONS:
            return Formula(token, self.arguments(depth, 2))
        return Formula("metric", token)

    def arguments(self, depth: int, n: int) -> tuple[Formula, ...]:
        """Read `n` formulas in parentheses."""
        found: list[Formula] = []
        for sign in ("(", *"," * (n - 1)):
            if not self.is_sign(sign):
                raise self.error(f"{sign!r} is missing")
            self.step()
            found.append(self.sum(depth + 1))
        if not self.is_sign(")"):
            raise self.error("')' is missing")
        self.step()
        return tuple(found)


def definition(text: str) -> tuple[str, Formula]:
    """Parse a definition, `NAME = FORMULA`; return name and formula. Raises SeverityError if it is malformed."""
    name, equals, formula = text.partition("=")
    name = name.strip().strip('"')
    if not equals or not name:
        raise SeverityError(
            f'{show(text)} defines no metric\n  write NAME = FORMULA, such as "ipc = PAPI_TOT_INS / PAPI_TOT_CYC"'
        )
    return name, parse(formula)


def specification(lines: Iterable[str]) -> list[tuple[str, Formula]]:
    """Read a file of definitions, as METRICS.SPEC of EXPERT: a line for each, with `measure`, `compose` or `compute`
    before it or nothing; `aggroup` lines, which say what to record together, are skipped. Raises SeverityError, with
    the number of the line, if one is malformed."""
    found = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        word, _, rest = text.partition(" ")
        if not text or word.lower() == "aggroup":
            continue
        try:
            found.append(definition(rest if word.lower() in ("measure", "compose", "compute") else text))
        except SeverityError as error:
            raise SeverityError(f"line {number}: {error}") from error
    return found
