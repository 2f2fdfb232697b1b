import pytest

from harness.load.web_scenario import BadScenario, WebScenario

GOOD = {"initiators": "3", "threads": "50", "dialog_ratio": "1", "payload_bytes": "8192"}


def test_a_form_becomes_a_scenario():
    assert WebScenario.from_form(GOOD | {"user_count": "0", "host": "embedded lab"}) == WebScenario(3, 50, 1, 8192)


def test_fields_left_out_have_the_forms_defaults():
    assert WebScenario.from_form({}) == WebScenario()


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("threads", "51", "threads: '51' is not valid (valid: 1 to 50)"),
        ("threads", "0", "threads: '0' is not valid (valid: 1 to 50)"),
        ("threads", "many", "threads: 'many' is not valid (valid: 1 to 50)"),
        ("threads", "", "threads: '' is not valid (valid: 1 to 50)"),
        ("initiators", "4", "initiators: '4' is not valid (valid: 1, 2, 3)"),
        ("dialog_ratio", "2", "dialog ratio: '2' is not valid (valid: 1, 150)"),
        ("payload_bytes", "-1", "payload bytes: '-1' is not valid (valid: 100, 1024, 4096, 8192)"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_may_be(name, value, message):
    with pytest.raises(BadScenario) as error:
        WebScenario.from_form(GOOD | {name: value})
    assert str(error.value) == message


def test_a_scenario_reads_as_a_sentence():
    assert str(WebScenario()) == "1 initiator × 10 threads, every 150th dialog, 100 bytes"
    assert str(WebScenario(3, 2, 1, 4096)) == "3 initiators × 2 threads, every dialog, 4096 bytes"
