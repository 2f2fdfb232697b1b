"""The statements that use Service Broker: BEGIN DIALOG, SEND, RECEIVE and their kin. Grammars from the manual."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.tsql.text import expressions as queries
from harness.embedded.tsql.text.expressions import Expression, Query
from harness.embedded.tsql.text.parser import Parser, Statement

Name = str | Expression  # a name as it is written, or an expression that gives it


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


@dataclass(frozen=True, slots=True)
class BeginConversationTimer(Statement):
    handle: Expression
    timeout: Expression


@dataclass(frozen=True, slots=True)
class Send(Statement):
    handles: list[Expression]
    message_type: Name | None
    body: Expression | None


@dataclass(frozen=True, slots=True)
class Receive(Statement):
    """`items` is `SELECT <column list>`, for sqlglot to parse; `wait` says whether WAITFOR is around it."""

    items: Query
    top: Expression | None
    queue: tuple[str, ...]
    into: str
    where_column: str
    where_value: Expression | None
    wait: bool
    timeout: Expression | None


@dataclass(frozen=True, slots=True)
class GetConversationGroup(Statement):
    variable: str
    queue: tuple[str, ...]
    wait: bool
    timeout: Expression | None


@dataclass(frozen=True, slots=True)
class MoveConversation(Statement):
    handle: Expression
    group: Expression


@dataclass(frozen=True, slots=True)
class EndConversation(Statement):
    handle: Expression
    error: Expression | None
    description: Expression | None
    cleanup: bool


def _name(parser: Parser) -> Name:
    """A name, or a variable or string that holds it."""
    tokens = parser.tokens
    if tokens.at_variable() or tokens.at_string():
        start = tokens.position
        tokens.position += 1 if tokens.at_string() else 2
        return queries.expression(tokens, tokens.all[start : tokens.position])
    return tokens.name()


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
        given = _name(parser)
        if isinstance(given, str):
            tokens.fail()
        instance = given
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


def parse_begin_conversation_timer(parser: Parser) -> Statement:
    """`BEGIN CONVERSATION TIMER ( handle ) TIMEOUT = seconds`"""
    line = parser.line
    handle = parser.parenthesised()
    parser.tokens.expect("TIMEOUT", "=")
    return BeginConversationTimer(line, handle, parser.expression())


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


def parse_receive(parser: Parser) -> Statement:
    """RECEIVE outside WAITFOR."""
    return _receive(parser, wait=False)


def _receive(parser: Parser, *, wait: bool) -> Receive:
    """
    RECEIVE [ TOP ( n ) ] { * | column | expression [ [ AS ] alias ] | @variable = expression } [ , ... ]
        FROM queue [ INTO @table ] [ WHERE { conversation_handle = h | conversation_group_id = g } ]
    """
    tokens, line = parser.tokens, parser.line
    top: Expression | None = None
    if tokens.accept("TOP"):
        top = parser.parenthesised()
    taken = tokens.take_until(("FROM",))
    items = queries.query(tokens, [queries.select_token(taken[0]), *taken])
    tokens.expect("FROM")
    queue = tokens.object_name()
    into = tokens.variable() if tokens.accept("INTO") else ""
    column, value = "", None
    if tokens.accept("WHERE"):
        column = tokens.choose("CONVERSATION_HANDLE", "CONVERSATION_GROUP_ID").lower()
        tokens.expect("=")
        value = parser.expression()
    return Receive(line, items, top, queue, into, column, value, wait, None)


def parse_get_conversation_group(parser: Parser) -> Statement:
    """GET CONVERSATION GROUP outside WAITFOR."""
    return _get_conversation_group(parser, wait=False)


def _get_conversation_group(parser: Parser, *, wait: bool) -> GetConversationGroup:
    """`GET CONVERSATION GROUP @variable FROM queue`"""
    tokens, line = parser.tokens, parser.line
    variable = tokens.variable()
    tokens.expect("FROM")
    return GetConversationGroup(line, variable, tokens.object_name(), wait, None)


def parse_waitfor(parser: Parser) -> Statement:
    """`WAITFOR ( { RECEIVE ... | GET CONVERSATION GROUP ... } ) [ , TIMEOUT ms ]`"""
    tokens = parser.tokens
    inner: Receive | GetConversationGroup
    while tokens.accept(";"):
        pass
    if tokens.accept("RECEIVE"):
        inner = _receive(parser, wait=True)
    elif tokens.accept("GET", "CONVERSATION", "GROUP"):
        inner = _get_conversation_group(parser, wait=True)
    else:
        tokens.unsupported("WAITFOR with another statement than RECEIVE or GET CONVERSATION GROUP")
    tokens.expect(")")
    timeout: Expression | None = None
    if tokens.accept(","):
        tokens.expect("TIMEOUT")
        timeout = parser.expression()
    if isinstance(inner, Receive):
        where = (inner.where_column, inner.where_value)
        return Receive(inner.line, inner.items, inner.top, inner.queue, inner.into, *where, True, timeout)
    return GetConversationGroup(inner.line, inner.variable, inner.queue, True, timeout)


def parse_move_conversation(parser: Parser) -> Statement:
    """`MOVE CONVERSATION handle TO group`"""
    line = parser.line
    handle = parser.expression("TO")
    parser.tokens.expect("TO")
    return MoveConversation(line, handle, parser.expression())


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
