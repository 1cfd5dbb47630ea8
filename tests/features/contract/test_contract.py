"""What applications expect of each other's jobs: exported, compared, written as classes."""

import ast
import dataclasses
import datetime as dt
import decimal
import enum
import json
import subprocess
import sys
import uuid
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict

import pytest
from support.processes import run_python

from kiqbridge import ConfigError, Job, RemoteJob, job
from kiqbridge.client.default_client import own_default_client
from kiqbridge.client.job import _remote, remote_jobs
from kiqbridge.client.registry import default_registry, definition_of
from kiqbridge.features.contract.compare import compare, fits
from kiqbridge.features.contract.document import (
    Contract,
    JobContract,
    Parameter,
    class_name_of,
    contract_of,
    export,
    read_contract,
    write_stubs,
)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(default_registry, "_definitions", {})
    for name in list(_remote):
        monkeypatch.delitem(_remote, name)
    with own_default_client():
        yield
    _remote.clear()


class Colour(enum.Enum):
    RED = "red"


class Row(TypedDict):
    number: int


@dataclasses.dataclass
class Line:
    number: int


UserId = NewType("UserId", int)


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (int, "integer"),
        (bool, "boolean"),
        (float, "number"),
        (str, "string"),
        (None, "null"),
        (uuid.UUID, "string:uuid"),
        (dt.datetime, "string:date-time"),
        (dt.date, "string:date"),
        (decimal.Decimal, "string:decimal"),
        (Colour, "string"),
        (Row, "object"),
        (Line, "object"),
        (dict[str, int], "object"),
        (list[int], "array"),
        (tuple[int, str], "array"),
        (set[int], "array"),
        (int | None, "integer|null"),
        (Optional[uuid.UUID], "string:uuid|null"),  # noqa: UP045 - people write it
        (Literal["a", 1], "string|integer"),
        (Annotated[int, "x"], "integer"),
        (UserId, "integer"),
        (int | Any, "any"),
        (Any, "any"),
        (object, "any"),
    ],
)
def test_the_type_of_an_annotation(hint, name):
    def take(value): ...

    take.__annotations__["value"] = hint

    [parameter] = contract_of(definition_of(job(take))).parameters

    assert parameter.type == name


def shop():
    @job(queue="mail")
    def send_invoice(number: int, copy: bool = False) -> None: ...

    class Report(Job):
        class_name = "Reports::Nightly"

        def perform(self, day: dt.date, *rest: str) -> None: ...

    class HardJob(RemoteJob):
        queue = "ruby"

        def perform(self, user_id: int, name: str) -> None: ...

    return export(default_registry, remote_jobs(), app="shop")


def test_a_contract_names_what_is_performed_and_what_is_enqueued():
    contract = shop()
    assert set(contract.jobs) == {"send_invoice", "Reports::Nightly"}
    invoice, report = contract.jobs["send_invoice"], contract.jobs["Reports::Nightly"]
    assert invoice.parameters == (
        Parameter(name="number", type="integer"),
        Parameter(name="copy", type="boolean", optional=True),
    )
    assert (invoice.queue, invoice.least, invoice.most) == ("mail", 1, 2)
    assert invoice.place.startswith("tests/features/contract/test_contract.py:")
    assert (report.least, report.most, report.takes_more) == (1, float("inf"), True)
    assert report.parameters[0].type == "string:date"
    assert set(contract.enqueues) == {"HardJob"}
    assert default_registry.find("HardJob") is None
    assert read_contract(contract.to_text(), "x") == contract


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "is no contract"),
        ("{}", "is no contract"),
        ('{"contract": 9}', "version 9"),
        ('{"contract": 1}', "is no contract"),
        ('{"contract": 1, "jobs": {"A": 7}}', "is no contract"),
        (
            '{"contract": 1, "jobs": {"A": {"parameters": [{"name": "x", "type": "int"}]}}}',
            "no type 'int'",
        ),
    ],
)
def test_what_is_no_contract_is_refused_by_its_name(text, said):
    with pytest.raises(ConfigError, match=said) as caught:
        read_contract(text, "rails.json")
    assert str(caught.value).startswith("rails.json: ")


def contract(app, jobs=(), enqueues=()):
    return Contract(app=app, language="ruby", jobs=dict(jobs), enqueues=dict(enqueues))


def takes(*types, optional=0, more=False, queue=""):
    places = len(types) - optional
    return JobContract(
        parameters=tuple(
            Parameter(name=f"p{n}", type=each, optional=n >= places) for n, each in enumerate(types)
        ),
        takes_more=more,
        queue=queue,
    )


class TestComparing:
    def test_only_an_enqueue_that_nobody_performs_is_found_where_sides_agree(self):
        python = contract("shop", {"A": takes("integer")}, {"B": takes("string", "any")})
        ruby = contract("rails", {"B": takes("any", "any", optional=1)}, {"A": takes("integer")})
        assert compare([python, ruby]) == []
        [found] = compare([contract("shop", enqueues={"HradJob": takes("any")}), ruby, python])
        assert (found.job, found.kind) == ("HradJob", "not performed")
        assert "shop enqueues it" in found.text

    @pytest.mark.parametrize(
        ("given", "taken", "kind", "told"),
        [
            (takes("any"), takes("any", "any"), "arity", "rails takes"),
            (takes("any", "any", "any"), takes("any", "any"), "arity", "rails takes"),
            (takes("any", more=True), takes("any"), "arity", "rails takes"),
            (takes("any", "any", optional=1), takes("any", "any"), "arity", "rails takes"),
            (takes("any", "string"), takes("any", "integer"), "type", "string as argument 2 (p1)"),
        ],
    )
    def test_what_is_not_taken(self, given, taken, kind, told):
        [found] = compare(
            [contract("shop", enqueues={"A": given}), contract("rails", {"A": taken})]
        )
        assert found.kind == kind
        assert told in found.text

    def test_one_name_performed_by_two_in_one_queue(self):
        sides = [contract("a", {"A": takes("any")}), contract("b", {"A": takes("any", "any")})]
        assert [each.kind for each in compare(sides)] == ["performed twice"]

        others = [
            contract("a", {"A": takes("any", queue="x")}),
            contract("b", {"A": takes("any", "any", queue="y")}),
        ]
        assert compare(others) == []

    @pytest.mark.parametrize(
        ("given", "expected", "does"),
        [
            ("integer", "number", True),
            ("number", "integer", False),
            ("any", "integer", True),
            ("integer", "integer|null", True),
            ("integer|null", "integer", False),
            ("string", "string:uuid", True),
            ("string:uuid", "string", True),
            ("string:uuid", "string:date", False),
        ],
    )
    def test_what_fits(self, given, expected, does):
        assert fits(given, expected) is does


def active(*parameters, **options):
    return JobContract(parameters=parameters, active_job=True, **options)


def keyword(name, type="any", *, optional=False):  # noqa: A002 - as of a parameter
    return Parameter(name=name, type=type, optional=optional, keyword=True)


@pytest.mark.parametrize(
    ("given", "taken", "kinds"),
    [
        (active(keyword("copy")), active(keyword("copy"), keyword("lang", optional=True)), []),
        (active(keyword("copy", optional=True)), active(keyword("copy")), ["arity"]),
        (active(), active(keyword("copy")), ["arity"]),
        (active(keyword("cpoy")), active(keyword("copy")), ["arity", "arity"]),
        (active(keyword("x")), active(takes_more_keywords=True), []),
        (active(keyword("x", "string")), active(keyword("x", "integer")), ["type"]),
        (takes(), active(), ["Active Job"]),
        (active(), takes(), ["Active Job"]),
        (takes(more=True), takes("any", "any"), []),
    ],
)
def test_active_jobs_are_compared_by_their_keywords_and_their_kind(given, taken, kinds):
    caller = Contract(app="shop", language="python", jobs={}, enqueues={"A": given})

    assert [each.kind for each in compare([caller, contract("rails", {"A": taken})])] == kinds


RUBY = contract(
    "rails",
    {
        "HardJob": takes("integer", "string|null", optional=1, queue="ruby"),
        "Billing::CloseDayJob": takes("string:date", "string:uuid", more=True),
    },
)


def run_with_stubs(folder, stubs, script):
    """What a program of its own prints that imports the stubs."""
    (folder / "ruby_jobs.py").write_text(stubs)
    return json.loads(run_python(f"import json, ruby_jobs\n{script}", cwd=folder).stdout)


def test_stubs_are_python_that_enqueues(tmp_path):
    text = write_stubs(RUBY)
    told = run_with_stubs(
        tmp_path,
        text,
        "from kiqbridge.client.registry import definition_of, default_registry as r\n"
        "print(json.dumps([definition_of(ruby_jobs.BillingCloseDayJob).name, ruby_jobs.HardJob.queue, len(r)]))",
    )
    assert told == ["Billing::CloseDayJob", "ruby", 0]
    assert "def perform(self, p0: int, p1: str | None = ...) -> None: ..." in text
    assert "def perform(self, p0: date, p1: UUID, *more: Any) -> None: ..." in text
    assert "from datetime import date" in text


def test_stubs_of_active_jobs_are_active_jobs(tmp_path):
    parameters = (Parameter(name="day"), keyword("copy"), keyword("lang", optional=True))
    close = active(*parameters, keyword("class"), queue="billing")
    payload = run_with_stubs(
        tmp_path,
        write_stubs(contract("rails", {"Billing::CloseDayJob": close})),
        "from kiqbridge.rails import Symbol\n"
        "from kiqbridge.testing import fake\n"
        "with fake() as jobs:\n"
        "    ruby_jobs.BillingCloseDayJob.perform_async(Symbol('x'), copy=True, **{'class': 1})\n"
        "    print(json.dumps(jobs.jobs[0].payload))",
    )
    assert (payload["wrapped"], payload["queue"]) == ("Billing::CloseDayJob", "billing")
    [symbol, keywords] = payload["args"][0]["arguments"]
    assert symbol["_aj_serialized"].endswith("SymbolSerializer")
    assert keywords == {"copy": True, "class": 1, "_aj_ruby2_keywords": ["copy", "class"]}


@pytest.mark.parametrize(
    "text",
    ['x"""\nprint()\n"""', "x'''\nprint()", "x\\", "x\ud800", "²", "Any", "RemoteJob", "ﬁx", "\0"],
)
def test_a_contracts_texts_are_data_in_its_stubs_and_never_code(text):
    odd = active(Parameter(name=text), keyword(text), queue=text, place=text)

    stubs = write_stubs(
        Contract(app=text, language=text, jobs={f"{text}::A": odd, text: odd, "B": takes()})
    )

    compile(stubs.encode(), "stubs", "exec")
    tree = ast.parse(stubs)
    assert {type(each) for each in tree.body} == {ast.Expr, ast.ImportFrom, ast.ClassDef}
    assert not [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    assert text in {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)}


def test_the_command_exports_compares_and_writes(tmp_path):
    def kiqbridge(*words):
        return subprocess.run(
            [sys.executable, "-m", "kiqbridge", "contract", *words],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    (tmp_path / "jobs.py").write_text(
        "from kiqbridge import RemoteJob, job\n\n"
        "@job\ndef greet(name: str): ...\n\n"
        "class HardJob(RemoteJob):\n    def perform(self): ...\n"
    )
    (tmp_path / "rails.json").write_text(RUBY.to_text())

    exported = kiqbridge("export", "-r", "jobs.py", "--app", "shop", "-o", "own.json")
    checked = kiqbridge("check", "own.json", "rails.json")
    as_json = kiqbridge("check", "rails.json", "-r", "jobs.py", "--json")
    stubs = kiqbridge("stubs", "rails.json")
    missing = kiqbridge("check", "nowhere.json")

    assert exported.stdout == "written to own.json\n", exported.stderr
    assert set(json.loads((tmp_path / "own.json").read_text())["jobs"]) == {"greet"}
    assert checked.returncode == 1
    assert checked.stdout.endswith("2 applications, 3 jobs, 1 enqueues: 1 disagreements\n")
    assert [each["kind"] for each in json.loads(as_json.stdout)] == ["arity"]
    assert "class HardJob(RemoteJob):" in stubs.stdout
    assert missing.returncode != 0
    assert "nowhere.json: cannot be read" in missing.stderr


def test_names_and_orders_that_python_does_not_take():
    assert class_name_of("Billing::CloseDayJob") == "BillingCloseDayJob"
    assert class_name_of("shop.tasks.send_mail") == "ShopTasksSend_mail"
    assert class_name_of("3D") == "Job3D"
    odd = JobContract(parameters=(Parameter(name="class", optional=True), Parameter(name="b")))
    assert "(self, argument_1: Any, b: Any)" in write_stubs(contract("x", {"A": odd}))
    with pytest.raises(ConfigError, match="another job"):
        write_stubs(contract("x", {"A::B": takes(), "AB": takes()}))
