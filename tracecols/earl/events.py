"""One event, as a small mapping and as an object whose links can be followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import total_ordering
from typing import TYPE_CHECKING, Any

from tracecols.earl.definitions import CallSite, Communicator, Location, Region, Window
from tracecols.earl.types import is_type
from tracecols.schema import EventKind

if TYPE_CHECKING:
    from tracecols.earl.trace import EventTrace

_FLOW = ("reg_id", "csite_id", "cnodeptr", "cedgeptr")
_MESSAGE = ("com_id", "tag", "length")
_COLLECTIVE = ("com_id", "root_id", "sent", "recvd")
_RMA = ("win_id", "origin_id", "target_id", "rmaid", "length")

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "ENTER": _FLOW,
    "EXIT": ("reg_id",),
    "MPICEXIT": ("reg_id", *_COLLECTIVE),
    "COLLEXIT": ("reg_id", *_COLLECTIVE),
    "OMPCEXIT": ("reg_id",),
    "MPIWCEXIT": ("reg_id", "win_id"),
    "MPIWEXIT": ("reg_id", "win_id"),
    "SEND": ("dest_id", *_MESSAGE),
    "RECV": ("src_id", *_MESSAGE, "sendptr"),
    "FORK": (),
    "JOIN": ("forkptr",),
    "OMPALOCK": ("lock_id", "lockptr"),
    "OMPRLOCK": ("lock_id", "lockptr"),
    "ALOCK": ("lock_id", "lockptr"),
    "RLOCK": ("lock_id", "lockptr"),
    "MPIPUT1TS": _RMA,
    "MPIPUT1TE": _RMA,
    "MPIGET1TS": _RMA,
    "MPIGET1TE": _RMA,
    "MPIGET1TO": _RMA,
    "PUT1TS": _RMA[1:],
    "PUT1TE": _RMA[1:],
    "GET1TS": _RMA[1:],
    "GET1TE": _RMA[1:],
    "MPIWLOCK": ("win_id", "target_id"),
    "MPIWUNLOCK": ("win_id", "target_id"),
    "EVENT": (),
}
"""The attributes of each type besides the common ones: type, kind, pos, loc_id, time, enterptr."""

COMMON = ("type", "kind", "pos", "loc_id", "time", "enterptr")


@total_ordering
class Event(Mapping[str, Any]):
    """An event of an `EventTrace`; equal, ordered and hashed by position.

    As a mapping, it has the keys of its type with the names of EARL's Python interface, links as positions (-1 is null)
    and the names of counters that were read with it. As an object, it has all attributes: links are events, references
    are definitions; attributes that its type does not have are None, or -1 for numbers.

    Parameters
    ----------
    trace : EventTrace
    row : int
        Row of the event table.

    Examples
    --------
    >>> e = trace.event(4711)  # doctest: +SKIP
    >>> e["enterptr"], e.enterptr.reg.name, e.enterptr.cnodeptr.pos  # doctest: +SKIP
    """

    __slots__ = ("row", "trace")

    def __init__(self, trace: EventTrace, row: int) -> None:
        self.trace, self.row = trace, row

    # -- common attributes -----------------------------------------------------------------------------------------

    @property
    def pos(self) -> int:
        """Place in chronological order, 1 .. n (thesis 3.1)."""
        return int(self.trace.index["pos_of"].item(self.row)) + 1

    @property
    def loc(self) -> Location:
        """Location of the event."""
        return self.trace.locs[self.loc_id]

    @property
    def loc_id(self) -> int:
        """Row of the location."""
        return self.trace.location_of(self.row)

    @property
    def ticks(self) -> int:
        """Clock reading, exact."""
        return int(self.trace.index["time"].item(self.row))

    @property
    def time(self) -> float:
        """Seconds since the start of the recording."""
        return (self.ticks - self.trace.origin) / self.trace.resolution

    @property
    def type(self) -> str:
        """Name of the event type."""
        return self.trace.type_of(self.row)

    @property
    def kind(self) -> str:
        """Name of the event kind (`EventKind`), more specific than the type for events that EARL does not know."""
        return EventKind(self.trace.index["kind"].item(self.row)).name

    def is_type(self, name: str) -> bool:
        """Return whether the event is of a type or of one below it."""
        return is_type(self.type, self.trace.known_type(name))

    # -- links -----------------------------------------------------------------------------------------------------

    def _link(self, row: int) -> Event | None:
        return Event(self.trace, row) if row >= 0 else None

    @property
    def enterptr(self) -> Event | None:
        """ENTER of the region instance that the event lies in; for an EXIT its own ENTER (thesis 3.10)."""
        return self._link(int(self.trace.index["enterptr"].item(self.row)))

    @property
    def cnodeptr(self) -> Event | None:
        """Of an ENTER: the first ENTER with the same call path (thesis 3.26)."""
        return self._link(self.trace.cnode_of(self.row))

    @property
    def cedgeptr(self) -> Event | None:
        """Of an ENTER: the first ENTER of the enclosing call path (thesis 3.24)."""
        return self._link(self.trace.cedge_of(self.row))

    @property
    def sendptr(self) -> Event | None:
        """Of a RECV: its SEND (thesis 3.11)."""
        return self._link(self.trace.find("recv", self.row, "recv.send"))

    @property
    def lockptr(self) -> Event | None:
        """Of a lock event: the previous one of the same lock (thesis 3.16)."""
        return self._link(self.trace.find("lock", self.row, "lock.previous"))

    @property
    def forkptr(self) -> Event | None:
        """Of a JOIN: its FORK."""
        return self._link(self.trace.find("join", self.row, "join.fork"))

    # -- attributes ------------------------------------------------------------------------------------------------

    @property
    def reg_id(self) -> int:
        """Row of the region entered or left."""
        return int(self.trace.index["region"].item(self.row))

    @property
    def reg(self) -> Region | None:
        """Region entered or left."""
        return self.trace.regs[self.reg_id] if self.reg_id >= 0 else None

    @property
    def csite_id(self) -> int:
        """Row of the call site of an ENTER."""
        return self.trace.side(self.row, "enter_sites", "call_site")

    @property
    def csite(self) -> CallSite | None:
        """Call site of an ENTER."""
        return self.trace.csites[self.csite_id] if self.csite_id >= 0 else None

    @property
    def _envelope(self) -> int:
        """Row with the attributes of a message: the event's own or, for the receive of a probed message, which has
        none, that of its SEND."""
        if self.type == "RECV" and self.trace.side(self.row, "p2p", "communicator") < 0:
            send = self.trace.find("recv", self.row, "recv.send")
            return send if send >= 0 else self.row
        return self.row

    @property
    def src_id(self) -> int:
        """Of a RECV: location of the first thread of the sending process."""
        if not self.is_type("RECV"):
            return -1
        row = self._envelope
        return self.trace.partner(row) if row == self.row else self.trace.locs[self.trace.location_of(row)].proc.loc.id

    @property
    def src(self) -> Location | None:
        """Of a RECV: location that the message came from."""
        return self._location(self.src_id)

    @property
    def dest_id(self) -> int:
        """Of a SEND: location of the first thread of the receiving process."""
        return self.trace.partner(self.row) if self.is_type("SEND") else -1

    @property
    def dest(self) -> Location | None:
        """Of a SEND: location that the message goes to."""
        return self._location(self.dest_id)

    def _location(self, number: int) -> Location | None:
        return self.trace.locs[number] if number >= 0 else None

    @property
    def com_id(self) -> int:
        """Row of the communicator of a message or a collective operation."""
        number = self.trace.side(self._envelope, "p2p", "communicator")
        return number if number >= 0 else self.trace.side(self.trace.end_of(self.row), "collectives", "communicator")

    @property
    def com(self) -> Communicator | None:
        """Communicator of a message or a collective operation."""
        return self.trace.coms[self.com_id] if self.com_id >= 0 else None

    @property
    def tag(self) -> int:
        """Tag of a message."""
        return self.trace.side(self._envelope, "p2p", "tag")

    @property
    def length(self) -> int:
        """Length in bytes; a RECV has that of its SEND."""
        send = self.trace.find("recv", self.row, "recv.send")
        length = self.trace.side(send if send >= 0 else self.row, "p2p", "length")
        return length if length >= 0 else self.trace.side(self.row, "rma", "sent")

    @property
    def root_id(self) -> int:
        """Of an MPICEXIT: location of the root's first thread."""
        return self.trace.root_of(self.row)

    @property
    def root(self) -> Location | None:
        """Of an MPICEXIT: the root."""
        return self._location(self.root_id)

    @property
    def sent(self) -> int:
        """Of an MPICEXIT: bytes that this participant sends."""
        return self.trace.side(self.trace.end_of(self.row), "collectives", "sent")

    @property
    def recvd(self) -> int:
        """Of an MPICEXIT: bytes that this participant receives."""
        return self.trace.side(self.trace.end_of(self.row), "collectives", "received")

    @property
    def lock_id(self) -> int:
        """Number of the lock, unique in its process."""
        number = self.trace.side(self.row, "locks", "lock")
        return number if number >= 0 else self.trace.side(self.row, "rma", "lock")

    @property
    def win_id(self) -> int:
        """Row of the window of one-sided communication."""
        number = self.trace.side(self.row, "rma", "window")
        return number if number >= 0 else self.trace.side(self.trace.end_of(self.row), "rma", "window")

    @property
    def win(self) -> Window | None:
        """Window of one-sided communication."""
        return self.trace.wins[self.win_id] if self.win_id >= 0 else None

    @property
    def origin_id(self) -> int:
        """Of a transfer: location of the first thread of the process that issued it."""
        return self.trace.one_sided(self.row)[0]

    @property
    def target_id(self) -> int:
        """Of a transfer: location of the first thread of the process whose memory it accesses."""
        return self.trace.one_sided(self.row)[1]

    @property
    def rmaid(self) -> int:
        """Number shared by the events of a transfer."""
        return self.trace.side(self.row, "rma", "matching")

    @property
    def metrics(self) -> dict[str, Any]:
        """Counters by name: of a METRIC event, or of those just before another event at its time and location."""
        return self.trace.metrics_of(self.row)

    @property
    def nmets(self) -> int:
        """Number of counters."""
        return len(self.metrics)

    # -- mapping ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        if key in COMMON or key in ATTRIBUTES.get(self.type, ()):
            value = getattr(self, key)
            if key.endswith("ptr"):
                return value.pos if value is not None else -1
            return value
        metrics = self.metrics
        if key in metrics:
            return metrics[key]
        raise KeyError(f"{self.type} events have no {key!r}")

    def __iter__(self) -> Iterator[str]:
        yield from COMMON
        yield from ATTRIBUTES.get(self.type, ())
        yield from self.metrics

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.row == other.row and self.trace is other.trace

    def __lt__(self, other: Event) -> bool:
        return self.pos < other.pos

    def __hash__(self) -> int:
        return hash(self.row)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        what = self.reg.name if self.reg is not None else self.kind
        return f"<{self.type} {what} at {self.pos}, location {self.loc_id}, {self.time:.9f} s>"
