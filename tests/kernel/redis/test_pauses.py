"""Pausing queues and classes: what is written, who respects it, and how a pause ends."""

import json
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from support.engine import EngineProcess
from support.jobs import own_declarations
from support.waiting import wait_until

from kiqbridge import PayloadError, RedisRefused, job
from kiqbridge.engine.pause_watch import PauseWatch
from kiqbridge.engine.perform.listening import Listening
from kiqbridge.store.pauses import TOO_EARLY, Entry, Pause, end_pause, read_entries
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()


@pytest.fixture
def watch(pool):
    """A watch that runs."""
    watch = make_watch(pool)
    watch.start()
    yield watch
    watch.stop()


def make_watch(pool, **options):
    return PauseWatch(
        keys=KEYS,
        connection=pool.connection(),
        track=pool.raw_connection,
        **options,
    )


def entries(redis) -> list[Entry]:
    return list(read_entries(redis.hgetall("kb:paused")))


def calls(redis) -> int:
    """Commands that any client has sent so far."""
    stats = redis.info("commandstats")
    return sum(
        each["calls"]
        for name, each in stats.items()
        if name.removeprefix("cmdstat_") in {"hgetall", "smembers", "time", "evalsha", "eval"}
    )


class TestQueues:
    def test_a_pause_tells_who_why_since_when_and_until_when(self, client, redis):
        before = time.time()

        pause = client.pause_queue("mail", reason="provider is down", by="ada", for_s=60)

        assert redis.smembers("paused") == {b"mail"}
        assert list(redis.hgetall("kb:paused")) == [b"queue:mail"]
        entry = json.loads(redis.hget("kb:paused", "queue:mail"))
        assert (entry["reason"], entry["by"]) == ("provider is down", "ada")
        assert before - 0.001 <= entry["at"] <= time.time() + 0.001
        assert entry["until"] == entry["at"] + 60
        assert client.pauses() == [pause]

    def test_its_end_may_be_a_moment(self, client):
        end = datetime.now(UTC) + timedelta(hours=1)

        assert client.pause_queue("mail", until=end).until == end.timestamp()
        assert client.pause_queue("mail", until=end.timestamp()).until == end.timestamp()

    def test_pausing_again_replaces_reason_and_end(self, client):
        client.pause_queue("mail", reason="one", for_s=60)
        client.pause_queue("mail", reason="two")

        [pause] = client.pauses()
        assert (pause.reason, pause.until) == ("two", None)

    def test_a_paused_queue_is_not_claimed_from_until_it_is_resumed(self, client, redis, redis_url):
        redis.lpush("queue:mail", "job")
        client.pause_queue("mail")
        with EngineProcess(redis_url) as process:
            claimer = process.claimer()

            assert claimer.claim(["mail"], 1) is None
            assert client.resume_queue("mail") is True
            assert list(claimer.claim(["mail"], 1).waiting) == [b"job"]

        assert not redis.exists("kb:paused", "paused")

    def test_a_queue_that_ruby_paused_is_listed_and_resumed(self, client, redis):
        redis.sadd("paused", "mail")

        assert client.pauses() == [Pause(kind="queue", name="mail")]
        assert client.resume_queue("mail") is True
        assert not redis.exists("paused")

        assert client.resume_queue("mail") is False

    def test_a_queue_that_ruby_resumed_is_not_paused_any_more(self, client, redis):
        client.pause_queue("mail", reason="ours")
        redis.srem("paused", "mail")

        assert client.pauses() == []


class TestClasses:
    def test_a_class_is_paused_by_its_name_on_the_wire(self, client, redis):
        with own_declarations():

            @job(name="Shop::Mail")
            def mail():
                pass

            client.pause_class(mail, reason="a bug")
            client.pause_class("Crawler")

            assert set(redis.hkeys("kb:paused")) == {b"class:Shop::Mail", b"class:Crawler"}
            assert not redis.exists("paused")
            assert client.resume_class(mail) is True
        assert [each.name for each in client.pauses()] == ["Crawler"]

    def test_a_pause_that_is_over_is_not_listed_though_nobody_ended_it(self, client, redis):
        client.pause_class("Mail", for_s=0.01)

        wait_until(lambda: client.pauses() == [])
        assert redis.exists("kb:paused")


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"name": ""}, "queue: '' is not the name of a queue"),
            ({"name": 7}, "queue: 7 is not the name of a queue"),
            ({"name": "a", "reason": "\ud800"}, "reason: .* lone surrogate"),
            ({"name": "a", "reason": b"x"}, "reason: b'x' of type bytes"),
            ({"name": "a", "for_s": 0}, "for_s: 0 is not a number of seconds above 0"),
            ({"name": "a", "for_s": "1h"}, "for_s: '1h' is not a number of seconds"),
            ({"name": "a", "until": 1}, "until: 1 is over"),
            ({"name": "a", "until": datetime(2030, 1, 1)}, "until: .* has no time zone"),  # noqa: DTZ001
            ({"name": "a", "until": 2e9, "for_s": 1}, "give one of them"),
        ],
    )
    def test_it_is_refused_and_nothing_is_written(self, client, redis, arguments, message):
        with pytest.raises(PayloadError, match=message):
            client.pause_queue(**arguments)

        assert redis.dbsize() == 0

    def test_no_class_is_not_a_class(self, client):
        with pytest.raises(PayloadError, match="class: None is not the name of a class"):
            client.pause_class(None)

    @pytest.mark.parametrize("key", ["kb:paused", "paused"])
    def test_a_key_of_a_foreign_type_is_refused_as_a_whole(self, client, redis, key):
        redis.set(key, "mine")

        with pytest.raises(RedisRefused, match=f"WRONGTYPE {key} is a string"):
            client.pause_queue("mail")
        assert redis.keys() == [key.encode()]

    def test_an_entry_that_is_not_ours_pauses_without_an_end(self, client, redis):
        for number, text in enumerate(["", "[]", "{}", '{"until":"x","by":7}', '{"until":1e400}']):
            redis.hset("kb:paused", f"class:C{number}", text)
        redis.hset("kb:paused", "nonsense", "{}")

        assert client.pauses() == [Pause(kind="class", name=f"C{n}") for n in range(5)]


class TestTheScripts:
    def test_memory_that_is_full_stops_neither_a_pause_nor_its_end(self, client, redis):
        redis.config_set("maxmemory", 1)
        try:
            client.pause_queue("mail")
            assert client.resume_queue("mail") is True
            client.pause_queue("mail", for_s=0.001)
            [entry] = entries(redis)
            wait_until(lambda: end_pause(connection_of(client), KEYS, entry) == 1)
        finally:
            redis.config_set("maxmemory", 0)
        assert redis.dbsize() == 0

    def test_a_pause_does_not_end_before_its_time_nor_without_one(self, client, redis, pool):
        client.pause_queue("mail", for_s=60)
        client.pause_class("Mail")

        ends = [end_pause(pool.connection(), KEYS, entry) for entry in entries(redis)]

        assert ends == [TOO_EARLY, TOO_EARLY]
        assert redis.smembers("paused") == {b"mail"}
        assert redis.hlen("kb:paused") == 2

    def test_a_pause_that_was_changed_since_it_was_read_does_not_end(self, client, redis, pool):
        client.pause_queue("mail", for_s=0.001)
        [entry] = entries(redis)
        client.pause_queue("mail", reason="longer", for_s=60)

        assert end_pause(pool.connection(), KEYS, entry) == 0
        assert redis.smembers("paused") == {b"mail"}

    def test_ending_it_again_after_a_lost_reply_does_nothing(self, client, redis, pool):
        client.pause_queue("mail", for_s=0.001)
        [entry] = entries(redis)
        connection = pool.connection()
        wait_until(lambda: end_pause(connection, KEYS, entry) == 1)
        redis.sadd("paused", "mail")  # by Ruby, meanwhile

        assert end_pause(connection, KEYS, entry) == 0
        assert redis.smembers("paused") == {b"mail"}


class TestTheWatch:
    def test_a_class_that_was_paused_before_the_start_is_known_at_once(self, client, pool):
        client.pause_class("Mail")
        watch = make_watch(pool)

        watch.start()
        known = watch.classes
        watch.stop()

        assert known == {"Mail"}

    def test_pauses_and_ends_are_known_within_a_second(self, client, watch, tell):
        delays = []

        def measure(act, expected):
            began = time.monotonic()
            act("Mail")
            wait_until(lambda: watch.classes == expected, 30, interval_s=0.0005)
            delays.append(time.monotonic() - began)

        for _ in range(20):
            measure(client.pause_class, {"Mail"})
            measure(client.resume_class, set())

        tell(f"class pauses: known in all processes {max(delays) * 1000:.0f} ms after the call")
        assert sorted(delays)[len(delays) // 2] < 1

    def test_a_queue_s_pause_ends_in_time(self, client, watch, redis, caplog):
        with caplog.at_level("INFO"):
            client.pause_queue("mail", for_s=0.3)
            client.pause_class("Mail", for_s=0.3)
            wait_until(lambda: watch.classes == {"Mail"}, 1)
            assert redis.smembers("paused") == {b"mail"}

            wait_until(lambda: not redis.exists("paused", "kb:paused"))
            wait_until(lambda: watch.classes == frozenset() and len(caplog.messages) == 2)
        assert sorted(caplog.messages) == [
            "the pause of class Mail is over",
            "the pause of queue mail is over",
        ]

    def test_the_end_of_several_processes_is_one(self, client, pool, redis, caplog):
        watches = [make_watch(pool) for _ in range(5)]
        for each in watches:
            each.start()
        with caplog.at_level("INFO"):
            client.pause_queue("mail", for_s=0.2)
            wait_until(lambda: not redis.exists("paused"), 2)
            for each in watches:
                each.stop()

        assert caplog.messages == ["the pause of queue mail is over"]

    def test_what_ruby_resumed_is_forgotten_so_that_it_cannot_end_ruby_s_next_pause(
        self, client, watch, redis
    ):
        client.pause_queue("mail", for_s=0.5)
        wait_until(watch._names_queues, 1)
        redis.srem("paused", "mail")
        wait_until(lambda: not redis.exists("kb:paused"), 1)

        redis.sadd("paused", "mail")
        client.pause_class("Mail", for_s=0.6)
        wait_until(lambda: not redis.exists("kb:paused"), 2)
        assert redis.smembers("paused") == {b"mail"}

    def test_a_clock_of_redis_that_is_behind_ends_nothing_early(self, client, pool, redis):
        client.pause_class("Mail", for_s=60)
        watch = make_watch(pool)
        watch.look()
        watch._server_ahead_s += 3600  # as if that clock had been set back since

        watch.look()
        assert redis.exists("kb:paused")
        watch.look()
        assert watch.classes == {"Mail"}

    def test_while_nothing_changes_it_asks_once_in_five_seconds(self, pool, redis, tell):
        looks = 4
        watch = make_watch(pool, safety_look_s=0.5)
        watch.start()
        wait_until(lambda: not watch._tracking._connection.can_read(timeout=0), 1)
        redis.config_resetstat()
        began = time.monotonic()

        wait_until(lambda: calls(redis) >= looks, 10, interval_s=0.05)

        elapsed = time.monotonic() - began
        watch.stop()
        # The default is ten times as long.
        tell(f"pauses: {looks / elapsed / 10:.2f} commands a second of an idle process")
        assert looks / elapsed / 10 <= 0.3

    def test_while_the_beat_finds_as_many_pauses_it_asks_for_nothing(self, client, pool, redis):
        watch = make_watch(pool, safety_look_s=0.02)
        looks = []
        look, watch.look = watch.look, lambda: looks.append("look") or look()
        watch.note(pauses=0)
        watch.start()
        wait_until(lambda: len(looks) == 2, what="the look of the thread")
        assert not threading.Event().wait(0.2)  # ten times as long as until a look
        assert len(looks) == 2

        watch.note(pauses=1)
        wait_until(lambda: len(looks) >= 4, what="looks of its own: the news may have been lost")
        watch.note(pauses=0)
        client.pause_class("Mail")
        wait_until(lambda: watch.classes == {"Mail"}, what="the pause, whatever the beat finds")
        watch.stop()

    def test_while_redis_is_away_a_paused_class_stays_so(self, client, watch, server, redis):
        client.pause_class("Mail")
        wait_until(lambda: watch.classes == {"Mail"}, 1)
        for each in redis.client_list():
            if each["resp"] == "3":
                redis.client_kill_filter(_id=each["id"])

        assert watch.classes == {"Mail"}
        client.resume_class("Mail")
        wait_until(lambda: watch.classes == frozenset(), 5)

    def test_without_tracking_it_looks_twice_a_second(self, client, pool, redis):
        redis.execute_command(
            "ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all", "-client|tracking"
        )
        try:
            watch = PauseWatch(
                keys=KEYS,
                connection=pool.connection(),
                track=lambda: RedisPool(url_as("plain:secret", pool)).raw_connection(),
            )
            watch.start()
            client.pause_class("Mail")
            wait_until(lambda: watch.classes == {"Mail"}, 1)
            watch.stop()
        finally:
            redis.execute_command("ACL", "DELUSER", "plain")

    def test_it_ends_when_it_is_told_to(self, watch):
        watch.stop()

        wait_until(lambda: "kiqbridge-pauses" not in [each.name for each in threading.enumerate()])


class TestTheReader:
    """Who waits for jobs sees that a queue was resumed, whenever that happens."""

    @pytest.fixture
    def listening(self, pool):
        listening = Listening(["mail", "low"], KEYS, pool.raw_connection)
        yield listening
        listening.close()

    def test_also_in_the_midst_of_a_look(self, listening, redis, client):
        redis.lpush("queue:mail", "job")
        client.pause_queue("mail")
        read = listening._connection.ask_tracked

        def resume_after_the_first(*commands):
            replies = read(*commands)
            client.resume_queue("mail")
            return replies

        listening._connection.ask_tracked = resume_after_the_first

        assert listening._look()

    @pytest.mark.parametrize(
        ("queues", "found"),
        [
            (([], []), False),
            ((["mail"], []), True),
            (([], ["mail"]), False),
            ((["mail"], ["mail"]), False),
            ((["mail", "low"], ["mail"]), True),
            ((["low"], ["mail"]), True),
            ((["mail", "low"], ["mail", "low"]), False),
            ((["mail"], ["foreign"]), True),
        ],
    )
    def test_only_queues_that_are_not_paused_count(self, listening, redis, client, queues, found):
        filled, paused = queues
        for name in filled:
            redis.lpush(f"queue:{name}", "job")
        for name in paused:
            client.pause_queue(name)

        assert listening._look() is found


def connection_of(client):
    return client.pool.connection()


def url_as(credentials, pool):
    return pool.address.replace("redis://", f"redis://{credentials}@")
