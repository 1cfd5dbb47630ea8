"""What measured jobs leave in Redis: each execution once, whatever happens to the connection (§12)."""

import threading

import pytest
from support.engine import UnreliableConnection
from support.proxy import InterceptingRedis, Lose

from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.measures import BUCKETS as COUNTERS

NOW = 1_770_015_780.5
"""2026-02-02 07:03:00.5 UTC: every number in a key that may be padded, or not, has one digit."""

MINUTE_7, MINUTE_8, TEN_MINUTES = "j|20260202|7:3", "j|260202|7:03", "j|260202|7:0"
BUCKETS = (MINUTE_7, MINUTE_8, TEN_MINUTES)
GUARD = "kb:metrics:host:1:aaa"


class Process:
    """The metrics of one process, with one thread that performs jobs."""

    def __init__(self, url, *, identity="host:1:aaa", namespace="", forms="both"):
        self.connection = UnreliableConnection(RedisPool(url).connection())
        self.metrics = Metrics(Keys(namespace), identity=identity, forms=forms)

    def perform(self, *times, name="Work"):
        """Jobs that take so many milliseconds; None is one that fails."""
        for each in times:
            self.metrics.record(name, each or 0, each is None)

    def flush(self, now=NOW):
        self.metrics.flush(self.connection, now)


@pytest.fixture
def process(redis_url):
    return Process(redis_url)


def histogram(redis, key):
    words = [word for index in range(COUNTERS) for word in ("GET", "u16", f"#{index}")]
    return redis.execute_command("BITFIELD_RO", key, *words)


def counted(redis, key=MINUTE_8):
    return {name.decode(): int(count) for name, count in redis.hgetall(key).items()}


class TestKeys:
    def test_both_forms_are_written_with_the_names_and_lives_of_each(self, redis, process):
        process.perform(10, 10.5, 40, None)

        process.flush()

        assert {key.decode() for key in redis.scan_iter()} == {
            *BUCKETS,
            "Work-02-07:3",
            "h|Work-2-7:3",
            GUARD,
        }
        for key in BUCKETS:
            assert counted(redis, key) == {"Work|ms": 60, "Work|p": 4, "Work|f": 1}
        for key in ("Work-02-07:3", "h|Work-2-7:3"):
            assert histogram(redis, key) == [2, 0, 1, *[0] * 23]
        for key, ttl_s in ((TEN_MINUTES, 259_200), (MINUTE_7, 28_800), ("Work-02-07:3", 28_800)):
            assert ttl_s - 10 < redis.ttl(key) <= ttl_s

    def test_padding_as_in_the_afternoon_of_a_late_day(self, redis, process):
        process.perform(10)

        process.flush(1_772_152_980)  # 2026-02-27 00:43

        assert {key.decode() for key in redis.scan_iter()} == {
            *("j|20260227|0:43", "j|260227|0:43", "j|260227|0:4"),
            *("Work-27-00:43", "h|Work-27-0:43", GUARD),
        }

    @pytest.mark.parametrize(
        ("forms", "written"),
        [
            ("7", {MINUTE_7, "Work-02-07:3", GUARD}),
            ("8", {MINUTE_8, TEN_MINUTES, "h|Work-2-7:3", GUARD}),
        ],
    )
    def test_one_form_alone_may_be_chosen(self, redis, redis_url, forms, written):
        process = Process(redis_url, forms=forms)
        process.perform(10)

        process.flush()

        assert {key.decode() for key in redis.scan_iter()} == written

    def test_off_writes_nothing(self, redis, redis_url):
        process = Process(redis_url, forms="off")
        process.perform(10, None)

        process.flush()

        assert not process.metrics.on
        assert redis.dbsize() == 0
        assert process.connection.scripts == 0

    def test_they_are_under_the_namespace(self, redis, redis_url):
        process = Process(redis_url, namespace="app")
        process.perform(10)

        process.flush()

        assert all(key.startswith(b"app:") for key in redis.scan_iter())
        assert redis.exists(f"app:{MINUTE_8}", "app:h|Work-2-7:3", f"app:{GUARD}") == 3

    def test_a_success_has_a_time_even_if_that_is_0_and_a_failure_none(self, redis, process):
        process.perform(None)
        process.flush()
        assert counted(redis) == {"Work|f": 1, "Work|p": 1}
        assert not redis.keys("*Work*")

        process.perform(0)
        process.flush()
        assert counted(redis) == {"Work|ms": 0, "Work|f": 1, "Work|p": 2}


class TestFlush:
    def test_nothing_is_sent_while_nothing_was_performed(self, redis, process):
        process.flush()
        process.perform(10)
        process.flush()
        process.flush()

        assert process.connection.scripts == 1

    def test_two_processes_add_to_the_same_buckets(self, redis, redis_url):
        processes = [Process(redis_url, identity=f"host:{n}:aaa") for n in (1, 2)]
        for process in processes:
            process.perform(10, 30, None)
            process.flush()
            process.perform(50)
            process.flush()

        for key in BUCKETS:
            assert counted(redis, key) == {"Work|ms": 180, "Work|p": 8, "Work|f": 2}
        assert histogram(redis, "h|Work-2-7:3") == [2, 0, 2, 2, *[0] * 22]

    def test_what_is_measured_counts_at_the_time_of_the_flush(self, redis, process):
        process.perform(10)
        process.flush(NOW)
        process.perform(10)
        process.flush(NOW + 60)

        assert counted(redis) == {"Work|ms": 10, "Work|p": 1}
        assert counted(redis, "j|260202|7:04") == {"Work|ms": 10, "Work|p": 1}
        assert counted(redis, TEN_MINUTES) == {"Work|ms": 20, "Work|p": 2}

    def test_a_histogram_counter_stops_at_its_largest_value(self, redis, process):
        redis.bitfield("h|Work-2-7:3").set("u16", "#0", 65_530).execute()
        process.perform(*[1] * 10)

        process.flush()

        assert histogram(redis, "h|Work-2-7:3")[0] == 65_535
        assert histogram(redis, "Work-02-07:3")[0] == 10

    def test_many_classes_go_in_several_calls(self, redis, process):
        for number in range(250):
            process.perform(10, None, name=f"Work{number}")

        process.flush()

        assert process.connection.scripts == 3
        for key in BUCKETS:
            assert counted(redis, key) == {
                f"Work{number}|{field}": count
                for number in range(250)
                for field, count in (("ms", 10), ("f", 1), ("p", 2))
            }

    def test_threads_that_go_on_performing_are_counted_exactly(self, redis, process):
        enough, rounds, threads = threading.Event(), [], []

        def perform():
            while not enough.is_set():
                for number in range(1000):
                    process.metrics.record(f"Work{number % 7}", 0.5, number % 10 == 0)
                rounds.append(1000)

        for _ in range(3):
            threads.append(threading.Thread(target=perform))
            threads[-1].start()
        for _ in range(10):
            process.flush()
        enough.set()
        for thread in threads:
            thread.join()
        process.flush()

        totals = dict.fromkeys(("p", "f", "ms"), 0)
        for name, count in counted(redis).items():
            totals[name.partition("|")[2]] += count
        performed = sum(rounds)
        assert (totals["p"], totals["f"]) == (performed, performed // 10)
        # Of each class less than one millisecond is still to come.
        assert 0 <= performed * 9 // 10 * 0.5 - totals["ms"] < 7


class TestTrouble:
    """Nothing is lost and nothing is added twice."""

    def test_an_outage_leaves_all_for_the_next_flush(self, redis, process):
        process.perform(10)
        process.connection.down = True
        for _ in range(3):
            with pytest.raises(RedisUnavailable):
                process.flush()
            process.perform(10)
        process.connection.down = False

        process.flush(NOW + 60)

        assert counted(redis) == {}
        assert counted(redis, "j|260202|7:04") == {"Work|ms": 40, "Work|p": 4}

    def test_a_server_without_memory_takes_all_or_nothing(self, redis, process):
        process.perform(10, None)
        redis.config_set("maxmemory", 1)
        try:
            with pytest.raises(RedisUnavailable, match="OOM"):
                process.flush()
            assert redis.dbsize() == 0
        finally:
            redis.config_set("maxmemory", 0)
        process.perform(10)

        process.flush()

        assert counted(redis) == {"Work|ms": 20, "Work|f": 1, "Work|p": 3}
        assert histogram(redis, "h|Work-2-7:3")[0] == 2

    def test_a_user_who_may_not_write_there_is_told_and_loses_nothing(self, redis, process):
        process.perform(10)
        redis.acl_setuser("default", enabled=True, nopass=True, commands=["-bitfield", "-evalsha"])
        try:
            with pytest.raises(RedisRefused, match="NOPERM"):
                process.flush()
        finally:
            redis.acl_setuser("default", enabled=True, nopass=True, categories=["+@all"])

        process.flush()

        assert counted(redis) == {"Work|ms": 10, "Work|p": 1}

    @pytest.mark.parametrize("lost", [1, 2])
    def test_a_lost_reply_adds_nothing_twice(self, server, redis, lost):
        with InterceptingRedis(server.port) as proxy:
            process = Process(proxy.url)
            process.perform(10)
            process.flush()  # the server knows the script from now on
            process.perform(10, None)
            losses = [Lose()] * lost
            proxy.decide = lambda _command: losses.pop() if losses else None
            if lost > 1:  # the repeat's as well: the next beat does it
                with pytest.raises(RedisUnavailable):
                    process.flush()
                process.perform(70)
            process.flush()

        expected = {"Work|ms": 20, "Work|f": 1, "Work|p": 3}
        if lost > 1:
            expected = {"Work|ms": 90, "Work|f": 1, "Work|p": 4}
        assert counted(redis) == expected
        assert sum(histogram(redis, "h|Work-2-7:3")) == expected["Work|p"] - 1

    def test_what_fails_in_one_of_several_calls_is_not_repeated_in_the_others(self, redis, process):
        for number in range(250):
            process.perform(10, name=f"Work{number}")
        process.connection.lose = {2}
        with pytest.raises(RedisUnavailable):
            process.flush()

        process.flush()

        assert process.connection.scripts == 4
        assert set(counted(redis).values()) == {1, 10}
        assert len(counted(redis)) == 500

    def test_a_key_of_another_type_is_left_as_it_is_and_stops_nothing(self, redis, process, caplog):
        redis.set(MINUTE_7, "mine")
        redis.hset(MINUTE_8, "Work|p", "many")
        redis.rpush("Work-02-07:3", "mine")
        process.perform(10)

        process.flush()
        process.flush()

        assert redis.get(MINUTE_7) == b"mine"
        assert redis.ttl(MINUTE_7) == redis.ttl("Work-02-07:3") == -1
        assert counted(redis, TEN_MINUTES) == {"Work|ms": 10, "Work|p": 1}
        assert histogram(redis, "h|Work-2-7:3")[0] == 1
        [message] = caplog.messages
        assert "3 of 5 keys refused the measurements" in message
        assert "Work-02-07:3: WRONGTYPE" in message
