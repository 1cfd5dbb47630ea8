"""Enqueuing from a coroutine: the event loop goes on, and all else is as in the plain call."""

import asyncio
import contextvars
import threading
from datetime import timedelta

import pytest
from support.processes import run_python

from kiqbridge import Client, Job, job
from kiqbridge.client.off_loop import THREADS, off_loop
from kiqbridge.errors import PayloadError

pytestmark = pytest.mark.usefixtures("own_jobs")

PLENTY_S = 60

colour = contextvars.ContextVar("colour", default="none")


def declare():
    @job(queue="mailers")
    def send_invoice(invoice_id: int, copy: bool = False) -> None:
        pass

    return send_invoice


def test_a_function_is_enqueued_as_by_the_plain_calls(pushes):
    send_invoice = declare()

    async def enqueue():
        await send_invoice.aperform_async(1, copy=True)
        await send_invoice.aperform_in(timedelta(hours=1), 2)
        await send_invoice.aperform_at(4_000_000_000, 3)
        await send_invoice.aperform_bulk([(4, True), send_invoice.with_args(5)])
        await send_invoice.set(queue="high").aperform_async(6)
        await send_invoice.set(queue="high").aperform_in(60, 7)
        await send_invoice.set(queue="high").aperform_at(4_000_000_000, 8)
        await send_invoice.set(queue="high").aperform_bulk([each] for each in (9, 10))

    asyncio.run(enqueue())

    payloads = [payload for _declared, payload in pushes.calls]
    assert [each["args"] for each in payloads] == [
        [1, True], [2], [3], [4, True], [5], [6], [7], [8], [9], [10],
    ]  # fmt: skip
    assert [each["queue"] for each in payloads] == ["mailers"] * 5 + ["high"] * 5
    assert ["at" in each for each in payloads] == [False, True, True] + [False] * 3 + [
        True, True, False, False,
    ]  # fmt: skip


def test_a_class_is_enqueued_as_by_the_plain_calls(pushes):
    class Nightly(Job):
        def perform(self, day: str) -> None:
            pass

    async def enqueue():
        await Nightly.aperform_async("a")
        await Nightly.aperform_in(60, "b")
        await Nightly.aperform_at(4_000_000_000, "c")
        await Nightly.aperform_bulk([("d",), Nightly.with_args("e")])

    asyncio.run(enqueue())
    assert [payload["args"] for _declared, payload in pushes.calls] == [[each] for each in "abcde"]
    with pytest.raises(PayloadError, match="missing a required argument"):
        asyncio.run(Nightly.aperform_async())


def test_a_client_pushes_too():
    client = Client("redis://nowhere.invalid:1/0")
    pushed = []
    client.middleware.add(lambda _declared, payload, _queue, _next: pushed.append(payload["args"]))

    async def enqueue():
        return (
            await client.apush({"class": "Nop", "args": [1]}),
            await client.apush_bulk({"class": "Nop", "args": [[2], [3]]}),
        )

    assert asyncio.run(enqueue()) == (None, [None, None])
    assert pushed == [[1], [2], [3]]


def test_the_loop_goes_on_while_a_push_waits():
    async def both():
        goes_on = threading.Event()
        waiting = asyncio.create_task(off_loop(goes_on.wait, PLENTY_S))
        await asyncio.sleep(0)
        goes_on.set()
        return await waiting

    assert asyncio.run(both())


def test_it_runs_in_the_context_of_the_task_on_another_thread():
    def look():
        return colour.get(), threading.current_thread()

    async def ask():
        colour.set("red")
        return await off_loop(look)

    seen, thread = asyncio.run(ask())

    assert seen == "red"
    assert thread is not threading.current_thread()
    assert colour.get() == "none"


def test_a_generator_is_read_on_the_thread_of_its_caller(pushes):
    send_invoice = declare()
    threads = []

    def rows():
        threads.append(threading.current_thread())
        yield [1]

    asyncio.run(send_invoice.aperform_bulk(rows()))

    assert threads == [threading.current_thread()]


def test_what_has_begun_is_finished_and_what_has_not_is_not_pushed_when_its_task_is_cancelled():
    release, begun = threading.Event(), threading.Semaphore(0)
    finished = []

    def push(number):
        begun.release()
        assert release.wait(PLENTY_S)
        finished.append(number)

    async def cancel_all():
        tasks = [asyncio.create_task(off_loop(push, number)) for number in range(THREADS + 3)]
        await asyncio.sleep(0)
        for _ in range(THREADS):
            assert await asyncio.to_thread(begun.acquire, timeout=PLENTY_S)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        release.set()
        await off_loop(lambda: None)
        return ends

    ends = asyncio.run(cancel_all())

    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert set(finished) <= set(range(THREADS))


def test_a_forked_child_enqueues_with_threads_of_its_own():
    script = """
        import asyncio, os
        from kiqbridge.client.off_loop import off_loop

        parent = asyncio.run(off_loop(os.getpid))
        pid = os.fork()
        if not pid:
            os._exit(0 if asyncio.run(off_loop(os.getpid)) == os.getpid() != parent else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    """

    run_python(script, options=("-W", "ignore::DeprecationWarning"))
