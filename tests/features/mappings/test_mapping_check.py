"""`make check` of mappings: the jobs of the examples, or every fault with file, line and key."""

import json
import re
import textwrap

import pytest
from support.enqueue_function import EVENTS, ROOT, event_file
from support.mappings import write

from kiqbridge.features.mappings.check import main

SHIPPED = ROOT / "lambdas" / "enqueue" / "mappings.yml"
TEMPLATE = ROOT / "template.yaml"
S3 = "s3_object_created.json"
ONE = """\
    mappings:
      - match: {source: aws.s3}
        class: HealthPulse
        args: [detail.object.key]
        example: s3_object_created.json
    """


ALONE = textwrap.dedent(ONE)


@pytest.fixture
def check(tmp_path, capsys):
    """Exit code and lines for a text; recorded events lie beside it."""

    def check(text, *arguments, template=TEMPLATE):
        (tmp_path / S3).write_text(
            event_file("s3_object_created").read_text(encoding="utf-8"), encoding="utf-8"
        )
        path = write(tmp_path, text)
        code = main([str(path), "--template", str(template), *arguments])
        return code, capsys.readouterr().out.splitlines()

    return check


def test_an_example_shows_its_job(check):
    key = json.loads(event_file("s3_object_created").read_text(encoding="utf-8"))["detail"][
        "object"
    ]["key"]

    assert check(ONE) == (
        0,
        [
            "mappings.yml:2 mappings[0]: source aws.s3 → HealthPulse",
            f'  s3_object_created.json: HealthPulse ["{key}"] into default',
        ],
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("detail.object.key", "detail.object.kee"), "mappings.yml:5 mappings[0].example[0]: s3_object_"),
        (("detail.object.key", "detail.object.kee"), "mappings.yml:4 mappings[0].args[0]: detail.object.kee"),
        (("detail.object.key", "detail-x"), "mappings.yml:4 mappings[0].args[0]: 'detail-x' is not a JMES"),
        (("[detail.object.key]", '"lenth(a)"'), "mappings.yml:4 mappings[0].args: 'lenth(a)': there is no"),
        *(
            (("class:", f"{key}: a-b\n        class:"), f"mappings.yml:3 mappings[0].{key}: 'a-b' is")
            for key in ("filter", "each", "dedupe_key", "at")
        ),
        (("HealthPulse", "Kernel"), "mappings.yml:2 mappings[0]: class: 'Kernel' is not among the classes"),
        (("class:", "queue: other\n        class:"), "mappings[0]: queue: 'other' is not among the queues"),
        (("class:", "clas:"), "mappings.yml:3 mappings[0].clas: is not known here; did you mean class?"),
        (("aws.s3", "sqs"), "this mapping does not take it; it has source: bus, origin: aws.s3, detail-type"),
        (("class:", "filter: nothing\n        class:"), "the filter of mappings.yml:2 mappings[0] leaves it out"),
        (("s3_object_created.json", "nothing.json"), "nothing.json: this is not a file with an event as JSON"),
        (
            ("mappings:", "mappings:\n      - {match: {source: bus}, name: all, class: HealthPulse}"),
            "mappings.yml:2 mappings[0] (all) takes it before",
        ),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_and_key(check, change, message):
    code, lines = check(ONE.replace(*change))
    assert code == 1
    assert all(line.startswith("error: mappings.yml:") for line in lines)
    assert [line for line in lines if message in line]


def test_an_example_that_is_a_job_is_not_mapped(check):
    text = ONE.replace("source: aws.s3", 'source: "*"').replace("s3_object_created", "bus_event")

    code, lines = check(text.replace("bus_event", str(EVENTS / "bus_event")))

    assert code == 1
    assert "this mapping does not take it; it is a job by itself" in lines[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{ALONE}schemas:\n  A: {{type: strin}}\n", "strin"),
        (
            f"{ALONE}schemas:\n  HealthPulse: {{items: [{{type: integer}}]}}\n",
            "s3_object_created.json: args[0]: must be integer (JSON schema of HealthPulse",
        ),
        (
            "schemas: {HealthPulse: {minItems: 9}}",
            "mappings.yml:1 schemas: EnqueueFunction.HealthPulse: args: must contain at least 9",
        ),
    ],
)
def test_a_schema_is_compiled_and_examples_and_schedules_must_fit_it(check, text, told):
    code, lines = check(text)
    assert code == 1
    assert told in lines[0]


def test_the_rules_per_source_count_for_examples_and_for_the_schedules_of_the_template(check):
    allow = "allow: [{source: bus, classes: [HealthPulse], queues: [default]}]\n"
    code, lines = check(ALONE + allow)
    assert code == 1
    refused = "error: mappings.yml:6 allow: EnqueueFunction.\\w+: source "
    assert all(re.match(refused, line) for line in lines)
    others = ", {source: '*', classes: ['*'], queues: ['*'], ticks: ['*/*']}]\n"
    lifted = ALONE + allow.replace("]\n", others)
    assert check(lifted)[0] == 0
    code, lines = check(lifted.replace("source: bus", "source: sqs").replace("'*', c", "direct, c"))
    assert code == 1
    assert "mappings[0].example[0]: s3_object_created.json: source 'bus'" in lines[0]


def test_rules_that_let_nobody_tick_a_schedule_of_the_template_are_a_fault(check):
    code, lines = check(
        "allow: [{source: direct, classes: ['*'], queues: ['*'], ticks: ['*/Others*']}]"
    )

    assert code == 1
    assert [line for line in lines if "HealthPulse:" in line]
    assert all(
        "tick.schedule: '" in line and " is not among the ticks of " in line for line in lines
    )


@pytest.mark.parametrize(
    ("trusted", "alias", "code"),
    [("", "", 1), ("live", "", 0), ("green", "", 1), ("", ", alias: live", 0)],
)
def test_rules_count_for_the_alias_that_the_schedules_invoke(check, tmp_path, trusted, alias, code):
    text = TEMPLATE.read_text(encoding="utf-8")
    handler = "      CodeUri: lambdas/enqueue\n"
    variable = "          KIQBRIDGE_STACK: "
    assert text.count(handler) == text.count(variable) == 1
    text = text.replace(handler, f"{handler}      AutoPublishAlias: live\n")
    text = text.replace(variable, f"          KIQBRIDGE_TRUSTED_ALIAS: '{trusted}'\n{variable}")
    template = tmp_path / "template.yaml"
    template.write_text(text, encoding="utf-8")

    found, lines = check(
        f"allow: [{{source: direct, classes: ['*'], queues: ['*'], ticks: ['*']{alias}}}]",
        template=template,
    )

    assert found == code, lines
    assert ("invoked as 'live'" in lines[0]) == bool(code)


def test_the_answers_of_make_deploy_count(check, tmp_path):
    answers = tmp_path / "samconfig.local.toml"
    answers.write_text(
        '[default.deploy.parameters]\nparameter_overrides = ["AllowedClasses=Kernel,Thumbnail"]\n'
    )
    text = ONE.replace("HealthPulse", "Thumbnail")

    assert check(text)[0] == 1
    assert check(text, "--answers", str(answers))[0] == 0


def test_json_is_written_only_if_all_is_well(check, tmp_path):
    output = tmp_path / "out.json"

    assert check(ONE.replace("class", "clas"), "--json", str(output))[0] == 1
    assert not output.exists()
    assert check("# nothing", "--json", str(output))[0] == 0
    assert not output.exists()
    assert check(ONE, "--json", str(output))[0] == 0
    assert json.loads(output.read_text())["content"]["mappings"][0]["class"] == "HealthPulse"


def test_the_shipped_file_has_no_active_mapping_and_right_examples(tmp_path, capsys):
    assert main([str(SHIPPED), "--template", str(TEMPLATE)]) == 0
    assert capsys.readouterr().out.endswith("mappings.yml: no mappings\n")
    text = SHIPPED.read_text(encoding="utf-8")
    head, examples = text.split("\n\n", maxsplit=1)
    assert all(line.startswith("#") for line in head.splitlines())
    active = re.sub(r"^# ?", "", examples, flags=re.MULTILINE)
    path = write(tmp_path, active.replace("../../events", str(ROOT / "events")))
    code = main([str(path), "--template", str(TEMPLATE)])
    lines = capsys.readouterr().out
    assert code == 0, lines
    assert re.findall(r"^\S+ mappings\[\d\] \(.*?\)", lines, re.MULTILINE) == [
        "mappings.yml:3 mappings[0] (new object)",
        "mappings.yml:13 mappings[1] (order lines)",
    ]
    assert '  s3_object_created.json: HealthPulse ["' in lines
    assert "3 rules" in lines and "schemas: of NightlyReport" in lines
