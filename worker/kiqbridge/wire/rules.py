"""Rules of flow control, each for the jobs of one class with the same arguments: what a push asks of them.

A job has one at most, by its declaration or by `set`. Each push of it asks the rule, in the script that writes the job
(store/scripts/parts/push_jobs.lua). The rules themselves are in features. Pure.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from kiqbridge.errors import ConfigError, KiqbridgeError, PayloadError
from kiqbridge.runtime.digests import sha256
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import is_number

By = Sequence[str] | Callable[..., object] | None
"""Which arguments count: names of parameters; a function that is called with the arguments and answers what JSON
can carry; None: all."""

_DIGITS: Final = 32
_text_of: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
"""Not orjson, whose versions write large and small floats differently: names are compared with those of other processes,
and of Ruby (contrib/ruby/kiqbridge.rb)."""


class RuledJob(NamedTuple):
    """A job with a rule that is about to be pushed.

    Attributes:
        payload: of the job.
        name: under which it is one of its kind.
        at: when it is to run, epoch seconds; None = at once.
        later: makes its text as it is put into the schedule.
    """

    payload: Mapping[str, Any]
    name: str
    at: float | None
    later: Callable[[], bytes]


class Rule:
    """What a rule must say.

    Attributes:
        option: of a declaration and of `set`, by which it is given, and its name in the script.
        part: of the script that pushes, `FEATURE.NAME`; it defines `rule_of.OPTION` (parts/rules.lua).
        is_later: its jobs wait in the schedule.
        by: which arguments count.
    """

    __slots__ = ()
    option: ClassVar[str]
    part: ClassVar[str]
    is_later: ClassVar[bool] = False
    by: By

    def keys(self, keys: Keys) -> Sequence[str]:
        """What its part reads and writes."""
        raise NotImplementedError

    def script_args(self, job: RuledJob) -> Sequence[str | bytes | float]:
        """What its part reads of a job.

        Raises:
            PayloadError: the rule does not take such a job.
        """
        raise NotImplementedError

    def stamp(self, payload: dict[str, Any], name: str, *, is_taken: bool) -> None:
        """Note in the payload what a worker needs to know; `is_taken`: its push asks the rule."""

    def refusal(self, job_class: str, jid: str, places: Mapping[int, str]) -> KiqbridgeError:
        """The error for jobs that its part refuses: class and answer of the first, and the answers by place."""
        raise NotImplementedError

    def check(self, signature: inspect.Signature) -> None:
        """Refuse names in `by` that are no parameters of the job.

        Raises:
            ConfigError: names the first one.
        """
        if self.by is None or callable(self.by):
            return
        if isinstance(self.by, str) or not self.by:
            raise ConfigError(
                f'by {self.by!r} is not a list of names of parameters, such as by=("user_id",), or a function'
            )
        for name in self.by:
            if name not in signature.parameters:
                known = ", ".join(signature.parameters) or "none"
                raise ConfigError(f"by {name!r} is not a parameter of it; it has: {known}")

    def name_of(self, payload: Mapping[str, Any], signature: inspect.Signature | None) -> str:
        """The name under which a job is one of its kind; `signature`: of a job that is declared here.

        Raises:
            PayloadError: `by` raised an error, or answered what JSON cannot carry; or it has names, and the job is not
                declared here.
        """
        job_class, args = payload["class"], payload["args"]
        try:
            return flow_name(job_class, self._chosen(args, signature))
        except PayloadError:
            raise
        except Exception as error:
            raise PayloadError(
                f"by: of job {job_class} with {shorten(args)}: {type(error).__name__}: {error}; it is called with "
                "the arguments, and answers what JSON can carry"
            ) from error

    def _chosen(self, args: list[Any], signature: inspect.Signature | None) -> object:
        if self.by is None:
            return args
        if callable(self.by):
            return self.by(*args)
        if signature is None:
            raise PayloadError(f"by: {', '.join(self.by)}: names need a job that is declared here")
        bound = signature.bind(*args)
        bound.apply_defaults()
        return [bound.arguments[name] for name in self.by]


def rule_among(options: Mapping[str, Any]) -> Rule | None:
    """The rule that these of `options.FLOW_OPTIONS` give, in a declaration or in `set`; None: none.

    Raises:
        ConfigError: the value of one is of another kind, or there are two.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, Rule) or value.option != name:
            raise ConfigError(f"{name}: {shorten(value)} is not a kiqbridge.flow.{name.title()}(…)")
    if len(given) > 1:
        raise ConfigError(
            f"{' and '.join(sorted(given))}: a job can have one of them; leave the other out"
        )
    return next(iter(given.values()), None)


def flow_name(job_class: str, chosen: object) -> str:
    """The name for jobs of one class with the same chosen arguments: the same in every process.

    Args:
        job_class: as on the wire.
        chosen: what JSON can carry; dicts are the same whatever the order of their keys.

    Raises:
        TypeError, ValueError: it has no JSON text.
    """
    text = _text_of(chosen).encode()
    return f"{job_class}:{sha256(text).hexdigest()[:_DIGITS]}"


def check_choice(what: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse what is none of the allowed words.

    Raises:
        ConfigError: names them.
    """
    if value not in allowed:
        raise ConfigError(f"{what} {shorten(value)} is not one of {', '.join(allowed)}")


def check_seconds(what: str, value: object) -> None:
    """Refuse what is no number of seconds.

    Raises:
        ConfigError: it is none, or not above 0, or without end.
    """
    if not is_number(value) or value <= 0:
        raise ConfigError(f"{what} {shorten(value)} is not a number of seconds above 0")
