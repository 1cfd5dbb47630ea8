"""How much memory a server uses, and of how much."""

from kiqbridge.runtime.records import dataclass
from kiqbridge.store.server_check import parse_info


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of a server.

    Attributes:
        used: bytes that it uses.
        most: bytes that it may use (maxmemory); 0 = no limit.
        policy: its eviction policy; empty if it does not say.
        resident: bytes of the machine that its process takes.
        machine: bytes that the machine has; 0 = not known.
    """

    used: int
    most: int
    policy: str
    resident: int = 0
    machine: int = 0

    @property
    def taken(self) -> tuple[int, int]:
        """Bytes in use, and of how many; without maxmemory those of the machine. The second is 0 if there is no bound."""
        return (self.used, self.most) if self.most else (self.resident, self.machine)

    @property
    def share(self) -> float:
        """The part of it that is in use, 0 to 1; 0 if there is no bound."""
        used, most = self.taken
        return used / most if most else 0.0


def parse_memory(reply: bytes | None) -> Memory | None:
    """The reply to INFO memory; None if it does not say how much is used."""
    info = parse_info(reply or b"")
    numbers = {
        name: int(text)
        for name in ("used_memory", "maxmemory", "used_memory_rss", "total_system_memory")
        if (text := info.get(name, "")).isdigit()
    }
    if "used_memory" not in numbers:
        return None
    return Memory(
        used=numbers["used_memory"],
        most=numbers.get("maxmemory", 0),
        policy=info.get("maxmemory_policy", ""),
        resident=numbers.get("used_memory_rss", 0),
        machine=numbers.get("total_system_memory", 0),
    )
