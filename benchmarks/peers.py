"""The same work done by others: the format's own library, its Python package, and pipit; each if it is installed.

* The C library reads all events and calls an empty function for each (`otf2_library.c`); tracecols decodes them into columns.
  There is the library that is installed with its headers, and the newer one that is part of the `otf2` package of PyPI,
  whose extension module exports the C functions as well.
* The `otf2` package makes a Python object of every event; tracecols makes a data frame.
* pipit makes a data frame of all events, exclusive times by function and process, a matrix of bytes by sender and receiver;
  tracecols makes the same from the archive. It is not on PyPI: what is called pipit there is an empty placeholder.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.steps import STEPS, Items, Subject, Watch, step
from benchmarks.workloads import is_otf2

__all__ = ["STEPS"]
"""All steps: those of `benchmarks.steps`, and these."""

INCLUDES = ("/usr/include", "/usr/local/include", "/opt/otf2/include")
PIPIT = "pip install git+https://github.com/hpcgroup/pipit"


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


def compiler() -> str | None:
    """Find a C compiler."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def extension_module() -> Path | None:
    """Find the extension module of the `otf2` package."""
    package = importlib.util.find_spec("_otf2")
    if package is None:
        return None
    folders = [Path(f) for f in package.submodule_search_locations or ()]
    folders += [Path(package.origin).parent] if package.origin else []
    return next((found for folder in folders for found in folder.glob("_otf2*.so")), None)


def _not_otf2(archive: Path) -> str:
    return "" if is_otf2(archive) else "not an OTF2 archive"


def _no_library(archive: Path) -> str:
    if compiler() is None:
        return "no C compiler (cc, gcc, clang)"
    if include_folder() is None:
        return "no OTF2 headers: install libopen-trace-format2-dev or put otf2-config on the PATH"
    return _not_otf2(archive)


def _no_package(archive: Path) -> str:
    return _not_otf2(archive) if importlib.util.find_spec("otf2") else "not installed: pip install otf2"


def _no_pipit(archive: Path) -> str:
    # the placeholder on PyPI has no module
    return _not_otf2(archive) if importlib.util.find_spec("pipit") else f"not installed: {PIPIT}"


def _read_with_library(subject: Subject, watch: Watch, name: str, before: list[str], flags: list[str]) -> Items:
    """Compile `otf2_library.c`, load it behind some shared objects, and read all events; opening does not count."""
    include = include_folder()
    assert include is not None
    shared = subject.scratch / f"{name}.so"
    if not shared.exists():
        header = (include / "otf2" / "OTF2_EvtReaderCallbacks.h").read_text()
        names = re.findall(r"^OTF2_EvtReaderCallbacks_Set(\w+)Callback\(", header, re.M)
        events = "#define EVENTS(X) " + " ".join(f"X({n})" for n in names) + "\n"
        (subject.scratch / "otf2_events.h").write_text(events)
        source = Path(__file__).with_name("otf2_library.c")
        command = [str(compiler()), "-O2", "-shared", "-fPIC", f"-I{include}", f"-I{subject.scratch}", str(source)]
        done = subprocess.run([*command, "-o", str(shared), *flags], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"cannot compile: {done.stderr.strip().splitlines()[-1]}")
    loaded = [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in (*before, str(shared))]
    read = loaded[-1].read_archive
    read.restype = ctypes.c_int64
    taken = ctypes.c_double()
    with watch:
        # what lies before the first event is measured by the function and taken off
        n = read(os.fsencode(subject.archive), ctypes.byref(taken))
    watch.seconds = taken.value
    if n < 0:
        raise RuntimeError("the library cannot read the archive")
    return "events", n


@step(
    "library", "OTF2 library, installed: empty callbacks", "peers",
    against="decode", in_series=True, missing=_no_library, counts_events=True,
)  # fmt: skip
def library(subject: Subject, watch: Watch) -> Items:
    """Read all events with the installed library."""
    return _read_with_library(subject, watch, "installed", [], link_flags())


def _no_library_in_package(archive: Path) -> str:
    return _no_library(archive) if extension_module() else "not installed: pip install otf2"


@step(
    "library_of_package", "OTF2 library, of the otf2 package: empty callbacks", "peers",
    against="decode", missing=_no_library_in_package, counts_events=True,
)  # fmt: skip
def library_of_package(subject: Subject, watch: Watch) -> Items:
    """Read all events with the library that is part of the package."""
    # its functions come from the extension module, which is loaded first
    return _read_with_library(subject, watch, "package", [str(extension_module())], [])


@step(
    "otf2_package", "otf2 package: an object per event", "peers",
    against="load_events", missing=_no_package, counts_events=True, most_events=3_000_000,
)  # fmt: skip
def otf2_package(subject: Subject, watch: Watch) -> Items:
    """Go through all events in Python."""
    import otf2

    n = 0
    with watch, otf2.reader.open(str(subject.archive)) as trace:
        for _ in trace.events:
            n += 1
    return "events", n


def _pipit(subject: Subject) -> Any:
    import pipit

    return pipit.Trace.from_otf2(str(subject.archive.parent))


@step("pipit_events", "pipit: all events", "peers", against="load_events", missing=_no_pipit, most_events=3_000_000)
def pipit_events(subject: Subject, watch: Watch) -> Items:
    """Read all events, with one process per core."""
    with watch:
        trace = _pipit(subject)
    return "events", len(trace.events)


@step("pipit_profile", "pipit: profile", "peers", against="load_profile", missing=_no_pipit, most_events=3_000_000)
def pipit_profile(subject: Subject, watch: Watch) -> Items:
    """Read all events, and compute exclusive times by function and process."""
    with watch:
        trace = _pipit(subject)
        trace.calc_exc_metrics(["Timestamp (ns)"])
        frame = trace.flat_profile("time.exc", per_process=True)
    return "rows", len(frame)


@step(
    "pipit_messages", "pipit: communication matrix", "peers",
    against="load_messages", missing=_no_pipit, most_events=3_000_000, family="p2p",
)  # fmt: skip
def pipit_messages(subject: Subject, watch: Watch) -> Items:
    """Read all events, and add up lengths of messages by sender and receiver."""
    with watch:
        matrix = _pipit(subject).comm_matrix()
    return "pairs", int((matrix > 0).sum())
