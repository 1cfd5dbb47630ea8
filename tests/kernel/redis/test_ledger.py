"""The ledger of a schedule, as people read it."""

from kiqbridge.store.ledger import LedgerEntry, read_ledger
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd

MINUTE = 4_000_000_020


def test_an_empty_ledger_has_no_entries(pool):
    assert read_ledger(pool, Keys(), "shop/Nightly") == []


def test_entries_come_newest_first_with_their_attempts_and_ends(client, pool):
    keys = Keys()
    for number in range(3):
        client.push_tick(
            "s", MINUTE + 60 * number, [{"class": "A", "args": []}], by=f"clock-{number}"
        )
    pool.call("HSET", keys.attempts("s"), str(MINUTE + 60), 7)
    end = JobEnd(at=MINUTE, jid="x", outcome="done", ended_at=MINUTE + 3.5, took_s=1.0)
    pool.call("ZADD", keys.ends("s"), MINUTE, end.to_text())

    found = read_ledger(pool, keys, "s")

    assert [(each.at, each.by, each.attempts, list(each.ends)) for each in found] == [
        (MINUTE + 120, "clock-2", 1, []),
        (MINUTE + 60, "clock-1", 7, []),
        (MINUTE, "clock-0", 1, [end]),
    ]
    assert read_ledger(pool, keys, "s", since=MINUTE + 1, until=MINUTE + 60, most=5) == [found[1]]
    assert read_ledger(pool, keys, "s", most=1) == [found[0]]


def test_an_entry_is_open_as_long_as_one_of_its_jobs_has_no_end():
    def entry(*ends):
        made = [
            JobEnd(at=MINUTE, jid=jid, outcome=outcome, ended_at=MINUTE + number)
            for number, (jid, outcome) in enumerate(ends)
        ]
        return LedgerEntry(
            schedule="s", at=MINUTE, jids=["a", "b"], by="t", enqueued_at=MINUTE, ends=made
        )

    assert entry().outcome == entry(("a", "done")).outcome == "open"
    assert entry(("a", "done"), ("b", "done")).outcome == "done"
    assert entry(("a", "done"), ("b", "dead")).outcome == "dead"
    assert entry(("a", "done"), ("b", "dead"), ("b", "done")).outcome == "done"
