"""The scenario file: a load, and steps. Each is a workload, with what it changes of it, on some of the dialogs."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.definitions.matrix import THREADS_MAX, Cell, Visit
from harness.failures import UsageFailure, nearest
from harness.files import toml_file, workload_file
from harness.files.matrix_file import Duration
from harness.files.toml_file import Key, TomlFile
from harness.files.workload_file import PAPER, Workload, WorkloadError
from harness.run.arrangement import Arrangement, LabUse

DEFAULT = Path(__file__).with_name("techniques.toml")
VARIANTS = DEFAULT.with_name("variants.toml")
PRESETS = {path.stem: path for path in (DEFAULT, VARIANTS)}
_NAMES = ("technique", "title", "paper")  # of a step; all other keys are differences
# Of the lab; all other differences change the workload.
_USE = ("conversations", "dialog_ratio", "warm_up", "batch", "outside_readers")
_OF_THE_LAB = ("both", "dialogs", "names", "accounting")  # sections of a workload that a linked lab keeps

Kind = Literal["ladder", "warning", "variant"]
_SECTIONS: dict[Kind, str] = {"ladder": "ladder", "warning": "warnings", "variant": "variants"}


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

    file: Annotated[Path, Field(exclude=True)]  # as it is named: a preset's name, or a path
    load: Load
    times: Mapping[str, Times]
    workload: Workload  # without the changes of any step: the lab opens with it
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

    @property
    def arrangement(self) -> Arrangement:
        return self.technique.arrangement

    def folder(self, results: Path) -> Path:
        """Return the folder of the raw records; it is laid out like that of a sweep."""
        return results / "techniques" / self.id


class _Document(_Part):
    """The file: a step has the arrangement of the one before, but for the keys that it names."""

    workload: str = PAPER
    load: Load
    times: Mapping[str, Times] = {}
    start: Mapping[str, Any] = {}
    ladder: list[dict[str, Any]] = []
    warnings: list[dict[str, Any]] = []
    variants: list[dict[str, Any]] = []


def read(path: Path | None = None) -> Scenario:
    """The scenario of a file or of a name in PRESETS, by default the paper's recommendations.

    Raises ScenarioError or TomlError.
    """
    file = path = path or Path(DEFAULT.stem)
    path = PRESETS.get(str(path), path)
    if not path.exists() and not path.suffix:
        name = str(path)
        raise ScenarioError(
            f"unknown scenario {name!r}{nearest(name, [*PRESETS])}; or name a TOML file, such as mine.toml"
        )
    toml = toml_file.read(path, "scenario file")
    document = toml.validate(_Document)
    workload = _workload(toml, document.workload, ())
    if workload.is_counted:
        raise toml.error(
            ("workload",), f"{workload} counts its messages, but the table of techniques needs each of them"
        )
    techniques = tuple(_techniques(toml, document, workload))
    file = file if str(file) in PRESETS else file.absolute()
    return Scenario(file=file, load=document.load, times=document.times, workload=workload, techniques=techniques)


def turns(scenario: Scenario, *, version: str, repeats: int, seed: int) -> list[Turn]:
    """List each technique once in each block, in random order by the seed, so that a drift of the machine is spread.

    Those on the same dialogs follow one another, and the last of them are those after which new ones are needed.
    """
    load = scenario.load

    def turn(technique: Technique, block: int) -> Turn:
        ratio = technique.arrangement.dialog_ratio
        cell = Cell(version, load.initiators, ratio, load.threads, load.payload_bytes)
        return Turn(technique=technique, block=block, cell=cell)

    def place(turn: Turn, *values: object) -> float:
        return random.Random(f"{seed} {turn.block} {values}").random()

    def order(turn: Turn) -> tuple[int, float, bool, float]:
        arrangement = turn.arrangement
        pool = arrangement.pool(turn.cell)
        return turn.block, place(turn, *pool), arrangement.spends_its_dialogs, place(turn, turn.id)

    every = [turn(technique, block) for block in range(1, repeats + 1) for technique in scenario.techniques]
    return sorted(every, key=order)


# The use of dialogs, with keys still to come, and the workload of a step.
_Step = tuple[dict[str, Any], Workload]


def _techniques(toml: TomlFile, document: _Document, workload: Workload) -> list[Technique]:
    before = _changed(toml, ({}, workload), document.start, ("start",))
    techniques: list[Technique] = []

    def add(differences: Mapping[str, Any], kind: Kind, place: int, compared_with: str | None) -> _Step:
        at: Key = (_SECTIONS[kind], place)
        key = differences.get("technique", "?")
        if key in [technique.key for technique in techniques]:
            raise toml.error((*at, "technique"), f"two steps are named {key!r}: rename one")
        use, workload_ = _changed(toml, before, differences, at)
        for section in _OF_THE_LAB:
            if getattr(workload_, section) != getattr(workload, section):
                raise toml.error((*at, section), "belongs to the lab: all steps must have the same")
        workload_.require_payload(document.load.payload_bytes)
        arrangement = Arrangement(**dict(toml.validate(LabUse, use, at)), workload=workload_)
        words = {"key": key, "title": differences.get("title", key), "paper": differences.get("paper", "")}
        more = {"kind": kind, "arrangement": arrangement, "compared_with": compared_with}
        techniques.append(toml.validate(Technique, words | more, at))
        return use, workload_

    for place, step in enumerate(document.ladder):
        before = add(step, "ladder", place, techniques[-1].key if techniques else None)
    baseline = techniques[-1].key if techniques else None
    sections: dict[Kind, list[dict[str, Any]]] = {"warning": document.warnings, "variant": document.variants}
    for kind, steps in sections.items():
        for place, step in enumerate(steps):
            is_baseline = not set(step) - set(_NAMES)
            add(step, kind, place, None if is_baseline else baseline)
            baseline = techniques[-1].key if is_baseline else baseline
    if not techniques:
        raise toml.error(("ladder",), "a scenario has steps: write one in a table [[ladder]]")
    return techniques


def _changed(toml: TomlFile, before: _Step, differences: Mapping[str, Any], at: Key) -> _Step:
    """The step that differs so from the one before."""
    use, workload = before
    settings = {key: value for key, value in differences.items() if key not in _NAMES}
    use = use | {key: settings.pop(key) for key in _USE if key in settings}
    if "workload" in settings:
        workload = _workload(toml, settings.pop("workload"), at)
    return use, workload_file.changed(workload, settings, toml, at)


def _workload(toml: TomlFile, name: object, at: Key) -> Workload:
    """The workload that a key of the scenario names: one of the package, or a folder as seen from the scenario's."""
    folder = toml.path.parent / str(name)
    try:
        return workload_file.read(str(folder) if name not in workload_file.PRESETS and folder.exists() else str(name))
    except WorkloadError as error:
        raise toml.error((*at, "workload"), str(error)) from None
