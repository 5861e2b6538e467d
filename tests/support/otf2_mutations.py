"""Damage OTF2 archives at random: bytes of their files.

Also a program, to be started in `tests` with bounds checks of the kernels: ``python -m support.otf2_mutations ANCHOR
FIRST_SEED COUNT``.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np

from support import damage
from tracecols.converters.otf2 import archive, decode
from tracecols.converters.otf2.files import Chunks


class Damage(damage.Damage):
    """An archive that is damaged."""

    def __init__(self, anchor: Path) -> None:
        files = [anchor, anchor.with_suffix(".def"), *sorted(anchor.with_suffix("").iterdir())]
        super().__init__(anchor, (path for path in files if path.stat().st_size > 20))

    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and its damaged content."""
        kind = chance.choice((".otf2", ".def", ".evt", ".evt", ".evt"))
        path = chance.choice([p for p in self.files if p.suffix == kind])
        return path, damage.mutate(self.files[path], chance)


def tighten() -> None:
    """Make buffers as small as possible, so that bounds checks find indices outside their arrays."""
    archive.ROWS = 128
    archive.Chunks = lambda path, size, _, *more: Chunks(path, size, None, *more)  # type: ignore[misc,assignment]
    try:
        decode.load(np.zeros(4, np.uint8), 4, 1, False)
    except IndexError:
        return
    raise SystemExit("bounds are not checked; set NUMBA_BOUNDSCHECK=1 and a fresh NUMBA_CACHE_DIR")


if __name__ == "__main__":
    tighten()
    spoilt = Damage(Path(sys.argv[1]))
    for number in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        spoilt.read(number)
    print(spoilt.seen["read"], spoilt.seen["refused"])
