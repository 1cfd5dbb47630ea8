"""Ruby's API and Web UI on a supervised fleet that uses what Ruby has no counterpart for.

Two processes under one supervisor, two capsules in each, jobs on event loops and in child processes,
an iterable job that makes room, pauses, a job that killed its process, routed ones, current attributes.
"""

import json
import time
from pathlib import Path

import pytest
from support.ruby import run_ruby
from support.waiting import wait_until
from support.web_ui import WebUI
from support.workers import WorkerProcess

from kiqbridge import Client

pytestmark = [pytest.mark.interop, pytest.mark.web_ui]

DIRECTION = "Python runs all its pools, Ruby's API and Web UI look and act"

JOBS = """
import asyncio
import os
import signal
import time
from pathlib import Path

from kiqbridge import IterableJob, enumerators, job
from support.evidence import testify

RELEASE = Path(os.environ["EVIDENCE"], "release")
WALK_ON = Path(os.environ["EVIDENCE"], "walk-on")


def hold(jid):
    testify(jid, os.getpid())
    while not RELEASE.exists():
        time.sleep(0.01)


@job(name="Fleet::OnThread", queue="plain")
def on_thread(jid):
    hold(jid)


@job(name="Fleet::OnLoop", queue="plain")
async def on_loop(jid):
    testify(jid, os.getpid())
    while not RELEASE.exists():
        await asyncio.sleep(0.01)


@job(name="Fleet::InChild", queue="heavy", pool="process")
def in_child(jid):
    hold(jid)


@job(name="Fleet::Dies", queue="heavy", pool="process", retry=0)
def dies(jid):
    testify(jid, "about to die")
    os.kill(os.getpid(), signal.SIGSEGV)


@job(name="Fleet::FailsOnce", queue="plain")
def fails_once(jid):
    first = not Path(os.environ["EVIDENCE"], jid).exists()
    testify(jid, "ran")
    if first:
        raise ValueError("the first time")


@job(name="Fleet::Failing", queue="plain")
async def failing(jid):
    raise LookupError("on the loop")


class Walk(IterableJob):
    class_name = "Fleet::Walk"
    queue = "plain"
    max_iteration_runtime_s = 0.05

    def build_enumerator(self, *args, cursor):
        return enumerators.sequence(list(range(20)), cursor=cursor)

    def each_iteration(self, item, *args):
        testify(f"walk-{self.jid}", item)
        time.sleep(0.02)
        while item == 10 and not WALK_ON.exists():
            time.sleep(0.01)

    def on_resume(self):
        testify(f"resumed-{self.jid}", self.cursor)

    def on_complete(self):
        testify(self.jid, "complete")
"""
SETTINGS = """
concurrency: 2
queues: [plain, mail]
capsules:
  heavy:
    concurrency: 2
    queues: [heavy]
"""
HELD = ("Fleet::OnThread", "Fleet::OnLoop", "Fleet::InChild")
PATHS = (
    "/",
    "/busy",
    "/queues",
    "/queues/mail",
    "/queues/ruby",
    "/retries",
    "/scheduled",
    "/morgue",
)


@pytest.fixture(scope="module")
def client(server):
    client = Client(server.url)
    yield client
    client.close()


@pytest.fixture(scope="module")
def fleet(server, evidence, tmp_path_factory):
    """A supervisor with two processes; as `python_worker`, which waits for one of its own pid."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "fleet_jobs.py").write_text(JOBS, encoding="utf-8")
    (folder / "kiqbridge.yml").write_text(SETTINGS, encoding="utf-8")
    with WorkerProcess(
        "-r", "fleet_jobs.py", "-C", "kiqbridge.yml", "-g", "fleet", "--processes", "2", "-t", "3",
        redis_url=server.url,
        env={"KIQBRIDGE_BEAT_S": "0.2", "KIQBRIDGE_UNKNOWN_CLASS": "route:ruby", **evidence.env},
        python_path=[Path(__file__).parents[1]],
        cwd=folder,
    ) as supervisor:  # fmt: skip
        supervisor.wait_for_output("all 2 processes are ready")
        yield supervisor
        (evidence.folder / "release").touch()
        assert supervisor.stop() == 0


@pytest.fixture(scope="module")
def held(fleet, client, evidence):
    """Class → jid of jobs that run all the time, one in each kind of pool."""
    jids = {}
    for number, name in enumerate(HELD):
        jid = f"{number}" * 24
        queue = "heavy" if name == "Fleet::InChild" else "plain"
        client.push({"class": name, "args": [jid], "jid": jid, "queue": queue, "locale": "fr",
                     "cattr": {"tenant": "acme"}})  # fmt: skip
        evidence.wait(jid)
        jids[name] = jid
    return jids


@pytest.fixture(scope="module")
def web(server, fleet, held):
    with WebUI(server.url) as web:
        web.wait_ready()
        wait_until(
            lambda: all(jid in web.get("/busy").text for jid in held.values()),
            what=lambda: f"all running jobs on the Busy page: {web.get('/busy').text}",
        )
        yield web


@pytest.fixture
def in_set(fleet, client, redis):
    """Pushes a job and waits until it is in a set; its jid and the key of its row."""
    count = iter(range(10**6))

    def push(which, name, **item):
        jid = f"{name[-4:].lower()}{next(count):020x}".replace(":", "0")
        client.push({"class": name, "args": [jid], "jid": jid, "queue": "plain", **item})

        def find():
            rows = redis.zrange(which, 0, -1, withscores=True)
            return [score for member, score in rows if jid.encode() in member]

        [score] = wait_until(find, 20, what=lambda: f"{jid} in {which}; {fleet.output}")
        return jid, f"{score!r}-{jid}"

    return push


def is_in(redis, which, jid):
    return any(jid.encode() in member for member in redis.zrange(which, 0, -1))


@pytest.mark.operation("ProcessSet")
def test_each_supervised_process_is_one_of_its_own(fleet, held, redis_url):
    script = """
    answer Sidekiq::ProcessSet.new.map { |process|
      { pid: process["pid"], tag: process.tag, queues: process["queues"].sort, busy: process["busy"],
        concurrency: process["concurrency"], labels: process.labels, stopping: process.stopping? } }
    """
    seen = []

    def look():
        seen[:] = run_ruby(script, redis_url)
        return sum(process["busy"] for process in seen) >= 3

    wait_until(look, what=lambda: f"Ruby sees {seen}")

    assert len(seen) == 2 and len({process["pid"] for process in seen}) == 2
    assert fleet.pid not in {process["pid"] for process in seen}  # the supervisor runs no jobs
    for process in seen:
        assert process["queues"] == ["heavy", "mail", "plain"]  # of both capsules
        assert process["concurrency"] == 2 + 2  # the threads of both capsules
        assert (process["tag"], process["stopping"]) == ("fleet", False)
        assert "kiqbridge" in process["labels"]


@pytest.mark.operation("Workers")
def test_workers_shows_jobs_of_every_pool_with_their_attributes(held, redis_url):
    script = """
    answer Sidekiq::Workers.new.map { |_, _, work|
      payload = work["payload"]
      [payload["class"], payload["jid"], work["queue"], payload["cattr"], payload["locale"]] }
    """

    seen = {}

    def look():
        seen.clear()
        seen.update({each[0]: each[1:] for each in run_ruby(script, redis_url)})
        return set(HELD) <= set(seen)

    wait_until(look, what=lambda: f"Ruby sees {seen}")

    for name, jid in held.items():
        queue = "heavy" if name == "Fleet::InChild" else "plain"
        assert seen[name] == [jid, queue, {"tenant": "acme"}, "fr"]


@pytest.mark.operation("Queue")
def test_a_routed_job_is_in_its_queue_for_ruby(fleet, client, redis, redis_url, web):
    jid = client.push({"class": "OnlyInRuby", "args": [1], "queue": "plain", "locale": "de"})
    wait_until(lambda: redis.llen("queue:ruby"), what="its being routed")
    script = """
    job = Sidekiq::Queue.new("ruby").first
    answer [Sidekiq::Queue.all.map(&:name).include?("ruby"), job.jid, job.klass, job["locale"]]
    """

    assert run_ruby(script, redis_url) == [True, jid, "OnlyInRuby", "de"]
    page = web.get("/queues/ruby")
    assert page.status == 200 and "OnlyInRuby" in page.text


@pytest.mark.operation("DeadSet")
def test_a_job_that_killed_its_process_is_dead_and_says_so(fleet, in_set, redis_url, web):
    jid, key = in_set("dead", "Fleet::Dies", queue="heavy", retry=0)
    script = f"""
    job = Sidekiq::DeadSet.new.find_job({jid!r})
    answer [job.klass, job.item["error_class"], job.item["error_message"]]
    """

    name, kind, message = run_ruby(script, redis_url)

    assert (name, kind) == ("Fleet::Dies", "kiqbridge.errors.ProcessDied")
    assert "SIGSEGV" in message
    page = web.get(f"/morgue/{key}")
    assert page.status == 200 and jid in page.text and "SIGSEGV" in page.text


@pytest.mark.operation("iterable jobs")
def test_a_job_that_makes_room_keeps_its_cursor_where_ruby_looks(
    fleet, client, redis, redis_url, evidence
):
    jid = "cafe" * 6
    client.push({"class": "Fleet::Walk", "args": [], "jid": jid, "queue": "plain"})
    wait_until(lambda: len(evidence.of(f"walk-{jid}")) == 11, 20, "the item that waits")
    script = f'answer Sidekiq.redis {{ |redis| redis.hgetall("it-{jid}") }}'

    seen = run_ruby(script, redis_url)

    # Sidekiq's own fields: executions, cursor, seconds of runtime.
    assert int(seen["ex"]) >= 2
    assert 0 < int(seen["c"]) <= 10
    assert float(seen["rt"]) > 0
    (evidence.folder / "walk-on").touch()
    evidence.wait(jid, timeout_s=30)
    assert [one.said for one in evidence.of(f"walk-{jid}")] == [str(n) for n in range(20)]
    assert len(evidence.of(f"resumed-{jid}")) >= 2
    wait_until(lambda: not redis.exists(f"it-{jid}"))


@pytest.mark.operation("all pages")
def test_every_page_renders_with_all_of_this_in_it(web, held, client, in_set):
    jids = {
        "/retries": in_set("retry", "Fleet::Failing")[0],
        "/morgue": in_set("dead", "Fleet::Dies", queue="heavy", retry=0)[0],
        "/scheduled": in_set("schedule", "Fleet::OnLoop", at=time.time() + 9000)[0],
    }

    pages = {path: web.get(path) for path in PATHS}

    assert {path: page.status for path, page in pages.items()} == dict.fromkeys(PATHS, 200)
    for path, jid in jids.items():
        assert jid in pages[path].text and "Fleet::" in pages[path].text, path
    for name, jid in held.items():
        assert name in pages["/busy"].text and jid in pages["/busy"].text
    assert json.loads(web.get("/stats").source)["sidekiq"]["processes"] == 2
    assert "Error" not in web.output


@pytest.mark.operation("Retries")
def test_the_buttons_retry_delete_and_kill_work_on_jobs_of_the_loop(web, redis, in_set, evidence):
    jid, key = in_set("retry", "Fleet::FailsOnce")
    web.press(web.get(f"/retries/{key}").form("retry"), "retry")
    evidence.wait(jid, 2)
    assert not is_in(redis, "retry", jid)

    jid, key = in_set("retry", "Fleet::Failing")
    web.press(web.get(f"/retries/{key}").form("delete"), "delete")
    assert not is_in(redis, "retry", jid)

    jid, _ = in_set("retry", "Fleet::Failing")
    web.press(web.get("/retries").form("kill", mentions=jid), "kill", only=jid)
    assert is_in(redis, "dead", jid) and not is_in(redis, "retry", jid)


@pytest.mark.operation("Busy")
def test_quiet_and_stop_act_on_one_supervised_process_which_is_replaced(web, fleet, redis):
    def listed():
        names = [name.decode() for name in redis.smembers("processes")]
        return {name for name in names if redis.exists(name)}

    before = listed()
    one = min(before)

    web.press(web.get("/busy").form("quiet", mentions=one), "quiet")
    wait_until(lambda: redis.hget(one, "quiet") == b"true", what="its being quiet")
    [other] = before - {one}
    assert redis.hget(other, "quiet") == b"false"
    web.press(web.get("/busy").form("stop", mentions=one), "stop")

    wait_until(
        lambda: len(now := listed()) == 2 and one not in now and other in now, 30,
        what=lambda: f"a process in its place; {fleet.output}",
    )  # fmt: skip
