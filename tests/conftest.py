"""How the suite runs: its order, which files share a worker, and a JVM that starts for less."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

# A test's place is that of the first of these marks that it has. The browser's one long file must not be the last.
_PLACES = {"browser": 2, "process": 3, "spark": 1}
# Files of a group run in one worker of `make test`, one after another: they share its warm Spark or JVM, or what they draw
# or install.
_GROUPS = {
    "warm Spark": ("tests/reductions/", "tests/simulation/test_sensitivity.py", "tests/benchmarks/test_benchmarks.py"),
    "warm JVM": (
        "tests/e2e/test_cluster.py",
        "tests/e2e/test_lab.py",
        "tests/e2e/test_matrix.py",
        "tests/e2e/test_notebook.py",
        "tests/e2e/test_spark_gateway.py",
    ),
    "drawings": ("tests/figures/",),
    "wheel": ("tests/e2e/test_wheel.py", "tests/e2e/test_simulate.py"),
}
# No test fails because an example took long, or was slow to make: the machine may be busy.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")
# The tests start hundreds of processes. Where Python may write no bytecode, each of them would compile its modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Spark's launcher reads this. A JVM of a test lives for some seconds; a quarter of them went into verifying its classes.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote")


def _group(nodeid: str) -> str:
    """The group of a test, or its file."""
    file = nodeid.partition("::")[0]
    return next((name for name, files in _GROUPS.items() if file.startswith(files)), file)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would look through thousands of new modules and tests again and
    again, and let it never look at them afterwards."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first, then Spark, the browser, whole processes."""

    def rank(item: pytest.Item) -> tuple[int, int]:
        if _group(item.nodeid) == "warm Spark":
            # After the tests of the Spark job, which need a context of their own: a process has one at a time.
            place = next(n for n, files in enumerate(_GROUPS["warm Spark"], 1) if item.nodeid.startswith(files))
            return 1, place
        return next((place for mark, place in _PLACES.items() if item.get_closest_marker(mark)), 0), 0

    items.sort(key=rank)  # stable: the order inside a rank stays


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal a group like one file where `--dist loadfile` deals files."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByGroup(config, log)
