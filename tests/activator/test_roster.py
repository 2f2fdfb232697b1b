"""Which processes of a queue are started, and when."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.activator.roster import PAUSE_MAX_S, PAUSE_S, STEADY_S, Roster
from tests.examples import share


class AnyOrder(RuleBasedStateMachine):
    """Notifications, starts, ends and crashes in any order."""

    @initialize(least=st.integers(0, 3), more=st.integers(0, 3))
    def begin(self, least: int, more: int) -> None:
        self.roster = Roster(least, max(1, least + more))
        self.now_s = 100.0
        self.processes = 0
        self.notifications = 0

    def start_due(self) -> None:
        for _ in range(self.roster.due(self.now_s)):
            self.processes += 1
            self.roster.started(self.processes, self.now_s)

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.start_due()

    @rule()
    def a_notification_asks_for_one_more(self) -> None:
        before, room = len(self.roster.running), len(self.roster.running) < self.roster.most
        self.notifications += 1
        assert self.roster.notified(str(self.notifications))
        if room and self.now_s >= self.roster.not_before_s:
            assert self.roster.due(self.now_s) >= 1
            self.start_due()
            assert len(self.roster.running) > before

    @precondition(lambda self: self.notifications)
    @rule()
    def a_notification_that_arrives_twice_changes_nothing(self) -> None:
        before = (self.roster.owed, self.roster.due(self.now_s))
        assert not self.roster.notified(str(self.notifications))
        assert (self.roster.owed, self.roster.due(self.now_s)) == before

    @precondition(lambda self: self.roster.running)
    @rule(data=st.data(), crashed=st.booleans())
    def a_process_ends(self, data: st.DataObject, crashed: bool) -> None:
        process = data.draw(st.sampled_from(sorted(self.roster.running)))
        self.roster.ended(process, self.now_s, crashed=crashed)
        if crashed:
            assert self.now_s + PAUSE_S <= self.roster.not_before_s <= self.now_s + PAUSE_MAX_S
            assert self.roster.due(self.now_s) == 0
            assert self.roster.due(self.roster.not_before_s) >= 1

    @precondition(lambda self: self.roster.due(self.now_s))
    @rule()
    def the_machine_refuses_to_start_one(self) -> None:
        self.roster.not_started(self.now_s)
        assert self.roster.due(self.now_s) == 0
        assert self.roster.due(self.roster.not_before_s) >= 1

    @invariant()
    def never_more_than_most_and_soon_at_least_least(self) -> None:
        if hasattr(self, "roster"):
            running = len(self.roster.running)
            for moment_s in (self.now_s, self.roster.not_before_s):
                assert 0 <= self.roster.due(moment_s) <= self.roster.most - running
            assert running + self.roster.due(self.roster.not_before_s) >= self.roster.least


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=share(40), stateful_step_count=25)


def started(roster: Roster, *processes: int) -> Roster:
    for process in processes:
        roster.started(process, 0.0)
    return roster


def test_the_first_process_needs_no_notification():
    """Its notification may have been lost with the last activator."""
    assert Roster(0, 4).due(0.0) == 1
    assert Roster(3, 4).due(0.0) == 3
    assert started(Roster(0, 4), 1).due(0.0) == 0


def test_a_notification_that_finds_the_most_processes_starts_one_when_one_has_ended():
    roster = started(Roster(0, 1), 1)
    assert roster.notified("a")
    assert roster.due(0.0) == 0
    roster.ended(1, 1.0, crashed=False)
    assert roster.due(1.0) == 1
    roster.started(2, 1.0)
    roster.ended(2, 2.0, crashed=False)
    assert roster.due(2.0) == 0


def test_the_pause_doubles_with_each_crash_in_a_row_and_begins_again_after_a_steady_run():
    roster = Roster(0, 1)
    now_s, pauses = 0.0, []
    for process in range(8):
        roster.started(process, now_s)
        roster.ended(process, now_s, crashed=True)
        pauses.append(roster.not_before_s - now_s)
        now_s = roster.not_before_s
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    roster.started(9, now_s)
    roster.ended(9, now_s + STEADY_S, crashed=True)
    assert roster.not_before_s - (now_s + STEADY_S) == PAUSE_S
