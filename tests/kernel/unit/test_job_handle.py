"""What a push returns: a text everywhere, which can be asked about its job. Nothing is read until then."""

import asyncio
import copy
import gc
import json
import pickle

import orjson
import pytest

from kiqbridge import Client, JobHandle, configure, job
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.fixture
def jobs():
    with fake() as jobs:
        yield jobs


@pytest.fixture
def double(jobs):
    @job(name="Double")
    def double(number: int) -> int:
        if number < 0:
            raise ValueError("no luck")
        return 2 * number

    return double


def test_it_is_a_plain_text_wherever_it_goes(double):
    handle = double.perform_async(1)
    jid = str(handle)

    assert isinstance(handle, JobHandle)
    assert type(jid) is str
    assert (handle, hash(handle), repr(handle)) == (jid, hash(jid), repr(jid))
    assert {jid: 1}[handle] == 1
    assert orjson.loads(orjson.dumps([handle])) == json.loads(json.dumps([handle])) == [jid]
    for other in (pickle.loads(pickle.dumps(handle)), copy.copy(handle), copy.deepcopy(handle)):
        assert (type(other), other) == (str, jid)


def test_each_way_to_push_one_job_returns_one(jobs, double):
    client = configure("redis://nowhere.invalid:1/0")

    async def awaited():
        item = {"class": double, "args": [3]}
        return [
            await double.aperform_async(1),
            await double.aperform_in(60, 2),
            await double.set(queue="low").aperform_at(2e9, 3),
            await client.apush(item),
        ]

    handles = [
        double.perform_async(1),
        double.perform_in(60, 2),
        double.set(queue="low").perform_at(2e9, 3),
        client.push({"class": "Ruby", "args": []}),
        *asyncio.run(awaited()),
    ]

    assert {type(each) for each in handles} == {JobHandle}
    assert {each.client for each in handles} == {client}
    assert sorted(each.jid for each in jobs.jobs) == sorted(handles)


def test_a_push_that_middleware_stopped_returns_none(jobs, double):
    configure("redis://nowhere.invalid:1/0").middleware.add(lambda *_args: None)

    assert double.perform_async(1) is None
    assert asyncio.run(double.aperform_async(1)) is None


def test_nothing_is_read_until_it_is_asked_and_nothing_of_the_job_is_kept(
    jobs, double, monkeypatch
):
    seen = []
    run = type(jobs.memory).run
    monkeypatch.setattr(
        type(jobs.memory),
        "run",
        lambda self, commands: seen.extend(commands) or run(self, commands),
    )

    handle = double.perform_async(1)

    assert {command[0] for command in seen} <= {"SADD", "LPUSH"}
    assert {type(each) for each in gc.get_referents(handle)} <= {type, Client}


def test_a_jid_that_was_kept_can_be_asked_through_a_client(jobs, double):
    client = configure("redis://nowhere.invalid:1/0", namespace="shop")
    kept = str(double.perform_async(1))

    assert client.handle(kept).status() == "queued"
    assert Client("redis://nowhere.invalid:1/0").handle(kept).status() == "unknown"


def test_it_can_be_an_argument_and_a_key_as_its_text_can(jobs, double):
    @job(name="After")
    def after(jid: str, seen: dict[str, list[str]]) -> None:
        pass

    handle = double.perform_async(1)
    after.perform_async(handle, {handle: [handle, "é"]})
    after.perform_bulk([(handle, {})])

    assert [each.args for each in jobs.enqueued(after)] == [
        [str(handle), {str(handle): [str(handle), "é"]}],
        [str(handle), {}],
    ]
