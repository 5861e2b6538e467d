"""Call paths: subtrees, and names, written out or found by pattern without being written out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase, translate

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.errors import AnalysisError

MAX_TEXT = 1 << 30
"""Bytes of text that the names of call paths may take together: those of a recursion 10,000 deep take 10,000 times its
names."""


def with_descendants(heads: NDArray[np.bool_], end: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Select some call paths and everything below them. The subtree of a call path is [call path, end)."""
    change = np.zeros(heads.size + 1, np.int64)
    change[:-1] += heads
    np.subtract.at(change, end[heads], 1)
    result: NDArray[np.bool_] = np.cumsum(change)[:-1] > 0
    return result


def count_descendants(mask: NDArray[np.bool_], end: NDArray[np.integer]) -> NDArray[np.int64]:
    """Count for each call path how many of some call paths it is or has below it. The subtree of a call path is [call
    path, end)."""
    before = np.append(0, np.cumsum(mask, dtype=np.int64))
    return before[end] - before[:-1]


def outermost_of(heads: NDArray[np.bool_], end: NDArray[np.integer]) -> NDArray[np.int64]:
    """Find for each call path the outermost of some call paths that it is, or is below of; -1 for those below none. The
    subtree of a call path is [call path, end)."""
    if not heads.size:
        return np.zeros(0, np.int64)
    above = np.maximum.accumulate(np.where(heads, end, 0))
    numbers = np.arange(heads.size)
    is_outermost = heads & (np.append(0, above[:-1]) <= numbers)
    return np.where(above > numbers, np.maximum.accumulate(np.where(is_outermost, numbers, -1)), -1)


def is_repeated(region: NDArray[np.integer], end: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Select the call paths in a recursion: those below another one of the same region. The subtree of a call path is
    [call path, end)."""
    n = region.size
    order = np.argsort(region, kind="stable")
    # of one region, one after the other: how far the subtrees of those before reach
    base = region[order].astype(np.int64) * (n + 1)
    reach = np.maximum.accumulate(base + end[order])
    result = np.zeros(n, bool)
    result[order[1:]] = reach[:-1] > base[1:] + order[1:]
    return result


def path_names(
    parent: NDArray[np.integer], name: Sequence[str] | NDArray[np.object_], chosen: Iterable[int] | None = None
) -> list[str]:
    """Write call paths as the names of all their regions, from the root, joined by slashes.

    A path is the same in every run in which the program does the same; nothing of it is left out, however deep it is.
    O(n levels); the text is measured before any of it is written.

    `name` is that of the region of each call path; `chosen` says which to write, by default all. Raises AnalysisError
    if they take more than `MAX_TEXT` bytes.
    """
    above = parent.tolist()
    wanted = list(range(len(above)) if chosen is None else chosen)
    _check_size(above, name, wanted)
    result: list[str] = []
    # the call path that was written last: numbers, names, and the level of each number
    numbers: list[int] = []
    names: list[str] = []
    level: dict[int, int] = {}
    for i in wanted:
        below = []
        at = i
        while at >= 0 and at not in level:
            below.append(at)
            at = above[at]
        kept = level[at] + 1 if at >= 0 else 0
        for gone in numbers[kept:]:
            del level[gone]
        del numbers[kept:], names[kept:]
        for at in reversed(below):
            level[at] = len(numbers)
            numbers.append(at)
            names.append(name[at])
        result.append("/".join(names))
    return result


def _check_size(above: list[int], name: Sequence[str] | NDArray[np.object_], chosen: list[int]) -> None:
    """Refuse call paths that together are longer than `MAX_TEXT`."""
    sizes: dict[str, int] = {}
    # bytes with the slash before each name, and levels
    length: dict[int, int] = {-1: 0}
    depth: dict[int, int] = {-1: 0}
    total = deepest = 0
    for i in chosen:
        below = []
        at = i
        while at not in length:
            below.append(at)
            at = above[at]
        for at in reversed(below):
            own = name[at]
            if own not in sizes:
                sizes[own] = len(own.encode("utf-8", "surrogatepass")) + 1
            length[at], depth[at] = length[above[at]] + sizes[own], depth[above[at]] + 1
        total += length[i] - 1
        deepest = max(deepest, depth[i])
    if total > MAX_TEXT:
        raise AnalysisError(
            f"the names of {len(chosen):,} call paths of up to {deepest:,} levels take {total:,} bytes of text, "
            f"more than {MAX_TEXT:,}\n"
            "  select fewer properties or call paths (cube.frame), or export to .json, .cubex or .severity, which "
            "hold the "
            "call tree instead of paths"
        )


def named(name: NDArray[np.object_], wanted: str) -> NDArray[np.bool_]:
    """Find the regions of a name; if there is none, those that match it as a shell pattern."""
    found: NDArray[np.bool_] = np.asarray(name == wanted, bool)
    if not found.any():
        matches = re.compile(translate(wanted)).match
        found = np.fromiter((matches(n) is not None for n in name), bool, len(name))
    return found


NUMBERED = re.compile(r"(.*[^\s\d#_:=.,(\[-])[\s#_:=.,(\[-]*(\d{1,18})[\s)\]]*", re.DOTALL)
"""Names of one family differ in the number at their end: `ProfilerStep#10`, `iteration_3`, `epoch [7]`."""


def families(name: NDArray[np.object_]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Divide the names of regions into that of a family and a running number; without a number the family is the name,
    and the number -1."""
    found = [NUMBERED.fullmatch(n) for n in name]
    family = np.array([*(n if m is None else m[1] for n, m in zip(name, found, strict=True)), ""], object)[:-1]
    return family, np.array([-1 if m is None else int(m[2]) for m in found], np.int64)


def without_numbers(
    name: NDArray[np.object_], most_visits: NDArray[np.int64], is_phase: NDArray[np.bool_]
) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Find the regions that are steps of a program told apart by a running number, such as `ProfilerStep#10`.

    A region is one if others have the same name but for the number at its end, and no thread enters one of them twice;
    or if the recording says that its instances are phases.

    `most_visits` is how often the thread enters a region that enters it most often. Returns the names of regions, of
    steps those of their families, and what each counts as: itself, or the same number for all steps of a family.
    """
    family, number = families(name)
    is_step = (number >= 0) & ((most_visits <= 1) | is_phase)
    # one of a kind needs its number
    _, of_family = np.unique(family, return_inverse=True)
    several = np.bincount(of_family, is_step)[of_family] > 1 if name.size else is_step
    is_step &= (several | is_phase) & ~np.isin(family, name)
    counts_as = np.where(is_step, name.size + of_family, np.arange(name.size))
    return np.where(is_step, family, name), counts_as


def merged_below_steps(
    merged: NDArray[np.int64],
    parent: NDArray[np.integer],
    region: NDArray[np.integer],
    counts_as: NDArray[np.int64],
    is_phase: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Find for each call path the first one that differs in nothing but the running numbers of the steps above it.

    Its own region keeps its number, as two functions may be called alike, unless the recording calls it a phase.

    `merged` is from `merged_paths`: the first of the call paths that are the same without numbers; `counts_as` is from
    `without_numbers`.
    """
    above = np.where(parent >= 0, merged[parent], -1)
    own = np.where(is_phase, counts_as, np.arange(counts_as.size))[region]
    if not own.size:
        return merged
    _, first, of = np.unique(np.stack([above, own], axis=1), axis=0, return_index=True, return_inverse=True)
    result: NDArray[np.int64] = first[of.reshape(-1)]
    return result


def named_or_numbered(name: NDArray[np.object_], wanted: str) -> NDArray[np.bool_]:
    """Find the regions of a name, or that match it as a shell pattern; if there is none, those of the family of this
    name."""
    found = named(name, wanted)
    if not found.any():
        family, number = families(name)
        found = (family == wanted) & (number >= 0)
    return found


def merged_paths(
    parent: NDArray[np.integer], depth: NDArray[np.integer], region: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Find for each call path the first one with the same regions from the root on; `region` is what the region of a
    call path counts as.

    O(n log n), and a step for each level of the tree where there is something to merge.
    """
    merged = np.arange(parent.size, dtype=np.int64)
    key = (parent.astype(np.int64) + 1) * (int(region.max(initial=0)) + 1) + region
    if distinct(key).size == key.size:
        # what has no equal beside it has none below
        return merged
    by_level = np.argsort(depth, kind="stable")
    for level in np.split(by_level, np.flatnonzero(np.diff(depth[by_level])) + 1):
        above = np.where(parent[level] >= 0, merged[parent[level]], -1)
        keys = np.stack([above, region[level]], axis=1)
        _, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        merged[level] = level[first][of.reshape(-1)]
    return merged


def match_paths(parent: NDArray[np.int32], name: Iterable[str], pattern: str) -> NDArray[np.bool_]:
    """Find the call paths that match a shell pattern, in which ``*`` also matches slashes.

    The pattern is an automaton that goes down the tree, so that no path is written out. O(n) and what the names take.

    Parents come before their children; the pattern is as `fnmatch` has them.
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


def find_paths(parent: NDArray[np.int32], name: NDArray[np.object_], text: str) -> NDArray[np.bool_]:
    """Find call paths by a text that is tried as a whole path, as a pattern of whole paths, as a region, and as a
    pattern of regions, in this order."""
    found = match_paths(parent, name, re.sub(r"([*?[])", r"[\1]", text))
    if not found.any():
        found = match_paths(parent, name, text)
    return found if found.any() else named(name, text)


def _pieces(pattern: str) -> list[str]:
    """Divide a pattern into stars, question marks, sets of characters, and single characters."""
    pieces, at = [], 0
    while at < len(pattern):
        # a bracket right after the opening one, or after its !, belongs to the set
        begin = at + 2 + pattern.startswith("!", at + 1)
        end = pattern.find("]", begin) if pattern[at] == "[" else -1
        stop = end + 1 if end >= 0 else at + 1
        pieces.append(pattern[at:stop] if end >= 0 or pattern[at] != "[" else "[[]")
        at = stop
    return pieces


def shortened(path: str, width: int = 400) -> str:
    """Shorten a call path for a display: its first name and as many of its last ones as fit, with dots between them.

    What is written to files is never shortened.
    """
    first, *rest = path.split("/")
    if len(path) <= width or not rest:
        return path
    kept = rest.pop()
    head = f"{first}/.../" if len(first) + len(kept) + 5 <= width else ".../"
    while rest and len(head) + len(rest[-1]) + 1 + len(kept) <= width:
        kept = f"{rest.pop()}/{kept}"
    return head + kept


def function_name(name: str) -> str:
    """Return the name of a function without its type, its arguments and those of templates: `main` for `int main(int,
    char**)`, `pool::run` for `_ZN4pool3runEv`; other names of regions stay as they are."""
    if name.startswith("_Z"):
        return _demangled(name)
    if "(" not in name or name.startswith(("!$", "<")):
        return name
    text = name.replace("(anonymous namespace)", "{anonymous}")
    operator = re.match(r"(?:.*[\s*&])?(\S*\boperator\W{1,3}?)\s*\(", text)
    if operator:
        return operator[1].replace("{anonymous}", "(anonymous)")
    kept, depth = [], 0
    for character in text:
        depth -= character == ">"
        if not depth and character not in "<>":
            if character == "(":
                break
            kept.append(character)
        depth += character == "<"
    found = "".join(kept).split()
    return found[-1].lstrip("*&").replace("{anonymous}", "(anonymous)") or name if found else name


def _demangled(name: str) -> str:
    """Return the name of a function by its name in an object file (Itanium C++ ABI), without templates and arguments;
    unchanged if it is none of those made of names only."""
    begin = re.match(r"_ZN?[rVK]*L?", name)
    at, parts = begin.end() if begin else 0, list[str]()
    while found := re.match(r"\d+|St|[CD]\d", name[at:]):
        at += found.end()
        if found[0].isdigit():
            parts.append(name[at : at + int(found[0])])
            at += int(found[0])
        else:
            # constructors and destructors are called as their class
            last = parts[-1] if parts else ""
            parts.append("std" if found[0] == "St" else last if found[0][0] == "C" else f"~{last}")
        if not name.startswith("_ZN"):
            break
    return "::".join(parts) or name


def without_arguments(path: str) -> str:
    """Return a call path whose functions have their names only."""
    return "/".join(map(function_name, path.split("/"))) if "(" in path or "_Z" in path else path


def fitted(path: str, width: int) -> str:
    """Shorten a call path: without arguments and types of functions, then without names in its middle, then within the
    last name."""
    path = without_arguments(path)
    if len(path) <= width:
        return path
    text = shortened(path, width)
    if len(text) > width:
        text = text.removeprefix(".../")
    if len(text) <= width:
        return text
    tail = (width - 3) // 2
    return f"{text[: width - 3 - tail]}...{text[-tail:]}"
