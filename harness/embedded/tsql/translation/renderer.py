"""The renderer of one statement: its parameters, the functions it uses, conversions between types, and comparisons."""

import re
from collections.abc import Callable, Hashable
from contextlib import suppress
from decimal import Decimal
from typing import Any

from sqlglot import exp

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import MAX, SqlType
from harness.embedded.tsql.storage import collation
from harness.embedded.tsql.storage.conversion import (
    INTEGER_RANGES,
    Place,
    argument_converter,
    check_assignable,
    converter,
    family,
    fits,
    naming,
    stored_decimal,
)
from harness.embedded.tsql.storage.moments import DATETIMES
from harness.embedded.tsql.storage.offsets import UTC_WIDTH
from harness.embedded.tsql.storage.sqlite import WorkNs, work_of
from harness.embedded.tsql.translation.fragments import (
    CONDITION,
    NOT_CONSTANT,
    PRECEDENCE,
    XML_NODE,
    Environment,
    Fragment,
    Getter,
    Names,
    Source,
    collation_of,
    common_type,
    is_null,
    literal,
    part_of_binary,
)

Render = Callable[["Renderer", Any, Names], Fragment]
RENDERERS: dict[type, Render] = {}  # by the type of the node; `expression_renderers` fills it
# Characters or bytes of a constant in SQLite's text. A longer one is a parameter: SQLite's prepared statements stay.
LITERAL_MAX = 1000
FLOAT_MAX = 15  # characters of a number with a fraction: SQLite may read a longer one as its neighbour
_COMPARING = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Ordered, exp.Group)
# What may have a part of type xml, which has neither an order nor operators.
_TAKE_XML = (
    exp.Dot,
    exp.Table,
    exp.Cast,
    exp.TryCast,
    exp.Convert,
    exp.Is,
    exp.Paren,
    exp.Alias,
    exp.Select,
    exp.Subquery,
)
XML_NS = 600  # for each character of a value that becomes xml
CONVERSION_NS = 20  # for each of another long value
FIXED_LENGTH = ("char", "nchar", "binary")
_PARAMETER = re.compile(r"""'[^']*'|"[^"]*"|\?([0-9]+)""")  # and text and names, in which there is none


class Renderer:
    """Renders the nodes of one statement. Parameters are numbered ?1, ?2, ... in the whole statement."""

    def __init__(self, environment: Environment, line: int) -> None:
        self.environment = environment
        self.line = line
        self.parameters: list[Getter] = []
        self.common_tables: list[dict[str, Source]] = []
        self.xml_namespaces: tuple[tuple[str, str], ...] = ()  # of WITH XMLNAMESPACES, by prefix
        self.given_source: Source | None = None  # the rows of a RECEIVE, whose column list has no FROM
        self.arguments: list[dict[str, Fragment]] = []  # of functions whose query is rendered, the innermost last
        self.holders = 0  # tables that hold the arguments of a function
        self._numbers: dict[Hashable, int] = {}

    # -- parameters and functions -----------------------------------------------------------------------------------

    def variable(self, name: str) -> Fragment:
        if self.arguments:
            return self.arguments[-1][name]
        type_ = self.environment.variable_type(name)
        if family(type_) == "decimal":
            return Fragment(self.parameter(name, lambda frame: _as_float(frame.variables[name])), type_)
        return Fragment(self.parameter(name, lambda frame: frame.variables[name]), type_)

    def parameter(self, key: Hashable, getter: Getter) -> str:
        """A parameter of the statement. The same key always means the same parameter."""
        if key not in self._numbers:
            self.parameters.append(getter)
            self._numbers[key] = len(self.parameters)
        return f"?{self._numbers[key]}"

    def literal(self, value: Any) -> str:
        """The SQL of a constant."""
        is_long = isinstance(value, str | bytes) and len(value) > LITERAL_MAX
        if is_long or (isinstance(value, float) and len(repr(value)) > FLOAT_MAX):
            return self.parameter((value,), lambda frame: value)
        return literal(value)

    def getters(self, sql: str) -> list[Getter]:
        """The getters of the parameters up to the last one in the text; SQLite refuses more. A conversion of a constant
        may have taken the place of the constant."""
        last = max((int(match[1]) for match in _PARAMETER.finditer(sql) if match[1]), default=0)
        return self.parameters[:last]

    @property
    def function(self) -> Callable[..., None]:
        """`Sqlite.function`; asked for late, because an expression is also checked without a session."""
        return self.environment.sqlite.function

    # -- expressions ------------------------------------------------------------------------------------------------

    def expression(self, node: exp.Expr, names: Names) -> Fragment:
        render = RENDERERS.get(type(node))
        if node is None:  # sqlglot takes CONVERT(int) for a complete call
            raise SqlServerError(102, ")")
        if render is None:
            raise UnsupportedSyntax(f"the expression {node.sql('tsql')[:60]}", self.line)
        fragment = render(self, node, names)
        if fragment.type == XML_NODE and not isinstance(node.parent, exp.Dot | exp.Is):
            raise SqlServerError(493, node.name)
        type_name = fragment.type.name if fragment.type is not None else ""
        if type_name in ("xml", "sql_variant") and node.parent and not _takes_xml(node):
            if type_name == "xml" and isinstance(node.parent, _COMPARING):
                raise SqlServerError(305)
            place = node.parent.sql("tsql")[:60]
            raise UnsupportedSyntax(f"{type_name} in {place}: CAST it to nvarchar(max)", self.line)
        return fragment

    def condition(self, node: exp.Expr, names: Names) -> str:
        fragment = self.expression(node, names)
        if fragment.type is not CONDITION:
            raise SqlServerError(4145, node.sql("tsql")[:60])
        return fragment.sql

    def value(self, node: exp.Expr, names: Names) -> Fragment:
        """Render an expression that must not be a condition."""
        fragment = self.expression(node, names)
        if fragment.type is CONDITION:
            raise SqlServerError(102, node.sql("tsql")[:60])
        return fragment

    def cast(
        self, value: Fragment, target: SqlType, *, style: int = 0, safe: bool = False, destination: Place | None = None
    ) -> Fragment:
        """Convert a value: a constant now, others by an expression of SQLite if there is one, or a Python function. One
        that goes into a column is not cut."""
        if value.constant is not NOT_CONSTANT and not safe:
            convert = converter(value.type, target, strict=destination is not None, style=style)
            with suppress(SqlServerError):  # which belongs to the run: CASE may not come to this value
                converted = convert(value.constant)
                return Fragment(self.literal(converted), target, converted, nullable=value.nullable)
        if fits(value.type, target) and not style:
            return value._replace(type=target)
        sql = None if destination or style or safe else _native_cast(value, target)
        if sql is None:
            sql = self._converting(value, target, style, safe=safe, destination=destination)
        return Fragment(sql, target, nullable=value.nullable or safe)

    def _converting(
        self, value: Fragment, target: SqlType, style: int, *, safe: bool, destination: Place | None
    ) -> str:
        convert = converter(value.type, target, strict=destination is not None, style=style)
        if destination is not None and self.environment.names_places:
            convert = naming(convert, *destination)
        if family(target) == "decimal":
            exact = convert

            def convert(value: Any) -> Any:
                return _as_float(exact(value))

        function = _never_failing(convert) if safe else convert
        kind = "try" if safe else "to"
        source = _type_key(value.type) if value.type else "unknown"
        column = f"_into_{hash(destination) & 0xFFFFFFFFFFFF:x}" if destination else ""
        name = f"{kind}_{_type_key(target)}_from_{source}_{style}{column}"
        self.function(name, 1, function, work_ns=conversion_work(value.type, target))
        return f"{name}({value.sql})"

    def to_family(self, value: Fragment, target: SqlType | None) -> Fragment:
        """Convert a value to the family of the target type, of any length; a type of fixed length has its own."""
        if target is None or value.type is None or value.type == target:
            return value
        if target.name in FIXED_LENGTH:
            return self.cast(value, target)
        if family(value.type) == family(target) != "date":
            return value
        if "uniqueidentifier" in (value.type.name, target.name) and family(value.type) not in ("text", "binary"):
            raise SqlServerError(206, value.type.name, target.name)
        if family(target) in ("float", "decimal") and family(value.type) in ("integer", "float", "decimal"):
            return self.cast(value, target) if target.name == "real" else value
        wide = SqlType(target.name, length=MAX) if family(target) in ("text", "binary") else target
        return self.cast(value, wide)

    def assigned(self, value: Fragment, target: SqlType, destination: Place) -> Fragment:
        """Convert a value that is assigned to a column: one that does not fit is an error."""
        if value.type is None and value.constant is None:
            return value
        if value.constant is NOT_CONSTANT and family(value.type) == "text" and family(target) == "binary":
            assert value.type is not None
            name = f"assign_{value.type.name}_to_{target.name}"
            self.function(name, 1, argument_converter(value.type, target))
            return Fragment(f"{name}({value.sql})", target)
        check_assignable(value.type, target)
        return self.cast(value, target, destination=destination)


NEVER_POSSIBLE = 529


def _never_failing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """TRY_CAST: NULL instead of an error, but for a conversion that is never possible."""

    def attempt(value: Any) -> Any:
        try:
            return function(value)
        except SqlServerError as error:
            if error.number == NEVER_POSSIBLE:
                raise
            return None

    return attempt


def _type_key(type_: SqlType) -> str:
    length = "max" if type_.length == MAX else str(type_.length)
    return f"{type_.name}_{length}_{type_.precision}_{type_.scale}"


def _as_float(value: Any) -> float | None:
    return stored_decimal(value) if isinstance(value, Decimal) else None if value is None else float(value)


def conversion_work(source: SqlType | None, target: SqlType) -> WorkNs | None:
    """How long a conversion takes, if it may take long."""
    if target.name == "xml":
        return work_of(XML_NS)
    is_long = source is None or source.length == MAX
    return work_of(CONVERSION_NS) if is_long and family(target) in ("text", "binary") else None


def _takes_xml(node: exp.Expr) -> bool:
    """Whether an expression may be xml or sql_variant where it stands."""
    if isinstance(node.parent, exp.Anonymous):
        is_of_user = isinstance(node.parent.parent, exp.Dot)
        return is_of_user or node.parent.name.upper() in ("COALESCE", "IIF", "ISNULL", "SQL_VARIANT_PROPERTY")
    is_result = isinstance(node.parent, exp.Case | exp.If) and node.arg_key != "this"
    return is_result or isinstance(node.parent, _TAKE_XML)


def _native_cast(value: Fragment, target: SqlType) -> str | None:
    """SQLite's expression for a cast, if there is one with the same meaning."""
    source = value.type
    if source is None:
        return None
    same_text = family(source) == "text" and target.name in ("varchar", "nvarchar")
    same_binary = family(source) == "binary" and target.name == "varbinary"
    guid = source.name == "uniqueidentifier" and target.name in ("varchar", "nvarchar") and target.length >= 36
    if guid or ((same_text or same_binary) and target.length == MAX):
        return value.sql
    if same_binary:  # not text: SQLite counts a surrogate pair once
        return part_of_binary(value.sql, 1, target.length)
    if source.name in INTEGER_RANGES and target.name in ("varchar", "nvarchar") and target.length >= 20:
        return f"CAST({value.sql} AS TEXT)"
    if source.name in INTEGER_RANGES and target.name == "float":
        return f"CAST({value.sql} AS REAL)"
    return None


# -- values of different types in a comparison or a CASE ---------------------------------------------------------------


def comparable(renderer: Renderer, left: Fragment, right: Fragment) -> tuple[str, str]:
    """Both sides, converted to one type, as SQL that SQLite compares as SQL Server does: text without case and without
    regard to blanks at its end, bytes without regard to zeros at their end."""
    left_family, other = family(left.type), family(right.type)
    if not left_family or not other:
        return _comparable_text(left, right) if "text" in (left_family, other) else (left.sql, right.sql)
    if left_family != other:
        left_type, right_type = left.type, right.type
        assert left_type is not None and right_type is not None
        if PRECEDENCE.index(left_type.name) <= PRECEDENCE.index(right_type.name):
            right = _converted(renderer, right, left_type)
        else:
            left = _converted(renderer, left, right_type)
    elif left_family == "date" and left.type != right.type:
        assert left.type is not None and right.type is not None
        if "time" in (left.type.name, right.type.name) and left.type.name != right.type.name:
            raise SqlServerError(402, left.type.name, right.type.name, "comparison")
        target = SqlType("datetime2", scale=7)
        left, right = renderer.cast(left, target), renderer.cast(right, target)
    if family(left.type) == "datetimeoffset":
        return f"substr({left.sql}, 1, {UTC_WIDTH})", f"substr({right.sql}, 1, {UTC_WIDTH})"
    if family(left.type) == "text":
        return _comparable_text(left, right)
    if family(left.type) == "binary":
        return without_zeros(left), without_zeros(right)
    return left.sql, right.sql + (" COLLATE NOCASE" if family(left.type) == "uniqueidentifier" else "")


def _comparable_text(left: Fragment, right: Fragment) -> tuple[str, str]:
    return left.sql, right.sql + collate(left, right)


def collate(*sides: Fragment) -> str:
    """The COLLATE clause of a comparison of texts."""
    names = {"": collation.NAME, "AI": collation.WITHOUT_ACCENTS}
    return f" COLLATE {names.get(collation_of(*sides), collation.BY_CODE)}"


def is_by_code(renderer: Renderer, *sides: Fragment) -> bool:
    """Whether a search in texts goes by the codes of letters."""
    kind = collation_of(*sides)
    if kind == "AI":
        raise UnsupportedSyntax("a search without regard to accents", renderer.line)
    return bool(kind)


def check_order(renderer: Renderer, *sides: Fragment) -> None:
    """Refuse to order by a collation that has regard to case and is not binary: `a`, `A`, `b` is no order of codes."""
    if "CS" in [side.collation for side in sides]:
        raise UnsupportedSyntax("the order of a case-sensitive collation", renderer.line)


def grouped(value: Fragment) -> str:
    """The SQL of a value by which rows are grouped: equal ones are one group."""
    return without_zeros(value) if family(value.type) == "binary" else collated(value)


def collated(value: Fragment) -> str:
    """The SQL of a value that is ordered, or of which one of equal ones is taken."""
    if family(value.type) == "datetimeoffset":
        return f"{value.sql} COLLATE datetimeoffset"
    return value.sql + (collate(value) if family(value.type) == "text" else "")


def without_zeros(side: Fragment) -> str:
    """The SQL of bytes without the zeros at their end: "strings that differ only by 00" are equal."""
    if isinstance(side.constant, bytes) and len(side.constant) <= LITERAL_MAX:
        return literal(side.constant.rstrip(b"\0"))
    return f"without_zeros({side.sql})"


def _converted(renderer: Renderer, side: Fragment, target: SqlType) -> Fragment:
    kind, target_family = family(side.type), family(target)
    if kind in ("text", "binary"):
        if target_family in ("text", "binary"):
            target = SqlType(target.name, length=MAX)
        if side.constant is not NOT_CONSTANT:
            converter(side.type, target)(side.constant)  # its error is that of the query, also without rows
        return renderer.cast(side, target)
    if kind == "date" or target.name == "real" or (target.name in DATETIMES and kind != "uniqueidentifier"):
        return renderer.cast(side, target)
    if kind == "uniqueidentifier" or target_family in ("date", "datetimeoffset"):
        assert side.type is not None
        raise SqlServerError(206, side.type.name, target.name)
    return side  # SQLite compares numbers of every type


def guid_order(sql: str) -> str:
    """SQL to order uniqueidentifiers as SQL Server does: the last six bytes are the most significant."""
    places = ((25, 12), (20, 4), (17, 2), (15, 2), (12, 2), (10, 2), (7, 2), (5, 2), (3, 2), (1, 2))
    return "(" + " || ".join(f"substr({sql}, {start}, {length})" for start, length in places) + ")"


def case(renderer: Renderer, branches: list[tuple[str, Fragment]], otherwise: Fragment) -> Fragment:
    if all(is_null(value) for value in (otherwise, *(value for _, value in branches))):
        raise SqlServerError(8133)
    common = common_type([value.type for _, value in branches] + [otherwise.type])
    parts = [f"WHEN {test} THEN {renderer.to_family(value, common).sql}" for test, value in branches]
    sql = f"(CASE {' '.join(parts)} ELSE {renderer.to_family(otherwise, common).sql} END)"
    return Fragment(sql, common, collation=collation_of(*(value for _, value in branches), otherwise))
