"""Kernels as LLVM bitcode, which is part of an installed package.

They are compiled when the wheel is built (`tracecols.kernels.write_bitcode`). Making machine code from bitcode takes a
twelfth of the time that numba takes to make it from Python, and numba need not be imported. Bitcode is valid for one
version of Python and of numba, for one platform, and for the sources that it was compiled from; in all other cases
numba compiles the kernels.
"""

from __future__ import annotations

import importlib.metadata
import json
import marshal
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from tracecols.kernels.cache import Code, digest, keep, linked, settings
from tracecols.kernels.kinds import Kind

FILE = Path(__file__).with_name("bitcode.zip")
"""The kernels, one member of the archive each, and a member that says what they were made for."""

MADE_FOR = "made_for.json"
"""The member that says what the archive was made for."""

_HERE = Path(__file__).parent

_lock = Lock()


def load(function: Callable[..., Any], kinds: tuple[Kind, ...]) -> Callable[..., Any] | None:
    """Make machine code from the bitcode of a kernel, given as plain function, and keep it for other processes; None if
    there is no bitcode for this version of Python and of numba."""
    with _lock:
        bitcode = None if settings() else _members()
        member = "" if bitcode is None else member_of(function, kinds)
        if bitcode is None or member not in bitcode.namelist():
            return None
        found = Code(*marshal.loads(bitcode.read(member)))
    found = found._replace(code=_machine_code(found.code))
    keep(function, kinds, found)
    return linked(function, found)


@cache
def _members() -> zipfile.ZipFile | None:
    """Return the archive of the package, if it was made for this process."""
    return opened(FILE)


def opened(path: Path) -> zipfile.ZipFile | None:
    """Open an archive with bitcode, if there is one that was made for this version of Python and of numba."""
    try:
        members = zipfile.ZipFile(path)
        made_for = json.loads(members.read(MADE_FOR))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None
    return members if made_for == this_process() else None


def this_process() -> dict[str, str]:
    """Return what bitcode depends on besides its sources."""
    from llvmlite import binding

    return {
        "python": str(sys.implementation.cache_tag),
        "numba": importlib.metadata.version("numba"),
        "platform": binding.get_process_triple(),
    }


def member_of(function: Callable[..., Any], kinds: tuple[Kind, ...]) -> str:
    """Return the name of a kernel in the archive."""
    sources = _sources(Path(function.__code__.co_filename).parent)
    return f"{function.__module__}.{function.__qualname__}-{sources}-{digest(kinds)}"


@cache
def _sources(folder: Path) -> str:
    """Return a digest of the sources of the kernels of a folder: all modules in it, and in this package."""
    return digest([(p.name, p.read_bytes()) for f in (folder, _HERE) for p in sorted(f.glob("*.py"))])


def _machine_code(bitcode: bytes) -> bytes:
    """Make machine code for this processor, with the options of numba."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )
    return machine.emit_object(binding.parse_bitcode(bitcode))
