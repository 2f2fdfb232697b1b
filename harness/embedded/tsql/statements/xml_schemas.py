"""CREATE and DROP XML SCHEMA COLLECTION, which message types name (`services`)."""

from dataclasses import dataclass

from harness.embedded.broker import ddl_services
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.statements.registry import register
from harness.embedded.tsql.statements.services import collection_name
from harness.embedded.tsql.text.parser import Expression, Parser, Statement
from harness.embedded.tsql.translation.binding import scalar
from harness.embedded.tsql.translation.fragments import XML

PERMISSION = "CREATE XML SCHEMA COLLECTION"


@dataclass(frozen=True, slots=True)
class CreateCollection(Statement):
    name: definitions.ObjectName
    text: Expression


def parse_create(parser: Parser) -> Statement:
    """`CREATE XML SCHEMA COLLECTION [schema.]name AS expression`"""
    line, name = parser.line, parser.tokens.object_name()
    parser.tokens.expect("AS")
    return CreateCollection(line, name, parser.expression())


@register("CREATE XML SCHEMA COLLECTION", parse_create, CreateCollection)
def compile_create(node: CreateCollection, scope: Scope) -> Step:
    text = scalar(node.text, scope, XML)

    def work(frame: Frame, tx: Transaction) -> None:
        value = text(frame)
        if value is None:
            raise SqlServerError(6314, collection_name(node.name))
        ddl_services.create_xml_schema_collection(tx, frame.database.catalog, collection_name(node.name), value)

    return definitions.definition_step(definitions.creating(PERMISSION, in_schema=node.name), work)


definitions.register_drop(
    "XML SCHEMA COLLECTION",
    lambda frame, tx, name: ddl_services.drop_xml_schema_collection(tx, frame.database.catalog, collection_name(name)),
    lambda name: definitions.creating(PERMISSION, in_schema=name),
    in_schema=True,
)
