"""The paper's lab in virtual time: the embedded broker and the scripts of `sql/` on a model of the paper's hardware.

It is a model: its numbers are never SQL Server's, and whatever shows them says so. `README.md` describes the model.

Theory of operation. A `world` holds instances of the embedded broker that share one virtual clock and one network. The
hardware of each (`computer`) and the `network` charge time according to the `parameters` (`hardware/*.toml`, fitted by
`calibration`). `simulated_lab` makes a `harness.lab.instances.Lab` of a world. The connections to its instances look
like pyodbc's; while a caller's statement runs, virtual time passes for everybody. So linking, dialogs, resets and
observation are those of every lab, and so is the protocol of a cell (`run.attempt`). Only the clients
(`client_threads`) are tasks in the world, and the observers visit it from outside.

A `simulated_cell` runs in a fork (`forks`) of a warmed world, which is linked and has its dialogs and queue readers.
`virtual_testbed` builds the worlds that a run needs; on servers that is `run.testbed`. `spark_job` has Spark compute
cells, in the slices that balance best. `calibration` and `sensitivity` measure cells at other costs: the one against
the paper's numbers or those of a measured run. `faults` breaks things under load and checks from outside that no
message is lost, repeated or out of order. Whole runs are in `harness.experiments`.

Rules: time and entropy come from the world, and entropy from its seed. Nothing depends on the order of a set, on hash()
of text, on threads or on the machine. The result of a cell depends on the seed, the cell, the block and the number of
the attempt.

Not modelled: memory, data files and checkpoints, latches of tables other than sys.sysdesend, and the clients' computers
unless they are the instances' too. Statements of observers take no time.
"""
