"""The bodies that a thread sends in turn, where its workload has sizes of its own or a template.

Each thread takes up to 256 sizes before the barrier, one out of each equal part of the distribution, in random order:
so the mean of what it sends is close to the distribution's. Bytes lie ready; text is formatted for each call, in about
1 us, because it has the number of the call. The same thread of the same initiator makes the same bodies in every run.
"""

import base64
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from string import Template

from harness.files.message_bodies import Bodies, text_bytes
from harness.load.payload import STAMP, STAMP_OFFSET, new_body

SIZES_MAX = 256
READY_BYTES_MAX = 64 << 20  # of all threads of a worker, on average; each has at least one body

# Gets the number of the call and its intended start in ns since 1970.
Compose = Callable[[int, int], bytearray | str]


def composer(bodies: Bodies, *, run: int, initiator: int, thread: int, threads: int) -> Compose:
    """Return what makes a thread's body for each call; `threads` are those of its worker."""
    random = Random(f"{initiator} {thread}")
    sizes = _taken(bodies, threads, random)
    if bodies.template:
        return _text(bodies.template, sizes, random, run=run, initiator=initiator, thread=thread)
    ready = [new_body(size, run=run, initiator=initiator, thread=thread, filler=random.randbytes) for size in sizes]
    stamp, count = STAMP.pack_into, len(ready)

    def compose(sequence: int, sent_at_ns: int) -> bytearray:
        body = ready[sequence % count]
        stamp(body, STAMP_OFFSET, sequence, sent_at_ns)
        return body

    return compose


def _taken(bodies: Bodies, threads: int, random: Random) -> list[int]:
    sizes, mean = bodies.sizes, bodies.mean_bytes
    assert mean is not None
    count = max(1, min(SIZES_MAX, len(sizes), READY_BYTES_MAX // threads // mean))
    bounds = [len(sizes) * place // count for place in range(count + 1)]
    drawn = [sizes[random.randrange(*part)] for part in pairwise(bounds)]
    random.shuffle(drawn)
    return drawn


def _text(template: str, sizes: Sequence[int], random: Random, **numbers: int) -> Compose:
    form = Template(template.replace("%", "%%")).substitute(numbers, sequence="%(sequence)d", filler="%(filler)s")
    # Without filler and with a number of one digit; how many more for each digit more.
    shortest = text_bytes(form % {"sequence": 0, "filler": ""}) // 2
    a_digit = text_bytes(form % {"sequence": 10, "filler": ""}) // 2 - shortest
    rooms = [size // 2 - shortest for size in sizes]
    filler = base64.b64encode(random.randbytes(max(rooms))).decode()
    count = len(rooms)

    def compose(sequence: int, sent_at_ns: int) -> str:
        room = rooms[sequence % count] - a_digit * (len(str(sequence)) - 1)
        return form % {"sequence": sequence, "filler": filler[:room]}

    return compose
