"""How many small defects the tests see: a sample of mutants of the modules below, each run against its package's tests.

A mutant is a module with one statement removed, one comparison, condition, sign or truth value turned, one number
raised by one, or one entry removed from a table. Assertions, annotations, decorators and docstrings stay as they are.
No file changes: each mutant is compiled in a process of its own, in which its import is replaced. A mutant that makes the
tests wait for longer than TIMEOUT_S counts as seen; tests that fail without one end the run. What survives is printed: a
test is missing, or the mutant does the same as the module.

`python -m tests.benchmarks.mutation --seed 7 --mutants 100` repeats a sample; `--place harness/files/journal.py` takes one place.
"""

import argparse
import ast
import importlib.machinery
import importlib.util
import multiprocessing
import os
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).parents[2]
# The tests of each place. Those behind the first run only on what the first let live.
TESTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "harness/embedded/broker": (
        ("tests/embedded/broker", "tests/embedded/server/test_dialog_encryption.py"),
        ("tests/embedded/tsql", "tests/embedded/server/test_broker_transport.py"),
    ),
    "harness/embedded/store": (("tests/embedded/store", "tests/embedded/broker"),),
    "harness/embedded/tsql/statements": (("tests/embedded/tsql",),),
    "harness/embedded/tsql/permissions": (("tests/embedded/tsql",),),
    "harness/embedded/tsql/instance": (("tests/embedded/tsql",),),
    "harness/embedded/tsql/session": (("tests/embedded/tsql",),),
    "harness/embedded/tsql/catalog": (("tests/embedded/tsql",),),
    "harness/embedded/tsql/translation": (("tests/embedded/tsql",),),
    "harness/embedded/tsql/text": (("tests/embedded/tsql",),),
    "harness/claims": (("tests/claims", "tests/test_inference.py", "tests/test_summary.py"),),
    "harness/embedded/tds": (("tests/embedded/tds",),),
    "harness/experiments": (("tests/experiments", "tests/test_matrix.py"),),
    "harness/files/journal.py": (("tests/test_journal.py",),),
    "harness/definitions/measures.py": (("tests/test_measures.py",),),
}
TIMEOUT_S = 120
PRELOADED = ["pytest", "hypothesis", "hypothesis.stateful", "msgspec", "numpy", "cryptography.x509", "sqlglot"]
TURNED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip
REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Break, ast.Continue)


@dataclass(frozen=True)
class Size:
    mutants: int
    seconds: float
    places: tuple[str, ...] = tuple(TESTS)


FULL = Size(100, 900)
SMALLEST = Size(1, 60, ("harness/definitions/measures.py",))


@dataclass(frozen=True)
class Mutation:
    line: int
    what: str
    apply: Callable[[], None]  # to the tree that it was made from


def mutations(tree: ast.AST) -> Iterator[Mutation]:
    """Yield what can be changed in a module, in the order of its text."""
    for node in _nodes(tree):
        line = getattr(node, "lineno", 0)
        for name, value in ast.iter_fields(node):
            for index, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, REMOVED) and not _is_docstring(child):
                    yield Mutation(child.lineno, f"removed: {_text(child)}", _put(node, name, index, ast.Pass()))
                elif type(child) in TURNED:
                    turned = TURNED[type(child)]()
                    what = f"{type(child).__name__} -> {type(turned).__name__}: {_text(node)}"
                    yield Mutation(line, what, _put(node, name, index, turned))
                elif isinstance(child, ast.Constant) and isinstance(child.value, int):
                    new = not child.value if isinstance(child.value, bool) else child.value + 1
                    what = f"{child.value} -> {new}: {_text(node)}"
                    yield Mutation(child.lineno, what, _put(node, name, index, ast.Constant(new)))
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            turned_test = ast.UnaryOp(ast.Not(), node.test)
            yield Mutation(line, f"condition turned: {_text(node.test)}", _put(node, "test", 0, turned_test))
        if isinstance(node, ast.Dict | ast.Set):
            for index in range(len(node.keys if isinstance(node, ast.Dict) else node.elts)):
                entry = node.keys[index] or node.values[index] if isinstance(node, ast.Dict) else node.elts[index]
                yield Mutation(entry.lineno, f"entry removed: {_text(entry)}", _without(node, index))


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_comment"} or isinstance(value, str):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Assert, ast.JoinedStr)):
                yield from _nodes(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _text(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:100]


def _put(parent: ast.AST, name: str, index: int, new: ast.AST) -> Callable[[], None]:
    def apply() -> None:
        value = getattr(parent, name)
        if isinstance(value, list):
            value[index] = new
        else:
            setattr(parent, name, new)

    return apply


def _without(node: ast.Dict | ast.Set, index: int) -> Callable[[], None]:
    def apply() -> None:
        for entries in (node.keys, node.values) if isinstance(node, ast.Dict) else (node.elts,):
            del entries[index]

    return apply


class Mutant(importlib.machinery.SourceFileLoader):
    """Loads a module with one mutation, and finds itself."""

    def __init__(self, path: Path, number: int) -> None:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        super().__init__(name, str(path))
        self._number = number

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(Path(self.path).read_bytes())
        list(mutations(tree))[self._number].apply()
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


class PropertiesLast:
    """Most mutants are seen by a plain test, which costs less than a property test with its examples."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(
            key=lambda item: hasattr(getattr(item, "obj", None), "hypothesis") or "TestCase" in type(item).__name__
        )


def run_tests(path: Path, number: int, tests: tuple[str, ...]) -> None:
    """Exit with 0 if the tests pass with the mutant."""
    os.chdir(ROOT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.meta_path.insert(0, Mutant(path, number))
    # pytest would load the modules of a package with a plugin itself, to rewrite their assertions.
    arguments = ["-x", "-q", "--assert=plain", "-m", "not (process or thorough)", "-p", "no:cacheprovider", *tests]
    os._exit(pytest.main(arguments, plugins=[PropertiesLast()]))


def survives(
    context: ForkServerContext, path: Path, number: int, tests: tuple[str, ...], timeout_s: float = TIMEOUT_S
) -> bool:
    process = context.Process(target=run_tests, args=(path, number, tests))
    process.start()
    process.join(timeout_s)
    process.kill()
    process.join()
    return process.exitcode == 0


def passes(context: ForkServerContext, tests: tuple[str, ...]) -> bool:
    """Whether the tests pass without a mutant of the product, on a busy machine too."""
    return survives(context, Path(__file__), 0, tests, timeout_s=10 * TIMEOUT_S)


def main(size: Size = FULL, *, seed: int | None = None) -> None:
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    print(
        f"mutants of {', '.join(size.places)}, seed {seed}: --seed {seed} --mutants {size.mutants} repeats them",
        flush=True,
    )
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    candidates = [
        (place, path, number, mutation)
        for place in size.places
        for path in ([ROOT / place] if place.endswith(".py") else sorted((ROOT / place).glob("*.py")))
        for number, mutation in enumerate(mutations(ast.parse(path.read_bytes())))
    ]
    ends = time.monotonic() + size.seconds
    count = living = 0
    passing: set[str] = set()
    for place, path, number, mutation in random.Random(seed).sample(candidates, min(size.mutants, len(candidates))):
        if place not in passing and not all(passes(context, tests) for tests in TESTS[place]):
            raise SystemExit(f"the tests of {place} fail without a mutant too, which would count as seen")
        passing.add(place)
        if count and time.monotonic() > ends:
            break
        count += 1
        if all(survives(context, path, number, tests) for tests in TESTS[place]):
            living += 1
            print(f"  survives: {path.relative_to(ROOT)}:{mutation.line}: {mutation.what}", flush=True)
    print(f"{count} of {len(candidates)} mutants: the tests see {count - living}, {100 * (1 - living / count):.0f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mutants", type=int, default=FULL.mutants)
    parser.add_argument("--seconds", type=float, default=FULL.seconds)
    parser.add_argument("--place", choices=list(TESTS), action="append")
    options = parser.parse_args()
    main(Size(options.mutants, options.seconds, tuple(options.place or TESTS)), seed=options.seed)
