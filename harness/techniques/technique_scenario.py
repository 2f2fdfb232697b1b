"""The scenario file: a load, and steps that differ in how clients send and how the target receives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness import toml_file
from harness.failures import UsageFailure
from harness.lab.link import ReceiveSettings
from harness.matrix import Cell, Visit
from harness.matrix_file import Duration
from harness.toml_file import Key, TomlFile

DEFAULT = Path(__file__).with_name("techniques.toml")
THREADS_MAX = 1000
_KEYS = ("technique", "title", "paper")

Conversations = Literal["one", "one_per_thread", "one_per_message"]
Kind = Literal["ladder", "warning"]


class ScenarioError(UsageFailure):
    """A scenario that the lab cannot run."""


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

    def used_dialogs(self, threads: int) -> int:
        """Count the dialogs begun beforehand on which the threads of an initiator send."""
        return {"one": 1, "one_per_thread": threads, "one_per_message": 0}[self.conversations]


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
    """A technique in a block, and the cell that its raw records name."""

    technique: Technique
    block: int  # 1, 2, ...: one pass over all techniques
    cell: Cell

    @property
    def id(self) -> str:
        return self.technique.key

    @property
    def visit(self) -> Visit:
        return Visit(self.cell, self.block)

    def folder(self, results: Path) -> Path:
        """Return the folder of the raw records; it is laid out like that of a sweep."""
        return results / "techniques" / self.id


class _Document(_Part):
    """The file: a step has the arrangement of the one before, but for the keys that it names."""

    load: Load
    times: Mapping[str, Times] = {}
    start: Mapping[str, Any] = {}
    ladder: Annotated[list[dict[str, Any]], Field(min_length=1)]
    warnings: list[dict[str, Any]] = []


def read(path: Path | None = None) -> Scenario:
    """The scenario of a file, by default the package's; raises TomlError."""
    toml = toml_file.read(path or DEFAULT, "scenario file")
    document = toml.validate(_Document)
    return Scenario(load=document.load, times=document.times, techniques=tuple(_techniques(toml, document)))


def turns(scenario: Scenario, *, version: str, repeats: int) -> list[Turn]:
    """List each technique once, then all again, so that a drift of the machine is spread over all techniques."""
    load = scenario.load
    return [
        Turn(
            technique=technique,
            block=block,
            cell=Cell(version, load.initiators, technique.arrangement.dialog_ratio, load.threads, load.payload_bytes),
        )
        for block in range(1, repeats + 1)
        for technique in scenario.techniques
    ]


def _techniques(toml: TomlFile, document: _Document) -> list[Technique]:
    before = document.start
    found: list[Technique] = []

    def add(step: Mapping[str, Any], kind: Kind, place: int, compared_with: str | None) -> None:
        at: Key = ("ladder" if kind == "ladder" else "warnings", place)
        key = step.get("technique", "?")
        if key in [technique.key for technique in found]:
            raise toml.error((*at, "technique"), f"two steps are named {key!r}: rename one")
        arrangement = toml.validate(Arrangement, {**before, **_differences(step)}, at)
        named = {"key": key, "title": step.get("title", key), "paper": step.get("paper", "")}
        more = {"kind": kind, "arrangement": arrangement, "compared_with": compared_with}
        found.append(toml.validate(Technique, named | more, at))

    for place, step in enumerate(document.ladder):
        add(step, "ladder", place, found[-1].key if found else None)
        before = {**before, **_differences(step)}
    baseline = found[-1].key
    for place, step in enumerate(document.warnings):
        is_baseline = not _differences(step)
        add(step, "warning", place, None if is_baseline else baseline)
        baseline = found[-1].key if is_baseline else baseline
    return found


def _differences(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key not in _KEYS}
