"""A matrix as a TOML file: over which values each axis is varied, how often, and for how long.

```toml
about = "In one line: what the run is for."
exclude = ["i3-t50-*-p8192"]      # patterns of cell ids that are left out
repeats = 4                       # blocks, as --repeats

[axes]                            # a value or a list; each has a default
initiators = [1, 2]
threads = [1, 64, 500]            # client threads per initiator
ratios = [1, 150]                 # dialog ratios
payloads = [100, "4 KB"]
versions = ["2022"]               # default: the lab's; "newest": its last; "in turn": one for each pair of cells

[[points]]                        # optional: only these; a point takes from [axes] what it does not name
threads = 50
payloads = "8 KB"

[times]                           # as --settle and --measure; [times.sqlserver] is for that lab alone
settle = "10s"
measure = "5s"
```

`matrices/` has those of the package; `paper` is the whole matrix of the paper.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from harness.definitions import lab_kinds
from harness.definitions.matrix import (
    CELLS_MAX,
    DIALOG_RATIOS,
    INITIATORS_MAX,
    PAYLOAD_BYTES_MAX,
    PAYLOAD_BYTES_MIN,
    RATIO_MAX,
    THREADS_MAX,
    Cell,
    excluding,
    matching,
    nearest_ids,
)
from harness.definitions.units import parse_duration, parse_size
from harness.failures import UsageFailure, nearest
from harness.files import toml_file

FOLDER = Path(str(files("harness"))) / "files" / "matrices"
PRESETS = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
PAPER = "paper"

_VERSION = re.compile(r"v(\d+)")  # in a pattern of cell ids
# A blank between a number and its unit separates no values.
_SEPARATOR = re.compile(r"\s*,\s*|\s+(?![A-Za-z])")


class MatrixError(UsageFailure):
    """A matrix that there is not, or that has no cells or too many."""


def _values(value: object) -> tuple[object, ...]:
    """Take a value, a list, or a text of several values, `1,64,500` or `1 64 500`, as a list."""
    if isinstance(value, str):
        return tuple(filter(None, _SEPARATOR.split(value.strip())))
    if isinstance(value, (list, tuple)):
        return tuple(itertools.chain.from_iterable(_values(part) for part in value))
    return (value,)


def _words(value: object) -> object:
    return tuple(value.split()) if isinstance(value, str) else value


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("not a number")
    return value


def _payload(value: object) -> int:
    size = parse_size(value)
    if size < PAYLOAD_BYTES_MIN:
        raise ValueError(f"{value!r} is less than the {PAYLOAD_BYTES_MIN} bytes of a message's header")
    return size


def _ordered(values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(values)))


_AXIS = (BeforeValidator(_values), Field(min_length=1), AfterValidator(_ordered))
Initiators = Annotated[tuple[Annotated[int, BeforeValidator(_number), Field(ge=1, le=INITIATORS_MAX)], ...], *_AXIS]
Threads = Annotated[tuple[Annotated[int, BeforeValidator(_number), Field(ge=1, le=THREADS_MAX)], ...], *_AXIS]
Ratios = Annotated[tuple[Annotated[int, BeforeValidator(_number), Field(ge=1, le=RATIO_MAX)], ...], *_AXIS]
Payloads = Annotated[tuple[Annotated[int, BeforeValidator(_payload), Field(le=PAYLOAD_BYTES_MAX)], ...], *_AXIS]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
Settle = Annotated[Duration, Field(ge=0, le=3600)]
Measure = Annotated[Duration, Field(ge=0.1, le=24 * 3600)]
Repeats = Annotated[int, Field(ge=1, le=1000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Axes(_Part):
    """Values of the axes; None where another place has them."""

    initiators: Initiators | None = None
    threads: Threads | None = None
    ratios: Ratios | None = None
    payloads: Payloads | None = None

    def given(self) -> dict[str, tuple[int, ...]]:
        return {name: values for name in Axes.model_fields if (values := getattr(self, name)) is not None}


class _AxesOfAll(Axes):
    """The table [axes]: versions are no part of a point, since all versions run the same points."""

    versions: Literal["in turn", "newest"] | Words = ()


class Times(_Part):
    settle: Settle | None = None
    measure: Measure | None = None


_BY_LAB: dict[str, Any] = {name: (Times, Times()) for name in lab_kinds.NAMES}
# The table [times]: for every lab, and for a lab alone.
_TimesOfLabs: TypeAlias = create_model("_TimesOfLabs", __base__=Times, **_BY_LAB)  # type: ignore[valid-type]


class _Document(_Part):
    about: str = ""
    axes: _AxesOfAll = _AxesOfAll()
    points: tuple[Axes, ...] = ()
    exclude: Words = ()
    repeats: Repeats | None = None
    times: _TimesOfLabs = _TimesOfLabs()


# Those of `harness run`, with both ratios.
DEFAULTS: dict[str, tuple[int, ...]] = {
    "initiators": (1,),
    "threads": (10,),
    "ratios": DIALOG_RATIOS,
    "payloads": (100,),
}


class Matrix(_Document):
    """A matrix with its name, that of the preset or file; a manifest keeps all of it."""

    name: str

    def __str__(self) -> str:
        return self.name

    def settings(self, lab: str) -> dict[str, Any]:
        """The settings that the matrix brings for a lab: defaults where a user gives none."""
        of_all = self.times.model_dump(include={"settle", "measure"})
        times = of_all | (getattr(self.times, lab).model_dump(exclude_none=True) if lab in lab_kinds.NAMES else {})
        versions = self.axes.versions if isinstance(self.axes.versions, tuple) else ()
        brought = times | {"repeats": self.repeats, "server_versions": versions or None}
        return {name: value for name, value in brought.items() if value is not None}

    def cells(self, versions: Sequence[str], *, initiators_max: int, given: Axes | None = None) -> list[Cell]:
        """The cells in the order of the axes, each once; axes that are `given` replace those of the matrix.

        A lab with fewer initiators than a point names runs it with all that it has. Raises MatrixError.
        """
        if self.axes.versions == "newest":
            versions = versions[-1:]
        points = self._points(given.given() if given else {})
        if _size(points) * len(versions) > CELLS_MAX:
            raise MatrixError(f"matrix {self.name}: more than {CELLS_MAX:,} cells: give fewer values")
        found: dict[Cell, None] = {}
        pairs: dict[tuple[int, ...], int] = {}
        for point in points:
            initiators = sorted({min(number, initiators_max) for number in point["initiators"]})
            axes = (initiators, point["ratios"], point["threads"], point["payloads"])
            if self.axes.versions == "in turn":
                for few, ratio, threads, payload in itertools.product(*axes):
                    place = pairs.setdefault((few, threads, payload), len(pairs))
                    found[Cell(versions[place % len(versions)], few, ratio, threads, payload)] = None
            else:
                found |= dict.fromkeys(itertools.starmap(Cell, itertools.product(versions, *axes)))
        cells = excluding(list(found), self.exclude)
        self._require_meaning(versions)
        if not cells:
            raise MatrixError(f"matrix {self.name}: its exclusions leave no cell")
        return cells

    def _points(self, replaced: dict[str, tuple[int, ...]]) -> list[dict[str, tuple[int, ...]]]:
        """All axes of each point, of which some are `replaced`."""
        return [DEFAULTS | self.axes.given() | point.given() | replaced for point in self.points or (Axes(),)]

    def _require_meaning(self, versions: Sequence[str]) -> None:
        """Raise MatrixError for an exclusion that matches no cell of the matrix as it is written.

        That it matches none of a lab with fewer initiators, of other versions or of replaced axes is no mistake.
        """
        points = self._points({})
        if _size(points) > CELLS_MAX:  # only with replaced axes
            return
        for pattern in self.exclude:
            versions_known = dict.fromkeys([*_VERSION.findall(pattern), *versions])
            ids = [
                Cell(version, few, ratio, threads, payload).id
                for point in points
                for few, threads, ratio, payload in itertools.product(*(point[name] for name in Axes.model_fields))
                for version in versions_known
            ]
            if not matching(ids, pattern):
                raise MatrixError(f"matrix {self.name}: exclude {pattern!r} matches no cell{nearest_ids(ids, pattern)}")


def _size(points: Sequence[Mapping[str, Sequence[int]]]) -> int:
    """How many cells of one version the points have, repeated ones counted again."""
    return sum(math.prod(map(len, point.values())) for point in points)


def read(name: str) -> Matrix:
    """The matrix of a preset's name or of a TOML file; raises MatrixError or TomlError."""
    path = FOLDER / f"{name}.toml" if name in PRESETS else Path(name)
    if path.suffix != ".toml":
        raise MatrixError(f"unknown matrix {name!r}{nearest(name, PRESETS)}; or name a TOML file, such as mine.toml")
    toml = toml_file.read(path, "matrix file")
    return Matrix(name=path.stem, **dict(toml.validate(_Document)))
