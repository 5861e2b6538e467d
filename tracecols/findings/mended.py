"""Gains of mending the causes of lost time, with the causes in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tracecols.findings.cause import Cause
from tracecols.findings.search import find_causes, has_causes
from tracecols.model.readable import Readable
from tracecols.replay.prediction import Prediction
from tracecols.replay.replay import Changes, Replay
from tracecols.severity import wording

if TYPE_CHECKING:
    import pandas as pd


def mended_of(predicted: Prediction) -> pd.DataFrame | None:
    """Return the gains of mending the causes of lost time for a prediction without changes; None for another."""
    return mended(predicted.replay) if predicted.changes == Changes() else None


def mended(replay: Replay) -> pd.DataFrame:
    """Return by how much the runtime would shrink if each cause of lost time were mended, by itself: change (the cause
    in words), runtime (s), saving (s) and share (of the runtime), the largest saving first.

    Empty if causes are not searched for (`has_causes`). Raises AnalysisError if the trace cannot be replayed.
    """
    import pandas as pd

    causes = find_causes(replay) if has_causes(replay.model) else []
    resolution = replay.model.facts.resolution
    recorded = replay.without_start(replay.runtime(replay.nodes.time)) / resolution
    saving = np.array([c.gain for c in causes], np.float64) / resolution
    return pd.DataFrame(
        {
            "change": [_in_words(replay, c) for c in causes],
            "runtime": recorded - saving,
            "saving": saving,
            "share": saving / recorded if recorded > 0 else math.nan,
        }
    )


def _in_words(replay: Replay, cause: Cause) -> str:
    model = replay.model
    of = Readable(model.store, lambda: model.facts)
    several = bool((of.thread[model.locations.is_cpu] > 0).any())
    names = model.store.definitions["locations"].column("name").to_pylist()

    def name(location: int) -> str:
        stream = names[location] if model.locations.is_device[location] else None
        return wording.location(of.rank[location], of.thread[location], stream, several)

    who = wording.culprits(cause.locations.tolist(), cause.is_process, of.rank, of.thread, name)
    region = wording.short(str(model.regions.name[replay.call_paths.region[cause.call_path]]))
    return wording.what(cause.facts(), wording.Subject(region, who, "thread" if several else "rank"))
