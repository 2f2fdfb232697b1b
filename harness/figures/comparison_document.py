"""A comparison for other programs: JSON, JUnit's XML for a CI, Markdown for a job's summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pandas as pd
from lxml import etree
from pydantic import BaseModel, Field

from harness.definitions.inference import Difference
from harness.figures.gate import Gate
from harness.figures.parts import short
from harness.files.document import Document, number, write
from harness.output.safe_text import visible

SUITE = "harness compare"


class ComparedRun(BaseModel):
    lab: str = Field(description="whose numbers these are: sqlserver, embedded, simulated")
    run_id: str
    load_model: str


class Ratio(BaseModel):
    name: str = Field(description="all cells, some of them, or the id of a cell")
    cells: int = Field(description="cells that count in both runs")
    blocks: int = Field(description="blocks of the run that has fewer")
    ratio: float | None = Field(description="messages processed per second, b divided by a; null where unknown")
    ratio_low: float | None = Field(description="lower end of the 95 % interval; null below three blocks")
    ratio_high: float | None = Field(description="its upper end")
    verdict: str = Field(description="faster, slower, same within 5 %, cannot tell")


class ComparisonDocument(Document):
    a: ComparedRun
    b: ComparedRun
    threshold: float = Field(description="a change that matters, as a part: --fail-over, or 0.05")
    conclusion: str
    gate: Literal["passed", "slower", "cannot tell"]
    slowdowns: list[str] = Field(description="what is slower in b by more than the threshold")
    unknown: list[str] = Field(description="what may be, because nobody can tell")
    groups: list[Ratio]
    cells: list[Ratio]

    @classmethod
    def of(
        cls, cells: pd.DataFrame, groups: pd.DataFrame, judged: Gate, *, conclusion: str, threshold: float
    ) -> ComparisonDocument:
        """Make it of the tables of a `figures.comparison.Comparison` and what it decided."""
        first = cells.iloc[0]
        a, b = (
            ComparedRun(**{name: first[f"{name}_{side}"] for name in ComparedRun.model_fields}) for side in ("a", "b")
        )
        return cls(
            a=a,
            b=b,
            threshold=threshold,
            conclusion=conclusion,
            gate="slower" if judged.slowdowns else "cannot tell" if judged.unknown else "passed",
            slowdowns=judged.slowdowns,
            unknown=judged.unknown,
            groups=[
                _ratio(row.group, row.cells, row.blocks, row.ratio, row.ratio_low, row.ratio_high, row.verdict)
                for row in groups.itertuples()
            ],
            cells=[
                _ratio(
                    row.cell_id,
                    int(row.counts),
                    min(row.blocks_a, row.blocks_b),
                    row.processed_per_s_ratio,
                    row.processed_per_s_ratio_low,
                    row.processed_per_s_ratio_high,
                    row.verdict,
                )
                for row in cells.itertuples()
            ],
        )

    def write(self, *, json: Path | None, junit: Path | None, markdown: Path | None) -> list[Path]:
        """Write the files that are named, and return them; raises NotWritable."""
        texts = [(json, self.as_json), (junit, self.as_junit), (markdown, self.as_markdown)]
        wanted = {path: text() for path, text in texts if path is not None}
        write(wanted)
        return list(wanted)

    def as_junit(self) -> str:
        """Return a test for the gate, and one for each group and cell: a failure is slower, a skipped one unknown."""
        tests: list[tuple[str, str, str]] = [("gate", self.gate, "\n".join(self.slowdowns or self.unknown))]
        tests += [
            (entry.name, entry.verdict, f"{_number(entry)}, {_interval(entry)}")
            for entry in (*self.groups, *self.cells)
        ]
        suite = etree.Element("testsuite", name=SUITE, tests=str(len(tests)))
        for name, verdict, text in tests:
            test = etree.SubElement(suite, "testcase", classname=f"{SUITE} {self.a.run_id} {self.b.run_id}", name=name)
            if verdict in (Difference.SLOWER.value, Difference.UNKNOWN.value):
                kind = "failure" if verdict == Difference.SLOWER.value else "skipped"
                etree.SubElement(test, kind, message=visible(verdict)).text = "; ".join(map(visible, text.splitlines()))
        for kind, count in (("failures", "failure"), ("skipped", "skipped")):
            suite.set(kind, str(len(suite.findall(f"*/{count}"))))
        return str(etree.tostring(suite, encoding="unicode", pretty_print=True))

    def as_markdown(self) -> str:
        lines = [
            f"**{visible(self.conclusion)}**",
            "",
            "| cells | b/a | 95 % interval | verdict |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {visible(entry.name)} | {_number(entry)} | {_interval(entry)} | {entry.verdict} |"
            for entry in self.groups
        ]
        for heading, phrases in (("Slower", self.slowdowns), ("Cannot tell", self.unknown)):
            if phrases:
                lines += ["", f"{heading}:", "", *(f"- {visible(phrase)}" for phrase in phrases)]
        origins = (f"{side}: {run.run_id}, {run.lab} lab" for side, run in (("a", self.a), ("b", self.b)))
        return "\n".join(
            [*lines, "", f"{'; '.join(origins)}; a change below {short(100 * self.threshold)} % does not matter.", ""]
        )


def _ratio(name: str, cells: int, blocks: int, ratio: Any, low: Any, high: Any, verdict: str) -> Ratio:  # noqa: PLR0917
    ratio, low, high = map(number, (ratio, low, high))
    return Ratio(name=name, cells=cells, blocks=blocks, ratio=ratio, ratio_low=low, ratio_high=high, verdict=verdict)


def _number(entry: Ratio) -> str:
    return "unknown" if entry.ratio is None else f"{entry.ratio:.3f}"


def _interval(entry: Ratio) -> str:
    if entry.ratio_low is None or entry.ratio_high is None:
        return "no interval"
    return f"{entry.ratio_low:.2f} to {entry.ratio_high:.2f}"
