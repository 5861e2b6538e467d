"""Pointer columns of the events of one location (thesis 3.10, 3.11, 3.16, 3.24, 3.26; EARL 2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import CompoundTable, pick
from tracecols.enhance.scan import ACTION, LocationScan
from tracecols.kernels import stacks
from tracecols.schema.compound import REGION_INSTANCES

if TYPE_CHECKING:
    from tracecols.enhance.model import Model

POINTERS = ("enterptr", "exitptr", "sendptr", "lockptr", "forkptr", "cnodeptr", "cedgeptr", "call_path")


def scan_stacks(model: Model, location: int) -> dict[str, NDArray[Any]]:
    """Compute where the region stack of a location stands at each of its events.

    Returns
    -------
    dict of str to (n_events,) array
        `time`, `kind`, `region` as stored, int64 rows `enterptr` and `exitptr`, and `call_path`, int64; -1 is null.
        24 B per event of the location, plus its columns.
    """
    done = model.scans[location]
    scan = LocationScan(model.store, model.regions, model.teams_of, model.order, location, done.first_row)
    scan.enter_threads()
    columns = model.store.read("events", location)
    n = columns["time"].size
    enterptr, exitptr, node = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
    if n:
        scan.prepare(model.scans, int(columns["time"][0]))
        scan.run(columns["time"], columns["kind"], scan.entries(columns["region"]), (enterptr, exitptr, node))
    call_path = pick(model.call_paths.numbers[location], node.astype(np.int64))
    return {**columns, "enterptr": enterptr, "exitptr": exitptr, "call_path": call_path}


def region_instances(model: Model, locations: Iterable[int]) -> CompoundTable:
    """Build the table of the executions of regions on some locations; 48 B per instance."""
    parts: dict[str, list[NDArray[Any]]] = {c.name: [np.zeros(0, c.dtype)] for c in REGION_INSTANCES.columns}
    for location in locations:
        columns = scan_stacks(model, location)
        exitptr, call_path = columns["exitptr"], columns["call_path"]
        first = model.scans[location].first_row
        at = np.flatnonzero((ACTION[columns["kind"]] == stacks.PUSH) | (exitptr >= 0))
        leave = exitptr[at]
        found: dict[str, NDArray[Any]] = {
            "location": np.full(at.size, location, np.int32),
            "enter": first + at,
            "exit": leave,
            "region": columns["region"][at],
            "call_path": call_path[at].astype(np.int32),
            "enter_time": columns["time"][at],
            "exit_time": pick(columns["time"], np.where(leave >= 0, leave - first, -1)),
        }
        for name, values in found.items():
            parts[name].append(values)
    table = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return CompoundTable(REGION_INSTANCES, table["enter"].size, table)


def scan_pointers(model: Model, location: int) -> dict[str, NDArray[np.int64]]:
    """Compute the pointer columns of all events of a location.

    Returns
    -------
    dict of str to (n_events,) int64
        `enterptr`, `exitptr`, `sendptr`, `lockptr`, `forkptr`, `cnodeptr`, `cedgeptr` hold rows, `call_path` numbers of
        call paths; -1 is null. 64 B per event of the location, plus its columns.
    """
    columns = scan_stacks(model, location)
    exitptr, call_path = columns["exitptr"], columns["call_path"]
    first, n = model.scans[location].first_row, exitptr.size
    tree = model.call_paths
    # an ENTER is where its own call path begins and that of the region around it is left
    is_enter = (ACTION[columns["kind"]] == stacks.PUSH) | (exitptr >= 0)
    parent = pick(tree.parent.astype(np.int64), np.where(is_enter, call_path, -1))
    result = {
        "enterptr": columns["enterptr"],
        "exitptr": exitptr,
        "cnodeptr": pick(tree.representative, np.where(is_enter, call_path, -1)),
        "cedgeptr": pick(tree.representative, parent),
        "call_path": call_path,
    }
    for name, (rows, targets) in {
        "sendptr": (model.messages.recv, model.messages.send),
        "lockptr": model.lockptr,
        "forkptr": (model.teams.join, model.teams.fork),
    }.items():
        column = np.full(n, -1, np.int64)
        mine = (rows >= first) & (rows < first + n)
        column[rows[mine] - first] = targets[mine]
        result[name] = column
    return result
