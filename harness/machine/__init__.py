"""This machine: what the system must have, its addresses and clock, where the harness's own files lie, one process at a
time in a folder."""
