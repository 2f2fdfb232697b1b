"""CREATE INDEX and DROP INDEX. A unique index is kept; another one only makes queries faster."""

from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import SqlServerError
from harness.embedded.tsql.catalog.constraints import keys
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.statements import definitions, rules, tables
from harness.embedded.tsql.storage.tables import Index, Table
from harness.embedded.tsql.text.parser import Parser

_KINDS = ("", "UNIQUE ", "CLUSTERED ", "NONCLUSTERED ", "UNIQUE CLUSTERED ", "UNIQUE NONCLUSTERED ")


def _indexed(frame: Frame, table: definitions.ObjectName) -> Table:
    target = frame.user_table(table)
    if target is None:
        raise SqlServerError(1088, ".".join(table))
    return target


def _register_create(kind: str) -> None:
    @definitions.define(f"CREATE {kind}INDEX")
    def create(parser: Parser) -> definitions.Definition:
        """
        CREATE [ UNIQUE ] [ CLUSTERED | NONCLUSTERED ] INDEX name ON table ( column [ ASC | DESC ] [, ...] )
            [ INCLUDE ( column [, ...] ) ] [ WHERE condition ] [ WITH ( ... ) ] [ ON filegroup ]
        """
        tokens = parser.tokens
        name = tokens.name()
        tokens.expect("ON")
        table = tokens.object_name()
        ordered = tables.ordered_columns(parser)
        columns, descending = [column for column, _ in ordered], [column for column, descends in ordered if descends]
        included = tables.key_columns(parser) if tokens.accept("INCLUDE") else []
        condition = ""
        if tokens.accept("WHERE"):
            if "UNIQUE" in kind:
                tokens.unsupported("unique indexes with a condition")
            begin = tokens.position
            parser.expression("WITH", "ON")
            condition = tokens.text[tokens.all[begin].start : tokens.all[tokens.position - 1].end + 1]
        tables.index_options(parser, "CREATE INDEX")
        index = Index(name, columns, "UNIQUE" in kind, "CLUSTERED" in kind.split(), descending, included, condition)

        def work(frame: Frame, tx: Transaction) -> None:
            target = _indexed(frame, table)
            for column in (*columns, *included):
                target.place(column)
            names = [*(other.name for other in target.indexes), *(key.name for key in keys(target))]
            if name.lower() in [other.lower() for other in names]:
                raise SqlServerError(1913, name, target.qualified_name)
            clustered = [key.name for key in keys(target) if key.is_clustered]
            clustered += [other.name for other in target.indexes if other.is_clustered]
            if index.is_clustered and clustered:
                raise SqlServerError(1902, target.name, clustered[0])
            body = target.body
            body.indexes.append(index)
            tables.replace_table(frame, tx, target, body)

        return definitions.Definition(parser.line, tables.altering(table, 1088), work)


for _kind in _KINDS:
    _register_create(_kind)


@definitions.define("DROP INDEX")
def drop_index(parser: Parser) -> definitions.Definition:
    """`DROP INDEX [ IF EXISTS ] { name ON table | [schema.]table.name }`"""
    tokens = parser.tokens
    if_exists = tokens.accept("IF", "EXISTS")
    *table, name = tokens.object_name()
    if tokens.accept("ON"):
        table = list(tokens.object_name())
    if not table:
        tokens.fail()

    def work(frame: Frame, tx: Transaction) -> None:
        target = frame.user_table(tuple(table))
        names = [index.name.lower() for index in target.indexes] if target is not None else []
        if target is None or name.lower() not in names:
            for key in keys(target) if target is not None else ():
                if key.name.lower() == name.lower():
                    raise SqlServerError(3723, f"{'.'.join(table)}.{name}", key.type_desc.split("_")[0])
            if not if_exists:
                raise SqlServerError(3701, "index", f"{'.'.join(table)}.{name}")
            return
        body = target.body
        index = body.indexes.pop(names.index(name.lower()))
        for _, reference in rules.references_to(frame, target) if index.is_unique else ():
            if {column.lower() for column in reference.table_columns} == {column.lower() for column in index.columns}:
                raise SqlServerError(3723, f"{'.'.join(table)}.{name}", "FOREIGN")
        tables.replace_table(frame, tx, target, body)

    return definitions.Definition(parser.line, tables.altering(tuple(table), 3701, "index"), work)
