"""What set-up says on a system where something is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.machine import system_packages

FILE = Path(system_packages.__file__)


def release_of(monkeypatch, system: str, **release: str) -> None:
    monkeypatch.setattr(system_packages.platform, "system", lambda: system)
    monkeypatch.setattr(system_packages.platform, "freedesktop_os_release", lambda: release)


@pytest.mark.parametrize(
    ("system", "release", "command"),
    [
        ("Linux", {"ID": "debian"}, "apt-get install unixodbc openjdk-17-jre-headless"),
        ("Linux", {"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "apt-get install unixodbc openjdk-17-jre-headless"),
        ("Linux", {"ID": "fedora"}, "dnf install unixODBC java-21-openjdk-headless"),
        ("Linux", {"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install unixODBC java-21-openjdk-headless"),
        ("Linux", {"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, "zypper install unixODBC java-17-openjdk-headless"),
        ("Darwin", {}, "brew install unixodbc openjdk@17"),
        ("Linux", {"ID": "nixos"}, "install what Debian calls unixodbc, openjdk-17-jre-headless with this system's package manager"),
    ],
)  # fmt: skip
def test_packages_are_named_as_the_system_names_them(monkeypatch, system, release, command):
    release_of(monkeypatch, system, **release)
    assert system_packages.how_to_install("unixodbc", "java") == command


def test_every_linux_names_every_package():
    needed = {*system_packages.NEEDED, "freetds"}
    assert all(names.keys() == needed for system, names in system_packages.NAMES.items() if system != "macos")


@pytest.mark.parametrize(("system", "advice"), [("MINGW64_NT-10.0", "Install WSL2"), ("Darwin", "Use the image")])
def test_other_systems_are_sent_to_linux(monkeypatch, system, advice):
    release_of(monkeypatch, system)
    monkeypatch.setattr(sys, "argv", ["setup"])
    with pytest.raises(SystemExit, match=advice):
        system_packages.main()


@pytest.mark.process
def test_without_apt_get_ldconfig_and_java_setup_names_what_is_missing(tmp_path):
    """A PATH from which all commands are gone; the libraries are found all the same, by the loader."""
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(FILE)], env=environment, capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 1
    assert done.stderr.startswith("setup: these packages are missing: java. Run: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("locked", "says"), [(2, "another apt-get is at work"), (0, "")])
def test_setup_waits_while_another_apt_get_is_at_work(tmp_path, monkeypatch, capfd, locked, says):
    count = tmp_path / "count"
    count.write_text(str(locked))
    fake = tmp_path / "apt-get"
    fake.write_text(
        f"#!/bin/sh\nread left < {count}\n"
        f'[ "$left" = 0 ] && {{ echo "$@" > {tmp_path}/done; exit 0; }}\necho $((left - 1)) > {count}\n'
        'echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (apt-get)" >&2; exit 100\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(system_packages, "_LOCK_PAUSE_S", 0)
    assert system_packages._apt_get([], "install", "-y", "unixodbc")
    assert (tmp_path / "done").read_text() == "-qq install -y unixodbc\n"
    said = capfd.readouterr()
    assert said.out.count("another apt-get") == bool(says) and said.err == ""


def test_setup_says_what_apt_get_says_where_it_fails(tmp_path, monkeypatch, capfd):
    fake = tmp_path / "apt-get"
    fake.write_text('#!/bin/sh\necho "E: Unable to locate package x" >&2; exit 100\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert not system_packages._apt_get([], "install", "-y", "x")
    assert capfd.readouterr().err == "E: Unable to locate package x\n"
