"""What failed in a job of Spark, in one line, and the remedy where it is known."""

import re

from harness.reductions.spark_session import EXECUTOR_PYTHON

# Around what a Python worker wrote before it ended, in Spark's error.
WORKER_LOG, WORKER_LOG_END = "Error from python worker:", "PYTHONPATH was:"
NOT_THERE = "is not there on"
# By a part of the reason why workers failed.
REMEDIES = {
    "No module named": "Install the harness there, or unset PYSPARK_PYTHON.",
    "Cannot run program": f"Install {EXECUTOR_PYTHON} on the machines of the cluster, or name a Python there that has "
    "the harness with PYSPARK_PYTHON.",
    NOT_THERE: "Name a folder that all machines of the cluster share with --results.",
}


def why_broken(error: BaseException) -> str:
    """Return the last line of what a worker's Python left, Java's line of another error, or else the first."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except OSError:  # the JVM, which knows the text, has ended
        return "its JVM ended"
    if WORKER_LOG in lines:  # it did not start
        lines = lines[lines.index(WORKER_LOG) + 1 :]
        return lines[lines.index(WORKER_LOG_END) - 1] if WORKER_LOG_END in lines else lines[0]
    if "Traceback (most recent call last):" in lines:
        lines = lines[lines.index("Traceback (most recent call last):") :]
        java = [place for place, line in enumerate(lines) if line.startswith("at ")]
        return lines[java[0] - 1] if java else lines[-1]
    thrown = (line.removeprefix(": ") for line in lines if line.startswith(": "))  # py4j's second line: the Java one
    # After the number of the task that failed and the machine it ran on.
    return re.sub(r"^.*Lost task .* executor [^)]*\): ", "", next(thrown, lines[0] if lines else type(error).__name__))


def remedy(reason: str) -> str:
    """Return what to do, as a sentence after the reason; empty where that is not known."""
    return next((f". {remedy}" for sign, remedy in REMEDIES.items() if sign in reason), "")
