"""What holds of efficiencies whatever the program."""

from __future__ import annotations

import pytest


def values(table, model):
    """Return the values of a model by metric."""
    return table[table.model == model].set_index("metric")["value"].to_dict()


def check_identities(table):
    mpi, both, added = (values(table, m) for m in ("mpi", "hybrid multiplicative", "hybrid additive"))
    close = pytest.approx
    assert mpi["load_balance"] * mpi["communication_efficiency"] == close(mpi["parallel_efficiency"])
    product = mpi["serialisation_efficiency"] * mpi["transfer_efficiency"]
    assert product == close(mpi["communication_efficiency"])
    assert both["mpi_parallel_efficiency"] * both["openmp_parallel_efficiency"] == close(both["parallel_efficiency"])
    assert both["mpi_load_balance"] * both["mpi_communication_efficiency"] == close(both["mpi_parallel_efficiency"])
    product = both["openmp_load_balance"] * both["openmp_communication_efficiency"]
    assert product == close(both["openmp_parallel_efficiency"])
    assert added["process_efficiency"] + added["thread_efficiency"] - 1 == close(added["parallel_efficiency"])
    parts = added["process_load_balance"] + added["process_communication_efficiency"] - 1
    assert parts == close(added["process_efficiency"])
    parts = added["process_serialisation_efficiency"] + added["process_transfer_efficiency"] - 1
    assert parts == close(added["process_communication_efficiency"])
    assert added["amdahl_efficiency"] + added["openmp_region_efficiency"] - 1 == close(added["thread_efficiency"])
    assert mpi["parallel_efficiency"] == close(both["parallel_efficiency"]) == close(added["parallel_efficiency"])
