"""What `harness ui` gives to its page; the page itself is in `test_web.py` and `tests/e2e/test_ui.py`."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.files import workload_file
from harness.files.workload_file import FOLDER
from harness.lab.instances import LabError
from harness.load import ui
from harness.load.messages import Message, Status
from harness.load.ui import suggested_payloads

TEXT = '[body]\ntemplate = "order.json"\n[accounting]\nby = "count"\n'
BODIES = [
    ("", 100, [100, 1024, 4096, 8192]),
    ("[body]\nsize = {uniform = [200, 1000]}\n", 600, [600]),
    (TEXT, 1200, [1200, 4096, 8192]),
]


@pytest.mark.parametrize("body, usual, suggested", BODIES)
def test_the_page_suggests_the_payloads_that_messages_can_have(
    tmp_path: Path, body: str, usual: int, suggested: list[int]
) -> None:
    folder = shutil.copytree(FOLDER / "fan-in", tmp_path / "orders")
    with (folder / "workload.toml").open("a", encoding="utf-8") as file:
        file.write(body)
    (folder / "order.json").write_text(f'["{"x" * 590}", "${{filler}}"]')
    assert suggested_payloads(workload_file.read(str(folder)), usual) == suggested


def test_the_page_says_which_instance_has_died_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> None:
        raise LabError("initiator-2 was killed")

    told: list[Message] = []
    stage: Any = SimpleNamespace(check=check)
    clients: Any = SimpleNamespace(next_request=lambda timeout_s: None, tell_master=told.append)
    monkeypatch.setattr(ui, "PAGE_ASKS_WITHIN_S", 0)
    with pytest.raises(LabError):
        ui.Player(stage, clients).serve()
    assert told == [Status("the lab has failed: initiator-2 was killed")]
