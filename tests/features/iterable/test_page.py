"""The page Busy shows how far iterable jobs are, and cancels one."""

import pytest

from kiqbridge.api import WorkSet, read_audit

pytestmark = pytest.mark.usefixtures("system")


def iterable_of(operator):
    return next(
        each.job.jid for each in WorkSet(operator) if each.job.job_class == "ImportCustomers"
    )


def test_an_iterable_job_shows_how_far_it_is(browser):
    assert (
        'iterable at ["eu",48211], execution 3, 21 min before this one'
        in browser.open("/busy").text
    )


def test_an_iterable_job_is_cancelled_and_that_is_audited(browser, operator, redis):
    jid = iterable_of(operator)

    answer = browser.send("/busy/cancel", form_at="/busy", jid=jid)

    assert f"{jid} was asked to end" in answer.text
    assert "cancelled" in answer.text
    assert int(redis.hget(f"it-{jid}", "cancelled")) > 0
    [entry] = read_audit(operator)
    assert (entry.action, entry.target) == ("cancel", f"job:{jid}")


def test_a_job_that_is_not_iterable_cannot_be_cancelled(browser, redis):
    answer = browser.send("/busy/cancel", 404, form_at="/busy", jid="f" * 24)

    assert "is not iterable" in answer.text
    assert redis.exists(f"it-{'f' * 24}") == 0
