"""The harness's options among Locust's own, for `locust -f locustfile.py` without a run (`alone`)."""

from typing import Any

from harness.load.messages import WebScenario

SETTINGS = {
    "lab": "where the instances run: embedded, or sqlserver",
    "lab_file": "lab.toml, which describes your own SQL Servers",
    "workload": "what is sent: a name of the package, or the folder of a workload.toml",
    "driver": "ODBC driver: auto, microsoft or freetds",
}
SCENARIO = {
    "initiators": "instances that send; users are dealt to them",
    "dialog_ratio": "150: only every 150th dialog is used",
    "payload_bytes": "bytes a message",
    "rate": "open loop: 500/s per initiator; empty: closed loop",
}


def add_options(parser: Any) -> None:
    """The harness's options, among Locust's own; those of the lab also come from HARNESS_ variables."""
    parser.set_defaults(web_host="127.0.0.1")  # Locust's own page is open to everybody who reaches this machine
    defaults = WebScenario().fields()
    for name, meaning in SETTINGS.items():
        # The page's form leaves them out: the lab is open before the page is.
        parser.add_argument(f"--{name.replace('_', '-')}", help=meaning, include_in_web_ui=False)
    for name, meaning in SCENARIO.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=str(defaults[name]), help=meaning)
