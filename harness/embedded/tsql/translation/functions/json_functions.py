"""ISJSON, JSON_VALUE and JSON_QUERY: https://learn.microsoft.com/sql/t-sql/functions/json-functions-transact-sql"""

from __future__ import annotations

import json
import re
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
        inner = _member(text, at, step) if text[at] == "{" else _element(text, at, step) if text[at] == "[" else None
        if inner is None:
            return strict, None
        at = inner
    return strict, text[at : _DECODER.raw_decode(text, at)[1]]


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _member(text: str, at: int, step: str | int) -> int | None:
    """Where the value of a member of the object begins that begins at a place."""
    at = _space(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _space(text, _space(text, at) + 1)  # the colon
        if name == step:
            return at
        at = _space(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _space(text, at + 1)
    return None


def _element(text: str, at: int, step: str | int) -> int | None:
    """Where an element of the array begins that begins at a place."""
    at, number = _space(text, at + 1), 0
    while text[at] != "]":
        if number == step:
            return at
        at, number = _space(text, _DECODER.raw_decode(text, at)[1]), number + 1
        if text[at] == ",":
            at = _space(text, at + 1)
    return None


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


FUNCTIONS: Functions = {
    "ISJSON": in_python("isjson", _is_json, INT, work_of(_PARSE_NS)),
    "JSON_QUERY": in_python("json_query", _json_query, NVARCHAR_MAX, work_of(_PARSE_NS)),
    "JSON_VALUE": in_python("json_value", _json_value, NVARCHAR, work_of(_PARSE_NS)),
}
