"""Build step of setuptools for wheels: after copying the modules, it compiles the kernels to LLVM bitcode, so that
users of the wheel need not wait for numba (`tracecols.kernels.write_bitcode`).

Only setuptools loads this module, by its path in the source tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from setuptools.command.build_py import build_py


class BuildPy(build_py):
    """Copy the modules, then compile the kernels among them."""

    def run(self) -> None:
        """Do both; if numba is missing or fails, kernels are compiled when they are first used."""
        super().run()
        if self.editable_mode:
            return
        built = Path(self.build_lib).resolve()
        # pip adds the packages required for building to PYTHONPATH
        found = os.pathsep.join([str(built), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tracecols.kernels.write_bitcode", built / "tracecols/kernels/bitcode.zip"],
            env={**os.environ, "PYTHONPATH": found},
        )
        if done.returncode:
            self.warn("kernels could not be compiled; the first commands that need them will")
