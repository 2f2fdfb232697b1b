"""Scalar expressions and conditions: adds a function to `RENDERERS` for each kind of node."""

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import isfinite
from typing import Any

from sqlglot import exp

from harness.embedded import utf16
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import FLOAT, INT, MAX, SqlType
from harness.embedded.tsql.storage import collation
from harness.embedded.tsql.storage.conversion import UNICODE, family, in_code_page
from harness.embedded.tsql.text.tokens import DIGITS_MAX, Tokens
from harness.embedded.tsql.translation import arithmetic, selects, user_functions, xml_methods
from harness.embedded.tsql.translation.fragments import (
    AGGREGATES,
    CONDITION,
    NOT_CONSTANT,
    NVARCHAR_MAX,
    Fragment,
    Names,
    is_int,
    literal,
)
from harness.embedded.tsql.translation.functions import FUNCTIONS, WITHOUT_PARENTHESES, call
from harness.embedded.tsql.translation.functions.system_functions import global_variable
from harness.embedded.tsql.translation.functions.text_functions import search_work
from harness.embedded.tsql.translation.renderer import (
    RENDERERS,
    Render,
    Renderer,
    case,
    check_order,
    comparable,
    grouped,
    guid_order,
    is_by_code,
)

# -- constants and names -----------------------------------------------------------------------------------------------


def _literal(renderer: Renderer, node: exp.Literal, names: Names) -> Fragment:
    if node.is_string:
        value = node.this if node.this.isascii() else in_code_page(node.this)
        return constant(renderer, value, SqlType("varchar", length=max(1, len(value))))
    text = str(node.this)
    try:
        if "e" in text.lower():
            return constant(renderer, _float(text if text[-1] not in "eE" else text + "0"), FLOAT)
        number = Decimal(text)
    except (ValueError, InvalidOperation):
        raise SqlServerError(102, text) from None
    digits = number.as_tuple()
    scale = -int(digits.exponent)
    if max(len(digits.digits), scale) > DIGITS_MAX:
        raise SqlServerError(1007, text)
    if "." in text:
        type_ = SqlType("decimal", precision=max(len(digits.digits), scale, 1), scale=scale)
        return constant(renderer, number, type_)
    value = int(text)
    if is_int(value):
        return constant(renderer, value, INT)
    return constant(renderer, number, SqlType("decimal", precision=len(digits.digits)))


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise SqlServerError(168, text)
    return value


def _national(renderer: Renderer, node: exp.National, names: Names) -> Fragment:
    text = str(node.this)
    return constant(renderer, text, SqlType("nvarchar", length=max(1, utf16.length(text))))


def _hexadecimal(renderer: Renderer, node: exp.HexString, names: Names) -> Fragment:
    digits = str(node.this)
    try:
        value = bytes.fromhex("0" * (len(digits) % 2) + digits)
    except ValueError:
        raise SqlServerError(102, "0x" + digits) from None
    return constant(renderer, value, SqlType("varbinary", length=max(1, len(value))))


def _null(renderer: Renderer, node: exp.Null, names: Names) -> Fragment:
    return Fragment("NULL", None, None)


def constant(renderer: Renderer, value: Any, type_: SqlType) -> Fragment:
    return Fragment(renderer.literal(value), type_, value, nullable=False)


def _column(renderer: Renderer, node: exp.Column, names: Names) -> Fragment:
    if not isinstance(node.this, exp.Identifier):
        raise UnsupportedSyntax(f"the expression {node.sql('tsql')}", renderer.line)
    if not node.table and not node.this.quoted and node.name.upper() in WITHOUT_PARENTHESES:
        return call(renderer, node.name, [], names)
    return names.column(node.table, node.name)


def _parameter(renderer: Renderer, node: exp.Parameter, names: Names) -> Fragment:
    if isinstance(node.this, exp.Parameter):
        return global_variable(renderer, node.this.name)
    return renderer.variable("@" + node.name.lower())


def _alias(renderer: Renderer, node: exp.Alias, names: Names) -> Fragment:
    return renderer.expression(node.this, names)


def _parenthesised(renderer: Renderer, node: exp.Paren, names: Names) -> Fragment:
    inner = renderer.expression(node.this, names)
    return inner._replace(sql=f"({inner.sql})")


def _sides(renderer: Renderer, node: exp.Binary, names: Names) -> tuple[Fragment, Fragment]:
    return renderer.value(node.this, names), renderer.value(node.expression, names)


# -- conditions --------------------------------------------------------------------------------------------------------


def _comparison(sign: str) -> Render:
    def render(renderer: Renderer, node: exp.Binary, names: Names) -> Fragment:
        left, right = _sides(renderer, node, names)
        if sign not in ("=", "<>"):
            check_order(renderer, left, right)
        if sign in "<=>=" and sign != "=" and "uniqueidentifier" in (family(left.type), family(right.type)):
            left, right = left._replace(sql=guid_order(left.sql)), right._replace(sql=guid_order(right.sql))
        a, b = comparable(renderer, left, right)
        return Fragment(f"({a} {sign} {b})", CONDITION)

    return render


def _is(renderer: Renderer, node: exp.Is, names: Names) -> Fragment:
    if not isinstance(node.expression, exp.Null):
        raise UnsupportedSyntax("IS with anything but NULL", renderer.line)
    return Fragment(f"({renderer.value(node.this, names).sql} IS NULL)", CONDITION)


def _connective(word: str) -> Render:
    def render(renderer: Renderer, node: exp.Connector, names: Names) -> Fragment:
        operands = [renderer.condition(operand, names) for operand in _operands(node)]
        return Fragment(_balanced(operands, word), CONDITION)

    return render


def _operands(node: exp.Connector) -> list[exp.Expr]:
    """The operands of one connective in a row, which is nested to the left."""
    operands: list[exp.Expr] = []
    tree: exp.Expr = node
    while type(tree) is type(node):
        operands.append(tree.expression)
        tree = tree.this
    return [tree, *reversed(operands)]


def _balanced(operands: list[str], word: str) -> str:
    """Join conditions as a balanced tree, because SQLite's trees have at most 1,000 levels."""
    while len(operands) > 1:
        pairs = [operands[at : at + 2] for at in range(0, len(operands), 2)]
        operands = [f"({f' {word} '.join(pair)})" if len(pair) == 2 else pair[0] for pair in pairs]
    return operands[0]


def _not(renderer: Renderer, node: exp.Not, names: Names) -> Fragment:
    return Fragment(f"(NOT {renderer.condition(node.this, names)})", CONDITION)


def _between(renderer: Renderer, node: exp.Between, names: Names) -> Fragment:
    value = renderer.value(node.this, names)
    low, high = (renderer.value(node.args[bound], names) for bound in ("low", "high"))
    check_order(renderer, value, low, high)
    a, b = comparable(renderer, value, low)
    c, d = comparable(renderer, value, high)
    return Fragment(f"({a} >= {b} AND {c} <= {d})", CONDITION)


def _in(renderer: Renderer, node: exp.In, names: Names) -> Fragment:
    value = renderer.value(node.this, names)
    query = node.args.get("query")
    if query is not None:
        inner = query.this if isinstance(query, exp.Subquery) else query
        lefts: list[str] = []

        def convert(number: int, item: Fragment) -> Fragment:
            if family(item.type) == "xml":
                raise SqlServerError(305)
            left, right = comparable(renderer, value, item)
            lefts.append(_like_right(left, right))
            return item._replace(sql=right, constant=NOT_CONSTANT)

        sql, columns = selects.query(renderer, inner, names, convert)
        if len(columns) != 1:
            raise SqlServerError(116)
        if len(set(lefts)) > 1:
            raise UnsupportedSyntax("IN with a UNION of several types", renderer.line)
        return Fragment(f"({lefts[0]} IN ({sql}))", CONDITION)
    pairs = [comparable(renderer, value, renderer.value(item, names)) for item in node.expressions]
    if len({left for left, _ in pairs}) == 1:
        lefts = list({_like_right(*pair) for pair in pairs})
        if len(lefts) == 1:
            items = ", ".join(_COLLATE.sub("", right) for _, right in pairs)
            return Fragment(f"({lefts[0]} IN ({items}))", CONDITION)
    return Fragment("(" + " OR ".join(f"{a} = {b}" for a, b in pairs) + ")", CONDITION)


_COLLATE = re.compile(rf" COLLATE (?:NOCASE|{collation.BY_CODE}|{collation.NAME}|{collation.WITHOUT_ACCENTS})\Z")


def _like_right(left: str, right: str) -> str:
    """The left side of IN, whose collation SQLite uses."""
    clause = _COLLATE.search(right)
    return left + clause[0] if clause is not None else left


def _exists(renderer: Renderer, node: exp.Exists, names: Names) -> Fragment:
    inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    sql, _ = selects.query(renderer, inner, names)
    return Fragment(f"EXISTS ({sql})", CONDITION)


class _Pattern:
    """A pattern of LIKE as the pieces between its %: each matches a fixed number of characters. So the first place at
    which a piece matches is as good as any later one, and no search goes back."""

    def __init__(self, pieces: list[list[str]], flags: int) -> None:
        first, *middle, last = [re.compile("".join(piece), flags | re.DOTALL) for piece in pieces]
        self._first, self._middle, self._last = first, middle, last
        self._last_length = len(pieces[-1])

    def matches(self, text: str) -> bool:
        match = self._first.match(text)
        end = len(text) - self._last_length
        for piece in self._middle:
            if match is None:
                return False
            match = piece.search(text, match.end(), max(match.end(), end))
        return match is not None and match.end() <= end and self._last.match(text, end) is not None


@lru_cache(maxsize=256)
def compiled_pattern(pattern: str, escape: str, flags: int) -> Callable[[str], object]:
    """What says whether a text matches a pattern of LIKE: % is any text, _ any character, [a-f] and [^a-f] are sets."""
    pieces: list[list[str]] = [[]]
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if escape and character == escape:
            place += 1
            if place == len(pattern):  # "if there is no character after an escape character ... LIKE returns FALSE"
                return _nothing
            pieces[-1].append(re.escape(pattern[place]))
        elif character == "[" and (character_set := _set(pattern, place, escape)) is not None:
            inside, place = character_set
            pieces[-1].append(inside)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
        place += 1
    try:
        if len(pieces) == 1:
            return re.compile("".join(pieces[0]), flags | re.DOTALL).fullmatch
        return _Pattern(pieces, flags).matches
    except re.error:  # a range like [z-a], in which nothing lies
        return _nothing


def _nothing(text: str) -> bool:
    return False


def _set(pattern: str, opening: int, escape: str) -> tuple[str, int] | None:
    """The set of characters that begins there, as a regular expression, and the place of its end. "Escape characters
    can be used within the double bracket characters ([ ])." """
    place = opening + 1
    is_negative = pattern[place : place + 1] == "^"
    place += is_negative
    parts: list[str] = []
    while place < len(pattern):
        character = pattern[place]
        if character == "]" and parts:
            return f"[{'^' if is_negative else ''}{''.join(parts)}]", place
        if escape and character == escape and place + 1 < len(pattern):
            place += 1
            parts.append(re.escape(pattern[place]))
        else:
            is_range = character == "-" and parts and pattern[place + 1 : place + 2] not in ("", "]")
            parts.append("-" if is_range else re.escape(character))
        place += 1
    return None


def _matches(value: Any, pattern: Any, escape: str, flags: int) -> int | None:
    if value is None or pattern is None:
        return None
    return int(bool(compiled_pattern(str(pattern), escape, flags)(str(value))))


def _like(renderer: Renderer, node: exp.Like, names: Names, escape: str = "") -> Fragment:
    value, pattern = _sides(renderer, node, names)
    value = renderer.cast(value, NVARCHAR_MAX) if family(value.type) != "text" else value
    is_binary = is_by_code(renderer, value, pattern)
    is_short = value.type is not None and value.type.length != MAX  # else SQLite may take long and cannot be stopped
    constant = pattern.constant
    if isinstance(constant, str) and constant.isascii() and "[" not in constant and not is_binary and is_short:
        suffix = f" ESCAPE {literal(escape)}" if escape else ""
        before, after = "(", f" LIKE {pattern.sql}{suffix})"
    else:
        renderer.function("like_pattern", 4, _matches, work_ns=search_work)
        flags = 0 if is_binary else re.IGNORECASE
        before, after = "like_pattern(", f", {pattern.sql}, {literal(escape)}, {int(flags)})"
    sql = before + value.sql + after
    if not {value.type.name if value.type else "", pattern.type.name if pattern.type else ""} & UNICODE:
        # "Trailing blanks, in the expression to which the pattern is matched, are ignored": not in Unicode
        sql = f"({sql} OR {before}rtrim({value.sql}){after})"
    # sqlglot parses NOT LIKE as a negated LIKE, but NOT IN and NOT BETWEEN as a NOT around them.
    return Fragment(f"(NOT {sql})" if node.args.get("negate") else sql, CONDITION)


def _escape(renderer: Renderer, node: exp.Escape, names: Names) -> Fragment:
    if not isinstance(node.this, exp.Like) or not node.expression.is_string:
        raise UnsupportedSyntax("ESCAPE", renderer.line)
    if len(str(node.expression.this)) != 1:
        raise SqlServerError(506, node.expression.this)
    return _like(renderer, node.this, names, str(node.expression.this))


# -- CASE, CAST, functions, subqueries ---------------------------------------------------------------------------------


def _case(renderer: Renderer, node: exp.Case, names: Names) -> Fragment:
    branches: list[tuple[str, Fragment]] = []
    for branch in node.args["ifs"]:
        if node.this is None:
            test = renderer.condition(branch.this, names)
        else:
            a, b = comparable(renderer, renderer.value(node.this, names), renderer.value(branch.this, names))
            test = f"{a} = {b}"
        branches.append((test, renderer.value(branch.args["true"], names)))
    default = node.args.get("default")
    otherwise = renderer.value(default, names) if default is not None else Fragment("NULL", None, None)
    return case(renderer, branches, otherwise)


def _cast(renderer: Renderer, node: exp.Cast, names: Names) -> Fragment:
    value, target = renderer.value(node.this, names), sql_type(node.to, renderer.line)
    return renderer.cast(value, target, safe=isinstance(node, exp.TryCast))


def _convert(renderer: Renderer, node: exp.Convert, names: Names) -> Fragment:
    style = node.args.get("style")
    if style is not None and not (isinstance(style, exp.Literal) and not style.is_string):
        raise UnsupportedSyntax("CONVERT with a style that is not a constant", renderer.line)
    value = renderer.value(node.expression, names)
    safe = bool(node.args.get("safe"))
    number = int(style.this) if style else 0
    if style and number == 0 and family(value.type) in ("date", "datetimeoffset"):
        number = 100  # the same, but for the types whose CAST has another
    return renderer.cast(value, sql_type(node.this, renderer.line), style=number, safe=safe)


def sql_type(node: exp.DataType, line: int) -> SqlType:
    """The type that a CAST names."""
    tokens = Tokens(node.meta["text"])
    for token in tokens.all:
        token.line = line
    type_ = tokens.data_type()
    if not tokens.at_end:
        tokens.fail()
    if type_.length == 1 and "(" not in node.meta["text"]:
        return type_._replace(length=30)  # "when n isn't specified with the CAST function, the default length is 30"
    return type_


def function_name(node: exp.Anonymous) -> str:
    """The name of a function in capitals, with its schema if it has one: `SYS.FN_PHYSLOCFORMATTER`."""
    schema = f"{node.parent.this.name}." if isinstance(node.parent, exp.Dot) else ""
    return f"{schema}{node.this}".upper()


def _anonymous(renderer: Renderer, node: exp.Anonymous, names: Names) -> Fragment:
    return call(renderer, function_name(node), node.expressions, names)


def _dot(renderer: Renderer, node: exp.Dot, names: Names) -> Fragment:
    if not isinstance(node.expression, exp.Anonymous):
        raise UnsupportedSyntax(f"the expression {node.sql('tsql')[:60]}", renderer.line)
    if xml_methods.is_method(node.expression):
        return xml_methods.call(renderer, node, names)
    if function_name(node.expression) in FUNCTIONS:
        return _anonymous(renderer, node.expression, names)
    parts = tuple(part.name for part in node.flatten())
    program = renderer.environment.user_function(parts, of_one_value=True)
    if program is None:
        raise SqlServerError(4121, ".".join(parts[:-1]), ".".join(parts))
    return user_functions.value(renderer, program, node.expression.expressions, names)


def _window(renderer: Renderer, node: exp.Window, names: Names) -> Fragment:
    inner = node.this
    if not isinstance(inner, exp.Anonymous):
        raise UnsupportedSyntax(f"OVER after {inner.sql('tsql')}", renderer.line)
    parts = []
    if node.args.get("partition_by"):
        keys = ", ".join(grouped(renderer.value(key, names)) for key in node.args["partition_by"])
        parts.append(f"PARTITION BY {keys}")
    order = node.args.get("order")
    if order is not None:
        parts.append(selects.order_by(renderer, order, names, {}))
    elif inner.name.upper() not in AGGREGATES:
        raise SqlServerError(4112, inner.name)
    if (spec := node.args.get("spec")) is not None:
        _check_frame(spec, inner.name, has_order=order is not None)
        parts.append(spec.sql("sqlite"))
    return call(renderer, str(inner.this), inner.expressions, names, over=f" OVER ({' '.join(parts)})")


def _check_frame(spec: exp.WindowSpec, function: str, *, has_order: bool) -> None:
    if function.upper() not in AGGREGATES:
        raise SqlServerError(10752, function.lower())
    if not has_order:
        raise SqlServerError(10756)
    if spec.args["kind"] == "GROUPS" or spec.args.get("exclude"):
        raise SqlServerError(102, "EXCLUDE" if spec.args.get("exclude") else "GROUPS")
    if spec.args["kind"] == "RANGE" and any(isinstance(spec.args.get(end), exp.Expr) for end in ("start", "end")):
        raise SqlServerError(4194)


def _subquery(renderer: Renderer, node: exp.Subquery, names: Names) -> Fragment:
    sql, columns = selects.query(renderer, node.this, names)
    if len(columns) != 1:
        raise SqlServerError(116)
    if not selects.has_one_row(node.this):
        renderer.function("refuse_second_row", 0, _refuse_second_row, constant=False)
        single_value = "CASE WHEN count(*) > 1 THEN refuse_second_row() ELSE max(value) END"
        sql = f"WITH _rows (value) AS ({sql}) SELECT {single_value} FROM (SELECT value FROM _rows LIMIT 2)"
    return Fragment(f"({sql})", columns[0].type)


def _refuse_second_row(frame: Any) -> None:
    raise SqlServerError(512)


COLLATIONS = re.compile(r"\w+_(BIN2?|C[IS]_A[IS](_KS)?(_WS)?(_VSS)?(_SC)?(_UTF8)?)|DATABASE_DEFAULT")


def _collate(renderer: Renderer, node: exp.Collate, names: Names) -> Fragment:
    inner = renderer.value(node.this, names)
    name = node.expression.name.upper()
    if not COLLATIONS.fullmatch(name):
        raise SqlServerError(448, node.expression.name)
    if "_CS_AI" in name:
        raise UnsupportedSyntax(f"the collation {node.expression.name}, which has regard to case alone", renderer.line)
    kind = "BIN" if name.endswith(("_BIN", "_BIN2")) else "CS" if "_CS" in name else "AI" if "_AI" in name else ""
    return inner._replace(collation=kind, constant=NOT_CONSTANT)


RENDERERS.update((operation, arithmetic.chain) for operation in arithmetic.SIGNS)
RENDERERS.update(
    {
        exp.Literal: _literal,
        exp.National: _national,
        exp.HexString: _hexadecimal,
        exp.Null: _null,
        exp.Column: _column,
        exp.Parameter: _parameter,
        exp.Alias: _alias,
        exp.Paren: _parenthesised,
        exp.Neg: arithmetic.negative,
        exp.BitwiseNot: arithmetic.bitwise_not,
        exp.EQ: _comparison("="),
        exp.NEQ: _comparison("<>"),
        exp.GT: _comparison(">"),
        exp.GTE: _comparison(">="),
        exp.LT: _comparison("<"),
        exp.LTE: _comparison("<="),
        exp.Is: _is,
        exp.And: _connective("AND"),
        exp.Or: _connective("OR"),
        exp.Not: _not,
        exp.Between: _between,
        exp.In: _in,
        exp.Exists: _exists,
        exp.Like: _like,
        exp.Escape: _escape,
        exp.Case: _case,
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.Convert: _convert,
        exp.Anonymous: _anonymous,
        exp.Dot: _dot,
        exp.Window: _window,
        exp.Subquery: _subquery,
        exp.Collate: _collate,
    }
)
