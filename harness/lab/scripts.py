"""Run files of `sql/` as sqlcmd does (`harness.files.script_text`). Errors name file, line and SQL Server's message."""

from __future__ import annotations

import contextlib
import functools
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.files.script_text import VARIABLE, Batch, ScriptError, ScriptRefused, split, substitute
from harness.lab import interruption
from harness.lab.drivers import Connection, Cursor, OdbcError
from harness.lab.error_remedies import OF_STATEMENT, error_text, explain
from harness.machine.places import SQL_ROOT

_BATCH_ROWS = 20_000  # in memory as Python's objects, of a result of millions
POLL_TIMEOUT_S = 30  # a poll that takes longer is blocked by something
_COMMENT_OR_STRING = re.compile(r"/\*.*?\*/|--[^\n]*|'(?:[^']|'')*'", re.DOTALL)
_CREATE = re.compile(
    r"\bCREATE\s+(?:OR\s+ALTER\s+)?(?:UNIQUE\s+|(?:NON)?CLUSTERED\s+)*(?P<kind>MESSAGE\s+TYPE|\w+)"
    r"\s+(?P<name>{name})(?:\s+ON\s+(?P<on>{name}))?".format(
        name=r"(?:\[[^\]]+\]|[\w$()]+)(?:\.(?:\[[^\]]+\]|[\w$()]+))*"
    ),
    re.IGNORECASE,
)
_FULL = {"PROC": "PROCEDURE"}


def load(path: Path | str, variables: Mapping[str, str]) -> list[Batch]:
    """Return the batches of a file of `sql/` (or any path), with variables substituted."""
    return _load(str(path), frozenset(variables.items()))


@functools.lru_cache(maxsize=256)  # files of sql/observe run many times a second
def _load(path: str, variables: frozenset[tuple[str, str]]) -> list[Batch]:
    return [
        replace(batch, text=substitute(batch.text, dict(variables), origin=path, line=batch.line))
        for batch in split(_text(path))
    ]


def created(path: Path | str) -> list[str]:
    """Return what the statements of a file create, as they name it: `PROCEDURE dbo.SendMessage`.

    Only what stands in the file counts, not what an executed string creates.
    """
    return [f"{kind} {name}" for kind, name, _ in creations(path, {})]


def creations(path: Path | str, variables: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return kind and name of what the statements of a file create, and the table of an index or a trigger."""
    values = {name.lower(): value for name, value in variables.items()}
    text = VARIABLE.sub(lambda match: values.get(match[1].lower(), match[0]), _COMMENT_OR_STRING.sub(" ", _text(path)))
    return [
        (_FULL.get(kind, kind), match["name"], match["on"] or "")
        for match in _CREATE.finditer(text)
        for kind in (" ".join(match["kind"].upper().split()),)
    ]


def single(path: Path | str, variables: Mapping[str, str]) -> str:
    """Return the text of a file with one batch, like those of sql/observe."""
    batches = load(path, variables)
    if len(batches) != 1:
        raise ScriptError(f"{path}: expected one batch, found {len(batches)}")
    return batches[0].text


def run(connection: Connection, path: Path | str, variables: Mapping[str, str]) -> None:
    """Run a file on a connection with autocommit. Reads all results, drops them, and raises errors in any of them."""
    batches = load(path, variables)
    for batch in batches:
        for _ in range(batch.count):
            failure = _failure(connection, path, batch)
            # Outside `except`, where an error of the second run would have the first as its context
            if failure is not None:
                located = _located(connection, batch, failure)
                if any(_SKIPS in each.text for each in batches):  # else nothing would run on this connection any more
                    with contextlib.suppress(ScriptError):
                        execute(connection, "SET NOEXEC OFF;")
                if located:
                    line, text = located
                    raise ScriptRefused(f"{path}, line {line}: {text}") from failure.__cause__
                raise failure


def _failure(connection: Connection, path: Path | str, batch: Batch) -> ScriptError | None:
    """Run a batch; return its error."""
    try:
        _query(connection, batch.text, f"{path}, batch at line {batch.line}")
    except ScriptError as error:
        return error
    return None


def _located(connection: Connection, batch: Batch, error: ScriptError) -> tuple[int, str] | None:
    """Return the line of the file at which a batch failed, and the error's text; None where nothing says it.

    ODBC drivers pass no line on. So the batch runs once more, in a transaction that is rolled back, and inside TRY,
    whose CATCH knows the line. Where that is another error, as for statements that no transaction may have, or one of
    a procedure that the batch calls, the line would be wrong.
    """
    if _state(error)[:2] not in OF_STATEMENT:
        return None
    try:
        names, values = _query(connection, _IN_TRY.format(batch.text.replace("'", "''")), "")
    except ScriptError:
        with contextlib.suppress(ScriptError):
            execute(connection, _ROLL_BACK)
        return None
    if names != _IN_CATCH:
        return None
    number, line, procedure, message = values[-1]  # behind the batch's own results
    procedures = {match["name"].split(".")[-1].strip("[]").lower() for match in _CREATE.finditer(batch.text)}
    if f"({number})" not in str(error.__cause__) or (procedure and procedure.split(".")[-1].lower() not in procedures):
        return None
    message = _EMBEDDED_LINE.sub("", " ".join(message.split()))
    return batch.line + line - 1, explain(f"{message} (error {number})")


def execute(connection: Connection, statement: str, *parameters: object) -> None:
    """Run one statement or call. Reads all results, drops them, and raises errors in any of them."""
    _query(connection, statement, statement, parameters)


def rows(connection: Connection, path: Path | str, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a file's only result set, by column name."""
    table: list[dict[str, Any]] = []
    for batch in load(path, variables):
        names, values = _query(connection, batch.text, f"{path}, batch at line {batch.line}")
        table += [dict(zip(names, row, strict=True)) for row in values]
    return table


def poll(connection: Connection, path: Path | str, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Do what `rows` does, for a state that somebody waits for, and that no server takes long to tell."""
    before, connection.timeout = connection.timeout, POLL_TIMEOUT_S
    try:
        return rows(connection, path, variables)
    finally:
        connection.timeout = before


def result_sets(
    connection: Connection, batch: str, origin: str
) -> tuple[list[list[dict[str, Any]]], ScriptError | None]:
    """Return the rows of each result set that was complete before an error, and that error, if there is one."""
    tables: list[list[dict[str, Any]]] = []
    cursor = connection.cursor()

    def ask() -> None:
        cursor.execute(batch)
        while True:
            if cursor.description:
                names = [column[0] for column in cursor.description]
                tables.append([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
            if not cursor.nextset():
                return

    try:
        interruption.call(cursor, ask)
    except OdbcError as error:
        failure = ScriptError(f"{origin}: {error_text(error)}")
        failure.__cause__ = error
        return tables, failure
    finally:
        interruption.close_cursor(cursor)  # else results behind an error keep the connection busy
    return tables, None


def columns(connection: Connection, path: Path | str, variables: Mapping[str, str]) -> dict[str, array[int]]:
    """Return the columns of a file's only result set, all of them integers. Millions of rows take 8 bytes a value."""
    by_name: dict[str, array[int]] = {}

    def keep(cursor: Cursor) -> None:
        by_name.update((column[0], array("q")) for column in cursor.description)
        while batch := cursor.fetchmany(_BATCH_ROWS):
            for values, more in zip(by_name.values(), zip(*batch, strict=True), strict=True):
                values.extend(more)

    _each_result(connection, single(path, variables), str(path), (), keep)
    return by_name


def values(connection: Connection, statement: str) -> list[Any]:
    """Return the first column of every row."""
    return [row[0] for row in _query(connection, statement, statement)[1]]


def scalar(connection: Connection, statement: str) -> Any:
    """Return the first column of the first row."""
    return _query(connection, statement, statement)[1][0][0]


def _query(
    connection: Connection, statement: str, origin: str, parameters: Sequence[object] = ()
) -> tuple[list[str], list[Any]]:
    """Run a statement and read all its results. Returns the last column names and all rows."""
    names: list[str] = []
    values: list[Any] = []

    def keep(cursor: Cursor) -> None:
        names[:] = [column[0] for column in cursor.description]
        values.extend(cursor.fetchall())

    _each_result(connection, statement, origin, parameters, keep)
    return names, values


def _each_result(
    connection: Connection, statement: str, origin: str, parameters: Sequence[object], keep: Callable[[Cursor], None]
) -> None:
    """Run a statement, and let `keep` read each result set."""
    with connection.cursor() as cursor:

        def ask() -> None:
            cursor.execute(statement, *parameters)
            while True:
                if cursor.description:
                    keep(cursor)
                if not cursor.nextset():
                    return

        try:
            interruption.call(cursor, ask)
        except OdbcError as error:
            raise ScriptError(f"{origin}: {error_text(error)}") from error


def _text(path: Path | str) -> str:
    file = Path(path)
    if not file.is_absolute():
        file = SQL_ROOT / file
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScriptError(f"{file}: not UTF-8") from None


_IN_CATCH = ["error_number", "error_line", "error_procedure", "error_message"]
_EMBEDDED_LINE = re.compile(r" \(line \d+\)")  # of the batch; in texts of the embedded server's own
_IN_TRY = """\
BEGIN TRANSACTION;
BEGIN TRY
    EXEC (N'{}');
END TRY
BEGIN CATCH
    SELECT
        ERROR_NUMBER() AS error_number,
        ERROR_LINE() AS error_line,
        ERROR_PROCEDURE() AS error_procedure,
        ERROR_MESSAGE() AS error_message;
END CATCH;
IF @@TRANCOUNT > 0
    ROLLBACK TRANSACTION;
"""
_SKIPS = "SET NOEXEC ON"  # skips what already exists
_ROLL_BACK = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;"

# SQLSTATE of syntax errors and missing rights (42000), missing objects (42S02) and columns (42S22). A broken
# connection is 08S01, a timeout HYT00, a deadlock 40001.
_CLASS = "42"


def is_refusal(error: ScriptError) -> bool:
    """Return whether the instance refused the query: repeating it would not help, and nothing else is wrong."""
    return _state(error).startswith(_CLASS)


def is_broken(error: ScriptError) -> bool:
    """Return whether the connection has ended, so that every further query on it fails."""
    return _state(error).startswith("08")


def _state(error: ScriptError) -> str:
    cause = error.__cause__
    return str(cause.args[0]) if cause is not None and cause.args else ""
