"""`kiqbridge dev`, the real command: server, rules and worker, in a copy of what ships."""

import itertools
import json
import os
import re
import signal
from pathlib import Path

import pytest
import redis as redis_py
from support.dev_project import children_of, interrupt, lines_of, url_of, wait_for_job
from support.processes import is_process_running
from support.servers import find_free_port
from support.waiting import wait_until

from kiqbridge.commands.cli import main

SLOW_JOB = """
import time
from kiqbridge import job

@job(name="Slow")
def slow():
    print("slow job runs", flush=True)
    for _ in range(1000):
        time.sleep(0.05)
"""


def put(path, text):
    """Write a file in one step, as editors do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def is_worker(command):
    """By the command, or by the title that it gives itself soon."""
    return re.search(r"kiqbridge (worker|\S+ .*\[\d+ of \d+ busy\])", command) is not None


def find_worker(run):
    return next((pid for pid in children_of(run) if is_worker(command_of(pid))), None)


class TestAFirstRun:
    def test_performs_the_last_due_tick_of_the_most_frequent_rule_and_ends_with_ctrl_c(
        self, project
    ):
        run = project.dev()
        wait_for_job(run)

        assert interrupt(run) == 0
        assert "catching up the last due tick of HealthPulse" in run.output
        # The next tick of the rule may come while it runs.
        tick, enqueued, start, done = (
            lines_of(run, kind)[0] for kind in ("tick", "enqueue", "start", "done")
        )
        assert "into queue default" in enqueued
        jids = {re.search(r" ([0-9a-f]{8}) ", line)[1] for line in (enqueued, start, done)}
        assert len(jids) == 1
        order = [run.output.index(line) for line in (tick, enqueued, start, done)]
        assert order == sorted(order)
        assert re.search(
            r"\d ticks?, \d jobs? performed, 0 failed, \d given back\. Bye", run.output
        )
        assert "\033" not in run.output
        assert "_aws" not in run.output, "the function's metrics go to its log"


@pytest.mark.slow
class TestASecondRun:
    def test_keeps_data_and_address_and_shows_a_job_at_once(self, project):
        first = project.dev("--fire", "CloseDay")
        wait_for_job(first)
        assert interrupt(first) == 0

        second = project.dev("--fire", "CloseDay")
        wait_for_job(second)

        assert "(1 there)" in first.output
        assert "(2 there)" in second.output
        assert url_of(second) == url_of(first)

    def test_delivers_a_tick_that_the_ledger_knows_once_more_and_says_so(self, project):
        # Daily: both runs mean the same tick.
        project.change("cron(0/5 * * * ? *)", "cron(0 0 * * ? *)")
        for rule in ("cron(0 3 * * ? *)", "cron(30 8 ? * MON-FRI *)"):
            project.change(rule, "cron(0 0 1 1 ? 2020)")
        first = project.dev()
        wait_for_job(first)
        assert interrupt(first) == 0

        second = project.dev()
        wait_for_job(second)

        assert "the ledger knows it" not in first.output
        assert "this tick is enqueued already: the ledger knows it" in second.output
        assert "once more under a name of its own" in second.output

    def test_beside_the_first_is_refused(self, project):
        first = project.dev()
        wait_for_job(first)

        second = project.dev()

        assert second.wait() == 1
        assert f"another `kiqbridge dev` (process {first.pid}) uses this folder" in second.output
        assert f"kill {first.pid}" in second.output
        assert first.is_running


@pytest.mark.slow
class TestARuleThatSeldomFires:
    @pytest.mark.parametrize(
        ("years", "told"),
        [
            ("2020,2099", "older than what the ledger remembers"),
            ("2099", "no tick was due before, so this is one for now"),
        ],
    )
    def test_shows_a_job_at_once_as_well(self, project, years, told):
        for rule in ("cron(0 3 * * ? *)", "cron(30 8 ? * MON-FRI *)"):
            project.change(rule, "cron(0 0 1 1 ? 2020)")
        project.change("cron(0/5 * * * ? *)", f"cron(0 0 1 1 ? {years})")

        run = project.dev()
        wait_for_job(run)

        assert told in run.output
        assert len(lines_of(run, "start")) == 1


class TestFire:
    def test_delivers_a_tick_of_a_rule_at_once_and_a_ruby_job_waits(self, project):
        run = project.dev("--fire", "closeday", "--fire", "nightlyreport")
        run.wait_for(lambda: len(lines_of(run, "done")) == 2, 20, "two jobs")

        assert re.search(r"done +NightlyReport", run.output)
        assert "into queue rails: waits for a Ruby worker (1 there)" in run.output
        with redis_py.Redis.from_url(url_of(run)) as client:
            [payload] = map(json.loads, client.lrange("queue:rails", 0, -1))
        assert payload["class"] == "Billing::CloseDayJob"
        assert interrupt(run) == 0

    def test_serves_what_kiqbridge_yml_names_and_says_what_waits(self, project):
        (project.folder / "kiqbridge.yml").write_text(":queues:\n  - [other, 2]\n")

        run = project.dev("--fire", "nightlyreport")
        waits = "waits: kiqbridge.yml does not name the queue (1 there)"
        run.wait_for(lambda: waits in run.output, 20, "the job that waits")

        assert re.search(
            r"NightlyReport would wait: kiqbridge.yml does not name its queue \w+;", run.output
        )
        assert interrupt(run) == 0
        assert "0 jobs performed" in run.output

    def test_of_an_unknown_rule_names_the_near_ones(self, project):
        run = project.dev("--fire", "ClosDay")

        assert run.wait() == 2
        assert run.output == (
            "kiqbridge: --fire: 'ClosDay' is no rule of the template; did you mean CloseDay?\n"
        )


class TestTheTemplate:
    def test_decides_expression_zone_class_and_name(self, project):
        project.change("cron(0/5 * * * ? *)", "cron(7/20 * * * ? *)")
        project.change(
            "ScheduleExpressionTimezone: UTC", "ScheduleExpressionTimezone: Asia/Kolkata"
        )
        project.change('"class": "HealthPulse"', '"class": "WeekdayDigest"')
        project.change('"args": []', '"args": ["a team of the template"]')
        project.change("        HealthPulse:", "        Renamed:")
        project.change("${AWS::StackName}/HealthPulse", "${AWS::StackName}/Renamed")

        run = project.dev()
        wait_for_job(run)

        assert re.search(
            r"Renamed +WeekdayDigest → default +cron\(7/20 \* \* \* \? \*\) Asia/Kolkata .* IST = ",
            run.output,
        )
        assert "the last due tick of Renamed" in run.output
        assert "digest sent to team a team of the template" in run.output

    def test_with_a_fault_is_refused_with_line_and_resource(self, project):
        project.change("cron(0/5 * * * ? *)", "cron(0/5 * * * * *)")
        project.change("Europe/London", "Europe/Londres")

        run = project.dev()

        assert run.wait() == 1
        first, second = run.output.splitlines()
        assert re.match(r"kiqbridge: template.yaml:\d+ EnqueueFunction.HealthPulse: ", first)
        assert re.match(
            r"template.yaml:\d+ EnqueueFunction.CloseDay: time zone 'Europe/Londres' is", second
        )
        assert not (project.folder / ".kiqbridge").exists()

    def test_that_is_edited_is_followed_and_one_with_a_fault_is_not(self, project):
        run = project.dev()
        wait_for_job(run)

        project.change("cron(0/5 * * * ? *)", "cron(0/5 * * * * *)")
        run.wait_for_output("template.yaml was edited, and is not followed", 60)
        project.change("cron(0/5 * * * * *)", "cron(* * * * ? *)")
        project.change("        HealthPulse:", "        Renamed:")
        project.change("${AWS::StackName}/HealthPulse", "${AWS::StackName}/Renamed")

        row = re.compile(r"Renamed +HealthPulse → default +cron\(\* \* \* \* \? \*\)")
        run.wait_for(lambda: row.search(run.output), 60, "the rule that was edited")
        assert interrupt(run) == 0


@pytest.mark.slow
class TestTheJobs:
    def test_that_run_at_ctrl_c_are_given_back(self, project, redis, redis_url):
        (project.folder / "worker/jobs/slow.py").write_text(SLOW_JOB)
        project.change('"class": "HealthPulse"', '"class": "Slow"')
        project.change("HealthPulse,WeekdayDigest", "Slow,WeekdayDigest")
        # What a deployed function reads does not count here.
        run = project.dev("-t", "0.3", REDIS_URL=redis_url, REDIS_SECRET_ARN="arn:of:a:secret")
        run.wait_for_output("slow job runs")
        assert redis.llen("queue:default") == 0

        assert interrupt(run) == 0

        assert "on the server of REDIS_URL" in run.output
        assert "that server is used, not the embedded one; for that one: unset" in run.output
        [payload] = map(json.loads, redis.lrange("queue:default", 0, -1))
        assert payload["class"] == "Slow"
        assert "0 jobs performed, 0 failed, 1 given back. Bye." in run.output
        assert redis.smembers("processes") == set()

    def test_that_change_are_loaded_anew(self, project, redis, redis_url):
        code = project.folder / "worker/jobs/changing.py"
        text = "from kiqbridge import job\n@job\ndef change(): print('VERSION', flush=True)\n"
        code.write_text(text.replace("VERSION", "the first"))
        run = project.dev(REDIS_URL=redis_url)
        wait_for_job(run)

        put(code, "def (\n")
        run.wait_for_output("1 file changed (worker/jobs/changing.py) and cannot be compiled", 60)
        put(code, "1 / 0\n")
        run.wait_for_output(
            "the worker does not start (exit code 1): it is started again when a", 60
        )
        put(code, text.replace("VERSION", "the second"))
        redis.lpush("queue:default", '{"class":"change","args":[],"jid":"c1","retry":false}')

        run.wait_for_output("the second", 60)
        assert interrupt(run) == 0

    def test_that_cannot_be_loaded_are_told(self, project):
        (project.folder / "worker/jobs/broken.py").write_text("import no_such_module\n")

        run = project.dev()

        assert run.wait() == 1
        assert "-r worker/jobs: importing it failed: ModuleNotFoundError" in run.output


class TestAServerOfTheUser:
    def test_that_is_not_there_ends_the_run_with_3(self, project):
        run = project.dev(REDIS_URL=f"redis://:secret@127.0.0.1:{find_free_port()}/0")

        assert run.wait() == 3
        [line] = run.output.splitlines()
        assert "cannot be reached" in line
        assert "REDIS_URL is set here" in line
        assert "unset REDIS_URL" in line
        assert "secret" not in line


@pytest.mark.slow
class TestDeath:
    def test_of_the_command_ends_server_function_and_worker(self, project):
        run = project.dev()
        wait_for_job(run)
        children = children_of(run)
        assert len(children) == 3

        run.kill()

        wait_until(
            lambda: not any(map(is_process_running, children)),
            10,
            "server, function and worker gone",
        )
        again = project.dev()
        wait_for_job(again)
        assert interrupt(again) == 0

    def test_of_the_command_whose_server_hangs_names_that_and_how_to_end_it(self, project):
        run = project.dev()
        wait_for_job(run)
        port = url_of(run).rpartition(":")[2].removesuffix("/0")
        [server] = [pid for pid in children_of(run) if f"127.0.0.1:{port}" in command_of(pid)]
        os.kill(server, signal.SIGSTOP)
        try:
            run.kill()
            again = project.dev()

            assert again.wait() == 1
            assert "what a killed `kiqbridge dev` has started still runs" in again.output
            assert f"kill {server} (kill -9 {server} if that does not help)" in again.output
        finally:
            os.kill(server, signal.SIGCONT)

    def test_of_the_worker_starts_another(self, project):
        run = project.dev("--speed", "600")
        wait_for_job(run)
        worker = find_worker(run)

        os.kill(worker, signal.SIGKILL)

        run.wait_for_output("the worker died (by SIGKILL): starting it again")
        run.wait_for(lambda: find_worker(run) not in (worker, None), 15, "another worker")
        told = len(run.output)
        run.wait_for(lambda: re.search(r"Z done ", run.output[told:]), 15, "a job of the new one")
        assert interrupt(run) == 0

    def test_of_the_server_ends_the_run(self, project):
        run = project.dev("-t", "0.5")
        wait_for_job(run)
        [server] = [pid for pid in children_of(run) if "valkey" in command_of(pid)]

        os.kill(server, signal.SIGKILL)

        assert run.wait() == 1
        assert "the embedded Valkey has ended; see .kiqbridge/valkey.log" in run.output

    def test_of_the_function_costs_one_tick_at_most(self, project):
        run = project.dev("--speed", "600")
        wait_for_job(run)
        [function] = [pid for pid in children_of(run) if "lambda_runtime" in command_of(pid)]

        os.kill(function, signal.SIGKILL)

        wait_until(lambda: not is_process_running(function))
        told = len(run.output)
        run.wait_for(lambda: re.search(r"Z done ", run.output[told:]), 15, "a job after it")
        assert interrupt(run) == 0


@pytest.mark.slow
class TestSpeed:
    def test_fires_the_rules_at_simulated_instants(self, project):
        run = project.dev("--speed", "1200")

        run.wait_for(lambda: len(lines_of(run, "tick")) > 4, 20, "simulated ticks")
        run.wait_for(lambda: len(lines_of(run, "done")) > 3, 20, "their jobs")

        assert interrupt(run) == 0
        assert "the rules' clock runs 1200 times as fast" in run.output
        minutes = re.findall(r"HealthPulse +due \w{3} [\d-]+ \d\d:(\d\d) UTC; next", run.output)
        assert all(
            (int(later) - int(earlier)) % 60 == 5 for earlier, later in itertools.pairwise(minutes)
        )

    @pytest.mark.parametrize("speed", ["0", "nan"])
    def test_must_be_a_number_above_zero(self, project, speed):
        assert project.dev(f"--speed={speed}").wait() == 2


class TestAFolderWithoutATemplate:
    """tests/infra/test_init.py runs jobs alone in one."""

    def test_and_without_jobs_says_how_to_begin(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)

        assert main(["dev"]) == 1

        assert "or begin an app: kiqbridge init" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())

    def test_has_no_rule_to_fire(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "jobs").mkdir()

        assert main(["dev", "--fire", "Nightly"]) == 2

        assert "there is no template.yaml here" in capsys.readouterr().err

    def test_that_is_named_is_a_fault(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "jobs").mkdir()

        assert main(["dev", "--template", "template.yaml"]) == 1

        assert "template.yaml:1: the template cannot be read" in capsys.readouterr().err
