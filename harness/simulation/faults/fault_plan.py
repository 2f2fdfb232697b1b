"""Make the plan of a seed: the scenario and its faults, decided before anything runs."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from harness.embedded.broker.transmission import WINDOW
from harness.embedded.runtime.virtual import SeededEntropy
from harness.simulation.dice import Dice
from harness.simulation.faulty_disk import Damage, DiskFault
from harness.simulation.world import derived_seed

INITIATORS_MAX = 2
THREADS_MAX = 3  # for each initiator
FAULTS_MAX = 6
LOAD_S = 10.0  # how long the clients send if nothing delays them
TARGET = "target"


class Kind(StrEnum):
    """Kinds of faults."""

    KILLED = "instance killed"
    CUT = "link cut"
    SLOW = "link slow"
    DUPLICATING = "link duplicating"
    REORDERING = "link reordering"
    SLOW_LOG = "slow log"
    POISON = "poison message"
    FAILING = "activation procedure fails"
    DISK = "disk fails"
    FULL = "disk full"
    DAMAGED = "disk damaged"


class Failure(StrEnum):
    """How an activated procedure fails."""

    BEFORE = "before it receives"  # the queue monitor stays NOTIFIED
    AFTER = "after it has received"  # and rolls back: five times, then the queue is disabled
    MISSING = "it is not there"


class Aim(StrEnum):
    """The moment a kill waits for, so that the instance is not idle."""

    CALLS = "in a call"
    WIRE = "as messages travel"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    at_s: float
    duration_s: float  # 0: an event, which the operator ends
    where: str  # an instance, or the initiator at the end of the link
    strength: float = 0.0  # factor, probability or seconds, depending on the kind
    failure: Failure | None = None
    aim: Aim | None = None
    disk: DiskFault | Damage | None = None

    @property
    def needs_operator(self) -> bool:
        """Whether it may roll the activated procedure back so often that its queue is disabled."""
        return self.kind in {Kind.POISON, Kind.FAILING} or (self.kind is Kind.FULL and self.where == TARGET)

    def __str__(self) -> str:
        how = "".join(f" {detail.value}" for detail in (self.failure, self.aim, self.disk) if detail)
        strength = f", {self.strength:.3g}" if self.strength else ""
        duration = f" for {self.duration_s:.3f} s" if self.duration_s else ""
        return f"{self.kind.value}{how}: {self.where}{strength}{duration}"


@dataclass(frozen=True, slots=True)
class PlannedClient:
    """A client thread, which sends messages one after the other, with pauses."""

    initiator: int
    thread: int
    messages: int
    pause_s: float  # greatest pause between two messages
    size_bytes: int
    on_new_dialog: bool  # a dialog for every message; else the thread has one from the pool


@dataclass(frozen=True, slots=True)
class Receiver:
    """How the target receives."""

    is_the_labs: bool  # the procedure of sql/; else the one that records what it read
    top: int
    hold_s: float  # how long a transaction is kept open
    readers: int


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    clients: tuple[PlannedClient, ...]
    receiver: Receiver
    faults: tuple[Fault, ...]

    def lines(self) -> list[str]:
        receiver = self.receiver
        receiver_words = (
            "the lab's procedure" if receiver.is_the_labs else f"TOP ({receiver.top}), {receiver.hold_s:.3f} s a time"
        )
        lines = [f"target: {receiver_words}, up to {receiver.readers} readers"]
        for client in self.clients:
            dialog = "a dialog a message" if client.on_new_dialog else "one dialog"
            lines.append(
                f"initiator {client.initiator}, thread {client.thread}: {client.messages} messages of "
                f"{client.size_bytes} bytes, pauses up to {client.pause_s:.3f} s, {dialog}"
            )
        return lines


def make(seed: int) -> Plan:
    """Make the plan of a seed."""
    dice = Dice(SeededEntropy(derived_seed(seed, "plan")))
    initiators = dice.integer(1, INITIATORS_MAX)
    # Messages are most likely lost or repeated when an instance dies, so kills are more frequent.
    often = (*Kind, *(3 * [Kind.KILLED]))
    chosen = [dice.one_of(often) for _ in range(dice.integer(1, FAULTS_MAX))]
    clients = tuple(
        _client(dice, initiator, thread)
        for initiator in range(1, initiators + 1)
        for thread in range(1, dice.integer(1, THREADS_MAX) + 1)
    )
    places = [f"initiator-{number}" for number in range(1, initiators + 1)]
    faults: dict[tuple[Kind, str, float], Fault] = {}
    for kind in chosen:
        fault = _FAULTS[kind](dice, places)
        # An instance may be killed several times; of other kinds there is one at each place.
        faults.setdefault((kind, fault.where, fault.at_s if kind is Kind.KILLED else 0.0), fault)
    needs_witness = any(fault.needs_operator for fault in faults.values())
    receiver = Receiver(
        is_the_labs=not needs_witness and dice.happens(0.25),
        top=dice.one_of((1, 3, 10_000)),
        hold_s=dice.one_of((0.0, 0.005, 0.05, 0.3)),
        readers=dice.one_of((1, 2, 4)),
    )
    return Plan(seed, clients, receiver, tuple(sorted(faults.values(), key=lambda fault: fault.at_s)))


def _client(dice: Dice, initiator: int, thread: int) -> PlannedClient:
    messages = dice.integer(4, 24)
    # Some clients send in a burst, a few of them more than a conversation may have on the wire; the others send as long
    # as the faults last.
    is_burst = dice.happens(0.25)
    if is_burst and dice.happens(0.2):
        messages = dice.integer(WINDOW + 1, 2 * WINDOW)
    return PlannedClient(
        initiator,
        thread,
        messages,
        pause_s=0.001 if is_burst else 2 * LOAD_S / messages,
        size_bytes=dice.one_of((32, 100, 2000, 9000)),
        # The first thread has a dialog from the pool, which poison needs.
        on_new_dialog=thread > 1 and dice.happens(0.3),
    )


def _killed(dice: Dice, places: list[str]) -> Fault:
    where = dice.one_of([TARGET, TARGET, *places])
    aim = dice.one_of((None, Aim.WIRE, Aim.WIRE) if where == TARGET else (None, Aim.CALLS, Aim.CALLS, Aim.WIRE))
    # Delay after what an aimed kill waits for; a flush of the log takes some milliseconds.
    after_s = dice.between(0, 0.008) if aim else 0.0
    return Fault(Kind.KILLED, _moment(dice), dice.one_of((0.001, 0.5, 8.0)), where, after_s, aim=aim)


# Bounds of the duration and of the strength of a fault of a link; None: it has no strength.
_LINK_FAULTS: dict[Kind, tuple[tuple[float, float], tuple[float, float] | None]] = {
    Kind.CUT: ((0.05, 30), None),
    Kind.SLOW: ((1, 15), (0.01, 3)),
    Kind.DUPLICATING: ((1, 15), (0.1, 0.9)),
    Kind.REORDERING: ((1, 15), (0.01, 6)),
}


def _of_link(kind: Kind, dice: Dice, places: list[str]) -> Fault:
    durations_s, strengths = _LINK_FAULTS[kind]
    at_s, duration_s, where = _moment(dice), dice.between(*durations_s), dice.one_of(places)
    return Fault(kind, at_s, duration_s, where, dice.between(*strengths) if strengths else 0.0)


def _slow_log(dice: Dice, places: list[str]) -> Fault:
    where = dice.one_of([TARGET, *places])
    return Fault(Kind.SLOW_LOG, _moment(dice), dice.between(1, 10), where, dice.between(10, 1000))


def _poison(dice: Dice, places: list[str]) -> Fault:
    return Fault(Kind.POISON, dice.between(0, LOAD_S / 2), 0.0, dice.one_of(places))


def _failing(dice: Dice, places: list[str]) -> Fault:
    failure = dice.one_of(tuple(Failure))
    return Fault(Kind.FAILING, _moment(dice), dice.between(0.5, 20), TARGET, failure=failure)


def _disk(dice: Dice, places: list[str]) -> Fault:
    fault = dice.one_of((DiskFault.SHORT_WRITE, DiskFault.FAILING_WRITE, DiskFault.FAILING_SYNC, DiskFault.POWER))
    where, after_s = dice.one_of([TARGET, *places]), dice.one_of((0.001, 0.5, 8.0))
    return Fault(Kind.DISK, _moment(dice), after_s, where, disk=fault)


def _full(dice: Dice, places: list[str]) -> Fault:
    return Fault(Kind.FULL, _moment(dice), dice.between(0.05, 5), dice.one_of([TARGET, *places]))


def _damaged(dice: Dice, places: list[str]) -> Fault:
    where, damage = dice.one_of([TARGET, *places]), dice.one_of(tuple(Damage))
    return Fault(Kind.DAMAGED, _moment(dice), dice.one_of((0.001, 0.5)), where, dice.between(0, 1), disk=damage)


def _moment(dice: Dice) -> float:
    return dice.between(0.0, LOAD_S)


_FAULTS: dict[Kind, Callable[[Dice, list[str]], Fault]] = {
    Kind.KILLED: _killed,
    **{kind: partial(_of_link, kind) for kind in _LINK_FAULTS},
    Kind.SLOW_LOG: _slow_log,
    Kind.POISON: _poison,
    Kind.FAILING: _failing,
    Kind.DISK: _disk,
    Kind.FULL: _full,
    Kind.DAMAGED: _damaged,
}
