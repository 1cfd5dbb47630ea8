"""JSON schemas of arguments: what they refuse is named, what they hold is never shown."""

import pytest
from support.mappings import document_of

from kiqbridge.aws.mapping.schemas import JobSchemas, SchemaFault, compiled
from kiqbridge.errors import ConfigError, PayloadError

MAIL = """
    schemas:
      Mail:
        type: array
        minItems: 1
        items:
          - type: object
            required: [id]
            properties:
              id: {type: integer}
              to: {type: string, pattern: "@", default: "x@y"}
    """


@pytest.fixture
def schemas(tmp_path):
    document = document_of(tmp_path, MAIL)
    return JobSchemas(document, document.content["schemas"])


def job(*args, name="Mail", **others):
    return {"class": name, "args": list(args), **others}


@pytest.mark.parametrize(
    "item",
    [
        job({"id": 5}),
        job({"id": 5, "to": "a@b"}, "more"),
        job("anything", name="Other"),
        {"active_job": "Mail", "args": [{"id": 5}]},
        job({"job_class": "Mail", "arguments": [{"id": 5}]}, name="Sidekiq::ActiveJob::Wrapper"),
        job({"job_class": "Other", "arguments": []}, name="Sidekiq::ActiveJob::Wrapper"),
    ],
)
def test_arguments_that_fit_pass_unchanged(schemas, item):
    before = repr(item)

    schemas.check(item)

    assert repr(item) == before


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (job({"id": "secret"}), "args[0].id: must be integer"),
        (job({"id": 5, "to": "secret"}), "args[0].to: must match pattern @"),
        (job({}), "args[0]: must contain ['id'] properties"),
        (job(), "args: must contain at least 1 items"),
        (job("secret"), "args[0]: must be object"),
        ({"active_job": "Mail", "args": [{"id": "secret"}]}, "args[0].id: must be integer"),
        (
            {"active_job": "Mail", "args": [], "kwargs": {"id": "secret"}},
            "args[0].id: must be integer",
        ),
        (
            job(
                {"job_class": "Mail", "arguments": [{"id": 0.5}]},
                name="Sidekiq::ActiveJob::Wrapper",
            ),
            "args[0].arguments[0].id: must be integer",
        ),
        (
            job({"job_class": "Mail"}, name="Sidekiq::ActiveJob::Wrapper"),
            "args[0].arguments: must be array",
        ),
    ],
)
def test_the_refusal_names_the_field_and_shows_no_value(schemas, item, message):
    with pytest.raises(PayloadError) as raised:
        schemas.check(item)

    assert str(raised.value) == f"{message} (JSON schema of Mail in mappings.yml)"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strin"}, "this is not a JSON schema of draft 4, 6 or 7: Unknown type: 'strin'"),
        ({"items": 5}, "this is not a JSON schema of draft 4, 6 or 7: "),
        ({"pattern": "("}, "this is not a JSON schema of draft 4, 6 or 7: "),
        ({"$ref": "#/nowhere"}, "this is not a JSON schema of draft 4, 6 or 7: Unresolvable ref"),
        ({"$ref": "http://127.0.0.1:1/a.json"}, "$ref: 'http://127.0.0.1:1/a.json' is in another"),
        ({"items": [{"$ref": "file:///etc/passwd"}]}, "$ref: 'file:///etc/passwd' is in another"),
        ({"$id": "http://127.0.0.1:1/", "$ref": "#foo"}, "this is not a JSON schema"),
        (
            {"$schema": "https://json-schema.org/draft/2020-12/schema"},
            "$schema: 'https://json-schema.org/draft/2020-12/schema' is not draft 4, 6 or 7",
        ),
        ({"prefixItems": [{"type": "integer"}]}, "prefixItems: belongs to a later draft"),
    ],
)
def test_a_schema_that_would_not_be_kept_is_refused(schema, message):
    with pytest.raises(SchemaFault) as raised:
        compiled(schema)

    assert str(raised.value).startswith(message)


def test_a_wrong_schema_is_a_fault_of_the_file(tmp_path):
    document = document_of(tmp_path, "schemas:\n  A: {type: strin}")

    with pytest.raises(ConfigError, match=r"mappings.yml:2 schemas.A: this is not a JSON schema"):
        JobSchemas(document, document.content["schemas"]).check(job(name="A"))


def test_definitions_of_the_same_schema_may_be_used(schemas):
    schema = {"items": [{"$ref": "#/definitions/id"}], "definitions": {"id": {"type": "integer"}}}

    compiled(schema)([5], name_prefix="args")
