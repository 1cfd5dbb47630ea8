"""One mapping for each family of sources: a recorded event becomes exactly these jobs.

`python tests/features/test_golden_mappings.py` prints what the mappings make today.
"""

import json
import sys
from pathlib import Path

import pytest

from kiqbridge.aws import sources
from kiqbridge.aws.record import leaves
from kiqbridge.aws.requests import read_jobs
from kiqbridge.features.mappings import check, declared
from kiqbridge.features.mappings.document import load
from kiqbridge.features.mappings.mapper import Mapper
from kiqbridge.wire.guards import Identity

FOLDER = Path(__file__).parent
FILE = FOLDER / "golden_mappings.yml"
GOLDEN = FOLDER / "golden_mappings.json"
NOW = 1_700_000_000.0
DOCUMENT = load(FILE)
DECLARED = declared.read(DOCUMENT)
CASES = [(each.name, example) for each in DECLARED.mappings for example in each.examples]


def jobs_of(event):
    """Each job, with what a repeated delivery is recognized by."""
    mapper = Mapper(DOCUMENT, DECLARED)
    return [
        [dict(job.item), key_of(job.dedupe_key)]
        for record in sources.read(event).records
        for job in read_jobs(record, NOW, mapper).jobs
    ]


def key_of(key):
    return f"{key.source} {' '.join(key.parts)}" if isinstance(key, Identity) else key


def event_of(example):
    return json.loads((FOLDER / example).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "example"), CASES, ids=lambda text: text.rpartition("/")[2])
def test_a_recorded_event_becomes_exactly_these_jobs(name, example):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))

    assert jobs_of(event_of(example)) == golden[name][example]


def test_every_family_of_sources_has_a_mapping():
    taken = {
        leaf.source
        for _, example in CASES
        for record in sources.read(event_of(example)).records
        for leaf in leaves(record)
    }

    assert taken >= {
        *("bus", "s3", "s3-batch", "sqs", "sns", "dynamodb", "kinesis", "logs", "destination"),
        *("schedule", "cloudwatch-alarm", "cognito", "ses", "codepipeline", "config", "connect"),
        *("iot-registry", "direct"),
    }


def test_make_check_runs_them_all(capsys):
    assert check.main([str(FILE)]) == 0

    lines = capsys.readouterr().out
    assert all(f"  {Path(example).name}: " in lines for _, example in CASES)


def test_an_http_request_that_is_no_job_is_mapped_by_its_route(tmp_path):
    path = tmp_path / "mappings.yml"
    path.write_text(
        "mappings:\n"
        "  - match: {source: http, route: POST /jobs}\n"
        "    class: Order\n"
        "    args: [body.order, caller.name, query.parameter2]\n",
        encoding="utf-8",
    )
    event = event_of("../kernel/lambdas/events/http/api_iam.json") | {"body": '{"order": 17}'}
    event["isBase64Encoded"] = False
    [record] = sources.read(event).records

    found = load(path)
    [job] = read_jobs(record, NOW, Mapper(found, declared.read(found))).jobs

    assert job.item == {
        "class": "Order",
        "args": [17, "123456789012 AROAEXAMPLEROLEID4321", "value"],
    }


if __name__ == "__main__":
    golden = {}
    for name, example in CASES:
        golden.setdefault(name, {})[example] = jobs_of(event_of(example))
    json.dump(golden, sys.stdout, ensure_ascii=False, indent=2)
