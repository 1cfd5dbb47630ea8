"""`kiqbridge enqueue`: one job, or an event through the code of the enqueue function."""

import io
import json
import sys
from functools import partial

import pytest
from support.enqueue_function import ENVIRONMENT, event_file, messages, queued, read_event
from support.jobs import own_declarations
from support.mappings import write
from support.project import lay_out
from support.servers import find_free_port

from kiqbridge import NotAllowed
from kiqbridge.aws.allow_list import AllowList

NOWHERE = f"redis://127.0.0.1:{find_free_port()}/0"
MAPPINGS = """
    mappings:
      - match: {source: sqs}
        name: numbers
        filter: body.id
        class: HealthPulse
        args: [body.id]
    """


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    """Runs `kiqbridge enqueue`."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return partial(run, "enqueue")


@pytest.fixture
def event(tmp_path):
    """A file with an event."""

    def event(value):
        path = tmp_path / "event.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return event


class TestJob:
    def test_it_is_pushed_and_its_id_printed(self, run, redis):
        code, out, err = run("AnyClass", "5", '"two"', "[1]", "-3", "--queue", "any")

        [job] = queued(redis, "any")
        assert (code, out, err) == (0, f"{job['jid']}\n", "")
        assert (job["class"], job["args"], job["queue"]) == ("AnyClass", [5, "two", [1], -3], "any")

    def test_with_its_code_it_has_what_is_declared(self, run, redis, tmp_path):
        (tmp_path / "invoices.py").write_text(
            "from kiqbridge import job\n\n"
            "@job(name='SendInvoice', queue='mail', retry=0)\n"
            "def send(customer: int) -> None: ...\n"
        )

        with own_declarations():
            assert run("-r", "invoices.py", "SendInvoice", "7")[0] == 0
            code, _, err = run("-r", "invoices.py", "SendInvoice")

        [job] = queued(redis, "mail")
        assert (job["args"], job["retry"]) == ([7], 0)
        assert (code, "missing a required argument: 'customer'" in err) == (2, True)

    def test_it_can_wait_and_have_an_id_of_its_own(self, run, redis):
        code, out, _ = run("Mail", "--jid", "my-jid", "--in", "2h", "--json")

        answer = json.loads(out)
        [(text, score)] = redis.zrange("schedule", 0, -1, withscores=True)
        assert code == 0
        assert json.loads(text)["jid"] == answer["jid"] == "my-jid"
        assert abs(score - answer["at"]) < 0.001
        assert answer["class"] == "Mail" and answer["queue"] == "default"

    @pytest.mark.parametrize("at", ["4102444800", "2100-01-01T00:00:00Z"])
    def test_it_can_run_at_a_time(self, run, redis, at):
        run("Mail", "--at", at)

        assert redis.zrange("schedule", 0, -1, withscores=True)[0][1] == 4102444800

    def test_a_key_enqueues_it_once(self, run, redis):
        first = run("Mail", "--dedupe-key", "order-5")
        second = run("Mail", "--dedupe-key", "order-5")
        third = run("Mail", "--dedupe-key", "order-5", "--json")

        assert first[:2] == second[:2]
        assert "enqueued a job before" in second[2]
        assert json.loads(third[1])["duplicate"] is True
        assert len(queued(redis)) == 1

    def test_dry_run_pushes_nothing(self, run, redis):
        assert run("Mail", "5", "--dry-run") == (0, "would enqueue Mail [5] into default\n", "")
        _, out, _ = run("Mail", "5", "--dry-run", "--json")

        assert json.loads(out) == {"dry_run": True, "job": {"class": "Mail", "args": [5]}}
        assert redis.keys() == []

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["Mail", "a"], "args[0]: 'a' is not JSON; a text has double quotes"),
            (["Mail", "NaN"], "args[0]: 'NaN' is not JSON"),
            (["Ma il"], "class: 'Ma il' is not a plain name"),
            (["Mail", "--queue", ""], "queue: '' is not a queue name"),
            (["Mail", "--at", "tomorrow"], "at: 'tomorrow' is no ISO 8601 time"),
            (["Mail", "--at", "4102444800000"], "are milliseconds by their size"),
            (["Mail", "--in", "5", "--at", "5"], "in: 5.0 cannot be given together with at"),
            ([], "enqueue: name a CLASS with its arguments, or give --event FILE"),
            (
                ["Mail", "--event", "-"],
                "enqueue: name a CLASS with its arguments, or give --event FILE",
            ),
            (
                ["--event", "-", "--queue", "a"],
                "enqueue: --queue goes with a CLASS, not with --event",
            ),
        ],
    )
    def test_what_is_wrong_is_exit_code_2(self, run, redis, words, message):
        code, out, err = run(*words)

        assert (code, out) == (2, "")
        assert message in err
        assert redis.keys() == []


class TestEvent:
    def test_dry_run_shows_jobs_identity_and_answer_without_redis(self, run, event, monkeypatch):
        monkeypatch.setenv("REDIS_URL", NOWHERE)
        path = event(messages({"class": "HealthPulse", "args": [7], "in": 0}))

        code, out, err = run("--event", path, "--dry-run")

        arn = messages({})["Records"][0]["eventSourceARN"]
        assert (code, err) == (0, "")
        assert out == (
            f"sqs {arn}\n"
            "  would enqueue HealthPulse [7] into default\n"
            f"    once for sqs 0 {arn} m0\n"
            'answer: {"batchItemFailures": []}\n'
        )

    def test_without_dry_run_it_is_pushed_once(self, run, event, redis):
        path = event(messages({"class": "HealthPulse", "args": [7]}))

        first = json.loads(run("--event", path, "--json")[1])
        second = json.loads(run("--event", path, "--json")[1])

        [job] = queued(redis)
        [[shown], [again]] = [each["records"][0]["jobs"] for each in (first, second)]
        assert shown["jid"] == again["jid"] == job["jid"]
        assert [shown["duplicate"], again["duplicate"]] == [False, True]
        assert first["answer"] == {"batchItemFailures": []}

    def test_the_mappings_of_the_function_are_used(self, run, event, redis, tmp_path):
        folder = tmp_path / "lambdas" / "enqueue"
        folder.mkdir(parents=True)
        write(folder, MAPPINGS)
        path = event(messages({"id": 5}, {"number": 6}, {"class": "HealthPulse", "args": ["own"]}))

        code, out, _ = run("--event", path, "--dry-run", "--json")

        records = json.loads(out)["records"]
        assert code == 0
        assert [each["mapping"] for each in records] == [
            *("mappings.yml:3 mappings[0] (numbers)", None, None),
        ]
        assert [[job["args"] for job in each["jobs"]] for each in records] == [[[5]], [], [["own"]]]
        assert records[1]["ignored"].startswith(
            "the filter of mappings.yml:3 mappings[0] (numbers)"
        )
        assert run("--event", path)[0] == 0
        assert [job["args"] for job in queued(redis)] == [[5], ["own"]]

    def test_other_mappings_can_be_named(self, run, event, tmp_path, monkeypatch):
        path = event(messages({"id": 5}))
        other = write(tmp_path, MAPPINGS, "other.yml")

        assert "other.yml:3" in run("--event", path, "--dry-run", "--mappings", other.name)[1]
        monkeypatch.setenv("KIQBRIDGE_MAPPINGS", str(other))
        assert "other.yml:3" in run("--event", path, "--dry-run")[1]

    def test_the_event_may_come_from_standard_input(self, run, monkeypatch):
        text = json.dumps({"class": "HealthPulse", "args": []}).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

        code, out, _ = run("--event", "-", "--dry-run")

        assert code == 0
        assert out.startswith("direct\n  would enqueue HealthPulse [] into default\n")

    def test_a_tick_is_shown_with_its_schedule(self, run, event):
        tick = {"schedule": "shop/NightlyReport", "at": 1_700_000_000}

        _, out, _ = run("--event", event(read_event("scheduler_tick", tick=tick)), "--dry-run")

        assert "    once for tick shop/NightlyReport at 1699999980\n" in out

    def test_a_refused_record_is_exit_code_2_and_the_others_are_pushed(self, run, event, redis):
        path = event(
            messages({"class": "HealthPulse", "args": [1]}, {"class": "Kernel", "args": []})
        )

        code, out, err = run("--event", path)

        assert code == 2
        assert "class: 'Kernel' is not among the classes in KIQBRIDGE_ALLOWED_CLASSES" in err
        assert '{"batchItemFailures": [{"itemIdentifier": "m1"}]}' in out
        assert [job["args"] for job in queued(redis)] == [[1]]

    def test_what_no_mapping_takes_is_exit_code_2(self, run):
        code, out, err = run("--event", event_file("s3_object_created"), "--dry-run", "--json")

        assert code == 2
        assert json.loads(out)["error"] in err
        assert "no mapping takes it (source: 'bus', origin: 'aws.s3'" in err

    @pytest.mark.parametrize("text", [None, "", "{", '{"a": NaN}'])
    def test_a_file_that_is_no_event_is_exit_code_2(self, run, tmp_path, text):
        path = tmp_path / "event.json"
        if text is not None:
            path.write_text(text)

        code, _, err = run("--event", path)

        assert code == 2
        assert f"--event {path}: this is not an event as JSON: " in err

    def test_a_fault_of_the_mappings_is_exit_code_1(self, run, event, tmp_path):
        other = write(tmp_path, "mapping: []", "other.yml")

        code, _, err = run("--event", event({}), "--mappings", other, "--dry-run")

        assert code == 1
        assert "other.yml:1 mapping: is not known here" in err


class TestTheTemplateBeside:
    @pytest.fixture(autouse=True)
    def project(self, tmp_path, monkeypatch, run):
        """Nothing is allowed by the environment."""
        for name in ENVIRONMENT:
            monkeypatch.delenv(name)
        return lay_out(tmp_path)

    def dry(self, run, event, job_class, *more):
        return run("--event", event({"class": job_class, "args": []}), "--dry-run", *more)

    def test_allows_what_it_allows_in_aws_and_refuses_the_rest_with_the_same_sentence(
        self, run, event, monkeypatch
    ):
        assert self.dry(run, event, "HealthPulse")[0] == 0
        code, _, err = self.dry(run, event, "Kernel")

        with pytest.raises(NotAllowed) as raised:
            AllowList.from_environment(ENVIRONMENT).check({"class": "Kernel", "args": []})
        assert (code, str(raised.value) in err) == (2, True)
        # What this environment sets goes before.
        monkeypatch.setenv("KIQBRIDGE_ALLOWED_CLASSES", "Kernel")
        assert self.dry(run, event, "Kernel")[0] == 0

    def test_counts_with_the_answers_of_make_deploy(self, run, event, tmp_path):
        answers = 'parameter_overrides = "AllowedClasses=Import::* Gone=1"'
        (tmp_path / "samconfig.local.toml").write_text(f"[default.deploy.parameters]\n{answers}\n")

        assert self.dry(run, event, "Import::Orders")[0] == 0
        assert self.dry(run, event, "Kernel")[0] == 2

    def test_may_be_named_and_lie_elsewhere_with_its_mappings(
        self, run, event, tmp_path, monkeypatch
    ):
        write(tmp_path / "lambdas" / "enqueue", MAPPINGS)
        monkeypatch.chdir(tmp_path / "worker")
        path = event(messages({"id": 5}))

        assert run("--event", path, "--dry-run")[0] == 2
        code, out, _ = run("--event", path, "--dry-run", "--template", "../template.yaml")
        assert (code, "would enqueue HealthPulse [5]" in out) == (0, True)

    def test_that_only_aws_can_resolve_is_a_fault(self, run, event, project):
        text = project.read_text()
        project.write_text(text.replace("!Ref AllowedClasses]", "!GetAtt Some.Thing]"))

        code, _, err = self.dry(run, event, "HealthPulse")

        assert code == 1
        assert (
            "KIQBRIDGE_ALLOWED_CLASSES cannot be known without AWS; set that variable here" in err
        )

    def test_of_another_project_says_nothing_unless_it_is_named(self, run, event, project):
        project.write_text("Resources: {Topic: {Type: AWS::SNS::Topic}}")

        assert "KIQBRIDGE_ALLOWED_CLASSES is unset or empty" in self.dry(run, event, "Kernel")[2]
        code, _, err = self.dry(run, event, "Kernel", "--template", "template.yaml")
        assert (code, "template.yaml: no function there has CodeUri: lambdas/enqueue" in err) == (
            1,
            True,
        )
