"""The recorded traces next to the repository, of all formats, as `tracecols.convert` takes them."""

from __future__ import annotations

import tarfile
from pathlib import Path

from conftest import SHARED

import tracecols

PATTERNS = (
    "otf2/*/traces.otf2", "otf2_gpu/*/traces.otf2", "otf2_small/*/*.otf2", "otf2_clocks/*/traces.otf2", "injected/*/traces.otf2", "epilog/*/*.elg",
    "paraver/*/*.prv.gz", "kineto/*/*.json.gz", "kineto/*/*.tar.gz", "nsight/*.sqlite",
)  # fmt: skip
"""Glob patterns of the archives of each format."""

REFUSED = "hta_sampled_2of128"
"""Files of two ranks that have no collective operation in common."""

ALIKE = (
    "bgq_ctest_epik_hyb_32x64", "cart", "cart_6", "chain3", "clock_coll_4", "clock_coll_4_corrected",
    "clock_hyb_2x3_corrected", "coll", "coll_4", "deep_call_paths_one_more", "fuzz_10", "fuzz_12", "fuzz_2", "fuzz_5",
    "fuzz_7", "gatherv_nosender", "hpcg_2x2", "hta_ns_no_base", "iallreduce_late", "imbalance_assembly", "late_receiver",
    "late_sender", "mg_S_4", "mpi_mix_5", "no_overlap", "p2p_4", "pipeline", "recording", "rma_fence_4", "rma_gats_4",
    "scan_rank0_sends_nothing", "subcomm", "sweep3d_4", "tracelens_b200_rank0", "user_3", "userreg", "wavefront_coarse",
    "wrong_order", "epoch_1proc", "epoch_2proc", "epoch_4proc", "omp2",
)  # fmt: skip
"""Traces with the same processes, threads, devices and paradigms as another one, which exercise the same code."""


def recordings(*formats: str) -> list[Path]:
    """Return the archives of some formats (the first parts of `PATTERNS`), by default of all."""
    chosen = [p for p in PATTERNS if not formats or p.partition("/")[0] in formats]
    return sorted(path for pattern in chosen for path in SHARED.glob(pattern) if path.parent.name != REFUSED)


def kinds(*formats: str) -> list[Path]:
    """Return the archives of some formats, by default of all, without those in `ALIKE`."""
    return [p for p in recordings(*formats) if not {p.parent.name, p.name.partition(".")[0]} & {*ALIKE}]


def name_of(source: Path) -> str:
    """Return the name of an archive, as used in names of tests."""
    own = "" if source.name in ("traces.otf2", "epik.elg") else f"-{source.name.partition('.')[0]}"
    return f"{source.parent.parent.name}-{source.parent.name}{own}"


def convert(source: Path, folder: Path) -> Path:
    """Convert an archive, which may be a tar file, to a store in a folder."""
    if source.suffixes[-2:] == [".tar", ".gz"]:
        with tarfile.open(source) as packed:
            packed.extractall(folder, filter="data")
        source = folder / source.name.partition(".")[0]
    return tracecols.convert(source, folder / f"{source.name.partition('.')[0]}.trace")
