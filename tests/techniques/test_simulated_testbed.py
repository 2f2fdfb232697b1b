"""The testbed of techniques in virtual time."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from harness import settings as settings_module
from harness.simulation import parameters
from harness.sweep.journal import Phases
from harness.techniques.simulated_testbed import SimulatedTestbed
from harness.techniques.technique_scenario import DEFAULT, read, turns


def test_a_world_is_freed_when_a_step_needs_other_dialogs(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    text = DEFAULT.read_text().replace("initiators = 3", "initiators = 1").replace("threads = 50", "threads = 2")
    path.write_text(text)
    settings = settings_module.create_simulation({}, environment={})
    testbed = SimulatedTestbed(settings, parameters.read("paper"), 60.0, tmp_path)
    worlds = []
    for turn in turns(read(path), version="2008", repeats=1):
        if turn.technique.key in ("dialog_per_message", "reuse", "receive_top_n"):
            testbed.make_ready(turn, Phases())
            assert testbed._lab is not None
            worlds.append(weakref.ref(testbed._lab.world))
    first, second, third = (world() for world in worlds)
    assert first is None, "no dialogs of its own"
    assert second is third is not None
    gc.unfreeze()
