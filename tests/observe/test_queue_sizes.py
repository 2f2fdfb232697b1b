from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.observe.queue_sizes import NAME, QueueSizes, Size

HEADER = "cell,moment,instance,messages,pages,ghost_records,transmission_pages,conversations,memory_mib,sampled_at_ns"
SMALL, LARGE = Size(0, 40, 7, 3), Size(0, 4_000, 90_000, 3)


class Queues:
    """The queues of target and initiator-1; rebuilding makes one small."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kept: frozenset[str] = frozenset()) -> None:
        self.sizes: dict[str, Size | ScriptError] = {"target": SMALL, "initiator-1": SMALL}
        self.told: list[str] = []
        self.ran: list[tuple[str, str]] = []
        self.lab: Any = SimpleNamespace(
            instances=[self._instance(name, kept) for name in self.sizes], clock=SimpleNamespace(utc_ns=lambda: 5)
        )
        monkeypatch.setattr(scripts, "rows", self._rows)
        monkeypatch.setattr(scripts, "run", self._run)

    def _instance(self, name: str, kept: frozenset[str]) -> Any:
        def connect(**_: Any) -> Any:
            return SimpleNamespace(name=name, close=lambda: None)

        return SimpleNamespace(
            name=name,
            kept=kept,
            is_existing=bool(kept),
            variables={"Queue": "dbo.q"},
            connect=connect,
            takes_turns=False,
        )

    def _rows(self, connection: Any, path: str, variables: Any) -> list[dict[str, int | None]]:
        assert (path, variables) == ("observe/queue_size.sql", {"Queue": "dbo.q"})
        size = self.sizes[connection.name]
        if isinstance(size, ScriptError):
            raise size
        return [size._asdict()]

    def _run(self, connection: Any, path: str, variables: Any) -> None:
        assert variables == {"Queue": "dbo.q"}
        if path == "reset/queue.sql":
            self.sizes[connection.name] = SMALL
        self.ran.append((connection.name, path))


def test_sizes_are_recorded_and_a_queue_that_has_grown_is_rebuilt_before_the_next_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = Queues(monkeypatch)
    sizes = QueueSizes(queues.lab, queues.told.append)
    sizes.cell_begins("a", tmp_path)
    queues.sizes["target"] = LARGE
    assert queues.told == []
    checkpoints = {("target", "reset/checkpoint.sql"), ("initiator-1", "reset/checkpoint.sql")}
    assert set(queues.ran) == checkpoints
    sizes.cell_begins("b", tmp_path)
    assert queues.told == [
        "before b the empty queue of target has 4,000 pages and 90,000 ghost records, at first it had 40 pages and 7 "
        "ghost records; it was rebuilt"
    ]
    assert queues.ran[2] == ("target", "reset/queue.sql") and set(queues.ran[3:]) == checkpoints
    assert (tmp_path / NAME).read_text().splitlines() == [
        HEADER,
        "a,before,target,0,40,7,3,,,5",
        "a,before,initiator-1,0,40,7,3,,,5",
        "b,before,target,0,4000,90000,3,,,5",
        "b,before,initiator-1,0,40,7,3,,,5",
        "b,rebuilt,target,0,40,7,3,,,5",
    ]


def test_in_a_soak_a_queue_that_has_grown_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = Queues(monkeypatch)
    sizes = QueueSizes(queues.lab, queues.told.append, rebuilds=False)
    sizes.cell_begins("a", tmp_path)
    queues.sizes["target"] = LARGE
    sizes.cell_begins("b", tmp_path)
    assert queues.told == [] and {path for _, path in queues.ran} == {"reset/checkpoint.sql"}


def test_nothing_is_changed_in_a_database_that_existed_before_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = Queues(monkeypatch, kept=frozenset({"QUEUE"}))
    sizes = QueueSizes(queues.lab, queues.told.append)
    sizes.cell_begins("a", tmp_path)
    queues.sizes["target"] = LARGE
    sizes.cell_begins("b", tmp_path)
    assert queues.ran == []
    assert [text.rpartition("; ")[2] for text in queues.told] == ["it existed before the lab, so it is not rebuilt"]


def test_an_instance_that_does_not_show_its_queue_is_told_and_the_others_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = Queues(monkeypatch)
    queues.sizes |= {"target": ScriptError("no right"), "initiator-1": Size(0, 40, None, 3)}
    QueueSizes(queues.lab, queues.told.append).cell_begins("a", tmp_path)
    assert queues.told == ["the size of the queue of target is not recorded: no right"]
    assert (tmp_path / NAME).read_text().splitlines() == [HEADER, "a,before,initiator-1,0,40,,3,,,5"]


@pytest.mark.parametrize(
    "size, first, expected",
    [
        (Size(0, 4_001, 0, 3), Size(0, 2_000, 0, 3), True),
        (Size(0, 4_000, 0, 3), Size(0, 2_000, 0, 3), False),
        (Size(0, 40, 10_001, 3), SMALL, True),
        (Size(0, 2_048, 10_000, 3), SMALL, False),
        (Size(5, 9_000, 90_000, 3), SMALL, False),
        (Size(None, None, None, 3), SMALL, False),
    ],
)
def test_growth_is_more_than_double_of_an_empty_queue_that_is_not_small(
    size: Size, first: Size, expected: bool
) -> None:
    assert size.has_grown(first) is expected
