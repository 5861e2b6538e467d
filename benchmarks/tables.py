"""Ask the same three questions of a trace's tables in four ways (docs/tables.md), and measure the memory of frames.

`python -m benchmarks.tables STORE` prints elapsed time, processor time, the most memory and the most bytes of temporary files of each, a process of its own for each; `--only` names
some. Beside them stand analyses with and without root causes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benchmarks.process import held, peak, reset_peak, scratch_bytes

QUERIES = (
    "select send_location, recv_location, sum(length) as n from messages group by all",
    "select recv_call_path, sum(wait) as n from (select recv_call_path, least(send_enter_time, recv_exit_time) - recv_enter_time as wait"
    " from messages) where wait > 0 group by 1 order by 2 desc limit 5",
    "select region, sum(exit_time - enter_time) as n from region_instances group by 1",
)  # fmt: skip
"""How many bytes went from whom to whom, which call paths lost most time to late senders, how long the instances of each region took."""


def nothing(trace: Any) -> str:
    """Import what all ways need: what a process takes before it does anything."""
    import_module("pandas")
    return ""


def enhance(trace: Any) -> str:
    """Write all enhanced tables."""
    from tracecols.enhance.table_files import ENHANCED

    trace.catalog.enhanced(ENHANCED, again=True)
    return f"{sum(f.stat().st_size for f in (trace.path / 'enhanced').rglob('*.parquet')):,} bytes"


def analyze(trace: Any) -> str:
    """Search for everything, root causes included."""
    return f"{sum(c.value.size for c in trace.analyze().cells.values()):,} cells"


def analyze_without_causes(trace: Any) -> str:
    """Search for all wait states, but not for their root causes."""
    return f"{sum(c.value.size for c in trace.analyze(properties=['time']).cells.values()):,} cells"


def with_pandas(trace: Any) -> str:
    """Answer the questions from frames."""
    import numpy as np

    m, r = trace.messages, trace.region_instances
    lengths = m.groupby(["send_location", "recv_location"]).length.sum()
    wait = np.minimum(m.send_enter_time, m.recv_exit_time) - m.recv_enter_time
    late = wait[wait > 0].groupby(m.recv_call_path).sum().nlargest(5)
    ticks = (r.exit_time - r.enter_time).groupby(r.region).sum()
    return _answers(lengths.sum(), late.sum(), ticks.sum())


def with_sql(trace: Any) -> str:
    """Answer the questions in SQL."""
    return _answers(*(trace.sql(query)["n"].sum() for query in QUERIES))


def with_polars(trace: Any) -> str:
    """Answer the questions with the streaming engine of polars."""
    import polars as pl

    m, r = (pl.scan_parquet(trace.scan(name).files) for name in ("messages", "region_instances"))
    lengths = m.group_by("send_location", "recv_location").agg(pl.col("length").sum()).collect(engine="streaming")
    wait = (pl.min_horizontal("send_enter_time", "recv_exit_time") - pl.col("recv_enter_time")).alias("wait")
    late = (
        m.select("recv_call_path", wait).filter(pl.col("wait") > 0).group_by("recv_call_path").agg(pl.col("wait").sum())
    )
    most = late.sort("wait", descending=True).head(5).collect(engine="streaming")
    lasting = (pl.col("exit_time") - pl.col("enter_time")).alias("ticks")
    ticks = r.group_by("region").agg(lasting.sum()).collect(engine="streaming")
    return _answers(lengths["length"].sum(), most["wait"].sum(), ticks["ticks"].sum())


def with_dask(trace: Any) -> str:
    """Answer the questions with Dask DataFrame."""
    import dask.dataframe as dd

    m, r = (dd.read_parquet([str(f) for f in trace.scan(name).files]) for name in ("messages", "region_instances"))
    lengths = m.groupby(["send_location", "recv_location"]).length.sum().compute()
    m = m.assign(
        wait=m.send_enter_time.where(m.send_enter_time < m.recv_exit_time, m.recv_exit_time) - m.recv_enter_time
    )
    late = m[m.wait > 0].groupby("recv_call_path").wait.sum().nlargest(5).compute()
    ticks = r.assign(ticks=r.exit_time - r.enter_time).groupby("region").ticks.sum().compute()
    return _answers(lengths.sum(), late.sum(), ticks.sum())


def events(trace: Any) -> str:
    """Make a frame of all events with all pointer columns."""
    return _memory_of(trace, lambda: trace.frame("events", raw=True))


def events_for_people(trace: Any) -> str:
    """Make a frame of all events, with the columns for people besides."""
    return _memory_of(trace, lambda: trace.events)


def sql_over_events(trace: Any) -> str:
    """Go through all events with all pointer columns in SQL."""
    return str(trace.sql("select count(*) as n, max(exitptr) as m, sum(pos) as p from events where enterptr >= 0").n[0])


def polars_over_events(trace: Any) -> str:
    """Go through all events with all pointer columns with polars."""
    import polars as pl

    of = pl.scan_parquet(trace.scan("events").files).filter(pl.col("enterptr") >= 0)
    return str(of.select(pl.len(), pl.col("exitptr").max(), pl.col("pos").sum()).collect(engine="streaming")[0, 0])


def _answers(*numbers: Any) -> str:
    return ", ".join(str(int(n)) for n in numbers)


def _memory_of(trace: Any, make: Callable[[], Any]) -> str:
    """Say what a frame takes, and how much more the process held while it was made, beyond the scan."""
    _ = trace.model
    before = held()
    reset_peak()
    frame = make()
    most, n = peak(), int(frame.memory_usage(index=False).sum())
    found = f"{len(frame):,} rows, frame {n / 1e9:.2f} GB"
    return found if before is None else f"{found}; beyond the scan {(most - before) / n:.2f} times as much"


WAYS: dict[str, Callable[[Any], str]] = {
    f.__name__: f
    for f in (
        nothing, enhance, analyze, analyze_without_causes, with_pandas, with_sql, with_polars, with_dask, sql_over_events, polars_over_events, events, events_for_people,
    )
}  # fmt: skip


def main() -> None:
    """Measure all ways, or do one of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        import tracecols

        for name in given.only:
            print(WAYS[name](tracecols.open(given.store, frame_limit=None)))
        return
    for name in given.only:
        with tempfile.TemporaryDirectory(prefix="tracecols-tables-") as folder:
            stop, most = Event(), [0]
            watch = Thread(target=scratch_bytes, args=([Path(folder), given.store / "enhanced"], stop, most))
            begin = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.tables", str(given.store), "--here", "--only", name],
                stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": folder},
            )  # fmt: skip
            watch.start()
            assert process.stdout is not None
            said = process.stdout.read().strip()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            stop.set()
            watch.join()
        print(
            f"{name:23}{time.monotonic() - begin:8.1f} s {used.ru_utime + used.ru_stime:8.1f} CPU s {used.ru_maxrss / 1024:8,.0f} MiB "
            f"{most[0] / 1e6:8,.0f} MB scratch  {said}" + f" FAILED: {process.returncode}" * bool(process.returncode),
            flush=True,
        )


if __name__ == "__main__":
    main()
