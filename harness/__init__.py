"""A load-test harness for Service Broker, after Microsoft's "Service Broker: Performance and Scalability Techniques".

The paper, below and everywhere in this repository: M. Thomassy, March 2009; `whitepaper` has its numbers and words.

The way of a run: `cli` takes a command, `settings` validates its options, `matrix` selects and orders cells. `lab`
starts and links instances with the scripts of `sql/`; everything after that is T-SQL through pyodbc. `sweep` runs one
cell after another by the same protocol, with `load` (Locust: the clients) and `observe` (samplers) beside it, accounts
for every message, and writes raw records (`records`) and a journal. `reductions` (PySpark) makes tables of them,
`figures` (Matplotlib) draws those, and `claims` checks what the paper states. `reporting` shows a run to the user.

`embedded` is a small server for the lab of that name. Two packages import it: `cli`, whose command `serve` `lab` starts
as a process, and `simulation`, which runs the broker in virtual time on a model of hardware. The others reach
it only through pyodbc.

Imports only point down: cli, techniques, simulation, sweep, figures and reductions, claims, doctor, load and observe,
lab, embedded, then settings, records, matrix and the other single modules. A failure that a user can mend derives from
`failures` and becomes one line and an exit code.
"""
