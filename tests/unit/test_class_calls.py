"""A job written as a class is enqueued by its class methods, with the arguments that its `perform` takes."""

import pytest

from kiqbridge import IterableJob, Job
from kiqbridge.errors import ConfigError, PayloadError

pytestmark = pytest.mark.usefixtures("own_jobs")


class Row(IterableJob, abstract=True):
    def build_enumerator(self, path: str, limit: int = 5, *, cursor: int | None):
        yield path, limit

    def each_iteration(self, item: str, path: str, limit: int = 5) -> None:
        pass


def test_a_class_takes_what_its_perform_takes(pushes):
    class Nightly(Job):
        def perform(self, day: str, title: str = "Report") -> None:
            pass

    Nightly.perform_async("a", title="b")
    Nightly.set(queue="high").perform_async(day="c")

    assert [payload["args"] for _declared, payload in pushes.calls] == [["a", "b"], ["c"]]
    with pytest.raises(PayloadError, match="Nightly cannot be called like this"):
        Nightly.perform_async("a", titel="b")


def test_an_iterable_job_takes_what_its_methods_take_without_item_and_cursor(pushes):
    class Import(Row):
        pass

    Import.perform_async("users.csv", limit=7)
    Import.perform_bulk([Import.with_args("more.csv"), ("other.csv", 8)])

    assert [payload["args"] for _declared, payload in pushes.calls] == [
        ["users.csv", 7],
        ["more.csv"],
        ["other.csv", 8],
    ]
    with pytest.raises(PayloadError, match="cursor"):
        Import.perform_async("users.csv", cursor=3)


def test_a_class_without_perform_is_refused(pushes):
    class Base(Job):
        pass

    for enqueue in (Base.perform_async, Base.with_args, Base.perform_inline):
        with pytest.raises(ConfigError, match="Base defines no perform"):
            enqueue()
