"""Gains of mending the causes of lost time, with the causes in words."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tracecols.findings.cause import Cause
from tracecols.findings.search import find_causes, has_causes
from tracecols.replay.prediction import Prediction
from tracecols.replay.replay import Changes, Replay
from tracecols.severity import wording
from tracecols.severity.axes import SystemAxis
from tracecols.severity.finding import location_in_words

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
    system = SystemAxis.of(model.store)
    who = wording.culprits(
        cause.locations.tolist(), cause.is_process, system.rank, system.thread, partial(location_in_words, system)
    )
    facts = cause.facts()
    name = facts["evidence"].get("phases") or model.regions.name[replay.call_paths.region[cause.call_path]]
    region = wording.short(str(name))
    return wording.what(facts, wording.Subject(region, who, "thread" if system.has_threads else "rank"))
