"""Features of other distributions, found by their entry points: what they bring, and where they fail."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.distributions import forget, install
from support.jobs import own_declarations
from support.runners import RunnerStand, kept, payload

from kiqbridge import ConfigError, Job, job, seams
from kiqbridge.client import declaration
from kiqbridge.client.registry import default_registry, definition_of
from kiqbridge.engine.perform.gate import Gate
from kiqbridge.engine.settle.ending import Target
from kiqbridge.feature import Feature

DEADLINE = (Path(__file__).parents[3] / "examples/feature_deadline.py").read_text("utf-8")
FAILING = """
from kiqbridge.feature import Chore, Feature

FEATURE = Feature(
    package=__name__,
    options={"odd": ":returns_it", "fails": ":fails", "lost": ":returns_none"},
    gates={"watched": ":fails", "answered": ":answers"},
    puts_off={"builtins:LookupError": ":fails"},
    worker=":fails",
    chores=[Chore("tidy", 1.0, "no_such_module:chores")],
)

def returns_it(definition, value):
    return definition

def returns_none(definition, value):
    pass

def answers(payload, now):
    return "no"

def fails(*_args):
    raise ZeroDivisionError("of the feature")
"""
NOW = 1_700_000_000.0


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder where distributions lie; each test begins and ends as if none had been looked for."""
    monkeypatch.syspath_prepend(str(tmp_path))
    forget(tmp_path)
    with own_declarations():
        yield tmp_path
    forget(tmp_path)


def gate():
    return Gate(
        paused=SimpleNamespace(classes=frozenset()),
        declared=default_registry,
        foreign_jobs="refuse",
        unknown_class="retry",
        rng=random.Random(1),
        wall_now=lambda: NOW,
    )


def test_a_job_with_an_option_of_one_is_not_begun_when_the_feature_says_so(packages):
    install(packages, "deadlines", DEADLINE)

    declared = definition_of(job(name="Late", deadline_s=60)(print))

    class Sync(Job, deadline_s=5):
        def perform(self):
            pass

    assert declared.options["deadline_s"] == 60
    assert definition_of(Sync).options["deadline_s"] == 5
    looked = [gate().check(payload(deadline_s=60, enqueued_at=NOW - age)) for age in (59, 61)]
    assert [each and each.expired for each in looked] == [None, "1.0 s after its deadline"]
    with pytest.raises(ConfigError, match="job 'Wrong': deadline_s 'soon' is no number"):
        job(name="Wrong", deadline_s="soon")(print)


def test_where_no_job_has_its_option_nothing_is_looked_for_and_its_attribute_says_nothing(packages):
    install(packages, "deadlines", DEADLINE)

    job(name="Plain")(print)

    assert gate().check(payload(deadline_s=60, enqueued_at=NOW - 61)) is None
    assert seams.installed.cache_info().misses == 0


def test_what_fails_at_a_declaration_is_one_line_that_names_the_feature(packages):
    install(packages, "failing", FAILING)

    for option, said in (
        ("fails", "feature failing failed to apply it: ZeroDivisionError: of the feature"),
        ("lost", "feature failing returned no JobDefinition"),
    ):
        with pytest.raises(ConfigError, match=f"^job 'Odd': option {option}: {said}$"):
            job(name="Odd", **{option: 1})(print)
    assert "Odd" not in default_registry


def test_what_fails_later_is_logged_and_loses_nothing(packages, caplog, monkeypatch):
    install(packages, "failing", FAILING)
    job(name="Odd", odd=1)(print)

    checks = gate()
    assert [checks.check(payload(watched=1)) for _ in range(3)] == [None] * 3
    assert [checks.check(payload(answered=1)) for _ in range(3)] == [None] * 3
    monkeypatch.setattr(seams, "shipped", list)
    assert list(seams.brought("worker", None)) == []
    assert list(seams.chores(["leader"], None, seams.loaded())) == []

    assert caplog.messages == [
        "feature failing (:fails) failed at a job with watched: such jobs run as without it",
        "feature failing (:answers) failed at a job with answered: such jobs run as without it",
        "feature failing (:fails) failed, and brings no worker",
        "feature failing (no_such_module:chores) failed, and brings no chore tidy",
    ]


def test_a_job_whose_error_a_feature_fails_to_judge_has_failed(packages, caplog):
    install(packages, "failing", FAILING)
    job(name="Odd", odd=1)(print)
    runner = RunnerStand()
    runner.declare(lambda *_args: {}["missing"])

    settlement = runner.run(payload())
    runner.close()

    assert settlement.target is Target.RETRY
    assert kept(settlement)["error_class"] == "KeyError"
    said = "a feature's rule for LookupError failed: the job counts as failed: failing (:fails)"
    assert caplog.messages.count(said) == 1


@pytest.mark.parametrize("option", ["shipped", "deadline_s", "other"])
def test_two_that_claim_one_option_or_attribute_are_refused(packages, option, monkeypatch):
    of_ours = Feature(package="ours", options={"shipped": ":declare"})
    monkeypatch.setattr(seams, "shipped", lambda: [of_ours])
    install(packages, "deadlines", DEADLINE)
    install(packages, "others", DEADLINE.replace('options={"deadline_s"', f'options={{"{option}"'))

    claimed = "attribute deadline_s" if option == "other" else f"option {option}"
    with pytest.raises(ConfigError, match=rf"^features .* both claim the {claimed}; remove"):
        seams.owner_of("anything")


@pytest.mark.parametrize("named", ['settings=["deadline"]', 'pages="pages:pages"'])
def test_one_that_names_a_seam_which_is_not_for_others_is_refused(packages, named):
    install(
        packages, "others", DEADLINE.replace("package=__name__,", f"package=__name__, {named},")
    )

    [seam, _] = named.split("=")
    with pytest.raises(ConfigError, match=rf"^feature others names {seam}, .* may name options, "):
        seams.owner_of("anything")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:FEATURE", "cannot be loaded: No module named 'no_such_module'"),
        ("others:NONE", "cannot be loaded: "),
        ("others:declare", "is no kiqbridge.feature.Feature"),
    ],
)
def test_an_entry_point_that_leads_to_no_feature_is_refused_and_named(packages, value, said):
    install(packages, "others", DEADLINE, value=value)

    with pytest.raises(ConfigError, match=rf"^job 'Any': feature others \({value}\) {said}"):
        job(name="Any", deadline_s=60)(print)


def test_an_option_whose_feature_is_missing_is_refused(packages, monkeypatch):
    monkeypatch.setattr(declaration.seams, "shipped", list)

    with pytest.raises(
        ConfigError, match=r"^job 'Any': limiter: the feature that has this option is"
    ):
        job(name="Any", limiter=lambda: None)(print)
    with pytest.raises(ConfigError, match=r"^job 'Any': deadline_s: is no option of a job"):
        job(name="Any", deadline_s=60)(print)
    assert "Any" not in default_registry
