"""What processes tell each other: a trace divided into parts, and what becomes of what each part sends to others.

Every part posts what it has to say, and then gathers what was sent to it, so that no two parts need to be in memory at the
same time. A trace that is small enough is one part, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.collectives import CollectivePost, match_collectives, plan_ranges
from tracecols.enhance.compound import CompoundTable
from tracecols.enhance.messages import LateCalls, MessagePost, Receipt, gather_sent, match_messages, post_messages
from tracecols.enhance.spool import Spool
from tracecols.once import once

if TYPE_CHECKING:
    from tracecols.enhance.model import Model

Post = TypeVar("Post", CollectivePost, MessagePost)

ROOM = 1 << 20
"""Participants of collective operations that are matched together."""


class Exchange:
    """The parts of a trace and what they exchange; what several parts have posted is given back at the end of a `with`.

    Parameters
    ----------
    model : Model
        The trace, or the one part.
    division : list of (n_members,) int64
        Locations of every part; those of a process stay together.

    Attributes
    ----------
    part_of : (n_processes,) int64
        Part of every process.
    spool : Spool, optional
        Where columns stay that one part posts for others; there is none with one part, whose columns stay where they are.
    """

    def __init__(self, model: Model, division: list[NDArray[np.int64]]) -> None:
        self.model, self.division = model, division
        self.part_of = np.zeros(int(model.process.max(initial=-1)) + 1, np.int64)
        for number, members in enumerate(division):
            self.part_of[model.process[members]] = number
        self.spool = Spool(model.spool) if len(division) > 1 else None
        self._messages: dict[int, MessagePost] = {}
        self._collectives: dict[int, CollectivePost] = {}
        self._receipts: dict[int, Receipt] = {}
        self._late: dict[int, Callable[[], LateCalls]] = {}
        # by part: a thread that receives may have to wait for one that posts, and never the other way round
        self._posting, self._receiving = ([RLock() for _ in division] for _ in range(2))

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *error: object) -> None:
        if self.spool is not None:
            for kept in (self._messages, self._collectives, self._receipts, self._late):
                kept.clear()
            self.spool.__exit__(*error)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.division)

    def view(self, part: int) -> Model:
        """Return a model that sees the processes of one part only; the model itself if there is one part."""
        return self.model if self.n_parts == 1 else self.model.view(self.division[part], self, part)

    def range_view(self, of: int) -> Model:
        """Return a model that sees one range of collective operations only; the model itself if there is one part."""
        return self.model if self.n_parts == 1 else self.model.view(np.zeros(0, np.int64), self, of)

    def post(self, view: Model) -> None:
        """Let a part say what it has to say, unless it has."""
        with self._posting[view.part]:
            if view.part not in self._messages:
                self._collectives[view.part] = CollectivePost(view, self)
                # all sends stay with the view, and go with it: the post outlives it
                posted, view.posted_sends = post_messages(view, self)
                self._messages[view.part] = posted

    def _posts(self, posts: dict[int, Post]) -> list[Post]:
        for part in range(self.n_parts):
            if part not in self._messages:
                self.post(self.view(part))
        return [posts[part] for part in range(self.n_parts)]

    def messages(self, part: int) -> tuple[CompoundTable, CompoundTable]:
        """Return the messages a part receives, and all its receives; and tell the senders."""
        table, receives, receipt = match_messages(self, part, self._posts(self._messages))
        late: Callable[[], LateCalls] = lru_cache(maxsize=None)(partial(LateCalls, table))
        if self.n_parts > 1:
            # the table goes, its late senders stay
            found = LateCalls(table)
            late = lambda: found  # noqa: E731
        with self._receiving[part]:
            self._late[part], self._receipts[part] = late, receipt
        return table, receives

    def sent_messages(self, part: int) -> CompoundTable:
        """Return the messages a part sends."""
        post = self._posts(self._messages)[part]
        for receiver in range(self.n_parts):
            with self._receiving[receiver]:
                if receiver not in self._receipts:
                    self.messages(receiver)
        receipts = [self._receipts[receiver] for receiver in range(self.n_parts)]
        return gather_sent(self.model, post, receipts, part, self._late[part])

    @once
    def ranges(self) -> list[tuple[int, int]]:
        """Ranges of collective operations that are matched together."""
        return plan_ranges(self._posts(self._collectives), ROOM)

    def collectives(self, of: int) -> tuple[CompoundTable, CompoundTable]:
        """Return the collective operations of a range, and their participants."""
        return match_collectives(self.model, self._posts(self._collectives), *self.ranges[of])
