"""The single matches of patterns: when they wait, and who causes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.errors import AnalysisError
from tracecols.model.model import Model
from tracecols.model.tables import TABLES
from tracecols.patterns.base import Family, Property
from tracecols.patterns.matches import Cause, Causes, Matches
from tracecols.patterns.registry import CONVENTIONS, find_declared, needed
from tracecols.schema import Column, Table
from tracecols.schema.causes import WAITS
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import EVERYTHING, Choice, declared_for, with_topologies
from tracecols.search.search import Result, Search, SliceSearch, times_of
from tracecols.severity.axes import PropertyAxis
from tracecols.vectors import Ints


def _search_for(
    model: Model, declared: list[Property], name: str, conventions: str, parameters: Mapping[str, Mapping[str, float]]
) -> tuple[SliceSearch, Property]:
    """Return the search for a property that is matched on a table, and the property."""
    computed, _ = needed(declared, [name])
    by_id = {p.id: p for p in declared}
    p = by_id[find_declared(PropertyAxis.of(declared), name)]
    if p.pattern is None:
        below = [q.id for q in declared if q.pattern is not None and q.parent == p.id]
        hint = f"below it there are {', '.join(below)}" if below else "tracecols patterns says which are"
        raise AnalysisError(
            f"property {p.id!r} is computed from call paths, not matched instance by instance\n  {hint}"
        )
    chosen = [q for q in declared if q.id in computed]
    return Search(model, chosen, CONVENTIONS[conventions], parameters).of_slices, p


def find_matches(
    model: Model,
    name: str,
    conventions: str = DEFAULT,
    patterns: Iterable[Family] = (),
    choice: Choice = EVERYTHING,
    topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
) -> tuple[Table, Ints, dict[str, NDArray[Any]]]:
    """Find every instance of a pattern: a property, by id or title, that is matched on a compound table.

    Returns the declaration of the columns; rows of the compound table; and `severity` (ticks, occurrences or bytes),
    `call_path` and `location` it is charged to, `begin_time` and `end_time` of the waiting (ticks, -1 if the pattern
    does not declare them), and the compound table's other columns. Raises AnalysisError if there is no such property,
    or it is not a pattern.
    """
    model = with_topologies(model, topologies)
    declared = declared_for(model, conventions, patterns)
    choice = choice.resolved(declared)
    search, p = _search_for(model, declared, name, conventions, choice.parameters)
    # row numbers refer to whole tables, so the trace is not divided
    found = search.matches(model, TABLES[p.table].stage)[p.id]
    table: CompoundTable = model.get(p.table)
    found = found.where((found.call_path >= 0) & choice.mask(model, found.call_path, found.location))
    begin, end = times_of(p, table, found)
    own: dict[str, NDArray[Any]] = {
        "severity": found.severity,
        "call_path": found.call_path,
        "location": found.location,
        "begin_time": begin,
        "end_time": end,
    }
    others = [c for c in table.table.columns if c.name not in own]
    declared_so = Table(f"matches of {p.id}", "a match", (*columns_of(p), *others))
    return declared_so, found.row, {**own, **{c.name: table[c.name][found.row] for c in others}}


def columns_of(p: Property) -> tuple[Column, ...]:
    """Return the columns that all tables of matches have."""
    unit = "ticks" if p.unit == "sec" else p.unit
    return (
        Column("severity", "int64", "what the match costs", unit, is_duration=True),
        Column("call_path", "int32", "it is charged to", "", "call_paths"),
        Column("location", "int32", "it is charged to", "", "locations"),
        Column("begin_time", "int64", "when it begins; null if the pattern does not say", "ticks"),
        Column("end_time", "int64", "when it ends; null if the pattern does not say", "ticks"),
    )


def causes_of(model: Model, p: Property, table: CompoundTable, found: Matches) -> Causes:
    """Return who makes matches wait (`Property.caused_by`); all -1 if that is not declared. `model` is the slice that
    the table belongs to."""
    if isinstance(p.caused_by, Cause):
        return p.caused_by.of(table, found.row)
    if p.caused_by is None:
        nothing: NDArray[Any] = np.full(len(found), -1, np.int64)
        return Causes(nothing, nothing, nothing)
    return p.caused_by(model, table, found)


def over_matches(
    model: Model,
    name: str,
    visit: Callable[[Model, Property, CompoundTable, Matches], Result],
    conventions: str = DEFAULT,
) -> tuple[Property, list[Result]]:
    """Find the matches of a pattern, by id or title, slice by slice; each slice is passed to `visit(of_slice, property,
    table, matches)`, then its tables are dropped. Raises AnalysisError if there are no such conventions, there
    is no such property, or it is not a pattern."""
    search, p = _search_for(model, declared_for(model, conventions, ()), name, conventions, {})

    def one(of_slice: Model, stage: str) -> Result:
        found = search.matches(of_slice, stage)[p.id]
        return visit(of_slice, p, of_slice.get(p.table), found.where(found.call_path >= 0))

    with model.divided() as run:
        return p, list(run.stages(one, [TABLES[p.table].stage]))


def find_timed(
    model: Model, ids: Iterable[str], conventions: str = DEFAULT
) -> Iterator[tuple[Property, Matches, tuple[Ints, Ints], Causes]]:
    """Find the matches of several patterns, with their times (`times_of`) and causes (`causes_of`), in the order of the
    ids as far as they are on tables of the same stage; those that cannot exist in the trace are skipped."""
    search, chosen = _search_for_all(model, ids, conventions)
    for stage in _stages_of(chosen):
        yield from _timed_in(search, chosen, model, stage)


def _search_for_all(model: Model, ids: Iterable[str], conventions: str) -> tuple[SliceSearch, list[Property]]:
    """Return the search for some properties, and those of them that can exist in the trace."""
    declared = declared_for(model, conventions, ())
    by_id = {p.id: p for p in declared}
    chosen = [by_id[i] for i in ids if i in by_id]
    computed, _ = needed(declared, [p.id for p in chosen])
    return Search(model, [p for p in declared if p.id in computed], CONVENTIONS[conventions]).of_slices, chosen


def _stages_of(chosen: Iterable[Property]) -> list[str]:
    """Return the stages whose tables some properties are matched on."""
    return list(dict.fromkeys(TABLES[p.table].stage for p in chosen))


def _timed_in(
    search: SliceSearch, chosen: Iterable[Property], of_slice: Model, stage: str
) -> Iterator[tuple[Property, Matches, tuple[Ints, Ints], Causes]]:
    """Find the matches of several patterns on the tables of a stage of a slice, with their times and causes."""
    matches = search.matches(of_slice, stage)
    for p in chosen:
        if p.id in matches:
            table: CompoundTable = of_slice.get(p.table)
            found = matches[p.id].where(matches[p.id].call_path >= 0)
            yield p, found, times_of(p, table, found), causes_of(of_slice, p, table, found)


def states_with_causes(model: Model, conventions: str) -> list[str]:
    """Return the ids of the wait states of a trace that declare who causes them. Raises AnalysisError if there are no
    such conventions."""
    return [p.id for p in declared_for(model, conventions, ()) if p.says_cause]


def states_below(model: Model, name: str | None = None, conventions: str = DEFAULT) -> list[str]:
    """Return the ids of `states_with_causes` at or below a property; all of them if no name is given. Raises
    AnalysisError if there is no such property, or none of them is at or below it."""
    states = states_with_causes(model, conventions)
    if name is None:
        return states
    axis = PropertyAxis.of(declared_for(model, conventions, ()))
    top = find_declared(axis, name)
    found = [state for state in states if top in (state, *axis.above(state))]
    if not found:
        raise AnalysisError(
            f"property {top!r} is not a wait state with recorded causes, and has none below it\n"
            f"  give one of {', '.join(states)}"
        )
    return found


def find_waits(model: Model, conventions: str = DEFAULT) -> dict[str, NDArray[Any]]:
    """Find every instance of the wait states that declare who causes them: the columns of `schema.causes.WAITS`."""
    search, chosen = _search_for_all(model, states_with_causes(model, conventions), conventions)
    stages = _stages_of(chosen)
    # the order of waits at the same time must not depend on how the trace is divided
    number = {p.id: i for i, p in enumerate(sorted(chosen, key=lambda p: stages.index(TABLES[p.table].stage)))}

    def visit(of_slice: Model, stage: str) -> list[tuple[NDArray[Any], ...]]:
        found: list[tuple[NDArray[Any], ...]] = []
        for p, m, times, who in _timed_in(search, chosen, of_slice, stage):
            found.append((np.full(len(m), number[p.id], np.int16), m.location, m.call_path, *times, *who))
        return found

    nothing = np.zeros(0, np.int16), *(np.zeros(0, c.dtype) for c in WAITS.columns[1:])
    with model.divided() as run:
        parts = [nothing, *(rows for of_slice in run.stages(visit, stages) for rows in of_slice)]
    property, *others = map(np.concatenate, zip(*parts, strict=True))
    location, _, begin, end, *_ = others
    order = np.lexsort((property, end, begin, location))
    found = (values[order].astype(c.dtype, copy=False) for c, values in zip(WAITS.columns[1:], others, strict=True))
    return dict(zip(WAITS.names, (np.array([*number], object)[property[order]], *found), strict=True))
