"""Published client libraries against `harness serve`, as their users use them.

`make clients` installs the libraries; a test of one that is not installed is skipped. The server is the real one, in a
process of its own.
"""
