"""`kiqbridge schedule history`: what it prints of a ledger, for people and as JSON."""

import json
from functools import partial

import pytest

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.ledger import read_missed
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd

NIGHT = 4_000_000_200  # 2096-10-02T07:10:00Z
DAY_S = 86_400
NAME = "shop/NightlyReport"

TABLE = """\
shop/NightlyReport  cron(10 9 * * ? *)  Europe/Paris
DUE (EUROPE/PARIS)            DUE (UTC)                    LATE  BY      DELIVERIES  JOB                       OUTCOME    TOOK  NOTES
Tue 2096-10-02 09:10:00 CEST  2096-10-02T07:10:00Z        1.5 s  lambda           1  {a}  open
Mon 2096-10-01 09:10:00 CEST  2096-10-01T07:10:00Z  4 min ahead  worker           3  {a}  done      3.1 s
                                                                                     {b}  dead     250 ms  OSError after 25 retries
Sun 2096-09-30 09:10:00 CEST  2096-09-30T07:10:00Z                                                             missed
Sat 2096-09-29 09:10:00 CEST  2096-09-29T07:10:00Z        7 min  worker           1  {a}  expired          missed at first
Fri 2096-09-28 09:10:00 CEST  2096-09-28T07:10:00Z        1.5 s  lambda           1                            paused
"""


@pytest.fixture
def run(run):
    """Runs `kiqbridge schedule history`."""
    return partial(run, "schedule", "history")


@pytest.fixture
def push(client, redis):
    """Enqueues an occurrence, with an entry that says when."""

    def push(at, *, late_s=1.5, by="lambda:r1", jobs=1, times=1):
        for _ in range(times):
            client.push_tick(NAME, at, [{"class": "A", "args": []}] * max(jobs, 1), by=by)
        [entry] = redis.zrangebyscore(f"kb:ticks:{NAME}", at, at)
        noted = json.loads(entry) | {"enqueued_at": at + late_s}
        noted["jids"] = [f"{'abcdef'[number] * 24}" for number in range(jobs)]
        redis.zremrangebyscore(f"kb:ticks:{NAME}", at, at)
        redis.zadd(f"kb:ticks:{NAME}", {json.dumps(noted): at})

    return push


def add_end(redis, at, letter="a", **more):
    end = JobEnd(at=at, jid=letter * 24, ended_at=more.pop("ended_at", at + 9.0), **more)
    redis.zadd(f"kb:ends:{NAME}", {end.to_text(): at})


def define(redis, timezone="Europe/Paris"):
    definition = ScheduleDefinition(
        name=NAME,
        expression="cron(10 9 * * ? *)",
        timezone=timezone,
        jobs=[{"class": "A", "args": []}],
    )
    redis.hset("kb:schedules", NAME, json.dumps(definition.to_document()))


@pytest.fixture
def five_nights(redis, push):
    define(redis)
    push(NIGHT)
    push(NIGHT - DAY_S, late_s=-240, by="worker:host:1:abc", times=3, jobs=2)
    add_end(redis, NIGHT - DAY_S, outcome="done", took_s=3.14)
    add_end(redis, NIGHT - DAY_S, "b", outcome="dead", took_s=0.25, error="OSError", retries=25)
    redis.zadd("kb:missed", {f"{NIGHT - 2 * DAY_S} {NAME}": NIGHT - 2 * DAY_S})
    push(NIGHT - 3 * DAY_S, late_s=400, by="worker:host:1:abc")
    redis.zadd("kb:missed", {f"{NIGHT - 3 * DAY_S} {NAME}": NIGHT - 3 * DAY_S})
    add_end(redis, NIGHT - 3 * DAY_S, outcome="expired")
    redis.hset("kb:schedules:state", NAME, '{"paused":{"until":null}}')
    push(NIGHT - 4 * DAY_S, jobs=0)
    [entry] = redis.zrangebyscore(f"kb:ticks:{NAME}", NIGHT - 4 * DAY_S, NIGHT - 4 * DAY_S)
    assert json.loads(entry)["paused"]


def test_the_table_has_each_instant_and_each_job(run, five_nights):
    code, out, err = run(NAME)

    assert (code, err) == (0, "")
    a, b = "a" * 24, "b" * 24
    assert out == TABLE.format(a=a, b=b)


def test_in_utc_there_is_one_time(run, push):
    push(NIGHT)

    _, out, _ = run(NAME)

    assert out.splitlines()[:2] == [
        NAME,
        "DUE (UTC)              LATE  BY      DELIVERIES  JOB                       OUTCOME  TOOK  NOTES",
    ]


def test_json_has_all_of_it(run, five_nights):
    code, out, _ = run(NAME, "--json", "--count", "2")

    answer = json.loads(out)
    assert (code, answer["schedule"], answer["timezone"]) == (0, NAME, "Europe/Paris")
    first, second = answer["instants"]
    without_end = dict.fromkeys(("ended_at", "took_s", "error", "retries"))
    assert first.pop("jobs") == [{"jid": "a" * 24, "outcome": "open", **without_end}]
    assert first == {
        "at": NIGHT,
        "instant": "2096-10-02T07:10:00Z",
        "missed": False,
        "by": "lambda:r1",
        "enqueued_at": NIGHT + 1.5,
        "lateness_s": 1.5,
        "deliveries": 1,
        "left_out": None,
    }
    assert [job["outcome"] for job in second["jobs"]] == ["done", "dead"]
    assert (second["deliveries"], second["jobs"][1]["retries"]) == (3, 25)


def test_a_window_is_one_of_instants(run, five_nights):
    _, out, _ = run(NAME, "--json", "--since", "2096-09-29", "--until", "2096-09-30T07:10:00Z")

    days = [each["instant"][:10] for each in json.loads(out)["instants"]]
    assert days == ["2096-09-30", "2096-09-29"]


def test_the_last_end_of_a_job_counts(run, redis, push):
    push(NIGHT)
    add_end(redis, NIGHT, outcome="dead", ended_at=NIGHT + 5.0, error="OSError")
    add_end(redis, NIGHT, outcome="done", ended_at=NIGHT + 99.0)

    _, out, _ = run(NAME, "--json")

    assert json.loads(out)["instants"][0]["jobs"][0]["outcome"] == "done"


def test_a_schedule_that_has_not_fired_is_known(run, redis):
    define(redis)

    code, out, err = run(NAME)

    assert (code, err) == (0, "")
    assert out.endswith("nothing has fired within this time\n")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("NightlyReport", "did you mean shop/NightlyReport?"),
        ("shop/NightlyRepot", "did you mean shop/NightlyReport?"),
        ("zzz", "nothing was enqueued under it"),
    ],
)
def test_an_unknown_name_is_refused_with_near_ones(run, push, name, hint):
    push(NIGHT)

    code, out, err = run(name)

    assert (code, out) == (2, "")
    assert err == f"kiqbridge: no schedule is named {name!r}: {hint}\n"


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none_is_refused(run, push, option):
    push(NIGHT)

    code, _, err = run(NAME, option, "yesterday")

    assert code == 2
    assert option in err


def test_missed_ticks_of_others_are_passed_over(redis, redis_url):
    pool = RedisPool(redis_url)
    redis.zadd("kb:missed", {f"{at} other": at for at in range(2500)})
    redis.zadd("kb:missed", {f"{at} s": at for at in (3, 1400, 2400)})

    assert read_missed(pool, Keys(), "s", most=9) == [2400, 1400, 3]
    assert read_missed(pool, Keys(), "s", most=2) == [2400, 1400]
    assert read_missed(pool, Keys(), "s", most=9, since=4, until=1400) == [1400]
    pool.close()
