"""Conversations: BEGIN DIALOG, BEGIN CONVERSATION TIMER, SEND, MOVE and END CONVERSATION."""

from dataclasses import dataclass

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import BIGINT, INT, MAX, UNIQUEIDENTIFIER, SqlType
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import is_allowed_on_database
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step, waiting_work
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.storage.conversion import converter
from harness.embedded.tsql.text.parser import Expression, Parser, Statement, parse_expression
from harness.embedded.tsql.translation.binding import scalar
from harness.embedded.tsql.translation.closures import Evaluate

SERVICE_NAME = SqlType("nvarchar", length=256)

BROKER_INSTANCE = SqlType("nvarchar", length=128)

BODY = SqlType("varbinary", length=MAX)

Name = str | Expression  # a literal name, or an expression for it


def _name(parser: Parser) -> Name:
    """Parse a name, or a variable or string that holds it."""
    tokens = parser.tokens
    if tokens.at_variable() or tokens.at_string():
        start = tokens.position
        tokens.position += 1 if tokens.at_string() else 2
        return parse_expression(tokens, tokens.all[start : tokens.position])
    return tokens.name()


def _named(name: Name | None, scope: Scope) -> Evaluate:
    """The function that returns a literal name or evaluates its expression."""
    if isinstance(name, Expression):
        return scalar(name, scope, SERVICE_NAME)
    return lambda frame: name


def optional(expression: Expression | None, scope: Scope, type_: SqlType) -> Evaluate:
    return scalar(expression, scope, type_) if expression is not None else lambda frame: None


def _given(handle: str | None) -> str:
    if handle is None:
        raise SqlServerError(8418)
    return handle


def _conversation(frame: Frame, handle: str) -> str:
    """Check that the session may use a handle: "the current user must have RECEIVE permission on the queue"."""
    guard = frame.session.guard
    if guard is not None and not guard.is_dbo:
        endpoint = frame.database.endpoints.get(handle)
        if endpoint is not None:
            guard.receive(frame.database, endpoint.service.queue)
    return handle


@dataclass(frozen=True, slots=True)
class BeginDialog(Statement):
    handle: str
    from_service: Name
    to_service: Name
    to_broker_instance: Expression | None
    contract: Name | None
    related_conversation: Expression | None
    related_group: Expression | None
    lifetime: Expression | None
    encryption: bool


def parse_begin_dialog(parser: Parser) -> Statement:
    """
    BEGIN DIALOG [ CONVERSATION ] @handle
        FROM SERVICE name TO SERVICE 'name' [ , { 'broker instance' | 'CURRENT DATABASE' } ]
        [ ON CONTRACT name ]
        [ WITH [ { RELATED_CONVERSATION = h | RELATED_CONVERSATION_GROUP = g } ] [ , LIFETIME = seconds ]
               [ , ENCRYPTION = { ON | OFF } ] ]
    """
    tokens, line = parser.tokens, parser.line
    tokens.accept("CONVERSATION")
    handle = tokens.variable()
    tokens.expect("FROM", "SERVICE")
    from_service = _name(parser)
    tokens.expect("TO", "SERVICE")
    to_service = _name(parser)
    instance: Expression | None = None
    if tokens.accept(","):
        name = _name(parser)
        if isinstance(name, str):
            tokens.fail()
        instance = name
    contract = _name(parser) if tokens.accept("ON", "CONTRACT") else None
    options: dict[str, Expression | None] = {}
    encryption = True
    if tokens.accept("WITH"):
        while True:
            option = tokens.choose("RELATED_CONVERSATION", "RELATED_CONVERSATION_GROUP", "LIFETIME", "ENCRYPTION")
            tokens.expect("=")
            if option == "ENCRYPTION":
                encryption = tokens.on_off()
            else:
                options[option] = parser.expression(",", "RELATED_CONVERSATION", "LIFETIME", "ENCRYPTION")
            comma = tokens.accept(",")
            if not comma and tokens.word() not in ("RELATED_CONVERSATION", "LIFETIME", "ENCRYPTION"):
                break
    return BeginDialog(
        line,
        handle,
        from_service,
        to_service,
        instance,
        contract,
        options.get("RELATED_CONVERSATION"),
        options.get("RELATED_CONVERSATION_GROUP"),
        options.get("LIFETIME"),
        encryption,
    )


@register("BEGIN DIALOG", parse_begin_dialog, BeginDialog)
def compile_begin_dialog(node: BeginDialog, scope: Scope) -> Step:
    target = scope.type_of(node.handle, node.line)
    from_service, to_service = _named(node.from_service, scope), _named(node.to_service, scope)
    instance = optional(node.to_broker_instance, scope, BROKER_INSTANCE)
    contract = _named(node.contract, scope)
    related = optional(node.related_conversation, scope, UNIQUEIDENTIFIER)
    group = optional(node.related_group, scope, UNIQUEIDENTIFIER)
    lifetime = optional(node.lifetime, scope, BIGINT)
    convert = converter(UNIQUEIDENTIFIER, target)
    name, encryption = node.handle, node.encryption

    def work(frame: Frame, tx: Transaction) -> Waiting[str]:
        if (source := from_service(frame)) is None:
            raise SqlServerError(8417)
        if (destination := to_service(frame)) is None:
            raise SqlServerError(8421)
        guard, contract_name = frame.session.guard, contract(frame)
        if guard is not None and not guard.is_dbo:
            service = frame.database.catalog.services.get(source)
            if service is not None:
                guard.receive(frame.database, service.queue)
            if contract_name is not None:
                securables.require_references(frame, "CONTRACT", contract_name)
        lifetime_s = lifetime(frame)
        if lifetime_s is None and node.lifetime is not None:
            raise SqlServerError(8406, 1, 2147483647)
        return frame.instance.engine.dialogs.begin(
            tx,
            frame.database,
            from_service=source,
            to_service=destination,
            to_broker_instance=instance(frame),
            contract=contract_name,
            related_conversation=related(frame),
            related_group=group(frame),
            lifetime_s=lifetime_s,
            encryption=encryption,
        )

    def take(frame: Frame, handle: str) -> None:
        frame.variables[name] = convert(handle)

    return waiting_work(work, take)


@dataclass(frozen=True, slots=True)
class BeginConversationTimer(Statement):
    handle: Expression
    timeout: Expression


def parse_begin_conversation_timer(parser: Parser) -> Statement:
    """`BEGIN CONVERSATION TIMER ( handle ) TIMEOUT = seconds`"""
    line = parser.line
    handle = parser.parenthesised()
    parser.tokens.expect("TIMEOUT", "=")
    return BeginConversationTimer(line, handle, parser.expression())


@register("BEGIN CONVERSATION TIMER", parse_begin_conversation_timer, BeginConversationTimer)
def compile_begin_conversation_timer(node: BeginConversationTimer, scope: Scope) -> Step:
    handle, timeout = scalar(node.handle, scope, UNIQUEIDENTIFIER), scalar(node.timeout, scope, INT)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        seconds = timeout(frame)
        if seconds is None:
            raise SqlServerError(8410)
        if seconds < 0:
            raise SqlServerError(1080, seconds)
        endpoint = _conversation(frame, _given(handle(frame)))
        return frame.instance.engine.dialogs.begin_timer(tx, frame.database, endpoint, seconds)

    return waiting_work(work)


@dataclass(frozen=True, slots=True)
class Send(Statement):
    handles: list[Expression]
    message_type: Name | None
    body: Expression | None


def parse_send(parser: Parser) -> Statement:
    """`SEND ON CONVERSATION [ ( ] handle [ , ... ] [ ) ] [ MESSAGE TYPE name ] [ ( body ) ]`"""
    tokens, line = parser.tokens, parser.line
    if tokens.accept("("):
        handles = tokens.comma_separated(lambda: parser.expression(","))
        tokens.expect(")")
    else:
        handle = _name(parser)
        if isinstance(handle, str):
            tokens.fail()
        handles = [handle]
    message_type = _name(parser) if tokens.accept("MESSAGE", "TYPE") else None
    body = parser.parenthesised() if tokens.at("(") else None
    return Send(line, handles, message_type, body)


@register("SEND ON CONVERSATION", parse_send, Send)
def compile_send(node: Send, scope: Scope) -> Step:
    handles = [scalar(handle, scope, UNIQUEIDENTIFIER) for handle in node.handles]
    message_type = _named(node.message_type, scope)
    # "The expression must be of a type that can be converted to varbinary(max)", as xml is by CAST alone.
    body = scalar(node.body, scope, BODY, is_cast=True) if node.body is not None else lambda frame: None
    has_body = node.body is not None
    only_handle = handles[0] if len(handles) == 1 else None

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        data = body(frame)
        if data is None and has_body:
            raise SqlServerError(8433)
        if frame.sqlite.memory_is_full:
            frame.sqlite.refuse_growth("memory_is_full")
        if only_handle is not None:
            conversation_handles: tuple[str, ...] = (_given(only_handle(frame)),)
        else:
            conversation_handles = tuple(
                [_at_place(handle(frame), place) for place, handle in enumerate(handles, start=1)]
            )
        guard = frame.session.guard
        if guard is not None and not guard.is_dbo:
            for handle_ in conversation_handles:
                _conversation(frame, handle_)
        return frame.instance.engine.dialogs.send(tx, frame.database, conversation_handles, message_type(frame), data)

    return waiting_work(work)


def _at_place(handle: str | None, place: int) -> str:
    if handle is None:
        raise SqlServerError(8441, place)
    return handle


@dataclass(frozen=True, slots=True)
class MoveConversation(Statement):
    handle: Expression
    group: Expression


def parse_move_conversation(parser: Parser) -> Statement:
    """`MOVE CONVERSATION handle TO group`"""
    line = parser.line
    handle = parser.expression("TO")
    parser.tokens.expect("TO")
    return MoveConversation(line, handle, parser.expression())


@register("MOVE CONVERSATION", parse_move_conversation, MoveConversation)
def compile_move_conversation(node: MoveConversation, scope: Scope) -> Step:
    handle, group = scalar(node.handle, scope, UNIQUEIDENTIFIER), scalar(node.group, scope, UNIQUEIDENTIFIER)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        endpoint, destination = _conversation(frame, _given(handle(frame))), group(frame)
        if destination is None:
            raise SqlServerError(8420)
        return frame.instance.engine.dialogs.move(tx, frame.database, endpoint, destination)

    return waiting_work(work)


@dataclass(frozen=True, slots=True)
class EndConversation(Statement):
    handle: Expression
    error: Expression | None
    description: Expression | None
    cleanup: bool


def parse_end_conversation(parser: Parser) -> Statement:
    """`END CONVERSATION handle [ WITH { ERROR = code DESCRIPTION = 'text' | CLEANUP } ]`"""
    tokens, line = parser.tokens, parser.line
    handle = parser.expression("WITH")
    if not tokens.accept("WITH"):
        return EndConversation(line, handle, None, None, False)
    if tokens.accept("CLEANUP"):
        return EndConversation(line, handle, None, None, True)
    tokens.expect("ERROR", "=")
    error = parser.expression("DESCRIPTION")
    tokens.expect("DESCRIPTION", "=")
    return EndConversation(line, handle, error, parser.expression(), False)


@register("END CONVERSATION", parse_end_conversation, EndConversation)
def compile_end_conversation(node: EndConversation, scope: Scope) -> Step:
    handle = scalar(node.handle, scope, UNIQUEIDENTIFIER)
    code = optional(node.error, scope, INT)
    text = optional(node.description, scope, SqlType("nvarchar", length=3000))
    has_error = node.error is not None

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        error: tuple[int, str] | None = None
        if has_error:
            number, description = code(frame), text(frame)
            if number is None:
                raise SqlServerError(8419)
            if description is None:
                raise SqlServerError(8424)
            if number <= 0:  # negative codes are the broker's own
                raise SqlServerError(1080, number)
            error = (number, description)
        endpoint = _conversation(frame, _given(handle(frame)))
        if node.cleanup and not is_allowed_on_database(frame, "CONTROL"):
            raise SqlServerError(28006, "end", endpoint, "")
        return frame.instance.engine.dialogs.end(tx, frame.database, endpoint, error=error, cleanup=node.cleanup)

    return waiting_work(work)
