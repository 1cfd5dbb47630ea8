"""Where a job that does not end is: its worker, asked to dump its threads, keeps the stack for who looks."""

import asyncio
import threading

from support.jobs import own_declarations
from support.launched import launched
from support.pages import Browser
from support.waiting import wait_until

from kiqbridge import job
from kiqbridge.api import WorkSet, history_of
from kiqbridge.api.works import fetch_stacks
from kiqbridge.commands.worker_command import _obey
from kiqbridge.web import create_app

PLENTY_S = 60


async def comes_never():
    await asyncio.Event().wait()


def test_of_a_job_on_the_event_loop_it_says_where_it_awaits(redis_url, operator):
    with own_declarations():

        @job(name="Awaits")
        async def waits_for_another():
            await comes_never()

        with launched(redis_url, timeout_s="0.1") as launcher:
            launcher.client.push({"class": "Awaits", "args": []})
            [work] = wait_until(lambda: list(WorkSet(operator)), PLENTY_S)

            _obey(launcher, "TTIN")

            [stack] = fetch_stacks([work], operator).values()
            at = [
                stack.text.index(f"in {name}\n")
                for name in ("waits_for_another", "comes_never", "wait")
            ]
            assert at == sorted(at)


def test_the_stack_of_a_running_job_is_kept_until_it_has_ended(redis, redis_url, operator):
    free = threading.Event()
    with own_declarations():

        @job(name="Stuck")
        def waits_for_what_never_comes():
            free.wait(PLENTY_S)

        with launched(redis_url) as launcher:
            launcher.client.push({"class": "Stuck", "args": []})
            [work] = wait_until(lambda: list(WorkSet(operator)), PLENTY_S)
            assert fetch_stacks([work], operator) == {}

            _obey(launcher, "TTIN")

            [(place, stack)] = fetch_stacks([work], operator).items()
            assert place == (work.process, work.tid)
            assert stack.text.startswith(f'  File "{__file__}", line ')
            assert "waits_for_what_never_comes" in stack.text
            life = history_of(work.job.jid, operator)
            assert [each.place for each in life.found] == ["in flight", "working"]
            assert (life.status, life.stack) == ("running", stack)
            assert f"Began in {work.process} {work.tid}" in [each.label for each in life.events]
            page = Browser(create_app(operator=operator, role="operator")).open(
                f"/jobs/{work.job.jid}"
            )
            assert f"The job runs in {work.process} {work.tid}." in page.text
            assert "waits_for_what_never_comes" in page.text and "was taken" not in page.text
            assert 0 < redis.ttl(f"kb:stacks:{work.process}") <= 600

            free.set()
            wait_until(lambda: not list(WorkSet(operator)), PLENTY_S)
            launcher.client.push({"class": "Stuck", "args": []})
            _obey(
                launcher, "TTIN"
            )  # nothing runs, or another job: no stack of the former one is shown
            later = type(work)(
                process=work.process, tid=work.tid, job=work.job, run_at=work.run_at + 60
            )
            assert fetch_stacks([later], operator) == {}
