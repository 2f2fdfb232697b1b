"""Answers as text that is equal in two runs if the servers behave the same.

Numbered in the order of their appearance: uniqueidentifiers, ids of objects, transaction ids. Replaced by a word, because
their order is not defined: times of the run, ids of sessions and databases, names of the server and the test's database.
Ids below 70000 stay (types, contracts, services and routes count from 65536), as do times that the test itself wrote and
1900-01-01, which stands for "none" in the catalog.
"""

import datetime
import re
import uuid
from collections.abc import Iterable
from typing import Any

import pyodbc

from tests.parity.recording import Result, Sent

_GUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?"
_VARIABLE = re.compile(rf"(?P<guid>{_GUID})|(?P<time>{_TIME})|(?P<spid>(?<=<SPID>)\d+|(?<=Process ID )\d+)")
_NO_TIME = datetime.datetime(1900, 1, 1)
_FIRST_OBJECT_ID = 70_000
_UNORDERED_IDS = ("spid", "session_id", "database_id")
_SHORT = 200


class Names:
    """Replacements within one test on one server."""

    def __init__(self, fixed: dict[str, str]) -> None:
        """`fixed`: texts that differ between the runs, and the word for each."""
        self._fixed = {text: word for text, word in fixed.items() if text}
        self._seen: dict[str, dict[object, str]] = {}

    def _number(self, kind: str, value: object) -> str:
        seen = self._seen.setdefault(kind, {})
        return seen.setdefault(value, f"<{kind} {len(seen) + 1}>")

    def text(self, text: str, given: frozenset[str] = frozenset()) -> str:
        """The text with its replacements; `given` are times that the statement itself contains."""
        for variable, word in self._fixed.items():
            text = re.sub(rf"(?<!\w){re.escape(variable)}(?!\w)", word, text, flags=re.IGNORECASE)

        def replacement(match: re.Match[str]) -> str:
            if match["guid"]:
                value = uuid.UUID(match[0])
                return match[0] if not value.int else self._number("guid", value)
            if match["time"]:
                return match[0] if match[0] in given or match[0].startswith("1900-01-01") else "<time>"
            return "<session>"

        return _VARIABLE.sub(replacement, text)

    def value(self, column: str, value: Any, given: frozenset[str] = frozenset()) -> str:
        name = column.lower()
        if value is None or value is pyodbc.BinaryNull:
            return "NULL"
        if isinstance(value, bytes):
            return self._binary(name, value, given)
        if isinstance(value, str):
            return repr(_shortened(self.text(value, given)))
        if isinstance(value, datetime.datetime):
            text = value.isoformat(sep=" ")
            return text if value == _NO_TIME or text in given else "<time>"
        if isinstance(value, int) and (number := self._identifier(name, value)):
            return number
        return str(int(value) if isinstance(value, bool) else value)

    def _identifier(self, name: str, value: int) -> str | None:
        """The replacement of a number that identifies something; None for any other number."""
        if name in _UNORDERED_IDS:
            return f"<{name}>"
        if name.endswith("_id") and abs(value) >= _FIRST_OBJECT_ID:
            return self._number("id", value)
        return None

    def _binary(self, name: str, value: bytes, given: frozenset[str]) -> str:
        if name.endswith("_tran_id") and any(value):
            return self._number("transaction", value)
        if value.startswith(b"\xff\xfe"):
            return "utf-16 " + repr(_shortened(self.text(value.decode("utf-16"), given)))
        return "0x" + _shortened(value.hex())


def _shortened(text: str) -> str:
    if len(text) <= _SHORT * 10:
        return text
    return f"{text[:_SHORT]}... ({len(text)} characters)"


def written(sent: Iterable[Sent], names: Names) -> list[dict[str, Any]]:
    """The statements of a test and their answers, ready for JSON."""
    return [_statement(one, names) for one in sent]


def _statement(sent: Sent, names: Names) -> dict[str, Any]:
    given = frozenset(re.findall(_TIME, sent.text)) | frozenset(
        value.isoformat(sep=" ") for value in sent.parameters if isinstance(value, datetime.datetime)
    )
    return {
        "connection": sent.connection,
        "statement": names.text(_unindented(sent.text), given),
        "parameters": [names.value("", value, given) for value in sent.parameters],
        "results": [_result(result, names, given) for result in sent.results],
        "error": None if sent.error is None else names.text(str(sent.error.args[-1]), given),
    }


def _result(result: Result, names: Names, given: frozenset[str]) -> dict[str, Any]:
    columns = result.columns or []
    return {
        "columns": [_column(column) for column in columns],
        "rows": [
            [names.value(column[0], value, given) for column, value in zip(columns, row, strict=True)]
            for row in result.rows
        ],
        "row_count": result.row_count,
        "messages": [names.text(text, given) for _, text in result.messages],
    }


def _column(column: tuple[Any, ...]) -> str:
    name, kind, _, size, precision, scale, nullable = column
    return f"{name or '(no name)'} {kind.__name__}({size}, {precision}, {scale}){' NULL' if nullable else ''}"


def _unindented(text: str) -> str:
    lines = text.strip("\n").rstrip().splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[indent:] for line in lines)
