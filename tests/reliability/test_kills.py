"""Real processes, really killed: a small tier of `python -m reliability.kills`."""

import pytest
from reliability import kills
from rich.console import Console

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("stage", ["start scan", "half written"])
def test_a_killed_process_is_resumed_to_the_bit(stage, monkeypatch):
    monkeypatch.setattr(kills, "STAGES_TO_KILL", (stage,))
    found = kills.kill_runs(1, seed=0, console=Console(quiet=True))
    assert found["kills"] == 1  # on a busy machine a run may end before its kill comes; then another one is tried
    assert found["resumed"] == found["identical"] >= 1
    assert found["different"] == []


def test_every_damage_is_refused():
    for row in kills.damage(seed=0, console=Console(quiet=True), tries=10):
        assert row["good"] == row["tried"], row


@pytest.mark.slow
def test_kills_at_every_stage():
    found = kills.kill_runs(3 * len(kills.STAGES), seed=1, console=Console(quiet=True))
    assert found["identical"] == found["resumed"]
    assert found["different"] == []
