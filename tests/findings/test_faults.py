"""Random programs with one delay each: the first finding names its region, rank and thread, and what it costs."""

import sys
from pathlib import Path

import pytest
from conftest import slow

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import faults


@pytest.mark.parametrize("seed", [3, *slow(range(2000, 2012))])
def test_first_finding__is_the_delay_of_a_random_program(seed):
    found = faults.try_program(seed)
    assert found.is_right, f"{found.said}\n  {found.program}"
    assert found.gain == pytest.approx(found.truth, rel=1 / 3)
