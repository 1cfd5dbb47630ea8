"""`/healthz`."""

from support.pages import Browser

from kiqbridge.web import create_app


def test_it_is_well_when_redis_answers(browser):
    answer = browser.request("GET", "/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_it_is_unavailable_without_redis_and_names_no_address():
    app = create_app("redis://:hunter2@127.0.0.1:1/0", environment="")

    answer = Browser(app).request("GET", "/healthz")

    assert answer.status_code == 503
    assert answer.json() == {
        "status": "unavailable",
        "reason": "Redis does not answer (RedisUnavailable)",
    }
