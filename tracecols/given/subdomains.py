"""Subdomains of the application, which callers assign to locations."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.errors import TracecolsError
from tracecols.given.arguments import show
from tracecols.given.files import read_bytes

Given = Mapping[Any, str] | Callable[[int, int], str | None] | str | Path
"""Names of subdomains by rank, or by rank and thread; a function of rank and thread; or a .csv file."""

HINT = (
    "give a .csv file with the columns rank, perhaps thread, and subdomain; a mapping; or a function of rank and thread"
)


class Subdomains(NamedTuple):
    """The subdomains of some locations."""

    names: list[str]
    """In the order of their first locations."""
    of: NDArray[np.int64]
    """(n_locations,): the subdomain of each location; -1 none."""


def find_subdomains(
    rank: NDArray[Any], thread: NDArray[Any], given: Given, error: type[TracecolsError], what: str
) -> Subdomains:
    """Find the subdomain of each location, given ranks and threads, (n_locations,).

    `given` are names by rank, or by (rank, thread), which comes first; a function of rank and thread that returns a
    name or None; or a .csv file with the columns `rank`, `subdomain` and, where threads differ, `thread`. If it is none
    of these, a file is damaged, or ranks or threads are named that do not exist, an `error` is raised, which calls the
    owner of the locations `what`: `this cube`.
    """
    places = list(zip(rank.tolist(), thread.tolist(), strict=True))
    if callable(given):
        chosen = [given(rank, thread) for rank, thread in places]
    else:
        by_place = _read(Path(given), error) if isinstance(given, str | Path) else given
        if not isinstance(by_place, Mapping):
            raise error(f"{show(given)} does not give subdomains\n  {HINT}")
        known = {*places, *(rank for rank, _ in places)}
        if unknown := [place for place in by_place if place not in known]:
            raise error(
                f"{len(unknown):,} of the subdomains are of ranks or threads that {what} does not have, such as "
                f"{show(unknown[0])}\n"
                f"  it has {len(places):,} locations on {distinct(rank).size:,} ranks"
            )
        chosen = [by_place.get(place, by_place.get(place[0])) for place in places]
    if wrong := [name for name in chosen if name is not None and not isinstance(name, str)]:
        raise error(f"{show(wrong[0])} is not the name of a subdomain\n  names are texts, or None")
    number: dict[str, int] = {}
    of = [-1 if not name else number.setdefault(name, len(number)) for name in chosen]
    return Subdomains(list(number), np.array(of, np.int64))


def _read(path: Path, error: type[TracecolsError]) -> dict[int | tuple[int, int], str]:
    """Read a .csv file of subdomains."""
    # imported only if there is a file
    import csv

    try:
        text = io.StringIO(read_bytes(path).decode("utf-8-sig"), newline="")
        rows = list(csv.DictReader(text, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise error(f"cannot read the subdomains of {path}: {reason}\n  {HINT}") from reason
    if not rows or not {"rank", "subdomain"} <= rows[0].keys():
        raise error(f"{path} has no columns rank and subdomain\n  {HINT}")
    found: dict[int | tuple[int, int], str] = {}
    for line, row in enumerate(rows, 2):
        numbers = [(row.get(column) or "").strip() for column in ("rank", "thread")]
        if not numbers[0].isdecimal() or (numbers[1] and not numbers[1].isdecimal()):
            raise error(f"{path}, line {line}: {', '.join(numbers)} are not a rank and a thread\n  {HINT}")
        rank = int(numbers[0])
        key = (rank, int(numbers[1])) if numbers[1] else rank
        if key in found:
            raise error(f"{path}, line {line}: {show(key)} has a subdomain already\n  name each location once")
        found[key] = (row["subdomain"] or "").strip()
    return found
