"""Compile the kernels that nearly all tests need, so that parallel test workers do not compile the same ones.

    python tests/compile_kernels.py PART

Before pytest-xdist starts its workers, one process is run for each part (conftest.py); both together take as long as
the longer one. No kernel is compiled twice: when a part needs a kernel of the other, that has long compiled it.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).parent / "data"


def convert(folder: Path) -> None:
    """Compile kernels that read archives, compute root causes in seconds, as the reference does, and write archives."""
    import tracecols
    from tracecols.export.archive import export_archive

    store = tracecols.convert(DATA / "hybrid_2x3", folder / "x.trace", jobs=1)
    tracecols.open(store, jobs=1).analyze("scalasca", properties=["delay", "performance_impact"])
    export_archive(store, folder / "x.otf2", jobs=1)


def analyze(folder: Path) -> None:
    """Compile kernels that analyse traces, first by period; the trace is generated without compiled kernels."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from benchmarks.generate import make
    from tracecols.conversion import write_store
    from tracecols.trace import Trace

    (folder / "x.trace").mkdir()
    write_store(make("multizone", 4, 2, 2000), folder / "x.trace", jobs=1, salvage=False, progress=None)
    trace = Trace(folder / "x.trace", jobs=1)
    trace.analyze(bins=3)
    trace.analyze()
    trace.read_events()


PARTS = {"convert": convert, "analyze": analyze}

if __name__ == "__main__":
    # compilation makes very many objects; garbage collection is not worthwhile in a short process
    gc.disable()
    with tempfile.TemporaryDirectory() as folder:
        PARTS[sys.argv[1]](Path(folder))
