"""sys.asymmetric_keys, which is always empty: nothing of this server makes one."""

from __future__ import annotations

from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.catalog.view import View, char, column, int_, nvarchar, sysname

VIEWS = [
    View(
        "asymmetric_keys",
        [
            column("name", sysname, None, nullable=False),
            column("principal_id", int_, None),
            column("asymmetric_key_id", int_, None, nullable=False),
            column("pvt_key_encryption_type", char(2), None, nullable=False),
            column("pvt_key_encryption_type_desc", nvarchar(60), None),
            column("thumbprint", SqlType("varbinary", length=32), None, nullable=False),
            column("algorithm", char(2), None, nullable=False),
            column("algorithm_desc", nvarchar(60), None),
            column("key_length", int_, None, nullable=False),
        ],
        lambda context: (),
    ),
]
