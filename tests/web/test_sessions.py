"""Signed cookies."""

import base64
import json

import pytest
from support.web_users import SECRET

from kiqbridge.web.sessions import MAX_ENDED, Sessions

NOW = 1_700_000_000.0


@pytest.fixture
def sessions():
    return Sessions(SECRET, 3600)


def test_a_cookie_is_read_as_it_was_written(sessions):
    session = sessions.begin(NOW, name="ann é", password_hash="scrypt$x")

    assert sessions.read(sessions.write(session), NOW + 3599) == session
    assert (
        "scrypt"
        not in base64.urlsafe_b64decode(sessions.write(session).partition(".")[0] + "===").decode()
    )


def test_a_cookie_of_a_process_with_the_same_secret_is_ours(sessions):
    session = sessions.begin(NOW, name="ann")

    assert Sessions(SECRET, 60).read(sessions.write(session), NOW) == session
    assert Sessions(SECRET, 60).cookie("http") == sessions.cookie("http")


@pytest.mark.parametrize("change", [0, 20, -1])
def test_a_changed_cookie_is_worth_nothing(sessions, change):
    cookie = sessions.write(sessions.begin(NOW, name="ann"))
    place = range(len(cookie))[change]
    other = "A" if cookie[place] != "A" else "B"

    # The last letter has bits that no byte needs, so a whole group is changed.
    changed = cookie[:place] + other + cookie[place + 1 :] if change >= 0 else cookie[:-4] + "AAAA"

    assert sessions.read(changed, NOW) is None


def test_a_cookie_that_was_made_up_is_worth_nothing(sessions):
    body = base64.urlsafe_b64encode(json.dumps(["x", "ann", NOW + 10, "p"]).encode()).decode()

    for cookie in ("", ".", "é", "a.b", f"{body}.", f"{body}.{body}", "x" * 5000):
        assert sessions.read(cookie, NOW) is None


def test_a_cookie_of_another_secret_is_worth_nothing_and_has_another_name(sessions):
    other = Sessions(SECRET[::-1], 3600)

    assert sessions.read(other.write(other.begin(NOW, name="ann")), NOW) is None
    assert other.cookie("http") != sessions.cookie("http")


def test_a_session_ends_at_its_time_and_when_it_is_ended(sessions):
    session, other = sessions.begin(NOW, name="ann"), sessions.begin(NOW, name="ann")
    cookie = sessions.write(session)

    assert sessions.read(cookie, NOW + 3600) is None
    sessions.end(session, NOW)
    assert sessions.read(cookie, NOW) is None
    assert sessions.read(sessions.write(other), NOW) == other


def test_each_session_has_a_token_of_its_own_that_the_cookie_does_not_hold(sessions):
    one, other = sessions.begin(NOW), sessions.begin(NOW)

    assert sessions.token(one.id) == sessions.token(one.id) != sessions.token(other.id)
    assert sessions.token(one.id) not in sessions.write(one)


def test_what_is_kept_of_ended_sessions_is_bounded(sessions):
    for _ in range(MAX_ENDED + 100):
        sessions.end(sessions.begin(NOW, name="ann"), NOW)
    last = sessions.begin(NOW, name="ann")
    sessions.end(last, NOW)

    assert len(sessions._ended) == MAX_ENDED
    assert sessions.read(sessions.write(last), NOW) is None
