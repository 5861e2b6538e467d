"""Replays of random programs, prepared for changes."""

import pytest
from support.random_programs import RandomProgram

from tracecols.findings.scenarios import Scenarios
from tracecols.replay.replay import Replay


@pytest.fixture(params=range(4), scope="module")
def scenarios(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    return Scenarios(Replay(RandomProgram(request.param, folder / "traces.otf2", 60).model(folder)))
