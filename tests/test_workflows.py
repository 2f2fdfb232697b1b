"""What `.github/workflows` runs is there to be run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", re.findall(r"run: make (\S+)", TEXT))
def test_a_target_of_make_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("path", re.findall(r"pytest (\S+)", TEXT))
def test_a_path_of_tests_exists(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("action", re.findall(r"uses: (\S+)", TEXT))
def test_an_action_is_pinned_to_a_major_version(action):
    assert re.fullmatch(r"actions/[a-z-]+@v\d+", action)


def test_the_licence_is_accepted_by_hand_or_by_a_variable_of_the_repository():
    assert "default: false" in TEXT and "vars.ACCEPT_EULA == 'Y'" in TEXT
    assert re.search(r"^permissions:\n  contents: read\n", TEXT, re.MULTILINE)
