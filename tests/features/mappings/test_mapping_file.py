"""The file of mappings: where it is, what it declares, and each fault with its line and key."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mappings import document_of, write
from support.processes import run_python

from kiqbridge.errors import ConfigError, EventError, PayloadError
from kiqbridge.features.mappings import declared
from kiqbridge.features.mappings.document import (
    Document,
    JobSchemas,
    SchemaFault,
    compiled,
    find,
    load,
)
from kiqbridge.features.mappings.expressions import ExpressionFault, check_expression, search

TEXT = """\
# mappings
mappings:
  - match:
      source: s3
    args: [a,
           {b: c}]
  - class: "B.c"
schemas:
  A: {type: array}
"""


class TestFind:
    def test_it_is_mappings_yml_beside_the_function_or_what_the_build_made_of_it(self, tmp_path):
        assert find(tmp_path) is None
        path = write(tmp_path, TEXT)
        assert find(tmp_path) == path
        built = write(tmp_path, "{}", "mappings.json")
        assert find(tmp_path) == find(tmp_path, "mappings.yml") == built

    def test_another_one_can_be_named_and_must_exist(self, tmp_path):
        write(tmp_path, TEXT)
        other = write(tmp_path, TEXT, "staging.yml")
        assert find(tmp_path, "staging.yml") == find(tmp_path / "x", str(other)) == other
        with pytest.raises(ConfigError, match=r"KIQBRIDGE_MAPPINGS names .*none.yml, which does"):
            find(tmp_path, "none.yml")


class TestLoad:
    def test_the_line_of_each_key_is_known(self, tmp_path):
        found = document_of(tmp_path, TEXT)

        assert found.content == {
            "mappings": [{"match": {"source": "s3"}, "args": ["a", {"b": "c"}]}, {"class": "B.c"}],
            "schemas": {"A": {"type": "array"}},
        }
        lines = {
            path: found.line(path)
            for path in (
                *("mappings[0]", "mappings[0].match", "mappings[0].match.source"),
                *("mappings[0].args", "mappings[0].args[1].b", "schemas", "schemas.A"),
            )
        }
        assert list(lines.values()) == [3, 3, 4, 5, 6, 8, 9]

    def test_what_is_not_there_has_the_line_of_what_it_would_lie_in(self, tmp_path):
        found = document_of(tmp_path, TEXT)

        assert found.place("mappings[1].args[3].x") == "mappings.yml:7 mappings[1].args[3].x"
        assert found.place("nothing") == "mappings.yml:2 nothing"
        assert found.place("") == "mappings.yml:2"

    def test_json_says_the_same_with_the_same_lines(self, tmp_path):
        found = document_of(tmp_path, TEXT)
        path = write(tmp_path, found.as_json(), "mappings.json")

        assert load(path) == found

    @pytest.mark.parametrize("text", ["", "\n\n", "# only\n  # comments\n"])
    def test_comments_declare_nothing(self, tmp_path, text):
        assert load(write(tmp_path, text)) is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: [", "2: this is not YAML: "),
            ("a: 1\nb: !Ref c", "2: b: !Ref has no meaning here; write the value itself"),
            ("a: 1\na: 2", "2: the file has 'a' twice (also at line 1)"),
            ("a: &b\n  c: *b", "1: an anchor contains itself"),
            ("schemas:\n  A: a.json", "2 schemas.A: 'a.json' is not a file with JSON: [Errno 2]"),
        ],
    )
    def test_what_cannot_be_read_names_the_line(self, tmp_path, text, message):
        with pytest.raises(ConfigError) as raised:
            load(write(tmp_path, f"{text}\n"))
        assert str(raised.value).startswith(f"mappings.yml:{message}")

    def test_a_schema_may_be_a_file_beside_it(self, tmp_path):
        write(tmp_path, '{"type": "array"}', "a.json")
        found = document_of(tmp_path, "schemas: {A: a.json}")
        assert found.content == {"schemas": {"A": {"type": "array"}}}

    @pytest.mark.parametrize("text", ["", "[]", '{"file": "a"}', "{"])
    def test_json_that_the_build_did_not_write_and_bytes_are_refused(self, tmp_path, text):
        refusal = r"mappings.json: this is not what `make build` writes"
        with pytest.raises(ConfigError, match=refusal):
            load(write(tmp_path, text, "mappings.json"))
        (tmp_path / "mappings.yml").write_bytes(b"\xff")
        with pytest.raises(ConfigError, match="the mappings cannot be read"):
            load(tmp_path / "mappings.yml")

    def test_without_pyyaml_the_message_says_what_to_do(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "kiqbridge.schedule.yaml_nodes", None)
        monkeypatch.delattr("kiqbridge.schedule.yaml_nodes", raising=False)

        with pytest.raises(
            ConfigError, match="PyYAML is needed to read it; deploy with `make deploy`"
        ):
            load(write(tmp_path, TEXT))


HEAVY = {"yaml", "jmespath", "fastjsonschema"}
MAPPER = "kiqbridge.features.mappings.mapper"


def loaded_by_a_function(folder):
    """The modules of a function with these files beside it."""
    script = (
        "import sys; from pathlib import Path; from kiqbridge.aws.enqueue import Enqueuer;"
        f"Enqueuer.from_environment({{'REDIS_URL': 'redis://127.0.0.1:1'}}, Path({str(folder)!r}));"
        "print(*sys.modules)"
    )
    return run_python(script).stdout.split()


@pytest.mark.parametrize("text", [None, "# nothing\n"])
def test_a_function_without_mappings_loads_nothing_for_them(tmp_path, text):
    if text is not None:
        write(tmp_path, text)
    assert (HEAVY | {MAPPER}).isdisjoint(loaded_by_a_function(tmp_path))


def test_a_function_with_mappings_loads_jmespath_when_an_event_needs_it(tmp_path):
    text = "mappings: [{match: {source: s3}, class: A, args: [a]}]"
    write(tmp_path, document_of(tmp_path, text).as_json(), "mappings.json")
    loaded = loaded_by_a_function(tmp_path)
    assert HEAVY.isdisjoint(loaded)
    assert MAPPER in loaded


ONE = "mappings:\n  - match: {source: s3}\n    class: A\n"


def faults(folder, text):
    document = document_of(folder, text)
    return [f"{document.place(path)}: {text}" for path, text in declared.examine(document)[1]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- a", "mappings.yml:1: ['a'] is no mapping (key: value) with the keys mappings, allow"),
        ("mapping: []", "mappings.yml:1 mapping: is not known here; did you mean mappings?"),
        ("mappings: 5", "mappings.yml:1 mappings: 5 is no list"),
        ("mappings:\n  - 5", "mappings.yml:2 mappings[0]: 5 is no mapping (key: value) with the"),
        ("mappings:\n  - class: A", "mappings.yml:2 mappings[0].match: None is no mapping"),
        (ONE.replace("source: s3", ""), "mappings.yml:2 mappings[0].match: names nothing"),
        (
            ONE.replace("source: s3", "source: 5"),
            "mappings.yml:2 mappings[0].match.source: 5 is neither a text nor a list of texts",
        ),
        (f"{ONE}    que: low", "mappings.yml:4 mappings[0].que: is not known here; did you mean queue?"),
        (
            ONE.replace("class: A", "queue: low"),
            "mappings.yml:2 mappings[0]: has no class; write class: NAME, or active_job: NAME",
        ),
        (ONE.replace("class: A", "class: A b"), "mappings.yml:3 mappings[0].class: 'A b' is not a plain"),
        (ONE.replace("class: A", "class: 5"), "mappings.yml:3 mappings[0].class: 5 is not the name"),
        (f"{ONE}    queue: 5", "mappings.yml:4 mappings[0].queue: 5 is not a queue name"),
        (f"{ONE}    active_job: B", "mappings.yml:3 mappings[0].class: 'A' cannot be given together"),
        (f"{ONE}    args: 5", "mappings.yml:4 mappings[0].args: 5 is neither a list of expressions"),
        (f"{ONE}    filter: 5", "mappings.yml:4 mappings[0].filter: 5 is no text; put it in quotation"),
        (f"{ONE}    in: 5\n    at: b", "mappings.yml:5 mappings[0].at: cannot be given together with in"),
        (f"{ONE}    in: true", "mappings.yml:4 mappings[0].in: True is no number and no expression"),
        (f"{ONE}    options:\n      tags: 5", "mappings.yml:5 mappings[0].options.tags: 5 is not a list"),
        (f"{ONE}    options: {{args: []}}", "mappings[0].options.args: is no option; write it beside"),
        (f"{ONE}    options: {{tick: 1}}", "mappings[0].options.tick: is no option"),
        (f"{ONE}    allow_null: 1", "mappings.yml:4 mappings[0].allow_null: 1 is neither true nor false"),
        (f"{ONE}    jobs:\n      - class: B", "mappings.yml:3 mappings[0].class: cannot stand beside jobs"),
        (ONE.replace("class: A", "jobs: []"), "mappings.yml:3 mappings[0].jobs: is empty"),
        (
            ONE.replace("class: A", "jobs:\n      - {class: A}\n      - queue: b"),
            "mappings.yml:5 mappings[0].jobs[1]: has no class",
        ),
        (
            ONE.replace("class: A", "jobs:\n      - class: A\n        match: {}"),
            "mappings.yml:5 mappings[0].jobs[0].match: is not known here; known are class, active_job",
        ),
        ("allow: 5", "mappings.yml:1 allow: 5 is no list"),
        ("allow:\n  - classes: [A]", "mappings.yml:2 allow[0]: has no source"),
        ("allow:\n  - {source: a, class: A}", "mappings.yml:2 allow[0].class: is not known here; did you"),
        ("schemas: 5", "mappings.yml:1 schemas: 5 is no mapping of classes to JSON schemas"),
        ("schemas:\n  A: 5", "mappings.yml:2 schemas.A: 5 is no JSON schema"),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_and_key(tmp_path, text, fault):
    assert [each for each in faults(tmp_path, text) if each.startswith(fault) or fault in each]


def test_all_faults_are_reported_together(tmp_path):
    text = f"{ONE}    que: low\n  - match: {{source: a}}\n    class: 5\nallow: 1"

    with pytest.raises(ConfigError) as raised:
        declared.read(document_of(tmp_path, text))

    assert [line.split(": ")[0] for line in str(raised.value).splitlines()] == [
        "mappings.yml:4 mappings[0].que",
        "mappings.yml:6 mappings[1].class",
        "mappings.yml:7 allow",
    ]


def test_what_is_right_has_no_faults(tmp_path):
    text = """
        mappings:
          - name: thumbnails
            match: {source: s3, suffix: [.jpg, .png]}
            filter: size > `0`
            class: Thumbnail
            queue: low
            args: [key, {size: size}]
            options: {retry: 3}
            dedupe_key: key
            in: 60
            example: [a.json]
          - match: {source: "*"}
            each: items
            jobs: [{class: A}, {active_job: B, at: item.at}]
            allow_null: true
        allow:
          - {source: sqs, origin: "arn:*", classes: [A], queues: ["*"]}
          - source: [direct, bus]
        schemas:
          A: {type: array}
        """
    found, problems = declared.examine(document_of(tmp_path, text))

    assert problems == []
    assert [(each.name, len(each.jobs)) for each in found.mappings] == [("thumbnails", 1), ("", 2)]
    assert [(rule.sources, rule.origins, rule.classes) for rule in found.rules] == [
        (("sqs",), ("arn:*",), ("A",)),
        (("direct", "bus"), ("*",), ()),
    ]
    assert found.schemas == {"A": {"type": "array"}}


@pytest.mark.parametrize("text", ["mappings:", "allow:\nschemas:", "{}"])
def test_empty_sections_declare_nothing_and_an_empty_list_of_rules_allows_nothing(tmp_path, text):
    assert faults(tmp_path, text) == []
    assert declared.read(document_of(tmp_path, "allow: []")).rules == ()
    assert declared.read(document_of(tmp_path, "mappings: []")).rules is None


PARTS = st.sampled_from(
    [
        *("mappings", "allow", "schemas", "match", "class", "args", "jobs", "each", "in", "at"),
        *("queue", "active_job", "options", "source", "classes", "filter", "dedupe_key", "example"),
        "tags",
    ]
)
CONTENT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | PARTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(PARTS | st.text(), inner, max_size=5)
    ),
)


@settings(deadline=None)
@given(content=CONTENT | st.fixed_dictionaries({"mappings": st.lists(CONTENT)}))
def test_any_content_has_faults_or_is_declared(content):
    document = Document(file="mappings.yml", content=content)
    found, problems = declared.examine(document)

    assert all(document.place(fault.path) for fault in problems)
    assert problems or all(each.jobs and each.match for each in found.mappings)


@pytest.mark.parametrize(
    "text",
    [
        *("detail.id", '"detail-type"', "Records[0].body", "join('/', [a, b])", "merge(a, b, c)"),
        *("max_by(items, &size).id", "items[?size > `5`] | [0]", "powertools_json(body).id"),
        "'a fixed text'",
    ],
)
def test_an_expression_passes(text):
    check_expression(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "$.detail.id",
            "Unknown token $; a path begins with a name: write detail.id, not $.detail.id",
        ),
        ("detail-type", "Unknown token '-'; a name with a hyphen stands in double quotes"),
        ("a fixed text", "a fixed text stands in single quotes within the expression: 'text'"),
        ("", "'' is not a JMESPath expression: Invalid JMESPath expression: cannot be empty"),
        ("a[", "'a[' is not a JMESPath expression: Invalid jmespath expression: Incomplete"),
        ("(" * 10_000, "is not a JMESPath expression: "),
        ("items[?lenth(@) > `1`]", "there is no function lenth; did you mean length?"),
        ("length()", "the function length takes 1 arguments, not 0"),
        ("keys(a, b)", "the function keys takes 1 arguments, not 2"),
        ("a.{b: starts_with(c)}", "the function starts_with takes 2 arguments, not 1"),
    ],
)
def test_a_fault_says_what_to_write(text, fault):
    with pytest.raises(ExpressionFault) as raised:
        check_expression(text)

    assert fault in str(raised.value)


def test_one_that_was_not_checked_refuses_the_event():
    with pytest.raises(EventError, match="'a\\[' is not a JMESPath expression"):
        search("a[", {})
    with pytest.raises(EventError, match="cannot be evaluated over this event: Unknown function"):
        search("lenth(a)", {})


def test_it_is_compiled_once(monkeypatch):
    search("a.b", {})
    monkeypatch.setattr("jmespath.compile", None)

    assert search("a.b", {"a": {"b": 5}}) == 5


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


ACTIVE = {"active_job": "Mail", "args": []}


def wrapped(**inner):
    return job(inner, name="Sidekiq::ActiveJob::Wrapper")


@pytest.mark.parametrize(
    "item",
    [
        job({"id": 5}),
        job({"id": 5, "to": "a@b"}, "more"),
        job("anything", name="Other"),
        {"active_job": "Mail", "args": [{"id": 5}]},
        wrapped(job_class="Mail", arguments=[{"id": 5}]),
        wrapped(job_class="Other", arguments=[]),
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
        (ACTIVE | {"args": [{"id": "secret"}]}, "args[0].id: must be integer"),
        (ACTIVE | {"kwargs": {"id": "secret"}}, "args[0].id: must be integer"),
        (
            wrapped(job_class="Mail", arguments=[{"id": 0.5}]),
            "args[0].arguments[0].id: must be integer",
        ),
        (wrapped(job_class="Mail"), "args[0].arguments: must be array"),
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


def test_definitions_of_the_same_schema_may_be_used():
    schema = {"items": [{"$ref": "#/definitions/id"}], "definitions": {"id": {"type": "integer"}}}

    compiled(schema)([5], name_prefix="args")
