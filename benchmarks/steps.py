"""Every step of the way from an archive to severities as a function without arguments, and what to compare it with."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import ROOT, bytes_of, decode, is_otf2, open_archive

BATCH = 1 << 20


class Steps:
    """The steps on one archive; files go into a temporary folder that lives as long as this.

    Parameters
    ----------
    archive : Path
        The anchor file.
    """

    def __init__(self, archive: Path) -> None:
        from tracecols import convert
        from tracecols.store import Store

        self.archive = archive
        self.conventions = "scalasca" if is_otf2(archive) else "expert"
        self._scratch = tempfile.TemporaryDirectory(prefix="tracecols-")
        self.folder = Path(self._scratch.name)
        self.source = open_archive(archive)
        self.store = Store(convert(archive, self.folder / "kept.trace", jobs=1))
        self.n_events: int = self.store.manifest["n_events"]
        self.n_records: int = self.source.properties.get("records", self.n_events)
        self.archive_bytes = bytes_of(archive)
        self.store_bytes = sum(f.stat().st_size for f in self.store.path.rglob("*") if f.is_file())

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """Time, kind and region of all events, in batches like those that `decode` makes."""
        n = len(self.source.definitions["locations"]["id"])
        return [
            self.store.read("events", i, None, at, at + BATCH)
            for i in range(n)
            for at in range(0, self.store.n_rows("events", i), BATCH)
        ]

    @cached_property
    def _buffers(self) -> dict[str, Any]:
        return {c: np.zeros(BATCH, v.dtype) for c, v in self.columns[0].items()}

    def copy(self) -> None:
        """Yardstick: copy the columns into buffers that are reused."""
        for batch in self.columns:
            for name, values in batch.items():
                self._buffers[name][: values.size] = values

    def parquet(self) -> None:
        """Yardstick: let pyarrow write the columns, with the store's settings and in one file."""
        import pyarrow as pa

        from tracecols.schema import EVENTS
        from tracecols.store.arrow import arrow_schema, event_writer

        with event_writer(self.folder / "yardstick.parquet", EVENTS) as writer:
            for batch in self.columns:
                writer.write_table(pa.table(batch, schema=arrow_schema(EVENTS)), row_group_size=BATCH)

    def decode(self) -> None:
        """Decode, one thread, into buffers that are reused.

        To open an OTF2 archive is to read its definitions, which does not count. To open a merged trace is to go through
        all records for those of each location, which is a part of decoding them and counts.
        """
        decode(self.source if is_otf2(self.archive) else open_archive(self.archive))

    def convert(self, jobs: int = 1) -> Path:
        """Convert to a store."""
        from tracecols import convert

        return convert(self.archive, self.folder / "made.trace", jobs=jobs)

    def scan(self) -> Any:
        """Scan the store: call paths, profile, calls."""
        from tracecols.enhance.model import Model

        return Model(self.store, 1)

    def patterns(self, model: Any) -> Any:
        """Match and find wait states in a model that was only scanned; takes a new model each time."""
        from tracecols.patterns.engine import analyze_model

        return analyze_model(model, self.conventions)

    def everything(self, jobs: int = 2) -> Any:
        """Go from archive to severities in this process."""
        from tracecols.enhance.model import Model
        from tracecols.patterns.engine import analyze_model
        from tracecols.store import Store

        return analyze_model(Model(Store(self.convert(jobs)), jobs), self.conventions)

    def command(self) -> None:
        """Go from archive to severities as a user does: a process of its own, kernels compiled before."""
        command = [sys.executable, "-m", "tracecols", "analyze", str(self.archive), "--conventions", self.conventions]
        subprocess.run(
            [*command, "-o", str(self.folder / "made.severity")], check=True, capture_output=True, cwd=self.folder
        )

    def timed(self, jobs: int) -> dict[str, Callable[[], Any]]:
        """Return the steps to be timed by what they are called in tables."""
        return {
            "copy of the columns": self.copy,
            "pyarrow writes the columns": self.parquet,
            "decode": self.decode,
            "convert, 1 job": self.convert,
            f"convert, {jobs} jobs": lambda: self.convert(jobs),
            "scan, 1 job": self.scan,
            f"archive to severities, {jobs} jobs": lambda: self.everything(jobs),
            "tracecols analyze ARCHIVE": self.command,
        }

    def close(self) -> None:
        """Remove the files."""
        self._scratch.cleanup()


_PEAK = """
import resource
try:
    lines = open("/proc/self/status").read().splitlines()
    print(1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
except (OSError, StopIteration):
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""
# Linux's ru_maxrss of a process begins with what its parent held when it was started, which is more than all of this


def peak_memory(archive: Path, jobs: int = 1) -> int:
    """Convert in a process of its own and return the most memory it held, in bytes."""
    with tempfile.TemporaryDirectory(prefix="tracecols-") as scratch:
        program = "import sys, tracecols; tracecols.convert(sys.argv[1], sys.argv[2], jobs=int(sys.argv[3]))" + _PEAK
        done = subprocess.run(
            [sys.executable, "-c", program, str(archive), f"{scratch}/made.trace", str(jobs)],
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
    return int(done.stdout)
