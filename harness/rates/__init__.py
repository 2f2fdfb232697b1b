"""Latency against throughput of one cell: `harness rates`.

The first step is the cell in the closed loop, whose rate no load of these threads can exceed for long. The others are
open loops at 10 %, 20 %, ... 110 % of it. Each step follows the protocol of a cell (`harness.sweep.attempt`), and has
its own folder below `rates/`, laid out like that of a sweep, and a line in the run's journal. All use the same dialogs.

Modules: `rate_steps` the steps and their testbeds, `rates_table` the rows, `rates_run` from options to table and
figure, which is `harness.figures.rate_lines`.
"""
