"""Databases, their files, their space and their extended properties.

There is one store for all databases. Its log counts as the log of each database as far as it was written for that
database. Reads and data files are not counted: the store is only written while an instance serves, and a checkpoint
writes for all databases at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness.embedded.broker.database import Database
from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.store import Account
from harness.embedded.tsql.catalog.principal_views import owner_sid
from harness.embedded.tsql.catalog.view import (
    Context,
    TableFunction,
    View,
    ViewColumn,
    attribute,
    bigint,
    bit,
    column,
    datetime,
    guid,
    int_,
    nvarchar,
    of_first,
    sid,
    smallint,
    sysname,
    tinyint,
)
from harness.embedded.tsql.instance.database_properties import File
from harness.embedded.tsql.instance.options import product
from harness.embedded.tsql.storage.conversion import datetime_from_utc_ns

TYPES = {"ROWS": 0, "LOG": 1}
LOG_FILE = 2  # the first log file, which all writes are counted for


class DatabaseFile(NamedTuple):
    database: Database
    file: File


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
        attribute("name", sysname, "file.name", nullable=False),
        attribute("physical_name", nvarchar(260), "file.physical_name"),
        column("state", tinyint, 0),
        column("state_desc", nvarchar(60), "ONLINE"),
        attribute("size", int_, "file.size"),
        attribute("max_size", int_, "file.max_size"),
        attribute("growth", int_, "file.growth"),
        column("is_percent_growth", bit, lambda row: int(row.file.is_percent_growth)),
    ]


class Volume(NamedTuple):
    database_id: int
    file_id: int
    volume_mount_point: str
    total_bytes: int
    available_bytes: int


def _mount_point(folder: Path) -> Path:
    while not folder.is_mount():
        folder = folder.parent
    return folder


def _volumes(context: Context, database_id: Any, file_id: Any) -> Iterator[Volume]:
    folder: Path | None = getattr(context.engine.store, "folder", None)
    known = {database.database_id for database in context.engine.databases.values()}
    if folder is None or database_id not in known or file_id is None:
        return
    space = os.statvfs(folder)
    yield Volume(
        database_id,
        file_id,
        str(_mount_point(folder.absolute())),
        space.f_blocks * space.f_frsize,
        space.f_bavail * space.f_frsize,
    )


def _compatibility_level(database: Database) -> int:
    """The level of a database created on this version."""
    number, _ = product(database.catalog.server_version)
    return 10 * int(number.partition(".")[0])


VIEWS = [
    View(
        "databases",
        [
            *map(
                of_first,
                [
                    attribute("name", sysname, nullable=False),
                    attribute("database_id", int_, nullable=False),
                ],
            ),
            column("owner_sid", sid, lambda row: owner_sid(*row)),
            *map(
                of_first,
                [
                    column(
                        "create_date", datetime, lambda database: datetime_from_utc_ns(database.catalog.create_time_ns)
                    ),
                    column("compatibility_level", tinyint, _compatibility_level),
                    column("collation_name", sysname, "SQL_Latin1_General_CP1_CI_AS"),
                    column("user_access", tinyint, 0),
                    column("user_access_desc", nvarchar(60), "MULTI_USER"),
                    column("is_read_only", bit, 0),
                    column("is_auto_close_on", bit, 0, nullable=False),
                    column("is_auto_shrink_on", bit, 0),
                    column("state", tinyint, 0),
                    column("state_desc", nvarchar(60), "ONLINE"),
                    column("snapshot_isolation_state_desc", nvarchar(60), "OFF"),
                    column("is_auto_update_stats_on", bit, None),
                    column("is_encrypted", bit, 0),
                    column("target_recovery_time_in_seconds", int_, None),
                    column("is_read_committed_snapshot_on", bit, 0),
                    column("recovery_model", tinyint, 3),
                    column("recovery_model_desc", nvarchar(60), "SIMPLE"),
                    # The store has no pages to verify.
                    column("page_verify_option_desc", nvarchar(60), None),
                    column("is_trustworthy_on", bit, 0),
                    column(
                        "is_master_key_encrypted_by_server", bit, lambda d: int(d.catalog.principals.has_master_key)
                    ),
                    attribute("service_broker_guid", guid, "catalog.service_broker_guid", nullable=False),
                    column(
                        "is_broker_enabled",
                        bit,
                        lambda database: int(database.catalog.is_broker_enabled),
                        nullable=False,
                    ),
                    column("is_honor_broker_priority_on", bit, lambda d: int(d.catalog.is_honor_broker_priority_on)),
                    column("log_reuse_wait_desc", nvarchar(60), "NOTHING"),
                    # Every commit waits for the disk.
                    column("delayed_durability", int_, 0),
                    column("delayed_durability_desc", nvarchar(60), "DISABLED"),
                    column("is_query_store_on", bit, 0),
                    column("is_accelerated_database_recovery_on", bit, 0),
                ],
            ),
        ],
        lambda context: [(database, context.instance) for database in context.engine.databases.values()],
    ),
    View(
        "master_files",
        [attribute("database_id", int_, "database.database_id", nullable=False), *_file_columns()],
        _master_files,
    ),
    View("database_files", _file_columns(), lambda context: _files(context, context.database)),
    View(
        "dm_db_log_space_usage",
        [
            column("database_id", int_, lambda database: database.database_id),
            column("total_log_size_in_bytes", bigint, None),
            column("used_log_space_in_bytes", bigint, None),
        ],
        lambda context: [context.database],
    ),
    View(
        "extended_properties",
        [
            column("class", tinyint, 0, nullable=False),
            column("class_desc", nvarchar(60), "DATABASE"),
            column("major_id", int_, 0, nullable=False),
            column("minor_id", int_, 0, nullable=False),
            attribute("name", sysname, nullable=False),
            attribute("value", nvarchar(3750)),  # sql_variant in SQL Server
        ],
        lambda context: context.instance.extended_properties.of(context.database.database_id),
    ),
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
        ],
        _file_statistics,
        arguments=2,
    ),
    TableFunction(
        "dm_os_volume_stats",
        [
            attribute("database_id", int_),
            attribute("file_id", int_),
            attribute("volume_mount_point", nvarchar(512)),
            attribute("total_bytes", bigint),
            attribute("available_bytes", bigint),
        ],
        _volumes,
        arguments=2,
    ),
]
