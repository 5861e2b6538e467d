"""What a severity cube was narrowed to, in words and in the names of files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tracecols.given.quantities import counted
from tracecols.schema.facts import NARROWED, wrong_fact
from tracecols.schema.severity import DEFAULT

LONGEST = 80
"""Maximum number of characters of the narrowing in the name of a file."""


def ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers with ranges: 0,4-7."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


def _locations(chosen: Iterable[int | str]) -> str:
    """Write rows of locations, and texts that select some, as text."""
    rows = ranges(i for i in chosen if not isinstance(i, str))
    return ",".join(filter(None, (rows, *(i for i in chosen if isinstance(i, str)))))


def _read(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a cube was narrowed to; invalid entries, which files of other tools may have, are left out."""
    given = facts.get(NARROWED.name)
    known = {fact.name: fact for fact in NARROWED.entries}
    entries = given.items() if isinstance(given, Mapping) else ()
    return {key: value for key, value in entries if key in known and not wrong_fact(known[key], value)}


def asked_for(facts: Mapping[str, Any]) -> list[str]:
    """Return the ids of the properties that a cube was narrowed to; empty if it has all."""
    return list(_read(facts).get("properties", ()))


def _parameters(found: Mapping[str, Any]) -> list[str]:
    return [
        f"{of}.{name}={value}" for of, values in found.get("parameters", {}).items() for name, value in values.items()
    ]


ENTRIES: dict[str, tuple[Callable[[Any], str], Callable[[Any], str]]] = {
    "properties": (lambda ids: ", ".join(ids) or "no property", lambda ids: "+".join(ids) or "nothing"),
    "within": ("within {}".format, "within-{}".format),
    "start": ("from {:.9g} s".format, "from-{:.9g}".format),
    "stop": ("to {:.9g} s".format, "to-{:.9g}".format),
    "locations": (
        lambda chosen: f"locations {_locations(chosen) or 'none'}",
        lambda chosen: f"locations-{_locations(chosen)}",
    ),
    "phases": ("by phase {}".format, "by-{}".format),
    "bins": (lambda n: f"by {counted(n, 'bin')} of time", "bins-{}".format),
    "bin_width": ("by bins of {:.9g} s".format, "bins-of-{:.9g}-s".format),
}
"""What a cube may be narrowed to, besides parameters: how it is described, and how it is written in a file name."""

DIVISIONS = ("phases", "bins", "bin_width")
"""Entries that divide severities, and leave none out."""


def in_words(facts: Mapping[str, Any]) -> str:
    """Describe what a cube was narrowed to: properties, region, time, locations, phases or bins, and given parameters;
    empty if nothing.

    Examples
    --------
    >>> in_words({"narrowed": {"properties": ["mpi"], "within": "foo", "start": 0.3}})
    'narrowed: mpi, within foo, from 0.3 s'
    """
    found = _read(facts)
    said = {key: words(found[key]) for key, (words, _) in ENTRIES.items() if key in found}
    parts = [text for key, text in said.items() if key not in DIVISIONS]
    words = [f"narrowed: {', '.join(parts)}"] if parts else []
    words += [text for key, text in said.items() if key in DIVISIONS]
    return ", ".join(words + [f"with {p}" for p in _parameters(found)])


def in_a_name(conventions: str, facts: Mapping[str, Any]) -> str:
    """Return the part of a cube's file name that says how it was made, `expert.within-foo`; empty for a plain analysis
    of the whole trace.

    It is valid on every file system: characters other than letters, digits and ``_.+,=-`` become hyphens, and a long
    name is cut and ends with a checksum of the whole.
    """
    found = _read(facts)
    said = {key: in_name(found[key]) for key, (_, in_name) in ENTRIES.items() if key in found}
    if "start" in said and "stop" in said:
        said["start"] += f"-{said.pop('stop')}"
    parts = [*([conventions] if conventions != DEFAULT else []), *said.values(), *_parameters(found)]
    text = ".".join(re.sub(r"[^A-Za-z0-9_.+,=-]+", "-", part).strip("-.") for part in parts)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 9]}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"
    return text


def made_how(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what distinguishes a cube from others of the same trace: conventions, narrowing, operation on cubes."""
    how = {
        "conventions": facts.get("conventions", ""),
        "narrowed": _read(facts),
        "operation": facts.get("operation", ""),
    }
    # as if read from a file: tuples become lists
    result: dict[str, Any] = json.loads(json.dumps(how))
    return result


def how_in_words(facts: Mapping[str, Any]) -> str:
    """Describe how a cube was made, for an error message."""
    operation = f"{facts['operation']} of cubes" if facts.get("operation") else ""
    conventions = f"{facts['conventions']} conventions" if facts.get("conventions") else ""
    plain = "" if operation else "not narrowed"
    return ", ".join(
        filter(None, (conventions or ("" if operation else "another tool"), operation, in_words(facts) or plain))
    )
