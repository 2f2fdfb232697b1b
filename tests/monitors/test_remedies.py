"""Rehearsals: a trouble of encrypted dialogs or of endpoints is made on a pair of instances, the view names it, and once the
remedy that it prints was executed, with what stands in <brackets> filled in, the messages arrive."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyodbc
import pytest

from harness.lab import statuses
from harness.lab.instances import Instance
from harness.lab.opening import Topology
from harness.lab.opening import open as open_lab
from harness.monitors.explaining import Explanation
from tests.monitors.test_ways import waits_for
from tests.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(180), pytest.mark.usefixtures("at_once")]

PASSWORD = "a-Password-of-the-test-1"
ENCODED = "SELECT CONVERT(varchar(max), CERTENCODED(CERT_ID(N'{}')), 1);"
NUMBERS = itertools.count(1)


class Side:
    """An instance with a database of its own, which has a service and what its dialogs need."""

    def __init__(self, instance: Instance, database: str, service: str) -> None:
        self.instance, self.database, self.service = instance, database, service
        self.connection: pyodbc.Connection = instance.connect("master")
        self.run(f"CREATE DATABASE [{database}];", f"USE [{database}];")
        self.run(f"CREATE QUEUE dbo.[{service}]; CREATE SERVICE [{service}] ON QUEUE dbo.[{service}] ([DEFAULT]);")
        self.run(f"CREATE MASTER KEY ENCRYPTION BY PASSWORD = '{PASSWORD}'; CREATE USER peer WITHOUT LOGIN;")
        self.certify("own")

    def run(self, *batches: str) -> None:
        for batch in batches:
            self.connection.execute(batch)

    def value(self, query: str) -> str:
        return str(self.connection.execute(query).fetchval())

    def in_master(self, batch: str) -> None:
        self.run("USE master;", batch, f"USE [{self.database}];")

    def certify(self, name: str, dates: str = "") -> None:
        self.run(f"CREATE CERTIFICATE {name} WITH SUBJECT = '{name}'{dates};")

    def know(self, other: Side, certificate: str = "own") -> None:
        """Import the public key of the other side's certificate."""
        key = other.value(ENCODED.format(certificate))
        self.run(f"CREATE CERTIFICATE theirs{next(NUMBERS)} AUTHORIZATION peer FROM BINARY = {key};")

    def meet(self, other: Side) -> None:
        address = f"TCP://127.0.0.1:{other.instance.broker_port}"
        self.run(f"CREATE ROUTE [{other.service}] WITH SERVICE_NAME = N'{other.service}', ADDRESS = N'{address}';")
        self.know(other)
        self.run(f"GRANT SEND ON SERVICE::[{self.service}] TO peer;")


@dataclass
class Pair:
    near: Side
    far: Side
    endpoint: str  # of the near side

    def send(self, to_service: str = "") -> None:
        to_service = to_service or f"TO SERVICE N'{self.far.service}'"
        self.near.run(
            f"DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE [{self.near.service}] {to_service} "
            "WITH ENCRYPTION = ON; SEND ON CONVERSATION @h (0x01);"
        )

    def arrived(self) -> int:
        return int(self.far.value(f"SELECT COUNT(*) FROM dbo.[{self.far.service}];"))

    def trouble(self, number: str) -> str:
        """Send, look until the view gives the reason of a status, and return its remedy."""
        self.send()
        words = re.sub(r"\\\{\d\\\}", ".*", re.escape(statuses.table()[number].reason))

        def told(ways: list[Explanation]) -> list[Explanation]:
            return [way for way in ways if re.fullmatch(words, way.reason)]

        found = waits_for([self.near.instance], lambda ways: bool(told(ways)), of=f"to {self.far.service}")
        assert told(found), found
        return told(found)[0].remedy

    def renewed(self) -> None:
        """A new certificate, and its public key at the other side: what remedies say in words."""
        self.near.certify("new")
        self.far.know(self.near, "new")


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Instance]]:
    directory: Path = tmp_path_factory.mktemp("remedies")
    with open_lab(Topology(), version="2008", initiators=1, directory=directory) as lab:
        yield [lab.initiators[0], lab.target]


@pytest.fixture
def pair(instances: list[Instance]) -> Iterator[Pair]:
    """Two sides that understand each other."""
    number = next(NUMBERS)
    near, far = Side(instances[0], f"near{number}", f"Near{number}"), Side(instances[1], f"far{number}", f"Far{number}")
    near.meet(far)
    far.meet(near)
    near.run(f"CREATE REMOTE SERVICE BINDING b TO SERVICE N'{far.service}' WITH USER = peer;")
    yield Pair(near, far, near.value("SELECT name FROM sys.service_broker_endpoints;"))
    for side in (near, far):
        alone = f"ALTER DATABASE [{side.database}] SET SINGLE_USER WITH ROLLBACK IMMEDIATE;"
        side.run("USE master;", alone, f"DROP DATABASE [{side.database}];")
        side.connection.close()


def filled(remedy: str, **names: str) -> str:
    """The remedy with what stands in <brackets> filled in; after `else`, where the first part does not apply."""
    remedy = remedy.rpartition("else ")[2]
    for name, value in names.items():
        remedy = remedy.replace(f"<{name.replace('_', ' ')}>", value)
    assert "<" not in remedy, remedy
    return remedy


def master_key_that_the_server_does_not_open(pair: Pair) -> None:
    pair.near.run("ALTER MASTER KEY DROP ENCRYPTION BY SERVICE MASTER KEY;")
    pair.near.run(filled(pair.trouble("28054"), password=PASSWORD))


def no_master_key(pair: Pair) -> None:
    pair.near.run("DROP CERTIFICATE own; DROP MASTER KEY;")
    create = pair.trouble("28050").partition("##: ")[2].partition(" else ")[0]
    pair.near.run(create.replace("<password>", PASSWORD))
    pair.renewed()


def no_binding(pair: Pair) -> None:
    pair.near.run("DROP REMOTE SERVICE BINDING b;")
    pair.near.run(filled(pair.trouble("9727"), name="b", user_with_the_certificate="peer"))


def no_certificate(pair: Pair) -> None:
    theirs = pair.near.value("SELECT name FROM sys.certificates WHERE pvt_key_encryption_type = 'NA';")
    pair.near.run(f"DROP CERTIFICATE {theirs};")
    assert "AUTHORIZATION [<user>] FROM FILE = N'<public key of the other side>'" in pair.trouble("9731")
    pair.near.know(pair.far)


def certificate_that_has_expired(pair: Pair) -> None:
    pair.near.run("DROP CERTIFICATE own;")
    pair.near.certify("own", ", START_DATE = '20200101', EXPIRY_DATE = '20210101'")
    assert "give its public key to the other side" in pair.trouble("28025")
    pair.renewed()


def certificate_that_is_not_valid_yet(pair: Pair) -> None:
    pair.near.run("DROP CERTIFICATE own;")
    pair.near.certify("own", ", START_DATE = '20900101', EXPIRY_DATE = '20910101'")
    assert "give its public key to the other side" in pair.trouble("28024")
    pair.renewed()


def certificate_without_private_key(pair: Pair) -> None:
    pair.near.run("DROP CERTIFICATE own;")
    pair.near.run(f"CREATE CERTIFICATE own FROM BINARY = {pair.far.value(ENCODED.format('own'))};")
    assert "create one with a private key for that owner" in pair.trouble("9733")
    pair.renewed()


def certificate_that_begins_no_dialog(pair: Pair) -> None:
    pair.near.run("ALTER CERTIFICATE own WITH ACTIVE FOR BEGIN_DIALOG = OFF;")
    pair.near.run(filled(pair.trouble("9767"), name="own"))


def no_route(pair: Pair) -> None:
    pair.near.run(f"DROP ROUTE [{pair.far.service}];")
    create = filled(pair.trouble("9793"), name="r", host="127.0.0.1")
    pair.near.run(create.replace(":4022", f":{pair.far.instance.broker_port}"))


def endpoint_that_is_stopped(pair: Pair) -> None:
    pair.near.in_master(f"ALTER ENDPOINT [{pair.endpoint}] STATE = STOPPED;")
    pair.near.in_master(filled(pair.trouble("9748").partition("or ")[2], name=f"[{pair.endpoint}]"))


def endpoint_whose_certificate_has_ended(pair: Pair) -> None:
    soon = pair.near.value("SELECT CONVERT(varchar(30), DATEADD(SECOND, 3, GETUTCDATE()), 126);")
    authenticate = f"ALTER ENDPOINT [{pair.endpoint}] FOR SERVICE_BROKER (AUTHENTICATION = CERTIFICATE short);"
    pair.near.in_master(f"CREATE CERTIFICATE short WITH SUBJECT = 'short', EXPIRY_DATE = '{soon}'; {authenticate}")
    ended = "SELECT COUNT(*) FROM master.sys.certificates WHERE name = N'short' AND expiry_date <= GETUTCDATE();"
    wait_until(lambda: pair.near.value(ended) == "1")
    in_master, _, in_words = pair.trouble("28036").removeprefix("in master: ").partition(" and give")
    assert in_words == " its public key to the other servers"
    in_master = in_master.replace("ENDPOINT [<name>]", f"ENDPOINT [{pair.endpoint}]")
    pair.near.in_master(filled(in_master, name="renewed", subject="renewed"))
    pair.near.run("USE master;")
    key = pair.near.value(ENCODED.format("renewed"))
    pair.near.run(f"USE [{pair.near.database}];")
    owner = pair.far.value(
        "SELECT p.name FROM master.sys.certificates AS c JOIN master.sys.database_principals AS p "
        "ON p.principal_id = c.principal_id WHERE c.principal_id <> 1 AND c.name NOT LIKE N'##%';"
    )
    pair.far.in_master(f"CREATE CERTIFICATE renewed AUTHORIZATION [{owner}] FROM BINARY = {key};")


def broker_that_is_new(pair: Pair) -> None:
    """Programs and routes that name the old broker instance."""
    old = pair.far.value("SELECT service_broker_guid FROM sys.databases WHERE database_id = DB_ID();")
    pair.far.in_master(f"ALTER DATABASE [{pair.far.database}] SET NEW_BROKER WITH ROLLBACK IMMEDIATE;")
    to_service = f"TO SERVICE N'{pair.far.service}'"
    pair.send(to_service=f"{to_service}, '{old}'")
    both = [pair.near.instance, pair.far.instance]
    new = "has another broker identifier than these conversations"
    [found] = waits_for(both, lambda ways: any(new in way.reason for way in ways), of=f"to {pair.far.service}")
    assert f", not {old.lower()}" in found.evidence
    pair.near.run(found.remedy.partition("never go on: ")[2])
    assert pair.near.value("SELECT COUNT(*) FROM sys.transmission_queue;") == "0"
    for _ in range(2):
        pair.send()


REHEARSALS: list[Callable[[Pair], None]] = [
    *(master_key_that_the_server_does_not_open, no_master_key, no_binding, no_certificate, no_route),
    *(certificate_that_has_expired, certificate_that_is_not_valid_yet, certificate_without_private_key),
    *(certificate_that_begins_no_dialog, endpoint_that_is_stopped, endpoint_whose_certificate_has_ended),
    broker_that_is_new,
]


@pytest.mark.parametrize("rehearse", REHEARSALS, ids=lambda rehearse: rehearse.__name__)
def test_a_remedy_that_is_printed_lets_the_messages_arrive(pair: Pair, rehearse: Callable[[Pair], None]) -> None:
    pair.send()
    wait_until(lambda: pair.arrived() == 1)
    rehearse(pair)
    wait_until(lambda: pair.arrived() == 2, timeout_s=60)
    assert waits_for([pair.near.instance], lambda ways: not ways, of=f"to {pair.far.service}") == []
