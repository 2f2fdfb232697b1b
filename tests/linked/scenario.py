"""Run linked processes while everything fails, and say what broke: `python -m tests.linked.scenario --seed 1 --for 60s`.

Exits with 1 if a message was lost, repeated or reordered, if a confirmation did not hold, if a process ended by itself, or
if something was left `DRAIN_S` after everything ran again. Then the data and logs of all processes are kept.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.definitions.lab_kinds import EMBEDDED
from harness.definitions.units import parse_duration
from harness.lab import drivers, link
from harness.lab.drivers import OdbcError, Secret
from harness.lab.embedded_instances import free_ports, read_ready_line
from harness.lab.instances import SIDES, Instance, Lab, LabError, Login, Security, connections
from harness.lab.processes import Child, stop_all
from tests.linked import checker, clients
from tests.linked.networks import Loopback, Namespaces, Network, separate
from tests.stand_ins import clocks

INITIATORS = 3
GAP_S = (0.2, 2.0)  # between faults
DRAIN_S = 300  # a message that was lost is sent again after 64 s at most
LOOK_S = 0.1
STEP_S = 3600  # of a wall clock, at most, either way


@dataclass
class Site:
    """An instance and its client: two processes that may end and begin at any time."""

    instance: Instance
    network: Network
    folder: Path
    password: Secret
    random: random.Random
    clocks: clocks.Clocks | None
    failing: dict[str, tuple[float, Fault]] = field(default_factory=dict)  # by its part: until when, and what
    children: list[Child] = field(default_factory=list)  # all that were started

    def __post_init__(self) -> None:
        self.name = self.instance.name
        self.journal = self.folder / f"{self.name}.journal"
        self.stop = self.journal.with_suffix(".stop")

    def serve(self) -> None:
        instance = self.instance
        words = ["--name", self.name, "--host", instance.host, "--port", str(instance.port), "--with-parent"]
        environment = {"HARNESS_PASSWORD": self.password, **(self.clocks.environment if self.clocks else {})}
        self.server = self._child("", ["harness", "serve", *words, "--data", str(self.folder / self.name)], environment)

    def attend(self) -> None:
        """Start the client."""
        names = [self.instance.service, self.instance.queue, str(self.journal), str(self.random.random())]
        environment = {"LINKED_CONNECTION": self.instance.connection_string()}
        self.client = self._child(" client", ["tests.linked.clients", self.name, *names], environment)

    def _child(self, suffix: str, module: Sequence[str], environment: dict[str, str]) -> Child:
        command = [*self.network.inside(self.name), sys.executable, "-m", *module]
        log = self.folder / f"{self.name}{suffix}.log"
        self.children.append(
            Child(self.name + suffix, command, log=log, environment=environment, pipe_stdout=not suffix)
        )
        return self.children[-1]

    def deaths(self) -> list[str]:
        """Say which of its processes ended by themselves, and start them again."""
        found = []
        for child, start in ((self.server, self.serve), (self.client, self.attend)):
            if (death := child.death()) and not (child is self.client and self.has_finished()):
                found.append(death)
                start()
        return found

    def has_finished(self) -> bool:
        return self.client.exit_code == 0 and self.stop.exists()

    def set_clock(self) -> None:
        assert self.clocks is not None
        self.clocks.step_wall(self.random.uniform(-STEP_S, STEP_S))


class Fault(NamedTuple):
    part: str  # of a site, of which one thing fails at a time
    begin: Callable[[Site], object]
    end: Callable[[Site], object]
    lasts_s: tuple[float, float]


FAULTS = {
    "kill -9 of an instance": Fault("server", lambda site: site.server.kill(), Site.serve, (0.1, 3)),
    "SIGSTOP of an instance": Fault(
        "server",
        lambda site: os.kill(site.server.pid, signal.SIGSTOP),
        lambda site: os.kill(site.server.pid, signal.SIGCONT),
        (0.5, 8),
    ),
    "kill -9 of a client": Fault("client", lambda site: site.client.kill(), Site.attend, (0.1, 1)),
    "cut link": Fault(
        "link", lambda site: site.network.cut(site.name), lambda site: site.network.mend(site.name), (0.5, 15)
    ),
    "slow link": Fault(
        "link", lambda site: site.network.slow(site.name), lambda site: site.network.mend(site.name), (2, 15)
    ),
}
if clocks.IS_AVAILABLE:
    FAULTS["step of a wall clock"] = Fault("clock", Site.set_clock, lambda site: None, (0, 0))


def fail(sites: Sequence[Site], seed: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Let one thing after another fail for so long, and everything run again at the end."""
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    deck: list[str] = []
    now_s = time.monotonic()
    end_s, next_s = now_s + seconds, now_s
    while now_s < end_s:
        if now_s >= next_s:
            next_s += chance.uniform(*GAP_S)
            deck = deck or chance.sample(list(FAULTS), len(FAULTS))
            name, site = deck.pop(), chance.choice(sites)
            fault = FAULTS[name]
            until_s = now_s + chance.uniform(*fault.lasts_s)
            if fault.part not in site.failing:
                counts[name] += 1
                site.failing[fault.part] = until_s, fault
                fault.begin(site)
        time.sleep(LOOK_S)
        now_s = time.monotonic()
        for site in sites:
            problems += site.deaths()
            _end_faults(site, now_s)
    for site in sites:
        _end_faults(site, float("inf"))
    return counts, problems


def _end_faults(site: Site, now_s: float) -> None:
    for part, (until_s, fault) in list(site.failing.items()):
        if until_s <= now_s:
            del site.failing[part]
            fault.end(site)


def drain(lab: Lab, sites: Sequence[Site]) -> list[str]:
    """Let the initiators finish their dialogs, and wait until nothing is left; say what is."""
    target, *initiators = sites
    for site in initiators:
        site.stop.touch()
    end_s = time.monotonic() + DRAIN_S
    problems: list[str] = []
    while True:
        for site in sites:
            problems += site.deaths()
        what = [
            f"{site.name}: its client has not finished its dialogs" for site in initiators if not site.has_finished()
        ]
        if not what:
            try:
                what = _left(lab)
            except (LabError, OdbcError) as error:
                what = [str(error)]
        if not what or time.monotonic() > end_s:
            target.client.kill()
            return [*problems, *what]
        time.sleep(LOOK_S)


def _left(lab: Lab) -> list[str]:
    with connections(lab.instances) as opened:
        return [
            f"{instance.name}: {count} {what} after {DRAIN_S} s"
            for instance, connection in zip(lab.instances, opened, strict=True)
            for what, count in checker.left(connection, instance.queue).items()
        ]


def set_up(lab: Lab, sites: Sequence[Site]) -> None:
    for site in sites:
        site.serve()
    for site in sites:
        read_ready_line(site.server)
    link.link(lab)
    link.stop_activation(lab)
    with connections(lab.instances) as opened:
        for instance, connection in zip(lab.instances, opened, strict=True):
            contract = f"ALTER SERVICE [{instance.service}] (ADD CONTRACT [DEFAULT])"
            for statement in (*checker.TABLES, clients.DIALOGS, contract):
                connection.execute(statement)
    for site in sites:
        site.attend()


def run(seed: int, seconds: float, folder: Path, network: Network, ports: Sequence[int]) -> list[str]:
    """Run all of it in a folder, print figures, and return what broke."""
    sites = _sites(seed, folder, network, ports)
    target, *initiators = (site.instance for site in sites)
    lab = Lab(EMBEDDED, "2008", target, initiators, folder, security=Security(endpoint_encryption=True))
    try:
        set_up(lab, sites)
        counts, problems = fail(sites, seed, seconds)
        began_s = time.monotonic()
        problems += drain(lab, sites)
        drained_s = time.monotonic() - began_s
        with connections(lab.instances) as opened:
            ends = [checker.read(site.name, *rest, site.journal) for site, *rest in zip(sites, opened, strict=True)]
    finally:
        stop_all([child for site in sites for child in site.children])
    print(*(f"{count:5} times {what}" for what, count in counts.items()), sep="\n")
    for end in ends:
        print(f"{end.name}: {len(end.sent)} sent, {len(end.received)} received, {end.about()}")
    print(f"drained {drained_s:.1f} s after everything ran again")
    return problems + checker.violations(ends[0], ends[1:])


def _sites(seed: int, folder: Path, network: Network, ports: Sequence[int]) -> list[Site]:
    password = Secret(secrets.token_urlsafe(24))
    driver, login = drivers.choose("microsoft"), Login("sa", password)
    sites = []
    for (name, database), port, broker_port in zip(SIDES, ports[::2], ports[1::2], strict=False):
        host = network.host(name)
        instance = Instance(name, database, host, port, broker_port, driver, login, listener_ip=f"({host})")
        instance.broker_host = network.broker_host(name, broker_port)
        instance.encrypt = "optional" if host.startswith("127.") else "mandatory"
        moved = clocks.Clocks(folder, name) if clocks.IS_AVAILABLE else None
        sites.append(Site(instance, network, folder, password, random.Random(f"{seed} {name}"), moved))
    return sites


def main(*, seed: int, seconds: float, is_separate: bool) -> int:
    """Run it in a new folder, which is kept if something broke, and return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="linked-"))
    names = [name for name, _ in SIDES[: INITIATORS + 1]]
    with ExitStack() as stack:
        network = Namespaces(names, stack) if is_separate else Loopback()
        print(f"{INITIATORS} initiators and a target {network.about}", flush=True)
        problems = run(seed, seconds, folder, network, stack.enter_context(free_ports(2 * len(names))))
    if problems:
        print(*problems[:100], f"{len(problems)} things broke; data and logs are in {folder}", sep="\n")
        return 1
    shutil.rmtree(folder)
    print("every message once, in order, none lost, nothing left")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--for", type=parse_duration, default=60.0, dest="seconds", metavar="DURATION", help="60s, 10m")
    parser.add_argument("--loopback", action="store_true", help="relays even where network namespaces can be had")
    parser.add_argument("--separate", action="store_true", help=argparse.SUPPRESS)  # it runs in a namespace of its own
    given = parser.parse_args()
    if given.separate:
        sys.exit(main(seed=given.seed, seconds=given.seconds, is_separate=True))
    words = ["-m", "tests.linked.scenario", "--seed", str(given.seed), "--for", f"{given.seconds:g}s"]
    print("to repeat this:", "python", *words, *(["--loopback"] if given.loopback else []), flush=True)
    if not given.loopback and (begin := separate()):
        os.execvp(begin[0], [*begin, sys.executable, *words, "--separate"])
    sys.exit(main(seed=given.seed, seconds=given.seconds, is_separate=False))
