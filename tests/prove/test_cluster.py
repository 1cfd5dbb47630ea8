"""A cluster under load: the slot of a fleet moves, its primary changes or dies; workers are not restarted.

What is lost is at most what the primary that died had not copied; moves and planned failovers lose nothing.
Fleets on other primaries go on meanwhile.
"""

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from support.clusters import Cluster
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

from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.redis_server

TAG = "a"
KEYS = Keys("{a}")
FAULTS = ("moved", "planned", "killed") * sized(full=4, sample=1)
WORKERS = 2
RECOVER_AFTER_S = sized(full=30.0, sample=8.0)
LAG_S = sized(full=2.0, sample=0.6)
"""How long nothing is replicated before the primary is killed: what is written meanwhile is at stake."""
PER_SECOND = sized(full=100, sample=60)
BETWEEN_S = sized(full=5.0, sample=1.0)
REFUSED = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")


@dataclass(slots=True, kw_only=True)
class Fault:
    """What one fault did.

    Attributes:
        kind: which.
        copied: jids on the new primary when the old one died; empty for the others, which lose nothing.
        kept: those, and what was performed before.
        not_copied: bytes that were lost with the old primary.
        died_at: when that took its last write (`time.monotonic`).
        refused: how often servers refused, by the word of the error; without what the dead one counted.
        seconds: from the beginning of the fault until 20 more jobs had begun after it.
    """

    kind: str
    copied: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    not_copied: int = 0
    died_at: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def at_stake(self, acknowledged):
        """Begun before the primary died, and neither copied nor performed."""
        if not self.died_at:
            return set()
        return {
            jid
            for jid, began in acknowledged.items()
            if began < self.died_at and jid not in self.kept
        }


def move(cluster, _fleet):
    """Key by key, each stage lasting until clients have met what it answers."""
    target = cluster.other_primary(TAG)
    before = cluster.refusals()

    def met(word):
        wait_until(lambda: cluster.refusals()[word] > before[word], 30, f"a call that gets {word}")

    source = cluster.begin_move(TAG, target)
    met("TRYAGAIN")
    cluster.move_keys(TAG, source, target)
    met("ASK")
    cluster.end_move(TAG, target)
    met("MOVED")
    return Fault(kind="moved", refused=cluster.refusals() - before)


def fail_over(cluster, _fleet):
    before = cluster.refusals()
    cluster.fail_over(TAG)
    return Fault(kind="planned", refused=cluster.refusals() - before)


def kill(cluster, fleet):
    """SIGKILL of the primary while its replica is behind; it comes back as a replica."""
    owner = cluster.owner(TAG)
    replica = cluster.replica_of(owner)
    performed = set(fleet.marks.look().count("performed"))
    with cluster.cut_off(replica) as reader, owner.client() as primary:
        hold(LAG_S)
        copied = set(jids_in(reader, KEYS))
        reached = reader.info("replication")["slave_repl_offset"]
        written = primary.info("replication")["master_repl_offset"]
        before = cluster.refusals()
        of_the_dead = Counter(
            {
                name.removeprefix("errorstat_"): each["count"]
                for name, each in primary.info("errorstats").items()
            }
        )
        owner.kill()
        died_at = time.monotonic()
        cluster.wait_new_owner(TAG, owner)
    refused = cluster.refusals() - (before - of_the_dead)
    owner.start()
    cluster.replica_of(replica)
    return Fault(
        kind="killed",
        copied=copied,
        kept=copied | performed,
        not_copied=written - reached,
        died_at=died_at,
        refused=refused,
    )


CAUSES = {"moved": move, "planned": fail_over, "killed": kill}


def test_a_fleet_loses_only_what_was_not_copied_while_its_slot_and_its_primary_change(
    fleet, tmp_path, tell
):
    faults = []
    holders = Holders(KEYS)
    with Cluster(tmp_path / "cluster") as cluster, Pushers() as pushers:
        workers = [
            fleet.start(
                *("-c", "4"),
                recover_after_s=RECOVER_AFTER_S,
                url=cluster.url,
                env={"KIQBRIDGE_NAMESPACE": "{a}"},
            )
            for _ in range(WORKERS)
        ]
        with cluster.owner(TAG).client() as raw:
            for worker in workers:
                worker.wait_for(
                    lambda pid=worker.pid: incarnations(raw, pid, KEYS), what="its lease"
                )
        plain, confirmed = (
            pushers.start(
                cluster.url, any_job, per_second=rate, wait_replicas=replicas, namespace="{a}"
            )
            for rate, replicas in ((PER_SECOND, 0), (PER_SECOND / 2, 1))
        )

        hold(BETWEEN_S)
        for kind in FAULTS:
            began = time.monotonic()
            fault = CAUSES[kind](cluster, fleet)
            begun = len(fleet.marks.look().lines["begun"])
            wait_until(
                lambda begun=begun: len(fleet.marks.look().lines["begun"]) > begun + 20,
                60,
                f"jobs once {kind}",
            )
            fault.seconds = time.monotonic() - began
            faults.append(fault)
            with cluster.owner(TAG).client() as raw:
                hold(BETWEEN_S, lambda raw=raw: holders.look(raw))
        pushers.stop()

        with cluster.owner(TAG).client() as raw:

            def nothing_left():
                holders.look(raw)
                hurry_retries(raw, KEYS)
                # In this order: a lease that ends puts jobs back, and a job goes from left to right.
                return (
                    len(incarnations(raw, keys=KEYS)) == WORKERS
                    and not left_over(raw, KEYS)
                    and not lists_in_flight(raw, KEYS)
                )

            wait_until(
                nothing_left,
                3 * RECOVER_AFTER_S + 30,
                lambda: (
                    f"{left_over(raw, KEYS)}, {lists_in_flight(raw, KEYS)}, {incarnations(raw, keys=KEYS)}"
                ),
                interval_s=0.1,
            )
            leases = incarnations(raw, keys=KEYS)
            codes = fleet.stop()
            left = {**left_over(raw, KEYS), **lists_in_flight(raw, KEYS)}
            in_flight = [*raw.scan_iter(f"{KEYS.inflight}*", count=1000)]
        elsewhere = keys_of_others(cluster)
    outputs = "".join(worker.output for worker in workers)

    performed = fleet.marks.look().count("performed")
    acknowledged = {**plain.sure, **confirmed.sure}
    at_stake = set().union(*(fault.at_stake(acknowledged) for fault in faults))
    lost = plain.sure.keys() - performed.keys()
    lost_confirmed = confirmed.sure.keys() - performed.keys()
    twice = {jid for jid, count in performed.items() if count > 1}
    counted = (
        set()
    )  # what was lost is at stake in later faults as well: each job counts in its first one
    tell("cluster: fault    s  " + "".join(f"{word:>13}" for word in REFUSED) + "  not copied  at stake  lost")  # fmt: skip
    for fault in faults:
        stake = fault.at_stake(acknowledged) - counted
        counted |= stake
        tell(
            f"         {fault.kind:<8}{fault.seconds:4.1f}"
            + "".join(f"{fault.refused[word]:>13}" for word in REFUSED)
            + f"{fault.not_copied:>12}{len(stake):>10}{len(lost & stake):>6}"
        )
    repeatable = set().union(*(fault.copied for fault in faults))
    renounced = holders.held_by_others_than(leases)
    tell(
        f"cluster: plain pushes acknowledged {len(plain.sure)}, lost {len(lost)} of {len(at_stake)} at stake "
        f"(errors {plain.unsure}); with wait_replicas=1 acknowledged {len(confirmed.sure)}, lost "
        f"{len(lost_confirmed)} (errors {confirmed.unsure}); performed {len(performed)}, more than once "
        f"{len(twice)}, of them not explained {len(twice - repeatable - renounced)}; left in flight {len(in_flight)}"
    )
    assert left == {}
    assert in_flight == []
    assert elsewhere == []
    assert all(fault.not_copied > 0 for fault in faults if fault.kind == "killed")
    assert confirmed.unsure
    assert lost_confirmed == set()
    assert lost <= at_stake
    assert twice <= repeatable | renounced
    assert {int(name.split(":")[-3]) for name in leases} == {worker.pid for worker in workers}
    assert unasked_tracebacks(outputs) == 0, outputs
    assert codes == [0] * WORKERS


def keys_of_others(cluster):
    """What lies on primaries that do not own the slot."""
    owner = cluster.owner(TAG)
    found = []
    for server in cluster.living():
        with server.client() as raw:
            if server is not owner and raw.info("replication")["role"] == "master":
                found += raw.keys("*")
    return found


FLEETS = ("a", "b", "c")
ROUNDS = sized(full=("no", "yes") * 3, sample=("no", "yes"))
"""`cluster-require-full-coverage` of each round: whether all nodes refuse while slots have no owner."""
PER_SECOND_OF_EACH = 40


def test_the_failover_of_one_fleet_does_not_stop_those_on_other_primaries(fleet, tmp_path, tell):
    rows = []
    with Cluster(tmp_path / "cluster") as cluster, Pushers() as pushers, ExitStack() as stack:
        owners = {tag: cluster.owner(tag) for tag in FLEETS}
        assert len({server.port for server in owners.values()}) == len(FLEETS)
        workers = {
            tag: fleet.start(
                *("-c", "2"),
                recover_after_s=30,
                url=cluster.url,
                env={"KIQBRIDGE_NAMESPACE": f"{{{tag}}}", "KIQBRIDGE_SETTLE_REPLICAS": "1"},
            )
            for tag in FLEETS
        }
        raws = {tag: stack.enter_context(owners[tag].client()) for tag in FLEETS}
        for tag, worker in workers.items():
            worker.wait_for(
                lambda tag=tag, pid=worker.pid: incarnations(raws[tag], pid, Keys(f"{{{tag}}}")),
                what="its lease",
            )
        by_tag = {
            tag: pushers.start(
                cluster.url,
                any_job,
                per_second=PER_SECOND_OF_EACH,
                wait_replicas=1 if tag == "a" else 0,
                namespace=f"{{{tag}}}",
            )
            for tag in FLEETS
        }

        def performed_of(pid):
            marks = fleet.marks.look()
            return [
                at
                for (_, by), at in zip(
                    marks.lines["performed"], marks.times["performed"], strict=True
                )
                if by == pid
            ]

        def all_perform():
            begun = {tag: len(performed_of(worker.pid)) for tag, worker in workers.items()}
            wait_until(
                lambda: all(
                    len(performed_of(worker.pid)) > begun[tag] + 20
                    for tag, worker in workers.items()
                ),
                60,
                "jobs of all fleets",
            )

        for coverage in ROUNDS:
            for server in cluster.living():
                with server.client() as raw:
                    raw.config_set("cluster-require-full-coverage", coverage)
            all_perform()
            before, errors = cluster.refusals(), {tag: dict(by_tag[tag].unsure) for tag in "bc"}
            owner = cluster.owner("a")
            cluster.replica_of(owner)
            with owner.client() as raw:
                of_the_dead = raw.info("errorstats").get("errorstat_CLUSTERDOWN", {"count": 0})
            owner.kill()
            died_at = time.monotonic()
            successor = cluster.wait_new_owner("a", owner)
            followed_at = time.monotonic()
            refused = cluster.refusals()["CLUSTERDOWN"] - before["CLUSTERDOWN"] + of_the_dead["count"]  # fmt: skip
            meanwhile = {
                tag: sum(died_at < at < followed_at for at in performed_of(workers[tag].pid))
                for tag in FLEETS
            }
            failed = {tag: by_tag[tag].unsure != errors[tag] for tag in "bc"}
            rows.append((coverage, followed_at - died_at, meanwhile, refused, failed))
            owner.start()
            cluster.replica_of(successor)
        all_perform()
        pushers.stop()

        left, in_flight = {}, []
        for tag in FLEETS:
            keys = Keys(f"{{{tag}}}")
            with cluster.owner(tag).client() as raw:

                def nothing_left(raw=raw, keys=keys):
                    hurry_retries(raw, keys)
                    return not left_over(raw, keys) and not lists_in_flight(raw, keys)

                wait_until(nothing_left, 120, f"the last jobs of {tag}", interval_s=0.1)
        codes = fleet.stop()
        for tag in FLEETS:
            keys = Keys(f"{{{tag}}}")
            with cluster.owner(tag).client() as raw:
                left |= {f"{tag} {name}": count for name, count in left_over(raw, keys).items()}
                in_flight += raw.scan_iter(f"{keys.inflight}*", count=1000)

    performed = fleet.marks.look().count("performed")
    lost = {tag: len(by_tag[tag].sure.keys() - performed.keys()) for tag in FLEETS}
    twice = {
        tag: sum(performed[jid] > 1 for jid in by_tag[tag].sure.keys() & performed.keys())
        for tag in FLEETS
    }
    tell("cluster of three fleets, the primary of {a} killed: performed until its replica follows")
    tell("   full coverage       s      {a}     {b}     {c}  CLUSTERDOWN")
    for coverage, seconds, meanwhile, refused, _ in rows:
        counts = "".join(f"{meanwhile[tag]:>8}" for tag in FLEETS)
        tell(f"{coverage:>16}{seconds:8.1f}{counts}{refused:>13}")
    tell(
        "cluster of three fleets: acknowledged "
        + ", ".join(f"{{{tag}}} {len(by_tag[tag].sure)}" for tag in FLEETS)
        + f"; lost {lost}, twice {twice}, errors { {tag: by_tag[tag].unsure for tag in FLEETS} }"
    )
    for coverage, _, meanwhile, refused, failed in rows:
        assert min(meanwhile["b"], meanwhile["c"]) > 0
        if coverage == "no":
            assert refused == 0
            assert not any(failed.values())
    assert lost == dict.fromkeys(FLEETS, 0)
    assert (twice["b"], twice["c"]) == (0, 0)
    assert left == {}
    assert in_flight == []
    assert codes == [0] * len(FLEETS)
