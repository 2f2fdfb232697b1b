"""The table [body] of a workload: what its messages hold, and how long they are.

```toml
[body]
template = "order.json"           # or order.xml: text in place of bytes
size = {uniform = [200, "4 KB"]}  # or one of those below
```

Without a template a body is bytes: the header by which each message is accounted for (`load.payload`), then filler.
With one it is the text of that file, in which `${run}` (when the attempt at the cell began, in ms since 1970),
`${initiator}`, `${thread}` and `${sequence}` are numbers that no other message has together, and `${filler}` is
stretched until the body has its size. `$$` is a dollar sign. Clients pass text as nvarchar(max), two bytes a character:
an odd size is one less. The messages that warm dialogs up are texts without filler, of a thread 0.

Without `size` every body has the payload of its cell. A workload with sizes of its own has cells of one payload, the
mean of the sizes:

| size | bytes |
|---|---|
| `{uniform = [200, 4000]}` | all from 200 to 4,000, equally often |
| `{lognormal = {median = 800, sigma = 0.6, max = 8000}}` | sigma is that of the logarithm; larger ones are cut |
| `{histogram = [[100, 7], [4096, 3]]}` | each size with its share of the sum |
| `{samples = "sizes.csv"}` | those of a file, one a line |

A lognormal size that is too short for the header or the template is as long as these.
"""

from __future__ import annotations

import itertools
import json
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist, fmean
from string import Template
from typing import Annotated, Any, Self
from xml.parsers import expat

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from harness.definitions.matrix import INITIATORS_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, THREADS_MAX
from harness.definitions.units import parse_size
from harness.failures import nearest
from harness.files.toml_file import TomlError, TomlFile

# As long as they can be. Milliseconds have 13 digits until 2286, and so many messages of a thread take days.
_LONGEST = {"run": 10**13 - 1, "initiator": INITIATORS_MAX, "thread": THREADS_MAX, "sequence": 2**32 - 1}
_PLACEHOLDERS = (*_LONGEST, "filler")
_QUANTILES = 4096


def _size(text: object) -> int:
    size = parse_size(text)
    if not PAYLOAD_BYTES_MIN <= size <= PAYLOAD_BYTES_MAX:
        raise ValueError(f"{text!r}: a body has {PAYLOAD_BYTES_MIN} to {PAYLOAD_BYTES_MAX:,} bytes")
    return size


Size = Annotated[int, BeforeValidator(_size)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Lognormal(_Part):
    median: Size
    sigma: Annotated[float, Field(gt=0, le=5)]
    max: Size = PAYLOAD_BYTES_MAX


class Sizes(_Part):
    """One of the distributions."""

    @model_validator(mode="before")
    @classmethod
    def _is_table(cls, value: object) -> object:
        if isinstance(value, (int, str)):
            raise ValueError(
                "a constant size is the payload: leave size out and give --payloads, or uniform = [800, 800]"
            )
        return value

    uniform: tuple[Size, Size] | None = None
    lognormal: Lognormal | None = None
    histogram: Annotated[tuple[tuple[Size, Annotated[float, Field(gt=0)]], ...], Field(min_length=1)] | None = None
    samples: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(getattr(self, name) is not None for name in Sizes.model_fields) != 1:
            raise ValueError(f"name one of {', '.join(Sizes.model_fields)}; without any, leave size out")
        if self.uniform and self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform: write the smallest size first")
        return self

    def __str__(self) -> str:
        if self.uniform:
            return f"uniform from {self.uniform[0]:,} to {self.uniform[1]:,} bytes"
        if self.lognormal:
            shape = self.lognormal
            return f"lognormal with median {shape.median:,} and sigma {shape.sigma:g}, at most {shape.max:,} bytes"
        return f"histogram of {len(self.histogram)} sizes" if self.histogram else f"sizes of {self.samples}"


def _text_file(name: str) -> str:
    if not name.endswith((".json", ".xml")):
        raise ValueError("name a .json or .xml file")
    return name


class Body(_Part):
    """The table [body]."""

    template: Annotated[str, AfterValidator(_text_file)] | None = None
    size: Sizes | None = None

    def __str__(self) -> str:
        """The template and the sizes in words; empty where a body is bytes as many as the payload."""
        return ", ".join(str(part) for part in (self.template, self.size) if part)

    @property
    def files(self) -> list[tuple[tuple[str, ...], str]]:
        """The files beside the workload.toml, each with its key."""
        references = [
            (("body", "template"), self.template),
            (("body", "size", "samples"), self.size and self.size.samples),
        ]
        return [(key, file) for key, file in references if file]


@dataclass(frozen=True, slots=True)
class Bodies:
    """What clients make bodies of, where a workload has a table [body]."""

    template: str = ""  # the text; empty: bytes
    sizes: tuple[int, ...] = ()  # ascending and equally frequent; empty: the payload of the cell

    def of_payload(self, payload_bytes: int) -> Bodies:
        """Those of a cell, with sizes."""
        return self if self.sizes else replace(self, sizes=(payload_bytes,))

    def warm_up_text(self, *, run: int, initiator: int) -> str:
        """The text of messages that no client sends, as of a thread 0; dbo.WarmUpDialogs counts them."""
        numbers = {"run": run, "initiator": initiator, "thread": 0}
        return Template(self.template).substitute(numbers, sequence="${sequence}", filler="")

    @property
    def mean_bytes(self) -> int | None:
        """The payload of all cells; None if each has its own."""
        return round(fmean(self.sizes)) if self.sizes else None

    @property
    def least_bytes(self) -> int:
        """How long the shortest body can be."""
        return (
            text_bytes(Template(self.template).substitute(_LONGEST, filler="")) if self.template else PAYLOAD_BYTES_MIN
        )


def read(toml: TomlFile, body: Body) -> Bodies:
    """Read the files that the table names; raises TomlError with the line of the first mistake."""
    text = _template(toml, body.template) if body.template else ""
    if body.size is None:
        return Bodies(text)
    least = Bodies(text).least_bytes
    quantile, smallest = _quantile_function(toml, body.size)
    if smallest < least:
        short = f"{body.template} alone has up to {least} bytes, two a character: a body of {smallest} is too short"
        raise toml.error(("body", "size"), short)
    middles = ((place + 0.5) / _QUANTILES for place in range(_QUANTILES))
    return Bodies(text, tuple(max(least, quantile(middle)) for middle in middles))


def _quantile_function(toml: TomlFile, sizes: Sizes) -> tuple[Callable[[float], int], int]:
    """Return the size below which a given share of all lie, and the smallest that the file asks for."""
    if sizes.uniform:
        low, high = sizes.uniform
        return lambda share: low + int(share * (high - low + 1)), low
    if sizes.lognormal:
        shape, normal = sizes.lognormal, NormalDist()
        top = math.log(shape.max / shape.median)
        return lambda share: round(shape.median * math.exp(min(top, shape.sigma * normal.inv_cdf(share)))), shape.max
    if sizes.samples:
        samples = sorted(_samples(toml, sizes.samples))
        return lambda share: samples[int(share * len(samples))], samples[0]
    assert sizes.histogram is not None
    ordered = sorted(sizes.histogram)
    ends = list(itertools.accumulate(share for _, share in ordered))
    return lambda share: ordered[bisect_right(ends[:-1], share * ends[-1])][0], ordered[0][0]


def _samples(toml: TomlFile, file: str) -> list[int]:
    samples = []
    for number, line in enumerate(_text(toml, ("body", "size", "samples"), file).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            samples.append(_size(line))
        except ValueError as error:
            raise TomlError(f"{file}, line {number}: {error}") from None
    if not samples:
        raise toml.error(("body", "size", "samples"), f"{file} is empty: write one size a line")
    return samples


def _template(toml: TomlFile, file: str) -> str:
    """The text of a template, whose placeholders are known and which is JSON or XML with them replaced."""
    text = _text(toml, ("body", "template"), file)
    fillers = 0
    for match in Template.pattern.finditer(text):
        name, line = match["named"] or match["braced"], text.count("\n", 0, match.start()) + 1
        if match["invalid"] is not None:
            raise TomlError(f"{file}, line {line}: a $ begins a placeholder: write $$ for a dollar sign")
        if name and name not in _PLACEHOLDERS:
            hint = nearest(name, _PLACEHOLDERS)
            raise TomlError(f"{file}, line {line}: unknown placeholder {name!r}{hint}; write $$ for a dollar sign")
        fillers += name == "filler"
    if fillers != 1:
        raise toml.error(("body", "template"), f"{file} has ${{filler}} {fillers} times: write it once, in a text")
    for filler in ("", "x"):
        _require_well_formed(file, Template(text).substitute(_LONGEST, filler=filler))
    return text


def _require_well_formed(file: str, text: str) -> None:
    if file.endswith(".json"):
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            raise TomlError(
                f"{file}, line {error.lineno}: no JSON with its placeholders replaced: {error.msg}"
            ) from None
        return
    encodings: list[Any] = []
    parser = expat.ParserCreate()
    parser.XmlDeclHandler = lambda version, encoding, standalone: encodings.append(encoding)
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise TomlError(f"{file}, line {error.lineno}: no XML with its placeholders replaced: {reason}") from None
    if any(encoding and encoding.lower() != "utf-16" for encoding in encodings):
        raise TomlError(f"{file}, line 1: clients pass text, which SQL Server holds as UTF-16: leave the encoding out")


def _text(toml: TomlFile, key: tuple[str, ...], file: str) -> str:
    try:
        return Path(toml.path.parent, file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise toml.error(key, f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise toml.error(key, f"{file}: not UTF-8") from None


def text_bytes(text: str) -> int:
    """How long a text is as nvarchar."""
    return len(text.encode("utf-16-le"))
