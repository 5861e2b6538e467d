"""Notes of a cube: what could not be matched, is contradictory, or was left out."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tracecols.enhance.definitions.locations import PIECE_CALLS, PIECE_LEFT_OUT
from tracecols.enhance.definitions.regions import COPY, LAUNCH
from tracecols.model.model import Model
from tracecols.model.tables import TABLES, tables_of
from tracecols.patterns.base import Findings
from tracecols.patterns.mpi import mpi
from tracecols.patterns.profile import displaced_call_paths, idle_cells, idle_cells_by_tree, overbooked_threads
from tracecols.schema import not_analysed
from tracecols.vectors import Mask


def counts_by_location(model: Model) -> dict[str, int]:
    """Count contradictions within locations, and in the definitions."""
    return {
        "exits that do not match their enter": sum(s.bad_exits for s in model.scans),
        "region instances that never end": sum(s.open for s in model.scans),
        "events earlier than the one before them": sum(model.store.decreases.values()),
        "positions that do not fit their topology": model.misplaced,
    }


NEIGHBOURS = (
    "calls of neighbourhood collectives: no recording says on which communicator, so who waits for whom is not known"
)
"""Note of traces with MPI_Neighbor_alltoall and its like, of which OTF2 has nothing but ENTER and LEAVE."""

NO_STREAMS = "calls that launch kernels or copy, and no streams of devices: what the devices do is not recorded"
"""Note of traces in which only hosts are recorded."""


def visits_of(model: Model, regions: Mask) -> int:
    """Count how often regions are entered."""
    m = model.profile
    return int(m.visits[regions[model.call_paths.region][m.call_path]].sum())


OF_PIECES = {
    PIECE_CALLS: (
        "calls of MPI, OpenMP or for devices that begin before the piece or end after it: only a part of "
        "their waiting is in it"
    ),
    PIECE_LEFT_OUT: (
        "events of messages and collective operations left out of the piece, which holds only one side of them"
    ),
}
"""Notes of a trace slice that concern its results, by the fact of its source that holds their count."""


def notes_of_trace(model: Model) -> dict[str, int]:
    """Count what a trace has that analyses leave out, and what an analysis of a trace slice does not see."""
    devices = int(model.locations.is_device.sum())
    found = {"device streams, which are no CPUs: their times and visits are left out": devices}
    for fact, what in OF_PIECES.items():
        n = str(model.store.manifest["source"].get(fact, 0))
        found[what] = int(n) if n.isdecimal() else 0
    several = model.locations.n_processes > 1
    found[NEIGHBOURS] = visits_of(model, mpi("mpi_i?neighbor_.*")(model.regions)) if several else 0
    found[NO_STREAMS] = 0 if devices else visits_of(model, np.isin(model.regions.device_call, [LAUNCH, COPY]))
    found |= {f"records of {what}, which are not analysed": n for what, n in not_analysed(model.store.manifest).items()}
    return {what: n for what, n in found.items() if n}


def notes_of_threads(model: Model, findings: Findings) -> dict[str, int]:
    """Count what the idle time of threads contains beyond its definition."""
    idle = findings.conventions.idle
    if idle not in (idle_cells, idle_cells_by_tree):
        return {}
    displaced = displaced_call_paths(model, findings) if idle is idle_cells else 0
    found = {
        "threads that run while their process runs serially: their idle time counts in addition": (
            0 if displaced else overbooked_threads(model, findings)
        ),
        "call paths counted outside their parallel region, as the reference does": displaced,
    }
    return {what: n for what, n in found.items() if n}


def counts_of(of_slice: Model, stage: str) -> dict[str, int]:
    """Count what could not be matched or is contradictory in the tables of a stage in a slice of the trace."""
    return {k: v for spec in tables_of(stage) if spec.counts for k, v in of_slice.get(spec.name).counts.items()}


def counts(model: Model) -> dict[str, int]:
    """Count what could not be matched or is contradictory in the whole trace; zeros are left out."""
    found = Counter(counts_by_location(model))
    with model.divided() as run:
        for more in run.stages(counts_of, {spec.stage for spec in TABLES.values() if spec.counts}):
            found.update(more)
    return {k: int(v) for k, v in found.items() if v}
