"""ERB in a file of Sidekiq's settings: environment variables with defaults; all else is refused and not evaluated."""

import pytest

from kiqbridge.config.erb import render
from kiqbridge.config.merge import merge
from kiqbridge.config.settings_file import parse
from kiqbridge.errors import ConfigError

ENVIRON = {"N": "7", "NAME": "blue", "EMPTY": ""}


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ('ENV["N"]', "7"),
        ("ENV['NAME']", "blue"),
        ('ENV["NONE"]', ""),
        ('ENV["NONE"].to_i', "0"),
        ('ENV["N"].to_i', "7"),
        ('ENV["NAME"].to_i', "0"),
        ('ENV["NONE"] || 5', "5"),
        ("ENV['NONE'] || 'low'", "low"),
        ('ENV["EMPTY"] || 5', ""),  # as in Ruby, where "" is true
        ('(ENV["NONE"] || 5).to_i', "5"),
        ('Integer(ENV["N"] || 5)', "7"),
        ('Integer(ENV.fetch("NONE", "5"))', "5"),
        ('ENV.fetch("N")', "7"),
        ('ENV.fetch("NONE", 5)', "5"),
        ('ENV.fetch("NONE", "5").to_i', "5"),
        ("ENV.fetch('NONE') { 5 }", "5"),
        ('ENV.fetch("N") { 5 }', "7"),
    ],
)
def test_a_form_that_generators_write_has_its_value(code, value):
    assert render(f"a: <%= {code} %>", "f.yml", ENVIRON) == f"a: {value}"
    assert render(f"a: <%={code}-%>", "f.yml", ENVIRON) == f"a: {value}"


def test_comments_are_left_out_and_the_rest_stays_as_it_is():
    text = "a: 1 <%# of the team %>\nb: 50%\n"

    assert render(text, "f.yml", {}) == "a: 1 \nb: 50%\n"


@pytest.mark.parametrize(
    "tag",
    [
        "<%= `hostname` %>",
        '<%= ENV["A"] + ENV["B"] %>',
        '<%= ENV["A"] || `id` %>',
        '<%= ENV["A"] || "#{1}" %>',
        '<%= (ENV["A"] || 5 %>',
        "<%= Rails.env %>",
        '<% if ENV["A"] %>',
        '<% ENV["A"] %>',
        "<%= %>",
    ],
)
def test_other_ruby_is_refused_with_its_line(tag):
    with pytest.raises(ConfigError) as refusal:
        render(f":concurrency: 5\n\n:tag: {tag}\n", "f.yml", {"A": "secret"})

    assert str(refusal.value).startswith("f.yml: line 3: ")
    assert 'ENV.fetch("X", 5)' in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ('<%= ENV.fetch("NONE") %>', ["line 1", "variable NONE, which is not set"]),
        ('<%= Integer(ENV["NAME"]) %>', ["line 1", "variable NAME is no whole number"]),
        ('<%= ENV["N"]', ["a <% has no %>"]),
    ],
)
def test_what_cannot_have_a_value_is_refused(tag, words):
    with pytest.raises(ConfigError) as refusal:
        render(f"a: {tag}", "f.yml", ENVIRON)

    assert all(word in str(refusal.value) for word in words)
    assert "blue" not in str(refusal.value)


def test_settings_are_read_behind_it():
    text = ':concurrency: <%= ENV.fetch("THREADS", 5).to_i %>\n:queues: [<%= ENV["QUEUE"] || "mail" %>]\n'

    assert parse(text, "sidekiq.yml", {"THREADS": "12"}) == {"concurrency": 12, "queues": ["mail"]}


@pytest.mark.parametrize("key", ["scheduler", "schedule"])
def test_schedules_of_sidekiq_scheduler_are_reported_with_the_command_that_imports_them(key):
    told = []

    merge(
        file={key: {"nightly": {"cron": "0 3 * * *"}}},
        file_name="config/sidekiq.yml",
        environ={},
        flags={},
        warn=told.append,
    )

    [line] = told
    assert f"'{key}' is of sidekiq-scheduler" in line
    assert "kiqbridge schedule import --kind sidekiq-scheduler config/sidekiq.yml" in line
