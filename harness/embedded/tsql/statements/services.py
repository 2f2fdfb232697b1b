"""Message types, contracts, queues, services, conversation priorities."""

from typing import Any

from harness.embedded.broker import ddl_services
from harness.embedded.broker.database import Database
from harness.embedded.broker.definitions import ActivationOptions, QueueOptions
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.tsql.instance import securables
from harness.embedded.tsql.permissions.guard import Guard
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.statements.procedures import compiled
from harness.embedded.tsql.text.parser import Parser
from harness.embedded.tsql.text.tokens import Tokens


def _validation(tokens: Tokens) -> tuple[str, str]:
    """`VALIDATION = { NONE | EMPTY | WELL_FORMED_XML | VALID_XML WITH SCHEMA COLLECTION name }`: the word, and the name
    or ""."""
    tokens.expect("VALIDATION", "=")
    kind = tokens.choose("NONE", "EMPTY", "WELL_FORMED_XML", "VALID_XML")
    if kind != "VALID_XML":
        return kind, ""
    tokens.expect("WITH", "SCHEMA", "COLLECTION")
    return kind, collection_name(tokens.object_name())


def collection_name(parts: definitions.ObjectName) -> str:
    """The name of an XML schema collection with its schema."""
    return f"{parts[-2] if len(parts) > 1 and parts[-2] else 'dbo'}.{parts[-1]}"


@definitions.define("CREATE MESSAGE TYPE")
def create_message_type(parser: Parser) -> definitions.Definition:
    """`CREATE MESSAGE TYPE name [ AUTHORIZATION owner ] [ VALIDATION = ... ]`"""
    tokens = parser.tokens
    name, owner = tokens.name(), definitions.authorization(tokens)
    validation = _validation(tokens) if tokens.at("VALIDATION") else ("NONE", "")

    def work(frame: Frame, tx: Transaction) -> None:
        catalog = frame.database.catalog
        ddl_services.create_message_type(tx, catalog, name, *validation, definitions.owner_of(frame, owner))

    return definitions.Definition(parser.line, definitions.creating("CREATE MESSAGE TYPE", owner), work)


@definitions.define("ALTER MESSAGE TYPE")
def alter_message_type(parser: Parser) -> definitions.Definition:
    """`ALTER MESSAGE TYPE name VALIDATION = ...`"""
    name = parser.tokens.name()
    validation = _validation(parser.tokens)

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_services.alter_message_type(tx, frame.database.catalog, name, *validation)

    return definitions.Definition(parser.line, definitions.on_object("alter", "MESSAGE TYPE", (name,)), work)


definitions.register_drop(
    "MESSAGE TYPE", lambda frame, tx, name: ddl_services.drop_message_type(tx, frame.database.catalog, name[0])
)


@definitions.define("CREATE CONTRACT")
def create_contract(parser: Parser) -> definitions.Definition:
    """`CREATE CONTRACT name [ AUTHORIZATION owner ] ( type SENT BY { INITIATOR | TARGET | ANY } [ , ... ] )`"""
    tokens = parser.tokens
    name, owner = tokens.name(), definitions.authorization(tokens)

    def message() -> tuple[str, str]:
        message_type = tokens.name()
        tokens.expect("SENT", "BY")
        return message_type, tokens.choose("INITIATOR", "TARGET", "ANY")

    tokens.expect("(")
    usages = tokens.comma_separated(message)
    tokens.expect(")")

    def check(frame: Frame, guard: Guard) -> None:
        definitions.creating("CREATE CONTRACT", owner)(frame, guard)
        for message_type, _ in usages:
            securables.require_references(frame, "MESSAGE TYPE", message_type)

    def work(frame: Frame, tx: Transaction) -> None:
        catalog = frame.database.catalog
        ddl_services.create_contract(tx, catalog, name, usages=usages, owner=definitions.owner_of(frame, owner))

    return definitions.Definition(parser.line, check, work)


definitions.register_drop(
    "CONTRACT",
    lambda frame, tx, name: ddl_services.drop_contract(tx, frame.database, frame.instance.engine.severance, name[0]),
)


@definitions.define("CREATE QUEUE")
def create_queue(parser: Parser) -> definitions.Definition:
    """
    CREATE QUEUE name [ WITH [ STATUS = { ON | OFF } ] [ , RETENTION = { ON | OFF } ]
        [ , ACTIVATION ( [ STATUS = .. , ] PROCEDURE_NAME = name , MAX_QUEUE_READERS = n , EXECUTE AS user ) ]
        [ , POISON_MESSAGE_HANDLING ( STATUS = { ON | OFF } ) ] ] [ ON filegroup ]
    """
    tokens = parser.tokens
    name = tokens.object_name()
    clauses = _clauses(tokens) if tokens.accept("WITH") else {}
    definitions.filegroup(tokens)

    def work(frame: Frame, tx: Transaction) -> None:
        database, schema, queue = frame.instance.named(name, frame.database)
        ddl_services.create_queue(tx, database.catalog, schema, queue, _options(frame, clauses))

    return definitions.Definition(parser.line, definitions.creating("CREATE QUEUE", in_schema=name), work)


@definitions.define("ALTER QUEUE")
def alter_queue(parser: Parser) -> definitions.Definition:
    """
    ALTER QUEUE name
        { WITH clauses | REBUILD [ WITH ( MAXDOP = n ) ] | REORGANIZE [ WITH ( LOB_COMPACTION = { ON | OFF } ) ] }

    The clauses are those of CREATE QUEUE and ACTIVATION ( DROP ). REBUILD and REORGANIZE change nothing: a queue has no
    pages here.
    """
    tokens = parser.tokens
    name = tokens.object_name()
    clauses: dict[str, Any] = {}
    if tokens.accept("REBUILD"):
        if tokens.accept("WITH"):
            tokens.expect("(", "MAXDOP", "=")
            tokens.integer_between(0, MAX_QUEUE_READERS_MAX)
            tokens.expect(")")
    elif tokens.accept("REORGANIZE"):
        if tokens.accept("WITH"):
            tokens.expect("(", "LOB_COMPACTION", "=")
            tokens.on_off()
            tokens.expect(")")
    elif tokens.at("MOVE"):
        tokens.unsupported("ALTER QUEUE MOVE")
    else:
        tokens.expect("WITH")
        clauses = _clauses(tokens)

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        database, schema, queue = frame.instance.located(name, frame.database)
        yield from _wait_for_readers(frame, tx, database, f"{schema}.{queue}")
        ddl_services.alter_queue(tx, database.catalog, schema, queue, _options(frame, clauses))

    return definitions.Definition(parser.line, definitions.on_object("alter", "QUEUE", name), work)


def _wait_for_readers(frame: Frame, tx: Transaction, database: Database, queue_name: str) -> Waiting[None]:
    """Wait for the transactions that have received from a queue: RECEIVE locks it (IX) to the end of its transaction,
    and ALTER QUEUE needs it alone (Sch-M). https://dba.stackexchange.com/q/73833 shows both locks."""
    queue = database.catalog.queues.get(queue_name.lower())
    for group in [group for group in database.groups.values() if group.queue is queue]:
        if isinstance(group.owner, Transaction) and group.owner is not tx and queue in group.owner.received_from:
            yield from group.acquire(tx, frame.instance.engine.waits)


MAX_QUEUE_READERS_MAX = 32767
CLAUSES = ("STATUS", "RETENTION", "ACTIVATION", "POISON_MESSAGE_HANDLING")


def _clauses(tokens: Tokens) -> dict[str, Any]:
    """The clauses of WITH that are written, by the names of `QueueOptions`; the activation is a dict of its own."""
    clauses: dict[str, Any] = {}
    while True:
        clause = tokens.choose(*CLAUSES)
        if clause == "ACTIVATION":
            clauses["activation"] = _activation(tokens)
        elif clause == "POISON_MESSAGE_HANDLING":
            tokens.expect("(", "STATUS", "=")
            clauses["poison_message_handling"] = tokens.on_off()
            tokens.expect(")")
        else:
            tokens.expect("=")
            clauses[clause.lower()] = tokens.on_off()
        if not tokens.accept(","):
            if tokens.word() in CLAUSES:
                tokens.fail()
            return clauses


def _activation(tokens: Tokens) -> dict[str, Any]:
    clauses: dict[str, Any] = {}
    tokens.expect("(")
    if tokens.accept("DROP", ")"):
        return {"drop": True}
    while True:
        option = tokens.choose("STATUS", "PROCEDURE_NAME", "MAX_QUEUE_READERS", "EXECUTE")
        tokens.expect("AS" if option == "EXECUTE" else "=")
        if option == "STATUS":
            clauses["status"] = tokens.on_off()
        elif option == "PROCEDURE_NAME":
            clauses["procedure"] = tokens.object_name()
        elif option == "MAX_QUEUE_READERS":
            clauses["max_queue_readers"] = tokens.integer_between(0, MAX_QUEUE_READERS_MAX)
        else:
            clauses["execute_as"] = tokens.string() if tokens.at_string() else tokens.choose("SELF", "OWNER")
        if not tokens.accept(","):
            tokens.expect(")")
            return clauses


def _options(frame: Frame, clauses: dict[str, Any]) -> QueueOptions:
    if "activation" not in clauses:
        return QueueOptions(**clauses)
    activation = dict(clauses["activation"])
    if "procedure" in activation:
        activation["procedure"] = _procedure_name(frame, activation["procedure"])
    if activation.get("execute_as") == "SELF":
        activation["execute_as"] = frame.session.user_name()
    return QueueOptions(**clauses | {"activation": ActivationOptions(**activation)})


def _procedure_name(frame: Frame, parts: definitions.ObjectName) -> str:
    """The three-part name in sys.service_queues. The procedure need not exist yet."""
    database, schema, name = frame.instance.located(parts, frame.database, frame.session.guard)
    if name.startswith("#"):
        raise SqlServerError(9742, name)
    procedure = frame.instance.procedure(parts, frame.database)
    if procedure is not None and compiled(procedure).names:
        raise SqlServerError(9653, name)
    return definitions.written_name(database.name, schema, name)


@definitions.define("DROP QUEUE")
def drop_queue(parser: Parser) -> definitions.Definition:
    """`DROP QUEUE queue`"""
    name = parser.tokens.object_name()

    def work(frame: Frame, tx: Transaction) -> Waiting[None]:
        database, schema, queue = frame.instance.located(name, frame.database)
        securable = securables.find(frame, "OBJECT", name)
        dropped = ddl_services.drop_queue(tx, database.catalog, schema, queue)
        if securable is not None:
            frame.instance.grants.forget_securable(tx, securable)
        return frame.instance.engine.notifier.end(tx, database, dropped)

    return definitions.Definition(parser.line, definitions.dropping_from_schema("queue", name), work)


@definitions.define("CREATE SERVICE")
def create_service(parser: Parser) -> definitions.Definition:
    """`CREATE SERVICE name [ AUTHORIZATION owner ] ON QUEUE queue [ ( contract [ , ... ] ) ]`"""
    tokens = parser.tokens
    name, owner = tokens.name(), definitions.authorization(tokens)
    tokens.expect("ON", "QUEUE")
    queue = tokens.object_name()
    contracts: list[str] = []
    if tokens.accept("("):
        contracts = tokens.comma_separated(tokens.name)
        tokens.expect(")")

    def check(frame: Frame, guard: Guard) -> None:
        definitions.creating("CREATE SERVICE", owner)(frame, guard)
        definitions.on_object("find", "QUEUE", queue, "CONTROL")(frame, guard)
        for contract in contracts:
            securables.require_references(frame, "CONTRACT", contract)

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_services.create_service(
            tx,
            frame.database.catalog,
            name,
            queue=definitions.queue_name(frame, queue),
            contracts=contracts,
            owner=definitions.owner_of(frame, owner),
        )

    return definitions.Definition(parser.line, check, work)


@definitions.define("ALTER SERVICE")
def alter_service(parser: Parser) -> definitions.Definition:
    """`ALTER SERVICE name [ ON QUEUE queue ] [ ( { ADD | DROP } CONTRACT contract [ , ... ] ) ]`"""
    tokens = parser.tokens
    name = tokens.name()
    queue = tokens.object_name() if tokens.accept("ON", "QUEUE") else None
    changes: dict[str, list[str]] = {"ADD": [], "DROP": []}

    def change() -> None:
        verb = tokens.choose("ADD", "DROP")
        tokens.expect("CONTRACT")
        changes[verb].append(tokens.name())

    if tokens.accept("("):
        tokens.comma_separated(change)
        tokens.expect(")")

    def check(frame: Frame, guard: Guard) -> None:
        definitions.on_object("alter", "SERVICE", (name,))(frame, guard)
        for contract in changes["ADD"]:
            securables.require_references(frame, "CONTRACT", contract)

    def work(frame: Frame, tx: Transaction) -> None:
        ddl_services.alter_service(
            tx,
            frame.database,
            frame.instance.engine.delivery,
            name,
            queue=definitions.queue_name(frame, queue) if queue else None,
            add_contracts=changes["ADD"],
            drop_contracts=changes["DROP"],
        )

    return definitions.Definition(parser.line, check, work)


definitions.register_drop(
    "SERVICE",
    lambda frame, tx, name: ddl_services.drop_service(tx, frame.database, frame.instance.engine.severance, name[0]),
)


def _name_or_any(tokens: Tokens) -> str | None:
    if tokens.accept("ANY"):
        return None
    return tokens.string() if tokens.at_string() else tokens.name()


PRIORITY_OPTIONS: definitions.Options = {
    "CONTRACT_NAME": ("contract", _name_or_any),
    "LOCAL_SERVICE_NAME": ("local_service", _name_or_any),
    "REMOTE_SERVICE_NAME": ("remote_service", _name_or_any),
    "PRIORITY_LEVEL": ("level", lambda tokens: 5 if tokens.accept("DEFAULT") else tokens.integer_between(1, 10)),
}


@definitions.define("CREATE BROKER PRIORITY|ALTER BROKER PRIORITY")
def broker_priority(parser: Parser) -> definitions.Definition:
    """
    { CREATE | ALTER } BROKER PRIORITY name FOR CONVERSATION SET ( [ CONTRACT_NAME = { name | ANY } ]
        [ , LOCAL_SERVICE_NAME = { name | ANY } ] [ , REMOTE_SERVICE_NAME = { 'name' | ANY } ]
        [ , PRIORITY_LEVEL = { 1 .. 10 | DEFAULT } ] )
    """
    tokens = parser.tokens
    verb, name = tokens.word(-3), tokens.name()
    change = ddl_services.alter_priority if verb == "ALTER" else ddl_services.create_priority
    tokens.expect("FOR", "CONVERSATION")
    clauses: dict[str, Any] = {}
    if tokens.at("SET", "("):
        tokens.advance()
        tokens.expect("(")
        clauses = definitions.options(tokens, PRIORITY_OPTIONS)
        tokens.expect(")")

    def work(frame: Frame, tx: Transaction) -> None:
        change(tx, frame.database.catalog, name, **clauses)

    return definitions.Definition(
        parser.line, definitions.in_database("ALTER", 15151, "alter", "broker priority", name), work
    )


definitions.register_drop(
    "BROKER PRIORITY",
    lambda frame, tx, name: ddl_services.drop_priority(tx, frame.database.catalog, name[0]),
    lambda name: definitions.in_database("ALTER", 15151, "drop", "broker priority", name[0]),
)
