"""A load-test harness for Service Broker, after Microsoft's "Service Broker: Performance and Scalability Techniques".

The paper, below and everywhere in this repository: M. Thomassy, March 2009; `definitions.whitepaper` has its
numbers and words.

From Python, in a notebook or a script (`results/from-python.ipynb` is one that runs):

    import harness

    with harness.open_lab(lab="embedded", initiators=2) as lab:     # linked instances of your own
        lab.target.connect().execute("SELECT @@VERSION").fetchval()
    before = harness.run_matrix(lab="embedded", threads=[1, 10], payloads=[100], repeats=3, measure="2s")
    before.cells()                          # pandas: a row per cell and block; `processed_per_s`, `latency_us_p95`
    before.calls()                          # pandas: a row per call of the send procedure; `latency_ns`
    before.spark("raw/calls")               # the same for Spark
    before.draw()                           # figures and report.html
    harness.Run("results/20260101-120000-embedded").compare(before).verdicts

The public names, each with its arguments, units and errors in its own docstring:

- `plan_matrix`: what a sweep would do, how long it takes, which gain its repeats can show
- `run_matrix`, `run_cell`, `simulate`, `run_rates`, `run_techniques`: measure, or compute in virtual time; each returns
  a `Run`
- `run_soak`: a cell for hours: what drifts, and whether every message arrives
- `run_pair`: two workloads or settings in turns, to be compared
- `run_twins`: the same again and again: how much runs differ here
- `Run`: the folder of a run: tables for pandas and Spark, figures, claims, comparison
- `open_lab`, `examine_lab`: instances to try things on; what is wrong with them, and the remedy
- `write_lab_scripts`: what would be executed on your own servers, as files
- `UsageFailure`, `MachineFailure`: the two kinds of errors that a user can mend, as the command line's exit codes 2 and
  3; `Declined`: a reporter answered a question with no

The command line measures, reduces, draws and compares with nothing else (a contract in `pyproject.toml`). Everything
beside these names may change without notice. `import harness` imports none of it: that happens at the first use of a
name, because every process of the product imports this package.

The way of a run: `cli` takes a command, `files.settings` validates its options, `experiments` selects and orders what
is run. `lab` starts and links instances with the scripts of `sql/`; everything after that is T-SQL through pyodbc.
`run` runs one cell after another by the same protocol, with `load` (Locust: the clients) and `observe` (samplers)
beside it, accounts for every message, and writes raw records (`files.records`) and a journal. `reductions` (PySpark)
makes tables of them, `figures` (Matplotlib) draws those, and `claims` checks what the paper states. `output.reporting`
shows a run to the user.

`embedded` is a small server for the lab of that name. Two packages import it: `cli`, whose command `serve` `lab` starts
as a process, and `simulation`, which runs the broker in virtual time on a model of hardware. The others reach
it only through pyodbc.

Imports only point down: cli, api and results (what is public), experiments, simulation, run, figures and reductions,
claims, doctor, load and observe, lab, embedded, then files, output and definitions. A failure that a user can mend
derives from `failures` and becomes one line and an exit code.
"""

TYPE_CHECKING = False  # as type checkers know it, without the import of typing
if TYPE_CHECKING:
    from harness.api import (
        examine_lab,
        open_lab,
        plan_matrix,
        run_cell,
        run_matrix,
        run_pair,
        run_rates,
        run_soak,
        run_techniques,
        run_twins,
        simulate,
        write_lab_scripts,
    )
    from harness.failures import Declined, MachineFailure, UsageFailure
    from harness.results.run import Run

__all__ = [
    "Declined",
    "MachineFailure",
    "Run",
    "UsageFailure",
    "examine_lab",
    "open_lab",
    "plan_matrix",
    "run_cell",
    "run_matrix",
    "run_pair",
    "run_rates",
    "run_soak",
    "run_techniques",
    "run_twins",
    "simulate",
    "write_lab_scripts",
]


def __getattr__(name: str) -> object:
    """Import what is public when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    from harness import api  # noqa: PLC0415

    public: object = getattr(api, name)
    return public


def __dir__() -> list[str]:
    return [*globals(), *__all__]
