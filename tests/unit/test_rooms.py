"""Places for jobs of one kind, and which classes must not be claimed while there is none."""

import threading
import time
from types import SimpleNamespace

import pytest
from support.waiting import wait_until

from kiqbridge.engine.perform.rooms import RELAX_S, Room, Rooms, spellings

NEVER = threading.Event()


def filled(limit, **options):
    room = Room(limit, **options)
    for _ in range(limit):
        assert room.enter(NEVER)
    return room


def declared(**pools):
    return [
        SimpleNamespace(name=name, handling=SimpleNamespace(pool=pool))
        for name, pool in pools.items()
    ]


class TestARoom:
    def test_as_many_enter_as_there_are_places_and_waiting_for_its_end_is_bounded(self):
        room, give_up = filled(2), threading.Event()
        give_up.set()
        assert not room.enter(give_up, wait_s=30)
        assert (room.free, room.is_tight) == (0, False)
        assert not room.enter(NEVER, wait_s=0.01)
        assert not room.wait_empty(time.monotonic() + 0.01)
        room.leave()
        room.leave()
        assert room.wait_empty(time.monotonic() + 0.01)

    def test_who_waits_enters_when_a_place_becomes_free_and_nobody_overtakes(self):
        room = filled(2)
        entered = []

        def wait(name):
            if room.enter(NEVER, wait_s=30):
                entered.append(name)

        for count, name in enumerate(["first", "second"], start=1):
            threading.Thread(target=wait, args=(name,), daemon=True).start()
            wait_until(lambda count=count: len(room._queue) == count)
        with room._changed:
            room.taken -= 1  # as `leave` does before it lets others look
            assert not room._take(len(room._queue)), "who comes now"
        wait_until(lambda: entered == ["first"])
        room.leave()
        wait_until(lambda: entered == ["first", "second"])
        assert not room.is_tight

    def test_a_wait_in_vain_makes_it_tight_and_then_nobody_waits(self):
        room = filled(1)

        assert not room.enter(NEVER, wait_s=0.001)

        assert room.is_tight
        began = time.monotonic()
        assert not room.enter(NEVER, wait_s=30)
        assert time.monotonic() - began < 10

    def test_a_free_place_of_a_tight_room_is_announced(self):
        room, heard = filled(2), []
        room.on_room(lambda: heard.append(room.free))

        room.leave()
        assert heard == []
        assert room.enter(NEVER)
        assert not room.enter(NEVER, wait_s=0.001)
        room.leave()

        assert heard == [1]

    def test_of_many_places_a_tenth_makes_it_relax(self):
        room = filled(50)
        assert not room.enter(NEVER, wait_s=0.001)

        for _ in range(4):
            room.leave()
        assert room.is_tight
        room.leave()

        assert not room.is_tight

    def test_of_few_places_one_does_not_but_a_second_does(self):
        room = filled(2)
        assert not room.enter(NEVER, wait_s=0.001)
        now = time.monotonic()
        room.relax(now + 10 * RELAX_S)
        assert room.is_tight, "there is no place"

        room.leave()
        room.relax(now - 10 * RELAX_S)
        assert room.is_tight
        room.relax(now + 10 * RELAX_S)

        assert not room.is_tight

    def test_while_shut_nobody_enters_though_places_are_free(self):
        room, heard = Room(3), []
        room.on_room(lambda: heard.append("room"))

        room.shut()
        assert not room.enter(NEVER, wait_s=0.001)
        assert (room.free, room.is_tight) == (0, True)
        room.relax(time.monotonic() + 10 * RELAX_S)
        assert room.is_tight
        room.open()

        assert room.enter(NEVER)
        assert heard == ["room"]


class TestWhatMayBeClaimed:
    DECLARED = declared(Mail="thread", Crawl="async", Render="process", Fetch="async")

    def test_no_class_of_a_kind_without_room_and_no_more_than_there_are_places(self):
        loop, pool = filled(2), filled(1)
        rooms = Rooms(self.DECLARED, {"async": loop, "process": pool})
        assert not rooms.is_tight
        assert rooms.allowance(50) == (50, [])
        loop.enter(NEVER, wait_s=0.001)
        assert rooms.is_tight
        assert rooms.allowance(50) == (50, ["Crawl", "Fetch"])
        loop.leave()
        assert rooms.allowance(50) == (1, [])
        pool.enter(NEVER, wait_s=0.001)
        assert rooms.allowance(50) == (1, ["Render"])


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
