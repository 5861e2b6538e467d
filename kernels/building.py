"""What setuptools does besides copying modules when it builds a wheel: it compiles kernels to bitcode of LLVM, so that
those who install the wheel need not wait for numba (`tracecols.kernels.write_bitcode`).

This module is loaded by setuptools alone, by its path in the source tree.
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
        """Do both; without numba, or where it fails, kernels are compiled when they are first used."""
        super().run()
        if self.editable_mode:
            return
        built = Path(self.build_lib).resolve()
        # pip has the packages that building takes in PYTHONPATH
        found = os.pathsep.join([str(built), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tracecols.kernels.write_bitcode", built / "tracecols/kernels/bitcode.zip"],
            env={**os.environ, "PYTHONPATH": found},
        )
        if done.returncode:
            self.warn("kernels could not be compiled; the first commands that need them will")
