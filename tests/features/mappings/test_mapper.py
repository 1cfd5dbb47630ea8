"""Mappings: which one takes a record, and which jobs it makes of it."""

import base64
import contextlib
import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.mappings import mapper_of, record_of

from kiqbridge.aws.requests import read_jobs
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire.guards import Identity, Source

NOW = 1_700_000_000.0


@pytest.fixture
def mapped(tmp_path):
    """The jobs that the mappings make of a record."""

    def mapped(text, record=None):
        return mapper_of(tmp_path, text).read_jobs(record or record_of(), NOW)

    return mapped


@pytest.fixture
def jobs(mapped):
    def jobs(text, record=None):
        return [job.item for job in mapped(text, record).jobs]

    return jobs


@pytest.fixture
def one(jobs):
    """The job of one mapping of S3 records, given the lines of its job."""

    def one(lines, event=None, **attributes):
        [job] = jobs(job_lines(lines), record_of(event, **attributes))
        return job

    return one


def job_lines(lines):
    return f"""
        mappings:
          - match: {{source: s3}}
            class: Thumbnail
            {lines}
        """


def classes(found):
    return [job["class"] for job in found]


class TestMatch:
    @pytest.mark.parametrize(
        "match",
        [
            *("source: s3", 'source: "s*"', "source: [sqs, s3]"),
            *("bucket: uploads", "bucket: 'up*'", "prefix: images/", "prefix: [videos/, images/]"),
            *("suffix: .jpg", "key: 'images/*'", "origin: s3:uploads", "arn: 's3:*'"),
            "source: s3, bucket: uploads, suffix: .jpg",
        ],
    )
    def test_a_record_is_taken_if_everything_matches(self, jobs, match):
        assert classes(jobs(f"mappings: [{{match: {{{match}}}, class: A}}]")) == ["A"]

    @pytest.mark.parametrize(
        "match",
        [
            *("source: sqs", "source: S3", "source: s", "source: []", "source: s3, suffix: .png"),
            *("bucket: upload", "prefix: mages/", "prefix: 'images/*'", "suffix: .png"),
            *("key: 'images/*.jp?g'", "detail-type: '*'", "queue: arn"),
        ],
    )
    def test_it_is_not_if_anything_does_not(self, mapped, match):
        assert mapped(f"mappings: [{{match: {{{match}}}, class: Thumbnail}}]") is None

    def test_a_bus_event_is_matched_by_its_source_and_detail_type(self, jobs):
        record = record_of({}, source="bus", origin="shop.orders", facets={"detail-type": "Placed"})
        for match in (
            "source: shop.*",
            "source: bus",
            "detail-type: Placed",
            "origin: shop.orders",
        ):
            assert classes(jobs(f"mappings: [{{match: {{{match}}}, class: A}}]", record)) == ["A"]

    def test_a_queue_is_matched_by_its_arn_and_by_its_name(self, mapped):
        record = record_of({}, origin="arn:1", facets={"queue": "orders", "prefix": "x"})

        for taken in ("queue: orders", "queue: 'arn:*'", "topic: arn:1", "prefix: x"):
            assert mapped(f"mappings: [{{match: {{{taken}}}, class: A}}]", record), taken
        for other in ("queue: order", "topic: orders", "prefix: images/"):
            assert mapped(f"mappings: [{{match: {{{other}}}, class: A}}]", record) is None, other

    def test_the_first_that_takes_it_wins_unless_its_filter_leaves_it_out(self, jobs):
        text = """
            mappings:
              - {match: {source: sqs}, class: A}
              - {match: {source: s3}, filter: size > `9`, class: Large}
              - {match: {source: s3}, class: B}
              - {match: {bucket: uploads}, class: C}
            """
        assert classes(jobs(text)) == ["B"]


class TestFilter:
    @pytest.mark.parametrize("passes", ["size > `3`", "size", "`0`", "'x'", "contains(key, 'a')"])
    def test_what_is_true_for_jmespath_passes(self, one, passes):
        assert one(f'filter: "{passes}"')["class"] == "Thumbnail"

    @pytest.mark.parametrize("filtered", ["size > `9`", "nothing", "`false`", "''", "`[]`", "`{}`"])
    def test_what_is_false_leaves_the_record_out(self, mapped, filtered):
        found = mapped(job_lines(f'filter: "{filtered}"'))

        assert found.ignored == "the filter of mappings.yml:3 mappings[0] leaves it out"


class TestJob:
    def test_a_text_is_an_expression_and_anything_else_is_itself(self, one):
        args = "args: [key, 5, 1.5, true, null, \"'key'\", {name: key, 'n': [size]}]"
        assert one(args)["args"] == [
            *("images/a.jpg", 5, 1.5, True, None, "key"),
            {"name": "images/a.jpg", "n": [5]},
        ]
        assert one('args: "[bucket, size]"')["args"] == ["uploads", 5]
        assert one("")["args"] == []
        text = "<aws.scheduler.scheduled-time>"  # in an event it is data and no placeholder
        assert one("args: [text]", {"text": text})["args"] == [text]

    def test_queue_and_options_are_written_as_they_are(self, one, jobs):
        options = {"retry": 3, "tags": ["image"], "custom": {"a": 1}}
        job = one(f"queue: low\n            options: {json.dumps(options)}")
        assert job == {"class": "Thumbnail", "queue": "low", "args": [], **options}
        [job] = jobs("mappings: [{match: {source: s3}, active_job: NightlyJob, args: [size]}]")
        assert job == {"active_job": "NightlyJob", "args": [5]}

    @pytest.mark.parametrize(
        ("lines", "at"),
        [
            ("in: 60", NOW + 60),
            ("in: size", NOW + 5),
            ("at: when", NOW + 3600),
            ('in: "`60`"', NOW + 60),
            ("in: 0", None),
        ],
    )
    def test_it_runs_later(self, one, lines, at):
        event = {"size": 5, "when": "2023-11-14T23:13:20Z"}

        assert one(lines, event).get("at") == at

    def test_a_dedupe_key_comes_before_the_identity_of_the_event(self, mapped):
        identity = Identity(Source.SQS, ("arn", "m1"))
        text = "mappings: [{match: {source: s3}, class: A, dedupe_key: KEY}]"

        for key, expected in (("key", "images/a.jpg"), ("size", "5"), ("'x'", "x")):
            [job] = mapped(text.replace("KEY", f'"{key}"'), record_of(identity=identity)).jobs
            assert job.dedupe_key == expected
        [job] = mapped(text.replace(", dedupe_key: KEY", ""), record_of(identity=identity)).jobs
        assert job.dedupe_key == identity.of_job(0)

    def test_several_jobs_of_an_event_have_their_own_places(self, mapped):
        identity = Identity(Source.SQS, ("arn", "m1"))
        text = """
            mappings:
              - match: {source: s3}
                jobs:
                  - {class: A, args: [size]}
                  - {class: B, queue: low, dedupe_key: key}
            """
        found = mapped(text, record_of(identity=identity)).jobs

        assert [job.item for job in found] == [
            {"class": "A", "args": [5]},
            {"class": "B", "queue": "low", "args": []},
        ]
        assert [job.dedupe_key for job in found] == [identity.of_job(0), "images/a.jpg"]

    def test_each_element_gets_the_jobs(self, jobs, mapped):
        text = """
            mappings:
              - match: {source: s3}
                each: items
                jobs:
                  - {class: A, args: [item.id, index, event.shop]}
                  - {class: B}
            """
        found = jobs(text, record_of({"items": [{"id": 7}, {"id": 8}], "shop": "x"}))
        made = [(job["class"], *job["args"]) for job in found]
        assert made == [("A", 7, 0, "x"), ("B",), ("A", 8, 1, "x"), ("B",)]
        found = mapped(job_lines("each: items"), record_of({"items": []}))
        assert found.ignored == "mappings.yml:3 mappings[0]: each finds an empty list"

    def test_powertools_functions_read_encoded_texts(self, one):
        packed = base64.b64encode(gzip.compress(b'{"a": 1}')).decode()
        event = {"json": '{"a": 1}', "base64": base64.b64encode(b"hi").decode(), "gzip": packed}
        args = (
            "args: [powertools_json(json).a, powertools_base64(base64),"
            " powertools_json(powertools_base64_gzip(gzip)).a]"
        )

        assert one(args, event)["args"] == [1, "hi", 1]


HERE = "mappings.yml:5 mappings[0]"


class TestRefused:
    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ("args: [size, nothing]", f"{HERE}.args[1]: nothing finds nothing in"),
            ("args: [{a: nothing}]", f"{HERE}.args[0].a: nothing finds nothing"),
            ("args: size", f"{HERE}.args: size finds a value of type int in the"),
            ("args: [\"starts_with(size, 'a')\"]", "starts_with() got number instead of string"),
            ("filter: starts_with(size, 'a')", f"{HERE}.filter: starts_with(size"),
            ("args: ['&size']", "of type _Expression would not arrive as it is"),
            ("each: size", f"{HERE}.each: size finds a value of type int in"),
            ("each: nothing", f"{HERE}.each: nothing finds nothing in the event instead of a list"),
            ("dedupe_key: nothing", "nothing finds nothing in the event instead of a text"),
            ("dedupe_key: '`true`'", "finds a value of type bool in the event instead of a text"),
            ("in: nothing", f"{HERE}.in: nothing finds nothing"),
            ("in: bucket", "in: 'uploads' is not a number of seconds from now"),
            ("at: bucket", "mappings.yml:3 mappings[0]: at: 'uploads' is no ISO 8601 time"),
            ("args: [powertools_json(key)]", "be evaluated over this event: Expecting value"),
            ("args: [powertools_base64(key)]", "cannot be evaluated over this event: "),
        ],
    )
    def test_the_message_names_file_line_and_key(self, one, lines, message):
        with pytest.raises((EventError, PayloadError)) as raised:
            one(lines)
        assert message in str(raised.value)

    def test_a_missing_argument_may_be_allowed_to_be_null(self, one):
        job = one("args: [nothing]\n            in: nothing\n            allow_null: true")

        assert job == {"class": "Thumbnail", "args": [None]}

    def test_no_value_of_the_event_is_in_the_message_of_a_function(self, one):
        with pytest.raises(EventError) as raised:
            one("args: [\"starts_with(secret, 'a')\"]", {"secret": ["hunter2"]})

        assert "hunter2" not in str(raised.value)

    def test_a_zipped_text_has_a_limit_and_its_end(self, one):
        for content, told in (
            (gzip.compress(b" " * 10_000_001), "text has more than 10,000,000 bytes"),
            (gzip.compress(b"text" * 100)[:-9], "or is incomplete"),
        ):
            event = {"text": base64.b64encode(content).decode()}
            with pytest.raises(EventError, match=told):
                one("args: [powertools_base64_gzip(text)]", event)

    def test_an_event_makes_no_more_jobs_than_a_script_takes(self, one):
        with pytest.raises(EventError, match="1,001 jobs of one event are more than 1,000"):
            one("each: items", {"items": [1] * 1001})

    def test_what_no_mapping_takes_is_shown_with_a_mapping_to_write(self, tmp_path):
        mapper = mapper_of(tmp_path, "mappings: [{match: {source: sqs}, class: A}]")
        record = record_of(job={"a": 1}, where="Records[0].body")

        with pytest.raises(EventError) as raised:
            read_jobs(record, NOW, mapper)

        assert str(raised.value) == (
            "Records[0].body: {'a': 1} holds no job, and no mapping takes it (source: 's3', origin: "
            "'s3:uploads', bucket: 'uploads', key: 'images/a.jpg'); send {\"class\": …, \"args\": […]} or "
            '{"jobs": […]} in its place, or write into mappings.yml: mappings: [{match: {source: '
            "'s3', origin: 's3:uploads'}, class: NAME, args: [EXPRESSION]}]"
        )

    def test_a_job_needs_no_mapping_and_is_not_mapped(self, tmp_path):
        mapper = mapper_of(tmp_path, "mappings: [{match: {source: '*'}, class: A}]")
        record = record_of(job={"class": "B", "args": [1]})

        assert [job.item["class"] for job in read_jobs(record, NOW, mapper).jobs] == ["B"]


TEXT = """
    mappings:
      - match: {source: s3}
        filter: "!a || a"
        each: "[@, a, b[0], b[].c, keys(@)] | [?@ != `9`]"
        class: A
        args:
          - item
          - "[to_string(item), length(to_string(item)), sort([to_string(index)])]"
          - "event.a.b.c || item.b[?a > `1`].c | [0]"
          - "max_by([{n: `1`}], &n).n"
        dedupe_key: to_string(event)
        in: event.a
        allow_null: true
    """
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "c"]) | st.text(), inner)
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(event=JSON)
def test_any_event_is_mapped_or_refused(tmp_path_factory, event):
    mapper = shared_mapper(tmp_path_factory)
    with contextlib.suppress(EventError, PayloadError):
        mapper.read_jobs(record_of(event), NOW)


@pytest.mark.parametrize("kind", [dict, list])
@pytest.mark.parametrize("depth", [110, 900, 100_000])
@pytest.mark.parametrize("text", ["@", "to_string(@)", "[@ == a, a == @, b]"])
def test_deep_events_are_mapped_or_refused(tmp_path, kind, depth, text):
    event = value = kind()
    for _ in range(depth):
        inner = kind()
        value.update(a=inner) if kind is dict else value.append(inner)
        value = inner
    mapper = mapper_of(tmp_path, job_lines(f'args: ["{text}"]'))

    with contextlib.suppress(EventError, PayloadError):
        [job] = mapper.read_jobs(record_of(event), NOW).jobs
        assert text != "@", "deeper than a job may be"
        assert job.item["args"]


_made = []


def shared_mapper(tmp_path_factory):
    if not _made:
        _made.append(mapper_of(tmp_path_factory.mktemp("mappings"), TEXT))
    return _made[0]


def test_a_mapping_of_a_large_event_costs_each_element_once(one):
    """No expression can reach the whole event from an element, so time grows with the event's size."""
    event = {"items": [{"id": number, "tags": ["x"] * 10} for number in range(20_000)]}

    assert one("args: [\"length(items[?contains(tags, 'x')].id)\"]", event)["args"] == [20_000]
