"""`kiqbridge top` on a real server: what its screens show, what its keys do, and that Redis may be away."""

import asyncio
import io
import json
import sys
import time
from contextlib import asynccontextmanager

import pytest

from kiqbridge import Schedules
from kiqbridge.api import open_operator, read_audit
from kiqbridge.commands import cli
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.top.app import Top
from kiqbridge.top.model import SCREENS
from kiqbridge.top.table import Table

HOSTILE = "\x1b]0;hacked\x07\x1b[31mred\u202egnp [bold]m[/bold] [@click=app.bell]x[/]"
NOW = time.time()


def job(job_class="Mail", jid="a", queue="default", *args, **more):
    fields = {"class": job_class, "jid": jid.ljust(24, "0"), "queue": queue, "args": list(args)}
    times = {"created_at": NOW - 90, "enqueued_at": NOW - 90}
    return json.dumps({**fields, "retry": True, **times, **more})


def failed(job_class, jid, *args, **more):
    error = {"error_class": "OSError", "error_message": f"no {jid}", "retry_count": 2}
    return job(job_class, jid, "default", *args, **{**error, "failed_at": NOW - 60, **more})


@pytest.fixture
def filled(redis):
    """Three retries, two dead, one scheduled, two waiting; one of each kind of hostile text."""
    for place, jid in enumerate("abc"):
        redis.zadd("retry", {failed("Mail" if place else "Charge", jid, place): NOW + 60 + place})
    redis.zadd("dead", {failed("Mail", "d", HOSTILE, error_message=HOSTILE): NOW - 5})
    redis.zadd("dead", {b"\x1b[31m no job \xff": NOW - 6})
    redis.zadd("schedule", {job("Later", "e"): NOW + 3600})
    redis.lpush("queue:default", job("Wait", "f"), job("Wait", "g"))
    redis.sadd("queues", "default", "bulk")
    return redis


class Looking:
    """A program in a test, and what it shows."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def press(self, *keys):
        for key in keys:
            await self.pilot.press(key)
        await self.pilot.pause()

    async def until(self, condition, what="the screen"):
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.text}"
            await self.pilot.pause(0.02)

    async def go(self, key, screen):
        await self.press(key)
        await self.until(lambda: self.app.frame and self.app.frame.view.screen == screen, screen)

    @property
    def text(self):
        return "\n".join(
            "".join(segment.text for segment in strip)
            for strip in self.app.screen._compositor.render_strips()
        )

    def cells(self, table="first"):
        return [list(row.cells) for row in self.app.query_one(f"#{table}", Table).rows_shown]


@asynccontextmanager
async def looking(url, **options):
    app = Top(open_operator(url, by="ann@ops", via="top"), interval_s=0.1, **options)
    async with app.run_test(size=(140, 40)) as pilot:
        yield Looking(app, pilot)


def run(url, story, **options):
    async def main():
        async with looking(url, **options) as seen:
            await seen.until(lambda: seen.app.frame is not None or seen.app.away_since, "a frame")
            await story(seen)

    asyncio.run(main())


def test_each_screen_shows_its_data(filled, redis_url, client):
    Schedules(client).save(
        ScheduleDefinition(
            name="shop/nightly", expression="cron(0 3 * * ? *)", jobs=[{"class": "N", "args": []}]
        )
    )

    async def story(seen):
        assert "Retries 3" in seen.text
        assert "Dead 2" in seen.text
        assert {row[0] for row in seen.cells()} == {"default", "bulk"}
        await seen.go("4", "retries")
        assert [row[3] for row in seen.cells()] == ["Charge", "Mail", "Mail"]
        assert seen.cells()[0][5] == "OSError: no a"
        await seen.go("5", "dead")
        assert "2" in seen.text
        await seen.go("6", "scheduled")
        assert [row[2] for row in seen.cells()] == ["Later"]
        await seen.go("7", "schedules")
        assert seen.cells()[0][:2] == ["shop/nightly", "cron(0 3 * * ? *) UTC"]
        await seen.go("3", "queues")
        assert seen.cells()[0][:2] == ["default", "2"]
        await seen.press("enter")
        await seen.until(lambda: len(seen.cells()) == 2 and seen.cells()[0][1] == "Wait")
        await seen.press("escape")
        await seen.until(lambda: not seen.app.frame.view.queue)

    run(redis_url, story)


def test_arrows_turn_the_screens_around(filled, redis_url):
    async def story(seen):
        await seen.go("left", "schedules")
        for name in SCREENS:
            await seen.go("right", name)

    run(redis_url, story)


def test_running_jobs_and_processes_are_on_one_screen(redis, redis_url):
    info = {"hostname": "h", "pid": 7, "concurrency": 5, "queues": ["mail"], "started_at": NOW - 60}
    redis.sadd("processes", "h:7:abc", "h:8:gone")
    redis.hset("h:7:abc", mapping={"info": json.dumps(info), "busy": 1, "beat": NOW, "rss": 34816})
    work = {"queue": "mail", "run_at": NOW - 700, "payload": job("Long", "w", "mail", 1)}
    redis.hset("h:7:abc:work", "t1", json.dumps(work))

    async def story(seen):
        await seen.go("2", "busy")
        assert [row[0] for row in seen.cells()] == ["h:7:abc"]
        assert seen.cells("second")[0][2] == "Long"
        await seen.press("u")
        await seen.until(lambda: "needs --role admin" in seen.text)
        await seen.press("tab")
        await seen.until(lambda: seen.app.focused.id == "second", "the other table")
        await seen.press("enter")
        await seen.until(lambda: "running since" in seen.text)

    run(redis_url, story, role="operator")


def test_details_show_arguments_error_and_backtrace_as_text(filled, redis_url):
    async def story(seen):
        await seen.go("5", "dead")
        await seen.press("enter")
        await seen.until(lambda: "arguments" in seen.text)
        assert "\\x1b]0;hacked" in seen.text.replace("u001b", "x1b")
        assert "[bold]m[/bold]" in seen.text
        assert "\x1b" not in seen.text
        assert "\u202e" not in seen.text
        await seen.press("escape", "down", "enter")
        await seen.until(lambda: "cannot be read as a job" in seen.text)

    run(redis_url, story)


def test_hostile_texts_reach_no_screen_unescaped(redis, redis_url, client):
    redis.zadd("retry", {job(HOSTILE, "h", HOSTILE, HOSTILE, error_class=HOSTILE): NOW + 60})
    redis.zadd("dead", {job(HOSTILE, "h", HOSTILE, HOSTILE, error_class=HOSTILE): NOW})
    redis.zadd("schedule", {job(HOSTILE, "h", HOSTILE, HOSTILE): NOW + 60})
    redis.sadd("queues", HOSTILE, b"\xff\x1b[2J")
    redis.lpush(f"queue:{HOSTILE}", job(HOSTILE))
    redis.hset("kb:paused", f"queue:{HOSTILE}", json.dumps({"reason": HOSTILE, "by": HOSTILE}))
    redis.sadd("processes", HOSTILE)
    redis.hset(HOSTILE, mapping={"info": json.dumps({"version": HOSTILE, "queues": [HOSTILE]})})
    work = {"queue": HOSTILE, "run_at": NOW, "payload": job(HOSTILE)}
    redis.hset(f"{HOSTILE}:work", HOSTILE, json.dumps(work))
    document = {"expression": "rate(1 day)", "timezone": "UTC", "jobs": [{"class": HOSTILE}]}
    redis.hset("kb:schedules", HOSTILE, json.dumps({**document, "origin": "dynamic"}))
    redis.hset(
        "kb:schedules:state", HOSTILE, json.dumps({"paused": {"reason": HOSTILE, "by": HOSTILE}})
    )

    async def story(seen):
        for number, screen in enumerate(SCREENS, start=1):
            await seen.go(str(number), screen)
            assert any("\\x1b" in cell for row in seen.cells() for cell in row), screen
            for keys in (
                (),
                ("enter",),
                ("escape", "tab", "enter"),
                ("escape", "shift+tab", "p"),
                ("y",),
            ):
                await seen.press(*keys)
                assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(seen.text), screen
            await seen.press("escape")

    run(redis_url, story, role="admin")


def test_a_viewer_changes_nothing(filled, redis_url):
    before = {key: filled.dump(key) for key in filled.scan_iter()}

    async def story(seen):
        for key, screen in (("4", "retries"), ("5", "dead"), ("6", "scheduled"), ("3", "queues")):
            await seen.go(key, screen)
            for action in {"3": "p", "6": "rxdRD", "5": "rdRD", "4": "rxdRXD"}[key]:
                await seen.press(action)
                assert len(seen.app.screen_stack) == 1, f"{action} asks on {screen}"
            await seen.until(lambda: "needs --role" in seen.text)

    run(redis_url, story)

    assert {key: filled.dump(key) for key in filled.scan_iter()} == before


def test_an_action_is_asked_about_done_and_audited(filled, redis_url):
    async def story(seen):
        await seen.go("4", "retries")
        await seen.press("d")
        await seen.until(
            lambda: "Delete retry Charge a00000000000000000000000 for good?" in seen.text
        )
        await seen.press("n")
        assert filled.zcard("retry") == 3
        await seen.press("d", "y")
        await seen.until(lambda: "1 job deleted" in seen.text)
        await seen.until(lambda: len(seen.cells()) == 2)

    run(redis_url, story, role="operator")

    assert filled.zcard("retry") == 2
    [entry] = read_audit(open_operator(redis_url))
    assert (entry.by, entry.via, entry.action, entry.count) == ("ann@ops", "top", "delete", 1)


def test_a_selection_is_retried(filled, redis_url):
    async def story(seen):
        await seen.go("4", "retries")
        await seen.press("space", "space")
        assert "2 selected" in seen.text
        await seen.press("r")
        await seen.until(lambda: "Retry 2 retries now?" in seen.text)
        await seen.press("y")
        await seen.until(lambda: "2 jobs put into their queues" in seen.text)

    run(redis_url, story, role="operator")

    assert filled.zcard("retry") == 1
    assert filled.llen("queue:default") == 4


def test_all_that_match_a_filter_are_killed(filled, redis_url):
    async def story(seen):
        await seen.go("4", "retries")
        await seen.press("slash", *"class", "equals_sign", *"Mail", "enter")
        await seen.until(lambda: len(seen.cells()) == 2)
        await seen.press("X")
        await seen.until(lambda: "Kill all retries that match class=Mail?" in seen.text)
        await seen.press("y")
        await seen.until(lambda: "2 jobs killed" in seen.text)
        await seen.press("escape")
        await seen.until(lambda: len(seen.cells()) == 1)

    run(redis_url, story, role="admin")

    assert filled.zcard("dead") == 4


def test_jobs_of_a_queue_are_deleted_and_the_queue_is_paused(filled, redis_url):
    async def story(seen):
        await seen.go("3", "queues")
        await seen.press("p", "y")
        await seen.until(lambda: "paused default" in seen.text)
        await seen.until(lambda: seen.cells()[0][3].startswith("paused by ann@ops"))
        await seen.press("p", "y")
        await seen.until(lambda: "resumed default" in seen.text)
        await seen.press("enter")
        await seen.until(lambda: seen.app.frame.view.queue == "default")
        await seen.press("d", "y")
        await seen.until(lambda: "1 job deleted" in seen.text)
        await seen.press("D", "y")
        await seen.until(lambda: filled.llen("queue:default") == 0)

    run(redis_url, story, role="admin")

    assert filled.smembers("paused") == set()


def test_a_schedule_is_paused_skipped_and_run(redis, redis_url, client):
    Schedules(client).save(
        ScheduleDefinition(name="n", expression="rate(1 day)", jobs=[{"class": "N", "args": []}])
    )

    async def story(seen):
        await seen.go("7", "schedules")
        await seen.press("s", "y")
        await seen.until(lambda: seen.cells()[0][5] == "1 skipped")
        await seen.press("p", "y")
        await seen.until(lambda: seen.cells()[0][5] == "paused by ann@ops")
        await seen.press("r", "y")
        await seen.until(lambda: "ran n: enqueued" in seen.text)

    run(redis_url, story, role="operator")

    assert redis.llen("queue:default") + redis.zcard("schedule") == 1
    made = [entry.action for entry in read_audit(open_operator(redis_url))]
    assert made == ["run", "pause", "skip"]


def test_processes_are_made_quiet_and_stopped(redis, redis_url):
    redis.sadd("processes", "h:7:abc")
    redis.hset("h:7:abc", mapping={"info": "{}", "busy": 0, "beat": NOW})

    async def story(seen):
        await seen.go("2", "busy")
        await seen.press("u", "y")
        await seen.until(lambda: "take no new jobs" in seen.text)
        await seen.press("t", "y")
        await seen.until(lambda: redis.llen("h:7:abc-signals") == 2)

    run(redis_url, story, role="admin")

    assert redis.lrange("h:7:abc-signals", 0, -1) == [b"TERM", b"TSTP"]


def test_a_wrong_filter_is_explained(filled, redis_url):
    async def story(seen):
        await seen.go("5", "dead")
        await seen.press("slash", *"age", "equals_sign", "1", "enter")
        await seen.until(lambda: "there is no such filter" in seen.text)
        assert not seen.app.view.typed

    run(redis_url, story)


def test_pages_of_a_large_set_are_turned(redis, redis_url):
    redis.zadd("dead", {job("Mail", f"{n:03}"): n for n in range(250)})

    async def story(seen):
        await seen.go("5", "dead")
        assert "page 1 of 3" in seen.text
        await seen.press("right_square_bracket", "right_square_bracket")
        await seen.until(lambda: len(seen.cells()) == 50)
        await seen.press("right_square_bracket", "left_square_bracket")
        await seen.until(lambda: "page 2 of 3" in seen.text)

    run(redis_url, story)


def test_the_cursor_stays_on_its_row_when_others_come(filled, redis_url):
    async def story(seen):
        await seen.go("4", "retries")
        await seen.press("j")
        filled.zadd("retry", {failed("Earlier", "z"): NOW + 1})
        await seen.until(lambda: len(seen.cells()) == 4)
        assert seen.app.query_one("#first", Table).row_at_cursor.item.jid.startswith("b")

    run(redis_url, story)


def test_help_names_the_keys_of_the_screen(filled, redis_url):
    async def story(seen):
        await seen.go("4", "retries")
        await seen.press("question_mark")
        await seen.until(lambda: "on this screen" in seen.text and "read-only" in seen.text)

    run(redis_url, story)


def test_redis_may_be_away_and_keys_still_answer(server, filled, redis_url):
    async def story(seen):
        await seen.go("4", "retries")
        server.pause()
        try:
            await seen.until(lambda: seen.app.away_since is not None, "Redis being away")
            assert "not refreshed since" in seen.text
            started = time.monotonic()
            await seen.press("question_mark", "escape", "5")
            assert time.monotonic() - started < 2
        finally:
            server.resume()
        await seen.until(lambda: seen.app.away_since is None, "Redis being back")
        await seen.until(lambda: seen.app.frame.view.screen == "dead")
        assert "not refreshed" not in seen.text

    run(redis_url, story)


def test_without_a_terminal_it_says_what_to_use(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    assert cli.main(["top"]) == 1
    assert "kiqbridge stats" in capsys.readouterr().err


def test_without_textual_it_names_the_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "textual", None)

    assert cli.main(["top"]) == 1
    assert "pip install 'kiqbridge[top]'" in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["0", "soon", "nan", "1e9"])
def test_an_interval_is_checked(capsys, interval):
    with pytest.raises(SystemExit) as ended:
        cli.main(["top", "--interval", interval])

    assert ended.value.code == 2
    assert "0.1 to 3600" in capsys.readouterr().err
