"""What is run, and how it is evaluated: cells of a matrix, one cell at several rates, the paper's recommendations.

- `run_lab`: the lab of a run and its settings, which every run asks alike; `lab_choice` chooses one, also where a run
  is resumed, and has servers; `virtual_lab` is a model, whose cells Spark computes
- `matrix_run`: a run of cells, and how long it takes; `selected_cells`: its cells
- `repeats_plan`, `precision`: which gain so many repeats can show; which pairs need a further one; `sweep_plan`: both
  before anything starts
- `rate_steps`, `rates_run`, `rates_table`: latency against throughput of one cell
- `technique_scenario`, `scenario_run`, `techniques_table`: the paper's recommendations
- `recorded_attempts`: the rows of both tables, from raw records

**Rates.** The first step is the cell in the closed loop, whose rate no load of these threads can exceed for long. The
others are open loops at 10 %, 20 %, ... 110 % of it. Each step follows the protocol of a cell (`harness.run.attempt`),
and has its own folder below `rates/`, laid out like that of a run of cells, and a line in the run's journal. All use
the same dialogs.

**Techniques.** The paper's recommendations are a scenario that runs on any lab, one step after another.
`techniques.toml` is the scenario: one load, and steps. A step is a workload with what it changes of it, by the keys of
a `workload.toml`: the procedure that clients call, how many messages a RECEIVE takes, how long a reader waits for
messages, how many readers there may be. Its other settings are on which dialogs clients send, how many are begun for
each used one, and whether they are warmed up. There are two kinds of steps.
The *ladder* begins with none of the recommendations and adds one per step. The *warnings* begin with all of them, the
`baseline`, and each leaves one out; they are compared with that baseline.

`reduced/techniques.parquet` names its rows by these keys (`techniques_table.SCHEMA` lists the columns):

| ladder | | warnings | |
|---|---|---|---|
| `dialog_per_message` | the start | `baseline` | as `trick_150` |
| `reuse` | one dialog per thread | `receive_top_1` | |
| `receive_top_n` | RECEIVE TOP (10000) | `short_activation_life` | readers end when the queue is empty |
| `activation_life` | readers stay 3 s | `few_readers` | one |
| `readers_per_core` | up to 16, two per core of the paper | `single_conversation` | one per initiator |
| `trick_150` | every 150th dialog | `one_message_per_conversation` | begun, used once, ended |
| | | `cold` | no warm-up |

`variants.toml` is another scenario, `--scenario variants`, of a third kind of steps. The *variants* are compared with
a baseline, the paper's set-up: `heaps` (tables without a key), `unordered` (no ORDER BY), `as_caller` (SEND with the
client's own right, no EXECUTE AS), `direct_rpc` (calls that Microsoft's driver does not prepare), `retention`, and
`batch`, in which activation is off until the clients have stopped, and `outside_readers`, in which an activator starts
programs that receive in place of the procedure.

Every step follows the protocol of a cell (`harness.run.attempt`), with its accounting, and has its own folder below
`techniques/` and a line in the run's journal. Once its clients have stopped, the target receives with the paper's
settings, so that draining a RECEIVE TOP (1) does not take an hour. Only the measured window counts.
"""
