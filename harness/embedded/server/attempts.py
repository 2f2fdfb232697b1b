"""Guessing of passwords is slowed, for each login from each address.

An attempt takes a token of its pair and gets it back if the password is right, so clients that know it never wait, how
many connections they may open at once. Ten wrong passwords use the tokens up; from then on the pair has one attempt a
second, in the order in which they came, whether the password is right or not: otherwise the answer that comes at once
would be the right one.
"""

import asyncio
from collections import OrderedDict, deque

BURST = 10  # wrong passwords before the pair has to wait
INTERVAL_S = 1.0  # between attempts then
PAIRS_MAX = 10_000  # remembered; the one that was used longest ago is forgotten first

Pair = tuple[str, str]  # the login, in lower case, and the address of the client


class _Bucket:
    __slots__ = ("filled_s", "timer", "tokens", "waiting")

    def __init__(self, now_s: float) -> None:
        self.tokens = float(BURST)
        self.filled_s = now_s
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.timer: asyncio.TimerHandle | None = None


class Attempts:
    """The login attempts of an instance, on one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: OrderedDict[Pair, _Bucket] = OrderedDict()

    def take(self, pair: Pair) -> bool:
        """Take a token if there is one now and nobody waits for it."""
        bucket = self._bucket(pair)
        if bucket.waiting or bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    async def wait(self, pair: Pair) -> None:
        """Take a token when it is this attempt's turn."""
        bucket = self._bucket(pair)
        turn = self._loop.create_future()
        bucket.waiting.append(turn)
        self._serve(bucket)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in bucket.waiting:
                bucket.waiting.remove(turn)
            raise

    def give_back(self, pair: Pair) -> None:
        """The password was right."""
        bucket = self._bucket(pair)
        bucket.tokens = min(BURST, bucket.tokens + 1)
        self._serve(bucket)

    def _bucket(self, pair: Pair) -> _Bucket:
        now_s = self._loop.time()
        bucket = self._buckets.get(pair)
        if bucket is None:
            bucket = self._buckets[pair] = _Bucket(now_s)
            if len(self._buckets) > PAIRS_MAX:
                self._forget_one()
        self._buckets.move_to_end(pair)
        bucket.tokens = min(BURST, bucket.tokens + (now_s - bucket.filled_s) / INTERVAL_S)
        bucket.filled_s = now_s
        return bucket

    def _forget_one(self) -> None:
        oldest = next((pair for pair, bucket in self._buckets.items() if not bucket.waiting), None)
        if oldest is not None:
            del self._buckets[oldest]

    def _serve(self, bucket: _Bucket) -> None:
        """Let the first in line have their turn, as many as there are tokens, and come back for the next."""
        while bucket.waiting and bucket.tokens >= 1:
            turn = bucket.waiting.popleft()
            if not turn.done():
                bucket.tokens -= 1
                turn.set_result(None)
        if bucket.waiting and bucket.timer is None:
            delay_s = (1 - bucket.tokens) * INTERVAL_S
            bucket.timer = self._loop.call_later(delay_s, self._refill, bucket)

    def _refill(self, bucket: _Bucket) -> None:
        bucket.timer = None
        now_s = self._loop.time()
        bucket.tokens = min(BURST, bucket.tokens + (now_s - bucket.filled_s) / INTERVAL_S)
        bucket.filled_s = now_s
        self._serve(bucket)
