"""What all tests share: where the traces are."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[2] / "shared" / "traces"


@pytest.fixture(scope="session")
def data() -> Path:
    """The small traces that are part of the repository."""
    return DATA


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The collection of reference traces beside the repository; the test is skipped where there is none."""
    if not SHARED.is_dir():
        pytest.skip("no reference traces beside the repository")
    return SHARED
