"""`kiqbridge.api` acts on queues and their jobs, while workers take and clients push."""

import json

import pytest
from support.runners import ends_in

from kiqbridge.api import DeadSet, Filter, Queue, read_audit
from kiqbridge.errors import PayloadError
from kiqbridge.store.operating import BATCH, NEAR


def text(jid, name="Mail", **more):
    item = {"class": name, "args": [jid], "jid": jid, "queue": "default", **more}
    return json.dumps(item).encode()


@pytest.fixture
def queue(operator):
    return Queue("default", operator)


def push(redis, count, queue="default", **more):
    texts = [text(f"j{number}", **more) for number in range(count)]
    redis.sadd("queues", queue)
    for first in range(0, count, 1000):
        redis.lpush(f"queue:{queue}", *texts[first : first + 1000])
    return texts


def jids(redis, queue="default"):
    """In the order in which they will be taken."""
    return [json.loads(each)["jid"] for each in reversed(redis.lrange(f"queue:{queue}", 0, -1))]


def audited(operator):
    return [(each.action, each.target, each.detail, each.count) for each in read_audit(operator)]


class TestOne:
    @pytest.mark.parametrize("place", [0, 3, 9])
    def test_a_job_is_deleted_wherever_it_is(self, redis, operator, queue, place):
        push(redis, 10)
        job = queue.find_job(f"j{place}")

        assert job.delete()
        assert not job.delete()

        assert jids(redis) == [f"j{number}" for number in range(10) if number != place]
        assert audited(operator) == [("delete", "queue:default", f"Mail j{place}", 1)]

    def test_a_moved_job_names_its_new_queue(self, redis, operator, queue):
        push(redis, 2)

        assert queue.find_job("j0").move("low")

        assert jids(redis) == ["j1"]
        assert json.loads(redis.lindex("queue:low", 0))["queue"] == "low"
        assert redis.smembers("queues") == {b"default", b"low"}

    def test_a_killed_job_is_dead_as_it_was(self, redis, operator, queue):
        [job] = push(redis, 1)

        assert queue.find_job("j0").kill()

        assert [entry.text for entry in DeadSet(operator)] == [job]
        assert not redis.exists("queue:default")

    def test_of_two_jobs_with_the_same_bytes_one_is_deleted(self, redis, queue):
        redis.lpush("queue:default", text("a"), text("a"))

        assert queue.find_job("a").delete()

        assert jids(redis) == ["a"]

    def test_what_cannot_be_read_can_be_moved_deleted_and_killed(self, redis, operator, queue):
        redis.lpush("queue:default", b"no json", b"[1]", b"\xff")
        moved, killed, deleted = queue

        assert (moved.move("low"), killed.kill(), deleted.delete()) == (True, True, True)

        assert redis.lrange("queue:low", 0, -1) == [b"\xff"]
        assert json.loads(redis.zrange("dead", 0, -1)[0])["args"] == ["[1]"]
        assert not redis.exists("queue:default")

    @pytest.mark.parametrize(
        ("action", "to"), [("explode", None), ("move", None), ("move", "default"), ("delete", "x")]
    )
    def test_a_wrong_call_is_refused(self, redis, queue, action, to):
        push(redis, 1)

        with pytest.raises(PayloadError):
            queue.apply_all(action, to=to)

        assert queue.size == 1


class TestMany:
    @pytest.mark.parametrize("count", [0, 1, BATCH, 2 * BATCH + 7])
    def test_all_are_moved_in_their_order_behind_what_waits(self, redis, operator, queue, count):
        push(redis, count)
        redis.lpush("queue:low", text("first"))

        assert queue.apply_all("move", to="low") == count

        assert jids(redis, "low") == ["first", *(f"j{number}" for number in range(count))]
        assert queue.size == 0

    @pytest.mark.parametrize("action", ["delete", "kill"])
    def test_what_does_not_match_stays_in_its_order(self, redis, operator, queue, action):
        texts = [text(f"j{n}", "Mail" if n % 3 else "Bill") for n in range(3 * BATCH)]
        redis.lpush("queue:default", *texts)

        assert queue.apply_all(action, Filter(job_class="Bill")) == BATCH

        assert jids(redis) == [f"j{n}" for n in range(3 * BATCH) if n % 3]
        assert redis.zcard("dead") == (BATCH if action == "kill" else 0)
        assert audited(operator) == [(action, "queue:default", "class:Bill", BATCH)]

    def test_while_workers_take_and_clients_push_nothing_is_lost_or_passed_over(
        self, redis, operator, queue
    ):
        texts = [text(f"j{n}", "Mail" if n % 2 else "Bill") for n in range(4 * BATCH)]
        redis.lpush("queue:default", *texts)
        taken = []

        def others(done, looked_at):
            taken.extend(redis.rpop("queue:default", 7) or [])
            redis.lpush("queue:default", text(f"new{looked_at}", "Bill"))

        deleted = queue.apply_all("delete", Filter(job_class="Bill"), progress=others)

        left = [json.loads(each)["class"] for each in redis.lrange("queue:default", 0, -1)]
        mails = [each for each in taken if json.loads(each)["class"] == "Mail"]
        assert len(mails) + left.count("Mail") == 2 * BATCH
        assert deleted >= 2 * BATCH - len(taken)
        assert left.count("Bill") < 5

    def test_a_limit_takes_the_next_ones(self, redis, operator, queue):
        push(redis, 30)

        assert queue.apply_all("delete", limit=10) == 10

        assert jids(redis)[0] == "j10"

    def test_a_selection_of_a_page(self, redis, operator, queue):
        push(redis, 100)
        page = queue.page(2, 10, oldest_first=True)

        assert queue.apply("delete", page.rows) == 10

        assert jids(redis) == [f"j{number}" for number in range(100) if number // 10 != 1]

    def test_ends_of_what_is_deleted_are_written(self, redis, queue):
        redis.zadd("kb:ticks:s", {"entry": 1700000000})
        push(redis, 1, tick={"schedule": "s", "at": 1700000000}, flow={"bid": "f"})

        assert queue.apply_all("delete") == 1

        assert json.loads(redis.zrange("kb:ends:s", 0, -1)[0])["outcome"] == "discarded"
        assert len(ends_in(redis)) == 1


@pytest.mark.slow
class TestLong:
    """Farther than `NEAR` from both ends the newest job takes the place of one that is removed."""

    SIZE = 2 * NEAR + 2_000

    def test_the_newest_job_takes_its_place_and_none_waits_longer(self, redis, queue):
        push(redis, self.SIZE)
        job = queue.page(NEAR + 501, 1, oldest_first=True).rows[0]

        assert job.delete()
        assert not job.delete()

        left = jids(redis)
        assert left[NEAR + 500] == f"j{self.SIZE - 1}"
        expected = [f"j{n}" for n in range(self.SIZE - 1) if n != NEAR + 500]
        assert [jid for jid in left if jid != f"j{self.SIZE - 1}"] == expected

    @pytest.mark.parametrize("taken", [0, 1, 900, 1_100, NEAR])
    def test_it_is_found_however_many_were_taken_meanwhile(self, redis, queue, taken):
        push(redis, self.SIZE)
        jobs = [
            queue.page(place + 1, 1, oldest_first=True).rows[0]
            for place in (NEAR + 900, NEAR + 901, NEAR + 1_000)
        ]
        if taken:
            redis.rpop("queue:default", taken)

        assert queue.apply("delete", jobs) == 3

        assert queue.size == self.SIZE - taken - 3
        assert not {job.jid for job in jobs} & set(jids(redis))

    def test_a_job_that_was_taken_is_not_taken_for_another(self, redis, queue):
        push(redis, self.SIZE)
        job = queue.page(NEAR + 501, 1, oldest_first=True).rows[0]
        redis.lrem("queue:default", 1, job.text)

        assert not job.delete()

        assert queue.size == self.SIZE - 1

    @pytest.mark.parametrize("every", [2, 7, 1_000])
    def test_what_matches_goes_while_workers_take_and_clients_push(self, redis, queue, every):
        texts = [text(f"j{n}", "Bill" if n % every == 0 else "Mail") for n in range(self.SIZE)]
        for first in range(0, self.SIZE, 1000):
            redis.lpush("queue:default", *texts[first : first + 1000])
        taken, pushed = [], []

        def others(done, looked_at):
            taken.extend(redis.rpop("queue:default", 3) or [])
            pushed.append(text(f"new{len(pushed)}"))
            redis.lpush("queue:default", pushed[-1])

        deleted = queue.apply_all("delete", Filter(job_class="Bill"), progress=others)

        left = redis.lrange("queue:default", 0, -1)
        bills = {each for each in texts if b"Bill" in each}
        assert deleted == len(bills) - len(bills.intersection(taken))
        assert sorted([*left, *taken]) == sorted(
            [*pushed, *set(texts).difference(bills), *bills.intersection(taken)]
        )


class TestWhole:
    def test_a_pause_is_audited(self, redis, operator, queue):
        assert queue.pause_it("too hot", for_s=60).by == "ann"
        assert queue.paused
        assert queue.resume()
        assert not queue.resume()

        assert audited(operator) == [
            ("resume", "queue:default", "", 1),
            ("pause", "queue:default", "too hot for 60 s", 1),
        ]
