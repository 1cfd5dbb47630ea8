"""Redis is away: what the function accepts waits in SQS, and comes back once, with the same jids."""

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest
from support.enqueue_function import (
    Context,
    failures,
    invoked_by,
    job,
    messages,
    numbers,
    queued,
)
from support.sqs import Queue, arn_of, simulated_sqs

from kiqbridge import EventError, PayloadError, PushOutcomeUnknown, RedisUnavailable
from kiqbridge.aws.job_forms import JobRequest
from kiqbridge.aws.record import Answering, Record
from kiqbridge.features.spill import queues as spill_queue
from kiqbridge.features.spill.form import KEPT_S, SpillKey
from kiqbridge.features.spill.pusher import OPEN_S
from kiqbridge.wire.json_text import loads

AWAY = "redis://127.0.0.1:1"
SOURCE = arn_of("orders")
FIFO_SOURCE = arn_of("orders.fifo")


@pytest.fixture
def sqs(monkeypatch):
    with simulated_sqs(monkeypatch):
        yield


@pytest.fixture
def spill(sqs, environment):
    queue = Queue("spill", receives=3)
    environment.setenv("KIQBRIDGE_SPILL_QUEUE_URL", queue.url)
    return queue


@pytest.fixture
def fifo(sqs, environment):
    queue = Queue("spill", fifo=True)
    environment.setenv("KIQBRIDGE_SPILL_FIFO_QUEUE_URL", queue.url)
    return queue


@pytest.fixture
def start(load, environment, redis_url):
    """A new warm environment, with Redis away or back."""

    def start(*, away):
        environment.setenv("REDIS_URL", AWAY if away else redis_url)
        app = load()
        return lambda event, alias="": app.lambda_handler(event, invoked_by(alias))

    return start


def test_what_redis_takes_is_not_copied_on_its_way(spill, load):
    pusher = load().handler.enqueuer().pusher
    records = [Record(source="sqs", event={}, jobs=[JobRequest(job(n))]) for n in range(3)]

    results = pusher.push(records, Answering.EACH, "test")

    assert all(each.record is record for each, record in zip(results, records, strict=True))
    assert [each.jobs[0].jid for each in results] == [each.jobs[0].jid for each in records]


class TestDirect:
    def test_a_job_is_accepted_with_the_jid_under_which_it_is_enqueued_later(
        self, spill, start, redis
    ):
        answer = start(away=True)(job(1))

        [accepted] = answer["spilled"]
        assert answer["enqueued"] == answer["duplicates"] == []
        assert (accepted["class"], accepted["queue"]) == ("HealthPulse", "default")
        assert spill.deliver(start(away=False)) == 1
        assert [(each["jid"], each["args"]) for each in queued(redis)] == [(accepted["jid"], [1])]
        assert spill.size() == 0

    def test_a_jid_of_the_caller_is_kept(self, spill, start, redis):
        [accepted] = start(away=True)(job(1, jid="mine"))["spilled"]

        spill.deliver(start(away=False))

        assert accepted["jid"] == queued(redis)[0]["jid"] == "mine"

    def test_a_message_that_is_delivered_twice_enqueues_once_though_nothing_identifies_its_job(
        self, spill, start, redis
    ):
        start(away=True)(job(1))
        [message] = spill._receive()
        invoke = start(away=False)

        for _ in range(3):
            assert failures(invoke(spill.event([message]))) == []

        assert numbers(redis) == [1]

    def test_several_jobs_are_one_message_and_all_or_none(self, spill, start, redis):
        answer = start(away=True)({"jobs": [job(1), job(2), job(3, queue="low")]})

        assert spill.size() == 1
        spill.deliver(start(away=False))
        pushed = queued(redis) + queued(redis, "low")
        assert [each["jid"] for each in pushed] == [each["jid"] for each in answer["spilled"]]

    def test_the_time_of_a_job_is_that_which_it_had_when_it_was_accepted(self, spill, start, redis):
        [accepted] = start(away=True)(job(1, **{"in": 3600}))["spilled"]

        spill.deliver(start(away=False))

        [(text, score)] = redis.zrange("schedule", 0, -1, withscores=True)
        assert score == accepted["at"]
        assert "at" not in loads(text)

    def test_one_whose_time_has_come_meanwhile_runs_at_once(self, spill, start, redis):
        start(away=True)(job(1, **{"in": 3600}))
        [content] = spill.bodies()
        content["jobs"][0]["at"] = 1000
        spill.client.purge_queue(QueueUrl=spill.url)
        spill.send(json.dumps(content))

        spill.deliver(start(away=False))

        assert numbers(redis) == [1]

    @pytest.mark.parametrize("delay", [{}, {"in": 3600}])
    def test_the_life_of_a_job_counts_from_when_it_was_accepted(self, spill, start, redis, delay):
        [accepted] = start(away=True)(job(1, expires_in=100, **delay))["spilled"]
        [content] = spill.bodies()

        spill.deliver(start(away=False))

        [text] = redis.zrange("schedule", 0, -1) or redis.lrange("queue:default", 0, -1)
        begins = accepted.get("at", content["kiqbridge_spill"]["at"])
        assert loads(text)["expires_at"] == begins + 100

    def test_a_life_that_is_none_is_refused_also_while_redis_is_not_asked(self, spill, start):
        invoke = start(away=True)
        invoke(job(1))

        with pytest.raises(PayloadError, match="expires_in: 0 is not a number of seconds"):
            invoke(job(2, expires_in=0))

    def test_arguments_of_any_text_and_size_of_integer_come_back_as_they_were(
        self, spill, start, redis
    ):
        args = ["\x00\x01\ufffe\U0001f600é", 2**200, 1.5, None, {"": [True]}]

        start(away=True)({"class": "HealthPulse", "args": args})

        spill.deliver(start(away=False))
        assert queued(redis)[0]["args"] == args

    def test_an_active_job_comes_back_as_one(self, spill, start, redis, environment):
        environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", "NightlyJob")
        [accepted] = start(away=True)({"active_job": "NightlyJob", "args": [1]})["spilled"]

        spill.deliver(start(away=False))

        [payload] = queued(redis)
        assert (payload["wrapped"], payload["jid"]) == ("NightlyJob", accepted["jid"])

    def test_what_is_not_allowed_or_no_job_is_refused_as_ever(self, spill, start):
        invoke = start(away=True)

        with pytest.raises(PayloadError):
            invoke({"class": "HealthPulse", "args": "x"})
        with pytest.raises(Exception, match="not among the classes"):
            invoke({"class": "Kernel", "args": []})

        assert spill.size() == 0

    def test_without_a_spill_queue_the_error_is_raised(self, sqs, start):
        with pytest.raises(RedisUnavailable):
            start(away=True)(job(1))

    def test_a_spill_queue_that_is_away_too_leaves_the_error_of_redis(
        self, sqs, start, environment
    ):
        environment.setenv(
            "KIQBRIDGE_SPILL_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/none"
        )

        with pytest.raises(RedisUnavailable, match="cannot be reached"):
            start(away=True)(job(1))

    def test_what_is_too_large_for_a_message_is_an_error(self, spill, start):
        with pytest.raises(RedisUnavailable):
            start(away=True)({"class": "HealthPulse", "args": ["x" * spill_queue.MAX_BYTES]})

    def test_a_message_that_redis_does_not_take_stays_and_dies_after_its_receives(
        self, spill, start
    ):
        invoke = start(away=True)
        invoke(job(1))

        for _ in range(3):
            assert spill.deliver(invoke) == 0
        assert spill.deliver(invoke) == 0

        assert (spill.size(), spill.size(spill.dead_url)) == (0, 1)


class TestTicks:
    def test_a_tick_is_enqueued_once_by_spill_and_by_direct_delivery(
        self, spill, start, redis, recent
    ):
        tick = {**job(1), "tick": {"schedule": "s/Nightly", "at": f"{recent(3):%FT%TZ}"}}
        [accepted] = start(away=True)(tick)["spilled"]
        back = start(away=False)

        first = back(tick)
        spill.deliver(back)

        assert [each["jid"] for each in first["enqueued"]] != [accepted["jid"]]
        assert len(queued(redis)) == 1

    def test_its_ledger_has_the_jid_that_was_answered(self, spill, start, redis, recent):
        policies = {"overlap": "skip", "max_age_s": 3600, "missed": "last"}
        at = f"{recent(3):%FT%TZ}"
        tick = {**job(1), "tick": {"schedule": "s/Nightly", "at": at, **policies}}
        [accepted] = start(away=True)(tick)["spilled"]
        back = start(away=False)
        spill.deliver(back)

        [known] = back(tick)["duplicates"]

        assert known["jid"] == accepted["jid"] == queued(redis)[0]["jid"]
        mark = queued(redis)[0]["tick"]
        assert (mark["overlap"], mark["max_age_s"]) == ("skip", 3600)


class TestBatches:
    def test_a_batch_is_a_success_and_each_message_is_spilled(self, spill, start, redis):
        assert failures(start(away=True)(messages(*map(job, range(25))))) == []

        assert spill.size() == 25
        spill.deliver(start(away=False))
        assert sorted(numbers(redis)) == list(range(25))

    def test_only_what_is_accepted_is_spilled(self, spill, start):
        event = messages(job(1), "no json", {"class": "Kernel", "args": []})

        assert failures(start(away=True)(event)) == ["m1", "m2"]
        assert spill.size() == 1

    def test_a_repeated_delivery_meets_the_spilled_one(self, spill, start, redis):
        event = messages(job(1), job(2))
        start(away=True)(event)
        start(away=True)(event)
        back = start(away=False)

        assert failures(back(event)) == []
        assert spill.size() == 4
        spill.deliver(back)

        assert sorted(numbers(redis)) == [1, 2]

    def test_what_does_not_fit_into_one_call_goes_in_several(self, spill, start, redis):
        large = [job(number, pad="x" * 300_000) for number in range(5)]

        assert failures(start(away=True)(messages(*large))) == []

        assert spill.size() == 5

    def test_one_that_is_too_large_is_delivered_again_by_its_source(self, spill, start):
        event = messages(job(1), job(2, pad="x" * spill_queue.MAX_BYTES), job(3))

        assert failures(start(away=True)(event)) == ["m1"]
        assert spill.size() == 2

    def test_only_what_sqs_did_not_take_is_delivered_again(self, spill, start, monkeypatch):
        monkeypatch.setattr(
            spill_queue, "sqs_client", lambda url: Refusing(sqs_client(url), {"1", "2"})
        )

        assert failures(start(away=True)(messages(job(1), job(2), job(3), job(4)))) == ["m1", "m2"]
        assert spill.size() == 2

    def test_what_redis_took_before_it_went_away_is_not_spilled(self, spill, server_switch, redis):
        """A queue of another type has the records pushed one by one."""
        redis.set("queue:low", "of another type")
        event = messages(job(1), job(2, queue="low"), job(3), job(4))
        invoke = server_switch(away=False)

        def go_away_before(items):
            if [item["args"] for item in items] == [[3]]:
                server_switch(away=True)

        asked = server_switch.before_push(go_away_before)
        assert failures(invoke(event)) == ["m1"]

        assert asked[-1] == [[3]], "a server that is away is not asked for each record"

        assert numbers(redis) == [1]
        assert sorted(each["jobs"][0]["args"] for each in spill.bodies()) == [[3], [4]]

    def test_a_push_whose_reply_was_lost_is_spilled_only_if_redis_will_know_it(
        self, spill, server_switch, redis
    ):
        invoke = server_switch(away=False)

        def lose_the_reply(items):
            raise PushOutcomeUnknown("lost", "jid")

        server_switch.before_push(lose_the_reply)

        assert failures(invoke(messages(job(1)))) == []
        with pytest.raises(PushOutcomeUnknown):
            invoke(job(1))
        assert invoke(job(1, dedupe_key="k"))["spilled"]
        assert spill.size() == 2

    def test_the_jid_is_fixed_before_the_first_attempt(self, spill, server_switch, redis):
        """A push whose reply was lost did enqueue; the spilled one must be the same job."""
        invoke = server_switch(away=False)
        client = server_switch.client()
        push = client.push_once

        def push_and_lose(*args, **options):
            push(*args, **options)
            raise RedisUnavailable("the reply was lost")

        client.push_once = push_and_lose
        [accepted] = invoke(job(1, dedupe_key="k"))["spilled"]

        assert queued(redis)[0]["jid"] == accepted["jid"]
        client.push_once = push
        spill.deliver(invoke)
        assert len(queued(redis)) == 1

    def test_a_full_memory_is_an_outage_too(self, spill, start, redis):
        redis.config_set("maxmemory", 1)
        try:
            assert failures(start(away=False)(messages(job(1), job(2)))) == []
        finally:
            redis.config_set("maxmemory", 0)

        assert (spill.size(), redis.keys("queue*")) == (2, [])
        spill.deliver(start(away=False))
        assert sorted(numbers(redis)) == [1, 2]


class TestOrder:
    def test_without_a_fifo_queue_a_source_with_an_order_keeps_its_messages(self, spill, start):
        event = messages(job(1), job(2), job(3), arn=FIFO_SOURCE, groups=["a", "a", "b"])

        with pytest.raises(RedisUnavailable):
            start(away=True)(event)
        assert spill.size() == 0

    def test_a_group_is_drained_in_its_order(self, fifo, start, redis):
        away = start(away=True)
        for first in range(0, 30, 3):
            event = messages(
                *(job(first + n) for n in range(3)),
                arn=FIFO_SOURCE,
                groups=["a", "b", "a"],
                first=first,
            )
            assert failures(away(event)) == []

        back = start(away=False)
        while fifo.size():
            fifo.deliver(back)

        pushed = numbers(redis)
        assert [n for n in pushed if n % 3 != 1] == [n for n in range(30) if n % 3 != 1]
        assert [n for n in pushed if n % 3 == 1] == list(range(1, 30, 3))

    def test_what_follows_in_a_group_is_spilled_too_until_redis_knows_the_last_of_it(
        self, fifo, redis, server_switch
    ):
        invoke = server_switch(away=True)
        invoke(messages(job(1), job(2), arn=FIFO_SOURCE, groups=["a", "b"]))
        server_switch(away=False)

        assert (
            failures(invoke(messages(job(3), job(4), arn=FIFO_SOURCE, groups=["a", "c"], first=2)))
            == []
        )
        assert numbers(redis) == [4]
        assert fifo.size() == 3

        while fifo.size():
            fifo.deliver(invoke)
        assert [n for n in numbers(redis) if n in (1, 3)] == [1, 3]
        invoke(messages(job(5), arn=FIFO_SOURCE, groups=["a"], first=4))
        assert numbers(redis)[-1] == 5
        assert fifo.size() == 0

    def test_a_failure_to_spill_stops_its_group_and_no_other(self, fifo, start, monkeypatch):
        monkeypatch.setattr(spill_queue, "sqs_client", lambda url: Refusing(sqs_client(url), {"0"}))
        event = messages(job(1), job(2), job(3), arn=FIFO_SOURCE, groups=["a", "b", "a"])

        assert failures(start(away=True)(event)) == ["m0", "m2"]
        [content] = fifo.bodies()
        assert [each["args"] for each in content["jobs"]] == [[2]]

    def test_nothing_of_a_group_is_sent_behind_a_message_that_was_not_taken(
        self, fifo, start, monkeypatch
    ):
        refusing = Refusing(sqs_client(fifo.url), {"0"}, calls=1)
        monkeypatch.setattr(spill_queue, "sqs_client", lambda url: refusing)
        large = [job(number, pad="x" * 300_000) for number in range(5)]

        with pytest.raises(RedisUnavailable):
            start(away=True)(messages(*large, arn=FIFO_SOURCE, groups=["a"] * 5))

        assert fifo.size() == 0

    def test_a_group_has_one_name_in_the_spill_queue_and_every_group_its_own(self, fifo, start):
        invoke = start(away=True)
        invoke(messages(job(1), job(2), arn=FIFO_SOURCE, groups=["a", "b"]))
        invoke(messages(job(3), arn=FIFO_SOURCE, groups=["a"], first=2))
        invoke(messages(job(4), arn=arn_of("others.fifo"), groups=["a"], first=3))

        names = {
            json.loads(each["Body"])["jobs"][0]["args"][0]: each["Attributes"]["MessageGroupId"]
            for each in fifo.all()
        }
        assert names[1] == names[3]
        assert len({names[1], names[2], names[4]}) == 3

    def test_what_follows_a_refused_record_waits_at_its_source(self, fifo, start):
        event = messages(job(1), "no json", job(3), arn=FIFO_SOURCE, groups=["a", "a", "a"])

        assert failures(start(away=True)(event)) == ["m1", "m2"]
        [content] = fifo.bodies()
        assert [each["args"] for each in content["jobs"]] == [[1]]

    def test_a_group_is_one_message_as_far_as_it_fits(self, fifo, start, redis):
        large = [job(number, pad="x" * 300_000) for number in range(5)]

        start(away=True)(messages(*large, arn=FIFO_SOURCE, groups=["a"] * 5))

        back = start(away=False)
        while fifo.size():
            fifo.deliver(back)
        assert numbers(redis) == list(range(5))


class TestReport:
    def test_a_spilled_job_is_logged_and_counted_without_its_arguments(self, spill, start, capsys):
        invoke = start(away=True)
        capsys.readouterr()

        [accepted] = invoke({"class": "HealthPulse", "args": ["secret"]})["spilled"]

        line, metrics = map(json.loads, capsys.readouterr().out.splitlines())
        assert (line["level"], line["message"], line["jid"]) == (
            "WARNING",
            "spilled",
            accepted["jid"],
        )
        assert "secret" not in json.dumps(line)
        assert metrics["Spilled"] == [1.0]


class TestTrust:
    """Whoever can write to the spill queue may enqueue no more than the function's lists allow."""

    def test_a_class_that_is_not_allowed_any_more_is_refused(
        self, spill, start, environment, redis
    ):
        start(away=True)(job(1))
        environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", "Another")

        assert spill.deliver(start(away=False)) == 0
        assert not redis.keys("queue*")

    def test_the_rules_of_the_source_that_brought_the_job_hold(self, spill, start, redis, mapped):
        mapped("""
            allow:
              - {source: sqs, origin: "*:jobs", classes: [HealthPulse], queues: [default]}
            """)
        start(away=True)(messages(job(1)))
        [content] = spill.bodies()
        content["kiqbridge_spill"].update(origin=arn_of("another"), id="forged", guards=[None])
        spill.send(json.dumps(content))

        assert spill.deliver(start(away=False)) == 1
        assert numbers(redis) == [1]

    def test_the_alias_that_brought_the_job_counts_and_delivers_nothing_of_the_queue_itself(
        self, spill, start, redis, mapped
    ):
        mapped("""
            allow:
              - {source: direct, alias: iot, classes: [HealthPulse], queues: [default]}
              - {source: direct, classes: [NightlyReport], queues: [default]}
            """)
        start(away=True)(job(1), alias="iot")
        [content] = spill.bodies()
        content["kiqbridge_spill"].update(alias="")
        own = {"class": "NightlyReport", "args": [2]}
        forged = content | {"jobs": [own]}
        back = start(away=False)

        with pytest.raises(EventError):
            back(messages(forged, arn=arn_of("spill")), alias="iot")
        assert failures(back(messages(content, arn=arn_of("spill")))) == ["m0"]
        assert spill.deliver(back) == 1
        assert numbers(redis) == [1]

    @pytest.mark.parametrize(
        "change",
        [
            lambda content: content["jobs"][0].update({"class": "Kernel"}),
            lambda content: content["jobs"][0].update(queue="secret"),
            lambda content: content["jobs"][0].update(jid="<script>"),
            lambda content: content["kiqbridge_spill"].update(version=2),
            lambda content: content["kiqbridge_spill"].update(guards=[]),
            lambda content: content["kiqbridge_spill"].update(guards=[["nobody", "x"]]),
            lambda content: content["kiqbridge_spill"].update(guards=["x"]),
            lambda content: content["kiqbridge_spill"].update(id=""),
            lambda content: content.pop("kiqbridge_spill"),
            lambda content: content.pop("jobs"),
        ],
    )
    def test_a_message_that_was_forged_is_refused(self, spill, start, redis, change):
        start(away=True)(job(1))
        [content] = spill.bodies()
        spill.client.purge_queue(QueueUrl=spill.url)
        change(content)
        spill.send(json.dumps(content))

        assert spill.deliver(start(away=False)) == 0
        assert redis.keys("*") == []

    def test_a_message_that_is_no_json_is_refused(self, spill, start):
        spill.send("no json")

        assert spill.deliver(start(away=False)) == 0

    def test_the_form_says_nothing_in_any_other_queue(self, spill, start, redis):
        start(away=True)(job(1))
        [content] = spill.bodies()

        with pytest.raises(EventError):
            start(away=False)(messages(content, arn=SOURCE))

        assert redis.keys("*") == []

    @pytest.mark.parametrize("account", ["123456789012", "999999999999"])
    def test_a_queue_of_the_same_name_in_another_account_is_not_it(self, spill, account):
        queues = spill_queue.SpillQueues(spill.url, "")
        event = messages(job(1), arn=f"arn:aws:sqs:eu-west-1:{account}:spill")

        assert queues.delivers(event) == (account == "123456789012")


class TestKey:
    """With a key, a message counts only if the function has written it."""

    @pytest.fixture(autouse=True)
    def key(self, sqs, services, environment):
        services.set_secrets_manager(environment)
        arn = services.secret("a long random text", "spill")
        environment.setenv("KIQBRIDGE_SPILL_KEY_SECRET_ARN", arn)
        return arn

    def test_it_is_read_by_the_first_message_alone_and_once(self, spill, start, redis, services):
        back = start(away=False)
        back(job(1))
        assert services.operations == []

        away = start(away=True)
        away(messages(job(2), job(3)))
        away(job(4))

        assert len(services.operations) == 1
        assert spill.deliver(back) == 3
        assert len(services.operations) == 2
        assert sorted(numbers(redis)) == [1, 2, 3, 4]

    def test_a_group_is_signed_too(self, fifo, start, redis):
        event = messages(job(1), job(2), arn=FIFO_SOURCE, groups=["a", "a"])
        start(away=True)(event)

        assert fifo.deliver(start(away=False)) == 1
        assert numbers(redis) == [1, 2]

    @pytest.mark.parametrize("signature", [None, "", "00" * 32, "é", "of another body"])
    def test_what_somebody_else_has_written_is_refused_with_its_reason(
        self, spill, start, services, capsys, signature
    ):
        start(away=True)(job(1))
        [message] = spill.all()
        content = json.loads(message["Body"])
        content["kiqbridge_spill"].update(source="sqs", origin=SOURCE)
        if signature == "of another body":
            signature = message["MessageAttributes"]["KiqbridgeSignature"]["StringValue"]
        about = {"StringValue": signature, "DataType": "String"}
        options = {"MessageAttributes": {"KiqbridgeSignature": about}} if signature else {}
        spill.client.purge_queue(QueueUrl=spill.url)
        back = start(away=False)

        for _ in range(2):  # which reads the key again at most once
            spill.send(json.dumps(content), **options)
            assert spill.deliver(back) == 0

        assert "the key that KIQBRIDGE_SPILL_KEY_SECRET_ARN names" in capsys.readouterr().out
        assert len(services.operations) <= 4

    def test_what_the_key_before_has_signed_counts_after_a_rotation(
        self, spill, start, redis, services, key
    ):
        away = start(away=True)
        away(job(1))
        back = start(away=False)
        assert spill.deliver(back) == 1  # so that it knows the first key
        away(job(2))
        services.rotate(key, "the second")
        start(away=True)(job(3))

        assert spill.deliver(back) == 2
        away(job(4))
        assert spill.deliver(start(away=False)) == 1
        assert numbers(redis) == [1, 2, 3, 4]

    def test_a_key_that_has_signed_for_long_is_read_again(self, services, key):
        now = [0.0]
        aws = {**services.aws, "AWS_REGION": "eu-west-1"}
        signing = SpillKey(key, aws, clock=lambda: now[0])
        first = signing.signature("body")
        services.rotate(key, "the second")
        assert signing.signature("body") == first

        now[0] = KEPT_S
        assert signing.signature("body") == SpillKey(key, aws).signature("body") != first

        services.refuse = lambda _operation: (503, "ServiceUnavailable")
        second, now[0] = signing.signature("body"), 3 * KEPT_S
        assert [signing.signature("body") for _ in range(3)] == [second] * 3
        assert len(services.operations) == 4, "while it is away, it is not asked for each message"

    def test_a_key_that_cannot_be_read_spills_nothing_and_loses_nothing(
        self, spill, start, redis, services, capsys
    ):
        start(away=True)(job(1))
        services.refuse = lambda _operation: (400, "AccessDeniedException")

        with pytest.raises(RedisUnavailable, match="cannot be reached"):
            start(away=True)(job(2))
        with pytest.raises(RedisUnavailable, match="AccessDeniedException"):
            spill.deliver(start(away=False))

        assert spill.size() == 1
        assert not redis.keys("queue*")

    def test_the_signature_counts_as_a_part_of_the_message(self, spill, start):
        invoke = start(away=True)
        invoke(job(1, pad=""))
        [message] = spill.all()
        room = spill_queue.MAX_BYTES - len(message["Body"]) - 20

        with pytest.raises(RedisUnavailable):
            invoke(job(1, pad="x" * room))
        assert spill.size() == 1


class TestGivenUp:
    """What is refused for what it is does not come again for as long as an outage may last."""

    @pytest.mark.parametrize("kind", ["spill", "fifo"])
    def test_a_message_that_is_refused_three_times_dies_with_its_reason(
        self, request, kind, start, environment
    ):
        queue = request.getfixturevalue(kind)
        event = messages(job(1), job(2), arn=FIFO_SOURCE, groups=["a", "a"])
        start(away=True)(event if kind == "fifo" else job(1))
        environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", "Another")
        back = start(away=False)

        assert [queue.deliver(back) for _ in range(3)] == [0, 0, 1]

        assert (queue.size(), queue.size(queue.dead_url)) == (0, 1)
        [dead] = queue.client.receive_message(
            QueueUrl=queue.dead_url, MessageAttributeNames=["All"]
        )["Messages"]
        reason = dead["MessageAttributes"]["ErrorMessage"]["StringValue"]
        assert "class: 'HealthPulse' is not among the classes" in reason
        assert json.loads(dead["Body"])["jobs"][0]["args"] == [1]

    def test_one_that_redis_does_not_take_stays_and_so_does_a_tick_that_is_early(
        self, spill, start, recent
    ):
        away = start(away=True)
        tick = {"schedule": "s/Nightly", "at": f"{recent(-10):%FT%TZ}"}
        away(job(1))
        away({**job(1), "tick": tick})

        for _ in range(2):
            assert spill.deliver(away) == 0
        # In this environment Redis is there; the queue gives up what it has delivered three times.
        assert spill.deliver(start(away=False)) == 1
        assert (spill.size(), spill.size(spill.dead_url)) == (1, 0)

    def test_one_that_cannot_be_moved_comes_again(self, spill, start, environment, caplog):
        start(away=True)(job(1))
        environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", "Another")
        spill.client.delete_queue(QueueUrl=spill.dead_url)
        back = start(away=False)

        assert [spill.deliver(back) for _ in range(3)] == [0, 0, 0]

        assert "cannot be moved to the dead-letter queue, and is tried again" in caplog.text
        assert spill.size() == 1


class TestBreaker:
    def test_redis_is_not_asked_again_for_a_while_and_then_it_is(self, server_switch, spill, redis):
        now = [1000.0]
        invoke = server_switch(away=True, clock=lambda: now[0])
        invoke(job(1))
        server_switch(away=False)

        assert invoke(job(2))["spilled"]
        now[0] += OPEN_S
        assert invoke(job(3))["enqueued"]
        assert invoke(job(4))["enqueued"]

        assert numbers(redis) == [3, 4]

    def test_what_comes_out_of_the_spill_queue_waits_too(self, server_switch, spill, redis):
        invoke = server_switch(away=True, clock=lambda: 1000.0)
        invoke(job(1))
        server_switch(away=False)

        assert spill.deliver(invoke) == 0
        assert spill.size() == 1

    def test_a_clock_that_was_set_back_does_not_keep_it_open(self, server_switch, spill):
        now = [1000.0]
        invoke = server_switch(away=True, clock=lambda: now[0])
        invoke(job(1))
        server_switch(away=False)
        now[0] = 0.0

        assert invoke(job(2))["enqueued"]


class Switch:
    """One warm environment, for which Redis goes and comes back at once."""

    def __init__(self, load):
        self._load = load
        self._app = None
        self._away = False
        self._before_push = lambda items: None

    def __call__(self, *, away, clock=None):
        if self._app is None:
            self._app = self._load()
            pusher = self._app.handler.enqueuer().pusher
            # Each look is later than the breaker lasts, unless the test has a clock.
            pusher.breaker._clock = clock or itertools.count(1000, 100).__next__
            for name in ("push_once", "push_tick", "find_enqueued", "find_tick"):
                setattr(pusher.client, name, self._switched(getattr(pusher.client, name)))
        self._away = away
        return lambda event: self._app.lambda_handler(event, Context())

    def client(self):
        return self._app.handler.enqueuer().pusher.client

    def before_push(self, act):
        """Let it happen before each push; the arguments of the jobs of each."""
        asked = []

        def noted(items):
            asked.append([item["args"] for item in items])
            act(items)

        self._before_push = noted
        return asked

    def _switched(self, call):
        def switched(*args, **options):
            if call.__name__ == "push_once":
                self._before_push(*args[:1])
            if self._away:
                raise RedisUnavailable("Redis at this test cannot be reached")
            return call(*args, **options)

        return switched


@pytest.fixture
def server_switch(load):
    return Switch(load)


@pytest.fixture
def recent():
    """A function: the minute so many minutes ago."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    return lambda minutes: now - timedelta(minutes=minutes)


sqs_client = spill_queue.sqs_client


class Refusing:
    """A client of SQS that has some entries of each call refused, or of the first calls."""

    def __init__(self, client, refused, calls=1000):
        self._client = client
        self._refused = refused
        self._calls = calls

    def send_message_batch(self, *, QueueUrl, Entries):  # noqa: N803
        self._calls -= 1
        refused = self._refused if self._calls >= 0 else ()
        entries = [each for each in Entries if each["Id"] not in refused]
        if not entries:
            return {"Failed": [{"Id": each["Id"]} for each in Entries]}
        return self._client.send_message_batch(QueueUrl=QueueUrl, Entries=entries)
