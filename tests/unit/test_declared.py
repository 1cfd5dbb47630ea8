"""What a file of mappings declares; each fault is reported with its line and key."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mappings import document_of

from kiqbridge.aws.mapping import declared
from kiqbridge.aws.mapping.document import Document
from kiqbridge.errors import ConfigError

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
def test_empty_sections_declare_nothing(tmp_path, text):
    assert faults(tmp_path, text) == []


def test_an_empty_list_of_rules_allows_nothing_and_none_restricts_nothing(tmp_path):
    assert declared.read(document_of(tmp_path, "allow: []")).rules == ()
    assert declared.read(document_of(tmp_path, "mappings: []")).rules is None


PARTS = st.sampled_from(
    [
        "mappings",
        "allow",
        "schemas",
        "match",
        "class",
        "args",
        "jobs",
        "each",
        "in",
        "at",
        "queue",
        "active_job",
        "options",
        "source",
        "classes",
        "filter",
        "dedupe_key",
        "example",
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
