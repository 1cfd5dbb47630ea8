"""No secret in lines and messages."""

import copy
import inspect
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.runtime import redaction
from kiqbridge.runtime.redaction import DEFAULT_KEYS, HIDDEN, Redactor, addresses, shorten


@pytest.fixture
def configured():
    """What a test configures is forgotten."""
    with redaction.own_names():
        yield redaction.configure


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("redis://u:hunter2@h:6379/0", "redis://u:***@h:6379/0"),
            ("rediss://:hunter2@h", "rediss://:***@h"),
            ("amqp://u:hunter2@h/v", "amqp://u:***@h/v"),
            ("https://u:hunter2@h/p?q", "https://u:***@h/p?q"),
            ("at redis://u:hunter2@h, again", "at redis://u:***@h, again"),
            ("redis://u:12345@h", "redis://u:***@h"),
            ("redis://u:a/b@h", "redis://u:***@h"),
            ("redis://u:a@b@h", "redis://u:***@h"),
            ("redis://a:x@h,redis://b:y@i", "redis://a:***@h,redis://b:***@i"),
            ('{"url":"redis://u:hunter2@h"}', '{"url":"redis://u:***@h"}'),
            ("redis://h/0?db=1&password=hunter2 is", "redis://h/0?db=1&password=*** is"),
            (
                "redis+sentinel://:hunter2@h:1,i:2/kb?sentinel_password=hunter2&db=1",
                "redis+sentinel://:***@h:1,i:2/kb?sentinel_password=***&db=1",
            ),
            (
                '{"url":"redis+sentinel://h/kb?sentinel_password=hunter2"}',
                '{"url":"redis+sentinel://h/kb?sentinel_password=***"}',
            ),
        ],
    )
    def test_a_password_is_hidden(self, text, shown):
        assert addresses(text) == shown

    @pytest.mark.parametrize(
        "text",
        [
            "redis://h:6379/0",
            "http://h:8080/people/a@b.example",
            "mail a@b.example: see http://h",
            "redis://user@h",
            "",
        ],
    )
    def test_all_else_stays(self, text):
        assert addresses(text) == text

    @given(
        st.text(
            st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="'\"<>\\"),
            min_size=8,
        ).filter(lambda password: "://" not in password)
    )
    def test_no_password_is_seen_whatever_is_in_it(self, password):
        if password.lstrip("0123456789")[:1] in ("/", "?", "#"):
            return  # then what follows the colon is a port, and nothing else tells them apart
        assert password not in addresses(f"redis://user:{password}@host:6379/0")


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            *("password", "Password", "PASSWD", "db_password", "passwordConfirmation", "secrets"),
            *("client-secret", "accessToken", "X-Api-Key", "apiKey", "apikey", "Authorization"),
            "authorization_header",
        ],
    )
    def test_a_secret_name_is_known_whatever_its_spelling(self, name):
        assert Redactor().hides(name)

    @pytest.mark.parametrize("name", ["tokenizer", "secretary", "compass", "user_id", "", None, 5])
    def test_a_word_that_only_begins_like_one_is_not(self, name):
        assert not Redactor().hides(name)

    def test_own_names_replace_the_default_ones_and_none_leave_addresses(self):
        redactor = Redactor(["iban"])
        assert redactor.value({"IBAN": "DE1", "password": "x"}) == {"IBAN": HIDDEN, "password": "x"}
        redactor = Redactor([])
        assert redactor.value({"token": "redis://a:b@h"}) == {"token": "redis://a:***@h"}
        assert redactor.text("token=x") == "token=x"


class TestValues:
    @pytest.mark.parametrize("keys", [[], ["pin"]])
    def test_the_token_of_a_task_is_hidden_whatever_the_names(self, keys):
        redactor = Redactor(keys)

        assert redactor.payload({"task_token": "AQC="}) == {"task_token": "[REDACTED]"}
        assert "AQC" not in redactor.text('{"jid": "j", "task_token": "AQC=", "a')

    def test_dicts_are_searched_at_any_depth_that_has_reason_and_not_changed(self):
        value = {"users": [{"name": "a", "auth": {"token": "t", "kind": 1}}], "secret": {"a": 1}}
        before = copy.deepcopy(value)
        assert Redactor().value(value) == {
            "users": [{"name": "a", "auth": {"token": HIDDEN, "kind": 1}}],
            "secret": HIDDEN,
        }
        assert value == before
        for _ in range(5_000):
            value = [value]
        assert HIDDEN in str(Redactor().value(value))

    def test_arguments_are_hidden_by_the_names_of_their_parameters(self):
        def perform(user, password, *tokens, copy=False): ...

        def short(password): ...

        for function, args, shown in (
            (perform, [1, "hunter2", "t1", "t2"], [1, HIDDEN, HIDDEN, HIDDEN]),
            (short, ["x", 2], [HIDDEN, 2]),
        ):
            assert Redactor().arguments(args, inspect.signature(function)) == shown

    def test_a_payload_keeps_the_order_of_its_names(self):
        payload = {"class": "A", "args": ["t"], "jid": "j", "cattr": {"api_key": "k"}}
        shown = Redactor().payload(payload, inspect.signature(lambda token: None))
        wanted = payload | {"args": [HIDDEN], "cattr": {"api_key": HIDDEN}}
        assert list(shown.items()) == list(wanted.items())

    @pytest.mark.parametrize("payload", [None, 5, "x", [1], {"args": {"token": "t"}}, {"args": 5}])
    def test_what_is_no_job_can_be_shown_too(self, payload):
        assert "'t'" not in str(Redactor().payload(payload))


class TestTexts:
    @pytest.mark.parametrize(
        "text",
        [
            '{"class":"A","args":[{"password":"hunter2"',
            "{'password': 'hunter2', 'x': 1}",
            '{"password":"hun\\"hunter2"}',
            "password=hunter2&user=a",
            "token: hunter2",
            "Authorization: Bearer hunter2",
            '{"secret":{"inner":"hunter2"}}',
            '"api-key" => "hunter2"',
            '"{\\"token\\":\\"hunter2\\"}"',
            "redis://u:hunter2@h",
            '{"accessToken":"hunter2"}',
            "db_password=hunter2",
            "x-api-key: hunter2",
            "password_confirmation: hunter2",
        ],
    )
    def test_a_pair_in_a_text_is_hidden_also_when_the_text_is_cut(self, text):
        assert "hunter2" not in Redactor().text(text)

    @pytest.mark.parametrize(
        "text", ["the password was wrong", "no token given", "tokenizer=fast", "a: b"]
    )
    def test_a_sentence_stays(self, text):
        assert Redactor().text(text) == text

    @pytest.mark.parametrize(
        "part",
        ["a-", "a_", "token_", "token={", 'token="', "token: bearer ", "Token", "://a:", "@"],
    )
    def test_no_text_takes_long(self, part):
        began = time.process_time()

        Redactor().text(part * 20_000)

        assert time.process_time() - began < 2


class TestMessages:
    @pytest.mark.parametrize(
        "value",
        [
            {"class": "A", "args": [{"password": "hunter2"}]},
            [{"password": "hunter2"}],
            '{"password":"hunter2"}',
            b'{"password":"hunter2"}',
            b'\xff{"password":"hun\\"hunter2"',
            "redis://u:hunter2@h",
            ValueError("password=hunter2"),
            {"a" * 60: 1, "password": "hunter2"},  # where the text is cut
        ],
    )
    def test_what_an_error_shows_holds_no_secret(self, value):
        assert "hunter" not in shorten(value)

    def test_a_process_may_choose_its_own_names(self, configured):
        configured(["iban"])

        assert shorten({"iban": "DE1"}) == "{'iban': '[REDACTED]'}"

    @pytest.mark.parametrize(("text", "hidden"), [("iban, bic", ["IBAN"]), ("", DEFAULT_KEYS)])
    def test_the_environment_names_them_where_nobody_has(
        self, configured, monkeypatch, text, hidden
    ):
        monkeypatch.setenv("KIQBRIDGE_REDACT", text)
        assert all(redaction.current().hides(name) for name in hidden)
        assert redaction.current().hides("password") is not bool(text)


class TestStars:
    @pytest.mark.parametrize(
        ("key", "name", "hidden"),
        [
            ("card*", "cardNumber", True),
            ("card*", "credit-cards", True),
            ("card*", "discard", False),
            ("*_key", "signing_key", True),
            ("*key", "monkey", True),
            ("*key", "keyring", False),
            ("c*d", "card", True),
            ("token", "token*", True),
            ("**", "anything", False),
        ],
    )
    def test_a_star_stands_for_any_letters(self, key, name, hidden):
        assert Redactor([key]).hides(name) is hidden

    def test_it_does_in_a_text_as_well(self):
        text = '{"cardNumber": "4111", "discard": "x", signing_key=abc}'

        shown = Redactor(["card*", "*_key"]).text(text)

        assert shown == f'{{"cardNumber": {HIDDEN}, "discard": "x", signing_key={HIDDEN}}}'

    def test_a_name_made_to_be_slow_is_not(self):
        name = "card_" * 200_000
        start = time.perf_counter()

        Redactor(["card*number"]).hides(name)

        assert time.perf_counter() - start < 5
