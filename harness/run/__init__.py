"""A run: one cell after another by one protocol, accounting for every message and surviving every failure.

- `attempt`: one attempt at a cell, from the check of generator and lab to its records
- `settling`: when rates, queue depth and queue readers are steady, so that measuring can begin
- `validity`: whether a completed cell counts, and for what: valid, saturated, unsettled, behind, starved or disturbed;
  `steadiness`: how well a rate is known, and whether it changed
- `accounts`: the two ways to account for messages: `accounting` by header, every message sent is processed once, in
  order on its dialog; and `counting`, what was sent and waits in no queue has been processed
- `cell_failures`: why an attempt failed, and whether another would fail the same way
- `cell_clocks`: the target's clock, and those of client machines, against this machine's
- `engine`: the loop over the cells: journal, second attempts; `in_process`: attempts one after another on a testbed,
  which is rebuilt after a failure (Spark's many at once are in `harness.simulation.spark_job`)
- `testbed`, `equipment`: lab, dialogs, clients, observers and connections, kept as long as they fit the next cell; the
  examination of a lab before its first cell
- `phases`: how long each phase of a cell took; `run_folder`: the run's folder, made or reopened with its manifest
- `under_way`: how every run is run: no other process writes into it, and an early end says how to go on
- `outside_readers`: programs that receive in place of the activation procedure
- `leaks`: conversations that a cell leaves behind
- `restart`: a restart of the target by the user in the middle of a soak

Rules. A cell is completed only if its line in the journal says so. That line is written last, after the cell's raw
records, and is on disk before the next cell starts. A cell whose accounting shows a difference has failed, however fast
it was. A failed cell gets a second attempt on a rebuilt testbed, unless a server refuses the workload's own statements,
as it would again; then the sweep goes on. Only a full disk, an unwritable folder, or a lab that does not start ends a
sweep early. Phases end on conditions, never after a fixed sleep; the measured window is the one exception.
"""
