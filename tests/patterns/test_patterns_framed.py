"""Patterns written with data frames: the same severities as those written with arrays, for any partitioning."""

import numpy as np
import pandas as pd
import pytest
from conftest import slow
from support.two_messages import two_messages

import tracecols
from tracecols.enhance.dataflow import partitions
from tracecols.enhance.mpi import collectives
from tracecols.errors import AnalysisError
from tracecols.testing import assert_severities


def declare(function, parent="mpi_latesender", **more):
    declared = {"table": "messages", "summary": "Mine.", "frame": True} | more
    return tracecols.pattern("mine", parent, "Mine", **declared)(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda m: m.length >= 1000,
        lambda m: (m.send_enter_seconds - m.recv_enter_seconds)[m.length >= 1000],
        *slow(
            [
                lambda m: m.severity[m.length >= 1000],
                lambda m: (m.send_enter_time - m.recv_enter_time)[m.length >= 1000],
                lambda m: (m.send_enter_seconds - m.recv_enter_seconds).where(m.length >= 1000),
                lambda m: m.length.astype("Int64").mask(m.length < 1000) > 0,
            ]
        ),
    ],
    ids=["mask", "seconds", "severity", "ticks", "nan", "nullable"],
)
def test_framed__masks_and_severities_in_seconds_or_ticks(function):
    # two receives that wait for 15 and 20 ticks, the second for 5000 bytes
    assert_severities(two_messages(), "mine", {("main/MPI_Recv", 1): 20}, patterns=[declare(function)])


@pytest.mark.slow
def test_framed__is_what_was_tried_in_a_notebook(trace):
    """The body gives the same result on `trace.messages` as in the pattern."""

    def stall(m):
        wait = m.send_done_exit_seconds - np.maximum(m.send_done_enter_seconds, m.recv_post_exit_seconds)
        return wait[wait > 0]

    tried = stall(trace.sent_messages)
    family = declare(stall, "mpi_point2point", table="sent_messages", until="send_done_exit_time")
    cube = trace.analyze(patterns=[family])
    assert len(tried) > 3
    assert cube.total("mine") == pytest.approx(tried.sum(), abs=1e-8)

    @tracecols.pattern("other", "mpi_point2point", "Other", table="sent_messages", summary="The same in arrays.")
    def other(model, m, parent):
        wait = m.send_done_exit_time - np.maximum(m.send_done_enter_time, m.recv_post_exit_time)
        return parent.where(wait > 0, severity=wait)

    both = trace.analyze(patterns=[family, other])
    assert (both.cells["mine"].key == both.cells["other"].key).all()
    assert (both.cells["mine"].value == both.cells["other"].value).all()
    matches = trace.matches("mine", patterns=[family], raw=True)
    assert trace.duration(matches.end_time - matches.begin_time).tolist() == trace.duration(matches.severity).tolist()


def test_framed__is_the_same_for_any_partitioning(trace, monkeypatch):
    def mine(c, *, least):
        assert c.world_rank.dtype == np.int32
        return c.severity[(c.op_name if "op_name" in c else c.path.astype(str)).notna() & (c.severity > least)]

    family = declare(
        mine,
        "mpi_latebroadcast",
        table="collective_members",
        parameters={"least": tracecols.Parameter(0.0071, "sec", "least wait")},
    )
    whole = trace.analyze(patterns=[family]).cells["mine"]
    assert len(whole) == 1
    assert trace.analyze(patterns=[family], parameters={"mine": {"least": 1}}).total("mine") == 0
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 30)
    monkeypatch.setattr(collectives, "BUCKET_ROWS", 4)
    divided = tracecols.open(trace.path, jobs=2).analyze(patterns=[family]).cells["mine"]
    assert (divided.key == whole.key).all()
    assert (divided.value == whole.value).all()


def test_framed__counts_and_constituents(trace):
    def slow(m):
        return (m.again_recv_time - m.again_send_time > 0) & (m.again_recv == m.recv)

    family = declare(slow, "", unit="occ", constituents={"again": tracecols.Constituent("recv", "messages", "recv")})
    assert trace.analyze(patterns=[family]).total("mine") == (trace.messages.recv_time > trace.messages.send_time).sum()


@pytest.mark.parametrize(
    ("function", "parent", "words"),
    [
        (lambda m: m.length.to_numpy() > 3, "mpi_latesender", "it returns ndarray, not a Series"),
        (lambda m: m.send_path, "mpi_latesender", "severities are numbers, or a mask is of truth values"),
        (lambda m: pd.Series([1.0], [10**6]), "mpi_latesender", "keep the index of the frame"),
        (lambda m: m.severity - 18, "mpi_latesender", "severities must not be negative"),
        (lambda m: m.severity / 0 + np.inf, "mpi_latesender", "severities must be finite"),
        (lambda m: m.length > 0, "mpi_point2point", "has none on the table messages; return severities"),
    ],
)
def test_framed__what_is_no_answer_is_refused(function, parent, words):
    with pytest.raises(AnalysisError, match=words):
        assert_severities(two_messages(), "mine", {}, patterns=[declare(function, parent)])


def test_framed__uses_no_matches_of_others(trace):
    with pytest.raises(AnalysisError, match="given no matches of others"):
        trace.analyze(patterns=[declare(lambda m: m.length > 0, uses=("mpi_latereceiver",))])
