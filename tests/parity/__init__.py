"""What the embedded broker and SQL Server answer to the same statements.

`tests/conformance --record FILE` writes down every statement that a test sent and its whole answer (`recording`), with
what differs between any two runs replaced (`normalising`). `python -m tests.parity` (`make parity`) records the suite on
both and writes `results/parity.md` (`report`). A difference is a finding about the embedded broker, not a failed run.
"""
