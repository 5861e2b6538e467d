"""How fast tracecols is: `python -m benchmarks run` for all figures of a machine, `pytest benchmarks` while changing a
step.

`workloads.py` says what is measured on, `steps.py` and `peers.py` what is measured; the command line and pytest use the
same. Every figure is also given as a ratio to a yardstick measured in the same process (copying the columns in memory,
or pyarrow writing them), because machines and their load differ while ratios hardly do.
"""

import sys
from pathlib import Path

# recorders of programs, damage and a browser are shared with the tests
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
