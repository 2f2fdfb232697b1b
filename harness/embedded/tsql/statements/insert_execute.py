"""`INSERT ... EXECUTE`: the rows of all results of a procedure or a string go into a table.

What is executed keeps its transactions, and its counts are not shown. The rows of a result are inserted all or none.
"""

from collections.abc import Sequence
from typing import Any

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import Column, ResultSink
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, waiting
from harness.embedded.tsql.statements import changes
from harness.embedded.tsql.statements.bulk_load import ROWS, insert_rows
from harness.embedded.tsql.statements.insert import Insert, InsertExecute, parse_insert
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.text.parser import parse_query
from harness.embedded.tsql.text.tokens import Tokens
from harness.embedded.tsql.translation.binding import Binding


class Captured(ResultSink):
    """Keeps results; what is printed or fails goes on to the client."""

    def __init__(self, sink: ResultSink) -> None:
        self.sink = sink
        self.sets: list[tuple[list[Column], list[Sequence[Any]]]] = []

    def columns(self, columns: Sequence[Column]) -> None:
        self.sets.append((list(columns), []))

    def rows(self, rows: Sequence[Sequence[Any]]) -> None:
        self.sets[-1][1].extend(rows)

    def message(self, number: int, severity: int, state: int, text: str, procedure: str, line: int) -> None:  # noqa: PLR0917
        self.sink.message(number, severity, state, text, procedure, line)


@register("INSERT", parse_insert, InsertExecute)
def compile_insert_execute(node: InsertExecute, scope: Scope) -> Step:
    execute = scope.compile(node.execute)

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        if session.captures:
            raise SqlServerError(8164)
        target = changes.resolve(Binding(scope, frame), node.target, "INSERT")
        width = len(changes.places_of(target, node.columns))
        sink, frame.sink = frame.sink, (captured := Captured(frame.sink))
        session.captures = True
        try:
            yield from execute.run(frame)
        finally:
            frame.sink, session.captures = sink, False
        count = 0
        for columns, rows in captured.sets:
            if len(columns) != width:
                raise SqlServerError(213)
            named = [Column(f"c{number}", column.type) for number, column in enumerate(columns)]
            tokens = Tokens(f"SELECT {', '.join(column.name for column in named)} FROM {ROWS}")
            insert = Insert(node.line, node.target, node.columns, None, None, parse_query(tokens, tokens.all))
            yield from insert_rows(frame, scope, insert, named, rows)
            count += session.row_count
        session.row_count = count

    return waiting(run)
