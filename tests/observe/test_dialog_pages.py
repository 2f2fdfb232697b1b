from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.instances import LabError
from harness.observe import dialog_pages
from harness.observe.dialog_pages import DialogPage, Spread

ROWS_PER_PAGE = 144


def pool(dialogs: int, ratio: int) -> list[DialogPage]:
    """The pages of used dialogs if every `ratio`-th of consecutive dialogs is used."""
    return [
        DialogPage(number * ratio, 1, 16 + rank // ROWS_PER_PAGE, rank % ROWS_PER_PAGE, rank, f"handle {rank}")
        for number in range(1, dialogs + 1)
        for rank in [number * ratio - 1]
    ]


@pytest.mark.parametrize(
    "spread, expected",
    [
        (
            {"initiator-1": pool(50, 150)},
            "50 used dialogs lie on 50 pages of sys.sysdesend, at most 1 on one page; conversation handles are sequential",
        ),
        (
            {"initiator-1": pool(50, 1), "initiator-2": pool(150, 1)},
            "200 used dialogs lie on 3 pages of sys.sysdesend, at most 144 on one page; conversation handles are sequential",
        ),
        (
            {"initiator-1": pool(3, 150)[::-1]},
            "3 used dialogs lie on 3 pages of sys.sysdesend, at most 1 on one page; conversation handles are NOT sequential",
        ),
    ],
)
def test_the_pages_are_summarised_in_one_line(spread: Spread, expected: str) -> None:
    assert dialog_pages.summary(spread) == expected


def test_a_cell_records_the_dialogs_that_it_uses() -> None:
    every = {"initiator-1": pool(600, 1), "initiator-2": pool(400, 1)}
    columns = dialog_pages.columns(dialog_pages.used(every, 150, 2))
    assert columns["instance"] == ["initiator-1", "initiator-1", "initiator-2", "initiator-2"]
    assert columns["dialog_id"] == [150, 300, 150, 300]
    assert columns["handle_rank"] == [149, 299, 149, 299]
    assert columns["page_id"] == [17, 18, 17, 18]
    assert dialog_pages.columns(dialog_pages.used(every, 1, 2))["dialog_id"] == [1, 2, 1, 2]


class FakeInstance:
    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.open = 0

    def connect_admin(self) -> Any:
        if self.refuses:
            raise LabError("no such connection")
        self.open += 1
        return SimpleNamespace(close=self._close)

    def _close(self) -> None:
        self.open -= 1


def answer(monkeypatch: pytest.MonkeyPatch, rows: Sequence[dict[str, Any]] | Exception) -> None:
    def ask(*_: object) -> Sequence[dict[str, Any]]:
        if isinstance(rows, Exception):
            raise rows
        return rows

    monkeypatch.setattr(scripts, "rows", ask)


def test_the_connection_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    instance: Any = FakeInstance()
    answer(
        monkeypatch,
        [{"dialog_id": 1, "handle": "H", "handle_rank": 149, "location": b"\x11\x00\x00\x00\x01\x00\x05\x00"}],
    )
    assert dialog_pages.located(instance) == [DialogPage(1, 1, 17, 5, 149, "H")]
    assert instance.open == 0
    answer(monkeypatch, ScriptError("Invalid object name 'sys.sysdesend'."))
    with pytest.raises(ScriptError):
        dialog_pages.located(instance)
    assert instance.open == 0


def test_a_refused_connection_is_an_error() -> None:
    refusing: Any = FakeInstance(refuses=True)
    with pytest.raises(LabError):
        dialog_pages.located(refusing)
