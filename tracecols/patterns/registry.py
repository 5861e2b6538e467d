"""The list of all properties: explicit, checked, parents before children."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracecols.enhance.model import Model
from tracecols.errors import AnalysisError
from tracecols.patterns import collective, mpi, point_to_point, profile, shmem, threads, wavefront, windows
from tracecols.patterns.base import Conventions, Family, Property

FAMILIES: tuple[Family, ...] = (
    profile.FAMILY, mpi.FAMILY, point_to_point.FAMILY, wavefront.FAMILY, collective.FAMILY, windows.FAMILY, threads.FAMILY, shmem.FAMILY,
)  # fmt: skip

CONVENTIONS: dict[str, Conventions] = {c.name: c for c in (profile.SCALASCA, profile.EXPERT)}
"""Whose rules can be followed."""

NEEDS: dict[str, Callable[[Model], bool]] = {
    "": lambda model: True,
    "processes": lambda model: np.unique(model.process[model.is_cpu]).size > 1,
    "threads": lambda model: np.unique(model.process[model.is_cpu]).size < model.is_cpu.sum(),
    "grid": wavefront.has_grid,
    "windows": lambda model: model.store.definitions["windows"].num_rows > 0,
    "shmem": lambda model: bool((model.regions.name == "shmem_get").any()),
}
"""What a trace must have for some properties to exist."""

# Order of roots and siblings, as in the reports of the field's tools; what is not named follows in order of declaration.
ORDER = (
    "time", "execution", "comp", "mpi", "mpi_management", "mpi_init_exit", "mpi_mgmt_comm", "mpi_mgmt_file", "mpi_mgmt_win",
    "mpi_synchronization", "mpi_sync_collective", "mpi_rma_synchronization", "mpi_communication", "mpi_point2point",
    "mpi_collective", "mpi_rma_communication", "mpi_io", "omp_time", "pthread_time", "overhead", "omp_idle_threads",
    "visits", "syncs", "syncs_p2p", "syncs_coll", "syncs_rma", "comms", "bytes", "mpi_file_ops",
)  # fmt: skip


def properties(conventions: str, more: list[Property] | None = None, model: Model | None = None) -> list[Property]:
    """Return all properties of some conventions in depth-first order; of a model, those that can exist in it.

    Raises
    ------
    AnalysisError
        If two properties share an id, or one lies below a property that does not exist.
    """
    found = [p for family in FAMILIES for p in family.properties if p.conventions == conventions] + (more or [])
    by_id: dict[str, Property] = {}
    for p in found:
        if p.id in by_id:
            raise AnalysisError(f"property {p.id!r} is declared twice\n  give one of them another id")
        by_id[p.id] = p
    children: dict[str, list[Property]] = {}
    rank = {name: i for i, name in enumerate(ORDER)}
    for p in sorted(found, key=lambda p: rank.get(p.id, len(rank))):
        if p.parent and p.parent not in by_id:
            raise AnalysisError(f"property {p.id!r} stands below {p.parent!r}, which is not declared")
        children.setdefault(p.parent, []).append(p)
    result: list[Property] = []

    def visit(parent: str) -> None:
        for p in children.get(parent, []):
            result.append(p)
            visit(p.id)

    visit("")
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
