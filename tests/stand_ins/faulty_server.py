"""An embedded server with faults: the stand-in for a SQL Server on which something is wrong.

It takes the options of `harness serve`, and `--fault` any number of times:

    python tests/stand_ins/faulty_server.py --port 14331 --data /tmp/target --fault 'login=18456'

    login[:USER]=NUMBER[/ARGUMENT...]       logins (of users whose name matches) are refused with this error
    statement:REGEX=NUMBER[/ARGUMENT...]    matching statements fail with this error; of several, separated by commas,
                                            the last one is raised and the others are sent before it
    commit=NUMBER[/ARGUMENT...]             transactions that wrote something fail at commit and are rolled back
    hang:REGEX                              matching statements never end
    drop:REGEX                              matching statements lose their connection
    die:REGEX                               matching statements kill the process
    says:PROPERTY=VALUE                     the value of SERVERPROPERTY('PROPERTY')
    slow-start=SECONDS                      the server listens late
    close-port                              the server accepts connections and closes them

A REGEX is matched from the beginning of a statement's text, with white space reduced to single spaces, wherever the
statement is: in a batch, an executed string, a procedure. With `@3` behind it a fault strikes only the third time, with
`@3+` from the third time on, with `@3-5` the third to fifth time. Texts and severities are those of the catalogue;
missing arguments are an error.

Standard input is a pipe held by the parent: the server ends with it. A line of it, a list of faults in JSON, replaces
the faults; the answer on standard output is their number. A fault that makes a statement wait prints `struck` there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from harness import cli
from harness.embedded.broker.transactions import Transaction
from harness.embedded.errors import CATALOGUE, SqlServerError
from harness.embedded.runtime.tasks import Delay, Waiting
from harness.embedded.server import serve
from harness.embedded.server.authentication import LoginAuthenticator
from harness.embedded.server.tds_listener import TdsListener, TdsProtocol
from harness.embedded.tds.login import Login7
from harness.embedded.tsql.requests import ClientSession
from harness.embedded.tsql.session.session import Frame
from harness.embedded.tsql.session.steps import Scope, Step
from harness.embedded.tsql.text.parser import Parser, Statement
from harness.embedded.tsql.translation.functions import system_functions

KINDS = ("login", "statement", "commit", "hang", "drop", "die", "says", "slow-start", "close-port")
OF_STATEMENTS = ("statement", "hang", "drop", "die")
FOR_EVER_NS = 10**18

_SPECIFICATION = re.compile(
    r"(?P<kind>[a-z-]+)(?::(?P<pattern>.*?))?(?:=(?P<value>[^=@]*))?(?:@(?P<first>\d+)(?P<more>\+|-\d+)?)?", re.DOTALL
)


@dataclass
class Fault:
    """A fault, and how often it could have struck."""

    kind: str
    pattern: str
    value: str
    first: int = 1
    last: float = float("inf")
    occasions: int = 0

    @classmethod
    def parse(cls, text: str) -> Fault:
        match = _SPECIFICATION.fullmatch(text)
        if match is None or match["kind"] not in KINDS:
            raise argparse.ArgumentTypeError(f"invalid fault {text!r}: its kind must be one of {', '.join(KINDS)}")
        fault = cls(match["kind"], match["pattern"] or "", match["value"] or "")
        if match["first"]:
            fault.first = int(match["first"])
            more = match["more"] or f"-{fault.first}"
            fault.last = float("inf") if more == "+" else int(more[1:])
        if fault.kind in ("hang", "drop", "die") and fault.value:
            fault.pattern, fault.value = (
                f"{fault.pattern}={fault.value}",
                "",
            )  # the equals sign belongs to the statement
        if fault.kind in ("login", "statement", "commit"):
            fault.errors()  # a number that is not in the catalogue fails here and not in the middle of a test
        return fault

    def concerns(self, text: str) -> bool:
        return re.match(self.pattern, text, re.IGNORECASE) is not None

    def is_due(self) -> bool:
        self.occasions += 1
        return self.first <= self.occasions <= self.last

    def errors(self) -> list[SqlServerError]:
        found = []
        for piece in self.value.split(","):
            number, *arguments = piece.split("/")
            assert int(number) in CATALOGUE, f"errors.CATALOGUE lacks {number}"
            found.append(SqlServerError(int(number), *arguments))
        return found


class Faults:
    """The current faults."""

    def __init__(self) -> None:
        self._planted: list[Fault] = []

    def plant(self, faults: Sequence[Fault]) -> None:
        self._planted = list(faults)

    def due(self, kinds: Collection[str], text: str = "") -> Iterator[Fault]:
        for fault in self._planted:
            if fault.kind in kinds and fault.concerns(text) and fault.is_due():
                yield fault


FAULTS = Faults()
_listeners: list[TdsListener] = []


class FaultyAuthenticator(LoginAuthenticator):
    """Refuses logins."""

    def admit(self, login: Login7, spid: int, *, is_administrative: bool = False) -> tuple[ClientSession, str]:
        for fault in FAULTS.due(["login"], login.user):
            raise fault.errors()[-1]
        return super().admit(login, spid, is_administrative=is_administrative)


class RememberedListener(TdsListener):
    """Lets a statement find its connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _listeners.append(self)


def install() -> None:
    """Patch this process in all places where faults strike."""
    serve.LoginAuthenticator = FaultyAuthenticator  # type: ignore[misc]
    serve.TdsListener = RememberedListener  # type: ignore[misc]
    serve.obey_parent = _listen_to_the_parent
    _install_in_connections()
    _install_in_commits()
    _install_in_properties()
    _install_in_statements()


def _listen_to_the_parent(loop: asyncio.AbstractEventLoop, *, stop: Callable[[], None], advance: object) -> None:
    unread = b""

    def read() -> None:
        nonlocal unread
        piece = os.read(sys.stdin.fileno(), 65536)
        if not piece:
            loop.remove_reader(sys.stdin.fileno())
            stop()
        *lines, unread = (unread + piece).split(b"\n")
        for line in lines:
            faults = [Fault.parse(text) for text in json.loads(line)]
            FAULTS.plant(faults)
            print(len(faults), flush=True)

    loop.add_reader(sys.stdin.fileno(), read)


def _install_in_connections() -> None:
    connection_made = TdsProtocol.connection_made

    def accept_or_close(self: TdsProtocol, transport: Any) -> None:
        connection_made(self, transport)
        for _ in FAULTS.due(["close-port"]):
            transport.abort()

    TdsProtocol.connection_made = accept_or_close  # type: ignore[method-assign]


def _install_in_commits() -> None:
    commit = Transaction.commit

    def commit_or_fail(self: Transaction) -> Waiting[None]:
        for fault in FAULTS.due(["commit"]) if self.writes else ():
            self.rollback()
            raise fault.errors()[-1]
        yield from commit(self)

    Transaction.commit = commit_or_fail  # type: ignore[method-assign]


def _install_in_properties() -> None:
    truth = system_functions.server_property

    def answer(frame: Frame, name: Any) -> Any:
        for fault in FAULTS.due(["says"], str(name)):
            return int(fault.value) if str(name).lower() == "engineedition" else fault.value
        return truth(frame, name)

    system_functions.server_property = answer


def _install_in_statements() -> None:
    """Every statement passes `Parser.statement`, which knows its text, and `Scope.compile`, which makes its step."""
    parse, compile_ = Parser.statement, Scope.compile
    texts: dict[int, tuple[Statement, str]] = {}  # the node is kept so that its id is not used again

    def statement(self: Parser) -> Statement:
        tokens = self.tokens
        first = tokens.peek()
        node = parse(self)
        last = tokens.all[tokens.position - 1]
        if first is not None:
            texts[id(node)] = (node, " ".join(tokens.text[first.start : last.end + 1].split()))
        return node

    def compiled(self: Scope, node: Statement) -> Step:
        step = compile_(self, node)
        _, text = texts.get(id(node), (node, ""))
        return Step(_perhaps_failing(step, text), step.line, step.is_block) if text else step

    Parser.statement = statement  # type: ignore[method-assign]
    Scope.compile = compiled  # type: ignore[method-assign]


def _perhaps_failing(step: Step, text: str) -> Callable[[Frame], Waiting[Any]]:
    def run(frame: Frame) -> Waiting[Any]:
        for fault in FAULTS.due(OF_STATEMENTS, text):
            yield from _befall(fault, frame)
        ended = step.run(frame)
        return (yield from ended) if isinstance(ended, GeneratorType) else ended

    return run


def _befall(fault: Fault, frame: Frame) -> Waiting[None]:
    session = frame.session
    if fault.kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.kind == "drop":
        next(one for listener in _listeners for one in listener.connections if one._session is session).abort()
    if fault.kind != "statement":
        print("struck", flush=True)
        yield Delay(FOR_EVER_NS)
    *before, last = fault.errors()
    for error in before:
        session.report(error, frame.sink)
    raise last


def main() -> None:
    parser = argparse.ArgumentParser(description="harness serve, with faults", allow_abbrev=False)
    parser.add_argument("--fault", type=Fault.parse, action="append", default=[])
    options, of_serve = parser.parse_known_args()
    serve.die_with_parent()
    install()
    FAULTS.plant(options.fault)
    for fault in FAULTS.due(["slow-start"]):
        time.sleep(float(fault.value))
    cli.main(["serve", *of_serve, "--with-parent", "--throwaway"])


if __name__ == "__main__":
    sys.exit(main())
