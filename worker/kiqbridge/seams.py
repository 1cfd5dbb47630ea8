"""What the features bring, for a kernel that asks and knows none of them; `kiqbridge.feature` says what a feature is."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, lru_cache
from os import listdir
from typing import Any, Final, Literal

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.feature import ATTRIBUTES, FOR_OTHERS, WIRED, Chore, Feature, Verb
from kiqbridge.runtime.records import dataclass

logger = logging.getLogger(__name__)

GROUP: Final = "kiqbridge.features"
"""The group of entry points that name features of others, each a `Feature`."""

_CLAIMED: Final = {"options": "option", "gates": "attribute", "puts_off": "error"}
"""Seams at which one name has one feature, and what such a name is."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a feature names at a seam; called, it loads its function and calls it."""

    feature: Feature
    place: str

    def load(self) -> Any:
        """The function."""
        return self.feature.load(self.place)

    def __call__(self, *args: object) -> Any:
        """What it returns."""
        return self.load()(*args)

    def __repr__(self) -> str:
        return f"{self.feature.package} ({self.place})"


@cache
def shipped() -> Sequence[Feature]:
    """The features of this package, by name."""
    from importlib import import_module  # noqa: PLC0415 - a function asks for no feature at its start

    folder = f"{__package__}.features"
    [path] = import_module(folder).__path__
    try:
        found = listdir(path)  # noqa: PTH208 - it is asked for at each start
        names = [name for name in found if name.isidentifier() and not name.startswith("_")]
    except NotADirectoryError:  # in a zip; this looks into each folder
        from pkgutil import iter_modules  # noqa: PLC0415 - as the line above

        names = [each.name for each in iter_modules([path])]
    modules = [import_module(f"{folder}.{name}") for name in sorted(names)]
    # Of one that was taken away, its bytecode may have been left behind.
    return [each.FEATURE for each in modules if each.__file__]


@cache
def named(name: str) -> Feature | None:
    """The feature of this package with that name, without a look at the others; None: it is not here."""
    from importlib import import_module  # noqa: PLC0415 - a function asks for no feature at its start

    package = f"{__package__}.features.{name}"
    try:
        feature: Feature = import_module(package).FEATURE
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return None
    return feature


@cache
def installed() -> Sequence[Feature]:
    """The features that other distributions declare; looked for only when a name is unknown otherwise.

    Raises:
        ConfigError: one of them is no feature, claims what another one has, or names a seam that is not for others.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - it takes 50 ms

    found: list[Feature] = []
    for each in entry_points(group=GROUP):
        try:
            feature = each.load()
        except Exception as error:
            raise ConfigError(
                f"feature {each.name} ({each.value}) cannot be loaded: {error}"
            ) from error
        if not isinstance(feature, Feature):
            raise ConfigError(f"feature {each.name} ({each.value}) is no kiqbridge.feature.Feature")
        alien = [
            each.name
            for each in fields(feature)
            if each.name not in ("package", *FOR_OTHERS) and getattr(feature, each.name)
        ]
        if alien:
            raise ConfigError(
                f"feature {feature.package} names {', '.join(alien)}, which only features of kiqbridge have; yours may name "
                f"{', '.join(FOR_OTHERS)}"
            )
        for seam, what in _CLAIMED.items():
            for name in getattr(feature, seam):
                owner = next((it for it in (*shipped(), *found) if name in getattr(it, seam)), None)
                if owner is not None:
                    raise ConfigError(
                        f"features {owner.package} and {feature.package} both claim the {what} {name}; remove one of them"
                    )
        found.append(feature)
    claims.cache_clear()
    judge_of.cache_clear()
    return found


def loaded() -> Sequence[Feature]:
    """The features of this package, and those of others from the first option on that is none of this package's."""
    return [*shipped(), *(installed() if installed.cache_info().currsize else ())]


@cache
def claims(seam: Literal["begins", "gates", "puts_off"]) -> Mapping[str, Claim]:
    """What features do at a seam whose names are those of errors, attributes or members of `flow`; loaded when it is called."""
    return {
        name: Claim(feature, place)
        for feature in loaded()
        for name, place in getattr(feature, seam).items()
    }


def owner_of(option: str) -> Feature | None:
    """The feature that has this option of a declaration; None: there is none."""
    for found in (shipped, installed):
        for feature in found():
            if option in feature.options:
                return feature
    return None


@cache
def by_name(
    seam: Literal["ends", "values", "pools", "addresses"],
) -> Mapping[str, Callable[..., Any]]:
    """The functions of a seam by the attribute of a payload, member of `flow`, kind of pool or of address that they are for."""
    return {
        name: each.load(place) for each in shipped() for name, place in getattr(each, seam).items()
    }


def required(name: str) -> Feature:
    """The feature of this package with that name.

    Raises:
        ConfigError: it is not here.
    """
    if (feature := named(name)) is None:
        raise ConfigError(f"the feature {name} is not here; reinstall kiqbridge")
    return feature


@cache
def functions(seam: Literal["consequences", "barrier", "open_jobs", "examines"]) -> Sequence[Any]:
    """What features have at a seam that each has once, or not at all."""
    return [each.load(place) for each in shipped() if (place := getattr(each, seam))]


@cache
def missing() -> Mapping[str, str]:
    """Those of `ATTRIBUTES` whose feature was taken away."""
    return {attribute: name for attribute, name in ATTRIBUTES.items() if named(name) is None}


def lacking(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """An attribute of this payload, member or value of one, whose feature was taken away, and that feature's name."""
    for attribute, feature in missing().items():
        name, _, member = attribute.partition(".")
        holder = payload.get(name) if member else payload
        if member == holder or (isinstance(holder, Mapping) and (member or name) in holder):
            return attribute, feature
    return None


def wired(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options of a job, those of `WIRED` in the form in which they go on the wire.

    Raises:
        PayloadError: the value of one cannot be used, or its feature is not here.
    """
    for option in WIRED.keys() & options.keys():
        if (owner := named(WIRED[option])) is None:
            raise PayloadError(
                f"{option}: the feature that has this option is not here; reinstall kiqbridge, or leave the option out"
            )
        options = owner.load(owner.wired[option])(options)
    return options


@cache
def call(name: str, of: str = "") -> Callable[..., Any]:
    """What carries out what the kernel calls so.

    Args:
        name: what it is called.
        of: the feature that has it, if that is known: no other is loaded.

    Raises:
        ConfigError: the feature that does is not here.
    """
    for each in (required(of),) if of else shipped():
        if (place := each.calls.get(name)) is not None:
            function: Callable[..., Any] = each.load(place)
            return function
    raise ConfigError(f"{name}: the feature that has it is not here; reinstall kiqbridge")


def verbs(parent: str = "") -> Iterator[Verb]:
    """The commands of all features, or their verbs of one command, with the names of their modules in this package."""
    for feature in shipped():
        for verb in feature.verbs:
            if verb.parent == parent:
                yield verb._replace(module=f"features.{feature.name}.{verb.module}")


@lru_cache(maxsize=256)  # asked at each failure
def judge_of(error: type) -> tuple[type, Claim] | None:
    """The class of errors that a feature puts off, from which this one is derived, and what the feature does about it."""
    rules = claims("puts_off")
    for kind in error.__mro__:
        if (rule := rules.get(f"{kind.__module__}:{kind.__qualname__}")) is not None:
            return kind, rule
    return None


_Seam = Literal[
    "host", "prepare", "jobs", "worker", "missed", "now", "busy", "history", "pages", "source",
    "schedules",
]  # fmt: skip


def found(seam: _Seam, config: object = None) -> Iterator[Claim]:
    """What features name at a seam.

    Args:
        seam: its name.
        config: the settings of a worker: what it does not want is passed by.
    """
    for feature in loaded():
        if (place := getattr(feature, seam)) and (config is None or feature.is_wanted(config)):
            yield Claim(feature, place)


def brought(
    seam: Literal["worker", "missed", "pages", "schedules"], *args: object, config: object = None
) -> Iterator[Any]:
    """What features bring at a seam; a feature of others that fails is logged, and brings nothing there."""
    for claim in found(seam, config):
        made: Sequence[Any] = ()
        with _failing_alone(claim, seam):
            made = list(claim(*args))
        yield from made


def chores(
    where: Sequence[str], host: object, features: Iterable[Feature]
) -> Iterator[tuple[Chore, Callable[..., Any]]]:
    """The chores of these features that this `client.host.Host` does there, and what does each; as `brought`."""
    for feature in features:
        for chore in feature.chores:
            if not set(where).isdisjoint(chore.where):
                claim, made = Claim(feature, chore.place), list[Callable[..., Any]]()
                with _failing_alone(claim, f"chore {chore.name}"):
                    made.append(claim(host))
                yield from ((chore, each) for each in made)


@contextmanager
def _failing_alone(claim: Claim, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(error, ConfigError) or claim.feature.package.startswith(f"{__package__}."):
            raise
        logger.exception("feature %s failed, and brings no %s", claim, what)
