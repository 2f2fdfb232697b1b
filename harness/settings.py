"""Every setting of a run, validated, in one place; the only reader of the environment and of settings files.

`Settings` are those of a run on servers, `SimulationSettings` those of a run in virtual time. A value comes from, first
wins: the command line, the environment (`HARNESS_MEASURE=2s`), a settings file (TOML, flat), the lab's defaults
(`TIMES`, `harness.lab.selection`), the default below. Whatever is misspelt is an error of one line that names it and
the nearest valid one. The manifest of a run holds all of them; `RESUME_MAY_DIFFER` names those that may change when a
sweep is resumed.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from harness.failures import UsageFailure

PREFIX = "HARNESS_"
# Secrets, and no settings: the embedded servers' password, handed to them by their parent, and those of own servers.
SECRETS = frozenset(
    {
        "HARNESS_SA_PASSWORD",
        "HARNESS_PASSWORD",
        "HARNESS_PASSWORD_TARGET",
        *(f"HARNESS_PASSWORD_INITIATOR_{number}" for number in (1, 2, 3)),
    }
)
LABS = ("sqlserver", "embedded")
# Measured window, longest settling, longest draining in seconds.
TIMES: Mapping[str, Mapping[str, float]] = {
    "sqlserver": {"measure": 30.0, "settle": 10.0, "drain": 120.0},
    "embedded": {"measure": 1.0, "settle": 0.6, "drain": 60.0},
}
# Whose processors compute a simulated run makes no difference to its numbers.
RESUME_MAY_DIFFER = frozenset({"master"})

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]|yarn|(spark|k8s)://\S+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class SettingsError(UsageFailure):
    """A setting that is unknown or has a value it cannot have: one line."""


def nearest(word: str, valid: Sequence[str]) -> str:
    """`; nearest: a, b` or, where nothing is near, `; valid: a, b, c`."""
    close = difflib.get_close_matches(word.lower(), valid, n=3, cutoff=0.5)
    return f"; nearest: {', '.join(close)}" if close else f"; valid: {', '.join(valid)}"


def parse_duration(text: object) -> float:
    """Seconds of `500ms`, `1s`, `2m`, `1h`, or of a bare number of seconds."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    match = _DURATION.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration (examples: 500ms, 1s, 2m)")
    return float(match[1]) * _SECONDS[match[2]]


def _known_lab(name: str) -> str:
    if name not in LABS:
        raise ValueError(f"{name!r} is no lab{nearest(name, LABS)}")
    return name


def _words(value: object) -> object:
    """Patterns come one by one, or separated by white space in one value, as make passes them."""
    if isinstance(value, str):
        return tuple(value.split())
    if isinstance(value, (list, tuple)):
        return tuple(word for text in value for word in str(text).split())
    return value


def _spark_master(text: str) -> str:
    if _MASTER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no master of Spark (examples: local[*], local[4], spark://host:7077, yarn)")
    return text


Duration = Annotated[float, BeforeValidator(parse_duration)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_words)]


class RunSettings(BaseModel):
    """What every run can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lab: str = Field(description="where the instances run")
    server_versions: Patterns = Field(("2005", "2008"), description="the version axis of the matrix")
    cells: Patterns = Field((), description="shell patterns on cell ids")
    quick: bool = Field(False, description="24 cells that span all axes instead of all 528")
    measure: Annotated[Duration, Field(ge=0.1, le=24 * 3600)] = Field(1.0, description="length of the measured window")
    settle: Annotated[Duration, Field(ge=0, le=3600)] = Field(
        0.6, description="longest wait for a steady rate before the measured window; half of it is the shortest"
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(1, description="decides the order of the cells")
    results: Path = Field(Path("results"), description="folder that receives a folder per run")


class Settings(RunSettings):
    """What a run on servers can be told."""

    lab: Annotated[str, AfterValidator(_known_lab)] = Field("embedded", description="where the instances run")
    lab_file: Annotated[Path, AfterValidator(Path.absolute)] | None = Field(
        None, description="lab.toml, which names servers of SQL Server"
    )
    dialog_security: bool = Field(True, description="dialogs are encrypted and signed, as in the paper")
    endpoint_encryption: bool = Field(False, description="connections between instances are encrypted as well")
    driver: Literal["auto", "microsoft", "freetds"] = Field("auto", description="ODBC driver of clients and harness")
    drain: Annotated[Duration, Field(gt=0, le=24 * 3600)] = Field(
        60.0, description="longest wait until everything sent has been processed"
    )


class SimulationSettings(RunSettings):
    """What a run in virtual time can be told; its times are virtual seconds."""

    lab: Literal["simulated"] = Field("simulated", description="a model, in virtual time")
    server_versions: Annotated[tuple[Literal["2005", "2008"], ...], BeforeValidator(_words)] = Field(
        ("2005", "2008"), description="the version axis of the matrix"
    )
    hardware: str = Field("paper", description="the model's parameters: a name of the package, or a TOML file")
    master: Annotated[str, AfterValidator(_spark_master)] = Field(
        "local[*]", description="where Spark runs the cells; the results folder must be the same everywhere"
    )
    settle: Annotated[Duration, Field(ge=0, le=3600)] = Field(0.5, description="time before the measured window")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(1, description="decides every chance in the model")


_KINDS: tuple[type[RunSettings], ...] = (Settings, SimulationSettings)
AnySettings = TypeVar("AnySettings", bound=RunSettings)


def create(
    options: Mapping[str, Any],
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda given: {},
) -> Settings:
    """Settings from options (None: not given), the environment and a file; SettingsError if one is bad.

    `defaults` is told what was given and may give values for the rest.
    """
    return _create(Settings, options, file, environment, defaults)


def create_simulation(
    options: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda given: {},
) -> SimulationSettings:
    """The same for a run in virtual time."""
    # Whatever HARNESS_LAB says: that is where the other runs take place.
    return _create(SimulationSettings, {**options, "lab": "simulated"}, None, environment, defaults)


def _create(
    kind: type[AnySettings],
    options: Mapping[str, Any],
    file: Path | None,
    environment: Mapping[str, str] | None,
    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> AnySettings:
    given: dict[str, Any] = {}
    names: dict[str, str] = {}
    for key, value in (_from_file(file) if file else {}).items():
        given[key], names[key] = value, f"{key} in {file}"
    for name, value in _from_environment(kind, os.environ if environment is None else environment).items():
        key = name.removeprefix(PREFIX).lower()
        if key in kind.model_fields:  # others are of other runs
            given[key], names[key] = value, name
    for key, value in options.items():
        if value is not None and value != ():
            given[key], names[key] = value, f"--{key.replace('_', '-')}"
    try:
        return kind(**{**defaults(given), **given})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else "settings"
        raise SettingsError(f"{names.get(key, key)}: {_message(kind, key, first)}") from None


def _message(kind: type[RunSettings], key: str, error: Any) -> str:
    value = error.get("input")
    if error["type"] == "extra_forbidden":
        return f"there is no setting {key!r}{nearest(key, list(kind.model_fields))}"
    if error["type"] == "literal_error":
        valid = [word.strip(" '") for word in re.split(",| or ", error["ctx"]["expected"])]
        return f"{value!r} is not valid{nearest(str(value), valid)}"
    text = str(error["msg"]).removeprefix("Value error, ")
    return text if str(value) in text else f"{value!r}: {text[:1].lower()}{text[1:]}"


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        folder = file.parent if file.parent.is_dir() else Path()
        others = sorted(path.name for path in folder.glob("*.toml"))
        hint = nearest(file.name, others) if others else ""
        raise SettingsError(f"there is no settings file {file}{hint}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"settings file {file}: {error}") from None
    for key in values:
        if key not in Settings.model_fields:
            raise SettingsError(f"{file}: there is no setting {key!r}{nearest(key, list(Settings.model_fields))}")
    return values


def _from_environment(kind: type[RunSettings], environment: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name in SECRETS:
            continue
        key = name.removeprefix(PREFIX).lower()
        if not any(key in each.model_fields for each in _KINDS):
            hint = re.sub(r"\w+(?=,|$)", lambda word: PREFIX + word[0].upper(), nearest(key, list(kind.model_fields)))
            raise SettingsError(f"there is no setting {name}{hint}")
        found[name] = value
    return found


def secret(name: str) -> str | None:
    """A secret from the environment; None where it is not there."""
    assert name in SECRETS, name
    return os.environ.get(name)


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process: this one's without settings, which children get told, and `extra`."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    return own | {"PYTHONUNBUFFERED": "1"} | dict(extra)
