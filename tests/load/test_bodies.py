"""The bodies that a thread sends in turn: their sizes, what they hold, and that they can be repeated."""

import json
import time
from statistics import fmean
from string import Template
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.files.message_bodies import Bodies
from harness.load import bodies as bodies_module
from harness.load.bodies import composer
from harness.load.payload import Header, parse_header
from harness.load.threads import CellRun
from tests.examples import share

SIZES = st.lists(st.integers(32, 20_000), min_size=1, max_size=600).map(lambda sizes: tuple(sorted(sizes)))
NUMBERS = {"run": 7, "initiator": 2, "thread": 50, "threads": 50}
TURN = bodies_module.SIZES_MAX


@given(SIZES, st.integers(1, 1000))
def test_bytes_have_a_size_of_the_distribution_and_the_header_of_the_call(sizes: tuple[int, ...], threads: int) -> None:
    compose = composer(Bodies(sizes=sizes), **NUMBERS | {"threads": threads})
    for sequence in range(0, 3 * TURN, 5):
        body = compose(sequence, 1_700_000_000_000_000_001)
        assert len(body) in sizes
        assert parse_header(body) == Header(7, 2, 50, sequence, 1_700_000_000_000_000_001)


@settings(max_examples=share(25))
@given(st.lists(st.integers(32, 4_000), min_size=TURN, max_size=TURN).map(sorted))
def test_the_mean_of_a_turn_is_close_to_the_distributions(sizes: list[int]) -> None:
    found = Bodies(sizes=tuple(size for size in sizes for _ in range(16)))
    compose = composer(found, **NUMBERS)
    sent = [len(compose(sequence, 0)) for sequence in range(TURN)]
    assert abs(fmean(sent) - fmean(sizes)) <= (sizes[-1] - sizes[0]) / TURN + 0.001


def test_a_thread_repeats_its_bodies_and_another_has_its_own() -> None:
    found = Bodies(sizes=tuple(range(100, 4196)))

    def sent(**changes: int) -> list[bytes]:
        compose = composer(found, **NUMBERS | changes)
        return [bytes(compose(sequence, 0)) for sequence in range(TURN)]

    assert sent() == sent()
    assert list(map(len, sent())) != list(map(len, sent(thread=3)))


def test_many_threads_with_long_bodies_have_few_of_them() -> None:
    compose = composer(Bodies(sizes=tuple(range(900_000, 1_000_000, 100))), **NUMBERS | {"threads": 1000})
    assert compose(0, 0) is compose(1, 0)


WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), max_size=50)


def lengths(text: str) -> int:
    return len(text.encode("utf-16-le"))


@given(WORDS, SIZES, st.lists(st.integers(0, 10**9), max_size=20))
def test_json_has_its_size_and_its_numbers(words: str, sizes: tuple[int, ...], sequences: list[int]) -> None:
    text = json.dumps({"words": words}, ensure_ascii=False).replace("$", "$$")[:-1]
    text += ', "order": "${run}-${initiator}-${thread}-$sequence", "number": ${sequence}, "filler": "${filler}"}'
    least = Bodies(text).least_bytes
    compose = composer(Bodies(text, tuple(size + least for size in sizes)), **NUMBERS)
    for sequence in sequences:
        body = compose(sequence, 0)
        read = json.loads(body)
        assert (read["words"], read["order"], read["number"]) == (words, f"7-2-50-{sequence}", sequence)
        assert {lengths(body), lengths(body) + 1} & {size + least for size in sizes}
        assert lengths(body) % 2 == 0


@given(WORDS, st.integers(0, 5_000), st.integers(0, 10**9))
def test_xml_has_its_size_and_its_numbers(words: str, more: int, sequence: int) -> None:
    escaped = escape(words).replace("$", "$$")
    text = f"<order number='$sequence'><words>{escaped}</words><filler>100 %, ${{filler}}</filler></order>"
    size = Bodies(text).least_bytes + 2 * more
    body = composer(Bodies(text, (size,)), **NUMBERS)(sequence, 0)
    assert lengths(str(body)) == size
    order = ElementTree.fromstring(body)
    assert order.get("number") == str(sequence)
    assert order.findtext("words", "") == words
    assert Template(text).substitute(sequence=sequence, filler=order.findtext("filler", "")[7:]) == body


def test_texts_of_cells_that_begin_in_one_second_have_other_numbers() -> None:
    """An application's table has a key of them, and a cell of a short measurement ends before the second does."""
    bodies = Bodies('{"a": "${filler}"}')
    moments = [time.time_ns() // 10**6]
    moments.append(CellRun(connection_string="", initiator=1, run=1, payload_bytes=100, bodies=bodies).run)
    moments.append(time.time_ns() // 10**6)
    assert moments == sorted(moments)
