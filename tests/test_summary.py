"""What is said of states under a table of results."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.results.summary import states, states_by_cell
from harness.run.leaks import Leak

Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Write a journal of entries: cell, block, outcome, state, reason, and what it left behind."""

    def write(*entries: tuple[str | int, ...]) -> Path:
        names = ("cell", "block", "outcome", "state", "state_reason", "leak")
        known = {"attempt": 1, "reason": "", "at": "2026-11-22T12:00:00Z", "run": 1}
        lines = [json.dumps(known | dict(zip(names, entry, strict=False))) for entry in entries]
        (tmp_path / "journal.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path

    return write


def test_cells_that_are_not_valid_are_listed_with_their_reasons(written):
    results = written(
        ("a", 1, "failed", "", ""),
        ("a", 1, "completed", "valid", ""),
        ("b", 1, "completed", "valid", ""),
        ("b", 2, "completed", "behind", "the target processed 86% of what was sent"),
    )
    assert states(results) == [
        "2 of 3 cells count.",
        "b (block 2) is behind: the target processed 86% of what was sent",
    ]
    assert states_by_cell(results) == {"a": "valid", "b": "1 of 2 valid"}


def test_rows_are_called_as_in_the_table(written):
    results = written(("rate-110", 1, "completed", "starved", "too fast"))
    assert states(results, "steps", {"rate-110": "open loop, 110 %"}) == ["open loop, 110 % is starved: too fast"]


def test_valid_cells_are_said_to_be_valid_and_one_alone_needs_no_sentence(written):
    both = written(("a", 1, "completed", "valid", ""), ("b", 1, "completed", "valid", ""))
    assert states(both, "runs") == ["All 2 runs count."]
    assert states(written(("a", 1, "completed", "valid", ""))) == []


def test_saturated_cells_count_for_what_they_measured(written):
    entries = [(name, 1, "completed", "saturated", "the target processed 86% of what was sent") for name in "ab"]
    assert states(written(*entries)) == [
        "All 2 cells count, 2 of them saturated: for the rate processed and the gain alone."
    ]
    assert states(written(entries[0])) == ["a is saturated: the target processed 86% of what was sent"]


def test_of_many_the_first_ten_are_listed_and_the_others_counted(written):
    found = ["unsettled"] * 11 + ["behind"] * 2
    lines = states(written(*((f"c{number}", 1, "completed", state, "why") for number, state in enumerate(found))))
    assert lines[0] == "0 of 13 cells count." and lines[10] == "c9 is unsettled: why" and len(lines) == 12
    assert lines[11].startswith("and 3 more (2 behind, 1 unsettled): reasons in ")


def test_conversations_that_cells_left_behind_are_said_once_with_the_first_cell(written):
    leak = str(Leak("target", "CONVERSING", 200, 0.99, 200))
    entries = [("a", 1, "completed", "valid", ""), *(("b", block, "completed", "valid", "", leak) for block in (1, 2))]
    assert states(written(*entries))[1:] == [
        "2 of 3 cells left conversations behind, first b: 200 messages left 200 conversations more on target, where 99% "
        "are CONVERSING: nobody ends them: END CONVERSATION belongs to both sides"
    ]
