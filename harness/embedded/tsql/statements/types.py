"""CREATE TYPE and DROP TYPE: other names of types, and types of tables for variables and parameters.

A parser finds such names in the database in which its text runs (`Tokens.find_type`).
"""

import re

from harness.embedded.broker.ddl import new_object_id
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.instance.modules import UserType
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.statements import definitions
from harness.embedded.tsql.statements.tables import variable_body
from harness.embedded.tsql.storage.tables import check_columns
from harness.embedded.tsql.text.parser import Parser


@definitions.define("CREATE TYPE")
def create_type(parser: Parser) -> definitions.Definition:
    """`CREATE TYPE name { FROM type [ NULL | NOT NULL ] | AS TABLE ( ... ) }`

    https://learn.microsoft.com/sql/t-sql/statements/create-type-transact-sql
    """
    tokens = parser.tokens
    parts = tokens.object_name()
    base, nullable, text = None, True, ""
    if tokens.accept("FROM"):
        base = tokens.data_type()
        nullable = not tokens.accept("NOT", "NULL")
        tokens.accept("NULL")
    elif tokens.accept("AS", "TABLE"):
        begin = tokens.position
        check_columns(parts[-1], variable_body(parser).columns)
        text = tokens.text[tokens.all[begin].start : tokens.all[tokens.position - 1].end + 1]
    else:
        tokens.unsupported(f"CREATE TYPE {tokens.word()}")

    def work(frame: Frame, tx: Transaction) -> None:
        instance, database = frame.instance, frame.database
        _, schema, name = instance.located(parts, database)
        if schema.lower() not in database.catalog.schemas:
            raise SqlServerError(2760, schema)
        if instance.user_type(database.database_id, parts) is not None:
            raise SqlServerError(219, ".".join(parts))
        now_ns, creator = instance.engine.clock.utc_ns(), frame.session.user_name(database)
        where = database.database_id, new_object_id(tx, database.catalog), schema, name
        instance.put_module(tx, UserType(*where, text, now_ns, creator, base, nullable))
        instance.forget_compiled()

    return definitions.Definition(parser.line, definitions.creating("CREATE TYPE", in_schema=parts), work)


def _drop(frame: Frame, tx: Transaction, parts: definitions.ObjectName) -> None:
    instance, database_id = frame.instance, frame.database.database_id
    user_type = instance.user_type(database_id, parts)
    if user_type is None:
        raise SqlServerError(218, ".".join(parts))
    name = re.compile(rf"(?<![\w@#$]){re.escape(user_type.name)}(?![\w@#$])", re.IGNORECASE)
    for module in instance.modules():
        if module.database_id == database_id and module is not user_type and name.search(module.text):
            raise SqlServerError(3732, ".".join(parts), module.name)
    instance.drop_module(tx, user_type)
    instance.forget_compiled()


definitions.register_drop(
    "TYPE",
    _drop,
    lambda name: definitions.creating("CREATE TYPE", in_schema=name),
    exists=lambda frame, name: frame.instance.user_type(frame.database.database_id, name),
    in_schema=True,
)
