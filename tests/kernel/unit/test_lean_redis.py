"""redis-py is loaded without its front, and whoever imports it later has the whole library."""

import pytest
from support.processes import run_python

LOAD = """
import sys
import kiqbridge.store.lean_redis
assert "redis.connection" in sys.modules
assert not {"redis", "redis.client", "redis.cluster", "redis.asyncio"} & sys.modules.keys()
assert not {"asyncio", "opentelemetry.metrics", "opentelemetry.sdk.metrics", "ssl"} & sys.modules.keys()
from redis.connection import Connection
from redis.exceptions import RedisError
"""


@pytest.mark.parametrize(
    "script",
    [
        "import redis; assert redis.Redis and redis.asyncio.Redis and redis.cluster.RedisCluster",
        "import redis; assert redis.RedisError is RedisError; assert redis.connection.Connection is Connection",
        "import redis.asyncio; assert redis.asyncio.Redis and redis.Redis and redis.RedisError is RedisError",
        "from redis.commands.search.field import TextField; import redis; assert redis.Redis",
        "from redis import *; assert Redis and Sentinel",
        "early = sys.modules['kiqbridge.store.lean_redis'].redis; import redis; assert redis is early",
        "early = sys.modules['kiqbridge.store.lean_redis'].redis; assert early.__version__ and early.Redis",
        "import importlib, inspect, redis; assert 'Redis' in inspect.getsource(redis); importlib.reload(redis).Redis",
        "import pickle, redis; assert type(pickle.loads(pickle.dumps(RedisError()))) is redis.RedisError",
        "import redis; assert type(redis) is type(sys) and not hasattr(redis, 'is_loading')",
        "import redis, asyncio; assert redis._parsers.base.StreamReader is asyncio.StreamReader",
        "import redis.event, asyncio; assert redis.event.asyncio is asyncio",
        "import redis, ssl; assert redis.connection.ssl is ssl",
        # the first connection that uses TLS, whose `except` must know the errors of OpenSSL
        """
import redis._parsers.socket as sockets, redis._parsers.hiredis as parsers, redis.connection
redis.connection.SSLConnection()
import ssl
for of in (sockets, parsers):
    assert {ssl.SSLWantReadError, ssl.SSLWantWriteError} < {*of.NONBLOCKING_EXCEPTIONS}
    assert {*of.NONBLOCKING_EXCEPTIONS} == {*of.NONBLOCKING_EXCEPTION_ERROR_NUMBERS}
""",
    ],
)
def test_whoever_imports_it_later_has_the_whole_library(script):
    run_python(LOAD + script)


@pytest.mark.parametrize("module", ["kiqbridge.client.client", "kiqbridge.aws.enqueue"])
def test_who_only_enqueues_has_no_event_loop_loaded(module):
    run_python(
        f"import sys, {module}; assert not {{'asyncio', 'concurrent.futures'}} & sys.modules.keys()"
    )


def test_what_an_application_has_imported_is_left_alone():
    run_python("import redis\nimport kiqbridge.store.lean_redis\nassert redis.Redis")


def test_threads_that_import_it_meanwhile_wait_for_it_as_always():
    run_python(
        """
        import sys, threading
        sys.setswitchinterval(1e-6)
        begin, found = threading.Barrier(9), []

        def use():
            begin.wait()
            import redis
            from redis.asyncio import Redis
            found.append((redis.Redis, redis.cluster.RedisCluster, Redis))

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        begin.wait()
        import kiqbridge.store.lean_redis
        for thread in threads:
            thread.join()
        assert len(found) == 8 and len(set(found)) == 1, found
        """
    )


def test_annotations_with_names_of_what_is_loaded_late_are_resolved():
    run_python(
        LOAD
        + """
import typing, redis.event
hints = typing.get_type_hints(redis.event.AfterPubSubConnectionInstantiationEvent.__init__)
import asyncio
assert asyncio.Lock in typing.get_args(hints["connection_lock"]), hints
"""
    )


@pytest.mark.newest_redis_py
def test_its_own_metrics_work_as_documented():
    run_python(
        LOAD
        + """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))

from redis.observability import MetricGroup, OTelConfig, get_observability_instance, recorder
get_observability_instance().init(OTelConfig(metric_groups=[MetricGroup.COMMAND]))
recorder.record_operation_duration(command_name="PING", duration_seconds=0.5)
found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
assert [each.name for each in found] == ["db.client.operation.duration"], found

import redis
assert redis.observability.providers.MeterProvider is MeterProvider
assert redis.observability.metrics.Meter is metrics.Meter
"""
    )


@pytest.mark.newest_redis_py
def test_without_opentelemetry_its_metrics_are_off():
    run_python(
        """
import sys
sys.modules["opentelemetry"] = None
"""
        + LOAD
        + """
import redis
assert redis.observability.providers.OTEL_AVAILABLE is redis.observability.metrics.OTEL_AVAILABLE is False
"""
    )


@pytest.mark.parametrize(
    ("code", "is_right"),
    [
        (
            "class Reader(asyncio.StreamReader): pass",
            "issubclass(found.Reader, asyncio.StreamReader)",
        ),
        ("is_async = asyncio.iscoroutinefunction(len)", "found.is_async is False"),
        ("class Late(asyncio.TimeoutError): pass", "issubclass(found.Late, TimeoutError)"),
        (
            "def end(at: asyncio.Event | None): pass",
            "asyncio.Event in hints(found.end)['at'].__args__",
        ),
    ],
)
def test_what_another_version_does_with_names_of_what_is_loaded_late_is_right(
    tmp_path, code, is_right
):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "__init__.py").write_text("class Redis: pass\n")
    (tmp_path / "redis" / "connection.py").write_text(f"import asyncio\n{code}\n")
    for name in ("credentials", "exceptions", "retry", "backoff"):
        (tmp_path / "redis" / f"{name}.py").write_text("")

    run_python(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from kiqbridge.store.lean_redis import redis\n"
        "import redis.connection as found, asyncio; from typing import get_type_hints as hints\n"
        f"assert redis.Redis and found.asyncio is asyncio and {is_right}",
        str(tmp_path),
    )


@pytest.mark.newest_redis_py
@pytest.mark.parametrize(
    "script",
    [
        "redis.utils.metadata.version('redis')",
        "import importlib.metadata; assert importlib.metadata.version('redis')",
        "from importlib import metadata; assert metadata.PackageNotFoundError is redis.utils.metadata.PackageNotFoundError",
    ],
)
def test_what_it_imports_for_later_is_loaded_when_it_is_used(script):
    run_python(
        """
        import sys
        sys.modules["opentelemetry"] = None  # which loads it, too
        from kiqbridge.store.lean_redis import redis
        assert not {"importlib.metadata", "importlib.resources"} & sys.modules.keys()
        """
        + script
    )


def test_a_version_that_needs_its_front_is_loaded_whole(tmp_path):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "__init__.py").write_text("class Redis: pass\nfrom . import connection\n")
    (tmp_path / "redis" / "connection.py").write_text(
        "from redis import Redis\nclass Connection: pass\n"
    )
    (tmp_path / "redis" / "exceptions.py").write_text("")

    run_python(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import kiqbridge.store.lean_redis\n"
        "from redis.connection import Connection\n"
        "import redis; assert redis.Redis and redis.connection.Connection is Connection",
        str(tmp_path),
    )
