"""The system tables of SQL Server 2000 that scripts still read, without a schema or with `dbo` and `sys`:
https://learn.microsoft.com/sql/relational-databases/system-compatibility-views/system-compatibility-views-transact-sql
"""

from harness.embedded.tsql.catalog.column_views import types
from harness.embedded.tsql.catalog.object_views import objects
from harness.embedded.tsql.catalog.security_views import database_principals, logins_seen, server_principals, users_seen
from harness.embedded.tsql.catalog.view import View
from harness.embedded.tsql.catalog.visibility import everybody, of_object

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
    ),
    View(
        "sysusers",
        """
        uid        smallint          <- principal_id
        name       sysname NOT NULL
        sid        varbinary(85)
        islogin    int
        issqluser  int
        issqlrole  int
        """,
        database_principals,
        islogin=lambda user: int(user.type != "R"),
        issqluser=lambda user: int(user.type == "S"),
        issqlrole=lambda user: int(user.type == "R"),
        visible=users_seen,
    ),
    View(
        "syslogins",
        """
        sid        varbinary(85)
        name       sysname NOT NULL
        loginname  sysname NOT NULL  <- name
        dbname     sysname           = 'master'
        """,
        lambda context: (login for login in server_principals(context) if login.type == "S"),
        visible=logins_seen,
    ),
    View(
        "systypes",
        """
        name        sysname NOT NULL
        xtype       tinyint NOT NULL   <- system_type_id
        xusertype   smallint
        length      smallint NOT NULL  <- max_length
        xprec       tinyint NOT NULL   <- precision
        xscale      tinyint NOT NULL   <- scale
        uid         smallint           <- schema_id
        allownulls  bit                <- is_nullable
        """,
        types,
        xusertype=lambda row: row.id if row.id < 2**15 else None,  # "overflows or returns NULL"
        visible=everybody,
    ),
]
NAMES = frozenset(view.name for view in VIEWS)
