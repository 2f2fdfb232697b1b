"""What the words of this harness mean: cells and their order, loads, labs, rates and intervals, the paper's numbers.

- `matrix`: a cell, its axes and their bounds, the paper's 528 cells, pairs, and the order of a run
- `load_model`: when clients send: the closed loop, or an open loop with its rate
- `lab_kinds`: what each kind of lab can do, and the words for its numbers; the only place with names of labs
- `measures`: rates and percentiles of an attempt, each defined once
- `inference`: intervals of ratios, verdicts, the difference that a number of repeats shows
- `whitepaper`: the paper's numbers and words as data
- `units`: durations and sizes in words
"""
