"""`kiqbridge top` with several shards: a row for each, where each job is, and one that goes away and comes back."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from support.servers import embedded_server
from support.shards import QUEUES, sharded

from kiqbridge import Schedules
from kiqbridge.api import open_operator
from kiqbridge.commands import cli
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.top.app import Top
from kiqbridge.top.model import Frame, View
from kiqbridge.top.shards import rate_between
from kiqbridge.top.table import Table

NOW = time.time()


def job(jid, queue="default", **more):
    fields = {"class": "Work", "args": [], "jid": jid, "queue": queue, "created_at": NOW - 90}
    return json.dumps({**fields, "enqueued_at": NOW - 90, **more})


def fill(raw, name):
    raw.sadd("queues", "default", "mail")
    raw.lpush("queue:default", job(f"q-{name}"))
    error = {"error_class": "OSError", "error_message": "no", "retry_count": 1}
    raw.zadd("retry", {job(f"r-{name}", **error): NOW + 60})
    raw.set("stat:processed", 1000)
    info = {"hostname": name, "pid": 1, "queues": ["default"], "labels": ["kiqbridge"]}
    beat = {"info": json.dumps(info), "busy": 1, "beat": NOW}
    raw.sadd("processes", f"{name}:1:aa")
    raw.hset(f"{name}:1:aa", mapping=beat)
    work = {"queue": "default", "payload": job(f"w-{name}"), "run_at": NOW - 5}
    raw.hset(f"{name}:1:aa:work", "t1", json.dumps(work))


@pytest.fixture
def filled(shards):
    for name, raw in shards.raw.items():
        fill(raw, name)
    shards.raw["mail"].lpush("queue:mail", job("m", "mail"))
    return shards


class Looking:
    """A program in a test, and what it shows."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    async def until(self, condition, what="the screen"):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.text}"
            await self.pilot.pause(0.02)

    async def go(self, key, screen):
        await self.pilot.press(key)
        await self.until(lambda: self.app.frame and self.app.frame.view.screen == screen, screen)

    @property
    def text(self):
        return "\n".join(
            "".join(segment.text for segment in strip)
            for strip in self.app.screen._compositor.render_strips()
        )

    def table(self, name="first"):
        table = self.app.query_one(f"#{name}", Table)
        heads = [column.title for column in table.listing.columns]
        return [dict(zip(heads, row.cells, strict=True)) for row in table.rows_shown]


@asynccontextmanager
async def looking(shards, size=(120, 40), **options):
    client = shards.client()
    app = Top(open_operator(client=client, by="ann@ops", via="top"), interval_s=0.1, **options)
    async with app.run_test(size=size) as pilot:
        yield Looking(app, pilot)
    client.close()


def run(shards, story, **options):
    async def main():
        async with looking(shards, **options) as seen:
            await seen.until(lambda: seen.app.frame is not None, "a frame")
            await seen.pilot.pause()
            await story(seen)

    asyncio.run(main())


def test_the_first_screen_has_a_row_for_each_shard(filled):
    async def story(seen):
        assert "3 shards: mail, fast, rest" in seen.text
        rows = {row["Shard"]: row for row in seen.table()}
        assert list(rows) == list(QUEUES)
        mail = rows["mail"]
        assert [mail[name] for name in ("Procs", "Busy", "Enqueued", "Retries")] == [
            "1",
            "1",
            "2",
            "1",
        ]
        queues = {row["Queue"]: row["Shard"] for row in seen.table("second")}
        assert queues == {"default": "mail, fast, rest", "mail": "mail"}
        assert "Last 7 days" in seen.text
        await seen.pilot.press("enter")
        await seen.until(lambda: "queues with jobs" in seen.text, "the details of a shard")

    run(filled, story)


def test_each_row_of_the_other_screens_names_its_shard(filled):
    client = filled.client()
    work = {"class": "Work", "args": [], "queue": "critical"}
    Schedules(client).save(ScheduleDefinition(name="s", expression="* * * * *", jobs=(work,)))
    client.close()

    async def story(seen):
        await seen.go("4", "retries")
        assert {row["Shard"] for row in seen.table()} == set(QUEUES)
        await seen.go("2", "busy")
        for name in ("first", "second"):
            assert {row["Shard"] for row in seen.table(name)} == set(QUEUES)
        await seen.go("7", "schedules")
        assert [row["Shard"] for row in seen.table()] == ["fast"]
        await seen.go("3", "queues")
        await seen.pilot.press("enter")
        await seen.until(lambda: seen.app.frame.view.queue == "default")
        await seen.until(lambda: {row["Shard"] for row in seen.table()} == set(QUEUES))

    run(filled, story)


def test_equal_texts_on_two_shards_are_two_rows_of_which_one_is_selected(shards):
    for name in ("mail", "rest"):
        shards.raw[name].zadd("retry", {job("same"): NOW + 60})

    async def story(seen):
        await seen.go("4", "retries")
        await seen.pilot.press("space")
        await seen.pilot.press("d")
        await seen.pilot.press("y")
        await seen.until(lambda: len(seen.table()) == 1, "one job")

    run(shards, story, role="operator")
    assert sorted(shards.raw[name].zcard("retry") for name in ("mail", "rest")) == [0, 1]


def test_a_shard_that_is_away_is_named_the_others_are_shown_and_it_comes_back(filled):
    with embedded_server() as server:
        urls = {name: str(each["url"]) for name, each in filled.setting.items()}
        other = sharded({**urls, "fast": server.url})
        fill(other.raw["fast"], "fast")

        async def story(seen):
            assert seen.app.frame.missing == {}
            server.pause()
            try:
                await seen.until(lambda: "Shard fast is away" in seen.text, "the verdict")
                rows = {row["Shard"]: row for row in seen.table()}
                assert rows["fast"]["Procs"] == "away"
                assert rows["rest"]["Procs"] == "1"
                assert "2 of 3 shards" in seen.text
                await seen.go("4", "retries")
                await seen.until(lambda: "shard fast since" in seen.text, "the line of all screens")
                assert {row["Shard"] for row in seen.table()} == {"mail", "rest"}
                await seen.pilot.press("D")
                await seen.pilot.press("y")
                await seen.until(lambda: "not on fast" in seen.text, "what was left out")
            finally:
                server.resume()
            await seen.until(lambda: "3 shards" in seen.text, "the shard being back")
            await seen.until(lambda: {row["Shard"] for row in seen.table()} == {"fast"})
            assert max(seen.app._rates) < 900  # not all that it has ever processed

        run(other, story, role="admin")
        for each in other.raw.values():
            each.close()


def test_top_begins_with_all_shards_though_one_is_away(shards, monkeypatch):
    with embedded_server() as server:
        away = server.url
    setting = {**shards.setting, "mail": {**shards.setting["mail"], "url": away}}
    monkeypatch.setenv("KIQBRIDGE_SHARDS", json.dumps(setting))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    begun = []
    monkeypatch.setattr(Top, "run", lambda app: begun.append(app.operator))

    assert cli.main(["top"]) == 0
    assert cli.main(["top", "--shard", "rest", "--shard", "fast"]) == 0

    assert [each.shards for each in begun] == [("mail", "fast", "rest"), ("rest", "fast")]


@pytest.mark.parametrize(
    ("before", "after", "rate"),
    [
        ({"a": 10, "b": 5}, {"a": 14, "b": 7}, 3.0),
        ({"a": 10}, {"a": 14, "b": 700}, 2.0),
        ({"a": 10, "b": 500}, {"a": 14}, 2.0),
        ({"a": 10}, {"b": 14}, 0.0),
    ],
)
def test_the_rate_is_that_of_the_shards_that_both_looks_have_seen(before, after, rate):
    frames = [
        Frame(
            view=View(),
            at=at,
            stats=SimpleNamespace(
                processed=sum(counts.values()),
                shards={name: SimpleNamespace(processed=each) for name, each in counts.items()},
            ),
            listings=[],
        )
        for at, counts in ((100.0, before), (102.0, after))
    ]

    assert rate_between(*frames) == rate
