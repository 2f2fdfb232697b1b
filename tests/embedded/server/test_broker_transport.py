"""Frames between brokers over real sockets on the loopback interface."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import pytest

from harness.embedded.broker.environment import Counters
from harness.embedded.broker.frames import AcknowledgementFrame, Frame
from harness.embedded.server import broker_transport
from harness.embedded.server.broker_handshake import MESSAGE_SIZE_MAX
from harness.embedded.server.broker_transport import BrokerTransport, RecordReader, pack_records
from tests.embedded.server.broker_sides import EndpointLink, Impostor, acquainted

HOST = "127.0.0.1"
ID = "0F8FAD5B-D9CB-469F-A165-70867728950E"


class Broker:
    """A broker that keeps the frames and states it receives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.link = EndpointLink(name)
        self.counters = Counters()
        self.received: list[tuple[object, list[Frame]]] = []
        self.states: list[tuple[tuple[str, int], bool, str]] = []

    def on_frames(self, peer: object, frames: list[Frame]) -> None:
        self.received.append((peer, list(frames)))

    def on_connection_state(self, address: tuple[str, int], up: bool, error: str) -> None:
        self.states.append((address, up, error))

    @property
    def frames(self) -> list[Frame]:
        return [frame for _, frames in self.received for frame in frames]


def frame(sequence: int, broker_instance: str = "b") -> AcknowledgementFrame:
    return AcknowledgementFrame(ID, True, sequence, broker_instance)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)


def transport_of(broker: Broker) -> BrokerTransport:
    transport = BrokerTransport(asyncio.get_running_loop(), host=HOST, run=lambda: None)
    transport.broker = broker
    return transport


@contextlib.asynccontextmanager
async def transports(*brokers: Broker):
    """A transport for each broker; all accept each other."""
    acquainted(*(broker.link for broker in brokers))
    made = [transport_of(broker) for broker in brokers]
    yield made
    for transport in made:
        transport.stop()
    await asyncio.sleep(0)


async def answer_to(sent: bytes, listening) -> bytes:
    """What a peer gets that sends this, until it is disconnected."""
    port = free_port()
    listening.listen("", port)
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(sent)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


def test_frames_arrive_in_order_with_the_name_of_their_sender():
    async def scenario() -> None:
        initiator, target = Broker("initiator"), Broker("target")
        async with transports(initiator, target) as (sending, listening):
            address = (HOST, free_port())
            listening.listen("", address[1])
            for sequence in range(1000):
                sending.send(address, [frame(sequence)])
            await until(lambda: len(target.frames) == 1000)
            assert target.frames == [frame(sequence) for sequence in range(1000)]
            assert {peer for peer, _ in target.received} == {"initiator"}
            assert initiator.states == [(address, True, "")]
            assert len(target.received) < 100  # many frames in a record
            [sent], [received] = sending.connections(), listening.connections()
            assert (sent.is_accept, received.is_accept) == (False, True)
            assert sent.total_fragments_sent == received.total_fragments_received == 1000
            assert 0 < sent.total_sends < 100 and 0 < received.total_receives < 1000
            assert sent.total_bytes_sent == received.total_bytes_received > 1000
            assert initiator.counters.bytes_sent == target.counters.bytes_received == sent.total_bytes_sent
            assert (sent.peer_certificate, received.peer_certificate) == (
                target.link.pair.blob,
                initiator.link.pair.blob,
            )
            assert sent.is_encrypted and sent.login_time <= sent.last_activity_time
            listening.stop()
            await until(lambda: not sending.connections() and not listening.connections())

    asyncio.run(scenario())


def test_a_peer_that_does_not_listen_yet_is_tried_again():
    async def scenario() -> None:
        initiator, target = Broker("initiator"), Broker("target")
        async with transports(initiator, target) as (sending, listening):
            address = (HOST, free_port())
            sending.send(address, [frame(1)])
            await until(lambda: initiator.states)
            assert initiator.states[0][1] is False
            assert "Connection refused" in initiator.states[0][2]
            listening.listen("", address[1])
            await until(lambda: initiator.states[-1][1])
            assert target.frames == []  # resending is the broker's task
            sending.send(address, [frame(2)])
            await until(lambda: target.frames == [frame(2)])

    asyncio.run(scenario())


@contextlib.asynccontextmanager
async def connected():
    """Two brokers, their transports and the target's address, once a frame has arrived."""
    initiator, target = Broker("initiator"), Broker("target")
    async with transports(initiator, target) as (sending, listening):
        address = (HOST, free_port())
        listening.listen("", address[1])
        sending.send(address, [frame(1)])
        await until(lambda: target.frames)
        yield initiator, target, sending, listening, address


def test_a_transport_that_stops_closes_the_connections_that_it_has_opened():
    async def scenario() -> None:
        async with connected() as (initiator, target, sending, listening, address):
            sending.stop()  # ALTER ENDPOINT ... STATE = STOPPED
            await until(lambda: not sending.connections() and not listening.connections())
            assert initiator.states[-1] == (address, False, "The Service Broker protocol transport is not available.")
            sending.send(address, [frame(2)])
            await until(lambda: target.frames == [frame(1), frame(2)])

    asyncio.run(scenario())


def test_a_connection_that_breaks_is_reopened():
    async def scenario() -> None:
        async with connected() as (initiator, target, sending, listening, address):
            listening.stop()
            await until(lambda: not initiator.states[-1][1])
            listening.listen("", address[1])
            await until(lambda: initiator.states[-1][1])
            sending.send(address, [frame(2)])
            await until(lambda: target.frames == [frame(1), frame(2)])

    asyncio.run(scenario())


@pytest.mark.parametrize("bad", ["initiator", "target"])
def test_a_certificate_that_is_not_accepted_ends_the_handshake_on_either_side(bad):
    async def scenario() -> None:
        initiator, target = Broker("initiator"), Broker("target")
        async with transports(initiator, target) as (sending, listening):
            {"initiator": target, "target": initiator}[bad].link.known = []
            address = (HOST, free_port())
            listening.listen("", address[1])
            sending.send(address, [frame(1)])
            await until(lambda: initiator.states)
            assert initiator.states[0][1] is False
            assert initiator.states[0][2] == "the certificate is not known"
            assert target.frames == []

    asyncio.run(scenario())


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\1\xc0", b"\0\0\0\5hello"])
def test_a_peer_that_sends_something_else_is_disconnected(sent):
    async def scenario() -> None:
        target = Broker("target")
        async with transports(target) as (listening,):
            assert await answer_to(sent, listening) == b""
            assert target.received == []

    asyncio.run(scenario())


def test_a_port_in_use_is_an_error_of_the_system():
    async def scenario() -> None:
        async with transports(Broker("one"), Broker("two")) as (first, second):
            port = free_port()
            first.listen("", port)
            with pytest.raises(OSError, match="Address already in use"):
                second.listen("", port)

    asyncio.run(scenario())


def test_an_address_outside_loopback_needs_the_operators_permission():
    async def scenario() -> None:
        async with transports(Broker("one")) as (transport,):
            with pytest.raises(PermissionError, match=r"192\.0\.2\.1"):
                transport.listen("192.0.2.1", free_port())

    asyncio.run(scenario())


def test_a_peer_with_the_servers_own_certificate_gets_nothing_in():
    async def scenario() -> None:
        impostor, target = Broker("impostor"), Broker("target")
        async with transports(impostor, target) as (sending, listening):
            target.link.known.append(target.link.pair.blob)
            impostor.link = Impostor(target.link.pair.blob)
            impostor.link.known = [target.link.pair.blob]
            address = (HOST, free_port())
            listening.listen("", address[1])
            sending.send(address, [frame(1)])
            await until(lambda: impostor.states)
            assert "does not prove that it owns its certificate" in impostor.states[0][2]
            assert target.received == [] and not any(up for _, up, _ in impostor.states)

    asyncio.run(scenario())


def test_a_peer_that_changes_a_record_on_the_way_is_disconnected(caplog):
    async def scenario() -> None:
        async with connected() as (initiator, target, sending, _, _):
            [outgoing] = [peer._protocol for peer in sending._peers.values()]
            outgoing._write_records([b"\0" * 50])
            await until(lambda: not initiator.states[-1][1])
            assert target.frames == [frame(1)]
            assert "forged, altered, repeated or out of order" in caplog.messages[-2]

    asyncio.run(scenario())


def test_before_the_handshake_a_peer_may_send_little(caplog):
    async def scenario() -> None:
        target = Broker("target")
        async with transports(target) as (listening,):
            assert await answer_to((MESSAGE_SIZE_MAX + 1).to_bytes(4, "big"), listening) == b""
            assert caplog.messages[-1].endswith(f"a record of {MESSAGE_SIZE_MAX + 1} bytes.")

    asyncio.run(scenario())


def test_before_the_handshake_a_peer_has_little_time(monkeypatch):
    monkeypatch.setattr(broker_transport, "HANDSHAKE_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        target = Broker("target")
        async with transports(target) as (listening,):
            assert await answer_to(b"", listening) == b""
            await until(lambda: not listening.incoming)

    asyncio.run(scenario())


def test_ninety_silent_strangers_keep_no_peer_out(caplog):
    async def scenario() -> None:
        initiator, target = Broker("initiator"), Broker("target")
        async with transports(initiator, target) as (_, listening):
            address = (HOST, free_port())
            listening.listen("", address[1])
            silent = [await asyncio.open_connection(*address) for _ in range(90)]
            peers = [transport_of(initiator) for _ in range(114)]
            for peer in peers:
                peer.send(address, [frame(1)])
            await until(lambda: len(initiator.states) == 114)
            assert all(is_up for _, is_up, _ in initiator.states)
            assert any("it was the oldest of 192 from its address without a login" in one for one in caplog.messages)
            for peer in peers:
                peer.stop()
            for _, writer in silent:
                writer.close()

    asyncio.run(scenario())


def test_of_too_many_peers_the_one_that_was_silent_the_longest_makes_room(monkeypatch):
    monkeypatch.setattr(broker_transport, "PEERS_MAX", 2)

    async def scenario() -> None:
        initiator, target = Broker("initiator"), Broker("target")
        async with transports(initiator, target) as (_, listening):
            address = (HOST, free_port())
            listening.listen("", address[1])
            peers = [transport_of(initiator) for _ in range(3)]
            for count, peer in enumerate((peers[0], peers[1], peers[0], peers[2]), start=1):
                peer.send(address, [frame(count)])
                await until(lambda count=count: len(target.frames) == count)
            await until(lambda: not peers[1].connections())
            assert peers[0].connections() and peers[2].connections()
            for peer in peers:
                peer.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("cut", [1, 3, 100, 10**6])
def test_records_are_read_wherever_their_bytes_are_cut(cut):
    frames = [frame(number, "x" * 50) for number in range(600)]
    data = b"".join(broker_transport._framed(record) for record in pack_records(frames))
    reader = RecordReader(10**6)
    sizes = [len(record) for at in range(0, len(data), cut) for record in reader.feed(data[at : at + cut])]
    assert len(sizes) == 3
    assert sum(sizes) + 4 * 3 == len(data)


def test_a_record_is_refused_when_its_announced_length_is_too_large():
    with pytest.raises(ValueError, match="a record of 4294967295 bytes"):
        RecordReader(10**6).feed(b"\xff\xff\xff\xff")
