"""What is left out of a search where a trace is too large for it."""

from __future__ import annotations

from tracecols.model.model import Model

MOST_CALLS = 1 << 25
"""Call instances of a trace whose root causes are computed without being asked for: their points and pairs are held in memory, 210 B per
call instance of a generated hybrid program (multizone, 64 x 4, depth 4, 10^8 events) most of which wait."""


LEFT_OUT = "call instances: root causes take about 200 bytes of memory for each and are left out; name them with --property to have them"
"""Note of larger traces."""


MOST_SPREAD = 1 << 23
"""Call paths times CPUs up to which the difference from the mean is computed without being asked for: it has a cell of 16 B for nearly all of
them in three properties, since what a location never visits is lacking to the mean, too. Of 10,000 locations with 200 events each (1,148 call
paths) these were 80 % of the cells, and half of the time and memory of an analysis."""


TOO_MANY_CELLS = "cells of call paths and CPUs: computational imbalance has nearly all of them and is left out; name it with --property to have it"
"""Note of larger programs."""


MOST_TICKS = 1 << 62
"""Ticks of all locations together up to which sums of root causes fit in 64 bits; five hours of 100,000 locations at 2.6 GHz."""


TOO_LONG = "ticks of all locations: root causes in whole ticks would need more than 64 bits and are left out; conventions scalasca compute them in seconds"
"""Note of longer traces."""


def ticks_of_all(model: Model) -> int:
    """Return the length of the run times the number of locations that compute."""
    manifest = model.store.manifest
    return int((manifest["last_time"] or 0) - (manifest["first_time"] or 0)) * int(model.locations.is_cpu.sum())
