"""Declaring iterable jobs, and running them where there is no worker (protocol §13.4)."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from support.jobs import configure_capture, own_declarations

from kiqbridge import ConfigError, IterableJob, Job, JobInterrupted, PayloadError, configure
from kiqbridge.client.registry import default_registry, definition_of
from kiqbridge.enumerators import sequence


@pytest.fixture(autouse=True)
def _declarations():
    with own_declarations():
        configure("redis://nowhere.invalid:1/0")
        yield


def declare(name="Work", base=IterableJob, **members):
    """An iterable job without items, but for what is given; `lines` names callbacks that say so there."""
    lines = members.pop("lines", None)
    for each in ("start", "resume", "stop", "complete"):
        if lines is not None:
            members.setdefault(f"on_{each}", lambda _self, each=each: lines.append(each))
    members.setdefault("build_enumerator", lambda _self, *, cursor: iter(()))
    members.setdefault("each_iteration", lambda _self, item: None)
    return type(name, (base,), members)


def counting(*items):
    return lambda _self, *, cursor: sequence(items, cursor=cursor)


class TestDeclaring:
    def test_it_is_registered_and_pushed_like_any_job(self):
        class Import(IterableJob):
            class_name = "Imports::Users"
            queue = "low"

            def build_enumerator(self, path: str, copies: int = 1, *, cursor):
                return iter(())

            def each_iteration(self, row, path, copies=1):
                pass

        pushes = configure_capture()
        Import.perform_async(copies=3, path="users.csv")
        assert "Imports::Users" in default_registry
        pushed = [pushes.last[name] for name in ("class", "args", "queue")]
        assert pushed == ["Imports::Users", ["users.csv", 3], "low"]
        assert list(definition_of(Import).signature.parameters) == ["path", "copies"]
        with pytest.raises(PayloadError, match="Users cannot be called like this"):
            Import.perform_async("a", "b", "c")

    def test_perform_is_refused_also_from_a_mixin(self):
        class Mixin:
            def perform(self):
                pass

        with pytest.raises(ConfigError, match=r"Wrong: defines perform, .*each_iteration"):
            declare("Wrong", perform=lambda self: None)
        with pytest.raises(ConfigError, match="defines perform"):
            type("Wrong", (Mixin, IterableJob), {})

    @pytest.mark.parametrize("missing", ["build_enumerator", "each_iteration"])
    def test_each_of_the_two_methods_is_required(self, missing):
        methods = {
            "build_enumerator": lambda _self, *, cursor: iter(()),
            "each_iteration": lambda _self, item: None,
        }
        del methods[missing]

        with pytest.raises(ConfigError, match=f"Wrong: defines no {missing}, .*abstract=True"):
            type("Wrong", (IterableJob,), methods)

        assert "Wrong" not in default_registry

    def test_a_base_for_others_is_declared_abstract(self, seen):
        class Base(declare("First"), abstract=True):
            def each_iteration(self, item):
                seen.append(item)

        class Numbers(Base):
            def build_enumerator(self, *, cursor):
                return sequence([1, 2], cursor=cursor)

        assert {each.name for each in default_registry} == {"First", "Numbers"}
        with pytest.raises(ConfigError, match="Base"):
            Base.perform_async()
        Numbers.perform_inline()
        assert seen == [1, 2]

    @pytest.mark.parametrize(
        "build",
        [
            lambda self: None,
            lambda self, cursor, path: None,
            lambda self, cursor, *paths: None,
            lambda self, cursor, /: None,
        ],
    )
    def test_an_enumerator_that_cannot_get_a_cursor_is_refused(self, build):
        with pytest.raises(ConfigError, match=r"cannot be called with cursor=…; put `\*, cursor`"):
            declare(build_enumerator=build, each_iteration=lambda *_: None)

    @pytest.mark.parametrize(
        "build",
        [
            lambda self, path, cursor: None,
            lambda self, path, *, cursor: None,
            lambda self, path, **options: None,
        ],
    )
    def test_the_cursor_may_be_taken_in_these_ways(self, build):
        right = declare(build_enumerator=build, each_iteration=lambda self, item, path: None)

        assert list(definition_of(right).signature.parameters) == ["path"]

    def test_both_methods_take_the_same_arguments(self):
        with pytest.raises(ConfigError, match="each_iteration cannot be called with an item and"):
            declare(build_enumerator=lambda self, path, *, cursor: None)

    def test_the_pool_follows_each_iteration(self):
        async def each_iteration(_self, item):
            pass

        assert definition_of(declare("Plain")).handling.pool == "thread"
        asynchronous = declare("Asynchronous", each_iteration=each_iteration)
        assert definition_of(asynchronous).handling.pool == "async"

    def test_it_is_a_job_of_which_nothing_can_be_read_before_it_runs(self):
        idle = declare()()
        assert (idle.cursor, idle.arguments, idle.current_object) == (None, (), None)
        assert not idle.cancelled
        assert issubclass(IterableJob, Job)
        assert not hasattr(IterableJob, "perform")
        assert definition_of(IterableJob) is None


class TestInline:
    """Without a worker nothing is saved, and nobody interrupts."""

    def test_the_callbacks_come_in_their_order(self, seen):
        class Work(IterableJob):
            def build_enumerator(self, first, *, cursor):
                seen.append(("build", first, cursor))
                return sequence(["a", "b"], cursor=cursor)

            def each_iteration(self, item, first):
                seen.append(("item", item, self.cursor, self.current_object, self.arguments))

            @contextmanager
            def around_iteration(self) -> Iterator[None]:
                seen.append("before")
                yield
                seen.append("behind")

            def on_start(self):
                seen.append("start")

            def on_resume(self):
                seen.append("resume")

            def on_stop(self):
                seen.append("stop")

            def on_complete(self):
                seen.append("complete")

        Work.perform_inline("x")

        assert seen == [
            ("build", "x", None),
            "start",
            "before",
            ("item", "a", 0, "a", ("x",)),
            "behind",
            "before",
            ("item", "b", 1, "b", ("x",)),
            "behind",
            "stop",
            "complete",
        ]

    def test_asynchronous_ones_too_and_some_of_each(self, seen):
        class Work(IterableJob):
            async def build_enumerator(self, *, cursor):
                for number in (1, 2):
                    await asyncio.sleep(0)
                    yield number, number

            async def each_iteration(self, item):
                await asyncio.sleep(0)
                seen.append(item)

            @asynccontextmanager
            async def around_iteration(self):
                await asyncio.sleep(0)
                seen.append("before")
                yield
                seen.append("behind")

            async def on_start(self):
                await asyncio.sleep(0)
                seen.append("start")

            def on_stop(self):
                seen.append("stop")

        class Mixed(Work):
            async def build_enumerator(self, *, cursor):
                return sequence([1, 2], cursor=cursor)

            @contextmanager
            def around_iteration(self):
                yield seen.append("before")

        Work.perform_inline()
        assert seen == ["start", "before", 1, "behind", "before", 2, "behind", "stop"]
        seen.clear()
        Mixed.perform_inline()
        assert seen == ["start", "before", 1, "before", 2, "stop"]

    def test_none_for_an_enumerator_means_that_there_is_nothing_to_do(self, seen):
        declare(build_enumerator=lambda self, *, cursor: None, lines=seen).perform_inline()

        assert seen == []

    @pytest.mark.parametrize(
        ("made", "message"),
        [
            (5, "5 is no iterator of"),
            ("ab", "'ab' is no iterator of"),
            ([(1, 1)], "is no iterator of"),
            (enumerate("ab"), r"enumerate gives \(index, item\)"),
            (iter([1]), r"1 is no \(item, cursor\) pair"),
            (iter([[1, 2]]), r"\[1, 2\] is no \(item, cursor\) pair"),
        ],
    )
    def test_what_is_no_enumerator_is_an_error(self, made, message):
        with pytest.raises(TypeError, match=message):
            declare(build_enumerator=lambda self, *, cursor: made).perform_inline()

    def test_a_plain_job_cannot_have_asynchronous_parts(self):
        async def build_enumerator(_self, *, cursor):
            yield 1, 1

        async def on_start(_self):
            await asyncio.sleep(0)

        with pytest.raises(TypeError, match="needs `async def each_iteration`"):
            declare(build_enumerator=build_enumerator).perform_inline()
        with pytest.raises(TypeError, match="make each_iteration `async def`"):
            declare("Other", build_enumerator=counting(1), on_start=on_start).perform_inline()

    def test_a_cursor_without_a_json_text_is_refused_at_the_first_item(self, seen):
        work = declare(
            build_enumerator=lambda self, *, cursor: iter([("a", object())]),
            each_iteration=lambda self, item: seen.append(item),
        )

        with pytest.raises(PayloadError, match=r"cursor: .* of type object would not arrive"):
            work.perform_inline()
        assert seen == []

    def test_a_generator_is_closed_when_the_job_ends_early(self, seen):
        def build_enumerator(_self, *, cursor):
            try:
                for number in range(10):
                    yield number, number
            finally:
                seen.append("closed")

        declare(
            build_enumerator=build_enumerator,
            each_iteration=lambda self, item: self.abort() if item == 2 else None,
            lines=seen,
        ).perform_inline()

        assert seen == ["start", "stop", "closed", "complete"]

    def test_an_abort_that_is_not_complete_interrupts(self, seen):
        def each_iteration(self, item):
            seen.append(item)
            try:
                self.abort(completed=False)
            except Exception:
                seen.append("swallowed")
                raise

        work = declare(
            build_enumerator=counting("a", "b"), each_iteration=each_iteration, lines=seen
        )

        with pytest.raises(JobInterrupted, match="interrupted at cursor 0"):
            work.perform_inline()
        assert seen == ["start", "a", "stop"]

    def test_an_abort_after_the_last_item_is_an_error(self):
        work = declare(build_enumerator=counting("a"), on_stop=lambda self: self.abort())

        with pytest.raises(BaseException, match="has no place after the last one"):
            work.perform_inline()

    def test_on_stop_is_called_after_an_error_too_and_hides_it_not(self, seen):
        def each_iteration(_self, item):
            raise LookupError("the first")

        def on_stop(_self):
            seen.append("stop")
            raise RuntimeError("the second")

        work = declare(
            build_enumerator=counting("a"),
            each_iteration=each_iteration,
            on_stop=on_stop,
            lines=seen,
        )

        with pytest.raises(LookupError, match="the first"):
            work.perform_inline()
        assert seen == ["start", "stop"]

    def test_a_plain_one_needs_no_event_loop(self):
        def each_iteration(_self, item):
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            asyncio.run(asyncio.sleep(0))

        work = declare(build_enumerator=counting("a"), each_iteration=each_iteration)

        work.perform_inline()
        assert not inspect.iscoroutinefunction(work.perform)
