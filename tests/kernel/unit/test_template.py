"""Reading the schedules of a SAM template: what is resolved, and how faults are told."""

import json
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.check import allow_list_problems, main
from kiqbridge.schedule.template import read_schedules
from kiqbridge.schedule.yaml_nodes import TemplateError

JOB = {
    "class": "Report",
    "queue": "low",
    "args": [1],
    "tick": {"schedule": "app/Nightly", "at": "<aws.scheduler.scheduled-time>"},
}
NIGHTLY = {"ScheduleExpression": "cron(0 3 * * ? *)", "Input": json.dumps(JOB)}
NOW = datetime(2026, 11, 10, 12, 0, tzinfo=UTC)


def input_of(**changes):
    return json.dumps({key: value for key, value in (JOB | changes).items() if value is not None})


def as_yaml(name, value):
    """YAML as a test writes it (a tag, an anchor, a mapping), or the JSON of a value."""
    raw = ("!", "&") if name == "Input" else ("!", "&", "{")
    return value if isinstance(value, str) and value.startswith(raw) else json.dumps(value)


def source(properties, *, kind="ScheduleV2", top="", code_uri="lambdas/enqueue", more=()):
    """A template whose event stands at line 8, and its properties from line 11, below `top` and `more`."""
    head = textwrap.dedent(top).strip().splitlines() if top else []
    lines = [
        *head,
        "Resources:",
        "  Enqueue:",
        "    Type: AWS::Serverless::Function",
        "    Properties:",
        f"      CodeUri: {code_uri}",
        "      Handler: app.lambda_handler",
        *more,
        "      Events:",
        "        Nightly:",
        f"          Type: {kind}",
        "          Properties:",
        *(f"            {key}: {as_yaml(key, value)}" for key, value in properties.items()),
    ]
    return "\n".join(lines) + "\n"


def variables(text):
    """The line of a function's environment."""
    return [f"      Environment: {{Variables: {text}}}"]


@pytest.fixture
def read(tmp_path):
    def read(text, parameters=None):
        path = tmp_path / "template.yaml"
        path.write_text(text, encoding="utf-8")
        return read_schedules(path, parameters, "app")

    return read


@pytest.fixture
def faults(read):
    """The problems of a template, as (line, where, text)."""

    def faults(text, parameters=None):
        with pytest.raises(TemplateError) as caught:
            read(text, parameters)
        assert isinstance(caught.value, ConfigError)
        for problem in caught.value.problems:
            assert str(problem) in str(caught.value)
            assert f"template.yaml:{problem.line}{' ' if problem.where else ':'}" in str(problem)
        return [(problem.line, problem.where, problem.text) for problem in caught.value.problems]

    return faults


class TestOneSchedule:
    def test_it_is_read_with_its_function_and_line(self, read):
        [schedule] = read(source(NIGHTLY | {"ScheduleExpressionTimezone": "Europe/Paris"}))

        assert schedule.name == "Nightly"
        assert schedule.kind == "ScheduleV2"
        assert schedule.function.name == "Enqueue"
        assert schedule.where == "Enqueue.Nightly"
        assert schedule.function.handler == "app.lambda_handler"
        assert schedule.function.code_uri == "lambdas/enqueue"
        assert schedule.timezone == "Europe/Paris"
        assert schedule.expression_text == "cron(0 3 * * ? *)"
        assert schedule.expression.next_after(NOW) == datetime(2026, 11, 11, 2, 0, tzinfo=UTC)
        assert json.loads(schedule.input) == JOB
        assert schedule.jobs == [JOB]
        assert schedule.enabled
        assert (schedule.start, schedule.end) == (None, None)
        assert schedule.line == 8

    def test_start_and_end_bound_it_and_stay_text_without_quotes(self, read):
        text = source(NIGHTLY | {"EndDate": "2027-01-02T00:00:00"}).rstrip()
        [schedule] = read(text + "\n            StartDate: 2027-01-01T00:00:00Z\n")
        assert schedule.start == datetime(2027, 1, 1, tzinfo=UTC)
        assert schedule.end == datetime(2027, 1, 2, tzinfo=UTC)
        assert schedule.expression.next_after(NOW) == datetime(2027, 1, 1, 3, 0, tzinfo=UTC)
        assert schedule.expression.next_after(datetime(2027, 1, 1, 3, 0, tzinfo=UTC)) is None

    @pytest.mark.parametrize("properties", [{"State": "DISABLED"}, {"Enabled": False}])
    def test_it_may_be_disabled(self, read, properties):
        [schedule] = read(source(NIGHTLY | properties))

        assert not schedule.enabled

    def test_a_rule_event_is_read_too_and_one_of_another_folder_needs_no_job(self, read):
        properties = {"Schedule": "rate(5 minutes)", "Input": input_of(tick=None)}
        [schedule] = read(source(properties, kind="Schedule"))
        assert (schedule.kind, schedule.timezone) == ("Schedule", "UTC")
        other = source({"ScheduleExpression": "rate(1 minute)"}, code_uri="lambdas/watch/")
        [schedule] = read(other)
        assert (schedule.input, schedule.jobs) == (None, [])

    def test_several_jobs_in_one_tick(self, read):
        jobs = [{"class": "A", "args": []}, {"active_job": "B", "args": [2]}]
        document = {"jobs": jobs, "tick": JOB["tick"]}

        [schedule] = read(source(NIGHTLY | {"Input": json.dumps(document)}))

        assert schedule.jobs == jobs

    def test_globals_stand_behind_the_function_and_what_only_aws_knows_is_left_out(self, read):
        top = "Globals: {Function: {Handler: other.handler, Environment: {Variables: {A: '1', B: '1'}}}}"
        more = variables("{B: '2', C: !GetAtt Queue.Arn, D: !Sub '${AWS::StackName}'}")
        text = source(NIGHTLY, top=top, more=more)
        [schedule] = read(text.replace("      Handler: app.lambda_handler\n", ""))
        assert schedule.function.handler == "other.handler"
        assert schedule.function.environment == {"A": "1", "B": "2", "D": "app"}

    def test_what_nobody_asks_for_is_not_resolved_and_other_events_are_passed_over(self, read):
        unknown = {
            "DeadLetterConfig": "{Arn: !GetAtt Queue.Arn}",
            "GroupName": "!ImportValue Group",
            "RoleArn": "!GetAtt Role.Arn",
        }
        text = source(NIGHTLY | unknown).replace("        Nightly:\n", "        Nightly: &rule\n")
        text += "        OnQueue: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn}}\n"
        text += "        Twin:\n          <<: *rule\n          Type: SQS\n"
        text += "  Queue: {Type: AWS::SQS::Queue}\n"
        assert [schedule.name for schedule in read(text)] == ["Nightly"]
        assert read("Resources:\n  Queue: {Type: AWS::SQS::Queue}\n") == []


class TestFunctions:
    """Each stands for the zone of a schedule, which is `Europe/Paris` in the end."""

    @pytest.mark.parametrize(
        ("top", "zone"),
        [
            ("Parameters: {Zone: {Type: String, Default: Europe/Paris}}", "!Ref Zone"),
            ("Parameters: {Zone: {Type: String, Default: Europe/Paris}}", "{Ref: Zone}"),
            ("Parameters: {City: {Type: String, Default: Paris}}", "!Sub Europe/${City}"),
            ("Parameters: {City: {Type: String, Default: Paris}}", '{"Fn::Sub": "Europe/${City}"}'),
            ("", '!Sub ["${Land}/${City}", {Land: Europe, City: !Select [0, [Paris]]}]'),
            ("", '!Join ["/", [Europe, Paris]]'),
            ("", '{"Fn::Join": ["/", [Europe, !Ref AWS::NoValue, Paris]]}'),
            ("Parameters: {Z: {Type: CommaDelimitedList, Default: 'Europe, Paris'}}", '!Join ["/", !Ref Z]'),
            ("Parameters: {Z: {Type: List<Number>, Default: '1,2'}}", "!Select [!Select [0, !Ref Z], [x, Europe/Paris]]"),
            ("", '{"Fn::Select": ["1", [UTC, Europe/Paris]]}'),
            ("Mappings: {Zones: {eu: {app: Europe/Paris}}}", "!FindInMap [Zones, eu, !Ref AWS::StackName]"),
            ("Mappings: {Zones: {eu: {app: Europe/Paris}}}", '{"Fn::FindInMap": [Zones, eu, app]}'),
            ("Conditions: {Yes: !Equals [a, a]}", "!If [Yes, Europe/Paris, !ImportValue X]"),
            ("Conditions: {Yes: {'Fn::Equals': [1, '1']}}", '{"Fn::If": [Yes, Europe/Paris, UTC]}'),
            ("Conditions: {No: !Not [!Equals [true, 'true']]}", "!If [No, UTC, Europe/Paris]"),
            ("Conditions: {A: !Equals [a, a], Yes: !And [!Condition A, {Condition: A}]}", "!If [Yes, Europe/Paris, UTC]"),
            ("Conditions: {A: !Equals [a, b], Yes: !Or [!Condition A, !Equals [c, c]]}", "!If [Yes, Europe/Paris, UTC]"),
        ],
    )  # fmt: skip
    def test_a_value_is_resolved(self, read, top, zone):
        [schedule] = read(source(NIGHTLY | {"ScheduleExpressionTimezone": zone}, top=top))

        assert schedule.timezone == "Europe/Paris"

    def test_no_value_takes_the_property_away(self, read):
        zone = {"ScheduleExpressionTimezone": "!If [Paris, Europe/Paris, !Ref AWS::NoValue]"}
        [schedule] = read(source(NIGHTLY | zone, top="Conditions: {Paris: !Equals [a, b]}"))
        assert schedule.timezone == "UTC"

    def test_a_given_parameter_wins_over_its_default(self, read):
        top = "Parameters: {Zone: {Type: String, Default: UTC, AllowedValues: [UTC, Asia/Tokyo]}}"
        text = source(NIGHTLY | {"ScheduleExpressionTimezone": "!Ref Zone"}, top=top)

        assert read(text)[0].timezone == "UTC"
        assert read(text, {"Zone": "Asia/Tokyo"})[0].timezone == "Asia/Tokyo"

    def test_the_input_is_substituted(self, read):
        text = input_of(
            tick=JOB["tick"] | {"schedule": "${AWS::StackName}/Nightly"}, queue="${Queue}"
        )
        top = "Parameters: {Queue: {Type: String, Default: mailers}}"

        [schedule] = read(source(NIGHTLY | {"Input": f"!Sub '{text}'"}, top=top))

        assert schedule.jobs[0]["queue"] == "mailers"
        assert schedule.jobs[0]["tick"]["schedule"] == "app/Nightly"

    def test_pseudo_parameters_have_values_and_may_be_given(self, read):
        names = "${AWS::Partition} ${AWS::Region} ${AWS::AccountId} ${AWS::URLSuffix}"
        text = source(NIGHTLY, more=variables(f"{{A: !Sub '{names}', B: !Sub 'x${{!Y}}'}}"))
        [schedule] = read(text, {"AWS::Region": "eu-west-1"})
        assert schedule.function.environment["A"] == "aws eu-west-1 123456789012 amazonaws.com"
        assert schedule.function.environment["B"] == "x${Y}"  # what Sub takes as it is

    def test_a_function_whose_condition_is_false_has_no_schedules(self, read):
        top = "Conditions: {Never: !Equals [a, b], Always: !Not [!Condition Never]}"
        head, rest = source(NIGHTLY, top=top).split("    Properties:\n", 1)

        for condition, count in (("Never", 0), ("Always", 1)):
            text = f"{head}    Condition: {condition}\n    Properties:\n{rest}"
            assert len(read(text)) == count


class TestFaultsOfFunctions:
    """Each stands for the zone, at line 12: there is one line of sections above."""

    @pytest.mark.parametrize(
        ("top", "zone", "told"),
        [
            ("X: {}", "!GetAtt Queue.Arn", "Fn::GetAtt cannot be known without AWS"),
            ("X: {}", "{'Fn::ImportValue': Zone}", "Fn::ImportValue cannot be known without AWS"),
            ("X: {}", "!Sub '${Queue.Arn}'", "attribute that cannot be known"),
            ("X: {}", "!Ref Enqueue", "is a resource"),
            ("Parameters: {TimeZone: {Type: String}}", "!Ref TimeZon", "not in Parameters (near: TimeZone)"),
            ("Parameters: {TimeZone: {Type: String}}", "!Ref TimeZone", "no Default"),
            ("Parameters: {Z: {Type: 'AWS::SSM::Parameter::Value<String>', Default: z}}", "!Ref Z", "SSM"),
            ("X: {}", "!Ref [a]", "Ref takes a literal text here, not a list"),
            ("X: {}", "!Sub [a]", "Fn::Sub takes a list of 2 arguments"),
            ("Parameters: {Z: {Type: CommaDelimitedList, Default: 'a,b'}}", "!Sub 'x${Z}'", "which is no text"),
            ("X: {}", "!Join [',', abc]", "Fn::Join takes a list, not 'abc'"),
            ("X: {}", "!Select [2, [a, b]]", "index 2 of Fn::Select is outside of a list of 2"),
            ("X: {}", "!Select [x, [a, b]]", "index x of Fn::Select"),
            ("Mappings: {Zones: {eu: {a: b}}}", "!FindInMap [Zone, eu, a]", "no 'Zone' in Mappings (near: Zones)"),
            ("Mappings: {Zones: {eu: {a: b}}}", "!FindInMap [Zones, eu, c]", "no 'c' in Mappings.Zones.eu"),
            ("Conditions: {Prod: !Equals [a, a]}", "!If [Prd, a, b]", "'Prd' is not in Conditions (near: Prod)"),
            ("X: {}", "!If [a, b]", "Fn::If takes a list of 3 arguments"),
            ("X: {}", "!ToJsonString {a: 1}", "Fn::ToJsonString cannot be known without AWS"),
            ("X: {}", "{a: 1}", "must be text, not {'a': 1}"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_resolved_names_line_resource_and_event(self, faults, top, zone, told):
        text = source({"ScheduleExpressionTimezone": zone} | NIGHTLY, top=top)

        [(line, where, message)] = faults(text)

        assert (line, where) == (12, "Enqueue.Nightly")
        assert told in message

    @pytest.mark.parametrize(
        ("conditions", "told"),
        [
            ("{A: !Condition B, B: !Condition A}", "in a circle: A -> B -> A"),
            ("{A: !Ref X}", "a condition is one of"),
            ("{A: text}", "a condition is one of"),
            ("{A: !Equals [a]}", "Fn::Equals takes a list of 2"),
            ("{A: !Not [a, b]}", "Fn::Not takes a list of 1 argument"),
        ],
    )
    def test_a_condition_that_cannot_be_decided_names_its_line(self, faults, conditions, told):
        zone = {"ScheduleExpressionTimezone": "!If [A, UTC, UTC]"}

        [(line, where, message)] = faults(source(NIGHTLY | zone, top=f"Conditions: {conditions}"))

        assert (line, where) == (1, "Enqueue.Nightly")
        assert told in message

    def test_a_given_parameter_must_be_declared_and_allowed(self, faults):
        top = "Parameters: {Zone: {Type: String, Default: UTC, AllowedValues: [UTC]}}"
        text = source(NIGHTLY | {"ScheduleExpressionTimezone": "!Ref Zone"}, top=top)

        assert "'Zoe' is not in Parameters (near: Zone)" in faults(text, {"Zoe": "UTC"})[0][2]
        assert (
            "'Zone' is 'Asia/Tokyo': allowed are UTC" in faults(text, {"Zone": "Asia/Tokyo"})[0][2]
        )


class TestFaultsOfSchedules:
    """The properties of the event begin at line 11."""

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"ScheduleExpression": "cron(61 3 * * ? *)"}, "61"),
            ({"ScheduleExpression": "cron(0 3 * * * *)"}, "?"),
            ({"ScheduleExpression": "0 3 * * *"}, "cron("),
            ({"ScheduleExpression": "rate(1 minutes)"}, "minute"),
            ({"ScheduleExpression": 5}, "must be text, not 5"),
            ({"ScheduleExpression": ""}, "ScheduleExpression is missing"),
            ({"ScheduleExpressionTimezone": "Europe/Pariss"}, "such as Europe/Paris"),
            ({"ScheduleExpressionTimezone": "Europe"}, "is unknown; write"),
            ({"ScheduleExpressionTimezone": "../etc/passwd"}, "is unknown; write"),
            ({"FlexibleTimeWindow": "{Mode: OFF}"}, 'write Mode: "OFF"'),
            ({"FlexibleTimeWindow": "{}"}, "needs a Mode"),
            ({"FlexibleTimeWindow": "{Mode: SOMETIMES}"}, "needs a Mode"),
            ({"FlexibleTimeWindow": "{Mode: FLEXIBLE}"}, "MaximumWindowInMinutes from 1 to 1440"),
            ({"FlexibleTimeWindow": "{Mode: FLEXIBLE, MaximumWindowInMinutes: 1441}"}, "1 to 1440"),
            ({"State": "ON"}, "State is 'ON': write ENABLED or DISABLED"),
            ({"Enabled": "perhaps"}, "Enabled is 'perhaps'"),
            ({"State": "{a: b}"}, "State is {'a': 'b'}"),
            ({"Enabled": "{a: b}"}, "Enabled is {'a': 'b'}"),
            ({"FlexibleTimeWindow": "{Mode: [OFF]}"}, "needs a Mode"),
            ({"State": "!!int x"}, "'x' is no int"),
            ({"StartDate": "tomorrow"}, "StartDate 'tomorrow' is no instant"),
            ({"EndDate": "2027-13-01T00:00:00Z"}, "is no instant"),
            ({"Input": ""}, "Input is missing"),
            ({"Input": "&input {class: Report, args: []}"}, "Input is YAML, not text"),
            ({"Input": '"nonsense'}, "Input is not JSON"),
            ({"Input": '["Report"]'}, "must be a JSON object"),
            ({"Input": "null"}, "must be a JSON object"),
            ({"Input": input_of().replace("[1]", "[NaN]")}, "NaN is no JSON value"),
            ({"Input": input_of(**{"class": None})}, "needs the name of its class"),
            ({"Input": input_of(**{"class": 5})}, "needs the name of its class"),
            ({"Input": input_of(active_job="Both")}, "needs the name of its class"),
            ({"Input": input_of(args=None)}, "needs a list of arguments"),
            ({"Input": input_of(args="1")}, "needs a list of arguments"),
            ({"Input": input_of(queue="")}, "no queue name"),
            ({"Input": input_of(jobs=[])}, "Input.jobs must be a list"),
            ({"Input": input_of(jobs=[7])}, "Input.jobs[0] must be a JSON object"),
            ({"Input": input_of(tick=None)}, "Input has no tick"),
            ({"Input": input_of(tick=JOB["tick"] | {"schedule": "app/Nightlyy"})}, "Input.tick.schedule"),
            ({"Input": input_of(tick=JOB["tick"] | {"schedule": "app/xNightly"})}, "Input.tick.schedule"),
            ({"Input": input_of(tick={"schedule": "app/Nightly"})}, "Input.tick.at is None"),
            ({"Input": input_of(tick=JOB["tick"] | {"at": "now"})}, "Input.tick.at is 'now'"),
            ({"Input": input_of(queue="${Queue}")}, "Input still has '${Queue}"),
            ({"Input": input_of(args=["<aws.scheduler.time>"])}, "'<aws.scheduler.time>', which"),
        ],
    )  # fmt: skip
    def test_a_wrong_property_names_its_line_resource_and_event(self, faults, changes, told):
        text = source(
            changes | {key: value for key, value in NIGHTLY.items() if key not in changes}
        )

        [(line, where, message)] = faults(text)

        assert (line, where) == (11, "Enqueue.Nightly")
        assert told in message

    @pytest.mark.parametrize("name", ["ScheduleExpression", "Input"])
    def test_a_missing_property_names_the_line_of_the_event(self, faults, name):
        text = source({key: value for key, value in NIGHTLY.items() if key != name})

        assert faults(text) == [(8, "Enqueue.Nightly", f"{name} is missing: write one")]

    def test_an_end_before_the_start_and_two_schedules_of_one_name(self, faults):
        bounds = {"StartDate": "2027-01-02T00:00:00Z", "EndDate": "2027-01-01T00:00:00Z"}
        [found] = faults(source(bounds | NIGHTLY))
        assert found == (12, "Enqueue.Nightly", "EndDate is not after StartDate")
        text = source(NIGHTLY)
        second = text.replace("Resources:\n", "").replace("  Enqueue:", "  Other:")
        [(line, where, message)] = faults(text + second)
        assert (line, where) == (19, "Other.Nightly")
        assert "Enqueue has a schedule Nightly too" in message

    def test_a_rule_event_has_no_zone_and_no_scheduled_time(self, faults):
        properties = {"Schedule": "rate(5 minutes)", "ScheduleExpressionTimezone": "Europe/Paris"}

        found = faults(source(properties | {"Input": input_of()}, kind="Schedule"))

        assert [line for line, _, _ in found] == [12, 13, 13]
        assert "has UTC only" in found[0][2]
        assert "a Schedule event does not fill in" in found[1][2]
        assert "every firing would look like the first" in found[2][2]


class TestFaultsOfFiles:
    @pytest.mark.parametrize(
        ("text", "line", "told"),
        [
            ("- a\n", 1, "a template must be a mapping"),
            ("text\n", 1, "a template must be a mapping"),
            ("A: 1\n---\nB: 2\n", 2, "not YAML"),
            ("Resources:\n  A: [1\n  B: 2\n", 3, "not YAML"),
            ("Resources: []\n", 1, "Resources must be a mapping"),
            ("Resources:\n  A: text\n", 2, "a resource must be a mapping"),
            ("Resources:\n  A:\n    Properties: {}\n", 2, "has no Type"),
            ("Resources:\n  A: {}\n  A: {}\n", 3, "'A' twice (also at line 2)"),
            ("Resources:\n  A: \x00\n", 1, "not YAML"),
        ],
    )
    def test_a_file_of_another_shape(self, faults, text, line, told):
        [(found, _, message)] = faults(text)

        assert found == line
        assert told in message

    def test_a_tag_never_makes_an_object(self, faults, tmp_path):
        zone = f"!!python/object/apply:os.mkdir [{tmp_path / 'made'}]"

        [(line, _, message)] = faults(source(NIGHTLY | {"ScheduleExpressionTimezone": zone}))

        assert line == 13
        assert "must be text" in message
        assert not (tmp_path / "made").exists()

    def test_events_that_are_no_mapping(self, faults):
        text = source(NIGHTLY).replace("      Events:", "      Events: []\n      Ignored:")

        [(line, where, message)] = faults(text)

        assert (line, where) == (7, "Enqueue")
        assert "Events must be a mapping" in message

    def test_a_file_that_is_missing_or_no_text(self, tmp_path):
        with pytest.raises(TemplateError, match=r"none\.yaml:1: the template cannot be read"):
            read_schedules(tmp_path / "none.yaml")
        path = tmp_path / "template.yaml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(TemplateError, match="not UTF-8"):
            read_schedules(path)


class TestAllowLists:
    @pytest.fixture
    def problems(self, read):
        def problems(lists):
            text = source(NIGHTLY, more=variables(lists))
            return [str(problem) for problem in allow_list_problems(read(text))]

        return problems

    @pytest.mark.parametrize("globs", ["Report", "'A, Re*'", "'*'", "!ImportValue X"])
    def test_a_job_that_matches_is_allowed_and_what_only_aws_knows_not_judged(
        self, problems, globs
    ):
        lists = f"{{KIQBRIDGE_ALLOWED_CLASSES: {globs}, KIQBRIDGE_ALLOWED_QUEUES: low}}"
        assert problems(lists) == []

    def test_a_job_that_the_function_would_refuse_is_told(self, problems):
        found = problems("{KIQBRIDGE_ALLOWED_CLASSES: Other, KIQBRIDGE_ALLOWED_QUEUES: ''}")

        assert len(found) == 2
        assert "template.yaml:9 Enqueue.Nightly: 'Report' is not allowed" in found[0]
        assert "'low' is not allowed by KIQBRIDGE_ALLOWED_QUEUES=''" in found[1]


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "template.yaml"

    def test_it_prints_each_schedule_with_its_zone_and_next_firing(self, path, capsys):
        zone = {"ScheduleExpressionTimezone": "!Ref Zone"}
        path.write_text(source(NIGHTLY | zone, top="Parameters: {Zone: {Type: String}}"))
        assert main([str(path), "--parameter", "Zone=Europe/Paris"], now=NOW) == 0
        assert capsys.readouterr().out == (
            "Enqueue.Nightly  cron(0 3 * * ? *)  Europe/Paris"
            "  next Wed 2026-11-11 03:00 CET = 2026-11-11 02:00 UTC\n"
        )

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"State": "DISABLED"}, "disabled"),
            ({"EndDate": "2020-01-01T00:00:00Z"}, "never fires again"),
            ({"ScheduleExpression": "rate(5 minutes)"}, "counts from its deployment"),
        ],
    )
    def test_a_schedule_without_a_next_firing_says_why(self, path, capsys, changes, told):
        path.write_text(source(NIGHTLY | changes))

        assert main([str(path)], now=NOW) == 0
        assert told in capsys.readouterr().out

    def test_it_prints_every_error_and_ends_with_1(self, path, capsys):
        wrong = {"ScheduleExpression": "cron(61 3 * * ? *)", "ScheduleExpressionTimezone": "Mars"}
        path.write_text(source(NIGHTLY | wrong))
        assert main([str(path)], now=NOW) == 1
        first, second = capsys.readouterr().out.splitlines()
        assert first.startswith(f"error: {path}:11 Enqueue.Nightly: ")
        assert second.startswith(f"error: {path}:13 Enqueue.Nightly: time zone 'Mars' is unknown")
        path.write_text(source(NIGHTLY, more=variables("{KIQBRIDGE_ALLOWED_CLASSES: Other}")))
        assert main([str(path)], now=NOW) == 1
        assert "'Report' is not allowed" in capsys.readouterr().out

    def test_it_runs_as_a_module_without_warnings(self, path):
        path.write_text(source(NIGHTLY))
        worker = Path(__file__).parents[3] / "worker"

        run = subprocess.run(
            [sys.executable, "-W", "error", "-m", "kiqbridge.schedule.check", str(path)],
            env={"PYTHONPATH": str(worker)},
            capture_output=True,
            text=True,
            check=False,
        )

        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout.startswith("Enqueue.Nightly")
