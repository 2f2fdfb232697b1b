"""The tabs of the instances on a page, as their routes answer."""

from typing import Any

import pytest
from flask import Flask

from harness.definitions.lab_kinds import SERVERS
from harness.load.messages import Looked
from harness.load.pages.looks import LooksPage
from tests.unsafe import NAME, unsafe_in


@pytest.mark.parametrize("path", ["/looks", "/looks/monitors.csv"])
def test_a_page_and_its_csv_get_names_without_control_characters(path: str) -> None:
    app = Flask("page")
    page = LooksPage(app)
    page.show_lab(SERVERS, NAME)
    page.run_begins(0.0, NAME)
    page.add(Looked(1.0, {"target_waits": {NAME: 1.0}}, {NAME: NAME}, [NAME]))
    answer = app.test_client().get(path)
    shown: Any = answer.get_json() if answer.is_json else answer.text
    assert unsafe_in(shown, besides="\n") == [] and r"q\u001b" in answer.text.replace("\\\\", "\\")
