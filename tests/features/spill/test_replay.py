"""`kiqbridge spill`: looking into the spill queues, draining them, and replaying dead-letter queues."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from support.enqueue_function import ENVIRONMENT, Context, job, numbers, queued, read_event
from support.sqs import Queue, arn_of, simulated_sqs

from kiqbridge.commands import cli
from kiqbridge.features.spill.command import Messages
from kiqbridge.features.spill.replay import ReplayPusher


@pytest.fixture
def sqs(monkeypatch):
    with simulated_sqs(monkeypatch):
        yield


@pytest.fixture
def dead(sqs):
    return Queue("dead")


@pytest.fixture
def run(redis_url, environment, capsys, sqs):
    """Runs the command: (exit code, JSON or text on standard output, standard error)."""
    environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", ENVIRONMENT["KIQBRIDGE_ALLOWED_CLASSES"])

    def run(*args):
        capsys.readouterr()  # lines of the function
        code = cli.main(["spill", *args])
        captured = capsys.readouterr()
        out = json.loads(captured.out) if "--json" in args and captured.out else captured.out
        return code, out, captured.err

    return run


def tick(number, at):
    return {**job(number), "tick": {"schedule": "stack/Nightly", "at": at}}


def ago(**options):
    return f"{datetime.now(UTC) - timedelta(**options):%FT%H:%M:00Z}"


def attributes(**values):
    return {name: {"StringValue": value, "DataType": "String"} for name, value in values.items()}


def outcomes(answer):
    return [each["outcome"] for each in answer["messages"]]


ON_FAILURE = {
    "version": "1.0",
    "timestamp": "2026-11-20T02:00:00Z",
    "requestContext": {
        "requestId": "e4b46cbf",
        "functionArn": "arn:aws:lambda:eu-west-1:123456789012:function:enqueue:$LATEST",
        "condition": "RetriesExhausted",
        "approximateInvokeCount": 3,
    },
    "responseContext": {"statusCode": 200, "functionError": "Unhandled"},
}


EVENT = read_event("bus_event", id="e-1", detail=job(1))


class TestEnvelopes:
    """Each service's dead letter holds the event that the function was given."""

    @pytest.fixture(autouse=True)
    def started(self, dead, run, redis):
        self.dead, self.run, self.redis = dead, run, redis

    def replay(self, *more):
        return self.run("replay", "--queue-url", self.dead.url, "--yes", "--json", *more)

    @pytest.mark.parametrize(
        ("body", "about", "envelope", "reason"),
        [
            ({**ON_FAILURE, "requestPayload": job(1)}, {}, "on-failure", "RetriesExhausted"),
            (EVENT, {"RequestID": "r", "ErrorMessage": "no Redis"}, "lambda", "no Redis"),
            (EVENT, {"RULE_ARN": "arn:rule"}, "rule", None),
            (job(1), {}, "sqs", None),
        ],
        ids=["on failure", "of Lambda", "of a rule", "sent by hand"],
    )
    def test_each_is_enqueued_with_who_put_it_there_and_why(self, body, about, envelope, reason):
        self.dead.send(json.dumps(body), MessageAttributes=attributes(**about))

        code, answer, _ = self.replay()

        [message] = answer["messages"]
        assert (code, outcomes(answer)) == (0, ["enqueued"])
        assert (message["envelope"], message["reason"]) == (envelope, reason)
        assert (numbers(self.redis), self.dead.size()) == ([1], 0)
        guards = [key.split(b":")[0] for key in self.redis.hkeys("kb:guards")]
        assert (guards == [b"event"]) == (body is EVENT)

    def test_schedulers_dead_letter_queue_with_its_attributes(self):
        arn = "arn:aws:scheduler:eu-west-1:123456789012:schedule/default/Nightly"
        body = {
            **job(1),
            "tick": {
                "schedule": "<aws.scheduler.schedule-arn>",
                "at": "<aws.scheduler.scheduled-time>",
            },
        }
        about = attributes(
            SCHEDULE_ARN=arn,
            SCHEDULED_TIME=ago(hours=3),
            ERROR_CODE="AccessDenied",
            ERROR_MESSAGE="not authorized",
        )
        self.dead.send(json.dumps(body), MessageAttributes=about)

        _, answer, _ = self.replay()

        assert outcomes(answer) == ["enqueued"]
        assert answer["messages"][0]["reason"] == "not authorized"
        assert self.redis.exists(f"kb:ticks:{arn}")

    def test_an_input_that_scheduler_cut_off_is_refused(self):
        about = attributes(SCHEDULE_ARN="arn:s", IS_PAYLOAD_TRUNCATED="true")
        self.dead.send('{"class": "Hea', MessageAttributes=about)

        code, answer, _ = self.replay()

        assert (code, outcomes(answer)) == (1, ["refused"])
        assert "was cut off by Scheduler" in answer["messages"][0]["error"]
        assert self.dead.size() == 1

    def test_a_message_that_sqs_moved_is_the_one_of_its_first_queue(self, invoke, monkeypatch):
        """A message that is redriven by SQS would have another id; replayed here it keeps its own."""
        source = Queue("orders", receives=1)
        source.send(json.dumps(job(1)))
        source.deliver(lambda event: invoke(event) and {"batchItemFailures": failed(event)})
        source.deliver(lambda event: {"batchItemFailures": failed(event)})
        assert source.size(source.dead_url) == 1
        take = Messages.take

        def with_what_moto_leaves_out(self, most):
            for message in take(self, most):
                message["Attributes"]["DeadLetterQueueSourceArn"] = source.arn
                yield message

        monkeypatch.setattr(Messages, "take", with_what_moto_leaves_out)

        code, answer, _ = self.run("replay", "--queue-url", source.dead_url, "--yes", "--json")

        assert (code, outcomes(answer)) == (0, ["duplicate"])
        assert numbers(self.redis) == [1]
        assert source.size(source.dead_url) == 0

    def test_what_holds_no_job_stays(self):
        self.dead.send("no job")
        self.dead.send(
            json.dumps({**ON_FAILURE, "requestPayload": {"class": "Kernel", "args": []}})
        )

        code, answer, _ = self.replay()

        assert (code, outcomes(answer)) == (1, ["refused", "refused"])
        assert self.dead.size() == 2
        assert len(self.dead._receive()) == 2  # not held any longer


class TestWhatIsTooOld:
    """A ledger remembers 17 days, longer than a dead-letter queue keeps (14)."""

    def test_a_tick_of_a_dead_letter_queue_is_known_to_the_last_day(self, run, dead, redis, invoke):
        for days in (13, 14, 16):
            invoke(tick(days, ago(days=days)))
            dead.send(json.dumps({**ON_FAILURE, "requestPayload": tick(days, ago(days=days))}))

        code, answer, _ = run("replay", "--queue-url", dead.url, "--yes", "--json")

        assert (code, outcomes(answer)) == (0, ["duplicate"] * 3)
        assert len(queued(redis)) == 3

    @pytest.mark.parametrize("dry_run", [["--dry-run"], ["--yes"]])
    def test_an_older_one_is_refused_and_stays(self, run, dead, redis, dry_run):
        dead.send(json.dumps({**ON_FAILURE, "requestPayload": tick(1, ago(days=18))}))

        code, answer, _ = run("replay", "--queue-url", dead.url, "--json", *dry_run)

        assert (code, outcomes(answer)) == (1, ["stale"])
        assert "older than the 17 days" in answer["messages"][0]["error"]
        assert "--stale" in answer["messages"][0]["error"]
        assert (redis.keys("*"), dead.size()) == ([], 1)

    def test_it_is_enqueued_if_asked_for_and_only_once(self, run, dead, redis):
        for _ in range(2):
            dead.send(json.dumps({**ON_FAILURE, "requestPayload": tick(1, ago(days=18))}))

        code, answer, _ = run("replay", "--queue-url", dead.url, "--yes", "--stale", "--json")

        assert (code, sorted(outcomes(answer))) == (0, ["duplicate", "enqueued"])
        assert numbers(redis) == [1]

    def test_one_that_may_be_ignored_is_not_deleted_either(self, run, dead, redis):
        old = tick(1, ago(days=18))
        old["tick"]["on_stale"] = "ignore"
        dead.send(json.dumps(old), MessageAttributes=attributes(RequestID="r"))

        code, answer, _ = run("replay", "--queue-url", dead.url, "--yes", "--json")

        assert (code, outcomes(answer), dead.size()) == (1, ["stale"], 1)

    def test_a_message_older_than_its_guard_is_refused(self, dead, run, redis, monkeypatch):
        """SQS keeps none for so long; one that was archived and sent again has its own date."""
        dead.send(json.dumps(job(1)))
        now = time.time
        monkeypatch.setitem(
            ReplayPusher.__init__.__kwdefaults__, "clock", lambda: now() + 16 * 86_400
        )

        code, answer, _ = run("replay", "--queue-url", dead.url, "--yes", "--json")

        assert (code, outcomes(answer)) == (1, ["stale"])
        assert "sent 16 days ago" in answer["messages"][0]["error"]


class TestDryRun:
    def test_it_says_what_would_become_of_each_and_changes_nothing(self, run, dead, redis, invoke):
        invoke(job(1, dedupe_key="known"))
        known = queued(redis)[0]["jid"]
        before = redis.dbsize()
        for payload in (
            job(1, dedupe_key="known"),
            job(2, dedupe_key="new"),
            tick(3, ago(hours=1)),
            tick(4, ago(days=18)),
            {"class": "Kernel", "args": []},
        ):
            dead.send(json.dumps({**ON_FAILURE, "requestPayload": payload}))

        code, answer, _ = run("replay", "--queue-url", dead.url, "--dry-run", "--json")

        expected = ["duplicate", "enqueued", "enqueued", "stale", "refused"]
        assert (code, outcomes(answer)) == (1, expected)
        assert answer["messages"][0]["jobs"][0]["jid"] == known
        counts = {"enqueued": 2, "duplicate": 1, "stale": 1, "refused": 1}
        assert answer["counts"] == {**counts, "no job": 0, "failed": 0}
        assert (redis.dbsize(), redis.llen("queue:default"), dead.size()) == (before, 1, 5)
        assert len(dead._receive()) == 5

    def test_a_tick_that_ran_is_a_duplicate(self, run, dead, invoke):
        at = ago(hours=1)
        [first] = invoke(tick(1, at))["enqueued"]
        dead.send(json.dumps({**ON_FAILURE, "requestPayload": tick(1, at)}))

        _, answer, _ = run("replay", "--queue-url", dead.url, "--dry-run", "--json")

        [message] = answer["messages"]
        assert (message["outcome"], message["jobs"][0]["jid"]) == ("duplicate", first["jid"])

    def test_as_text(self, run, dead):
        name = dead.send(json.dumps(job(1)))

        code, out, err = run("replay", "--queue-url", dead.url, "--dry-run")

        assert (code, err) == (0, "")
        assert (
            out == f"{name} would be enqueued: HealthPulse into default\n1 messages: 1 enqueued\n"
        )

    def test_a_limit_leaves_the_rest(self, run, dead, redis):
        for number in range(15):
            dead.send(json.dumps(job(number)))

        _, answer, _ = run("replay", "--queue-url", dead.url, "--yes", "--limit", "12", "--json")

        assert (len(answer["messages"]), dead.size(), len(numbers(redis))) == (12, 3, 12)


class TestSpillQueue:
    @pytest.fixture
    def spill(self, sqs, environment, load, redis_url):
        queue = Queue("spill")
        environment.setenv("KIQBRIDGE_SPILL_QUEUE_URL", queue.url)
        environment.setenv("REDIS_URL", "redis://127.0.0.1:1")
        app = load()
        [self.accepted] = app.lambda_handler(job(1), Context())["spilled"]
        environment.setenv("REDIS_URL", redis_url)
        return queue

    def test_show_counts_and_looks(self, spill, run):
        _, answer, _ = run("show", "--limit", "5", "--json")

        [queue] = answer["queues"]
        assert (queue["queue_url"], queue["waiting"]) == (spill.url, 1)
        assert queue["dead_letters"] == {"queue_url": spill.dead_url, "waiting": 0, "in_flight": 0}
        [message] = queue["messages"]
        assert message["jobs"] == [
            {"jid": self.accepted["jid"], "class": "HealthPulse", "queue": "default"}
        ]
        assert len(spill._receive()) == 1

    def test_show_alone_receives_nothing(self, spill, run):
        code, out, _ = run("show")

        assert code == 0
        assert out.startswith(f"{spill.url}\n  1 wait, 0 are in flight; dead-letter queue: 0 in ")
        [message] = spill._receive()
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"

    def test_drain_enqueues_with_the_jid_that_was_answered(self, spill, run, redis):
        code, answer, _ = run("drain", "--yes", "--json")

        assert (code, outcomes(answer), spill.size()) == (0, ["enqueued"], 0)
        assert [each["jid"] for each in queued(redis)] == [self.accepted["jid"]]

    def test_a_drain_without_a_terminal_asks_for_yes(self, spill, run, redis):
        code, _, err = run("drain")

        assert (code, redis.keys("queue*"), spill.size()) == (2, [], 1)
        assert "--yes" in err

    def test_replay_takes_what_died_in_the_spill_queue(self, spill, run, redis):
        [message] = spill._receive()
        spill.client.send_message(QueueUrl=spill.dead_url, MessageBody=message["Body"])

        _, answer, _ = run("replay", "--queue-url", spill.dead_url, "--yes", "--json")

        assert answer["messages"][0]["envelope"] == "spill"
        assert [each["jid"] for each in queued(redis)] == [self.accepted["jid"]]

    def test_what_looks_spilled_is_refused_from_any_other_queue(self, spill, dead, run, redis):
        """Whoever may send to an ordinary source could else name any source, alias and guards."""
        [message] = spill._receive()
        dead.send(message["Body"])

        code, answer, _ = run("replay", "--queue-url", dead.url, "--yes", "--json")

        assert (code, outcomes(answer), dead.size()) == (1, ["refused"], 1)
        assert f"{dead.arn} is no spill queue that is known here" in answer["messages"][0]["error"]
        assert not redis.keys("queue*")

    @pytest.fixture
    def key(self, sqs, services, environment):
        services.set_secrets_manager(environment)
        arn = services.secret("a long random text", "spill")
        environment.setenv("KIQBRIDGE_SPILL_KEY_SECRET_ARN", arn)
        return arn

    def test_what_is_signed_needs_its_key_and_says_why_it_died(
        self, key, spill, environment, load, run
    ):
        environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", "Another")
        refusing = load()
        for _ in range(3):
            spill.deliver(lambda event: refusing.lambda_handler(event, Context()))
        environment.setenv("KIQBRIDGE_ALLOWED_CLASSES", "HealthPulse")
        replay = ("replay", "--queue-url", spill.dead_url, "--yes", "--json")

        environment.delenv("KIQBRIDGE_SPILL_KEY_SECRET_ARN")
        code, answer, _ = run(*replay)
        assert (code, outcomes(answer)) == (1, ["refused"])
        assert "it is signed, and there is no key" in answer["messages"][0]["error"]

        environment.setenv("KIQBRIDGE_SPILL_KEY_SECRET_ARN", key)
        environment.delenv("KIQBRIDGE_SPILL_QUEUE_URL")
        code, answer, _ = run(*replay)
        assert (code, outcomes(answer)) == (0, ["enqueued"])
        [message] = answer["messages"]
        assert "is not among the classes" in message["reason"]
        assert message["jobs"][0]["jid"] == self.accepted["jid"]

    def test_redis_away_ends_it_and_nothing_is_lost(self, spill, run, environment):
        environment.setenv("REDIS_URL", "redis://127.0.0.1:1")

        code, _, err = run("drain", "--yes")

        assert (code, spill.size()) == (3, 1)
        assert "cannot be reached" in err
        assert len(spill._receive()) == 1


def test_without_a_queue_it_says_what_to_give(run):
    code, _, err = run("show")

    assert code == 2
    assert "--queue-url" in err


def test_a_queue_that_is_not_there_is_named(run, sqs):
    url = f"https://sqs.eu-west-1.amazonaws.com/{arn_of('x').split(':')[4]}/none"

    code, _, err = run("show", "--queue-url", url)

    assert code == 2
    assert "SQS refuses get_queue_attributes" in err


def failed(event):
    return [{"itemIdentifier": each["messageId"]} for each in event["Records"]]
