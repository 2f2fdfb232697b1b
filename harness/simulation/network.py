"""The network of the simulated lab: full-duplex ports of a switch, and the connections between the brokers.

Frames that a broker sends together travel as one train: through the sender's port, over the wire and through the
receiver's port. A port passes one train after another, so several initiators share the bandwidth of the target's port.
A frame's size on the wire is its message's body plus `frame_overhead_bytes`.

Between two computers frames keep their order and none is lost, as with TCP, unless a fault is set on the link. When a
link is cut, a computer goes down or nobody listens, the sender's broker loses its connection, and later gets a
new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from harness.embedded.broker.engine import Engine
from harness.embedded.broker.frames import Frame, body_bytes
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND, Clock, Entropy, Scheduler
from harness.simulation.parameters import NetworkParameters

Address = tuple[str, int]

# Windows' texts, which sys.transmission_queue shows after "Connection attempt failed with error".
REFUSED = "10061(No connection could be made because the target machine actively refused it.)"
RESET = "10054(An existing connection was forcibly closed by the remote host.)"
TIMED_OUT = (
    "10060(A connection attempt failed because the connected party did not properly respond after a period of time, "
    "or established connection failed because connected host has failed to respond.)"
)


@dataclass
class LinkFaults:
    """The faults of a link in one direction; none by default."""

    extra_latency_ns: int = 0
    duplicate_share: float = 0.0  # of frames: they arrive twice
    delay_share: float = 0.0  # of frames: others overtake them
    delay_max_ns: int = 0  # greatest delay of such a frame, or of the second of two


class Network:
    """Computers by name, and their links. A broker endpoint has the address (computer, port)."""

    def __init__(self, clock: Clock, entropy: Entropy, network: NetworkParameters) -> None:
        self.clock = clock
        self.change_costs(network)
        self.entropy = entropy
        self._ports: dict[str, Port] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self.transports: dict[str, Transport] = {}  # of computers that are up
        self.listening: dict[Address, Transport] = {}

    def change_costs(self, network: NetworkParameters) -> None:
        self.latency_ns = int(network.latency_us * 1000)
        self._bits_per_s = network.bits_per_s
        self._frame_overhead_bytes = network.frame_overhead_bytes

    def transport(self, computer: str, scheduler: Scheduler) -> Transport:
        """Give the computer that is being started its transport."""
        assert computer not in self.transports, f"{computer} is up"
        transport = self.transports[computer] = Transport(self, computer, scheduler)
        return transport

    def down(self, computer: str) -> None:
        """Take a killed computer down: its connections break, and frames on the way to it are lost."""
        gone = self.transports.pop(computer)
        for address in [address for address, transport in self.listening.items() if transport is gone]:
            del self.listening[address]
        gone.is_up = False
        for transport in self.transports.values():
            transport.lost(computer, RESET)

    def cut(self, first: str, other: str) -> None:
        """Cut the link between two computers; frames on the way are lost."""
        for near, far in ((first, other), (other, first)):
            self.link(near, far).cut()
            if near in self.transports:
                self.transports[near].lost(far, TIMED_OUT)

    def join(self, first: str, other: str) -> None:
        """Join a cut link again."""
        for near, far in ((first, other), (other, first)):
            self.link(near, far).is_cut = False
            if near in self.transports:
                self.transports[near].try_again()

    def link(self, sender: str, receiver: str) -> Link:
        """Return the link in this direction, whose faults may be changed."""
        link = self._links.get((sender, receiver))
        if link is None:
            link = self._links[sender, receiver] = Link(sender, self._port(sender), self._port(receiver))
        return link

    def _port(self, computer: str) -> Port:
        return self._ports.setdefault(computer, Port())

    def carry(self, link: Link, receiver: Transport, frames: Sequence[Frame]) -> None:
        """Send a train through the sender's port."""
        size_bytes = self._frame_overhead_bytes * len(frames) + body_bytes(frames)
        through_ns = size_bytes * 8 * SECOND // self._bits_per_s
        port = link.sender_port
        now_ns = self.clock.now_ns
        if port.out_free_ns <= now_ns:
            port.out_free_ns = now_ns + through_ns
            self._through(link, receiver, frames, through_ns, link.cuts)
        else:
            begins_ns = port.out_free_ns
            port.out_free_ns += through_ns
            passing = partial(self._through, link, receiver, frames, through_ns, link.cuts)
            self.transports[link.sender].scheduler.call_at(begins_ns, passing)

    def _through(self, link: Link, receiver: Transport, frames: Sequence[Frame], through_ns: int, cuts: int) -> None:
        """Deliver a train that begins to leave the sender's port now.

        Latency is the same everywhere, so trains reach a receiver's port in the order in which they begin to leave, and
        the train's turn there is known here.
        """
        port, faults = link.receiver_port, link.faults
        first_bit_ns = self.clock.now_ns + self.latency_ns
        port.in_free_ns = arrived_ns = max(first_bit_ns, port.in_free_ns) + through_ns
        due_ns = link.last_due_ns = max(arrived_ns + faults.extra_latency_ns, link.last_due_ns)
        if faults.duplicate_share or faults.delay_share:
            self._disordered(link, receiver, frames, due_ns, cuts)
        else:
            receiver.scheduler.call_at(due_ns, partial(receiver.arrived, link, frames, cuts))

    def _disordered(self, link: Link, receiver: Transport, frames: Sequence[Frame], due_ns: int, cuts: int) -> None:
        faults = link.faults
        for frame in frames:
            arrivals_ns = [due_ns]
            if self._random() < faults.delay_share:
                arrivals_ns = [due_ns + int(self._random() * faults.delay_max_ns)]
            if self._random() < faults.duplicate_share:
                arrivals_ns.append(due_ns + int(self._random() * faults.delay_max_ns))
            for at_ns in arrivals_ns:
                receiver.scheduler.call_at(at_ns, partial(receiver.arrived, link, [frame], cuts))

    def _random(self) -> float:
        """Draw a number from 0 to 1, 1 excluded."""
        return int.from_bytes(self.entropy.random_bytes(4), "big") / 2**32


class Transport:
    """The transport of an engine while its computer is up (`broker.engine.Transport`)."""

    broker: Engine  # assigned before it recovers

    def __init__(self, network: Network, computer: str, scheduler: Scheduler) -> None:
        self.computer = computer
        self.scheduler = scheduler
        self.is_up = True
        self._network = network
        self._peers: dict[Address, bool] = {}  # to which this one has sent; whether the connection is up

    def listen(self, host: str, port: int) -> None:
        """Listen at the computer's name, whatever the host."""
        self.stop()
        self._network.listening[self.computer, port] = self
        for transport in self._network.transports.values():
            transport.try_again()

    def stop(self) -> None:
        listening = self._network.listening
        for address in [address for address, transport in listening.items() if transport is self]:
            del listening[address]
            for other in self._network.transports.values():
                other.lost(address[0], RESET)

    def send(self, address: Address, frames: Sequence[Frame]) -> None:
        network = self._network
        receiver = network.listening.get(address)
        link = network.link(self.computer, address[0])
        if receiver is not None and not link.is_cut:
            self._peers[address] = True
            network.carry(link, receiver, frames)
        elif self._peers.get(address, True):
            self._break(address, TIMED_OUT if link.is_cut else REFUSED)

    def lost(self, computer: str, error: str) -> None:
        """Break the connections to a computer."""
        for address, is_there in self._peers.items():
            if is_there and address[0] == computer:
                self._break(address, error)

    def try_again(self) -> None:
        """Reconnect where a peer listens again or a link is whole again."""
        network = self._network
        for address, is_there in self._peers.items():
            if not is_there and address in network.listening and not network.link(self.computer, address[0]).is_cut:
                self._peers[address] = True
                self._tell(address, True, "")

    def arrived(self, link: Link, frames: Sequence[Frame], cuts: int) -> None:
        if self.is_up and link.cuts == cuts:
            self.broker.on_frames(link.sender, frames)

    def _break(self, address: Address, error: str) -> None:
        self._peers[address] = False
        self._tell(address, False, error)

    def _tell(self, address: Address, is_up: bool, error: str) -> None:
        # Later, because the broker is in the middle of sending.
        at_ns = self._network.clock.now_ns + self._network.latency_ns
        status = SqlServerError(9754, error).text if error else ""
        self.scheduler.call_at(at_ns, partial(self.broker.on_connection_state, address, is_up, status))


@dataclass(slots=True)
class Port:
    """When a computer's port becomes free, in each direction."""

    in_free_ns: int = 0
    out_free_ns: int = 0


@dataclass(slots=True)
class Link:
    """One direction between two computers."""

    sender: str
    sender_port: Port
    receiver_port: Port
    faults: LinkFaults = field(default_factory=LinkFaults)
    is_cut: bool = False
    cuts: int = 0  # frames sent before a cut do not arrive after it
    last_due_ns: int = 0

    def cut(self) -> None:
        self.is_cut = True
        self.cuts += 1
