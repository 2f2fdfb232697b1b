"""Linked real processes: dialogs between three initiators and a target while processes, clocks and links fail.

`scenario` starts four `harness serve`, links them with `harness.lab.link`, and runs a client beside each (`clients`): every
client sends and receives through the ODBC driver, in transactions of which it rolls some back, and writes in the same
transactions into tables what it sent and received. Meanwhile instances are killed and started again, or stopped and
continued; clients are killed; wall clocks are set; links are cut or slow (`networks`). Afterwards everything runs again, and
must be drained within `DRAIN_S`. `checker` then compares both ends of all dialogs, and what the clients had been told.

A seed decides which faults come, when, and for how long; what they meet depends on the machine.
"""
