"""A load-test harness for Service Broker, after Microsoft's "Service Broker: Performance and Scalability Techniques".

The paper, below and everywhere in this repository: M. Thomassy, March 2009; its numbers and words are data in
`whitepaper`.

What happens in a run, and where: `cli` takes a verb, `settings` validates what it was told, `matrix` chooses and orders
cells. `lab` starts and links instances with the scripts of `sql/`; from there on everything is T-SQL through pyodbc.
`sweep` runs one cell after the other by the same protocol, with `load` (Locust: the clients) and `observe` (samplers)
at its sides, balances the books, and leaves raw records (`records`) and a journal. `reductions` (PySpark) makes tables
of them, `figures` (Matplotlib) draws those. `embedded` is a small server for the lab of that name; nothing above `lab`
knows it.

Imports only point down: cli, sweep, figures and reductions, load and observe, lab, embedded, settings and records and
matrix. A failure that a user can cure derives from `failures` and becomes one line and an exit code.
"""
