"""DBCC, with one entry in `COMMANDS` for each command."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.platform import Page
from harness.embedded.sqltypes import INT, SMALLINT, Column, SqlType
from harness.embedded.tsql.catalog.page_views import CLUSTERED, DATA_PAGE, header
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.statements.definitions import checked
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import Expression, Parser, Statement, parse_constant
from harness.embedded.tsql.translation.binding import scalar

OPTIONS = ("NO_INFOMSGS", "TABLERESULTS")

TRACE_FLAG_MAX = 32_767  # what TRACESTATUS can show
EVERY_SESSION = -1  # as an argument of DBCC TRACEON and TRACEOFF: not only this session

DONE = "DBCC execution completed. If DBCC printed error messages, contact your system administrator."


@dataclass(frozen=True, slots=True)
class Dbcc(Statement):
    command: str
    arguments: list[Expression]
    options: list[str]


def parse_dbcc(parser: Parser) -> Statement:
    """`DBCC command [ ( argument [, ...] ) ] [ WITH { NO_INFOMSGS | TABLERESULTS } [, ...] ]`"""
    tokens, line = parser.tokens, parser.line
    command = tokens.name().upper()
    arguments: list[Expression] = []
    if tokens.accept("(") and not tokens.accept(")"):
        arguments = tokens.comma_separated(lambda: parse_constant(parser, ",", ")"))
        tokens.expect(")")
    options = tokens.comma_separated(lambda: tokens.choose(*OPTIONS)) if tokens.accept("WITH") else []
    return Dbcc(line, command, arguments, options)


@register("DBCC", parse_dbcc, Dbcc)
def compile_dbcc(node: Dbcc, scope: Scope) -> Step:
    command = COMMANDS.get(node.command)
    if command is None:
        raise UnsupportedSyntax(f"DBCC {node.command}", node.line)
    if node.command == "PAGE" and "TABLERESULTS" not in node.options:
        raise UnsupportedSyntax("DBCC PAGE without TABLERESULTS", node.line)
    if node.command == "PAGE" and len(node.arguments) < 3:
        raise SqlServerError(2583, line=node.line)
    arguments = [scalar(argument, scope, INT) for argument in node.arguments]
    is_silent = "NO_INFOMSGS" in node.options

    def check(frame: Frame, guard: Guard) -> None:
        if node.command != "TRACESTATUS":
            raise SqlServerError(2571, guard.login, node.command)

    def run(frame: Frame) -> None:
        values = [argument(frame) for argument in arguments]
        for place, value in enumerate(values, start=1):
            if value is None or (node.command != "PAGE" and not EVERY_SESSION <= value <= TRACE_FLAG_MAX):
                raise SqlServerError(2560, place)
        command(frame, values)
        if not is_silent:
            frame.sink.message(2528, 0, 1, DONE, frame.procedure, node.line)

    return checked(check, plain(run))


def _trace(frame: Frame, arguments: Sequence[int], change: Callable[[set[int], Sequence[int]], None]) -> None:
    """`DBCC { TRACEON | TRACEOFF } ( trace# [ ,...n ] [ , -1 ] )`"""
    flags = frame.instance.trace_flags if EVERY_SESSION in arguments else frame.session.trace_flags
    change(flags, [flag for flag in arguments if flag != EVERY_SESSION])


def _trace_status(frame: Frame, arguments: Sequence[int]) -> None:
    """`DBCC TRACESTATUS ( [ [ trace# [ ,...n ] ] [ , ] [ -1 ] ] )`"""
    everywhere, of_session = frame.instance.trace_flags, frame.session.trace_flags
    flags = [flag for flag in arguments if flag != EVERY_SESSION] or sorted({*everywhere, *of_session})
    rows = [
        (flag, int(flag in everywhere or flag in of_session), int(flag in everywhere), int(flag in of_session))
        for flag in flags
    ]
    frame.send([Column(name, SMALLINT) for name in ("TraceFlag", "Status", "Global", "Session")], rows)


def _page(frame: Frame, arguments: Sequence[int]) -> None:
    """`DBCC PAGE ( database, file, page [, option] ) WITH TABLERESULTS`: the header, whatever the option."""
    page_header = header(frame.instance.engine, Page(*arguments[:3]))
    rows: list[tuple[Any, ...]] = []
    if page_header is not None:
        of_file = f"{page_header.page.file_id}"
        fields = {
            "m_pageId": f"({of_file}:{page_header.page.page_id})",
            "m_type": DATA_PAGE,
            "m_level": 0,
            "Metadata: PartitionId": page_header.partition_id,
            "Metadata: IndexId": CLUSTERED,
            "Metadata: ObjectId": page_header.object_id,
            "m_prevPage": f"({of_file}:{page_header.previous})" if page_header.previous else "(0:0)",
            "m_nextPage": f"({of_file}:{page_header.next})" if page_header.next else "(0:0)",
            "m_slotCnt": page_header.slot_count,
        }
        rows = [("PAGE HEADER:", "Page", field, str(value)) for field, value in fields.items()]
    text = SqlType("nvarchar", length=256)
    frame.send([Column(name, text) for name in ("ParentObject", "Object", "Field", "VALUE")], rows)


COMMANDS: dict[str, Callable[[Frame, Sequence[int]], None]] = {
    "PAGE": _page,
    "TRACEOFF": partial(_trace, change=set.difference_update),
    "TRACEON": partial(_trace, change=set.update),
    "TRACESTATUS": _trace_status,
}
