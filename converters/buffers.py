"""What the decoders write to: buffers of events and of their attributes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

N_VALUES = 6
"""Values of an event that has attributes."""


class Events(NamedTuple):
    """Buffers of events, as many as the state of a decoder says.

    Attributes
    ----------
    time : (capacity,) int64
        Ticks.
    kind : (capacity,) uint8
        `EventKind`.
    region : (capacity,) int32
        Region of ENTER, EXIT, and of a measurement that stops; -1 of others.
    """

    time: NDArray[np.int64]
    kind: NDArray[np.uint8]
    region: NDArray[np.int32]


class Sides(NamedTuple):
    """Buffers of events with attributes, as many as the state of a decoder says.

    Attributes
    ----------
    event : (capacity,) int64
        Number of the event in its location.
    kind : (capacity,) uint8
    values : (capacity, N_VALUES) int64
        What its fields hold; of METRIC and PROGRAM_BEGIN the third says where their values begin among `extra`.
    """

    event: NDArray[np.int64]
    kind: NDArray[np.uint8]
    values: NDArray[np.int64]
