"""Docker Compose, as far as the lab needs it: a thin wrapper over the command `docker`, with failures of one line.

The project is `docker-compose.yml` at the root of the checkout. Compose takes its values from the environment and from
`.env` beside it, and so does this module: it makes `.env` on first use, keeps it this user's alone, and hands the
password to nothing but Compose's environment. Of what `docker` prints only one line is passed on, without the password.
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
    """Docker cannot do what the lab needs; the message says what is missing and how to get it."""


@dataclass(frozen=True)
class Container:
    """A container of the project as `docker compose ps` tells of it."""

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
    """Whether a Docker engine answers on this machine; at most three seconds."""
    try:
        return _docker("version", "--format", _SERVER_VERSION, timeout_s=_PROBE_TIMEOUT_S).returncode == 0
    except ComposeError:
        return False


def check() -> None:
    """ComposeError unless the engine answers, Compose is there, and the licence terms are accepted."""
    _expect(_docker("version", "--format", _SERVER_VERSION, timeout_s=_PROBE_TIMEOUT_S), "Docker does not answer")
    if _docker("compose", "version", timeout_s=_TIMEOUT_S).returncode:
        raise ComposeError(
            "the command docker has no Compose plugin: apt-get install docker-compose-v2 (Ubuntu) or "
            "docker-compose-plugin (Docker's own packages)"
        )
    if value("ACCEPT_EULA").upper() != "Y":
        raise ComposeError(
            "SQL Server in containers needs your word: ACCEPT_EULA=Y, in the environment or in "
            f"{ROOT / env_file.NAME}, says that you accept Microsoft's licence terms for it ({LICENCE})"
        )


def value(name: str) -> str:
    """Of a variable, as Compose finds it: the environment's, else that of .env, else nothing."""
    return os.environ.get(name) or env_file.read(ROOT).get(name) or ""


def password() -> Secret:
    """Of the login sa: the environment's, else that of .env, made and kept there on first use."""
    if given := os.environ.get(_PASSWORD):
        return env_file.strong(Secret(given), password_place())
    return env_file.password(ROOT)


def password_place() -> str:
    """Where a user finds it."""
    return "the environment" if os.environ.get(_PASSWORD) else str(ROOT / env_file.NAME)


def up(services: Sequence[str], *, watch: Callable[[], None], tell: Callable[[str], None]) -> None:
    """Starts services of one version and what they depend on; those that run stay as they are."""
    check()
    password()
    profile = version(services[0])
    for image in sorted(set(_compose("config", "--images", profile=profile).split())):
        if _docker("image", "inspect", image, timeout_s=_TIMEOUT_S).returncode:
            tell(f"pulling {image}: once")
            pulled = _docker("pull", "--quiet", image, timeout_s=_PULL_TIMEOUT_S, watch=watch)
            _expect(pulled, f"the image {image} cannot be pulled")
    _compose("up", "--detach", "--no-recreate", *services, profile=profile, timeout_s=_UP_TIMEOUT_S, watch=watch)


def down() -> None:
    """Removes every container of the project, its network, and its volumes: the data of a lab is not kept."""
    _compose("down", "--volumes", "--remove-orphans", timeout_s=_DOWN_TIMEOUT_S)


def remove(services: Sequence[str]) -> None:
    """Removes the containers of some services and their volumes, and leaves the others running."""
    _compose("rm", "--stop", "--force", *services, timeout_s=_DOWN_TIMEOUT_S)
    volumes = [f"{PROJECT}_{service}-{kind}" for service in services for kind in ("data", "log")]
    _expect(_docker("volume", "rm", "--force", *volumes, timeout_s=_TIMEOUT_S), "volumes cannot be removed")


def restart(services: Sequence[str]) -> None:
    _compose("restart", *services, timeout_s=_DOWN_TIMEOUT_S)


def containers() -> dict[str, Container]:
    """The project's containers by service, ended ones too."""
    output = _compose("ps", "--all", "--format", "json").strip()
    # An array up to Compose 2.20, an object a line from then on.
    rows = json.loads(output) if output.startswith("[") else [json.loads(line) for line in output.splitlines()]
    return {str(row["Service"]): _container(row) for row in rows}


def log(service: str, tail: str = "all") -> str:
    """What a container logged."""
    return _compose("logs", "--no-color", "--no-log-prefix", "--tail", tail, service)


def last_line(service: str) -> str:
    """The last line that a container logged, cut to 300 characters."""
    try:
        said = log(service, "20")
    except ComposeError:
        return ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def version(service: str) -> str:
    """Of SQL Server: what a service's name ends in, and its profile."""
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
    """What it printed."""
    place = ("--project-directory", str(ROOT), "--file", str(COMPOSE_FILE), "--profile", profile)
    done = _docker("compose", *place, verb, *arguments, timeout_s=timeout_s, watch=watch)
    _expect(done, f"docker compose {verb} failed")
    return done.stdout


def _docker(
    *arguments: str, timeout_s: float, watch: Callable[[], None] = lambda: None
) -> subprocess.CompletedProcess[str]:
    """Runs to its end, or to that of the time, or until `watch` raises; in a session of its own, so that Ctrl-C reaches
    this process alone, which then ends it in its order."""
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
    """This process's, with what the file asks for: `down` and `ps` have to work without the word that `up` needs."""
    asked = {"ACCEPT_EULA": value("ACCEPT_EULA") or "N", _PASSWORD: value(_PASSWORD) or "none"}
    return {**os.environ, **asked}


# What Docker says -> what the user reads; {0} is what the pattern's group found.
_CAUSES = (
    (
        r"port is already allocated|address already in use",
        r"127\.0\.0\.1:(\d+)",
        "port {0} on 127.0.0.1 is taken: stop what listens there, or give another in .env (see docker-compose.yml)",
    ),
    (
        r"no matching manifest",
        r"for (\S+)",
        "Microsoft has no image of SQL Server for {0}: containers need a machine with x86-64",
    ),
    (r"no space left on device", "()", "the disk is full: docker system df says what takes it"),
    (
        r"permission denied while trying to connect",
        "()",
        "this user may not use Docker: sudo usermod -aG docker $USER, then sign in again",
    ),
    (
        r"Cannot connect to the Docker daemon|error during connect",
        "()",
        "the Docker engine does not answer: start it, e.g. sudo systemctl start docker",
    ),
)


def _expect(done: subprocess.CompletedProcess[str], failure: str) -> None:
    """ComposeError of one line where a command failed: what to do, or else Docker's own reason."""
    if done.returncode == 0:
        return
    said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if line.strip())
    if secret := value(_PASSWORD):
        said = said.replace(secret, "***")
    for sign, detail, text in _CAUSES:
        if re.search(sign, said):
            found = re.search(detail, said)
            raise ComposeError(text.format(found[1] if found else "?"))
    last = said.splitlines()[-1].strip() if said else f"exit code {done.returncode}"
    raise ComposeError(f"{failure}: {last.removeprefix('Error response from daemon: ')[:300]}")
