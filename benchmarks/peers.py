"""The same work done by other tools: the format's own library and its Python package, each if it is installed.

* The C library reads all events and calls an empty function for each (`otf2_library.c`); tracecols decodes them into columns.
  Two versions are measured: the installed library, and the newer one in the `otf2` package of PyPI, whose extension
  module also exports the C functions.
* The `otf2` package makes a Python object of every event; tracecols makes a data frame.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import steps
from benchmarks.steps import Run, Step, Subject

INCLUDES = ("/usr/include", "/usr/local/include", "/opt/otf2/include")


def config(*options: str) -> list[str]:
    """Return the flags that otf2-config prints; none if it is not installed."""
    command = shutil.which("otf2-config")
    asked = [[command, option] for option in options if command]
    return "".join(subprocess.run(c, capture_output=True, text=True, check=True).stdout for c in asked).split()


def include_folder() -> Path | None:
    """Find the headers of the library."""
    folders = [flag[2:] for flag in config("--cflags") if flag.startswith("-I")] or INCLUDES
    return next((Path(f) for f in folders if (Path(f) / "otf2" / "otf2.h").exists()), None)


def compiler() -> str | None:
    """Find a C compiler."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def extension_module() -> Path | None:
    """Find the extension module of the `otf2` package."""
    package = find_spec("_otf2")
    if package is None:
        return None
    folders = [Path(f) for f in package.submodule_search_locations or ()]
    folders += [Path(package.origin).parent] if package.origin else []
    return next((found for folder in folders for found in folder.glob("_otf2*.so")), None)


def _no_library() -> str:
    if compiler() is None:
        return "no C compiler (cc, gcc, clang)"
    if include_folder() is None:
        return "no OTF2 headers: install libopen-trace-format2-dev or put otf2-config on the PATH"
    return ""


def _read_with_library(subject: Subject, name: str, before: list[str], flags: list[str]) -> Run:
    """Compile `otf2_library.c`, load it after some shared objects, open the archive, and read all events; only the
    reading is measured."""
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
    library = [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in (*before, str(shared))][-1]
    library.read_events.restype = ctypes.c_int64
    if library.open_archive(os.fsencode(str(subject.archive))):
        raise RuntimeError("the library cannot read the archive")
    return library.read_events


def _installed(subject: Subject) -> Run:
    return _read_with_library(subject, "installed", [], config("--ldflags", "--libs") or ["-lopen-trace-format2"])


def _of_package(subject: Subject) -> Run:
    """Read all events with the library in the package, whose functions are in the extension module."""
    return _read_with_library(subject, "package", [str(extension_module())], [])


def _objects(subject: Subject) -> Run:
    """Iterate over all events in Python."""
    import otf2

    def run() -> int:
        with otf2.reader.open(str(subject.archive)) as trace:
            return sum(1 for _ in trace.events)

    return run


def _peer(name: str, title: str, against: str, prepare: Any, **more: Any) -> Step:
    return Step(name, "peers", title, prepare, needs="otf2", against=against, **more)


SMALL, COUNTS = {"most_events": 3_000_000}, {"counts_events": True}
LIBRARY: dict[str, Any] = {"missing": _no_library, **COUNTS}
PEERS = (
    _peer("library", "OTF2 library, installed: empty callbacks", "decode", _installed, in_series=True, **LIBRARY),
    _peer(
        "library_of_package", "OTF2 library, of the otf2 package: empty callbacks", "decode", _of_package,
        package="_otf2", **LIBRARY,
    ),
    _peer("otf2_package", "otf2 package: an object per event", "load_events", _objects, package="otf2", **SMALL, **COUNTS),
)  # fmt: skip

STEPS = {**steps.STEPS, **{peer.name: peer for peer in PEERS}}
"""All steps: those of `benchmarks.steps`, and those of this module."""
