"""CREATE, ALTER and DROP VIEW. A query that reads a view is rendered with the view's query in its place
(`translation.selects`)."""

from dataclasses import dataclass

from harness.embedded.broker.transactions import Transaction
from harness.embedded.tsql.catalog.column_views import describe_columns_with
from harness.embedded.tsql.instance.modules import UserView
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Work
from harness.embedded.tsql.statements import changes, definitions, modules
from harness.embedded.tsql.text.parser import ParseFunction, Parser, Statement
from harness.embedded.tsql.translation.binding import refuse_order


@dataclass(frozen=True, slots=True)
class CreateView(modules.ModuleDefinition):
    columns: list[str]
    query: str


def parse_create_view(verb: str) -> ParseFunction:
    """`CREATE [ OR ALTER ] VIEW name [ ( column [, ...] ) ] [ WITH option [, ...] ] AS select`"""

    def parse(parser: Parser) -> Statement:
        tokens, line = parser.tokens, parser.line
        name = modules.begin(tokens, verb, "VIEW")
        columns = changes.parse_column_names(parser) if tokens.at("(") else []
        if modules.options(tokens, "a view", ("SCHEMABINDING",), ("VIEW_METADATA",)):
            tokens.fail()
        tokens.expect("AS")
        begin = tokens.position
        refuse_order(parser.query().tree, line)
        query = tokens.text[tokens.all[begin].start : tokens.all[tokens.position - 1].end + 1]
        while tokens.accept(";"):
            pass
        if tokens.at("WITH", "CHECK"):
            tokens.unsupported("a view WITH CHECK OPTION")
        if not tokens.at_end:
            tokens.fail()
        return CreateView(line, name, [], tokens.text, verb, "", columns, query)

    return parse


def compile_create_view(node: CreateView, scope: Scope) -> Work:
    def work(frame: Frame, tx: Transaction) -> None:
        described = modules.definition(frame, tx, node, _find(frame, node.name))
        view = UserView(*described, query=node.query, columns=node.columns)
        frame.instance.put_module(tx, view)
        modules.select_all(frame, view, node.line)  # whether it makes sense

    return work


def _find(frame: Frame, name: definitions.ObjectName) -> UserView | None:
    return frame.instance.view(name, frame.database)


modules.register_kind("VIEW", CreateView, parse_create_view, compile_create_view, _find)
describe_columns_with(UserView, modules.columns)
