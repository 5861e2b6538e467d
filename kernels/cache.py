"""Machine code of kernels on disk. Importing this module imports numba."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

from llvmlite.binding import parse_bitcode
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult

from tracecols.errors import KernelCacheWarning

_lock = Lock()


class LoadedCode(JITCodeLibrary):  # type: ignore[misc]
    """Machine code of a kernel that was on disk.

    What a kernel links that is compiled later and calls this one is parsed then; numba's own always parses it, which is
    a third of the time of loading a kernel.
    """

    @classmethod
    def of(cls, codegen: Any, name: str, machine_code: bytes, to_link: bytes, defined: set[str]) -> LoadedCode:
        """Load machine code that defines some functions."""
        self: LoadedCode = cls(codegen, name)
        self._to_link = to_link
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()
        codegen._engine._defined_symbols |= defined
        return self

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self._to_link)
            self._codegen._engine._load_defined_symbols(self._shared_module)
        return self._shared_module


class KeptKernels(FunctionCache._impl_class):  # type: ignore[misc, name-defined]
    """What is kept of compiled kernels."""

    def rebuild(self, target_context: Any, reduced_data: Any) -> Any:
        """Return a compiled kernel from what was kept of it (`CompileResult._reduce`)."""
        (name, kind, code), function, environment, signature, *more, inits, environments = reduced_data
        if kind != "object":
            return super().rebuild(target_context, reduced_data)
        for init in inits:
            init()
        defined = {function.llvm_func_name, function.llvm_cpython_wrapper_name}
        library = LoadedCode.of(target_context.codegen(), name, *code, defined)
        is_objectmode, lifted, annotation = more
        found = CompileResult(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=library,
            environment=environment,
            entry_point=target_context.get_executable(library, function, environment),
            fndesc=function,
            type_annotation=annotation,
            signature=signature,
            objectmode=is_objectmode,
            lifted=lifted,
            typing_error=None,
            call_helper=None,
            metadata=None,
            reload_init=inits,
            referenced_envs=environments,
        )
        for needed in environments:
            library.codegen.set_env(needed.env_name, needed)
        return found


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Machine code of a kernel on disk, loaded without what only compiling needs.

    numba's own makes ready everything it can compile before it loads the first function: 0.3 s and 35 MB of each
    process, a fifth of the time of ``tracecols analyze`` on a small trace. Compiling makes it ready again by itself.
    """

    _impl_class = KeptKernels

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the machine code for the types of some arguments; None if there is none."""
        with self._guard_against_spurious_io_errors():
            try:
                return self._load_overload(sig, target_context)
            except (AttributeError, ImportError):
                # written by another version, whose kernels took named tuples that this one does not have
                self._cache_file.flush()
        return None


def enable_caching(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Let a dispatcher keep machine code on disk: where numba does, or else in a private folder among temporary files.

    Parameters
    ----------
    dispatcher : numba.core.dispatcher.Dispatcher
    function : callable
        What it compiles.
    """

    def enable() -> None:
        if hasattr(FunctionCache, "_load_overload"):
            dispatcher._cache = KernelCache(function)
        else:
            dispatcher.enable_caching()

    try:
        enable()
        return
    except RuntimeError:
        # neither the package nor the home directory can be written
        pass
    with _lock:
        folder = _private_folder()
        if folder is None:
            return
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            enable()
        finally:
            config.CACHE_DIR = before


_found: list[Path | None] = []
"""The private folder, once it was looked for."""


def _private_folder() -> Path | None:
    """Return the folder of this user among temporary files; None if there can be none. A warning says so when it is
    made."""
    if not _found:
        try:
            parent = Path(tempfile.gettempdir())
        except OSError:
            # no folder for temporary files: its place is in the message
            parent = Path("/tmp")
        _found.append(_find_private_folder(parent))
    return _found[0]


def _user() -> int:
    """Return the number of the user; 0 where users have none, and each has temporary files of their own."""
    return os.getuid() if hasattr(os, "getuid") else 0


def _find_private_folder(parent: Path) -> Path | None:
    """Find or make a folder that no one else can write to: what is read from it is executed.

    Parameters
    ----------
    parent : Path
        Folder of temporary files.
    """
    path = parent / f"tracecols-kernels-{_user()}"
    why = "neither the folder of tracecols nor one in the home directory can be written"
    hint = "set NUMBA_CACHE_DIR to a folder of your own to keep them there"
    try:
        os.mkdir(path, 0o700)
        warnings.warn(f"compiled kernels are kept in {path}, since {why}\n  {hint}", KernelCacheWarning, stacklevel=2)
    except FileExistsError:
        pass
    except OSError as error:
        warnings.warn(
            f"kernels are compiled at every start, since {why}, nor {path}: {error.strerror}\n  {hint}",
            KernelCacheWarning,
            stacklevel=2,
        )
        return None
    if _is_private(path) and _is_private(parent, is_shared=True):
        return path
    warnings.warn(
        f"kernels are compiled at every start, since {why}, and others can write to {path}\n  {hint}",
        KernelCacheWarning,
        stacklevel=2,
    )
    return None


def _is_private(path: Path, *, is_shared: bool = False) -> bool:
    """Return whether nobody but this user, or the administrator, can put something into a folder, or replace what is in
    a shared one.

    Parameters
    ----------
    path : Path
    is_shared : bool, optional
        Others may put files there, but cannot rename those of this user: it is sticky.
    """
    found = path.stat() if is_shared else path.lstat()
    owners = {0, _user()} if is_shared else {_user()}
    closed = not found.st_mode & 0o022 or (is_shared and bool(found.st_mode & stat.S_ISVTX)) or os.name == "nt"
    return stat.S_ISDIR(found.st_mode) and found.st_uid in owners and closed
