"""Parsers for values of options: numbers of locations, parameters, times, sizes, shares."""

from __future__ import annotations

import math
import re
from typing import TypeVar

import click

from tracecols.given.arguments import is_selection
from tracecols.given.quantities import ALL_UNITS, UNITS, in_bytes, quantity

Value = TypeVar("Value")

MOST = 10_000_000
"""Maximum length of a range of numbers."""


def numbers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[int] | list[str] | None:
    """Return locations given as numbers and ranges (0,1,4-7) as a sorted list; a text such as 'rank 0-3 thread 1' is
    returned unchanged, as the only element."""
    if value is None:
        return None
    if is_selection(value):
        return [value]
    found: set[int] = set()
    for part in value.split(","):
        ends = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if first > last:
            raise click.BadParameter(
                f"{part.strip()!r} is neither a number nor a range like 4-7, nor a text like 'rank 0'"
            )
        if last - first >= MOST:
            raise click.BadParameter(f"{part.strip()!r} are more locations than any trace has")
        found.update(range(first, last + 1))
    return sorted(found)


def share(_ctx: click.Context, _param: click.Parameter, value: str | float | None) -> float | None:
    """Return a share that is given as 5% or 0.05."""
    return _not_negative(value, "share", "a share such as 5% or 0.05")


def _not_negative(value: str | float | None, unit: str, words: str) -> float | None:
    """Return a quantity; refuse one that is not finite or negative."""
    found = 0.0 if value is None else quantity(value, UNITS[unit])
    if not math.isfinite(found) or found < 0:
        raise click.BadParameter(f"{value!r} is not {words}")
    return None if value is None else found


def part_of_whole(ctx: click.Context, param: click.Parameter, value: str | float | None) -> float | None:
    """Return a share; refuse one above 100 %."""
    found = share(ctx, param, value)
    if found is not None and found > 1:
        raise click.BadParameter(f"{value!r} is more than 100%: give a share such as 0.5% or 0.005")
    return found


def put_once(found: dict[str, Value], name: str, value: Value) -> None:
    """Add a value of an option that may be given several times; refuse a second one for the same name."""
    if name in found:
        raise click.BadParameter(f"{name} is given twice")
    found[name] = value


def parameters(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return values given as PROPERTY.NAME=VALUE by property and name."""
    result: dict[str, dict[str, float]] = {}
    for text in values:
        name, equals, value = text.partition("=")
        of, dot, name = name.strip().rpartition(".")
        number = quantity(value, ALL_UNITS)
        if not (equals and dot and of and name) or math.isnan(number):
            raise click.BadParameter(f"{text!r} is not of the form PROPERTY.NAME=VALUE, such as late_big.threshold=1MB")
        put_once(result.setdefault(of, {}), name, number)
    return result


def named_values(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str | float]:
    """Return values given as NAME=VALUE by name, as finite numbers if possible, else as texts."""
    found: dict[str, str | float] = {}
    for text in values:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals):
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE, such as size=1000")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        put_once(found, name, number if math.isfinite(number) else value)
    return found


def seconds(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return a time such as 10ms or 0.01 in seconds; for times of whole programs, whose natural unit is seconds."""
    return _not_negative(value, "seconds", "a time such as 0.3, 0.3s or 300ms, from 0 on")


def width(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the width of bins of time in seconds; refuse 0."""
    found = seconds(ctx, param, value)
    if found == 0:
        raise click.BadParameter(f"{value!r} is not a width such as 0.3, 0.3s or 300ms, above 0")
    return found


def latency(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return the latency of a message, such as 2us, in seconds; a unit is required, since seconds are never meant."""
    return _with_unit(value, "seconds", ("2us", "ms"))


def bandwidth(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return a bandwidth such as 10GB/s or 10GB in bytes per second."""
    if value is not None and re.search(r"[kKmMgG]i?b(/s)?\s*$", value):
        raise click.BadParameter(f"{value!r} could be bits: give bytes with a capital B, such as 10GB/s")
    return _with_unit(value and value.strip().removesuffix("/s"), "bytes", ("10GB/s", "MB/s"))


def size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Return a size such as 32KiB or 32768 in bytes."""
    if value is None:
        return None
    found = in_bytes(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a size such as 32768 or 32KiB, with a capital B")
    return found


def memory(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Return a memory limit such as 4GB or 512MiB in bytes."""
    from tracecols.given.memory import as_memory

    try:
        return as_memory(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _with_unit(value: str | None, counts: str, examples: tuple[str, str]) -> float | None:
    """Return a quantity; refuse a negative one, and one without a unit unless it is 0."""
    found = _not_negative(value, counts, f"of the form {examples[0]}")
    if found and math.isfinite(quantity(str(value), {"": 1})):
        raise click.BadParameter(f"{value!r} has no unit: write {examples[0]}, or another unit such as {examples[1]}")
    return found
