"""Output buffers of the decoders: events, their values and additional attributes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part

T = TypeVar("T")

N_VALUES = 6
"""Maximum number of values of an event."""


class Events(NamedTuple):
    """Buffers of events; their number is in the state of a decoder."""

    time: NDArray[np.int64]
    """(capacity,): ticks."""
    kind: NDArray[np.uint8]
    """(capacity,): `EventKind`."""
    region: NDArray[np.int32]
    """(capacity,): region of ENTER, EXIT and other events that enter one; -1 of others."""


class Sides(NamedTuple):
    """Buffers of events with values; their number is in the state of a decoder."""

    event: NDArray[np.int64]
    """(capacity,): number of the event in its location."""
    kind: NDArray[np.uint8]
    """(capacity,)"""
    values: NDArray[np.int64]
    """(capacity, N_VALUES): values of its fields; the third one of METRIC and PROGRAM_BEGIN is where their values begin
    in `extra`."""


class Attributes(NamedTuple):
    """Buffers of additional attributes of events; their number is in the state of a decoder."""

    event: NDArray[np.int64]
    """(capacity,): number of the event in its location."""
    attribute: NDArray[np.int64]
    """(capacity,): row of the attribute, or its number in the format."""
    type: NDArray[np.uint8]
    """(capacity,): type of the value, or of the record that holds it."""
    value: NDArray[np.int64]
    """(capacity,): a number, the bits of a number, or a row."""


@inner_part
def put_event(e: Any, time: Any, kind: Any, region: Any, events: Events) -> None:
    """Write event `e` to the buffers."""
    events.time[e] = time
    events.kind[e] = kind
    events.region[e] = region


def empty_sides(n: int) -> Sides:
    """Make uninitialised buffers of n events with values."""
    return Sides(np.empty(n, np.int64), np.empty(n, np.uint8), np.empty((n, N_VALUES), np.int64))


class PerThread(threading.local, Generic[T]):
    """A value of each thread, made when the thread first asks for it, and reused from location to location."""

    def __init__(self, make: Callable[[], T]) -> None:
        # called again by every thread that gets an attribute
        self.value = make()
