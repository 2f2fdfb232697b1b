"""The answers of the embedded broker and of SQL Server to the same statements, compared.

`tests/conformance --record FILE` records every statement that a test sent and its whole answer (`recording`); values
that differ between any two runs are replaced (`normalising`). `python -m tests.parity` (`make parity`) records the suite
on both servers and writes `results/parity.md` (`report`). A difference is a finding about the embedded broker, not a
failed run.
"""
