"""The list of all properties: explicit, checked, parents before children."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tracecols.causes.pairs import has_mpi, has_openmp
from tracecols.enhance.mpi.windows import host_windows
from tracecols.errors import AnalysisError
from tracecols.model.model import Model
from tracecols.patterns import (
    collective,
    devices,
    files,
    mpi,
    nccl,
    point_to_point,
    profile,
    root_causes,
    shmem,
    threads,
    wavefront,
    windows,
)
from tracecols.patterns.base import Conventions, Family, Property
from tracecols.patterns.found_by import Computed, InRegions, Pattern, Rest, SumOf
from tracecols.schema.enums import NCCL
from tracecols.schema.properties import PARTS, VISITS
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.resolve import find_property, find_several, fitting

FAMILIES: tuple[Family, ...] = (
    profile.FAMILY, mpi.FAMILY, point_to_point.FAMILY, wavefront.FAMILY, collective.FAMILY, shmem.FAMILY,
    threads.FAMILY, files.FAMILY, root_causes.FAMILY, windows.FAMILY, devices.FAMILY, nccl.FAMILY,
)  # fmt: skip
"""All declarations, in this order: roots and siblings follow each other as they are declared."""


def has_file_handles(model: Model) -> bool:
    """Return whether file handles that belong to a communicator are recorded."""
    return any(c >= 0 for c in model.store.definitions["io_handles"].column("communicator").to_pylist())


CONVENTIONS: dict[str, Conventions] = {c.name: c for c in (profile.SCALASCA, profile.EXPERT, profile.EXACT)}
"""The conventions that can be followed, by name."""

NEEDS: dict[str, Callable[[Model], bool]] = {
    "": lambda model: True,
    "processes": lambda model: model.locations.n_processes > 1,
    "threads": lambda model: model.locations.workers.size > 0,
    "mpi": lambda model: has_mpi(model.facts),
    "openmp": lambda model: has_openmp(model.facts),
    "root causes": lambda model: has_mpi(model.facts) or has_openmp(model.facts),
    "several locations": lambda model: int(model.locations.is_cpu.sum()) > 1,
    "grid": lambda model: wavefront.has_grid(model, 2),
    "grid in space": lambda model: wavefront.has_grid(model, 3),
    "defined grid": lambda model: wavefront.has_grid(model, 2, is_defined=True),
    "defined grid in space": lambda model: wavefront.has_grid(model, 3, is_defined=True),
    "windows": lambda model: bool(host_windows(model.facts).any()),
    "devices": lambda model: bool(model.locations.is_device.any()),
    "nccl": lambda model: bool((model.regions.paradigm[model.call_paths.region] == NCCL).any()),
    "file_handles": has_file_handles,
    "device_calls": lambda model: bool((model.regions.device_call[model.call_paths.region] >= 0).any()),
    "shmem_calls": lambda model: bool((model.regions.paradigm[model.call_paths.region] == "shmem").any()),
    "shmem": lambda model: bool((model.regions.name == "shmem_get").any()),
}
"""By name, conditions on a trace for properties to exist (`Property.needs`)."""


def properties(conventions: str, more: Iterable[Property] = (), model: Model | None = None) -> list[Property]:
    """Return all properties of some conventions in depth-first order; given a model, those that can exist in it. Raises
    AnalysisError if two properties share an id, or one lies below a property that does not exist, lacks its function,
    or counts as an unknown part."""
    found = [p for family in FAMILIES for p in family.properties if p.conventions == conventions]
    found += [p for p in more if p.conventions == conventions]
    by_id: dict[str, Property] = {}
    for p in found:
        if p.id in by_id:
            raise AnalysisError(f"property {p.id!r} is declared twice\n  give one of them another id")
        if p.lacks_function:
            raise AnalysisError(
                f"property {p.id!r} is declared without the function that finds it\n"
                "  use the declaration as a decorator of the function"
            )
        if p.part and p.part not in PARTS:
            raise AnalysisError(
                f"property {p.id!r} is declared to count as {p.part!r}, which nothing does\n"
                f"  there are {', '.join(PARTS)}"
            )
        by_id[p.id] = p
    children: dict[str, list[Property]] = {}
    for p in found:
        if p.parent and p.parent not in by_id:
            raise AnalysisError(
                f"property {p.id!r} is declared below {p.parent!r}, which does not exist under the {conventions} "
                "conventions\n"
                "  tracecols patterns lists those that do"
            )
        children.setdefault(p.parent, []).append(p)
    result: list[Property] = []

    def visit(above: Property | None) -> None:
        for p in children.get("" if above is None else above.id, []):
            result.append(p.below(above))
            visit(result[-1])

    visit(None)
    if len(result) != len(found):
        lost = sorted(set(by_id) - {p.id for p in result})
        raise AnalysisError(
            f"properties {', '.join(lost)} are their own ancestors\n  give them a parent that leads to a root"
        )
    if model is None:
        return result
    has = {need: condition(model) for need, condition in NEEDS.items()}
    exist: dict[str, Property] = {}
    for p in result:
        if has[p.needs] and (not p.parent or p.parent in exist):
            exist[p.id] = p
    return list(exist.values())


def by_id() -> dict[str, Property]:
    """Return the built-in properties of all conventions by id, the first of those with the same id."""
    declared = [p for conventions in ("exact", "scalasca", "expert") for p in properties(conventions)]
    return {p.id: p for p in reversed(declared)}


def ids_of(conventions: str, patterns: Iterable[Family], counters: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that finds the properties that a text means (`find_several`), before events are read; counters
    of the trace are properties as well. The function raises AnalysisError if there is no such property, or several have
    the title."""
    axis = PropertyAxis.of(properties(conventions, [p for family in patterns for p in family.properties]))
    counted = set(counters)
    has = f"the counters {', '.join(sorted(counted))}" if counted else "no counters"

    def ids(names: str) -> list[str]:
        # a counter that is called like another or like a property gets a number
        if re.sub(r" \([0-9]+\)$", "", names) in counted and not fitting(axis, names):
            return [names]
        where = f"under the {conventions} conventions"
        parts = [part.strip() for part in names.split(",")]
        if any(part in counted for part in parts) and len(parts) > 1:
            return [found for part in parts for found in ids(part)]
        return find_several(axis, names, where, AnalysisError, f"tracecols patterns lists all; this trace has {has}")

    return ids


def find_declared(axis: PropertyAxis, name: str) -> str:
    """Return the id of a property of a trace that is given by id or title (`find_property`). Raises AnalysisError if
    there is none, with the nearest ids; if several have the title, with all of them."""
    where = "in this trace under these conventions"
    return find_property(axis, name, where, AnalysisError, "tracecols patterns lists all")


def read_by(p: Property, declared: Iterable[Property]) -> list[str]:
    """Return the properties, besides the parent, that have to be found before a property."""
    match p.found:
        case Pattern(uses=uses):
            return list(uses)
        case InRegions(measure="visits"):
            return [VISITS]
        case SumOf():
            return [q.id for q in declared if q.parent == p.id]
        case Rest():
            return [q.id for q in declared if q.parent == p.parent]
        case Computed(uses=uses, also=also):
            return [*uses, *(q.id for q in declared if also is not None and also(q))]
    return []


def needed(declared: list[Property], chosen: Iterable[str]) -> tuple[set[str], set[str]]:
    """Find the properties that have to be computed for some chosen ones, and those that are shown: the chosen ones and
    their ancestors. Raises AnalysisError if one does not exist, or several have the title."""
    by_id, axis = {p.id: p for p in declared}, PropertyAxis.of(declared)
    shown: set[str] = set()
    for name in chosen:
        at = find_declared(axis, name)
        while at:
            shown.add(at)
            at = by_id[at].parent
    computed: set[str] = set()
    waiting = list(shown)
    while waiting:
        p = by_id[waiting.pop()]
        if p.id in computed:
            continue
        computed.add(p.id)
        waiting += [name for name in (p.parent, *read_by(p, declared)) if name in by_id]
    return computed, shown


def waits_by_delay(declared: Iterable[Property]) -> dict[str, list[str]]:
    """Return the waits that lie in no other wait, by the delay property that charges them; by "" those that none
    charges."""
    waits = {p.id: p for p in declared if p.is_wait}
    found: dict[str, list[str]] = {}
    for p in waits.values():
        if p.parent not in waits:
            found.setdefault(p.delay, []).append(p.id)
    return found
