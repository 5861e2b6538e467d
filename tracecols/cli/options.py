"""What several commands are given: numbers of locations, parameters."""

from __future__ import annotations

import math

import click

from tracecols.quantities import ALL_UNITS, quantity


def numbers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[int] | None:
    """Return what is given as numbers and ranges, 0,1,4-7, in order."""
    if value is None:
        return None
    found: set[int] = set()
    for part in value.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not (last.isdigit() and int(first) <= int(last))):
            raise click.BadParameter(f"{part.strip()!r} is neither a number nor a range like 4-7")
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def parameters(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return what is given as PROPERTY.NAME=VALUE, by property and name."""
    result: dict[str, dict[str, float]] = {}
    for text in values:
        name, equals, value = text.partition("=")
        of, dot, name = name.strip().rpartition(".")
        number = quantity(value, ALL_UNITS)
        if not (equals and dot and of and name) or math.isnan(number):
            raise click.BadParameter(f"{text!r} is not of the form PROPERTY.NAME=VALUE, such as late_big.threshold=1MB")
        result.setdefault(of, {})[name] = number
    return result
