"""What a run would be with other times for what it consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import AnalysisError
from tracecols.model.model import Model
from tracecols.once import once
from tracecols.replay.replay import Changes, Replay, notes
from tracecols.replay.retimed import RetimedSource
from tracecols.slices.rewritten import RewrittenTrace
from tracecols.slices.source import StoreSource

if TYPE_CHECKING:
    import pandas as pd


class Prediction(RewrittenTrace):
    """The predicted run: its runtime, what else would save time, and the re-timed trace (`Trace.what_if`).

    Attributes
    ----------
    replay : Replay
    changes : Changes
        What is different.
    time : (n_nodes,) int64
        Predicted times of the nodes of the replay, ticks.
    recorded_runtime, runtime : float
        Seconds from the first return of MPI_Init to the last call of MPI_Finalize, or of the whole recording.
    """

    def __init__(self, replay: Replay, changes: Changes, jobs: int) -> None:
        check_devices(replay.model)
        self.replay, self.changes, self._jobs = replay, changes, jobs
        resolution = replay.model.facts.resolution
        self.time: NDArray[np.int64] = replay.times(changes)
        self.recorded_runtime = replay.runtime(replay.nodes.time, changes.whole_run) / resolution
        self.runtime = replay.runtime(self.time, changes.whole_run) / resolution

    @property
    def saving(self) -> float:
        """Seconds by which the predicted runtime is shorter; negative if it is longer."""
        return self.recorded_runtime - self.runtime

    @property
    def notes(self) -> list[str]:
        """What the replay does not know."""
        return notes(self.replay.counts)

    def savings(self, factor: float = 0.5, n: int = 20) -> pd.DataFrame:
        """Return what would be gained besides by making single call paths faster, the largest gain first.

        Parameters
        ----------
        factor : float
            For the computation of the call path itself, without what it calls: 0.5 makes it twice as fast.
        n : int
            How many to try: those with most computation.

        Returns
        -------
        DataFrame
            call_path, path, computation (s, of all locations), largest (s, of one location), saving (s) and share (of
            the runtime).
        """
        return self.replay.savings(self.changes, factor, n)

    def slack(self, n: int = 20) -> pd.DataFrame:
        """Return how much shorter single call paths can become before another path through the program takes over.

        Up to there every second less on the critical path is a second less of the run, beyond it less than that.

        Parameters
        ----------
        n : int
            How many to try: those with most computation.

        Returns
        -------
        DataFrame
            Of the call paths on the critical path, the largest slack first: call_path, path, critical (s of its own
            computation on the critical path), slack (s by which that can shrink), limit (the factor of its computation
            at which another path takes over; 0 if none does).
        """
        return self.replay.slack(self.changes, n)

    @once
    def shortest(self) -> float:
        """Seconds the runtime would be with the same changes on an ideal network."""
        c = self.changes
        ideal = Changes(scale=c.scale, balanced=c.balanced, openmp=c.openmp, collectives=c.collectives, transfer=0)
        return self.replay.runtime(self.replay.times(ideal)) / self.replay.model.facts.resolution

    def source(self) -> StoreSource:
        """Return the events with their new times."""
        return RetimedSource(self.replay, self.changes, self.time)

    def plain(self) -> dict[str, Any]:
        """Return what is predicted as plain values, for JSON."""
        return {
            "changes": str(self.changes),
            "recorded_runtime": self.recorded_runtime,
            "runtime": self.runtime,
            "saving": self.saving,
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        return (
            f"<Prediction {self.changes}: {self.runtime:.6f} s in place of {self.recorded_runtime:.6f} s, "
            f"{self.saving / self.recorded_runtime if self.recorded_runtime else 0:.1%} less>"
        )


def check_devices(model: Model) -> None:
    """Refuse a trace of which devices execute a part: the replay does not know what waits for them, and what they wait
    for.

    Raises
    ------
    AnalysisError
        If a stream of a device has events.
    """
    n_events = [model.store.n_rows("events", i) for i in np.flatnonzero(model.locations.is_device).tolist()]
    n_streams = sum(n > 0 for n in n_events)
    if n_streams:
        streams = "1 stream of a device executes" if n_streams == 1 else f"{n_streams:,} streams of devices execute"
        raise AnalysisError(
            f"the run cannot be predicted: {streams} work, and the replay knows only what CPUs execute\n"
            "  neither hosts that wait for devices nor devices that wait for hosts would follow the changes\n"
            "  tracecols analyze shows how long devices idle and hosts wait for them"
        )
