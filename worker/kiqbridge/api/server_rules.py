"""The rules of a verdict about the server: its memory, its eviction policy, cluster mode. Pure."""

from collections.abc import Iterator

from kiqbridge.api import rulebook
from kiqbridge.api.facts import Facts
from kiqbridge.api.rulebook import sentence
from kiqbridge.api.verdict import Fact
from kiqbridge.api.wording import listed, megabytes
from kiqbridge.store import server_check


def memory(facts: Facts) -> Iterator[Fact]:
    """What is used of what there is, and what a full server does."""
    found = facts.memory
    if found is None:
        return
    yield from eviction_facts(found.policy)
    if found.share >= facts.limits.memory_warning:
        used, most = found.taken
        whose = "maxmemory" if found.most else "the machine's memory"
        yield rulebook.MEMORY.fact(
            "critical" if found.share >= facts.limits.memory_critical else "warning",
            f"Redis uses {found.share:.0%} of {whose} ({megabytes(used)} of {megabytes(most)}); "
            "when it is full, no job can be pushed.",
            "/doctor",
        )


def eviction_facts(policy: str) -> Iterator[Fact]:
    """What is wrong with an eviction policy; empty = not known."""
    if policy and policy != server_check.NOEVICTION:
        yield rulebook.EVICTION.fact(
            "critical",
            f"Redis has the eviction policy {policy}: when its memory is full it loses "
            f"{server_check.what_can_be_lost(policy)}.",
            "/doctor",
        )


def cluster(facts: Facts) -> Iterator[Fact]:
    """A cluster that a namespace, an address or a process cannot work with."""
    if facts.is_cluster:
        what = f"Redis is in cluster mode: {server_check.CLUSTERED}."
        yield rulebook.CLUSTER.fact("critical", what, "/doctor")
    if facts.ruby_in_cluster:
        yield rulebook.CLUSTER.fact(
            "critical",
            f"Redis is in cluster mode, and Ruby processes use it: {listed(facts.ruby_in_cluster)}. {server_check.RUBY}.",
            "/doctor",
            sentence(server_check.WITHOUT_RUBY),
        )
