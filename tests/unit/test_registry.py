"""The declared job classes, and how a call becomes a list of arguments."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge import job
from kiqbridge.client.registry import JobDefinition, Place, Registry, definition_of
from kiqbridge.errors import ConfigError, JobNotFound, PayloadError


def define(name="Report", function=lambda: None, origin="tests.here"):
    module, _, qualname = origin.rpartition(".")
    return JobDefinition(
        name=name,
        options={"retry": True, "queue": "default"},
        instantiate=lambda _jid: None,
        perform_of=lambda _instance: function,
        signature=inspect.signature(function),
        origin=origin,
        place=Place(module=module, qualname=qualname, file=f"/{module}.py", line=1),
    )


def positional(function, *args, **kwargs):
    return define(function=function).positional(args, kwargs)


def report(day, copy=False, *, dry=False):
    return day, copy, dry


def spread(a=1, b=2, c=3, d=4):
    return a, b, c, d


class TestNames:
    def test_what_is_registered_is_found_under_its_name(self):
        registry = Registry()
        definition = define("Reports::Nightly")

        registry.register(definition)

        assert registry.find("Reports::Nightly") is definition
        assert registry.require("Reports::Nightly") is definition
        assert "Reports::Nightly" in registry
        assert list(registry) == [definition]
        assert len(registry) == 1

    def test_a_name_that_is_declared_twice_is_refused_naming_both_places(self):
        registry = Registry()
        registry.register(define("Report", origin="billing.jobs.Report"))

        with pytest.raises(ConfigError) as refusal:
            registry.register(define("Report", origin="sales.jobs.Report"))

        assert "'Report' is declared twice" in str(refusal.value)
        assert "billing.jobs.Report (/billing.jobs.py:1)" in str(refusal.value)
        assert "sales.jobs.Report (/sales.jobs.py:1)" in str(refusal.value)
        assert len(registry) == 1

    @pytest.mark.parametrize(
        ("asked", "constant"),
        [
            ("No::Such::Class", "No"),
            ("NoSuch", "NoSuch"),
            ("Reports::Yearly", "Reports::Yearly"),
            ("Reports::Deep::Yearly", "Reports::Deep"),
        ],
    )
    def test_an_unknown_name_is_told_as_ruby_tells_it(self, asked, constant):
        registry = Registry()
        registry.register(define("Reports::Nightly"))

        with pytest.raises(JobNotFound, match=rf"^uninitialized constant {constant};"):
            registry.require(asked)

    def test_an_unknown_name_is_followed_by_the_near_ones_in_python_s_words(self):
        registry = Registry()
        registry.register(define("SendInvoice"))
        registry.register(define("Nightly"))

        with pytest.raises(JobNotFound) as missing:
            registry.require("SendInvoce")

        assert str(missing.value) == (
            "uninitialized constant SendInvoce; no job named 'SendInvoce' is declared here; did you mean "
            "SendInvoice? declared: SendInvoice, Nightly; is its module loaded with -r?"
        )

    def test_of_many_jobs_some_are_listed(self):
        registry = Registry()
        for number in range(12):
            registry.register(define(f"Job{number}", origin=f"jobs.{number}"))

        with pytest.raises(
            JobNotFound, match=r"declared here; declared: Job0, .*, Job9 and 2 more; is its"
        ):
            registry.require("Xyz")

    def test_without_any_job_the_message_says_what_to_check(self):
        with pytest.raises(JobNotFound, match=r"no job is declared .* loaded with -r\?$"):
            Registry().require("NightlyReport")

    def test_what_is_no_declaration_has_no_definition(self):
        assert definition_of("Report") is None
        assert definition_of(None) is None
        assert definition_of(report) is None


class TestArguments:
    def test_positional_ones_go_as_they_are(self):
        assert positional(report, "2026-01-01") == ["2026-01-01"]
        assert positional(report, "2026-01-01", True) == ["2026-01-01", True]

    def test_keyword_ones_take_their_place_in_the_list(self):
        assert positional(report, copy=True, day="2026-01-01") == ["2026-01-01", True]

    def test_defaults_fill_the_gaps_and_only_those(self):
        assert positional(spread, c=30) == [1, 2, 30]
        assert positional(spread, 10, d=40) == [10, 2, 3, 40]
        assert positional(spread, b=20) == [1, 20]

    def test_any_number_of_positional_ones_may_follow(self):
        assert positional(lambda first, *rest: None, 1, 2, 3) == [1, 2, 3]

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [((), {}), ((1, 2, 3), {}), ((1,), {"day": 2}), ((1,), {"unknown": 2})],
    )
    def test_a_call_that_python_would_refuse_is_refused_before_it_is_enqueued(self, args, kwargs):
        with pytest.raises(PayloadError, match=r"^args: Report cannot be called like this: "):
            positional(report, *args, **kwargs)

    @pytest.mark.parametrize("dry", [True, False])
    def test_a_keyword_only_argument_has_no_place_in_the_list(self, dry):
        with pytest.raises(
            PayloadError, match=r"^args: dry of Report can only be given by keyword"
        ):
            positional(report, "2026-01-01", dry=dry)

    def test_free_keywords_have_no_place_in_the_list(self):
        with pytest.raises(
            PayloadError, match=r"^args: b, c of Report can only be given by keyword"
        ):
            positional(lambda a, **rest: None, a=1, b=2, c=3)

    def test_a_keyword_only_parameter_without_default_is_refused_at_declaration(self):
        def needs(day, *, dry):
            return day, dry

        with pytest.raises(ConfigError, match="job 'needs': parameter 'dry' can only be given by"):
            job(needs)

    @given(
        st.lists(st.integers(10, 99), max_size=4),
        st.dictionaries(st.sampled_from("abcd"), st.integers(10, 99)),
    )
    def test_the_list_calls_the_function_just_as_the_call_would(self, args, kwargs):
        try:
            wanted = spread(*args, **kwargs)
        except TypeError:
            with pytest.raises(PayloadError):
                positional(spread, *args, **kwargs)
        else:
            assert spread(*positional(spread, *args, **kwargs)) == wanted
