"""Certificates and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.catalog.view import Context, View, bit, char, column, datetime, int_, nvarchar, sysname
from harness.embedded.tsql.permissions.rights import DBO_ID, FIXED_USER_IDS
from harness.embedded.tsql.storage.conversion import datetime_from_utc_ns


def _certificates(context: Context) -> Iterator[tuple[Any, int]]:
    for certificate in context.database.catalog.principals.certificates.values():
        owner = certificate.owner.lower()
        user = context.database.catalog.principals.users.get(owner)
        yield certificate, FIXED_USER_IDS.get(owner, DBO_ID) if user is None else user.principal_id


def _symmetric_keys(context: Context) -> list[tuple[str, int]]:
    return [("##MS_DatabaseMasterKey##", 101)] if context.database.catalog.principals.has_master_key else []


VIEWS = [
    View(
        "certificates",
        [
            column("name", sysname, lambda row: row[0].name, nullable=False),
            column("certificate_id", int_, lambda row: row[0].certificate_id, nullable=False),
            column("principal_id", int_, lambda row: row[1]),
            column("pvt_key_encryption_type", char(2), lambda row: "MK" if row[0].has_private_key else "NA"),
            column(
                "pvt_key_encryption_type_desc",
                nvarchar(60),
                lambda row: "ENCRYPTED_BY_MASTER_KEY" if row[0].has_private_key else "NO_PRIVATE_KEY",
            ),
            column("is_active_for_begin_dialog", bit, lambda row: int(row[0].is_active_for_begin_dialog)),
            column("issuer_name", nvarchar(442), lambda row: row[0].subject),
            column("subject", nvarchar(4000), lambda row: row[0].subject),
            column("start_date", datetime, lambda row: datetime_from_utc_ns(row[0].start_ns)),
            column("expiry_date", datetime, lambda row: datetime_from_utc_ns(row[0].expiry_ns)),
            column("thumbprint", SqlType("varbinary", length=32), lambda row: row[0].blob[:20]),
        ],
        _certificates,
    ),
    View(
        "symmetric_keys",
        [
            column("name", sysname, lambda row: row[0], nullable=False),
            column("principal_id", int_, DBO_ID),
            column("symmetric_key_id", int_, lambda row: row[1], nullable=False),
            column("create_date", datetime, None),
        ],
        _symmetric_keys,
    ),
    View(  # always empty: no statement creates one
        "asymmetric_keys",
        [
            column("name", sysname, None, nullable=False),
            column("principal_id", int_, None),
            column("asymmetric_key_id", int_, None, nullable=False),
            column("pvt_key_encryption_type", char(2), None, nullable=False),
            column("pvt_key_encryption_type_desc", nvarchar(60), None),
            column("thumbprint", SqlType("varbinary", length=32), None, nullable=False),
            column("algorithm", char(2), None, nullable=False),
        ],
        lambda context: (),
    ),
]
