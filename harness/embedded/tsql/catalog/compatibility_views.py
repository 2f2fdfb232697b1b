"""The system table of SQL Server 2000 that scripts still read, without a schema or with `dbo` and `sys`:
https://learn.microsoft.com/sql/relational-databases/system-compatibility-views/system-compatibility-views-transact-sql
"""

from harness.embedded.tsql.catalog.object_views import objects
from harness.embedded.tsql.catalog.view import View
from harness.embedded.tsql.catalog.visibility import of_object

VIEWS = [
    View(
        "sysobjects",
        """
        name        sysname NOT NULL
        id          int NOT NULL       <- object_id
        xtype       char(2) NOT NULL   <- type
        uid         smallint           <- schema_id
        parent_obj  int NOT NULL       <- parent_object_id
        crdate      datetime NOT NULL  <- create_time_ns
        type        char(2)
        """,
        objects,
        visible=of_object(),
    )
]
NAMES = frozenset(view.name for view in VIEWS)
