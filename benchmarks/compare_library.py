"""Decoding compared with the format's own C library, which is given callbacks that do nothing.

    python -m benchmarks.compare_library [ARCHIVE ...]

Both read the same archives with one thread, in processes of their own that take turns. tracecols fills columns (times
corrected, identifiers translated and checked); the library calls an empty function per event. What is compared with: the
library that is installed with its headers, and the newer one that is part of the `otf2` package of PyPI, whose extension
module exports the C functions as well.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.workloads import archives, decode, is_otf2, open_archive

ROUNDS = 7
REPEATS = 3

INCLUDES = ("/usr/include", "/usr/local/include", "/opt/otf2/include")


def include_folder() -> Path | None:
    """Find the headers of the library."""
    if config := shutil.which("otf2-config"):
        flags = subprocess.run([config, "--cflags"], capture_output=True, text=True, check=True).stdout.split()
        found = [flag[2:] for flag in flags if flag.startswith("-I")]
    else:
        found = list(INCLUDES)
    return next((Path(f) for f in found if (Path(f) / "otf2" / "otf2.h").exists()), None)


def link_flags() -> list[str]:
    """Say how to link the library."""
    if config := shutil.which("otf2-config"):
        flags: list[str] = []
        for option in ("--ldflags", "--libs"):
            flags += subprocess.run([config, option], capture_output=True, text=True, check=True).stdout.split()
        return flags
    return ["-lopen-trace-format2"]


def compile_readers(folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Compile `otf2_library.c` for every library there is.

    Returns
    -------
    readers : dict of str to list of str
        By name: the shared objects to load one after the other; the last one has `read_archive`.
    missing : list of str
        What cannot be compared with, and why.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    include = include_folder()
    if compiler is None:
        return {}, ["no C compiler (cc, gcc, clang)"]
    if include is None:
        return {}, ["no OTF2 headers: install libopen-trace-format2-dev or put otf2-config on the PATH"]
    header = (include / "otf2" / "OTF2_EvtReaderCallbacks.h").read_text()
    names = re.findall(r"^OTF2_EvtReaderCallbacks_Set(\w+)Callback\(", header, re.M)
    (folder / "otf2_events.h").write_text("#define EVENTS(X) " + " ".join(f"X({n})" for n in names) + "\n")
    source = Path(__file__).with_name("otf2_library.c")
    base = [compiler, "-O2", "-shared", "-fPIC", f"-I{include}", f"-I{folder}", str(source)]
    readers: dict[str, list[str]] = {}
    missing = []
    done = subprocess.run([*base, "-o", str(folder / "installed.so"), *link_flags()], capture_output=True, text=True)
    if done.returncode == 0:
        readers["installed library"] = [str(folder / "installed.so")]
    else:
        missing.append(f"the installed library does not link: {done.stderr.strip().splitlines()[-1]}")
    package = importlib.util.find_spec("_otf2")
    module = next(Path(package.origin).parent.glob("_otf2*.so"), None) if package and package.origin else None
    if package and module is None and package.submodule_search_locations:
        module = next(Path(next(iter(package.submodule_search_locations))).glob("_otf2*.so"), None)
    if module is None:
        missing.append("the otf2 package is not installed")
    else:
        # its functions come from the extension module, which is loaded first
        done = subprocess.run([*base, "-o", str(folder / "wheel.so")], capture_output=True, text=True)
        if done.returncode == 0:
            readers["otf2 package"] = [str(module), str(folder / "wheel.so")]
        else:
            missing.append(f"cannot compile for the otf2 package: {done.stderr.strip().splitlines()[-1]}")
    return readers, missing


def measure(objects: list[str], archive: Path) -> tuple[int, float]:
    """Read an archive some times, with the library in `objects` or with tracecols if there is none; events, seconds."""
    seconds: list[float] = []
    if not objects:
        source = open_archive(archive)
        n = decode(source)
        for _ in range(REPEATS):
            begin = time.perf_counter()
            decode(source)
            seconds.append(time.perf_counter() - begin)
        return n, min(seconds)
    loaded = [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in objects]
    read = loaded[-1].read_archive
    read.restype = ctypes.c_int64
    taken = ctypes.c_double()
    n = 0
    for _ in range(1 + REPEATS):
        n = read(str(archive).encode(), ctypes.byref(taken))
        if n < 0:
            raise RuntimeError(f"the library cannot read {archive}")
        seconds.append(taken.value)
    return n, min(seconds[1:])


def compare(paths: dict[str, Path], rounds: int = ROUNDS) -> tuple[list[tuple[str, str, int, list[float]]], list[str]]:
    """Measure in turn; returns (archive, reader, events, seconds of every round), and what is missing."""
    with tempfile.TemporaryDirectory(prefix="tracecols-") as scratch:
        readers, missing = compile_readers(Path(scratch))
        contenders: dict[str, list[str]] = {"tracecols": [], **readers}
        rows = []
        for archive, path in paths.items():
            seconds: dict[str, list[float]] = {name: [] for name in contenders}
            n_events: dict[str, int] = {}
            for _ in range(rounds):
                for name, objects in contenders.items():
                    command = [sys.executable, "-m", "benchmarks.compare_library", "--measure", json.dumps(objects)]
                    done = subprocess.run(
                        [*command, str(path)], capture_output=True, text=True, check=True,
                        cwd=Path(__file__).parents[1],
                    )  # fmt: skip
                    n_events[name], taken = json.loads(done.stdout)
                    seconds[name].append(taken)
            if len(set(n_events.values())) > 1:
                raise RuntimeError(f"{path}: the readers do not agree on the number of events: {n_events}")
            rows += [(archive, name, n_events[name], taken) for name, taken in seconds.items()]
    return rows, missing


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare_library", description=__doc__.split("\n")[0])
    parser.add_argument(
        "archives", nargs="*", type=Path, metavar="ARCHIVE", help="anchor files; default: all workloads that are OTF2"
    )
    parser.add_argument("--events", type=float, default=10e6, help="size of the synthetic archive")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(json.loads(arguments.measure), arguments.archives[0])))
        return
    known = {name: path for name, path in archives(int(arguments.events)).items() if is_otf2(path)}
    paths = {str(p): p for p in arguments.archives} or known
    rows, missing = compare(paths, arguments.rounds)
    table = Table("archive", "reader", "events", "M events/s, median", "least", "most", "tracecols is")
    for archive, name, n, seconds in rows:
        ours = next(statistics.median(s) for a, r, _, s in rows if a == archive and r == "tracecols")
        rates = [n / s / 1e6 for s in seconds]
        table.add_row(
            archive, name, f"{n:,}", f"{statistics.median(rates):.1f}", f"{min(rates):.1f}", f"{max(rates):.1f}",
            "" if name == "tracecols" else f"{statistics.median(seconds) / ours:.2f} x as fast",
        )  # fmt: skip
    console = Console() if sys.stdout.isatty() else Console(width=110)
    console.print(table)
    for line in missing:
        console.print(f"not compared: {line}")


if __name__ == "__main__":
    main()
