"""CREATE, ALTER and DROP of Service Broker's objects: nodes and grammars, from the manual."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement

ObjectName = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateMessageType(Statement):
    name: str
    owner: str
    validation: str  # NONE, EMPTY, WELL_FORMED_XML
    schema_collection: str


@dataclass(frozen=True, slots=True)
class AlterMessageType(Statement):
    name: str
    validation: str
    schema_collection: str


@dataclass(frozen=True, slots=True)
class CreateContract(Statement):
    name: str
    owner: str
    messages: list[tuple[str, str]]  # message type, sent by


@dataclass(slots=True)
class QueueClauses:
    """What stands behind WITH; None where nothing was said."""

    status: bool | None = None
    retention: bool | None = None
    poison_message_handling: bool | None = None
    has_activation: bool = False
    drop_activation: bool = False
    activation_status: bool | None = None
    procedure: ObjectName | None = None
    max_queue_readers: int | None = None
    execute_as: str | None = None


@dataclass(frozen=True, slots=True)
class CreateQueue(Statement):
    name: ObjectName
    clauses: QueueClauses


@dataclass(frozen=True, slots=True)
class AlterQueue(Statement):
    name: ObjectName
    clauses: QueueClauses


@dataclass(frozen=True, slots=True)
class CreateService(Statement):
    name: str
    owner: str
    queue: ObjectName
    contracts: list[str]


@dataclass(frozen=True, slots=True)
class AlterService(Statement):
    name: str
    queue: ObjectName | None
    add: list[str]
    drop: list[str]


@dataclass(frozen=True, slots=True)
class RouteOptions(Statement):
    """CREATE ROUTE and ALTER ROUTE."""

    name: str
    owner: str
    options: dict[str, str | int]


@dataclass(frozen=True, slots=True)
class CreateRoute(RouteOptions):
    pass


@dataclass(frozen=True, slots=True)
class AlterRoute(RouteOptions):
    pass


@dataclass(frozen=True, slots=True)
class CreateRemoteServiceBinding(Statement):
    name: str
    owner: str
    service: str
    user: str
    anonymous: bool


@dataclass(frozen=True, slots=True)
class AlterRemoteServiceBinding(Statement):
    name: str
    user: str | None
    anonymous: bool | None


@dataclass(frozen=True, slots=True)
class BrokerPriority(Statement):
    """CREATE and ALTER BROKER PRIORITY; `options` holds what was said, None for ANY."""

    verb: str
    name: str
    options: dict[str, str | int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateEventNotification(Statement):
    name: str
    queue: ObjectName
    events: list[str]
    service: str
    broker_instance: str


@dataclass(frozen=True, slots=True)
class DropEventNotification(Statement):
    names: list[str]
    queue: ObjectName


@dataclass(frozen=True, slots=True)
class DropBrokerObject(Statement):
    kind: str  # MESSAGE TYPE, CONTRACT, QUEUE, SERVICE, ROUTE, REMOTE SERVICE BINDING, BROKER PRIORITY
    name: ObjectName


def authorization(parser: Parser) -> str:
    return parser.tokens.name() if parser.tokens.accept("AUTHORIZATION") else ""


def _validation(parser: Parser) -> tuple[str, str]:
    tokens = parser.tokens
    tokens.expect("VALIDATION", "=")
    kind = tokens.choose("NONE", "EMPTY", "WELL_FORMED_XML", "VALID_XML")
    if kind == "VALID_XML":
        tokens.unsupported("VALID_XML WITH SCHEMA COLLECTION")
    return kind, ""


def parse_create_message_type(parser: Parser) -> Statement:
    """`CREATE MESSAGE TYPE name [ AUTHORIZATION owner ] [ VALIDATION = { NONE | EMPTY | WELL_FORMED_XML } ]`"""
    line, name, owner = parser.line, parser.tokens.name(), authorization(parser)
    validation = _validation(parser) if parser.tokens.at("VALIDATION") else ("NONE", "")
    return CreateMessageType(line, name, owner, *validation)


def parse_alter_message_type(parser: Parser) -> Statement:
    """`ALTER MESSAGE TYPE name VALIDATION = { NONE | EMPTY | WELL_FORMED_XML }`"""
    return AlterMessageType(parser.line, parser.tokens.name(), *_validation(parser))


def parse_create_contract(parser: Parser) -> Statement:
    """`CREATE CONTRACT name [ AUTHORIZATION owner ] ( type SENT BY { INITIATOR | TARGET | ANY } [ , ... ] )`"""
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)

    def message() -> tuple[str, str]:
        message_type = tokens.name()
        tokens.expect("SENT", "BY")
        return message_type, tokens.choose("INITIATOR", "TARGET", "ANY")

    tokens.expect("(")
    messages = tokens.comma_separated(message)
    tokens.expect(")")
    return CreateContract(line, name, owner, messages)


def parse_create_queue(parser: Parser) -> Statement:
    """
    CREATE QUEUE name [ WITH [ STATUS = { ON | OFF } ] [ , RETENTION = { ON | OFF } ]
        [ , ACTIVATION ( [ STATUS = .. , ] PROCEDURE_NAME = name , MAX_QUEUE_READERS = n , EXECUTE AS user ) ]
        [ , POISON_MESSAGE_HANDLING ( STATUS = { ON | OFF } ) ] ] [ ON filegroup ]
    """
    line, name = parser.line, parser.tokens.object_name()
    clauses = _queue_clauses(parser) if parser.tokens.accept("WITH") else QueueClauses()
    if parser.tokens.accept("ON"):
        parser.tokens.name()
    return CreateQueue(line, name, clauses)


def parse_alter_queue(parser: Parser) -> Statement:
    """`ALTER QUEUE name WITH ...`, the clauses of CREATE QUEUE and ACTIVATION ( DROP )"""
    line, name = parser.line, parser.tokens.object_name()
    if parser.tokens.word() in ("REBUILD", "REORGANIZE", "MOVE"):
        parser.tokens.unsupported(f"ALTER QUEUE {parser.tokens.word()}")
    parser.tokens.expect("WITH")
    return AlterQueue(line, name, _queue_clauses(parser))


QUEUE_CLAUSES = ("STATUS", "RETENTION", "ACTIVATION", "POISON_MESSAGE_HANDLING")


def _queue_clauses(parser: Parser) -> QueueClauses:
    tokens, clauses = parser.tokens, QueueClauses()
    while True:
        clause = tokens.choose(*QUEUE_CLAUSES)
        if clause == "STATUS":
            tokens.expect("=")
            clauses.status = tokens.on_off()
        elif clause == "RETENTION":
            tokens.expect("=")
            clauses.retention = tokens.on_off()
        elif clause == "ACTIVATION":
            _activation(parser, clauses)
        else:
            tokens.expect("(", "STATUS", "=")
            clauses.poison_message_handling = tokens.on_off()
            tokens.expect(")")
        if not tokens.accept(",") and tokens.word() not in QUEUE_CLAUSES:
            return clauses


def _activation(parser: Parser, clauses: QueueClauses) -> None:
    tokens = parser.tokens
    clauses.has_activation = True
    tokens.expect("(")
    if tokens.accept("DROP", ")"):
        clauses.drop_activation = True
        return
    while not tokens.accept(")"):
        option = tokens.choose("STATUS", "PROCEDURE_NAME", "MAX_QUEUE_READERS", "EXECUTE")
        if option == "EXECUTE":
            tokens.expect("AS")
            clauses.execute_as = tokens.string() if tokens.at_string() else tokens.choose("SELF", "OWNER")
        else:
            tokens.expect("=")
            if option == "STATUS":
                clauses.activation_status = tokens.on_off()
            elif option == "PROCEDURE_NAME":
                clauses.procedure = tokens.object_name()
            else:
                clauses.max_queue_readers = tokens.integer()
        tokens.accept(",")


def parse_create_service(parser: Parser) -> Statement:
    """`CREATE SERVICE name [ AUTHORIZATION owner ] ON QUEUE queue [ ( contract [ , ... ] ) ]`"""
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)
    tokens.expect("ON", "QUEUE")
    queue = tokens.object_name()
    contracts: list[str] = []
    if tokens.accept("("):
        contracts = tokens.comma_separated(tokens.name)
        tokens.expect(")")
    return CreateService(line, name, owner, queue, contracts)


def parse_alter_service(parser: Parser) -> Statement:
    """`ALTER SERVICE name [ ON QUEUE queue ] [ ( { ADD | DROP } CONTRACT contract [ , ... ] ) ]`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    queue = tokens.object_name() if tokens.accept("ON", "QUEUE") else None
    changes: dict[str, list[str]] = {"ADD": [], "DROP": []}
    if tokens.accept("("):

        def change() -> None:
            verb = tokens.choose("ADD", "DROP")
            tokens.expect("CONTRACT")
            changes[verb].append(tokens.name())

        tokens.comma_separated(change)
        tokens.expect(")")
    return AlterService(line, name, queue, changes["ADD"], changes["DROP"])


ROUTE_OPTIONS = ("SERVICE_NAME", "BROKER_INSTANCE", "LIFETIME", "ADDRESS", "MIRROR_ADDRESS")


def _route_options(parser: Parser) -> dict[str, str | int]:
    tokens = parser.tokens
    options: dict[str, str | int] = {}

    def option() -> None:
        name = tokens.choose(*ROUTE_OPTIONS)
        tokens.expect("=")
        options[name] = tokens.integer() if name == "LIFETIME" else tokens.string()

    tokens.expect("WITH")
    tokens.comma_separated(option)
    return options


def parse_create_route(parser: Parser) -> Statement:
    """`CREATE ROUTE name [ AUTHORIZATION owner ] WITH [ SERVICE_NAME = '..', ] ADDRESS = '..' [ , ... ]`"""
    line, name, owner = parser.line, parser.tokens.name(), authorization(parser)
    options = _route_options(parser)
    if "ADDRESS" not in options:
        parser.tokens.fail()
    return CreateRoute(line, name, owner, options)


def parse_alter_route(parser: Parser) -> Statement:
    """`ALTER ROUTE name WITH option [ , ... ]`"""
    return AlterRoute(parser.line, parser.tokens.name(), "", _route_options(parser))


def parse_create_remote_service_binding(parser: Parser) -> Statement:
    """
    CREATE REMOTE SERVICE BINDING name [ AUTHORIZATION owner ] TO SERVICE 'service'
        WITH USER = user [ , ANONYMOUS = { ON | OFF } ]
    """
    tokens, line = parser.tokens, parser.line
    name, owner = tokens.name(), authorization(parser)
    tokens.expect("TO", "SERVICE")
    service = tokens.string()
    tokens.expect("WITH", "USER", "=")
    user, anonymous = tokens.name(), False
    if tokens.accept(",", "ANONYMOUS", "="):
        anonymous = tokens.on_off()
    return CreateRemoteServiceBinding(line, name, owner, service, user, anonymous)


def parse_alter_remote_service_binding(parser: Parser) -> Statement:
    """`ALTER REMOTE SERVICE BINDING name WITH [ USER = user ] [ , ANONYMOUS = { ON | OFF } ]`"""
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    tokens.expect("WITH")
    user = tokens.name() if tokens.accept("USER", "=") else None
    anonymous = None
    if (user is None or tokens.accept(",")) and tokens.accept("ANONYMOUS", "="):
        anonymous = tokens.on_off()
    return AlterRemoteServiceBinding(line, name, user, anonymous)


def parse_broker_priority(verb: str) -> ParseFunction:
    """
    { CREATE | ALTER } BROKER PRIORITY name FOR CONVERSATION SET ( [ CONTRACT_NAME = { name | ANY } ]
        [ , LOCAL_SERVICE_NAME = { name | ANY } ] [ , REMOTE_SERVICE_NAME = { 'name' | ANY } ]
        [ , PRIORITY_LEVEL = { 1 .. 10 | DEFAULT } ] )
    """

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        name = tokens.name()
        options: dict[str, str | int | None] = {}

        def option() -> None:
            which = tokens.choose("CONTRACT_NAME", "LOCAL_SERVICE_NAME", "REMOTE_SERVICE_NAME", "PRIORITY_LEVEL")
            tokens.expect("=")
            if tokens.accept("ANY"):
                options[which] = None
            elif which == "PRIORITY_LEVEL":
                options[which] = 5 if tokens.accept("DEFAULT") else tokens.integer()
            else:
                options[which] = tokens.string() if tokens.at_string() else tokens.name()

        tokens.expect("FOR", "CONVERSATION")
        if tokens.accept("SET"):
            tokens.expect("(")
            tokens.comma_separated(option)
            tokens.expect(")")
        return BrokerPriority(line, verb, name, options)

    return parse


def parse_create_event_notification(parser: Parser) -> Statement:
    """
    CREATE EVENT NOTIFICATION name ON QUEUE queue [ WITH FAN_IN ]
        FOR { QUEUE_ACTIVATION | BROKER_QUEUE_DISABLED } TO SERVICE 'service', { 'broker' | 'current database' }
    """
    tokens, line = parser.tokens, parser.line
    name = tokens.name()
    tokens.expect("ON")
    if not tokens.accept("QUEUE"):
        tokens.unsupported(f"event notifications on {tokens.word()}")
    queue = tokens.object_name()
    tokens.accept("WITH", "FAN_IN")
    tokens.expect("FOR")
    events = tokens.comma_separated(lambda: tokens.choose("QUEUE_ACTIVATION", "BROKER_QUEUE_DISABLED"))
    tokens.expect("TO", "SERVICE")
    service = tokens.string()
    tokens.expect(",")
    return CreateEventNotification(line, name, queue, events, service, tokens.string())


def parse_drop_event_notification(parser: Parser) -> Statement:
    """`DROP EVENT NOTIFICATION name [ , ... ] ON QUEUE queue`"""
    tokens, line = parser.tokens, parser.line
    names = tokens.comma_separated(tokens.name)
    tokens.expect("ON", "QUEUE")
    return DropEventNotification(line, names, tokens.object_name())


def parse_drop_broker_object(kind: str) -> ParseFunction:
    """`DROP { MESSAGE TYPE | CONTRACT | QUEUE | SERVICE | ROUTE | REMOTE SERVICE BINDING | BROKER PRIORITY } name`"""

    def parse(parser: Parser) -> Statement:
        name = parser.tokens.object_name() if kind == "QUEUE" else (parser.tokens.name(),)
        return DropBrokerObject(parser.line, kind, name)

    return parse
