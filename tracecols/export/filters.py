"""Filter files of Score-P: regions that the next measurement leaves out, and the expected savings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tracecols.given.printable import printable
from tracecols.given.quantities import counted, in_words
from tracecols.store.outputs import Output, text_output
from tracecols.verbs.recording import Recording

SIGNATURE = "# A filter of Score-P, made by tracecols"
KEYWORDS = (
    "SCOREP_REGION_NAMES_BEGIN", "SCOREP_REGION_NAMES_END", "SCOREP_FILE_NAMES_BEGIN", "SCOREP_FILE_NAMES_END",
    "EXCLUDE", "INCLUDE", "MANGLED",
)  # fmt: skip
"""Words that Score-P does not read as names."""

SPECIAL = re.compile(r"[*?\[\]# \t]")
"""Characters with a meaning in filters, unless a backslash precedes them."""


def filter_output(path: Path, *, force: bool = False) -> Output:
    """Return the output file of a filter; it replaces filters that tracecols wrote."""
    return text_output(path, "a filter", SIGNATURE.encode(), force=force)


def as_pattern(name: str) -> str:
    """Return the filter pattern that matches a region's name.

    Score-P matches patterns with fnmatch(3), after it has split lines at blanks and removed comments, unless a
    backslash precedes them. A backslash at the end of a line makes it refuse the whole file, so backslashes are
    written as a set of one character. Line breaks cannot be written and are replaced by `?`.
    """
    if name in KEYWORDS:
        return f"\\{name}"
    parts = (SPECIAL.sub(r"\\\g<0>", part).replace("\n", "?") for part in name.split("\\"))
    return r"[\\]".join(parts)


def filter_text(recording: Recording, source: str) -> str:
    """Return the filter of the regions that cost more than they reveal, those with most events first."""
    r = recording
    chosen = np.flatnonzero(r.is_left_out)
    names = [as_pattern(str(r.name[i])) for i in chosen[np.argsort(-r.visits[chosen], kind="stable")]]
    comments = [f"{SIGNATURE} of {printable(source)}", *(f"# {line}" for line in prediction(r))]
    rules = ["SCOREP_REGION_NAMES_BEGIN", *(["  EXCLUDE", *(f"    {name}" for name in names)] if names else [])]
    return "\n".join([*comments, *rules, "SCOREP_REGION_NAMES_END", ""])


def prediction(r: Recording) -> Iterator[str]:
    """Yield lines that compare the size and cost expected of the next measurement with those of this one."""
    out = r.is_left_out
    n_out, bytes_now = 2 * int(r.visits[out].sum()), int(r.n_bytes.sum())
    yield f"{counted(int(out.sum()), 'region')} of {int((r.visits > 0).sum()):,} left out"
    yield f"events: {r.n_events - n_out:,} instead of {r.n_events:,}"
    bytes_then = bytes_now - int(r.n_bytes[out].sum())
    yield f"bytes of entering and leaving regions (OTF2): {bytes_then:,} instead of {bytes_now:,}"
    cost, saved = r.cost(), r.cost(out)
    yield (
        f"time of recording them, 100 ns each: {in_words(cost - saved, 'seconds')} ({r.share() - r.share(out):.1%} of "
        f"all threads) instead of {in_words(cost, 'seconds')} ({r.share():.1%})"
    )


def plain(recording: Recording) -> dict[str, Any]:
    """Return the filter and its prediction as plain values, for JSON."""
    r, out = recording, recording.is_left_out
    n_out = 2 * int(r.visits[out].sum())
    left_out = [
        {
            "region": str(r.name[i]),
            "visits": int(r.visits[i]),
            "mean": float(r.ticks[i] / r.visits[i] / r.resolution),
            "events": int(2 * r.visits[i]),
            "bytes": int(r.n_bytes[i]),
        }
        for i in np.flatnonzero(out)[np.argsort(-r.visits[out], kind="stable")]
    ]
    return {
        "format": "tracecols filter",
        "left_out": left_out,
        "now": {"events": r.n_events, "bytes": int(r.n_bytes.sum()), "cost": r.cost(), "share": r.share()},
        "then": {
            "events": r.n_events - n_out,
            "bytes": int(r.n_bytes.sum() - r.n_bytes[out].sum()),
            "cost": r.cost(~out),
            "share": r.share(~out),
        },
    }
