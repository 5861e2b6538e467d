"""Make arbitrary text safe to show: names of regions and files come from whoever wrote the trace.

A terminal obeys control characters, and any display reorders text by the marks of bidirectional writing. They are shown
as Python writes them in literals, such as ``\\u001b``.
"""

from __future__ import annotations

import math
import re
from typing import Any

_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, C0 without tabulator and end of line, and C1
    # marks of formats
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff"  # bytes of names that are no UTF-8
    "\ufffe\uffff"  # no characters; pictures (SVG) with these cannot be read
)
"""None of these is printable by the rules of Python. The expression is compiled only for text that may contain one:
compiling takes 2 of the 80 ms of a command that does nothing else."""


def _literal(found: re.Match[str]) -> str:
    """Write a character as in literals of both Python and JSON: the output may be JSON."""
    character, code = found[0], ord(found[0])
    return {"\t": "\\t", "\n": "\\n"}.get(character, f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}")


def printable(text: str) -> str:
    """Return text with characters that control a display written as in literals of Python; ends of lines and tabulators
    stay.

    Examples
    --------
    >>> printable("do_work\\x1b[2J")
    'do_work\\\\u001b[2J'
    """
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return re.sub(f"[{_HIDDEN}]", _literal, text)


def one_line(text: str) -> str:
    """Return a name as `printable` does, ends of lines and tabulators written as in literals as well.

    Examples
    --------
    >>> one_line("two\\nlines")
    'two\\\\nlines'
    """
    return text if text.isprintable() else re.sub(f"[{_HIDDEN}\t\n]", _literal, text)


def escaped(text: str) -> str:
    """Return text for HTML: `printable`, and nothing in it is a tag.

    Examples
    --------
    >>> escaped("vector<int>")
    'vector&lt;int&gt;'
    """
    # imported only for pages, since all commands import this module
    from html import escape

    return escape(printable(text))


def finite(value: Any) -> Any:
    """Return plain values for JSON, which has neither NaN nor infinity: they become None.

    Examples
    --------
    >>> finite({"ratios": [0.5, float("nan")]})
    {'ratios': [0.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [finite(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
