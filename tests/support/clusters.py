"""A cluster of primaries, each with a replica: Debian's redis-server in cluster mode, all on the loopback."""

import binascii
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import redis as redis_py

from support.servers import HOST, ServerProcess, find_free_port
from support.waiting import wait_until

SLOTS = 16384
NODE_TIMEOUT_MS = 2000
"""Without an answer for so long a node counts as gone, and its replica follows."""


def slot_of(tag: str) -> int:
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


class Cluster:
    """As a context manager: `url` leads to the owner of whatever slot is asked for.

    The first address in it is dead, so that clients must ask the next one.

    Args:
        folder: for the data of the servers.
        primaries: how many; each has one replica, if `with_replicas`.
        certificate: the folder of `cert.pem` and `key.pem`: `url` is encrypted, and so is what the servers say to
            each other; the tests' own clients use plain ports beside it.
        settings: of the servers' configuration files, `_` for `-`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        primaries: int = 3,
        with_replicas: bool = True,
        certificate: Path | None = None,
        **settings: str,
    ) -> None:
        self._folder = folder
        self._count = primaries
        self._with_replicas = with_replicas
        self._settings = {
            "cluster_enabled": "yes",
            "cluster_node_timeout": str(NODE_TIMEOUT_MS),
            "repl_diskless_sync_delay": "0",
            "repl_ping_replica_period": "1",
            **_tls(certificate),
            **settings,
        }
        self._certificate = certificate
        self._stack = ExitStack()
        self.servers: list[ServerProcess] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            for number in range(self._count * (2 if self._with_replicas else 1)):
                settings = {**self._settings, "cluster_port": str(find_free_port())}
                if self._certificate is not None:
                    settings["tls_port"] = str(find_free_port())
                server = ServerProcess("redis", self._folder / f"node{number}", **settings)
                self.servers.append(self._stack.enter_context(server.start()))
            self._join()
        except BaseException:
            self._stack.close()
            raise
        self.url = self.address()
        return self

    def address(self, user: str = "") -> str:
        """Of all nodes behind a dead one; `user` is USER:PASSWORD."""
        listed = ",".join(f"{HOST}:{port_of(server)}" for server in self.servers)
        at = f"{user}@" if user else ""
        nodes = f"{at}{HOST}:{find_free_port()},{listed}"
        if self._certificate is None:
            return f"redis+cluster://{nodes}"
        return f"rediss+cluster://{nodes}?ssl_ca_certs={self._certificate}/cert.pem"

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def owner(self, tag: str) -> ServerProcess:
        """The server that owns the slot, as it says itself."""
        found: list[ServerProcess] = []

        def somebody_owns() -> bool:
            found[:] = [server for server in self.living() if self._owns(server, slot_of(tag))]
            return len(found) == 1

        wait_until(somebody_owns, 60, lambda: f"one owner of {tag}: {found}", interval_s=0.05)
        return found[0]

    def living(self) -> list[ServerProcess]:
        return [server for server in self.servers if server.is_up]

    def replica_of(self, primary: ServerProcess) -> ServerProcess:
        """Its replica, once that has all data."""
        name = self.id_of(primary)
        found: list[ServerProcess] = []

        def follows() -> bool:
            for server in self.living():
                if server is primary:
                    continue
                with server.client() as raw:
                    mine = raw.execute_command("CLUSTER", "MYID").decode()
                    rows = _rows(raw)
                    info = raw.info("replication")
                if rows[mine]["of"] == name and info.get("master_link_status") == "up":
                    found.append(server)
                    return True
            return False

        wait_until(follows, 60, "a replica that follows", interval_s=0.05)
        return found[0]

    def id_of(self, server: ServerProcess) -> str:
        with server.client() as raw:
            return raw.execute_command("CLUSTER", "MYID").decode()

    def fail_over(self, tag: str) -> ServerProcess:
        """Planned: the replica takes over, having all data; the new owner."""
        before = self.owner(tag)
        replica = self.replica_of(before)

        def asked() -> bool:
            # A replica that was too slow gives up after 5 s.
            with suppress(redis_py.ResponseError), replica.client() as raw:
                raw.execute_command("CLUSTER", "FAILOVER")
            with suppress(AssertionError):
                wait_until(lambda: self.owner(tag) is not before, 8, interval_s=0.05)
                return True
            return False

        wait_until(asked, 60, "the planned failover")
        return self.owner(tag)

    @contextmanager
    def cut_off(self, replica: ServerProcess) -> Iterator[redis_py.Redis]:
        """Within the block this replica gets nothing from its primary, and can be read (a client that may)."""
        with (
            replica.client() as raw,
            redis_py.Redis(host=HOST, port=replica.port, single_connection_client=True) as reader,
        ):
            raw.config_set("masterauth", "refused")  # the primary has no password: AUTH is an error
            raw.execute_command("CLIENT", "KILL", "TYPE", "master")
            wait_until(lambda: raw.info("replication").get("master_link_status") == "down", 20)
            reader.execute_command("READONLY")
            yield reader
            raw.config_set("masterauth", "")

    def refusals(self) -> Counter[str]:
        """How often the living servers answered each kind of error since they started."""
        counts: Counter[str] = Counter()
        for server in self.living():
            with server.client() as raw:
                for name, fields in raw.info("errorstats").items():
                    counts[name.removeprefix("errorstat_")] += fields["count"]
        return counts

    def wait_new_owner(self, tag: str, before: ServerProcess) -> ServerProcess:
        wait_until(lambda: self.owner(tag) is not before, 60, "another owner", interval_s=0.05)
        return self.owner(tag)

    def other_primary(self, tag: str) -> ServerProcess:
        """A primary that does not own the slot."""
        owner = self.owner(tag)
        return next(server for server in self.primaries() if server is not owner)

    def primaries(self) -> list[ServerProcess]:
        found = []
        for server in self.living():
            with server.client() as raw:
                if raw.info("replication")["role"] == "master":
                    found.append(server)
        return found

    def reshard(self, tag: str, target: ServerProcess) -> None:
        """Move the slot, and those of the same primary before it, with `redis-cli --cluster reshard`."""
        slot, source = slot_of(tag), self.owner(tag)
        with source.client() as raw:
            ranges = _rows(raw)[self.id_of(source)]["slots"]
        count = sum(max(min(last, slot) - first + 1, 0) for first, last in ranges)

        def cluster(verb: str, *options: str) -> subprocess.CompletedProcess:
            command = ["redis-cli", "--cluster", verb, f"{HOST}:{source.port}", *options]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

        wait_until(lambda: cluster("check").returncode == 0, 30, "a cluster that redis-cli accepts")
        done = cluster(
            *("reshard", "--cluster-from", self.id_of(source), "--cluster-to", self.id_of(target)),
            *("--cluster-slots", str(count), "--cluster-yes"),
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr

    def begin_move(self, tag: str, target: ServerProcess) -> ServerProcess:
        """Let the slot be on its way; who owns it until then."""
        slot, source = slot_of(tag), self.owner(tag)
        with source.client() as here, target.client() as there:
            there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
            here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, tag: str, source: ServerProcess, target: ServerProcess) -> int:
        """All that lie there now; how many."""
        moved = 0
        with source.client() as here:
            while keys := here.execute_command("CLUSTER", "GETKEYSINSLOT", slot_of(tag), 10):
                here.execute_command(
                    "MIGRATE", HOST, port_of(target), "", 0, 10_000, "KEYS", *keys
                )  # fmt: skip
                moved += len(keys)
        return moved

    def end_move(self, tag: str, target: ServerProcess) -> None:
        """The target owns the slot, and all nodes are informed."""
        slot, name = slot_of(tag), self.id_of(target)
        # The target first, as the documentation of Redis says: else the slot could be without an owner.
        others = [server for server in self.living() if server is not target]
        for server in (target, *others):
            with server.client() as raw:
                if raw.info("replication")["role"] == "master":
                    raw.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name)

    def move(self, tag: str, target: ServerProcess | None = None) -> ServerProcess:
        """Move the slot to another primary, as redis-cli does; the new owner."""
        target = target or self.other_primary(tag)
        source = self.begin_move(tag, target)
        self.move_keys(tag, source, target)
        self.end_move(tag, target)
        return target

    def _owns(self, server: ServerProcess, slot: int) -> bool:
        with suppress(redis_py.RedisError, OSError), server.client() as raw:
            mine = raw.execute_command("CLUSTER", "MYID").decode()
            rows = _rows(raw)
            return rows[mine]["primary"] and any(
                first <= slot <= last for first, last in rows[mine]["slots"]
            )
        return False

    def _join(self) -> None:
        first = self.servers[0]
        primaries, replicas = self.servers[: self._count], self.servers[self._count :]
        for server in self.servers:
            with server.client() as raw:
                raw.execute_command("CLUSTER", "SET-CONFIG-EPOCH", self.servers.index(server) + 1)
        with first.client() as raw:
            for server in self.servers[1:]:
                raw.execute_command(
                    "CLUSTER", "MEET", HOST, port_of(server), server._settings["cluster_port"]
                )
        step = SLOTS // self._count
        for number, server in enumerate(primaries):
            last = SLOTS - 1 if server is primaries[-1] else (number + 1) * step - 1
            with server.client() as raw:
                raw.execute_command("CLUSTER", "ADDSLOTSRANGE", number * step, last)
        self._wait(lambda raw: len(_rows(raw)) == len(self.servers), "knowing each other")
        for primary, replica in zip(primaries, replicas, strict=False):
            with replica.client() as raw:
                raw.execute_command("CLUSTER", "REPLICATE", self.id_of(primary))
        self._wait(
            lambda raw: b"cluster_state:ok" in raw.execute_command("CLUSTER", "INFO"),
            "a cluster that is well",
        )
        for primary in primaries[: len(replicas)]:
            self.replica_of(primary)

    def _wait(self, condition, what: str) -> None:
        for server in self.servers:
            with server.client() as raw:
                wait_until(lambda raw=raw: condition(raw), 60, what, interval_s=0.05)


def port_of(server: ServerProcess) -> int:
    """The port that the nodes give to each other and to clients."""
    return int(server._settings.get("tls_port", server.port))


def _tls(certificate: Path | None) -> dict[str, str]:
    if certificate is None:
        return {}
    return {
        "tls_cert_file": str(certificate / "cert.pem"),
        "tls_key_file": str(certificate / "key.pem"),
        "tls_ca_cert_file": str(certificate / "cert.pem"),
        "tls_auth_clients": "no",
        "tls_cluster": "yes",
        "tls_replication": "yes",
    }


def _rows(raw: redis_py.Redis) -> dict[str, dict]:
    """CLUSTER NODES: id → whether it is a primary, of whom it is a replica, its slots."""
    text = raw.execute_command("CLUSTER", "NODES").decode()
    rows = {}
    for line in text.splitlines():
        name, _, flags, of, _, _, _, _, *ranges = line.split()
        slots = [
            tuple(int(end) for end in (*each.split("-"), *each.split("-"))[:2])
            for each in ranges
            if not each.startswith("[")
        ]
        if "handshake" not in flags:
            rows[name] = {
                "primary": "master" in flags and "fail" not in flags,
                "of": of,
                "slots": [(low, high) for low, high in slots],
            }
    return rows
