"""Plans of queries, and closures that evaluate expressions and conditions.

A `Plan` is valid for one database and one version of the catalog; `Planned` makes it again when these change. The
commonest expressions need no plan.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from sqlglot import exp

from harness.embedded.broker.database import Database
from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tsql import catalog as views
from harness.embedded.tsql.catalog.view import View
from harness.embedded.tsql.instance.modules import UserView
from harness.embedded.tsql.permissions.guard import Need, needed_by, object_of
from harness.embedded.tsql.session.session import READ_UNCOMMITTED, Frame
from harness.embedded.tsql.session.steps import Scope
from harness.embedded.tsql.storage.conversion import INTEGER_RANGES, check_assignable, converter, fits
from harness.embedded.tsql.storage.sqlite import Sqlite, quoted
from harness.embedded.tsql.storage.tables import Table, committed
from harness.embedded.tsql.text.parser import Expression, parse_whole_query
from harness.embedded.tsql.translation import closures, selects, user_functions, xml_methods
from harness.embedded.tsql.translation.closures import Closure, Evaluate
from harness.embedded.tsql.translation.expression_renderers import function_name
from harness.embedded.tsql.translation.fragments import (
    MARK,
    NOT_CONSTANT,
    Arguments,
    Names,
    Source,
    UserProgram,
    ViewQuery,
    table_source,
)
from harness.embedded.tsql.translation.functions import FUNCTIONS
from harness.embedded.tsql.translation.functions.system_functions import GLOBALS
from harness.embedded.tsql.translation.groups import check_place
from harness.embedded.tsql.translation.renderer import RENDERERS, Renderer, conversion_work

NEVER_CURRENT = -1  # a version of the catalog: the plan is made anew for each run


PLACES_SINCE = 2019  # the version of SQL Server whose error names where a value that is too long goes


class Binding:
    """The environment (`fragments.Environment`) of a query: its scope, and the frame that runs it first."""

    def __init__(self, scope: Scope, frame: Frame) -> None:
        self.scope = scope
        self.frame = frame
        self.tables: dict[str, None] = {}  # table variables in use
        self.views: list[tuple[View, Database, Source]] = []
        self.needs: list[Need] = []
        self.version = frame.instance.version
        self._views_inside: list[UserView] = []  # that are rendered, the innermost last
        self.reads: list[Table] = []  # tables of which the plan reads committed rows

    def table(self, parts: tuple[str, ...], alias: str, *, uncommitted: bool) -> Source:
        if len(parts) == 1 and self.scope.is_logical(parts[0]):
            return self.table_variable(parts[0].lower(), alias)
        database, schema, name = self._located(parts)
        table = self._user_table(parts)
        if table is not None:
            self._need(table, "SELECT")
            if not uncommitted:
                self.reads.append(table)
            return table_source(alias, table.sql, table.columns)
        view = views.find(database, schema, name, explicit=len(parts) > 1, uncommitted=uncommitted)
        if view is None:
            raise _no_object(parts, schema, name)
        source = self._view(view, database, alias)
        if (queue := database.catalog.queues.get(f"{schema}.{name}".lower())) is not None:
            self.needs.append(Need(database, object_of(database, queue), "SELECT", schema, name))
        else:
            source.system_view = ".".join(parts)
        return source

    def user_view(self, parts: tuple[str, ...]) -> contextlib.AbstractContextManager[ViewQuery] | None:
        if parts[-1].startswith("#") or self.scope.is_logical(parts[-1]):
            return None
        database, schema, name = self._located(parts)
        view = self.frame.instance.views.get((database.database_id, f"{schema}.{name}".lower()))
        return None if view is None else self._inside(view, database)

    @contextlib.contextmanager
    def _inside(self, view: UserView, database: Database) -> Iterator[ViewQuery]:
        """Who may read a view may read through it: its owner has what it reads."""
        if database is not self.frame.database:
            raise UnsupportedSyntax("views of another database", 0)
        if view in self._views_inside:
            raise SqlServerError(4429, view.name)
        self._views_inside.append(view)
        if view.compiled is None:
            tree = parse_whole_query(view.query).tree
            check(tree, 0, lambda variable: False)
            view.compiled = ViewQuery(view.name, tree, view.columns)
        with self.chained():
            yield view.compiled
        self._views_inside.pop()
        self.needs.append(Need(database, object_of(database, view), "SELECT", view.schema, view.name))

    @contextlib.contextmanager
    def chained(self) -> Iterator[None]:
        needs = len(self.needs)
        yield
        del self.needs[needs:]

    def user_function(self, parts: tuple[str, ...], *, of_one_value: bool) -> UserProgram | None:
        database, schema, name = self._located(parts)
        function = self.frame.instance.functions.get((database.database_id, f"{schema}.{name}".lower()))
        if function is None or (function.type == "FN") != of_one_value:
            return None
        if database is not self.frame.database:
            raise UnsupportedSyntax("functions of another database", 0)
        permission = "EXECUTE" if of_one_value else "SELECT"
        self.needs.append(Need(database, object_of(database, function), permission, function.schema, function.name))
        return user_functions.compiled(function)

    def _view(self, view: View, database: Database, alias: str) -> Source:
        name = f"temp.{quoted(view.temporary_name(database))}"
        # A view that a query names twice is filled once, with the columns needed at both places.
        names = [other for known_view, where, other in self.views if known_view is view and where is database]
        source = Source(alias, name, view.columns, names[0].needed if names else set(), view.hidden)
        if not names:
            self.views.append((view, database, source))
        need = needed_by(view.name, database)
        if need.permission or database is not self.frame.database:
            self.needs.append(need)
        return source

    def _located(self, parts: tuple[str, ...]) -> tuple[Database, str, str]:
        """What a name means; 208 without its database, and 916 if this session may not enter that, whether or not the
        object exists."""
        if len(parts) == 3 and parts[0] and parts[0].lower() not in self.frame.instance.engine.databases:
            raise SqlServerError(208, ".".join(parts))
        return self.frame.instance.located(parts, self.frame.database, self.frame.session.guard)

    def table_function(self, parts: tuple[str, ...], alias: str, arguments: Arguments) -> Source:
        database, schema, name = self._located(parts)
        function = views.find_function(database, schema, name)
        if function is None:
            raise _no_object(parts, schema, name)

        def evaluate(frame: Frame) -> Sequence[Sequence[Any]]:
            return frame.sqlite.rows(arguments.sql, [getter(frame) for getter in arguments.getters])

        return self._view(function.call(len(self.views), arguments.size, evaluate), database, alias)

    def table_variable(self, name: str, alias: str) -> Source:
        columns = self.scope.tables.get(name)
        if columns is None:
            raise SqlServerError(1087, self.scope.written(name))
        self.tables[name] = None
        return table_source(alias, f"temp.{MARK}{name}{MARK}", columns)

    def user_table(self, parts: tuple[str, ...], *permissions: str) -> Table:
        """The user table of that name, on which the plan needs permissions; 208 if there is none, 259 for a view."""
        if len(parts) == 1 and self.scope.is_logical(parts[0]):
            raise SqlServerError(286)
        database, schema, name = self._located(parts)
        table = self._user_table(parts)
        if table is None:
            if self.frame.instance.view(parts, self.frame.database) is not None:
                raise UnsupportedSyntax("changes through a view", 0)
            view = views.find(database, schema, name, explicit=len(parts) > 1)
            raise SqlServerError(208, ".".join(parts)) if view is None else SqlServerError(259)
        for permission in permissions:
            self._need(table, permission)
        return table

    def _user_table(self, parts: tuple[str, ...]) -> Table | None:
        table = self.frame.user_table(parts)
        if table is not None and table.is_temporary:
            self.version = NEVER_CURRENT  # other sessions have other tables of that name
        return table

    def _need(self, table: Table, permission: str) -> None:
        if table.is_temporary:
            return
        database = self.frame.instance.owner(table)
        self.needs.append(Need(database, object_of(database, table), permission, table.schema, table.name))

    def variable_type(self, name: str) -> SqlType:
        return self.scope.type_of(name, 0)

    @property
    def names_places(self) -> bool:
        return int(self.frame.instance.engine.version) >= PLACES_SINCE

    @property
    def sqlite(self) -> Sqlite:
        return self.frame.sqlite

    def plan(self, sql: str, renderer: Renderer, columns: Sequence[Column]) -> Plan:
        return Plan(sql, self, renderer.getters(sql), columns)


def _no_object(parts: tuple[str, ...], schema: str, name: str) -> SqlServerError:
    """208, unless SQL Server may have it in a system schema."""
    if len(parts) > 1 and views.is_left_out(schema, name):
        return UnsupportedSyntax(f"{schema}.{name}", 0)
    return SqlServerError(208, ".".join(parts))


class Plan:
    """A statement for SQLite, with what gives the values of its parameters."""

    __slots__ = (
        *("_texts", "columns", "database", "getters", "is_given", "needs", "reads", "sql", "tables", "version"),
        "views",
    )

    def __init__(self, sql: str, binding: Binding, getters: list[Evaluate], columns: Sequence[Column]) -> None:
        self.sql = sql
        self.getters = tuple(getters)
        marks = ", ".join(f"?{number}" for number in range(1, len(getters) + 1))
        self.is_given = sql == f"VALUES ({marks})"  # its only row consists of the parameters
        self.columns = columns
        self.tables = tuple(binding.tables)
        self.views = binding.views
        self.needs = tuple(binding.needs)
        self.reads = tuple(dict.fromkeys(binding.reads))
        self.database = binding.frame.database
        self.version = binding.version
        self._texts: dict[tuple[str, ...], str] = {}

    def is_current(self, frame: Frame) -> bool:
        return self.database is frame.database and self.version == frame.instance.version

    def prepare(self, frame: Frame) -> tuple[str, list[Any]]:
        """Check permissions, fill views, and return the text and the parameters for this run."""
        frame.sqlite.calls.frame = frame
        guard = frame.session.guard
        if guard is not None and self.needs:
            guard.run(self, frame)
        for view, database, source in self.views:
            view.fill(frame, database, source.needed or set())
        sql = self.sql
        if self.tables:
            names = tuple([frame.table(name) for name in self.tables])
            prepared = self._texts.get(names)
            if prepared is None:
                prepared = sql
                for variable, name in zip(self.tables, names, strict=True):
                    prepared = prepared.replace(f"{MARK}{variable}{MARK}", name)
                self._texts[names] = prepared
            sql = prepared
        return sql, [getter(frame) for getter in self.getters]

    def rows(self, frame: Frame) -> list[tuple[Any, ...]]:
        return [tuple(self.prepare(frame)[1])] if self.is_given else self._committed(frame, frame.sqlite.rows)

    def value(self, frame: Frame) -> Any:
        """The first column of the first row, None without one."""
        return self._committed(frame, frame.sqlite.value)

    def _committed(self, frame: Frame, read: Callable[[str, list[Any]], Any]) -> Any:
        """What a function reads, from tables without the uncommitted changes of others."""
        sql, parameters = self.prepare(frame)
        if self.reads and (changed := self._changed_by_others(frame)):
            with committed(frame.sqlite, frame.session.tx, changed):
                return read(sql, parameters)
        return read(sql, parameters)

    def _changed_by_others(self, frame: Frame) -> list[Table]:
        """The tables with uncommitted changes that this reader must not see."""
        session = frame.session
        if session.options.isolation_level == READ_UNCOMMITTED:
            return []
        return [table for table in self.reads if table.is_changed_by_others(session.tx)]


class Planned:
    """A plan that is made when first needed and again after every change of the catalog."""

    def __init__(self, make: Callable[[Frame], Plan]) -> None:
        self._make = make
        self._plan: Plan | None = None

    def for_(self, frame: Frame) -> Plan:
        plan = self._plan
        if plan is None or plan.database is not frame.database or plan.version != frame.instance.version:
            plan = self._plan = self._make(frame)
        return plan


def planned_before(make: Callable[[Frame], Plan], scope: Scope, line: int, tree: exp.Expr) -> Planned:
    """A plan that is needed before its batch or module runs."""
    planned = Planned(make)
    scope.plans_before(line, planned.for_, partial(lacks_table, scope, tree))
    return planned


def lacks_table(scope: Scope, tree: exp.Expr | None, frame: Frame) -> bool:
    """Whether a table, view or queue that is named there does not exist."""
    binding = Binding(scope, frame)
    common = {table.alias.lower() for table in tree.find_all(exp.CTE)} if tree is not None else set()
    for table in tree.find_all(exp.Table) if tree is not None else ():
        parts = selects.with_gaps(table)
        if isinstance(table.this, exp.Identifier) and not (len(parts) == 1 and parts[0].lower() in common):
            try:
                if frame.instance.view(parts, frame.database) is None:
                    binding.table(parts, "", uncommitted=True)
            except SqlServerError:
                return True
    return False


def select_plan(tree: exp.Expr, line: int, scope: Scope) -> Callable[[Frame], Plan]:
    """Return the function that makes the plan of a query."""
    check(tree, line, scope.declares)

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, line)
        sql, columns = selects.query(renderer, tree, None)
        return binding.plan(sql, renderer, columns)

    return make


# -- expressions -------------------------------------------------------------------------------------------------------


def scalar(expression: Expression, scope: Scope, target: SqlType | None = None, *, is_cast: bool = False) -> Evaluate:
    """The function that evaluates an expression, converted to `target` if there is one, as an assignment or as CAST
    would convert it."""
    closure = closures.value(expression.tree, scope, expression.line)
    if closure is not None and not closure.is_computed:
        return _converted(closure, target, is_cast=is_cast)
    check(expression.tree, expression.line, scope.declares)

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, expression.line)
        value = renderer.value(expression.tree, Names())
        column = Column("", value.type)  # type: ignore[arg-type]
        if target is not None and not is_cast:
            check_assignable(value.type, target)
        if target is not None and value.constant is NOT_CONSTANT and not fits(value.type, target):
            convert = converter(value.type, target)
            name = f"assign_{hash((value.type, target)) & 0xFFFFFFFFFFFF:x}"
            work_ns = conversion_work(value.type, target)
            binding.sqlite.function(name, 1, _for_sqlite(convert), work_ns=work_ns)
            value = value._replace(sql=f"{name}({value.sql})")
        elif target is not None and value.constant is not NOT_CONSTANT:
            value = renderer.cast(value, target)
        return binding.plan(f"SELECT {value.sql}", renderer, [column])

    planned = Planned(make) if closure is not None else planned_before(make, scope, expression.line, expression.tree)
    if target is not None and target.name not in INTEGER_RANGES:
        return lambda frame: planned.for_(frame).value(frame)
    low, high = INTEGER_RANGES[target.name if target is not None else "bigint"]

    def ask(frame: Frame) -> Any:
        value = planned.for_(frame).value(frame)
        if target is None or value is None or low <= value <= high:
            return value
        raise SqlServerError(8115, target.name)

    if closure is None:
        return ask
    compute = closure.evaluate

    def evaluate(frame: Frame) -> Any:
        try:
            value = compute(frame)
        except closures.NotPlain:
            return ask(frame)
        return value if value is None or low <= value <= high else ask(frame)

    return evaluate


def _converted(closure: Closure, target: SqlType | None, *, is_cast: bool) -> Evaluate:
    evaluate, source, constant, _ = closure
    if target is None or constant is None or fits(source, target):
        return evaluate
    if not is_cast:
        check_assignable(source, target)
    convert = converter(source, target)
    if constant is NOT_CONSTANT:
        return lambda frame: convert(evaluate(frame))
    try:
        converted = convert(constant)
    except SqlServerError:
        return lambda frame: convert(constant)  # the error is raised when it runs
    return lambda frame: converted


def _for_sqlite(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        result = convert(value)
        return result if result is None or isinstance(result, int | float | str | bytes) else float(result)

    return converted


def static_type(expression: Expression, scope: Scope, frame: Frame) -> SqlType | None:
    """The type of an expression, if it is known without a value."""
    return Renderer(Binding(scope, frame), expression.line).value(expression.tree, Names()).type


def condition(expression: Expression, scope: Scope) -> Evaluate:
    """The function that evaluates a condition."""
    check(expression.tree, expression.line, scope.declares)

    def make(frame: Frame) -> Plan:
        binding = Binding(scope, frame)
        renderer = Renderer(binding, expression.line)
        sql = renderer.condition(expression.tree, Names())
        return binding.plan(f"SELECT {sql}", renderer, [])

    test = closures.truth(expression.tree, scope)
    planned = Planned(make) if test is not None else planned_before(make, scope, expression.line, expression.tree)
    if all(isinstance(node, _CONSTANT) for node in expression.tree.walk()):
        return _once(lambda frame: planned.for_(frame).value(frame))
    if test is None:
        return lambda frame: planned.for_(frame).value(frame)

    def holds(frame: Frame) -> Any:
        try:
            return test(frame)
        except closures.NotPlain:
            return planned.for_(frame).value(frame)

    return holds


_CONSTANT = (exp.EQ, exp.NEQ, exp.Literal, exp.National, exp.Paren)  # the nodes of `1 = 1` and `N'$(x)' = N'ON'`


def _once(evaluate: Evaluate) -> Evaluate:
    kept_value: list[Any] = []

    def value(frame: Frame) -> Any:
        if not kept_value:
            kept_value.append(evaluate(frame))
        return kept_value[0]

    return value


# -- checks when a query is compiled, so that a procedure that could never run is not created --------------------------

# Nodes that are parts of others. `RENDERERS` has those that are expressions.
PARTS = frozenset(
    getattr(exp, name)
    for name in """
        CTE DataType DataTypeParam Distinct Except Fetch ForClause From Group Having Identifier If Intersect
        Join Lateral Limit LimitOptions Offset OpenJSON OpenJSONColumnDef Order Ordered QueryOption Select Star Table
        TableAlias Tuple Union Values Var Where WindowSpec With WithTableHint XMLKeyValueOption
    """.split()  # noqa: SIM905
)

# The supported clauses of a SELECT.
CLAUSES = frozenset(
    """
    expressions from_ joins where group having order limit offset distinct with_ options kind hint windows for_
    """.split()  # noqa: SIM905
)


def check(tree: exp.Expr, line: int, declared: Callable[[str], bool]) -> None:
    """Raise the error for an unknown node, clause, function or variable."""
    for node in tree.walk():
        kind = type(node)
        if kind not in PARTS and kind not in RENDERERS:
            raise UnsupportedSyntax(f"the expression {node.sql('tsql')[:60]}", line)
        if node is not tree:
            refuse_order(node, line)
        if isinstance(node, exp.Select):
            for clause, value in node.args.items():
                if value and clause not in CLAUSES:
                    raise UnsupportedSyntax(f"{clause.strip('_').upper()} in a SELECT", line)
        elif isinstance(node, exp.ForClause):
            selects.check_format(node, line)
        elif isinstance(node, exp.Lateral):
            call = node.this.expression if isinstance(node.this, exp.Dot) else node.this
            if not isinstance(call, exp.Anonymous | exp.OpenJSON | exp.Subquery):
                raise SqlServerError(102, "APPLY", line=line)
        elif isinstance(node, exp.Window):
            check_place(node, line)
        elif isinstance(node, exp.Anonymous):
            _check_call(node, line)
        elif isinstance(node, exp.Parameter):
            _check_variable(node, line, declared)


def _check_call(node: exp.Anonymous, line: int) -> None:
    # A function in a FROM clause is looked up like a table, when the query first runs.
    place = node.parent.parent if isinstance(node.parent, exp.Dot) else node.parent
    is_looked_up = isinstance(place, exp.Table | exp.Lateral) or xml_methods.is_method(node)
    is_user_function = isinstance(node.parent, exp.Dot) and not function_name(node).startswith("SYS.")
    if not is_looked_up and not is_user_function and function_name(node) not in FUNCTIONS:
        raise SqlServerError(195, node.this, line=line)
    check_place(node, line)


def refuse_order(query: exp.Expr, line: int) -> None:
    """Raise 1033 for a view, a function or a query inside another whose ORDER BY has nothing to choose."""
    is_ordered = isinstance(query, exp.Select | exp.SetOperation) and query.args.get("order") is not None
    if is_ordered and all(query.args.get(clause) is None for clause in ("limit", "offset", "for_")):
        raise SqlServerError(1033, line=line)


def _check_variable(node: exp.Parameter, line: int, declared: Callable[[str], bool]) -> None:
    if isinstance(node.this, exp.Parameter):
        if node.this.name.upper() not in GLOBALS:
            raise SqlServerError(137, f"@@{node.this.name}", line=line)
    elif not isinstance(node.parent, exp.Parameter) and not declared("@" + node.name.lower()):
        number = 1087 if isinstance(node.parent, exp.Table) else 137
        raise SqlServerError(number, f"@{node.name}", line=line)
