"""Faults beside the load, deterministically: does every committed message arrive, once, in order, whatever breaks?

A seed decides everything: a small scenario (`plan`: how many clients, how they send, how the target receives) and what
goes wrong in it (`inflicting`: instances killed and recovered from their logs, links cut, slow, duplicating,
reordering, slow logs, a poison message, an activation procedure that fails). `scenario` lets it run on a linked lab in
virtual time until the faults are over and the queues should be empty, and `checkers` judge from outside the broker:
from what clients were told (`evidence.Call`) and what the target's tables hold (`evidence.Stored`, `evidence.Reading`),
never from the broker's memory. `run` does so for many seeds, each in a fork of one linked world, so that it neither
pays for the linking nor sees what other seeds have left behind.

The broker, the scripts of `sql/` that link it and the procedures that send are those of every other lab. The procedure
that receives is the lab's own in some scenarios; in the others it is one of `procedures`, which also writes down which
conversation group it had when, so that two readers of one group can be seen, and rolls back when it meets poison.

A client whose call was cut off by a crash does not know whether it was committed. The checkers allow both, once.
"""
