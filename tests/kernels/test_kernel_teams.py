"""Kernels of threads in teams."""

import numpy as np

from tracecols.enhance.dataflow.grouping import pair_nested
from tracecols.enhance.scan.teams import MEANING
from tracecols.kernels.teams import Brackets, list_visits
from tracecols.schema import EventKind as K

KINDS = (K.THREAD_FORK, K.THREAD_JOIN, K.THREAD_TEAM_BEGIN, K.THREAD_TEAM_END, K.THREAD_CREATE)


def test_visits__are_pairs_of_begins_and_ends_with_the_fork_before():
    # also where ends have no begin, and begins no end
    kind = np.random.default_rng(1).choice(np.array(KINDS, np.uint8), 500)
    begins, forks = np.flatnonzero(kind == K.THREAD_TEAM_BEGIN), np.flatnonzero(kind == K.THREAD_FORK)
    of_forks, of_visits = (Brackets(*np.zeros((3, of.size), np.int64)) for of in (forks, begins))
    fork = np.zeros(begins.size, np.int64)
    list_visits(MEANING, kind, of_forks, of_visits, fork)
    for found, at, end in ((of_visits, begins, K.THREAD_TEAM_END), (of_forks, forks, K.THREAD_JOIN)):
        assert found.begin.tolist() == at.tolist()
        is_begin = np.isin(np.arange(kind.size), at)
        assert found.end.tolist() == pair_nested(is_begin, kind == end)[at].tolist()
    # other events of threads are passed over
    of_teams = np.flatnonzero(kind != K.THREAD_CREATE)
    before = of_teams[np.searchsorted(of_teams, begins) - 1]
    expected = [f if kind[f] == K.THREAD_FORK and f < b else -1 for f, b in zip(before, begins, strict=True)]
    assert [int(of_forks.begin[f]) if f >= 0 else -1 for f in fork] == expected
