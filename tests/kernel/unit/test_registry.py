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
        for find in (registry.find, registry.require):
            assert find("Reports::Nightly") is definition
        assert "Reports::Nightly" in registry
        assert list(registry) == [definition]
        for odd in ("Report", None, report):
            assert definition_of(odd) is None

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

    def test_an_unknown_name_is_followed_by_near_or_some_ones_in_python_s_words(self):
        with pytest.raises(JobNotFound, match=r"no job is declared .* loaded with -r\?$"):
            Registry().require("NightlyReport")
        registry = Registry()
        registry.register(define("SendInvoice"))
        registry.register(define("Nightly"))
        with pytest.raises(JobNotFound) as missing:
            registry.require("SendInvoce")
        assert str(missing.value) == (
            "uninitialized constant SendInvoce; no job named 'SendInvoce' is declared here; did you mean "
            "SendInvoice? declared: SendInvoice, Nightly; is its module loaded with -r?"
        )
        for number in range(10):
            registry.register(define(f"Job{number}", origin=f"jobs.{number}"))
        listed = r"declared here; declared: SendInvoice, .*, Job7 and 2 more; is its"
        with pytest.raises(JobNotFound, match=listed):
            registry.require("Xyz")


class TestArguments:
    @pytest.mark.parametrize(
        ("function", "args", "kwargs", "written"),
        [
            (report, ("2026-01-01",), {}, ["2026-01-01"]),
            (report, ("2026-01-01", True), {}, ["2026-01-01", True]),
            (report, (), {"copy": True, "day": "2026-01-01"}, ["2026-01-01", True]),
            # Defaults fill the gaps and only those.
            (spread, (), {"c": 30}, [1, 2, 30]),
            (spread, (10,), {"d": 40}, [10, 2, 3, 40]),
            (spread, (), {"b": 20}, [1, 20]),
            (lambda first, *rest: None, (1, 2, 3), {}, [1, 2, 3]),
        ],
    )
    def test_each_takes_its_place_in_the_list(self, function, args, kwargs, written):
        assert positional(function, *args, **kwargs) == written

    def test_keyword_only_arguments_have_no_place_in_the_list(self):
        for function, kwargs, named in (
            (report, {"day": "2026-01-01", "dry": True}, "dry"),
            (report, {"day": "2026-01-01", "dry": False}, "dry"),
            (lambda a, **rest: None, {"a": 1, "b": 2, "c": 3}, "b, c"),
        ):
            with pytest.raises(
                PayloadError, match=f"^args: {named} of Report can only be given by keyword"
            ):
                positional(function, **kwargs)

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


def test_a_class_name_of_a_megabyte_is_not_quoted_whole():
    registry = Registry()
    with pytest.raises(JobNotFound, match=r"… \(1,000,000 characters\)") as raised:
        registry.require("S" * 1_000_000)
    assert len(str(raised.value)) < 1_000
