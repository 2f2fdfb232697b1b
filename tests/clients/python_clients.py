"""What differs between the DB-API libraries: how to connect, how parameters are marked, where an error's number is."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from harness.lab import drivers
from tests.clients.server import DATABASE, HOST, PASSWORD, Server

Connection = Any
WAIT = "WAITFOR DELAY '00:10:00'"


class Client:
    """One library."""

    name: str
    mark = "?"
    lacks: tuple[str, ...] = ()  # columns of dbo.kinds whose type it does not know
    digits: Mapping[str, int] = MappingProxyType({})  # of a second in a parameter, where they are not six, by column

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.opened: list[Connection] = []
        self.module = self.load()

    def load(self) -> Any:
        return pytest.importorskip(self.name, reason=f"{self.name} is not installed: make clients")

    def open(self, *, encrypted: bool, autocommit: bool, password: str, **more: Any) -> Connection:
        raise NotImplementedError

    def connect(
        self, *, encrypted: bool = False, autocommit: bool = True, password: str = PASSWORD, **more: Any
    ) -> Connection:
        self.opened.append(self.open(encrypted=encrypted, autocommit=autocommit, password=password, **more))
        return self.opened[-1]

    def run(self, connection: Connection, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of the first result set, or none."""
        cursor = connection.cursor()
        cursor.execute(sql.replace("?", self.mark), tuple(values)) if values else cursor.execute(sql)
        rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        cursor.close()
        return rows

    def number(self, error: BaseException) -> int:
        """The server's number of an error."""
        raise NotImplementedError

    def doubled(self, connection: Connection, n: int) -> int:
        """Call dbo.doubled and return its output parameter."""
        sql = "SET NOCOUNT ON; DECLARE @d int; EXEC dbo.doubled ?, @d OUTPUT; SELECT @d"
        return int(self.run(connection, sql, [n])[0][0])

    def cancel(self) -> Connection:
        """Give up a request that runs, and return its connection."""
        raise NotImplementedError

    def close(self) -> None:
        for connection in self.opened:
            with contextlib.suppress(self.module.Error):  # a test closed it
                connection.close()


class Pyodbc(Client):
    name = "pyodbc"
    lacks = ("a_offset",)
    digits = MappingProxyType({"a_time": 0})
    kind: drivers.Kind

    def load(self) -> Any:
        try:
            self.driver = drivers.choose(self.kind)
        except drivers.NoDriver as reason:
            pytest.skip(str(reason))
        return super().load()

    def open(self, *, encrypted: bool, autocommit: bool, password: str, **more: Any) -> Connection:
        text = self.driver.connection_string(
            host=HOST,
            port=self.server.port,
            user="sa",
            password=password,
            database=DATABASE,
            program="tests",
            encrypt="mandatory" if encrypted else "optional",
        )
        return self.module.connect(
            text + "".join(f";{key}={value}" for key, value in more.items()), autocommit=autocommit
        )

    def number(self, error: BaseException) -> int:
        return int(re.findall(r"\((\d+)\) \(SQL", str(error.args[1]))[0])

    def cancel(self) -> Connection:
        connection = self.connect()
        connection.timeout = 1
        with pytest.raises(self.module.OperationalError, match="HYT00"):
            connection.execute(WAIT)
        connection.timeout = 0
        return connection


class PyodbcMicrosoft(Pyodbc):
    kind = "microsoft"


class PyodbcFreetds(Pyodbc):
    kind = "freetds"


class MssqlPython(Client):
    name = "mssql_python"

    def open(self, *, encrypted: bool, autocommit: bool, password: str, **more: Any) -> Connection:
        encrypt = "yes" if encrypted else "no"
        text = (
            f"Server={HOST},{self.server.port};Database={DATABASE};Uid=sa;Pwd={password};Encrypt={encrypt};"
            "TrustServerCertificate=yes" + "".join(f";{key}={value}" for key, value in more.items())
        )
        return self.module.connect(text, autocommit=autocommit)

    def number(self, error: BaseException) -> int:
        """The library keeps the text without the number."""
        texts = {"Invalid object name": 208, "duplicate key": 2627, "Login failed": 18456, "by the client": 50000}
        return next(number for text, number in texts.items() if text in str(error))

    def cancel(self) -> Connection:
        connection = self.connect()
        connection.timeout = 1
        with pytest.raises(self.module.OperationalError, match="imeout"):
            connection.cursor().execute(WAIT)
        connection.timeout = 0
        return connection


class Pymssql(Client):
    name = "pymssql"
    mark = "%s"
    digits = MappingProxyType({"a_datetime2": 3})

    def open(self, *, encrypted: bool, autocommit: bool, password: str, **more: Any) -> Connection:
        return self.module.connect(
            server=HOST,
            port=str(self.server.port),
            user="sa",
            password=password,
            database=DATABASE,
            autocommit=autocommit,
            encryption="require" if encrypted else "off",
            tds_version="7.4",
            **more,
        )

    def number(self, error: BaseException) -> int:
        found = error.args[0]
        return int(found[0] if isinstance(found, tuple) else found)

    def doubled(self, connection: Connection, n: int) -> int:
        cursor = connection.cursor()
        return int(cursor.callproc("dbo.doubled", (n, self.module.output(int)))[1])

    def cancel(self) -> Connection:
        """It closes the connection, which ends the session. Its time limit is that of all connections in the process."""
        connection = self.connect(timeout=1)
        [(session,)] = self.run(connection, "SELECT @@SPID")
        with pytest.raises(self.module.OperationalError, match="timed out"):
            connection.cursor().execute(WAIT)
        other = self.connect(timeout=0)
        while self.run(
            other, f"SELECT 1 FROM sys.dm_exec_requests WHERE session_id = {session} AND session_id <> @@SPID"
        ):
            pass
        return other


class PythonTds(Client):
    name = "pytds"
    mark = "%s"

    def open(self, *, encrypted: bool, autocommit: bool, password: str, **more: Any) -> Connection:
        if encrypted:
            pytest.importorskip("OpenSSL", reason="pyOpenSSL is not installed: make clients")
            file = self.folder / "server.pem"
            file.write_text(self.server.certificate(), encoding="ascii")
            more |= {"cafile": str(file), "validate_host": False}
        return self.module.connect(
            dsn=HOST,
            port=self.server.port,
            user="sa",
            password=password,
            database=DATABASE,
            autocommit=autocommit,
            **more,
        )

    def number(self, error: BaseException) -> int:
        return int(error.number)  # type: ignore[attr-defined]

    def run(self, connection: Connection, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """It takes bytes for text unless they are marked."""
        marked = [self.module.Binary(value) if isinstance(value, bytes) else value for value in values]
        return super().run(connection, sql, marked)

    def doubled(self, connection: Connection, n: int) -> int:
        cursor = connection.cursor()
        return int(cursor.callproc("dbo.doubled", (n, self.module.output(param_type="int")))[1])

    def cancel(self) -> Connection:
        connection = self.connect(timeout=1)
        with pytest.raises(TimeoutError):
            connection.cursor().execute(WAIT)
        return connection


CLIENTS: tuple[type[Client], ...] = (PyodbcMicrosoft, PyodbcFreetds, MssqlPython, Pymssql, PythonTds)
