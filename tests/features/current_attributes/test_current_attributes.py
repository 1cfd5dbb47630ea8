"""Context variables that travel with jobs, in the forms of Ruby's CurrentAttributes, and the locale."""

import asyncio
import json
import threading
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest
from support.jobs import own_declarations
from support.vectors import FILES, job_texts, of_kind
from support.waiting import at_once

from kiqbridge import job
from kiqbridge.client.client import Client
from kiqbridge.client.default_client import configure, default_client
from kiqbridge.client.middleware import Chain
from kiqbridge.client.server import server
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.features.active_job.values import Symbol, deserialize
from kiqbridge.features.current_attributes import middleware as current_attributes
from kiqbridge.features.current_attributes.middleware import CurrentAttributes, Locale, locale
from kiqbridge.testing import fake

USER = ContextVar("user_id")
TENANT = ContextVar("tenant")
REQUEST = ContextVar("request_id", default="none")


@pytest.fixture
def clean():
    """Nothing declared, no client, no middleware, and all of it forgotten at the end."""
    chains = (server.middleware, server.client_middleware)
    before = [list(chain) for chain in chains]
    groups, chosen = current_attributes._persisted._groups[:], current_attributes._locale
    with own_declarations():
        yield
    for chain, entries in zip(chains, before, strict=True):
        chain.clear()
        for entry in entries:
            chain.add(entry)
    current_attributes._persisted._groups[:] = groups
    current_attributes._locale = chosen


@pytest.fixture
def jobs():
    """What is enqueued, recorded."""
    with fake() as jobs:
        yield jobs


BOTH = CurrentAttributes({"user_id": USER, "tenant": TENANT})
ONE = CurrentAttributes({"user_id": USER})


def isolated(function, *args):
    """Call it where no variable is set, and forget what it sets."""
    return copy_context().run(function, *args)


def pushed(middleware, payload=None, **variables):
    """The payload after `save`, with these variables set."""

    def save():
        for name, value in variables.items():
            {"user": USER, "tenant": TENANT, "request": REQUEST}[name].set(value)
        content = {"class": "A", "args": [], "created_at": 1.5, **(payload or {})}
        return middleware.save("A", content, "default", lambda: content)

    return isolated(save)


def seen_by(middleware, payload, look):
    """What a plain job sees."""
    return middleware(None, payload, "default", look)


def both():
    return USER.get(None), TENANT.get(None)


class TestSaving:
    def test_nothing_is_stored_where_nothing_is_set_and_none_or_the_original_is(self):
        assert "cattr" not in pushed(CurrentAttributes({"user_id": USER, "request_id": REQUEST}))
        assert pushed(ONE, user=None)["cattr"] == {"user_id": None}
        assert pushed(ONE, {"cattr": {"user_id": 1}}, user=2)["cattr"] == {"user_id": 1}

    def test_a_second_group_has_a_key_of_its_own(self):
        attributes = CurrentAttributes({"user_id": USER}, {"request_id": REQUEST}, {"t": TENANT})

        payload = pushed(attributes, user=1, request="r", tenant="a")

        assert payload["cattr"] == {"user_id": 1}
        assert payload["cattr_1"] == {"request_id": "r"}
        assert payload["cattr_2"] == {"t": "a"}

    def test_what_came_from_sidekiq_8_can_be_passed_on_to_7(self):
        value = {
            Symbol("role"): Symbol("admin"),
            "since": date(2026, 1, 2),
            "for": timedelta(hours=1),
            "limit": Decimal("1.5"),
            "at": [datetime(2026, 1, 2, tzinfo=UTC)],
        }

        stored = pushed(ONE, user=value)["cattr"]

        assert json.loads(json.dumps(stored)) == {
            "user_id": {
                "role": "admin",
                "since": "2026-01-02",
                "for": 3600.0,
                "limit": "1.5",
                "at": ["2026-01-02T00:00:00+00:00"],
            }
        }
        assert type(stored["user_id"]["role"]) is str
        assert {type(name) for name in stored["user_id"]} == {str}

    def test_a_value_that_8_cannot_carry_is_refused_with_its_path(self):

        with pytest.raises(PayloadError, match=r"cattr: .*of type object has no form"):
            pushed(ONE, {"created_at": 1795174552621}, user=object())

    @pytest.mark.parametrize("group", [{}, {"user_id": "USER"}])
    def test_only_context_variables_can_be_named(self, group):
        with pytest.raises(ConfigError, match="current attributes"):
            CurrentAttributes(group)


class TestReading:
    @pytest.mark.parametrize(("file", "name"), of_kind("attributes"))
    def test_what_ruby_recorded_is_set_around_the_job(self, file, name):
        [text] = job_texts(FILES[file][name])

        assert seen_by(BOTH, json.loads(text), both) == (42, "acme")

    @pytest.mark.parametrize(("file", "name"), of_kind("attributes"))
    def test_what_python_writes_is_what_ruby_recorded(self, file, name):
        [text] = job_texts(FILES[file][name])
        recorded = json.loads(text)
        payload = {"created_at": recorded["created_at"]}
        ours = pushed(BOTH, payload, user=42, tenant="acme")
        assert json.dumps(ours["cattr"]) == json.dumps(recorded["cattr"])

    def test_each_group_has_its_own_and_unknown_names_are_passed_over(self):
        attributes = CurrentAttributes({"id": USER}, {"id": TENANT})
        stored = {"cattr": {"id": 1, "ruby_only": 3}, "cattr_1": {"id": 2}}
        assert seen_by(attributes, stored, both) == (1, 2)

    @pytest.mark.parametrize(
        "stored",
        [None, 5, "x", [], [1], [[1]], [["a", 1, 2]], {}, [{"a": 1}], [[{}, 1]], [[[], 1]]],
    )
    def test_what_makes_no_sense_sets_nothing(self, stored):

        assert seen_by(ONE, {"cattr": stored}, both) == (None, None)

    def test_what_a_job_sets_ends_with_it_also_by_an_error(self):
        def perform():
            TENANT.set("of this job")
            return both()

        assert seen_by(BOTH, {"cattr": {"user_id": 1}}, perform) == (1, "of this job")
        assert seen_by(BOTH, {}, both) == (None, None)
        with pytest.raises(ZeroDivisionError):
            seen_by(ONE, {"cattr": {"user_id": 1}}, lambda: 1 / 0)
        assert both() == (None, None)

    def test_threads_do_not_see_each_others(self):
        meeting = threading.Barrier(2)
        seen = {}

        def perform():
            meeting.wait(5)
            seen[USER.get()] = threading.get_ident()
            meeting.wait(5)

        at_once(*(partial(seen_by, ONE, {"cattr": {"user_id": n}}, perform) for n in (1, 2)))

        assert set(seen) == {1, 2}

    def test_tasks_of_one_loop_do_not_see_each_others(self):

        async def perform():
            await asyncio.sleep(0)
            return USER.get()

        async def run():
            return await asyncio.gather(
                *(
                    ONE.call_async(None, {"cattr": {"user_id": n}}, "default", perform)
                    for n in range(20)
                )
            )

        assert asyncio.run(run()) == list(range(20))

    def test_an_async_job_is_wrapped_on_its_loop_without_another_thread(self):
        async def perform():
            return threading.get_ident(), USER.get()

        async def run():
            arguments = (None, {"cattr": {"user_id": 5}}, "default")
            return await Chain(ONE).invoke_async(arguments, perform, None)

        assert asyncio.run(run()) == (threading.get_ident(), 5)


class TestRubysValues:
    """What is serialized comes back: test_rails.py."""

    def test_symbol_keys_are_symbols_again(self):
        back = deserialize({"role": 1, "name": 2, "_aj_symbol_keys": ["role"]})

        assert back == {"role": 1, "name": 2}
        assert {key: type(key) for key in back} == {"role": Symbol, "name": str}

    @pytest.mark.parametrize(
        "value",
        [
            {"_aj_globalid": "gid://app/User/1"},
            {"_aj_serialized": "MoneySerializer", "amount": 5},
            {"_aj_serialized": "ActiveJob::Serializers::DateSerializer", "value": 5},
            {"_aj_serialized": "ActiveJob::Serializers::TimeSerializer", "value": "later"},
            {"_aj_serialized": "ActiveJob::Serializers::DurationSerializer", "value": None},
            {"_aj_serialized": "ActiveJob::Serializers::BigDecimalSerializer", "value": "x"},
            {"_aj_serialized": None},
        ],
    )
    def test_what_has_no_counterpart_stays_as_it_is(self, value):
        assert deserialize(value) == value


class TestPersisting:
    def test_one_call_installs_both_halves_and_a_job_passes_them_on(self, clean, jobs):
        seen = []
        current_attributes.persist(user_id=USER)

        @job
        def child():
            seen.append(both())

        @job
        def parent():
            child.perform_async()

        isolated(lambda: (USER.set(7), parent.perform_async()))
        assert jobs.assert_enqueued(parent).payload["cattr"] == {"user_id": 7}
        jobs.drain()
        assert seen == [(7, None)]
        assert both() == (None, None)
        assert len(server.client_middleware) == 1

    def test_a_client_configured_before_or_after_has_it(self, clean):
        before = configure("redis://nowhere.invalid:1/0")
        current_attributes.persist(user_id=USER)
        after = configure("redis://nowhere.invalid:1/0")

        assert len(before.middleware) == len(after.middleware) == 1
        assert default_client() is after
        assert len(Client("redis://nowhere.invalid:1/0").middleware) == 0

    def test_each_call_is_a_group_and_the_same_again_none(self, clean, jobs):
        current_attributes.persist(user_id=USER)
        current_attributes.persist({"request-id": REQUEST})
        current_attributes.persist(user_id=USER)

        @job
        def greet(): ...

        isolated(lambda: (USER.set(7), REQUEST.set("r"), greet.perform_async()))

        payload = jobs.assert_enqueued(greet).payload
        assert payload["cattr"] == {"user_id": 7}
        assert payload["cattr_1"] == {"request-id": "r"}
        assert "cattr_2" not in payload
        assert len(server.middleware) == 1


class TestLocale:
    def test_it_is_stored_if_there_is_one_and_none_yet(self):
        def save(payload, chosen):
            locale.set(chosen)
            return Locale().save("A", payload, "default", lambda: payload)

        assert isolated(save, {}, "de") == {"locale": "de"}
        assert isolated(save, {"locale": "fr"}, "de") == {"locale": "fr"}
        assert isolated(save, {}, None) == {}

    def test_the_job_runs_with_it(self):
        assert seen_by(Locale(), {"locale": "de"}, locale.get) == "de"
        assert seen_by(Locale(), {}, locale.get) is None
        assert seen_by(Locale(), {"locale": 5}, locale.get) is None
        assert locale.get() is None

    def test_another_librarys_locale_goes_along(self, clean, jobs):
        active = ["en"]

        @contextmanager
        def override(chosen):
            active.append(chosen)
            yield
            active.pop()

        current_attributes.persist_locale(get=lambda: active[-1], activate=override)
        seen = []

        @job
        def greet():
            seen.extend(active)

        greet.perform_async()
        active[:] = ["fr"]
        jobs.drain()

        assert seen == ["fr", "en"]
        assert active == ["fr"]

    def test_the_last_call_counts(self, clean, jobs):
        current_attributes.persist_locale(lambda: "de")
        configure("redis://nowhere.invalid:1/0")
        current_attributes.persist_locale(lambda: "fr")
        configure("redis://nowhere.invalid:1/0")

        @job
        def greet(): ...

        greet.perform_async()

        assert jobs.assert_enqueued(greet).payload["locale"] == "fr"
        assert len(server.middleware) == len(server.client_middleware) == 1
