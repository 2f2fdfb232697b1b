"""Inject faults under load, deterministically: does every committed message arrive, once and in order?

A seed decides everything. `fault_plan` makes a small scenario of it: how many clients there are, how they send, how the
target receives, and what goes wrong. `injector` carries out the faults: instances are killed and recover from their
files; links are cut, slow, duplicating or reordering; logs are slow; disks fail, are full or are damaged; a message is
poison; the activated procedure fails. `fault_scenario` runs all this on a linked lab in virtual time, until the faults
are over and the queues should be empty. `checkers` then judge from outside the broker: by what clients were told
(`Call`) and what the target's tables hold (`Stored`, `Reading`), never by the broker's memory. `fault_run` does this
for many seeds, each in a fork of one linked lab, so that a seed neither repeats the linking nor sees traces of other
seeds.

The broker, the scripts of `sql/` that link it and the procedures that send are those of every other lab. In some
scenarios the receiving procedure is the lab's too. In the others it is one of `receive_procedures`, which also records
when it had which conversation group, to reveal two readers of one group, and rolls back when it meets poison.

A client whose call was cut off, by a kill or because the disk failed, does not know whether it was committed. The
checkers allow both, once. A SEND that was refused, because the disk was full, must not arrive.
"""
