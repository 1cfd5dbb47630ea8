"""Jobs that are too old to begin."""

from datetime import timedelta

import pytest

from kiqbridge import Client, PayloadError, job
from kiqbridge.client.inline import prepare_inline
from kiqbridge.client.prepare import prepare
from kiqbridge.client.registry import MARK
from kiqbridge.wire.expiry import expiry_of

NOW = 1_700_000_000.0


@job(name="UnitFresh", expires_in=timedelta(minutes=5))
def fresh():
    """Does nothing."""


def test_it_counts_from_the_push_or_from_the_time_for_which_it_is_scheduled():
    assert getattr(fresh, MARK).options["expires_in"] == 300.0
    client = Client("redis://nowhere")
    pushed = prepare_inline(client, {"class": fresh, "args": [], "created_at": NOW})
    item = {"class": fresh, "args": [], "at": NOW + 60}
    placed = prepare(item, NOW, client.middleware, client.wire_profile)
    text = client.writer.text(placed, 0.0)
    assert pushed["expires_at"] > NOW + 300
    assert b'"expires_at":%.1f' % (NOW + 360) in text


@pytest.mark.parametrize(
    ("payload", "expiry"),
    [
        ({"expires_in": 10, "expires_at": NOW + 5, "created_at": NOW}, NOW + 5),
        ({"expires_in": 10, "created_at": NOW}, NOW + 10),
        ({"expires_in": 10.5, "created_at": int(NOW * 1000)}, NOW + 10.5),
        ({"expires_in": 10, "created_at": NOW, "enqueued_at": NOW + 500}, NOW + 510),
        ({"expires_in": 10}, None),
        ({"expires_in": "10", "created_at": NOW}, None),
        ({"expires_in": None, "created_at": NOW}, None),
        ({"expires_in": True, "created_at": NOW}, None),
        ({"created_at": NOW}, None),
    ],
)
def test_a_job_of_another_client_counts_from_when_it_came_into_its_queue(payload, expiry):
    assert expiry_of(payload) == expiry


@pytest.mark.parametrize("seconds", [0, -1, "5", True, float("inf")])
def test_what_is_no_number_of_seconds_is_refused(seconds):
    with pytest.raises(PayloadError, match="expires_in"):
        Client("redis://nowhere").push({"class": "A", "args": [], "expires_in": seconds})
