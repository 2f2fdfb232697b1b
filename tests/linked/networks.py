"""The links between the instances: network namespaces joined by a bridge, or relays on the loopback interface."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol

from tests.stand_ins.relay import Relays
from tests.waiting import wait_until

NETWORK = "10.99.0"  # exists in the namespaces only
# The kernel may have no netem; then a link is as slow as a low rate makes it.
SLOW = ("netem delay 60ms 30ms loss 2%", "tbf rate 512kbit burst 8kb latency 500ms")
SEPARATE = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])  # as root, and as anybody else
TRIAL = (
    f"ip link add hub type bridge && ip link add link1 type veth peer name link2 && tc qdisc add dev lo root {SLOW[1]}"
)


class Network(Protocol):
    """Each instance has one link, by its name."""

    about: str

    def host(self, name: str) -> str:
        """Where the instance listens."""
        ...

    def broker_host(self, name: str, port: int) -> str:
        """Where the others reach the port of its broker."""
        ...

    def inside(self, name: str) -> list[str]:
        """What begins a command that runs beside the instance."""
        ...

    def cut(self, name: str) -> None: ...

    def slow(self, name: str) -> None: ...

    def mend(self, name: str) -> None: ...


def separate() -> list[str]:
    """What begins a command that runs in a network namespace of its own, in which it may do all; [] if nothing can."""
    for words in SEPARATE:
        try:
            subprocess.run([*words, "sh", "-c", TRIAL], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return words
    return []


class Namespaces:
    """A namespace for each instance; the bridge is in that of this process, which `separate` began."""

    def __init__(self, names: Sequence[str], stack: ExitStack) -> None:
        self._numbers = {name: number for number, name in enumerate(names, start=1)}
        self._holders = {name: stack.enter_context(_Holder()) for name in names}
        self._slow = SLOW[0] if _succeeds(f"tc qdisc add dev lo root {SLOW[0]}") else SLOW[1]
        self.about = f"in network namespaces; a slow link has {self._slow}"
        _run("ip link set lo up", "ip link add hub type bridge", "ip link set hub up")
        _run(f"ip address add {NETWORK}.254/24 dev hub")
        for name, holder in self._holders.items():
            link = self._link(name)
            _run(f"ip link add {link} type veth peer name eth0 netns {holder.pid}", f"ip link set {link} master hub up")
            for text in ("lo up", "eth0 up"):
                _run(f"ip link set {text}", inside=self.inside(name))
            _run(f"ip address add {self.host(name)}/24 dev eth0", inside=self.inside(name))

    def _link(self, name: str) -> str:
        return f"link{self._numbers[name]}"

    def host(self, name: str) -> str:
        return f"{NETWORK}.{self._numbers[name]}"

    def broker_host(self, name: str, port: int) -> str:
        return self.host(name)

    def inside(self, name: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net", "--"]

    def cut(self, name: str) -> None:
        _run(f"ip link set {self._link(name)} down")

    def slow(self, name: str) -> None:
        _run(f"tc qdisc replace dev {self._link(name)} root {self._slow}")
        _run(f"tc qdisc replace dev eth0 root {self._slow}", inside=self.inside(name))

    def mend(self, name: str) -> None:
        _run(f"ip link set {self._link(name)} up")
        for device, inside in ((self._link(name), []), ("eth0", self.inside(name))):
            _succeeds(f"tc qdisc del dev {device} root", inside=inside)  # or it was not slow


class Loopback:
    """All instances on one address, and what one sends to another's broker goes through a relay on the next."""

    about = "on the loopback interface, through relays"
    _HOST, _RELAY = "127.0.0.1", "127.0.0.2"

    def __init__(self) -> None:
        self._relays = Relays()
        self._ports: dict[str, int] = {}

    def host(self, name: str) -> str:
        return self._HOST

    def broker_host(self, name: str, port: int) -> str:
        self._ports[name] = port
        self._relays.add((self._RELAY, port), (self._HOST, port))
        return self._RELAY

    def inside(self, name: str) -> list[str]:
        return []

    def cut(self, name: str) -> None:
        self._relays.set((self._RELAY, self._ports[name]), "cut")

    def slow(self, name: str) -> None:
        self._relays.set((self._RELAY, self._ports[name]), "slow")

    def mend(self, name: str) -> None:
        self._relays.set((self._RELAY, self._ports[name]), "well")


class _Holder(subprocess.Popen[bytes]):
    """A process that keeps a namespace until this one ends."""

    def __init__(self) -> None:
        super().__init__(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != own)


def _run(*commands: str, inside: Sequence[str] = ()) -> None:
    for text in commands:
        subprocess.run([*inside, *text.split()], check=True)


def _succeeds(text: str, *, inside: Sequence[str] = ()) -> bool:
    return subprocess.run([*inside, *text.split()], check=False, capture_output=True).returncode == 0
