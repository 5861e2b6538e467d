"""Write kernels as LLVM bitcode, for a wheel: `python -m tracecols.kernels.write_bitcode FILE` compiles those of
`ahead.json`."""

from __future__ import annotations

import importlib
import json
import marshal
import os
import sys
import zipfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tracecols.kernels import ahead
from tracecols.kernels.bitcode import MADE_FOR, member_of, opened, this_process
from tracecols.kernels.cache import code_of
from tracecols.kernels.kernel import Kernel
from tracecols.kernels.kinds import Kind, kinds_of


def _compile(kernel: Kernel, kinds: tuple[Kind, ...]) -> bytes:
    """Compile a kernel with numba, and return the content of its member of the archive."""
    from llvmlite import binding

    result = kernel.compile(kinds)
    bitcode = binding.parse_assembly(result.library.get_llvm_str()).as_bitcode()
    return marshal.dumps(tuple(code_of(result, bitcode)))


def write(path: Path) -> None:
    """Write bitcode of the kernels of `ahead.json` to an archive, unless that has it already; an older one is replaced
    when the new one is complete."""
    rows = json.loads(ahead.LIST.read_text())
    kernels = [getattr(importlib.import_module(module), name) for module, name, _ in rows]
    kinds = [kinds_of(row[2]) for row in rows]
    members = [member_of(kernel.py_func, of) for kernel, of in zip(kernels, kinds, strict=True)]
    older = opened(path)
    if older is not None and set(older.namelist()) == {MADE_FOR, *members}:
        return
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        contents = list(pool.map(_compile, kernels, kinds))
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(MADE_FOR, json.dumps(this_process()))
        for member, content in zip(members, contents, strict=True):
            archive.writestr(member, content)
    aside.replace(path)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
