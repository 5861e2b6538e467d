"""Pointer columns of the events of one location (thesis 3.10, 3.11, 3.16, 3.24, 3.26; EARL 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.columns import pick
from tracecols.enhance.instances import scan_stacks
from tracecols.enhance.model import Model
from tracecols.enhance.scan import ACTION
from tracecols.kernels.actions import PUSH

POINTERS = ("enterptr", "exitptr", "sendptr", "lockptr", "forkptr", "cnodeptr", "cedgeptr", "call_path")


def scan_pointers(model: Model, location: int) -> dict[str, NDArray[np.int64]]:
    """Compute the pointer columns of all events of a location.

    Parameters
    ----------
    model : Model
        The enhanced trace.
    location : int
        Row of the location.

    Returns
    -------
    dict of str to (n_events,) int64
        `enterptr`, `exitptr`, `sendptr`, `lockptr`, `forkptr`, `cnodeptr`, `cedgeptr` hold rows, `call_path` numbers of
        call paths; -1 is null. 64 B per event of the location, plus its columns.
    """
    columns = scan_stacks(model.facts, model.scans, model.team_instances, location)
    exitptr, call_path = columns["exitptr"], columns["call_path"]
    first, n = model.scans[location].first_row, exitptr.size
    tree = model.call_paths
    # an ENTER is where its own call path begins and that of the region around it is left
    is_enter = (ACTION[columns["kind"]] == PUSH) | (exitptr >= 0)
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
