"""Steps: compiled statements, their sequences, their transactions, and the scope in which statements are compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from harness.embedded.errors import SqlServerError, let_go
from harness.embedded.runtime.tasks import Cancelled, Waiting
from harness.embedded.sqltypes import Column, SqlType
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.storage.tables import RowConflict
from harness.embedded.tsql.text.parser import Statement

if TYPE_CHECKING:
    from harness.embedded.broker.transactions import Mark, Transaction
    from harness.embedded.runtime.locks import ExclusiveLock


class Signal(Enum):
    """How a step ends if the next one does not follow."""

    BREAK = auto()
    CONTINUE = auto()
    RETURN = auto()


@dataclass(slots=True, eq=False)
class Step:
    """A compiled statement. `run` returns None to go on, a Signal, or a generator that returns one of them. That
    of a sequence is always a generator."""

    run: Callable[[Frame], Any]
    line: int = 0
    is_block: bool = False  # made by `sequence`
    describes: bool = False  # `Statement.describes`
    keeps_error: bool = False  # @@ERROR behind it is that of the last statement in it


def plain(run: Callable[[Frame], Signal | None]) -> Step:
    return Step(run)


def waiting(run: Callable[[Frame], Waiting[Signal | None] | None]) -> Step:
    return Step(run)


# What SQL Server finds while it compiles, in statements whose objects exist
BINDING_ERRORS = frozenset(
    (
        *(107, 108, 109, 110, 116, 120, 121, 145, 155, 157, 164, 174, 189, 205, 206, 207, 209, 213, 257, 258, 264, 272),
        *(273, 305, 402, 408, 493, 529, 1013, 4104, 4112, 4145, 8102, 8116, 8117, 8120, 8133, 8155, 8156, 8159, 9810),
        *(4121, 4194, 8144, 10700, 10709, 10752, 10756, 10759),
    )
)
LOGICAL_TABLES = ("inserted", "deleted")  # of a trigger: table variables whose names have no @
Compiler = Callable[[Any, "Scope"], Step]


class BeforeRun(NamedTuple):
    """A plan that is made before its batch or module runs."""

    line: int
    make: Callable[[Frame], object]
    lacks: Callable[[Frame], bool]  # a table: then no name of the statement is looked up before it runs


@dataclass(slots=True)
class Scope:
    """Facts about a batch or procedure that are known when its statements are compiled."""

    compilers: dict[type[Statement], Compiler]
    types: dict[str, SqlType] = field(default_factory=dict)  # of scalar variables, by name
    tables: dict[str, list[Column]] = field(default_factory=dict)  # columns of table variables
    defaults: dict[str, list[str | None]] = field(default_factory=dict)  # their columns' defaults
    keys: dict[str, list[str]] = field(default_factory=dict)  # the columns of their primary keys
    declared: dict[str, str] = field(default_factory=dict)  # their columns, as SQLite declares them
    identities: dict[str, tuple[int, int]] = field(default_factory=dict)  # place and seed of their IDENTITY columns
    table_types: dict[str, SqlType] = field(default_factory=dict)  # of table variables of a named type
    readonly: set[str] = field(default_factory=set)  # parameters that are tables
    cursors: set[str] = field(default_factory=set)  # cursor variables
    text: str = ""  # of the batch or procedure, for reports of defects
    loops: int = 0
    catches: int = 0
    in_procedure: bool = False
    returns: SqlType | None = None  # of a function of one value
    leaves_database: bool = False  # by USE
    plans: list[BeforeRun] = field(default_factory=list)

    def compile(self, statement: Statement) -> Step:
        step = self.compilers[type(statement)](statement, self)
        step.line, step.describes = statement.line, statement.describes
        return step

    def body(self, statement: Statement) -> Step:
        """The one statement of an IF or WHILE, as a block, so that an error in it need not end the IF or WHILE."""
        step = self.compile(statement)
        return step if step.is_block else sequence([step], self.text)

    def block(self, statements: Sequence[Statement]) -> Step:
        steps = [self.compile(statement) for statement in statements]
        return steps[0] if len(steps) == 1 and steps[0].is_block else sequence(steps, self.text)

    def plans_before(self, line: int, make: Callable[[Frame], object], lacks: Callable[[Frame], bool]) -> None:
        """Have `bind` make that plan of a statement, unless it is for another database; `lacks` looks for a table that
        does not exist."""
        if not self.leaves_database:
            self.plans.append(BeforeRun(line, make, lacks))

    def bind(self, frame: Frame) -> Waiting[None]:
        """Look up names before anything runs, also those of statements that never run. "Deferred name resolution can
        only be used when you reference nonexistent table objects. All other objects must exist": a column that is
        missing from a table that exists is an error, even if a statement before it would add the column."""
        for plan in self.plans:
            try:
                plan.make(frame)
            except Exception as error:
                if isinstance(error, SqlServerError) and error.number in BINDING_ERRORS and not plan.lacks(frame):
                    error.frame, error.line = frame, error.line or plan.line
                    raise
                let_go(error)  # it comes again when the statement runs
            if frame.sqlite.budget.is_long:
                yield from frame.let_others_go_on()

    def variables(self) -> dict[str, None]:
        """All scalar variables, each NULL, as they are at the beginning of a run: "the scope of a variable lasts from
        the point it is declared until the end of the batch or stored procedure", wherever its DECLARE stands."""
        return dict.fromkeys(self.types)

    def declares(self, variable: str) -> bool:
        return variable in self.types or variable in self.tables

    def is_logical(self, name: str) -> bool:
        """Whether that is `inserted` or `deleted` in a trigger."""
        return name.lower() in LOGICAL_TABLES and name.lower() in self.tables

    def type_of(self, variable: str, line: int) -> SqlType:
        try:
            return self.types[variable]
        except KeyError:
            raise SqlServerError(137, self.written(variable), line=line) from None

    def written(self, variable: str) -> str:
        """A variable as the text has it first: errors show names as they are written."""
        match = re.search(rf"{re.escape(variable)}(?![\w@#$])", self.text, re.IGNORECASE)
        return variable if match is None else match.group()


STEPS_A_LOOK = 100  # at the budget; a statement without rows takes about 10 µs


def sequence(steps: Sequence[Step], text: str) -> Step:
    """Steps of a batch or procedure with that text, in order. An error ends its statement; `Frame.fail` decides whether
    it ends more. A defect becomes an error here (`instance.defects`). Under SET FMTONLY ON only those statements run
    that show columns."""
    if len(steps) > STEPS_A_LOOK:
        steps = [sequence(steps[at : at + STEPS_A_LOOK], text) for at in range(0, len(steps), STEPS_A_LOOK)]
    runs = [(step.run, step.line, step.describes, step.keeps_error) for step in steps]

    def run(frame: Frame) -> Waiting[Any]:
        session, sink, budget = frame.session, frame.sink, frame.sqlite.budget
        budget.look()  # statements without rows do not, but there may be loops and recursion of them
        for step, line, describes, keeps_error in runs:
            if session.options.fmtonly and not describes:
                continue
            try:
                signal: Any = step(frame)
                if signal is not None and type(signal) is not Signal:
                    signal = yield from signal
                if not keeps_error:
                    session.error_number = 0
                if signal is not None:
                    return signal
            except Exception as error:
                budget.begin()
                frame.fail(frame.instance.defects.error(error, text, line), line)
                let_go(error)
            if budget.is_long or sink.is_full:
                yield from frame.let_others_go_on()
        return None

    return Step(run, steps[0].line if steps else 0, is_block=True, describes=True, keeps_error=True)


# -- the transaction of a statement: the open one, or one of its own that is committed at the end ----------------------

Result = TypeVar("Result")
Work = Callable[[Frame, "Transaction"], Waiting[None] | None]  # returns the part that can wait, if there is one


def writing(work: Work) -> Step:
    """A step that changes data in the open transaction or in its own. If it fails, all its changes are undone."""

    def change(frame: Frame, tx: Transaction) -> Waiting[None] | None:
        mark = tx.mark()
        try:
            return work(frame, tx)
        except RowConflict as conflict:
            return again(frame, tx, mark, conflict.lock)

    def again(frame: Frame, tx: Transaction, mark: Mark, lock: ExclusiveLock) -> Waiting[None]:
        """Another transaction has changed the rows; begin again when it has ended."""
        while True:
            tx.rollback_to(mark)
            yield from lock.acquire(tx, frame.instance.engine.waits)
            try:
                rest = work(frame, tx)
                break
            except RowConflict as conflict:
                lock = conflict.lock
        if rest is not None:
            yield from rest

    return waiting_work(change)


def waiting_work(
    work: Callable[[Frame, Transaction], Waiting[Result] | None], take: Callable[[Frame, Result], object] | None = None
) -> Step:
    """Like `writing`, for work that can wait; `take` gets its result. Without anything to wait for, there is no
    generator."""

    def run(frame: Frame) -> Waiting[None] | None:
        session = frame.session
        tx = session.writable()
        is_own = tx is None
        if tx is None:
            tx = session.new_transaction()
        mark, held = tx.mark(), frame.sink.held
        try:
            rest = work(frame, tx)
        except BaseException as error:
            undo(tx, mark, error, is_own=is_own)
            raise
        return finish(frame, tx, mark, rest, held, is_own=is_own) if is_own or rest is not None else None

    def finish(
        frame: Frame, tx: Transaction, mark: Mark, rest: Waiting[Result] | None, held: object, *, is_own: bool
    ) -> Waiting[None]:
        try:
            if rest is not None:
                result = yield from rest
                if take is not None:
                    take(frame, result)
        except BaseException as error:
            undo(tx, mark, error, is_own=is_own)
            raise
        if is_own:
            try:
                yield from tx.commit()
            except SqlServerError:
                frame.sink.withdraw_done(held)
                raise

    def undo(tx: Transaction, mark: Mark, error: BaseException, *, is_own: bool) -> None:
        if is_own and tx.active:
            tx.rollback()
        elif isinstance(error, Exception | Cancelled) and tx.active:
            tx.rollback_to(mark)

    return waiting(run)
