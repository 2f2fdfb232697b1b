"""The files of databases. There is one store for all of them; its log is each database's log as far as it is written
for that database. Data files are not counted: nothing is read while an instance serves, and a checkpoint writes for
all databases at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.sqltypes import SqlType
from harness.embedded.store import Account
from harness.embedded.tsql.catalog.view import (
    Context,
    TableFunction,
    View,
    ViewColumn,
    attribute,
    bigint,
    bit,
    column,
    int_,
    nvarchar,
    smallint,
    sysname,
    tinyint,
)
from harness.embedded.tsql.instance.database_files import File

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database

TYPES = {"ROWS": 0, "LOG": 1}
LOG_FILE = 2  # the first one; what is written is not divided among several


class DatabaseFile(NamedTuple):
    database: Database
    file: File


def database_of(table: str) -> int:
    """Whose log a row of this object of the store goes to: what belongs to no single database is master's."""
    words = table.split(".")
    return next((int(word) for word in words[1:] if word.isdigit()), 1)


def _files(context: Context, database: Database) -> list[DatabaseFile]:
    return [DatabaseFile(database, file) for file in context.instance.files.of(database)]


def _master_files(context: Context) -> Iterator[DatabaseFile]:
    for database in context.engine.databases.values():
        yield from _files(context, database)


class FileStatistics(NamedTuple):
    database_id: int
    file_id: int
    account: Account
    sample_ms: int


def _file_statistics(context: Context, database_id: Any, file_id: Any) -> Iterator[FileStatistics]:
    engine = context.engine
    sample_ms = (engine.clock.utc_ns() - context.instance.started_ns) // MILLISECOND
    for database, file in _master_files(context):
        wanted = database_id in (None, database.database_id) and file_id in (None, file.file_id)
        if wanted and file.file_id == LOG_FILE:
            account = engine.store.accounts.get(database.database_id, Account())
            yield FileStatistics(database.database_id, file.file_id, account, sample_ms)


def _file_columns() -> list[ViewColumn]:
    return [
        attribute("file_id", int_, "file.file_id", nullable=False),
        column("type", tinyint, lambda row: TYPES[row.file.type_desc], nullable=False),
        attribute("type_desc", nvarchar(60), "file.type_desc"),
        column("data_space_id", int_, lambda row: 1 - TYPES[row.file.type_desc]),
        attribute("name", sysname, "file.name", nullable=False),
        attribute("physical_name", nvarchar(260), "file.physical_name"),
        column("state", tinyint, 0),
        column("state_desc", nvarchar(60), "ONLINE"),
        attribute("size", int_, "file.size"),
        attribute("max_size", int_, "file.max_size"),
        attribute("growth", int_, "file.growth"),
        column("is_percent_growth", bit, lambda row: int(row.file.is_percent_growth)),
    ]


VIEWS = [
    View(
        "master_files",
        [attribute("database_id", int_, "database.database_id", nullable=False), *_file_columns()],
        _master_files,
    ),
    View("database_files", _file_columns(), lambda context: _files(context, context.database)),
]

FUNCTIONS = [
    TableFunction(
        "dm_io_virtual_file_stats",
        [
            attribute("database_id", smallint, nullable=False),
            attribute("file_id", smallint, nullable=False),
            attribute("sample_ms", bigint, nullable=False),
            column("num_of_reads", bigint, 0, nullable=False),
            column("num_of_bytes_read", bigint, 0, nullable=False),
            column("io_stall_read_ms", bigint, 0, nullable=False),
            attribute("num_of_writes", bigint, "account.writes", nullable=False),
            attribute("num_of_bytes_written", bigint, "account.bytes_written", nullable=False),
            column("io_stall_write_ms", bigint, lambda row: row.account.stall_ns // MILLISECOND, nullable=False),
            column("io_stall", bigint, lambda row: row.account.stall_ns // MILLISECOND, nullable=False),
            column("size_on_disk_bytes", bigint, None),
            column("file_handle", SqlType("varbinary", length=8), None),
        ],
        _file_statistics,
        arguments=2,
    )
]
