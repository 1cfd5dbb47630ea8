"""Hashes of passwords."""

import pytest
from support.web_users import PASSWORD, cheap_hash

from kiqbridge.errors import ConfigError
from kiqbridge.web.passwords import check_hash, hash_password, is_right


def test_a_password_is_kept_as_a_salted_hash_that_only_it_fits():
    first, second = hash_password("s3cret é"), hash_password("s3cret é")

    assert first != second
    assert "s3cret" not in first
    assert first.startswith("scrypt$15$8$3$")
    assert is_right("s3cret é", first)
    assert not is_right("s3cret e", first)


def test_nobody_has_the_password_of_a_user_that_does_not_exist():
    assert not is_right("", None)
    assert not is_right(PASSWORD, None)


def test_a_very_long_password_is_refused_before_it_costs_anything():
    assert not is_right("x" * 1025, cheap_hash("x" * 1025))
    with pytest.raises(ConfigError, match="1 to 1,024 bytes"):
        hash_password("x" * 1025)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "scrypt$15$8$3$AAAA$BBBB",
        cheap_hash().replace("$14$", "$4$"),
        cheap_hash().replace("$8$", "$999$"),
        cheap_hash().replace("scrypt", "md5"),
        cheap_hash() + "$",
        cheap_hash()[:-3] + "é!!",
    ],
)
def test_what_is_no_hash_is_refused_and_not_shown(text):
    with pytest.raises(ConfigError, match="the password of user 'ann' is no hash") as refusal:
        check_hash(text, "user 'ann'")

    assert "hunter2" not in str(refusal.value)
