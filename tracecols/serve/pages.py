"""Answers of bounded length: facts, and as many rows of one table as fit; the next ones are a further page.

An answer is JSON. Control characters in names are escaped as in literals (`given.printable`), and long texts are
shortened with dots, so that the contents of a trace remain text and the answer remains short.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracecols.enhance.scan.paths import shortened
from tracecols.errors import TracecolsError
from tracecols.given.printable import one_line
from tracecols.report.tables import middle_out

MOST = 2_000
"""Maximum number of tokens of an answer, as estimated by `count_tokens`."""

HEAD = 900
"""Maximum number of these tokens used for the facts of an answer."""

SHORTER = ((400, 16), (160, 8), (64, 4), (24, 2))
"""Maximum numbers of characters of a text and of items of a list: the first pair with which the answer fits is
taken."""

LOOKED_AT = 4_000
"""Number of characters of a text that are processed: names may have millions."""

DIGITS = 9
"""Significant digits of numbers that are not integers."""

EXACT = 1 << 53
"""Integers below this are exact as floating-point numbers, such as sums returned by SQL."""

_PIECES = re.compile(r"[A-Z]?[a-z]{1,4}|[A-Z]{1,2}|[0-9]{1,3}|\s+|[^A-Za-z0-9\s]")


def count_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, rather too high: one for four lower-case or two capital letters, for
    three digits, for each other character, and for each byte of non-ASCII characters."""
    n_pieces = sum(1 for _ in _PIECES.finditer(text))
    return n_pieces + len(text.encode("utf-8", "surrogatepass")) - len(text)


@dataclass(frozen=True)
class Listing:
    """The rows of a table: all of them, or those from row `before` on."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    """Values by column; all rows have the same columns."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units by column, for columns that have one."""
    before: int = 0
    """Number of rows before the first one here."""
    total: int | None = None
    """Number of rows of the table; None if unknown."""


def shorter(value: Any, width: int, items: int) -> Any:
    """Return a value for JSON with texts cut to `width` characters and lists to `items` items; numbers are rounded to
    `DIGITS`."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if value.is_integer() and abs(value) < EXACT:
            return int(value)
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        kept = list(value.items())[:items]
        found = {shorter_text(str(k), width): shorter(v, width, items) for k, v in kept}
        return found | ({"...": f"{len(value) - items} more"} if len(value) > items else {})
    if isinstance(value, list | tuple):
        more = [f"... {len(value) - items} more"] if len(value) > items else []
        return [*(shorter(v, width, items) for v in value[:items]), *more]
    return shorter_text(str(value), width)


def shorter_text(text: str, width: int) -> str:
    """Return a text as one line without control characters; a long call path is shortened to its last names, another
    long text to its begin and end."""
    text = one_line(middle_out(text, LOOKED_AT))
    return middle_out(shortened(text, width), width)


def as_json(value: Any) -> str:
    """Write a value as compact JSON, with non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _head(facts: Mapping[str, Any], most: int) -> str:
    """Write facts, one per line, in at most `most` tokens; the last ones are left out if even the shortest form is too
    long."""
    lines: list[str] = []
    for width, items in SHORTER:
        lines = [f"{as_json(shorter_text(k, width))}:{as_json(shorter(v, width, items))},\n" for k, v in facts.items()]
        if count_tokens("".join(lines)) <= most:
            break
    kept = ""
    for line in lines:
        if count_tokens(kept + line) > most:
            break
        kept += line
    return kept


def page(facts: Mapping[str, Any], listing: Listing, more: str = "") -> str:
    """Write an answer as JSON of at most `MOST` tokens: facts, shortened to `HEAD` tokens, and as many rows of a table
    as fit.

    `more` is a sentence on how to narrow or change the answer. Raises TracecolsError if not even one row fits, since
    the table has too many columns.
    """
    head = _head(facts, HEAD)
    columns = list(listing.rows[0]) if listing.rows else []
    for width, items in SHORTER:
        front = "{\n" + head + f'"table":{as_json(one_line(listing.name))},\n'
        front += f'"columns":{as_json(shorter(columns, width, len(columns)))},\n'
        front += f'"units":{as_json(dict(listing.units))},\n"rows":[\n'
        # reserve tokens for the longer of the two longest ends; 8 are for the brackets between
        ends = (_end(listing, n, more) for n in (len(listing.rows), len(listing.rows) - 1) if n >= 0)
        left = MOST - count_tokens(front) - max(map(count_tokens, ends)) - 8
        shown: list[str] = []
        for row in listing.rows:
            line = as_json([shorter(row[c], width, items) for c in columns])
            left -= count_tokens(line) + 2
            if left < 0:
                break
            shown.append(line)
        if shown or (not listing.rows and left >= 0):
            return front + ",\n".join(shown) + "\n]," + _end(listing, len(shown), more) + "}"
    raise TracecolsError(f"a row has {len(columns):,} columns, more than an answer holds\n  ask for fewer columns")


def _end(listing: Listing, n_shown: int, more: str) -> str:
    """Return the end of an answer: which rows are shown, and how to get others."""
    first, last = listing.before + 1, listing.before + n_shown
    known = listing.before + len(listing.rows)
    total = "" if listing.total is None else f" of {max(listing.total, known):,}"
    shown = f"rows {first:,} to {last:,}{total}" if n_shown else f"no rows{total}"
    following = f"first={last + 1} for the next rows; " if n_shown < len(listing.rows) else ""
    return f'\n"shown":{as_json(shown)},\n"more":{as_json(one_line(following + more))}\n'
