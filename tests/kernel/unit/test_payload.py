"""What a job's payload must look like, and how one is built."""

import datetime as dt
import enum
import json
from collections import OrderedDict
from decimal import Decimal

import pytest
from hypothesis import given
from support.processes import run_python
from support.strategies import ARGUMENTS, EPOCH_SECONDS, PAYLOADS

from kiqbridge.errors import ConfigError, KiqbridgeError, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.json_text import dumps, loads
from kiqbridge.wire.payload import (
    DEFAULT_OPTIONS,
    MAX_DEPTH,
    check_json,
    check_payload,
    epoch_seconds,
    new_jid,
    normalize,
    parse_profile,
    read_timestamp,
    run_time,
    timestamp,
    validate,
)

NOW = 1_700_000_000.25
JOB = {"class": "EchoJob", "args": [1]}


class Colour(enum.IntEnum):
    RED = 1


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no repr")


def normalized(item, defaults=DEFAULT_OPTIONS, profile="7"):
    return normalize(item, defaults, NOW, profile)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("item", "field", "shown"),
        [
            ([], "job", "[]"),
            (None, "job", "None"),
            ("EchoJob", "job", "EchoJob"),
            ({"class": "EchoJob"}, "job", "EchoJob"),
            ({"args": []}, "job", "args"),
            (JOB | {"args": "x"}, "args", "'x'"),
            (JOB | {"args": {"a": 1}}, "args", "{'a': 1}"),
            (JOB | {"args": (1, 2)}, "args", "(1, 2)"),
            (JOB | {"args": None}, "args", "None"),
            (JOB | {"class": ""}, "class", "''"),
            (JOB | {"class": None}, "class", "None"),
            (JOB | {"class": str}, "class", "str"),
            (JOB | {"at": "soon"}, "at", "'soon'"),
            (JOB | {"at": None}, "at", "None"),
            (JOB | {"at": True}, "at", "True"),
            (JOB | {"at": float("nan")}, "at", "nan"),
            (JOB | {"at": float("inf")}, "at", "inf"),
            (JOB | {"at": 10**400}, "at", "1000"),
            (JOB | {"tags": "x"}, "tags", "'x'"),
            (JOB | {"retry_for": 1_900_000_000}, "retry_for", "1900000000"),
            (JOB | {"retry_for": "1h"}, "retry_for", "'1h'"),
            (JOB | {"retry_for": 10**400}, "retry_for", "1000"),
            (JOB | {"jid": ""}, "jid", "''"),
            (JOB | {"jid": 5}, "jid", "5"),
        ],
    )
    def test_the_message_names_the_field_and_shows_the_value(self, item, field, shown):
        with pytest.raises(PayloadError) as refusal:
            validate(item)

        assert str(refusal.value).startswith(f"{field}: ")
        assert shown in str(refusal.value)

    @pytest.mark.parametrize("queue", [None, "", 5])
    def test_a_job_without_a_queue_is_refused_and_the_first_rule_that_is_broken_named(self, queue):
        with pytest.raises(PayloadError, match=rf"^queue: {queue!r} is not a queue name"):
            normalized(JOB | {"queue": queue})
        with pytest.raises(PayloadError, match=r"^args: "):
            validate({"class": None, "args": "x", "at": "soon"})
        assert issubclass(PayloadError, ValueError)
        assert issubclass(PayloadError, KiqbridgeError)

    @pytest.mark.parametrize(
        "extra",
        [{"at": 60}, {"at": -1.5}, {"tags": []}, {"tags": None}, {"retry_for": 0}, {"jid": "x"}],
    )
    def test_what_sidekiq_accepts_is_accepted(self, extra):
        item = JOB | extra

        assert validate(item) is item

    def test_a_value_that_is_long_or_cannot_be_shown_is_refused_all_the_same(self):
        with pytest.raises(PayloadError, match="cannot be shown"):
            check_json([Unshowable()], "args")
        with pytest.raises(PayloadError) as refusal:
            validate(JOB | {"args": "x" * 10_000})
        assert len(str(refusal.value)) < 200
        assert len(shorten("x" * 10_000)) == 81


class TestNormalizing:
    def test_defaults_come_first_then_the_items_own_order_then_jid_and_created_at(self):
        payload = normalized({"zeta": 1, "args": [], "class": "EchoJob", "alpha": None})

        assert list(payload) == [
            "retry", "queue", "zeta", "args", "class", "alpha", "jid", "created_at",
        ]  # fmt: skip

    def test_a_key_that_is_present_keeps_its_place_and_the_item_wins(self):
        payload = normalized({"queue": "low", **JOB, "retry": None, "jid": "x", "created_at": 1.5})

        assert payload == {"retry": None, "queue": "low", **JOB, "jid": "x", "created_at": 1.5}
        assert list(payload)[:2] == ["retry", "queue"]

    def test_retry_for_becomes_whole_seconds_and_the_item_itself_is_not_changed(self):
        item = JOB | {"retry_for": 90.7}
        assert normalized(item)["retry_for"] == 90
        assert item == JOB | {"retry_for": 90.7}

    def test_a_jid_is_24_hex_digits_and_never_the_same(self):
        jids = {new_jid() for _ in range(1000)}

        assert len(jids) == 1000
        assert all(len(jid) == 24 and int(jid, 16) >= 0 and jid == jid.lower() for jid in jids)

    def test_a_forked_child_has_jids_of_its_own(self):
        script = """
            import os
            from kiqbridge.wire.payload import new_jid

            jids = [new_jid()]
            reading, writing = os.pipe()
            if not os.fork():
                os.write(writing, new_jid().encode())
                os._exit(0)
            os.wait()
            jids += [new_jid(), os.read(reading, 24).decode()]
            assert len(set(jids)) == 3, jids
        """

        run_python(script, options=("-W", "ignore::DeprecationWarning"))

    def test_environments_restored_from_one_snapshot_have_jids_of_their_own(self):
        script = """
            import os
            import snapshot_restore_py
            from kiqbridge.wire.payload import new_jid

            new_jid()
            for hook, words, options in snapshot_restore_py.get_after_restore():
                hook(*words, **options)
            os.urandom = bytes  # what is drawn from now on is drawn after it
            assert new_jid() == "0" * 24
        """

        run_python(script)

    @given(PAYLOADS)
    def test_what_the_producer_wrote_stays(self, payload):
        kept = normalized({"queue": "default", **payload})

        assert payload.items() <= kept.items()


class TestTimes:
    def test_profile_7_writes_float_seconds_and_8_whole_milliseconds(self):
        assert dumps(timestamp(1_700_000_000, "7")) == b"1700000000.0"
        assert dumps(timestamp(1_700_000_000.1239, "8")) == b"1700000000123"
        assert repr(run_time(1_900_000_000, NOW)) == "1900000000.0"  # as Ruby sends it

    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (1_700_000_000.5, 1_700_000_000.5),
            (1_700_000_000_500, 1_700_000_000.5),
            (1_700_000_000, 1_700_000_000.0),
            (99_999_999_999, 99_999_999_999.0),
            (100_000_000_000, 100_000_000.0),
            ("1700000000.5", 1_700_000_000.5),
            ("1700000000500", 1_700_000_000.5),
            ("yesterday", None),
            (None, None),
            (True, None),
            ([1], None),
            (float("nan"), None),
            (float("inf"), None),
            (10**400, None),
            ("1" * 400, None),
            ("1" * 5000, None),
        ],
    )
    def test_a_time_is_read_in_every_form_that_was_ever_written(self, value, seconds):
        assert read_timestamp(value) == seconds

    @given(EPOCH_SECONDS)
    def test_a_time_survives_either_profile(self, moment):
        assert read_timestamp(loads(dumps(timestamp(moment, "7")))) == moment
        assert abs(read_timestamp(loads(dumps(timestamp(moment, "8")))) - moment) < 0.001

    @pytest.mark.parametrize(
        ("when", "at"),
        [
            (60, NOW + 60),
            (0.5, NOW + 0.5),
            (0, None),
            (-5, None),
            (999_999_999, NOW + 999_999_999),
            (1_000_000_000, None),
            (NOW, None),
            (1_900_000_000, 1_900_000_000.0),
            (dt.datetime(2030, 3, 17, 17, 46, 40, tzinfo=dt.UTC), 1_900_000_000.0),
            (dt.datetime(2001, 1, 1, tzinfo=dt.UTC), None),
            (dt.timedelta(minutes=1), NOW + 60),
            (dt.timedelta(milliseconds=500), NOW + 0.5),
            (dt.timedelta(days=-1), None),
        ],
    )
    def test_below_a_thousand_million_it_is_an_interval_and_the_past_is_now(self, when, at):
        assert run_time(when, NOW) == at

    @pytest.mark.parametrize("when", ["60", None, True, float("nan"), 10**400, dt.date(2030, 1, 1)])
    def test_what_is_no_time_is_refused(self, when):
        with pytest.raises(PayloadError, match=r"^at: .* is not a number of seconds"):
            run_time(when, NOW)

    def test_an_interval_of_decades_and_a_time_without_zone_are_refused(self):
        with pytest.raises(PayloadError, match=r"^at: .* is over 31 years"):
            run_time(dt.timedelta(days=20_000), NOW)
        with pytest.raises(PayloadError, match="has no time zone"):
            epoch_seconds(dt.datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point

    @pytest.mark.parametrize("text", ["", "9", "auto ", "seven"])
    def test_an_unknown_profile_is_refused_with_its_source(self, text):
        with pytest.raises(ConfigError, match=r"is not a wire profile \(from worker.yml\)"):
            parse_profile(text, source="worker.yml")


NO_NUMBERS = float("nan"), float("inf"), -float("inf")


class TestValuesOnTheWire:
    @pytest.mark.parametrize(
        "value",
        [
            dt.datetime(2030, 1, 1, tzinfo=dt.UTC),
            dt.date(2030, 1, 1),
            Decimal("1.5"),
            (1, 2),
            {1, 2},
            b"bytes",
            object(),
            Colour.RED,
            OrderedDict(a=1),
            type("Text", (str,), {})("x"),
            1j,
        ],
    )
    def test_what_the_reader_could_not_restore_is_refused(self, value):
        with pytest.raises(PayloadError, match=r"^args\[0\]: .* would not arrive as it is"):
            check_json([value], "args")

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            *(({"x": number}, r"^args\[0\]\.x: .* has no JSON text") for number in NO_NUMBERS),
            *(({key: 1}, r"^args\[0\]: key .* is not a text") for key in (1, None, True, 1.5, (1,))),
            *((odd, "lone surrogate") for odd in ("\ud800", ["a\udfffb"], {"\ud800": 1}, {"a": "\udc00"})),
        ],
    )  # fmt: skip
    def test_what_has_no_json_text_is_refused(self, value, told):
        with pytest.raises(PayloadError, match=told):
            check_json([value], "args")

    def test_the_depth_that_ruby_reads_is_the_limit(self):
        def payload(levels):
            return {"args": loads(b"[" * levels + b"]" * levels)}

        check_payload(payload(MAX_DEPTH - 1))  # the payload itself is the hundredth
        loads(dumps(payload(MAX_DEPTH - 1)))

        with pytest.raises(PayloadError, match="nested deeper than 100 levels"):
            check_payload(payload(MAX_DEPTH))

    def test_every_attribute_is_checked_not_only_the_arguments(self):
        with pytest.raises(PayloadError, match=r"^tags"):
            check_payload(JOB | {"tags": ["a", Decimal(1)]})

    @given(ARGUMENTS)
    def test_what_passes_arrives_as_it_is(self, args):
        payload = normalized({"class": "EchoJob", "args": args})
        check_payload(payload)

        arrived = json.loads(dumps(payload))

        assert arrived == payload
        assert list(arrived) == list(payload)
