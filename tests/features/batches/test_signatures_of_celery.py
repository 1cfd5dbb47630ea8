"""Celery's signatures, chains and groups, on those of kiqbridge.flow: the values that Celery gives, and where they differ."""

from types import SimpleNamespace

import celery as real_celery
import pytest

from kiqbridge import flow, job
from kiqbridge.client.default_client import default_client
from kiqbridge.client.registry import default_registry
from kiqbridge.compat import celery as our_celery
from kiqbridge.errors import PayloadError
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_tasks")

CALLS = {
    "chain": lambda c, t: c.chain(t.add.s(1, 2), t.add.s(4))(),
    "pipe": lambda c, t: (t.add.s(1, 2) | t.add.s(y=4) | t.pair.s("z")).delay(),
    "immutable": lambda c, t: c.chain(t.add.s(1, 2), t.add.si(4, 5), t.add.s(1)).apply_async(),
    "partial": lambda c, t: c.chain(t.pair.s(2), t.pair.s(4)).delay(3),
    "one": lambda c, t: t.pair.s(2).set(queue="low").delay(3),
    "group": lambda c, t: c.group(t.add.s(i, i) for i in range(3))(),
    "partial group": lambda c, t: c.group(t.pair.s(2), t.pair.si(4, 5)).delay(3),
    "empty group": lambda c, t: c.group([])(),
    "group of chains": lambda c, t: c.group(c.chain(t.add.s(1, 2), t.add.s(3)), t.add.s(4, 5))(),
    "group behind a task": lambda c, t: (
        t.add.s(1, 2) | c.group(t.pair.s(4), t.add.si(5, 6), t.add.s(7) | t.add.s(8))
    )(),
    "chord": lambda c, t: c.chord([t.add.s(1, 2), t.add.s(3, 4) | t.add.s(5)])(t.total.s()),
    "group before a task": lambda c, t: (
        c.group(t.add.s(1, 2), t.add.s(3, 4)) | t.total.s() | t.pair.s(9)
    )(),
    "chord behind a task": lambda c, t: (
        t.add.s(1, 2) | c.chord([t.add.s(1), t.add.s(2)], t.pair.s("z"))
    )(),
    "parent": lambda c, t: c.chain(t.add.s(1, 2), t.add.s(4))().parent,
    "named": lambda c, t: c.signature(t.add, args=(1, 2)).clone().delay(),
}


def add(x, y):
    return x + y


def pair(x, y):
    return [x, y]


def total(values):
    return sum(values)


def fail(*_args):
    raise ZeroDivisionError


@pytest.fixture
def app():
    return our_celery.Celery("shop")


class Tasks:
    """The same tasks, declared with Celery or here."""

    def __init__(self, library, *, eager):
        self.app = app = library.Celery(
            "sums", backend="redis://" if library is our_celery else "cache+memory://"
        )
        app.conf.task_always_eager = eager
        for each in (add, pair, total, fail):
            setattr(self, each.__name__, app.task(name=each.__name__)(each))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_canvas_gives_what_celery_gives_eagerly_and_by_a_worker(call):
    theirs = call(real_celery, Tasks(real_celery, eager=True)).get()

    ours = call(our_celery, Tasks(our_celery, eager=True)).get()
    default_registry._definitions.clear()
    with fake() as jobs:
        performed = call(our_celery, Tasks(our_celery, eager=False))
        jobs.drain()
        by_a_worker = performed.get(timeout=0)

    assert ours == by_a_worker == theirs


@pytest.mark.parametrize("library", [real_celery, our_celery])
def test_a_failure_before_the_end_is_raised_where_it_is_called_eagerly(library):
    tasks = Tasks(library, eager=True)

    with pytest.raises(ZeroDivisionError):
        library.chain(tasks.fail.s(), tasks.add.s(4))()
    last = library.chain(tasks.add.s(1, 2), tasks.fail.s())()
    assert last.failed()
    members = library.group(tasks.add.s(1, 2), tasks.fail.s())()
    assert (members.failed(), members.completed_count()) == (True, 1)


def test_a_chain_ends_with_a_death_in_a_worker():
    tasks = Tasks(our_celery, eager=False)
    with fake() as jobs:
        result = our_celery.chain(tasks.fail.s(), tasks.add.s(4))()
        jobs.drain(raise_errors=False)
        assert (result.parent.failed(), result.ready()) == (True, False)


def test_options_of_signatures_and_routes_hold_for_each_task():
    tasks = Tasks(our_celery, eager=False)
    tasks.app.conf.task_routes = {"pair": "pairs"}
    with fake() as jobs:
        our_celery.chain(
            tasks.add.s(1, 2).set(queue="low", expires=60), tasks.pair.s(3), tasks.add.si(1, 1)
        )()
        [first] = jobs.jobs
        jobs.drain()
        queues = [each.job.queue for each in jobs.performed]
    assert first.payload["expires_in"] == 60
    assert queues == ["low", "pairs", "default"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: our_celery.chain(t.add.s(1, 2), t.add.s(3).set(countdown=5))(), "countdown"),
        (lambda t: our_celery.chain(t.add.s(1, 2), t.add.s(3, 4))(), r"\.si"),
        (lambda t: our_celery.group(t.add.s(1))(), "args"),
        (lambda t: our_celery.group(t.add, t.add), r"no signature; write task\.s"),
        (lambda t: our_celery.signature("add"), "no task"),
        (lambda t: our_celery.group(t.add.s(1, 2)).apply_async(queue="low"), "no options here"),
        (lambda t: t.add.s(1, 2).set(link=1).delay(), "link=1 has no counterpart"),
    ],
)
def test_what_has_no_counterpart_is_refused(make, said):
    with fake(), pytest.raises(PayloadError, match=said):
        make(Tasks(our_celery, eager=False))


class TestEagerly:
    def test_chains_batches_and_jobs_need_no_server_either(self, app):
        seen = []

        @app.task(name="add")
        def add(x, y):
            seen.append(x + y)
            return x + y

        @app.task(name="flaky", bind=True, autoretry_for=(OSError,), max_retries=1)
        def flaky(self):
            seen.append(f"try {self.request.retries}")
            raise OSError

        @job(queue="other")
        def plain(word):
            seen.append(word)

        app.conf.task_always_eager = True
        flow.chain(flow.call(add, 1, 2), flow.call(add, 4), pass_result=True).perform_async()
        with flow.Batch(on_complete=flow.call(plain, "complete")) as batch:
            flaky.delay()
            assert seen == [3, 7]
        plain.perform_in(3600, "later")

        assert seen == [3, 7, "try 0", "try 1", "complete", "later"]
        assert (batch.status().complete, batch.status().failed) == (True, 1)

    def test_a_broker_that_is_named_later_gets_nothing_and_an_error_propagates(self, app):
        app.conf.update(task_always_eager=True, task_eager_propagates=True)
        app.config_from_object(SimpleNamespace(broker_url="redis://127.0.0.1:1"))
        fails = app.task(name="fails")(lambda: 1 // 0)

        with pytest.raises(ZeroDivisionError):
            flow.chain(fails).perform_async()
        app.conf.task_always_eager = False
        assert default_client().pool.place == ("127.0.0.1", 1, 0)

    def test_a_fake_within_records(self, app):
        app.conf.task_always_eager = True
        task = app.task(name="t")(lambda: None)
        with fake() as jobs:
            flow.chain(task, task).perform_async()
            jobs.assert_enqueued_count(1)


def test_a_task_is_a_link_of_chains_with_its_route_and_its_options(app):
    app.conf.update(task_routes={"mail.*": "mail"}, result_backend="redis://")
    send = app.task(name="mail.send", expires=60)(lambda x, y: None)

    with fake() as jobs:
        flow.chain(flow.call(send, 1, 2), flow.call(send, 3), pass_result=True).perform_async()
        [first] = jobs.jobs
        with flow.Batch() as batch:
            batch.add(send, 1, 2)
            send.delay(3, 4)
        assert [each.queue for each in jobs.jobs] == ["mail"] * 3
    assert (first.queue, first.payload["expires_in"]) == ("mail", 60)
    assert first.payload["flow"]["result_ttl_s"] == 86_400
    [following] = first.payload["flow"]["next"]["steps"]
    assert following["job"]["queue"] == "mail"
