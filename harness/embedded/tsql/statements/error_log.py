"""sp_readerrorlog and xp_readerrorlog: the instance's error log as a result set."""

from collections.abc import Sequence

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import DATETIME, MAX, Column, Parameter, ResultSink, SqlType
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.statements.registry import Outputs, arguments, register_procedure
from harness.embedded.tsql.storage.moments import datetime_from_utc_ns

_COLUMNS = (
    Column("LogDate", DATETIME),
    Column("ProcessInfo", SqlType("nvarchar", length=50)),
    Column("Text", SqlType("nvarchar", length=MAX)),
)
_SQL_SERVER = 1  # the product; 2 is SQL Server Agent


@register_procedure("sp_readerrorlog|xp_readerrorlog")
def sp_readerrorlog(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_readerrorlog [ [ @p1 = ] log ] [ , [ @p2 = ] product ] [ , [ @p3 = ] N'text' ] [ , [ @p4 = ] N'text' ]`

    The current log of SQL Server alone, whose number is 0; entries that contain both texts.
    """
    permission = "VIEW ANY ERROR LOG" if int(session.engine.version) >= 2022 else "VIEW SERVER STATE"
    if session.guard is not None and not session.guard.allows_on_server(permission):
        raise SqlServerError(300, permission, "server", "master")
    log, product, *texts = arguments("sp_readerrorlog", "@p1 @p2 @p3 @p4", parameters)
    if log or (product or _SQL_SERVER) != _SQL_SERVER:
        raise UnsupportedSyntax("sp_readerrorlog of another log than the current one of SQL Server", 0)
    words = [str(text).lower() for text in texts if text]
    entries = [entry for entry in session.engine.error_log.entries if all(text in entry.text.lower() for text in words)]
    sink.columns(_COLUMNS)
    sink.rows([(datetime_from_utc_ns(entry.utc_ns), entry.process_info, entry.text) for entry in entries])
    sink.done(len(entries), in_procedure=True)
    return {}
    yield  # makes this a generator like the others
