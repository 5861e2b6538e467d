"""When all processes have left MPI_Init, and when the first one enters MPI_Finalize."""

from __future__ import annotations

import numpy as np

from tracecols.enhance.dataflow.columns import joined_column, merged
from tracecols.model.model import Model


def mpi_interval(model: Model) -> dict[str, int]:
    """Return the interval between start and end of MPI: `begin`, the last exit of MPI_Init, and `end`, the first enter
    of MPI_Finalize, in ticks of the clock.

    Empty if the trace lacks either, or nothing lies between them.
    """
    regions = model.regions
    slices, entries = [], [np.zeros(0, np.int32)]
    for scan in model.scans:
        slices.append(scan.global_calls)
        entries.append(scan.paths.column("entry"))
    calls, first_node = merged(slices), np.cumsum([entry.size for entry in entries])[:-1]
    node = np.repeat(first_node, [len(rows) for rows in slices]) + joined_column(calls, "node", np.int32)
    region = regions.of_entry[np.concatenate(entries)[node]]
    begin = joined_column(calls, "exit_time", np.int64)[regions.is_init[region]]
    end = joined_column(calls, "enter_time", np.int64)[regions.is_finalize[region]]
    if not (begin.size and end.size) or begin.max() >= end.min():
        return {}
    return {"begin": int(begin.max()), "end": int(end.min())}
