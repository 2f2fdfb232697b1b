"""Databases, their files, their space and their extended properties.

There is one store for all databases. Its log counts as the log of each database as far as it was written for that
database. Reads and data files are not counted: the store is only written while an instance serves, and a checkpoint
writes for all databases at once.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.embedded.broker.database import Database
from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.store.group_commit import Account
from harness.embedded.tsql.catalog.security_views import owner_sid
from harness.embedded.tsql.catalog.view import Context, TableFunction, View
from harness.embedded.tsql.catalog.visibility import Sees, everybody, on_server
from harness.embedded.tsql.instance.properties import compatibility_levels
from harness.embedded.tsql.permissions.guard import Guard

TYPES = {"ROWS": 0, "LOG": 1}
RECOVERY_MODELS = ("FULL", "BULK_LOGGED", "SIMPLE")  # from 1
DELAYED_DURABILITIES = ("DISABLED", "ALLOWED", "FORCED")
PAGE_VERIFIES = ("NONE", "TORN_PAGE_DETECTION", "CHECKSUM")
USER_ACCESSES = ("MULTI_USER", "SINGLE_USER")
LOG_FILE = 2  # the first log file, which all writes are counted for


def _files(context: Context, database: Database) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(database=database, file=file, type=TYPES[file.type_desc])
        for file in context.instance.files.of(database)
    ]


def _master_files(context: Context) -> Iterator[SimpleNamespace]:
    for database in context.engine.databases.values():
        yield from _files(context, database)


def _file_statistics(context: Context, database_id: Any, file_id: Any) -> Iterator[SimpleNamespace]:
    engine = context.engine
    sample_ms = engine.clock.now_ns // MILLISECOND
    for row in _master_files(context):
        number = row.database.database_id
        if row.file.file_id == LOG_FILE and database_id in (None, number) and file_id in (None, LOG_FILE):
            account = engine.store.accounts.get(number, Account())
            stall_ms = account.stall_ns // MILLISECOND
            yield SimpleNamespace(database_id=number, account=account, sample_ms=sample_ms, stall_ms=stall_ms)


def _mount_point(folder: Path) -> Path:
    while not folder.is_mount():
        folder = folder.parent
    return folder


def _volumes(context: Context, database_id: Any, file_id: Any) -> Iterator[SimpleNamespace]:
    folder = context.instance.data_folder
    database_ids = {database.database_id for database in context.engine.databases.values()}
    if folder is None or database_id not in database_ids or file_id is None:
        return
    space = os.statvfs(folder)
    yield SimpleNamespace(
        database_id=database_id,
        file_id=file_id,
        volume_mount_point=str(_mount_point(folder.absolute())),
        total_bytes=space.f_blocks * space.f_frsize,
        available_bytes=space.f_bavail * space.f_frsize,
    )


def _databases_seen(database: Database, guard: Guard) -> Sees:
    """ "The database to which the caller is connected can always be viewed", and so can master and tempdb; others
    by their owner, or with VIEW ANY DATABASE, which everybody has by default."""
    return lambda row: guard.sees_database(row.database) or row.database is database


FILE_COLUMNS = """
        file_id            int NOT NULL      <- file.file_id
        type               tinyint NOT NULL
        type_desc          nvarchar(60)      <- file.type_desc
        name               sysname NOT NULL  <- file.name
        physical_name      nvarchar(260)     <- file.physical_name
        state              tinyint           = 0
        state_desc         nvarchar(60)      = 'ONLINE'
        size               int               <- file.size
        max_size           int               <- file.max_size
        growth             int               <- file.growth
        is_percent_growth  bit               <- file.is_percent_growth
        """

VIEWS = [
    View(
        "databases",
        """
        name                                 sysname NOT NULL  <- database.name
        database_id                          int NOT NULL      <- database.database_id
        owner_sid                            varbinary(85)
        create_date                          datetime          <- catalog.create_time_ns
        compatibility_level                  tinyint
        collation_name                       sysname           = 'SQL_Latin1_General_CP1_CI_AS'
        user_access                          tinyint
        user_access_desc                     nvarchar(60)      <- options.USER_ACCESS
        is_read_only                         bit               = 0
        is_auto_close_on                     bit NOT NULL      <- on.AUTO_CLOSE
        is_auto_shrink_on                    bit               <- on.AUTO_SHRINK
        state                                tinyint           = 0
        state_desc                           nvarchar(60)      = 'ONLINE'
        snapshot_isolation_state_desc        nvarchar(60)      <- options.ALLOW_SNAPSHOT_ISOLATION
        is_auto_create_stats_on              bit               <- on.AUTO_CREATE_STATISTICS
        is_auto_update_stats_on              bit               <- on.AUTO_UPDATE_STATISTICS
        is_auto_update_stats_async_on        bit               <- on.AUTO_UPDATE_STATISTICS_ASYNC
        is_ansi_null_default_on              bit               <- on.ANSI_NULL_DEFAULT
        is_ansi_nulls_on                     bit               <- on.ANSI_NULLS
        is_ansi_padding_on                   bit               <- on.ANSI_PADDING
        is_ansi_warnings_on                  bit               <- on.ANSI_WARNINGS
        is_arithabort_on                     bit               <- on.ARITHABORT
        is_concat_null_yields_null_on        bit               <- on.CONCAT_NULL_YIELDS_NULL
        is_numeric_roundabort_on             bit               = 0
        is_quoted_identifier_on              bit               <- on.QUOTED_IDENTIFIER
        is_cursor_close_on_commit_on         bit               = 0
        is_local_cursor_default              bit               = 0
        is_date_correlation_on               bit               <- on.DATE_CORRELATION_OPTIMIZATION
        is_db_chaining_on                    bit               = 0
        is_parameterization_forced           bit
        is_encrypted                         bit               = 0
        target_recovery_time_in_seconds      int               = NULL
        group_database_id                    uniqueidentifier  = NULL
        is_read_committed_snapshot_on        bit               <- catalog.is_read_committed_snapshot_on
        recovery_model                       tinyint
        recovery_model_desc                  nvarchar(60)      <- options.RECOVERY
        page_verify_option                   tinyint
        page_verify_option_desc              nvarchar(60)      <- options.PAGE_VERIFY
        is_recursive_triggers_on             bit               = 0
        is_trustworthy_on                    bit               <- catalog.is_trustworthy_on
        is_master_key_encrypted_by_server    bit               <- catalog.principals.is_master_key_encrypted_by_server
        service_broker_guid                  uniqueidentifier NOT NULL  <- catalog.service_broker_guid
        is_broker_enabled                    bit NOT NULL      <- catalog.is_broker_enabled
        is_honor_broker_priority_on          bit               <- catalog.is_honor_broker_priority_on
        log_reuse_wait_desc                  nvarchar(60)      = 'NOTHING'
        delayed_durability                   int
        delayed_durability_desc              nvarchar(60)      <- options.DELAYED_DURABILITY
        is_query_store_on                    bit               <- on.QUERY_STORE
        is_accelerated_database_recovery_on  bit               <- on.ACCELERATED_DATABASE_RECOVERY
        """,
        lambda context: [
            SimpleNamespace(
                database=database,
                catalog=database.catalog,
                owner_sid=owner_sid(database, context.instance),
                options=SimpleNamespace(**database.catalog.shown_options),
                on=SimpleNamespace(**{name: value == "ON" for name, value in database.catalog.shown_options.items()}),
            )
            for database in context.engine.databases.values()
        ],
        compatibility_level=lambda row: row.catalog.compatibility_level or compatibility_levels(row.database)[-1],
        recovery_model=lambda row: RECOVERY_MODELS.index(row.options.RECOVERY) + 1,
        user_access=lambda row: USER_ACCESSES.index(row.options.USER_ACCESS),
        page_verify_option=lambda row: PAGE_VERIFIES.index(row.options.PAGE_VERIFY),
        delayed_durability=lambda row: DELAYED_DURABILITIES.index(row.options.DELAYED_DURABILITY),
        is_parameterization_forced=lambda row: row.options.PARAMETERIZATION == "FORCED",
        visible=_databases_seen,
    ),
    View(
        "master_files",
        "database_id        int NOT NULL      <- database.database_id" + FILE_COLUMNS,
        _master_files,
        visible=on_server("CREATE ANY DATABASE", "VIEW ANY DEFINITION"),
    ),
    View("database_files", FILE_COLUMNS, lambda context: _files(context, context.database), visible=everybody),
    View(
        "dm_db_log_space_usage",
        """
        database_id              int
        total_log_size_in_bytes  bigint  = NULL
        used_log_space_in_bytes  bigint  = NULL
        """,
        lambda context: [context.database],
        visible=everybody,
    ),
    View(
        "extended_properties",
        """
        class       tinyint NOT NULL  = 0
        class_desc  nvarchar(60)      = 'DATABASE'
        major_id    int NOT NULL      = 0
        minor_id    int NOT NULL      = 0
        name        sysname NOT NULL
        value       nvarchar(3750)
        """,
        lambda context: context.instance.extended_properties.of(context.database.database_id),
        visible=everybody,
    ),
]

FUNCTIONS = [
    TableFunction(
        "dm_io_virtual_file_stats",
        """
        database_id           smallint NOT NULL
        file_id               smallint NOT NULL  = 2
        sample_ms             bigint NOT NULL
        num_of_reads          bigint NOT NULL    = 0
        num_of_bytes_read     bigint NOT NULL    = 0
        io_stall_read_ms      bigint NOT NULL    = 0
        num_of_writes         bigint NOT NULL    <- account.writes
        num_of_bytes_written  bigint NOT NULL    <- account.bytes_written
        io_stall_write_ms     bigint NOT NULL    <- stall_ms
        io_stall              bigint NOT NULL    <- stall_ms
        size_on_disk_bytes    bigint             = NULL
        """,
        _file_statistics,
        arguments=2,
    ),
    TableFunction(
        "dm_db_log_info",
        """
        database_id     int
        file_id         int
        vlf_size_mb     float
        vlf_active      bit
        """,
        lambda context, database_id: [],  # the store's log has no parts
        arguments=1,
        since=2017,
    ),
    TableFunction(
        "dm_os_volume_stats",
        """
        database_id         int
        file_id             int
        volume_mount_point  nvarchar(512)
        total_bytes         bigint
        available_bytes     bigint
        """,
        _volumes,
        arguments=2,
    ),
]
