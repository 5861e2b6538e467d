"""Tables of the whole trace in memory: made slice by slice, and merged once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.steps import STAGES
from tracecols.model.model import Model
from tracecols.model.table_writer import in_order, with_referred
from tracecols.model.tables import TABLES, TableSpec
from tracecols.vectors import Ints

Numbers = dict[str, list[Ints]]
"""By table: for each slice, the number of each of its rows in the whole table."""


def whole_table(model: Model, name: str) -> CompoundTable:
    """Return a compound table as it is declared (`Model.declared_table`), without keeping in memory the values it is
    made from."""
    spec = TABLES[name]
    with model.divided() as run:
        if run.whole is not None or spec.stage not in STAGES:
            return model.declared_table(name)
        # rows of tables that a single slice makes keep their numbers
        wanted = [n for n in with_referred([name]) if n == name or TABLES[n].order]

        def visit(of_slice: Model, _stage: str) -> dict[str, Columns]:
            return {n: _kept(TABLES[n], of_slice.declared_table(n), every=n == name) for n in wanted}

        slices = sorted(run.stages(visit, [spec.stage]), key=lambda of: _first(spec, of[name]))
    numbers: Numbers = {}
    for n in wanted[:-1]:
        parts = [of[n] for of in slices]
        numbers[n] = _numbers(parts, _order(TABLES[n], parts))
    return _together(spec, [of[name] for of in slices], numbers)


def _first(spec: TableSpec, part: Columns) -> int:
    """Return the first sort key of a slice: slices are put in order first, which leaves little to sort."""
    return int(part[spec.order[0]][0]) if spec.order and len(part) else -1


def _kept(spec: TableSpec, table: CompoundTable, *, every: bool) -> Columns:
    """Return the columns of a slice that are needed, as arrays: every declared one, and those that define the order."""
    names = dict.fromkeys([*(spec.schema.names if every else ()), *spec.order])
    is_declared = set(spec.schema.names)
    return Columns(len(table), {n: table.declared(n) if n in is_declared else table[n] for n in names})


def _order(spec: TableSpec, parts: Sequence[Columns]) -> Ints | None:
    """Return the permutation that sorts the rows of all slices into the whole table; None if they are sorted."""
    keys = {name: np.concatenate([part[name] for part in parts]) for name in spec.order}
    return in_order(spec, Columns(sum(map(len, parts)), keys))


def _numbers(parts: Sequence[Columns], order: Ints | None) -> list[Ints]:
    """Return the number of each row of each slice in the whole table."""
    number = np.arange(sum(map(len, parts)))
    if order is not None:
        number[order] = np.arange(order.size)
    return np.split(number, np.cumsum([len(part) for part in parts])[:-1])


def _together(spec: TableSpec, parts: Sequence[Columns], numbers: Numbers) -> CompoundTable:
    """Merge the rows of all slices, column by column, with references to rows of a slice converted to rows of the whole
    table."""
    order = _order(spec, parts)
    columns: dict[str, NDArray[Any]] = {}
    for name in spec.schema.names:
        values = [part.pop(name) for part in parts]
        of = numbers.get(spec.references.get(name, ""))
        if of is not None:
            values = [pick(number, value) for number, value in zip(of, values, strict=True)]
        column = np.concatenate(values)
        columns[name] = column if order is None else column[order]
    return CompoundTable(spec.schema, sum(map(len, parts)), columns)
