"""Feeds two brokers frames that a hostile peer might send, in virtual time.

The peer passed the handshake and knows every conversation: it takes frames that the brokers would accept, puts values
of the wrong type, size or meaning into them, and damages their bytes. The brokers may refuse what it sends; no task of
theirs may end, they must start again from their disks with every row readable, and a new dialog must work.

    python -m tests.embedded.broker.frame_fuzzer --seed 1 --rounds 10000
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.embedded.broker import system_objects
from harness.embedded.broker.frames import Frame, pack_frames, unpack_frames
from harness.embedded.broker.keys import Keys
from tests.embedded.broker.world import C, Instance, M, S, World, bodies

ROUNDS_BETWEEN_CRASHES = 20
STRANGE_GUID = "00000000-0000-0000-0000-000000000000"
VALUES: list[Any] = [
    *(None, True, False, 1.5, float("nan"), [], [[]], {}, {"a": 1}, [None] * 300),
    *(-1, 0, 1, 2, 3, 7, 64, 1025, -8462, 2**31, 2**63 - 1, 2**64 - 1, -(2**63), -(2**31)),
    *("", "x", "x" * 300, "\0", "\r\n", "😀" * 100, STRANGE_GUID, STRANGE_GUID.lower()[:-1] + "f", STRANGE_GUID + "\n"),
    *(b"", b"text", b"\xff" * 10, b"<a>", "<a/>".encode("utf-16-le"), bytes(70_000)),
    *(S, C, M, "DEFAULT", "db", *(name for _, name, _ in system_objects.MESSAGE_TYPES)),
]


@dataclass
class Outcome:
    refused: int = 0  # records
    taken: int = 0  # frames


class FrameFuzzer:
    def __init__(self, seed: int, make_keys: Callable[[], Keys] | None = None) -> None:
        self.random = random.Random(seed)
        self.is_encrypted = make_keys is not None
        self.world = World(make_keys=make_keys) if make_keys is not None else World()
        self.pair = self.world.pair()
        if self.is_encrypted:
            self.world.secure(*self.pair)
            self.world.bind(*self.pair[::-1])
        self.outcome = Outcome()

    def run(self, rounds: int) -> Outcome:
        for number in range(rounds):
            self._round()
            if number % ROUNDS_BETWEEN_CRASHES == 0:
                self._start_again()
        self._start_again()
        return self.outcome

    def _round(self) -> None:
        choice = self.random.choice
        initiator, target = choice([self.pair, self.pair[::-1]])
        if choice([True, False, False]):
            lifetime_s = choice([None, 60])
            handle = self.world.dialog(initiator, target, lifetime_s=lifetime_s, encryption=self.is_encrypted)
            for _ in range(choice([1, 1, 3])):
                initiator.send(handle, b"0")
        self.world.run_for(0.01)
        for victim in self.pair:
            record = self._record()
            try:
                frames = unpack_frames(record)
            except ValueError:
                self.outcome.refused += 1
            else:
                self.outcome.taken += len(frames)
                victim.engine.on_frames("peer", frames)
        self.world.run_for(0.01)
        for victim in self.pair:
            if choice([True, False]):
                victim.receive_all()
        del self.world.network.sent[:-50]

    def _record(self) -> bytes:
        """Frames that were on the wire, with some values replaced, and perhaps with damaged bytes."""
        known: list[Frame] = [frame for _, frame in self.world.network.sent[-50:]]
        entries: list[Any] = []
        for frame in self.random.choices(known, k=self.random.randint(1, 3)) if known else []:
            entry = msgspec.msgpack.decode(pack_frames([frame]))[0]
            for _ in range(self.random.choice([0, 1, 1, 1, 2])):
                fields = entry
                place = self.random.randrange(len(fields))
                if isinstance(fields[place], list) and fields[place] and self.random.random() < 0.8:
                    fields = fields[place]
                    place = self.random.randrange(len(fields))
                fields[place] = self._value_like(fields[place])
                if not isinstance(entry[-1], list):
                    break
            entries.append(entry)
        record = bytearray(msgspec.msgpack.encode(entries))
        if self.random.random() < 0.1:
            for _ in range(self.random.randint(1, 5)):
                record[self.random.randrange(len(record))] = self.random.randrange(256)
        return bytes(record)

    def _value_like(self, before: Any) -> Any:
        """A value to put into a field: three times out of four of its type."""
        alike = [value for value in VALUES if type(value) is type(before)]
        return self.random.choice(alike if alike and self.random.random() < 0.75 else VALUES)

    def _start_again(self) -> None:
        self.world.run_for(1)
        for instance in self.pair:
            instance.crash()
            assert not instance.engine.rows_set_aside, list(instance.engine.error_log.lines)
        for one, other in (self.pair, self.pair[::-1]):
            self._probe(one, other)

    def _probe(self, initiator: Instance, target: Instance) -> None:
        """Send a message on a new dialog, which must arrive."""
        handle = self.world.dialog(initiator, target, encryption=self.is_encrypted)
        initiator.send(handle, b"probe")
        self.world.run_for(1)
        assert b"probe" in bodies(target.receive_all())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--rounds", type=int, default=10_000)
    given = options.parse_args()
    print(f"seed {given.seed}, {given.rounds} rounds")
    print(FrameFuzzer(given.seed).run(given.rounds))


if __name__ == "__main__":
    main()
