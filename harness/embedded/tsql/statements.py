"""The dialect in one table: how a statement begins, what parses it, its node, what compiles it."""

from __future__ import annotations

from typing import Any, NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.execution import (
    broker_objects,
    calls,
    changes,
    cursors,
    data,
    dbcc,
    files,
    flow,
    gates,
    permissions,
    procedures,
    schema,
    security,
    transactions,
    verbs,
)
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Compiler, Scope, Step, sequence
from harness.embedded.tsql.syntax import broker_objects as broker_syntax
from harness.embedded.tsql.syntax import data as data_syntax
from harness.embedded.tsql.syntax import dbcc as dbcc_syntax
from harness.embedded.tsql.syntax import files as file_syntax
from harness.embedded.tsql.syntax import flow as flow_syntax
from harness.embedded.tsql.syntax import procedures as procedure_syntax
from harness.embedded.tsql.syntax import schema as schema_syntax
from harness.embedded.tsql.syntax import security as security_syntax
from harness.embedded.tsql.syntax import verbs as verb_syntax
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement


class Kind(NamedTuple):
    """One kind of statement."""

    words: str  # what it begins with; alternatives are separated by |
    parse: ParseFunction
    node: type[Statement]
    compile: Compiler


_B, _D, _F, _P, _S, _C, _V = (
    broker_syntax,
    data_syntax,
    flow_syntax,
    procedure_syntax,
    schema_syntax,
    security_syntax,
    verb_syntax,
)


def _procedure(verb: str) -> Kind:
    words = f"{verb} PROC|{verb} PROCEDURE"
    return Kind(words, _P.parse_create_procedure(verb), _P.CreateProcedure, calls.create_procedure)


def _drop(kind: str) -> Kind:
    return Kind(
        f"DROP {kind}", _B.parse_drop_broker_object(kind), _B.DropBrokerObject, broker_objects.drop_broker_object
    )


def _drop_principal(kind: str) -> Kind:
    return Kind(f"DROP {kind}", _C.parse_drop_principal(kind), _C.DropPrincipal, security.drop_principal)


def _endpoint(verb: str) -> Kind:
    return Kind(f"{verb} ENDPOINT", _C.parse_endpoint(verb), _C.Endpoint, security.endpoint)


def _permission(verb: str) -> Kind:
    return Kind(verb, _C.parse_permission(verb), _C.Permission, permissions.permission)


def _priority(verb: str) -> Kind:
    words = f"{verb} BROKER PRIORITY"
    return Kind(words, _B.parse_broker_priority(verb), _B.BrokerPriority, broker_objects.broker_priority)


def _cursor(verb: str) -> Kind:
    return Kind(verb, _F.parse_cursor_operation(verb), _F.CursorOperation, cursors.cursor_operation)


STATEMENTS: tuple[Kind, ...] = (
    # Control of flow, variables, errors
    Kind("BEGIN", _F.parse_block, _F.Block, flow.block),
    Kind("IF", _F.parse_if, _F.If, flow.if_),
    Kind("WHILE", _F.parse_while, _F.While, flow.while_),
    Kind("BREAK", _F.parse_break, _F.Break, flow.break_),
    Kind("CONTINUE", _F.parse_continue, _F.Continue, flow.continue_),
    Kind("RETURN", _F.parse_return, _F.Return, flow.return_),
    Kind("BEGIN TRY", _F.parse_try, _F.TryCatch, flow.try_catch),
    Kind("THROW", _F.parse_throw, _F.Throw, flow.throw),
    Kind("RAISERROR", _F.parse_raiserror, _F.RaiseError, flow.raise_error),
    Kind("PRINT", _F.parse_print, _F.Print, flow.print_),
    Kind("DECLARE", _F.parse_declare, _F.Declare, flow.declare),
    Kind("DECLARE", _F.parse_declare, _F.DeclareCursor, cursors.declare_cursor),
    Kind("SET", _F.parse_set, _F.SetVariable, flow.set_variable),
    Kind("SET", _F.parse_set, _F.SetOption, flow.set_option),
    Kind("USE", _F.parse_use, _F.Use, flow.use),
    Kind("WAITFOR DELAY", _F.parse_waitfor_delay, _F.WaitForDelay, flow.wait_for_delay),
    _cursor("OPEN"),
    _cursor("CLOSE"),
    _cursor("DEALLOCATE"),
    Kind("FETCH", _F.parse_fetch, _F.Fetch, cursors.fetch),
    # Transactions
    Kind("BEGIN TRAN|BEGIN TRANSACTION", _F.parse_begin_transaction, _F.BeginTransaction, transactions.begin),
    Kind("COMMIT", _F.parse_commit, _F.CommitTransaction, transactions.commit),
    Kind("ROLLBACK", _F.parse_rollback, _F.RollbackTransaction, transactions.rollback),
    Kind("SAVE", _F.parse_save, _F.SaveTransaction, transactions.save),
    # Data
    Kind("SELECT|WITH", _D.parse_select, _D.Select, data.select),
    Kind("INSERT", _D.parse_insert, _D.Insert, changes.insert),
    Kind("UPDATE", _D.parse_update, _D.Update, changes.update),
    Kind("DELETE", _D.parse_delete, _D.Delete, changes.delete),
    Kind("TRUNCATE", _D.parse_truncate, _D.Truncate, data.truncate),
    # Procedures
    Kind("EXEC|EXECUTE", _P.parse_execute, _P.Execute, calls.execute),
    Kind("EXEC|EXECUTE", _P.parse_execute, _P.ExecuteString, calls.execute_string),
    _procedure("CREATE"),
    _procedure("ALTER"),
    _procedure("CREATE OR ALTER"),
    Kind("DROP PROC|DROP PROCEDURE", _P.parse_drop_procedure, _S.DropObject, schema.drop_object),
    # Tables and databases
    Kind("CREATE TABLE", _S.parse_create_table, _S.CreateTable, schema.create_table),
    Kind("ALTER TABLE", _S.parse_alter_table, _S.AlterTable, schema.alter_table),
    Kind("DROP TABLE", _S.parse_drop_table, _S.DropObject, schema.drop_object),
    Kind(
        "CREATE INDEX|CREATE CLUSTERED INDEX|CREATE NONCLUSTERED INDEX",
        _S.parse_create_index,
        _S.CreateIndex,
        schema.create_index,
    ),
    Kind("CREATE DATABASE", _S.parse_create_database, _S.CreateDatabase, schema.create_database),
    Kind("ALTER DATABASE", _S.parse_alter_database, _S.AlterDatabase, schema.alter_database),
    Kind("ALTER DATABASE", _S.parse_alter_database, file_syntax.AlterDatabaseFiles, files.alter_database_files),
    Kind("RECONFIGURE", file_syntax.parse_reconfigure, file_syntax.Reconfigure, files.reconfigure),
    Kind("DBCC", dbcc_syntax.parse_dbcc, dbcc_syntax.Dbcc, dbcc.dbcc),
    Kind("DROP DATABASE", _S.parse_drop_database, _S.DropDatabase, schema.drop_database),
    # Service Broker: conversations
    Kind("BEGIN DIALOG", _V.parse_begin_dialog, _V.BeginDialog, verbs.begin_dialog),
    Kind(
        "BEGIN CONVERSATION TIMER",
        _V.parse_begin_conversation_timer,
        _V.BeginConversationTimer,
        verbs.begin_conversation_timer,
    ),
    Kind("SEND ON CONVERSATION", _V.parse_send, _V.Send, verbs.send),
    Kind("RECEIVE", _V.parse_receive, _V.Receive, verbs.receive),
    Kind(
        "GET CONVERSATION GROUP",
        _V.parse_get_conversation_group,
        _V.GetConversationGroup,
        verbs.get_conversation_group,
    ),
    Kind("WAITFOR (", _V.parse_waitfor, _V.Receive, verbs.receive),
    Kind("MOVE CONVERSATION", _V.parse_move_conversation, _V.MoveConversation, verbs.move_conversation),
    Kind("END CONVERSATION", _V.parse_end_conversation, _V.EndConversation, verbs.end_conversation),
    # Service Broker: objects
    Kind("CREATE MESSAGE TYPE", _B.parse_create_message_type, _B.CreateMessageType, broker_objects.create_message_type),
    Kind("ALTER MESSAGE TYPE", _B.parse_alter_message_type, _B.AlterMessageType, broker_objects.alter_message_type),
    Kind("CREATE CONTRACT", _B.parse_create_contract, _B.CreateContract, broker_objects.create_contract),
    Kind("CREATE QUEUE", _B.parse_create_queue, _B.CreateQueue, broker_objects.create_queue),
    Kind("ALTER QUEUE", _B.parse_alter_queue, _B.AlterQueue, broker_objects.alter_queue),
    Kind("CREATE SERVICE", _B.parse_create_service, _B.CreateService, broker_objects.create_service),
    Kind("ALTER SERVICE", _B.parse_alter_service, _B.AlterService, broker_objects.alter_service),
    Kind("CREATE ROUTE", _B.parse_create_route, _B.CreateRoute, broker_objects.create_route),
    Kind("ALTER ROUTE", _B.parse_alter_route, _B.AlterRoute, broker_objects.alter_route),
    Kind(
        "CREATE REMOTE SERVICE BINDING",
        _B.parse_create_remote_service_binding,
        _B.CreateRemoteServiceBinding,
        broker_objects.create_remote_service_binding,
    ),
    Kind(
        "ALTER REMOTE SERVICE BINDING",
        _B.parse_alter_remote_service_binding,
        _B.AlterRemoteServiceBinding,
        broker_objects.alter_remote_service_binding,
    ),
    _priority("CREATE"),
    _priority("ALTER"),
    Kind(
        "CREATE EVENT NOTIFICATION",
        _B.parse_create_event_notification,
        _B.CreateEventNotification,
        broker_objects.create_event_notification,
    ),
    Kind(
        "DROP EVENT NOTIFICATION",
        _B.parse_drop_event_notification,
        _B.DropEventNotification,
        broker_objects.drop_event_notification,
    ),
    _drop("MESSAGE TYPE"),
    _drop("CONTRACT"),
    _drop("QUEUE"),
    _drop("SERVICE"),
    _drop("ROUTE"),
    _drop("REMOTE SERVICE BINDING"),
    _drop("BROKER PRIORITY"),
    # Security
    Kind("CREATE MASTER KEY", _C.parse_create_master_key, _C.CreateMasterKey, security.create_master_key),
    Kind("DROP MASTER KEY", _C.parse_drop_master_key, _C.DropMasterKey, security.drop_master_key),
    Kind("CREATE CERTIFICATE", _C.parse_create_certificate, _C.CreateCertificate, security.create_certificate),
    Kind("CREATE LOGIN", _C.parse_create_login, _C.CreateLogin, security.create_login),
    Kind("ALTER LOGIN", _C.parse_alter_login, _C.AlterLogin, security.alter_login),
    Kind("CREATE USER", _C.parse_create_user, _C.CreateUser, security.create_user),
    Kind("ALTER USER", _C.parse_alter_user, _C.AlterUser, security.alter_user),
    _endpoint("CREATE"),
    _endpoint("ALTER"),
    _drop_principal("LOGIN"),
    _drop_principal("USER"),
    _drop_principal("CERTIFICATE"),
    _drop_principal("ENDPOINT"),
    Kind("ALTER ROLE", _C.parse_alter_role(of_server=False), _C.AlterRole, permissions.alter_role),
    Kind("ALTER SERVER ROLE", _C.parse_alter_role(of_server=True), _C.AlterRole, permissions.alter_role),
    _permission("GRANT"),
    _permission("DENY"),
    _permission("REVOKE"),
    Kind("ALTER AUTHORIZATION", _C.parse_alter_authorization, _C.AlterAuthorization, permissions.alter_authorization),
)

GRAMMAR = {tuple(words.split()): kind.parse for kind in STATEMENTS for words in kind.words.split("|")}
COMPILERS: dict[type[Statement], Compiler] = {
    kind.node: gates.gated(gates.GATES.get(kind.node), kind.compile) for kind in STATEMENTS
}
COMPILERS[_V.GetConversationGroup] = verbs.get_conversation_group


def parse(text: str) -> list[Statement]:
    """The statements of a batch."""
    return Parser(text, GRAMMAR).batch()


def compile_batch(text: str, types: dict[str, SqlType] | None = None) -> Step:
    """A batch, compiled; `types` are those of the parameters that it is called with."""
    body = parse(text)
    return _respecting_noexec(body, Scope(COMPILERS, dict(types or {})))


def _respecting_noexec(body: list[Statement], scope: Scope) -> Step:
    """With SET NOEXEC ON a batch is compiled and not run, up to the SET NOEXEC OFF that may stand in it."""
    steps = [scope.compile(statement) for statement in body]
    whole = sequence(steps)
    places = [
        place
        for place, statement in enumerate(body)
        if isinstance(statement, _F.SetOption) and statement.options == ["NOEXEC"] and statement.value == "OFF"
    ]
    woken = sequence(steps[places[0] :]) if places else sequence([])

    def run(frame: Frame) -> Waiting[Any]:
        step = woken if frame.session.options.noexec else whole
        signal = (yield from step.run(frame)) if step.waits else step.run(frame)
        return signal

    return Step(run, True)


def compile_procedure(text: str) -> procedures.CompiledProcedure:
    """A procedure from its definition."""
    [node] = parse(text)
    if not isinstance(node, _P.CreateProcedure):
        raise SqlServerError(102, text[:30])
    return procedures.compile_definition(node, Scope(COMPILERS, in_procedure=True))


def parse_parameters(declarations: str) -> list[procedure_syntax.ProcedureParameter]:
    """`@a int, @b nvarchar(10) OUTPUT`"""
    return procedure_syntax.parse_parameter_list(Parser(declarations, GRAMMAR))
