"""`.ci/packages.py`, which `make setup` installs the Python packages with: what pip does is counted."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from harness.machine.places import CHECKOUT

PIP = """
import sys
print("Obtaining file:///checkout")
for number in range(60):
    print(f"Collecting package{number}>=1.0 (from harness)")
print("Processing /wheels/two-words-2.0.1-py3-none-any.whl (from harness)")
print("ERROR: no room is left", file=sys.stderr)
sys.exit(int(sys.argv[-1]))
"""

pytestmark = pytest.mark.process


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, in an environment whose pip only says what it does; its argument is the exit code."""
    (tmp_path / "pip.py").write_text(PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    specification = importlib.util.spec_from_file_location("packages", CHECKOUT / ".ci" / "packages.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_what_pip_fetches_is_counted(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["packages.py", ".constraints.txt", "0"])
    assert packages.main() == 0
    pins = len([line for line in (CHECKOUT / ".constraints.txt").read_text().splitlines() if "==" in line])
    each = 2 * pins // packages.LINES
    printed = capsys.readouterr()
    assert f"step {each} of {2 * pins}: fetching package{each - 1} completed, " in printed.out
    assert printed.err == ""
    assert packages.FETCHED.findall("Processing /wheels/two-words-2.0.1-py3-none-any.whl") == ["two-words"]


def test_where_pip_fails_its_last_lines_are_printed(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["packages.py", ".constraints.txt", "3"])
    assert packages.main() == 3
    assert "ERROR: no room is left" in capsys.readouterr().err


def test_what_setup_installs_lies_within_the_ranges_of_the_package() -> None:
    texts = [
        (CHECKOUT / name).read_text()
        for name in (".constraints.txt", "tests/constraints.txt", "tests/clients/constraints.txt")
    ]
    pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)", "".join(texts).lower().replace("_", "-"), re.MULTILINE))
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for text in [*project["dependencies"], *(text for extra in extras for text in extra)]:
        needed = Requirement(text)
        assert needed.specifier.contains(pins[needed.name]), text
