"""The page of troubles says what the view says, and names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "harness" / "monitors" / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| trouble")
]


def test_every_trouble_is_shown_in_the_words_of_the_code() -> None:
    sources = [*(ROOT / "harness" / "monitors").glob("*.py"), ROOT / "harness" / "lab" / "statuses.tsv"]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    assert len(ROWS) >= 40
    assert [shown for _, shown, _, _ in ROWS if shown not in text] == []


def test_rehearsals_exist() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "monitors").glob("test_*.py"))
    named = [rehearsal.strip("`") for _, _, _, rehearsal in ROWS if rehearsal != "no"]
    assert len(named) >= 40
    for rehearsal in named:
        function, _, case = rehearsal.partition("[")
        assert re.search(rf"^def (test_)?{function}\(", tests, re.MULTILINE), rehearsal
        assert f'"{case.rstrip("]")}"' in tests or not case, rehearsal
