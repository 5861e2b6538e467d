"""Codes of archives before OTF2 1.2: one region type for role and paradigm, other numbers for group types."""

from __future__ import annotations

REGION_TYPES: dict[int, tuple[str, str, int]] = {
    1: ("function", "unknown", 0), 2: ("loop", "user", 0), 3: ("function", "unknown", 0), 4: ("file_io", "user", 0),
    5: ("parallel", "openmp", 0), 6: ("loop", "openmp", 0), 7: ("sections", "openmp", 0), 8: ("section", "openmp", 0),
    9: ("workshare", "openmp", 0), 10: ("single", "openmp", 0), 11: ("master", "openmp", 0),
    12: ("critical", "openmp", 0), 13: ("atomic", "openmp", 0), 14: ("barrier", "openmp", 0),
    15: ("implicit_barrier", "openmp", 0), 16: ("flush", "openmp", 0), 17: ("critical_sblock", "openmp", 0),
    18: ("single_sblock", "openmp", 0), 19: ("wrapper", "openmp", 0), 20: ("task", "openmp", 0),
    21: ("task_wait", "openmp", 0), 22: ("barrier", "mpi", 0), 23: ("coll_one2all", "mpi", 0),
    24: ("coll_all2one", "mpi", 0), 25: ("coll_all2all", "mpi", 0), 26: ("coll_other", "mpi", 0),
    27: ("code", "user", 0), 28: ("code", "user", 1), 29: ("code", "user", 3), 30: ("loop", "user", 1),
    31: ("function", "user", 1), 32: ("loop", "user", 3), 33: ("task_create", "openmp", 0),
    34: ("ordered", "openmp", 0), 35: ("ordered_sblock", "openmp", 0),
}  # fmt: skip
"""Role, paradigm and flags of each region type, as the format's library translates them."""

GROUP_TYPES: dict[int, tuple[str, str]] = {
    1: ("locations", "unknown"),
    2: ("regions", "unknown"),
    3: ("metric", "unknown"),
    4: ("comm_group", "mpi"),
    5: ("comm_self", "mpi"),
    6: ("comm_locations", "mpi"),
}
"""Type and paradigm of each group type."""
