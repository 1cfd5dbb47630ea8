"""Results that are kept: the option, and their text."""

from datetime import timedelta

import pytest

from kiqbridge import ConfigError, Job, PayloadError, job
from kiqbridge.client.registry import definition_of
from kiqbridge.engine.settle.ending import wants_output
from kiqbridge.features.results.kept import Result, parse_result, result_text, ttl_in, with_result

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.mark.parametrize(
    ("given", "seconds"), [(60, 60), (0.5, 1), (timedelta(hours=1), 3600), (366 * 86_400, 31_622_400)]
)  # fmt: skip
def test_the_option_is_a_member_of_flow_in_whole_seconds(given, seconds):
    wired = with_result({"retry": 3, "result_ttl": given})

    assert wired == {"retry": 3, "flow": {"result_ttl_s": seconds}}
    assert ttl_in(wired["flow"]) == seconds


def test_other_members_stay_and_the_former_option_is_replaced():
    flow = {"lock": "a", "result_ttl_s": 5}
    replaced = with_result({"flow": flow, "result_ttl": 9})
    assert replaced == {"flow": {"lock": "a", "result_ttl_s": 9}}
    assert flow == {"lock": "a", "result_ttl_s": 5}
    assert with_result({"queue": "low", "result_ttl": None}) == {"queue": "low"}


@pytest.mark.parametrize("given", [0, -1, True, "60", float("nan"), float("inf"), 366 * 86_400 + 1])
def test_what_is_no_time_is_refused(given):
    with pytest.raises(PayloadError, match=r"^result_ttl: .* is not a number of seconds above 0"):
        with_result({"result_ttl": given})

    assert ttl_in({"result_ttl_s": given}) is None


def test_a_declaration_takes_it():
    @job(name="result_test_function", result_ttl=60)
    def function(): ...

    class ResultTestClass(Job):
        result_ttl = timedelta(minutes=2)

        def perform(self): ...

    class ResultTestOptions(Job):
        sidekiq_options = {"result_ttl": 3}  # noqa: RUF012 - as users write it

        def perform(self): ...

    for declared, seconds in ((function, 60), (ResultTestClass, 120), (ResultTestOptions, 3)):
        options = definition_of(declared).options
        assert options["flow"] == {"result_ttl_s": seconds}
        assert "result_ttl" not in options
    with pytest.raises(ConfigError, match=r"^job 'never': result_ttl: 'soon' is not a number"):
        job(name="never", result_ttl="soon")(lambda: None)


def test_what_a_job_returned_is_encoded_only_where_it_is_asked_for():
    assert wants_output({"flow": {"result_ttl_s": 60}})
    assert not wants_output({"flow": {"bid": "f3"}})


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (result_text("done", 5.5, output="[1,null]"), Result(outcome="done", at=5.5, value=[1, None])),
        (result_text("done", 5.0, output="null"), Result(outcome="done", at=5)),
        (result_text("done", 5.0, output=None), Result(outcome="done", at=5, is_omitted=True)),
        (result_text("done", 1.0, output="18446744073709551616"), Result(outcome="done", at=1, value=2**64)),
        (
            result_text("dead", 5.0, output=None, error="ValueError", message='no "luck"'),
            Result(outcome="dead", at=5, error="ValueError", message='no "luck"'),
        ),
    ],
)  # fmt: skip
def test_its_text_is_read_as_it_was_written(text, result):
    assert parse_result(text) == result


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"outcome":"done"}', b'{"outcome":1,"at":[]}']
)
def test_what_is_no_result_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        parse_result(text)
