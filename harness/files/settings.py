"""Every setting of a run, validated; the only reader of the environment and of settings files.

`Settings` are those of a run on servers, `SimulationSettings` those of a run in virtual time. A value comes from the
first of these that has one: the command line, the environment (`HARNESS_MEASURE=2s`), a settings file (TOML, flat), the
lab's defaults (`harness.definitions.lab_kinds`, `harness.lab.opening`), the default below. A misspelt setting is a
one-line error that names the nearest valid one. The manifest of a run has all settings; `RESUME_MAY_DIFFER` names those
that may change when a run is resumed.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from harness.definitions import lab_kinds
from harness.definitions.lab_kinds import LabKind
from harness.definitions.load_model import RATE_MAX_PER_S, Arrivals, OpenLoop, parse_rate
from harness.definitions.matrix import INITIATORS_MAX
from harness.failures import UsageFailure, nearest
from harness.files import matrix_file, toml_file, workload_file
from harness.files.matrix_file import (
    Axes,
    Duration,
    Initiators,
    Matrix,
    Measure,
    Payloads,
    Ratios,
    Repeats,
    Settle,
    Threads,
)
from harness.files.toml_file import in_words
from harness.files.workload_file import Workload

PREFIX = "HARNESS_"
# Secrets are not settings: the embedded servers' password, which their parent passes on, those of own servers and of
# the test clients' login on them, and the token of test clients on other machines.
TOKEN = "HARNESS_TOKEN"  # that a worker must know to join
MASTER_PORT = 5557  # Locust's
CLIENT_PASSWORD = "HARNESS_CLIENT_PASSWORD"  # of the test clients' login, where an administrator has created it
TOKEN_LENGTH_MIN = 16  # a shorter one could be guessed from a recorded handshake
SECRETS = frozenset(
    {
        TOKEN,
        CLIENT_PASSWORD,
        "HARNESS_SA_PASSWORD",
        "HARNESS_PASSWORD",
        "HARNESS_PASSWORD_TARGET",
        *(f"HARNESS_PASSWORD_INITIATOR_{number}" for number in range(1, INITIATORS_MAX + 1)),
    }
)
# The processors that compute a simulated run do not change its numbers.
RESUME_MAY_DIFFER = frozenset({"master"})

_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]|yarn|(spark|k8s)://\S+")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


class SettingsError(UsageFailure):
    """An unknown setting, or one with a wrong value."""


PaperVersion = Literal["2005", "2008"]
SIMULATED_VERSIONS: tuple[PaperVersion, ...] = ("2005", "2008")


def parse_percent(text: object) -> float:
    """The part of a percentage: 0.05 of `5%`; raises ValueError unless it lies between 0 % and 100 %."""
    match = _PERCENT.fullmatch(str(text).strip())
    part = text if isinstance(text, float) else float(match[1]) / 100 if match else 0.0
    if not 0 < part < 1:
        raise ValueError(f"{text!r} is no percentage between 0 % and 100 %: write 5%")
    return part


def _known_lab(name: str) -> str:
    if name not in lab_kinds.SERVER_NAMES:
        raise ValueError(f"unknown lab {name!r}{nearest(name, lab_kinds.SERVER_NAMES)}")
    return name


def _simulated(name: str) -> str:
    if not lab_kinds.named(name).can.virtual_time:
        raise ValueError(f"a run in virtual time is on the lab {lab_kinds.SIMULATED.name}, not on {name!r}")
    return name


def _words(value: object) -> object:
    """Split patterns at white space: make passes several in one value."""
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, (list, tuple)):
        return tuple(word for text in value for word in str(text).split())
    return value


def spark_master(text: str) -> str:
    """The text, if it names a Spark; raises ValueError."""
    if _MASTER.fullmatch(text) is None:
        raise ValueError(f"invalid Spark master {text!r}: write local[*], local[4], spark://host:7077 or yarn")
    return text


def _with_rate(arrivals: Arrivals | None, info: ValidationInfo) -> Arrivals | None:
    if arrivals and "rate" in info.data and info.data["rate"] is None:
        raise ValueError("arrivals are those of an open loop: give its rate with --rate as well")
    return arrivals


def _without_rate(workload: Workload, info: ValidationInfo) -> Workload:
    if workload.client.think_time and info.data.get("rate"):
        raise ValueError(f"the clients of {workload} have a think time, which an open loop does not: leave one out")
    return workload


def _without_payloads(workload: Workload, info: ValidationInfo) -> Workload:
    if workload.body.size and info.data.get("payloads"):
        raise ValueError(
            f"the bodies of {workload} have sizes of their own ({workload.body.size}): leave --payloads out"
        )
    return workload


def _with_extended_events(events: bool, info: ValidationInfo) -> bool:
    lab = info.data.get("lab", "")
    if events and not lab_kinds.named(lab).can.has_extended_events:
        raise ValueError(f"the {lab} server has no Extended Events: leave it out, or measure on SQL Server")
    return events


def _no_uri(results: Path) -> Path:
    # Pyarrow takes a path that begins like a URI for one, without slashes too.
    scheme = re.match(r"[a-z][a-z0-9+.-]*:", str(results), re.IGNORECASE)
    if scheme and scheme[0].lower() == "file:":
        raise ValueError("a run is written to a folder: name it by its path, without file:")
    if scheme:
        raise ValueError("a run is written to a folder: name one, and copy the run to its store afterwards")
    return results


def _percent(value: object) -> float | None:
    return None if value is None else parse_percent(value)


Rate = Annotated[float, BeforeValidator(parse_rate)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_words)]


class RunSettings(BaseModel):
    """The settings of every run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lab: str = Field(description="where the instances run")
    server_versions: Patterns = Field(("2005", "2008"), description="the version axis of the matrix")
    matrix: Matrix = Field(
        default_factory=lambda: matrix_file.read(matrix_file.PAPER), description="which cells: a name or a file"
    )
    initiators: Initiators | None = Field(None, description="an axis in place of the matrix's")
    threads: Threads | None = Field(None, description="the same: client threads per initiator")
    ratios: Ratios | None = Field(None, description="the same: with dialog ratio 150 every 150th dialog is used")
    payloads: Payloads | None = Field(None, description="the same: bytes a message")
    cells: Patterns = Field((), description="shell patterns on cell ids")
    repeats: Repeats = Field(1, description="blocks: how often each cell is run")
    precision: Annotated[float | None, BeforeValidator(_percent)] = Field(
        None, description="a pair is repeated until the interval of its gain is narrower, as a part of the gain"
    )
    measure: Measure = Field(1.0, description="length of the measured window")
    settle: Settle = Field(
        2.0, description="longest wait for a steady state before the measured window; the shortest is half, or 10 s"
    )
    drain: Annotated[Duration, Field(gt=0, le=24 * 3600)] = Field(
        60.0, description="longest wait until everything sent has been processed"
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(1, description="decides the order of the cells")
    rate: Annotated[Rate, Field(gt=0, le=RATE_MAX_PER_S)] | None = Field(
        None, description="sends a second of each initiator, in an open loop; none: the closed loop"
    )
    arrivals: Annotated[Arrivals | None, AfterValidator(_with_rate)] = Field(
        None, description="the open loop's intended starts: constant intervals, or a Poisson process by the seed"
    )
    results: Annotated[Path, AfterValidator(_no_uri)] = Field(
        Path("results"), description="folder that receives a folder per run"
    )

    @property
    def axes(self) -> Axes:
        """The axes in place of the matrix's."""
        return Axes(**{name: getattr(self, name) for name in Axes.model_fields})

    @property
    def kind(self) -> LabKind:
        """The kind of lab on which the run is."""
        return lab_kinds.named(self.lab)

    @property
    def is_whole_paper(self) -> bool:
        """Whether nothing but the paper's whole matrix is selected."""
        return self.matrix.name == matrix_file.PAPER and not self.cells and not self.axes.given()

    @property
    def open_loop(self) -> OpenLoop | None:
        """The load model of the clients; None: the closed loop."""
        return None if self.rate is None else OpenLoop(self.rate, self.arrivals or "constant", self.seed)


class Settings(RunSettings):
    """The settings of a run on servers."""

    lab: Annotated[str, AfterValidator(_known_lab)] = Field(
        lab_kinds.EMBEDDED.name, description="where the instances run"
    )
    lab_file: Annotated[Path, AfterValidator(Path.absolute)] | None = Field(
        None, description="lab.toml, which names servers of SQL Server"
    )
    dialog_security: bool = Field(True, description="dialogs are encrypted and signed, as in the paper")
    endpoint_encryption: bool = Field(False, description="connections between instances are encrypted as well")
    driver: Literal["auto", "microsoft", "freetds"] = Field("auto", description="ODBC driver of clients and harness")
    workload: Annotated[Workload, AfterValidator(_without_rate), AfterValidator(_without_payloads)] = Field(
        default_factory=workload_file.paper, description="what is sent and what is done with it: a name or a folder"
    )
    master_bind_host: str | None = Field(
        None, description="where Locust's master listens for workers that join; none: workers of this machine"
    )
    master_bind_port: Annotated[int, Field(ge=1, le=65535)] = Field(MASTER_PORT, description="the same: its port")
    workers_per_initiator: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="processes among which the threads of an initiator are divided"
    )
    blocks: Literal["fresh", "warm"] = Field(
        "fresh", description="each block has instances and dialogs of its own; or all share them, which costs less"
    )
    warm_up: Literal["all", "used"] | None = Field(
        None, description="dialogs that send a message before the load: all of a pool, or those that a cell uses"
    )
    soak: bool = Field(False, description="one cell again and again on the same instances: nothing is rebuilt")
    restart_target: bool = Field(False, description="the user restarts the target in the middle of a soak")
    events: Annotated[bool, AfterValidator(_with_extended_events)] = Field(
        False, description="events of latches and broker are recorded after the window of each cell's first block"
    )

    @property
    def kind(self) -> LabKind:
        return lab_kinds.SERVERS if self.lab_file else super().kind

    @property
    def axes(self) -> Axes:
        """The axes in place of the matrix's; a workload with sizes of its own has one payload, their mean."""
        bodies = self.workload.bodies
        mean = bodies.mean_bytes if bodies else None
        return super().axes if mean is None else super().axes.model_copy(update={"payloads": (mean,)})


class SimulationSettings(RunSettings):
    """The settings of a run in virtual time; its times are virtual seconds."""

    lab: Annotated[str, AfterValidator(_simulated)] = Field(
        lab_kinds.SIMULATED.name, description="a model, in virtual time"
    )
    server_versions: Annotated[tuple[PaperVersion, ...], BeforeValidator(_words)] = Field(
        SIMULATED_VERSIONS, description="the version axis of the matrix"
    )
    hardware: str = Field("paper", description="the model's parameters: a name of the package, or a TOML file")
    master: Annotated[str, AfterValidator(spark_master)] = Field(
        "local[*]", description="where Spark runs the cells; the results folder must be the same everywhere"
    )
    settle: Settle = Field(1.0, description="time before the measured window")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(1, description="decides every chance in the model")


_KINDS: tuple[type[RunSettings], ...] = (Settings, SimulationSettings)
_NO_EFFECT: dict[type[RunSettings], str] = {
    Settings: f"has no effect on servers: leave it out, or choose --lab {lab_kinds.SIMULATED.name}",
    SimulationSettings: f"does not go with the {lab_kinds.SIMULATED.name} lab: leave it out",
}
AnySettings = TypeVar("AnySettings", bound=RunSettings)
# Gets what was given, with the matrix read, and may return values for the rest.
Defaults = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def create(
    options: Mapping[str, Any],
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    defaults: Defaults = lambda given: {},
) -> Settings:
    """Settings from options (None: not given), the environment and a file; raises SettingsError or TomlError."""
    return _create(Settings, options, file, environment, defaults)


def create_simulation(
    options: Mapping[str, Any],
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    defaults: Defaults = lambda given: {},
) -> SimulationSettings:
    """Settings of a run in virtual time, whatever HARNESS_LAB says about other runs."""
    return _create(SimulationSettings, {**options, "lab": lab_kinds.SIMULATED.name}, file, environment, defaults)


def lab_in(file: Path) -> str | None:
    """The lab that a settings file names; raises TomlError."""
    return toml_file.read(file, "settings file").values.get("lab")


def _create(
    kind: type[AnySettings],
    options: Mapping[str, Any],
    file: Path | None,
    environment: Mapping[str, str] | None,
    defaults: Defaults,
) -> AnySettings:
    given: dict[str, Any] = {}
    names: dict[str, str] = {}
    if file:
        toml = toml_file.read(file, "settings file")
        for key, value in toml.values.items():
            if key not in kind.model_fields:
                known = any(key in other.model_fields for other in _KINDS)
                problem = _NO_EFFECT[kind] if known else f"unknown setting{nearest(key, list(kind.model_fields))}"
                raise toml.error((key,), problem)
            given[key], names[key] = value, f"{toml.where(key)}: {key}"
    for name, value in _from_environment(kind, os.environ if environment is None else environment).items():
        key = name.removeprefix(PREFIX).lower()
        if key in kind.model_fields:  # the others belong to other runs
            given[key], names[key] = value, name
    for key, value in options.items():
        if value is not None and value != ():
            if key not in kind.model_fields and any(key in other.model_fields for other in _KINDS):
                raise SettingsError(f"--{key.replace('_', '-')} {_NO_EFFECT[kind]}")
            given[key], names[key] = value, f"--{key.replace('_', '-')}"
    if isinstance(given.get("matrix"), str):
        given["matrix"] = matrix_file.read(given["matrix"])
    if isinstance(given.get("workload"), str):
        given["workload"] = workload_file.read(given["workload"])
    try:
        return kind(**{**defaults(given), **given})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else "settings"
        raise SettingsError(f"{names.get(key, key)}: {in_words(first, list(kind.model_fields))}") from None


def _from_environment(kind: type[RunSettings], environment: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name in SECRETS:
            continue
        key = name.removeprefix(PREFIX).lower()
        if not any(key in kind_.model_fields for kind_ in _KINDS):
            hint = re.sub(r"\w+(?=,|$)", lambda word: PREFIX + word[0].upper(), nearest(key, list(kind.model_fields)))
            raise SettingsError(f"unknown setting {name}{hint}")
        values[name] = value
    return values


def secret(name: str) -> str | None:
    """A secret from the environment, or None."""
    assert name in SECRETS, name
    return os.environ.get(name)


def load_token() -> str:
    """The token that lets test clients of other machines in; raises SettingsError if it is missing or short."""
    token = secret(TOKEN) or ""
    if len(token) < TOKEN_LENGTH_MIN:
        complaint = f"{TOKEN} has {len(token)} characters" if token else f"{TOKEN} is not set"
        raise SettingsError(f'{complaint}: export {TOKEN}="$(openssl rand -hex 16)", the same on all machines')
    return token


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process: this one's and `extra`, without settings, which children get otherwise."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    return inherited | {"PYTHONUNBUFFERED": "1"} | dict(extra)
