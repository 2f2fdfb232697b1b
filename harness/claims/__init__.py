"""The paper's claims, checked against the reduced tables of a run of any lab.

`harness.whitepaper.CLAIMS` states each claim and the bounds within which it holds. This package computes, claim by
claim, the run's number that is compared with those bounds:

* `throughput`: peaks, growth with initiators and threads, payloads, the complete matrix, versions
* `gain`: what the 150 trick gains, and from how many threads on; what the paper's other recommendations gain
* `waiting`: what instances wait for, whose pages, and on which pages dialogs lie
* `server_load`: processors, which side is the bottleneck, what goes to disk

`evaluation` compares them, and makes the table, which says how the model obtained each of its numbers.

Rules:

* The number alone decides the verdict: *holds* if it lies within the bounds, else *fails*. The spread printed beside
  it is the lowest and highest value of the cells, versions, lines, pools, seconds or runs that the number is made of.
  It is not a confidence interval. If it reaches beyond a bound, the explanation says so.
* *Not measured* is a verdict of its own: the result set lacks the cells, loads or tables that the claim speaks of.
  Nothing is extrapolated: a run without cells of 30 threads per initiator has no peak.
* A rate that the target did not sustain (`target_kept_up`) does not count as throughput, except for techniques: without
  most of them the target falls behind, and that is their effect. The explanation says so.
* A claim that no data could refute is not measured. If nobody was seen waiting, the run says nothing about whose
  pages are waited for.
* Where the paper gives total threads without a number of initiators, its figure 5 has three, and so do the claims.
* A verdict on a simulated or embedded lab is about that lab, not about SQL Server.
"""

from harness.claims.evaluation import as_table, evaluate, markdown, write
from harness.claims.judgement import Judgement, Measurement, NotMeasured, Verdict, counted

__all__ = ["Judgement", "Measurement", "NotMeasured", "Verdict", "as_table", "counted", "evaluate", "markdown", "write"]
