"""The parser of a batch: which statement begins here, and where it ends.

Expressions and SELECT queries are parsed by sqlglot; its guesses at unknown syntax are errors here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.tsql import TSQL
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.parser import Parser as SqlglotParser
from sqlglot.parsers.tsql import TSQLParser
from sqlglot.tokenizer_core import Token, TokenType

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.tsql.text.tokenizer import RESERVED, STATEMENT_WORDS
from harness.embedded.tsql.text.tokens import TEXT, FindType, Tokens, incorrect_syntax, word_of

BEGINNINGS = STATEMENT_WORDS - {"ELSE", "END"} | {"BULK", "LINENO", "READTEXT", "UPDATETEXT", "WRITETEXT"}
NESTING_MAX = 100  # blocks in blocks; SQL Server's limit is undocumented, Python's stack is finite


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement; there is a subclass for each kind. `line` is the line of its first word, from 1."""

    line: int
    # It also runs under SET FMTONLY ON: it has columns to show, or statements inside, or ends that.
    describes: ClassVar[bool] = False


ParseFunction = Callable[["Parser"], Statement]
Grammar = Mapping[tuple[str, ...], ParseFunction]  # the words a statement begins with -> what parses the rest


class Parser:
    """Parses one batch with a grammar; a parse function starts after the first words of its statement."""

    def __init__(
        self, text: str, grammar: Grammar, *, quoted_identifier: bool = True, find_type: FindType | None = None
    ) -> None:
        self.tokens = Tokens(text, find_type=find_type)
        if not quoted_identifier:
            self.tokens.quote_identifiers(False)
        self.line = 1
        self._grammar = grammar
        self._longest = max(len(words) for words in grammar)
        self._depth = 0

    def batch(self) -> list[Statement]:
        statements: list[Statement] = []
        tokens = self.tokens
        while True:
            while tokens.accept(";"):
                pass
            if tokens.at_end:
                return statements
            # A procedure may be called without EXEC if the call is the first statement of the batch.
            if not statements and self._parse_function() is None and tokens.peek() is not None:
                statements.append(self._implicit_call())
            else:
                statements.append(self.statement())

    def statement(self) -> Statement:
        """Parse one statement and the semicolons after it."""
        tokens = self.tokens
        function = self._parse_function()
        if function is None:
            self._refuse()
        length, parse = function
        outer_line, self.line = self.line, tokens.line
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise UnsupportedSyntax(f"more than {NESTING_MAX} nested statements", self.line)
        tokens.position += length
        node = parse(self)
        self._depth -= 1
        self.line = outer_line
        if tokens.at("WITH") and tokens.all[tokens.position - 1].text != ";" and self._at_common_table():
            raise SqlServerError(319, line=tokens.line)
        while tokens.accept(";"):
            pass
        return node

    def _at_common_table(self) -> bool:
        """Whether WITH begins a statement, and is no clause of the one before."""
        return self.tokens.at("WITH", "XMLNAMESPACES") or self.tokens.word(2) in ("AS", "(")

    @property
    def is_nested(self) -> bool:
        """Whether the statement that is parsed is part of another one, as of IF or CREATE PROCEDURE."""
        return self._depth > 1

    def block(self, *end: str) -> list[Statement]:
        """Parse the statements up to END, and END with the words `end`."""
        statements: list[Statement] = []
        tokens = self.tokens
        while tokens.accept(";"):
            pass
        while not (tokens.at("END") and not tokens.at("END", "CONVERSATION")):
            if tokens.at_end:
                tokens.fail()
            statements.append(self.statement())
        if not statements:
            raise SqlServerError(102, tokens.advance().text, line=tokens.line)
        tokens.expect("END", *end)
        return statements

    def expression(self, *ends: str) -> Expression:
        """Parse an expression up to one of `ends` or the end of the statement."""
        return parse_expression(self.tokens, self.tokens.take_until(ends, is_scalar=True))

    def query(self, ends: Collection[str] = ()) -> Query:
        """Parse a SELECT, WITH and its SELECT, or a query in parentheses."""
        allow = {"WITH": ("WITH", "SELECT"), "(": ()}.get(self.tokens.word(), ("SELECT",))
        query_tokens = self.tokens.take_until(ends, allow=allow)
        return parse_query(self.tokens, _simply_assigned(_simply_named(query_tokens)))

    def parenthesised(self) -> Expression:
        self.tokens.expect("(")
        inner = self.expression(")")
        self.tokens.expect(")")
        return inner

    def _parse_function(self) -> tuple[int, ParseFunction] | None:
        words = tuple(self.tokens.word(ahead) for ahead in range(self._longest))
        for length in range(self._longest, 0, -1):
            parse = self._grammar.get(words[:length])
            if parse is not None:
                return length, parse
        return None

    def _implicit_call(self) -> Statement:
        if self.tokens.word().partition(" ")[0] in RESERVED or self.tokens.at_variable():
            self._refuse()
        self.line = self.tokens.line
        return self._grammar[("EXEC",)](self)

    def _refuse(self) -> NoReturn:
        """Raise an error for what is no statement here: 50001 if T-SQL may have it, else 102."""
        tokens = self.tokens
        if tokens.word(1) == ":":
            tokens.unsupported("labels, to which GOTO goes")
        first, second = tokens.word(), tokens.word(1)
        if first.partition(" ")[0] not in BEGINNINGS:
            tokens.fail()
        tokens.unsupported(f"the statement {first} {second if second.isidentifier() else ''}".rstrip())


def at_statement_end(parser: Parser) -> bool:
    tokens = parser.tokens
    return tokens.at_end or tokens.at(";") or tokens.word() in STATEMENT_WORDS


# -- expressions and queries -------------------------------------------------------------------------------------------

_DIALECT = TSQL()
COMPOUND = ("+", "-", "*", "/", "%")  # before the = of an assignment
BEFORE_ITEM = ("SELECT", "ALL", "DISTINCT", ",")
ITEM_ENDS = (",", "FROM", "WHERE", "GROUP BY", "ORDER BY", "OPTION")  # of the SELECT list

# sqlglot reads the clauses of all dialects, and drops some of them. These pairs of words are none of T-SQL.
FOREIGN = {
    *(("DISTINCT", "ON"), ("NULLS", "FIRST"), ("NULLS", "LAST"), ("GROUP BY", "DISTINCT")),
    *(("*", "EXCEPT"), ("*", "EXCLUDE"), ("*", "REPLACE"), ("*", "RENAME"), ("*", "ILIKE")),
}
_FOREIGN_KINDS = {
    *((TokenType.FROM, TokenType.FROM), (TokenType.FROM, TokenType.VALUES), (TokenType.SELECT, TokenType.ALIAS)),
    *((TokenType.L_PAREN, TokenType.COMMA), (TokenType.ALIAS, TokenType.NUMBER)),
    *((TokenType.DISTINCT, TokenType.COMMA), (TokenType.NOT, TokenType.IS)),
}
# What an item of a list, or a name after AS, cannot be
_NO_ITEM = frozenset(
    {
        *(TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING),
        *(TokenType.ORDER_BY, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT),
    }
)
_BEFORE_ITEM = frozenset({TokenType.COMMA, TokenType.ALIAS, TokenType.SELECT})
_SUSPECT = frozenset({"(", ",", "AS", "FROM", "SELECT", "NOT", *(word for word, _ in FOREIGN)})

ROWS = ("ROW", "ROWS")  # after a number of rows
# The clauses behind FROM in their order, which sqlglot takes in any
CLAUSES = {
    **{"where": "WHERE", "group": "GROUP", "having": "HAVING", "order": "ORDER", "offset": "OFFSET", "for_": "FOR"},
    "options": "OPTION",
}
_PLACES = {clause: place for place, clause in enumerate(CLAUSES)}
VALUES = {"DEFAULT", "CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"}  # columns to sqlglot
# What sqlglot takes at more places than T-SQL: whether a node is at one of them, and what the error names.
MISPLACED: dict[type[exp.Expr], tuple[Callable[[Any], bool], str]] = {
    exp.Identifier: (lambda name: not name.quoted and _is_reserved(name), ""),
    exp.Alias: (lambda item: not _is_result(item), ""),
    exp.TableAlias: (lambda alias: not _is_name(alias.this) and bool(alias.this or alias.columns), ""),
    exp.Star: (lambda star: not (isinstance(star.parent, exp.Select | exp.Column) or _is_counted(star)), "*"),
    exp.Tuple: (lambda values: not (values.expressions and isinstance(values.parent, exp.Values)), ","),
    exp.Select: (lambda query: not query.expressions, "FROM"),
    exp.Subquery: (lambda query: isinstance(query.parent, exp.From | exp.Join) and not query.alias, ")"),
    exp.Lateral: (lambda applied: isinstance(applied.this, exp.Subquery) and not applied.alias, ")"),
    exp.Concat: (lambda strings: True, "'"),  # of two strings without a sign between them
    exp.Dot: (lambda call: call.args.get("this") is None, "."),
}
CONSTANTS = (exp.Literal, exp.National, exp.HexString, exp.Null, exp.Parameter, exp.SessionParameter)
_NOT_CONSTANT = ("(", "+")  # although a constant may follow
PARSED_CALLS = ("CAST", "CONVERT", "OPENJSON", "TRY_CAST", "TRY_CONVERT")  # whose arguments are no mere expressions


def _closed(parse: Callable[[SqlglotParser], exp.Expr], parser: SqlglotParser) -> exp.Expr:
    """A call up to its closing parenthesis, without which sqlglot takes one that it parses in a way of its own."""
    call = parse(parser)
    if parser._curr.token_type is not TokenType.R_PAREN:
        parser.raise_error("Expected )")
    return call


class _QueryParser(TSQLParser):
    """Leaves function calls as written; `translation.functions` says what they mean."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNC_TOKENS: ClassVar[set[TokenType]] = {*TSQLParser.FUNC_TOKENS, TokenType.UPDATE}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    # "+ (Add), + (Concatenate), - (Subtract), & (Bitwise AND), ^, |": one level, from left to right
    TERM: ClassVar[dict[Any, Any]] = {**TSQLParser.TERM, **TSQLParser.BITWISE}
    BITWISE: ClassVar[dict[Any, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: partial(_closed, TSQLParser.FUNCTION_PARSERS[name]) for name in PARSED_CALLS
    }
    OPTIONAL_ALIAS_TOKEN_CTE: ClassVar[bool] = False
    QUERY_MODIFIER_PARSERS: ClassVar[dict[Any, Any]] = {
        kind: parse for kind, parse in TSQLParser.QUERY_MODIFIER_PARSERS.items() if kind is not TokenType.LIMIT
    }
    COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {TokenType.DOT: None}

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        """Every JOIN has ON, but for CROSS JOIN; sqlglot takes one without for a CROSS JOIN."""
        is_list = self._curr.token_type is TokenType.COMMA
        join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
        if join is None or is_list or isinstance(join.this, exp.Lateral):
            return join
        has_on = join.args.get("on") is not None
        if has_on == (join.kind == "CROSS") or join.kind not in ("", "INNER", "OUTER", "CROSS"):
            self.raise_error("Expected a JOIN of T-SQL")
        return join

    def _parse_id_var(self, any_token: bool = True, tokens: Collection[TokenType] | None = None) -> exp.Expr | None:
        return _with_hash(super()._parse_id_var(any_token, tokens))  # type: ignore[no-any-return]

    def _parse_table_parts(self, *arguments: Any, **more: Any) -> exp.Table | None:
        table: Any = super()._parse_table_parts(*arguments, **more)
        if isinstance(table, exp.Table):
            _with_hash(table.this)
        return table  # type: ignore[no-any-return]

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        """A name, with or without AS; sqlglot takes a string."""
        name = self._next if self._curr.token_type is TokenType.ALIAS else self._curr
        if name.token_type in TEXT:
            self.raise_error("Expected a name")
        return super()._parse_table_alias(alias_tokens)

    def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
        """TOP and OFFSET exclude each other in a query, but not in an operand and the whole of a UNION."""
        query = super()._parse_set_operations(this)
        clauses = query.args if isinstance(query, exp.Select) else {}
        limit = clauses.get("limit")
        if limit is not None and limit.meta.get("top") and clauses.get("offset") is not None:
            raise SqlServerError(10741, line=self._prev.line)
        return query

    def _parse_offset(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """`OFFSET n { ROW | ROWS }`"""
        offset = super()._parse_offset(this)
        if offset is not this and self._prev.text.upper() not in ROWS:
            self.raise_error("Expected ROWS")
        return offset

    def _parse_limit(
        self, this: exp.Expr | None = None, top: bool = False, skip_limit_token: bool = False
    ) -> exp.Expr | None:
        """`TOP ...`, or `FETCH { FIRST | NEXT } n { ROW | ROWS } ONLY`"""
        self._is_top = top
        is_fetch = self._curr.token_type is TokenType.FETCH
        if is_fetch and self._next.token_type not in (TokenType.FIRST, TokenType.NEXT):
            self.raise_error("Expected NEXT")
        limit = super()._parse_limit(this, top, skip_limit_token)
        if is_fetch and limit is not None:
            rows, only = (token.text.upper() for token in self._tokens[self._index - 2 : self._index])
            if limit.args["count"] is None or rows not in ROWS or only != "ONLY":
                self.raise_error("Expected ROWS ONLY")
        if top and self._curr.token_type in (TokenType.ALL, TokenType.DISTINCT):
            raise incorrect_syntax(self._curr.text, self._curr.line)
        return limit

    def _parse_limit_options(self) -> exp.LimitOptions | None:
        """`PERCENT`, `WITH TIES`. Behind a TOP sqlglot takes a column called Rows or Only for the end of a FETCH."""
        if not self._is_top:
            return super()._parse_limit_options()
        percent, with_ties = self._match(TokenType.PERCENT), self._match_text_seq("WITH", "TIES")
        return self.expression(exp.LimitOptions(percent=percent, with_ties=with_ties)) if percent or with_ties else None

    def _parse_cte(self) -> exp.CTE | exp.FunctionSpecification | None:
        """`name [ ( columns ) ] AS ( query )`, without the MATERIALIZED and USING KEY of others"""
        table = super()._parse_cte()
        for clause, word in (("materialized", "MATERIALIZED"), ("key_expressions", "KEY")):
            if table is not None and table.args.get(clause) is not None:
                raise incorrect_syntax(word, self._prev.line)
        return table

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        """`CAST ( expression AS type )`"""
        value = self._parse_assignment()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        return self.build_cast(strict=strict, this=value, to=self._parse_types(), safe=safe)

    def _parse_convert(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        """`CONVERT ( type , expression [ , style ] )`"""
        target_type = self._parse_types()
        if not self._match(TokenType.COMMA):
            self.raise_error("Expected ,")
        value = self._parse_assignment()
        style = self._parse_assignment() if self._match(TokenType.COMMA) else None
        return self.expression(exp.Convert(this=target_type, expression=value, style=style, safe=safe))

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        """`value BETWEEN low AND high`; sqlglot takes one without AND."""
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("Expected AND")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_case(self) -> exp.Expr | None:
        """`CASE [ value ] { WHEN ... THEN ... } [ ... ] [ ELSE ... ] END`; sqlglot takes one without THEN."""
        case, ifs, default = None if self._curr.token_type is TokenType.WHEN else self._parse_disjunction(), [], None
        while self._match(TokenType.WHEN):
            condition = self._parse_disjunction()
            if not self._match(TokenType.THEN):
                self.raise_error("Expected THEN")
            ifs.append(self.expression(exp.If(this=condition, true=self._parse_disjunction())))
        if self._match(TokenType.ELSE):
            default = self._parse_disjunction()
        if not ifs or not self._match(TokenType.END):
            self.raise_error("Expected END")
        return self.expression(exp.Case(this=case, ifs=ifs, default=default))

    def _parse_open_json(self) -> exp.OpenJSON:
        """`OPENJSON ( text [ , path ] ) [ WITH ( column type [ path ] [ AS JSON ] [ , ... ] ) ]`; sqlglot takes no path
        that is not a constant."""
        text = self._parse_bitwise()
        path = self._parse_bitwise() if self._match(TokenType.COMMA) else None
        columns = None
        if self._match_pair(TokenType.R_PAREN, TokenType.WITH):
            self._match_l_paren()
            columns = self._parse_csv(self._parse_open_json_column)
        return self.expression(exp.OpenJSON(this=text, path=path, expressions=columns))

    def _parse_open_json_column(self) -> exp.OpenJSONColumnDef:
        name, kind = self._parse_field(any_token=True), self._parse_types()
        path, as_json = self._parse_string(), self._match_pair(TokenType.ALIAS, TokenType.JSON)
        return self.expression(exp.OpenJSONColumnDef(this=name, kind=kind, path=path, as_json=as_json))

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        """An operand: in T-SQL no type stands before one, as in `date '2020-01-01'`."""
        atom = self._parse_atom()
        return atom if atom is not None else self._parse_column()

    def _parse_types(
        self,
        check_func: bool = False,
        schema: bool = False,
        allow_identifiers: bool = True,
        with_collation: bool = False,
    ) -> exp.Expr | None:
        """Keep the text of the type: sqlglot knows the types of all dialects, and `Tokens.data_type` those of T-SQL."""
        start = self._curr.start
        parsed_type = super()._parse_types(check_func, schema, allow_identifiers, with_collation)
        if isinstance(parsed_type, exp.DataType):
            parsed_type.meta["text"] = self.sql[start : self._prev.end + 1]
        return parsed_type


@dataclass(frozen=True, slots=True)
class Expression:
    """A scalar expression or a condition."""

    tree: exp.Expr
    line: int


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT, with its WITH and its UNION, EXCEPT, INTERSECT."""

    tree: exp.Query
    line: int


def parse_expression(tokens: Tokens, expression_tokens: list[Token]) -> Expression:
    """Parse an expression's tokens."""
    tree = _parse(lambda parser: parser._parse_disjunction(), expression_tokens, tokens)
    return Expression(tree, expression_tokens[0].line)


def parse_query(tokens: Tokens, query_tokens: list[Token]) -> Query:
    """Parse a query's tokens."""
    tree = _parse(lambda parser: parser._parse_statement(), query_tokens, tokens)
    if not isinstance(tree, exp.Query):
        tokens.fail(query_tokens[0])
    return Query(tree, query_tokens[0].line)


def _with_hash(identifier: Any) -> Any:
    """Put the # back before the name of a temporary table."""
    if isinstance(identifier, exp.Identifier):
        for mark, argument in (("#", "temporary"), ("##", "global_")):
            if identifier.args.get(argument):
                identifier.set("this", mark + identifier.name)
                identifier.set(argument, None)
    return identifier


def _simply_named(query_tokens: list[Token]) -> list[Token]:
    """`SELECT 'name' = e` as `SELECT [name] = e`, and `SELECT 'e' 'name'`, of which sqlglot makes one string."""
    named_tokens = list(query_tokens)
    for at, (before, token) in enumerate(pairwise(query_tokens), 1):
        if token.token_type is not TokenType.STRING:
            continue
        is_before_value = word_of(before) in BEFORE_ITEM and [*map(word_of, query_tokens[at + 1 : at + 2])] == ["="]
        if before.token_type in TEXT or is_before_value:
            named_tokens[at] = Token(TokenType.IDENTIFIER, token.text, token.line, token.col, token.start, token.end)
    return named_tokens


def _simply_assigned(query_tokens: list[Token]) -> list[Token]:
    """`SELECT @a += e` as `SELECT @a = @a + (e)`."""
    words = [*map(word_of, query_tokens)]
    for at in range(len(words) - 2, 2, -1):
        if words[at + 1] == "=" and words[at] in COMPOUND and words[at - 2] == "@":
            end = depth = at + 2
            while end < len(words) and (depth > at + 2 or words[end] not in ITEM_ENDS):
                depth += (words[end] == "(") - (words[end] == ")")
                end += 1
            opening, closing = parentheses(query_tokens[at])
            value = [opening, *query_tokens[at + 2 : end], closing]
            query_tokens = [
                *query_tokens[:at],
                query_tokens[at + 1],
                *query_tokens[at - 2 : at + 1],
                *value,
                *query_tokens[end:],
            ]
            words = [*map(word_of, query_tokens)]
    return query_tokens


def parse_whole_query(text: str) -> Query:
    """Parse a text that is one query."""
    tokens = Tokens(text)
    return parse_query(tokens, _simply_assigned(_simply_named(tokens.all)))


def parse_from(tokens: Tokens, part: list[Token], *, before: bool = False) -> Query:
    """Parse `FROM ... WHERE ...` of an UPDATE or DELETE as the query `SELECT * FROM ... WHERE ...`, or the WITH that
    stands before it as `WITH ... SELECT *`."""
    first = part[0]
    star = Token(TokenType.STAR, "*", first.line, first.col, first.start, first.end)
    query = parse_query(tokens, [*part, select_token(first), star] if before else [select_token(first), star, *part])
    if isinstance(query.tree, exp.SetOperation):
        raise incorrect_syntax(type(query.tree).__name__.upper(), first.line)
    for clause, word in CLAUSES.items():
        if clause not in ("where", "options") and query.tree.args.get(clause):
            raise incorrect_syntax(word, first.line)
    return query


def _parse(method: Callable[[SqlglotParser], exp.Expr | None], part: list[Token], tokens: Tokens) -> exp.Expr:
    parser = _QueryParser(dialect=_DIALECT, error_level=ErrorLevel.RAISE)
    line = part[0].line
    _refuse_foreign(tokens, part)
    try:
        trees = parser._parse(method, part, tokens.text)
    except ParseError:
        tokens.fail(parser._curr)
    except RecursionError as error:
        raise SqlServerError(191, line=line) from error
    except (SqlglotError, AttributeError, TypeError, ValueError, IndexError, KeyError):
        trees = []
    if len(trees) != 1 or trees[0] is None:
        tokens.fail()
    for node in trees[0].walk():
        if isinstance(node, exp.Command):
            raise UnsupportedSyntax(part[0].text.upper(), line)
        if isinstance(node, exp.Select) and (word := _misplaced_clause(node)):
            raise incorrect_syntax(word, line)
        is_misplaced, near = MISPLACED.get(type(node), (None, ""))
        if is_misplaced is not None and is_misplaced(node):
            raise incorrect_syntax(near or node.alias or node.name, line)
    return trees[0]


def _misplaced_clause(query: exp.Select) -> str:
    """The word of the first clause that stands behind one that should follow it; "" without any. sqlglot keeps the
    clauses in the order in which it read them."""
    written = [clause for clause, value in query.args.items() if value and clause in CLAUSES]
    return next((CLAUSES[after] for before, after in pairwise(written) if _PLACES[after] < _PLACES[before]), "")


def _is_reserved(name: exp.Identifier) -> bool:
    word = name.name.upper()
    return word in RESERVED and not (word in VALUES and isinstance(name.parent, exp.Column))


def _is_name(node: object) -> bool:
    return isinstance(node, exp.Identifier)


def _is_result(item: exp.Alias) -> bool:
    """Whether it is a result with a name; `@a = b c` is none."""
    return isinstance(item.parent, exp.Select) and _is_name(item.args["alias"]) and not isinstance(item.this, exp.EQ)


def _is_counted(star: exp.Star) -> bool:
    return isinstance(star.parent, exp.Anonymous) and len(star.parent.expressions) == 1


def parse_constant(parser: Parser, *ends: str) -> Expression:
    """Parse a constant, with or without a sign, or a variable."""
    tokens = parser.tokens
    start, first = tokens.position, tokens.word()
    expression = parser.expression(*ends)
    value = expression.tree.this if isinstance(expression.tree, exp.Neg) else expression.tree
    if not isinstance(value, CONSTANTS) or first in _NOT_CONSTANT:
        tokens.position = start
        tokens.accept("-")
        if tokens.at_variable():
            tokens.variable()
        elif tokens.word() not in _NOT_CONSTANT:
            tokens.advance()
        tokens.fail()
    return expression


def parse_literal(parser: Parser, is_text: bool = False) -> Expression:
    """Parse an int or a text, or a variable."""
    tokens = parser.tokens
    types = TEXT if is_text else (TokenType.NUMBER,)
    start = tokens.position
    expression = parse_constant(parser, ",")
    literal = tokens.all[tokens.position - 1]
    if not isinstance(expression.tree, exp.Parameter) and literal.token_type not in types:
        tokens.fail(literal)
    if literal.token_type is TokenType.NUMBER and not (literal.text.isdecimal() and int(literal.text) < 2**31):
        written = "".join(token.text for token in tokens.all[start : tokens.position])
        raise SqlServerError(1080, written, line=literal.line)
    return expression


def _refuse_foreign(tokens: Tokens, part: list[Token]) -> None:
    """Raise an error for what sqlglot takes and T-SQL does not: 1038 for an empty name, else 102."""
    if unnamed := [token for token in part if token.token_type is TokenType.IDENTIFIER and not token.text]:
        raise SqlServerError(1038, line=unnamed[0].line)
    before = ""
    for token, after in pairwise(part):
        word = word_of(token)
        if word in _SUSPECT and _is_foreign(before, word, token, after):
            tokens.fail(after)
        before = word
    if part[-1].token_type in _BEFORE_ITEM:
        tokens.fail()


def _is_foreign(before: str, word: str, token: Token, after: Token) -> bool:
    kind, following = token.token_type, after.token_type
    return (
        (kind in _BEFORE_ITEM and following in _NO_ITEM)
        or (kind, following) in _FOREIGN_KINDS
        or (kind is TokenType.NOT and following is TokenType.NULL and before != "IS")
        or (word, word_of(after)) in FOREIGN
    )


def parentheses(token: Token) -> tuple[Token, Token]:
    place = (token.line, token.col, token.start, token.end)
    return Token(TokenType.L_PAREN, "(", *place), Token(TokenType.R_PAREN, ")", *place)


def select_token(token: Token) -> Token:
    return Token(TokenType.SELECT, "SELECT", token.line, token.col, token.start, token.end)


def string_token(word: Token) -> Token:
    return Token(TokenType.STRING, word.text, word.line, word.col, word.start, word.end)
