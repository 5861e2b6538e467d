"""Patterns written with data frames: rows as `Trace` shows them in, severities or a mask out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.model.model import Model
from tracecols.model.readable import Readable
from tracecols.patterns.base import Property
from tracecols.patterns.matches import Instances, Matches


def match_frame(
    p: Property,
    model: Model,
    table: CompoundTable,
    parent: Matches,
    has_severities: bool,
    constituents: Mapping[str, Instances],
    given: Mapping[str, Any],
) -> Matches:
    """Match a pattern whose function takes a data frame.

    The frame has a row per match of the parent, or per row of the table for the first property on it. Its columns are
    those of the attribute of `Trace` (`Trace.frame`), the `severity` of the parent in the unit of the property, and
    those of constituents, prefixed with their names. Its index numbers the rows of the slice that is analysed.

    Raises TypeError or ValueError if the result of the function is not valid.
    """
    resolution = model.facts.resolution
    scale = resolution if p.unit == "sec" else 1
    readable = Readable(model.facts.store, lambda: model.facts)
    frame = readable.frame(table.table, lambda name: table.declared(name)[parent.row], with_raw=True)
    frame["severity"] = parent.severity / scale if p.unit == "sec" else parent.severity
    for name, instances in constituents.items():
        for column in instances.table.table.columns:
            frame[f"{name}_{column.name}"] = getattr(instances, column.name)[parent.row]
    assert p.pattern is not None and p.pattern.function is not None  # its function is called here
    answer: Any = p.pattern.function(frame, **given)
    if not isinstance(answer, pd.Series):
        raise TypeError(f"it returns {type(answer).__name__}, not a Series of severities or a mask (frame=True)")
    at = frame.index.get_indexer(answer.index)
    if (at < 0).any() or not answer.index.is_unique:
        raise ValueError("the index of what it returns is not that of rows of the frame; keep the index of the frame")
    if pd.api.types.is_bool_dtype(answer.dtype):
        keep = np.zeros(len(parent), bool)
        keep[at] = answer.fillna(False).to_numpy(bool)
        if not has_severities and p.unit != "occ":
            raise TypeError(
                f"a mask keeps the severities of its parent, and {p.parent or 'none'} has none on the table "
                f"{p.table}; return severities"
            )
        return parent.where(keep) if has_severities else parent.counted(keep)
    if not pd.api.types.is_numeric_dtype(answer.dtype):
        raise TypeError(f"severities are numbers, or a mask is of truth values, not {answer.dtype}")
    is_there = answer.notna().to_numpy()
    values = answer.to_numpy(np.float64 if pd.api.types.is_float_dtype(answer.dtype) else None, na_value=0)[is_there]
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError("severities must be finite")
        if p.unit != "sec" and (values != np.rint(values)).any():
            raise TypeError(f"severities are whole numbers of {p.unit}")
        values = np.rint(values * scale).astype(np.int64)
    row = at[is_there]
    order = np.argsort(row, kind="stable")
    severity: NDArray[np.int64] = np.zeros(len(parent), np.int64)
    severity[row] = values
    keep = np.zeros(len(parent), bool)
    keep[row[order]] = True
    return parent.where(keep, severity=severity)
