"""The rules about the code that reading it would not show: layers, where time comes from, sizes."""

import ast
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "harness").rglob("*.py"))

# Time and entropy are injected; only these know the real ones.
KNOW_REAL_TIME = ("runtime/realtime.py", "store/", "server/")
REAL_TIME_MODULES = {"asyncio", "random", "threading", "time"}
REAL_TIME_CALLS = {"now", "today", "utcnow", "uuid1", "uuid4"}


def test_imports_only_point_down(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0


def _imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in MODULES
        if "embedded" in path.parts and not any(part in path.as_posix() for part in KNOW_REAL_TIME)
    ],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_the_embedded_broker_takes_time_and_entropy_from_its_runtime(path):
    tree = ast.parse(path.read_text())
    assert not _imported(tree) & REAL_TIME_MODULES
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {function.attr for function in calls if isinstance(function, ast.Attribute)}
    assert not called & REAL_TIME_CALLS


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_stays_below_500_lines(path):
    assert len(path.read_text().splitlines()) <= 500
