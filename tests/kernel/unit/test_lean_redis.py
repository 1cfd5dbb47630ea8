"""redis-py is loaded without its front, and whoever imports it later has the whole library."""

import pytest
from support.processes import run_python

LOAD = """
import sys
import kiqbridge.store.lean_redis
assert "redis.connection" in sys.modules
assert not {"redis", "redis.client", "redis.cluster", "redis.asyncio"} & sys.modules.keys()
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
        "early = sys.modules['redis.observability.attributes'].redis; import redis; assert redis is early",
        "early = sys.modules['redis.observability.attributes'].redis; assert early.__version__ and early.Redis",
        "import importlib, inspect, redis; assert 'Redis' in inspect.getsource(redis); importlib.reload(redis).Redis",
        "import pickle, redis; assert type(pickle.loads(pickle.dumps(RedisError()))) is redis.RedisError",
        "import redis; assert type(redis) is type(sys) and not hasattr(redis, 'is_loading')",
    ],
)
def test_whoever_imports_it_later_has_the_whole_library(script):
    run_python(LOAD + script)


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
