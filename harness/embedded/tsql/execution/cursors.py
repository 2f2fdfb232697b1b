"""Cursors, compiled. Every cursor is STATIC: OPEN fetches all rows."""

from __future__ import annotations

from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.execution import results
from harness.embedded.tsql.session.frame import Cursor, Frame
from harness.embedded.tsql.session.steps import Scope, Step, plain
from harness.embedded.tsql.storage.conversion import converter
from harness.embedded.tsql.syntax import flow as nodes
from harness.embedded.tsql.translation.binding import Planned, select_plan


def declare_cursor(node: nodes.DeclareCursor, scope: Scope) -> Step:
    """LOCAL cursors end with their batch or procedure, others with the session or DEALLOCATE."""
    planned = Planned(select_plan(node.query.tree, node.line, scope))

    def run(frame: Frame) -> None:
        cursors = frame.cursors if node.local else frame.session.cursors
        if node.name in cursors:
            raise SqlServerError(16915, node.name)
        cursors[node.name] = Cursor(planned)

    return plain(run)


def _find(frame: Frame, name: str) -> Cursor:
    cursor = frame.cursors.get(name) or frame.session.cursors.get(name)
    if cursor is None:
        raise SqlServerError(16916, name)
    return cursor


def _open(frame: Frame, name: str) -> None:
    cursor = _find(frame, name)
    if cursor.is_open:
        raise SqlServerError(16905)
    plan = cursor.planned.for_(frame)
    cursor.rows = plan.rows(frame)
    cursor.columns = plan.columns
    cursor.position = 0
    cursor.is_open = True


def _close(frame: Frame, name: str) -> None:
    cursor = _find(frame, name)
    if not cursor.is_open:
        raise SqlServerError(16917)
    cursor.is_open = False
    cursor.rows = []
    frame.session.row_count = 0


def _deallocate(frame: Frame, name: str) -> None:
    _find(frame, name)
    if frame.cursors.pop(name, None) is None:
        del frame.session.cursors[name]
    frame.session.row_count = 0


OPERATIONS = {"OPEN": _open, "CLOSE": _close, "DEALLOCATE": _deallocate}


def cursor_operation(node: nodes.CursorOperation, scope: Scope) -> Step:
    operate = OPERATIONS[node.operation]
    return plain(lambda frame: operate(frame, node.name))


def fetch(node: nodes.Fetch, scope: Scope) -> Step:
    types = [scope.type_of(name, node.line) for name in node.into]

    def run(frame: Frame) -> None:
        session = frame.session
        cursor = _find(frame, node.name)
        if not cursor.is_open:
            raise SqlServerError(16917)
        if cursor.position >= len(cursor.rows):
            session.fetch_status, session.row_count = -1, 0
            if not node.into:
                results.send(frame, cursor.columns, ())
            return
        row = cursor.rows[cursor.position]
        cursor.position += 1
        session.fetch_status, session.row_count = 0, 1
        if not node.into:
            results.send(frame, cursor.columns, [row])
            return
        if len(row) != len(types):
            raise SqlServerError(16924)
        for name, value, column, type_ in zip(node.into, row, cursor.columns, types, strict=True):
            frame.variables[name] = converter(column.type, type_)(value)

    return plain(run)
