"""What all tests share: where the traces are."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "traces"


@pytest.fixture(scope="session")
def data() -> Path:
    """The small traces that are part of the repository."""
    return HERE / "data"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The collection of reference traces beside the repository; the test is skipped where there is none."""
    if not SHARED.is_dir():
        pytest.skip("no reference traces beside the repository")
    return SHARED
