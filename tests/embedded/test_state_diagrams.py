"""The diagrams of harness/embedded/README.md have what the tables of states have.

`python -m tests.embedded.test_state_diagrams` writes them anew.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from harness.embedded.broker import endpoint_states, monitor_states
from harness.embedded.tds import connection

README = Path(__file__).parents[2] / "harness" / "embedded" / "README.md"
TABLES: dict[str, Mapping[tuple[Any, Any], Any]] = {
    "broker/endpoint_states.py": endpoint_states.TRANSITIONS,
    "broker/monitor_states.py": monitor_states.TRANSITIONS,
    "tds/connection.py": connection.TRANSITIONS,
}
BLOCK = re.compile(r"(`([\w/.]+)`:\n\n```mermaid\n)(.*?)```\n", re.DOTALL)


def diagram(transitions: Mapping[tuple[Enum, Enum], Enum]) -> str:
    events: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (state, event), after in transitions.items():
        events[state.name, after.name].append(event.name)
    lines = [f"    {state} --> {after}: {', '.join(names)}" for (state, after), names in events.items()]
    return "\n".join(["stateDiagram-v2", *lines, ""])


def drawn(text: str) -> str:
    return BLOCK.sub(lambda block: f"{block[1]}{diagram(TABLES[block[2]])}```\n", text)


def test_the_diagrams_are_those_of_the_tables() -> None:
    text = README.read_text(encoding="utf-8")
    assert {block[2] for block in BLOCK.finditer(text)} == set(TABLES)
    assert drawn(text) == text, "run python -m tests.embedded.test_state_diagrams"


if __name__ == "__main__":
    README.write_text(drawn(README.read_text(encoding="utf-8")), encoding="utf-8")
