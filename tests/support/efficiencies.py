"""Identities of efficiencies that hold for every program."""

import math

import pytest


def values(table, model):
    """Return the values of a model by metric."""
    return table[table.model == model].set_index("metric")["value"].to_dict()


PRODUCTS = {
    ("mpi", "parallel_efficiency"): ("load_balance", "communication_efficiency"),
    ("mpi", "communication_efficiency"): ("serialisation_efficiency", "transfer_efficiency"),
    ("threads", "parallel_efficiency"): ("load_balance", "synchronisation_efficiency"),
    ("hybrid multiplicative", "mpi_parallel_efficiency"): ("mpi_load_balance", "mpi_communication_efficiency"),
    ("hybrid multiplicative", "mpi_communication_efficiency"): (
        "mpi_serialisation_efficiency",
        "mpi_transfer_efficiency",
    ),
    ("hybrid multiplicative", "openmp_parallel_efficiency"): ("openmp_load_balance", "openmp_communication_efficiency"),
}
SUMS = {
    "process_efficiency": ("process_load_balance", "process_communication_efficiency"),
    "process_communication_efficiency": ("process_serialisation_efficiency", "process_transfer_efficiency"),
    "thread_efficiency": ("amdahl_efficiency", "openmp_region_efficiency"),
}


def check_identities(table):
    """Check that factors multiply, or add up, to the efficiency that they divide."""
    value = table.set_index(["model", "metric"])["value"].to_dict()
    close, checked = pytest.approx, 0
    for (model, whole), parts in PRODUCTS.items():
        if (model, parts[0]) in value:
            checked += 1
            assert math.prod(value[model, part] for part in parts) == close(value[model, whole])
    both = {m: v for (model, m), v in value.items() if model == "hybrid multiplicative"}
    if both:
        levels = ("mpi_parallel_efficiency", "host_offload_efficiency", "openmp_parallel_efficiency")
        assert math.prod(both[m] for m in levels if m in both) == close(both["parallel_efficiency"])
    added = {m: v for (model, m), v in value.items() if model == "hybrid additive"}
    for whole, parts in SUMS.items():
        if parts[0] in added:
            assert sum(added[part] for part in parts) - 1 == close(added[whole])
    if added:
        process = added.get("process_efficiency", 1.0)
        whole = added["parallel_efficiency"]
        assert process + added["thread_efficiency"] - 1 == close(whole) or "process_efficiency" not in added
    assert checked and len({round(v, 12) for (_, m), v in value.items() if m == "parallel_efficiency"}) == 1
