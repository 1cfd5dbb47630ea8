"""Steps of a chain, and the jobs of a group, as they wait in Redis until their turn: plain JSON.

A chain of `fetch`, a group of two `resize` and `publish`, whose first step has been pushed, is in the attribute
`flow` of that job under `next`:

    {"id":"c0ffee…","n":2,"steps":[
        {"group":[[{"job":{"class":"resize",…}}],[{"job":{"class":"resize",…}}]],"bid":"f3c1…"},
        {"job":{"class":"publish",…}}]}

`n` is the number of the first step that is left: it is begun once, however many workers ask (parts/effect_guard.lua). A step with
`pass` gets the value of the job before it as its first argument. In a group each member is a list of steps. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NotRequired, TypedDict

from kiqbridge.errors import PayloadError
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import FLOW, check_json

KEEP_OPEN_S: Final = 180 * 86_400
"""Seconds that a batch is kept after its last change, as long as the dead set keeps its jobs."""

KEEP_DONE_S: Final = 30 * 86_400
"""Seconds that a batch is kept after its success."""

KEEP_CHAIN_DONE_S: Final = 86_400
"""The same of a chain that was enqueued alone."""

MOST_OUTLINE: Final = 500
"""Steps of a chain or a group that are kept by name, for who looks at it."""

MOST_OUTLINE_BYTES: Final = 60_000
"""Of all that is kept of them, if more are added later."""

MOST_LABEL: Final = 80
"""Characters of the name of such a step."""

MOST_STEPS: Final = 1_000
"""Jobs of a chain or of a group."""

MARKS: Final = "marks"
"""Where the attribute `flow` of a step's own job stands, since the text of a job shall have one attribute `flow`."""

MOST_BYTES: Final = 90_000
"""Bytes of the steps that a job carries: an operator's action reads up to 100,000 of a long text."""

CALLBACK_OF: Final = "flow_callback"
"""Attribute of a callback: `{"bid":…,"event":"success"}`."""


class Step(TypedDict):
    """One step: a job or a group."""

    job: NotRequired[dict[str, Any]]
    """Payload of the job, complete but for the times that are set when it is pushed."""
    at: NotRequired[float]
    """When it runs at the earliest, epoch seconds."""
    takes_value: NotRequired[bool]
    """Whether it gets the value of the job before it, where its chain passes values; by default it does, in a group not."""
    passes: NotRequired[bool]
    """Of the first step of a chain in a group: whether that chain passes values."""
    group: NotRequired[list[list[Any]]]
    """Members of a group, each a list of steps."""
    bid: NotRequired[str]
    """Id of the batch of a group."""
    description: NotRequired[str]
    """Description of a group, for people."""
    results: NotRequired[bool]
    """The job behind the group gets what its jobs have returned."""


Launch = TypedDict(
    "Launch",
    {
        "id": str,
        "n": int,
        "steps": list[Step],
        "bid": NotRequired[str],
        "pass": NotRequired[bool],
        "place": NotRequired[int],
        "results": NotRequired[tuple[str, int]],
    },
)
"""Steps that are to be begun: id of the chain, number of the first step, the batch that they count for, and
whether the first step gets the value of the job before it. `place`: what the last job returns is kept under this number
for the job behind its group. `results`: the first step gets what the jobs of this group have returned, so many."""

MOST_RESULTS: Final = 262_144
"""Bytes of what all jobs of a group have returned, as JSON, for the job behind it: as many as of one value."""


def launch_of(value: object) -> Launch | None:
    """Steps as they were read; None: this is none."""
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return None
    if not isinstance(value.get("n"), int) or not isinstance(value.get("bid", ""), str):
        return None
    return value if are_steps(value.get("steps")) else None  # type: ignore[return-value] # checked here


def are_steps(value: object) -> bool:
    """Whether this is a list of at least one step."""
    return isinstance(value, list) and bool(value) and all(map(_is_step, value))


def _is_step(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    if "group" in value:
        members = value["group"]
        return (
            isinstance(value.get("bid"), str)
            and isinstance(members, list)
            and all(map(are_steps, members))
        )
    job = value.get("job")
    return isinstance(job, dict) and isinstance(job.get("jid"), str)


def member_of(step: Step) -> str:
    """The name under which a step counts in a batch."""
    return f"b:{step['bid']}" if "group" in step else step["job"]["jid"]


def after(launch: Launch) -> Launch | None:
    """What is left behind the first step."""
    rest = launch["steps"][1:]
    if not rest:
        return None
    left: Launch = {"id": launch["id"], "n": launch["n"] + 1, "steps": rest}
    if "bid" in launch:
        left["bid"] = launch["bid"]
    if launch.get("pass") is not None:
        left["pass"] = launch["pass"]
    if "place" in launch:
        left["place"] = launch["place"]
    return left


def label_of(step: Step) -> str:
    """What people know a step by: its class, or what is said of the group."""
    if "group" in step:
        return step.get("description") or f"group of {len(step['group'])}"
    return str(step["job"].get("class", ""))


def outline_of(lanes: Sequence[Sequence[Step]]) -> list[list[tuple[str, str]]]:
    """Names and labels of steps, for who looks at a chain or a group; empty if they are very many."""
    if sum(map(len, lanes)) > MOST_OUTLINE:
        return []
    return [[(member_of(step), label_of(step)[:MOST_LABEL]) for step in lane] for lane in lanes]


def passes_value(flow: Mapping[str, Any]) -> bool:
    """Whether the value of a job with this attribute `flow` goes to the next one."""
    following = flow.get("next")
    if not isinstance(following, dict) or not following.get("pass"):
        return False
    steps: Any = following.get("steps")
    return are_steps(steps) and takes_value(steps[0])


def takes_value(step: Step) -> bool:
    """Whether a step whose chain passes values gets that of the job before it, itself or a member of the group."""
    if "group" not in step:
        return step.get("takes_value", True)
    firsts = [member[0] for member in step["group"]]
    return any(takes_value(each) if "group" in each else each.get("takes_value") for each in firsts)


def gives_result(flow: Mapping[str, Any]) -> bool:
    """Whether the value of a job with this attribute `flow` is kept for the job behind its group."""
    return isinstance(flow.get("place"), int)


def results_of(launch: Launch) -> tuple[str, int] | None:
    """The group whose results the first step gets, and how many they are; None: it gets none."""
    match launch.get("results"):
        case [str(bid), int(count)] if 0 < count <= MOST_STEPS:
            return bid, count
    return None


def check_steps(steps: Sequence[Step]) -> None:
    """Refuse steps that a job cannot carry.

    Raises:
        PayloadError: they have no JSON text, or too long a one.
    """
    check_json(list(steps), FLOW)
    size = len(json_text.dumps(list(steps)))
    if size > MOST_BYTES:
        raise PayloadError(
            f"chain: the steps behind the first one have {size:,} bytes as JSON, more than the {MOST_BYTES:,} "
            "that a job carries; give jobs ids in place of data, or let a job begin the rest"
        )


def batch_of(payload: Mapping[str, Any]) -> str | None:
    """The batch that the job counts for; None: there is none."""
    flow = payload.get(FLOW)
    bid = flow.get("bid") if isinstance(flow, dict) else None
    return bid if isinstance(bid, str) else None
