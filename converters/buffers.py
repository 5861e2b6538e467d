"""What the decoders write to: buffers of events and of their attributes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

N_VALUES = 6
"""Values of an event that has attributes."""


class Events(NamedTuple):
    """Buffers of events, as many as the state of a decoder says."""

    time: NDArray[np.int64]
    """(capacity,): ticks."""
    kind: NDArray[np.uint8]
    """(capacity,): `EventKind`."""
    region: NDArray[np.int32]
    """(capacity,): region of ENTER, EXIT, and of a measurement that stops; -1 of others."""


class Sides(NamedTuple):
    """Buffers of events with attributes, as many as the state of a decoder says."""

    event: NDArray[np.int64]
    """(capacity,): number of the event in its location."""
    kind: NDArray[np.uint8]
    """(capacity,)"""
    values: NDArray[np.int64]
    """(capacity, N_VALUES): what its fields hold; of METRIC and PROGRAM_BEGIN the third says where their values begin
    among `extra`."""
