"""Disk and log. This server has one file for everything, which grows as long as its disk has room; a log of its own
size there is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.catalog.view import Context, TableFunction, View, attribute, bigint, column, int_, nvarchar


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


VIEWS = [
    View(
        "dm_db_log_space_usage",
        [
            column("database_id", int_, lambda database: database.database_id),
            column("total_log_size_in_bytes", bigint, None),
            column("used_log_space_in_bytes", bigint, None),
            column("used_log_space_in_percent", SqlType("real"), None),
            column("log_space_in_bytes_since_last_backup", bigint, None),
        ],
        lambda context: [context.database],
    )
]

FUNCTIONS = [
    TableFunction(
        "dm_os_volume_stats",
        [
            attribute("database_id", int_),
            attribute("file_id", int_),
            attribute("volume_mount_point", nvarchar(512)),
            column("volume_id", nvarchar(512), None),
            column("logical_volume_name", nvarchar(512), None),
            column("file_system_type", nvarchar(512), None),
            attribute("total_bytes", bigint),
            attribute("available_bytes", bigint),
        ],
        _volumes,
        arguments=2,
    )
]
