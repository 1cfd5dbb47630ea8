"""Batches as operators see them: on the page, by `kiqbridge batch` and `kiqbridge job`."""

import json
import time
import tracemalloc

import pytest
from support.jobs import own_declarations

from kiqbridge import job
from kiqbridge.api import read_audit
from kiqbridge.api.verdict import Status
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.features.batches import doctor
from kiqbridge.features.batches.doctor import LOST
from kiqbridge.features.batches.ops import outline_ops, write_ops
from kiqbridge.features.doctor.examination import examine
from kiqbridge.features.gone_jobs import places as gone_places
from kiqbridge.flow import Batch, BatchSet, call, chain, group
from kiqbridge.wire.flow_mark import FlowEnd

BID = "%024x"


@pytest.fixture(scope="module")
def send():
    with own_declarations():

        @job(name="OverviewSend")
        def send(number: int) -> None: ...

        yield send


@pytest.fixture
def batch(send, client):
    """Two jobs, one of which is dead, and a batch of one job within it."""
    with Batch(description="invoices", on_success=call(send, 9), client=client) as batch:
        client.push({"class": "OverviewSend", "args": [1]})
        client.push({"class": "OverviewSend", "args": [2]})
        with Batch(description="annex", client=client):
            client.push({"class": "OverviewSend", "args": [3]})
    return batch


@pytest.fixture
def failed(batch, redis):
    jid = batch.pending_jids()[0]
    redis.hset(f"kb:flow:batch:{batch.bid}:jobs", jid, "f")
    redis.hincrby(f"kb:flow:batch:{batch.bid}", "failed", 1)
    redis.hincrby(f"kb:flow:batch:{batch.bid}", "pending", -1)
    return jid


def write_batches(redis, count, *, members=0):
    """Batches as scripts leave them."""
    now, pipeline = time.time(), redis.pipeline(transaction=False)
    for number in range(count):
        bid, counts = BID % number, {"total": members, "pending": members, "failed": 0}
        fields = {"created_at": repr(now), "sealed": 1, **counts}
        pipeline.hset(f"kb:flow:batch:{bid}", mapping=fields)
        pipeline.zadd("kb:flow:batches", {bid: now + 180 * 86_400 + number})
    pipeline.execute()


def end_job(redis, client, jid):
    """As the outbox of a worker that has done it."""
    payloads = [json.loads(each) for each in redis.lrange("queue:default", 0, -1)]
    [payload] = [each for each in payloads if each["jid"] == jid]
    end = FlowEnd(
        flow=payload["flow"], jid=jid, job_class=payload["class"], outcome="done", at=time.time()
    )
    redis.zadd("kb:flow:ends", {end.to_text(): 0})
    outbox = Outbox(client, client.pool.connection())
    while redis.exists("kb:flow:ends"):
        outbox.look()


def test_the_list_says_how_far_each_is(browser, batch, failed):
    page = browser.open("/batches")

    assert "Batches 2, chains and groups among them" in page.text
    assert f"invoices {batch.bid} running 0 of 3 done 2 1 success waits" in page.text
    assert f"/batches/{batch.bid}?state=failed" in page.links


def test_a_batch_has_its_callbacks_its_children_and_its_jobs_as_links(browser, batch, failed):
    page = browser.open(f"/batches/{batch.bid}")

    assert "waits on success: OverviewSend" in page.text
    assert f"/jobs/{failed}?bid={batch.bid}" in page.links
    [child] = [each for each in page.links if "/batches/" in each and batch.bid not in each]
    assert "annex 0 of 1 done" in page.text
    assert "In invoices" in browser.open(child).text
    only = browser.open(f"/batches/{batch.bid}?state=failed")
    assert [each for each in only.links if each.startswith("/jobs/")] == [
        f"/jobs/{failed}?bid={batch.bid}"
    ]


def test_a_batch_is_cancelled_on_the_page_and_that_is_audited(browser, batch, operator):
    answer = browser.send(f"/batches/{batch.bid}", action="cancel")

    assert "Cancelled" in answer.text
    assert batch.status().state == "cancelled"
    [entry] = read_audit(operator)
    assert (entry.action, entry.target, entry.via) == ("cancel", f"batch:{batch.bid}", "web")


def test_an_unknown_batch_is_not_found(browser, run):
    assert "no batch" in browser.open(f"/batches/{BID % 1}", 404).text
    assert run("batch", "show", BID % 1)[0] == 1


@pytest.mark.parametrize(
    "fields",
    [{}, {"total": 3}, {"total": "many", "pending": "", "failed": "inf", "success_at": "soon"}],
)
def test_a_record_of_an_older_build_hides_no_other_batch(browser, batch, redis, run, fields):
    redis.hset(f"kb:flow:batch:{BID % 7}", mapping={"created_at": time.time(), **fields})
    redis.zadd("kb:flow:batches", {BID % 7: time.time() + 180 * 86_400})

    assert batch.bid in browser.open("/batches").text
    assert BID % 7 in browser.open(f"/batches/{BID % 7}").text
    assert BID % 7 in run("batch", "list")[1]
    browser.app.state.site.cache.clear()
    redis.hdel(f"kb:flow:batch:{BID % 7}", "created_at")
    assert "no batch" in browser.open(f"/batches/{BID % 7}", 404).text


def test_the_command_lists_shows_and_cancels(run, batch, failed, redis):
    code, out, _ = run("batch", "list", "--unfinished")
    assert code == 0
    assert out.splitlines()[1].split()[:5] == [batch.bid, "invoices", "running", "0", "of"]
    code, out, _ = run("batch", "show", batch.bid)
    assert "on success  OverviewSend, waits" in out
    assert f"failed      {failed}  OverviewSend  in queue default\n" in out
    assert json.loads(run("batch", "show", batch.bid, "--failed", "--json")[1])["members"] == [
        {
            "name": failed,
            "kind": "job",
            "state": "failed",
            "label": "OverviewSend",
            "place": "in queue default",
        }
    ]
    assert run("batch", "cancel", batch.bid, "--dry-run")[1].startswith("would cancel")
    assert run("batch", "cancel", batch.bid, "--yes")[0] == 0
    assert redis.zcard("kb:flow:cancelled") == 2


def test_the_command_for_a_job_shows_a_batch_as_well(run, batch):
    code, out, _ = run("job", batch.bid)

    assert (code, out.splitlines()[0]) == (0, f"batch       {batch.bid}")


def test_the_steps_of_a_chain_and_the_members_of_a_group_have_their_states(
    browser, send, client, redis, run
):
    sizes = [chain(call(send, 2), call(send, 3)), call(send, 4)]
    steps = call(send, 1), group(*sizes, description="sizes"), call(send, 5)
    first = chain(*steps).perform_async(client=client)
    [found] = BatchSet(client)

    text = browser.open(f"/batches/{found.bid}").text
    assert "0 done of 3 3 pending" in text
    assert text.count("not begun") == 2
    assert f"/jobs/{first}" in browser.open(f"/batches/{found.bid}").links
    end_job(redis, client, first)
    [child] = [each for each in BatchSet(client) if each.parent]
    assert (child.kind, child.description, child.total) == ("group", "sizes", 2)
    out = run("batch", "show", child.bid)[1]
    assert "steps       OverviewSend (pending) → OverviewSend (waiting)\n" in out
    assert "steps       OverviewSend (pending)\n" in out
    page = browser.open(f"/batches/{child.bid}")
    assert page.text.count("pending OverviewSend") == 2
    assert "In OverviewSend → OverviewSend" in page.text


def test_jobs_of_a_block_have_class_and_place_and_its_chains_their_picture(
    browser, send, client, redis, run
):
    with Batch(client=client) as alike:
        jids = [client.push({"class": "OverviewSend", "args": [n]}) for n in range(4)]
    with Batch(client=client) as mixed:
        other = client.push({"class": "Other", "args": [], "queue": "low"})
        first = chain(call(send, 1), call(send, 2), call(send, 3)).perform_async(client=client)
    for jid, state in zip(jids, "df", strict=False):
        redis.hset(f"kb:flow:batch:{alike.bid}:jobs", jid, state)
    redis.hset(f"kb:flow:batch:{alike.bid}", mapping={"pending": 2, "failed": 1})

    page = browser.open(f"/batches/{alike.bid}")
    # However long the queue is: it is not read for it.
    assert all(f"OverviewSend {jid}" in page.text for jid in jids)
    assert f"OverviewSend {jids[2]} pending in queue default" in page.text
    bar = page.html[page.html.index('<svg class="bar" viewBox="0 0 4 8"') :].split("</svg>")[0]
    assert 'class="pending"' in bar
    assert '<rect class="done" width="1" height="8"/>' in bar
    assert '<rect class="failed" x="1" width="1" height="8"/>' in bar
    page = browser.open(f"/batches/{mixed.bid}")
    assert f"Other {other} pending in queue low" in page.text
    assert f"OverviewSend {first} pending in queue default" in page.text
    assert "Chains one after the other pending OverviewSend" in page.text
    assert page.text.count("not begun OverviewSend") == 2
    steps = "OverviewSend (pending) → OverviewSend (waiting) → OverviewSend (waiting)"
    assert f"steps       {steps}\n" in run("batch", "show", mixed.bid)[1]
    end_job(redis, client, first)
    browser.app.state.site.cache.clear()
    text = browser.open(f"/batches/{mixed.bid}").text
    assert text.count("not begun OverviewSend") == 1
    assert "done OverviewSend" in text


def test_chains_that_are_added_to_a_batch_that_is_there_have_their_picture(
    send, client, redis, run
):
    with Batch(client=client) as batch:
        chain(call(send, 1), call(send, 2)).perform_async(client=client)

    for number in range(3):
        Batch(batch.bid, client=client).add(chain(call(send, number), call(send, 9), call(send, 8)))

    shown = run("batch", "show", batch.bid)[1]
    two = "OverviewSend (pending) → OverviewSend (waiting)"
    assert shown.count(f"steps       {two}\n") == 1
    assert shown.count(f"steps       {two} → OverviewSend (waiting)\n") == 3
    [first] = json.loads(redis.hget(f"kb:flow:batch:{batch.bid}", "outline"))[:1]
    [op] = outline_ops(client.keys, batch.bid, [[{"job": {"jid": first[0][0], "class": "Again"}}]])
    write_ops(client, [op], "again")
    assert run("batch", "show", batch.bid)[1] == shown


def test_a_page_of_many_batches_takes_no_more_round_trips_than_one_of_few(browser, redis, trips):
    for count in (60, 600):
        write_batches(redis, count)
        browser.app.state.site.cache.clear()
        trips.clear()
        assert f"Not succeeded {count}" in browser.open("/batches").text
        assert len(trips) == 4  # one asks whether there are sources
        assert sum(trips) < 64


def test_a_batch_of_many_jobs_is_shown_in_parts(browser, redis, trips):
    write_batches(redis, 1, members=120_000)
    key, bid = f"kb:flow:batch:{BID % 0}:jobs", BID % 0
    states = [("f" if number % 400 == 0 else "d") for number in range(120_000)]
    for start in range(0, 120_000, 20_000):
        part = enumerate(states[start : start + 20_000], start)
        redis.hset(key, mapping={f"{number:024x}": state for number, state in part})
    redis.hset(f"kb:flow:batch:{bid}", mapping={"pending": 0, "failed": 300})

    shown, path, pages = set(), f"/batches/{bid}?state=failed", 0
    while path:
        trips.clear()
        page = browser.open(path)
        assert len(trips) < 64
        shown |= {each for each in page.links if each.startswith("/jobs/")}
        path = next((each for each in page.links if "cursor=" in each), "")
        pages += 1

    assert len(shown) == 300
    assert 1 < pages < 10


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_command_holds_some_hundred_of_many_members_at_a_time(run, redis, form):
    write_batches(redis, 1, members=20_000)
    key, bid = f"kb:flow:batch:{BID % 0}:jobs", BID % 0
    redis.hset(key, mapping={f"{number:024x}": "p" for number in range(20_000)})
    tracemalloc.start()
    try:
        code, out, _ = run("batch", "show", bid, "--pending", *form)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert code == 0
    assert peak < 4 * len(out) + 4_000_000  # what the test itself captures
    if form:
        assert len(json.loads(out)["members"]) == 20_000
    else:
        heading, *lines = out.splitlines()
        assert heading.split() == ["JOB", "CLASS", "STATE", "PLACE"]
        assert len({line.split()[0] for line in lines}) == 20_000
    assert run("batch", "show", bid, "--failed")[1] == "None.\n"


def test_the_doctor_finds_a_batch_whose_pending_job_is_nowhere(browser, batch, redis, operator):
    def found():
        return [each for each in examine(operator) if each.rule == LOST.id]

    for bid in redis.zrange("kb:flow:batches", 0, -1):
        redis.hset(b"kb:flow:batch:" + bid, "created_at", time.time() - 700)
    assert [each.status for each in found()] == [Status.OK]
    redis.delete("queue:default")

    first = next(each for each in found() if batch.bid in each.what)
    assert "(invoices) waits for job" in first.what and "and 1 more, which is nowhere" in first.what
    assert f"Batch {batch.bid} is cancelled" in browser.press(first.acts[0]).text
    redis.hset(f"kb:flow:batch:{batch.bid}", "created_at", time.time())
    assert not [each for each in found() if batch.bid in each.what]


def test_the_doctor_goes_on_where_its_last_look_ended_and_says_how_far_it_is(
    batch, redis, operator, monkeypatch
):
    monkeypatch.setattr(gone_places, "MOST_READ", 960)
    monkeypatch.setattr(gone_places, "LOOK", 250)
    for bid in redis.zrange("kb:flow:batches", 0, -1):
        redis.hset(b"kb:flow:batch:" + bid, "created_at", time.time() - 700)
    redis.lpush("queue:default", *(f'{{"jid":"{number}"}}' for number in range(2000)))

    def looks():
        """What each look says, until one has seen all."""
        for _ in range(20):
            said = [(each.severity, each.what) for each in doctor.examine(operator)]
            yield said
            if not said or said[0][0] == "warning":
                return

    *parts, end = looks()
    assert [severity for [(severity, _)] in parts] == ["healthy"] * 2
    assert parts[0][0][1].endswith(
        "; looked at 960 of 2,003 jobs; the next look continues after them"
    )
    assert "1,920 of 2,003" in parts[1][0][1]
    assert end == []
    redis.ltrim("queue:default", 0, 1999)  # its jobs are gone
    *parts, end = looks()
    assert len(parts) < 10
    assert f"Batch {batch.bid} (invoices) waits for job" in end[0][1] + end[-1][1]
    # It is said still while the next look goes on, and no more when the batch has been cancelled.
    assert [next(iter(doctor.examine(operator))).severity for _ in range(3)] == ["warning"] * 3
    assert 0 < redis.ttl(f"kb:sought:{LOST.id}") <= 3600
    redis.delete("kb:flow:batches")
    assert not list(doctor.examine(operator))
