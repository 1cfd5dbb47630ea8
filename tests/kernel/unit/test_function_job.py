"""Calls of a declared job, by the methods that functions, classes and jobs with options share."""

import pytest

from kiqbridge import Job, job
from kiqbridge.errors import ConfigError, PayloadError

pytestmark = pytest.mark.usefixtures("own_jobs")


def declare(name="send"):
    @job(name=name)
    def send(invoice_id: int, copy: bool = False) -> None:
        pass

    return send


def test_the_elements_of_a_bulk_are_lists_tuples_or_made_by_the_job(pushes):
    send, other = declare(), declare("other")
    for wrong, options, error, told in (
        (other.with_args(1), {}, PayloadError, "<arguments of other> are not those of send"),
        ([1], {"batchsize": 10}, TypeError, "batchsize"),
    ):
        with pytest.raises(error, match=told):
            send.perform_bulk([wrong], **options)
    assert pushes.calls == []
    send.perform_bulk([[1], (2, True), send.with_args(3, copy=True), send.with_args(4)])
    args = [payload["args"] for _declared, payload in pushes.calls]
    assert args == [[1], [2, True], [3, True], [4]]


def test_a_class_and_a_job_with_options_take_what_perform_takes(pushes):
    class Nightly(Job):
        def perform(self, day: str, title: str = "Report") -> None:
            pass

    Nightly.perform_async("a", title="b")
    Nightly.set(queue="high").perform_async(day="c")
    Nightly.perform_bulk([Nightly.with_args("d"), Nightly.set(queue="high").with_args(day="e")])
    args = [payload["args"] for _declared, payload in pushes.calls]
    assert args == [["a", "b"], ["c"], ["d"], ["e"]]
    with pytest.raises(PayloadError, match="Nightly cannot be called like this"):
        Nightly.perform_async("a", titel="b")


def test_a_class_without_perform_is_refused(pushes):
    class Base(Job):
        pass

    for enqueue in (Base.perform_async, Base.with_args, Base.perform_inline, Base.set):
        with pytest.raises(ConfigError, match="Base defines no perform"):
            enqueue()
