from pathlib import Path

import pytest

from harness.lab import control_groups
from harness.lab.control_groups import ControlGroup

ID = "4f1d"
VERSION_2 = ("0::/system.slice/docker-4f1d.scope\n", "system.slice/docker-4f1d.scope/cpu.stat")
VERSION_1 = ("9:name=systemd:/docker/4f1d\n3:cpu,cpuacct:/docker/4f1d\n0::/docker/4f1d\n", "cpu,cpuacct/docker/4f1d")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of control groups, and process 77."""
    monkeypatch.setattr(control_groups, "PROCESSES", tmp_path / "proc")
    monkeypatch.setattr(control_groups, "GROUPS", tmp_path / "cgroup")
    (tmp_path / "proc" / "77").mkdir(parents=True)
    return tmp_path


def put(machine: Path, of_process: str, file: str, usage: str) -> Path:
    (machine / "proc" / "77" / "cgroup").write_text(of_process)
    path = machine / "cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(usage)
    return path


def test_version_2_counts_microseconds(machine: Path) -> None:
    path = put(machine, *VERSION_2, usage="usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n")
    group = ControlGroup.of(77, ID)
    assert group is not None and group.processor_time_ms() == 1234
    path.unlink()
    assert group.processor_time_ms() is None


def test_version_1_counts_nanoseconds_of_the_controller_cpuacct(machine: Path) -> None:
    of_process, folder = VERSION_1
    put(machine, of_process, f"{folder}/cpuacct.usage", usage="5000000000\n")
    group = ControlGroup.of(77, ID)
    assert group is not None and group.processor_time_ms() == 5000


def test_a_process_of_the_same_number_in_another_group_is_another_one(machine: Path) -> None:
    put(machine, "0::/user.slice\n", "user.slice/cpu.stat", "usage_usec 1\n")
    assert ControlGroup.of(77, ID) is None
    assert ControlGroup.of(78, ID) is None


def test_a_group_that_this_machine_does_not_show_is_none(machine: Path) -> None:
    (machine / "proc" / "77" / "cgroup").write_text(VERSION_2[0])
    assert ControlGroup.of(77, ID) is None
