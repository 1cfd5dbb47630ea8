"""Encrypted arguments: what stands in a payload, and what the job gets."""

import base64
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import own_declarations
from support.runners import make_runner

from kiqbridge import Client, ConfigError, Job, PayloadError, configure, job
from kiqbridge.client.inline import prepare_inline
from kiqbridge.client.middleware import Chain
from kiqbridge.client.prepare import prepare
from kiqbridge.client.registry import default_registry
from kiqbridge.client.sealing import sealing
from kiqbridge.engine.settle.ending import Target
from kiqbridge.features.encryption import arguments as encryption
from kiqbridge.wire.payload import ENCRYPTED

KEYS = "KIQBRIDGE_ENCRYPTION_KEYS"
ONE, TWO = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
CARD = "4111-1111-1111-1111"


class Thread:
    tid = "t1"
    performing = False
    interrupted = False


@pytest.fixture(autouse=True)
def declarations(monkeypatch):
    monkeypatch.setenv(KEYS, f"1:{ONE}")
    with own_declarations():
        configure("redis://nowhere.invalid:1/0")
        yield


@pytest.fixture
def charged():
    """What the job `charge` was called with; its last argument is encrypted."""
    calls = []

    @job(encrypted=True)
    def charge(user, card):
        calls.append((user, card))

    return calls


def prepared(item):
    return prepare_inline(Client("redis://nowhere.invalid:1/0"), item)


def pushed(*args, name="charge"):
    return prepared({"class": name, "args": list(args)})


def perform(payload):
    runner = make_runner(default_registry)
    return runner.run(json.dumps(payload).encode(), "default", Thread())


class TestRoundTrip:
    def test_redis_gets_a_text_and_the_job_the_value(self, charged):
        payload = pushed(7, CARD)
        assert payload["args"][0] == 7
        assert payload["args"][1].startswith("kb1:1:")
        assert payload[ENCRYPTED] == [1]
        assert CARD not in json.dumps(payload)
        assert prepared(payload)["args"] == payload["args"]  # not encrypted twice
        assert pushed(7, CARD)["args"] != payload["args"]
        assert perform(payload) is None
        plain = {"class": "charge", "args": [8, CARD], "jid": "j1"}  # pushed before
        assert perform(plain) is None
        default_registry.require("charge").instantiate("j").perform_inline(9, CARD)
        assert charged == [(7, CARD), (8, CARD), (9, CARD)]

    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
            lambda inner: (
                st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
            ),
            max_leaves=5,
        )
    )
    def test_each_value_of_json_comes_back(self, value):
        payload = {"class": "charge", "jid": "j1", "args": [1, value]}

        sealed = encryption.encrypt(payload, (1,))

        assert encryption.decrypt(json.loads(json.dumps(sealed))) == [1, value]
        assert payload["args"] == [1, value]

    def test_classes_and_async_functions_name_their_parameters(self):
        seen = []

        class Pay(Job):
            encrypted = ("card", "pin")

            def perform(self, card, user, pin=None):
                seen.append((card, user, pin))

        @job(encrypted=["card"])
        async def note(card, user):
            seen.append((card, user))

        for args, places in (([CARD, 7, 1234], [0, 2]), ([CARD, 7], [0])):
            payload = pushed(*args, name="Pay")
            assert payload[ENCRYPTED] == places
            assert perform(payload) is None
        assert pushed(CARD, 7, name="note")[ENCRYPTED] == [0]
        note.perform_inline(CARD, 7)
        assert seen == [(CARD, 7, 1234), (CARD, 7, None), (CARD, 7)]


class TestKeys:
    def test_the_highest_number_encrypts_and_all_decrypt(self, charged, monkeypatch):
        old = pushed(7, CARD)
        monkeypatch.setenv(KEYS, f"1:{ONE},10:{TWO}")
        new = pushed(8, CARD)

        perform(old)
        perform(new)

        assert new["args"][1].startswith("kb1:10:")
        assert charged == [(7, CARD), (8, CARD)]

    def test_a_file_is_read_again_when_it_has_changed(self, charged, monkeypatch, tmp_path):
        path = tmp_path / "keys"
        monkeypatch.delenv(KEYS)
        with pytest.raises(ConfigError, match="Nothing was enqueued"):
            pushed(7, CARD)
        monkeypatch.setenv("KIQBRIDGE_ENCRYPTION_KEYS_FILE", str(path))
        with pytest.raises(ConfigError, match="keys cannot be read"):
            pushed(7, CARD)
        path.write_text(f"1:{ONE}\n")
        old = pushed(7, CARD)
        path.write_text(f"2:{TWO}\n1:{ONE}\n")
        assert pushed(7, CARD)["args"][1].startswith("kb1:2:")
        assert perform(old) is None

    @pytest.mark.parametrize(
        "text", ["1:short", f"x:{ONE}", ONE, f"1:{ONE},1:{TWO}", f"1:{ONE}=", f"²:{ONE}"]
    )
    def test_a_wrong_one_is_named_by_its_place_and_not_shown(self, charged, monkeypatch, text):
        monkeypatch.setenv(KEYS, text)

        with pytest.raises(ConfigError, match=r"entry \d is no key") as raised:
            pushed(7, CARD)

        assert ONE[:10] not in str(raised.value)


class TestFailures:
    def failed(self, payload):
        settlement = perform(payload)
        assert settlement.target is Target.RETRY
        return json.loads(settlement.text)

    def test_without_its_key_a_job_is_retried_with_its_ciphertext(self, charged, monkeypatch):
        payload = pushed(7, CARD)
        monkeypatch.setenv(KEYS, f"2:{TWO}")

        kept = self.failed(payload)

        assert kept["error_class"] == "kiqbridge.errors.DecryptionFailed"
        assert "key '1' is not among KIQBRIDGE_ENCRYPTION_KEYS" in kept["error_message"]
        assert kept["args"] == payload["args"]
        monkeypatch.setenv(KEYS, f"2:{TWO},1:{ONE}")
        assert perform(kept) is None
        assert charged == [(7, CARD)]

    @pytest.mark.parametrize(
        "change",
        [
            lambda payload: payload.update(jid="another"),
            lambda payload: payload.update(args=[7, payload["args"][1][:-8] + "AAAAAAA="]),
            lambda payload: payload.update(args=[7, "kb1:1:AAAA"]),
            lambda payload: payload.update(args=[7, "kb1:1:!"]),
            lambda payload: payload.update(args=[7, CARD]),
            lambda payload: payload.update(args=[7, None]),
            lambda payload: payload.update(args=[payload["args"][1], 7], kb_encrypted=[0]),
            lambda payload: payload.update(kb_encrypted=[5]),
            lambda payload: payload.update(kb_encrypted=[True]),
            lambda payload: payload.update(kb_encrypted="x"),
        ],
    )
    def test_what_was_moved_or_changed_is_no_argument(self, charged, change):
        payload = pushed(7, CARD)
        change(payload)

        kept = self.failed(payload)

        assert kept["error_class"] == "kiqbridge.errors.DecryptionFailed"
        assert charged == []

    def test_it_cannot_be_given_to_another_class(self, charged):
        @job(name="Leak", encrypted=True)
        def leak(user, card):
            charged.append(card)

        self.failed({**pushed(7, CARD), "class": "Leak"})

        assert charged == []

    def test_no_log_line_shows_the_value(self, charged, caplog):
        caplog.set_level(logging.DEBUG)

        perform(pushed(7, CARD))

        assert "start" in caplog.messages
        assert CARD not in str([vars(each) for each in caplog.records])

    def test_one_that_fits_no_annotation_is_not_shown_with_the_dead_job(self):
        @job(name="Typed", encrypted=True)
        def typed(user: int, card: int):
            pass

        settlement = perform(pushed(7, CARD, name="Typed"))

        assert settlement.target is Target.DEAD
        assert CARD.encode() not in settlement.text
        assert b"does not fit the annotation" in settlement.text

    def test_a_value_without_json_is_refused_and_not_shown(self, charged):
        with pytest.raises(PayloadError, match="encrypted argument at place 1") as raised:
            pushed(7, {"card": object(), "pin": CARD})

        assert CARD not in str(raised.value)


class TestDeclarations:
    @pytest.mark.parametrize("encrypted", [["pin"], [], ["card", "pin"]])
    def test_what_names_no_parameter_is_refused(self, encrypted):
        with pytest.raises(ConfigError, match="names no parameters of it"):
            job(name="charge", encrypted=encrypted)(lambda user, card: None)
        with pytest.raises(ConfigError, match="it has none"):
            job(name="charge", encrypted=True)(lambda *cards: None)


@pytest.mark.parametrize("value", [5, "x", None, {"x": 1}, [5]])
def test_a_value_that_means_nothing_is_refused_at_declaration(value):
    wanted = r"is not true, false or a list of parameters; write True"
    with pytest.raises(ConfigError, match=rf"^job 'wrong': encrypted .* {wanted}"):
        job(name="wrong", encrypted=value)(print)
    with pytest.raises(ConfigError, match=rf"^job 'Wrong': encrypted .* {wanted}"):
        type("Wrong", (Job,), {"encrypted": value, "perform": lambda _self: None})


def test_the_option_of_sidekiq_enterprise_is_answered_with_ours():
    with pytest.raises(ConfigError, match=r"did you mean encrypted=True\?"):
        job(encrypt=True)(print)


def test_a_push_that_takes_the_short_way_encrypts_too():
    secret = job(name="Secret", encrypted=True)(lambda text: None)
    for named in (secret, "Secret"):
        made = prepare({"class": named, "args": ["hidden"]}, 1.0, Chain(), lambda: "7")
        assert made.payload[ENCRYPTED] == [0]
        assert "hidden" not in str(made.payload)


def test_where_the_feature_is_missing_a_job_is_retried_and_says_why(monkeypatch):
    secret = job(name="Secret", encrypted=True)(lambda text: None)
    made = prepare({"class": secret, "args": ["hidden"]}, 1.0, Chain(), lambda: "7")
    sealing.cache_clear()
    monkeypatch.setattr("kiqbridge.client.sealing.loaded", list)
    runner = make_runner(default_registry)

    settlement = runner.run(json.dumps(made.payload).encode(), "default", Thread())

    assert settlement.target is Target.RETRY
    assert b"the feature encryption is not here" in settlement.text
