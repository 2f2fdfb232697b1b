"""Statements in any order, with commits, rollbacks and savepoints: memory and disk agree."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness.embedded.errors import SqlServerError
from tests.embedded.broker.world import World, check_queue, snapshot
from tests.examples import share

PICK = st.integers(0, 30)


class AnyOrder(RuleBasedStateMachine):
    """One session with a transaction, and one that commits every statement."""

    @initialize(retention=st.booleans(), is_off=st.booleans())
    def set_up(self, retention, is_off):
        self.world = World()
        self.here = self.world.instance("here")
        self.here.alter_queue(retention=retention, poison_message_handling=False)
        self.tx, self.mark = None, None
        for count in range(3):
            self.here.send(self.here.begin(), bytes([count]))
        if is_off:
            self.here.alter_queue(status=False)
            self._try(self.here.send, self._pick(0), b"waits")
            self._try(self.here.send, self._pick(2), b"waits")

    def _try(self, statement, *args, **options):
        """Run a statement, ignore errors of SQL Server, and cancel it if it waits for the other session."""
        self._inside(lambda tx: statement(*args, tx=tx, **options))

    def _inside(self, call):
        tx = self.tx or self.here.engine.transactions.begin()
        tx.lock_timeout_ns = 1
        mark = tx.mark()
        try:
            call(tx)
        except SqlServerError:
            tx.rollback_to(mark)
        if tx is not self.tx:
            self.here.commit(tx)

    def _pick(self, number):
        handles = sorted(self.here.db.endpoints)
        return handles[number % len(handles)] if handles else None

    @rule(related=st.none() | PICK)
    def begin(self, related):
        other = self._pick(related) if related is not None else None
        self._try(self.here.begin, related_conversation=other)

    @rule(number=PICK, times=st.integers(1, 3))
    def send(self, number, times):
        handle = self._pick(number)
        for count in range(times if handle else 0):
            self._try(self.here.send, handle, bytes([count]))

    @rule(top=st.sampled_from([None, 1, 2]))
    def receive(self, top):
        self._try(self.here.receive, top=top)

    @rule(number=PICK)
    def receive_from(self, number):
        if handle := self._pick(number):
            self._try(self.here.receive, conversation_handle=handle)

    @rule(number=PICK, how=st.sampled_from([{}, {}, {"error": (1, "x")}, {"cleanup": True}]))
    def end(self, number, how):
        if handle := self._pick(number):
            self._try(self.here.end, handle, **how)

    @rule(number=PICK, other=PICK)
    def move(self, number, other):
        if handle := self._pick(number):
            group = self.here.endpoint(self._pick(other)).incoming.group.conversation_group_id
            db = self.here.db
            self._inside(lambda tx: self.here.run(self.here.engine.dialogs.move(tx, db, handle, group)))

    @rule(number=PICK, seconds=st.integers(1, 100))
    def timer(self, number, seconds):
        if handle := self._pick(number):
            db = self.here.db
            self._inside(lambda tx: self.here.run(self.here.engine.dialogs.begin_timer(tx, db, handle, seconds)))

    @rule(status=st.booleans())
    def switch_queue(self, status):
        if self.tx is None:
            self.here.alter_queue(status=status)

    @rule(seconds=st.sampled_from([0.01, 5, 50, 2000]))
    def time_passes(self, seconds):
        self.world.run_for(seconds)

    @rule(with_savepoint=st.booleans())
    def begin_transaction(self, with_savepoint):
        if self.tx is None:
            self.tx = self.here.engine.transactions.begin()
            self.mark = self.tx.mark() if with_savepoint else None

    @rule()
    def savepoint(self):
        if self.tx is not None:
            self.mark = self.tx.mark()

    @rule()
    def rollback_to_savepoint(self):
        if self.mark is not None:
            self.tx.rollback_to(self.mark)

    @rule(commits=st.booleans())
    def end_transaction_and_begin_another(self, commits):
        self.end_transaction(commits)
        self.begin_transaction(True)

    @rule(commits=st.booleans())
    def end_transaction(self, commits):
        if self.tx is not None:
            if commits:
                self.here.commit(self.tx)
            else:
                self.tx.rollback()
            self.tx = self.mark = None
            self.world.driver.settle()

    @rule()
    def crash(self):
        self.end_transaction(False)
        self.world.run_for(1)  # lets messages on their way arrive
        before = snapshot(self.here)
        self.here.crash()
        assert snapshot(self.here) == before
        assert not self._orphans()

    def _orphans(self):
        """Rows on disk that belong to no endpoint."""
        db = self.here.db
        handles = {
            key[0] if isinstance(key, tuple) else key
            for table, key in self.here.store.rows
            if table in {db.desend_table, db.dercv_table, db.xmit_table, db.endpoint_table}
        }
        return handles - set(db.endpoints)

    @invariant()
    def structures_agree(self):
        check_queue(self.here)

    def teardown(self):
        if hasattr(self, "here"):
            self.end_transaction(True)
            self.crash()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=share(100), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
