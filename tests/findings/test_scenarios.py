"""Changes that are tried together: each gains the same as in a separate sweep."""

import numpy as np
import pytest

from tracecols.findings import scenarios as module
from tracecols.findings.overheads import _mutual, of_overlap
from tracecols.findings.scenarios import Change, Scenarios
from tracecols.testing import Program


def changes_of(s, n, rng):
    """Return changes of random nodes, and of random edges into nodes that are not the first of their location."""
    nodes, head = s.graph.nodes, s.graph.edges.head
    follows = np.append(~nodes.is_first, np.zeros(s.graph.n_hubs, bool))[head]
    found = [Change()]
    for _ in range(n):
        node = np.flatnonzero(rng.random(len(nodes)) < 0.1)
        less = rng.integers(-5, 2 * int(s.weight.max()) + 5, node.size)
        cut = np.flatnonzero(follows & (rng.random(head.size) < rng.choice([0, 0.2])))
        found.append(Change(node, less, cut))
    return found


@pytest.mark.parametrize("n", [0, 1, 7, 8, 20])
@pytest.mark.parametrize("most", [0.3, 2])
def test_gains__are_those_of_single_sweeps(scenarios, n, most, monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", most)
    s, rng = scenarios, np.random.default_rng(n)
    changes = changes_of(s, n, rng)
    for besides in ([], changes_of(s, 2, rng)):
        before = s.replay.runtime(s.sweep(besides))
        alone = [before - s.replay.runtime(s.sweep([*besides, change])) for change in changes]
        assert s.gains(changes, besides) == alone
    assert s.gains([]) == []


def test_less_computation__is_the_sum_of_the_rows_of_a_node(scenarios):
    s, rng = scenarios, np.random.default_rng(0)
    rows = np.flatnonzero(rng.random(s.computation.ticks.size) < 0.7)
    less = rng.random(rows.size) * 100 * (rng.random(rows.size) < 0.8)
    change = s.less_computation(s.computation.node[rows], less)
    total = np.bincount(s.computation.node[rows], less, len(s.graph.nodes))
    assert change.node.tolist() == np.flatnonzero(total).tolist()
    assert change.less.tolist() == np.rint(total[total != 0]).tolist()


def test_less_shares__is_the_sum_of_the_shares_of_rows(scenarios):
    s, rng = scenarios, np.random.default_rng(4)
    c = s.computation
    n_rows = rng.integers(0, c.ticks.size // 60 + 2, 30)
    rows = np.sort(rng.choice(c.ticks.size, int(n_rows.sum())))
    share = rng.random(n_rows.size) * (rng.random(n_rows.size) < 0.8)
    change = s.less_shares(c.node[rows], n_rows, share, c.ticks[rows])
    expected = s.less_computation(c.node[rows], np.repeat(share, n_rows) * c.ticks[rows])
    assert change.node.size
    assert change.node.tolist() == expected.node.tolist()
    assert change.less.tolist() == expected.less.tolist()


def test_less_lost__is_the_difference_of_all_losses(scenarios):
    s, rng = scenarios, np.random.default_rng(3)
    first, second = changes_of(s, 2, rng)[1:]
    node, (lost, idle, beyond) = s.less_lost(s.moments([first]), s.moments([first, second]))
    expected = s.losses([first]) - s.losses([first, second])
    difference = np.zeros(len(s.graph.nodes), np.int64)
    difference[node] = lost + idle
    assert difference.tolist() == expected.tolist()
    assert (np.diff(node) > 0).all()
    assert ((lost != 0) | (idle != 0)).all()
    # only nodes that begin in a team are idle, and computation nodes lose nothing beyond waiting
    assert not idle[~s.begins_in_team[node]].any()
    assert not beyond[s.graph.nodes.kind[node] == 0].any()


def test_mutual__is_whether_a_receiver_has_sent_as_many():
    rng = np.random.default_rng(5)
    sender, receiver = (rng.integers(0, 4, 60).astype(np.int32) for _ in range(2))
    sent, received = rng.permutation(60), rng.permutation(60)
    found = _mutual(sender, sent, receiver, received)
    for i in range(60):
        nth = int((received[receiver == receiver[i]] < received[i]).sum())
        own = sorted(sent[sender == receiver[i]])
        assert found[i] == (nth < len(own) and own[nth] <= received[i])


def test_moved_edges__that_contradict_others_change_nothing(scenarios):
    s = scenarios
    nodes, tail = s.graph.nodes, s.tail
    of_node = np.flatnonzero((tail < len(nodes)) & ~nodes.is_first[np.minimum(tail, len(nodes) - 1)])
    edge = of_node[:1]
    assert edge.size
    # from a node to the one before it
    change = Change(moved=edge, to=tail[edge].astype(np.int64) - 1, later=np.array([10**9]))
    assert s.gain(change) == 0
    assert s.sweep([change]).tolist() == s.time.tolist()


@pytest.mark.parametrize(("transfer", "interior", "hidden"), [(400, 1000, 400), (1000, 600, 600)])
def test_overlap__gains_what_the_computation_after_the_exchange_can_hide(transfer, interior, hidden):
    """Two processes post, wait for the transfer, and compute after that, ten times."""
    program, n = Program(processes=2), 10
    for r, one in enumerate(program.masters):
        one.enter(0, "main")
        for k in range(n):
            t = k * (10 + transfer + interior)
            one.enter(t, "exchange").enter(t + 1, "MPI_Irecv").post_receive(t + 1, 1).leave(t + 2)
            one.enter(t + 3, "MPI_Isend").start_send(t + 3, 1 - r, request=2).leave(t + 4)
            one.enter(t + 5, "MPI_Waitall").complete_receive(t + 5 + transfer, 1 - r, request=1)
            one.complete_send(t + 5 + transfer, 2).leave(t + 5 + transfer).leave(t + 6 + transfer)
            one.enter(t + 7 + transfer, "interior").leave(t + 7 + transfer + interior)
        one.leave(n * (10 + transfer + interior))
    with program.trace() as trace:
        (found,) = of_overlap(Scenarios(trace.replay))
    # between the exchange and the next one the program computes up to 9 ticks more
    assert found.gain == pytest.approx(n * hidden, abs=9 * n)
