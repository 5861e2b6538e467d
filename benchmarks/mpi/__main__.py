"""Record the programs: `python -m benchmarks.mpi FOLDER [NAME ...]`."""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PROCESSES = {
    "ring": 12, "chain": 10, "grid_2d": 12, "grid_2d_shuffled": 12, "torus_2d": 15, "torus_2d_shuffled": 15, "cylinder": 16,
    "grid_3d": 12, "grid_4d": 16, "doubling": 8, "binary_tree": 15, "binomial_tree": 16, "star": 9, "wavefront": 12,
    "random_sparse": 14, "random_dense": 12, "spawn": 2,
}  # fmt: skip
"""Number of processes of each program."""


def packed(folder: Path) -> str:
    """Join the files of all processes: a line `# WORLD RANK`, then events, with times from the first one."""
    files = sorted(folder.iterdir(), key=lambda path: [int(part) for part in path.name.split(".")])
    lines = {path.name: [line.split() for line in path.read_text().splitlines()] for path in files}
    first = min(int(of[0][1]) for of in lines.values())
    out = []
    for name, of in lines.items():
        out.append(f"# {name.replace('.', ' ')}")
        out += [" ".join([kind, str(int(time) - first), *others]) for kind, time, *others in of]
    return "\n".join(out) + "\n"


def main(target: Path, *names: str) -> None:
    """Compile the programs, run them, and write their recordings."""
    target.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as made:
        program = Path(made, "programs")
        subprocess.run(
            [os.environ.get("MPICC", "mpicc"), "-O1", here / "recorder.c", here / "programs.c", "-o", program],
            check=True,
        )
        for name in names or PROCESSES:
            folder = Path(made, name)
            folder.mkdir()
            environment = {**os.environ, "RECORD_FOLDER": str(folder)}
            command = [
                *shlex.split(os.environ.get("MPIEXEC", "mpiexec")),
                "-n",
                str(PROCESSES[name]),
                str(program),
                name,
            ]
            subprocess.run(command, check=True, env=environment, timeout=120)
            # without the time of packing, so that the same recording gives the same file
            data = gzip.compress(packed(folder).encode(), mtime=0)
            (target / f"{name}.txt.gz").write_bytes(data)
            print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
