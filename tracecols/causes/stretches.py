"""The critical path as a table: the locations that it visits over time, and why it comes there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracecols.causes.pairs import FORK
from tracecols.causes.points import first_time, in_ticks
from tracecols.causes.quirks import Quirks
from tracecols.causes.sweep import Path
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.steps import PATH, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.schema.causes import CRITICAL_PATH


@step(PATH, "critical_path_stretches")
def list_stretches(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    sync_points: CompoundTable,
    path: Path,
    device_path: Columns | None,
) -> CompoundTable:
    """Build the table of the stretches of the critical path.

    For a path over hosts and streams of devices, stretches are those of `causes.device_path`, and consecutive ones on
    one stream are merged. Otherwise a stretch begins when its location has waited long enough, in the call of the point
    that the walk stopped at, and ends with the begin of the call in which another location was waiting for this one.

    With `quirks.leaves_out_startup` the table is empty for programs without MPI and OpenMP.
    """
    if device_path is not None:
        return _of_devices(device_path)
    since, until = path.since, path.until
    location = sync_points.location[until]
    if quirks.splits_path:
        waited, total = (in_ticks(facts, quirks, sync_points[c]) for c in ("wait", "total"))
        # a thread is in a parallel region from the FORK on
        time = sync_points.begin_time - np.where(sync_points.kind == FORK, total, 0)
        first = np.array([scan.first_time for scan in scans], np.int64)[location]
        begin = np.where(since >= 0, pick(time + waited, since, 0), first)
        end = time[until]
    else:
        begin, end = (in_ticks(facts, quirks, t) + first_time(facts) for t in (path.begin_time, path.end_time))
    order = np.lexsort((location, end, begin))
    columns = {
        "location": location,
        "begin_time": begin,
        "end_time": end,
        "reason": pick(sync_points.kind, since),
        "begin_call_path": pick(sync_points.call_path, since),
        "end_call_path": sync_points.call_path[until],
        "since": since,
        "until": until,
    }
    return CompoundTable(CRITICAL_PATH, order.size, {name: values[order] for name, values in columns.items()})


def _of_devices(path: Columns) -> CompoundTable:
    """Build the table of the stretches of a path over hosts and streams."""
    first = np.flatnonzero(np.diff(path.location, prepend=-1))
    last = np.append(first[1:], len(path))[: first.size] - 1
    nothing = np.full(first.size, -1, np.int64)
    columns = {
        "location": path.location[first].astype(np.int32),
        "begin_time": path.begin[first],
        "end_time": path.end[last],
        "reason": path.reason[first].astype(np.int8),
        "begin_call_path": path.begin_call_path[first].astype(np.int32),
        "end_call_path": path.end_call_path[last].astype(np.int32),
        "since": nothing,
        "until": nothing,
    }
    return CompoundTable(CRITICAL_PATH, first.size, columns)
