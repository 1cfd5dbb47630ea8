"""A primary, its replica and a sentinel that watches them: Debian's redis-server, all on the loopback."""

import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import redis as redis_py

from support.servers import HOST, ServerProcess, find_free_port
from support.waiting import wait_until

SERVICE = "kb"
PASSWORD, SENTINEL_PASSWORD = "of-data", "of-sentinel"


class SentinelFleet:
    """As a context manager: `url` leads to whichever server is the primary.

    The first address in it is dead, so that clients must ask the next one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.servers: list[ServerProcess] = []
        self.port = 0
        self.url = ""

    def __enter__(self) -> Self:
        settings = {
            "requirepass": PASSWORD,
            "masterauth": PASSWORD,
            "repl_diskless_sync_delay": "0",
        }
        try:
            for name in ("one", "two"):
                server = _Protected("redis", self._folder / name, **settings)
                self.servers.append(self._stack.enter_context(server.start()))
            with self.servers[1].client() as replica:
                replica.replicaof(HOST, str(self.servers[0].port))
            self._wait_replicated(self.servers[1])
            self._start_sentinel()
        except BaseException:
            self._stack.close()
            raise
        dead = find_free_port()
        self.url = (
            f"redis+sentinel://:{PASSWORD}@{HOST}:{dead},{HOST}:{self.port}/{SERVICE}/0"
            f"?sentinel_password={SENTINEL_PASSWORD}"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def primary(self) -> ServerProcess:
        """Whom the sentinel calls the primary."""
        with self.sentinel() as sentinel:
            _, port = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        [found] = [server for server in self.servers if server.port == int(port)]
        return found

    def sentinel(self) -> redis_py.Redis:
        return redis_py.Redis(host=HOST, port=self.port, password=SENTINEL_PASSWORD)

    def fail_over(self) -> ServerProcess:
        """Let the sentinel swap the roles; the new primary."""
        before = self.primary()

        def accepted() -> bool:
            with suppress(redis_py.ResponseError), self.sentinel() as sentinel:  # NOGOODSLAVE yet
                sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE)
                return True
            return False

        wait_until(accepted, 30, "the sentinel beginning a failover", interval_s=0.2)
        return self.wait_new_primary(before)

    def wait_new_primary(self, before: ServerProcess) -> ServerProcess:
        wait_until(
            lambda: self.primary() is not before and self._role(self.primary()) == "master",
            60,
            "another primary",
            interval_s=0.1,
        )
        return self.primary()

    def wait_replicated(self) -> None:
        """Wait until the other server follows the primary."""
        primary = self.primary()
        for server in self.servers:
            if server is not primary:
                self._wait_replicated(server)

    def _wait_replicated(self, replica: ServerProcess) -> None:
        with replica.client() as raw:
            wait_until(
                lambda: raw.info("replication").get("master_link_status") == "up",
                60,
                lambda: f"replication: {raw.info('replication')}",
            )

    def _role(self, server: ServerProcess) -> str:
        with server.client() as raw:
            return raw.info("replication")["role"]

    def _start_sentinel(self) -> None:
        self.port = find_free_port()
        path = self._folder / "sentinel.conf"
        path.write_text(
            f"port {self.port}\nbind {HOST}\ndir {self._folder}\nrequirepass {SENTINEL_PASSWORD}\n"
            f"sentinel monitor {SERVICE} {HOST} {self.servers[0].port} 1\n"
            f"sentinel auth-pass {SERVICE} {PASSWORD}\n"
            f"sentinel down-after-milliseconds {SERVICE} 2000\n"
            f"sentinel failover-timeout {SERVICE} 20000\n"
        )
        with (self._folder / "sentinel.log").open("ab") as log:
            process = subprocess.Popen(
                ["redis-server", str(path), "--sentinel"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

        def knows_the_replica() -> bool:
            with suppress(redis_py.RedisError), self.sentinel() as sentinel:
                return bool(sentinel.execute_command("SENTINEL", "REPLICAS", SERVICE))
            return False

        wait_until(knows_the_replica, 60, "the sentinel knowing the replica", interval_s=0.1)


class _Protected(ServerProcess):
    """A server that asks its clients for a password."""

    def client(self) -> redis_py.Redis:
        return redis_py.Redis(host=HOST, port=self.port, password=PASSWORD)
