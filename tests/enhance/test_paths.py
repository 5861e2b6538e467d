"""Call paths selected by the order of their tree."""

import numpy as np
import pytest

from tracecols.enhance.scan.paths import count_descendants, is_repeated, outermost_of


def random_tree(rng, n):
    parent = np.full(n, -1)
    for i in range(1, n):
        # the parent is the previous node or one of its ancestors, which keeps the order depth first
        above = [i - 1]
        while above[-1] >= 0:
            above.append(parent[above[-1]])
        parent[i] = rng.choice(above)
    end = np.arange(1, n + 1)
    for i in range(n - 1, -1, -1):
        if parent[i] >= 0:
            end[parent[i]] = max(end[parent[i]], end[i])
    return parent, end


def chain(parent, i):
    """Yield the call path and its ancestors, the root last."""
    while i >= 0:
        yield i
        i = parent[i]


@pytest.mark.parametrize("seed", range(20))
def test_selections__are_those_found_by_going_up(seed):
    rng = np.random.default_rng(seed)
    parent, end = random_tree(rng, int(rng.integers(1, 60)))
    n = parent.size
    heads, region = rng.random(n) < 0.3, rng.integers(0, 8, n)
    wanted = [max((at for at in chain(parent, i) if heads[at]), key=lambda at: -at, default=-1) for i in range(n)]
    assert outermost_of(heads, end).tolist() == wanted
    counted = [sum(heads[at] and i in chain(parent, at) for at in range(n)) for i in range(n)]
    assert count_descendants(heads, end).tolist() == counted
    repeated = [region[i] in [region[at] for at in chain(parent, parent[i])] for i in range(n)]
    assert is_repeated(region, end).tolist() == repeated


def test_selections__of_no_call_paths_are_empty():
    none = np.zeros(0, np.int64)
    assert outermost_of(none.astype(bool), none).size == is_repeated(none, none).size == 0
