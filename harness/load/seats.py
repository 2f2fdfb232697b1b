"""Which native thread each Locust user of a worker has."""

from harness.load.threads import ClientThread, ThreadState


class Seats:
    """The users of this worker in the order in which they started, each with its thread; and the parked threads."""

    def __init__(self) -> None:
        self._taken: dict[int, ClientThread] = {}  # by ordinal of the user
        self._parked: list[ClientThread] = []
        self._next_ordinal = 0

    def take(self) -> int:
        """Give a user the thread that was parked last, or a new one; the user's ordinal."""
        ordinal, self._next_ordinal = self._next_ordinal, self._next_ordinal + 1
        self._taken[ordinal] = self._parked.pop() if self._parked else ClientThread()
        return ordinal

    def leave(self, ordinal: int) -> None:
        thread = self._taken.pop(ordinal)
        thread.park()
        if thread.state is ThreadState.PARKED:
            self._parked.append(thread)

    @property
    def threads(self) -> list[ClientThread]:
        """Thread k of a cell is that of the k-th user: users that stay keep their order."""
        return list(self._taken.values())

    @property
    def all_threads(self) -> list[ClientThread]:
        """Those of users and the parked ones."""
        return [*self._taken.values(), *self._parked]

    def replace(self, stuck: ClientThread) -> None:
        """Abandon a thread that does not return; its user gets a new one."""
        for ordinal, thread in self._taken.items():
            if thread is stuck:
                thread.retire()
                self._taken[ordinal] = ClientThread()
