"""Encrypts the connections between Locust's master and its workers, and keeps out who does not know the token.

Master and workers derive the key pair of ZeroMQ's CURVE server from HARNESS_TOKEN. The server's public key never goes
over the network; without it nobody completes a handshake, sends a message or reads one. Locust has no option for it: it
creates each socket in `zmqrpc.BaseSocket`, whose constructor gets the keys here. Tested with the pinned Locust.
"""

import hashlib
import os
from typing import Any, NoReturn

import gevent
import zmq.green as zmq
from locust.rpc import zmqrpc
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from harness.files.settings import TOKEN, SettingsError, load_token
from harness.output.terminal import to_standard_error

REFUSALS_MAX = 3  # in a row; a master that is being restarted may drop one


def install() -> None:
    """Seal every socket of Locust that this process creates from now on, with the token of the environment."""
    plain = zmqrpc.BaseSocket.__init__

    def sealed(self: Any, kind: int, ipv4_only: bool) -> None:
        plain(self, kind, ipv4_only)  # type: ignore[no-untyped-call]
        try:
            token = load_token()
        except SettingsError as error:
            end(str(error))
        key = z85.encode(hashlib.sha256(b"service-broker-harness " + token.encode()).digest())
        if kind == zmq.ROUTER:
            self.socket.curve_secretkey = key
            self.socket.curve_server = True
        else:
            self.socket.curve_serverkey = zmq.curve_public(key)
            self.socket.curve_publickey, self.socket.curve_secretkey = zmq.curve_keypair()
            gevent.spawn(_watch_the_handshake, self.socket)

    zmqrpc.BaseSocket.__init__ = sealed  # type: ignore[method-assign]


def end(reason: str) -> NoReturn:
    """End a worker that cannot join, with one line."""
    to_standard_error(f"harness: {reason}")
    os._exit(2)


def _watch_the_handshake(socket: Any) -> None:
    """End this process where a master answers that does not know the token: ZeroMQ would try again for ever."""
    failed = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    monitor = socket.get_monitor_socket(failed | zmq.EVENT_HANDSHAKE_SUCCEEDED)
    for _ in range(REFUSALS_MAX):
        event = parse_monitor_message(monitor.recv_multipart())
        if event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            socket.disable_monitor()
            return
    address = event["endpoint"].decode().removeprefix("tcp://")
    end(f"the master at {address} refuses this worker: its {TOKEN} is another one")
