"""Generated batches and damaged packets against a server process; `make bench` sends many more."""

import pytest

from harness.embedded.tsql.statements.registry import GRAMMAR
from tests.embedded.attack import attack_with_batches, attack_with_packets, serving
from tests.embedded.grammar import STATEMENTS, Batches
from tests.embedded.siege import Held, besiege, left_over

SEED = 12


def test_the_grammar_of_the_attack_knows_every_statement():
    assert sorted(STATEMENTS) == sorted(" ".join(words) for words in GRAMMAR)


def test_a_batch_depends_on_seed_and_number_alone():
    assert [Batches(1).batch(n) for n in range(50)] == [Batches(1).batch(n) for n in range(50)]
    assert Batches(1).batch(7) != Batches(2).batch(7)


@pytest.mark.process
def test_500_batches_are_answered_by_the_same_process():
    failures = []
    attack_with_batches(SEED, range(500), failures.append)
    assert failures == []


@pytest.mark.thorough
@pytest.mark.process
def test_all_attacks_at_once_leave_no_process_memory_session_or_descriptor():
    failures, lines = [], []
    with serving() as server:
        besiege(server, SEED, 5, failures.append, lines.append)
    assert failures == [], lines
    assert [line.split()[0] for line in lines if " MiB resident" in line] == ["before", "most", "after"]


def test_what_is_left_of_an_attack_is_named():
    before = Held(resident=100 * 2**20, descriptors=10, sessions=1, log=0)
    assert left_over(before, before) == []
    after = Held(resident=400 * 2**20, descriptors=12, sessions=2, log=2**21)
    assert left_over(before, after) == [
        "300 MiB more memory than before",
        "2 descriptors are left",
        "1 sessions are left",
        "2097152 bytes of log",
    ]


@pytest.mark.process
def test_300_damaged_packets_leave_the_server_as_it_was():
    failures = []
    attack_with_packets(SEED, range(300), failures.append)
    assert failures == []
