"""The paper's lab in virtual time: the embedded broker and the scripts of `sql/` on a model of the paper's hardware.

A model: its numbers are never SQL Server's, and whatever shows them says so.

Theory of operation. A `world` holds instances of the embedded broker that share one virtual clock and one network; what
takes time is charged to the hardware under each: `cores`, `latches`, `log`, `network`, at the prices of `parameters`
(`hardware/*.toml`, calibrated by `calibration`), by way of `platform`. `lab` makes a `harness.lab.instances.Lab` of it:
its `instances` give a `connection` that looks like pyodbc's, and whoever executes a statement there waits while virtual
time passes, for everybody. So linking, dialogs, resets and observers are the ones of every lab, and so is the protocol
of a cell (`sweep.attempt`); only the `clients` are tasks in the world, and the `observers` visit it from outside.

A `group` is a warmed world: linked, with its dialogs and queue readers. A `cell` runs on one of its `copies`, a forked
process. `job` has Spark compute the cells, in processes forked from `workers`; `run` is the whole of it. A `bench`
measures cells at other prices: for `calibration`, to the paper's numbers or those of a measured run (`likeness`), and
for `sensitivity`. `faults` inflicts damage beside a load and checks from outside what became of it.

Rules: time and entropy come from the world, entropy from its seed; nothing depends on an order of sets, on hash() of
text, on threads or on the machine. What a cell comes to depends on the seed, the cell and the number of the attempt
at it.

Not in the model: memory, data files and checkpoints, latches of other tables than sys.sysdesend, the clients'
computers unless they are the instances' too; statements of observers take no time.
"""
