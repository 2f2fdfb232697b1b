"""EXECUTE, CREATE PROCEDURE and the string forms, compiled."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.execution import procedures
from harness.embedded.tsql.execution.procedures import DEFAULT, Shape
from harness.embedded.tsql.execution.transactions import writing
from harness.embedded.tsql.instance.procedures import Procedure
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.results import Parameter
from harness.embedded.tsql.session.steps import Scope, Step, waiting
from harness.embedded.tsql.storage.conversion import converter
from harness.embedded.tsql.syntax import procedures as nodes
from harness.embedded.tsql.translation.binding import scalar, static_type
from harness.embedded.tsql.translation.fragments import NVARCHAR_MAX


def create_procedure(node: nodes.CreateProcedure, scope: Scope) -> Step:
    """The body is compiled here for its errors, and again from its text when it is called."""
    procedures.compile_definition(node, Scope(scope.compilers, in_procedure=True))

    def work(frame: Frame, tx: Transaction) -> None:
        if len(node.name) > 2:
            raise SqlServerError(166, node.verb + " PROCEDURE")
        instance, database = frame.instance, frame.database
        _, schema, name = instance.located(node.name, database)
        old = instance.procedure(node.name, database)
        if old is None and node.verb == "ALTER":
            raise SqlServerError(208, ".".join(node.name))
        taken = instance.table(node.name, database) is not None or f"{schema}.{name}".lower() in database.queues
        if taken or (old is not None and node.verb == "CREATE"):
            raise SqlServerError(2714, name)
        now_ns = instance.engine.clock.utc_ns()
        object_id = old.object_id if old is not None else database.new_object_id(tx)
        created_ns = old.create_time_ns if old is not None else now_ns
        creator = frame.session.user_name(database)
        procedure = Procedure(database.database_id, object_id, schema, name, node.text, created_ns, creator)
        instance.put_procedure(tx, procedure)

    return writing(work)


def execute(node: nodes.Execute, scope: Scope) -> Step:
    from harness.embedded.tsql.requests import rpc  # noqa: PLC0415

    arguments = [_argument(argument, scope, node.line) for argument in node.arguments]
    names = tuple(argument.name for argument in node.arguments)
    if node.status:
        scope.type_of(node.status, node.line)
    known: list[Shape] = []  # once the types are

    def shape(frame: Frame) -> Shape:
        if not known:
            known.append((names, tuple([type_of(frame) for type_of, _ in arguments])))
        return known[0]

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        parts = node.procedure
        if isinstance(parts, str):
            parts = tuple(str(frame.variables[parts]).split("."))
        values = [value(frame) for _, value in arguments]
        procedure = frame.instance.procedure(parts, frame.database)
        if procedure is None:
            return system(frame, parts, values)
        guard = session.guard
        if guard is not None and not (frame.procedure and procedure.database_id == frame.database.database_id):
            guard.execute(procedure, frame.instance.owner(procedure))
        compiled = procedures.compiled(procedure)

        def returned(called: Frame) -> None:
            _take_variables(frame, node, scope, compiled, called.variables)
            if node.status:
                frame.variables[node.status] = called.return_value

        return procedures.execute(session, procedure, shape(frame), values, frame.sink, frame.depth + 1, returned)

    def system(frame: Frame, parts: tuple[str, ...], values: list[Any]) -> Waiting[None]:
        parameters = [
            Parameter(argument.name, NVARCHAR_MAX if type_ in (None, DEFAULT) else type_, value, argument.output)
            for type_, value, argument in zip(shape(frame)[1], values, node.arguments, strict=True)
        ]
        status, outputs = yield from rpc.call_system(frame.session, parts, parameters, frame.sink, frame.depth + 1)
        _take_outputs(frame, node, scope, outputs)
        if node.status:
            frame.variables[node.status] = status

    return waiting(run)


def _argument(argument: nodes.Argument, scope: Scope, line: int) -> Any:
    """Its type, known at the first call, and what gives its value."""
    if argument.value is None:
        return (lambda frame: DEFAULT), (lambda frame: None)
    expression = argument.value
    if argument.output and not isinstance(expression.tree, exp.Parameter):
        raise SqlServerError(179, line=line)
    value = scalar(expression, scope)
    return (lambda frame: static_type(expression, scope, frame)), value


def _take_variables(
    frame: Frame,
    node: nodes.Execute,
    scope: Scope,
    compiled: procedures.CompiledProcedure,
    variables: dict[str, Any],
) -> None:
    for place, argument in enumerate(node.arguments):
        if not argument.output or argument.value is None:
            continue
        name = argument.name or compiled.names[place]
        if name not in compiled.outputs:
            raise SqlServerError(8162, name)
        target = "@" + argument.value.tree.name.lower()
        source = compiled.types[compiled.names.index(name)]
        frame.variables[target] = converter(source, scope.types[target])(variables[name])


def _take_outputs(frame: Frame, node: nodes.Execute, scope: Scope, outputs: dict[int, tuple[SqlType, Any]]) -> None:
    for place, (type_, value) in outputs.items():
        expression = node.arguments[place].value
        assert expression is not None
        target = "@" + expression.tree.name.lower()
        frame.variables[target] = converter(type_, scope.types[target])(value)


def execute_string(node: nodes.ExecuteString, scope: Scope) -> Step:
    text = scalar(node.text, scope, NVARCHAR_MAX)

    def run(frame: Frame) -> Waiting[None]:
        session = frame.session
        given = text(frame)
        if given is None:
            return
        options, database = session.options, session.database
        try:
            yield from session.run(session.compiled(given), frame.sink, depth=frame.depth + 1)
        finally:
            session.options, session.database = options, database

    return waiting(run)
