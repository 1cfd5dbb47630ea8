"""Four fleets on a cluster under load: slots move, primaries change or die; workers are not restarted.

What is lost is at most what the primary that died had not copied; moves and planned failovers lose nothing.
Fleets on other primaries go on meanwhile.
"""

import mmap
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from statistics import median

import pytest
from support.clusters import Cluster, slot_of
from support.failovers import Holders, any_job, jids_in
from support.fleet import incarnations, lists_in_flight
from support.proving import (
    Pushers,
    hold,
    hurry_retries,
    left_over,
    sized,
    unasked_tracebacks,
)
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.redis_server

TAGS = ("mail", "api", "sms", "web")
"""Their slots: 4247, 6541, 13018, 9635; so the second of three primaries has two of them at first."""
KEYS = {tag: Keys(f"{{{tag}}}") for tag in TAGS}
FAULTS = ("resharded", "killed", "moved", "planned", "killed") * sized(full=4, sample=1)
RECOVER_AFTER_S = sized(full=30.0, sample=8.0)
LAG_S = sized(full=2.0, sample=0.6)
"""How long nothing is replicated before the primary is killed: what is written meanwhile is at stake."""
PER_SECOND = sized(full=40, sample=20)
"""Plain pushes of each fleet; half as many wait for a replica."""
BETWEEN_S = sized(full=3.0, sample=1.0)
REFUSED = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")


@dataclass(slots=True, kw_only=True)
class Fault:
    """What one fault did.

    Attributes:
        kind: which.
        tags: the fleets on the primary, or the one whose slot moved.
        coverage: `cluster-require-full-coverage`: whether all nodes refuse while slots have no owner.
        copied: jids on the new primary when the old one died; empty for the others, which lose nothing.
        kept: those, and what was performed before.
        not_copied: bytes that were lost with the old primary.
        died_at: when that took its last write (`time.monotonic`).
        refused: how often servers refused, by the word of the error; without what the dead one counted.
        others: jobs of each other fleet from the last write until the replica followed.
        seconds: from the beginning of the fault until 20 more jobs of each fleet had begun after it.
    """

    kind: str
    tags: list[str]
    coverage: str = ""
    copied: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    not_copied: int = 0
    died_at: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    others: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def at_stake(self, acknowledged):
        """Begun before the primary died, and neither copied nor performed."""
        if not self.died_at:
            return set()
        return {
            jid
            for tag in self.tags
            for jid, began in acknowledged[tag].items()
            if began < self.died_at and jid not in self.kept
        }


class Scene:
    """A cluster with a worker and two pushers for each fleet."""

    def __init__(self, cluster, fleet, pushers):
        self.cluster = cluster
        self.fleet = fleet
        self.coverages = cycle(("no", "yes"))
        self.workers = start_workers(cluster, fleet, "-c", "4", recover_after_s=RECOVER_AFTER_S)
        self.plain, self.confirmed = (
            {
                tag: pushers.start(
                    cluster.url,
                    any_job,
                    per_second=rate,
                    wait_replicas=replicas,
                    namespace=f"{{{tag}}}",
                )
                for tag in TAGS
            }
            for rate, replicas in ((PER_SECOND, 0), (PER_SECOND / 2, 1))
        )

    def on(self, server):
        """The fleets that a server has."""
        return [tag for tag in TAGS if self.cluster.owner(tag) is server]

    def performed_by(self, tag, name="performed"):
        """When the worker of a fleet performed, or began, each job."""
        marks, pid = self.fleet.marks.look(), self.workers[tag].pid
        return [
            at
            for (_, by), at in zip(marks.lines[name], marks.times[name], strict=True)
            if by == pid
        ]

    def all_go_on(self, what):
        begun = {tag: len(self.performed_by(tag, "begun")) for tag in TAGS}
        wait_until(
            lambda: all(len(self.performed_by(tag, "begun")) > begun[tag] + 20 for tag in TAGS),
            60,
            f"jobs of all fleets once {what}",
            interval_s=0.05,
        )

    def fullest_and_emptiest(self):
        """The first fleet of the primary that has most of them, and the primary that has fewest."""
        primaries = sorted(self.cluster.primaries(), key=lambda server: len(self.on(server)))
        return min(self.on(primaries[-1]), key=slot_of), primaries[0]


def start_workers(cluster, fleet, *options, recover_after_s):
    workers = {
        tag: fleet.start(
            *options,
            recover_after_s=recover_after_s,
            url=cluster.url,
            env={"KIQBRIDGE_NAMESPACE": f"{{{tag}}}"},
        )
        for tag in TAGS
    }
    for tag, worker in workers.items():
        with cluster.owner(tag).client() as raw:
            worker.wait_for(
                lambda raw=raw, pid=worker.pid, tag=tag: incarnations(raw, pid, KEYS[tag]),
                what="its lease",
            )
    return workers


def reshard(scene, _tag):
    """As an operator does it, with what stands before the fleet: empty slots."""
    tag, target = scene.fullest_and_emptiest()
    before = scene.cluster.refusals()
    scene.cluster.reshard(tag, target)
    assert scene.cluster.owner(tag) is target
    return Fault(kind="resharded", tags=[tag], refused=scene.cluster.refusals() - before)


def move(scene, _tag):
    """Key by key, each stage lasting until clients have met what it answers."""
    cluster = scene.cluster
    tag, target = scene.fullest_and_emptiest()
    before = cluster.refusals()

    def met(word):
        wait_until(lambda: cluster.refusals()[word] > before[word], 30, f"a call that gets {word}")

    source = cluster.begin_move(tag, target)
    met("TRYAGAIN")
    cluster.move_keys(tag, source, target)
    met("ASK")
    cluster.end_move(tag, target)
    met("MOVED")
    return Fault(kind="moved", tags=[tag], refused=cluster.refusals() - before)


def fail_over(scene, tag):
    before, tags = scene.cluster.refusals(), scene.on(scene.cluster.owner(tag))
    scene.cluster.fail_over(tag)
    return Fault(kind="planned", tags=tags, refused=scene.cluster.refusals() - before)


def kill(scene, tag):
    """SIGKILL of the primary while its replica is behind; it comes back as a replica."""
    cluster = scene.cluster
    coverage = next(scene.coverages)
    for server in cluster.living():
        with server.client() as raw:
            raw.config_set("cluster-require-full-coverage", coverage)
    owner = cluster.owner(tag)
    tags = scene.on(owner)
    others = [each for each in TAGS if each not in tags]
    replica = cluster.replica_of(owner)
    performed = set(scene.fleet.marks.look().count("performed"))
    with cluster.cut_off(replica) as reader, owner.client() as primary:
        hold(LAG_S)
        copied = {jid for each in tags for jid in jids_in(reader, KEYS[each])}
        reached = reader.info("replication")["slave_repl_offset"]
        written = primary.info("replication")["master_repl_offset"]
        errors = {each: dict(scene.plain[each].unsure) for each in others}
        before = cluster.refusals()
        of_the_dead = Counter(
            {
                name.removeprefix("errorstat_"): each["count"]
                for name, each in primary.info("errorstats").items()
            }
        )
        owner.kill()
        died_at = time.monotonic()
        cluster.wait_new_owner(tag, owner)
        followed_at = time.monotonic()
    refused = cluster.refusals() - (before - of_the_dead)
    meanwhile = {
        each: sum(died_at < at < followed_at for at in scene.performed_by(each)) for each in others
    }
    if coverage == "no":
        assert {each: scene.plain[each].unsure for each in others} == errors
    owner.start()
    cluster.replica_of(replica)
    return Fault(
        kind="killed",
        tags=tags,
        coverage=coverage,
        copied=copied,
        kept=copied | performed,
        not_copied=written - reached,
        died_at=died_at,
        refused=refused,
        others=meanwhile,
    )


CAUSES = {"resharded": reshard, "moved": move, "planned": fail_over, "killed": kill}


@contextmanager
def clients(cluster):
    """Of each fleet one of its primary."""
    with ExitStack() as stack:
        yield {tag: stack.enter_context(cluster.owner(tag).client()) for tag in TAGS}


def test_fleets_lose_only_what_was_not_copied_while_slots_move_and_primaries_change(
    fleet, tmp_path, tell
):
    faults = []
    holders = {tag: Holders(keys) for tag, keys in KEYS.items()}

    def look(raws):
        for tag, raw in raws.items():
            holders[tag].look(raw)

    def in_flight_and_left(raws):
        found = {}
        for tag, raw in raws.items():
            # In this order: a lease that ends puts jobs back, and a job goes from left to right.
            for name, what in {
                **left_over(raw, KEYS[tag]),
                **lists_in_flight(raw, KEYS[tag]),
            }.items():
                found[tag, name] = what
        return found

    with Cluster(tmp_path / "cluster") as cluster, Pushers() as pushers:
        scene = Scene(cluster, fleet, pushers)
        hold(BETWEEN_S)
        for kind, tag in zip(FAULTS, cycle(TAGS), strict=False):
            began = time.monotonic()
            fault = CAUSES[kind](scene, tag)
            scene.all_go_on(kind)
            fault.seconds = time.monotonic() - began
            faults.append(fault)
            with clients(cluster) as raws:
                hold(BETWEEN_S, lambda raws=raws: look(raws))
        pushers.stop()

        with clients(cluster) as raws:

            def leases():
                return {tag: incarnations(raw, keys=KEYS[tag]) for tag, raw in raws.items()}

            def nothing_left():
                look(raws)
                for tag, raw in raws.items():
                    hurry_retries(raw, KEYS[tag])
                return all(len(names) == 1 for names in leases().values()) and (
                    not in_flight_and_left(raws)
                )

            wait_until(
                nothing_left,
                3 * RECOVER_AFTER_S + 30,
                lambda: f"{in_flight_and_left(raws)}, {leases()}",
                interval_s=0.1,
            )
            living = leases()
            codes = fleet.stop()
            left = in_flight_and_left(raws)
            in_flight = [
                name
                for tag, raw in raws.items()
                for name in raw.scan_iter(f"{KEYS[tag].inflight}*", count=1000)
            ]
        elsewhere = keys_elsewhere(cluster)
    outputs = "".join(worker.output for worker in scene.workers.values())

    performed = fleet.marks.look().count("performed")
    acknowledged = {tag: {**scene.plain[tag].sure, **scene.confirmed[tag].sure} for tag in TAGS}
    at_stake = set().union(*(fault.at_stake(acknowledged) for fault in faults))
    lost = {tag: scene.plain[tag].sure.keys() - performed.keys() for tag in TAGS}
    lost_confirmed = {tag: scene.confirmed[tag].sure.keys() - performed.keys() for tag in TAGS}
    all_lost = set().union(*lost.values())
    twice = {jid for jid, count in performed.items() if count > 1}
    # What was lost is at stake in later faults as well: each job counts in its first one.
    counted = set()
    tell(
        "cluster: fault    fleets       full coverage    s"
        + "".join(f"{word:>13}" for word in REFUSED)
        + "  others go on  not copied  at stake  lost"
    )
    for fault in faults:
        stake = fault.at_stake(acknowledged) - counted
        counted |= stake
        tell(
            f"       {fault.kind:>9}    {'+'.join(fault.tags):<13}{fault.coverage:<13}{fault.seconds:5.1f}"
            + "".join(f"{fault.refused[word]:>13}" for word in REFUSED)
            + f"{min(fault.others.values(), default='-'):>14}"
            + f"{fault.not_copied:>12}{len(stake):>10}{len(all_lost & stake):>6}"
        )
    renounced = set().union(*(holders[tag].held_by_others_than(living[tag]) for tag in TAGS))
    repeatable = set().union(*(fault.copied for fault in faults)) | renounced
    for tag in TAGS:
        plain, confirmed, own = scene.plain[tag], scene.confirmed[tag], acknowledged[tag].keys()
        tell(
            f"cluster: {{{tag}}} plain pushes acknowledged {len(plain.sure)}, lost {len(lost[tag])} of "
            f"{len(at_stake & own)} at stake (errors {plain.unsure}); with wait_replicas=1 acknowledged "
            f"{len(confirmed.sure)}, lost {len(lost_confirmed[tag])} (errors {confirmed.unsure}); more than once "
            f"{len(twice & own)}, of them not explained {len(twice & own - repeatable)}"
        )
    tell(f"cluster: performed {len(performed)}, left in flight {len(in_flight)}")
    assert left == {}
    assert in_flight == []
    assert elsewhere == []
    assert all(fault.not_copied > 0 for fault in faults if fault.kind == "killed")
    assert any(confirmed.unsure for confirmed in scene.confirmed.values())
    assert not any(lost_confirmed.values())
    assert all_lost <= at_stake
    assert twice <= repeatable
    assert all(min(fault.others.values()) > 0 for fault in faults if fault.kind == "killed")
    assert {tag: [int(name.split(":")[-3]) for name in living[tag]] for tag in TAGS} == {
        tag: [scene.workers[tag].pid] for tag in TAGS
    }
    assert unasked_tracebacks(outputs) == 0, outputs
    assert codes == [0] * len(TAGS)


def keys_elsewhere(cluster):
    """What lies on primaries that do not own its slot."""
    ports = {tag: cluster.owner(tag).port for tag in TAGS}
    found = []
    for server in cluster.primaries():
        with server.client() as raw:
            names = [name.decode() for name in raw.keys("*")]
        found += [name for name in names if ports[name[1:].partition("}")[0]] != server.port]
    return found


JOBS = sized(full=50_000, sample=2_000)
"""Of each fleet."""
ROUNDS = sized(full=5, sample=1)
BESIDE = (1, 2, 4)
"""Fleets at once; the first two are on two primaries, the four on three."""


def test_the_throughput_of_fleets_side_by_side(fleet, tmp_path, tell):
    path = fleet.marks.folder / "counts"
    path.write_bytes(bytes(JOBS * len(TAGS)))
    with path.open("r+b") as file:
        counts = mmap.mmap(file.fileno(), 0)
    rates, capacities = ({beside: [] for beside in BESIDE} for _ in range(2))
    with Cluster(tmp_path / "cluster") as cluster, clients(cluster) as raws:
        start_workers(cluster, fleet, "-c", "5", recover_after_s=30)
        for beside in BESIDE * ROUNDS:
            counts[:] = bytes(len(counts))
            for number, tag in enumerate(TAGS[:beside]):
                client = Client(cluster.url, namespace=f"{{{tag}}}")
                client.push_bulk(
                    {
                        "class": "Count",
                        "queue": "later",
                        "args": [[number * JOBS + each] for each in range(JOBS)],
                    }
                )
                client.close()
            before = {server: cpu_s(server) for server in cluster.primaries()}
            began = time.monotonic()
            for tag in TAGS[:beside]:
                raws[tag].rename(KEYS[tag].queue("later"), KEYS[tag].queue("default"))
            wait_until(
                lambda beside=beside: counts[:].count(1) == JOBS * beside,
                120,
                "all jobs performed once",
            )
            rates[beside].append(JOBS * beside / (time.monotonic() - began))
            busiest = max(cpu_s(server) - used for server, used in before.items())
            capacities[beside].append(JOBS * beside / busiest)
        assert fleet.stop() == [0] * len(TAGS)
    tell("cluster: fleets  jobs/s   ratio  jobs a CPU second of the busiest primary   ratio")
    for beside in BESIDE:
        rate, capacity = median(rates[beside]), median(capacities[beside])
        tell(
            f"{beside:>15}{rate:>8,.0f}{rate / median(rates[1]):>8.2f}"
            f"{capacity:>43,.0f}{capacity / median(capacities[1]):>8.2f}"
        )
    assert min(map(min, capacities.values())) > 0


def cpu_s(server):
    with server.client() as raw:
        used = raw.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]
