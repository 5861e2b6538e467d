"""The regions of exports of Nsight Systems: ranges, calls, kernels, copies."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tracecols.converters.nccl import Operation, communicates, find_operation, operation_of_kernel
from tracecols.converters.nsight.content import api_name
from tracecols.converters.region_names import find_role
from tracecols.schema.enums import NCCL

_HINT = re.compile(r"(nccl:|c10d::|(?:nccl|rccl)(?=[A-Z]))")
"""Prefixes of ranges that name the operation of a kernel inside: of PyTorch, its operators and the library."""
HINTS = ("nccl:", "c10d::", "nccl", "rccl")


@dataclass
class Regions:
    """The distinct regions."""

    rows: dict[tuple[str, str, str, str], int] = field(default_factory=dict)
    """Number of each region, by name, canonical name, role and paradigm."""
    communicates: dict[int, Operation | None] = field(default_factory=dict)
    """Regions that are NCCL kernels, with the operation in their name; None if it names none."""
    hints: dict[int, tuple[int, Operation]] = field(default_factory=dict)
    """Regions of ranges that name NCCL operations: index in `HINTS`, and the operation."""

    def _row(self, name: str, role: str, paradigm: str, canonical: str = "") -> int:
        return self.rows.setdefault((name, canonical or name, role, paradigm), len(self.rows))

    def program(self, name: str) -> int:
        """Return the region of a whole thread."""
        return self._row(name, "function", "user")

    def range(self, name: str, domain: str) -> int:
        """Return the region of a range; ranges of the domain MPI are MPI calls."""
        if domain == "MPI" and name.startswith("MPI_"):
            return self.mpi(name)
        row = self._row(name, "function", "user")
        if (found := _HINT.match(name)) and (operation := find_operation(name)):
            self.hints[row] = HINTS.index(found[1]), operation
        return row

    def mpi(self, name: str) -> int:
        """Return the region of an MPI call."""
        role, _ = find_role(name) or ("function", "")
        return self._row(name, role, "mpi")

    def call(self, name: str) -> int:
        """Return the region of a CUDA call."""
        return self._row(api_name(name), "wrapper", "cuda")

    def kernel(self, name: str) -> int:
        """Return the region of a kernel."""
        if not communicates(name):
            return self._row(name, "kernel", "cuda")
        row = self._row(name, "kernel", NCCL)
        self.communicates[row] = operation_of_kernel(name)
        return row

    def copy(self, name: str) -> int:
        """Return the region of a copy."""
        return self._row(name, "data_transfer", "cuda")

    def operation(self, kernel: int, operation: Operation) -> int:
        """Return the region of a kernel that executes an NCCL operation."""
        name = list(self.rows)[kernel][0]
        return self._row(name, operation.role, NCCL, operation.function)
