"""Stored procedures: compiled at their first call, called with values already converted to their parameters' types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.permissions import guard
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.storage.conversion import converter, fits
from harness.embedded.tsql.syntax.procedures import CreateProcedure

if TYPE_CHECKING:
    from harness.embedded.tsql.session.results import ResultSink
    from harness.embedded.tsql.session.session import Session

NESTING_MAX = 32  # "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."
BOUND_KEPT = 8192  # of a procedure: a driver may declare a varbinary(n) of every length up to 8000


DEFAULT = SqlType("DEFAULT")  # as an argument's type: the word in its place, which leaves the parameter its default

# The names ("" by position) and types of a call's arguments: it is prepared once for all calls that are alike in them.
Shape = tuple[tuple[str, ...], tuple[SqlType | None, ...]]
# Takes the frame of a procedure that has run: its status, and its variables for OUTPUT parameters.
Returned = Callable[[Frame], None]


class CompiledProcedure(NamedTuple):
    names: list[str]
    types: list[SqlType]
    defaults: list[Callable[[Frame], Any] | None]
    outputs: frozenset[str]
    body: Step
    runs_as: str = ""  # a user, "" for whoever calls; as EXECUTE AS has it until the procedure knows its creator


class Bound(NamedTuple):
    """A procedure for all calls of one shape."""

    arguments: list[tuple[str, int, Callable[[Any], Any] | None]]  # parameter, place of its value, conversion
    defaults: list[tuple[str, Callable[[Frame], Any]]]  # of the other parameters
    compiled: CompiledProcedure


class Procedure:
    """A procedure of a database."""

    def __init__(  # noqa: PLR0917
        self,
        database_id: int,
        object_id: int,
        schema: str,
        name: str,
        text: str,
        create_time_ns: int,
        creator: str = guard.DBO,
    ) -> None:
        self.database_id = database_id
        self.object_id = object_id
        self.schema = schema
        self.name = name
        self.text = text
        self.create_time_ns = create_time_ns
        self.creator = creator  # the user that EXECUTE AS SELF means
        self._compiled: CompiledProcedure | None = None
        self._bound: dict[Shape, Bound] = {}

    @property
    def key(self) -> tuple[int, str]:
        return self.database_id, f"{self.schema}.{self.name}".lower()

    def stored(self) -> tuple[Any, ...]:
        return (self.schema, self.name, self.text, self.create_time_ns, self.creator)

    @staticmethod
    def from_stored(key: tuple[int, int], row: Sequence[Any]) -> Procedure:
        return Procedure(key[0], key[1], *row)

    def compiled(self) -> CompiledProcedure:
        if self._compiled is None:
            from harness.embedded.tsql import statements  # noqa: PLC0415

            compiled = statements.compile_procedure(self.text)
            # dbo owns every procedure.
            users = {"OWNER": guard.DBO, "SELF": self.creator, "CALLER": ""}
            self._compiled = compiled._replace(runs_as=users.get(compiled.runs_as, compiled.runs_as))
        return self._compiled

    def bound(self, shape: Shape) -> Bound:
        """Which argument is whose value, and which parameters keep their defaults."""
        found = self._bound.get(shape)
        if found is None:
            found = self._bind(shape)
            if len(self._bound) >= BOUND_KEPT:
                del self._bound[next(iter(self._bound))]
            self._bound[shape] = found
        return found

    def _bind(self, shape: Shape) -> Bound:
        compiled = self.compiled()
        arguments: list[tuple[str, int, Callable[[Any], Any] | None]] = []
        for place, (name, type_) in enumerate(zip(*shape, strict=True)):
            if name:
                if name.lower() not in compiled.names:
                    raise SqlServerError(8145, name, self.name)
                number = compiled.names.index(name.lower())
            elif place >= len(compiled.names):
                raise SqlServerError(8144, self.name)
            else:
                number = place
            target = compiled.types[number]
            if type_ is not DEFAULT:
                exact = fits(type_, target)
                arguments.append((compiled.names[number], place, None if exact else converter(type_, target)))
        given = {name for name, _, _ in arguments}
        defaults = []
        for name, default in zip(compiled.names, compiled.defaults, strict=True):
            if name not in given:
                if default is None:
                    raise SqlServerError(201, self.name, name)
                defaults.append((name, default))
        return Bound(arguments, defaults, compiled)


def compile_definition(node: CreateProcedure, scope: Scope) -> CompiledProcedure:
    """Compiles a procedure's parameters and body in a scope of their own."""
    from harness.embedded.tsql.translation.binding import scalar  # noqa: PLC0415

    for parameter in node.parameters:
        if parameter.name in scope.types:
            raise SqlServerError(134, parameter.name, line=node.line)
        scope.types[parameter.name] = parameter.type
    defaults = [
        scalar(parameter.default, scope, parameter.type) if parameter.default is not None else None
        for parameter in node.parameters
    ]
    return CompiledProcedure(
        [parameter.name for parameter in node.parameters],
        [parameter.type for parameter in node.parameters],
        defaults,
        frozenset(parameter.name for parameter in node.parameters if parameter.output),
        scope.block(node.body),
        node.execute_as,
    )


def execute(  # noqa: PLR0917
    session: Session,
    procedure: Procedure,
    shape: Shape,
    values: Sequence[Any],
    sink: ResultSink,
    depth: int,
    returned: Returned,
) -> Waiting[None]:
    """Runs a procedure; `returned` is called when it has."""
    if depth > NESTING_MAX:
        raise SqlServerError(217, NESTING_MAX)
    arguments, defaults, compiled = procedure.bound(shape)
    database = session.database
    if database.database_id != procedure.database_id:
        database = session.instance.owner(procedure)
    frame = Frame(session, database, sink, procedure.name, depth)
    variables = frame.variables
    for name, place, convert in arguments:
        variables[name] = values[place] if convert is None else convert(values[place])
    for name, default in defaults:
        variables[name] = default(frame)
    options, tran_count, context = session.options, session.tran_count, session.guard
    if compiled.runs_as:
        session.guard = guard.of_user(session.instance, database, compiled.runs_as)
    body = compiled.body
    try:
        if body.waits:
            yield from body.run(frame)
        else:
            body.run(frame)
    finally:
        session.options = options
        session.guard = context
        if frame.tables:
            frame.release()
    if session.tran_count != tran_count and not options.implicit_transactions:
        session.mismatch(tran_count, frame)
    returned(frame)
