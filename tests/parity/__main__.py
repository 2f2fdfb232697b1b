"""`make parity`: runs the conformance suite on the embedded broker and on SQL Server, and writes `results/parity.md`.

The exit code is 0 whatever differs, and 3 without an SQL Server to compare with. Arguments are tests, to compare a part:
`python -m tests.parity tests/conformance/test_dialogs.py`.
"""

import subprocess
import sys
from pathlib import Path

from tests.conformance import servers
from tests.parity import report
from tests.parity.journal import Recording

RESULTS = Path("results")
SUITE = "tests/conformance"
FILES = "python_files=test_*.py batches.py"
NO_SERVER = 3
# The mark that selects the tests of a kind of server. SQL Server first, because it may fail to start.
_KINDS = {"sqlserver": "sqlserver", "embedded": "not sqlserver"}


def main(tests: list[str], results: Path = RESULTS) -> int:
    if reason := servers.missing():
        print(f"parity: {reason}", file=sys.stderr)
        return NO_SERVER
    recordings = {}
    for kind, marked in _KINDS.items():
        path = results / f"parity-{kind}.jsonl"
        print(f"conformance tests on {kind}, recorded in {path}", flush=True)
        recordings[kind] = record(path, marked, tests)
        ran = [test for test in recordings[kind].tests.values() if test["outcome"] in ("passed", "failed")]
        if not ran:
            why = next((test["why"] for test in recordings[kind].tests.values()), "no test was selected")
            print(f"parity: nothing ran on {kind}: {why}", file=sys.stderr)
            return NO_SERVER
    comparison = report.compare(recordings["embedded"], recordings["sqlserver"])
    page = results / "parity.md"
    page.write_text(report.page(comparison), encoding="utf-8")
    print(f"{comparison.compared} tests compared, {len(comparison.differences)} different: {page}")
    return 0


def record(path: Path, marked: str, tests: list[str]) -> Recording:
    """Run the suite in its own process; the recording holds the failures."""
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider"]
    # One driver: two would record everything twice.
    select = ["-m", marked, "-k", "microsoft", "--record", str(path), "-o", FILES]
    done = subprocess.run([*command, *select, *(tests or [SUITE])], check=False, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1, 5):  # passed, failed, none selected
        raise SystemExit(f"parity: pytest ended with exit code {done.returncode}")
    return Recording.read(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
