"""When all processes have left MPI_Init, and when the first one enters MPI_Finalize."""

from __future__ import annotations

import numpy as np

from tracecols.enhance.model import Model


def mpi_interval(model: Model) -> dict[str, int]:
    """Return the interval between start and end of MPI.

    Parameters
    ----------
    model : Model

    Returns
    -------
    dict of str to int
        `begin`, the last exit of MPI_Init, and `end`, the first enter of MPI_Finalize, in ticks of the clock. Empty if the trace lacks
        either, or nothing lies between them.
    """
    regions = model.regions
    begins, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for scan in model.scans:
        calls = scan.global_calls
        region = regions.of_entry[scan.node_entry[calls.column("node")]]
        begins.append(calls.column("exit_time")[regions.is_init[region]])
        ends.append(calls.column("enter_time")[regions.is_finalize[region]])
    begin, end = np.concatenate(begins), np.concatenate(ends)
    if not (begin.size and end.size) or begin.max() >= end.min():
        return {}
    return {"begin": int(begin.max()), "end": int(end.min())}
