"""What the fleet and Ruby's readers see of a process (protocol §10, §11, §24)."""

import json
import logging
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.engine import UnreliableConnection, capsule_of, heartbeat_of
from support.waiting import wait_until

from kiqbridge.engine.heartbeat import WHOLE_EVERY, Heartbeat, ProcessInfo
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.errors import RedisRefused
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

IDENTITY = "host:1:0123456789ab"
INFO = ProcessInfo(
    identity=IDENTITY,
    hostname="host",
    pid=1,
    tag="shop",
    labels=["kiqbridge", "blue"],
    concurrency=3,
    capsules=[capsule_of({"mail": 3, "default": 1}, concurrency=3)],
    version="kiqbridge-0.1.0",
    started_at=1_700_000_000.25,
    beat_s=60,
)
TEXT = b'{"class":"Nop","args":["\xc3\xa9"],"jid":"a"}'


class Process:
    """A heartbeat over three idle threads that a test sets to work."""

    def __init__(self, url, *, beat_s=0.05, **options):
        self.connection = UnreliableConnection(RedisPool(url).connection())
        self.threads = [
            SimpleNamespace(tid=f"t{number}", current=None, processed=0, failed=0)
            for number in range(3)
        ]
        self.signals = []
        self.quiet = False
        self.heartbeat = Heartbeat(
            **{
                "info": replace(INFO, beat_s=beat_s),
                "keys": Keys(),
                "connection": self.connection,
                **heartbeat_of(self.threads, is_quiet=lambda: self.quiet),
                "on_signal": self.signals.append,
                **options,
            }
        )

    def beat(self):
        self.heartbeat.beat()


@pytest.fixture
def process(redis_url):
    return Process(redis_url)


def fields(redis):
    return {name.decode(): text.decode() for name, text in redis.hgetall(IDENTITY).items()}


class TestProcessHash:
    def test_its_fields_are_plain_decimal_texts(self, redis, process):
        before = time.time()
        process.beat()

        found = fields(redis)
        assert set(found) == {"info", "concurrency", "busy", "beat", "rtt_us", "quiet", "rss"}
        assert (found["concurrency"], found["busy"], found["quiet"]) == ("3", "0", "false")
        assert before <= float(found["beat"]) <= time.time()
        assert re.fullmatch(r"\d+\.\d+", found["beat"])
        assert re.fullmatch(r"\d+", found["rtt_us"])
        assert 0 < int(found["rtt_us"]) < 5_000_000

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        here = pages * os.sysconf("SC_PAGE_SIZE") // 1024
        assert abs(int(found["rss"]) - here) < here / 2
        assert redis.smembers("processes") == {IDENTITY.encode()}
        assert 50 < redis.ttl(IDENTITY) <= 60
        process.quiet = True
        process.beat()
        assert fields(redis)["quiet"] == "true"

    def test_info_serves_readers_of_every_version(self, redis, process):
        process.beat()

        assert json.loads(fields(redis)["info"]) == {
            "hostname": "host",
            "started_at": 1_700_000_000.25,
            "pid": 1,
            "tag": "shop",
            "concurrency": 3,
            "capsules": {
                "default": {
                    "concurrency": 3,
                    "mode": "weighted",
                    "weights": {"mail": 3, "default": 1},
                }
            },
            "queues": ["mail", "default"],
            "weights": [{"mail": 3, "default": 1}],
            "labels": ["kiqbridge", "blue"],
            "identity": IDENTITY,
            "version": "kiqbridge-0.1.0",
            "embedded": False,
        }

    def test_it_reappears_after_it_was_pruned(self, redis, process):
        process.beat()
        redis.delete("processes", IDENTITY)

        process.beat()

        assert redis.sismember("processes", IDENTITY)
        assert "info" in fields(redis)

    def test_the_beats_after_it_write_what_has_changed(self, redis, process):
        process.beat()
        redis.hdel(IDENTITY, "info")
        redis.persist(IDENTITY)
        process.quiet = True
        before = redis.info("stats")["total_commands_processed"]

        process.beat()

        assert redis.info("stats")["total_commands_processed"] - before == 4  # INFO is one
        assert fields(redis)["quiet"] == "true"
        assert 50 < redis.ttl(IDENTITY) <= 60
        redis.delete("processes")
        for _ in range(WHOLE_EVERY - 2):
            process.beat()
        assert redis.smembers("processes") == {IDENTITY.encode()}
        assert "info" in fields(redis)

    @pytest.mark.parametrize("kind", ["{}", "{}-signals"])
    def test_a_key_of_another_type_is_refused_alone(self, redis, process, kind):
        process.beat()
        key = kind.format(IDENTITY)
        redis.set(key, "text")
        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            process.beat()
        redis.delete("processes")

        process.beat()

        assert redis.smembers("processes") == {IDENTITY.encode()}
        redis.delete(key)
        process.beat()
        assert "info" in fields(redis)


class TestWork:
    def test_running_jobs_stand_under_both_names_for_a_minute(self, redis, process):
        process.threads[0].current = RunningJob("mail", TEXT, 1_700_000_001.75)
        process.threads[2].current = RunningJob("default", TEXT, 1_700_000_002.25)

        process.beat()

        for key in (f"{IDENTITY}:work", f"{IDENTITY}:workers"):
            work = {tid: json.loads(text) for tid, text in redis.hgetall(key).items()}
            assert work == {
                b"t0": {"queue": "mail", "payload": TEXT.decode(), "run_at": 1_700_000_001},
                b"t2": {"queue": "default", "payload": TEXT.decode(), "run_at": 1_700_000_002},
            }
            assert all(type(unit["run_at"]) is int for unit in work.values())
            assert 50 < redis.ttl(key) <= 60
        assert fields(redis)["busy"] == "2"

    def test_finished_jobs_are_gone_at_the_next_beat(self, redis, process):
        process.threads[0].current = RunningJob("mail", TEXT, 1.0)
        process.threads[1].current = RunningJob("mail", TEXT, 1.0)
        process.beat()
        process.threads[0].current = None
        process.beat()
        assert redis.hkeys(f"{IDENTITY}:work") == redis.hkeys(f"{IDENTITY}:workers") == [b"t1"]

        process.threads[1].current = None
        process.beat()

        assert not redis.exists(f"{IDENTITY}:work", f"{IDENTITY}:workers")

    def test_a_text_that_is_no_utf_8_does_not_break_the_page(self, redis, process):
        process.threads[0].current = RunningJob("mail", b'{"args":["\xff"]}', 1.0)

        process.beat()

        (text,) = redis.hvals(f"{IDENTITY}:work")
        assert json.loads(text)["payload"] == '{"args":["�"]}'


class TestSignals:
    def test_one_is_taken_per_beat_first_in_first_out(self, redis, process):
        for name in ("TSTP", "TTIN", "TERM"):
            redis.lpush(f"{IDENTITY}-signals", name)
            redis.lpush("host:2:bbb-signals", "TERM")

        process.beat()
        assert process.signals == ["TSTP"]
        process.beat()
        assert process.signals == ["TSTP", "TTIN"]
        process.beat()
        process.beat()

        assert process.signals == ["TSTP", "TTIN", "TERM"]


class TestStats:
    @pytest.fixture
    def day(self):
        return time.strftime("%Y-%m-%d", time.gmtime())

    def test_counts_are_flushed_in_total_and_per_utc_day_for_five_years(self, redis, process, day):
        process.threads[0].processed, process.threads[0].failed = 5, 1
        process.threads[1].processed = 2

        process.beat()

        assert (redis.get("stat:processed"), redis.get("stat:failed")) == (b"7", b"1")
        assert redis.get(f"stat:processed:{day}") == b"7"
        assert redis.get(f"stat:failed:{day}") == b"1"
        for name in ("processed", "failed"):
            assert 157_680_000 - 10 < redis.ttl(f"stat:{name}:{day}") <= 157_680_000
            assert redis.ttl(f"stat:{name}") == -1

    def test_only_what_is_new_is_added(self, redis, process):
        redis.set("stat:processed", 100)
        process.threads[0].processed = 5
        process.beat()
        process.threads[0].processed = 6
        process.beat()
        process.beat()

        assert redis.get("stat:processed") == b"106"
        assert redis.get("stat:failed") == b"0"

        redis.mset({"stat:processed": 0, "stat:failed": 0})  # in the UI
        process.threads[0].processed = 8
        process.beat()
        assert redis.get("stat:processed") == b"2"

    def test_nothing_is_written_while_nothing_was_counted(self, redis, process):
        process.beat()

        assert not redis.keys("stat:*")


class TestMetrics:
    @pytest.fixture
    def process(self, redis_url):
        self.metrics = Metrics(Keys(), identity=IDENTITY, forms="8")
        return Process(redis_url, metrics=self.metrics)

    def perform(self):
        self.metrics.record("Work", 10.0, False)

    def counted(self, redis):
        return sum(int(redis.hget(key, "Work|p")) for key in redis.keys("j|??????|*:??"))

    def test_a_refusal_is_told_once_and_stops_no_beat(self, redis, process, caplog):
        redis.lpush(f"{IDENTITY}-signals", "TSTP")
        redis.rpush(f"kb:metrics:{IDENTITY}", "in the way")
        self.perform()

        process.beat()
        process.beat()

        assert process.signals == ["TSTP"]
        [message] = caplog.messages
        assert message.startswith("writing metrics fails: ")
        assert "WRONGTYPE" in message

        redis.delete(f"kb:metrics:{IDENTITY}")
        process.beat()
        assert self.counted(redis) == 1


class TestThread:
    def test_it_beats_at_once_and_again(self, redis, redis_url):
        process = Process(redis_url)
        process.heartbeat.start()
        wait_until(lambda: redis.exists(IDENTITY))
        first = fields(redis)["beat"]
        wait_until(lambda: fields(redis)["beat"] != first)
        process.heartbeat.stop()

    def test_it_signs_off_with_its_last_counts(self, redis, redis_url):
        process = Process(redis_url, beat_s=60)
        process.threads[0].current = RunningJob("mail", TEXT, 1.0)
        process.heartbeat.start()
        wait_until(lambda: redis.exists(IDENTITY, f"{IDENTITY}:work") == 2)
        process.threads[0].processed = 3

        process.heartbeat.stop()

        assert redis.get("stat:processed") == b"3"
        assert not redis.exists("processes", f"{IDENTITY}:work", f"{IDENTITY}:workers")
        assert 0 < redis.ttl(IDENTITY) <= 60  # left to expire, as Sidekiq does

    def test_an_outage_is_survived(self, redis, redis_url, caplog):
        caplog.set_level(logging.DEBUG, "kiqbridge.runtime.role")
        process = Process(redis_url)
        process.connection.down = True
        process.heartbeat.start()
        wait_until(lambda: "heartbeat) waits: " in caplog.text)

        process.connection.down = False

        wait_until(lambda: redis.exists(IDENTITY))
        process.heartbeat.stop()

    def test_signing_off_without_redis_says_when_it_disappears(self, process, caplog):
        process.connection.down = True

        process.heartbeat.stop()

        assert "this process disappears in 60 s" in caplog.text

    def test_five_slow_round_trips_in_a_row_are_a_warning(self, process, caplog):
        for rtt_us in (60_000, 60_000, 60_000, 60_000, 40_000, 60_000, 60_000, 60_000, 60_000):
            process.heartbeat.note_round_trip(rtt_us)
        assert not caplog.records

        process.heartbeat.note_round_trip(70_000)

        (message,) = caplog.messages
        assert "70000 µs" in message
