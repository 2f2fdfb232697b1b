"""Questions about a user's own servers become a lab file."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.cli import new_lab
from harness.files import lab_file
from tests.commands import harness

LIKE_BEFORE = [""] * 6
TARGET = ["sql1.example", "", "", "", "bench", "y", ""]


def answered(path: Path, *answers: str) -> str:
    """What is printed when these answers are typed, a line each."""
    asking = click.Command("new", callback=lambda: new_lab.write(path))
    return CliRunner().invoke(asking, input="\n".join([*answers, ""])).output


def test_what_is_answered_is_the_lab_and_an_initiator_is_asked_what_differs_from_the_side_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lab.toml"
    answered(
        path,
        "2019",
        "2",
        "n",
        *TARGET,
        "sql2.example",
        *LIKE_BEFORE,
        "sql3.example",
        "1444",
        "5022",
        "integrated",
        "n",
        "Orders",
    )
    lab = lab_file.read(path)
    assert (lab.version, lab.target.host, lab.target.user, lab.brakes) == ("2019", "sql1.example", "bench", False)
    second, third = lab.initiators
    assert (second.host, second.port, second.user, second.trust_server_certificate) == (
        "sql2.example",
        1433,
        "bench",
        True,
    )
    assert (third.port, third.broker_port, third.authentication, third.user) == (1444, 5022, "integrated", None)
    assert (third.existing_database, third.trust_server_certificate) == ("Orders", False)


def test_an_answer_that_no_lab_can_have_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    printed = answered(
        path, "2022", "1", "", "sql1\\named", *TARGET, "sql1.example", *LIKE_BEFORE, "sql2.example", "0", *LIKE_BEFORE
    )
    assert "a named instance is reached by its port" in printed
    assert (
        "Error: lab.toml, line 13: initiator-1.host: sql1.example port 1433 is already the server of target" in printed
    )
    assert "greater than or equal to 1" in printed
    lab = lab_file.read(path)
    assert lab.initiators[0].host == "sql2.example"
    assert (lab.brakes, lab.processor_percent_max, lab.hours_max) == (True, 90, 24.0)


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    printed = answered(tmp_path / "none" / "lab.toml", "2022", "1", "", *TARGET, "sql2.example", *LIKE_BEFORE)
    assert printed.rstrip().endswith("lab.toml cannot be written: No such file or directory")


@pytest.mark.process
def test_the_command_asks_on_a_terminal_alone_and_replaces_no_file(tmp_path: Path) -> None:
    assert harness(tmp_path, "lab", "new").line.startswith("standard input is no terminal, so nobody can be asked")
    leader, follower = pty.openpty()
    os.write(leader, "\n".join(["2022", "1", "", *TARGET, "sql2.example", *LIKE_BEFORE, "n", ""]).encode())
    asked = [sys.executable, "-m", "harness", "lab", "new"]
    done = subprocess.run(asked, cwd=tmp_path, stdin=follower, capture_output=True, text=True, check=False, timeout=60)
    os.close(follower)
    os.close(leader)
    assert done.returncode == 0, done
    assert "wrote lab.toml; next: harness doctor --lab-file lab.toml\n" in done.stdout
    assert len(lab_file.read(tmp_path / "lab.toml").initiators) == 1
    assert harness(tmp_path, "lab", "new").line == "lab.toml exists: name another file"
