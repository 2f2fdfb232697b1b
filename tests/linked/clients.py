"""The clients of one instance, in a process of their own, which may be killed and begin anew at any moment.

`python -m tests.linked.clients SIDE JOURNAL SEED` connects as `LINKED_CONNECTION` says. All that a client must remember
is in the instance's tables. `JOURNAL` gets a line for each transaction whose end was confirmed. An initiator ends when the
file `JOURNAL.stop` exists and its dialogs have ended.
"""

import contextlib
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyodbc

from harness.lab.drivers import LOGIN_TIMEOUT_S

OPEN_DIALOGS = 20  # of an initiator
LENGTH_MAX = 12  # messages that an initiator sends in a dialog
PAUSE_S = 0.02  # between transactions
ROLLED_BACK = 0.05  # of transactions
LARGE = 0.02  # of messages
ANSWERS_EACH = 3  # messages
LOST = ("08", "HYT")  # states of errors: of the connection, and of a time-out
DIALOGS = "CREATE TABLE dbo.OpenDialogs (dialog uniqueidentifier PRIMARY KEY, length int, sent int)"
BEGIN = (
    "SET NOCOUNT ON; DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [{service}] TO SERVICE '{service}' "
    "ON CONTRACT [DEFAULT] WITH LIFETIME = 864000; INSERT dbo.OpenDialogs VALUES (@h, ?, 0); SELECT @h"
)
SEND = (
    "DECLARE @h uniqueidentifier = ?; SEND ON CONVERSATION @h (?); "
    "INSERT dbo.Sent (dialog, number, attempt) VALUES (?, ?, ?)"
)
TAKE = "INSERT dbo.Received (dialog, number, attempt) VALUES (?, ?, ?)"
RECEIVE = "RECEIVE TOP (20) conversation_handle, message_type_name, message_body FROM {queue}"


def body(dialog: str, number: int, *, is_last: bool, attempt: int, size: int) -> bytes:
    """A message whose receiver can compute all of it from its first line."""
    head = {"dialog": dialog, "number": number, "is_last": is_last, "attempt": attempt, "size": size}
    return json.dumps(head).encode() + b"\n" + random.Random(attempt).randbytes(size)


class Client:
    def __init__(self, service: str, queue: str, journal: Path, seed: str) -> None:
        self.service, self.queue = service, queue
        self.random = random.Random(seed)
        self._journal = journal.open("a", encoding="utf-8", buffering=1)
        self._rolled_back = False  # the transaction before: more in turn would be poison
        self.sent: list[int] = []
        self.received: list[int] = []

    def run(self, text: str) -> None:
        while True:
            try:
                with contextlib.closing(pyodbc.connect(text, autocommit=True, timeout=LOGIN_TIMEOUT_S)) as connection:
                    self.connection = connection
                    while not self.is_done():
                        self.transaction()
                        time.sleep(PAUSE_S)
                    return
            except pyodbc.Error as error:
                # A connection that is lost leaves the fate of its transaction to the tables; nothing else may go wrong.
                self.note("lost" if error.args[0].startswith(LOST) else "problem", error.args[-1])
                time.sleep(0.2)

    def note(self, kind: str, *values: object) -> None:
        if values:
            print(kind, *values, file=self._journal)

    def is_done(self) -> bool:
        return False

    def transaction(self) -> None:
        self.sent, self.received = [], []
        self.connection.execute("BEGIN TRANSACTION")
        self.work()
        self._rolled_back = not self._rolled_back and self.random.random() < ROLLED_BACK
        if self._rolled_back:
            self.connection.execute("ROLLBACK TRANSACTION")
            self.note("rolled_back", *self.sent)
        else:
            self.connection.execute("COMMIT TRANSACTION")
            self.note("sent", *self.sent)
            self.note("received", *self.received)

    def work(self) -> None:
        raise NotImplementedError

    def send(self, handle: str, dialog: str, number: int, *, is_last: bool) -> None:
        attempt = random.SystemRandom().getrandbits(62)
        size = self.random.randrange(20_000, 200_000) if self.random.random() < LARGE else self.random.randrange(200)
        sent = body(dialog, number, is_last=is_last, attempt=attempt, size=size)
        self.connection.execute(SEND, handle, sent, dialog, number, attempt)
        self.sent.append(attempt)

    def receive(self, statement: str) -> Iterator[tuple[str, str, dict[str, int]]]:
        """Receive messages, each with the kind and the head that its sender gave it."""
        for handle, message_type, received in self.connection.execute(statement).fetchall():
            kind = message_type.rpartition("/")[2]
            head = {}
            if kind == "DEFAULT":
                head = json.loads(received.partition(b"\n")[0])
                if received != body(**head):
                    self.note("problem", f"the body of message {head} was changed on the way")
                self.connection.execute(TAKE, head["dialog"], head["number"], head["attempt"])
                self.received.append(head["attempt"])
            elif kind != "EndDialog":
                self.note("problem", f"{kind} arrived: {received!r}")
            yield handle, kind, head


class Initiator(Client):
    def __init__(self, service: str, queue: str, journal: Path, seed: str) -> None:
        super().__init__(service, queue, journal, seed)
        self._stop = journal.with_suffix(".stop")

    def is_done(self) -> bool:
        return self._stop.exists() and not self.connection.execute("SELECT COUNT(*) FROM dbo.OpenDialogs").fetchval()

    def work(self) -> None:
        execute = self.connection.execute
        opened = {
            dialog: (length, sent) for dialog, length, sent in execute("SELECT * FROM dbo.OpenDialogs").fetchall()
        }
        if len(opened) < OPEN_DIALOGS and not self._stop.exists():
            length = self.random.randint(1, LENGTH_MAX)
            opened[execute(BEGIN.format(service=self.service), length).fetchval()] = length, 0
        unfinished = [dialog for dialog, (length, sent) in opened.items() if sent < length]
        for dialog in self.random.sample(unfinished, min(len(unfinished), 3)):
            length, sent = opened[dialog]
            execute("UPDATE dbo.OpenDialogs SET sent = ? WHERE dialog = ?", sent + 1, dialog)
            self.send(dialog, dialog, sent + 1, is_last=sent + 1 == length)
        for handle, kind, _ in self.receive(RECEIVE.format(queue=self.queue)):
            if kind != "DEFAULT":
                execute("END CONVERSATION ?", handle)
                execute("DELETE dbo.OpenDialogs WHERE dialog = ?", handle)


class Target(Client):
    def work(self) -> None:
        for handle, kind, head in self.receive(f"WAITFOR ({RECEIVE.format(queue=self.queue)}), TIMEOUT 500"):
            if kind == "DEFAULT" and (head["is_last"] or head["number"] % ANSWERS_EACH == 0):
                self.send(handle, str(head["dialog"]), head["number"], is_last=bool(head["is_last"]))
            if kind != "DEFAULT" or head["is_last"]:
                self.connection.execute("END CONVERSATION ?", handle)


if __name__ == "__main__":
    side, service, queue, journal, seed = sys.argv[1:]
    kind = Target if side == "target" else Initiator
    kind(service, queue, Path(journal), seed).run(os.environ["LINKED_CONNECTION"])
