"""Who sends how much to whom, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.scan.periods import MOST_BINS
from tracecols.errors import AnalysisError
from tracecols.given.arguments import is_whole_number, show
from tracecols.schema import answers
from tracecols.verbs.answers import Answer, answer
from tracecols.verbs.passes import (
    SUBDOMAIN,
    add_up,
    add_up_all,
    check_count,
    check_grouping,
    interval_edges,
    over_messages,
)

POWERS = np.array([0, *(1 << k for k in range(63))], np.int64)
"""Default lower bounds of the bins of a histogram, in bytes."""


def comm_matrix(trace: OpenedTrace, by: str = "rank") -> Answer:
    """Return the numbers and bytes of point-to-point messages between every pair of processes.

    Parameters
    ----------
    by : str
        Grouping of senders and receivers: `rank`, `thread` or `subdomain` (if the trace was opened with subdomains).

    Returns
    -------
    Answer
        A row per pair of sender and receiver with messages: `send_rank`, `recv_rank` (by thread also `send_thread`,
        `recv_thread`; by subdomain `send_subdomain`, `recv_subdomain` in their place, null for locations that belong to
        none), `n_messages`, `bytes`. `plot()` draws a matrix.

    Examples
    --------
    >>> sent = trace.comm_matrix()  # doctest: +SKIP
    >>> sent.pivot(index="send_rank", columns="recv_rank", values="bytes")  # doctest: +SKIP
    """
    model, readable = trace.model, trace.readable
    check_grouping(readable, by, ("rank", "thread"))
    n = model.n_locations
    # the first location represents its rank, or its subdomain
    of = {"rank": readable.rank, "thread": np.arange(n)}.get(by, readable.subdomain_numbers)
    _, first, number = np.unique(of, return_index=True, return_inverse=True)
    group = first[number]

    def visit(m: CompoundTable) -> tuple[NDArray[np.int64], ...]:
        key = group[m.send_location] * n + group[m.recv_location]
        return add_up(key, np.ones(len(m), np.int64), m.length)

    key, n_messages, length = add_up_all(over_messages(model, visit), 2)
    send, recv = np.divmod(key, max(n, 1))
    columns: dict[str, Any] = {"n_messages": n_messages, "bytes": length}
    keys: list[NDArray[Any]] = [of[recv], of[send]]
    if by == SUBDOMAIN:
        columns |= {"send_subdomain": readable.subdomain(send), "recv_subdomain": readable.subdomain(recv)}
    elif by == "thread":
        columns |= {**readable.who(send, "send_"), **readable.who(recv, "recv_")}
        keys = [readable.thread[recv], readable.rank[recv], readable.thread[send], readable.rank[send]]
    else:
        columns |= {"send_rank": readable.rank[send], "recv_rank": readable.rank[recv]}
    order = np.lexsort(keys)
    return answer(answers.COMM_MATRIX, {name: values[order] for name, values in columns.items()})


def message_histogram(trace: OpenedTrace, bins: int | Sequence[int] | None = None) -> Answer:
    """Return the distribution of message lengths.

    Parameters
    ----------
    bins : int or sequence of int, optional
        Number of bins of equal width, or their edges in bytes including the end of the last bin; by default bins begin
        at 0 and the powers of two.

    Returns
    -------
    Answer
        A row per bin: `from_bytes`, `to_bytes`, `n_messages`, `bytes`, `share` (of all bytes). `plot()` draws both.

    Raises
    ------
    AnalysisError
        If the bins are not ascending whole numbers of bytes.
    """
    model = trace.model
    if bins is None:
        edges = POWERS
    elif is_whole_number(bins):
        n = check_count(bins, "bins", MOST_BINS)
        longest = max((int(v) for v in over_messages(model, lambda m: m.length.max(initial=0))), default=0)
        # whole bytes: the last bins may lie beyond the longest message
        edges = np.arange(n + 1, dtype=np.int64) * -(-(longest + 1) // n)
    else:
        edges = np.asarray(bins)
        if edges.dtype.kind not in "iu" or edges.ndim != 1 or edges.size < 2 or (np.diff(edges) <= 0).any():
            raise AnalysisError(
                f"{show(bins)} are not bins of lengths\n  give a number of bins, or ascending whole numbers of bytes"
            )
        edges = edges.astype(np.int64)

    def visit(m: CompoundTable) -> tuple[NDArray[np.int64], ...]:
        return add_up(np.searchsorted(edges, m.length, "right") - 1, np.ones(len(m), np.int64), m.length)

    at, n_messages, length = add_up_all(over_messages(model, visit), 2)
    n_bins = edges.size if bins is None else edges.size - 1
    outside = n_messages[(at < 0) | (at >= n_bins)].sum()
    if outside:
        raise AnalysisError(
            f"{int(outside):,} messages are shorter than {edges[0]:,} or not shorter than {edges[-1]:,} bytes\n"
            "  give bins that hold all, or their number"
        )
    shown = np.arange(at.min(), at.max() + 1) if bins is None and at.size else np.arange(0 if bins is None else n_bins)
    counts, sums = np.zeros((2, n_bins), np.int64)
    counts[at], sums[at] = n_messages, length
    ends = np.append(edges, np.iinfo(np.int64).max)[1:]
    total = int(length.sum())
    return answer(
        answers.MESSAGE_HISTOGRAM,
        {
            "from_bytes": edges[shown],
            "to_bytes": ends[shown],
            "n_messages": counts[shown],
            "bytes": sums[shown],
            "share": sums[shown] / (total or 1),
        },
    )


def comm_over_time(trace: OpenedTrace, bins: int = 50) -> Answer:
    """Return the numbers and bytes of messages sent and received over time.

    Parameters
    ----------
    bins : int
        Number of intervals of equal length from the first event to the last.

    Returns
    -------
    Answer
        A row per interval: `begin_seconds`, `end_seconds`, `n_sent`, `bytes_sent`, `n_received`, `bytes_received`.
        `plot()` draws bytes per second.
    """
    model, readable = trace.model, trace.readable
    edges = interval_edges(model, bins)
    n = edges.size - 1

    def visit(m: CompoundTable) -> NDArray[np.int64]:
        found = np.zeros((4, n), np.int64)
        for i, time in enumerate((m.send_time, m.recv_time)):
            # the last interval includes its end
            at = np.clip(np.searchsorted(edges, time, "right") - 1, 0, n - 1)
            np.add.at(found[2 * i], at, 1)
            np.add.at(found[2 * i + 1], at, m.length)
        return found

    found: Any = sum(over_messages(model, visit), np.zeros((4, n), np.int64))
    names = ("n_sent", "bytes_sent", "n_received", "bytes_received")
    times = {"begin_seconds": readable.seconds(edges[:-1]), "end_seconds": readable.seconds(edges[1:])}
    return answer(answers.COMM_OVER_TIME, {**times, **dict(zip(names, found, strict=True))})
