"""The scenario file: a load, and steps that differ in how clients send and how the target receives."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.failures import UsageFailure
from harness.lab.receive_settings import ReceiveSettings
from harness.matrix import Cell
from harness.settings import Duration, nearest

DEFAULT = Path(__file__).with_name("techniques.toml")
THREADS_MAX = 1000
_KEYS = ("technique", "title", "paper")

Conversations = Literal["one", "one_per_thread", "one_per_message"]
Kind = Literal["ladder", "warning"]


class ScenarioError(UsageFailure):
    """The scenario file is invalid; the message is one line that names the file and the place."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Load(_Part):
    """The load, the same in every step."""

    initiators: Annotated[int, Field(ge=1, le=3)]
    threads: Annotated[int, Field(ge=1, le=THREADS_MAX)]  # per initiator
    payload_bytes: Annotated[int, Field(ge=32, le=8192)]


class Times(_Part):
    """Durations in seconds, like the settings of the same names."""

    settle: Duration
    measure: Duration
    drain: Duration


class Arrangement(_Part):
    """How clients send, and how the target receives."""

    conversations: Conversations
    dialog_ratio: Annotated[int, Field(ge=1)]
    warm_up: bool
    receive_top: Annotated[int, Field(ge=1)]
    receive_timeout_ms: Annotated[int, Field(ge=0, le=600_000)]  # changing it waits as long for readers to end
    max_queue_readers: Annotated[int, Field(ge=1, le=32767)]

    @property
    def receiving(self) -> ReceiveSettings:
        return ReceiveSettings(self.receive_top, self.receive_timeout_ms, self.max_queue_readers)


class Technique(_Part):
    """One step of the scenario."""

    key: str
    kind: Kind
    title: str
    paper: str  # the paper's words
    arrangement: Arrangement
    compared_with: str | None  # the step that differs in one setting; None if there is none


class Scenario(_Part):
    """The content of a scenario file."""

    load: Load
    times: Mapping[str, Times]
    techniques: tuple[Technique, ...]


class Turn(_Part):
    """One run of a technique, and the cell that its raw records name."""

    technique: Technique
    run: int  # 1, 2, ... per technique
    cell: Cell

    @property
    def id(self) -> str:
        return f"{self.technique.key}-{self.run}"


def read(path: Path | None = None) -> Scenario:
    """Read a scenario file, by default the package's; raises ScenarioError."""
    path = path or DEFAULT
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ScenarioError(f"scenario file {path}: {error}") from None
    for key in given:
        if key not in (valid := ("load", "times", "start", "ladder", "warnings")):
            raise ScenarioError(f"{path}: unknown section {key!r}{nearest(key, valid)}")
    try:
        return Scenario(
            load=given.get("load", {}),
            times=given.get("times", {}),
            techniques=tuple(_techniques(given, path)),
        )
    except ValidationError as error:
        raise ScenarioError(f"{path}: {_first(error)}") from None


def turns(scenario: Scenario, *, version: str, repeats: int) -> list[Turn]:
    """List each technique once, then all again, so that a drift of the machine is spread over all techniques."""
    load = scenario.load
    return [
        Turn(
            technique=technique,
            run=run,
            cell=Cell(version, load.initiators, technique.arrangement.dialog_ratio, load.threads, load.payload_bytes),
        )
        for run in range(1, repeats + 1)
        for technique in scenario.techniques
    ]


def _techniques(given: Mapping[str, Any], path: Path) -> list[Technique]:
    before: Mapping[str, Any] = given.get("start", {})
    found: list[Technique] = []
    for step in given.get("ladder", []):
        before = {**before, **_differences(step)}
        found.append(_technique(step, "ladder", before, found[-1].key if found else None, path))
    if not found:
        raise ScenarioError(f"{path}: the ladder has no step: add a [[ladder]] section")
    baseline = found[-1].key
    for step in given.get("warnings", []):
        is_baseline = not _differences(step)
        compared_with = None if is_baseline else baseline
        found.append(_technique(step, "warning", {**before, **_differences(step)}, compared_with, path))
        baseline = found[-1].key if is_baseline else baseline
    keys = [technique.key for technique in found]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ScenarioError(f"{path}: two steps are named {twice[0]!r}: rename one")
    return found


def _differences(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key not in _KEYS}


def _technique(
    step: Mapping[str, Any], kind: Kind, arrangement: Mapping[str, Any], compared_with: str | None, path: Path
) -> Technique:
    key = step.get("technique", "?")
    try:
        return Technique(
            key=key,
            kind=kind,
            title=step.get("title", key),
            paper=step.get("paper", ""),
            arrangement=Arrangement(**arrangement),
            compared_with=compared_with,
        )
    except ValidationError as error:
        raise ScenarioError(f"{path}, step {key!r}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {place!r}{nearest(place, list(Arrangement.model_fields))}"
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {message[:1].lower()}{message[1:]}"
