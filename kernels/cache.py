"""Machine code of kernels on disk, which is loaded with LLVM but without numba, whose import would take a quarter of
the time of a small analysis."""

from __future__ import annotations

import importlib.util
import marshal
import os
import stat
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

from tracecols.errors import KernelCacheWarning
from tracecols.kernels.kinds import Kind

_lock = Lock()

_HERE = Path(__file__).parent

_HINT = "set NUMBA_CACHE_DIR to a folder of your own to keep them there"

_UNUSED = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
"""Settings of numba that machine code does not depend on."""


class Code(NamedTuple):
    """A compiled kernel: machine code, or bitcode of LLVM."""

    wrapper: str
    """Name of the function that Python calls."""
    environments: list[str]
    """Names of the variables that hold the environments of the kernel and of its parts."""
    code: bytes


def load(function: Callable[..., Any], kinds: tuple[Kind, ...]) -> Callable[..., Any] | None:
    """Load the machine code of a kernel, given as plain function, for arguments of some kinds; None if there is
    none."""
    path = _path(function, kinds)
    found = None if path is None else _read(path)
    return None if found is None else linked(function, found)


def keep(function: Callable[..., Any], kinds: tuple[Kind, ...], code: Code) -> None:
    """Keep the machine code of a kernel for other processes; warn if that is not possible."""
    found = _path(function, kinds)
    if found is None:
        return
    path = Path(found)
    content = marshal.dumps(tuple(code))
    try:
        _write(path, zlib.crc32(content).to_bytes(4, "little") + content)
    except OSError as error:
        _warn(
            f"kernels are compiled at every start, since {path.parent} cannot be written: {error.strerror}\n  {_HINT}"
        )


def code_of(result: Any, code: bytes) -> Code:
    """Return the code of a kernel, bitcode or machine code, with the names needed to call it, given what numba has
    compiled (`numba.core.compiler.CompileResult`). Raises TypeError if the kernel refers to Python objects, which
    cannot be kept in a file."""
    environments = result._find_referenced_environments()
    if any(e.consts for e in environments):
        raise TypeError(f"the kernel {result.fndesc.qualname} refers to objects, which code in a file cannot")
    return Code(result.fndesc.llvm_cpython_wrapper_name, [e.env_name for e in environments], code)


def _read(path: str) -> Code | None:
    """Read machine code; return None if the file is missing or damaged."""
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.read()
    except OSError:
        return None
    if zlib.crc32(content[4:]).to_bytes(4, "little") != content[:4]:
        return None
    return Code(*marshal.loads(content[4:]))


def _write(path: Path, content: bytes) -> None:
    """Write a file, and remove those of older sources."""
    kernel, stamp, _ = path.name.rsplit("-", 2)
    for other in path.parent.glob(f"{kernel}-*.kernel"):
        if not other.name.startswith(f"{kernel}-{stamp}-"):
            other.unlink(missing_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def linked(function: Callable[..., Any], found: Code) -> Callable[..., Any]:
    """Make a function from machine code."""
    import ctypes

    from llvmlite import binding

    with _lock:
        engine, environment = _engine()
        engine.add_object_file(binding.ObjectFileRef.from_data(found.code))
        engine.finalize_object()
        for name in found.environments:
            ctypes.c_void_p.from_address(engine.get_global_value_address(name)).value = id(environment)
        address = engine.get_function_address(found.wrapper)
    module, doc = sys.modules[function.__module__], function.__doc__ or ""
    return _extension("_dynfunc").make_function(module, function.__name__, doc, address, environment, (engine,))


@cache
def _engine() -> tuple[Any, Any]:
    """Return the engine that links machine code with the functions of Python and numba that kernels call, as numba
    does, and the environment of all kernels, in which numba keeps constants that are objects; kernels have none."""
    import builtins

    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.add_symbol("_Py_NoneStruct", id(None))
    for name, address in (*_extension("_helperlib").c_helpers.items(), *_extension("_dynfunc").c_helpers.items()):
        binding.add_symbol(f"numba_{name}", address)
    for name, of in vars(builtins).items():
        if isinstance(of, type) and issubclass(of, BaseException):
            binding.add_symbol(f"PyExc_{name}", id(of))
    triple = binding.get_process_triple()
    machine = binding.Target.from_triple(triple).create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(f'target triple = "{triple}"'), machine)
    return engine, _extension("_dynfunc").Environment({})


@cache
def _extension(name: str) -> ModuleType:
    """Return a module of numba that is written in C, without importing numba."""
    spec = PathFinder.find_spec(f"numba.{name}", [str(_numba())])
    if spec is None or spec.loader is None:
        raise ImportError(f"numba has no module {name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _numba() -> Path:
    """Return the folder of numba."""
    spec = importlib.util.find_spec("numba")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("numba is not installed")
    return Path(spec.submodule_search_locations[0])


def _path(function: Callable[..., Any], kinds: tuple[Kind, ...]) -> str | None:
    """Return the file for the machine code of a kernel; None if there can be none. It is a str, since an analysis loads
    a hundred, and making `Path` objects takes longer than reading the files."""
    source, module = os.path.split(function.__code__.co_filename)
    folder = _folder(source)
    if folder is None:
        return None
    stamp = stamp_of(source)
    machine = digest((_machine(), kinds))
    return f"{folder}{os.sep}{module.removesuffix('.py')}.{function.__qualname__}-{stamp}-{machine}.kernel"


@cache
def _machine() -> str:
    """Return a digest of what machine code depends on besides its sources."""
    from llvmlite import binding

    cpu = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return digest((sys.implementation.cache_tag, _files(_numba(), "_version.py"), cpu, settings()))


def settings() -> list[tuple[str, str]]:
    """Return the settings of numba that machine code depends on."""
    return sorted(s for s in os.environ.items() if s[0].startswith("NUMBA_") and s[0] not in _UNUSED)


@cache
def stamp_of(folder: str) -> str:
    """Return a digest of the sources of the kernels of a folder: all modules in it, and in this package."""
    return digest([_files(f, "*.py") for f in sorted({Path(folder), _HERE})])


def _files(folder: Path, pattern: str) -> list[tuple[str, int, int]]:
    """Return path, modification time and size of files."""
    return sorted((str(p), s.st_mtime_ns, s.st_size) for p in folder.glob(pattern) for s in [p.stat()])


def digest(of: object) -> str:
    """Return a short digest of the printed form of an object."""
    return blake2b(repr(of).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


@cache
def _folder(of: str) -> str | None:
    """Return the folder for the machine code of the kernels of a folder: the first that can be written; None if there
    is none."""
    source = Path(of)
    for folder in _folders(source):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return str(folder)
    with _lock:
        private = _private_folder()
    if private is None:
        return None
    folder = private / digest(source)
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)


def _folders(source: Path) -> Iterator[Path]:
    """Yield the folders in which machine code may be: next to compiled modules, or else in the home directory."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given) / f"tracecols-{digest(source)}"
        return
    yield source / "__pycache__"
    with suppress(RuntimeError):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        yield Path(home) / "tracecols" / digest(source)


def _warn(text: str) -> None:
    warnings.warn(text, KernelCacheWarning, stacklevel=2)


@cache
def _private_folder() -> Path | None:
    """Return the folder of this user among temporary files; None if there can be none. Warn when it is made."""
    try:
        parent = Path(tempfile.gettempdir())
    except OSError:
        # no folder for temporary files: its place is in the message
        parent = Path("/tmp")
    return _find_private_folder(parent)


def _user() -> int:
    """Return the id of the user; 0 on systems without user ids, where each user has their own temporary files."""
    return os.getuid() if hasattr(os, "getuid") else 0


def _find_private_folder(parent: Path) -> Path | None:
    """Find or make a folder, in a folder of temporary files, that no one else can write to: the code read from it is
    executed."""
    path = parent / f"tracecols-kernels-{_user()}"
    why = "neither the folder of tracecols nor one in the home directory can be written"
    try:
        os.mkdir(path, 0o700)
        _warn(f"compiled kernels are kept in {path}, since {why}\n  {_HINT}")
    except FileExistsError:
        pass
    except OSError as error:
        _warn(f"kernels are compiled at every start, since {why}, nor {path}: {error.strerror}\n  {_HINT}")
        return None
    if _is_private(path) and _is_private(parent, is_shared=True):
        return path
    _warn(f"kernels are compiled at every start, since {why}, and others can write to {path}\n  {_HINT}")
    return None


def _is_private(path: Path, *, is_shared: bool = False) -> bool:
    """Return whether only this user and the administrator can create files in a folder; or, if it is shared, whether
    others may create files there but cannot rename those of this user: the folder is sticky."""
    found = path.stat() if is_shared else path.lstat()
    owners = {0, _user()} if is_shared else {_user()}
    closed = not found.st_mode & 0o022 or (is_shared and bool(found.st_mode & stat.S_ISVTX)) or os.name == "nt"
    return stat.S_ISDIR(found.st_mode) and found.st_uid in owners and closed
