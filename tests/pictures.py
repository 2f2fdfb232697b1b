"""`python -m tests.pictures`: makes the pictures of README.md again, from the embedded lab, in a minute.

The page of `harness ui` is drawn by Chromium under an open loop; the answer of `harness monitors` is drawn by rich as SVG,
of which Chromium makes a PNG. Run it on a machine that does nothing else, and look at both before you commit them.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from rich.text import Text

from harness.lab import drivers, embedded_instances
from harness.lab.instances import Instance
from harness.output.reporting import SafeConsole
from tests.e2e.test_ui import ARGUMENTS, CHROMIUM, START_TIMEOUT_MS, fill, open_tab, serving, start

FOLDER = Path(__file__).parent.parent / ".github"
RATE = "200/s"
LOADED_MS = 30_000
COLUMNS = 100
PATIENCE_S = 60.0
# The procedure that wizards generate: it is started, receives nothing, and its queue monitor waits for a RECEIVE.
STUB = """
CREATE PROCEDURE dbo.ReadIncoming AS
BEGIN
    --TODO: add code here
    SELECT 1;
END;
"""
QUEUES = """
CREATE QUEUE dbo.Outgoing;
CREATE SERVICE [Sender] ON QUEUE dbo.Outgoing;
CREATE QUEUE dbo.Incoming
    WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.ReadIncoming, MAX_QUEUE_READERS = 2, EXECUTE AS OWNER);
CREATE SERVICE [Receiver] ON QUEUE dbo.Incoming ([DEFAULT]);
"""
SEND = """
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE [Sender] TO SERVICE N'Receiver' WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h (0x01);
SEND ON CONVERSATION @h (0x02);
SEND ON CONVERSATION @h (0x03);
"""


def picture_page(browser: Any, to: Path) -> None:
    """The tab Queues, half a minute after the start of an open loop."""
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    with serving("--initiators", "1") as address:
        page.goto(address)
        page.locator("form [name=dialogRatio]").wait_for()
        page.locator("form [name=loadModel]").select_option("open loop")
        page.locator("form [name=rate]").fill(RATE)
        fill(page, threads=3)
        start(page)
        page.get_by_role("button", name="Stop").wait_for(timeout=START_TIMEOUT_MS)
        open_tab(page, "Queues")
        page.wait_for_timeout(LOADED_MS)
        page.evaluate("scrollTo(0, 0)")  # up from the button of the form
        page.screenshot(path=to)
    page.close()


def break_activation(instance: Instance) -> None:
    """Let three messages wait for a procedure that receives none."""
    connection = instance.connect("master")
    connection.execute("CREATE DATABASE Orders;")
    connection.execute("USE Orders;")
    for batch in (STUB, QUEUES, SEND):
        connection.execute(batch)
    connection.close()


def answer(instance: Instance) -> str:
    """The command and what it prints, with the terminal's colours, as soon as it has a remedy."""
    assert instance.login is not None
    words = ["monitors", "--server", f"{instance.host},{instance.port}", "--user", instance.login.user, "-C", "--once"]
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "HARNESS_PASSWORD": str(instance.login.password)}
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *words],
            env={**os.environ, **terminal},
            capture_output=True,
            text=True,
            check=True,
        )
        if "remedy" in done.stdout:
            return f"$ harness {' '.join(words)}\n{done.stdout}"
    raise TimeoutError(f"harness monitors explains nothing:\n{done.stdout}")


def picture_terminal(browser: Any, to: Path) -> None:
    """Why messages do not move: the procedure issues no RECEIVE."""
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded_instances.running(
            version="2008", initiators=0, directory=Path(folder), driver=drivers.choose("microsoft")
        ) as lab,
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
    ):
        break_activation(lab.target)
        console = SafeConsole(record=True, file=nowhere, width=COLUMNS)
        console.print(Text.from_ansi(answer(lab.target)))
    svg = console.export_svg(title="embedded Service Broker, not SQL Server")
    page = browser.new_page(viewport={"width": 1000, "height": 1000})
    # Without the fonts from elsewhere that it names, which would make the picture depend on the network.
    page.set_content("<body style='margin: 0'>" + re.sub(r"@font-face\s*{.*?}", "", svg, flags=re.DOTALL))
    page.locator("svg").first.screenshot(path=to, omit_background=True)
    page.close()


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for picture, name in ((picture_terminal, "harness-monitors.png"), (picture_page, "harness-ui.png")):
            picture(browser, FOLDER / name)
            print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
