"""Ruby's client enqueues, our worker performs: the Python job says what it got."""

import pytest
from support.evidence import Evidence
from support.ruby import run_ruby
from support.values import BY_NAME, VALUES

pytestmark = pytest.mark.interop

DIRECTION = "Ruby enqueues, Python performs"

JOBS = """
from kiqbridge import Job
from support.evidence import testify


class Witness(Job):
    def perform(self, *args):
        testify(self.jid, args)


class NestedWitness(Witness):
    class_name = "Reports::Nightly"
"""
RUBY = """
class Witness
  include Sidekiq::Worker
end
"""
POLLER_BOUND_S = 5
"""Our poller is precise; the rest is a busy machine."""


@pytest.fixture(scope="module")
def url(server, evidence, python_worker) -> str:
    """The server of this module, served by one worker of ours."""
    with python_worker(JOBS, "-c", "2", "-q", "default", "-q", "mail"):
        yield server.url


@pytest.fixture(scope="module")
def jids_of_values(url) -> dict[str, str]:
    """Ruby pushes each value as the only argument of a job."""
    pushes = "\n".join(
        f"jids[{value.name!r}] = Witness.perform_async({value.ruby})" for value in VALUES
    )
    return run_ruby(f"{RUBY}\njids = {{}}\n{pushes}\nanswer jids", url)


def said(evidence: Evidence, jid: str) -> str:
    return evidence.wait(jid).said


@pytest.mark.operation("values")
@pytest.mark.parametrize("name", BY_NAME)
def test_a_value_that_ruby_enqueues_reaches_a_python_job_unchanged(name, jids_of_values, evidence):
    assert said(evidence, jids_of_values[name]) == ascii((BY_NAME[name].python,))


REPORTS = """
module Reports
  class Nightly
    include Sidekiq::Worker
  end
end
"""
PUSHES = {
    "perform_async": [
        ('Witness.perform_async(1, "two", [3.0], nil)', "(1, 'two', [3.0], None)"),
        ("Witness.perform_async", "()"),
        ('Reports::Nightly.perform_async("2026-01-31")', "('2026-01-31',)"),
    ],
    "set": [('Witness.set(queue: "mail").perform_async("by mail")', "('by mail',)")],
    "push": [
        (
            'Sidekiq::Client.push("class" => "Witness", "args" => [2**70], "tenant" => "acme")',
            "(1180591620717411303424,)",
        )
    ],
    "enqueue_to_in": [
        ('Sidekiq::Client.enqueue_to_in("mail", 0.3, Witness, "in the mail")', "('in the mail',)")
    ],
    "perform_in": [('Witness.perform_in(-1, "now")', "('now',)")],
}
"""Operation → what Ruby calls, and with which arguments the job of Python runs."""


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        pytest.param(*case, marks=pytest.mark.operation(operation), id=case[0][:40])
        for operation, cases in PUSHES.items()
        for case in cases
    ],
)
def test_what_ruby_pushes_runs_here_with_its_arguments(url, evidence, call, arguments):
    assert said(evidence, run_ruby(f"{RUBY}{REPORTS} answer {call}", url)) == arguments


@pytest.mark.operation("perform_in")
def test_perform_in_runs_when_it_is_due_and_hardly_later(url, evidence):
    script = (
        f'{RUBY} due = Time.now.to_f + 0.7; answer [due, Witness.perform_in(0.7, "later", -0.0)]'
    )

    due, jid = run_ruby(script, url)

    testimony = evidence.wait(jid)
    assert testimony.said == "('later', -0.0)"
    assert due <= testimony.at <= due + POLLER_BOUND_S


@pytest.mark.operation("push_bulk")
def test_push_bulk_runs_one_job_per_list_of_arguments(url, evidence):
    script = f"""{RUBY}
    args = [[1.0], [-0.0], [2**70], [nil], [[]], []]
    answer Sidekiq::Client.push_bulk("class" => Witness, "queue" => "mail", "args" => args)
    """

    jids = run_ruby(script, url)

    expected = ["(1.0,)", "(-0.0,)", "(1180591620717411303424,)", "(None,)", "([],)", "()"]
    assert [said(evidence, jid) for jid in jids] == expected


@pytest.mark.operation("push_bulk")
def test_push_bulk_with_a_time_for_each_job_runs_each_when_it_is_due(url, evidence):
    script = f"""{RUBY}
    now = Time.now.to_f
    times = [now + 0.3, now + 0.9]
    answer [times, Sidekiq::Client.push_bulk("class" => Witness, "args" => [[1], [2]], "at" => times)]
    """

    times, jids = run_ruby(script, url)

    for due, jid, expected in zip(times, jids, ["(1,)", "(2,)"], strict=True):
        testimony = evidence.wait(jid)
        assert testimony.said == expected
        assert due <= testimony.at <= due + POLLER_BOUND_S


@pytest.mark.operation("perform_bulk")
def test_each_of_rubys_jobs_is_performed_once(url, evidence):
    jids = run_ruby(f"{RUBY} answer Witness.perform_bulk((1..300).map {{ |n| [n] }})", url)

    for jid in jids:
        evidence.wait(jid)
    assert [len(evidence.of(jid)) for jid in jids] == [1] * 300
