"""Run Docker Compose for the lab: a thin wrapper over the command `docker` that reports failures in one line.

The project is `docker-compose.yml` at the root of the checkout. Compose and this module take values from the
environment and from `.env` beside that file. This module creates `.env` on first use, keeps it readable by this user
alone, and passes the password to Compose in the environment only. Of Docker's output it reports one line, without the
password. `.env` is refused if others may read it and it belongs to somebody else; values in it are never overwritten.
"""

import contextlib
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.definitions.matrix import INITIATORS_MAX
from harness.definitions.units import counted
from harness.failures import MachineFailure
from harness.lab import passwords
from harness.lab.drivers import Secret
from harness.lab.placement import Machine
from harness.machine.places import COMPOSE_FILE, PROJECT_FOLDER

ROOT = PROJECT_FOLDER  # .env lies there
PROJECT = "service-broker-harness"
LICENCE = "https://go.microsoft.com/fwlink/?LinkId=746388"

ENV_FILE = ".env"

_PASSWORD = "MSSQL_SA_PASSWORD"
_INITIATORS = "MSSQL_INITIATORS"
_MEMORY_MB = "MSSQL_MEMORY_LIMIT_MB"
_MEMORY_DEFAULT_MB = 2400  # of docker-compose.yml
_MEMORY_MAX_MB = 1024**2
_VOLUMES = "volumes"  # the service that prepares volumes and ends
_HEAD = """\
# Values for docker-compose.yml, whose head lists their names. Written on first use, never overwritten.
# ACCEPT_EULA=Y says that you accept Microsoft's licence terms for SQL Server.
"""
PROBE_TIMEOUT_S = 3.0  # for the default lab: a user who names Docker waits longer
_TIMEOUT_S = 60.0
_UP_TIMEOUT_S = 300.0
_DOWN_TIMEOUT_S = 120.0
_PULL_TIMEOUT_S = 3600.0
_WATCH_S = 0.2
_SERVER_VERSION = "{{.Server.Version}}"


def cpuset_variable(service: str) -> str:
    """Return the name of the variable with the processors of a service."""
    return f"MSSQL_{service.upper()}_CPUSET"


class ComposeError(MachineFailure):
    """Docker cannot do what the lab needs. The message says what is missing and how to get it."""


@dataclass(frozen=True)
class Engine:
    """What `docker info` says of the machine on which containers run."""

    processors: int
    memory_bytes: int
    kernel: str  # such as 6.12.48-amd64
    root: str  # the folder in which the volumes lie, on that machine
    is_rootless: bool

    @property
    def kernel_version(self) -> tuple[int, int]:
        """Major and minor version, (0, 0) if the engine does not say."""
        match = re.match(r"(\d+)\.(\d+)", self.kernel)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    def is_on(self, machine: Machine) -> bool:
        """Return whether containers run on this machine's kernel, not on another's or a virtual one's."""
        return self.kernel == platform.release() and self.processors == len(machine.online)

    def free_disk_bytes(self) -> int | None:
        """What is free where the volumes lie; None if that is another machine's disk, or may not be asked."""
        if not self.is_on(Machine.here()):
            return None
        try:
            return shutil.disk_usage(self.root).free
        except OSError:
            return None


class EnvFileError(MachineFailure):
    """The file cannot be used, because of its owner, its mode or a value in it."""


@dataclass(frozen=True)
class Container:
    """A container of the project, as `docker compose ps` shows it."""

    service: str
    name: str
    version: str  # of SQL Server, by the image's tag
    state: str  # created | running | restarting | exited | dead ...
    health: str  # "" without a check, else starting | healthy | unhealthy
    exit_code: int
    ports: Mapping[int, int]  # the container's -> the one on 127.0.0.1

    @property
    def is_running(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True)
class Inspected:
    """What `docker inspect` says of a container that runs."""

    cpuset: str  # its processors; empty: all
    address: str  # in the project's network
    gateway: str  # of that network: the address that the machine with the bridge has in it
    id: str
    process: int  # its first process, on the engine's machine; 0: none


def engine_answers() -> bool:
    """Return whether a Docker engine answers on this machine within three seconds."""
    try:
        return _docker("version", "--format", _SERVER_VERSION, timeout_s=PROBE_TIMEOUT_S).returncode == 0
    except ComposeError:
        return False


def check() -> None:
    """Raise ComposeError unless the engine answers, Compose is installed and the licence terms are accepted."""
    _expect(_docker("version", "--format", _SERVER_VERSION, timeout_s=_TIMEOUT_S), "Docker does not answer")
    if _docker("compose", "version", timeout_s=_TIMEOUT_S).returncode:
        raise ComposeError(
            "the command docker has no Compose plugin: apt-get install docker-compose-v2 (Ubuntu) or "
            "docker-compose-plugin (Docker's own packages)"
        )
    if value("ACCEPT_EULA").upper() != "Y":
        raise ComposeError(
            "Microsoft's licence terms for SQL Server are not accepted. To accept them, set ACCEPT_EULA=Y in the "
            f"environment or in {ROOT / ENV_FILE} ({LICENCE})"
        )


def value(name: str) -> str:
    """Return a variable's value as Compose finds it: in the environment, else in .env, else ""."""
    return os.environ.get(name) or _env_values().get(name) or ""


def password() -> Secret:
    """Return sa's password: from the environment, else from .env, where it is created on first use.

    Raises EnvFileError if SQL Server would refuse it.
    """
    password_ = value(_PASSWORD)
    if not password_:
        password_ = passwords.new()
        _add_to_env_file(f"{_PASSWORD}={password_}\n")
    if not passwords.satisfies_policy(password_):
        raise EnvFileError(
            f"{_PASSWORD} in {place(_PASSWORD)} is too weak for SQL Server: use 8 characters or more, of three of "
            "these kinds: upper case, lower case, digits, others"
        )
    return Secret(password_)


def place(name: str = _PASSWORD) -> str:
    """Return where a user finds a variable, by default the password."""
    return "the environment" if os.environ.get(name) else str(ROOT / ENV_FILE)


def initiators() -> int | None:
    """Return the number of initiators that the user gives the lab; None without one. Raises EnvFileError."""
    return _number(_INITIATORS, INITIATORS_MAX)


def _number(name: str, most: int) -> int | None:
    text = value(name)
    if text and not (text.isdecimal() and 1 <= int(text) <= most):
        raise EnvFileError(f"{name} in {place(name)} is {text!r}: write a number from 1 to {most:,}")
    return int(text) if text else None


def engine() -> Engine:
    """Ask the engine about its machine. Source: https://docs.docker.com/reference/cli/docker/system/info/"""
    answer = _docker("info", "--format", "{{json .}}", timeout_s=_TIMEOUT_S)
    _expect(answer, "docker info failed")
    information = json.loads(answer.stdout)
    return Engine(
        int(information.get("NCPU") or 0),
        int(information.get("MemTotal") or 0),
        str(information.get("KernelVersion") or ""),
        str(information.get("DockerRootDir") or "Docker's folder"),
        any("name=rootless" in option for option in information.get("SecurityOptions") or ()),
    )


def require_memory(engine: Engine, instances: int) -> None:
    """Raise ComposeError if the engine's machine has less memory than so many instances of SQL Server take."""
    each_mb = _number(_MEMORY_MB, _MEMORY_MAX_MB) or _MEMORY_DEFAULT_MB
    if 0 < engine.memory_bytes < instances * each_mb * 1024**2:
        fitting = engine.memory_bytes // (each_mb * 1024**2) - 1
        fewer = (
            f"ask for at most {counted(fitting, 'initiator')} ({_INITIATORS}={fitting})"
            if fitting > 0
            else "give it more"
        )
        raise ComposeError(
            f"{instances} instances of SQL Server take {instances * each_mb:,} MB of memory, and Docker has "
            f"{engine.memory_bytes // 1024**2:,} MB: {fewer}, or lower {_MEMORY_MB} (2000 or more)"
        )


def up(
    services: Sequence[str],
    *,
    version: str,
    cpusets: Mapping[str, str],
    watch: Callable[[], None],
    tell: Callable[[str], None],
) -> None:
    """Start services of a version, each on its processors, and what they depend on. Services that run are left alone.

    A service without an entry in `cpusets` has all processors.
    """
    check()
    password()
    for image in sorted(set(_compose("config", "--images", values={"MSSQL_VERSION": version}).split())):
        if _docker("image", "inspect", image, timeout_s=_TIMEOUT_S).returncode:
            tell(f"pulling {image} (once)")
            pulled = _docker("pull", "--quiet", image, timeout_s=_PULL_TIMEOUT_S, watch=watch)
            _expect(pulled, f"the image {image} cannot be pulled")
    values = {"MSSQL_VERSION": version, **{cpuset_variable(name): text for name, text in cpusets.items()}}
    _compose("up", "--detach", "--no-recreate", *services, values=values, timeout_s=_UP_TIMEOUT_S, watch=watch)


def down() -> None:
    """Remove every container of the project, its network and its volumes, hence all data."""
    _compose("down", "--volumes", "--remove-orphans", timeout_s=_DOWN_TIMEOUT_S)


def remove(services: Sequence[str]) -> None:
    """Remove the containers of some services and their volumes. The others keep running."""
    # A volume is in use as long as any container has it, also one that has ended.
    _compose("rm", "--stop", "--force", *services, _VOLUMES, timeout_s=_DOWN_TIMEOUT_S)
    volumes = [f"{PROJECT}_{service}-{kind}" for service in services for kind in ("data", "log")]
    _expect(_docker("volume", "rm", "--force", *volumes, timeout_s=_TIMEOUT_S), "volumes cannot be removed")


def restart(services: Sequence[str]) -> None:
    _compose("restart", *services, timeout_s=_DOWN_TIMEOUT_S)


def containers() -> dict[str, Container]:
    """Return the project's containers of SQL Server by service, including those that have ended."""
    output = _compose("ps", "--all", "--format", "json").strip()
    # Compose prints an array up to version 2.20, and one object a line since.
    rows = json.loads(output) if output.startswith("[") else [json.loads(line) for line in output.splitlines()]
    return {str(row["Service"]): _container(row) for row in rows if row["Service"] != _VOLUMES}


def running_version() -> str:
    """Return the version of SQL Server whose containers run; "" where none run, or no engine says so."""
    try:
        return next((each.version for each in containers().values() if each.is_running), "")
    except MachineFailure:
        return ""


def inspected(containers: Sequence[Container]) -> list[Inspected]:
    """Ask the engine what each container really has, whatever the file says now."""
    answer = _docker("inspect", *(container.name for container in containers), timeout_s=_TIMEOUT_S)
    _expect(answer, "docker inspect failed")
    return [_inspected(row) for row in json.loads(answer.stdout)]


def run_in(container: str, script: str) -> str:
    """Run a script of sh in a container, as the user of its server, and return what it prints."""
    answer = _docker("exec", container, "sh", "-c", script, timeout_s=_TIMEOUT_S)
    _expect(answer, f"docker exec {container} failed")
    return answer.stdout


def _inspected(row: Mapping[str, Any]) -> Inspected:
    networks = list((row["NetworkSettings"].get("Networks") or {}).values())
    network = networks[0] if len(networks) == 1 else {}
    return Inspected(
        str(row["HostConfig"].get("CpusetCpus") or ""),
        str(network.get("IPAddress") or ""),
        str(network.get("Gateway") or ""),
        str(row["Id"]),
        int(row["State"].get("Pid") or 0),
    )


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


def _container(row: Mapping[str, object]) -> Container:
    publishers = row.get("Publishers") or []
    assert isinstance(publishers, list)
    ports = {
        int(publisher["TargetPort"]): int(publisher["PublishedPort"])
        for publisher in publishers
        if publisher.get("PublishedPort")
    }
    return Container(
        service=str(row["Service"]),
        name=str(row["Name"]),
        version=str(row["Image"]).rpartition(":")[2].removesuffix("-latest"),
        state=str(row["State"]),
        health=str(row.get("Health") or ""),
        exit_code=int(str(row.get("ExitCode") or 0)),
        ports=ports,
    )


# -- the command -------------------------------------------------------------------------------------------------------


def _compose(
    verb: str,
    *arguments: str,
    values: Mapping[str, str] = MappingProxyType({}),
    timeout_s: float = _TIMEOUT_S,
    watch: Callable[[], None] = lambda: None,
) -> str:
    """Run a command of Compose and return its output; `values` are those of docker-compose.yml."""
    all_instances = str(INITIATORS_MAX)  # the profile *, all services, would have the harness itself too
    project = ("--project-directory", str(ROOT), "--file", str(COMPOSE_FILE), "--profile", all_instances)
    answer = _docker("compose", *project, verb, *arguments, values=values, timeout_s=timeout_s, watch=watch)
    _expect(answer, f"docker compose {verb} failed")
    return answer.stdout


def _docker(
    *arguments: str,
    values: Mapping[str, str] = MappingProxyType({}),
    timeout_s: float,
    watch: Callable[[], None] = lambda: None,
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
            env=_environment(values),
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


def _environment(values: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with values for docker-compose.yml. `down` works without ACCEPT_EULA."""
    variables = {"ACCEPT_EULA": value("ACCEPT_EULA") or "N", _PASSWORD: value(_PASSWORD) or "none"}
    return {**os.environ, **variables, **values}


# Docker's words, a detail in them, and the message to the user; {0} is the detail.
_CAUSES = (
    (
        r"port is already allocated|address already in use",
        r"127\.0\.0\.1:(\d+)",
        "port {0} on 127.0.0.1 is in use: stop what listens there, or set another in .env (see docker-compose.yml)",
    ),
    (
        r"Requested CPUs are not available",
        r"requested (\S+),",
        "the machine on which Docker runs lacks some of the processors {0}: see docker-compose.yml on MSSQL_..._CPUSET",
    ),
    (
        r"no matching manifest",
        r"for (\S+)",
        "Microsoft has no image of SQL Server for {0}: use a machine with x86-64, or emulate one, whose numbers mean "
        "nothing (DOCKER_DEFAULT_PLATFORM=linux/amd64)",
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
        "the Docker engine does not answer: start Docker Desktop, or sudo systemctl start docker",
    ),
)


def _expect(answer: subprocess.CompletedProcess[str], failure: str) -> None:
    """Raise ComposeError if a command failed, with what to do about it or else Docker's own reason."""
    if answer.returncode == 0:
        return
    output = "\n".join(line for line in (answer.stdout + answer.stderr).splitlines() if line.strip())
    if secret := value(_PASSWORD):
        output = output.replace(secret, "***")
    for sign, detail, text in _CAUSES:
        if re.search(sign, output):
            match = re.search(detail, output)
            raise ComposeError(text.format(match[1] if match else "?"))
    last = output.splitlines()[-1].strip() if output else f"exit code {answer.returncode}"
    raise ComposeError(f"{failure}: {last.removeprefix('Error response from daemon: ')[:300]}")


# -- .env --------------------------------------------------------------------------------------------------------------


def _env_values() -> dict[str, Secret]:
    """Return the values of the file, none if there is no file. Its mode is corrected first."""
    path = ROOT / ENV_FILE
    try:
        _make_private(path)
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise EnvFileError(f"{path} cannot be read: {error}") from None
    values: dict[str, Secret] = {}
    for line in lines:
        name, sign, text = line.strip().removeprefix("export ").partition("=")
        if sign and not name.startswith("#"):
            values[name.strip()] = Secret(_unquoted(text.strip()))
    return values


def _make_private(path: Path) -> None:
    status = path.stat()
    if not stat.S_IMODE(status.st_mode) & 0o077:
        return
    try:
        path.chmod(0o600)
    except PermissionError:
        raise EnvFileError(
            f"{path} holds a password that others may read, and belongs to another user: have its owner chmod 600 it"
        ) from None


def _add_to_env_file(line: str) -> None:
    """Add a line by replacing the file, so that nobody reads half of it."""
    path = ROOT / ENV_FILE
    try:
        before = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        before = _HEAD
    if before and not before.endswith("\n"):
        before += "\n"
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(before + line)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise EnvFileError(f"{path} cannot be written: {error.strerror}") from None


def _unquoted(text: str) -> str:
    """Return a value without quotes, or without the comment that follows it, as Compose reads it."""
    if len(text) > 1 and text[0] in "'\"" and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    return text.partition(" #")[0].strip()
