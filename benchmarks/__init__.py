"""Benchmarks of tracecols: `python -m benchmarks run` for all figures of a machine, `pytest benchmarks` while changing
a step.

`workloads.py` defines the traces, `steps.py` and `peers.py` the steps that are measured; the command line and pytest
use the same. Every figure is also given as a ratio to a yardstick measured in the same process (copying the columns in
memory, or pyarrow writing them), because machines and their load differ while ratios hardly do.
"""

import sys
from pathlib import Path

# the tests share the recorders of programs, the damaging of files and the browser
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
