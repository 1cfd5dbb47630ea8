"""Places for jobs of one kind, and which classes must not be claimed while there is none."""

import threading
import time
from types import SimpleNamespace

import pytest
from support.waiting import wait_until

from kiqbridge.engine.perform.slots import RELAX_S, Slots, SlotsByKind, spellings

NEVER = threading.Event()


def filled(limit, **options):
    slots = Slots(limit, **options)
    for _ in range(limit):
        assert slots.enter(NEVER)
    return slots


def declared(**pools):
    return [
        SimpleNamespace(name=name, handling=SimpleNamespace(pool=pool))
        for name, pool in pools.items()
    ]


class TestARoom:
    def test_as_many_enter_as_there_are_places_and_waiting_for_its_end_is_bounded(self):
        slots, give_up = filled(2), threading.Event()
        give_up.set()
        assert not slots.enter(give_up, wait_s=30)
        assert (slots.free, slots.is_tight) == (0, False)
        assert not slots.enter(NEVER, wait_s=0.01)
        assert not slots.wait_empty(time.monotonic() + 0.01)
        slots.leave()
        slots.leave()
        assert slots.wait_empty(time.monotonic() + 0.01)

    def test_who_waits_enters_when_a_place_becomes_free_and_nobody_overtakes(self):
        slots = filled(2)
        entered = []

        def wait(name):
            if slots.enter(NEVER, wait_s=30):
                entered.append(name)

        for count, name in enumerate(["first", "second"], start=1):
            threading.Thread(target=wait, args=(name,), daemon=True).start()
            wait_until(lambda count=count: len(slots._queue) == count)
        with slots._changed:
            slots.taken -= 1  # as `leave` does before it lets others look
            assert not slots._take(len(slots._queue)), "who comes now"
        wait_until(lambda: entered == ["first"])
        slots.leave()
        wait_until(lambda: entered == ["first", "second"])
        assert not slots.is_tight

    def test_a_wait_in_vain_makes_it_tight_and_then_nobody_waits(self):
        slots = filled(1)

        assert not slots.enter(NEVER, wait_s=0.001)

        assert slots.is_tight
        began = time.monotonic()
        assert not slots.enter(NEVER, wait_s=30)
        assert time.monotonic() - began < 10

    def test_a_free_place_of_a_tight_room_is_announced(self):
        slots, heard = filled(2), []
        slots.on_free(lambda: heard.append(slots.free))

        slots.leave()
        assert heard == []
        assert slots.enter(NEVER)
        assert not slots.enter(NEVER, wait_s=0.001)
        slots.leave()

        assert heard == [1]

    def test_of_many_places_a_tenth_makes_it_relax(self):
        slots = filled(50)
        assert not slots.enter(NEVER, wait_s=0.001)

        for _ in range(4):
            slots.leave()
        assert slots.is_tight
        slots.leave()

        assert not slots.is_tight

    def test_of_few_places_one_does_not_but_a_second_does(self):
        slots = filled(2)
        assert not slots.enter(NEVER, wait_s=0.001)
        now = time.monotonic()
        slots.relax(now + 10 * RELAX_S)
        assert slots.is_tight, "there is no place"

        slots.leave()
        slots.relax(now - 10 * RELAX_S)
        assert slots.is_tight
        slots.relax(now + 10 * RELAX_S)

        assert not slots.is_tight

    def test_while_shut_nobody_enters_though_places_are_free(self):
        slots, heard = Slots(3), []
        slots.on_free(lambda: heard.append("room"))

        slots.shut()
        assert not slots.enter(NEVER, wait_s=0.001)
        assert (slots.free, slots.is_tight) == (0, True)
        slots.relax(time.monotonic() + 10 * RELAX_S)
        assert slots.is_tight
        slots.open()

        assert slots.enter(NEVER)
        assert heard == ["room"]


class TestWhatMayBeClaimed:
    DECLARED = declared(Mail="thread", Crawl="async", Render="process", Fetch="async")

    def test_no_class_of_a_kind_without_room_and_no_more_than_there_are_places(self):
        loop, pool = filled(2), filled(1)
        by_kind = SlotsByKind(self.DECLARED, {"async": loop, "process": pool})
        assert not by_kind.is_tight
        assert by_kind.allowance(50) == (50, [])
        loop.enter(NEVER, wait_s=0.001)
        assert by_kind.is_tight
        assert by_kind.allowance(50) == (50, ["Crawl", "Fetch"])
        loop.leave()
        assert by_kind.allowance(50) == (1, [])
        pool.enter(NEVER, wait_s=0.001)
        assert by_kind.allowance(50) == (1, ["Render"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Mail::Send", ["Mail::Send"]),
        ("Café", ["Café", "Caf\\u00e9"]),
        ('Od"d', ['Od\\"d']),
    ],
)
def test_a_name_has_the_spellings_that_json_gives_it(name, expected):
    assert list(spellings(name)) == expected
