"""Files of JSON that the harness wrote and reads again: what somebody has changed is an error of one line, which names
file, line and key.
"""

import json
import re
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from harness.failures import UsageFailure
from harness.files.toml_file import Key, name

Read = TypeVar("Read")
_BETWEEN = re.compile(r"[\s,:]*")


class DamagedFile(UsageFailure):
    """A file does not say what its type asks for."""


def checked(adapter: TypeAdapter[Read], data: bytes, path: Path, *, first_line: int = 1) -> Read:
    """Return what the text, which begins on a line of the file, says; raises DamagedFile for its first mistake."""
    try:
        return adapter.validate_json(data, strict=True)
    except ValidationError as invalid:
        mistake = in_words(path, data, invalid, first_line=first_line)
        raise DamagedFile(f"{mistake}: put back what the harness wrote there") from None


def in_words(path: Path, data: bytes, invalid: ValidationError, *, at: Key = (), first_line: int = 1) -> str:
    """Say what pydantic has found first in a text, or in the value of its key `at`, with file and line."""
    mistake = invalid.errors()[0]
    if mistake["type"] == "json_invalid":
        complaint, _, place = mistake["ctx"]["error"].rpartition(" at line ")
        line, complaint = int(place.split()[0]), f"no JSON ({complaint})"
    else:
        key = (*at, *mistake["loc"])
        complaint = "missing" if mistake["type"] == "missing" else re.sub("^(Input|Value error,) ", "", mistake["msg"])
        line, complaint = _line(data.decode(), key), ": ".join(filter(None, [name(key), complaint]))
    return f"{path}, line {first_line + line - 1}: {complaint}"


def _line(text: str, key: Key) -> int:
    """Return the line on which the value of a key begins, or the nearest value around it that there is."""
    at = _behind(text, 0)
    for part in key:
        member = _member(text, at, part)
        if member is None:
            break
        at = member
    return text.count("\n", 0, at) + 1


def _member(text: str, at: int, part: str | int) -> int | None:
    """Return where the value of a key begins in the object or array that begins at a place."""
    decoder, is_object = json.JSONDecoder(), text[at] == "{"
    if text[at] not in "{[":
        return None
    at, position = _behind(text, at + 1), 0
    while text[at] not in "}]":
        member: str | int = position
        if is_object:
            member, at = decoder.raw_decode(text, at)
            at = _behind(text, at)
        if member == part:
            return at
        _, at = decoder.raw_decode(text, at)
        at, position = _behind(text, at), position + 1
    return None


def _behind(text: str, at: int) -> int:
    space = _BETWEEN.match(text, at)
    assert space is not None  # it may be empty
    return space.end()
