"""The definitions of a trace, each kind read once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.communicators import Communicators
from tracecols.enhance.definitions.locations import Locations
from tracecols.enhance.definitions.numbering import Numbering
from tracecols.enhance.definitions.order import EventOrder
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.definitions.topologies import Topology, read_topologies
from tracecols.store import Store
from tracecols.vectors import Ints


@dataclass(frozen=True, eq=False)
class Definitions:
    """The definitions of a trace as columns; small, and shared by all steps."""

    store: Store
    regions: Regions
    locations: Locations
    """The type of every location: a thread of a process, its master or a worker, or a stream of a device."""
    first_rows: Ints
    """(n_locations,): row of the first event of every location."""
    communicators: Communicators
    order: EventOrder
    numbering: Numbering
    """For a trace slice: the numbers of its operations in the whole trace."""
    topologies: tuple[Topology, ...]
    """Topologies given by the user, followed by those of the trace."""
    misplaced: int
    """Number of positions that do not fit their topology."""

    @classmethod
    def of(cls, store: Store) -> Definitions:
        locations = Locations.of(store)
        topologies, misplaced = read_topologies(store, locations)
        return cls(
            store,
            Regions(store),
            locations,
            store.first_rows,
            Communicators(store, locations.process),
            EventOrder(store),
            Numbering.of(store),
            tuple(topologies),
            misplaced,
        )

    @property
    def process(self) -> NDArray[np.int32]:
        """Process of every location; (n_locations,) int32."""
        return self.locations.process

    @property
    def n_locations(self) -> int:
        return len(self.locations)

    @property
    def resolution(self) -> int:
        """Ticks per second."""
        return int(self.store.manifest["clock"]["resolution"])
