"""Predictions of a run with other times of its parts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracecols.errors import AnalysisError
from tracecols.given.quantities import counted
from tracecols.once import once
from tracecols.replay.device_edges import WITHOUT_LAUNCH
from tracecols.replay.replay import Changes, Replay, notes
from tracecols.replay.retimed import RetimedSource
from tracecols.slices.rewritten import RewrittenTrace
from tracecols.slices.source import StoreSource
from tracecols.vectors import Ints

if TYPE_CHECKING:
    import pandas as pd


class Prediction(RewrittenTrace):
    """The predicted run: its runtime, further savings, and the re-timed trace (`Trace.what_if`).

    Attributes
    ----------
    replay : Replay
    changes : Changes
        What is different.
    time : (n_nodes,) int64
        Predicted times of the nodes of the replay, ticks, with all explicit tasks at the threads that executed them.
    recorded_runtime, runtime : float
        Seconds from the first return of MPI_Init to the last call of MPI_Finalize, less the time that every process
        takes to create contexts of devices; or of the whole recording.

    Other Parameters
    ----------------
    n : int
        How many call paths to try: those with most computation.
    within : str, optional
        A region, or a shell pattern: only its call paths and what they call.
    """

    def __init__(self, replay: Replay, changes: Changes, jobs: int) -> None:
        check_devices(replay)
        self.replay, self.changes, self._jobs = replay, changes, jobs
        resolution = replay.model.facts.resolution
        self.time: Ints = replay.times(changes)
        self.recorded_runtime = self._reported(replay.runtime(replay.nodes.time, changes.whole_run)) / resolution
        self.runtime = self._reported(replay.runtime_after(changes, self.time)) / resolution

    def _reported(self, runtime: int) -> int:
        """Return a runtime in ticks without the start of devices."""
        return int(self.replay.without_start(runtime, self.changes.whole_run))

    @property
    def saving(self) -> float:
        """Seconds by which the predicted runtime is shorter; negative if it is longer."""
        return self.recorded_runtime - self.runtime

    @property
    def notes(self) -> list[str]:
        """Notes on what the replay does not know."""
        return notes(self.replay.counts)

    def savings(self, factor: float = 0.5, n: int = 20, within: str | None = None) -> pd.DataFrame:
        """Return the additional gains of making single call paths faster, the largest gain first.

        Parameters
        ----------
        factor : float
            For the computation of the call path itself, without what it calls: 0.5 makes it twice as fast.

        Returns
        -------
        DataFrame
            call_path, path, computation (s, of all locations), largest (s, of one location), saving (s) and share (of
            the runtime). Call paths that would save nothing have no rows; neither have those that create contexts of
            devices, unless the runtime is that of the whole run.
        """
        return self.replay.savings(self.changes, factor, n, within)

    def slack(self, n: int = 20, within: str | None = None) -> pd.DataFrame:
        """Return how much shorter single call paths can become before another path through the program takes over.

        Up to there every second less on the critical path is a second less of the run, beyond it less than that.

        Returns
        -------
        DataFrame
            Of the call paths on the critical path, the largest slack first: call_path, path, critical (s of its own
            computation on the critical path), slack (s by which that can shrink), limit (the factor of its computation
            at which another path takes over; 0 if none does).
        """
        return self.replay.slack(self.changes, n, within)

    @once
    def gains(self) -> pd.DataFrame:
        """Savings by an ideal network, balanced processes, and threads without overhead over the recorded run, each
        alone: option of `tracecols what-if`, change, runtime (s), saving (s) and share (of the recorded runtime), the
        largest saving first."""
        return self.replay.gains()

    @once
    def shortest(self) -> float:
        """Runtime in seconds with the same changes on an ideal network."""
        c = self.changes
        ideal = replace(c, transfer=0, latency=None, bandwidth=None)
        runtime = self.replay.runtime_after(ideal, self.replay.times(ideal))
        return self._reported(runtime) / self.replay.model.facts.resolution

    def source(self) -> StoreSource:
        """Return the events with their new times."""
        return RetimedSource(self.replay, self.changes, self.time)

    def plain(self) -> dict[str, Any]:
        """Return the prediction as plain values, for JSON."""
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


def check_devices(replay: Replay) -> None:
    """Refuse a trace with operations on devices whose launches are not recorded: they would not wait for hosts. Raises
    AnalysisError if the call that launches a kernel or a copy is not known."""
    n_unknown = int(replay.counts.get(WITHOUT_LAUNCH, 0))
    if n_unknown:
        raise AnalysisError(
            "the run cannot be predicted: it is not recorded which calls launch "
            f"{counted(n_unknown, 'kernel or copy', 'kernels and copies')} on streams of devices\n"
            "  devices that wait for hosts would not follow the changes\n"
            "  tracecols analyze shows how long devices idle and hosts wait for them"
        )
