"""Call paths as text: written out, and found by pattern without being written out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate

import numpy as np
from numpy.typing import NDArray

LEVELS = 64
"""A path of more levels is shortened: in full, those of a recursion 10,000 deep would take 10,000 times its names."""
ENDS = 8
"""Levels that a shortened path keeps at its begin, and at its end."""


def path_names(parent: NDArray[np.integer], name: Iterable[str], number: NDArray[np.int64] | None = None) -> list[str]:
    """Write call paths as names from the root joined by slashes.

    Paths of more than `LEVELS` levels keep `ENDS` names at both ends, and between them how many are left out and the number of
    the call path, which keeps them apart: ``a/b/...(984 levels, call path 999).../y/z``. O(n).

    Parameters
    ----------
    parent : (n,) int32
        -1 for roots; parents come before their children.
    name : (n,) str
        Of the region of each call path.
    number : (n,) int64, optional
        Of the call paths; by default from 0.

    Returns
    -------
    list of str
    """
    result: list[str] = []
    head: list[str] = []
    names = list(name)
    numbers = number.tolist() if number is not None else range(len(names))
    above = parent.tolist()
    level: list[int] = []
    for i, (up, own) in enumerate(zip(above, names, strict=True)):
        at = level[up] + 1 if up >= 0 else 0
        level.append(at)
        # what the path begins with; deeper ones share that of their ancestor
        head.append(own if up < 0 else f"{head[up]}/{own}" if at < ENDS else head[up])
        if at < LEVELS:
            result.append(own if up < 0 else f"{result[up]}/{own}")
        else:
            tail = [own]
            for _ in range(ENDS - 1):
                tail.append(names[up])
                up = above[up]
            result.append(
                f"{head[i]}/...({at + 1 - 2 * ENDS} levels, call path {numbers[i]}).../{'/'.join(reversed(tail))}"
            )
    return result


def named(name: NDArray[np.object_], wanted: str) -> NDArray[np.bool_]:
    """Find the regions of a name; if there is none, those that match it as a shell pattern.

    Parameters
    ----------
    name : (n,) object
    wanted : str

    Returns
    -------
    (n,) bool
    """
    found: NDArray[np.bool_] = np.asarray(name == wanted, bool)
    if not found.any():
        matches = re.compile(translate(wanted)).match
        found = np.fromiter((matches(n) is not None for n in name), bool, len(name))
    return found


def match_paths(parent: NDArray[np.int32], name: Iterable[str], pattern: str) -> NDArray[np.bool_]:
    """Find the call paths that match a shell pattern, in which ``*`` also stands for slashes.

    The pattern is an automaton that goes down the tree, so that no path is written out. O(n) and what the names take.

    Parameters
    ----------
    parent : (n,) int32
        -1 for roots; parents come before their children.
    name : (n,) str
    pattern : str
        As `fnmatch` has them.

    Returns
    -------
    (n,) bool
    """
    pieces = _pieces(pattern)
    steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def closed(at: set[int]) -> frozenset[int]:
        for i in sorted(at):
            while i < len(pieces) and pieces[i] == "*":
                i += 1
                at.add(i)
        return frozenset(at)

    def advance(state: frozenset[int], text: str) -> frozenset[int]:
        for character in text:
            key = state, character
            if key not in steps:
                found = set()
                for i in state:
                    if i < len(pieces) and pieces[i] == "*":
                        found.add(i)
                    elif i < len(pieces) and (character == pieces[i] or fnmatchcase(character, pieces[i])):
                        found.add(i + 1)
                steps[key] = closed(found)
            state = steps[key]
        return state

    start = closed({0})
    states: list[frozenset[int]] = []
    known: dict[tuple[frozenset[int], str], frozenset[int]] = {}
    for up, own in zip(parent.tolist(), name, strict=True):
        key = (states[up], f"/{own}") if up >= 0 else (start, own)
        if key not in known:
            known[key] = advance(*key)
        states.append(known[key])
    return np.fromiter((len(pieces) in s for s in states), bool, len(states))


def _pieces(pattern: str) -> list[str]:
    """Divide a pattern into stars, question marks, sets of characters, and single characters."""
    pieces, at = [], 0
    while at < len(pattern):
        # a bracket right behind the opening one, or behind its !, belongs to the set
        begin = at + 2 + pattern.startswith("!", at + 1)
        end = pattern.find("]", begin) if pattern[at] == "[" else -1
        stop = end + 1 if end >= 0 else at + 1
        pieces.append(pattern[at:stop] if end >= 0 or pattern[at] != "[" else "[[]")
        at = stop
    return pieces
