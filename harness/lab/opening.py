"""Select a lab, open it, and say how to connect to it.

The selected lab is the one that the user names, else the servers of a lab file, else containers if Docker answers, else
the embedded one. To open it means to start instances or to sign in to them, to install the scripts and to link.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import join, quote
from typing import Any, Literal

from harness.definitions import lab_kinds
from harness.definitions.lab_kinds import CONTAINERS, EMBEDDED, SERVERS, SIMULATED, LabKind
from harness.definitions.matrix import INITIATORS, INITIATORS_MAX
from harness.failures import MachineFailure, nearest
from harness.files import lab_file as lab_files
from harness.files import settings as settings_module
from harness.files import workload_file
from harness.files.lab_file import LabFile
from harness.files.settings import SIMULATED_VERSIONS, Settings, SettingsError
from harness.files.workload_file import Workload
from harness.lab import compose, containers, drivers, embedded_instances, link, placement, user_servers
from harness.lab.brakes import Brakes
from harness.lab.drivers import Secret
from harness.lab.instances import Instance, Lab, LabError, Security
from harness.lab.pulse import Pulse


@dataclass(frozen=True)
class Topology:
    """Which instances a lab has, how their links are secured, and what is installed on them."""

    kind: LabKind = EMBEDDED
    lab_file: LabFile | None = None
    security: Security = field(default_factory=Security)
    workload: Workload = field(default_factory=workload_file.paper)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of SQL Server that this topology offers, the oldest first."""
        if self.lab_file is not None:
            return (self.lab_file.version,)
        if self.kind is SIMULATED:
            return SIMULATED_VERSIONS
        return embedded_instances.VERSIONS if self.kind is EMBEDDED else containers.VERSIONS

    @property
    def sweep_versions(self) -> tuple[str, ...]:
        """The version axis of a sweep."""
        if self.lab_file is not None or self.kind is SIMULATED:
            return self.versions
        return embedded_instances.SWEEP_VERSIONS if self.kind is EMBEDDED else containers.SWEEP_VERSIONS

    @property
    def initiators_max(self) -> int:
        """Those of the lab file or of the containers (`containers.initiators`); else as many as a cell may have."""
        return self._initiators or INITIATORS_MAX

    @property
    def initiators_usual(self) -> int:
        """How many to start where no cell says it: all that the lab names, else the paper's."""
        return self._initiators or INITIATORS[-1]

    @property
    def _initiators(self) -> int | None:
        """How many the lab names, if it does."""
        if self.lab_file is not None:
            return len(self.lab_file.initiators)
        return containers.initiators() if self.kind is CONTAINERS else None


@dataclass(frozen=True)
class Selection:
    """The selected lab, the reason for it, and the settings with that lab's defaults."""

    settings: Settings
    topology: Topology
    why: str

    @property
    def first_line(self) -> str:
        """The line with which every command that uses a lab begins."""
        return f"lab: {self.topology.kind.name} ({self.why}) - {self.topology.kind.words.nature}"


def select_lab(
    options: Mapping[str, Any],
    *,
    settings_file: Path | None = None,
    stored: Mapping[str, Any] | None = None,
    times: Mapping[str, Mapping[str, float]] | None = None,
    engine_answers: Callable[[], bool] = compose.engine_answers,
) -> Selection:
    """Select settings and lab from options, environment and settings file.

    `stored` are the settings of a run that is resumed, `times` the default durations by the lab's name: those of a
    matrix unless given. Raises SettingsError or UsageFailure if options contradict each other.
    """
    why = ""

    def defaults(options_given: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal why
        lab, why = _lab(options_given if stored is None else {**stored, **options_given}, engine_answers)
        matrix = options_given.get("matrix")
        of_lab = (times or lab_kinds.times("matrix")).get(lab, {})
        of_matrix = matrix.settings(lab) if matrix else {}
        return {"lab": lab, **of_lab, "server_versions": (), **of_matrix, **(stored or {})}

    settings = settings_module.create(options, file=settings_file, defaults=defaults)
    topology = Topology(
        settings.kind,
        lab_files.read(settings.lab_file) if settings.lab_file else None,
        Security(settings.dialog_security, settings.endpoint_encryption),
        settings.workload,
    )
    versions = settings.server_versions or topology.sweep_versions
    if topology.kind is CONTAINERS and not settings.server_versions and (running := compose.running_version()):
        versions, why = (running,), f"{why}; version {running}, whose containers run"
    for version in versions:
        if version not in topology.versions:
            raise SettingsError(
                f"the {settings.lab} lab has no server version {version!r}{nearest(version, topology.versions)}"
            )
    return Selection(settings.model_copy(update={"server_versions": versions}), topology, why)


def _lab(options: Mapping[str, Any], engine_answers: Callable[[], bool]) -> tuple[str, str]:
    """Return the lab's name and the reason for it."""
    lab_name, file = options.get("lab"), options.get("lab_file")
    if lab_name == EMBEDDED.name and file:
        raise SettingsError(f"--lab {lab_name} cannot use the servers of {file}: leave out one of the two options")
    if lab_name and not file:
        return str(lab_name), "as selected"
    if file:
        return SERVERS.name, f"the servers of {file}"
    if engine_answers():
        return CONTAINERS.name, "the default where a Docker engine answers"
    return EMBEDDED.name, "the default where no Docker engine answers and no lab.toml is given"


def machine_lines(kind: LabKind, instances: int) -> list[str]:
    """Say what so many instances find on this machine, if they are to run on it and nothing of it is known yet."""
    return containers.machine_lines(instances) if kind is CONTAINERS else []


def require_startable(kind: LabKind) -> None:
    """Raise MachineFailure if this machine lacks what such a lab needs, before anything is started."""
    if kind is CONTAINERS:
        compose.check()


@contextlib.contextmanager
def open(
    topology: Topology,
    *,
    version: str,
    initiators: int = 1,
    directory: Path | None = None,
    driver: drivers.Kind | Literal["auto"] = "auto",
    watch: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda text: None,
    confirm: Callable[[str], bool] = lambda question: True,
    is_patient: bool = True,
) -> Iterator[Lab]:
    """Open a lab of one target and `initiators` initiators, linked and without dialogs; close it after the block.

    Logs lie in `directory`, and so does the data of embedded instances while the lab is open; without one, in a
    temporary directory. `watch` may raise to end whatever waits for the lab (see `interruption`); `tell` gets a line
    for each long step, and where an instance answers no more, which soon counts as dead unless `is_patient` (`pulse`).
    `confirm` is asked before anything is created on a user's own servers: where it says no, Declined is raised.
    If opening fails, what it created is removed. Call it from the main thread. Raises LabError, drivers.NoDriver or
    ScriptError.
    """
    if version not in topology.versions:
        raise LabError(f"the {topology.kind.name} lab has no version {version!r}{nearest(version, topology.versions)}")
    drivers.check_manager()
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-lab-")))
        chosen = drivers.choose(driver)
        if topology.lab_file is not None:
            lab = user_servers.lab_of(topology.lab_file, initiators=initiators, directory=directory, driver=chosen)
        elif topology.kind is CONTAINERS:
            lab = stack.enter_context(
                containers.running(
                    version=version, initiators=initiators, directory=directory, driver=chosen, watch=watch, tell=tell
                )
            )
        else:
            lab = stack.enter_context(
                embedded_instances.running(version=version, initiators=initiators, directory=directory, driver=chosen)
            )
        lab.watch = watch
        lab.security, lab.workload = topology.security, topology.workload
        lab.end_pulse = Pulse(lab, tell, is_patient=is_patient).end
        stack.callback(lab.end_pulse)
        by_script = topology.lab_file is not None and topology.lab_file.by_script
        if topology.lab_file is not None:
            user_servers.prepare(topology.lab_file, lab, tell, confirm)
        try:
            (link.adopt if by_script else link.link)(lab)
        except BaseException as error:
            lab.end_pulse()
            if lab.kind is SERVERS and not by_script:
                user_servers.abandon(lab, tell)
            if isinstance(error, MachineFailure):
                lab.check()  # a dead instance is the reason for whatever failed with it
            raise
        stack.callback(user_servers.close, lab)
        stack.callback(lab.end_pulse)
        if topology.lab_file is not None and topology.lab_file.brakes and not is_patient:
            stack.callback(Brakes(lab, topology.lab_file, tell).end)
        if lab.kind is SERVERS:
            rows = zip(lab.instances, lab.identities, strict=True)
            lab.placement = placement.of_servers(
                (instance.name, instance.host, str(row["server_name"])) for instance, row in rows
            )
        if lab.kind is not EMBEDDED:  # there all share all
            tell(str(lab.placement))
        stack.enter_context(placement.pinned(lab.placement.clients))
        yield lab


def how_to_connect(lab: Lab) -> Iterator[str]:
    """Yield how to connect to each instance. An embedded lab's password is written to a file of this user's."""
    secret = None
    if lab.kind is EMBEDDED:
        assert lab.target.login is not None
        secret = lab.directory / "password"
        secret.unlink(missing_ok=True)  # one that is there already could have another mode
        descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(lab.target.login.password)
        yield f"login: sa; password, valid while the lab is open: cat {quote(str(secret))}"
    elif lab.kind is CONTAINERS:
        yield f"login: sa; its password is in {compose.place()}"
    for instance in lab.instances:
        words = ["-C"] if instance.trust_server_certificate else []
        words += ["-S", f"{instance.host},{instance.port}"]
        words += ["-U", instance.login.user] if instance.login else ["-E"]
        if instance.login and instance.login.is_entra:
            words += ["--authentication-method=ActiveDirectoryServicePrincipal"]
        password_words = f"SQLCMDPASSWORD=$(cat {quote(str(secret))}) " if secret else ""
        yield f"{instance.name}: {instance.host},{instance.port} database {instance.database}"
        yield f"  {password_words}{join(['sqlcmd', *words, '-d', instance.database])}"
        yield f"  {_pyodbc(instance, secret)}"


def _pyodbc(instance: Instance, secret: Path | None) -> str:
    """Return Python that connects; it reads the password, or asks for it."""
    if instance.login is None:
        return f"pyodbc.connect({str(instance.connection_string())!r})"
    unknown = replace(instance, login=replace(instance.login, password=Secret("?")))
    before, _, after = unknown.connection_string().rpartition("{?}")
    password = f"open({str(secret)!r}).read()" if secret else "getpass.getpass()"
    return f"pyodbc.connect({before!r} + {password} + {after!r})"
