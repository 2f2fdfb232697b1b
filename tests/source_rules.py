"""The rules about source text that ruff does not know: `make lint` runs this and prints what breaks one.

Each function yields a line a violation, `file: what is wrong`.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.definitions import lab_kinds
from harness.files import workload_file

ROOT = Path(__file__).parent.parent
SQL = ROOT / "sql"
MODULES = sorted((ROOT / "harness").rglob("*.py"))
SCRIPTS = sorted(SQL.rglob("*.sql"))

TOP_LEVEL = {
    *("CHANGELOG.md", "LICENSE", "Makefile", "README.md", "docker-compose.yml", "pyproject.toml"),
    *("harness", "results", "sql", "tests"),
}

# Lines of Python. They may only fall, or be raised by a commit that says why.
LINES_MAX = {"harness": 84_797, "tests": 66_060}
# Of all names that the harness binds, as a percentage; it may only fall. Name the thing: `found` says nothing of it.
BARE_WORDS_PERCENT_MAX = 0.8
# Prepositions, participles and pronouns. `out`, `other` and `key` are Python's own words.
BARE_WORDS = set(
    """
    found one ones own told given named this these those it they them there here what which who others another each both
    wanted kept made done come gone said asked taken seen known shown meant put whole alone again beside
    of about above behind below between by in into near on onto over since through to under until up upon without within
    """.split()  # noqa: SIM905
)

# Time and entropy are injected into the embedded broker; only these know the real ones.
KNOW_REAL_TIME = ("runtime/realtime.py", "embedded/store/file_store.py", "server/")
REAL_TIME_MODULES = {"asyncio", "random", "threading", "time"}
REAL_TIME_CALLS = {"now", "today", "utcnow", "uuid1", "uuid4"}

VARIABLE = re.compile(r"\$\((\w+)\)")
HEAD = re.compile(r"/\*\n(.*?)\n\*/\n", re.DOTALL)
FIELD = re.compile(r"^(\w[\w ]*):\s*(.*?)(?=^\w[\w ]*:|\Z)", re.DOTALL | re.MULTILINE)
HEAD_FIELDS = ["Purpose", "Called by", "Assumes", "Variables"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def total_of_lines() -> Iterator[str]:
    for folder, most in LINES_MAX.items():
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py"))
        if lines > most:
            yield f"{folder}/: {lines} lines of Python, more than {most}: make it smaller, or raise LINES_MAX and say why"


def top_level() -> Iterator[str]:
    """Git keeps nothing at the top that a run left there: a broker's folder holds keys."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in sorted({path.split("/")[0] for path in listing.split("\0") if path} - TOP_LEVEL):
        if not name.startswith("."):
            yield f"{name}: git keeps it, and it does not belong at the top"


def names_that_are_bare_words() -> Iterator[str]:
    names = [name for path in MODULES for name in _bound_names(ast.parse(path.read_text(encoding="utf-8")))]
    bare = Counter(name for name in names if name.strip("_") in BARE_WORDS)
    percent = 100 * bare.total() / len(names)
    if percent > BARE_WORDS_PERCENT_MAX:
        most = ", ".join(f"{name} {count}" for name, count in bare.most_common(5))
        yield f"harness/: {percent:.2f} % of names are bare words, more than {BARE_WORDS_PERCENT_MAX} %: {most}"


def _bound_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield name


def names_that_nothing_uses() -> Iterator[str]:
    """Functions, classes and variables of a module that stand in it once and nowhere else, but for what a decorator
    registers and pytest's hooks."""
    texts = {path: path.read_text(encoding="utf-8") for path in MODULES}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = set() if node.decorator_list else {node.name}
            else:
                names = {
                    name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                }
            for name in names:
                if words[name] == 1 and not name.startswith(("__", "pytest_")):
                    yield f"{name_of(path)}:{node.lineno}: nothing uses {name}"


def real_time_in_the_embedded_broker() -> Iterator[str]:
    for path in MODULES:
        if "harness/embedded/" not in path.as_posix() or any(part in path.as_posix() for part in KNOW_REAL_TIME):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found = {alias.name.split(".")[0] for alias in node.names} & REAL_TIME_MODULES
            elif isinstance(node, ast.ImportFrom) and node.module:
                found = {node.module.split(".")[0]} & REAL_TIME_MODULES
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found = {node.func.attr} & REAL_TIME_CALLS
            else:
                continue
            for one in found:
                yield f"{name_of(path)}:{node.lineno}: {one}: take time and entropy from the scheduler"


def names_of_labs() -> Iterator[str]:
    """What a lab can do is asked of its kind: no module names a lab, and only those that open labs compare kinds."""
    kinds = {name for name, value in vars(lab_kinds).items() if isinstance(value, lab_kinds.LabKind)}
    for path in MODULES:
        if path == ROOT / "harness/definitions/lab_kinds.py":
            continue
        opens_labs = path.is_relative_to(ROOT / "harness/lab")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in lab_kinds.NAMES:
                yield f"{name_of(path)}:{node.lineno}: names the lab {node.value}: ask its LabKind (harness.definitions.lab_kinds)"
            elif isinstance(node, ast.Compare) and not opens_labs:
                for name in kinds.intersection(re.findall(r"\w+", ast.unparse(node))):
                    yield f"{name_of(path)}:{node.lineno}: compares a lab with {name}: ask what it can (LabKind.can)"


def pages_without_their_guard() -> Iterator[str]:
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if re.search(r"\bFlask\(|create_web_ui\(|HTTPServer\(", text) and "guard.protect(" not in text:
            yield f"{name_of(path)}: serves a page without harness.load.pages.guard"


def text_of_scripts() -> Iterator[str]:
    for path in SCRIPTS:
        raw = path.read_bytes()
        for pattern, what in (
            (rb"\A\xef\xbb\xbf", "begins with a byte order mark"),
            (rb"\r", "has carriage returns"),
            (rb"\t", "has tabs"),
            (rb"(?m) +$", "has blanks at the end of a line"),
            (rb"\n\n\Z|[^\n]\Z", "does not end with one newline"),
            (rb"[^\x00-\x7f]", "has characters beyond ASCII"),
        ):
            if re.search(pattern, raw):
                yield f"{name_of(path)}: {what}"


def heads_of_scripts() -> Iterator[str]:
    """The head says purpose, caller, assumptions and variables: those in use and no others."""
    for path in SCRIPTS:
        fields, body = split(path)
        if list(fields)[:4] != HEAD_FIELDS or not all(fields[name] for name in HEAD_FIELDS):
            yield f"{name_of(path)}: the head needs {', '.join(HEAD_FIELDS)}, in this order"
            continue
        described = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", fields["Variables"])
        documented = set() if described.strip() == "none" else set(re.findall(r"\w+", described))
        if documented != set(VARIABLE.findall(body)):
            yield f"{name_of(path)}: the head names the variables {documented}, the script {set(VARIABLE.findall(body))}"
        # sqlcmd substitutes inside comments too, and would send a password along with the head.
        if any(VARIABLE.search(value) for value in fields.values()):
            yield f"{name_of(path)}: the head refers to a variable by $(...)"


def bodies_of_scripts() -> Iterator[str]:
    for path in SCRIPTS:
        fields, body = split(path)
        if path.parent.name == "observe":
            if re.search(r"^\s*GO\b", body, re.MULTILINE | re.IGNORECASE) or body.count(";") != 1:
                yield f"{name_of(path)}: an observation is one statement without GO"
            for column in re.findall(r"\bAS (\w+)(?=,|\nFROM)", body.rpartition("\nSELECT")[2]):
                if not re.search(rf"\b{column}\b", fields.get("Columns", "")):
                    yield f"{name_of(path)}: the head does not describe the column {column}"
        elif not body.endswith("\nGO\n"):
            yield f"{name_of(path)}: does not end with GO"
        elif not all(batch.rstrip().endswith(";") for batch in re.split(r"^GO\n", body, flags=re.MULTILINE)[:-1]):
            yield f"{name_of(path)}: a batch does not end with a semicolon"
        settings = re.findall(r"SET NOEXEC (ON|OFF);", body)
        if settings != ["ON", "OFF"] * (len(settings) // 2):
            yield f"{name_of(path)}: SET NOEXEC ON without OFF"
        for value in re.findall(r"PASSWORD = N?'([^']*)'", body):
            if not VARIABLE.fullmatch(value):
                yield f"{name_of(path)}: a password is written down"


def scripts_of_workloads() -> Iterator[str]:
    """A script of a workload is named by a workload.toml."""
    workloads = [workload_file.read(name) for name in workload_file.PRESETS]
    named = {
        (SQL / path).resolve()
        for one in workloads
        for path in (*one.both_scripts, *one.initiator_scripts, *one.target_scripts)
    }
    for path in sorted({*(SQL / "workloads").rglob("*.sql")} - named):
        yield f"{name_of(path)}: no workload.toml names it"


def split(path: Path) -> tuple[dict[str, str], str]:
    """The fields of a script's head comment, and the rest."""
    text = path.read_text(encoding="utf-8")
    head = HEAD.match(text)
    if head is None:
        return {}, text
    return {name: value.strip() for name, value in FIELD.findall(head[1])}, text[head.end() :]


RULES = (
    total_of_lines,
    top_level,
    names_that_are_bare_words,
    names_that_nothing_uses,
    real_time_in_the_embedded_broker,
    names_of_labs,
    pages_without_their_guard,
    text_of_scripts,
    heads_of_scripts,
    bodies_of_scripts,
    scripts_of_workloads,
)


def main() -> None:
    broken = [line for rule in RULES for line in rule()]
    print(
        "\n".join(broken)
        or f"{len(MODULES)} modules and {len(SCRIPTS)} scripts keep the rules of tests/source_rules.py"
    )
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
