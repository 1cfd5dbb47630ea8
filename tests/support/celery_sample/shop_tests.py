"""The shop's own tests, which run eagerly, with Celery and without."""

import pytest
from shop.notebook import note
from shop.tasks import add, broken, order, poll, send_mail


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


def test_an_error_reaches_whoever_calls_the_function():
    with pytest.raises(ValueError, match="final"):
        broken()


def test_an_error_that_is_tried_again():
    with pytest.raises(TimeoutError):
        poll("x")
    poll("x")
