"""Every message between the sweep's process and its Locust processes: one line of JSON.

An order carries a number, and its answer the same one; what needs no answer carries 0. On the pipe between the sweep's
process and the master a line begins with the worker to which or from which it goes, and a tab; with the tab alone it is
the master's own. The master passes workers' lines on, as they are, in custom messages of Locust.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from harness.load.plan import GeneratorHealth, Share
from harness.load_model import CLOSED_LOOP, OPEN_LOOP, RATE_MAX_PER_S, OpenLoop, parse_rate
from harness.matrix import axis_value, which_dialogs
from harness.message_bodies import Bodies
from harness.units import counted
from harness.workload_file import Client


class Message:
    """A message on a pipe; each kind is a frozen dataclass."""


class Answer(Message):
    """Answers the message of the same number."""


@dataclass(frozen=True)
class Done(Answer):
    """The order is carried out."""


@dataclass(frozen=True)
class Failed(Answer):
    """The order is not carried out."""

    reason: str


# To the master


@dataclass(frozen=True)
class Listen(Message):
    """Asks for the port on which the master expects workers: `Listening`."""


@dataclass(frozen=True)
class Listening(Answer):
    port: int


@dataclass(frozen=True)
class StartUsers(Message):
    """Asks for so many users on each of these workers, by Locust's client ids, and for none on any other."""

    users: Mapping[str, int]


@dataclass(frozen=True)
class Dismiss(Message):
    """Asks the master to tell all workers that the run has ended."""


# From the master


@dataclass(frozen=True)
class Joined(Message):
    """A worker of this harness has joined, or is back."""

    worker: str  # Locust's client id
    host: str
    process: int


@dataclass(frozen=True)
class Refused(Message):
    """A worker was sent away."""

    reason: str


# To a worker


@dataclass(frozen=True)
class Prepare(Message):
    """Asks a worker to connect every thread of a cell and to let it wait at the barrier."""

    cell: str
    block: int
    attempt: int
    share: Share  # of the cell's threads
    run: int  # goes into every message's header
    payload_bytes: int
    client: Client
    bodies: Bodies | None  # None: each thread has one, of `payload_bytes`
    keeps_calls: bool
    connection_string: str = field(repr=False)
    handles: Sequence[str] = field(repr=False)  # one for each thread of the share
    timeout_s: float
    open_loop: OpenLoop | None


@dataclass(frozen=True)
class Start(Message):
    """Asks a worker to open the barrier."""


@dataclass(frozen=True)
class Stop(Message):
    """Asks a worker to end the cell after each thread's current call: `Stopped`."""

    timeout_s: float


@dataclass(frozen=True)
class Disconnect(Message):
    """Asks a worker to end a cell that failed and to close all connections of its threads."""

    timeout_s: float


@dataclass(frozen=True)
class Stopped(Answer):
    """A worker's part of `LoadReport`."""

    started_at_ns: int
    stopped_at_ns: int
    sent: Sequence[int]  # by thread
    errors: Sequence[tuple[str, int]]
    problems: Sequence[str]
    health: GeneratorHealth
    calls_bytes: int  # of the file of its calls, which `Fetch` asks for


@dataclass(frozen=True)
class Fetch(Message):
    """Asks for a piece of the file of the last cell's calls: `Piece`."""

    offset: int


@dataclass(frozen=True)
class Piece(Answer):
    data: str  # base64 of PIECE_BYTES, or of what is left


@dataclass(frozen=True)
class ReadClock(Message):
    """Asks a worker for the time: `ClockRead`."""


@dataclass(frozen=True)
class ClockRead(Answer):
    utc_ns: int


@dataclass(frozen=True)
class WorkerProgress(Message):
    """A worker's part of `Progress`, which it reports while a cell runs."""

    counted_at_ns: int
    sent: int
    failed_calls: int
    running_threads: int
    calls_per_s: float = 0.0


# From and to the master's web interface


class BadScenario(ValueError):
    """A field with a wrong value; the message names the valid ones."""


@dataclass(frozen=True, slots=True)
class WebScenario:
    """The axes of a cell without the version, with the form's defaults."""

    initiators: int = 1
    threads: int = 10
    dialog_ratio: int = 150
    payload_bytes: int = 100
    rate: str = ""  # of an open loop: 500/s; empty: the closed loop

    @classmethod
    def from_form(cls, form: Mapping[str, str], initiators_max: int) -> WebScenario:
        """The scenario of a submitted form; raises BadScenario for the first wrong field.

        Its field `load_model` says whether the rate counts. Without that field a rate makes an open loop.
        """
        model = form.get("load_model", "")
        if model == CLOSED_LOOP:
            form = {**form, "rate": ""}
        elif model == OPEN_LOOP and not form.get("rate", "").strip():
            raise BadScenario(f"an {OPEN_LOOP} needs a rate of each initiator, such as 500/s")
        values: dict[str, Any] = {}
        for name, default in cls().fields().items():
            text = form.get(name, str(default)).strip()
            try:
                values[name] = _valid_rate(text) if name == "rate" else axis_value(name, text, initiators_max)
            except ValueError as error:
                raise BadScenario(str(error)) from None
        return cls(**values)

    def fields(self) -> dict[str, int | str]:
        return asdict(self)

    @property
    def dialogs(self) -> int:
        """Those of all initiators."""
        return self.initiators * self.threads * self.dialog_ratio

    @property
    def rate_per_s(self) -> float | None:
        return parse_rate(self.rate) if self.rate else None

    def words(self, *, payload_is_mean: bool) -> str:
        """`1 initiator × 10 threads, every dialog, 600 bytes on average, closed loop`"""
        initiators = counted(self.initiators, "initiator")
        dialogs = which_dialogs(self.dialog_ratio)
        payload = f"{self.payload_bytes:,} bytes{' on average' * payload_is_mean}"
        load = CLOSED_LOOP
        if self.rate:
            unit = "" if "/" in self.rate else "/s"
            load = f"{OPEN_LOOP}, {self.rate}{unit}{' per initiator' * (self.initiators > 1)}"
        return f"{initiators} × {counted(self.threads, 'thread')}, {dialogs}, {payload}, {load}"


def _valid_rate(text: str) -> str:
    """Return the text of a rate, or of none; raises ValueError."""
    if text and not 0 < parse_rate(text) <= RATE_MAX_PER_S:
        raise ValueError(f"rate {text!r} is not valid: up to {RATE_MAX_PER_S:,}/s; empty: {CLOSED_LOOP}")
    return text


@dataclass(frozen=True)
class MakeReady(Message):
    """Asks the sweep's process for a lab with dialogs and workers for a scenario: `Ready`."""

    scenario: WebScenario


@dataclass(frozen=True)
class Ready(Answer):
    users: Mapping[str, int]  # by Locust's client ids of the workers


@dataclass(frozen=True)
class BeginScenario(Message):
    """Asks the sweep's process to start the scenario's clients."""


@dataclass(frozen=True)
class EndScenario(Message):
    """Asks the sweep's process to stop them: `Ended`."""


@dataclass(frozen=True)
class Ended(Answer):
    problems: Sequence[str]


READY = "ready"  # the status in which the page waits for a scenario


@dataclass(frozen=True)
class Status(Message):
    """A line for the page while the lab is made ready."""

    text: str


@dataclass(frozen=True)
class WorkerLost(Message):
    """A worker has died, left or fallen silent."""

    worker: str
    reason: str


@dataclass(frozen=True)
class Looked(Message):
    """What a look at the lab's instances has found (`harness.observe.looks`), for the page."""

    at_s: float  # since 1970
    charts: Mapping[str, Mapping[str, float]]
    monitors: Mapping[str, str]
    failures: Sequence[str]


PIECE_BYTES = 1 << 19

_KINDS = (*(kind for kind in Message.__subclasses__() if kind is not Answer), *Answer.__subclasses__())
_BY_NAME = {kind.__name__: kind for kind in _KINDS}


@functools.cache
def _adapter(kind: str) -> TypeAdapter[Message]:
    return TypeAdapter(_BY_NAME[kind])


def encode(message: Message, number: int = 0) -> bytes:
    return json.dumps([number, type(message).__name__, asdict(message)], default=dict).encode() + b"\n"  # type: ignore[call-overload]


def decode(line: bytes) -> tuple[int, Any]:
    """The number and the message of a line."""
    number, kind, values = json.loads(line)
    return number, _adapter(kind).validate_python(values)
