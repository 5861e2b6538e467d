"""Groups of elements with the same key, by definition."""

from __future__ import annotations

from collections.abc import Sequence


def number(keys: Sequence[int]) -> tuple[list[int], list[int]]:
    """Number keys in order of first appearance; return the number of each element and the first element of each key."""
    seen: list[int] = []
    for key in keys:
        if key not in seen:
            seen.append(key)
    return [seen.index(key) for key in keys], [list(keys).index(key) for key in seen]


def pairs(keys: Sequence[int], roles: Sequence[int]) -> list[int]:
    """Pair each second element (role 2) with the last element of its key before it whose role is not 0, if that is a
    first one (role 1). Return the partner of each element, -1 if it has none."""
    result = [-1] * len(keys)
    for i, role in enumerate(roles):
        if role == 2:
            before = [j for j in range(i) if keys[j] == keys[i] and roles[j] != 0]
            if before and roles[before[-1]] == 1:
                result[i], result[before[-1]] = before[-1], i
    return result


def pairs_by_part(keys: Sequence[int], parts: Sequence[int], roles: Sequence[int]) -> list[int]:
    """Pair each second element (role 2) with the last first one (role 1) of its key and part that has no partner, else
    with the last first one of its key, if no later one of that key has a partner.

    A first element is forgotten by its part when the next one of that part begins.
    """
    result = [-1] * len(keys)
    for i, role in enumerate(roles):
        if role == 2:
            before = [j for j in range(i) if keys[j] == keys[i] and roles[j] == 1]
            own = [j for j in before if parts[j] == parts[i]]
            for of in (own, before):
                if of and result[of[-1]] < 0:
                    result[i], result[of[-1]] = of[-1], i
                    break
    return result


def in_order(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """Find, for the k-th element of each key in `right`, the k-th element with that key in `left`, or -1."""
    result = []
    for j, key in enumerate(right):
        k = list(right[:j]).count(key)
        found = [i for i, other in enumerate(left) if other == key]
        result.append(found[k] if k < len(found) else -1)
    return result
