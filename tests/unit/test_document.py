"""The file of mappings: where it is looked for, and the lines of its keys."""

import subprocess
import sys

import pytest
from support.mappings import document_of, write

from kiqbridge.aws.mapping.document import find, load
from kiqbridge.errors import ConfigError

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
    def test_a_function_without_a_file_has_no_mappings(self, tmp_path):
        assert find(tmp_path) is None

    def test_it_is_mappings_yml_beside_the_function(self, tmp_path):
        path = write(tmp_path, TEXT)

        assert find(tmp_path) == path

    def test_what_the_build_made_of_it_comes_first(self, tmp_path):
        write(tmp_path, TEXT)
        built = write(tmp_path, "{}", "mappings.json")

        assert find(tmp_path) == find(tmp_path, "mappings.yml") == built

    def test_another_one_can_be_named(self, tmp_path):
        write(tmp_path, TEXT)
        other = write(tmp_path, TEXT, "staging.yml")

        assert find(tmp_path, "staging.yml") == find(tmp_path / "x", str(other)) == other

    def test_one_that_is_named_must_exist(self, tmp_path):
        with pytest.raises(
            ConfigError, match=r"KIQBRIDGE_MAPPINGS names .*staging.yml, which does not"
        ):
            find(tmp_path, "staging.yml")


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
            ("a: [", "mappings.yml:2: this is not YAML: "),
            (
                "a: 1\nb: !Ref c",
                "mappings.yml:2: b: !Ref has no meaning here; write the value itself",
            ),
            ("a: 1\na: 2", "mappings.yml:2: the file has 'a' twice (also at line 1)"),
            ("a: &b\n  c: *b", "mappings.yml:1: an anchor contains itself"),
            (
                "schemas:\n  A: a.json",
                "mappings.yml:2 schemas.A: 'a.json' is not a file with JSON: [Errno 2]",
            ),
        ],
    )
    def test_what_cannot_be_read_names_the_line(self, tmp_path, text, message):
        with pytest.raises(ConfigError) as raised:
            load(write(tmp_path, f"{text}\n"))

        assert str(raised.value).startswith(message)

    def test_a_schema_may_be_a_file_beside_it(self, tmp_path):
        write(tmp_path, '{"type": "array"}', "a.json")

        assert document_of(tmp_path, "schemas: {A: a.json}").content == {
            "schemas": {"A": {"type": "array"}}
        }

    @pytest.mark.parametrize("text", ["", "[]", '{"file": "a"}', "{"])
    def test_json_that_the_build_did_not_write_is_refused(self, tmp_path, text):
        with pytest.raises(
            ConfigError, match=r"mappings.json: this is not what `make build` writes"
        ):
            load(write(tmp_path, text, "mappings.json"))

    def test_bytes_that_are_no_text_are_refused(self, tmp_path):
        path = tmp_path / "mappings.yml"
        path.write_bytes(b"\xff")

        with pytest.raises(ConfigError, match="the mappings cannot be read"):
            load(path)

    def test_without_pyyaml_the_message_says_what_to_do(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "kiqbridge.schedule.yaml_nodes", None)
        monkeypatch.delattr("kiqbridge.schedule.yaml_nodes", raising=False)

        with pytest.raises(
            ConfigError, match="PyYAML is needed to read it; deploy with `make deploy`"
        ):
            load(write(tmp_path, TEXT))


@pytest.mark.parametrize("text", [None, "# nothing\n"])
def test_a_function_without_mappings_loads_nothing_for_them(tmp_path, text):
    if text is not None:
        write(tmp_path, text)
    script = (
        "import sys; from pathlib import Path; from kiqbridge.aws.enqueue import Enqueuer;"
        f"Enqueuer.from_environment({{'REDIS_URL': 'redis://127.0.0.1:1'}}, Path({str(tmp_path)!r}));"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )

    heavy = {"yaml", "jmespath", "fastjsonschema", "kiqbridge.aws.mapping.mapper"}
    assert heavy.isdisjoint(loaded.stdout.split())


def test_a_function_with_mappings_loads_jmespath_when_an_event_needs_it(tmp_path):
    text = "mappings: [{match: {source: s3}, class: A, args: [a]}]"
    write(tmp_path, document_of(tmp_path, text).as_json(), "mappings.json")
    script = (
        "import sys; from pathlib import Path; from kiqbridge.aws.enqueue import Enqueuer;"
        f"Enqueuer.from_environment({{'REDIS_URL': 'redis://127.0.0.1:1'}}, Path({str(tmp_path)!r}));"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )

    assert {"yaml", "jmespath", "fastjsonschema"}.isdisjoint(loaded.stdout.split())
    assert "kiqbridge.aws.mapping.mapper" in loaded.stdout.split()
