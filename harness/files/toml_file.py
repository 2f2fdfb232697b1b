"""TOML files of the user: read and validated, each mistake in one line with file, line and key.

tomllib gives no positions. `Lines` finds them by parsing the file's beginnings: a key is on the line that
first brings it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from harness.failures import UsageFailure, nearest

Key = tuple[str | int, ...]  # ("initiator", 0, "port")
Model = TypeVar("Model", bound=BaseModel)


class TomlError(UsageFailure):
    """A TOML file that cannot be read, or has a wrong value."""


class TomlFile:
    """The values of a TOML file, and the line of each key."""

    def __init__(self, text: str, path: Path) -> None:
        self.path = path
        self._text = text.removeprefix("\ufeff")
        try:
            self.values: dict[str, Any] = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            place = re.search(r"\(at line (\d+), column \d+\)", str(error))
            line = int(place[1]) if place else self._text.count("\n") + 1
            complaint = re.sub(r"\s*\(at .*\)$", "", str(error))
            raise TomlError(
                f"{path.name}, line {line}: not valid TOML: {complaint[:1].lower()}{complaint[1:]}"
            ) from None

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self._text)

    def where(self, *key: str | int) -> str:
        """`lab.toml, line 7`"""
        return f"{self.path.name}, line {self._lines.of(key)}"

    def error(self, key: Key, message: str) -> TomlError:
        """`lab.toml, line 7: target.port: ...`"""
        return TomlError(f"{self.where(*key)}: {name(key)}: {message}")

    def validate(self, model: type[Model], values: Mapping[str, Any] | None = None, at: Key = ()) -> Model:
        """The model of all values, or of `values`, which are those of a key; raises TomlError for the first mistake."""
        try:
            return model.model_validate(self.values if values is None else values)
        except ValidationError as error:
            # Unknown keys first: a misspelt key is missing too.
            first = min(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
            raise self.error((*at, *first["loc"]), _message(model, first["loc"], first)) from None


def read(path: Path, kind: str) -> TomlFile:
    """The file at a path; `kind` names it in the error where there is none."""
    try:
        return TomlFile(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        other_presets = {other.stem: other.name for other in sorted(path.parent.glob("*.toml"))}
        close = difflib.get_close_matches(path.stem, other_presets, n=1, cutoff=0.6)
        raise TomlError(
            f"there is no {kind} {path}{f'; nearest: {other_presets[close[0]]}' if close else ''}"
        ) from None
    except UnicodeDecodeError:
        raise TomlError(f"{path.name}: not UTF-8, as TOML has to be") from None
    except OSError as error:
        raise TomlError(f"{path}: {error.strerror}") from None


class Lines:
    """The line on which each key and table of a TOML text begins."""

    def __init__(self, text: str) -> None:
        self._first: dict[Key, int] = {}
        lines = text.replace("\r\n", "\n").split("\n")
        beginning = 1  # first line after what has been parsed
        for number in range(1, len(lines) + 1):
            try:
                values = tomllib.loads("\n".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue  # in the middle of a value of several lines
            for key in keys(values):
                self._first.setdefault(key, beginning)
            beginning = number + 1

    def of(self, key: Sequence[str | int]) -> int:
        """The line of a key; of the nearest table around it where it is missing; else the first."""
        for length in range(len(key), 0, -1):
            if (line := self._first.get(tuple(key[:length]))) is not None:
                return line
        return 1


def keys(value: Any, path: Key = ()) -> Iterator[Key]:
    """Every key and table of parsed TOML, outermost first."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, inner in items:
        yield from keys(inner, (*path, part))


def name(key: Key) -> str:
    """A key as messages name it: version, target.port, initiator-2.port."""
    words: list[str] = []
    for part in key:
        if isinstance(part, int):
            words[-1] += f"-{part + 1}"
        else:
            words.append(part)
    return ".".join(words)


def in_words(error: Any, valid_keys: Sequence[str] = ()) -> str:
    """The mistake that pydantic found in a value."""
    value, text = error["input"], str(error["msg"]).removeprefix("Value error, ")
    text = f"{text[:1].lower()}{text[1:]}"
    match error["type"]:
        case "extra_forbidden":
            text = f"unknown key{nearest(str(error['loc'][-1]), valid_keys)}"
        case "literal_error":
            valid = [word.strip(" '") for word in re.split(",| or ", error["ctx"]["expected"])]
            text = f"{value!r} is not valid{nearest(str(value), valid)}"
        case "missing":
            text = "missing"
        case "model_type":
            text = "must be a table"
        case "list_type":
            key = error["loc"][-1]
            text = "must be an array"
            text += f" of tables: write [[{key}]]" if isinstance(value, dict) else f": write {key} = [{value!r}]"
        case "too_long":
            text = f"has {error['ctx']['actual_length']} entries; at most {error['ctx']['max_length']}"
        case _ if not isinstance(value, (dict, list)) and str(value) not in text:
            text = f"{value!r}: {text}"
    return text


def _message(model: type[BaseModel], key: Key, error: Any) -> str:
    """The text of a mistake, with the description of a field that is missing."""
    fields = model.model_fields
    for part in key[:-1]:
        if isinstance(part, str) and part in fields:
            fields = next((found.model_fields for found in _models(fields[part].annotation)), {})
    field = fields.get(str(key[-1])) if key else None
    text = in_words(error, list(fields))
    return f"{text}: {field.description}" if error["type"] == "missing" and field and field.description else text


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models inside an annotation such as list[Server]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
