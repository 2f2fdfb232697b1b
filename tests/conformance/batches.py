"""The T-SQL tests of the embedded broker, asked of a server behind an ODBC driver.

Their answers come from the manual, from published measurements and from memory, so SQL Server has the last word: `make
parity` asks it. `pytest tests/conformance/batches.py` asks the embedded broker; `make test` does not know this file by its
name. Here runs a test that only sends batches within its database, and reads rows, errors and printed texts. It is skipped
as soon as it wants more: another database, a login, the instance itself, virtual time.
"""

from __future__ import annotations

import datetime
import importlib
import inspect
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyodbc
import pytest

from harness.lab.drivers import Driver, choose
from tests.embedded import tsql
from tests.embedded.tsql.sides import TABLE, Batches

pytestmark = [pytest.mark.process, pytest.mark.thorough]

_BEYOND_THE_DATABASE = re.compile(
    r"\b(databases?|db(_name)?|dbcc|endpoint|here|kill|log(in|ins)|master|msdb|server(name)?|shutdown|suser_sname|tempdb|with\s+log)\b",
    re.IGNORECASE,
)
_ERROR = re.compile(r"\[SQL Server\](.*?) \((\d+)\)(?= \(SQL|; \[|$)", re.DOTALL)
_NOT_ERRORS = frozenset({0, 3621})  # PRINT, and the notice that a statement has ended
# Types of ODBC that pyodbc does not read, or reads without their last digit.
_TIME, _DATETIMEOFFSET = -154, -155


def _wanted(what: str) -> NoReturn:
    pytest.skip(f"not over ODBC: {what}")


class Told:
    """What ODBC tells; a test that asks for more is skipped."""

    def __init__(self, **known: Any) -> None:
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _wanted(name)


class AnyType:
    """A type that is whatever a test says it is. `make parity` compares the types that ODBC describes."""

    def __getattr__(self, name: str) -> AnyType:
        return self

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class ToldError(Told, Exception):
    """The number and the text of an error."""


class Moment(str):
    """A moment with seven digits of a second, of which its column shows as many as its scale."""

    __slots__ = ()


def _timestamp(raw: bytes) -> Moment:
    if len(raw) == 16:  # datetime2: SQL_TIMESTAMP_STRUCT
        *parts, ns = struct.unpack("<hHHHHHI", raw)
        moment = datetime.datetime(*parts)
    else:  # as TDS has it: datetime with 1/300 s, smalldatetime with minutes
        days, steps = struct.unpack("<iI" if len(raw) == 8 else "<HH", raw)
        ms = (steps * 10 + 1) // 3 if len(raw) == 8 else steps * 60_000
        moment = datetime.datetime(1900, 1, 1) + datetime.timedelta(days, ms // 1000)
        ns = ms % 1000 * 1_000_000
    return Moment(f"{moment.isoformat(sep=' ', timespec='seconds')}.{ns // 100:07}")


def _time(raw: bytes) -> Moment:
    hours, minutes, seconds, ns = struct.unpack("<HHHxxI", raw)
    return Moment(f"{hours:02}:{minutes:02}:{seconds:02}.{ns // 100:07}")


def _datetimeoffset(raw: bytes) -> str:
    offset = datetime.timedelta(**dict(zip(("hours", "minutes"), struct.unpack("<hh", raw[16:]), strict=True)))
    *parts, ns = struct.unpack("<hHHHHHI", raw[:16])
    utc = datetime.datetime(*parts, tzinfo=datetime.timezone(offset)).astimezone(datetime.UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}.{ns // 100:07} {'-' if offset.days < 0 else '+'}{_time_of(abs(offset))}"


def _time_of(offset: datetime.timedelta) -> str:
    return f"{offset.seconds // 3600:02}:{offset.seconds // 60 % 60:02}"


def _value(value: Any, scale: int) -> Any:
    """A value as the embedded broker has it (`harness.embedded.sqltypes`)."""
    if isinstance(value, Moment):
        return value[: len(value) - 7 + scale] if scale else value[:-8]
    if isinstance(value, datetime.date):
        return value.isoformat()
    return int(value) if isinstance(value, bool) else value


class OdbcSide(Told, Batches):
    """A database of a server, as the tests of the embedded broker know an instance."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self.session = self.connect("db")

    def connect(self, database: str, *, is_administrative: bool = False) -> Any:
        if database != "db" or is_administrative:
            _wanted("another connection")
        connection = self._connect()
        connection.add_output_converter(pyodbc.SQL_TYPE_TIMESTAMP, _timestamp)
        connection.add_output_converter(_TIME, _time)
        connection.add_output_converter(_DATETIMEOFFSET, _datetimeoffset)
        return connection

    def results(self, text: str, session: Any = None) -> Told:
        """The results of a batch, up to the statement of its first error: behind that one pyodbc reads nothing."""
        if beyond := _BEYOND_THE_DATABASE.search(text):
            _wanted(beyond[0])
        results = Told(sets=[], prints=[], errors=[])
        try:
            cursor = (session or self.session).execute(text)
            while True:
                results.prints += [said.rpartition("]")[2] for state, said in cursor.messages or () if "(0)" in state]
                if cursor.description:
                    names, _, _, _, _, scales, nullable = zip(*cursor.description, strict=True)
                    columns = [
                        Told(name=name, nullable=is_nullable, type=AnyType())
                        for name, is_nullable in zip(names, nullable, strict=True)
                    ]
                    rows = [tuple(map(_value, row, scales)) for row in cursor.fetchall()]
                    results.sets.append((columns, rows))
                if not cursor.nextset():
                    break
        except pyodbc.Error as error:
            answered = [(int(number), said) for said, number in _ERROR.findall(str(error.args[-1]))]
            results.errors += [ToldError(number=n, text=said) for n, said in answered if n not in _NOT_ERRORS]
            if not results.errors:
                raise
            if results.errors[0].number == 50001:
                _wanted("the embedded broker refuses it")
        return results


@pytest.fixture(params=["microsoft"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return choose(request.param)


@pytest.fixture
def side(connect: Callable[[], Any], request: pytest.FixtureRequest) -> OdbcSide:
    side = OdbcSide(connect)
    side.set_up(getattr(inspect.getmodule(request.function), "SET_UP", TABLE))
    return side


def _tests() -> Iterator[tuple[str, Callable[..., None]]]:
    """The tests whose only fixture is an instance as `tests.embedded.tsql.conftest` makes it, under names of their own."""
    for path in sorted(Path(tsql.__path__[0]).glob("test_*.py")):
        module = importlib.import_module(f"{tsql.__name__}.{path.stem}")
        if hasattr(module, "side"):
            continue
        for name, test in vars(module).items():
            if name.startswith("test_") and _fixtures(test) == {"side"}:
                yield f"{path.stem}__{name.removeprefix('test_')}", test


def _fixtures(test: Callable[..., None]) -> set[str]:
    marks = getattr(test, "pytestmark", [])
    if any(mark.name == "in_process" for mark in marks) or hasattr(test, "hypothesis"):
        return set()
    values = {
        name.strip()
        for mark in marks
        if mark.name == "parametrize"
        for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
    }
    return set(inspect.signature(test).parameters) - values


globals().update(_tests())
