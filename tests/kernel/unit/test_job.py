"""Declaring jobs, and what a call of theirs enqueues."""

import datetime as dt
import functools
import inspect
import re
import time

import pytest

from kiqbridge import Job, job
from kiqbridge.client.job import _CLASS_HANDLING, _CLASS_OPTIONS
from kiqbridge.client.registry import default_registry, definition_of
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.wire.options import LOCAL, SCHEDULED, DeclaredOptions

pytestmark = pytest.mark.usefixtures("own_jobs")


def declare():
    @job(queue="mailers", retry=5)
    def send_invoice(invoice_id: int, copy: bool = False) -> str:
        """Send it."""
        return f"invoice {invoice_id} {copy}"

    return send_invoice


class Owner:
    def method(self, n):
        pass


async def never_awaited(count, error, payload):
    """No rule is awaited."""


class TestFunction:
    def test_it_stays_callable_and_keeps_its_name_docstring_and_signature(self):
        send_invoice = declare()
        assert send_invoice(42, copy=True) == "invoice 42 True"
        assert (send_invoice.__name__, send_invoice.__doc__) == ("send_invoice", "Send it.")
        signature = "(invoice_id: int, copy: bool = False) -> str"
        assert str(inspect.signature(send_invoice)) == signature
        assert repr(send_invoice) == "<job send_invoice>"

    def test_its_wire_name_is_its_own_or_the_given_one(self):
        @job(name="Reports::Nightly")
        def nightly():
            pass

        assert definition_of(declare()).name == "send_invoice"
        assert default_registry.require("Reports::Nightly") is definition_of(nightly)

    def test_its_options_are_sidekiqs_in_sidekiqs_order(self):
        @job
        def plain(x):
            return x * 2

        @job(queue="o", retry=7, backtrace=20, dead=False, tags=["a"], attributes={"custom": 1})
        def big():
            pass

        assert plain(21) == 42
        assert definition_of(plain).options == {"retry": True, "queue": "default"}
        wanted = {
            "retry": 7, "queue": "o", "backtrace": 20, "dead": False, "tags": ["a"], "custom": 1,
        }  # fmt: skip
        assert list(definition_of(big).options.items()) == list(wanted.items())

    def test_the_worker_calls_the_function_itself(self):
        @job
        async def crawl(url):
            return url

        send_invoice = declare()
        definition = definition_of(send_invoice)
        instance = definition.instantiate("abc")
        assert instance is send_invoice
        assert definition.perform_of(instance)(1, True) == "invoice 1 True"
        definition = definition_of(crawl)
        assert inspect.iscoroutinefunction(definition.perform_of(definition.instantiate("abc")))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"queue": ""}, "queue '' is empty"),
            ({"queue": None}, "queue None is not a queue name"),
            ({"queue": "a b"}, "queue 'a b' holds white space"),
            ({"retry_queue": 5}, "retry_queue 5 is not a queue name"),
            ({"retry": "five"}, "retry 'five' is not a number of retries"),
            ({"retry": -1}, "retry -1 is not a number of retries"),
            ({"retry": 2.5}, "retry 2.5 is not a number of retries"),
            ({"timeout_s": "abc"}, "timeout_s 'abc' is not a number of seconds above 0"),
            ({"timeout_s": True}, "timeout_s True is not a number of seconds above 0"),
            *(
                ({"max_run_s": value}, f"max_run_s {value!r} is not a number of seconds above 0")
                for value in (0, -1, float("inf"), float("nan"), "60", True)
            ),
            (
                {"max_run_s": 30, "timeout_s": 30},
                "max_run_s 30 is not longer than timeout_s 30: .*; make it longer",
            ),
            ({"max_run_s": 5, "on_max_run": "drop"}, "on_max_run 'drop' is not requeue or dead"),
            ({"attributes": {"custom": float("nan")}}, "option custom: nan has no JSON text"),
        ],
    )
    def test_an_option_that_cannot_be_written_is_refused_at_declaration(self, options, message):
        with pytest.raises(ConfigError, match=rf"^job 'wrong': {message}"):
            job(name="wrong", **options)(print)
        if "attributes" not in options:  # those of a class are its sidekiq_options
            with pytest.raises(ConfigError, match=message):
                type("Wrong", (Job,), {**options, "perform": lambda _self: None})

    @pytest.mark.parametrize(
        ("option", "values", "wanted"),
        [
            ("backtrace", [-1, 2.5, "no", []], "a number of lines; write True"),
            ("dead", [0, 1, "no", "", []], "true or false; write True or False"),
            ("tags", ["mail", "", False, {"a"}, ("a",), [5]], "a list of texts; write one such"),
            ("retry_for", [-1, "1h", True, dt.timedelta(hours=1)], "a number of seconds up to 1,0"),
            ("log_level", [5, -1, "loud", "", True], "a level; write debug, info, warn, error"),
            ("skip_default_job_logging", [0, "no"], "true or false; write True or False"),
            ("display_class", [5, "", [], print], "the name of a class; write a text"),
            ("profile", [5, True, ""], "a token; write a text"),
            ("profiler_options", [5, "", [], True], "a dict; write one of names and values"),
            ("expires_in", [0, -1, "1h", True, 10**400], "a number of seconds above 0, or a timed"),
            (
                "retry_in",
                [5, "x", False, [], dt.timedelta(1)],
                r"a function of \(count, error, pay",
            ),
            (
                "retry_in",
                [lambda count: count, never_awaited],
                r"a function of \(count, error, payload",
            ),
            ("retries_exhausted", ["x", 0, ""], r"a function of \(payload, error\), such as `lam"),
            (
                "retries_exhausted",
                [lambda: 1, lambda payload, error, more: 1],
                r"a function of \(payload, error\)",
            ),
            (
                "on_error",
                ["kill", "", False, 5, [OSError]],
                "a dict of exception classes; write one",
            ),
            ("check_arguments", [0, "no", None, []], "true or false; write True or False"),
        ],
    )
    def test_a_value_that_means_nothing_is_refused_at_declaration(self, option, values, wanted):
        for value in values:
            with pytest.raises(ConfigError, match=rf"^job 'wrong': {option} .* is not {wanted}"):
                job(name="wrong", **{option: value})(print)
            is_member = option in _CLASS_OPTIONS or option in _CLASS_HANDLING
            members = {option: value} if is_member else {"sidekiq_options": {option: value}}
            with pytest.raises(ConfigError, match=rf"^job 'Wrong': {option} .* is not {wanted}"):
                type("Wrong", (Job,), {**members, "perform": lambda _self: None})

    def test_each_option_has_a_value_that_is_refused(self):
        """Of every option that there is, also of those that have no row in a table."""
        beside = {each: {"cron": "0 3 * * *"} for each in SCHEDULED - {"cron", "every"}}

        for option in DeclaredOptions.__annotations__.keys() | LOCAL | {"queue", "retry"}:
            with pytest.raises(ConfigError):
                job(**{"name": "wrong", **beside.get(option, {}), option: object()})(print)

    @pytest.mark.parametrize("name", ["", " ", "a\nb", 5])
    def test_a_name_that_no_payload_could_hold_is_refused(self, name):
        with pytest.raises(ConfigError, match=r"the name of .* is not a text of printable"):
            job(name=name)(print)
        with pytest.raises(ConfigError, match=r"the name of Declared is not a text of printable"):
            type("Declared", (Job,), {"class_name": name, "perform": lambda _self: None})

    def test_a_function_with_yield_is_refused_and_iterable_named(self):
        def plain(n):
            yield n

        async def asynchronous(n):
            yield n

        for function in (plain, asynchronous):
            with pytest.raises(ConfigError, match=r"has a yield, .* declare an IterableJob"):
                job(function)
            with pytest.raises(ConfigError, match=r"has a yield"):
                type("Yields", (Job,), {"perform": function})

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda: None, r"a lambda has no name"),
            (Owner.method, r"Owner.method is a method, .* no self"),
            (Owner, r"is no function; .* derive a class from Job"),
            ("nightly", r"'nightly' is no function; .* @job\(name="),
            (functools.partial(print, 1), r"is no function"),
        ],
    )
    def test_what_no_worker_could_call_is_refused(self, function, message):
        with pytest.raises(ConfigError, match=rf"^@job: .*{message}"):
            job(function)


class TestClass:
    def test_it_is_registered_under_its_own_or_the_given_name(self):
        class Nightly(Job):
            class_name = "Reports::Nightly"
            queue = "low"
            retry = 3
            backtrace = True
            tags = ["x"]  # noqa: RUF012 - as users write it
            sidekiq_options = {"custom": 1}  # noqa: RUF012 - as users write it

            def perform(self, day):
                return self.jid, day

        class Weekly(Nightly):
            """It inherits options, and no name."""

        definition = default_registry.require("Reports::Nightly")
        assert definition is definition_of(Nightly)
        wanted = {"retry": 3, "queue": "low", "backtrace": True, "tags": ["x"], "custom": 1}
        assert list(definition.options.items()) == list(wanted.items())
        assert definition_of(Weekly).name == "Weekly"
        # Each execution has an instance of its own that knows its jid.
        first, second = definition.instantiate("one"), definition.instantiate("two")
        assert definition.perform_of(first)("mon") == ("one", "mon")
        assert definition.perform_of(second)("tue") == ("two", "tue")

    def test_a_class_without_perform_is_a_base_whose_options_are_inherited(self):
        class Reports(Job):
            queue = "reports"
            retry = False

        class Daily(Reports):
            def perform(self):
                pass

        class Yearly(Daily):
            queue = "low"

        assert definition_of(Reports) is None
        assert definition_of(Daily).options == {"retry": False, "queue": "reports"}
        assert definition_of(Yearly).options == {"retry": False, "queue": "low"}

    def test_perform_may_be_static_or_of_the_class(self, pushes):
        class Static(Job):
            @staticmethod
            def perform(day):
                return day

        class OfClass(Job):
            @classmethod
            def perform(cls, day):
                return cls, day

        Static.perform_async("mon")
        OfClass.perform_async(day="tue")

        assert [payload["args"] for _, payload in pushes.calls] == [["mon"], ["tue"]]


class TestEnqueuing:
    def test_middleware_is_told_the_declared_job_itself(self, pushes):
        class Nightly(Job):
            def perform(self):
                pass

        send_invoice = declare()
        send_invoice.perform_async(1)
        send_invoice.set(queue="low").perform_async(1)
        Nightly.perform_async()
        Nightly.set(queue="low").perform_bulk([[]])

        assert [declared for declared, _ in pushes.calls] == [send_invoice] * 2 + [Nightly] * 2
        assert [payload["class"] for _, payload in pushes.calls] == ["send_invoice"] * 2 + [
            "Nightly"
        ] * 2

    def test_a_call_that_does_not_fit_the_signature_is_refused(self, pushes):
        send_invoice = declare()

        for wrong in (
            send_invoice.perform_async,
            lambda: send_invoice.perform_in(5),
            lambda: send_invoice.perform_at(5, 1, 2, 3),
            lambda: send_invoice.set(queue="x").perform_async(1, unknown=2),
            lambda: send_invoice.perform_bulk([[1], []]),
            lambda: send_invoice.with_args(1, copies=True),
        ):
            with pytest.raises(
                PayloadError, match=r"^args: send_invoice cannot be called like this"
            ):
                wrong()
        assert pushes.calls == []

    @pytest.mark.parametrize("args", ["ab", 5, None, {"a": 1}, ["ab"], [{"a": 1}], [5]])
    def test_bulk_takes_nothing_but_lists_of_arguments(self, pushes, args):
        with pytest.raises(PayloadError, match="is not a list of lists"):
            declare().perform_bulk(args)
        assert pushes.calls == []

    def test_set_overrides_the_options_for_this_push_only(self, pushes):
        send_invoice = declare()

        send_invoice.set(queue="high", retry=0, attributes={"foo": "bar"}).perform_async(1)
        send_invoice.perform_async(1)

        (_, changed), (_, usual) = pushes.calls
        assert (changed["queue"], changed["retry"], changed["foo"]) == ("high", 0, "bar")
        assert (usual["queue"], usual["retry"]) == ("mailers", 5)
        assert "foo" not in usual

    @pytest.mark.parametrize(
        ("first", "second"), [({"queue": "high", "wait": 600}, {}), ({"wait": 60}, {"wait": 600})]
    )
    def test_set_adds_to_what_was_set_and_the_last_wait_holds(self, pushes, first, second):
        declare().set(**first).set(retry=1, **second).perform_async(1)

        assert (pushes.last["queue"], pushes.last["retry"]) == (first.get("queue", "mailers"), 1)
        assert pushes.last["at"] == pytest.approx(time.time() + 600, abs=5)

    def test_a_time_has_a_zone_and_is_not_given_twice(self, pushes):
        moment = dt.datetime(2030, 3, 17, 17, 46, 40, tzinfo=dt.UTC)
        send_invoice = declare()
        send_invoice.set(wait_until=moment).perform_async(1)
        assert pushes.last["at"] == 1_900_000_000.0
        with pytest.raises(PayloadError, match="not both"):
            send_invoice.set(wait=60, wait_until=1_900_000_000)
        with pytest.raises(PayloadError, match="has no time zone"):
            send_invoice.perform_at(moment.replace(tzinfo=None), 1)

    def test_an_interval_may_be_a_timedelta(self, pushes):
        before = time.time()

        send_invoice = declare()
        send_invoice.perform_in(dt.timedelta(hours=1), 1)
        assert before + 3600 <= pushes.last["at"] <= time.time() + 3600

        send_invoice.set(wait=dt.timedelta(hours=2)).perform_async(1)
        assert before + 7200 <= pushes.last["at"] <= time.time() + 7200

    @pytest.mark.parametrize(
        "push",
        [
            lambda declared: declared.perform_in("5m", 1),
            lambda declared: declared.set(wait="5m").perform_async(1),
            lambda declared: declared.perform_at("5m", 1),
        ],
    )
    def test_an_interval_as_a_text_is_refused_with_what_to_write(self, pushes, push):
        with pytest.raises(PayloadError, match=r"^at: '5m' is a text; .* timedelta\(minutes=5\)"):
            push(declare())

        assert pushes.calls == []

    @pytest.mark.parametrize(
        ("name", "ours"),
        [("delay", "perform_async("), ("send", "perform_async("), ("apply_async", "set(queue=")],
    )
    def test_the_calls_of_other_libraries_name_ours_unless_a_job_has_them(self, name, ours):
        class Written(Job):
            def perform(self) -> None: ...

        function = declare()
        for declared in (function, function.set(queue="low"), Written, Written()):
            assert not hasattr(declared, name)
            with pytest.raises(AttributeError, match=rf"^a job has no {name}; .*{re.escape(ours)}"):
                getattr(declared, name)
        own = type("Own", (Written,), {name: lambda _self: "own"})
        assert getattr(own(), name)() == "own"

    def test_an_interval_that_has_passed_means_now(self, pushes):
        send_invoice = declare()

        send_invoice.perform_in(0, 1)
        send_invoice.perform_at(1_000_000_000, 1)
        send_invoice.set(wait=-5).perform_async(1)

        assert all("at" not in payload for _, payload in pushes.calls)


class TestOptionsThatNobodyKnows:
    """A misspelt option would travel in every payload and do nothing."""

    @pytest.mark.parametrize(
        ("options", "hint"),
        [
            ({"max_retries": 3}, "did you mean retry?"),
            ({"que": "low"}, "did you mean queue?"),
            ({"time_limit": 5}, "did you mean timeout_s?"),
            ({"backtrase": 5}, "did you mean backtrace?"),
            ({"tenant": "acme"}, "attributes={'tenant': …}"),
            ({"unique_for": 600}, "did you mean unique=Unique(ttl_s=…) of kiqbridge.flow?"),
            ({"unique_until": "start"}, "did you mean unique=Unique(ttl_s=…, until=…)"),
            ({"lock": "until_executed"}, "did you mean unique=Unique("),
            ({"on_conflict": "reject"}, "did you mean unique=Unique("),
        ],
    )
    def test_a_declaration_with_one_is_refused_with_a_suggestion(self, options, hint):
        [name] = options

        with pytest.raises(ConfigError, match=f"{name}: is no option of a job") as refused:
            job(name=f"Misspelt {name}", **options)(print)

        assert hint in str(refused.value)
        assert f"Misspelt {name}" not in default_registry

    @pytest.mark.parametrize(
        ("options", "hint"),
        [
            ({"max_retries": 3}, "did you mean retry?"),
            ({"que": "low"}, "did you mean queue?"),
            ({"unique_for": 600}, "did you mean unique=Unique("),
            ({"countdown": 5}, "did you mean wait?"),
            ({"eta": 5}, "did you mean wait_until?"),
            ({"unique": True}, "unique: True is not a kiqbridge.flow.Unique(…)"),
        ],
    )
    def test_set_refuses_it_too(self, options, hint):
        send_invoice = declare()
        for declared in (send_invoice, send_invoice.set(queue="low")):
            with pytest.raises(PayloadError, match=r"^set: ") as refused:
                declared.set(**options)
            assert hint in str(refused.value)

    @pytest.mark.parametrize(
        "attributes",
        [
            {"unique_for": 600},
            {"sidekiq_options": {"unique_for": 600}},
            {"sidekiq_options": {"lock": "until_executed"}},
        ],
    )
    def test_a_class_that_would_be_unique_in_ruby_alone_is_refused(self, attributes):
        with pytest.raises(ConfigError, match=r"^job 'Odd': .* did you mean unique=Unique\("):
            type("Odd", (Job,), {**attributes, "perform": lambda _self: None})

    @pytest.mark.parametrize("attributes", [5, ["a"], "a", None])
    def test_attributes_are_a_dict(self, attributes):
        with pytest.raises(PayloadError, match="attributes: "):
            declare().set(attributes=attributes)
        with pytest.raises(ConfigError, match="attributes: "):
            job(name="Odd attributes", attributes=attributes)(print)
