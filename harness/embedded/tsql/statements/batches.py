"""Batches: parse, compile, cache by text, run."""

from __future__ import annotations

from typing import Any

from harness.embedded.runtime.tasks import Waiting
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.session.frame import Frame
from harness.embedded.tsql.session.results import ResultSink
from harness.embedded.tsql.session.session import Session
from harness.embedded.tsql.session.steps import Scope, Step, sequence
from harness.embedded.tsql.statements.registry import COMPILERS, GRAMMAR
from harness.embedded.tsql.statements.set_options import SetOption
from harness.embedded.tsql.text.parser import Parser, Statement


def parse(text: str) -> list[Statement]:
    """Parse a batch."""
    return Parser(text, GRAMMAR).batch()


def compile_batch(text: str, types: dict[str, SqlType] | None = None) -> Step:
    """Compile a batch; `types` are those of the parameters that it is called with."""
    body = parse(text)
    return _respecting_noexec(body, Scope(COMPILERS, dict(types or {})))


def _respecting_noexec(body: list[Statement], scope: Scope) -> Step:
    """With SET NOEXEC ON a batch is compiled but not run, up to a SET NOEXEC OFF in it."""
    steps = [scope.compile(statement) for statement in body]
    whole = sequence(steps)
    places = [
        place
        for place, statement in enumerate(body)
        if isinstance(statement, SetOption) and statement.options == ["NOEXEC"] and statement.value == "OFF"
    ]
    woken = sequence(steps[places[0] :]) if places else sequence([])

    def run(frame: Frame) -> Waiting[Any]:
        step = woken if frame.session.options.noexec else whole
        signal = (yield from step.run(frame)) if step.waits else step.run(frame)
        return signal

    return Step(run, True)


def compiled(session: Session, text: str) -> Step:
    """Compile a batch, or take it from the cache."""
    key = (session.database.database_id, text)
    instance = session.instance
    step: Step | None = instance.batches.get(key)
    if step is None:
        step = compile_batch(text)
        instance.keep_batch(key, step)
    return step


def run(session: Session, step: Step, sink: ResultSink, *, depth: int = 0) -> Waiting[None]:
    """Run a compiled batch in a frame of its own."""
    frame = Frame(session, session.database, sink, "", depth)
    try:
        if step.waits:
            yield from step.run(frame)
        else:
            step.run(frame)
    finally:
        frame.release()
