"""From what is stored in a secret to an address; no message quotes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.connection import parse_url

from kiqbridge.credentials.stored_address import address_of

BASE = "rediss://old@host.example:6380/2?ssl_ca_certs=/ca.pem"


@pytest.mark.parametrize(
    ("stored", "base", "address"),
    [
        (" rediss://u:p@host/0\n", BASE, "rediss://u:p@host/0"),
        ('{"url": "rediss://u:p@host/0", "password": "other"}', BASE, "rediss://u:p@host/0"),
        (
            '{"host": "h", "port": 6380, "username": "u", "password": "p/@", "db": 3}',
            None,
            "rediss://u:p%2F%40@h:6380/3",
        ),
        ('{"host": "h", "ssl": false}', None, "redis://h:6379/0"),
        ('{"host": "h", "port": "6380", "ssl": "false"}', None, "redis://h:6380/0"),
        ('{"host": "::1", "password": "p"}', None, "rediss://:p@[::1]:6379/0"),
        ('{"host": "h"}', BASE, "rediss://h:6379/0?ssl_ca_certs=/ca.pem"),
        (
            '{"username": "new", "password": "p?"}',
            BASE,
            "rediss://new:p%3F@host.example:6380/2?ssl_ca_certs=/ca.pem",
        ),
        ("a password", BASE, "rediss://old:a%20password@host.example:6380/2?ssl_ca_certs=/ca.pem"),
        ("pw", "redis://h", "redis://:pw@h"),
        ("pw", "redis://u:former@h?db=1", "redis://u:pw@h?db=1"),
        ("pw", "redis+sentinel://s1,s2/mymaster/0", "redis+sentinel://:pw@s1,s2/mymaster/0"),
    ],
)
def test_an_address_is_made(stored, base, address):
    assert address_of(stored, base) == address


@given(st.text(min_size=1).filter(lambda text: text.strip()), st.text(min_size=1))
def test_any_user_and_password_arrive_as_they_are(user, password):
    import json

    stored = json.dumps({"host": "h", "username": user, "password": password})
    try:
        user.encode()
        password.encode()
    except UnicodeEncodeError:
        return

    parsed = parse_url(address_of(stored, None))

    assert (parsed["username"], parsed["password"]) == (user, password)


@pytest.mark.parametrize(
    ("stored", "base", "words"),
    [
        ("", BASE, "it is empty"),
        ('{"password": "s3cret"', BASE, "begins as a JSON object"),
        ('{"url": "s3cret"}', BASE, "its url is not an address"),
        ('{"password": 1}', BASE, "its password is not a text"),
        ('{"host": "h", "port": "s3cret"}', BASE, "port or db is not a whole number"),
        ('{"user_arn": "arn"}', BASE, "neither url nor host nor password"),
        ('{"password": "s3cret"}', None, "set REDIS_URL"),
        ("s3cret", None, "set REDIS_URL"),
    ],
)
def test_what_makes_no_address_is_refused_without_quoting_it(stored, base, words):
    with pytest.raises(ValueError, match=words) as refusal:
        address_of(stored, base)

    assert "s3cret" not in str(refusal.value)
