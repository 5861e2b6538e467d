"""Damage the files of a trace in turn, convert and analyze it, and repair them."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import tracecols
from tracecols.errors import TracecolsError


class Damage(ABC):
    """A trace whose files are damaged in turn.

    Parameters
    ----------
    anchor : Path
        The trace.
    files : iterable of Path
        Its files.

    Attributes
    ----------
    files : dict of Path to bytes
        What they hold.
    seen : Counter of str
        How often damaged traces were read, analyzed and refused.
    """

    def __init__(self, anchor: Path, files: Iterable[Path]) -> None:
        self.anchor = anchor
        self.files = {p: p.read_bytes() for p in files}
        self.seen: Counter[str] = Counter()

    @abstractmethod
    def damaged(self, chance: random.Random) -> tuple[Path, bytes]:
        """Choose a file and what it is to hold."""

    def one(self, seed: int, store: Path) -> None:
        """Damage a file, convert and analyze the trace, and repair it."""
        path, data = self.damaged(random.Random(seed))
        path.write_bytes(data)
        try:
            tracecols.convert(self.anchor, store, jobs=1, salvage=seed % 2 == 0, force=True)
            self.seen["read"] += 1
            tracecols.open(store, jobs=1).analyze()
            self.seen["analyzed"] += 1
        except TracecolsError as error:
            assert "\n  " in str(error), f"seed {seed}: {error} does not say what to do"
            self.seen["refused"] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}, {path}")
            raise
        finally:
            path.write_bytes(self.files[path])
