"""How the suite runs: its order, which files share a worker, and a JVM that starts for less."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest

# Files of a group run in one worker of `make test`, one after another: they share its warm JVM, or what they draw.
_GROUPS = {
    "warm JVM": (
        "tests/reductions/",
        "tests/benchmarks/test_spark_benchmarks.py",
        "tests/simulation/test_reference.py",
        "tests/simulation/test_sensitivity.py",
        "tests/simulation/test_spark_job.py",
        "tests/e2e/test_cluster.py",
        "tests/e2e/test_lab.py",
        "tests/e2e/test_matrix.py",
        "tests/e2e/test_notebook.py",
        "tests/e2e/test_several_runs.py",
        "tests/e2e/test_simulate.py",
        "tests/e2e/test_soak.py",
        "tests/e2e/test_spark_gateway.py",
    ),
    "drawings": ("tests/figures/",),
}
# No test fails because an example took long, or was slow to make: the machine may be busy. Of a property's examples
# `make check` takes a fifth and `make test` half (`tests.examples`).
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
for _profile, _examples in {"few": 20, "half": 50}.items():
    hypothesis.settings.register_profile(
        _profile, hypothesis.settings.get_profile("any machine"), max_examples=_examples
    )
hypothesis.settings.load_profile("any machine")
# The tests start hundreds of processes. Where Python may write no bytecode, each of them would compile its modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Nobody's certificate of twin runs decides a test: there can be none below a file.
os.environ["XDG_STATE_HOME"] = "/dev/null"
# Spark's launcher reads this. A JVM of a test lives for some seconds, of which a quarter went into verifying its classes;
# the warm one compiles and loads so much that it would sweep 48 MB of code and collect all garbage again and again.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=512m",
)


def _group(nodeid: str) -> str:
    """The group of a test, or its file."""
    file = nodeid.partition("::")[0]
    return next((name for name, files in _GROUPS.items() if file.startswith(files)), file)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would look through thousands of new modules and tests again and
    again, let it never look at them afterwards, and seldom at the rest, which took a fifteenth of the time of the
    tests in this process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 20, 100)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The warm JVM first, which is the longest chain; then by name, which mixes those that compute with those that wait."""

    def rank(item: pytest.Item) -> int:
        # In the order of the group: reductions in this process warm the JVM for those of commands.
        files = _GROUPS["warm JVM"]
        return next((n for n, start in enumerate(files) if item.nodeid.startswith(start)), len(files))

    items.sort(key=rank)  # stable: the order inside a rank stays


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The JVM of this process and of the commands that it runs."""
    from tests import warm_jvm  # noqa: PLC0415  most files need no Spark

    with warm_jvm.running(tmp_path_factory.mktemp("spark")) as started:
        yield started


@pytest.fixture(scope="module")
def warm_spark(gateway: Any) -> Iterator[None]:
    """The contexts of this module, in its process, run in that JVM."""
    from tests import warm_jvm  # noqa: PLC0415

    with warm_jvm.contexts_in(gateway):
        yield


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
