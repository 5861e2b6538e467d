"""Call paths: subtrees, names as text, and search by patterns without building the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase, translate

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.errors import AnalysisError
from tracecols.vectors import Ints, Mask, offsets_of

MAX_TEXT = 1 << 30
"""Maximum total bytes of the names of call paths: a recursion 10,000 levels deep takes 10,000 times the bytes of its
region names."""


def with_descendants(heads: Mask, end: NDArray[np.integer]) -> Mask:
    """Select the given call paths and all their descendants. The subtree of a call path is [call path, end)."""
    change = np.zeros(heads.size + 1, np.int64)
    change[:-1] += heads
    np.subtract.at(change, end[heads], 1)
    return np.cumsum(change)[:-1] > 0


def count_descendants(mask: Mask, end: NDArray[np.integer]) -> Ints:
    """Count the selected call paths in the subtree of each call path, itself included. The subtree of a call path is
    [call path, end)."""
    before = offsets_of(mask)
    return before[end] - before[:-1]


def outermost_of(heads: Mask, end: NDArray[np.integer]) -> Ints:
    """Find for each call path the outermost selected call path that is itself or one of its ancestors, or -1 if there
    is none. The subtree of a call path is [call path, end)."""
    if not heads.size:
        return np.zeros(0, np.int64)
    above = np.maximum.accumulate(np.where(heads, end, 0))
    numbers = np.arange(heads.size)
    is_outermost = heads & (np.append(0, above[:-1]) <= numbers)
    return np.where(above > numbers, np.maximum.accumulate(np.where(is_outermost, numbers, -1)), -1)


def is_repeated(region: NDArray[np.integer], end: NDArray[np.integer]) -> Mask:
    """Select recursive call paths: those below another call path of the same region. The subtree of a call path is
    [call path, end)."""
    n = region.size
    order = np.argsort(region, kind="stable")
    # sorted by region: how far the subtrees of the preceding call paths of a region reach
    base = region[order].astype(np.int64) * (n + 1)
    reach = np.maximum.accumulate(base + end[order])
    result = np.zeros(n, bool)
    result[order[1:]] = reach[:-1] > base[1:] + order[1:]
    return result


def path_names(
    parent: NDArray[np.integer], name: Sequence[str] | NDArray[np.object_], chosen: Iterable[int] | None = None
) -> list[str]:
    """Return call paths as text: the names of all their regions, from the root, joined by slashes.

    A path is the same in every run in which the program does the same. It is never shortened, however deep it is. O(n
    levels); the size of the text is computed before any of it is built.

    `name` has the region name of each call path; `chosen` are the call paths to return, by default all. Raises
    AnalysisError if they take more than `MAX_TEXT` bytes.
    """
    above = parent.tolist()
    wanted = list(range(len(above)) if chosen is None else chosen)
    _check_size(above, name, wanted)
    result: list[str] = []
    # the previous call path: numbers, names, and the level of each number
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
    """Raise AnalysisError if the call paths take more than `MAX_TEXT` bytes together."""
    sizes: dict[str, int] = {}
    # bytes, with a slash before each name, and levels
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
        otherwise = "write .json, .cubex or .severity, which hold the call tree instead of paths"
        raise AnalysisError(
            f"the names of {len(chosen):,} call paths of up to {deepest:,} levels take {total:,} bytes of text, more "
            f"than {MAX_TEXT:,}\n"
            f"  select fewer properties or call paths (cube.frame), or {otherwise}",
            in_shell=f"analyze fewer properties or call paths (tracecols analyze -p, --within), or {otherwise}",
        )


def named(name: NDArray[np.object_], wanted: str) -> Mask:
    """Find the regions with a name; if there are none, those whose names match it as a shell pattern."""
    found: Mask = np.asarray(name == wanted, bool)
    if not found.any():
        matches = re.compile(translate(wanted)).match
        found = np.fromiter((matches(n) is not None for n in name), bool, len(name))
    return found


NUMBERED = re.compile(r"(.*[^\s\d#_:=.,(\[-])[\s#_:=.,(\[-]*(\d{1,18})[\s)\]]*", re.DOTALL)
"""Names of one family differ only in a trailing number: `ProfilerStep#10`, `iteration_3`, `epoch [7]`."""


def families(name: NDArray[np.object_]) -> tuple[NDArray[np.object_], Ints]:
    """Split the names of regions into the name of a family and a running number. If a name has no number, it is the
    family, and the number is -1."""
    found = [NUMBERED.fullmatch(n) for n in name]
    family = np.array([*(n if m is None else m[1] for n, m in zip(name, found, strict=True)), ""], object)[:-1]
    return family, np.array([-1 if m is None else int(m[2]) for m in found], np.int64)


def without_numbers(name: NDArray[np.object_], most_visits: Ints, is_phase: Mask) -> tuple[NDArray[np.object_], Ints]:
    """Find the regions that are steps of a program distinguished by a running number, such as `ProfilerStep#10`.

    A region is a step if other regions have the same name except for the trailing number, and no thread enters it
    twice, or if the recording marks its instances as phases.

    `most_visits` is the largest number of visits to a region by any thread. Returns the names of regions, of steps
    those of their families, and the number that each region counts as: its own, or the same for all steps of a family.
    """
    family, number = families(name)
    is_step = (number >= 0) & ((most_visits <= 1) | is_phase)
    # the only step of a family keeps its number
    _, of_family = np.unique(family, return_inverse=True)
    several = np.bincount(of_family, is_step)[of_family] > 1 if name.size else is_step
    # numpy.isin compares all pairs of objects
    names = {*name}
    is_step &= (several | is_phase) & np.fromiter((f not in names for f in family), bool, family.size)
    counts_as = np.where(is_step, name.size + of_family, np.arange(name.size))
    return np.where(is_step, family, name), counts_as


def merged_below_steps(
    merged: Ints, parent: NDArray[np.integer], region: NDArray[np.integer], counts_as: Ints, is_phase: Mask
) -> Ints:
    """Find for each call path the first one that differs from it only in the running numbers of the steps above.

    The last region keeps its number, since functions may have similar names, unless the recording marks it as a phase.

    `merged` is from `merged_paths`: the first of the call paths that are equal without numbers; `counts_as` is from
    `without_numbers`.
    """
    above = np.where(parent >= 0, merged[parent], -1)
    own = np.where(is_phase, counts_as, np.arange(counts_as.size))[region]
    if not own.size:
        return merged
    _, first, of = np.unique(np.stack([above, own], axis=1), axis=0, return_index=True, return_inverse=True)
    return first[of.reshape(-1)]


def named_or_numbered(name: NDArray[np.object_], wanted: str) -> Mask:
    """Find the regions with a name, or those that match it as a shell pattern; if there are none, those of the family
    with this name."""
    found = named(name, wanted)
    if not found.any():
        family, number = families(name)
        found = (family == wanted) & (number >= 0)
    return found


def merged_paths(parent: NDArray[np.integer], depth: NDArray[np.integer], region: NDArray[np.integer]) -> Ints:
    """Find for each call path the first one with the same regions from the root on; `region` is the number that the
    region of each call path counts as (`without_numbers`).

    O(n log n), plus one iteration per level of the tree if there is something to merge.
    """
    merged = np.arange(parent.size, dtype=np.int64)
    key = (parent.astype(np.int64) + 1) * (int(region.max(initial=0)) + 1) + region
    if distinct(key).size == key.size:
        # if no siblings are equal, no call paths below them are
        return merged
    by_level = np.argsort(depth, kind="stable")
    for level in np.split(by_level, np.flatnonzero(np.diff(depth[by_level])) + 1):
        above = np.where(parent[level] >= 0, merged[parent[level]], -1)
        keys = np.stack([above, region[level]], axis=1)
        _, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        merged[level] = level[first][of.reshape(-1)]
    return merged


def match_paths(parent: NDArray[np.int32], name: Iterable[str], pattern: str) -> Mask:
    """Find the call paths that match a shell pattern in which ``*`` also matches slashes.

    The pattern is an automaton that runs down the tree, so that no path is built as text. O(n + length of the names).

    Parents come before their children; the pattern has the syntax of `fnmatch`.
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


def find_paths(parent: NDArray[np.int32], name: NDArray[np.object_], text: str) -> Mask:
    """Find call paths by a text, which is tried as a full path, as a pattern of full paths, as a region name, and as a
    pattern of region names, in this order."""
    found = match_paths(parent, name, re.sub(r"([*?[])", r"[\1]", text))
    if not found.any():
        found = match_paths(parent, name, text)
    return found if found.any() else named(name, text)


def _pieces(pattern: str) -> list[str]:
    """Split a pattern into stars, question marks, character sets and single characters."""
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
    """Shorten a call path for display: its first name and as many of its last names as fit, with dots in between.

    Paths in files are never shortened.
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
    """Return the name of a function without its type, arguments and template arguments: `main` for `int main(int,
    char**)`, `pool::run` for `_ZN4pool3runEv`; of a Python function its file and name: `module.py: forward` for
    `torch/nn/module.py(12): forward`. Names of other regions are unchanged."""
    if name.startswith("_Z"):
        return _demangled(name)
    if python := re.fullmatch(r"(?:.*/)?([^/]+)\(\d+\)(: .+)", name, re.DOTALL):
        return python[1] + python[2]
    if "(" not in name or name.startswith(("!$", "<")):
        return name
    whole: list[str] = []

    def keep(found: re.Match[str]) -> str:
        whole.append(found[0])
        return chr(KEPT + len(whole) - 1)

    text = name.replace("(anonymous namespace)", "{anonymous}")
    for part in (OPERATOR, BRACES):
        text = part.sub(keep, text)
    before = ""
    while before != text:
        before, text = text, re.sub(r"\([^()]*\)", ARGUMENTS, re.sub(r"<[^<>()]*>", "", text))
    # a lambda is in a function, whose arguments are left out as well
    text = re.sub(rf"\bdecltype{ARGUMENTS}|{ARGUMENTS}(?: const)?(?=::)", "", text)
    *_, found = text.partition(ARGUMENTS)[0].split() or [name]
    for number in reversed(range(len(whole))):
        found = found.replace(chr(KEPT + number), whole[number])
    return found.lstrip("*&").replace("{anonymous}", "(anonymous)") or name


KEPT, ARGUMENTS = 0xE000, "\uf8ff"
"""Characters for private use, in place of parts of a name that are kept whole, and of arguments."""

OPERATOR = re.compile(
    r"(?<!\w)operator(?: ?(?:\(\)|\[\]|<=>|<<=|>>=|->\*|<<|>>|->|\+\+|--|&&|\|\||[-+*/%^&|!=<>]=|[-+*/%^&|~!=<>,])"
    r"| \w[\w:]*[ *&\[\]]*(?=\())"
)
"""The name of an operator of C++."""

BRACES = re.compile(r"\{[^{}]*\}")
"""A lambda, or a namespace without a name."""


def _demangled(name: str) -> str:
    """Demangle the name of a function (Itanium C++ ABI), without template arguments and arguments; a name with other
    parts than plain names is returned unchanged."""
    begin = re.match(r"_ZN?[rVK]*L?", name)
    at, parts = begin.end() if begin else 0, list[str]()
    while found := re.match(r"\d+|St|[CD]\d", name[at:]):
        at += found.end()
        if found[0].isdigit():
            parts.append(name[at : at + int(found[0])])
            at += int(found[0])
        else:
            # constructors and destructors have the name of their class
            last = parts[-1] if parts else ""
            parts.append("std" if found[0] == "St" else last if found[0][0] == "C" else f"~{last}")
        if not name.startswith("_ZN"):
            break
    return "::".join(parts) or name


def without_arguments(path: str) -> str:
    """Return a call path with the bare names of its functions (`function_name`)."""
    return "/".join(map(function_name, path.split("/"))) if "(" in path or "_Z" in path else path


def fitted(path: str, width: int) -> str:
    """Shorten a call path: drop arguments and types of functions, then names in the middle, then the middle of the last
    name."""
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
