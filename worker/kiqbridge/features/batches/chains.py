"""Chains, whose jobs run one after the other, and groups, whose jobs run side by side.

    chain(call(fetch, 7), group(call(resize, 7, "small"), call(resize, 7, "large")), call(publish, 7)).perform_async()

`publish` is pushed once, when both are done. All ids are drawn when it is enqueued, and the next step is pushed by
the script that counts the end of the step before it: it is pushed once, also when workers are killed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.client.job_handle import JobHandle
from kiqbridge.client.middleware import COLLECTOR, Collector
from kiqbridge.errors import PayloadError
from kiqbridge.features.batches.calls import Call, call
from kiqbridge.features.batches.handle import FlowHandle
from kiqbridge.features.batches.ops import StepWriter, chain_ops, guarded, write_ops
from kiqbridge.features.batches.steps import MOST_STEPS, Launch, Step, check_steps
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.payload import ENCRYPTED, new_jid

MOST_DEPTH: Final = 10


class Flow:
    """Jobs that depend on each other: a chain or a group.

    The same one may be enqueued several times.

    Attributes:
        passes_value: whether each job gets what the one before it has returned.
    """

    passes_value = False

    def steps(
        self, client: Client, depth: int = 0, *, gets_value: bool = False
    ) -> list[Step] | None:
        """As they are kept in Redis, with ids drawn; None: client middleware stopped one of its jobs."""
        raise NotImplementedError

    def perform_async(self, *, client: Client | None = None) -> FlowHandle | JobHandle | None:
        """Enqueue it: the first job, or all of the first group.

        Within a batch it counts for that, and is pushed with it.

        Returns:
            The jid of the first job, or the bid of the first group, which can be asked how far it is, waited for, and
            asked for its result; None: client middleware stopped one of the jobs, and nothing was pushed.

        Raises:
            PayloadError: a job cannot be pushed, or the steps are too many bytes.
            RedisUnavailable: nothing was written, or, of a group of more than 1,000, a part of it.
        """
        chosen = client or default_client()
        steps = self.steps(chosen)
        if not steps:
            return None
        launch = launch_of(self, steps)
        collector = COLLECTOR.get()
        if isinstance(collector, TakesSteps) and collector.takes_from(chosen):
            collector.take_steps(launch)
            return FlowHandle.of(steps, chosen, collector.bid, is_own=False)
        if len(steps) > 1:
            write_ops(chosen, chain_ops(chosen, launch), repr(self))
            return FlowHandle.of(steps, chosen, launch["id"], is_own=True)
        ops = StepWriter(chosen, is_first=True).ops(launch)
        if "group" in steps[0]:  # whose batch is there already if this is repeated
            write_ops(chosen, ops, repr(self))
            return FlowHandle.of(steps, chosen, steps[0]["bid"], is_own=True)
        write_ops(chosen, guarded(chosen.keys, launch, ops), repr(self))
        return chosen.handle(steps[0]["job"]["jid"])


def launch_of(link: "Call | Flow", steps: list[Step]) -> Launch:
    """The beginning of these steps of a link, with an id of its own."""
    if "results" in steps[-1]:
        raise _nothing_behind()
    launch: Launch = {"id": new_jid(), "n": 1, "steps": steps}
    if isinstance(link, Flow) and link.passes_value:
        launch["pass"] = True
    return launch


class TakesSteps(Collector):
    """A batch that is being made.

    Attributes:
        bid: its id.
    """

    bid: str

    def take_steps(self, launch: Launch) -> None:
        """These count for the batch."""
        raise NotImplementedError


class Chain(Flow):
    """Jobs that run one after the other; made by `chain`."""

    def __init__(self, links: Sequence[Call | Flow], *, pass_result: bool) -> None:
        self._links = links
        self.passes_value = pass_result

    def __repr__(self) -> str:
        return f"<chain of {len(self._links)}>"

    def steps(
        self, client: Client, depth: int = 0, *, gets_value: bool = False
    ) -> list[Step] | None:
        """One after the other; see `Flow.steps`."""
        steps: list[Step] = []
        for link in self._links:
            gets = gets_value
            if steps:
                gets = self.passes_value if "job" in steps[-1] else "results" in steps[-1]
            found = steps_of(link, client, depth, gets_value=gets)
            if not found:
                return None
            if steps and "results" in steps[-1] and "job" not in found[0]:
                raise PayloadError(
                    "group: with pass_results the next step must be a job, which gets the results, and not a group"
                )
            steps += found
        check_steps(steps[1:])
        return steps


class Group(Flow):
    """Jobs that run side by side; made by `group`."""

    def __init__(
        self, members: Sequence[Call | Flow], description: str, *, passes_results: bool
    ) -> None:
        self._members = members
        self._description = description
        self._passes_results = passes_results

    def __repr__(self) -> str:
        return f"<group of {len(self._members)}>"

    def steps(
        self, client: Client, depth: int = 0, *, gets_value: bool = False
    ) -> list[Step] | None:
        """One step with all of them; see `Flow.steps`. Those get the value that lack their first argument."""
        if depth >= MOST_DEPTH:
            raise PayloadError(
                f"group: more than {MOST_DEPTH} groups within each other; flatten them"
            )
        members: list[list[Any]] = []
        for member in self._members:
            gets = gets_value and (isinstance(member, Flow) or member.needs_value)
            found = steps_of(member, client, depth + 1, gets_value=gets)
            if not found:
                return None
            if isinstance(member, Chain):
                found[0]["passes"] = member.passes_value
            if self._passes_results:
                _check_result(found[-1])
            elif "results" in found[-1]:
                raise _nothing_behind()
            members.append(found)
        step: Step = {"group": members, "bid": new_jid(), "description": self._description}
        if self._passes_results:
            step["results"] = True
        return [step]


def _check_result(step: Step) -> None:
    """Refuse a member of a group whose result cannot go to the job behind the group."""
    if "job" not in step:
        raise PayloadError(
            "group: with pass_results each member ends with a job; a group has no result of its own"
        )
    if ENCRYPTED in step["job"]:
        raise PayloadError(
            f"group: {shorten(step['job']['class'])} has encrypted arguments, so that what it returns is no part of "
            "another job; let the job behind the group read it elsewhere, or leave out pass_results"
        )


def _nothing_behind() -> PayloadError:
    return PayloadError(
        "group: with pass_results a job stands behind it, which gets the results; give then=, or leave it out"
    )


def chain(*links: Any, pass_result: bool = False) -> Chain:
    """Jobs that run one after the other: each is pushed when the one before it is done.

    A death ends the chain, until the dead job is retried by an operator and done. A failure that is retried does
    not. A job that was deleted, skipped or cancelled ends it for good.

    Args:
        links: calls, declared jobs without arguments, groups, other chains.
        pass_result: each job gets the result of the one before it as its first argument, as JSON of up to 256 KiB.
            A value that has no JSON text ends the chain, with an error in the log. The step after a group gets no
            argument, unless the group has `pass_results`.

    Raises:
        PayloadError: there is no link, or one that cannot be one.
    """
    if not links:
        raise PayloadError("chain: it has no jobs; give at least one call")
    if any(isinstance(link, Chain) and link.passes_value != pass_result for link in links):
        raise PayloadError(
            "chain: pass_result differs from that of a chain within; give both the same"
        )
    return Chain(list(_links(links, "chain")), pass_result=pass_result)


def group(
    *members: Any, then: Any = None, pass_results: bool = False, description: str = ""
) -> Group | Chain:
    """Jobs that run side by side: a batch of its own, whose success begins the next step.

    Args:
        members: calls, declared jobs without arguments, chains, other groups.
        then: what is pushed once, when all of them are done.
        pass_results: the job behind the group gets what its members have returned as its first argument: a list in
            their order, by way of JSON, of a chain what its last job has returned. All together have up to 256 KiB; if
            they have more, or one has no JSON text, that job is not begun, and the batch says why (`refused`).
        description: for people.

    Raises:
        PayloadError: one of them cannot be one.
    """
    made = Group(list(_links(members, "group")), description, passes_results=pass_results)
    return made if then is None else chain(made, then)


def steps_of(
    link: Call | Flow, client: Client, depth: int = 0, *, gets_value: bool = False
) -> list[Step] | None:
    """The steps of one link; None: client middleware stopped one of its jobs.

    Raises:
        PayloadError: as `Client.push`.
    """
    if isinstance(link, Flow):
        return link.steps(client, depth, gets_value=gets_value)
    step = link.step(client, gets_value=gets_value)
    return None if step is None else [step]


def as_link(value: object, field: str) -> Call | Flow:
    """A call or a flow; a declared job stands for a call without arguments.

    Raises:
        PayloadError: it can be neither.
    """
    if isinstance(value, Call | Flow):
        return value
    if isinstance(value, str | bytes) or not callable(getattr(value, "perform_async", None)):
        raise PayloadError(
            f"{field}: {shorten(value)} is neither a job nor a call; write call(job, …)"
        )
    declared: Any = value
    return call(declared)


def _links(values: Sequence[Any], field: str) -> Iterator[Call | Flow]:
    if len(values) > MOST_STEPS:
        raise PayloadError(
            f"{field}: {len(values):,} jobs are more than {MOST_STEPS:,}; use a Batch, or let jobs add more"
        )
    for value in values:
        yield as_link(value, field)
