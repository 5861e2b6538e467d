"""The list of all properties: explicit, checked, parents before children."""

from __future__ import annotations

from tracecols.errors import AnalysisError
from tracecols.patterns import collective, mpi, point_to_point, profile, threads
from tracecols.patterns.base import Family, Property

FAMILIES: tuple[Family, ...] = (profile.FAMILY, mpi.FAMILY, point_to_point.FAMILY, collective.FAMILY, threads.FAMILY)

CONVENTIONS = ("scalasca",)
"""Whose rules can be followed."""

# Order of roots and siblings, as in the reports of the field's tools; what is not named follows in order of declaration.
ORDER = (
    "time", "execution", "comp", "mpi", "mpi_management", "mpi_init_exit", "mpi_mgmt_comm", "mpi_mgmt_file", "mpi_mgmt_win",
    "mpi_synchronization", "mpi_sync_collective", "mpi_rma_synchronization", "mpi_communication", "mpi_point2point",
    "mpi_collective", "mpi_rma_communication", "mpi_io", "omp_time", "pthread_time", "overhead", "omp_idle_threads",
    "visits", "syncs", "syncs_p2p", "syncs_coll", "syncs_rma", "comms", "bytes", "mpi_file_ops",
)  # fmt: skip


def properties(conventions: str, more: list[Property] | None = None) -> list[Property]:
    """Return all properties of some conventions in depth-first order.

    Raises
    ------
    AnalysisError
        If two properties share an id, or one lies below a property that does not exist.
    """
    found = [p for family in FAMILIES for p in family.properties if conventions in p.conventions] + (more or [])
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
    return result
