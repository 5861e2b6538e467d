"""Measure the cost of a large cube in a browser: `python -m benchmarks.viewer --cells 1e7`.

A made-up cube is written as a report and opened in Chromium without a window (tests/support/browser.py). A quarter of the cells
belongs to the root, half to ten properties, the rest to all others. Times are medians of several runs, from the click
or the opening of the file until the values are on the screen.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.browser import Report, chromium

from tracecols.severity import Cells, SeverityCube
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.reduction import reduce_upwards

WATCH = """
window.seen = {};
const watch = setInterval(() => {
    const now = performance.now(), view = document.getElementById("tracecols")?.view;
    const note = (what, there) => { if (there && !(what in seen)) seen[what] = now; };
    note("trees", document.querySelector(".tc-row"));
    note("call tree", view?.model.calls.inclusive.some((v) => v));
    note("system tree", view?.model.byLocation.some((v) => v));
    if ("system tree" in seen) clearInterval(watch);
}, 4);
"""

STEP = """async (step) => {
    const { cube, model } = document.getElementById("tracecols").view;
    const start = performance.now();
    if (step[0] === "property") model.trees.properties.set({ expanded: cube.properties.ancestors(step[1]), selected: [step[1]] });
    if (step[0] === "call path") model.trees.calls.reveal([step[1]]);
    if (step[0] === "open all") model.trees.calls.expandAll();
    if (step[0] === "close all") model.trees.calls.collapseAll();
    await model.ready;
    await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
    return performance.now() - start;
}"""

SCROLL = """async () => {
    const box = document.querySelector("[data-pane=calls] .tc-scroll"), frames = 100, start = performance.now();
    for (let i = 0; i < frames; i++) { box.scrollTop += 240; await new Promise(requestAnimationFrame); }
    return (performance.now() - start) / frames;
}"""


def random_tree(rng: np.random.Generator, n: int, width: int) -> NDArray[np.int64]:
    """Return parents of a random tree in depth-first order; every node hangs below one of the last `width` on its
    path."""
    parent, path = np.full(n, -1), [0]
    for i in range(1, n):
        del path[1 + int(rng.integers(max(0, len(path) - width), len(path))) :]
        parent[i] = path[-1]
        path.append(i)
    return parent


def make_cube(n_properties: int, n_calls: int, n_locations: int, n_cells: int) -> SeverityCube:
    """Make a cube of random trees and values."""
    rng = np.random.default_rng(1)
    above = random_tree(rng, n_properties, 3)
    ids = ["time", *(f"property_{i}" for i in range(1, n_properties))]
    text = [["Time lost for a made-up reason."] * n_properties, ["Nothing can be done about it."] * n_properties]
    units, parents = ["sec"] * n_properties, [ids[p] if p >= 0 else "" for p in above]
    properties = PropertyAxis(ids, parents, ids, units, *text, [1.0] * n_properties, [False] * n_properties)
    parent = random_tree(rng, n_calls, 4)
    depth = np.zeros(n_calls, np.int32)
    for i in range(1, n_calls):
        depth[i] = depth[parent[i]] + 1
    end = np.arange(n_calls) + reduce_upwards(np.ones(n_calls, np.int64), parent, depth)
    region = rng.integers(0, max(1, n_calls // 8), n_calls)
    names = np.array([f"compute_{r}" for r in region], object)
    role, paradigm, file, site = (np.full(n_calls, word, object) for word in ("function", "compiler", "solver.f90", ""))
    calls = CallAxis(parent.astype(np.int32), depth, end, names, role, paradigm, file, region.astype(np.int64), site)
    rank = np.arange(n_locations, dtype=np.int32)
    kind, name, system_parent, location = ["machine"], ["cluster"], [-1], [-1]
    for r in range(n_locations):
        kind += ["process", "thread"]
        name += [f"MPI Rank {r}", "Master thread"]
        system_parent += [0, len(kind) - 2]
        location += [-1, r]
    threads, one = ["Master thread"] * n_locations, ["CPU_THREAD"] * n_locations
    system = SystemAxis(kind, name, system_parent, location, rank, np.zeros(n_locations, np.int32), threads, one)
    shares = np.full(n_properties, 0.25 / max(1, n_properties - 11))
    shares[1:11] = 0.05
    shares[0] = 0.25
    cells = {}
    for p, share in zip(ids, shares, strict=True):
        n = min(n_calls * n_locations, int(n_cells * share))
        key = np.unique(rng.integers(0, n_calls * n_locations, n)) if n < n_calls * n_locations else np.arange(n)
        value = rng.lognormal(12, 2, key.size).astype(np.int64) + 1
        cells[p] = Cells((key // n_locations) << 32 | key % n_locations, value)
    return SeverityCube(properties, calls, system, cells, {"conventions": "scalasca", "resolution": 10**9})


def resident(browser: Any) -> int:
    """Return the memory of the largest process that shows a page, in bytes (Linux)."""
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    pages = [Path(f"/proc/{p['id']}/statm").read_text() for p in processes if p["type"] == "renderer"]
    return max(int(text.split()[1]) for text in pages) * resource.getpagesize()


def measure(browser: Any, path: Path, runs: int, n_properties: int, n_calls: int) -> list[tuple[str, str]]:
    """Open a report and click through it."""
    opened: dict[str, list[float]] = {}
    for _ in range(runs):
        report = Report(browser, path, script=WATCH)
        report.page.wait_for_function("() => window.seen && 'system tree' in window.seen", timeout=60_000)
        for what, at in report.page.evaluate("() => window.seen").items():
            opened.setdefault(what, []).append(at)
        report.close()
    rows = [(f"open until {what} shown", f"{median(at):.0f} ms") for what, at in opened.items()]
    report = Report(browser, path)
    rng = np.random.default_rng(2)

    def step(*what: object) -> float:
        return float(report.page.evaluate(STEP, list(what)))

    large = [step("property", p) for p in range(1, 11)]
    rows.append(("select a property of 5 % of the cells, for the first time", f"{median(large):.0f} ms"))
    others = [step("property", int(p)) for p in rng.integers(11, n_properties, 9)]
    rows.append(("select another property, for the first time", f"{median(others):.0f} ms"))
    step("property", 0)
    paths = [step("call path", int(c)) for c in rng.integers(0, n_calls, 9)]
    rows.append(("select a call path, of the root", f"{median(paths):.0f} ms"))
    toggled = [(step("close all"), step("open all")) for _ in range(5)]
    rows.append((f"open all {n_calls:,} call paths", f"{median(t for _, t in toggled):.0f} ms"))
    rows.append(("one frame of scrolling through them", f"{report.page.evaluate(SCROLL):.0f} ms"))
    rows.append(("memory of the page's process", f"{resident(browser) / 1e6:.0f} MB"))
    report.close()
    return rows


OPTIONS = {"properties": 1000, "call-paths": 10_000, "locations": 1000, "cells": 1e7, "runs": 5}


def main() -> None:
    """Write, open, click, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in OPTIONS.items():
        parser.add_argument(f"--{name}", type=float, default=default)
    given = {k: int(v) for k, v in vars(parser.parse_args()).items()}
    cube = make_cube(given["properties"], given["call_paths"], given["locations"], given["cells"])
    n = sum(map(len, cube.cells.values()))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        start = time.perf_counter()
        path = cube.report(Path(folder) / "cube.html")
        rows = [("write the report", f"{time.perf_counter() - start:.1f} s")]
        size = path.stat().st_size
        rows.append(("the report", f"{size / 1e6:.0f} MB, {size / n:.1f} bytes per cell"))
        rows += measure(browser, path, given["runs"], given["properties"], given["call_paths"])
    print(f"{cube.summary()}, {n:,} cells")
    for what, value in rows:
        print(f"{what:60}{value:>30}")


if __name__ == "__main__":
    main()
