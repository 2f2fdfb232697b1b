"""Brakes: what ends a run on servers that others use too."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.files.script_text import ScriptError
from harness.lab import brakes, interruption, scripts
from harness.lab.brakes import Brakes, Overload, ProcessorShare, problems
from tests.waiting import wait_until

IDLE = {
    "data_free_percent": 50,
    "log_free_percent": None,
    "tempdb_free_percent": 5,
    "log_used_percent": 95,
    "without_worker": 0,
    "others_blocked": 0,
    "processor_time_ms": 0,
    "processors": 4,
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, []),
        ({"data_free_percent": 4}, ["4 % of the disk of its data files is free"]),
        ({"log_free_percent": 0}, ["0 % of the disk of its log is free"]),
        ({"tempdb_free_percent": 1}, ["1 % of the disk of its tempdb is free"]),
        ({"log_used_percent": 96}, ["its log is 96 % full"]),
        ({"without_worker": 1}, ["1 task wait for a worker (THREADPOOL)"]),
        ({"others_blocked": 2}, ["2 sessions of others wait for locks of the harness"]),
    ],
)
def test_what_is_too_much_is_named(changed: dict[str, int], words: list[str]) -> None:
    assert [text for _, text in problems({**IDLE, **changed})] == words


def test_processors_that_are_used_beyond_the_share_of_the_file_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([100.0, 110.0, 120.0])
    monkeypatch.setattr(brakes.time, "monotonic", lambda: next(seconds))
    used = ProcessorShare()
    shares = [used.percent({**IDLE, "processor_time_ms": time_ms}) for time_ms in (5000, 5000 + 28_000, 5000 + 28_000)]
    assert shares == [0, 70, 0]
    assert not list(problems(IDLE, 100)) and not list(problems(IDLE, 70, 70))
    [(_, words)] = problems(IDLE, 70, 60)
    assert words == "it uses 70 % of its processors (processor_percent_max)"


def test_a_run_ends_after_the_hours_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count from the reading of the file: a run opens its lab anew for each block."""
    servers = Servers(monkeypatch, IDLE, hours_max=2, read_s_ago=7201)
    try:
        wait_until(lambda: servers.looks > 0)
        with pytest.raises(Overload, match=r"has taken 2 h, which is hours_max in lab\.toml"):
            interruption.look()
    finally:
        servers.end()


class Servers:
    """A lab of one server that answers each look with the next of its rows, or with an error; then as the last."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *answers: Any, hours_max: float = 24, read_s_ago: float = 0
    ) -> None:
        self.answers, self.looks = list(answers), 0
        self.told: list[str] = []
        monkeypatch.setattr(brakes, "LOOK_EVERY_S", 0.01)
        monkeypatch.setattr(scripts, "rows", self._rows)
        monkeypatch.setattr(interruption, "close", lambda connection: None)
        instance = SimpleNamespace(name="target", host="sql1", port=1433, connect=object)
        file = SimpleNamespace(
            processor_percent_max=90,
            hours_max=hours_max,
            path=Path("lab.toml"),
            read_at_s=time.monotonic() - read_s_ago,
        )
        self.brakes = Brakes(SimpleNamespace(instances=[instance]), file, self.told.append)  # type: ignore[arg-type]

    def end(self) -> None:
        """End the brakes, and wait until their thread no longer uses what the test has replaced."""
        self.brakes.end()
        wait_until(lambda: all(thread.name != "brakes of target" for thread in threading.enumerate()))

    def _rows(self, *_: Any) -> list[Any]:
        answer = self.answers[min(self.looks, len(self.answers) - 1)]
        self.looks += 1
        if isinstance(answer, Exception):
            raise answer
        return [answer]


def test_a_run_ends_with_what_was_seen_at_two_looks_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked, full = {**IDLE, "others_blocked": 1}, {**IDLE, "data_free_percent": 2}
    servers = Servers(monkeypatch, blocked, IDLE, full, ScriptError("the session was ended"), full)
    try:

        def is_over() -> bool:
            try:
                interruption.look()
            except Overload as overload:
                assert str(overload).startswith(
                    "target (sql1:1433) can take no more: 2 % of the disk of its data files"
                )
                return True
            return False

        wait_until(is_over)
        assert servers.looks >= 5 and not servers.told
        interruption.look()  # told once, so that nothing interrupts the cleaning up
    finally:
        servers.end()
    interruption.look()


def test_a_server_that_does_not_show_its_load_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = ScriptError("VIEW SERVER STATE permission was denied (error 300)")
    refusal.__cause__ = Exception("42000")
    servers = Servers(monkeypatch, refusal)
    wait_until(lambda: bool(servers.told))
    servers.end()
    assert len(servers.told) == 1 and "does not show its load" in servers.told[0]
