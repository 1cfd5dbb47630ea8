"""One node in cluster mode: what a worker logs about its address."""

from threading import Event

from support.aws_services import aws_services
from support.servers import one_node_cluster

from kiqbridge import Client
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.engine.registration import register_patiently
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys


def test_an_address_that_names_one_node_alone_is_warned_of(caplog):
    with one_node_cluster() as server:
        url = server.url.replace("redis://", "redis+cluster://")

        for address in (url, server.url):
            pool = RedisPool(address, namespace="{jobs}")
            register_patiently(pool, Keys("{jobs}"), lambda: None, Event())
            client = Client(address, namespace="{jobs}")
            client.close()
            pool.close()
            if address == url:
                assert caplog.messages == []

    [message] = caplog.messages
    assert "is a node of a cluster, and REDIS_URL names it alone" in message
    assert "write redis+cluster://HOST:PORT in place of redis://HOST:PORT" in message


def test_a_stored_address_of_a_cluster_is_read_before_it_is_looked_at(caplog):
    with one_node_cluster() as server, aws_services() as services:
        arn = services.secret(server.url.replace("redis://", "redis+cluster://"))
        access = RedisAccess(url="", secret_arn=arn, aws=services.aws, namespace="{jobs}")
        pool = RedisPool(access)

        register_patiently(pool, Keys("{jobs}"), lambda: None, Event())

        pool.close()
    assert [each for each in caplog.messages if "names it alone" in each] == []
