"""A run in its folder: its tables as DataFrames, figures, claims, and how it compares with another run."""

# ruff: noqa: PLC0415  whoever asks for no table pays for no pandas, and without Spark Java is not needed

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.failures import nearest

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from harness.figures.comparison import Comparison
    from harness.output.reporting import Reporter, SafeConsole
    from harness.results.document import RunDocument
    from harness.results.summary import Summary
    from harness.run.under_way import Outcome

Tell = Callable[[str], None]


def silent(text: str) -> None:
    """Tell nobody."""


def reporter_for(progress: bool | Reporter) -> Reporter:
    """The reporter of a function with the keyword `progress`: True prints a line for each cell or figure."""
    from harness.output import reporting

    if isinstance(progress, bool):
        return reporting.Lines(ask=False) if progress else reporting.Reporter()
    return progress


class Run:
    """A run in its folder, measured just now or long ago.

    `results/README.md` describes the tables. The unit is the end of a column's name: `_per_s`, `_us`, `_ns`, `_bytes`,
    `_percent`; a missing number is null. The folder may be a `file:` URI. Raises NoRun, a UsageFailure, for a folder
    that is not a run's, and for URIs of other schemes, which `fetched` reads. `reduce` and `draw` raise InUse, a
    MachineFailure, while another process writes into the folder.
    """

    THRESHOLD = 0.05  # of `compare`: a change that matters, as a part

    def __init__(self, folder: Path | str, outcome: Outcome | None = None) -> None:
        from harness.run import run_folder

        self.folder = run_folder.require_run(run_folder.named(folder))
        self.place = str(self.folder)
        self._outcome = outcome

    @classmethod
    @contextmanager
    def fetched(cls, place: Path | str) -> Iterator[Run]:
        """The run of a folder, or of a URI that pyarrow reads (`s3:`, `s3a:`, `gs:`, `abfs:`, `hdfs:`), for a block.

        A run with a URI is a copy of its manifest, journal and raw records in a temporary folder. When the block ends,
        its reduced tables are written to the store; `place` is the URI, without secrets. Raises NoRun, and
        StoreFailure, a MachineFailure, if the store cannot be read or written.
        """
        from harness.run import run_store

        if not run_store.is_store(place):
            yield cls(place)
            return
        with run_store.fetched(str(place)) as folder:
            run = cls(folder)
            run.place = run_store.public(str(place))
            yield run

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def manifest(self) -> dict[str, Any]:
        """The circumstances of the run: lab, settings, versions, machine, commit, start and end."""
        from harness.run import run_folder

        return run_folder.read_manifest(self.folder)

    @property
    def outcome(self) -> Outcome:
        """How many cells, each once a block, were completed or failed, and why the last of them failed."""
        if self._outcome:
            return self._outcome
        from harness.files import journal
        from harness.run.under_way import Outcome

        last = {(entry.cell, entry.block): entry for entry in journal.read(self.folder / journal.NAME)}
        failed = [entry.reason for entry in last.values() if entry.outcome == "failed"]
        return Outcome(self.folder, len(last), len(last) - len(failed), len(failed), failed[-1] if failed else "")

    # -- tables -------------------------------------------------------------------------------------------------------

    def cells(self) -> pd.DataFrame:
        """One row per completed cell and block: `state`, messages per second, latencies, queue depths, processor use.

        Only rows whose `state` is `valid` count. Raises ResultsError, a UsageFailure, if the run was not reduced.
        """
        return self.table("cells")

    def calls(self) -> pd.DataFrame:
        """One row per call of the send procedure: initiator, thread, sequence, start and latency in nanoseconds.

        A whole matrix has millions: `spark("raw/calls")` reads them without this process's memory.
        """
        return self.table("raw/calls")

    def table(self, name: str) -> pd.DataFrame:
        """A table of `reduced/`, such as `gain`, or the raw records of a kind, such as `raw/calls`.

        Raises ResultsError for an unknown name, and if the run was not reduced.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from harness.files.records import SCHEMAS

        tables = [pq.read_table(path) for path in self._files(name)]
        if name.startswith("raw/"):
            tables.append(SCHEMAS[name.removeprefix("raw/")].empty_table())  # of some kinds a lab has no records
        return pa.concat_tables(tables, promote_options="permissive").to_pandas()

    def spark(self, name: str) -> DataFrame:
        """The same table for Spark: the one that runs, or one that this starts and that ends with Python.

        Raises SparkUnavailable, a MachineFailure, if Java is missing.
        """
        from harness import reductions
        from harness.reductions.spark_session import kept_session

        files = [reductions.readable(path.absolute()) for path in self._files(name)]
        reader = kept_session().read
        if name.startswith("raw/"):
            schema = reductions.raw_schema(name.removeprefix("raw/"))
            return reader.schema(schema).parquet(*files) if files else kept_session().createDataFrame([], schema)
        return reader.parquet(*files)

    def _files(self, name: str) -> list[Path]:
        from harness.files.records import SCHEMAS, ResultsError

        tables = {path.stem: path for path in (self.folder / "reduced").glob("*.parquet")}
        if name in tables:
            return [tables[name]]
        from harness import reductions
        from harness.reductions import raw_files

        kinds = {f"raw/{kind}": kind for kind in SCHEMAS}
        if name in kinds:
            return list(raw_files.read(self.folder).files[kinds[name]])
        if name in reductions.TABLES:
            reduce = f"harness reduce {shlex.quote(str(self.folder))}"
            raise ResultsError(f"{self.folder} has no reduced/{name}.parquet: run `{reduce}` first")
        valid = sorted({*reductions.TABLES, *tables})
        raise ResultsError(f"{self.folder} has no table {name!r}{nearest(name, [*valid, *kinds])}")

    def summary(self) -> Summary:
        """What the command line shows at the end: a `table` of texts, its `explanation`, and `findings` in sentences.

        A cell that `run_cell` has just run need not be reduced; any other run raises ResultsError if it was not.
        """
        from harness.results import summary

        if (measured := self.outcome.measured) and not (self.folder / "reduced").exists():
            return summary.of_cell(self.folder, measured)
        from harness.results import reduced_summary  # it needs Matplotlib, which a cell need not wait for

        return reduced_summary.read(self.folder)

    def document(self) -> RunDocument:
        """What `--json` writes: the cells with state, rates and latencies, what does not count, and the conclusion."""
        from harness.files import journal
        from harness.results import document

        entries = list(journal.read(self.folder / journal.NAME))
        if has_tables := (self.folder / "reduced").is_dir():
            numbers = {(row["cell_id"], row["block"]): row for row in self.cells().to_dict("records")}
        else:
            only = self.outcome.measured if self.outcome.total == 1 else None
            numbers = {(entry.cell, entry.block): only.columns for entry in entries if only}
        summary = self.summary() if has_tables or numbers else None
        return document.of_run(self.place, self.manifest, entries, numbers, summary)

    # -- what is made of them -----------------------------------------------------------------------------------------

    def reduce(self, *, master: str | None = None, progress: bool | Reporter = False) -> list[Path]:
        """Make the tables of `reduced/` from the raw records, with Spark; return the files.

        `master` is by default this machine. On a cluster, `spark://host:7077`, the run's folder must be the same folder
        everywhere, which that of a fetched run is not. `progress` is that of `run_matrix`, with a line for each table
        and for all that is left out. Raises ResultsError, SettingsError for what is no master, or SparkUnavailable if
        Java is missing or the cluster does not answer.
        """
        from harness import reductions
        from harness.files import settings
        from harness.files.records import ResultsError

        try:
            where = {} if master is None else {"master": settings.spark_master(master)}
        except ValueError as error:
            raise settings.SettingsError(f"--master: {error}") from None
        if where and self.place != str(self.folder):
            raise ResultsError(f"{self.place} is reduced on this machine, to which it was copied: leave out --master")
        with self._writing():
            return reductions.reduce(self._of_cells(), **where, progress=reporter_for(progress))

    def draw(self, *, progress: bool | Reporter = False) -> list[Path]:
        """Draw `figures/` (PNG and SVG) and write `report.html`, the last of the files returned.

        `progress` is that of `run_matrix`, with a line for each figure, also for one that is left out and why. Raises
        ResultsError if the run was not reduced.
        """
        from harness.figures import build

        with self._writing():
            return build.draw(self.folder, progress=reporter_for(progress))

    def report(self, *, progress: bool | Reporter = False) -> Path:
        """Return `report.html`; where it is missing, or older than a reduced table, `draw` first."""
        from harness.files.records import REPORT

        path = self._of_cells() / REPORT
        tables = [table.stat().st_mtime_ns for table in (self.folder / "reduced").glob("*.parquet")]
        if path.is_file() and path.stat().st_mtime_ns >= max(tables, default=0):
            return path
        return self.draw(progress=progress)[-1]

    def queue_course(self, cell_id: str, *, block: int = 1) -> list[Path]:
        """Draw one cell into `figures/`, second by second: queues, states of queue monitors, readers; return the files.

        From the raw samples, so that the run need not be reduced. The beginning of an id is enough where no other cell
        of the run begins so. Raises ResultsError for a cell or block that the run lacks or that failed.
        """
        from harness.figures import build

        return build.draw_queue_course(self._of_cells(), cell_id, block)

    def claims(self, *, progress: bool | Reporter = False) -> pd.DataFrame:
        """The paper's claims, one a row: statement, wording, number with interval, provenance, verdict, explanation.

        `progress` is that of `run_matrix`, with a count of the claims.
        """
        from harness import claims
        from harness.figures import reduced_run

        run = reduced_run.read(self._of_cells())
        judged = reduced_run.judge(run, reporter_for(progress))
        return claims.as_table(judged, run_id=run.run_id, lab=run.lab, load_model=run.load_model)

    def origin(self) -> list[str]:
        """Two sentences for whoever sees numbers without this folder: whose they are, and what the lab is."""
        from harness.figures import reduced_run

        run = reduced_run.read(self._of_cells())
        return [reduced_run.origin(run.lab, run.load, run.versions), f"{reduced_run.footer(run)[0]}."]

    def compare(
        self,
        other: Run | Path | str,
        output: Path | str | None = None,
        *,
        threshold: float = THRESHOLD,
        despite_differences: bool = False,
        console: SafeConsole | None = None,
        progress: bool | Reporter = False,
    ) -> Comparison:
        """Compare `other` (b) with this run (a): ratios of b to a with verdicts, written with figures to `output`.

        A verdict `faster` or `slower` needs a change beyond `threshold`, a part, and an interval that excludes no
        difference: three blocks of both runs. `Comparison.gate` says what is slower and what nobody can tell, as
        `harness compare --fail-over` does. `output` is by default a folder
        `compare-A-B` beside this one. `console`, a `SafeConsole` of `harness.output.reporting`, prints the tables, and
        `progress` is that of `draw`. Raises ResultsError if the runs have no common cell, or differ in lab, hardware or
        settings without `despite_differences`.
        """
        from harness.figures import comparison
        from harness.output.reporting import SafeConsole

        other = other if isinstance(other, Run) else Run(other)
        return comparison.compare(
            self._of_cells(),
            other._of_cells(),
            Path(output) if output else None,
            threshold=threshold,
            despite_differences=despite_differences,
            console=console or SafeConsole(quiet=True),
            progress=reporter_for(progress),
        )

    def support_bundle(self) -> Path:
        """Write `support-bundle.zip` into the folder, to attach to a question, and return it.

        It has findings, error logs, tables, versions and settings, without passwords and tokens; names of servers,
        logins and databases stay in. Raises NotWritable, a MachineFailure, if the folder cannot be written.
        """
        from harness.results import support_bundle

        return support_bundle.write(self.folder)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Keep other processes out. A run that was measured just now says how to go on where it is interrupted."""
        from harness.files import journal
        from harness.run import under_way

        with under_way.locked(self.folder):
            if self._outcome is None:
                yield
                return
            with under_way.resumable(self.folder, journal.Journal(self.folder / journal.NAME)):
                yield

    def _of_cells(self) -> Path:
        """The folder, if it is a run of cells; raises ResultsError for one of techniques or of rates."""
        from harness.figures.reduced_run import is_rates_run, is_techniques_run
        from harness.files.records import ResultsError

        if is_techniques_run(self.folder):
            remedy = "draw it with harness figures, or add its table to a run of cells with harness techniques --add-to"
            raise ResultsError(f"{self.folder} is a run of techniques, without cells: {remedy}")
        if is_rates_run(self.folder):
            raise ResultsError(f"{self.folder} is a run of one cell at several rates: draw it with harness figures")
        return self.folder
