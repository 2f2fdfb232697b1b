"""The paper's statements, held against a result set of any lab.

`harness.whitepaper.CLAIMS` says what is claimed and within which bounds it holds. Here stands, claim by claim, how a
run's reduced tables are made into the number that is held against those bounds:

* `throughput`: peaks, growth with initiators and threads, payloads, the complete matrix, versions
* `gain`: what the 150 trick is worth, from where on
* `waits`, `latches`: what instances wait for, where dialogs lie, what they cost in memory
* `servers`: processors, which side is the bottleneck, what goes to disk
* `techniques`: the paper's advice, from the table of the techniques' scenarios where there is one
* `footing`: which claims the model of the paper's hardware was fitted to, or answers by construction

Rules:

* The verdict is of the number itself: *holds* where it lies within the bounds, *fails* where it does not. The interval
  beside it says how far it depends on the choice of cells (95 % bootstrap over cells), or, of a single point of the
  matrix, what its server versions span, or its seconds where there is one version. Where an interval reaches over a
  bound, the explanation says so.
* *Not measured* is a verdict: cells, loads or tables that a claim speaks of are not in the result set. Nothing is
  extrapolated: a run without cells of thirty threads an initiator has no peak.
* A rate that its target did not sustain (`target_kept_up`) is no throughput here, except of techniques: what most of
  them leave out is the target's to pay, and that it then falls behind is their effect. The explanation says so.
* A claim that nothing could break is not measured: nobody seen waiting says nothing of whose pages are waited for.
* Where the paper speaks of total threads without initiators, its figure 5 has three: so do the claims.
* A simulated or embedded lab's verdict is of that lab. That a claim holds there says nothing of SQL Server.
"""

from harness.claims.judgement import Judgement, Measurement, NotMeasured, Tables, Verdict, counted
from harness.claims.judging import evaluate
from harness.claims.record import as_table, markdown, write

__all__ = [
    "Judgement",
    "Measurement",
    "NotMeasured",
    "Tables",
    "Verdict",
    "as_table",
    "counted",
    "evaluate",
    "markdown",
    "write",
]
