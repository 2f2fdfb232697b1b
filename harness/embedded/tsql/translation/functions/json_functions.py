"""ISJSON, JSON_VALUE and JSON_QUERY: https://learn.microsoft.com/sql/t-sql/functions/json-functions-transact-sql"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NoReturn

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import INT
from harness.embedded.tsql.storage.sqlite import work_of
from harness.embedded.tsql.translation.fragments import NVARCHAR, NVARCHAR_MAX
from harness.embedded.tsql.translation.functions.kinds import Functions, in_python

VALUE_LENGTH_MAX = 4000
_STEP = re.compile(r'\.(?:([A-Za-z_$][\w$]*)|"((?:[^"\\]|\\.)*)")|\[(\d+)\]')
_SPACE = re.compile(r"[ \t\r\n]*")
_PARSE_NS = 20  # for each character


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _is_json(text: Any) -> int:
    """ISJSON: 1 for an object or an array."""
    try:
        return int(isinstance(json.loads(str(text), parse_constant=_no_constant), dict | list))
    except (ValueError, RecursionError):
        return 0


@lru_cache(maxsize=256)
def _path(text: str) -> tuple[bool, list[str | int]]:
    """Whether a path is strict, and its steps: names of members and places of elements."""
    match = re.match(r"\s*(lax|strict)?\s*\$", text)
    at = match.end() if match is not None else 0
    steps: list[str | int] = []
    while match is not None and (step := _STEP.match(text, at)) is not None:
        name, quoted, place = step.groups()
        steps.append(int(place) if place else name or json.loads(f'"{quoted}"'))
        at = step.end()
    if match is None or text[at:].strip():
        raise SqlServerError(13607, text[at : at + 1], at)
    return match[1] == "strict", steps


def _found(text: str, path: str) -> tuple[bool, str | None]:
    """Whether a path is strict, and what stands there in the text; None if nothing does."""
    strict, steps = _path(path)
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", 0)
        raise SqlServerError(13609, text[at : at + 1], at) from None
    at = _space(text, 0)
    for step in steps:
        children = _children(text, at) if text[at] in "{[" else ()
        inner = next((place for name, place in children if name == step), None)
        if inner is None:
            return strict, None
        at = inner
    return strict, text[at : _DECODER.raw_decode(text, at)[1]]


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _children(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """The names or places of what the object or array has that begins at a place, and where each begins."""
    is_object, number = text[at] == "{", 0
    at = _space(text, at + 1)
    while text[at] not in "}]":
        step: str | int = number
        if is_object:
            step, at = _DECODER.raw_decode(text, at)
            at = _space(text, _space(text, at) + 1)  # the colon
        yield step, at
        at, number = _space(text, _DECODER.raw_decode(text, at)[1]), number + 1
        if text[at] == ",":
            at = _space(text, at + 1)


def _json_value(text: Any, path: Any) -> str | None:
    """JSON_VALUE ( expression , path ): a text, number, true or false; NULL for anything else, an error if strict."""
    strict, value = _found(str(text), str(path))
    if value is None or value[0] in "{[":
        if strict:
            raise SqlServerError(13608 if value is None else 13623)
        return None
    if value[0] == '"':
        value = json.loads(value)
    if len(value) > VALUE_LENGTH_MAX:
        if strict:
            raise SqlServerError(13625)
        return None
    return None if value == "null" else value


def _json_query(text: Any, path: Any = "$") -> str | None:
    """JSON_QUERY ( expression [ , path ] ): an object or an array; NULL for anything else, an error if strict."""
    strict, value = _found(str(text), str(path))
    if value is None or value[0] not in "{[":
        if strict:
            raise SqlServerError(13608 if value is None else 13624)
        return None
    return value


_TYPES = {"n": 0, '"': 1, "t": 3, "f": 3, "[": 4, "{": 5}  # of OPENJSON, by the first character; a number is 2


def _inside(text: str, path: str) -> list[tuple[str | int, str]]:
    """The names or places, and the texts, of what the object or array at a path has; none for anything else."""
    strict, value = _found(text, path)
    if value is None or value[0] not in "{[":
        if strict:
            raise SqlServerError(13608)
        return []
    return [(step, value[at : _DECODER.raw_decode(value, at)[1]]) for step, at in _children(value, 0)]


def opened(text: str, path: str) -> list[tuple[str, str | None, int]]:
    """OPENJSON without WITH: keys, values and types."""
    rows = []
    for step, value in _inside(text, path):
        kind = _TYPES.get(value[0], 2)
        rows.append((str(step), None if kind == 0 else json.loads(value) if kind == 1 else value, kind))
    return rows


def opened_with(text: str, path: str, columns: list[tuple[str, bool]]) -> list[list[str | None]]:
    """OPENJSON WITH columns, each with its path and whether it is AS JSON: the elements of an array, or one object."""
    value = _found(text, path)[1]
    items = [value] if value is not None and value[0] == "{" else [item for _, item in _inside(text, path)]
    return [[(_json_query if as_json else _json_value)(item, place) for place, as_json in columns] for item in items]


FUNCTIONS: Functions = {
    "ISJSON": in_python("isjson", _is_json, INT, work_of(_PARSE_NS)),
    "JSON_QUERY": in_python("json_query", _json_query, NVARCHAR_MAX, work_of(_PARSE_NS)),
    "JSON_VALUE": in_python("json_value", _json_value, NVARCHAR, work_of(_PARSE_NS)),
}
