"""The graph of imports: layers, no cycle anywhere, and who knows sqlglot."""

import ast
import logging.config
from pathlib import Path

import grimp
import numpy as np
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent


def test_imports_only_point_down(monkeypatch):
    monkeypatch.chdir(ROOT)
    # It would disable the loggers that exist, also for the tests that follow in this process
    monkeypatch.setattr(logging.config, "dictConfig", lambda config: None)
    assert lint_imports(no_cache=True) == 0


def cycles() -> list[list[str]]:
    """The groups of modules that import each other; imports in functions and under TYPE_CHECKING count."""
    from scipy.sparse import coo_array  # noqa: PLC0415  each worker of `make test` would spend a third of a second on it
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    graph = grimp.build_graph("harness", cache_dir=None)
    modules = sorted(graph.modules)
    number = {module: place for place, module in enumerate(modules)}
    edges = [
        (number[module], number[imported])
        for module in modules
        for imported in graph.find_modules_directly_imported_by(module)
    ]
    importing, imported = zip(*edges, strict=True)
    matrix = coo_array((np.ones(len(edges)), (importing, imported)), shape=(len(modules),) * 2)
    _, group_of = connected_components(matrix, connection="strong")
    groups: dict[int, list[str]] = {}
    for module, group in zip(modules, group_of, strict=True):
        groups.setdefault(group, []).append(module)
    return [group for group in groups.values() if len(group) > 1]


def test_no_modules_import_each_other_in_a_circle():
    found = cycles()
    for group in found:
        print(f"{len(group)} modules in a circle: {', '.join(group)}")
    assert not found


def test_only_the_package_text_knows_the_tokens_and_the_parser_of_sqlglot():
    """Others may use its syntax tree, `sqlglot.exp`: a new sqlglot then changes one package."""
    text = ROOT / "harness" / "embedded" / "tsql" / "text"
    naming = [path for path in (ROOT / "harness").rglob("*.py") if "sqlglot" in path.read_text(encoding="utf-8")]
    assert naming
    for path in naming:
        imported = [
            f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        ]
        found = {name for name in imported if name.split(".")[0] == "sqlglot"}
        assert path.parent == text or found <= {"sqlglot.exp"}, path
