"""From an item to a payload that may be written (protocol §5.1 to §5.4).

1. `validate` refuses what cannot be a job, `normalize` fills in what is missing:
   `{"class": "Nop", "args": [1]}` becomes `{"retry": true, "queue": "default", "class": "Nop", "args": [1],
   "jid": "5d0a54ab1f7a4bd7c5a3a0f1", "created_at": 1768208460.5}`.
2. Client middleware may change the payload, or stop the push.
3. Arguments that are declared so are encrypted (sealing.py).
4. `check_payload` refuses values that JSON cannot carry exactly.

Nothing is written here, and all that is wrong with an item is refused here: before Redis.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kiqbridge.client import rails
from kiqbridge.client.middleware import Chain, ClientMiddleware
from kiqbridge.client.registry import default_registry, definition_of
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import active_job, json_text
from kiqbridge.wire.expiry import EXPIRES_IN, set_expiry
from kiqbridge.wire.options import FLOW_OPTIONS
from kiqbridge.wire.payload import (
    DEFAULT_OPTIONS,
    Profile,
    check_payload,
    check_queue,
    is_plain,
    new_jid,
    normalize,
    timestamp,
    validate,
)
from kiqbridge.wire.raw_job import check_size

if TYPE_CHECKING:
    from kiqbridge.wire.rules import Rule


@dataclass(slots=True)
class PreparedJob:
    """A checked payload, without the times that are set when it is written.

    Attributes:
        payload: without `at`; `enqueued_at` is set when it is written.
        at: when to run, epoch seconds; None = at once.
        own_jid: the jid was drawn here, so meeting it in Redis means that an earlier reply was lost.
        profile: how its times are written.
        rule: which of several jobs with the same arguments run; None = all.
        name: under which it is one of them, if it has a rule.
        is_pushed: whether it is in Redis; None = unknown.
    """

    payload: dict[str, Any]
    at: float | None
    own_jid: bool
    profile: Profile
    rule: "Rule | None" = None
    name: str = ""
    is_pushed: bool | None = False

    @property
    def queue(self) -> str:
        """Queue name without prefix."""
        return self.payload["queue"]  # type: ignore[no-any-return] # `prepare` has checked it

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.payload["jid"]  # type: ignore[no-any-return] # as above


def prepare(  # noqa: C901 - one act, in its order
    item: Mapping[str, Any],
    now: float,
    middleware: Chain[ClientMiddleware],
    wire_profile: Callable[[], Profile],
    *,
    trusted: bool = False,
    bulk: bool = False,
    by_rule: bool = False,
    jid: str | None = None,
    checked: bool = False,
) -> PreparedJob | None:
    """Build the payload of one job; None when middleware stopped it.

    Args:
        item: as for `Client.push`.
        now: epoch seconds, for `created_at`.
        middleware: around the push.
        wire_profile: called for an item that is valid; with `auto` it may ask Redis.
        trusted: the item is a payload out of Redis: its values are not checked again, and `active_job`
            is an attribute like others.
        bulk: the job is one of many of one call (Active Job's wrappers differ).
        by_rule: it is pushed by `push_jobs` if it has a rule, so that its push takes its lock.
        jid: that of an item without one, drawn by the caller; None = one is drawn.
        checked: the caller has called `check_payload`, so that plain arguments are not looked at again.

    Raises:
        PayloadError: names the field and shows the value.
    """
    if type(item) is dict and len(item) == 2 and not trusted and not len(middleware):  # noqa: PLR2004 - class, args
        job = prepare_plain(item, now, wire_profile, jid, checked=checked)
        if job is not None:
            return job
    own_jid = jid is not None or not isinstance(item, (dict, Mapping)) or "jid" not in item
    if jid is not None:
        item = {**item, "jid": jid}
    profile: Profile | None = None
    item = by_active_job(item)
    if active_job.is_active_job(item) and not trusted:
        rails_job = rails.parse(item)
        profile = wire_profile()
        item = rails_job.wrap(now, profile, bulk=bulk)
    declared: object = item.get("class") if isinstance(item, Mapping) else None
    definition = definition_of(declared)
    if definition is not None:
        item = {**item, "class": definition.name}
    rule = definition.rule if definition else None
    if not trusted and isinstance(item, (dict, Mapping)) and not FLOW_OPTIONS.isdisjoint(item):
        item, rule = _chosen_rule(item, rule, is_declared=definition is not None)
    item = validate(item)
    profile = profile or wire_profile()
    defaults = definition.options if definition else DEFAULT_OPTIONS
    payload = normalize(item, defaults, now, profile)
    if len(middleware):
        stopped_or_payload = middleware.invoke(
            (declared, payload, payload["queue"]), lambda: payload
        )
        if not stopped_or_payload:
            return None
        payload = dict(validate(stopped_or_payload))
        check_queue(payload.get("queue"))
    at = payload.pop("at", None)
    if trusted:
        return PreparedJob(payload=payload, at=at, own_jid=own_jid, profile=profile)
    if EXPIRES_IN in payload:
        set_expiry(payload, now if at is None else at)
    plain, performed = payload, default_registry.find(payload["class"])
    if performed is not None and performed.encrypted:
        from kiqbridge.client.sealing import sealing  # noqa: PLC0415 - for few

        payload = sealing().encrypt(plain, performed.encrypted)
    check_payload(payload)
    job = PreparedJob(payload=payload, at=at, own_jid=own_jid, profile=profile, rule=rule)
    if rule is not None:
        job.name = rule.name_of(plain, definition.signature if definition else None)
        rule.stamp(payload, job.name, is_taken=by_rule)
    return job


def by_active_job(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The item; of a declared Active Job with its name as `active_job` in the place of `class`."""
    remote = definition_of(item.get("class")) if isinstance(item, (dict, Mapping)) else None
    if remote is None or not remote.active_job:
        return item
    others = {key: value for key, value in item.items() if key != "class"}
    return {**remote.options, **others, active_job.KEY: remote.name}


def prepare_plain(
    item: dict[str, Any],
    now: float,
    wire_profile: Callable[[], Profile],
    jid: str | None = None,
    *,
    checked: bool = False,
) -> PreparedJob | None:
    """What `prepare` makes of a class and plain arguments, in a third of its time; None: it must look closer."""
    declared, args = item.get("class"), item.get("args")
    if type(args) is not list or not (checked or is_plain(args)):
        return None
    definition = definition_of(declared)
    if definition is not None:
        name, options = definition.name, definition.plain_options
        if options is None:
            return None
    elif type(declared) is str and declared and declared.isascii():
        name, options = declared, DEFAULT_OPTIONS
    else:
        return None
    performed = default_registry.find(name)
    if performed is not None and performed.encrypted:
        return None
    profile = wire_profile()
    payload = {**options, **item}
    payload["class"] = name
    payload["jid"] = jid or new_jid()
    payload["created_at"] = timestamp(now, profile)
    return PreparedJob(payload, None, True, profile)  # by name it takes longer


def _chosen_rule(
    item: Mapping[str, Any], declared: "Rule | None", *, is_declared: bool
) -> "tuple[Mapping[str, Any], Rule | None]":
    """An item without the options that are a rule, and the rule that counts; None in one of them: no rule.

    Raises:
        PayloadError: it has two rules, or a declared job has one of another kind.
    """
    from kiqbridge.wire.rules import Rule, rule_among  # noqa: PLC0415 - few jobs have a rule

    given = {
        name: value
        for name, value in item.items()
        if name in FLOW_OPTIONS and (is_declared or isinstance(value, Rule))
    }
    if not given:  # an attribute of the user's own
        return item, declared
    try:
        rule = rule_among(given)
    except ConfigError as error:
        raise PayloadError(str(error)) from error
    return {name: value for name, value in item.items() if name not in given}, rule


def prepare_moved(
    payload: Mapping[str, Any],
    now: float,
    middleware: Chain[ClientMiddleware],
    profile: Callable[[], Profile],
    original: bytes,
) -> tuple[str, bytes] | None:
    """A payload that is moved out of a set: (queue, text to push), None when middleware stops it (§9.1).

    Raises:
        PayloadError: it cannot be a job.
    """
    # As it is: JSON that is no object must be refused here, not fail as a mapping and keep every
    # other due job waiting.
    job = prepare(payload, now, middleware, profile, trusted=True)
    if job is None:
        return None
    job.payload["enqueued_at"] = timestamp(now, job.profile)
    return job.queue, json_text.dumps_moved(job.payload, original)


def text_of_payload(payload: Mapping[str, Any], max_bytes: int) -> bytes:
    """The payload's JSON text.

    Raises:
        PayloadError: it has none, or more than `max_bytes` bytes (0 = no limit).
    """
    try:
        text = json_text.dumps(payload)
    except (TypeError, ValueError) as error:
        raise no_text(payload, error) from error
    check_size(text, max_bytes)
    return text


def no_text(payload: Mapping[str, Any], error: Exception) -> PayloadError:
    """The error for a payload that JSON has no text for."""
    return PayloadError(f"job: {shorten(payload)} has no JSON text: {error}")
