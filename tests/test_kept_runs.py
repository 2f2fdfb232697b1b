"""No kept run is older than the last change of what it measured: what the servers did, and which cells there are.

Of the code only what is executed counts, without docstrings and comments. The kept run of the model is checked more
strictly, by computing it again (`simulation.test_reference`).
"""

import ast
import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "results" / "reference"
DIGESTS = json.loads((KEPT / "digests.json").read_text(encoding="utf-8"))
# What is on the way of a message through the embedded lab, and the axes of the matrix.
OF_EMBEDDED = [
    *(
        "sql/target/message_*.sql",
        "sql/target/receive_*.sql",
        "sql/initiator/*dialogs.sql",
        "sql/workloads/paper/*.sql",
    ),
    *("harness/embedded/broker/*.py", "harness/embedded/store/*.py", "harness/definitions/matrix.py"),
]


def _executed(path: Path) -> str:
    """Return what a file says to a machine."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sql":
        return " ".join(re.sub(r"/\*.*?\*/|--[^\n]*", "", text, flags=re.DOTALL).split())
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    # Python 3.13 leaves out empty fields, and 3.12 has new ones.
    return re.sub(r"\w+=\[\], |,? ?\w+=\[\]", "", ast.dump(tree))


def _digest() -> str:
    paths = sorted(path for pattern in OF_EMBEDDED for path in ROOT.glob(pattern))
    return hashlib.sha256("\0".join(map(_executed, paths)).encode()).hexdigest()


@pytest.mark.parametrize("run", ["embedded", "embedded-repeated", "cross-check"])
def test_a_kept_run_is_as_new_as_what_it_measured(run: str) -> None:
    assert DIGESTS[run] == _digest(), (
        f"results/reference/{run} measured other code: make it anew with the command in results/README.md, and write "
        f"{_digest()} into results/reference/digests.json"
    )


def test_a_comment_changes_nothing_and_a_statement_does(tmp_path: Path) -> None:
    script, module = tmp_path / "a.sql", tmp_path / "a.py"
    script.write_text("/* one */ SELECT 1; -- two\n")
    module.write_text('"""One."""\nx = 1  # two\n')
    before = [_executed(script), _executed(module)]
    script.write_text("SELECT 1;")
    module.write_text('"""Two."""\n\nx = 1\n')
    assert [_executed(script), _executed(module)] == before
    script.write_text("SELECT 2;")
    module.write_text("x = 2")
    assert not {_executed(script), _executed(module)} & set(before)
