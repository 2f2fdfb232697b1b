"""What is costly and therefore made once: the wheel, installed for the tests that use it, a warm JVM for Spark, and
what a run starts."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.machine.places import CHECKOUT
from harness.run import engine
from tests.warm_lab import warm_clients, warm_lab  # noqa: F401  fixtures

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP *.example 127.0.0.1",  # other sites
]


@pytest.fixture(autouse=True)
def cells_in_doubt_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of half a second on a busy machine leaves nearly every cell in doubt. `tests/run` looks at the repeats."""
    monkeypatch.setattr(engine, "MEASURED_MAX", 1)


@pytest.fixture(scope="module")
def warm_jvm(gateway: Any) -> dict[str, str]:
    """The environment of commands that use one JVM, one after another. A JVM of their own costs each 20 s of a processor."""
    contexts = getattr(getattr(gateway.jvm, "org.apache.spark.SparkContext$"), "MODULE$")
    left = contexts.getActive()
    if left.isDefined():  # by a command that was killed: a JVM has one context at a time
        left.get().stop()
    parameters = gateway.gateway_parameters
    return {**os.environ, "PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}


@pytest.fixture(scope="session")
def run_installed() -> Callable[..., str]:
    """Run a command that must succeed, without this checkout in its environment; return what it printed."""

    def run(*command: str | Path, cwd: Path, **variables: str) -> str:
        inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            command, cwd=cwd, env=inherited | variables, capture_output=True, text=True, check=False, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, run_installed: Callable[..., str]) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run_installed(*pip, "--wheel-dir", folder, str(CHECKOUT), cwd=folder)
    [path] = folder.glob("service_broker_harness-*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory, run_installed: Callable[..., str]) -> Path:
    """The command of an environment that has the wheel, and the packages it needs from this one."""
    environment = tmp_path_factory.mktemp("environment")
    # The wheel is unpacked by this environment's pip, as another would first have to be installed.
    run_installed(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    [packages] = environment.glob("lib/python*/site-packages")
    # A folder that a .pth file adds has its own .pth files left alone: the checkout's editable install stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run_installed(*pip, wheel, cwd=environment)
    where = run_installed(python, "-c", "import harness; print(harness.__file__)", cwd=environment)
    assert where.startswith(str(environment))
    return environment / "bin" / "harness"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} does not exist")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()
