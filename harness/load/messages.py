"""Every message between the sweep's process and its Locust processes: one line of JSON.

An order carries a number, and its answer the same one; what needs no answer carries 0. On the pipe between the sweep's
process and the master a line begins with the worker to which or from which it goes, and a tab; with the tab alone it is
the master's own. The master passes workers' lines on, as they are, in custom messages of Locust.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from harness.definitions.load_model import CLOSED_LOOP, OPEN_LOOP, RATE_MAX_PER_S, OpenLoop, parse_rate
from harness.definitions.matrix import axis_value, which_dialogs
from harness.definitions.units import counted
from harness.files.message_bodies import Bodies
from harness.files.workload_file import Client
from harness.load.plan import GeneratorHealth, Share

if TYPE_CHECKING:
    from harness.observe.looks import Look


class Message(msgspec.Struct, frozen=True, tag=True):
    """A message on a pipe."""


class Answer(Message, frozen=True):
    """Answers the message of the same number."""


class Done(Answer, frozen=True):
    """The order is carried out."""


class Failed(Answer, frozen=True):
    """The order is not carried out."""

    reason: str


# To the master


class Listen(Message, frozen=True):
    """Asks for the port on which the master expects workers: `Listening`."""


class Listening(Answer, frozen=True):
    port: int


class StartUsers(Message, frozen=True):
    """Asks for so many users on each of these workers, by Locust's client ids, and for none on any other."""

    users: Mapping[str, int]


class Dismiss(Message, frozen=True):
    """Asks the master to tell all workers that the run has ended."""


# From the master


class Joined(Message, frozen=True):
    """A worker of this harness has joined, or is back."""

    worker: str  # Locust's client id
    host: str
    process: int


class Refused(Message, frozen=True):
    """A worker was sent away."""

    reason: str


# To a worker


class Prepare(Message, frozen=True):
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
    connection_string: str
    handles: Sequence[str]  # one for each thread of the share
    timeout_s: float
    open_loop: OpenLoop | None

    def __repr__(self) -> str:
        return f"Prepare({self.cell!r}, {self.share!r})"  # without the connection string


class Start(Message, frozen=True):
    """Asks a worker to open the barrier."""

    clock_ahead_ns: int  # of the worker's machine, against the harness's: its times are moved by it


class Stop(Message, frozen=True):
    """Asks a worker to end the cell after each thread's current call: `Stopped`."""

    timeout_s: float


class Disconnect(Message, frozen=True):
    """Asks a worker to end a cell that failed and to close all connections of its threads."""

    timeout_s: float


class Stopped(Answer, frozen=True):
    """A worker's part of `LoadReport`."""

    started_at_ns: int
    stopped_at_ns: int
    sent: Sequence[int]  # by thread
    errors: Sequence[tuple[str, int]]
    problems: Sequence[str]
    health: GeneratorHealth
    calls_bytes: int  # of the file of its calls, which `Fetch` asks for


class Fetch(Message, frozen=True):
    """Asks for a piece of the file of the last cell's calls: `Piece`."""

    offset: int


class Piece(Answer, frozen=True):
    data: bytes  # PIECE_BYTES, or what is left


class ReadClock(Message, frozen=True):
    """Asks a worker for the time: `ClockRead`."""


class ClockRead(Answer, frozen=True):
    utc_ns: int


class WorkerProgress(Message, frozen=True):
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


class ServePage(Message, frozen=True):
    """Asks the master for Locust's web interface on this port of 127.0.0.1, which then sends the requests below."""

    port: int
    kind: str  # the name of the lab's kind
    lab: str  # what the page says it loads
    whose_numbers: str  # in a sentence
    initiators_max: int
    scenario: WebScenario = WebScenario()  # what the form asks for at first
    payloads: Sequence[int] = ()  # which the page suggests
    payload_is_mean: bool = False  # messages have sizes of their own
    begins_dialogs: bool = False  # a dialog for each message: no ratio


class MakeReady(Message, frozen=True):
    """Asks the sweep's process for a lab with dialogs and workers for a scenario: `Ready`."""

    scenario: WebScenario


class Ready(Answer, frozen=True):
    users: Mapping[str, int]  # by Locust's client ids of the workers


class BeginScenario(Message, frozen=True):
    """Asks the sweep's process to start the scenario's clients."""


class EndScenario(Message, frozen=True):
    """Asks the sweep's process to stop them: `Ended`."""


class Ended(Answer, frozen=True):
    problems: Sequence[str]


READY = "ready"  # the status in which the page waits for a scenario


class Status(Message, frozen=True):
    """A line for the page while the lab is made ready."""

    text: str


class WorkerLost(Message, frozen=True):
    """A worker has died, left or fallen silent."""

    worker: str
    reason: str


class Looked(Message, frozen=True):
    """What a look at the lab's instances has found (`harness.observe.looks`), for the page."""

    at_s: float  # since 1970
    charts: Mapping[str, Mapping[str, float]]
    monitors: Mapping[str, str]
    failures: Sequence[str]

    @classmethod
    def of(cls, look: Look) -> Looked:
        return cls(look.at_s, look.charts, look.monitors, look.failures)


PIECE_BYTES = 1 << 19

# Answers are subclasses of one kind, which is none itself.
_KINDS = (*(kind for kind in Message.__subclasses__() if kind is not Answer), *Answer.__subclasses__())


def _plain(value: Any) -> Any:
    if isinstance(value, Client):
        return value.model_dump(mode="json")
    if isinstance(value, str):
        return str(value)  # a connection string, whose type keeps it out of tracebacks
    raise TypeError(f"{type(value).__name__} goes in no message")


def _of_plain(kind: type[Any], value: Any) -> Any:
    return kind.model_validate(value) if kind is Client else value


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_DECODER: msgspec.json.Decoder[tuple[int, Any]] = msgspec.json.Decoder(
    tuple[int, functools.reduce(operator.or_, _KINDS)],  # type: ignore[misc]
    dec_hook=_of_plain,
)


def encode(message: Message, number: int = 0) -> bytes:
    return _ENCODER.encode((number, message)) + b"\n"


def decode(line: bytes | str) -> tuple[int, Any]:
    """Return the number and the message of a line; raises msgspec.ValidationError."""
    return _DECODER.decode(line)
