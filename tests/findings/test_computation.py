"""Sums over computation, compared with sums over rows in pandas."""

import numpy as np
import pandas as pd

from tracecols.findings.computation import Computing
from tracecols.replay.cell_sums import sum_by_cell


def rows_of(s, chosen):
    """Return the rows of the computation before chosen nodes."""
    c = s.computation
    rows = pd.DataFrame({"node": c.node, "call_path": c.call_path, "location": c.location, "ticks": c.ticks})
    return rows[chosen[c.node]]


def test_cells__are_sums_of_rows_and_take_parts_of_them(scenarios):
    s, rng = scenarios, np.random.default_rng(1)
    chosen = rng.random(len(s.graph.nodes)) < 0.8
    cells, rows = sum_by_cell(s.computation, s.graph.nodes, chosen, len(s.call_paths)), rows_of(s, chosen)
    expected = rows.groupby(["call_path", "location"]).ticks.agg(["size", "sum"]).reset_index()
    found = np.stack([cells.call_path, cells.location, cells.n_rows, cells.ticks], axis=1)
    assert found.tolist() == expected.to_numpy().tolist()
    # parts of cells are multiples of a quarter, whose sums are exact
    part = rng.integers(0, 4, cells.ticks.size) / 4
    of_row = pd.MultiIndex.from_arrays([cells.call_path, cells.location]).get_indexer(
        pd.MultiIndex.from_frame(rows[["call_path", "location"]])
    )
    less = (rows.ticks * part[of_row]).groupby(rows.node).sum()
    node, ticks = cells.parts(part)
    assert node.tolist() == less.index[less > 0].tolist()
    assert ticks.tolist() == np.rint(less[less > 0]).tolist()


def expected_sizes(rows, head):
    """Return by head call path: number of locations, longest time of a location, and how much the longest pieces exceed
    the mean."""
    rows = rows.assign(head=head[rows.call_path])
    found = {}
    for at, mine in rows[rows["head"] >= 0].groupby("head"):
        pieces = [of.ticks.to_list() for _, of in mine.groupby("location")]
        n = {len(p) for p in pieces}
        above = 0.0
        if len(pieces) > 1 and len(n) == 1 and min(n) > 1:
            above = sum(max(k) - sum(k) / len(k) for k in zip(*pieces, strict=True))
        found[at] = [len(pieces), max(map(sum, pieces)), above]
    return found


def sizes_as_found(sizes):
    """Return the same of computed sizes."""
    return dict(
        zip(
            sizes.head.tolist(), map(list, zip(sizes.n_locations, sizes.most, sizes.changing, strict=True)), strict=True
        )
    )


def test_sizes__are_those_of_the_rows(scenarios):
    s = scenarios
    computing = Computing(s, s.model.locations.is_cpu)
    rows = rows_of(s, s.in_window & s.model.locations.is_cpu[s.graph.nodes.location])
    rows = rows[~computing.creates[rows.call_path]]
    single = expected_sizes(rows, computing.same)
    assert single and sizes_as_found(computing.single) == single
    nests = {}
    for head in np.flatnonzero(computing.is_nest).tolist():
        paths = np.arange(len(s.call_paths))
        nests |= expected_sizes(rows, np.where((paths >= head) & (paths < s.call_paths.end[head]), head, -1))
    assert sizes_as_found(computing.nests) == nests


def test_work__has_the_rows_of_each_set(scenarios):
    s, rng = scenarios, np.random.default_rng(2)
    computing, n = Computing(s, s.model.locations.is_cpu), len(s.call_paths)
    rows = rows_of(s, s.in_window & s.model.locations.is_cpu[s.graph.nodes.location])
    rows = rows[~computing.creates[rows.call_path]]
    sets = [((low, low + 1),) for low in range(n)] + [((int(low), n),) for low in rng.integers(0, n, 60)]
    found = computing.work(sets)
    assert len(found) == len(sets)
    for work, ((low, high),) in zip(found, sets, strict=True):
        mine = rows[(rows.call_path >= low) & (rows.call_path < high)]
        assert work.node.tolist() == mine.node.tolist() and work.ticks.tolist() == mine.ticks.tolist()
        assert work.by_row(work.who).tolist() == mine.location.tolist()
        assert work.total.tolist() == mine.groupby("location").ticks.sum().tolist()
