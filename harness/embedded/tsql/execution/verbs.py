"""BEGIN DIALOG, SEND, RECEIVE and their kin, compiled to calls of the broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import BIGINT, INT, MAX, UNIQUEIDENTIFIER, Column, SqlType
from harness.embedded.tsql.catalog.queue_view import RECEIVED_COLUMNS
from harness.embedded.tsql.execution import results
from harness.embedded.tsql.execution.data import assignments, converting
from harness.embedded.tsql.execution.transactions import waiting_work
from harness.embedded.tsql.instance.instance import catalog_key
from harness.embedded.tsql.permissions.guard import is_allowed_to
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.storage.conversion import converter, fits
from harness.embedded.tsql.storage.sqlite import quoted
from harness.embedded.tsql.syntax import verbs as nodes
from harness.embedded.tsql.text.expressions import Expression
from harness.embedded.tsql.translation import selects
from harness.embedded.tsql.translation.binding import Binding, Evaluate, Plan, Planned, scalar
from harness.embedded.tsql.translation.fragments import Source
from harness.embedded.tsql.translation.renderer import Renderer

if TYPE_CHECKING:
    from harness.embedded.broker.database import Database
    from harness.embedded.broker.queues import Queue, QueueRow

SERVICE_NAME = SqlType("nvarchar", length=256)
BROKER_INSTANCE = SqlType("nvarchar", length=128)
BODY = SqlType("varbinary", length=MAX)


def _named(name: nodes.Name | None, scope: Scope) -> Evaluate:
    """The function that gives a name, be it written or in a variable."""
    if isinstance(name, Expression):
        return scalar(name, scope, SERVICE_NAME)
    return lambda frame: name


def _optional(expression: Expression | None, scope: Scope, type_: SqlType) -> Evaluate:
    return scalar(expression, scope, type_) if expression is not None else lambda frame: None


def begin_dialog(node: nodes.BeginDialog, scope: Scope) -> Step:
    target = scope.type_of(node.handle, node.line)
    from_service, to_service = _named(node.from_service, scope), _named(node.to_service, scope)
    instance = _optional(node.to_broker_instance, scope, BROKER_INSTANCE)
    contract = _named(node.contract, scope)
    related = _optional(node.related_conversation, scope, UNIQUEIDENTIFIER)
    group = _optional(node.related_group, scope, UNIQUEIDENTIFIER)
    lifetime = _optional(node.lifetime, scope, BIGINT)
    convert = converter(UNIQUEIDENTIFIER, target)
    name, encryption = node.handle, node.encryption

    def work(frame: Frame, tx: Transaction) -> Waiting[str]:
        if (source := from_service(frame)) is None:
            raise SqlServerError(8417)
        if (destination := to_service(frame)) is None:
            raise SqlServerError(8421)
        guard = frame.session.guard
        if guard is not None and not guard.is_dbo and (service := frame.database.services.get(source)) is not None:
            guard.receive(frame.database, service.queue)
        lifetime_s = lifetime(frame)
        if lifetime_s is None and node.lifetime is not None:
            raise SqlServerError(8406, 1, 2147483647)
        return frame.database.begin_dialog(
            tx,
            from_service=source,
            to_service=destination,
            to_broker_instance=instance(frame),
            contract=contract(frame),
            related_conversation=related(frame),
            related_group=group(frame),
            lifetime_s=lifetime_s,
            encryption=encryption,
        )

    def take(frame: Frame, handle: str) -> None:
        frame.variables[name] = convert(handle)

    return waiting_work(work, take)


def begin_conversation_timer(node: nodes.BeginConversationTimer, scope: Scope) -> Step:
    handle, timeout = scalar(node.handle, scope, UNIQUEIDENTIFIER), scalar(node.timeout, scope, INT)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        seconds = timeout(frame)
        if seconds is None:
            raise SqlServerError(8410)
        return frame.database.begin_conversation_timer(tx, _conversation(frame, _given(handle(frame))), seconds)

    return waiting_work(work)


def _given(handle: str | None) -> str:
    if handle is None:
        raise SqlServerError(8418)
    return handle


def send(node: nodes.Send, scope: Scope) -> Step:
    handles = [scalar(handle, scope, UNIQUEIDENTIFIER) for handle in node.handles]
    message_type = _named(node.message_type, scope)
    body = _optional(node.body, scope, BODY)
    has_body = node.body is not None
    alone = handles[0] if len(handles) == 1 else None

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        data = body(frame)
        if data is None and has_body:
            raise SqlServerError(8433)
        if alone is not None:
            found: tuple[str, ...] = (_given(alone(frame)),)
        else:
            found = tuple([_at_place(handle(frame), place) for place, handle in enumerate(handles, start=1)])
        guard = frame.session.guard
        if guard is not None and not guard.is_dbo:
            for one in found:
                _conversation(frame, one)
        return frame.database.send(tx, found, message_type(frame), data)

    return waiting_work(work)


def _at_place(handle: str | None, place: int) -> str:
    if handle is None:
        raise SqlServerError(8441, place)
    return handle


def end_conversation(node: nodes.EndConversation, scope: Scope) -> Step:
    handle = scalar(node.handle, scope, UNIQUEIDENTIFIER)
    code = _optional(node.error, scope, INT)
    text = _optional(node.description, scope, SqlType("nvarchar", length=3000))
    has_error = node.error is not None

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        error: tuple[int, str] | None = None
        if has_error:
            number, description = code(frame), text(frame)
            if number is None:
                raise SqlServerError(8419)
            if description is None:
                raise SqlServerError(8424)
            error = (number, description)
        found = _conversation(frame, _given(handle(frame)))
        if node.cleanup and not is_allowed_to(frame, "DATABASE", 0, "CONTROL"):
            raise SqlServerError(28006, "end", found, "")
        return frame.database.end_conversation(tx, found, error=error, cleanup=node.cleanup)

    return waiting_work(work)


def move_conversation(node: nodes.MoveConversation, scope: Scope) -> Step:
    handle, group = scalar(node.handle, scope, UNIQUEIDENTIFIER), scalar(node.group, scope, UNIQUEIDENTIFIER)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        found, destination = _conversation(frame, _given(handle(frame))), group(frame)
        if destination is None:
            raise SqlServerError(8420)
        return frame.database.move_conversation(tx, found, destination)

    return waiting_work(work)


def get_conversation_group(node: nodes.GetConversationGroup, scope: Scope) -> Step:
    convert = converter(UNIQUEIDENTIFIER, scope.type_of(node.variable, node.line))
    timeout = _optional(node.timeout, scope, INT)

    def work(frame: Frame, tx: Transaction) -> Waiting[str | None]:
        database, queue = _queue(frame, node.queue)
        return database.get_conversation_group(tx, queue, wait=node.wait, timeout_ms=_milliseconds(timeout(frame)))

    def take(frame: Frame, group: str | None) -> None:
        frame.variables[node.variable] = convert(group)
        frame.session.row_count = int(group is not None)

    return waiting_work(work, take)


def _milliseconds(timeout: int | None) -> int | None:
    return None if timeout is None or timeout < 0 else timeout


def _queue(frame: Frame, parts: tuple[str, ...]) -> tuple[Database, Queue]:
    database = frame.database if len(parts) < 3 else frame.instance.located(parts, frame.database)[0]
    queue = database.queues.get(catalog_key(parts))
    if queue is None:
        raise SqlServerError(208, ".".join(parts))
    guard = frame.session.guard
    if guard is not None and not guard.is_dbo and not (frame.procedure and database is frame.database):
        guard.receive(database, queue)
    return database, queue


def _conversation(frame: Frame, handle: str) -> str:
    """A handle that the session may use: "the current user must have RECEIVE permission on the queue"."""
    guard = frame.session.guard
    if guard is not None and not guard.is_dbo:
        endpoint = frame.database.endpoints.get(handle)
        if endpoint is not None:
            guard.receive(frame.database, endpoint.service.queue)
    return handle


# -- RECEIVE -----------------------------------------------------------------------------------------------------------

Deliver = Callable[[Frame, "list[QueueRow]"], None]
Conversions = list[tuple[int, Callable[[Any], Any]]]  # of columns, by their places


def receive(node: nodes.Receive, scope: Scope) -> Step:
    top = _optional(node.top, scope, BIGINT)
    timeout = _optional(node.timeout, scope, INT)
    wanted = _optional(node.where_value, scope, UNIQUEIDENTIFIER)
    deliver = _delivery(node, scope)
    by_handle = node.where_column == "conversation_handle"

    def work(frame: Frame, tx: Transaction) -> Waiting[list[QueueRow]]:
        database, queue = _queue(frame, node.queue)
        value = wanted(frame)
        if value is None and node.where_column:
            raise SqlServerError(8418 if by_handle else 8420)
        return database.receive(
            tx,
            queue,
            top=top(frame),
            conversation_handle=value if by_handle else None,
            conversation_group_id=None if by_handle else value,
            wait=node.wait,
            timeout_ms=_milliseconds(timeout(frame)),
        )

    def take(frame: Frame, rows: list[QueueRow]) -> None:
        deliver(frame, rows)
        frame.session.row_count = len(rows)

    return waiting_work(work, take)


def _delivery(node: nodes.Receive, scope: Scope) -> Deliver:
    """What is done with the rows: into a table variable, into variables, or to the client."""
    tree = node.items.tree
    variables = assignments(tree, error=8447)
    if variables and node.into:
        raise SqlServerError(8450, line=node.line)
    scope.check(tree, node.line)
    read = _reader(tree, node.line, scope, [scope.type_of(name, node.line) for name in variables])
    if node.into:
        return _into(node.into, scope, read)
    if variables:

        def assign(frame: Frame, rows: list[QueueRow]) -> None:
            if rows:  # without a row the variables keep their values
                _, values = read(frame, rows[-1:])
                frame.variables.update(zip(variables, values[-1], strict=True))

        return assign

    def to_client(frame: Frame, rows: list[QueueRow]) -> None:
        columns, values = read(frame, rows)
        results.send(frame, columns, values)

    return to_client


Read = Callable[[Frame, "Sequence[QueueRow]"], tuple[Sequence[Column], list[tuple[Any, ...]]]]


def _reader(tree: exp.Expr, line: int, scope: Scope, types: list[SqlType]) -> Read:
    """From queue rows to the columns asked for: plain columns straight from the rows, expressions through SQLite."""
    places = {column.name: column for column in RECEIVED_COLUMNS}
    names: list[tuple[str, str]] = []
    for item in tree.expressions:
        column = item.this if isinstance(item, exp.Alias) else item
        if isinstance(column, exp.Star):
            names += [(name, name) for name in places]
        elif isinstance(column, exp.Column) and column.name.lower() in places and not types:
            names.append((column.name.lower(), item.alias if isinstance(item, exp.Alias) else column.name))
        else:
            return _computed(tree, line, scope, types)
    columns = [Column(shown, places[name].type, places[name].nullable) for name, shown in names]
    get = attrgetter(*(places[name].attribute for name, _ in names))
    if len(names) == 1:
        return lambda frame, rows: (columns, [(get(row),) for row in rows])
    return lambda frame, rows: (columns, list(map(get, rows)))


RECEIVED = '"received"'  # the temporary table through which computed columns go


def _computed(tree: exp.Expr, line: int, scope: Scope, types: list[SqlType]) -> Read:
    all_columns = [Column(column.name, column.type, column.nullable) for column in RECEIVED_COLUMNS]
    get = attrgetter(*(column.attribute for column in RECEIVED_COLUMNS))

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, line)
        source = Source("received", f"temp.{RECEIVED}", all_columns)
        renderer.given_source = source
        sql, columns = selects.query(renderer, tree, None, converting(renderer, types) if types else None)
        return binding.plan(sql, renderer, columns)

    planned = Planned(make)

    def read(frame: Frame, rows: Sequence[QueueRow]) -> tuple[Sequence[Column], list[tuple[Any, ...]]]:
        sqlite = frame.sqlite
        names = ", ".join(quoted(column.name) for column in all_columns)
        sqlite.run(f"CREATE TEMP TABLE IF NOT EXISTS {RECEIVED} ({names})")
        sqlite.run(f"DELETE FROM temp.{RECEIVED}")
        marks = ", ".join("?" for _ in all_columns)
        sqlite.run_many(f"INSERT INTO temp.{RECEIVED} VALUES ({marks})", map(get, rows))
        plan = planned.for_(frame)
        return plan.columns, plan.rows(frame)

    return read


def _into(name: str, scope: Scope, read: Read) -> Deliver:
    columns = scope.tables.get(name)
    if columns is None:
        raise SqlServerError(1087, name)
    marks = ", ".join("?" for _ in columns)
    known: Sequence[Column] | None = None
    conversions: Conversions = []

    def insert(frame: Frame, rows: list[QueueRow]) -> None:
        nonlocal known, conversions
        sources, values = read(frame, rows)
        if sources is not known:
            known, conversions = sources, _conversions(sources, columns)
        if values:
            converted = _fitted(values, conversions) if conversions else values
            frame.fill_table(name, marks, converted)

    return insert


def _conversions(sources: Sequence[Column], targets: Sequence[Column]) -> Conversions:
    """Of every column that may not fit; one that fits by its type is not looked at. 213 where one has no other."""
    if len(sources) != len(targets):
        raise SqlServerError(213)
    return [
        (place, converter(source.type, target.type, strict=True))
        for place, (source, target) in enumerate(zip(sources, targets, strict=True))
        if not fits(source.type, target.type)
    ]


def _fitted(rows: list[tuple[Any, ...]], conversions: Conversions) -> list[tuple[Any, ...]]:
    turned: list[Any] = list(zip(*rows, strict=True))
    for place, convert in conversions:
        # Few values are distinct: the names of message types, for one.
        seen = {value: convert(value) for value in set(turned[place])}
        turned[place] = [seen[value] for value in turned[place]]
    return list(zip(*turned, strict=True))
