"""Severity cubes made by hand or at random, without a trace."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tracecols.severity import Cells, SeverityCube
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis

ODD_NAMES = (
    "main", "MPI_Recv", "operator<(A const&, B const&)", 'say "hi"', "a/b", "ünïcödé", "tab\there", "!$omp parallel @x.f:12",
    " led by a space", "two\nlines", "&amp;", "std::vector<int>::push_back", "x" * 300,
)  # fmt: skip


def small_cube(
    values: dict[str, dict[tuple[str, int, int], Any]],
    *,
    units: dict[str, str] | None = None,
    parents: dict[str, str] | None = None,
    resolution: int = 1000,
    machine: str = "box",
    sites: dict[str, str] | None = None,
) -> SeverityCube:
    """Make a cube of values by property and (call path, rank, thread); call paths are names joined by slashes."""
    names = list(values)
    n = len(names)
    parent = [(parents or {}).get(p, "") for p in names]
    unit = [(units or {}).get(p, "sec") for p in names]
    properties = PropertyAxis(
        names, parent, [p.title() for p in names], unit, [f"{p}." for p in names], [""] * n, [1.0] * n, [False] * n
    )
    paths: dict[str, None] = {}
    for cells in values.values():
        for path, _, _ in cells:
            steps = path.split("/")
            paths.update(dict.fromkeys("/".join(steps[: i + 1]) for i in range(len(steps))))
    tree: list[str] = []

    def visit(path: str) -> None:
        tree.append(path)
        for other in paths:
            if other.rpartition("/")[0] == path:
                visit(other)

    for path in paths:
        if "/" not in path:
            visit(path)
    above = np.array([tree.index(p.rpartition("/")[0]) if "/" in p else -1 for p in tree], np.int32)
    end = [max(i for i, q in enumerate(tree) if q == p or q.startswith(p + "/")) + 1 for p in tree]

    def column(make: Any) -> np.ndarray:
        return np.array([*(make(p) for p in tree), None], object)[:-1]

    call_paths = CallAxis(
        above,
        np.array([p.count("/") for p in tree], np.int32),
        np.array(end, np.int64),
        column(lambda p: p.rpartition("/")[2]),
        column(lambda p: "function"),
        column(lambda p: "user"),
        column(lambda p: "x.c"),
        np.arange(1, len(tree) + 1),
        column(lambda p: (sites or {}).get(p, "")),
        np.arange(11, len(tree) + 11),
    )
    at = sorted({(rank, thread) for cells in values.values() for _, rank, thread in cells})
    kind, name, up, location = ["machine"], [machine], [-1], [-1]
    for row, (rank, thread) in enumerate(at):
        if rank not in [r for r, _ in at[:row]]:
            kind, name, up, location = [*kind, "process"], [*name, f"rank {rank}"], [*up, 0], [*location, -1]
        process = len(kind) - 1 - kind[::-1].index("process")
        kind, name, up, location = [*kind, "thread"], [*name, f"thread {thread}"], [*up, process], [*location, row]
    system = SystemAxis(
        kind,
        name,
        up,
        location,
        np.array([r for r, _ in at], np.int32),
        np.array([t for _, t in at], np.int32),
        [f"thread {t}" for _, t in at],
        ["cpu_thread"] * len(at),
    )
    cells = {}
    for p, of in values.items():
        rows = np.array([tree.index(path) for path, _, _ in of], np.int64)
        where = np.array([at.index((rank, thread)) for _, rank, thread in of], np.int64)
        cells[p] = Cells.sum(rows, where, np.array(list(of.values()))) if of else Cells.empty()
    return SeverityCube(
        properties, call_paths, system, cells, {"conventions": "scalasca", "resolution": resolution, "counts": {}}
    )


def random_cube(seed: int) -> SeverityCube:
    """Make a cube of random shape with odd names, negative and floating point values, and large ticks."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    n_p, n_c, n_l = rng.randint(1, 9), rng.randint(1, 30), rng.randint(1, 12)
    ids = [f"p{i}" for i in range(n_p)]
    parent: list[str] = []
    for i in range(n_p):  # depth-first: below the previous node or one of its ancestors
        chain = [""]
        if i:
            chain.append(ids[i - 1])
            while parent[ids.index(chain[-1])]:
                chain.append(parent[ids.index(chain[-1])])
        parent.append(rng.choice(chain))
    unit = [rng.choice(["sec", "occ", "bytes", "#"]) for _ in ids]
    text = [rng.choice(ODD_NAMES) for _ in ids]
    properties = PropertyAxis(
        ids,
        parent,
        text,
        unit,
        [f"About {t.strip()}." for t in text],
        [rng.choice(["", "Do it."]) for _ in ids],
        [rng.choice([1.0, 0.1]) for _ in ids],
        [rng.choice([False, False, True]) for _ in ids],
    )
    above = [-1]
    for i in range(1, n_c):
        chain = [i - 1]
        while above[chain[-1]] >= 0:
            chain.append(above[chain[-1]])
        above.append(rng.choice(chain))
    depth = [0] * n_c
    end = list(range(1, n_c + 1))
    for i in range(1, n_c):
        depth[i] = depth[above[i]] + 1
    for i in range(n_c - 1, 0, -1):
        end[above[i]] = max(end[above[i]], end[i])

    def column(choices: Any) -> np.ndarray:
        return np.array([*(rng.choice(choices) for _ in range(n_c)), None], object)[:-1]

    line = numbers.integers(0, 50, n_c)
    call_paths = CallAxis(
        np.array(above, np.int32),
        np.array(depth, np.int32),
        np.array(end, np.int64),
        column(ODD_NAMES),
        column(["function", "loop", ""]),
        column(["user", "MPI", ""]),
        column(["", "dir/x y.c", "<a&b>.f90"]),
        line,
        column(["", "x.c:12", "c:\\x.c:3"]),
        np.where(line % 3, line + 5, 0),
    )
    kind, name, up, location = ["machine", "rack"], ["box", "r<1>"], [-1, 0], [-1, -1]
    rows = list(range(n_l))
    rng.shuffle(rows)
    rank, thread = np.zeros(n_l, np.int32), np.zeros(n_l, np.int32)
    process = -1
    for i, row in enumerate(rows):
        if i == 0 or rng.random() < 0.4:
            process = len([k for k in kind if k == "process"])
            kind, name, location = [*kind, "process"], [*name, f"rank {process}"], [*location, -1]
            up.append(rng.choice([0, 1]) if 1 not in up[2:] else 1)
            at = len(kind) - 1
        kind, name, up, location = [*kind, "thread"], [*name, f"t{i}"], [*up, at], [*location, row]
        rank[row], thread[row] = process, i
    # processes come before nodes at the same level, as in Cube
    order = [0, *(i for i in range(2, len(kind)) if up[i] == 0 or (location[i] >= 0 and up[up[i]] == 0)), 1]
    order += [i for i in range(2, len(kind)) if i not in order]
    place = {old: new for new, old in enumerate(order)} | {-1: -1}
    system = SystemAxis(
        [kind[i] for i in order],
        [name[i] for i in order],
        [place[up[i]] for i in order],
        [location[i] for i in order],
        rank,
        thread,
        [name[location.index(r)] for r in range(n_l)],
        ["cpu_thread"] * n_l,
    )
    cells = {}
    for i, p in enumerate(ids):
        n = rng.choice([0, 1, n_c * n_l])
        value: np.ndarray = numbers.integers(-5 if rng.random() < 0.3 else 1, rng.choice([9, 1 << 40]), n)
        if unit[i] == "#" and rng.random() < 0.5:
            value = value * np.pi
        cells[p] = Cells.sum(numbers.integers(0, n_c, n), numbers.integers(0, n_l, n), value) if n else Cells.empty()
    facts = {
        "conventions": "scalasca",
        "resolution": rng.choice([1, 1000, 2596140085, 10**14]),
        "counts": {'odd "things"': 3},
    }
    return SeverityCube(properties, call_paths, system, cells, facts)
