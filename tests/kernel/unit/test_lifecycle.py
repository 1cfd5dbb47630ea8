"""Events of a worker process, resources that are open while it runs, and its capsules."""

import asyncio
from contextlib import asynccontextmanager, contextmanager

import pytest
from support.engine import capsule_of

from kiqbridge.client.server import Events, ProcessResources, Server
from kiqbridge.engine.capsule_runtime import OWN_CONNECTIONS, connections_of
from kiqbridge.errors import ConfigError


class TestEvents:
    @pytest.mark.parametrize("event", ["startup", "heartbeat", "quiet", "shutdown", "exit", "beat"])
    def test_each_listener_is_called_once_in_the_events_order(self, event):
        events, heard = Events(), []
        for name in ("first", "second"):
            events.add(event, lambda name=name: heard.append(name))
        events.copy().fire(event)  # on its own
        heard.clear()
        events.fire(event)
        events.fire(event)
        order = ["first", "second"]
        if event in ("quiet", "shutdown", "exit"):
            order.reverse()
        assert heard == order * (2 if event == "beat" else 1)

    @pytest.mark.parametrize("error", [ValueError, SystemExit])
    def test_an_error_is_logged_and_the_others_are_called_but_raised_at_startup(
        self, caplog, error
    ):
        def fail():
            raise error

        events, heard = Events(), []
        events.add("shutdown", lambda: heard.append("called"))
        for event in ("shutdown", "startup"):
            events.add(event, fail)
        events.fire("shutdown")
        assert heard == ["called"]
        assert "a listener to shutdown failed" in caplog.text
        with pytest.raises(error):
            events.fire("startup", raising=True)
        with pytest.raises(ConfigError, match="'boot' is no event; events are startup, quiet"):
            Server().on("boot")(print)


class Opened:
    """Context managers that write down when they are opened and closed."""

    def __init__(self):
        self.heard = []

    def plain(self, name, *, fails=False):
        @contextmanager
        def manager():
            if fails:
                raise OSError("no database")
            self.heard.append(f"open {name}")
            try:
                yield name
            finally:
                self.heard.append(f"close {name}")

        return manager

    def asynchronous(self, name):
        @asynccontextmanager
        async def manager():
            with self.plain(name)() as opened:
                yield opened

        return manager


@pytest.fixture
def opened():
    return Opened()


class TestResources:
    def test_they_are_open_in_between_and_closed_in_reverse(self, opened):
        server = Server()
        first = server.lifespan(opened.plain("first"))
        server.lifespan(opened.plain("second"))
        resources = ProcessResources(server.resources)

        resources.open()
        assert first.value == "first"
        resources.close()

        assert opened.heard == ["open first", "open second", "close second", "close first"]
        with pytest.raises(ConfigError, match="is not open here; a worker opens it"):
            _ = first.value

    def test_when_one_fails_those_before_are_closed(self, opened):
        server = Server()
        first = server.lifespan(opened.plain("first"))
        server.lifespan(opened.plain("second", fails=True))

        with pytest.raises(OSError, match="no database"):
            ProcessResources(server.resources).open()

        assert opened.heard == ["open first", "close first"]
        with pytest.raises(ConfigError):
            _ = first.value

    def test_what_is_no_context_manager_is_refused(self):
        server = Server()

        @server.lifespan
        def database():
            return 5

        with pytest.raises(
            ConfigError, match=r"lifespan .*database: gives int, no context manager"
        ):
            ProcessResources(server.resources).open()

    def test_asynchronous_ones_belong_to_their_loop(self, opened):
        server = Server()
        pool = server.lifespan(opened.asynchronous("pool"))
        resources = ProcessResources(server.resources)
        resources.open()

        async def serve():
            async with resources.for_loop():
                return pool.value

        assert asyncio.run(serve()) == "pool"
        assert opened.heard == ["open pool", "close pool"]
        with pytest.raises(ConfigError):
            _ = pool.value


class TestCapsulesInCode:
    def test_the_name_must_be_free(self):
        server = Server()
        server.capsule("single", queues=["single"])

        for name in ("single", "default", ""):
            with pytest.raises(ConfigError, match="is taken or empty"):
                server.capsule(name, queues=["a"])

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            *(({"queues": queues}, "is not a list of queue names") for queues in ([], "single")),
            *(
                ({"queues": ["a"], "concurrency": number}, "is not a whole number from 1")
                for number in (0, -1, 1.5, True)
            ),
        ],
    )
    def test_queues_are_a_list_and_concurrency_a_number(self, options, told):
        with pytest.raises(ConfigError, match=told):
            Server().capsule("single", **options)


@pytest.mark.parametrize("concurrency", [1, 25, 400])
def test_each_job_that_may_run_finds_a_connection_and_our_own_threads_do(concurrency):
    capsules = [
        capsule_of({"a": 0}, concurrency=concurrency),
        capsule_of({"b": 0}, concurrency=2, name="b"),
    ]

    jobs = sum(each.concurrency + each.async_concurrency for each in capsules)

    assert connections_of(capsules) >= max(jobs + OWN_CONNECTIONS, 16)
