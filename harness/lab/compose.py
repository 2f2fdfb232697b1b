"""Run Docker Compose for the lab: a thin wrapper over the command `docker` that reports failures in one line.

The project is `docker-compose.yml` at the root of the checkout. Compose and this module take values from the
environment and from `.env` beside that file. This module creates `.env` on first use, keeps it readable by this user
alone, and passes the password to Compose in the environment only. Of Docker's output it reports one line, without the
password.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.failures import MachineFailure
from harness.installation import COMPOSE_FILE, PROJECT_FOLDER
from harness.lab import env_file
from harness.lab.drivers import Secret

ROOT = PROJECT_FOLDER  # .env lies there
PROJECT = "service-broker-harness"
LICENCE = "https://go.microsoft.com/fwlink/?LinkId=746388"

_PASSWORD = "MSSQL_SA_PASSWORD"
_PROBE_TIMEOUT_S = 3.0
_TIMEOUT_S = 60.0
_UP_TIMEOUT_S = 300.0
_DOWN_TIMEOUT_S = 120.0
_PULL_TIMEOUT_S = 3600.0
_WATCH_S = 0.2
_SERVER_VERSION = "{{.Server.Version}}"


class ComposeError(MachineFailure):
    """Docker cannot do what the lab needs. The message says what is missing and how to get it."""


@dataclass(frozen=True)
class Container:
    """A container of the project, as `docker compose ps` shows it."""

    service: str
    name: str
    state: str  # created | running | restarting | exited | dead ...
    health: str  # "" without a check, else starting | healthy | unhealthy
    exit_code: int
    ports: Mapping[int, int]  # the container's -> the one on 127.0.0.1

    @property
    def is_running(self) -> bool:
        return self.state == "running"


def engine_answers() -> bool:
    """Return whether a Docker engine answers on this machine within three seconds."""
    try:
        return _docker("version", "--format", _SERVER_VERSION, timeout_s=_PROBE_TIMEOUT_S).returncode == 0
    except ComposeError:
        return False


def check() -> None:
    """Raise ComposeError unless the engine answers, Compose is installed and the licence terms are accepted."""
    _expect(_docker("version", "--format", _SERVER_VERSION, timeout_s=_PROBE_TIMEOUT_S), "Docker does not answer")
    if _docker("compose", "version", timeout_s=_TIMEOUT_S).returncode:
        raise ComposeError(
            "the command docker has no Compose plugin: apt-get install docker-compose-v2 (Ubuntu) or "
            "docker-compose-plugin (Docker's own packages)"
        )
    if value("ACCEPT_EULA").upper() != "Y":
        raise ComposeError(
            "Microsoft's licence terms for SQL Server are not accepted. To accept them, set ACCEPT_EULA=Y in the "
            f"environment or in {ROOT / env_file.NAME} ({LICENCE})"
        )


def value(name: str) -> str:
    """Return a variable's value as Compose finds it: in the environment, else in .env, else ""."""
    return os.environ.get(name) or env_file.read(ROOT).get(name) or ""


def password() -> Secret:
    """Return sa's password: from the environment, else from .env, where it is created on first use."""
    if given := os.environ.get(_PASSWORD):
        return env_file.strong(Secret(given), password_place())
    return env_file.password(ROOT)


def password_place() -> str:
    """Return where a user finds the password."""
    return "the environment" if os.environ.get(_PASSWORD) else str(ROOT / env_file.NAME)


def up(services: Sequence[str], *, watch: Callable[[], None], tell: Callable[[str], None]) -> None:
    """Start services of one version and what they depend on. Services that run are left alone."""
    check()
    password()
    profile = version(services[0])
    for image in sorted(set(_compose("config", "--images", profile=profile).split())):
        if _docker("image", "inspect", image, timeout_s=_TIMEOUT_S).returncode:
            tell(f"pulling {image} (once)")
            pulled = _docker("pull", "--quiet", image, timeout_s=_PULL_TIMEOUT_S, watch=watch)
            _expect(pulled, f"the image {image} cannot be pulled")
    _compose("up", "--detach", "--no-recreate", *services, profile=profile, timeout_s=_UP_TIMEOUT_S, watch=watch)


def down() -> None:
    """Remove every container of the project, its network and its volumes, hence all data."""
    _compose("down", "--volumes", "--remove-orphans", timeout_s=_DOWN_TIMEOUT_S)


def remove(services: Sequence[str]) -> None:
    """Remove the containers of some services and their volumes. The others keep running."""
    _compose("rm", "--stop", "--force", *services, timeout_s=_DOWN_TIMEOUT_S)
    volumes = [f"{PROJECT}_{service}-{kind}" for service in services for kind in ("data", "log")]
    _expect(_docker("volume", "rm", "--force", *volumes, timeout_s=_TIMEOUT_S), "volumes cannot be removed")


def restart(services: Sequence[str]) -> None:
    _compose("restart", *services, timeout_s=_DOWN_TIMEOUT_S)


def containers() -> dict[str, Container]:
    """Return the project's containers by service, including those that have ended."""
    output = _compose("ps", "--all", "--format", "json").strip()
    # Compose prints an array up to version 2.20, and one object a line since.
    rows = json.loads(output) if output.startswith("[") else [json.loads(line) for line in output.splitlines()]
    return {str(row["Service"]): _container(row) for row in rows}


def log(service: str, tail: str = "all") -> str:
    """Return what a container has logged."""
    return _compose("logs", "--no-color", "--no-log-prefix", "--tail", tail, service)


def last_line(service: str) -> str:
    """Return the last line that a container logged, cut to 300 characters."""
    try:
        logged = log(service, "20")
    except ComposeError:
        return ""
    lines = [line.strip() for line in logged.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def version(service: str) -> str:
    """Return a service's version of SQL Server, with which its name ends; it is the profile too."""
    return service.rpartition("-")[2]


def _container(row: Mapping[str, object]) -> Container:
    publishers = row.get("Publishers") or []
    assert isinstance(publishers, list)
    ports = {int(one["TargetPort"]): int(one["PublishedPort"]) for one in publishers if one.get("PublishedPort")}
    return Container(
        service=str(row["Service"]),
        name=str(row["Name"]),
        state=str(row["State"]),
        health=str(row.get("Health") or ""),
        exit_code=int(str(row.get("ExitCode") or 0)),
        ports=ports,
    )


# -- the command -------------------------------------------------------------------------------------------------------


def _compose(
    verb: str,
    *arguments: str,
    profile: str = "*",
    timeout_s: float = _TIMEOUT_S,
    watch: Callable[[], None] = lambda: None,
) -> str:
    """Run a command of Compose and return its output."""
    place = ("--project-directory", str(ROOT), "--file", str(COMPOSE_FILE), "--profile", profile)
    done = _docker("compose", *place, verb, *arguments, timeout_s=timeout_s, watch=watch)
    _expect(done, f"docker compose {verb} failed")
    return done.stdout


def _docker(
    *arguments: str, timeout_s: float, watch: Callable[[], None] = lambda: None
) -> subprocess.CompletedProcess[str]:
    """Run `docker` until it ends, its time is up or `watch` raises.

    It has a session of its own, so that Ctrl-C reaches this process alone, which then ends it in an orderly way.
    """
    try:
        process = subprocess.Popen(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=_environment(),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise ComposeError("the command docker is not installed: see https://docs.docker.com/engine/install/") from None
    except OSError as error:
        raise ComposeError(f"the command docker does not start: {error.strerror}") from None
    deadline = time.monotonic() + timeout_s
    with process:
        while True:
            try:
                watch()
                stdout, stderr = process.communicate(timeout=min(_WATCH_S, max(0.0, deadline - time.monotonic())))
                return subprocess.CompletedProcess(list(arguments), process.returncode, stdout, stderr)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                _end(process)
                raise ComposeError(f"docker {' '.join(arguments[:1])} took longer than {timeout_s:g} s") from None
            except BaseException:
                _end(process)
                raise


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
        return
    process.kill()


def _environment() -> dict[str, str]:
    """Return this process's environment with values for docker-compose.yml. `down` works without ACCEPT_EULA."""
    asked = {"ACCEPT_EULA": value("ACCEPT_EULA") or "N", _PASSWORD: value(_PASSWORD) or "none"}
    return {**os.environ, **asked}


# Docker's words, a detail in them, and the message to the user; {0} is the detail.
_CAUSES = (
    (
        r"port is already allocated|address already in use",
        r"127\.0\.0\.1:(\d+)",
        "port {0} on 127.0.0.1 is in use: stop what listens there, or set another in .env (see docker-compose.yml)",
    ),
    (
        r"no matching manifest",
        r"for (\S+)",
        "Microsoft has no image of SQL Server for {0}: use a machine with x86-64",
    ),
    (r"no space left on device", "()", "the disk is full: run docker system df to see what uses it, and free some"),
    (
        r"permission denied while trying to connect",
        "()",
        "this user may not use Docker: run sudo usermod -aG docker $USER, then sign in again",
    ),
    (
        r"Cannot connect to the Docker daemon|error during connect",
        "()",
        "the Docker engine does not answer: start it, for example with sudo systemctl start docker",
    ),
)


def _expect(done: subprocess.CompletedProcess[str], failure: str) -> None:
    """Raise ComposeError if a command failed, with what to do about it or else Docker's own reason."""
    if done.returncode == 0:
        return
    output = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if line.strip())
    if secret := value(_PASSWORD):
        output = output.replace(secret, "***")
    for sign, detail, text in _CAUSES:
        if re.search(sign, output):
            found = re.search(detail, output)
            raise ComposeError(text.format(found[1] if found else "?"))
    last = output.splitlines()[-1].strip() if output else f"exit code {done.returncode}"
    raise ComposeError(f"{failure}: {last.removeprefix('Error response from daemon: ')[:300]}")
