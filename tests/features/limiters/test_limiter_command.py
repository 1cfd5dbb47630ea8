"""`kiqbridge limiter`: what it lists, resets and asks."""

import json

import pytest

from kiqbridge.flow import limiter


@pytest.fixture
def taken(client):
    """One lock, and two places of a window."""
    window = limiter.window("stripe", 5, per="day", client=client)
    for _ in range(2):
        with window.within_limit():
            pass
    with limiter.concurrent("erp", 5, client=client).within_limit():
        yield


def test_without_any_it_says_so(run):
    assert run("limiter", "list") == (0, "Nothing is taken of any limiter.\n", "")


@pytest.mark.usefixtures("taken")
def test_each_has_a_line(run):
    code, out, _ = run("limiter", "list")

    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [
        ["concurrent", "erp", "1"],
        ["window", "stripe", "2"],
    ]


@pytest.mark.usefixtures("taken")
def test_as_json(run):
    listed = json.loads(run("limiter", "list", "--json")[1])["limiters"]

    assert [(each["kind"], each["name"], each["used"]) for each in listed] == [
        ("concurrent", "erp", 1),
        ("window", "stripe", 2),
    ]


@pytest.mark.usefixtures("taken")
def test_one_is_reset_and_that_is_audited(run, redis):
    assert run("limiter", "reset", "window", "stripe", "--dry-run") == (
        0,
        "would reset limiter window stripe\n",
        "",
    )
    assert redis.exists("kb:limit:window:stripe")
    code, _, err = run("limiter", "reset", "window", "stripe")
    assert code == 2
    assert "Repeat it with --yes" in err

    assert run("limiter", "reset", "window", "stripe", "--yes", "--json")[1] == (
        '{"dry_run": false, "kind": "window", "name": "stripe", "used": 2.0, "reset": true}\n'
    )

    assert not redis.exists("kb:limit:window:stripe")
    [entry] = redis.hvals("kb:audit:entries")
    assert json.loads(entry)["target"] == "limiter:window:stripe"
    assert run("limiter", "reset", "window", "stripe") == (
        0,
        "nothing is taken of limiter window stripe\n",
        "",
    )
