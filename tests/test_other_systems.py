"""What runs on Windows and on a Mac: commands that ask servers and read results. `stand_ins/other_systems` takes from them
what those systems do not have; `.github/workflows` runs them there."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.results_fixture import quick_cells, write_reduced
from tests.stand_ins.own_servers import PASSWORD, OwnServers, running_servers
from tests.thorough import one_of_each

pytestmark = pytest.mark.process
STAND_IN = str(Path(__file__).parent / "stand_ins" / "other_systems")
IS_LINUX = sys.platform == "linux"
SYSTEMS = ["Windows", "Darwin"] if IS_LINUX else [platform.system()]


def harness(system: str, *words: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as on that system to its end in a folder, with its errors among its output."""
    if IS_LINUX:
        environment |= {"PYTHONPATH": STAND_IN, "STAND_IN_SYSTEM": system}
    return subprocess.run(
        [sys.executable, "-m", "harness", *map(str, words)],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_sweep_is_planned_and_results_are_reported_compared_and_judged(system: str, tmp_path: Path) -> None:
    runs = [write_reduced(tmp_path / name, quick_cells(("2008",))[:2]) for name in ("a", "b")]
    for words in (["plan", "--lab", "embedded"], ["figures", runs[0]], ["claims", runs[0]], ["compare", *runs]):
        done = harness(system, *words, folder=tmp_path)
        assert done.returncode == 0, done.stdout
    assert (runs[0] / "report.html").exists()


@pytest.mark.parametrize("system", one_of_each(SYSTEMS))
@pytest.mark.parametrize("words", ["matrix --lab embedded", "simulate", "serve --port 0", "lab open --lab embedded"])
def test_what_starts_processes_says_that_it_needs_linux(words: str, system: str, tmp_path: Path) -> None:
    done = harness(system, *words.split(), folder=tmp_path)
    assert done.returncode == 3 and "this needs Linux" in done.stdout.splitlines()[-1], done.stdout


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServers]:
    folder = tmp_path_factory.mktemp("servers")
    with running_servers(folder) as servers:
        yield OwnServers(folder, servers)


@pytest.mark.skipif(not IS_LINUX, reason="the embedded servers need Linux")
@pytest.mark.parametrize("system", one_of_each(SYSTEMS))
def test_servers_are_examined_and_their_queue_monitors_shown(system: str, own: OwnServers, tmp_path: Path) -> None:
    file = own.lab_file()
    examined = harness(system, "doctor", "--lab-file", file, "--yes", folder=tmp_path, HARNESS_PASSWORD=PASSWORD)
    assert examined.returncode == 0 and "took" in examined.stdout, examined.stdout
    shown = harness(system, "monitors", "--lab-file", file, "--once", folder=tmp_path, HARNESS_PASSWORD=PASSWORD)
    assert shown.returncode == 0, shown.stdout
