"""Generated batches and damaged packets against a server process; `make bench` sends many more."""

import pytest

from harness.embedded.tsql.statements.registry import GRAMMAR
from tests.embedded.attack import attack_with_batches, attack_with_packets
from tests.embedded.grammar import STATEMENTS, Batches

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


@pytest.mark.process
def test_300_damaged_packets_leave_the_server_as_it_was():
    failures = []
    attack_with_packets(SEED, range(300), failures.append)
    assert failures == []
