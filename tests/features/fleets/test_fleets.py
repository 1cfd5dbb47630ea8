"""Clients over several fleets: two namespaces of one server, and a second server."""

import json
import time
from types import SimpleNamespace

import pytest
import redis as redis_py
from support.servers import embedded_server

from kiqbridge import Client, Schedule, Schedules, job
from kiqbridge.api import open_operator
from kiqbridge.client.registry import Registry, definition_of
from kiqbridge.commands.cli import build_parser, main
from kiqbridge.contrib.after_commit import DeferringClient
from kiqbridge.errors import ConfigError, NotUnique, PayloadError
from kiqbridge.features.dynamic.declared import declared_schedules
from kiqbridge.features.dynamic.placing import watch
from kiqbridge.features.dynamic.published import LIVE_S
from kiqbridge.flow import Batch, Unique, call, chain

NOW = 1_780_000_000 // 60 * 60


@pytest.fixture(scope="module")
def second_server():
    with embedded_server() as server:
        yield server


@pytest.fixture
def other(second_server):
    """The server of the fleet `pay`."""
    second_server.flush()
    with redis_py.Redis.from_url(second_server.url, decode_responses=True) as raw:
        yield raw


@pytest.fixture
def raw(redis_url):
    """The server of the fleets `mail` and `web`."""
    with redis_py.Redis.from_url(redis_url, decode_responses=True) as raw:
        yield raw


@pytest.fixture
def set_fleets(monkeypatch, redis_url, second_server):
    """Writes the setting: name → globs."""

    def set_fleets(own="", pay_url=second_server.url, **queues):
        given = {
            "mail": {"namespace": "mail", "queues": ["mail", "mail-*"]},
            "pay": {"url": pay_url, "queues": ["pay"]},
            "web": {"namespace": "web", "queues": ["*"]},
        }
        for name, globs in queues.items():
            given[name]["queues"] = globs
        monkeypatch.setenv("REDIS_URL", redis_url)
        monkeypatch.setenv("KIQBRIDGE_FLEETS", json.dumps(given))
        monkeypatch.setenv("KIQBRIDGE_FLEET", own)

    return set_fleets


@pytest.fixture
def client(set_fleets):
    set_fleets()
    client = Client()
    yield client
    client.close()


def queues_of(raw) -> dict[str, int]:
    return {key: raw.llen(key) for key in sorted(raw.keys("*queue:*"))}


def item(queue, **more):
    return {"class": "Nop", "args": [], "queue": queue, **more}


@job(name="UniqueMail", queue="mail", unique=Unique(ttl_s=60, on_conflict="raise"))
def unique_mail() -> None:
    """Has a lock."""


def test_a_job_is_pushed_to_the_fleet_of_its_queue(client, raw, other):
    client.push(item("mail"))
    client.push(item("pay"))
    client.push(item("default"))
    client.push({**item("mail-eu"), "at": time.time() + 60})

    assert queues_of(raw) == {"mail:queue:mail": 1, "web:queue:default": 1}
    assert raw.zcard("mail:schedule") == 1
    assert queues_of(other) == {"queue:pay": 1}

    client.push_bulk({"class": "Nop", "args": [[1], [2], [3]], "queue": "pay"})
    assert queues_of(other) == {"queue:pay": 4}


def test_what_a_push_returns_asks_the_fleet_of_its_job(client, raw, other):
    mail, pay = client.push(item("mail")), client.push({**item("pay"), "at": time.time() + 60})
    later = DeferringClient(client, lambda _postponed: None).push(item("pay"))

    assert (mail.status(), pay.status()) == ("queued", "scheduled")
    assert pay.job().delete()
    assert other.zcard("schedule") == 0
    assert later.client is pay.client
    assert later.status() == "unknown"
    assert (mail.cancel(), pay.cancel()) != (0, 0)
    assert (raw.keys("*it-*"), other.keys("it-*")) == ([f"mail:it-{mail}"], [f"it-{pay}"])


def test_a_guard_and_a_lock_lie_in_the_fleet_of_the_job(client, raw, other):
    [first] = client.push_once([item("pay")], ["key"])
    [second] = client.push_once([item("pay")], ["key"])
    unique = {"class": unique_mail, "args": []}
    client.push(unique)
    with pytest.raises(NotUnique):
        client.push(unique)

    assert second.duplicate
    assert client.find_enqueued([item("pay")], ["key"]) == [first.jid]
    assert queues_of(other) == {"queue:pay": 1}
    assert raw.hlen("mail:kb:locks") == 1


def push_two(client, kind):
    if kind == "push_once":
        client.push_once([item("mail"), item("pay")], [None, None])
    elif kind == "push_tick":
        client.push_tick("s", NOW, [item("mail"), item("pay")], by="test")
    else:
        names = iter(["mail", "pay"])

        def change_queue(_class, payload, _queue, push):
            payload["queue"] = next(names)
            return push()

        client.middleware.add(change_queue)
        client.push_bulk({"class": "Nop", "args": [[1], [2]], "queue": "x"})


@pytest.mark.parametrize("kind", ["push_once", "push_tick", "push_bulk"])
def test_one_call_with_jobs_of_two_fleets_is_refused_before_anything_is_written(
    client, raw, other, kind
):
    with pytest.raises(PayloadError, match=r"'mail' belongs to fleet mail and 'pay' to fleet pay"):
        push_two(client, kind)

    assert raw.keys("*") == other.keys("*") == []


def test_a_client_with_a_place_of_its_own_pushes_there(client, raw, redis_url):
    with_namespace, with_url = Client(namespace="own"), Client(redis_url, namespace="url")

    with_namespace.push(item("mail"))
    with_url.push(item("pay"))

    assert queues_of(raw) == {"own:queue:mail": 1, "url:queue:pay": 1}


def test_what_waits_for_a_commit_is_refused_or_pushed_likewise(client, raw, other):
    postponed = []
    deferring = DeferringClient(client, postponed.append)

    deferring.push(item("pay"))
    with pytest.raises(PayloadError, match="one call pushes to one fleet"):
        push_two(deferring, "push_bulk")
    [one] = postponed
    one.push()

    assert queues_of(other) == {"queue:pay": 1}
    assert raw.keys("*") == []


def test_the_client_of_a_fleet_reads_and_controls_that_fleet(client, other):
    pay = Client.of_fleet("pay")

    pay.pause_queue("pay")
    jid = pay.push(item("pay"))

    assert other.smembers("paused") == {"pay"}
    assert [each.name for each in pay.pauses()] == ["pay"]
    assert jid in other.lrange("queue:pay", 0, -1)[0]
    with pytest.raises(ConfigError, match=r"'pai' .* did you mean pay"):
        Client.of_fleet("pai")


def test_a_batch_lies_in_the_fleet_of_its_client(client, raw, other):
    pay = Client.of_fleet("pay")
    with Batch(client=pay) as batch:
        pay.push(item("pay"))

    assert batch.status().total == 1
    assert queues_of(other) == {"queue:pay": 1}
    assert raw.keys("*") == []


def fill(batch, client=None):
    with batch:
        if client is not None:
            client.push(item("mail"))


@pytest.mark.parametrize("own", ["", "pay"])
def test_a_job_of_another_fleet_is_refused_in_a_batch_a_chain_and_a_callback(
    client, raw, other, own
):
    chosen = Client.of_fleet(own) if own else client
    whose = "fleet pay" if own else "none"

    with pytest.raises(PayloadError, match=f"to fleet mail, and this client to {whose}"):
        fill(Batch(client=chosen), chosen)
    with pytest.raises(PayloadError, match="lie in one fleet"):
        chain(call(unique_mail), call(unique_mail)).perform_async(client=chosen)
    with pytest.raises(PayloadError, match="lie in one fleet"):
        fill(Batch(client=chosen, on_success=call(unique_mail)))

    assert raw.keys("*") == other.keys("*") == []


def test_a_dynamic_schedule_lies_in_the_fleet_of_its_jobs(client):
    schedule = Schedule("s", job="Nop", every=60, queue="mail")

    with pytest.raises(PayloadError, match="'mail' belongs to fleet mail"):
        Schedules(Client.of_fleet("pay")).save(schedule)
    assert Schedules(Client.of_fleet("mail")).save(schedule) == "created"


def test_who_looks_at_fleets_must_choose_one(client, set_fleets):
    with pytest.raises(ConfigError, match=r"choose the one .* --fleet .*: mail, pay, web"):
        open_operator()

    set_fleets(own="pay")
    assert open_operator().keys.prefix == ""


def test_a_command_looks_at_the_fleet_that_it_is_given(client, capsys, other):
    client.push(item("mail"))

    assert main(["enqueue", "Nop", "--queue", "pay"]) == 0
    assert queues_of(other) == {"queue:pay": 1}
    assert main(["dead"]) == 1
    assert "choose the one to look at with --fleet" in capsys.readouterr().err
    assert main(["stats", "--json", "--fleet", "pay"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["queues"]] == ["pay"]
    assert main(["queue", "clear", "mail", "--yes", "--json", "--fleet", "mail"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 1
    assert main(["stats", "--fleet", "pai"]) == 1
    assert "did you mean pay?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        *(["worker"], ["web"], ["ps"], ["metrics"], ["recover"], ["shell"], ["audit"]),
        *(["queue", "pause", "mail"], ["dead", "retry", "--all"], ["schedule", "list"]),
    ],
)
def test_each_command_that_looks_at_redis_takes_a_fleet(words):
    options = build_parser(words).parse_args([*words, "--fleet", "pay"])

    assert options.fleet == "pay"


def test_a_tick_that_one_fleet_has_enqueued_is_a_duplicate_in_another(
    client, set_fleets, raw, other
):
    now = int(time.time()) // 60 * 60
    former = client.push_tick("s", now, [item("mail")], by="test")
    set_fleets(mail=["old"], pay=["pay", "mail"])
    moved = Client()

    again = moved.push_tick("s", now, [item("mail")], by="test")
    next_one = moved.push_tick("s", now + 60, [item("mail")], by="test")

    assert (again.kind, again.first) == ("duplicate", "enqueued")
    assert [each.jid for each in again.jobs] == [each.jid for each in former.jobs]
    assert next_one.kind == "enqueued"
    assert moved.find_tick("s", now) == [former.jobs[0].jid]
    assert queues_of(raw) == {"mail:queue:mail": 1}
    assert queues_of(other) == {"queue:mail": 1}


def test_a_fleet_that_is_away_stops_no_tick_of_another(set_fleets, raw):
    set_fleets(pay_url="redis://127.0.0.1:1")

    outcome = Client().push_tick("s", int(time.time()) // 60 * 60, [item("mail")], by="test")

    assert outcome.kind == "enqueued"
    assert queues_of(raw) == {"mail:queue:mail": 1}


@job(name="EveryMinute", queue="mail", every=60)
def every_minute() -> None:
    """Declares its schedule."""


def worker_of(client):
    """The steps of a worker for its declared schedules, and for placing them."""
    registry = Registry()
    registry.register(definition_of(every_minute))
    declared = declared_schedules(client, registry, app="shop", identity=str(client))
    host = SimpleNamespace(
        client=client, by="worker:1", config=SimpleNamespace(schedule_horizon_s=120), notify=print
    )
    placed = watch(host)
    return lambda: (declared.keep(client.pool), placed(client.pool))


def instants_of(raw, namespace="") -> list[int]:
    """What is placed: the instants of the schedule."""
    return [json.loads(text)["tick"]["at"] for text in raw.zrange(f"{namespace}schedule", 0, -1)]


def make_silent(raw, namespace=""):
    """As if no worker had declared anything for so long that it counts as gone."""
    key = f"{namespace}kb:declared"
    for name, text in raw.hgetall(key).items():
        if name.startswith("worker "):
            value = json.loads(text)
            raw.hset(key, name, json.dumps({**value, "at": value["at"] - LIVE_S - 1}))


def test_a_declared_schedule_ends_in_one_fleet_before_it_begins_in_another(
    set_fleets, raw, other, caplog
):
    set_fleets()
    old = worker_of(Client.of_fleet("mail"))
    elsewhere = worker_of(Client.of_fleet("web"))
    old()
    elsewhere()
    before = instants_of(raw, "mail:")
    set_fleets(mail=["old"], pay=["pay", "mail"])
    new = worker_of(Client.of_fleet("pay"))

    new()
    assert instants_of(other) == []
    assert "workers of fleet mail still declare it" in caplog.text
    assert raw.exists("web:kb:schedules") == 0

    make_silent(raw, "mail:")
    new()
    assert instants_of(raw, "mail:") == []
    assert instants_of(other)[: len(before)] == before
    assert raw.hlen("mail:kb:schedules") == 0


def test_it_counts_on_behind_what_the_other_fleet_has_enqueued(set_fleets, raw, other):
    set_fleets()
    worker_of(Client.of_fleet("mail"))()
    placed = instants_of(raw, "mail:")
    # The poller has moved the first occurrence to its queue.
    raw.zremrangebyrank("mail:schedule", 0, 0)
    raw.zremrangebyrank("mail:kb:placed:EveryMinute", 0, 0)
    make_silent(raw, "mail:")
    set_fleets(mail=["old"], pay=["pay", "mail"])

    worker_of(Client.of_fleet("pay"))()

    assert instants_of(other)[0] == placed[1]


def test_while_a_fleet_does_not_answer_none_begins_that_it_may_have(set_fleets, raw, caplog):
    set_fleets(pay_url="redis://127.0.0.1:1")

    worker_of(Client.of_fleet("mail"))()

    assert instants_of(raw, "mail:") == []
    assert "whether fleet pay has ended it is not known" in caplog.text


def test_a_queue_moves_to_another_fleet_with_its_jobs(client, set_fleets, tmp_path, raw, other):
    """docs/explanation/scaling.md: pause, export --take, restore --fleet, resume."""
    for number in range(3):
        client.push(item("mail", args=[number]))
    client.push(item("mail-eu"))
    file = str(tmp_path / "mail.jsonl")

    assert main(["queue", "pause", "mail", "--fleet", "mail"]) == 0
    set_fleets(mail=["mail-*"], pay=["pay", "mail"])
    Client().push(item("mail", args=["new"]))
    assert main(["export", file, "--queue", "mail", "--take", "--yes", "--fleet", "mail"]) == 0
    assert main(["restore", file, "--fleet", "pay"]) == 0
    assert main(["restore", file, "--fleet", "pay"]) == 0
    assert main(["queue", "resume", "mail", "--fleet", "mail"]) == 0

    assert queues_of(raw) == {"mail:queue:mail-eu": 1}
    assert raw.smembers("mail:paused") == set()
    texts = [json.loads(text) for text in other.lrange("queue:mail", 0, -1)]
    assert sorted(str(each["args"]) for each in texts) == ["['new']", "[0]", "[1]", "[2]"]
