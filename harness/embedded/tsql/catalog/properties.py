"""sys.extended_properties: of databases, which alone have any here."""

from __future__ import annotations

from harness.embedded.tsql.catalog.view import View, attribute, column, int_, nvarchar, sysname, tinyint

VIEWS = [
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
