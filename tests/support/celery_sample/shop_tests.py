"""The shop's own tests, which run eagerly, with Celery and without."""

import pytest
from celery.exceptions import Retry
from shop.app import app
from shop.notebook import note
from shop.tasks import (
    add,
    bill,
    broken,
    describe,
    down,
    fetch,
    give_up,
    nightly,
    order,
    poll,
    send_mail,
    ship,
)


@pytest.fixture(autouse=True)
def notes(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_NOTES", str(tmp_path / "notes"))


def test_a_task_is_still_a_function():
    assert add(2, 3) == 5


def test_delay_runs_it():
    result = add.delay(2, 3)

    assert note.read() == ["add: 5"]
    assert result.id


def test_keywords_and_defaults():
    send_mail.delay(7)
    send_mail.delay(user_id=8, template="bye")

    assert note.read() == ["mail: welcome to 7", "mail: bye to 8"]


def test_apply_async_with_options():
    send_mail.apply_async((7,), {"template": "late"}, countdown=10, queue="slow")

    assert note.read() == ["mail: late to 7"]


def test_a_task_calls_others():
    order.delay(9, lines=["a", "b"])

    assert note.read() == ["order: 9 with 2", "add: 11", "mail: order to 9"]


def test_names():
    assert add.name == "shop.tasks.add"
    assert order.name == "shop.tasks.order"
    assert app.tasks[order.name].name == order.name


def test_an_error_reaches_whoever_calls_the_function():
    with pytest.raises(ValueError, match="final"):
        broken()


def test_an_error_that_is_tried_again():
    with pytest.raises(TimeoutError):
        poll("x")
    poll("x")


@pytest.mark.parametrize(
    "call", [lambda: add.apply((2, 3)), lambda: add.delay(2, 3), lambda: add.apply_async((2, 3))]
)
def test_a_result_is_there_at_once(call):
    result = call()

    assert result.get() == result.get(timeout=1) == result.result == 5
    assert (result.state, result.status) == ("SUCCESS", "SUCCESS")
    assert result.ready() and result.successful() and not result.failed()
    assert result.traceback is None
    assert result.id == result.task_id == str(result)
    assert result.wait() == 5
    assert result == result.id and result != call()


def test_an_error_stays_in_the_result():
    result = broken.delay()

    assert (result.state, result.successful(), result.failed()) == ("FAILURE", False, True)
    assert isinstance(result.result, ValueError)
    assert result.get(propagate=False) is result.result
    assert "broken" in result.traceback and "ValueError: final" in result.traceback
    with pytest.raises(ValueError, match="final"):
        result.get()
    assert note.read() == ["broken: once"]


def test_an_error_is_raised_where_it_is_asked_for():
    with pytest.raises(ValueError, match="final"):
        broken.apply(throw=True)
    app.conf.task_eager_propagates = True
    try:
        with pytest.raises(ValueError, match="final"):
            broken.delay()
        with pytest.raises(Retry):
            fetch.delay("https://example.com")
    finally:
        app.conf.task_eager_propagates = False


def test_a_task_is_tried_again_at_once():
    fetch.delay("https://example.com").get()
    poll.delay("disk").get()

    assert note.read() == ["fetch: try 0", "fetch: try 1", "poll: disk", "poll: disk"]


def test_no_more_often_than_it_may():
    result = down.delay()

    assert isinstance(result.result, TimeoutError)
    assert note.read() == [f"down: try {number}" for number in range(3)]
    result = give_up.delay()
    assert type(result.result).__name__ == "MaxRetriesExceededError"
    assert give_up.apply(retries=1).failed()


def test_what_a_task_knows_of_itself():
    seen = describe.apply((1,), {"y": 2}, task_id="a" * 24).get()

    assert seen == ["a" * 24, 0, True, False, [1, 2]]
    assert describe(1, y=2) == [None, 0, False, True, [1, 2]]
    assert describe.run(1, 2) == [None, 0, False, True, [1, 2]]


def test_a_task_that_is_called_raises_what_it_would_retry_for():
    with pytest.raises(ConnectionError):
        fetch("https://example.com")
    with pytest.raises(Retry):
        give_up()


def test_a_chord_and_a_chain():
    assert bill([10, 20]).get() == 37
    ship(9)

    assert note.read() == [
        *("add: 11", "add: 21", "total: 32", "add: 37"),
        *("fetch: try 0", "fetch: try 1", "mail: sent to 9"),
    ]


def test_what_beat_calls():
    nightly.delay()

    assert note.read() == ["nightly: swept"]
