"""The paper's recommendations, one after another, as a scenario that runs on any lab.

`techniques.toml` is the scenario: a load, the same for all, and steps that say what differs: which conversations the
clients send on, how many dialogs are begun for one in use, whether they are warm; what one RECEIVE takes, how long a
reader stays, how many readers there may be. Its steps come in two kinds. The *ladder* begins with nothing of what the
paper recommends and adds one technique a step. The *warnings* begin with all of it, the `baseline`, and take one thing
away each; they are compared with that baseline, which runs beside them.

Keys of techniques, by which `reduced/techniques.parquet` names its rows (`table.SCHEMA` has the columns):

| ladder | | warnings | |
|---|---|---|---|
| `dialog_per_message` | the start | `baseline` | as `trick_150` |
| `reuse` | one dialog a thread | `receive_top_1` | |
| `receive_top_n` | RECEIVE TOP (10000) | `short_activation_life` | readers end when nothing is there |
| `activation_life` | readers stay 3 s | `few_readers` | one |
| `readers_per_core` | up to 16, two per core of the paper | `single_conversation` | one for an initiator's threads |
| `trick_150` | every 150th dialog | `one_message_per_conversation` | begun, used once, ended |
| | | `cold` | no warm-up |

Every step runs by a cell's protocol (`harness.sweep.attempt`), with its accounting, in a folder of its own below
`techniques/`; the run's journal has a line for each. What a slow step leaves in the target's queue is received by the
paper's means once its clients have stopped: nobody waits an hour for a RECEIVE TOP (1). Therefore only what happened in
the measured window counts.

Modules: `scenario` reads the file, `stand` arranges lab and dialogs, `simulated` does so in virtual time, `table`
makes the rows, `run` is the whole.
"""
