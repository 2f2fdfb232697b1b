"""A store whose rows are in a data folder."""

import errno
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

import msgspec

from harness.embedded.runtime.tasks import Scheduler
from harness.embedded.store.disk import Disk
from harness.embedded.store.group_commit import ASIDE, Flush, Key, Store, StoreFull, Value, Write, Written
from harness.embedded.store.row_file import DATA, DamagedStore, Mark, PackedRow, RowFile, checked

GROWN_BYTES = 64 * 1024 * 1024  # of commits: with more, and more than there are rows, the rows are written anew
_FEW_WRITES = 8  # of a transaction, among which it is not worth looking for several of one row
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_pack: Callable[[Any], Any] = msgspec.msgpack.Encoder().encode  # `Flush.rows` of a file holds what it returns
_DECODER = msgspec.msgpack.Decoder()


def _unpacked(packed: bytes) -> Any:
    return _tuples(_DECODER.decode(packed))


def _tuples(value: Any) -> Any:
    """The value with tuples for arrays, at every depth."""
    return tuple(map(_tuples, value)) if type(value) is list else value


class Background(Protocol):
    """Where a store works while the loop goes on. `done` gets on the loop what the work returns."""

    def run(self, size_bytes: int, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        """Work that writes about so many bytes, in order."""
        ...

    def run_long(self, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        """Work beside that of `run`."""
        ...

    def close(self) -> None:
        """Return when all work has ended."""
        ...


class Threads:
    """Real time: a thread for the commits, and one for each long work. `call_soon` hands a callable to the loop."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._requests: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, name="store", daemon=True)]
        self._threads[0].start()

    def run(self, size_bytes: int, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        self._requests.put((work, on_done))

    def run_long(self, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        thread = threading.Thread(target=self._do, args=(work, on_done), name="store, long", daemon=True)
        self._threads[1:] = [thread]  # the last one has ended
        thread.start()

    def close(self) -> None:
        for thread in self._threads[1:]:
            thread.join()
        self._requests.put(None)
        self._threads[0].join()

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            self._do(*request)

    def _do(self, work: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        result = work()
        self._call_soon(lambda: on_done(result))


class FileStore(Store):
    """Rows in `broker.data`; keys and values in MessagePack.

    A flush is one commit of the file: written, made durable, and marked in the background. `lost` is called there, and
    nothing afterwards, when that fails in a way that leaves unknown what is on the disk. New files get the `identity`,
    random bytes.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        scheduler: Scheduler,
        background: Background,
        lost: Callable[[Exception], None],
        identity: bytes,
        may_be_new: bool = True,
        owner_of: Callable[[str], int] = lambda table: 0,
    ) -> None:
        """Without `may_be_new` a folder without files is a damaged one."""
        super().__init__(scheduler, owner_of)
        self._disk = disk
        self._background = background
        self._lost = lost
        self._is_lost = False
        self._is_rewriting = False
        self._grown_bytes = GROWN_BYTES
        self._file, self._mark = self._opened(identity, may_be_new=may_be_new)
        self.had_half_mark = self._mark.is_half_damaged

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever committed."""
        return self._file.number == 0

    def _opened(self, identity: bytes, *, may_be_new: bool) -> tuple[RowFile, Mark]:
        contents = checked(self._disk)
        if contents is None:
            if not may_be_new:
                raise DamagedStore(f"{DATA} is missing")
            file = RowFile.create(self._disk, identity, 0, ())
            file.sync()
            file.adopt(self._disk)
            return file, Mark.create(self._disk, identity)
        file, mark = contents
        if file.end > file.snapshot_end:
            file, old = RowFile.create(self._disk, file.identity, file.number, file.rows()), file
            file.sync()
            file.adopt(self._disk)
            old.close()
        else:
            file.cut()
        return file, mark

    def load(self) -> Iterator[tuple[str, Key, Value]]:
        for table, key, value in self._file.rows():
            assert value is not None
            if not table.startswith(ASIDE):
                yield table, _unpacked(key), _unpacked(value)

    def close(self) -> None:
        self._background.close()
        if self._next.rows and not self._is_lost:
            self._write(self._packed(self._next))
        with self._losing():
            self._mark.sync()
        self._mark.close()
        self._file.close()

    # On the loop

    def _rows_of(self, writes: Sequence[Write]) -> dict[tuple[str, Key], Written]:
        """Keys and rows are packed here, and not in the flush, which carries the writes of others too."""
        if len(writes) > _FEW_WRITES:  # several of one row, as when many messages of a dialog arrive at once
            writes = [(*place, row) for place, row in super()._rows_of(writes).items()]
        return {(table, _pack(key)): None if row is None else _pack(row) for table, key, row in writes}

    def _flush(self, flush: Flush) -> None:
        rows = self._packed(flush)
        size_bytes = sum(flush.bytes_by_owner.values())
        self._background.run(size_bytes, partial(self._write, rows), partial(self._written, flush))

    def _packed(self, flush: Flush) -> list[PackedRow]:
        sizes: defaultdict[str, int] = defaultdict(int)
        rows: list[PackedRow] = []
        for (table, key), row in flush.rows.items():
            rows.append((table, key, row))  # type: ignore[arg-type]
            sizes[table] += len(key) + len(row or b"")  # type: ignore[arg-type]
        self._count(flush, sizes)
        return rows

    def _written(self, flush: Flush, error: StoreFull | None) -> None:
        if self._is_lost:
            return
        file = self._file
        if not self._is_rewriting and file.end - file.snapshot_end > max(self._grown_bytes, file.snapshot_end):
            self._is_rewriting = True
            self._background.run_long(partial(self._rewrite, file.end, file.number), self._rewritten)
        self._finished(flush, error)

    def _rewritten(self, copy: tuple[RowFile, int] | None) -> None:
        if copy is not None:
            self._background.run(0, partial(self._change, *copy), self._changed)
        elif not self._is_lost:
            self._changed(False)

    def _changed(self, had_room: bool) -> None:
        self._is_rewriting = False
        # Without room the old file grows on, and it is tried again later.
        self._grown_bytes = GROWN_BYTES if had_room else 2 * self._grown_bytes

    # In the background

    def _write(self, rows: list[PackedRow]) -> StoreFull | None:
        file = self._file
        with self._losing():
            try:
                file.append(rows)
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                file.cut()
                return StoreFull(error.strerror)
            file.sync()
            self._mark.write(file.number, file.checksum)
        return None

    def _rewrite(self, end: int, number: int) -> tuple[RowFile, int] | None:
        """Write the rows as a commit left them, which ends at that byte, to a new file; None without room for that."""
        with self._losing():
            try:
                return RowFile.create(self._disk, self._file.identity, number, self._file.rows(end)), end
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
        return None

    def _change(self, new: RowFile, begin: int) -> bool:
        """Write the later commits, from that byte on, to the new file too, and use that if there was room."""
        old = self._file
        with self._losing():
            try:
                for rows, number in old.commits(begin):
                    new.append(rows, number)
                new.sync()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                new.discard()
                return False
            new.adopt(self._disk)
            self._file = new
            old.close()
        return True

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """After an error in the block nobody knows what is on the disk."""
        try:
            yield
        except (OSError, DamagedStore) as error:
            self._is_lost = True
            self._lost(error)
