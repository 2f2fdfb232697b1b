"""The network against its arithmetic, and its faults."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.embedded.broker.frames import AcknowledgementFrame, DialogHeader, MessageFrame
from harness.embedded.runtime.tasks import SECOND
from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock, VirtualDriver
from harness.simulation import parameters
from harness.simulation.network import REFUSED, RESET, TIMED_OUT, Network
from tests.examples import share

US, MS = 1_000, 1_000_000
LATENCY_US, BITS_PER_S, OVERHEAD = 100, 800_000_000, 100  # 100 bytes a microsecond
HEADER = DialogHeader("S", None, "S", "guid", "C", None, False, None)
PORT = 5114
TARGET = ("target", PORT)


def message(sequence: int, size_bytes: int = 0) -> MessageFrame:
    """A frame of `size_bytes` and the overhead."""
    return MessageFrame("conversation", True, sequence, "M", bytes(size_bytes), False, 5, HEADER)


class Broker:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.arrived: list[tuple[float, str, int]] = []  # (when in us, from whom, sequence)
        self.states: list[tuple[float, str, bool, str]] = []

    def on_frames(self, peer: object, frames: Sequence[object]) -> None:
        self.arrived += [(self.clock.now_ns / US, str(peer), frame.sequence) for frame in frames]

    def on_connection_state(self, address: tuple[str, int], up: bool, error: str) -> None:
        quoted = error.removeprefix("Connection attempt failed with error: '").removesuffix("'.")
        self.states.append((self.clock.now_ns / US, address[0], up, quoted))

    def sequences(self) -> list[int]:
        return [sequence for _, _, sequence in self.arrived]


class Site:
    """Three initiators and a target that listens."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.driver = VirtualDriver(self.clock)
        given = parameters.NetworkParameters(
            latency_us=LATENCY_US, bits_per_s=BITS_PER_S, frame_overhead_bytes=OVERHEAD
        )
        self.network = Network(self.clock, SeededEntropy(seed), given)
        self.brokers: dict[str, Broker] = {}
        for name in ("initiator-1", "initiator-2", "initiator-3", "target"):
            self.start(name)

    def start(self, name: str) -> None:
        transport = self.network.transport(name, self.driver.scheduler())
        self.brokers[name] = Broker(self.clock)
        transport.broker = self.brokers[name]
        transport.listen("", PORT)

    def send(self, *frames: MessageFrame | AcknowledgementFrame, sender: str = "initiator-1") -> None:
        self.network.transports[sender].send(TARGET, frames)

    def run(self, seconds: float = 1.0) -> None:
        self.driver.run_for(seconds)

    @property
    def target(self) -> Broker:
        return self.brokers["target"]

    @property
    def initiator(self) -> Broker:
        return self.brokers["initiator-1"]


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_train_takes_the_latency_and_the_time_of_its_bytes(site):
    site.send(message(0, 900), message(1, 1_900))
    site.run()
    assert site.target.arrived == [(LATENCY_US + 30, "initiator-1", 0), (LATENCY_US + 30, "initiator-1", 1)]


def test_an_acknowledgement_has_only_its_overhead(site):
    site.send(AcknowledgementFrame("conversation", False, 7, "guid"))
    site.run()
    assert site.target.arrived == [(LATENCY_US + 1, "initiator-1", 7)]


def test_trains_of_one_sender_leave_one_after_another(site):
    for sequence in range(3):
        site.send(message(sequence, 900))
    site.run()
    assert [when for when, _, _ in site.target.arrived] == [LATENCY_US + 10, LATENCY_US + 20, LATENCY_US + 30]


def test_the_initiators_share_the_targets_port(site):
    for sender in ("initiator-1", "initiator-2", "initiator-3"):
        site.send(message(0, 900), sender=sender)
    site.run()
    assert [(when, sender) for when, sender, _ in site.target.arrived] == [
        (LATENCY_US + 10, "initiator-1"),
        (LATENCY_US + 20, "initiator-2"),
        (LATENCY_US + 30, "initiator-3"),
    ]


def test_trains_for_several_receivers_leave_through_the_senders_one_port(site):
    target = site.network.transports["target"]
    for receiver in ("initiator-1", "initiator-2"):
        target.send((receiver, PORT), [message(0, 900)])
    site.run()
    assert [site.brokers[name].arrived[0][0] for name in ("initiator-1", "initiator-2")] == [
        LATENCY_US + 10,
        LATENCY_US + 20,
    ]


def test_ports_are_full_duplex(site):
    site.send(message(0, 900))
    site.network.transports["target"].send(("initiator-1", PORT), [message(9, 900)])
    site.run()
    assert site.target.arrived == [(LATENCY_US + 10, "initiator-1", 0)]
    assert site.initiator.arrived == [(LATENCY_US + 10, "target", 9)]


@pytest.mark.parametrize("initiators", [1, 2, 3])
def test_frames_sent_faster_than_the_ports_arrive_at_the_rate_of_the_targets_port(site, initiators):
    senders = [f"initiator-{number + 1}" for number in range(initiators)]
    for number in range(1_000):
        for sender in senders:
            site.send(message(number, 8_092), sender=sender)
    site.run()
    last_us = max(when for when, _, _ in site.target.arrived)
    assert len(site.target.arrived) == 1_000 * initiators
    assert last_us == pytest.approx(LATENCY_US + 1_000 * initiators * 8_192 / 100, rel=1e-3)


def test_a_window_of_messages_is_limited_by_the_bandwidth_delay_product(site):
    """One kilobyte for each round trip: window / round trip, far below the port's rate."""
    sent = 0

    def answered(peer: object, frames: Sequence[object]) -> None:
        nonlocal sent
        sent += 1
        site.send(message(sent, 900))

    site.initiator.on_frames = answered
    site.target.on_frames = lambda peer, frames: site.network.transports["target"].send(
        ("initiator-1", PORT), [message(0)]
    )
    site.send(message(0, 900))
    site.run(0.5)
    round_trip_us = 2 * LATENCY_US + 10 + 1
    assert sent == pytest.approx(0.5e6 / round_trip_us, abs=1)


# Faults


def test_a_slow_link_delays_and_keeps_the_order(site):
    faults = site.network.link("initiator-1", "target").faults
    faults.extra_latency_ns = 5 * MS
    site.send(message(0))
    site.run(0.001)
    faults.extra_latency_ns = 0
    site.send(message(1))
    site.run()
    assert site.target.sequences() == [0, 1]
    assert site.target.arrived[0][0] == LATENCY_US + 1 + 5_000


def test_a_slow_link_does_not_delay_others(site):
    site.network.link("initiator-1", "target").faults.extra_latency_ns = 5 * MS
    site.send(message(0))
    site.send(message(1), sender="initiator-2")
    site.run()
    assert site.target.arrived[0] == (LATENCY_US + 2, "initiator-2", 1)


def test_a_duplicating_link_brings_frames_twice(site):
    faults = site.network.link("initiator-1", "target").faults
    faults.duplicate_share, faults.delay_max_ns = 0.5, MS
    for sequence in range(200):
        site.send(message(sequence))
    site.run()
    twice = len(site.target.arrived) - 200
    assert 60 < twice < 140
    assert set(site.target.sequences()) == set(range(200))


def test_frames_are_overtaken_on_a_link_that_delays_some(site):
    faults = site.network.link("initiator-1", "target").faults
    faults.delay_share, faults.delay_max_ns = 0.2, 5 * MS
    for sequence in range(200):
        site.send(message(sequence))
    site.run()
    arrived = site.target.sequences()
    assert sorted(arrived) == list(range(200)) and arrived != sorted(arrived)


def test_the_same_seed_gives_the_same_disorder():
    def disorder(seed: int) -> list[tuple[float, str, int]]:
        site = Site(seed)
        faults = site.network.link("initiator-1", "target").faults
        faults.delay_share, faults.duplicate_share, faults.delay_max_ns = 0.3, 0.3, 5 * MS
        for sequence in range(50):
            site.send(message(sequence))
        site.run()
        return site.target.arrived

    assert disorder(1) == disorder(1) != disorder(2)


def test_nothing_passes_a_cut_link_and_both_brokers_are_told(site):
    site.send(message(0))
    site.network.transports["target"].send(("initiator-1", PORT), [message(0)])
    site.network.cut("initiator-1", "target")
    site.send(message(1))
    site.run()
    site.send(message(2))
    site.run()
    assert site.target.arrived == [] and site.initiator.arrived == []
    assert site.initiator.states == [(LATENCY_US, "target", False, TIMED_OUT)]
    assert site.target.states == [(LATENCY_US, "initiator-1", False, TIMED_OUT)]
    site.network.join("initiator-1", "target")
    site.run()
    assert site.initiator.states[1:] == [(2e6 + LATENCY_US, "target", True, "")]
    site.send(message(3))
    site.run()
    assert site.target.sequences() == [3]


def test_others_are_not_cut_off(site):
    site.network.cut("initiator-1", "target")
    site.send(message(5), sender="initiator-2")
    site.run()
    assert site.target.sequences() == [5]
    assert site.brokers["initiator-2"].states == []


def test_a_computer_that_goes_down_loses_frames_on_the_way_and_comes_back(site):
    site.send(message(0))
    old = site.target
    site.network.down("target")
    site.run()
    site.send(message(1))
    site.run()
    assert old.arrived == []
    assert site.initiator.states == [(LATENCY_US, "target", False, RESET)]
    site.start("target")
    site.run()
    assert site.initiator.states[1][1:] == ("target", True, "")
    site.send(message(2))
    site.run()
    assert site.target.sequences() == [2]


def test_a_connection_without_a_listener_is_refused_once(site):
    site.network.transports["target"].stop()
    for sequence in range(3):
        site.send(message(sequence))
    site.run()
    assert [state[2:] for state in site.initiator.states] == [(False, REFUSED)]
    site.network.transports["target"].listen("", PORT)
    site.run()
    assert [state[2] for state in site.initiator.states] == [False, True]


def test_a_join_does_not_connect_to_a_computer_that_is_down(site):
    site.send(message(0))
    site.run()
    site.network.cut("initiator-1", "target")
    site.network.down("target")
    site.network.join("initiator-1", "target")
    site.run()
    assert [state[2] for state in site.initiator.states] == [False]
    site.start("target")
    site.run()
    assert [state[2] for state in site.initiator.states] == [False, True]


def test_a_computer_that_comes_back_behind_a_cut_is_not_reached(site):
    site.send(message(0))
    site.run()
    site.network.cut("initiator-1", "target")
    site.network.down("target")
    site.start("target")
    site.run()
    assert [state[2] for state in site.initiator.states] == [False]
    site.network.join("initiator-1", "target")
    site.run()
    assert [state[2] for state in site.initiator.states] == [False, True]


TRAINS = st.lists(
    st.tuples(st.integers(0, 2_000), st.integers(1, 3), st.lists(st.integers(0, 20_000), min_size=1, max_size=3)),
    min_size=1,
    max_size=20,
)


@settings(max_examples=share(100))
@given(trains=TRAINS)
def test_without_faults_each_senders_frames_arrive_in_order_and_no_faster_than_ports_are(trains):
    site, sent = Site(), {1: 0, 2: 0, 3: 0}
    for at_us, number, sizes in sorted(trains):

        def send(number: int = number, sizes: list[int] = sizes) -> None:
            frames = [message(sent[number] + place, size) for place, size in enumerate(sizes)]
            sent[number] += len(frames)
            site.send(*frames, sender=f"initiator-{number}")

        site.network.transports["target"].scheduler.call_at(at_us * US, send)
    site.run()
    for number in (1, 2, 3):
        of_one = [sequence for _, sender, sequence in site.target.arrived if sender == f"initiator-{number}"]
        assert of_one == list(range(sent[number]))
    size_bytes = sum(OVERHEAD + size for _, _, sizes in trains for size in sizes)
    busy_us = size_bytes * 8 * SECOND / BITS_PER_S / US
    last_us, first_us = max(when for when, _, _ in site.target.arrived), min(at_us for at_us, _, _ in trains)
    assert last_us >= first_us + LATENCY_US + busy_us - len(trains)
