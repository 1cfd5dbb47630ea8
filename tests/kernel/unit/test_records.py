"""The `dataclass` of what is loaded at a start does what that of the standard library does."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from support.processes import run_python

from kiqbridge.runtime import records

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, records.dataclass])
FORMS = [
    {},
    {"slots": True},
    {"slots": True, "kw_only": True},
    {"frozen": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
]


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    number: int
    labels: tuple[str, ...] = ()


def made(dataclass: Decorator, **form: bool) -> Any:
    class Sample:
        """A sample."""

        name: str
        count: int = 3
        secret: str = dataclasses.field(default="s", repr=False)
        tags: list[str] = dataclasses.field(default_factory=list)
        place: int = dataclasses.field(default=0, compare=False)

    return dataclass(**form)(Sample) if form else dataclass(Sample)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_objects_are_made_shown_and_compared_as_those_of_the_standard_library(form):
    ours, theirs = (made(each, **form) for each in (records.dataclass, dataclasses.dataclass))

    assert [f.name for f in dataclasses.fields(ours)] == [
        f.name for f in dataclasses.fields(theirs)
    ]
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__doc__ == theirs.__doc__
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)
    for given in ({"name": "a"}, {"name": "a", "count": 4, "tags": ["x"], "place": 9}):
        our, their = ours(**given), theirs(**given)
        assert dataclasses.asdict(our) == dataclasses.asdict(their)
        if form.get("repr", True):
            assert repr(our) == repr(their)
        other = {**given, "place": 10}
        assert (our == ours(**other)) == (their == theirs(**other))
        assert (our == ours(**{**given, "name": "b"})) == (
            their == theirs(**{**given, "name": "b"})
        )
        assert our != their
        assert dataclasses.replace(our, count=7).count == 7
        again = copy.copy(our)
        assert dataclasses.asdict(again) == dataclasses.asdict(our)
    assert ours("a", 5).count == 5 if not form.get("kw_only") else True
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert hasattr(ours, "__slots__") == hasattr(theirs, "__slots__")


@pytest.mark.parametrize("form", FORMS)
def test_the_signature_is_known_before_the_first_object(form):
    signature = inspect.signature(made(records.dataclass, **form))

    assert str(signature) == str(inspect.signature(made(dataclasses.dataclass, **form)))


@BOTH
def test_wrong_arguments_are_refused_and_each_object_has_a_default_of_its_own(dataclass):
    sample = made(dataclass, kw_only=True)
    for given, keywords in (((), {}), (("a", "b"), {}), ((), {"name": "a", "what": 1})):
        with pytest.raises(TypeError):
            sample(*given, **keywords)
    first, second = sample(name="a"), sample(name="b")
    first.tags.append("x")
    assert second.tags == []


@BOTH
def test_what_is_frozen_cannot_be_changed(dataclass):
    sample = made(dataclass, frozen=True, slots=True)("a")

    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        sample.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
        del sample.name
    assert sample.name == "a"


@BOTH
def test_equal_frozen_objects_have_equal_hashes_match_and_can_be_copied(dataclass):
    sent, other = (Sent(number=1, labels=labels) for labels in ((), ()))
    assert hash(sent) == hash(other) == hash((1, ()))
    assert len({sent, other, Sent(number=2, labels=())}) == 2
    assert pickle.loads(pickle.dumps(sent)) == copy.deepcopy(sent) == sent
    match made(dataclass, frozen=True, slots=True)("a", 4):
        case object(name=name, count=4):
            assert name == "a"
        case _:
            raise AssertionError


def test_a_field_that_is_not_equal_to_itself_does_not_make_an_object_unequal_to_itself():
    # As the standard library up to Python 3.12; that of 3.13 compares field by field.
    @records.dataclass(frozen=True, slots=True)
    class One:
        value: float

    nan = float("nan")

    assert One(nan) == One(nan)


@BOTH
def test_methods_of_the_class_are_kept(dataclass):
    @dataclass(frozen=True, slots=True)
    class Own:
        url: str

        def __post_init__(self) -> None:
            object.__setattr__(self, "url", self.url.strip())

        def __repr__(self) -> str:
            return "<Own>"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert Own(" a ").url == "a"
    assert repr(Own("a")) == "<Own>"
    assert Own("a") == 3
    assert hash(Own("a")) == 5


@BOTH
def test_a_comparison_of_its_own_leaves_the_hash_to_the_fields(dataclass):
    @dataclass(frozen=True)
    class Own:  # noqa: PLW1641 - the decorator adds it
        number: int

        def __eq__(self, other: object) -> bool:
            return False

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    assert hash(Own(1)) == hash((1,))
    assert Nothing() == Nothing()
    assert repr(Nothing()).endswith("Nothing()")
    assert hash(Nothing()) == hash(())


@BOTH
def test_a_field_without_a_parameter_has_its_default(dataclass):
    @dataclass(slots=True)
    class Counting:
        name: str
        count: int = dataclasses.field(default=0, init=False)
        seen: list[object] = dataclasses.field(default_factory=list, init=False)

    counting = Counting("a")
    assert (counting.count, counting.seen) == (0, [])
    counting.seen.append(counting)
    assert "seen=[...]" in repr(counting)


@BOTH
@pytest.mark.parametrize("other", [dataclasses.dataclass, records.dataclass])
def test_a_class_can_inherit_fields(dataclass, other):
    base = made(dataclass, frozen=True, slots=True)

    @other(frozen=True, slots=True)
    class Larger(base):
        more: int = 1

    larger = Larger("a", more=2)
    assert dataclasses.asdict(larger)["more"] == 2
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @other
        class Open(base):
            more: int = 1


@BOTH
def test_a_subclass_without_the_decorator_is_made_by_the_same_parameters(dataclass):
    base = made(dataclass, slots=True)

    class Special(base):
        def __init__(self) -> None:
            super().__init__("special")

    assert Special().name == "special"
    assert base("other").name == "other"


def test_what_a_worker_loads_at_its_start_is_made_by_it():
    """The standard library's takes nearly a millisecond for each class."""
    code = (
        "import dataclasses, sys\n"
        "made = []\n"
        "original = dataclasses.dataclass\n"
        "def noted(cls=None, **form):\n"
        "    if 'init' not in form: made.append(sys._getframe(1).f_globals['__name__'])\n"
        "    return original(cls, **form)\n"
        "dataclasses.dataclass = noted\n"
        "import kiqbridge.commands.cli, kiqbridge.commands.worker_command, kiqbridge.aws.handler\n"
        "print(*[name for name in made if name.startswith('kiqbridge')])"
    )

    assert run_python(code).stdout.split() == []
