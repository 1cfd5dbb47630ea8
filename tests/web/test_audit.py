"""Audit: what was done, by whom, filtered by link, in pages."""

from dataclasses import replace

from kiqbridge.api import record_audit
from kiqbridge.web.pages import audit


def note(operator, count, by="ann@example.com", action="retry", target="dead"):
    for number in range(count):
        record_audit(replace(operator, by=by), action, target, f"job {number}", number + 1)


def test_an_empty_log_says_what_would_be_in_it(browser, redis):
    assert "No action yet." in browser.open("/audit").text


def test_entries_are_shown_the_latest_first_in_pages_that_are_links(browser, operator, redis):
    note(operator, audit.ROWS + 3)

    first = browser.open("/audit")
    [older] = [link for link in first.links if "before=" in link]
    second = browser.open(older)

    assert first.text.index("job 52") < first.text.index("job 51")
    assert "job 2 " not in first.text
    assert [name for name in ("job 0", "job 1", "job 2") if name in second.text] == [
        "job 0",
        "job 1",
        "job 2",
    ]
    assert not [link for link in second.links if "before=" in link]
    assert "← The latest" in second.text


def test_a_filter_finds_what_is_beyond_a_page(browser, operator, redis, monkeypatch):
    monkeypatch.setattr(audit, "_AT_ONCE", 20)
    note(operator, 2, by="bob@example.com", action="kill")
    note(operator, 70)

    page = browser.open("/audit?q=by:BOB")

    assert page.text.count("bob@example.com") == 2
    assert "Nothing is found." in browser.open("/audit?q=by:bob+action:retry").text


def test_what_matches_is_neither_lost_nor_shown_twice_between_pages(operator, redis, monkeypatch):
    monkeypatch.setattr(audit, "_AT_ONCE", 7)
    for number in range(40):
        note(operator, 1, action="kill" if number % 2 else "retry", target=f"t{number}")

    seen, before = [], None
    while True:
        entries, before = audit.fetch(operator, {"action": "kill"}, before, rows=6)
        seen += [entry.target for entry in entries]
        if before is None:
            break

    assert seen == [f"t{number}" for number in range(39, 0, -2)]


def test_a_search_that_finds_little_ends_and_goes_on_at_the_next_page(operator, redis, monkeypatch):
    monkeypatch.setattr(audit, "_AT_ONCE", 5)
    monkeypatch.setattr(audit, "LOOKED_AT", 10)
    note(operator, 1, by="bob")
    note(operator, 14)

    entries, before = audit.fetch(operator, {"by": "bob"}, None)
    assert (entries, before is None) == ([], False)

    entries, before = audit.fetch(operator, {"by": "bob"}, before)
    assert [entry.by for entry in entries] == ["bob"]
