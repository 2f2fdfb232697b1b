"""Packages of the system that the harness needs, under the names of the system it runs on.

Standard library only: `.ci/setup` runs this file before there is a virtual environment, and exits 3 where something is
missing that it may not install. Debian and Ubuntu are tried in CI; the other names come from the packages' own sites.
"""

import argparse
import ctypes
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

JAVA_MINIMUM = 17  # Spark 4 runs on Java 17 or later

# By system: how packages are installed, and what ours are called there.
INSTALL = {"debian": "apt-get install", "fedora": "dnf install", "suse": "zypper install", "macos": "brew install"}
NAMES: Mapping[str, Mapping[str, str]] = {
    "debian": {
        "venv": "python3-venv",
        "unixodbc": "unixodbc",
        "kerberos": "libgssapi-krb5-2",
        "ltdl": "libltdl7",
        "openssl": "openssl",
        "java": "openjdk-17-jre-headless",
        "freetds": "tdsodbc",
    },
    "fedora": {
        "venv": "python3",
        "unixodbc": "unixODBC",
        "kerberos": "krb5-libs",
        "ltdl": "libtool-ltdl",
        "openssl": "openssl-libs",
        "java": "java-21-openjdk-headless",
        "freetds": "freetds",
    },
    "suse": {
        "venv": "python3",
        "unixodbc": "unixODBC",
        "kerberos": "krb5",
        "ltdl": "libltdl7",
        "openssl": "libopenssl3",
        "java": "java-17-openjdk-headless",
        "freetds": "libtdsodbc0",
    },
    "macos": {"unixodbc": "unixodbc", "java": "openjdk@17", "freetds": "freetds"},  # set-up refuses a Mac
}
_LIBRARIES = {
    "unixodbc": ("libodbc.so.2",),
    "kerberos": ("libgssapi_krb5.so.2",),
    "ltdl": ("libltdl.so.7",),
    "openssl": ("libssl.so.3", "libssl.so.1.1"),
}
FREETDS_PLACES = (
    "/usr/lib/*/odbc/libtdsodbc.so",
    "/usr/lib*/libtdsodbc.so*",
    "/usr/local/lib/libtdsodbc.so",
    "/opt/homebrew/lib/libtdsodbc.so",
)
INSTEAD_OF_SETUP = {
    "windows": "Windows is not supported. Install WSL2 (wsl --install) and run make setup in its Ubuntu",
    "macos": "macOS is not supported. Use the image (docker build -f .ci/Dockerfile -t harness .), as README.md says",
}
_LOCK_WAIT_S, _LOCK_PAUSE_S = 600, 2  # for another apt-get
# Without these no cell runs; FreeTDS is a second ODBC driver, used where it is there.
NEEDED = ("venv", "unixodbc", "kerberos", "ltdl", "openssl", "java")


def family() -> str:
    """The system's family: a key of `NAMES`, "windows", or "" for a system that is not known here."""
    system = platform.system()
    if system == "Darwin":
        return "macos"
    if system == "Windows" or system.startswith(("CYGWIN", "MINGW", "MSYS")):
        return "windows"
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ""
    ids = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    if ids & {"debian", "ubuntu"}:
        return "debian"
    if ids & {"fedora", "rhel", "centos"}:
        return "fedora"
    return "suse" if any("suse" in identifier for identifier in ids) else ""


def how_to_install(*packages: str) -> str:
    """The command that installs these packages here; for a system that is not known, their names on Debian."""
    family_here = family()
    if family_here in NAMES:
        return f"{INSTALL[family_here]} {' '.join(NAMES[family_here][package] for package in packages)}"
    names = ", ".join(NAMES["debian"][package] for package in packages)
    return f"install what Debian calls {names} with this system's package manager"


def missing(packages: tuple[str, ...] = NEEDED) -> list[str]:
    """Those of the packages that are not installed here."""
    return [package for package in packages if not _CHECKS[package]()]


def java_version(command: str = "java") -> int:
    """The major version of Java; 0 where there is none, or none that answers."""
    if shutil.which(command) is None:
        return 0
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return 0
    return int(match[2] or 1) if match[1] == "1" else int(match[1])  # Java 8 and older call themselves 1.8


def _has_venv() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("ensurepip", "venv"))


def _loads(package: str) -> bool:
    """Whether the loader finds a library. It needs no ldconfig, which not every PATH has."""
    for name in _LIBRARIES[package]:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def _has_freetds() -> bool:
    return any(list(Path("/").glob(place.lstrip("/"))) for place in FREETDS_PLACES)


_CHECKS: dict[str, Callable[[], bool]] = {
    "venv": _has_venv,
    **{package: (lambda package=package: _loads(package)) for package in _LIBRARIES},  # type: ignore[misc]
    "java": lambda: java_version() >= JAVA_MINIMUM,
    "freetds": _has_freetds,
}


def _may_use_apt() -> list[str] | None:
    """The command before apt-get where it may be called: nothing for root, else sudo; None where it may not."""
    if family() != "debian" or shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n"]
    return None


def _apt_name(package: str) -> str:
    """The name in this release: Debian 13 has Java 21 only."""
    if package != "java":
        return NAMES["debian"][package]
    for name in ("openjdk-17-jre-headless", "openjdk-21-jre-headless"):
        if subprocess.run(["apt-cache", "madison", name], capture_output=True, check=False).stdout.strip():
            return name
    return "default-jre-headless"


def _install(packages: list[str], as_root: list[str]) -> bool:
    return _apt_get(as_root, "install", "-y", *map(_apt_name, packages))


def _apt_get(as_root: list[str], *words: str) -> bool:
    """Run apt-get, and return whether it succeeded. Wait while another one is at work, as on a machine that has just
    started: the option DPkg::Lock::Timeout would wait without a word, and `update` does not know it."""
    command = [*as_root, "env", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *words]
    end_s = time.monotonic() + _LOCK_WAIT_S
    is_waiting = False
    while True:
        answer = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        is_locked = answer.returncode != 0 and "Could not get lock" in answer.stderr
        if not is_locked or time.monotonic() > end_s:
            sys.stderr.write(answer.stderr)
            return answer.returncode == 0
        if not is_waiting:
            print(
                f"setup: another apt-get is at work; waiting for it, at most {_LOCK_WAIT_S // 60} minutes", flush=True
            )
            is_waiting = True
        time.sleep(_LOCK_PAUSE_S)


def main() -> None:
    """Install what is missing where that is possible, else say what to install and exit 3."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--freetds", action="store_true", help="FreeTDS is the only driver: do not go on without it")
    needed = (*NEEDED, "freetds") if parser.parse_args().freetds else NEEDED
    if advice := INSTEAD_OF_SETUP.get(family()):
        sys.exit(f"setup: {advice}")
    absent = missing(needed)
    wished = [] if "freetds" in needed else missing(("freetds",))
    as_root = _may_use_apt() if absent or wished else None
    if as_root is not None:
        _apt_get(as_root, "update")
        if absent:
            print(f"setup: apt-get install {' '.join(map(_apt_name, absent))}", flush=True)
            if not _install(absent, as_root):
                sys.exit(f"setup: apt-get failed: run {how_to_install(*absent)}, then make setup again")
        if wished:
            _install(wished, as_root)
        absent = missing(needed)
    if absent:
        sys.exit(f"setup: these packages are missing: {', '.join(absent)}. Run: {how_to_install(*absent)}")


if __name__ == "__main__":
    main()
