"""Operations of devices that were requested before the start of a trace slice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracecols.enhance.definitions.locations import PIECE_PENDING
from tracecols.store import Store
from tracecols.vectors import Ints

WorkKey = tuple[str, int, int, int]
"""Type of operation, `kernel` or `copy`, process, stream and call site; -1 if not recorded."""


@dataclass(frozen=True)
class PendingWork:
    """Device operations requested, and those done, before the start of a trace slice; false for whole traces."""

    called: Counter[WorkKey]
    done: Counter[WorkKey]
    """`called` and `done`: numbers of calls that are over, and of kernels and copies that are over, by `WorkKey`."""

    @classmethod
    def of(cls, store: Store) -> PendingWork:
        """Read the counts from the manifest of a trace slice."""
        found = cls(Counter(), Counter())
        for entry in str(store.manifest["source"].get(PIECE_PENDING, "")).split():
            what, *numbers = entry.split(":")
            process, stream, site, n_called, n_done = (int(n) for n in numbers)
            for counts, n in ((found.called, n_called), (found.done, n_done)):
                if n:
                    counts[what, process, stream, site] = n
        return found

    def __bool__(self) -> bool:
        return bool(self.called or self.done)

    def __str__(self) -> str:
        keys = sorted(self.called.keys() | self.done.keys())
        return " ".join(":".join(map(str, (*key, self.called[key], self.done[key]))) for key in keys)

    @cached_property
    def _streams(self) -> set[tuple[str, int]]:
        return {(what, stream) for what, _, stream, _ in self.called if stream >= 0}

    @cached_property
    def _of_streams(self) -> Counter[tuple[str, int, int]]:
        """Number of calls minus operations done, by type, stream and call site."""
        found: Counter[tuple[str, int, int]] = Counter()
        for counts, sign in ((self.called, 1), (self.done, -1)):
            for (what, _, stream, site), n in counts.items():
                found[what, stream, site] += sign * n
        return found

    @cached_property
    def _of_sites(self) -> Counter[tuple[str, int, int]]:
        """By process and call site: launches that refer to a stream (`stream`), other launches (`none`), kernels
        (`done`)."""
        found: Counter[tuple[str, int, int]] = Counter()
        for (what, process, stream, site), n in self.called.items():
            if what == "kernel":
                found["stream" if stream >= 0 else "none", process, site] += n
        for (what, process, _, site), n in self.done.items():
            if what == "kernel":
                found["done", process, site] += n
        return found

    def streams(self, what: str) -> list[int]:
        """Return the streams that calls before the slice refer to."""
        return sorted(stream for of, stream in self._streams if of == what)

    def processes(self) -> Ints:
        """Return the processes whose launches before the slice refer to streams or call sites."""
        return np.array([k[1] for k in self.called if k[0] == "kernel" and max(k[2:]) >= 0], np.int64)

    def of_stream(self, what: str, stream: int, site: int = -1) -> int:
        """Return the number of calls that refer to a stream and a call site, minus the operations done; 0 if no call
        refers to the stream."""
        return self._of_streams[what, stream, site] if (what, stream) in self._streams else 0

    def of_site(self, process: int, site: int) -> int:
        """Return the number of launches of a process that refer to a call site but no stream, minus their kernels."""
        of_streams, others, done = (self._of_sites[of, process, site] for of in ("stream", "none", "done"))
        return others - max(done - of_streams, 0)

    def of_process(self, process: int) -> int:
        """Return the number of launches of a process that refer to nothing, minus all kernels of the process done."""
        done = sum(n for k, n in self.done.items() if k[:2] == ("kernel", process))
        return self.called["kernel", process, -1, -1] - done
