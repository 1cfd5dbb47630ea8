"""On which shard a queue lies."""

import pytest

from kiqbridge.errors import PayloadError
from kiqbridge.wire import routes
from kiqbridge.wire.routes import Routes

SHARDS = Routes({"mail": ["mail", "mail-*"], "fast": ["critical"], "rest": ["*"]})


@pytest.mark.parametrize(
    ("queue", "shard"),
    [
        ("mail", "mail"),
        ("mail-bulk", "mail"),
        ("critical", "fast"),
        ("mailing", "rest"),
        ("Mail", "rest"),
        ("", "rest"),
    ],
)
def test_the_first_shard_whose_glob_matches_counts(queue, shard):
    assert SHARDS.shard_of(queue) == shard


def test_the_order_of_the_shards_counts():
    assert Routes({"all": ["*"], "mail": ["mail"]}).shard_of("mail") == "all"


def test_a_queue_that_no_glob_matches_is_refused_with_the_shards():
    some = Routes({"a": ["a*"], "b": ["b*"]})

    with pytest.raises(PayloadError, match=r"queue: 'zeta' belongs to no shard \(a, b\)"):
        some.shard_of("zeta")
    assert some.find("zeta") is None


def test_so_many_names_are_kept_and_no_more(monkeypatch):
    monkeypatch.setattr(routes, "_KEPT", 3)
    some = Routes({"a": ["*"]})

    assert {some.shard_of(f"queue-{number}") for number in range(10)} == {"a"}
    assert len(some._known) <= 3
