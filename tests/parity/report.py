"""The comparison of two recordings as a page: counts, and each difference with both answers."""

import difflib
import html
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from harness.definitions.lab_kinds import EMBEDDED_EDITION
from tests.parity.journal import Recording

# Known differences of the embedded broker.
NOT_MODELLED = (
    "fragments: a body travels whole, so `receive_sequence_frag` and its like stay 0; forwarding and mirrored routes",
    "`last_send_tran_id`, the file and page where anything of SQL Server's own lies, the database `model`",
    "T-SQL outside what Service Broker applications use (MERGE, global temporary tables, sequences, MARS): error 50001, which "
    "names statement and line",
    "`@@VERSION` and `SERVERPROPERTY`: they name the embedded broker",
)
_RAN = ("passed", "failed")


@dataclass
class Difference:
    """A statement sent to both and answered differently, by the parts of the answer."""

    connection: int
    statement: str
    parameters: list[str]
    parts: dict[str, tuple[str, str]]


@dataclass
class TestDifference:
    """The differences in one test."""

    name: str
    outcomes: tuple[str, str]
    why: tuple[str, str]
    statements: list[Difference] = field(default_factory=list)
    unmatched: tuple[list[str], list[str]] = ((), ())  # type: ignore[assignment]

    @property
    def outcome_differs(self) -> bool:
        return self.outcomes[0] != self.outcomes[1]

    def __bool__(self) -> bool:
        return self.outcome_differs or bool(self.statements) or any(self.unmatched)


@dataclass
class Comparison:
    """The differences between two recordings, and how much was compared."""

    left: Recording
    right: Recording
    differences: list[TestDifference]
    compared: int
    statements: int
    skipped: list[str]
    alone: list[dict[str, Any]]  # tests that ran only on the right side

    @property
    def names(self) -> tuple[str, str]:
        version = self.right.server.get("version", EMBEDDED_EDITION)
        return "embedded", "stand-in" if EMBEDDED_EDITION in version else "SQL Server"


def compare(left: Recording, right: Recording) -> Comparison:
    comparison = Comparison(left, right, [], 0, 0, [], [])
    for name in [*left.tests, *(name for name in right.tests if name not in left.tests)]:
        one, other = (
            side.tests.get(name, {"outcome": "absent", "why": "", "statements": []}) for side in (left, right)
        )
        if "skipped" in (one["outcome"], other["outcome"]):
            comparison.skipped.append(f"{name}: {one['why'] or other['why']}")
            continue
        if one["outcome"] == "absent":
            comparison.alone.append(other)
            continue
        comparison.compared += 1
        comparison.statements += len(one["statements"])
        if difference := _test(name, one, other):
            comparison.differences.append(difference)
    return comparison


def _test(name: str, one: dict[str, Any], other: dict[str, Any]) -> TestDifference:
    found = TestDifference(name, (one["outcome"], other["outcome"]), (one["why"], other["why"]))
    mine, theirs = one["statements"], other["statements"]
    alone: tuple[list[str], list[str]] = ([], [])
    matcher = difflib.SequenceMatcher(
        None, [_key(sent) for sent in mine], [_key(sent) for sent in theirs], autojunk=False
    )
    for verb, start, end, other_start, other_end in matcher.get_opcodes():
        if verb != "equal":
            alone[0].extend(sent["statement"] for sent in mine[start:end])
            alone[1].extend(sent["statement"] for sent in theirs[other_start:other_end])
            continue
        for sent, same in zip(mine[start:end], theirs[other_start:other_end], strict=True):
            if parts := _parts(sent, same):
                found.statements.append(Difference(sent["connection"], sent["statement"], sent["parameters"], parts))
    found.unmatched = alone
    return found


def _key(sent: dict[str, Any]) -> tuple[Any, ...]:
    return sent["connection"], sent["statement"], *sent["parameters"]


def _parts(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The parts of two answers that differ: name of the part -> both, as text."""
    first, second = _described(one), _described(other)
    parts = [*first, *(part for part in second if part not in first)]
    both = {part: (first.get(part, "(none)"), second.get(part, "(none)")) for part in parts}
    return {part: texts for part, texts in both.items() if texts[0] != texts[1]}


def _described(sent: dict[str, Any]) -> dict[str, str]:
    described = {"error": sent["error"] or "(none)"}
    for number, result in enumerate(sent["results"], 1):
        prefix = f"result {number}: " if len(sent["results"]) > 1 else ""
        described[f"{prefix}columns"] = "\n".join(result["columns"]) or "(no result set)"
        described[f"{prefix}rows"] = "\n".join(", ".join(row) for row in result["rows"]) or "(no row)"
        described[f"{prefix}row count"] = str(result["row_count"])
        described[f"{prefix}messages"] = "\n".join(result["messages"]) or "(none)"
    return described


def page(comparison: Comparison) -> str:
    left, right = comparison.names
    servers = (comparison.left.server, comparison.right.server)
    differences = comparison.differences
    answers = sum(len(difference.statements) for difference in differences)
    lines = [f"# Parity: the embedded broker and {right if right == 'SQL Server' else f'a {right}'}", ""]
    if right != "SQL Server":
        lines += [
            "**The other side is not SQL Server but a stand-in: this page shows how the comparison works, nothing else.**",
            "",
        ]
    lines += [
        f"| | {left} | {right} |",
        "|---|---|---|",
        *(
            f"| {key} | {_cell(servers[0].get(key, ''))} | {_cell(servers[1].get(key, ''))} |"
            for key in ("version", "origin", "driver")
        ),
        *(
            f"| tests {outcome} | {counts[0]} | {counts[1]} |"
            for outcome in (*_RAN, "error", "skipped", "absent")
            if any(counts := [_count(side, outcome, comparison) for side in (comparison.left, comparison.right)])
        ),
        "",
        f"{comparison.compared} tests compared, {comparison.compared - len(differences)} the same, {len(differences)} different; "
        f"{answers} of {comparison.statements} statements answered differently.",
        "",
        "Replaced before comparing: uniqueidentifiers, object and transaction ids by the order of their appearance; times of the "
        "run, sessions, names of server and database by a word. Types are those that the driver reports (size, precision, scale). "
        "State and severity of an error reach no ODBC client; the probes read them in CATCH.",
        "",
        "Not modelled by the embedded broker, so expected to differ:",
        "",
        *(f"- {text}" for text in NOT_MODELLED),
    ]
    lines += _section_of_outcomes(differences, (left, right))
    if differences:
        lines += ["", "## Differences", ""]
    for difference in differences:
        lines += _section(difference, (left, right))
    if comparison.alone:
        lines += ["", f"## Only on {right}", ""]
    for test in comparison.alone:
        lines += _section_of_answers(test)
    if comparison.skipped:
        lines += ["", "## Not compared", "", *(f"- {text}" for text in comparison.skipped)]
    return "\n".join(lines).rstrip() + "\n"


def _count(side: Recording, outcome: str, comparison: Comparison) -> int:
    if outcome == "absent":
        return len({*comparison.left.tests, *comparison.right.tests} - set(side.tests))
    return Counter(test["outcome"] for test in side.tests.values())[outcome]


def _section_of_outcomes(differences: list[TestDifference], names: tuple[str, str]) -> list[str]:
    lines: list[str] = []
    for side, other in ((0, 1), (1, 0)):
        mine = [one for one in differences if one.outcomes[side] == "passed" and one.outcome_differs]
        if mine:
            lines += [
                "",
                f"## Passed on {names[side]}, not on {names[other]}",
                "",
                "| test | outcome | why |",
                "|---|---|---|",
            ]
            lines += [f"| `{_short(one.name)}` | {one.outcomes[other]} | {_cell(one.why[other])} |" for one in mine]
    return lines


def _section(difference: TestDifference, names: tuple[str, str]) -> list[str]:
    lines = [f"### `{_short(difference.name)}`", ""]
    if difference.outcome_differs:
        lines += [f"{names[0]}: {difference.outcomes[0]}; {names[1]}: {difference.outcomes[1]}.", ""]
    for statement in difference.statements:
        given = f" with {', '.join(statement.parameters)}" if statement.parameters else ""
        lines += [f"Connection {statement.connection}{_cell(given)}:", "", "```sql", statement.statement, "```", ""]
        lines += [f"| | {names[0]} | {names[1]} |", "|---|---|---|"]
        lines += [f"| {part} | {_cell(one)} | {_cell(other)} |" for part, (one, other) in statement.parts.items()]
        lines.append("")
    for name, texts in zip(names, difference.unmatched, strict=True):
        if texts:
            count = f"{len(texts)} statement{'s' if len(texts) > 1 else ''}"
            lines += [f"Sent only to {name} ({count}), the first: {_cell(texts[0])}", ""]
    return lines


def _section_of_answers(test: dict[str, Any]) -> list[str]:
    """The rows and errors of a test that ran on one side only."""
    lines = [f"### `{_short(test['test'])}`: {test['outcome']}", ""]
    for sent in test["statements"]:
        answers = {part: text for part, text in _described(sent).items() if part.endswith(("rows", "error"))}
        if sent["error"] or any(result["columns"] for result in sent["results"]):
            lines += ["```sql", sent["statement"], "```", "", "| | |", "|---|---|"]
            lines += [f"| {part} | {_cell(text)} |" for part, text in answers.items() if text != "(none)"]
            lines.append("")
    return lines


def _short(name: str) -> str:
    return name.removeprefix("tests/conformance/")


def _cell(text: str) -> str:
    """Text for a Markdown table: pipes, line breaks and markup escaped."""
    lines = [html.escape(line, quote=False).replace("|", "&#124;").replace("`", "&#96;") for line in text.splitlines()]
    return "<br>".join(line.replace("*", "\\*").replace("_", "\\_") for line in lines)
