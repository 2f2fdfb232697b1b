"""Instances of SQL Server and how they become a lab: one target, one to three initiators, linked, with dialogs.

What differs between kinds of lab ends here. A kind of lab (`embedded`, `containers`, `servers`) starts instances, or
signs in to those of a user, and says how to connect to them; everything after that is plain T-SQL from `sql/`, sent
through pyodbc by the modules of this package, the same on every kind:

- `opening`: `with lab.open(topology, ...) as lab:` from nothing to linked instances; `choice`: which topology
- `instances`: `Instance` and `Lab`: connection strings, broker addresses, who is dead and how
- `embedded`: the instances as child processes `harness serve`
- `containers`: SQL Server in containers of this machine, by way of `compose`
- `servers`: a user's own; `ledger`: what of that is the harness's; `rights`: what its login lacks there
- `processes`: child processes that die with their parent and say how they died
- `drivers`: ODBC drivers on this machine and connection strings
- `scripts`: sqlcmd's conventions: `GO`, `$(Variable)`
- `link`: keys, certificates, endpoints, routes, bindings
- `dialogs`: the dialog pools, their warm-up, and waiting until everything sent has been processed
- `receiving`: how the target receives: how much at once, for how long, with how many readers
- `interruption`: Ctrl-C in the midst of ODBC calls
- `remedies`: what a refusal means and what remedies it; why a server is out of reach
- `reset`: back to empty tables between cells, back to no conversation between groups

Instances are started from the main thread (see `processes`); blocking calls to several instances run in one native
thread each (`instances.in_parallel`). No password is ever part of a `repr`, a log or a command line.
"""

from harness.lab.instances import Instance, InstanceDied, Lab, LabError
from harness.lab.opening import open

__all__ = ["Instance", "InstanceDied", "Lab", "LabError", "open"]
