"""Who may take a job of a chunk, and when the chunk may be left and acknowledged."""

import ctypes
import itertools
import linecache
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress

import pytest

from kiqbridge.engine.inflight import chunk as chunk_module
from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.inflight.lease import Lease
from kiqbridge.runtime.job_forks import _forget_errors_of_others


def chunk_of(*jobs, lease=None):
    """A chunk; its jobs are given newest first."""
    return Chunk(
        lease=lease or Lease("v2:host:1:aaa:1"),
        queue="default",
        home="queue:default",
        list_key="kb:inflight:v2:host:1:aaa:1:t1:1",
        jobs=jobs,
        tid="t1",
        sequence=1,
    )


def writing(method):
    """A call of it with the lock."""

    def call(chunk, *args):
        with chunk.writing:
            method(chunk, *args)

    return call


revoke, revoke_unfinished = writing(Chunk.revoke), writing(Chunk.revoke_unfinished)
returned, restore = writing(Chunk.returned), writing(Chunk.restore)


class TestTheOwner:
    def test_takes_the_oldest_first_and_one_at_a_time(self):
        chunk = chunk_of(b"new", b"middle", b"old")
        assert chunk.take() == b"old"
        assert (chunk.running, chunk.waiting) == (b"old", (b"new", b"middle"))
        chunk.finish()
        assert (chunk.running, chunk.done) == (None, (b"old",))
        assert [chunk.take() for _ in range(3)] == [b"middle", b"new", None]

    def test_may_leave_when_all_is_finished(self):
        chunk = chunk_of(b"new", b"old")
        assert not chunk.may_be_left()
        chunk.take()
        chunk.finish()
        assert not chunk.may_be_left()
        chunk.take()
        assert not chunk.may_be_left()
        chunk.finish()

        assert chunk.may_be_left()
        assert chunk.may_be_acknowledged()

    def test_may_not_leave_before_a_failure_is_written(self):
        chunk = chunk_of(b"job")
        chunk.take()

        assert chunk.end("settlement")

        assert chunk.ended == ((b"job", "settlement"),)
        assert not chunk.may_be_left()
        with chunk.writing:
            chunk.written(1, ["notify"])
        assert chunk.may_be_left()
        assert chunk.has_ended  # somebody is still to be notified
        assert chunk.take_notifications() == ["notify"]
        assert not chunk.has_ended

    def test_may_not_leave_before_what_it_put_back_is_in_the_queue(self):
        chunk = chunk_of(b"job")
        chunk.take()

        chunk.put_back_running()

        assert chunk.returning == (b"job",)
        assert not chunk.may_be_left()
        returned(chunk, 1)
        assert chunk.may_be_left()

    def test_drops_what_is_not_begun_when_the_lease_is_lost(self):
        chunk = chunk_of(b"new", b"old")

        chunk.drop()

        assert chunk.take() is None
        assert chunk.may_be_left()

    def test_reports_of_a_job_that_was_revoked_meanwhile_change_nothing(self):
        for report in (Chunk.finish, Chunk.put_back_running, lambda each: each.end("settlement")):
            chunk = chunk_of(b"job")
            chunk.take()
            revoke_unfinished(chunk)

            assert not report(chunk)

            assert (chunk.done, chunk.ended, chunk.returning) == ((), (), (b"job",))


class TestRevoking:
    def test_takes_all_that_waits_newest_first_and_the_running_job_last(self):
        chunk = chunk_of(b"new", b"middle", b"old")
        chunk.take()

        revoke(chunk)

        assert (chunk.returning, chunk.running) == ((b"new", b"middle"), b"old")
        for _ in range(2):
            revoke_unfinished(chunk)
            assert (chunk.returning, chunk.running) == ((b"new", b"middle", b"old"), None)
        assert chunk.take() is None

    def test_what_is_returning_keeps_the_chunk_from_being_left(self):
        chunk = chunk_of(b"new", b"old")
        chunk.take()
        revoke(chunk)
        chunk.finish()

        assert not chunk.may_be_left()
        returned(chunk, 1)
        assert chunk.may_be_acknowledged()

    def test_restored_jobs_run_here_in_their_order_or_are_revoked_again(self):
        chunk = chunk_of(b"new", b"middle", b"old")
        revoke(chunk)

        restore(chunk)

        assert not chunk.returning
        assert chunk.take() == b"old"
        revoke_unfinished(chunk)
        assert chunk.returning == (b"new", b"middle", b"old")

    def test_what_may_have_been_moved_is_not_restored(self):
        chunk = chunk_of(b"new", b"middle", b"old")
        revoke(chunk)
        with chunk.writing:
            chunk.sent(2)

        restore(chunk)

        assert chunk.returning == (b"new", b"middle")
        assert chunk.waiting == (b"old",)

    def test_what_was_begun_is_not_restored(self):
        chunk = chunk_of(b"new", b"old")
        chunk.take()
        revoke_unfinished(chunk)
        chunk.put_back([b"from the loop"])

        restore(chunk)

        assert chunk.returning == (b"old", b"from the loop")
        assert chunk.waiting == (b"new",)

    @pytest.mark.parametrize(
        "call",
        [
            Chunk.revoke,
            Chunk.revoke_unfinished,
            Chunk.restore,
            lambda chunk: chunk.sent(1),
            lambda chunk: chunk.returned(1),
            lambda chunk: chunk.written(1, ()),
        ],
    )
    def test_is_for_those_who_hold_the_lock(self, call):
        with pytest.raises(RuntimeError, match="must hold the lock `writing`"):
            call(chunk_of(b"job"))


class TestASharedChunk:
    @pytest.fixture
    def freed(self):
        return []

    @pytest.fixture
    def chunk(self, freed):
        chunk = chunk_of(b"new", b"old")
        chunk.share(lambda: freed.append("claimer"))
        return chunk

    def hand_over(self, chunk):
        text = chunk.take()
        chunk.hold()
        chunk.hand_over()
        return text

    def test_frees_its_claimer_when_the_owner_has_left_and_all_pending_jobs_are_gone(
        self, chunk, freed
    ):
        self.hand_over(chunk)
        self.hand_over(chunk)
        assert chunk.pending == 2
        chunk.release()
        chunk.leave()
        assert (chunk.pending, freed) == (1, [])

        chunk.release()

        assert freed == ["claimer"]

    def test_frees_it_when_the_owner_leaves_last_though_it_is_shared_twice(self, chunk, freed):
        chunk.share(lambda: freed.append("another"))
        self.hand_over(chunk)
        chunk.release()
        assert freed == []

        chunk.leave()
        chunk.leave()

        assert freed == ["claimer"]

    def test_is_never_acknowledged_as_a_whole_but_what_the_owner_finished_once(self, chunk, freed):
        self.hand_over(chunk)
        chunk.take()
        chunk.finish()

        assert chunk.may_be_left()
        assert not chunk.may_be_acknowledged()
        reported = []
        chunk.hand_over_done(reported.append)
        chunk.hand_over_done(reported.append)
        assert reported == [b"new"]
        chunk.leave()
        assert (chunk.pending, freed) == (2, [])
        chunk.release(2)
        assert freed == ["claimer"]

    def test_one_that_is_not_shared_counts_nothing(self):
        chunk = chunk_of(b"job")
        chunk.hold()
        chunk.release()
        chunk.leave()

        assert (chunk.is_shared, chunk.pending) == (False, 0)


def test_an_operator_sees_where_the_jobs_are():
    chunk = chunk_of(*(b"job %d" % number for number in range(6)))
    for end in (Chunk.finish, lambda each: each.end("settlement"), lambda _each: None):
        chunk.take()
        end(chunk)

    assert repr(chunk) == (
        "<Chunk t1#1 of default: 3 waiting, 1 running, 1 done, 0 pending, 1 ended, 0 returning>"
    )
    assert not chunk.is_popped
    assert chunk_of(b"job", lease=NO_LEASE).is_popped


class Interleaved(deque):
    """The waiting jobs; `between` is called at one step of `take`: before, during or after it."""

    def __init__(self, jobs, step, between):
        super().__init__(jobs)
        self.step = step
        self.between = between

    def reach(self, step):
        if step == self.step:
            self.step = None
            self.between()

    def __getitem__(self, index):
        self.reach("before it is announced")
        return super().__getitem__(index)

    def pop(self):
        self.reach("announced")
        text = super().pop()
        self.reach("taken")
        return text


STEPS = ["before it is announced", "announced", "taken"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("calls", [[revoke], [revoke_unfinished], [revoke, revoke_unfinished]])
def test_whenever_jobs_are_revoked_each_is_on_one_side_only(count, step, calls):
    jobs = [b"job %d" % number for number in range(count)]
    chunk = chunk_of()

    def between():
        for call in calls:
            call(chunk)

    chunk._waiting = Interleaved(jobs, step, between)

    taken = chunk.take()

    assert sorted(set(chunk.returning)) == sorted(chunk.returning)
    assert sorted({*chunk.returning, *([taken] if taken else [])}) == jobs
    if step != "taken":
        assert taken is None
        assert list(chunk.returning) == jobs
    elif revoke_unfinished not in calls:
        assert taken not in chunk.returning
    assert chunk.running == (taken if taken not in chunk.returning else None)


def test_a_job_that_fails_never_looks_as_if_the_chunk_had_none():
    class Watched(list):
        """The failures; notes at each one whether the chunk might be acknowledged just before."""

        def append(self, failure):
            seen.append((chunk.running, bool(self)))
            super().append(failure)

    chunk, seen = chunk_of(b"job"), []
    chunk._ended = Watched()
    chunk.take()

    chunk.end("settlement")

    assert seen == [(b"job", False)]  # still running while it has not failed yet
    assert chunk.running is None


class TakenMeanwhile(deque):
    """The waiting jobs; the owner takes one as soon as somebody begins to revoke them."""

    def __init__(self, jobs, take):
        super().__init__(jobs)
        self.take = take

    def popleft(self):
        if self.take is not None:
            take, self.take = self.take, None
            take()
        return super().popleft()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_job_that_is_taken_while_all_are_revoked_is_revoked_as_the_running_one(count):
    jobs = [b"job %d" % number for number in range(count)]
    chunk, taken = chunk_of(), []
    chunk._waiting = TakenMeanwhile(jobs, lambda: taken.append(chunk.take()))

    revoke_unfinished(chunk)

    assert taken == jobs[-1:]
    assert list(chunk.returning) == jobs


class Raised(BaseException):
    """What another thread raises here."""


@contextmanager
def raising_before_line(number):
    """Raise before the line of chunk.py with this number, counted as they are reached.

    Lines that take or release a lock are left out: CPython raises no error of another thread there.
    """
    reached = itertools.count()

    def trace(frame, event, _arg):
        if frame.f_code.co_filename != chunk_module.__file__:
            return None
        is_lock = "with self._lock" in linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and not is_lock and next(reached) == number:
            raise Raised
        return trace

    # A thread that an earlier test left blocked may be owed an error; then CPython 3.11 would stand still
    # here, as with a profile function.
    _forget_errors_of_others()
    former = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(former)


def until_no_error_is_raised(begin, call, check):
    """Raise before each line that `call` reaches, one after the other, and check after each."""
    for number in itertools.count():
        chunk = begin()
        try:
            with raising_before_line(number):
                call(chunk)
        except Raised:
            check(chunk)
        else:
            check(chunk)
            assert number > 1
            return


@pytest.mark.parametrize(
    ("prepare", "call"),
    [
        (lambda _chunk: None, Chunk.take),
        (Chunk.take, lambda chunk: chunk.end("settlement")),
        (Chunk.take, Chunk.put_back_running),
    ],
    ids=["take", "fail", "put_back_running"],
)
def test_no_error_that_is_raised_in_the_owner_makes_it_forget_a_job(prepare, call):
    def begin():
        chunk = chunk_of(b"new", b"old")
        prepare(chunk)
        return chunk

    def check(chunk):
        revoke_unfinished(chunk)
        assert {*chunk.returning, *(text for text, _ in chunk.ended)} == {b"new", b"old"}

    until_no_error_is_raised(begin, call, check)


def test_an_error_while_done_jobs_are_handed_over_leaves_none_unreported():
    reported = []

    def begin():
        chunk = chunk_of(b"new", b"old")
        for _ in range(2):
            chunk.take()
            chunk.finish()
        chunk.share(lambda: None)
        reported.clear()
        return chunk

    def hand_over(chunk):
        chunk.hand_over_done(reported.append)

    def check(chunk):
        hand_over(chunk)
        assert {*reported} == {b"new", b"old"}
        assert chunk.pending >= len(reported)

    until_no_error_is_raised(begin, hand_over, check)
    assert reported == [b"old", b"new"]


def test_of_twins_of_one_byte_none_is_missed():
    chunk = chunk_of(b"1", b"1")  # CPython has one object for both
    chunk.take()

    revoke_unfinished(chunk)

    assert chunk.returning == (b"1", b"1")


def run_impatiently(*functions):
    """Run each on a thread; they take turns after each few instructions."""
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("everything", [False, True])
def test_threads_that_take_and_revoke_at_once_share_the_jobs_without_gap_or_overlap(everything):
    rounds, size = 150, 12
    ready = threading.Barrier(3)
    chunks = [
        chunk_of(*(b"%d/%d" % (number, job) for job in range(size))) for number in range(rounds)
    ]
    taken = [[] for _ in chunks]
    left = []

    def own():
        for chunk, mine in zip(chunks, taken, strict=True):
            ready.wait(30)
            while not chunk.may_be_left():
                text = chunk.take()
                if text is not None:
                    mine.append(text)
                    chunk.finish()
                elif chunk.returning:
                    with chunk.writing:
                        pass  # somebody gives them back
            left.append(chunk)

    def give_back(call):
        for chunk in chunks:
            ready.wait(30)
            with chunk.writing:
                call(chunk)
                sent[chunk] += chunk.returning
                chunk.returned(len(chunk.returning))

    sent = {chunk: [] for chunk in chunks}
    second = Chunk.revoke_unfinished if everything else Chunk.revoke
    run_impatiently(own, lambda: give_back(Chunk.revoke), lambda: give_back(second))

    assert len(left) == rounds
    for chunk, mine in zip(chunks, taken, strict=True):
        jobs = {b"%d/%d" % (chunks.index(chunk), job) for job in range(size)}
        assert len(mine) == len(set(mine))
        assert len(sent[chunk]) == len(set(sent[chunk]))
        assert {*mine, *sent[chunk]} == jobs
        both = set(mine) & set(sent[chunk])
        # Of all that is not finished only the job that runs at that moment may go on here as well.
        assert len(both) <= (1 if everything else 0), both


def test_pending_jobs_are_counted_right_by_threads_at_once():
    freed = []
    chunk = chunk_of()
    chunk.share(lambda: freed.append(chunk.pending))
    ready = threading.Barrier(4)

    def hold_and_release():
        ready.wait(30)
        for _ in range(2000):
            chunk.hold()
            chunk.release()

    run_impatiently(*[hold_and_release] * 4)

    assert freed == []
    chunk.leave()
    assert freed == [0]
    assert (chunk.waiting, chunk.returning) == ((), ())


def test_tracing_goes_on_beside_a_blocked_thread_that_is_owed_an_error():
    held = threading.Lock()
    held.acquire()

    def wait():
        with suppress(Raised):
            held.acquire()
            for _ in range(1000):  # it arrives at the end of a round
                pass

    blocked = threading.Thread(target=wait, daemon=True)
    blocked.start()
    owed = ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(blocked.ident), ctypes.py_object(Raised)
    )
    assert owed == 1
    try:
        with pytest.raises(Raised), raising_before_line(0):
            chunk_of(b"job").take()
    finally:
        held.release()
        blocked.join(60)
