"""Two shards, each an ordinary Sidekiq Redis to Ruby: its API reads one, its client pushes to one."""

from contextlib import closing
from pathlib import Path

import pytest
from support.evidence import Evidence
from support.ruby import run_ruby
from support.shards import Sharded, sharded
from support.waiting import wait_until
from support.workers import WorkerProcess

pytestmark = pytest.mark.interop

DIRECTION = "Several shards, each an ordinary Redis to Ruby"
TESTS = Path(__file__).parents[1]

JOBS = """
import os
from kiqbridge import Job
from support.evidence import testify


class Witness(Job):
    def perform(self, *args):
        testify(self.jid, [os.getpid(), *args])
"""
RUBY = """
class Witness
  include Sidekiq::Worker
end
"""
QUEUES = {"mail": ["mail", "mail-*"], "rest": ["*"]}
SERVED = {"mail": "mail", "rest": "default"}
UNSERVED = {"mail": "mail-later", "rest": "later"}


@pytest.fixture(scope="module")
def two(server, evidence, tmp_path_factory) -> Sharded:
    """The shards `mail` and `rest`, and our worker on both."""
    base = server.url.rpartition("/")[0]
    shards = sharded({"mail": f"{base}/1", "rest": f"{base}/2"}, QUEUES)
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "shard_jobs.py").write_text(JOBS, encoding="utf-8")
    queues = [part for name in SERVED.values() for part in ("-q", name)]
    with WorkerProcess(
        *("-r", "shard_jobs.py", "-c", "2", *queues),
        redis_url="redis://nowhere.invalid:1/0",
        env={
            **shards.environ,
            **evidence.env,
            "KIQBRIDGE_BEAT_S": "0.2",
            "KIQBRIDGE_LOG_FORMAT": "plain",
            "KIQBRIDGE_RUN_DIR": str(folder / "run"),
        },
        python_path=[TESTS],
        cwd=folder,
    ) as worker:
        worker.wait_for_output("all 2 processes are ready")
        yield shards
        assert worker.stop() == 0
    for each in shards.raw.values():
        each.close()


@pytest.fixture(scope="module")
def processes(two) -> dict[str, list[list]]:
    """What Ruby's ProcessSet shows on each shard: pid, queues, threads, whether it is stopping."""
    script = """
    answer Sidekiq::ProcessSet.new.map { |each|
      [each["pid"], each["queues"].sort, each["concurrency"], each.stopping?]
    }
    """
    return {name: run_ruby(script, str(two.setting[name]["url"])) for name in QUEUES}


@pytest.mark.operation("ProcessSet")
def test_the_process_set_of_each_shard_has_one_ordinary_process_of_its_own(processes):
    [[mail, *shown]], [[rest, *also_shown]] = processes["mail"], processes["rest"]
    assert mail != rest
    assert shown == also_shown == [["default", "mail"], 2, False]


@pytest.mark.operation("perform_async")
@pytest.mark.parametrize("name", QUEUES)
def test_a_job_that_ruby_pushes_to_one_shard_is_performed_by_the_process_of_that_shard(
    two, processes, evidence: Evidence, name
):
    script = f"{RUBY} answer Witness.set(queue: GIVEN).perform_async(1, nil)"
    jid = run_ruby(script, str(two.setting[name]["url"]), given=SERVED[name])

    [[pid, *_]] = processes[name]
    assert evidence.wait(jid).said == f"[{pid}, 1, None]"
    assert len(evidence.of(jid)) == 1


@pytest.mark.operation("perform_in")
def test_a_job_that_ruby_pushes_for_later_is_brought_by_the_poller_of_that_shard(
    two, processes, evidence: Evidence
):
    jids = {
        name: run_ruby(
            f'{RUBY} answer Witness.set(queue: GIVEN).perform_in(0.3, "later")',
            str(two.setting[name]["url"]),
            given=SERVED[name],
        )
        for name in QUEUES
    }

    for name, jid in jids.items():
        [[pid, *_]] = processes[name]
        assert evidence.wait(jid).said == f"[{pid}, 'later']"


@pytest.mark.operation("Queue")
@pytest.mark.parametrize("name", QUEUES)
def test_ruby_reads_on_each_shard_the_queue_that_our_client_pushed_there(two, name):
    queue = UNSERVED[name]
    with closing(two.client()) as client:
        jid = client.push({"class": "Witness", "args": [name], "queue": queue})
    script = """
    queue = Sidekiq::Queue.new(GIVEN)
    answer [queue.size, queue.map { |job| [job.klass, job.args, job.jid] },
            Sidekiq::Queue.all.map(&:name).include?(GIVEN)]
    """

    read = {each: run_ruby(script, str(two.setting[each]["url"]), given=queue) for each in QUEUES}

    [other] = QUEUES.keys() - {name}
    assert read == {name: [1, [["Witness", [name], jid]], True], other: [0, [], False]}


@pytest.mark.operation("Stats")
def test_rubys_statistics_count_on_each_shard_what_was_performed_there(
    two, processes, evidence: Evidence
):
    script = "answer Sidekiq::Stats.new.processed"

    def counts() -> dict[str, int]:
        return {name: run_ruby(script, str(two.setting[name]["url"])) for name in QUEUES}

    ran = dict.fromkeys(QUEUES, 0)
    pids = {str(processes[name][0][0]): name for name in QUEUES}
    with closing(two.client()) as client:
        evidence.wait(client.push({"class": "Witness", "args": [], "queue": "mail"}))
    for file in evidence.folder.iterdir():
        for testimony in evidence.of(file.name):
            ran[pids[testimony.said.strip("[]").split(",")[0]]] += 1

    wait_until(lambda: counts() == ran, what=lambda: f"{ran}: {counts()}")
    assert ran["mail"] >= 1
