"""Triggers of tables: CREATE, ALTER, DROP, DISABLE and ENABLE TRIGGER, and their firing.

INSERT, UPDATE and DELETE know from their plans which triggers they fire (`changes`): AFTER triggers when they have
changed the table, or an INSTEAD OF trigger, which alone gets the rows. A trigger runs in the transaction of its
statement. `inserted` and `deleted` are table variables of its frame, so every query of its body reads them, and
nothing that it calls does.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import RaisedError, SqlServerError, UnsupportedSyntax
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import Column, Parameter, ResultSink
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.instance.modules import FIRST, LAST, Trigger
from harness.embedded.tsql.permissions import guard as guards
from harness.embedded.tsql.permissions.guard import Guard, object_of
from harness.embedded.tsql.session.session import Frame, Session
from harness.embedded.tsql.session.steps import LOGICAL_TABLES, Scope, Step, writing
from harness.embedded.tsql.statements import modules
from harness.embedded.tsql.statements.definitions import Definition, ObjectName, define, definition_step
from harness.embedded.tsql.statements.modules import NESTING_MAX, ModuleDefinition
from harness.embedded.tsql.statements.registry import COMPILERS, Outputs, arguments, register, register_procedure
from harness.embedded.tsql.storage.sqlite import declarations
from harness.embedded.tsql.storage.tables import Row, Table
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement
from harness.embedded.tsql.text.tokens import Tokens, name_parts

EVENTS = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class CreateTrigger(ModuleDefinition):
    table: ObjectName
    events: tuple[str, ...]
    is_instead: bool


def _target(tokens: Tokens) -> ObjectName:
    """`ON table`"""
    tokens.expect("ON")
    if tokens.at("DATABASE") or tokens.at("ALL", "SERVER"):
        tokens.unsupported("DDL and logon triggers")
    return tokens.object_name()


def parse_create_trigger(verb: str) -> ParseFunction:
    """
    { CREATE [ OR ALTER ] | ALTER } TRIGGER name ON table [ WITH EXECUTE AS { CALLER | SELF | OWNER | 'user' } ]
        { FOR | AFTER | INSTEAD OF } { INSERT | UPDATE | DELETE } [ , ... ] [ NOT FOR REPLICATION ] AS statement [ ... ]
    """

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        name = modules.begin(tokens, verb, "TRIGGER")
        table = _target(tokens)
        execute_as = modules.options(tokens, "a trigger")
        is_instead = tokens.accept("INSTEAD", "OF")
        if not is_instead:
            tokens.choose("FOR", "AFTER")
        events = tuple(tokens.comma_separated(lambda: tokens.choose(*EVENTS)))
        if twice := [event for event in EVENTS if events.count(event) > 1]:
            raise SqlServerError(1034, twice[0], line=line)
        tokens.accept("NOT", "FOR", "REPLICATION")
        if tokens.at("WITH"):
            tokens.unsupported(f"a trigger {tokens.word()} {tokens.word(1)}")
        body = modules.body(parser)
        if not body:
            tokens.fail()
        return CreateTrigger(line, name, body, tokens.text, verb, execute_as, table, events, is_instead)

    return parse


def compile_create_trigger(node: CreateTrigger, scope: Scope) -> Step:
    """Compile the body to report its errors; the first firing compiles it again from its text."""
    Scope(scope.compilers, text=node.text).block(node.body)

    def check(frame: Frame, guard: Guard) -> None:
        table = frame.instance.table(node.table, frame.database)
        if table is not None and not _may_alter(frame, table):
            raise SqlServerError(8197, ".".join(node.table))
        modules.check_execute_as(frame, guard, node.execute_as)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        table, database = frame.instance.table(node.table, frame.database), frame.database
        if table is None:
            raise SqlServerError(8197, ".".join(node.table))
        if table.database_id != database.database_id:
            raise SqlServerError(2108, ".".join(node.table))
        old = frame.instance.trigger(node.name, database)
        schema = table.schema.lower()
        if len(node.name) > 1 and node.name[0].lower() not in ("", schema):
            raise SqlServerError(2103, node.verb.lower(), ".".join(node.name))  # also where there is no such schema
        definition = modules.definition(frame, tx, node, old)
        if definition[2].lower() != schema:
            raise SqlServerError(2103, node.verb.lower(), ".".join(node.name))
        if old is not None and old.table_id != table.object_id:
            raise SqlServerError(2110, ".".join(node.name), ".".join(node.table))
        others = [trigger for trigger in frame.instance.triggers_on(table) if trigger.is_instead and trigger is not old]
        for event in node.events:
            if node.is_instead and (other := next((t for t in others if event in t.events), None)) is not None:
                raise SqlServerError(2111, node.verb.lower(), node.name[-1], node.table[-1], other.name)
        is_disabled = old is not None and old.is_disabled
        trigger = Trigger(*definition, table.object_id, node.events, is_disabled, node.is_instead)
        frame.instance.put_module(tx, trigger)
        return modules.bound(compiled(trigger, table).bind, node, frame)

    return definition_step(check, work)


for _verb in ("CREATE", "ALTER", "CREATE OR ALTER"):
    register(f"{_verb} TRIGGER", parse_create_trigger(_verb), CreateTrigger)(compile_create_trigger)


def _may_alter(frame: Frame, table: Table) -> bool:
    """ "To create a DML trigger requires ALTER permission on the table", as for all that concerns one."""
    return securables.is_held(frame, object_of(frame.instance.owner(table), table), "ALTER")


def _table_of(frame: Frame, trigger: Trigger) -> Table:
    return next(
        table for table in frame.instance.tables.values() if table.identifier == (trigger.database_id, trigger.table_id)
    )


@define("DROP TRIGGER")
def drop_trigger(parser: Parser) -> Definition:
    """`DROP TRIGGER [ IF EXISTS ] name [ , ... ]`"""
    tokens = parser.tokens
    if_exists = tokens.accept("IF", "EXISTS")
    names = tokens.comma_separated(tokens.object_name)
    if tokens.at("ON"):
        tokens.unsupported("DDL and logon triggers")

    def check(frame: Frame, guard: Guard) -> None:
        for name in names:
            trigger = frame.instance.trigger(name, frame.database)
            if trigger is not None and not _may_alter(frame, _table_of(frame, trigger)):
                raise SqlServerError(3701, "trigger", ".".join(name))

    def work(frame: Frame, tx: Transaction) -> None:
        for name in names:
            trigger = frame.instance.trigger(name, frame.database)
            if trigger is not None:
                frame.instance.drop_module(tx, trigger)
            elif not if_exists:
                raise SqlServerError(3701, "trigger", ".".join(name))

    return Definition(parser.line, check, work)


def switch(
    frame: Frame,
    tx: Transaction,
    table: Table,
    names: Sequence[ObjectName],
    *,
    is_disabled: bool,
    in_alter: bool = False,
) -> None:
    """Switch triggers of a table on or off, all of them without names; 1088 for a name that is none of them, 4920 in
    ALTER TABLE."""
    triggers = frame.instance.triggers_on(table)
    for name in names:
        if frame.instance.trigger((table.schema, name[-1]), frame.database) not in triggers:
            raise SqlServerError(*((4920, name[-1], table.name) if in_alter else (1088, ".".join(name))))
    wanted_names = {name[-1].lower() for name in names}
    for trigger in triggers:
        if not names or trigger.name.lower() in wanted_names:
            switched = copy(trigger)
            switched.is_disabled = is_disabled
            frame.instance.put_module(tx, switched)


def _switch(*, is_disabled: bool) -> None:
    @define("DISABLE TRIGGER" if is_disabled else "ENABLE TRIGGER")
    def switch_trigger(parser: Parser) -> Definition:
        """`{ DISABLE | ENABLE } TRIGGER { name [ , ... ] | ALL } ON table`"""
        tokens = parser.tokens
        names = [] if tokens.accept("ALL") else tokens.comma_separated(tokens.object_name)
        target = _target(tokens)

        def check(frame: Frame, guard: Guard) -> None:
            table = frame.instance.table(target, frame.database)
            if table is not None and not _may_alter(frame, table):
                raise SqlServerError(1088, ".".join(target))

        def work(frame: Frame, tx: Transaction) -> None:
            table = frame.instance.table(target, frame.database)
            if table is None:
                raise SqlServerError(1088, ".".join(target))
            switch(frame, tx, table, names, is_disabled=is_disabled)

        return Definition(parser.line, check, work)


@register_procedure("sp_settriggerorder")
def sp_settriggerorder(
    session: Session, parameters: Sequence[Parameter], sink: ResultSink, depth: int
) -> Waiting[Outputs]:
    """`sp_settriggerorder [ @triggername = ] 'name' , [ @order = ] { 'First' | 'Last' | 'None' } ,
    [ @stmttype = ] { 'INSERT' | 'UPDATE' | 'DELETE' }`: which AFTER trigger is fired first or last."""
    names = "@triggername @order @stmttype @namespace"
    *texts, namespace = arguments("sp_settriggerorder", names, parameters, required=3)
    name, order, statement = map(str, texts)
    event = statement.upper()
    if namespace is not None:
        raise UnsupportedSyntax("DDL and logon triggers", 0)
    place = {"first": FIRST, "last": LAST, "none": 0}.get(order.lower())
    if place is None or event not in EVENTS:
        raise SqlServerError(15600, "sys.sp_settriggerorder")

    def work(frame: Frame, tx: Transaction) -> None:
        trigger = frame.instance.trigger(name_parts(name), frame.database)
        if trigger is None or not _may_alter(frame, table := _table_of(frame, trigger)):
            raise SqlServerError(15165, name)
        if trigger.is_instead:
            raise SqlServerError(15133, name)
        if event not in trigger.events:
            raise SqlServerError(15125, name, event.lower())
        others = [other for other in frame.instance.triggers_on(table) if other is not trigger]
        if place and any(other.order.get(event) == place for other in others):
            raise SqlServerError(15130, order, statement)
        ordered = copy(trigger)
        ordered.order = {**trigger.order, event: place}
        frame.instance.put_module(tx, ordered)

    yield from writing(work).run(Frame(session, session.database, sink, "sp_settriggerorder", depth)) or ()
    return {}


_switch(is_disabled=True)
_switch(is_disabled=False)


# -- firing ------------------------------------------------------------------------------------------------------------


class CompiledTrigger(NamedTuple):
    columns: Sequence[Column]  # of its table, when it was compiled
    body: Step
    bind: Callable[[Frame], Waiting[None]]
    variables: dict[str, None]
    tables: Mapping[str, str]  # `Frame.declared`
    marks: str  # for the values of a row
    runs_as: str  # a user; "" for the caller


def compiled(trigger: Trigger, table: Table) -> CompiledTrigger:
    """The compiled trigger; its text is compiled at the first firing, and when its table has other columns."""
    if trigger.compiled is None or trigger.compiled.columns is not table.columns:
        node = modules.parsed(trigger, CreateTrigger)
        scope = Scope(COMPILERS, text=node.text)
        for name in LOGICAL_TABLES:
            scope.tables[name] = table.columns
            # INSTEAD OF looks at rows before the table does.
            scope.declared[name] = declarations([Column(c.name, c.type) for c in table.columns])
        body = scope.block(node.body)
        marks = ", ".join("?" for _ in table.columns)
        user = modules.runs_as(node.execute_as, trigger)
        trigger.compiled = CompiledTrigger(
            table.columns, body, scope.bind, scope.variables(), scope.declared, marks, user
        )
    return trigger.compiled  # type: ignore[no-any-return]


def fired_by(frame: Frame, table: Table, event: str) -> tuple[Trigger, ...]:
    """The enabled triggers that an INSERT, UPDATE or DELETE of a table fires, in their order."""
    triggers = [
        trigger for trigger in frame.instance.triggers_on(table) if event in trigger.events and not trigger.is_disabled
    ]
    return tuple(sorted(triggers, key=lambda trigger: trigger.order.get(event, 0)))


def instead(frame: Frame, triggers: Sequence[Trigger]) -> list[Trigger]:
    """The INSTEAD OF trigger among those of a statement; its own statements change the table."""
    return [trigger for trigger in triggers if trigger.is_instead and trigger not in frame.session.firing]


def fire(  # noqa: PLR0917
    frame: Frame,
    tx: Transaction,
    table: Table,
    triggers: Sequence[Trigger],
    deleted: Sequence[Row],
    inserted: Sequence[Row],
    places: Container[int],
) -> Waiting[None]:
    """Run the triggers of a statement, in its transaction: "the trigger and the statement that fires it are treated as
    a single transaction". Then count the statement's rows."""
    session, count = frame.session, max(len(deleted), len(inserted))
    if frame.depth >= NESTING_MAX:
        raise SqlServerError(217, NESTING_MAX)
    is_own = session.tx is None  # the statement's own transaction: in a trigger @@TRANCOUNT is at least 1
    if is_own:
        session.tx, session.tran_count = tx, 1
    identity = session.identity
    try:
        for trigger in triggers:
            # RECURSIVE_TRIGGERS OFF: a trigger does not fire itself, also where a procedure that it calls changes rows.
            if not session.firing or session.firing[-1] is not trigger:
                session.row_count = count
                yield from _run(frame, tx, compiled(trigger, table), trigger, deleted, inserted, places)
                if session.tx is not tx:
                    raise SqlServerError(3609)
                if session.doomed:
                    raise SqlServerError(3616)
    finally:
        if is_own:
            if session.tx is not tx:
                session.rollback()  # of one that the trigger has begun after its ROLLBACK
            session.tx, session.tran_count, session.doomed = None, 0, False
            session.savepoints.clear()
    # "If the trigger inserts into a table without identity column, @@IDENTITY returns the first inserted value."
    if session.identity is None:
        session.identity = identity
    frame.count(count)


def _run(  # noqa: PLR0917
    frame: Frame,
    tx: Transaction,
    program: CompiledTrigger,
    trigger: Trigger,
    deleted: Sequence[Row],
    inserted: Sequence[Row],
    places: Container[int],  # of the columns that the statement assigns
) -> Waiting[None]:
    session, database = frame.session, frame.database
    if database.database_id != trigger.database_id:
        database = frame.instance.owner(trigger)
    inner = Frame(session, database, frame.sink, trigger.name, frame.depth + 1)
    inner.module_id = trigger.object_id
    inner.variables, inner.declared = program.variables.copy(), program.tables
    inner.assigned = {column.name.lower(): place in places for place, column in enumerate(program.columns)}
    options, context = session.options, session.guard
    impersonated, session.impersonated = session.impersonated, []
    # "SET XACT_ABORT is ON by default in triggers."
    session.options = replace(options, xact_abort=True)
    session.guard = guards.of_module(session.instance, context, trigger, database, program.runs_as)
    session.firing.append(trigger)
    try:
        for name, rows in zip(LOGICAL_TABLES, (inserted, deleted), strict=True):
            if rows:
                inner.fill_table(name, program.marks, [row[1:] for row in rows])
                tx.on_rollback(partial(inner.empty_table, name))  # after a ROLLBACK in the trigger it has no rows
        body = program.body
        yield from body.run(inner)
    except SqlServerError as error:
        error.ends_batch = True
        error.ends_change = not (options.xact_abort or isinstance(error, RaisedError))
        raise
    finally:
        session.firing.pop()
        session.options = options
        session.guard, session.impersonated = context, impersonated
        inner.release()
