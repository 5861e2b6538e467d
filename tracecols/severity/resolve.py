"""Lookup of properties by name: by id, or by a title that no other property has.

Root causes have the titles of the waits they belong to, as in other tools. A title that they share with one other
property refers to that property; root causes are found by id.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tracecols.errors import TracecolsError
from tracecols.given.arguments import show

if TYPE_CHECKING:
    from tracecols.severity.axes import PropertyAxis


def title_path(axis: PropertyAxis, name: str) -> str:
    """Return the titles from the root down to a property: Time / Execution / MPI."""
    return " / ".join(axis.title_of(at) for at in reversed([name, *axis.above(name)]))


def fitting(axis: PropertyAxis, name: object) -> list[str]:
    """Return the ids of the properties a name means: the one of this id, else all of this title in any letter case."""
    if not isinstance(name, str):
        return []
    if name in axis.number:
        return [name]
    return [i for i, title in zip(axis.id, axis.title, strict=True) if title.lower() == name.lower()]


def nearest(axis: PropertyAxis, name: object) -> list[str]:
    """Return the ids of up to three properties whose id or title has all words of a name, or else is similar to it."""
    if not isinstance(name, str):
        return []
    wanted = re.findall(r"[a-z0-9]+", name.lower())
    texts = [f"{i} {title}".lower() for i, title in zip(axis.id, axis.title, strict=True)]
    with_words = [i for i, text in zip(axis.id, texts, strict=True) if wanted and all(word in text for word in wanted)]
    # whole words before parts of words, times before their root causes and counts, which have similar titles, then
    # properties nearer to the root, which include those below
    spent = {i for i, unit in zip(axis.id, axis.unit, strict=True) if unit == "sec" and axis.is_spent(i)}
    whole = {i for i, text in zip(axis.id, texts, strict=True) if set(wanted) <= set(re.findall(r"[a-z0-9]+", text))}
    with_words.sort(key=lambda i: (i not in whole, i not in spent, len(axis.above(i))))
    words: dict[str, str] = {title.lower(): i for i, title in reversed(list(zip(axis.id, axis.title, strict=True)))}
    words |= {i.lower(): i for i in axis.id}
    # imported for a name that does not exist
    import difflib

    # names with a wrong letter, names with all words, or else similar names
    mistyped, like = (
        [words[word] for word in difflib.get_close_matches(name.lower(), words, 3, cutoff)] for cutoff in (0.85, 0.6)
    )
    return list(dict.fromkeys([*mistyped, *with_words] or like))[:3]


def matching(axis: PropertyAxis, name: object) -> list[str]:
    """Return the ids of the properties whose id or title a shell pattern fits; none if the name is not a pattern."""
    if not isinstance(name, str) or not any(c in name for c in "*?["):
        return []
    pattern = name.lower()
    return [
        i
        for i, title in zip(axis.id, axis.title, strict=True)
        if fnmatchcase(i, name) or fnmatchcase(title.lower(), pattern)
    ]


def find_several(
    axis: PropertyAxis, names: str, where: str, error: type[TracecolsError], hint: str, in_shell: str = ""
) -> list[str]:
    """Return the ids of the properties that a text means at the command line: one name, or several with commas in
    between. Raises TracecolsError: of the type `error`. Patterns are not understood: the error says how to give several
    properties."""
    parts = [part.strip() for part in names.split(",") if part.strip()]
    if len(parts) > 1 and not fitting(axis, names):
        return [found for part in parts for found in find_several(axis, part, where, error, hint, in_shell)]
    if not fitting(axis, names) and (fits := matching(axis, names)):
        more = f", and {len(fits) - 3} more" if len(fits) > 3 else ""
        raise error(
            f"no property {show(names)} {where}: patterns are not understood\n"
            f"  give each by its name: {' '.join(f'-p {i}' for i in fits[:3])}{more}"
        )
    return [find_property(axis, names, where, error, hint, in_shell)]


def find_property(
    axis: PropertyAxis, name: object, where: str, error: type[TracecolsError], hint: str, in_shell: str = ""
) -> str:
    """Return the id of the property that a name means. Raises TracecolsError: of the type `error`. If there is no such
    property, with the nearest ids; if several have the title, with all of them."""
    found = fitting(axis, name)
    if not found and (fits := matching(axis, name)):
        listed = ", ".join(fits[:3]) + (f", and {len(fits) - 3} more" if len(fits) > 3 else "")
        raise error(
            f"no property {show(name)} {where}: patterns are not understood\n  give whole names; it would fit {listed}"
        )
    others = [i for i in found if axis.is_spent(i)]
    found = others or found
    if len(found) == 1:
        return found[0]
    if found:
        width = max(map(len, found))
        listed = "\n".join(f"  {i:{width}}  {title_path(axis, i)}" for i in found)
        raise error(f"{len(found)} properties {where} have the title {show(name)}; give the id of one\n{listed}")
    if near := nearest(axis, name):
        hint = in_shell = f"did you mean {', '.join(near)}?"
    raise error(f"no property {show(name)} {where}\n  {hint}", in_shell=in_shell)
